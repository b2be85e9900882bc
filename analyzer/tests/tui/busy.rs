//! Every screen of a busy host: hundreds of queue pairs on two rails, and several troubles at a time.
//!
//! Frames are made here, by a schedule, and replayed: the same packets at each run.

use super::sizes::{self, Captured};
use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Length of the run.
const SECONDS: u64 = 20;
const QUEUE_PAIRS: u32 = 256;
const PEERS: u32 = 32;
/// Packets of a message, and the time from one to the next.
const PACKETS: u32 = 8;
const PERIOD: u64 = 400 * MS;
const PAYLOAD: usize = 4096;
const HOST: [u8; 4] = [10, 40, 1, 11];

const FIRST: u8 = 0x06;
const MIDDLE: u8 = 0x07;
const LAST: u8 = 0x08;
const ACK: u8 = 0x11;
const CNP: u8 = 0x81;
/// Syndromes of an AETH.
const POSITIVE: u8 = 0x1F;
const SEQUENCE_ERROR: u8 = 0x60;
const REMOTE_ACCESS: u8 = 0x62;
/// With a timer of 0.64 ms.
const NOT_READY: u8 = 0x2C;

/// One connection, whose data has one direction.
struct QueuePair {
    number: u32,
    peer: u32,
    rail: usize,
    /// True if data comes from the peer.
    inbound: bool,
}

/// A packet of it.
struct Packet {
    opcode: u8,
    psn: u32,
    /// The two bits of ECN.
    ecn: u8,
    syndrome: u8,
}

impl QueuePair {
    fn new(number: u32) -> Self {
        let inbound = (number / PEERS / 2).is_multiple_of(2);
        Self { number, peer: 1 + number % PEERS, rail: (number / PEERS % 2) as usize, inbound }
    }

