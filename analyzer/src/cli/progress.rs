//! Progress of long work on a terminal: share done, rate and time left.

#[cfg(feature = "live")]
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::source::recording::played::{self, Playback};
use crate::util::layout::plain;
use crate::util::time::seconds;
use crate::util::{notice, units};

/// Shorter work shows no progress line.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between two updates.
const OFTEN: Duration = Duration::from_millis(500);

/// Shows progress until it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Progress of reading these files, on standard error: of a recording its share of the recorded time; the time
    /// alone where a size is unknown, as of a pipe. `None` if that is no terminal.
    pub(super) fn of(files: &[PathBuf]) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let sizes: Option<Vec<u64>> = files
            .iter()
            .map(|file| Some(fs::metadata(file).ok().filter(fs::Metadata::is_file)?.len()))
            .collect();
        let Some(sizes) = sizes else {
            let names = files.iter().map(|file| match file.to_str() {
                Some("-") => "standard input".to_owned(),
                _ => file.display().to_string(),
            });
            let reading = format!("reading {}", plain(&names.collect::<Vec<_>>().join(", ")));
            return Self::showing(move |passed| match played::latest() {
                Some(played @ Playback { share: Some(share), .. }) => {
                    recorded(share, played.length_ns(), played.began.elapsed())
                }
                _ => waited(&reading, None, passed),
            });
        };
        let sizes: u64 = sizes.iter().sum();
        let paths = files.iter().filter_map(|file| file.canonicalize().ok()).collect::<Vec<_>>();
        let mut read = BTreeMap::new();
        Self::showing(move |passed| {
            positions(&paths, &mut read);
            line(read.values().sum(), sizes, passed)
        })
    }

    /// Time of work whose size is not known, and what is left of `most`, on standard error. `None` if that is no
    /// terminal.
    pub(super) fn waiting(what: String, most: Option<Duration>) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        Self::showing(move |passed| waited(&what, most.map(|most| ("at most ", most)), passed))
    }

    /// Time of a run of this length, and what is left of it, on standard error. `None` if that is no terminal.
    #[cfg(feature = "live")]
    pub(super) fn running(what: &'static str, length: Duration) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        Self::showing(move |passed| waited(what, Some(("", length)), passed))
    }

    fn showing(mut text: impl FnMut(Duration) -> String + Send + 'static) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            let start = Instant::now();
            let mut wait = patience();
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = OFTEN;
                notice::progress(&text(start.elapsed()));
            }
        };
        let thread = std::thread::Builder::new().name("progress".into()).spawn(work).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
        notice::clear_progress();
    }
}

/// Progress of work in rounds of the same length, shown until it is dropped.
#[cfg(feature = "live")]
#[derive(Debug)]
pub(super) struct Rounds {
    all: u32,
    start: Instant,
    next: Cell<Duration>,
    /// Rounds that are done, and when the last of them was.
    last: Cell<(u32, Duration)>,
}

#[cfg(feature = "live")]
impl Rounds {
    /// Progress of this number of rounds, on standard error. `None` if that is no terminal.
    pub(super) fn of(all: u32) -> Option<Self> {
        io::stderr().is_terminal().then(|| Self {
            all,
            start: Instant::now(),
            next: Cell::new(patience()),
            last: Cell::default(),
        })
    }

    /// Call it often.
    pub(super) fn show(&self, done: u32) {
        let passed = self.start.elapsed();
        if self.last.get().0 != done {
            self.last.set((done, passed));
        }
        if passed >= self.next.get() {
            self.next.set(passed + OFTEN);
            notice::progress(&rounds(self.last.get(), self.all, passed));
        }
    }
}

#[cfg(feature = "live")]
impl Drop for Rounds {
    fn drop(&mut self) {
        notice::clear_progress();
    }
}

/// `3 of 21 rounds, 0.7 s each, 12 s left`.
#[cfg(feature = "live")]
fn rounds((done, took): (u32, Duration), all: u32, passed: Duration) -> String {
    let left = took.checked_div(done).map_or("measuring the first".to_owned(), |each| {
        let rest = each.saturating_mul(all.saturating_sub(done));
        let left = rest.saturating_sub(passed.saturating_sub(took)).as_secs();
        format!("{:.1} s each, {left} s left", each.as_secs_f64())
    });
    format!("{done} of {all} rounds, {left}")
}

/// [`PATIENCE`]; none in a build for tests that is asked for it, since no test input takes that long on every machine.
fn patience() -> Duration {
    if cfg!(feature = "test-clock") && std::env::var_os("ROCESCOPE_TEST_IMPATIENT").is_some() {
        return Duration::ZERO;
    }
    PATIENCE
}

/// Reads this process's position in each file. A closed file keeps its last position.
fn positions(paths: &[PathBuf], read: &mut BTreeMap<PathBuf, u64>) {
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Some(path) = fs::read_link(entry.path()).ok().filter(|path| paths.contains(path)) else {
            continue;
        };
        let of = format!("/proc/self/fdinfo/{}", entry.file_name().to_string_lossy());
        let text = fs::read_to_string(of).unwrap_or_default();
        let at = text.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse::<u64>().ok());
        if let Some(at) = at {
            let known = read.entry(path).or_default();
            *known = at.max(*known);
        }
    }
}

