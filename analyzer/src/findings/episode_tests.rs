//! Tests of episodes: beginning and end, figures, ends of the connection, and ownership.

use std::sync::Arc;

use crate::analysis::Options;
use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
use crate::findings::tests::found;
use crate::findings::{Finding, Hop};
use crate::metrics::loss::signal_intervals::{FlowSignalIntervals, Interval, Mark, Signal};
use crate::metrics::loss::{Episodes, FlowLoss, Loss, Metrics, NakTally, Naks};
use crate::sample::{PeerKey, Sample};

/// An interval from and to a time in seconds, in a flow of 1,000 packets per second.
pub(super) fn interval(seconds: std::ops::Range<u64>, count: u64) -> Interval {
    let (first_ns, last_ns) = (START + seconds.start * SECOND, START + seconds.end * SECOND);
    let (at_first, at_last) = (1_000 * seconds.start, 1_000 * seconds.end);
    Interval { first_ns, last_ns, count, at_first, at_last }
}

/// Requests from 10.0.0.1 to QP 17 on 10.0.0.2 at 1,000 per second, and their ACKs to QP 18.
#[expect(clippy::large_types_passed_by_value, reason = "tests write it where they call")]
pub(super) fn run(
    seconds: u64,
    loss: Metrics,
    requests: FlowSignalIntervals,
    answers: FlowSignalIntervals,
) -> Sample {
    let mut data = stats(50_000, 1_000 * seconds, 1_000_000 * seconds);
    let mut acks = stats(50_001, 100 * seconds, 6_200 * seconds);
    acks.psn.seen = 0;
    (data.last_ns, acks.last_ns) = (START + seconds * SECOND, START + seconds * SECOND);
    let there = key(0, "10.0.0.1", "10.0.0.2", 17);
    let back = key(0, "10.0.0.2", "10.0.0.1", 18);
    let mut sample = sample(vec![link("eth0", None)], vec![(there, data), (back, acks)]);
    sample.window = Some((START, START + seconds * SECOND));
    sample.peers.insert(PeerKey::of(&there), 18);
    sample.peers.insert(PeerKey::of(&back), 17);
    let mut known = Loss::default();
    known.flows.insert(0, FlowLoss { requests: Some(loss), ..FlowLoss::default() });
    known.intervals.flows.extend([(0, requests), (1, answers)]);
    known.intervals.marks = (1..seconds.div_ceil(10))
        .map(|number| {
            let packets = vec![10_000 * number, 1_000 * number];
            let time_ns = START + 10 * number * SECOND;
            Arc::new(Mark { time_ns, capable: packets.clone(), packets })
        })
        .collect();
    sample.metrics.loss = Some(known);
    sample
}

/// A sample with the given lost packets in each interval.
fn lossy(seconds: u64, intervals: &[Interval]) -> Sample {
    let lost = intervals.iter().map(|interval| interval.count).sum();
    let last_ns = intervals.last().unwrap().last_ns;
    let before = Episodes {
        count: lost,
        longest_ns: 9,
        total_ns: 9,
        largest: 1,
        first_ns: intervals[0].first_ns,
        last_ns,
    };
    let metrics = Metrics { lost, upstream: before, ..Metrics::default() };
    let requests = FlowSignalIntervals::default()
        .with(Signal::Lost, intervals.to_vec())
        .with(Signal::LossUpstream, intervals.to_vec());
    run(seconds, metrics, requests, FlowSignalIntervals::default())
}

pub(super) fn by_id(sample: &Sample, id: &str) -> Option<Finding> {
    found(sample, &Options::default()).into_iter().find(|finding| finding.id == id)
}

#[test]
fn clean_traffic_before_and_behind_changes_no_figure() {
    let figures = |before: u64, behind: u64| {
        let sample = lossy(before + 6 + behind, &[interval(before..before + 6, 47)]);
        let finding = by_id(&sample, "loss.before_tap").unwrap();
        (finding.title, finding.evidence, finding.impact)
    };
    let alone = figures(0, 0);
    assert_eq!(alone.1["packets"], 6_047);
    for (before, behind) in [(0, 9), (9, 0), (9, 9), (60, 0), (0, 60), (60, 60)] {
        assert_eq!(figures(before, behind), alone, "{before} s before and {behind} s behind");
    }
}

#[test]
fn signals_within_an_instant_are_compared_with_a_second() {
    for (before, packets) in [(0, 1_000), (5, 1_000), (29, 1_000)] {
        let sample = lossy(30, &[interval(before..before, 9)]);
        let finding = by_id(&sample, "loss.before_tap").unwrap();
        assert_eq!(finding.evidence["packets"], packets + 9, "{before}");
    }
}

