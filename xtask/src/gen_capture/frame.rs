//! Encodes frames.

use flate2::Crc;

/// Encapsulation of a connection's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// IPv4.
    V4,
    /// IPv4 with a VLAN tag.
    Vlan(u16),
    /// IPv6.
    V6,
}

/// Both ends of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Number of the sending host, below 65,536.
    pub(crate) src: u16,
    /// Number of the receiving host.
    pub(crate) dst: u16,
    /// UDP source port.
    pub(crate) port: u16,
    pub(crate) wrap: Wrap,
}

/// RoCE packet to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) ends: Ends,
    /// IPv4 `ToS`, IPv6 traffic class.
    pub(crate) tos: u8,
    pub(crate) opcode: u8,
    pub(crate) ack_req: bool,
    pub(crate) becn: bool,
    pub(crate) dest_qp: u32,
    pub(crate) psn: u32,
    /// Extended headers of the packet.
    pub(crate) ext: &'a [u8],
    /// Payload, a multiple of four bytes.
    pub(crate) payload: &'a [u8],
}

const UDP_HEADER: usize = 8;
const BTH: usize = 12;
const ICRC: usize = 4;
const ROCE_PORT: u16 = 4791;

impl Packet<'_> {
    /// Appends the frame's first `snap` bytes to `out` and returns its length on the wire.
    pub(crate) fn write(&self, snap: u32, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let udp_len = UDP_HEADER + BTH + self.ext.len() + self.payload.len() + ICRC;
        ethernet(self.ends, out);
        let ip = out.len();
        ip_header(self.ends, self.tos, length16(udp_len), out);
        let udp = out.len();
        for word in [self.ends.port, ROCE_PORT, length16(udp_len), 0] {
            out.extend(word.to_be_bytes());
        }
        let ack_req = u32::from(self.ack_req) << 31;
        let becn = u32::from(self.becn) << 30;
        out.extend([self.opcode, 0, 0xFF, 0xFF]);
        out.extend((becn | self.dest_qp).to_be_bytes());
        out.extend((ack_req | self.psn).to_be_bytes());
        out.extend(self.ext);
        let wire_len = udp - start + udp_len;
        let keep = wire_len.min(snap as usize);
        let room = (start + keep).saturating_sub(out.len());
        out.extend(&self.payload[..room.min(self.payload.len())]);
        // The ICRC is not computed if it is truncated.
        if keep > wire_len - ICRC {
            let icrc = icrc(&out[ip..], udp - ip, self.ends.wrap);
            out.extend(icrc.to_le_bytes());
        }
        out.truncate(start + keep);
        u32::try_from(wire_len).unwrap_or(u32::MAX)
    }
}

/// Lengths here are at most those of an MTU of 4096 and its headers.
fn length16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn ethernet(ends: Ends, out: &mut Vec<u8>) {
    for host in [ends.dst, ends.src] {
        out.extend([0x02, 0, 0, 0]);
        out.extend(host.to_be_bytes());
    }
    match ends.wrap {
        Wrap::V4 => out.extend([0x08, 0x00]),
        Wrap::V6 => out.extend([0x86, 0xDD]),
        Wrap::Vlan(tci) => {
            out.extend([0x81, 0x00]);
            out.extend(tci.to_be_bytes());
            out.extend([0x08, 0x00]);
        }
    }
}

