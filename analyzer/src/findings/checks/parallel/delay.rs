//! Links on which requests wait longer for their answers than on their peers.

use super::{Direction, Limits, WorseLink, WorseProperty};
use crate::analysis::{Flow, Latency};
use crate::findings::Input;
use crate::util::numbers::median;

/// A percentile of latency that is compared, and when it is worse.
pub(super) struct Percentile<'a> {
    limits: &'a Limits,
    of: fn(&Latency) -> u64,
    worse: fn(u64, u64) -> WorseProperty,
    samples: u64,
    slower: f64,
    slower_ns: u64,
}

impl<'a> Percentile<'a> {
    pub(super) fn median(limits: &'a Limits) -> Self {
        Self {
            limits,
            of: |latency| latency.p50,
            worse: WorseProperty::Delay,
            samples: limits.samples,
            slower: limits.slower,
            slower_ns: limits.slower_ns,
        }
    }

    fn tail(limits: &'a Limits) -> Self {
        Self {
            limits,
            of: |latency| latency.p99,
            worse: WorseProperty::Tail,
            samples: limits.tail_samples,
            slower: limits.tail_slower,
            slower_ns: limits.tail_slower_ns,
        }
    }

    /// Latencies of flows with enough samples.
    fn known<'f>(&self, flows: &'f [&Flow]) -> impl Iterator<Item = Latency> + use<'f> {
        let least = self.samples;
        let all = flows.iter().filter_map(|flow| flow.latency_ns.as_deref().copied());
        all.filter(move |latency| latency.count >= least)
    }
}

impl<'a> Direction<'a> {
    /// A link that was slow for a part of the time: its median may be that of its peers. Load makes tails longer.
    pub(super) fn tail(&self, input: &Input<'_>, link: &'a str) -> Option<WorseLink<'a>> {
        let limits = &input.limits.parallel;
        let slower = self.slower(&Percentile::tail(limits), link)?;
        let is_even = self.loads(input, link).iter().all(|load| *load <= limits.even_load);
        is_even.then_some(slower)
    }

    pub(super) fn slower(&self, by: &Percentile<'_>, link: &'a str) -> Option<WorseLink<'a>> {
        let limits = by.limits;
        let times =
            |flows: &[&Flow]| -> Vec<u64> { by.known(flows).map(|latency| (by.of)(&latency)).collect() };
        let (mut here, mut there, mut all, mut slow) = (Vec::new(), Vec::new(), 0usize, 0usize);
        let (mut flows, mut slow_flows, mut spreads) = (Vec::new(), 0usize, Vec::new());
        for (own, others) in self.split(link) {
            let (own_times, other_times) = (times(&own), times(&others));
            let (Some(mine), Some(theirs)) = (median(own_times.clone()), median(other_times.clone())) else {
                continue;
            };
            let is_slow = |time: u64| time as f64 >= by.slower * theirs as f64;
            all += 1;
            slow += usize::from(is_slow(mine));
            spreads.extend(by.known(&own).map(|latency| latency.p99.saturating_sub(latency.p50)));
            slow_flows += own_times.iter().filter(|time| is_slow(**time)).count();
            here.extend(own_times);
            there.extend(other_times);
            flows.extend(own);
        }
        let few = (here.len(), there.len());
        let (mine, theirs) = (median(here)?, median(there)?);
        let agree = if all >= limits.slow_pairs {
            slow as f64 >= limits.agree * all as f64
        } else {
            few.0.min(few.1) >= limits.flows_alone && slow_flows as f64 >= limits.agree * few.0 as f64
        };
        let slower = mine as f64 >= by.slower * theirs as f64 && mine - theirs >= by.slower_ns;
        let spread = median(spreads)?;
        // A READ waits for those before it, too, for as long as its requester keeps as many outstanding.
        let data = flows.iter().all(|flow| flow.payload_bytes > 0);
        (agree && slower).then(|| WorseLink {
            link,
            worse: (by.worse)(mine, theirs),
            times: mine as f64 / theirs.max(1) as f64,
            host_pairs: all,
            slow_share: Some(slow_flows as f64 / few.0 as f64),
            steady: data && mine.saturating_sub(theirs) >= limits.steady * spread,
            load: None,
            episodes: None,
            flows,
        })
    }
}
