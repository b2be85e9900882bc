//! Loss as a source tells it that does not see every packet of a flow itself: the kernel programs tell
//! gaps, restarts, NAKs and runs of packets that came again, and nothing of what is in order.
//!
//! What this leaves out is the IPv4 identification, and the time between packets that are in order.

use rocescope_common::account::latency::Run;
use rocescope_common::account::psn::WINDOW;
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::opcode::Op;

use super::Collector;
use super::seen::{Nak, Seen};
use super::sequence::{Missing, Sequence};

/// One thing that is told of the requests in a flow.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The flow's slot.
    pub slot: u32,
    /// Its link.
    pub link: u16,
    /// The first PSN of its sequence, as far as it is known.
    pub first: u32,
    /// PSN of the packet that told it.
    pub psn: u32,
    /// Its time, Unix nanoseconds.
    pub time_ns: u64,
}

impl Told {
    fn seen<'a>(&self, expected: u32, naks: &'a [Nak], answered: bool, window_ns: u64) -> Seen<'a> {
        Seen {
            psn: self.psn,
            time_ns: self.time_ns,
            id: 0,
            numbered: false,
            differs: false,
            last_psn: expected.wrapping_sub(1) & MASK24,
            last_id: 0,
            last_ns: self.time_ns,
            high_id: 0,
            first: self.first,
            expected,
            span: 1,
            read: false,
            naks,
            answered,
            window_ns,
        }
    }
}

impl Collector {
    /// There is a flow in a slot; a slot that is told for the first time, or again, has a new one.
    pub fn flow(&mut self, slot: u32, key: &FlowKey) {
        self.open(slot, key);
    }

    /// A reading of the counters: the packets of each flow by slot, at a Unix time.
    pub fn reading(&mut self, packets: impl Iterator<Item = (u32, u64)>, time_ns: u64) {
        self.spells.reading(packets, time_ns);
    }

    /// The flow in a slot answers.
    pub fn answers(&mut self, slot: u32, link: u16) {
        let pair = self.slots.get(slot as usize).map(|slot| slot.pair);
        if let Some(answers) = pair.and_then(|pair| self.answers.get_mut(pair as usize)) {
            answers.seen_on(link);
        }
    }

    /// A NAK in the flow in a slot, with this AETH and these bits of [`Event`].
    pub fn nak(&mut self, told: &Told, aeth: u32, events: u16) {
        let rnr = events & Event::RNR != 0;
        let code = aeth >> 24 & 0x1F;
        self.note_nak(told.slot, rnr, code, told.time_ns);
        self.answers(told.slot, told.link);
        let pair = self.slots.get(told.slot as usize).map(|slot| slot.pair);
        let Some(answers) = pair.and_then(|pair| self.answers.get_mut(pair as usize)) else { return };
        if rnr || code == 0 {
            answers.nak(told.link, Nak { psn: told.psn, time_ns: told.time_ns, rnr });
        }
    }

    /// PSNs were skipped before a request.
    pub fn gap(&mut self, told: &Told, missing: u32) {
        let expected = told.psn.wrapping_add(1) & MASK24;
        self.with(told, |sequence, naks, answered, window| {
            sequence.gap(&told.seen(expected, naks, answered, window), missing, Missing::All);
        });
    }

    /// The sequence began anew.
    pub fn restart(&mut self, told: &Told) {
        self.with(told, |sequence, naks, answered, window| {
            sequence.restart(&told.seen(told.psn.wrapping_add(1) & MASK24, naks, answered, window));
        });
    }

    /// Requests came again, one after the other; times are Unix nanoseconds. `again`: another that came
    /// again put an end to it.
    pub fn run(&mut self, told: &Told, run: &Run, again: bool) {
        // What lies further back counts as a restart.
        let most = WINDOW;
        let read = run.op().has(Op::READ_REQUEST);
        let count = if read { 1 } else { run.packets.min(most) };
        self.with(told, |sequence, naks, answered, window| {
            let step = run.end_ns.saturating_sub(run.start_ns) / u64::from(count.max(2) - 1);
            let mut last_ns = run.start_ns.saturating_sub(u64::from(run.pause_ns));
            let mut last_psn = run.expected.wrapping_sub(1) & MASK24;
            for i in 0..count {
                let psn = run.start().wrapping_add(i) & MASK24;
                let time_ns = run.start_ns + u64::from(i) * step;
                // Not those that came while this went on.
                let naks = naks.get(..naks.partition_point(|nak| nak.time_ns <= time_ns)).unwrap_or_default();
                let seen = told.seen(run.expected, naks, answered, window);
                let span = if read { run.packets.max(1) } else { 1 };
                sequence.repeat(&Seen { psn, time_ns, last_psn, last_ns, span, read, ..seen });
                (last_psn, last_ns) = (psn, time_ns);
            }
            // Behind a gap, the gap itself says how it goes on.
            if !again && told.psn == run.expected {
                let seen = told.seen(told.psn.wrapping_add(1) & MASK24, naks, answered, window);
                sequence.in_order(&Seen { last_psn, last_ns, ..seen });
            }
        });
    }

