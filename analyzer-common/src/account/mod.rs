//! What is counted per flow, and the one function that counts.

pub mod flow;
pub mod latency;
pub mod psn;
pub mod spurt;

pub use flow::{Event, FlowKey, FlowStats, Mixed, Outcome, observe};
pub use psn::PsnTrack;
