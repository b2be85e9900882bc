//! Lost ACKs, PSNs of READs, and connections without an answer.

use super::*;

#[test]
fn a_request_with_a_psn_of_the_read_before_it_is_noted() {
    // A READ of one packet; the sender continues behind the READ, or goes back in front of it.
    for psns in [[101, 102, 103], [99, 100, 101]] {
        let mut scene = Scene::new(false);
        scene.send(90..100, &[]);
        scene.wire.dma_len = 1_024;
        scene.pass(P { opcode: 0x0C, psn: 100, ..DATA });
        scene.send(psns, &[]);
        assert!(scene.collector.metrics().overlaps.is_empty());
    }
    let mut scene = Scene::new(false);
    scene.send(90..100, &[]);
    scene.wire.dma_len = 4_096;
    scene.pass(P { opcode: 0x0C, psn: 100, ..DATA });
    scene.wire.dma_len = UNKNOWN;
    let slot = scene.pass(P { opcode: 4, psn: 101, ..DATA });
    scene.send(104..120, &[]);
    // The numbers come again after 2^24 packets; the READ is long over.
    scene.send(102..104, &[]);
    let overlap = scene.collector.metrics().overlaps[&slot];
    assert_eq!((overlap.requests, overlap.psn, overlap.opcode), (1, 101, 4));
    assert_eq!((overlap.read_psn, overlap.read_span), (100, 4));
}

/// A READ of four packets and a tap that sees the first two responses: the requester repeats it after `silence_ns`.
fn repeated_read(silence_ns: u64, respond: bool) -> Metrics {
    let mut scene = Scene::new(false);
    scene.answer(89, 0x1F);
    scene.send(90..100, &[]);
    scene.wire.dma_len = 4_096;
    scene.pass(P { opcode: 0x0C, psn: 100, ..DATA });
    scene.wire.dma_len = UNKNOWN;
    scene.now_ns += 500 * MS;
    if respond {
        for (opcode, psn) in [(0x0D, 100), (0x0E, 101)] {
            scene.pass(P { opcode, psn, syndrome: 0x1F, ..ANSWER });
        }
    }
    scene.now_ns += silence_ns;
    scene.wire.dma_len = 4_096;
    scene.slot = scene.pass(P { opcode: 0x0C, psn: 100, ..DATA });
    scene.metrics()
}

#[test]
fn packet_row_9_a_read_repeated_after_silence_is_a_timeout_and_its_responses_are_none() {
    let timeout = repeated_read(67 * MS, true);
    assert_eq!((timeout.rereads, timeout.timeouts, timeout.read_timeouts), (1, 1, 1), "{timeout:?}");
    assert_eq!(timeout.timeout_wait_ns / MS, 67, "from the last response on");
    // A response was lost among others, and the requester asked for it at once, however long it waited for them.
    let at_once = repeated_read(50 * US, true);
    assert_eq!((at_once.rereads, at_once.timeouts, at_once.timeout_wait_ns), (1, 0, 0), "{at_once:?}");
    let no_response = repeated_read(0, false);
    assert_eq!((no_response.timeouts, no_response.timeout_wait_ns / MS), (1, 500), "{no_response:?}");
}

/// Queue pairs that begin alike cannot be distinguished: the responses between the two hosts count.
#[test]
fn a_read_repeated_after_silence_is_a_timeout_where_its_responses_are_not_known() {
    for (silence_ns, timeouts) in [(67 * MS, 1), (50 * US, 0)] {
        let Scene { mut wire, mut collector, mut now_ns, .. } = Scene::new(false);
        let mut pass = |p: P, silence_ns: u64| {
            now_ns += 10 * US + silence_ns;
            let reverse = Reverse { slot: UNKNOWN, paired: false };
            wire.pass(P { time_ns: now_ns, ..p }, |packet, extras| collector.packet(packet, extras, reverse))
        };
        for psn in 90..100 {
            pass(P { psn, ..DATA }, 0);
        }
        pass(P { opcode: 0x0C, psn: 100, ..DATA }, 0);
        pass(P { opcode: 0x0D, psn: 100, syndrome: 0x1F, ..ANSWER }, 0);
        let slot = pass(P { opcode: 0x0C, psn: 100, ..DATA }, silence_ns);
        let loss = collector.metrics().flow(slot).requests.unwrap();
        assert_eq!((loss.rereads, loss.timeouts), (1, timeouts), "{loss:?}");
    }
}

