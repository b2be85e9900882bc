use super::*;

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
            // Exactly the records that end in what could be decompressed.
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
