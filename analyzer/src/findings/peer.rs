//! Peers that do not answer.

use std::collections::HashMap;
use std::net::IpAddr;

use rocescope_common::account::FlowKey;
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::Addr;
use serde::Deserialize;

use super::{Entry, Input, LimitMeta, Raise};
use crate::report::{Finding, Flow, Severity};
use crate::sample::{Direction, FlowSample, address};

/// Kinds of this family.
pub(super) const ENTRIES: &[Entry] = &[SILENT];
const SILENT: Entry = Entry {
    id: "peer.silent",
    title: "Requests are repeated and never answered",
    meaning: "A sender repeats a request again and again, and nothing comes back: the peer's queue pair, process or host is gone, or packets pass in one direction only. After retry_cnt \
              attempts the connection fails.",
    computed: "Reliable flows that asked for an acknowledgement, to which no acknowledgement, NAK or response with a PSN of theirs came from the peer's address, and whose sender began again at the \
               same PSN at least `retries` times in a row without getting further. Critical.",
    advice: "See whether the peer's process lives and its queue pair is in RTS (`rdma resource show qp`), whether the peer's address is reachable from that GID (routes, ARP, `rping`), and whether \
             a filter or ACL drops UDP 4791 one way. NCCL gives up after NCCL_IB_RETRY_CNT times NCCL_IB_TIMEOUT.",
    caveat: "On a tap that sees one direction only, a sender that is stuck for another reason looks the same.",
};

/// Thresholds of this family.
pub(super) const LIMITS: &[LimitMeta] = &[LimitMeta {
    name: "peer.retries",
    default: "2",
    meaning: "times in a row that a sender began again at one PSN",
    reason: "One repeat is what a single lost packet brings; senders try up to 7 times",
}];

/// Thresholds of this family.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub retries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { retries: 2 }
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(figures) = &input.sample.figures.loss else { return };
    let stuck_for = |flow: &FlowSample| figures.flow(flow.slot).requests.map_or(0, |loss| loss.stuck);
    let stuck: Vec<&FlowSample> = input
        .sample
        .flows
        .iter()
        .filter(|flow| stuck_for(flow) >= input.limits.peer.retries.max(1))
        .filter(|flow| figures.dialogue(flow.slot).asked_ns.is_some())
        .collect();
    if stuck.is_empty() {
        return;
    }
    // By who answers whom; what is not known may be an answer to anybody.
    let mut answers: HashMap<(u8, Addr, Addr), Vec<Option<u32>>> = HashMap::new();
    for flow in &input.sample.flows {
        let dialogue = figures.dialogue(flow.slot);
        let psn = dialogue.answer_psn.map(Some).or(dialogue.answered_something.then_some(None));
        if let Some(psn) = psn {
            answers.entry((flow.key.family, flow.key.src, flow.key.dst)).or_default().push(psn);
        }
    }
    let named = names(input);
    let mut silent: Vec<(&Flow, u64)> = Vec::new();
    for sample in stuck {
        let back = answers.get(&(sample.key.family, sample.key.dst, sample.key.src));
        if back.into_iter().flatten().any(|psn| psn.is_none_or(|psn| is_of(psn, sample))) {
            continue;
        }
        if let Some(flow) = named.get(&sample.key) {
            silent.push((flow, stuck_for(sample)));
        }
    }
    silent.sort_by_key(|(_, stuck)| std::cmp::Reverse(*stuck));
    let Some((worst, stuck)) = silent.first() else { return };
    let more = match silent.len() - 1 {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let title = format!(
        "{} does not answer {}: QP {} got the same request {} times{more}",
        worst.dst,
        worst.src,
        worst.dest_qp,
        stuck + 1
    );
    Raise::new(&SILENT, Severity::Critical, title)
        .evidence("retries", *stuck)
        .flows(silent.iter().map(|(flow, _)| *flow))
        .into(found);
}

/// Whether an answer's PSN lies in what a flow sent. A re-acknowledgement may be of the one before.
fn is_of(psn: u32, flow: &FlowSample) -> bool {
    let before = flow.stats.psn.first.wrapping_sub(1);
    psn.wrapping_sub(before) & MASK24 < flow.stats.psn.expected.wrapping_sub(before) & MASK24
}

/// The report's entries by flow. They are in the order of links and addresses, the sample's are not.
fn names<'a>(input: &Input<'a>) -> HashMap<FlowKey, &'a Flow> {
    type Name<'b> = (&'b str, Option<Direction>, IpAddr, IpAddr, u32);
    let flows: HashMap<Name<'_>, &'a Flow> = input
        .report
        .flows
        .iter()
        .map(|flow| ((flow.link.as_str(), flow.direction, flow.src, flow.dst, flow.dest_qp), flow))
        .collect();
    let entry = |key: &FlowKey| {
        let link = input.sample.links.get(usize::from(key.link))?;
        let (src, dst) = (address(key.family, key.src), address(key.family, key.dst));
        flows.get(&(link.name.as_str(), link.direction, src, dst, key.dest_qp)).copied()
    };
    input.sample.flows.iter().filter_map(|flow| Some((flow.key, entry(&flow.key)?))).collect()
}
