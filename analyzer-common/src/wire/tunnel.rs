//! Tunnels and mirrors around RoCE: VXLAN, VXLAN-GPE, Geneve, GRE, ERSPAN I–III, MPLS, IP in IP.

use super::bytes::Bytes;
use super::frame::{Depth, Encap, Entry, Walk, ethertype};
use super::ip::{Net, UDP_LEN, Upper, UpperProtocol};
use super::layer::{Layer, Trace};
use super::skip_reason::SkipReason;

pub(super) const PORT_VXLAN: u32 = 4789;
/// Length of a VXLAN header in bytes.
pub(super) const VXLAN_LEN: usize = 8;
/// The flag of a VXLAN header that marks its network identifier as valid.
pub(super) const VXLAN_FLAG_VNI: u8 = 0x08;
const PORT_VXLAN_GPE: u32 = 4790;
const PORT_GENEVE: u32 = 6081;
const PORT_MPLS: u32 = 6635;

/// True if a UDP port belongs to a tunnel.
#[inline(always)]
pub(super) const fn knows_port(port: u16) -> bool {
    matches!(port as u32, PORT_VXLAN | PORT_VXLAN_GPE | PORT_GENEVE | PORT_MPLS)
}

const GRE_ERSPAN_1_2: u16 = 0x88BE;
const GRE_ERSPAN_3: u16 = 0x22EB;

/// Maximum number of MPLS labels.
const MAX_LABELS: u32 = 8;

/// Skips the header of a tunnel in `net`; returns the type of the header inside.
#[inline(always)]
pub(super) fn enter<D: Depth>(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    net: &Net,
    upper: Upper,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    walk.offset = net.upper;
    match upper.protocol {
        UpperProtocol::Udp => {
            trace.layer(Layer::Udp, net.upper);
            walk.offset += UDP_LEN;
            match upper.value {
                PORT_VXLAN => {
                    too_deep::<D>(level)?;
                    vxlan(bytes, walk, level, trace)
                }
                PORT_VXLAN_GPE | PORT_GENEVE | PORT_MPLS if !D::ALL => Err(SkipReason::TunnelUnparsed),
                PORT_VXLAN_GPE => {
                    too_deep::<D>(level)?;
                    vxlan_gpe(bytes, walk, level, trace)
                }
                PORT_GENEVE => {
                    too_deep::<D>(level)?;
                    geneve(bytes, walk, level, trace)
                }
                PORT_MPLS => mpls::<D>(bytes, walk, level, trace),
                _ => Err(SkipReason::OtherUdp),
            }
        }
        UpperProtocol::Gre => {
            too_deep::<D>(level)?;
            gre::<D>(bytes, walk, level, trace)
        }
        UpperProtocol::Ip => {
            too_deep::<D>(level)?;
            walk.tunnel(level, Encap::IpIp);
            Ok(Entry::IP)
        }
        UpperProtocol::Mpls if D::ALL => mpls::<D>(bytes, walk, level, trace),
        // The caller handles RoCE itself.
        UpperProtocol::Mpls | UpperProtocol::Roce => Err(SkipReason::TunnelUnparsed),
    }
}

#[inline(always)]
fn too_deep<D: Depth>(level: u32) -> Result<(), SkipReason> {
    if level >= D::TUNNELS { Err(SkipReason::TunnelUnparsed) } else { Ok(()) }
}

#[inline(always)]
fn vxlan(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    let h = bytes.get::<VXLAN_LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    if h[0] & VXLAN_FLAG_VNI == 0 {
        return Err(SkipReason::TunnelUnparsed);
    }
    trace.layer(Layer::Vxlan, walk.offset);
    walk.offset += VXLAN_LEN;
    walk.tunnel(level, Encap::Vxlan);
    Ok(Entry::ETHERNET)
}

/// Next-protocol numbers shared by VXLAN-GPE and NSH.
#[inline(always)]
fn gpe_inside(next: u8) -> Result<Entry, SkipReason> {
    match next {
        1 | 2 => Ok(Entry::IP),
        3 => Ok(Entry::ETHERNET),
        5 => Ok(Entry::ethertype(ethertype::MPLS)),
        _ => Err(SkipReason::TunnelUnparsed),
    }
}

#[inline(always)]
fn vxlan_gpe(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    const LEN: usize = 8;
    const NEXT_NSH: u8 = 4;
    let h = bytes.get::<LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    trace.layer(Layer::VxlanGpe, walk.offset);
    walk.offset += LEN;
    walk.tunnel(level, Encap::VxlanGpe);
    if h[3] != NEXT_NSH {
        return gpe_inside(h[3]);
    }
    // NSH: the low six bits of the second byte hold the length in words.
    let nsh = bytes.get::<8>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    let words = usize::from(nsh[1] & 0x3F);
    if words < 2 {
        return Err(SkipReason::Malformed);
    }
    trace.layer(Layer::Nsh, walk.offset);
    walk.offset += 4 * words;
    gpe_inside(nsh[3])
}

