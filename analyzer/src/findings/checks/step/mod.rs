//! Steps of a job: stragglers, and growing step time.

mod path;

use crate::analysis::traffic::{StepSlower, StepStraggler, StepStretch, Steps};
use crate::analysis::{Flow, ports};
use crate::findings::ids;
use crate::findings::period::{Period, Wait};
use crate::findings::title::title;
use crate::findings::{
    ByHand, Commands, Entry, Episode, Family, Finding, Impact, Input, Measure, Place, Problem, Raise,
    RequiredData, Severity, Unit, label,
};
use crate::util::numbers::share;
use crate::util::units;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[STRAGGLER, SLOWER],
    limits: &[Limits::META],
    evidence: &[
        label("peers_latency_ns", "median latency of the other host pairs", Unit::Nanoseconds),
        label("fastest_ns", "step time, fastest steps in a row", Unit::Nanoseconds),
        label("slower_ns", "step time, slower steps", Unit::Nanoseconds),
        label("slower_steps", "slower steps", Unit::Count),
        label("transfer_grew_ns", "growth per step, data on the wire", Unit::Nanoseconds),
        label("wait_grew_ns", "growth per step, silence within it", Unit::Nanoseconds),
        label("compute_grew_ns", "growth per step, silence until the next", Unit::Nanoseconds),
        label("exposed_ratio", "share of the added transfer time that the steps wait for", Unit::Ratio),
        label("time_lost_ns", "time lost in these steps", Unit::Nanoseconds),
        label("network_wait_ns", "timeouts, RNR waits and loss recovery, summed over QPs", Unit::Nanoseconds),
    ],
    check,
};

