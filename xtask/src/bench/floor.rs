//! `cargo xtask bench floor`: the minimum work of any replay of one capture, alone.
//!
//! Reads the file once, parses each packet and counts it in its flow, bin and message, with the parser and the
//! accounting that kernel programs and replay share. Nothing else is evaluated or reported: no latency, no loss, no
//! flowlets. A compressed capture is decompressed, with the library that replay uses, and no more. A JSON report is
//! written again.
//!
//! `bench replay` runs it alternately with the programs that it compares.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use flate2::{Decompress, FlushDecompress, Status};
use rocescope_common::account::bin::Bins;
use rocescope_common::account::message::{ByOperation, COUNTED_OPERATIONS, MessageCounts};
use rocescope_common::account::{FlowBin, FlowKey, FlowStats, observe};
use rocescope_common::wire::frame::{Full, parse_into};
use rocescope_common::wire::opcode::Op;
use rocescope_common::wire::{Frame, Meta};

use super::text::Text;

/// Capture to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Capture in pcap format, in this machine's byte order, as `gen-capture` writes it; one that ends in .gz is
    /// decompressed only, and the text of a report that ends in .json is written
    capture: PathBuf,
}

/// Bytes per read.
const BUFFER: usize = 1 << 18;

/// Flows, and where their counters are.
struct Table {
    places: HashMap<FlowKey, usize, BuildHasherDefault<Product>>,
    counters: Vec<(FlowStats, FlowBin)>,
    messages: ByOperation,
}

impl Table {
    fn observe(&mut self, frame: &Frame, ns: u64) {
        const BINS: Bins = Bins { length_ns: 1_000_000, phase_ns: 0 };
        let place = *self.places.entry(FlowKey::of(frame, 0)).or_insert_with(|| {
            self.counters.push(Default::default());
            self.counters.len() - 1
        });
        let Some((stats, bin)) = self.counters.get_mut(place) else { return };
        let (outcome, op) = (observe(stats, frame, ns), Op::of(frame.opcode));
        bin.observe(frame, op, outcome, ns, BINS, &mut FlowBin::default());
        bin.message(&mut self.messages, frame, op, outcome);
    }
}

/// Hash by a multiplication per word, like the fastest hash functions.
#[derive(Default)]
struct Product(u64);

impl Hasher for Product {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_ne_bytes(whole));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
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

/// Does the work and prints its amount.
pub(crate) fn floor(wanted: &Wanted) -> Result<()> {
    let path = &wanted.capture;
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let is = |end: &str| path.extension().is_some_and(|extension| extension == end);
    if is("json") {
        let text = Text::read(path)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let spent = text.write(threads)?;
        println!(
            "{} bytes of text in {:?} with {threads} threads, processor time {:?}",
            text.len, spent.wall, spent.cpu
        );
    } else if is("gz") {
        let bytes = inflate(file).with_context(|| format!("cannot decompress {}", path.display()))?;
        println!("{bytes} bytes");
    } else {
        let table = count(file, path)?;
        let packets: u64 = table.counters.iter().map(|(stats, _)| stats.packets).sum();
        println!("{packets} packets of {} flows", table.counters.len());
    }
    Ok(())
}

/// Decompresses a file of one gzip member, and returns the length.
fn inflate(mut file: impl Read) -> Result<u64> {
    /// Of a file with its header, the window of deflate.
    const WINDOW_BITS: u8 = 15;
    let mut inflate = Decompress::new_gzip(WINDOW_BITS);
    let (mut input, mut out) = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        let read = file.read(&mut input)?;
        if read == 0 {
            bail!("it ends too early");
        }
        let mut at = 0;
        while at < read {
            let before = inflate.total_in();
            let status = inflate.decompress(&input[at..read], &mut out, FlushDecompress::None)?;
            at += usize::try_from(inflate.total_in() - before)?;
            if status == Status::StreamEnd {
                return Ok(inflate.total_out());
            }
        }
    }
}

