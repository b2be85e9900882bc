//! State of a job as NCCL's RAS, its service for clients on the same host, reports it.

use std::net::IpAddr;

use serde::Serialize;

/// Operations that NCCL counts. The last one stands for all of them together, where NCCL (up to 2.25) does not tell
/// them apart, and for those with other names.
pub const OPERATIONS: [&str; 6] =
    ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "collective"];

/// Operations launched so far, in the order of [`OPERATIONS`]; `None` where the answer does not say.
pub type Launched = [Option<u64>; OPERATIONS.len()];

/// State of a rank in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RankState {
    /// Initialization goes on.
    Init,
    /// Ready for operations.
    Running,
    /// Finalized or destroyed.
    Finalize,
    /// Aborted.
    Abort,
    /// Its process answers and is not a member: not yet, or not any more.
    NoComm,
    /// Its process does not answer NCCL's own queries.
    Unresponsive,
    /// NCCL has given its process up: it did not answer for 60 s.
    Dead,
}

impl RankState {
    /// By the name in text answers.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "INIT" => Self::Init,
            "RUNNING" => Self::Running,
            "FINALIZE" => Self::Finalize,
            "ABORT" => Self::Abort,
            "NOCOMM" | "UNKNOWN" => Self::NoComm,
            _ => return None,
        })
    }

    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Running => "running",
            Self::Finalize => "finalize",
            Self::Abort => "abort",
            Self::NoComm => "no_comm",
            Self::Unresponsive => "unresponsive",
            Self::Dead => "dead",
        }
    }
}

/// The error of a rank that another one made fail.
pub const REMOTE_ERROR: (i64, &str) = (6, "Remote process error");

/// A process of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    /// Address of its host, of the interface that NCCL bootstraps over: rarely that of its queue pairs. Null: not known
    /// to NCCL.
    pub host: Option<IpAddr>,
    /// The process, by the number in its own PID namespace. Null: as `host`.
    pub pid: Option<u32>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// Number in the communicator.
    pub rank: u32,
    /// Process of the rank.
    pub process: Process,
    /// Number of the CUDA device.
    pub gpu: Option<u32>,
    /// `None` where the answer does not say.
    pub state: Option<RankState>,
    /// Error of its initialization, or asynchronous error.
    pub error: Option<&'static str>,
    /// Operations that it has launched.
    pub launched: Launched,
    /// Its process on this host, by the number that the kernel has for it here; `None` on other hosts, and where
    /// several fit.
    pub local: Option<u32>,
    /// The first answer in a row in which it was behind with the same operations launched, Unix nanoseconds.
    pub behind_since_ns: Option<u64>,
    /// The first answer in a row with this state and error.
    pub state_since_ns: u64,
}

impl Rank {
    /// A rank of which nothing else is known.
    pub(crate) fn new(rank: u32) -> Self {
        Self { rank, ..Self::default() }
    }

    /// Operations that other ranks have launched and this one has not.
    pub fn behind(&self, furthest: &Launched) -> u64 {
        let of = |(most, own): (&Option<u64>, &Option<u64>)| Some((*most)?.saturating_sub((*own)?));
        furthest.iter().zip(&self.launched).filter_map(of).fold(0, u64::saturating_add)
    }
}

/// Identity of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommId {
    /// NCCL's hash, as in its log.
    pub hash: u64,
    /// Hashes of host and process, of answers in JSON.
    pub secondary: Option<(u64, u64)>,
}

/// NCCL communicator as one answer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// Identity of the communicator.
    pub id: CommId,
    /// Ranks that it has.
    pub size: Option<u32>,
    /// The most that any rank has launched, by operation.
    pub furthest: Launched,
    /// Ranks that the answer lists: all of them in JSON, outliers in text.
    pub ranks: Vec<Rank>,
    /// Latest answer with it, Unix nanoseconds.
    pub seen_ns: u64,
}

/// An answer to a query of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Version of NCCL that answered.
    pub version: Option<String>,
    /// True if it lists all communicators and ranks, as JSON does; text lists those that differ.
    pub whole: bool,
    /// Communicators of the job; in text also those that the answer does not list.
    pub communicators: u64,
    /// Those that are listed.
    pub listed: Vec<Communicator>,
    /// Processes that are considered dead, of text answers.
    pub dead: Vec<Process>,
    /// Time that NCCL took to collect it.
    pub collection_ns: Option<u64>,
    /// Timeouts between NCCL's processes meanwhile.
    pub timeouts: Option<u64>,
    /// Lines of a text answer that say something unknown.
    pub not_understood: u64,
}

/// An event of NCCL's monitor (2.29 and newer).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "NcclEvent"))]
pub struct Event {
    /// Time at which it was received. Unit: Unix ns.
    pub time_ns: u64,
    /// Name of the event: `PEER_NEW`, `PEER_DEAD` …
    pub event: String,
    /// The process that it is about.
    #[serde(flatten)]
    pub process: Process,
}

/// State of the jobs that answer at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nccl {
    /// Address of the RAS service.
    pub address: String,
    /// Reason why the latest query had no answer.
    pub unavailable: Option<String>,
    /// Queries that were answered, and that were not.
    pub answers: u64,
    /// Queries without an answer.
    pub failures: u64,
    /// Time of the latest answer, Unix nanoseconds.
    pub answered_ns: Option<u64>,
    /// Time between two queries.
    pub interval_ns: u64,
    /// The latest answer, without its communicators.
    pub latest: Answer,
    /// Communicators seen lately, by id.
    pub communicators: Vec<Communicator>,
    /// Latest events, in order.
    pub events: Vec<Event>,
    /// Events that there was no room for.
    pub events_left_out: u64,
}
