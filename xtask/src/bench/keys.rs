//! `cargo xtask bench keys`: response time of the terminal UI to keys during a replay.
//!
//! The program runs in a pseudo-terminal. A key is written, and the time is measured to the end of the picture that
//! follows, and to the end of the last one, as values of many flows are made behind the first. The limits hold for the
//! first by the clock; CPU time and run-queue wait of the screen's thread say what a loaded machine adds.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::setsid;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{machine, replay};
use crate::gen_capture::{Generate, Snap, generate};
use crate::run::{step, target_dir};

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Number of times that each key is pressed
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Connections in the capture; each has a flow in both directions
    #[arg(long, default_value_t = 32_768)]
    flows: u32,
    /// Measure these programs, one after the other, instead of building one
    #[arg(long)]
    bin: Vec<PathBuf>,
}

/// Names of the threads that work for the screen.
const WORKERS: [&str; 4] = ["inbox", "background", "analysis", "files"];
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
/// Long enough for a time range of a minute, with enough of the capture left.
const WARM_UP: Duration = Duration::from_secs(22);
/// At this factor the capture has some 35,000 packets per second; a round of keys takes some 21 seconds.
const SLOWER: u64 = 300;
const PACKETS_PER_ROUND: u64 = 800_000;
const WARM_UP_PACKETS: u64 = 1_000_000;
/// A key without effect has no response.
const PATIENCE: Duration = Duration::from_millis(700);
/// No picture follows that a key asked for after this time without one.
const QUIET: Duration = Duration::from_millis(50);
/// The end of a picture: of a synchronized update.
const PICTURE: &str = "\x1b[?2026l";
/// Limits of the median and the maximum.
const LIMITS_MS: (f64, f64) = (5.0, 40.0);

/// Keys by purpose, as sent by terminals.
const KEYS: &[(&str, &[&str])] = &[
    ("row down, page, end", &["j", "j", "\x1b[6~", "\x1b[5~", "G", "\x1b[1~"]),
    ("sort", &["s", "s", "S", "s", "s"]),
    ("letter of a filter", &["/", "1", "0", ".", "1", "\x7f", "\r", "\x1b"]),
    ("filter by state", &["/", "s", "t", "a", "t", "e", ":", "o", "\r", "\x1b"]),
    ("group", &["o", "o", "o", "o"]),
    ("screen", &["1", "4", "5", "6", "7", "8", "2"]),
    ("details and back", &["j", "\r", "\x1b"]),
    ("span", &["t", "t", "t", "t"]),
    ("pause, back, on", &[" ", ",", ",", ".", "<", " "]),
    ("zoom and cursor", &["1", "+", "+", "\x1b[D", "\x1b[D", "\x1b[C", "\x1b", "-", "-"]),
    ("worst and back", &["1", "\r", "j", "\x1b", "2"]),
];

/// Response to one key.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Keys that were sent.
    key: &'static str,
    /// Time to the end of the first picture, in milliseconds.
    wall: f64,
    /// Time to the end of the last one, in milliseconds.
    settled: f64,
    /// CPU time, in milliseconds.
    cpu: f64,
    /// Time waiting for a CPU, in milliseconds.
    waited: f64,
}

/// Measures and prints.
pub(crate) fn keys(wanted: &Wanted) -> Result<()> {
    let programs = if wanted.bin.is_empty() { vec![replay::build()?] } else { wanted.bin.clone() };
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = folder.join("keys.pcap");
    let out = file.clone();
    let (packets, snap, flows) =
        (PACKETS_PER_ROUND * wanted.rounds as u64 + WARM_UP_PACKETS, Snap(96), wanted.flows);
    let wish = Generate { packets, snap, flows, mtu: 4096, other: 0, slower: SLOWER, seed: 1, out };
    step("writing the capture", || generate(&wish))?;
    machine::print();
    let mut missed = Vec::new();
    for program in programs {
        let name = format!("{} flows, {}", 2 * wanted.flows, program.display());
        let answers = step(&name, || press(&program, &file, wanted.rounds))?;
        print(&answers, wanted.rounds);
        missed.extend(beyond(&answers).map(|figures| format!("{}: {figures}", program.display())));
    }
    ensure!(missed.is_empty(), "beyond the limits: {}", missed.join("; "));
    Ok(())
}

