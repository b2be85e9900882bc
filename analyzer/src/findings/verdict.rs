//! The verdict over all findings: the headline of every view.

use super::{Finding, Severity, Step};
use crate::analysis::{Facts, Flow, InputKind, Retired};
use crate::util::definition::definitions;
use crate::util::numbers::share;
use crate::util::units::{self, plural};

definitions! {
    NOTED: f64 = 0.01,
        "Minimum share of retransmissions that the sentence of a healthy verdict mentions",
        "With a window of a hundred packets, a loss of one in ten thousand has this cost";
    MARKED: f64 = 0.01,
        "Minimum share of CE-marked packets of retired flows that it mentions as well",
        "As ecn.congestion_ratio: flows that are gone have no finding of their own";
    FEW: u64 = 500,
        "Maximum packets of a capture, exclusive, each counted once, that are too few for a healthy verdict without reserve",
        "At loss.critical_ratio, fewer packets have fewer loss episodes than loss.episodes";
    SILENT_NS: u64 = 10_000_000_000,
        "Minimum silence of all flows at the end of the data that the sentence mentions, in nanoseconds",
        "As the event IDLE: the pauses of a job between its steps are shorter, and one that hangs sends nothing any more";
}

/// Problems that a healthy verdict excludes.
const HEALTHY_SUMMARY: &str = "no loss, congestion or stall";

/// What follows them.
const THRESHOLDS: &str = " above the thresholds";

/// The same without loss, and why.
const WITHOUT_LOSS: &str = "no congestion or stall";
const LOSS_UNKNOWN: &str = "; loss unknown, no packet has a PSN sequence";

/// The same without stalls, and why; and without either.
const WITHOUT_STALL: &str = "no loss or congestion";
const STALL_UNKNOWN: &str = "; a silence of all traffic, or a clock that was set";
const WITHOUT_BOTH: &str = "no congestion";

/// Reason why it excludes no loss.
const LOSS_OR_REORDERING: &str = "; loss or reordering, indistinguishable here";

/// The finding that the capture misses packets.
const INCOMPLETE: &str = super::checks::capture::INCOMPLETE.id;

/// What a healthy verdict rests on, from the facts: it needs no flows any more.
#[derive(Clone, Debug)]
pub struct Grounds {
    roce_packets: u64,
    /// Packets of a capture that are too few; `None` where these are enough, or the source is none.
    few: Option<u64>,
    /// True if packets are in no flow.
    has_unlisted: bool,
    /// True if loss can be known of a flow; `None` without flows.
    is_loss_known: Option<bool>,
    /// Last packet of all flows.
    last_ns: Option<u64>,
    end_ns: Option<u64>,
    retired: Retired,
    /// Name of the marks of congestion.
    mark: &'static str,
}

impl Grounds {
    /// Those of the facts, with all of their flows.
    pub fn of(facts: &Facts) -> Self {
        let roce_packets = facts.totals.roce_packets;
        let packets = facts.totals.packets_once();
        let is_few = facts.source.kind == InputKind::Replay && packets < FEW;
        Self {
            roce_packets,
            few: is_few.then_some(packets),
            has_unlisted: facts.totals.lost.flow_table_full > 0,
            is_loss_known: (!facts.flows.is_empty()).then(|| facts.flows.iter().any(Flow::would_show_loss)),
            last_ns: facts.flows.iter().map(|flow| flow.last_ns).max(),
            end_ns: facts.window.last_ns,
            retired: facts.totals.retired,
            mark: facts.mark(),
        }
    }
}

/// Overall state of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// No warning.
    Healthy,
    /// Warnings that have all ended.
    Recovered,
    /// A warning is active.
    Degraded,
    /// A critical finding is active.
    Critical,
}

