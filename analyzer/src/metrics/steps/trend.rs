//! Step times over a run: parts of a step, the fastest steps in a row, and the time that slower and long ones cost.
//!
//! Packets show when data passes a port, and nothing of what a GPU does. So a step has three parts: data passes
//! ([`Parts::transfer_ns`]), nothing passes although the step goes on ([`Parts::wait_ns`]), and nothing passes
//! until the next step ([`Parts::compute_ns`]). Silences of up to 2 ms are part of a transfer.

use std::ops::Range;

use serde::Serialize;

use super::straggler::densest;
use super::{LinkSteps, Step};
use crate::metrics::traffic::times;
use crate::util::definition::definitions;
use crate::util::numbers::quantile;

definitions! {
    FEWEST: usize = 11,
        "Minimum periods for a trend",
        "Twice the fastest steps in a row, and one between";
    FEWEST_FAST: usize = 5,
        "Minimum steps in a row that others are compared with",
        "One fast step is chance, a median of five is not";
    FAST_SHARE: usize = 4,
        "Minimum steps in a row that others are compared with, one in this many of all",
        "The minimum over many short parts would be below what the job can sustain: the smallest median of four quarters lies half a standard deviation of a single step below the median of all at most";
    AROUND: usize = 15,
        "Maximum steps around one whose median shows that it is one of many slower ones",
        "More would blur where they begin";
    SLOWER: f64 = 0.9,
        "Share of the fastest steps that the median of slower ones exceeds",
        "Of healthy steps the median of five does so with a chance of 1 %, that of nine of 0.1 %";
    NOISE: f64 = 0.03,
        "Minimum growth of a slower step",
        "Clocks and interrupts differ by as much";
    LONG: f64 = 1.25,
        "Minimum length of a single long step over that of the fastest",
        "With Tukey's fence, 1.5 interquartile ranges above the upper quartile: a checkpoint, an evaluation, a timeout";
    FEWEST_SLOWER: usize = 5,
        "Minimum slower steps in a row, with one of three excepted",
        "Fewer are chance";
    FEWEST_BEFORE: usize = 4,
        "Minimum faster steps before them",
        "Fewer show no change";
    GROWN: f64 = 0.05,
        "Minimum growth of a transfer, as a share of a step, for it to show the share that the step waited for",
        "Less is noise";
}

/// Parts of the time of a step, as far as packets show them. Of several steps, the mean of the middle half by period,
/// so that the parts add up to `period_ns` and single long steps do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "StepParts"))]
pub struct Parts {
    /// From the start of a step to the start of the next. Unit: ns.
    pub period_ns: u64,
    /// Time with data on the port, silences up to 2 ms included: upper bound of the communication that the
    /// job waits for (exposed). A part may overlap with computation, which packets do not show. Unit: ns.
    pub transfer_ns: u64,
    /// Silences of more than 2 ms between the first and the last data of a step: waiting for another host, a
    /// retransmission, data in a queue downstream of this tap, or the next bucket. Unit: ns.
    pub wait_ns: u64,
    /// From the last data of a step to the next step: estimate of the computation that does not overlap with
    /// communication on this port; traffic that bypasses it (`NVLink`, other rails) and the data loader are in
    /// it. Unit: ns.
    pub compute_ns: u64,
}

/// A step and the time to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Its first data, Unix time.
    pub start_ns: u64,
    /// Parts of its time.
    pub parts: Parts,
}

impl Timed {
    fn of(step: &Step, next: &Step) -> Self {
        let period_ns = next.start_ns.saturating_sub(step.start_ns);
        let length_ns = step.end_ns.saturating_sub(step.start_ns).min(period_ns);
        let transfer_ns = step.busy_ns.min(length_ns);
        let parts = Parts {
            period_ns,
            transfer_ns,
            wait_ns: length_ns - transfer_ns,
            compute_ns: period_ns - length_ns,
        };
        Self { start_ns: step.start_ns, parts }
    }

    const fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.parts.period_ns)
    }
}

/// Some steps in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "StepStretch"))]
pub struct Stretch {
    /// Start of the first. Unit: Unix ns.
    pub first_ns: u64,
    /// Start of the step after the last. Unit: Unix ns.
    pub last_ns: u64,
    /// Steps. Unit: steps.
    pub steps: u64,
    /// Median period. Unit: ns.
    pub period_ns: u64,
    /// Parts of their time.
    pub parts: Parts,
}

