//! CNPs for flows without CE marks.

use std::collections::BTreeMap;

use super::ends;
use crate::analysis::{Flow, FlowId};
use crate::findings::dedup::{deduplicated, name};
use crate::findings::ids;
use crate::findings::period::{Period, bridged, latest, run, timed};
use crate::findings::title::{more, pair, title};
use crate::findings::{
    ByHand, Commands, Entry, Family, Finding, Hop, Input, Measure, Place, Problem, Raise, RequiredData,
    Severity, Unit, label,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::{Address, Direction};
use crate::util::map::Set;
use crate::util::numbers::share;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[WITHOUT_CE, STORM],
    limits: &[Limits::META],
    evidence: &[
        label("packets", "data packets of the throttled senders", Unit::Count).summed(),
        label("cnp_ratio", "CNPs per data packet", Unit::Ratio),
    ],
    check,
};

pub(super) const WITHOUT_CE: Entry = Entry {
    id: ids::CNP_WITHOUT_CE,
    rank: 330,
    needs: &[RequiredData::Pairs],
    title: "CNPs without CE marks at this tap",
    meaning: "A receiver sends CNPs (rate reduction requested) for a flow whose packets are not CE-marked at this tap. Either they are marked downstream of this \
                tap, or the receiver sends CNPs for another reason.",
    computed: "Over flows of at least cnp.without_ce_cnps CNPs whose data flow is known (flows[].cnp.answers), is ECN-capable with at least cnp.without_ce_packets packets at this tap \
               and has no CE-marked packet.\n\
               \n\
               A warning in a live run when that data arrives at this host, because no switch is downstream; info in a replay, where the position of the tap is unknown; not raised when \
               this host sends the data. Flows with cnp.nak_share NAKs per CNP or more are excluded: some NICs send a CNP with a NAK.\n\
               \n\
               Figures are those of the latest episode ({EPISODE_GAP_NS} without a CNP end one), of data within it and the {EPISODE_GAP_NS} before and after.",
    advice: "To locate the congested switch, capture closer to the receiver: all CE marks are visible at its ingress. If the receiver itself sends CNPs without \
               CE marks, check its settings (roce_np, cc_params in mlx5 debugfs; slow restart sends CNPs after loss and counts them in roce_slow_restart_cnps).",
    caveat: "Normal for a tap on the sender side of the congested switch. The number of CNPs does not follow from the number of CE marks: NICs pace them.",
    ..Entry::of(Problem::Notification)
};

pub(super) const STORM: Entry = Entry {
    id: ids::CNP_STORM,
    rank: 325,
    causes: &[ids::BURST_INCAST, ids::ECN_CONGESTION],
    measure: Some(Measure::ratio("cnp_ratio")),
    title: "CNP storm: senders throttled without visible CE marks",
    meaning: "A receiver sends far more CNPs than there are CE marks at this tap, one for every few packets of data: its senders are throttled to a small part of their rate, and stay \
              there. Either a queue downstream of this tap is congested all the time, or the receiver sends CNPs without reason.",
    computed: "Per receiver: a warning when it sends at least cnp.storm_cnps CNPs to a host, at least cnp.storm_ratio per data packet that it gets from there, and more CNPs than CE-marked packets from there \
               pass any tap (a NIC answers several CE marks with one CNP, never one with several). Figures are those of the latest episode, over {LEAST_NS} at least: {EPISODE_GAP_NS} without a CNP end one, if that is more than a tenth of the time from its beginning to the end of the next. Episodes are not added up.",
    advice: "Capture at the receiver: are its packets CE-marked? Then find the congested queue (its switch port, PCIe or memory of the receiver). If not: check its notification point (roce_np, cc_params/np_* in \
             mlx5 debugfs), slow restart (roce_slow_restart_cnps), and min_time_between_cnps, and the firmware's release notes.",
    caveat: "At a tap on the sender's side of the congested queue no CE mark is visible, and heavy congestion looks like this there.",
    ..Entry::of(Problem::Notification)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "cnp";
    storm_cnps: u64 = 1_000,
        "minimum CNPs from one host to another",
        "NICs pace CNPs at 4 to 50 µs per flow: a burst of congestion of some milliseconds brings a few hundred";
    storm_ratio: f64 = 0.01,
        "minimum CNPs per data packet",
        "DCQCN recovers within about a thousand packets at full rate: a CNP for every hundred keeps a sender at a fraction of that";
    without_ce_cnps: u64 = 10,
        "minimum CNPs of a flow to expect CE-marked packets",
        "Fewer may be chance, or belong to marks before the capture began";
    without_ce_packets: u64 = 100,
        "minimum ECN-capable data packets to conclude that none is CE-marked",
        "If DCQCN causes the CNPs, at least one packet in a hundred is marked";
    nak_share: f64 = 0.5,
        "NAKs per CNP from which CNPs need no CE mark",
        "Some NICs send a CNP with a NAK";
}

