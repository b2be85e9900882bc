extern crate std;

use std::vec::Vec;

use super::super::message::MessageCounts;
use super::super::{FlowStats, observe};
use super::*;
use crate::wire::opcode::{CNP as CNP_OPCODE, Operation};

const BINS: Bins = Bins { length_ns: 1_000_000, phase_ns: 0 };
const MS: u64 = 1_000_000;

/// A flow counted like in the kernel programs, with the records it emitted.
struct Flow {
    stats: FlowStats,
    bin: FlowBin,
    kinds: ByOperation,
    ended: Vec<FlowBin>,
    frame: Frame,
}

impl Flow {
    fn new() -> Self {
        let frame = Frame { family: 4, roce_version: 2, wire_len: 100, opcode: 0x04, ..Frame::EMPTY };
        Self {
            stats: FlowStats::default(),
            bin: FlowBin::default(),
            kinds: [MessageCounts::NONE; super::super::message::COUNTED_OPERATIONS],
            ended: Vec::new(),
            frame,
        }
    }

    fn send(&mut self, now_ns: u64) {
        let outcome = observe(&mut self.stats, &self.frame, now_ns);
        let op = Op::of(self.frame.opcode);
        let mut previous = FlowBin::default();
        if self.bin.observe(&self.frame, op, outcome, now_ns, BINS, &mut previous) {
            self.ended.push(previous);
        }
        self.bin.message(&mut self.kinds, &self.frame, op, outcome);
        self.frame.psn = (self.frame.psn + 1) & 0x00FF_FFFF;
    }
}

#[test]
fn a_record_ends_with_the_first_packet_of_another_bin() {
    let mut flow = Flow::new();
    flow.send(5 * MS + 10);
    flow.send(5 * MS + 999_999);
    assert!(flow.ended.is_empty());
    flow.send(9 * MS);
    let [ended] = flow.ended[..] else { panic!("{:?}", flow.ended) };
    assert_eq!((ended.start_ns, ended.packets, ended.bytes), (5 * MS, 2, 200));
    let data = ended.data().unwrap();
    assert_eq!((data.start_ns, data.end_ns, data.fresh_bytes), (5 * MS + 10, 5 * MS + 999_999, 200));
    assert_eq!((flow.bin.start_ns, flow.bin.packets), (9 * MS, 1));
    // A step back in time starts another bin too.
    flow.send(8 * MS + 999_999);
    assert_eq!(flow.ended.len(), 2);
}

#[test]
fn packets_by_kind() {
    let mut flow = Flow::new();
    flow.frame.tos = 3;
    flow.send(0);
    flow.frame.psn += 5;
    flow.send(1);
    flow.frame.psn = 0;
    flow.send(2);
    (flow.frame.opcode, flow.frame.tos) = (0x11, 3);
    flow.send(3);
    flow.frame.opcode = CNP_OPCODE;
    flow.send(4);
    let bin = flow.bin;
    assert_eq!((bin.packets, bin.data_packets(), bin.control, bin.cnp), (5, 3, 2, 1));
    assert_eq!((bin.bytes, bin.data_bytes(), bin.fresh_bytes()), (500, 300, 200));
    assert_eq!((bin.ce, bin.gaps), (3, 1));
    assert_eq!(bin.data().map(|data| (data.start_ns, data.end_ns)), Some((0, 2)));
}

#[test]
fn bins_are_aligned_with_the_wall_clock() {
    let bins = Bins { length_ns: 1000, phase_ns: 300 };
    assert_eq!(bins.start(10_699), 9_700);
    assert_eq!(bins.start(10_700), 10_700);
    // Shortly after the clock's origin.
    assert_eq!(bins.start(5).wrapping_add(300), 0);
    assert_eq!(Bins { length_ns: 0, phase_ns: 0 }.start(5), 5);
}

/// No counter of a record overflows, and each part is identified.
#[test]
#[cfg_attr(miri, ignore = "400,000 packets take Miri an hour")]
fn a_full_record_ends_before_its_bin() {
    let mut acks = Flow::new();
    acks.frame.opcode = 0x11;
    let mut data = Flow::new();
    for _ in 0..200_000 {
        acks.send(7 * MS);
        data.send(7 * MS);
    }
    for (flow, most) in [(acks, 255), (data, 65_535)] {
        let all = flow.ended.iter().chain([&flow.bin]);
        assert_eq!(all.clone().map(|bin| u64::from(bin.packets)).sum::<u64>(), 200_000);
        assert_eq!(all.map(|bin| u64::from(bin.bytes)).sum::<u64>(), 20_000_000);
        assert!(flow.ended.iter().all(|bin| bin.packets == most && bin.start_ns == 7 * MS));
        let [one, other, ..] = flow.ended[..] else { panic!() };
        assert!(!one.is_part_of(&other) && !other.is_part_of(&one));
    }
}

#[test]
fn traffic_after_a_record_was_read() {
    let mut flow = Flow::new();
    flow.frame.opcode = 0x11;
    flow.send(3 * MS);
    let read = flow.bin;
    flow.frame.opcode = 0x04;
    flow.send(3 * MS + 7);
    assert!(read.is_part_of(&flow.bin) && !flow.bin.is_part_of(&read));
    let more = flow.bin.since(&read);
    assert_eq!((more.packets, more.control, more.data_bytes()), (1, 0, 100));
    assert_eq!(more.data().map(|data| data.start_ns), Some(3 * MS + 7));
    let nothing = flow.bin.since(&flow.bin);
    assert_eq!((nothing.packets, nothing.data()), (0, None));
}

#[test]
fn a_message_continues_in_the_next_bin() {
    let mut flow = Flow::new();
    (flow.frame.opcode, flow.frame.payload) = (0x00, 50);
    flow.send(0);
    assert!(flow.bin.message_is_open());
    flow.frame.opcode = 0x02;
    flow.send(5 * MS);
    assert!(!flow.bin.message_is_open() && flow.ended[0].message_is_open());
    let send = flow.kinds[Operation::Send as usize];
    assert_eq!((send.messages(), send.sizes[7]), (1, 1));
}

#[test]
fn psn_and_time_round_trip_in_one_word() {
    assert_eq!(PsnAt::default().get(5), None);
    let hour = 3_600_000_000_000u64;
    for now in [0, 255, 1_700_000_000_000_000_000, u64::MAX] {
        let at = PsnAt::new(0xFF_FFFF, now);
        for later in [0, 256, hour, 38 * hour] {
            let Some(read_at) = now.checked_add(later) else { continue };
            assert_eq!(at.get(read_at), Some((0xFF_FFFF, now & !255)), "{now} {later}");
        }
    }
}

#[test]
fn latest_request_and_response() {
    let mut exchange = LastExchange::default();
    let mut frame = Frame { opcode: 0x04, psn: 7, ..Frame::EMPTY };
    exchange.observe(&frame, Op::of(frame.opcode), 1024);
    assert_eq!(exchange, LastExchange::default());
    frame.ack_req = true;
    exchange.observe(&frame, Op::of(frame.opcode), 1024);
    frame = Frame { opcode: 0x11, psn: 9, ..frame };
    exchange.observe(&frame, Op::of(frame.opcode), 2048);
    assert_eq!((exchange.request.get(4096), exchange.response.get(4096)), (Some((7, 1024)), Some((9, 2048))));
    frame = Frame { opcode: 0x0C, psn: 10, ack_req: false, ..frame };
    exchange.observe(&frame, Op::of(frame.opcode), 4096);
    assert_eq!(exchange.request.get(4096), Some((10, 4096)));
}
