//! The measurement: programs run on frames in memory, by turns, round after round.
//!
//! Every figure is a program's cost less that of an empty program, both taken in the same round, so
//! that a machine that grows slower or faster meanwhile does the same to both. The median over the
//! rounds stands for the whole; the quartiles say how far to trust it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use aya::maps::{MapData, RingBuf};
use rocescope_common::abi::BenchStep;

use super::case::{Case, CaseKind, FLOWS, Hook, Work, all, in_order};
use super::frames::IPV4_BTH;
use super::pair::{self, Pair};
use super::timing::{PACKETS, thread_ns, timed};
use crate::source::live::{LoadOptions, Programs, Tables};

/// Test runs happen on the loopback interface, which no program is attached to.
const LOOPBACK: u32 = 1;
/// Packets before the measurement, which fill the caches.
const WARM_UP: u32 = 1_000;
/// Events that surely fit into the ring buffer at once.
const EVENTS: u32 = 2_048;
/// Measurements of one case per round where the ring buffer is emptied between them.
const EVENT_RUNS: u32 = 8;
/// Packets of flows in turn between two emptyings of the ring buffer of bins: each may end a bin, and that number of
/// records surely fits.
const TURN: u32 = 8_192;

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds over all cases.
    pub rounds: u32,
    /// In how many of them flow tables are filled, which takes longer.
    pub fills: u32,
    /// The rows wanted, by kind of program and the case's name in JSON.
    pub wanted: fn(Hook, &str) -> bool,
}

impl Default for Effort {
    fn default() -> Self {
        Self { rounds: 21, fills: 5, wanted: |_, _| true }
    }
}

/// A row of the result.
#[derive(Clone, Debug)]
pub struct Row {
    /// Hook of the program, which decides its kind.
    pub hook: Hook,
    /// Name of the case in JSON.
    pub id: &'static str,
    /// Name of the case in the table.
    pub name: &'static str,
    /// True for packets that are full ones on the line.
    pub full: bool,
    /// Nanoseconds per packet, by round.
    pub ns: Vec<f64>,
    /// Those of the empty program, by round.
    pub empty_ns: Vec<f64>,
}

/// The results of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Rounds that were completed.
    pub rounds: u32,
    /// One row per program and case.
    pub rows: Vec<Row>,
    /// Two processors at a time over one, by round; empty where there is one.
    pub pairs: Vec<Pair>,
    /// Time that user space takes to read a full table, per reading.
    pub reads: Vec<Duration>,
    /// Kernel memory of the maps, in bytes.
    pub map_bytes: u64,
}

/// Programs with an own set of maps.
struct Set {
    programs: Programs,
    ring: RingBuf<MapData>,
    /// `None` without bins.
    bins: Option<RingBuf<MapData>>,
    /// Last value of the number that changes from packet to packet, by the name of the case. The flow is
    /// the same for every hook and round; begun anew, its packets would all be repeats.
    gone: BTreeMap<&'static str, u32>,
}

impl Set {
    fn load(object: Option<&[u8]>, precise_clock: bool) -> Result<Self> {
        let options = LoadOptions { max_flows: FLOWS, precise_clock, ..LoadOptions::new(&[LOOPBACK]) };
        let mut programs = match object {
            Some(object) => Programs::load_object(&options, object)?,
            None => Programs::load(&options)?,
        };
        let ring =
            programs.take_events().ok_or_else(|| anyhow!("the event ring buffer is already in use"))?;
        let bins = programs.take_bins();
        Ok(Self { programs, ring, bins, gone: BTreeMap::new() })
    }

    /// Nanoseconds of this thread per packet.
    fn run(&mut self, hook: Hook, program: &str, frame: &[u8], packets: u32) -> Result<f64> {
        let took = if hook.is_xdp() {
            timed(&*self.programs.xdp(program)?, frame, packets)
        } else {
            timed(&*self.programs.tc(program)?, frame, packets)
        };
        took.with_context(|| format!("cannot run {program} on a test frame"))
    }

    /// Empties both ring buffers: where one is full, a record costs less, since it is dropped.
    fn drain(&mut self) {
        for ring in std::iter::once(&mut self.ring).chain(&mut self.bins) {
            while ring.next().is_some() {}
        }
    }

