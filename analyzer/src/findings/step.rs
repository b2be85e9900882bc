//! Steps of a job: stragglers, and growing step time.

use super::title::title;
use super::{Commands, Entry, Episode, Family, Input, Measure, Need, Place, Raise};
use crate::analysis::ports;
use crate::analysis::traffic::{StepStraggler, Steps};
use crate::findings::{Finding, Severity};
use crate::util::units;

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[STRAGGLER, SLOWER], limits: &[Limits::META], evidence: &[], check };

const STRAGGLER: Entry = Entry {
    id: "step.straggler",
    rank: 380,
    causes: &["rnr.slow_receiver", "loss.before_tap", "loss.after_tap", "pfc.victim"],
    needs: &[Need::Traffic],
    measure: Some(Measure::ratio("behind_ratio")),
    title: "Persistent straggler: one host delays every step",
    meaning: "A step of a collective ends when the slowest of its hosts is done. One host starts late, pauses within the step, or transfers data much more slowly \
                than the others; all other hosts wait.",
    computed: "From steps.straggler: the idle periods of a link within its steps, and the host that ends each of them. A host that sent nothing in the previous step \
                 starts late; a transfer is slow when it takes three times as long as others of its size. It must cost at least step.straggler_ratio of the median step, in \
                 at least 5 steps and two of three of a part of the run. A warning when other steps of the run are free of it, or when more than two hosts send data \
                 and only one of them is the straggler; else info, because a pipeline stage starts late by nature. Where hosts alternate, one must be last more often \
                 in a row than chance explains. When only the upstream neighbour of a host is visible at this tap, the finding states so and names no culprit. Only \
                 traffic that clearly belongs to a job has steps (see steps.link in the report's fields).",
    advice: "Check that host first, not the network: GPU clocks and throttling (nvidia-smi -q -d PERFORMANCE), ECC and Xid errors (dmesg), CPU and NUMA placement \
               of its process, storage or data loader, other jobs. For slow_transfer check its link: speed and lanes (ethtool, lspci -vv), CE marks, PFC pauses, loss \
               on the path to the receiver. NCCL_DEBUG=INFO and the job's own timings confirm it.",
    caveat: "Hosts whose data is not captured cannot be named: capture at several hosts, or at a switch. A host that computes longer in every step from the start \
               is indistinguishable from a pipeline stage.",
    ..Entry::EMPTY
};
const SLOWER: Entry = Entry {
    id: "step.slower",
    rank: 390,
    causes: &["loss.before_tap", "loss.after_tap", "ecn.congestion"],
    needs: &[Need::Traffic],
    measure: Some(Measure::ratio("slower_ratio")),
    title: "Step time increases",
    meaning: "The job transfers the same volume per step, but a step takes longer at the end of the run than at its start.",
    computed: "A warning when there are at least step.slower_steps steps, the median step time of the last third is at least 1 + step.slower_ratio times that of the first \
                 third, and the lower quartile of the last third is above the upper quartile of the first.",
    advice: "Compare the share of each step in which the network was busy (steps.latest: busy_ns, busy_ratio). If it did not grow, the time goes into computing or \
               waiting: see step.straggler, GPU clocks, the data loader. If it grew, check CE marks, loss and pauses since then; `rocescope diff` of two parts of the \
               run (--from, --to) shows the changes.",
    caveat: "Longer sequences, evaluation or checkpoints lengthen steps as well.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "step";
    straggler_ratio: f64 = 0.15,
        "minimum cost of the straggler, as a share of the median step",
        "Hosts of a healthy ring start staggered by up to a tenth of a step; below a sixth it is not worth an on-call alert";
    slower_ratio: f64 = 0.15,
        "minimum increase from the first third of the step times to the last",
        "Step times of a healthy job differ by a few per cent between parts of a run, single steps by much more";
    slower_steps: u64 = 12,
        "minimum steps",
        "Four in each third: fewer are no trend";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(steps) = &input.facts.steps else { return };
    if let Some(straggler) = &steps.straggler {
        named(input, steps, straggler, found);
    }
    slower(input, steps, found);
}

