//! Steps of the wall clock, which samples of live sources show: they have the time of a clock that does not step, too.

use crate::sample::Sample;
use crate::util::units;

/// Smallest step that is reported and counted. Samples are late by less.
const LEAST_NS: u64 = 2_000_000_000;

/// A step between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Size, in nanoseconds; positive: forwards.
    pub jump_ns: i64,
    /// True time between the samples, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Step {
    /// The event, as the beginning of a sentence.
    pub fn sentence(self) -> String {
        let way = if self.jump_ns > 0 { "forwards" } else { "back" };
        format!("the clock stepped {way} by {}", units::duration(self.jump_ns.unsigned_abs()))
    }
}

/// Compares the clocks of successive samples.
#[derive(Debug, Default)]
pub struct Watch {
    /// Time of the latest sample by the wall clock and by the one that does not step.
    last: Option<(u64, u64)>,
}

impl Watch {
    /// The step since the latest sample; `None` without one, and for captures.
    pub fn take(&mut self, sample: &Sample) -> Option<Step> {
        let step = step(self.last, sample.time_ns, sample.steady_ns);
        self.last = sample.steady_ns.map(|steady_ns| (sample.time_ns, steady_ns));
        step
    }
}

fn step(last: Option<(u64, u64)>, time_ns: u64, steady_ns: Option<u64>) -> Option<Step> {
    let ((last_ns, last_steady), steady) = last.zip(steady_ns)?;
    let elapsed_ns = steady.saturating_sub(last_steady);
    let expected = last_ns.saturating_add(elapsed_ns);
    let jump_ns = i64::try_from(i128::from(time_ns) - i128::from(expected)).unwrap_or(i64::MAX);
    (jump_ns.unsigned_abs() >= LEAST_NS).then_some(Step { jump_ns, elapsed_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_step_differs_from_a_late_reading() {
        use crate::util::time::NS_PER_S as S;
        let of = |jump_ns| Some(Step { jump_ns, elapsed_ns: S });
        assert_eq!(step(None, 5, Some(1)), None);
        assert_eq!(step(Some((5, 1)), 5, None), None);
        assert_eq!(step(Some((100 * S, 7 * S)), 103 * S, Some(10 * S)), None);
        assert_eq!(step(Some((100 * S, 7 * S)), 102 * S, Some(8 * S)), None, "late by one");
        assert_eq!(step(Some((100 * S, 7 * S)), 3_701 * S, Some(8 * S)), of(3_600_000_000_000));
        assert_eq!(step(Some((100 * S, 7 * S)), 41 * S, Some(8 * S)), of(-60_000_000_000));
    }
}
