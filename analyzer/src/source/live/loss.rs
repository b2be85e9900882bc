//! Loss in a live run: for flows whose latency is measured, the kernel programs report each PSN gap and each run
//! of retransmitted packets.
//!
//! Completeness is checked per flow against the counters, which are exact: if a record was dropped, the affected time
//! is left out and counted (`Unfollowed`), and the flow is followed again afterwards.

use rocescope_common::abi::EventRecord;
use rocescope_common::account::latency::RetxRun;
use rocescope_common::account::psn::WINDOW;
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::latency::{Base, Change, LossSignal};
use super::load::Programs;
use super::pairing::Pairs;
use crate::host::kernel::clock::WallClock;
use crate::metrics::loss::from_kernel::KernelEvent;
use crate::metrics::loss::{AckState, Collector, Loss, REORDER_WINDOW_NS, Unfollowed};
use crate::metrics::traffic::BIN_NS;
use crate::sample::FlowSample;
use crate::util::map::{Map, Set};

/// A flow whose gaps and retransmissions the kernel reports.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// Start of the reports, in nanoseconds of the kernel's clock.
    since_ns: u64,
    /// The counters at the start; `None` if they kept changing during the reading.
    base: Option<Base>,
    /// PSNs had been skipped before the start: retransmissions below this PSN may repair gaps that were not reported.
    behind: Option<u32>,
    /// Slot of its reverse direction, if visible.
    answers: Option<u32>,
    /// Sums over all reports, including dropped ones, and PSNs missing in their gaps.
    reported: LossSignal,
    missing: u64,
    /// The counters at the last two readings, older first: everything counted at the older one has been reported.
    readings: [Base; 2],
    /// Packets in intervals with a dropped report, and the flow's packet count at the end of the latest of them.
    left_out: Unfollowed,
    left_out_to: u64,
    /// The number of its packets between two periods of tracking is unknown.
    incomplete: bool,
    first: u32,
}

impl Watched {
    /// Compares the counters of a reading, whose latest packet has time `until_ns` (Unix), with the reports:
    /// everything counted at the previous reading must have been reported by now except `under_way` retransmissions;
    /// with `all` everything counted.
    fn settle(&mut self, now: Base, under_way: u64, all: bool, until_ns: u64) {
        let [complete, last] = self.readings;
        self.readings = [last, now];
        let Some(base) = self.base else { return };
        let due = if all { now } else { last };
        let unreported =
            |due: u64, base: u64, reported: u64| due.saturating_sub(base).saturating_sub(reported);
        let gaps = unreported(due.loss_signal.gaps, base.loss_signal.gaps, self.reported.gaps);
        let repeats = unreported(
            due.loss_signal.repeats,
            base.loss_signal.repeats,
            self.reported.repeats.saturating_add(under_way),
        );
        if gaps == 0 && repeats == 0 {
            return;
        }
        let missing = unreported(due.missing, base.missing, self.missing);
        (self.reported.gaps, self.reported.repeats) =
            (self.reported.gaps + gaps, self.reported.repeats + repeats);
        self.missing += missing;
        let from = complete.packets.max(self.left_out_to);
        let Unfollowed { packets, missing: before, repeats: again, .. } = self.left_out;
        self.left_out = Unfollowed {
            until_ns,
            packets: packets + now.packets.saturating_sub(from),
            missing: before + missing,
            repeats: again + repeats,
        };
        self.left_out_to = now.packets;
        // Retransmissions of earlier PSNs may repair gaps that were not reported.
        self.behind = Some(now.expected);
    }

    /// Packets that were not followed; `None` if they contained nothing to follow.
    fn unfollowed(&self, since_ns: u64) -> Option<Unfollowed> {
        let base = self.base.filter(|base| base.loss_signal != LossSignal::default()).unwrap_or_default();
        let sum = Unfollowed {
            until_ns: if self.left_out.until_ns == 0 { since_ns } else { self.left_out.until_ns },
            packets: base.packets + self.left_out.packets,
            missing: base.missing + self.left_out.missing,
            repeats: base.loss_signal.repeats + self.left_out.repeats,
        };
        (sum.packets > 0).then_some(sum)
    }

