//! The fast path compared with the layered parser.

extern crate std;

use std::vec::Vec;

use super::{FirstLook, first_look, parse_plain, parse_roce};
use crate::wire::frame::{Depth, Full, Kernel, Tag, Walk, layers};
use crate::wire::{Entry, Frame, Layer, Meta, SkipReason, Trace};

/// The layers in the order of their reports.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layers(Vec<(Layer, usize)>);

impl Trace for Layers {
    fn layer(&mut self, layer: Layer, offset: usize) {
        self.0.push((layer, offset));
    }
}

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 42, 0];

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len() + 8).unwrap();
    [&[0xC0, 1], &port.to_be_bytes()[..], &len.to_be_bytes(), &[0, 0], payload].concat()
}

fn v4(datagram: &[u8]) -> Vec<u8> {
    let len = u16::try_from(datagram.len() + 20).unwrap().to_be_bytes();
    let header = [0x45, 0x6B, len[0], len[1], 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&header, datagram].concat()
}

fn v6(datagram: &[u8]) -> Vec<u8> {
    let len = u16::try_from(datagram.len()).unwrap().to_be_bytes();
    let header = [0x66, 0xB0, 0, 0, len[0], len[1], 17, 64];
    [&header[..], &[0xFD; 16], &[0xFE; 16], datagram].concat()
}

fn ethernet(tags: &[[u8; 4]], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&MACS, tags.concat().as_slice(), &ethertype.to_be_bytes(), packet].concat()
}

/// A WRITE FIRST with its RETH, an ACKNOWLEDGE and a datagram, in all supported encapsulations.
fn frames() -> Vec<Vec<u8>> {
    const TAG: [u8; 4] = [0x81, 0, 0x60, 100];
    const OUTER: [u8; 4] = [0x88, 0xA8, 0x20, 7];
    let mut frames = Vec::new();
    for opcode in [0x06, 0x11, 0x64] {
        let bth = [opcode, 0x10, 0xFF, 0xFF, 0, 0, 0, 17, 0x80, 1, 2, 3];
        let datagram = udp(4791, &[&bth[..], &[0x5A; 40]].concat());
        for (ethertype, packet) in [(0x0800, v4(&datagram)), (0x86DD, v6(&datagram))] {
            for tags in [&[][..], &[TAG], &[OUTER, TAG]] {
                let inner = ethernet(tags, ethertype, &packet);
                let outer = v4(&udp(4789, &[&VXLAN, &inner[..]].concat()));
                frames.push(ethernet(&[], 0x0800, &outer));
                frames.push(ethernet(&[TAG], 0x0800, &outer));
                frames.push(inner);
            }
        }
    }
    frames
}

/// True if a frame is plain and parsed as such; checks that the result equals that of the layered parser.
fn plain(bytes: &[u8], meta: Meta) -> bool {
    let mut plain = Frame::EMPTY;
    if first_look(&bytes) != FirstLook::Plain || !parse_plain(&bytes, meta, &mut plain) {
        return false;
    }
    let mut frame = Frame::EMPTY;
    assert_eq!(layered::<Kernel>(bytes, meta, &mut frame).0, Ok(()), "{bytes:02x?}");
    assert_eq!((plain.ip_offset, plain.icrc_offset), (Frame::EMPTY.ip_offset, Frame::EMPTY.icrc_offset));
    let Frame { ip_offset, icrc_offset, .. } = frame;
    assert_eq!(Frame { ip_offset, icrc_offset, ..plain }, frame, "{bytes:02x?}");
    true
}

/// True if the fast path applied; checks that its result equals that of the layered parser.
fn same(bytes: &[u8], meta: Meta) -> bool {
    let (mut fast, mut layers_fast) = (Frame::EMPTY, Layers::default());
    let plain = meta.offset == 0 && plain(bytes, meta);
    if !parse_roce(&bytes, &mut Walk::start(meta, &mut fast), &mut layers_fast) {
        assert!(!plain && layers_fast == Layers::default(), "{bytes:02x?}");
        // Fields that the fast path wrote before it gave up do not affect the layered parser.
        let (mut reused, mut fresh) = (fast, Frame::EMPTY);
        let reused = layered::<Full>(bytes, meta, &mut reused).0.map(|()| reused);
        let fresh = layered::<Full>(bytes, meta, &mut fresh).0.map(|()| fresh);
        assert_eq!(reused, fresh, "{bytes:02x?}");
        return false;
    }
    let mut frame = Frame::EMPTY;
    let (result, layers) = layered::<Full>(bytes, meta, &mut frame);
    assert_eq!((result, frame, layers), (Ok(()), fast, layers_fast), "{bytes:02x?}");
    let mut frame = Frame::EMPTY;
    assert_eq!((layered::<Kernel>(bytes, meta, &mut frame).0, frame), (Ok(()), fast), "{bytes:02x?}");
    true
}

fn layered<D: Depth>(bytes: &[u8], meta: Meta, frame: &mut Frame) -> (Result<(), SkipReason>, Layers) {
    let mut trace = Layers::default();
    (layers::<D>(&bytes, Walk::start(meta, frame), meta.entry, &mut trace), trace)
}

#[test]
fn the_fast_path_equals_the_layered_parser() {
    // Miri is a thousand times slower.
    let step = if cfg!(miri) { 41 } else { 1 };
    let (mut taken, mut plain_ones) = (0, 0);
    for frame in frames() {
        for tag in [Tag::NONE, Tag::UNKNOWN, Tag::tci(0x6005)] {
            let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: 1500, tag };
            taken += u32::from(same(&frame, meta));
            plain_ones += u32::from(plain(&frame, meta));
            for len in (0..frame.len()).step_by(step) {
                same(&frame[..len], meta);
            }
            // Every byte of the headers with another value: other layers, lengths, flags, ports.
            for at in (0..frame.len().min(130)).step_by(step) {
                for value in [0, 1, 4, 6, 0x20, 0x44, 0x46, 0x60, 0x80, 0x81, 0xFF] {
                    let mut changed = frame.clone();
                    changed[at] ^= value;
                    same(&changed, meta);
                }
            }
        }
        // Behind a cooked header.
        let shifted = [&[0xAA; 16], frame.as_slice()].concat();
        same(&shifted, Meta { entry: Entry::ETHERNET, offset: 16, wire_len: 1500, tag: Tag::NONE });
    }
    // One and no tag, plain and in an untagged VXLAN, both IP versions, three opcodes, three metadata tags.
    assert_eq!(taken, 2 * 2 * 2 * 3 * 3);
    // Without a tag in the frame, over IPv4: three opcodes, three metadata tags.
    assert_eq!(plain_ones, 3 * 3);
}
