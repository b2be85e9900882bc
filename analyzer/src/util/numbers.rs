//! Shares, medians and quantiles.

/// A part of a whole as a fraction; of nothing, the part itself.
#[must_use]
pub const fn share(part: u64, whole: u64) -> f64 {
    part as f64 / if whole == 0 { 1 } else { whole } as f64
}

/// The middle one of some numbers, the upper one of two; `None` without numbers.
#[must_use]
pub fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

/// The number that a share of all does not exceed; `None` without numbers.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the list")]
pub fn quantile(numbers: &[u64], share: f64) -> Option<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let rank = (numbers.len() as f64 * share) as usize;
    numbers.get(rank.min(numbers.len().saturating_sub(1))).copied()
}
