//! Names, units and attributes of OTLP for the metrics of the registry.

use super::proto::KeyValue;
use crate::export::metric::{Metric, MetricKind};

/// First words of metric names that become a namespace: `rocescope_link_bytes` is `rocescope.link.bytes`.
const GROUPS: [&str; 11] =
    ["build", "device", "entropy", "finding", "link", "links", "otlp", "pause", "peer", "process", "qp"];

/// The OTLP name of a metric. A collector that translates it for Prometheus arrives at the name in the exposition.
pub fn name(metric: &Metric) -> String {
    let suffix = if metric.kind == MetricKind::Info { "_info" } else { "" };
    let whole = format!("{}{suffix}", metric.name);
    let rest = whole.strip_prefix("rocescope_").unwrap_or(&whole);
    match rest.split_once('_') {
        Some((first, rest)) if GROUPS.contains(&first) => format!("rocescope.{first}.{rest}"),
        _ => format!("rocescope.{rest}"),
    }
}

/// The unit of a metric in UCUM; empty without a unit.
pub fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        Some("bytes") => "By",
        Some("packets") => "{packet}",
        Some("seconds") => "s",
        Some("ratio") => "1",
        _ => "",
    }
}

/// The attribute for a label, from the OpenTelemetry semantic conventions if they define one.
pub fn attribute(label: &'static str) -> &'static str {
    match label {
        "link" | "netdev" => "network.interface.name",
        "direction" => "network.io.direction",
        "peer" => "network.peer.address",
        "pid" => "process.pid",
        other => other,
    }
}

/// Attributes of a series. A port of a device also has the hardware identifier and type of the semantic conventions.
pub fn attributes(labels: &[(&'static str, String)]) -> Vec<KeyValue> {
    let mut all: Vec<KeyValue> = labels.iter().map(|(label, value)| one(label, value)).collect();
    let of = |name: &str| labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str());
    if let Some(device) = of("device") {
        let id = of("port").map_or_else(|| device.to_owned(), |port| format!("{device}:{port}"));
        all.push(KeyValue::new("hw.id", id.as_str()));
        all.push(KeyValue::new("hw.type", "network"));
    }
    all
}

fn one(label: &'static str, value: &str) -> KeyValue {
    let key = attribute(label);
    match (label, value.parse::<i64>()) {
        ("pid", Ok(pid)) => KeyValue::new(key, pid),
        ("direction", _) => KeyValue::new(key, direction(value)),
        _ => KeyValue::new(key, value),
    }
}

/// A direction in the terms of the semantic conventions.
pub(super) fn direction(value: &str) -> &str {
    match value {
        "ingress" | "received" => "receive",
        "egress" | "sent" => "transmit",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::export::registry::REGISTRY;

    #[test]
    fn names_translate_to_those_of_the_exposition() {
        let names: BTreeSet<String> = REGISTRY.iter().map(name).collect();
        assert_eq!(names.len(), REGISTRY.len(), "a name is there twice");
        for metric in REGISTRY {
            let (name, total) =
                (name(metric), if metric.kind == MetricKind::Counter { "_total" } else { "" });
            assert_eq!(name.replace('.', "_") + total, metric.sample_name());
            // A name must not be a namespace of another name.
            let inside = format!("{name}.");
            assert!(!names.iter().any(|other| other.starts_with(&inside)), "{name}");
            // The collector would add the suffix `_ratio` to any other metric with unit `1`.
            assert_eq!(unit(metric) == "1", name.ends_with("_ratio"), "{name}");
        }
        let of = |wanted: &str| REGISTRY.iter().find(|metric| metric.name == wanted).unwrap();
        assert_eq!(name(of("rocescope_link_bytes")), "rocescope.link.bytes");
        assert_eq!(unit(of("rocescope_link_bytes")), "By");
        assert_eq!(name(of("rocescope_build")), "rocescope.build.info");
        assert_eq!(unit(of("rocescope_rtt_seconds")), "s");
    }

    #[test]
    fn attributes_follow_the_conventions() {
        let label = |name, value: &str| (name, value.to_owned());
        let port =
            attributes(&[label("device", "mlx5_0"), label("port", "1"), label("direction", "received")]);
        let expected = [
            KeyValue::new("device", "mlx5_0"),
            KeyValue::new("port", "1"),
            KeyValue::new("network.io.direction", "receive"),
            KeyValue::new("hw.id", "mlx5_0:1"),
            KeyValue::new("hw.type", "network"),
        ];
        assert_eq!(port, expected);
        let pair = attributes(&[label("link", "eth0"), label("direction", "egress"), label("pid", "17")]);
        let expected = [
            KeyValue::new("network.interface.name", "eth0"),
            KeyValue::new("network.io.direction", "transmit"),
            KeyValue::new("process.pid", 17),
        ];
        assert_eq!(pair, expected);
    }
}