/// Steps that took longer than the fastest before them, for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slower {
    /// The steps that were slower.
    pub stretch: Stretch,
    /// Time above the fastest part's median, of its slower and long steps.
    pub lost_ns: u64,
    /// Growth of the period over the growth of the transfers, 0 to 1; `None` where these did not grow.
    pub exposed: Option<f64>,
}

/// Comparison of the steps with the fastest ones in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The fastest steps in a row.
    pub fastest: Stretch,
    /// Time that slower and long steps took above the median of the fastest.
    pub lost_ns: u64,
    /// Length of all steps together.
    pub all_ns: u64,
    /// Long steps among others that are not slower.
    pub long_steps: usize,
    /// Their part of the time lost.
    pub long_ns: u64,
    /// The longest stretch of slower steps with faster ones before it.
    pub slower: Option<Slower>,
}

/// The steps of a port with the time to the next, without those behind which data is in no step: of how many steps that
/// time is is not known.
pub fn timed(found: &LinkSteps) -> Vec<Timed> {
    let pairs = found.steps.iter().zip(found.steps.iter().skip(1));
    pairs.filter(|(step, _)| !step.gap_follows).map(|(step, next)| Timed::of(step, next)).collect()
}

fn sorted(steps: &[Timed]) -> Vec<u64> {
    let mut periods: Vec<u64> = steps.iter().map(|step| step.parts.period_ns).collect();
    periods.sort_unstable();
    periods
}

fn median(steps: &[Timed]) -> Option<u64> {
    quantile(&sorted(steps), 0.5)
}

/// Parts of the time of some steps: means over the middle half of them by period, so that long steps do not count.
pub fn parts(steps: &[Timed]) -> Option<Parts> {
    let periods = sorted(steps);
    let (low, high) = (quantile(&periods, 0.25)?, quantile(&periods, 0.75)?);
    let middle = || steps.iter().filter(|step| (low..=high).contains(&step.parts.period_ns));
    let count = middle().count() as u64;
    let mean = |of: fn(&Parts) -> u64| middle().map(|step| of(&step.parts)).sum::<u64>().checked_div(count);
    let (transfer_ns, wait_ns) = (mean(|parts| parts.transfer_ns)?, mean(|parts| parts.wait_ns)?);
    let compute_ns = mean(|parts| parts.compute_ns)?;
    Some(Parts { period_ns: transfer_ns + wait_ns + compute_ns, transfer_ns, wait_ns, compute_ns })
}

fn stretch(steps: &[Timed]) -> Option<Stretch> {
    Some(Stretch {
        first_ns: steps.first()?.start_ns,
        last_ns: steps.last()?.end_ns(),
        steps: steps.len() as u64,
        period_ns: median(steps)?,
        parts: parts(steps)?,
    })
}

/// The part of the run of `width` steps that took the shortest time; of those that are as fast, the first. Not by its
/// median: nearly half of the run could be slower steps.
fn fastest(steps: &[Timed], width: usize) -> Option<&[Timed]> {
    let last = steps.len().checked_sub(width)?;
    // A part of thousands of steps need not begin at each of them.
    let starts = (0..=last).step_by((width / 16).max(1));
    let parts = starts.filter_map(|at| steps.get(at..at + width));
    parts.min_by_key(|part| part.iter().map(|step| step.parts.period_ns).sum::<u64>())
}

/// Median period of the steps around each; 0 where there are too few.
fn medians(steps: &[Timed], around: usize) -> Vec<u64> {
    let near = |at: usize| {
        let from = at.saturating_sub(around / 2).min(steps.len().saturating_sub(around));
        steps.get(from..(from + around).min(steps.len())).and_then(median)
    };
    (0..steps.len()).map(|at| near(at).unwrap_or(0)).collect()
}

/// The longest stretch of slower steps with faster ones before it.
fn became_slower(steps: &[Timed], medians: &[u64], base_ns: u64, slow: &mut [bool]) -> Option<Range<usize>> {
    let (mut range, _) = densest(slow.iter().copied())?;
    let faster = slow.iter().take(range.start).filter(|slow| !**slow).count();
    let own = steps.get(range.clone())?;
    // Jitter comes in clusters: seven of nine steps of a healthy ring were a fifth longer, and a quarter of them no
    // longer than others.
    let before = quantile(&sorted(steps.get(..range.start)?), 0.75)?;
    let apart = quantile(&sorted(own), 0.25)? > times(before, 1.0 + NOISE);
    if range.len() < FEWEST_SLOWER || faster < FEWEST_BEFORE || !apart {
        return None;
    }
    // The fastest part may reach into it, and then its limit is too high for the first of them: it began where steps
    // came to be nearer to its own than to the fastest.
    let halfway_ns = base_ns.midpoint(median(own)?);
    while let Some(before) = range.start.checked_sub(1)
        && medians.get(before).is_some_and(|median| *median > halfway_ns)
    {
        range.start = before;
        if let Some(slow) = slow.get_mut(before) {
            *slow = true;
        }
    }
    Some(range)
}

