//! Connection management (CM) on QP 1: how connections are set up, refused and ended, and how services of datagrams are
//! resolved (SIDR).
//!
//! Layout as in `include/rdma/ibta_vol1_c12.h` of Linux: BTH (12 bytes), DETH (8), MAD header (24),
//! message.

use super::bth;
use super::bytes::Bytes;
use super::opcode::Op;

/// Message of the connection manager, as far as it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Connection request.
    Req(Req),
    /// Reply to a request.
    Rep {
        /// The sender's communication ID.
        local_id: u32,
        /// The communication ID of the request.
        remote_id: u32,
        /// The sender's queue pair.
        local_qp: u32,
    },
    /// The requester is ready to use the connection.
    Rtu {
        /// The sender's communication ID.
        local_id: u32,
        /// Communication ID of the peer.
        remote_id: u32,
    },
    /// Refusal of a request, or of the reply to one.
    Rej {
        /// The sender's communication ID; 0 where it never had one.
        local_id: u32,
        /// The communication ID of the message refused.
        remote_id: u32,
        /// The message refused: 0 REQ, 1 REP, 2 none (the sender gave up waiting).
        refused: u8,
        /// Reason code: see [`reason`].
        reason: u16,
    },
    /// The message arrived, and its answer takes longer.
    Mra {
        /// The sender's communication ID.
        local_id: u32,
        /// The communication ID of the message.
        remote_id: u32,
        /// Time until the answer: 4.096 us * 2^n.
        timeout: u8,
    },
    /// Request to end a connection.
    Dreq {
        /// The sender's communication ID.
        local_id: u32,
        /// Communication ID of the peer.
        remote_id: u32,
        /// The peer's queue pair.
        remote_qp: u32,
    },
    /// Reply to that.
    Drep {
        /// The sender's communication ID.
        local_id: u32,
        /// Communication ID of the peer.
        remote_id: u32,
    },
    /// Service ID resolution request: which queue pair takes datagrams for a service.
    SidrReq {
        /// ID of the request.
        request_id: u32,
        /// The service asked for.
        service_id: u64,
    },
    /// Answer to that.
    SidrRep {
        /// ID of the request.
        request_id: u32,
        /// 0: resolved; else see [`sidr_status`].
        status: u8,
        /// The queue pair of the service.
        qp: u32,
    },
}

/// Connection request (REQ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Req {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The sender's queue pair.
    pub local_qp: u32,
    /// The service asked for.
    pub service_id: u64,
    /// Time after which the sender retransmits: 4.096 us * 2^n; 0 where the message is truncated before this field.
    pub timeout: u8,
}

const MAD_LEN: usize = 24;
const CLASS_CM: u8 = 0x07;
const ATTRIBUTE_REQ: u16 = 0x0010;
const ATTRIBUTE_MRA: u16 = 0x0011;
const ATTRIBUTE_REJ: u16 = 0x0012;
const ATTRIBUTE_REP: u16 = 0x0013;
const ATTRIBUTE_RTU: u16 = 0x0014;
const ATTRIBUTE_DREQ: u16 = 0x0015;
const ATTRIBUTE_DREP: u16 = 0x0016;
const ATTRIBUTE_SIDR_REQ: u16 = 0x0017;
const ATTRIBUTE_SIDR_REP: u16 = 0x0018;

