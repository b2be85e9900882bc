//! Taps whose clocks differ, flows that take several ways, and memory that ends.

use super::*;
use crate::metrics::icrc::Contents;
use crate::metrics::testing::{ANSWER, DATA, P, Wire};
use rocescope_common::random::Random;

const US: u64 = 1_000;
use crate::util::time::NS_PER_S as SECOND;
const START: u64 = 1_000 * SECOND;

/// Packets in the order of their times, as a replay merges them.
fn collect(mut packets: Vec<P>, links: usize) -> Vec<TapPair> {
    packets.sort_by_key(|p| p.time_ns);
    let mut wire = Wire::new(links);
    let mut collector = Collector::default();
    collector.expect(links);
    for p in packets {
        wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
    }
    let mut pairs = collector.metrics();
    pairs.sort_by_key(|pair| pair.key.dest_qp);
    pairs
}

/// A packet at link 0 and, `way_ns` later by a clock that is `ahead_ns` ahead, at link 1.
fn both(p: P, way_ns: i64, ahead_ns: i64) -> [P; 2] {
    [P { link: 0, ..p }, P { link: 1, time_ns: p.time_ns.wrapping_add_signed(way_ns + ahead_ns), ..p }]
}

/// 1,000 requests and their answers through two taps; `lost` between them.
fn conversation(ahead_ns: i64, ids: bool, lost: impl Fn(u32) -> bool) -> Vec<TapPair> {
    let mut packets = Vec::new();
    for psn in 0..1_000 {
        let time_ns = START + u64::from(psn) * 10 * US;
        let id = if ids { (psn & 0xFFFF) as u16 } else { 0 };
        let [here, there] = both(P { psn, id, time_ns, ..DATA }, 5_000 + i64::from(psn % 7) * 100, ahead_ns);
        packets.push(here);
        if !lost(psn) {
            packets.push(there);
        }
        packets.extend(both(P { psn, id, time_ns: time_ns + 20 * US, ..ANSWER }, -5_000, ahead_ns));
    }
    collect(packets, 2)
}

#[test]
fn loss_between_taps_is_counted_however_far_clocks_are_apart() {
    for ahead_ns in [0, 7 * SECOND.cast_signed(), -7 * (SECOND.cast_signed())] {
        for ids in [true, false] {
            let pairs = conversation(ahead_ns, ids, |psn| psn % 100 == 50);
            let [there, back] = &pairs[..] else { panic!("{pairs:?}") };
            assert_eq!((there.links, there.ordered, there.matched, there.only), ([0, 1], true, 990, [10, 0]));
            assert_eq!((back.links, back.ordered, back.matched, back.only), ([1, 0], true, 1_000, [0, 0]));
            assert_eq!(there.key, Wire::key(P { link: 0, ..DATA }));
            assert_eq!(there.delay.range(), (5_000 + ahead_ns, 5_600 + ahead_ns));
            assert_eq!(back.delay.range(), (5_000 - ahead_ns, 5_000 - ahead_ns));
        }
    }
}

/// A capture near the sender that drops packets lacks them as if they had been lost on the way to it.
#[test]
fn times_tell_the_order_of_taps_where_a_capture_drops() {
    for ahead_ns in [0, 7 * SECOND.cast_signed()] {
        let mut packets = Vec::new();
        for psn in 0..1_000 {
            let time_ns = START + u64::from(psn) * 10 * US;
            let id = (psn & 0xFFFF) as u16;
            let [here, there] = both(P { psn, id, time_ns, ..DATA }, 5_000, ahead_ns);
            packets.extend((psn % 50 != 25).then_some(here));
            packets.push(there);
            packets.extend(both(P { psn, id, time_ns: time_ns + 20 * US, ..ANSWER }, -5_000, ahead_ns));
        }
        let pairs = collect(packets, 2);
        assert_eq!((pairs[0].links, pairs[0].ordered, pairs[0].only), ([0, 1], true, [0, 20]), "{ahead_ns}");
    }
}

