//! Counts the packets of capture files and streams with the accounting of live packets.
//!
//! ```text
//! files ─ inputs (which form a tap) ─ tap (records) ─┐
//!                                                    ├─ run (merged by time) ─ count ─ table
//! stdin ─ stream ─────────────────── tap ────────────┘   pace                   └─ Sample, events
//! ```

pub mod count;
pub mod inputs;
pub mod latest;
pub mod links;
pub mod pace;
mod run;
mod silences;
pub mod stream;
pub mod tap;
pub mod time;
pub mod worker;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::filter::Filter;
use crate::metrics;
use crate::metrics::pairing::peers::Peers;
use crate::source::feed::{self, Feed};
use crate::source::flows::table::FlowTable;
use crate::util::time::nanos;
use inputs::TapFiles;
use tap::{Messages, TapReader};
use time::TimeSpec;
use worker::MetricsWorker;

/// Times at which samples are sent. The last one is always sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// Only at the end.
    AtEnd,
    /// After each interval of data time with a frame; none is dropped.
    Every(Duration),
    /// The same for an interactive view: samples may be dropped if the view is behind, or if data time runs much
    /// faster than the clock.
    Watch(Duration),
}

/// The inputs of a replay, and its settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Capture files, each a tap of its own unless they belong to a rotation; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// Taps named by the user.
    pub taps: Vec<TapFiles>,
    /// Data time per clock time; infinite for as fast as possible.
    pub speed: f64,
    /// Skip frames before this time.
    pub from: Option<TimeSpec>,
    /// Skip frames after this time.
    pub to: Option<TimeSpec>,
    /// End after this much data time (for a silent stream: clock time).
    pub duration: Option<Duration>,
    /// Count RoCE packets that do not match as filtered.
    pub filter: Option<Filter>,
    /// Retire flows that are idle for longer than this.
    pub idle: Option<Duration>,
    /// Size of the flow table.
    pub max_flows: usize,
    /// Settings of the metrics.
    pub metrics: metrics::Options,
    /// Times at which samples are sent.
    pub emit: Emit,
    /// True if events are sent.
    pub events: bool,
}

/// Default size of the flow table of a replay: a flow takes about 1 kB of memory at the peak and 3 kB of a JSON
/// report: each of these is less than half a gigabyte. Packets of further flows are counted in their link and in
/// `flow_table_full`.
pub const MAX_FLOWS: usize = 1 << 17;

impl Default for Options {
    /// Everything, as fast as possible, with one sample at the end.
    fn default() -> Self {
        Self {
            files: Vec::new(),
            taps: Vec::new(),
            speed: f64::INFINITY,
            from: None,
            to: None,
            duration: None,
            filter: None,
            idle: None,
            max_flows: MAX_FLOWS,
            metrics: metrics::Options::default(),
            emit: Emit::AtEnd,
            events: false,
        }
    }
}

/// Opens all inputs and starts a replay in a separate thread.
///
/// # Errors
/// If an input cannot be read, or is given twice. An error of a stream shows later, in
/// [`crate::source::feed::Update::Ended`].
pub fn start(options: Options) -> Result<Feed> {
    let opened = open(&options)?;
    let (source, view) = feed::channel();
    let run = run::Replay {
        feed: source,
        taps: opened.taps,
        counts: opened.counts,
        inputs: opened.names,
        pace: pace::Pace::new(options.speed),
        idle_ns: options.idle.map(nanos),
        messages: Messages { notices: opened.notices, failure: None },
        sent_notices: BTreeSet::new(),
        clock: run::Clock::default(),
        order: run::MergeOrder::default(),
        options,
    };
    std::thread::Builder::new()
        .name("replay".into())
        .spawn(move || run.run())
        .context("cannot start a thread for the replay: too many threads (ulimit -u), or too little memory (ulimit -v)")?;
    Ok(view)
}

/// A replay that has not started.
struct OpenedReplay {
    taps: Vec<TapReader>,
    counts: count::Counts,
    names: Vec<String>,
    notices: Vec<String>,
}

/// Opens all inputs at their beginning.
fn open(options: &Options) -> Result<OpenedReplay> {
    let inputs = inputs::arrange(&options.files, &options.taps).map_err(anyhow::Error::msg)?;
    let mut names: Vec<String> = Vec::new();
    for tap in &inputs.taps {
        names.extend(tap.files.iter().map(|file| file.display().to_string()));
    }
    let mut taps = Vec::new();
    for tap in inputs.taps {
        taps.push(TapReader::open(tap)?);
    }
    let metrics = MetricsWorker::new(&options.metrics, taps.len());
    let counts = count::Counts {
        table: FlowTable::new(options.max_flows),
        peers: Peers::default(),
        metrics,
        window: None,
        out_of_range: None,
        events: options.events.then(Vec::new),
        from_ns: 0,
        to_ns: u64::MAX,
        filter: options.filter.clone(),
        filtered_infiniband: 0,
    };
    Ok(OpenedReplay { taps, counts, names, notices: inputs.notices })
}

#[cfg(test)]
mod tests;
