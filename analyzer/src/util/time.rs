//! Durations as the numbers that samples count in.

use std::time::Duration;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// Nanoseconds as seconds.
#[must_use]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// A duration in nanoseconds; one that does not fit becomes the largest number.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