/// READs of four packets, the responses of one of which begin anew after two: the network has made its request twice,
/// seen here `copied` or only at the responder, or the requester has repeated it.
#[test]
fn responses_to_a_read_that_the_network_duplicates_are_duplicates() {
    let responses = |copied: bool, repeated: bool, earlier: bool| {
        let mut scene = Scene::new(false);
        let read = |scene: &mut Scene, psn: u32, again: bool| {
            let ask = |scene: &mut Scene| {
                scene.wire.dma_len = 4_096;
                scene.pass(P { opcode: 0x0C, psn, ..DATA });
                scene.wire.dma_len = UNKNOWN;
            };
            let respond = |scene: &mut Scene, count: usize| {
                for (opcode, psn) in [0x0D, 0x0E, 0x0E, 0x0F].into_iter().zip(psn..).take(count) {
                    scene.slot = scene.pass(P { opcode, psn, syndrome: 0x1F, ..ANSWER });
                }
            };
            ask(scene);
            if again && copied {
                scene.now_ns -= 5 * US;
                ask(scene);
            }
            if again {
                respond(scene, 2);
                scene.now_ns += 20 * US;
            }
            if again && repeated {
                ask(scene);
            }
            respond(scene, 4);
        };
        scene.send(90..100, &[]);
        read(&mut scene, 100, false);
        if earlier {
            // The requester has repeated another READ, so that it may have repeated this one unseen.
            scene.wire.dma_len = 4_096;
            scene.pass(P { opcode: 0x0C, psn: 100, ..DATA });
            scene.wire.dma_len = UNKNOWN;
        }
        read(&mut scene, 104, true);
        read(&mut scene, 108, false);
        let loss = scene.collector.metrics().flow(scene.slot).responses.unwrap();
        (loss.mirrored, loss.retransmitted, loss.downstream.count)
    };
    assert_eq!(responses(true, false, false), (2, 0, 0));
    assert_eq!(responses(true, false, true), (2, 0, 0));
    assert_eq!(responses(false, false, false), (2, 0, 0), "the requester repeats nothing");
    assert_eq!(responses(false, false, true), (0, 2, 1));
    assert_eq!(responses(false, true, false), (0, 2, 1));
}

#[test]
fn the_rest_of_a_read_is_a_repeated_read_where_the_path_mtu_is_not_known() {
    // The last response that passes, and whether it ends its message; the READ that follows at PSN 103.
    for (opcode, psn, repeated) in
        [(0x0F, 103, true), (0x0E, 102, true), (0x0F, 102, false), (0x0E, 99, false)]
    {
        let mut scene = Scene::new(false);
        scene.answer(89, 0x1F);
        scene.wire.dma_len = 4_096;
        scene.pass(P { opcode: 0x0C, psn: 100, ..DATA });
        scene.wire.dma_len = UNKNOWN;
        scene.pass(P { opcode, psn, syndrome: 0x1F, ..ANSWER });
        scene.now_ns += 67 * MS;
        scene.wire.dma_len = 1_024;
        scene.slot = scene.pass(P { opcode: 0x0C, psn: 103, ..DATA });
        let loss = scene.metrics();
        assert_eq!((loss.rereads, loss.timeouts), (repeated.into(), repeated.into()), "{opcode:#x} {psn}");
    }
}

