//! Fast path for the common frames: RoCEv2 and clearly non-RoCE frames, recognised by bytes at fixed
//! offsets.

use super::bth;
use super::bytes::Bytes;
use super::frame::{ETHERNET_LEN, Encap, MIN_UDP_LEN, TAG_LEN, Walk, ethertype, transport};
use super::ip;
use super::layer::{Layer, Trace};
use super::skip_reason::SkipReason;
use super::tunnel;

/// The reason why an Ethernet frame with at most one tag is not counted as RoCE, if bytes at fixed offsets
/// decide; equal to that of [`super::parse`]. `None`: the parser must decide.
///
/// For the kernel programs, which see every packet of an interface and must cost other traffic little.
#[inline(always)]
pub fn not_roce(bytes: &impl Bytes) -> Option<SkipReason> {
    // Up to the end of a UDP header behind an IPv4 header without options.
    let h = bytes.get::<42>(0)?;
    let first = u16::from_be_bytes([h[12], h[13]]);
    if !ethertype::is_tag(first) {
        return network(bytes, 0, first, h);
    }
    // The same layout, four bytes further.
    let h = bytes.get::<42>(4)?;
    network(bytes, 4, u16::from_be_bytes([h[12], h[13]]), h)
}

/// `h`: the bytes from offset `tags` (the length of the tags), so that the ethertype is at 12.
#[inline(always)]
fn network(bytes: &impl Bytes, tags: usize, ethertype: u16, h: [u8; 42]) -> Option<SkipReason> {
    match ethertype {
        ethertype::IPV4 => {
            let total_len = u16::from_be_bytes([h[16], h[17]]);
            let fragment_offset = u16::from_be_bytes([h[20], h[21]]) & 0x1FFF;
            if h[14] != 0x45 || total_len < 20 || fragment_offset != 0 {
                return None;
            }
            above_ip(h[23], [h[36], h[37]])
        }
        ethertype::IPV6 => {
            // Up to the end of a UDP header.
            let h = bytes.get::<62>(tags)?;
            if h[14] >> 4 != 6 {
                return None;
            }
            above_ip(h[20], [h[56], h[57]])
        }
        ethertype::ARP => Some(SkipReason::Arp),
        _ => None,
    }
}

#[inline(always)]
fn above_ip(protocol: u8, port: [u8; 2]) -> Option<SkipReason> {
    match protocol {
        ip::PROTO_TCP => Some(SkipReason::Tcp),
        ip::PROTO_UDP => {
            let port = u16::from_be_bytes(port);
            let concerns_us = ip::knows_port(port) || tunnel::knows_port(port);
            if concerns_us { None } else { Some(SkipReason::OtherUdp) }
        }
        _ => None,
    }
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