    /// One measurement of a case: the program's cost less the empty one's, and that.
    fn measure(&mut self, hook: Hook, case: &Case) -> Result<(f64, f64)> {
        let (program, empty) = hook.programs(case);
        if let Some(step) = case.step {
            self.programs.set_bench_step(step)?;
        }
        // In as many packets as the program's: each test run of XDP costs some 200 µs by itself, since the kernel
        // patches the dispatcher's code.
        let packets = match case.kind {
            CaseKind::Known => PACKETS,
            CaseKind::Full => TURN,
            CaseKind::Events | CaseKind::Fill => EVENTS,
        };
        let base = self.run(hook, empty, &case.frame, packets)?;
        let cost = match case.kind {
            CaseKind::Known => {
                // The flow exists and is in the caches before it counts.
                self.go_on(hook, program, case, WARM_UP)?;
                if let Some(qp) = case.timed {
                    self.time(qp)?;
                }
                self.go_on(hook, program, case, PACKETS)?
            }
            CaseKind::Full => self.all_flows(hook, program, case, TURN)?,
            CaseKind::Events => {
                let mut sum = 0.0;
                for _ in 0..EVENT_RUNS {
                    self.drain();
                    sum += self.run(hook, program, &case.frame, EVENTS)?;
                }
                self.drain();
                sum / f64::from(EVENT_RUNS)
            }
            CaseKind::Fill => self.all_flows(hook, program, case, EVENTS)?,
        };
        self.drain();
        Ok((cost - base, base))
    }

    /// A run whose packets go on where the last one's of the same flow ended.
    fn go_on(&mut self, hook: Hook, program: &str, case: &Case, packets: u32) -> Result<f64> {
        let Some(step) = case.step else { return self.run(hook, program, &case.frame, packets) };
        let mut frame = case.frame.clone();
        let gone = self.gone.entry(case.id).or_default();
        step_on(&mut frame, step, *gone);
        *gone = gone.wrapping_add(if step.toggle == 0 { packets } else { packets / 2 });
        self.run(hook, program, &frame, packets)
    }

    /// Times the flow to a queue pair by itself, unless that is so already.
    fn time(&mut self, qp: u32) -> Result<()> {
        let reading = Tables::default().read(&self.programs)?;
        for flow in reading.flows.iter().filter(|flow| flow.key.dest_qp == qp) {
            self.programs.pair(flow.slot, flow.slot)?;
        }
        Ok(())
    }

    /// A packet of each flow, emptying the ring buffers after every `part` packets.
    fn all_flows(&mut self, hook: Hook, program: &str, case: &Case, part: u32) -> Result<f64> {
        let bth = case.step.map_or(0, |step| usize::from(step.offset));
        let mut frame = case.frame.clone();
        let mut sum = 0.0;
        let parts = FLOWS / part;
        for at in 0..parts {
            // A test run starts with the frame as given, so each part starts where the last ended.
            let first = u16::try_from(at * part).unwrap_or(u16::MAX);
            if let Some(low) = frame.get_mut(bth + 2..bth + 4) {
                low.copy_from_slice(&first.to_be_bytes());
            }
            self.drain();
            sum += self.run(hook, program, &frame, part)?;
        }
        self.drain();
        Ok(sum / f64::from(parts))
    }
}

/// Advances the number that changes from packet to packet by this number of packets.
fn step_on(frame: &mut [u8], step: BenchStep, packets: u32) {
    let at = usize::from(step.offset) + if step.toggle == 0 { 0 } else { 8 };
    if let Some(word) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) {
        let old = u32::from_be_bytes(*word);
        let new = (old & !step.mask) | (old.wrapping_add(packets) & step.mask);
        *word = new.to_be_bytes();
    }
}

