use super::super::{FormatKind, Reader, link_type_name};
use super::*;

#[test]
fn every_magic_in_both_byte_orders() {
    for order in BOTH {
        for (magic, ns) in [(0xa1b2_c3d4, 7000), (0xa1b2_3c4d, 7), (0xa1b2_cd34, 7000)] {
            let mut bytes = order.pcap_header(magic, 65535, 113);
            let mut record = order.pcap_record(1_700_000_000, 7, 1082, &[9; 33]);
            if magic == 0xa1b2_cd34 {
                record.splice(16..16, [0xee; 8]);
            }
            bytes.extend(&record);
            bytes.extend(&record);
            let outcome = sound(&bytes);
            assert_eq!(outcome.records.len(), 2, "{order:?} {magic:x}");
            for got in &outcome.records {
                let expected = Owned {
                    ts_ns: 1_700_000_000_000_000_000 + ns,
                    interface: 0,
                    link_type: 113,
                    wire_len: 1082,
                    data: vec![9; 33],
                };
                assert_eq!(*got, expected, "{order:?} {magic:x}");
            }
            let reader = outcome.reader;
            assert_eq!(reader.format().kind, FormatKind::Pcap);
            assert_eq!(reader.capture_drops(), None, "pcap cannot say");
            let [interface] = reader.interfaces() else {
                panic!("one interface expected");
            };
            assert_eq!((interface.link_type, interface.snaplen), (113, 65535));
            assert_eq!(interface.name, None);
        }
    }
}

#[test]
fn fcs_is_in_neither_length_nor_data() {
    // Two 16-bit words of FCS; the third frame was cut inside its FCS, the fourth before it.
    let network = 2 << 28 | 0x0400_0000 | 1;
    let mut bytes = Order::Little.pcap_header(0xa1b2_c3d4, 65535, network);
    for (wire, cap) in [(64, 64), (3, 3), (64, 62), (1082, 96)] {
        bytes.extend(Order::Little.pcap_record(0, 0, wire, &vec![0; cap]));
    }
    let outcome = sound(&bytes);
    let lengths: Vec<_> = outcome.records.iter().map(|r| (r.wire_len, r.data.len())).collect();
    assert_eq!(lengths, [(60, 60), (0, 0), (60, 60), (1078, 96)]);
    assert_eq!(outcome.records[0].link_type, 1);

    // Without the flag the length bits mean nothing.
    let mut bytes = Order::Little.pcap_header(0xa1b2_c3d4, 65535, 2 << 28 | 1);
    bytes.extend(Order::Little.pcap_record(0, 0, 64, &[0; 64]));
    assert_eq!(sound(&bytes).records[0].wire_len, 64);
}

#[test]
fn a_frame_has_at_least_the_bytes_that_were_captured() {
    let mut bytes = Order::Big.pcap_header(0xa1b2_3c4d, 65535, 1);
    bytes.extend(Order::Big.pcap_record(1, 2, 0, &[5; 60]));
    let outcome = sound(&bytes);
    assert_eq!(outcome.records[0].wire_len, 60);
    assert_eq!(outcome.records[0].data.len(), 60);
}

#[test]
fn fractions_beyond_a_second_and_the_last_second_do_not_overflow() {
    let mut bytes = Order::Little.pcap_header(0xa1b2_c3d4, 65535, 1);
    bytes.extend(Order::Little.pcap_record(u32::MAX, u32::MAX, 1, &[0]));
    let expected = u64::from(u32::MAX) * 1_000_000_000 + u64::from(u32::MAX) * 1000;
    assert_eq!(sound(&bytes).records[0].ts_ns, expected);
}

#[test]
fn before_version_2_3_the_wire_length_comes_first() {
    let mut bytes = Order::Little.pcap_header(0xa1b2_c3d4, 65535, 1);
    bytes[6] = 2;
    bytes.extend(Order::Little.words(&[0, 0, 1082, 60]));
    bytes.extend([0; 60]);
    let outcome = sound(&bytes);
    assert_eq!(outcome.records[0].wire_len, 1082);
    assert_eq!(outcome.records[0].data.len(), 60);
}

