//! Senders that mostly repeat themselves.

use serde::Deserialize;

use super::nak::once;
use super::{Entry, Input, LimitMeta, Raise};
use crate::report::{Finding, Flow, Severity};
use crate::units;

/// Kinds of this family.
pub(super) const ENTRIES: &[Entry] = &[STORM];
const STORM: Entry = Entry {
    id: "retry.storm",
    title: "A large part of what is sent has been sent before",
    meaning: "Senders spend much of their capacity on packets that were already on the way: the job gets what is left, and the fabric carries a load that moves nothing.",
    computed: "Per pair of hosts: packets sent again that had passed before, whatever the reason (flows[].loss.retransmitted; what a mirror shows twice and what only came out of order does not \
               count). Raised as a warning when they are the share `ratio` of the packets sent and at least `packets`.",
    advice: "Look at the finding that says why: loss (before, behind or between taps), rnr.slow_receiver, icrc.errors. Without any, senders' timers run out: compare the ACK timeout (NCCL_IB_TIMEOUT: 4.096 us \
             * 2^n) with the latency, and look for paths that pause for long (PFC storms). Selective repeat, where the NIC has it, repeats only what is missing.",
    caveat: "",
};

/// Thresholds of this family.
pub(super) const LIMITS: &[LimitMeta] = &[
    LimitMeta {
        name: "retry.ratio",
        default: "0.2",
        meaning: "share of packets sent again",
        reason: "A healthy software stack under load shows up to 8 % in our captures; a fifth is more than any cost that is worth bearing",
    },
    LimitMeta {
        name: "retry.packets",
        default: "100",
        meaning: "packets sent again, at least",
        reason: "A short exchange that repeats once is no storm",
    },
];

/// Thresholds of this family.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub ratio: f64,
    pub packets: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { ratio: 0.2, packets: 100 }
    }
}

fn again(flow: &Flow) -> u64 {
    [flow.loss, flow.loss_responses].iter().flatten().map(|loss| loss.retransmitted + loss.rereads).sum()
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.retry;
    let flows = once(&input.report.flows, again);
    let mut pairs: Vec<_> = flows.iter().map(|(flow, _)| (flow.src, flow.dst)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let sent = once(&input.report.flows, |flow| {
        if flow.psn.is_some() || flow.psn_responses.is_some() { flow.packets } else { 0 }
    });
    for (src, dst) in pairs {
        let of = |all: &[(&Flow, u64)]| -> u64 {
            all.iter().filter(|(flow, _)| (flow.src, flow.dst) == (src, dst)).map(|(_, n)| n).sum()
        };
        let (again, packets) = (of(&flows), of(&sent));
        let ratio = again as f64 / packets.max(1) as f64;
        if again < limits.packets || ratio < limits.ratio {
            continue;
        }
        let own = || flows.iter().map(|(flow, _)| *flow).filter(|flow| (flow.src, flow.dst) == (src, dst));
        let sum = |of: fn(&crate::report::Loss) -> u64| {
            own().filter_map(|flow| flow.loss).map(|loss| of(&loss)).sum::<u64>()
        };
        let title = format!(
            "{} of what {src} sends to {dst} was sent before: {again} of {packets} packets",
            units::ratio(Some(ratio))
        );
        Raise::new(&STORM, Severity::Warning, title)
            .evidence("retransmitted", again)
            .evidence("retransmitted_ratio", ratio)
            .evidence("packets", packets)
            .evidence("timeouts", sum(|loss| loss.timeouts))
            .evidence("rnr_resent", sum(|loss| loss.rnr_resent))
            .flows(own())
            .into(found);
    }
}
