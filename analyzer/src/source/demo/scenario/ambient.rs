//! Frames that are not RoCE: every real link has some, and the analyzer must count them as skipped.

use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, Ethernet2Header, IpNumber, Ipv4Header, TcpHeader,
};

use super::fabric::{Uplink, host, host_mac, switch_mac};
use crate::sample::Direction;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Request for the switch's address, or the reply.
    Arp,
    /// LLDP frame with the switch's identity.
    Lldp,
    /// A segment of a control connection, by number.
    Tcp(u32),
}

/// Frames are padded to this, as on a wire.
const MIN_FRAME: usize = 60;
const CONTROL_PORT: u16 = 29_500;
const CLIENT_PORT: u16 = 41_212;
const SEGMENT: usize = 48;

/// Builds a frame of a kind.
pub(super) fn frame(uplink: Uplink, direction: Direction, kind: FrameKind) -> Vec<u8> {
    let (mine, switch) = (host_mac(uplink), switch_mac(uplink));
    let (source, destination) = match direction {
        Direction::Egress => (mine, switch),
        Direction::Ingress => (switch, mine),
    };
    let mut frame = match kind {
        FrameKind::Arp => arp(uplink, direction, source, destination),
        FrameKind::Lldp => lldp(uplink, source),
        FrameKind::Tcp(number) => tcp(direction, source, destination, number),
    };
    if frame.len() < MIN_FRAME {
        frame.resize(MIN_FRAME, 0);
    }
    frame
}

fn ethernet(source: [u8; 6], destination: [u8; 6], ether_type: EtherType) -> Vec<u8> {
    Ethernet2Header { source, destination, ether_type }.to_bytes().to_vec()
}

fn arp(uplink: Uplink, direction: Direction, source: [u8; 6], destination: [u8; 6]) -> Vec<u8> {
    let [a, b, c, _] = host().octets();
    let switch_ip = [a, b, c, 253 + u8::try_from(uplink.index()).unwrap_or_default()];
    let (operation, sender, target, to) = match direction {
        Direction::Egress => (ArpOperation::REQUEST, host().octets(), switch_ip, [0xFF; 6]),
        Direction::Ingress => (ArpOperation::REPLY, switch_ip, host().octets(), destination),
    };
    let target_mac = if operation == ArpOperation::REQUEST { [0; 6] } else { destination };
    let mut frame = ethernet(source, to, EtherType::ARP);
    // Fails only on wrong lengths, and these are the lengths of the slices.
    if let Ok(packet) = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        operation,
        &source,
        &sender,
        &target_mac,
        &target,
    ) {
        frame.extend(packet.to_bytes());
    }
    frame
}

fn lldp(uplink: Uplink, source: [u8; 6]) -> Vec<u8> {
    const TO_NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E];
    const LLDP: EtherType = EtherType(0x88CC);
    let mut frame = ethernet(source, TO_NEAREST_BRIDGE, LLDP);
    let port = match uplink {
        Uplink::Rail0 => b"swp11",
        Uplink::Rail1 => b"swp12",
    };
    // Chassis id by MAC address, port id by interface name, time to live of 120 s, system name, end.
    frame.extend([0x02, 7, 4]);
    frame.extend(source);
    frame.extend([0x04, 6, 5]);
    frame.extend(port);
    frame.extend([0x06, 2, 0, 120]);
    frame.extend([0x0A, 5]);
    frame.extend(b"leaf1");
    frame.extend([0, 0]);
    frame
}

fn tcp(direction: Direction, source: [u8; 6], destination: [u8; 6], number: u32) -> Vec<u8> {
    let peer = [10, 40, 2, 21];
    let (src, dst, from, to) = match direction {
        Direction::Egress => (host().octets(), peer, CLIENT_PORT, CONTROL_PORT),
        Direction::Ingress => (peer, host().octets(), CONTROL_PORT, CLIENT_PORT),
    };
    let payload = [b'.'; SEGMENT];
    let sequence = number.wrapping_mul(u32::try_from(SEGMENT).unwrap_or_default());
    let mut segment = TcpHeader::new(from, to, sequence, 502);
    segment.ack = true;
    segment.acknowledgment_number = sequence;
    segment.psh = true;
    segment.checksum = segment.calc_checksum_ipv4_raw(src, dst, &payload).unwrap_or_default();
    let length = u16::try_from(segment.header_len() + SEGMENT).unwrap_or_default();
    let mut frame = ethernet(source, destination, EtherType::IPV4);
    // Fails only on lengths beyond IPv4's maximum, and this one is far below it.
    if let Ok(mut ip) = Ipv4Header::new(length, 64, IpNumber::TCP, src, dst) {
        ip.header_checksum = ip.calc_header_checksum();
        frame.extend(ip.to_bytes());
    }
    frame.extend(segment.to_bytes());
    frame.extend(payload);
    frame
}
