//! The subject of a finding as typed values: views and the relations between findings read these. Its evidence says the
//! same to people, and nothing else reads that.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{Finding, Input, Problem, Raise};
use crate::analysis::loss::Downstream;
use crate::analysis::{Device, DeviceQp, PortCounter, direction_name};
use crate::sample::Direction;
use crate::util::numbers::share;

/// What a finding is about. What is not known, or does not apply, is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each of some findings")]
pub struct Subject {
    /// Ports of devices, such as `mlx5_0/1`.
    pub ports: Vec<Arc<str>>,
    /// Counters of the ports that it rests on.
    pub counters: Vec<&'static str>,
    /// Queue pairs of this host, all of them.
    pub queue_pairs: Vec<LocalQp>,
    /// Links that it compares.
    pub compared: Vec<Compared>,
    /// Links of its place beyond those of [`Place`](super::Place): of findings at several places that are joined.
    pub links: Vec<String>,
    /// The direction in which its place is worse, where it is so in both.
    pub worse_direction: Option<Direction>,
    /// Its kind, where it is not that of all findings of its id.
    pub problem: Option<Problem>,
    /// It concludes from what is likely: it must neither hide a certain finding nor adopt its severity.
    pub is_likely: bool,
    /// The queue pairs that send its first flows, in their order; `None` for one that is not known.
    pub source_qps: Vec<Option<u32>>,
    /// Flows. Unit: flows.
    pub flows: Option<u64>,
    /// Host pairs. Unit: pairs.
    pub host_pairs: Option<u64>,
    /// Its title has the figure of the worst of these pairs.
    pub has_worst_pair: bool,
    /// Its losses are a lower bound.
    pub is_lower_bound: bool,
    /// It is about a silence of all frames: a fault, or none where the clock was set.
    pub is_clock_unknown: bool,
    /// Its packets were lost or reordered: the capture does not show which.
    pub is_lost_or_reordered: bool,
    /// Transport timeouts. Unit: timeouts.
    pub timeouts: Option<u64>,
    /// Packets out of order among the retransmitted. Unit: packets.
    pub reordered: Option<u64>,
    /// Episodes of NAKs or repeated READs for packets that passed the tap. Unit: episodes.
    pub nak_episodes: Option<u64>,
    /// What these episodes show; `None` also where the reverse direction is not captured.
    pub(crate) downstream: Option<Downstream>,
    /// Time that it adds to each step of a job. Unit: ns.
    pub step_cost_ns: Option<u64>,
    /// Its upper bound of the time added to the steps of a job.
    pub step_delay: Option<StepDelay>,
    /// The most affected of its flows are affected alike: none of them is the worst.
    pub is_alike: bool,
    /// Data flows of all links that it compares. Unit: flows.
    pub of_flows: Option<u64>,
    /// What the busiest link carries beyond an even share.
    pub excess: Option<Excess>,
    /// What the retransmissions, the repeated payload and the waits of its impact are a part of.
    pub cost_base: Option<CostBase>,
    /// Time of the death of a queue pair, Unix ns.
    pub died_ns: Option<u64>,
    /// Number of findings that it joins; `None`: it is one of its own.
    pub joined: Option<u64>,
}

/// A queue pair of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQp {
    /// Device and port. `None`: those of the finding's link.
    pub port: Option<Arc<str>>,
    /// Its number.
    pub lqpn: u32,
    /// Its creation, Unix ns, which distinguishes it from others with this number. `None`: not known.
    pub created_ns: Option<u64>,
}

/// Links that are compared with one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Names of the links, in order.
    pub links: Vec<String>,
    /// Their direction. `None`: replay, or both.
    pub direction: Option<Direction>,
}

/// Effect of silences on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepDelay {
    /// Time that steps are longer, at most, in nanoseconds.
    pub ns: u64,
    /// Number of these steps.
    pub steps: u64,
}

/// All that the flows of an impact sent, and their lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostBase {
    /// Packets, retransmissions included.
    pub packets: u64,
    /// Their payload, in bytes.
    pub payload_bytes: u64,
    /// Number of flows.
    pub flows: u64,
    /// Sum of their lives, in nanoseconds.
    pub flows_ns: u64,
}

