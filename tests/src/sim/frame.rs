//! Encodes packets as frames.

use flate2::Crc;

use super::packet::{Body, CE, Packet, op};

/// Address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addr {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl Addr {
    /// The address as reports write it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::V4(bytes) => std::net::Ipv4Addr::from(bytes).to_string(),
            Self::V6(bytes) => std::net::Ipv6Addr::from(bytes).to_string(),
        }
    }
}

/// Link layer of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Ethernet, without a tag.
    Ethernet,
    /// Ethernet with an 802.1Q tag: priority and VLAN.
    Vlan(u8, u16),
    /// InfiniBand in ERF records: LRH, BTH and VCRC in place of Ethernet, IP and UDP.
    InfiniBand,
    /// The same without ERF (LINKTYPE_INFINIBAND).
    InfiniBandRaw,
}

impl Layer {
    pub(crate) fn is_infiniband(self) -> bool {
        matches!(self, Self::InfiniBand | Self::InfiniBandRaw)
    }

    /// The opcode on the wire: CNPs of InfiniBand have a different one.
    pub(crate) fn opcode(self, opcode: u8) -> u8 {
        if opcode == op::CNP && self.is_infiniband() { 0x80 } else { opcode }
    }
}

const ICRC: u32 = 4;
const VCRC: u32 = 2;
const ROCE_PORT: u16 = 4791;
/// Length of a segment routing header with two segments (RFC 8754).
const SEGMENTS_LEN: u32 = 8 + 2 * 16;

/// Bytes of the frame on the wire, without FCS.
pub(crate) fn wire_len(packet: &Packet, ends: (Addr, Addr), layer: Layer) -> u32 {
    let ip = if matches!(ends.0, Addr::V4(_)) { 20 } else { 40 };
    let tag = if matches!(layer, Layer::Vlan(..)) { 4 } else { 0 };
    match packet.body {
        Body::Pfc { .. } => 60,
        Body::Other { bytes } => 14 + tag + ip + 8 + bytes,
        Body::Roce if layer.is_infiniband() => 8 + roce_len(packet) + VCRC,
        Body::Roce => 14 + tag + outer_len(packet) + ip + 8 + roce_len(packet),
    }
}

/// Length of the headers in front of the inner IP header.
fn outer_len(packet: &Packet) -> u32 {
    match (packet.outer.is_some(), packet.routing) {
        (false, _) => 0,
        (true, false) => 40,
        (true, true) => 40 + SEGMENTS_LEN,
    }
}

/// Length from BTH to ICRC.
fn roce_len(packet: &Packet) -> u32 {
    12 + packet.ext_len() + packet.payload.next_multiple_of(4) + ICRC
}

/// Appends the frame's first `snap` bytes to `out`.
pub(crate) fn write(packet: &Packet, ends: (Addr, Addr), layer: Layer, snap: u32, out: &mut Vec<u8>) -> u32 {
    let (start, len) = (out.len(), wire_len(packet, ends, layer));
    match packet.body {
        Body::Pfc { priority, quanta } => pfc(packet.src, priority, quanta, out),
        Body::Other { bytes } => {
            ethernet(packet, ends.0, layer, out);
            ip(packet, ends, 8 + bytes, out);
            udp([packet.sport, 20_000], 8 + bytes, out);
        }
        Body::Roce if layer.is_infiniband() => {
            lrh(packet, len, out);
            let bth = out.len();
            roce(packet, out);
            out[bth] = layer.opcode(packet.opcode);
            // FECN corresponds to CE.
            out[bth + 4] |= u8::from(packet.tos & CE == CE) << 7;
            if snap >= len {
                out.resize(start + (len - ICRC - VCRC) as usize, 0);
                finish(packet, start, icrc_local, out);
            }
        }
        Body::Roce => {
            let udp_len = 8 + roce_len(packet);
            ethernet(packet, if packet.outer.is_some() { Addr::V6([0; 16]) } else { ends.0 }, layer, out);
            if let Some(segment) = packet.outer {
                outer(packet, segment, ends.0, udp_len, out);
            }
            let at = out.len();
            ip(packet, ends, udp_len, out);
            udp([packet.sport, ROCE_PORT], udp_len, out);
            roce(packet, out);
            if snap >= len {
                out.resize(start + (len - ICRC) as usize, 0);
                finish(packet, at, |bytes| icrc(bytes, matches!(ends.0, Addr::V6(_))), out);
            }
        }
    }
    // The payload is zeros, up to the snap length.
    out.resize(start + len.min(snap) as usize, 0);
    len
}

