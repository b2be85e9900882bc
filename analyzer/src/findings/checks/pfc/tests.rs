use std::sync::Arc;

use super::*;
use crate::analysis::fixtures;
use crate::entity::devices::{PauseSample, PortSample, QpSample};
use crate::entity::lives::Lives;
use crate::entity::owners::QpOwner;
use crate::findings::tests::severity;
use crate::sample::Sample;

/// A sample with a port with these pauses, and PFC enabled for priority 3.
fn paused(pause: PauseSample, stalled_ns: Option<u64>) -> Sample {
    let port = PortSample {
        lossless: Some(1 << 3),
        pause: vec![pause],
        pause_source: "ethtool",
        qps: Arc::new(vec![QpSample {
            owner: QpOwner { lqpn: 17, ..QpOwner::default() },
            stalled_ns,
            ..QpSample::default()
        }]),
        ..fixtures::port()
    };
    fixtures::with_lives(port, Lives::default())
}

fn pause(priority: u8) -> PauseSample {
    PauseSample { priority: Some(priority), frames: Some(9), paused_ns: Some(1), ..PauseSample::default() }
}

#[test]
fn a_storm_is_a_share_of_time_or_a_pause_without_end() {
    let of = |worst_share, longest_ms: u64| {
        let pause = PauseSample { worst_share, longest_ns: Some(longest_ms * NS_PER_MS), ..pause(3) };
        severity(&paused(pause, None), "pfc.storm")
    };
    assert_eq!(of(Some(0.099), 0), None);
    assert_eq!(of(Some(0.1), 0), Some(Severity::Warning));
    assert_eq!(of(Some(1.0), 999), Some(Severity::Warning));
    assert_eq!(of(Some(1.0), 1000), Some(Severity::Critical));
    assert_eq!(of(None, 0), None, "frames alone tell no time");
}

#[test]
fn frames_alone_tell_how_much_it_can_have_been() {
    let of = |worst_share, most_share| {
        let pause = PauseSample { worst_share, most_share, worst_frames_per_s: Some(1500.0), ..pause(3) };
        severity(&paused(pause, None), "pfc.storm")
    };
    assert_eq!(of(None, Some(0.49)), None);
    assert_eq!(of(None, Some(0.5)), Some(Severity::Warning));
    assert_eq!(of(Some(0.01), Some(1.0)), None, "the time is known");
    assert_eq!(of(None, None), None, "nor is the speed of the link");
}

/// Quanta at an unknown speed have a minimum duration, and show no endless pause.
#[test]
fn quanta_alone_tell_how_much_it_was_at_least() {
    let of = |least_share| {
        let pause = PauseSample { least_share, paused_ns: None, ..pause(3) };
        let found = crate::findings::tests::found(&paused(pause, None), &crate::analysis::Options::default());
        found.into_iter().find(|finding| finding.id == "pfc.storm")
    };
    assert_eq!(of(Some(0.09)), None);
    let storm = of(Some(1.0)).unwrap();
    assert_eq!((storm.severity, storm.evidence["least_share"].as_f64()), (Severity::Warning, Some(1.0)));
    assert!(storm.title.contains("paused at least 100 % of the time"), "{}", storm.title);
}