    fn with(&mut self, told: &Told, happened: impl FnOnce(&mut Sequence, &[Nak], bool, u64)) {
        let Self { slots, answers, window_ns, spells, .. } = self;
        let Some(slot) = slots.get_mut(told.slot as usize) else { return };
        let (mut naks, answered) = match answers.get(slot.reverse as usize) {
            Some(answers) => (answers.on(told.link), !answers.links.is_empty()),
            None => (Vec::new(), false),
        };
        naks.sort_unstable_by_key(|nak| nak.time_ns);
        let sequence = slot.request_loss.get_or_insert_with(|| Box::new(Sequence::new(true, told.psn, 0)));
        let tally = sequence.tally();
        happened(sequence, &naks, answered, *window_ns);
        sequence.tell(spells, told.slot, &tally, told.time_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::loss::{REORDER_WINDOW_NS, Retransmission};

    const MS: u64 = 1_000_000;

    fn told(psn: u32, time_ns: u64) -> Told {
        Told { slot: 0, link: 0, first: 10, psn, time_ns }
    }

    fn run(start: u32, packets: u32, expected: u32, at_ns: u64) -> Run {
        let (start_ns, end_ns) = (at_ns, at_ns + u64::from(packets) * 1_000);
        // WRITE MIDDLE.
        Run { start_ns, end_ns, pause_ns: 100_000, first: start | 0x07 << 24, packets, expected }
    }

    fn collector() -> Collector {
        let mut collector = Collector::new(REORDER_WINDOW_NS);
        let there =
            FlowKey { src: [0, 0, 0, 1], dst: [0, 0, 0, 2], dest_qp: 5, family: 4, ..FlowKey::default() };
        let back = FlowKey { src: there.dst, dst: there.src, dest_qp: 6, ..there };
        collector.flow(0, &there);
        collector.flow(1, &back);
        collector.answers(1, 0);
        collector
    }

    fn nak(collector: &mut Collector, psn: u32, time_ns: u64) {
        collector.nak(&Told { slot: 1, ..told(psn, time_ns) }, 0x60 << 24, Event::NAK);
    }

    #[test]
    fn a_loss_before_the_link_and_go_back_n() {
        let mut collector = collector();
        collector.gap(&told(103, 10 * MS), 2);
        nak(&mut collector, 101, 10 * MS + 50_000);
        collector.run(&told(120, 10 * MS + 200_000), &run(101, 19, 120, 10 * MS + 150_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.lost, metrics.retransmitted, metrics.recovered), (2, 17, 0));
        assert_eq!((metrics.before.count, metrics.after.count), (1, 0));
        assert_eq!(metrics.retransmission, Some(Retransmission::GoBackN));
    }

    #[test]
    fn a_loss_behind_the_link() {
        let mut collector = collector();
        nak(&mut collector, 101, 10 * MS);
        collector.run(&told(120, 10 * MS + 200_000), &run(101, 19, 120, 10 * MS + 150_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.lost, metrics.retransmitted, metrics.after.count), (0, 19, 1));
    }

    #[test]
    fn a_packet_out_of_order_is_recovered() {
        let mut collector = collector();
        collector.gap(&told(102, 10 * MS), 1);
        collector.run(&told(103, 10 * MS + 4_000), &run(101, 1, 103, 10 * MS + 2_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.recovered, metrics.lost, metrics.retransmitted), (1, 0, 0));
    }

    #[test]
    fn a_sender_that_gets_no_answer_is_stuck() {
        let mut collector = Collector::new(REORDER_WINDOW_NS);
        collector.flow(0, &FlowKey::default());
        for i in 1..=3 {
            collector.run(&told(101, (i + 1) * 500 * MS), &run(101, 1, 102, i * 500 * MS), true);
        }
        assert_eq!(collector.metrics().flow(0).requests.unwrap().stuck, 3);
    }
}
