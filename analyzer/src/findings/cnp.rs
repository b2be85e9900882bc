//! CNPs for flows without CE marks.

use std::collections::HashSet;

use super::once::name;
use super::span::{episodes, timed};
use super::title::{pair, title};
use super::{Commands, Entry, Family, Input, Need, Place, Raise, ends};
use crate::analysis::{Flow, FlowId};
use crate::findings::{Finding, Severity};
use crate::metrics::loss::spells::Signal;
use crate::sample::Direction;
use crate::util::units::plural;

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[WITHOUT_CE], limits: &[], evidence: &[], check };

const WITHOUT_CE: Entry = Entry {
    id: "cnp.without_ce",
    rank: 330,
    needs: &[Need::Pairs],
    title: "CNPs without CE marks at this tap",
    meaning: "A receiver sends CNPs (rate reduction requested) for a flow whose packets are not CE-marked at this tap. Either they are marked downstream of this \
                tap, or the receiver sends CNPs for another reason.",
    computed: "Over flows of at least 10 CNPs whose data flow is known (flows[].cnp.answers), is ECN-capable with at least 100 packets at this tap and has no \
                 CE-marked packet. A warning in a live run when that data arrives at this host, because no switch is downstream; info in a replay, where the position \
                 of the tap is unknown; not raised when this host sends the data. Flows with NAKs amounting to half of their CNPs or more are excluded: some NICs send \
                 a CNP with a NAK.",
    advice: "To locate the congested switch, capture closer to the receiver: all CE marks are visible at its ingress. Where the receiver itself sends CNPs without \
               CE marks, check its settings (roce_np, cc_params in mlx5 debugfs; slow restart sends CNPs after loss and counts them in roce_slow_restart_cnps).",
    caveat: "Normal for a tap on the sender side of the congested switch. The number of CNPs does not follow from the number of CE marks: NICs pace them.",
    ..Entry::EMPTY
};

/// Fewer may be chance, or belong to marks before the capture began.
const ENOUGH_CNPS: u64 = 10;
/// Minimum packets to conclude that none is CE-marked.
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
    // Several taps may see the same CNPs: the one with most of them is reported.
    let mut reported = HashSet::new();
    suspects.retain(|(cnps, _)| reported.insert(name(cnps)));
    let Some((most, data)) = suspects.first() else { return };
    let severity = if arrives { Severity::Warning } else { Severity::Info };
    let diagnosis = format!("{} without CE marks at this tap", plural(most.cnp_packets, "CNP"));
    let parts = [pair(most.src, most.dst), format!(", QP {}", data.dest_qp)];
    let (requester, responder) = ends::of_data(input, suspects.iter().map(|(_, data)| *data));
    let here = Commands::on(input, &data.link);
    let carriers: Vec<&Flow> = suspects.iter().map(|(cnps, _)| *cnps).collect();
    Raise::new(&WITHOUT_CE, severity, title(diagnosis, parts))
        .evidence("cnp_packets", suspects.iter().map(|(cnps, _)| cnps.cnp_packets).sum::<u64>())
        .evidence(
            "ecn_capable_packets",
            suspects.iter().map(|(_, data)| data.ecn_data.capable()).sum::<u64>(),
        )
        .evidence("ce_packets", 0)
        // Where answers travel in the same flow, this is later than its last CNP.
        .last_seen(suspects.iter().map(|(cnps, _)| cnps.last_ns).max())
        .episodes(episodes(&timed(&carriers, Signal::Cnp, |flow| flow.cnp_packets)))
        .flows(suspects.iter().map(|(_, data)| *data))
        .place(Place::of(input, data).hop("downstream"))
        .ends(requester, responder)
        .step(format!("Capture closer to {}, where all CE marks are visible.", most.src), None)
        .step(format!("On {}, check the notification point (roce_np).", most.src), here.ecn())
        .into(found);
}