/// Host pairs with more CNPs than CE marks in a period, worst first.
fn storms<'a>(input: &Input<'a>, period: &Period) -> Vec<((Address, Address), Pair<'a>)> {
    let limits = &input.limits.cnp;
    let flows = &input.facts.flows;
    let mut pairs: BTreeMap<(Address, Address), Pair<'_>> = BTreeMap::new();
    for (flow, cnps) in deduplicated(flows, |flow| period.count(flow, Signal::Cnp, flow.cnps_dedup())) {
        let pair = pairs.entry((flow.src, flow.dst)).or_default();
        pair.cnps += cnps;
        pair.flows.push(flow);
    }
    // With many flows, nearly all data is that of others.
    pairs.retain(|_, pair| pair.cnps >= limits.storm_cnps.max(1));
    let answered: Vec<&Flow> =
        flows.iter().filter(|flow| pairs.contains_key(&(flow.dst, flow.src))).collect();
    let data =
        |flow: &Flow| period.part(input.facts, flow, flow.ecn_data().capable() + flow.ecn_data().not_ect);
    for (flow, packets) in deduplicated(answered.iter().copied(), data) {
        if let Some(pair) = pairs.get_mut(&(flow.dst, flow.src)) {
            pair.data += packets;
        }
    }
    let marks = |flow: &Flow| period.count(flow, Signal::CeMarked, flow.ecn_data().ce);
    for (flow, ce) in deduplicated(answered, marks) {
        if let Some(pair) = pairs.get_mut(&(flow.dst, flow.src)) {
            pair.ce += ce;
        }
    }
    pairs.retain(|_, pair| pair.ratio() >= limits.storm_ratio && pair.cnps > pair.ce);
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, pair)| std::cmp::Reverse(pair.cnps));
    pairs
}

/// Hosts that send more CNPs than they receive CE marks.
fn storm(input: &Input<'_>, found: &mut Vec<Finding>) {
    let carriers: Vec<&Flow> = input.facts.flows.iter().filter(|flow| flow.cnps_dedup() > 0).collect();
    let times = bridged(timed(&carriers, Signal::Cnp, Flow::cnps_dedup));
    let judged = latest(&times, run(carriers.iter().copied()), |period| {
        // Bursts with much silence between them are not a storm together.
        if times.len() > 1 && !times.contains(period) {
            return None;
        }
        let pairs = storms(input, period);
        let ratio = pairs.first()?.1.ratio();
        Some((pairs, Some(ratio)))
    });
    let Some(judged) = judged else { return };
    let pairs = &judged.what;
    let Some(((from, to), worst)) = pairs.first() else { return };
    let diagnosis = format!("CNP storm: {} from {from} throttle {to}", plural(worst.cnps, "CNP"));
    let ce = input.facts.mark();
    let share = format!(" ({} of its data packets)", units::ratio(Some(worst.ratio())));
    let others = more(pairs.len() as u64 - 1, "host pair");
    let Some(first) = worst.flows.first() else { return };
    let all: Vec<&Flow> = pairs.iter().flat_map(|(_, pair)| pair.flows.iter().copied()).collect();
    let there = Commands::at(input, first, *from);
    let (requester, responder) = ends::of_answers(input, worst.flows.iter().copied());
    Raise::new(&STORM, Severity::Warning, title(diagnosis, [share, others]))
        .evidence("cnp_packets", worst.cnps)
        .evidence("packets", worst.data)
        .evidence("cnp_ratio", worst.ratio())
        .evidence("ce_packets", worst.ce)
        .host_pairs(pairs.len())
        .last_seen(all.iter().map(|flow| flow.last_ns).max())
        .dated(judged.dated())
        .flows(all)
        .place(Place::of(input, first).hop(Hop::Downstream))
        .ends(requester, responder)
        .owns(&[WITHOUT_CE.id])
        .step(format!("Capture at {from}: do its packets arrive {ce}-marked?"), ByHand::Elsewhere)
        .step(format!("On {from}, check the notification point (roce_np) and its CNP pacing."), there.ecn())
        .step(
            format!("On {from}, compare np_ecn_marked_roce_packets with np_cnp_sent."),
            there.rdma_counters(),
        )
        .into(found);
}

/// CNPs from one host to another, and the data flows that they refer to.
#[derive(Default)]
struct Pair<'a> {
    cnps: u64,
    data: u64,
    ce: u64,
    flows: Vec<&'a Flow>,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        share(self.cnps, self.data)
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    storm(input, found);
    without_ce(input, found);
}

/// CNPs of a flow, and the unmarked data that they are for, in a period.
struct Suspect<'a> {
    cnps: &'a Flow,
    count: u64,
    data: &'a Flow,
    capable: u64,
}

