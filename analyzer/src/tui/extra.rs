//! What the report knows of single flows that the counters do not: processes, the other direction.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::analysis::Analysis;
use super::table::Processes;
use crate::model::{Detail, Identity};
use crate::report::{Flow, Report};
use crate::sample::{Direction, FlowSample, Sample, address};

/// Names the processes of those flows whose process the report knows.
#[must_use]
pub(super) fn processes(sample: &Sample, report: &Report) -> Processes {
    type Key<'a> = (&'a str, Option<Direction>, IpAddr, IpAddr, u32);
    let mut processes = Processes::default();
    let known = |flow: &&Flow| flow.pid.is_some() || flow.comm.is_some();
    let of = |flow: &Flow| match (&flow.comm, flow.pid) {
        (Some(comm), Some(pid)) => format!("{comm} ({pid})"),
        (Some(comm), None) => comm.clone(),
        (None, pid) => pid.map_or_else(String::new, |pid| format!("process {pid}")),
    };
    let names: HashMap<Key<'_>, String, foldhash::fast::RandomState> = report
        .flows
        .iter()
        .filter(known)
        .map(|flow| ((flow.link.as_str(), flow.direction, flow.src, flow.dst, flow.dest_qp), of(flow)))
        .collect();
    if names.is_empty() {
        return processes;
    }
    for flow in &sample.flows {
        let FlowSample { key, slot, .. } = flow;
        let Some(link) = sample.links.get(usize::from(key.link)) else { continue };
        let at = (
            link.name.as_str(),
            link.direction,
            address(key.family, key.src),
            address(key.family, key.dst),
            key.dest_qp,
        );
        if let Some(name) = names.get(&at) {
            processes.insert(Identity { key: *key, slot: *slot }, name.clone());
        }
    }
    processes
}

/// The report's entry of a flow.
#[must_use]
pub(super) fn flow<'a>(analysis: &'a Analysis, detail: &Detail, sample: &Sample) -> Option<&'a Flow> {
    let key = &detail.id.key;
    let (src, dst) = (address(key.family, key.src), address(key.family, key.dst));
    let direction = sample.links.get(usize::from(key.link)).and_then(|link| link.direction);
    analysis.report.flows.iter().find(|flow| {
        flow.dest_qp == key.dest_qp
            && flow.src == src
            && flow.dst == dst
            && flow.direction == direction
            && flow.link == detail.link
    })
}

/// The place of the flow that goes the other way on the same interface: addresses turned round, to the
/// queue pair that sends this one. `None` when that is not known or not seen.
#[must_use]
pub(super) fn other_direction(
    sample: &Sample,
    detail: &Detail,
    analysis: Option<&Analysis>,
) -> Option<usize> {
    let key = &detail.id.key;
    let pair = sample.figures.pairs.as_ref().and_then(|pairs| pairs.get(&detail.id.slot));
    if let Some(slot) = pair.and_then(|pair| pair.reverse)
        && let Some(at) = sample.flows.iter().position(|flow| flow.slot == slot)
    {
        return Some(at);
    }
    let peer = detail.peer_qp.or_else(|| {
        analysis.and_then(|analysis| flow(analysis, detail, sample)).and_then(|flow| flow.peer_qp)
    })?;
    let turned = |other: &FlowSample| {
        let there = &other.key;
        there.family == key.family && there.src == key.dst && there.dst == key.src && there.dest_qp == peer
    };
    let link = |at: u16| sample.links.get(usize::from(at)).map(|link| link.name.as_str());
    let mut found = sample.flows.iter().enumerate().filter(|(_, other)| turned(other));
    let first = found.next()?;
    // On one interface, rather than on another that saw the same packets.
    let same = |(_, other): &(usize, &FlowSample)| link(other.key.link) == link(key.link);
    if same(&first) {
        return Some(first.0);
    }
    Some(found.find(same).map_or(first.0, |(at, _)| at))
}
