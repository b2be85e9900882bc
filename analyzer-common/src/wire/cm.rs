//! Connection management (CM) on QP 1: the queue pairs that a REQ and a REP connect.
//!
//! Layout as in `include/rdma/ibta_vol1_c12.h` of Linux: BTH (12 bytes), DETH (8), MAD header (24),
//! message.

use super::bytes::Bytes;
use super::opcode::Op;

/// A CM message that names a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Connection request.
    Req {
        /// The sender's communication ID.
        local_id: u32,
        /// The sender's queue pair.
        local_qp: u32,
    },
    /// Reply to a request.
    Rep {
        /// The sender's communication ID.
        local_id: u32,
        /// The communication ID of the request.
        remote_id: u32,
        /// The sender's queue pair.
        local_qp: u32,
    },
}

const BTH_AND_DETH: usize = 20;
const MAD_LEN: usize = 24;
const CLASS_CM: u8 = 0x07;
const ATTRIBUTE_REQ: u16 = 0x0010;
const ATTRIBUTE_REP: u16 = 0x0013;

/// Reads the message behind the BTH at `bth_offset`. `None` for other or truncated messages.
#[must_use]
pub fn read(bytes: &impl Bytes, bth_offset: usize) -> Option<Message> {
    let [opcode] = bytes.get::<1>(bth_offset)?;
    if !Op::of(opcode).has(Op::DETH) {
        return None;
    }
    let mad = bth_offset + BTH_AND_DETH;
    let [_, class] = bytes.get::<2>(mad)?;
    if class != CLASS_CM {
        return None;
    }
    let attribute = u16::from_be_bytes(bytes.get::<2>(mad + 16)?);
    let data = mad + MAD_LEN;
    let word = |offset: usize| bytes.get::<4>(data + offset).map(u32::from_be_bytes);
    match attribute {
        ATTRIBUTE_REQ => Some(Message::Req { local_id: word(0)?, local_qp: word(32)? >> 8 }),
        ATTRIBUTE_REP => {
            Some(Message::Rep { local_id: word(0)?, remote_id: word(4)?, local_qp: word(12)? >> 8 })
        }
        _ => None,
    }
}