/// Appends the ICRC of the bytes from `at` on, taking into account damage in transit.
fn finish(packet: &Packet, at: usize, icrc: impl Fn(&[u8]) -> u32, out: &mut Vec<u8>) {
    let sent = icrc(&out[at..]);
    if packet.altered
        && packet.payload > 0
        && let Some(last) = out.last_mut()
    {
        *last ^= 0x5A;
    }
    let crc = match (packet.corrupt, packet.altered) {
        (true, true) => sent,
        (true, false) => !sent,
        (false, _) => icrc(&out[at..]),
    };
    out.extend(crc.to_le_bytes());
}

fn ethernet(packet: &Packet, version: Addr, layer: Layer, out: &mut Vec<u8>) {
    for host in [packet.dst, packet.src] {
        out.extend([0x02, 0, 0, 0]);
        out.extend((host as u16 + 1).to_be_bytes());
    }
    if let Layer::Vlan(priority, vlan) = layer {
        out.extend([0x81, 0x00]);
        let priority = packet.priority.unwrap_or(priority);
        out.extend((u16::from(priority) << 13 | vlan).to_be_bytes());
    }
    out.extend(if matches!(version, Addr::V4(_)) { [0x08, 0x00] } else { [0x86, 0xDD] });
}

fn outer(packet: &Packet, plane: u16, inner: Addr, udp_len: u32, out: &mut Vec<u8>) {
    const IPV6_ROUTE: u8 = 43;
    let (inner_header, next_header) = if matches!(inner, Addr::V4(_)) { (20, 4) } else { (40, 41) };
    let segment = |end: u16| [[0x5F, 0, 0, 0, 0, 0, 0], [0; 7]].concat().into_iter().chain(end.to_be_bytes());
    out.extend([0x60 | packet.tos >> 4, packet.tos << 4, 0, 0]);
    out.extend(((outer_len(packet) - 40 + udp_len + inner_header) as u16).to_be_bytes());
    out.extend([if packet.routing { IPV6_ROUTE } else { next_header }, 64]);
    out.extend(segment(packet.src as u16 + 1));
    out.extend(segment(plane));
    if packet.routing {
        // Type 4, one segment left of two: the plane is on its way, the switch of the receiver comes last.
        out.extend([next_header, (SEGMENTS_LEN / 8 - 1) as u8, 4, 1, 1, 0, 0, 0]);
        out.extend(segment(0x1000 + packet.dst as u16));
        out.extend(segment(plane));
    }
}

