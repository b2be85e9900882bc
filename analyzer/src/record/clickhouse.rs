//! Sends the files of a recording to ClickHouse: the same Parquet files, from a queue on disk.
//!
//! A file stays in the queue until the server has confirmed it. Its name is the deduplication token, so that a file
//! whose confirmation was lost is not inserted twice. A table forgets tokens: before a file is sent a second time, the
//! table is asked for its rows.

mod sent;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ureq::Agent;

use super::cell::CellKind;
use super::registry::TABLES;
use super::store::queue;
use super::table::{Column, Table};
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Plan};
use crate::util::clickhouse::Server;
use crate::util::lock::Locked;
use crate::util::notice::say;
use crate::util::request::{self, Certificates};
use crate::util::units::plural;

/// The waiting times of a run.
const PACE: Pace =
    Pace { pauses: (Duration::from_secs(1), Duration::from_secs(60)), last: Duration::from_secs(5) };
/// Timeout for inserting a file.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of queue checks, beside the wake-ups for new files.
const LOOK: Duration = Duration::from_secs(60);
/// Maximum length of a response that is read, in bytes.
const MOST_ANSWER: u64 = 4_096;
/// Number of inserts whose tokens ClickHouse remembers: those of an hour of 1,600 hosts that send a file per minute.
/// Each takes about 1 kB of its memory, as soon as it is there, and none makes an insert slower. They decide while an
/// insert is still under way when the next attempt begins; later, the rows of the table do.
const WINDOW: u32 = 100_000;
/// Files of a table refused in a row after which the table's others wait for the next pass, which begins with them.
const REFUSALS: u32 = 3;
/// Response header with the exception code of ClickHouse.
const EXCEPTION: &str = "x-clickhouse-exception-code";
/// Exception code of ClickHouse for a lack of rights.
const ACCESS_DENIED: u32 = 497;

/// The URL of an insert, with its deduplication token, or of another statement. Of asynchronous inserts, the default of
/// newer servers and of some profiles before, tokens may not count, and the confirmation may come early. A file of more
/// than a million rows becomes several blocks, each with its own token: the same ones in each attempt if their order is
/// that of the file.
fn url(server: &Server, sql: &str, token: Option<&str>) -> String {
    let mut parameters = vec![("query", sql)];
    if let Some(token) = token {
        parameters.extend([
            ("async_insert", "0"),
            ("input_format_parquet_preserve_order", "1"),
            ("insert_deduplicate", "1"),
            ("insert_deduplication_token", token),
        ]);
    }
    server.url(&parameters)
}

/// A column as ClickHouse declares it.
fn declared(column: &Column) -> String {
    let kind = match column.kind {
        CellKind::Time => "DateTime64(9, 'UTC')",
        CellKind::Int => "Int64",
        CellKind::Float => "Float64",
        CellKind::Text => "String",
    };
    let kind = if column.nullable { format!("Nullable({kind})") } else { kind.to_owned() };
    let few = column.kind == CellKind::Text && column.name != "json";
    let kind = if few { format!("LowCardinality({kind})") } else { kind };
    format!("`{}` {kind}", column.name)
}

/// The statement that creates a table. Without a window, a table that is not replicated remembers no token.
pub fn create_table(table: &Table) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|column| format!("    {}", declared(column))).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {} (\n{}\n) ENGINE = MergeTree PARTITION BY toDate(t) ORDER BY (host, t) \
         SETTINGS non_replicated_deduplication_window = {WINDOW}",
        table.name,
        columns.join(",\n")
    )
}

/// The statement that adds the columns that a table of an older version lacks: ClickHouse drops values without a
/// column.
pub fn add_columns(table: &Table) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|column| format!("ADD COLUMN IF NOT EXISTS {}", declared(column))).collect();
    format!("ALTER TABLE {} {}", table.name, columns.join(", "))
}

/// How long the sender waits.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// First and longest pause after a failure; it doubles with each failure.
    pauses: (Duration, Duration),
    /// Time at the end of the run for sending the queued files.
    last: Duration,
}

/// Thread that sends the files of the queue to ClickHouse.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    /// Time at the end of the run for sending the queued files.
    last: Duration,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The queue may have new files.
    woken: bool,
    /// Time at which the thread ends, even if files are queued.
    until: Option<Instant>,
    done: bool,
    /// Number of files sent.
    sent: u64,
}

