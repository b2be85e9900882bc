//! `cargo xtask bench replay`: the same captures through `rocescope replay` and other programs.
//!
//! Programs run alternately, so that other load on the machine affects all of them. Ratios are of medians: of elapsed
//! time, for which a user waits, and of CPU time, which other load affects less.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use super::child::{Spent, median, peak_memory, time};
use super::goal::{self, Goal, Row};
use super::machine::{self, first_line};
use super::text::Text;
use crate::gen_capture::{Generate, Snap, generate};
use crate::run::{cargo, has_program, run, say, show, step, target_dir};

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Rounds in which every program runs once
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Frames of the truncated capture; those of complete frames have a fifth and a quarter
    #[arg(long, default_value_t = PACKETS)]
    packets: u64,
    /// Connections in the captures, unless a row specifies the number
    #[arg(long, default_value_t = FLOWS)]
    flows: u32,
    /// Leave out the row of one million flows, whose capture takes 0.9 GB of disk
    #[arg(long)]
    no_million: bool,
    /// Measure this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Default rounds, frames and connections.
const ROUNDS: usize = 11;
const PACKETS: u64 = 2_000_000;
const FLOWS: u32 = 64;

impl Default for Wanted {
    fn default() -> Self {
        Self { rounds: ROUNDS, packets: PACKETS, flows: FLOWS, no_million: false, bin: None }
    }
}

/// tshark gets fewer frames by this factor, because it is slower by about as much.
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

/// The figure of two programs to which a goal applies.
#[derive(Clone, Copy)]
enum Measure {
    /// Elapsed time of rocescope, the first entry, relative to the other.
    Wall,
    /// CPU time of rocescope relative to the other.
    Processor,
    /// Elapsed time of the other relative to rocescope.
    Faster,
}

impl Measure {
    /// The figure, comparing one program with another.
    fn of(self, ours: &Entry, other: &Entry) -> f64 {
        let ratio = |of: fn(&Spent) -> Duration| {
            ours.per_frame(ours.median(of)) / other.per_frame(other.median(of)).max(f64::MIN_POSITIVE)
        };
        match self {
            Self::Wall => ratio(|spent| spent.wall),
            Self::Processor => ratio(|spent| spent.cpu),
            Self::Faster => 1.0 / ratio(|spent| spent.wall).max(f64::MIN_POSITIVE),
        }
    }
}

struct Case {
    title: &'static str,
    entries: Vec<Entry>,
    goals: &'static [(Measure, Goal)],
    /// The text of its report, written again and again, and the times of that: it cannot begin before the last packet.
    text: Option<(Text, Vec<Spent>)>,
}

/// Connections of the capture with many flows.
const MANY: u32 = 20_000;
/// Flows, frames and connections of the capture for the memory measurement: when this number of flows is reached,
/// half of the connections have had no packet.
const MILLION: u32 = 1_000_000;
const MILLION_FRAMES: u64 = 8_000_000;
const MILLION_CONNECTIONS: u32 = 1 << 20;
/// Limit of peak resident memory for them, in GB.
const MILLION_GB: Goal = Goal::at_most(1.0, Some(0.6));

