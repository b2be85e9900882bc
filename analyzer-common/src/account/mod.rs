//! Per-flow counters, and [`observe`], the one function that updates them.

pub mod bin;
mod bits;
pub mod flow;
pub mod flowlet;
pub mod latency;
pub mod message;
pub mod psn;

pub use bin::FlowBin;
pub use flow::{Event, FlowCounters, FlowKey, FlowStats, Mixed, Outcome, PackedOutcome, Rare, observe};
pub use psn::PsnTrack;