/// NAKs of a flow in a period.
fn naks(flow: &Flow, period: &Period) -> u64 {
    let total = flow.naks_dedup().total();
    let signals = [Signal::SequenceNak].into_iter().chain((1..=5).map(Signal::OtherNak));
    if period.is_whole() { total } else { signals.map(|signal| period.count(flow, signal, total)).sum() }
}

/// CNPs without marks in a period, most first.
fn suspects<'a>(input: &Input<'a>, period: &Period) -> Vec<Suspect<'a>> {
    let (limits, flows) = (&input.limits.cnp, &input.facts.flows);
    let mut suspects: Vec<Suspect<'_>> = Vec::new();
    for cnps in flows {
        let Some(answers) = cnps.cnp.as_ref().and_then(|cnp| cnp.answers.as_ref()) else { continue };
        let count = period.count(cnps, Signal::Cnp, cnps.cnps_dedup());
        if count < limits.without_ce_cnps || share(naks(cnps, period), count) >= limits.nak_share {
            continue;
        }
        let FlowId { ref link, direction, src, dst, dest_qp } = *answers;
        let mut seen = input.facts.to_qp(src, dst, dest_qp);
        let is_answered = |flow: &&Flow| flow.link == *link && flow.direction == direction;
        let Some(data) = seen.find(is_answered) else { continue };
        // A tap nearer the receiver may see the marks.
        let is_marked = |flow: &Flow| period.count(flow, Signal::CeMarked, flow.ecn_data().ce) > 0;
        // CNPs follow the data that they are for, and live, both are dated by readings.
        let capable = period.with_surroundings().capable(input.facts, data);
        let unmarked =
            capable >= limits.without_ce_packets && !input.facts.to_qp(src, dst, dest_qp).any(is_marked);
        if unmarked && data.direction != Some(Direction::Egress) {
            suspects.push(Suspect { cnps, count, data, capable });
        }
    }
    suspects.sort_by_key(|one| std::cmp::Reverse(one.count));
    // If several taps see the same CNPs, the one with the most is reported.
    let mut reported = Set::default();
    suspects.retain(|one| reported.insert(name(one.cnps)));
    suspects
}

fn without_ce(input: &Input<'_>, found: &mut Vec<Finding>) {
    let has_cnps = |flow: &&Flow| flow.cnps_dedup() > 0 && flow.cnp.is_some();
    let carriers: Vec<&Flow> = input.facts.flows.iter().filter(has_cnps).collect();
    let times = timed(&carriers, Signal::Cnp, Flow::cnps_dedup);
    let judged = latest(&times, run(carriers.iter().copied()), |period| {
        let suspects = suspects(input, period);
        let count = suspects.first()?.count;
        Some((suspects, Some(count as f64)))
    });
    let Some(judged) = judged else { return };
    let suspects = &judged.what;
    let arrives = suspects.iter().any(|one| one.data.direction == Some(Direction::Ingress));
    let Some(Suspect { cnps: most, count, data, .. }) = suspects.first() else { return };
    let severity = if arrives { Severity::Warning } else { Severity::Info };
    let ce = input.facts.mark();
    let diagnosis = format!("{} without {ce} marks at this tap", plural(*count, "CNP"));
    let parts = [pair(most.src, most.dst), format!(", QP {}", data.dest_qp)];
    let (requester, responder) = ends::of_data(input, suspects.iter().map(|one| one.data));
    let there = Commands::at(input, data, most.src);
    Raise::new(&WITHOUT_CE, severity, title(diagnosis, parts))
        .evidence("cnp_packets", suspects.iter().map(|one| one.count).sum::<u64>())
        .evidence("ecn_capable_packets", suspects.iter().map(|one| one.capable).sum::<u64>())
        .evidence("ce_packets", 0)
        // In a flow that also carries ACKs, this is later than its last CNP.
        .last_seen(suspects.iter().map(|one| one.cnps.last_ns).max())
        .dated(judged.dated())
        .flows(suspects.iter().map(|one| one.data))
        .place(Place::of(input, data).hop(Hop::Downstream))
        .ends(requester, responder)
        .step(format!("Capture closer to {}, where all {ce} marks are visible.", most.src), ByHand::Elsewhere)
        .step(format!("On {}, check the notification point (roce_np).", most.src), there.ecn())
        .into(found);
}

#[cfg(test)]
mod tests {
    use crate::sample::Stats;

    use crate::analysis::Options;
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::findings::{Finding, tests::found};

    fn storm(cnps: u64, data: u64, ce: u64) -> Option<Finding> {
        let there = Stats { ecn_data: [0, 0, data - ce, ce], ..stats(50_000, data, 1_000 * data) };
        let back = Stats { cnp_packets: cnps, ..stats(0, cnps, 74 * cnps) };
        let flows =
            vec![(key(0, "10.0.0.1", "10.0.0.2", 17), there), (key(0, "10.0.0.2", "10.0.0.1", 18), back)];
        let all = found(&sample(vec![link("eth0", None)], flows), &Options::default());
        all.into_iter().find(|finding| finding.id == "cnp.storm")
    }