/// The verdict, the same in every view.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<'a> {
    /// Overall state.
    pub health: Health,
    /// The sentence without its state: what is wrong, or not.
    pub detail: String,
    /// Time of the state, for its sentence.
    at: &'static str,
    /// A healthy verdict with reserve: the data is too little, too old or incomplete, loss or a stall cannot be known,
    /// or more is retransmitted than healthy traffic does.
    is_reserved: bool,
    /// Retransmissions are part of the sentence.
    is_noted: bool,
    /// Problems that have ended. Unit: findings.
    pub ended: u64,
    /// End of the last problem where all have ended, Unix nanoseconds; `None` of any other state, and where unknown.
    pub healthy_since_ns: Option<u64>,
    /// The worst finding, of a report or a run: the first in the order of [`order`](super::order) that is as severe as
    /// `health`, also where it is quiet by now. `None` when there is none above info.
    pub worst: Option<&'a Finding>,
    /// What shows now, for a screen: the first in the order of [`order`](super::order). It is another one than `worst`
    /// only while a critical one that has not ended is quiet. `None` as `worst`.
    pub headline: Option<&'a Finding>,
}

impl<'a> Verdict<'a> {
    /// The verdict over findings in the order of [`order::sort`](super::order::sort). `recorded`: the end of a
    /// capture, not now.
    pub fn of(findings: &'a [Finding], recorded: bool) -> Self {
        let troubles = || findings.iter().filter(|one| one.is_primary());
        let count =
            |severity| troubles().filter(|one| one.stands() && one.severity == severity).count() as u64;
        let (critical, warnings) = (count(Severity::Critical), count(Severity::Warning));
        let ended = troubles().filter(|one| !one.active).count() as u64;
        let health = match (critical, warnings, ended) {
            (1.., ..) => Health::Critical,
            (0, 1.., _) => Health::Degraded,
            (0, 0, 1..) => Health::Recovered,
            (0, 0, 0) => Health::Healthy,
        };
        // What the capture misses may have been trouble.
        let is_incomplete = findings.iter().any(|one| one.id == INCOMPLETE);
        let may_stall = findings.iter().any(|one| one.subject.is_clock_unknown);
        // What has ended leaves a doubt about the run alone, not about what is healthy now.
        let in_doubt = |one: &&Finding| one.active || health == Health::Healthy;
        let may_lose = findings.iter().filter(in_doubt).any(|one| one.subject.is_lost_or_reordered);
        let (now, active) = if recorded { ("at the end of the capture", "") } else { ("now", "active ") };
        let in_words =
            [(critical, "critical problem"), (warnings, "warning")].into_iter().filter(|(n, _)| *n > 0);
        let in_words: Vec<String> = in_words.map(|(n, what)| plural(n, &format!("{active}{what}"))).collect();
        let owned = |one: &&Finding| one.active && one.is_problem() && one.owner.is_some();
        let owned = match findings.iter().filter(owned).count() as u64 {
            0 => String::new(),
            n => format!(" (and {})", plural(n, "consequence")),
        };
        let at = match health {
            Health::Healthy if is_incomplete => "as far as the capture shows",
            Health::Recovered => now,
            Health::Degraded | Health::Critical if recorded => now,
            _ => "",
        };
        let detail = match health {
            Health::Healthy => {
                let (summary, unknown) = match (may_lose, may_stall) {
                    (false, false) => (HEALTHY_SUMMARY, ["", ""]),
                    (false, true) => (WITHOUT_STALL, [STALL_UNKNOWN, ""]),
                    (true, false) => (WITHOUT_LOSS, [LOSS_OR_REORDERING, ""]),
                    (true, true) => (WITHOUT_BOTH, [LOSS_OR_REORDERING, STALL_UNKNOWN]),
                };
                format!("{summary}{THRESHOLDS}{}", unknown.concat())
            }
            Health::Recovered => format!("{} ended", plural(ended, "problem")),
            Health::Degraded | Health::Critical => format!("{}{owned}", in_words.join(", ")),
        };
        let headline = troubles().next();
        let is_critical = |one: &&Finding| one.stands() && one.severity == Severity::Critical;
        let worst = troubles().find(is_critical).or(headline);
        let is_reserved =
            (is_incomplete || may_stall || may_lose) && matches!(health, Health::Healthy | Health::Recovered);
        let ends = findings.iter().filter(|one| one.is_problem()).filter_map(|one| one.last_seen_ns);
        let healthy_since_ns = ends.max().filter(|_| health == Health::Recovered);
        Self { health, detail, at, is_reserved, is_noted: false, ended, healthy_since_ns, worst, headline }
    }

