//! Frames that continue a message, and the same packets counted one by one.

use rocescope_common::random::Random;

use super::super::count::Counts;
use super::super::links::TapLinks;
use super::super::worker::MetricsWorker;
use super::*;
use crate::metrics::pairing::peers::Peers;
use crate::metrics::{Metrics, Options};
use crate::source::capture::{Interface, LINKTYPE_EN10MB};
use crate::source::flows::table::FlowTable;

const LEN: usize = 96;

/// An IPv4 frame with these bytes, and its headers as parsed.
fn latest(bytes: &[u8; LEN]) -> Latest {
    let frame = Frame {
        family: 4,
        roce_version: 2,
        opcode: 7,
        tos: 2,
        psn: 0xFF_FFFF,
        wire_len: 4154,
        payload: 4096,
        ip_offset: 14,
        bth_offset: 42,
        ..Frame::EMPTY
    };
    let mut latest = Latest::default();
    *latest.replace() = frame;
    latest.keep((0, 10), (3, 5), bytes);
    latest
}

#[test]
fn every_byte_of_the_headers_counts_but_for_those_that_rise() {
    let mut bytes = [7; LEN];
    bytes[51..54].fill(0xFF);
    let mut next = bytes;
    next[51..54].fill(0);
    for at in 0..LEN {
        let mut other = next;
        other[at] ^= 0x10;
        let free = [18, 19, 24, 25, 40, 41].contains(&at) || at >= 54;
        assert_eq!(latest(&bytes).is_continued_by((0, 10), (4154, &other)), free, "{at}");
    }
    let next = |at, wire_len| latest(&bytes).is_continued_by(at, (wire_len, &next));
    assert!(next((0, 10), 4154));
    assert!(!next((1, 10), 4154) && !next((0, 9), 4154) && !next((0, 10), 4155));
    assert!(!latest(&bytes).is_continued_by((0, 10), (4154, &bytes)), "the same PSN");
}

#[test]
fn layouts_that_take_turns_have_their_own_masks() {
    let mut latest = Latest::default();
    for round in 0..30 {
        for number in 0..=round % 6 {
            let layout = (14 + 4 * (number % 3), 42 + 4 * number, if number < 3 { 4 } else { 6 });
            latest.change_mask(layout);
            assert_eq!((latest.mask_of, latest.mask), (layout, mask(layout)));
        }
    }
}

#[test]
fn other_packets_are_not_continued() {
    let kept = |change: fn(&mut Frame)| {
        let mut latest = latest(&[7; LEN]);
        change(latest.replace());
        latest.keep((0, 10), (3, 5), &[7; LEN]);
        latest.len > 0
    };
    assert!(kept(|_| ()));
    for opcode in [0x00, 0x02, 0x04, 0x06, 0x08, 0x0C, 0x0D, 0x0F, 0x10, 0x11, 0x64, 0x81, 0xFF] {
        let mut latest = latest(&[7; LEN]);
        latest.replace().opcode = opcode;
        latest.keep((0, 10), (3, 5), &[7; LEN]);
        assert_eq!(latest.len, 0, "{opcode:#x}");
    }
    assert!(!kept(|frame| frame.ack_req = true));
    assert!(!kept(|frame| frame.tos = 3));
    assert!(!kept(|frame| frame.encap = 1));
    assert!(!kept(|frame| frame.roce_version = 1));
    assert!(!kept(|frame| frame.payload = UNKNOWN));
    assert!(!kept(|frame| frame.bth_offset = 69));
}

/// One direction of a connection, and its message.
#[derive(Clone, Copy, Default)]
struct Sender {
    ipv6: bool,
    responds: bool,
    psn: u32,
    id: u16,
    left: u32,
    first: bool,
}

impl Sender {
    /// Its next packet: opcode and whether it asks for an acknowledgement.
    fn next(&mut self, random: &mut Random) -> (u8, bool) {
        if self.left == 0 {
            (self.left, self.first) = (1 + random.below_u32(40), true);
        }
        self.left -= 1;
        let operation = if self.responds { 0x0D } else { 0x06 };
        let opcode = match (self.first, self.left == 0) {
            (true, true) => operation + 3 + u8::from(!self.responds),
            (true, false) => operation,
            (false, false) => operation + 1,
            (false, true) => operation + 2,
        };
        self.first = false;
        match random.below_u32(400) {
            0 => self.psn += 2,
            1 => self.psn = self.psn.saturating_sub(5),
            _ => self.psn += 1,
        }
        self.id = self.id.wrapping_add(if random.one_in(50) { 9_000 } else { 1 });
        (opcode, !self.responds && self.left == 0)
    }
}