impl Shared {
    /// Waits until timed out, or the end of the run begins, or woken if that counts. Returns false if the thread should
    /// end.
    fn wait(&self, most: Duration, until_woken: bool) -> bool {
        let end = Instant::now() + most;
        let mut state = self.state.locked();
        // What waits is tried once more when the end begins, however long the pause.
        let is_last = state.until.is_some();
        loop {
            let now = Instant::now();
            let ends = state.until.is_some_and(|until| now >= until);
            let begins = !is_last && state.until.is_some();
            if ends || begins || now >= end || (until_woken && state.woken) {
                state.woken = false;
                return !ends;
            }
            let most = state.until.map_or(end, |until| until.min(end)).saturating_duration_since(now);
            state = self
                .changed
                .wait_timeout(state, most)
                .map_or_else(|error| error.into_inner().0, |(state, _)| state);
        }
    }
}

impl Sender {
    /// Sends the files in the queue of a recording's folder, and new ones as they arrive.
    ///
    /// # Errors
    /// If the CA certificates cannot be read, or a thread cannot be started.
    pub fn start(dir: &Path, server: Server) -> io::Result<Self> {
        Self::paced(dir, server, PACE)
    }

    fn paced(dir: &Path, server: Server, pace: Pace) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let limit = || {
            #[cfg(target_os = "linux")]
            sandbox::confine(&Plan::names());
        };
        let agent = request::agent(server.base(), TIMEOUT, &Certificates::default(), limit)
            .map_err(io::Error::other)?;
        let mut work = Work {
            shared: Arc::clone(&shared),
            queue: queue(dir),
            agent,
            server,
            has_tables: false,
            said: None,
            refused: BTreeMap::new(),
            // Of the previous run, which may have ended before a response came.
            tried: waiting(&queue(dir)).into_iter().collect(),
            may_ask: true,
            pauses: pace.pauses,
        };
        #[cfg(target_os = "linux")]
        let plan = Plan { write: vec![dir.to_owned()], tree: true, ..Plan::client(work.server.port()) };
        let thread = std::thread::Builder::new().name("clickhouse".to_owned()).spawn(move || {
            #[cfg(target_os = "linux")]
            sandbox::confine(&plan);
            work.run();
            let mut state = work.shared.state.locked();
            state.done = true;
            work.shared.changed.notify_all();
        })?;
        Ok(Self { shared, last: pace.last, thread: Some(thread) })
    }

    /// Signals that the queue has new files.
    pub fn wake(&self) {
        self.shared.state.locked().woken = true;
        self.shared.changed.notify_all();
    }

    /// Number of files sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.state.locked().sent
    }

    /// Sends queued files for a few seconds; the rest is sent after the next start.
    pub fn finish(mut self, dir: &Path) {
        self.shared.state.locked().until = Some(Instant::now() + self.last);
        self.shared.changed.notify_all();
        let mut state = self.shared.state.locked();
        let until = Instant::now() + self.last;
        while !state.done && Instant::now() < until {
            let most = until.saturating_duration_since(Instant::now());
            let waited = self.shared.changed.wait_timeout(state, most);
            state = waited.map_or_else(|error| error.into_inner().0, |(state, _)| state);
        }
        let done = state.done;
        drop(state);
        if let Some(thread) = self.thread.take().filter(|_| done) {
            // A panic in the thread was reported on standard error.
            let _ = thread.join();
        }
        let left = waiting(&queue(dir)).len();
        if left > 0 {
            say(&format!(
                "{} left for ClickHouse in {}; the next `record --clickhouse` sends them",
                plural(left as u64, "file"),
                queue(dir).display()
            ));
        }
    }
}

/// The queued files, oldest first.
fn waiting(queue: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(queue) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort_unstable();
    files
}

struct Work {
    shared: Arc<Shared>,
    queue: PathBuf,
    agent: Agent,
    server: Server,
    /// The tables were created, or this user may not create any.
    has_tables: bool,
    /// The reason reported last, until a file is accepted.
    said: Option<String>,
    /// Files that the server refused.
    refused: BTreeMap<PathBuf, Refusal>,
    /// Queued files that the server may have: they were sent, or may have been by the previous run.
    tried: BTreeSet<PathBuf>,
    /// The server answers the question whether it has a file.
    may_ask: bool,
    /// First and longest pause after a failure.
    pauses: (Duration, Duration),
}

/// A file that the server refused.
#[derive(Debug)]
struct Refusal {
    cause: Cause,
    /// Time of the next attempt.
    again: Instant,
    /// Pause before the next attempt.
    pause: Duration,
}

/// Outcome of sending the queued files once.
#[derive(Debug, Default)]
struct Pass {
    sent: u64,
    refused: u64,
    /// The server is unreachable or overloaded, or the queue cannot be changed: files behind were not tried.
    is_stopped: bool,
}

