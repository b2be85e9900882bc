//! The kernel's flow table at its limits: full, retired, with many source ports, without a reader. Every packet is
//! counted somewhere.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;

use rocescope_common::account::Event;
use rocescope_tests::capture_file::{ETHERNET, Order, Pcap};
use rocescope_tests::diff;
use rocescope_tests::kernel::frames::Frame;
use rocescope_tests::kernel::machine::{Hook, Machine};
use rocescope_tests::kernel::{available, replayed};
use rocescope_tests::oracle::binary;
use rocescope_tests::oracle::craft::{self, Roce};
use rocescope_tests::schema;
use serde_json::{Value, json};

const START: u64 = 1_700_000_000_000_000_000;
const MILLISECOND: u64 = 1_000_000;

fn frame(time_ns: u64, packet: &Roce) -> Frame {
    let data = craft::ethernet(0x0800, &packet.ipv4());
    let wire_len = u32::try_from(data.len()).unwrap();
    Frame { time_ns, data, wire_len }
}

/// `packets` packets of each queue pair, alternating, a millisecond apart.
fn in_turn(queue_pairs: std::ops::Range<u32>, packets: u32) -> Vec<Frame> {
    let all = (0..packets).flat_map(|psn| queue_pairs.clone().map(move |qp| (psn, qp)));
    (0..)
        .zip(all)
        .map(|(number, (psn, dest_qp))| {
            let payload = 16 * dest_qp as usize;
            frame(START + number * MILLISECOND, &Roce { dest_qp, psn, payload, ..Roce::default() })
        })
        .collect()
}

fn send(machine: &mut Machine, frames: &[Frame]) {
    for frame in frames {
        machine.send(frame).unwrap();
    }
}

fn report(machine: &mut Machine) -> Value {
    replayed::report(&machine.sample().unwrap()).unwrap()
}

/// Replay of the frames.
fn replay(frames: &[Frame]) -> Value {
    let mut report = replayed::report(&replayed::sample(frames).unwrap().0).unwrap();
    report["totals"]["lost"]["events_dropped"] = json!(0);
    report["totals"]["lost"]["bins_dropped"] = json!(0);
    report
}

fn flows(report: &Value) -> BTreeMap<u64, Value> {
    let flows = report["flows"].as_array().unwrap().iter();
    flows.map(|flow| (flow["dest_qp"].as_u64().unwrap(), flow.clone())).collect()
}

/// All packets are accounted for.
fn conserved(report: &Value, sent: &[&Frame]) {
    let totals = &report["totals"];
    let sum = |field: &str| -> u64 {
        report["flows"].as_array().unwrap().iter().map(|flow| flow[field].as_u64().unwrap()).sum()
    };
    let roce = totals["roce_packets"].as_u64().unwrap();
    assert_eq!(roce, sent.len() as u64, "{totals}");
    let bytes: u64 = sent.iter().map(|frame| u64::from(frame.wire_len)).sum();
    assert_eq!(totals["roce_bytes"], bytes, "{totals}");
    let retired = totals["retired"]["packets"].as_u64().unwrap();
    let lost = |why: &str| totals["lost"][why].as_u64().unwrap();
    assert_eq!(roce, sum("packets") + retired + lost("flow_table_full") + lost("contended"), "{totals}");
}

