//! NAKs and retransmissions without a loss, and NAKs on parallel links.

use super::signal_intervals::Signal;
use super::*;

/// A flow without identifications whose answers are seen and whose first hundred packets are in order.
fn underway() -> Scene {
    let mut scene = Scene::new(false);
    scene.answer(99, 0x1F);
    scene.send(100..200, &[]);
    scene
}

/// Reordering that a receiver NAKs: the late original and its retransmission both pass, and nothing was lost.
#[test]
fn packet_row_4_gaps_whose_packet_passes_twice_are_ambiguous() {
    for passes in [1, 2] {
        let mut scene = underway();
        for start in (200..1_000).step_by(100) {
            scene.send(start..start + 20, &[start + 10]);
            scene.nak(start + 10);
            scene.send(start + 20..start + 30, &[]);
            for _ in 0..passes {
                scene.send([start + 10], &[]);
                scene.send(start + 30..start + 32, &[]);
            }
            scene.send(start + 32..start + 100, &[]);
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.doubtful), (8, 8 * (passes - 1)), "{loss:?}");
    }
}

/// A packet that is late for as long as it takes to NAK it, and after which the sender goes on: where it goes back N
/// for the next NAK, it has not retransmitted that packet alone. A sender of selective retransmissions has.
#[test]
fn a_gap_that_is_filled_alone_is_ambiguous_where_the_sender_goes_back_n() {
    for goes_back in [true, false] {
        let mut scene = underway();
        for start in (200..1_000).step_by(100) {
            scene.send(start..start + 20, &[start + 10]);
            scene.nak(start + 10);
            scene.send([start + 10], &[]);
            scene.send(start + 20..start + 22, &[]);
            if goes_back {
                scene.nak(start + 11);
                scene.send(start + 11..start + 22, &[]);
            }
            scene.send(start + 22..start + 100, &[]);
        }
        let loss = scene.metrics();
        let expected = if goes_back { (8, 8, 8 * 11) } else { (8, 0, 0) };
        assert_eq!((loss.lost, loss.doubtful, loss.retransmitted), expected, "{loss:?}");
    }
}

/// A retransmission that passes again, and again, is of one loss.
#[test]
fn a_loss_is_doubted_once() {
    let mut scene = underway();
    for start in (200..1_000).step_by(100) {
        scene.send(start..start + 20, &[start + 10]);
        scene.nak(start + 10);
        scene.send(start + 10..start + 20, &[]);
        if start == 200 {
            for _ in 0..3 {
                scene.nak(start + 10);
                scene.send(start + 10..start + 20, &[]);
            }
        }
        scene.send(start + 20..start + 100, &[]);
    }
    let loss = scene.metrics();
    assert_eq!((loss.lost, loss.doubtful), (8, 1), "{loss:?}");
}

/// The retransmissions are reordered as well: of those that a gap among them left out, and that pass again, the same
/// holds.
#[test]
fn retransmissions_that_pass_twice_may_be_reordering() {
    for again in [false, true] {
        let mut scene = underway();
        for start in (200..1_000).step_by(100) {
            scene.send(start..start + 20, &[start + 10]);
            scene.nak(start + 10);
            scene.send([start + 10, start + 11, start + 13], &[]);
            scene.nak(start + 12);
            scene.send([start + 12], &[]);
            if again {
                scene.send([start + 12], &[]);
            }
            scene.send(start + 13..start + 100, &[]);
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.doubtful), (16, if again { 8 } else { 0 }), "{loss:?}");
    }
}

/// Losses, each with its NAK and a go-back, among packets that pass unasked: duplicates say nothing of the losses, but
/// where more packets come late than are asked for, a NAK may be for one of these.
#[test]
fn duplicates_cast_no_doubt_on_losses_as_late_packets_do() {
    for late in [false, true] {
        let mut scene = underway();
        for start in (200..1_000).step_by(100) {
            scene.send(start..start + 20, &[start + 10]);
            scene.nak(start + 10);
            scene.send(start + 10..start + 40, &[]);
            for psn in [start + 50, start + 60, start + 70] {
                let behind = psn - 5;
                scene.send((psn - 10..psn).filter(|at| !late || *at != behind), &[]);
                scene.send([behind], &[]);
            }
            scene.send(start + 70..start + 100, &[]);
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.doubtful), (8, if late { 8 } else { 0 }), "{loss:?}");
    }
}

/// A sender that goes back to the start of the message, farther than the NAK asks; a duplicate on the way takes the NAK
/// from nobody. Without a NAK, what the run brings may be late, unless the answers, and NAKs with them, take another
/// link than those of other queue pairs.
#[test]
fn a_nak_explains_a_run_from_before_its_psn() {
    for (naks, duplicates, elsewhere) in
        [(true, false, false), (true, true, false), (false, false, false), (false, false, true)]
    {
        let mut scene = Scene::new(false);
        scene.answer(99, 0x1F);
        if elsewhere {
            scene.slots = [UNKNOWN; 2];
        }
        scene.send(100..200, &[]);
        for start in (200..1_000).step_by(100) {
            scene.send(start..start + 20, &[start + 10, start + 11]);
            if naks {
                scene.nak(start + 10);
            }
            if duplicates {
                scene.send([start + 3], &[]);
            }
            scene.send(start + 20..start + 24, &[]);
            scene.send(start + 5..start + 100, &[]);
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.doubtful), (16, if naks || elsewhere { 0 } else { 16 }), "{loss:?}");
    }
}

