//! Per-flow counters, and [`observe`], the one function that updates them.

pub mod bin;
mod bits;
pub mod flow;
pub mod flowlet;
pub mod histogram;
pub mod latency;
pub mod message;
pub mod outcome;
pub mod part;
pub mod psn;

pub use bin::FlowBin;
pub use flow::{FlowCounters, FlowKey, FlowStats, Mixed, Rare, Seldom, observe, observe_into, observe_next};
pub use outcome::{Event, Outcome, PackedOutcome};
pub use part::Part;
pub use psn::{Disorder, PsnTrack};
