use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::analysis::fixtures::{
    SECOND, START, everything, key, link, port, qp_event, qp_life, sample, stats, with_lives,
};
use crate::entity::devices::Devices;
use crate::entity::lives::{Lives, QpEvent, REASON, TO_ERROR};
use crate::findings::Severity;
use crate::record::registry::FlowSecond;
use crate::report::Options;
use crate::sample::Direction;
use crate::source::feed::Update;
use crate::source::replay::{self, Emit};

pub(crate) fn collector(rollup_ns: Option<u64>) -> Collector {
    let origin = Origin {
        host: "node1".into(),
        job: None,
        is_job_given: false,
        job_of: |pod| pod.strip_suffix("-0"),
        kernel: None,
        clock: || None,
    };
    Collector::new(origin, rollup_ns)
}

pub(crate) fn take(collector: &mut Collector, sample: &Sample) -> Rows {
    collector.take(sample, &Report::build(sample, &Options::default()), None)
}

/// The rows of a capture at this interval, and its report.
fn recorded(capture: &str, interval: Duration) -> (Rows, Report) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(capture);
    let feed = replay::start(replay::Options {
        files: vec![path],
        emit: Emit::Every(interval),
        events: true,
        ..replay::Options::default()
    })
    .unwrap();
    let mut collector = collector(Some(1_000_000_000));
    let (mut rows, mut last) = (Rows::default(), None);
    for update in feed.updates {
        match update {
            Update::Sample(sample) => {
                let report = Report::build(&sample, &Options::default());
                rows.append(collector.take(&sample, &report, None));
                last = Some(report);
            }
            Update::Events(events) => collector.events(events),
            Update::Ended(result) => result.unwrap(),
            _ => {}
        }
    }
    rows.append(collector.finish());
    (rows, last.unwrap())
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap()
}

/// For every capture, sums over the rows equal the figures of its report.
#[test]
fn rows_add_up_to_the_report() {
    for capture in [
        "a1_write_mtu1024.h0.pcap",
        "b2_read.h0.pcap",
        "b7_ud_ops.h1.pcap",
        "e1_loss1.h0.pcap.gz",
        "e3_reorder.h1.pcap.gz",
        "f1_ecn_red.h1.pcap.gz",
        "g_rnr.h0.pcap",
        "h6_rping_loss.h1.pcap.gz",
    ] {
        let (rows, report) = recorded(capture, Duration::from_millis(20));
        let flows = &report.facts.flows;
        assert!(rows.flow_seconds.len() >= flows.len() && !flows.is_empty(), "{capture}");
        let sum = |of: fn(&FlowSecond) -> u64| rows.flow_seconds.iter().map(of).sum::<u64>();
        assert_eq!(sum(|row| row.packets), report.facts.totals.roce_packets, "{capture}");
        assert_eq!(sum(|row| row.bytes), report.facts.totals.roce_bytes, "{capture}");
        assert_eq!(sum(|row| row.ce), flows.iter().map(|flow| flow.ecn_data().ce).sum::<u64>(), "{capture}");
        assert_eq!(sum(|row| row.acks), flows.iter().map(|flow| flow.ack.acks).sum::<u64>(), "{capture}");
        assert_eq!(sum(|row| row.rnr_naks), flows.iter().map(|flow| flow.ack.rnr_naks).sum::<u64>());
        let naks = flows.iter().map(|flow| flow.ack.naks.total()).sum::<u64>();
        assert_eq!(sum(|row| row.nak_sequence + row.nak_other), naks, "{capture}");
        let times =
            flows.iter().filter_map(|flow| flow.latency_ns.as_deref()).map(|times| times.count).sum::<u64>();
        assert_eq!(sum(|row| row.rtt_count.unwrap_or(0)), times, "{capture}");
        let losses = |of: fn(&crate::analysis::Loss) -> u64| {
            signed(flows.iter().flat_map(crate::analysis::Flow::losses).flatten().map(|loss| of(&loss)).sum())
        };
        let lost = |of: fn(&FlowSecond) -> Option<i64>| rows.flow_seconds.iter().filter_map(of).sum::<i64>();
        assert_eq!(lost(|row| row.lost), losses(|loss| loss.lost), "{capture}");
        assert_eq!(lost(|row| row.reordered), losses(|loss| loss.recovered), "{capture}");
        assert_eq!(lost(|row| row.retransmitted), losses(|loss| loss.retransmitted), "{capture}");
        assert_eq!(lost(|row| row.timeouts), losses(|loss| loss.timeouts), "{capture}");
        let links: u64 = rows.link_seconds.iter().map(|row| row.packets).sum();
        assert_eq!(links, report.facts.totals.roce_packets, "{capture}");
        let skipped: u64 = rows.link_seconds.iter().map(|row| row.skipped).sum();
        assert_eq!(skipped, report.facts.totals.skipped.packets(), "{capture}");
        let rolled: u64 = rows.flow_rollup.iter().map(|row| row.bytes).sum();
        assert_eq!(rolled, report.facts.totals.roce_bytes, "{capture}");
        assert!(rows.flow_rollup.len() <= rows.flow_seconds.len(), "{capture}");
        let frames: u64 = rows.hosts.iter().map(|row| row.packets).sum();
        assert_eq!(frames, report.facts.totals.packets, "{capture}");
        // Every finding of the report has a row with the title that it has at that time.
        for finding in &report.findings {
            assert!(rows.findings.iter().any(|row| *row.id == *finding.id), "{capture}: {}", finding.id);
        }
    }
}

