//! Properties that hold for any bytes: the parser terminates without a panic and is deterministic, and the
//! sums that reports rely on are consistent.
//!
//! This build checks arithmetic, so an overflow is a panic too. Everything derives from fixed seeds;
//! `fuzz/` covers the rest.
#![expect(
    clippy::cast_possible_truncation,
    reason = "frames are short, and of random numbers any bits will do"
)]

mod frames;

use std::collections::HashMap;

use rocescope_common::account::flow::SRC_QP_SEVERAL;
use rocescope_common::account::{Event, FlowKey, FlowStats, observe};
use rocescope_common::random::Random;
use rocescope_common::wire::frame::{Encap, Full, Kernel, PCP_NONE, Tag, UNKNOWN, VLAN_UNKNOWN};
use rocescope_common::wire::opcode::Op;
use rocescope_common::wire::{Entry, Frame, Layer, Meta, SkipReason, Trace, cm, icrc, not_roce, parse};

fn at(entry: Entry, offset: usize, tag: Tag, wire_len: u32) -> Meta {
    Meta { entry, offset, wire_len, tag }
}

fn ethernet(bytes: &[u8]) -> Meta {
    at(Entry::ETHERNET, 0, Tag::NONE, bytes.len() as u32)
}

/// Records the layers and checks that their offsets never decrease.
struct Offsets {
    last: Option<usize>,
    limit: usize,
}

impl Trace for Offsets {
    fn layer(&mut self, layer: Layer, offset: usize) {
        // ERSPAN type I has no bytes of its own: its payload starts at the same offset.
        let limit = if layer == Layer::Erspan { self.limit + 1 } else { self.limit };
        assert!(offset < limit, "{} at {offset} of {} bytes", layer.name(), self.limit);
        assert!(self.last.is_none_or(|last| offset >= last), "{} goes back to {offset}", layer.name());
        self.last = Some(offset);
    }
}

/// Invariants of every parsed frame.
fn check_frame(bytes: &[u8], meta: Meta, frame: &Frame) {
    let op = Op::of(frame.opcode);
    let bth = frame.bth_offset as usize;
    assert!(bth + 12 <= bytes.len(), "the whole BTH is there");
    assert!(bytes[bth] == frame.opcode || (bytes[bth], frame.roce_version) == (0x80, 0));
    assert!((frame.ip_offset as usize) < bth && frame.ip_offset as usize >= meta.offset);
    assert!(matches!((frame.family, frame.roce_version), (4 | 6, 2) | (6, 1) | (1 | 6, 0)));
    assert!(frame.dest_qp <= 0xFF_FFFF && frame.psn <= 0xFF_FFFF);
    assert!(frame.family == 6 || (frame.src[..3] == [0; 3] && frame.dst[..3] == [0; 3]));
    assert!(frame.vlan <= 0xFFF || frame.vlan == VLAN_UNKNOWN);
    assert!(frame.inner_vlan <= 0xFFF || frame.inner_vlan == VLAN_UNKNOWN || frame.roce_version == 0);
    assert!(frame.pcp <= 7 || frame.pcp == PCP_NONE);
    assert!(frame.wire_len == meta.wire_len || meta.entry == Entry::LRH && frame.wire_len < meta.wire_len);
    assert_eq!(frame.inner_bytes == 0, frame.encap == 0);
    assert!(frame.payload == UNKNOWN || frame.payload <= 65_535);
    if op.any(Op::ACKNOWLEDGE | Op::CNP) {
        assert_eq!(frame.payload, 0);
    }
    assert!(frame.aeth == UNKNOWN || op.has(Op::AETH));
    assert!(frame.dma_len == UNKNOWN || op.has(Op::RETH));
    assert!(frame.src_qp == UNKNOWN || (op.has(Op::DETH) && frame.src_qp <= 0xFF_FFFF));
    let mut inside = false;
    for byte in frame.encap.to_le_bytes().into_iter().rev() {
        assert!(byte == 0 || Encap::from_byte(byte).is_some());
        assert!(byte != 0 || !inside, "tunnels are noted without holes: {:#x}", frame.encap);
        inside |= byte != 0;
    }
}

