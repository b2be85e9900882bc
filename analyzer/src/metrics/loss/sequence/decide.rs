//! The cause of a run, from what is observed around its first packet.

use rocescope_common::wire::bth::{MASK24, psn_distance};
use rocescope_common::wire::frame::UNKNOWN;

use super::super::arrival::{Arrival, Nak, RepeatedReads};
use super::super::cause::{Cause, NAK_REACTION_NS, NakKind, Observation, TIMEOUT_PAUSE_NS};
use super::super::gaps::{Fill, Gap};
use super::super::parallel::{Elsewhere, Member, Parallel};
use super::super::result::{GivenUp, Metrics};
use super::super::state::{PsnRun, State};
use super::Sequence;
use super::acked::reaches;
use crate::util::definition::definitions;

definitions! {
    SHORTLY: u32 = 1_024,
        "Maximum PSNs from a NAK to the first retransmission that arrives, for the NAK to be its reason",
        "Those of a window";
}

impl Sequence {
    /// Gives an undecided run its cause.
    pub(super) fn decide(&mut self, arrival: &Arrival<'_>) {
        let State::Undecided(mut run) = self.state else { return };
        let observation = self.observe_begin(arrival, &run);
        let cause = observation.cause();
        run.timed_out = observation.timer_expired(cause) && !self.reordering_delay.explains(run.pause_ns);
        if run.timed_out {
            self.timed_out(run.pause_ns, run.start_ns);
        }
        if cause == Cause::ReceiverNotReady {
            self.metrics.rnr_wait_ns += arrival.rnr_wait_ns(run.start, run.start_ns);
        }
        if cause == Cause::Reuse && !self.reused {
            self.reused = true;
            self.forget_gaps();
        }
        self.state = State::GoingBack(run, cause);
    }

    /// True if nothing explains the go-back: no pause as long as a timer's, and no NAK that has not explained an
    /// earlier run. The packet is a reordered original, or a retransmission with another reason.
    pub(super) fn has_no_nak_or_timeout(&mut self, arrival: &Arrival<'_>, pause_ns: u64) -> bool {
        self.answers_pass |= arrival.answers_slot != UNKNOWN;
        if !arrival.reverse_captured || pause_ns >= TIMEOUT_PAUSE_NS {
            return false;
        }
        let right_before = arrival.psn.wrapping_sub(1) & MASK24;
        let gap = self.gaps.at(right_before);
        !self.explains(arrival, |psn| psn == arrival.psn || gap.is_some_and(|gap| gap.contains(psn)))
    }

    /// Counts PSNs as lost that may have been reordered.
    pub(super) fn possibly_reordered(&mut self, psns: u64) {
        self.metrics.doubtful = (self.metrics.doubtful + psns).min(self.metrics.lost);
    }

    /// A packet passes again whose PSN a retransmission may have filled: the original, perhaps, which was not lost
    /// then.
    pub(super) fn mark_possibly_reordered(&mut self, arrival: &Arrival<'_>) {
        if arrival.numbered {
            return;
        }
        match self.gaps.passes_again(arrival.psn) {
            Some(Fill::Retransmission) => self.possibly_reordered(1),
            Some(Fill::Alone) => {
                self.alone = self.alone.saturating_sub(1);
                self.possibly_reordered(1);
            }
            Some(Fill::Original | Fill::Either) | None => {}
        }
    }

    /// True if a run has filled gaps and nothing else, before the sender went on beyond packets that had passed. A
    /// sender that goes back N repeats those: what filled its gaps were originals out of order.
    pub(super) fn leaves_out(&mut self, run: &PsnRun, numbered: bool) -> bool {
        if numbered || run.again > 0 {
            return false;
        }
        let alone = self.gaps.filled_alone(run.start, run.last);
        self.alone += alone;
        alone > 0
    }

    /// True if the sender repeats packets that had passed in about as many runs as it fills gaps alone.
    pub(super) const fn goes_back(&self) -> bool {
        self.repeating > 0 && self.repeating * 2 >= self.selective
    }

    /// True if this tap sees a part of the packets only: the others take parallel links.
    pub(in crate::metrics::loss) fn is_partial(&self, sent: u32) -> bool {
        let unseen = self.metrics.unfilled + self.gaps.missing() + self.elsewhere;
        sent >= 64 && unseen * 4 >= u64::from(sent)
    }

    /// Notes a packet of a flow that takes parallel links, whose part here is the member.
    pub(in crate::metrics::loss) fn note_parallel(
        &mut self,
        parallel: &mut Parallel,
        member: Option<Member>,
        packet: (u32, u64, u64),
    ) -> Elsewhere {
        let Self { gaps, metrics, parallel: number, .. } = self;
        // What it has in no gap passed here, while no gap was dropped.
        let passed = |psn| gaps.at(psn).is_none_or(|gap| gap.retransmitted);
        let is_known = self.reliable && metrics.unfilled == 0;
        parallel.note(number, member, is_known.then_some(&passed), packet)
    }