impl Work {
    fn run(&mut self) {
        let mut pause = self.pauses.0;
        loop {
            let Some(pass) = self.pass() else { return };
            if self.shared.state.locked().until.is_some() && waiting(&self.queue).is_empty() {
                return;
            }
            if pass.sent > 0 {
                pause = self.pauses.0;
            }
            let has_failed = pass.is_stopped || pass.refused > 0;
            let most = if has_failed { pause } else { self.until_again() };
            // A new file is tried at once, unless the server takes none.
            if !self.shared.wait(most, !pass.is_stopped) {
                return;
            }
            if has_failed {
                pause = (pause * 2).min(self.pauses.1);
            }
        }
    }

    /// Time to the next attempt at a refused file, or to the next check of the queue.
    fn until_again(&self) -> Duration {
        let next = self.refused.values().map(|refusal| refusal.again).min();
        next.map_or(LOOK, |again| again.saturating_duration_since(Instant::now()).clamp(self.pauses.0, LOOK))
    }

    /// Sends the queued files: first those that were never refused, the oldest first; then refused ones whose time
    /// has come. So no number of refused files keeps others from being sent. `None`: the thread should end.
    fn pass(&mut self) -> Option<Pass> {
        let mut files = waiting(&self.queue);
        self.refused.retain(|file, _| files.binary_search(file).is_ok());
        self.tried.retain(|file| files.binary_search(file).is_ok());
        let now = Instant::now();
        files.retain(|file| self.refused.get(file).is_none_or(|refusal| refusal.again <= now));
        files.sort_by_key(|file| self.refused.get(file).map(|refusal| refusal.again));
        let mut pass = Pass::default();
        let mut in_a_row: BTreeMap<String, u32> = BTreeMap::new();
        for file in files {
            if self.is_over() {
                return None;
            }
            let table = table_of(&file);
            // Retention has given it up, or the server refuses the table.
            if !file.exists() || in_a_row.get(&table).is_some_and(|refused| *refused >= REFUSALS) {
                continue;
            }
            match self.send(&file) {
                Ok(()) => {
                    pass.sent += 1;
                    in_a_row.remove(&table);
                    self.recovered();
                    self.refused.remove(&file);
                    self.shared.state.locked().sent += 1;
                    if let Err(error) = std::fs::remove_file(&file) {
                        self.complain(format!("cannot remove {}: {error}", file.display()));
                        pass.is_stopped = true;
                    }
                }
                // Retention has given it up meanwhile.
                Err(Failure::Refused(_)) if !file.exists() => {}
                Err(Failure::Refused(cause)) => {
                    pass.refused += 1;
                    *in_a_row.entry(table).or_default() += 1;
                    self.refused(&file, cause);
                }
                Err(Failure::Away(reason)) => {
                    self.complain(reason);
                    pass.is_stopped = true;
                }
            }
            if pass.is_stopped {
                break;
            }
        }
        Some(pass)
    }

    fn is_over(&self) -> bool {
        self.shared.state.locked().until.is_some_and(|until| Instant::now() >= until)
    }

    fn complain(&mut self, reason: String) {
        if self.said.as_ref() != Some(&reason) {
            say(&format!(
                "cannot send to ClickHouse at {}: {reason}; files wait in {}",
                self.server,
                self.queue.display()
            ));
            self.said = Some(reason);
        }
    }

    /// Notes a refusal. It is reported once for all files of a table with the same cause.
    fn refused(&mut self, file: &Path, cause: Cause) {
        let table = table_of(file);
        let is_same = |(other, refusal): (&PathBuf, &Refusal)| {
            table_of(other) == table && refusal.cause.is_like(&cause)
        };
        if !self.refused.iter().any(is_same) {
            say(&format!(
                "ClickHouse at {} does not take {}: {}; it is tried again, and the others are sent",
                self.server,
                file.display(),
                cause.reason
            ));
        }
        let before = self.refused.get(file).map(|refusal| refusal.pause);
        let pause = before.map_or(self.pauses.0, |pause| (pause * 2).min(self.pauses.1));
        self.refused.insert(file.to_owned(), Refusal { cause, again: Instant::now() + pause, pause });
    }

    fn recovered(&mut self) {
        if self.said.take().is_some() {
            say(&format!("files are sent to ClickHouse at {} again", self.server));
        }
    }

    fn send(&mut self, file: &Path) -> Result<(), Failure> {
        if !self.has_tables {
            for table in TABLES {
                self.prepare(table)?;
            }
            self.has_tables = true;
        }
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let end = table_of(file);
        let Some(table) = TABLES.iter().find(|table| table.name == end) else {
            return Err(Failure::Refused(Cause::own(
                "it is not a file of a recording; remove it".to_owned(),
            )));
        };
        if !self.tried.insert(file.to_owned()) && self.has(table, file)? {
            return Ok(());
        }
        let sql = format!("INSERT INTO {} FORMAT Parquet", table.name);
        self.post(&url(&self.server, &sql, Some(&name)), Some(file)).map(drop)
    }

