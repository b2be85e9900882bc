//! Durations as the numbers that samples count in.

use std::time::Duration;

/// A duration in nanoseconds; one that does not fit becomes the largest number.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