/// Load beyond an even share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// Bytes.
    pub bytes: u64,
    /// Share of the bytes of all links.
    pub ratio: f64,
    /// The busiest link's own share of them.
    pub busiest_ratio: f64,
}

impl Finding {
    /// Number of flows that it is about.
    pub fn flow_count(&self) -> u64 {
        self.subject.flows.unwrap_or(self.flows.len() as u64)
    }

    /// True if this link is its place, or one of the places of the findings that it joins.
    pub fn is_at(&self, link: &str) -> bool {
        self.place.has(link) || self.subject.links.iter().any(|one| one == link)
    }

    /// True if it compares this link with others.
    pub fn compares(&self, link: &str) -> bool {
        self.subject.compared.iter().any(|one| one.links.iter().any(|name| name == link))
    }

    /// True if it compares these links, in this direction.
    pub fn compares_all(&self, links: &[String], direction: Option<Direction>) -> bool {
        let is_way = |way: Option<Direction>| way.is_none() || way == direction;
        self.subject.compared.iter().any(|one| one.links == links && is_way(one.direction))
    }

    /// True if it is about this queue pair of this device. Numbers are reused: where its creation is not known, it
    /// existed in the latest episode.
    pub fn is_about_qp(&self, device: &Device, qp: &DeviceQp) -> bool {
        let label = device.label();
        let is_here = |port: Option<&str>| match port {
            Some(port) => port == label,
            None => self.place.link.as_deref() == device.interface.as_deref(),
        };
        self.subject.queue_pairs.iter().any(|one| {
            let is_same = match one.created_ns.zip(qp.control.created_ns) {
                Some((known, own)) => known == own,
                None => self.is_in_life_of(qp),
            };
            one.lqpn == qp.lqpn && is_same && is_here(one.port.as_deref())
        })
    }

    /// True if the queue pair existed in its latest episode.
    fn is_in_life_of(&self, qp: &DeviceQp) -> bool {
        let control = &qp.control;
        let is_later = control.created_ns.zip(self.last_seen_ns).is_some_and(|(made, seen)| made > seen);
        let is_earlier = control.over_by().zip(self.since_ns()).is_some_and(|(end, since)| end < since);
        !is_later && !is_earlier
    }

    /// Raises its number of transport timeouts to that of a finding that it owns, where it has such a number.
    pub(super) fn at_least_timeouts(&mut self, others: Option<u64>) {
        if let Some(own) = self.evidence.get("timeouts").cloned()
            && self.subject.timeouts < others
        {
            self.evidence.insert(super::Evidence { value: others.into(), ..own });
            self.subject.timeouts = others;
        }
    }

    /// Sets the links that it compares, and the evidence of them.
    pub(super) fn compare(&mut self, links: Vec<String>, direction: Option<Direction>) {
        self.evidence.insert(super::Evidence::declared(self.id, "links", links.clone().into()));
        self.subject.compared = vec![Compared { links, direction }];
    }
}

impl LocalQp {
    /// Queue pairs of a device.
    pub(super) fn all<'q>(device: &Device, qps: impl IntoIterator<Item = &'q DeviceQp>) -> Vec<Self> {
        Self::numbered(device, qps.into_iter().map(|qp| (qp.lqpn, Some(qp))))
    }

    /// The same, where some are not listed any more.
    pub(super) fn numbered<'q>(
        device: &Device,
        qps: impl IntoIterator<Item = (u32, Option<&'q DeviceQp>)>,
    ) -> Vec<Self> {
        let port: Arc<str> = device.label().into();
        let of = |(lqpn, qp): (u32, Option<&DeviceQp>)| Self {
            port: Some(Arc::clone(&port)),
            lqpn,
            created_ns: qp.and_then(|qp| qp.control.created_ns),
        };
        qps.into_iter().map(of).collect()
    }
}