#[test]
fn flows_without_packets_have_no_row_and_new_ones_count_from_zero() {
    let flow = |packets, first_ns| {
        let key = key(0, "10.0.0.1", "10.0.0.2", 17);
        (key, crate::sample::Stats { first_ns, ..stats(49_152, packets, 1_000 * packets) })
    };
    let ingress = || vec![link("eth0", Some(Direction::Ingress))];
    let mut collector = collector(None);
    let mut at = |packets, first_ns, time_ns| {
        let sample = Sample { time_ns, ..sample(ingress(), vec![flow(packets, first_ns)]) };
        let rows = take(&mut collector, &sample).flow_seconds;
        rows.iter().map(|row| (row.packets, row.bytes, row.interval_ns)).collect::<Vec<_>>()
    };
    assert_eq!(at(10, START, START + SECOND), [(10, 10_000, SECOND)]);
    assert_eq!(at(10, START, START + 2 * SECOND), []);
    assert_eq!(at(15, START, START + 3 * SECOND), [(5, 5_000, SECOND)]);
    // In live runs, two conversions of the same time differ slightly.
    assert_eq!(at(17, START + 900, START + 4 * SECOND), [(2, 2_000, SECOND)]);
    assert_eq!(at(18, START - 900, START + 5 * SECOND), [(1, 1_000, SECOND)]);
    // The queue pair number is reused.
    let again = START + 5 * SECOND + 1;
    assert_eq!(at(20, again, START + 6 * SECOND), [(20, 20_000, SECOND)]);
    // Decreased counters belong to another flow.
    assert_eq!(at(3, again, START + 7 * SECOND), [(3, 3_000, SECOND)]);
    // After a backward step of the clock the interval is unknown.
    assert_eq!(at(4, again, START), [(1, 1_000, 0)]);
}

/// A step of the clock moves the first packets of all flows alike, which makes no new flows.
#[test]
fn a_step_of_the_clock_counts_nothing_twice() {
    let mut collector = collector(None);
    let at = |step: u64, packets| {
        let flow = crate::sample::Stats { first_ns: START + step, ..stats(49_152, packets, 1_000) };
        let key = key(0, "10.0.0.1", "10.0.0.2", 17);
        Sample {
            time_ns: START + step + packets * SECOND,
            ..sample(vec![link("eth0", None)], vec![(key, flow)])
        }
    };
    let mut packets = |sample: &Sample, elapsed| {
        let rows = collector.take(sample, &Report::build(sample, &Options::default()), elapsed);
        rows.flow_seconds.iter().map(|row| (row.packets, row.interval_ns)).collect::<Vec<_>>()
    };
    assert_eq!(packets(&at(0, 10), None), [(10, 10 * SECOND)]);
    assert_eq!(packets(&at(3_600 * SECOND, 11), Some(SECOND)), [(1, SECOND)]);
    assert_eq!(packets(&at(3_600 * SECOND, 12), None), [(1, SECOND)]);
}

