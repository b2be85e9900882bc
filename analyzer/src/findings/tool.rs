//! What rocescope itself missed.

use super::{Entry, Family, Input, Measure, Raise};
use crate::analysis::Lost;
use crate::findings::{Finding, Severity};
use crate::util::units::plural;

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[LOST], limits: &[Limits::META], evidence: &[], check };

const LOST: Entry = Entry {
    id: "tool.lost",
    rank: 10,
    measure: Some(Measure::ratio("lost_ratio")),
    title: "Packets passed that rocescope did not count in full",
    meaning: "The figures are incomplete: packets were dropped before they could be counted, or counted without their flow. Gaps in PSNs may then be rocescope's own and no \
              loss of the fabric.",
    computed: "Raised when any of totals.lost is above 0. Critical when RoCE packets without a flow and packets dropped by the capture or the interface exceed the share lost_ratio of all \
               frames, else a warning; info when only events did not reach the screen, ports of some packets are not known, or some are missing from bursts and steps, for all counts are then exact.",
    advice: "flow_table_full: raise --max-flows, or narrow with --filter or fewer interfaces. events_dropped: counters are exact, only the list of events has holes. bins_dropped: so many flows send in every bin that bursts, incast and steps are incomplete; watch fewer interfaces, and leave --bin at 1ms. capture_drops: capture with a \
             smaller snap length (-s 128) and a larger buffer (tcpdump -B). interface_drops: look at `ethtool -S` for ring overruns and raise the ring (ethtool -G).",
    caveat: "The drop counter of libpcap's RDMA sniffer is always 0 and says nothing. On virtual interfaces interface_drops also counts frames of protocols that nobody takes.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "tool";
    lost_ratio: f64 = 0.001,
        "share of frames missed from which the finding is critical",
        "One packet in a thousand is what loss findings start to call a loss; when the tool misses that many itself, they cannot be believed";
}

/// Packets that rocescope, the capture or the interface dropped, as far as that is known.
pub(super) fn own(lost: &Lost) -> u64 {
    let found_no_flow = lost.flow_table_full + lost.contended;
    found_no_flow + lost.capture_drops.unwrap_or(0) + lost.interface_drops.unwrap_or(0)
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let totals = &input.facts.totals;
    let lost = &totals.lost;
    let packets = own(lost);
    let incomplete =
        lost.extra_table_full + lost.events_dropped.unwrap_or(0) + lost.bins_dropped.unwrap_or(0);
    if packets + incomplete == 0 {
        return;
    }
    let ratio = packets as f64 / (totals.packets + packets).max(1) as f64;
    let (severity, title) = if packets == 0 {
        (
            Severity::Info,
            "Some events, source ports or bins of traffic were not recorded; all counts are exact".to_owned(),
        )
    } else {
        let severity =
            if ratio > input.limits.tool.lost_ratio { Severity::Critical } else { Severity::Warning };
        let are = if packets == 1 { "is" } else { "are" };
        (severity, format!("{} passed that {are} missing from these figures", plural(packets, "packet")))
    };
    Raise::new(&LOST, severity, title)
        .evidence("lost_ratio", ratio)
        .evidence("flow_table_full", lost.flow_table_full)
        .evidence("contended", lost.contended)
        .evidence("events_dropped", lost.events_dropped)
        .evidence("bins_dropped", lost.bins_dropped)
        .evidence("capture_drops", lost.capture_drops)
        .evidence("interface_drops", lost.interface_drops)
        .evidence("extra_table_full", lost.extra_table_full)
        .into(found);
}
