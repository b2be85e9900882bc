//! Periods of findings: the times of signals in flows, and the figures of one episode.

use crate::analysis::{Facts, Flow, Loss};
use crate::findings::{CostBase, Episode, Impact};
use crate::metrics::loss::signal_intervals::{EPISODE_GAP_NS, Mark, Signal, between};
use crate::util::definition::definitions;

definitions! {
    pub(super) LEAST_NS: u64 = 1_000_000_000,
        "Minimum time over which an episode's ratios and cost are taken, in nanoseconds",
        "Between signals of the same instant there are no packets. It covers many round trips of a sender, and one burst of drops does not look like a lossy link";
    BRIDGED_RATIO: f64 = 0.1,
        "Maximum silence between two episodes of a CNP storm over the time from the beginning of the first to the end of the second, for them to be one",
        "A storm that lasts for minutes and pauses for 10 s, as a job does for a checkpoint, is one problem; two bursts with as much silence between them are two";
}

/// A period in which a signal occurred in some flows without 10 s of silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Period {
    /// Begin, Unix nanoseconds.
    pub(super) first_ns: u64,
    /// End, Unix nanoseconds.
    pub(super) last_ns: u64,
    /// Its figures are those of the whole run, since the times of its signals are unknown.
    whole: bool,
    /// Signals this long before or after belong to it, in nanoseconds: a retransmission follows the loss.
    near_ns: u64,
}

impl Period {
    /// The whole run, with its figures.
    pub(super) const fn whole(first_ns: u64, last_ns: u64) -> Self {
        Self { first_ns, last_ns, whole: true, near_ns: 0 }
    }

    /// A part of the run, with the figures of the intervals that overlap it.
    pub(super) const fn between(first_ns: u64, last_ns: u64) -> Self {
        Self { whole: false, ..Self::whole(first_ns, last_ns) }
    }

    /// An episode, with the figures of the intervals less than 10 s away.
    pub(super) const fn episode_of(first_ns: u64, last_ns: u64) -> Self {
        Self { near_ns: EPISODE_GAP_NS - 1, ..Self::between(first_ns, last_ns) }
    }

    /// True if its figures are those of the whole run.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Number of signals of a flow in it; `total` is the number in the whole run.
    pub(super) fn count(&self, flow: &Flow, signal: Signal, total: u64) -> u64 {
        if self.whole {
            return total;
        }
        let own = flow.intervals.of(signal).iter();
        own.filter(|interval| {
            interval.first_ns <= self.last_ns.saturating_add(self.near_ns)
                && interval.last_ns.saturating_add(self.near_ns) >= self.first_ns
        })
        .map(|interval| interval.count)
        .sum()
    }

    /// Packets of a flow in it that loss figures cover; of at least 1 s, as far as there is data.
    pub(super) fn packets(&self, facts: &Facts, flow: &Flow) -> u64 {
        let all = flow.followed_packets();
        if self.whole {
            return all;
        }
        let unfollowed = flow.loss_unfollowed.as_ref().map_or(0, |before| before.packets);
        let known = CountTimes { facts, flow, capable: false, total: all + unfollowed };
        let (begin, end) = self.window(facts);
        known.before(end).saturating_sub(known.before(begin).max(unfollowed))
    }

    /// The same without regard to loss figures; in the whole run all packets.
    pub(super) fn packets_of(&self, facts: &Facts, flow: &Flow) -> u64 {
        if self.whole { flow.packets } else { self.packets(facts, flow) }
    }