/// Lengths are those of the clock that does not step, also where the other is set by less than is reported as a step.
#[test]
fn a_clock_that_is_set_makes_no_interval_longer_or_shorter() {
    const SET: [i64; 6] = [0, 0, -1_500_000_000, 400_000_000, 3_600_000_000_000, -3_600_000_000_000];
    let mut collector = collector(None);
    let (mut flows, mut hosts) = (Vec::new(), 0);
    for (second, by_ns) in (1..).zip(SET) {
        let shifted = |time_ns: u64| time_ns.saturating_add_signed(by_ns);
        let mut stats = stats(49_152, 10 * second, 1_000 * second);
        stats.first_ns = shifted(stats.first_ns);
        let flow = (key(0, "10.0.0.1", "10.0.0.2", 7), stats);
        let mut sample = sample(vec![link("eth0", Some(Direction::Egress))], vec![flow]);
        sample.time_ns = shifted(START + second * SECOND);
        sample.steady_ns = Some(second * SECOND);
        sample.window = Some((shifted(START), sample.time_ns));
        let rows = take(&mut collector, &sample);
        flows.extend(rows.flow_seconds.iter().map(|row| (row.packets, row.interval_ns)));
        hosts += rows.hosts.iter().map(|row| row.interval_ns).sum::<u64>();
    }
    hosts += collector.finish().hosts.iter().map(|row| row.interval_ns).sum::<u64>();
    assert_eq!(flows, [(10, SECOND); SET.len()]);
    assert_eq!(hosts, SET.len() as u64 * SECOND);
}

/// A finding whose figures change has a row each minute, also in the two hours for which a clock that was set back
/// shows times again.
#[test]
fn a_finding_has_its_row_each_minute_after_the_clock_was_set_back() {
    let mut collector = collector(None);
    let mut rows = 0;
    for second in 1..=130 {
        let mut sample = everything();
        sample.time_ns = START + second * SECOND + if second < 5 { 7_200 * SECOND } else { 0 };
        let mut report = Report::build(&sample, &Options::default());
        let title = format!("{second} s");
        let uneven = crate::findings::Finding::new("links.imbalance", Severity::Warning, title);
        report.findings = vec![crate::findings::Finding { active: true, ..uneven }];
        let elapsed = (second == 5).then_some(SECOND);
        rows += collector.take(&sample, &report, elapsed).findings.len();
    }
    assert_eq!(rows, 4, "at first, at the step, and after one minute and two");
}

#[test]
fn a_flow_stays_the_same_when_the_clock_changes_what_its_times_are() {
    let mut collector = collector(None);
    let mut at = |packets, shift_ns: i64, time_ns: u64| {
        let key = key(0, "10.0.0.1", "10.0.0.2", 17);
        let mut stats = stats(49_152, packets, 1_000 * packets);
        stats.first_ns = stats.first_ns.saturating_add_signed(shift_ns);
        let mut sample = sample(vec![link("eth0", Some(Direction::Ingress))], vec![(key, stats)]);
        sample.time_ns = time_ns.saturating_add_signed(shift_ns);
        sample.window = Some((START.saturating_add_signed(shift_ns), sample.time_ns));
        take(&mut collector, &sample).flow_seconds.iter().map(|row| row.packets).collect::<Vec<_>>()
    };
    assert_eq!(at(10, 0, START + SECOND), [10]);
    // Each sample of a live run converts times with its own clock offset, which drifts by nanoseconds.
    assert_eq!(at(15, 7, START + 2 * SECOND), [5]);
    assert!(at(15, -3, START + 3 * SECOND).is_empty());
    // The clock can also step.
    assert_eq!(at(17, -3_600_000_000_000, START + 4 * SECOND), [2]);
}

