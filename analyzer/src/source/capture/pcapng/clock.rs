//! pcapng timestamps: ticks of an interface's own resolution, with its own offset.

use crate::util::time::NS_PER_S;

/// Conversion of ticks to nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Scale {
    /// Powers of ten down to a nanosecond: nanoseconds per tick.
    Multiply(u64),
    /// Finer powers of ten: ticks per nanosecond.
    Divide(u64),
    /// Powers of two: the second has 2^n ticks.
    Binary(u8),
}

/// The clock of one interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    scale: Scale,
    /// Seconds to add to every time.
    offset: i64,
}

impl Clock {
    /// From `if_tsresol` (a negative power of 10, or of 2 with the top bit set) and `if_tsoffset`.
    pub(super) fn new(resolution: u8, offset: i64) -> Self {
        let power = resolution & 0x7f;
        let scale = match (resolution & 0x80, power) {
            (0, 0..=9) => Scale::Multiply(10_u64.pow(u32::from(9 - power))),
            (0, _) => match 10_u64.checked_pow(u32::from(power - 9)) {
                Some(ticks) => Scale::Divide(ticks),
                // So fine that no 64-bit time reaches a nanosecond.
                None => Scale::Multiply(0),
            },
            _ => Scale::Binary(power),
        };
        Self { scale, offset }
    }

    /// Unix time in nanoseconds, clamped to what 64 bits hold.
    #[inline]
    pub(super) fn to_ns(self, ticks: u64) -> u64 {
        let ns = match self.scale {
            Scale::Multiply(by) => ticks.checked_mul(by),
            Scale::Divide(by) => Some(ticks / by),
            Scale::Binary(power) => u64::try_from((u128::from(ticks) * u128::from(NS_PER_S)) >> power).ok(),
        };
        match (ns, self.offset) {
            (Some(ns), 0) => ns,
            _ => self.far_ns(ticks),
        }
    }

    /// The same with an offset, in arithmetic wide enough for any input.
    #[cold]
    fn far_ns(self, ticks: u64) -> u64 {
        let ticks = i128::from(ticks);
        let ns = match self.scale {
            Scale::Multiply(by) => ticks * i128::from(by),
            Scale::Divide(by) => ticks / i128::from(by),
            Scale::Binary(power) => (ticks * i128::from(NS_PER_S)) >> power,
        };
        let ns = ns + i128::from(self.offset) * i128::from(NS_PER_S);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}
