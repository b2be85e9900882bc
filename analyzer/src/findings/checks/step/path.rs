//! A path within a job whose transfers are slow.

use std::collections::BTreeMap;

use super::{Limits, STRAGGLER};
use crate::analysis::traffic::{StepSlower, StepStraggler, Steps};
use crate::analysis::{Flow, Latency, ports};
use crate::findings::checks::ends;
use crate::findings::title::title;
use crate::findings::{ByHand, Commands, Episode, Hop, Input, Place, Raise, Severity};
use crate::metrics::traffic::times;
use crate::sample::Address;
use crate::util::numbers::share;
use crate::util::units;

/// The latency of the WRITEs and SENDs between two hosts, each with the flow that has the highest.
type Pairs<'a> = BTreeMap<(Address, Address), (&'a Flow, Latency)>;

/// A path within a job whose requests wait far longer for their ACKs than those between the other hosts.
pub(super) struct SlowPath<'a> {
    flow: &'a Flow,
    latency: Latency,
    /// Median of the other host pairs, in nanoseconds.
    peers_ns: u64,
    /// Time per step that its waits add up to: the growth of the steps, or a part of steps that are all alike.
    sum_ns: Option<u64>,
}

/// The slowest path of a job, by the latency of its WRITEs and SENDs; `None` if none costs enough.
pub(super) fn slow<'a>(input: &Input<'a>, steps: &Steps) -> Option<SlowPath<'a>> {
    let pairs = pairs(input, steps);
    let (flow, latency) = *pairs.values().max_by_key(|(_, latency)| latency.p50)?;
    let others = || pairs.iter().filter(|(hosts, _)| **hosts != (flow.src, flow.dst));
    let of_others = |figure: fn(&Latency) -> u64| {
        let mut all: Vec<u64> = others().map(|(_, (_, latency))| figure(latency)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    };
    let (peers_ns, peers_tail_ns) = (of_others(|latency| latency.p50)?, of_others(|latency| latency.p99)?);
    let limits = &input.limits.step;
    let (longer_ns, longer_tail_ns) =
        (latency.p50.saturating_sub(peers_ns), latency.p99.saturating_sub(peers_tail_ns));
    let is_slow = |latency: &Latency| latency.p50 as f64 >= limits.slow_path * peers_ns as f64;
    let slow = others().count() > 1
        && is_slow(&latency)
        && longer_tail_ns as f64 >= limits.slow_tail * longer_ns as f64;
    let sum_ns = if let Some((_, growth_ns)) = grown(limits, steps) {
        Some(growth_ns).filter(|ns| adds_up(limits, steps, (&latency, peers_ns), *ns, 1.0))
    } else {
        // On a cable between groups of hosts, all paths into the far one take longer.
        let alike = others().filter(|(_, (_, other))| is_slow(other)).count();
        let stands_out = share(alike as u64, others().count() as u64) < limits.slow_alike;
        in_all_steps(limits, steps, (&latency, peers_ns)).filter(|_| stands_out && is_between(&pairs, flow))
    };
    let path = SlowPath { flow, latency, peers_ns, sum_ns };
    (slow && share(path.cost_ns(), steps.period_ns) >= limits.straggler_ratio).then_some(path)
}

fn pairs<'a>(input: &Input<'a>, steps: &Steps) -> Pairs<'a> {
    let mut pairs = Pairs::new();
    for flow in input.facts.flows.iter().filter(|flow| ports::is_of(&flow.link, &steps.link)) {
        let Some(latency) =
            flow.latency_by_class.as_ref().and_then(|classes| classes.write_send.as_deref().copied())
        else {
            continue;
        };
        if latency.count >= input.limits.step.path_samples && flow.payload_bytes > 0 {
            let slowest = pairs.entry((flow.src, flow.dst)).or_insert((flow, latency));
            if latency.p50 > slowest.1.p50 {
                *slowest = (flow, latency);
            }
        }
    }
    pairs
}