/// The flows of a capture.
fn count(mut file: impl Read, path: &Path) -> Result<Table> {
    const HEADER: usize = 24;
    const RECORD: usize = 16;
    let name = path.display();
    let mut first = [0; HEADER];
    file.read_exact(&mut first).with_context(|| format!("cannot read {name}"))?;
    if !matches!(word(&first, 0), Some(0xA1B2_C3D4 | 0xA1B2_3C4D)) {
        bail!(
            "{name} is not a pcap file of this machine's byte order; make one with `cargo xtask gen-capture`"
        );
    }
    let messages = [MessageCounts::NONE; COUNTED_OPERATIONS];
    let mut table = Table { places: HashMap::default(), counters: Vec::new(), messages };
    let mut frame = Frame::EMPTY;
    // The frames of a read where they are; the beginning of one that it cut off moves to the front.
    let (mut buffer, mut left) = (vec![0; 2 * BUFFER], 0);
    loop {
        let read = file.read(&mut buffer[left..]).with_context(|| format!("cannot read {name}"))?;
        if read == 0 {
            break;
        }
        let filled = &buffer[..left + read];
        let mut at = 0;
        while let Some(record) = filled.get(at..at + RECORD) {
            let field = |offset| word(record, offset).unwrap_or_default();
            let Some(data) = filled.get(at + RECORD..at + RECORD + field(8) as usize) else { break };
            let ns = u64::from(field(0)) * 1_000_000_000 + u64::from(field(4));
            if parse_into::<Full>(&data, Meta::ethernet(field(12)), &mut (), &mut frame).is_ok() {
                table.observe(&frame, ns);
            }
            at += RECORD + data.len();
        }
        let all = filled.len();
        buffer.copy_within(at..all, 0);
        left = all - at;
        if left == buffer.len() {
            buffer.resize(2 * left, 0);
        }
    }
    if left > 0 {
        bail!("{name} ends within a record");
    }
    Ok(table)
}

/// Four bytes in native byte order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn record(frame: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [1, 5, u32::try_from(frame.len()).unwrap(), 1082] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.extend(frame);
        bytes
    }

    /// A WRITE over IPv4, cut off behind its BTH.
    fn write(qp: u8) -> Vec<u8> {
        let mut frame = vec![2; 54];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34]
            .copy_from_slice(&[0x45, 2, 4, 0x2C, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..42].copy_from_slice(&[0xC0, 1, 0x12, 0xB7, 4, 0x18, 0, 0]);
        frame[42..54].copy_from_slice(&[7, 0, 0xFF, 0xFF, 0, 0, 0, qp, 0, 0, 0, 9]);
        frame
    }

    #[test]
    fn each_packet_is_counted_in_its_flow() {
        let mut file = 0xA1B2_3C4D_u32.to_ne_bytes().to_vec();
        file.resize(24, 0);
        for qp in [1, 2, 1] {
            file.extend(record(&write(qp)));
        }
        file.extend(record(&[0; 60]));
        let table = count(&file[..], Path::new("x")).unwrap();
        let packets: Vec<_> = table
            .counters
            .iter()
            .map(|(stats, bin)| (stats.packets, u64::from(bin.packets), stats.last_ns))
            .collect();
        assert_eq!(packets, [(2, 2, 1_000_000_005), (1, 1, 1_000_000_005)]);
        file.pop();
        let error = count(&file[..], Path::new("x")).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("x ends within a record"), "{error}");
        file[0] = 0;
        assert!(count(&file[..], Path::new("x")).is_err());
    }

    #[test]
    fn a_compressed_file_has_its_length() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&vec![7; 1 << 20]).unwrap();
        let file = encoder.finish().unwrap();
        assert_eq!(inflate(&file[..]).unwrap(), 1 << 20);
        assert!(inflate(&file[..file.len() / 2]).is_err());
    }
}
