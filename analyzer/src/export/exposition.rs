//! The exposition: Prometheus' text format 0.0.4, and OpenMetrics 1.0.
//!
//! Sample lines are the same in both formats; names and order of the comment lines above them differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Reading;
use super::registry::{Metric, MetricKind, REGISTRY};
use crate::util::layout::plain;

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The media type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One exposition in both formats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposition {
    text: String,
    open_metrics: String,
}

impl Exposition {
    /// Renders these metrics in both formats.
    #[must_use]
    pub fn of(families: &[Series]) -> Self {
        let mut whole = Self::default();
        for series in families {
            whole.add(series);
        }
        whole.open_metrics += "# EOF\n";
        whole
    }

    /// The exposition in one format.
    #[must_use]
    pub fn text(&self, format: Format) -> &str {
        match format {
            Format::Text => &self.text,
            Format::OpenMetrics => &self.open_metrics,
        }
    }

    /// Appends a family; one without a series is left out.
    fn add(&mut self, series: &Series) {
        let metric = series.metric;
        if series.points.is_empty() {
            return;
        }
        let lines = series.lines();
        let sample = metric.sample_name();
        let help = metric.help.replace('\\', "\\\\");
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            // Prometheus' text format has no type `info`.
            MetricKind::Gauge | MetricKind::Info => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // Writing to a String cannot fail.
        let _ = write!(self.text, "# HELP {sample} {help}\n# TYPE {sample} {kind}\n{lines}");
        let (name, kind) = (metric.name, if metric.kind == MetricKind::Info { "info" } else { kind });
        let _ = writeln!(self.open_metrics, "# TYPE {name} {kind}");
        if let Some(unit) = metric.unit {
            let _ = writeln!(self.open_metrics, "# UNIT {name} {unit}");
        }
        let help = help.replace('"', "\\\"");
        let _ = write!(self.open_metrics, "# HELP {name} {help}\n{lines}");
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

/// The values of all metrics of the [`REGISTRY`].
#[must_use]
pub fn families(reading: &Reading<'_>) -> Vec<Series> {
    let read = |metric: &'static Metric| {
        let mut series = Series::new(metric);
        (metric.read)(reading, &mut series);
        series
    };
    REGISTRY.iter().map(read).collect()
}

impl Series {
    /// A family without series.
    #[must_use]
    pub fn new(metric: &'static Metric) -> Self {
        Self { metric, points: BTreeMap::new() }
    }

    /// The metric.
    #[must_use]
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

    fn lines(&self) -> String {
        let name = self.metric.sample_name();
        let mut lines = String::new();
        for (labels, Point { value, .. }) in &self.points {
            let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _ = match value {
                Value::Count(count) => writeln!(lines, "{name}{braced} {count}"),
                Value::Number(number) => writeln!(lines, "{name}{braced} {number}"),
                Value::Histogram { buckets, sum } => {
                    let comma = if labels.is_empty() { "" } else { "," };
                    for (bound, count) in buckets {
                        let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
                        let _ = writeln!(lines, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
                    }
                    let count = buckets.last().map_or(0, |(_, count)| *count);
                    writeln!(lines, "{name}_sum{braced} {sum}\n{name}_count{braced} {count}")
                }
            };
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(kind: MetricKind, unit: Option<&'static str>) -> &'static Metric {
        Box::leak(Box::new(Metric {
            name: "rocescope_x_bytes",
            kind,
            unit,
            labels: &["link", "peer"],
            source: "",
            help: "Back\\slash and \"quotes\".",
            read: |_, _| {},
        }))
    }

    fn exposed(metric: &'static Metric, fill: impl Fn(&mut Series)) -> Exposition {
        let mut whole = Exposition::default();
        let mut series = Series::new(metric);
        fill(&mut series);
        whole.add(&series);
        whole
    }

    #[test]
    fn both_formats_of_a_counter() {
        let metric = metric(MetricKind::Counter, Some("bytes"));
        let both = exposed(metric, |series| {
            series.push(&["b", ""], 7);
            series.push(&["a\"\\\n\u{1b}", "p"], 2.5);
            series.push(&["b", ""], 9);
            series.known(&["c", "d"], None::<u64>);
            series.push(&["e", "f"], f64::NAN);
        });
        let lines = "rocescope_x_bytes_total{link=\"a\\\"\\\\\u{fffd}\u{fffd}\",peer=\"p\"} 2.5\n\
                     rocescope_x_bytes_total{link=\"b\"} 7\n";
        assert_eq!(
            both.text(Format::Text),
            format!(
                "# HELP rocescope_x_bytes_total Back\\\\slash and \"quotes\".\n\
                 # TYPE rocescope_x_bytes_total counter\n{lines}"
            )
        );
        assert_eq!(
            both.text(Format::OpenMetrics),
            format!(
                "# TYPE rocescope_x_bytes counter\n# UNIT rocescope_x_bytes bytes\n\
                 # HELP rocescope_x_bytes Back\\\\slash and \\\"quotes\\\".\n{lines}"
            )
        );
    }

    #[test]
    fn a_histogram_ends_with_the_open_bucket() {
        let metric = metric(MetricKind::Histogram, None);
        let both = exposed(metric, |series| {
            let buckets = vec![(0.000_002_048, 1), (f64::INFINITY, 3)];
            series.push(&["", ""], Value::Histogram { buckets, sum: 1.5 });
        });
        assert!(
            both.text(Format::Text).ends_with(
                "rocescope_x_bytes_bucket{le=\"0.000002048\"} 1\nrocescope_x_bytes_bucket{le=\"+Inf\"} 3\n\
                 rocescope_x_bytes_sum 1.5\nrocescope_x_bytes_count 3\n"
            ),
            "{both:?}"
        );
    }

    #[test]
    fn a_metric_without_series_is_absent() {
        assert_eq!(exposed(metric(MetricKind::Gauge, None), |_| {}), Exposition::default());
    }
}