pub(in crate::findings) const STRAGGLER: Entry = Entry {
    id: "step.straggler",
    rank: 380,
    causes: &[ids::RNR_SLOW_RECEIVER, ids::LOSS_BEFORE_TAP, ids::LOSS_AFTER_TAP, ids::PFC_VICTIM],
    needs: &[RequiredData::Traffic],
    measure: Some(Measure::ratio("behind_ratio")),
    title: "Persistent straggler: one host delays every step",
    meaning: "A step of a collective ends when the slowest of its hosts is done. One host starts late, pauses within the step, or transfers data much more slowly \
                than the others; all other hosts wait.",
    computed: "From steps.straggler: the idle periods of a link within its steps, and the host that ends each of them. A host that sent nothing in the previous step starts late; a \
               transfer is slow when it takes three times as long as others of its size. It must cost at least step.straggler_ratio of the median step, in at least 5 steps and two of \
               three of a part of the run.\n\
               - A warning when other steps of the run have none, or when only one host is the straggler and more than two send data, or it is a member of a collective: it receives a \
               quarter of its data of a step or more after its late start, without a second such wait (passes_on). Else info, because a pipeline stage starts late by nature.\n\
               - If hosts alternate, one must be last more often in a row than chance explains.\n\
               - A host that starts late, pauses, or waits for another one unseen, must make these steps longer than those in which nobody is waited for (at least 5), by at least half of the wait: hosts that send each at its own pace do not wait for one another.\n\
               - A host that starts late is named only if its own time, from the last data in to the first data out, grew by at least half of the delay: else its inbound transfer is \
               slow.\n\
               - A path is slow also when the median request-to-ACK latency of its WRITEs and SENDs (step.path_samples samples) is at least step.slow_path times that of the other host \
               pairs, its 99th percentile exceeds theirs by at least step.slow_tail of what the median does, and its cost is at least step.straggler_ratio of the median step.\n\
               - Its cost is its 99th percentile; where the steps have grown (step.slower) and not by computing, it is their growth, if that percentile is at least step.slow_part of the growth or its median step.slow_queue_us above theirs, \
               and what its requests of a step wait longer than those of the others is at least as long, all together.\n\
               - If no step is faster, its cost is at most the part of a step with data or waits (steps.parts), less the length of that part at the others' median latency. That counts if no host takes part in all transfers at the tap, both \
               hosts send and receive data, fewer than step.slow_alike of the other pairs are as slow, and what its requests of a step wait longer is at least step.straggler_part of that.\n\
               - Its time is that of the steps that wait for it: those in which its receiver starts late, or the slower steps of steps.trend if what grew is not computing and its cost \
               is at least step.straggler_part of the growth. Latencies are of the run.\n\
               \n\
               If only the upstream neighbour of a host is visible at this tap, the finding states so and names no culprit. Only traffic that clearly belongs to a job has steps (see \
               steps.link in the report's fields).",
    advice: "Check that host first, not the network: GPU clocks and throttling (nvidia-smi -q -d PERFORMANCE), ECC and Xid errors (dmesg), CPU and NUMA placement \
               of its process, storage or data loader, other jobs. <eth>For slow_transfer check its link: speed and lanes (ethtool, lspci -vv), CE marks, PFC pauses, loss \
               on the path to the receiver.</eth> NCCL_DEBUG=INFO and the job's own timings confirm it.",
    caveat: "Hosts whose data is not captured cannot be named: capture at several hosts, or at a switch. A host that computes longer in every step from the start \
               is indistinguishable from a pipeline stage, unless a part of what it receives follows its late start.",
    ..Entry::of(Problem::Step)
};
const SLOWER: Entry = Entry {
    id: "step.slower",
    rank: 390,
    causes: &[
        ids::LOSS_BEFORE_TAP,
        ids::LOSS_AFTER_TAP,
        ids::LOSS_BETWEEN_TAPS,
        ids::ECN_CONGESTION,
        ids::BURST_INCAST,
        ids::LINKS_CONGESTED_ONE_OF,
        ids::LINKS_IMBALANCE,
        ids::RETRY_TIMEOUTS,
        ids::RNR_SLOW_RECEIVER,
        ids::PFC_VICTIM,
        STRAGGLER.id,
    ],
    needs: &[RequiredData::Traffic],
    measure: Some(Measure::ratio("slower_ratio")),
    title: "Step time increases",
    meaning: "The job transfers the same volume per step, but a step takes longer than it did earlier in the run.",
    computed: "From steps.trend: the fastest quarter of the steps in a row (at least 5) is what the job can sustain. A step is slower when the median of its neighbours exceeds nine of \
               ten of these, and their median by 3 %.\n\
               \n\
               A warning when there are at least step.slower_steps steps, and the median of the longest stretch of slower steps (two of three, at least 5), with at least 4 faster ones \
               before it and its lower quartile 3 % above the upper quartile of all steps before, is at least 1 + step.slower_ratio times that of the fastest; slow steps at the start \
               (warm-up) and single long steps (checkpoints) are none.\n\
               \n\
               The part that grew: data on the wire (transfer), silence within the step (waiting for a host, a retransmission or a queue downstream of the tap), or silence until the next step \
               (an estimate of computing). Findings about the network at that time are its causes; network_wait_ns is an upper bound of what timeouts, RNR and loss recovery cost.\n\
               \n\
               A straggler (step.straggler, a warning) of that time that costs at least the share step.straggler_part of the growth owns it.",
    advice: "If transfer grew, check CE marks, loss, pauses and link speed since then. If waiting grew, check transport timeouts, the latency of paths downstream of the tap, and step.straggler. If computing grew, it is not this network: \
               check GPU clocks, the data loader and storage. `rocescope diff` of the reports of two parts of the run (replay --from, --to, --output json) shows the changes.",
    caveat: "Longer sequences, evaluation or checkpoints lengthen steps as well. Packets do not show computing: traffic that bypasses this port counts as computing.",
    ..Entry::of(Problem::Step)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "step";
    straggler_ratio: f64 = 0.15,
        "minimum cost of the straggler, as a share of the median step",
        "Hosts of a healthy ring start staggered by up to a tenth of a step; below a sixth it is not worth an on-call alert";
    straggler_part: f64 = 0.5,
        "minimum share of the growth of the steps that a straggler costs, to own step.slower",
        "A part that explains most of the growth is its cause";
    slow_path: f64 = 3.0,
        "minimum median latency of a slow transfer over that of the other pairs of hosts",
        "Paths of one fabric differ by a hop or two, and their queues by less than that";
    slow_tail: f64 = 0.5,
        "minimum excess of the 99th percentile of such a transfer over that of the other pairs, as a share of the excess of its median",
        "A cause that slows a path slows its slowest requests, too; where steps are fast at first and slow later, chance decides which of the two a median shows";
    slow_part: f64 = 0.1,
        "minimum 99th percentile of such a transfer over the growth of the steps that its waits add up to, where its median excess is below step.slow_queue_us",
        "A sender whose window is full waits for ACKs several times in a step; a shorter wait is that of a longer path";
    slow_queue_us: u64 = 500,
        "minimum excess of the median latency of such a transfer over that of the other pairs, in microseconds, that a longer path does not explain",
        "In this time light passes 50 km of fibre and back: such a transfer waits in a queue, however many of its waits a step has";
    slow_alike: f64 = 0.3,
        "share of the other pairs of hosts with so high a median, exclusive, for such a path to stand out where no step is faster",
        "At a cable between groups of hosts, half of the paths or a third of the others, those into the far group, take longer";
    path_samples: u64 = 100,
        "minimum latency samples of such a path",
        "The p99 of fewer is a single outlier";
    slower_ratio: f64 = 0.15,
        "minimum increase of the median step time over the fastest steps in a row",
        "Step times of a healthy job differ by a few per cent between parts of a run, single steps by much more";
    slower_steps: u64 = 12,
        "minimum steps",
        "Five fast steps in a row, five slower ones, and some between: fewer do not show a trend";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(steps) = &input.facts.steps else { return };
    let slow = path::slow(input, steps);
    match (&slow, &steps.straggler) {
        (Some(path), straggler) if straggler.as_ref().is_none_or(|one| path.delays(one)) => {
            path.raise(input, steps).into(found);
        }
        (_, Some(straggler)) => {
            let same = slow.as_ref().filter(|path| path.is_of(straggler));
            let stretch = same.and_then(|path| path.stretch(input, steps));
            let grown = stretch.or_else(|| explained(&input.limits.step, steps, straggler));
            named(input, steps, straggler, grown, found);
        }
        (_, None) => {}
    }
    slower(input, steps, found);
}

