//! The tests' own table of BTH opcodes.
//!
//! Names follow the Linux kernel's `ib_pack.h` without its `IB_OPCODE_` prefix. XRC, which that header does not list,
//! is named like RC. This table is independent of the product's.

/// Meaning of an opcode: the headers after the BTH, and the role of the packet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own, read by name")]
pub struct Opcode {
    /// Name in reports.
    pub name: String,
    /// Length of the extended headers between BTH and payload; `None` if unknown.
    pub extended: Option<u64>,
    /// The PSN sequence to which it belongs.
    pub sequence: Option<Sequence>,
    /// Offset of the AETH after the BTH, for opcodes that carry one.
    pub aeth: Option<usize>,
    /// Offset of the RETH after the BTH, for READ requests.
    pub read_reth: Option<usize>,
    /// SEND or WRITE, FIRST or MIDDLE: its payload is the path MTU.
    pub full_mtu: bool,
    /// Carries a DETH, and thus a source QP, directly after the BTH.
    pub deth: bool,
    /// ACKNOWLEDGE or CNP: no application payload, and not part of the CE ratio.
    pub control: bool,
    /// Congestion notification packet.
    pub cnp: bool,
}

/// The requests of a flow and its responses are numbered independently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// Numbered by the sender of the packet.
    Request,
    /// Numbered by the requester, who receives the packet.
    Response,
}

/// Operation names and sizes of extended headers (RC), by the low five bits.
const OPERATIONS: [(u8, &str, u64); 25] = [
    (0x00, "SEND_FIRST", 0),
    (0x01, "SEND_MIDDLE", 0),
    (0x02, "SEND_LAST", 0),
    (0x03, "SEND_LAST_WITH_IMMEDIATE", 4),
    (0x04, "SEND_ONLY", 0),
    (0x05, "SEND_ONLY_WITH_IMMEDIATE", 4),
    (0x06, "RDMA_WRITE_FIRST", 16),
    (0x07, "RDMA_WRITE_MIDDLE", 0),
    (0x08, "RDMA_WRITE_LAST", 0),
    (0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", 4),
    (0x0A, "RDMA_WRITE_ONLY", 16),
    (0x0B, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", 20),
    (0x0C, "RDMA_READ_REQUEST", 16),
    (0x0D, "RDMA_READ_RESPONSE_FIRST", 4),
    (0x0E, "RDMA_READ_RESPONSE_MIDDLE", 0),
    (0x0F, "RDMA_READ_RESPONSE_LAST", 4),
    (0x10, "RDMA_READ_RESPONSE_ONLY", 4),
    (0x11, "ACKNOWLEDGE", 4),
    (0x12, "ATOMIC_ACKNOWLEDGE", 12),
    (0x13, "COMPARE_SWAP", 28),
    (0x14, "FETCH_ADD", 28),
    (0x16, "SEND_LAST_WITH_INVALIDATE", 4),
    (0x17, "SEND_ONLY_WITH_INVALIDATE", 4),
    (0x1C, "FLUSH", 20),
    (0x1D, "ATOMIC_WRITE", 16),
];

/// Length of a DETH, or of immediate data, which in UD differ from RC's header chains.
const DETH: u64 = 8;
const IMMEDIATE: u64 = 4;
const XRCETH: usize = 4;

/// Looks up an opcode; every number has an entry.
pub fn lookup(code: u8) -> Opcode {
    let low = code & 0x1F;
    let operation = OPERATIONS.iter().find(|(number, ..)| *number == low);
    match (code >> 5, operation) {
        (0, Some((_, name, extended))) => connected("RC", low, name, *extended, 0),
        (1, Some((_, name, extended))) if low <= 0x0B => connected("UC", low, name, *extended, 0),
        (5, Some((_, name, extended))) => connected("XRC", low, name, *extended, XRCETH),
        (3, Some((_, name, _))) if low == 0x04 => datagram(name, DETH),
        (3, Some((_, name, _))) if low == 0x05 => datagram(name, DETH + IMMEDIATE),
        (2, _) => unknown(format!("DC_OR_RD_0x{code:02X}")),
        (4, _) if code == 0x81 => {
            Opcode { extended: Some(0), control: true, cnp: true, ..unknown("CNP".to_owned()) }
        }
        _ => unknown(format!("UNKNOWN_0x{code:02X}")),
    }
}

fn unknown(name: String) -> Opcode {
    Opcode { name, ..Opcode::default() }
}

fn datagram(name: &str, extended: u64) -> Opcode {
    Opcode { extended: Some(extended), deth: true, ..unknown(format!("UD_{name}")) }
}

/// An RC, UC or XRC opcode; `request_header` bytes precede the others in its requests.
fn connected(transport: &str, low: u8, name: &str, extended: u64, request_header: usize) -> Opcode {
    let sequence = match low {
        0x0D..=0x10 | 0x12 => Some(Sequence::Response),
        0x11 => None,
        _ => Some(Sequence::Request),
    };
    let request = sequence == Some(Sequence::Request);
    Opcode {
        extended: Some(extended + if request { request_header as u64 } else { 0 }),
        sequence,
        aeth: matches!(low, 0x0D | 0x0F | 0x10 | 0x11 | 0x12).then_some(0),
        read_reth: (low == 0x0C).then_some(request_header),
        full_mtu: matches!(low, 0x00 | 0x01 | 0x06 | 0x07),
        control: low == 0x11,
        ..unknown(format!("{transport}_{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_chains_of_each_transport() {
        for (code, name, extended) in [
            (0x06, "RC_RDMA_WRITE_FIRST", Some(16)),
            (0x2B, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", Some(20)),
            (0x2C, "UNKNOWN_0x2C", None),
            (0x4A, "DC_OR_RD_0x4A", None),
            (0x64, "UD_SEND_ONLY", Some(8)),
            (0x65, "UD_SEND_ONLY_WITH_IMMEDIATE", Some(12)),
            (0x80, "UNKNOWN_0x80", None),
            (0x81, "CNP", Some(0)),
            (0xAC, "XRC_RDMA_READ_REQUEST", Some(20)),
            (0xB1, "XRC_ACKNOWLEDGE", Some(4)),
            (0x15, "UNKNOWN_0x15", None),
        ] {
            let opcode = lookup(code);
            assert_eq!((opcode.name.as_str(), opcode.extended), (name, extended), "{code:#04x}");
        }
    }

    #[test]
    fn only_requests_and_responses_are_numbered() {
        let numbered = |which| (0..=0xFF).filter(|code| lookup(*code).sequence == Some(which)).count();
        assert_eq!(numbered(Sequence::Request), 19 + 12 + 19);
        assert_eq!(numbered(Sequence::Response), 5 + 5);
    }
}
