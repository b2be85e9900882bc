//! Rows from successive reports: the counts in between. Pure: time comes from the samples.
//!
//! Counts of a flow are differences of two reports. A flow with a later first packet or with decreased counters is a
//! new flow. A figure that a later packet corrects (a loss that proves to be reordering) gives a negative difference,
//! so that sums over rows equal the figures of the report.

mod device;
mod event;
mod finding;
mod flow;
mod link;
mod qp;
mod rollup;
pub(crate) mod step;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use crate::analysis::{DeviceQp, rail_of};
use crate::report::Report;
use crate::sample::{EventSample, Sample};
use crate::util::shared::Shared;

use super::cell::Time;
use super::registry::{Host, Rows};
use super::store::Losses;

/// Longest interval between two rows of `hosts`.
const HOST_EVERY_NS: u64 = 60_000_000_000;

/// Origin of the rows.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Name of the host.
    pub host: Shared,
    /// Job of the host: given by the user, or of the environment, which owning processes override.
    pub job: Option<Shared>,
    /// The user gave the job, for all rows.
    pub is_job_given: bool,
    /// Extracts the job from a pod label of the report; `None` if the pod belongs to no job.
    pub job_of: fn(&str) -> Option<&str>,
    /// Kernel release; `None` for captures.
    pub kernel: Option<Shared>,
    /// Reads the state of the kernel's clock; `None` for captures.
    pub clock: fn() -> Option<Clock>,
}

/// Synchronisation of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A daemon keeps the clock synchronised.
    pub synchronised: bool,
    /// Remaining correction, in nanoseconds; positive if the clock is slow.
    pub offset_ns: i64,
    /// Maximum error, in nanoseconds.
    pub most_ns: u64,
}

/// Time range that the rows of one sample cover.
#[derive(Clone, Copy, Debug)]
struct Interval {
    t: Time,
    /// Length, in nanoseconds.
    ns: u64,
    /// Begin, Unix nanoseconds.
    from_ns: u64,
    /// The clock stepped during the interval.
    is_stepped: bool,
}

/// Turns reports into rows.
#[derive(Debug)]
pub struct Collector {
    origin: Origin,
    rollup: Option<rollup::Rollup>,
    /// Rails by link, as the user names them.
    rails: Vec<(String, String)>,
    /// Longest interval; `None` without a limit.
    most_ns: Option<u64>,
    /// Time of the first sample.
    started: Option<Time>,
    /// Time of the latest sample.
    last_ns: Option<u64>,
    /// The same by the clock that does not step.
    last_steady_ns: Option<u64>,
    /// Time since the beginning, in nanoseconds.
    passed_ns: u64,
    flows: flow::Flows,
    links: link::Links,
    devices: device::Devices,
    qps: qp::Qps,
    findings: finding::Findings,
    events: event::Events,
    steps: step::Steps,
    /// Totals at the latest row of `hosts`.
    host: Option<Totals>,
    /// The row since then, which is not due.
    host_waits: Option<Host>,
    /// Unrecorded packets since that row.
    unrecorded_packets: u64,
    losses: Losses,
}

/// Cumulative counts of `hosts`.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    time_ns: u64,
    /// Time since the beginning of the recording, in nanoseconds.
    passed_ns: u64,
    counts: [u64; 5],
    own_losses: [Option<u64>; 3],
}

impl Totals {
    fn of(sample: &Sample, report: &Report, passed_ns: u64) -> Self {
        let totals = &report.facts.totals;
        let lost = &totals.lost;
        Self {
            time_ns: sample.time_ns,
            passed_ns,
            counts: [
                totals.packets,
                totals.roce_packets,
                totals.retired.flows,
                lost.flow_table_full,
                lost.contended,
            ],
            own_losses: [lost.events_dropped, lost.capture_drops, lost.interface_drops],
        }
    }
}

impl Collector {
    /// A collector without samples. `rollup_ns` is the interval of `flow_rollup`, if recorded.
    pub fn new(origin: Origin, rollup_ns: Option<u64>) -> Self {
        Self {
            origin,
            rollup: rollup_ns.map(rollup::Rollup::new),
            rails: Vec::new(),
            most_ns: None,
            started: None,
            last_ns: None,
            last_steady_ns: None,
            passed_ns: 0,
            flows: flow::Flows::default(),
            links: link::Links::default(),
            devices: device::Devices::default(),
            qps: qp::Qps::default(),
            findings: finding::Findings::default(),
            events: event::Events::default(),
            steps: step::Steps::default(),
            host: None,
            host_waits: None,
            unrecorded_packets: 0,
            losses: Losses::default(),
        }
    }

    /// The same, with rails by link.
    #[must_use]
    pub fn with_rails(self, rails: Vec<(String, String)>) -> Self {
        Self { rails, ..self }
    }

    /// The same, with samples of a capture at this interval. A capture has none in a silence: what is new at the next
    /// one is of its last interval.
    #[must_use]
    pub fn with_interval(self, interval_ns: Option<u64>) -> Self {
        Self { most_ns: interval_ns, ..self }
    }

