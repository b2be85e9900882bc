//! RoCEv2 frames as an adapter would send them: outer headers, BTH, extended headers, payload,
//! pad and ICRC. Pure; shares no code with the parser, so that each can be tested against the other.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader, UdpHeader,
    VlanId, VlanPcp,
};
use rocescope_common::wire::PORT_ROCE;
use rocescope_common::wire::bth::MASK24;

/// The largest InfiniBand path MTU, in bytes.
pub const MAX_PAYLOAD: usize = 4096;

const BTH_LEN: usize = 12;
const ICRC_LEN: usize = 4;
const UDP_LEN: usize = 8;
const DEFAULT_PKEY: [u8; 2] = [0xFF, 0xFF];
const BECN: u8 = 0x40;

/// A pair of network addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4 source and destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6 source and destination.
    V6(Ipv6Addr, Ipv6Addr),
}

/// VLAN tag (802.1Q) of made-up frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// VLAN id, 0 to 4095.
    pub id: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
}

/// The headers around the transport: what all packets of one direction of a connection share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
    /// VLAN tag, if any.
    pub vlan: Option<Vlan>,
    /// IP addresses of both ends.
    pub addresses: Addresses,
    /// UDP source port.
    pub src_port: u16,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
}

/// RDMA extended transport header: where a WRITE or READ starts, and how long the message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address at the responder.
    pub address: u64,
    /// Remote key (`R_Key`) of the memory region.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub length: u32,
}

/// The syndrome of an ACKNOWLEDGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive, without credit limit.
    Ack,
    /// RNR NAK, with its timer code (0 to 31).
    Rnr(u8),
    /// NAK, with its code: 0 for a PSN sequence error.
    Nak(u8),
}

/// Operation, with the contents of its extended headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// First packet of an RDMA WRITE.
    WriteFirst(Reth),
    /// Neither first nor last.
    WriteMiddle,
    /// Last packet.
    WriteLast,
    /// Last packet, with immediate data that completes a receive at the other end.
    WriteLastImm(u32),
    /// RDMA WRITE of one packet.
    WriteOnly(Reth),
    /// RDMA WRITE of one packet with immediate data.
    WriteOnlyImm(Reth, u32),
    /// RDMA READ request.
    ReadRequest(Reth),
    /// ACK, NAK or RNR NAK, with the message sequence number.
    Acknowledge(Syndrome, u32),
    /// Congestion notification packet.
    Cnp,
}

impl Operation {
    /// The BTH opcode (RC transport, and 0x81 for the CNP).
    pub const fn opcode(self) -> u8 {
        match self {
            Self::WriteFirst(_) => 0x06,
            Self::WriteMiddle => 0x07,
            Self::WriteLast => 0x08,
            Self::WriteLastImm(_) => 0x09,
            Self::WriteOnly(_) => 0x0A,
            Self::WriteOnlyImm(..) => 0x0B,
            Self::ReadRequest(_) => 0x0C,
            Self::Acknowledge(..) => 0x11,
            Self::Cnp => 0x81,
        }
    }

    fn extended_headers(self, out: &mut Vec<u8>) {
        match self {
            Self::WriteFirst(reth) | Self::WriteOnly(reth) | Self::ReadRequest(reth) => reth.write(out),
            Self::WriteOnlyImm(reth, immediate) => {
                reth.write(out);
                out.extend(immediate.to_be_bytes());
            }
            Self::WriteLastImm(immediate) => out.extend(immediate.to_be_bytes()),
            Self::WriteMiddle | Self::WriteLast => {}
            Self::Acknowledge(syndrome, msn) => {
                out.push(syndrome.byte());
                out.extend(bytes24(msn));
            }
            Self::Cnp => out.extend([0; 16]),
        }
    }
}

impl Reth {
    fn write(self, out: &mut Vec<u8>) {
        out.extend(self.address.to_be_bytes());
        out.extend(self.rkey.to_be_bytes());
        out.extend(self.length.to_be_bytes());
    }
}

impl Syndrome {
    /// The AETH's first byte. Credit code 31 means that there is no limit.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ack => 0x1F,
            Self::Rnr(timer) => 0x20 | (timer & 0x1F),
            Self::Nak(code) => 0x60 | (code & 0x1F),
        }
    }
}

