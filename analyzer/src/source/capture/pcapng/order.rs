//! Numbers and packet options in a section's byte order.

use super::OPT_END;

/// The byte-order mark of a section header, as its writer saw it.
const MARK: u32 = 0x1a2b_3c4d;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;

/// Byte order of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// What the first 12 bytes of a section header say, if they make sense.
    pub(super) fn of_section(head: &[u8]) -> Option<Self> {
        [Self::Little, Self::Big].into_iter().find(|order| order.u32(head, 8) == MARK)
    }

    /// The number at `at`; 0 beyond the end, which callers exclude.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|b| b.first_chunk()).copied();
        let word = word.unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }

    /// The same for 16 bits.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let half = bytes.get(at..).and_then(|b| b.first_chunk()).copied();
        let half = half.unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(half),
            Self::Big => u16::from_be_bytes(half),
        }
    }

    /// The 64-bit number `bytes` start with; 0 when they are fewer.
    pub(super) fn u64(self, bytes: &[u8]) -> u64 {
        let number = bytes.first_chunk().copied().unwrap_or_default();
        match self {
            Self::Little => u64::from_le_bytes(number),
            Self::Big => u64::from_be_bytes(number),
        }
    }

    /// Losses before a packet and the length of its FCS in bytes, from its options.
    pub(super) fn packet_options(self, mut rest: &[u8]) -> (Option<u64>, Option<u32>) {
        let (mut drops, mut fcs) = (None, None);
        while rest.len() >= 4 {
            let code = self.u16(rest, 0);
            let len = usize::from(self.u16(rest, 2));
            let Some(value) = rest.get(4..4 + len) else {
                break;
            };
            match (code, len) {
                (OPT_END, _) => break,
                (EPB_DROPCOUNT, 8) => drops = Some(self.u64(value)),
                // Bits 5 to 8; zero means that the length is not known.
                (EPB_FLAGS, 4) => fcs = Some(self.u32(value, 0) >> 5 & 0xf).filter(|&n| n > 0),
                _ => {}
            }
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        (drops, fcs)
    }
}