    /// Adds packet events; their rows are written with the next sample.
    pub fn events(&mut self, events: Vec<EventSample>) {
        self.events.take(events);
    }

    /// Adds losses of the recording itself to the next row of `hosts`.
    pub fn losses(&mut self, losses: Losses) {
        self.losses.add(losses);
    }

    /// The rows between the previous sample and this one. `elapsed_ns` is the true time between them if the clock
    /// stepped.
    #[must_use]
    pub fn take(&mut self, sample: &Sample, report: &Report, elapsed_ns: Option<u64>) -> Rows {
        let begin = self.last_ns.or(report.facts.window.first_ns).unwrap_or(sample.time_ns);
        // Also where the clock is set by less than a step.
        let steady = sample.steady_ns.zip(self.last_steady_ns);
        let steady_ns = steady.map(|(now_ns, last_ns)| now_ns.saturating_sub(last_ns));
        let ns = elapsed_ns.or(steady_ns).unwrap_or_else(|| sample.time_ns.saturating_sub(begin));
        self.passed_ns += ns;
        let ns = self.most_ns.map_or(ns, |most_ns| ns.min(most_ns));
        let at = Interval {
            t: Time(sample.time_ns),
            ns,
            from_ns: sample.time_ns.saturating_sub(ns),
            is_stepped: elapsed_ns.is_some(),
        };
        self.find_job(report);
        self.last_ns = Some(sample.time_ns);
        self.last_steady_ns = sample.steady_ns;
        self.started.get_or_insert(at.t);
        let mut rows = Rows::default();
        let rails = rails(report, &self.rails);
        self.flows.take(&self.origin, at, sample, report, &rails, &mut rows.flow_seconds);
        let unrecorded = self.links.take(&self.origin, at, sample, report, &rails, &mut rows);
        self.unrecorded_packets += unrecorded;
        self.losses.events_left_out += self.devices.take(&self.origin, at, (sample, report), &mut rows);
        self.qps.take(&self.origin, at, (sample, report), &rails, &mut rows.qp_seconds);
        self.losses.events_left_out += self.events.rows(&self.origin, sample, &mut rows.events);
        self.findings.take(&self.origin, at, report, &mut rows.findings);
        self.steps.take(&self.origin, at, sample.steady_ns.is_some(), report, &mut rows.steps);
        if let Some(rollup) = &mut self.rollup {
            rollup.take(&rows.flow_seconds, &mut rows.flow_rollup);
        }
        self.host_row(sample, report, &mut rows);
        rows
    }

    /// Sets the job of the host, unless given by the user: the job of the flow with the most bytes, else of the queue
    /// pair with the most packets, else the last known job.
    fn find_job(&mut self, report: &Report) {
        if self.origin.is_job_given {
            return;
        }
        let job_of = self.origin.job_of;
        let facts = &report.facts;
        let flows = facts.flows.iter().filter_map(|flow| Some((flow.bytes, job_of(flow.pod.as_deref()?)?)));
        let moved =
            |qp: &DeviceQp| qp.sent_packets.unwrap_or(0).saturating_add(qp.received_packets.unwrap_or(0));
        let qps = facts.devices.iter().flat_map(|device| &device.qps);
        let qps = qps.filter(|qp| !qp.control.is_over() && moved(qp) > 0);
        let qps = qps.filter_map(|qp| Some((moved(qp), job_of(qp.pod.as_deref()?)?)));
        let most = flows.max_by_key(|(bytes, _)| *bytes).or_else(|| qps.max_by_key(|(packets, _)| *packets));
        if let Some((_, job)) = most
            && self.origin.job.as_deref() != Some(job)
        {
            self.origin.job = Some(job.into());
        }
    }

    /// Rows that wait, as they would be if the run ended now: those of an interval that is not over, of the minute of a
    /// host, of findings whose figures have changed, and of the last step.
    pub fn unfinished(&self) -> Rows {
        Rows {
            flow_rollup: self.rollup.as_ref().map(rollup::Rollup::unfinished).unwrap_or_default(),
            findings: self.findings.changed().collect(),
            hosts: self.host_waiting().into_iter().collect(),
            steps: self.steps.last().cloned().into_iter().collect(),
            ..Rows::default()
        }
    }

    /// What the rows since `first_ns` do not say, as rows of that time: findings and queue pairs that have not changed
    /// since then, and the host, which has a row each minute.
    pub fn before(&self, first_ns: u64) -> Rows {
        let host = self.host_waits.iter().filter(|_| self.host.is_some_and(|last| last.time_ns < first_ns));
        Rows {
            findings: self.findings.before(first_ns).collect(),
            qp_lives: self.devices.before(first_ns).collect(),
            hosts: host.map(|row| Host { t: Time(first_ns), ..row.clone() }).collect(),
            ..Rows::default()
        }
    }

    /// Rows of the findings whose figures have changed since their latest row.
    pub fn changed(&self) -> Rows {
        Rows { findings: self.findings.changed().collect(), ..Rows::default() }
    }