/// Data that was stalled for 40 ms of its second, and its ACKs; two taps see both.
#[test]
fn victims_are_flows_of_data_with_their_loss() {
    use crate::analysis::fixtures::{key, link, stats};
    use crate::metrics::control::{ControlMetrics, LinkControl};
    let mut acks = stats(50_001, 100, 6_200);
    (acks.psn, acks.payload_bytes) = (rocescope_common::account::PsnTrack::default(), 0);
    let (a, b) = ("10.0.0.1", "10.0.0.2");
    let data = stats(50_000, 1_000, 1_000_000);
    let on = |at: u16| [(key(at, a, b, 17), data.clone()), (key(at, b, a, 18), acks.clone())];
    let mut sample = fixtures::sample(vec![link("near", None), link("far", None)], [on(0), on(1)].concat());
    let asked = PauseSample { worst_share: Some(0.05), paused_ns: Some(50 * NS_PER_MS), ..pause(3) };
    let control = LinkControl { pauses: vec![([2; 6], 0, asked)], neighbours: Vec::new() };
    let with = |stalled| ControlMetrics {
        links: [(0, control.clone()), (1, control.clone())].into(),
        stalled,
        ..ControlMetrics::default()
    };
    let victim = |sample: &Sample| {
        let mut found = crate::findings::tests::found(sample, &crate::analysis::Options::default());
        found.retain(|finding| finding.id == "pfc.victim");
        found.pop()
    };
    sample.metrics.control =
        Some(with(Some([(0, 40 * NS_PER_MS), (1, 45 * NS_PER_MS), (2, 30 * NS_PER_MS)].into())));
    let finding = victim(&sample).unwrap();
    assert!(finding.title.starts_with("PFC victims: 1 flow stalled for up to 40"), "{}", finding.title);
    assert_eq!((finding.flows.len(), finding.flows[0].dest_qp), (1, 17));
    let evidence = |name: &str| finding.evidence[name].clone();
    assert_eq!((evidence("stalled_ns"), evidence("longest_ratio")), ([40 * NS_PER_MS].into(), 0.04.into()));
    assert_eq!((evidence("priority"), evidence("paused_ns")), (3.into(), (50 * NS_PER_MS).into()));
    assert_eq!((evidence("paused_ratio"), evidence("flows")), (0.05.into(), 1.into()));
    // Without the link speed none of this is known, and the report names that.
    sample.metrics.control = Some(with(None));
    assert_eq!(victim(&sample), None);
    let report = crate::report::Report::build(&sample, &crate::report::Options::default());
    assert_eq!(report.facts.flows[0].pause_stall_ns.get(), None);
    assert!(report.not_evaluated.iter().any(|one| (one.id, one.needs) == ("pfc.victim", "link_speed")));
}

#[test]
fn a_priority_without_pfc_must_not_be_paused() {
    let of = |priority, frames| {
        let pause = PauseSample { frames: Some(frames), ..pause(priority) };
        severity(&paused(pause, None), "pfc.on_wrong_priority")
    };
    assert_eq!(of(3, 1_000_000), None);
    assert_eq!(of(4, 9), None);
    assert_eq!(of(4, 10), Some(Severity::Warning));
    let mut unknown = paused(PauseSample { frames: Some(10), ..pause(4) }, None);
    Arc::make_mut(&mut unknown.devices).ports[0].lossless = None;
    assert_eq!(severity(&unknown, "pfc.on_wrong_priority"), None, "nobody knows what is meant");
}

#[test]
fn a_victim_stood_still_for_long_enough() {
    for (ns, expected) in [
        (None, None),
        (Some(0), None),
        (Some(10 * NS_PER_MS - 1), None),
        (Some(10 * NS_PER_MS), Some(Severity::Warning)),
    ] {
        assert_eq!(severity(&paused(pause(3), ns), "pfc.victim"), expected, "{ns:?}");
    }
}

/// Windows of a second each, from this one on, paused for this share of them.
fn paused_for(all: &[(std::ops::Range<u64>, f64)]) -> PauseSample {
    let mut sample = PauseSample { worst_share: Some(0.0), ..pause(3) };
    (sample.frames, sample.paused_ns) = (Some(0), Some(0));
    for (seconds, share) in all {
        for second in seconds.clone() {
            let first_ns = fixtures::START + second * fixtures::SECOND;
            let paused_ns = crate::metrics::traffic::times(fixtures::SECOND, *share);
            sample.frames = sample.frames.map(|frames| frames + 10);
            sample.paused_ns = sample.paused_ns.map(|ns| ns + paused_ns);
            sample.worst_share = sample.worst_share.map(|worst| worst.max(*share));
            sample.intervals.add(&crate::entity::pauses::PauseInterval {
                first_ns,
                last_ns: first_ns + fixtures::SECOND,
                frames: Some(10),
                paused_ns: Some(paused_ns),
                share: Some(*share),
                ..Default::default()
            });
        }
    }
    sample
}

