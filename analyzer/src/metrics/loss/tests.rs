//! Situations of protocol and tap, and what is concluded from them.

use super::*;
use crate::metrics::testing::{ANSWER, DATA, P, Wire};
use crate::metrics::traffic::BIN_NS;
use rocescope_common::random::Random;

#[path = "answer_tests.rs"]
mod answers;
#[path = "spurious_tests.rs"]
mod spurious;
#[path = "world_tests.rs"]
mod world;

const US: u64 = 1_000;
use crate::util::time::NS_PER_MS as MS;

/// A sender, a receiver and a tap between them.
struct Scene {
    wire: Wire,
    collector: Collector,
    now_ns: u64,
    /// The next IPv4 identification; `None` for a sender that does not number its packets.
    next_id: Option<u16>,
    slot: u32,
    /// Of data, and of answers.
    slots: [u32; 2],
}

impl Scene {
    fn new(numbered: bool) -> Self {
        let collector = Collector::new(REORDER_WINDOW_NS, BIN_NS);
        Self {
            wire: Wire::new(2),
            collector,
            now_ns: 1_000 * MS,
            next_id: numbered.then_some(65_500),
            slot: 0,
            slots: [UNKNOWN; 2],
        }
    }

    /// Passes a packet 10 us after the one before it.
    fn pass(&mut self, p: P) -> u32 {
        self.now_ns += 10 * US;
        let p = P { time_ns: self.now_ns, ..p };
        let reverse = self.reverse(p);
        let slot = self.wire.pass(p, |packet, extras| self.collector.packet(packet, extras, reverse));
        self.slots[usize::from(p.src == ANSWER.src)] = slot;
        slot
    }

    /// The slot of the other direction, once it has had a packet.
    fn reverse(&self, p: P) -> Reverse {
        Reverse { slot: self.slots[usize::from(p.src != ANSWER.src)], paired: true }
    }

    fn id(&mut self) -> u16 {
        let id = self.next_id.unwrap_or(0);
        self.next_id = self.next_id.map(|id| id.wrapping_add(1));
        id
    }

    /// Sends PSNs; those in `lost` do not reach the tap.
    fn send(&mut self, psns: impl IntoIterator<Item = u32>, lost: &[u32]) {
        for psn in psns {
            let id = self.id();
            if !lost.contains(&psn) {
                self.slot = self.pass(P { psn, id, ..DATA });
            }
        }
    }

    fn answer(&mut self, psn: u32, syndrome: u32) {
        self.pass(P { psn, syndrome, ..ANSWER });
    }

    fn nak(&mut self, psn: u32) {
        self.answer(psn, 0x60);
    }

    fn metrics(&self) -> Metrics {
        self.collector.metrics().flow(self.slot).requests.unwrap_or_default()
    }
}

/// Both kinds of senders.
fn scenes() -> [Scene; 2] {
    [true, false].map(|numbered| {
        let mut scene = Scene::new(numbered);
        scene.answer(99, 0x1F);
        scene.send(100..200, &[]);
        scene
    })
}

#[test]
fn a_clean_flow_has_nothing_to_tell() {
    for scene in scenes() {
        assert!(scene.collector.metrics().flows.is_empty());
        let ack_state = scene.collector.metrics().ack_state(scene.slot);
        assert!(ack_state.asked_ns.get().is_some() && ack_state.answer_psn.is_none());
    }
}

#[test]
fn packet_row_4_lost_before_the_tap_and_repaired_by_go_back_n() {
    for mut scene in scenes() {
        scene.send(200..220, &[210, 211]);
        scene.nak(210);
        scene.send(210..240, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.recovered, loss.retransmitted, loss.unfilled), (2, 0, 8, 0));
        assert_eq!((loss.upstream.count, loss.upstream.largest, loss.downstream.count), (1, 2, 0));
        assert_eq!(loss.retransmission, Some(Retransmission::GoBackN));
        assert!(loss.upstream.longest_ns > 0 && loss.upstream.last_ns > loss.upstream.first_ns);
    }
}

#[test]
fn the_loss_of_retired_flows_is_kept() {
    for mut scene in scenes() {
        scene.send(200..220, &[210, 211]);
        scene.nak(210);
        scene.send(210..240, &[]);
        scene.collector.retired(scene.slot);
        let loss = scene.collector.metrics();
        assert!(!loss.flows.contains_key(&scene.slot));
        assert_eq!(loss.retired, RetiredLoss { lost: 2, retransmitted: 8, timeouts: 0 });
    }
}

