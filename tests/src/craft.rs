//! Frames for tests, built byte by byte from typed fields.
//!
//! Shares no code with the parser under test nor with the demonstration's generator: it follows only the RFCs and
//! public descriptions, so that an error would have to be made twice. Layers are functions from the inner bytes to
//! the bytes of the whole:
//!
//! ```
//! use rocescope_tests::craft::{self, Mac, Net, Transport};
//! let packet = Net::v4([10, 0, 0, 1], [10, 0, 0, 2]).roce(50_000, &Transport::new(0x0A, 17, 3));
//! let frame = craft::ethernet(Mac::SRC, Mac::DST, &craft::vlan(0x8100, 0x6000 | 42, &packet));
//! assert_eq!(frame[12..14], [0x81, 0x00]);
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86DD;
/// Ethertype of RoCEv1.
pub const ROCE_V1: u16 = 0x8915;
/// Ethernet inside GRE.
pub const TEB: u16 = 0x6558;

/// Arbitrary MAC addresses.
#[derive(Clone, Copy, Debug)]
pub struct Mac;

impl Mac {
    /// A source.
    pub const SRC: [u8; 6] = [0x02, 0xAA, 0, 0, 0, 1];
    /// A destination.
    pub const DST: [u8; 6] = [0x02, 0xBB, 0, 0, 0, 2];
}

/// Bytes with their ethertype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Ethertype of `bytes`.
    pub ethertype: u16,
    /// Bytes from the first byte of the layer on.
    pub bytes: Vec<u8>,
}

impl Typed {
    /// Bytes under an ethertype.
    pub fn new(ethertype: u16, bytes: Vec<u8>) -> Self {
        Self { ethertype, bytes }
    }
}

/// The ICRC of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icrc {
    /// The correct value.
    Right,
    /// The correct value with one bit flipped.
    Wrong,
    /// These bytes.
    Bytes([u8; 4]),
}

/// BTH and the rest of the packet. Fields contain the values on the wire, valid or not.
#[expect(clippy::struct_excessive_bools, reason = "the header has these bits")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Operation code.
    pub opcode: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state.
    pub migreq: bool,
    /// Pad count; `None` to pad the payload to a multiple of four.
    pub pad: Option<u8>,
    /// Transport version, 4 bits.
    pub version: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward notification bit.
    pub fecn: bool,
    /// Backward notification bit.
    pub becn: bool,
    /// The six bits beside them.
    pub reserved: u8,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// Acknowledge request bit.
    pub ack_req: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// Extended headers as they are on the wire.
    pub ext: Vec<u8>,
    /// Payload without pad.
    pub payload: Vec<u8>,
    /// Checksum at the end.
    pub icrc: Icrc,
}

impl Transport {
    /// A packet without extended headers and payload, and usual values elsewhere.
    pub fn new(opcode: u8, dest_qp: u32, psn: u32) -> Self {
        Self {
            opcode,
            solicited: false,
            migreq: false,
            pad: None,
            version: 0,
            pkey: 0xFFFF,
            fecn: false,
            becn: false,
            reserved: 0,
            dest_qp,
            ack_req: false,
            psn,
            ext: Vec::new(),
            payload: Vec::new(),
            icrc: Icrc::Right,
        }
    }

    /// Adds extended headers.
    #[must_use]
    pub fn ext(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.ext = bytes.into();
        self
    }

    /// Adds a payload.
    #[must_use]
    pub fn payload(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.payload = bytes.into();
        self
    }

    /// A CNP as ConnectX NICs send it.
    pub fn cnp(dest_qp: u32) -> Self {
        Self { becn: true, ..Self::new(0x81, dest_qp, 0).ext([0; 16]) }
    }

    /// An ACKNOWLEDGE with this AETH.
    pub fn ack(dest_qp: u32, psn: u32, syndrome: u8, msn: u32) -> Self {
        Self::new(0x11, dest_qp, psn).ext(aeth(syndrome, msn))
    }

