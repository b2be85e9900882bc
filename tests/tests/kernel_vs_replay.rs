//! The kernel programs count the same as replay, figure by figure.
//!
//! Each capture's frames are run through the programs with `BPF_PROG_TEST_RUN` at their own times, and the report of
//! the programs' counts is compared with replay's. XDP gets complete frames, as long as they were on the wire, with
//! zeros for bytes that the capture truncated; replay then gets the same. TC gets the captured bytes and the length
//! on the wire.
//!
//! Of the figures beyond counters, those of traffic over time, messages and DSCP are compared; the programs collect
//! no others.
//!
//! Two differences are by design. XDP cannot know that a frame is untagged, so an id of 0 in replay is unknown to it.
//! The programs parse only one VXLAN, GRE, ERSPAN or IP in IP around RoCE: they count frames in other tunnels as
//! such, and the expected report comes from a replay of the others.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rocescope::metrics::traffic::BIN_NS;
use rocescope_common::wire::frame::{Full, Kernel};
use rocescope_common::wire::{Meta, SkipReason, parse};
use rocescope_tests::diff;
use rocescope_tests::kernel::frames::{self, Frame};
use rocescope_tests::kernel::machine::{Hook, Machines};
use rocescope_tests::kernel::{available, replayed, test_run};
use rocescope_tests::oracle::{captures, cases};
use serde_json::{Value, json};

/// Larger than any capture.
const MAX_FLOWS: u32 = 4096;

/// The longest packet in a kernel; some captures for robustness tests claim longer ones.
const LONGEST: u32 = 65_536;

/// True if replay parses further than the programs do.
fn too_deep(frame: &Frame) -> bool {
    let data = frame.data.as_slice();
    let meta = Meta::ethernet(frame.wire_len);
    parse::<Kernel>(&data, meta, &mut ()) == Err(SkipReason::TunnelUnparsed)
        && parse::<Full>(&data, meta, &mut ()) != Err(SkipReason::TunnelUnparsed)
}

/// Frames as a hook gets them.
fn as_given(hook: Hook, frames: &[Frame]) -> Vec<Frame> {
    // The kernel creates no packet shorter than an Ethernet header.
    let frames = frames.iter().filter(|frame| frame.data.len() >= test_run::LEAST);
    let frames = frames.map(|frame| Frame { wire_len: frame.wire_len.min(LONGEST), ..frame.clone() });
    if hook.is_xdp() {
        frames.map(|frame| frame.padded()).collect()
    } else {
        // All headers are well before the end of TC's test frames.
        frames.map(|frame| frame.cut(test_run::LINEAR)).collect()
    }
}

/// Expected report of `hook`: a replay of the frames that it can parse.
fn expected(hook: Hook, parsed: &[Frame], deep: &[Frame], window: (u64, u64)) -> Result<Value> {
    let mut report = replayed::report(&replayed::sample(parsed)?.0)?;
    let count = |report: &mut Value, place: &str, more: u64| -> Result<()> {
        let value = report.pointer_mut(place).context("no such count")?;
        *value = json!(value.as_u64().unwrap_or(0) + more);
        Ok(())
    };
    if !deep.is_empty() {
        count(&mut report, "/totals/packets", deep.len() as u64)?;
        count(&mut report, "/totals/bytes", deep.iter().map(|frame| u64::from(frame.wire_len)).sum())?;
        count(
            &mut report,
            "/links/0/skipped_bytes",
            deep.iter().map(|frame| u64::from(frame.wire_len)).sum(),
        )?;
        let skipped = report.pointer_mut("/totals/skipped").context("no skipped")?;
        let before = skipped["tunnel_unparsed"].as_u64().unwrap_or(0);
        skipped["tunnel_unparsed"] = json!(before + deep.len() as u64);
        report["window"] = json!({ "first_ns": window.0, "last_ns": window.1 });
    }
    if hook.is_xdp() {
        report["flows"].as_array_mut().context("no flows")?.iter_mut().for_each(without_metadata);
    }
    report["totals"]["lost"]["events_dropped"] = json!(0);
    report["totals"]["lost"]["bins_dropped"] = json!(0);
    Ok(report)
}

/// The flow without information on tags beside the frames.
fn without_metadata(flow: &mut Value) {
    for id in ["vlan", "inner_vlan"] {
        if flow[id] == 0 && (id == "vlan" || flow["vlan"].is_null()) {
            flow[id] = Value::Null;
        }
    }
    // A first tag implies that it is known whether there is a second one.
    let mut mixed: Vec<Value> = flow["mixed"].as_array().cloned().unwrap_or_default();
    if mixed.contains(&json!("vlan")) && !mixed.contains(&json!("inner_vlan")) {
        mixed.insert(1, json!("inner_vlan"));
        flow["mixed"] = json!(mixed);
    }
}

/// True if a frame falls into an earlier bin than a previous frame.
fn jumps_back(frames: &[Frame]) -> bool {
    let bins = frames.iter().map(|frame| frame.time_ns / BIN_NS);
    bins.clone().zip(bins.skip(1)).any(|(one, next)| next < one)
}

