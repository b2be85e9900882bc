//! Senders that mostly repeat themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::not_evaluated::{flows_unjudged, is_unjudged};
use super::once::once;
use super::{Entry, Family, Input, Measure, Need, Raise};
use crate::analysis::{Flow, FlowId, Loss};
use crate::findings::{Finding, Severity};
use crate::util::units;

/// What it is where nothing else says why.
macro_rules! timers {
    () => {
        "Senders' timers may run out: compare the ACK timeout (NCCL_IB_TIMEOUT: 4.096 us * 2^n) with the latency, and look for paths that pause for long (PFC storms)."
    };
}

/// What makes it cheaper, whatever the reason.
macro_rules! selective {
    () => {
        "Selective repeat, where the NIC has it, repeats only what is missing."
    };
}

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[STORM], limits: &[Limits::META], evidence: &[], check };

const STORM: Entry = Entry {
    id: "retry.storm",
    rank: 280,
    needs: &[Need::Loss, Need::Sequences],
    measure: Some(Measure::ratio("retransmitted_ratio")),
    title: "A large part of what is sent has been sent before",
    meaning: "Senders spend much of their capacity on packets that were already on the way: the job gets what is left, and the fabric carries a load that moves nothing.",
    computed: "Per pair of hosts: packets sent again that had passed before, whatever the reason (flows[].loss.retransmitted; what a mirror shows twice and what only came out of order does not \
               count). Raised as a warning when they are the share `ratio` of the packets sent and at least `packets`. Queue pairs that lost packets and could not be followed (live) are left out: \
               `flows_unjudged` of them.",
    advice: concat!(
        "Look for a finding that says why: loss (before, behind or between taps), rnr.slow_receiver, icrc.errors. Without any: ",
        timers!(),
        " ",
        selective!()
    ),
    caveat: "",
    ..Entry::EMPTY
};

/// What to do first where packets were seen late.
const REORDERED: &str = "Packets come out of order, which a go-back-N receiver takes for a loss: see whether switches spread packets over paths (adaptive routing, packet spraying), and whether the NICs \
     on both ends are set to accept that (NCCL_IB_ADAPTIVE_ROUTING, out-of-order placement).";

limits! {
    /// Thresholds of this family.
    pub struct Limits = "retry";
    ratio: f64 = 0.2,
        "share of packets sent again",
        "A healthy software stack under load shows up to 8 % in our captures; a fifth is more than any cost that is worth bearing";
    packets: u64 = 100,
        "packets sent again, at least",
        "A short exchange that repeats once is no storm";
}

fn again(flow: &Flow) -> u64 {
    [flow.loss, flow.loss_responses].iter().flatten().map(|loss| loss.retransmitted + loss.rereads).sum()
}

fn late(flow: &Flow) -> u64 {
    [flow.loss, flow.loss_responses].iter().flatten().map(|loss| loss.recovered).sum()
}

/// When a packet of the flow was sent again last.
fn last_again(flow: &Flow) -> Option<u64> {
    [flow.loss, flow.loss_responses].iter().flatten().filter_map(|loss| loss.last_again_ns).max()
}

/// What was sent from one host to another.
#[derive(Default)]
struct Pair<'a> {
    packets: u64,
    again: u64,
    /// Packets that came late, where a capture nearer the receiver, or the other way, shows them.
    late: u64,
    flows: Vec<(&'a Flow, u64)>,
}

/// Findings that say why packets are sent again.
const CAUSES: [&str; 6] = [
    "icrc.errors",
    "loss.between_taps",
    "loss.before_tap",
    "loss.after_tap",
    "rnr.slow_receiver",
    "peer.silent",
];

/// What to do about what one host sends another again, after the findings that there are.
fn advice(late: u64, (src, dst): (IpAddr, IpAddr), found: &[Finding]) -> String {
    let between = |flow: &FlowId| (flow.src, flow.dst) == (src, dst) || (flow.src, flow.dst) == (dst, src);
    let why = |id: &&&str| found.iter().any(|one| one.id == **id && one.flows.iter().any(between));
    let ids: Vec<&str> = CAUSES.iter().filter(why).copied().collect();
    let mut parts: Vec<String> = Vec::new();
    if late > 0 {
        parts.push(REORDERED.to_owned());
    }
    if !ids.is_empty() {
        parts.push(format!("See why first: {}.", ids.join(", ")));
    } else if late == 0 {
        parts.push(format!("No finding says why. {}", timers!()));
    }
    parts.push(selective!().to_owned());
    parts.join(" ")
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.retry;
    let mut pairs: BTreeMap<(IpAddr, IpAddr), Pair<'_>> = BTreeMap::new();
    for (flow, again) in once(&input.facts.flows, again) {
        let pair = pairs.entry((flow.src, flow.dst)).or_default();
        pair.again += again;
        pair.flows.push((flow, again));
    }
    let is_sequence =
        |flow: &Flow| (flow.psn.is_some() || flow.psn_responses.is_some()) && !is_unjudged(flow);
    for (flow, packets) in
        once(&input.facts.flows, |flow| if is_sequence(flow) { flow.followed_packets() } else { 0 })
    {
        if let Some(pair) = pairs.get_mut(&(flow.src, flow.dst)) {
            pair.packets += packets;
        }
    }
    for (flow, late) in once(&input.facts.flows, late) {
        if let Some(pair) = pairs.get_mut(&(flow.src, flow.dst)) {
            pair.late += late;
        }
    }
    let unjudged = flows_unjudged(input.facts);
    for ((src, dst), Pair { packets, again, late, flows }) in pairs {
        let ratio = again as f64 / packets.max(1) as f64;
        if again < limits.packets || ratio < limits.ratio {
            continue;
        }
        let sum = |of: fn(&Loss) -> u64| -> u64 {
            flows.iter().filter_map(|(flow, _)| flow.loss.as_ref()).map(of).sum()
        };
        let title = format!(
            "{} of what {src} sends to {dst} was sent before: {again} of {packets} packets",
            units::ratio(Some(ratio))
        );
        let advice = advice(late, (src, dst), found);
        Raise::new(&STORM, Severity::Warning, title)
            .advice(&advice)
            .evidence("late", late)
            .evidence("retransmitted", again)
            .evidence("retransmitted_ratio", ratio)
            .evidence("packets", packets)
            .evidence("timeouts", sum(|loss| loss.timeouts))
            .evidence("flows_unjudged", unjudged)
            .evidence("rnr_resent", sum(|loss| loss.rnr_resent))
            .last_seen(flows.iter().filter_map(|(flow, _)| last_again(flow)).max())
            .flows(flows.iter().map(|(flow, _)| *flow))
            .into(found);
    }
}
