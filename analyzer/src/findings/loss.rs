//! Lost packets, and on which side of the tap.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::Deserialize;

use super::tool::own;
use super::{Entry, Input, LimitMeta, Raise};
use crate::report::{Between, Finding, Flow, Report, Severity};
use crate::units::{self, plural};

/// Kinds of this family.
pub(super) const ENTRIES: &[Entry] = &[BEFORE, AFTER, BETWEEN];

/// What to look at on whichever side it is.
macro_rules! lossless {
    () => {
        "A lossless fabric does not lose RoCE to full buffers: check that PFC is on for the priority that RoCE uses at every hop (`dcb pfc show`, mlnx_qos), that hosts and \
         switches map the DSCP of RoCE to it (trust dscp, NCCL_IB_TC), and buffer and headroom settings. Look for drops at each hop on the way (switch port counters, rx_discards_phy, \
         rx_prioP_buf_discard) and for link errors (symbol errors, bad cables and transceivers)."
    };
}

/// Where to look for what is lost before a tap.
macro_rules! upstream {
    () => {
        "Look between the sender and this tap: the sending host's port, the hops on the way, and this port's own ingress."
    };
}

/// Where to look for what is lost behind it.
macro_rules! downstream {
    () => {
        "Look between this tap and the receiver: the hops on the way, and the receiving host's port and NIC."
    };
}

/// Beside a finding of the other side, which has told the rest.
const UPSTREAM_TOO: &str =
    concat!(upstream!(), " What to check there is the same as for the other side of this tap.");
const DOWNSTREAM_TOO: &str = concat!(
    downstream!(),
    " What to check there is the same as for the other side of this tap. Losses on both sides at once speak for something common to all \
     hops (PFC off for this priority, a DSCP that no hop maps to it) rather than for one bad cable."
);

const BEFORE: Entry = Entry {
    id: "loss.before_tap",
    title: "Packets are lost before they reach this tap",
    meaning: "Between the sender and the place of the capture packets are lost. Each loss makes a sender with go-back-N repeat all that is in flight.",
    computed: "Per link and pair of hosts: PSNs that were skipped here and then sent again, as a share of the packets that should have passed (flows[].loss.lost). PSNs that came late in \
               their own right do not count, nor those that the sender never sent again, for these reached the receiver. Raised from `episodes` separate episodes and the share `ratio` on; critical \
               from `critical_ratio`. Of UC, whose senders send nothing again, skipped PSNs count as lost, and the finding is info. With two taps on the way, only the one nearer the sender is asked.",
    advice: concat!(upstream!(), " ", lossless!()),
    caveat: "Where the capture itself drops packets and the sender repeats for another reason, the first look like losses: while totals.lost grows the title says so.",
};
const AFTER: Entry = Entry {
    id: "loss.after_tap",
    title: "Packets pass this tap and do not arrive",
    meaning: "Receivers ask for packets again that passed here: these were lost behind this tap, or arrived damaged or out of order, which most receivers treat like a loss.",
    computed: "Per link and pair of hosts: times at which a NAK (sequence error) asked for a PSN that had passed here without a gap, and the sender went back to it; of READ responses, times at \
               which they were asked for again (flows[].loss.after_tap). RNR NAKs and what follows them do not count, nor what a mirror shows twice, nor timers that ran out without a NAK. Where no \
               answers are seen, every time the sender went back counts. Raised and graded as loss.before_tap, the share being of episodes among packets. With two taps on the way, only the one nearer \
               the receiver is asked.",
    advice: concat!(downstream!(), " ", lossless!()),
    caveat: "One episode may be more than one lost packet: how many is not visible from here. Reordering behind the tap looks the same; with adaptive routing it needs receivers that put \
             packets in order (NCCL_IB_ADAPTIVE_ROUTING, the NIC's out-of-order placement).",
};
const BETWEEN: Entry = Entry {
    id: "loss.between_taps",
    title: "Packets vanish between two taps",
    meaning: "Packets that passed one tap did not pass the next one on their way: what loses them lies between the two.",
    computed: "Per pair of taps and pair of hosts: packets that the tap nearer the sender saw and the other did not, between packets that both saw (taps[].vanished), without those that the \
               sender never sent again, for these reached the receiver and were missed by the second capture. Raised from `vanished` packets and the share `ratio` on, critical from `critical_ratio`. \
               Not raised from the share `other_way` on: then flows take several ways, of which only one is captured.",
    advice: concat!("Look between these two taps. ", lossless!()),
    caveat: "Taps are not named when their order is not known. Of services that send nothing again, a packet that the second capture missed cannot be told from a lost one.",
};