/// Parses with both instances of the parser and reads everything else that can be read of the frame.
fn check_parse(bytes: &[u8], meta: Meta) -> Result<Frame, SkipReason> {
    let full = parse::<Full>(&bytes, meta, &mut Offsets { last: None, limit: bytes.len() });
    let kernel = match meta.entry {
        // The kernel programs see no InfiniBand.
        Entry::LRH => full,
        _ => parse::<Kernel>(&bytes, meta, &mut Offsets { last: None, limit: bytes.len() }),
    };
    match (full, kernel) {
        (Ok(frame), kernel) => {
            check_frame(bytes, meta, &frame);
            let icrc = icrc::check(bytes, &frame);
            assert!(icrc.is_none() || frame.icrc_offset as usize + 4 <= bytes.len());
            let _any = cm::read(&bytes, frame.bth_offset as usize);
            assert!(matches!(kernel, Ok(same) if same == frame) || kernel == Err(SkipReason::TunnelUnparsed));
        }
        (Err(full), kernel) => {
            assert!((full as usize) < SkipReason::COUNT);
            // The kernel programs give up earlier, but for no other reason.
            assert!(kernel == Err(full) || kernel == Err(SkipReason::TunnelUnparsed), "{kernel:?} {full:?}");
        }
    }
    if meta.entry == Entry::ETHERNET
        && meta.offset == 0
        && let Some(reason) = not_roce(&bytes)
    {
        assert_eq!((full, kernel), (Err(reason), Err(reason)), "the shortcut equals the parser");
    }
    full
}

/// The kernel programs' shortcut for non-RoCE frames, with every byte that it reads in every state.
#[test]
fn the_non_roce_shortcut_equals_the_parser() {
    let mut recognised = HashMap::new();
    let networks = [(0x0800_u16, 20), (0x86DD, 40), (0x0806, 28), (0x8100, 20), (0x8915, 40)];
    for (tag, (ethertype, header)) in [None, Some(0x8100_u16), Some(0x88A8), Some(0x9100)]
        .into_iter()
        .flat_map(|tag| networks.map(|network| (tag, network)))
    {
        let network = if tag.is_some() { 18 } else { 14 };
        let mut frame = vec![0; network + header + 28];
        if let Some(tag) = tag {
            frame[12..14].copy_from_slice(&tag.to_be_bytes());
            frame[14] = 0x60;
        }
        frame[network - 2..network].copy_from_slice(&ethertype.to_be_bytes());
        frame[network] = if header == 20 { 0x45 } else { 0x60 };
        frame[network + 2..network + 4].copy_from_slice(&48_u16.to_be_bytes());
        let protocol = network + if header == 20 { 9 } else { 6 };
        let port = network + header + 2;
        for number in 0..=u8::MAX {
            frame[protocol] = number;
            for known in [0, 443, 4788, 4789, 4790, 4791, 4792, 4793, 6081, 6635, 65_535_u16] {
                frame[port..port + 2].copy_from_slice(&known.to_be_bytes());
                let places = [
                    (0, &[0x45, 0x44, 0x46, 0x65, 0x60][..]),
                    (3, &[48, 19, 20]),
                    (6, &[0, 0x1F, 0x20, 0x40]),
                ];
                for (place, values) in places {
                    let before = frame[network + place];
                    for value in values {
                        frame[network + place] = *value;
                        let _any = check_parse(&frame, ethernet(&frame));
                        if let Some(reason) = not_roce(&&frame[..]) {
                            *recognised.entry((tag, ethertype, reason)).or_insert(0) += 1;
                        }
                    }
                    frame[network + place] = before;
                }
            }
        }
        for len in 0..frame.len() {
            let _any = check_parse(&frame[..len], ethernet(&frame));
        }
    }
    // It recognises the most frequent frames of a host.
    let most = [
        (0x0800, SkipReason::Tcp),
        (0x0800, SkipReason::OtherUdp),
        (0x86DD, SkipReason::Tcp),
        (0x86DD, SkipReason::OtherUdp),
        (0x0806, SkipReason::Arp),
    ];
    for tag in [None, Some(0x8100), Some(0x88A8), Some(0x9100)] {
        for (ethertype, reason) in most {
            assert!(
                recognised.remove(&(tag, ethertype, reason)).is_some(),
                "{tag:?} {ethertype:#x} {reason:?}"
            );
        }
    }
    assert_eq!(recognised, HashMap::new());
}

