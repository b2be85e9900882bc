//! The replay itself: taps merged by time, the data's time kept, samples sent.

mod again;
mod turns;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use anyhow::Result;

use super::count::Counts;
use super::pace::Pace;
use super::tap::{Said, TapReader, Turn};
use super::{Emit, Options};
use crate::metrics::Metrics;
use crate::sample::{Sample, SourceKind};
use crate::source::feed::{Command, Tap, Update};
use crate::util::time::nanos;
use crate::util::units;

/// Frames between two looks at the commands.
const TURN: u32 = 4096;
/// Events that are told at once, at most.
const EVENTS: usize = 1024;
/// Clock time between two samples for a view that is watched, when the data's time runs faster.
const REFRESH: Duration = Duration::from_millis(50);

/// Why a replay ends before its data.
struct Stopped;

type Step = Result<(), Stopped>;

/// How far a tap was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// To a frame that waits.
    Frame,
    /// To its end.
    Ended,
    /// To the end of a part: the next one has to be given.
    Elsewhere,
}

/// Which tap is next.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The frames that wait: their times, and their taps.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// A tap in the middle of its turn, and how long that lasts.
    going: Option<(usize, u64)>,
}

/// A replay under way.
pub(super) struct Run {
    pub(super) tap: Tap,
    pub(super) taps: Vec<TapReader>,
    pub(super) counts: Counts,
    pub(super) inputs: Vec<String>,
    pub(super) options: Options,
    pub(super) idle_ns: Option<u64>,
    pub(super) pace: Pace,
    pub(super) said: Said,
    /// Notices that were told, so that reading again does not repeat them.
    pub(super) told: BTreeSet<String>,
    pub(super) clock: Clock,
    pub(super) order: Order,
}

/// The data's time and what is due in it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The latest frame in range.
    now_ns: Option<u64>,
    /// When the next sample is due.
    sample_ns: Option<u64>,
    /// When idle flows are looked for.
    retire_ns: Option<u64>,
    /// Behind this, the replay ends.
    stop_ns: Option<u64>,
    /// Frames at or after this have to wait for something that is due first.
    gate_ns: u64,
    /// Frames were counted since the last sample.
    news: bool,
    /// Where the user wants to be.
    seek: Option<Seek>,
    /// Everything has to be read again up to this time.
    rewind: Option<u64>,
}

/// A time that the replay hurries to.
#[derive(Clone, Copy, Debug)]
struct Seek {
    /// The time.
    to_ns: u64,
    /// The speed from there on.
    speed: f64,
    /// Whether to stand still there.
    paused: bool,
}

impl Run {
    /// Sends the last sample and how it ended.
    fn finish(&mut self, read: Result<Step>) {
        let mut result = match read {
            Ok(Ok(()) | Err(Stopped)) => Ok(()),
            Err(error) => Err(error),
        };
        if result.is_ok() {
            for tap in &mut self.taps {
                result = result.and(tap.learn(&mut self.counts.table, &mut self.said));
            }
        }
        if self.counts.window.is_none()
            && let Some((first, last)) = self.counts.out_of_range
        {
            self.said.notices.push(format!(
                "no frame is within --from and --to: this capture has frames from {} to {}, {} later",
                units::time_utc(first),
                units::time_utc(last),
                units::duration(last - first),
            ));
        }
        let _ = self.tell_notices();
        if result.is_ok() {
            let sample = self.sample(self.clock.now_ns.unwrap_or(0));
            let _ = self.tell_events();
            let _ = self.tap.tell(Update::Sample(Box::new(sample)));
            if let Some(failure) = self.said.failure.take() {
                result = Err(failure.into());
            }
        }
        let _ = self.tap.tell(Update::Ended(result));
    }

