//! One sequence of packets with something missing or sent again.

use rocescope_common::account::Event;
use rocescope_common::wire::bth::MASK24;

use super::MIRROR_NS;
use super::episode::{Episodes, Tracker};
use super::holes::{Hole, Holes, Turn};
use super::result::{Metrics, Retransmission};
use super::spells::{Recorder, Signal};
use super::seen::{ID_AHEAD, Nak, REUSE_PAUSE_NS, Seen};

/// A sender that waits at least so long before it sends again was woken by its timer: the ACK
/// timeout is 4.096 us * 2^n, and below n = 8 (1 ms) nobody sets it.
pub(super) const TIMEOUT_PAUSE_NS: u64 = 1_000_000;
/// A sender that goes back so far does not send again: no window of unacknowledged packets is that
/// large (4,096-byte packets at 400 Gb/s for 1.3 ms). The queue pair is in use again.
const REUSE_BACK: u32 = 16_384;
/// The same for one that goes back to its very first PSN after a pause of [`REUSE_PAUSE_NS`].
const REUSE_FROM_FIRST: u32 = 256;
/// After so long, no timer of a sender brings it back to where it began: NCCL's is 4.3 s, 17 s where it is set high.
const REUSE_LONG_PAUSE_NS: u64 = 60_000_000_000;
/// PSNs whose last IP identification is remembered, to tell packets that a mirror sent twice.
const RECENT: u32 = 256;

/// How often each signal has shown.
pub(super) type Tally = [(Signal, u64); 7];

/// Why a run of packets was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Something was missing here.
    Before,
    /// Nothing was, and yet the receiver asked for it.
    After,
    /// The receiver was not ready.
    Rnr,
    /// The timer ran out, and nothing was missing here.
    Timeout,
    /// A mirror shows everything twice.
    Mirror,
    /// Another connection with the same number.
    Reuse,
    /// Nothing explains it.
    Unknown,
}

/// Which of the PSNs that were skipped are missing for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// All of them.
    All,
    /// The end of a message.
    First,
    /// The beginning of one.
    Last,
    /// None: they are between two messages.
    None,
}

impl Missing {
    /// As these events tell, of a packet that `starts` a message.
    pub(super) const fn of(events: u16, starts: bool) -> Self {
        match (events & Event::GAP, events & Event::EDGE) {
            (0, _) => Self::None,
            (_, 0) => Self::All,
            _ if starts => Self::First,
            _ => Self::Last,
        }
    }
}

/// Packets behind the expected PSN, one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    /// The latest PSN, and its IPv4 identification.
    last: u32,
    last_id: u16,
    start_ns: u64,
    /// IPv4 identification of the first packet.
    start_id: u16,
    /// Time since the packet before the run.
    pause_ns: u64,
    packets: u64,
    /// Of those, packets that had passed before.
    passed: u64,
    /// Holes that were filled as if out of order; if packets follow that had passed before, it was
    /// no reordering.
    provisional: u64,
    provisional_ns: u64,
    cause: Option<Cause>,
}

