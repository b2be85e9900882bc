//! Files that are supplied in parts.

use std::io::Write as _;

use super::super::{LONG_INPUT, Part, SHORT_RECORD};
use super::*;
use crate::util::background;

/// A pcap with records of many lengths, long on average.
fn capture() -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    for word in [0xA1B2_C3D4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for number in 0..u32::try_from(LONG_INPUT).unwrap() + 3000 {
        // Some records are larger than the space before a part.
        let len = if number % 512 == 511 { 40_000 } else { number % 1000 + 1100 };
        for word in [number, 0, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(bytes.len() + len as usize, number.to_le_bytes()[0]);
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

#[test]
fn records_are_the_same_in_parts() {
    if !background::is_there() {
        println!("SKIP: parts are for two processors, and there is one");
        return;
    }
    let file = capture();
    let whole = drain(Reader::open(file.path()).unwrap()).records;
    assert!(whole.iter().map(|r| r.data.len() as u64).sum::<u64>() > SHORT_RECORD * whole.len() as u64);

    let mut reader = Reader::open(file.path()).unwrap();
    reader.allow_parts();
    let (mut at, mut parts) = (0, 0);
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                assert_eq!((record.ts_ns, record.data), (whole[at].ts_ns, whole[at].data.as_slice()), "{at}");
                at += 1;
            }
            Ok(None) => break,
            Err(error) => {
                assert!(error.would_block() && at as u64 >= LONG_INPUT, "{error} at {at}");
                let place = reader.wanted_part().unwrap();
                let buf = reader.reclaim_buffer();
                // A part from another location is distinguished from the wanted one.
                assert!(!Part::read(place.further(1), Vec::new()).is_at(&place));
                let part = Part::read(place.clone(), buf);
                assert!(part.is_at(&place));
                reader.give_part(part);
                parts += 1;
            }
        }
    }
    assert_eq!(at, whole.len());
    assert!(parts > 5, "{parts}");
}