#[test]
fn a_flow_without_loss_counts_with_its_packets_in_the_episode() {
    let mut sample = lossy(40, &[interval(12..18, 47)]);
    // The same hosts with half as many packets, in the first 20 s only.
    let mut data = stats(50_002, 10_000, 10_000_000);
    data.last_ns = START + 20 * SECOND;
    let mut flow = sample.flows[0].clone();
    (flow.key.dest_qp, flow.slot, flow.stats) = (19, 7, data);
    sample.flows.push(flow);
    let finding = by_id(&sample, "loss.before_tap").unwrap();
    assert_eq!(finding.evidence["packets"], 6_047 + 3_000);
}

#[test]
fn the_same_loss_has_the_same_ratio_a_minute_later() {
    let soon = by_id(&lossy(12, &[interval(2..8, 47)]), "loss.before_tap").unwrap();
    let late = by_id(&lossy(72, &[interval(2..8, 47)]), "loss.before_tap").unwrap();
    assert_eq!((&soon.title, &soon.evidence), (&late.title, &late.evidence));
    assert_eq!(soon.evidence["packets"], 6_047);
    // A packet that fills a gap of this tap passes it for the first time.
    assert_eq!(soon.impact.retransmissions, Some(0));
    assert!(soon.active && !late.active);
    let end_ns = Some(START + 72 * SECOND);
    assert_eq!(late.ended(end_ns).as_deref(), Some("ended 13:05:17 UTC, lasted 6.00 s"));
}

#[test]
fn in_less_than_ten_seconds_the_figures_are_those_of_the_episode_too() {
    let finding = by_id(&lossy(9, &[interval(3..4, 9)]), "loss.before_tap").unwrap();
    assert_eq!((&finding.evidence["packets"], &finding.evidence["lost"]), (&1_009.into(), &9.into()));
}

#[test]
fn figures_are_those_of_the_latest_episode_and_earlier_ones_are_listed() {
    let intervals = [interval(2..8, 47), interval(41..49, 100)];
    let finding = by_id(&lossy(50, &intervals), "loss.before_tap").unwrap();
    assert_eq!((&finding.evidence["packets"], &finding.evidence["lost"]), (&8_100.into(), &100.into()));
    let times: Vec<u64> = finding.episodes.iter().map(|one| (one.first_ns - START) / SECOND).collect();
    assert_eq!(times, [2, 41]);
    assert_eq!(finding.first_seen_ns, Some(START + 2 * SECOND));
    assert_eq!(finding.last_seen_ns, Some(START + 49 * SECOND));
    assert!(finding.active);
    // Two packets lost later are no episode of it.
    let longest = finding.evidence.get("longest_ns").unwrap();
    assert!(!longest.value.is_null() && longest.label.ends_with(", all episodes"), "{longest:?}");
    let few = [interval(2..8, 47), interval(41..49, 2)];
    let finding = by_id(&lossy(50, &few), "loss.before_tap").unwrap();
    assert_eq!((finding.episodes.len(), &finding.evidence["lost"]), (1, &47.into()));
}

#[test]
fn loss_that_comes_back_after_each_silence_is_a_finding_of_the_run() {
    let intervals: Vec<Interval> = (0..5).map(|i| interval(20 * i..20 * i + 1, 3)).collect();
    let finding = by_id(&lossy(100, &intervals), "loss.before_tap").unwrap();
    // From the first signal to the last.
    assert_eq!((&finding.evidence["lost"], &finding.evidence["packets"]), (&15.into(), &81_015.into()));
}

/// RNR NAKs, the sequence-error NAKs that follow them, and the resulting retransmissions.
fn slow_receiver() -> Sample {
    let metrics = Metrics { retransmitted: 4_000, rnr_retransmitted: 3_900, ..Metrics::default() };
    let again = [(Signal::Retransmitted, 4_000), (Signal::RetransmittedAfterRnr, 3_900)];
    let requests = again.into_iter().fold(FlowSignalIntervals::default(), |flow, (signal, count)| {
        flow.with(signal, vec![interval(1..8, count)])
    });
    let answers = FlowSignalIntervals::default()
        .with(Signal::RnrNak, vec![interval(1..8, 50)])
        .with(Signal::SequenceNak, vec![interval(1..8, 50)]);
    let mut sample = run(9, metrics, requests, answers);
    (sample.flows[1].stats.rare.rnr_naks, sample.flows[1].stats.rare.naks[0]) = (50, 50);
    let at = NakTally { count: 50, last_ns: START + 8 * SECOND };
    let mut naks = Naks { rnr: at, ..Naks::default() };
    naks.codes[0] = at;
    sample.metrics.loss.as_mut().unwrap().naks.insert(1, naks);
    sample
}

