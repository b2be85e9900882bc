use rocescope_common::wire::Frame;

use super::*;
use crate::source::flows::table::FlowTable;
use crate::util::source_port;

const A: u32 = 1;
const B: u32 = 2;
const ACK: u8 = 0x11;
const WRITE: u8 = 0x0A;
const READ: u8 = 0x0C;
const RESPONSE: u8 = 0x10;
const CNP: u8 = 0x81;

/// A tap on everything between hosts.
struct Tap {
    pairing: Pairing,
    table: FlowTable,
    now: u64,
}

impl Tap {
    fn new() -> Self {
        let mut table = FlowTable::new(100_000);
        table.add_link("tap".into(), None);
        Self { pairing: Pairing::default(), table, now: 1 << 40 }
    }

    /// A packet from host to host, to a queue pair and from a port; its slot and what is known of
    /// the other direction.
    fn send(&mut self, (src, dst): (u32, u32), qp: u32, port: u16, opcode: u8, psn: u32) -> (u32, Reverse) {
        self.now += 1_000;
        let frame = Frame {
            src: [0, 0, 0, src],
            dst: [0, 0, 0, dst],
            family: 4,
            roce_version: 2,
            opcode,
            src_port: port,
            ack_req: opcode == WRITE,
            dest_qp: qp,
            psn,
            wire_len: 100,
            payload: 0,
            aeth: if matches!(opcode, ACK | RESPONSE) { 0x1F00_0000 } else { UNKNOWN },
            dma_len: 0,
            ..Frame::EMPTY
        };
        let seen = self.table.observe(0, &frame, self.now).unwrap();
        let packet = Packet::new((&frame, &[]), (self.now, 0), seen.slot, seen.stats, seen.outcome);
        let extras = packet.wants_extras().then(|| PacketExtras::of((&frame, &[]), 0, "tap".into(), 0));
        (packet.slot, self.pairing.packet(&packet, extras.as_ref()))
    }

    fn how(&self, slot: u32) -> Option<(u32, PairingEvidence, Confidence)> {
        self.pairing.pair(slot).and_then(|pair| Some((pair.peer_qp?, pair.how, pair.confidence)))
    }
}

#[test]
fn the_port_of_both_queue_pairs_pairs_at_the_first_packet_back() {
    let mut tap = Tap::new();
    // 16 connections, all with neighbouring numbers: 100 + i on A, 120 + i on B.
    for i in 0..16 {
        let port = source_port::of_both(100 + i, 120 + i);
        let (_, before) = tap.send((A, B), 120 + i, port, WRITE, i);
        assert_eq!(before, Reverse { slot: NONE, paired: false }, "nothing is known yet");
    }
    for i in 0..16 {
        let port = source_port::of_both(100 + i, 120 + i);
        let (back, reverse) = tap.send((B, A), 100 + i, port, ACK, i);
        assert_eq!(reverse, Reverse { slot: i, paired: true });
        assert_eq!(tap.how(back), Some((120 + i, PairingEvidence::PortRule, Confidence::Strong)));
        assert_eq!(tap.how(i), Some((100 + i, PairingEvidence::PortRule, Confidence::Strong)));
        assert_eq!(tap.pairing.reverse(i), Reverse { slot: back, paired: true });
    }
}

#[test]
fn a_port_of_the_senders_number_alone() {
    let mut tap = Tap::new();
    // A's 17 with B's 18, and A's 18 with B's 17: the ports of 17 are the same on both hosts.
    let (to_18, _) = tap.send((A, B), 18, source_port::of_sender(17), WRITE, 1);
    let (back_18, _) = tap.send((B, A), 18, source_port::of_sender(17), ACK, 500);
    tap.send((A, B), 17, source_port::of_sender(18), WRITE, 1);
    tap.send((B, A), 17, source_port::of_sender(18), ACK, 1);
    assert_eq!(tap.how(to_18), Some((17, PairingEvidence::PortRule, Confidence::Strong)));
    assert_eq!(tap.how(back_18), Some((17, PairingEvidence::PortRule, Confidence::Strong)));
}

