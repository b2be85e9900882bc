//! A subset of the queue pairs: those of a finding, a host pair, a link or a process.

use crate::analysis::FlowId;
use crate::sample::Address;

/// Queue pairs that something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    /// Its subject in a few words.
    pub about: String,
    /// Condition for the queue pairs shown.
    pub on: FocusCondition,
}

/// Condition that queue pairs meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FocusCondition {
    /// Those that a finding lists.
    Flows(Vec<FlowId>),
    /// Those from one host to another.
    Hosts(Address, Address),
    /// Those from a host or to it.
    Host(Address),
    /// Those of the processes of a pod; `None` for those without.
    Pod(Option<String>),
    /// Those of the processes of a job; `None` for those without.
    Job(Option<String>),
    /// Those on these links: the directions of one.
    Links(Vec<u16>),
    /// Those of a process; `None` for those whose process is not known.
    Process(Option<String>),
}