/// A WRITE of two packets and READs of 2, 3 and 4 KB are outstanding; the timer repeats them all.
#[test]
fn a_go_back_over_several_reads_is_one_restart_from_the_oldest() {
    for with_write in [true, false] {
        let mut scene = Scene::new(false);
        scene.answer(89, 0x1F);
        scene.send(90..100, &[]);
        for restarts in 0..=3 {
            if with_write {
                scene.send(100..102, &[]);
            }
            for (psn, dma_len) in [(102, 2_048), (104, 3_072), (107, 4_096)] {
                scene.wire.dma_len = dma_len;
                scene.slot = scene.pass(P { opcode: 0x0C, psn, ..DATA });
                scene.wire.dma_len = UNKNOWN;
            }
            if with_write {
                scene.send(111..114, &[]);
            }
            let loss = scene.metrics();
            assert_eq!((loss.stuck, loss.timeouts), (restarts, restarts), "{with_write}: {loss:?}");
            let opcode = if with_write { DATA.opcode } else { 0x0C };
            assert_eq!(loss.stuck_opcode, (restarts > 0).then_some(opcode));
            scene.now_ns += 67 * MS;
        }
        // Once the oldest is answered, the requester goes back to the one behind it.
        scene.wire.dma_len = 3_072;
        scene.slot = scene.pass(P { opcode: 0x0C, psn: 104, ..DATA });
        assert_eq!(scene.metrics().stuck, 1);
    }
}

#[test]
fn a_silence_in_mid_message_is_noted_and_one_between_messages_is_not() {
    // WRITE MIDDLE, LAST and FIRST behind the silence.
    for (opcode, silence_ms, stalls) in [(7, 100, 1), (8, 300, 1), (6, 300, 0), (7, 99, 0)] {
        let mut scene = Scene::new(false);
        for psn in 100..110 {
            scene.slot = scene.pass(P { opcode: 7, psn, ..DATA });
        }
        let before_ns = scene.now_ns;
        scene.now_ns += silence_ms * MS;
        scene.pass(P { opcode, psn: 110, ..DATA });
        let intervals = scene.collector.metrics().intervals;
        let found = intervals.flows.get(&scene.slot).map_or(&[][..], |flow| flow.of(Signal::Stall));
        assert_eq!(found.len(), stalls, "{opcode} {silence_ms}");
        assert!(found.iter().all(|one| (one.first_ns, one.last_ns) == (before_ns, scene.now_ns)));
    }
}

/// No RoCE packet passes for 700 ms in mid-message: all are held up, unless a timer may have ended the silence. The
/// clock may have been set where no frame of another kind passes either.
#[test]
fn a_silence_of_all_that_no_timer_can_have_ended() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Case {
        Unacknowledged,
        NoFrame,
        FramesForLonger,
        Acknowledged,
        AcknowledgedMeanwhile,
        OthersGoOn,
        GoesBack,
    }
    let held_up = |case: Case| {
        let mut scene = Scene::new(false);
        scene.answer(89, 0x1F);
        scene.send(90..110, &[]);
        scene.answer(if case == Case::Acknowledged { 109 } else { 99 }, 0x1F);
        scene.send(110..112, &[]);
        if case == Case::Acknowledged {
            scene.answer(111, 0x1F);
        }
        let before_ns = scene.now_ns;
        let mut since_ns = before_ns;
        for meanwhile in 0..7 {
            scene.now_ns += 100 * MS - 10 * US;
            match case {
                Case::AcknowledgedMeanwhile if meanwhile == 0 => scene.answer(111, 0x1F),
                Case::OthersGoOn => {
                    let slots = scene.slots;
                    scene.pass(P { qp: 99, psn: 5 + meanwhile, ..DATA });
                    scene.slots = slots;
                }
                _ => {
                    scene.now_ns += 10 * US;
                    continue;
                }
            }
            since_ns = scene.now_ns;
        }
        let until_ns = scene.now_ns + 10 * US;
        let any_ns = match case {
            Case::NoFrame => Some((since_ns + 99 * MS, until_ns)),
            Case::FramesForLonger => Some((since_ns + 100 * MS, until_ns)),
            _ => None,
        };
        if until_ns - since_ns >= in_message::STALL_NS {
            scene.collector.silence(DATA.link, LinkSilence { roce_ns: (since_ns, until_ns), any_ns });
        }
        scene.send(if case == Case::GoesBack { 100..120 } else { 112..120 }, &[]);
        let intervals = scene.collector.metrics().intervals;
        let flow = intervals.flows.get(&scene.slot).cloned().unwrap_or_default();
        assert!(flow.of(Signal::HeldUp).iter().all(|one| one.first_ns == before_ns), "{case:?}");
        [Signal::HeldUp, Signal::NoFrame].map(|signal| flow.of(signal).len())
    };
    for (case, expected) in
        [(Case::Unacknowledged, [1, 0]), (Case::NoFrame, [1, 1]), (Case::FramesForLonger, [1, 0])]
    {
        assert_eq!(held_up(case), expected, "{case:?}");
    }
    for case in [Case::Acknowledged, Case::AcknowledgedMeanwhile, Case::OthersGoOn, Case::GoesBack] {
        assert_eq!(held_up(case), [0, 0], "{case:?}");
    }
}