#[test]
fn a_port_that_is_the_senders_number() {
    let mut tap = Tap::new();
    let (there, _) = tap.send((A, B), 72, 69, WRITE, 1);
    let (back, _) = tap.send((B, A), 69, 72, ACK, 1);
    assert_eq!(tap.how(there), Some((69, PairingEvidence::PortIsQp, Confidence::Strong)));
    assert_eq!(tap.how(back), Some((72, PairingEvidence::PortIsQp, Confidence::Strong)));
}

#[test]
fn one_port_for_one_connection_is_believed_once_acknowledgements_agree() {
    let mut tap = Tap::new();
    let (there, _) = tap.send((A, B), 500, 50_000, WRITE, 8_000_000);
    let (back, _) = tap.send((B, A), 600, 50_000, ACK, 8_000_000);
    assert_eq!(tap.how(there), Some((600, PairingEvidence::SharedPort, Confidence::Likely)));
    for psn in 8_000_001..8_000_004 {
        tap.send((A, B), 500, 50_000, WRITE, psn);
        tap.send((B, A), 600, 50_000, ACK, psn);
    }
    assert_eq!(tap.how(back), Some((500, PairingEvidence::SharedPort, Confidence::Strong)));
}

#[test]
fn a_shared_port_whose_acknowledgements_do_not_fit_is_chance() {
    let mut tap = Tap::new();
    let (there, _) = tap.send((A, B), 500, 50_000, WRITE, 8_000_000);
    let (back, _) = tap.send((B, A), 600, 50_000, ACK, 3);
    for psn in 4..7 {
        tap.send((B, A), 600, 50_000, ACK, psn);
    }
    assert_eq!((tap.how(there), tap.how(back)), (None, None));
    tap.send((B, A), 600, 50_000, ACK, 9);
    assert_eq!(tap.how(back), None, "not again");
}

/// Messages of eight packets, of which the last asks for an ACK; the responder acknowledges every fifth packet.
#[test]
fn a_responder_that_acknowledges_within_messages_is_believed_too() {
    const MIDDLE: u8 = 0x07;
    let mut tap = Tap::new();
    let (there, _) = tap.send((A, B), 500, 50_000, MIDDLE, 8_000_000);
    let (back, _) = tap.send((B, A), 600, 50_000, ACK, 8_000_000);
    for psn in 8_000_001..8_000_100 {
        let asks = psn % 8 == 7;
        tap.send((A, B), 500, 50_000, if asks { WRITE } else { MIDDLE }, psn);
        if psn % 5 == 0 {
            tap.send((B, A), 600, 50_000, ACK, psn);
        }
        assert_eq!(tap.how(there).map(|(qp, how, _)| (qp, how)), Some((600, PairingEvidence::SharedPort)));
    }
    // As the last packet of a job is acknowledged.
    for psn in 8_000_100..8_000_103 {
        tap.send((A, B), 500, 50_000, WRITE, psn);
        tap.send((B, A), 600, 50_000, ACK, psn);
    }
    assert_eq!(tap.how(back), Some((500, PairingEvidence::SharedPort, Confidence::Strong)));
}

#[test]
fn a_port_of_several_connections_says_nothing() {
    let mut tap = Tap::new();
    let (there, _) = tap.send((A, B), 500, 50_000, WRITE, 8_000_000);
    tap.send((B, A), 600, 50_000, ACK, 8_000_000);
    tap.send((A, B), 501, 50_000, WRITE, 9_000_000);
    let (back, _) = tap.send((B, A), 601, 50_000, ACK, 9_000_000);
    assert_eq!((tap.how(there), tap.how(back)), (None, None));
}

#[test]
fn psns_pair_what_ports_do_not() {
    let mut tap = Tap::new();
    let mut slots = Vec::new();
    // Every packet has a port of its own.
    let mut port = 50_000;
    for i in 0..20 {
        for connection in 0..4 {
            let psn = 1_000_000 * (connection + 1) + i;
            port += 1;
            let (there, _) = tap.send((A, B), 500 + connection, port, WRITE, psn);
            let (back, _) = tap.send((B, A), 603 - connection, port + 7_000, ACK, psn);
            slots.push((there, back, connection));
        }
    }
    for (there, back, connection) in slots {
        assert_eq!(tap.how(there), Some((603 - connection, PairingEvidence::Psn, Confidence::Likely)));
        assert_eq!(tap.how(back), Some((500 + connection, PairingEvidence::Psn, Confidence::Likely)));
    }
}

