//! `cargo xtask bench kernel`: `rocescope bench`, compared with its goals.
//!
//! `rocescope bench` measures the cost of counting on a host. Here the same figures are shown with those of the empty
//! programs, which were subtracted, and with their goals.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use super::goal::{self, Goal, Row};
use crate::build;
use crate::run::{output_of, root_command, step};

/// Options of the measurement.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Measure with this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Unit of a case's goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoalUnit {
    /// Nanoseconds per packet.
    Ns,
    /// Cost relative to an in-order packet over IPv4 in the same kind of program.
    ToIpv4,
}

/// The goal of each case; other cases have none.
const GOALS: [(&str, GoalUnit, Goal); 20] = [
    ("ipv4_in_order", GoalUnit::Ns, Goal::at_most(60.0, None)),
    ("ipv4_repeat", GoalUnit::Ns, Goal::at_most(60.0, None)),
    ("ipv6_in_order", GoalUnit::ToIpv4, Goal::at_most(1.3, None)),
    ("vlan_in_order", GoalUnit::ToIpv4, Goal::at_most(1.3, None)),
    ("vxlan_in_order", GoalUnit::ToIpv4, Goal::at_most(1.6, None)),
    ("erspan2_in_order", GoalUnit::ToIpv4, Goal::at_most(1.6, None)),
    ("precise_in_order", GoalUnit::Ns, Goal::at_most(55.0, Some(42.0))),
    ("timed_middle", GoalUnit::Ns, Goal::at_most(55.0, Some(42.0))),
    ("timed_answered", GoalUnit::Ns, Goal::at_most(62.0, Some(50.0))),
    ("cnp", GoalUnit::Ns, Goal::at_most(130.0, Some(90.0))),
    ("nak", GoalUnit::Ns, Goal::at_most(130.0, Some(90.0))),
    ("tcp", GoalUnit::Ns, Goal::at_most(12.0, None)),
    ("tcp_ipv6", GoalUnit::Ns, Goal::at_most(12.0, None)),
    ("tcp_vlan", GoalUnit::Ns, Goal::at_most(12.0, None)),
    ("udp", GoalUnit::Ns, Goal::at_most(12.0, None)),
    ("arp", GoalUnit::Ns, Goal::at_most(12.0, None)),
    ("known_of_65536", GoalUnit::Ns, Goal::at_most(110.0, Some(80.0))),
    ("precise_of_65536", GoalUnit::Ns, Goal::at_most(110.0, Some(80.0))),
    ("new_flow", GoalUnit::Ns, Goal::at_most(550.0, Some(400.0))),
    ("precise_new_flow", GoalUnit::Ns, Goal::at_most(550.0, Some(400.0))),
];
/// Cases with their unavoidable part: the sum of cases, less others.
///
/// Flows take turns: the floor in order, and what two cache lines a flow and the record of its bin take more
/// than with one flow. Of others: a program that does all but bins and latency, or all but the counting.
const FLOORS: [(&str, &[&str], &[&str]); 6] = [
    ("precise_in_order", &["floor_in_order"], &[]),
    ("timed_middle", &["floor_in_order"], &[]),
    ("timed_answered", &["floor_answered"], &[]),
    ("precise_of_65536", &["floor_in_order", "precise_together_of_65536"], &["together_in_order"]),
    ("new_flow", &["floor_new_flow"], &[]),
    ("precise_new_flow", &["precise_floor_new_flow"], &[]),
];
/// Throughput of two CPUs on different flows of one table, relative to one CPU.
const TWO_CPUS: Goal = Goal::at_least(1.9, Some(1.97));
/// Reading a full table, in ms of CPU time.
const READ_MS: Goal = Goal::at_most(20.0, None);
/// Kernel memory of the maps, in MiB.
const MAP_MIB: Goal = Goal::at_most(64.0, None);

/// Builds, measures, and prints a table for docs/performance.md.
pub(crate) fn kernel(wanted: &Wanted) -> Result<()> {
    let binary = match &wanted.bin {
        Some(binary) => binary.clone(),
        None => build::build()?,
    };
    goal::print(&rows(&binary)?);
    Ok(())
}

/// Measures and prints each case; the rows that have a goal.
pub(super) fn rows(binary: &Path) -> Result<Vec<Row>> {
    let mut command = root_command(binary, "measuring the kernel programs")?;
    command.args(["bench", "--output", "json"]);
    let text = step("measuring", || output_of(&mut command).context("`rocescope bench` failed"))?;
    let document: Value = serde_json::from_str(&text).context("`rocescope bench` printed no JSON")?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{processors} x {}, Linux {}, load {}, {} rounds\n",
        word(&document["cpu"]),
        word(&document["kernel"]),
        load.split_whitespace().next().unwrap_or("-"),
        document["rounds"],
    );
    let costs = costs(&document)?;
    println!("| program | case | ns | quartiles | empty program, ns | to IPv4 |");
    println!("|---|---|---|---|---|---|");
    for cost in &costs {
        println!("{}", cost.line());
    }
    let read = &document["table_read"];
    let mib = read["map_bytes"].as_f64().map(|bytes| bytes / 1024.0 / 1024.0);
    let row = |name: String, figure, unit, goal| Row { name, figure, unit, goal, floor: None };
    let mut rows: Vec<Row> = costs.iter().filter_map(Cost::row).collect();
    let [two, floor] = ["counting", "floor"].map(|of| document["two_cpus"][of].as_f64());
    let name = "two CPUs on different flows of one table, of one".to_owned();
    rows.push(Row { floor, ..row(name, two, " ×", TWO_CPUS) });
    rows.push(row(format!("reading {} flows", read["flows"]), read["ms"].as_f64(), " ms", READ_MS));
    rows.push(row("maps".to_owned(), mib, " MiB", MAP_MIB));
    Ok(rows)
}

