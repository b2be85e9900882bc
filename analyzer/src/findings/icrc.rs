//! Corrupt packets.

use super::title::{pair, short, title};
use super::{Commands, Impact, Place, ends};
use super::{Entry, Family, Input, Measure, Need, Raise, Unit, label};
use crate::analysis::Flow;
use crate::findings::{Finding, Severity};
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family = Family {
    entries: &[ERRORS],
    limits: &[Limits::META],
    evidence: &[
        label("bad", "packets with a wrong ICRC", Unit::Count),
        label("checked", "packets checked", Unit::Count),
        label("unchecked", "packets cut, not checked", Unit::Count),
        label("bad_ratio", "corruption ratio", Unit::Ratio),
    ],
    check,
};

const ERRORS: Entry = Entry {
    id: "icrc.errors",
    rank: 150,
    needs: &[Need::Frames],
    measure: Some(Measure::ratio("bad_ratio")),
    title: "Corruption: wrong invariant CRC (ICRC)",
    meaning: "A device between the sender and this tap changes packets in bits that must not change. Ethernet's FCS did not notice, so it happens inside a device: memory of a switch or NIC, a faulty ASIC, or software that rewrites headers. The receiver drops such packets, which looks like loss downstream.",
    computed: "The ICRC is computed over whole frames in replay; frames cut by a snap length are not evaluated. A warning from `packets` packets with a wrong ICRC \
                 and the share `ratio` of a link, else info. Flows in which nearly all packets are wrong (the share `always`) are reported separately, as info: there \
                 the sender's NIC fills in the ICRC downstream of the capture, or a device on the path rewrites addresses, ports or the IP identification.",
    advice: "Narrow down the location with a second tap: the faulty device is between a tap where the packets are correct and one where they are wrong. Check its \
               memory error and FCS counters (of cut-through switches also the upstream ports) and replace it. On the receiver, rx_icrc_encapsulated and \
               rx_roce_errors count the same packets.",
    caveat: "Address translation breaks the ICRC of all packets that pass it.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "icrc";
    packets: u64 = 3,
        "minimum corrupt packets on a link for a warning",
        "A single one may be a bit that flipped once";
    ratio: f64 = 0.000_001,
        "minimum share of corrupt packets for a warning",
        "A link at the bit error rate of 1e-12 that Ethernet allows damages 3 in 100 million packets of 4 KB, and its FCS finds those";
    always: f64 = 0.9,
        "minimum share of wrong ICRCs in a flow that means rewriting, not corruption",
        "Corruption does not hit nearly every packet of a flow that goes on";
}

/// Fewer packets do not tell a flow that is rewritten from one that a damaged packet made up.
const ALWAYS_AT_LEAST: u64 = 5;

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.icrc;
    let is_always = |flow: &Flow| {
        flow.icrc.is_some_and(|icrc| {
            icrc.checked >= ALWAYS_AT_LEAST && icrc.bad as f64 >= limits.always * icrc.checked as f64
        })
    };
    for link in &input.facts.links {
        let on_link = || {
            input.facts.flows.iter().filter(|flow| flow.link == link.name && flow.direction == link.direction)
        };
        let Some(all) = link.icrc.filter(|icrc| icrc.bad > 0) else { continue };
        let (mut damaged, always): (Vec<&Flow>, Vec<&Flow>) = on_link()
            .filter(|flow| flow.icrc.is_some_and(|icrc| icrc.bad > 0))
            .partition(|flow| !is_always(flow));
        let bad_of = |flow: &&Flow| flow.icrc.map_or(0, |icrc| icrc.bad);
        let bad_always: u64 = always.iter().map(bad_of).sum();
        let checked_always: u64 = always.iter().filter_map(|flow| flow.icrc).map(|icrc| icrc.checked).sum();
        let (bad, checked) =
            (all.bad - bad_always.min(all.bad), all.checked - checked_always.min(all.checked));
        if bad > 0 {
            let ratio = bad as f64 / checked.max(1) as f64;
            let severe = bad >= limits.packets && ratio >= limits.ratio;
            damaged.sort_by_key(|flow| std::cmp::Reverse(bad_of(flow)));
            let diagnosis = format!(
                "Corruption upstream of {}: {} of {} with a wrong ICRC",
                short(&link.name),
                units::count(bad),
                plural(checked, "packet")
            );
            let share = format!(" ({})", units::ratio(Some(ratio)));
            let place = Place::link(input, &link.name, link.direction).hop("upstream");
            let (requester, responder) = ends::of_data(input, damaged.iter().copied());
            let here = Commands::on(input, &link.name);
            let severity = if severe { Severity::Warning } else { Severity::Info };
            Raise::new(&ERRORS, severity, title(diagnosis, [share]))
                .evidence("bad", bad)
                .evidence("checked", checked)
                .evidence("unchecked", all.unchecked)
                .evidence("bad_ratio", ratio)
                .flows(damaged)
                .place(place)
                .ends(requester, responder)
                .impact(Impact { packets_ratio: Some(ratio), ..Impact::default() })
                .step(
                    "Capture at a second point to find the device between a correct and a wrong ICRC.",
                    None,
                )
                .step("Check its memory error, parity and FCS counters.", here.nic_counters())
                .step(
                    "Count rx_icrc_encapsulated and rx_roce_errors on the receiving NIC.",
                    here.rdma_counters(),
                )
                .into(found);
        }
        if let Some(first) = always.first() {
            let diagnosis = format!(
                "ICRC always wrong in {} on {}: rewritten, or filled in later",
                plural(always.len() as u64, "flow"),
                short(&link.name)
            );
            let (requester, responder) = ends::of_data(input, [*first]);
            Raise::new(&ERRORS, Severity::Info, title(diagnosis, [pair(first.src, first.dst)]))
                .evidence("bad", bad_always)
                .evidence("checked", checked_always)
                .flows(always)
                .place(Place::link(input, &link.name, link.direction))
                .ends(requester, responder)
                .step(
                    "Check whether the capture point is before the NIC fills in the ICRC (a sending host).",
                    None,
                )
                .step("Check for address translation or header rewriting between sender and tap.", None)
                .into(found);
        }
    }
}
