//! Converts a row of tshark's fields to the packet data that the accounting needs.
//!
//! BTH, AETH, RETH and DETH are decoded by tshark where it can. tshark 4.0 treats CNP, XRC, FLUSH and ATOMIC WRITE as
//! unknown opcodes and decodes nothing after their BTH; for those, and if a source port keeps it from decoding at
//! all, the bytes of the UDP payload are decoded here.

use std::net::IpAddr;

use anyhow::{Context, Result};

use super::opcode::{self, Opcode};
use super::tshark::Row;

const ROCE_PORT: u64 = 4791;
const BTH: usize = 12;

/// One frame of a capture.
#[derive(Debug)]
pub struct Frame {
    /// Nanoseconds of Unix time.
    pub time_ns: u64,
    /// Bytes on the wire, without FCS.
    pub len: u64,
    /// Link within the capture: empty, or `:in`, `:if3:out`, `:eth0`.
    pub link_suffix: String,
    /// Its content.
    pub content: Content,
}

/// Class of a frame in the accounting.
#[derive(Debug)]
pub enum Content {
    /// A RoCE packet.
    Roce(Box<Packet>),
    /// To port 4791 (or RoCEv1), but truncated between the UDP header and the end of the BTH.
    Truncated,
    /// Anything else.
    Other,
}

/// A RoCE packet.
#[derive(Debug)]
pub struct Packet {
    /// Source address, or GID in RoCEv1.
    pub src: IpAddr,
    /// Destination address or GID.
    pub dst: IpAddr,
    /// UDP source port; `None` in RoCEv1.
    pub src_port: Option<u64>,
    /// 1 or 2.
    pub roce_version: u64,
    /// Number of the opcode.
    pub code: u8,
    /// Meaning of the opcode.
    pub opcode: Opcode,
    /// Destination QP number.
    pub dest_qp: u64,
    /// Packet sequence number.
    pub psn: u32,
    /// Application payload in bytes; `None` if unknown.
    pub payload: Option<u64>,
    /// Two low bits of the traffic class of the innermost header; `None` in RoCEv1.
    pub ecn: Option<usize>,
    /// Its six high bits.
    pub dscp: Option<u64>,
    /// Outermost VLAN id; 0 for none, `None` if the capture does not contain tags.
    pub vlan: Option<u64>,
    /// Second VLAN id.
    pub inner_vlan: Option<u64>,
    /// Priority of the outermost tag.
    pub pcp: Option<u64>,
    /// Tunnels and mirrors around the packet, outermost first.
    pub encapsulation: Option<String>,
    /// 14 and the length of the innermost IP packet, when encapsulated.
    pub inner_bytes: Option<u64>,
    /// Syndrome of the AETH; `None` without one, or if it was truncated.
    pub syndrome: Option<u64>,
    /// DMA length of a READ request; `None` if truncated.
    pub dma_length: Option<u64>,
    /// Source QP of a datagram.
    pub src_qp: Option<u64>,
    /// Connection set-up carried in it.
    pub cm: Option<Cm>,
}

/// The two messages of the connection manager that contain QP numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cm {
    /// Request: local communication id, local QP.
    Req(u64, u64),
    /// Reply: remote communication id (the REQ's local one), local QP.
    Rep(u64, u64),
}

/// Number of occurrences of each layer above this one, as index into tshark's lists of values.
#[derive(Debug, Default)]
struct Above {
    ip: usize,
    ipv6: usize,
    last_is_v6: bool,
    udp: usize,
    gre: usize,
    hopopts: usize,
    routing: usize,
    dstopts: usize,
    /// Length of the extension headers of the innermost IPv6 header.
    extensions: u64,
    fragmented: bool,
    tags: Vec<(u64, u64)>,
    vlan: usize,
    ad: usize,
    names: Vec<String>,
    raw: bool,
}

/// Reads one row.
pub fn decode(row: &Row) -> Result<Frame> {
    let number = row.text("frame.number", 0).unwrap_or("?");
    Ok(Frame {
        time_ns: row.time_ns()?,
        len: row.number("frame.len", 0).context("a frame without length")?,
        link_suffix: cooked_suffix(row),
        content: content(row).with_context(|| format!("frame {number}"))?,
    })
}

/// `:in` and `:out` for cooked captures, `:ifN:in` if the interface is known.
fn cooked_suffix(row: &Row) -> String {
    let Some(kind) = row.number("sll.pkttype", 0) else { return String::new() };
    // Packet type 4 is sent by this host; all others were received.
    let direction = if kind == 4 { "out" } else { "in" };
    match row.number("sll.ifindex", 0) {
        Some(index) => format!(":if{index}:{direction}"),
        None => format!(":{direction}"),
    }
}

