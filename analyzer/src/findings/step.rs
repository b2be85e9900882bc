//! Steps of a job: whom they wait for, and whether they become longer.

use super::{Entry, Family, Input, Measure, Need, Raise};
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
    title: "Each step waits for the same host",
    meaning: "A step of a collective ends when the slowest of its hosts is done. One host comes late to the step, pauses in it, or its transfers take much longer than those of the others; all others wait.",
    computed: "From steps.straggler: the silences of a link within its steps, and who ends them. A host that had sent nothing in the step before starts late; a transfer is slow when it takes three times as long as another of \
               its size. It must cost straggler_ratio of the median step or more, in at least 5 steps and two of three of a stretch. A warning when other steps of the run go without \
               it, or when more than two hosts are seen to send and no other is named; else info, for a stage of a pipeline starts late by its nature. Where hosts are late in turn, one must be so more often in a row than chance makes it. When only the host before is in sight, the finding says so and names no culprit. Only traffic that \
               is plainly a job's has steps (see steps.link in the report's fields).",
    advice: "Look at that host first, not at the network: GPU clocks and throttling (nvidia-smi -q -d PERFORMANCE), ECC and Xid errors (dmesg), CPU and NUMA placement of its process, storage or data loader, other jobs on it. For slow_transfer look \
             at its link: speed and lanes (ethtool, lspci -vv), CE marks, PFC pauses, losses on the way to the receiver. NCCL_DEBUG=INFO and the job's own timings confirm it.",
    caveat: "Hosts that send nothing where packets are captured cannot be named: capture at several hosts, or at a switch. A host that computes longer in every step from the start looks like a stage of a pipeline.",
    ..Entry::EMPTY
};
const SLOWER: Entry = Entry {
    id: "step.slower",
    rank: 390,
    causes: &["loss.before_tap", "loss.after_tap", "ecn.congestion"],
    needs: &[Need::Traffic],
    measure: Some(Measure::ratio("slower_ratio")),
    title: "The steps of the job become longer",
    meaning: "The job does the same amount of communication per step, but a step takes longer at the end of the run than at its start.",
    computed: "Raised as a warning when there are at least slower_steps steps, the median period of the last third is at least 1 + slower_ratio times that of the first third, and three of four periods of \
               the last third are longer than three of four of the first.",
    advice: "Compare the share of each step in which the network was busy (steps.latest: busy_ns, busy_ratio): when it did not grow, the time goes into computing or waiting: see step.straggler, GPU clocks, the data loader. When it grew, look for CE \
             marks, losses and pauses since then; `rocescope diff` of two parts of the run (--from, --to) shows what changed.",
    caveat: "Longer sequences, evaluation or checkpoints lengthen steps as well.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "step";
    straggler_ratio: f64 = 0.15,
        "share of the median step that the straggler costs, at least",
        "Hosts of a healthy ring start one after the other by up to a tenth of a step; below a sixth it is hardly worth a night";
    slower_ratio: f64 = 0.15,
        "by how much the last third of the periods is longer than the first, at least",
        "Steps of a healthy job differ by a few per cent from one part of a run to another, single steps by much more";
    slower_steps: u64 = 12,
        "steps that there must be",
        "Four in each third: fewer are no trend";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(steps) = &input.facts.steps else { return };
    if let Some(straggler) = &steps.straggler {
        named(input, steps, straggler, found);
    }
    slower(input, steps, found);
}

fn named(input: &Input<'_>, steps: &Steps, straggler: &StepStraggler, found: &mut Vec<Finding>) {
    let cost = straggler.behind_ns as f64 / steps.period_ns.max(1) as f64;
    if cost < input.limits.step.straggler_ratio {
        return;
    }
    let StepStraggler { waits_for, behind_ns, .. } = straggler;
    let time = units::duration(*behind_ns);
    let what = match straggler.kind {
        "starts_late" => format!("{waits_for} starts {time} after the others"),
        "slow_transfer" => {
            format!("data from {waits_for} to {} takes {time} longer than the rest", straggler.dst)
        }
        "pauses" => format!("all wait {time} while {waits_for} pauses"),
        _ => format!(
            "all wait {time} for data from {waits_for}, or from a host that it waits for and that is not in sight here"
        ),
    };
    let when = units::span_utc(straggler.since_ns, straggler.until_ns);
    let title = format!("In {} of {} steps {when}, {what}", straggler.steps, straggler.of_steps);
    let severity = if straggler.changed || straggler.alone && sender_count(input) > 2 {
        Severity::Warning
    } else {
        Severity::Info
    };
    let flows = input.facts.flows.iter().filter(|flow| {
        flow.src == *waits_for && flow.payload_bytes > 0 && ports::is_of(&flow.link, &straggler.link)
    });
    Raise::new(&STRAGGLER, severity, title)
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
        .last_seen(Some(straggler.until_ns))
        .flows(flows)
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
    let title = format!(
        "Steps take {:.0} % longer than at the start: {} in the last third, {} in the first, of {} steps {}",
        100.0 * (ratio - 1.0),
        units::duration(steps.last_third_ns),
        units::duration(steps.first_third_ns),
        units::count(steps.count),
        units::span_utc(steps.first_ns, steps.last_ns)
    );
    Raise::new(&SLOWER, Severity::Warning, title)
        .evidence("steps", steps.count)
        .evidence("first_third_ns", steps.first_third_ns)
        .evidence("last_third_ns", steps.last_third_ns)
        .evidence("slower_ratio", ratio - 1.0)
        .evidence("trend_ns_per_step", steps.trend_ns_per_step)
        .evidence("busy_ratio", steps.busy_ratio)
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
        assert!(finding.title.contains("10.0.0.3 starts 40"), "{}", finding.title);
        assert_eq!(finding.evidence["behind_ratio"], 0.4);
        let when = "In 12 of 12 steps from 00:00:00.000 to 00:00:01.200 UTC, ";
        assert!(finding.title.starts_with(when), "{}", finding.title);
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
        assert!(finding.title.contains("not in sight"), "{}", finding.title);
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
