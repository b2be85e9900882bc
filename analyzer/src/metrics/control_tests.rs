use super::super::testing::{DATA, Wire};
use rocescope_common::wire::Frame;

use super::*;

const SWITCH: [u8; 6] = [2, 0, 0, 0, 0, 7];
use crate::util::time::NS_PER_MS as MS;

/// A PFC frame about one priority.
fn pfc(priority: u8, quanta: u16) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1];
    frame.extend(SWITCH);
    frame.extend([0x88, 0x08, 0x01, 0x01, 0, 1 << priority]);
    for class in 0..8 {
        frame.extend(if class == priority { quanta } else { 0x1111 }.to_be_bytes());
    }
    frame.resize(60, 0);
    frame
}

fn row(collector: &Collector) -> PauseSample {
    let metrics = collector.metrics();
    let [(from, _, pause)] = &metrics.links[&0].pauses[..] else { panic!("{metrics:?}") };
    assert_eq!(*from, SWITCH);
    pause.clone()
}

#[test]
fn a_pause_lasts_until_it_is_taken_back_or_over() {
    // 65535 quanta take 335,539 ns at 100 Gb/s.
    let mut collector = Collector::new(Some(100_000));
    collector.frame(0, 1_000_000, &pfc(3, 65535));
    collector.frame(0, 1_200_000, &pfc(3, 65535));
    collector.frame(0, 1_300_000, &pfc(3, 0));
    let pause = row(&collector);
    assert_eq!((pause.priority, pause.frames, pause.transitions), (Some(3), Some(2), Some(1)));
    assert_eq!((pause.paused_ns, pause.longest_ns), (Some(300_000), Some(300_000)));
    // The next one nothing ends.
    collector.frame(0, 10_000_000, &pfc(3, 65535));
    collector.frame(0, 20_000_000, &pfc(3, 0));
    let pause = row(&collector);
    assert_eq!((pause.paused_ns, pause.transitions), (Some(635_539), Some(2)));
    assert_eq!(pause.longest_ns, Some(335_539));
    assert_eq!(collector.metrics().links[&0].pauses[0].1, 2, "both resumes are counted");
    // At another speed it lasts as much longer.
    let mut slow = Collector::new(Some(10_000));
    slow.frame(0, 10_000_000, &pfc(3, 65535));
    slow.frame(0, 20_000_000, &pfc(3, 0));
    assert_eq!(row(&slow).paused_ns, Some(3_355_392));
}

#[test]
fn a_pause_that_is_renewed_for_ever_fills_its_windows() {
    let mut collector = Collector::new(Some(100_000));
    for n in 0..5_000 {
        collector.frame(0, n * 200_000, &pfc(3, 65535));
    }
    let pause = row(&collector);
    assert_eq!((pause.transitions, pause.longest_ns), (Some(1), Some(4_999 * 200_000)));
    assert_eq!(pause.worst_share, Some(1.0));
    assert_eq!(pause.paused_ns, Some(4_999 * 200_000));
}

/// Merged captures: each frame has a twin that comes late.
#[test]
fn frames_out_of_time_order_count_no_interval_twice() {
    let mut collector = Collector::new(Some(100_000));
    for n in 1..5_000 {
        collector.frame(0, n * 200_000, &pfc(3, 65535));
        collector.frame(0, n * 200_000 - 150_000, &pfc(3, 65535));
    }
    let pause = row(&collector);
    assert_eq!(pause.worst_share, Some(1.0));
    assert_eq!((pause.paused_ns, pause.longest_ns), (Some(4_998 * 200_000), Some(4_998 * 200_000)));
}

/// Quanta are no time without the link's speed: only that it was paused for at least as long as at the greatest there
/// is.
#[test]
fn without_a_speed_there_are_quanta_and_a_bound() {
    let mut collector = Collector::new(None);
    for n in 0..5_000 {
        collector.frame(0, n * 200_000, &pfc(3, 65535));
    }
    let pause = row(&collector);
    assert_eq!((pause.frames, pause.quanta), (Some(5_000), Some(5_000 * 65_535)));
    assert_eq!((pause.paused_ns, pause.transitions, pause.longest_ns), (None, None, None));
    assert_eq!(pause.worst_share, None);
    // 20,971 ns at 1.6 Tb/s of each 200,000.
    assert!((pause.least_share.unwrap() - 0.104_855).abs() < 1e-6, "{pause:?}");
}

#[test]
fn a_flow_that_was_silent_while_paused_stood_still() {
    let run_at = |mbps: Option<u64>, priority: u8, paused: bool, silence: u64| {
        let (mut wire, mut collector) = (Wire::new(1), Collector::new(mbps));
        collector.frame(0, 0, &pfc(5, 0));
        let mut pass = |collector: &mut Collector, psn, time_ns| {
            let packet = super::super::testing::P { psn, time_ns, ..DATA };
            wire.pass(packet, |packet, _| collector.packet(packet, &Frame::EMPTY, u64::from(psn) + 1, &[]));
        };
        pass(&mut collector, 0, MS);
        if paused {
            for n in 0..silence * 5 {
                collector.frame(0, MS + n * 200_000, &pfc(priority, 65535));
            }
        }
        pass(&mut collector, 1, MS + silence * MS);
        pass(&mut collector, 2, MS + silence * MS + 1000);
        collector.metrics().stalled.map(|stalled| stalled.values().sum::<u64>())
    };
    let run = |priority, paused, silence| run_at(Some(100_000), priority, paused, silence).unwrap();
    // Without a tag, and DSCP 0: priority 0.
    assert_eq!(run(0, true, 20), 20 * MS);
    assert_eq!(run(0, false, 20), 0, "its own silence");
    assert_eq!(run(3, true, 20), 0, "another priority was paused");
    assert_eq!(run_at(None, 0, true, 20), None, "how long it was paused is not known");
}

#[test]
fn neighbours_are_kept_once_each() {
    let mut collector = Collector::new(None);
    let lldp = |port: u8, pfc: u8| {
        let [tens, ones] = [port / 10, port % 10].map(|digit| b'0' + digit);
        let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 7, 0x88, 0xcc];
        frame.extend([0x02, 2, 7, b'a', 0x04, 3, 7, tens, ones]);
        frame.extend([0xfe, 6, 0x00, 0x80, 0xc2, 0x0b, 8, pfc]);
        frame.extend([0, 0]);
        frame
    };
    for pfc in [0, 8] {
        collector.frame(1, 5, &lldp(99, pfc));
    }
    for port in 0..90 {
        collector.frame(1, 6, &lldp(port, 0));
    }
    let metrics = collector.metrics();
    let known = &metrics.links[&1].neighbours;
    assert_eq!(known.len(), MOST_NEIGHBOURS);
    assert_eq!(known[0].pfc.unwrap().enabled, 8, "the latest counts");
    // Anything else is nothing, and too many stations are counted.
    collector.frame(1, 7, &[0; 60]);
    for station in 0..300u16 {
        let mut frame = pfc(3, 1);
        frame[10..12].copy_from_slice(&station.to_be_bytes());
        collector.frame(0, 8, &frame);
    }
    assert_eq!(collector.metrics().untracked, 300 - MOST_STATIONS as u64);
}
