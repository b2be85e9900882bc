//! The period of a series, by autocorrelation.
//!
//! Random traffic correlates with itself by chance, a queue that drains at one rate very well, and a job whose steps
//! become longer badly; so this alone makes no steps. It is a second way to a period that was found by other means.

use crate::util::definition::definitions;

definitions! {
    pub STRONG: f64 = 0.3,
        "Minimum correlation of a series that is periodic",
        "Random traffic mostly stays below it";
    MIN_PERIODS: usize = 5,
        "Minimum periods of such a series",
        "Fewer do not show a rhythm";
    NEAR: f64 = 1.3,
        "Maximum factor between a period that is searched and the one that is found",
        "Half or twice the period are other peaks";
    MARGIN: f64 = 0.1,
        "Minimum difference by which a coarser series correlates better",
        "To add up points makes any series more like itself";
    MIN_LAG: f64 = 3.0,
        "Minimum points of a period",
        "A peak needs a neighbour on either side that is neither the series itself nor the next peak";
}

/// Points that are compared, at most.
const MAX_POINTS: usize = 2048;

/// A period of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// In points of the series.
    pub period: f64,
    /// Correlation of the series with itself one period later: 1 is a perfect rhythm.
    pub strength: f64,
}

/// The rhythm of a series near a period of `about` points; `None` when there is none.
///
/// Steps are never equally long, so that sharp edges do not meet their like one period later: the series is made
/// coarser until they do, and the best of these answers counts.
pub fn rhythm(points: &[f64], about: f64) -> Option<Rhythm> {
    let mut series = points.to_vec();
    let mut scale = 1.0;
    let mut best: Option<Rhythm> = None;
    while about / scale >= MIN_LAG && series.len() >= 4 * MIN_PERIODS {
        if series.len() <= MAX_POINTS
            && let Some(found) = period(&series, about / scale)
        {
            let found = Rhythm { period: found.period * scale, ..found };
            if best.is_none_or(|best| found.strength > best.strength + MARGIN) {
                best = Some(found);
            }
        }
        series = series.chunks(2).map(|pair| pair.iter().sum()).collect();
        scale *= 2.0;
    }
    best
}

fn period(series: &[f64], about: f64) -> Option<Rhythm> {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let centred: Vec<f64> = series.iter().map(|point| point - mean).collect();
    let power = centred.iter().map(|point| point * point).sum::<f64>() / series.len() as f64;
    if power <= 0.0 {
        return None;
    }
    let correlation = |lag: usize| {
        let later = centred.get(lag..).unwrap_or_default();
        let sum: f64 = centred.iter().zip(later).map(|(a, b)| a * b).sum();
        sum / (series.len() - lag) as f64 / power
    };
    let all: Vec<f64> = (0..=series.len() / MIN_PERIODS).map(correlation).collect();
    // Near lag 0 everything resembles itself: peaks count once the correlation has fallen below zero.
    let from = all.iter().position(|r| *r < 0.0)?;
    let (lag, strength) = (from.max(1)..all.len().saturating_sub(1))
        .filter(|lag| (about / NEAR..=about * NEAR).contains(&(*lag as f64)))
        .filter_map(|lag| match all.get(lag - 1..=lag + 1)? {
            [before, here, after] if here >= before && here > after => Some((lag, *here)),
            _ => None,
        })
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    if strength < STRONG {
        return None;
    }
    // Between the points, by the parabola through the peak and its neighbours.
    let (before, after) = (all.get(lag - 1)?, all.get(lag + 1)?);
    let bend = before - 2.0 * strength + after;
    let shift = if bend < 0.0 { (0.5 * (before - after) / bend).clamp(-0.5, 0.5) } else { 0.0 };
    Some(Rhythm { period: lag as f64 + shift, strength })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::random::Random;

    #[test]
    fn bursts_with_jitter() {
        let mut points = vec![0.0; 6000];
        let mut at = 0;
        for step in 0..40usize {
            for point in points.iter_mut().skip(at).take(40) {
                *point = 1000.0;
            }
            at += 118 + step * 7 % 15;
        }
        let found = rhythm(&points[..at], 118.0).unwrap();
        assert!((found.period - 125.0).abs() < 4.0, "{found:?}");
        assert!(found.strength > 0.5, "{found:?}");
        assert_eq!(rhythm(&points[..at], 180.0), None, "no multiple and no part of it");
    }

    #[test]
    fn no_rhythm_in_noise_or_in_nothing() {
        let mut random = Random::new(1);
        let noise: Vec<f64> = (0..4000).map(|_| random.unit()).collect();
        for about in [20.0, 100.0, 500.0] {
            assert_eq!(rhythm(&noise, about), None);
        }
        assert_eq!(rhythm(&[5.0; 1000], 100.0), None);
        assert_eq!(rhythm(&[], 100.0), None);
        let one: Vec<f64> = (0..1000).map(|i| if (300..400).contains(&i) { 1.0 } else { 0.0 }).collect();
        assert_eq!(rhythm(&one, 100.0), None);
    }
}
