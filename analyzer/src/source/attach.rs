//! A running agent as a source: its samples and events through its unix socket, without loading kernel programs.
//!
//! The agent sends a sample at each of its intervals and never waits for a view; it counts and reports what a slow
//! view misses. Samples are cumulative since the agent's start, so that a missed one loses time resolution but no
//! counts.

use std::fs;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use super::feed::{self, Command, Feed, SourceEnd, Update};
use crate::sample::Sample;
use crate::sample::stream::{DUMP, Frame, Hello, MOST_HELLO, SCHEMA, layout};
use crate::util::layout::plain;
use crate::util::pack::unpacked;
use crate::util::time::nanos;

/// Default socket of an agent.
pub const SOCKET: &str = "/run/rocescope/agent.sock";
/// Request for the sample stream of an agent's HTTP server.
const REQUEST: &[u8] = b"GET /samples HTTP/1.1\r\nHost: agent\r\n\r\n";
/// Maximum length of a response head, in bytes.
const MOST_HEAD: u64 = 16 << 10;
/// Timeout for a response.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Time without a sample after which the agent is considered hung: samples arrive every second.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum wait for the first sample once the view has ended.
const FIRST_TIME: Duration = Duration::from_secs(3);
/// Polling interval during that wait.
const LOOK: Duration = Duration::from_millis(20);
/// Samples arrive slightly late: without a margin, every other one would be skipped.
const MARGIN_NS: u64 = 50_000_000;
/// Minimum time between two notices about missed samples and events.
const NOTICES: Duration = Duration::from_secs(10);

/// The agent, and the requested data.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the agent's socket.
    pub socket: PathBuf,
    /// Time between samples, in data time; at least the interval of the agent.
    pub interval: Duration,
    /// True if samples are needed before the end.
    pub samples: bool,
    /// True if events are needed.
    pub events: bool,
    /// Time after which the view ends; `None` for no limit.
    pub duration: Option<Duration>,
}

/// A connection to an agent of which nothing has been read.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    stream: UnixStream,
}

/// A connection to an agent of which nothing but the greeting has been read.
#[derive(Debug)]
pub struct Attached {
    options: Options,
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    hello: Hello,
}

/// Connects to an agent, and reads nothing from it. No privileges are needed afterwards.
///
/// # Errors
/// If there is no agent, or it may not be accessed.
pub fn connect(options: Options) -> Result<Connection> {
    let socket = &options.socket;
    let stream = UnixStream::connect(socket).map_err(|error| anyhow!("{}", refused(socket, &error)))?;
    Ok(Connection { options, stream })
}

impl Connection {
    /// Requests samples, and reads the agent's description of itself.
    ///
    /// # Errors
    /// If the agent does not answer, or has an incompatible version.
    pub fn greet(self) -> Result<Attached> {
        let Self { options, stream } = self;
        let socket = &options.socket;
        let cannot = || format!("cannot talk to the agent at {}", socket.display());
        stream.set_read_timeout(Some(ANSWER_TIME)).with_context(cannot)?;
        let mut reader = BufReader::with_capacity(1 << 16, stream.try_clone().with_context(cannot)?);
        let hello = greet(socket, &stream, &mut reader)?;
        stream.set_read_timeout(Some(SILENCE)).with_context(cannot)?;
        Ok(Attached { options, stream, reader, hello })
    }
}

impl Attached {
    /// The agent's description of itself.
    pub const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Reads from the agent in a thread, which ends with the feed.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(self) -> Result<(Feed, JoinHandle<()>)> {
        let Self { options, stream, mut reader, hello } = self;
        let (SourceEnd { updates, commands }, feed) = feed::channel();
        let shared = Arc::new(Shared::default());
        let reported = Arc::clone(&shared);
        let late = options.duration.and_then(|duration| Instant::now().checked_add(duration));
        std::thread::Builder::new()
            .name("commands".to_owned())
            .spawn(move || obey(&commands, &stream, &reported, late))
            .context("cannot start a thread")?;
        let (pid, left) = (hello.pid, MissedUpdates::default());
        let mut source = Reading { options, updates, shared, pid, latest: None, sent_ns: None, left };
        let thread = std::thread::Builder::new()
            .name("attach".to_owned())
            .spawn(move || {
                let ended = source.run(&mut reader);
                source.end(ended);
            })
            .context("cannot start a thread")?;
        Ok((feed, thread))
    }
}

