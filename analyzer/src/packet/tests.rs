use super::{decode, hex, syndrome};
use rocescope_common::random::Random;

/// Ethernet, a tag, IPv4 (DSCP 26, CE), UDP 49152 → 4791, BTH of a WRITE FIRST to QP 17, RETH.
fn write_first() -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x60, 100, 8, 0];
    bytes.extend([0x45, 26 << 2 | 3, 0, 20 + 8 + 12 + 16 + 64 + 4, 0, 1, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend([0xC0, 0, 0x12, 0xB7, 0, 8 + 12 + 16 + 64 + 4, 0, 0]);
    bytes.extend([0x06, 0x40, 0xFF, 0xFF, 0, 0, 0, 17, 0x80, 0, 0, 9]);
    bytes.extend([0, 0, 0x7F, 0, 0, 0, 0x10, 0, 0, 0, 0x12, 0x34, 0, 1, 0, 0]);
    bytes
}

fn value(bytes: &[u8], wire_len: u32, bth: usize, header: &str, field: &str) -> String {
    let packet = decode(bytes, wire_len, bth);
    let header = packet.headers.iter().find(|h| h.name.starts_with(header));
    let header = header.unwrap_or_else(|| panic!("no header with {field}: {packet:?}"));
    header.fields.iter().find(|f| f.name == field).unwrap_or_else(|| panic!("no {field}")).value.clone()
}

#[test]
fn a_write_is_read_field_by_field() {
    let bytes = write_first();
    let names: Vec<String> = decode(&bytes, 128, 46).headers.into_iter().map(|h| h.name).collect();
    assert_eq!(
        names,
        ["Ethernet", "VLAN tag", "IPv4", "UDP", "BTH, base transport header", "RETH, remote memory"]
    );
    for (header, field, expected) in [
        ("Ethernet", "source", "02:00:00:00:00:01"),
        ("VLAN", "VLAN", "100"),
        ("VLAN", "priority (PCP)", "3"),
        ("IPv4", "DSCP", "26"),
        ("IPv4", "ECN", "3, CE: congestion experienced"),
        ("IPv4", "destination", "10.0.0.2"),
        ("UDP", "destination port", "4791, RoCEv2"),
        ("BTH", "opcode", "0x06, RC_RDMA_WRITE_FIRST"),
        ("BTH", "destination QP", "17 (0x000011)"),
        ("BTH", "ack request", "1"),
        ("BTH", "PSN", "9 (0x000009)"),
        ("RETH", "virtual address", "0x00007f0000001000"),
        ("RETH", "DMA length", "65.5 kB (65536)"),
    ] {
        assert_eq!(value(&bytes, 128, 46, header, field), expected);
    }
    assert_eq!(decode(&bytes, 128, 46).note.as_deref(), Some("first 74 of 128 bytes captured"));
}

#[test]
fn fields_lie_where_they_say() {
    let bytes = write_first();
    for header in decode(&bytes, 74, 46).headers {
        for field in header.fields {
            assert!(field.offset >= header.offset && field.offset + field.len <= bytes.len(), "{field:?}");
        }
    }
}

#[test]
fn the_extended_headers_follow_the_opcode() {
    let mut bytes = write_first();
    let ext = |bytes: &mut Vec<u8>, opcode: u8, ext: &[u8]| {
        bytes[46] = opcode;
        bytes.truncate(58);
        bytes.extend(ext);
    };
    ext(&mut bytes, 0x11, &[0x60, 0, 0, 7]);
    assert_eq!(value(&bytes, 78, 46, "AETH", "syndrome"), "0x60, NAK: PSN sequence error");
    ext(&mut bytes, 0x81, &[0; 16]);
    assert_eq!(value(&bytes, 78, 46, "CNP", "reserved"), "all zero");
    ext(&mut bytes, 0x64, &[0, 0, 0, 1, 0, 0, 0, 5]);
    assert_eq!(value(&bytes, 78, 46, "DETH", "source QP"), "5 (0x000005)");
    ext(&mut bytes, 0x05, &[1, 2, 3, 4]);
    assert_eq!(value(&bytes, 78, 46, "ImmDt", "immediate"), "0x01020304");
    ext(&mut bytes, 0x17, &[1, 2, 3, 4]);
    assert_eq!(value(&bytes, 78, 46, "IETH", "remote key"), "0x01020304");
    ext(&mut bytes, 0x13, &[1; 28]);
    assert_eq!(value(&bytes, 86, 46, "AtomicETH", "compare"), "0x0101010101010101");
    ext(&mut bytes, 0x12, &[0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9]);
    assert_eq!(value(&bytes, 78, 46, "AtomicAckETH", "original data"), "0x0909090909090909");
    ext(&mut bytes, 0xAB, &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 5, 6, 7, 8]);
    assert_eq!(value(&bytes, 86, 46, "XRCETH", "shared receive queue"), "3");
    assert_eq!(value(&bytes, 86, 46, "RETH", "remote key"), "0x00000002");
    assert_eq!(value(&bytes, 86, 46, "ImmDt", "immediate"), "0x05060708");
}

/// A DREQ is behind all extended headers, of whichever opcode with a DETH.
#[test]
fn connection_management_follows_the_extended_headers() {
    let mut mad = vec![1, 0x07, 2, 3];
    mad.resize(16, 0);
    mad.extend([0, 0x15]);
    mad.resize(24, 0);
    mad.extend([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 17, 0]);
    for (opcode, extended) in [(0x64, 8), (0x65, 12)] {
        let mut bytes = write_first();
        bytes[46] = opcode;
        bytes.truncate(58);
        bytes.resize(58 + extended, 0);
        bytes.extend(&mad);
        assert_eq!(value(&bytes, 178, 46, "CM", "remote QP"), "17");
        let fields = decode(&bytes, 178, 46).headers.into_iter().flat_map(|header| header.fields);
        assert!(fields.into_iter().all(|field| field.offset + field.len <= bytes.len()));
        bytes.pop();
        assert!(!decode(&bytes, 178, 46).headers.iter().any(|header| header.name.starts_with("CM")));
    }
}

#[test]
fn any_bytes_are_survived_and_what_is_cut_is_left_out() {
    let whole = write_first();
    for cut in 0..whole.len() {
        let packet = decode(&whole[..cut], 128, 46);
        assert!(packet.headers.len() <= 6 && packet.note.is_some());
    }
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        for _ in 0..6 {
            let at = random.index(bytes.len());
            bytes[at] = random.byte();
        }
        let _ = decode(&bytes, 128, 46);
        let _ = decode(&bytes, 128, usize::MAX);
    }
}

#[test]
fn hexadecimal_lines() {
    let lines: Vec<String> = hex(b"RoCE\x00 scope, all of it").collect();
    assert_eq!(lines[0], "0000  52 6f 43 45 00 20 73 63  6f 70 65 2c 20 61 6c 6c  RoCE. scope, all");
    assert_eq!(lines[1].trim_end(), format!("0010  20 6f 66 20 69 74 {}  of it", " ".repeat(31)));
}

#[test]
fn syndromes_in_words() {
    assert_eq!(syndrome(0x6000_0000), "NAK: PSN sequence error");
    assert_eq!(syndrome(0x6200_0000), "NAK: remote access error");
    assert_eq!(syndrome(0x2100_0000), "RNR NAK, RNR timer 10.0 µs");
    assert_eq!(syndrome(0x2000_0000), "RNR NAK, RNR timer 655 ms");
    assert_eq!(syndrome(u32::MAX), "AETH not captured");
}