/// Median and worst by the clock, where one is beyond its limit.
fn beyond(answers: &BTreeMap<&str, Vec<Answer>>) -> Option<String> {
    let mut all: Vec<f64> = answers.values().flatten().map(|answer| answer.wall).collect();
    all.sort_by(f64::total_cmp);
    let (median, worst) = (*all.get(all.len() / 2)?, *all.last()?);
    let within = median <= LIMITS_MS.0 && worst <= LIMITS_MS.1;
    (!within).then(|| format!("median {median:.1} ms, worst {worst:.1} ms"))
}

fn print(answers: &BTreeMap<&str, Vec<Answer>>, rounds: usize) {
    println!("milliseconds: median, slowest tenth, worst");
    println!(
        "{:<22} {:>5} {:>20} {:>20} {:>20} {:>8}",
        "key", "keys", "first picture", "last picture", "processor", "waited"
    );
    let all: Vec<Answer> = answers.values().flatten().copied().collect();
    for (name, answers) in answers.iter().map(|(n, a)| (*n, a)).chain([("all", &all)]) {
        let of = |figure: fn(&Answer) -> f64| {
            let mut values: Vec<f64> = answers.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            let at =
                |share: usize| values.get((values.len() * share / 100).min(values.len().saturating_sub(1)));
            let [median, tenth, worst] = [50, 90, 100].map(|share| at(share).copied().unwrap_or(f64::NAN));
            format!("{median:>6.1} {tenth:>6.1} {worst:>6.1}")
        };
        let waited = answers.iter().map(|answer| answer.waited).fold(0.0, f64::max);
        let (wall, settled) = (of(|answer| answer.wall), of(|answer| answer.settled));
        let cpu = of(|answer| answer.cpu);
        println!("{name:<22} {:>5} {wall:>20} {settled:>20} {cpu:>20} {waited:>8.1}", answers.len());
    }
    let (median, worst) = LIMITS_MS;
    let over = |figure: fn(&Answer) -> f64| all.iter().filter(|answer| figure(answer) > worst).count();
    let mut slow: Vec<&Answer> = all.iter().filter(|answer| answer.wall > worst).collect();
    slow.sort_by(|a, b| b.wall.total_cmp(&a.wall));
    for Answer { key, wall, settled, cpu, waited } in slow {
        println!(
            "slow: {key:?} {wall:.1} ms, last picture {settled:.1}, processor {cpu:.1}, waited {waited:.1}"
        );
    }
    println!(
        "limits: median {median} ms, worst {worst} ms; over {worst} ms: {} by the clock, {} in processor time, of {}",
        over(|answer| answer.wall),
        over(|answer| answer.cpu),
        all.len()
    );
    let pressed = rounds * KEYS.iter().map(|(_, keys)| keys.len()).sum::<usize>();
    println!("without a picture: {} of {pressed} keys", pressed - all.len().min(pressed));
}

fn press(program: &Path, file: &Path, rounds: usize) -> Result<BTreeMap<&'static str, Vec<Answer>>> {
    let file = file.as_os_str();
    let arguments = ["replay", "--speed", "1x", "--screen", "qps"].map(OsStr::new);
    let mut session = Session::start(program, &[&arguments[..], &[file]].concat())?;
    session.drain(WARM_UP)?;
    let mut answers: BTreeMap<&'static str, Vec<Answer>> = BTreeMap::new();
    // Keys arrive at varying times between two samples.
    let mut pauses = (0u64..).map(|n| Duration::from_millis(20 + n * 7_919 % 280));
    for _ in 0..rounds {
        for (name, keys) in KEYS {
            for key in *keys {
                session.drain(pauses.next().unwrap_or_default())?;
                answers.entry(name).or_default().extend(session.key(key)?);
            }
        }
    }
    session.press("\x03")?;
    // The program is about to end, and its terminal with it.
    let _ = session.drain(Duration::from_millis(500));
    Ok(answers)
}

/// The program in a pseudo-terminal.
pub(super) struct Session {
    terminal: File,
    child: Child,
    /// End of its latest output.
    latest: Vec<u8>,
}

