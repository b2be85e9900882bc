//! Crafted frames for cases without a public capture.
//!
//! Addresses are from the ranges for documentation. Every packet has a correct ICRC unless it is truncated.

#![expect(
    clippy::cast_possible_truncation,
    reason = "frames of tests are far below the limits of their length fields"
)]

use crate::capture_file::{ETHERNET, Order, Pcap, PcapNg};
use crate::craft::{self, Net, Transport, Typed};

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
pub fn reth(length: u32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x7F, 0, 0, 0, 0x10, 0, 0, 0, 3, 0xA3];
    bytes.extend(length.to_be_bytes());
    bytes
}

/// AETH with a syndrome and a message sequence number of 1.
pub fn aeth(syndrome: u8) -> Vec<u8> {
    vec![syndrome, 0, 0, 1]
}

impl Roce {
    fn transport(&self) -> Transport {
        let payload = vec![0xA5; self.payload];
        Transport::new(self.opcode, self.dest_qp, self.psn).ext(self.extended.clone()).payload(payload)
    }

    /// The packet from its IPv4 header to its ICRC.
    pub fn ipv4(&self) -> Vec<u8> {
        ipv4(self.class, self.ends).roce(self.src_port, &self.transport()).bytes
    }

    /// The packet from its IPv6 header to its ICRC.
    pub fn ipv6(&self) -> Vec<u8> {
        let net = Net::v6(self.ends.0.into(), self.ends.1.into()).tos(self.class);
        net.roce(self.src_port, &self.transport()).bytes
    }

    /// The RoCEv1 packet from its GRH to its ICRC.
    pub fn grh(&self) -> Vec<u8> {
        let gid = |end| [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end];
        craft::roce_v1(gid(self.ends.0), gid(self.ends.1), self.class, &self.transport()).bytes
    }
}

fn ipv4(class: u8, ends: (u8, u8)) -> Net {
    Net { id: 7, ..Net::v4([192, 0, 2, ends.0], [192, 0, 2, ends.1]).tos(class) }
}

/// Prepends an Ethernet header.
pub fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    craft::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], &Typed::new(ethertype, packet.to_vec()))
}

/// Inserts a tag after the addresses of an Ethernet frame; `tpid` is 0x8100 or 0x88A8.
pub fn tagged(tpid: u16, priority: u16, id: u16, frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    bytes.extend(tpid.to_be_bytes());
    bytes.extend((priority << 13 | id).to_be_bytes());
    bytes.extend(&frame[12..]);
    bytes
}

/// An IPv4 packet of another protocol around `inner`, in Ethernet.
pub fn carried(protocol: u8, header: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(0, (101, 102)).wrap(protocol, &[header, inner].concat()).bytes)
}

/// A UDP datagram around a tunnel header and `inner`, in IPv4 and Ethernet.
pub fn tunnelled(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    carried(17, &[], &craft::udp(0xD001, port, &[header, inner].concat()))
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

/// A pcap file with nanoseconds.
pub fn pcap(link_type: u16, frames: &[Captured]) -> Vec<u8> {
    let mut file = Pcap::new(Order::Little, true, link_type);
    for Captured { time_ns, frame, kept, .. } in frames {
        file.start_of_packet(*time_ns, frame, *kept);
    }
    file.finish()
}

/// A pcapng file in big-endian order with one Ethernet interface per name; times are nanoseconds on
/// the first interface and microseconds on the others.
pub fn pcapng(interfaces: &[&str], frames: &[Captured]) -> PcapNg {
    let mut file = PcapNg::new(Order::Big);
    for (index, name) in interfaces.iter().enumerate() {
        file.interface(Some(name), ETHERNET, (index == 0).then_some(9));
    }
    for Captured { time_ns, frame, kept, interface } in frames {
        file.packet(*interface, *time_ns, &frame[..*kept], Some(frame.len() as u32));
    }
    file
}

/// Prepends a Linux cooked header of version 1; `sent` by this host, or received.
pub fn cooked(sent: bool, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, if sent { 4 } else { 0 }, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(packet);
    bytes
}