/// Ethernet, IP, any ethertype; at offset 0 and further; with and without a metadata tag.
fn any_meta(random: &mut Random, len: usize) -> Meta {
    let entry = match random.index(5) {
        0 => Entry::ETHERNET,
        1 => Entry::IP,
        4 => Entry::LRH,
        2 => Entry::ethertype(random.pick(&[0x0800, 0x86DD, 0x8915, 0x8847, 0x8100, 0x88A8, 0x0806])),
        _ => Entry::ethertype(random.bits() as u16),
    };
    let tag = match random.index(3) {
        0 => Tag::NONE,
        1 => Tag::UNKNOWN,
        _ => Tag::tci(random.bits() as u16),
    };
    let offset = if random.index(2) == 0 { 0 } else { random.index(len + 20) };
    at(entry, offset, tag, random.bits() as u32)
}

/// A copy with a few bytes changed to values that headers are sensitive to.
fn mutated(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    for _ in 0..=random.index(4) {
        // Mostly within the headers.
        let end = if random.index(4) == 0 { copy.len() } else { copy.len().min(120) };
        let place = random.index(end);
        copy[place] = match random.index(4) {
            0 => random.byte(),
            1 => copy[place] ^ (1 << random.index(8)),
            2 => random.pick(&[0, 0xFF, 0x7F, 0x80]),
            _ => copy[place].wrapping_add(random.pick(&[1, 4, 0xFF, 0xFC])),
        };
    }
    if random.index(4) == 0 {
        copy.truncate(random.index(copy.len() + 1));
    }
    copy
}

#[test]
fn frames_made_by_hand_are_roce() {
    for sample in frames::roce() {
        let bytes = &sample.bytes[..];
        let full = check_parse(bytes, ethernet(bytes));
        assert!(full.is_ok(), "{}: {full:?}", sample.name);
        let kernel = parse::<Kernel>(&bytes, ethernet(bytes), &mut ());
        assert_eq!(kernel.is_ok(), sample.kernel, "{}", sample.name);
    }
}

#[test]
fn truncation_at_every_length() {
    for sample in frames::roce() {
        let bytes = &sample.bytes[..];
        let whole = parse::<Full>(&bytes, ethernet(bytes), &mut ()).unwrap();
        let bth_end = whole.bth_offset as usize + 12;
        for len in 0..bytes.len() {
            let cut = check_parse(&bytes[..len], ethernet(bytes));
            assert_eq!(cut.is_ok(), len >= bth_end, "{} cut to {len}: {cut:?}", sample.name);
            match cut {
                Ok(frame) => {
                    assert_eq!(
                        FlowKey::of(&frame, 0),
                        FlowKey::of(&whole, 0),
                        "{} cut to {len}",
                        sample.name
                    );
                    // Only fields behind the cut may be missing; none may be wrong.
                    let known = |cut: u32, whole: u32| cut == whole || cut == UNKNOWN;
                    assert!(known(frame.aeth, whole.aeth));
                    assert!(known(frame.dma_len, whole.dma_len));
                    assert!(known(frame.src_qp, whole.src_qp));
                    let (aeth, dma_len, src_qp) = (whole.aeth, whole.dma_len, whole.src_qp);
                    assert_eq!(
                        Frame { aeth, dma_len, src_qp, ..frame },
                        whole,
                        "{} cut to {len}",
                        sample.name
                    );
                    assert_eq!(icrc::check(&bytes[..len], &frame), None, "the end is missing");
                }
                Err(reason) => assert!(
                    matches!(reason, SkipReason::Truncated | SkipReason::TruncatedHeaders),
                    "{} cut to {len}: {}",
                    sample.name,
                    reason.name()
                ),
            }
        }
    }
}

