//! Plays a recording back: its rows, in order of time, as samples.
//!
//! One row group of each table is read at a time. Rewinding reads from the start again.

mod cursor;
mod limits;
pub mod played;
mod qps;
mod state;
mod steps;

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::feed::{self, Command, Feed, SourceEnd, Update, no_recorder};
use super::replay::Emit;
use super::replay::pace::Pace;
use super::replay::time::{self, TimeSpec};
use crate::sample::EventSample;
use crate::util::time::{DAY_NS, NS_PER_S};
use crate::util::units::{duration, time_utc};
use cursor::Tables;
pub use cursor::is_recording;
use state::State;

/// Clock time between two samples for a view, when data time runs faster.
const REFRESH: Duration = Duration::from_millis(50);
/// Maximum number of times without a recording that are summed.
const MOST_GAPS: usize = 1 << 16;
/// Number of samples of a fast playback: at least the number of columns of trends.
const PARTS: u64 = 240;

/// A recording, and the settings of its playback.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the recording, a folder below it, or one of its files.
    pub path: PathBuf,
    /// Host; required if the folder has several.
    pub host: Option<String>,
    /// Skip rows before this time.
    pub from: Option<TimeSpec>,
    /// Skip rows after this time.
    pub to: Option<TimeSpec>,
    /// Data time per clock time; infinite for as fast as possible.
    pub speed: f64,
    /// Times at which samples are sent.
    pub emit: Emit,
}

/// Opens a recording and plays it in a separate thread.
///
/// # Errors
/// If there is no recording, or one of several hosts.
pub fn start(options: Options) -> Result<Feed> {
    let mut tables = Tables::open(&options.path, options.host.as_deref())?;
    let Some(first_ns) = tables.next_ns() else {
        match tables.notices().first() {
            Some(why) => bail!("{}: no file of the recording can be read: {why}", options.path.display()),
            None => bail!("{}: the recording has no rows", options.path.display()),
        }
    };
    let is_of_day = |time: &TimeSpec| matches!(time, TimeSpec::OfDay(_));
    // On the first of several days is not what is meant.
    if tables.last_part_ns().saturating_sub(first_ns) > DAY_NS
        && options.from.iter().chain(&options.to).any(is_of_day)
    {
        bail!(
            "{} covers more than a day: write date and zone, too (2026-01-01T03:00:00Z); it begins at {}",
            options.path.display(),
            time_utc(first_ns)
        );
    }
    let (from_ns, to_ns) = time::range(options.from, options.to, first_ns);
    if to_ns < first_ns {
        bail!("{}: the recording begins at {}", time::ends_before(to_ns, "row"), time_utc(first_ns));
    }
    played::begin(first_ns.max(from_ns), tables.last_part_ns().min(to_ns));
    let (source, view) = feed::channel();
    let player = Player {
        feed: source,
        inputs: vec![options.path.display().to_string()],
        pace: Pace::new(options.speed),
        range: (from_ns, to_ns),
        // Up to the beginning of the last file, whose length is unknown before it is read.
        interval_ns: (tables.last_part_ns().saturating_sub(first_ns) / PARTS).max(1),
        state: State::default(),
        rewind: None,
        now_ns: None,
        sent_ns: 0,
        unsent: true,
        options,
    };
    std::thread::Builder::new()
        .name("recording".to_owned())
        .spawn(move || player.run(Ok(tables)))
        .context("cannot start a thread")?;
    Ok(view)
}

/// The sentence about the times between the last row of a run and the beginning of the next.
fn not_recorded(gaps: &[(u64, u64)]) -> Option<String> {
    let long = |(from_ns, to_ns): &&(u64, u64)| to_ns.saturating_sub(*from_ns) >= NS_PER_S;
    let all: Vec<_> = gaps.iter().filter(long).collect();
    let sum: u64 = all.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
    let (from_ns, to_ns) = all.iter().max_by_key(|(from_ns, to_ns)| to_ns - from_ns)?;
    let longest = format!("from {} to {}", time_utc(*from_ns), time_utc(*to_ns));
    let longest =
        if all.len() == 1 { longest } else { format!("{} times, the longest {longest}", all.len()) };
    Some(format!("nothing was recorded for {} of this time, which rates include: {longest}", duration(sum)))
}