/// READs with these PSNs, each answered at once; slots of the last request and response.
fn reads(tap: &mut Tap, psns: std::ops::Range<u32>) -> (u32, u32) {
    let mut last = (0, 0);
    for (psn, port) in psns.zip(50_000..) {
        let (there, _) = tap.send((A, B), 500, port, READ, psn);
        let (back, _) = tap.send((B, A), 600, port + 1_000, RESPONSE, psn);
        last = (there, back);
    }
    last
}

#[test]
fn reads_pair_by_their_first_response() {
    let mut tap = Tap::new();
    let (there, _) = reads(&mut tap, 700_000..700_020);
    assert_eq!(tap.how(there), Some((600, PairingEvidence::Psn, Confidence::Likely)));
}

#[test]
fn a_connection_that_begins_at_a_low_psn_is_paired() {
    let mut tap = Tap::new();
    let (there, back) = reads(&mut tap, 1_000..1_060);
    assert_eq!(tap.how(there), Some((600, PairingEvidence::Psn, Confidence::Likely)));
    assert_eq!(tap.how(back), Some((500, PairingEvidence::Psn, Confidence::Likely)));
}

/// The tap sees the requests of one connection and the responses of another with the same PSNs; now one is ahead, now
/// the other.
#[test]
fn reads_in_lockstep_that_are_seen_one_way_are_no_pair() {
    let mut tap = Tap::new();
    for (psn, port) in (700_000..700_400).zip(50_000..) {
        let ahead = psn % 7 == 3;
        if ahead {
            tap.send((B, A), 601, port + 1_000, RESPONSE, psn);
        }
        let (there, _) = tap.send((A, B), 500, port, READ, psn);
        if !ahead {
            tap.send((B, A), 601, port + 1_000, RESPONSE, psn);
        }
        assert_eq!(tap.how(there), None, "at {psn}");
    }
}

/// One of two connections in lockstep is known in part by its ports: its requests are no less waiting.
#[test]
fn reads_of_a_pair_that_is_not_certain_are_not_answered_by_another() {
    let mut tap = Tap::new();
    tap.send((A, B), 500, 50_000, READ, 700_000);
    tap.send((B, A), 609, 50_000, ACK, 700_000);
    for psn in 700_001..700_060 {
        let (other, _) = tap.send((A, B), 501, 50_001, READ, psn);
        tap.send((A, B), 500, 50_000, READ, psn);
        let (back, _) = tap.send((B, A), 600, 60_000, RESPONSE, psn);
        assert_eq!((tap.how(other), tap.how(back)), (None, None), "at {psn}");
    }
}

/// NCCL starts every sequence at 0: connections in lockstep carry the same PSNs.
#[test]
fn equal_psns_and_sequences_from_0_pair_nothing() {
    for first in [0, 2_000_000] {
        let mut tap = Tap::new();
        let mut slots = Vec::new();
        for psn in first..first + 50 {
            for (qp, port) in (500..503).zip(50_000..) {
                slots.push(tap.send((A, B), qp, port, WRITE, psn).0);
            }
            for (qp, port) in (600..603).zip(60_000..) {
                slots.push(tap.send((B, A), qp, port, ACK, psn).0);
            }
        }
        assert!(slots.iter().all(|slot| tap.how(*slot).is_none()), "from {first}");
    }
    // Seen one way only, the other connection would be taken for it.
    let mut tap = Tap::new();
    for psn in 0..50 {
        tap.send((A, B), 500, 50_000, WRITE, psn);
        let (back, _) = tap.send((B, A), 601, 60_001, ACK, psn);
        assert_eq!(tap.how(back), None);
    }
}