/// Runs frames through a program; returns all differences from replay, and the report.
fn differences(machines: &mut Machines, hook: Hook, frames: &[Frame]) -> Result<(Vec<String>, Value)> {
    let given = as_given(hook, frames);
    let (deep, parsed): (Vec<_>, Vec<_>) = given.iter().cloned().partition(too_deep);
    let mut machine = machines.take(hook)?;
    for frame in &given {
        machine.send(frame)?;
    }
    let sample = machine.sample()?;
    let mut report = replayed::report(&sample)?;
    let mut expected = expected(hook, &parsed, &deep, sample.window.unwrap_or_default())?;
    if jumps_back(&parsed) {
        // Replay processes late packets of a sender in order of arrival; records are sorted first.
        report["incast"].take();
        expected["incast"].take();
    }
    let mut found = diff::differences(&report, &expected);

    let (_, events) = replayed::sample(&parsed)?;
    if machine.events.len() != events.len() {
        found.push(format!("{} events, expected {}", machine.events.len(), events.len()));
    }
    for (number, (ours, theirs)) in machine.events.iter().zip(&events).enumerate() {
        if ours != theirs {
            found.push(format!("event {number}: kernel {ours:?}, expected {theirs:?}"));
            break;
        }
    }
    machines.put(machine);
    Ok((found, report))
}

/// Captures with duplicates.
const TWICE: [&str; 1] = ["l1_any_sll2.any.pcap"];
/// One program of each kind; for XDP the one that also supports multi-buffer frames.
const BOTH_KINDS: [Hook; 2] = [Hook::XdpFrags, Hook::TcIngress];

/// The other program of each kind: the same code except for a constant, so that a part of the captures is enough. The
/// one without multi-buffer support is left out if there are such frames.
fn others(frames: &[Frame]) -> Vec<Hook> {
    let several = frames.iter().any(|frame| frame.wire_len as usize > test_run::LINEAR);
    Hook::ALL
        .into_iter()
        .filter(|hook| !(BOTH_KINDS.contains(hook) || several && *hook == Hook::Xdp))
        .collect()
}

/// Compares hooks with replay; returns the report of the last one.
fn hold_against_replay(
    machines: &mut Machines,
    name: &str,
    frames: &[Frame],
    hooks: &[Hook],
    found: &mut Vec<String>,
) -> Value {
    let mut last = Value::Null;
    for hook in hooks {
        match differences(machines, *hook, frames) {
            Ok((differences, report)) => {
                found.extend(differences.iter().map(|line| format!("{name} {hook:?} {line}")));
                last = report;
            }
            Err(error) => found.push(format!("{name} {hook:?}: {error:#}")),
        }
    }
    last
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// Compares captures with replay; returns the names of those with frames that never reach the programs.
fn captures(paths: &[PathBuf]) -> BTreeSet<String> {
    let (mut found, mut foreign) = (Vec::new(), BTreeSet::new());
    let mut machines = Machines::new(MAX_FLOWS);
    let mut sent = 0;
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match frames::read(path) {
            // Replay recognises duplicates in a capture; the kernel counts them as they arrive.
            Ok(Some(_)) if TWICE.contains(&name.as_str()) => {}
            Ok(Some(frames)) => {
                sent += frames.len();
                hold_against_replay(&mut machines, &name, &frames, &BOTH_KINDS, &mut found);
            }
            Ok(None) => {
                foreign.insert(name);
            }
            Err(error) => found.push(format!("{name}: {error:#}")),
        }
    }
    println!("{sent} frames of {} captures, {foreign:?} are of other links", paths.len());
    none(&found);
    foreign
}

#[test]
fn every_capture_of_the_tests() {
    if !available() {
        return;
    }
    let paths = captures::own().unwrap();
    assert!(paths.len() > 50, "only {} captures found", paths.len());
    assert_eq!(captures(&paths), BTreeSet::new());
}

#[test]
fn every_further_capture() {
    if !available() {
        return;
    }
    captures(&captures::further().unwrap());
}

/// Frames that only replay parses are listed by name, so that the rule above cannot hide other differences.
#[test]
fn every_crafted_capture() {
    if !available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut found, mut left) = (Vec::new(), BTreeSet::new());
    let mut machines = Machines::new(MAX_FLOWS);
    for (number, case) in cases::all().into_iter().enumerate() {
        let path = folder.path().join(case.name);
        std::fs::write(&path, &case.file).unwrap();
        let frames = frames::read(&path).unwrap().unwrap();
        let report = hold_against_replay(&mut machines, case.name, &frames, &BOTH_KINDS, &mut found);
        if number % 4 == 0 {
            hold_against_replay(&mut machines, case.name, &frames, &others(&frames), &mut found);
        }
        if let Some(count) = report["totals"]["skipped"]["tunnel_unparsed"].as_u64() {
            let flows = report["flows"].as_array().unwrap().len();
            assert_eq!((count, flows), (case.packets, 0), "{}", case.name);
            left.insert(case.name);
        }
    }
    none(&found);
    let these = ["erspan2_vxlan.pcap", "geneve.pcap", "mpls.pcap"];
    assert_eq!(left, BTreeSet::from(these));
}

/// By name, so that simultaneous senders are compared everywhere else.
#[test]
fn only_here_do_times_jump_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut back: Vec<String> = Vec::new();
    for case in cases::all() {
        let path = folder.path().join(case.name);
        std::fs::write(&path, &case.file).unwrap();
        if jumps_back(&frames::read(&path).unwrap().unwrap()) {
            back.push(case.name.to_owned());
        }
    }
    for path in captures::own().unwrap() {
        if frames::read(&path).unwrap().is_some_and(|frames| jumps_back(&frames)) {
            back.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    assert_eq!(back, ["times.pcap"]);
}
