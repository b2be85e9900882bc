//! Follows the samples of a source and decides when a dump is made.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use super::Settings;
use super::dump::Dump;
use super::ring::{Lost, Ring};
use super::trigger::{Cause, Reason, Triggers};
use crate::model::History;
use crate::record::clock::{Step, Watch};
use crate::record::collect::{Collector, Origin};
use crate::record::store::Losses;
use crate::report::{self, Report};
use crate::sample::{EventSample, Sample};
use crate::util::lock::Locked;
use crate::util::time::nanos;
use crate::util::units::plural;

/// Memory limit of the history for the HTML page, in bytes.
const HISTORY_BYTES: usize = 16 << 20;

/// Flags by which others request a dump.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Set by SIGUSR1.
    pub signal: Arc<AtomicBool>,
    /// Set by the key.
    pub key: Arc<AtomicBool>,
    /// Set by the unix socket: the requested time before the request, in nanoseconds; `u64::MAX` for everything held,
    /// 0 for no request.
    pub socket_ns: Arc<AtomicU64>,
    /// Pending change of settings.
    change: Arc<Mutex<Option<Box<Change>>>>,
}

/// New settings, and new options of the report.
type Change = (Settings, report::Options);

impl Requests {
    /// Changes the settings that a running recorder can change: trigger findings, thresholds, time after the trigger,
    /// cooldown.
    pub fn change(&self, settings: Settings, report: report::Options) {
        *self.change.locked() = Some(Box::new((settings, report)));
    }

    /// Requests since the last call, each with the requested time before it, in nanoseconds.
    fn taken(&self) -> Vec<(Cause, u64)> {
        let flags = [(&self.signal, Cause::Signal), (&self.key, Cause::Key)];
        let flags = flags
            .into_iter()
            .map(|(flag, cause)| (cause, if flag.swap(false, Ordering::Relaxed) { u64::MAX } else { 0 }));
        let all = flags.chain([(Cause::Request, self.socket_ns.swap(0, Ordering::Relaxed))]);
        all.filter(|(_, wanted_ns)| *wanted_ns > 0).collect()
    }
}

/// A triggered dump that waits until its time after the trigger is over.
#[derive(Debug)]
struct PendingDump {
    reasons: Vec<Reason>,
    at_ns: u64,
    /// Time to cover before `at_ns`, in nanoseconds.
    wanted_ns: u64,
}

/// The flight recorder.
#[derive(Debug)]
pub struct Recorder {
    post_ns: u64,
    host: String,
    report: report::Options,
    collector: Collector,
    clock: Watch,
    ring: Ring,
    triggers: Triggers,
    history: History,
    requests: Requests,
    pending: Option<PendingDump>,
    /// The latest sample, while a dump is pending.
    latest: Option<Arc<Sample>>,
    writer: mpsc::SyncSender<Dump>,
    /// Dumps skipped because the writer was busy.
    skipped: u64,
}

impl Recorder {
    /// A recorder without samples. Dumps go to `writer`.
    pub fn new(
        settings: &Settings,
        origin: Origin,
        report: report::Options,
        requests: Requests,
        writer: mpsc::SyncSender<Dump>,
    ) -> Self {
        Self {
            post_ns: nanos(settings.post),
            host: origin.host.as_str().to_owned(),
            report,
            collector: Collector::new(origin, None),
            clock: Watch::default(),
            ring: Ring::new(nanos(settings.keep)),
            triggers: Triggers::new(settings.on.clone(), nanos(settings.cooldown)),
            history: History::new(HISTORY_BYTES),
            requests,
            pending: None,
            latest: None,
            writer,
            skipped: 0,
        }
    }

    /// The flags that request a dump.
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Adds packet events.
    pub fn events(&mut self, events: &[EventSample]) {
        self.ring.events(events);
        self.collector.events(events.to_vec());
    }

    /// Adds a sample. Returns a message for the user if the clock stepped.
    pub fn sample(&mut self, sample: &Sample) -> Option<String> {
        let change = self.requests.change.locked().take();
        if let Some(change) = change {
            let (settings, report) = *change;
            self.post_ns = nanos(settings.post);
            self.triggers.change(settings.on, nanos(settings.cooldown));
            self.report = report;
        }
        let report = Report::build(sample, &self.report);
        let step = self.clock.take(sample);
        if let Some(Step { jump_ns, .. }) = step {
            self.collector.losses(Losses { clock_jump_ns: jump_ns, ..Losses::default() });
            self.ring.step(jump_ns, sample.time_ns);
        }
        let before = self.ring.lost();
        let rows = self.collector.take(sample, &report, step.map(|step| step.elapsed_ns));
        self.ring.push(sample.time_ns, rows);
        let notice = step.map(|step| clock_step_cost(step, before, self.ring.lost()));
        self.history.push(sample, false);
        let mut reasons = self.triggers.take(&report.findings, sample.time_ns);
        let mut wanted_ns = if reasons.is_empty() { 0 } else { u64::MAX };
        for (cause, cause_ns) in self.requests.taken() {
            wanted_ns = wanted_ns.max(cause_ns);
            reasons.push(Reason::requested(cause, sample.time_ns));
        }
        if !reasons.is_empty() {
            let empty = PendingDump { reasons: Vec::new(), at_ns: sample.time_ns, wanted_ns: 0 };
            let pending = self.pending.get_or_insert(empty);
            pending.reasons.append(&mut reasons);
            pending.wanted_ns = pending.wanted_ns.max(wanted_ns);
        }
        // Compares the distance in time, so that a backward step of the clock does not delay the dump.
        if self.pending.as_ref().is_some_and(|pending| sample.time_ns.abs_diff(pending.at_ns) >= self.post_ns)
        {
            self.dump(&Arc::new(sample.clone()), &report);
        }
        // Kept in case the source ends before the time after the trigger is over.
        self.latest = self.pending.is_some().then(|| Arc::new(sample.clone()));
        notice
    }

    /// Call at the end of the source: makes a pending dump now.
    pub fn finish(&mut self) {
        if let Some(sample) = self.latest.take() {
            let report = Report::build(&sample, &self.report);
            self.dump(&sample, &report);
        }
    }

    fn dump(&mut self, sample: &Arc<Sample>, report: &Report) {
        let Some(pending) = self.pending.take() else { return };
        let (blocks, events) = self.ring.contents(pending.at_ns.saturating_sub(pending.wanted_ns));
        let before = blocks.first().map(|block| self.collector.before(block.first_ns)).unwrap_or_default();
        let dump = Dump {
            host: self.host.clone(),
            trigger_ns: pending.at_ns,
            last_ns: sample.time_ns,
            reasons: pending.reasons,
            before,
            changed: self.collector.changed(),
            blocks,
            events,
            lost: self.ring.lost(),
            held_back: self.triggers.held_back(),
            skipped: self.skipped,
            history: self.history.clone(),
            limits: self.report.clone(),
            headline: report::text::headline(report).sentence,
            sample: Arc::clone(sample),
        };
        if self.writer.try_send(dump).is_err() {
            self.skipped += 1;
        }
    }
}

/// Sentence about the data that the recorder drops at a clock step.
fn clock_step_cost(step: Step, before: Lost, now: Lost) -> String {
    let (rows, events) = (now.rows - before.rows, now.events - before.events);
    let cost = if rows + events == 0 {
        "the flight recorder keeps what it has".to_owned()
    } else {
        let (rows, events) = (plural(rows, "row"), plural(events, "packet event"));
        format!("the flight recorder drops {rows} and {events}, which are now older than --keep")
    };
    format!("{}: {cost}", step.sentence())
}
