//! Fields of the headers outside the BTH.

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, UdpHeaderSlice};
use rocescope_common::wire::Layer;

use super::{Header, be16, be24, be32, get};

/// The header of this layer; `None` when it is cut.
pub(super) fn header(bytes: &[u8], layer: Layer, at: usize) -> Option<Header> {
    let rest = bytes.get(at..)?;
    match layer {
        Layer::Ethernet => ethernet(bytes, at),
        Layer::Sll | Layer::Sll2 => cooked(bytes, layer, at),
        Layer::Vlan => vlan(bytes, at),
        Layer::Ipv4 => Ipv4HeaderSlice::from_slice(rest).ok().map(|ip| ipv4(&ip, at)),
        Layer::Ipv6 => Ipv6HeaderSlice::from_slice(rest).ok().map(|ip| ipv6("IPv6", &ip, at)),
        // A GRH has the layout of an IPv6 header.
        Layer::Grh => Ipv6HeaderSlice::from_slice(rest).ok().map(|ip| ipv6("GRH", &ip, at)),
        Layer::Lrh => lrh(bytes, at),
        Layer::Ipv6Ext => ipv6_ext(bytes, at),
        Layer::Udp => UdpHeaderSlice::from_slice(rest).ok().map(|udp| self::udp(&udp, at)),
        Layer::Vxlan | Layer::VxlanGpe => vxlan(bytes, layer, at),
        Layer::Geneve => geneve(bytes, at),
        Layer::Gre => gre(bytes, at),
        Layer::Erspan => erspan(bytes, at),
        Layer::Mpls => mpls(bytes, at),
        Layer::Nsh => nsh(bytes, at),
        Layer::Bth => None,
    }
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn ethertype(value: u16) -> String {
    let name = match value {
        0x0800 => "IPv4",
        0x86DD => "IPv6",
        0x8100 => "802.1Q tag",
        0x88A8 => "802.1ad tag",
        0x8915 => "RoCEv1",
        0x8847 => "MPLS",
        0x6558 => "Ethernet",
        _ => return format!("0x{value:04x}"),
    };
    format!("0x{value:04x}, {name}")
}

fn ethernet(bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = Header::new("Ethernet", at);
    header.field("destination", at, 6, mac(get(bytes, at)?));
    header.field("source", at + 6, 6, mac(get(bytes, at + 6)?));
    header.field("type", at + 12, 2, ethertype(be16(bytes, at + 12)?));
    Some(header)
}

fn lrh(bytes: &[u8], at: usize) -> Option<Header> {
    let [lane, level, ..]: [u8; 8] = get(bytes, at)?;
    let next = match level & 3 {
        2 => "2, BTH",
        3 => "3, GRH",
        1 => "1, raw IPv6",
        _ => "0, raw ethertype",
    };
    let mut header = Header::new("LRH (InfiniBand)", at);
    header.field("virtual lane (VL)", at, 1, (lane >> 4).to_string());
    header.field("service level (SL)", at + 1, 1, (level >> 4).to_string());
    header.field("next header (LNH)", at + 1, 1, next);
    header.field("destination LID", at + 2, 2, format!("{:#06x}", be16(bytes, at + 2)?));
    header.field("length", at + 4, 2, format!("{} bytes", (be16(bytes, at + 4)? & 0x7FF) * 4));
    header.field("source LID", at + 6, 2, format!("{:#06x}", be16(bytes, at + 6)?));
    Some(header)
}

fn cooked(bytes: &[u8], layer: Layer, at: usize) -> Option<Header> {
    if layer == Layer::Sll {
        let mut header = Header::new("Linux cooked capture", at);
        header.field("packet type", at, 2, be16(bytes, at)?.to_string());
        header.field("protocol", at + 14, 2, ethertype(be16(bytes, at + 14)?));
        return Some(header);
    }
    let mut header = Header::new("Linux cooked capture v2", at);
    header.field("protocol", at, 2, ethertype(be16(bytes, at)?));
    header.field("interface", at + 4, 4, be32(bytes, at + 4)?.to_string());
    let [kind] = get(bytes, at + 10)?;
    header.field("packet type", at + 10, 1, kind.to_string());
    Some(header)
}

fn vlan(bytes: &[u8], at: usize) -> Option<Header> {
    let tci = be16(bytes, at)?;
    let mut header = Header::new("VLAN tag", at);
    header.field("priority (PCP)", at, 1, (tci >> 13).to_string());
    header.field("drop eligible", at, 1, ((tci >> 12) & 1).to_string());
    header.field("VLAN", at, 2, (tci & 0x0FFF).to_string());
    header.field("type", at + 2, 2, ethertype(be16(bytes, at + 2)?));
    Some(header)
}

/// The two low bits of ToS or traffic class.
fn ecn(bits: u8) -> &'static str {
    match bits & 3 {
        0 => "0, not ECN-capable",
        1 => "1, ECT(1)",
        2 => "2, ECT(0)",
        _ => "3, CE: congestion experienced",
    }
}