    /// All packets of these flows meanwhile, followed or not; of 1 s at least, as far as there is data.
    pub(super) fn all_packets<'a>(&self, facts: &Facts, flows: impl IntoIterator<Item = &'a Flow>) -> u64 {
        let (begin, end) = self.window(facts);
        let of = |flow: &Flow| {
            let known = CountTimes { facts, flow, capable: false, total: flow.packets };
            known.before(end).saturating_sub(known.before(begin))
        };
        flows.into_iter().map(of).fold(0, u64::saturating_add)
    }

    /// The part of a count of a flow that falls into it, taken as evenly spread over the flow's packets; of the whole
    /// run all.
    pub(super) fn part(&self, facts: &Facts, flow: &Flow, total: u64) -> u64 {
        if self.whole { total } else { scaled(self.all_packets(facts, [flow]), total, flow.packets) }
    }

    /// ECN-capable data packets of a flow meanwhile; of 1 s at least, as far as there is data.
    pub(super) fn capable(&self, facts: &Facts, flow: &Flow) -> u64 {
        let total = flow.ecn_data().capable();
        if self.whole {
            return total;
        }
        let known = CountTimes { facts, flow, capable: true, total };
        let (begin, end) = self.window(facts);
        known.before(end).saturating_sub(known.before(begin))
    }

    /// Length of a flow's life in it and 10 s before and behind; of the whole run all of it. In nanoseconds.
    pub(super) fn lifetime_ns(&self, flow: &Flow) -> u64 {
        if self.whole {
            return flow.last_ns.saturating_sub(flow.first_ns);
        }
        let first_ns = flow.first_ns.max(self.first_ns.saturating_sub(EPISODE_GAP_NS));
        flow.last_ns.min(self.last_ns.saturating_add(EPISODE_GAP_NS)).saturating_sub(first_ns)
    }

    /// Length of a flow's life in it, in nanoseconds.
    fn life_within_ns(&self, flow: &Flow) -> u64 {
        if self.whole {
            return self.lifetime_ns(flow);
        }
        flow.last_ns.min(self.last_ns).saturating_sub(flow.first_ns.max(self.first_ns))
    }

    /// The same with the 10 s before and behind it, in which signals belong to it, too; the whole run as it is.
    pub(super) fn with_surroundings(self) -> Self {
        if self.whole {
            return self;
        }
        Self::between(
            self.first_ns.saturating_sub(EPISODE_GAP_NS),
            self.last_ns.saturating_add(EPISODE_GAP_NS),
        )
    }

    /// The time covered by its packet counts: a beginning, and an inclusive end.
    fn window(&self, facts: &Facts) -> (Edge, Edge) {
        let (mut first_ns, mut last_ns) = (self.first_ns, self.last_ns);
        if last_ns.saturating_sub(first_ns) < LEAST_NS {
            let (from, to) = (facts.window.first_ns.unwrap_or(0), facts.window.last_ns.unwrap_or(u64::MAX));
            let middle = first_ns + last_ns.saturating_sub(first_ns) / 2;
            let latest = to.saturating_sub(LEAST_NS).max(from);
            first_ns = middle.saturating_sub(LEAST_NS / 2).clamp(from, latest).min(first_ns);
            last_ns = first_ns.saturating_add(LEAST_NS).min(to).max(last_ns);
        }
        (Edge::Begin(first_ns), Edge::End(last_ns))
    }

    /// The episode, with the peak of the finding's measure.
    pub(super) const fn episode(&self, peak: Option<f64>) -> Episode {
        Episode { first_ns: self.first_ns, last_ns: self.last_ns, peak }
    }
}

/// One end of a period.
#[derive(Clone, Copy)]
enum Edge {
    /// Excludes packets at this time.
    Begin(u64),
    /// Includes packets at this time.
    End(u64),
}

/// Times at which the packet count of a flow is known: its first and last packet, the ends of its intervals, and marks.
struct CountTimes<'a> {
    facts: &'a Facts,
    flow: &'a Flow,
    capable: bool,
    total: u64,
}

impl CountTimes<'_> {
    /// The count up to a time, interpolated between two known ones.
    fn before(&self, edge: Edge) -> u64 {
        let (Edge::Begin(at_ns) | Edge::End(at_ns)) = edge;
        if at_ns <= self.flow.first_ns && matches!(edge, Edge::Begin(_)) {
            return 0;
        }
        if at_ns >= self.flow.last_ns && matches!(edge, Edge::End(_)) {
            return self.total;
        }
        let of: fn(&Mark) -> &Vec<u64> =
            if self.capable { |mark| &mark.capable } else { |mark| &mark.packets };
        // The slot may have belonged to another flow before.
        let own = self.facts.marks.iter().filter(|mark| mark.time_ns > self.flow.first_ns);
        let marks = own
            .filter_map(|mark| Some((mark.time_ns, *of(mark).get(self.flow.slot as usize)?)))
            .filter(|(time_ns, _)| *time_ns < self.flow.last_ns);
        let mut low = (self.flow.first_ns, 0);
        let mut high = (self.flow.last_ns, self.total);
        for point in self.flow.intervals.known(self.capable).chain(marks) {
            if point.0 < at_ns || point.0 == at_ns && matches!(edge, Edge::End(_)) {
                low = low.max(point);
            } else {
                high = high.min(point);
            }
        }
        between(low, high, at_ns).min(self.total)
    }
}