impl Raise {
    /// Sets the port of a device.
    pub(super) fn port(self, label: Option<String>) -> Self {
        let ports = label.iter().map(|label| label.as_str().into()).collect();
        self.evidence("device", label).about(|subject| subject.ports = ports)
    }

    /// Sets what it is of: the port of a device, or something else with a name.
    pub(super) fn of(self, input: &Input<'_>, name: &str) -> Self {
        let is_port = input.sample.devices.ports.iter().any(|port| port.label() == name)
            || input.facts.devices.iter().any(|device| device.label() == name);
        let ports = is_port.then(|| name.into()).into_iter().collect();
        self.evidence("of", name).about(|subject| subject.ports = ports)
    }

    /// Sets the queue pairs of this host.
    pub(super) fn queue_pairs(self, all: Vec<LocalQp>) -> Self {
        self.about(|subject| subject.queue_pairs = all)
    }

    /// Sets the links that it compares, in this direction.
    pub(super) fn compares(mut self, links: Vec<String>, direction: Option<Direction>) -> Self {
        self.finding.compare(links, direction);
        self
    }

    /// Sets the direction that is worse, of a finding about both.
    pub(super) fn worse_direction(self, direction: Option<Direction>) -> Self {
        self.evidence("worse_direction", direction.map_or("", direction_name))
            .about(|subject| subject.worse_direction = direction)
    }

    /// Sets the bytes of each link, and what the busiest carries beyond an even share.
    pub(super) fn load_of_links(self, bytes: Vec<u64>) -> Self {
        let sum: u64 = bytes.iter().sum();
        let most = bytes.iter().copied().max().unwrap_or(0);
        let excess = most.saturating_sub(sum / (bytes.len() as u64).max(1));
        let ratio = (sum > 0).then(|| share(excess, sum));
        let busiest_ratio = share(most, sum);
        self.evidence("bytes", bytes).evidence("excess_bytes", excess).evidence("excess_ratio", ratio).about(
            |subject| subject.excess = ratio.map(|ratio| Excess { bytes: excess, ratio, busiest_ratio }),
        )
    }

    /// Sets the number of data flows on all links that it compares.
    pub(super) fn of_flows(self, count: Option<u64>) -> Self {
        self.evidence("of_flows", count).about(|subject| subject.of_flows = count)
    }

    /// Says whether it is certain.
    pub(super) fn certain(self, certain: bool) -> Self {
        self.evidence("certainty", if certain { "certain" } else { LIKELY })
            .about(|subject| subject.is_likely = !certain)
    }

    /// Sets its signal, of a link that is worse than others.
    pub(super) fn signal(self, signal: LinkSignal) -> Self {
        self.evidence("kind", signal.name()).about(|subject| subject.problem = signal.problem())
    }

    /// Sets the number of flows.
    pub(super) fn flow_count(self, count: usize) -> Self {
        self.evidence("flows", count).about(|subject| subject.flows = Some(count as u64))
    }

    /// Sets the number of host pairs.
    pub(super) fn host_pairs(self, count: usize) -> Self {
        self.evidence("host_pairs", count).about(|subject| subject.host_pairs = Some(count as u64))
    }

    /// Sets the ratio of the worst host pair, of which the title speaks.
    pub(super) fn worst_ratio(self, ratio: f64) -> Self {
        self.evidence("worst_ratio", ratio).about(|subject| subject.has_worst_pair = true)
    }

    /// Says that its losses are a lower bound.
    pub(super) fn lower_bound(self) -> Self {
        self.evidence("lower_bound", true).about(|subject| subject.is_lower_bound = true)
    }

    /// Says that its packets may have been reordered.
    pub(super) fn lost_or_reordered(self) -> Self {
        self.evidence("or_reordering", true).about(|subject| subject.is_lost_or_reordered = true)
    }

    /// Says that nothing shows whether the clock was set.
    pub(super) fn clock_unknown(self) -> Self {
        self.evidence("clock_unknown", true).about(|subject| subject.is_clock_unknown = true)
    }

    /// Sets the number of transport timeouts.
    pub(super) fn timeouts(self, count: Option<u64>) -> Self {
        self.evidence("timeouts", count).about(|subject| subject.timeouts = count)
    }

