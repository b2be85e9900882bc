//! The verdict of a report, the same in its text, JSON and HTML.

use rocescope_common::wire::SkipReason;
use serde::Serialize;

use crate::analysis::{Facts, InputKind};
use crate::findings::{Finding, Grounds, Health, Verdict, order};
use crate::util::units::plural;

/// The conclusion from all findings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportVerdict {
    /// State of the traffic at the end of the data. Null: neither a RoCE packet nor an RDMA device was observed.
    pub health: Option<Health>,
    /// True: nothing is wrong, without reserve. False: a problem lasts, nothing was observed, or the traffic is healthy
    /// as far as the data shows: too few packets, none at the end, packets missing, loss or a stall that cannot be
    /// known, loss, timeouts or marks of retired flows, or 1 % retransmitted.
    pub good: bool,
    /// One sentence for people.
    pub sentence: String,
    /// `id` of the worst finding: the first of `findings` above info, but a critical one that has not ended before a
    /// warning, also where the warning shows now and so comes first. Null: there is none.
    pub worst: Option<&'static str>,
    /// Command to run next, on this host.
    pub next: String,
}

impl ReportVerdict {
    /// The verdict over the findings on these facts.
    pub(super) fn of(facts: &Facts, findings: &[Finding]) -> Self {
        let mut findings = findings.to_vec();
        order::sort(&mut findings, facts.window.last_ns);
        let (retransmitted, packets) = facts.retransmitted();
        let recorded = facts.source.kind == InputKind::Replay;
        let grounds = Grounds::of(facts);
        let verdict = Verdict::of(&findings, recorded).of_judged(&grounds).noting(retransmitted, packets);
        let verdict = verdict.with_basis(&grounds);
        let (health, good, sentence, worst) =
            (verdict.health, verdict.is_good(), verdict.sentence(), verdict.worst);
        let nothing = facts.totals.roce_packets == 0 && facts.devices.is_empty();
        let next =
            verdict.next_command().unwrap_or_else(|| next_when_healthy(&findings, nothing || !recorded));
        let worst = worst.map(|finding| finding.id);
        if worst.is_none() && nothing {
            let filtered = |(reason, n): &(SkipReason, u64)| (*reason == SkipReason::Filtered).then_some(*n);
            let sentence = match facts.totals.skipped.0.iter().find_map(filtered) {
                Some(packets) => {
                    format!("Unknown: none of {} matched --filter", plural(packets, "RoCE packet"))
                }
                None => "Unknown: no RoCE packet was observed".to_owned(),
            };
            return Self { health: None, good: false, sentence, worst, next };
        }
        Self { health: Some(health), good, sentence, worst, next }
    }
}

/// The command to run where nothing is wrong: the check of this host where it is the one that was looked at, or where
/// nothing was seen (`check`); else what the findings of the report, or of any, mean.
fn next_when_healthy(findings: &[Finding], check: bool) -> String {
    let info = findings.first().map(|one| format!("rocescope explain {}", one.id));
    if check { "rocescope doctor".to_owned() } else { info.unwrap_or_else(|| "rocescope explain".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::everything;
    use crate::analysis::{Flow, Retired};
    use crate::findings::Severity;
    use crate::report::{Options, Report};

    #[test]
    fn traffic_is_good_without_a_problem_and_without_reserve() {
        let mut facts = Report::build(&everything(), &Options::default()).facts;
        (facts.totals.roce_packets, facts.totals.retired) = (1_000_000, Retired::default());
        facts.flows.retain(Flow::would_show_loss);
        facts.flows.truncate(1);
        facts.flows[0].packets = 1_000_000;
        facts.flows[0].last_ns = facts.window.last_ns.unwrap();
        let problem = Finding::new("loss.upstream", Severity::Warning, "Loss".into());
        let of = |facts: &Facts, findings: &[Finding]| {
            let ReportVerdict { health, good, .. } = ReportVerdict::of(facts, findings);
            (health, good)
        };
        assert_eq!(of(&facts, &[]), (Some(Health::Healthy), true));
        assert_eq!(of(&facts, &[problem]), (Some(Health::Degraded), false));
        facts.totals.retired = Retired { flows: 1, ..Retired::default() };
        assert_eq!(of(&facts, &[]), (Some(Health::Healthy), false), "their loss is not known");
    }

    #[test]
    fn without_packets_nothing_is_known() {
        let mut facts = Report::build(&everything(), &Options::default()).facts;
        facts.totals.roce_packets = 0;
        facts.devices.clear();
        facts.totals.skipped.0.retain(|(reason, _)| *reason != SkipReason::Filtered);
        let none = ReportVerdict::of(&facts, &[]);
        assert_eq!((none.health, none.sentence.as_str()), (None, "Unknown: no RoCE packet was observed"));
        facts.totals.skipped.0.push((SkipReason::Filtered, 9_614));
        let none = ReportVerdict::of(&facts, &[]);
        assert_eq!(none.sentence, "Unknown: none of 9,614 RoCE packets matched --filter");
    }
}
