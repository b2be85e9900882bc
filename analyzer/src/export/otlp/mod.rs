//! OTLP: the metrics of the registry, and findings as log records, over HTTP with protobuf.
//!
//! | module | contents |
//! |---|---|
//! | [`settings`] | the standard environment variables and `--otlp` as targets; pure |
//! | [`names`] | names, units and attributes |
//! | [`proto`] | the protobuf messages |
//! | [`findings`] | log records of findings that begin, change or end |
//! | [`queue`] | requests that wait for the collector, bounded; retries; pure |
//! | [`send`] | a thread for each signal |

pub mod findings;
pub mod names;
pub mod proto;
pub mod queue;
pub mod send;
pub mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prost::Message as _;

use self::findings::Findings;
use self::proto::{
    CUMULATIVE, Data, Gauge, Histogram, HistogramPoint, LogsRequest, Metric, MetricsRequest, Number,
    NumberPoint, Resource, ResourceLogs, ResourceMetrics, Scope, ScopeLogs, ScopeMetrics, Sum,
};
use super::metric::{MetricKind, Point, Series, Value};
use crate::report::Report;

/// Turns samples into requests. Samples must arrive in the order in which they were taken.
#[derive(Debug)]
pub struct Encoder {
    resource: Resource,
    /// Start time of each series of the latest sample.
    starts: BTreeMap<(&'static str, String), u64>,
    /// Time of the latest sample, Unix nanoseconds.
    last_ns: Option<u64>,
    findings: Findings,
}

/// The requests for one sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// An encoded `ExportMetricsServiceRequest`; empty if none is due.
    pub metrics: Vec<u8>,
    /// An encoded `ExportLogsServiceRequest`, if a finding began, changed or ended.
    pub logs: Option<Vec<u8>>,
    /// Size of a backward clock step since the previous sample, in nanoseconds.
    pub back_ns: Option<u64>,
}

impl Encoder {
    /// An encoder that has sent nothing.
    pub fn new(resource: Resource) -> Self {
        Self { resource, starts: BTreeMap::new(), last_ns: None, findings: Findings::default() }
    }

    /// The requests for a sample at Unix time `time_ns`, with all series of the registry and its report.
    #[must_use]
    pub fn take(&mut self, families: &[Series], report: &Report, time_ns: u64) -> Requests {
        let began_ns = report.facts.window.first_ns.unwrap_or(time_ns);
        let back_ns = self.last_ns.filter(|last_ns| *last_ns > time_ns).map(|last_ns| last_ns - time_ns);
        if back_ns.is_some() {
            // After a backward step, old start times would lie after the time of a point.
            self.starts.clear();
        }
        // A series that appears had no value at the previous sample, so it starts there.
        let new_ns = self.last_ns.filter(|last_ns| *last_ns < time_ns).unwrap_or(began_ns).min(time_ns);
        let mut starts = BTreeMap::new();
        let mut metrics = Vec::new();
        for series in families {
            let mut points = Vec::new();
            for (labels, point) in series.points() {
                let key = (series.metric().name, labels.to_owned());
                let start_ns = self.starts.get(&key).copied().unwrap_or(new_ns);
                starts.insert(key, start_ns);
                points.push((point, start_ns));
            }
            if !points.is_empty() {
                metrics.push(metric(series, &points, time_ns));
            }
        }
        self.starts = starts;
        self.last_ns = Some(time_ns);
        let records = self.findings.take(&report.findings, time_ns);
        let logs = (!records.is_empty()).then(|| {
            let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records: records }];
            let resource = Some(self.resource.clone());
            LogsRequest { resource_logs: vec![ResourceLogs { resource, scope_logs }] }.encode_to_vec()
        });
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
        let resource = Some(self.resource.clone());
        let request = MetricsRequest { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] };
        Requests { metrics: request.encode_to_vec(), logs, back_ns }
    }
}

fn scope() -> Scope {
    Scope { name: "rocescope".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn metric(series: &Series, points: &[(&Point, u64)], time_ns: u64) -> Metric {
    let of = series.metric();
    let numbers = |with_start: bool| {
        let number = |(point, start_ns): &(&Point, u64)| {
            number(point, if with_start { *start_ns } else { 0 }, time_ns)
        };
        points.iter().filter_map(number).collect()
    };
    let data = match of.kind {
        MetricKind::Counter => Data::Sum(Sum {
            data_points: numbers(true),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        MetricKind::Gauge | MetricKind::Info => Data::Gauge(Gauge { data_points: numbers(false) }),
        MetricKind::Histogram => Data::Histogram(Histogram {
            data_points: points
                .iter()
                .filter_map(|(point, start_ns)| histogram(point, *start_ns, time_ns))
                .collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    let (name, unit) = (names::name(of), names::unit(of).to_owned());
    Metric { name, description: of.help.to_owned(), unit, data: Some(data) }
}

fn number(point: &Point, start_time_unix_nano: u64, time_unix_nano: u64) -> Option<NumberPoint> {
    let value = match &point.value {
        Value::Count(count) => Number::Int(i64::try_from(*count).unwrap_or(i64::MAX)),
        Value::Number(number) => Number::Double(*number),
        Value::Histogram { .. } => return None,
    };
    let attributes = names::attributes(&point.labels);
    Some(NumberPoint { start_time_unix_nano, time_unix_nano, value: Some(value), attributes })
}

fn histogram(point: &Point, start_time_unix_nano: u64, time_unix_nano: u64) -> Option<HistogramPoint> {
    let Value::Histogram { buckets, sum } = &point.value else { return None };
    // Counts of the exposition are cumulative over buckets; those of OTLP are not.
    let mut below = 0;
    let mut bucket_counts = Vec::new();
    for (_, count) in buckets {
        bucket_counts.push(count.saturating_sub(below));
        below = *count;
    }
    Some(HistogramPoint {
        start_time_unix_nano,
        time_unix_nano,
        count: below,
        sum: Some(*sum),
        bucket_counts,
        explicit_bounds: buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect(),
        attributes: names::attributes(&point.labels),
    })
}