#[test]
fn copies_are_known_from_the_first_packet_on_and_without_numbers() {
    let doubled = |ids: bool, later_ns: u64| {
        let packets = (0..1_000u32).flat_map(|psn| {
            let id = if ids { (psn & 0xFFFF) as u16 + 1 } else { 0 };
            let time_ns = START + u64::from(psn) * 50 * US;
            let [here, there] = both(P { psn, id, time_ns, ..DATA }, 5_000, 0);
            let again = P { time_ns: there.time_ns + later_ns, ..there };
            [Some(here), Some(there), (psn % 20 == 0).then_some(again)]
        });
        let pairs = collect(packets.flatten().collect(), 2);
        let other = usize::from(pairs[0].links == [1, 0]);
        (pairs[0].matched, pairs[0].only, [pairs[0].duplicates[other], pairs[0].duplicates[1 - other]])
    };
    for (ids, later_ns) in [(true, 100), (true, 2_000_000), (false, 100)] {
        assert_eq!(doubled(ids, later_ns), (1_000, [0, 0], [0, 50]), "{ids} {later_ns}");
    }
}

/// Two captures of one place, and one a good way behind.
#[test]
fn a_third_tap_may_be_far_behind() {
    let packets = (0..2_000u32).flat_map(|psn| {
        let p = P { psn, id: (psn & 0xFFFF) as u16, time_ns: START + u64::from(psn) * 10 * US, ..DATA };
        (0..3u16).map(move |link| P { link, time_ns: p.time_ns + u64::from(link / 2) * 3_000 * US, ..p })
    });
    let pairs = collect(packets.filter(|p| p.link < 2 || p.psn % 100 != 50).collect(), 3);
    let seen: Vec<_> =
        pairs.iter().map(|pair| (pair.links, pair.matched, pair.only, pair.duplicates)).collect();
    for expected in
        [([0, 1], 2_000, [0, 0], [0, 0]), ([0, 2], 1_980, [20, 0], [0, 0]), ([1, 2], 1_980, [20, 0], [0, 0])]
    {
        assert!(seen.contains(&expected), "{seen:?}");
    }
}

/// Captures on one way whose clocks differ by as much time as thousands of packets take. What was lost between the
/// first two is awaited at the third as well.
#[test]
fn a_third_tap_may_show_its_first_packet_after_thousands_of_others() {
    for (count, late_us, lossy) in [(12_000u32, 50_000, 2), (300_000, 4_000_000, 1)] {
        let packets = (0..count).flat_map(|psn| {
            let time_ns = START + u64::from(psn) * 10 * US;
            let p = P { psn, id: (psn & 0xFFFF) as u16, time_ns, ..DATA };
            (0..3u16).map(move |link| P { link, time_ns: time_ns + u64::from(link / 2) * late_us * US, ..p })
        });
        let pairs = collect(packets.filter(|p| p.link != lossy || p.psn % 100 != 50).collect(), 3);
        let mut only: Vec<u64> = pairs.iter().map(|pair| pair.only.iter().sum()).collect();
        only.sort_unstable();
        let lost = u64::from(count / 100);
        assert_eq!(only, [0, lost, lost], "{count} packets");
    }
}

/// A network that doubles packets, or a mirror that shows them twice: that the other tap has one less is no loss.
#[test]
fn a_duplicate_between_two_taps_is_no_loss() {
    for ahead_ns in [0, 7 * SECOND.cast_signed(), -7 * (SECOND.cast_signed())] {
        let packets = (0..1_000u32).flat_map(|psn| {
            let time_ns = START + u64::from(psn) * 10 * US;
            let id = (psn & 0xFFFF) as u16 + 1;
            let [here, there] = both(P { psn, id, time_ns, ..DATA }, 5_000, ahead_ns);
            let again = P { time_ns: there.time_ns + 100, ..there };
            // Some are lost, too.
            let lost = psn % 100 == 50;
            let back = both(P { psn, id, time_ns: time_ns + 20 * US, ..ANSWER }, -5_000, ahead_ns);
            let doubled = (psn % 20 == 3).then_some(again);
            [Some(here), (!lost).then_some(there), doubled, Some(back[0]), Some(back[1])]
        });
        let pairs = collect(packets.flatten().collect(), 2);
        assert_eq!((pairs[0].links, pairs[0].matched), ([0, 1], 990), "{ahead_ns}");
        assert_eq!((pairs[0].only, pairs[0].duplicates), ([10, 0], [0, 50]), "{ahead_ns}");
        assert_eq!((pairs[1].only, pairs[1].duplicates), ([0, 0], [0, 0]), "{ahead_ns}");
    }
}