#[test]
fn an_rnr_episode_owns_its_naks_and_retransmissions() {
    let sample = slow_receiver();
    let all = found(&sample, &Options::default());
    let ids: Vec<&str> = all.iter().map(|finding| finding.id).collect();
    assert!(ids.contains(&"rnr.slow_receiver"), "{ids:?}");
    for id in ["retry.storm", "nak.psn_sequence_error", "loss.after_tap"] {
        assert!(!ids.contains(&id), "{id}");
    }
    let slow = by_id(&sample, "rnr.slow_receiver").unwrap();
    assert_eq!(slow.impact.retransmissions, Some(3_900));
    assert_eq!((slow.first_seen_ns, slow.last_seen_ns), (Some(START + SECOND), Some(START + 8 * SECOND)));
    assert_eq!(slow.episodes.len(), 1);
}

#[test]
fn the_ends_are_those_of_the_requests_and_not_of_the_naks() {
    let slow = by_id(&slow_receiver(), "rnr.slow_receiver").unwrap();
    let end = |end: &Option<crate::findings::End>| end.as_ref().map(|end| (end.addr.to_string(), end.qpn));
    assert_eq!(end(&slow.requester), Some(("10.0.0.1".into(), Some(18))));
    assert_eq!(end(&slow.responder), Some(("10.0.0.2".into(), Some(17))));
    let lossy = by_id(&lossy(9, &[interval(3..4, 9)]), "loss.before_tap").unwrap();
    assert_eq!((end(&lossy.requester), end(&lossy.responder)), (end(&slow.requester), end(&slow.responder)));
    assert_eq!((lossy.place.tap.as_deref(), &lossy.place.hop), (Some("eth0"), &Some(Hop::Upstream)));
}

#[test]
fn a_finding_whose_signals_have_no_time_has_no_begin() {
    use crate::findings::DataEnd;
    // CE marks without their times: a recording.
    let mut sample =
        run(3_600, Metrics::default(), FlowSignalIntervals::default(), FlowSignalIntervals::default());
    sample.flows[0].stats.ecn_data = [0, 0, 3_599_000, 100_000];
    let congested = by_id(&sample, "ecn.congestion").unwrap();
    assert_eq!((congested.first_seen_ns, congested.since_ns()), (None, None));
    let whole = &congested.episodes[..];
    assert_eq!((whole.len(), whole[0].first_ns), (1, START), "the time in which it can have been");
    let end = DataEnd { ns: Some(START + 3_600 * SECOND), ..DataEnd::default() };
    let when = congested.when(end).unwrap();
    assert!(when.starts_with("last seen ") && !when.contains("since"), "{when}");
    assert_eq!(serde_json::to_value(&congested).unwrap()["first_seen_ns"], serde_json::Value::Null);
}

#[test]
fn congestion_of_the_first_minute_of_an_hour_has_the_figures_of_its_minute() {
    use crate::analysis::{EcnOverTime, Facts};
    use crate::findings::tests::found_on;
    let marks = Interval { count: 30_000, ..interval(0..60, 0) };
    let later = Interval { count: 120, ..interval(1_000..1_001, 0) };
    let judged = |marks: Vec<Interval>| {
        let ce: u64 = marks.iter().map(|one| one.count).sum();
        // Of gaps in the first minute all, later none is at a mark.
        let (gaps, at_marks) =
            (vec![interval(0..60, 9), interval(1_000..1_001, 9)], vec![interval(0..60, 9)]);
        let metrics = Metrics { gaps_capable: 18, gaps_ce: 9, ..Metrics::default() };
        let flow = FlowSignalIntervals::default()
            .with(Signal::CeMarked, marks)
            .with(Signal::GapCapable, gaps)
            .with(Signal::GapMarked, at_marks);
        let mut sample = run(3_600, metrics, flow, FlowSignalIntervals::default());
        sample.flows[0].stats.ecn_data = [0, 0, 3_600_000 - ce, ce];
        let mut facts = Facts::of(&sample, &Options::default());
        let ce = (0..3_600u32).map(|at| if at <= 60 { 500 } else { u32::from(at == 1_000) * 120 }).collect();
        facts.links[0].ecn_over_time = Some(EcnOverTime {
            start_ns: START,
            bin_ns: SECOND,
            capable: vec![1_000; 3_600],
            ce,
            cnp: vec![0; 3_600],
        });
        found_on(&facts, "ecn.congestion").unwrap()
    };
    let first = judged(vec![marks]);
    assert!(!first.active);
    assert_eq!((first.first_seen_ns, first.last_seen_ns), (Some(START), Some(START + 60 * SECOND)));
    assert_eq!(
        (&first.evidence["marked_time_ratio"], &first.evidence["peak_ratio"]),
        (&1.0.into(), &0.5.into())
    );
    assert_eq!(first.evidence["gaps_ce_ratio"], 1.0, "gaps of its minute");
    // Of two episodes the latest has the figures.
    let second = judged(vec![marks, later]);
    assert_eq!((second.episodes.len(), &second.evidence["peak_ratio"]), (2, &0.12.into()));
    assert_eq!(second.evidence["gaps_ce_ratio"], 0.0);
}