/// One packet to be built.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Headers around the transport.
    pub route: &'a Route,
    /// IPv4 ToS or IPv6 traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// IPv4 identification; not used with IPv6.
    pub identification: u16,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// The acknowledgement request bit.
    pub ack_req: bool,
    /// Operation and extended headers.
    pub operation: Operation,
    /// Payload, cut off at [`MAX_PAYLOAD`].
    pub payload: &'a [u8],
}

/// Builds the frame, without FCS.
pub fn roce(packet: &Packet<'_>) -> Vec<u8> {
    let payload = &packet.payload[..packet.payload.len().min(MAX_PAYLOAD)];
    let pad = payload.len().wrapping_neg() & 3;

    let mut transport = Vec::with_capacity(BTH_LEN + 32 + payload.len() + pad + ICRC_LEN);
    transport.extend(bth(packet, pad));
    packet.operation.extended_headers(&mut transport);
    transport.extend(payload);
    transport.extend(&[0u8; 3][..pad]);

    let udp_len = u16::try_from(UDP_LEN + transport.len() + ICRC_LEN).unwrap_or(u16::MAX);
    let udp = UdpHeader {
        source_port: packet.route.src_port,
        destination_port: PORT_ROCE,
        length: udp_len,
        checksum: 0,
    }
    .to_bytes();
    let network = network(packet, udp_len);
    let crc = icrc(&network, udp, &transport);

    let mut frame = Vec::with_capacity(18 + network.len() + udp.len() + transport.len() + ICRC_LEN);
    link(packet.route, &mut frame);
    frame.extend(network);
    frame.extend(udp);
    frame.extend(transport);
    frame.extend(crc);
    frame
}

fn bth(packet: &Packet<'_>, pad: usize) -> [u8; BTH_LEN] {
    let mut bth = [0; BTH_LEN];
    bth[0] = packet.operation.opcode();
    bth[1] = u8::try_from(pad << 4).unwrap_or_default();
    bth[2..4].copy_from_slice(&DEFAULT_PKEY);
    bth[4] = if packet.operation == Operation::Cnp { BECN } else { 0 };
    bth[5..8].copy_from_slice(&bytes24(packet.dest_qp));
    bth[8] = u8::from(packet.ack_req) << 7;
    bth[9..12].copy_from_slice(&bytes24(packet.psn));
    bth
}

fn bytes24(number: u32) -> [u8; 3] {
    let [_, a, b, c] = (number & MASK24).to_be_bytes();
    [a, b, c]
}

fn link(route: &Route, out: &mut Vec<u8>) {
    let inner = match route.addresses {
        Addresses::V4(..) => EtherType::IPV4,
        Addresses::V6(..) => EtherType::IPV6,
    };
    let ether_type = if route.vlan.is_some() { EtherType::VLAN_TAGGED_FRAME } else { inner };
    let ethernet = Ethernet2Header { source: route.src_mac, destination: route.dst_mac, ether_type };
    out.extend(ethernet.to_bytes());
    if let Some(vlan) = route.vlan {
        let tag = SingleVlanHeader {
            pcp: VlanPcp::try_new(vlan.pcp & 7).unwrap_or_default(),
            drop_eligible_indicator: false,
            vlan_id: VlanId::try_new(vlan.id & 0x0FFF).unwrap_or_default(),
            ether_type: inner,
        };
        out.extend(tag.to_bytes());
    }
}

fn network(packet: &Packet<'_>, payload_len: u16) -> Vec<u8> {
    match packet.route.addresses {
        Addresses::V4(src, dst) => {
            let mut header = Ipv4Header {
                dscp: IpDscp::try_new(packet.tos >> 2).unwrap_or_default(),
                ecn: IpEcn::try_new(packet.tos & 3).unwrap_or_default(),
                total_len: payload_len.saturating_add(20),
                identification: packet.identification,
                dont_fragment: true,
                time_to_live: packet.route.hop_limit,
                protocol: IpNumber::UDP,
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv4Header::default()
            };
            header.header_checksum = header.calc_header_checksum();
            header.to_bytes().to_vec()
        }
        Addresses::V6(src, dst) => Ipv6Header {
            traffic_class: packet.tos,
            payload_length: payload_len,
            next_header: IpNumber::UDP,
            hop_limit: packet.route.hop_limit,
            source: src.octets(),
            destination: dst.octets(),
            ..Ipv6Header::default()
        }
        .to_bytes()
        .to_vec(),
    }
}