#[test]
fn a_flow_stands_within_a_message_where_its_highest_psn_does() {
    let at = |scene: &Scene| scene.collector.metrics().in_messages.unwrap().get(&scene.slot).copied();
    let mut scene = Scene::new(false);
    scene.answer(89, 0x1F);
    scene.send(90..100, &[]);
    assert_eq!(at(&scene).unwrap().request, Some(7), "WRITE MIDDLE");
    scene.slot = scene.pass(P { opcode: 8, psn: 100, ..DATA });
    assert_eq!(at(&scene), None, "LAST");
    // The sender goes back, and stops before it has come to the last packet again.
    scene.nak(95);
    scene.send(95..98, &[]);
    assert_eq!(at(&scene).unwrap().request, Some(8));
    scene.send(98..100, &[]);
    scene.pass(P { opcode: 8, psn: 100, ..DATA });
    assert_eq!(at(&scene), None);
    let slot = scene.pass(P { opcode: 0x0D, psn: 40, ..ANSWER });
    assert!(scene.collector.metrics().in_messages.unwrap()[&slot].response);
}

/// One flow is silent in mid-message until the end, while another of its link goes on.
#[test]
fn a_silence_that_lasts_is_noted_as_far_as_the_link_goes_on() {
    for (opcode, silence_ms, stalls) in [(7, 600, 1), (7, 99, 0), (8, 600, 0)] {
        let mut scene = Scene::new(false);
        scene.send(100..110, &[]);
        let slot = scene.pass(P { opcode, psn: 110, ..DATA });
        let before_ns = scene.now_ns;
        scene.now_ns += silence_ms * MS;
        let intervals = |scene: &Scene| scene.collector.metrics().intervals;
        assert!(!intervals(&scene).flows.contains_key(&slot), "the capture may have ended");
        scene.pass(P { qp: 99, psn: 5, ..DATA });
        let intervals = intervals(&scene);
        let found = intervals.flows.get(&slot).map_or(&[][..], |flow| flow.of(Signal::Stall));
        assert_eq!(found.len(), stalls, "{opcode} {silence_ms}");
        assert!(found.iter().all(|one| (one.first_ns, one.last_ns) == (before_ns, scene.now_ns)));
    }
}

