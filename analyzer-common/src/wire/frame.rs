//! The frame parser: from the first byte to the fields that accounting needs.

use super::bth::{self, Bth, ICRC_LEN, MASK24};
use super::bytes::Bytes;
use super::ip::{self, UpperProtocol};
use super::layer::{Layer, Trace};
use super::opcode::Op;
use super::skip_reason::SkipReason;
use super::{fast_path, infiniband, tunnel};

/// Unknown number: cut off, or not part of this packet.
pub const UNKNOWN: u32 = u32::MAX;
/// Unknown VLAN id: the tag may be in metadata that is not accessible.
pub const VLAN_UNKNOWN: u16 = u16::MAX;
/// ECN codepoint ECT(0).
pub const ECT0: u8 = 2;
/// ECN codepoint CE, and the mask of the ECN field in the TOS byte.
pub const CE: u8 = 3;
/// No priority code point: untagged, or unknown.
pub const PCP_NONE: u8 = u8::MAX;
/// Maximum number of VLAN tags; those of encapsulated frames count separately.
const MAX_TAGS: u32 = 4;
/// Maximum number of nested tunnels of the full parser.
const MAX_TUNNELS: u32 = 4;

/// Type of the header at the current offset.
///
/// A number rather than an enum with a payload: the compiler would leave the payload bits of other variants
/// uninitialised, and the verifier rejects copies of uninitialised registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u32);

impl Entry {
    /// Entry at an Ethernet header.
    pub const ETHERNET: Self = Self(1 << 16);
    /// An IP header; its first four bits give the version.
    pub const IP: Self = Self(2 << 16);
    /// None: the BTH was reached.
    pub(super) const DONE: Self = Self(3 << 16);
    /// A local route header of InfiniBand. Only parsers of all encapsulations know it.
    pub const LRH: Self = Self(4 << 16);

    /// The header that an ethertype names, e.g. in a cooked capture.
    #[inline(always)]
    pub const fn ethertype(ethertype: u16) -> Self {
        Self(ethertype as u32)
    }
}

/// Properties of a frame that are not in its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Type of the first header.
    pub entry: Entry,
    /// Offset of the first header (behind a cooked header).
    pub offset: usize,
    /// Length of the frame on the wire without FCS, in bytes.
    pub wire_len: u32,
    /// VLAN tag in the packet's metadata.
    pub tag: Tag,
}

impl Meta {
    /// Those of a frame that begins with its Ethernet header, with every tag in its bytes.
    #[inline(always)]
    pub const fn ethernet(wire_len: u32) -> Self {
        Self { entry: Entry::ETHERNET, offset: 0, wire_len, tag: Tag::NONE }
    }
}

/// State of the VLAN tag in the packet's metadata. A number for the same reason as [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    /// No tag in the metadata; only tags in the frame count.
    pub const NONE: Self = Self(1 << 16);
    /// Not accessible (XDP; raw IP without a link layer).
    pub const UNKNOWN: Self = Self(2 << 16);

    /// A tag with this tag control information.
    #[inline(always)]
    pub const fn tci(tci: u16) -> Self {
        Self(tci as u32)
    }
}

/// An address: 16 bytes in wire order, IPv4 in the last four, a LID in the last two.
pub type Addr = [u32; 4];
/// [`Frame::family`] of an InfiniBand packet without GRH, whose addresses are LIDs.
pub const FAMILY_LID: u8 = 1;