#[test]
fn what_a_full_table_cannot_take_is_counted() {
    if !available() {
        return;
    }
    let frames = in_turn(1..13, 5);
    for hook in Hook::ALL {
        let mut machine = Machine::new(hook, 8).unwrap();
        send(&mut machine, &frames);
        let report = report(&mut machine);
        assert_eq!(report["totals"]["lost"]["flow_table_full"], 4 * 5);
        conserved(&report, &frames.iter().collect::<Vec<_>>());
        // The first flows remain exact.
        let whole = flows(&replay(&frames));
        let kept = flows(&report);
        assert_eq!(kept.keys().copied().collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
        for (qp, mut flow) in kept {
            for unknown in ["vlan", "inner_vlan"] {
                if hook.is_xdp() {
                    assert_eq!(flow[unknown], Value::Null);
                    flow[unknown] = whole[&qp][unknown].clone();
                }
            }
            assert_eq!(diff::differences(&flow, &whole[&qp]), Vec::<String>::new());
        }
    }
}

#[test]
fn idle_flows_retire_without_taking_a_count_along() {
    if !available() {
        return;
    }
    let mut machine = Machine::new(Hook::TcIngress, 8).unwrap();
    let early = in_turn(1..9, 4);
    send(&mut machine, &early);
    let late = Frame { time_ns: START + 10_000 * MILLISECOND, ..early[2].clone() };
    machine.send(&late).unwrap();

    let reading = machine.tables.read(&machine.programs).unwrap();
    let before = START + 5_000 * MILLISECOND;
    let retired = machine.tables.retire_idle(&mut machine.programs, &reading.flows, before).unwrap();
    assert_eq!(retired, 7, "all but the one whose event came late");
    let after = report(&mut machine);
    let mut sent: Vec<&Frame> = early.iter().chain([&late]).collect();
    conserved(&after, &sent);
    assert_eq!(after["totals"]["retired"]["flows"], 7);
    assert_eq!(after["totals"]["retired"]["packets"], 28);
    assert_eq!(flows(&after).keys().copied().collect::<Vec<_>>(), [3]);
    // Sums over flows include retired ones.
    let whole: Vec<Frame> = sent.iter().map(|frame| (*frame).clone()).collect();
    let expected = replay(&whole);
    for sum in ["packets", "bytes", "roce_packets", "roce_bytes", "cnp_packets", "ecn"] {
        assert_eq!(after["totals"][sum], expected["totals"][sum], "{sum}");
    }
    assert_eq!(after["entropy"], expected["entropy"]);
    assert_eq!(after["links"], expected["links"]);

    // The slots are reused, and a returning flow starts again.
    let again: Vec<Frame> = in_turn(7..14, 3)
        .into_iter()
        .map(|frame| Frame { time_ns: frame.time_ns + 20_000 * MILLISECOND, ..frame })
        .collect();
    send(&mut machine, &again);
    sent.extend(&again);
    let last = report(&mut machine);
    conserved(&last, &sent);
    assert_eq!(last["totals"]["lost"]["flow_table_full"], 0);
    let (fresh, alone) = (flows(&last), flows(&replay(&again)));
    assert_eq!(fresh.len(), 8);
    for (qp, flow) in alone {
        assert_eq!(diff::differences(&fresh[&qp], &flow), Vec::<String>::new());
    }
}

#[test]
fn ports_and_opcodes_of_a_retired_flow_go_with_it() {
    if !available() {
        return;
    }
    let mut machine = Machine::new(Hook::TcIngress, 64).unwrap();
    let sprayed = |time: u64| -> Vec<Frame> {
        let packet =
            |n: u16| Roce { src_port: 50_000 + n, psn: u32::from(n), payload: 64, ..Roce::default() };
        let mut frames: Vec<Frame> = (0..20).map(|n| frame(START + time, &packet(n))).collect();
        let other = Roce { opcode: 0x24, psn: 20, ..packet(0) };
        frames.push(frame(START + time, &other));
        frames
    };
    // More entries than the overflow table holds at once: room must be freed each time.
    for round in 0..10 {
        let frames = sprayed(round * 1_000 * MILLISECOND);
        send(&mut machine, &frames);
        let now = report(&mut machine);
        assert_eq!(now["flows"], replay(&frames)["flows"], "round {round}");
        let reading = machine.tables.read(&machine.programs).unwrap();
        let retired = machine.tables.retire_idle(&mut machine.programs, &reading.flows, u64::MAX).unwrap();
        assert_eq!(retired, 1);
        let reading = machine.tables.read(&machine.programs).unwrap();
        assert!(reading.flows.is_empty() && reading.extra.is_empty());
    }
    let last = report(&mut machine);
    assert_eq!(last["totals"]["lost"]["extra_table_full"], 0);
    assert_eq!(last["totals"]["retired"]["packets"], 210);
    let all: Vec<Frame> = (0..10).flat_map(|round| sprayed(round * 1_000 * MILLISECOND)).collect();
    // The bytes of a retired flow are unknown by 5-tuple.
    let entropy = |report: &Value| {
        let mut entropy = report["entropy"].clone();
        entropy["data"].take();
        entropy
    };
    assert_eq!(entropy(&last), entropy(&replay(&all)));
}

#[test]
fn ports_that_find_no_room_are_counted_in_their_flow_all_the_same() {
    const PORTS: u16 = 40;
    if !available() {
        return;
    }
    let frames: Vec<Frame> = (0..PORTS)
        .map(|n| {
            let packet = Roce { src_port: 50_000 + n, psn: u32::from(n), payload: 64, ..Roce::default() };
            frame(START + u64::from(n), &packet)
        })
        .collect();
    let mut machine = Machine::new(Hook::TcIngress, 8).unwrap();
    send(&mut machine, &frames);
    let report = report(&mut machine);
    conserved(&report, &frames.iter().collect::<Vec<_>>());
    let flow = &report["flows"][0];
    assert_eq!(flow["packets"], PORTS);
    assert_eq!(flow["psn"]["gaps"], 0);
    let listed = flow["src_ports"].as_array().unwrap().iter().map(|p| p["packets"].as_u64().unwrap());
    let lost = report["totals"]["lost"]["extra_table_full"].as_u64().unwrap();
    assert_eq!(listed.sum::<u64>() + lost, u64::from(PORTS), "{flow}");
    // Its first port, and those for which the table has room.
    assert_eq!(lost, u64::from(PORTS) - 1 - 8);
}

/// Fabrics that spray packets over paths change the source port with every packet.
#[test]
fn a_sprayed_queue_pair_is_one_flow_without_gaps() {
    if !available() {
        return;
    }
    let frames: Vec<Frame> = (0..3_000_u32)
        .map(|n| {
            let src_port = 49_152 + u16::try_from(n * 7 % 1024).unwrap();
            frame(START + u64::from(n), &Roce { src_port, psn: n, payload: 256, ..Roce::default() })
        })
        .collect();
    let mut machine = Machine::new(Hook::TcIngress, 4096).unwrap();
    send(&mut machine, &frames);
    let report = report(&mut machine);
    assert_eq!(diff::differences(&report, &replay(&frames)), Vec::<String>::new());
    let flow = &report["flows"][0];
    assert_eq!((&flow["src_port_count"], &flow["psn"]["gaps"]), (&json!(1024), &json!(0)));
}

#[test]
fn events_that_nobody_takes_are_counted() {
    const SENT: u32 = 6_000;
    if !available() {
        return;
    }
    let mut machine = Machine::new(Hook::TcIngress, 8).unwrap();
    let cnp = Roce { opcode: 0x81, extended: vec![0; 16], ..Roce::default() };
    let cnp = frame(START, &cnp);
    for _ in 0..SENT {
        machine.send_unheard(&cnp).unwrap();
    }
    let report = report(&mut machine);
    let dropped = report["totals"]["lost"]["events_dropped"].as_u64().unwrap();
    assert!(dropped > 0, "more events than the ring buffer has room for");
    assert_eq!(machine.events.len() as u64 + dropped, u64::from(SENT));
    assert!(machine.events.iter().all(|event| event.events & Event::CNP != 0));
    assert_eq!(report["totals"]["cnp_packets"], SENT);
    // With room again, events are recorded again.
    machine.send(&cnp).unwrap();
    machine.drain().unwrap();
    assert_eq!(machine.events.len() as u64 + dropped, u64::from(SENT) + 1);
}

/// Discarding all flows differs from retiring them.
#[test]
fn reset_leaves_nothing() {
    if !available() {
        return;
    }
    let mut machine = Machine::new(Hook::TcIngress, 16).unwrap();
    let frames = in_turn(1..17, 2);
    for _ in 0..3 {
        send(&mut machine, &frames);
        assert_eq!(diff::differences(&report(&mut machine)["flows"], &replay(&frames)["flows"]), [""; 0]);
        let reading = machine.tables.read(&machine.programs).unwrap();
        machine.tables.reset(&mut machine.programs, &reading.flows).unwrap();
        let after = report(&mut machine);
        assert_eq!(after["flows"], json!([]));
        assert_eq!(after["totals"]["retired"]["packets"], 0);
        assert_eq!(after["entropy"]["five_tuples"], 0);
    }
}

#[test]
fn figures_of_all_packets_are_unknown_while_some_are_in_no_flow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.pcap");
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    for frame in in_turn(1..13, 5) {
        file.packet(frame.time_ns, &frame.data);
    }
    std::fs::write(&path, file.finish()).unwrap();
    for (flows, is_known) in [("12", true), ("8", false)] {
        let mut command = std::process::Command::new(binary::path().unwrap());
        let output = command
            .arg("replay")
            .arg(&path)
            .args(["--output", "json", "--max-flows", flows])
            .output()
            .unwrap();
        let report = schema::read(&output.stdout).unwrap();
        let link = &report["links"][0];
        assert_eq!(link["left_out_packets"], if is_known { 0 } else { 4 * 5 }, "{flows}");
        for field in ["frame_sizes", "dscp"] {
            assert_eq!(link[field].is_array(), is_known, "{flows} {field}: {link}");
            assert_eq!(link[field].is_null(), !is_known, "{flows} {field}: {link}");
        }
        let frames = || link["frame_sizes"].as_array().into_iter().flatten();
        let counted: u64 = frames().map(|one| one["frames"].as_u64().unwrap()).sum();
        assert_eq!(counted, if is_known { 60 } else { 0 }, "{flows}");
    }
}
