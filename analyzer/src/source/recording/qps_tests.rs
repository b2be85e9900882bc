use std::sync::Arc;

use super::super::state::State;
use super::*;
use crate::analysis::DeviceQp;
use crate::analysis::fixtures::{SECOND, START, everything, port, qp_event, qp_life, with_lives};
use crate::entity::devices::Devices;
use crate::record::collect::tests::{collector, take};
use crate::report::{Options, Report};
use crate::sample::Sample;

fn report(sample: &Sample) -> Report {
    Report::build(sample, &Options::default())
}

/// A context read `readings` times, the last time at the end of the second.
fn context(lqpn: u32, second: u64, readings: u64) -> ContextSample {
    ContextSample {
        device: "mlx5_0".into(),
        port: 1,
        lqpn,
        src: "10.0.0.1".parse().ok(),
        read_ns: START + second * SECOND,
        readings,
        sent: Some(readings * 1_000),
        received: Some(0),
        in_flight: Some(8),
        stuck_ns: Some(0),
        retries_used: Some(0),
        rnr_retries_used: Some(0),
        retrying: readings / 3,
        ..ContextSample::default()
    }
}

/// Three queue pairs after this many seconds: one that the kernel lists and whose context is read, one made past the
/// verbs, one that the kernel lists only.
fn sample(second: u64, contexts: Vec<ContextSample>) -> Sample {
    let listed = |lqpn: u32, sent: Option<u64>| QpSample {
        owner: QpOwner {
            device: "mlx5_0".into(),
            lqpn,
            rqpn: Some(700),
            kind: Some("RC"),
            state: Some("RTS"),
            pid: Some(4_711),
            comm: Some("train".into()),
            pod: Some("llama-0".into()),
        },
        sent,
        received: sent,
        ..QpSample::default()
    };
    let control = QpControl { created_ns: Some(START), ..qp_life(17, 700).control };
    let lives = Lives {
        qps: Arc::new(vec![
            QpLife { origin: Some(VERBS), pod: Some("llama-0".into()), control, ..qp_life(17, 700) },
            QpLife { origin: Some(DEVX), ..qp_life(18, 700) },
        ]),
        events: vec![
            qp_event(17, "SQ_DRAINED", START + SECOND / 2),
            QpEvent {
                number: 1,
                errno: Some(110),
                duration_ns: Some(SECOND / 4),
                ..qp_event(18, "modify to RTR", START + SECOND / 2 + 1)
            },
            QpEvent {
                number: 2,
                reason: Some("transport retry count exceeded".into()),
                ..qp_event(18, "error reason", START + SECOND / 2 + 2)
            },
        ],
        ..Lives::default()
    };
    let mut port = port();
    port.qps = Arc::new(vec![listed(17, None), listed(19, Some(second * 10))]);
    let mut sample = with_lives(port, lives);
    sample.time_ns = START + second * SECOND;
    let contexts = Contexts { qps: contexts, ..Contexts::default() };
    sample.devices = Arc::new(Devices { contexts: Arc::new(contexts), ..(*sample.devices).clone() });
    sample
}

fn qps(report: &Report) -> Vec<DeviceQp> {
    report.facts.devices.iter().flat_map(|device| device.qps.clone()).collect()
}

#[test]
fn played_back_queue_pairs_are_those_of_the_report() {
    let (mut collector, mut state) = (collector(None), State::default());
    let mut last = None;
    for second in 1..=9 {
        // Contexts take turns: every third second.
        let context = context(17, second - second % 3, second / 3);
        let live = sample(second, if second >= 3 { vec![context] } else { Vec::new() });
        let rows = take(&mut collector, &live);
        rows.qp_lives.iter().for_each(|row| state.qps.life(row, true));
        rows.qp_seconds.iter().for_each(|row| state.qp(row));
        rows.events.iter().for_each(|row| assert!(state.event(row).is_none()));
        last = Some(live);
    }
    let live = report(&last.unwrap());
    let played = report(&state.sample(START + 9 * SECOND, &[]));
    assert_eq!(played.facts.devices[0].qp_events.len(), 3);
    assert_eq!(played.facts.devices[0].qp_events, live.facts.devices[0].qp_events);
    let mut live = qps(&live);
    // A recording has no sources by figure.
    for qp in &mut live {
        qp.figure_sources.clear();
    }
    let mut played = qps(&played);
    assert_eq!(played.len(), 3);
    for (played, live) in played.iter_mut().zip(&live) {
        // The time of a reading is that of the interval's end.
        assert!(played.context_ns >= live.context_ns);
        played.context_ns = live.context_ns;
    }
    assert_eq!(played, live);
    assert_eq!((live[0].sent_packets, live[0].retrying_readings), (Some(3_000), Some(1)));
}

