//! The headers of one packet for display: layer by layer, field by field, each with its bytes.
//!
//! The layers come from the parser that counts ([`rocescope_common::wire`]), so the display agrees with the counts;
//! this module only reads the fields.

mod below;
pub mod pcapng;
mod roce;
#[cfg(test)]
mod tests;

pub use roce::syndrome;
use rocescope_common::wire::frame::{Entry, Full, Meta, Tag};
use rocescope_common::wire::{Layer, Trace, cooked, infiniband, parse};

/// One field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// Its value, with the meaning.
    pub value: String,
    /// Offset of its first byte in the packet.
    pub offset: usize,
    /// Number of bytes that it spans, wholly or in part.
    pub len: usize,
}

/// One header with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the header.
    pub name: String,
    /// Offset of its first byte.
    pub offset: usize,
    /// Its fields, in their order on the wire.
    pub fields: Vec<Field>,
}

impl Header {
    fn new(name: impl Into<String>, offset: usize) -> Self {
        Self { name: name.into(), offset, fields: Vec::new() }
    }

    fn field(&mut self, name: &'static str, offset: usize, len: usize, value: impl Into<String>) {
        self.fields.push(Field { name, value: value.into(), offset, len });
    }
}

/// The headers of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Headers, the outermost first.
    pub headers: Vec<Header>,
    /// A note about headers or bytes that are not shown.
    pub note: Option<String>,
}

#[derive(Default)]
struct Layers(Vec<(Layer, usize)>);

impl Trace for Layers {
    fn layer(&mut self, layer: Layer, offset: usize) {
        self.0.push((layer, offset));
    }
}

/// The first header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An Ethernet header.
    Ethernet,
    /// The header of a Linux cooked capture.
    Sll,
    /// The header of a Linux cooked capture, version 2.
    Sll2,
    /// An IP header.
    Ip,
    /// The header of an ERF record.
    Erf,
    /// The local route header of InfiniBand.
    Lrh,
}

/// The first header of a packet, and its layers: the start from which the parser arrives at the BTH.
fn start(bytes: &[u8], wire_len: u32, bth_offset: usize) -> Option<(Start, Layers)> {
    let meta = |entry, offset| Meta { entry, offset, wire_len, tag: Tag::UNKNOWN };
    let cooked = |c: cooked::Cooked| meta(Entry::ethertype(c.ethertype), c.offset);
    let starts = [
        Some((Start::Ethernet, meta(Entry::ETHERNET, 0))),
        cooked::sll(&bytes).map(|c| (Start::Sll, cooked(c))),
        cooked::sll2(&bytes).map(|c| (Start::Sll2, cooked(c))),
        Some((Start::Ip, meta(Entry::IP, 0))),
        infiniband::erf(&bytes).ok().map(|(at, _)| (Start::Erf, meta(Entry::LRH, at))),
        Some((Start::Lrh, meta(Entry::LRH, 0))),
    ];
    starts.into_iter().flatten().find_map(|(start, meta)| {
        let mut layers = Layers::default();
        match start {
            Start::Sll => layers.layer(Layer::Sll, 0),
            Start::Sll2 => layers.layer(Layer::Sll2, 0),
            Start::Ethernet | Start::Ip | Start::Erf | Start::Lrh => {}
        }
        let parsed = parse::<Full>(&bytes, meta, &mut layers);
        parsed.is_ok_and(|frame| frame.bth_offset as usize == bth_offset).then_some((start, layers))
    })
}

/// Decodes the first bytes of a packet of `wire_len` bytes whose BTH is at `bth_offset`.
pub fn decode(bytes: &[u8], wire_len: u32, bth_offset: usize) -> Packet {
    if let Some((_, layers)) = start(bytes, wire_len, bth_offset) {
        return read(bytes, wire_len, layers.0);
    }
    let note = "outer headers could not be decoded; from the BTH on".to_owned();
    Packet { note: Some(note), ..read(bytes, wire_len, vec![(Layer::Bth, bth_offset)]) }
}

fn read(bytes: &[u8], wire_len: u32, layers: Vec<(Layer, usize)>) -> Packet {
    let mut packet = Packet::default();
    for (layer, at) in layers {
        let header = match layer {
            Layer::Bth => {
                packet.headers.extend(roce::headers(bytes, at));
                continue;
            }
            _ => below::header(bytes, layer, at),
        };
        packet.headers.extend(header);
    }
    let shown = bytes.len();
    if u64::from(wire_len) > shown as u64 {
        packet.note = Some(format!("first {shown} of {wire_len} bytes captured"));
    }
    packet
}

/// `N` bytes at an offset; `None` beyond the end.
fn get<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    get(bytes, at).map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    get(bytes, at).map(u32::from_be_bytes)
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    get(bytes, at).map(u64::from_be_bytes)
}

fn be24(bytes: &[u8], at: usize) -> Option<u32> {
    get(bytes, at).map(|[a, b, c]: [u8; 3]| u32::from_be_bytes([0, a, b, c]))
}

/// Lines of sixteen bytes: offset, hexadecimal, and characters.
pub fn hex(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    use std::fmt::Write as _;
    bytes.chunks(16).zip((0..).step_by(16)).map(|(chunk, offset): (&[u8], usize)| {
        let mut line = format!("{offset:04x} ");
        for i in 0..16 {
            if i == 8 {
                line.push(' ');
            }
            // Writing to a string cannot fail.
            let _ = match chunk.get(i) {
                Some(byte) => write!(line, " {byte:02x}"),
                None => write!(line, "   "),
            };
        }
        line.push_str("  ");
        let shown =
            |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        line.extend(chunk.iter().map(shown));
        line
    })
}
