use rocescope_common::account::Event;
use rocescope_common::random::Random;

use super::*;

fn frame(qp: u32, port: u16, opcode: u8) -> Frame {
    Frame {
        src: [0, 0, 0, 1],
        dst: [0, 0, 0, 2],
        family: 4,
        roce_version: 2,
        tos: 2,
        opcode,
        src_port: port,
        dest_qp: qp,
        wire_len: 100,
        payload: 10,
        bth_offset: 42,
        ip_offset: 14,
        ..Frame::EMPTY
    }
}

fn table(max_flows: usize) -> FlowTable {
    let mut table = FlowTable::new(max_flows);
    assert_eq!(table.add_link("a".into(), None), Some(0));
    assert_eq!(table.add_link("b".into(), None), Some(1));
    table
}

/// Packets in flows, in retired flows and without room, whose sum must equal all packets.
fn counted(table: &FlowTable) -> u64 {
    let flows: u64 = table.flows().iter().map(|f| f.stats.packets).sum();
    let links: u64 = table.links().iter().map(|l| l.retired.packets + l.flow_table_full.packets).sum();
    flows + links
}

#[test]
fn a_full_table_turns_packets_away_and_counts_them() {
    let mut t = table(2);
    assert_eq!(t.observe(0, &frame(1, 9, 4), 1).map(|seen| seen.slot), Some(0));
    assert_eq!(t.observe(0, &frame(2, 9, 4), 2).map(|seen| seen.slot), Some(1));
    assert!(t.observe(1, &frame(1, 9, 4), 3).is_none(), "another link is another flow");
    let seen = t.observe(0, &frame(1, 9, 4), 4).unwrap();
    let (slot, outcome) = (seen.slot, seen.outcome);
    assert_eq!((slot, outcome.events & Event::NEW_FLOW), (0, 0));
    assert_eq!(t.links()[1].flow_table_full, Counter { packets: 1, bytes: 100 });
    assert_eq!((t.len(), counted(&t)), (2, 4));
}

#[test]
fn retired_flows_return_as_new_ones_in_used_slots() {
    let mut t = table(3);
    for qp in 1..=3 {
        t.observe(0, &frame(qp, 9, 4), u64::from(qp) * 1000).unwrap();
    }
    assert_eq!(t.retire_idle(3000, 1500).len(), 1);
    assert_eq!(t.retire_idle(3000, 1500).len(), 0, "once");
    assert_eq!(t.links()[0].retired.flows, 1);
    assert_eq!(t.retired_tuples().len(), 1);
    // The slot of flow 1 is reused by flow 4; flow 1 returns and finds the table full.
    let seen = t.observe(0, &frame(4, 9, 4), 4000).unwrap();
    let (slot, outcome) = (seen.slot, seen.outcome);
    assert_eq!((slot, outcome.events & Event::NEW_FLOW), (0, Event::NEW_FLOW));
    assert!(t.observe(0, &frame(1, 9, 4), 4001).is_none());
    let order: Vec<u32> = t.flows().iter().map(|f| f.key.dest_qp).collect();
    assert_eq!(order, [2, 3, 4], "in order of appearance");
    assert_eq!(counted(&t), 5);
    assert_eq!(t.retire_idle(1_000_000, 0).len(), 3);
    assert!(t.is_empty());
    let seen = t.observe(0, &frame(2, 9, 4), 2_000_000).unwrap();
    let outcome = seen.outcome;
    assert_eq!(outcome.events & Event::NEW_FLOW, Event::NEW_FLOW);
    assert_eq!(counted(&t), 6);
    assert_eq!(t.retired_tuples().iter().map(|t| t.bytes).sum::<u64>(), 400);
}

#[test]
fn ports_and_opcodes_of_few_flows_overflow_within_bounds() {
    let mut t = FlowTable::with_limits(10, 2, 10);
    t.add_link("a".into(), None);
    for (port, opcode) in [(9, 4), (10, 4), (9, 0x64), (11, 4), (10, 0x64), (9, 0x81)] {
        t.observe(0, &frame(1, port, opcode), 5).unwrap();
    }
    let extra = t.extra();
    assert_eq!(extra[&0].ports, [(10, Counter { packets: 2, bytes: 200 })]);
    assert_eq!(extra[&0].opcodes, [(0x64, 2)]);
    assert_eq!(t.links()[0].extra_full, 1, "port 11");
    // Retirement frees room, and the bytes of port 11 count as unattributed.
    assert_eq!(t.retire_idle(100, 10).len(), 1);
    assert!(t.extra().is_empty());
    assert_eq!(t.retired_unattributed(), 100);
    assert_eq!(t.retired_tuples().iter().map(|t| t.bytes).collect::<Vec<_>>(), [300, 200]);
    t.observe(0, &frame(2, 1, 4), 200).unwrap();
    t.observe(0, &frame(2, 2, 4), 200).unwrap();
    t.observe(0, &frame(2, 3, 4), 200).unwrap();
    assert_eq!(t.extra()[&0].ports.len(), 2);
}

#[test]
fn nothing_is_lost_among_many_flows_that_come_and_go() {
    let mut t = FlowTable::with_limits(200, 64, 50);
    t.add_link("a".into(), None);
    let mut random = Random::new(1);
    for now in 0..20_000u64 {
        let (qp, port) = (random.below_u32(300), random.below_u16(4));
        t.observe(0, &frame(qp, port, 4), now);
        if now % 700 == 0 {
            t.retire_idle(now, 150);
        }
    }
    assert_eq!(counted(&t), 20_000);
    assert!(t.links()[0].flow_table_full.packets > 0 && t.links()[0].retired.flows > 200);
    t.retire_idle(1_000_000, 0);
    let tuples: u64 = t.retired_tuples().iter().map(|t| t.bytes).sum();
    assert_eq!(tuples + t.retired_unattributed(), t.links()[0].retired.bytes);
}

#[test]
fn flows_taken_are_those_that_would_be_copied() {
    let listed = |flows: &Flows| {
        flows.iter().map(|flow| (flow.slot, flow.key, flow.stats.clone())).collect::<Vec<_>>()
    };
    for retire in [false, true] {
        let mut t = table(4);
        for qp in 1..=3 {
            t.observe(0, &frame(qp, 9, 4), u64::from(qp) * 1000).unwrap();
        }
        if retire {
            // The slot of the first flow is reused by the last.
            t.retire_idle(3000, 1500);
            t.observe(0, &frame(4, 9, 4), 4000).unwrap();
        }
        let copied = listed(&t.flows());
        assert_eq!(copied.len(), 3);
        assert_eq!(listed(&t.take_flows()), copied, "slots used twice: {retire}");
    }
}