#[inline(always)]
fn geneve(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    const LEN: usize = 8;
    let h = bytes.get::<LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    trace.layer(Layer::Geneve, walk.offset);
    walk.offset += LEN + 4 * usize::from(h[0] & 0x3F);
    walk.tunnel(level, Encap::Geneve);
    Ok(by_ethertype(u16::from_be_bytes([h[2], h[3]])))
}

#[inline(always)]
fn by_ethertype(ethertype: u16) -> Entry {
    if ethertype == ethertype::TEB { Entry::ETHERNET } else { Entry::ethertype(ethertype) }
}

#[inline(always)]
fn gre<D: Depth>(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const VERSION: u16 = 0x0007;
    let h = bytes.get::<4>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    let flags = u16::from_be_bytes([h[0], h[1]]);
    let protocol = u16::from_be_bytes([h[2], h[3]]);
    trace.layer(Layer::Gre, walk.offset);
    if flags & (VERSION | ROUTING) != 0 {
        return Err(SkipReason::TunnelUnparsed);
    }
    walk.offset += 4;
    if flags & CHECKSUM != 0 {
        walk.offset += 4;
    }
    if flags & KEY != 0 {
        walk.offset += 4;
    }
    if flags & SEQUENCE != 0 {
        walk.offset += 4;
    }
    match protocol {
        GRE_ERSPAN_1_2 if flags & SEQUENCE == 0 => {
            // Type I has no header of its own: the mirrored frame follows directly.
            trace.layer(Layer::Erspan, walk.offset);
            walk.tunnel(level, Encap::Erspan1);
            Ok(Entry::ETHERNET)
        }
        GRE_ERSPAN_1_2 => erspan2(bytes, walk, level, trace),
        GRE_ERSPAN_3 => erspan3(bytes, walk, level, trace),
        ethertype::TEB => {
            walk.tunnel(level, Encap::Gre);
            Ok(Entry::ETHERNET)
        }
        ethertype::IPV4 | ethertype::IPV6 => {
            walk.tunnel(level, Encap::Gre);
            Ok(Entry::ethertype(protocol))
        }
        _ if D::ALL => {
            walk.tunnel(level, Encap::Gre);
            Ok(Entry::ethertype(protocol))
        }
        _ => Err(SkipReason::TunnelUnparsed),
    }
}

#[inline(always)]
fn erspan2(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    const LEN: usize = 8;
    const VERSION: u8 = 1;
    let h = bytes.get::<LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    if h[0] >> 4 != VERSION {
        return Err(SkipReason::TunnelUnparsed);
    }
    trace.layer(Layer::Erspan, walk.offset);
    walk.offset += LEN;
    walk.tunnel(level, Encap::Erspan2);
    Ok(Entry::ETHERNET)
}

#[inline(always)]
fn erspan3(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    const LEN: usize = 12;
    const PLATFORM_LEN: usize = 8;
    const VERSION: u8 = 2;
    let h = bytes.get::<LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
    if h[0] >> 4 != VERSION {
        return Err(SkipReason::TunnelUnparsed);
    }
    trace.layer(Layer::Erspan, walk.offset);
    walk.offset += LEN;
    if h[11] & 1 != 0 {
        walk.offset += PLATFORM_LEN;
    }
    walk.tunnel(level, Encap::Erspan3);
    match h[10] >> 2 & 0x1F {
        0 => Ok(Entry::ETHERNET),
        2 => Ok(Entry::IP),
        _ => Err(SkipReason::TunnelUnparsed),
    }
}

/// Pops MPLS labels to the bottom of the stack. The payload has no type field: either its first four bits
/// are an IP version, or a control word of zeros precedes an Ethernet frame.
#[inline(always)]
pub(super) fn mpls<D: Depth>(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    level: u32,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    const LEN: usize = 4;
    if !D::ALL {
        return Err(SkipReason::TunnelUnparsed);
    }
    too_deep::<D>(level)?;
    for _ in 0..MAX_LABELS {
        let label = bytes.get::<LEN>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
        trace.layer(Layer::Mpls, walk.offset);
        walk.offset += LEN;
        if label[2] & 1 == 0 {
            continue;
        }
        walk.tunnel(level, Encap::Mpls);
        let [first] = bytes.get::<1>(walk.offset).ok_or(SkipReason::TruncatedHeaders)?;
        return match first >> 4 {
            4 | 6 => Ok(Entry::IP),
            0 => {
                walk.offset += 4;
                Ok(Entry::ETHERNET)
            }
            _ => Err(SkipReason::TunnelUnparsed),
        };
    }
    Err(SkipReason::TunnelUnparsed)
}