/// Compares the steps with the fastest ones in a row; `None` with too few steps.
pub fn trend(steps: &[Timed]) -> Option<Trend> {
    if steps.len() < FEWEST {
        return None;
    }
    let width = (steps.len() / FAST_SHARE).max(FEWEST_FAST);
    let fast = fastest(steps, width)?;
    let (base, periods) = (stretch(fast)?, sorted(fast));
    let [low, high, most] = [0.25, 0.75, SLOWER].map(|share| quantile(&periods, share));
    let medians = medians(steps, (width | 1).min(AROUND));
    let limit_ns = most?.max(times(base.period_ns, 1.0 + NOISE));
    let mut slow: Vec<bool> = medians.iter().map(|median| *median > limit_ns).collect();
    let range = became_slower(steps, &medians, base.period_ns, &mut slow);
    let fence = high? + times(high? - low?, 1.5);
    let long_ns = fence.max(times(base.period_ns, LONG));
    let is_long = |step: &Timed| step.parts.period_ns > long_ns;
    let lost = |step: &Timed| step.parts.period_ns.saturating_sub(base.period_ns);
    let all = || steps.iter().zip(&slow);
    let single = || all().filter(|(step, slow)| !**slow && is_long(step)).map(|(step, _)| lost(step));
    let sum = |range: Range<usize>| -> u64 {
        let own = all().skip(range.start).take(range.len());
        own.filter(|(step, slow)| **slow || is_long(step)).map(|(step, _)| lost(step)).sum()
    };
    let slower = || {
        let stretch = stretch(steps.get(range.clone()?)?)?;
        let grown = |of: fn(&Parts) -> u64| of(&stretch.parts) as f64 - of(&base.parts) as f64;
        let transfer = grown(|parts| parts.transfer_ns);
        let exposed = (transfer >= GROWN * base.period_ns as f64)
            .then(|| (grown(|parts| parts.period_ns) / transfer).clamp(0.0, 1.0));
        Some(Slower { stretch, lost_ns: sum(range.clone()?), exposed })
    };
    Some(Trend {
        fastest: base,
        lost_ns: sum(0..steps.len()),
        all_ns: steps.iter().map(|step| step.parts.period_ns).sum(),
        long_steps: single().count(),
        long_ns: single().sum(),
        slower: slower(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulate::Dice;
    use super::*;

    use crate::util::time::NS_PER_MS as MS;

    /// Steps of these transfers and silences behind them, in ms, each with a wait of 5 ms.
    fn steps(of: impl IntoIterator<Item = (f64, f64)>) -> Vec<Timed> {
        let mut start_ns = 1_000 * MS;
        let step = |(transfer, compute): (f64, f64)| {
            let [transfer_ns, wait_ns, compute_ns] = [transfer, 5.0, compute].map(|ms| times(MS, ms));
            let period_ns = transfer_ns + wait_ns + compute_ns;
            start_ns += period_ns;
            let parts = Parts { period_ns, transfer_ns, wait_ns, compute_ns };
            Timed { start_ns: start_ns - period_ns, parts }
        };
        of.into_iter().map(step).collect()
    }

    #[test]
    fn steady_steps_lose_nothing() {
        for (count, share) in [(12, 0.0), (30, 0.02), (100, 0.1), (1_000, 0.2)] {
            for seed in 1..20 {
                let mut dice = Dice::new(seed);
                let all = steps((0..count).map(|_| (20.0, 75.0 * dice.jitter(share))));
                let trend = trend(&all).unwrap();
                let lost = trend.lost_ns as f64 / trend.all_ns as f64;
                assert!(lost < 0.02, "{count} {share} {seed}: {lost}");
                assert!(
                    trend.slower.is_none_or(|slower| slower.lost_ns < trend.all_ns / 50),
                    "{count} {share} {seed}: {:?}",
                    trend.slower
                );
            }
        }
        assert_eq!(trend(&steps([(20.0, 75.0); 10])), None, "too few");
    }

    #[test]
    fn growth_is_reported_with_its_beginning() {
        let of = |late: (f64, f64)| {
            let mut dice = Dice::new(3);
            let step = |at| if at < 14 { (20.0, 75.0) } else { late };
            let all: Vec<(f64, f64)> = (0..30).map(step).map(|(t, c)| (t, c * dice.jitter(0.02))).collect();
            let all = steps(all);
            (trend(&all).unwrap(), all[14].start_ns)
        };
        let (by_network, since) = of((45.0, 75.0));
        let slower = by_network.slower.unwrap();
        let (now, before) = (slower.stretch.parts, by_network.fastest.parts);
        assert_eq!((now.transfer_ns - before.transfer_ns, now.wait_ns), (25 * MS, before.wait_ns));
        assert!(now.compute_ns.abs_diff(before.compute_ns) < 3 * MS);
        assert_eq!((slower.stretch.first_ns, slower.stretch.steps), (since, 16));
        assert!(slower.lost_ns.abs_diff(16 * 25 * MS) < 16 * 3 * MS, "{slower:?}");
        assert!(slower.exposed.unwrap() > 0.9);
        // Most of the growth is hidden behind computing.
        let hidden = of((45.0, 60.0)).0.slower.unwrap();
        assert!((0.2..0.6).contains(&hidden.exposed.unwrap()), "{hidden:?}");
        let by_compute = of((20.0, 100.0)).0.slower.unwrap();
        assert_eq!(by_compute.exposed, None);
    }

    #[test]
    fn a_slow_start_is_no_trend_and_a_long_step_is_one() {
        let warm_up = |at| (20.0, if at < 10 { 120.0 } else { 75.0 });
        let warm_up = trend(&steps((0..40).map(warm_up))).unwrap();
        assert_eq!((warm_up.slower, warm_up.lost_ns), (None, 10 * 45 * MS));
        let long = trend(&steps((0..40).map(|at| (20.0, if at == 20 { 575.0 } else { 75.0 })))).unwrap();
        assert_eq!((long.slower, long.long_steps, long.long_ns), (None, 1, 500 * MS));
        assert_eq!(long.lost_ns, 500 * MS);
        // It recovers.
        let for_a_time = |at| (20.0, if (15..25).contains(&at) { 120.0 } else { 75.0 });
        let for_a_time = trend(&steps((0..40).map(for_a_time))).unwrap();
        assert_eq!(for_a_time.slower.map(|slower| slower.stretch.steps), Some(10));
    }

    /// Step times of a healthy ring of four virtual machines.
    #[test]
    fn a_cluster_of_long_steps_is_no_trend() {
        let one = [
            132, 124, 150, 167, 125, 140, 134, 128, 145, 141, 125, 132, 121, 135, 127, 130, 158, 132, 120,
            128, 171, 161, 165, 135, 134, 183, 213, 152, 131,
        ];
        let other = [
            122, 123, 154, 165, 123, 141, 134, 129, 148, 137, 132, 125, 121, 138, 124, 135, 153, 132, 120,
            132, 175, 154, 164, 135, 143, 167, 213, 152, 131,
        ];
        for periods in [one, other] {
            let all = steps(periods.map(|ms| (20.0, f64::from(ms) - 25.0)));
            assert_eq!(trend(&all).unwrap().slower, None);
        }
    }

    /// Steps of a ring of four whose host three computes 60 ms longer from step 15 on: the fastest seven of them reach
    /// into those.
    #[test]
    fn slower_steps_begin_where_they_became_slower() {
        let periods = [
            164, 136, 201, 134, 143, 145, 130, 133, 138, 197, 150, 132, 122, 119, 126, 147, 169, 162, 165,
            185, 167, 163, 171, 203, 184, 181, 175, 203, 186,
        ];
        let all = steps(periods.map(|ms| (20.0, f64::from(ms) - 25.0)));
        let slower = trend(&all).unwrap().slower.unwrap();
        assert_eq!((slower.stretch.first_ns, slower.stretch.steps), (all[16].start_ns, 13));
        let above: u64 = all[16..].iter().map(|step| step.parts.period_ns - 132 * MS).sum();
        assert_eq!(slower.lost_ns, above, "all of them");
    }

    #[test]
    fn growth_by_and_by() {
        let all = trend(&steps((0..36).map(|at| (20.0, 40.0 + f64::from(at))))).unwrap();
        let slower = all.slower.unwrap();
        assert!((25..=32).contains(&slower.stretch.steps), "{slower:?}");
        assert!(slower.stretch.period_ns > all.fastest.period_ns * 6 / 5);
    }
}
