//! The truth of a run, written beside its captures: required and forbidden findings.

use serde_json::{Value, json};

use super::facts::Facts;
use super::tap::{Counted, EPOCH_NS};

/// The place of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not checked: the finding concerns the whole capture.
    Any,
    /// A host's address: the faulty host, or the affected one.
    Host(String),
    /// Both ends of a connection or of a path.
    Pair(String, String),
    /// A link, by the name of its capture.
    Link(String),
    /// Between two taps, in this order.
    Hop(String, String),
}

impl Place {
    /// Two hosts by their LIDs, as captures of the InfiniBand link layer show them.
    pub(crate) fn of_lids(a: usize, b: usize) -> Self {
        let [a, b] = [a, b].map(|host| format!("lid:{:#06x}", host + 1));
        Self::Pair(a, b)
    }
}

/// Stands for any value of evidence but null.
pub(super) const ANY: &str = "*";

/// A required diagnosis.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Correct findings, of which any suffices.
    pub ids: Vec<&'static str>,
    /// Its place.
    pub place: Place,
    /// The time range in which it holds, in Unix time; `None` for the whole capture.
    pub window: Option<(u64, u64)>,
    /// When it begins and ends, in Unix time: earliest and latest `first_seen_ns`, then `last_seen_ns`.
    pub seen: Option<[(u64, u64); 2]>,
    /// Values that its evidence must have.
    pub evidence: Vec<(&'static str, String)>,
    /// Address of the responder that it must name.
    pub responder: Option<String>,
    /// Severity info suffices, since the capture cannot show the impact.
    pub info: bool,
}

/// A figure of the report whose true value is known, with its minimum and maximum.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name, for the score.
    pub name: &'static str,
    /// Computes the figure from a report.
    pub of: fn(&Value) -> Option<f64>,
    /// Minimum and maximum of the correct value.
    pub range: (f64, f64),
}

/// The truth of one run.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Required diagnoses. Empty for a clean control: then nothing may have severity warning or critical.
    pub expected: Vec<Expected>,
    /// Further findings allowed with severity warning or critical: consequences, or alternative descriptions.
    pub also: Vec<&'static str>,
    /// Findings forbidden at any severity.
    pub never: Vec<&'static str>,
    /// Figures to be checked.
    pub figures: Vec<Figure>,
    /// Counts of the taps, by file.
    pub counted: Vec<(String, Counted)>,
    /// What the simulator did.
    pub facts: Facts,
}

impl Expected {
    /// A diagnosis at a place.
    pub(crate) fn new(ids: &[&'static str], place: Place) -> Self {
        let (window, seen, evidence, responder) = (None, None, Vec::new(), None);
        Self { ids: ids.to_vec(), place, window, seen, evidence, responder, info: false }
    }

    /// Restricts it to a range of simulation time.
    pub(crate) fn during(mut self, from_ns: u64, to_ns: u64) -> Self {
        self.window = Some((EPOCH_NS + from_ns, EPOCH_NS + to_ns));
        self
    }

    /// Its beginning and end in simulation time, each up to `tolerance_ns` early or late.
    pub(crate) fn seen(mut self, (first_ns, last_ns): (u64, u64), tolerance_ns: u64) -> Self {
        let near = |ns: u64| (EPOCH_NS + ns - ns.min(tolerance_ns), EPOCH_NS + ns + tolerance_ns);
        self.seen = Some([near(first_ns), near(last_ns)]);
        self
    }

    /// A value of its evidence.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.evidence.push((name, value));
        self
    }

    /// A value that its evidence must have, whatever it is.
    pub(crate) fn having(self, name: &'static str) -> Self {
        self.with(name, ANY.to_owned())
    }

    /// The address of the responder.
    pub(crate) fn of_responder(mut self, addr: String) -> Self {
        self.responder = Some(addr);
        self
    }

    pub(crate) fn or_info(mut self) -> Self {
        self.info = true;
        self
    }
}

impl Truth {
    /// JSON, as written beside the captures.
    pub fn json(&self, name: &str, seed: u64) -> Value {
        let expected = |e: &Expected| {
            json!({
                "ids": e.ids, "place": format!("{:?}", e.place), "window_ns": e.window, "seen_ns": e.seen,
                "evidence": e.evidence, "responder": e.responder,
            })
        };
        let counted = |(file, c): &(String, Counted)| {
            json!({
                "file": file, "packets": c.packets, "opcodes": c.opcodes, "retransmissions": c.retransmissions,
                "sequence_naks": c.sequence_naks, "other_naks": c.other_naks, "rnr_naks": c.rnr_naks,
                "acks": c.acks, "ce": c.ce,
            })
        };
        json!({
            "scenario": name, "seed": seed,
            "expected": self.expected.iter().map(expected).collect::<Vec<_>>(),
            "also": self.also, "never": self.never,
            "figures": self.figures.iter().map(|f| json!({ "name": f.name, "range": [f.range.0, f.range.1] })).collect::<Vec<_>>(),
            "counted": self.counted.iter().map(counted).collect::<Vec<_>>(),
            "lost": self.facts.lost, "lost_data": self.facts.lost_data,
            "lost_copies": self.facts.lost_copies, "timeouts": self.facts.timeouts,
            "acks_lost": self.facts.acks_lost,
            "died": self.facts.died.len(), "ce_marks": self.facts.marked,
        })
    }
}