/// Thresholds of this family.
pub(super) const LIMITS: &[LimitMeta] = &[
    LimitMeta {
        name: "loss.episodes",
        default: "5",
        meaning: "separate episodes from which loss is a finding",
        reason: "Clean links repeat now and then: healthy captures show one or two. Loss that matters comes back",
    },
    LimitMeta {
        name: "loss.vanished",
        default: "5",
        meaning: "packets that vanished between two taps from which it is a finding",
        reason: "As episodes",
    },
    LimitMeta {
        name: "loss.ratio",
        default: "0.0001",
        meaning: "share of lost packets from which it is a warning",
        reason: "One loss costs a go-back-N sender all that is in flight, often 100 to 1,000 packets: 1 lost in 10,000 then costs 1 to 10 % of the throughput",
    },
    LimitMeta {
        name: "loss.critical_ratio",
        default: "0.01",
        meaning: "share of lost packets from which it is critical",
        reason: "By the same count a sender with 100 packets in flight then sends everything twice",
    },
    LimitMeta {
        name: "loss.other_way",
        default: "0.3",
        meaning: "share of packets not seen at a second tap from which they are said to have taken another way",
        reason: "No reliable connection survives such a loss; spraying over two links hides one half of the packets from each",
    },
];

/// Thresholds of this family.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub episodes: u64,
    pub vanished: u64,
    pub ratio: f64,
    pub critical_ratio: f64,
    pub other_way: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { episodes: 5, vanished: 5, ratio: 0.0001, critical_ratio: 0.01, other_way: 0.3 }
    }
}

/// A flow, wherever it is seen.
type Name = (IpAddr, IpAddr, u32);