    /// The part of a run of retransmissions that may fill gaps reported since tracking began; `None` if there is none.
    fn judged(&self, run: RetxRun) -> Option<RetxRun> {
        let Some(behind) = self.behind else { return Some(run) };
        let before = behind.wrapping_sub(run.first_psn()) & MASK24;
        if before == 0 || before > WINDOW {
            return Some(run);
        }
        // The rest may fill reported gaps. Without the reverse direction, it could as well be an unneeded
        // retransmission.
        let packets = run.packets.checked_sub(before).filter(|rest| *rest > 0 && self.answers.is_some())?;
        Some(RetxRun { first: behind | run.first & !MASK24, packets, ..run })
    }

    /// Call when the sequence has reached a PSN: beyond the window, a sender no longer goes back to PSNs from before
    /// the reports began.
    fn moved_on(&mut self, expected: u32) {
        if self
            .behind
            .is_some_and(|behind| (WINDOW..=MASK24 / 2).contains(&(expected.wrapping_sub(behind) & MASK24)))
        {
            self.behind = None;
        }
    }
}

/// Follows the loss of a live run. Slots and links are the kernel's.
#[derive(Debug)]
pub struct Losses {
    collector: Collector,
    watched: Map<u32, Watched>,
    /// Flows whose reports were interrupted.
    interrupted: Set<u32>,
    /// Flows known to the collector, by slot.
    opened: Map<u32, FlowKey>,
}

impl Default for Losses {
    fn default() -> Self {
        Self {
            collector: Collector::new(REORDER_WINDOW_NS, BIN_NS),
            watched: Map::default(),
            interrupted: Set::default(),
            opened: Map::default(),
        }
    }
}

impl Losses {
    /// Applies the changes of which flows are measured.
    pub fn changes(&mut self, programs: &mut Programs, pairs: &Pairs) {
        for change in programs.times.changes() {
            match change {
                Change::Timed { slot, answers, since_ns, base } => {
                    for slot in [Some(slot), answers].into_iter().flatten() {
                        self.open(slot, pairs);
                    }
                    // The meaning of a retransmission depends on where the responses are visible.
                    if let Some((slot, key)) = answers.and_then(|slot| Some((slot, pairs.key_of(slot)?))) {
                        self.collector.answers(slot, key.link);
                    }
                    let troubled = base.is_some_and(|base| base.loss_signal != LossSignal::default());
                    let begin = base.unwrap_or_default();
                    let watched = Watched {
                        since_ns,
                        base,
                        behind: base.filter(|base| base.loss_signal.gaps > 0).map(|base| base.expected),
                        answers,
                        reported: LossSignal::default(),
                        missing: 0,
                        readings: [begin; 2],
                        left_out: Unfollowed::default(),
                        left_out_to: 0,
                        // The interval between two periods of tracking is unknown.
                        incomplete: base.is_none() || troubled && self.interrupted.contains(&slot),
                        first: UNKNOWN,
                    };
                    self.watched.insert(slot, watched);
                }
                Change::Ended { slot } => {
                    if self.watched.remove(&slot).is_some() {
                        self.interrupted.insert(slot);
                    }
                }
            }
        }
    }

    fn open(&mut self, slot: u32, pairs: &Pairs) {
        let Some(key) = pairs.key_of(slot) else { return };
        if self.opened.get(&slot) != Some(key) {
            self.opened.insert(slot, *key);
            self.collector.flow(slot, key);
        }
    }

