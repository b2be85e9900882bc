//! IPv4, IPv6 with its extension headers, and UDP.

use super::bytes::Bytes;
use super::frame::{Addr, Frame};
use super::layer::{Layer, Trace};
use super::skip_reason::SkipReason;

/// Length of a UDP header in bytes.
pub(super) const UDP_LEN: usize = 8;

const PROTO_HOP_BY_HOP: u8 = 0;
const PROTO_ICMP: u8 = 1;
const PROTO_IGMP: u8 = 2;
const PROTO_IPIP: u8 = 4;
pub(super) const PROTO_TCP: u8 = 6;
pub(super) const PROTO_UDP: u8 = 17;
const PROTO_IPV6: u8 = 41;
const PROTO_ROUTING: u8 = 43;
const PROTO_FRAGMENT: u8 = 44;
const PROTO_GRE: u8 = 47;
const PROTO_AH: u8 = 51;
const PROTO_ICMPV6: u8 = 58;
const PROTO_DEST_OPTS: u8 = 60;
const PROTO_MPLS: u8 = 137;

/// UDP destination port of RoCEv2, in both directions.
pub const PORT_ROCE: u16 = 4791;
const PORT_ULTRA_ETHERNET: u16 = 4793;

/// True if [`above`] recognises a UDP port.
#[inline(always)]
pub(super) const fn knows_port(port: u16) -> bool {
    matches!(port, PORT_ROCE | PORT_ULTRA_ETHERNET)
}

/// Maximum number of IPv6 extension headers.
const MAX_EXT: u32 = 6;

/// The fields of an IP header that upper layers need.
pub(super) struct Net {
    /// Offset of the upper-layer header.
    pub(super) upper: usize,
    /// Upper-layer protocol number.
    protocol: u8,
    /// Offset of the end of the packet, according to its length field.
    pub(super) end: usize,
    /// Length of header and payload, according to the length field.
    pub(super) total_len: u32,
    /// First fragment: the rest of the datagram is in other packets.
    pub(super) fragment: bool,
}

/// Payload of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UpperProtocol {
    /// UDP to the RoCEv2 port; the value is the UDP length.
    Roce,
    /// UDP to another port; the value is the port.
    Udp,
    Gre,
    Ip,
    Mpls,
}

/// A protocol with its value; 0 where it has none, see [`super::frame::Entry`].
#[derive(Clone, Copy)]
pub(super) struct Upper {
    pub(super) protocol: UpperProtocol,
    pub(super) value: u32,
}

/// The 16 bytes of an address as four words in wire order.
#[inline(always)]
pub(super) fn words(bytes: [u8; 16]) -> Addr {
    let word = |i: usize| u32::from_ne_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    [word(0), word(4), word(8), word(12)]
}

#[inline(always)]
pub(super) fn v4(
    bytes: &impl Bytes,
    at: usize,
    frame: &mut Frame,
    trace: &mut impl Trace,
) -> Result<Net, SkipReason> {
    const LEN: usize = 20;
    let h = bytes.get::<LEN>(at).ok_or(SkipReason::TruncatedHeaders)?;
    // Masked rather than shifted, so that the verifier sees the bound (60).
    let header_len = usize::from(h[0] << 2 & 0x3C);
    if h[0] >> 4 != 4 || header_len < LEN {
        return Err(SkipReason::Malformed);
    }
    trace.layer(Layer::Ipv4, at);
    let total_len = u32::from(u16::from_be_bytes([h[2], h[3]]));
    if (total_len as usize) < header_len {
        return Err(SkipReason::Malformed);
    }
    let fragment = u16::from_be_bytes([h[6], h[7]]);
    if fragment & 0x1FFF != 0 {
        return Err(SkipReason::Fragment);
    }
    frame.src = [0, 0, 0, u32::from_ne_bytes([h[12], h[13], h[14], h[15]])];
    frame.dst = [0, 0, 0, u32::from_ne_bytes([h[16], h[17], h[18], h[19]])];
    frame.family = 4;
    frame.tos = h[1];
    frame.ip_offset = at as u32;
    Ok(Net {
        upper: at + header_len,
        protocol: h[9],
        end: at + total_len as usize,
        total_len,
        fragment: fragment & 0x2000 != 0,
    })
}