#[test]
fn packet_row_10_a_retransmission_may_be_lost() {
    for mut scene in scenes() {
        scene.send(200..260, &[210]);
        scene.nak(210);
        // The second copy of 230 is lost as well, and a second NAK follows.
        scene.send(210..260, &[230]);
        scene.nak(230);
        scene.send(230..300, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.downstream.count), (2, 0), "{loss:?}");
        assert_eq!(loss.retransmission, Some(Retransmission::GoBackN));
    }
}

#[test]
fn packet_row_7_lost_downstream_of_the_tap() {
    for mut scene in scenes() {
        scene.send(200..220, &[]);
        scene.nak(210);
        scene.send(210..240, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.retransmitted, loss.timeouts), (0, 10, 0));
        assert_eq!((loss.upstream.count, loss.downstream.count, loss.downstream.largest), (0, 1, 10));
    }
}

#[test]
fn only_what_is_missing_is_sent_by_selective_repeat() {
    for mut scene in scenes() {
        scene.send(200..260, &[210, 230]);
        scene.nak(210);
        scene.send([210, 230], &[]);
        scene.send(260..300, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.recovered, loss.retransmitted), (2, 0, 0), "{loss:?}");
        assert_eq!(loss.retransmission, Some(Retransmission::SelectiveRepeat));
    }
    // The same as the sender's side sees it.
    for mut scene in scenes() {
        scene.send(200..260, &[]);
        scene.nak(210);
        scene.send([210], &[]);
        scene.send(260..300, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.retransmitted, loss.downstream.count), (1, 1));
        assert_eq!(loss.retransmission, Some(Retransmission::SelectiveRepeat));
    }
}

/// Behind the tap one hole after another is repaired: what lies between two of them had arrived.
#[test]
fn holes_repaired_one_by_one_are_not_lost_twice() {
    for mut scene in scenes() {
        for start in (200..1_000).step_by(100) {
            scene.send(start..start + 60, &[]);
            for hole in [start + 10, start + 30, start + 35] {
                scene.nak(hole);
                scene.send([hole], &[]);
            }
            scene.send(start + 60..start + 100, &[]);
            scene.answer(start + 99, 0x1F);
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.upstream.count, loss.retransmitted), (0, 0, 24), "{loss:?}");
        assert_eq!(loss.retransmission, Some(Retransmission::SelectiveRepeat));
    }
}

/// Packets that take several ways: every one of them may pass others.
#[test]
fn a_sprayed_flow_loses_nothing_however_long_it_is() {
    for numbered in [true, false] {
        let mut scene = Scene::new(numbered);
        let mut random = Random::new(7);
        let mut under_way: Vec<(u64, u32, u16)> =
            (0..20_000).map(|psn| (u64::from(psn) * 10 + random.below(60), psn, scene.id())).collect();
        under_way.sort_unstable();
        for (_, psn, id) in under_way {
            scene.slot = scene.pass(P { psn, id, ..DATA });
        }
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.unfilled, loss.upstream.count), (0, 0, 0), "{loss:?}");
        assert!(loss.recovered > 5_000 && loss.retransmitted <= 2, "{loss:?}");
    }
}

#[test]
fn packet_row_3_out_of_order_within_the_window_is_no_loss() {
    for mut scene in scenes() {
        let mut late = Vec::new();
        for psn in 200..300 {
            let id = scene.id();
            if psn % 20 == 10 {
                late.push((psn, id));
            } else {
                scene.pass(P { psn, id, ..DATA });
            }
            if psn % 20 == 15 {
                for (psn, id) in late.drain(..) {
                    scene.pass(P { psn, id, ..DATA });
                }
            }
        }
        let loss = scene.metrics();
        assert_eq!((loss.recovered, loss.lost, loss.retransmitted, loss.upstream.count), (5, 0, 0, 0));
        assert_eq!(loss.retransmission, None);
    }
}

#[test]
fn rows_3_and_4_without_identifications_the_window_and_naks_decide() {
    let [_, mut scene] = scenes();
    scene.send(200..210, &[205]);
    scene.now_ns += REORDER_WINDOW_NS + 1;
    scene.send([205], &[]);
    scene.send(210..220, &[215]);
    scene.nak(215);
    scene.send([215], &[]);
    scene.send(220..230, &[]);
    let loss = scene.metrics();
    assert_eq!((loss.lost, loss.recovered), (2, 0));
    // The same delay within a wider window, and nobody complained.
    let [_, mut scene] = scenes();
    scene.collector.window_ns = 2 * REORDER_WINDOW_NS;
    scene.send(200..210, &[205]);
    scene.now_ns += REORDER_WINDOW_NS + 1;
    scene.send([205], &[]);
    assert_eq!((scene.metrics().lost, scene.metrics().recovered), (0, 1));
}

