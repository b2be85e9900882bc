//! `cargo xtask bench kernel`: `rocescope bench`, held against what is wanted of it.
//!
//! `rocescope bench` says what counting costs on a host. Here the same figures stand beside those of
//! the empty programs that were taken off, and beside what they should be.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::build;
use crate::run::{output_of, root_command, say, step};

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Measure with this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// The budget of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    /// At most so many nanoseconds.
    Ns(f64),
    /// At most so many times what a packet in order over IPv4 costs the same kind of program.
    Times(f64),
}

/// The budget per packet of each case. Other cases are shown without one.
const GOALS: [(&str, Goal); 14] = [
    ("ipv4_in_order", Goal::Ns(60.0)),
    ("ipv4_repeat", Goal::Ns(60.0)),
    ("ipv6_in_order", Goal::Times(1.3)),
    ("vlan_in_order", Goal::Times(1.3)),
    ("vxlan_in_order", Goal::Times(1.6)),
    ("erspan2_in_order", Goal::Times(1.6)),
    ("precise_in_order", Goal::Ns(110.0)),
    ("timed_middle", Goal::Ns(110.0)),
    ("timed_answered", Goal::Ns(110.0)),
    ("tcp", Goal::Ns(12.0)),
    ("tcp_ipv6", Goal::Ns(12.0)),
    ("tcp_vlan", Goal::Ns(12.0)),
    ("udp", Goal::Ns(12.0)),
    ("arp", Goal::Ns(12.0)),
];
/// Reading a full table, in ms of processor time.
const READ_MS: f64 = 20.0;
/// Kernel memory of the maps, in bytes.
const MAP_BYTES: f64 = 64.0 * 1024.0 * 1024.0;

/// Builds, measures, and prints a table for docs/performance.md.
///
/// # Errors
/// Fails if it cannot be built or run.
pub(crate) fn kernel(wanted: &Wanted) -> Result<()> {
    let binary = match &wanted.bin {
        Some(binary) => binary.clone(),
        None => build::build()?,
    };
    let mut command = root_command(&binary, "measuring the kernel programs")?;
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
    let rows = rows(&document)?;
    println!("| program | case | ns | quartiles | empty program, ns | to IPv4 | wanted |");
    println!("|---|---|---|---|---|---|---|");
    for row in &rows {
        println!("{}", row.line());
    }
    let read = &document["table_read"];
    let (ms, bytes) = (read["ms"].as_f64(), read["map_bytes"].as_f64());
    println!(
        "\nReading {} flows: {} ms of processor time (wanted: at most {READ_MS}, {}). Maps: {} MiB (wanted: \
         at most 64, {}).",
        read["flows"],
        figure(ms),
        met(ms.map(|ms| ms <= READ_MS)),
        figure(bytes.map(|bytes| bytes / 1024.0 / 1024.0)),
        met(bytes.map(|bytes| bytes <= MAP_BYTES)),
    );
    let missed = rows.iter().filter(|row| row.met() == Some(false)).count();
    say(&format!(
        "{missed} of {} cases with a goal missed it",
        rows.iter().filter(|r| r.goal.is_some()).count()
    ));
    Ok(())
}

/// One case with one kind of program.
#[derive(Debug)]
struct Row {
    program: String,
    name: String,
    ns: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    empty: Option<f64>,
    ratio: Option<f64>,
    goal: Option<Goal>,
}

fn rows(document: &Value) -> Result<Vec<Row>> {
    let Some(results) = document["results"].as_array().filter(|results| !results.is_empty()) else {
        bail!("`rocescope bench` measured nothing");
    };
    let plain = |program: &Value| {
        let row = results.iter().find(|row| row["program"] == *program && row["case"] == "ipv4_in_order");
        row.and_then(|row| row["ns"].as_f64())
    };
    Ok(results
        .iter()
        .map(|row| {
            let ns = row["ns"].as_f64();
            Row {
                program: word(&row["program"]),
                name: word(&row["name"]),
                ns,
                low: row["ns_low"].as_f64(),
                high: row["ns_high"].as_f64(),
                empty: row["empty_ns"].as_f64(),
                ratio: ns.zip(plain(&row["program"])).map(|(ns, plain)| ns / plain),
                goal: GOALS.iter().find(|(case, _)| row["case"] == *case).map(|(_, goal)| *goal),
            }
        })
        .collect())
}

impl Row {
    /// True when it is as wanted; `None` when nothing is, or it was not measured.
    fn met(&self) -> Option<bool> {
        match self.goal? {
            Goal::Ns(most) => self.ns.map(|ns| ns <= most),
            Goal::Times(most) => self.ratio.map(|ratio| ratio <= most),
        }
    }

    fn line(&self) -> String {
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::Ns(most)) => format!("{most} ns: {}", met(self.met())),
            Some(Goal::Times(most)) => format!("{most} times IPv4: {}", met(self.met())),
        };
        let ratio = self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let (ns, low, high) = (figure(self.ns), figure(self.low), figure(self.high));
        let empty = figure(self.empty);
        format!("| {} | {} | {ns} | {low} to {high} | {empty} | {ratio} | {goal} |", self.program, self.name)
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}

fn met(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not known",
    }
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
        ]});
        let rows = rows(&document).unwrap();
        let met: Vec<_> = rows.iter().map(Row::met).collect();
        assert_eq!(met, [Some(true), Some(true), Some(true), Some(false), None, None]);
        assert_eq!(
            rows[3].line(),
            "| tc | vxlan_in_order | 70.0 | 1.0 to 2.0 | 9.0 | 1.75 | 1.6 times IPv4: MISSED |"
        );
        assert_eq!(rows[4].line(), "| tc | tcp | - | 1.0 to 2.0 | 9.0 | - | 12 ns: not known |");
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(rows(&json!({ "results": [] })).is_err() && rows(&json!(7)).is_err());
    }
}
