//! The state of a row: the findings that name its flow. Findings decide; this module only looks them up.

use rocescope_common::account::FlowKey;
use rocescope_common::wire::frame::Addr;

use super::Row;
use super::level::Level;
use super::signals::About;
use crate::analysis::FlowId;
use crate::findings::{Finding, Problem};
use crate::sample::{Address, address};
use crate::util::map::Map;

const fn bit(kind: Problem) -> u32 {
    1 << kind as u8
}

/// In place of a flow's number in a finding that names it, but does not list it.
const UNLISTED: u8 = u8::MAX;

/// The findings that name one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowVerdict {
    /// True if findings were evaluated at all.
    pub known: bool,
    /// Kind and severity of the first active finding in the order of the report, else of the first past one.
    pub worst: Option<(Problem, Level)>,
    /// True if that finding is active.
    pub active: bool,
    /// Kinds of all findings that name the flow, active and past, as bits.
    kinds: u32,
    /// Kinds of the active findings of each level above [`Level::Fine`], as bits.
    active_kinds: [u32; 2],
    /// Number of findings before the worst in the report.
    place: u16,
    /// Number of flows that the worst finding lists before this one, the most affected first; [`UNLISTED`] if it does
    /// not list this one.
    behind: u8,
}

impl FlowVerdict {
    /// Levels of [`Self::active_kinds`].
    const LEVELS: [Level; 2] = [Level::Warning, Level::Critical];

    /// Findings were evaluated and none names the flow.
    pub const FINE: Self =
        Self { known: true, worst: None, active: false, kinds: 0, active_kinds: [0; 2], place: 0, behind: 0 };

    /// Adds the finding at this place of the report, after those before it, and the flow's place in the finding.
    fn add(&mut self, (kind, level): (Problem, Level), active: bool, (place, behind): (usize, u8)) {
        self.kinds |= bit(kind);
        if let Some(kinds) = Self::LEVELS.iter().position(|one| *one == level).filter(|_| active) {
            self.active_kinds[kinds] |= bit(kind);
        }
        // The order has active findings first.
        if self.worst.is_none() {
            (self.worst, self.active) = (Some((kind, level)), active);
            self.place = u16::try_from(place).unwrap_or(u16::MAX);
            self.behind = behind;
        }
    }

    /// Severity of the worst finding.
    #[must_use]
    pub fn level(&self) -> Level {
        self.worst.map_or(Level::Fine, |(_, level)| level)
    }

    /// Severity of the worst active finding of these kinds: the level of a counter that they are
    /// [about](super::signals::About).
    #[must_use]
    pub fn level_of(&self, about: About) -> Level {
        let bits = about.iter().fold(0, |bits, kind| bits | bit(*kind));
        let mut levels = Self::LEVELS.iter().zip(self.active_kinds).rev();
        levels.find(|(_, kinds)| kinds & bits != 0).map_or(Level::Fine, |(level, _)| *level)
    }

    /// Sorts by the place of the worst finding in the report, then by the flow's place in that finding: larger is
    /// worse; 0 without a finding. What a view calls the worst of several flows is the one that the finding lists
    /// first.
    pub fn rank(&self) -> u32 {
        let worse = |place: u16, behind: u8| u32::from(u16::MAX - place) << 8 | u32::from(u8::MAX - behind);
        self.worst.map_or(0, |_| 1 + worse(self.place, self.behind))
    }

    /// True if the worst finding lists the flow among the most affected ones.
    pub const fn is_listed(&self) -> bool {
        self.worst.is_some() && self.behind != UNLISTED
    }

    /// True if the first finding of the report names the flow and is active: the one that headlines name.
    pub const fn is_headline(&self) -> bool {
        self.worst.is_some() && self.active && self.place == 0
    }

    /// The state of two rows together: the worse of both, with the kinds of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let worse = if other.rank() > self.rank() { other } else { self };
        Self {
            kinds: self.kinds | other.kinds,
            active_kinds: [0, 1].map(|at| self.active_kinds[at] | other.active_kinds[at]),
            known: self.known || other.known,
            ..worse
        }
    }
}

/// The state of one row: its findings, and whether it carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Problem of the worst finding that names the row's flow.
    pub worst: Option<Problem>,
    /// True if findings of other kinds name it too.
    pub more: bool,
    /// True if the worst finding is active.
    pub present: bool,
    /// True if packets were counted in the time range; `None` if unknown.
    pub active: Option<bool>,
    judged: FlowVerdict,
}