/// True if a tap sees the path of a flow as it sees those of others, and both its hosts send and receive: no host takes
/// part in all transfers. Next to a host, what it sends takes a way to the far host and back, and what it receives does
/// not.
fn is_between(pairs: &Pairs<'_>, flow: &Flow) -> bool {
    let passes_by = |host: Address| pairs.keys().any(|(src, dst)| *src != host && *dst != host);
    let receives = pairs.keys().any(|(_, dst)| *dst == flow.src);
    let sends = pairs.keys().any(|(src, _)| *src == flow.dst);
    passes_by(flow.src) && passes_by(flow.dst) && receives && sends
}

/// What a path costs where all steps are alike, at most: the part of a step in which hosts exchange data or wait, but
/// for what it would be if its requests were as quick as those of peers.
fn in_all_steps(limits: &Limits, steps: &Steps, (latency, peers_ns): (&Latency, u64)) -> Option<u64> {
    let parts = steps.parts?;
    let longer = 1.0 - share(peers_ns, latency.p50).min(1.0);
    let cost_ns = times(parts.transfer_ns + parts.wait_ns, longer);
    let unchanged = super::slower_stretch(limits, steps).is_none();
    let adds_up = || adds_up(limits, steps, (latency, peers_ns), cost_ns, limits.straggler_part);
    (unchanged && adds_up()).then_some(cost_ns)
}

/// The stretch of slower steps, and by how much they are longer, unless computing grew.
fn grown<'a>(limits: &Limits, steps: &'a Steps) -> Option<(&'a StepSlower, u64)> {
    super::slower_stretch(limits, steps).filter(|(slower, _)| slower.grew_most != "compute")
}

/// True if what the requests of a step wait longer than those of peers is this part of a time or more, all together,
/// and one wait is a part of it, or longer than on any path: a sender whose window is full waits for one ACK after the
/// other.
fn adds_up(limits: &Limits, steps: &Steps, (latency, peers_ns): (&Latency, u64), ns: u64, part: f64) -> bool {
    let longer_ns = latency.p50.saturating_sub(peers_ns);
    let each = latency.count as f64 / steps.count.max(1) as f64;
    let is_queue = longer_ns >= limits.slow_queue_us.saturating_mul(1_000);
    (is_queue || latency.p99 as f64 >= limits.slow_part * ns as f64)
        && longer_ns as f64 * each >= part * ns as f64
}