    /// True if nothing is wrong, without reserve: only then a view calls the traffic healthy.
    pub const fn is_good(&self) -> bool {
        matches!(self.health, Health::Healthy | Health::Recovered) && !self.is_reserved
    }

    /// One sentence, without the title of the worst finding.
    pub fn sentence(&self) -> String {
        let state = match self.health {
            Health::Healthy if self.is_noted => "No warning",
            Health::Healthy | Health::Recovered => "Healthy",
            Health::Degraded => "Degraded",
            Health::Critical => "Critical",
        };
        let at = if self.at.is_empty() { String::new() } else { format!(" {}", self.at) };
        format!("{state}{at}: {}", self.detail)
    }

    /// Adds retransmissions to the sentence if nothing else is wrong and they are more than isolated: even below the
    /// thresholds they have a cost, so that nobody calls the traffic healthy.
    #[must_use]
    pub fn noting(self, retransmitted: u64, packets: u64) -> Self {
        let ratio = share(retransmitted, packets);
        if self.health != Health::Healthy || ratio < NOTED {
            return self;
        }
        let detail = format!("{} retransmitted, but {}", units::ratio(Some(ratio)), self.detail);
        Self { detail, is_reserved: true, is_noted: true, ..self }
    }

    /// [`Self::detail`] in at most this number of characters, where it can be shortened.
    pub fn detail_in(&self, most: usize) -> String {
        let of = |summary: &str, rest: &str, kept: &str| {
            let before = self.detail.strip_suffix(rest)?.strip_suffix(THRESHOLDS)?.strip_suffix(summary)?;
            Some(format!("{before}nothing{THRESHOLDS}{kept}"))
        };
        let without_reason = LOSS_UNKNOWN.split(',').next().unwrap_or(LOSS_UNKNOWN);
        let shorter = || {
            of(HEALTHY_SUMMARY, "", "")
                .or_else(|| of(WITHOUT_STALL, STALL_UNKNOWN, STALL_UNKNOWN))
                .or_else(|| of(WITHOUT_LOSS, LOSS_UNKNOWN, without_reason))
                .or_else(|| of(WITHOUT_LOSS, LOSS_OR_REORDERING, LOSS_OR_REORDERING))
        };
        let shorter = (self.detail.chars().count() > most).then(shorter).flatten();
        shorter.unwrap_or_else(|| self.detail.clone())
    }

    /// Restricts a healthy verdict to what was judged: not flows that were retired during the run, whose figures of
    /// loss are sums alone, nor loss where no packet has a PSN sequence.
    #[must_use]
    pub fn of_judged(mut self, grounds: &Grounds) -> Self {
        if self.health != Health::Healthy {
            return self;
        }
        let retired = &grounds.retired;
        if grounds.is_loss_known == Some(false) {
            let without = self.detail.replacen(HEALTHY_SUMMARY, WITHOUT_LOSS, 1);
            self.detail = without.replacen(WITHOUT_STALL, WITHOUT_BOTH, 1) + LOSS_UNKNOWN;
            self.is_reserved = true;
        }
        if retired.flows > 0 {
            let flows = plural(retired.flows, "retired flow");
            let lost = match (retired.lost, retired.timeouts) {
                (Some(0), Some(0)) => format!("no loss upstream in {flows}"),
                (Some(0), Some(timeouts)) => format!("{} in {flows}", plural(timeouts, "timeout")),
                (Some(lost), _) => format!("{} lost in {flows}", plural(lost, "packet")),
                (None, _) => format!("loss unknown of {flows}"),
            };
            let marked = retired.ecn_data.ce_ratio().filter(|ratio| *ratio >= MARKED);
            // Nothing else judges them.
            self.is_reserved |=
                marked.is_some() || retired.lost != Some(0) || retired.timeouts.is_some_and(|n| n > 0);
            let marked = marked.map_or_else(String::new, |ratio| {
                format!(", their {} ratio {}", grounds.mark, units::ratio(Some(ratio)))
            });
            let listed = format!("{THRESHOLDS} in the flows of the table");
            self.detail = format!("{}; {lost}{marked}", self.detail.replacen(THRESHOLDS, &listed, 1));
        }
        self
    }

