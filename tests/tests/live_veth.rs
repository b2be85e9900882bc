//! Frames through a real link: the kernel programs count the same as a replay of a capture of these frames, and every
//! frame was counted or dropped by the link.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use rocescope::host::kernel::KernelFacts;
use rocescope::host::net::hook::{FRAGS_SINCE, ONE_BUFFER_MTU};
use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::program::Program;
use rocescope_tests::live::wire::{Sent, World};
use rocescope_tests::live::{frames, root_or_skip};
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::oracle::craft::{self, Roce};
use serde_json::{Value, json};

/// Maximum number of attempts if the link dropped frames.
const ATTEMPTS: usize = 4;

/// An ingress hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Native,
    Generic,
    Tc,
}

impl Hook {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Native => &["--hook", "xdp", "--xdp-mode", "native"],
            Self::Generic => &["--hook", "xdp", "--xdp-mode", "generic"],
            Self::Tc => &["--hook", "tc"],
        }
    }

    /// The hook actually used: older kernels have no native XDP for multi-buffer frames.
    fn used(self, mtu: u32) -> Self {
        let kernel = KernelFacts::read(Path::new("/")).version.unwrap();
        if self == Self::Native && mtu > ONE_BUFFER_MTU && kernel < FRAGS_SINCE { Self::Tc } else { self }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Native => "native XDP",
            Self::Generic => "generic XDP",
            Self::Tc => "TC ingress",
        }
    }
}

/// The report of a replay of these frames. Frames in tunnels that the kernel programs do not parse are left out, and
/// counted as the programs do.
fn replayed(frames: &[Vec<u8>]) -> Result<Value> {
    let (deep, plain): (Vec<_>, Vec<_>) = frames.iter().cloned().partition(|frame| frames::is_deep(frame));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, frames::capture(&plain))?;
    let mut report = binary::replay(&[path], [] as [&str; 0])?;
    let bytes: usize = deep.iter().map(Vec::len).sum();
    let totals = &mut report["totals"];
    for (name, more) in [("packets", deep.len()), ("bytes", bytes)] {
        totals[name] = json!(totals[name].as_u64().unwrap_or(0) + more as u64);
    }
    let unparsed = &mut totals["skipped"]["tunnel_unparsed"];
    *unparsed = json!(unparsed.as_u64().unwrap_or(0) + deep.len() as u64);
    Ok(report)
}

fn packets(report: &Value) -> u64 {
    report["totals"]["packets"].as_u64().unwrap_or(0)
}

/// Watches with the requested hook while all frames arrive and then leave again. Returns the report and the number of
/// frames sent in both directions; the link dropped nothing.
fn watched(asked: Hook, mtu: u32, frames: &[Vec<u8>]) -> (Value, u64) {
    let hook = asked.used(mtu);
    for _ in 0..ATTEMPTS {
        let (world, mut link) = World::with_link(mtu).unwrap();
        let options = ["-i", "near0", "--output", "jsonl", "--interval", "50ms"];
        let program = Program::live(&world.near, &[&options, asked.arguments()].concat()).unwrap();
        program
            .wait_for_message(|text| text.contains(&format!("near0: {}", hook.name())).then_some(()))
            .unwrap();
        let hooks = Hooks::of(&world, &mut link).unwrap();
        assert_eq!(hooks.xdp.is_some(), hook != Hook::Tc, "{hook:?}");
        assert_eq!((hooks.tc_ingress, hooks.tc_egress), (u32::from(hook == Hook::Tc), 1), "{hook:?}");

        let arriving = link.receive(frames).unwrap();
        let leaving = link.transmit(frames).unwrap();
        let Sent { frames: sent, dropped } =
            Sent { frames: arriving.frames + leaving.frames, dropped: arriving.dropped };
        // With the kernel's own queue at the far end, frames may still be in transit.
        program.reported(|report| packets(report) + dropped >= sent).unwrap();
        let ended = program.interrupt().unwrap();
        assert!(ended.status.success(), "{hook:?}: {ended:?}");
        let report = ended.lines().unwrap().pop().unwrap();
        assert_eq!(
            packets(&report) + dropped,
            sent,
            "{hook:?} at {mtu}: a frame is neither counted nor dropped"
        );
        let after = Hooks::of(&world, &mut link).unwrap();
        assert_eq!(after, Hooks::default(), "{hook:?}");
        if dropped == 0 {
            return (report, sent);
        }
    }
    panic!("{hook:?} at {mtu}: the link dropped frames each time");
}

