//! The same packets one by one and as records make the same figures.

use crate::entity::Stats;
use rocescope_common::account::bin::Bins;
use rocescope_common::account::message::{COUNTED_OPERATIONS, MessageCounts};
use rocescope_common::account::observe;
use rocescope_common::random::Random;
use rocescope_common::wire::Frame;
use rocescope_common::wire::opcode::Op;

use super::super::Collector as ByPacket;
use super::*;
use crate::metrics::packet::{Packet, PacketExtras};

use crate::util::time::NS_PER_MS as MS;

/// A flow as a kernel program keeps it.
struct KernelFlow {
    stats: Stats,
    bin: FlowBin,
    frame: Frame,
}

/// Flows that are counted both ways.
struct TwoAccountings {
    by_packet: ByPacket,
    from_kernel: Collector,
    flows: Vec<KernelFlow>,
    cut: Bins,
    kinds: ByOperation,
}

impl TwoAccountings {
    fn new(bin_ns: u64, length_ns: u64) -> Self {
        Self {
            by_packet: ByPacket::new(bin_ns),
            from_kernel: Collector::new(bin_ns, 0),
            flows: Vec::new(),
            cut: Bins { length_ns, phase_ns: 0 },
            kinds: [MessageCounts::NONE; COUNTED_OPERATIONS],
        }
    }

    fn flow(&mut self, src: u32, dst: u32) -> usize {
        let frame = Frame {
            src: [0, 0, 0, src],
            dst: [0, 0, 0, dst],
            family: 4,
            roce_version: 2,
            wire_len: 1000,
            payload: 934,
            opcode: 0x04,
            dest_qp: 17 + src,
            ..Frame::EMPTY
        };
        self.flows.push(KernelFlow { stats: Stats::default(), bin: FlowBin::default(), frame });
        self.flows.len() - 1
    }

    fn send(&mut self, slot: usize, now_ns: u64) {
        let kept = &mut self.flows[slot];
        let key = FlowKey::of(&kept.frame, 0);
        let number = u32::try_from(slot).unwrap();
        if kept.stats.packets == 0 {
            self.from_kernel.name(number, &key, true);
        }
        let outcome = observe(&mut kept.stats, &kept.frame, now_ns);
        let mut ended = FlowBin::default();
        let op = Op::of(kept.frame.opcode);
        if kept.bin.observe(&kept.frame, op, outcome, now_ns, self.cut, &mut ended) {
            assert!(self.from_kernel.tell(number, &ended));
        }
        kept.bin.message(&mut self.kinds, &kept.frame, op, outcome);
        let packet = Packet::new((&kept.frame, &[]), (now_ns, 0), number, &kept.stats, outcome);
        let extras = PacketExtras::of((&kept.frame, &[]), 0, "tap".into(), 0);
        self.by_packet.packet(&packet, Some(&extras));
        kept.frame.psn = (kept.frame.psn + 1) & 0x00FF_FFFF;
    }

    /// Takes a sample at a moment.
    fn look(&mut self, until_ns: u64) {
        for (slot, kept) in (0u32..).zip(&self.flows) {
            if kept.bin.start_ns.saturating_add(self.cut.length_ns) <= until_ns {
                self.from_kernel.at_hand(slot, &kept.bin);
            }
        }
        self.from_kernel.fold(until_ns);
    }

    fn same(&mut self, end_ns: u64) {
        self.look(u64::MAX);
        let states: Vec<KernelFlowState> = (0u32..)
            .zip(&self.flows)
            .map(|(slot, kept)| KernelFlowState {
                slot,
                message_open: kept.bin.message_is_open(),
                request: None,
                answer: None,
            })
            .collect();
        let ours = self.from_kernel.metrics(end_ns, &[LinkExtras::default()], Some(self.kinds), &states);
        let theirs = self.by_packet.metrics();
        // The kernel's bins do not count ECN-capable packets.
        let mut bursts = theirs.links[0].bursts.clone();
        if let Some(bursts) = &mut bursts {
            (bursts.peak.capable, bursts.total.capable) = (0, 0);
        }
        assert_eq!(ours.links[0].bursts, bursts);
        // Bins of data end where records do.
        let in_time = |traffic: &Traffic| -> Vec<_> {
            let all = traffic.targets.iter();
            all.map(|t| (t.host, t.senders, t.degrees.clone(), t.peak_bytes, t.peak_senders)).collect()
        };
        assert_eq!(in_time(&ours), in_time(&theirs));
        assert_eq!(ours.kinds, theirs.kinds);
        let pairs = |traffic: &Traffic| -> Vec<_> {
            traffic.pairs.iter().map(|p| (p.src, p.dst, p.packets, p.bytes, p.data_bytes)).collect()
        };
        assert_eq!(pairs(&ours), pairs(&theirs));
        // Requests and answers are the kernel's own to keep.
        let standing = |traffic: &Traffic| -> Vec<_> {
            traffic
                .flowlets
                .standing
                .iter()
                .map(|standing| (standing.flowlet, standing.message_open))
                .collect()
        };
        assert_eq!(standing(&ours), standing(&theirs));
        let ended = |traffic: &Traffic| -> Vec<Record> {
            let mut all: Vec<Record> = traffic.flowlets.ended.iter().copied().collect();
            all.sort_unstable_by_key(|flowlet| {
                (flowlet.start_ns, flowlet.end_ns, flowlet.pair, flowlet.dest_qp)
            });
            all
        };
        assert_eq!(ended(&ours), ended(&theirs));
    }
}

