//! The NIC's own context of queue pairs, and what follows from several of them.

use std::net::IpAddr;

use serde::Serialize;

use super::interval::Interval;
use crate::host::rdma::qp_context::QpContext;
use crate::util::small_list::SmallList;

/// Everything known from contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Queue pairs with a context, by device and number.
    pub qps: Vec<ContextSample>,
    /// Number and cost of the queries.
    pub queries: Queries,
}

/// A queue pair according to its contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextSample {
    /// Name of the RDMA device.
    pub device: String,
    /// Its port, from 1.
    pub port: u32,
    /// Queue pair number.
    pub lqpn: u32,
    /// Latest context that was read.
    pub context: QpContext,
    /// Address that it sends from, by the index in that context.
    pub src: Option<IpAddr>,
    /// Time of the latest context. Unit: Unix ns.
    pub read_ns: u64,
    /// The same by `CLOCK_MONOTONIC`, which does not step, in nanoseconds; `None` where it is not known, as in
    /// recordings.
    pub read_steady_ns: Option<u64>,
    /// Number of contexts read.
    pub readings: u64,
    /// PSNs sent since the first context, at least, up to the latest context that was followed by a reading of
    /// counters; `None` when the context has no such PSN.
    pub sent: Option<u64>,
    /// PSNs received since the first context, likewise.
    pub received: Option<u64>,
    /// Contexts since the previous one of which PSNs may have wrapped: there may have been more.
    pub ambiguous: u64,
    /// Packets sent and not acknowledged; `None` when the context does not tell.
    pub in_flight: Option<u32>,
    /// Time for which packets have been in flight without one being acknowledged, at least; 0 when it goes on; `None`
    /// as `in_flight`.
    pub stuck_ns: Option<u64>,
    /// Retries used up now, of those that are set.
    pub retries_used: Option<u8>,
    /// RNR retries used up now.
    pub rnr_retries_used: Option<u8>,
    /// Contexts that showed retries in use.
    pub retrying: u64,
    /// Contexts that showed RNR retries in use.
    pub rnr_retrying: u64,
    /// Contexts that showed a receive queue in use with no receive posted.
    pub receives_exhausted: u64,
    /// Times of contexts that showed these three.
    pub times: ContextTimes,
    /// Timeouts and sequence errors of the port that were its own; `None` when none was counted.
    pub blamed: Option<Blamed>,
}

/// Times in which successive contexts of a queue pair, or contexts less than 10 s apart, showed something: the oldest
/// first, by the readings that showed it, with those before the first of them and those up to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextTimes {
    /// Retries in use.
    pub retrying: SmallList<Interval>,
    /// RNR retries in use.
    pub rnr_retrying: SmallList<Interval>,
    /// A receive queue in use with no receive posted.
    pub exhausted: SmallList<Interval>,
}

impl ContextTimes {
    /// True if nothing showed.
    pub fn is_empty(&self) -> bool {
        let Self { retrying, rnr_retrying, exhausted } = self;
        [retrying, rnr_retrying, exhausted].into_iter().all(|times| times.is_empty())
    }
}

/// Errors that a port counted, attributed to a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blamed {
    /// Transport timeouts, shared with the other suspects of the same time unless it is certain.
    pub timeouts: u64,
    /// NAKs for a PSN sequence error, likewise.
    pub sequence_errors: u64,
    /// True when no other known queue pair of the port had a packet in flight each time.
    pub certain: bool,
}

/// A context that a driver returned and that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RawContext {
    /// RDMA device.
    pub device: String,
    /// Number of the queue pair.
    pub lqpn: u32,
    /// Length of what was read. Unit: bytes.
    pub bytes: u64,
    /// Reason for which it is not decoded.
    pub reason: String,
}

/// Queries for contexts, and their cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// Most queries a second; 0 for none.
    pub per_second: u32,
    /// Queue pairs with a context.
    pub queried: u64,
    /// Queue pairs whose context could be asked for: connected, of watched ports.
    pub of: u64,
    /// Queries that were answered.
    pub answered: u64,
    /// Those among them that the firmware answered through fwctl.
    pub by_firmware: u64,
    /// Queries that failed, without those about queue pairs that had ended.
    pub failed: u64,
    /// Time that queries took altogether. Unit: ns.
    pub took_ns: u64,
    /// The longest query. Unit: ns.
    pub longest_ns: u64,
    /// Devices that are not asked any more, and the reason.
    pub refused: Vec<(String, String)>,
    /// Contexts that were read and could not be decoded: the latest of each device.
    pub undecoded: Vec<RawContext>,
}