fn identity(flow: &Value) -> String {
    format!("{} > {} QP {}", flow["src"], flow["dst"], flow["dest_qp"])
}

fn flows<'a>(report: &'a Value, direction: Option<&str>) -> BTreeMap<String, &'a Value> {
    let wanted = |flow: &&Value| flow["direction"].as_str() == direction;
    let all = report["flows"].as_array().unwrap().iter().filter(wanted);
    all.map(|flow| (identity(flow), flow)).collect()
}

/// True if a field of a flow depends on the times of packets, which here follow at the link's speed, or is not
/// collected live.
fn not_compared(name: &str) -> bool {
    ["icrc", "spray", "ce_over_time", "cnp", "last_naks_ns"].contains(&name)
        || name.starts_with("latency_")
        || name == "message_completion_ns"
        || name.starts_with("loss")
}

/// All differences of the flows in one direction.
fn flow_differences(live: &Value, replayed: &Value, direction: &str, tag_known: bool) -> Vec<String> {
    let (ours, theirs) = (flows(live, Some(direction)), flows(replayed, None));
    let mut found = Vec::new();
    for (key, their) in &theirs {
        let Some(our) = ours.get(key) else {
            found.push(format!("{direction} {key}: not seen live"));
            continue;
        };
        // For XDP, a missing tag in the frame does not mean that there was none.
        let untagged = their["vlan"] == 0 && their["pcp"].is_null();
        for (name, value) in their.as_object().unwrap() {
            let expected = match name.as_str() {
                "link" | "direction" | "first_ns" | "last_ns" => continue,
                name if not_compared(name) => continue,
                // Live, only pairs stated by the packets are known.
                "peer_qp" | "pairing" if their["pairing"]["confidence"] != "certain" => continue,
                "vlan" | "inner_vlan" if untagged && !tag_known => &Value::Null,
                _ => value,
            };
            if our[name] != *expected {
                let text = format!("{direction} {key}: {name} is {}, replay has {expected}", our[name]);
                found.push(text.chars().take(400).collect());
            }
        }
    }
    found.extend(
        ours.keys()
            .filter(|key| !theirs.contains_key(*key))
            .map(|key| format!("{direction} {key}: only live")),
    );
    found
}

/// Differences between the links in one direction, whose bursts must contain all of their bytes.
fn link_differences(live: &Value, replayed: &Value, direction: &str) -> Vec<String> {
    let link = |report: &Value| -> Value {
        let mut links = report["links"].as_array().unwrap().iter();
        links.find(|link| link["direction"].is_null() || link["direction"] == direction).unwrap().clone()
    };
    let (ours, theirs) = (link(live), link(replayed));
    let mut found = Vec::new();
    for name in ["dscp", "frame_sizes"] {
        if ours[name] != theirs[name] {
            found.push(format!("{direction}: {name} is {}, replay has {}", ours[name], theirs[name]));
        }
    }
    let mut bursts = live["bursts"].as_array().unwrap().iter();
    let binned = bursts
        .find(|one| one["direction"] == direction)
        .map_or(0.0, |one| one["mean_bytes"].as_f64().unwrap() * one["bins"].as_f64().unwrap());
    if (binned - ours["bytes"].as_f64().unwrap()).abs() > 0.5 {
        found.push(format!("{direction}: {binned} bytes in bins of {}", ours["bytes"]));
    }
    found
}

