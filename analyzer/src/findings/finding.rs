//! A finding: an episode of something wrong, what proves it, who is concerned and what to do.

use std::net::IpAddr;
use std::ops::Index;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::index::FlowSet;
use crate::analysis::{FlowId, direction_name};
use crate::sample::Direction;
use crate::util::units;

/// Something that is wrong, or may be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Family and name, joined with a dot: `loss.before_tap`.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The diagnosis with the figure that proves it, at most 80 characters.
    pub title: String,
    /// The measurements it rests on.
    pub evidence: EvidenceList,
    /// The flows concerned, those that matter most first, at most 16.
    pub flows: Vec<FlowId>,
    /// All flows concerned.
    #[serde(skip)]
    pub named: FlowSet,
    /// What to do, in one paragraph.
    pub advice: String,
    /// When it was seen last, Unix nanoseconds; `None` when that is not known, and of settings.
    pub last_seen_ns: Option<u64>,
    /// Whether it goes on: the latest episode had not ended 10 s before the end of the data.
    pub active: bool,
    /// When it was seen first, Unix nanoseconds; `None` when that is not known.
    pub first_seen_ns: Option<u64>,
    /// When it showed: episodes in the order of time, 10 s of silence between two of them.
    pub episodes: Vec<Episode>,
    /// What it costs.
    pub impact: Impact,
    /// Where it was seen.
    #[serde(rename = "where")]
    pub place: Place,
    /// The end that sends the requests.
    pub requester: Option<End>,
    /// The end that answers them.
    pub responder: Option<End>,
    /// Ids of findings that cause this one.
    pub causes: Vec<&'static str>,
    /// Ids of findings that this one causes.
    pub effects: Vec<&'static str>,
    /// What to do, step by step.
    pub steps: Vec<Step>,
    /// When the finding may be wrong, and what it does not see.
    pub caveats: Vec<String>,
}

impl Finding {
    /// A finding of which nothing is known but these.
    #[must_use]
    pub fn new(id: &'static str, severity: Severity, title: String) -> Self {
        Self {
            id,
            severity,
            title,
            evidence: EvidenceList::default(),
            flows: Vec::new(),
            named: FlowSet::default(),
            advice: String::new(),
            last_seen_ns: None,
            active: true,
            first_seen_ns: None,
            episodes: Vec::new(),
            impact: Impact::default(),
            place: Place::default(),
            requester: None,
            responder: None,
            causes: Vec::new(),
            effects: Vec::new(),
            steps: Vec::new(),
            caveats: Vec::new(),
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs performance, or will.
    Warning,
    /// Stops traffic, or makes the figures wrong.
    Critical,
}

/// A time during which a finding showed without 10 s of silence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Episode {
    /// Its begin, Unix nanoseconds.
    pub first_ns: u64,
    /// Its end, Unix nanoseconds.
    pub last_ns: u64,
    /// The largest value of the finding's own measure in it: a ratio where the title has a ratio, else a count;
    /// `None` when that is not known.
    pub peak: Option<f64>,
}

/// What a finding costs, in its latest episode; `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Impact {
    /// Share of the packets of the flows concerned, 0 to 1.
    pub packets_ratio: Option<f64>,
    /// Packets retransmitted because of it.
    pub retransmissions: Option<u64>,
    /// Payload bytes that were lost or sent more than once.
    pub goodput_lost_bytes: Option<u64>,
    /// Time that senders waited because of it, nanoseconds, summed over queue pairs.
    pub time_lost_ns: Option<u64>,
}

/// Where a finding was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The tap: an interface, or a capture file.
    pub tap: Option<String>,
    /// The link.
    pub link: Option<String>,
    /// Direction of the link.
    #[serde(serialize_with = "direction")]
    pub direction: Option<Direction>,
    /// Upstream or downstream of the tap, or between two taps.
    pub hop: Option<String>,
    /// Switch and port at the other end of the link, as LLDP names them.
    pub switch_port: Option<String>,
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference to the field"
)]
fn direction<S: Serializer>(direction: &Option<Direction>, serializer: S) -> Result<S::Ok, S::Error> {
    direction.map(direction_name).serialize(serializer)
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Its address.
    pub addr: IpAddr,
    /// Its queue pair number; `None` when it is not known or there are several.
    pub qpn: Option<u32>,
    /// Process that owns the queue pair, where it runs on this host.
    pub pid: Option<u32>,
    /// Command name of the process.
    pub comm: Option<String>,
    /// Kubernetes pod of the process.
    pub pod: Option<String>,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What to do.
    pub text: String,
    /// The command that does it on this host.
    pub command: Option<String>,
}

