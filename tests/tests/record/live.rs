//! A recording of an interface has the figures of the live report of the same packets.

use std::collections::BTreeMap;
use std::time::Duration;

use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::frames;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::needs_root;
use rocescope_tests::recording::flow_rows;
use serde_json::Value;

/// Packets, bytes, payload, losses, reordered packets and retransmissions of a flow.
type Figures = [Option<i64>; 6];
type Flows = BTreeMap<(String, String, u64), Figures>;

/// Flows with losses, retransmissions and packets out of order.
fn traffic() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for qp in 0x100..0x104_u32 {
        let lost = |psn: &u32| qp == 0x101 && (20..24).contains(psn);
        all.extend((0..40).filter(|psn| !lost(psn)).map(|psn| frames::send(qp, psn)));
        if qp == 0x101 {
            all.extend((20..40).map(|psn| frames::send(qp, psn)));
        }
        if qp == 0x102 {
            all.extend([41, 40, 42].map(|psn| frames::send(qp, psn)));
        }
    }
    all
}

fn of_report(report: &Value) -> Flows {
    let number = |value: &Value| value.as_i64();
    let of = |flow: &Value| {
        let text = |name: &str| flow[name].as_str().unwrap().to_owned();
        let key = (text("src"), text("dst"), flow["dest_qp"].as_u64().unwrap());
        let loss = |name: &str| number(&flow["loss"][name]);
        let [packets, bytes, payload] = ["packets", "bytes", "payload_bytes"].map(|name| number(&flow[name]));
        (key, [packets, bytes, payload, loss("lost"), loss("recovered"), loss("retransmitted")])
    };
    report["flows"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_live_recording_has_the_sums_of_the_live_report() {
    needs_root!();
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap();
    let sent = traffic();
    let run = |arguments: &[&str]| {
        let (world, mut link) = World::with_link(1500).unwrap();
        let start = Start { netns: Some(&world.near), ..Start::default() };
        let program = Program::watching(start, arguments).unwrap();
        // In several intervals of the recording.
        for part in sent.chunks(30) {
            link.receive(part).unwrap();
            std::thread::sleep(Duration::from_millis(150));
        }
        std::thread::sleep(Duration::from_secs(1));
        let ended = program.interrupt().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
        Hooks::until_gone(&world, &mut link).unwrap();
        ended
    };
    let expected = of_report(&run(&["live", "-i", "near0", "--output", "json"]).report().unwrap());
    let ended = run(&["record", "-i", "near0", "--dir", to, "--interval", "200ms", "--rollup", "1s"]);
    assert!(ended.err.contains(" rows recorded") && !ended.err.contains(" lost"), "{}", ended.err);
    let rows = flow_rows(dir.path()).unwrap();
    let times: std::collections::BTreeSet<u64> = rows.iter().map(|row| row.t.0).collect();
    assert!(times.len() > 2, "one interval alone: {times:?}");
    let mut sums = Flows::new();
    for row in &rows {
        let key = (row.src.to_string(), row.dst.to_string(), row.dest_qp);
        let count = |count: u64| i64::try_from(count).ok();
        let figures = [
            count(row.packets),
            count(row.bytes),
            count(row.payload_bytes),
            row.lost,
            row.reordered,
            row.retransmitted,
        ];
        let sum = sums.entry(key).or_insert([None; 6]);
        *sum = std::array::from_fn(|at| [sum[at], figures[at]].into_iter().flatten().reduce(|a, b| a + b));
    }
    assert_eq!(sums, expected);
    let packets: i64 = sums.values().filter_map(|figures| figures[0]).sum();
    assert_eq!(packets, i64::try_from(sent.len()).unwrap());
    // Nothing answers these packets: what their losses are is another test's, that they are the same is this one's.
    assert!(sums.values().any(|figures| figures[3].is_some()), "no flow whose losses are known: {sums:?}");
}
