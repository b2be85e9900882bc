//! Fields of the BTH and of the extended headers after it.

use rocescope_common::wire::bth::{self, Bth};
use rocescope_common::wire::cm::{self, Message, Req};
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::{Name, Op, transport};

use super::{Header, be16, be24, be32, be64, get};
use crate::util::units;

/// BTH and extended headers, as far as they were captured.
pub(super) fn headers(bytes: &[u8], at: usize) -> Vec<Header> {
    let Some(raw) = get::<{ bth::LEN }>(bytes, at) else { return Vec::new() };
    let opcode = Bth(raw).opcode();
    let op = Op::of(opcode);
    let mut headers = vec![bth(Bth(raw), at)];
    if !op.has(Op::KNOWN) {
        return headers;
    }
    let mut next = at + bth::LEN;
    let end = next + op.ext_len() as usize;
    // The order of the headers is that of the specification (table 38 of volume 1).
    if op.has(Op::CNP) {
        headers.extend(reserved(bytes, next));
        return headers;
    }
    if op.has(Op::DETH) {
        headers.extend(deth(bytes, next));
        next += 8;
    }
    let xrc = transport(opcode) == "XRC";
    if xrc && op.has(Op::REQUEST) {
        headers.extend(xrceth(bytes, next));
        next += 4;
    }
    if op.has(Op::RETH) {
        let reth_at = at + bth::LEN + op.reth_offset();
        if reth_at == next + 4 {
            headers.extend(immediate(bytes, next, opcode));
        }
        next = reth_at;
        headers.extend(reth(bytes, next));
        next += 16;
    }
    if op.has(Op::AETH) {
        headers.extend(aeth(bytes, next));
        next += 4;
    }
    headers.extend(match end.saturating_sub(next) {
        28 => atomic(bytes, next),
        8 if op.has(Op::RESPONSE) => atomic_ack(bytes, next),
        4 => immediate(bytes, next, opcode),
        _ => None,
    });
    headers.extend(connection(bytes, at, end));
    headers
}

fn bth(bth: Bth, at: usize) -> Header {
    let mut header = Header::new("BTH, base transport header", at);
    let yes = |yes: bool| if yes { "1" } else { "0" };
    header.field("opcode", at, 1, format!("0x{:02x}, {}", bth.opcode(), Name(bth.opcode())));
    header.field("solicited event", at + 1, 1, yes(bth.solicited()));
    header.field("migration state", at + 1, 1, yes(bth.migreq()));
    header.field("pad", at + 1, 1, format!("{} bytes", bth.pad()));
    header.field("version", at + 1, 1, bth.version().to_string());
    header.field("partition key", at + 2, 2, format!("0x{:04x}", bth.pkey()));
    header.field("FECN", at + 4, 1, yes(bth.fecn()));
    header.field("BECN", at + 4, 1, yes(bth.becn()));
    header.field("destination QP", at + 5, 3, format!("{0} (0x{0:06x})", bth.dest_qp()));
    header.field("ack request", at + 8, 1, yes(bth.ack_req()));
    header.field("PSN", at + 9, 3, format!("{0} (0x{0:06x})", bth.psn()));
    header
}

fn reserved(bytes: &[u8], at: usize) -> Option<Header> {
    let zero = get::<16>(bytes, at)? == [0; 16];
    let mut header = Header::new("CNP, congestion notification", at);
    header.field("reserved", at, 16, if zero { "all zero" } else { "not all zero (invalid)" });
    Some(header)
}

fn deth(bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = Header::new("DETH, datagram", at);
    header.field("queue key", at, 4, format!("0x{:08x}", be32(bytes, at)?));
    let qp = be24(bytes, at + 5)?;
    header.field("source QP", at + 5, 3, format!("{qp} (0x{qp:06x})"));
    Some(header)
}

fn xrceth(bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = Header::new("XRCETH, extended reliable connection", at);
    header.field("shared receive queue", at + 1, 3, be24(bytes, at + 1)?.to_string());
    Some(header)
}

fn reth(bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = Header::new("RETH, remote memory", at);
    header.field("virtual address", at, 8, format!("0x{:016x}", be64(bytes, at)?));
    header.field("remote key", at + 8, 4, format!("0x{:08x}", be32(bytes, at + 8)?));
    let length = be32(bytes, at + 12)?;
    header.field("DMA length", at + 12, 4, format!("{} ({length})", units::bytes(u64::from(length))));
    Some(header)
}

fn aeth(bytes: &[u8], at: usize) -> Option<Header> {
    let word = be32(bytes, at)?;
    let mut header = Header::new("AETH, acknowledgement", at);
    let code = word >> 24;
    header.field("syndrome", at, 1, format!("0x{code:02x}, {}", syndrome(word)));
    header.field("message number", at + 1, 3, (word & bth::MASK24).to_string());
    Some(header)
}

fn atomic(bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = Header::new("AtomicETH", at);
    header.field("virtual address", at, 8, format!("0x{:016x}", be64(bytes, at)?));
    header.field("remote key", at + 8, 4, format!("0x{:08x}", be32(bytes, at + 8)?));
    header.field("swap or add", at + 12, 8, format!("0x{:016x}", be64(bytes, at + 12)?));
    header.field("compare", at + 20, 8, format!("0x{:016x}", be64(bytes, at + 20)?));
    Some(header)
}

