//! Capture loss.

use crate::analysis::Lost;
use crate::findings::period::{Period, scaled};
use crate::findings::{ByHand, Entry, Episode, Family, Finding, Input, Measure, Problem, Raise, Severity};
use crate::sample::MissedInterval;
use crate::util::numbers::share;
use crate::util::time::NS_PER_S;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family { entries: &[LOST], limits: &[Limits::META], evidence: &[], check };

pub(super) const LOST: Entry = Entry {
    id: "tool.lost",
    rank: 10,
    measure: Some(Measure::ratio("lost_ratio").grading()),
    title: "Capture loss",
    meaning: "The figures are incomplete: packets were dropped before rocescope saw them, or counted without their flow. PSN gaps may then be capture loss and not \
                loss in the fabric.",
    computed: "Raised when any of totals.lost is above 0.\n\
               \n\
               Critical when RoCE packets without a flow and packets dropped by the capture or the interface exceed the share tool.lost_ratio of all frames, else a warning; info when \
               only events, source ports, or bins of bursts and steps were not recorded, because all counts are then exact.\n\
               \n\
               Figures are those of the latest episode ({EPISODE_GAP_NS} without capture loss end one); of what a capture says it dropped no time is known, and then they are those of the run.",
    advice: "flow_table_full: raise --max-flows, or reduce the traffic with --filter or fewer interfaces. events_dropped: counters are exact, only the event list \
               is incomplete. bins_dropped: too many flows send in each bin, so that bursts, incast and steps are incomplete; watch fewer interfaces, and leave --bin \
               at 1ms. capture_drops: capture with a smaller snap length (-s 128) and a larger buffer (tcpdump -B). interface_drops: check `ethtool -S` for ring \
               overruns and enlarge the ring (ethtool -G).",
    caveat: "The drop counter of libpcap's RDMA sniffer is always 0. On virtual interfaces interface_drops also counts frames of protocols without a handler.",
    ..Entry::of(Problem::Capture)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "tool";
    lost_ratio: f64 = 0.001,
        "maximum share of frames missed for a warning; above it the finding is critical",
        "Findings of loss start at one packet in ten thousand: with ten times as many missed by the capture they are unreliable";
}

/// Packets dropped by rocescope, the capture or the interface, as far as known.
pub(super) fn own(lost: &Lost) -> u64 {
    // A file may claim any number.
    let outside = lost.capture_drops.unwrap_or(0).saturating_add(lost.interface_drops.unwrap_or(0));
    outside.saturating_add(lost.flow_table_full + lost.contended)
}

/// Upper bound of these drops between two Unix times in nanoseconds: those without a time of their own are included.
pub(super) fn own_between(input: &Input<'_>, times: Option<(u64, u64)>) -> u64 {
    let all = own(&input.facts.totals.lost);
    let Some((first_ns, last_ns)) = times else { return all };
    let period = Period::between(first_ns, last_ns).with_surroundings();
    let elsewhere =
        |interval: &&MissedInterval| interval.last_ns < period.first_ns || interval.first_ns > period.last_ns;
    let intervals = input.sample.missed.intervals.iter().filter(elsewhere);
    all.saturating_sub(intervals.map(|interval| interval.missed.packets()).sum())
}

/// The packets and events missed, in the latest episode or in the run.
struct Latest {
    lost: Lost,
    ratio: f64,
    /// All episodes; empty where the times are not known.
    episodes: Vec<Episode>,
}

