//! The replay: merges taps by time, paces data time, and sends samples.
//!
//! Data time is the time of the frames; clock time is that of this host.

mod alternate;
mod rewind;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::count::Counts;
use super::latest::Latest;
use super::pace::Pace;
use super::tap::{HaltReason, Messages, TapReader};
use super::{Emit, Options, time};
use crate::metrics::Metrics;
use crate::sample::{Flows, LinkSample, Sample, SourceKind};
use crate::source::feed::{Command, SourceEnd, Update, no_recorder};
use crate::util::time::nanos;
use crate::util::units;

/// Frames between two checks for commands.
const FRAMES_PER_CHECK: u32 = 4096;
/// Maximum number of events per update.
const MAX_EVENTS: usize = 1024;
/// Clock time between two samples for an interactive view, when data time runs faster.
const REFRESH: Duration = Duration::from_millis(50);

/// Up to this number of flows a sample is so cheap that a fast replay gets as many as a slow one.
const FEW_FLOWS: usize = 1_024;
/// Time between two samples of a fast replay: one part in this number of the data read so far, but at least the
/// following nanoseconds. A capture of one second has some 130 samples, one of three seconds 180; each costs as much
/// as a hundred packets or more.
const PARTS: u64 = 48;
const CLOSEST_NS: u64 = 4_000_000;

/// The replay ends before its data does: the view has ended, or a limit is reached.
struct Stopped;

type Step = Result<(), Stopped>;

/// Point up to which a tap was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// To a frame that must wait for frames of other taps, or for an action that is due before it.
    FrameWaits,
    /// It was replayed to its end.
    Ended,
    /// To the end of a part of its file: the next part has to be supplied.
    PartWanted,
}

/// The order in which taps are read.
#[derive(Debug, Default)]
pub(super) struct MergeOrder {
    /// The time and the tap of each waiting frame.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// A tap interrupted at the end of a part of its file, and the time up to which it may be read.
    current: Option<(usize, u64)>,
}

/// State of a running replay.
pub(super) struct Replay {
    pub(super) feed: SourceEnd,
    pub(super) taps: Vec<TapReader>,
    pub(super) counts: Counts,
    pub(super) inputs: Vec<String>,
    pub(super) options: Options,
    pub(super) idle_ns: Option<u64>,
    pub(super) pace: Pace,
    pub(super) messages: Messages,
    /// Notices that were sent, so that a rewind does not repeat them.
    pub(super) sent_notices: BTreeSet<String>,
    pub(super) clock: Clock,
    pub(super) order: MergeOrder,
}

/// Data time, and the actions due in it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The time of the latest frame in range.
    now_ns: Option<u64>,
    /// Time at which the next sample is due.
    sample_ns: Option<u64>,
    /// Time at which idle flows are retired next.
    retire_ns: Option<u64>,
    /// The replay ends after this time.
    stop_ns: Option<u64>,
    /// An action is due before frames at or after this time.
    gate_ns: u64,
    /// Frames were counted after the last sample.
    unsent: bool,
    /// Target of a pending rewind.
    rewind: Option<u64>,
}

impl Replay {
    /// Sends the last sample and the result of the replay.
    fn finish(&mut self, read: Result<Step>) {
        // A run that was stopped may not have come to its beginning yet.
        let is_whole = matches!(read, Ok(Ok(())));
        let mut result = match read {
            Ok(Ok(()) | Err(Stopped)) => Ok(()),
            Err(error) => Err(error),
        };
        if result.is_ok() {
            for tap in &mut self.taps {
                result = result.and(tap.learn(&mut self.counts.table, &mut self.messages));
            }
        }
        let Counts { from_ns, to_ns, .. } = self.counts;
        let outside = self.counts.out_of_range.filter(|_| self.counts.window.is_none());
        if let Some(data) = outside.filter(|(first, _)| is_whole || to_ns < *first) {
            result = result.and(Err(anyhow!(time::outside((from_ns, to_ns), data, "frame"))));
        }
        self.notice_filter();
        let _ = self.send_notices();
        if result.is_ok() {
            let now_ns = self.clock.now_ns.unwrap_or(0);
            // An interactive view may rewind; a report at the end cannot.
            let sample = if matches!(self.options.emit, Emit::AtEnd) {
                let (flows, metrics) = (self.counts.table.take_flows(), self.counts.metrics.finish());
                self.sample_of(now_ns, flows, metrics)
            } else {
                self.sample(now_ns)
            };
            let _ = self.send_events();
            let _ = self.feed.tell(Update::Sample(Box::new(sample)));
            if let Some(failure) = self.messages.failure.take() {
                result = Err(failure.into());
            }
        }
        let _ = self.feed.tell(Update::Ended(result));
    }