#[test]
fn doubt_about_losses_of_another_time_does_not_excuse_an_episode() {
    use crate::findings::Severity;
    let raised = |doubtful: Interval| {
        let mut sample = lossy(100, &[interval(2..8, 300), interval(41..49, 100)]);
        let loss = sample.metrics.loss.as_mut().unwrap();
        let metrics = loss.flows.get_mut(&0).unwrap().requests.as_mut().unwrap();
        metrics.doubtful = doubtful.count;
        let flow = loss.intervals.flows.remove(&0).unwrap().with(Signal::Doubtful, vec![doubtful]);
        loss.intervals.flows.insert(0, flow);
        let all = found(&sample, &Options::default()).into_iter().filter(|one| one.id == "loss.before_tap");
        all.map(|one| (one.severity, one.evidence["lost"].clone())).collect::<Vec<_>>()
    };
    // Each has the figures of its own episode.
    assert_eq!(raised(interval(2..8, 300)), [(Severity::Critical, 100.into()), (Severity::Info, 300.into())]);
    assert_eq!(
        raised(interval(41..49, 90)),
        [(Severity::Critical, 300.into()), (Severity::Info, 100.into())]
    );
}

/// RoCE packets that found the flow table full, by second.
fn missed(seconds: u64, intervals: &[(u64, u64, u64)]) -> Sample {
    use crate::sample::{MissedCounts, MissedTimes};
    let mut sample =
        run(seconds, Metrics::default(), FlowSignalIntervals::default(), FlowSignalIntervals::default());
    let mut times = MissedTimes::default();
    for &(first, last, flow_table_full) in intervals {
        sample.links[0].flow_table_full.packets += flow_table_full;
        let missed = MissedCounts { flow_table_full, ..MissedCounts::default() };
        times.add((START + first * SECOND, START + last * SECOND), &missed);
    }
    sample.missed = times;
    sample
}

#[test]
fn packets_missed_in_the_first_minute_of_an_hour_have_ended_and_are_not_diluted() {
    use crate::findings::Severity;
    let finding = by_id(&missed(3_600, &[(10, 70, 1_000)]), "tool.lost").unwrap();
    // 1,000 requests and 100 ACKs a second pass.
    let ratio = finding.evidence["lost_ratio"].as_f64().unwrap();
    assert!((ratio - 1_000.0 / 67_000.0).abs() < 1e-4, "{ratio}");
    assert_eq!((finding.severity, finding.active), (Severity::Critical, false));
    assert_eq!(
        (finding.first_seen_ns, finding.last_seen_ns),
        (Some(START + 10 * SECOND), Some(START + 70 * SECOND))
    );
    // The latest episode has the figures.
    let twice = by_id(&missed(3_600, &[(10, 70, 1_000), (3_590, 3_599, 7)]), "tool.lost").unwrap();
    assert_eq!((twice.active, twice.episodes.len()), (true, 2));
    assert_eq!((&twice.evidence["flow_table_full"], twice.severity), (&7.into(), Severity::Warning));
    // A capture says how much it dropped, and not when.
    let mut dropped = missed(3_600, &[(10, 70, 1_000)]);
    dropped.capture_drops = Some(5);
    let dropped = by_id(&dropped, "tool.lost").unwrap();
    assert_eq!((dropped.first_seen_ns, dropped.active), (None, true));
    assert_eq!(
        (&dropped.evidence["capture_drops"], &dropped.evidence["flow_table_full"]),
        (&5.into(), &1_000.into())
    );
}
