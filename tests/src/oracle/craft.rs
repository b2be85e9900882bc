//! Crafted frames for cases without a public capture.
//!
//! Addresses are from the ranges for documentation. Every packet has a correct ICRC unless it is truncated.

#![expect(
    clippy::cast_possible_truncation,
    reason = "frames of tests are far below the limits of their length fields"
)]

use super::icrc;

/// Fields of a crafted RoCE packet; [`Roce::default`] is an RC SEND ONLY without payload.
#[derive(Debug, Clone)]
pub struct Roce {
    /// Opcode.
    pub opcode: u8,
    /// Destination QP.
    pub dest_qp: u32,
    /// Packet sequence number.
    pub psn: u32,
    /// UDP source port.
    pub src_port: u16,
    /// Type of service or traffic class.
    pub class: u8,
    /// Extended headers, as bytes.
    pub extended: Vec<u8>,
    /// Bytes of application payload.
    pub payload: usize,
    /// Last part of source and destination address.
    pub ends: (u8, u8),
}

impl Default for Roce {
    fn default() -> Self {
        Self {
            opcode: 0x04,
            dest_qp: 0x11,
            psn: 0,
            src_port: 0xC123,
            class: 0,
            extended: Vec::new(),
            payload: 0,
            ends: (1, 2),
        }
    }
}

/// RETH of a message of `length` bytes.
#[must_use]
pub fn reth(length: u32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x7F, 0, 0, 0, 0x10, 0, 0, 0, 3, 0xA3];
    bytes.extend(length.to_be_bytes());
    bytes
}

/// AETH with a syndrome and a message sequence number of 1.
#[must_use]
pub fn aeth(syndrome: u8) -> Vec<u8> {
    vec![syndrome, 0, 0, 1]
}

impl Roce {
    /// BTH, extended headers, payload and pad, without ICRC.
    fn transport(&self) -> Vec<u8> {
        let pad = self.payload.wrapping_neg() % 4;
        let byte = |number: u32, shift: u32| (number >> shift & 0xFF) as u8;
        let mut bytes = vec![self.opcode, (pad as u8) << 4, 0xFF, 0xFF, 0];
        bytes.extend([16, 8, 0].map(|shift| byte(self.dest_qp, shift)));
        bytes.push(0);
        bytes.extend([16, 8, 0].map(|shift| byte(self.psn, shift)));
        bytes.extend(&self.extended);
        bytes.resize(bytes.len() + self.payload, 0xA5);
        bytes.resize(bytes.len() + pad, 0);
        bytes
    }

    fn udp(&self) -> Vec<u8> {
        let transport = self.transport();
        let mut bytes = self.src_port.to_be_bytes().to_vec();
        bytes.extend(4791_u16.to_be_bytes());
        bytes.extend(length(8 + transport.len() + 4));
        bytes.extend([0, 0]);
        bytes.extend(transport);
        bytes
    }

    /// The packet from its IPv4 header to its ICRC.
    #[must_use]
    pub fn ipv4(&self) -> Vec<u8> {
        let udp = self.udp();
        let mut bytes = ipv4_header(17, self.class, udp.len() + 4, self.ends);
        bytes.extend(udp);
        with_icrc(bytes, false)
    }

    /// The packet from its IPv6 header to its ICRC.
    #[must_use]
    pub fn ipv6(&self) -> Vec<u8> {
        let udp = self.udp();
        let mut bytes = ipv6_header(17, self.class, udp.len() + 4, self.ends);
        bytes.extend(udp);
        with_icrc(bytes, false)
    }

    /// The RoCEv1 packet from its GRH to its ICRC.
    #[must_use]
    pub fn grh(&self) -> Vec<u8> {
        let transport = self.transport();
        let mut bytes = ipv6_header(0x1B, self.class, transport.len() + 4, self.ends);
        bytes.extend(transport);
        with_icrc(bytes, true)
    }
}