fn ip_header(ends: Ends, tos: u8, upper_len: u16, out: &mut Vec<u8>) {
    if ends.wrap == Wrap::V6 {
        out.extend([0x60 | tos >> 4, tos << 4, 0, 0]);
        out.extend(upper_len.to_be_bytes());
        out.extend([17, 64]);
        for host in [ends.src, ends.dst] {
            // The IPv6 prefix for documentation.
            out.extend([0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            out.extend(host.to_be_bytes());
        }
        return;
    }
    let start = out.len();
    out.extend([0x45, tos]);
    out.extend(upper_len.saturating_add(20).to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    for host in [ends.src, ends.dst] {
        out.extend([10, 0]);
        out.extend(host.to_be_bytes());
    }
    let sum: u32 =
        out[start..].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let [_, _, a, b] = (!((folded & 0xFFFF) + (folded >> 16))).to_be_bytes();
    out[start + 10] = a;
    out[start + 11] = b;
}

/// The invariant CRC over a packet from its IP header to the end of its payload: fields that change in transit count
/// as ones, as does a link header of eight bytes.
fn icrc(packet: &[u8], udp: usize, wrap: Wrap) -> u32 {
    let mut head = [0xFF; 8 + 40 + UDP_HEADER + BTH];
    let len = udp + UDP_HEADER + BTH;
    head[8..8 + len].copy_from_slice(&packet[..len]);
    let ip = &mut head[8..];
    if wrap == Wrap::V6 {
        // Traffic class, flow label, hop limit.
        ip[0] |= 0x0F;
        ip[1..4].fill(0xFF);
        ip[7] = 0xFF;
    } else {
        // ToS, TTL, header checksum.
        ip[1] = 0xFF;
        ip[8] = 0xFF;
        ip[10..12].fill(0xFF);
    }
    // UDP checksum, and the BTH's byte of notification bits.
    ip[udp + 6..udp + 8].fill(0xFF);
    ip[udp + UDP_HEADER + 4] = 0xFF;
    let mut crc = Crc::new();
    crc.update(&head[..8 + len]);
    crc.update(&packet[len..]);
    crc.sum()
}

/// A frame that is not RoCE: UDP to an unassigned port, with `payload`.
pub(crate) fn other(ends: Ends, payload: &[u8], snap: u32, out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    ethernet(ends, out);
    let udp_len = length16(UDP_HEADER + payload.len());
    ip_header(ends, 0, udp_len, out);
    for word in [ends.port, 20_000, udp_len, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(payload);
    let wire_len = out.len() - start;
    out.truncate(start + wire_len.min(snap as usize));
    u32::try_from(wire_len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_icrc_is_that_of_a_known_packet() {
        // An RC SEND ONLY of Soft-RoCE to QP 0x11, PSN 0, with four zero bytes, written by hand, with its checksum
        // computed bit by bit from the specification.
        let ends = Ends { src: 1, dst: 2, port: 0xC000, wrap: Wrap::V4 };
        let packet = Packet {
            ends,
            tos: 0,
            opcode: 0x04,
            ack_req: true,
            becn: false,
            dest_qp: 0x11,
            psn: 0,
            ext: &[],
            payload: &[0; 4],
        };
        let mut out = Vec::new();
        assert_eq!(packet.write(u32::MAX, &mut out), 14 + 20 + 8 + 12 + 4 + 4);
        let (body, icrc) = out.split_at(out.len() - 4);
        let mut pseudo = vec![0xFF; 8];
        pseudo.extend(&body[14..]);
        for at in [1, 8, 10, 11, 26, 27, 32] {
            pseudo[8 + at] = 0xFF;
        }
        let mut crc = u32::MAX;
        for byte in pseudo {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            }
        }
        assert_eq!(icrc, (!crc).to_le_bytes());
        // The payload for the lower layers.
        let sum: u32 = out[14..34].chunks(2).map(|p| u32::from(p[0]) << 8 | u32::from(p[1])).sum();
        assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "header checksum");
    }

    #[test]
    fn a_snapped_frame_is_the_start_of_the_whole_one() {
        for wrap in [Wrap::V4, Wrap::V6, Wrap::Vlan(0x6005)] {
            let packet = Packet {
                ends: Ends { src: 300, dst: 4, port: 50_000, wrap },
                tos: 0x6A,
                opcode: 0x0A,
                ack_req: false,
                becn: false,
                dest_qp: 0x12_3456,
                psn: 0xFF_FFFF,
                ext: &[7; 16],
                payload: &[9; 64],
            };
            let mut whole = Vec::new();
            let wire_len = packet.write(u32::MAX, &mut whole);
            assert_eq!(whole.len(), wire_len as usize);
            for snap in 1..=wire_len {
                let mut cut = Vec::new();
                assert_eq!(packet.write(snap, &mut cut), wire_len);
                assert_eq!(cut, whole[..snap as usize], "{wrap:?} {snap}");
            }
        }
    }
}
