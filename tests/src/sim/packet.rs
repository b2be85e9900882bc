//! A simulated packet: its header fields, and data known only to the simulator.

use std::rc::Rc;

/// Opcodes of reliable connections, and the few others that the simulator sends.
pub(crate) mod op {
    pub(crate) const SEND_FIRST: u8 = 0x00;
    pub(crate) const SEND_MIDDLE: u8 = 0x01;
    pub(crate) const SEND_LAST: u8 = 0x02;
    pub(crate) const SEND_ONLY: u8 = 0x04;
    pub(crate) const WRITE_FIRST: u8 = 0x06;
    pub(crate) const WRITE_MIDDLE: u8 = 0x07;
    pub(crate) const WRITE_LAST: u8 = 0x08;
    pub(crate) const WRITE_LAST_IMM: u8 = 0x09;
    pub(crate) const WRITE_ONLY: u8 = 0x0A;
    pub(crate) const WRITE_ONLY_IMM: u8 = 0x0B;
    pub(crate) const READ_REQUEST: u8 = 0x0C;
    pub(crate) const READ_FIRST: u8 = 0x0D;
    pub(crate) const READ_MIDDLE: u8 = 0x0E;
    pub(crate) const READ_LAST: u8 = 0x0F;
    pub(crate) const READ_ONLY: u8 = 0x10;
    pub(crate) const ACK: u8 = 0x11;
    pub(crate) const ATOMIC_ACK: u8 = 0x12;
    pub(crate) const FETCH_ADD: u8 = 0x14;
    pub(crate) const UD_SEND_ONLY: u8 = 0x64;
    pub(crate) const CNP: u8 = 0x81;
}

/// AETH syndrome of a plain ACK without a credit limit.
pub(crate) const SYNDROME_ACK: u8 = 0x1F;
/// AETH syndrome base of RNR NAKs; the low five bits are the timer code.
pub(crate) const SYNDROME_RNR: u8 = 0x20;
/// AETH syndrome base of NAKs; the low five bits are the code, 0 for a PSN sequence error.
pub(crate) const SYNDROME_NAK: u8 = 0x60;
/// ECN codepoint CE.
pub(crate) const CE: u8 = 3;

/// The protocol that a frame carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Body {
    /// RoCEv2.
    #[default]
    Roce,
    /// A PFC frame that pauses a priority for this number of quanta.
    Pfc { priority: u8, quanta: u16 },
    /// UDP to another port, with this number of bytes.
    Other { bytes: u32 },
}

/// A frame in transit. Hosts are numbers; a tap looks up their addresses.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "bits of a header")]
pub(crate) struct Packet {
    pub(crate) body: Body,
    pub(crate) src: usize,
    pub(crate) dst: usize,
    pub(crate) sport: u16,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// 802.1p priority that a switch set, in place of that of the tap's layer.
    pub(crate) priority: Option<u8>,
    pub(crate) ident: u16,
    pub(crate) opcode: u8,
    pub(crate) dest_qp: u32,
    /// PSN without wrap-around; its low 24 bits are on the wire.
    pub(crate) psn: u64,
    pub(crate) ack_req: bool,
    pub(crate) becn: bool,
    /// DMA length of the RETH.
    pub(crate) dma_len: u32,
    /// Syndrome and MSN of the AETH.
    pub(crate) aeth: (u8, u32),
    /// Queue key and source queue pair of the DETH.
    pub(crate) deth: (u32, u32),
    pub(crate) payload: u32,
    /// Payload with a meaning: a management datagram.
    pub(crate) mad: Option<Rc<Vec<u8>>>,
    /// A bit was changed in transit: the ICRC does not match.
    pub(crate) corrupt: bool,
    /// Its payload was changed in transit.
    pub(crate) altered: bool,
    /// This PSN was on the wire before.
    pub(crate) retransmission: bool,
    /// Index of its destination queue pair in the world's list.
    pub(crate) to_qp: Option<usize>,
    /// Number of PSNs that it takes: those of its responses for a READ request.
    pub(crate) span: u64,
    /// The last packet of a message of which the receiving program is notified.
    pub(crate) notify: Option<(usize, u64)>,
    /// Channel by which it entered the switch that buffers it.
    pub(crate) entry: Option<usize>,
    /// Outer IPv6 header of the fabric: its segment (plane).
    pub(crate) outer: Option<u16>,
    /// A routing header with segments follows the outer header (SRv6).
    pub(crate) routing: bool,
}

impl Packet {
    /// A RoCEv2 packet with all other fields zero.
    pub(crate) fn roce(src: usize, dst: usize, opcode: u8, dest_qp: u32, psn: u64) -> Self {
        Self { src, dst, ttl: 64, opcode, dest_qp, psn, span: 1, ..Self::default() }
    }

    /// A frame that is not RoCE.
    pub(crate) fn other(src: usize, dst: usize, body: Body) -> Self {
        Self { body, ..Self::roce(src, dst, 0, 0, 0) }
    }

    pub(crate) fn is_roce(&self) -> bool {
        self.body == Body::Roce
    }

    /// True for a request of a reliable connection.
    pub(crate) fn is_request(&self) -> bool {
        self.is_roce() && matches!(self.opcode, 0x00..=0x0C | 0x14)
    }

    /// True for packets with an application's data: requests and READ responses.
    pub(crate) fn is_data(&self) -> bool {
        self.is_request() || self.is_roce() && (op::READ_FIRST..=op::READ_ONLY).contains(&self.opcode)
    }

    pub(crate) fn has_reth(&self) -> bool {
        matches!(self.opcode, op::WRITE_FIRST | op::WRITE_ONLY | op::WRITE_ONLY_IMM | op::READ_REQUEST)
    }

    pub(crate) fn has_imm(&self) -> bool {
        matches!(self.opcode, op::WRITE_LAST_IMM | op::WRITE_ONLY_IMM)
    }

    pub(crate) fn has_aeth(&self) -> bool {
        matches!(self.opcode, op::READ_FIRST | op::READ_LAST..=op::ATOMIC_ACK)
    }

    /// Bytes of the extended headers.
    pub(crate) fn ext_len(&self) -> u32 {
        let atomic = match self.opcode {
            op::FETCH_ADD => 28,
            op::ATOMIC_ACK | op::UD_SEND_ONLY => 8,
            op::CNP => 16,
            _ => 0,
        };
        let has = |yes: bool, bytes: u32| if yes { bytes } else { 0 };
        atomic + has(self.has_reth(), 16) + has(self.has_imm(), 4) + has(self.has_aeth(), 4)
    }
}