#[test]
fn random_bytes() {
    let mut random = Random::new(1);
    for _ in 0..100_000 {
        let len = random.index(200);
        let bytes = (0..len).map(|_| random.byte()).collect::<Vec<u8>>();
        let meta = any_meta(&mut random, len);
        let _any = check_parse(&bytes, meta);
        if let Some(start) = bytes.get(..random.index(len + 1)) {
            let _any = cm::read(&start, random.index(len + 20));
        }
    }
}

#[test]
fn changed_frames() {
    let mut random = Random::new(2);
    let samples = frames::roce();
    let mut roce = 0;
    for _ in 0..100_000 {
        let sample = random.index(samples.len());
        let bytes = mutated(&mut random, &samples[sample].bytes);
        if bytes.is_empty() {
            continue;
        }
        let meta = if random.index(2) == 0 { ethernet(&bytes) } else { any_meta(&mut random, bytes.len()) };
        let Ok(whole) = check_parse(&bytes, meta) else { continue };
        roce += 1;
        let start = &bytes[..random.index(bytes.len())];
        if let Ok(cut) = check_parse(start, meta) {
            assert_eq!(FlowKey::of(&cut, 3), FlowKey::of(&whole, 3));
        }
    }
    assert!(roce > 25_000, "only {roce} frames were RoCE: the test looks at little else than refusals");
}

#[test]
fn connection_requests_truncated_or_changed() {
    let request = frames::connection_request();
    let bytes = &request[..];
    let frame = check_parse(bytes, ethernet(bytes)).unwrap();
    let bth = frame.bth_offset as usize;
    let whole = cm::read(&bytes, bth);
    let Some(cm::Message::Req(req)) = whole else { panic!("{whole:?}") };
    assert_eq!((req.local_id, req.local_qp), (0xDEAD_BEEF, 0x1234));
    let needed = bth + 20 + 24 + 36;
    for len in 0..bytes.len() {
        let timeout = if len >= needed + 8 { req.timeout } else { 0 };
        let expected = cm::Message::Req(cm::Req { timeout, ..req });
        assert_eq!(cm::read(&&bytes[..len], bth), (len >= needed).then_some(expected), "cut to {len}");
    }
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let changed = mutated(&mut random, bytes);
        let qp = match cm::read(&&changed[..], bth) {
            Some(cm::Message::Req(req)) => req.local_qp,
            Some(cm::Message::Rep { local_qp, .. }) => local_qp,
            Some(cm::Message::Dreq { remote_qp, .. }) => remote_qp,
            Some(cm::Message::SidrRep { qp, .. }) => qp,
            _ => 0,
        };
        assert!(qp <= 0xFF_FFFF);
    }
}

/// Sums that the caller of `observe` keeps next to a flow.
#[derive(Default)]
struct CallerSums {
    packets: u64,
    bytes: u64,
    with_ecn: u64,
    with_aeth: u64,
    requests: u64,
    responses: u64,
    other_opcodes: u64,
    missing: u64,
    missing_for_certain: u64,
    new: u64,
}