    /// Notices why --filter let through less than its author may have meant.
    fn notice_filter(&mut self) {
        if let Some(filter) = &self.counts.filter {
            let links: Vec<&str> = self.counts.table.links().iter().map(|link| link.name.as_str()).collect();
            for name in filter.unknown_links(&links) {
                self.messages
                    .notices
                    .push(format!("--filter: no link is named {name}; the links are {}", links.join(", ")));
            }
            if filter.tests_roce_port() && self.counts.table.is_empty() {
                self.messages.notices.push(
                    "--filter: `port` is the UDP source port, and 4791 is the destination port of all RoCEv2 packets: leave the condition out".to_owned(),
                );
            }
        }
        let absent =
            self.counts.filter.as_ref().map_or_else(Vec::new, crate::filter::Filter::absent_in_infiniband);
        if self.counts.filtered_infiniband > 0 && !absent.is_empty() {
            self.messages.notices.push(format!(
                "{} did not match --filter: InfiniBand has no {}; test host, qp or opcode",
                units::plural(self.counts.filtered_infiniband, "InfiniBand packet"),
                absent.join(", ")
            ));
        }
    }

    /// Takes frames from all taps in the order of their times.
    fn merge(&mut self) -> Result<Step> {
        self.order = MergeOrder::default();
        for at in 0..self.taps.len() {
            match self.advance(at, None)? {
                Ok(Progress::FrameWaits) => self.order.waiting.push(Reverse((self.pending_ns(at), at))),
                Ok(Progress::Ended | Progress::PartWanted) => {}
                Err(stopped) => return Ok(Err(stopped)),
            }
            // Links are numbered, and thus listed, in the order of the taps given, not of their first frames.
            if let Some(tap) = self.taps.get_mut(at) {
                tap.learn(&mut self.counts.table, &mut self.messages)?;
            }
        }
        if let Some(Reverse((first_ns, _))) = self.order.waiting.peek() {
            self.set_range(*first_ns);
        }
        // With several files, parts of all of them would have to fit into the caches.
        if let [tap] = self.taps.as_mut_slice() {
            tap.allow_parts();
        }
        match self.resume()? {
            Some(step) => Ok(step),
            None => alternate::run(self),
        }
    }

    /// Reads to the end of all taps; `None` if a part of a file is needed first.
    fn resume(&mut self) -> Result<Option<Step>> {
        loop {
            let (at, until, read) = if let Some((at, until)) = self.order.current.take() {
                (at, until, self.advance(at, Some(until))?)
            } else if let Some(Reverse((_, at))) = self.order.waiting.pop() {
                let until = self.order.waiting.peek().map_or(u64::MAX, |Reverse((ns, _))| *ns);
                (at, until, self.count_pending(at, until)?)
            } else {
                return Ok(Some(Ok(())));
            };
            match read {
                Ok(Progress::FrameWaits) => self.order.waiting.push(Reverse((self.pending_ns(at), at))),
                Ok(Progress::Ended) => {}
                Ok(Progress::PartWanted) => {
                    self.order.current = Some((at, until));
                    return Ok(None);
                }
                Err(stopped) => return Ok(Some(Err(stopped))),
            }
        }
    }

    fn pending_ns(&self, at: usize) -> u64 {
        self.taps.get(at).map_or(u64::MAX, |tap| tap.pending.ts_ns)
    }