/// Nothing is missing: only the times of both directions tell who comes first.
#[test]
fn the_order_of_taps_needs_no_loss() {
    for ahead_ns in [0, 3 * SECOND.cast_signed(), -3 * (SECOND.cast_signed())] {
        let pairs = conversation(ahead_ns, true, |_| false);
        assert!(pairs.iter().all(|pair| pair.ordered && pair.only == [0, 0]));
        assert_eq!((pairs[0].links, pairs[1].links), ([0, 1], [1, 0]));
    }
    // One direction alone says nothing.
    let one_way =
        (0..100).flat_map(|psn| both(P { psn, time_ns: START + u64::from(psn) * US, ..DATA }, 5_000, 0));
    let pairs = collect(one_way.collect(), 2);
    assert_eq!((pairs.len(), pairs[0].ordered, pairs[0].only), (1, false, [0, 0]));
    // Unless a router between them counts down.
    let routed = (0..100).flat_map(|psn| {
        let [here, there] = both(P { psn, time_ns: START + u64::from(psn) * US, ..DATA }, 5_000, -2_000_000);
        [here, P { hops: 63, ..there }]
    });
    let pairs = collect(routed.collect(), 2);
    assert_eq!((pairs[0].ordered, pairs[0].links), (true, [0, 1]));
}

#[test]
fn captures_of_different_length_are_compared_where_they_overlap() {
    let packets = (0..1_000u32).flat_map(|psn| {
        let [here, there] = both(
            P { psn, id: (psn & 0xFFFF) as u16, time_ns: START + u64::from(psn) * US, ..DATA },
            5_000,
            0,
        );
        [(psn < 800).then_some(here), (psn >= 300 && psn != 500).then_some(there)]
    });
    let pairs = collect(packets.flatten().collect(), 2);
    assert_eq!((pairs[0].matched, pairs[0].only), (499, [1, 0]));
}

/// The second capture begins between two copies of a packet, which nothing but its PSN names.
#[test]
fn packets_before_the_second_capture_began_are_not_lost() {
    for (ahead_ns, lost) in [(0, 1), (-7 * SECOND.cast_signed(), 2)] {
        let order = (0..400u32).chain([380]).chain(400..1_000);
        let packets = order.enumerate().flat_map(|(n, psn)| {
            let time_ns = START + n as u64 * US;
            let [here, there] = both(P { psn, id: 0, time_ns, ..DATA }, 5_000, ahead_ns);
            [Some(here), (n >= 390 && psn != 500).then_some(there)]
        });
        let pairs = collect(packets.flatten().collect(), 2);
        // Where the second tap comes first, one of the two copies is alone, whichever it is.
        assert_eq!(pairs[0].only, [lost, 0], "{ahead_ns}");
    }
}

#[test]
fn a_flow_at_one_tap_is_no_pair_and_its_memory_is_given_back() {
    let mut wire = Wire::new(2);
    let mut collector = Collector::default();
    collector.expect(2);
    for i in 0..100_000u32 {
        let p = P { psn: i, time_ns: START + u64::from(i) * 1_000_000, ..DATA };
        wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
    }
    assert_eq!((collector.metrics().len(), collector.waiting), (0, 0));
}

