//! Steps of the job, as the report has them.

use super::facts::steps::{StepSlower, StepTrend};
use super::facts::traffic::{Ending, LastFlow, Step, StepStraggler, Steps};
use super::ports;
use super::traffic::ip;
use crate::metrics::steps::job::spread;
use crate::metrics::steps::straggler::{Straggler, StragglerCause};
use crate::metrics::steps::trend::{self, Parts, Slower, Stretch, Trend, timed};
use crate::metrics::steps::{self, LinkSteps, MAX_LISTED};
use crate::metrics::traffic::times;
use crate::sample::Sample;
use crate::util::numbers::{median, quantile, share};

/// The steps of the job, or why there are none; neither where bursts are not seen.
pub(super) fn steps(sample: &Sample) -> (Option<Steps>, Option<&'static str>) {
    if let Some(recorded) = &sample.metrics.steps {
        let ports = ports::of(&sample.links);
        return (of_job(sample, &ports, recorded), None);
    }
    if sample.recording.is_some() {
        return (None, Some("no rows of steps in the recording"));
    }
    let Some(traffic) = &sample.metrics.traffic else { return (None, None) };
    let without_flow = sample.links.iter().map(|link| link.without_flow().packets).sum();
    if traffic.too_much_lost(without_flow) {
        let why = if without_flow > 0 {
            "too many packets are in no flow"
        } else {
            "too many packets are in no bin"
        };
        return (None, Some(why));
    }
    let ports = ports::of(&sample.links);
    match steps::steps(traffic, &ports) {
        Ok(all) => (of_job(sample, &ports, &all), None),
        Err(why) => (None, Some(why.words())),
    }
}

impl Steps {
    /// True if other traffic followed the last step, so that the steps hold until then.
    pub fn are_over(&self) -> bool {
        self.ending.unfinished_ratio.is_some_and(|part| part >= steps::OVER)
    }
}

fn of_job(sample: &Sample, ports: &[u16], all: &steps::Steps) -> Option<Steps> {
    let found = all.links.first()?;
    let (name, direction) = ports::name(&sample.links, ports, found.link);
    let periods = found.periods();
    let third = (periods.len() / 3).max(1);
    let share = |of: fn(&steps::Step) -> u64| {
        let part: u64 = found.steps.iter().take(periods.len()).map(of).sum();
        part as f64 / periods.iter().sum::<u64>().max(1) as f64
    };
    let flow = |last: &steps::LastFinisher| LastFlow {
        src: ip(last.src),
        dst: ip(last.dst),
        dest_qp: last.dest_qp,
        steps: last.steps as u64,
        behind_ns: last.behind_ns,
    };
    let timed = timed(found);
    let mean = trend::parts(&timed);
    Some(Steps {
        link: name,
        direction,
        count: found.steps.len() as u64,
        first_ns: found.steps.first()?.start_ns,
        last_ns: found.steps.last()?.end_ns,
        period_ns: found.period_ns,
        step_bytes: found.volume,
        explained_ratio: found.explained,
        autocorrelation_period_ns: found.rhythm.map(|rhythm| times(1, rhythm.period)),
        autocorrelation: found.rhythm.map(|rhythm| rhythm.strength),
        period_p10_ns: quantile(&periods, 0.1)?,
        period_p90_ns: quantile(&periods, 0.9)?,
        jitter_ratio: spread(&periods)?,
        parts: mean,
        faster_network_ns: mean.map(|parts| parts.transfer_ns / 2),
        trend: trend::trend(&timed).as_ref().map(trend_of),
        first_third_ns: quantile(periods.get(..third)?, 0.5)?,
        first_third_p75_ns: quantile(periods.get(..third)?, 0.75)?,
        last_third_ns: quantile(periods.get(periods.len() - third..)?, 0.5)?,
        last_third_p25_ns: quantile(periods.get(periods.len() - third..)?, 0.25)?,
        trend_ns_per_step: slope(&periods),
        busy_ratio: share(|step| step.busy_ns),
        communication_ratio: share(|step| step.end_ns.saturating_sub(step.start_ns)),
        silence_ns: median(found.steps.iter().map(|step| step.silence_ns).collect())?,
        latest: latest(found),
        all: found.steps.clone(),
        last_flow: found.last.as_ref().map(flow),
        straggler: all.straggler.map(|straggler| named(sample, ports, &straggler, all.named == 1)),
        ending: Ending {
            last_data_ns: found.ending.last_data_ns,
            silent_ns: found.ending.silent_ns,
            unfinished_ratio: found.ending.part,
            outstanding_flows: found.ending.outstanding.map(|flows| flows as u64),
        },
    })
}

