//! Buckets of times: eight to an octave, and two for message completion.

use super::bits::bit_length;

/// Sub-buckets per octave as a power of two: with 8 a bucket is at most 1/8 of its lower bound wide, and
/// its middle is within 1/16 of every value in it.
const SUB_BITS: u32 = 3;
/// Times below 2 to this power (1,024 ns) share one bucket.
const FIRST_OCTAVE: u32 = 10;
/// Times from 2 to this power (17.2 s) share one bucket.
const END_OCTAVE: u32 = 34;
/// Number of buckets of a histogram.
pub const BUCKETS: usize = 2 + (((END_OCTAVE - FIRST_OCTAVE) as usize) << SUB_BITS);

/// Number of buckets of a message completion time: two to an octave. Kernel programs have a histogram for
/// each flow and operation, and little memory.
pub const COMPLETION_BUCKETS: usize = 2 + (((END_OCTAVE - FIRST_OCTAVE) as usize) << COARSE_BITS);
const COARSE_BITS: u32 = 1;

/// The bucket of a time in nanoseconds.
#[inline(always)]
pub fn bucket(ns: u64) -> usize {
    if ns < 1 << FIRST_OCTAVE {
        return 0;
    }
    if ns >= 1 << END_OCTAVE {
        return BUCKETS - 1;
    }
    // Below 2^24 after the shift: 32-bit arithmetic suffices and is cheaper on BPF.
    let octave = FIRST_OCTAVE - 1 + bit_length((ns >> FIRST_OCTAVE) as u32);
    let sub = (ns >> (octave - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    1 + ((((octave - FIRST_OCTAVE) as usize) << SUB_BITS) | sub)
}

/// The bucket of a message completion time in nanoseconds, below [`COMPLETION_BUCKETS`].
#[inline(always)]
pub fn completion_bucket(ns: u64) -> usize {
    let fine = bucket(ns);
    if fine == 0 { 0 } else { 1 + ((fine - 1) >> (SUB_BITS - COARSE_BITS)) }
}

/// A bucket of [`bounds`] with the typical time of a message completion bucket: at most 21 % from each of
/// its times.
pub const fn typical_bucket(completion_bucket: usize) -> usize {
    const OPEN: usize = COMPLETION_BUCKETS - 1;
    match completion_bucket {
        0 => 0,
        OPEN.. => BUCKETS - 1,
        _ => 2 + ((completion_bucket - 1) << (SUB_BITS - COARSE_BITS)),
    }
}

/// Bounds of a bucket in nanoseconds: inclusive lower, exclusive upper.
pub const fn bounds(bucket: usize) -> (u64, u64) {
    if bucket == 0 {
        return (0, 1 << FIRST_OCTAVE);
    }
    if bucket >= BUCKETS - 1 {
        return (1 << END_OCTAVE, u64::MAX);
    }
    let place = bucket - 1;
    let octave = FIRST_OCTAVE + (place >> SUB_BITS) as u32;
    let step = 1u64 << (octave - SUB_BITS);
    let low = (1u64 << octave) + step * (place as u64 & ((1 << SUB_BITS) - 1));
    (low, low + step)
}