/// The second tap sees the first packet before the third is known to be one.
#[test]
fn three_taps_on_one_way_have_all_packets_in_common() {
    let packets = (0..1_000u32).flat_map(|psn| {
        let p = P { psn, id: (psn & 0xFFFF) as u16, time_ns: START + u64::from(psn) * 10 * US, ..DATA };
        (0..3u16).map(move |link| P { link, time_ns: p.time_ns + u64::from(link) * US, ..p })
    });
    // One is lost between the second and the third.
    let pairs = collect(packets.filter(|p| (p.link, p.psn) != (2, 10)).collect(), 3);
    let seen: Vec<_> = pairs.iter().map(|pair| (pair.links, pair.matched, pair.only)).collect();
    assert_eq!(seen.len(), 3);
    for expected in [([0, 1], 1_000, [0, 0]), ([0, 2], 999, [1, 0]), ([1, 2], 999, [1, 0])] {
        assert!(seen.contains(&expected), "{seen:?}");
    }
}

/// Taps of a cooked capture have a link for each direction: two of three taps have four links, before the clock of the
/// third shows any packet.
#[test]
fn a_tap_is_awaited_however_many_links_the_others_have() {
    let far = i64::from(40_000u32) * 10_000;
    let packets = (0..50_000u32).flat_map(|psn| {
        let p = P { psn, id: (psn & 0xFFFF) as u16, time_ns: START + u64::from(psn) * 10 * US, ..DATA };
        let answer = P { psn, time_ns: p.time_ns + 5 * US, ..ANSWER };
        let taps = [(0, 0), (2, 1_000), (4, far)].into_iter();
        taps.flat_map(move |(link, late_ns)| {
            [p, answer].into_iter().zip(link..).map(move |(p, link)| P {
                link,
                time_ns: p.time_ns.wrapping_add_signed(late_ns),
                ..p
            })
        })
    });
    let mut packets: Vec<P> = packets.collect();
    packets.sort_by_key(|p| p.time_ns);
    let (mut wire, mut collector) = (Wire::new(6), Collector::default());
    wire.tap_of = |link| format!("tap{}", link / 2);
    collector.expect(3);
    for p in packets {
        wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
    }
    let pairs = collector.metrics();
    let matched = |links| {
        let pair = pairs.iter().find(|pair| pair.key.dest_qp == DATA.qp && pair.links == links).unwrap();
        (pair.matched, pair.only)
    };
    assert_eq!([matched([0, 2]), matched([0, 4])], [(50_000, [0, 0]); 2]);
}

/// A tap that never shows a packet: those that both others saw do not wait for it without end.
#[test]
fn a_tap_without_packets_is_not_awaited_for_ever() {
    let (mut wire, mut collector) = (Wire::new(3), Collector::default());
    collector.expect(3);
    for psn in 0..500_000u32 {
        let packet = P { psn, id: (psn & 0xFFFF) as u16, time_ns: START + u64::from(psn) * US, ..DATA };
        for p in both(packet, 500, 0) {
            wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
        }
    }
    let pairs = collector.metrics();
    assert_eq!((pairs[0].matched, pairs[0].only), (500_000, [0, 0]));
    let used = collector.groups[0].1.used;
    assert!(used < MAX_WAITING / 8, "{used} packets that both saw wait for a third tap");
}

/// The clock of the first tap on the way is behind by more packets than wait for it. It shows them later, and those
/// that were lost between the others still wait then: packets between two of these did not miss the first tap.
#[test]
fn packets_that_left_before_a_tap_showed_them_are_not_lost_there() {
    let far = i64::from(40_000u32) * 10_000;
    let packets = (0..60_000u32).flat_map(|psn| {
        let time_ns = START + SECOND + u64::from(psn) * 10 * US;
        let p = P { psn, id: (psn & 0xFFFF) as u16, time_ns, ..DATA };
        let late = P { link: 2, time_ns: time_ns.wrapping_add_signed(far), ..p };
        [Some(p), (psn % 100 != 50).then_some(P { link: 1, ..p }), Some(late)]
    });
    // Another flow has passed all three.
    let other = (0..3).map(|link| P { link, qp: 99, time_ns: START, ..DATA });
    let pairs = collect(packets.flatten().chain(other).collect(), 3);
    let own = pairs.iter().filter(|pair| pair.key.dest_qp == DATA.qp);
    let mut only: Vec<_> = own.map(|pair| (pair.links.contains(&2), pair.only.iter().sum::<u64>())).collect();
    only.sort_unstable();
    // Of the last 20,000 packets, what the first and the third have in common is known.
    assert_eq!(only, [(false, 600), (true, 0), (true, 200)]);
}