    /// Adds an event of the flow in a slot.
    pub fn event(&mut self, slot: u32, record: &EventRecord, pairs: &Pairs, clock: &WallClock) {
        let op = Op::of(record.opcode);
        let event = |first: u32, answers: Option<u32>| KernelEvent {
            slot,
            link: record.key.link,
            answers,
            first,
            psn: record.psn,
            time_ns: clock.unix_ns(record.time_ns),
        };
        if record.events & (Event::NAK | Event::RNR) != 0 {
            self.open(slot, pairs);
            self.collector.nak(&event(UNKNOWN, None), record.aeth, record.events);
        }
        let Some(watched) = self.watched.get_mut(&slot).filter(|watched| record.time_ns >= watched.since_ns)
        else {
            return;
        };
        let event = event(watched.first, watched.answers);
        if let Some(run) = record.retx_run() {
            watched.reported.repeats += packets(&run);
            if let Some(run) = watched.judged(run) {
                self.collector.run(&event, &unix(&run, clock), record.missing != 0);
            }
        } else if op.has(Op::RELIABLE) {
            if record.events & Event::GAP != 0 {
                watched.reported.gaps += 1;
                watched.missing += u64::from(record.missing);
                self.collector.gap(&event, record.missing);
            } else if record.events & Event::RESTART != 0 {
                self.collector.restart(&event);
            }
        }
    }

    /// Processes a reading of the counters: everything counted at the previous reading must have been reported
    /// by now. `last`: no report is pending any more, and open runs are closed as they are.
    pub fn reading(&mut self, flows: &[FlowSample], programs: &Programs, last: Option<&WallClock>) {
        for flow in flows {
            let Some(watched) = self.watched.get_mut(&flow.slot) else { continue };
            watched.first = flow.stats.psn.first;
            let mut under_way = 0;
            if let Some(run) = programs.times.run(flow.slot) {
                under_way = packets(&run);
                if let Some(clock) = last {
                    let reported = KernelEvent {
                        slot: flow.slot,
                        link: flow.key.link,
                        answers: watched.answers,
                        first: watched.first,
                        psn: run.expected,
                        time_ns: clock.unix_ns(run.end_ns),
                    };
                    if let Some(run) = watched.judged(run) {
                        self.collector.run(&reported, &unix(&run, clock), true);
                    }
                }
            }
            watched.moved_on(flow.stats.psn.expected);
            watched.settle(Base::of(&flow.stats), under_way, last.is_some(), flow.stats.last_ns);
        }
    }

    /// Adds the packet counts of all flows at a Unix time, to which intervals of loss are compared.
    pub fn count(&mut self, flows: &[FlowSample], time_ns: u64) {
        self.collector.reading(flows.iter().map(|flow| (flow.slot, &flow.stats)), time_ns);
    }

    /// Call when the flow of a slot is retired.
    pub fn retired(&mut self, slot: u32) {
        self.collector.retired(slot);
        self.watched.remove(&slot);
        self.interrupted.remove(&slot);
        self.opened.remove(&slot);
    }

    /// The results so far for the flows of a reading. `pairs` contains the reverse directions.
    pub fn metrics(
        &self,
        flows: &[FlowSample],
        programs: &Programs,
        pairs: &Pairs,
        clock: &WallClock,
    ) -> Loss {
        let mut loss = self.collector.metrics();
        let known = || self.watched.iter().filter(|(_, watched)| !watched.incomplete);
        loss.known = Some(known().map(|(slot, _)| *slot).collect());
        for (slot, watched) in known() {
            if let Some(unfollowed) = watched.unfollowed(clock.unix_ns(watched.since_ns)) {
                loss.flows.entry(*slot).or_default().unfollowed = Some(unfollowed);
            }
        }
        loss.ack_states.clear();
        loss.in_messages = None;
        for flow in flows {
            let FlowSample { slot, stats, .. } = flow;
            let answered = stats.acks + stats.rare.rnr_naks + stats.rare.naks.iter().sum::<u64>() > 0
                || stats.rare.psn_responses.seen != 0;
            let asked = programs.times.expected_response(*slot) || programs.slots.untimed(*slot) != 0;
            // Requests whose latency is measured account for these responses.
            let to = pairs.reverse(*slot).filter(|requests| programs.times.answers_of(*requests).is_some());
            let answer_psn = match to {
                Some(requests) if answered && programs.times.answered(requests) => {
                    self.watched.get(&requests).map(|watched| watched.first)
                }
                _ => None,
            };
            let ack_state = AckState {
                asked_ns: asked.then_some(stats.first_ns).into(),
                answer_psn,
                answered_something: answered && to.is_none(),
                ..AckState::default()
            };
            if ack_state != AckState::default() {
                let at = *slot as usize;
                if loss.ack_states.len() <= at {
                    loss.ack_states.resize(at + 1, AckState::default());
                }
                if let Some(place) = loss.ack_states.get_mut(at) {
                    *place = ack_state;
                }
            }
        }
        loss
    }
}

