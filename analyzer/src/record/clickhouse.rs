//! Sends the files of a recording to ClickHouse: the same Parquet files, from a queue on disk.
//!
//! A file stays in the queue until the server has confirmed it. Its name is the deduplication token, so that a file
//! whose confirmation was lost is not inserted twice.

use std::collections::BTreeMap;
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

/// First and longest pause after a failure; it doubles with each failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Timeout for inserting a file.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of queue checks, beside the wake-ups for new files.
const LOOK: Duration = Duration::from_secs(60);
/// Time at the end of the run for sending the queued files.
const LAST: Duration = Duration::from_secs(5);
/// Maximum length of a response that is read, in bytes.
const MOST_ANSWER: u64 = 4_096;
/// Number of inserts whose tokens ClickHouse remembers.
const WINDOW: u32 = 10_000;
/// Files refused in a row after which the rest waits: the server takes none.
const REFUSALS: u32 = 3;

/// The URL of an insert, with its deduplication token, or of another statement.
fn url(server: &Server, sql: &str, token: Option<&str>) -> String {
    let mut parameters = vec![("query", sql)];
    if let Some(token) = token {
        parameters.extend([("insert_deduplicate", "1"), ("insert_deduplication_token", token)]);
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

/// The statement that creates a table. Its window remembers the tokens of some days of one host; a fleet needs a
/// larger one, or a replicated table, which has its own.
#[must_use]
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
#[must_use]
pub fn add_columns(table: &Table) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|column| format!("ADD COLUMN IF NOT EXISTS {}", declared(column))).collect();
    format!("ALTER TABLE {} {}", table.name, columns.join(", "))
}

/// The sending thread.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
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
    /// Waits until woken, ended or timed out. Returns false if the thread should end.
    fn wait(&self, most: Duration, until_woken: bool) -> bool {
        let end = Instant::now() + most;
        let mut state = self.state.locked();
        loop {
            let now = Instant::now();
            let ends = state.until.is_some_and(|until| now >= until);
            if ends || now >= end || (until_woken && (state.woken || state.until.is_some())) {
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
        let shared = Arc::new(Shared::default());
        let agent =
            request::agent(server.base(), TIMEOUT, &Certificates::default()).map_err(io::Error::other)?;
        let mut work = Work {
            shared: Arc::clone(&shared),
            queue: queue(dir),
            agent,
            server,
            has_tables: false,
            said: None,
            refused: BTreeMap::new(),
        };
        #[cfg(target_os = "linux")]
        let plan = Plan { write: vec![dir.to_owned()], tree: true, ..Plan::client(work.server.port()) };
        let thread = std::thread::Builder::new().name("clickhouse".to_owned()).spawn(move || {
            #[cfg(target_os = "linux")]
            let _state = sandbox::enter(&plan);
            work.run();
            let mut state = work.shared.state.locked();
            state.done = true;
            work.shared.changed.notify_all();
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Signals that the queue has new files.
    pub fn wake(&self) {
        self.shared.state.locked().woken = true;
        self.shared.changed.notify_all();
    }

    /// Number of files sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.state.locked().sent
    }

    /// Sends queued files for a few seconds; the rest is sent after the next start.
    pub fn finish(mut self, dir: &Path) {
        self.shared.state.locked().until = Some(Instant::now() + LAST);
        self.shared.changed.notify_all();
        let mut state = self.shared.state.locked();
        let until = Instant::now() + LAST;
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
                "{} wait for ClickHouse in {}; the next record --clickhouse sends them",
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
    /// Files that the server refused, with the reason said.
    refused: BTreeMap<PathBuf, String>,
}

impl Work {
    fn run(&mut self) {
        let mut pause = PAUSES.0;
        loop {
            let (mut failed, mut in_a_row) = (false, 0);
            for file in waiting(&self.queue) {
                if self.is_over() {
                    return;
                }
                // Retention has given it up.
                if !file.exists() {
                    continue;
                }
                match self.send(&file) {
                    Ok(()) => {
                        pause = PAUSES.0;
                        in_a_row = 0;
                        self.recovered();
                        self.shared.state.locked().sent += 1;
                        if let Err(error) = std::fs::remove_file(&file) {
                            self.complain(format!("cannot remove {}: {error}", file.display()));
                            failed = true;
                            break;
                        }
                    }
                    // Those behind it may be of another table.
                    Err(Failure::Refused(reason)) => {
                        self.refused(&file, &reason);
                        failed = true;
                        in_a_row += 1;
                        if in_a_row >= REFUSALS {
                            break;
                        }
                    }
                    Err(Failure::Away(reason)) => {
                        self.complain(reason);
                        failed = true;
                        break;
                    }
                }
            }
            let is_last = self.shared.state.locked().until.is_some();
            if !failed && is_last && waiting(&self.queue).is_empty() {
                return;
            }
            let goes_on = if failed { self.shared.wait(pause, false) } else { self.shared.wait(LOOK, true) };
            if !goes_on {
                return;
            }
            if failed {
                pause = (pause * 2).min(PAUSES.1);
            }
        }
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

    fn refused(&mut self, file: &Path, reason: &str) {
        let said = self.refused.insert(file.to_owned(), reason.to_owned());
        if said.is_none_or(|said| said != reason) {
            say(&format!(
                "ClickHouse at {} does not take {}: {reason}; it is tried again, and the others are sent",
                self.server,
                file.display()
            ));
        }
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
        let of = |(_, end): (&str, &str)| TABLES.iter().find(|table| table.name == end);
        let Some(table) = name.rsplit_once('.').and_then(of) else {
            return Err(Failure::Refused("it is no file of a recording; remove it".to_owned()));
        };
        let sql = format!("INSERT INTO {} FORMAT Parquet", table.name);
        self.post(&url(&self.server, &sql, Some(&name)), Some(file))
    }

    /// Creates a table, or adds the columns that it lacks. A user without these rights may still insert.
    fn prepare(&self, table: &Table) -> Result<(), Failure> {
        for sql in [create_table(table), add_columns(table)] {
            match self.post(&url(&self.server, &sql, None), None) {
                Err(Failure::Refused(reason)) => {
                    say(&format!("ClickHouse does not make table {}: {reason}", table.name));
                    return Ok(());
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn post(&self, url: &str, file: Option<&Path>) -> Result<(), Failure> {
        let request = self.server.post(&self.agent, url).header("Content-Type", "application/octet-stream");
        let sent = match file {
            Some(file) => {
                let of = |error: io::Error| Failure::Away(format!("cannot read {}: {error}", file.display()));
                let body = File::open(file).map_err(of)?;
                let length = body.metadata().map_err(of)?.len();
                request.header("Content-Length", length.to_string()).send(body)
            }
            None => request.send_empty(),
        };
        let mut response = sent.map_err(|error| Failure::Away(request::reason(&error)))?;
        let status = response.status();
        let answer =
            response.body_mut().with_config().limit(MOST_ANSWER).read_to_string().unwrap_or_default();
        if status.is_success() {
            return Ok(());
        }
        let words = answer.lines().next().unwrap_or_default();
        let reason = format!("it answers {status} {words}").trim_end().to_owned();
        Err(if status.is_client_error() { Failure::Refused(reason) } else { Failure::Away(reason) })
    }
}

/// Reason for the failure of a request.
enum Failure {
    /// The server refused it.
    Refused(String),
    /// The server is unreachable or overloaded.
    Away(String),
}

#[cfg(test)]
#[path = "clickhouse_tests.rs"]
mod tests;
