//! Times of each kind of signal in a flow: intervals with 10 s of silence between two of them, and the packets of the
//! flow until the first and the last signal of each, so that the ratio of an interval is that of its own time.
//!
//! ```text
//! data time   0 s         10 s        20 s        30 s
//!             |-----------|-----------|-----------|    marks: the packets of every flow until then
//!                     x  x   x                          an interval: from its first to its last signal
//!                     ^ at_first
//!                            ^ at_last
//! ```
//!
//! Flows without a signal of their own have the marks: between two of them, packets are taken as evenly spread. Live
//! there is one more at the reading before a kind of signal begins, and at that with the last of them: figures of what
//! has ended do not change with what follows. Only the marks around intervals are kept.

use std::sync::Arc;

use crate::entity::Stats;
use crate::entity::interval;
pub use crate::entity::interval::{EPISODE_GAP_NS, Interval};

use crate::metrics::packet::Packet;
use crate::metrics::timeline::{self, LinkPoints, SignalKind};
use crate::util::map::{Map, Set};
use crate::util::pack::pack;
use crate::util::small_list::SmallList;

/// Silences kept per flow: the latest.
const MOST_SILENCES: usize = 64;
/// Marks kept, each of 16 bytes per flow.
const MOST_MARKS: usize = 16;

/// A kind of signal of loss, retransmission or congestion in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// NAKs for a PSN sequence error, in the flow of answers.
    SequenceNak,
    /// RNR NAKs, in the flow of answers.
    RnrNak,
    /// NAKs of this code (1 to 5: all others), in the flow of answers.
    OtherNak(u8),
    /// Packets (PSNs) lost upstream of the link.
    Lost,
    /// Of these, packets that may have been reordered, from when this showed.
    Doubtful,
    /// PSN gaps that an ECN-capable packet follows.
    GapCapable,
    /// Of these, gaps that a marked packet follows.
    GapMarked,
    /// Episodes of loss upstream of the link.
    LossUpstream,
    /// Episodes of loss, corruption or reordering downstream of the link.
    LossDownstream,
    /// Packets that came out of order.
    Reordered,
    /// Packets retransmitted that had passed before, and READ requests.
    Retransmitted,
    /// Of those, packets retransmitted because of an RNR NAK.
    RetransmittedAfterRnr,
    /// The same because of a transport timeout, READ requests included.
    RetransmittedAfterTimeout,
    /// Packets that passed twice though their sender sent them once.
    Duplicate,
    /// Transport timeouts.
    Timeout,
    /// Silence before transport timeouts, nanoseconds.
    TimeoutWait,
    /// Silences in mid-message that no retransmission ends: each from the packet before to the packet behind it.
    Stall,
    /// Length of these silences, nanoseconds.
    StallWait,
    /// The latest silences of both, each by itself: from the packet before to the packet behind it.
    Silence,
    /// The latest times, each by itself, in which no RoCE packet passed the link of a flow that stands within a message
    /// and whose timer cannot have ended it.
    HeldUp,
    /// Parts of these in which no frame of any kind was captured on the interface: its clock may have been set.
    NoFrame,
    /// From RNR NAKs to the retransmissions they delay, nanoseconds.
    RnrWait,
    /// Length of episodes of loss upstream, nanoseconds.
    RecoveryUpstream,
    /// Length of episodes of loss downstream, nanoseconds.
    RecoveryDownstream,
    /// Data packets marked CE.
    CeMarked,
    /// Congestion notification packets, in the flow that they travel in.
    Cnp,
}

impl Signal {
    /// Its kind on the timeline; `None` for one that has no place there.
    const fn kind(self) -> Option<SignalKind> {
        Some(match self {
            Self::SequenceNak | Self::OtherNak(_) => SignalKind::Nak,
            Self::RnrNak => SignalKind::Rnr,
            Self::Lost => SignalKind::Lost,
            Self::Retransmitted => SignalKind::Retransmitted,
            Self::CeMarked => SignalKind::Ce,
            Self::Cnp => SignalKind::Cnp,
            _ => return None,
        })
    }
}