    #[test]
    fn a_storm_that_pauses_briefly_for_its_length_is_one_episode() {
        use crate::analysis::fixtures::{SECOND, START};
        use crate::findings::episode_tests::{interval, run};
        use crate::metrics::loss::Metrics;
        use crate::metrics::loss::signal_intervals::{FlowSignalIntervals, Signal};
        let of_each = |cnps, parts: &[std::ops::Range<u64>]| {
            let intervals: Vec<_> = parts.iter().map(|part| interval(part.clone(), cnps)).collect();
            let answers = FlowSignalIntervals::default().with(Signal::Cnp, intervals);
            let mut sample = run(600, Metrics::default(), FlowSignalIntervals::default(), answers);
            sample.flows[1].stats.cnp_packets = cnps * parts.len() as u64;
            let all = found(&sample, &Options::default());
            let storm = all.iter().find(|one| one.id == "cnp.storm")?;
            let of = |ns: u64| (ns - START) / SECOND;
            let times =
                storm.episodes.iter().map(|one| (of(one.first_ns), of(one.last_ns))).collect::<Vec<_>>();
            Some((times, storm.evidence["cnp_packets"].as_u64().unwrap()))
        };
        let episodes = |parts: &[std::ops::Range<u64>]| of_each(5_000, parts).unwrap();
        assert_eq!(episodes(&[10..70, 82..150]), (vec![(10, 150)], 10_000));
        assert_eq!(episodes(&[10..30, 42..70]), (vec![(10, 30), (42, 70)], 5_000), "a fifth of their time");
        assert_eq!(episodes(&[10..70, 82..150, 165..200]).0, [(10, 200)], "compared with all so far");
        assert_eq!(of_each(400, &[10..20, 85..95, 160..170]), None, "too few in each");
    }

    #[test]
    fn cnps_without_marks_of_the_first_minute_of_an_hour_have_ended_with_their_figures() {
        use crate::analysis::fixtures::{SECOND, START};
        use crate::analysis::{Cnp, Facts, FlowId};
        use crate::findings::episode_tests::{interval, run};
        use crate::findings::tests::found_on;
        use crate::metrics::loss::Metrics;
        use crate::metrics::loss::signal_intervals::{FlowSignalIntervals, Signal};
        let judged = |intervals: Vec<_>| {
            let answers = FlowSignalIntervals::default().with(Signal::Cnp, intervals);
            let mut sample = run(3_600, Metrics::default(), FlowSignalIntervals::default(), answers);
            // The hour has marks, and none in the intervals.
            sample.flows[0].stats.ecn_data = [0, 0, 3_599_000, 1_000];
            let marks =
                FlowSignalIntervals::default().with(Signal::CeMarked, vec![interval(2_000..2_100, 1_000)]);
            sample.metrics.loss.as_mut().unwrap().intervals.flows.insert(0, marks);
            sample.flows[1].stats.cnp_packets = 1_000;
            let mut facts = Facts::of(&sample, &Options::default());
            let data = facts.flows.iter().position(|flow| flow.dest_qp == 17).unwrap();
            let answers = Some(FlowId::of(&facts.flows[data]));
            let cnps = facts.flows.iter().position(|flow| flow.dest_qp == 18).unwrap();
            facts.flows[cnps].cnp = Some(Box::new(Cnp { answers, ..Cnp::default() }));
            found_on(&facts, "cnp.without_ce").unwrap()
        };
        let first = judged(vec![interval(10..60, 1_000)]);
        assert_eq!((first.active, first.last_seen_ns), (false, Some(START + 60 * SECOND)));
        assert_eq!(
            (&first.evidence["cnp_packets"], &first.evidence["ecn_capable_packets"]),
            (&1_000.into(), &70_000.into())
        );
        let latest = judged(vec![interval(10..60, 900), interval(3_590..3_600, 100)]);
        assert_eq!((latest.active, latest.episodes.len()), (true, 2));
        assert!(latest.title.starts_with("100 CNPs without CE marks"), "{}", latest.title);
    }

    #[test]
    fn many_cnps_without_marks_are_a_storm() {
        let found = storm(30_000, 360_000, 0).unwrap();
        assert!(
            found.title.starts_with("CNP storm: 30,000 CNPs from 10.0.0.2 throttle 10.0.0.1"),
            "{}",
            found.title
        );
        assert_eq!(storm(999, 10_000, 0), None, "few");
        assert_eq!(storm(2_000, 300_000, 0), None, "few per packet");
        assert_eq!(storm(2_000, 100_000, 2_000), None, "as many as there are marks");
    }
}
