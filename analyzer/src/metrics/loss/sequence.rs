//! One sequence of packets with a gap or a retransmission: what was lost, where, and the reason of the retransmission.
//!
//! # States
//!
//! A sequence gets a state machine at its first gap or first packet behind the expected PSN.
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | [`Advancing`](State::Advancing) | packets arrive at or beyond the expected PSN | a packet behind it: `Undecided` |
//! | [`Undecided`](State::Undecided) | a run of packets behind the expected PSN has filled gaps only: reordering, or the beginning of a retransmission | a packet that passed before, or that is certainly a retransmission: `GoingBack`; a packet at the expected PSN: `Advancing`, and the run was reordering |
//! | [`GoingBack`](State::GoingBack) | the run has a [`Cause`] (see [`cause`](super::cause)) | a packet at the expected PSN: `Advancing`; a jump back or a NAK: a new run |
//!
//! # What happens to a packet
//!
//! | # | observation | conclusion |
//! |---|---|---|
//! | 1 | same PSN and identification as the packet before within 10 us, or as a recent one | duplicate made by a mirror |
//! | 2 | fills a gap, its identification says that it was sent before the gap showed | reordered, not lost |
//! | 3 | fills a gap within the reordering window, no NAK for the gap, no retransmission under way | reordered, until a packet of the run turns out to have passed before |
//! | 4 | fills a gap otherwise | lost upstream and retransmitted; doubtful if neither a NAK of its own nor a timeout explains the run although ACKs pass here, if it arrives no later than reordered packets do (`late`), or if its run repeats nothing that had passed behind it and the sender goes back N |
//! | 5 | original of a gap that a retransmission has filled | reordered; the loss is taken back |
//! | 6 | fills a gap, passed a parallel link before ([`parallel`](super::parallel)) | as one that passed before |
//! | 7 | passed before | retransmission, counted by the cause of its run |
//! | 8 | passed before, alone, without a NAK or a timeout, and the sender does not go on from it | duplicate made by the network or the capture |
//! | 9 | READ request behind the expected PSN | retransmitted READ; fills gaps as any packet |
//! | 10 | jump forward within a run | the PSNs between are a gap among retransmissions, lost again if they follow later |
//! | 11 | gap in a sequence of UC | lost: UC retransmits nothing |
//! | 12 | in order here, and no parallel link has shown it, though one had shown later ones longer ago than the reordering window | lost upstream of one of them, and retransmitted |

mod acked;
mod decide;
mod reordering_delay;
mod tally;

use rocescope_common::wire::bth::{MASK24, psn_distance};
use rocescope_common::wire::frame::{CE, UNKNOWN};

use super::DUPLICATE_NS;
use super::WINDOW;
use super::arrival::{Arrival, ID_AHEAD, Nak, Request};
use super::cause::{Cause, TIMEOUT_PAUSE_NS};
use super::episode::{Episodes, Tracker};
use super::gaps::{Fill, Gap, Gaps};
use super::parallel::Elsewhere;
use super::result::{GivenUp, Metrics, Retransmission};
use super::state::{Missing, PsnRun, State};
use crate::util::definition::Definition;
use reordering_delay::ReorderingDelay;
use tally::{SIGNALS, Tally};

/// The numbers that its decisions rest on.
pub(super) const DEFINITIONS: [&[Definition]; 2] = [decide::DEFINITIONS, reordering_delay::DEFINITIONS];
/// NAKs remembered that explain a run: those of a window of packets.
const EXPLAINED: usize = 8;
/// PSNs of which the last IPv4 identification is remembered, to recognize duplicates.
const RECENT: u32 = 256;

