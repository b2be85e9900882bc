//! Numbers and options in a section's byte order.

/// The byte-order mark of a section header, in its writer's byte order.
const MARK: u32 = 0x1a2b_3c4d;
/// Code and length of an option, 16 bits each.
const OPTION_HEADER: usize = 4;
const OPT_END: u16 = 0;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;

/// Byte order of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The byte order that the first 12 bytes of a section header give; `None` without a valid mark.
    pub(super) fn of_section(head: &[u8]) -> Option<Self> {
        [Self::Little, Self::Big].into_iter().find(|order| order.u32(head, 8) == MARK)
    }

    /// The 32-bit number at `at`; 0 beyond the end, which callers exclude.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|b| b.first_chunk()).copied();
        let word = word.unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }

    /// The 16-bit number at `at`; 0 beyond the end, which callers exclude.
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

    /// Codes and values of a block's options, without padding, up to the end marker or to an option that does
    /// not fit.
    pub(super) fn options(self, mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
        std::iter::from_fn(move || {
            if rest.len() < OPTION_HEADER {
                return None;
            }
            let (code, len) = (self.u16(rest, 0), usize::from(self.u16(rest, 2)));
            let value = rest.get(OPTION_HEADER..OPTION_HEADER + len)?;
            rest = rest.get(OPTION_HEADER + len.next_multiple_of(4)..).unwrap_or_default();
            (code != OPT_END).then_some((code, value))
        })
    }

    /// Packets dropped before a packet, and the length of its FCS in bytes, from the packet's options.
    pub(super) fn packet_options(self, options: &[u8]) -> (Option<u64>, Option<u32>) {
        let (mut drops, mut fcs) = (None, None);
        for (code, value) in self.options(options) {
            match (code, value.len()) {
                (EPB_DROPCOUNT, 8) => drops = Some(self.u64(value)),
                // Bits 5 to 8; zero means that the length is not known.
                (EPB_FLAGS, 4) => fcs = Some(self.u32(value, 0) >> 5 & 0xf).filter(|&n| n > 0),
                _ => {}
            }
        }
        (drops, fcs)
    }
}
