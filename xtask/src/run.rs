//! Runs other programs and prints progress.

use crate::ebpf_toolchain::find_on_path;
use anyhow::{Context as _, Result, bail};
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Prints a progress line.
pub(crate) fn say(message: &str) {
    eprintln!("xtask: {message}");
}

/// Runs a named step and prints its duration and result, and first how long it took the last time on this machine.
///
/// # Errors
/// Those of `work`.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let kept = LastDuration::of(&target_dir(), name);
    say(&format!("{name} ...{}", kept.shown()));
    let start = Instant::now();
    let result = {
        let _progress = Progress::of(name, kept.seconds());
        work()
    };
    let end = if result.is_ok() { "ok" } else { "FAILED" };
    let passed = start.elapsed();
    say(&format!("{name}: {end} ({:.1} s)", passed.as_secs_f64()));
    if result.is_ok() {
        kept.keep(passed);
    }
    result
}

/// Interval of the lines about a step that goes on: other programs write to the same terminal, so each is a line of its
/// own.
const OFTEN: Duration = Duration::from_secs(10);

/// Prints the time of a step, and what is left of that of the last run, until it is dropped.
struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// `None` where standard error is no terminal: a log has the lines of beginning and end.
    fn of(name: &str, last: Option<u64>) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (stop, stopped) = mpsc::channel();
        let (name, start) = (name.to_owned(), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut wait = PATIENCE;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = OFTEN;
                say(&format!("{name}: {}", time_left(start.elapsed().as_secs(), last)));
            }
        });
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
    }
}

/// `40 s, some 20 s left`.
fn time_left(passed: u64, last: Option<u64>) -> String {
    match last {
        Some(last) if last >= passed => format!("{passed} s, some {} s left", last - passed),
        Some(last) => format!("{passed} s, longer than the last time ({last} s)"),
        None => format!("{passed} s"),
    }
}

/// Progress of work with a known number of parts, on a terminal: share, rate and time left.
pub(crate) struct Counted {
    what: &'static str,
    all: u64,
    start: Instant,
    /// `None` where standard error is no terminal.
    next: Option<Duration>,
}

impl Counted {
    pub(crate) fn of(what: &'static str, all: u64) -> Self {
        Self { what, all, start: Instant::now(), next: io::stderr().is_terminal().then_some(PATIENCE) }
    }

    /// Call it often.
    pub(crate) fn show(&mut self, done: u64) {
        let passed = self.start.elapsed();
        if self.next.is_some_and(|next| passed >= next) {
            self.next = Some(passed + OFTEN);
            say(&share_done(self.what, done, self.all, passed));
        }
    }
}

/// Shorter work shows no progress, neither that of [`step`] nor that of [`Counted`].
const PATIENCE: Duration = Duration::from_secs(2);

/// `packets: 25 % of 8000000, 500000/s, 12 s left`.
fn share_done(what: &str, done: u64, all: u64, passed: Duration) -> String {
    let rate = u128::from(done) * 1000 / passed.as_millis().max(1);
    let left = u128::from(all.saturating_sub(done)).checked_div(rate);
    let left = left.map_or_else(|| "waiting".to_owned(), |left| format!("{left} s left"));
    let share = done.saturating_mul(100).checked_div(all).unwrap_or(100);
    format!("{what}: {share} % of {all}, {rate}/s, {left}")
}

/// The file with the last duration of a step.
struct LastDuration(PathBuf);

impl LastDuration {
    fn of(target: &Path, name: &str) -> Self {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Self(target.join("steps").join(name))
    }

    /// An addition to the step's line; empty where nothing is known, or it is over before it is read.
    fn shown(&self) -> String {
        let seconds = self.seconds().filter(|seconds| *seconds > 2);
        seconds.map_or_else(String::new, |seconds| format!(" (last time {seconds} s)"))
    }

    fn seconds(&self) -> Option<u64> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }

    fn keep(&self, passed: Duration) {
        // Without it the next run knows no duration.
        let _ = self.0.parent().map(fs::create_dir_all);
        let _ = fs::write(&self.0, passed.as_secs().to_string());
    }
}

