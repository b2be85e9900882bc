//! Packets of queue pairs, which samples and recordings have once the counters of the port decide about them.

use super::*;
use crate::record::collect::Collector;
use crate::record::collect::tests::{collector, take};
use crate::record::registry::QpSecond;

const START: u64 = fixtures::START;
const LQPN: u32 = 298;

/// Reads the counters of its ports, as a run does.
fn count(watch: &mut Watch, host: &Recorded, time_ns: u64) {
    watch.read_counters(&host.root(), &host.kernel(), (time_ns, time_ns));
    watch.note_counters(time_ns);
}

fn list(watch: &mut Watch, host: &Recorded, time_ns: u64) {
    super::list(watch, host, (time_ns, time_ns));
}

/// Rows of the queue pair that a recording has of the devices as they are known at a time.
fn rows(collector: &mut Collector, watch: &Watch, time_ns: u64) -> Vec<QpSecond> {
    let sample = Sample { time_ns, ..sample(watch.sample(), IFACE) };
    let mut rows = take(collector, &sample).qp_seconds;
    rows.retain(|row| row.lqpn == u64::from(LQPN));
    rows
}

/// A context is read before the counters that show how much passed: until these are read, no sample has it, so that no
/// recording has an exact count in one row and the doubt in the next.
#[test]
fn a_context_is_in_samples_and_rows_once_counters_have_decided_about_its_packets() {
    let host = |next: u32, sent: u64| {
        let statistics = format!("rx_vport_rdma_unicast_packets 9\ntx_vport_rdma_unicast_packets {sent}");
        let answers = format!("[answers]\nstatistics/{IFACE} <<\n{statistics}\n>>");
        Recorded::unpack(&format!("{MLX5}\n{answers}\n[]\n{}", answer(3, next, next, 951)))
    };
    let start = host(10, 0);
    let mut watch = Watch::new(&start.root(), &start.kernel(), &[IFACE.to_owned()], &[]);
    watch.query_contexts(50);
    let mut collector = collector(None);
    let known =
        |watch: &Watch| watch.sample().contexts.qps.first().map(|qp| (qp.readings, qp.sent, qp.ambiguous));
    let read = |watch: &mut Watch, host: &Recorded, time_ns: u64| {
        watch.read_contexts(&host.kernel(), &time_ns);
    };
    count(&mut watch, &start, START);
    list(&mut watch, &start, START);
    read(&mut watch, &start, START);
    assert_eq!(known(&watch), None);
    count(&mut watch, &start, START + SECOND);
    assert_eq!(known(&watch), Some((1, Some(0), 0)));
    assert_eq!(rows(&mut collector, &watch, START + SECOND).len(), 1, "the first reading");
    for (after_ns, many, expected) in [(SECOND, 0, 0), (4 * SECOND, 1 << 24, 2)] {
        let (begin, before) = (START + after_ns, known(&watch));
        // Two contexts between the counters.
        read(&mut watch, &host(60, 0), begin + SECOND / 2);
        read(&mut watch, &host(90, 0), begin + 2 * SECOND);
        assert_eq!(known(&watch), before);
        assert_eq!(rows(&mut collector, &watch, begin + 2 * SECOND), []);
        count(&mut watch, &host(90, many), begin + 3 * SECOND);
        let found = rows(&mut collector, &watch, begin + 3 * SECOND);
        let found: Vec<_> = found.iter().map(|row| (row.sent_packets, row.readings)).collect();
        assert_eq!(found, [((expected == 0).then_some(80), Some(2))], "{many}");
        assert_eq!(known(&watch).map(|(.., ambiguous)| ambiguous), Some(expected));
    }
    let again = Recorded::unpack(&MLX5.replacen("22 u32 951", "22 u32 953", 1));
    list(&mut watch, &again, START + 8 * SECOND);
    assert_eq!(known(&watch), None, "the number is in use again");
}

/// The state of a queue pair is in samples at once, the packets up to that list after the next counters.
#[test]
fn packets_of_a_list_are_in_samples_and_rows_once_counters_have_decided_about_them() {
    let (start, few) = (format!("{MLX5}\n{BUSY}"), format!("{MLX5}\n{BUSY}\n{LATER}"));
    let many = few.replace("tx_vport_rdma_unicast_packets 8050000", "tx_vport_rdma_unicast_packets 98050000");
    let [start, few, many] = [start, few, many].map(|text| Recorded::unpack(&text));
    for (after, expected) in [(&few, 0), (&many, 1)] {
        let mut watch = Watch::new(&start.root(), &start.kernel(), &[IFACE.to_owned()], &[]);
        let mut collector = collector(None);
        let known = |watch: &Watch| {
            let port = watch.sample().ports.remove(0);
            let qp = &port.qps[0];
            (qp.sq_psn, qp.sent, qp.ambiguous, port.qps_counted_ns)
        };
        count(&mut watch, &start, START);
        list(&mut watch, &start, START);
        assert_eq!(known(&watch), (Some(2_000), None, 0, None));
        count(&mut watch, &start, START + SECOND);
        assert_eq!(rows(&mut collector, &watch, START + SECOND), []);
        list(&mut watch, &few, START + 10 * SECOND);
        assert_eq!(known(&watch), (Some(7_002_000), Some(0), 0, Some(START)));
        assert_eq!(rows(&mut collector, &watch, START + 10 * SECOND), []);
        count(&mut watch, after, START + 11 * SECOND);
        assert_eq!(known(&watch), (Some(7_002_000), Some(7_000_000), expected, Some(START + 10 * SECOND)));
        let found = rows(&mut collector, &watch, START + 11 * SECOND);
        let found: Vec<_> = found.iter().map(|row| (row.sent_packets, row.interval_ns)).collect();
        assert_eq!(found, [((expected == 0).then_some(7_000_000), 10 * SECOND)]);
    }
}