/// `n` · `part` / `whole`, rounded; 0 if `whole` is 0.
pub(super) fn scaled(n: u64, part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    let scaled = (u128::from(n) * u128::from(part) + whole / 2) / whole;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The periods in which any of these signals occurred in any of these flows, latest first.
pub(super) fn periods<'a>(flows: impl IntoIterator<Item = &'a Flow>, signals: &[Signal]) -> Vec<Period> {
    let intervals =
        flows.into_iter().flat_map(|flow| signals.iter().flat_map(|signal| flow.intervals.of(*signal)));
    let times = joined(intervals.map(|interval| (interval.first_ns, interval.last_ns)).collect());
    times.into_iter().rev().map(|(first_ns, last_ns)| Period::episode_of(first_ns, last_ns)).collect()
}

/// Begins and ends with less than 10 s between two of them as one, the oldest first.
pub(super) fn joined(mut all: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    all.sort_unstable();
    let mut times: Vec<(u64, u64)> = Vec::new();
    for (first_ns, last_ns) in all {
        match times.last_mut() {
            Some((_, last)) if first_ns.saturating_sub(*last) < EPISODE_GAP_NS => *last = last_ns.max(*last),
            _ => times.push((first_ns, last_ns)),
        }
    }
    times
}

/// The same, which are sorted latest first, with those as one between which there is little silence for their length.
pub(super) fn bridged(periods: Vec<Period>) -> Vec<Period> {
    let mut joined: Vec<Period> = Vec::new();
    for period in periods.into_iter().rev() {
        let is_brief = |before: &Period| {
            let silence_ns = period.first_ns.saturating_sub(before.last_ns);
            silence_ns as f64 <= BRIDGED_RATIO * period.last_ns.saturating_sub(before.first_ns) as f64
        };
        match joined.last_mut() {
            Some(before) if is_brief(before) => before.last_ns = period.last_ns.max(before.last_ns),
            _ => joined.push(period),
        }
    }
    joined.reverse();
    joined
}

/// One period from the first to the last of these, which are sorted latest first, for problems too small in each
/// period. `run` if there is none, since the times of the signals are unknown.
pub(super) fn all_of(periods: &[Period], run: Period) -> Period {
    match (periods.last(), periods.first()) {
        (Some(first), Some(last)) => Period::episode_of(first.first_ns, last.last_ns),
        _ => run,
    }
}

/// The same for one signal; none if some occurrences have no known time.
pub(super) fn timed(flows: &[&Flow], signal: Signal, counted: impl Fn(&Flow) -> u64) -> Vec<Period> {
    let timed = |flow: &&Flow| {
        flow.intervals.of(signal).iter().map(|interval| interval.count).sum::<u64>() >= counted(flow)
    };
    if flows.iter().all(timed) { periods(flows.iter().copied(), &[signal]) } else { Vec::new() }
}

/// Periods, oldest first, as episodes of a finding whose figures are those of the run.
pub(super) fn episodes(periods: &[Period]) -> Vec<Episode> {
    periods.iter().rev().map(|period| period.episode(None)).collect()
}

/// Result of evaluating successive periods.
pub(super) struct Evaluated<T> {
    /// The latest period that is a finding.
    pub(super) period: Period,
    /// Its result.
    pub(super) what: T,
    /// All periods that are findings, in order of time.
    pub(super) episodes: Vec<Episode>,
}

impl<T> Evaluated<T> {
    /// Its episodes; none where the times of its signals are not known.
    pub(super) fn dated(&self) -> Vec<Episode> {
        if self.period.whole { Vec::new() } else { self.episodes.clone() }
    }
}

/// The latest period for which `judge` returns a result, with the peak of its measure. If no period suffices alone, all
/// of them together may ([`all_of`]): problems that recur after more than 10 s.
pub(super) fn latest<T>(
    periods: &[Period],
    whole: Period,
    judge: impl Fn(&Period) -> Option<(T, Option<f64>)>,
) -> Option<Evaluated<T>> {
    let mut found: Option<Evaluated<T>> = None;
    for period in periods {
        let Some((what, peak)) = judge(period) else { continue };
        let first = found.get_or_insert_with(|| Evaluated { period: *period, what, episodes: Vec::new() });
        first.episodes.insert(0, period.episode(peak));
    }
    if found.is_some() {
        return found;
    }
    let period = all_of(periods, whole);
    let (what, peak) = judge(&period)?;
    Some(Evaluated { period, what, episodes: vec![period.episode(peak)] })
}