#[inline(always)]
pub(super) fn v6(
    bytes: &impl Bytes,
    at: usize,
    frame: &mut Frame,
    trace: &mut impl Trace,
) -> Result<Net, SkipReason> {
    const LEN: usize = 40;
    let h = bytes.get::<8>(at).ok_or(SkipReason::TruncatedHeaders)?;
    if h[0] >> 4 != 6 {
        return Err(SkipReason::Malformed);
    }
    frame.src = words(bytes.get::<16>(at + 8).ok_or(SkipReason::TruncatedHeaders)?);
    frame.dst = words(bytes.get::<16>(at + 24).ok_or(SkipReason::TruncatedHeaders)?);
    frame.family = 6;
    frame.tos = (h[0] << 4) | (h[1] >> 4);
    frame.ip_offset = at as u32;
    trace.layer(Layer::Ipv6, at);
    let total_len = LEN as u32 + u32::from(u16::from_be_bytes([h[4], h[5]]));
    let end = at + total_len as usize;
    let mut net = Net { upper: at + LEN, protocol: h[6], end, total_len, fragment: false };
    for _ in 0..MAX_EXT {
        let unit = match net.protocol {
            PROTO_HOP_BY_HOP | PROTO_ROUTING | PROTO_DEST_OPTS => 8,
            PROTO_FRAGMENT => 0,
            PROTO_AH => 4,
            _ => return Ok(net),
        };
        let ext = bytes.get::<8>(net.upper).ok_or(SkipReason::TruncatedHeaders)?;
        trace.layer(Layer::Ipv6Ext, net.upper);
        if net.protocol == PROTO_FRAGMENT {
            let field = u16::from_be_bytes([ext[2], ext[3]]);
            if field >> 3 != 0 {
                return Err(SkipReason::Fragment);
            }
            net.fragment = field & 1 != 0;
        }
        // The length counts units beyond the first eight bytes; a fragment header has none.
        let behind = net.upper + 8 + usize::from(ext[1]) * unit;
        net.upper = bytes.forget_range(behind).ok_or(SkipReason::Ipv6ExtUnparsed)?;
        net.protocol = ext[0];
    }
    match net.protocol {
        PROTO_HOP_BY_HOP | PROTO_ROUTING | PROTO_DEST_OPTS | PROTO_FRAGMENT | PROTO_AH => {
            Err(SkipReason::Ipv6ExtUnparsed)
        }
        _ => Ok(net),
    }
}

/// Identifies the payload of an IP packet; stores the source port of RoCE in the frame.
#[inline(always)]
pub(super) fn above(bytes: &impl Bytes, net: &Net, frame: &mut Frame) -> Result<Upper, SkipReason> {
    let protocol = match net.protocol {
        PROTO_UDP => {
            let Some(h) = bytes.get::<UDP_LEN>(net.upper) else {
                // Truncated within the UDP header: the ports may be present.
                return match bytes.get::<4>(net.upper) {
                    Some([_, _, a, b]) if u16::from_be_bytes([a, b]) == PORT_ROCE => {
                        Err(SkipReason::Truncated)
                    }
                    _ => Err(SkipReason::TruncatedHeaders),
                };
            };
            return match u16::from_be_bytes([h[2], h[3]]) {
                PORT_ROCE => {
                    frame.src_port = u16::from_be_bytes([h[0], h[1]]);
                    Ok(Upper {
                        protocol: UpperProtocol::Roce,
                        value: u32::from(u16::from_be_bytes([h[4], h[5]])),
                    })
                }
                PORT_ULTRA_ETHERNET => Err(SkipReason::UltraEthernet),
                other => Ok(Upper { protocol: UpperProtocol::Udp, value: u32::from(other) }),
            };
        }
        PROTO_TCP => return Err(SkipReason::Tcp),
        PROTO_GRE => UpperProtocol::Gre,
        PROTO_IPIP | PROTO_IPV6 => UpperProtocol::Ip,
        PROTO_MPLS => UpperProtocol::Mpls,
        PROTO_ICMP => return Err(SkipReason::Icmp),
        PROTO_ICMPV6 => return Err(SkipReason::Icmpv6),
        PROTO_IGMP => return Err(SkipReason::Igmp),
        _ => return Err(SkipReason::OtherIpProtocol),
    };
    Ok(Upper { protocol, value: 0 })
}

#[cfg(test)]
mod tests {
    use crate::wire::frame::Full;
    use crate::wire::{Meta, SkipReason, not_roce, parse};

    #[test]
    fn non_roce_frames_are_skipped_by_reason() {
        // Ethernet and 48 bytes of IP, of which only the protocol matters.
        let v4 = |protocol: u8, options: u8| {
            let mut frame = [0; 62];
            (frame[12], frame[13], frame[14], frame[17]) = (0x08, 0x00, 0x45 + options, 48);
            frame[23] = protocol;
            frame
        };
        let v6 = |next: u8, behind: u8| {
            let mut frame = [0; 62];
            (frame[12], frame[13], frame[14], frame[19]) = (0x86, 0xDD, 0x60, 8);
            (frame[20], frame[54]) = (next, behind);
            frame
        };
        for (frame, reason) in [
            (v4(6, 0), SkipReason::Tcp),
            (v4(1, 0), SkipReason::Icmp),
            (v4(2, 0), SkipReason::Igmp),
            // Membership reports carry the router alert option.
            (v4(2, 1), SkipReason::Igmp),
            (v6(58, 0), SkipReason::Icmpv6),
            // Multicast listener reports have it as a hop-by-hop option.
            (v6(0, 58), SkipReason::Icmpv6),
            (v4(89, 0), SkipReason::OtherIpProtocol),
            (v6(89, 0), SkipReason::OtherIpProtocol),
        ] {
            let meta = Meta::ethernet(62);
            let parsed = parse::<Full>(&&frame[..], meta, &mut ()).map(|_| ());
            assert_eq!(parsed, Err(reason));
            assert!(not_roce(&&frame[..]).is_none_or(|shortcut| shortcut == reason));
        }
    }
}
