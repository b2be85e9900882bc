//! Requests that a responder refused for good.

use std::collections::HashSet;
use std::net::IpAddr;

use super::once::once;
use super::{Entry, Family, Input, Raise};
use crate::analysis::{Flow, LastNaks, Naks};
use crate::findings::{Finding, Severity};
use crate::util::units::plural;

/// This family.
pub(super) const FAMILY: Family = Family {
    entries: &[ACCESS, OPERATIONAL, INVALID, SEQUENCE],
    limits: &[Limits::META],
    evidence: &[],
    check,
};

const ACCESS: Entry = Entry {
    id: "nak.remote_access_error",
    rank: 160,
    title: "A responder denies access to its memory",
    meaning: "A request named a remote key or an address that the responder does not grant. The queue pair goes into the error state: the job that uses it ends or hangs.",
    computed: "Raised from `errors` NAKs with code 2 (remote access error) on; critical, since no connection survives one.",
    advice: "It is the application's matter, not the network's: a region that was deregistered too early, a wrong remote key, an access beyond the end, a missing permission \
             (IBV_ACCESS_REMOTE_WRITE/READ), or a peer that restarted and still gets requests for its former self. Look at the logs of the process that owns the responder's queue pair.",
    caveat: "",
    ..Entry::EMPTY
};
const OPERATIONAL: Entry = Entry {
    id: "nak.remote_operational_error",
    rank: 170,
    title: "A responder failed to carry out a request",
    meaning: "The responder's device hit an error of its own while it worked on a request. The queue pair goes into the error state.",
    computed: "Raised from `errors` NAKs with code 3 (remote operational error) on; critical.",
    advice: "Look at the responder's kernel log and firmware events (`dmesg`, `devlink health`), PCIe errors (AER) and memory errors; with GPU memory also at the GPU's (Xid events) and at \
             the peer-memory driver.",
    caveat: "",
    ..Entry::EMPTY
};
const INVALID: Entry = Entry {
    id: "nak.invalid_request",
    rank: 180,
    title: "A responder calls a request invalid",
    meaning: "The responder does not understand the request, or does not permit it at all: an operation that is not enabled for the queue pair, a message longer than its receive buffer, too \
              many READs or atomics at a time. The queue pair goes into the error state.",
    computed: "Raised from `errors` NAKs with code 1 (invalid request) on; critical.",
    advice: "Compare the two ends' settings: path MTU, max_dest_rd_atomic against max_rd_atomic, the queue pair's access flags, the sizes of posted receive buffers, versions of library and \
             application.",
    caveat: "",
    ..Entry::EMPTY
};

const SEQUENCE: Entry = Entry {
    id: "nak.psn_sequence_error",
    rank: 250,
    title: "Receivers ask again for data that does not pass here",
    meaning: "NAKs for a PSN sequence error pass: their senders miss packets, or got them out of order. The data itself takes another way, so that where it was lost, and whether it was, is not seen.",
    computed: "Per pair of hosts: NAKs with code 0 (PSN sequence error) of one that the other sends no requests to at any tap. Info from loss.episodes of them on. NAKs of flows with RNR NAKs do not count: \
               a receiver that was not ready also misses what came behind. Where the data passes, the findings loss.* judge.",
    advice: "Capture where the data passes, or both directions of the mirror port: the findings of loss then say on which side of the tap packets are lost. On hosts with several uplinks, watch all of them.",
    caveat: "A receiver sends one NAK for all that it misses at a time: how many packets that is cannot be told.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "nak";
    errors: u64 = 1,
        "NAKs of one kind from which it is a finding",
        "Each of them ends a connection";
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
        let flows = once(&input.facts.flows, |flow| of(&flow.ack.naks));
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
    asked_from_afar(input, found);
}

/// Receivers that ask again for what does not pass here.
fn asked_from_afar(input: &Input<'_>, found: &mut Vec<Finding>) {
    let all = &input.facts.flows;
    let passes: HashSet<(IpAddr, IpAddr)> =
        all.iter().filter(|flow| flow.psn.is_some()).map(|flow| (flow.src, flow.dst)).collect();
    let mut flows = once(all, |flow| flow.ack.naks.psn_sequence_error);
    flows.retain(|(flow, _)| flow.ack.rnr_naks == 0 && !passes.contains(&(flow.dst, flow.src)));
    let naks: u64 = flows.iter().map(|(_, naks)| naks).sum();
    let Some((most, _)) = flows.first().filter(|_| naks >= input.limits.loss.episodes.max(1)) else { return };
    let hosts = flows.iter().map(|(flow, _)| (flow.src, flow.dst)).collect::<HashSet<_>>().len();
    let title = match hosts {
        1 => format!("{} asks {} again {}", most.src, most.dst, plural(naks, "time")),
        n => format!(
            "{} asks {} again, {n} pairs of hosts in all {}",
            most.src,
            most.dst,
            plural(naks, "time")
        ),
    };
    Raise::new(
        &SEQUENCE,
        Severity::Info,
        format!("{title}: the data does not pass here, so that losses are not judged"),
    )
    .evidence("naks", naks)
    .evidence("host_pairs", hosts)
    .last_seen(latest(&flows, |last| last.psn_sequence_error))
    .flows(flows.iter().map(|(flow, _)| *flow))
    .into(found);
}

/// When the latest NAK in any of these flows came; `None` when that of one is not known.
pub(super) fn latest(flows: &[(&Flow, u64)], last: fn(&LastNaks) -> Option<u64>) -> Option<u64> {
    let each = flows.iter().map(|(flow, _)| flow.last_naks_ns.as_ref().and_then(last));
    each.collect::<Option<Vec<u64>>>()?.into_iter().max()
}