    /// A packet that this link does not miss was lost on the way to a parallel one: it is the retransmission.
    pub(super) fn note_missing_elsewhere(&mut self, arrival: &Arrival<'_>) {
        if arrival.elsewhere == Elsewhere::Missing && self.reliable {
            let since_ns =
                self.state.run().map_or(arrival.last_ns, |run| run.start_ns.saturating_sub(run.pause_ns));
            self.lost(since_ns, arrival, 1);
        }
    }

    /// The run fills its first gap: counts it as unexplained, unless it began with packets that had passed before and a
    /// NAK names a PSN that it has reached (senders may go back to the start of the message). Duplicates fill no gap.
    pub(super) fn fills_gap(&mut self, arrival: &Arrival<'_>, gap: &Gap) {
        let passed_before = self.state.cause().is_some();
        let Some(run) = self.state.run_mut() else { return };
        if std::mem::replace(&mut run.filled, true) || !run.unexplained || arrival.numbered {
            return;
        }
        let start = run.start;
        let reach = psn_distance(start, arrival.psn);
        let comes_to = |psn: u32| psn_distance(start, psn) <= reach || gap.contains(psn);
        if passed_before && self.explains(arrival, comes_to) {
            self.explained_runs += 1;
            if let Some(run) = self.state.run_mut() {
                run.unexplained = false;
            }
        } else {
            self.unexplained_runs += 1;
        }
    }

    /// True if a NAK for one of these PSNs explains the run, and none before; a NAK explains one run only.
    fn explains(&mut self, arrival: &Arrival<'_>, names: impl Fn(u32) -> bool) -> bool {
        let explained = self.explained;
        let nak = arrival.nak(|nak| names(nak.psn) && !explained.contains(&Some(*nak)), 0);
        if nak.is_some() {
            self.explained.rotate_left(1);
            self.explained[explained.len() - 1] = nak;
        }
        nak.is_some()
    }

    /// Notes that the connection before had ended without an answer to what its sender retransmitted: the queue pair
    /// was destroyed after it had given up. It waits for its timer once more before it does.
    pub(super) fn note_given_up(&mut self, arrival: &Arrival<'_>, acked: Option<u32>) {
        let pause_ns = arrival.time_ns.saturating_sub(arrival.last_ns);
        let waited = self.metrics.timeouts > 0 && pause_ns >= self.metrics.timeout_range_ns.0 / 2;
        let refused = acked.is_some_and(|psn| !reaches(psn, self.stuck_at));
        if self.stuck >= 2 && waited && refused {
            self.given_up = Some(GivenUp {
                psn: self.stuck_at,
                last_psn: arrival.last_psn,
                retries: self.stuck,
                opcode: self.stuck_request.opcode,
                bytes: self.stuck_request.length(),
                last_ns: arrival.last_ns,
                until_ns: arrival.time_ns,
            });
        }
    }

    /// The sender goes back to this packet, or goes on with it from `before`, the one that it retransmitted last: a
    /// go-back-N that repeats several messages is one restart, from the oldest.
    pub(super) fn note_restart(&mut self, arrival: &Arrival<'_>, before: Option<u32>) {
        let since_ns = arrival.last_ns.max(arrival.responded_ns.unwrap_or(0));
        let paused = arrival.time_ns.saturating_sub(since_ns) >= TIMEOUT_PAUSE_NS;
        let ahead = |before: u32| psn_distance(before, arrival.psn);
        if paused || !before.is_some_and(|before| (1..MASK24 / 2).contains(&ahead(before))) {
            self.restarted_at(arrival);
        }
    }

    /// Counts how often in a row the sender restarts at one PSN.
    const fn restarted_at(&mut self, arrival: &Arrival<'_>) {
        let &Arrival { psn, time_ns, request, .. } = arrival;
        self.restarts_ns = [self.restarts_ns[1], time_ns];
        self.stuck_request = request;
        if self.stuck > 0 && self.stuck_at == psn {
            self.stuck += 1;
        } else {
            self.stuck_at = psn;
            self.stuck = 1;
        }
    }

    fn timed_out(&mut self, silence_ns: u64, end_ns: u64) {
        let metrics = &mut self.metrics;
        let (shortest, longest) = metrics.timeout_range_ns;
        let shortest = if metrics.timeouts == 0 { silence_ns } else { shortest.min(silence_ns) };
        metrics.timeout_range_ns = (shortest, longest.max(silence_ns));
        metrics.timeouts += 1;
        metrics.timeout_wait_ns += silence_ns;
        self.silence = Some((end_ns.saturating_sub(silence_ns), end_ns));
    }

