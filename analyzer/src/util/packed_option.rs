//! Numbers that may not be known.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::util::pack::pack;

pack! {
    new PackedOption;
}

/// A number that may not be known, in the 8 bytes of one that is. The highest number stands for one that is not: no
/// count reaches it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PackedOption(u64);

impl PackedOption {
    /// No number.
    pub const UNKNOWN: Self = Self(u64::MAX);

    /// The number; `None` where it is not known.
    pub fn get(self) -> Option<u64> {
        (self.0 != u64::MAX).then_some(self.0)
    }

    /// The number, 0 where it is not known: for sums, and for judgements that are made only where it is known.
    pub fn or_zero(self) -> u64 {
        self.get().unwrap_or(0)
    }
}

impl From<u64> for PackedOption {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<Option<u64>> for PackedOption {
    fn from(number: Option<u64>) -> Self {
        Self(number.unwrap_or(u64::MAX))
    }
}

impl Default for PackedOption {
    /// The unknown number.
    fn default() -> Self {
        None.into()
    }
}

impl fmt::Debug for PackedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Serialize for PackedOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::PackedOption;

    #[test]
    fn what_goes_in_comes_out() {
        for number in [None, Some(0), Some(u64::MAX - 1)] {
            let known = PackedOption::from(number);
            assert_eq!((known.get(), format!("{known:?}")), (number, format!("{number:?}")));
            assert_eq!(serde_json::to_string(&known).unwrap(), serde_json::to_string(&number).unwrap());
        }
        assert_eq!((PackedOption::default().get(), size_of::<PackedOption>()), (None, 8));
    }
}