/// The intervals of one flow by signal, the oldest first. Samples and facts share them with the recorder until they
/// change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSignalIntervals(Option<Arc<BySignal>>);

pack! {
    new FlowSignalIntervals;
}

type BySignal = Vec<(Signal, SmallList<Interval>)>;

// Of a million flows in trouble each has some.
const _: () = assert!(size_of::<SmallList<Interval>>() <= 48);

impl FlowSignalIntervals {
    /// Those of one signal.
    #[must_use]
    pub fn of(&self, signal: Signal) -> &[Interval] {
        let all = self.0.as_deref().map_or(&[][..], Vec::as_slice);
        all.iter().find(|(own, _)| *own == signal).map_or(&[], |(_, intervals)| &**intervals)
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Times at which the packets of the flow are known, or the ECN-capable ones: beginning and end of each interval.
    pub fn known(&self, capable: bool) -> impl Iterator<Item = (u64, u64)> {
        let all = self.0.as_deref().map_or(&[][..], Vec::as_slice).iter();
        // A silence has no count of its own.
        let own = all.filter(move |(signal, _)| {
            !matches!(signal, Signal::Silence | Signal::HeldUp | Signal::NoFrame)
                && (*signal == Signal::CeMarked) == capable
        });
        let ends = |interval: &Interval| {
            [(interval.first_ns, interval.at_first), (interval.last_ns, interval.at_last)]
        };
        own.flat_map(move |(_, intervals)| intervals.iter().flat_map(ends))
    }

    /// Those of one signal, made by hand.
    #[must_use]
    pub fn with(mut self, signal: Signal, intervals: Vec<Interval>) -> Self {
        Arc::make_mut(self.0.get_or_insert_default()).push((signal, intervals.into()));
        self
    }

    /// A silence within a message; `packets` is the count of the flow with the latest one.
    pub(super) fn add_stall(&mut self, (first_ns, last_ns): (u64, u64), packets: u64) {
        let interval =
            Interval { first_ns, last_ns, count: 1, at_first: packets.saturating_sub(1), at_last: packets };
        let all = Arc::make_mut(self.0.get_or_insert_default());
        if all.is_empty() {
            // Most flows have no other signals.
            all.reserve_exact(3);
        }
        for (signal, count) in [(Signal::Stall, 1), (Signal::StallWait, last_ns - first_ns)] {
            interval::add(Interval { count, ..interval }, self.of_mut(signal), first_ns);
        }
        self.add_silence(Signal::Silence, (first_ns, last_ns));
    }

    fn add_silence(&mut self, signal: Signal, (first_ns, last_ns): (u64, u64)) {
        let silences = self.of_mut(signal);
        if silences.len() >= MOST_SILENCES {
            silences.pop_front();
        }
        silences.push(Interval { first_ns, last_ns, count: 1, ..Interval::default() });
    }

    fn of_mut(&mut self, signal: Signal) -> &mut SmallList<Interval> {
        let all = Arc::make_mut(self.0.get_or_insert_default());
        let at = all.iter().position(|(own, _)| *own == signal).unwrap_or_else(|| {
            // Of many flows each has one or two.
            all.reserve_exact(1);
            all.push((signal, SmallList::default()));
            all.len() - 1
        });
        &mut all[at].1
    }
}

/// The packets of every flow until a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its time, Unix nanoseconds.
    pub time_ns: u64,
    /// Packets of the flows, by slot.
    pub packets: Vec<u64>,
    /// ECN-capable data packets by slot.
    pub capable: Vec<u64>,
}

/// Intervals of flows, by slot.
pub type BySlot = Map<u32, FlowSignalIntervals>;

/// SignalIntervals, and the marks that they refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignalIntervals {
    /// Intervals of flows, by slot.
    pub flows: BySlot,
    /// Those that are kept, the oldest first.
    pub marks: Vec<Arc<Mark>>,
}

/// Counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) packets: u64,
    /// Data packets that are ECN-capable, marked ones included.
    capable: u64,
}