/// A sequence with a gap or a packet behind the expected PSN.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// True if the service retransmits (RC, XRC), false if not (UC).
    reliable: bool,
    pub(super) metrics: Metrics,
    upstream: Tracker,
    downstream: Tracker,
    gaps: Gaps,
    pub(super) state: State,
    /// Last PSN of the run before this one, and its packets.
    previous: Option<(u32, u64)>,
    /// Runs of each kind.
    go_back_n: u64,
    selective: u64,
    /// Of the former, those that repeated several packets that had passed, before any timer expired.
    repeating: u64,
    /// PSNs counted as lost in runs that left out the packets behind them.
    alone: u64,
    /// PSN at which the sender restarted last, and the number of restarts there in a row.
    stuck_at: u32,
    stuck: u64,
    /// The request that it retransmitted then.
    stuck_request: Request,
    /// PSN of the READ request that it repeated last, if nothing else followed.
    reread: Option<u32>,
    /// The latest READ request that passed twice as a duplicate: its PSN and those that it takes.
    duplicate_read: Option<(u32, u32)>,
    /// Times of the last two restarts, the latest last, Unix nanoseconds.
    restarts_ns: [u64; 2],
    /// The silence before a timeout that is not recorded yet.
    silence: Option<(u64, u64)>,
    /// The NAK of the latest go-back-N, and of the latest of which the first packets did not arrive.
    answered: Option<Nak>,
    answered_behind: Option<Nak>,
    /// NAKs that explain a run, the latest last: each asks once.
    explained: [Option<Nak>; EXPLAINED],
    /// Runs after a NAK or a timeout, where the order of sending is not known.
    explained_runs: u64,
    /// Runs that filled a gap without a NAK or a timeout, where the order of sending is not known.
    unexplained_runs: u64,
    /// PSNs counted as lost in runs without a NAK or a timeout: lost or reordered.
    ambiguous_lost: u64,
    /// Answers pass this tap. Those of one queue pair among several may take another link, and its NAKs with them.
    answers_pass: bool,
    /// Another connection uses the number, and has not got beyond the PSNs of the one before.
    reused: bool,
    reordering_delay: ReorderingDelay,
    pub(super) given_up: Option<GivenUp>,
    /// Number of the flow if it takes parallel links, else [`UNKNOWN`]; and PSNs of gaps here that passed another link
    /// first.
    pub(super) parallel: u32,
    elsewhere: u64,
    /// Signals that are recorded already.
    recorded: Tally,
    /// PSN and identification of recent packets, by the last bits of the PSN.
    recent: [u64; RECENT as usize],
}

#[inline]
fn recent_word(psn: u32, id: u16) -> u64 {
    // Never 0, which stands for nothing.
    1 << 63 | u64::from(psn) << 16 | u64::from(id)
}

impl Sequence {
    /// Of a flow whose latest packet had this PSN and IPv4 identification.
    pub(super) fn new(reliable: bool, psn: u32, id: u16) -> Self {
        let mut recent = [0; RECENT as usize];
        recent[(psn % RECENT) as usize] = recent_word(psn, id);
        Self {
            reliable,
            metrics: Metrics::default(),
            upstream: Tracker::default(),
            downstream: Tracker::default(),
            gaps: Gaps::default(),
            state: State::Advancing,
            previous: None,
            go_back_n: 0,
            selective: 0,
            repeating: 0,
            alone: 0,
            stuck_at: 0,
            stuck: 0,
            stuck_request: Request::default(),
            reread: None,
            duplicate_read: None,
            restarts_ns: [0; 2],
            silence: None,
            answered: None,
            answered_behind: None,
            explained: [None; EXPLAINED],
            explained_runs: 0,
            unexplained_runs: 0,
            ambiguous_lost: 0,
            answers_pass: false,
            reused: false,
            reordering_delay: ReorderingDelay::default(),
            given_up: None,
            parallel: UNKNOWN,
            elsewhere: 0,
            recorded: [0; SIGNALS.len()],
            recent,
        }
    }

    /// A packet at the expected PSN while the sequence advances, as nearly all are. False when it ends a run: then
    /// [`in_order`](Self::in_order) takes it.
    #[inline]
    pub(super) fn advance(&mut self, psn: u32, id: u16) -> bool {
        if !matches!(self.state, State::Advancing) {
            return false;
        }
        self.progress();
        self.recent[(psn % RECENT) as usize] = recent_word(psn, id);
        true
    }

    /// A packet at the expected PSN.
    pub(super) fn in_order(&mut self, arrival: &Arrival<'_>) {
        self.resume(arrival, arrival.psn);
        self.remember(arrival);
    }