/// The run of these flows: from their first packet to their last.
pub(super) fn run<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> Period {
    let ends = flows.into_iter().map(|flow| (flow.first_ns, flow.last_ns));
    let (first_ns, last_ns) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
    Period::whole(first_ns, last_ns)
}

/// A kind of time lost by senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until a loss upstream is repaired.
    RecoveryUpstream,
    /// From the sender's silence before a go-back-N for packets seen at the tap to its last retransmission.
    RecoveryDownstream,
    /// Silence before transport timeouts.
    Timeout,
    /// Between an RNR NAK and the retransmission.
    Rnr,
}

impl Wait {
    /// Sum for a flow in a period, in nanoseconds.
    pub(super) fn of(self, period: &Period, flow: &Flow) -> u64 {
        let (signal, of): (Signal, fn(&Loss) -> u64) = match self {
            Self::RecoveryUpstream => {
                (Signal::RecoveryUpstream, |loss| loss.before_tap.total_ns.unwrap_or(0))
            }
            Self::RecoveryDownstream => {
                (Signal::RecoveryDownstream, |loss| loss.after_tap.total_ns.unwrap_or(0))
            }
            Self::Timeout => (Signal::TimeoutWait, |loss| loss.timeout_wait_ns),
            Self::Rnr => (Signal::RnrWait, |loss| loss.rnr_wait_ns),
        };
        period.count(flow, signal, flow.losses_sum(of))
    }
}

/// Parameters for the impact of retransmissions.
pub(super) struct Cost<'a> {
    /// Share of packets.
    pub(super) ratio: Option<f64>,
    /// The signal that counts the retransmissions.
    pub(super) signal: Signal,
    /// Kinds of lost time; they overlap, so the largest of a flow counts.
    pub(super) waits: &'a [Wait],
}

/// What the impact of retransmissions in these flows in a period is a part of.
pub(super) fn cost_base<'a>(
    facts: &Facts,
    period: &Period,
    flows: impl IntoIterator<Item = &'a Flow>,
) -> CostBase {
    let mut base = CostBase::default();
    for flow in flows {
        let packets = period.all_packets(facts, [flow]);
        base.packets = base.packets.saturating_add(packets);
        base.payload_bytes =
            base.payload_bytes.saturating_add(scaled(packets, flow.payload_bytes, flow.packets));
        base.flows += 1;
        base.flows_ns = base.flows_ns.saturating_add(period.life_within_ns(flow));
    }
    base
}

/// Impact of the retransmissions in these flows in a period. Sums saturate: an agent's stream may state any count.
pub(super) fn impact<'a>(
    period: &Period,
    flows: impl IntoIterator<Item = &'a Flow>,
    cost: &Cost<'_>,
) -> Impact {
    let &Cost { ratio, signal, waits } = cost;
    let (mut packets, mut bytes, mut waited) = (0_u64, 0_u64, 0_u64);
    for flow in flows {
        let total = match signal {
            Signal::RetransmittedAfterTimeout => flow.losses_sum(|loss| loss.timeout_resent.or_zero()),
            Signal::RetransmittedAfterRnr => flow.loss.get().map_or(0, |loss| loss.rnr_resent.or_zero()),
            _ => flow.losses_sum(Loss::retransmissions),
        };
        let again = period.count(flow, signal, total);
        packets = packets.saturating_add(again);
        bytes = bytes.saturating_add(scaled(again, flow.payload_bytes, flow.packets));
        waited = waited.saturating_add(waits.iter().map(|wait| wait.of(period, flow)).max().unwrap_or(0));
    }
    Impact {
        packets_ratio: ratio,
        retransmissions: Some(packets),
        goodput_lost_bytes: (packets > 0).then_some(bytes),
        time_lost_ns: (waited > 0).then_some(waited),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures;
    use crate::report::{Options, Report};

    #[test]
    fn the_base_of_a_cost_holds_any_counts() {
        let flow = |qp| (fixtures::key(0, "10.0.0.1", "10.0.0.2", qp), fixtures::stats(7, 1_000, 1_000_000));
        let sample = fixtures::sample(vec![fixtures::link("eth0", None)], vec![flow(17), flow(18)]);
        let facts = Report::build(&sample, &Options::default()).facts;
        let mut flows = facts.flows.clone();
        for flow in &mut flows {
            flow.payload_bytes = u64::MAX - 1;
        }
        let base = cost_base(&facts, &Period::whole(0, u64::MAX), &flows);
        assert_eq!((base.flows, base.packets, base.payload_bytes), (2, 2_000, u64::MAX));
    }
}
