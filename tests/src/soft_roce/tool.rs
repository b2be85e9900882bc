//! Other programs: started, waited for with a timeout, and never left behind.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::killed::Killed;

/// Timeout of a tool in an emulated machine under load.
pub const LIMIT: Duration = Duration::from_secs(90);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `found` returns a value.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let late = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found()? {
            return Ok(found);
        }
        if Instant::now() > late {
            bail!("{what} did not happen within {} s", LIMIT.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}

/// A running program, killed when dropped.
#[derive(Debug)]
pub struct Tool {
    shown: String,
    child: Killed,
    out: File,
    err: File,
}

impl Tool {
    /// Starts a program.
    pub fn start(program: &str, arguments: &[&str]) -> Result<Self> {
        let shown = format!("{program} {}", arguments.join(" "));
        // Files rather than pipes, which would block the program unless they are read.
        let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
        let child = Killed(command.spawn().with_context(|| format!("`{shown}` cannot be started"))?);
        Ok(Self { shown, child, out, err })
    }

    /// Its PID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True if it still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Its standard error so far.
    pub fn standard_error(&self) -> Result<String> {
        text(&self.err)
    }

    /// Waits for its end, and returns its standard output.
    pub fn finish(mut self) -> Result<String> {
        let shown = self.shown.clone();
        let status = wait_for(&format!("the end of `{shown}`"), || Ok(self.child.try_wait()?))
            .with_context(|| text(&self.out).unwrap_or_default())?;
        self.result(status)
    }

    /// Interrupts it as Ctrl-C does, and waits for its end.
    pub fn interrupt(self) -> Result<String> {
        kill_process(Pid::from_child(&self.child), Signal::INT)?;
        self.finish()
    }

    fn result(&self, status: ExitStatus) -> Result<String> {
        if !status.success() {
            bail!("`{}` ended with {status}: {}{}", self.shown, text(&self.out)?, text(&self.err)?);
        }
        text(&self.out)
    }
}

fn text(file: &File) -> Result<String> {
    // Opened again for a separate file position, since the program writes at its own.
    let bytes = std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs a program to its end, and returns its standard output.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    Tool::start(program, arguments)?.finish()
}

/// The same for a program that writes JSON.
///
/// # Errors
/// Also fails if the output is not JSON.
pub fn json(program: &str, arguments: &[&str]) -> Result<Value> {
    let text = run(program, arguments)?;
    let shown = || format!("`{program} {}` wrote no JSON: {text}", arguments.join(" "));
    serde_json::from_str(&text).with_context(shown)
}
