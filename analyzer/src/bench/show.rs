//! The result as a table and as JSON (`rocescope.bench/1`).

use std::io::{self, Write};

use serde::Serialize;

use super::measure::Measured;
use super::pair::Pair;
use super::receive::{Receiver, advice};
use crate::host::kernel::KernelFacts;
use crate::util::numbers::interpolated;
use crate::util::wrap::wrap;

/// Path MTUs that rates are given for.
const MTUS: [u32; 3] = [1024, 2048, 4096];
/// Overhead of a full packet on the wire, in bytes: Ethernet, IPv4, UDP, BTH, ICRC, and the
/// FCS, preamble and gap that take their time on the line too.
const AROUND: u32 = 14 + 20 + 8 + 12 + 4 + 4 + 20;

/// Result of `rocescope bench`, as its JSON document.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// `rocescope.bench/1`.
    pub schema: &'static str,
    /// Version of rocescope.
    pub version: &'static str,
    /// `uname -r`.
    pub kernel: Option<String>,
    /// Model of the first processor.
    pub cpu: Option<String>,
    /// Rounds measured.
    pub rounds: u32,
    /// One per program and case.
    pub results: Vec<Result>,
    /// Two processors that count different flows of one table, over one; null on a host with one.
    pub two_cpus: TwoCpus,
    /// Reading the table from user space.
    pub table_read: TableRead,
    /// Distribution of received packets over cores.
    pub receive: Vec<Receiver>,
    /// The consequences, as sentences.
    pub advice: Vec<String>,
}

/// Cost of one case in one type of program.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    /// `xdp`, `xdp_frags`, `tc`.
    pub program: &'static str,
    /// Name of the case.
    pub case: &'static str,
    /// The case in words.
    pub name: &'static str,
    /// Median cost of counting a packet: the program less an empty one of the same kind, in ns.
    pub ns: Option<f64>,
    /// Lower quartile of the rounds, ns per packet.
    pub ns_low: Option<f64>,
    /// Upper quartile of the rounds, ns per packet.
    pub ns_high: Option<f64>,
    /// The empty program, in ns: the harness, the call and, in cases whose packets differ, the
    /// change to the packet.
    pub empty_ns: Option<f64>,
    /// Million packets a second that one core counts if it does nothing else.
    pub mpps: Option<f64>,
    /// Gb/s on the line that these packets are at full size, by path MTU; null for answers and for what is not RoCE.
    pub gbps: Rates,
}

/// Gb/s by path MTU.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rates {
    /// Bandwidth at a path MTU of 1024 bytes.
    pub mtu_1024: Option<f64>,
    /// Bandwidth at a path MTU of 2048 bytes.
    pub mtu_2048: Option<f64>,
    /// Bandwidth at a path MTU of 4096 bytes.
    pub mtu_4096: Option<f64>,
}

/// Rate of two processors at the same time over that of one; medians of the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TwoCpus {
    /// Counting in the default mode.
    pub counting: Option<f64>,
    /// All but bins and latency.
    pub floor: Option<f64>,
    /// The empty program: what the processors themselves allow.
    pub empty: Option<f64>,
}

/// Reading the flow table from user space.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TableRead {
    /// Number of flows in the table.
    pub flows: u32,
    /// Median processor time of one reading, in ms.
    pub ms: Option<f64>,
    /// Kernel memory of the maps at this size, in bytes.
    pub map_bytes: u64,
}

/// Columns of the table.
const WIDTH: usize = 100;

/// Costs below this are noise: the rates they would mean are not given.
const LEAST_NS: f64 = 0.5;

impl Document {
    /// Puts together what was measured.
    pub fn new(measured: &Measured, facts: &KernelFacts, receive: Vec<Receiver>) -> Self {
        let results = measured.rows.iter().filter(|row| !row.ns.is_empty()).map(|row| {
            let ns = interpolated(&row.ns, 0.5);
            let mpps = ns.filter(|ns| *ns >= LEAST_NS).map(|ns| 1e3 / ns);
            let [mtu_1024, mtu_2048, mtu_4096] =
                MTUS.map(|mtu| mpps.filter(|_| row.full).map(|mpps| rate(mpps, mtu)));
            Result {
                program: row.hook.name(),
                case: row.id,
                name: row.name,
                ns,
                ns_low: interpolated(&row.ns, 0.25),
                ns_high: interpolated(&row.ns, 0.75),
                empty_ns: interpolated(&row.empty_ns, 0.5),
                mpps,
                gbps: Rates { mtu_1024, mtu_2048, mtu_4096 },
            }
        });
        let of_pairs = |figure: fn(&Pair) -> f64| {
            interpolated(&measured.pairs.iter().map(figure).collect::<Vec<_>>(), 0.5)
        };
        let reads: Vec<f64> = measured.reads.iter().map(|read| read.as_secs_f64() * 1e3).collect();
        Self {
            schema: "rocescope.bench/1",
            version: env!("CARGO_PKG_VERSION"),
            kernel: facts.release.clone(),
            cpu: cpu_model(),
            rounds: measured.rounds,
            results: results.collect(),
            two_cpus: TwoCpus {
                counting: of_pairs(|pair| pair.counting),
                floor: of_pairs(|pair| pair.floor),
                empty: of_pairs(|pair| pair.empty),
            },
            table_read: TableRead {
                flows: super::case::FLOWS,
                ms: interpolated(&reads, 0.5),
                map_bytes: measured.map_bytes,
            },
            advice: advice(&receive),
            receive,
        }
    }