/// A strict receiver complains about what is late, and the sender repeats it for nothing.
#[test]
fn packet_row_5_a_late_original_behind_its_retransmission_is_no_loss() {
    let [mut scene, _] = scenes();
    scene.send(200..210, &[]);
    let late = scene.id();
    scene.send(211..220, &[]);
    scene.nak(210);
    scene.send(210..230, &[]);
    assert_eq!(scene.metrics().lost, 1, "as far as known");
    scene.pass(P { psn: 210, id: late, ..DATA });
    // The receiver discarded the packets after it, and sends a NAK for them.
    scene.nak(211);
    scene.send(211..240, &[]);
    let loss = scene.metrics();
    assert_eq!(
        (loss.lost, loss.recovered, loss.upstream.count, loss.downstream.count),
        (0, 1, 0, 0),
        "{loss:?}"
    );
}

#[test]
fn a_receiver_that_is_not_ready_loses_nothing() {
    for mut scene in scenes() {
        for _ in 0..3 {
            scene.send(200..210, &[]);
            scene.answer(200, 0x2C);
            scene.nak(200);
            scene.now_ns += MS;
        }
        scene.send(200..220, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.retransmitted, loss.rnr_retransmitted), (30, 30));
        assert_eq!((loss.lost, loss.upstream.count, loss.downstream.count, loss.timeouts), (0, 0, 0, 0));
    }
}

#[test]
fn packets_that_were_under_way_when_the_receiver_was_not_ready_change_nothing() {
    for mut scene in scenes() {
        for _ in 0..4 {
            scene.send(200..210, &[]);
            scene.answer(200, 0x2C);
            scene.nak(200);
            scene.send(210..212, &[]);
            scene.now_ns += 10 * MS;
        }
        scene.send(200..220, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.retransmitted, loss.rnr_retransmitted, loss.timeouts), (48, 48, 0));
    }
}

#[test]
fn naks_are_known_by_kind_and_time_until_the_flow_is_another() {
    for mut scene in scenes() {
        let mut nak = |syndrome| {
            let slot = scene.pass(P { psn: 200, syndrome, ..ANSWER });
            (slot, NakTally { count: 1, last_ns: scene.now_ns })
        };
        let ((slot, sequence), (_, rnr), (_, access), (_, other)) =
            (nak(0x60), nak(0x2C), nak(0x62), nak(0x7F));
        let none = NakTally::default();
        let expected = Naks { rnr, codes: [sequence, none, access, none, none, other] };
        assert_eq!(scene.collector.metrics().naks(slot), expected);
        let (_, again) = (scene.pass(P { psn: 200, syndrome: 0x2C, ..ANSWER }), scene.now_ns);
        assert_eq!(scene.collector.metrics().naks(slot).rnr, NakTally { count: 2, last_ns: again });
        scene.answer(201, 0x1F);
        assert_eq!(scene.collector.metrics().naks(slot).rnr.last_ns, again, "an acknowledgement is none");
        assert_eq!(scene.collector.metrics().naks(scene.slot), Naks::default());
        scene.collector.retired(slot);
        assert!(scene.collector.metrics().naks.is_empty());
    }
}

#[test]
fn the_latest_retransmission_has_its_time() {
    for mut scene in scenes() {
        scene.send(200..220, &[]);
        scene.nak(210);
        scene.send(210..220, &[]);
        let again = scene.now_ns;
        assert_eq!(scene.metrics().last_retransmission_ns, again);
        scene.send(220..300, &[250]);
        assert_eq!(scene.metrics().last_retransmission_ns, again, "in order, and a gap");
    }
}

#[test]
fn a_timer_that_runs_out_is_no_nak() {
    for mut scene in scenes() {
        scene.send(200..210, &[]);
        scene.now_ns += 67 * MS;
        scene.send(205..220, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.timeouts, loss.downstream.count, loss.retransmitted), (1, 0, 5));
        // A silent peer: the same again and again.
        for _ in 0..4 {
            scene.now_ns += 67 * MS;
            scene.send(215..220, &[]);
        }
        assert_eq!(scene.metrics().stuck, 4);
        scene.send(220..221, &[]);
        assert_eq!(scene.metrics().stuck, 0);
    }
}

#[test]
fn one_way_taps_see_that_senders_go_back_and_not_why() {
    for numbered in [true, false] {
        let mut scene = Scene::new(numbered);
        scene.send(100..220, &[]);
        scene.now_ns += 67 * MS;
        scene.send(205..230, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.timeouts, loss.downstream.count), (0, 1));
    }
}

