//! The table of BTH opcodes: extended headers and accounting rules.
//!
//! Everything that depends on an opcode is a bit of [`Op`]; no other code matches on opcode numbers. Names
//! follow `include/rdma/ib_pack.h` of Linux.

use core::fmt;

/// Properties of an opcode, packed so that the kernel programs read them with one load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op(u32);

/// Congestion notification packet of RoCEv2.
pub const CNP: u8 = 0x81;

const EXT_MASK: u32 = 0xFF;

impl Op {
    /// The extended headers are known, so that the payload length can be computed.
    pub const KNOWN: u32 = 1 << 8;
    /// A request of RC, UC or XRC: part of the PSN sequence of requests.
    pub const REQUEST: u32 = 1 << 9;
    /// READ RESPONSE or ATOMIC ACKNOWLEDGE: part of the PSN sequence of responses.
    pub const RESPONSE: u32 = 1 << 10;
    /// An AETH follows the BTH directly.
    pub const AETH: u32 = 1 << 11;
    /// The extended headers include a RETH.
    pub const RETH: u32 = 1 << 12;
    /// A DETH follows the BTH directly.
    pub const DETH: u32 = 1 << 13;
    /// RDMA READ REQUEST: its responses take several PSNs of the requester's sequence.
    pub const READ_REQUEST: u32 = 1 << 14;
    /// SEND or WRITE, FIRST or MIDDLE: the payload length is the path MTU.
    pub const FULL_MTU: u32 = 1 << 15;
    /// ACKNOWLEDGE (also carries NAKs).
    pub const ACKNOWLEDGE: u32 = 1 << 16;
    /// Congestion notification packet.
    pub const CNP: u32 = 1 << 17;
    /// The first packet of a message, or the only one.
    pub const STARTS: u32 = 1 << 18;
    /// The last packet of a message, or the only one.
    pub const ENDS: u32 = 1 << 19;
    /// A request of RC or XRC: acknowledged if AckReq is set.
    pub const RELIABLE: u32 = 1 << 20;
    /// A request that always has a response: READ, atomics, FLUSH.
    pub const NEEDS_RESPONSE: u32 = 1 << 21;
    /// COMPARE SWAP or FETCH ADD.
    pub const ATOMIC: u32 = 1 << 22;

    /// Properties of opcode `code`.
    #[inline(always)]
    pub fn of(code: u8) -> Self {
        Self(TABLE[code as usize])
    }

    /// True if all of `bits` are set.
    #[inline(always)]
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// True if all of `bits` are set and none of `others`.
    #[inline(always)]
    pub const fn only(self, bits: u32, others: u32) -> bool {
        self.0 & (bits | others) == bits
    }

    /// The properties among `bits`, as a number: for kernel programs, where a comparison is a branch.
    #[inline(always)]
    pub const fn bits(self, bits: u32) -> u32 {
        self.0 & bits
    }

    /// True if any of `bits` is set.
    #[inline(always)]
    pub const fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    /// Length of the extended headers between BTH and payload, in bytes. Only meaningful with
    /// [`Op::KNOWN`].
    #[inline(always)]
    pub const fn ext_len(self) -> u32 {
        self.0 & EXT_MASK
    }

    /// Offset of the RETH behind the BTH (an XRCETH or a FETH may precede it).
    #[inline(always)]
    pub const fn reth_offset(self) -> usize {
        ((self.0 >> 24) & 0xF) as usize
    }
}

const RC: u8 = 0x00;
const UC: u8 = 0x20;
const UD: u8 = 0x60;
const XRC: u8 = 0xA0;

/// Upper three bits of the opcodes of UC.
pub const TRANSPORT_UC: u8 = UC >> 5;
/// Upper three bits of the opcodes of UD.
pub const TRANSPORT_UD: u8 = UD >> 5;

const REQ: u32 = Op::KNOWN | Op::REQUEST;
const ONLY: u32 = Op::STARTS | Op::ENDS;
const RESP: u32 = Op::KNOWN | Op::RESPONSE;

/// Low five bits, bytes of extended headers without XRCETH, flags, offset of the RETH without XRCETH.
type Row = (u8, u32, u32, u32);