/// All differences between a live report in which frames arrived and left, and their replay.
fn differences(live: &Value, replayed: &Value, hook: Hook) -> Vec<String> {
    let mut found = flow_differences(live, replayed, "ingress", hook == Hook::Tc);
    found.extend(flow_differences(live, replayed, "egress", true));
    // The frames were faster than in the capture, so that bins and steps differ; sums do not.
    for direction in ["ingress", "egress"] {
        found.extend(link_differences(live, replayed, direction));
    }
    for name in ["matrix", "shape", "hosts"] {
        let (ours, theirs) = (&live["pattern"][name], &replayed["pattern"][name]);
        if ours != theirs {
            found.push(format!("pattern.{name} is {ours}, replay has {theirs}"));
        }
    }
    for (name, counts) in [
        ("operations", &["messages", "packets", "payload_bytes", "size_unknown"][..]),
        ("message_sizes", &["messages"][..]),
    ] {
        let mut expected = replayed["pattern"][name].clone();
        for one in expected.as_array_mut().unwrap() {
            for count in counts {
                one[count] = twice(&one[count]);
            }
            // In a live run, which messages were seen at both is not known.
            if name == "operations" {
                one["counted_again"] = Value::Null;
            }
        }
        if live["pattern"][name] != expected {
            found.push(format!("pattern.{name} is {}, twice replay's is {expected}", live["pattern"][name]));
        }
    }
    if live["totals"]["lost"]["bins_dropped"] != 0 {
        found.push(format!("{} packets are in no bin", live["totals"]["lost"]["bins_dropped"]));
    }
    // Everything was seen twice.
    for name in ["packets", "bytes", "roce_packets", "roce_bytes", "cnp_packets", "ecn", "skipped"] {
        let expected = twice(&replayed["totals"][name]);
        if live["totals"][name] != expected {
            found.push(format!("totals.{name} is {}, twice replay's is {expected}", live["totals"][name]));
        }
    }
    for link in live["links"].as_array().unwrap() {
        for name in ["packets", "bytes", "ce_ratio"] {
            if link[name] != replayed["links"][0][name] {
                found.push(format!("links: {name} of {link} is not {}", replayed["links"][0][name]));
            }
        }
    }
    // The same 5-tuples on both links count once.
    for name in ["five_tuples", "source_ports", "entropy_bits", "normalized", "effective_flows", "top_share"]
    {
        let (ours, theirs) = (&live["entropy"][name], &replayed["entropy"][name]);
        let close = match (ours.as_f64(), theirs.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1.0),
            _ => ours == theirs,
        };
        if !close {
            found.push(format!("entropy.{name} is {ours}, replay has {theirs}"));
        }
    }
    found
}

fn twice(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), twice(value))).collect(),
        value => json!(2 * value.as_u64().unwrap()),
    }
}

/// Times are those of this run, and in order.
fn times_are_plausible(report: &Value) {
    let number = |value: &Value| value.as_u64().unwrap();
    let (first, last) = (number(&report["window"]["first_ns"]), number(&report["window"]["last_ns"]));
    // The programs' clock advances with the timer tick, up to 10 ms late.
    let early = first - 20_000_000;
    assert!(last > first && last - first < 600_000_000_000, "{first} to {last}");
    for flow in report["flows"].as_array().unwrap() {
        let (from, to) = (number(&flow["first_ns"]), number(&flow["last_ns"]));
        assert!(early <= from && from <= to && to <= last + 1_000_000, "{}: {from} to {to}", identity(flow));
    }
}

fn same_as_replay(hook: Hook, mtu: u32) {
    let frames = frames::whole(mtu).unwrap();
    let longest = frames.iter().map(Vec::len).max().unwrap();
    assert!(frames.len() > 1_000 && longest == mtu as usize + 14, "{} frames up to {longest}", frames.len());
    let expected = replayed(&frames).unwrap();
    let (report, _) = watched(hook, mtu, &frames);
    let found = differences(&report, &expected, hook.used(mtu));
    let shown = found.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{hook:?} at MTU {mtu}: {} differences:\n{shown}", found.len());
    times_are_plausible(&report);
    let totals = &report["totals"];
    assert_eq!(totals["lost"]["flow_table_full"], 0);
    assert!(totals["lost"]["interface_drops"].is_u64(), "{}", totals["lost"]);
    assert_eq!(
        report["source"],
        json!({ "kind": "live", "inputs": ["near0"], "filter": null, "recording": null })
    );
}

