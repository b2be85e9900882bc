//! Captures are built byte by byte here, independently of any other reader or writer.

mod damage;
mod gzip;
mod parts;
mod pcap;
mod pcapng;

use std::io::{Cursor, Read, Write};

use super::{CaptureError, Reader};

/// A record with its bytes owned, to compare after the reader has moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    ts_ns: u64,
    interface: u32,
    link_type: u16,
    wire_len: u32,
    data: Vec<u8>,
}

/// Everything that a capture returned until its end.
struct Outcome {
    records: Vec<Owned>,
    error: Option<CaptureError>,
    reader: Reader,
}

fn open(bytes: &[u8]) -> Result<Reader, CaptureError> {
    Reader::from_read("test", Box::new(Cursor::new(bytes.to_vec())))
}

fn drain(mut reader: Reader) -> Outcome {
    let mut records = Vec::new();
    let error = loop {
        match reader.next() {
            Ok(Some(r)) => records.push(Owned {
                ts_ns: r.ts_ns,
                interface: r.interface,
                link_type: r.link_type,
                wire_len: r.wire_len,
                data: r.data.to_vec(),
            }),
            Ok(None) => break None,
            Err(e) => break Some(e),
        }
    };
    assert!(matches!(reader.next(), Ok(None)), "the end must be final");
    assert_eq!(reader.records(), records.len() as u64);
    Outcome { records, error, reader }
}

/// Reads a capture that must be valid from start to end.
fn sound(bytes: &[u8]) -> Outcome {
    let outcome = drain(open(bytes).unwrap());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(outcome.reader.truncated(), None);
    outcome
}

/// Writes integers in one byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, n: u16) -> [u8; 2] {
        match self {
            Order::Little => n.to_le_bytes(),
            Order::Big => n.to_be_bytes(),
        }
    }

    fn u32(self, n: u32) -> [u8; 4] {
        match self {
            Order::Little => n.to_le_bytes(),
            Order::Big => n.to_be_bytes(),
        }
    }

    fn u64(self, n: u64) -> [u8; 8] {
        match self {
            Order::Little => n.to_le_bytes(),
            Order::Big => n.to_be_bytes(),
        }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&w| self.u32(w)).collect()
    }

    fn pcap_header(self, magic: u32, snaplen: u32, network: u32) -> Vec<u8> {
        let mut out = self.u32(magic).to_vec();
        out.extend(self.u16(2));
        out.extend(self.u16(4));
        out.extend(self.words(&[0, 0, snaplen, network]));
        out
    }

    fn pcap_record(self, seconds: u32, fraction: u32, wire_len: u32, data: &[u8]) -> Vec<u8> {
        let caplen = u32::try_from(data.len()).unwrap();
        let mut out = self.words(&[seconds, fraction, caplen, wire_len]);
        out.extend(data);
        out
    }

    /// A pcapng block around `body`, padded.
    fn block(self, block_type: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let len = u32::try_from(padded + 12).unwrap();
        let mut out = self.words(&[block_type, len]);
        out.extend(body);
        out.resize(8 + padded, 0);
        out.extend(self.u32(len));
        out
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut out = self.u16(code).to_vec();
        out.extend(self.u16(u16::try_from(value.len()).unwrap()));
        out.extend(value);
        out.resize(4 + value.len().next_multiple_of(4), 0);
        out
    }

    fn section(self) -> Vec<u8> {
        let mut body = self.u32(0x1a2b_3c4d).to_vec();
        body.extend(self.u16(1));
        body.extend(self.u16(0));
        body.extend(self.u64(u64::MAX));
        self.block(0x0a0d_0d0a, &body)
    }

    fn interface(self, link_type: u16, snaplen: u32, options: &[Vec<u8>]) -> Vec<u8> {
        let mut body = self.u16(link_type).to_vec();
        body.extend(self.u16(0));
        body.extend(self.u32(snaplen));
        body.extend(options.concat());
        self.block(1, &body)
    }

    fn enhanced(self, id: u32, ticks: u64, wire_len: u32, data: &[u8], options: &[Vec<u8>]) -> Vec<u8> {
        let caplen = u32::try_from(data.len()).unwrap();
        let high = u32::try_from(ticks >> 32).unwrap();
        let low = u32::try_from(ticks & 0xffff_ffff).unwrap();
        let mut body = self.words(&[id, high, low, caplen, wire_len]);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(options.concat());
        self.block(6, &body)
    }

    fn simple(self, wire_len: u32, data: &[u8]) -> Vec<u8> {
        let mut body = self.u32(wire_len).to_vec();
        body.extend(data);
        self.block(3, &body)
    }

    fn statistics(self, id: u32, options: &[Vec<u8>]) -> Vec<u8> {
        let mut body = self.words(&[id, 0, 0]);
        body.extend(options.concat());
        self.block(5, &body)
    }
}

const BOTH: [Order; 2] = [Order::Little, Order::Big];

/// A small pcap and the offsets at which its records end.
fn small_pcap(order: Order) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = order.pcap_header(0xa1b2_c3d4, 96, 1);
    let mut ends = Vec::new();
    for (i, len) in [60_usize, 0, 1, 96].into_iter().enumerate() {
        let data: Vec<u8> = (0..len).map(|b| u8::try_from(b + i).unwrap()).collect();
        let seconds = 1_700_000_000 + u32::try_from(i).unwrap();
        bytes.extend(order.pcap_record(seconds, 7, 1082, &data));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// A small pcapng with one of each kind of block, and the offsets at which its packets end.
fn small_pcapng(order: Order) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = order.section();
    let mut ends = Vec::new();
    bytes.extend(order.interface(1, 96, &[order.option(2, b"eth0"), order.option(0, b"")]));
    bytes.extend(order.enhanced(0, 1, 1082, &[1; 61], &[]));
    ends.push(bytes.len());
    bytes.extend(order.block(0xbad, &[0; 12]));
    bytes.extend(order.simple(40, &[2; 40]));
    ends.push(bytes.len());
    bytes.extend(order.statistics(0, &[order.option(5, &order.u64(3))]));
    bytes.extend(order.enhanced(0, 2, 96, &[3; 96], &[order.option(1, b"a comment")]));
    ends.push(bytes.len());
    (bytes, ends)
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Hands out at most `step` bytes per read, as a slow pipe does.
struct SlowReader {
    bytes: Cursor<Vec<u8>>,
    step: usize,
}

impl Read for SlowReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = out.len().min(self.step);
        self.bytes.read(&mut out[..n])
    }
}

fn open_slow(bytes: &[u8], step: usize) -> Result<Reader, CaptureError> {
    let bytes = Cursor::new(bytes.to_vec());
    Reader::from_read("test", Box::new(SlowReader { bytes, step }))
}