impl Counts {
    #[inline]
    pub(super) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.capable += u64::from(packet.data_ecn() != 0);
    }

    /// Those that a ratio of the signal is about.
    const fn of(self, signal: Signal) -> u64 {
        if matches!(signal, Signal::CeMarked) { self.capable } else { self.packets }
    }
}

/// A count between two known ones, taken as evenly spread over the time between them.
#[must_use]
pub fn between((from_ns, from): (u64, u64), (to_ns, to): (u64, u64), at_ns: u64) -> u64 {
    let length = u128::from(to_ns.saturating_sub(from_ns));
    let part = u128::from(at_ns.clamp(from_ns, to_ns.max(from_ns)) - from_ns);
    let grown = u128::from(to.saturating_sub(from));
    from + u64::try_from((grown * part + length / 2).checked_div(length).unwrap_or(grown)).unwrap_or(0)
}

/// Joins the times of signals to intervals.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Time of the next mark.
    next_ns: u64,
    /// Live: counts by slot, at the latest reading.
    counts: Vec<Counts>,
    /// Live: CE marks and CNPs at the latest reading, by slot, and its time.
    read: Vec<[u64; 2]>,
    read_ns: u64,
    /// Live: intervals with signals since the latest reading.
    fresh: Set<(u32, Signal)>,
    /// Live: kinds of signals that the latest reading showed.
    shown: Set<Signal>,
    /// The last mark, and those around intervals; the oldest first.
    marks: Vec<Arc<Mark>>,
    flows: BySlot,
    /// Links of the flows, by slot; live there are none, and no timeline.
    links: Vec<u16>,
    timeline: timeline::Recorder,
}

impl Recorder {
    /// Nothing seen yet; the timeline in bins of this length.
    pub(super) fn new(bin_ns: u64) -> Self {
        Self {
            next_ns: 0,
            counts: Vec::new(),
            read: Vec::new(),
            read_ns: 0,
            fresh: Set::default(),
            shown: Set::default(),
            marks: Vec::new(),
            flows: BySlot::default(),
            links: Vec::new(),
            timeline: timeline::Recorder::new(bin_ns),
        }
    }

    /// True if a mark is due.
    #[inline]
    pub(super) const fn is_due(&self, time_ns: u64) -> bool {
        time_ns >= self.next_ns
    }