/// Descends through tshark's layers to the RoCE packet, if there is one.
fn content(row: &Row) -> Result<Content> {
    let mut above = Above::default();
    let mut previous = "";
    for layer in row.protocols() {
        match layer {
            "udp" => {
                if row.number("udp.dstport", above.udp) == Some(ROCE_PORT) {
                    return version2(row, &above);
                }
                above.udp += 1;
            }
            "infiniband" if previous == "ethertype" => return version1(row, &above),
            "infiniband" => return Ok(Content::Other),
            _ => above.pass(row, layer, previous),
        }
        previous = layer;
    }
    Ok(Content::Other)
}

impl Above {
    fn pass(&mut self, row: &Row, layer: &str, previous: &str) {
        let octets = |field, index| row.number(field, index).unwrap_or(0);
        match layer {
            "raw" => self.raw = true,
            "ip" | "ipv6" => {
                if matches!(previous, "ip" | "ipv6") || previous.starts_with("ipv6.") {
                    self.names.push("ipip".to_owned());
                }
                self.extensions = 0;
                self.last_is_v6 = layer == "ipv6";
                if self.last_is_v6 {
                    self.ipv6 += 1;
                    self.fragmented = false;
                } else {
                    self.fragmented = row.number("ip.flags.mf", self.ip) == Some(1)
                        || row.number("ip.frag_offset", self.ip).unwrap_or(0) != 0;
                    self.ip += 1;
                }
            }
            "ipv6.hopopts" => {
                self.extensions += octets("ipv6.hopopts.len_oct", self.hopopts);
                self.hopopts += 1;
            }
            "ipv6.routing" => {
                self.extensions += octets("ipv6.routing.len_oct", self.routing);
                self.routing += 1;
            }
            "ipv6.dstopts" => {
                self.extensions += octets("ipv6.dstopts.len_oct", self.dstopts);
                self.dstopts += 1;
            }
            "ipv6.fraghdr" => {
                self.extensions += 8;
                self.fragmented = row.number("ipv6.fraghdr.more", 0) == Some(1);
            }
            "vlan" => {
                self.tag(row, "vlan.id", "vlan.priority", self.vlan);
                self.vlan += 1;
            }
            "ieee8021ad" => {
                self.tag(row, "ieee8021ad.id", "ieee8021ad.priority", self.ad);
                self.ad += 1;
            }
            "gre" => {
                let sequence = row.number("gre.flags.sequence_number", self.gre) == Some(1);
                let name = match (row.number("gre.proto", self.gre), sequence) {
                    (Some(0x88BE), false) => "erspan1",
                    (Some(0x88BE), true) => "erspan2",
                    (Some(0x22EB), _) => "erspan3",
                    _ => "gre",
                };
                self.names.push(name.to_owned());
                self.gre += 1;
            }
            "vxlan" | "geneve" => self.names.push(layer.to_owned()),
            // A whole label stack is one layer.
            "mpls" if previous != "mpls" => self.names.push(layer.to_owned()),
            _ => {}
        }
    }

    fn tag(&mut self, row: &Row, id: &str, priority: &str, index: usize) {
        let id = row.number(id, index).unwrap_or(0);
        self.tags.push((id, row.number(priority, index).unwrap_or(0)));
    }

    /// Fills in the parts of a packet that do not depend on its BTH.
    fn carry(&self, packet: &mut Packet, network_bytes: u64) {
        let tag = |index: usize| self.tags.get(index).map(|(id, _)| *id);
        packet.vlan = if self.raw && self.tags.is_empty() { None } else { Some(tag(0).unwrap_or(0)) };
        packet.inner_vlan = if self.raw && self.tags.len() < 2 { None } else { Some(tag(1).unwrap_or(0)) };
        packet.pcp = self.tags.first().map(|(_, priority)| *priority);
        if !self.names.is_empty() {
            packet.encapsulation = Some(self.names.join("+"));
            packet.inner_bytes = Some(14 + network_bytes);
        }
    }
}

fn version2(row: &Row, above: &Above) -> Result<Content> {
    let payload = row.bytes("udp.payload", above.udp);
    if payload.len() < BTH {
        // A truncated UDP header may be decoded as far as it goes, or not at all.
        let whole = row.text("udp.checksum", above.udp).is_some();
        return Ok(if whole { Content::Truncated } else { Content::Other });
    }
    let (family, index) =
        if above.last_is_v6 { ("ipv6", above.ipv6 - 1) } else { ("ip", above.ip.saturating_sub(1)) };
    let address = |side| -> Result<IpAddr> {
        let text = row.text(&format!("{family}.{side}"), index).context("no address")?;
        text.parse().with_context(|| format!("address {text:?}"))
    };
    let (class, network_bytes, network_payload) = if above.last_is_v6 {
        let length = row.number("ipv6.plen", index).context("no IPv6 payload length")?;
        (row.number("ipv6.tclass", index), 40 + length, length.saturating_sub(above.extensions))
    } else {
        let total = row.number("ip.len", index).context("no IPv4 total length")?;
        let header = row.number("ip.hdr_len", index).context("no IPv4 header length")?;
        (row.number("ip.dsfield", index), total, total.saturating_sub(header))
    };
    let class = class.context("no traffic class")?;
    let udp_length = row.number("udp.length", above.udp).context("no UDP length")?;
    let reported = above.fragmented || udp_length <= network_payload;
    let mut packet = behind_bth(row, &payload, reported.then_some(udp_length))?;
    (packet.src, packet.dst) = (address("src")?, address("dst")?);
    packet.src_port = Some(row.number("udp.srcport", above.udp).context("no source port")?);
    packet.ecn = usize::try_from(class & 3).ok();
    packet.dscp = Some(class >> 2);
    above.carry(&mut packet, network_bytes);
    Ok(Content::Roce(Box::new(packet)))
}