/// Runs a command to its end.
///
/// # Errors
/// Names the command if it cannot be started or its exit status is not 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Standard output of a successful command; `None` if it cannot be run or failed.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command without showing its output.
///
/// # Errors
/// Those of [`run`], with the last line of its standard error.
pub(crate) fn captured(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{shown}`"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
    bail!("`{shown}` failed ({}): {last}", output.status)
}

/// Runs a command to its end and ends it after `limit`; what it says is kept in `log` until it succeeds.
///
/// A file, not a pipe: a process that it leaves behind would hold the pipe open, and its end would be waited for too.
///
/// # Errors
/// Names the command and its last line if it cannot be started, fails, or takes longer.
pub(crate) fn limited(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    /// Polling interval.
    const LOOK: Duration = Duration::from_millis(20);
    let shown = show(command);
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let mut child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let end = Instant::now() + limit;
    let why = loop {
        match child.try_wait()? {
            Some(status) if status.success() => {
                return fs::remove_file(log).with_context(|| format!("cannot remove {}", log.display()));
            }
            Some(status) => break format!("failed ({status})"),
            None if Instant::now() > end => {
                child.kill()?;
                child.wait()?;
                break format!("took longer than {} s", limit.as_secs());
            }
            None => std::thread::sleep(LOOK),
        }
    };
    let said = fs::read_to_string(log).unwrap_or_default();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
    bail!("`{shown}` {why}: {last}")
}

/// The command as typed in a shell.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The cargo that runs this task, in the folder and with the input of this program.
pub(crate) fn cargo_here() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The same in the root of the workspace, with empty standard input.
pub(crate) fn cargo() -> Command {
    let mut command = cargo_here();
    command.current_dir(workspace_root()).stdin(Stdio::null());
    command
}

/// Root of the workspace.
pub(crate) fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Target directory of cargo.
pub(crate) fn target_dir() -> PathBuf {
    let root = workspace_root();
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// True if the program is found. System folders are searched as well: on Debian they are missing from a user's
/// `PATH`, but sudo has them.
pub(crate) fn has_program(program: &str) -> bool {
    find_on_path(program).is_some()
        || ["/usr/sbin", "/sbin"].iter().any(|dir| Path::new(dir).join(program).is_file())
}

/// True in continuous integration, where nothing must be skipped.
pub(crate) fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// True if this process is root.
pub(crate) fn is_root() -> bool {
    output_of(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

/// The prefix of a command that needs root: empty for root, otherwise `sudo`; `None` if neither is available.
pub(crate) fn root_prefix() -> Option<&'static [&'static str]> {
    if is_root() {
        Some(&[])
    } else if has_program("sudo") {
        Some(&["sudo"])
    } else {
        None
    }
}

/// A command run as root.
///
/// # Errors
/// `purpose` completes the sentence if this is neither root nor a machine with sudo.
pub(crate) fn root_command(program: impl AsRef<OsStr>, purpose: &str) -> Result<Command> {
    match root_prefix() {
        Some([]) => Ok(Command::new(program)),
        Some([sudo, ..]) => {
            say(&format!("using sudo: {purpose} needs root"));
            let mut command = Command::new(sudo);
            command.arg("--").arg(program);
            Ok(command)
        }
        None => bail!("{purpose} needs root, and sudo is not installed: run this as root"),
    }
}

/// Runs a command to its end and passes each line of its standard output to `watch` as well as to standard output.
///
/// # Errors
/// Those of [`run`], and standard output that cannot be read or written.
pub(crate) fn run_watched(command: &mut Command, mut watch: impl FnMut(&str)) -> Result<()> {
    let shown = show(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{shown}`"))?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).context("cannot read a command's output")? > 0 {
            io::stdout().write_all(&line).context("cannot write standard output")?;
            watch(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs a command to its end with standard output and standard error in one file.
///
/// # Errors
/// Those of [`run`], and a file that cannot be created.
pub(crate) fn into_file(command: &mut Command, path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let shown = show(command);
    let errors = file.try_clone().context("cannot share the file with standard error")?;
    let status =
        command.stdout(file).stderr(errors).status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}; its output is in {}", path.display());
    }
    Ok(())
}

/// Prints a file, and returns its content.
pub(crate) fn print(path: &Path) -> String {
    let output = fs::read(path).unwrap_or_default();
    // A closed standard output is no reason to stop testing.
    let _ = io::stdout().write_all(&output).and_then(|()| io::stdout().flush());
    String::from_utf8_lossy(&output).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_goes_on_has_its_time_and_what_is_left() {
        assert_eq!(time_left(40, Some(60)), "40 s, some 20 s left");
        assert_eq!(time_left(70, Some(60)), "70 s, longer than the last time (60 s)");
        assert_eq!(time_left(40, None), "40 s");
    }

    #[test]
    fn work_of_known_size_has_its_share_rate_and_time_left() {
        let seconds = Duration::from_secs;
        assert_eq!(
            share_done("packets", 2_000_000, 8_000_000, seconds(4)),
            "packets: 25 % of 8000000, 500000/s, 12 s left"
        );
        assert_eq!(share_done("packets", 0, 10, seconds(4)), "packets: 0 % of 10, 0/s, waiting");
        assert_eq!(share_done("packets", 0, 0, seconds(4)), "packets: 100 % of 0, 0/s, waiting");
    }

    #[test]
    fn a_step_knows_how_long_it_took() {
        let folder = env::temp_dir().join(format!("rocescope-steps-{}", std::process::id()));
        let kept = LastDuration::of(&folder, "building: a/b");
        assert_eq!(kept.shown(), "");
        kept.keep(Duration::from_millis(241_900));
        assert_eq!(LastDuration::of(&folder, "building: a/b").shown(), " (last time 241 s)");
        kept.keep(Duration::from_secs(1));
        assert_eq!(kept.shown(), "", "too short to wait for");
        assert_eq!(LastDuration::of(&folder, "another").shown(), "");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_captured_failure_has_its_last_line() {
        let mut command = Command::new("sh");
        let error =
            captured(command.args(["-c", "echo first >&2; echo the reason >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with(": the reason") && text.contains("status: 3"), "{text}");
        assert!(captured(&mut Command::new("true")).is_ok());
    }
}