/// Measures until done or interrupted; rounds that were not completed do not count. `object` is
/// another build of the kernel programs than this binary's.
///
/// # Errors
/// Fails if the kernel refuses the programs or to run them.
pub fn measure(effort: Effort, object: Option<&[u8]>, stopped: &dyn Fn(u32) -> bool) -> Result<Measured> {
    let cases = all();
    let mut measured = Measured::default();
    let wanted =
        |hook, case: &Case| measured_with(hook, case, object.is_some()) && (effort.wanted)(hook, case.id);
    for hook in Hook::ALL {
        for case in cases.iter().filter(|case| wanted(hook, case)) {
            let Case { id, name, full, .. } = *case;
            let row = Row { hook, id, name, full, ns: Vec::new(), empty_ns: Vec::new() };
            measured.rows.push(row);
        }
    }
    let mut usual = Set::load(object, false)?;
    let mut precise = Set::load(object, true)?;
    measured.map_bytes = precise.programs.map_bytes();
    for round in 0..effort.rounds {
        let fills = round < effort.fills;
        let mut metrics = Vec::new();
        let mut reads = Vec::new();
        for hook in Hook::ALL {
            let mut filled = [const { None }; Case::TABLES];
            for case in cases.iter().filter(|case| wanted(hook, case)) {
                if stopped(round) {
                    return Ok(measured);
                }
                let many = matches!(case.kind, CaseKind::Fill | CaseKind::Full);
                let set = match (many, fills) {
                    (false, _) if case.precise => &mut precise,
                    (false, _) => &mut usual,
                    (true, true) => match &mut filled[case.table()] {
                        Some(set) => set,
                        none => none.insert(Set::load(object, case.precise)?),
                    },
                    (true, false) => {
                        metrics.push(None);
                        continue;
                    }
                };
                match set.measure(hook, case) {
                    Ok(figure) => metrics.push(Some(figure)),
                    // A signal breaks off the test run as well.
                    Err(_) if stopped(round) => return Ok(measured),
                    Err(error) => return Err(error),
                }
            }
            if let [Some(set), ..] = &filled {
                reads.push(read(set)?);
            }
        }
        for (row, figure) in measured.rows.iter_mut().zip(metrics) {
            if let Some((ns, empty)) = figure {
                row.ns.push(ns);
                row.empty_ns.push(empty);
            }
        }
        measured.reads.extend(reads);
        if object.is_none() {
            measured.pairs.extend(pair::measure(&mut precise.programs, in_order(IPV4_BTH))?);
        }
        measured.rounds += 1;
    }
    Ok(measured)
}

/// `other`: another build, which may be older than what reads the clock.
fn measured_with(hook: Hook, case: &Case, other: bool) -> bool {
    match hook {
        _ if other && case.work != Work::Counting => false,
        Hook::Xdp => true,
        Hook::XdpFrags => case.every_hook,
        Hook::Tc => {
            !matches!(case.kind, CaseKind::Fill | CaseKind::Full)
                && !matches!(case.work, Work::Published | Work::Together)
        }
    }
}

/// The time that reading the filled table takes, as in a live run.
fn read(set: &Set) -> Result<Duration> {
    let mut tables = Tables::default();
    // A view keeps the latest two samples, and the reading before them gives its memory to the next.
    for _ in 0..2 {
        tables.read(&set.programs)?;
    }
    let start = thread_ns();
    let reading = tables.read(&set.programs)?;
    let took = Duration::from_nanos(thread_ns().saturating_sub(start));
    if reading.flows.len() != FLOWS as usize {
        return Err(anyhow!("the flow table has {} flows, not {FLOWS}", reading.flows.len()));
    }
    Ok(took)
}

#[cfg(test)]
mod tests {
    use rocescope_common::abi::BenchStep;

    use super::step_on;

    #[test]
    fn the_number_goes_on_within_its_bits() {
        let mut frame = [0xAA, 0x80, 0xFF, 0xFF, 0xFE, 0x55];
        let step = BenchStep { offset: 1, toggle: 0, mask: 0x00FF_FFFF };
        step_on(&mut frame, step, 3);
        assert_eq!(frame, [0xAA, 0x80, 0x00, 0x00, 0x01, 0x55]);
        step_on(&mut frame[..4], step, 3);
        assert_eq!(frame[1..4], [0x80, 0x00, 0x00], "a word that is not whole stays as it is");
    }
}