    /// A packet that skipped `missing` PSNs, of which `which` are missing for certain.
    pub(super) fn gap(&mut self, arrival: &Arrival<'_>, missing: u32, which: Missing) {
        let start = arrival.psn.wrapping_sub(missing) & MASK24;
        self.resume(arrival, start);
        self.remember(arrival);
        // PSNs that need not be missing matter only if they are retransmitted.
        let (before, behind) = match which {
            Missing::All => (0, 0),
            Missing::None => (0, missing),
            Missing::First => (0, missing - 1),
            Missing::Last => (missing - 1, 0),
        };
        let certain = missing - before - behind;
        self.metrics.gaps_capable += u64::from(certain > 0 && arrival.ecn != 0);
        self.metrics.gaps_ce += u64::from(certain > 0 && arrival.ecn == CE);
        let mut at = start;
        for (len, retransmitted) in [(before, true), (certain, false), (behind, true)] {
            if len > 0 {
                self.open(arrival, at, len, retransmitted);
            }
            at = at.wrapping_add(len) & MASK24;
        }
        if certain > 0 && !self.reliable {
            self.lost(arrival.time_ns.saturating_sub(arrival.window_ns), arrival, u64::from(certain));
        }
    }

    /// Another connection uses the number; the latest ACK of the peer of the one before carried this PSN, where that is
    /// known.
    pub(super) fn restart(&mut self, arrival: &Arrival<'_>, acked: Option<u32>) {
        self.note_given_up(arrival, acked);
        self.state = State::Advancing;
        self.previous = None;
        self.progress();
        self.forget_gaps();
        self.recent = [0; RECENT as usize];
        self.remember(arrival);
    }

    /// A packet behind the expected PSN.
    pub(super) fn behind(&mut self, arrival: &Arrival<'_>) {
        if self.is_duplicate(arrival) {
            self.metrics.mirrored += 1;
            if arrival.read {
                self.duplicate_read = Some((arrival.psn, arrival.span));
            }
            self.mark_possibly_reordered(arrival);
            return;
        }
        self.remember(arrival);
        if self.is_reordered_original(arrival) {
            return;
        }
        if arrival.read {
            self.retransmitted_read(arrival);
            return;
        }
        self.extend_run(arrival);
        match self.gaps.at(arrival.psn) {
            Some(_) if arrival.elsewhere == Elsewhere::Passed => {
                self.elsewhere += self.fill_span(arrival, |gaps, psn| gaps.fill(psn, Fill::Retransmission));
                self.passed_before(arrival);
            }
            Some(gap) => {
                if gap.retransmitted {
                    // It has passed before, and again: what filled its first gap may be the original.
                    self.mark_possibly_reordered(arrival);
                }
                self.fill(arrival, gap);
            }
            None => self.passed_before(arrival),
        }
    }

    /// Metrics of the packets so far.
    pub(super) fn metrics(&self) -> Metrics {
        let (go, selective) = (self.go_back_n, self.selective);
        let retransmission = match go.cmp(&selective) {
            std::cmp::Ordering::Greater => Some(Retransmission::GoBackN),
            std::cmp::Ordering::Less => Some(Retransmission::SelectiveRepeat),
            std::cmp::Ordering::Equal => None,
        };
        let missing = if self.reliable { self.gaps.missing() } else { 0 };
        Metrics {
            doubtful: self.doubtful(),
            unfilled: self.metrics.unfilled + missing,
            // A loss that was taken back may belong to an episode that had ended.
            upstream: if self.metrics.lost == 0 { Episodes::default() } else { self.upstream.metrics() },
            downstream: self.downstream.metrics(),
            retransmission,
            stuck: self.stuck,
            stuck_psn: (self.stuck > 0).then_some(self.stuck_at),
            stuck_opcode: (self.stuck > 0).then_some(self.stuck_request.opcode),
            stuck_bytes: self.stuck_request.length().filter(|_| self.stuck > 0),
            ..self.metrics
        }
    }

    /// The sequence advances behind the run, which ends there, unless the packet is reordered: then the sender
    /// is still retransmitting.
    fn resume(&mut self, arrival: &Arrival<'_>, frontier: u32) {
        if self.state.run().is_some() && arrival.is_reordered() {
            return;
        }
        self.note_missing_elsewhere(arrival);
        self.end_run(arrival, frontier, true);
        self.progress();
    }

    const fn progress(&mut self) {
        (self.stuck, self.reused, self.reread) = (0, false, None);
    }

    /// The gaps belong to a connection that has ended.
    fn forget_gaps(&mut self) {
        let missing = self.gaps.clear();
        if self.reliable {
            self.metrics.unfilled += missing;
        }
    }

    fn remember(&mut self, arrival: &Arrival<'_>) {
        self.recent[(arrival.psn % RECENT) as usize] = recent_word(arrival.psn, arrival.id);
    }

