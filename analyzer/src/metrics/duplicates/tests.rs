//! Captures that show packets twice, and traffic that looks like one.

use crate::entity::Stats;
use rocescope_common::account::Outcome;
use rocescope_common::wire::Frame;

use super::*;
use crate::metrics::testing::{ANSWER, DATA, P, Wire};
use crate::metrics::{Collector, Metrics, Options};

const US: u64 = 1_000;
use crate::util::time::NS_PER_MS as MS;

/// Packets with their times, in any order; a capture sorts them.
#[derive(Default)]
struct Capture(Vec<P>);

impl Capture {
    /// Passes once at `at_ns`, and again after `delay_ns`.
    fn doubled(&mut self, p: P, at_ns: u64, delay_ns: u64) {
        self.0.push(P { time_ns: at_ns, ..p });
        self.0.push(P { time_ns: at_ns + delay_ns, hops: p.hops - 1, ..p });
    }

    fn single(&mut self, p: P, at_ns: u64) {
        self.0.push(P { time_ns: at_ns, ..p });
    }

    /// The figures, and the slot of the data.
    fn metrics(mut self) -> (Metrics, u32) {
        self.0.sort_by_key(|p| p.time_ns);
        let mut wire = Wire::new(1);
        let mut collector = Collector::new(&Options::default());
        let mut data = 0;
        for p in self.0 {
            let slot = wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
            if p.opcode == DATA.opcode {
                data = slot;
            }
        }
        (collector.metrics(), data)
    }
}

/// Messages of 8 packets, each acknowledged, one every 100 us; everything passes twice.
fn doubled(messages: u32, delay_ns: u64, numbered: bool) -> Capture {
    let mut capture = Capture::default();
    for message in 0..messages {
        let at = 1_000 * MS + u64::from(message) * 100 * US;
        for i in 0..8 {
            let psn = message * 8 + i;
            let id = if numbered { u16::try_from(1 + psn % 60_000).unwrap() } else { 0 };
            capture.doubled(P { psn, id, ..DATA }, at + u64::from(i) * US, delay_ns);
        }
        let id = if numbered { u16::try_from(1 + message % 60_000).unwrap() } else { 0 };
        capture.doubled(P { psn: message * 8 + 7, id, ..ANSWER }, at + 10 * US, delay_ns);
    }
    capture
}

#[test]
fn both_directions_of_a_mirror_count_once() {
    for (delay_ns, numbered) in [(3_500, false), (3_500, true), (200, false), (40 * US, true), (3 * MS, true)]
    {
        let (metrics, slot) = doubled(1_000, delay_ns, numbered).metrics();
        let found = metrics.duplicates.unwrap();
        let duplicates = found.link(0).duplicates.packets;
        assert_eq!(duplicates, 9_000, "after {delay_ns} ns, numbered {numbered}");
        assert!(found.link(0).delay_max_ns == delay_ns);
        let loss = metrics.loss.unwrap();
        let requests = loss.flow(slot).requests.unwrap();
        assert!(requests.mirrored > 7_800, "{requests:?}");
        assert_eq!((requests.lost, requests.retransmitted, requests.timeouts), (0, 0, 0), "{requests:?}");
    }
}

/// Duplicates that come when many later packets have passed, without identifications that tell them.
#[test]
fn copies_milliseconds_later_are_known_without_identifications() {
    for delay_ns in [MS, 3 * MS, 9 * MS] {
        let (metrics, slot) = doubled(1_000, delay_ns, false).metrics();
        let found = metrics.duplicates.unwrap();
        assert_eq!(found.link(0).duplicates.packets, 9_000, "after {delay_ns} ns");
        let loss = metrics.loss.unwrap();
        let requests = loss.flow(slot).requests.unwrap_or_default();
        assert_eq!((requests.lost, requests.retransmitted, requests.timeouts), (0, 0, 0), "{requests:?}");
    }
}

/// Also those that pass before the pair of hosts is decided.
#[test]
fn hosts_send_each_other_each_packet_once() {
    for (delay_ns, numbered) in [(3_500, false), (3_500, true), (3 * MS, false)] {
        let (metrics, _) = doubled(1_000, delay_ns, numbered).metrics();
        let traffic = metrics.traffic.unwrap();
        let mut packets: Vec<u64> = traffic.pairs.iter().map(|pair| pair.packets).collect();
        packets.sort_unstable();
        assert_eq!(packets, [1_000, 8_000], "after {delay_ns} ns, numbered {numbered}");
    }
}

