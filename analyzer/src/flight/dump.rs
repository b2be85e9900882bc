//! The folder of a dump: tables, report, HTML page, reason, facts of the host, packet headers.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::ring::{Block, Lost};
use super::trigger::Reason;
use crate::analysis::Overlap;
use crate::model::events::CLASSES;
use crate::model::{History, OverTime};
use crate::packet::pcapng;
use crate::record::Rows;
use crate::record::store::{Keep, Notices, Rotate, Store};
use crate::report::{self, Report};
use crate::sample::{EventSample, Sample};
use crate::share::html;
use crate::util::units;

/// Schema of why.json.
pub const SCHEMA: &str = "rocescope.dump/1";
/// The file with the reason, which marks a folder as a dump.
pub const WHY: &str = "why.json";
/// Prefix of the names of dumps.
pub const PREFIX: &str = "dump-";
/// End of the name of one that is being written.
pub(super) const PARTIAL: &str = ".partial";

/// Longest why.json that is read, in bytes: a dump's has some kilobytes.
const MOST_WHY: u64 = 4 << 20;

/// The trigger time of the dump in a folder; `None` if it is not a dump. The folder may be of others: the file could be
/// a device without an end.
pub fn trigger_ns(folder: &Path) -> Option<u64> {
    let path = folder.join(WHY);
    let mut why = Vec::new();
    let file = fs::metadata(&path).ok().filter(fs::Metadata::is_file).and_then(|_| File::open(path).ok())?;
    file.take(MOST_WHY).read_to_end(&mut why).ok()?;
    let why: Value = serde_json::from_slice(&why).ok()?;
    why["trigger_ns"].as_u64().filter(|_| why["schema"] == SCHEMA)
}

/// The content of a dump.
#[derive(Debug)]
pub struct Dump {
    /// Name of the host.
    pub host: String,
    /// Trigger time, Unix nanoseconds.
    pub trigger_ns: u64,
    /// Time of the last sample, Unix nanoseconds.
    pub last_ns: u64,
    /// Reasons, in order of time.
    pub reasons: Vec<Reason>,
    /// What was so before the first row, as rows of that time.
    pub before: Rows,
    /// Rows that were not due yet.
    pub changed: Rows,
    /// Rows, oldest first.
    pub blocks: Vec<Block>,
    /// Packet events, oldest first.
    pub events: Vec<EventSample>,
    /// Rows and events that are missing.
    pub lost: Lost,
    /// Findings that triggered no dump because of the cooldown of their id.
    pub held_back: u64,
    /// Dumps skipped because another one was still being written.
    pub skipped: u64,
    /// History for the timeline of the HTML page.
    pub history: History,
    /// Options of the report.
    pub limits: report::Options,
    /// The verdict.
    pub headline: String,
    /// The last sample.
    pub sample: Arc<Sample>,
}

/// Result of writing a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The folder.
    pub folder: PathBuf,
    /// Rows of all tables.
    pub rows: usize,
    /// Rows that could not be written.
    pub rows_lost: u64,
    /// Packets in the pcapng file.
    pub packets: usize,
}

/// Makes the folder of dumps, for its owner alone.
///
/// # Errors
/// If it cannot be made.
pub fn folder(parent: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(parent)
}

/// Writes a dump into a new folder of `parent`, which exists, atomically. `facts` is doctor's page as JSON, if
/// available.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dump: &Dump, parent: &Path, facts: Option<&str>) -> io::Result<Written> {
    #[cfg(feature = "test-clock")]
    crate::util::hijack::here("dump");
    let word = dump.reasons.first().map_or("dump", Reason::word);
    let stamp = units::stamp_utc(dump.trigger_ns);
    // A further dump of the same second gets a number.
    let folder = (1..=u16::MAX)
        .map(|number| match number {
            1 => parent.join(format!("{PREFIX}{stamp}-{word}")),
            _ => parent.join(format!("{PREFIX}{stamp}-{word}-{number}")),
        })
        .find(|folder| !folder.exists())
        .unwrap_or_else(|| parent.join(format!("{PREFIX}{stamp}")));
    let mut aside = folder.clone().into_os_string();
    aside.push(PARTIAL);
    let aside = PathBuf::from(aside);
    // Left by a killed process.
    let _ = fs::remove_dir_all(&aside);
    DirBuilder::new().mode(0o700).create(&aside)?;
    match contents(dump, &aside, facts).and_then(|written| {
        fs::rename(&aside, &folder)?;
        Ok(Written { folder, ..written })
    }) {
        Ok(written) => Ok(written),
        Err(error) => {
            // A partial dump would look complete.
            let _ = fs::remove_dir_all(&aside);
            Err(error)
        }
    }
}

