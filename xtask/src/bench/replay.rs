//! `cargo xtask bench replay`: the same captures through `rocescope replay` and other programs.
//!
//! Programs run alternately, so that other load on the machine affects all of them. Ratios are of medians: of wall-clock
//! time, for which a user waits, and of processor time, which other load disturbs less.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use super::child::{Spent, median, time};
use super::machine::{self, first_line};
use crate::gen_capture::{Generate, Snap, generate};
use crate::run::{cargo, has_program, run, say, show, step, target_dir};

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Rounds in which every program runs once
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Frames of the snapped capture; that of whole frames has a fifth
    #[arg(long, default_value_t = 2_000_000)]
    packets: u64,
    /// Connections in the captures
    #[arg(long, default_value_t = 64)]
    flows: u32,
    /// Measure this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// tshark gets this many times fewer frames, because it is slower by about as much.
const TSHARK_SHARE: u64 = 20;

/// A program of a case, and its times.
struct Entry {
    name: &'static str,
    command: Command,
    frames: u64,
    spent: Vec<Spent>,
}

impl Entry {
    fn new<A: AsRef<OsStr>>(
        name: &'static str,
        frames: u64,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut command = Command::new(program);
        command.args(args);
        Self { name, command, frames, spent: Vec::new() }
    }

    fn median(&self, of: impl Fn(&Spent) -> Duration) -> Duration {
        median(self.spent.iter().map(of).collect())
    }

    fn per_frame(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e9 / self.frames.max(1) as f64
    }
}

/// The required ratio of rocescope, the first entry, to another program.
#[derive(Clone, Copy)]
enum Goal {
    /// At most this many times the other's time.
    AtMost(f64),
    /// At least this many times as fast.
    Faster(f64),
}

struct Case {
    title: &'static str,
    entries: Vec<Entry>,
    goal: Goal,
}

