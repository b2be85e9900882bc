//! Durations as the numbers that samples count in.

use std::time::Duration;

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Nanoseconds in an hour.
pub const HOUR_NS: u64 = 3_600 * NS_PER_S;
/// Nanoseconds in a day.
pub const DAY_NS: u64 = 24 * HOUR_NS;
/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// A duration in nanoseconds; one that does not fit becomes the largest number.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Keeps at most this number of successive times, the oldest first: of more by one, the two neighbours that together
/// last least become one. `ends` are beginning and end of a time, in nanoseconds.
pub fn keep_most<T>(
    times: &mut Vec<T>,
    most: usize,
    ends: impl Fn(&T) -> (u64, u64),
    join: impl FnOnce(&mut T, &T),
) {
    if times.len() <= most {
        return;
    }
    let length = |pair: &[T]| match pair {
        [one, next] => ends(next).1.saturating_sub(ends(one).0),
        _ => u64::MAX,
    };
    let least = times.windows(2).enumerate().min_by_key(|(_, pair)| length(pair));
    if let Some((at, _)) = least {
        let next = times.remove(at + 1);
        join(&mut times[at], &next);
    }
}