/// Packets of a run.
fn packets(run: &RetxRun) -> u64 {
    if run.op().has(Op::READ_REQUEST) { 1 } else { u64::from(run.packets) }
}

fn unix(run: &RetxRun, clock: &WallClock) -> RetxRun {
    RetxRun { start_ns: clock.unix_ns(run.start_ns), end_ns: clock.unix_ns(run.end_ns), ..*run }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(packets: u64, gaps: u64, missing: u64, repeats: u64) -> Base {
        let expected = u32::try_from(packets).unwrap();
        Base { loss_signal: LossSignal { repeats, gaps }, packets, missing, expected }
    }

    fn watched(base: Base) -> Watched {
        Watched {
            since_ns: 5,
            base: Some(base),
            behind: None,
            answers: Some(1),
            reported: LossSignal::default(),
            missing: 0,
            readings: [base; 2],
            left_out: Unfollowed::default(),
            left_out_to: 0,
            incomplete: false,
            first: 0,
        }
    }

    /// A report of a gap with this number of missing PSNs, and of as many retransmissions.
    fn report(watched: &mut Watched, missing: u64) {
        watched.reported.gaps += 1;
        watched.reported.repeats += missing;
        watched.missing += missing;
    }

    #[test]
    fn reports_that_come_leave_nothing_out() {
        let mut flow = watched(counted(0, 0, 0, 0));
        for reading in 1..10 {
            // The reports of this reading arrive before the next reading.
            flow.settle(counted(100 * reading, reading, 3 * reading, 3 * reading), 0, false, reading);
            report(&mut flow, 3);
        }
        flow.settle(counted(1_000, 10, 30, 30), 3, false, 10);
        report(&mut flow, 3);
        flow.settle(counted(1_000, 10, 30, 30), 0, true, 10);
        assert_eq!((flow.unfollowed(5), flow.behind), (None, None));
    }

    #[test]
    fn a_report_that_is_lost_leaves_out_its_time_and_no_more() {
        let mut flow = watched(counted(0, 0, 0, 0));
        flow.settle(counted(100, 1, 3, 3), 0, false, 1);
        report(&mut flow, 3);
        // Two gaps by now, one of which is never reported.
        flow.settle(counted(200, 3, 10, 10), 0, false, 2);
        report(&mut flow, 3);
        flow.settle(counted(300, 3, 10, 10), 0, false, 3);
        let hole = Unfollowed { until_ns: 3, packets: 200, missing: 4, repeats: 4 };
        assert_eq!((flow.unfollowed(5), flow.behind), (Some(hole), Some(300)));
        for reading in 4..9 {
            flow.settle(counted(100 * reading, 3, 10, 10), 0, false, reading);
        }
        assert_eq!(flow.unfollowed(5), Some(hole), "it is followed again");
        // Another one at the next two readings: no packet is left out twice.
        flow.settle(counted(900, 4, 11, 11), 0, false, 9);
        flow.settle(counted(1_000, 5, 12, 12), 0, false, 10);
        flow.settle(counted(1_100, 5, 12, 12), 0, false, 11);
        let both = Unfollowed { until_ns: 11, packets: 500, missing: 6, repeats: 6 };
        assert_eq!(flow.unfollowed(5), Some(both));
    }

    #[test]
    fn packets_before_the_run_count_with_those_left_out() {
        let mut flow = watched(counted(50, 2, 5, 5));
        let before = Unfollowed { until_ns: 5, packets: 50, missing: 5, repeats: 5 };
        assert_eq!(flow.unfollowed(5), Some(before));
        flow.settle(counted(80, 3, 6, 6), 0, false, 7);
        flow.settle(counted(90, 3, 6, 6), 0, false, 8);
        let all = Unfollowed { until_ns: 8, packets: 90, missing: 6, repeats: 6 };
        assert_eq!(flow.unfollowed(5), Some(all));
    }
}