/// The longer steps that a slow transfer explains: it may be slow, and not far slower than the others of each, before
/// those in which it is a straggler.
fn explained(limits: &Limits, steps: &Steps, straggler: &StepStraggler) -> Option<(u64, u64)> {
    let (slower, growth_ns) = slower_stretch(limits, steps)?;
    let StepStretch { first_ns, last_ns, .. } = slower.stretch;
    let is_then = straggler.since_ns <= last_ns && straggler.until_ns >= first_ns;
    let is_slow = straggler.kind == "slow_transfer" && slower.grew_most != "compute";
    (is_slow && is_then && explains(limits, straggler.behind_ns, growth_ns)).then_some((first_ns, last_ns))
}

fn named(
    input: &Input<'_>,
    steps: &Steps,
    straggler: &StepStraggler,
    grown: Option<(u64, u64)>,
    found: &mut Vec<Finding>,
) {
    let cost = share(straggler.behind_ns, steps.period_ns);
    if cost < input.limits.step.straggler_ratio {
        return;
    }
    let StepStraggler { waits_for, behind_ns, .. } = straggler;
    let diagnosis = straggler.in_words();
    let share = format!(" ({:.0} % of a step)", 100.0 * cost);
    let is_member = || straggler.passes_on || sender_count(input) > 2;
    let severity =
        if straggler.changed || straggler.alone && is_member() { Severity::Warning } else { Severity::Info };
    let flows = input.facts.flows.iter().filter(|flow| {
        flow.src == *waits_for && flow.payload_bytes > 0 && ports::is_of(&flow.link, &straggler.link)
    });
    let name = straggler.link.as_str();
    let raise = Raise::new(&STRAGGLER, severity, title(diagnosis, [share]));
    advised(raise, input, straggler, flows.clone().next())
        .evidence("kind", straggler.kind)
        .evidence("host", straggler.host.map(|host| host.to_string()))
        .evidence("waits_for", waits_for.to_string())
        .evidence("receiver", straggler.dst.to_string())
        .evidence("dest_qp", straggler.dest_qp)
        .evidence("link", straggler.link.as_str())
        .evidence("certain", straggler.certain)
        .evidence("steps", straggler.steps)
        .evidence("of_steps", straggler.of_steps)
        .evidence("steps_seen", steps.count)
        .evidence("since_ns", straggler.since_ns)
        .evidence("until_ns", straggler.until_ns)
        .behind_ns(Some(*behind_ns))
        .evidence("period_ns", steps.period_ns)
        .evidence("behind_ratio", cost)
        .flows(flows)
        .place(Place::link(input, name, None))
        .impact(time_lost(behind_ns.saturating_mul(straggler.steps)))
        .episodes(vec![Episode {
            first_ns: grown.map_or(straggler.since_ns, |(first, _)| first.min(straggler.since_ns)),
            last_ns: grown.map_or(straggler.until_ns, |(_, last)| last.max(straggler.until_ns)),
            peak: Some(cost),
        }])
        .into(found);
}

