//! Fast path for the common frames: RoCEv2 and clearly non-RoCE frames, recognised by bytes at fixed
//! offsets.

use super::bth::{self, Bth};
use super::bytes::Bytes;
use super::frame::{
    ETHERNET_LEN, Encap, Frame, MIN_UDP_LEN, Meta, TAG_LEN, Walk, base, ethertype, transport,
};
use super::ip;
use super::layer::{Layer, Trace};
use super::skip_reason::SkipReason;
use super::tunnel;

/// What bytes at fixed offsets tell of an Ethernet frame with at most one tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// It is not counted as RoCE; the reason equals that of [`super::parse`].
    NotRoce(SkipReason),
    /// RoCEv2 over IPv4 without tags, options and fragmentation, by its headers up to the port: [`parse_plain`].
    Plain,
    /// The parser must decide.
    Other,
}

/// The reason why an Ethernet frame with at most one tag is not counted as RoCE, if bytes at fixed offsets
/// decide; equal to that of [`super::parse`]. `None`: the parser must decide.
pub fn not_roce(bytes: &impl Bytes) -> Option<SkipReason> {
    if let FirstLook::NotRoce(reason) = first_look(bytes) { Some(reason) } else { None }
}

/// Looks at bytes at fixed offsets.
///
/// For the kernel programs, which see every packet of an interface and must cost other traffic little.
#[inline(always)]
pub fn first_look(bytes: &impl Bytes) -> FirstLook {
    // Up to the end of a UDP header behind an IPv4 header without options.
    let Some(h) = bytes.get::<42>(0) else { return FirstLook::Other };
    let first = u16::from_be_bytes([h[12], h[13]]);
    if !ethertype::is_tag(first) {
        return network(bytes, 0, first, h);
    }
    // The same layout, four bytes further.
    let Some(h) = bytes.get::<42>(4) else { return FirstLook::Other };
    network(bytes, 4, u16::from_be_bytes([h[12], h[13]]), h)
}

/// `h`: the bytes from offset `tags` (the length of the tags), so that the ethertype is at 12.
#[inline(always)]
fn network(bytes: &impl Bytes, tags: usize, ethertype: u16, h: [u8; 42]) -> FirstLook {
    match ethertype {
        ethertype::IPV4 => {
            let total_len = u16::from_be_bytes([h[16], h[17]]);
            let fragment = u16::from_be_bytes([h[20], h[21]]);
            if h[14] != 0x45 || total_len < 20 || fragment & 0x1FFF != 0 {
                return FirstLook::Other;
            }
            above_ip(h[23], [h[36], h[37]], tags == 0 && fragment & FRAGMENTED == 0)
        }
        ethertype::IPV6 => {
            // Up to the end of a UDP header.
            let Some(h) = bytes.get::<62>(tags) else { return FirstLook::Other };
            if h[14] >> 4 != 6 {
                return FirstLook::Other;
            }
            above_ip(h[20], [h[56], h[57]], false)
        }
        ethertype::ARP => FirstLook::NotRoce(SkipReason::Arp),
        _ => FirstLook::Other,
    }
}

/// `plain`: all below is as in [`FirstLook::Plain`].
#[inline(always)]
fn above_ip(protocol: u8, port: [u8; 2], plain: bool) -> FirstLook {
    match protocol {
        ip::PROTO_TCP => FirstLook::NotRoce(SkipReason::Tcp),
        ip::PROTO_UDP => match u16::from_be_bytes(port) {
            ip::PORT_ROCE if plain => FirstLook::Plain,
            port if ip::knows_port(port) || tunnel::knows_port(port) => FirstLook::Other,
            _ => FirstLook::NotRoce(SkipReason::OtherUdp),
        },
        _ => FirstLook::Other,
    }
}

/// Parses a frame of [`FirstLook::Plain`], of which all fields up to the BTH are at constant offsets. Returns false if
/// it has another form after all; otherwise the result equals that of [`super::parse_into`], but for the offsets of
/// IP header and ICRC, for which kernel programs have no use: they stay as they are.
#[inline(always)]
pub fn parse_plain(bytes: &impl Bytes, meta: Meta, frame: &mut Frame) -> bool {
    const BTH: usize = ETHERNET_LEN + V4 + ip::UDP_LEN;
    let Some(h) = bytes.get::<{ V4 + ip::UDP_LEN }>(ETHERNET_LEN) else { return false };
    let Some(header) = bytes.get::<{ bth::LEN }>(BTH) else { return false };
    let half = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let udp_len = u32::from(half(V4 + 4));
    if udp_len < MIN_UDP_LEN || V4 as u32 + udp_len > u32::from(half(2)) {
        return false;
    }
    let frame = Walk::start(meta, frame).frame;
    frame.src = [0, 0, 0, u32::from_ne_bytes([h[12], h[13], h[14], h[15]])];
    frame.dst = [0, 0, 0, u32::from_ne_bytes([h[16], h[17], h[18], h[19]])];
    frame.family = 4;
    frame.tos = h[1];
    frame.src_port = half(V4);
    frame.roce_version = 2;
    frame.inner_bytes = 0;
    base(bytes, Bth(header), BTH, udp_len - ip::UDP_LEN as u32, frame);
    true
}

/// Length of an IPv4 header without options.
const V4: usize = 20;
/// Length of an IPv6 header.
const V6: usize = 40;

/// Bits of an IPv4 header's flags and fragment offset that only fragments set.
const FRAGMENTED: u16 = 0x3FFF;

/// Distance from the outer Ethernet header to the inner one of VXLAN over IPv4, without tags and options.
const VXLAN_AROUND: usize = ETHERNET_LEN + V4 + ip::UDP_LEN + tunnel::VXLAN_LEN;