    /// Sets the packets out of order among the retransmitted.
    pub(super) fn reordered(self, packets: u64) -> Self {
        self.evidence("late", packets).about(|subject| subject.reordered = Some(packets))
    }

    /// Sets the episodes of NAKs or repeated READs for packets that passed the tap, and what they show.
    pub(super) fn nak_episodes(self, count: Option<u64>, shows: Option<Downstream>) -> Self {
        self.evidence("asked_again", count)
            .about(|subject| (subject.nak_episodes, subject.downstream) = (count, shows))
    }

    /// Sets its effect on the steps of a job.
    pub(super) fn step_delay(self, delay: Option<StepDelay>) -> Self {
        self.evidence("felt_ns", delay.map(|delay| delay.ns))
            .evidence("felt_steps", delay.map(|delay| delay.steps))
            .about(|subject| subject.step_delay = delay)
    }

    /// Sets the time that each step of a job is longer.
    pub(super) fn behind_ns(self, ns: Option<u64>) -> Self {
        self.evidence("behind_ns", ns).about(|subject| subject.step_cost_ns = ns.or(subject.step_cost_ns))
    }

    /// Sets the 99th percentile of latency, which each step of a job may wait for.
    pub(super) fn step_p99_ns(self, ns: u64) -> Self {
        self.evidence("p99_ns", ns).about(|subject| subject.step_cost_ns = subject.step_cost_ns.or(Some(ns)))
    }

    /// Sets the time of the death of the queue pair that stands for all.
    pub(super) fn died_ns(self, time_ns: u64) -> Self {
        self.evidence("died_ns", time_ns).about(|subject| subject.died_ns = Some(time_ns))
    }

    /// Says that it joins this number of findings.
    pub(super) fn joins(self, findings: usize) -> Self {
        self.evidence("findings", findings).about(|subject| subject.joined = Some(findings as u64))
    }
}

const LIKELY: &str = "likely";

/// Signal by which one of several links is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkSignal {
    Marks,
    Loss,
    Delay,
}

impl LinkSignal {
    const ALL: [Self; 3] = [Self::Marks, Self::Loss, Self::Delay];

    /// Its name in reports.
    const fn name(self) -> &'static str {
        match self {
            Self::Marks => "marks",
            Self::Loss => "loss",
            Self::Delay => "delay",
        }
    }

    /// The kind of trouble, where it is not congestion.
    const fn problem(self) -> Option<Problem> {
        match self {
            Self::Marks => None,
            Self::Loss => Some(Problem::Loss),
            Self::Delay => Some(Problem::Latency),
        }
    }
}

impl Subject {
    /// The subject of all of these, which are joined.
    pub(super) fn of_all(members: &[&Finding]) -> Self {
        let subjects = || members.iter().map(|one| &one.subject);
        let sum = |of: fn(&Self) -> Option<u64>| subjects().map(of).sum::<Option<u64>>();
        let first = subjects().next();
        let problem = first.and_then(|first| first.problem);
        let worse = first.and_then(|first| first.worse_direction);
        let ports: BTreeSet<&Arc<str>> = subjects().flat_map(|one| &one.ports).collect();
        let places = members.iter().flat_map(|one| one.place.names().map(str::to_owned));
        let links: BTreeSet<String> = places.chain(subjects().flat_map(|one| one.links.clone())).collect();
        let counters: BTreeSet<&str> = subjects().flat_map(|one| one.counters.iter().copied()).collect();
        let mut compared: Vec<Compared> = Vec::new();
        for one in subjects().flat_map(|one| &one.compared) {
            if !compared.contains(one) {
                compared.push(one.clone());
            }
        }
        Self {
            ports: ports.into_iter().cloned().collect(),
            counters: counters.into_iter().collect(),
            queue_pairs: subjects().flat_map(|one| one.queue_pairs.clone()).collect(),
            compared,
            links: links.into_iter().collect(),
            worse_direction: worse.filter(|_| subjects().all(|one| one.worse_direction == worse)),
            problem: problem.filter(|_| subjects().all(|one| one.problem == problem)),
            is_likely: subjects().any(|one| one.is_likely),
            is_lower_bound: subjects().any(|one| one.is_lower_bound),
            is_clock_unknown: subjects().any(|one| one.is_clock_unknown),
            is_lost_or_reordered: subjects().any(|one| one.is_lost_or_reordered),
            timeouts: sum(|one| one.timeouts),
            ..Self::default()
        }
    }