impl SlowPath<'_> {
    /// Its cost to a step: one wait, or what its waits add up to.
    fn cost_ns(&self) -> u64 {
        self.sum_ns.map_or(self.latency.p99, |sum_ns| sum_ns.max(self.latency.p99))
    }

    /// True if this is the transfer of a straggler.
    pub(super) fn is_of(&self, straggler: &StepStraggler) -> bool {
        let ends = (straggler.waits_for, straggler.dst);
        straggler.kind == "slow_transfer" && ends == (self.flow.src, self.flow.dst)
    }

    /// True if a host starts late because its data arrives late over this path: then it is not the cause.
    pub(super) fn delays(&self, straggler: &StepStraggler) -> bool {
        straggler.kind != "slow_transfer" && straggler.waits_for == self.flow.dst
    }

    /// The longer steps, as far as it explains them.
    pub(super) fn stretch(&self, input: &Input<'_>, steps: &Steps) -> Option<(u64, u64)> {
        let limits = &input.limits.step;
        let explained = |growth_ns: u64| super::explains(limits, self.cost_ns(), growth_ns);
        let grown = grown(limits, steps).filter(|(_, growth_ns)| explained(*growth_ns));
        grown.map(|(slower, _)| (slower.stretch.first_ns, slower.stretch.last_ns))
    }

    pub(super) fn raise(&self, input: &Input<'_>, steps: &Steps) -> Raise {
        let Self { flow, latency, peers_ns, sum_ns } = self;
        let diagnosis = format!(
            "Slow transfer {} → {}: p50 {}, peers {}",
            flow.src,
            flow.dst,
            units::duration(latency.p50),
            units::duration(*peers_ns)
        );
        let (requester, responder) = ends::of_data(input, [*flow]);
        let here = Commands::near(input, flow, flow.dst);
        Raise::new(
            &STRAGGLER,
            Severity::Warning,
            title(diagnosis, [format!(" (p99 {})", units::duration(latency.p99))]),
        )
        .evidence("kind", "slow_transfer")
        .evidence("receiver", flow.dst.to_string())
        .evidence("waits_for", flow.src.to_string())
        .evidence("dest_qp", flow.dest_qp)
        .evidence("link", flow.link.as_str())
        .evidence("p50_ns", latency.p50)
        .step_p99_ns(latency.p99)
        .evidence("peers_latency_ns", *peers_ns)
        .evidence("period_ns", steps.period_ns)
        .behind_ns(sum_ns.map(|_| self.cost_ns()))
        .evidence("behind_ratio", share(self.cost_ns(), steps.period_ns))
        .flows([*flow])
        .place(Place::of(input, flow).hop(Hop::Downstream))
        .ends(requester, responder)
        .step(
            format!("Check {} marks, pauses and loss from {} to {}.", input.facts.mark(), flow.src, flow.dst),
            ByHand::Reading,
        )
        .step(
            format!("Check link speed, lanes and egress queue of the switch port towards {}.", flow.dst),
            here.link(),
        )
        .caveat(format!("{} may also be slow to answer: compare its PCIe and CPU.", flow.dst))
        .dated(self.times(input, steps))
    }

    /// The time of the steps that it delays: latencies themselves have none. None where no step is known to wait for
    /// it.
    fn times(&self, input: &Input<'_>, steps: &Steps) -> Vec<Episode> {
        // The receiver begins late, because its data arrives late.
        let late = steps.straggler.as_ref().filter(|straggler| straggler.waits_for == self.flow.dst);
        let late = late.map(|straggler| (straggler.since_ns, straggler.until_ns));
        let peak = Some(share(self.cost_ns(), steps.period_ns));
        let episode = |(first_ns, last_ns)| Episode { first_ns, last_ns, peak };
        late.or_else(|| self.stretch(input, steps)).map(episode).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Facts;
    use crate::findings::Finding;
    use crate::findings::tests::{found_on, with_steps};

    /// A ring of three hosts on the link of the steps, with these medians and 99th percentiles of their latencies in
    /// ms.
    fn with_latency(times: [(u64, u64); 3], straggler: Option<&'static str>) -> Option<Finding> {
        let facts = with_steps(|steps| match (straggler, &mut steps.straggler) {
            (Some(kind), Some(known)) => known.kind = kind,
            (_, known) => *known = None,
        });
        slow_on(facts, &times)
    }

    /// A ring of as many hosts as there are latencies.
    fn slow_on(facts: Facts, times: &[(u64, u64)]) -> Option<Finding> {
        let hosts = u8::try_from(times.len()).unwrap();
        let ring: Vec<_> = (1..=hosts).map(|at| (at, at % hosts + 1)).zip(times.iter().copied()).collect();
        slow_between(facts, &ring)
    }

    /// Two hosts, and a median and a 99th percentile between them.
    type Timed = ((u8, u8), (u64, u64));

    /// Requests from hosts to hosts with these medians and 99th percentiles of their latencies in ms.
    fn slow_between(mut facts: Facts, times: &[Timed]) -> Option<Finding> {
        let flow = facts.flows.iter().find(|flow| flow.link == "eth0").unwrap().clone();
        facts.flows = times
            .iter()
            .map(|((src, dst), (p50, p99))| {
                let [p50, p99] = [*p50, *p99].map(|ms| ms * 1_000_000);
                let latency = Latency { count: 100, p50, p99, p999: p99.into(), max: p99 };
                Flow {
                    src: Address::from([10, 0, 0, *src]),
                    dst: Address::from([10, 0, 0, *dst]),
                    payload_bytes: 1,
                    latency_by_class: Some(Box::new(crate::analysis::LatencyByClass {
                        write_send: Some(Box::new(latency)),
                        read: None,
                        atomic: None,
                    })),
                    ..flow.clone()
                }
            })
            .collect();
        found_on(&facts, "step.straggler")
    }

    #[test]
    fn a_slow_path_begins_with_the_steps_that_wait_for_it() {
        let slow = [(1, 2), (4, 20), (1, 2)];
        // Those in which its receiver is late.
        let late = with_latency(slow, Some("starts_late")).unwrap();
        assert_eq!((late.first_seen_ns, late.last_seen_ns), (Some(1), Some(1_200_000_001)));
        // Those that are longer, as far as it explains that: p99 is 20 ms.
        let grown = |growth_ms, transfer_ms| {
            let facts = with_steps(|steps| {
                steps.straggler = None;
                let slower = crate::analysis::traffic::example_slower(growth_ms, transfer_ms);
                steps.trend.as_mut().unwrap().slower = Some(slower);
            });
            slow_on(facts, &slow).unwrap().first_seen_ns
        };
        assert_eq!(grown(40, 40), Some(600_000_001));
        assert_eq!(grown(41, 41), None, "less than half of it");
        assert_eq!(grown(40, 0), None, "computing grew");
        assert_eq!(with_latency(slow, None).unwrap().first_seen_ns, None);
    }

    /// A sender with a small window waits for many ACKs in a row: none is long, and together they are what the steps
    /// grew by.
    #[test]
    fn waits_that_add_up_to_the_growth_of_the_steps_are_a_slow_path() {
        let found = |times: [(u64, u64); 3], growth_ms, transfer_ms| {
            let facts = with_steps(|steps| {
                (steps.straggler, steps.count) = (None, 12);
                let slower = crate::analysis::traffic::example_slower(growth_ms, transfer_ms);
                steps.trend.as_mut().unwrap().slower = Some(slower);
            });
            slow_on(facts, &times)
        };
        // 100 requests in 12 steps, each of which waits 3 ms longer: 25 ms in a step.
        let slow = [(1, 2), (4, 5), (1, 2)];
        let finding = found(slow, 20, 20).unwrap();
        assert!(finding.title.starts_with("Slow transfer 10.0.0.2 → 10.0.0.3"), "{}", finding.title);
        assert_eq!(
            (&finding.evidence["behind_ns"], finding.first_seen_ns),
            (&20_000_000.into(), Some(600_000_001))
        );
        assert_eq!(found(slow, 26, 26), None, "they wait for less than that");
        assert_eq!(found(slow, 20, 0), None, "computing grew");
        assert_eq!(found([(1, 2), (2, 5), (1, 2)], 20, 20), None, "about as slow as its peers");
    }

    /// 100,000 requests in a step, most of which are outstanding at the same time.
    #[test]
    fn waits_that_are_neither_a_part_of_the_growth_nor_longer_than_any_path_add_up_to_nothing() {
        let facts = with_steps(|steps| steps.count = 12);
        let adds_up = |p50_us: u64, p99_us: u64| {
            let [p50, p99] = [p50_us, p99_us].map(|us| us * 1_000);
            let latency = Latency { count: 1_200_000, p50, p99, p999: p99.into(), max: p99 };
            let steps = facts.steps.as_ref().unwrap();
            adds_up(&Limits::default(), steps, (&latency, 50_000), 20_000_000, 1.0)
        };
        assert!(!adds_up(150, 1_999) && adds_up(150, 2_000) && !adds_up(549, 1_999) && adds_up(550, 600));
    }

    /// A tap in the network, and steps that are all as slow: 20 ms of each are transfers, 20 ms waits.
    #[test]
    fn a_path_that_is_slow_in_all_steps_costs_what_they_exchange_data_for() {
        let found = |times: &[(u64, u64)], count| {
            let facts = with_steps(|steps| {
                (steps.straggler, steps.count) = (None, count);
                steps.trend.as_mut().unwrap().slower = None;
            });
            slow_on(facts, times)
        };
        // 100 requests in 12 steps, each of which waits 3 ms longer: 25 ms in a step, of 30.
        let ring = [(1, 2), (4, 5), (1, 2), (1, 2)];
        let finding = found(&ring, 12).unwrap();
        assert!(finding.title.starts_with("Slow transfer 10.0.0.2 → 10.0.0.3"), "{}", finding.title);
        assert_eq!(finding.evidence["behind_ns"], 30_000_000);
        assert_eq!(found(&ring, 21), None, "they wait for less than half of that");
        assert_eq!(found(&[(1, 2), (2, 5), (1, 2), (1, 2)], 12), None, "about as slow as its peers");
    }

    /// A tap on the cable between hosts 1 and 2, which are near, and hosts 3 and 4, which are far: each writes to both
    /// of the other group.
    #[test]
    fn a_path_into_the_far_group_of_hosts_is_as_slow_as_the_others_into_it() {
        let found = |slowest: (u64, u64), far: (u64, u64)| {
            let facts = with_steps(|steps| {
                (steps.straggler, steps.count) = (None, 12);
                steps.trend.as_mut().unwrap().slower = None;
            });
            let ways = [(1, 3), (1, 4), (2, 3), (2, 4), (3, 1), (3, 2), (4, 1), (4, 2)];
            let time = |way: &(u8, u8)| match way {
                (1, 3) => slowest,
                (1 | 2, _) => far,
                _ => (1, 2),
            };
            slow_between(facts, &ways.map(|way| (way, time(&way)))).map(|finding| finding.title)
        };
        assert_eq!(found((5, 5), (4, 5)), None);
        let slow = found((5, 5), (1, 2)).unwrap();
        assert!(slow.starts_with("Slow transfer 10.0.0.1 → 10.0.0.3"), "{slow}");
    }

    /// Latencies next to a host are not those of a way through the network.
    #[test]
    fn latencies_compare_where_no_host_takes_part_in_all_transfers() {
        let between = |hosts: &[(u8, u8)]| {
            let flow = with_steps(|_| {}).flows.remove(0);
            let address = |host: u8| Address::from([10, 0, 0, host]);
            let flow =
                |(src, dst): &(u8, u8)| Flow { src: address(*src), dst: address(*dst), ..flow.clone() };
            let flows: Vec<Flow> = hosts.iter().map(flow).collect();
            let latency = Latency { count: 100, p50: 1, p99: 1, p999: 1_u64.into(), max: 1 };
            let pairs = flows.iter().map(|flow| ((flow.src, flow.dst), (flow, latency))).collect();
            is_between(&pairs, &flows[0])
        };
        assert!(between(&[(1, 2), (2, 3), (3, 4), (4, 1)]));
        assert!(!between(&[(1, 2), (2, 1), (2, 3), (3, 2)]), "at host 2");
        assert!(!between(&[(1, 9), (1, 2), (2, 3), (3, 1)]), "host 9 only receives");
    }

    /// All paths became equally slow in the middle of the run. Which of its two speeds the median of a path falls into
    /// is chance, and its slowest requests are as slow as those of its peers.
    #[test]
    fn a_path_whose_slowest_requests_are_no_slower_than_others_is_as_fast() {
        let found = |times| with_latency(times, None).map(|finding| finding.title);
        assert_eq!(found([(1, 20), (4, 20), (1, 20)]), None);
        assert_eq!(found([(1, 20), (4, 21), (1, 20)]), None);
        assert!(found([(1, 20), (4, 22), (1, 20)]).is_some());
    }

    /// The receiver of a slow path begins late: the finding names its inbound transfer.
    #[test]
    fn a_slow_path_is_named_and_not_the_host_behind_it() {
        let slow = [(1, 2), (4, 20), (1, 2)];
        for straggler in [None, Some("starts_late")] {
            let finding = with_latency(slow, straggler).unwrap();
            assert_eq!(
                finding.title,
                "Slow transfer 10.0.0.2 → 10.0.0.3: p50 4.00 ms, peers 1.00 ms (p99 20.0 ms)"
            );
            assert_eq!(finding.severity, Severity::Warning);
        }
        let other = with_latency([(4, 20), (1, 2), (1, 2)], Some("starts_late")).unwrap();
        assert!(
            other.title.starts_with("Straggler 10.0.0.3: starts"),
            "another host's path: {}",
            other.title
        );
        for fine in [[(1, 2), (2, 20), (1, 2)], [(1, 2), (4, 14), (1, 2)], [(4, 20), (4, 20), (4, 20)]] {
            assert_eq!(with_latency(fine, None), None, "{fine:?}");
        }
    }
}
