//! Events as a pcapng file, for other tools.
//!
//! Layout after draft-ietf-opsawg-pcapng: a section header, an interface for each kind of packet
//! start, and an enhanced packet for each event with its time in nanoseconds, its length on the wire
//! and a comment that names the event.

use super::Start;
use crate::sample::EventSample;

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const MAGIC: u32 = 0x1A2B_3C4D;
const OPTION_COMMENT: u16 = 1;
const OPTION_TSRESOL: u16 = 9;
/// Kinds of packet start, in the order of their interfaces.
const LINK_TYPES: [(Start, u16); 6] = [
    (Start::Ethernet, 1),
    (Start::Sll, 113),
    (Start::Sll2, 276),
    (Start::Ip, 101),
    (Start::Erf, 197),
    (Start::Lrh, 247),
];

/// A file of the events that have packet bytes, and their number. `comment` describes an event.
pub fn file<'a>(
    events: impl IntoIterator<Item = &'a EventSample>,
    comment: impl Fn(&EventSample) -> String,
) -> (Vec<u8>, usize) {
    let mut file = Vec::new();
    let mut section = Vec::new();
    section.extend(MAGIC.to_le_bytes());
    section.extend([1, 0, 0, 0]);
    // Section length: not specified.
    section.extend([0xFF; 8]);
    block(&mut file, SECTION, &section);
    for (_, link_type) in LINK_TYPES {
        let mut interface = Vec::new();
        interface.extend(link_type.to_le_bytes());
        // Two reserved bytes, and no limit on the length of packets.
        interface.extend([0; 6]);
        option(&mut interface, OPTION_TSRESOL, &[9]);
        interface.extend([0; 4]);
        block(&mut file, INTERFACE, &interface);
    }
    let mut count = 0;
    for event in events.into_iter().filter(|event| !event.headers.is_empty()) {
        count += 1;
        packet(&mut file, event, &comment(event));
    }
    (file, count)
}

fn packet(file: &mut Vec<u8>, event: &EventSample, comment: &str) {
    let bytes = &event.headers;
    let start = super::start(bytes, event.wire_len, usize::from(event.bth_offset));
    let start = start.map_or(Start::Ethernet, |(start, _)| start);
    let interface = (0u32..).zip(LINK_TYPES).find(|(_, (kind, _))| *kind == start).map_or(0, |(i, _)| i);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut body = Vec::new();
    body.extend(interface.to_le_bytes());
    body.extend(((event.time_ns >> 32) as u32).to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    body.extend((event.time_ns as u32).to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(event.wire_len.max(length).to_le_bytes());
    padded(&mut body, bytes);
    option(&mut body, OPTION_COMMENT, comment.as_bytes());
    body.extend([0; 4]);
    block(file, PACKET, &body);
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    out.extend(code.to_le_bytes());
    out.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    padded(out, value);
}

/// A block of whole words, with its length at both ends.
fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
    file.extend(kind.to_le_bytes());
    file.extend(length);
    file.extend(body);
    file.extend(length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn event(headers: &'static [u8], time_ns: u64) -> EventSample {
        EventSample {
            time_ns,
            events: 1,
            psn: 7,
            wire_len: 1000,
            bth_offset: 42,
            headers: Bytes::from_static(headers),
            ..EventSample::default()
        }
    }

    /// Read back by our own reader, which the captures of other tools test.
    #[test]
    fn what_is_written_can_be_read() {
        let events = [
            event(b"frame one", 1_700_000_000_123_456_789),
            event(b"", 1),
            event(b"two", 1_700_000_000_123_456_790),
        ];
        let (file, count) = super::file(&events, |event| format!("PSN {}", event.psn));
        assert_eq!(count, 2);
        let mut reader =
            crate::source::capture::Reader::from_read("x", Box::new(std::io::Cursor::new(file))).unwrap();
        let mut seen = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            seen.push((record.ts_ns, record.wire_len, record.data.to_vec()));
        }
        assert_eq!(
            seen,
            [
                (1_700_000_000_123_456_789, 1000, b"frame one".to_vec()),
                (1_700_000_000_123_456_790, 1000, b"two".to_vec())
            ]
        );
    }
}