/// Interfaces of one capture are not known before they show a packet.
#[test]
fn a_tap_that_shows_up_later_has_seen_the_first_packet_too() {
    let seen = |late_ns: i64| {
        let packets = (0..1_000u32).flat_map(|psn| {
            let time_ns = START + u64::from(psn) * 10 * US;
            both(P { psn, id: (psn & 0xFFFF) as u16, time_ns, ..DATA }, late_ns, 0)
        });
        let mut packets: Vec<P> = packets.collect();
        packets.sort_by_key(|p| p.time_ns);
        let (mut wire, mut collector) = (Wire::new(2), Collector::default());
        for p in packets {
            wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
        }
        collector.metrics().remove(0)
    };
    assert_eq!((seen(1_000).matched, seen(1_000).only), (1_000, [0, 0]));
    // So much later by its clock that the first packets are not kept for it.
    let late = seen(3 * 2_560_000);
    assert_eq!((late.matched, late.only), (232, [0, 0]));
}

#[test]
fn with_one_link_little_is_kept() {
    let mut wire = Wire::new(1);
    let mut collector = Collector::default();
    for psn in 0..1_000 {
        wire.pass(P { psn, time_ns: START, ..DATA }, |packet, extras| collector.packet(packet, extras, None));
    }
    assert!(collector.waiting <= 4 * EARLY as usize, "{} places", collector.waiting);
    assert_eq!(collector.metrics().len(), 0);
}

#[test]
fn headers_and_sizes_of_the_same_packets_are_compared() {
    let packets = (0..1_000u32).flat_map(|psn| {
        let p = P { psn, time_ns: START + u64::from(psn) * US, tos: 26 << 2 | 2, ..DATA };
        let [here, there] = both(p, 5_000, -7 * SECOND.cast_signed());
        let tos = if psn % 10 == 3 { 2 } else { 26 << 2 | 2 };
        // As a switch trims it.
        let payload = if psn % 100 == 13 { 64 } else { 1024 };
        [here, P { hops: 62, tos, payload, ..there }]
    });
    let pair = &collect(packets.collect(), 2)[0];
    assert_eq!((pair.links, pair.ordered, pair.matched, pair.not_passed), ([0, 1], true, 1_000, 0));
    let mut passed: Vec<_> =
        pair.passed.iter().map(|p| (p.headers.map(|h| (h.tos, h.hops)), p.packets)).collect();
    passed.sort_by_key(|(_, packets)| *packets);
    let sent = (26 << 2 | 2, 64);
    assert_eq!(passed, [([sent, (2, 62)], 100), ([sent, (26 << 2 | 2, 62)], 900)]);
    let rewritten = pair.passed.iter().find(|passed| passed.packets == 100).unwrap();
    assert_eq!(rewritten.seen_ns[0], (START + 3 * US, START + 993 * US), "by the clock of the first");
    assert_eq!((pair.resized.packets, pair.resized.bytes), (10, [1024, 64]));
}