    fn set_range(&mut self, first_ns: u64) {
        let (from, to) = time::range(self.options.from, self.options.to, first_ns);
        self.counts.from_ns = from;
        self.counts.to_ns = to;
        // A stream may never end by itself.
        if self.options.to.is_some() && self.taps.iter().any(TapReader::is_stream) {
            self.clock.stop_ns = Some(to);
        }
        if let Some(duration) = self.options.duration {
            let end = first_ns.max(from).saturating_add(nanos(duration)).min(to);
            self.counts.to_ns = end;
            self.clock.stop_ns = Some(end);
        }
    }

    /// Counts the waiting frame of a tap, and those after it up to `until`.
    fn count_pending(&mut self, at: usize, until: u64) -> Result<Result<Progress, Stopped>> {
        let ts_ns = self.pending_ns(at);
        if let Err(stopped) = self.advance_time(ts_ns) {
            return Ok(Err(stopped));
        }
        if let Some(tap) = self.taps.get_mut(at) {
            tap.learn(&mut self.counts.table, &mut self.messages)?;
            let frame = &tap.pending;
            let (at, bytes) = ((frame.interface, ts_ns), (frame.wire_len, frame.data.as_slice()));
            self.counts.frame(&mut tap.links, at, bytes, &mut Latest::default());
        }
        self.advance(at, Some(until))
    }

    /// Reads a tap until a frame has to wait: the first one after `until`, or with `None` the first one.
    fn advance(&mut self, at: usize, until: Option<u64>) -> Result<Result<Progress, Stopped>> {
        loop {
            let Some(tap) = self.taps.get_mut(at) else { return Ok(Ok(Progress::Ended)) };
            let limit = until.map_or(0, |until| until.min(self.clock.gate_ns));
            let counts = &mut self.counts;
            let mut left = FRAMES_PER_CHECK;
            let mut latest_ns = 0;
            let mut latest = Latest::default();
            let halt = tap.frames(
                &mut self.messages,
                |ts_ns| {
                    left = left.saturating_sub(1);
                    ts_ns < limit && left > 0
                },
                |links, record| {
                    latest_ns = record.ts_ns.max(latest_ns);
                    let at = (record.interface, record.ts_ns);
                    counts.frame(links, at, (record.wire_len, record.data), &mut latest);
                },
            )?;
            if latest_ns > 0 && self.counts.in_range(latest_ns) {
                self.clock.now_ns = self.clock.now_ns.max(Some(latest_ns));
            }
            self.clock.unsent |= left < FRAMES_PER_CHECK;
            match halt {
                HaltReason::FrameWaits => return Ok(self.poll_commands().map(|()| Progress::FrameWaits)),
                HaltReason::PartWanted => return Ok(Ok(Progress::PartWanted)),
                HaltReason::NoData => {
                    if let Err(stopped) = self.while_idle() {
                        return Ok(Err(stopped));
                    }
                }
                HaltReason::FileEnded => {
                    // Interfaces that the file describes after its last frame.
                    tap.learn(&mut self.counts.table, &mut self.messages)?;
                    let more = tap.finish_file(&mut self.messages);
                    if let Err(stopped) = self.send_notices() {
                        return Ok(Err(stopped));
                    }
                    if !more {
                        return Ok(Ok(Progress::Ended));
                    }
                }
            }
        }
    }

    /// While a stream has no data: handles commands and sends the counts so far.
    fn while_idle(&mut self) -> Step {
        self.poll_commands()?;
        self.send_notices()?;
        if self.options.duration.is_some_and(|duration| self.pace.elapsed() >= duration) {
            return Err(Stopped);
        }
        let interval = match self.options.emit {
            Emit::AtEnd => return Ok(()),
            Emit::Every(interval) => interval,
            Emit::Watch(_) => REFRESH,
        };
        if self.clock.unsent && self.pace.refresh(interval) {
            self.send(self.clock.now_ns.unwrap_or(0))?;
        }
        Ok(())
    }

