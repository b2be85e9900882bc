//! The flows, then the queue pairs of NICs, as rows of a CSV file (`--output csv`).
//!
//! Columns are fixed in number and order, with the unit in the name. Unknown is empty, and no cell can be interpreted
//! as a formula.

use std::io::{self, Write};

use serde_json::Value;

use super::columns::{COLUMNS, Context, FINDINGS};
use crate::report::Report;
use crate::util::csv;

/// Writes a header line, a line per flow, and a line per queue pair of a NIC.
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
    for device in &report.facts.devices {
        for qp in &device.qps {
            let cells = COLUMNS.iter().map(|column| csv::cell(&(column.of_qp)(device, qp)));
            out.write_all(csv::line(cells).as_bytes())?;
        }
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
            assert_eq!(row[column("bytes")], flow.bytes_dedup().to_string());
            assert_eq!(row[column("ce_ratio")].is_empty(), flow.ce_ratio().is_none());
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
        assert_eq!(row[at("comm")], "'=cmd|'/C calc'!A0");
        assert_eq!(row[at("pod")], "\u{fffd}+1\u{fffd}\u{fffd}");
    }

    fn at(name: &str) -> usize {
        COLUMNS.iter().position(|column| column.name == name).unwrap()
    }

    #[test]
    fn a_queue_pair_of_a_nic_is_a_row_with_its_sources() {
        let report = crate::report::schema::full::full();
        let rows = written(&report);
        let qps: Vec<_> = report.facts.devices.iter().flat_map(|device| &device.qps).collect();
        assert!(!qps.is_empty());
        assert_eq!(rows.len(), 1 + report.facts.flows.len() + qps.len());
        let (flows, of_qps) = rows[1..].split_at(report.facts.flows.len());
        assert!(flows.iter().all(|row| row[at("sources")] == "packets" && row[at("device")].is_empty()));
        let row = &of_qps[0];
        for (name, value) in [
            ("device", "mlx5_0"),
            ("sources", "netlink control_path devx context posts packets"),
            ("src", "10.0.0.1"),
            ("src_qp", "17"),
            ("dst", "10.0.0.2"),
            ("dest_qp", "18"),
            ("udp_port", "49152"),
            ("path_mtu_bytes", "4096"),
            ("timeout_ns", "67108864"),
            ("sent_packets", "1"),
            ("comm", "train"),
            // They are of flows alone.
            ("packets", ""),
            ("bytes", ""),
            ("lost_packets", ""),
        ] {
            assert_eq!(row[at(name)], value, "{name}");
        }
    }

    #[test]
    fn what_is_not_known_of_a_queue_pair_is_empty_and_its_names_are_no_formulas() {
        let mut report = report();
        let comm = Some("@SUM(1)".to_owned());
        let qp = crate::analysis::DeviceQp { lqpn: 17, comm, ..crate::analysis::DeviceQp::default() };
        let name = "-2+3".to_owned();
        report.facts.devices =
            vec![crate::analysis::Device { name, qps: vec![qp], ..crate::analysis::Device::default() }];
        let row = written(&report).pop().unwrap();
        let known: Vec<(&str, &str)> = (COLUMNS.iter().zip(&row))
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(column, cell)| (column.name, cell.as_str()))
            .collect();
        assert_eq!(known, [("src_qp", "17"), ("comm", "'@SUM(1)"), ("device", "'-2+3")]);
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