fn protocol(number: u8) -> String {
    let name = match number {
        4 => "IPv4",
        17 => "UDP",
        27 => "InfiniBand",
        41 => "IPv6",
        47 => "GRE",
        _ => return number.to_string(),
    };
    format!("{number}, {name}")
}

fn ipv4(ip: &Ipv4HeaderSlice<'_>, at: usize) -> Header {
    let mut header = Header::new("IPv4", at);
    header.field("header length", at, 1, format!("{} bytes", usize::from(ip.ihl()) * 4));
    header.field("DSCP", at + 1, 1, ip.dcp().value().to_string());
    header.field("ECN", at + 1, 1, ecn(ip.ecn().value()));
    header.field("total length", at + 2, 2, ip.total_len().to_string());
    header.field("identification", at + 4, 2, format!("0x{:04x}", ip.identification()));
    let mut flags = Vec::new();
    if ip.dont_fragment() {
        flags.push("don't fragment".to_owned());
    }
    if ip.more_fragments() {
        flags.push("more fragments".to_owned());
    }
    if ip.fragments_offset().value() > 0 {
        flags.push(format!("offset {}", u32::from(ip.fragments_offset().value()) * 8));
    }
    let flags = if flags.is_empty() { "none".to_owned() } else { flags.join(", ") };
    header.field("fragment flags", at + 6, 2, flags);
    header.field("TTL", at + 8, 1, ip.ttl().to_string());
    header.field("protocol", at + 9, 1, protocol(ip.protocol().0));
    header.field("checksum", at + 10, 2, format!("0x{:04x}", ip.header_checksum()));
    header.field("source", at + 12, 4, ip.source_addr().to_string());
    header.field("destination", at + 16, 4, ip.destination_addr().to_string());
    header
}

fn ipv6(name: &str, ip: &Ipv6HeaderSlice<'_>, at: usize) -> Header {
    let mut header = Header::new(name, at);
    let class = ip.traffic_class();
    header.field("DSCP", at, 2, (class >> 2).to_string());
    header.field("ECN", at + 1, 1, ecn(class));
    header.field("flow label", at + 1, 3, format!("0x{:05x}", ip.flow_label().value()));
    header.field("payload length", at + 4, 2, ip.payload_length().to_string());
    header.field("next header", at + 6, 1, protocol(ip.next_header().0));
    header.field("hop limit", at + 7, 1, ip.hop_limit().to_string());
    header.field("source", at + 8, 16, ip.source_addr().to_string());
    header.field("destination", at + 24, 16, ip.destination_addr().to_string());
    header
}

fn ipv6_ext(bytes: &[u8], at: usize) -> Option<Header> {
    let [next, length] = get(bytes, at)?;
    let mut header = Header::new("IPv6 extension", at);
    header.field("next header", at, 1, protocol(next));
    header.field("length", at + 1, 1, format!("{} bytes", (usize::from(length) + 1) * 8));
    Some(header)
}