/// SEND and RDMA WRITE, in RC, UC and XRC.
const WRITES: [Row; 12] = [
    (0x00, 0, REQ | Op::STARTS | Op::FULL_MTU, 0),
    (0x01, 0, REQ | Op::FULL_MTU, 0),
    (0x02, 0, REQ | Op::ENDS, 0),
    (0x03, 4, REQ | Op::ENDS, 0),
    (0x04, 0, REQ | ONLY, 0),
    (0x05, 4, REQ | ONLY, 0),
    (0x06, 16, REQ | Op::STARTS | Op::FULL_MTU | Op::RETH, 0),
    (0x07, 0, REQ | Op::FULL_MTU, 0),
    (0x08, 0, REQ | Op::ENDS, 0),
    (0x09, 4, REQ | Op::ENDS, 0),
    (0x0A, 16, REQ | ONLY | Op::RETH, 0),
    (0x0B, 20, REQ | ONLY | Op::RETH, 0),
];

/// Requests of the reliable services RC and XRC only.
const RELIABLE_REQUESTS: [Row; 7] = [
    (0x0C, 16, REQ | ONLY | Op::RETH | Op::READ_REQUEST | Op::NEEDS_RESPONSE, 0),
    (0x13, 28, REQ | ONLY | Op::ATOMIC | Op::NEEDS_RESPONSE, 0),
    (0x14, 28, REQ | ONLY | Op::ATOMIC | Op::NEEDS_RESPONSE, 0),
    (0x16, 4, REQ | Op::ENDS, 0),
    (0x17, 4, REQ | ONLY, 0),
    (0x1C, 20, REQ | ONLY | Op::RETH | Op::NEEDS_RESPONSE, 4),
    (0x1D, 16, REQ | ONLY | Op::RETH | Op::NEEDS_RESPONSE, 0),
];

/// Responses never carry an XRCETH.
const RESPONSES: [Row; 6] = [
    (0x0D, 4, RESP | Op::STARTS | Op::AETH, 0),
    (0x0E, 0, RESP, 0),
    (0x0F, 4, RESP | Op::ENDS | Op::AETH, 0),
    (0x10, 4, RESP | ONLY | Op::AETH, 0),
    (0x11, 4, Op::KNOWN | Op::AETH | Op::ACKNOWLEDGE, 0),
    (0x12, 12, RESP | ONLY | Op::AETH, 0),
];

const fn fill<const N: usize>(mut table: [u32; 256], transport: u8, more: u32, rows: [Row; N]) -> [u32; 256] {
    let mut i = 0;
    while i < N {
        let (low, ext, flags, reth) = rows[i];
        let reliable = if transport != UC && flags & Op::REQUEST != 0 { Op::RELIABLE } else { 0 };
        table[(transport | low) as usize] = (ext + more) | flags | reliable | ((reth + more) << 24);
        i += 1;
    }
    table
}

static TABLE: [u32; 256] = {
    let mut t = [0; 256];
    t = fill(t, RC, 0, WRITES);
    t = fill(t, RC, 0, RELIABLE_REQUESTS);
    t = fill(t, RC, 0, RESPONSES);
    t = fill(t, UC, 0, WRITES);
    t = fill(t, XRC, 4, WRITES);
    t = fill(t, XRC, 4, RELIABLE_REQUESTS);
    t = fill(t, XRC, 0, RESPONSES);
    t[(UD | 0x04) as usize] = 0x08 | Op::KNOWN | Op::DETH | ONLY;
    t[(UD | 0x05) as usize] = 0x0C | Op::KNOWN | Op::DETH | ONLY;
    t[CNP as usize] = 0x10 | Op::KNOWN | Op::CNP;
    t
};

/// Operation of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// RDMA WRITE.
    Write = 0,
    /// SEND, datagrams included.
    Send = 1,
    /// RDMA READ: requests and responses.
    Read = 2,
    /// Compare and swap, fetch and add, atomic write, and the responses to the first two.
    Atomic = 3,
    /// Acknowledgements, CNPs, FLUSH and unknown opcodes.
    Other = 4,
}

impl Operation {
    /// Number of operations.
    pub const COUNT: usize = 5;

    /// Operation that packets of opcode `code` belong to.
    #[inline(always)]
    pub fn of(code: u8) -> Self {
        OPERATIONS[code as usize]
    }
}

static OPERATIONS: [Operation; 256] = {
    let mut table = [Operation::Other; 256];
    let mut code = 0;
    while code < 256 {
        if TABLE[code] & Op::KNOWN != 0 {
            table[code] = match code & 0x1F {
                0x00..=0x05 | 0x16 | 0x17 => Operation::Send,
                0x06..=0x0B => Operation::Write,
                0x0C..=0x10 => Operation::Read,
                0x12..=0x14 | 0x1D => Operation::Atomic,
                _ => Operation::Other,
            };
        }
        code += 1;
    }
    // Its low five bits are those of a SEND.
    table[CNP as usize] = Operation::Other;
    table
};