fn ip(packet: &Packet, ends: (Addr, Addr), upper: u32, out: &mut Vec<u8>) {
    match ends {
        (Addr::V4(src), Addr::V4(dst)) => {
            let start = out.len();
            out.extend([0x45, packet.tos]);
            out.extend((upper as u16 + 20).to_be_bytes());
            out.extend(packet.ident.to_be_bytes());
            out.extend([0x40, 0, packet.ttl, 17, 0, 0]);
            out.extend(src);
            out.extend(dst);
            let words =
                out[start..].chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
            let mut sum: u32 = words.sum();
            while sum > 0xFFFF {
                sum = (sum & 0xFFFF) + (sum >> 16);
            }
            out[start + 10..start + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        (src, dst) => {
            out.extend([0x60 | packet.tos >> 4, packet.tos << 4, 0, 0]);
            out.extend((upper as u16).to_be_bytes());
            out.extend([17, packet.ttl]);
            for addr in [src, dst] {
                if let Addr::V6(bytes) = addr {
                    out.extend(bytes);
                }
            }
        }
    }
}

fn udp(ports: [u16; 2], len: u32, out: &mut Vec<u8>) {
    for word in [ports[0], ports[1], len as u16, 0] {
        out.extend(word.to_be_bytes());
    }
}

/// BTH, extended headers, and the payload unless it is zeros.
fn roce(packet: &Packet, out: &mut Vec<u8>) {
    let pad = (packet.payload.next_multiple_of(4) - packet.payload) as u8;
    out.extend([packet.opcode, pad << 4, 0xFF, 0xFF]);
    out.extend((u32::from(packet.becn) << 30 | packet.dest_qp).to_be_bytes());
    out.extend((u32::from(packet.ack_req) << 31 | packet.psn as u32 & 0xFF_FFFF).to_be_bytes());
    if packet.has_reth() {
        out.extend(0x7F00_0000_1000_u64.to_be_bytes());
        out.extend(0x1234_u32.to_be_bytes());
        out.extend(packet.dma_len.to_be_bytes());
    }
    if packet.has_aeth() {
        out.extend((u32::from(packet.aeth.0) << 24 | packet.aeth.1 & 0xFF_FFFF).to_be_bytes());
    }
    match packet.opcode {
        op::FETCH_ADD => {
            out.extend(0x7F00_0000_1000_u64.to_be_bytes());
            out.extend([0; 20]);
        }
        op::ATOMIC_ACK => out.extend([0; 8]),
        op::CNP => out.extend([0; 16]),
        op::UD_SEND_ONLY => {
            out.extend(packet.deth.0.to_be_bytes());
            out.extend(packet.deth.1.to_be_bytes());
        }
        _ => {}
    }
    if packet.has_imm() {
        out.extend([0; 4]);
    }
    if let Some(mad) = &packet.mad {
        out.extend(mad.iter());
    }
}

fn lrh(packet: &Packet, len: u32, out: &mut Vec<u8>) {
    // VL 0, LNH 2: BTH follows. The length is in words, from LRH to ICRC.
    out.extend([0x00, 0x02]);
    out.extend((packet.dst as u16 + 1).to_be_bytes());
    out.extend((((len - VCRC) / 4) as u16).to_be_bytes());
    out.extend((packet.src as u16 + 1).to_be_bytes());
}

fn pfc(src: usize, priority: u8, quanta: u16, out: &mut Vec<u8>) {
    out.extend([0x01, 0x80, 0xC2, 0, 0, 0x01, 0x02, 0, 0, 0]);
    out.extend((src as u16 + 1).to_be_bytes());
    out.extend([0x88, 0x08, 0x01, 0x01, 0, 1 << priority]);
    for class in 0..8 {
        out.extend(if class == priority { quanta } else { 0 }.to_be_bytes());
    }
}

/// The invariant CRC of a packet from its IP header to the end of its payload: CRC-32 over eight bytes of ones and
/// the packet, with fields that routers may change set to ones.
fn icrc(packet: &[u8], v6: bool) -> u32 {
    let mut head = [0xFF_u8; 68];
    let ip = if v6 { 40 } else { 20 };
    let len = ip + 8 + 12;
    head[8..8 + len].copy_from_slice(&packet[..len]);
    let changes: &[usize] = if v6 { &[1, 2, 3, 7] } else { &[1, 8, 10, 11] };
    for at in changes {
        head[8 + at] = 0xFF;
    }
    if v6 {
        head[8] |= 0x0F;
    }
    // UDP checksum; FECN, BECN and reserved bits of the BTH.
    head[8 + ip + 6..8 + ip + 8].fill(0xFF);
    head[8 + ip + 12] = 0xFF;
    let mut crc = Crc::new();
    crc.update(&head[..8 + len]);
    crc.update(&packet[len..]);
    crc.sum()
}

/// The same for an InfiniBand packet without GRH, from its LRH: the virtual lane may change.
fn icrc_local(packet: &[u8]) -> u32 {
    let mut masked = packet.to_vec();
    masked[0] |= 0xF0;
    masked[12] = 0xFF;
    let mut crc = Crc::new();
    crc.update(&masked);
    crc.sum()
}
