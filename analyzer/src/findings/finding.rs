//! A finding: an episode of a problem, with evidence, affected ends and remedy.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};
use std::collections::BTreeMap;
#[cfg(test)]
use std::ops::Index;

use super::Input;
use super::catalog::{declared_label, entry};
use super::fabric::Fabric;
use super::ids::LINKS_IMBALANCE;
use super::index::FlowSet;
use super::place::Place;
use super::subject::Subject;
use crate::analysis::FlowId;
use crate::sample::Address;
use crate::util::layout::tap_name;
use crate::util::numbers::share;
use crate::util::units;

/// A confirmed or possible problem: an episode with a beginning and an end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable id: family and name, joined by a dot.
    pub id: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Diagnosis with the figure that proves it, at most 80 characters.
    pub title: String,
    /// Evidence, written to the report twice: `evidence` by name, `evidence_values` in order with label and unit.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "EvidenceFields"))]
    pub evidence: EvidenceList,
    /// What it is about, for views and for the relations between findings.
    #[serde(skip)]
    pub subject: Subject,
    /// Affected flows, the most affected first, at most 16.
    pub flows: Vec<FlowId>,
    /// All affected flows.
    #[serde(skip)]
    pub named: FlowSet,
    /// Remedy in one paragraph.
    pub advice: String,
    /// Upper bound of the time at which it was last seen: end of the last loss, NAK, retransmission, marked
    /// time bin or step; of a silence the end of the data; else the last packet of the flows concerned. Unit: Unix ns.
    /// Null: not known, or it lasts by its nature (a setting).
    pub last_seen_ns: Option<u64>,
    /// True while it persists: last seen less than 10 s before the end of the data, and the data after that does not
    /// show that it has ended, or lasting by its nature.
    pub active: bool,
    /// True if the data after it shows that it has ended, before 10 s have passed without it.
    #[serde(skip)]
    pub settled: bool,
    /// Time at which it was first seen. Unit: Unix ns. Null: not known.
    pub first_seen_ns: Option<u64>,
    /// Episodes in order of time; 10 s without the condition end an episode. If `first_seen_ns` is null, the only one
    /// is the time in which it can have been: from the first packet of its flows to their last, or the time of the
    /// data. Empty: it lasts by its nature (a setting).
    pub episodes: Vec<Episode>,
    /// Longest time without it after which it showed again, while it was active; 0 in a single analysis. Unit: ns.
    #[serde(skip)]
    pub longest_silence_ns: u64,
    /// Cost of the finding.
    pub impact: Impact,
    /// Place of the finding.
    #[serde(rename = "where")]
    pub place: Place,
    /// End that sends the requests. Null: not known, several hosts do, or the finding is about no queue pair.
    pub requester: Option<End>,
    /// End that answers the requests. Null: as `requester`.
    pub responder: Option<End>,
    /// Ids of the findings that cause this one.
    pub causes: Vec<&'static str>,
    /// Ids of the findings that this one causes.
    pub effects: Vec<&'static str>,
    /// Id of the finding that owns this one: of the causes the one that accounts for the whole, or what it costs
    /// (`retry.storm` of a `loss.after_tap` that is info). It counts with its owner and is listed below it. Null: it
    /// stands for itself.
    pub owner: Option<&'static str>,
    /// Place among all findings in the order of the checks. `None`: from a recording.
    #[serde(skip)]
    pub at: Option<usize>,
    /// Place of its owner. `None`: it has none, or its kind alone is known.
    #[serde(skip)]
    pub owner_at: Option<usize>,
    /// Ids of the kinds that it owns where they name no other hosts and show at the same time.
    #[serde(skip)]
    pub owns: &'static [&'static str],
    /// Ids of findings that this kind may cause, but this finding cannot.
    #[serde(skip)]
    pub no_cause_of: &'static [&'static str],
    /// Steps to take, in their order.
    pub steps: Vec<Step>,
    /// The limits of the finding, and the cases in which it is normal.
    pub caveats: Vec<String>,
}

impl Finding {
    /// Beginning of the finding or of its latest episode, Unix ns; `None` if the times of its signals are unknown.
    pub fn since_ns(&self) -> Option<u64> {
        let first_ns = self.first_seen_ns?;
        Some(self.episodes.last().map_or(first_ns, |episode| episode.first_ns))
    }