#[test]
fn packets_of_an_interval_in_which_psns_may_have_wrapped_are_not_known() {
    let (mut collector, mut state) = (collector(None), State::default());
    let mut sent = Vec::new();
    for (second, ambiguous) in [(3, 0), (6, 0), (9, 1), (12, 1)] {
        let context = ContextSample { ambiguous, ..context(17, second, second / 3) };
        let rows = take(&mut collector, &sample(second, vec![context]));
        rows.qp_lives.iter().for_each(|row| state.qps.life(row, true));
        rows.qp_seconds.iter().for_each(|row| state.qp(row));
        sent.extend(rows.qp_seconds.iter().filter(|row| row.lqpn == 17).map(|row| row.sent_packets));
    }
    assert_eq!(sent, [Some(1_000), Some(1_000), None, Some(1_000)]);
    let played = report(&state.sample(START + 12 * SECOND, &[]));
    let of = qps(&played).into_iter().find(|qp| qp.lqpn == 17).unwrap();
    assert_eq!((of.sent_packets, of.ambiguous_readings), (Some(3_000), Some(1)));
}

/// What begins with such an interval is a lower bound, too.
#[test]
fn packets_after_an_interval_that_is_not_known_are_a_lower_bound() {
    let (mut collector, mut state) = (collector(None), State::default());
    let mut sent = Vec::new();
    for second in [3, 6, 9] {
        let context = ContextSample { ambiguous: 1, ..context(17, second, second / 3) };
        let rows = take(&mut collector, &sample(second, vec![context]));
        rows.qp_lives.iter().for_each(|row| state.qps.life(row, true));
        rows.qp_seconds.iter().for_each(|row| state.qp(row));
        sent.extend(rows.qp_seconds.iter().filter(|row| row.lqpn == 17).map(|row| row.sent_packets));
    }
    assert_eq!(sent, [None, Some(1_000), Some(1_000)]);
    let played = report(&state.sample(START + 9 * SECOND, &[]));
    let of = qps(&played).into_iter().find(|qp| qp.lqpn == 17).unwrap();
    assert_eq!((of.sent_packets, of.ambiguous_readings), (Some(2_000), Some(1)));
}

