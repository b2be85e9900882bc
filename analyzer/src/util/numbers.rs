//! Shares, medians and quantiles.

use std::collections::BTreeMap;

/// A part of a whole as a fraction; of nothing, the part itself.
pub const fn share(part: u64, whole: u64) -> f64 {
    part as f64 / if whole == 0 { 1 } else { whole } as f64
}

/// The middle one of some numbers, the upper one of two; `None` without numbers.
pub fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

/// The number that a share of all does not exceed; `None` without numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the list")]
pub fn quantile(numbers: &[u64], share: f64) -> Option<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let rank = (numbers.len() as f64 * share) as usize;
    numbers.get(rank.min(numbers.len().saturating_sub(1))).copied()
}

/// The number of which half of all are at most as large, of numbers with the count of each; `None` without any.
pub fn median_of_counts(counts: &BTreeMap<u64, u64>) -> Option<u64> {
    let all: u64 = counts.values().sum();
    let mut seen = 0;
    let mut rest = counts.iter().skip_while(|(_, count)| {
        seen += *count;
        seen * 2 <= all
    });
    rest.next().map(|(number, _)| *number)
}

/// The value that `part` (0 to 1) of the values lie below, between two of them where none is exact; `None` without
/// values.
pub fn interpolated(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = part.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor(), at.ceil());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the list")]
    let (from, to) = (*sorted.get(low as usize)?, *sorted.get(high as usize)?);
    Some(from + (to - from) * (at - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_values() {
        assert_eq!(interpolated(&[], 0.5), None);
        assert_eq!(interpolated(&[7.0], 0.5), Some(7.0));
        assert_eq!(interpolated(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(interpolated(&[4.0, 1.0, 2.0, 3.0], 0.5), Some(2.5));
        assert_eq!(interpolated(&[4.0, 1.0, 2.0, 3.0], 1.0), Some(4.0));
        assert_eq!(interpolated(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.25), Some(2.0));
    }

    #[test]
    fn half_of_all_are_at_most_as_large_as_the_median_of_counts() {
        let median = |counts: &[(u64, u64)]| median_of_counts(&counts.iter().copied().collect());
        assert_eq!((median(&[]), median(&[(5, 1)])), (None, Some(5)));
        assert_eq!((median(&[(1, 1), (5, 3)]), median(&[(1, 3), (5, 1)])), (Some(5), Some(1)));
    }
}