    /// All bytes except the ICRC.
    fn bytes(&self) -> Vec<u8> {
        let padding = self.payload.len().wrapping_neg() % 4;
        let pad = self.pad.unwrap_or(padding as u8);
        let flags = u8::from(self.solicited) << 7 | u8::from(self.migreq) << 6;
        let ecn = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        let mut out = vec![self.opcode, flags | (pad & 3) << 4 | self.version & 15];
        out.extend(self.pkey.to_be_bytes());
        out.extend((u32::from(ecn | self.reserved & 0x3F) << 24 | self.dest_qp & 0xFF_FFFF).to_be_bytes());
        out.extend((u32::from(self.ack_req) << 31 | self.psn & 0xFF_FFFF).to_be_bytes());
        out.extend(&self.ext);
        out.extend(&self.payload);
        out.extend(vec![0; if self.pad.is_some() { usize::from(pad) } else { padding }]);
        out
    }

    /// Computes the ICRC over `covered` (IP and UDP, or the GRH; already masked) and the transport.
    fn with_icrc(&self, mut covered: Vec<u8>, transport: &[u8]) -> [u8; 4] {
        let bth = covered.len() + 4;
        covered.extend(transport);
        covered[bth] = 0xFF;
        let mut icrc = crc32(&[&[0xFF; 8], covered.as_slice()].concat()).to_le_bytes();
        match self.icrc {
            Icrc::Right => {}
            Icrc::Wrong => icrc[0] ^= 1,
            Icrc::Bytes(bytes) => icrc = bytes,
        }
        icrc
    }
}

/// RDMA extended transport header.
pub fn reth(address: u64, rkey: u32, length: u32) -> Vec<u8> {
    [&address.to_be_bytes()[..], &rkey.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// Acknowledge extended transport header.
pub fn aeth(syndrome: u8, msn: u32) -> Vec<u8> {
    (u32::from(syndrome) << 24 | msn & 0xFF_FFFF).to_be_bytes().to_vec()
}

/// Datagram extended transport header.
pub fn deth(qkey: u32, src_qp: u32) -> Vec<u8> {
    [qkey.to_be_bytes(), (src_qp & 0xFF_FFFF).to_be_bytes()].concat()
}

/// CRC-32 of IEEE 802.3.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The network layer's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// Source; of the same family as `dst`.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// ToS or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv4 identification.
    pub id: u16,
    /// IPv4 flags and fragment offset, 16 bits.
    pub fragment: u16,
    /// IPv4 options, a multiple of four bytes.
    pub options: Vec<u8>,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// IPv6 extension headers: type and bytes. The first byte of each is replaced by the next type.
    pub extensions: Vec<(u8, Vec<u8>)>,
}

impl Net {
    /// IPv4 with usual values.
    pub fn v4(src: [u8; 4], dst: [u8; 4]) -> Self {
        Self::new(Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into())
    }

    /// IPv6 with usual values; only the last 16 bits of the addresses are given.
    pub fn v6(src: u16, dst: u16) -> Self {
        let address = |last| Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, last);
        Self::new(address(src).into(), address(dst).into())
    }

    fn new(src: IpAddr, dst: IpAddr) -> Self {
        Self {
            src,
            dst,
            tos: 0,
            ttl: 64,
            id: 0,
            fragment: 0x4000,
            options: Vec::new(),
            flow_label: 0,
            extensions: Vec::new(),
        }
    }

    /// Sets the ToS or traffic class.
    #[must_use]
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// An IP packet of this protocol.
    pub fn wrap(&self, protocol: u8, inside: &[u8]) -> Typed {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                assert!(self.options.len().is_multiple_of(4), "IPv4 options come in words");
                let mut out = vec![0x45 + (self.options.len() / 4) as u8, self.tos];
                out.extend(((20 + self.options.len() + inside.len()) as u16).to_be_bytes());
                out.extend(self.id.to_be_bytes());
                out.extend(self.fragment.to_be_bytes());
                out.extend([self.ttl, protocol, 0, 0]);
                out.extend(src.octets());
                out.extend(dst.octets());
                out.extend(&self.options);
                let sum = checksum(&out).to_be_bytes();
                out[10..12].copy_from_slice(&sum);
                out.extend(inside);
                Typed::new(IPV4, out)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut chain = Vec::new();
                let types = self.extensions.iter().map(|(kind, _)| *kind).chain([protocol]);
                let mut types = types.collect::<Vec<_>>().into_iter();
                let first = types.next().unwrap_or(protocol);
                for ((_, bytes), next) in self.extensions.iter().zip(types) {
                    chain.push(next);
                    chain.extend(&bytes[1..]);
                }
                let word = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0xF_FFFF;
                let mut out = word.to_be_bytes().to_vec();
                out.extend(((chain.len() + inside.len()) as u16).to_be_bytes());
                out.extend([first, self.ttl]);
                out.extend(src.octets());
                out.extend(dst.octets());
                out.extend(chain);
                out.extend(inside);
                Typed::new(IPV6, out)
            }
            _ => panic!("{} and {} are of two families", self.src, self.dst),
        }
    }

    /// A UDP datagram in an IP packet, its checksum 0.
    pub fn udp(&self, src_port: u16, dst_port: u16, inside: &[u8]) -> Typed {
        self.wrap(17, &udp(src_port, dst_port, inside))
    }

    /// A RoCEv2 packet.
    pub fn roce(&self, src_port: u16, transport: &Transport) -> Typed {
        let content = transport.bytes();
        let mut packet = self.udp(src_port, 4791, &[content.as_slice(), &[0; 4]].concat());
        let end = packet.bytes.len() - 4;
        let bth = end - content.len();
        let mut covered = packet.bytes[..bth].to_vec();
        let masked: &[usize] = if packet.ethertype == IPV4 { &[1, 8, 10, 11] } else { &[1, 2, 3, 7] };
        for at in masked {
            covered[*at] = 0xFF;
        }
        if packet.ethertype == IPV6 {
            covered[0] |= 0x0F;
        }
        covered[bth - 2..].fill(0xFF);
        let icrc = transport.with_icrc(covered, &content);
        packet.bytes[end..].copy_from_slice(&icrc);
        packet
    }
}

