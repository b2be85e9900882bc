//! The exposition: Prometheus' text format 0.0.4, and OpenMetrics 1.0.
//!
//! Sample lines are the same in both formats; names and order of the comment lines above them differ.

use std::fmt::Write as _;

use super::metric::{Metric, MetricKind, Point, Series, Value};
use super::reading::Reading;
use super::registry::REGISTRY;

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
    pub fn of(families: &[Series]) -> Self {
        let mut whole = Self::default();
        for series in families {
            whole.add(series);
        }
        whole.open_metrics += "# EOF\n";
        whole
    }

    /// The exposition in one format.
    pub fn text(&self, format: Format) -> &str {
        match format {
            Format::Text => &self.text,
            Format::OpenMetrics => &self.open_metrics,
        }
    }

    /// Appends a family; one without a series is left out.
    fn add(&mut self, series: &Series) {
        let metric = series.metric();
        if series.points().next().is_none() {
            return;
        }
        let lines = lines(series);
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

/// The values of all metrics of the [`REGISTRY`].
pub fn families(reading: &Reading<'_>) -> Vec<Series> {
    let read = |metric: &'static Metric| {
        let mut series = Series::new(metric);
        (metric.read)(reading, &mut series);
        series
    };
    REGISTRY.iter().map(read).collect()
}

/// The lines of the samples of a metric.
fn lines(series: &Series) -> String {
    let name = series.metric().sample_name();
    let mut lines = String::new();
    for (labels, Point { value, .. }) in series.points() {
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
