extern crate std;

use std::vec;
use std::vec::Vec;

use super::{Event, FlowStats, Outcome, observe, observe_next};
use crate::account::PackedOutcome;
use crate::wire::Frame;

const FIRST: u8 = 0x0D;
const MIDDLE: u8 = 0x0E;
const LAST: u8 = 0x0F;
const ONLY: u8 = 0x10;
const ACKNOWLEDGE: u8 = 0x11;
const ATOMIC: u8 = 0x12;

fn outcomes(packets: &[(u8, u32)]) -> (FlowStats, Vec<Outcome>) {
    let mut stats = FlowStats::default();
    let outcomes = packets
        .iter()
        .map(|&(opcode, psn)| {
            let frame = Frame { opcode, psn, roce_version: 2, ..Frame::EMPTY };
            observe(&mut stats, &frame, 1)
        })
        .collect();
    (stats, outcomes)
}

/// PSNs of packets with a gap event, and how many PSNs are certainly missing.
fn gaps(packets: &[(u8, u32)]) -> (Vec<(u32, u32)>, FlowStats) {
    let (stats, outcomes) = outcomes(packets);
    let found = packets.iter().zip(outcomes).filter(|(_, outcome)| outcome.events & Event::GAP != 0);
    let certain = |outcome: Outcome| Event::certain(outcome.events, outcome.missing);
    (found.map(|((_, psn), outcome)| (*psn, certain(outcome))).collect(), stats)
}

#[test]
fn jumps_between_response_messages_may_be_acknowledged_requests() {
    // READ, then SENDs that one ACKNOWLEDGE answers, then atomics and READs.
    let packets =
        [(ONLY, 10), (ACKNOWLEDGE, 13), (FIRST, 15), (MIDDLE, 16), (LAST, 17), (ATOMIC, 20), (ONLY, 28)];
    let (found, stats) = gaps(&packets);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(
        (stats.rare.psn_responses.gaps, stats.rare.psn_responses.missing),
        (3, 4 + 2 + 7),
        "counted all the same"
    );
    assert_eq!((stats.rare.responses_missing().gaps, stats.rare.responses_missing().missing), (0, 0));
    let (_, outcomes) = outcomes(&packets);
    assert_eq!(outcomes[2].missing, 4, "for callers that wait for the retransmission");
}

#[test]
fn jumps_within_a_response_message_are_gaps() {
    for (packets, gap) in [
        (vec![(FIRST, 5), (LAST, 7)], (7, 1)),
        (vec![(FIRST, 5), (MIDDLE, 9)], (9, 3)),
        // The last packet of one message, and what preceded the next.
        (vec![(FIRST, 5), (MIDDLE, 6), (ONLY, 8)], (8, 1)),
        // The first packet, and possibly requests between the messages that an ACKNOWLEDGE answers.
        (vec![(ONLY, 5), (MIDDLE, 8)], (8, 1)),
        (vec![(ONLY, 5), (LAST, 7)], (7, 1)),
        // The last packet, and as many as above.
        (vec![(FIRST, 5), (FIRST, 9)], (9, 1)),
        // A retransmission that ends a message leaves no message open.
        (vec![(FIRST, 5), (LAST, 7), (FIRST, 5), (MIDDLE, 6), (LAST, 7), (ONLY, 11)], (7, 1)),
    ] {
        let (found, stats) = gaps(&packets);
        assert_eq!(found, [gap], "{packets:?}");
        assert_eq!(stats.rare.response_holes, u64::from(gap.1));
    }
}

#[test]
fn jumps_of_requests_are_gaps() {
    let (found, stats) = gaps(&[(0x04, 5), (0x04, 8)]);
    assert_eq!((found, stats.psn.missing, stats.rare.response_holes), (vec![(8, 2)], 2, 0));
}

#[test]
fn a_packed_outcome_has_each_field() {
    let none = Outcome::NONE;
    let outcomes = [
        (u32::from(Event::NEW_FLOW | Event::EDGE), Outcome { events: Event::NEW_FLOW | Event::EDGE, ..none }),
        (u32::from(u16::MAX), Outcome { events: u16::MAX, ..none }),
        (PackedOutcome::OTHER_PORT, Outcome { other_port: true, ..none }),
        (PackedOutcome::OTHER_OPCODE, Outcome { other_opcode: true, ..none }),
        (PackedOutcome::OTHER_DSCP, Outcome { other_dscp: true, ..none }),
        (PackedOutcome::DUPLICATE_PSN, Outcome { duplicate_psn: true, ..none }),
    ];
    for (bits, outcome) in outcomes {
        for missing in [0, u32::MAX] {
            assert_eq!(PackedOutcome { bits, missing }.unpack(), Outcome { missing, ..outcome });
        }
    }
    assert_eq!(PackedOutcome::NONE.unpack(), none);
}

#[test]
fn a_packet_that_continues_a_message_counts_like_any_other() {
    for (first, middle) in [(0x06, 0x07), (0x00, 0x01), (FIRST, MIDDLE), (0x26, 0x27), (0xA6, 0xA7)] {
        let frame = |opcode, psn: u32| Frame {
            opcode,
            psn: psn & 0xFF_FFFF,
            tos: 2,
            roce_version: 2,
            wire_len: 1082,
            payload: 1024,
            ..Frame::EMPTY
        };
        let mut stats = FlowStats::default();
        observe(&mut stats, &frame(first, 0xFF_FFFC), 10);
        assert_eq!(observe(&mut stats, &frame(middle, 0xFF_FFFD), 11), Outcome::NONE);
        let mut next = stats;
        for (more, now) in (0xFF_FFFE..).zip([12, 12, 11, 9, 13]) {
            assert_eq!(observe(&mut stats, &frame(middle, more), now), Outcome::NONE);
            observe_next(&mut next, &frame(middle, more), now);
            assert_eq!(next, stats, "{middle:#x}");
        }
    }
}