#[test]
fn a_better_way_replaces_a_weaker_one() {
    let mut tap = Tap::new();
    let port = source_port::of_both(500, 600);
    let (there, _) = tap.send((A, B), 600, port, WRITE, 8_000_000);
    tap.send((B, A), 444, port, ACK, 8_000_000);
    assert_eq!(tap.how(there), Some((444, PairingEvidence::SharedPort, Confidence::Likely)));
    let (back, _) = tap.send((B, A), 500, port, ACK, 8_000_000);
    assert_eq!(tap.how(there), Some((500, PairingEvidence::PortRule, Confidence::Strong)));
    assert_eq!(tap.pairing.reverse(there).slot, back);
}

#[test]
fn a_notification_before_anything_else_does_not_mislead() {
    let mut tap = Tap::new();
    let port = source_port::of_both(500, 600);
    let (there, _) = tap.send((A, B), 600, port, WRITE, 1);
    let (back, reverse) = tap.send((B, A), 500, 0, CNP, 0);
    assert_eq!(reverse.slot, NONE, "its port is not the connection's");
    tap.send((B, A), 500, port, ACK, 1);
    assert_eq!((tap.pairing.reverse(back).slot, tap.pairing.reverse(there).slot), (there, back));
}

#[test]
fn retired_flows_are_forgotten_and_found_again() {
    let mut tap = Tap::new();
    let port = source_port::of_both(500, 600);
    let (there, _) = tap.send((A, B), 600, port, WRITE, 1);
    let (back, _) = tap.send((B, A), 500, port, ACK, 1);
    tap.pairing.retired(back);
    assert_eq!(tap.pairing.reverse(there).slot, NONE);
    assert_eq!(tap.how(there).map(|(qp, ..)| qp), Some(500), "still the same connection");
    let gone = tap.table.retire_idle(tap.now + 10, 0);
    assert_eq!(gone.len(), 2);
    tap.pairing.retired(there);
    assert_eq!((tap.pairing.index.len(), tap.pairing.ports.len()), (0, 0));
    let (there, _) = tap.send((A, B), 600, port, WRITE, 2);
    let (_, reverse) = tap.send((B, A), 500, port, ACK, 2);
    assert_eq!(reverse, Reverse { slot: there, paired: true });
}

#[test]
fn a_number_in_use_again_belongs_to_another_connection() {
    let mut tap = Tap::new();
    let (old, new) = (source_port::of_both(500, 600), source_port::of_both(501, 600));
    let (there, _) = tap.send((A, B), 600, old, WRITE, 1);
    tap.send((B, A), 500, old, ACK, 1);
    tap.send((A, B), 600, new, WRITE, 8_000_000);
    assert_eq!(tap.how(there), None);
    tap.send((B, A), 501, new, ACK, 8_000_000);
    assert_eq!(tap.how(there), Some((501, PairingEvidence::PortRule, Confidence::Strong)));
}

#[test]
fn times_of_two_taps_are_not_compared() {
    let mut pairing = Pairing::default();
    let key = |src: u32, dst: u32, dest_qp, link| FlowKey {
        src: [0, 0, 0, src],
        dst: [0, 0, 0, dst],
        dest_qp,
        link,
        family: 4,
        pad: 0,
    };
    let port = Some(source_port::of_both(500, 600));
    // Links 0 and 1 are the two directions of an interface, 2 another one there, 3 another host.
    for (link, tap, interface) in [(0, 0, 7), (1, 0, 7), (2, 0, 8), (3, 1, 7)] {
        pairing.link(link, Place { tap, interface });
    }
    pairing.flow(0, &key(A, B, 600, 0), port, true, false);
    pairing.flow(1, &key(B, A, 500, 3), port, true, false);
    assert_eq!(pairing.reverse(0), Reverse { slot: NONE, paired: true });
    assert_eq!(pairing.pair(0).unwrap().peer_qp, Some(500));
    pairing.flow(2, &key(B, A, 500, 2), port, true, false);
    assert_eq!(pairing.reverse(0).slot, 2);
    pairing.flow(3, &key(B, A, 500, 1), port, true, false);
    assert_eq!((pairing.reverse(0).slot, pairing.reverse(3).slot), (3, 0));
    pairing.flow(4, &key(A, B, 600, 3), port, true, false);
    assert_eq!((pairing.reverse(1).slot, pairing.reverse(4).slot), (4, 1));
}