/// ICRC that the contents of a packet need; a fault changes every hundredth packet at the second tap.
#[test]
fn contents_of_the_same_packets_are_compared() {
    let whole = |psn: u32, needed| Some(Contents { needed: needed + psn * 7, right: true });
    let altered = |there: &dyn Fn(u32, P) -> (P, Option<Contents>)| {
        let (mut wire, mut collector) = (Wire::new(2), Collector::default());
        collector.expect(2);
        for psn in 0..1_000 {
            let [here, beyond] = both(P { psn, time_ns: START + u64::from(psn) * 10 * US, ..DATA }, 5_000, 0);
            let (beyond, contents) =
                if psn % 100 == 50 { there(psn, beyond) } else { (beyond, whole(psn, 1)) };
            wire.pass(here, |packet, extras| collector.packet(packet, extras, whole(psn, 1)));
            wire.pass(beyond, |packet, extras| collector.packet(packet, extras, contents));
        }
        let passed = collector.metrics().remove(0).passed;
        assert_eq!(passed.iter().map(|passed| passed.packets).sum::<u64>(), 1_000);
        passed.iter().filter(|passed| passed.altered).map(|passed| passed.packets).sum::<u64>()
    };
    assert_eq!(altered(&|psn, p| (p, whole(psn, 1))), 0);
    assert_eq!(altered(&|psn, p| (p, whole(psn, 2))), 10);
    assert_eq!(altered(&|_, p| (p, None)), 0, "cut at the second tap");
    assert_eq!(
        altered(&|psn, p| (P { syndrome: 1, ..p }, whole(psn, 2))),
        0,
        "a retransmission with another AETH"
    );
    assert_eq!(altered(&|psn, p| (P { payload: 64, ..p }, whole(psn, 2))), 0, "trimmed");
}

#[test]
fn headers_beyond_what_there_is_room_for_are_counted() {
    let packets = (0..1_000u32).flat_map(|psn| {
        let tos = (psn % 50).to_le_bytes()[0] << 2;
        both(P { psn, tos, time_ns: START + u64::from(psn) * US, ..DATA }, 5_000, 0)
    });
    let pair = &collect(packets.collect(), 2)[0];
    assert_eq!((pair.passed.len(), pair.not_passed), (32, 18 * 20));
}

/// Large packets of a queue pair are lost until it gives up; small ones of another pass until the end.
#[test]
fn loss_at_the_end_of_a_flow_counts_by_size() {
    for ahead_ns in [0, -7 * SECOND.cast_signed()] {
        let packets = (0..1_000u32).flat_map(|psn| {
            let time_ns = START + u64::from(psn) * 100 * US;
            let small = both(P { psn, time_ns, payload: 512, ..DATA }, 5_000, ahead_ns);
            let payload = if psn < 200 { 256 } else { 4096 };
            let [here, there] = both(P { psn, time_ns, payload, qp: 19, ..DATA }, 5_000, ahead_ns);
            let routed = |p: P| P { hops: 63, ..p };
            let [arrived, there] = [routed(small[1]), routed(there)];
            [Some(small[0]), Some(arrived), (psn < 950).then_some(here), (psn < 200).then_some(there)]
        });
        let pairs = collect(packets.flatten().collect(), 2);
        let [small, dying] = &pairs[..] else { panic!("{pairs:?}") };
        assert_eq!((small.gone, small.largest), ([MissingAtTap::default(); 2], 512));
        // A packet that passed the first tap less than 10 ms before the last one may still be on its way.
        assert_eq!((dying.only, dying.largest, dying.gone[0].at_end), ([0, 0], 256, 699), "{ahead_ns}");
        assert_eq!((dying.gone[0].large, dying.gone[0].sizes), (699, (4096, 4096)));
        assert_eq!(dying.gone[0].large_ns, (START + 20_000 * US, START + 89_800 * US));
    }
}