impl Session {
    pub(super) fn start(program: &Path, arguments: &[&OsStr]) -> Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let (near, far) = openpt(flags)
            .and_then(|near| {
                grantpt(&near)?;
                unlockpt(&near)?;
                let far = ioctl_tiocgptpeer(&near, flags)?;
                tcsetwinsize(&far, SIZE)?;
                ioctl_fionbio(&near, true)?;
                Ok((near, far))
            })
            .context("no pseudo terminal")?;
        let terminal = File::from(near);
        let mut command = Command::new(program);
        command.args(arguments).env("TERM", "xterm-256color").stderr(Stdio::null());
        command.stdin(far.try_clone()?).stdout(far);
        // SAFETY: between fork and exec the closure makes system calls alone; standard input is the terminal by then.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().with_context(|| format!("{} does not start", program.display()))?;
        Ok(Self { terminal, child, latest: Vec::new() })
    }

    /// Number of bytes that the program wrote within `most`, 0 for none; they are discarded.
    fn written(&mut self, most: Duration) -> Result<usize> {
        let mut terminal = [PollFd::new(&self.terminal, PollFlags::IN)];
        if !poll(&mut terminal, Timespec::try_from(most).ok().as_ref()).is_ok_and(|ready| ready > 0) {
            return Ok(0);
        }
        let mut buffer = [0; 1 << 13];
        match self.terminal.read(&mut buffer) {
            Ok(0) => bail!("the program has ended"),
            Ok(bytes) => {
                // A word may be split over two reads.
                let known = self.latest.len().saturating_sub(64);
                self.latest.drain(..known);
                self.latest.extend(buffer.iter().take(bytes));
                Ok(bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            // The system's error for a closed far end.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                bail!("the program has ended")
            }
            Err(error) => Err(error).context("cannot read the pseudo terminal"),
        }
    }

    /// Reads the program's output for some time; returns the number of bytes.
    pub(super) fn drain(&mut self, time: Duration) -> Result<usize> {
        let end = Instant::now() + time;
        let mut bytes = 0;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left < Duration::from_millis(1) {
                return Ok(bytes);
            }
            bytes += self.written(left)?;
        }
    }

    /// Presses these keys.
    pub(super) fn press(&mut self, keys: &str) -> Result<()> {
        self.terminal.write_all(keys.as_bytes()).context("cannot write to the pseudo terminal")
    }

    /// Waits until the program writes a word; false after a timeout of `most`.
    pub(super) fn writes(&mut self, word: &str, most: Duration) -> Result<bool> {
        let end = Instant::now() + most;
        while !self.latest.windows(word.len()).any(|part| part == word.as_bytes()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.written(left)?;
        }
        Ok(true)
    }

    /// `None` if the key has no response.
    fn key(&mut self, key: &'static str) -> Result<Option<Answer>> {
        // The end of a picture of another cause is no answer.
        while self.written(Duration::from_millis(2))? > 0 {}
        self.latest.clear();
        let before = self.spent()?;
        let start = Instant::now();
        let elapsed = || start.elapsed().as_secs_f64() * 1e3;
        self.press(key)?;
        if !self.writes(PICTURE, PATIENCE)? {
            return Ok(None);
        }
        let wall = elapsed();
        let mut settled = wall;
        while self.written(QUIET)? > 0 {
            settled = elapsed();
        }
        let after = self.spent()?;
        Ok(Some(Answer { key, wall, settled, cpu: after.0 - before.0, waited: after.1 - before.1 }))
    }

    /// Milliseconds for which the screen's thread ran, and for which it waited for a CPU.
    pub(super) fn spent(&self) -> Result<(f64, f64)> {
        let pid = self.child.id();
        thread_times(Path::new(&format!("/proc/{pid}/task/{pid}")))
    }

    /// Milliseconds for which all threads of the terminal UI ran: the screen's, and those that work for it.
    pub(super) fn spent_by_all(&self) -> Result<f64> {
        let pid = self.child.id().to_string();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the program has ended")?;
        let mut all = 0.0;
        for task in tasks {
            let task = task?.path();
            // One that has just ended has no name any more.
            let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
            if task.ends_with(&pid) {
                all += thread_times(&task)?.0;
            } else if WORKERS.contains(&name.trim_end()) {
                all += thread_times(&task).map_or(0.0, |(ran, _)| ran);
            }
        }
        Ok(all)
    }
}

/// Milliseconds for which the thread of this folder of /proc ran, and for which it waited for a CPU.
fn thread_times(task: &Path) -> Result<(f64, f64)> {
    let text = fs::read_to_string(task.join("schedstat"))
        .context("the kernel has no statistics of threads: CONFIG_SCHEDSTATS, CONFIG_SCHED_INFO")?;
    let mut numbers = text.split_whitespace().map(|n| n.parse::<f64>().map(|ns| ns / 1e6));
    let both = numbers.next().transpose()?.zip(numbers.next().transpose()?);
    ensure!(both.is_some(), "schedstat has another form: {text}");
    both.context("schedstat is empty")
}

impl Drop for Session {
    fn drop(&mut self) {
        // An error cannot be reported here, and the program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