    /// Advances data time to `ts_ns`, after all actions that are due before.
    fn advance_time(&mut self, ts_ns: u64) -> Step {
        if self.clock.stop_ns.is_some_and(|stop| ts_ns > stop) {
            return Err(Stopped);
        }
        if !self.counts.in_range(ts_ns) {
            return Ok(());
        }
        let interval = self.interval_ns();
        if self.clock.now_ns.is_none() {
            self.clock.sample_ns = interval.map(|interval| ts_ns.saturating_add(interval));
            self.clock.retire_ns = self.idle_ns.map(|idle| ts_ns.saturating_add(idle));
        }
        loop {
            while self.pace.paused() {
                let command = self.feed.commands.recv().map_err(|_| Stopped)?;
                self.handle(command)?;
            }
            if let Some(to_ns) = self.pace.seek_ns().filter(|to_ns| ts_ns >= *to_ns) {
                // The view gets the sample of this time at once.
                self.clock.now_ns = self.clock.now_ns.max(Some(to_ns));
                self.pace.end_seek(Some(to_ns));
                self.send_now(to_ns)?;
                self.clock.sample_ns = interval.map(|interval| to_ns.saturating_add(interval));
                continue;
            }
            let due = self.clock.sample_ns.unwrap_or(u64::MAX).min(ts_ns);
            if let Some(wait) = self.pace.wait(due) {
                match self.feed.commands.recv_timeout(wait) {
                    Ok(command) => self.handle(command)?,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
                }
                continue;
            }
            match (self.clock.sample_ns, interval) {
                (Some(sample_ns), Some(interval)) if sample_ns <= ts_ns => {
                    self.sample_due(sample_ns, ts_ns, interval)?;
                }
                _ => break,
            }
        }
        self.clock.now_ns = self.clock.now_ns.max(Some(ts_ns));
        self.retire(ts_ns);
        let sooner = |due: Option<u64>| due.unwrap_or(u64::MAX);
        self.clock.gate_ns = if self.pace.unlimited() {
            sooner(self.clock.sample_ns)
                .min(sooner(self.clock.retire_ns))
                .min(self.clock.stop_ns.map_or(u64::MAX, |stop| stop.saturating_add(1)))
                .min(sooner(self.pace.seek_ns()))
        } else {
            0
        };
        self.clock.unsent = true;
        Ok(())
    }

    /// Time between two samples. A view gets more samples at first, so that a capture of one second has a trend:
    /// during interactive playback as many as are visible, else as many as trends have columns.
    fn interval_ns(&self) -> Option<u64> {
        /// Number of samples in the first interval.
        const FIRST: u64 = 20;
        match self.options.emit {
            Emit::AtEnd => None,
            Emit::Every(interval) => Some(nanos(interval).max(1)),
            Emit::Watch(interval) => {
                let most = nanos(interval).max(1);
                let length = self.counts.window.map_or(0, |(first, last)| last.saturating_sub(first));
                Some(if self.pace.unlimited() {
                    (length / PARTS).clamp(CLOSEST_NS.min(most), most)
                } else {
                    (length / FIRST).clamp(most.div_ceil(FIRST), most)
                })
            }
        }
    }

    /// Sends the sample that is due at `sample_ns` and sets the time of the next one.
    fn sample_due(&mut self, sample_ns: u64, ts_ns: u64, interval: u64) -> Step {
        let fast = self.pace.unlimited();
        let rationed = match self.options.emit {
            Emit::Watch(most) => interval >= nanos(most) || self.counts.table.len() > FEW_FLOWS,
            _ => false,
        };
        if !rationed {
            self.send(sample_ns)?;
        } else if self.pace.refresh(REFRESH) {
            // For a long capture, samples would take longer than its packets.
            self.send(sample_ns)?;
            self.pace.refreshed();
        }
        let mut next = sample_ns.saturating_add(interval);
        if fast && next <= ts_ns {
            // Samples during a silence would be identical, and a clock jump may span years.
            next += (ts_ns - next) / interval * interval;
            next = next.saturating_add(interval);
        }
        self.clock.sample_ns = (next > sample_ns).then_some(next);
        Ok(())
    }

    fn retire(&mut self, ts_ns: u64) {
        if let (Some(idle), Some(due)) = (self.idle_ns, self.clock.retire_ns)
            && ts_ns >= due
        {
            let gone = self.counts.table.retire_idle(ts_ns, idle);
            if !gone.is_empty() {
                self.counts.metrics.retired(gone);
            }
            // Frequent enough that no flow stays much longer than the idle time.
            self.clock.retire_ns = Some(ts_ns.saturating_add((idle / 8).max(1_000_000)));
        }
    }