/// A frame of a sender, or the ACK of the other end.
fn frame(number: u8, sender: &Sender, (opcode, ack_req): (u8, bool), tos: u8) -> Vec<u8> {
    let answers = opcode == 0x11;
    let (src, dst) = if sender.responds == answers { (1, 2) } else { (2, 1) };
    let payload: u16 = if answers { 0 } else { 256 };
    let ext = u16::from(matches!(opcode, 0x06 | 0x0A)) * 16
        + u16::from(matches!(opcode, 0x0D | 0x0F | 0x10 | 0x11)) * 4;
    let udp = 8 + 12 + ext + payload + 4;
    let mut bytes = vec![2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src];
    if sender.ipv6 {
        bytes.extend([0x86, 0xDD, 0x60 | tos >> 4, tos << 4, 0, 0]);
        bytes.extend(udp.to_be_bytes());
        bytes.extend([17, 64]);
        for host in [src, dst] {
            bytes.extend([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number, host]);
        }
    } else {
        bytes.extend([8, 0, 0x45, tos]);
        bytes.extend((udp + 20).to_be_bytes());
        bytes.extend(sender.id.to_be_bytes());
        bytes.extend([0x40, 0, 64, 17, 0, 0, 10, number, 0, src, 10, number, 0, dst]);
    }
    bytes.extend([0xC0, number, 0x12, 0xB7]);
    bytes.extend(udp.to_be_bytes());
    bytes.extend([0, 0, opcode, 0, 0xFF, 0xFF, 0, 0, u8::from(answers != sender.responds), number]);
    bytes.extend((sender.psn & MASK24 | u32::from(ack_req) << 31).to_be_bytes());
    let ext_bytes = if matches!(opcode, 0x06 | 0x0A) { 0u8 } else { 0x1F };
    bytes.extend(vec![ext_bytes; ext.into()]);
    bytes.extend(vec![number; payload.into()]);
    bytes.extend([0; 4]);
    bytes
}

/// Frames of several connections in bursts, with loss, marks, silences, a clock that steps back, and other traffic.
fn traffic(seed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut random = Random::new(seed);
    let mut senders: Vec<Sender> = (0..6)
        .map(|number| Sender { ipv6: number % 3 == 0, responds: number % 2 == 1, ..Sender::default() })
        .collect();
    let (mut now, mut at, mut burst) = (1_700_000_000_000_000_000, 0, 0);
    let mut frames = Vec::new();
    while frames.len() < 30_000 {
        if burst == 0 {
            (at, burst) = (random.index(senders.len()), 1 + random.below_u32(30));
        }
        burst -= 1;
        now += match random.below_u32(4_000) {
            0 => 120_000_000,
            1..5 => 3_000_000,
            5..25 => 250_000,
            _ => random.below(2_000),
        };
        now -= if random.one_in(3_000) { 1_500_000 } else { 0 };
        let number = u8::try_from(at).unwrap();
        let (what, tos) = (senders[at].next(&mut random), if random.one_in(200) { 3 } else { 2 });
        frames.push((now, frame(number, &senders[at], what, tos)));
        if random.one_in(25) {
            frames.push((now, frame(number, &senders[at], (0x11, false), 2)));
        }
        if random.one_in(300) {
            frames.push((now, vec![1; 100]));
        }
    }
    frames
}

/// Counts frames, each behind the one before or each by itself; captures of `snap` bytes.
fn counted(frames: &[(u64, Vec<u8>)], snap: usize, one_by_one: bool) -> (String, Metrics) {
    let mut counts = Counts {
        table: FlowTable::new(1 << 20),
        peers: Peers::default(),
        metrics: MetricsWorker::new(&Options { messages: true, ..Options::default() }, 1),
        window: None,
        out_of_range: None,
        events: Some(Vec::new()),
        from_ns: 0,
        to_ns: u64::MAX,
        filter: None,
        filtered_infiniband: 0,
    };
    let mut links = TapLinks::new("test".into());
    let ethernet = Interface { name: None, link_type: LINKTYPE_EN10MB, snaplen: 0, section: 0 };
    links.learn(&[ethernet], &mut counts.table);
    let mut latest = Latest::default();
    let mut continued = 0;
    for (time_ns, bytes) in frames {
        if one_by_one {
            latest = Latest::default();
        }
        let wire_len = u32::try_from(bytes.len()).unwrap();
        let before = latest.frame.psn;
        counts.frame(&mut links, (0, *time_ns), (wire_len, &bytes[..bytes.len().min(snap)]), &mut latest);
        continued += usize::from(latest.len > 0 && latest.frame.psn == before + 1);
    }
    assert!(one_by_one || continued > frames.len() / 2, "{continued}");
    let metrics = counts.metrics.finish();
    (format!("{:?} {:?}", counts.table.take_flows(), counts.events), metrics)
}

#[test]
fn packets_that_continue_a_message_count_like_those_one_by_one() {
    for (seed, snap) in [(1, 96), (2, 96), (3, 4096)] {
        let frames = traffic(seed);
        let (flows, all) = counted(&frames, snap, false);
        let (alone, each) = counted(&frames, snap, true);
        assert_eq!(flows, alone);
        assert_eq!(all.loss, each.loss);
        assert_eq!((&all.ecn, &all.pairs, &all.setups), (&each.ecn, &each.pairs, &each.setups));
        assert_eq!((&all.duplicates, &all.spray), (&each.duplicates, &each.spray));
        assert_eq!((&all.icrc, &all.messages, &all.timeline), (&each.icrc, &each.messages, &each.timeline));
        let latency = |metrics: &Metrics| format!("{:?}", metrics.latency);
        assert_eq!(latency(&all), latency(&each));
        assert_eq!(format!("{:?}", all.traffic), format!("{:?}", each.traffic));
        assert!(all.loss.is_some_and(|loss| !loss.flows.is_empty()));
    }
}