/// The latest time in which packets were missed, else that in which something else was; the run where a part has no
/// times.
fn latest(input: &Input<'_>) -> Latest {
    let totals = &input.facts.totals;
    let intervals = &input.sample.missed.intervals;
    let of_packets = own(&totals.lost) > 0;
    let alike = || intervals.iter().filter(|interval| !of_packets || interval.missed.packets() > 0);
    let untimed = totals.lost.capture_drops.is_some_and(|drops| drops > 0);
    let Some(last) = alike().next_back().filter(|_| !untimed) else {
        let ratio = missed_of(own(&totals.lost), totals.packets);
        return Latest { lost: totals.lost, ratio, episodes: Vec::new() };
    };
    let ratio = |interval: &MissedInterval| missed_of(interval.missed.packets(), meanwhile(input, interval));
    let episode = |interval: &MissedInterval| Episode {
        first_ns: interval.first_ns,
        last_ns: interval.last_ns,
        peak: of_packets.then(|| ratio(interval)),
    };
    Latest { lost: counts(&totals.lost, last), ratio: ratio(last), episodes: alike().map(episode).collect() }
}

/// Share of what was missed in all that there was.
fn missed_of(missed: u64, seen: u64) -> f64 {
    share(missed, seen.saturating_add(missed))
}

/// Counts of an interval; one that is unknown for the run is unknown here.
fn counts(all: &Lost, interval: &MissedInterval) -> Lost {
    let missed = &interval.missed;
    Lost {
        flow_table_full: missed.flow_table_full,
        contended: missed.contended,
        extra_table_full: missed.extra_table_full,
        events_dropped: all.events_dropped.map(|_| missed.events),
        bins_dropped: all.bins_dropped.map(|_| missed.bins),
        interface_drops: all.interface_drops.map(|_| missed.interface_drops),
        ..*all
    }
}

/// Frames in the time of an interval. Those that are in no present flow are taken as evenly spread over the run.
fn meanwhile(input: &Input<'_>, interval: &MissedInterval) -> u64 {
    let facts = input.facts;
    let in_flows: u64 = facts.flows.iter().map(|flow| flow.packets).sum();
    let others = facts.totals.packets.saturating_sub(in_flows);
    let length_ns = interval.last_ns.saturating_sub(interval.first_ns).max(NS_PER_S);
    let run_ns = facts.window.length_ns().unwrap_or(0).max(length_ns);
    let period = Period::between(interval.first_ns, interval.last_ns);
    period.all_packets(facts, &facts.flows) + scaled(others, length_ns, run_ns)
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Latest { lost, ratio, episodes } = &latest(input);
    let packets = own(lost);
    let incomplete =
        lost.extra_table_full + lost.events_dropped.unwrap_or(0) + lost.bins_dropped.unwrap_or(0);
    if packets == 0 && incomplete == 0 {
        return;
    }
    let (severity, title) = if packets == 0 {
        let title = "Incomplete events, source ports or bursts; all counts are exact";
        (Severity::Info, title.to_owned())
    } else {
        let severity =
            if *ratio > input.limits.tool.lost_ratio { Severity::Critical } else { Severity::Warning };
        let share = units::ratio(Some(*ratio));
        (severity, format!("Capture loss: {} not counted ({share})", plural(packets, "packet")))
    };
    let mut raise = Raise::new(&LOST, severity, title);
    let steps = [
        (lost.flow_table_full > 0, "Raise --max-flows, or reduce the traffic with --filter."),
        (
            lost.capture_drops > Some(0),
            "Capture with a smaller snap length and a larger buffer: tcpdump -s 128 -B.",
        ),
        (
            lost.interface_drops > Some(0),
            "Check ring overruns (ethtool -S) and enlarge the receive ring (ethtool -G).",
        ),
        (lost.bins_dropped > Some(0), "Watch fewer interfaces, and leave --bin at 1ms."),
    ];
    for (_, step) in steps.into_iter().filter(|(is_due, _)| *is_due) {
        raise = raise.step(step, ByHand::Varies);
    }
    raise
        .evidence("lost_ratio", *ratio)
        .evidence("flow_table_full", lost.flow_table_full)
        .evidence("contended", lost.contended)
        .evidence("events_dropped", lost.events_dropped)
        .evidence("bins_dropped", lost.bins_dropped)
        .evidence("capture_drops", lost.capture_drops)
        .evidence("interface_drops", lost.interface_drops)
        .evidence("extra_table_full", lost.extra_table_full)
        .dated(episodes.clone())
        .into(found);
}