/// Adds the steps and caveats; `flow`: one of data from the straggler.
fn advised(mut raise: Raise, input: &Input<'_>, straggler: &StepStraggler, flow: Option<&Flow>) -> Raise {
    let waits_for = straggler.waits_for;
    let (here, ce) = (Commands::on(input, &straggler.link), input.facts.mark());
    if straggler.kind == "slow_transfer" {
        raise = raise
            .step(
                format!("Check {ce} marks, pauses and loss from {waits_for} to {}.", straggler.dst),
                ByHand::Reading,
            )
            .step(format!("Check link speed and lanes of {waits_for} and {}.", straggler.dst), here.link());
    }
    if !straggler.certain && straggler.host.is_some() {
        raise = raise.caveat(format!(
            "Likely, not certain: what {waits_for} receives is not visible at this tap, so it may wait for another host."
        ));
    }
    if straggler.kind == "slow_transfer" {
        return raise;
    }
    let there =
        flow.map_or_else(|| Commands::of_host(waits_for), |flow| Commands::at(input, flow, waits_for));
    if straggler.host.is_none() {
        return raise
            .caveat(format!(
                "{waits_for} is the straggler, or waits for another host: what it receives is not visible at this tap."
            ))
            .step(
                format!("Capture on {waits_for} while the job runs: it shows whether {waits_for} waits, and for which host."),
                there.capture("straggler.pcap"),
            )
            .step(
                "Replay that capture, and one of each host that it points to, until a finding names the straggler: rocescope replay straggler.pcap.",
                ByHand::Reading,
            );
    }
    raise
        .step(format!("Check clocks, throttling and ECC errors of the GPUs on {waits_for}."), there.gpus())
        .step(format!("Check Xid, PCIe and driver errors on {waits_for}."), there.kernel_log())
        .step(
            format!("Check CPU and NUMA placement, data loader and storage on {waits_for}."),
            there.threads(),
        )
        .step(format!("Check speed, errors and discards of the NIC on {waits_for}."), there.nic_counters())
}

/// The time by which steps are longer.
fn time_lost(ns: u64) -> Impact {
    Impact { time_lost_ns: Some(ns), ..Impact::default() }
}

/// Number of hosts that send data.
fn sender_count(input: &Input<'_>) -> usize {
    let own = input.facts.flows.iter().filter(|flow| flow.payload_bytes > 0);
    let mut hosts: Vec<_> = own.map(|flow| flow.src).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

/// Waits in the flows of a port during a stretch of steps that network findings explain, summed over queue pairs.
fn network_waits(input: &Input<'_>, steps: &Steps, stretch: &StepStretch) -> Option<u64> {
    const WAITS: [Wait; 4] = [Wait::Timeout, Wait::Rnr, Wait::RecoveryUpstream, Wait::RecoveryDownstream];
    input.sample.metrics.loss.as_ref()?;
    let period = Period::between(stretch.first_ns, stretch.last_ns);
    let flows = input.facts.flows.iter().filter(|flow| ports::is_of(&flow.link, &steps.link));
    Some(flows.flat_map(|flow| WAITS.map(|wait| wait.of(&period, flow))).sum())
}

/// True if a straggler explains the growth of the step time: it accounts for enough of it, at that time.
fn accounts_for(
    limits: &Limits,
    straggler: &Finding,
    growth_ns: u64,
    (first_ns, last_ns): (u64, u64),
) -> bool {
    straggler.id == STRAGGLER.id
        && straggler.is_problem()
        && straggler.subject.step_cost_ns.is_some_and(|cost_ns| explains(limits, cost_ns, growth_ns))
        && straggler.episodes.iter().any(|one| one.first_ns <= last_ns && one.last_ns >= first_ns)
}

/// True if a cost per step explains the growth of the steps.
fn explains(limits: &Limits, cost_ns: u64, growth_ns: u64) -> bool {
    cost_ns as f64 >= limits.straggler_part * growth_ns as f64
}

/// The longest stretch of slower steps, and by how much they are longer; `None` if it is not worth a finding.
fn slower_stretch<'a>(limits: &Limits, steps: &'a Steps) -> Option<(&'a StepSlower, u64)> {
    let trend = steps.trend.as_ref()?;
    let slower = trend.slower.as_ref()?;
    let enough = steps.count >= limits.slower_steps && slower.growth_ratio >= limits.slower_ratio;
    let growth_ns = slower.stretch.period_ns.saturating_sub(trend.fastest.period_ns);
    enough.then_some((slower, growth_ns))
}

