//! `cargo xtask bench floor`: the minimum work of any replay. Reads the file, and looks up each packet's addresses in
//! a table with one cache line per flow. Nothing is checked, evaluated or reported.
//!
//! `bench replay` runs it alternately with the programs that it compares.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{BufReader, Read as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;

/// Capture to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Capture in pcap format, in this machine's byte order, as `gen-capture` writes it
    capture: PathBuf,
}

/// Addresses, source port and destination queue pair.
type Ends = ([u64; 4], u32);

/// Counters of a flow: together with its key a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    packets: u64,
    bytes: u64,
    psn: u32,
}

type Table = HashMap<Ends, Counters, BuildHasherDefault<Product>>;

/// Hash by a multiplication per word, like the fastest hash functions.
#[derive(Default)]
struct Product(u64);

impl Hasher for Product {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// Reads, looks up, and prints the amount.
///
/// # Errors
/// Fails if the file cannot be read or has another format.
pub(crate) fn floor(wanted: &Wanted) -> Result<()> {
    /// Bytes per read.
    const BUFFER: usize = 1 << 18;
    let name = wanted.capture.display();
    let file = File::open(&wanted.capture).with_context(|| format!("cannot open {name}"))?;
    let mut input = BufReader::with_capacity(BUFFER, file);
    let mut head = [0; 24];
    input.read_exact(&mut head).with_context(|| format!("cannot read {name}"))?;
    if !matches!(word(&head, 0), Some(0xA1B2_C3D4 | 0xA1B2_3C4D)) {
        bail!("{name} is no pcap file of this machine's byte order; make one with `cargo xtask gen-capture`");
    }
    let mut table = Table::default();
    let mut frame = Vec::new();
    let mut record = [0; 16];
    while input.read_exact(&mut record).is_ok() {
        let lengths = word(&record, 8).zip(word(&record, 12));
        let (captured, wire) = lengths.with_context(|| format!("{name} ends within a record"))?;
        frame.resize(captured as usize, 0);
        input.read_exact(&mut frame).with_context(|| format!("{name} ends within a frame"))?;
        if let Some((ends, psn)) = ends(&frame) {
            let counters = table.entry(ends).or_default();
            counters.packets += 1;
            counters.bytes += u64::from(wire);
            counters.psn = psn;
        }
    }
    let packets: u64 = table.values().map(|counters| counters.packets).sum();
    println!("{packets} packets of {} flows", table.len());
    Ok(())
}

/// Four bytes in native byte order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Eight bytes, of an address.
fn double(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The key of a RoCEv2 frame with at most one tag, and its PSN.
fn ends(frame: &[u8]) -> Option<(Ends, u32)> {
    const ROCE: [u8; 2] = 4791u16.to_be_bytes();
    let kind = |at: usize| frame.get(at..at + 2);
    let ip = if kind(12)? == [0x81, 0x00] { 18 } else { 14 };
    let (addresses, udp) = match kind(ip - 2)? {
        [0x08, 0x00] => ([double(frame, ip + 12)?, 0, 0, 0], ip + 20),
        [0x86, 0xDD] => {
            let at = |n: usize| double(frame, ip + 8 + 8 * n);
            ([at(0)?, at(1)?, at(2)?, at(3)?], ip + 40)
        }
        _ => return None,
    };
    if kind(udp + 2)? != ROCE {
        return None;
    }
    let port = u32::from(u16::from_be_bytes(*frame.get(udp..)?.first_chunk()?));
    let big = |at: usize| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let (qp, psn) = (big(udp + 12)? & 0x00FF_FFFF, big(udp + 16)? & 0x00FF_FFFF);
    let [first, second, third, fourth] = addresses;
    Some((([first, second, third, fourth ^ u64::from(port) << 48], qp), psn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_line_holds_a_flow() {
        assert!(size_of::<(Ends, Counters)>() <= 64);
    }

    #[test]
    fn frames_have_the_ends_of_their_flow() {
        let mut frame = [0u8; 70];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[34..36].copy_from_slice(&[0xC0, 1]);
        frame[36..38].copy_from_slice(&4791u16.to_be_bytes());
        frame[46..50].copy_from_slice(&[0, 0, 0, 17]);
        frame[50..54].copy_from_slice(&[0, 0, 0, 9]);
        let (plain, psn) = ends(&frame).unwrap();
        assert_eq!((plain.1, psn), (17, 9));
        let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        assert_eq!(ends(&tagged), Some((plain, psn)));
        frame[29] = 1;
        assert_ne!(ends(&frame).unwrap().0, plain, "another address");
        frame[37] = 0;
        assert_eq!(ends(&frame), None, "no RoCE");
        assert_eq!(ends(&tagged[..30]), None, "cut off");
    }
}