/// CRC-32 over eight bytes of ones (in place of a link-layer header that RoCE does not have) and
/// the packet from its IP header on, where fields that routers change count as ones. Sent with the
/// least significant byte first.
fn icrc(network: &[u8], udp: [u8; UDP_LEN], transport: &[u8]) -> [u8; ICRC_LEN] {
    let mut masked = [0xFF; 8 + Ipv6Header::LEN + UDP_LEN + BTH_LEN];
    let (ip_at, udp_at) = (8, 8 + network.len());
    let bth_at = udp_at + UDP_LEN;
    masked[ip_at..udp_at].copy_from_slice(network);
    if network[0] >> 4 == 4 {
        // Type of service, time to live, header checksum.
        for at in [1, 8, 10, 11] {
            masked[ip_at + at] = 0xFF;
        }
    } else {
        // Traffic class, flow label, hop limit.
        masked[ip_at] |= 0x0F;
        for at in [1, 2, 3, 7] {
            masked[ip_at + at] = 0xFF;
        }
    }
    masked[udp_at..udp_at + 6].copy_from_slice(&udp[..6]);
    masked[udp_at + 6..bth_at].fill(0xFF);
    masked[bth_at..bth_at + BTH_LEN].copy_from_slice(&transport[..BTH_LEN]);
    // FECN, BECN and the reserved bits beside them.
    masked[bth_at + 4] = 0xFF;

    let mut crc = flate2::Crc::new();
    crc.update(&masked[..bth_at + BTH_LEN]);
    crc.update(&transport[BTH_LEN..]);
    crc.sum().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use rocescope_common::wire::frame::{Entry, Frame, Full, Meta, Tag, UNKNOWN, parse};
    use rocescope_common::wire::icrc;

    use super::*;

    const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    const RETH: Reth = Reth { address: 0x1122_3344_5566_7788, rkey: 0x99AA_BBCC, length: 70_000 };

    fn route(addresses: Addresses, vlan: Option<Vlan>) -> Route {
        Route { src_mac: MACS.0, dst_mac: MACS.1, vlan, addresses, src_port: 50_123, hop_limit: 33 }
    }

    fn v4() -> Addresses {
        Addresses::V4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 7))
    }

    fn v6() -> Addresses {
        Addresses::V6("2001:db8::1".parse().unwrap(), "2001:db8:ff::2".parse().unwrap())
    }

    fn parsed(bytes: &[u8]) -> Frame {
        let wire_len = u32::try_from(bytes.len()).unwrap();
        let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len, tag: Tag::NONE };
        parse::<Full>(&bytes, meta, &mut ()).unwrap()
    }

    #[test]
    fn every_operation_reads_back_as_asked_for() {
        let aeth = |byte: u32| byte << 24 | 0x0A_0B0C;
        let operations = [
            (Operation::WriteFirst(RETH), 16, UNKNOWN, RETH.length),
            (Operation::WriteMiddle, 0, UNKNOWN, UNKNOWN),
            (Operation::WriteLast, 0, UNKNOWN, UNKNOWN),
            (Operation::WriteLastImm(7), 4, UNKNOWN, UNKNOWN),
            (Operation::WriteOnly(RETH), 16, UNKNOWN, RETH.length),
            (Operation::WriteOnlyImm(RETH, 7), 20, UNKNOWN, RETH.length),
            (Operation::ReadRequest(RETH), 16, UNKNOWN, RETH.length),
            (Operation::Acknowledge(Syndrome::Ack, 0x0A_0B0C), 4, aeth(0x1F), UNKNOWN),
            (Operation::Acknowledge(Syndrome::Rnr(12), 0x0A_0B0C), 4, aeth(0x2C), UNKNOWN),
            (Operation::Acknowledge(Syndrome::Nak(0), 0x0A_0B0C), 4, aeth(0x60), UNKNOWN),
            (Operation::Cnp, 16, UNKNOWN, UNKNOWN),
        ];
        let vlan = Some(Vlan { id: 0x0ABC, pcp: 5 });
        for (addresses, vlan) in [(v4(), None), (v6(), None), (v4(), vlan), (v6(), vlan)] {
            let route = route(addresses, vlan);
            for (operation, extended, aeth, dma_len) in operations {
                let with_payload = !matches!(
                    operation,
                    Operation::Acknowledge(..) | Operation::Cnp | Operation::ReadRequest(_)
                );
                for len in if with_payload { 0..6 } else { 0..1 } {
                    let payload = vec![0x5A; len];
                    let bytes = roce(&Packet {
                        route: &route,
                        tos: 0x6B,
                        identification: 99,
                        dest_qp: 0x00AB_CDEF,
                        psn: 0x00FE_DCBA,
                        ack_req: len % 2 == 0,
                        operation,
                        payload: &payload,
                    });
                    let frame = parsed(&bytes);
                    let what = format!("{operation:?}, {len} bytes of payload");
                    assert_eq!(icrc::check(&bytes, &frame), Some(true), "{what}");
                    assert_eq!((frame.opcode, frame.tos), (operation.opcode(), 0x6B), "{what}");
                    assert_eq!((frame.dest_qp, frame.psn), (0x00AB_CDEF, 0x00FE_DCBA), "{what}");
                    assert_eq!((frame.src_port, frame.ack_req), (50_123, len % 2 == 0), "{what}");
                    assert_eq!((frame.aeth, frame.dma_len), (aeth, dma_len), "{what}");
                    assert_eq!(frame.payload as usize, len, "{what}");
                    assert_eq!((frame.vlan, frame.pcp), vlan.map_or((0, 255), |v| (v.id, v.pcp)), "{what}");
                    let ip = if frame.family == 4 { 20 } else { 40 };
                    let tag = if vlan.is_some() { 4 } else { 0 };
                    let whole = 14 + tag + ip + 8 + 12 + extended + len.next_multiple_of(4) + 4;
                    assert_eq!(bytes.len(), whole, "{what}");
                }
            }
        }
    }

    #[test]
    fn a_payload_beyond_the_largest_path_mtu_is_cut() {
        let route = route(v4(), None);
        let payload = vec![1; MAX_PAYLOAD + 1];
        let packet = Packet {
            route: &route,
            tos: 0,
            identification: 0,
            dest_qp: 5,
            psn: 0,
            ack_req: false,
            operation: Operation::WriteMiddle,
            payload: &payload,
        };
        assert_eq!(parsed(&roce(&packet)).payload as usize, MAX_PAYLOAD);
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    /// The READ request of `InfiniBandPacket.dat` among PcapPlusPlus's packet examples
    /// (Unlicense), captured from Soft-RoCE.
    #[test]
    fn a_read_request_captured_from_soft_roce() {
        let route = Route {
            src_mac: [0x00, 0x0C, 0x29, 0x89, 0xA2, 0xE5],
            dst_mac: [0x00, 0x0C, 0x29, 0xAE, 0x1C, 0xA4],
            vlan: None,
            addresses: Addresses::V4(Ipv4Addr::new(192, 168, 56, 129), Ipv4Addr::new(192, 168, 56, 131)),
            src_port: 57_236,
            hop_limit: 64,
        };
        let bytes = roce(&Packet {
            route: &route,
            tos: 0,
            identification: 0xBE10,
            dest_qp: 0x11,
            psn: 0x0054_CB63,
            ack_req: true,
            operation: Operation::ReadRequest(Reth {
                address: 0x0000_7FEE_260F_B000,
                rkey: 0x0000_02B8,
                length: 65_536,
            }),
            payload: &[],
        });
        let expected = "000c29ae1ca4000c2989a2e50800\
            4500003cbe10400040118a4bc0a83881c0a83883\
            df9412b700280000\
            0c00ffff000000118054cb63\
            00007fee260fb000000002b800010000\
            08c6154a";
        assert_eq!(bytes, hex(expected));
    }

    /// Mellanox's published example of a CNP, as a BSD-licensed test of connection tracking quotes
    /// it. The ICRC printed in the article itself does not belong to these bytes.
    #[test]
    fn the_published_example_of_a_cnp() {
        let route = Route {
            src_mac: MACS.0,
            dst_mac: MACS.1,
            vlan: None,
            addresses: Addresses::V4(Ipv4Addr::new(22, 22, 22, 8), Ipv4Addr::new(22, 22, 22, 7)),
            src_port: 56_238,
            hop_limit: 32,
        };
        let bytes = roce(&Packet {
            route: &route,
            tos: 0x89,
            identification: 0x98C6,
            dest_qp: 0xD2,
            psn: 0,
            ack_req: false,
            operation: Operation::Cnp,
            payload: &[],
        });
        let expected = "4589003c98c64000201169271616160816161607\
            dbae12b700280000\
            8100ffff400000d200000000\
            00000000000000000000000000000000\
            dafc1bef";
        assert_eq!(bytes[14..], hex(expected));
    }
}
