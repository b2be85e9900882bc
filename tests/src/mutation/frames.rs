//! Captures with changed packets.

use std::io::Read as _;

use rocescope_common::random::Random;

/// One packet of an Ethernet capture.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    seconds: u32,
    nanoseconds: u32,
    wire_len: u32,
    bytes: Vec<u8>,
}

/// Maximum number of packets of a mutant, so that each takes little time.
const MOST: usize = 1_500;
/// Offset of the BTH after Ethernet, IPv4 without options and UDP.
const BTH: usize = 42;

/// The packets of a little-endian Ethernet pcap, also compressed; `None` for other files.
pub(super) fn parse(file: &[u8]) -> Option<Vec<Frame>> {
    let mut plain = Vec::new();
    if file.starts_with(&[0x1F, 0x8B]) {
        flate2::read::GzDecoder::new(file).read_to_end(&mut plain).ok()?;
    } else {
        plain.extend(file);
    }
    let word = |at: usize| Some(u32::from_le_bytes(plain.get(at..at + 4)?.try_into().ok()?));
    let scale = match word(0)? {
        0xA1B2_C3D4 => 1_000,
        0xA1B2_3C4D => 1,
        _ => return None,
    };
    if word(20)? & 0xFFFF != 1 {
        return None;
    }
    let (mut frames, mut at) = (Vec::new(), 24);
    while let (Some(seconds), Some(fraction), Some(kept), Some(wire_len)) =
        (word(at), word(at + 4), word(at + 8), word(at + 12))
    {
        let end = at + 16 + kept as usize;
        let bytes = plain.get(at + 16..end)?.to_vec();
        frames.push(Frame { seconds, nanoseconds: fraction.wrapping_mul(scale), wire_len, bytes });
        at = end;
    }
    (!frames.is_empty()).then_some(frames)
}

/// A part of a capture with some changes. Taps with the same number in `common` begin with the same part.
pub(super) fn mutant(captures: &[Vec<Frame>], common: u64, rng: &mut Random) -> Vec<u8> {
    let mut same = Random::new(common);
    let capture = &captures[same.index(captures.len())];
    let from = same.index(capture.len());
    let mut frames: Vec<Frame> = capture.iter().skip(from).take(MOST).cloned().collect();
    for _ in 0..=rng.below(24) {
        change(&mut frames, rng);
    }
    write(&frames)
}

fn change(frames: &mut Vec<Frame>, rng: &mut Random) {
    if frames.is_empty() {
        return;
    }
    let at = rng.index(frames.len());
    let until = (at + 1 + rng.index(40)).min(frames.len());
    match rng.below(6) {
        0 => drop(frames.drain(at..until)),
        1 => {
            let again = frames[at..until].to_vec();
            let to = rng.index(frames.len());
            frames.splice(to..to, again);
        }
        2 => frames[at..until].reverse(),
        3 => {
            let frame = &mut frames[at];
            match rng.below(6) {
                0 => frame.seconds = [0, 1, u32::MAX, frame.seconds.wrapping_add(86_400)][rng.index(4)],
                1 => frame.nanoseconds = [0, 999_999_999, u32::MAX, rng.bits() as u32][rng.index(4)],
                2 => frame.wire_len = [0, 1, 65_535, u32::MAX, rng.bits() as u32][rng.index(5)],
                3 => frame.bytes.truncate(rng.index(100)),
                _ => frame.seconds = frame.seconds.wrapping_sub(1),
            }
        }
        // One packet, or the same change in several.
        _ => {
            let (kind, value) = (rng.below(13), rng.bits());
            let value =
                if rng.chance(300_000) { [0, 1, u64::MAX, 1 << 23, 0xFF_FFFE][rng.index(5)] } else { value };
            let last = if rng.chance(500_000) { at + 1 } else { until };
            frames[at..last].iter_mut().for_each(|frame| field(&mut frame.bytes, kind, value));
        }
    }
}

/// Changes one header field of a RoCEv2 packet over IPv4; in other packets other bytes.
fn field(bytes: &mut [u8], kind: u64, value: u64) {
    // Offset, and number of low bytes of the value to write there.
    let (at, len) = match kind {
        0 => (BTH, 1),
        1 => (BTH + 1, 1),
        2 => (BTH + 5, 3),
        3 => (BTH + 8, 1),
        4 => (BTH + 9, 3),
        5 => (BTH + 12, 4),
        6 => (BTH + 24, 4),
        7 => (15, 1),
        8 => (18, 2),
        9 => (34, 2),
        10 => (26, 4),
        11 => (16, 2),
        _ => (usize::try_from(value >> 56).unwrap_or(0), 2),
    };
    let new = value.to_be_bytes();
    bytes.iter_mut().skip(at).zip(&new[8 - len..]).for_each(|(byte, new)| *byte = *new);
}

fn write(frames: &[Frame]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xA1B2_3C4D, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(u32::to_le_bytes(word));
    }
    for frame in frames {
        for word in [frame.seconds, frame.nanoseconds, frame.bytes.len() as u32, frame.wire_len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame.bytes);
    }
    file
}