#[test]
fn losses_of_the_source_are_counted_and_an_interval_without_news_has_no_row_of_the_host() {
    let mut collector = collector(None);
    let first = everything();
    let rows = take(&mut collector, &first);
    assert_eq!(rows.hosts.len(), 1);
    let host = &rows.hosts[0];
    assert_eq!((host.flow_table_full, host.events_dropped, host.capture_drops), (5, Some(12), None));
    assert_eq!(
        host.unrecorded_packets, 1_007,
        "of flows that were retired, and of those that found no place"
    );
    let mut next = Sample { time_ns: first.time_ns + SECOND, ..first.clone() };
    assert_eq!(take(&mut collector, &next).hosts, []);
    next.time_ns += SECOND;
    next.events_dropped = Some(20);
    let rows = take(&mut collector, &next);
    assert_eq!((rows.hosts[0].events_dropped, rows.hosts[0].interval_ns), (Some(8), 2 * SECOND));
    assert_eq!((rows.flow_seconds, rows.link_seconds), (Vec::new(), Vec::new()));
    next.time_ns += SECOND;
    collector.losses(Losses { rows: 7, events_left_out: 1, clock_jump_ns: -5 });
    let rows = take(&mut collector, &next);
    assert_eq!((rows.hosts[0].rows_lost, rows.hosts[0].clock_jump_ns), (7, -5));
    next.time_ns += 60 * SECOND;
    assert_eq!(take(&mut collector, &next).hosts.len(), 1, "once a minute");
}

#[test]
fn queue_pairs_have_a_row_when_they_change_and_counters_when_they_rise() {
    let with = |state, sent: u64, events: usize| {
        let mut life = qp_life(0x118, 0x2A7);
        life.state = Some(state);
        let mut port = port();
        port.counters = vec![crate::entity::devices::SourceSample {
            source: "sysfs hw_counters",
            values: vec![("tx_packets".into(), sent), ("cnps_sent".into(), 0)],
            ..Default::default()
        }];
        let event = |number| QpEvent { number, ..qp_event(0x118, "QP_FATAL", START + number) };
        let events = (0..events as u64).map(event).collect();
        let lives = Lives { qps: vec![life].into(), events, ..Lives::default() };
        let mut made = sample(vec![link("eth0", None)], Vec::new());
        made.devices = std::sync::Arc::new(Devices {
            ports: vec![port],
            lives: std::sync::Arc::new(lives),
            ..Devices::default()
        });
        made
    };
    let mut collector = collector(None);
    let rows = take(&mut collector, &with("RTS", 10, 0));
    let counters: Vec<_> =
        rows.device_seconds.iter().map(|row| (row.counter.to_string(), row.delta)).collect();
    assert_eq!(counters, [("tx_packets".to_owned(), 10)]);
    assert_eq!((rows.qp_lives.len(), rows.qp_lives[0].state.as_deref()), (1, Some("RTS")));
    let rows_lqpn = rows.qp_lives[0].lqpn;
    let rows = take(&mut collector, &with("RTS", 10, 0));
    assert_eq!((rows.device_seconds.len(), rows.qp_lives.len()), (0, 0));
    // Without that row, later ones would not say that it is there.
    let lives = |first_ns| collector.before(first_ns).qp_lives.into_iter().map(|life| (life.lqpn, life.t.0));
    let (none, one): (Vec<_>, Vec<_>) = (lives(START).collect(), lives(u64::MAX).collect());
    assert_eq!((none.len(), one), (0, vec![(rows_lqpn, u64::MAX)]));
    let rows = take(&mut collector, &with("ERR", 12, 1));
    assert_eq!((rows.device_seconds[0].delta, rows.events.len()), (2, 1));
    assert_eq!(rows.qp_lives[0].end_reason.as_deref(), Some("QP_FATAL"));
    assert_eq!(take(&mut collector, &with("ERR", 12, 2)).events.len(), 1, "the new one alone");
}

