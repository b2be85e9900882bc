//! Loss in a live run: for flows whose latency is measured, the kernel programs report each PSN gap and each run
//! of retransmitted packets.
//!
//! Completeness is checked flow by flow against the counters, which are exact: when a record was dropped on
//! the way, the loss figures of that flow become unknown.

use rocescope_common::abi::EventRecord;
use rocescope_common::account::latency::RetxRun;
use rocescope_common::account::psn::WINDOW;
use rocescope_common::account::{Event, FlowKey, FlowStats};
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::latency::Change;
use super::load::Programs;
use super::pairing::Pairs;
use crate::host::clock::WallClock;
use crate::metrics::loss::from_kernel::KernelEvent;
use crate::metrics::loss::{Collector, Dialogue, Loss, REORDER_WINDOW_NS, Unfollowed};
use crate::metrics::traffic::BIN_NS;
use crate::sample::FlowSample;
use crate::util::map::{Map, Set};

/// The counters of a sequence of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Retransmitted packets.
    pub(crate) repeats: u64,
    /// PSN gaps.
    pub(crate) gaps: u64,
}

impl Trouble {
    fn of(stats: &FlowStats) -> Self {
        Self { repeats: stats.psn.repeats, gaps: stats.psn.gaps }
    }
}

/// The counters of a flow when the kernel began to report its gaps and retransmissions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Base {
    pub(crate) trouble: Trouble,
    packets: u64,
    missing: u64,
    /// The expected PSN.
    expected: u32,
}

impl Base {
    pub(crate) fn of(stats: &FlowStats) -> Self {
        Self {
            trouble: Trouble::of(stats),
            packets: stats.packets,
            missing: stats.psn.missing,
            expected: stats.psn.expected,
        }
    }
}

/// A flow whose gaps and retransmissions the kernel reports.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// Begin of the reports, in nanoseconds of the kernel's clock.
    since_ns: u64,
    /// The counters then; `None` when they kept changing during the reading.
    base: Option<Base>,
    /// PSNs had been skipped before: retransmissions below this PSN may repair gaps that were not reported.
    behind: Option<u32>,
    /// Slot of its reverse direction, where that is visible.
    answers: Option<u32>,
    /// The sums of all reports.
    reported: Trouble,
    /// The counters at the last reading.
    last: Trouble,
    /// A report is missing.
    incomplete: bool,
    first: u32,
}

impl Watched {
    /// The part of a run of retransmissions that concerns reported gaps; `None` if there is none.
    fn judged(&self, run: RetxRun) -> Option<RetxRun> {
        let Some(behind) = self.behind else { return Some(run) };
        let before = behind.wrapping_sub(run.first_psn()) & MASK24;
        if before == 0 || before > WINDOW {
            return Some(run);
        }
        // The rest may fill reported holes. Without the reverse direction, it could as well be an unneeded
        // retransmission.
        let packets = run.packets.checked_sub(before).filter(|rest| *rest > 0 && self.answers.is_some())?;
        Some(RetxRun { first: behind | run.first & !MASK24, packets, ..run })
    }

    /// The sequence has reached a PSN: beyond the window, a sender no longer goes back to PSNs before the reports began.
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
                    let last = base.map(|base| base.trouble).unwrap_or_default();
                    let troubled = last != Trouble::default();
                    let watched = Watched {
                        since_ns,
                        base,
                        behind: base.filter(|base| base.trouble.gaps > 0).map(|base| base.expected),
                        answers,
                        reported: Trouble::default(),
                        last,
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

    /// Takes in an event of a flow in a slot.
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
            let now = Trouble::of(&flow.stats);
            let mut under_way = 0;
            if let Some(run) = programs.times.run(flow.slot) {
                under_way = packets(&run);
                if let Some(clock) = last {
                    let told = KernelEvent {
                        slot: flow.slot,
                        link: flow.key.link,
                        answers: watched.answers,
                        first: watched.first,
                        psn: run.expected,
                        time_ns: clock.unix_ns(run.end_ns),
                    };
                    if let Some(run) = watched.judged(run) {
                        self.collector.run(&told, &unix(&run, clock), true);
                    }
                }
            }
            let due = if last.is_some() { now } else { watched.last };
            watched.moved_on(flow.stats.psn.expected);
            let Some(Base { trouble: base, .. }) = watched.base else { continue };
            watched.incomplete |= watched.reported.repeats + under_way
                < due.repeats.saturating_sub(base.repeats)
                || watched.reported.gaps < due.gaps.saturating_sub(base.gaps);
            watched.last = now;
        }
    }

    /// Takes in the packets of each flow, at a Unix time: spells of loss are compared with them.
    pub fn count(&mut self, flows: &[FlowSample], time_ns: u64) {
        self.collector.reading(flows.iter().map(|flow| (flow.slot, &flow.stats)), time_ns);
    }

    /// The flow of a slot is retired.
    pub fn retired(&mut self, slot: u32) {
        self.collector.retired(slot);
        self.watched.remove(&slot);
        self.interrupted.remove(&slot);
        self.opened.remove(&slot);
    }

    /// The results so far for the flows of a reading. `pairs` has the reverse direction of each.
    #[must_use]
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
            let Some(base) = watched.base.filter(|base| base.trouble != Trouble::default()) else { continue };
            loss.flows.entry(*slot).or_default().unfollowed = Some(Unfollowed {
                until_ns: clock.unix_ns(watched.since_ns),
                packets: base.packets,
                missing: base.missing,
                repeats: base.trouble.repeats,
            });
        }
        loss.dialogues.clear();
        for flow in flows {
            let FlowSample { slot, stats, .. } = flow;
            let answered = stats.acks + stats.rnr_naks + stats.naks.iter().sum::<u64>() > 0
                || stats.psn_responses.seen != 0;
            let asked = programs.times.asked(*slot) || programs.slots.untimed(*slot) != 0;
            // Answers to requests that are timed are accounted for there.
            let to = pairs.reverse(*slot).filter(|requests| programs.times.answers_of(*requests).is_some());
            let answer_psn = match to {
                Some(requests) if answered && programs.times.answered(requests) => {
                    self.watched.get(&requests).map(|watched| watched.first)
                }
                _ => None,
            };
            let dialogue = Dialogue {
                asked_ns: asked.then_some(stats.first_ns),
                answer_psn,
                answered_something: answered && to.is_none(),
                ..Dialogue::default()
            };
            if dialogue != Dialogue::default() {
                let at = *slot as usize;
                if loss.dialogues.len() <= at {
                    loss.dialogues.resize(at + 1, Dialogue::default());
                }
                if let Some(place) = loss.dialogues.get_mut(at) {
                    *place = dialogue;
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