/// The bins of the link, its frames by length and the timeline; each millisecond has ten messages and their ACKs.
#[test]
fn bins_and_frames_of_a_link_have_each_packet_once_from_the_beginning_on() {
    for (delay_ns, numbered) in [(3_500, false), (3_500, true), (40 * US, true), (3 * MS, false)] {
        let (metrics, _) = doubled(1_000, delay_ns, numbered).metrics();
        let duplicates = metrics.duplicates.unwrap().link(0).duplicates;
        let link = &metrics.traffic.as_ref().unwrap().links[0];
        let bursts = link.bursts.as_ref().unwrap();
        let case = format!("after {delay_ns} ns, numbered {numbered}");
        assert_eq!(bursts.total.packets, 9_000, "{case}");
        assert_eq!(bursts.total.bytes, duplicates.bytes, "all pass twice: {case}");
        assert_eq!(bursts.peak.packets, 90, "{case}");
        let frames = link.frame_sizes.unwrap();
        assert_eq!(frames.iter().sum::<u64>(), 9_000, "{case}");
        let timeline = &metrics.timeline.as_ref().unwrap()[0];
        let bytes: u64 = timeline.points.iter().map(|point| point.bytes).sum();
        assert_eq!(bytes, duplicates.bytes, "{case}");
    }
}

/// Files of two taps merged into one: a queue between them holds each packet for longer than retransmissions take.
#[test]
fn copies_from_a_second_tap_are_known_by_their_identification() {
    let (metrics, slot) = doubled(1_000, 30 * MS, true).metrics();
    let found = metrics.duplicates.unwrap();
    assert_eq!((found.flow(slot).packets, found.link(0).duplicates.packets), (8_000, 9_000));
    assert_eq!(found.link(0).delay_max_ns, 30 * MS);
    let requests = metrics.loss.unwrap().flow(slot).requests.unwrap();
    assert_eq!((requests.retransmitted, requests.timeouts), (0, 0), "{requests:?}");
    let (metrics, _) = doubled(1_000, 30 * MS, false).metrics();
    assert_eq!(metrics.duplicates.unwrap().link(0).duplicates.packets, 0, "nothing tells them");
}

#[test]
fn copies_behind_whole_bursts_are_known_once_many_have_passed() {
    let (metrics, slot) = doubled(1_000, 30 * US, false).metrics();
    let duplicates = metrics.duplicates.unwrap().link(0).duplicates.packets;
    assert!(duplicates > 8_500, "{duplicates}");
    let requests = metrics.loss.unwrap().flow(slot).requests.unwrap();
    assert_eq!((requests.retransmitted, requests.downstream.count), (0, 0), "{requests:?}");
}

/// Files of three taps merged into one.
#[test]
fn packets_that_pass_three_times_count_once() {
    for numbered in [true, false] {
        let mut capture = doubled(1_000, 3_500, numbered);
        let (again, hops): (Vec<P>, u8) = (capture.0.clone(), DATA.hops);
        for p in again.into_iter().filter(|p| p.hops == hops) {
            capture.single(P { time_ns: p.time_ns + 9_000, hops: hops - 2, ..p }, p.time_ns + 9_000);
        }
        let (metrics, slot) = capture.metrics();
        let found = metrics.duplicates.unwrap();
        // Without identifications that tell them, they are retransmissions until the first have gone from memory.
        let most_late = if numbered { 0 } else { 11 * 10 * 9 };
        let duplicates = found.link(0).duplicates.packets;
        assert!((18_000 - most_late..=18_000).contains(&duplicates), "{numbered}: {duplicates}");
        let requests = metrics.loss.unwrap().flow(slot).requests.unwrap();
        assert!(requests.retransmitted <= most_late && requests.timeouts == 0, "{requests:?}");
    }
}

/// CE-marked data, and a CNP every 500 us; those that pass before the hosts are known to be captured twice, too.
#[test]
fn cnps_and_marks_of_a_capture_that_doubles_count_once() {
    let mut capture = doubled(1_000, 3_500, true);
    for (at, p) in (0u64..).zip(&mut capture.0) {
        // Every packet with its duplicate.
        p.tos = if p.opcode == DATA.opcode { 2 | u8::from(at / 2 % 100 == 0) } else { 0 };
    }
    for cnp in 0..200 {
        let at = 1_000 * MS + cnp * 500 * US + 90 * US;
        capture.doubled(P { opcode: 0x81, psn: 0, syndrome: 0, ..ANSWER }, at, 3_500);
    }
    let (metrics, data) = capture.metrics();
    let (found, ecn) = (metrics.duplicates.unwrap(), metrics.ecn.unwrap());
    let (slot, cnps) = ecn.cnps.iter().next().unwrap();
    assert_eq!((cnps.count, cnps.min_gap_ns), (200, Some(500 * US)));
    assert_eq!(found.flow(*slot).cnp_packets, 200);
    let marks: u32 = ecn.marks[&data].series.bins.iter().map(|bin| bin.ce).sum();
    let link = ecn.links[0].as_ref().unwrap();
    let sum = |of: fn(&crate::metrics::ecn::series::Bin) -> u32| link.bins.iter().map(of).sum::<u32>();
    assert_eq!((sum(|bin| bin.capable), sum(|bin| bin.ce), sum(|bin| bin.cnp)), (8_000, marks, 200));
}

