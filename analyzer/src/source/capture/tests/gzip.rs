use super::*;
use rocescope_common::random::Random;

#[test]
fn gzip_reads_like_the_file_inside() {
    for plain in [small_pcap(Order::Big).0, small_pcapng(Order::Little).0] {
        let outcome = sound(&gzipped(&plain));
        assert!(outcome.reader.format().gzip);
        assert_eq!(outcome.records, sound(&plain).records);
    }
}

#[test]
fn several_members_are_one_stream() {
    let (plain, _) = small_pcap(Order::Little);
    for at in 0..=plain.len() {
        let (a, b) = plain.split_at(at);
        let bytes = [gzipped(a), gzipped(&[]), gzipped(b)].concat();
        assert_eq!(sound(&bytes).records.len(), 4, "split at {at}");
    }
}

#[test]
fn every_cut_delivers_what_was_complete() {
    for (plain, ends) in [small_pcap(Order::Little), small_pcapng(Order::Big)] {
        let whole = gzipped(&plain);
        let all = sound(&plain).records;
        let mut most = 0;
        for cut in 0..whole.len() {
            let Ok(reader) = open(&whole[..cut]) else {
                continue;
            };
            let outcome = drain(reader);
            assert!(outcome.error.is_none(), "cut {cut}: {:?}", outcome.error);
            let truncation = outcome.reader.truncated().expect("a cut is always noticed");
            assert!(truncation.gzip_cut);
            assert!(truncation.to_string().contains("gzip"), "{truncation}");
            // Exactly the records that end within the decompressed data.
            let decompressed = usize::try_from(truncation.offset + truncation.have).unwrap();
            let complete = ends.iter().filter(|&&end| end <= decompressed).count();
            assert_eq!(outcome.records, all[..complete], "cut {cut}");
            most = most.max(complete);
        }
        assert_eq!(most, all.len(), "cut in the trailer, nothing is lost");
    }
}

#[test]
fn zero_padding_is_accepted_and_other_trailing_bytes_are_named() {
    let (plain, ends) = small_pcap(Order::Little);
    let mut bytes = gzipped(&plain);
    let padded = [bytes.clone(), vec![0; 600]].concat();
    assert_eq!(sound(&padded).records.len(), ends.len());

    bytes.extend(b"trailing");
    let outcome = drain(open(&bytes).unwrap());
    assert_eq!(outcome.records.len(), ends.len());
    let error = outcome.error.unwrap().to_string();
    assert!(error.contains("not gzip"), "{error}");
}

#[test]
fn a_wrong_checksum_is_reported_after_the_records() {
    let (plain, ends) = small_pcap(Order::Little);
    let mut bytes = gzipped(&plain);
    let at = bytes.len() - 8;
    bytes[at] ^= 1;
    let outcome = drain(open(&bytes).unwrap());
    assert_eq!(outcome.records.len(), ends.len());
    let error = outcome.error.unwrap().to_string();
    assert!(error.contains("gzip data is damaged"), "{error}");
}

/// The rest of a stream is damaged: everything before the damage counts, regardless of the size of the reads.
#[test]
fn damage_costs_nothing_that_was_decompressed_before() {
    let frames = 3_000u32;
    // Enough entropy for several deflate blocks.
    let frame = |n: u32| -> Vec<u8> {
        let mut random = Random::new(n.into());
        (0..120).map(|_| random.byte() & 0x3f).collect()
    };
    let mut plain = small_pcap(Order::Little).0[..24].to_vec();
    for n in 0..frames {
        for word in [n, 0, 120, 120] {
            plain.extend(word.to_le_bytes());
        }
        plain.extend(frame(n));
    }
    let whole = gzipped(&plain);
    assert_eq!(sound(&whole).records.len(), 3_000);
    let mut some_lost_nothing = false;
    for at in (whole.len() / 8..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        for byte in &mut bytes[at..] {
            *byte = !*byte;
        }
        let read = |part: usize| {
            let outcome = drain(
                Reader::from_read("x", Box::new(SlowReader { bytes: bytes.clone(), at: 0, part })).unwrap(),
            );
            // Damage at the end may look as if more had to follow.
            assert!(outcome.error.is_some() || outcome.reader.truncated().is_some(), "damage at {at}");
            outcome.records.len()
        };
        let expected = read(1);
        for part in [2, 1_000, usize::MAX] {
            assert_eq!(read(part), expected, "damage at {at}, in parts of {part}");
        }
        some_lost_nothing |= expected > 1_500;
    }
    assert!(some_lost_nothing);
}

/// Returns a few bytes per read.
struct SlowReader {
    bytes: Vec<u8>,
    at: usize,
    part: usize,
}

impl Read for SlowReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.bytes[self.at..];
        let n = rest.len().min(out.len()).min(self.part);
        out[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

#[test]
fn compressed_nonsense_is_no_capture() {
    let error = open(&gzipped(b"hello world")).unwrap_err().to_string();
    assert!(error.contains("not a pcap"), "{error}");
    let twice = gzipped(&gzipped(&small_pcap(Order::Little).0));
    let error = open(&twice).unwrap_err().to_string();
    assert!(error.contains("compressed twice"), "{error}");
    let error = open(&gzipped(b"")).unwrap_err().to_string();
    assert!(error.contains("empty"), "{error}");
}
