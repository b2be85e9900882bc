//! Receivers that are not ready.

use std::collections::HashMap;
use std::net::IpAddr;

use super::nak::latest;
use super::not_evaluated::is_unjudged;
use super::once::once;
use super::{Entry, Family, Input, Measure, Raise};
use crate::analysis::Flow;
use crate::findings::{Finding, Severity};
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[SLOW], limits: &[Limits::META], evidence: &[], check };

const SLOW: Entry = Entry {
    id: "rnr.slow_receiver",
    rank: 260,
    measure: Some(Measure::ratio("rnr_ratio")),
    title: "A receiver has no buffer ready for what is sent to it",
    meaning: "SENDs, or WRITEs with immediate data, arrive before the receiver has posted a receive buffer. It refuses them (RNR NAK), and the sender waits for the RNR timer and repeats all \
              that was in flight. After rnr_retry attempts the connection fails.",
    computed: "Raised for a host from `naks` RNR NAKs on, when they are at least the share `ratio` of the packets of requests that were sent to it. Warning. The sequence-error NAKs and repeats that follow \
               an RNR NAK are part of it and count as no loss.",
    advice: "The receiving process is too slow or posts too few receives: look at its CPU (pinning, NUMA node, a busy or paused GPU), at the depth of its receive queue, and at what it waits for. A \
             longer RNR timer only hides it. Where retries run out: rnr_retry 7 means without end.",
    caveat: "A few RNR NAKs at the start of a job are usual: peers do not start at the same time.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "rnr";
    naks: u64 = 5,
        "RNR NAKs of a host from which it is a finding",
        "Fewer are what the start of a connection may bring";
    ratio: f64 = 0.001,
        "RNR NAKs per packet of requests sent to the host",
        "Each one costs a timer of at least 10 us (NCCL: 640 us), as long as hundreds of packets take; below 1 in 1,000 that is a small share";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.rnr;
    let flows = once(&input.facts.flows, |flow| flow.ack.rnr_naks);
    let mut by_host: HashMap<IpAddr, u64> = HashMap::new();
    for (flow, naks) in &flows {
        *by_host.entry(flow.src).or_default() += naks;
    }
    if by_host.is_empty() {
        return;
    }
    let mut packets_to: HashMap<IpAddr, u64> = HashMap::new();
    for (flow, packets) in once(&input.facts.flows, |flow| flow.psn.map_or(0, |_| flow.packets)) {
        *packets_to.entry(flow.dst).or_default() += packets;
    }
    let resent = resent(&input.facts.flows);
    let mut hosts: Vec<(IpAddr, u64)> =
        by_host.into_iter().filter(|(_, naks)| *naks >= limits.naks).collect();
    hosts.sort_by_key(|(host, naks)| (std::cmp::Reverse(*naks), *host));
    for (host, naks) in hosts {
        let sent = packets_to.get(&host).copied();
        let ratio = sent.map(|sent| naks as f64 / sent as f64);
        // A mirror may show NAKs alone: then there is nothing to compare with.
        if ratio.is_some_and(|ratio| ratio < limits.ratio) {
            continue;
        }
        let own: Vec<(&Flow, u64)> = flows.iter().filter(|(flow, _)| flow.src == host).copied().collect();
        let share = ratio.map_or_else(String::new, |ratio| {
            format!(", {} of the packets sent to it", units::ratio(Some(ratio)))
        });
        Raise::new(
            &SLOW,
            Severity::Warning,
            format!("{host} was not ready to receive {}{share}", plural(naks, "time")),
        )
        .evidence("rnr_naks", naks)
        .evidence("rnr_ratio", ratio)
        .evidence("packets", sent)
        .evidence("packets_resent", resent.get(&host).copied().unwrap_or(Some(0)))
        .last_seen(latest(&own, |last| last.rnr))
        .flows(own.iter().map(|(flow, _)| *flow))
        .into(found);
    }
}

/// Packets sent again to each host since it was not ready; `None` where that is not known of some flow, and so not of all.
fn resent(flows: &[Flow]) -> HashMap<IpAddr, Option<u64>> {
    let mut resent: HashMap<IpAddr, Option<u64>> = HashMap::new();
    for (flow, packets) in once(flows, |flow| flow.loss.map_or(0, |loss| loss.rnr_resent)) {
        if let Some(sum) = resent.entry(flow.dst).or_insert(Some(0)) {
            *sum += packets;
        }
    }
    resent.extend(flows.iter().filter(|flow| is_unjudged(flow)).map(|flow| (flow.dst, None)));
    resent
}