fn atomic_ack(bytes: &[u8], at: usize) -> Option<Header> {
    let mut header = Header::new("AtomicAckETH", at);
    header.field("original data", at, 8, format!("0x{:016x}", be64(bytes, at)?));
    Some(header)
}

/// Four bytes that are the immediate data, a key to invalidate, or a kind of flush.
fn immediate(bytes: &[u8], at: usize, opcode: u8) -> Option<Header> {
    let word = be32(bytes, at)?;
    let name = Name(opcode).to_string();
    let (title, field) = if name.ends_with("INVALIDATE") {
        ("IETH, invalidate", "remote key")
    } else if name.ends_with("FLUSH") {
        ("FETH, flush", "placement and selectivity")
    } else {
        ("ImmDt, immediate data", "immediate")
    };
    let mut header = Header::new(title, at);
    header.field(field, at, 4, format!("0x{word:08x}"));
    Some(header)
}

/// Connection management on QP 1.
fn connection(bytes: &[u8], bth_offset: usize, at: usize) -> Option<Header> {
    let message = cm::read(&bytes, bth_offset)?;
    let mut header = Header::new("CM, connection management", at);
    header.field("transaction", at + 8, 8, format!("0x{:016x}", be64(bytes, at + 8)?));
    let attribute = be16(bytes, at + 16)?;
    let name = match message {
        Message::Req(_) => "connection request",
        Message::Rep { .. } => "connection reply",
        Message::Rtu { .. } => "ready to use",
        Message::Rej { .. } => "connection reject",
        Message::Mra { .. } => "message receipt acknowledgement",
        Message::Dreq { .. } => "disconnection request",
        Message::Drep { .. } => "disconnection reply",
        Message::SidrReq { .. } => "service ID resolution request",
        Message::SidrRep { .. } => "service ID resolution response",
    };
    header.field("message", at + 16, 2, format!("0x{attribute:04x}, {name}"));
    let resolution = matches!(message, Message::SidrReq { .. } | Message::SidrRep { .. });
    let id = if resolution { "request id" } else { "local id" };
    header.field(id, at + 24, 4, format!("0x{:08x}", be32(bytes, at + 24)?));
    if !resolution && !matches!(message, Message::Req(_)) {
        header.field("remote id", at + 28, 4, format!("0x{:08x}", be32(bytes, at + 28)?));
    }
    match message {
        Message::Req(Req { local_qp, service_id, .. }) => {
            header.field("service id", at + 32, 8, service(service_id));
            header.field("local QP", at + 56, 3, local_qp.to_string());
        }
        Message::Rep { local_qp, .. } => header.field("local QP", at + 36, 3, local_qp.to_string()),
        Message::Rej { reason, .. } => {
            let words = cm::reason(reason).unwrap_or("reserved");
            header.field("reason", at + 34, 2, format!("{reason}, {words}"));
        }
        Message::Dreq { remote_qp, .. } => header.field("remote QP", at + 32, 3, remote_qp.to_string()),
        Message::SidrReq { service_id, .. } => {
            header.field("service id", at + 32, 8, service(service_id));
        }
        Message::SidrRep { status, qp, .. } => {
            let words = if status == 0 { "resolved" } else { cm::sidr_status(status).unwrap_or("reserved") };
            header.field("status", at + 28, 1, format!("{status}, {words}"));
            header.field("QP", at + 32, 3, qp.to_string());
        }
        Message::Mra { .. } | Message::Rtu { .. } | Message::Drep { .. } => {}
    }
    Some(header)
}

/// A service ID, with the port that it stands for.
fn service(id: u64) -> String {
    match cm::port(id) {
        Some((space, port)) => format!("0x{id:016x}, {space} port {port}"),
        None => format!("0x{id:016x}"),
    }
}

/// The AETH syndrome in words, with the code names of the InfiniBand specification.
pub fn syndrome(aeth: u32) -> String {
    if aeth == UNKNOWN {
        return "AETH not captured".to_owned();
    }
    let syndrome = aeth >> 24;
    let value = syndrome & 0x1F;
    match (syndrome >> 5) & 3 {
        0 => format!("ACK, {value} credits"),
        1 => format!("RNR NAK, RNR timer {}", rnr_timer(value)),
        3 => {
            let name = match value {
                0 => "PSN sequence error",
                1 => "invalid request",
                2 => "remote access error",
                3 => "remote operational error",
                4 => "invalid RD request",
                _ => "reserved code",
            };
            format!("NAK: {name}")
        }
        _ => "reserved syndrome".to_owned(),
    }
}

/// The RNR timer field as a time, by the table of the InfiniBand specification (9.7.5.2.8).
fn rnr_timer(code: u32) -> String {
    const HUNDREDTHS_OF_MS: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    let wait = HUNDREDTHS_OF_MS.get(code as usize).copied().unwrap_or_default();
    units::duration(u64::from(wait) * 10_000)
}