    /// Observations around the first packet of a run. Consumes the NAK that explains it: called once for each run.
    fn observe_begin(&mut self, arrival: &Arrival<'_>, run: &PsnRun) -> Observation {
        let right_before = run.start.wrapping_sub(1) & MASK24;
        let paused = run.pause_ns >= TIMEOUT_PAUSE_NS;
        let from_first = run.start == arrival.first;
        let behind = |psn: u32| psn_distance(run.start, psn);
        let all = behind(arrival.expected);
        // A READ takes a PSN for each packet of its response: how far the requests go back says the latest of them.
        let back = match behind(arrival.last_psn) {
            _ if !arrival.read => all,
            back if back < MASK24 / 2 => back + 1,
            _ => 1,
        };
        // An older NAK may explain a second go-back to one PSN; from the third in a row on, only one since the last
        // go-back-N.
        let since_ns = if self.stuck > 2 && paused { self.restarts_ns[0] } else { 0 };
        let gap_before = self.gaps.at(right_before);
        let names = |nak: &Nak| nak.psn == run.start || gap_before.is_some_and(|gap| gap.contains(nak.psn));
        let is_already_answered = |nak: &Nak| {
            let since_nak_ns = run.start_ns.saturating_sub(nak.time_ns);
            let slow = !nak.rnr && since_nak_ns.min(run.pause_ns) >= NAK_REACTION_NS;
            // Its first packets are no longer to come.
            let lost_again = run.pause_ns >= arrival.window_ns && self.answered_behind == Some(*nak);
            paused && (slow || lost_again || self.answered == Some(*nak))
        };
        let nak = arrival.nak(names, since_ns);
        let nak_already_answered = nak.as_ref().is_some_and(is_already_answered);
        let shortly_before = |nak: &Nak| {
            (arrival.answers_slot == UNKNOWN || nak.slot == arrival.answers_slot)
                && psn_distance(nak.psn, run.start) < SHORTLY
        };
        let nak_before =
            paused && arrival.nak(shortly_before, 0).is_some_and(|nak| !is_already_answered(&nak));
        // One for a gap before the run may be for packets that are still to come.
        self.answered = nak.filter(|nak| nak.psn == run.start).or(self.answered);
        self.answered_behind = nak.filter(|nak| nak.psn != run.start).or(self.answered_behind);
        let nak = nak.filter(|nak| !(nak.rnr && nak_already_answered));
        Observation {
            reused: self.reused,
            nak: nak.map(|Nak { rnr, .. }| if rnr { NakKind::Rnr } else { NakKind::SequenceError }),
            nak_already_answered,
            nak_before,
            gap_at: self.gaps.knows(run.start),
            gap_right_before: self.gaps.knows(right_before),
            gap_ahead: self.gaps.any_between(run.start, arrival.expected),
            back,
            from_first,
            before_first: all.saturating_sub(psn_distance(arrival.first, arrival.expected)),
            acked: arrival
                .all_acked
                .is_some_and(|psn| reaches(psn, arrival.expected.wrapping_sub(1) & MASK24)),
            pause_ns: run.pause_ns,
            reliable: self.reliable,
            follows_run: self.previous.filter(|(last, _)| *last == right_before).map(|(_, packets)| packets),
            not_repeated: arrival.asked.is_not_for(run.start),
            // A peer that never answers: its requester goes back to its first request, where answers of others pass.
            reverse_captured: arrival.reverse_captured || arrival.others_answer && paused && from_first,
        }
    }

    /// What the requester of READ responses, whose requests these are, has repeated.
    pub(in crate::metrics::loss) const fn repeated_reads(&self) -> RepeatedReads {
        let Metrics { retransmitted, rereads, lost, .. } = self.metrics;
        let nothing = retransmitted + rereads + lost == 0 && matches!(self.state, State::Advancing);
        RepeatedReads { nothing, duplicate: self.duplicate_read }
    }

    /// Go-back-N or selective retransmission, where the run shows which.
    pub(super) fn classify(&mut self, run: &PsnRun, frontier: u32, resumed: bool) {
        let reach = psn_distance(run.start, frontier);
        if reach <= 1 {
            return;
        }
        let last = psn_distance(run.start, run.last);
        let whole = if resumed { u64::from(reach) } else { u64::from(last) + 1 };
        // Some of the retransmissions may be lost again.
        if run.packets >= 2 && run.packets * 4 >= whole * 3 {
            self.go_back_n += 1;
            self.repeating += u64::from(run.again > 1 && !run.timed_out);
        } else if resumed && run.packets * 2 <= whole {
            self.selective += 1;
        }
    }

    /// True if the transport timer made the requester retransmit a READ: neither a request nor a response passed for
    /// long. A requester that misses one response among others retransmits at once.
    pub(super) fn read_timed_out(&mut self, arrival: &Arrival<'_>) -> bool {
        let Some(responded_ns) = arrival.responded_ns else { return false };
        let silence_ns = arrival.time_ns.saturating_sub(arrival.last_ns.max(responded_ns));
        let observation = self.observe_begin(arrival, &PsnRun::begin(arrival, silence_ns));
        let timed_out = observation.timer_expired(observation.cause());
        if timed_out {
            self.timed_out(silence_ns, arrival.time_ns);
            self.metrics.read_timeouts += 1;
        }
        timed_out
    }
}