/// What went wrong between two hosts.
#[derive(Default)]
struct Pair<'a> {
    flows: Vec<(&'a Flow, u64)>,
    packets: u64,
    lost: u64,
    episodes: u64,
    longest_ns: u64,
    largest: u64,
    timeouts: u64,
    last_ns: Option<u64>,
    reliable: bool,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        self.lost as f64 / (self.packets + self.lost).max(1) as f64
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let ends = Ends::of(input.report);
    let from = found.len();
    sides(input, &ends, Side::Before, found);
    sides(input, &ends, Side::After, found);
    told_once(found.get_mut(from..).unwrap_or_default());
    between(input, found);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Flows whose loss on one side is what another tap tells better.
struct Ends<'a> {
    /// Links that another tap is before, of these flows.
    behind: HashSet<(&'a str, Name)>,
    /// Links that another tap is behind.
    ahead: HashSet<(&'a str, Name)>,
}

impl<'a> Ends<'a> {
    fn of(report: &'a Report) -> Self {
        let (mut behind, mut ahead) = (HashSet::new(), HashSet::new());
        for tap in &report.taps {
            let name = (tap.src, tap.dst, tap.dest_qp);
            if let (Some(from), Some(to)) = (&tap.from, &tap.to) {
                ahead.insert((from.as_str(), name));
                behind.insert((to.as_str(), name));
            }
        }
        Self { behind, ahead }
    }

    fn tell_better(&self, side: Side, flow: &Flow) -> bool {
        let key = (flow.link.as_str(), (flow.src, flow.dst, flow.dest_qp));
        match side {
            Side::Before => self.behind.contains(&key),
            Side::After => self.ahead.contains(&key),
        }
    }
}

fn sides(input: &Input<'_>, ends: &Ends<'_>, side: Side, found: &mut Vec<Finding>) {
    let limits = &input.limits.loss;
    let mut links: BTreeMap<&str, BTreeMap<(IpAddr, IpAddr), Pair<'_>>> = BTreeMap::new();
    for flow in &input.report.flows {
        if ends.tell_better(side, flow) {
            continue;
        }
        let pair = links.entry(&flow.link).or_default().entry((flow.src, flow.dst)).or_default();
        add(pair, flow, side);
    }
    for (link, pairs) in links {
        let mut bad: Vec<((IpAddr, IpAddr), Pair<'_>)> = pairs
            .into_iter()
            .filter(|(_, pair)| pair.episodes >= limits.episodes && pair.ratio() >= limits.ratio)
            // Where senders repeat nothing, a capture of every other packet looks like this.
            .filter(|(_, pair)| pair.reliable || pair.ratio() < limits.other_way)
            .collect();
        bad.sort_by(|(_, a), (_, b)| b.ratio().total_cmp(&a.ratio()));
        let Some(((src, dst), worst)) = bad.first() else { continue };
        let (ratio, lost, packets) = (worst.ratio(), worst.lost, worst.packets);
        let share = units::ratio(Some(ratio));
        let what = match side {
            Side::Before => format!(
                "{share} of the packets from {src} to {dst} are lost before {link}: {lost} of {}",
                packets + lost
            ),
            Side::After => format!(
                "{dst} asked {lost} times for packets from {src} that had passed {link}: lost behind it, or \
                 arrived damaged or out of order"
            ),
        };
        let others = bad.len() - 1;
        let severity = if !worst.reliable {
            Severity::Info
        } else if ratio >= limits.critical_ratio {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let sum = |of: fn(&Pair<'_>) -> u64| bad.iter().map(|(_, pair)| of(pair)).sum::<u64>();
        let most = |of: fn(&Pair<'_>) -> u64| bad.iter().map(|(_, pair)| of(pair)).max().unwrap_or(0);
        let entry = if side == Side::Before { &BEFORE } else { &AFTER };
        let mut flows: Vec<(&Flow, u64)> = bad.iter().flat_map(|(_, pair)| pair.flows.clone()).collect();
        flows.sort_by_key(|(_, lost)| std::cmp::Reverse(*lost));
        Raise::new(entry, severity, title(what, others, input.report))
            .evidence("loss_ratio", ratio)
            .evidence(if side == Side::Before { "lost" } else { "asked_again" }, sum(|pair| pair.lost))
            .evidence("packets", sum(|pair| pair.packets))
            .evidence("episodes", sum(|pair| pair.episodes))
            .evidence("longest_ns", most(|pair| pair.longest_ns))
            .evidence("largest", most(|pair| pair.largest))
            .evidence("timeouts", sum(|pair| pair.timeouts))
            .evidence("host_pairs", bad.len())
            .evidence("tool_lost", own(&input.report.totals.lost))
            .last_seen(bad.iter().filter_map(|(_, pair)| pair.last_ns).max())
            .flows(flows.into_iter().map(|(flow, _)| flow))
            .into(found);
    }
}

fn add<'a>(pair: &mut Pair<'a>, flow: &'a Flow, side: Side) {
    let mut lost = 0;
    for loss in [flow.loss, flow.loss_responses].iter().flatten() {
        let episodes = if side == Side::Before { &loss.before_tap } else { &loss.after_tap };
        lost += if side == Side::Before { loss.lost } else { episodes.episodes };
        pair.episodes += episodes.episodes;
        pair.longest_ns = pair.longest_ns.max(episodes.longest_ns.unwrap_or(0));
        pair.largest = pair.largest.max(episodes.largest.unwrap_or(0));
        pair.timeouts += loss.timeouts;
        pair.last_ns = pair.last_ns.max(episodes.last_ns);
    }
    if flow.psn.is_some() || flow.psn_responses.is_some() {
        pair.packets += flow.packets;
        pair.lost += lost;
        pair.reliable |= lost > 0 && !flow.is_uc();
    }
    if lost > 0 {
        pair.flows.push((flow, lost));
    }
}

/// Where loss is found on both sides, what to check is told once, by the finding that comes first.
fn told_once(found: &mut [Finding]) {
    let worst =
        |id: &str| found.iter().filter(|finding| finding.id == id).map(|finding| finding.severity).max();
    let (Some(before), Some(after)) = (worst(BEFORE.id), worst(AFTER.id)) else { return };
    let (id, advice) = if before >= after { (AFTER.id, DOWNSTREAM_TOO) } else { (BEFORE.id, UPSTREAM_TOO) };
    for finding in found.iter_mut().filter(|finding| finding.id == id) {
        advice.clone_into(&mut finding.advice);
    }
}

fn between(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.loss;
    let mut bad = input.report.between_taps();
    bad.retain(|one| {
        one.vanished >= limits.vanished && (limits.ratio..limits.other_way).contains(&one.ratio())
    });
    bad.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for one in bad {
        let Between { from, to, src, dst, vanished, .. } = &one;
        let share = units::ratio(Some(one.ratio()));
        let what = format!(
            "{share} of the packets from {src} to {dst} vanish between {from} and {to}: {vanished} of {}",
            one.packets()
        );
        let critical = one.ratio() >= limits.critical_ratio;
        let severity = if critical { Severity::Critical } else { Severity::Warning };
        Raise::new(&BETWEEN, severity, title(what, 0, input.report))
            .evidence("loss_ratio", one.ratio())
            .evidence("vanished", *vanished)
            .evidence("packets", one.packets())
            .evidence("tool_lost", own(&input.report.totals.lost))
            .flows(one.flows.iter().copied())
            .into(found);
    }
}

fn title(what: String, others: usize, report: &Report) -> String {
    let mut title = what;
    match others {
        0 => {}
        1 => title.push_str("; one more pair of hosts"),
        n => {
            let _ = write!(title, "; {n} more pairs of hosts");
        }
    }
    let own = own(&report.totals.lost);
    if own > 0 {
        let _ = write!(title, " (may be our own: {} dropped before counting)", plural(own, "packet"));
    }
    title
}

#[cfg(test)]
mod tests {
    use crate::figures::loss::{Episodes, Figures, FlowLoss, Loss};
    use crate::findings::tests::found;
    use crate::report::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::report::{Finding, Options, Report, text};
    use crate::sample::Sample;

    /// 1,000 requests, of which so many were lost before this link and so many behind it, until a second after the
    /// start; data that goes on to the end.
    fn lossy(lost: u64, behind: u64, end_s: u64) -> Sample {
        let mut data = stats(50_000, 1_000, 1_000_000);
        data.last_ns = START + end_s * SECOND;
        let mut sample = sample(vec![link("eth0", None)], vec![(key(0, "10.0.0.1", "10.0.0.2", 17), data)]);
        sample.window = Some((START, data.last_ns));
        let at =
            |count| Episodes { count, longest_ns: 9, largest: 1, first_ns: START, last_ns: START + SECOND };
        let figures = Figures { lost, before: at(lost), after: at(behind), ..Figures::default() };
        let mut known = Loss::default();
        known.flows.insert(0, FlowLoss { requests: Some(figures), responses: None });
        sample.figures.loss = Some(known);
        sample
    }

    fn by_id(sample: &Sample, id: &str) -> Option<Finding> {
        found(sample, &Options::default()).into_iter().find(|finding| finding.id == id)
    }

    #[test]
    fn loss_is_over_ten_seconds_after_the_last_episode() {
        let before = |sample: &Sample| by_id(sample, "loss.before_tap").unwrap();
        let (late, old) = (lossy(9, 0, 10), lossy(9, 0, 11));
        assert_eq!(before(&old).last_seen_ns, Some(START + SECOND));
        let said = |sample: &Sample| {
            let page = text::text(&Report::build(sample, &Options::default()), 120);
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(!said(&late).contains("until "), "nine seconds ago");
        assert!(said(&old).contains("[loss.before_tap], until 13:05:10"), "{}", said(&old));
        assert_eq!(by_id(&lossy(4, 0, 11), "loss.before_tap"), None, "four episodes are none");
    }

    #[test]
    fn advice_is_told_once_and_says_where_to_look() {
        let advice =
            |lost, behind, id: &str| by_id(&lossy(lost, behind, 1), id).map(|finding| finding.advice);
        let (before, after) = ("loss.before_tap", "loss.after_tap");
        let is_whole = |advice: &Option<String>| advice.as_ref().unwrap().contains("dcb pfc show");
        let alone = [advice(9, 0, before), advice(0, 9, after)];
        assert!(alone.iter().all(is_whole), "{alone:?}");
        assert!(alone[0].as_ref().unwrap().starts_with("Look between the sender and this tap"));
        assert!(alone[1].as_ref().unwrap().starts_with("Look between this tap and the receiver"));
        // The worse one comes first, and tells it all.
        for (lost, behind, first, second) in
            [(9, 9, before, after), (9, 90, after, before), (90, 9, before, after)]
        {
            let both = [advice(lost, behind, first), advice(lost, behind, second)];
            assert!(is_whole(&both[0]) && !is_whole(&both[1]), "{lost}, {behind}: {both:?}");
            assert!(both[1].as_ref().unwrap().contains("Look between"), "{both:?}");
        }
    }
}