    /// Writes one JSON document.
    ///
    /// # Errors
    /// The I/O error of writing.
    pub fn json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }

    /// Writes the table.
    ///
    /// # Errors
    /// The I/O error of writing.
    pub fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let kernel = self.kernel.as_deref().unwrap_or("-");
        let cpu = self.cpu.as_deref().unwrap_or("-");
        writeln!(out, "Cost per packet, measured without an interface; Linux {kernel}, {cpu}")?;
        writeln!(
            out,
            "ns: minus an empty program, median and quartiles of {} rounds; Mpps, Gb/s: maximum of one core\n\
             that does nothing else, with full packets of that path MTU\n",
            self.rounds
        )?;
        writeln!(out, "{:>101}", "Gb/s at path MTU")?;
        writeln!(
            out,
            "{:9}  {:38} {:>7} {:>13} {:>7} {:>6} {:>6} {:>6}",
            "program", "case", "ns", "quartiles", "Mpps", "1024", "2048", "4096"
        )?;
        for row in &self.results {
            let spread = match (row.ns_low, row.ns_high) {
                (Some(low), Some(high)) => format!("{low:.1}..{high:.1}"),
                _ => "-".to_owned(),
            };
            writeln!(
                out,
                "{:9}  {:38} {:>7} {:>13} {:>7} {:>6} {:>6} {:>6}",
                row.program,
                row.name,
                cost(row.ns),
                spread,
                figure(row.mpps, 1),
                figure(row.gbps.mtu_1024, 0),
                figure(row.gbps.mtu_2048, 0),
                figure(row.gbps.mtu_4096, 0),
            )?;
        }
        if let TwoCpus { counting: Some(counting), floor: Some(floor), empty: Some(empty) } = self.two_cpus {
            writeln!(
                out,
                "\nTwo processors count {counting:.2} times the packets of one, different flows of one table, by default (all but bins and latency: {floor:.2}; empty program: {empty:.2})."
            )?;
        }
        writeln!(
            out,
            "\nReading a table of {} flows takes {} ms of CPU time; the maps use {:.0} MiB of kernel memory.\n",
            self.table_read.flows,
            figure(self.table_read.ms, 1),
            self.table_read.map_bytes as f64 / f64::from(1u32 << 20),
        )?;
        for line in self.advice.iter().flat_map(|sentence| wrap(sentence, WIDTH)) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

fn rate(mpps: f64, mtu: u32) -> f64 {
    mpps * f64::from(mtu + AROUND) * 8.0 / 1e3
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

/// A cost in ns; what is noise is no figure.
fn cost(ns: Option<f64>) -> String {
    if ns.is_some_and(|ns| ns < LEAST_NS) { format!("<{LEAST_NS}") } else { figure(ns, 1) }
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::case::Hook;
    use crate::bench::measure::Row;

    fn document(ns: &[f64]) -> Document {
        let row =
            |id, full| Row { hook: Hook::Xdp, id, name: id, full, ns: ns.to_vec(), empty_ns: vec![20.0] };
        let rows = vec![row("write", true), row("tcp", false)];
        let measured = Measured { rounds: 3, rows, map_bytes: 1 << 20, ..Measured::default() };
        let facts = KernelFacts::read(std::path::Path::new("/nowhere"));
        Document::new(&measured, &facts, vec![])
    }

    #[test]
    fn at_83_ns_one_core_counts_400_gigabits() {
        let document = document(&[83.0, 84.0, 83.56]);
        let [result, tcp] = &document.results[..] else { panic!() };
        assert_eq!(result.ns, Some(83.56));
        assert!((result.gbps.mtu_4096.unwrap() - 400.0).abs() < 0.1);
        assert_eq!((tcp.mpps, tcp.gbps.mtu_4096), (result.mpps, None), "no rate of what is not RoCE");
    }

    #[test]
    fn noise_is_no_rate_and_unknown_is_no_zero() {
        let document = document(&[-0.4, 0.1, 0.2]);
        assert_eq!(document.results[0].mpps, None);
        assert_eq!(document.table_read.ms, None);
        let mut text = Vec::new();
        document.text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("takes - ms") && text.contains("<0.5"), "{text}");
        let mut json = Vec::new();
        document.json(&mut json).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["schema"], "rocescope.bench/1");
        assert!(value["results"][0]["mpps"].is_null());
    }
}
