//! Any bytes as a frame, through all parsers of packets, and its headers as they are shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::packet;
use rocescope::source::capture::Reader;
use rocescope_common::account::{FlowKey, FlowStats, observe};
use rocescope_common::wire::frame::{Full, Kernel, Tag};
use rocescope_common::wire::{Entry, Meta, SkipReason, cm, cooked, icrc, infiniband, not_roce, parse};
use rocescope_fuzz::{captures, seeds, speakable};

/// Number of first bytes of the input that determine how the rest is parsed.
const CHOICE: usize = 6;

fn meta(choice: [u8; CHOICE], len: usize) -> Meta {
    let [entry, tag, offset, a, b, wire] = choice;
    let number = u16::from_be_bytes([a, b]);
    Meta {
        entry: match entry % 5 {
            0 => Entry::ETHERNET,
            1 => Entry::IP,
            4 => Entry::LRH,
            2 => Entry::ethertype([0x0800, 0x86DD, 0x8915, 0x8847][usize::from(a % 4)]),
            _ => Entry::ethertype(number),
        },
        offset: if offset < 128 { 0 } else { usize::from(offset - 128) },
        // May be shorter than the captured length, since a file may claim any length.
        wire_len: (len as u32 * u32::from(wire)) / 64,
        tag: match tag % 3 {
            0 => Tag::NONE,
            1 => Tag::UNKNOWN,
            _ => Tag::tci(number),
        },
    }
}

/// The first frames of each test capture, as Ethernet.
fn made() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for path in captures() {
        let Ok(mut reader) = Reader::open(&path) else { continue };
        let mut left = 6;
        while let (true, Ok(Some(record))) = (left > 0, reader.next()) {
            all.push([&[0, 0, 0, 0, 0, 64], record.data].concat());
            left -= 1;
        }
    }
    all
}

/// The headers of a frame, field by field: each in its bytes, and fit for a terminal.
fn shown(bytes: &[u8], wire_len: u32, bth: usize) {
    let packet = packet::decode(bytes, wire_len, bth);
    assert!(packet.headers.iter().any(|header| header.offset == bth), "the BTH is missing: {packet:?}");
    packet.note.iter().for_each(|note| speakable(note));
    for header in &packet.headers {
        speakable(&header.name);
        for field in &header.fields {
            assert!(field.offset + field.len <= bytes.len(), "{field:?}");
            speakable(&field.value);
            assert!(!field.value.contains('\n'), "{field:?}");
        }
    }
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let Some((choice, bytes)) = input.split_first_chunk::<CHOICE>() else { return };
    let meta = meta(*choice, bytes.len());
    let _any = (cooked::sll(&bytes), cooked::sll2(&bytes), infiniband::erf(&bytes), cm::read(&bytes, meta.offset));
    let full = parse::<Full>(&bytes, meta, &mut ());
    // The kernel programs do not handle InfiniBand.
    let kernel = if meta.entry == Entry::LRH { full } else { parse::<Kernel>(&bytes, meta, &mut ()) };
    if meta.entry == Entry::ETHERNET
        && meta.offset == 0
        && let Some(reason) = not_roce(&bytes)
    {
        assert_eq!((full, kernel), (Err(reason), Err(reason)));
    }
    let frame = match full {
        Ok(frame) => frame,
        Err(reason) => {
            assert!(kernel == Err(reason) || kernel == Err(SkipReason::TunnelUnparsed));
            return;
        }
    };
    assert!(kernel == Ok(frame) || kernel == Err(SkipReason::TunnelUnparsed));
    let bth = frame.bth_offset as usize;
    let _any = cm::read(&bytes, bth);
    if icrc::check(bytes, &frame).is_some() {
        assert!(bytes.len() >= frame.icrc_offset as usize + 4);
    }
    shown(bytes, meta.wire_len, bth);
    shown(&bytes[..bth + 12], meta.wire_len, bth);
    let shortest = parse::<Full>(&&bytes[..bth + 12], meta, &mut ());
    assert_eq!(shortest.map(|cut| FlowKey::of(&cut, 0)), Ok(FlowKey::of(&frame, 0)));
    assert!(parse::<Full>(&&bytes[..bth + 11], meta, &mut ()).is_err());

    let mut stats = FlowStats::default();
    for now in [5, 9, 2] {
        observe(&mut stats, &frame, now);
    }
    let opcodes: u64 = stats.opcodes.iter().sum();
    assert_eq!(stats.packets, opcodes + stats.cnps_of_roce() + stats.rare.other_opcode_packets);
    assert_eq!(stats.ecn().iter().sum::<u64>(), if frame.roce_version == 1 { 0 } else { 3 });
    assert_eq!((stats.first_ns, stats.last_ns), (2, 9));
});
