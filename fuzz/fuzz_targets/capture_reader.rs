//! Any bytes as a capture.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use rocescope::source::capture::Reader;
use rocescope_fuzz::{LONGEST, captures, seeds};

/// Returns the input in small pieces, as a pipe may.
struct Pieces {
    left: std::vec::IntoIter<u8>,
    at_most: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        for (place, byte) in into.iter_mut().take(self.at_most).zip(self.left.by_ref()) {
            *place = byte;
            done += 1;
        }
        Ok(done)
    }
}

/// First bytes that pass the recognition of formats, which random bytes rarely do.
const STARTS: [&[u8]; 6] = [
    &[],
    &[0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
    &[0xA1, 0xB2, 0x3C, 0x4D, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
    &[
        10, 13, 13, 10, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255,
        255, 28, 0, 0, 0,
    ],
    &[
        10, 13, 13, 10, 0, 0, 0, 28, 0x1A, 0x2B, 0x3C, 0x4D, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255,
        255, 0, 0, 0, 28,
    ],
    &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3],
];

type Record = (u64, u32, u16, u32, Vec<u8>);

/// All records up to the end or the first error.
fn read(input: Box<dyn Read + Send>) -> Option<Vec<Record>> {
    let mut reader = Reader::from_read("input", input).ok()?;
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                assert!(record.wire_len as usize >= record.data.len());
                records.push((
                    record.ts_ns,
                    record.interface,
                    record.link_type,
                    record.wire_len,
                    record.data.to_vec(),
                ));
            }
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    assert_eq!(reader.records(), records.len() as u64);
    assert!(records.iter().all(|(_, interface, ..)| (*interface as usize) < reader.interfaces().len()));
    assert!(matches!(reader.next(), Ok(None)), "a record after the end");
    Some(records)
}

/// The test captures, long ones truncated.
fn made() -> Vec<Vec<u8>> {
    let bytes = captures().into_iter().filter_map(|path| std::fs::read(path).ok());
    bytes.map(|bytes| [&[0xF8], &bytes[..bytes.len().min(LONGEST / 2)]].concat()).collect()
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let bytes = [STARTS[usize::from(*choice) % STARTS.len()], rest].concat();
    let whole = read(Box::new(io::Cursor::new(bytes.clone())));
    let at_most = 1 + usize::from(choice / 8);
    let pieces = read(Box::new(Pieces { left: bytes.into_iter(), at_most }));
    assert!(whole == pieces, "the same bytes in pieces give other records");
});