fn latest(found: &LinkSteps) -> Vec<Step> {
    let from = found.steps.len().saturating_sub(MAX_LISTED);
    let periods: Vec<u64> = found.periods();
    let listed = found.steps.get(from..).unwrap_or_default().iter().enumerate();
    listed
        .map(|(at, step)| Step {
            start_ns: step.start_ns,
            length_ns: step.end_ns.saturating_sub(step.start_ns),
            busy_ns: step.busy_ns,
            busy_ratio: periods.get(from + at).map(|period| step.busy_ns as f64 / (*period).max(1) as f64),
            silence_ns: step.silence_ns,
        })
        .collect()
}

fn named(sample: &Sample, ports: &[u16], straggler: &Straggler, alone: bool) -> StepStraggler {
    StepStraggler {
        kind: straggler.why.name(),
        host: (straggler.why != StragglerCause::Upstream).then(|| ip(straggler.host)),
        waits_for: ip(straggler.host),
        dst: ip(straggler.peer),
        dest_qp: straggler.dest_qp,
        link: ports::name(&sample.links, ports, straggler.link).0,
        certain: straggler.certain,
        changed: straggler.changed,
        passes_on: straggler.passes_on,
        alone,
        steps: straggler.steps as u64,
        of_steps: straggler.of_steps as u64,
        since_ns: straggler.since_ns,
        until_ns: straggler.until_ns,
        behind_ns: straggler.behind_ns,
    }
}

/// The slope of the straight line that is nearest to some numbers, per number.
fn slope(numbers: &[u64]) -> f64 {
    let n = numbers.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let mean = numbers.iter().map(|y| *y as f64).sum::<f64>() / n;
    let (mut above, mut below) = (0.0, 0.0);
    for (x, y) in numbers.iter().enumerate() {
        let x = x as f64 - middle;
        above += x * (*y as f64 - mean);
        below += x * x;
    }
    if below > 0.0 { above / below } else { 0.0 }
}

fn trend_of(trend: &Trend) -> StepTrend {
    StepTrend {
        fastest: trend.fastest,
        lost_ns: trend.lost_ns,
        lost_ratio: share(trend.lost_ns, trend.all_ns),
        long_steps: trend.long_steps as u64,
        long_ns: trend.long_ns,
        slower: trend.slower.as_ref().map(|slower| slower_of(slower, &trend.fastest)),
    }
}

fn slower_of(slower: &Slower, fastest: &Stretch) -> StepSlower {
    let grew = |of: fn(&Parts) -> u64| {
        let (now, before) = (of(&slower.stretch.parts), of(&fastest.parts));
        i64::try_from(now).unwrap_or(i64::MAX).saturating_sub_unsigned(before)
    };
    let all = [
        ("transfer", grew(|parts| parts.transfer_ns)),
        ("wait", grew(|parts| parts.wait_ns)),
        ("compute", grew(|parts| parts.compute_ns)),
    ];
    let [(_, transfer_grew_ns), (_, wait_grew_ns), (_, compute_grew_ns)] = all;
    StepSlower {
        stretch: slower.stretch,
        growth_ratio: share(slower.stretch.period_ns, fastest.period_ns) - 1.0,
        grew_most: all.into_iter().max_by_key(|(_, grew)| *grew).map_or("", |(name, _)| name),
        transfer_grew_ns,
        wait_grew_ns,
        compute_grew_ns,
        exposed_ratio: slower.exposed,
        lost_ns: slower.lost_ns,
    }
}