#[test]
fn a_timeout_after_which_the_packets_turn_out_to_have_arrived_lost_its_acks() {
    for (before, after, acked) in [
        // The ACK was seen at this tap, and lost downstream of it.
        (Some(219), None, 1),
        // It was lost upstream of this tap: the first retransmission is answered with the last PSN.
        (None, Some(219), 1),
        // The packets were lost: the ACKs follow the retransmissions.
        (None, Some(210), 0),
        (Some(209), Some(209), 0),
    ] {
        let [mut scene, _] = scenes();
        scene.send(200..220, &[]);
        if let Some(psn) = before {
            scene.answer(psn, 0x1F);
        }
        scene.now_ns += 67 * MS;
        scene.send(210..211, &[]);
        if let Some(psn) = after {
            scene.answer(psn, 0x1F);
        }
        scene.send(211..230, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.timeouts, loss.timeouts_acked), (1, acked), "{before:?} {after:?}");
    }
}

/// The receiver asks for a PSN, what is retransmitted is lost as well, and the timer retransmits it again.
#[test]
fn a_nak_acknowledges_what_lies_before_its_psn_alone() {
    for (asked, acked) in [(210, 0), (211, 1)] {
        let [mut scene, _] = scenes();
        scene.send(200..220, &[]);
        scene.nak(asked);
        scene.send(210..220, &[]);
        scene.now_ns += 67 * MS;
        scene.send(210..220, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.timeouts, loss.timeouts_acked), (1, acked), "{asked}: {loss:?}");
        assert_eq!(loss.stuck_opcode, Some(DATA.opcode));
    }
}

/// Requests to a host of which no answer passes: those of another host do, or only its own requests.
#[test]
fn a_peer_that_never_answers_makes_its_requester_time_out_where_answers_of_others_pass() {
    for (others_answer, from, timeouts) in [(true, 500, 3), (false, 500, 0), (true, 510, 0)] {
        let [mut scene, _] = scenes();
        if !others_answer {
            scene = Scene::new(false);
            scene.send(100..200, &[]);
        }
        let mut slot = UNKNOWN;
        let mut send = |from: u32, now_ns: u64| {
            for psn in from..520 {
                let p = P { dst: 3, qp: 33, psn, time_ns: now_ns + u64::from(psn) * 10 * US, ..DATA };
                let Scene { wire, collector, .. } = &mut scene;
                let reverse = Reverse { slot: UNKNOWN, paired: false };
                slot = wire.pass(p, |packet, extras| collector.packet(packet, extras, reverse));
            }
        };
        send(500, 2_000 * MS);
        for retry in 1..4 {
            send(from, 2_000 * MS + retry * 67 * MS);
        }
        let loss = scene.collector.metrics().flow(slot).requests.unwrap();
        let downstream = if timeouts > 0 { 0 } else { 2 };
        let found = (loss.timeouts, loss.timeout_retransmitted, loss.downstream.count);
        assert_eq!(found, (timeouts, timeouts * 20, downstream), "{others_answer} {from}");
    }
}

/// Retries without an answer, and then another connection on the same number.
#[test]
fn a_connection_that_is_given_up_is_known_when_its_number_is_used_again() {
    let given_up = |retries: u32, answered: Option<u32>, pause_ns: u64| {
        scenes().map(|mut scene| {
            scene.answer(150, 0x1F);
            scene.send(200..220, &[]);
            for _ in 0..retries {
                scene.now_ns += 67 * MS;
                scene.send(210..220, &[]);
            }
            if let Some(psn) = answered {
                scene.answer(psn, 0x1F);
            }
            let last_ns = scene.now_ns;
            scene.now_ns += pause_ns;
            scene.send(9_000_000..9_000_010, &[]);
            scene.collector.metrics().flow(scene.slot).given_up.map(|given_up| (given_up, last_ns))
        })
    };
    for (given_up, last_ns) in given_up(3, None, 67 * MS).map(Option::unwrap) {
        assert_eq!((given_up.psn, given_up.last_psn, given_up.retries), (210, 219, 3));
        assert_eq!(given_up.until_ns - given_up.last_ns, 67 * MS + 10 * US);
        assert_eq!(given_up.last_ns, last_ns);
    }
    assert_eq!(given_up(1, None, 67 * MS), [None; 2], "one retry is what a lost packet causes");
    assert_eq!(given_up(3, Some(219), 67 * MS), [None; 2], "the last retry was answered");
    assert_eq!(given_up(3, None, MS), [None; 2], "a sender waits for its timer before it gives up");
}

