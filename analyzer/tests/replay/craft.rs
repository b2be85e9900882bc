//! Captures and frames, written out by hand.

/// A frame at a time.
pub(crate) struct Shot {
    pub(crate) ts_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Whole seconds at which the captures here begin.
pub(crate) const START: u64 = 1_700_000_000;

/// A RoCEv2 frame `ms` milliseconds after the start: SEND ONLY from 10.0.0.1 to 10.0.0.2.
pub(crate) fn send(ms: u64, qp: u32, psn: u32) -> Shot {
    let ts_ns = START * 1_000_000_000 + ms * 1_000_000;
    Shot { ts_ns, bytes: [&[0; 12][..], &[0x08, 0x00], &ip(qp, psn)].concat() }
}

/// The IP packet in it, 20 + 8 + 12 + 4 bytes of payload + 4 of ICRC.
pub(crate) fn ip(qp: u32, psn: u32) -> Vec<u8> {
    let mut bytes = vec![0x45, 2, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes.extend([0xC0, 0x00, 0x12, 0xB7, 0, 28, 0, 0]);
    bytes.extend([0x04, 0, 0xFF, 0xFF]);
    bytes.extend(qp.to_be_bytes());
    bytes.extend(psn.to_be_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// An ARP frame.
pub(crate) fn arp(ms: u64) -> Shot {
    let mut shot = send(ms, 0, 0);
    shot.bytes.truncate(42);
    shot.bytes[12..14].copy_from_slice(&[0x08, 0x06]);
    shot
}

/// The file header of a nanosecond pcap.
pub(crate) fn pcap_header(link_type: u32) -> Vec<u8> {
    let words = [0xA1B2_3C4D, 0x0004_0002, 0, 0, 262_144, link_type];
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

/// A record of it.
pub(crate) fn record(shot: &Shot) -> Vec<u8> {
    let word = |n: u64| u32::try_from(n).unwrap().to_le_bytes();
    let len = shot.bytes.len() as u64;
    let mut bytes = Vec::new();
    for n in [shot.ts_ns / 1_000_000_000, shot.ts_ns % 1_000_000_000, len, len] {
        bytes.extend(word(n));
    }
    bytes.extend(&shot.bytes);
    bytes
}

/// A whole pcap.
pub(crate) fn pcap(link_type: u32, shots: &[Shot]) -> Vec<u8> {
    let mut bytes = pcap_header(link_type);
    bytes.extend(shots.iter().flat_map(record));
    bytes
}

/// A pcap of Ethernet with `n` packets to a queue pair, a millisecond apart from `ms` on.
pub(crate) fn sends(ms: u64, qp: u32, n: u32) -> Vec<u8> {
    pcap(1, &(0..n).map(|i| send(ms + u64::from(i), qp, i)).collect::<Vec<_>>())
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = u32::try_from(padded + 12).unwrap().to_le_bytes();
    let mut bytes = [&kind.to_le_bytes()[..], &len, body].concat();
    bytes.resize(padded + 8, 0);
    bytes.extend(len);
    bytes
}

/// A pcapng whose interfaces have the given names and link types, with frames by interface.
pub(crate) fn pcapng(interfaces: &[(&str, u16)], shots: &[(u32, Shot)]) -> Vec<u8> {
    let mut bytes =
        block(0x0A0D_0D0A, &[0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    for (name, link_type) in interfaces {
        let mut body = [&link_type.to_le_bytes()[..], &[0; 6]].concat();
        let len = u16::try_from(name.len()).unwrap();
        body.extend([2, 0]);
        body.extend(len.to_le_bytes());
        body.extend(name.as_bytes());
        body.resize(body.len().next_multiple_of(4), 0);
        // if_tsresol 9: nanoseconds; then the end of options.
        body.extend([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(block(1, &body));
    }
    for (interface, shot) in shots {
        let mut body = Vec::new();
        let len = u32::try_from(shot.bytes.len()).unwrap();
        let (high, low) = ((shot.ts_ns >> 32) as u32, (shot.ts_ns & 0xFFFF_FFFF) as u32);
        for word in [*interface, high, low, len, len] {
            body.extend(word.to_le_bytes());
        }
        body.extend(&shot.bytes);
        bytes.extend(block(6, &body));
    }
    bytes
}
