//! Declaration of a family of findings: entries, thresholds, evidence labels and check.

use std::fmt;

use super::{Finding, Input, Problem, Unit};
use crate::analysis::Facts;
use crate::entity::lives::Calls;
use crate::sample::{Sample, UntimedCounter};

/// The findings of one module.
#[derive(Clone, Copy)]
pub struct Family {
    /// Its kinds of findings.
    pub entries: &'static [Entry],
    /// Its thresholds, by table of the configuration file.
    pub limits: &'static [&'static [LimitMeta]],
    /// Labels and units of its evidence, if the name does not imply them.
    pub evidence: &'static [Label],
    /// Adds its findings.
    pub check: fn(&Input<'_>, &mut Vec<Finding>),
}

impl fmt::Debug for Family {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.entries.iter().map(|entry| entry.id)).finish()
    }
}

/// One kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Family and name, joined with a dot: `loss.before_tap`.
    pub id: &'static str,
    /// Its kind, for the STATE column and the badges of the header.
    pub problem: Problem,
    /// The kind of some of its findings, where they differ.
    pub or: Option<Problem>,
    /// Position in the order of findings of the same severity: causes have lower numbers than their effects. Unique.
    pub rank: u16,
    /// Ids of findings that can cause it, if they name the same hosts at the same time.
    pub causes: &'static [&'static str],
    /// It concerns only the queue pairs that it names, and causes no findings in others between the same hosts.
    pub of_queue_pairs: bool,
    /// Reason why it has no episodes; `None` if it has.
    pub lasting: Option<NoEpisodes>,
    /// Data that a source must collect for it.
    pub needs: &'static [RequiredData],
    /// The counter without times that it rests on: its growth between two readings dates a finding without episodes.
    pub grows: Option<UntimedCounter>,
    /// The evidence value that measures severity; `None` if no value is independent of the length of the run.
    pub measure: Option<Measure>,
    /// The diagnosis in a few words, at most 80 characters.
    pub title: &'static str,
    /// Its consequences for the traffic and the job.
    pub meaning: &'static str,
    /// The figures and the rule by which it is raised, with the severities it can have.
    pub computed: &'static str,
    /// Remedy, with the names of real settings.
    pub advice: &'static str,
    /// Cases in which it may be wrong, and what it does not cover.
    pub caveat: &'static str,
}

impl Entry {
    /// Defaults of optional fields of an entry of this kind.
    pub const fn of(problem: Problem) -> Self {
        Self {
            id: "",
            problem,
            or: None,
            rank: u16::MAX,
            causes: &[],
            of_queue_pairs: false,
            lasting: None,
            needs: &[],
            grows: None,
            measure: None,
            title: "",
            meaning: "",
            computed: "",
            advice: "",
            caveat: "",
        }
    }

    /// The two parts of its id: family and name.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.id.split_once('.').unwrap_or((self.id, self.id))
    }
}

/// Reason why a kind of finding has no episodes: it does not end with the last packet that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEpisodes {
    /// It holds until someone changes it.
    Setting,
    /// The NIC reports its state without a time.
    State,
}

impl NoEpisodes {
    /// The reason in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Setting => "a setting holds until it is changed, and when it was made is not visible",
            Self::State => "the NIC reports the state of a queue pair, and not since when",
        }
    }
}

/// A threshold: a field of a family's `Limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitMeta {
    /// Table in the configuration file, within `[findings]`.
    pub table: &'static str,
    /// Name in that table.
    pub field: &'static str,
    /// The default, as written in the configuration file.
    pub default: &'static str,
    /// Unit and meaning.
    pub meaning: &'static str,
    /// Reason for this value, and its origin.
    pub reason: &'static str,
}

/// Label and unit of an evidence value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name in the report.
    pub name: &'static str,
    /// Name on screens, in words.
    pub label: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Of several findings of the kind, the sum of their values is a figure too.
    pub is_sum: bool,
}

impl Label {
    /// The same of a value that findings of one kind add up to.
    pub(super) const fn summed(self) -> Self {
        Self { is_sum: true, ..self }
    }
}

/// Declares label and unit of an evidence value.
pub(super) const fn label(name: &'static str, label: &'static str, unit: Unit) -> Label {
    Label { name, label, unit, is_sum: false }
}

/// Direction in which a measure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher is better.
    More,
    /// Lower is better.
    Less,
}

