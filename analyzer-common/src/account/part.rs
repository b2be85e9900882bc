//! Parts of counters that most flows never need.

/// A part of the counters in whatever form: in place in a kernel map, elsewhere only where there is something to count.
pub trait Part<T> {
    /// The part, to read.
    fn part(&self) -> &T;
    /// The part, to count.
    fn part_mut(&mut self) -> &mut T;
}

/// Types that are parts themselves, in place.
macro_rules! in_place {
    ($($part:ident)*) => {$(
        impl $crate::account::part::Part<Self> for $part {
            #[inline(always)]
            fn part(&self) -> &Self {
                self
            }

            #[inline(always)]
            fn part_mut(&mut self) -> &mut Self {
                self
            }
        }
    )*};
}
pub(super) use in_place;