macro_rules! links {
    ($($name:ident: $hook:expr, $mtu:expr;)*) => {
        $(
            #[test]
            fn $name() {
                if root_or_skip(stringify!($name)) {
                    same_as_replay($hook, $mtu);
                }
            }
        )*
    };
}

links! {
    native_xdp_counts_as_replay_does: Hook::Native, 1500;
    generic_xdp_counts_as_replay_does: Hook::Generic, 1500;
    tc_counts_as_replay_does: Hook::Tc, 1500;
    native_xdp_counts_as_replay_does_with_jumbo_frames: Hook::Native, 9000;
    generic_xdp_counts_as_replay_does_with_jumbo_frames: Hook::Generic, 9000;
    tc_counts_as_replay_does_with_jumbo_frames: Hook::Tc, 9000;
}

/// At full speed, on a link that drops some frames.
#[test]
fn what_is_not_counted_is_what_the_link_dropped() {
    needs_root!();
    let mut frames = frames::sends(32, 8);
    let short = frames.len() as u64;
    // Longer than the near end accepts: the link drops them.
    frames.extend((1..=9).map(|psn| frames::of_length(2_500, psn)));
    for hook in [Hook::Native, Hook::Generic, Hook::Tc] {
        let (world, mut link) = World::with_link(3000).unwrap();
        world.shrink(&link, 1500).unwrap();
        let options = ["-i", "near0", "--output", "jsonl", "--interval", "50ms"];
        let program = Program::live(&world.near, &[&options, hook.arguments()].concat()).unwrap();
        let before = link.near_counted().unwrap();
        let sent = link.flood(&frames, 500).unwrap();
        program.reported(|report| packets(report) + sent.dropped >= sent.frames).unwrap();
        let receive_drops = (link.near_counted().unwrap() - before).receive_drops;
        assert!(sent.dropped >= 9 * 500 && receive_drops >= 9 * 500, "{hook:?}: {sent:?}, {receive_drops}");
        let ended = program.interrupt().unwrap();
        let report = ended.lines().unwrap().pop().unwrap();
        assert_eq!(packets(&report) + sent.dropped, sent.frames, "{hook:?}: {sent:?}");
        let totals = &report["totals"];
        assert_eq!(totals["lost"]["interface_drops"], receive_drops, "{hook:?}");
        let flows = report["flows"].as_array().unwrap();
        let counted: u64 = flows.iter().map(|flow| flow["packets"].as_u64().unwrap()).sum();
        assert_eq!((flows.len(), counted), (32, packets(&report)), "{hook:?}");
        assert!(counted <= short * 500, "{hook:?}");
    }
}

#[test]
fn the_frames_are_worth_sending() {
    let names = ["b5_ops_full.h0.pcap", "b7_ud_ops.h1.pcap", "g_rnr.h0.pcap", "n1_vxlan_ops.x0.pcap"];
    let all = frames::whole(9000).unwrap();
    for name in names {
        let path = rocescope_tests::oracle::captures::folder().join(name);
        let plain = rocescope_tests::oracle::captures::plain(&path).unwrap().unwrap();
        let whole = plain.frames.iter().filter(|(frame, length)| frame.len() == *length as usize);
        assert!(whole.count() > 10 && all.contains(&plain.frames[0].0), "{name}");
    }
    assert!(all.iter().filter(|frame| frame.len() > 1514).count() > 20, "jumbo frames");
    // Most of these frames are not RoCE.
    let deep = all.iter().filter(|frame| frames::is_deep(frame)).count();
    assert!(deep > 0 && deep * 4 < all.len(), "{deep} of {} frames are not compared", all.len());
}