/// After a NAK and the retransmission it asked for, the sender retries the same request after pauses: its timer
/// expired.
#[test]
fn a_nak_is_the_reason_of_one_retransmission() {
    for mut scene in scenes() {
        scene.send(200..220, &[]);
        scene.nak(210);
        scene.send(210..220, &[]);
        for _ in 0..4 {
            scene.now_ns += 16 * MS;
            scene.send(210..220, &[]);
        }
        let loss = scene.metrics();
        assert_eq!((loss.downstream.count, loss.timeouts, loss.stuck), (2, 4, 5), "{loss:?}");
    }
}

/// The sender gets no retransmission through, or does not react to the NAK: only its timer wakes it up.
#[test]
fn after_a_nak_that_leads_nowhere_the_timer_expires() {
    // Silence after the NAK, and whether go-back-N followed it at once.
    for (silence_ms, went_back, timeouts) in [(67, true, 1), (5, true, 1), (67, false, 1), (30, false, 0)] {
        for mut scene in scenes() {
            scene.send(200..220, &[]);
            scene.nak(210);
            scene.send(if went_back { 210..220 } else { 220..240 }, &[]);
            scene.now_ns += silence_ms * MS;
            scene.send(210..240, &[]);
            let loss = scene.metrics();
            let case = format!("{silence_ms} ms, {went_back}: {loss:?}");
            assert_eq!(loss.timeouts, timeouts, "{case}");
            assert_eq!(loss.timeout_wait_ns / MS, timeouts * silence_ms, "{case}");
            let intervals = scene.collector.metrics().intervals.flows;
            let silences = intervals.values().flat_map(|flow| flow.of(Signal::Silence));
            let lengths: Vec<u64> =
                silences.map(|one| (one.last_ns - one.first_ns) / MS).filter(|ms| *ms > 0).collect();
            assert_eq!(lengths, vec![silence_ms; usize::from(timeouts > 0)], "{case}");
        }
    }
}

/// The go-back-N after a NAK loses its first packet again: the receiver sends no other NAK, and the sender waits for
/// its timer. Within the reordering window the packet may be late.
#[test]
fn after_a_go_back_that_loses_its_first_packet_the_timer_expires() {
    for (silence_ms, timeouts) in [(16, 1), (3, 0)] {
        for mut scene in scenes() {
            scene.send(200..220, &[210]);
            scene.nak(210);
            scene.send(210..220, &[210]);
            scene.now_ns += silence_ms * MS;
            scene.send(210..240, &[]);
            let loss = scene.metrics();
            assert_eq!((loss.lost, loss.timeouts), (1, timeouts), "{silence_ms} ms: {loss:?}");
            assert_eq!(loss.timeout_wait_ns / MS, timeouts * silence_ms, "{loss:?}");
        }
    }
}

/// Behind reordering, the first packet of a go-back-N run to arrive is not the one that the NAK names.
#[test]
fn a_reordered_go_back_after_a_nak_is_no_timeout() {
    for mut scene in scenes() {
        scene.send(200..220, &[]);
        scene.nak(210);
        scene.now_ns += 3 * MS;
        scene.send((212..220).chain([211, 210]), &[]);
        scene.send(220..240, &[]);
        assert_eq!(scene.metrics().timeouts, 0, "{:?}", scene.metrics());
    }
}

/// A queue pair that is sprayed over two links, with a tap on each: the NAK passes one of them.
#[test]
fn a_nak_on_a_parallel_link_counts() {
    let mut scene = Scene::new(false);
    scene.answer(99, 0x1F);
    scene.pass(P { psn: 99, syndrome: 0x1F, link: 1, ..ANSWER });
    for psn in 100..1_000 {
        let slot = scene.pass(P { psn, link: (psn % 2) as u16, ..DATA });
        if psn % 100 == 50 {
            // The retransmission of the one before takes the other link than the NAK for it.
            scene.pass(P { psn: psn - 10, syndrome: 0x60, link: 1, ..ANSWER });
            scene.slot = slot;
        }
    }
    // On link 0: PSN 900 is lost, and the NAK on link 1 is its only sign.
    scene.pass(P { psn: 1_001, syndrome: 0x60, link: 1, ..ANSWER });
    scene.pass(P { psn: 1_002, link: 0, ..DATA });
    scene.pass(P { psn: 1_001, syndrome: 0x60, link: 1, ..ANSWER });
    scene.slot = scene.pass(P { psn: 1_001, link: 0, ..DATA });
    assert_eq!(scene.metrics().lost, 1, "{:?}", scene.metrics());
}