/// Writes the captures, measures, and prints tables.
///
/// # Errors
/// Fails if a capture cannot be written, or a program cannot be run.
pub(crate) fn replay(wanted: &Wanted) -> Result<()> {
    let binary = match &wanted.bin {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let inputs = step("writing the captures", || Inputs::write(wanted))?;
    print_machine(&binary);
    for mut case in cases(wanted, &binary, &inputs) {
        // The first round only warms caches.
        for round in 0..=wanted.rounds.max(1) {
            for entry in &mut case.entries {
                let spent = time(&mut entry.command)?;
                if round > 0 {
                    entry.spent.push(spent);
                }
            }
        }
        case.print();
    }
    Ok(())
}

pub(super) fn build() -> Result<PathBuf> {
    step("building rocescope", || run(cargo().args(["build", "--release", "-p", "rocescope"])))?;
    Ok(target_dir().join("release/rocescope"))
}

struct Inputs {
    snapped: PathBuf,
    gzip: PathBuf,
    full: PathBuf,
    slice: PathBuf,
}

impl Inputs {
    fn write(wanted: &Wanted) -> Result<Self> {
        let folder = target_dir().join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let make = |name: &str, packets, snap| -> Result<PathBuf> {
            let out = folder.join(name);
            generate(&Generate {
                packets,
                snap,
                flows: wanted.flows,
                mtu: 4096,
                other: 0,
                slower: 1,
                seed: 1,
                out: out.clone(),
            })?;
            // Pending writes would otherwise disturb the measurement.
            let written = fs::File::open(&out).and_then(|file| file.sync_all());
            written.with_context(|| format!("cannot write {} to disk", out.display()))?;
            Ok(out)
        };
        Ok(Self {
            snapped: make("snap96.pcap", wanted.packets, Snap(96))?,
            gzip: make("snap96.pcap.gz", wanted.packets, Snap(96))?,
            full: make("full.pcap", wanted.packets / 5, Snap::FULL)?,
            slice: make("slice.pcap", wanted.packets / TSHARK_SHARE, Snap(96))?,
        })
    }
}

/// The fields of a report, by tshark's names.
const TSHARK_FIELDS: [&str; 14] = [
    "frame.time_epoch",
    "frame.len",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "udp.srcport",
    "ip.dsfield",
    "vlan.id",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.aeth.syndrome",
    "infiniband.reth.dmalen",
];

fn cases(wanted: &Wanted, binary: &Path, inputs: &Inputs) -> Vec<Case> {
    let rocescope = |file: &Path, frames| {
        let args = [OsStr::new("replay"), file.as_os_str(), "--output".as_ref(), "json".as_ref()];
        Entry::new("rocescope", frames, binary, args)
    };
    let tcpdump = |file: &Path, frames| {
        let front = ["-r".as_ref(), file.as_os_str()];
        let rest = ["-w", "/dev/null", "udp", "port", "4791"].map(OsStr::new);
        Entry::new("tcpdump", frames, "tcpdump", front.into_iter().chain(rest))
    };
    let tshark = |file: &Path, frames| {
        let front = ["-r".as_ref(), file.as_os_str(), "-T".as_ref(), "fields".as_ref()];
        let fields = TSHARK_FIELDS.into_iter().flat_map(|field| ["-e", field]).map(OsStr::new);
        Entry::new("tshark", frames, "tshark", front.into_iter().chain(fields))
    };
    let (packets, whole, slice) = (wanted.packets, wanted.packets / 5, wanted.packets / TSHARK_SHARE);
    let case = |title, goal, entries| Case { title, entries, goal };
    let gzip = Entry::new("gzip -dc", packets, "gzip", ["-dc".as_ref(), inputs.gzip.as_os_str()]);
    let mut cases = vec![
        case(
            "frames snapped at 96 bytes",
            Goal::AtMost(0.7),
            vec![rocescope(&inputs.snapped, packets), tcpdump(&inputs.snapped, packets)],
        ),
        case(
            "whole frames, MTU 4096",
            Goal::AtMost(0.5),
            vec![rocescope(&inputs.full, whole), tcpdump(&inputs.full, whole)],
        ),
        case("compressed, snapped", Goal::AtMost(1.2), vec![rocescope(&inputs.gzip, packets), gzip]),
        // Start-up time favours rocescope here: it reads all frames, tshark a part of them.
        case(
            "fields of every packet, per frame",
            Goal::Faster(100.0),
            vec![rocescope(&inputs.snapped, packets), tshark(&inputs.slice, slice)],
        ),
    ];
    cases.retain(|case| {
        let missing =
            case.entries.iter().skip(1).find(|e| !has_program(&e.command.get_program().to_string_lossy()));
        if let Some(entry) = missing {
            let program = entry.command.get_program().to_string_lossy();
            say(&format!("SKIP {}: {program} is not installed", case.title));
        }
        missing.is_none()
    });
    cases
}

impl Case {
    fn print(&self) {
        println!("\n{}", self.title);
        println!(
            "  {:<10} {:>10} {:>9} {:>9} {:>9} {:>10}",
            "program", "frames", "median s", "best s", "cpu s", "ns/frame"
        );
        for entry in &self.entries {
            let wall = entry.median(|spent| spent.wall);
            let best = entry.spent.iter().map(|spent| spent.wall).min().unwrap_or_default();
            println!(
                "  {:<10} {:>10} {:>9.3} {:>9.3} {:>9.3} {:>10.1}",
                entry.name,
                entry.frames,
                wall.as_secs_f64(),
                best.as_secs_f64(),
                entry.median(|spent| spent.cpu).as_secs_f64(),
                entry.per_frame(wall),
            );
        }
        let [ours, others @ ..] = self.entries.as_slice() else { return };
        for other in others {
            let ratio = |of: fn(&Spent) -> Duration| {
                ours.per_frame(ours.median(of)) / other.per_frame(other.median(of)).max(f64::MIN_POSITIVE)
            };
            let (wall, cpu) = (ratio(|spent| spent.wall), ratio(|spent| spent.cpu));
            let verdict = match self.goal {
                Goal::AtMost(limit) => format!("wanted: at most {limit}, {}", met(wall <= limit)),
                Goal::Faster(times) => {
                    let faster = 1.0 / wall;
                    format!("{faster:.0} times as fast; wanted: {times}, {}", met(faster >= times))
                }
            };
            println!(
                "  ratio to {}: {wall:.3} of wall-clock time, {cpu:.3} of processor time; {verdict}",
                other.name
            );
            println!("  ({})", show(&other.command));
        }
    }
}

fn met(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn print_machine(binary: &Path) {
    machine::print();
    println!("rocescope:  {}", first_line(Command::new(binary).arg("--version")));
    println!("tcpdump:    {}", first_line(Command::new("tcpdump").arg("--version")));
    println!("tshark:     {}", first_line(Command::new("tshark").arg("--version")));
    println!("gzip:       {}", first_line(Command::new("gzip").arg("--version")));
}