/// The fields of a RoCE packet that accounting needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Source address, in wire byte order.
    pub src: Addr,
    /// Destination address, in wire byte order.
    pub dst: Addr,
    /// IP version of the addresses, 4 or 6 (also for GIDs), or [`FAMILY_LID`].
    pub family: u8,
    /// 1 (GRH over Ethernet) or 2 (UDP); 0 for InfiniBand.
    pub roce_version: u8,
    /// IPv4 ToS or IPv6 traffic class of the innermost IP header; 0 for RoCEv1. For InfiniBand, CE for FECN and
    /// ECT(0) without it in the ECN bits, and [`TOS_BECN`](super::infiniband::TOS_BECN).
    pub tos: u8,
    /// BTH operation code.
    pub opcode: u8,
    /// UDP source port; 0 without UDP.
    pub src_port: u16,
    /// Id of the outermost VLAN tag; 0 if untagged, [`VLAN_UNKNOWN`].
    pub vlan: u16,
    /// Id of the second VLAN tag; 0 without one, [`VLAN_UNKNOWN`]. For InfiniBand, the
    /// [`Lane`](super::infiniband::Lane).
    pub inner_vlan: u16,
    /// Priority code point of the outermost tag, or [`PCP_NONE`].
    pub pcp: u8,
    /// The BTH's AckReq bit.
    pub ack_req: bool,
    /// Tunnels around the packet, outermost in the lowest byte (see [`Encap`]); 0 for none.
    pub encap: u32,
    /// BTH destination queue pair.
    pub dest_qp: u32,
    /// BTH packet sequence number.
    pub psn: u32,
    /// Length of the outer frame on the wire without FCS.
    pub wire_len: u32,
    /// 14 plus the inner IP total length when encapsulated, else 0.
    pub inner_bytes: u32,
    /// Payload in bytes, or [`UNKNOWN`].
    pub payload: u32,
    /// AETH: syndrome in the top byte and MSN below, or [`UNKNOWN`] if absent or cut off.
    pub aeth: u32,
    /// DMA length of the RETH, or [`UNKNOWN`] if absent or cut off.
    pub dma_len: u32,
    /// Source queue pair of the DETH, or [`UNKNOWN`].
    pub src_qp: u32,
    /// Offset of the BTH in the captured frame.
    pub bth_offset: u32,
    /// Offset of the innermost IP header, GRH, or LRH without a GRH in the captured frame.
    pub ip_offset: u32,
    /// Offset of the ICRC in the captured frame, or [`UNKNOWN`]: lengths contradict each other, or a fragment.
    pub icrc_offset: u32,
}

impl Frame {
    /// All fields zero or unknown.
    pub const EMPTY: Self = Self {
        src: [0; 4],
        dst: [0; 4],
        family: 0,
        roce_version: 0,
        tos: 0,
        opcode: 0,
        src_port: 0,
        vlan: 0,
        inner_vlan: 0,
        pcp: PCP_NONE,
        ack_req: false,
        encap: 0,
        dest_qp: 0,
        psn: 0,
        wire_len: 0,
        inner_bytes: 0,
        payload: UNKNOWN,
        aeth: UNKNOWN,
        dma_len: UNKNOWN,
        src_qp: UNKNOWN,
        bth_offset: 0,
        ip_offset: 0,
        icrc_offset: UNKNOWN,
    };
}

/// A tunnel or mirror around a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encap {
    /// VXLAN.
    Vxlan = 1,
    /// VXLAN with generic protocol extension.
    VxlanGpe = 2,
    /// Geneve.
    Geneve = 3,
    /// GRE.
    Gre = 4,
    /// ERSPAN type I.
    Erspan1 = 5,
    /// ERSPAN type II.
    Erspan2 = 6,
    /// ERSPAN type III.
    Erspan3 = 7,
    /// MPLS.
    Mpls = 8,
    /// IP in IP.
    IpIp = 9,
}

impl Encap {
    /// Name of the encapsulation in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::VxlanGpe => "vxlan-gpe",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Erspan1 => "erspan1",
            Self::Erspan2 => "erspan2",
            Self::Erspan3 => "erspan3",
            Self::Mpls => "mpls",
            Self::IpIp => "ipip",
        }
    }

    /// Decodes one byte of [`Frame::encap`].
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Vxlan,
            2 => Self::VxlanGpe,
            3 => Self::Geneve,
            4 => Self::Gre,
            5 => Self::Erspan1,
            6 => Self::Erspan2,
            7 => Self::Erspan3,
            8 => Self::Mpls,
            9 => Self::IpIp,
            _ => return None,
        })
    }
}

/// Tunnel support of a parser instance.
pub trait Depth {
    /// Maximum number of nested tunnels.
    const TUNNELS: u32;
    /// All encapsulations (`true`), or only VXLAN, GRE, ERSPAN and IP in IP (`false`).
    const ALL: bool;
}

/// All encapsulations, four deep: for captures.
#[derive(Clone, Copy, Debug)]
pub struct Full;
impl Depth for Full {
    const TUNNELS: u32 = MAX_TUNNELS;
    const ALL: bool = true;
}

/// VXLAN, GRE, ERSPAN and IP in IP, one deep: for the kernel programs.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;
impl Depth for Kernel {
    const TUNNELS: u32 = 1;
    const ALL: bool = false;
}

/// The parser's position, and the frame it fills in: by reference, since the kernel's stack is too small
/// for copies.
pub(super) struct Walk<'a> {
    pub(super) offset: usize,
    tags: u8,
    pub(super) frame: &'a mut Frame,
}