    /// The subject of a finding from a recording, whose evidence alone is stored.
    #[expect(clippy::too_many_lines, reason = "each field of a subject, from the evidence that has it")]
    pub(super) fn of_recorded(finding: &Finding) -> Self {
        let value = |name: &str| finding.evidence.get(name).map(|one| &one.value);
        let count = |name: &str| value(name)?.as_u64();
        let text = |name: &str| value(name)?.as_str();
        let list = |name: &str| value(name).and_then(Value::as_array).into_iter().flatten();
        let is_true = |name: &str| value(name) == Some(&Value::Bool(true));
        let is_port =
            |label: &&str| label.rsplit_once('/').is_some_and(|(_, port)| port.parse::<u8>().is_ok());
        let port: Option<Arc<str>> = text("device").or_else(|| text("of")).filter(is_port).map(Into::into);
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let numbers: BTreeSet<u32> = value("lqpn")
            .into_iter()
            .chain(list("lqpns"))
            .chain(list("queue_pairs"))
            .filter_map(number)
            .collect();
        let qp = |lqpn| LocalQp { port: port.clone(), lqpn, created_ns: None };
        let links: Vec<String> = list("links").filter_map(|link| Some(link.as_str()?.to_owned())).collect();
        let direction = finding.place.direction;
        let is_counter = |one: &PortCounter| value(one.name()).is_some();
        let compared = (!links.is_empty()).then_some(Compared { links, direction });
        let worse = |name: &str| {
            [Direction::Ingress, Direction::Egress].into_iter().find(|way| direction_name(*way) == name)
        };
        let signal = |name: &str| LinkSignal::ALL.into_iter().find(|signal| signal.name() == name);
        let delay = |(ns, steps)| StepDelay { ns, steps };
        let ratio = value("excess_ratio").and_then(Value::as_f64);
        let loads = || list("bytes").filter_map(Value::as_u64);
        let busiest_ratio = share(loads().max().unwrap_or(0), loads().sum());
        Self {
            queue_pairs: numbers.into_iter().map(qp).collect(),
            ports: port.into_iter().collect(),
            counters: PortCounter::ALL.iter().filter(|one| is_counter(one)).map(|one| one.name()).collect(),
            compared: compared.into_iter().collect(),
            links: Vec::new(),
            worse_direction: text("worse_direction").and_then(worse),
            problem: text("kind").and_then(signal).and_then(LinkSignal::problem),
            is_likely: text("certainty") == Some(LIKELY),
            flows: count("flows"),
            host_pairs: count("host_pairs"),
            has_worst_pair: value("worst_ratio").is_some_and(Value::is_number),
            is_lower_bound: is_true("lower_bound"),
            is_clock_unknown: is_true("clock_unknown"),
            is_lost_or_reordered: is_true("or_reordering"),
            timeouts: count("timeouts"),
            reordered: count("late"),
            nak_episodes: count("asked_again"),
            // A report has the queue pairs that flows go to, and the findings of a recording their causes and owners.
            source_qps: Vec::new(),
            downstream: None,
            step_cost_ns: count("behind_ns").or_else(|| count("p99_ns")),
            step_delay: count("felt_ns").zip(count("felt_steps")).map(delay),
            cost_base: None,
            is_alike: false,
            of_flows: count("of_flows"),
            excess: count("excess_bytes").zip(ratio).map(|(bytes, ratio)| Excess {
                bytes,
                ratio,
                busiest_ratio,
            }),
            died_ns: count("died_ns"),
            joined: count("findings"),
        }
    }