/// A sequence in which something was missing or came again.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// Whether lost packets are sent again (RC, XRC) or not (UC).
    reliable: bool,
    metrics: Metrics,
    before: Tracker,
    after: Tracker,
    holes: Holes,
    run: Option<Run>,
    /// Where the run before this one ended, and how many packets it had.
    previous: Option<(u32, u64)>,
    go_back_n: u64,
    selective: u64,
    /// Where the sender began again last, and how often in a row.
    stuck_at: u32,
    stuck: u64,
    /// Another connection uses the number, and has not got beyond where the one before it was.
    reused: bool,
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
            before: Tracker::default(),
            after: Tracker::default(),
            holes: Holes::default(),
            run: None,
            previous: None,
            go_back_n: 0,
            selective: 0,
            stuck_at: 0,
            stuck: 0,
            reused: false,
            recent,
        }
    }

    /// Takes in a packet as expected where there is no more to it, as of nearly all; false where what was sent again
    /// ends with it, for [`in_order`](Self::in_order).
    #[inline]
    pub(super) fn goes_on(&mut self, psn: u32, id: u16) -> bool {
        if self.run.is_some() {
            return false;
        }
        (self.stuck, self.reused) = (0, false);
        self.recent[(psn % RECENT) as usize] = recent_word(psn, id);
        true
    }

    /// A packet as expected.
    pub(super) fn in_order(&mut self, seen: &Seen<'_>) {
        self.resume(seen, seen.psn);
        self.remember(seen);
    }

    /// The sequence goes on behind what was sent again, which ends, unless this packet is only late: then the sender
    /// is still at it.
    fn resume(&mut self, seen: &Seen<'_>, frontier: u32) {
        if self.run.is_some() && seen.is_late() {
            return;
        }
        self.end_run(seen, frontier, true);
        (self.stuck, self.reused) = (0, false);
    }

    /// A packet before which `missing` PSNs were skipped. `which` are a hole, and not what a sequence of responses
    /// jumps over anyway.
    pub(super) fn gap(&mut self, seen: &Seen<'_>, missing: u32, which: Missing) {
        let start = seen.psn.wrapping_sub(missing) & MASK24;
        self.resume(seen, start);
        self.remember(seen);
        // What need not be missing is of interest only if it is sent again.
        let (before, behind) = match which {
            Missing::All => (0, 0),
            Missing::None => (0, missing),
            Missing::First => (0, missing - 1),
            Missing::Last => (missing - 1, 0),
        };
        let certain = missing - before - behind;
        let mut at = start;
        for (len, again) in [(before, true), (certain, false), (behind, true)] {
            if len > 0 {
                self.open(seen, at, len, seen.high_id, again);
            }
            at = at.wrapping_add(len) & MASK24;
        }
        if certain > 0 && !self.reliable {
            self.metrics.lost += u64::from(certain);
            self.before.note(seen.time_ns.saturating_sub(seen.window_ns), seen.time_ns, u64::from(certain));
        }
    }

    /// Another connection uses the number.
    pub(super) fn restart(&mut self, seen: &Seen<'_>) {
        self.run = None;
        self.previous = None;
        (self.stuck, self.reused) = (0, false);
        self.forget_holes();
        self.recent = [0; RECENT as usize];
        self.remember(seen);
    }

    /// What is missing is of a connection that is over.
    fn forget_holes(&mut self) {
        let missing = self.holes.clear();
        if self.reliable {
            self.metrics.unfilled += missing;
        }
    }

    /// A packet behind the expected PSN.
    pub(super) fn repeat(&mut self, seen: &Seen<'_>) {
        if self.is_mirrored(seen) {
            self.metrics.mirrored += 1;
            return;
        }
        self.remember(seen);
        if self.late(seen) {
            return;
        }
        if seen.read {
            self.reread(seen);
            return;
        }
        self.extend_run(seen);
        match self.holes.at(seen.psn) {
            Some(hole) => self.fill(seen, hole),
            None => self.passed_before(seen),
        }
    }

    /// What is known.
    pub(super) fn metrics(&self) -> Metrics {
        let (go, selective) = (self.go_back_n, self.selective);
        let retransmission = match go.cmp(&selective) {
            std::cmp::Ordering::Greater => Some(Retransmission::GoBackN),
            std::cmp::Ordering::Less => Some(Retransmission::SelectiveRepeat),
            std::cmp::Ordering::Equal => None,
        };
        let missing = if self.reliable { self.holes.missing() } else { 0 };
        Metrics {
            unfilled: self.metrics.unfilled + missing,
            // What was taken back may belong to an episode that is over.
            before: if self.metrics.lost == 0 { Episodes::default() } else { self.before.metrics() },
            after: self.after.metrics(),
            retransmission,
            stuck: self.stuck,
            ..self.metrics
        }
    }

    /// How often each signal has shown, for [`tell`](Self::tell).
    pub(super) fn tally(&self) -> Tally {
        let Metrics { lost, recovered, retransmitted, rereads, rnr_resent, timeouts, .. } = self.metrics;
        let episodes = if lost == 0 { 0 } else { self.before.metrics().count };
        [
            (Signal::Lost, lost),
            (Signal::LossUpstream, episodes),
            (Signal::LossDownstream, self.after.metrics().count),
            (Signal::Reordered, recovered),
            (Signal::Retransmitted, retransmitted + rereads),
            (Signal::RetransmittedAfterRnr, rnr_resent),
            (Signal::Timeout, timeouts),
        ]
    }

    /// Records what has changed since a tally, with a packet of this time.
    pub(super) fn tell(&self, spells: &mut Recorder, slot: u32, earlier: &Tally, time_ns: u64) {
        for ((signal, now), (_, then)) in self.tally().into_iter().zip(earlier) {
            if now < *then {
                spells.take_back(slot, signal, then - now);
            } else if now > *then {
                let since = match signal {
                    Signal::Lost | Signal::LossUpstream => self.before.under_way(),
                    Signal::LossDownstream => self.after.under_way(),
                    _ => None,
                };
                spells.note(slot, signal, since.unwrap_or((time_ns, time_ns)), now - then);
            }
        }
    }

    fn remember(&mut self, seen: &Seen<'_>) {
        self.recent[(seen.psn % RECENT) as usize] = recent_word(seen.psn, seen.id);
    }

    fn is_mirrored(&self, seen: &Seen<'_>) -> bool {
        let twice = seen.psn == seen.last_psn && seen.id == seen.last_id;
        if twice && seen.time_ns.abs_diff(seen.last_ns) < MIRROR_NS {
            return true;
        }
        // What is sent again gets a number of its own.
        seen.differs && self.recent[(seen.psn % RECENT) as usize] == recent_word(seen.psn, seen.id)
    }

    /// Whether the packet was sent before those that passed before it, as its number tells.
    fn late(&mut self, seen: &Seen<'_>) -> bool {
        if !seen.numbered {
            return false;
        }
        if let Some(hole) = self.holes.in_turn(seen.psn, seen.id) {
            self.fill_span(seen, |holes, psn| holes.fill_in_turn(psn, seen.id));
            if hole.again {
                // It has passed before and is sent again; only its place among these is odd.
                self.passed_late(seen);
            } else {
                self.recovered(1);
            }
            return true;
        }
        // It had been sent again meanwhile, for nothing.
        let Some(hole) = self.holes.came_after_all(seen.psn, seen.id) else { return false };
        self.metrics.lost = self.metrics.lost.saturating_sub(1);
        self.sent_again(seen);
        self.before.take_back();
        if !hole.again {
            self.metrics.recovered += 1;
        }
        true
    }

    /// A packet that had passed before.
    fn sent_again(&mut self, seen: &Seen<'_>) {
        self.metrics.retransmitted += 1;
        self.metrics.again_ns = self.metrics.again_ns.max(seen.time_ns);
    }

    fn passed_late(&mut self, seen: &Seen<'_>) {
        self.sent_again(seen);
        if let Some(run) = &mut self.run {
            run.packets += 1;
            run.passed += 1;
            if seen.psn.wrapping_sub(run.last) & MASK24 < MASK24 / 2 {
                (run.last, run.last_id) = (seen.psn, seen.id);
            }
        }
    }

    fn recovered(&mut self, psns: u64) {
        self.metrics.recovered += psns;
        if !self.reliable {
            self.metrics.lost = self.metrics.lost.saturating_sub(psns);
            for _ in 0..psns {
                self.before.take_back();
            }
        }
    }

    /// A hole behind a packet with the IPv4 identification `after`, which this one closes.
    fn open(&mut self, seen: &Seen<'_>, start: u32, len: u32, after: u16, again: bool) {
        // Whether the sender numbers its packets may only be known when the late one comes.
        let turn = Turn::between(after, seen.id);
        let hole = Hole { start, len, opened_ns: seen.time_ns, turn, again };
        if let Some(gone) = self.holes.add(hole)
            && !gone.again
            && self.reliable
        {
            self.metrics.unfilled += u64::from(gone.len);
        }
    }

    /// Takes the packet's PSNs out of their hole and says how many these were.
    fn fill_span(&mut self, seen: &Seen<'_>, fill: impl Fn(&mut Holes, u32) -> Option<Hole>) -> u64 {
        /// Those of 64 MB in packets of 1,024 bytes. Larger READs are rare and fill the rest later.
        const MOST: u32 = 65_536;
        (0..seen.span.min(MOST))
            .take_while(|i| fill(&mut self.holes, seen.psn.wrapping_add(*i) & MASK24).is_some())
            .count() as u64
    }

    /// The packet was missing.
    fn fill(&mut self, seen: &Seen<'_>, hole: Hole) {
        let asked = || seen.nak(|psn| hole.contains(psn), hole.opened_ns).is_some();
        let in_time = seen.time_ns.saturating_sub(hole.opened_ns) <= seen.window_ns;
        let repairs = self.run.is_some_and(|run| run.cause.is_some());
        // A number outside its turn was given when it was sent again.
        let renumbered = hole.turn.is_some() && seen.numbered;
        let resent = self.reliable && (renumbered || !in_time || repairs || asked());
        let psns = self.fill_span(seen, |holes, psn| holes.fill(psn, resent));
        if resent {
            self.set_cause(seen);
            if self.reused {
                return;
            }
            self.metrics.lost += psns;
            self.before.note(hole.opened_ns, seen.time_ns, psns);
        } else if hole.again {
            self.passed_late(seen);
        } else {
            self.recovered(psns);
            if let Some(run) = &mut self.run {
                run.provisional += psns;
                run.provisional_ns = hole.opened_ns;
            }
        }
    }

    fn passed_before(&mut self, seen: &Seen<'_>) {
        self.set_cause(seen);
        let Some(run) = &mut self.run else { return self.sent_again(seen) };
        run.passed += 1;
        let (provisional, opened_ns) = (std::mem::take(&mut run.provisional), run.provisional_ns);
        match run.cause {
            Some(Cause::Mirror) => self.metrics.mirrored += 1,
            Some(Cause::Reuse) => {}
            cause => {
                self.metrics.retransmitted += 1;
                self.metrics.again_ns = self.metrics.again_ns.max(seen.time_ns);
                self.metrics.rnr_resent += u64::from(cause == Some(Cause::Rnr));
            }
        }
        if provisional > 0 && self.reliable {
            // No reordering brings what has passed already.
            self.metrics.recovered = self.metrics.recovered.saturating_sub(provisional);
            self.metrics.lost += provisional;
            self.before.note(opened_ns, seen.time_ns, provisional);
        }
    }

    /// A READ request that is sent again may start in the middle of the first: it says what the
    /// requester still wants.
    fn reread(&mut self, seen: &Seen<'_>) {
        self.end_run(seen, seen.expected, false);
        match self.holes.at(seen.psn) {
            Some(hole) if !hole.again => {
                let psns = self.fill_span(seen, |holes, psn| holes.fill(psn, true));
                self.metrics.lost += psns;
                self.before.note(hole.opened_ns, seen.time_ns, psns);
            }
            _ => {
                self.metrics.rereads += 1;
                self.metrics.again_ns = self.metrics.again_ns.max(seen.time_ns);
            }
        }
        self.begin_again(seen.psn);
    }

    fn begin_again(&mut self, psn: u32) {
        if self.stuck > 0 && self.stuck_at == psn {
            self.stuck += 1;
        } else {
            self.stuck_at = psn;
            self.stuck = 1;
        }
    }

    /// The packet continues the run, or begins one.
    fn extend_run(&mut self, seen: &Seen<'_>) {
        let pause_ns = seen.time_ns.saturating_sub(seen.last_ns);
        if seen.is_late() {
            // Sent before others that have passed: what is sent again may come out of order, too, and what is late
            // for longer than is remembered begins nothing.
            if let Some(run) = &mut self.run
                && seen.psn.wrapping_sub(run.last) & MASK24 >= MASK24 / 2
            {
                if run.start_id.wrapping_sub(seen.id) < ID_AHEAD {
                    (run.start, run.start_id) = (seen.psn, seen.id);
                }
                run.packets += 1;
            }
            return;
        }
        if let Some(run) = &mut self.run {
            let step = seen.psn.wrapping_sub(run.last) & MASK24;
            let asked = |psn: u32| psn == seen.psn;
            let on = step > 0 && step < MASK24 / 2;
            if on && (step == 1 || pause_ns < TIMEOUT_PAUSE_NS || seen.nak(asked, run.start_ns).is_none()) {
                let (skipped, sent) = (run.last.wrapping_add(1) & MASK24, (run.last_id, run.start_id));
                (run.last, run.last_id) = (seen.psn, seen.id);
                run.packets += 1;
                // What is only late comes in any order.
                let sent_again = run.cause.is_some_and(|cause| cause != Cause::Reuse);
                if step > 1 && sent_again {
                    self.skipped_again(seen, skipped, step - 1, sent);
                }
                return;
            }
        }
        self.end_run(seen, seen.expected, false);
        self.begin_again(seen.psn);
        self.run = Some(Run {
            start: seen.psn,
            last: seen.psn,
            last_id: seen.id,
            start_ns: seen.time_ns,
            start_id: seen.id,
            pause_ns,
            packets: 1,
            passed: 0,
            provisional: 0,
            provisional_ns: 0,
            cause: None,
        });
    }

    /// PSNs that a run jumps over: lost once more, or not wanted. Only what follows can tell. Those
    /// that came ahead of their turn since the run began are not missing. `sent`: IPv4
    /// identifications of the packet before them and of the run's first.
    fn skipped_again(&mut self, seen: &Seen<'_>, start: u32, len: u32, (after, since): (u16, u16)) {
        // Who repeats only what is missing jumps over what is not.
        let selective = self.selective > self.go_back_n;
        if !self.reliable || selective || self.holes.any_between(start, start.wrapping_add(len)) {
            return;
        }
        self.open(seen, start, len, after, true);
        if !seen.numbered {
            return;
        }
        for psn in (0..len.min(RECENT)).map(|i| start.wrapping_add(i) & MASK24) {
            let recent = self.recent[(psn % RECENT) as usize];
            let id = (recent & 0xFFFF) as u16;
            if recent == recent_word(psn, id) && id.wrapping_sub(since) < ID_AHEAD {
                self.holes.fill(psn, false);
            }
        }
    }

    fn set_cause(&mut self, seen: &Seen<'_>) {
        let Some(run) = self.run else { return };
        if run.cause.is_some() {
            return;
        }
        let cause = self.cause(seen, &run);
        if run.pause_ns >= TIMEOUT_PAUSE_NS
            && seen.answered
            && matches!(cause, Cause::Before | Cause::Timeout)
            && seen.nak(|psn| psn == run.start, 0).is_none()
        {
            self.metrics.timeouts += 1;
        }
        if cause == Cause::Reuse && !self.reused {
            self.reused = true;
            self.forget_holes();
        }
        if let Some(run) = &mut self.run {
            run.cause = Some(cause);
        }
    }

    fn cause(&self, seen: &Seen<'_>, run: &Run) -> Cause {
        if self.reused {
            // What it sends again cannot be told from what it sends.
            return Cause::Reuse;
        }
        let back = seen.expected.wrapping_sub(run.start) & MASK24;
        match seen.nak(|psn| psn == run.start, 0) {
            Some(Nak { rnr: true, .. }) => return Cause::Rnr,
            // A receiver that throws away what comes out of order wants the packet behind a hole as well.
            Some(_)
                if self.holes.knows(run.start) || self.holes.knows(run.start.wrapping_sub(1) & MASK24) =>
            {
                return Cause::Before;
            }
            Some(_) => return Cause::After,
            None => {}
        }
        let from_first = run.start == seen.first && back >= REUSE_FROM_FIRST;
        if back >= REUSE_BACK
            || from_first && run.pause_ns >= REUSE_PAUSE_NS
            || run.start == seen.first && run.pause_ns >= REUSE_LONG_PAUSE_NS
            // Who sends nothing again does not go back.
            || !self.reliable
        {
            return Cause::Reuse;
        }
        if self.holes.any_between(run.start, seen.expected) || self.holes.knows(run.start) {
            return Cause::Before;
        }
        if self.previous.is_some_and(|(last, packets)| packets <= 2 && run.start == (last + 1) & MASK24)
            && run.pause_ns < TIMEOUT_PAUSE_NS
        {
            return Cause::Mirror;
        }
        match (seen.answered, run.pause_ns >= TIMEOUT_PAUSE_NS) {
            // Whether it was asked cannot be seen here.
            (false, _) => Cause::After,
            (true, true) => Cause::Timeout,
            (true, false) => Cause::Unknown,
        }
    }

    /// The packets sent again are through: the next one is `frontier`, or (`resumed` false) the
    /// sender goes back once more.
    fn end_run(&mut self, seen: &Seen<'_>, frontier: u32, resumed: bool) {
        let Some(run) = self.run.take() else { return };
        self.previous = Some((run.last, run.packets));
        let Some(cause) = run.cause else { return };
        if matches!(cause, Cause::Mirror | Cause::Reuse) {
            return;
        }
        if cause == Cause::After {
            self.after.note(run.start_ns, seen.last_ns, run.packets);
        }
        let rest = frontier.wrapping_sub(run.last).wrapping_sub(1) & MASK24;
        let reach = frontier.wrapping_sub(run.start) & MASK24;
        if reach > 1 {
            let whole = if resumed {
                u64::from(reach)
            } else {
                u64::from(run.last.wrapping_sub(run.start) & MASK24) + 1
            };
            // Some of those sent again may be lost again.
            if run.packets >= 2 && run.packets * 4 >= whole * 3 {
                self.go_back_n += 1;
            } else if resumed && run.packets * 2 <= whole {
                self.selective += 1;
            }
        }
        if resumed && rest > 0 {
            let start = run.last.wrapping_add(1) & MASK24;
            self.skipped_again(seen, start, rest, (run.last_id, run.start_id));
        }
    }
}