impl State {
    /// The state of `row`. A flow that carries nothing any more, and whose findings have ended, is idle: what was wrong
    /// is no state of it, unless that is why it carries nothing.
    pub fn of(row: &Row) -> Self {
        let judged = row.judged;
        let active = row.delta.as_ref().map(|d| d.counts.packets > 0);
        let gone = active == Some(false) && !judged.active;
        let worst = judged.worst.map(|(kind, _)| kind).filter(|kind| !gone || *kind == Problem::Silent);
        let more = worst.is_some() && judged.kinds.count_ones() > 1;
        Self { worst, more, present: judged.active, active, judged }
    }

    /// Severity of the worst finding.
    #[must_use]
    pub fn level(&self) -> Level {
        self.worst.map_or(Level::Fine, |_| self.judged.level())
    }

    /// Severity of the worst active finding of these kinds that names the row's flow.
    #[must_use]
    pub fn level_of(&self, about: About) -> Level {
        self.judged.level_of(about)
    }

    /// True if findings were evaluated: before that the state is unknown.
    pub const fn known(&self) -> bool {
        self.judged.known
    }

    /// True if a finding of this kind, active or past, names the row's flow.
    pub const fn has(&self, kind: Problem) -> bool {
        self.judged.kinds & bit(kind) != 0
    }

    /// Sorts as [`FlowVerdict::rank`].
    pub fn rank(&self) -> u32 {
        self.worst.map_or(0, |_| self.judged.rank())
    }
}

/// A flow regardless of link: findings name the link that saw it first.
type Name = (u8, Addr, Addr, u32);

/// Findings by flow. Findings of severity info do not count.
#[derive(Clone, Debug, Default)]
pub struct FlowVerdicts(Map<Name, FlowVerdict>);

impl FlowVerdicts {
    /// The index of `findings`, which are in the order of the report.
    pub fn of(findings: &[Finding]) -> Self {
        let mut all = Self::default();
        let problems = findings.iter().enumerate();
        for (place, finding) in problems.filter(|(_, finding)| finding.is_problem()) {
            let Some(kind) = Problem::of(finding) else { continue };
            let listed = |name: &(Address, Address, u32)| {
                let is = |flow: &FlowId| (flow.src, flow.dst, flow.dest_qp) == *name;
                finding.flows.iter().position(is).and_then(|at| u8::try_from(at).ok()).unwrap_or(UNLISTED)
            };
            for named in finding.named.iter() {
                let (src, dst, dest_qp) = *named;
                let (family, src) = src.words();
                let name = (family, src, dst.words().1, dest_qp);
                let judged = all.0.entry(name).or_insert(FlowVerdict::FINE);
                let places = (place, listed(named));
                judged.add((kind, finding.severity.into()), finding.active, places);
            }
        }
        all
    }

    /// The findings that name a flow.
    pub fn get(&self, key: &FlowKey) -> FlowVerdict {
        if self.0.is_empty() {
            return FlowVerdict::FINE;
        }
        let name = (key.family, key.src, key.dst, key.dest_qp);
        self.0.get(&name).copied().unwrap_or(FlowVerdict::FINE)
    }