/// Bursts of several flows to one host, silences of all lengths between, and a look now and then.
#[test]
fn records_make_what_packets_make() {
    for (bin_ns, length_ns) in [(MS, MS), (100_000, 100_000), (5 * MS, MS)] {
        for look_every in [u64::MAX, 1, 7, 1000] {
            let mut both = TwoAccountings::new(bin_ns, length_ns);
            let flows = [both.flow(1, 9), both.flow(2, 9), both.flow(3, 9), both.flow(9, 1)];
            let mut random = Random::new(7);
            let mut now = 1_000 * MS;
            for number in 0..20_000u64 {
                let dice = random.bits() >> 33;
                now += match dice % 50 {
                    0 => dice % (9 * MS),
                    1..=5 => dice % (2 * MS),
                    _ => dice % 30_000,
                };
                let flow = flows[usize::try_from(dice % 4).unwrap()];
                let kept = &mut both.flows[flow].frame;
                kept.opcode = [0x04, 0x04, 0x06, 0x11, 0x81, 0x00, 0x02][usize::try_from(dice % 7).unwrap()];
                kept.tos = u8::try_from(dice % 4).unwrap();
                if dice.is_multiple_of(31) {
                    kept.psn = kept.psn.wrapping_sub(2) & 0x00FF_FFFF;
                } else if dice.is_multiple_of(37) {
                    kept.psn += 3;
                }
                both.send(flow, now);
                if number % look_every == look_every - 1 {
                    both.look(now);
                }
            }
            both.same(now);
        }
    }
}

#[test]
fn a_flow_that_is_not_known_counts_nowhere() {
    let mut from_kernel = Collector::new(MS, 0);
    let mut bin = FlowBin::default();
    (bin.packets, bin.bytes) = (3, 300);
    assert!(!from_kernel.tell(5, &bin));
    from_kernel.at_hand(5, &bin);
    from_kernel.retired(5);
    from_kernel.name(5, &FlowKey { family: 4, ..FlowKey::default() }, false);
    assert!(from_kernel.knows(5) && from_kernel.tell(5, &bin));
    from_kernel.fold(u64::MAX);
    let metrics = from_kernel.metrics(0, &[LinkExtras::default()], None, &[]);
    assert!(metrics.links[0].bursts.is_none() && metrics.pairs.is_empty(), "the filter leaves it out");
}

/// Times of the kernel's clock become Unix time.
#[test]
fn times_are_unix_times() {
    const SHIFT: i64 = 1_763_000_000_000_000_000;
    let mut from_kernel = Collector::new(MS, SHIFT);
    from_kernel.name(0, &FlowKey { family: 4, ..FlowKey::default() }, true);
    let mut both = TwoAccountings::new(MS, MS);
    let flow = both.flow(1, 2);
    both.send(flow, 5 * MS + 77);
    assert!(from_kernel.tell(0, &both.flows[flow].bin));
    from_kernel.fold(6 * MS);
    let unix = |ns: u64| ns + SHIFT.unsigned_abs();
    let states =
        KernelFlowState { slot: 0, message_open: true, request: Some((3, 5 * MS + 77)), answer: None };
    let metrics = from_kernel.metrics(9 * MS, &[LinkExtras::default()], None, &[states]);
    assert_eq!(metrics.end_ns, Some(unix(9 * MS)));
    assert_eq!(metrics.links[0].bursts.as_ref().unwrap().first_ns, unix(5 * MS));
    let standing = metrics.flowlets.standing[0];
    assert_eq!(
        (standing.flowlet.start_ns, standing.request.get()),
        (unix(5 * MS + 77), Some((3, unix(5 * MS + 77))))
    );
}

/// A preempted program sends a record after the next one was read from the slot.
#[test]
fn a_record_that_arrives_late_counts_once() {
    let mut from_kernel = Collector::new(MS, 0);
    from_kernel.name(0, &FlowKey { family: 4, ..FlowKey::default() }, true);
    let record = |start_ns, packets| {
        let mut bin = FlowBin::default();
        (bin.start_ns, bin.packets, bin.bytes) = (start_ns, packets, u32::from(packets) * 100);
        bin
    };
    from_kernel.at_hand(0, &record(MS, 3));
    from_kernel.at_hand(0, &record(9 * MS, 2));
    assert!(from_kernel.tell(0, &record(MS, 4)), "one more than was read");
    assert!(from_kernel.tell(0, &record(9 * MS, 2)));
    assert!(from_kernel.tell(0, &record(20 * MS, 1)));
    from_kernel.fold(u64::MAX);
    let bursts = from_kernel.metrics(0, &[LinkExtras::default()], None, &[]).links[0].bursts.clone().unwrap();
    assert_eq!((bursts.total.packets, bursts.total.bytes), (7, 700));
}