    /// Rows that were waiting for the end of an interval.
    #[must_use]
    pub fn finish(&mut self) -> Rows {
        let mut rows = Rows::default();
        rows.findings.extend(self.findings.changed());
        self.steps.finish(&mut rows.steps);
        self.host_due(&mut rows);
        if let Some(rollup) = &mut self.rollup {
            rollup.finish(&mut rows.flow_rollup);
        }
        rows
    }

    fn host_row(&mut self, sample: &Sample, report: &Report, rows: &mut Rows) {
        let now = Totals::of(sample, report, self.passed_ns);
        let before = self.host.unwrap_or_default();
        let grew =
            |now: Option<u64>, before: Option<u64>| now.map(|now| now.saturating_sub(before.unwrap_or(0)));
        let counts: Vec<u64> =
            now.counts.iter().zip(before.counts).map(|(now, before)| now.saturating_sub(before)).collect();
        let &[packets, roce_packets, retired_flows, flow_table_full, contended] = counts.as_slice() else {
            return;
        };
        let [events_dropped, capture_drops, interface_drops] =
            std::array::from_fn(|at| grew(now.own_losses[at], before.own_losses[at]));
        let lost = flow_table_full
            + contended
            + [events_dropped, capture_drops, interface_drops].into_iter().flatten().sum::<u64>();
        let since = now.passed_ns.saturating_sub(before.passed_ns);
        let is_due =
            self.host.is_none() || lost > 0 || self.losses != Losses::default() || since >= HOST_EVERY_NS;
        let facts = &report.facts;
        let clock = (self.origin.clock)();
        let synchronised = clock.filter(|clock| clock.synchronised);
        let row = Host {
            t: Time(now.time_ns),
            interval_ns: since,
            host: self.origin.host.clone(),
            job: self.origin.job.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: self.origin.kernel.clone(),
            source: facts.source.kind.name().into(),
            inputs: facts.source.inputs.join(",").as_str().into(),
            devices: devices(report),
            packets,
            roce_packets,
            retired_flows,
            flow_table_full,
            contended,
            events_dropped,
            capture_drops,
            interface_drops,
            unrecorded_packets: 0,
            rows_lost: 0,
            events_left_out: 0,
            clock_jump_ns: 0,
            clock_synchronised: clock.map(|clock| clock.synchronised.into()),
            clock_offset_ns: synchronised.map(|clock| clock.offset_ns),
            clock_error_ns: synchronised.map(|clock| clock.most_ns),
            started: self.started,
        };
        self.host_waits = Some(row);
        if is_due {
            self.host = Some(now);
            self.host_due(rows);
        }
    }

    /// The row that waits, with what the recording itself has lost until now.
    fn host_waiting(&self) -> Option<Host> {
        self.host_waits.clone().map(|row| Host {
            unrecorded_packets: self.unrecorded_packets,
            rows_lost: self.losses.rows,
            events_left_out: self.losses.events_left_out,
            clock_jump_ns: self.losses.clock_jump_ns,
            ..row
        })
    }

    /// Writes the row that waits.
    fn host_due(&mut self, rows: &mut Rows) {
        let Some(row) = self.host_waiting() else { return };
        rows.hosts.push(row);
        self.host_waits = None;
        (self.unrecorded_packets, self.losses) = (0, Losses::default());
    }
}

/// RDMA devices with their drivers; `None` without any.
fn devices(report: &Report) -> Option<Shared> {
    let mut devices: Vec<String> = report
        .facts
        .devices
        .iter()
        .map(|device| match &device.driver {
            Some(driver) => format!("{} ({driver})", device.name),
            None => device.name.clone(),
        })
        .collect();
    devices.dedup();
    (!devices.is_empty()).then(|| devices.join(",").as_str().into())
}

/// Rails by link name: those named, of which the report has none where it is the only one.
fn rails<'a>(report: &'a Report, named: &[(String, String)]) -> BTreeMap<&'a str, Shared> {
    let all = report.facts.rails.iter().flat_map(|rails| &rails.rails);
    let of_report =
        all.flat_map(|rail| rail.links.iter().map(|link| (link.as_str(), rail.name.as_str().into())));
    let links = report.facts.links.iter().map(|link| link.name.as_str());
    let named = links.filter_map(|link| Some((link, rail_of(link, named)?.into())));
    of_report.chain(named).collect()
}

impl Origin {
    /// The job of a process in a pod.
    fn job(&self, pod: Option<&str>) -> Option<Shared> {
        let own = pod.filter(|_| !self.is_job_given).and_then(self.job_of);
        own.map(Shared::from).or_else(|| self.job.clone())
    }
}

/// Text for a column.
fn text(text: Option<&str>) -> Option<Shared> {
    text.map(Shared::from)
}

/// Values by name in JSON, for a column; `None` without any.
fn json<'a>(named: impl Iterator<Item = (&'a str, serde_json::Value)>) -> Option<Shared> {
    let named: serde_json::Map<String, serde_json::Value> =
        named.map(|(name, value)| (name.to_owned(), value)).collect();
    (!named.is_empty()).then(|| serde_json::Value::Object(named).to_string().as_str().into())
}