#[test]
fn packet_row_1_a_mirror_shows_packets_twice() {
    for lag in [0usize, 3] {
        for mut scene in scenes() {
            let mut behind = std::collections::VecDeque::new();
            for psn in 200..300 {
                let id = scene.id();
                scene.pass(P { psn, id, ..DATA });
                behind.push_back(P { psn, id, ..DATA });
                if behind.len() > lag
                    && let Some(copy) = behind.pop_front()
                {
                    scene.now_ns -= 9 * US;
                    scene.pass(copy);
                }
            }
            let loss = scene.metrics();
            assert_eq!(loss.upstream.count + loss.downstream.count, 0);
            // Until the first copy nothing is remembered of a flow: when they are not in a row, the
            // first ones look retransmitted.
            let (duplicates, unsure) = (100 - lag as u64, if lag > 0 { 4 } else { 0 });
            assert!(loss.mirrored >= duplicates - unsure && loss.retransmitted <= unsure, "{lag}: {loss:?}");
        }
    }
}

#[test]
fn a_number_in_use_again_is_no_storm() {
    for mut scene in scenes() {
        scene.send(200..2_000, &[]);
        scene.now_ns += 500 * MS;
        scene.next_id = scene.next_id.map(|id| id.wrapping_add(500));
        scene.send(100..1_000, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.retransmitted, loss.lost, loss.timeouts, loss.downstream.count), (0, 0, 0, 0));
        // Far away: the accounting says so itself.
        scene.send([8_000_000, 8_000_001], &[]);
        assert_eq!(scene.metrics().unfilled, 0);
    }
}

/// Connections of few packets, the second with the numbers of the first: as those of NCCL, which begin at PSN 0.
#[test]
fn a_short_connection_with_the_numbers_of_another_sends_nothing_again() {
    let [mut fresh, plain] = scenes();
    // Its packets are numbered as those of the first were.
    fresh.next_id = Some(65_500);
    for mut scene in [fresh, plain] {
        scene.now_ns += 3_600_000 * MS;
        scene.send(100..130, &[]);
        // A timer runs out in it, and it gets beyond the first one.
        scene.send(120..200, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.retransmitted, loss.lost, loss.unfilled, loss.timeouts), (0, 0, 0, 0), "{loss:?}");
        scene.send(200..220, &[210]);
        scene.nak(210);
        scene.send(210..240, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.retransmitted, loss.lost), (9, 1), "then all is as ever: {loss:?}");
    }
}

#[test]
fn what_one_connection_lacked_the_next_does_not_bring() {
    for mut scene in scenes() {
        scene.send(200..2_000, &[1_000, 1_001]);
        scene.now_ns += 500 * MS;
        scene.send(100..1_900, &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.unfilled, loss.retransmitted), (0, 2, 0), "{loss:?}");
    }
}

/// A capture that begins in the middle: nothing is known yet of how the sender numbers its packets.
#[test]
fn packet_row_5_a_late_original_at_the_very_start_is_no_loss() {
    let mut scene = Scene::new(true);
    scene.slot = scene.pass(P { psn: 100, id: 7, ..DATA });
    scene.pass(P { psn: 102, id: 9, ..DATA });
    scene.nak(101);
    // Retransmitted, and 1 ms later the original arrives.
    scene.next_id = Some(10);
    scene.send(101..160, &[]);
    assert_eq!(scene.metrics().lost, 1);
    scene.pass(P { psn: 101, id: 8, ..DATA });
    scene.send(160..170, &[]);
    let loss = scene.metrics();
    assert_eq!((loss.lost, loss.recovered, loss.upstream.count), (0, 1, 0), "{loss:?}");
}

#[test]
fn what_never_comes_was_not_lost_if_nobody_sends_it_again() {
    for mut scene in scenes() {
        // Every other packet takes another way.
        scene.send((200..600).filter(|psn| psn % 2 == 0), &[]);
        let loss = scene.metrics();
        assert_eq!((loss.lost, loss.upstream.count, loss.unfilled), (0, 0, 199));
    }
}

#[test]
fn packet_row_11_unreliable_connections_retransmit_nothing() {
    let mut scene = Scene::new(false);
    for psn in (0..100).filter(|psn| *psn != 50 && *psn != 60) {
        scene.slot = scene.pass(P { psn, opcode: 0x27, ..DATA });
    }
    scene.pass(P { psn: 60, opcode: 0x27, ..DATA });
    let loss = scene.metrics();
    assert_eq!((loss.lost, loss.recovered, loss.unfilled, loss.upstream.count), (1, 1, 0, 1));
    // The numbers of another.
    for psn in 0..200 {
        scene.pass(P { psn, opcode: 0x27, ..DATA });
    }
    let loss = scene.metrics();
    assert_eq!(
        (loss.lost, loss.recovered, loss.retransmitted, loss.downstream.count),
        (1, 1, 0, 0),
        "{loss:?}"
    );
}