/// A switch marks between the two copies: the second shows it.
#[test]
fn marks_of_the_second_copies_count_in_the_bins_of_their_link_and_receiver() {
    let mut capture = doubled(1_000, 3_500, false);
    for p in capture.0.iter_mut().filter(|p| p.opcode == DATA.opcode) {
        let is_second = !((p.time_ns - 1_000 * MS) % (100 * US)).is_multiple_of(US);
        p.tos = 2 | u8::from(is_second && p.psn % 10 == 0);
    }
    let (metrics, _) = capture.metrics();
    let traffic = metrics.traffic.unwrap();
    let all: crate::metrics::traffic::hosts::Degree =
        traffic.targets.iter().flat_map(|one| &one.overlaps).copied().sum();
    // A few pass before the hosts are known to be captured twice.
    assert!((750..=800).contains(&all.ce) && all.packets < 8_300, "{all:?}");
    let bursts = traffic.links[0].bursts.as_ref().unwrap();
    assert!((750..=800).contains(&bursts.total.ce), "{:?}", bursts.total);
}

#[test]
fn a_mark_on_either_copy_is_one_marked_packet() {
    let mut found = DuplicateCounts::default();
    let packet = |tos| {
        let frame = Frame { tos, opcode: DATA.opcode, roce_version: 2, ..Frame::EMPTY };
        Packet::new((&frame, &[]), (0, 0), 0, &Stats::default(), Outcome::NONE)
    };
    let op = Op::of(DATA.opcode);
    for (first, second) in [(2, 2), (2, 3), (3, 2), (3, 3)] {
        found.add(&packet(second), op, first);
    }
    // Of eight packets with four marks, four are left, three of them marked.
    assert_eq!(found.ecn_data, [0, 0, 3, 1]);
}

/// Loss that nobody saw being asked for: only one direction is captured.
#[test]
fn retransmissions_are_no_copies() {
    let mut capture = Capture::default();
    let mut at = 1_000 * MS;
    for burst in 0..200 {
        // Each window is retransmitted as a whole: go-back-N after the loss of its first packet.
        for _ in 0..2 {
            for i in 0..16 {
                capture.single(P { psn: burst * 16 + i, ..DATA }, at);
                at += US;
            }
            capture.single(P { psn: burst * 16, syndrome: 0x60, ..ANSWER }, at);
            at += 10 * US;
        }
    }
    let (metrics, slot) = capture.metrics();
    assert_eq!(metrics.duplicates.unwrap().link(0).duplicates.packets, 0);
    assert!(metrics.loss.unwrap().flow(slot).requests.unwrap().retransmitted > 3_000);
}

#[test]
fn a_queue_pair_that_is_stuck_shows_no_copies() {
    for answered in [true, false] {
        let mut capture = Capture::default();
        let mut at = 1_000 * MS;
        for round in 0..50 {
            for psn in 0..100 {
                capture.single(P { psn, ..DATA }, at);
                at += US;
            }
            if answered {
                capture
                    .single(P { psn: 0, syndrome: if round % 2 == 0 { 0x60 } else { 0x1F }, ..ANSWER }, at);
            }
            at += 2 * MS;
        }
        let (metrics, _) = capture.metrics();
        assert_eq!(metrics.duplicates.unwrap().link(0).duplicates.packets, 0, "{answered}");
    }
}

#[test]
fn receivers_that_are_not_ready_for_each_message_show_no_copies() {
    let mut capture = Capture::default();
    let mut at = 1_000 * MS;
    for psn in 0..500 {
        capture.single(P { psn, ..DATA }, at);
        capture.single(P { psn, syndrome: 0x2C, ..ANSWER }, at + 2 * US);
        capture.single(P { psn, ..DATA }, at + 700 * US);
        capture.single(P { psn, ..ANSWER }, at + 702 * US);
        at += 800 * US;
    }
    let (metrics, slot) = capture.metrics();
    assert_eq!(metrics.duplicates.unwrap().link(0).duplicates.packets, 0);
    assert_eq!(metrics.loss.unwrap().flow(slot).requests.unwrap().rnr_retransmitted, 500);
}