    /// Takes frames from all taps in the order of their times.
    fn merge(&mut self) -> Result<Step> {
        self.order = Order::default();
        for at in 0..self.taps.len() {
            match self.advance(at, None)? {
                Ok(Read::Frame) => self.order.waiting.push(Reverse((self.pending_ns(at), at))),
                Ok(Read::Ended | Read::Elsewhere) => {}
                Err(stopped) => return Ok(Err(stopped)),
            }
        }
        if let Some(Reverse((first_ns, _))) = self.order.waiting.peek() {
            self.set_range(*first_ns);
        }
        // Of several files, parts of all would have to be near at once.
        if let [tap] = self.taps.as_mut_slice() {
            tap.allow_parts();
        }
        match self.go_on()? {
            Some(step) => Ok(step),
            None => turns::take(self),
        }
    }

    /// Takes frames until all is over. `None`: until a part of a file is wanted.
    fn go_on(&mut self) -> Result<Option<Step>> {
        loop {
            let (at, until, read) = if let Some((at, until)) = self.order.going.take() {
                (at, until, self.advance(at, Some(until))?)
            } else if let Some(Reverse((_, at))) = self.order.waiting.pop() {
                let until = self.order.waiting.peek().map_or(u64::MAX, |Reverse((ns, _))| *ns);
                (at, until, self.turn(at, until)?)
            } else {
                return Ok(Some(Ok(())));
            };
            match read {
                Ok(Read::Frame) => self.order.waiting.push(Reverse((self.pending_ns(at), at))),
                Ok(Read::Ended) => {}
                Ok(Read::Elsewhere) => {
                    self.order.going = Some((at, until));
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
        let from = self.options.from.map_or(0, |from| from.resolve(first_ns));
        let to = self.options.to.map_or(u64::MAX, |to| to.resolve(first_ns));
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

    /// Counts the frame that waits in a tap, and those after it up to `until`.
    fn turn(&mut self, at: usize, until: u64) -> Result<Result<Read, Stopped>> {
        let ts_ns = self.pending_ns(at);
        if let Err(stopped) = self.reach(ts_ns) {
            return Ok(Err(stopped));
        }
        if let Some(tap) = self.taps.get_mut(at) {
            tap.learn(&mut self.counts.table, &mut self.said)?;
            let frame = &tap.pending;
            self.counts.frame(&mut tap.links, frame.interface, ts_ns, frame.wire_len, &frame.data);
        }
        self.advance(at, Some(until))
    }

    /// Reads a tap until a frame has to wait: after `until` (`None`: the first one).
    fn advance(&mut self, at: usize, until: Option<u64>) -> Result<Result<Read, Stopped>> {
        loop {
            let Some(tap) = self.taps.get_mut(at) else { return Ok(Ok(Read::Ended)) };
            let limit = until.map_or(0, |until| until.min(self.clock.gate_ns));
            let counts = &mut self.counts;
            let mut left = TURN;
            let mut latest = 0;
            let turn = tap.frames(
                &mut self.said,
                |ts_ns| {
                    left = left.saturating_sub(1);
                    ts_ns < limit && left > 0
                },
                |links, record| {
                    latest = record.ts_ns.max(latest);
                    counts.frame(links, record.interface, record.ts_ns, record.wire_len, record.data);
                },
            )?;
            if latest > 0 && self.counts.in_range(latest) {
                self.clock.now_ns = self.clock.now_ns.max(Some(latest));
            }
            self.clock.news |= left < TURN;
            match turn {
                Turn::Later => return Ok(self.commands().map(|()| Read::Frame)),
                Turn::Elsewhere => return Ok(Ok(Read::Elsewhere)),
                Turn::Wait => {
                    if let Err(stopped) = self.meanwhile() {
                        return Ok(Err(stopped));
                    }
                }
                Turn::Ended => {
                    tap_ended(tap, &mut self.counts, &mut self.said)?;
                    let more = tap.finish_file(&mut self.said);
                    if let Err(stopped) = self.tell_notices() {
                        return Ok(Err(stopped));
                    }
                    if !more {
                        return Ok(Ok(Read::Ended));
                    }
                }
            }
        }
    }

    /// A stream has nothing to give: shows what there is.
    fn meanwhile(&mut self) -> Step {
        self.commands()?;
        self.tell_notices()?;
        if self.options.duration.is_some_and(|duration| self.pace.elapsed() >= duration) {
            return Err(Stopped);
        }
        let interval = match self.options.emit {
            Emit::AtEnd => return Ok(()),
            Emit::Every(interval) => interval,
            Emit::Watch(_) => REFRESH,
        };
        if self.clock.news && self.pace.refresh(interval) {
            self.send(self.clock.now_ns.unwrap_or(0))?;
        }
        Ok(())
    }

    /// Lets the data's time come to `ts_ns`, with all that is due before.
    fn reach(&mut self, ts_ns: u64) -> Step {
        if self.clock.stop_ns.is_some_and(|stop| ts_ns > stop) {
            return Err(Stopped);
        }
        if !self.counts.in_range(ts_ns) {
            return Ok(());
        }
        let interval = match self.options.emit {
            Emit::AtEnd => None,
            Emit::Every(interval) | Emit::Watch(interval) => Some(nanos(interval).max(1)),
        };
        if self.clock.now_ns.is_none() {
            self.clock.sample_ns = interval.map(|interval| ts_ns.saturating_add(interval));
            self.clock.retire_ns = self.idle_ns.map(|idle| ts_ns.saturating_add(idle));
        }
        loop {
            while self.pace.paused() {
                let command = self.tap.commands.recv().map_err(|_| Stopped)?;
                self.command(command)?;
            }
            if let Some(Seek { to_ns, speed, paused }) = self.clock.seek.take_if(|seek| ts_ns >= seek.to_ns) {
                // The view sees at once what there is at this time.
                self.clock.now_ns = self.clock.now_ns.max(Some(to_ns));
                self.pace.set_speed(speed, Some(to_ns));
                self.pace.pause(paused, Some(to_ns));
                self.arrived(to_ns)?;
                self.clock.sample_ns = interval.map(|interval| to_ns.saturating_add(interval));
                continue;
            }
            let due = self.clock.sample_ns.unwrap_or(u64::MAX).min(ts_ns);
            if let Some(wait) = self.pace.wait(due) {
                match self.tap.commands.recv_timeout(wait) {
                    Ok(command) => self.command(command)?,
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
                .min(self.clock.seek.map_or(u64::MAX, |seek| seek.to_ns))
        } else {
            0
        };
        self.clock.news = true;
        Ok(())
    }

    /// Sends the sample that is due at `sample_ns`, and finds when the next one is.
    fn sample_due(&mut self, sample_ns: u64, ts_ns: u64, interval: u64) -> Step {
        let fast = self.pace.unlimited();
        let wanted = match self.options.emit {
            Emit::Watch(_) => self.pace.refresh(REFRESH),
            _ => true,
        };
        if wanted {
            self.send(sample_ns)?;
        }
        let mut next = sample_ns.saturating_add(interval);
        if fast && next <= ts_ns {
            // A silence has nothing to show, and a jump of the clock could be years long.
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
            // Often enough that no flow stays for much longer than it may.
            self.clock.retire_ns = Some(ts_ns.saturating_add((idle / 8).max(1_000_000)));
        }
    }

    fn commands(&mut self) -> Step {
        loop {
            match self.tap.commands.try_recv() {
                Ok(command) => self.command(command)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(Stopped),
            }
        }
        if self.counts.events.as_ref().is_some_and(|events| events.len() >= EVENTS) {
            self.tell_events()?;
        }
        Ok(())
    }

    fn command(&mut self, command: Command) -> Step {
        let now_ns = self.clock.now_ns;
        match command {
            Command::Pause(paused) => match &mut self.clock.seek {
                Some(seek) => seek.paused = paused,
                None => self.pace.pause(paused, now_ns),
            },
            Command::Speed(speed) => match &mut self.clock.seek {
                Some(seek) => seek.speed = speed,
                None => self.pace.set_speed(speed, now_ns),
            },
            Command::Seek(to_ns) => {
                if now_ns.is_none_or(|now| now < to_ns) {
                    let (speed, paused) = match self.clock.seek {
                        Some(seek) => (seek.speed, seek.paused),
                        None => (self.pace.speed(), self.pace.paused()),
                    };
                    self.clock.seek = Some(Seek { to_ns, speed, paused });
                    self.pace.pause(false, now_ns);
                    self.pace.set_speed(f64::INFINITY, now_ns);
                } else if let Some(now) = now_ns {
                    // It is there already.
                    self.arrived(now)?;
                }
            }
            Command::Rewind(to_ns) => {
                if self.can_rewind() {
                    self.clock.rewind = Some(to_ns);
                    return Err(Stopped);
                }
                self.arrived(now_ns.unwrap_or(to_ns))?;
            }
            Command::Stop => return Err(Stopped),
        }
        // Everything passes the gate again, under what holds now.
        self.clock.gate_ns = 0;
        Ok(())
    }

    /// Sends the sample that the user waits for: it must not be left out.
    fn arrived(&mut self, time_ns: u64) -> Step {
        self.tell_events()?;
        let sample = self.sample(time_ns);
        self.clock.news = false;
        if self.tap.tell(Update::Sample(Box::new(sample))) { Ok(()) } else { Err(Stopped) }
    }

    fn send(&mut self, time_ns: u64) -> Step {
        self.tell_events()?;
        let sample = self.sample(time_ns);
        let heard = match self.options.emit {
            Emit::Watch(_) => self.tap.sample(sample),
            Emit::Every(_) | Emit::AtEnd => self.tap.tell(Update::Sample(Box::new(sample))),
        };
        self.clock.news = false;
        if heard { Ok(()) } else { Err(Stopped) }
    }

    fn tell_events(&mut self) -> Step {
        if let Some(events) = &mut self.counts.events {
            let mut rest = std::mem::take(events);
            while !rest.is_empty() {
                let later = rest.split_off(rest.len().min(EVENTS));
                if !self.tap.tell(Update::Events(rest)) {
                    return Err(Stopped);
                }
                rest = later;
            }
        }
        Ok(())
    }

    fn tell_notices(&mut self) -> Step {
        for notice in self.said.notices.drain(..) {
            if self.told.insert(notice.clone()) && !self.tap.tell(Update::Notice(notice)) {
                return Err(Stopped);
            }
        }
        Ok(())
    }

    fn sample(&mut self, time_ns: u64) -> Sample {
        let metrics = self.counts.metrics.metrics();
        let table = &self.counts.table;
        let drops = self.taps.iter().filter_map(TapReader::drops);
        let (flows, extra) = (table.flows(), table.extra());
        let marking = table.marking(&flows, &extra);
        Sample {
            time_ns,
            kind: SourceKind::Replay,
            inputs: self.inputs.clone(),
            window: self.counts.window,
            links: table.links().to_vec(),
            flows,
            extra,
            retired_tuples: table.retired_tuples().to_vec(),
            retired_unattributed: table.retired_unattributed(),
            peers: self.counts.peers.peers().clone(),
            events_dropped: None,
            capture_drops: drops.reduce(|sum, n| sum + n),
            interface_drops: None,
            owners: std::sync::Arc::default(),
            devices: std::sync::Arc::default(),
            metrics: Metrics { marking, ..metrics },
        }
    }
}

/// Interfaces that were described behind the last frame belong to the tap as well.
fn tap_ended(tap: &mut TapReader, counts: &mut Counts, said: &mut Said) -> Result<()> {
    tap.learn(&mut counts.table, said)
}
