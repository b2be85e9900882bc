//! Traffic classes: DSCPs of data packets and of CNPs.
//!
//! Taps on the same path see the same packets: they raise one finding, at the tap with the most packets.

use std::collections::BTreeMap;

use super::{CNP_DSCP, DSCP_MIXED, DSCP_UNSET, ends};
use crate::analysis::{ByLink, Flow, Link};
use crate::findings::dedup::{LinkShare, deduplicated, deduplicated_links};
use crate::findings::title::{pair, short, title};
use crate::findings::{ByHand, Commands, Episode, Finding, Input, Place, Raise, Severity};
use crate::sample::Address;
use crate::util::units::{self, plural};

fn is_data(flow: &Flow) -> bool {
    flow.payload_bytes > 0 && flow.roce_version == Some(2)
}

/// Flows whose DSCP changes.
fn changing(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.qos;
    let acks = |flow: &Flow| flow.ack.acks + flow.ack.rnr_naks + flow.ack.naks.total() + flow.cnp_packets;
    // Flows with responses or CNPs legitimately use several DSCPs, and a switch that trims a packet changes its DSCP.
    let all = input.facts.flows.iter().filter(|flow| {
        is_data(flow)
            && flow.mixed.contains("dscp")
            && flow.payload_bytes >= limits.min_bytes
            && acks(flow) == 0
            && flow.trimmed_packets() == 0
    });
    let changed: Vec<&Flow> =
        deduplicated(all, |flow| flow.payload_bytes).into_iter().map(|(flow, _)| flow).collect();
    if !changed.is_empty() {
        let diagnosis = format!("DSCP changes within {}", plural(changed.len() as u64, "flow"));
        let first = changed.first().copied();
        let parts = [first.map_or_else(String::new, |flow| pair(flow.src, flow.dst))];
        let (requester, responder) = ends::of_data(input, changed.iter().copied());
        Raise::new(&DSCP_MIXED, Severity::Warning, title(diagnosis, parts))
            .place(first.map(|flow| Place::of(input, flow)).unwrap_or_default())
            .ends(requester, responder)
            .step(
                "Check that no switch rewrites DSCP, and set one traffic class for the job.",
                ByHand::Switch,
            )
            .caveat("The time at which these flows changed their DSCP is not known.")
            .flows(changed)
            .into(found);
    }
}

/// The time in which flows of several of these DSCPs have packets; if one comes after another, the moment at which it
/// begins.
fn mixed_for(flows: &[&Flow], dscps: &[u8]) -> Option<Episode> {
    let of = |dscp: u8| flows.iter().filter(move |flow| flow.dscp == Some(dscp));
    let mut firsts: Vec<u64> =
        dscps.iter().filter_map(|dscp| of(*dscp).map(|flow| flow.first_ns).min()).collect();
    let mut lasts: Vec<u64> =
        dscps.iter().filter_map(|dscp| of(*dscp).map(|flow| flow.last_ns).max()).collect();
    firsts.sort_unstable();
    lasts.sort_unstable();
    let first_ns = *firsts.get(1)?;
    let last_ns = (*lasts.iter().rev().nth(1)?).max(first_ns);
    Some(Episode { first_ns, last_ns, peak: None })
}

/// Link, source and destination of a flow.
fn way(flow: &Flow) -> (&str, Address, Address) {
    (flow.link.as_str(), flow.src, flow.dst)
}

/// Data between two hosts in several traffic classes, and flows whose class changes.
pub(super) fn mixed(input: &Input<'_>, found: &mut Vec<Finding>) {
    changing(input, found);
    let limits = &input.limits.qos;
    let data = input.facts.flows.iter().filter(|flow| is_data(flow));
    // A flow has the DSCP of its first packet, which may be one that a switch trimmed.
    let is_of_trimmed = |flow: &&Flow| flow.mixed.contains("dscp") && flow.trimmed_packets() > 0;
    let mut data: Vec<&Flow> =
        data.filter(|flow| flow.dscp.is_some()).filter(|flow| !is_of_trimmed(flow)).collect();
    // One sorted list for all pairs: a list per pair takes several times the memory.
    data.sort_by(|a, b| way(a).cmp(&way(b)));
    let mut seen = Vec::new();
    for flows in data.chunk_by(|a, b| way(a) == way(b)) {
        // Nearly all have one class.
        if flows.iter().all(|flow| Some(flow.dscp) == flows.first().map(|first| first.dscp)) {
            continue;
        }
        let mut by_dscp: BTreeMap<u8, u64> = BTreeMap::new();
        for flow in flows {
            *by_dscp.entry(flow.dscp.unwrap_or(0)).or_default() += flow.payload_bytes;
        }
        let bytes: u64 = by_dscp.values().sum();
        let is_heavy = |part: u64| part as f64 >= bytes as f64 * limits.share;
        let heavy: Vec<u8> =
            by_dscp.iter().filter(|(_, part)| is_heavy(**part)).map(|(dscp, _)| *dscp).collect();
        let Some(first) = flows.first().filter(|_| heavy.len() >= 2 && bytes >= limits.min_bytes) else {
            continue;
        };
        let mut links = input.facts.links.iter();
        let link = links.position(|link| link.name == first.link && link.direction == first.direction);
        let weighed: Vec<(&Flow, u64)> = flows.iter().map(|flow| (*flow, flow.payload_bytes)).collect();
        let what = (first.src, first.dst, flows.to_vec(), by_dscp, heavy);
        seen.push(LinkShare::new(link.unwrap_or(usize::MAX), what, weighed));
    }
    for one in deduplicated_links(input, seen) {
        let (others, (src, dst, flows, by_dscp, heavy)) = (one.others(), one.what);
        let names = heavy.iter().map(u8::to_string).collect::<Vec<_>>().join(" and ");
        let diagnosis = format!("Mixed DSCPs {names}, {src} → {dst}");
        let place = flows.first().map(|flow| Place::of(input, flow)).unwrap_or_default();
        let (requester, responder) = ends::of_data(input, flows.iter().copied());
        let episode = mixed_for(&flows, &heavy);
        Raise::new(&DSCP_MIXED, Severity::Warning, title(diagnosis, [others]))
            .dated(episode.into_iter().collect())
            .place(place)
            .ends(requester, responder)
            .step(format!("On {src}, set one traffic class for the job (NCCL_IB_TC)."), ByHand::Job)
            .step("Check that no switch rewrites DSCP.", ByHand::Switch)
            .evidence("dscp", by_dscp.keys().copied().collect::<Vec<u8>>())
            .evidence("payload_bytes", by_dscp.values().copied().collect::<Vec<u64>>())
            .flows(flows)
            .into(found);
    }
}