/// A run that was killed writes no end of what it found.
#[test]
fn what_an_earlier_run_found_is_over_when_another_begins() {
    let mut state = State::default();
    let run = |second: u64| {
        let mut collector = collector(None);
        let mut rows = take(&mut collector, &Sample { time_ns: START + second * SECOND, ..everything() });
        rows.findings.retain(|row| row.active == 1);
        rows
    };
    let active = |state: &State| {
        let sample = state.sample(START, &[]);
        let all = &sample.recording.as_ref().unwrap().findings;
        all.iter().filter(|json| json.contains(r#""active":true"#)).count()
    };
    let (first, second) = (run(1), run(100));
    first.findings.iter().for_each(|row| state.finding(row));
    first.hosts.iter().for_each(|row| state.host(row));
    assert!(active(&state) > 0 && active(&state) == first.findings.len());
    second.hosts.iter().for_each(|row| state.host(row));
    assert_eq!(active(&state), 0);
    second.findings.iter().for_each(|row| state.finding(row));
    second.hosts.iter().for_each(|row| state.host(row));
    assert_eq!(active(&state), second.findings.len());
}

#[test]
fn rows_of_queue_pairs_are_of_what_moved() {
    let mut collector = collector(None);
    let rows = take(&mut collector, &sample(0, vec![context(17, 0, 3)]));
    assert_eq!(rows.qp_seconds.len(), 1, "nothing moved at the others: {rows:?}");
    assert_eq!(rows.qp_seconds[0].job.as_deref(), Some("llama"));
    assert_eq!(rows.hosts[0].job.as_deref(), Some("llama"));
    let rows = take(&mut collector, &sample(4, vec![context(17, 4, 6)]));
    let [of_context, listed] = rows.qp_seconds.as_slice() else { panic!("{rows:?}") };
    assert_eq!((of_context.lqpn, of_context.interval_ns), (17, 4 * SECOND));
    assert_eq!((of_context.sent_packets, of_context.readings), (Some(3_000), Some(3)));
    assert_eq!((of_context.retrying_readings, of_context.exhausted_readings), (Some(1), None));
    assert_eq!((listed.lqpn, listed.sent_packets, listed.readings), (19, Some(40), None));
    // The first reading that finds it where it was says so, the next has no row; one that finds it stuck has, and so
    // has the first that finds it released.
    let mut at = 4 * SECOND;
    let mut read = |readings: u64, in_flight: u32, stuck_ns: u64| {
        at += SECOND;
        let of = ContextSample {
            readings,
            in_flight: Some(in_flight),
            stuck_ns: Some(stuck_ns),
            sent: Some(6_000),
            retrying: 2,
            ..context(17, at / SECOND, 6)
        };
        let rows = take(&mut collector, &sample(at / SECOND, vec![of])).qp_seconds;
        rows.iter()
            .filter(|row| row.lqpn == 17)
            .map(|row| (row.sent_packets, row.stuck_ns))
            .collect::<Vec<_>>()
    };
    assert_eq!(read(7, 8, 0), [(Some(0), Some(0))]);
    assert!(read(8, 8, 0).is_empty());
    assert_eq!(read(9, 8, SECOND), [(Some(0), Some(SECOND))]);
    assert_eq!(read(10, 0, 0), [(Some(0), Some(0))]);
    assert!(read(11, 0, 0).is_empty());
}

/// Packets of a row are those between two readings. Its length is that of the clock that does not step, whatever the
/// other one was set by meanwhile.
#[test]
fn a_clock_that_is_set_makes_no_row_of_a_queue_pair_longer_or_shorter() {
    let mut collector = collector(None);
    let mut found = Vec::new();
    for second in 0..=12 {
        // Readings are rarer than samples.
        let read = second - second % 4;
        let unix_ns = |second: u64| {
            let by_ns = if second < 6 {
                0
            } else if second < 10 {
                3_600_000_000_000
            } else {
                -1_500_000_000
            };
            (START + second * SECOND).saturating_add_signed(by_ns)
        };
        let of = ContextSample {
            read_ns: unix_ns(read),
            read_steady_ns: Some(read * SECOND),
            ..context(17, read, read / 4)
        };
        let mut sample = sample(read, vec![of]);
        (sample.time_ns, sample.steady_ns) = (unix_ns(second), Some(second * SECOND));
        let port = &mut Arc::make_mut(&mut sample.devices).ports[0];
        (port.qps_counted_ns, port.qps_counted_steady_ns) = (Some(unix_ns(read)), Some(read * SECOND));
        let rows = take(&mut collector, &sample).qp_seconds;
        found.extend(rows.iter().map(|row| (row.lqpn, row.sent_packets, row.interval_ns)));
    }
    let each = [(17, Some(1_000), 4 * SECOND), (19, Some(40), 4 * SECOND)];
    assert_eq!(found, [each, each, each].concat());
}

#[test]
fn a_number_that_is_used_again_begins_at_zero_and_queue_pairs_that_leave_have_a_row() {
    let mut collector = collector(None);
    let first = take(&mut collector, &sample(1, vec![context(17, 1, 6)]));
    let mut again = sample(1, vec![context(17, 2, 7)]);
    again.time_ns += SECOND;
    let devices = Arc::make_mut(&mut again.devices);
    let lives = Arc::make_mut(&mut devices.lives);
    let life = &mut Arc::make_mut(&mut lives.qps)[0];
    life.control.created_ns = Some(START + SECOND);
    devices.ports[0].qps = Arc::new(devices.ports[0].qps[..1].to_vec());
    let rows = take(&mut collector, &again);
    assert_eq!(rows.qp_seconds[0].sent_packets, Some(7_000), "{rows:?}");
    let gone: Vec<u64> = rows.qp_lives.iter().filter(|row| row.gone == Some(1)).map(|row| row.lqpn).collect();
    assert_eq!(gone, [19], "the one that is in no list; another replaces the one before");
    let mut state = State::default();
    first.qp_lives.iter().for_each(|row| state.qps.life(row, true));
    rows.qp_lives.iter().for_each(|row| state.qps.life(row, true));
    let left: Vec<u32> = qps(&report(&state.sample(again.time_ns, &[]))).iter().map(|qp| qp.lqpn).collect();
    assert_eq!(left, [17, 18]);
}