/// Few packets, of READs among others, a mirror of which comes behind the next.
#[test]
fn packet_row_1_a_mirror_of_little_traffic_is_known_soon() {
    let mut scene = Scene::new(true);
    let mut last: Option<P> = None;
    for psn in 0..12 {
        let opcode = if psn % 3 == 0 { 0x0C } else { 4 };
        let one = P { psn, opcode, id: scene.id(), ..DATA };
        scene.slot = scene.pass(one);
        scene.now_ns += 10 * US;
        if let Some(before) = last.replace(one) {
            scene.pass(before);
        }
    }
    let loss = scene.metrics();
    assert_eq!((loss.rereads + loss.retransmitted, loss.lost), (1, 0), "{loss:?}");
    assert_eq!(loss.mirrored, 10);
}

#[test]
fn responses_jump_over_what_is_written_and_a_hole_in_a_message_is_a_loss() {
    const FIRST: u8 = 0x0D;
    const MIDDLE: u8 = 0x0E;
    const LAST: u8 = 0x0F;
    let mut scene = Scene::new(false);
    let response = P { syndrome: 0x1F, ..ANSWER };
    let message = |scene: &mut Scene, start: u32, lost: &[u32]| {
        for (psn, opcode) in (start..).zip([FIRST, MIDDLE, MIDDLE, LAST]) {
            if !lost.contains(&psn) {
                scene.slot = scene.pass(P { opcode, psn, ..response });
            }
        }
    };
    let loss = |scene: &Scene| scene.collector.metrics().flow(scene.slot).responses.unwrap_or_default();
    message(&mut scene, 100, &[]);
    message(&mut scene, 110, &[]);
    assert_eq!((loss(&scene).lost, loss(&scene).unfilled), (0, 0));
    message(&mut scene, 120, &[121]);
    scene.now_ns += REORDER_WINDOW_NS + 1;
    // The requester asks for the rest.
    for (psn, opcode) in [(121, FIRST), (122, MIDDLE), (123, LAST)] {
        scene.pass(P { opcode, psn, ..response });
    }
    message(&mut scene, 124, &[]);
    let now = loss(&scene);
    assert_eq!((now.lost, now.retransmitted, now.upstream.count, now.downstream.count), (1, 2, 1, 0));
    // A READ request for packets seen at this tap.
    for (psn, opcode) in [(126, FIRST), (127, LAST)] {
        scene.pass(P { opcode, psn, ..response });
    }
    message(&mut scene, 128, &[]);
    assert_eq!(loss(&scene).downstream.count, 1);
}

#[test]
fn a_slot_that_is_used_again_begins_anew() {
    let [mut scene, _] = scenes();
    scene.send(200..220, &[210]);
    scene.nak(210);
    scene.send(210..230, &[]);
    assert_eq!(scene.metrics().lost, 1);
    for slot in scene.wire.retire(scene.now_ns + 1) {
        scene.collector.retired(slot);
    }
    assert!(scene.collector.metrics().flows.is_empty());
    scene.send(500..600, &[]);
    assert_eq!(scene.metrics(), Metrics::default());
}

/// Anything may come: sums stay possible, memory bounded, and nothing panics.
#[test]
fn any_order_of_packets_is_survived() {
    let mut random = Random::new(7);
    for _ in 0..20 {
        let mut scene = Scene::new(true);
        for _ in 0..5_000 {
            let psn = match random.below(10) {
                0 => random.below_u32(1 << 24),
                _ => 0xFF_FFC0u32.wrapping_add(random.below_u32(128)),
            };
            let opcode =
                [7, 7, 7, 4, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x12, 0x27, 0x11][random.below_u32(12) as usize];
            let syndrome = [0x1F, 0x2C, 0x60, 0x62][random.below_u32(4) as usize];
            let id = random.below_u16(300);
            scene.now_ns = scene.now_ns.wrapping_add(random.below(3 * MS)).wrapping_sub(random.below(2 * MS));
            let base = if random.below(3) == 0 { ANSWER } else { DATA };
            scene.pass(P { opcode, psn, id, syndrome, ..base });
        }
        for loss in scene.collector.metrics().flows.values() {
            for metrics in [loss.requests, loss.responses].into_iter().flatten() {
                assert!(metrics.retransmitted + metrics.mirrored + metrics.rereads <= 5_000);
            }
        }
    }
}