    fn is_duplicate(&self, arrival: &Arrival<'_>) -> bool {
        let twice = arrival.psn == arrival.last_psn && arrival.id == arrival.last_id;
        if twice && arrival.time_ns.abs_diff(arrival.last_ns) < DUPLICATE_NS {
            return true;
        }
        // A retransmission has an identification of its own.
        arrival.differs
            && self.recent[(arrival.psn % RECENT) as usize] == recent_word(arrival.psn, arrival.id)
    }

    /// True if the packet is an original that others have overtaken, by its identification; counts it then.
    fn is_reordered_original(&mut self, arrival: &Arrival<'_>) -> bool {
        if !arrival.numbered {
            return false;
        }
        if !self.gaps.was_filled_for(arrival.psn, arrival.id)
            && let Some(gap) = self.gaps.sent_before(arrival.psn, arrival.id)
        {
            self.fill_span(arrival, |gaps, psn| gaps.fill_original(psn, arrival.id));
            if gap.retransmitted {
                // A retransmission that others of its run have overtaken.
                self.reordered_retransmission(arrival);
            } else {
                self.reordering_delay.reordered(arrival.time_ns.saturating_sub(gap.opened_ns));
                self.reordered(1);
                self.deep(arrival);
            }
            return true;
        }
        // A retransmission has filled the gap meanwhile, without need.
        let Some(gap) = self.gaps.original_arrived(arrival.psn, arrival.id) else { return false };
        self.metrics.lost = self.metrics.lost.saturating_sub(1);
        self.retransmission(arrival);
        self.upstream.take_back();
        if !gap.retransmitted {
            self.metrics.recovered += 1;
            self.deep(arrival);
        }
        true
    }

    fn lost(&mut self, start_ns: u64, arrival: &Arrival<'_>, psns: u64) {
        self.metrics.lost += psns;
        self.upstream.note(start_ns, arrival.time_ns, psns);
    }

    /// A retransmission of a packet that has passed before.
    fn retransmission(&mut self, arrival: &Arrival<'_>) {
        self.metrics.retransmitted += 1;
        self.dated(arrival);
    }

    fn dated(&mut self, arrival: &Arrival<'_>) {
        self.metrics.last_retransmission_ns = self.metrics.last_retransmission_ns.max(arrival.time_ns);
    }

    fn reordered_retransmission(&mut self, arrival: &Arrival<'_>) {
        self.retransmission(arrival);
        if let Some(run) = self.state.run_mut() {
            run.packets += 1;
            if run.is_onward(arrival.psn) {
                run.last = arrival.psn;
            }
        }
    }

    /// Notes how far behind the expected PSN a packet out of order is.
    fn deep(&mut self, arrival: &Arrival<'_>) {
        let behind = psn_distance(arrival.psn, arrival.expected);
        if behind <= WINDOW {
            self.metrics.depth = self.metrics.depth.max(behind);
        }
    }

    fn reordered(&mut self, psns: u64) {
        self.metrics.recovered += psns;
        if !self.reliable {
            self.metrics.lost = self.metrics.lost.saturating_sub(psns);
            for _ in 0..psns {
                self.upstream.take_back();
            }
        }
    }

    /// Opens a gap before this packet.
    fn open(&mut self, arrival: &Arrival<'_>, start: u32, len: u32, retransmitted: bool) {
        // Whether the sender counts identifications up may become known only when the missing packet arrives.
        let late = (1..ID_AHEAD).contains(&arrival.high_id.wrapping_sub(arrival.id));
        let before = if late { arrival.high_id } else { arrival.id };
        let gap = Gap { start, len, opened_ns: arrival.time_ns, before, retransmitted };
        if let Some(dropped) = self.gaps.add(gap)
            && !dropped.retransmitted
            && self.reliable
        {
            self.metrics.unfilled += u64::from(dropped.len);
        }
    }

    /// Fills the packet's PSNs in their gap. Returns how many.
    fn fill_span(&mut self, arrival: &Arrival<'_>, fill: impl Fn(&mut Gaps, u32) -> Option<Gap>) -> u64 {
        /// Those of 64 MB in packets of 1,024 bytes. Larger READs are rare and fill the rest later.
        const MOST: u32 = 65_536;
        (0..arrival.span.min(MOST))
            .take_while(|i| fill(&mut self.gaps, arrival.psn.wrapping_add(*i) & MASK24).is_some())
            .count() as u64
    }