/// Name in reports of an opcode's transport.
pub const fn transport(code: u8) -> &'static str {
    match code >> 5 {
        0 => "RC",
        1 => "UC",
        2 => "DC/RD",
        3 => "UD",
        4 => "CNP",
        5 => "XRC",
        6 => "reserved",
        _ => "vendor",
    }
}

const fn operation(low: u8) -> &'static str {
    match low {
        0x00 => "SEND_FIRST",
        0x01 => "SEND_MIDDLE",
        0x02 => "SEND_LAST",
        0x03 => "SEND_LAST_WITH_IMMEDIATE",
        0x04 => "SEND_ONLY",
        0x05 => "SEND_ONLY_WITH_IMMEDIATE",
        0x06 => "RDMA_WRITE_FIRST",
        0x07 => "RDMA_WRITE_MIDDLE",
        0x08 => "RDMA_WRITE_LAST",
        0x09 => "RDMA_WRITE_LAST_WITH_IMMEDIATE",
        0x0A => "RDMA_WRITE_ONLY",
        0x0B => "RDMA_WRITE_ONLY_WITH_IMMEDIATE",
        0x0C => "RDMA_READ_REQUEST",
        0x0D => "RDMA_READ_RESPONSE_FIRST",
        0x0E => "RDMA_READ_RESPONSE_MIDDLE",
        0x0F => "RDMA_READ_RESPONSE_LAST",
        0x10 => "RDMA_READ_RESPONSE_ONLY",
        0x11 => "ACKNOWLEDGE",
        0x12 => "ATOMIC_ACKNOWLEDGE",
        0x13 => "COMPARE_SWAP",
        0x14 => "FETCH_ADD",
        0x16 => "SEND_LAST_WITH_INVALIDATE",
        0x17 => "SEND_ONLY_WITH_INVALIDATE",
        0x1C => "FLUSH",
        0x1D => "ATOMIC_WRITE",
        _ => "",
    }
}