/// The view has ended, or a rewind begins.
struct Stopped;

struct Player {
    feed: SourceEnd,
    options: Options,
    inputs: Vec<String>,
    pace: Pace,
    range: (u64, u64),
    /// Data time between two samples of a fast playback, in nanoseconds.
    interval_ns: u64,
    state: State,
    rewind: Option<u64>,
    now_ns: Option<u64>,
    sent_ns: u64,
    /// Rows were added after the latest sample.
    unsent: bool,
}

impl Player {
    fn run(mut self, mut tables: Result<Tables>) {
        loop {
            match tables {
                Ok(tables) => {
                    // The end is also sent after a stop request.
                    if let Ok(Some(data)) = self.play(tables) {
                        let outside = anyhow!(time::outside(self.range, data, "row"));
                        // The view may have ended.
                        let _ = self.feed.tell(Update::Ended(Err(outside)));
                        return;
                    }
                    let goes_on = self.rewind.is_some()
                        || self.send(true).is_ok()
                            && self.feed.tell(Update::Ended(Ok(())))
                            && self.await_rewind();
                    if !goes_on {
                        return;
                    }
                }
                Err(error) => {
                    // The view may have ended.
                    let _ = self.feed.tell(Update::Ended(Err(error)));
                    return;
                }
            }
            let Some(to_ns) = self.rewind.take() else { return };
            self.pace = self.pace.anew(to_ns);
            (self.state, self.now_ns, self.sent_ns) = (State::default(), None, 0);
            // If the view has ended, sending the first sample notices.
            let _ = self.feed.tell(Update::Restarted);
            tables = Tables::open(&self.options.path, self.options.host.as_deref());
        }
    }

    /// After the end, waits for a rewind if a view is interactive.
    fn await_rewind(&mut self) -> bool {
        if !matches!(self.options.emit, Emit::Watch(_)) {
            return false;
        }
        while let Ok(command) = self.feed.commands.recv() {
            match command {
                Command::Stop => return false,
                Command::Rewind(to_ns) => {
                    self.rewind = Some(to_ns);
                    self.pace.pause(true, None);
                    return true;
                }
                Command::Dump => {
                    let _ = self.feed.tell(no_recorder());
                }
                Command::Pause(_) | Command::Speed(_) | Command::Seek(_) => {}
            }
        }
        false
    }

    /// Plays to the end, or until the view stops it. The times of the first and the last row, if none is in the range.
    fn play(&mut self, mut tables: Tables) -> Result<Option<(u64, u64)>, Stopped> {
        let (mut last_ns, mut gaps) = (None, Vec::new());
        let first_ns = tables.next_ns();
        // As long as nothing is in the range, on to the last row, for the times that there are.
        while let Some(next_ns) = tables.next_ns().filter(|ns| *ns <= self.range.1 || self.now_ns.is_none()) {
            if self.until(next_ns).is_err() {
                return Err(Stopped);
            }
            let mut events: Vec<EventSample> = Vec::new();
            let is_in_range = (self.range.0..=self.range.1).contains(&next_ns);
            tables.take(next_ns, &mut self.state, is_in_range, &mut events);
            played::reached(next_ns);
            let begun_ns = self.state.take_begun();
            // What was not recorded before the chosen time is not missing from it.
            let before_ns = last_ns.replace(next_ns).map(|ns: u64| ns.max(self.range.0));
            let has_room = gaps.len() < MOST_GAPS;
            gaps.extend(before_ns.zip(begun_ns).filter(|_| is_in_range && has_room));
            if !is_in_range {
                continue;
            }
            self.now_ns = Some(next_ns);
            self.unsent = true;
            let reported = events.is_empty() || self.feed.tell(Update::Events(events));
            if !reported || self.sample_due(next_ns).is_err() {
                return Err(Stopped);
            }
        }
        let left_out = self.state.limits.notice(self.state.left_out());
        for notice in tables.notices().into_iter().chain(not_recorded(&gaps)).chain(left_out) {
            let _ = self.feed.tell(Update::Notice(notice));
        }
        Ok(first_ns.zip(last_ns).filter(|_| self.now_ns.is_none()))
    }