    /// True if the table has the rows of a file: its token may be forgotten. False if nobody knows, which is reported
    /// once.
    fn has(&mut self, table: &Table, file: &Path) -> Result<bool, Failure> {
        // The question takes reading the file.
        let question = if self.may_ask { sent::question(table, file) } else { None };
        let Some(sql) = question else { return Ok(false) };
        match self.post(&url(&self.server, &sql, None), None) {
            Ok(answer) => Ok(answer.trim() == "1"),
            // What is refused at this time alone is asked with the next attempt.
            Err(Failure::Refused(cause)) if cause.is_final() => {
                self.may_ask = false;
                say(&format!(
                    "ClickHouse at {} does not say which files it has: {}; those whose response is lost are not inserted twice only as long as it remembers their tokens",
                    self.server, cause.reason
                ));
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Creates a table, or adds the columns that it lacks. A user without these rights may still insert.
    fn prepare(&self, table: &Table) -> Result<(), Failure> {
        for sql in [create_table(table), add_columns(table)] {
            match self.post(&url(&self.server, &sql, None), None) {
                Err(Failure::Refused(cause)) if cause.is_final() => {
                    say(&format!("ClickHouse does not make table {}: {}", table.name, cause.reason));
                    return Ok(());
                }
                // It may make it later.
                Err(Failure::Refused(cause)) => return Err(Failure::Away(cause.reason)),
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Sends a statement, with a file. Returns the answer.
    fn post(&self, url: &str, file: Option<&Path>) -> Result<String, Failure> {
        let request = self.server.post(&self.agent, url).header("Content-Type", "application/octet-stream");
        let sent = match file {
            Some(file) => {
                let of = |error| Failure::Refused(Cause::own(format!("cannot read it: {error}")));
                let body = File::open(file).map_err(of)?;
                let length = body.metadata().map_err(of)?.len();
                request.header("Content-Length", length.to_string()).send(body)
            }
            None => request.send_empty(),
        };
        let mut response = sent.map_err(|error| Failure::Away(request::reason(&error)))?;
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("clickhouse");
        let status = response.status();
        let of_header =
            response.headers().get(EXCEPTION).and_then(|code| code.to_str().ok()?.trim().parse().ok());
        let answer =
            response.body_mut().with_config().limit(MOST_ANSWER).read_to_string().unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let words = answer.lines().next().unwrap_or_default();
        let reason = format!("it answers {status} {words}").trim_end().to_owned();
        let exception = of_header.or_else(|| exception_of(words));
        // An exception is of this statement, even with a status of 500. Without one, a proxy answers, or the server
        // cannot; two statuses of clients' errors say that it is busy.
        let is_busy = matches!(status.as_u16(), 408 | 429);
        let is_refused = !is_busy && (status.is_client_error() || exception.is_some());
        let cause = Cause { reason, status: status.as_u16(), exception };
        Err(if is_refused { Failure::Refused(cause) } else { Failure::Away(cause.reason) })
    }
}

/// The exception code at the beginning of a response's text: `Code: 60. DB::Exception: ...`.
fn exception_of(words: &str) -> Option<u32> {
    let (code, _) = words.strip_prefix("Code: ")?.split_once(['.', ','])?;
    code.parse().ok()
}

/// The table in the name of a queued file.
fn table_of(file: &Path) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.rsplit_once('.').map_or(String::new(), |(_, table)| table.to_owned())
}

/// Reason for a refusal.
#[derive(Debug)]
struct Cause {
    /// Reason in words for the user.
    reason: String,
    /// HTTP status; 0 if the reason is not the server's.
    status: u16,
    /// Exception code of ClickHouse.
    exception: Option<u32>,
}

impl Cause {
    /// A reason that is not the server's.
    const fn own(reason: String) -> Self {
        Self { reason, status: 0, exception: None }
    }

    /// True if the cause is the same; texts differ by names and sizes.
    fn is_like(&self, other: &Self) -> bool {
        (self.status, self.exception) == (other.status, other.exception)
    }

    /// True if the same statement will be refused again.
    fn is_final(&self) -> bool {
        (400..500).contains(&self.status) || self.exception == Some(ACCESS_DENIED)
    }
}

/// Reason for the failure of a request.
enum Failure {
    /// The server refused it, and may take others.
    Refused(Cause),
    /// The server is unreachable or overloaded.
    Away(String),
}

#[cfg(test)]
#[path = "clickhouse_tests.rs"]
mod tests;
