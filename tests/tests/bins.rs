//! Bins of flows: nothing is lost or counted twice, whenever user space reads them.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use rocescope::metrics::traffic::Traffic;
use rocescope::sample::Sample;
use rocescope_tests::diff;
use rocescope_tests::kernel::frames::{self, Frame};
use rocescope_tests::kernel::machine::{Hook, Machine};
use rocescope_tests::kernel::{available, replayed};
use rocescope_tests::oracle::captures;

const MS: u64 = 1_000_000;

/// Whole frames of a capture of the tests, as XDP gets them.
fn capture(name: &str) -> Vec<Frame> {
    let paths = captures::own().unwrap();
    let path = paths.iter().find(|path| path.file_name().unwrap().to_string_lossy() == name).unwrap();
    frames::read(path).unwrap().unwrap().iter().map(Frame::padded).collect()
}

fn traffic(sample: &Sample) -> &Traffic {
    sample.metrics.traffic.as_ref().unwrap()
}

/// Packets in bins, in bins that are not over, and lost ones.
fn counted(traffic: &Traffic) -> (u64, u64) {
    let binned = traffic.links[0].bursts.as_ref().map_or(0, |bursts| bursts.total.packets);
    (binned, traffic.links[0].lost.packets)
}

/// Samples during the run take finished bins from the ring buffer and from the slots of idle flows; the last sample
/// must be the same as without them.
#[test]
fn looking_changes_nothing() {
    if !available() {
        return;
    }
    for name in CAPTURES {
        let frames = capture(name);
        let expected = replayed::report(&replayed::sample(&frames).unwrap().0).unwrap();
        for every in [1, 97] {
            let mut machine = Machine::new(Hook::XdpFrags, 4096).unwrap();
            let mut before = 0;
            for (number, frame) in frames.iter().enumerate() {
                machine.send(frame).unwrap();
                if number % every == 0 {
                    machine.running = true;
                    let (binned, lost) = counted(traffic(&machine.sample().unwrap()));
                    assert!(before <= binned && binned <= number as u64 + 1 && lost == 0, "{name} {number}");
                    before = binned;
                }
            }
            machine.running = false;
            let sample = machine.sample().unwrap();
            let report = replayed::report(&sample).unwrap();
            for part in ["bursts", "incast", "steps", "pattern"] {
                let found = diff::differences(&report[part], &expected[part]);
                assert!(
                    found.is_empty(),
                    "{name} {part}, a sample every {every} frames:\n{}",
                    found.join("\n")
                );
            }
        }
    }
}

/// Captures whose frames are in order of time.
const CAPTURES: [&str; 3] =
    ["linlin_nccl_nccl_node0.pcap", "k1_ecmp_ring.uA0.pcap.gz", "e1_loss1.h1.pcap.gz"];

/// Retired flows keep their share in the figures, exactly.
#[test]
fn retired_flows_stay_in_the_figures() {
    if !available() {
        return;
    }
    for name in CAPTURES {
        let frames = capture(name);
        let whole = {
            let mut machine = Machine::new(Hook::XdpFrags, 4096).unwrap();
            for frame in &frames {
                machine.send(frame).unwrap();
            }
            machine.sample().unwrap()
        };
        let mut machine = Machine::new(Hook::XdpFrags, 4096).unwrap();
        for (number, frame) in frames.iter().enumerate() {
            machine.send(frame).unwrap();
            if number % 211 == 0 {
                machine.running = true;
                machine.sample().unwrap();
                // All flows, whatever their state.
                machine.retire().unwrap();
            }
        }
        machine.running = false;
        let sample = machine.sample().unwrap();
        let (kept, all) = (traffic(&sample), traffic(&whole));
        assert!(sample.links[0].retired.flows > 0, "{name}");
        assert_eq!(counted(kept), counted(all), "{name}");
        let sums = |traffic: &Traffic| -> Vec<(u64, u64, u64)> {
            traffic.pairs.iter().map(|pair| (pair.packets, pair.bytes, pair.data_bytes)).collect()
        };
        assert_eq!(sums(kept), sums(all), "{name}");
        assert_eq!(kept.links[0].frame_sizes, all.links[0].frame_sizes, "{name}");
        assert_eq!(sample.metrics.marking, whole.metrics.marking, "{name}");
        let fresh = |traffic: &Traffic| -> u64 {
            let standing = traffic.flowlets.standing.iter().map(|standing| &standing.flowlet);
            traffic.flowlets.ended.iter().chain(standing).map(|flowlet| flowlet.fresh_bytes).sum()
        };
        // A flow that starts again has no repeats at first.
        assert!(fresh(kept) >= fresh(all), "{name}");
    }
}

/// Records dropped because the ring buffer is full are counted, to the packet.
#[test]
fn lost_records_are_counted() {
    if !available() {
        return;
    }
    let roce = |frame: &Frame| frame.data.get(36..38) == Some(&4791u16.to_be_bytes()[..]);
    let Some(frame) = capture("a1_write_mtu1024.h0.pcap").into_iter().find(roce) else { panic!("no frame") };
    let mut machine = Machine::new(Hook::Xdp, 64).unwrap();
    let sent = 25_000;
    for number in 0..sent {
        // Each packet in a separate bin.
        let time_ns = frame.time_ns / MS * MS + number * MS;
        machine.send_unheard(&Frame { time_ns, ..frame.clone() }).unwrap();
    }
    let sample = machine.sample().unwrap();
    let (binned, lost) = counted(traffic(&sample));
    assert_eq!(binned + lost, sent);
    assert!(lost > 10_000 && binned > 5_000, "{lost} of {sent} lost");
    assert!(traffic(&sample).too_much_lost(0));
    let report = replayed::report(&sample).unwrap();
    assert_eq!(report["bursts"][0]["lost_packets"], lost);
    assert_eq!(report["totals"]["lost"]["bins_dropped"], lost);
    assert!(report["steps"].is_null());
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["id"] == "tool.lost"), "{findings:?}");
    // No packet is lost elsewhere.
    assert_eq!(report["totals"]["roce_packets"], sent);
}