fn version1(row: &Row, above: &Above) -> Result<Content> {
    match row.number("infiniband.grh.nxthdr", 0) {
        Some(0x1B) => {}
        Some(_) => return Ok(Content::Other),
        None => return Ok(Content::Truncated),
    }
    let bth = row.bytes("infiniband.bth", 0);
    if bth.len() < BTH {
        return Ok(Content::Truncated);
    }
    let gid = |field| -> Result<IpAddr> {
        let text = row.text(field, 0).context("no GID")?;
        text.parse().with_context(|| format!("GID {text:?}"))
    };
    let length = row.number("infiniband.grh.paylen", 0).context("no GRH payload length")?;
    let mut packet = behind_bth(row, &bth, Some(length + 8))?;
    (packet.src, packet.dst) = (gid("infiniband.grh.sgid")?, gid("infiniband.grh.dgid")?);
    packet.roce_version = 1;
    above.carry(&mut packet, 40 + length);
    Ok(Content::Roce(Box::new(packet)))
}

/// Decodes the BTH and the rest. `bytes` start with the BTH; `udp_length` is `None` if the lengths of the packet
/// contradict one another.
fn behind_bth(row: &Row, bytes: &[u8], udp_length: Option<u64>) -> Result<Packet> {
    let own = |offset: usize, count: usize| {
        bytes.get(offset..offset + count).map(|part| part.iter().fold(0, |sum, b| sum << 8 | u64::from(*b)))
    };
    // A source port that is another protocol's well-known port keeps tshark from decoding the BTH.
    let field = |name: &str, offset: usize, count: usize| {
        row.number(name, 0).or_else(|| own(offset, count)).with_context(|| format!("no {name}"))
    };
    let code =
        u8::try_from(field("infiniband.bth.opcode", 0, 1)?).context("an opcode of more than eight bits")?;
    let opcode = opcode::lookup(code);
    let pad = match row.number("infiniband.bth.padcnt", 0) {
        Some(pad) => pad,
        None => own(1, 1).context("no pad count")? >> 4 & 3,
    };
    let payload = match (opcode.control, opcode.extended, udp_length) {
        (true, ..) => Some(0),
        (false, Some(extended), Some(length)) => length.checked_sub(8 + 12 + extended + pad + 4),
        _ => None,
    };
    // tshark decodes RC, UC and UD up to SEND WITH INVALIDATE.
    let tshark_knows = matches!(code, 0x00..=0x17 | 0x20..=0x2B | 0x64 | 0x65)
        && row.number("infiniband.bth.opcode", 0).is_some();
    let behind = |header: Option<usize>, name: &str, from: usize, count: usize| {
        let start = BTH + header?;
        if tshark_knows { row.number(name, 0) } else { own(start + from, count) }
    };
    let syndrome = behind(opcode.aeth, "infiniband.aeth.syndrome", 0, 1);
    let dma_length = behind(opcode.read_reth, "infiniband.reth.dmalen", 12, 4);
    let src_qp = behind(opcode.deth.then_some(0), "infiniband.deth.srcqp", 5, 3);
    let pair = |id: &str, qp: &str| Some((row.number(id, 0)?, row.number(qp, 0)?));
    let cm = pair("infiniband.cm.req", "infiniband.cm.req.localqpn").map(|(id, qp)| Cm::Req(id, qp)).or_else(
        || {
            pair("infiniband.cm.rep.remotecommid", "infiniband.cm.rep.localqpn")
                .map(|(id, qp)| Cm::Rep(id, qp))
        },
    );
    let unset = IpAddr::from([0, 0, 0, 0]);
    Ok(Packet {
        src: unset,
        dst: unset,
        src_port: None,
        roce_version: 2,
        code,
        dest_qp: field("infiniband.bth.destqp", 5, 3)?,
        psn: u32::try_from(field("infiniband.bth.psn", 9, 3)?).context("a PSN beyond 24 bits")?,
        payload,
        ecn: None,
        dscp: None,
        vlan: None,
        inner_vlan: None,
        pcp: None,
        encapsulation: None,
        inner_bytes: None,
        syndrome,
        dma_length,
        src_qp,
        cm,
        opcode,
    })
}