#[test]
fn a_queue_pair_ends_for_the_reason_of_its_driver_else_for_its_fatal_event() {
    let event = |name: &str, at: u64| qp_event(17, name, START + at);
    let refused = QpEvent { errno: Some(22), duration_ns: Some(4_000), ..event("modify to RTS", 30) };
    let told = QpEvent { reason: Some("local length error (0x01)".into()), ..event(REASON, 15) };
    let reason = |events: Vec<QpEvent>| {
        let mut life = qp_life(17, 18);
        life.state = Some("ERR");
        life.control.created_ns = Some(START + 5);
        let lives = Lives { qps: vec![life].into(), events, ..Lives::default() };
        let rows = take(&mut collector(None), &with_lives(port(), lives));
        (rows.qp_lives[0].end_reason.as_ref().map(ToString::to_string), rows.events)
    };
    let of = |events: &[&QpEvent]| reason(events.iter().map(|event| (*event).clone()).collect()).0;
    let (fatal, found) = (event("QP_ACCESS_ERR", 10), event(TO_ERROR, 20));
    assert_eq!(of(&[&fatal, &told, &found, &refused]).as_deref(), Some("local length error (0x01)"));
    // What a query finds later says less, and a verb that fails in the error state says nothing of its reason.
    assert_eq!(of(&[&fatal, &found, &refused]).as_deref(), Some("QP_ACCESS_ERR"));
    assert_eq!(of(&[&found, &refused]).as_deref(), Some(TO_ERROR));
    assert_eq!(of(&[&refused]).as_deref(), Some("modify to RTS"));
    // That of the queue pair that had the number before is not its own.
    assert_eq!(
        of(&[&QpEvent { time_ns: START, ..told.clone() }, &refused]).as_deref(),
        Some("modify to RTS")
    );
    let (_, rows) = reason(vec![told, refused]);
    let kept: Vec<_> = rows.iter().map(|row| (row.reason.as_deref(), row.duration_ns)).collect();
    assert_eq!(kept, [(Some("local length error (0x01)"), None), (None, Some(4_000))]);
}

#[test]
fn the_job_is_that_of_the_processes_unless_the_user_names_it() {
    let mut report = Report::build(&everything(), &Options::default());
    report.facts.flows[0].pod = Some("llama-0".into());
    let mut found = collector(None);
    let rows = found.take(&everything(), &report, None);
    assert!(rows.flow_seconds.iter().all(|row| row.job.as_deref() == Some("llama")));
    // That of the environment is of the recorder: flows of other jobs have their own.
    let around = || {
        let mut around = collector(None);
        around.origin.job = Some("slurm job 77".into());
        around
    };
    let of_nobody = Report::build(&everything(), &Options::default());
    let rows = around().take(&everything(), &of_nobody, None);
    assert!(rows.flow_seconds.iter().all(|row| row.job.as_deref() == Some("slurm job 77")));
    assert_eq!(rows.hosts[0].job.as_deref(), Some("slurm job 77"));
    let rows = around().take(&everything(), &report, None);
    assert_eq!(rows.flow_seconds[0].job.as_deref(), Some("llama"));
    assert_eq!(rows.hosts[0].job.as_deref(), Some("llama"));
    let mut given = collector(None);
    given.origin.job = Some("mine".into());
    given.origin.is_job_given = true;
    let rows = given.take(&everything(), &report, None);
    assert!(rows.flow_seconds.iter().all(|row| row.job.as_deref() == Some("mine")));
}