    /// True if its figures are those of its latest episode. Those of a finding without a known start are of the whole
    /// run.
    pub fn is_of_episode(&self) -> bool {
        self.since_ns().is_some()
    }

    /// True if flows or a queue pair at both ends of it are known.
    pub fn names_ends(&self) -> bool {
        let qpn = |end: &Option<End>| end.as_ref().is_some_and(|end| end.qpn.is_some());
        !self.flows.is_empty() || qpn(&self.requester) && qpn(&self.responder)
    }

    /// Requester and responder by which it differs from others of its kind and place. Uneven links name those with
    /// most bytes, which are others from one report to the next.
    pub fn own_ends(&self) -> [Option<&End>; 2] {
        if self.id == LINKS_IMBALANCE {
            return [None, None];
        }
        [&self.requester, &self.responder].map(Option::as_ref)
    }

    /// Identifies the same finding in successive reports, whose figures differ.
    pub fn key(&self) -> String {
        let end = |end: &End| format!("{} {:?}", end.addr, end.qpn);
        let [requester, responder] = self.own_ends().map(|one| one.map(end));
        // The rest of many, of which there is one with an owner and one without.
        let Subject { ports, died_ns, joined, .. } = &self.subject;
        // Those that it joins differ from one report to the next.
        let port = ports.first().filter(|_| joined.is_none());
        let rest = joined.map(|_| (self.severity == Severity::Info, self.owner));
        // A queue pair number is reused: a later death is another one.
        format!("{} {:?} {requester:?} {responder:?} {port:?} {died_ns:?} {rest:?}", self.id, self.place)
    }

    /// True if it is a warning or critical, not info.
    pub fn is_problem(&self) -> bool {
        self.severity > Severity::Info
    }

    /// True if it is a problem that no other finding owns as its consequence.
    pub fn is_primary(&self) -> bool {
        self.is_problem() && self.owner.is_none()
    }

    /// True for information that no other finding owns: what one owns is part of it.
    pub fn is_note(&self) -> bool {
        self.severity == Severity::Info && self.owner.is_none()
    }

    /// True if it is active and has no owner: a finding with an owner counts with that one, which is as severe.
    pub fn stands(&self) -> bool {
        self.active && self.owner.is_none()
    }

    /// True if the finding of this kind and place owns it.
    pub fn is_owned_by(&self, id: &str, at: Option<usize>) -> bool {
        self.owner == Some(id) && (self.owner_at.is_none() || self.owner_at == at)
    }

    /// True if it concerns a setting or a state, so that it does not end with its flows.
    pub(super) fn lasts(&self) -> bool {
        entry(self.id).is_some_and(|entry| entry.lasting.is_some())
    }

    /// Sets the time of the data on a finding without flows: device counters are read at both ends of it.
    pub(super) fn time(&mut self, input: &Input<'_>) {
        let window = &input.facts.window;
        let Some((first_ns, end_ns)) = window.first_ns.zip(window.last_ns) else { return };
        if self.episodes.is_empty() && !self.lasts() {
            let last_ns = self.last_seen_ns.unwrap_or(end_ns).max(first_ns);
            self.episodes = vec![Episode { first_ns, last_ns, peak: None }];
        }
    }

    /// A finding with only these properties.
    pub fn new(id: &'static str, severity: Severity, title: String) -> Self {
        Self {
            id,
            severity,
            title,
            evidence: EvidenceList::default(),
            subject: Subject::default(),
            flows: Vec::new(),
            named: FlowSet::default(),
            advice: String::new(),
            last_seen_ns: None,
            active: true,
            settled: false,
            first_seen_ns: None,
            episodes: Vec::new(),
            longest_silence_ns: 0,
            impact: Impact::default(),
            place: Place::default(),
            requester: None,
            responder: None,
            causes: Vec::new(),
            effects: Vec::new(),
            owner: None,
            at: None,
            owner_at: None,
            owns: &[],
            no_cause_of: &[],
            steps: Vec::new(),
            caveats: Vec::new(),
        }
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs performance, or will.
    Warning,
    /// Stops traffic, takes a large part of its bandwidth, or makes the figures wrong.
    Critical,
}

impl Severity {
    /// All, the least first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// The word that people see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Critical => "CRITICAL",
            other => other.name(),
        }
    }

    /// The one with this name in reports.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A time in which the condition of a finding held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Episode {
    /// Beginning. Unit: Unix ns.
    pub first_ns: u64,
    /// End. Unit: Unix ns.
    pub last_ns: u64,
    /// Largest value of the finding's own measure in it: a ratio where the title has a ratio, else a count.
    /// Unit: as in the title. Null: not known.
    pub peak: Option<f64>,
}