impl<'a> Walk<'a> {
    /// Starts at the first byte.
    #[inline(always)]
    pub(super) fn start(meta: Meta, frame: &'a mut Frame) -> Self {
        frame.encap = 0;
        frame.wire_len = meta.wire_len;
        frame.pcp = PCP_NONE;
        frame.inner_vlan = 0;
        let mut tags = 0;
        if meta.tag == Tag::NONE {
            frame.vlan = 0;
        } else if meta.tag == Tag::UNKNOWN {
            frame.vlan = VLAN_UNKNOWN;
            frame.inner_vlan = VLAN_UNKNOWN;
        } else {
            frame.vlan = (meta.tag.0 & 0x0FFF) as u16;
            frame.pcp = (meta.tag.0 >> 13) as u8;
            tags = 1;
        }
        Self { offset: meta.offset, tags, frame }
    }

    /// Adds the next VLAN tag.
    #[inline(always)]
    pub(super) fn tag(&mut self, tci: u16) {
        let id = tci & 0x0FFF;
        if self.tags == 0 {
            self.frame.vlan = id;
            self.frame.inner_vlan = 0;
            self.frame.pcp = (tci >> 13) as u8;
        } else if self.tags == 1 {
            self.frame.inner_vlan = id;
        }
        self.tags = self.tags.saturating_add(1);
    }

    /// Adds a tunnel at nesting level `level`, from 0.
    #[inline(always)]
    pub(super) fn tunnel(&mut self, level: u32, encap: Encap) {
        self.frame.encap |= (encap as u32) << (8 * level);
    }
}

/// Ethertypes the parser knows.
pub(super) mod ethertype {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const TEB: u16 = 0x6558;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const IPV6: u16 = 0x86DD;
    pub(crate) const MAC_CONTROL: u16 = 0x8808;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
    pub(crate) const QINQ: u16 = 0x88A8;
    pub(crate) const LLDP: u16 = 0x88CC;
    pub(crate) const ROCE_V1: u16 = 0x8915;
    pub(crate) const QINQ_OLD: u16 = 0x9100;

    /// True if the ethertype announces a VLAN tag.
    #[inline(always)]
    pub(crate) const fn is_tag(ethertype: u16) -> bool {
        // IPv4 needs the first comparison alone.
        ethertype >= VLAN && matches!(ethertype, VLAN | QINQ | QINQ_OLD)
    }
}

/// Parses one frame.
///
/// # Errors
/// The reason why the frame is not counted as RoCE.
#[inline]
pub fn parse<D: Depth>(bytes: &impl Bytes, meta: Meta, trace: &mut impl Trace) -> Result<Frame, SkipReason> {
    let mut frame = Frame::EMPTY;
    parse_into::<D>(bytes, meta, trace, &mut frame)?;
    Ok(frame)
}

/// Parses one frame into the caller's memory; writes all fields on success.
///
/// # Errors
/// The reason why the frame is not counted as RoCE; `frame` is then invalid.
#[inline(always)]
pub fn parse_into<D: Depth>(
    bytes: &impl Bytes,
    meta: Meta,
    trace: &mut impl Trace,
    frame: &mut Frame,
) -> Result<(), SkipReason> {
    let mut walk = Walk::start(meta, frame);
    if bytes.prefers_fast_path()
        && meta.entry == Entry::ETHERNET
        && fast_path::parse_roce(bytes, &mut walk, trace)
    {
        return Ok(());
    }
    layers::<D>(bytes, walk, meta.entry, trace)
}

/// Parses layer by layer.
#[inline(always)]
pub(super) fn layers<D: Depth>(
    bytes: &impl Bytes,
    mut walk: Walk<'_>,
    mut entry: Entry,
    trace: &mut impl Trace,
) -> Result<(), SkipReason> {
    // One level more than tunnels, for the innermost frame. Ways to a level differ only in the number of tags so far.
    for level in 0..=D::TUNNELS {
        walk.offset = bytes.forget_range(walk.offset).ok_or(SkipReason::Ipv6ExtUnparsed)?;
        if level > 0 {
            walk.tags = bytes.forget_tags(walk.tags);
        }
        entry = one_level::<D>(bytes, &mut walk, entry, level, trace)?;
        if entry == Entry::DONE {
            return Ok(());
        }
    }
    Err(SkipReason::TunnelUnparsed)
}