fn with_icrc(mut bytes: Vec<u8>, grh: bool) -> Vec<u8> {
    let crc = icrc::icrc(&bytes, grh).unwrap_or_default();
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// A length as encoded in headers.
#[must_use]
pub fn length(bytes: usize) -> [u8; 2] {
    (bytes as u16).to_be_bytes()
}

/// An IPv4 header for a packet of `length` bytes.
#[must_use]
pub fn ipv4_header(protocol: u8, class: u8, length: usize, ends: (u8, u8)) -> Vec<u8> {
    let mut bytes = vec![0x45, class];
    bytes.extend(self::length(20 + length));
    bytes.extend([0, 7, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, ends.0, 192, 0, 2, ends.1]);
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let checksum = !((folded & 0xFFFF) + (folded >> 16)) as u16;
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// An IPv6 header for a packet of `length` bytes.
#[must_use]
pub fn ipv6_header(next: u8, class: u8, length: usize, ends: (u8, u8)) -> Vec<u8> {
    let mut bytes = vec![0x60 | class >> 4, class << 4, 0, 0];
    bytes.extend(self::length(length));
    bytes.extend([next, 64]);
    for end in [ends.0, ends.1] {
        bytes.extend([0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
    }
    bytes
}

/// Prepends an Ethernet header.
#[must_use]
pub fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(packet);
    bytes
}

/// Inserts a tag after the addresses of an Ethernet frame; `tpid` is 0x8100 or 0x88A8.
#[must_use]
pub fn tagged(tpid: u16, priority: u16, id: u16, frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    bytes.extend(tpid.to_be_bytes());
    bytes.extend((priority << 13 | id).to_be_bytes());
    bytes.extend(&frame[12..]);
    bytes
}

/// An IPv4 packet of another protocol around `inner`, in Ethernet.
#[must_use]
pub fn carried(protocol: u8, header: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut packet = ipv4_header(protocol, 0, header.len() + inner.len(), (101, 102));
    packet.extend(header);
    packet.extend(inner);
    ethernet(0x0800, &packet)
}

/// A UDP datagram around a tunnel header and `inner`, in IPv4 and Ethernet.
#[must_use]
pub fn tunnelled(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut udp = vec![0xD0, 1];
    udp.extend(port.to_be_bytes());
    udp.extend(length(8 + header.len() + inner.len()));
    udp.extend([0, 0]);
    udp.extend(header);
    carried(17, &udp, inner)
}

/// A frame with its time and captured length.
#[derive(Debug, Clone)]
pub struct Captured {
    /// Nanoseconds of Unix time.
    pub time_ns: u64,
    /// The whole frame.
    pub frame: Vec<u8>,
    /// Number of bytes kept.
    pub kept: usize,
    /// Interface of the capture, if the file has several.
    pub interface: u32,
}

/// Complete frames, a millisecond apart.
#[must_use]
pub fn in_sequence(frames: Vec<Vec<u8>>) -> Vec<Captured> {
    let time = |index: u64| 1_700_000_000_000_000_001 + index * 1_000_000;
    let captured = |(index, frame): (u64, Vec<u8>)| Captured {
        time_ns: time(index),
        kept: frame.len(),
        frame,
        interface: 0,
    };
    (0..).zip(frames).map(captured).collect()
}

/// A pcap file with nanoseconds; `link_type` 1 is Ethernet, 101 raw IP.
#[must_use]
pub fn pcap(link_type: u32, frames: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xA1B2_3C4D_u32, 2 | 4 << 16, 0, 0, 262_144, link_type] {
        file.extend(word.to_le_bytes());
    }
    for captured in frames {
        let (seconds, nanos) = (captured.time_ns / 1_000_000_000, captured.time_ns % 1_000_000_000);
        for word in [seconds as u32, nanos as u32, captured.kept as u32, captured.frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&captured.frame[..captured.kept]);
    }
    file
}

/// A pcapng file in big-endian order with one Ethernet interface per name; times are nanoseconds on
/// the first interface and microseconds on the others.
#[must_use]
pub fn pcapng(interfaces: &[&str], frames: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut header = Vec::new();
    header.extend(0x1A2B_3C4D_u32.to_be_bytes());
    header.extend([0, 1, 0, 0]);
    header.extend(u64::MAX.to_be_bytes());
    block(&mut file, 0x0A0D_0D0A, &header);
    for (index, name) in interfaces.iter().enumerate() {
        let mut body = vec![0, 1, 0, 0, 0, 4, 0, 0];
        option(&mut body, 2, name.as_bytes());
        if index == 0 {
            option(&mut body, 9, &[9]);
        }
        option(&mut body, 0, &[]);
        block(&mut file, 1, &body);
    }
    for captured in frames {
        let ticks = if captured.interface == 0 { captured.time_ns } else { captured.time_ns / 1000 };
        let mut body = captured.interface.to_be_bytes().to_vec();
        body.extend(ticks.to_be_bytes());
        body.extend((captured.kept as u32).to_be_bytes());
        body.extend((captured.frame.len() as u32).to_be_bytes());
        body.extend(&captured.frame[..captured.kept]);
        pad(&mut body);
        block(&mut file, 6, &body);
    }
    file
}

/// Appends the drops of the first interface to a file of [`pcapng`].
#[must_use]
pub fn with_drops(mut file: Vec<u8>, time_ns: u64, dropped: u64) -> Vec<u8> {
    let mut body = 0_u32.to_be_bytes().to_vec();
    body.extend(time_ns.to_be_bytes());
    option(&mut body, 5, &dropped.to_be_bytes());
    option(&mut body, 0, &[]);
    block(&mut file, 5, &body);
    file
}

/// Prepends a Linux cooked header of version 1; `sent` by this host, or received.
#[must_use]
pub fn cooked(sent: bool, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, if sent { 4 } else { 0 }, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(packet);
    bytes
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_be_bytes());
    body.extend(length(value.len()));
    body.extend(value);
    pad(body);
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let total = (12 + body.len()) as u32;
    file.extend(kind.to_be_bytes());
    file.extend(total.to_be_bytes());
    file.extend(body);
    file.extend(total.to_be_bytes());
}
