//! `cargo xtask gen-capture`: synthetic captures of any size, with the same bytes for the same arguments.
//!
//! The repository needs no large files for benchmarks, and everyone who compares figures has the same input. The
//! traffic is synthetic but realistic: see [`traffic`].

pub(crate) mod frame;
pub(crate) mod traffic;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::run::Counted;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;

use traffic::Traffic;

/// Options of the generated capture.
#[derive(Args, Clone, Debug)]
pub(crate) struct Generate {
    /// Number of frames to write
    #[arg(long, default_value_t = 2_000_000)]
    pub(crate) packets: u64,
    /// Bytes kept of each frame, or `full`
    #[arg(long, default_value = "96")]
    pub(crate) snap: Snap,
    /// Connections; each has packets in both directions
    #[arg(long, default_value_t = 64)]
    pub(crate) flows: u32,
    /// Path MTU: payload of a full packet
    #[arg(long, default_value_t = 4096)]
    pub(crate) mtu: u32,
    /// Frames per hundred that are not RoCE
    #[arg(long, default_value_t = 0)]
    pub(crate) other: u32,
    /// Stretch factor of the capture's duration, relative to 400 Gb/s
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) slower: u64,
    /// Seed of the packets
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Output file; compressed if it ends in .gz, `-` for standard output
    pub(crate) out: PathBuf,
}

/// Captured length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snap(pub(crate) u32);

impl Snap {
    /// Complete frames: the snap length that libpcap uses for these.
    pub(crate) const FULL: Self = Self(262_144);
}

impl FromStr for Snap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "full" => Ok(Self::FULL),
            Ok(bytes) if bytes > 0 => Ok(Self(bytes)),
            _ => Err(format!("`{text}` is not a snap length; write a number of bytes or `full`")),
        }
    }
}

/// Writes the capture.
pub(crate) fn generate(wanted: &Generate) -> Result<()> {
    if wanted.flows == 0 || wanted.flows > traffic::MAX_FLOWS {
        bail!("--flows {}: possible are 1 to {}", wanted.flows, traffic::MAX_FLOWS);
    }
    if !(256..=4096).contains(&wanted.mtu) || !wanted.mtu.is_power_of_two() {
        bail!("--mtu {}: a path MTU is 256, 512, 1024, 2048 or 4096", wanted.mtu);
    }
    if wanted.other > 99 {
        bail!("--other {}: at most 99 in a hundred", wanted.other);
    }
    let shown = wanted.out.display().to_string();
    let failed = || format!("cannot write {shown}");
    if wanted.out == Path::new("-") {
        return write(wanted, io::stdout().lock()).map(drop).with_context(failed);
    }
    let file = File::create(&wanted.out).with_context(failed)?;
    if wanted.out.extension().is_some_and(|extension| extension == "gz") {
        let encoder = write(wanted, GzEncoder::new(file, Compression::default())).with_context(failed)?;
        encoder.finish().map(drop).with_context(failed)
    } else {
        write(wanted, file).map(drop).with_context(failed)
    }
}

/// Classic pcap with nanosecond timestamps.
const MAGIC_NANOS: u32 = 0xA1B2_3C4D;
const LINKTYPE_ETHERNET: u32 = 1;

fn write<W: Write>(wanted: &Generate, out: W) -> io::Result<W> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut header = Vec::with_capacity(24);
    header.extend(MAGIC_NANOS.to_le_bytes());
    header.extend(2u16.to_le_bytes());
    header.extend(4u16.to_le_bytes());
    header.extend([0; 8]);
    header.extend(wanted.snap.0.to_le_bytes());
    header.extend(LINKTYPE_ETHERNET.to_le_bytes());
    out.write_all(&header)?;

    let mut traffic = Traffic::new(wanted);
    let mut record = Vec::with_capacity(1 << 13);
    let mut progress = Counted::of("packets", wanted.packets);
    for done in 0..wanted.packets {
        if done % (1 << 16) == 0 {
            progress.show(done);
        }
        record.clear();
        record.extend([0; 16]);
        let packet = traffic.next(&mut record);
        let seconds = u32::try_from(packet.time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let nanos = u32::try_from(packet.time_ns % 1_000_000_000).unwrap_or(0);
        let captured = u32::try_from(record.len() - 16).unwrap_or(0);
        for (at, word) in [seconds, nanos, captured, packet.wire_len].into_iter().enumerate() {
            record[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        out.write_all(&record)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(packets: u64, snap: Snap, seed: u64, other: u32) -> Vec<u8> {
        let wanted =
            Generate { packets, snap, flows: 40, mtu: 1024, other, slower: 1, seed, out: PathBuf::from("-") };
        write(&wanted, Vec::new()).unwrap()
    }

    /// Captured and original length of every record.
    fn lengths(capture: &[u8]) -> Vec<(usize, usize)> {
        let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap()) as usize;
        let (mut at, mut lengths) = (24, Vec::new());
        while at < capture.len() {
            lengths.push((word(at + 8), word(at + 12)));
            at += 16 + word(at + 8);
        }
        assert_eq!(at, capture.len());
        lengths
    }

    #[test]
    fn the_same_arguments_give_the_same_bytes() {
        let first = capture(2000, Snap(96), 7, 10);
        assert_eq!(first, capture(2000, Snap(96), 7, 10));
        assert_ne!(first, capture(2000, Snap(96), 8, 10));
        // A longer capture continues a shorter one.
        assert_eq!(first, capture(3000, Snap(96), 7, 10)[..first.len()]);
    }

    #[test]
    fn a_snap_length_changes_nothing_but_what_is_kept() {
        let (cut, full) =
            (lengths(&capture(3000, Snap(96), 1, 5)), lengths(&capture(3000, Snap::FULL, 1, 5)));
        assert_eq!((cut.len(), full.len()), (3000, 3000));
        for (cut, full) in cut.iter().zip(&full) {
            assert_eq!((cut.1, cut.0), (full.1, full.1.min(96)));
            assert_eq!(full.0, full.1);
        }
        assert!(full.iter().any(|(_, wire)| *wire > 1024));
    }

    #[test]
    fn snap_lengths_are_numbers_or_full() {
        assert_eq!("full".parse(), Ok(Snap::FULL));
        assert_eq!("96".parse(), Ok(Snap(96)));
        assert!("0".parse::<Snap>().is_err() && "x".parse::<Snap>().is_err());
    }
}