/// One that carried RoCE and a capture have; a port that no job uses has none.
#[test]
fn an_idle_link_has_a_row_each_minute() {
    for (direction, packets, all) in [
        (Some(Direction::Egress), 5, [vec![5], vec![], vec![], vec![0], vec![]]),
        (None, 0, [vec![0], vec![], vec![], vec![0], vec![]]),
        (Some(Direction::Egress), 0, [const { Vec::new() }; 5]),
    ] {
        let mut collector = collector(None);
        let at = |second: u64| {
            let flow = (key(0, "10.0.0.1", "10.0.0.2", 17), stats(49_152, packets, 1_000));
            let flows = if packets > 0 { vec![flow] } else { Vec::new() };
            let mut idle = sample(vec![link("eth0", direction)], flows);
            idle.time_ns = START + second * SECOND;
            take(&mut collector, &idle).link_seconds.iter().map(|row| row.packets).collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 60, 61, 62].map(at), all, "{direction:?} {packets}");
    }
}

/// Also those of a clock that was set back, and those that the list had no room to keep.
#[test]
fn events_of_queue_pairs_are_recorded_by_number() {
    let mut collector = collector(None);
    let mut at = |times: &[u64], left_out: u64| {
        let event =
            |(number, second)| QpEvent { number, ..qp_event(17, "QP_FATAL", START + second * SECOND) };
        let events = (left_out..).zip(times).map(event);
        let mut sample = everything();
        Arc::make_mut(&mut sample.devices).lives =
            Arc::new(Lives { events: events.collect(), events_left_out: left_out, ..Lives::default() });
        let rows = take(&mut collector, &sample);
        let left_out = rows.hosts.iter().map(|row| row.events_left_out).sum::<u64>();
        (rows.events.iter().map(|row| (row.t.0 - START) / SECOND).collect::<Vec<_>>(), left_out)
    };
    assert_eq!(at(&[10, 20], 0), (vec![10, 20], 0));
    assert_eq!(at(&[10, 20], 0), (vec![], 0));
    assert_eq!(at(&[10, 20, 5], 0), (vec![5], 0));
    assert_eq!(at(&[7, 8], 4), (vec![7, 8], 1));
}

#[test]
fn a_finding_is_the_same_whichever_host_it_names_and_ends_once() {
    let report = |requester: &str, active: bool| {
        let end = |addr: &str| crate::findings::End {
            addr: addr.parse::<std::net::IpAddr>().unwrap().into(),
            qpn: None,
            pid: None,
            comm: None,
            pod: None,
        };
        let mut report = Report::build(&everything(), &Options::default());
        let uneven = crate::findings::Finding::new("links.imbalance", Severity::Warning, String::new());
        let uneven = crate::findings::Finding { active: true, requester: Some(end(requester)), ..uneven };
        report.findings = if active { vec![uneven] } else { Vec::new() };
        report
    };
    let mut collector = collector(None);
    let mut at = |report: &Report| {
        let rows = collector.take(&everything(), report, None).findings;
        rows.iter().map(|row| (row.active, row.src)).collect::<Vec<_>>()
    };
    let first = report("10.0.0.1", true);
    assert_eq!(at(&first), [(1, None)]);
    assert_eq!(at(&report("10.0.0.2", true)), []);
    assert_eq!(at(&report("10.0.0.2", false)), [(0, None)]);
    assert!(collector.finish().findings.is_empty());
}

#[test]
fn events_beyond_the_bound_are_counted() {
    let sample = everything();
    let event = EventSample {
        time_ns: START,
        key: sample.flows[0].key,
        events: rocescope_common::account::Event::GAP,
        opcode: 4,
        tos: 0,
        src_port: 1,
        psn: 2,
        missing: 3,
        aeth: rocescope_common::wire::frame::UNKNOWN,
        wire_len: 100,
        bth_offset: 0,
        headers: bytes::Bytes::new(),
    };
    let mut collector = collector(None);
    collector.events(vec![event.clone(); 600]);
    collector.events(vec![event; 600]);
    let rows = take(&mut collector, &sample);
    assert_eq!((rows.events.len(), rows.hosts[0].events_left_out), (1_000, 200));
    let first = &rows.events[0];
    assert_eq!((&*first.event, first.missing, first.aeth), ("GAP", Some(3), None));
    assert_eq!(first.link.as_deref(), Some("eth0"));
}