/// What a number of the evidence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Something counted, or a plain number.
    Count,
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
}

/// One measurement of the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Its name in the report.
    pub name: String,
    /// Its name on screens, in words.
    pub label: String,
    /// Number, name or list of them; null is not known.
    pub value: Value,
    /// What it counts.
    pub unit: Unit,
}

impl Evidence {
    /// A measurement whose label and unit follow from its name.
    #[must_use]
    pub fn named(name: &str, value: Value) -> Self {
        let ends = |ending: &str| name == ending.trim_start_matches('_') || name.ends_with(ending);
        let unit = match &value {
            Value::String(_) => Unit::Text,
            _ if ends("_seen_ns") || ends("_at_ns") => Unit::Time,
            _ if ends("_ns") => Unit::Nanoseconds,
            _ if ends("_ratio") || ends("_share") || ends("normalized") => Unit::Ratio,
            _ if ends("_over_mean") || ends("_times") => Unit::Factor,
            _ if ends("_bytes") => Unit::Bytes,
            _ if ends("_bps") => Unit::BitsPerSecond,
            _ if ends("_per_s") => Unit::PerSecond,
            _ => Unit::Count,
        };
        let words = ["_ns", "_bytes", "_bps", "_ratio"].iter().fold(name, |name, unit| {
            if name.len() > unit.len() { name.trim_end_matches(unit) } else { name }
        });
        Self { name: name.to_owned(), label: words.replace('_', " "), value, unit }
    }

    /// The value with its unit, for people; a dash when it is not known.
    #[must_use]
    pub fn text(&self) -> String {
        one(&self.value, self.unit)
    }
}

fn one(value: &Value, unit: Unit) -> String {
    let number = value.as_f64();
    match (value, unit) {
        (Value::Null, _) => units::UNKNOWN.to_owned(),
        (Value::Array(all), _) => all.iter().map(|value| one(value, unit)).collect::<Vec<_>>().join(", "),
        (Value::String(text), _) => text.clone(),
        (Value::Number(_), Unit::Ratio) => units::ratio(number),
        (Value::Number(_), Unit::Factor) => number.map_or_else(String::new, |n| format!("{n:.2}×")),
        (Value::Number(n), Unit::Nanoseconds) => n.as_u64().map_or_else(|| n.to_string(), units::duration),
        (Value::Number(n), Unit::Time) => n.as_u64().map_or_else(|| n.to_string(), units::second_utc),
        (Value::Number(n), Unit::Bytes) => n.as_u64().map_or_else(|| n.to_string(), units::bytes),
        (Value::Number(_), Unit::BitsPerSecond) => number.map_or_else(String::new, units::bit_rate),
        (Value::Number(_), Unit::PerSecond) => number.map_or_else(String::new, |n| format!("{n:.0}/s")),
        (Value::Number(n), _) => match n.as_u64() {
            Some(n) => units::count(n),
            None => number.map_or_else(String::new, |n| format!("{n:.2}")),
        },
        (other, _) => other.to_string(),
    }
}

/// The evidence of a finding by name; in the report an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvidenceList(Vec<Evidence>);

impl EvidenceList {
    /// Adds a measurement, or replaces the one of this name.
    pub fn insert(&mut self, evidence: Evidence) {
        match self.0.binary_search_by(|known| known.name.cmp(&evidence.name)) {
            Ok(at) => self.0[at] = evidence,
            Err(at) => self.0.insert(at, evidence),
        }
    }

    /// The measurement of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Evidence> {
        self.0.iter().find(|evidence| evidence.name == name)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Evidence> {
        self.0.iter()
    }
}

impl Index<&str> for EvidenceList {
    type Output = Value;

    /// Null where there is none of this name.
    fn index(&self, name: &str) -> &Value {
        self.get(name).map_or(&Value::Null, |evidence| &evidence.value)
    }
}

impl Serialize for EvidenceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|evidence| (&evidence.name, &evidence.value)))
    }
}

/// A kind of finding that could not be evaluated: its absence says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NotEvaluated {
    /// Which kind.
    pub id: &'static str,
    /// What the source does not collect.
    pub needs: &'static str,
}
