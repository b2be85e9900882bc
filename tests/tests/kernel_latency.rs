//! The kernel programs measure the same latencies as replay, sample by sample.
//!
//! Pairing depends on the packets that each side sees, and on their times. Therefore both get the same pairs in
//! advance: those that a replay of the whole capture finds. Then the frames go through the programs at their own
//! times, and through replay's collector.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;

use anyhow::Result;
use rocescope::metrics::latency::{Collector, Figure};
use rocescope::metrics::packet::Packet;
use rocescope::metrics::pairing::{NONE, Reverse};
use rocescope::source::flows::table::FlowTable;
use rocescope_common::abi::TIMED_FLOWS;
use rocescope_common::wire::frame::Kernel;
use rocescope_common::wire::{Meta, parse};
use rocescope_tests::kernel::frames::{self, Frame};
use rocescope_tests::kernel::machine::{Hook, Machines};
use rocescope_tests::kernel::{available, replayed, test_run};
use rocescope_tests::oracle::captures;

/// Larger than any capture.
const MAX_FLOWS: u32 = 4096;

/// Slot of the ACK flow, by slot of the request flow.
type Pairs = BTreeMap<u32, u32>;

/// The compared part of a flow: latencies, and the number of unmeasured requests.
type Times = BTreeMap<u32, (Figure, u64)>;

fn parsed(frame: &Frame) -> Option<rocescope_common::wire::Frame> {
    let meta = Meta::ethernet(frame.wire_len);
    parse::<Kernel>(&frame.data.as_slice(), meta, &mut ()).ok()
}

fn timed(figure: Figure) -> (Figure, u64) {
    let untimed = figure.unpaired + figure.untracked;
    (Figure { unpaired: 0, untracked: 0, ..figure }, untimed)
}

/// Latencies measured by replay's collector.
fn by_replay(frames: &[Frame], pairs: &Pairs) -> Times {
    let mut table = FlowTable::new(MAX_FLOWS as usize);
    let link = table.add_link("tap".to_owned(), None).unwrap();
    let mut collector = Collector::default();
    for frame in frames {
        let Some(headers) = parsed(frame) else { continue };
        let seen = table.observe(link, &headers, frame.time_ns).unwrap();
        let at = (frame.time_ns, link);
        let packet = Packet::new((&headers, &frame.data), at, seen.slot, seen.stats, seen.outcome);
        let reverse = pairs.get(&packet.slot).copied();
        collector.packet(&packet, Reverse { slot: reverse.unwrap_or(NONE), paired: reverse.is_some() });
    }
    collector.metrics().into_iter().map(|(slot, figure)| (slot, timed(figure))).collect()
}

/// Latencies measured by the kernel programs.
fn by_kernel(machines: &mut Machines, hook: Hook, frames: &[Frame], pairs: &Pairs) -> Result<Times> {
    let mut machine = machines.take(hook)?;
    for (requests, answers) in pairs {
        assert!(machine.programs.pair(*requests, *answers)?, "there is room for all");
    }
    for frame in frames {
        machine.send(frame)?;
    }
    let flows = machine.sample()?.flows;
    let mut times = Times::new();
    for flow in flows {
        let (latency, untimed) = machine.programs.latency(flow.slot);
        let figure = latency.map(|latency| Figure::of(&latency)).unwrap_or_default();
        times.insert(flow.slot, (figure, u64::from(untimed)));
    }
    machines.put(machine);
    Ok(times)
}

/// The two directions of each connection, from a replay of all frames.
fn pairs_of(frames: &[Frame]) -> Pairs {
    let sample = replayed::whole(frames).unwrap();
    let pairs = sample.metrics.pairs.unwrap();
    let mut found = Pairs::new();
    for (slot, pair) in pairs.iter() {
        if let Some(reverse) = pair.reverse {
            found.insert(slot, reverse);
        }
    }
    // Each ACK flow belongs to one request flow: several links in one direction do not occur here.
    let mut taken = std::collections::BTreeSet::new();
    found.retain(|_, answers| taken.insert(*answers));
    found
}

fn as_given(hook: Hook, frames: &[Frame]) -> Vec<Frame> {
    let frames = frames.iter().filter(|frame| frame.data.len() >= test_run::LEAST);
    let frames = frames.filter(|frame| frame.wire_len <= 65_536);
    if hook.is_xdp() {
        frames.map(Frame::padded).collect()
    } else {
        frames.map(|frame| frame.cut(test_run::LINEAR)).collect()
    }
}

/// Compares one capture with replay; returns the numbers of samples, completed messages, and requests without a sample.
fn differences(
    machines: &mut Machines,
    hook: Hook,
    frames: &[Frame],
    paired: bool,
    found: &mut Vec<String>,
    name: &str,
) -> [u64; 3] {
    let frames = as_given(hook, frames);
    let pairs = if paired { pairs_of(&frames) } else { Pairs::new() };
    assert!(pairs.len() <= TIMED_FLOWS as usize, "{name}: {} pairs", pairs.len());
    let expected = by_replay(&frames, &pairs);
    let got = by_kernel(machines, hook, &frames, &pairs).unwrap();
    let nothing = (Figure::default(), 0);
    for slot in expected.keys().chain(got.keys()) {
        let (expected, got) = (expected.get(slot).unwrap_or(&nothing), got.get(slot).unwrap_or(&nothing));
        if expected != got {
            found.push(format!("{name} {hook:?} slot {slot}: kernel {got:?}, replay {expected:?}"));
        }
    }
    let figures = || expected.values().map(|(figure, _)| figure);
    let samples = figures().filter_map(|figure| figure.all).map(|all| all.count).sum();
    let completed =
        figures().flat_map(|figure| figure.completions.histograms()).map(|(_, one)| one.count()).sum();
    [samples, completed, expected.values().map(|(_, untimed)| untimed).sum()]
}

/// Compares captures with replay, alternating between the programs of two hooks, which measure with the same code.
fn captures(paths: &[std::path::PathBuf], paired: bool) -> [u64; 3] {
    let mut sums = [0; 3];
    let mut found = Vec::new();
    let mut machines = Machines::new(MAX_FLOWS);
    for (path, hook) in paths.iter().zip([Hook::XdpFrags, Hook::TcIngress].into_iter().cycle()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(frames) = frames::read(path).unwrap() else { continue };
        let more = differences(&mut machines, hook, &frames, paired, &mut found, &name);
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    let [samples, completed, untimed] = sums;
    println!("{samples} samples, {completed} completed messages, {untimed} requests of flows without a pair");
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    sums
}

#[test]
fn every_capture_of_the_tests() {
    if !available() {
        return;
    }
    let [samples, completed, _] = captures(&captures::own().unwrap(), true);
    // Minimum numbers in the captures.
    assert!(samples > 2_000 && completed > 1_000, "{samples} samples, {completed} completed messages");
}

/// Without pairs, every request is counted as unmeasured.
#[test]
fn without_pairs_every_request_is_counted() {
    if !available() {
        return;
    }
    let paths: Vec<_> = captures::own().unwrap().into_iter().step_by(4).collect();
    let [samples, _, untimed] = captures(&paths, false);
    assert!(samples == 0 && untimed > 500, "{samples} samples, {untimed} requests");
}

#[test]
fn every_further_capture() {
    if !available() {
        return;
    }
    captures(&captures::further().unwrap(), true);
}
