//! Lost ACKs, and PSNs of READs.

use super::*;

#[test]
fn a_request_with_a_psn_of_the_read_before_it_is_noted() {
    // A READ of one packet; the sender goes on behind it, or goes back in front of it.
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

#[test]
fn a_timeout_after_which_the_packets_turn_out_to_have_arrived_lost_its_acks() {
    for (before, after, acked) in [
        // The ACK passed here, and was lost behind this tap.
        (Some(219), None, 1),
        // It was lost in front of this tap: the first retransmission is answered with the last PSN.
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
