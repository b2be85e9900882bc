//! The flows as rows of a CSV file (`--output csv`).
//!
//! Columns are fixed in number and order, with the unit in the name. Unknown is empty, and no cell can be interpreted
//! as a formula.

use std::io::{self, Write};

use serde_json::Value;

use super::columns::{COLUMNS, Context, FINDINGS};
use crate::report::Report;
use crate::util::csv;

/// Writes a header line, and a line per flow.
///
/// # Errors
/// An error of writing to `out`.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let context = Context::of(report);
    out.write_all(csv::line(COLUMNS.iter().map(|column| column.name.to_owned())).as_bytes())?;
    for (at, flow) in report.facts.flows.iter().enumerate() {
        let cells = COLUMNS.iter().map(|column| match column.name {
            FINDINGS => csv::cell(&Value::String(context.findings_of(at).join(" "))),
            _ => csv::cell(&(column.get)(flow, &context)),
        });
        out.write_all(csv::line(cells).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::everything;
    use crate::report::Options;

    fn report() -> Report {
        Report::build(&everything(), &Options::default())
    }

    fn written(report: &Report) -> Vec<Vec<String>> {
        let mut text = Vec::new();
        write(report, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn a_row_per_flow_with_units_in_the_names_and_nothing_for_unknown() {
        let report = report();
        let rows = written(&report);
        assert_eq!(rows.len(), 1 + report.facts.flows.len());
        assert!(rows.iter().all(|row| row.len() == COLUMNS.len()));
        let column = |name: &str| rows[0].iter().position(|one| one == name).unwrap();
        for (row, flow) in rows[1..].iter().zip(&report.facts.flows) {
            assert_eq!(row[column("bytes")], flow.bytes_once().to_string());
            assert_eq!(row[column("ce_ratio")].is_empty(), flow.ce_ratio.is_none());
            assert_eq!(row[column("dest_qp")], flow.dest_qp.to_string());
            let p99 =
                flow.latency_ns.as_deref().filter(|latency| latency.count >= 100).map(|latency| latency.p99);
            assert_eq!(row[column("latency_p99_ns")], p99.map_or_else(String::new, |ns| ns.to_string()));
        }
        let named: Vec<_> = report.findings.iter().flat_map(|finding| &finding.flows).collect();
        assert!(!named.is_empty(), "the example has findings of flows");
        let marked = rows[1..].iter().filter(|row| !row[column(FINDINGS)].is_empty()).count();
        assert!(marked > 0 && marked <= named.len());
    }

    #[test]
    fn names_from_outside_are_no_formulas_and_no_control_characters() {
        let mut report = report();
        report.facts.flows[0].comm = Some("=cmd|'/C calc'!A0".into());
        report.facts.flows[0].pod = Some("\t+1\r\u{202e}".into());
        report.facts.flows[0].link = "@SUM(A1)".into();
        let row = written(&report).swap_remove(1);
        assert_eq!(row[0], "'@SUM(A1)");
        assert_eq!(row[COLUMNS.len() - 2], "'=cmd|'/C calc'!A0");
        assert_eq!(row[COLUMNS.len() - 1], "\u{fffd}+1\u{fffd}\u{fffd}");
    }

    #[test]
    fn names_are_distinct_and_say_their_unit() {
        use crate::findings::Unit;
        let mut names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS.len());
        for column in COLUMNS {
            let endings: &[&str] = match column.unit {
                Unit::Nanoseconds | Unit::Time => &["_ns"],
                Unit::Bytes => &["bytes"],
                Unit::Ratio => &["_ratio"],
                Unit::BitsPerSecond => &["_bits_per_s"],
                _ => continue,
            };
            assert!(endings.iter().any(|ending| column.name.ends_with(ending)), "{}", column.name);
        }
    }
}