/// The evidence value that measures the severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name in the evidence.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// It alone decides whether a problem is a warning or critical.
    pub grades: bool,
}

impl Measure {
    /// A ratio, of which lower is better.
    pub const fn ratio(name: &'static str) -> Self {
        Self { name, unit: Unit::Ratio, better: Better::Less, grades: false }
    }

    /// The same, from a threshold of which the finding is critical.
    #[must_use]
    pub const fn grading(self) -> Self {
        Self { grades: true, ..self }
    }
}

/// Data that a source must collect for a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredData {
    /// Order and exact times of packets, for bursts and steps.
    Traffic,
    /// The same, for pairs of queue pairs.
    Pairs,
    /// The same, for latency.
    Latency,
    /// The same, for loss.
    Loss,
    /// The same, or the kernel's control path of queue pairs.
    Deaths,
    /// Every packet of several taps: live runs store none.
    Taps,
    /// The order of the taps of every flow that lacks packets at one.
    TapOrder,
    /// Every UC flow at the next tap, too: none of its packets is retransmitted if it does not arrive.
    UcAtNextTap,
    /// Complete frames: live runs read headers.
    Frames,
    /// Every sequence without interruption. In live runs, READ responses have no loss figures, nor have queue pairs
    /// with losses that are not timed all the time (no pair known, or too many of them).
    Sequences,
    /// Link speeds, needed to convert the quanta of pause frames to time.
    PauseTimes,
}

impl RequiredData {
    /// Name in the report (`not_evaluated[].needs`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traffic | Self::Pairs | Self::Latency | Self::Loss | Self::Deaths => "exact_times",
            Self::Taps => "packets_of_taps",
            Self::TapOrder => "order_of_taps",
            Self::UcAtNextTap => "uc_at_next_tap",
            Self::Frames => "whole_frames",
            Self::Sequences => "whole_sequences",
            Self::PauseTimes => "link_speed",
        }
    }

    /// True if the source of this sample does not collect it.
    pub(super) fn is_missing(self, sample: &Sample, facts: &Facts) -> bool {
        let metrics = &sample.metrics;
        match self {
            Self::Traffic => metrics.traffic.is_none(),
            Self::Pairs => metrics.pairs.is_none(),
            Self::Latency => metrics.latency.is_none(),
            Self::Loss => metrics.loss.is_none(),
            Self::Deaths => {
                let lives = &sample.devices.lives;
                let followed = lives.unavailable.is_none() && lives.calls != Calls::default();
                metrics.loss.is_none() && !followed
            }
            Self::Taps => metrics.taps.is_none(),
            Self::TapOrder => facts.unordered().next().is_some(),
            Self::UcAtNextTap => facts.uc_at_first_only().next().is_some(),
            Self::Frames => metrics.icrc.is_none(),
            Self::Sequences => {
                metrics.loss.is_some() && facts.flows.iter().any(super::not_evaluated::is_not_evaluated)
            }
            Self::PauseTimes => {
                let untimed = metrics.control.as_ref().filter(|control| control.stalled.is_none());
                untimed.is_some_and(|control| control.links.values().any(|link| !link.pauses.is_empty()))
            }
        }
    }
}

/// Declares the thresholds of a table of the configuration file, each once with type, default, meaning and reason.
macro_rules! limits {
    (
        $(#[$doc:meta])*
        pub struct $limits:ident = $table:literal;
        $($field:ident: $type:ty = $default:expr, $meaning:literal, $reason:literal;)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[allow(clippy::struct_field_names, reason = "they are names in the configuration file")]
        pub struct $limits {
            $(#[doc = $meaning] pub $field: $type,)+
        }

        impl $limits {
            /// Declarations of the thresholds.
            const META: &'static [crate::findings::LimitMeta] = &[
                $(crate::findings::LimitMeta {
                    table: $table,
                    field: stringify!($field),
                    default: stringify!($default),
                    meaning: $meaning,
                    reason: $reason,
                },)+
            ];
        }

        impl Default for $limits {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

/// Declares all families with their threshold tables.
macro_rules! families {
    ($($family:ident [$($table:ident: $limits:ty),*],)+) => {
        /// All families, in the order in which they are checked.
        pub const FAMILIES: &[Family] = &[$($family::FAMILY,)+];

        /// The thresholds of all families, as in the `[findings]` table of the configuration file.
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "each family describes its own")]
        pub struct Limits {
            $($(pub $table: $limits,)*)+
        }
    };
}