/// DSCPs by packet kind and link; by flow if they were not collected by kind.
pub(super) fn by_link(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.qos;
    let enough = |part: u64, whole: u64| whole > 0 && part as f64 >= whole as f64 * limits.share;
    let by_link = ByLink::of(input.facts);
    let (mut unset, mut cnps_as_data) = (Vec::new(), Vec::new());
    for (at, link) in input.facts.links.iter().enumerate() {
        let flows = || by_link.on(link).iter().copied();
        let without = |flow: &Flow| if flow.dscp == Some(0) { flow.bytes } else { 0 };
        let (none, data) = if let Some(dscp) = &link.dscp {
            let sum = dscp.iter().map(|d| d.data_bytes).sum();
            (dscp.iter().find(|d| d.dscp == 0).map_or(0, |d| d.data_bytes), sum)
        } else {
            let data = flows().filter(|flow| is_data(flow));
            data.fold((0, 0), |(none, sum), flow| (none + without(flow), sum + flow.bytes))
        };
        if data >= limits.min_bytes && enough(none, data) {
            let share = none as f64 / data as f64;
            let own = flows().filter(|flow| is_data(flow)).map(|flow| (flow, without(flow)));
            unset.push(LinkShare::new(at, (link, share, data), own.filter(|(_, bytes)| *bytes > 0)));
        }
        let Some(dscp) = &link.dscp else { continue };
        let cnps: u64 = dscp.iter().map(|d| d.cnp_packets).sum();
        let Some(main) = dscp.iter().max_by_key(|d| d.data_bytes).filter(|d| d.data_bytes > 0) else {
            continue;
        };
        if cnps >= limits.min_cnps && enough(main.cnp_packets, cnps) {
            let own = flows().map(|flow| (flow, flow.cnp_packets)).filter(|(_, cnps)| *cnps > 0);
            cnps_as_data.push(LinkShare::new(at, (link, main, cnps), own));
        }
    }
    let place = |link: &Link| Place::link(input, &link.name, link.direction);
    for one in deduplicated_links(input, unset) {
        let (link, share, data) = one.what;
        let percent = units::ratio(Some(share));
        let diagnosis = format!("DSCP 0 on {}: {percent} of the data bytes", short(&link.name));
        Raise::new(&DSCP_UNSET, Severity::Info, title(diagnosis, [one.others()]))
            .place(place(link))
            .step(
                "Set the DSCP of the lossless class at the senders (NCCL_IB_TC=106 for DSCP 26).",
                ByHand::Job,
            )
            .step("Check trust mode and priorities of the port.", Commands::on(input, &link.name).qos())
            .evidence("share", share)
            .evidence("data_bytes", data)
            .into(found);
    }
    for one in deduplicated_links(input, cnps_as_data) {
        let (link, main, cnps) = one.what;
        let diagnosis = format!("CNPs on {} share DSCP {} with the data", short(&link.name), main.dscp);
        Raise::new(&CNP_DSCP, Severity::Info, title(diagnosis, [one.others()]))
            .place(place(link))
            .step("Set a DSCP of their own for CNPs at the receivers (cnp_dscp, 48 by default).", ByHand::Job)
            .step("Map that DSCP to a strict-priority queue on every switch.", ByHand::Switch)
            .evidence("dscp", main.dscp)
            .evidence("cnp_packets", cnps)
            .evidence("cnp_packets_in_data_class", main.cnp_packets)
            .into(found);
    }
}