/// Cost of a finding in its latest episode; each figure is at least that of the findings that it owns and causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Impact {
    /// Share of the packets of the flows concerned; of incast, of those in bins with many senders. Unit: ratio.
    /// Null: not known.
    pub packets_ratio: Option<f64>,
    /// Packets retransmitted because of the finding. Unit: packets. Null: not known.
    pub retransmissions: Option<u64>,
    /// Payload lost or sent more than once because of the finding. Unit: bytes. Null: not known.
    pub goodput_lost_bytes: Option<u64>,
    /// Time lost because of the finding: silence before transport timeouts, waits after RNR NAKs and recovery from
    /// loss, summed over queue pairs; of a stalled job its silence; of pauses the stall; of steps the time by which
    /// they are longer; of a tail of latency the time of requests above the median. Unit: ns. Null: not known.
    pub time_lost_ns: Option<u64>,
}

impl Impact {
    /// The larger of its shares of traffic and of time, for comparisons; `None` if neither is known.
    pub fn share(&self, length_ns: u64) -> Option<f64> {
        let time = self.time_lost_ns.map(|ns| (share(ns, length_ns)).min(1.0));
        [self.packets_ratio, time].into_iter().flatten().reduce(f64::max)
    }
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct End {
    /// Address.
    pub addr: Address,
    /// Queue pair number. Null: not known, or several.
    pub qpn: Option<u32>,
    /// Process that owns the queue pair. Null: not on this host, or not known.
    pub pid: Option<u32>,
    /// Command name of the process. Null: as `pid`.
    pub comm: Option<String>,
    /// Kubernetes pod of the process. Null: none, or as `pid`.
    pub pod: Option<String>,
}

/// One action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Step {
    /// The instruction.
    pub text: String,
    /// Command that does it on `host`. Null: none, or parts are not known.
    pub command: Option<String>,
    /// Host to run the command on, where that is another than this one. A command for it has `DEV` in place of the
    /// name of its interface, which is not known here. Null: this host, or there is no command.
    pub host: Option<Address>,
    /// The fabrics for which it holds.
    #[serde(skip)]
    pub fabric: Fabric,
}

/// The unit of a number of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Something counted.
    Count,
    /// A plain number.
    Number,
    /// A number that names something: shown without a separator.
    Id,
    /// A fraction of 1, shown in per cent.
    Ratio,
    /// A multiple, shown with `×`.
    Factor,
    /// Nanoseconds.
    Nanoseconds,
    /// Unix time in nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bits per second.
    BitsPerSecond,
    /// Something counted, per second.
    PerSecond,
    /// A name.
    Text,
    /// A link or a tap: that of a capture without what says that it is a file.
    Link,
}

impl Unit {
    /// A value in this unit for people; a dash when it is not known.
    pub fn text(self, value: &Value) -> String {
        one(value, self)
    }
}

/// One measurement of the evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Name, as in `evidence`.
    pub name: String,
    /// Name in words.
    pub label: String,
    /// The unit of its numbers.
    pub unit: Unit,
    /// Number, name, yes or no, or a list of them. Unit: as `unit`. Null: not known.
    #[cfg_attr(test, schemars(schema_with = "crate::report::schema::measurement"))]
    pub value: Value,
}

/// Report fields generated from the evidence of a finding.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "its fields are those of the schema")]
struct EvidenceFields {
    /// Figures that the finding is based on, by name. Unit: as named. Null: that figure is not known.
    #[schemars(schema_with = "crate::report::schema::evidence")]
    evidence: Value,
    /// The same figures in order, the most telling first, with label and unit.
    evidence_values: Vec<Evidence>,
}

impl Evidence {
    /// An evidence value with the label and unit declared by its family or the common list. A value from a recording
    /// of another version that neither declares is a plain number.
    pub fn declared(id: &str, name: &str, value: Value) -> Self {
        let known = declared_label(id, name);
        let unit = known.map_or(Unit::Number, |known| known.unit);
        let label = known.map_or_else(|| name.replace('_', " "), |known| known.label.to_owned());
        Self { name: name.to_owned(), label, unit, value }
    }

