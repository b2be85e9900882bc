//! Loss in a live run: the kernel programs report gaps, restarts, NAKs and runs of retransmissions, and no packet that
//! arrives in order.
//!
//! The events lack the IPv4 identification, and the time between packets in order.

use crate::entity::Stats;
use rocescope_common::account::latency::RetxRun;
use rocescope_common::account::psn::WINDOW;
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::Collector;
use super::arrival::{Arrival, Nak, RepeatedReads, Request};
use super::parallel::Elsewhere;
use super::sequence::Sequence;
use super::state::Missing;

/// An event of the kernel programs about the requests of a flow.
#[derive(Clone, Copy, Debug)]
pub struct KernelEvent {
    /// Slot of the flow.
    pub slot: u32,
    /// Number of the flow's link.
    pub link: u16,
    /// Slot of the flow with its answers; `None` where that is not known.
    pub answers: Option<u32>,
    /// The first PSN of its sequence, as far as it is known.
    pub first: u32,
    /// PSN of the packet that caused the event.
    pub psn: u32,
    /// Time of the packet, Unix nanoseconds.
    pub time_ns: u64,
}

/// The known state of the other direction of a flow.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    /// In the order of their times.
    naks: &'a [Nak],
    reverse_captured: bool,
    others_answer: bool,
    window_ns: u64,
}

impl KernelEvent {
    fn arrival<'a>(&self, expected: u32, around: &Surroundings<'a>) -> Arrival<'a> {
        let &Surroundings { naks, reverse_captured, others_answer, window_ns } = around;
        Arrival {
            others_answer,
            request: Request { opcode: 0, bytes: UNKNOWN },
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
            ecn: 0,
            naks,
            reverse_captured,
            answers_slot: self.answers.unwrap_or(UNKNOWN),
            all_acked: None,
            responded_ns: None,
            asked: RepeatedReads::default(),
            window_ns,
            // Live, one place sees all links of the host.
            elsewhere: Elsewhere::Nothing,
        }
    }
}

/// Live, one place sees all links of the host: answers come in by another than requests leave by.
const ANY_LINK: u16 = u16::MAX;

impl Collector {
    /// A flow has taken a slot; what was known of the flow before it in the slot is forgotten.
    pub fn flow(&mut self, slot: u32, key: &FlowKey) {
        self.open(slot, key);
    }