    fn poll_commands(&mut self) -> Step {
        loop {
            match self.feed.commands.try_recv() {
                Ok(command) => self.handle(command)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(Stopped),
            }
        }
        if self.counts.events.as_ref().is_some_and(|events| events.len() >= MAX_EVENTS) {
            self.send_events()?;
        }
        Ok(())
    }

    fn handle(&mut self, command: Command) -> Step {
        let now_ns = self.clock.now_ns;
        match command {
            Command::Pause(paused) => self.pace.choose_pause(paused, now_ns),
            Command::Speed(speed) => self.pace.choose_speed(speed, now_ns),
            Command::Seek(to_ns) => {
                if now_ns.is_none_or(|now| now < to_ns) {
                    self.pace.seek(to_ns, now_ns);
                } else if let Some(now) = now_ns {
                    // The target is in the past.
                    self.send_now(now)?;
                }
            }
            Command::Rewind(to_ns) => {
                if self.can_rewind() {
                    self.clock.rewind = Some(to_ns);
                    return Err(Stopped);
                }
                self.send_now(now_ns.unwrap_or(to_ns))?;
            }
            Command::Dump => {
                // If the view has ended, the next update notices.
                let _ = self.feed.tell(no_recorder());
            }
            Command::Stop => return Err(Stopped),
        }
        // The next frame is checked again under the new settings.
        self.clock.gate_ns = 0;
        Ok(())
    }

    /// Sends a sample that must not be dropped, since a user waits for it.
    fn send_now(&mut self, time_ns: u64) -> Step {
        self.send_events()?;
        let sample = self.sample(time_ns);
        self.clock.unsent = false;
        if self.feed.tell(Update::Sample(Box::new(sample))) { Ok(()) } else { Err(Stopped) }
    }

    fn send(&mut self, time_ns: u64) -> Step {
        self.send_events()?;
        let sample = self.sample(time_ns);
        let delivered = match self.options.emit {
            Emit::Watch(_) => self.feed.sample(sample),
            Emit::Every(_) | Emit::AtEnd => self.feed.tell(Update::Sample(Box::new(sample))),
        };
        self.clock.unsent = false;
        if delivered { Ok(()) } else { Err(Stopped) }
    }

    fn send_events(&mut self) -> Step {
        if let Some(events) = &mut self.counts.events {
            let mut rest = std::mem::take(events);
            while !rest.is_empty() {
                let later = rest.split_off(rest.len().min(MAX_EVENTS));
                if !self.feed.tell(Update::Events(rest)) {
                    return Err(Stopped);
                }
                rest = later;
            }
        }
        Ok(())
    }

    fn send_notices(&mut self) -> Step {
        for notice in self.messages.notices.drain(..) {
            if self.sent_notices.insert(notice.clone()) && !self.feed.tell(Update::Notice(notice)) {
                return Err(Stopped);
            }
        }
        Ok(())
    }

    fn sample(&mut self, time_ns: u64) -> Sample {
        let flows = self.counts.table.flows();
        let metrics = self.counts.metrics.metrics();
        self.sample_of(time_ns, flows, metrics)
    }

    fn sample_of(&self, time_ns: u64, flows: Flows, metrics: Metrics) -> Sample {
        let table = &self.counts.table;
        let drops = self.taps.iter().filter_map(TapReader::drops);
        let extra = table.extra();
        let marking = table.marking(&flows, &extra);
        let speed_mbps = self.options.metrics.link_mbps;
        Sample {
            time_ns,
            kind: SourceKind::Replay,
            inputs: self.inputs.clone(),
            window: self.counts.window,
            links: table.links().iter().map(|link| LinkSample { speed_mbps, ..link.clone() }).collect(),
            flows,
            extra,
            retired_tuples: table.retired_tuples().to_vec(),
            retired_unattributed: table.retired_unattributed(),
            peers: self.counts.peers.peers().clone(),
            capture_drops: drops.reduce(|sum, n| sum + n),
            missed: table.missed().clone(),
            metrics: Metrics { marking, ..metrics },
            ..Sample::default()
        }
    }
}
