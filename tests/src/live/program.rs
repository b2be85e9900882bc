//! The program under test, running beside the test.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rocescope::host::net::netns::NetNs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::killed::Killed;
use crate::oracle::binary;
use crate::schema;

/// General timeout, for a slow machine under load.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The user and group without privileges.
const NOBODY: u32 = 65534;

/// Output of a program so far, and a flag for its end.
#[derive(Clone, Debug, Default)]
struct Written(Arc<(Mutex<Bytes>, Condvar)>);

type Bytes = (Vec<u8>, bool);

impl Written {
    fn state(&self) -> MutexGuard<'_, Bytes> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a pipe to its end.
    fn follow(&self, mut pipe: impl Read + Send + 'static) -> JoinHandle<()> {
        let written = self.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let read = pipe.read(&mut buffer).unwrap_or(0);
                let mut state = written.state();
                match buffer.get(..read) {
                    Some(bytes) if read > 0 => state.0.extend(bytes),
                    _ => state.1 = true,
                }
                written.0.1.notify_all();
                if state.1 {
                    return;
                }
            }
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.state().0).into_owned()
    }

    /// Waits until `found` matches the output.
    fn wait<T>(&self, found: impl Fn(&str) -> Option<T>) -> Option<T> {
        let late = Instant::now() + PATIENCE;
        let mut state = self.state();
        loop {
            if let Some(found) = found(&String::from_utf8_lossy(&state.0)) {
                return Some(found);
            }
            let left = late.saturating_duration_since(Instant::now());
            if state.1 || left.is_zero() {
                return None;
            }
            state = self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Options of a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start<'a> {
    /// Network namespace; `None` for that of the test.
    pub netns: Option<&'a NetNs>,
    /// Run as the user nobody, without capabilities.
    pub nobody: bool,
    /// Run as the user nobody with only these capabilities, by their numbers in linux/capability.h.
    pub capabilities: &'a [u8],
    /// Run in a user namespace, as its root.
    pub user_namespace: bool,
    /// Mount a memory file system of this many KiB at this folder, visible only to the program; other processes reach
    /// it through `/proc/PID/root`.
    pub disk: Option<(&'a Path, u32)>,
    /// Close its standard output at once.
    pub closed_output: bool,
    /// Environment variables.
    pub variables: &'a [(&'a str, &'a str)],
}

/// A running program, killed when dropped.
#[derive(Debug)]
pub struct Program {
    child: Killed,
    out: Written,
    err: Written,
    readers: Vec<JoinHandle<()>>,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    /// The one JSON report on standard output.
    pub fn report(&self) -> Result<Value> {
        schema::read(&self.out).with_context(|| format!("no report; standard error: {}", self.err))
    }

    /// The reports of `--output jsonl`, one per line.
    pub fn lines(&self) -> Result<Vec<Value>> {
        self.out.lines().map(schema::read).collect()
    }
}

/// Runs rocescope in a separate mount namespace, with the PID of the child.
fn on_disk(folder: &Path, kib: u32) -> Result<Command> {
    const SCRIPT: &str = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\" && shift 2 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", &format!("{kib}k")]).arg(folder).arg(binary::path()?);
    Ok(command)
}

/// Runs rocescope as nobody, with capabilities that survive the change of user.
fn with_capabilities(numbers: &[u8]) -> Result<Command> {
    let list: Vec<String> = numbers.iter().map(|number| format!("+cap_{number}")).collect();
    let (user, list) = (NOBODY.to_string(), list.join(","));
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["--bounding-set", &format!("-all,{list}")]);
    command.args(["--inh-caps", &format!("-all,{list}"), "--ambient-caps", &list, "--"]);
    command.arg(binary::path()?);
    Ok(command)
}

impl Program {
    /// Starts rocescope with these arguments.
    pub fn start(how: Start<'_>, arguments: &[&str]) -> Result<Self> {
        let mut command = if let Some((folder, kib)) = how.disk {
            on_disk(folder, kib)?
        } else if how.user_namespace {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user"]).arg(binary::path()?);
            command
        } else if how.capabilities.is_empty() {
            Command::new(binary::path()?)
        } else {
            with_capabilities(how.capabilities)?
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(how.variables.iter().copied());
        if how.nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        // A child inherits the namespace of the thread that creates it.
        let mut child = match how.netns {
            Some(netns) => netns.run(|| command.spawn())?,
            None => command.spawn(),
        }
        .context("rocescope could not be started")?;
        let (out, err) = (Written::default(), Written::default());
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take().filter(|_| !how.closed_output) {
            readers.push(out.follow(pipe));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(err.follow(pipe));
        }
        Ok(Self { child: Killed(child), out, err, readers })
    }

    /// Starts `rocescope live` in a namespace, and waits until everything is attached.
    pub fn live(netns: &NetNs, arguments: &[&str]) -> Result<Self> {
        let start = Start { netns: Some(netns), ..Start::default() };
        Self::watching(start, &[&["live"], arguments].concat())
    }

    /// The same with further options.
    pub fn watching(how: Start<'_>, arguments: &[&str]) -> Result<Self> {
        let interfaces = arguments.iter().filter(|argument| **argument == "-i").count().max(1);
        let program = Self::start(how, arguments)?;
        program.wait_for_message(|text| {
            let attached = text.lines().filter(|line| line.ends_with(" and TC egress")).count();
            (attached >= interfaces).then_some(())
        })?;
        Ok(program)
    }

    /// Its PID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `found` matches its standard error.
    pub fn wait_for_message<T>(&self, found: impl Fn(&str) -> Option<T>) -> Result<T> {
        let said = || anyhow!("the expected message was not printed; standard error: {}", self.err.text());
        self.err.wait(found).ok_or_else(said)
    }

    /// Waits for a report of `--output jsonl` that satisfies `wanted`, and returns it.
    pub fn reported(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let last = |text: &str| -> Option<Value> {
            let (complete, _) = text.rsplit_once('\n')?;
            serde_json::from_str(complete.lines().next_back()?).ok()
        };
        let found = self.out.wait(|text| last(text).filter(&wanted));
        let found = found.ok_or_else(|| {
            let totals = last(&self.out.text()).map(|report| report["totals"].to_string());
            anyhow!(
                "no report satisfies the condition; the last is {totals:?}; standard error: {}",
                self.err.text()
            )
        })?;
        schema::check(&found)?;
        Ok(found)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("rocescope could not be signalled")
    }

    /// Waits for its end.
    pub fn end(mut self) -> Result<Ended> {
        let late = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > late {
                bail!("rocescope does not end; standard error: {}", self.err.text());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        for reader in self.readers.drain(..) {
            reader.join().map_err(|_| anyhow!("a reader of rocescope's output has panicked"))?;
        }
        Ok(Ended { status, out: self.out.text(), err: self.err.text() })
    }

    /// Interrupts it as Ctrl-C does, and waits for its end.
    pub fn interrupt(self) -> Result<Ended> {
        self.signal(Signal::INT)?;
        self.end()
    }

    /// Runs it to its end.
    pub fn run(how: Start<'_>, arguments: &[&str]) -> Result<Ended> {
        Self::start(how, arguments)?.end()
    }
}

/// An idle process in a namespace, by whose PID the namespace can be named.
#[derive(Debug)]
pub struct Tenant(Killed);

impl Tenant {
    /// Starts it.
    pub fn of(netns: &NetNs) -> Result<Self> {
        // Waits for the end of its standard input, which closes with the test.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(Self(Killed(netns.run(|| command.spawn())?.context("cat could not be started")?)))
    }

    /// Its PID.
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }
}