    /// Waits until rows of a time are due.
    fn until(&mut self, next_ns: u64) -> Result<(), Stopped> {
        loop {
            match self.feed.commands.try_recv() {
                Ok(command) => {
                    self.handle(command)?;
                    continue;
                }
                Err(TryRecvError::Disconnected) => return Err(Stopped),
                Err(TryRecvError::Empty) => {}
            }
            if self.pace.seek_ns().is_some_and(|to_ns| next_ns > to_ns) {
                self.pace.end_seek(self.now_ns);
                self.send(true)?;
                continue;
            }
            if self.pace.paused() {
                let command = self.feed.commands.recv().map_err(|_| Stopped)?;
                self.handle(command)?;
                continue;
            }
            let Some(wait) = self.pace.wait(next_ns) else { return Ok(()) };
            match self.feed.commands.recv_timeout(wait) {
                Ok(command) => self.handle(command)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
            }
        }
    }

    fn handle(&mut self, command: Command) -> Result<(), Stopped> {
        match command {
            Command::Pause(paused) => self.pace.choose_pause(paused, self.now_ns),
            Command::Speed(speed) => self.pace.choose_speed(speed, self.now_ns),
            Command::Seek(to_ns) if self.now_ns.is_none_or(|now| now < to_ns) => {
                self.pace.seek(to_ns, self.now_ns);
            }
            Command::Seek(_) => self.send(true)?,
            Command::Rewind(to_ns) => {
                self.rewind = Some(to_ns);
                return Err(Stopped);
            }
            Command::Dump => {
                // If the view has ended, the next update notices.
                let _ = self.feed.tell(no_recorder());
            }
            Command::Stop => return Err(Stopped),
        }
        Ok(())
    }

    fn sample_due(&mut self, now_ns: u64) -> Result<(), Stopped> {
        let due = match self.options.emit {
            Emit::AtEnd => false,
            Emit::Every(interval) => {
                now_ns.saturating_sub(self.sent_ns) >= crate::util::time::nanos(interval)
            }
            Emit::Watch(_) if self.pace.unlimited() => {
                now_ns.saturating_sub(self.sent_ns) >= self.interval_ns
            }
            Emit::Watch(_) => self.pace.refresh(REFRESH),
        };
        if due { self.send(false) } else { Ok(()) }
    }

    /// Sends a sample; with `must` it is not dropped, since a user waits for it.
    fn send(&mut self, must: bool) -> Result<(), Stopped> {
        let now_ns = self.now_ns.unwrap_or(0);
        let sample = self.state.sample(now_ns, &self.inputs);
        self.sent_ns = now_ns;
        self.unsent = false;
        let delivered = match self.options.emit {
            Emit::Watch(_) if !must => self.feed.sample(sample),
            _ => self.feed.tell(Update::Sample(Box::new(sample))),
        };
        if delivered { Ok(()) } else { Err(Stopped) }
    }
}

/// A notice about a file that is left out.
fn left_out(path: &std::path::Path, error: &dyn std::fmt::Display, at_ns: u64) -> String {
    let from = if at_ns == 0 { String::new() } else { format!(" from {}", time_utc(at_ns)) };
    format!("{}: {error}; its rows{from} are left out", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_runs_are_reported() {
        const START: u64 = 1_772_370_000 * NS_PER_S;
        let at = |seconds: u64| START + seconds * NS_PER_S;
        // A recorder that was started again at once, and captures of the same time.
        assert_eq!(not_recorded(&[(at(0), at(0) + 1), (at(9), at(3))]), None);
        assert_eq!(
            not_recorded(&[(at(0), at(5)), (at(9), at(3))]).unwrap(),
            "nothing was recorded for 5.00 s of this time, which rates include: from 2026-03-01 13:00:00.000 UTC to \
             2026-03-01 13:00:05.000 UTC"
        );
        let twice = not_recorded(&[(at(0), at(5)), (at(9), at(20))]).unwrap();
        assert!(
            twice.contains("for 16.0 s of this time")
                && twice.contains(": 2 times, the longest from 2026-03-01 13:00:09"),
            "{twice}"
        );
    }
}
