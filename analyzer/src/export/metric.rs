//! A metric, and the series that have its values: each names the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::reading::Reading;
use crate::util::layout::plain;

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Never decreases while the process runs.
    Counter,
    /// Current value.
    Gauge,
    /// Facts as labels; the value is 1.
    Info,
    /// A distribution.
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name without the suffix of its type.
    pub name: &'static str,
    /// Type.
    pub kind: MetricKind,
    /// Unit, with which the name ends; `None` without one.
    pub unit: Option<&'static str>,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Field of the report, or source, with the same figure.
    pub source: &'static str,
    /// Meaning, and when it is absent.
    pub help: &'static str,
    /// Adds the metric's series.
    pub read: fn(&Reading<'_>, &mut Series),
}

impl Metric {
    /// The name of its samples, with the suffix of its type.
    pub fn sample_name(&self) -> String {
        let suffix = match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }
}

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A count, which only rises.
    Count(u64),
    /// A gauge value.
    Number(f64),
    /// A histogram.
    Histogram {
        /// Upper bounds in seconds, ascending, each with the number of values up to it; the open bucket last.
        buckets: Vec<(f64, u64)>,
        /// Sum of the values in seconds.
        sum: f64,
    },
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// One series: a metric with its labels and value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Names and values of the labels, without empty ones.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: Value,
}

/// The series of one metric.
#[derive(Clone, Debug)]
pub struct Series {
    metric: &'static Metric,
    /// Keyed by the formatted labels, so that none occurs twice.
    points: BTreeMap<String, Point>,
}

impl Series {
    /// A family without series.
    pub fn new(metric: &'static Metric) -> Self {
        Self { metric, points: BTreeMap::new() }
    }

    /// The metric.
    pub fn metric(&self) -> &'static Metric {
        self.metric
    }

    /// The series, each with its formatted labels as a unique key.
    pub fn points(&self) -> impl Iterator<Item = (&str, &Point)> {
        self.points.iter().map(|(key, point)| (key.as_str(), point))
    }

    /// Adds a series with these label values, in the order of the metric's labels. An empty label is left out, which
    /// Prometheus treats the same. Of two series with the same labels the first stays.
    pub fn push(&mut self, values: &[&str], value: impl Into<Value>) {
        let value = value.into();
        if matches!(value, Value::Number(number) if !number.is_finite()) {
            return;
        }
        let known = self.metric.labels.iter().zip(values).filter(|(_, value)| !value.is_empty());
        // Label values come from packets, processes and files, so they are escaped.
        let labels: Vec<_> = known.map(|(name, value)| (*name, plain(value))).collect();
        let mut written = String::new();
        for (name, value) in &labels {
            let comma = if written.is_empty() { "" } else { "," };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(written, "{comma}{name}=\"{value}\"");
        }
        self.points.entry(written).or_insert(Point { labels, value });
    }

    /// Like [`push`](Self::push), but without a series if the value is unknown, never 0.
    pub fn known(&mut self, values: &[&str], value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.push(values, value);
        }
    }
}