/// A flow whose large packets pass for a while.
#[test]
fn loss_of_large_packets_may_begin_at_any_time() {
    let packets = (0..1_000u32).flat_map(|psn| {
        let time_ns = START + u64::from(psn) * 100 * US;
        let payload = if psn < 300 || psn % 10 == 9 { 4096 } else { 256 };
        let [here, there] = both(P { psn, payload, time_ns, ..DATA }, 5_000, 0);
        let lost = psn % 50 == 25 || psn > 300 && payload == 4096;
        [Some(here), (!lost).then_some(P { hops: 63, ..there })]
    });
    let pair = &collect(packets.flatten().collect(), 2)[0];
    let [gone, _] = pair.gone;
    assert_eq!((pair.largest, gone.large, gone.sizes.0), (4096, 69, 4096));
    assert_eq!(gone.large_ns.0, START + 30_900 * US);
    let latest: Vec<_> = pair.sizes.iter().map(|one| (one.payload, one.at_ns[0])).collect();
    assert_eq!(latest, [(4096, START + 29_900 * US), (256, START + 99_800 * US)]);
}

/// Retransmissions without identifications, none of which arrives: each counts.
#[test]
fn retransmissions_without_numbers_that_are_all_lost_are_counted() {
    for seed in 0..40u32 {
        let of_read = |psn: u32| P {
            psn: seed * 40_009 + psn,
            opcode: if psn.is_multiple_of(64) { 13 } else { 14 },
            qp: 19,
            payload: 1024,
            ..DATA
        };
        let alive = (0..4_000u32).flat_map(|psn| {
            let time_ns = START + u64::from(psn) * 25 * US;
            let dying = (psn < 1_600).then(|| both(P { time_ns, ..of_read(psn) }, 5_000, 0));
            both(P { psn, time_ns, ..DATA }, 5_000, 0).into_iter().chain(dying.into_iter().flatten())
        });
        let again = (0..8 * 64u32).map(|n| P {
            time_ns: START + 45_000 * US + u64::from(n / 64) * 5_000 * US + u64::from(n % 64) * US,
            ..of_read(1_600 + n % 64)
        });
        let pairs = collect(alive.chain(again).collect(), 2);
        let [_, dying] = &pairs[..] else { panic!("{pairs:?}") };
        assert_eq!((dying.matched, dying.only, dying.gone[0].at_end), (1_600, [0, 0], 512), "{seed}");
    }
}

/// The second capture ends before the first: the fate of the rest is unknown.
#[test]
fn packets_after_the_end_of_the_second_capture_are_not_lost() {
    let packets = (0..1_000u32).flat_map(|psn| {
        let time_ns = START + u64::from(psn) * 100 * US;
        let [here, there] = both(P { psn, time_ns, ..DATA }, 5_000, 0);
        [Some(here), (psn < 500).then_some(there)]
    });
    let pairs = collect(packets.flatten().collect(), 2);
    assert_eq!((pairs[0].only, pairs[0].gone), ([0, 0], [MissingAtTap::default(); 2]));
}

/// Packets that nothing but their PSN names, retransmitted without need: at the second tap right behind the original.
#[test]
fn what_passes_twice_at_both_taps_is_no_copy_at_one() {
    for ahead_ns in [0, 7 * SECOND.cast_signed(), -7 * SECOND.cast_signed()] {
        let packets = (0..1_000u32).flat_map(|psn| {
            let time_ns = START + u64::from(psn) * 100 * US;
            let [here, there] = both(P { psn, time_ns, ..DATA }, 30_000, ahead_ns);
            let again = psn % 10 == 3;
            let here_again = P { time_ns: here.time_ns + 25 * US, ..here };
            let there_again = P { time_ns: there.time_ns + 2 * US, ..there };
            [Some(here), Some(there), again.then_some(here_again), again.then_some(there_again)]
        });
        let pair = &collect(packets.flatten().collect(), 2)[0];
        assert_eq!((pair.matched, pair.only, pair.duplicates), (1_100, [0, 0], [0, 0]), "{ahead_ns}");
    }
}