#[test]
fn longer_records_than_the_snap_length_are_read_but_absurd_ones_are_damage() {
    let (mut bytes, _) = small_pcap(Order::Little);
    bytes.extend(Order::Little.pcap_record(0, 0, 200_000, &vec![1; 200_000]));
    assert_eq!(sound(&bytes).records[4].data.len(), 200_000);

    let offset = bytes.len() as u64;
    bytes.extend(Order::Little.words(&[0, 0, 262_145, 262_145]));
    bytes.extend(vec![0; 300_000]);
    let outcome = drain(open(&bytes).unwrap());
    assert_eq!(outcome.records.len(), 5);
    let error = outcome.error.unwrap();
    assert!(
        matches!(&error, CaptureError::Corrupt { offset: o, records: 5, .. } if *o == offset),
        "{error:?}"
    );
    assert!(error.to_string().contains("262145 captured bytes"), "{error}");
}

#[test]
fn records_larger_than_the_first_buffer_are_read_when_the_snap_length_allows() {
    let mut bytes = Order::Little.pcap_header(0xa1b2_c3d4, 4_000_000, 1);
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    bytes.extend(Order::Little.pcap_record(0, 0, 3_000_000, &data));
    bytes.extend(Order::Little.pcap_record(1, 0, 2, &[1, 2]));
    let outcome = sound(&bytes);
    assert_eq!(outcome.records[0].data, data);
    assert_eq!(outcome.records[1].data, [1, 2]);
}

#[test]
fn joined_files_are_named_as_such() {
    let (one, _) = small_pcap(Order::Big);
    let outcome = drain(open(&[one.clone(), one].concat()).unwrap());
    assert_eq!(outcome.records.len(), 4);
    let error = outcome.error.unwrap().to_string();
    assert!(error.contains("mergecap"), "{error}");
}

#[test]
fn an_unknown_version_is_refused() {
    let mut bytes = Order::Little.pcap_header(0xa1b2_c3d4, 65535, 1);
    bytes[4] = 3;
    let error = open(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 3.4"), "{error}");
}

#[test]
fn what_is_no_capture_says_what_it_is_and_what_to_do() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "empty"),
        (b"10:00:00.1 IP 10.0.0.1 > 10.0.0.2: UDP\n", "tcpdump -w"),
        (b"snoop\0\0\0\0\0\0\x02", "editcap -F pcap"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 1, 2], "zstd -dc"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz -dc"),
        (&[0, 1, 2, 3, 4, 5], "starts with 00 01 02 03 04 05"),
        (&[0xd4, 0xc3], "starts with d4 c3"),
        (&[0xd4, 0xc3, 0xb2, 0xa1, 2], "ends after 5 bytes"),
    ];
    for (bytes, hint) in cases {
        let error = open(bytes).unwrap_err().to_string();
        assert!(error.starts_with("test: "), "{error}");
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn paths_that_cannot_be_read_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pcap");
    assert!(matches!(
        Reader::open(&missing),
        Err(CaptureError::NotFound { name, .. }) if name.ends_with("missing.pcap")
    ));
    assert!(matches!(Reader::open(folder.path()), Err(CaptureError::Directory { .. })));
    let (bytes, _) = small_pcap(Order::Little);
    let file = folder.path().join("no-suffix");
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(drain(Reader::open(&file).unwrap()).records.len(), 4);
}

#[test]
fn a_record_is_delivered_before_the_next_byte_arrives() {
    // The writer waits for each record to be read: reading ahead would deadlock, so the wait is
    // bounded.
    let (bytes, ends) = small_pcap(Order::Little);
    let (mut feed, pipe) = std::os::unix::net::UnixStream::pair().unwrap();
    pipe.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    feed.write_all(&bytes[..24]).unwrap();
    let mut reader = Reader::from_read("stdin", Box::new(pipe)).unwrap();
    let mut sent = 24;
    for end in ends {
        feed.write_all(&bytes[sent..end]).unwrap();
        sent = end;
        assert!(reader.next().unwrap().is_some());
    }
    drop(feed);
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn link_types_have_names() {
    assert_eq!(link_type_name(1), "ETHERNET");
    assert_eq!(link_type_name(276), "LINUX_SLL2");
    assert_eq!(link_type_name(9999), "LINKTYPE_9999");
}