    /// The value with its unit as text; a dash if unknown.
    pub fn text(&self) -> String {
        self.unit.text(&self.value)
    }
}

fn one(value: &Value, unit: Unit) -> String {
    let number = value.as_f64();
    match (value, unit) {
        (Value::Null, _) => units::UNKNOWN.to_owned(),
        (Value::Array(all), _) => all.iter().map(|value| one(value, unit)).collect::<Vec<_>>().join(", "),
        (Value::String(name), Unit::Link) => tap_name(name),
        (Value::String(text), _) => text.clone(),
        (Value::Number(_), Unit::Ratio) => units::ratio(number),
        (Value::Number(_), Unit::Factor) => number.map_or_else(String::new, |n| format!("{n:.2}×")),
        (Value::Number(n), Unit::Nanoseconds) => signed_duration(n),
        (Value::Number(n), Unit::Time) => n.as_u64().map_or_else(|| n.to_string(), units::second_utc),
        (Value::Number(n), Unit::Bytes) => n.as_u64().map_or_else(|| n.to_string(), units::bytes),
        (Value::Number(_), Unit::BitsPerSecond) => number.map_or_else(String::new, units::bit_rate),
        (Value::Number(_), Unit::PerSecond) => number.map_or_else(String::new, |n| format!("{n:.0}/s")),
        (Value::Number(n), Unit::Id) => n.to_string(),
        (Value::Bool(yes), _) => if *yes { "yes" } else { "no" }.to_owned(),
        (Value::Number(n), _) => match n.as_u64() {
            Some(n) => units::count(n),
            None => number.map_or_else(String::new, |n| format!("{n:.2}")),
        },
        (other, _) => other.to_string(),
    }
}

/// A duration that may be negative.
fn signed_duration(ns: &Number) -> String {
    let below = ns.as_i64().filter(|ns| *ns < 0);
    match (below, ns.as_u64(), ns.as_f64()) {
        (Some(below), ..) => format!("−{}", units::duration(below.unsigned_abs())),
        (_, Some(ns), _) => units::duration(ns),
        (.., Some(ns)) => units::duration(crate::metrics::traffic::times(1, ns)),
        _ => units::UNKNOWN.to_owned(),
    }
}

/// The evidence of a finding, most significant first; two fields in the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvidenceList(Vec<Evidence>);

impl EvidenceList {
    /// Adds a value, or replaces the one with this name.
    pub fn insert(&mut self, evidence: Evidence) {
        match self.0.iter_mut().find(|known| known.name == evidence.name) {
            Some(known) => *known = evidence,
            None => self.0.push(evidence),
        }
    }

    /// The value with this name.
    pub fn get(&self, name: &str) -> Option<&Evidence> {
        self.0.iter().find(|evidence| evidence.name == name)
    }

    /// All values, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Evidence> {
        self.0.iter()
    }
}

#[cfg(test)]
impl Index<&str> for EvidenceList {
    type Output = Value;

    /// Null if there is no value with this name.
    fn index(&self, name: &str) -> &Value {
        self.get(name).map_or(&Value::Null, |evidence| &evidence.value)
    }
}

impl Serialize for EvidenceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by_name: BTreeMap<_, _> = self.0.iter().map(|one| (&one.name, &one.value)).collect();
        let mut fields = serializer.serialize_map(Some(2))?;
        fields.serialize_entry("evidence", &by_name)?;
        fields.serialize_entry("evidence_values", &self.0)?;
        fields.end()
    }
}

/// A kind of finding that could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotEvaluated {
    /// Id of the finding.
    pub id: &'static str,
    /// The missing input. `exact_times`: live with `--no-timing`. `packets_of_taps`, `whole_frames`: only a
    /// replay has them. `order_of_taps`: flows lack packets at one of two taps, and which is nearer the sender is not
    /// known (`taps[].vanished` is null). `uc_at_next_tap`: UC flows that the next tap did not see at all are lost or
    /// on another path, and nobody retransmits them. `link_speed`: the capture has pause frames and `--link-speed` is
    /// not given. `whole_sequences`: live: some queue pairs with loss could not be followed without a break and have no
    /// `flows[].loss`; such findings leave them out and count them as `flows_unjudged`.
    pub needs: &'static str,
}