fn slower(input: &Input<'_>, steps: &Steps, found: &mut Vec<Finding>) {
    let limits = &input.limits.step;
    let Some(trend) = &steps.trend else { return };
    let Some((slower, growth_ns)) = slower_stretch(limits, steps) else { return };
    let (before, now) = (&trend.fastest, &slower.stretch);
    let wire = format!(
        "Check {} marks, pauses, loss and link speed since then: data takes longer on the wire.",
        input.facts.mark()
    );
    let (grew_ns, words, first) = match slower.grew_most {
        "transfer" => (slower.transfer_grew_ns, "transfer", wire.as_str()),
        "wait" => (
            slower.wait_grew_ns,
            "waiting",
            "Check transport timeouts, latency and stragglers since then: hosts wait in the middle of a step.",
        ),
        _ => (
            slower.compute_grew_ns,
            "computing",
            "Check GPU clocks, throttling and the data loader on all hosts: no traffic for longer between steps.",
        ),
    };
    let owner =
        found.iter().position(|one| accounts_for(limits, one, growth_ns, (now.first_ns, now.last_ns)));
    let diagnosis = format!(
        "Step time grew {:.0} %: {} → {}",
        100.0 * slower.growth_ratio,
        units::duration(before.period_ns),
        units::duration(now.period_ns)
    );
    let episode = Episode { first_ns: now.first_ns, last_ns: now.last_ns, peak: Some(slower.growth_ratio) };
    let parts = [format!(", {words} {}", units::growth(grew_ns))];
    Raise::new(&SLOWER, Severity::Warning, title(diagnosis, parts))
        .evidence("steps", steps.count)
        .evidence("fastest_ns", before.period_ns)
        .evidence("slower_ns", now.period_ns)
        .evidence("slower_ratio", slower.growth_ratio)
        .evidence("slower_steps", now.steps)
        .evidence("since_ns", now.first_ns)
        .evidence("transfer_grew_ns", slower.transfer_grew_ns)
        .evidence("wait_grew_ns", slower.wait_grew_ns)
        .evidence("compute_grew_ns", slower.compute_grew_ns)
        .evidence("exposed_ratio", slower.exposed_ratio)
        .evidence("time_lost_ns", slower.lost_ns)
        .evidence("network_wait_ns", network_waits(input, steps, now))
        .evidence("trend_ns_per_step", steps.trend_ns_per_step)
        .evidence("busy_ratio", steps.busy_ratio)
        .place(Place::link(input, &steps.link, None))
        .impact(time_lost(slower.lost_ns))
        .step(first, ByHand::Varies)
        .step("Write a report of each part of the run (replay --from, --to, --output json), and compare the two: rocescope diff.", ByHand::Reading)
        .episodes(vec![episode])
        .owner(owner.map(|at| (STRAGGLER.id, at)))
        .into(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{found_on, with_steps};

    #[test]
    fn a_straggler_is_named_with_what_it_costs() {
        let finding = found_on(&with_steps(|_| {}), "step.straggler").unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.title.starts_with("Straggler 10.0.0.3: starts 40"), "{}", finding.title);
        assert_eq!(finding.evidence["behind_ratio"], 0.4);
        assert!(finding.title.ends_with(" late in 12 of 12 steps (40 % of a step)"), "{}", finding.title);
        assert_eq!(finding.episodes.len(), 1);
        assert_eq!(finding.last_seen_ns, Some(1_200_000_001), "not after its stretch");
    }

    #[test]
    fn a_little_late_is_no_straggler_and_always_late_may_be_a_pipeline() {
        let little = with_steps(|steps| {
            if let Some(straggler) = &mut steps.straggler {
                straggler.behind_ns = 14_000_000;
            }
        });
        assert_eq!(found_on(&little, "step.straggler"), None);
        let always = with_steps(|steps| {
            if let Some(straggler) = &mut steps.straggler {
                (straggler.changed, straggler.alone) = (false, false);
            }
        });
        assert_eq!(found_on(&always, "step.straggler").map(|f| f.severity), Some(Severity::Info));
    }

    /// The transfer that makes steps longer is slow from the first of these on.
    #[test]
    fn a_slow_transfer_begins_with_the_steps_that_it_makes_longer() {
        let first_ns = |kind, behind_ms: u64, transfer_ms| {
            let facts = with_steps(|steps| {
                let slower = crate::analysis::traffic::example_slower(40, transfer_ms);
                steps.trend.as_mut().unwrap().slower = Some(slower);
                let straggler = steps.straggler.as_mut().unwrap();
                (straggler.kind, straggler.behind_ns) = (kind, behind_ms * 1_000_000);
                straggler.since_ns += 700_000_000;
            });
            found_on(&facts, "step.straggler").unwrap().first_seen_ns
        };
        assert_eq!(first_ns("slow_transfer", 20, 40), Some(600_000_001));
        for (kind, behind_ms, transfer_ms) in
            [("slow_transfer", 19, 40), ("slow_transfer", 20, 0), ("starts_late", 20, 40)]
        {
            assert_eq!(
                first_ns(kind, behind_ms, transfer_ms),
                Some(700_000_001),
                "{kind} {behind_ms} {transfer_ms}"
            );
        }
    }

    /// No host is named if only its neighbour is visible.
    #[test]
    fn a_straggler_out_of_sight() {
        let report = with_steps(|steps| {
            if let Some(straggler) = &mut steps.straggler {
                (straggler.kind, straggler.host) = ("upstream", None);
                straggler.dst = [10, 0, 0, 1].into();
            }
        });
        let finding = found_on(&report, "step.straggler").unwrap();
        assert!(finding.evidence["host"].is_null());
        assert_eq!(
            finding.title,
            "Straggler is 10.0.0.3 or beyond it: 10.0.0.1 waits 40.0 ms in 12 of 12 steps"
        );
        assert!(
            finding.caveats[0].starts_with("10.0.0.3 is the straggler, or waits"),
            "{:?}",
            finding.caveats
        );
        let first = &finding.steps[0];
        assert_eq!(first.host, Some([10, 0, 0, 3].into()));
        assert!(first.command.as_deref().is_some_and(|line| line.contains("-w straggler.pcap")), "{first:?}");
        let gpus = |step: &crate::findings::Step| step.text.contains("GPU") || step.text.contains("Xid");
        assert!(!finding.steps.iter().any(gpus), "{:?}", finding.steps);
    }

    fn slower_by(growth_ms: i64, transfer_ms: i64, count: u64) -> Option<Finding> {
        let facts = with_steps(|steps| {
            let slower = crate::analysis::traffic::example_slower(growth_ms, transfer_ms);
            steps.count = count;
            steps.trend.as_mut().unwrap().slower = Some(slower);
        });
        found_on(&facts, "step.slower")
    }

    #[test]
    fn longer_steps() {
        let finding = slower_by(20, 18, 12).unwrap();
        assert_eq!(finding.title, "Step time grew 20 %: 100 ms → 120 ms, transfer +18.0 ms");
        assert!(finding.steps[0].text.starts_with("Check CE marks"), "{:?}", finding.steps);
        assert_eq!(finding.evidence["compute_grew_ns"], 2_000_000);
        assert_eq!((finding.first_seen_ns, finding.episodes.len()), (Some(600_000_001), 1));
        let of_hosts = slower_by(20, -1, 12).unwrap();
        assert!(of_hosts.title.contains("computing +21.0 ms"), "{}", of_hosts.title);
        assert!(of_hosts.steps[0].text.starts_with("Check GPU clocks"), "{:?}", of_hosts.steps);
        for nearly in
            [slower_by(14, 14, 30), slower_by(20, 20, 11), found_on(&with_steps(|_| {}), "step.slower")]
        {
            assert_eq!(nearly, None);
        }
    }

    /// One problem, not two: the steps are longer because the straggler is late.
    #[test]
    fn a_straggler_owns_the_growth_that_it_explains() {
        let owner = |behind_ms: u64, from_ns: u64| {
            let facts = with_steps(|steps| {
                let slower = crate::analysis::traffic::example_slower(40, 0);
                steps.trend.as_mut().unwrap().slower = Some(slower);
                let straggler = steps.straggler.as_mut().unwrap();
                straggler.behind_ns = behind_ms * 1_000_000;
                straggler.since_ns += from_ns;
                straggler.until_ns += from_ns;
            });
            found_on(&facts, "step.slower").unwrap().owner
        };
        assert_eq!(owner(20, 0), Some("step.straggler"));
        assert_eq!(owner(19, 0), None, "less than half of it");
        assert_eq!(owner(20, 60_000_000_000), None, "at another time");
    }
}
