//! VLAN tags in packet metadata, and frames whose headers are in another buffer than their start, which test runs
//! cannot create: on a veth pair in network namespaces.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use rocescope::host::net::hook::{HookChoice, XdpModeChoice};
use rocescope_tests::kernel::machine::programs;
use rocescope_tests::kernel::wire::{self, Wire};
use rocescope_tests::kernel::{available, replayed};
use rocescope_tests::oracle::craft::{self, Roce};
use serde_json::{Value, json};

const PACKETS: u32 = 20;

fn frames(payload: usize) -> Vec<Vec<u8>> {
    (0..PACKETS)
        .map(|psn| craft::ethernet(0x0800, &Roce { psn, payload, class: 2, ..Roce::default() }.ipv4()))
        .collect()
}

fn tagged(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| craft::tagged(0x8100, 3, 42, frame)).collect()
}

fn bytes(frames: &[Vec<u8>]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

/// The only flow counted when these frames arrive.
fn counted(hook: HookChoice, mode: XdpModeChoice, tagger: bool, mtu: u32, frames: &[Vec<u8>]) -> Value {
    let wire = Wire::new(mtu).unwrap();
    let mut programs = programs(16, true).unwrap();
    if tagger {
        wire.tag(&mut programs).unwrap();
    }
    let running = wire.watch(hook, mode).unwrap();
    println!("{:?}", running.hooks);
    wire.send(frames).unwrap();
    let sample = wire::take(running, u64::from(PACKETS)).unwrap();
    let report = replayed::report(&sample).unwrap();
    assert_eq!(report["flows"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["totals"]["roce_packets"], PACKETS);
    let flow = &report["flows"][0];
    assert_eq!(flow["psn"]["gaps"], 0);
    assert_eq!(flow["mixed"], json!([]));
    flow.clone()
}

fn tags(flow: &Value) -> [&Value; 3] {
    [&flow["vlan"], &flow["pcp"], &flow["inner_vlan"]]
}

#[test]
fn without_a_tag() {
    if !available() {
        return;
    }
    let frames = frames(64);
    let flow = counted(HookChoice::Tc, XdpModeChoice::Auto, false, 1500, &frames);
    assert_eq!(tags(&flow), [&json!(0), &Value::Null, &json!(0)]);
    assert_eq!(flow["bytes"], bytes(&frames));
    let flow = counted(HookChoice::Xdp, XdpModeChoice::Native, false, 1500, &frames);
    assert_eq!(tags(&flow), [&Value::Null; 3]);
    assert_eq!(flow["bytes"], bytes(&frames));
}

#[test]
fn a_tag_beside_the_frame_is_seen_by_tc_and_known_to_be_unknown_to_xdp() {
    if !available() {
        return;
    }
    let frames = frames(64);
    let flow = counted(HookChoice::Tc, XdpModeChoice::Auto, true, 1500, &frames);
    assert_eq!(tags(&flow), [&json!(100), &json!(5), &json!(0)]);
    assert_eq!(flow["bytes"], bytes(&frames) + 4 * u64::from(PACKETS));
    let flow = counted(HookChoice::Xdp, XdpModeChoice::Native, true, 1500, &frames);
    assert_eq!(tags(&flow), [&Value::Null; 3]);
    assert_eq!(flow["bytes"], bytes(&frames));
}

#[test]
fn a_tag_in_the_frame_is_seen_by_both() {
    if !available() {
        return;
    }
    let frames = tagged(&frames(64));
    for (hook, mode) in [
        (HookChoice::Tc, XdpModeChoice::Auto),
        (HookChoice::Xdp, XdpModeChoice::Native),
        (HookChoice::Xdp, XdpModeChoice::Generic),
    ] {
        let flow = counted(hook, mode, false, 1500, &frames);
        assert_eq!(tags(&flow)[..2], [&json!(42), &json!(3)], "{hook:?} {mode:?}");
        assert_eq!(flow["inner_vlan"], 0, "{hook:?} {mode:?}");
        assert_eq!(flow["bytes"], bytes(&frames), "{hook:?} {mode:?}");
    }
}

/// A tag in the frame, and another one in the metadata, which is the outer one.
#[test]
fn a_tag_beside_the_frame_is_outside_of_one_in_it() {
    if !available() {
        return;
    }
    let frames = tagged(&frames(64));
    let flow = counted(HookChoice::Tc, XdpModeChoice::Auto, true, 1500, &frames);
    assert_eq!(tags(&flow), [&json!(100), &json!(5), &json!(42)]);
    assert_eq!(flow["bytes"], bytes(&frames) + 4 * u64::from(PACKETS));
}

/// A packet socket puts only the Ethernet header of a long frame into the first buffer.
#[test]
fn headers_in_another_buffer_than_the_frames_beginning_are_found() {
    if !available() {
        return;
    }
    let frames = frames(8192);
    for (hook, mode) in [
        (HookChoice::Tc, XdpModeChoice::Auto),
        (HookChoice::Xdp, XdpModeChoice::Native),
        (HookChoice::Auto, XdpModeChoice::Auto),
    ] {
        let flow = counted(hook, mode, false, 9000, &frames);
        assert_eq!(flow["bytes"], bytes(&frames), "{hook:?} {mode:?}");
        assert_eq!(flow["payload_bytes"], 8192 * u64::from(PACKETS), "{hook:?} {mode:?}");
    }
}