/// A packet that is late by more than the reordering window: its identification says that it was sent before the gap
/// showed. Without identifications it is a retransmission (row 4).
#[test]
fn packet_row_2_an_identification_from_before_the_gap_is_reordering_after_any_delay() {
    for (mut scene, expected) in scenes().into_iter().zip([(0, 1), (1, 0)]) {
        scene.send(200..205, &[]);
        let late = scene.id();
        scene.send(206..220, &[]);
        scene.now_ns += 2 * REORDER_WINDOW_NS;
        scene.pass(P { psn: 205, id: late, ..DATA });
        scene.send(220..240, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.recovered), expected, "{loss:?}");
        assert_eq!((loss.retransmitted, loss.mirrored), (0, 0), "{loss:?}");
    }
}

/// A queue pair that is sprayed over two links, with a tap on each: a go-back-N brings to one of them a PSN that had
/// passed the other. It fills a gap and was not lost.
#[test]
fn packet_row_6_a_gap_filled_by_a_retransmission_of_a_parallel_link_is_no_loss() {
    for passed_there in [true, false] {
        let mut scene = Scene::new(false);
        scene.answer(99, 0x1F);
        scene.pass(P { psn: 99, syndrome: 0x1F, link: 1, ..ANSWER });
        for psn in (100..1_000).filter(|psn| passed_there || *psn != 991) {
            scene.pass(P { psn, link: (psn % 2) as u16, ..DATA });
        }
        scene.pass(P { psn: 991, syndrome: 0x60, link: 1, ..ANSWER });
        scene.slot = scene.pass(P { psn: 991, link: 0, ..DATA });
        let loss = scene.metrics();
        let expected = if passed_there { (0, 1) } else { (1, 0) };
        assert_eq!((loss.lost, loss.retransmitted), expected, "{loss:?}");
    }
}

/// A queue pair that is sprayed over two links, with a tap on each: the packet before the last was lost on the way to
/// one of them. After a timeout it comes to the other, which has shown nothing behind it.
#[test]
fn packet_row_12_the_end_of_a_burst_that_comes_again_over_a_parallel_link_was_lost() {
    for (passed_there, pause_ms, lost) in [(false, 20, 1), (true, 20, 0), (false, 2, 0)] {
        let mut scene = Scene::new(false);
        scene.answer(99, 0x1F);
        scene.pass(P { psn: 99, syndrome: 0x1F, link: 1, ..ANSWER });
        for psn in (100..1_002).filter(|psn| passed_there || *psn != 1_000) {
            let link = if psn == 1_000 { 1 } else { (psn % 2) as u16 };
            scene.pass(P { link, psn, ..DATA });
        }
        scene.now_ns += pause_ms * MS;
        for psn in [996, 998, 1_000] {
            scene.slot = scene.pass(P { psn, link: 0, ..DATA });
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.timeouts, loss.upstream.count), (lost, 1, lost), "{loss:?}");
    }
}

/// One packet passes again without a NAK or a timeout, and the sender continues behind the newest PSN: no go-back-N. If
/// it goes on from there, it is one.
#[test]
fn packet_row_8_a_single_packet_again_that_nothing_explains_is_a_duplicate() {
    for mut scene in scenes() {
        scene.send(200..220, &[]);
        scene.send([210], &[]);
        scene.send(220..240, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.mirrored, loss.retransmitted, loss.lost), (1, 0, 0), "{loss:?}");
        scene.send(235..260, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.mirrored, loss.retransmitted, loss.lost), (1, 5, 0), "{loss:?}");
    }
}

/// A packet is overtaken, and its receiver NAKs it; the sender goes back to the start of the message, twice. The
/// original arrives when a retransmission has filled its gap, and another one is overtaken as well: it is that of the
/// first gap, and nothing was lost.
#[test]
fn packet_row_5_the_original_is_not_taken_for_a_retransmission_that_was_overtaken() {
    let mut scene = Scene::new(true);
    scene.answer(99, 0x1F);
    scene.send(100..205, &[]);
    let original = scene.id();
    scene.send(206..220, &[]);
    scene.nak(205);
    scene.send(200..215, &[]);
    scene.nak(207);
    scene.send(200..205, &[]);
    let overtaken = scene.id();
    scene.send(206..212, &[]);
    scene.pass(P { psn: 205, id: original, ..DATA });
    scene.pass(P { psn: 205, id: overtaken, ..DATA });
    scene.send(212..240, &[]);
    let loss = scene.metrics();
    assert_eq!((loss.lost, loss.recovered, loss.doubtful), (0, 1, 0), "{loss:?}");
}

/// Retransmissions overtake packets that are new here: the sender is still going back after these, and leaves none of
/// its retransmissions out.
#[test]
fn new_packets_that_retransmissions_overtake_end_no_run() {
    let mut scene = Scene::new(true);
    scene.answer(99, 0x1F);
    scene.send(100..220, &[]);
    let late: Vec<(u32, u16)> = (220..230).map(|psn| (psn, scene.id())).collect();
    scene.nak(210);
    scene.send(210..216, &[]);
    for (psn, id) in late {
        scene.pass(P { psn, id, ..DATA });
    }
    scene.send(216..240, &[]);
    let loss = scene.metrics();
    assert_eq!((loss.lost, loss.retransmitted, loss.downstream.count), (0, 20, 1), "{loss:?}");
}