/// Reason why a socket cannot be connected to, and the remedy.
fn refused(socket: &Path, error: &io::Error) -> String {
    let at = plain(&socket.display().to_string());
    let data = fs::metadata(socket).ok();
    if data.as_ref().is_some_and(|data| !data.file_type().is_socket()) {
        return format!(
            "{at} is not a socket; give --attach the path that the agent's --listen unix:PATH names"
        );
    }
    match error.kind() {
        ErrorKind::NotFound => format!(
            "no agent listens at {at}: there is no such socket. Start one (rocescope agent --listen unix:{at}), or name its socket \
             with --attach=PATH"
        ),
        ErrorKind::ConnectionRefused => {
            format!("no agent listens at {at}: the one that made the socket has ended. Restart it")
        }
        ErrorKind::PermissionDenied => {
            let of = data.map_or_else(String::new, |data| {
                let mode = data.permissions().mode() & 0o777;
                format!(" (owner {}, group {}, mode {mode:o})", data.uid(), data.gid())
            });
            format!(
                "this user may not connect to the agent at {at}{of}: become a member of the socket's group, or use sudo"
            )
        }
        _ => format!("cannot connect to the agent at {at}: {error}"),
    }
}

/// Requests samples; returns the agent's description of itself.
fn greet(socket: &Path, mut stream: &UnixStream, reader: &mut BufReader<UnixStream>) -> Result<Hello> {
    let at = plain(&socket.display().to_string());
    let asked = stream.write_all(REQUEST).and_then(|()| head(reader));
    let head = asked.with_context(|| format!("no answer from the agent at {at}"))?;
    #[cfg(feature = "test-clock")]
    crate::util::hijack::here("attach");
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let mut body = String::new();
        // Without a body the status is the message.
        let _ = reader.take(1024).read_to_string(&mut body);
        let said = if body.trim().is_empty() { head.lines().next().unwrap_or_default() } else { body.trim() };
        let hint = match status {
            "404" => {
                "; it is another program, or an agent that is older than --attach: use the same version for both"
            }
            _ => "",
        };
        bail!("the agent at {at} sends no samples: {}{hint}", plain(said));
    }
    let mut line = String::new();
    reader
        .take(MOST_HELLO as u64)
        .read_line(&mut line)
        .with_context(|| format!("no answer from the agent at {at}"))?;
    let hello: Hello = serde_json::from_str(&line).map_err(|_| {
        anyhow!("the program at {at} is not a rocescope agent: its first line is not the agent's")
    })?;
    let own = env!("CARGO_PKG_VERSION");
    if hello.schema != SCHEMA || hello.layout != layout() {
        bail!(
            "the agent at {at} (process {}) is rocescope {}, whose samples this rocescope {own} cannot read: use the program of the \
             agent, or start the agent again after an upgrade",
            hello.pid,
            plain(&hello.version)
        );
    }
    Ok(hello)
}

/// Reads status line and headers of a response.
fn head(reader: &mut BufReader<UnixStream>) -> io::Result<String> {
    let mut head = String::new();
    let mut limited = reader.take(MOST_HEAD);
    loop {
        let before = head.len();
        limited.read_line(&mut head)?;
        match head.get(before..) {
            Some("\r\n" | "\n") => return Ok(head),
            Some("") | None => return Err(ErrorKind::UnexpectedEof.into()),
            Some(_) => {}
        }
    }
}

/// State shared by both threads.
#[derive(Debug, Default)]
struct Shared {
    /// A sample has arrived.
    has_reading: AtomicBool,
    /// The view has ended.
    is_over: AtomicBool,
}

