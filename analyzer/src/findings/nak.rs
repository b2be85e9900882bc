//! Requests that a responder refused for good.

use serde::Deserialize;

use super::once::once;
use super::{Entry, Input, LimitMeta, Raise};
use crate::report::{Finding, Flow, LastNaks, Naks, Severity};
use crate::units::plural;

/// Kinds of this family.
pub(super) const ENTRIES: &[Entry] = &[ACCESS, OPERATIONAL, INVALID];

const ACCESS: Entry = Entry {
    id: "nak.remote_access_error",
    title: "A responder denies access to its memory",
    meaning: "A request named a remote key or an address that the responder does not grant. The queue pair goes into the error state: the job that uses it ends or hangs.",
    computed: "Raised from `errors` NAKs with code 2 (remote access error) on; critical, since no connection survives one.",
    advice: "It is the application's matter, not the network's: a region that was deregistered too early, a wrong remote key, an access beyond the end, a missing permission \
             (IBV_ACCESS_REMOTE_WRITE/READ), or a peer that restarted and still gets requests for its former self. Look at the logs of the process that owns the responder's queue pair.",
    caveat: "",
};
const OPERATIONAL: Entry = Entry {
    id: "nak.remote_operational_error",
    title: "A responder failed to carry out a request",
    meaning: "The responder's device hit an error of its own while it worked on a request. The queue pair goes into the error state.",
    computed: "Raised from `errors` NAKs with code 3 (remote operational error) on; critical.",
    advice: "Look at the responder's kernel log and firmware events (`dmesg`, `devlink health`), PCIe errors (AER) and memory errors; with GPU memory also at the GPU's (Xid events) and at \
             the peer-memory driver.",
    caveat: "",
};
const INVALID: Entry = Entry {
    id: "nak.invalid_request",
    title: "A responder calls a request invalid",
    meaning: "The responder does not understand the request, or does not permit it at all: an operation that is not enabled for the queue pair, a message longer than its receive buffer, too \
              many READs or atomics at a time. The queue pair goes into the error state.",
    computed: "Raised from `errors` NAKs with code 1 (invalid request) on; critical.",
    advice: "Compare the two ends' settings: path MTU, max_dest_rd_atomic against max_rd_atomic, the queue pair's access flags, the sizes of posted receive buffers, versions of library and \
             application.",
    caveat: "",
};

/// Thresholds of this family.
pub(super) const LIMITS: &[LimitMeta] = &[LimitMeta {
    name: "nak.errors",
    default: "1",
    meaning: "NAKs of one kind from which it is a finding",
    reason: "Each of them ends a connection",
}];

/// Thresholds of this family.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub errors: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { errors: 1 }
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    type Kind = (&'static Entry, &'static str, fn(&Naks) -> u64, fn(&LastNaks) -> Option<u64>);
    let kinds: [Kind; 3] = [
        (
            &ACCESS,
            "denies access to its memory",
            |naks| naks.remote_access_error,
            |last| last.remote_access_error,
        ),
        (
            &OPERATIONAL,
            "failed to carry out requests",
            |naks| naks.remote_operational_error,
            |last| last.remote_operational_error,
        ),
        (&INVALID, "calls requests invalid", |naks| naks.invalid_request, |last| last.invalid_request),
    ];
    for (entry, what, of, last) in kinds {
        let flows = once(&input.report.flows, |flow| of(&flow.ack.naks));
        let naks: u64 = flows.iter().map(|(_, naks)| naks).sum();
        let Some((worst, _)) = flows.first().filter(|_| naks >= input.limits.nak.errors.max(1)) else {
            continue;
        };
        let more = match flows.len() - 1 {
            0 => String::new(),
            n => format!(", and {}", plural(n as u64, "more queue pair")),
        };
        let title = format!("{} {what}: NAK to QP {} of {}{more}", worst.src, worst.dest_qp, worst.dst);
        Raise::new(entry, Severity::Critical, title)
            .evidence("naks", naks)
            .last_seen(latest(&flows, last))
            .flows(flows.iter().map(|(flow, _)| *flow))
            .into(found);
    }
}

/// When the latest NAK in any of these flows came; `None` when that of one is not known.
pub(super) fn latest(flows: &[(&Flow, u64)], last: fn(&LastNaks) -> Option<u64>) -> Option<u64> {
    let each = flows.iter().map(|(flow, _)| flow.last_naks_ns.as_ref().and_then(last));
    each.collect::<Option<Vec<u64>>>()?.into_iter().max()
}
