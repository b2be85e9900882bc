//! Cells of answers in words.

use serde_json::Value;

use super::question::{Column, Unit};
use super::{Row, number, text, whole};
use crate::util::layout::{plain, tap_name};
use crate::util::time::NS_PER_MS;
use crate::util::units;

/// A time in Unix milliseconds, to the second if it is one.
pub(super) fn time(ms: f64) -> String {
    let ms = whole(ms.round());
    let time = units::time_utc(ms.saturating_mul(NS_PER_MS));
    let length = if ms.is_multiple_of(1_000) { 19 } else { 23 };
    time.get(..length).unwrap_or_default().to_owned()
}

/// A cell in readable form.
pub(super) fn cell(row: &Row, column: &Column) -> String {
    let unit = match column.unit {
        Unit::OfMetric if text(row, "metric") == "latency" => Unit::Duration,
        Unit::OfMetric => Unit::Ratio,
        unit => unit,
    };
    if unit == Unit::Flag {
        return if row.get(column.name) == Some(&Value::Bool(true)) { "yes" } else { units::UNKNOWN }
            .to_owned();
    }
    if unit == Unit::Text {
        let value = text(row, column.name);
        // A link recorded from a capture has the name of the file, which views shorten.
        return if value.is_empty() { units::UNKNOWN.to_owned() } else { plain(&tap_name(value)) };
    }
    let Some(value) = number(row, column.name) else { return units::UNKNOWN.to_owned() };
    let is_bound = column.bound.is_some_and(|flag| row.get(flag) == Some(&Value::Bool(true)));
    let shown = match unit {
        Unit::Count => units::count(whole(value)),
        Unit::Bytes => units::bytes(whole(value)),
        Unit::Rate => units::bit_rate(value * 8.0),
        Unit::Ratio => ratio(value),
        Unit::Times => format!("{} ×", three_digits(value)),
        Unit::Duration => units::duration(whole(value)),
        Unit::Score if value >= 1e3 => units::count(whole(value)),
        Unit::Score => format!("{value:.1}"),
        Unit::Time => time(value * 1e3),
        Unit::Text | Unit::Flag | Unit::OfMetric => units::UNKNOWN.to_owned(),
    };
    if is_bound { format!("≥ {shown}") } else { shown }
}

/// A number with two decimals, or fewer where three digits come before them.
fn three_digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => units::count(whole(value)),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A fraction, with enough digits for loss ratios, which are far below a percent.
pub(super) fn ratio(value: f64) -> String {
    match value {
        value if value < 0.0 => format!("−{}", ratio(-value)),
        value if value > 0.0 && value < 1e-8 => "<0.01 ppm".to_owned(),
        value if value > 0.0 && value < 1e-4 => format!("{} ppm", three_digits(1e6 * value)),
        value => units::ratio(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::answer::tests::row;
    use crate::fleet::question::Question;

    #[test]
    fn cells_have_units_and_unknown_is_a_dash() {
        let found =
            row(json!({"metric": "latency", "figure": 57598.5, "place": "a\u{1b}[2Jb", "times": null}));
        let shown = |name: &str| {
            let column = Question::Slow.columns().iter().find(|column| column.name == name).unwrap();
            cell(&found, column)
        };
        assert_eq!(shown("figure"), "57.6 µs");
        assert_eq!(
            (shown("place").as_str(), shown("times").as_str(), shown("job").as_str()),
            ("a\u{fffd}[2Jb", "-", "-")
        );
        let packets = Question::Timeline.columns().iter().find(|column| column.bound.is_some()).unwrap();
        let mut slot = row(json!({"qp_packets_per_s": 1_500.0, "qp_packets_lower_bound": null}));
        assert_eq!(cell(&slot, packets), "1,500");
        slot.insert("qp_packets_lower_bound".to_owned(), json!(true));
        assert_eq!(cell(&slot, packets), "≥ 1,500");
        let of_capture = row(json!({"place": "leaf1.uA0.pcap.gz"}));
        let column = Question::Slow.columns().iter().find(|column| column.name == "place").unwrap();
        assert_eq!(cell(&of_capture, column), "leaf1.uA0");
        let far = row(json!({"metric": "CE", "times": 1_961.71, "z": 47_918.0}));
        let of_slow =
            |name: &str| Question::Slow.columns().iter().find(|column| column.name == name).unwrap();
        assert_eq!(["times", "z"].map(|name| cell(&far, of_slow(name))), ["1,962 ×", "47,918"]);
        assert_eq!([12.47, 99.96, 1.0].map(three_digits), ["12.5", "100", "1.00"]);
        let ratios = [0.002, 6.2e-6, 3e-9, 0.0, -0.1].map(ratio);
        assert_eq!(ratios, ["0.20 %", "6.20 ppm", "<0.01 ppm", "0 %", "−10.0 %"]);
    }
}