#[inline(always)]
fn one_level<D: Depth>(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    entry: Entry,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    if D::ALL && entry == Entry::LRH {
        return infiniband::parse(bytes, walk, trace);
    }
    let ethertype = if entry == Entry::ETHERNET {
        ethernet(bytes, walk, trace)?
    } else if entry == Entry::IP {
        let [first] = bytes.get::<1>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
        match first >> 4 {
            4 => ethertype::IPV4,
            6 => ethertype::IPV6,
            _ => return Err(SkipReason::Malformed),
        }
    } else {
        tags(bytes, walk, entry.0 as u16, trace)?
    };
    walk.tags = bytes.forget_tags(walk.tags);
    walk.offset = bytes.forget_range(walk.offset).ok_or(SkipReason::Ipv6ExtUnparsed)?;
    match ethertype {
        ethertype::IPV4 => {
            let net = ip::v4(bytes, walk.offset, walk.frame, trace)?;
            above_ip::<D>(bytes, walk, net, level, trace)
        }
        ethertype::IPV6 => {
            let net = ip::v6(bytes, walk.offset, walk.frame, trace)?;
            above_ip::<D>(bytes, walk, net, level, trace)
        }
        ethertype::ROCE_V1 => roce_v1(bytes, walk, trace),
        ethertype::MPLS | ethertype::MPLS_MULTICAST => tunnel::mpls::<D>(bytes, walk, level, trace),
        ethertype::ARP => Err(SkipReason::Arp),
        ethertype::LLDP => Err(SkipReason::Lldp),
        ethertype::MAC_CONTROL => Err(SkipReason::MacControl),
        _ => Err(SkipReason::OtherEthertype),
    }
}

#[inline(always)]
fn above_ip<D: Depth>(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    mut net: ip::Net,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    net.upper = bytes.forget_range(net.upper).ok_or(SkipReason::Ipv6ExtUnparsed)?;
    let carried = ip::above(bytes, &net, walk.frame)?;
    if carried.protocol == UpperProtocol::Roce {
        trace.layer(Layer::Udp, net.upper);
        roce_v2(bytes, walk, &net, carried.value, trace)
    } else {
        tunnel::enter::<D>(bytes, walk, &net, carried, level, trace)
    }
}

pub(super) const ETHERNET_LEN: usize = 14;
pub(super) const TAG_LEN: usize = 4;

#[inline(always)]
fn ethernet(bytes: &impl Bytes, walk: &mut Walk<'_>, trace: &mut impl Trace) -> Result<u16, SkipReason> {
    let ethertype = bytes.get::<2>(walk.offset + 12).ok_or(SkipReason::TruncatedHeaders)?;
    trace.layer(Layer::Ethernet, walk.offset);
    walk.offset += ETHERNET_LEN;
    tags(bytes, walk, u16::from_be_bytes(ethertype), trace)
}

#[inline(always)]
fn tags(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    first: u16,
    trace: &mut impl Trace,
) -> Result<u16, SkipReason> {
    let mut ethertype = first;
    for _ in 0..MAX_TAGS {
        if !ethertype::is_tag(ethertype) {
            return Ok(ethertype);
        }
        let [t0, t1, e0, e1] = bytes.get::<TAG_LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
        trace.layer(Layer::Vlan, walk.offset);
        walk.tag(u16::from_be_bytes([t0, t1]));
        walk.offset += TAG_LEN;
        ethertype = u16::from_be_bytes([e0, e1]);
    }
    if ethertype::is_tag(ethertype) { Err(SkipReason::VlanUnparsed) } else { Ok(ethertype) }
}

/// Minimum UDP length that holds a BTH.
pub(super) const MIN_UDP_LEN: u32 = ip::UDP_LEN as u32 + bth::LEN as u32;

#[inline(always)]
fn roce_v2(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    net: &ip::Net,
    udp_len: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    if udp_len < MIN_UDP_LEN {
        return Err(SkipReason::Malformed);
    }
    // A UDP length beyond the IP packet does not give the payload length, unless the rest of the datagram
    // is in other fragments.
    let fits = net.fragment || net.upper + udp_len as usize <= net.end;
    let transport_len = if fits { udp_len - ip::UDP_LEN as u32 } else { UNKNOWN };
    walk.frame.roce_version = 2;
    walk.frame.inner_bytes = if walk.frame.encap == 0 { 0 } else { ETHERNET_LEN as u32 + net.total_len };
    transport(bytes, net.upper + ip::UDP_LEN, transport_len, walk.frame, trace)?;
    if net.fragment {
        walk.frame.icrc_offset = UNKNOWN;
    }
    Ok(Entry::DONE)
}