    /// The packet fills a gap.
    fn fill(&mut self, arrival: &Arrival<'_>, gap: Gap) {
        let requested = || arrival.nak(|nak| gap.contains(nak.psn), gap.opened_ns).is_some();
        let open_ns = arrival.time_ns.saturating_sub(gap.opened_ns);
        let in_window = open_ns <= arrival.window_ns;
        // A packet that was sent before the gap showed is known not to be lost already.
        let retransmitted =
            self.reliable && (arrival.numbered || !in_window || self.state.cause().is_some() || requested());
        if !gap.retransmitted {
            self.fills_gap(arrival, &gap);
        }
        // Reordered originals arrive without a NAK or timeout, possibly in several runs. An earlier identification
        // marks the packet as one even after a NAK, until further packets confirm that identifications count up.
        let unexplained = || self.state.run().is_some_and(|run| run.unexplained);
        let early = || arrival.differs && gap.sent_before(arrival.id);
        let doubted = retransmitted && !arrival.numbered && (unexplained() || early());
        let by = if doubted { Fill::Either } else { Fill::retransmission(retransmitted) };
        let psns = self.fill_span(arrival, |gaps, psn| gaps.fill(psn, by));
        if retransmitted {
            self.decide(arrival);
            if !self.reused {
                self.lost(gap.opened_ns, arrival, psns);
                match doubted {
                    true if early() => self.possibly_reordered(psns),
                    true => self.ambiguous_lost += psns,
                    false => self.reordering_delay.lost(open_ns, psns, arrival.numbered),
                }
            }
        } else if gap.retransmitted {
            self.reordered_retransmission(arrival);
        } else {
            self.reordering_delay.reordered(open_ns);
            self.reordered(psns);
            self.deep(arrival);
            if let Some(run) = self.state.run_mut() {
                run.provisional += psns;
                run.provisional_ns = gap.opened_ns;
            }
        }
    }

    fn passed_before(&mut self, arrival: &Arrival<'_>) {
        self.decide(arrival);
        let State::GoingBack(run, cause) = &mut self.state else { return self.retransmission(arrival) };
        run.again += 1;
        let (provisional, opened_ns) = (std::mem::take(&mut run.provisional), run.provisional_ns);
        let (cause, unexplained, timed_out) = (*cause, run.unexplained, run.timed_out);
        // The first that filled the gap may be the original, and this one its retransmission.
        let twice = !arrival.numbered && self.gaps.recently_filled(arrival.psn).is_some();
        match cause {
            Cause::Mirror => self.metrics.mirrored += 1,
            Cause::Reuse => {}
            _ => {
                self.retransmission(arrival);
                self.metrics.rnr_retransmitted += u64::from(cause == Cause::ReceiverNotReady);
                self.metrics.timeout_retransmitted += u64::from(timed_out);
            }
        }
        self.mark_possibly_reordered(arrival);
        if provisional > 0 && self.reliable && !twice {
            // Reordering does not bring a packet that has passed already: the run was a retransmission from its start.
            self.metrics.recovered = self.metrics.recovered.saturating_sub(provisional);
            self.lost(opened_ns, arrival, provisional);
            self.ambiguous_lost += if unexplained && !arrival.numbered { provisional } else { 0 };
        }
    }

    /// A READ request that is retransmitted may start in the middle of the first: it names what the
    /// requester still misses.
    fn retransmitted_read(&mut self, arrival: &Arrival<'_>) {
        let before = self.reread.or_else(|| self.state.run().map(|run| run.last));
        self.end_run(arrival, arrival.expected, false);
        self.note_restart(arrival, before);
        self.reread = Some(arrival.psn);
        let timed_out = self.read_timed_out(arrival);
        match self.gaps.at(arrival.psn) {
            Some(gap) if !gap.retransmitted && arrival.elsewhere != Elsewhere::Passed => {
                let psns = self.fill_span(arrival, |gaps, psn| gaps.fill(psn, Fill::Retransmission));
                self.lost(gap.opened_ns, arrival, psns);
            }
            _ => {
                self.metrics.rereads += 1;
                self.metrics.timeout_retransmitted += u64::from(timed_out);
                self.dated(arrival);
            }
        }
    }

