//! The period of a series, by autocorrelation.

/// Correlation from which a series counts as periodic.
pub const STRONG: f64 = 0.3;
/// Periods that a series must hold.
const MIN_PERIODS: usize = 5;
/// A shorter lag is the period when its correlation comes this near to the best one: multiples of a period correlate as well.
const NEAR: f64 = 0.85;
/// By how much a coarser series must correlate better; a much slower rhythm may correlate as much worse.
const MARGIN: f64 = 0.1;
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

/// The rhythm of a series; `None` when there is none.
///
/// Steps are never equally long, so that sharp edges do not meet their like one period later: the series is made coarser
/// until they do, and the best of these answers counts.
#[must_use]
pub fn rhythm(points: &[f64]) -> Option<Rhythm> {
    let mut series = points.to_vec();
    let mut scale = 1.0;
    let mut best: Option<Rhythm> = None;
    while series.len() >= 4 * MIN_PERIODS {
        if series.len() <= MAX_POINTS
            && let Some(found) = period(&series)
        {
            let found = Rhythm { period: found.period * scale, ..found };
            // Equal parts of a step make a rhythm of their own, within that of the steps.
            let slower = |best: Rhythm| found.period > 3.0 * best.period;
            let margin = |best| if slower(best) { -MARGIN } else { MARGIN };
            if best.is_none_or(|best| found.strength > best.strength + margin(best)) {
                best = Some(found);
            }
        }
        series = series.chunks(2).map(|pair| pair.iter().sum()).collect();
        scale *= 2.0;
    }
    best
}

fn period(series: &[f64]) -> Option<Rhythm> {
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
    let peaks: Vec<(usize, f64)> = (from.max(1)..all.len().saturating_sub(1))
        .filter_map(|lag| match all.get(lag - 1..=lag + 1)? {
            [before, here, after] if here >= before && here > after => Some((lag, *here)),
            _ => None,
        })
        .collect();
    let highest = peaks.iter().map(|(_, r)| *r).fold(f64::MIN, f64::max);
    if highest < STRONG {
        return None;
    }
    let (lag, strength) = peaks.into_iter().find(|(_, r)| *r >= NEAR * highest)?;
    // Between the points, by the parabola through the peak and its neighbours.
    let (before, after) = (all.get(lag - 1)?, all.get(lag + 1)?);
    let bend = before - 2.0 * strength + after;
    let shift = if bend < 0.0 { (0.5 * (before - after) / bend).clamp(-0.5, 0.5) } else { 0.0 };
    Some(Rhythm { period: lag as f64 + shift, strength })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found = rhythm(&points[..at]).unwrap();
        assert!((found.period - 125.0).abs() < 4.0, "{found:?}");
        assert!(found.strength > 0.5, "{found:?}");
    }

    #[test]
    fn no_rhythm_in_noise_or_in_nothing() {
        let mut random = 1u64;
        let noise: Vec<f64> = (0..4000)
            .map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 40) as f64
            })
            .collect();
        assert_eq!(rhythm(&noise), None);
        assert_eq!(rhythm(&[5.0; 1000]), None);
        assert_eq!(rhythm(&[]), None);
        let one: Vec<f64> = (0..1000).map(|i| if (300..400).contains(&i) { 1.0 } else { 0.0 }).collect();
        assert_eq!(rhythm(&one), None);
    }
}