    /// The frame of a packet from the sender of data, or `back` to it.
    fn frame(&self, at_ns: u64, back: bool, packet: &Packet) -> Captured {
        let to_host = self.inbound != back;
        let peer = [10, 40, 2, u8::try_from(self.peer).unwrap()];
        let (src, dst, qp) =
            if to_host { (peer, HOST, 5_000 + self.number) } else { (HOST, peer, 1_000 + self.number) };
        let extension = match packet.opcode {
            FIRST | CNP => 16,
            ACK => 4,
            _ => 0,
        };
        let payload = if back { 0 } else { PAYLOAD };
        let udp = 8 + 12 + extension + payload + 4;
        let dscp = if packet.opcode == CNP { 48 } else { 26 };
        let mut kept = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, dscp << 2 | packet.ecn];
        let two = |n: usize| u16::try_from(n).unwrap().to_be_bytes();
        kept.extend(two(20 + udp));
        kept.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
        kept.extend([src, dst].concat());
        kept.extend(two(49_152 + self.number as usize));
        kept.extend([0x12, 0xB7]);
        kept.extend(two(udp));
        let asks = u32::from(packet.opcode == LAST) << 31;
        kept.extend([0, 0, packet.opcode, 0x40, 0xFF, 0xFF]);
        kept.extend(qp.to_be_bytes());
        kept.extend((asks | packet.psn).to_be_bytes());
        match packet.opcode {
            ACK => kept.extend([packet.syndrome, 0, 0, 1]),
            _ => kept.resize(kept.len() + extension, 0),
        }
        kept.resize(kept.len() + payload.min(16), 0);
        let interface = 2 * self.rail + usize::from(!to_host);
        Captured { interface, at_ns, kept, length: 14 + 20 + udp }
    }

    /// Data packets of a message from number `from` on, one each 2 µs.
    fn data(&self, at_ns: u64, psn: u32, from: u32, marked: bool) -> Vec<Captured> {
        let packet = |n: u32| {
            let opcode = match n {
                0 => FIRST,
                n if n + 1 == PACKETS => LAST,
                _ => MIDDLE,
            };
            let ecn = if marked && n.is_multiple_of(5) { 3 } else { 2 };
            let time = at_ns + u64::from(n - from) * 2_000;
            self.frame(time, false, &Packet { opcode, psn: psn + n, ecn, syndrome: 0 })
        };
        (from..PACKETS).map(packet).collect()
    }

    fn answer(&self, at_ns: u64, psn: u32, syndrome: u8) -> Captured {
        self.frame(at_ns, true, &Packet { opcode: ACK, psn, ecn: 0, syndrome })
    }

    /// A message and what answers it; nothing of one that has failed.
    fn message(&self, nth: u32) -> Vec<Captured> {
        let at_ns = u64::from(nth) * PERIOD + u64::from(self.number) * 1_300_000;
        let (psn, last) = (nth * PACKETS, nth * PACKETS + PACKETS - 1);
        let since = |second: u64| at_ns >= second * SECOND;
        let acked = |mut frames: Vec<Captured>, at_ns: u64| {
            frames.push(self.answer(at_ns, last, POSITIVE));
            frames
        };
        // Two hosts lose a packet in some of their messages to this one.
        if self.inbound && matches!(self.peer, 5 | 6) && since(8) && (nth + self.number).is_multiple_of(3) {
            let mut frames = self.data(at_ns, psn, 0, false);
            frames.remove(3);
            frames.push(self.answer(at_ns + 20_000, psn + 3, SEQUENCE_ERROR));
            frames.extend(self.data(at_ns + 60_000, psn, 3, false));
            return acked(frames, at_ns + 90_000);
        }
        // Eight hosts send through a queue that marks, and get CNPs.
        if self.inbound && self.rail == 1 && (9..17).contains(&self.peer) && since(4) {
            let mut frames = self.data(at_ns, psn, 0, true);
            frames.push(self.frame(
                at_ns + 5_000,
                true,
                &Packet { opcode: CNP, psn: 0, ecn: 0, syndrome: 0 },
            ));
            return acked(frames, at_ns + 30_000);
        }
        // One host has no receive buffers in time.
        if !self.inbound && self.peer == 20 && since(12) {
            let mut frames = self.data(at_ns, psn, 0, false);
            frames.push(self.answer(at_ns + 20_000, psn, NOT_READY));
            frames.extend(self.data(at_ns + 700_000, psn, 0, false));
            return acked(frames, at_ns + 730_000);
        }
        // One request is refused, and its queue pair is in error then.
        if !self.inbound && self.number == 88 && since(15) {
            let first = at_ns - 15 * SECOND < PERIOD;
            let frames = first.then(|| self.data(at_ns, psn, 0, false));
            let refused = first.then(|| self.answer(at_ns + 20_000, last, REMOTE_ACCESS));
            return frames.into_iter().flatten().chain(refused).collect();
        }
        acked(self.data(at_ns, psn, 0, false), at_ns + 25_000 + u64::from(self.number % 7) * 1_000)
    }
}

/// A busy host with every kind of trouble.
pub(super) fn app() -> App {
    let messages = u32::try_from(SECONDS * SECOND / PERIOD).unwrap();
    let pairs: Vec<QueuePair> = (0..QUEUE_PAIRS).map(QueuePair::new).collect();
    let mut frames: Vec<Captured> =
        pairs.iter().flat_map(|pair| (0..messages).flat_map(|nth| pair.message(nth))).collect();
    frames.sort_by_key(|frame| frame.at_ns);
    sizes::until(&sizes::updates(frames.into_iter()), SECONDS - 1)
}

#[test]
fn every_screen_at_every_size_of_a_busy_host() {
    let mut app = app();
    let active = |app: &App, word: &str| {
        let findings = app.view.concluded().unwrap().findings;
        assert!(findings.iter().any(|one| one.active && one.title.contains(word)), "{word}: {findings:#?}");
    };
    for word in ["Loss upstream", "ECN congestion", "not ready", "Remote access error"] {
        active(&app, word);
    }
    assert_eq!(app.view.data.as_ref().unwrap().model.dedup.flows, 2 * QUEUE_PAIRS as usize);
    sizes::every_size("busy", true, &mut app);
}
