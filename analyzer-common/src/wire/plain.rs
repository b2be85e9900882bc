//! Frames that are plainly no RoCE: most of what a host receives, told by a few bytes.

use super::bytes::Bytes;
use super::frame::ethertype;
use super::ip;
use super::stop::Reason;
use super::tunnel;

/// Why an Ethernet frame with at most one tag is not counted as RoCE, where bytes at fixed places
/// tell; what [`super::parse`] says then, too. `None` leaves it to the parser.
///
/// For the kernel programs, which see every packet of an interface and should cost those little that
/// do not concern them.
#[inline(always)]
#[must_use]
pub fn not_roce(bytes: &impl Bytes) -> Option<Reason> {
    // To the end of a UDP header behind an IPv4 header without options.
    let h = bytes.get::<42>(0)?;
    let first = u16::from_be_bytes([h[12], h[13]]);
    if !ethertype::is_tag(first) {
        return network(bytes, 0, first, h);
    }
    // The same four bytes further on.
    let h = bytes.get::<42>(4)?;
    network(bytes, 4, u16::from_be_bytes([h[12], h[13]]), h)
}

/// `h` are the bytes from `tags` on, the length of the tags, so that the ethertype is at 12.
#[inline(always)]
fn network(bytes: &impl Bytes, tags: usize, ethertype: u16, h: [u8; 42]) -> Option<Reason> {
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
            // To the end of a UDP header.
            let h = bytes.get::<62>(tags)?;
            if h[14] >> 4 != 6 {
                return None;
            }
            above_ip(h[20], [h[56], h[57]])
        }
        ethertype::ARP => Some(Reason::Arp),
        _ => None,
    }
}

#[inline(always)]
fn above_ip(protocol: u8, port: [u8; 2]) -> Option<Reason> {
    match protocol {
        ip::PROTO_TCP => Some(Reason::Tcp),
        ip::PROTO_UDP => {
            let port = u16::from_be_bytes(port);
            let concerns_us = ip::knows_port(port) || tunnel::knows_port(port);
            if concerns_us { None } else { Some(Reason::OtherUdp) }
        }
        _ => None,
    }
}