/// The outer headers of fabrics that spread a queue pair over planes: IPv6 in IPv6, with and without the segments of
/// SRv6; and IPv4 in IPv4.
#[test]
fn ip_in_ip_is_decoded() {
    const IPV6: u8 = 41;
    const ROUTING: u8 = 43;
    const PACKETS: u32 = 20;
    needs_root!();
    // RFC 8754: two segments of 16 bytes behind the first eight.
    let segments = [&[IPV6, 4, 4, 1, 1, 0, 0, 0][..], &[0xFD; 32]].concat();
    let around = |next: u8, headers: &[u8], inside: &[u8]| {
        let length = u16::try_from(headers.len() + inside.len()).unwrap().to_be_bytes();
        let outer = [&[0x60, 0, 0, 0][..], &length, &[next, 64], &[0xFC; 16], &[0xFD; 16]].concat();
        craft::ethernet(0x86DD, &[&outer, headers, inside].concat())
    };
    let of_one_psn = |psn| {
        let inside = |dest_qp| Roce { psn, dest_qp, payload: 64, ..Roce::default() };
        [
            craft::carried(4, &[], &inside(76).ipv4()),
            around(IPV6, &[], &inside(77).ipv6()),
            around(ROUTING, &segments, &inside(78).ipv6()),
        ]
    };
    let frames: Vec<_> = (0..PACKETS).flat_map(of_one_psn).collect();
    let expected = replayed(&frames).unwrap();
    for hook in [Hook::Native, Hook::Tc] {
        let (report, _) = watched(hook, 1500, &frames);
        for direction in ["ingress", "egress"] {
            let (ours, theirs) = (flows(&report, Some(direction)), flows(&expected, None));
            assert_eq!(ours.len(), 3, "{hook:?} {direction}: {}", report["totals"]);
            for (identity, flow) in ours {
                assert_eq!(
                    (&flow["encapsulation"], &flow["packets"]),
                    (&"ipip".into(), &PACKETS.into()),
                    "{flow}"
                );
                for figure in
                    ["packets", "bytes", "inner_bytes", "payload_bytes", "psn", "ecn", "dscp", "src_ports"]
                {
                    assert_eq!(flow[figure], theirs[&identity][figure], "{hook:?} {direction}: {figure}");
                }
            }
        }
    }
}

/// The driver refuses a program that was planned and loaded: what else the plan has is loaded and counts, on that
/// interface alone.
#[test]
fn a_hook_that_the_driver_refuses_is_replaced_by_the_next() {
    needs_root!();
    let frames = frames::sends(8, 50);
    for (asked, used) in [(&["--hook", "xdp"][..], Hook::Generic), (Hook::Native.arguments(), Hook::Tc)] {
        let (world, mut refused) = World::with_link(9000).unwrap();
        // A peer that sends what does not fit into one buffer: veth has no native XDP for that.
        world.shrink(&refused, 1500).unwrap();
        let mut other = world.link("near1", 1500).unwrap();
        let options = ["-i", "near0", "-i", "near1", "--output", "jsonl", "--interval", "50ms"];
        let program = Program::live(&world.near, &[&options, asked].concat()).unwrap();
        let instead = format!("): using {} instead", used.name());
        let hooks = [format!("near0: {}", used.name()), format!("near1: {}", Hook::Native.name())];
        program
            .wait_for_message(|text| {
                let reason = text.split_once("native XDP on near0 failed (").map(|(_, rest)| rest);
                let says_so = reason.is_some_and(|rest| rest.contains(&instead));
                (says_so && hooks.iter().all(|hook| text.contains(hook))).then_some(())
            })
            .unwrap();
        let hooks = Hooks::of(&world, &mut refused).unwrap();
        assert_eq!((hooks.xdp.is_some(), hooks.tc_ingress), (used != Hook::Tc, u32::from(used == Hook::Tc)));
        for link in [&mut refused, &mut other] {
            let sent = link.receive(&frames).unwrap();
            assert_eq!((sent.frames, sent.dropped), (frames.len() as u64, 0));
        }
        program.reported(|report| packets(report) == 2 * frames.len() as u64).unwrap();
        let ended = program.interrupt().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let report = ended.lines().unwrap().pop().unwrap();
        let links = report["links"].as_array().unwrap();
        let counted = |name: &str| {
            let of = links.iter().filter(|link| link["name"] == name);
            of.filter_map(|link| link["packets"].as_u64()).sum::<u64>()
        };
        assert_eq!(["near0", "near1"].map(counted), [frames.len() as u64; 2], "{links:?}");
    }
}