/// True if a frame is VXLAN over IPv4 without tags, options and fragmentation.
#[inline(always)]
fn vxlan(bytes: &impl Bytes, at: usize) -> bool {
    let Some(h) = bytes.get::<VXLAN_AROUND>(at) else { return false };
    let half = |offset: usize| u16::from_be_bytes([h[offset], h[offset + 1]]);
    // The port first: the one comparison that nearly every other frame fails.
    u32::from(half(36)) == tunnel::PORT_VXLAN
        && half(12) == ethertype::IPV4
        && h[14] == 0x45
        && half(16) >= 20
        && half(20) & FRAGMENTED == 0
        && h[23] == ip::PROTO_UDP
        && h[42] & tunnel::VXLAN_FLAG_VNI != 0
}

/// Parses a RoCEv2 frame, or VXLAN over IPv4 around one, with at most one tag and without IP options,
/// extension headers and fragmentation: nearly all RoCE frames. Every field is then at a fixed offset, and
/// one bounds check replaces one per layer. Returns false, with no layer traced, if the frame has another
/// form; otherwise the result equals that of the layered parser.
#[inline(always)]
#[expect(
    clippy::too_many_lines,
    reason = "one walk: pieces would check bounds again, which the verifier follows too"
)]
pub(super) fn parse_roce(bytes: &impl Bytes, walk: &mut Walk<'_>, trace: &mut impl Trace) -> bool {
    const UP_TO_BTH: usize = ip::UDP_LEN + bth::LEN;
    let outer = walk.offset;
    let inside = vxlan(bytes, outer);
    let at = if inside { outer + VXLAN_AROUND } else { outer };
    let Some([e0, e1, t0, t1, f0, f1]) = bytes.get::<6>(at + 12) else { return false };
    let first = u16::from_be_bytes([e0, e1]);
    let tagged = ethertype::is_tag(first);
    let (ethertype, network) = if tagged {
        (u16::from_be_bytes([f0, f1]), at + ETHERNET_LEN + TAG_LEN)
    } else {
        (first, at + ETHERNET_LEN)
    };
    let (upper, total_len, udp) = if ethertype == ethertype::IPV4 {
        let Some(h) = bytes.get::<{ V4 + UP_TO_BTH }>(network) else { return false };
        if h[0] != 0x45 || u16::from_be_bytes([h[6], h[7]]) & FRAGMENTED != 0 || h[9] != ip::PROTO_UDP {
            return false;
        }
        walk.frame.src = [0, 0, 0, u32::from_ne_bytes([h[12], h[13], h[14], h[15]])];
        walk.frame.dst = [0, 0, 0, u32::from_ne_bytes([h[16], h[17], h[18], h[19]])];
        walk.frame.family = 4;
        walk.frame.tos = h[1];
        let total_len = u32::from(u16::from_be_bytes([h[2], h[3]]));
        (network + V4, total_len, [h[20], h[21], h[22], h[23], h[24], h[25]])
    } else if ethertype == ethertype::IPV6 {
        let Some(h) = bytes.get::<{ V6 + UP_TO_BTH }>(network) else { return false };
        if h[0] >> 4 != 6 || h[6] != ip::PROTO_UDP {
            return false;
        }
        let Some(src) = bytes.get::<16>(network + 8) else { return false };
        let Some(dst) = bytes.get::<16>(network + 24) else { return false };
        walk.frame.src = ip::words(src);
        walk.frame.dst = ip::words(dst);
        walk.frame.family = 6;
        walk.frame.tos = (h[0] << 4) | (h[1] >> 4);
        let total_len = V6 as u32 + u32::from(u16::from_be_bytes([h[4], h[5]]));
        (network + V6, total_len, [h[40], h[41], h[42], h[43], h[44], h[45]])
    } else {
        return false;
    };
    let udp_len = u32::from(u16::from_be_bytes([udp[4], udp[5]]));
    if u16::from_be_bytes([udp[2], udp[3]]) != ip::PORT_ROCE
        || udp_len < MIN_UDP_LEN
        || (upper - network) as u32 + udp_len > total_len
    {
        return false;
    }
    if inside {
        trace.layer(Layer::Ethernet, outer);
        trace.layer(Layer::Ipv4, outer + ETHERNET_LEN);
        trace.layer(Layer::Udp, outer + ETHERNET_LEN + V4);
        trace.layer(Layer::Vxlan, at - tunnel::VXLAN_LEN);
        walk.tunnel(0, Encap::Vxlan);
    }
    trace.layer(Layer::Ethernet, at);
    if tagged {
        trace.layer(Layer::Vlan, at + ETHERNET_LEN);
        walk.tag(u16::from_be_bytes([t0, t1]));
    }
    trace.layer(if walk.frame.family == 4 { Layer::Ipv4 } else { Layer::Ipv6 }, network);
    trace.layer(Layer::Udp, upper);
    walk.frame.ip_offset = network as u32;
    walk.frame.src_port = u16::from_be_bytes([udp[0], udp[1]]);
    walk.frame.roce_version = 2;
    walk.frame.inner_bytes = if inside { ETHERNET_LEN as u32 + total_len } else { 0 };
    let transport_len = udp_len - ip::UDP_LEN as u32;
    // From here on the verifier need not distinguish the paths.
    let Some(at) = bytes.forget_range(upper + ip::UDP_LEN) else { return false };
    transport(bytes, at, transport_len, walk.frame, trace).is_ok()
}

#[cfg(test)]
#[path = "fast_path_tests.rs"]
mod tests;