/// `listening for LLDP, 12 s, at most 23 s left`.
fn waited(what: &str, length: Option<(&str, Duration)>, passed: Duration) -> String {
    let left = length.map(|(most, length)| (most, length.saturating_sub(passed).as_secs()));
    let left = left.map(|(most, left)| format!(", {most}{left} s left"));
    format!("{what}, {} s{}", passed.as_secs(), left.unwrap_or_default())
}

/// `34 % of the recorded time, 120x real time, 10 s left`.
fn recorded(share: f64, length_ns: u64, passed: Duration) -> String {
    let passed = passed.as_secs_f64();
    let (left, rate) = (passed * (1.0 - share) / share, seconds(length_ns) * share / passed);
    let left = if left.is_finite() && rate.is_finite() {
        let digits = usize::from(rate < 10.0);
        format!("{rate:.digits$}x real time, {left:.0} s left")
    } else {
        "waiting".to_owned()
    };
    format!("{:.0} % of the recorded time, {left}", (share * 100.0).floor())
}

/// `34 % of 12.3 GB read, 812 MB/s, 10 s left`, and `100 % of 12.3 GB read, analysing` once all is read: the report of
/// many flows takes time of its own.
fn line(read: u64, size: u64, passed: Duration) -> String {
    if size > 0 && read >= size {
        return format!("100 % of {} read, analysing", units::bytes(size));
    }
    let rate = u128::from(read) * 1000 / passed.as_millis().max(1);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    let share = read.saturating_mul(100).checked_div(size).unwrap_or(100).min(100);
    let left = size
        .saturating_sub(read)
        .checked_div(rate)
        .map_or("waiting".to_owned(), |left| format!("{left} s left"));
    format!("{share} % of {} read, {}/s, {left}", units::bytes(size), units::bytes(rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_line_has_share_rate_and_time_left() {
        let text = line(2_000_000_000, 8_000_000_000, Duration::from_secs(4));
        assert!(text.starts_with("25 % of ") && text.ends_with(", 12 s left"), "{text}");
        assert!(line(0, 0, Duration::ZERO).contains("100 %"));
        let all = line(8_000_000_000, 8_000_000_000, Duration::from_secs(4));
        assert!(all.starts_with("100 % of ") && all.ends_with(" read, analysing"), "{all}");
    }

    #[test]
    fn a_recording_has_its_share_of_the_recorded_time_its_rate_and_the_time_left() {
        let shown = |share| recorded(share, 3_600_000_000_000, Duration::from_secs(3));
        assert_eq!(shown(0.25), "25 % of the recorded time, 300x real time, 9 s left");
        assert_eq!(shown(0.0), "0 % of the recorded time, waiting");
        assert_eq!(shown(1.0), "100 % of the recorded time, 1200x real time, 0 s left");
        assert_eq!(recorded(0.5, 1, Duration::ZERO), "50 % of the recorded time, waiting");
    }

    #[test]
    fn work_of_unknown_size_has_its_time_and_what_is_left_of_its_limit() {
        let seconds = Duration::from_secs;
        let most = Some(("at most ", seconds(35)));
        assert_eq!(waited("listening", most, seconds(12)), "listening, 12 s, at most 23 s left");
        assert_eq!(waited("listening", most, seconds(40)), "listening, 40 s, at most 0 s left");
        assert_eq!(waited("counting", Some(("", seconds(35))), seconds(12)), "counting, 12 s, 23 s left");
        assert_eq!(waited("reading a", None, seconds(3)), "reading a, 3 s");
    }

    #[cfg(feature = "live")]
    #[test]
    fn rounds_have_the_time_left() {
        let seconds = Duration::from_secs;
        assert_eq!(rounds((3, seconds(6)), 21, seconds(6)), "3 of 21 rounds, 2.0 s each, 36 s left");
        assert_eq!(
            rounds((3, seconds(6)), 21, seconds(7)),
            "3 of 21 rounds, 2.0 s each, 35 s left",
            "in the next round"
        );
        assert_eq!(rounds((0, seconds(0)), 21, seconds(6)), "0 of 21 rounds, measuring the first");
        assert_eq!(rounds((21, seconds(6)), 21, seconds(60)), "21 of 21 rounds, 0.3 s each, 0 s left");
    }

    #[test]
    fn the_position_is_that_of_the_open_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0; 4096]).unwrap();
        let paths = [file.path().canonicalize().unwrap()];
        let mut open = fs::File::open(file.path()).unwrap();
        open.read_exact(&mut [0; 1000]).unwrap();
        let mut read = BTreeMap::new();
        positions(&paths, &mut read);
        assert_eq!(read.values().sum::<u64>(), 1000);
        drop(open);
        positions(&paths, &mut read);
        assert_eq!(read.values().sum::<u64>(), 1000, "closed: at least what was read");
    }
}