fn contents(dump: &Dump, folder: &Path, facts: Option<&str>) -> io::Result<Written> {
    let (rows, mut rows_lost) = tables(dump, folder)?;
    rows_lost += dump.lost.rows;
    let report = Report::build(&dump.sample, &dump.limits);
    let mut text = Vec::new();
    report::json::write(&report, &mut text)?;
    put(folder, "report.json", &text)?;
    let over_time = OverTime::new(&dump.history, &dump.sample, &Overlap::of(&dump.sample));
    let mut page = Vec::new();
    let distribution = html::Distribution::of(&dump.sample);
    html::write(&report, Some(&over_time), Some(&distribution), &mut page)?;
    put(folder, "report.html", &page)?;
    if let Some(facts) = facts {
        put(folder, "doctor.json", facts.as_bytes())?;
    }
    let (capture, packets) = pcapng::file(&dump.events, words);
    if packets > 0 {
        put(folder, "packets.pcapng", &capture)?;
    }
    let why = why(dump, &report, rows, rows_lost, packets);
    put(folder, WHY, serde_json::to_string_pretty(&why)?.as_bytes())?;
    Ok(Written { folder: folder.to_owned(), rows, rows_lost, packets })
}

/// Writes the tables as a recording. Returns the rows written and the rows lost.
fn tables(dump: &Dump, folder: &Path) -> io::Result<(usize, u64)> {
    let rotate = Rotate { time_ns: u64::MAX, bytes: u64::MAX };
    let (mut store, _) = Store::open(folder, &dump.host, rotate, Keep::default(), false)?;
    let (mut rows, mut lost) = (0, 0);
    let first_ns = dump.blocks.first().map_or(dump.last_ns, |block| block.first_ns);
    let held = dump.blocks.iter().map(|block| io::Result::Ok((block.last_ns, block.rows()?)));
    let before = std::iter::once(Ok((first_ns, dump.before.clone())));
    let changed = std::iter::once(Ok((dump.last_ns, dump.changed.clone())));
    for block in before.chain(held).chain(changed) {
        let (last_ns, read) = block?;
        rows += read.len();
        let (losses, notices) = store.append(last_ns, read);
        lost += losses.rows;
        failed(&store, notices)?;
    }
    let notices = store.seal();
    failed(&store, notices)?;
    drop(store);
    // Everything is sealed, so the folder is empty.
    let _ = fs::remove_dir(folder.join("journal"));
    Ok((rows, lost))
}

/// The cause of a failure: rows of a recording wait for space, as its message says, while a dump is given up.
pub(super) fn failed(store: &Store, notices: Notices) -> io::Result<()> {
    match (store.failure(), notices.into_iter().next()) {
        (Some(cause), _) => Err(io::Error::new(cause.kind(), cause.to_string())),
        (None, Some(notice)) => Err(io::Error::other(notice)),
        (None, None) => Ok(()),
    }
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(folder.join(name))?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn why(dump: &Dump, report: &Report, rows: usize, rows_lost: u64, packets: usize) -> Value {
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "host": dump.host,
        "trigger_ns": dump.trigger_ns,
        "reasons": dump.reasons,
        "verdict": dump.headline,
        "window": {
            "first_ns": dump.blocks.first().map(|block| block.first_ns),
            "last_ns": dump.last_ns,
        },
        "rows": rows,
        "packets": packets,
        "lost": {
            "rows": rows_lost,
            "events": dump.lost.events,
            "findings_in_cooldown": dump.held_back,
            "dumps_skipped": dump.skipped,
            "source": report.facts.totals.lost,
        },
    })
}

/// An event in the words of the Events screen.
fn words(event: &EventSample) -> String {
    let words = CLASSES.iter().filter(|class| event.events & class.bit != 0).map(|class| class.word);
    words.collect::<Vec<_>>().join(",")
}