/// The first packet of a flow is lost upstream: nothing at the tap distinguishes it from one lost downstream before the
/// capture began.
#[test]
fn a_nak_for_a_packet_before_the_first_one_says_not_on_which_side_it_was_lost() {
    for (again, retransmitted) in [(99..110, 11), (99..100, 1)] {
        let mut scene = Scene::new(false);
        scene.send(100..110, &[]);
        scene.nak(99);
        scene.send(again, &[]);
        scene.send(110..130, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.upstream.count, loss.downstream.count), (0, 0), "{loss:?}");
        assert_eq!((loss.retransmitted, loss.mirrored), (retransmitted, 0), "{loss:?}");
    }
}

/// The two directions are captured by clocks that differ: responses pass before their requests.
#[test]
fn reads_whose_responses_come_first_are_not_repeated() {
    for bytes in [1_024, 4_096] {
        let mut scene = Scene::new(false);
        scene.answer(89, 0x1F);
        let psns = bytes / 1_024;
        for psn in (100..100 + 50 * psns).step_by(psns as usize) {
            for at in psn..psn + psns {
                let opcode = match (psns, at - psn) {
                    (1, _) => 0x10,
                    (_, 0) => 0x0D,
                    (_, 3) => 0x0F,
                    _ => 0x0E,
                };
                scene.pass(P { opcode, psn: at, syndrome: 0x1F, ..ANSWER });
            }
            scene.wire.dma_len = bytes;
            scene.slot = scene.pass(P { opcode: 0x0C, psn, payload: 0, ..DATA });
            scene.wire.dma_len = UNKNOWN;
        }
        let loss = scene.metrics();
        assert_eq!((loss.rereads, loss.retransmitted, loss.timeouts), (0, 0, 0), "{bytes}: {loss:?}");
    }
}

/// A READ of several MiB takes thousands of PSNs: its repetition is neither another connection nor a restart.
#[test]
fn a_long_read_repeated_after_silence_is_a_timeout() {
    for mib in [1, 4, 8, 20] {
        let mut scene = Scene::new(false);
        scene.answer(89, 0x1F);
        scene.wire.dma_len = mib << 20;
        let span = mib << 10;
        for at in 0..12 {
            let psn = 100 + at * span;
            for _ in 0..2 {
                scene.slot = scene.pass(P { opcode: 0x0C, psn, payload: 0, ..DATA });
                scene.now_ns += 300 * MS;
            }
            scene.pass(P { opcode: 0x0F, psn: psn + span - 1, syndrome: 0x1F, ..ANSWER });
        }
        let loss = scene.metrics();
        assert_eq!((loss.rereads, loss.timeouts), (12, 12), "{mib} MiB: {loss:?}");
    }
}

/// A connection that is made again on the same number, whose PSNs begin where they did or well before, after a silence
/// of 3 s.
#[test]
fn a_number_used_again_after_all_was_acknowledged_is_another_connection() {
    for (acked, begin, reused) in
        [(true, 5_000, true), (false, 5_000, false), (true, 5_100, false), (true, 0, true)]
    {
        let mut scene = Scene::new(false);
        for psn in (5_000..5_200).step_by(8) {
            scene.send(psn..psn + 8, &[]);
            if acked || psn < 5_100 {
                scene.answer(psn + 7, 0x1F);
            }
        }
        scene.now_ns += 3_000 * MS;
        for psn in (begin..begin + 200).step_by(8) {
            scene.send(psn..psn + 8, &[]);
            scene.answer(psn + 7, 0x1F);
        }
        let loss = scene.metrics();
        let is_reused = loss.timeouts == 0 && loss.retransmitted == 0;
        assert_eq!(is_reused, reused, "{acked} {begin}: {loss:?}");
    }
}