pub(super) const GRH_LEN: usize = 40;
const GRH_NEXT_BTH: u8 = 0x1B;

#[inline(always)]
fn roce_v1(bytes: &impl Bytes, walk: &mut Walk<'_>, trace: &mut impl Trace) -> Result<Entry, SkipReason> {
    let payload_len = grh(bytes, walk.offset, walk.frame, trace)?;
    walk.frame.tos = 0;
    walk.frame.src_port = 0;
    walk.frame.roce_version = 1;
    walk.frame.inner_bytes =
        if walk.frame.encap == 0 { 0 } else { (ETHERNET_LEN + GRH_LEN) as u32 + payload_len };
    transport(bytes, walk.offset + GRH_LEN, payload_len, walk.frame, trace)?;
    Ok(Entry::DONE)
}

/// Reads a GRH before a BTH: addresses, and the length of what follows.
#[inline(always)]
pub(super) fn grh(
    bytes: &impl Bytes,
    at: usize,
    frame: &mut Frame,
    trace: &mut impl Trace,
) -> Result<u32, SkipReason> {
    let [_, _, _, _, l0, l1, next, _] = bytes.get::<8>(at).ok_or(SkipReason::TruncatedHeaders)?;
    if next != GRH_NEXT_BTH {
        return Err(SkipReason::GrhNotBth);
    }
    frame.src = ip::words(bytes.get::<16>(at + 8).ok_or(SkipReason::Truncated)?);
    frame.dst = ip::words(bytes.get::<16>(at + 24).ok_or(SkipReason::Truncated)?);
    trace.layer(Layer::Grh, at);
    let payload_len = u32::from(u16::from_be_bytes([l0, l1]));
    if payload_len < bth::LEN as u32 {
        return Err(SkipReason::Malformed);
    }
    frame.family = 6;
    frame.ip_offset = at as u32;
    Ok(payload_len)
}

/// Parses the BTH and the extended headers. `len`: length from the BTH to the end of the ICRC according to
/// the lower layers, or [`UNKNOWN`].
#[inline(always)]
pub(super) fn transport(
    bytes: &impl Bytes,
    at: usize,
    len: u32,
    frame: &mut Frame,
    trace: &mut impl Trace,
) -> Result<(), SkipReason> {
    let header = Bth(bytes.get::<{ bth::LEN }>(at).ok_or(SkipReason::Truncated)?);
    trace.layer(Layer::Bth, at);
    base(bytes, header, at, len, frame);
    let whole = len != UNKNOWN && len >= bth::LEN as u32 + ICRC_LEN;
    frame.icrc_offset = if whole { at as u32 + len - ICRC_LEN } else { UNKNOWN };
    Ok(())
}

/// Reads a BTH, and the extended headers behind it.
#[inline(always)]
pub(super) fn base(bytes: &impl Bytes, header: Bth, at: usize, len: u32, frame: &mut Frame) {
    let op = Op::of(header.opcode());
    let ext = at + bth::LEN;
    frame.opcode = header.opcode();
    frame.ack_req = header.ack_req();
    frame.dest_qp = header.dest_qp();
    frame.psn = header.psn();
    frame.payload = payload(op, u32::from(header.pad()), len);
    frame.bth_offset = at as u32;
    frame.aeth = UNKNOWN;
    frame.dma_len = UNKNOWN;
    frame.src_qp = UNKNOWN;
    if op.has(Op::AETH) {
        if let Some(aeth) = bytes.get::<4>(ext) {
            frame.aeth = u32::from_be_bytes(aeth);
        }
    } else if op.has(Op::RETH) {
        // The DMA length is the last word of the RETH.
        if let Some(len) = bytes.get::<4>(ext + op.reth_offset() + 12) {
            frame.dma_len = u32::from_be_bytes(len);
        }
    } else if op.has(Op::DETH)
        && let Some(qp) = bytes.get::<4>(ext + 4)
    {
        frame.src_qp = u32::from_be_bytes(qp) & MASK24;
    }
}

#[inline(always)]
fn payload(op: Op, pad: u32, len: u32) -> u32 {
    if op.any(Op::ACKNOWLEDGE | Op::CNP) {
        return 0;
    }
    let around = bth::LEN as u32 + op.ext_len() + pad + ICRC_LEN;
    if !op.has(Op::KNOWN) || len == UNKNOWN || len < around { UNKNOWN } else { len - around }
}