    /// The packet continues the run, or begins one.
    fn extend_run(&mut self, arrival: &Arrival<'_>) {
        if arrival.is_reordered() {
            self.extend_run_backwards(arrival);
            return;
        }
        let pause_ns = arrival.time_ns.saturating_sub(arrival.last_ns);
        if self.continue_run(arrival, pause_ns) {
            return;
        }
        self.end_run(arrival, arrival.expected, false);
        let reread = self.reread.take();
        self.note_restart(arrival, reread);
        let unexplained = self.has_no_nak_or_timeout(arrival, pause_ns);
        self.explained_runs += u64::from(!unexplained && !arrival.numbered);
        self.state = State::Undecided(PsnRun { unexplained, ..PsnRun::begin(arrival, pause_ns) });
    }

    /// Packets of a run may be reordered, too; and one that is late for longer than gaps are remembered begins no run.
    fn extend_run_backwards(&mut self, arrival: &Arrival<'_>) {
        if let Some(run) = self.state.run_mut()
            && !run.is_onward(arrival.psn)
        {
            if run.start_id.wrapping_sub(arrival.id) < ID_AHEAD {
                (run.start, run.start_id) = (arrival.psn, arrival.id);
            }
            run.packets += 1;
        }
    }

    /// Adds the packet to the run where it goes on from there; false where it begins another.
    fn continue_run(&mut self, arrival: &Arrival<'_>, pause_ns: u64) -> bool {
        // In a run that may be reordering, packets arrive in any order.
        let retransmitting = self.state.cause().is_some_and(|cause| cause != Cause::Reuse);
        let Some(run) = self.state.run_mut() else { return false };
        let step = psn_distance(run.last, arrival.psn);
        let since = run.start_ns;
        let requested = || arrival.nak(|nak| nak.psn == arrival.psn, since).is_some();
        let onward = step > 0 && run.is_onward(arrival.psn);
        if !onward || step > 1 && pause_ns >= TIMEOUT_PAUSE_NS && requested() {
            return false;
        }
        let (skipped, since) = (run.last.wrapping_add(1) & MASK24, run.start_id);
        run.last = arrival.psn;
        run.packets += 1;
        if step > 1 && retransmitting {
            self.skipped_by_run(arrival, skipped, step - 1, since);
        }
        true
    }

    /// PSNs that a run skips: lost again, or not requested. Later packets decide. Those that arrived out of order since
    /// the run began are not missing. `since`: IPv4 identification of the run's first packet.
    fn skipped_by_run(&mut self, arrival: &Arrival<'_>, start: u32, len: u32, since: u16) {
        // Selective retransmission skips what is not missing.
        let selective = self.selective > self.go_back_n;
        if !self.reliable || selective || self.gaps.any_between(start, start.wrapping_add(len)) {
            return;
        }
        self.open(arrival, start, len, true);
        if !arrival.numbered {
            return;
        }
        for psn in (0..len.min(RECENT)).map(|i| start.wrapping_add(i) & MASK24) {
            let recent = self.recent[(psn % RECENT) as usize];
            let id = (recent & 0xFFFF) as u16;
            if recent == recent_word(psn, id) && id.wrapping_sub(since) < ID_AHEAD {
                self.gaps.fill(psn, Fill::Original);
            }
        }
    }

    /// The run ends: the next packet is at `frontier`, or (`resumed` false) the sender goes back again.
    fn end_run(&mut self, arrival: &Arrival<'_>, frontier: u32, resumed: bool) {
        let state = std::mem::replace(&mut self.state, State::Advancing);
        if let Some(run) = state.run() {
            self.previous = Some((run.last, run.packets));
        }
        let State::GoingBack(run, cause) = state else { return };
        if cause == Cause::Unknown && resumed && run.unexplained && run.is_single_duplicate() {
            self.metrics.retransmitted -= 1;
            self.metrics.mirrored += 1;
            return;
        }
        if !cause.is_retransmission() {
            return;
        }
        if cause == Cause::Downstream {
            let times = (run.start_ns, arrival.last_ns);
            self.downstream.note_after(run.pause_ns, times, run.packets);
        }
        self.classify(&run, frontier, resumed);
        let rest = frontier.wrapping_sub(run.last).wrapping_sub(1) & MASK24;
        if resumed && rest > 0 && !self.leaves_out(&run, arrival.numbered) {
            let start = run.last.wrapping_add(1) & MASK24;
            self.skipped_by_run(arrival, start, rest, run.start_id);
        }
    }
}
