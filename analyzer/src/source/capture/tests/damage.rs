//! Damaged and arbitrary input: no panic, no record that is not there, no intact record lost.

use super::*;
use rocescope_common::random::Random;

#[test]
fn every_cut_delivers_exactly_the_complete_packets() {
    for order in BOTH {
        for ((whole, ends), header) in [(small_pcap(order), 24), (small_pcapng(order), 12)] {
            let all = sound(&whole).records;
            for cut in 0..whole.len() {
                let complete = ends.iter().filter(|&&end| end <= cut).count();
                match open(&whole[..cut]) {
                    Err(e) => assert!(cut < header, "cut {cut}: {e}"),
                    Ok(reader) => {
                        assert!(cut >= header);
                        let outcome = drain(reader);
                        assert!(outcome.error.is_none(), "cut {cut}: {:?}", outcome.error);
                        assert_eq!(outcome.records, all[..complete], "cut {cut}");
                        check_truncation(&outcome, cut);
                    }
                }
            }
        }
    }
}

/// A truncation, if any, must account for every byte there is.
fn check_truncation(outcome: &Outcome, len: usize) {
    let Some(truncation) = outcome.reader.truncated() else {
        return;
    };
    assert_eq!(truncation.offset + truncation.have, len as u64);
    assert!(truncation.need.is_none_or(|need| need > truncation.have));
    assert_eq!(truncation.records, outcome.records.len() as u64);
    let text = truncation.to_string();
    assert!(text.starts_with("test: cut off in a "), "{text}");
    assert!(text.contains(&format!("at byte {}", truncation.offset)), "{text}");
}

#[test]
fn a_cut_between_records_is_a_clean_end_and_any_other_is_not() {
    for (whole, ends) in [small_pcap(Order::Little), small_pcapng(Order::Little)] {
        for end in ends {
            sound(&whole[..end]);
            let outcome = drain(open(&whole[..end - 1]).unwrap());
            assert!(outcome.reader.truncated().is_some());
        }
    }
}

#[test]
fn slow_readers_get_the_same_records() {
    for order in BOTH {
        for plain in [small_pcap(order).0, small_pcapng(order).0] {
            for bytes in [plain.clone(), gzipped(&plain)] {
                let all = sound(&bytes).records;
                for step in [1, 2, 3, 7, 16, 100] {
                    let outcome = drain(open_slow(&bytes, step).unwrap());
                    assert!(outcome.error.is_none());
                    assert_eq!(outcome.records, all, "{step} bytes at a time");
                }
            }
        }
    }
}

/// Fails with an interrupt before every read and for good after `left` bytes.
struct Failing {
    bytes: Cursor<Vec<u8>>,
    left: usize,
    interrupted: bool,
}

impl Read for Failing {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        if self.left == 0 {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        let n = out.len().min(self.left).min(20);
        let n = self.bytes.read(&mut out[..n])?;
        self.left -= n;
        Ok(n)
    }
}

#[test]
fn interrupts_are_no_errors_and_errors_come_after_the_records_before_them() {
    let (plain, ends) = small_pcap(Order::Little);
    for bytes in [plain.clone(), gzipped(&plain)] {
        let input = Failing { left: bytes.len(), bytes: Cursor::new(bytes), interrupted: false };
        let outcome = drain(Reader::from_read("nfs", Box::new(input)).unwrap());
        assert_eq!(outcome.records.len(), ends.len());
        let error = outcome.error.unwrap();
        assert!(matches!(&error, CaptureError::Io { name, .. } if name == "nfs"));
    }
}

#[test]
fn mutated_captures_never_panic_and_account_for_their_bytes() {
    let mut random = Random::new(0x5eed_0123_4567_89ab);
    let originals = [
        small_pcap(Order::Little).0,
        small_pcap(Order::Big).0,
        small_pcapng(Order::Little).0,
        small_pcapng(Order::Big).0,
    ];
    let interesting = [0, 1, 4, 0x7f, 0x80, 0xff];
    let mut delivered = 0;
    for round in 0..8000 {
        let mut bytes = originals[round % originals.len()].clone();
        for _ in 0..=random.index(4) {
            let at = random.index(bytes.len());
            match random.index(4) {
                0 => bytes[at] = interesting[random.index(interesting.len())],
                1 => bytes[at] ^= 1 << random.index(8),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let len = bytes.len();
        if round % 5 == 0 {
            bytes = gzipped(&bytes);
        }
        let Ok(reader) = open(&bytes) else {
            continue;
        };
        let outcome = drain(reader);
        check_truncation(&outcome, len);
        let held: usize = outcome.records.iter().map(|r| r.data.len()).sum();
        assert!(held <= len, "more data than the file has in round {round}");
        for record in &outcome.records {
            assert!(record.wire_len as usize >= record.data.len());
            assert!((record.interface as usize) < outcome.reader.interfaces().len());
        }
        delivered += outcome.records.len();
    }
    assert!(delivered > 8000, "mutations leave most records readable");
}

#[test]
fn garbage_behind_a_valid_magic_never_panics() {
    let mut random = Random::new(42);
    let headers = [
        Order::Little.pcap_header(0xa1b2_c3d4, 0xffff_ffff, 1),
        [Order::Big.section(), Order::Big.interface(1, 0, &[])].concat(),
        vec![0x1f, 0x8b, 8, 0],
        Vec::new(),
    ];
    for round in 0..4000 {
        let mut bytes = headers[round % headers.len()].clone();
        for _ in 0..random.index(300) {
            bytes.push(random.byte());
        }
        let Ok(reader) = open_slow(&bytes, 1 + random.index(64)) else {
            continue;
        };
        drain(reader);
    }
}

#[test]
fn mutated_gzip_never_panics() {
    let mut random = Random::new(7);
    let original = gzipped(&small_pcapng(Order::Little).0);
    for _ in 0..3000 {
        let mut bytes = original.clone();
        let at = random.index(bytes.len());
        bytes[at] ^= 1 << random.index(8);
        if let Ok(reader) = open(&bytes) {
            drain(reader);
        }
    }
}