fn check_flow(stats: &FlowStats, beside: &CallerSums) {
    let opcodes: u64 = stats.opcodes.iter().sum();
    assert_eq!(stats.packets, beside.packets);
    assert_eq!(stats.bytes, beside.bytes);
    assert_eq!(stats.packets, opcodes + stats.cnp_packets + stats.rare.other_opcode_packets);
    assert_eq!(stats.rare.other_opcode_packets, beside.other_opcodes);
    assert_eq!(stats.ecn().iter().sum::<u64>(), beside.with_ecn);
    let answers =
        stats.acks + stats.rare.rnr_naks + stats.rare.naks.iter().sum::<u64>() + stats.rare.ack_unknown;
    assert_eq!(answers, beside.with_aeth);
    assert_eq!(stats.first_port_packets() + stats.seldom.other_port_packets, stats.packets);
    assert_eq!(stats.first_port_bytes() + stats.seldom.other_port_bytes, stats.bytes);
    assert!(stats.rare.payload_unknown <= stats.packets);
    assert!(stats.first_ns <= stats.last_ns);
    assert!(stats.src_qp <= 0xFF_FFFF || stats.src_qp == UNKNOWN || stats.src_qp == SRC_QP_SEVERAL);
    assert_eq!(beside.new, 1);
    let mut missing = 0;
    for (track, packets) in [(&stats.psn, beside.requests), (&stats.rare.psn_responses, beside.responses)] {
        assert_eq!(track.seen != 0, packets > 0);
        // The first packet of a sequence is none of these.
        assert!(track.gaps + track.repeats + track.restarts <= packets.saturating_sub(1));
        assert!(track.missing >= track.gaps && track.missing < track.gaps.max(1) * 65_536);
        assert!(track.expected <= 0xFF_FFFF && track.first <= 0xFF_FFFF);
        missing += track.missing;
    }
    assert_eq!(missing, beside.missing, "each jump was reported with its size");
    assert!(stats.rare.response_holes <= stats.rare.psn_responses.missing && stats.response_open <= 1);
    let sure = stats.psn.missing + stats.rare.response_holes;
    assert_eq!(sure, beside.missing_for_certain, "each gap was reported");
}

#[test]
fn sums_of_flows_are_consistent() {
    let mut random = Random::new(4);
    let samples = frames::roce();
    let mut flows: HashMap<FlowKey, (FlowStats, CallerSums)> = HashMap::new();
    let mut packets = 0u64;
    for _ in 0..150_000 {
        let sample = &samples[random.index(samples.len())];
        let bytes =
            if random.index(3) == 0 { mutated(&mut random, &sample.bytes) } else { sample.bytes.clone() };
        let Ok(mut frame) = parse::<Full>(&&bytes[..], ethernet(&bytes), &mut ()) else { continue };
        // Few queue pairs, so that flows get many packets; any opcode; PSNs near and far.
        frame.dest_qp &= 1;
        if random.index(2) == 0 {
            frame.opcode = random.byte();
        }
        frame.psn = match random.index(8) {
            0 => random.bits() as u32 & 0xFF_FFFF,
            _ => (packets as u32).wrapping_add(random.index(64) as u32) & 0xFF_FFFF,
        };
        let op = Op::of(frame.opcode);
        let key = FlowKey::of(&frame, (packets % 3) as u16);
        let (stats, beside) = flows.entry(key).or_default();
        let outcome = observe(stats, &frame, random.bits() >> 1);
        packets += 1;
        beside.packets += 1;
        beside.bytes += u64::from(frame.wire_len);
        beside.with_ecn += u64::from(frame.roce_version != 1);
        beside.with_aeth += u64::from(op.has(Op::AETH));
        beside.requests += u64::from(op.has(Op::REQUEST));
        beside.responses += u64::from(op.has(Op::RESPONSE));
        beside.other_opcodes += u64::from(outcome.other_opcode);
        beside.missing += u64::from(outcome.missing);
        let gap = outcome.events & Event::GAP != 0;
        let certain = Event::certain(outcome.events, outcome.missing);
        beside.missing_for_certain += u64::from(certain);
        assert!(certain <= outcome.missing && (certain > 0) == gap, "{certain} of {}", outcome.missing);
        beside.new += u64::from(outcome.events & Event::NEW_FLOW != 0);
        assert!(if gap { outcome.missing > 0 } else { outcome.missing == 0 || op.has(Op::RESPONSE) });
        assert!(!outcome.other_port || frame.roce_version == 2);
    }
    assert!(packets > 100_000 && flows.len() > 10, "{packets} packets in {} flows", flows.len());
    for (stats, beside) in flows.values() {
        check_flow(stats, beside);
    }
    assert_eq!(flows.values().map(|(stats, _)| stats.packets).sum::<u64>(), packets);
}