    /// Says of a healthy verdict how little it rests on: few packets of a capture, or none at the end of the data.
    #[must_use]
    pub fn with_basis(self, grounds: &Grounds) -> Self {
        if self.health != Health::Healthy || grounds.roce_packets == 0 {
            return self;
        }
        let few = grounds.few.map(|packets| format!("only {}", plural(packets, "packet")));
        let silence = grounds.last_ns.zip(grounds.end_ns).map(|(last, end)| (last, end.saturating_sub(last)));
        // What is in no flow has no time.
        let silence = silence.filter(|(_, ns)| *ns >= SILENT_NS && !grounds.has_unlisted);
        let silent = silence.map(|(last_ns, ns)| {
            let what = if few.is_some() { "none" } else { "no packet" };
            format!("{what} in the last {} (since {} UTC)", units::duration(ns), units::second_utc(last_ns))
        });
        // Retired flows have no time: they were silent for as long as `--idle` says.
        let idle = grounds.is_loss_known.is_none() && grounds.retired.flows > 0;
        let silent = silent.or_else(|| idle.then(|| "all flows idle and retired".to_owned()));
        let basis = [few, silent].into_iter().flatten().collect::<Vec<_>>().join(", ");
        if basis.is_empty() {
            return self;
        }
        let detail = format!("{basis}; {}", self.detail);
        Self { detail, at: "as far as the packets show", is_reserved: true, ..self }
    }

    /// The next command to run on this host: the first step with a command of the worst finding, else `explain`.
    pub fn next_command(&self) -> Option<String> {
        let worst = self.worst?;
        Some(self.command_here().map_or_else(|| format!("rocescope explain {}", worst.id), Into::into))
    }