    /// A reading of the counters of each flow by slot, at a Unix time.
    pub fn reading<'a>(&mut self, flows: impl Iterator<Item = (u32, &'a Stats)>, time_ns: u64) {
        self.intervals.reading(flows, time_ns);
    }

    /// The flow in a slot carries ACKs.
    pub fn answers(&mut self, slot: u32, link: u16) {
        let pair = self.slots.get(slot as usize).map(|slot| slot.pair);
        if let Some(answers) = pair.and_then(|pair| self.answers.get_mut(pair as usize))
            && answers.seen_on(link)
        {
            self.answered.note(ANY_LINK, answers);
        }
    }

    /// A NAK in the flow of a slot, with this AETH and these bits of [`Event`].
    pub fn nak(&mut self, event: &KernelEvent, aeth: u32, events: u16) {
        let rnr = events & Event::RNR != 0;
        let code = aeth >> 24 & 0x1F;
        self.note_nak(event.slot, rnr, code, event.time_ns);
        self.answers(event.slot, event.link);
        let pair = self.slots.get(event.slot as usize).map(|slot| slot.pair);
        let Some(answers) = pair.and_then(|pair| self.answers.get_mut(pair as usize)) else { return };
        if rnr || code == 0 {
            answers.nak(event.link, Nak { slot: event.slot, psn: event.psn, time_ns: event.time_ns, rnr });
        }
    }

    /// A request skipped PSNs.
    pub fn gap(&mut self, event: &KernelEvent, missing: u32) {
        let expected = event.psn.wrapping_add(1) & MASK24;
        self.with(event, |sequence, around| {
            sequence.gap(&event.arrival(expected, around), missing, Missing::All);
        });
    }

    /// The PSN sequence of the flow restarted.
    pub fn restart(&mut self, event: &KernelEvent) {
        self.with(event, |sequence, around| {
            let expected = event.psn.wrapping_add(1) & MASK24;
            // PSNs of ACKs are not known.
            sequence.restart(&event.arrival(expected, around), None);
        });
    }

    /// A run of retransmitted requests; times are Unix nanoseconds. `again`: another retransmission ended the
    /// run, not progress.
    pub fn run(&mut self, event: &KernelEvent, run: &RetxRun, again: bool) {
        // A PSN farther back counts as a restart.
        let most = WINDOW;
        let read = run.op().has(Op::READ_REQUEST);
        let count = if read { 1 } else { run.packets.min(most) };
        self.with(event, |sequence, around| {
            let naks = around.naks;
            let step = run.end_ns.saturating_sub(run.start_ns) / u64::from(count.max(2) - 1);
            let mut last_ns = run.start_ns.saturating_sub(u64::from(run.pause_ns));
            let mut last_psn = run.expected.wrapping_sub(1) & MASK24;
            for i in 0..count {
                let psn = run.first_psn().wrapping_add(i) & MASK24;
                let time_ns = run.start_ns + u64::from(i) * step;
                // Without the NAKs that arrived later in the run.
                let naks = naks.get(..naks.partition_point(|nak| nak.time_ns <= time_ns)).unwrap_or_default();
                let arrival = event.arrival(run.expected, &Surroundings { naks, ..*around });
                let span = if read { run.packets.max(1) } else { 1 };
                let request = Request { opcode: run.first.to_be_bytes()[0], bytes: UNKNOWN };
                sequence.behind(&Arrival { psn, time_ns, last_psn, last_ns, span, read, request, ..arrival });
                (last_psn, last_ns) = (psn, time_ns);
            }
            // A gap behind the run is an event of its own.
            if !again && event.psn == run.expected {
                let arrival = event.arrival(event.psn.wrapping_add(1) & MASK24, around);
                sequence.in_order(&Arrival { last_psn, last_ns, ..arrival });
            }
        });
    }

    fn with(&mut self, event: &KernelEvent, happened: impl FnOnce(&mut Sequence, &Surroundings<'_>)) {
        let Self { slots, answers, answered, window_ns, intervals, .. } = self;
        let Some(slot) = slots.get_mut(event.slot as usize) else { return };
        let (mut naks, reverse_captured) = match answers.get(slot.reverse as usize) {
            Some(answers) => (answers.on(event.link, false, event.answers), !answers.links.is_empty()),
            None => (Vec::new(), false),
        };
        let own = answers.get(slot.pair as usize);
        let others_answer = !reverse_captured && answered.has_source_of(ANY_LINK, own);
        naks.sort_unstable_by_key(|nak| nak.time_ns);
        let sequence = slot.request_loss.get_or_insert_with(|| Box::new(Sequence::new(true, event.psn, 0)));
        let surroundings =
            Surroundings { naks: &naks, reverse_captured, others_answer, window_ns: *window_ns };
        happened(sequence, &surroundings);
        sequence.record(intervals, event.slot, event.time_ns, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::loss::{REORDER_WINDOW_NS, Retransmission};
    use crate::metrics::traffic::BIN_NS;

    use crate::util::time::NS_PER_MS as MS;

    fn event(psn: u32, time_ns: u64) -> KernelEvent {
        KernelEvent { slot: 0, link: 0, answers: None, first: 10, psn, time_ns }
    }

    fn run(start: u32, packets: u32, expected: u32, at_ns: u64) -> RetxRun {
        let (start_ns, end_ns) = (at_ns, at_ns + u64::from(packets) * 1_000);
        // WRITE MIDDLE.
        RetxRun { start_ns, end_ns, pause_ns: 100_000, first: start | 0x07 << 24, packets, expected }
    }

    fn collector() -> Collector {
        let mut collector = Collector::new(REORDER_WINDOW_NS, BIN_NS);
        let there =
            FlowKey { src: [0, 0, 0, 1], dst: [0, 0, 0, 2], dest_qp: 5, family: 4, ..FlowKey::default() };
        let back = FlowKey { src: there.dst, dst: there.src, dest_qp: 6, ..there };
        collector.flow(0, &there);
        collector.flow(1, &back);
        collector.answers(1, 0);
        collector
    }

    fn nak(collector: &mut Collector, psn: u32, time_ns: u64) {
        collector.nak(&KernelEvent { slot: 1, ..event(psn, time_ns) }, 0x60 << 24, Event::NAK);
    }

    #[test]
    fn a_loss_before_the_link_and_go_back_n() {
        let mut collector = collector();
        collector.gap(&event(103, 10 * MS), 2);
        nak(&mut collector, 101, 10 * MS + 50_000);
        collector.run(&event(120, 10 * MS + 200_000), &run(101, 19, 120, 10 * MS + 150_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.lost, metrics.retransmitted, metrics.recovered), (2, 17, 0));
        assert_eq!((metrics.upstream.count, metrics.downstream.count), (1, 0));
        assert_eq!(metrics.retransmission, Some(Retransmission::GoBackN));
    }

    #[test]
    fn a_loss_behind_the_link() {
        let mut collector = collector();
        nak(&mut collector, 101, 10 * MS);
        collector.run(&event(120, 10 * MS + 200_000), &run(101, 19, 120, 10 * MS + 150_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.lost, metrics.retransmitted, metrics.downstream.count), (0, 19, 1));
    }

    #[test]
    fn a_packet_out_of_order_is_recovered() {
        let mut collector = collector();
        collector.gap(&event(102, 10 * MS), 1);
        collector.run(&event(103, 10 * MS + 4_000), &run(101, 1, 103, 10 * MS + 2_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.recovered, metrics.lost, metrics.retransmitted), (1, 0, 0));
    }

    #[test]
    fn a_nak_in_a_flow_that_is_not_known_is_for_no_other() {
        let mut collector = collector();
        // Its slot is there, because a later one is in use.
        collector.flow(9, &FlowKey { dest_qp: 7, ..FlowKey::default() });
        collector.nak(&KernelEvent { slot: 5, ..event(101, 10 * MS) }, 0x60 << 24, Event::NAK);
        collector.run(&event(120, 10 * MS + 200_000), &run(101, 19, 120, 10 * MS + 150_000), false);
        let metrics = collector.metrics().flow(0).requests.unwrap();
        assert_eq!((metrics.retransmitted, metrics.downstream.count), (19, 0));
    }

    #[test]
    fn a_peer_that_never_answers_makes_its_requester_time_out_where_others_answer() {
        for others in [true, false] {
            let mut collector = if others { collector() } else { Collector::new(REORDER_WINDOW_NS, BIN_NS) };
            let silent =
                FlowKey { src: [0, 0, 0, 1], dst: [0, 0, 0, 3], dest_qp: 7, family: 4, ..FlowKey::default() };
            collector.flow(2, &silent);
            for retry in 1..4 {
                let run = RetxRun { pause_ns: 67_000_000, ..run(10, 2, 12, retry * 70 * MS) };
                collector.run(&KernelEvent { slot: 2, ..event(12, retry * 70 * MS) }, &run, true);
            }
            let metrics = collector.metrics().flow(2).requests.unwrap();
            // The latest run goes on.
            let expected = if others { (3, 0) } else { (0, 2) };
            assert_eq!((metrics.timeouts, metrics.downstream.count), expected, "{others}: {metrics:?}");
        }
    }

    #[test]
    fn a_sender_that_gets_no_answer_is_stuck() {
        let mut collector = Collector::new(REORDER_WINDOW_NS, BIN_NS);
        collector.flow(0, &FlowKey::default());
        for i in 1..=3 {
            collector.run(&event(101, (i + 1) * 500 * MS), &run(101, 1, 102, i * 500 * MS), true);
        }
        assert_eq!(collector.metrics().flow(0).requests.unwrap().stuck, 3);
    }
}