/// Name in reports of an opcode: `RC_RDMA_WRITE_FIRST`, `CNP`, `DC_OR_RD_0x41`, `UNKNOWN_0xE3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub u8);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.0;
        if code == CNP {
            f.write_str("CNP")
        } else if code >> 5 == 2 {
            write!(f, "DC_OR_RD_0x{code:02X}")
        } else if Op::of(code).has(Op::KNOWN) {
            write!(f, "{}_{}", transport(code), operation(code & 0x1F))
        } else {
            write!(f, "UNKNOWN_0x{code:02X}")
        }
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write as _;

    use super::{CNP, Name, Op, Operation};

    /// Extended header lengths from other projects' tables (rxe_opcode.c, Wireshark, blue-rdma for XRC),
    /// copied rather than derived.
    const EXPECTED: &[(u8, u32)] = &[
        (0x00, 0),
        (0x01, 0),
        (0x02, 0),
        (0x03, 4),
        (0x04, 0),
        (0x05, 4),
        (0x06, 16),
        (0x07, 0),
        (0x08, 0),
        (0x09, 4),
        (0x0A, 16),
        (0x0B, 20),
        (0x0C, 16),
        (0x0D, 4),
        (0x0E, 0),
        (0x0F, 4),
        (0x10, 4),
        (0x11, 4),
        (0x12, 12),
        (0x13, 28),
        (0x14, 28),
        (0x16, 4),
        (0x17, 4),
        (0x1C, 20),
        (0x1D, 16),
        (0x20, 0),
        (0x21, 0),
        (0x22, 0),
        (0x23, 4),
        (0x24, 0),
        (0x25, 4),
        (0x26, 16),
        (0x27, 0),
        (0x28, 0),
        (0x29, 4),
        (0x2A, 16),
        (0x2B, 20),
        (0x64, 8),
        (0x65, 12),
        (0x81, 16),
        (0xA0, 4),
        (0xA1, 4),
        (0xA2, 4),
        (0xA3, 8),
        (0xA4, 4),
        (0xA5, 8),
        (0xA6, 20),
        (0xA7, 4),
        (0xA8, 4),
        (0xA9, 8),
        (0xAA, 20),
        (0xAB, 24),
        (0xAC, 20),
        (0xAD, 4),
        (0xAE, 0),
        (0xAF, 4),
        (0xB0, 4),
        (0xB1, 4),
        (0xB2, 12),
        (0xB3, 32),
        (0xB4, 32),
        (0xB6, 8),
        (0xB7, 8),
        (0xBC, 24),
        (0xBD, 20),
    ];

    #[test]
    fn header_chains() {
        for code in 0..=255u8 {
            let expected = EXPECTED.iter().find(|(c, _)| *c == code);
            let op = Op::of(code);
            assert_eq!(op.has(Op::KNOWN), expected.is_some(), "{code:#04x}");
            if let Some((_, ext)) = expected {
                assert_eq!(op.ext_len(), *ext, "{code:#04x}");
            }
        }
    }

    #[test]
    fn psn_rules_cover_exactly_the_named_operations() {
        for code in 0..=255u8 {
            let (transport, low) = (code >> 5, code & 0x1F);
            let op = Op::of(code);
            let request = match transport {
                0 | 5 => matches!(low, 0x00..=0x0C | 0x13 | 0x14 | 0x16 | 0x17 | 0x1C | 0x1D),
                1 => low <= 0x0B,
                _ => false,
            };
            let response = matches!(transport, 0 | 5) && matches!(low, 0x0D..=0x10 | 0x12);
            let aeth = matches!(transport, 0 | 5) && matches!(low, 0x0D | 0x0F..=0x12);
            assert_eq!(op.has(Op::REQUEST), request, "{code:#04x}");
            assert_eq!(op.has(Op::RESPONSE), response, "{code:#04x}");
            assert_eq!(op.has(Op::AETH), aeth, "{code:#04x}");
            let full = matches!(transport, 0 | 1 | 5) && matches!(low, 0x00 | 0x01 | 0x06 | 0x07);
            assert_eq!(op.has(Op::FULL_MTU), full, "{code:#04x}");
            let reth = request && matches!(low, 0x06 | 0x0A | 0x0B | 0x0C | 0x1C | 0x1D);
            assert_eq!(op.has(Op::RETH), reth, "{code:#04x}");
            assert_eq!(op.has(Op::RELIABLE), request && transport != 1, "{code:#04x}");
            let answered = request && matches!(low, 0x0C | 0x13 | 0x14 | 0x1C | 0x1D);
            assert_eq!(op.has(Op::NEEDS_RESPONSE), answered, "{code:#04x}");
            assert_eq!(op.has(Op::ATOMIC), request && matches!(low, 0x13 | 0x14), "{code:#04x}");
            if reth {
                let before = if transport == 5 { 4 } else { 0 } + if low == 0x1C { 4 } else { 0 };
                assert_eq!(op.reth_offset(), before, "{code:#04x}");
            }
        }
        assert!(Op::of(CNP).has(Op::CNP) && !Op::of(0x80).has(Op::KNOWN));
    }

    #[test]
    fn operations() {
        for (code, operation) in [
            (0x06, Operation::Write),
            (0xAB, Operation::Write),
            (0x02, Operation::Send),
            (0x64, Operation::Send),
            (0x16, Operation::Send),
            (0x0C, Operation::Read),
            (0x0E, Operation::Read),
            (0x13, Operation::Atomic),
            (0x1D, Operation::Atomic),
            (0x11, Operation::Other),
            (0x1C, Operation::Other),
            (CNP, Operation::Other),
            (0x46, Operation::Other),
        ] {
            assert_eq!(Operation::of(code), operation, "{code:#04x}");
        }
    }

    struct Text([u8; 64], usize);
    impl core::fmt::Write for Text {
        fn write_str(&mut self, s: &str) -> core::fmt::Result {
            self.0[self.1..self.1 + s.len()].copy_from_slice(s.as_bytes());
            self.1 += s.len();
            Ok(())
        }
    }

    #[test]
    fn names() {
        for (code, name) in [
            (0x06, "RC_RDMA_WRITE_FIRST"),
            (0x2B, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE"),
            (0x64, "UD_SEND_ONLY"),
            (0xAC, "XRC_RDMA_READ_REQUEST"),
            (0x11, "RC_ACKNOWLEDGE"),
            (0x81, "CNP"),
            (0x80, "UNKNOWN_0x80"),
            (0x4A, "DC_OR_RD_0x4A"),
            (0x15, "UNKNOWN_0x15"),
            (0x2C, "UNKNOWN_0x2C"),
            (0xE3, "UNKNOWN_0xE3"),
        ] {
            let mut text = Text([0; 64], 0);
            write!(text, "{}", Name(code)).unwrap();
            assert_eq!(core::str::from_utf8(&text.0[..text.1]).unwrap(), name);
        }
    }
}
