//! Values that are nearly always zero.

use std::ops::{Deref, DerefMut};

use rocescope_common::account::{Disorder, Part, Rare, Seldom};
use serde::{Serialize, Serializer};

use super::constant::Constant;

/// A value with a zero that lives as long as the program.
pub trait Zero: Copy + PartialEq + 'static {
    /// Value that is zero, for as long as the program lives.
    const ZERO: &'static Self;
}

impl Zero for Rare {
    const ZERO: &'static Self = &Self::NONE;
}

impl Zero for Disorder {
    const ZERO: &'static Self = &Self::NONE;
}

impl Zero for Seldom {
    const ZERO: &'static Self =
        &Self { other_port_packets: 0, other_port_bytes: 0, inner_bytes: 0, last_ce_ns: 0 };
}

/// A value that is nearly always zero, and takes 8 bytes then. It is read as if it were in place; the first change
/// gives it memory.
#[derive(Clone, Debug)]
pub struct BoxedUnlessZero<T>(Option<Box<T>>);

impl<T: Zero> From<T> for BoxedUnlessZero<T> {
    fn from(value: T) -> Self {
        Self((value != *T::ZERO).then(|| Box::new(value)))
    }
}

impl<T> Default for BoxedUnlessZero<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Zero> Deref for BoxedUnlessZero<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::ZERO)
    }
}

impl<T: Zero> DerefMut for BoxedUnlessZero<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(*T::ZERO))
    }
}

impl<T: Zero> PartialEq for BoxedUnlessZero<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Zero + Eq> Eq for BoxedUnlessZero<T> {}

impl<T: Zero> Part<T> for BoxedUnlessZero<T> {
    #[inline]
    fn part(&self) -> &T {
        self
    }

    #[inline]
    fn part_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: Zero + Serialize> Serialize for BoxedUnlessZero<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => Constant(T::ZERO).serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zero_until_it_is_changed() {
        let mut rare: BoxedUnlessZero<Rare> = BoxedUnlessZero::default();
        assert_eq!((rare.rnr_naks, rare.0.is_none(), size_of_val(&rare)), (0, true, 8));
        assert_eq!(rare, BoxedUnlessZero::from(Rare::NONE));
        rare.rnr_naks += 3;
        assert_eq!(
            (rare.rnr_naks, rare.clone()),
            (3, BoxedUnlessZero::from(Rare { rnr_naks: 3, ..Rare::NONE }))
        );
        rare.rnr_naks = 0;
        assert_eq!(rare, BoxedUnlessZero::default(), "equal by value, with memory or without");
    }
}