    /// Memory in use beyond the value itself, in bytes.
    pub fn bytes(&self) -> usize {
        let links = self.compared.iter().flat_map(|one| &one.links).chain(&self.links);
        let of_compared = self.compared.len() * size_of::<Compared>();
        let names: usize = links.map(|link| size_of::<String>() + link.len()).sum();
        // A label is shared by the queue pairs of a port.
        let ports: usize = self.ports.iter().map(|port| size_of::<Arc<str>>() + port.len()).sum();
        let source_qps = size_of_val(&*self.source_qps);
        names + of_compared + ports + source_qps + self.queue_pairs.len() * size_of::<LocalQp>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::everything;
    use crate::findings::{Hop, Place, Severity, recorded};
    use crate::report::{Options, Report};

    /// Names of its evidence and the subject are two ways to the same values.
    #[test]
    fn a_recorded_finding_has_the_subject_of_its_evidence() {
        let report = Report::build(&everything(), &Options::default());
        assert!(report.findings.len() > 2);
        for finding in &report.findings {
            let back = recorded::read(&serde_json::to_string(finding).unwrap()).unwrap();
            let (own, back) = (&finding.subject, &back.subject);
            let counts = |one: &Subject| {
                (
                    one.flows,
                    one.host_pairs,
                    one.timeouts,
                    one.reordered,
                    one.nak_episodes,
                    one.died_ns,
                    one.joined,
                )
            };
            assert_eq!(counts(back), counts(own), "{}", finding.id);
            assert_eq!((&back.ports, &back.compared), (&own.ports, &own.compared), "{}", finding.id);
            assert_eq!((back.problem, back.is_likely), (own.problem, own.is_likely), "{}", finding.id);
            assert_eq!(back.is_lower_bound, own.is_lower_bound, "{}", finding.id);
        }
    }

    #[test]
    fn joined_findings_are_about_all_that_each_is_about() {
        let finding = |link: &str, peer: &str| {
            let mut one = Finding::new("links.imbalance", Severity::Warning, String::new());
            one.compare(vec![link.to_owned(), peer.to_owned()], Some(Direction::Egress));
            one.place.link = Some(link.to_owned());
            one.subject.timeouts = Some(2);
            one.subject.problem = Some(Problem::Loss);
            one
        };
        let (a, mut b) = (finding("rail0", "rail1"), finding("rail2", "rail3"));
        let subject = Subject::of_all(&[&a, &b]);
        assert_eq!((subject.timeouts, subject.problem), (Some(4), Some(Problem::Loss)));
        (b.subject.timeouts, b.subject.problem) = (None, None);
        let subject = Subject::of_all(&[&a, &b]);
        assert_eq!(
            (subject.timeouts, subject.problem),
            (None, None),
            "one is not known, one is of another kind"
        );
        let joined = Finding { subject, place: Place::default(), ..a };
        let links = |names: [&str; 2]| names.map(str::to_owned);
        assert!(joined.is_at("rail2") && !joined.is_at("rail3") && joined.compares("rail3"));
        assert!(joined.compares_all(&links(["rail2", "rail3"]), Some(Direction::Egress)));
        assert!(!joined.compares_all(&links(["rail2", "rail3"]), Some(Direction::Ingress)));
        assert!(!joined.compares_all(&links(["rail0", "rail3"]), Some(Direction::Egress)));
    }

    #[test]
    fn a_position_comes_back_from_its_text() {
        for hop in [Hop::Upstream, Hop::Downstream, Hop::Requester, Hop::Responder, Hop::between("h0", "h1")]
        {
            assert_eq!(Hop::read(&hop.to_string(), None), Some(hop));
        }
        let unordered = Hop::Between { from: "h0".into(), to: "h1".into(), ordered: false };
        assert_eq!(Hop::read("h0 ↔ h1", None), Some(unordered));
        assert_eq!(Hop::read("elsewhere", None), None);
        // The name of a tap has an arrow.
        let hop = Hop::between("a → b", "c");
        assert_eq!(Hop::read(&hop.to_string(), Some("c")), Some(hop));
    }
}