/// A RoCEv1 packet: GRH, transport, ICRC.
pub fn roce_v1(sgid: [u8; 16], dgid: [u8; 16], traffic_class: u8, transport: &Transport) -> Typed {
    let content = transport.bytes();
    let mut grh = (6 << 28 | u32::from(traffic_class) << 20).to_be_bytes().to_vec();
    grh.extend(((content.len() + 4) as u16).to_be_bytes());
    grh.extend([0x1B, 64]);
    grh.extend(sgid);
    grh.extend(dgid);
    let mut covered = grh.clone();
    covered[0] |= 0x0F;
    for at in [1, 2, 3, 7] {
        covered[at] = 0xFF;
    }
    let icrc = transport.with_icrc(covered, &content);
    Typed::new(ROCE_V1, [grh.as_slice(), &content, &icrc].concat())
}

/// UDP header and content, checksum 0.
pub fn udp(src_port: u16, dst_port: u16, inside: &[u8]) -> Vec<u8> {
    let length = (8 + inside.len()) as u16;
    let mut out = [src_port, dst_port, length, 0].map(u16::to_be_bytes).concat();
    out.extend(inside);
    out
}

fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | c.get(1).copied().map_or(0, u32::from));
    let mut sum: u32 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// An Ethernet frame.
pub fn ethernet(src: [u8; 6], dst: [u8; 6], inside: &Typed) -> Vec<u8> {
    [&dst[..], &src, &inside.ethertype.to_be_bytes(), &inside.bytes].concat()
}

/// Adds a VLAN tag: `tpid` 0x8100, 0x88A8 or 0x9100. Two of them make QinQ.
pub fn vlan(tpid: u16, tci: u16, inside: &Typed) -> Typed {
    Typed::new(tpid, [&tci.to_be_bytes()[..], &inside.ethertype.to_be_bytes(), &inside.bytes].concat())
}