    /// A reading of the counters of each flow. Signals that the counters show since the reading before
    /// occurred between the two.
    pub(super) fn reading<'a>(&mut self, flows: impl Iterator<Item = (u32, &'a Stats)>, time_ns: u64) {
        let since_ns = if self.read_ns == 0 { time_ns } else { self.read_ns };
        let mut fresh = std::mem::take(&mut self.fresh);
        let mut shown: Set<Signal> = fresh.iter().map(|(_, signal)| *signal).collect();
        let then = self.counts.clone();
        let troubled: Set<u32> = fresh.iter().map(|(slot, _)| *slot).collect();
        for (slot, stats) in flows {
            let [_, ect1, ect0, ce] = stats.ecn_data;
            let counts = Counts { packets: stats.packets, capable: ect1 + ect0 + ce };
            let before = self.set(slot, counts);
            if troubled.contains(&slot) {
                self.place(&mut fresh, slot, (since_ns, before), (time_ns, counts));
            }
            let now = [ce, stats.cnp_packets];
            let at = slot as usize;
            if self.read.len() <= at {
                self.read.resize(at + 1, [0; 2]);
            }
            let then = std::mem::replace(&mut self.read[at], now);
            for (signal, (now, then)) in
                [Signal::CeMarked, Signal::Cnp].into_iter().zip(now.into_iter().zip(then))
            {
                if now > then {
                    shown.insert(signal);
                    let at = (before.of(signal), counts.of(signal));
                    self.note_at(slot, signal, (since_ns, time_ns), now - then, at);
                }
            }
        }
        let is_first = std::mem::replace(&mut self.read_ns, time_ns) == 0;
        if std::mem::replace(&mut self.shown, shown) != self.shown && !is_first {
            self.keep(since_ns, then.into_iter());
        }
        // Counts are those of the reading, however late it comes.
        if self.is_due(time_ns) && self.was_due(time_ns).is_some() {
            let counts = std::mem::take(&mut self.counts);
            self.keep(time_ns, counts.iter().copied());
            self.counts = counts;
        }
    }

    /// Counts of the intervals of a flow with signals between two readings: taken as evenly spread between the two.
    fn place(
        &mut self,
        fresh: &mut Set<(u32, Signal)>,
        slot: u32,
        (since_ns, before): (u64, Counts),
        (time_ns, counts): (u64, Counts),
    ) {
        let Some(flow) = self.flows.get_mut(&slot).and_then(|flow| flow.0.as_mut()) else { return };
        for (signal, intervals) in Arc::make_mut(flow) {
            let Some(interval) = intervals.last_mut().filter(|_| fresh.remove(&(slot, *signal))) else {
                continue;
            };
            let at = |ns| between((since_ns, before.of(*signal)), (time_ns, counts.of(*signal)), ns);
            if interval.first_ns > since_ns {
                interval.at_first = at(interval.first_ns);
            }
            interval.at_last = at(interval.last_ns);
        }
    }

    #[cold]
    fn set(&mut self, slot: u32, counts: Counts) -> Counts {
        let at = slot as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, Counts::default());
        }
        std::mem::replace(&mut self.counts[at], counts)
    }

    /// Sets a mark with the counts of each slot.
    #[cold]
    pub(super) fn mark(&mut self, time_ns: u64, counts: impl Iterator<Item = Counts>) {
        if let Some(due_ns) = self.was_due(time_ns) {
            self.keep(due_ns, counts);
        }
    }

    /// The time at which a mark was due, until this one; none at the first.
    fn was_due(&mut self, time_ns: u64) -> Option<u64> {
        if self.next_ns == 0 {
            self.next_ns = time_ns.saturating_add(EPISODE_GAP_NS);
            return None;
        }
        let due_ns = self.next_ns;
        let missed = (time_ns - due_ns) / EPISODE_GAP_NS;
        self.next_ns = due_ns.saturating_add(EPISODE_GAP_NS.saturating_mul(missed + 1));
        Some(due_ns)
    }

    /// Keeps a mark, and of those before it the ones around intervals.
    fn keep(&mut self, time_ns: u64, counts: impl Iterator<Item = Counts>) {
        if self.marks.last().is_some_and(|last| last.time_ns >= time_ns) {
            return;
        }
        let (packets, capable) = counts.map(|counts| (counts.packets, counts.capable)).unzip();
        self.marks.push(Arc::new(Mark { time_ns, packets, capable }));
        let last = self.marks.len() - 1;
        let mut used = vec![false; self.marks.len()];
        used[last] = true;
        let all = self.flows.values().filter_map(|flow| flow.0.as_deref());
        for interval in all.flatten().flat_map(|(_, intervals)| intervals.iter()) {
            let before = self.marks.partition_point(|mark| mark.time_ns <= interval.first_ns);
            let after = self.marks.partition_point(|mark| mark.time_ns < interval.last_ns);
            for at in before.checked_sub(1).into_iter().chain([after.min(last)]) {
                used[at] = true;
            }
        }
        let mut used = used.into_iter();
        self.marks.retain(|_| used.next().unwrap_or(true));
        if self.marks.len() > MOST_MARKS {
            self.marks.remove(0);
        }
    }

    /// A signal showed so often in a flow between two times; `counts` are those of the flow with the packet that shows
    /// it. Live they are not known before the next reading.
    pub(super) fn note(
        &mut self,
        slot: u32,
        signal: Signal,
        times: (u64, u64),
        count: u64,
        counts: Option<Counts>,
    ) {
        let at = counts.or_else(|| {
            self.fresh.insert((slot, signal));
            self.counts.get(slot as usize).copied()
        });
        let at = at.unwrap_or_default().of(signal);
        self.note_at(slot, signal, times, count, (at.saturating_sub(counts.map_or(0, |_| 1)), at));
    }

    fn note_at(
        &mut self,
        slot: u32,
        signal: Signal,
        (first_ns, last_ns): (u64, u64),
        count: u64,
        (at_first, at_last): (u64, u64),
    ) {
        if let (Some(kind), Some(link)) = (signal.kind(), self.links.get(slot as usize)) {
            self.timeline.note(*link, kind, last_ns, count);
        }
        let intervals = self.flows.entry(slot).or_default().of_mut(signal);
        interval::add(Interval { first_ns, last_ns, count, at_first, at_last }, intervals, first_ns);
    }

    /// Nothing of a flow passed between two times in the midst of a message; `counts` are those with the packet behind
    /// it.
    pub(super) fn stalled(&mut self, slot: u32, times: (u64, u64), counts: Counts) {
        self.flows.entry(slot).or_default().add_stall(times, counts.packets);
    }

    /// Nothing of a flow passed between two times, which [`Signal::TimeoutWait`] or [`Signal::StallWait`] counts.
    pub(super) fn silence(&mut self, slot: u32, times: (u64, u64)) {
        self.flows.entry(slot).or_default().add_silence(Signal::Silence, times);
    }

    /// No RoCE packet passed the link of a flow between two times, and no frame of any kind between two others; see
    /// [`Signal::HeldUp`] and [`Signal::NoFrame`].
    pub(super) fn held_up(&mut self, slot: u32, roce_ns: (u64, u64), no_frame_ns: Option<(u64, u64)>) {
        let flow = self.flows.entry(slot).or_default();
        flow.add_silence(Signal::HeldUp, roce_ns);
        if let Some(times) = no_frame_ns {
            flow.add_silence(Signal::NoFrame, times);
        }
    }

    /// The link of a flow.
    pub(super) fn link(&self, slot: u32) -> Option<u16> {
        self.links.get(slot as usize).copied()
    }

    /// The number of the latest that turned out to be none.
    pub(super) fn take_back(&mut self, slot: u32, signal: Signal, mut count: u64) {
        if let (Some(kind), Some(link)) = (signal.kind(), self.links.get(slot as usize)) {
            self.timeline.take_back(*link, kind, count);
        }
        let Some(intervals) = self.flows.get_mut(&slot).map(|flow| flow.of_mut(signal)) else { return };
        while let Some(interval) = intervals.last_mut().filter(|_| count > 0) {
            let taken = count.min(interval.count);
            interval.count -= taken;
            count -= taken;
            if interval.count == 0 {
                intervals.pop();
            }
        }
    }

    /// The slot has a new flow.
    pub(super) fn opened(&mut self, slot: u32) {
        self.flows.remove(&slot);
    }

    /// The slot is that of a flow on this link.
    pub(super) fn on_link(&mut self, slot: u32, link: u16) {
        let at = slot as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, link);
        }
        self.links[at] = link;
    }

    /// Traffic, which is given, and signals over the whole run, by link.
    pub(super) fn timeline(&self, traffic: impl Iterator<Item = LinkPoints>) -> Vec<LinkPoints> {
        self.timeline.timeline(traffic)
    }

    /// The slot is another flow's from now on.
    pub(super) fn retired(&mut self, slot: u32) {
        self.flows.remove(&slot);
        if let Some(counts) = self.counts.get_mut(slot as usize) {
            *counts = Counts::default();
        }
        if let Some(read) = self.read.get_mut(slot as usize) {
            *read = [0; 2];
        }
    }

    /// The intervals of all signals, which it has no more.
    pub(super) fn take(&mut self) -> SignalIntervals {
        SignalIntervals { flows: std::mem::take(&mut self.flows), marks: std::mem::take(&mut self.marks) }
    }

    /// The intervals of all signals so far.
    pub(super) fn intervals(&self) -> SignalIntervals {
        SignalIntervals { flows: self.flows.clone(), marks: self.marks.clone() }
    }
}

#[cfg(test)]
#[path = "signal_intervals_tests.rs"]
mod tests;
