//! The kernel programs count what replay counts, figure by figure.
//!
//! Each capture's frames are sent through the programs with `BPF_PROG_TEST_RUN`, at their own times,
//! and the report of what the programs counted is compared with replay's. XDP gets whole frames: as
//! long as they were on the wire, zeros for what the capture cut off; replay then gets the same. TC
//! gets the captured bytes and is told the length on the wire.
//!
//! Of the figures beyond counters those of traffic over time, of messages and of DSCP are compared; the
//! programs collect no others.
//!
//! Two things differ by design. XDP cannot know that a frame is untagged, so an id of 0 in replay is
//! unknown to it. And the programs take apart one VXLAN, GRE or ERSPAN around RoCE, nothing else:
//! frames in other tunnels they count as such, and replay is asked about the others.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rocescope::metrics::traffic::BIN_NS;
use rocescope_common::wire::frame::{Full, Kernel, Tag};
use rocescope_common::wire::{Entry, Meta, SkipReason, parse};
use rocescope_tests::diff;
use rocescope_tests::kernel::frames::{self, Frame};
use rocescope_tests::kernel::machine::{Hook, Machine};
use rocescope_tests::kernel::{available, replayed, test_run};
use rocescope_tests::oracle::{captures, cases};
use serde_json::{Value, json};

/// More than any capture has.
const MAX_FLOWS: u32 = 4096;

/// The longest packet there is in a kernel; some captures claim longer ones, to break readers.
const LONGEST: u32 = 65_536;

/// Replay parses what the programs leave unparsed.
fn too_deep(frame: &Frame) -> bool {
    let data = frame.data.as_slice();
    let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: frame.wire_len, tag: Tag::NONE };
    parse::<Kernel>(&data, meta, &mut ()) == Err(SkipReason::TunnelUnparsed)
        && parse::<Full>(&data, meta, &mut ()) != Err(SkipReason::TunnelUnparsed)
}

/// Frames as a hook gets them.
fn as_given(hook: Hook, frames: &[Frame]) -> Vec<Frame> {
    // The kernel makes no packet of less than an Ethernet header.
    let frames = frames.iter().filter(|frame| frame.data.len() >= test_run::LEAST);
    let frames = frames.map(|frame| Frame { wire_len: frame.wire_len.min(LONGEST), ..frame.clone() });
    if hook.is_xdp() {
        frames.map(|frame| frame.padded()).collect()
    } else {
        // All headers lie far in front of where test runs of TC end.
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

/// The flow as it is when nothing is known of tags beside the frames.
fn without_metadata(flow: &mut Value) {
    for id in ["vlan", "inner_vlan"] {
        if flow[id] == 0 && (id == "vlan" || flow["vlan"].is_null()) {
            flow[id] = Value::Null;
        }
    }
    // With the first tag it is known that there is no second one.
    let mut mixed: Vec<Value> = flow["mixed"].as_array().cloned().unwrap_or_default();
    if mixed.contains(&json!("vlan")) && !mixed.contains(&json!("inner_vlan")) {
        mixed.insert(1, json!("inner_vlan"));
        flow["mixed"] = json!(mixed);
    }
}

/// True if a frame falls into an earlier bin than one before it.
fn jumps_back(frames: &[Frame]) -> bool {
    let bins = frames.iter().map(|frame| frame.time_ns / BIN_NS);
    bins.clone().zip(bins.skip(1)).any(|(one, next)| next < one)
}

/// Sends frames through a program and gives every difference to replay, and its report.
fn differences(hook: Hook, frames: &[Frame]) -> Result<(Vec<String>, Value)> {
    let given = as_given(hook, frames);
    let (deep, parsed): (Vec<_>, Vec<_>) = given.iter().cloned().partition(too_deep);
    let mut machine = Machine::new(hook, MAX_FLOWS)?;
    for frame in &given {
        machine.send(frame)?;
    }
    let sample = machine.sample()?;
    let mut report = replayed::report(&sample)?;
    let mut expected = expected(hook, &parsed, &deep, sample.window.unwrap_or_default())?;
    if jumps_back(&parsed) {
        // Replay takes what comes late for a sender at the time; records are put in order first.
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
    Ok((found, report))
}

/// Captures that show packets twice.
const TWICE: [&str; 1] = ["l1_any_sll2.any.pcap"];
/// One program of each kind; that of XDP is the one which also takes frames of several buffers.
const BOTH_KINDS: [Hook; 2] = [Hook::XdpFrags, Hook::TcIngress];

/// The other program of each kind: the same code but for a constant, so that a part of the captures is enough. The
/// one that gets no frame of several buffers is left out where there are some.
fn others(frames: &[Frame]) -> Vec<Hook> {
    let several = frames.iter().any(|frame| frame.wire_len as usize > test_run::LINEAR);
    Hook::ALL
        .into_iter()
        .filter(|hook| !(BOTH_KINDS.contains(hook) || several && *hook == Hook::Xdp))
        .collect()
}

/// The report of the last of these hooks.
fn hold_against_replay(name: &str, frames: &[Frame], hooks: &[Hook], found: &mut Vec<String>) -> Value {
    let mut last = Value::Null;
    for hook in hooks {
        match differences(*hook, frames) {
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

/// Holds captures against replay and gives the names of those with frames no program ever meets.
fn captures(paths: &[PathBuf]) -> BTreeSet<String> {
    let (mut found, mut foreign) = (Vec::new(), BTreeSet::new());
    let mut sent = 0;
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match frames::read(path) {
            // Replay recognises a capture that shows packets twice; the kernel counts them as they arrive.
            Ok(Some(_)) if TWICE.contains(&name.as_str()) => {}
            Ok(Some(frames)) => {
                sent += frames.len();
                hold_against_replay(&name, &frames, &BOTH_KINDS, &mut found);
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

/// What the programs leave to replay is known by name, so that the rule above cannot excuse anything else.
#[test]
fn every_crafted_capture() {
    if !available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut found, mut left) = (Vec::new(), BTreeSet::new());
    for (number, case) in cases::all().into_iter().enumerate() {
        let path = folder.path().join(case.name);
        std::fs::write(&path, &case.file).unwrap();
        let frames = frames::read(&path).unwrap().unwrap();
        let report = hold_against_replay(case.name, &frames, &BOTH_KINDS, &mut found);
        if number % 4 == 0 {
            hold_against_replay(case.name, &frames, &others(&frames), &mut found);
        }
        if let Some(count) = report["totals"]["skipped"]["tunnel_unparsed"].as_u64() {
            let flows = report["flows"].as_array().unwrap().len();
            assert_eq!((count, flows), (case.packets, 0), "{}", case.name);
            left.insert(case.name);
        }
    }
    none(&found);
    let these = ["erspan2_vxlan.pcap", "geneve.pcap", "ip6_in_ip4.pcap", "ipip.pcap", "mpls.pcap"];
    assert_eq!(left, BTreeSet::from(these));
}

/// By name, so that senders at once are compared everywhere else.
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
