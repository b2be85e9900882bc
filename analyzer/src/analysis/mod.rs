//! Facts: what follows from one sample without a judgement.
//!
//! [`Facts::of`] sums, sorts, pairs and compares what a [`Sample`](crate::sample::Sample) has counted. Findings judge
//! facts, a report is facts and findings. The structs are those of `rocescope.report/1`, most of them in `facts`; the
//! doc comment of a field is its definition. An unknown value is `None` and becomes null.

mod build;
mod changed;
mod device;
mod device_qp;
pub(crate) mod direction_balance;
mod ecmp;
mod ecn;
mod entropy;
mod episodes;
mod facts;
mod fault_rank;
#[cfg(test)]
pub(crate) mod fixtures;
mod flow;
mod imbalance;
mod latency;
pub(crate) mod loss;
mod matrix;
mod missed;
mod naks;
mod nccl;
mod parallel;
mod paths;
pub(crate) mod ports;
mod posts;
mod qp_context;
mod qp_lives;
mod qp_paths;
mod same_path;
mod shape;
mod spray;
mod steps;
mod taps;
#[cfg(test)]
mod tests;
pub mod traffic;
pub(crate) mod uneven;
pub(crate) mod upstream;

pub use crate::entity::contexts::RawContext;
pub use crate::entity::devices::PortCounter;
pub use crate::entity::lives::{
    DEVX, ERROR, GONE, MonotonicTimes, NUMBER_REUSED, QpControl, QpEvent, TO_ERROR, own_port,
};
pub use crate::entity::nccl::{Event as NcclEvent, Process as NcclProcess, RankState};
use crate::sample::Direction;
use crate::util::definition::Definition;
use crate::util::layout::{plain, tap_name};

pub use crate::entity::posts::PostSampling;
pub use crate::metrics::latency::LatencyRange;
pub use crate::metrics::loss::Unfollowed;
pub use build::compare_links as imbalance;
pub use changed::{Field, FieldChange};
pub use device::{Coverage, Device, DeviceQpCounters, Pause, WHOLE, worst as worst_coverage};
pub use device_qp::{DeviceQp, QpSource};
pub use ecmp::{Case, Ecmp, Set, in_words as hashing_case, what_if};
pub use entropy::{QpSpread, Spread};
pub use episodes::Episodes;
pub(crate) use facts::ByLink;
pub use facts::{
    Ack, CeOverTime, Cnp, CompletionByOperation, DataEntropy, Dscp, DuplicatePackets, Ecn, EcnOverTime,
    Entropy, Facts, Flow, FlowEcn, FlowId, InputKind, Latency, LatencyByClass, Link, Lost, MixedIn, Naks,
    Opcode, Opcodes, Pairing, Port, Psn, Recorded, Retired, SequencePsns, Skipped, Source, Totals, Tunnels,
    TupleEntropy, Untimed, Window,
};
pub use fault_rank::FaultRank;
pub(crate) use flow::{Ports, opcodes};
pub use imbalance::{
    DirectionBalance, Imbalance, Load, OverTime, Rail, Rails, imbalances, rail_of, unknown_names,
};
pub(crate) use latency::peer;
pub use loss::{FlowIcrc, Icrc, LastNaks, Loss, SequenceLoss};
pub use naks::NakCauses;
pub use nccl::{Communicator, Nccl, NcclRank, RankQp};
pub use paths::{MultiTapCounts, Overlap};
pub use posts::{PostOpcode, PostSize, QpPosts};
pub use qp_context::QpContexts;
pub use qp_lives::{QpLives, QpSources};
#[cfg(test)]
pub(crate) use qp_paths::example as qp_paths_example;
pub use qp_paths::{QpBalance, QpPart, QpPaths};
pub use same_path::{Paths, SamePath};
pub use spray::Spray;
pub use taps::{BetweenTaps, DelayChange, DelayPoint, LostLarge, TapFlow};

/// A link in words: its name without the suffix of a capture file, and its direction.
pub fn link_name(name: &str, direction: Option<Direction>) -> String {
    let name = plain(&tap_name(name));
    match direction {
        Some(direction) => format!("{name} {}", direction_name(direction)),
        None => name,
    }
}

/// The numbers that facts rest on.
pub(crate) const DEFINITIONS: [&[Definition]; 10] = [
    device::DEFINITIONS,
    ecmp::DEFINITIONS,
    parallel::DEFINITIONS,
    paths::DEFINITIONS,
    spray::DEFINITIONS,
    imbalance::DEFINITIONS,
    uneven::DEFINITIONS,
    upstream::DEFINITIONS,
    missed::DEFINITIONS,
    shape::DEFINITIONS,
];

/// Source ports that a flow lists: those with most bytes.
pub const MAX_PORTS: usize = 16;

/// Options of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Names of links that share a load, one list per `--group`.
    pub groups: Vec<Vec<String>>,
    /// Compare all links of one direction too: live runs with two or more interfaces.
    pub imbalance_all_links: bool,
    /// Number of equal uplinks to hash the flows over, at least 2.
    pub ecmp: Option<u32>,
    /// Rails: a link and the name of its rail, one for each `--rail`.
    pub rails: Vec<(String, String)>,
    /// The expression that packets or flows had to match to be counted.
    pub filter: Option<String>,
}

/// The name of a direction in the report.
pub const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}
