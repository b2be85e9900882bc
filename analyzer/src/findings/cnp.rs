//! Congestion notifications that do not fit the marks.

use std::collections::HashSet;

use super::once::name;
use super::{Entry, Family, Input, Need, Raise};
use crate::analysis::{Flow, FlowId};
use crate::findings::{Finding, Severity};
use crate::sample::Direction;
use crate::util::units;

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[WITHOUT_CE], limits: &[], evidence: &[], check };

const WITHOUT_CE: Entry = Entry {
    id: "cnp.without_ce",
    rank: 330,
    needs: &[Need::Pairs],
    title: "CNPs for data that is not marked here",
    meaning: "A sender is told to slow down, but none of its packets that passed here carries a mark. Either they are marked further on, between here and the receiver, or the receiver sends CNPs \
              for something else.",
    computed: "Over flows of at least 10 CNPs whose flow of data is known (flows[].cnp.answers), is ECN-capable with at least 100 packets here and has no mark at all. A warning in a live run \
               when that data arrives at this host, for nothing can mark it further on; info in a replay, where the place of the tap is not known; nothing when this host sends the data. Flows \
               with as many NAKs as half their CNPs are left out: some NICs send a CNP with a NAK.",
    advice: "To find the congested switch, capture nearer to the receiver: its ingress has all marks. Where the receiver itself sends CNPs without marks, look at its settings (roce_np, \
             cc_params in mlx5's debugfs; slow restart sends CNPs when packets are lost, roce_slow_restart_cnps counts them).",
    caveat: "At the sender's side of a switch this is how it always looks. How many CNPs there are for a number of marks says nothing: NICs pace them.",
    ..Entry::EMPTY
};

/// Fewer may be chance, or belong to marks before the capture began.
const ENOUGH_CNPS: u64 = 10;
/// Of fewer packets it cannot be said that none is marked.
const ENOUGH_DATA: u64 = 100;

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let flows = &input.facts.flows;
    let mut suspects: Vec<(&Flow, &Flow)> = Vec::new();
    for cnps in flows {
        let Some(answers) = cnps.cnp.as_ref().and_then(|cnp| cnp.answers.as_ref()) else { continue };
        if cnps.cnp_packets < ENOUGH_CNPS || cnps.ack.naks.total() * 2 >= cnps.cnp_packets {
            continue;
        }
        // CNPs are seldom; this is no loop over all pairs.
        let Some(data) = flows.iter().find(|flow| FlowId::of(flow) == *answers) else { continue };
        // Another tap, nearer the receiver, may see the marks.
        let elsewhere = |flow: &Flow| name(flow) == name(data) && flow.ecn_data.ce > 0;
        let unmarked = data.ecn_data.capable() >= ENOUGH_DATA && !flows.iter().any(elsewhere);
        if unmarked && data.direction != Some(Direction::Egress) {
            suspects.push((cnps, data));
        }
    }
    let arrives = suspects.iter().any(|(_, data)| data.direction == Some(Direction::Ingress));
    suspects.sort_by_key(|(cnps, _)| std::cmp::Reverse(cnps.cnp_packets));
    // Several taps may see the same CNPs: the one that saw most of them speaks.
    let mut told = HashSet::new();
    suspects.retain(|(cnps, _)| told.insert(name(cnps)));
    let Some((most, data)) = suspects.first() else { return };
    let severity = if arrives { Severity::Warning } else { Severity::Info };
    let title = format!(
        "{} sends {} CNPs for the data from {} to its QP {}, none of which is marked here",
        most.src,
        units::count(most.cnp_packets),
        data.src,
        data.dest_qp
    );
    Raise::new(&WITHOUT_CE, severity, title)
        .evidence("cnp_packets", suspects.iter().map(|(cnps, _)| cnps.cnp_packets).sum::<u64>())
        .evidence(
            "ecn_capable_packets",
            suspects.iter().map(|(_, data)| data.ecn_data.capable()).sum::<u64>(),
        )
        .evidence("ce_packets", 0)
        // Where answers travel in the same flow, this is later than its last CNP.
        .last_seen(suspects.iter().map(|(cnps, _)| cnps.last_ns).max())
        .flows(suspects.iter().map(|(_, data)| *data))
        .into(found);
}