fn of_an_hour(pause: PauseSample, id: &str) -> Option<Finding> {
    let mut sample = paused(pause, None);
    sample.window = Some((fixtures::START, fixtures::START + 3_600 * fixtures::SECOND));
    let all = crate::findings::tests::found(&sample, &crate::analysis::Options::default());
    all.into_iter().find(|finding| finding.id == id)
}

#[test]
fn a_storm_of_the_first_minute_of_an_hour_has_ended_though_short_pauses_go_on() {
    let at = |second: u64| Some(fixtures::START + second * fixtures::SECOND);
    let storm = of_an_hour(paused_for(&[(5..35, 0.8), (35..3_600, 0.01)]), "pfc.storm").unwrap();
    assert!(!storm.active);
    assert_eq!((storm.first_seen_ns, storm.last_seen_ns), (at(5), at(35)));
    assert!(storm.title.contains("paused 80.0 % of the time"), "{}", storm.title);
    assert_eq!(of_an_hour(paused_for(&[(0..3_600, 0.01)]), "pfc.storm"), None);
    // The latest of two has the figures.
    let twice = paused_for(&[(5..35, 0.8), (35..3_590, 0.01), (3_590..3_600, 0.3)]);
    let storm = of_an_hour(twice, "pfc.storm").unwrap();
    assert_eq!((storm.active, storm.episodes.len()), (true, 2));
    assert_eq!((&storm.evidence["worst_share"], storm.episodes[0].peak), (&0.3.into(), Some(0.8)));
}

#[test]
fn frames_on_a_wrong_priority_have_their_times() {
    let mut wrong = paused_for(&[(5..35, 0.01), (100..105, 0.01)]);
    wrong.priority = Some(4);
    let finding = of_an_hour(wrong, "pfc.on_wrong_priority").unwrap();
    assert_eq!((finding.active, finding.episodes.len(), &finding.evidence["frames"]), (false, 2, &50.into()));
    let mut rare = PauseSample { frames: Some(12), ..pause(4) };
    for minute in 0..12 {
        let first_ns = fixtures::START + minute * 60 * fixtures::SECOND;
        let interval =
            PauseInterval { first_ns, last_ns: first_ns + 1, frames: Some(1), ..PauseInterval::default() };
        rare.intervals.add(&interval);
    }
    let finding = of_an_hour(rare, "pfc.on_wrong_priority").unwrap();
    assert_eq!((finding.episodes.len(), &finding.evidence["frames"]), (1, &12.into()), "all together");
}

#[test]
fn a_victim_of_the_first_minute_of_an_hour_has_ended() {
    let mut sample = paused(pause(3), Some(40 * NS_PER_MS));
    sample.window = Some((fixtures::START, fixtures::START + 3_600 * fixtures::SECOND));
    let devices = Arc::make_mut(&mut sample.devices);
    let qps = Arc::make_mut(&mut devices.ports[0].qps);
    let (first_ns, last_ns) = (fixtures::START, fixtures::START + fixtures::SECOND);
    qps[0].stall = Stall { first_ns, last_ns, stalled_ns: 30 * NS_PER_MS };
    let all = crate::findings::tests::found(&sample, &crate::analysis::Options::default());
    let victim = all.iter().find(|finding| finding.id == "pfc.victim").unwrap();
    assert_eq!((victim.active, victim.last_seen_ns), (false, Some(last_ns)));
    assert_eq!(victim.evidence["longest_ns"], 30 * NS_PER_MS, "of its latest stall");
}