/// More flows, taps and disorder than there is room for.
#[test]
fn memory_is_bounded() {
    let mut random = Random::new(11);
    let mut wire = Wire::new(6);
    let mut collector = Collector::default();
    collector.expect(6);
    for i in 0..300_000u64 {
        let p = P {
            link: random.below_u16(6),
            qp: 17 + random.below_u32(40),
            psn: random.below_u32(1 << 24),
            id: random.below_u16(u16::MAX),
            time_ns: START + i * US,
            ..DATA
        };
        wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
        if i % 10_007 == 0 {
            for slot in wire.retire(START + i * US + 1) {
                collector.retired(slot);
            }
        }
    }
    let places: usize = collector.groups.iter().map(|(_, group)| group.places()).sum();
    assert_eq!(places, collector.waiting);
    assert!(places <= MAX_WAITING);
    for pair in collector.metrics() {
        assert!(pair.matched > 0 && pair.links[0] != pair.links[1]);
    }
}

/// One capture ends long before the other: what waits for it can never be decided, and is not looked at for each
/// packet.
#[test]
fn packets_after_the_end_of_one_capture_cost_no_more_than_others() {
    let mut wire = Wire::new(2);
    let mut collector = Collector::default();
    collector.expect(2);
    for psn in 0..300_000u32 {
        let packet = P { psn, id: (psn & 0xFFFF) as u16, time_ns: START + u64::from(psn) * US, ..DATA };
        for p in both(packet, 5_000, 0).into_iter().filter(|p| p.link == 0 || psn < 3_000) {
            wire.pass(p, |packet, extras| collector.packet(packet, extras, None));
        }
    }
    let pairs = collector.metrics();
    assert_eq!((pairs[0].matched, pairs[0].only), (3_000, [0, 0]));
    let looks = collector.groups[0].1.looks;
    assert!((10..60).contains(&looks), "{looks}");
}

/// Another flow has passed both taps by then: the second was capturing.
#[test]
fn the_first_packet_of_a_flow_may_be_lost_between_taps() {
    let only = |lost: u32, late: bool, length: u32, ahead_ns| {
        let mut packets = Vec::new();
        let second_from = START + if late { 100 * US } else { 0 };
        for (qp, from_ns) in [(16, 0), (17, 50 * US)] {
            for psn in 0..length {
                let time_ns = START + from_ns + u64::from(psn) * 10 * US;
                let [here, there] = both(P { qp, psn, time_ns, ..DATA }, 5_000, 0);
                packets.push(here);
                if there.time_ns > second_from && (qp, psn) != (17, lost) {
                    packets.push(P { time_ns: there.time_ns.wrapping_add_signed(ahead_ns), ..there });
                }
            }
        }
        let pairs = collect(packets, 2);
        [pairs[0].only, pairs[1].only]
    };
    let far = 7 * SECOND.cast_signed();
    for ahead_ns in [0, 1_000_000, -1_000_000, far, -far] {
        assert_eq!(only(0, false, 1_000, ahead_ns), [[0, 0], [1, 0]], "{ahead_ns}");
        assert_eq!(
            only(u32::MAX, true, 1_000, ahead_ns),
            [[0, 0]; 2],
            "{ahead_ns}: the second capture began later"
        );
    }
    assert_eq!(only(0, false, 40_000, 0), [[0, 0], [1, 0]], "longer than packets wait");
}

/// Without identifications nothing distinguishes a retransmission from its original but the time, and only where both
/// have passed the first tap when one comes to the second.
#[test]
fn the_last_packet_may_be_the_retransmission_of_one_lost_between_taps() {
    for ahead_ns in [0, 7 * SECOND.cast_signed()] {
        let mut packets = Vec::new();
        let mut send = |psn: u32, at: u64, arrives: bool| {
            let [here, there] = both(P { psn, time_ns: START + at * 10 * US, ..DATA }, 5_000, ahead_ns);
            packets.push(here);
            packets.extend(arrives.then_some(there));
        };
        (0..1_000).for_each(|psn| send(psn, psn.into(), psn != 990));
        send(990, 1_010, true);
        let pairs = collect(packets, 2);
        assert_eq!((pairs[0].matched, pairs[0].only), (1_000, [1, 0]), "{ahead_ns}");
        assert_eq!(pairs[0].delay.range(), (5_000 + ahead_ns, 5_000 + ahead_ns));
    }
}
