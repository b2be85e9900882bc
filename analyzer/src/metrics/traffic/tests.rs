//! Bursts, senders and flowlets of made packets.

use crate::entity::Stats;
use rocescope_common::account::observe;
use rocescope_common::wire::Frame;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Operation;

use super::*;

/// One flow with its counters, as the table would have it.
struct Flow {
    slot: u32,
    stats: Stats,
    frame: Frame,
}

impl Flow {
    fn new(slot: u32, src: u32, dst: u32) -> Self {
        let frame = Frame {
            src: [0, 0, 0, src],
            dst: [0, 0, 0, dst],
            family: 4,
            roce_version: 2,
            wire_len: 1000,
            payload: 934,
            opcode: 0x04,
            dest_qp: 17,
            ..Frame::EMPTY
        };
        Self { slot, stats: Stats::default(), frame }
    }

    fn send(&mut self, to: &mut Collector, time_ns: u64) {
        let outcome = observe(&mut self.stats, &self.frame, time_ns);
        let packet = Packet::new((&self.frame, &[]), (time_ns, 0), self.slot, &self.stats, outcome);
        let extras = PacketExtras::of((&self.frame, &[]), 0, "tap".into(), 0);
        to.packet(&packet, Some(&extras));
        self.frame.psn += 1;
    }
}

use crate::util::time::NS_PER_MS as MS;

#[test]
fn everything_of_a_few_packets() {
    let mut all = Collector::new(MS);
    let (mut a, mut b) = (Flow::new(0, 1, 9), Flow::new(1, 2, 9));
    for ms in [1000, 1001, 1010] {
        a.send(&mut all, ms * MS);
        b.send(&mut all, ms * MS + 5);
    }
    let mut metrics = all.metrics();
    metrics.frames_until(&[2000 * MS]);
    let bursts = metrics.links[0].bursts.clone().unwrap();
    assert_eq!((bursts.bins, bursts.active_bins, bursts.total.packets), (11, 3, 6));
    assert_eq!(metrics.links[0].frame_sizes.unwrap()[4], 6);
    assert_eq!(metrics.links[0].last_ns, Some(2000 * MS));
    assert_eq!(metrics.targets[0].degrees[2].bins, 3);
    assert_eq!(metrics.kinds.unwrap()[Operation::Send as usize].messages(), 6);
    let ended: Vec<u64> = metrics.flowlets.ended.iter().map(|r| r.fresh_bytes).collect();
    assert_eq!(ended, [2000, 2000]);
    assert_eq!(metrics.flowlets.standing.len(), 2);
}

#[test]
fn a_slot_in_use_again_starts_anew() {
    let mut all = Collector::new(MS);
    let mut a = Flow::new(0, 1, 9);
    (a.frame.opcode, a.frame.ack_req) = (0x00, true);
    a.send(&mut all, 1000 * MS);
    assert!(all.metrics().flowlets.standing[0].message_open);
    assert_eq!(all.metrics().flowlets.standing[0].request.get(), Some((0, 1000 * MS)));
    all.retired(0);
    assert!(all.metrics().flowlets.standing.is_empty());
    assert_eq!(all.metrics().flowlets.ended.iter().count(), 1);
    let mut c = Flow::new(0, 3, 9);
    c.frame.payload = UNKNOWN;
    c.send(&mut all, 1001 * MS);
    let standing = all.metrics().flowlets.standing;
    assert!(!standing[0].message_open && standing[0].request.get().is_none());
    assert_eq!(all.metrics().pairs.len(), 2);
}