    /// The steps against the worst finding, where none has a command for this host; empty where one has.
    pub fn steps_elsewhere(&self) -> &'a [Step] {
        self.worst.filter(|_| self.command_here().is_none()).map_or(&[], |worst| &worst.steps)
    }

    /// The first command for this host among the steps against the worst finding.
    fn command_here(&self) -> Option<&'a str> {
        let here = self.worst?.steps.iter().filter(|step| step.host.is_none());
        here.into_iter().find_map(|step| step.command.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::SequencePsns;
    use crate::findings::order;

    fn finding(severity: Severity, active: bool) -> Finding {
        Finding { active, ..Finding::new("loss.before_tap", severity, "Loss".into()) }
    }

    #[test]
    fn the_worst_active_finding_decides() {
        let none = Verdict::of(&[], false);
        assert_eq!((none.health, none.worst, none.next_command()), (Health::Healthy, None, None));
        let info = [finding(Severity::Info, true)];
        assert_eq!(Verdict::of(&info, false).health, Health::Healthy);
        let ended = [finding(Severity::Critical, false), finding(Severity::Info, true)];
        assert_eq!(Verdict::of(&ended, false).health, Health::Recovered);
        let all = [finding(Severity::Critical, true), finding(Severity::Warning, true)];
        let verdict = Verdict::of(&all, false);
        assert_eq!(verdict.health, Health::Critical);
        assert_eq!(verdict.sentence(), "Critical: 1 active critical problem, 1 active warning");
        assert_eq!(Verdict::of(&all[1..], false).sentence(), "Degraded: 1 active warning");
        assert_eq!(Verdict::of(&all[1..], true).sentence(), "Degraded at the end of the capture: 1 warning");
        assert_eq!(
            Verdict::of(&ended, true).sentence(),
            "Healthy at the end of the capture: 1 problem ended"
        );
        let owned = Finding { owner: Some("burst.incast"), ..finding(Severity::Warning, true) };
        assert_eq!(
            Verdict::of(&[all[1].clone(), owned], false).sentence(),
            "Degraded: 1 active warning (and 1 consequence)"
        );
    }

    /// A critical one that is quiet makes the traffic critical, though another one shows now.
    #[test]
    fn the_worst_finding_is_as_severe_as_the_verdict() {
        const END: u64 = 1_000_000_000_000;
        let seen = |severity, quiet_ns: u64| Finding {
            last_seen_ns: Some(END - quiet_ns),
            active: quiet_ns < order::OVER_NS,
            ..Finding::new("loss.before_tap", severity, "Loss".into())
        };
        let of = |quiet_ns| {
            let mut all = [seen(Severity::Warning, 0), seen(Severity::Critical, quiet_ns)];
            order::sort(&mut all, Some(END));
            let verdict = Verdict::of(&all, false);
            (verdict.health, [verdict.worst, verdict.headline].map(|one| one.unwrap().severity))
        };
        let (warning, critical) = (Severity::Warning, Severity::Critical);
        assert_eq!(of(order::QUIET_NS - 1), (Health::Critical, [critical, critical]), "shows now");
        assert_eq!(of(order::QUIET_NS + 1), (Health::Critical, [critical, warning]), "quiet");
        assert_eq!(of(order::OVER_NS), (Health::Degraded, [warning, warning]), "ended");
    }

    #[test]
    fn a_healthy_verdict_gets_shorter_where_there_is_no_room() {
        let verdict = Verdict::of(&[], false).noting(77, 1_000);
        assert_eq!(verdict.detail_in(80), verdict.detail);
        assert_eq!(verdict.detail_in(40), "7.70 % retransmitted, but nothing above the thresholds");
        let all = [finding(Severity::Warning, true)];
        assert_eq!(Verdict::of(&all, false).detail_in(3), "1 active warning");
    }

    /// Packets that passed twice after their gap: lost, or reordered.
    #[test]
    fn what_may_be_a_loss_is_not_healthy() {
        let mut gaps = finding(Severity::Info, true);
        gaps.subject.is_lost_or_reordered = true;
        let mut all = [gaps, finding(Severity::Info, true)];
        let sentence = |all: &[Finding]| {
            let verdict = Verdict::of(all, true);
            assert!(!verdict.is_good());
            (verdict.sentence(), verdict.noting(9, 100).detail_in(99))
        };
        let either = "loss or reordering, indistinguishable here";
        assert_eq!(
            sentence(&all),
            (
                format!("Healthy: no congestion or stall above the thresholds; {either}"),
                format!("9.00 % retransmitted, but nothing above the thresholds; {either}")
            )
        );
        all[1].subject.is_clock_unknown = true;
        let both = format!("no congestion above the thresholds; {either}{STALL_UNKNOWN}");
        assert_eq!(Verdict::of(&all, true).detail, both);
    }

    /// A silence of every frame at the only tap: a stall, or a clock that was set. One that was set is none.
    #[test]
    fn what_may_be_a_stall_is_not_healthy() {
        use crate::analysis::{Options, fixtures::everything};
        let mut silence = finding(Severity::Info, true);
        assert!(Verdict::of(std::slice::from_ref(&silence), true).is_good());
        silence.subject.is_clock_unknown = true;
        let all = [silence];
        let verdict = Verdict::of(&all, true);
        let unknown = "a silence of all traffic, or a clock that was set";
        assert_eq!(
            (verdict.health, verdict.is_good(), verdict.sentence()),
            (
                Health::Healthy,
                false,
                format!("Healthy: no loss or congestion above the thresholds; {unknown}")
            )
        );
        assert_eq!(verdict.detail_in(60), format!("nothing above the thresholds; {unknown}"));
        let mut facts = Facts::of(&everything(), &Options::default());
        facts.totals.retired = Retired { flows: 7, lost: Some(0), timeouts: Some(0), ..Retired::default() };
        for flow in &mut facts.flows {
            (flow.psn, flow.psn_responses) = (SequencePsns::Unseen, None);
            (flow.loss, flow.loss_responses) = (None.into(), None.into());
        }
        assert_eq!(
            verdict.of_judged(&Grounds::of(&facts)).detail,
            format!(
                "no congestion above the thresholds in the flows of the table; {unknown}{LOSS_UNKNOWN}; no loss upstream in 7 retired flows"
            )
        );
        let [silence] = all;
        let ended = [silence.clone(), finding(Severity::Warning, false)];
        let verdict = Verdict::of(&ended, true);
        assert_eq!((verdict.health, verdict.is_good()), (Health::Recovered, false));
        let goes_on = [silence, finding(Severity::Warning, true)];
        assert_eq!(Verdict::of(&goes_on, false).sentence(), "Degraded: 1 active warning");
    }

    #[test]
    fn retransmissions_below_the_thresholds_are_no_silence() {
        let sentence =
            |all: &[Finding], retransmitted| Verdict::of(all, false).noting(retransmitted, 1_000).sentence();
        assert_eq!(
            sentence(&[], 77),
            "No warning: 7.70 % retransmitted, but no loss, congestion or stall above the thresholds"
        );
        assert!(!Verdict::of(&[], false).noting(77, 1_000).is_good(), "no green badge beside it");
        assert!(Verdict::of(&[], false).noting(9, 1_000).is_good());
        let ended = [finding(Severity::Critical, false)];
        assert!(
            Verdict::of(&ended, false).is_good()
                && !Verdict::of(&[finding(Severity::Warning, true)], false).is_good()
        );
        assert_eq!(sentence(&[], 9), "Healthy: no loss, congestion or stall above the thresholds");
        assert_eq!(sentence(&[finding(Severity::Warning, true)], 77), "Degraded: 1 active warning");
    }

    #[test]
    fn what_was_not_evaluated_is_not_healthy() {
        use crate::analysis::{Ecn, Options, Retired, fixtures::everything};
        let mut facts = Facts::of(&everything(), &Options::default());
        let sentence = |all: &[Finding], facts: &Facts| {
            Verdict::of(all, false).of_judged(&Grounds::of(facts)).sentence()
        };
        let of_fixture = facts.totals.retired.ecn_data;
        facts.totals.retired = Retired::default();
        assert_eq!(sentence(&[], &facts), "Healthy: no loss, congestion or stall above the thresholds");
        facts.totals.retired = Retired { flows: 7, ecn_data: of_fixture, ..Retired::default() };
        assert_eq!(
            sentence(&[], &facts),
            "Healthy: no loss, congestion or stall above the thresholds in the flows of the table; loss unknown of 7 retired flows, their CE ratio 10.0 %"
        );
        let is_good = |facts: &Facts| Verdict::of(&[], false).of_judged(&Grounds::of(facts)).is_good();
        assert!(!is_good(&facts));
        assert_eq!(sentence(&[finding(Severity::Warning, true)], &facts), "Degraded: 1 active warning");
        facts.totals.retired = Retired { lost: Some(454), timeouts: Some(3), ..facts.totals.retired };
        assert!(
            sentence(&[], &facts).contains("in the flows of the table; 454 packets lost in 7 retired flows")
        );
        facts.totals.retired.ecn_data = Ecn { ect0: 949, ce: 51, ..Ecn::default() };
        assert!(sentence(&[], &facts).ends_with("in 7 retired flows, their CE ratio 5.10 %"));
        facts.totals.retired.ecn_data = Ecn { ect0: 999, ce: 1, ..Ecn::default() };
        assert!(sentence(&[], &facts).ends_with("454 packets lost in 7 retired flows"));
        assert!(!is_good(&facts));
        facts.totals.retired = Retired { lost: Some(0), timeouts: Some(0), ..facts.totals.retired };
        assert!(sentence(&[], &facts).ends_with("no loss upstream in 7 retired flows"));
        assert!(is_good(&facts));
        facts.totals.retired = Retired::default();
        for flow in &mut facts.flows {
            (flow.psn, flow.psn_responses) = (SequencePsns::Unseen, None);
            (flow.loss, flow.loss_responses) = (None.into(), None.into());
        }
        assert_eq!(
            sentence(&[], &facts),
            "Healthy: no congestion or stall above the thresholds; loss unknown, no packet has a PSN sequence"
        );
        let verdict = Verdict::of(&[], false).of_judged(&Grounds::of(&facts));
        assert_eq!(verdict.detail_in(60), "nothing above the thresholds; loss unknown");
        assert!(!is_good(&facts));
        let incomplete = [Finding::new(INCOMPLETE, Severity::Info, "Incomplete".into())];
        assert!(!Verdict::of(&incomplete, false).is_good());
        let ended = [&incomplete[..], &[finding(Severity::Warning, false)]].concat();
        assert!(!Verdict::of(&ended, false).is_good());
        assert_eq!(
            Verdict::of(&incomplete, false).noting(77, 1_000).sentence(),
            "No warning as far as the capture shows: 7.70 % retransmitted, but no loss, congestion or stall above the thresholds"
        );
    }

    /// 184 packets, the last 26 s before the end: a job that hangs.
    #[test]
    fn a_capture_of_few_packets_or_a_silent_end_is_healthy_with_reserve() {
        use crate::analysis::{MultiTapCounts, Options, fixtures::everything};
        use crate::metrics::duplicates::DuplicateCounts;
        let mut facts = Facts::of(&everything(), &Options::default());
        facts.source.kind = InputKind::Replay;
        facts.totals.lost.flow_table_full = 0;
        (facts.totals.counted_again, facts.totals.duplicates) = (MultiTapCounts::default(), None);
        let last_ns = facts.flows.iter().map(|flow| flow.last_ns).max().unwrap();
        let mut of = |packets: u64, silent_ns: u64| {
            facts.totals.roce_packets = packets;
            facts.window.last_ns = Some(last_ns + silent_ns);
            let verdict = Verdict::of(&[], true).with_basis(&Grounds::of(&facts));
            (verdict.is_good(), verdict.sentence())
        };
        let since = units::second_utc(last_ns);
        let fine = "no loss, congestion or stall above the thresholds";
        assert_eq!(of(FEW, SILENT_NS - 1), (true, format!("Healthy: {fine}")));
        let reserved = "Healthy as far as the packets show";
        assert_eq!(
            of(184, 2 * SILENT_NS),
            (
                false,
                format!("{reserved}: only 184 packets, none in the last 20.0 s (since {since} UTC); {fine}")
            )
        );
        assert_eq!(
            of(FEW, SILENT_NS),
            (false, format!("{reserved}: no packet in the last 10.0 s (since {since} UTC); {fine}"))
        );
        assert_eq!(of(FEW - 1, 0), (false, format!("{reserved}: only 499 packets; {fine}")));
        // Three taps and a mirror count each of 200 packets four times.
        let again = MultiTapCounts { taps: 3, roce_packets: Some(400), ..MultiTapCounts::default() };
        let twice = Some(Box::new(DuplicateCounts { packets: 200, ..DuplicateCounts::default() }));
        (facts.totals.counted_again, facts.totals.duplicates) = (again, twice);
        facts.totals.roce_packets = 800;
        facts.window.last_ns = Some(last_ns);
        let sentence = |facts: &Facts| Verdict::of(&[], true).with_basis(&Grounds::of(facts)).sentence();
        assert_eq!(sentence(&facts), format!("{reserved}: only 200 packets; {fine}"));
        facts.totals.counted_again.roce_packets = None;
        assert_eq!(sentence(&facts), format!("Healthy: {fine}"), "how many are the same is not known");
        let all = [finding(Severity::Warning, true)];
        let verdict = Verdict::of(&all, true).with_basis(&Grounds::of(&facts));
        assert_eq!(verdict.sentence(), Verdict::of(&all, true).sentence());
    }

    #[test]
    fn the_next_command_is_the_first_step_that_has_one() {
        let mut all = [finding(Severity::Warning, true)];
        assert_eq!(
            Verdict::of(&all, false).next_command().as_deref(),
            Some("rocescope explain loss.before_tap")
        );
        let step = |command: Option<&str>| Step {
            text: "Look.".into(),
            command: command.map(Into::into),
            ..Step::default()
        };
        let there = Step { host: Some([10, 0, 0, 2].into()), ..step(Some("ethtool -S DEV")) };
        all[0].steps = vec![step(None), there];
        let verdict = Verdict::of(&all, false);
        assert_eq!(verdict.next_command().as_deref(), Some("rocescope explain loss.before_tap"));
        assert_eq!(verdict.steps_elsewhere(), all[0].steps);
        all[0].steps.push(step(Some("ethtool -S eth0")));
        let verdict = Verdict::of(&all, false);
        assert_eq!(
            (verdict.next_command().as_deref(), verdict.steps_elsewhere().len()),
            (Some("ethtool -S eth0"), 0)
        );
    }
}
