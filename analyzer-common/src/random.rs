//! Random numbers determined by a seed, for made-up traffic and tests. No program that sees packets uses them.

/// A splitmix64 generator. Its sequence never changes: a seed gives the same traffic everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with the sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number of 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number from 0 to `bound` − 1 (0 for a bound of 0).
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// The same for numbers of 32 bits, of which it takes the upper half of the 64.
    pub const fn below_u32(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * bound as u64) >> 32) as u32
    }

    /// The same for numbers of 16 bits.
    pub const fn below_u16(&mut self, bound: u16) -> u16 {
        self.below_u32(bound as u32) as u16
    }

    /// A place among `len`.
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of these, of which there is at least one.
    ///
    /// # Panics
    /// Panics without any.
    pub const fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// A byte.
    pub const fn byte(&mut self) -> u8 {
        self.bits() as u8
    }

    /// True in one of `n` cases.
    pub const fn one_in(&mut self, n: u32) -> bool {
        self.below_u32(n) == 0
    }

    /// True in `ppm` of a million cases.
    pub const fn chance(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < ppm as u64
    }

    /// A number from 0 to below 1.
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// 2⁶⁴ over the golden ratio: its multiples are spread evenly.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads any number evenly over all numbers of 64 bits (the output function of splitmix64). It also serves as a hash.
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        assert_eq!([random.bits(), random.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [[false; 7]; 2];
        for _ in 0..1000 {
            seen[0][random.below_u32(7) as usize] = true;
            seen[1][random.index(7)] = true;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert_eq!((seen, random.below(0), random.below_u32(0)), ([[true; 7]; 2], 0, 0));
    }
}