fn udp(udp: &UdpHeaderSlice<'_>, at: usize) -> Header {
    let mut header = Header::new("UDP", at);
    header.field("source port", at, 2, udp.source_port().to_string());
    let port = udp.destination_port();
    let name = match port {
        4791 => ", RoCEv2",
        4789 => ", VXLAN",
        4790 => ", VXLAN-GPE",
        6081 => ", Geneve",
        _ => "",
    };
    header.field("destination port", at + 2, 2, format!("{port}{name}"));
    header.field("length", at + 4, 2, udp.length().to_string());
    header.field("checksum", at + 6, 2, format!("0x{:04x}", udp.checksum()));
    header
}

fn vxlan(bytes: &[u8], layer: Layer, at: usize) -> Option<Header> {
    let [flags] = get(bytes, at)?;
    let mut header = Header::new(if layer == Layer::Vxlan { "VXLAN" } else { "VXLAN-GPE" }, at);
    header.field("flags", at, 1, format!("0x{flags:02x}"));
    if layer == Layer::VxlanGpe {
        let [next] = get(bytes, at + 3)?;
        header.field("next protocol", at + 3, 1, next.to_string());
    }
    header.field("VNI", at + 4, 3, be24(bytes, at + 4)?.to_string());
    Some(header)
}

fn geneve(bytes: &[u8], at: usize) -> Option<Header> {
    let [first] = get(bytes, at)?;
    let mut header = Header::new("Geneve", at);
    header.field("options", at, 1, format!("{} bytes", usize::from(first & 0x3F) * 4));
    header.field("protocol", at + 2, 2, ethertype(be16(bytes, at + 2)?));
    header.field("VNI", at + 4, 3, be24(bytes, at + 4)?.to_string());
    Some(header)
}

fn gre(bytes: &[u8], at: usize) -> Option<Header> {
    let flags = be16(bytes, at)?;
    let protocol = be16(bytes, at + 2)?;
    let mut header = Header::new("GRE", at);
    let parts = [(0x8000, "checksum"), (0x2000, "key"), (0x1000, "sequence number")];
    let parts: Vec<&str> =
        parts.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name).collect();
    let with = if parts.is_empty() { "no optional fields".to_owned() } else { parts.join(", ") };
    header.field("flags", at, 2, format!("0x{flags:04x}: {with}"));
    let name = match protocol {
        0x88BE => "0x88be, ERSPAN I or II".to_owned(),
        0x22EB => "0x22eb, ERSPAN III".to_owned(),
        other => ethertype(other),
    };
    header.field("protocol", at + 2, 2, name);
    Some(header)
}

fn erspan(bytes: &[u8], at: usize) -> Option<Header> {
    let (first, second) = (be16(bytes, at)?, be16(bytes, at + 2)?);
    let version = first >> 12;
    let mut header = Header::new("ERSPAN", at);
    let kind = match version {
        1 => "II",
        2 => "III",
        // Type I has no header of its own: the mirrored frame follows.
        _ => return Some(header),
    };
    header.field("type", at, 1, kind);
    header.field("VLAN", at, 2, (first & 0x0FFF).to_string());
    header.field("session", at + 2, 2, (second & 0x03FF).to_string());
    Some(header)
}

fn mpls(bytes: &[u8], at: usize) -> Option<Header> {
    let word = be32(bytes, at)?;
    let mut header = Header::new("MPLS", at);
    header.field("label", at, 3, (word >> 12).to_string());
    header.field("traffic class", at + 2, 1, ((word >> 9) & 7).to_string());
    header.field("bottom of stack", at + 2, 1, ((word >> 8) & 1).to_string());
    header.field("TTL", at + 3, 1, (word & 0xFF).to_string());
    Some(header)
}

fn nsh(bytes: &[u8], at: usize) -> Option<Header> {
    let [_, length, _, next] = get(bytes, at)?;
    let mut header = Header::new("NSH", at);
    header.field("length", at + 1, 1, format!("{} bytes", usize::from(length & 0x3F) * 4));
    header.field("next protocol", at + 3, 1, next.to_string());
    Some(header)
}
