//! Figures of a flow in the few bytes that those of nearly every flow need.

use rocescope_common::wire::opcode::Name;
use serde::{Serialize, Serializer};

use super::Ecn;

/// PSNs of the requests, or of the responses, of one flow. These are raw counts: `loss` separates loss from
/// reordering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Psn {
    /// PSN of the first packet seen. Unit: PSN.
    pub first: u32,
    /// PSN expected next. Unit: PSN.
    pub expected: u32,
    /// Packets up to 65,536 PSNs behind the expected one: retransmitted or out of order. Unit: packets.
    pub repeats: u64,
    /// Jumps ahead by less than 65,536 PSNs: packets were lost upstream, or arrive later. Responses also jump
    /// over the PSNs of other requests without any loss: see `responses_missing`. Unit: jumps.
    pub gaps: u64,
    /// PSNs skipped by these jumps. Unit: PSNs.
    pub missing: u64,
    /// Larger jumps: the QP number is in use again. Unit: jumps.
    pub restarts: u64,
}

/// PSNs of a sequence, which may not have been seen. Nearly all are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SequencePsns {
    /// No packet of the sequence was seen.
    #[default]
    Unseen,
    /// Neither a gap nor a repeated PSN.
    InOrder {
        /// PSN of the first packet.
        first: u32,
        /// PSN expected next.
        expected: u32,
    },
    /// All others.
    Other(Box<Psn>),
}

impl SequencePsns {
    /// The PSNs; `None` where no packet was seen.
    pub fn get(&self) -> Option<Psn> {
        match self {
            Self::Unseen => None,
            Self::InOrder { first, expected } => {
                Some(Psn { first: *first, expected: *expected, ..Psn::default() })
            }
            Self::Other(psn) => Some(**psn),
        }
    }

    /// True if a packet was seen.
    pub const fn is_some(&self) -> bool {
        !self.is_none()
    }

    /// True if no packet was seen.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::Unseen)
    }
}

impl From<Option<Psn>> for SequencePsns {
    fn from(psn: Option<Psn>) -> Self {
        let Some(psn) = psn else { return Self::Unseen };
        let Psn { first, expected, .. } = psn;
        let in_order = Psn { first, expected, ..Psn::default() };
        if psn == in_order { Self::InOrder { first, expected } } else { Self::Other(Box::new(psn)) }
    }
}

impl Serialize for SequencePsns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

/// Packets of a flow by their ECN bits, which may not be known. Those of nearly every flow are all alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FlowEcn {
    /// Not known.
    #[default]
    Unknown,
    /// All packets have these bits.
    Alike {
        /// The two ECN bits.
        bits: u8,
        /// Number of packets.
        packets: u64,
    },
    /// Packets of several kinds.
    Several(Box<Ecn>),
}

impl FlowEcn {
    /// The packets; `None` where they are not known.
    pub fn get(&self) -> Option<Ecn> {
        match self {
            Self::Unknown => None,
            Self::Alike { bits, packets } => {
                let mut counts = [0; 4];
                counts[usize::from(*bits & 3)] = *packets;
                Some(counts.into())
            }
            Self::Several(ecn) => Some(**ecn),
        }
    }
}

impl From<Option<[u64; 4]>> for FlowEcn {
    /// From counters indexed by the two bits.
    fn from(counts: Option<[u64; 4]>) -> Self {
        let Some(counts) = counts else { return Self::Unknown };
        let mut some = (0..).zip(counts).filter(|(_, packets)| *packets > 0);
        match (some.next(), some.next()) {
            (None, _) => Self::Alike { bits: 0, packets: 0 },
            (Some((bits, packets)), None) => Self::Alike { bits, packets },
            _ => Self::Several(Box::new(counts.into())),
        }
    }
}

impl Serialize for FlowEcn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

/// Packets with one BTH opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Opcode {
    /// BTH opcode.
    pub code: u8,
    /// Name of the opcode, as in Linux' ib_pack.h without the prefix; `CNP`, `DC_OR_RD_0xNN` and
    /// `UNKNOWN_0xNN` besides.
    #[serde(serialize_with = "opcode_name")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub name: Name,
    /// Packets with it. Unit: packets.
    pub packets: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives the field as it is")]
fn opcode_name<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

/// Opcodes that need no memory of their own.
const MOST_IN_PLACE: usize = 4;

/// Packets by opcode, in ascending order. Nearly all flows have few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opcodes {
    /// Less than 2^32 packets of each; places behind the last opcode have none.
    Few {
        /// The opcodes.
        codes: [u8; MOST_IN_PLACE],
        /// Packets of each.
        packets: [u32; MOST_IN_PLACE],
    },
    /// All others.
    Many(Box<[Opcode]>),
}

impl Default for Opcodes {
    /// No packet.
    fn default() -> Self {
        Self::Few { codes: [0; MOST_IN_PLACE], packets: [0; MOST_IN_PLACE] }
    }
}

impl Opcodes {
    /// The opcodes that have packets.
    pub fn iter(&self) -> impl Iterator<Item = Opcode> {
        let (few, many) = match self {
            Self::Few { codes, packets } => (Some(codes.iter().zip(packets)), None),
            Self::Many(opcodes) => (None, Some(opcodes.iter().copied())),
        };
        let few = few.into_iter().flatten().filter(|(_, packets)| **packets > 0);
        let few =
            few.map(|(code, packets)| Opcode { code: *code, name: Name(*code), packets: (*packets).into() });
        few.chain(many.into_iter().flatten())
    }
}

impl From<Box<[Opcode]>> for Opcodes {
    /// Opcodes that have packets, in ascending order.
    fn from(opcodes: Box<[Opcode]>) -> Self {
        let (mut codes, mut packets) = ([0; MOST_IN_PLACE], [0; MOST_IN_PLACE]);
        let is_few = opcodes.len() <= MOST_IN_PLACE
            && codes.iter_mut().zip(&mut packets).zip(&opcodes).all(|((code, packets), opcode)| {
                *code = opcode.code;
                u32::try_from(opcode.packets).is_ok_and(|count| {
                    *packets = count;
                    true
                })
            });
        if is_few { Self::Few { codes, packets } } else { Self::Many(opcodes) }
    }
}

impl Serialize for Opcodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let in_order = Psn { first: 7, expected: 9, ..Psn::default() };
        for psn in [None, Some(in_order), Some(Psn { restarts: 1, ..in_order })] {
            assert_eq!(SequencePsns::from(psn).get(), psn);
        }
        for counts in [None, Some([0; 4]), Some([0, 0, 5, 0]), Some([0, 1, 5, 0])] {
            assert_eq!(FlowEcn::from(counts).get(), counts.map(Ecn::from));
        }
        let opcode = |code, packets| Opcode { code, name: Name(code), packets };
        let most = u64::from(u32::MAX);
        for list in [
            vec![],
            vec![opcode(0, 1), opcode(7, most)],
            vec![opcode(7, most + 1)],
            (0..5).map(|code| opcode(code, 1)).collect(),
        ] {
            let opcodes = Opcodes::from(Box::from(list.as_slice()));
            assert_eq!(opcodes.iter().collect::<Vec<_>>(), list);
            assert_eq!(serde_json::to_string(&opcodes).unwrap(), serde_json::to_string(&list).unwrap());
        }
        assert_eq!([size_of::<SequencePsns>(), size_of::<FlowEcn>(), size_of::<Opcodes>()], [16, 16, 24]);
    }
}