/// Carries out the commands of the view, until it ends or its time is over.
fn obey(commands: &Receiver<Command>, mut stream: &UnixStream, shared: &Shared, late: Option<Instant>) {
    loop {
        let next = match late {
            Some(late) => commands.recv_timeout(late.saturating_duration_since(Instant::now())),
            None => commands.recv().map_err(|mpsc::RecvError| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Command::Dump) => {
                // If this fails, the agent has ended, which the reader notices.
                let _ = stream.write_all(&[DUMP]);
            }
            Ok(Command::Pause(_) | Command::Speed(_) | Command::Seek(_) | Command::Rewind(_)) => {}
            Ok(Command::Stop) | Err(RecvTimeoutError::Timeout) => {
                let until = Instant::now() + FIRST_TIME;
                while !shared.has_reading.load(Ordering::Relaxed) && Instant::now() < until {
                    std::thread::sleep(LOOK);
                }
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    shared.is_over.store(true, Ordering::Relaxed);
    // The reader then finds the end of the stream.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Numbers of missed samples and events, and the time of the latest notice.
#[derive(Debug, Default)]
struct MissedUpdates {
    readings: u64,
    events: u64,
    said: Option<Instant>,
}

impl MissedUpdates {
    /// A notice, if there is something new and the previous one is long enough ago.
    fn take(&mut self, readings: u64, events: u64) -> Option<String> {
        self.readings += readings;
        self.events += events;
        if self.said.is_some_and(|said| said.elapsed() < NOTICES) {
            return None;
        }
        self.said = Some(Instant::now());
        let Self { readings, events, .. } = self;
        let text = format!(
            "this view missed {readings} readings and {events} events so far, as it or the host is busy; counts are complete"
        );
        Some(text)
    }
}

/// State of the thread that reads the stream.
struct Reading {
    options: Options,
    updates: SyncSender<Update>,
    shared: Arc<Shared>,
    /// PID of the agent.
    pid: u32,
    /// A sample that the view does not have yet.
    latest: Option<Box<Sample>>,
    /// Time of the latest sample sent to the view.
    sent_ns: Option<u64>,
    left: MissedUpdates,
}

impl Reading {
    /// Reads until the agent or the view ends.
    fn run(&mut self, reader: &mut BufReader<UnixStream>) -> Result<()> {
        loop {
            let read = Frame::read(reader);
            if self.shared.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let pid = self.pid;
            let bytes = read.map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => anyhow!(
                    "the agent (process {pid}) has sent nothing for {} s: it is stopped, or does not respond",
                    SILENCE.as_secs()
                ),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => gone(pid),
                _ => anyhow!("cannot read from the agent (process {pid}): {error}"),
            })?;
            let frame = unpacked(&bytes.ok_or_else(|| gone(pid))?)
                .map_err(|error| anyhow!("cannot decode a message of the agent (process {pid}): {error}"))?;
            match frame {
                Frame::Sample(sample) => self.sample(Box::new(Arc::unwrap_or_clone(sample))),
                Frame::Events(events) if self.options.events => {
                    self.tell(Update::Events(Arc::unwrap_or_clone(events)));
                }
                Frame::Events(_) => {}
                Frame::Notice(notice) => self.tell(Update::Notice(plain(&notice))),
                Frame::LeftOut { readings, events } => {
                    let events = if self.options.events { events } else { 0 };
                    if readings + events > 0
                        && let Some(text) = self.left.take(readings, events)
                    {
                        self.tell(Update::Notice(text));
                    }
                }
                Frame::Ended(None) => {
                    self.tell(Update::Notice("the agent has ended; this is its last reading".to_owned()));
                    return Ok(());
                }
                Frame::Ended(Some(error)) => bail!("the agent has ended: {}", plain(&error)),
            }
        }
    }

    /// Sends a sample to the view if one is due; keeps it for the end otherwise.
    fn sample(&mut self, sample: Box<Sample>) {
        self.shared.has_reading.store(true, Ordering::Relaxed);
        let interval_ns = nanos(self.options.interval).saturating_sub(MARGIN_NS);
        let is_due = self.options.samples
            && self.sent_ns.is_none_or(|sent_ns| sample.time_ns.abs_diff(sent_ns) >= interval_ns);
        let time_ns = sample.time_ns;
        if !is_due {
            self.latest = Some(sample);
            return;
        }
        match self.updates.try_send(Update::Sample(sample)) {
            Ok(()) => (self.latest, self.sent_ns) = (None, Some(time_ns)),
            // The queue to the view is full.
            Err(TrySendError::Full(Update::Sample(sample))) => self.latest = Some(sample),
            Err(_) => {}
        }
    }

    /// Sends an update that the view must have. If the view has ended, the other thread notices.
    fn tell(&self, update: Update) {
        let _ = self.updates.send(update);
    }

    /// Sends the last sample and the end.
    fn end(&mut self, ended: Result<()>) {
        if let Some(sample) = self.latest.take() {
            self.tell(Update::Sample(sample));
        }
        self.tell(Update::Ended(ended));
    }
}

fn gone(pid: u32) -> anyhow::Error {
    anyhow!("the agent (process {pid}) was killed. Restart it; the last sample is shown")
}

#[cfg(test)]
#[path = "attach_tests.rs"]
mod tests;
