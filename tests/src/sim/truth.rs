//! The truth of a run, written beside its captures: required and forbidden findings.

use serde_json::{Value, json};

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

/// A required diagnosis.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Correct findings, of which any suffices.
    pub ids: Vec<&'static str>,
    /// Its place.
    pub place: Place,
    /// The time range in which it holds, in Unix time; `None` for the whole capture.
    pub window: Option<(u64, u64)>,
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
    /// Number of RoCE packets lost in the fabric.
    pub lost: u64,
    /// Requests and READ responses among these.
    pub lost_data: u64,
    /// Transport timeouts of all requesters.
    pub timeouts: u64,
    /// Queue pairs in the error state at the end.
    pub died: u64,
    /// CE marks set.
    pub marked: u64,
    /// Packets that a switch trimmed.
    pub trimmed: u64,
    /// Packets that a fault delayed.
    pub delayed: u64,
    /// Packets of which a fault changed headers or payload.
    pub changed: u64,
    /// Packets that a fault sent twice.
    pub copied: u64,
}

impl Expected {
    /// A diagnosis at a place.
    pub(crate) fn new(ids: &[&'static str], place: Place) -> Self {
        Self { ids: ids.to_vec(), place, window: None, info: false }
    }

    /// Restricts it to a range of simulation time.
    pub(crate) fn during(mut self, from_ns: u64, to_ns: u64) -> Self {
        self.window = Some((EPOCH_NS + from_ns, EPOCH_NS + to_ns));
        self
    }

    pub(crate) fn or_info(mut self) -> Self {
        self.info = true;
        self
    }
}

impl Truth {
    /// True if the fault of this kind of scenario occurred: packets were lost, changed, delayed or marked, timers expired, queue
    /// pairs died. True of kinds for which nothing is counted.
    #[must_use]
    pub fn happened(&self, kind: &str, name: &str) -> bool {
        let Some((_, first)) = self.counted.first() else { return false };
        let seen = |opcode: u8| first.opcodes.get(&opcode).copied().unwrap_or(0);
        match kind {
            "loss" => self.lost >= 10 && self.died == 0,
            "timeouts" => self.timeouts >= 5 && self.died == 0,
            "died" if name != "died-stops-in-mid-message" => self.died > 0,
            "nak" => self.died == 2 && first.other_naks == 1,
            "incast" | "ecn" => self.marked + self.lost >= 100,
            "rnr" => first.rnr_naks >= 20,
            "cnp" => seen(0x81) >= 20,
            "cm" => seen(0x64) >= 1,
            "icrc" => self.changed >= 5,
            "rewritten" => self.changed >= 10,
            "duplicates" if name == "duplicates-made-by-network" => self.copied >= 20,
            // Beside the copies, half of all packets.
            "duplicates" => first.packets >= 1_000,
            "reordering" => self.delayed >= 10 && self.died == 0,
            "latency" => self.delayed >= 1 && self.lost == 0,
            "uplinks" if !name.contains("uneven") => self.marked + self.lost + self.delayed >= 20,
            "slower" if name == "slower-by-loss" => self.lost >= 10,
            "mtu" if name.contains("black-hole") => self.lost_data >= 10,
            "control" => self.timeouts == 0 && self.died == 0 && self.lost <= 3,
            _ => true,
        }
    }

    /// JSON, as written beside the captures.
    #[must_use]
    pub fn json(&self, name: &str, seed: u64) -> Value {
        let expected =
            |e: &Expected| json!({ "ids": e.ids, "place": format!("{:?}", e.place), "window_ns": e.window });
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
            "lost": self.lost, "lost_data": self.lost_data, "timeouts": self.timeouts, "died": self.died,
            "ce_marks": self.marked,
        })
    }
}