#[test]
fn cnps_that_look_alike_are_no_copies() {
    let mut capture = Capture::default();
    for i in 0..1_000 {
        capture.single(P { opcode: 0x81, ..ANSWER }, 1_000 * MS + i * 50 * US);
    }
    let (metrics, _) = capture.metrics();
    assert_eq!(metrics.duplicates.unwrap().link(0).duplicates.packets, 0);
}

#[test]
fn a_network_that_doubles_some_packets_is_no_capture_that_does() {
    let mut capture = Capture::default();
    for psn in 0..5_000 {
        let at = 1_000 * MS + u64::from(psn) * US;
        if psn % 33 == 5 {
            capture.doubled(P { psn, ..DATA }, at, 3_500);
        } else {
            capture.single(P { psn, ..DATA }, at);
        }
        if psn % 8 == 7 {
            capture.single(P { psn, ..ANSWER }, at + 500);
        }
    }
    let (metrics, slot) = capture.metrics();
    assert_eq!(metrics.duplicates.unwrap().link(0).duplicates.packets, 0);
    let requests = metrics.loss.unwrap().flow(slot).requests.unwrap();
    assert_eq!((requests.mirrored, requests.retransmitted), (152, 0), "{requests:?}");
}

#[test]
fn real_retransmissions_stay_in_a_capture_that_doubles() {
    let mut capture = doubled(500, 3_500, false);
    let mut at = 1_000 * MS + 60 * MS;
    let mut psn = 4_000;
    for _ in 0..20 {
        for i in 0..16 {
            capture.doubled(P { psn: psn + i, ..DATA }, at, 3_500);
            at += US;
        }
        capture.doubled(P { psn: psn + 8, syndrome: 0x60, ..ANSWER }, at + US, 3_500);
        at += 20 * US;
        for i in 8..16 {
            capture.doubled(P { psn: psn + i, ..DATA }, at, 3_500);
            at += US;
        }
        at += 50 * US;
        psn += 16;
    }
    capture.doubled(P { psn, ..DATA }, at, 3_500);
    let (metrics, slot) = capture.metrics();
    let requests = metrics.loss.unwrap().flow(slot).requests.unwrap();
    assert_eq!((requests.retransmitted, requests.downstream.count), (160, 20), "{requests:?}");
}

#[test]
fn a_clean_link_is_watched_no_longer_than_its_beginning() {
    let mut wire = Wire::new(1);
    let mut filter = Filter::default();
    for psn in 0..3 * WATCHED {
        let p = P { psn, time_ns: 1_000 * MS + u64::from(psn), ..DATA };
        wire.pass(p, |packet, extras| {
            assert_eq!(filter.packet(packet, extras), Verdict::Own);
        });
    }
    assert_eq!((filter.remembered, filter.links[0].left), (0, 0));
    // A few packets behind the expected PSN do not begin the watch again, many do.
    for i in 0..MANY {
        assert_eq!(filter.remembered, 0, "{i}");
        wire.pass(P { psn: 5, time_ns: 1_001 * MS + u64::from(i), ..DATA }, |packet, extras| {
            filter.packet(packet, extras);
        });
    }
    assert_eq!((filter.remembered, filter.links[0].left), (1, WATCHED_AGAIN));
    // A flow that goes leaves nothing behind.
    filter.retired(0);
    assert_eq!(filter.remembered, 0);
}

#[test]
fn copies_that_begin_later_are_known() {
    let mut capture = doubled(2_000, 3_500, false);
    let begin = 1_000 * MS + 100 * MS;
    let mut known = std::collections::HashSet::new();
    capture.0.retain(|p| p.time_ns >= begin || known.insert((p.opcode, p.psn)));
    let (metrics, _) = capture.metrics();
    let link = metrics.duplicates.as_ref().unwrap().link(0);
    assert!((8_700..=9_000).contains(&link.duplicates.packets), "{link:?}");
    assert!(link.first_ns >= begin);
    // Those that pass before the link is watched again, of ten messages and their ACKs, are not known; those from then
    // on are in no bin and no matrix.
    let unknown = 10 * (8 + 1);
    let traffic = metrics.traffic.unwrap();
    let in_bins = traffic.links[0].bursts.as_ref().unwrap().total.packets;
    assert!((18_000..=18_000 + unknown).contains(&in_bins), "{in_bins}");
    assert_eq!(traffic.pairs.iter().map(|pair| pair.packets).sum::<u64>(), in_bins);
}