/// The content of a UDP datagram to port 4789: a VXLAN header and a frame.
pub fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    [&[0x08, 0, 0, 0][..], &(vni << 8).to_be_bytes(), frame].concat()
}

/// A GRE header (IP protocol 47) with the optional fields given, and its content.
pub fn gre(
    kind: u16,
    key: Option<u32>,
    sequence: Option<u32>,
    with_checksum: bool,
    inside: &[u8],
) -> Vec<u8> {
    let bit = |set: bool, bit: u16| if set { bit } else { 0 };
    let flags = bit(with_checksum, 0x8000) | bit(key.is_some(), 0x2000) | bit(sequence.is_some(), 0x1000);
    let mut out = [flags.to_be_bytes(), kind.to_be_bytes()].concat();
    if with_checksum {
        out.extend([0; 4]);
    }
    for word in [key, sequence].into_iter().flatten() {
        out.extend(word.to_be_bytes());
    }
    out.extend(inside);
    if with_checksum {
        let sum = checksum(&out).to_be_bytes();
        out[4..6].copy_from_slice(&sum);
    }
    out
}

/// ERSPAN type I: GRE without sequence number, then the frame.
pub fn erspan1(frame: &[u8]) -> Vec<u8> {
    gre(0x88BE, None, None, false, frame)
}

/// ERSPAN type II in GRE: VLAN (12 bits), class of service, session (10 bits), port index.
pub fn erspan2(sequence: u32, vlan: u16, cos: u8, session: u16, index: u32, frame: &[u8]) -> Vec<u8> {
    let mut header = (1 << 12 | vlan & 0x0FFF).to_be_bytes().to_vec();
    header.extend((u16::from(cos & 7) << 13 | session & 0x03FF).to_be_bytes());
    header.extend((index & 0xF_FFFF).to_be_bytes());
    header.extend(frame);
    gre(0x88BE, None, Some(sequence), false, &header)
}

/// ERSPAN type III in GRE, around a frame of `frame_type` (0 for Ethernet, 2 for IP), with the
/// platform sub-header if one is given.
pub fn erspan3(
    sequence: Option<u32>,
    session: u16,
    timestamp: u32,
    frame_type: u8,
    platform: Option<[u8; 8]>,
    frame: &[u8],
) -> Vec<u8> {
    let mut header = (2u16 << 12).to_be_bytes().to_vec();
    header.extend((session & 0x03FF).to_be_bytes());
    header.extend(timestamp.to_be_bytes());
    // Security group tag, then P, frame type, hardware id, direction, granularity, O.
    header.extend([0, 0]);
    header.extend((u16::from(frame_type & 0x1F) << 10 | u16::from(platform.is_some())).to_be_bytes());
    header.extend(platform.into_iter().flatten());
    header.extend(frame);
    gre(0x22EB, None, sequence, false, &header)
}

/// A Linux cooked capture, version 1 (link type 113). `kind` is 0 for received by this host, 4 for sent by it.
pub fn sll(kind: u16, inside: &Typed) -> Vec<u8> {
    let mut out = [kind, 1, 6].map(u16::to_be_bytes).concat();
    out.extend(Mac::SRC);
    out.extend([0; 2]);
    out.extend(inside.ethertype.to_be_bytes());
    out.extend(&inside.bytes);
    out
}

/// A Linux cooked capture, version 2 (link type 276).
pub fn sll2(interface: u32, kind: u8, inside: &Typed) -> Vec<u8> {
    let mut out = inside.ethertype.to_be_bytes().to_vec();
    out.extend([0; 2]);
    out.extend(interface.to_be_bytes());
    out.extend(1u16.to_be_bytes());
    out.extend([kind, 6]);
    out.extend(Mac::SRC);
    out.extend([0; 2]);
    out.extend(&inside.bytes);
    out
}