    /// The flows that findings name, with source and destination.
    pub fn flows(&self) -> impl Iterator<Item = (Address, Address, FlowVerdict)> {
        self.0
            .iter()
            .map(|((family, src, dst, _), judged)| (address(*family, *src), address(*family, *dst), *judged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;

    #[test]
    fn the_worst_active_finding_is_the_state_of_a_flow() {
        let flow = |qp: u32| -> (Address, Address, u32) {
            ("10.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap(), qp)
        };
        let finding = |id, severity, active, qps: &[u32]| {
            let named = qps.iter().map(|qp| flow(*qp)).collect();
            Finding { named, active, ..Finding::new(id, severity, String::new()) }
        };
        let verdicts = FlowVerdicts::of(&[
            finding("loss.before_tap", Severity::Critical, true, &[1]),
            finding("ecn.congestion", Severity::Warning, true, &[1, 2]),
            finding("rnr.slow_receiver", Severity::Warning, false, &[2, 3]),
            finding("mtu.small", Severity::Info, true, &[4]),
        ]);
        let (family, src) = "10.0.0.1".parse::<Address>().unwrap().words();
        let dst = "2001:db8::1".parse::<Address>().unwrap().words().1;
        let get = |dest_qp| verdicts.get(&FlowKey { src, dst, dest_qp, family, link: 7, pad: 0 });
        assert_eq!(get(1).worst, Some((Problem::Loss, Level::Critical)));
        assert!(get(1).active && get(1).rank() > get(2).rank() && get(2).rank() > get(3).rank());
        assert_eq!(get(3).worst, Some((Problem::NotReady, Level::Warning)));
        assert!(!get(3).active && get(3).rank() > 0);
        assert_eq!(
            (get(4), get(5)),
            (FlowVerdict::FINE, FlowVerdict::FINE),
            "info is not a problem of a flow"
        );
        let both = get(3).join(get(1));
        assert_eq!((both.worst, both.kinds.count_ones()), (get(1).worst, 3));
    }

    /// One packet lost is not as bad as the refused request that a finding of the same flow reports.
    #[test]
    fn a_counter_has_the_level_of_the_active_findings_about_it() {
        use crate::model::signals::{CE, LOST, NAK, RETRANSMITTED};
        let mut judged = FlowVerdict::FINE;
        judged.add((Problem::Refused, Level::Critical), true, (0, UNLISTED));
        judged.add((Problem::Retransmission, Level::Warning), true, (1, UNLISTED));
        judged.add((Problem::Congestion, Level::Warning), false, (2, UNLISTED));
        let levels = |judged: FlowVerdict| [LOST, NAK, RETRANSMITTED, CE].map(|about| judged.level_of(about));
        // The congestion has ended.
        assert_eq!(levels(judged), [Level::Fine, Level::Critical, Level::Warning, Level::Fine]);
        assert_eq!(judged.level(), Level::Critical);
        let mut lost = FlowVerdict::FINE;
        lost.add((Problem::Loss, Level::Warning), true, (3, UNLISTED));
        assert_eq!(levels(lost), [Level::Warning, Level::Warning, Level::Warning, Level::Fine]);
        assert_eq!(levels(judged.join(lost))[0], Level::Warning);
        assert_eq!(levels(lost.join(judged))[1], Level::Critical);
    }

    #[test]
    fn a_flow_that_carries_nothing_any_more_has_no_state_of_what_has_ended() {
        use crate::analysis::fixtures::key;
        use crate::model::{Counts, Delta, Identity};
        let state = |kind, lasts, packets| {
            let mut judged = FlowVerdict::FINE;
            judged.add((kind, Level::Warning), lasts, (0, UNLISTED));
            let counts = Counts { packets, ..Counts::default() };
            let id = Identity { key: key(0, "10.0.0.1", "10.0.0.2", 17), slot: 0 };
            let delta = Some(Delta { counts, seconds: 1.0 });
            let state = State::of(&Row { id, at: None, total: counts, delta, timed: None, judged });
            (state.worst, state.level() > Level::Fine && state.rank() > 0)
        };
        let skew = Problem::Imbalance;
        assert_eq!(state(skew, false, 0), (None, false));
        assert_eq!(state(skew, false, 9), (Some(skew), true), "it still carries packets");
        assert_eq!(state(skew, true, 0), (Some(skew), true), "the problem lasts");
        assert_eq!(state(Problem::Silent, false, 0), (Some(Problem::Silent), true), "why it carries nothing");
    }

    #[test]
    fn the_flow_that_a_finding_lists_first_is_the_worst_of_those_that_it_names() {
        let [src, dst]: [Address; 2] = ["10.0.0.1", "10.0.0.2"].map(|host| host.parse().unwrap());
        let listed = |dest_qp| FlowId { link: "rail0".into(), direction: None, src, dst, dest_qp };
        let finding = |id, qps: &[u32]| Finding {
            named: qps.iter().map(|qp| (src, dst, *qp)).collect(),
            flows: qps.iter().take(2).map(|qp| listed(*qp)).collect(),
            ..Finding::new(id, Severity::Warning, String::new())
        };
        let verdicts =
            FlowVerdicts::of(&[finding("loss.before_tap", &[9, 3, 5]), finding("retry.storm", &[1])]);
        let ((family, src), dst) = (src.words(), dst.words().1);
        let rank = |dest_qp| verdicts.get(&FlowKey { src, dst, dest_qp, family, link: 7, pad: 0 }).rank();
        assert!(rank(9) > rank(3) && rank(3) > rank(5), "5 is named and not listed");
        assert!(rank(5) > rank(1) && rank(1) > rank(2) && rank(2) == 0);
    }
}
