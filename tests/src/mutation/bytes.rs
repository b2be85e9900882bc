//! Captures with changed bytes.

use rocescope_common::random::Random;

/// Boundary values of lengths and counters.
const WORDS: [u32; 8] = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF];

/// A capture of the tests with some changes.
pub(super) fn mutant(files: &[Vec<u8>], rng: &mut Random) -> Vec<u8> {
    let mut bytes = files[rng.index(files.len())].clone();
    for _ in 0..=rng.below(8) {
        change(&mut bytes, files, rng);
    }
    bytes
}

/// Makes one change, anywhere or near the start, where the headers of the file are.
pub(super) fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let len = if rng.chance(300_000) { bytes.len().min(256) } else { bytes.len() };
    let at = rng.index(len);
    let until = (at + 1 + rng.index(64)).min(bytes.len());
    match rng.below(8) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.bits() as u8,
        2 => bytes.truncate(at),
        3 => {
            let word = WORDS[rng.index(WORDS.len())].to_le_bytes();
            bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
        }
        4 => drop(bytes.drain(at..until)),
        5 => {
            let again = bytes[at..until].to_vec();
            bytes.splice(at..at, again);
        }
        6 => bytes[at..until].fill(rng.bits() as u8),
        _ => {
            let other = &others[rng.index(others.len())];
            let from = rng.index(other.len().max(1)).min(other.len());
            bytes.truncate(at);
            bytes.extend(&other[from..]);
        }
    }
}