#[expect(clippy::too_many_lines, reason = "conditions, then the texts that their values go into")]
fn named(input: &Input<'_>, steps: &Steps, straggler: &StepStraggler, found: &mut Vec<Finding>) {
    let cost = straggler.behind_ns as f64 / steps.period_ns.max(1) as f64;
    if cost < input.limits.step.straggler_ratio {
        return;
    }
    let StepStraggler { waits_for, behind_ns, .. } = straggler;
    let time = units::duration(*behind_ns);
    let what = match straggler.kind {
        "starts_late" => format!("Straggler {waits_for}: starts {time} late"),
        "slow_transfer" => {
            format!("Straggler {waits_for}: transfers to {} take {time} longer", straggler.dst)
        }
        "pauses" => format!("Straggler {waits_for}: pauses for {time}"),
        _ => format!("Straggler at or upstream of {waits_for}: {time} delay"),
    };
    let diagnosis = format!("{what} in {} of {} steps", straggler.steps, straggler.of_steps);
    let share = format!(" ({:.0} % of a step)", 100.0 * cost);
    let severity = if straggler.changed || straggler.alone && sender_count(input) > 2 {
        Severity::Warning
    } else {
        Severity::Info
    };
    let flows = input.facts.flows.iter().filter(|flow| {
        flow.src == *waits_for && flow.payload_bytes > 0 && ports::is_of(&flow.link, &straggler.link)
    });
    let name = straggler.link.as_str();
    let here = Commands::on(input, name);
    let mut raise = Raise::new(&STRAGGLER, severity, title(diagnosis, [share]));
    if straggler.kind == "slow_transfer" {
        raise = raise
            .step(format!("Check link speed and lanes of {waits_for}."), here.link())
            .step(format!("Check CE marks, pauses and loss from {waits_for} to {}.", straggler.dst), None);
    } else if straggler.host.is_none() {
        raise = raise
            .caveat(format!("The hosts that {waits_for} depends on are not visible at this tap."))
            .step(format!("Capture at {waits_for} and its upstream neighbours, or at a switch."), None);
    }
    raise
        .step(format!("On {waits_for}, check GPU clocks and throttling: nvidia-smi -q -d PERFORMANCE."), None)
        .step(format!("On {waits_for}, check Xid and ECC errors: dmesg."), None)
        .step(format!("On {waits_for}, check CPU and NUMA placement, data loader and storage."), None)
        .evidence("kind", straggler.kind)
        .evidence("host", straggler.host.map(|host| host.to_string()))
        .evidence("waits_for", waits_for.to_string())
        .evidence("dest_qp", straggler.dest_qp)
        .evidence("link", straggler.link.as_str())
        .evidence("certain", straggler.certain)
        .evidence("steps", straggler.steps)
        .evidence("of_steps", straggler.of_steps)
        .evidence("steps_seen", steps.count)
        .evidence("since_ns", straggler.since_ns)
        .evidence("until_ns", straggler.until_ns)
        .evidence("behind_ns", *behind_ns)
        .evidence("period_ns", steps.period_ns)
        .evidence("behind_ratio", cost)
        .flows(flows)
        .place(Place::link(input, name, None))
        .episodes(vec![Episode {
            first_ns: straggler.since_ns,
            last_ns: straggler.until_ns,
            peak: Some(cost),
        }])
        .into(found);
}

/// Hosts that send data.
fn sender_count(input: &Input<'_>) -> usize {
    let own = input.facts.flows.iter().filter(|flow| flow.payload_bytes > 0);
    let mut hosts: Vec<_> = own.map(|flow| flow.src).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

fn slower(input: &Input<'_>, steps: &Steps, found: &mut Vec<Finding>) {
    let limits = &input.limits.step;
    let ratio = steps.last_third_ns as f64 / steps.first_third_ns.max(1) as f64;
    let apart = steps.last_third_p25_ns > steps.first_third_p75_ns;
    if steps.count < limits.slower_steps || ratio < 1.0 + limits.slower_ratio || !apart {
        return;
    }
    let diagnosis = format!(
        "Step time grew {:.0} %: {} → {}",
        100.0 * (ratio - 1.0),
        units::duration(steps.first_third_ns),
        units::duration(steps.last_third_ns)
    );
    let parts = [format!(", {} steps", units::count(steps.count))];
    Raise::new(&SLOWER, Severity::Warning, title(diagnosis, parts))
        .evidence("steps", steps.count)
        .evidence("first_third_ns", steps.first_third_ns)
        .evidence("last_third_ns", steps.last_third_ns)
        .evidence("slower_ratio", ratio - 1.0)
        .evidence("trend_ns_per_step", steps.trend_ns_per_step)
        .evidence("busy_ratio", steps.busy_ratio)
        .place(Place::link(input, &steps.link, None))
        .step("Compare busy_ratio of the first and the latest steps: network or host?", None)
        .step("Compare both parts of the run: rocescope diff with --from and --to.", None)
        .last_seen(Some(steps.ending.last_data_ns))
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

    /// Nobody is blamed by name when only a neighbour is in sight.
    #[test]
    fn a_straggler_out_of_sight() {
        let report = with_steps(|steps| {
            if let Some(straggler) = &mut steps.straggler {
                (straggler.kind, straggler.host) = ("upstream", None);
            }
        });
        let finding = found_on(&report, "step.straggler").unwrap();
        assert!(finding.evidence["host"].is_null());
        assert!(finding.title.contains("upstream of"), "{}", finding.title);
    }

    #[test]
    fn longer_steps() {
        let thirds = |first, p75, last, p25, count| {
            with_steps(|steps| {
                (steps.first_third_ns, steps.first_third_p75_ns) = (first, p75);
                (steps.last_third_ns, steps.last_third_p25_ns) = (last, p25);
                steps.count = count;
            })
        };
        assert!(found_on(&thirds(100, 110, 120, 115, 12), "step.slower").is_some());
        for nearly in
            [thirds(100, 110, 114, 112, 30), thirds(100, 118, 120, 115, 30), thirds(100, 110, 120, 115, 11)]
        {
            assert_eq!(found_on(&nearly, "step.slower"), None);
        }
    }
}