/// One case with one kind of program.
#[derive(Debug)]
struct Cost {
    program: String,
    name: String,
    ns: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    empty: Option<f64>,
    ratio: Option<f64>,
    goal: Option<(GoalUnit, Goal)>,
    /// Cost of the unavoidable part.
    floor: Option<f64>,
}

fn costs(document: &Value) -> Result<Vec<Cost>> {
    let Some(results) = document["results"].as_array().filter(|results| !results.is_empty()) else {
        bail!("`rocescope bench` measured nothing");
    };
    let of = |program: &Value, case: &str| {
        let row = results.iter().find(|row| row["program"] == *program && row["case"] == case);
        row.and_then(|row| row["ns"].as_f64())
    };
    let floor = |row: &Value| {
        let (_, plus, less) = FLOORS.iter().find(|(case, ..)| row["case"] == *case)?;
        let sum = |cases: &[&str]| cases.iter().map(|case| of(&row["program"], case)).sum::<Option<f64>>();
        Some(sum(plus)? - sum(less)?)
    };
    Ok(results
        .iter()
        .map(|row| {
            let ns = row["ns"].as_f64();
            Cost {
                program: word(&row["program"]),
                name: word(&row["name"]),
                ns,
                low: row["ns_low"].as_f64(),
                high: row["ns_high"].as_f64(),
                empty: row["empty_ns"].as_f64(),
                ratio: ns.zip(of(&row["program"], "ipv4_in_order")).map(|(ns, plain)| ns / plain),
                goal: GOALS.iter().find(|(case, ..)| row["case"] == *case).map(|(_, of, goal)| (*of, *goal)),
                floor: floor(row),
            }
        })
        .collect())
}

impl Cost {
    /// The row with its goal, if it has one.
    fn row(&self) -> Option<Row> {
        let (of, goal) = self.goal?;
        let name = format!("{}, {}", self.name, self.program);
        Some(match of {
            GoalUnit::Ns => Row { name, figure: self.ns, unit: " ns", goal, floor: self.floor },
            GoalUnit::ToIpv4 => Row { name, figure: self.ratio, unit: " × IPv4", goal, floor: None },
        })
    }

    fn line(&self) -> String {
        let ratio = self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let (ns, low, high) = (figure(self.ns), figure(self.low), figure(self.high));
        let empty = figure(self.empty);
        format!("| {} | {} | {ns} | {low} to {high} | {empty} | {ratio} |", self.program, self.name)
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn measured(case: &str, ns: &Value) -> Value {
        json!({ "program": "tc", "case": case, "name": case, "ns": ns, "ns_low": 1.0, "ns_high": 2.0, "empty_ns": 9.0 })
    }

    #[test]
    fn ratios_are_to_the_same_kind_of_program() {
        let other = json!({ "program": "xdp", "case": "ipv4_in_order", "name": "x", "ns": 10.0 });
        let document = json!({ "results": [
            other,
            measured("ipv4_in_order", &json!(40.0)),
            measured("ipv6_in_order", &json!(50.0)),
            measured("vxlan_in_order", &json!(70.0)),
            measured("tcp", &json!(null)),
            measured("new_flow", &json!(700.0)),
            measured("precise_in_order", &json!(80.0)),
            measured("floor_in_order", &json!(29.0)),
            measured("precise_of_65536", &json!(200.0)),
            measured("precise_together_of_65536", &json!(70.0)),
            measured("together_in_order", &json!(25.0)),
        ]});
        let costs = costs(&document).unwrap();
        let verdicts: Vec<_> =
            costs.iter().map(|cost| cost.row().map(|row| row.goal.verdict(row.figure))).collect();
        let some = |words: [&'static str; 5]| words.map(Some).to_vec();
        assert_eq!(verdicts[..5], some(["met", "met", "met", "MISSED", "not known"]));
        assert_eq!(verdicts[5], Some("MISSED"));
        assert_eq!(
            costs.iter().map(|cost| cost.floor).collect::<Vec<_>>()[4..],
            [None, None, Some(29.0), None, Some(74.0), None, None]
        );
        assert_eq!(costs[3].line(), "| tc | vxlan_in_order | 70.0 | 1.0 to 2.0 | 9.0 | 1.75 |");
        assert_eq!(costs[4].line(), "| tc | tcp | - | 1.0 to 2.0 | 9.0 | - |");
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(costs(&json!({ "results": [] })).is_err() && costs(&json!(7)).is_err());
    }
}