/// Reads the message behind the BTH at `bth_offset`. `None` for other or truncated messages.
pub fn read(bytes: &impl Bytes, bth_offset: usize) -> Option<Message> {
    let [opcode] = bytes.get::<1>(bth_offset)?;
    let op = Op::of(opcode);
    if !op.has(Op::DETH) {
        return None;
    }
    let mad = bth_offset.checked_add(bth::LEN + op.ext_len() as usize)?;
    let [_, class] = bytes.get::<2>(mad)?;
    if class != CLASS_CM {
        return None;
    }
    let attribute = u16::from_be_bytes(bytes.get::<2>(mad + 16)?);
    let data = mad + MAD_LEN;
    let word = |offset: usize| bytes.get::<4>(data + offset).map(u32::from_be_bytes);
    let byte = |offset: usize| bytes.get::<1>(data + offset).map(|[byte]| byte);
    let local_id = word(0)?;
    Some(match attribute {
        ATTRIBUTE_REQ => Message::Req(Req {
            local_id,
            service_id: u64::from(word(8)?) << 32 | u64::from(word(12)?),
            local_qp: word(32)? >> 8,
            timeout: byte(43).unwrap_or(0) >> 3,
        }),
        ATTRIBUTE_REP => Message::Rep { local_id, remote_id: word(4)?, local_qp: word(12)? >> 8 },
        ATTRIBUTE_RTU => Message::Rtu { local_id, remote_id: word(4)? },
        ATTRIBUTE_REJ => Message::Rej {
            local_id,
            remote_id: word(4)?,
            refused: byte(8)? >> 6,
            reason: (word(8)? & 0xFFFF) as u16,
        },
        ATTRIBUTE_MRA => Message::Mra { local_id, remote_id: word(4)?, timeout: byte(9)? >> 3 },
        ATTRIBUTE_DREQ => Message::Dreq { local_id, remote_id: word(4)?, remote_qp: word(8)? >> 8 },
        ATTRIBUTE_DREP => Message::Drep { local_id, remote_id: word(4)? },
        ATTRIBUTE_SIDR_REQ => Message::SidrReq {
            request_id: local_id,
            service_id: u64::from(word(8)?) << 32 | u64::from(word(12)?),
        },
        ATTRIBUTE_SIDR_REP => Message::SidrRep { request_id: local_id, status: byte(4)?, qp: word(8)? >> 8 },
        _ => return None,
    })
}

/// The reason code of a REJ in words (IBTA 12.6.7.2); `None` for reserved codes.
pub const fn reason(code: u16) -> Option<&'static str> {
    Some(match code {
        1 => "no QP available",
        2 => "no EEC available",
        3 => "no resources available",
        4 => "timeout",
        5 => "unsupported request",
        6 => "invalid communication ID",
        7 => "invalid communication instance",
        8 => "invalid service ID",
        9 => "invalid transport service type",
        10 => "stale connection",
        11 => "RDC does not exist",
        12 => "primary remote port GID rejected",
        13 => "primary remote port LID rejected",
        14 => "invalid primary SL",
        15 => "invalid primary traffic class",
        16 => "invalid primary hop limit",
        17 => "invalid primary packet rate",
        18 => "alternate remote port GID rejected",
        19 => "alternate remote port LID rejected",
        20 => "invalid alternate SL",
        21 => "invalid alternate traffic class",
        22 => "invalid alternate hop limit",
        23 => "invalid alternate packet rate",
        24 => "port and CM redirection",
        25 => "port redirection",
        26 => "invalid path MTU",
        27 => "insufficient responder resources",
        28 => "refused by the application",
        29 => "RNR retry count rejected",
        30 => "duplicate local communication ID",
        31 => "invalid class version",
        32 => "invalid primary flow label",
        33 => "invalid alternate flow label",
        35 => "vendor option not supported",
        _ => return None,
    })
}

/// The status of a SIDR_REP in words (IBTA 12.11.2.1); `None` for success and reserved values.
pub const fn sidr_status(status: u8) -> Option<&'static str> {
    Some(match status {
        1 => "service ID not supported",
        2 => "refused by the application",
        3 => "no QP available",
        4 => "redirection",
        5 => "unsupported version",
        _ => return None,
    })
}

/// The port of a service ID of the RDMA connection manager, with the name of its port space; `None` for other IDs.
pub const fn port(service_id: u64) -> Option<(&'static str, u16)> {
    let space = match service_id >> 16 {
        0x0106 => "TCP",
        0x0111 => "UDP",
        0x013F => "IB",
        0x0002 => "IPoIB",
        _ => return None,
    };
    Some((space, (service_id & 0xFFFF) as u16))
}