/// Builds, measures, and prints tables.
pub(crate) fn replay(wanted: &Wanted) -> Result<()> {
    let binary = match &wanted.bin {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    goal::print(&rows(wanted, &binary)?);
    Ok(())
}

/// Writes the captures, measures and prints each case; the rows that have a goal.
pub(super) fn rows(wanted: &Wanted, binary: &Path) -> Result<Vec<Row>> {
    let inputs = step("writing the captures", || Inputs::write(wanted))?;
    print_machine(binary);
    let mut rows = Vec::new();
    for mut case in cases(wanted, binary, &inputs)? {
        // The first round only warms up caches.
        for round in 0..=wanted.rounds.max(1) {
            for entry in &mut case.entries {
                let spent = time(&mut entry.command)?;
                if round > 0 {
                    entry.spent.push(spent);
                }
            }
            if let Some((text, spent)) = &mut case.text {
                spent.push(text.write(processors())?);
            }
        }
        case.print();
        rows.extend(case.rows());
    }
    if let Some(capture) = &inputs.million {
        rows.push(million(binary, capture)?);
    }
    Ok(rows)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Peak memory with a million flows, all kept to the end.
fn million(binary: &Path, capture: &Path) -> Result<Row> {
    let mut command = Command::new(binary);
    command.arg("replay").arg(capture).args(["--output", "json", "--max-flows", &MILLION.to_string()]);
    let bytes = step("measuring memory", || peak_memory(&mut command))?;
    println!("\n1,000,000 flows: {:.0} bytes a flow ({})", bytes as f64 / f64::from(MILLION), show(&command));
    let (name, figure) = ("1,000,000 flows, peak memory".to_owned(), Some(bytes as f64 / 1e9));
    Ok(Row { name, figure, unit: " GB", goal: MILLION_GB, floor: None })
}

pub(super) fn build() -> Result<PathBuf> {
    step("building rocescope", || run(cargo().args(["build", "--release", "-p", "rocescope"])))?;
    Ok(target_dir().join("release/rocescope"))
}

struct Inputs {
    snapped: PathBuf,
    gzip: PathBuf,
    full: PathBuf,
    /// The same with the path MTU of most networks without jumbo frames.
    full_1024: PathBuf,
    slice: PathBuf,
    many: PathBuf,
    million: Option<PathBuf>,
}

impl Inputs {
    fn write(wanted: &Wanted) -> Result<Self> {
        let folder = target_dir().join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let with_mtu = |name: &str, packets, snap, flows, mtu| -> Result<PathBuf> {
            let out = folder.join(name);
            generate(&Generate {
                packets,
                snap,
                flows,
                mtu,
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
        let make = |name: &str, packets, snap, flows| with_mtu(name, packets, snap, flows, 4096);
        let (packets, flows) = (wanted.packets, wanted.flows);
        let million = || make("million.pcap", MILLION_FRAMES, Snap(96), MILLION_CONNECTIONS);
        Ok(Self {
            snapped: make("snap96.pcap", packets, Snap(96), flows)?,
            gzip: make("snap96.pcap.gz", packets, Snap(96), flows)?,
            full: make("full.pcap", packets / 5, Snap::FULL, flows)?,
            full_1024: with_mtu("full1024.pcap", packets / 4, Snap::FULL, flows, 1024)?,
            slice: make("slice.pcap", packets / TSHARK_SHARE, Snap(96), flows)?,
            many: make("many.pcap", packets / 2, Snap(96), MANY)?,
            million: if wanted.no_million { None } else { Some(million()?) },
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

/// The entry for the minimum work of any replay.
const FLOOR: &str = "floor";
/// The entry that decompresses.
const GZIP: &str = "gzip -dc";

/// Goals of the cases.
const SNAPPED: &[(Measure, Goal)] =
    &[(Measure::Wall, Goal::at_most(0.4, Some(0.25))), (Measure::Processor, Goal::at_most(0.7, Some(0.5)))];
const WHOLE: &[(Measure, Goal)] = &[(Measure::Wall, Goal::at_most(0.4, Some(0.25)))];
const CONNECTIONS: &[(Measure, Goal)] = &[(Measure::Wall, Goal::at_most(0.8, Some(0.5)))];
const COMPRESSED: &[(Measure, Goal)] = &[(Measure::Wall, Goal::at_most(0.33, Some(0.25)))];
const FIELDS: &[(Measure, Goal)] = &[(Measure::Faster, Goal::at_least(100.0, None))];

fn cases(wanted: &Wanted, binary: &Path, inputs: &Inputs) -> Result<Vec<Case>> {
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
    let (packets, slice) = (wanted.packets, wanted.packets / TSHARK_SHARE);
    let case = |title, goals, entries| Case { title, entries, goals, text: None };
    let with_floor =
        |file: &Path, frames| vec![rocescope(file, frames), tcpdump(file, frames), floor(file, frames)];
    let gzip = Entry::new(GZIP, packets, "gzip", ["-dc".as_ref(), inputs.gzip.as_os_str()]);
    let mut cases = vec![
        case("frames snapped at 96 bytes", SNAPPED, with_floor(&inputs.snapped, packets)),
        case("whole frames, MTU 4096", WHOLE, with_floor(&inputs.full, packets / 5)),
        case("whole frames, MTU 1024", WHOLE, with_floor(&inputs.full_1024, packets / 4)),
        Case {
            text: Some((report(binary, &inputs.many)?, Vec::new())),
            ..case("20,000 connections, snapped", CONNECTIONS, with_floor(&inputs.many, packets / 2))
        },
        case(
            "compressed, snapped",
            COMPRESSED,
            vec![rocescope(&inputs.gzip, packets), gzip, floor(&inputs.gzip, packets)],
        ),
        // Start-up time favours rocescope here, since it reads all frames and tshark only a part.
        case(
            "fields of every packet, per frame",
            FIELDS,
            vec![rocescope(&inputs.snapped, packets), tshark(&inputs.slice, slice)],
        ),
    ];
    cases.retain(Case::can_run);
    Ok(cases)
}

/// The report of a capture, as text.
fn report(binary: &Path, capture: &Path) -> Result<Text> {
    let out = capture.with_extension("json");
    let file = fs::File::create(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut command = Command::new(binary);
    command.arg("replay").arg(capture).args(["--output", "json"]).stdout(file);
    run(&mut command)?;
    let text = Text::read(&out)?;
    fs::remove_file(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    Ok(text)
}

/// This program itself, which needs no build.
fn floor(file: &Path, frames: u64) -> Entry {
    let args = ["bench".as_ref(), FLOOR.as_ref(), file.as_os_str()];
    Entry::new(FLOOR, frames, std::env::current_exe().unwrap_or_else(|_| "cargo-xtask".into()), args)
}

impl Case {
    /// True if its programs are installed; otherwise prints a line.
    fn can_run(&self) -> bool {
        let missing =
            self.entries.iter().skip(1).find(|e| !has_program(&e.command.get_program().to_string_lossy()));
        if let Some(entry) = missing {
            let program = entry.command.get_program().to_string_lossy();
            say(&format!("SKIP {}: {program} is not installed", self.title));
        }
        missing.is_none()
    }

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
        for other in self.entries.iter().skip(1) {
            let Some(ours) = self.entries.first() else { return };
            let [wall, cpu] = [Measure::Wall, Measure::Processor].map(|measure| measure.of(ours, other));
            println!("  ratio to {}: {wall:.3} of wall-clock time, {cpu:.3} of processor time", other.name);
            println!("  ({})", show(&other.command));
        }
        if let Some((text, spent)) = &self.text {
            println!(
                "  the report's {:.0} MB of text alone: {:.3} s of processor time",
                text.len as f64 / 1e6,
                median(spent.iter().map(|spent| spent.cpu).collect()).as_secs_f64(),
            );
        }
    }

    /// A figure of the floor. Its elapsed time is that of a program that keeps all processors busy, since rocescope may
    /// use them all, too; decompression is one stream. The text of a long report comes after that.
    fn floor(&self, measure: Measure, floor: &Entry, other: &Entry) -> f64 {
        if !matches!(measure, Measure::Wall) || other.name == GZIP {
            return measure.of(floor, other);
        }
        let text = self.text.as_ref().map(|(_, spent)| median(spent.iter().map(|spent| spent.cpu).collect()));
        let work = floor.median(|spent| spent.cpu) + text.unwrap_or_default();
        let wall = other.median(|spent| spent.wall).as_secs_f64().max(f64::MIN_POSITIVE);
        work.as_secs_f64() / processors() as f64 / wall
    }

    fn rows(&self) -> Vec<Row> {
        let [ours, other, rest @ ..] = &self.entries[..] else { return Vec::new() };
        let floor = rest.iter().find(|entry| entry.name == FLOOR);
        let row = |(measure, goal): &(Measure, Goal)| {
            let what = match measure {
                Measure::Wall => "time",
                Measure::Processor => "processor time",
                Measure::Faster => "times as fast",
            };
            let name = format!("{}: {what}, to {}", self.title, other.name);
            let floor = floor.map(|floor| self.floor(*measure, floor, other));
            Row { name, figure: Some(measure.of(ours, other)), unit: " ×", goal: *goal, floor }
        };
        self.goals.iter().map(row).collect()
    }
}

fn print_machine(binary: &Path) {
    machine::print();
    println!("rocescope:  {}", first_line(Command::new(binary).arg("--version")));
    println!("tcpdump:    {}", first_line(Command::new("tcpdump").arg("--version")));
    println!("tshark:     {}", first_line(Command::new("tshark").arg("--version")));
    println!("gzip:       {}", first_line(Command::new("gzip").arg("--version")));
}
