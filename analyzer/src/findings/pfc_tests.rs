use std::sync::Arc;

use super::*;
use crate::devices::{Devices, PauseSample, PortSample, QpSample};
use crate::findings::tests::severity;
use crate::owners::QpOwner;
use crate::report::fixtures;
use crate::sample::Sample;

/// A sample with a port that has this pause, and PFC on for priority 3.
fn paused(pause: PauseSample, stalled_ns: Option<u64>) -> Sample {
    let mut sample = fixtures::sample(vec![fixtures::link("eth0", None)], Vec::new());
    let port = PortSample {
        device: "mlx5_0".into(),
        port: 1,
        lossless: Some(1 << 3),
        pause: vec![pause],
        pause_source: "ethtool",
        qps: Arc::new(vec![QpSample {
            owner: QpOwner { lqpn: 17, ..QpOwner::default() },
            stalled_ns,
            ..QpSample::default()
        }]),
        ..PortSample::default()
    };
    sample.devices = Arc::new(Devices { ports: vec![port], ..Devices::default() });
    sample
}

fn pause(priority: u8) -> PauseSample {
    PauseSample { priority: Some(priority), frames: Some(9), paused_ns: Some(1), ..PauseSample::default() }
}

#[test]
fn a_storm_is_a_share_of_time_or_a_pause_without_end() {
    let of = |worst_share, longest_ms: u64| {
        let pause = PauseSample { worst_share, longest_ns: Some(longest_ms * MS), ..pause(3) };
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
    for (ns, expected) in
        [(None, None), (Some(0), None), (Some(10 * MS - 1), None), (Some(10 * MS), Some(Severity::Warning))]
    {
        assert_eq!(severity(&paused(pause(3), ns), "pfc.victim"), expected, "{ns:?}");
    }
}
