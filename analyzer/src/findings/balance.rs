//! Load that is spread unevenly: over links, and over what fabrics hash.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Entry, Family, Input, Measure, Raise};
use crate::analysis::{Flow, Imbalance, QpSpread, direction_name, hashing_case, uneven};
use crate::findings::{Finding, Severity};
use crate::sample::Direction;
use crate::util::units;

/// This family.
pub(super) const FAMILY: Family = Family {
    entries: &[ENTROPY_LOW, LINKS_IMBALANCE],
    limits: &[EntropyLimits::META, LinksLimits::META],
    evidence: &[],
    check,
};

const ENTROPY_LOW: Entry = Entry {
    id: "entropy.low",
    rank: 350,
    title: "Too few source ports for the fabric to spread the load",
    meaning: "Switches choose a path by a hash over addresses and UDP ports. Queue pairs that share a source port are one flow to them and share one uplink, however many paths there are; \
              collective bandwidth is then that of the busiest uplink.",
    computed: "A host's sent bytes are weighed twice: by queue pair and by 5-tuple (2 to the entropy of the bytes: how many equal ones would spread as well). A warning when the queue pairs are worth \
               entropy.min_flows or more, and the 5-tuples entropy.ratio of that or less. With --ecmp N also a warning when hashing the 5-tuples over N uplinks makes the busiest carry entropy.ecmp times \
               the mean or more (median over hash seeds) while a source port for each queue pair, or more queue pairs, would bring it below.",
    advice: "Give queue pairs source ports of their own: the driver derives the port from the flow label or from both QP numbers, so check that the flow label is not set to one value \
             (perftest --flow_label, a fixed RDMA CM flow label). With NCCL raise NCCL_IB_QPS_PER_CONNECTION (and look at NCCL_IB_SPLIT_DATA_ON_QPS), or let the switches hash on the BTH destination QP \
             (SAI hash field RDMA_BTH_DEST_QP, user-defined fields), or use adaptive routing.",
    caveat: "A fabric that hashes on the destination QP, sprays packets or routes adaptively is not hurt by few ports. The hash of the real switches is not known.",
    ..Entry::EMPTY
};
const LINKS_IMBALANCE: Entry = Entry {
    id: "links.imbalance",
    rank: 360,
    causes: &["entropy.low"],
    measure: Some(Measure::ratio("max_over_mean")),
    title: "Links that share a load carry it unevenly",
    meaning: "One uplink, port or rail is much busier than its peers, so the traffic on it waits while others idle.",
    computed: "For each group of links (imbalance) and rails: a warning when the busiest carries links.max_over_mean times the mean or more, and the group has carried links.min_packets or more; not raised \
               for less. Where the whole run is even, also a warning for a stretch in which one link carries links.stretch_max_over_mean times the mean: at least links.stretch_windows windows of about 100 ms (longer in long runs) and links.stretch_ratio of all windows, two of \
               three of them uneven by half as much at least, counting only windows with half the mean window's bytes or more. Of the interfaces of a live run only those are compared that are parallel: two that see the same packets (both ends of a cable, both sides of a router) share no load.",
    advice: "With few 5-tuples the hash cannot do better. With many, compare the hash fields of the switches (L4 ports, destination QP) and look for hash polarisation between tiers. \
             For rails, look at NCCL_IB_HCA, NCCL_CROSS_NIC and which GPU uses which NIC.",
    caveat: "A group that does not share one load by design (--group of unrelated links) is uneven by design, and so are links of which a job uses one for seconds, then another. Of rails only the whole run is judged: an imbalance that began late shows late.",
    ..Entry::EMPTY
};

/// What to do first where few 5-tuples are known to be the reason.
const ENTROPY_FIRST: &str = "See entropy.low first. ";

limits! {
    /// Thresholds about entropy.
    pub struct EntropyLimits = "entropy";
    min_flows: f64 = 4.0,
        "queue pairs, in equal flows, below which ports are not judged",
        "With fewer there is nothing to spread, whatever the ports";
    ratio: f64 = 0.5,
        "5-tuples over queue pairs, in equal flows",
        "Ports made from QP numbers collide now and then; that half of them do, does not happen by chance";
    ecmp: f64 = 1.5,
        "load of the busiest uplink over the mean, median over hash seeds",
        "At 1.5 the job gets two thirds of the bandwidth it paid for; Meta reported up to 40 % gained by fixing less (SIGCOMM 2024)";
}

limits! {
    /// Thresholds about links.
    pub struct LinksLimits = "links";
    max_over_mean: f64 = 1.5,
        "load of the busiest link over the mean",
        "As entropy.ecmp: a third of the bandwidth is lost";
    min_packets: u64 = 1000,
        "RoCE packets in the group below which it is not judged",
        "A few messages fall on a few links by chance";
    stretch_max_over_mean: f64 = 1.4,
        "load of the busiest link over the mean in a part of a run that is even all in all",
        "Less than for a whole run: that the links are even at other times shows that they do share the load";
    stretch_windows: u64 = 10,
        "loaded windows in which one link is uneven before a part of the run is judged",
        "A second or more: messages that happen to leave together, a step or a checkpoint are over by then";
    stretch_ratio: f64 = 0.1,
        "share of the run's loaded windows that they make up",
        "At 1.4 times the mean a tenth of the time costs the run a thirtieth; less is hardly worth a night";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    shared_ports(input, found);
    uplinks(input, found);
    let few_tuples = found.iter().any(|finding| finding.id == ENTROPY_LOW.id);
    let from = found.len();
    links(input, found);
    if few_tuples {
        for finding in found.iter_mut().skip(from) {
            finding.advice.insert_str(0, ENTROPY_FIRST);
        }
    }
}

/// Queue pairs of one host that share source ports.
fn shared_ports(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.entropy;
    let spreads = QpSpread::by_sender(input.sample);
    for spread in spreads {
        let (Some(pairs), Some(tuples)) = (spread.effective_queue_pairs, spread.effective_tuples) else {
            continue;
        };
        if pairs < limits.min_flows || tuples > pairs * limits.ratio {
            continue;
        }
        let host = spread.src;
        let title = format!(
            "{} queue pairs that {host} sends to share {}: the fabric sees {tuples:.1} flows instead of {pairs:.1}",
            spread.queue_pairs,
            if spread.source_ports == 1 {
                "one source port".to_owned()
            } else {
                format!("{} source ports", spread.source_ports)
            },
        );
        Raise::new(&ENTROPY_LOW, Severity::Warning, title)
            .evidence("queue_pairs", spread.queue_pairs)
            .evidence("effective_queue_pairs", pairs)
            .evidence("five_tuples", spread.five_tuples)
            .evidence("effective_five_tuples", tuples)
            .evidence("source_ports", spread.source_ports)
            .flows(busiest_from(input, host))
            .into(found);
    }
}

fn busiest_from<'a>(input: &Input<'a>, host: IpAddr) -> Vec<&'a Flow> {
    let mut by_pair: BTreeMap<(IpAddr, u32), &Flow> = BTreeMap::new();
    for flow in input.facts.flows.iter().filter(|flow| flow.src == host && flow.payload_bytes > 0) {
        let best = by_pair.entry((flow.dst, flow.dest_qp)).or_insert(flow);
        if flow.bytes > best.bytes {
            *best = flow;
        }
    }
    let mut flows: Vec<&Flow> = by_pair.into_values().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    flows
}

/// What the number of uplinks that the user named would make of it.
fn uplinks(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(ecmp) = &input.facts.ecmp else { return };
    for set in &ecmp.sets {
        let p50 =
            |name: &str| set.cases.iter().find(|case| case.case == name).map(|case| case.max_over_mean_p50);
        let limit = input.limits.entropy.ecmp;
        let Some(now) = p50("as_seen").filter(|now| *now >= limit) else { continue };
        // What would help, the least effort first.
        let better = ["port_per_qp", "qps_2", "qps_4", "qps_8"]
            .into_iter()
            .find(|name| p50(name).is_some_and(|p| p < limit));
        let Some(better) = better else { continue };
        let instead = match (hashing_case(better), p50(better)) {
            (Some(words), Some(p50)) => format!("; {words}: {p50:.2} times"),
            _ => String::new(),
        };
        let title = format!(
            "Hashing the {} 5-tuples ({}) over {} uplinks makes the busiest {now:.2} times as busy as the mean{instead}",
            set.five_tuples, set.of, ecmp.uplinks
        );
        Raise::new(&ENTROPY_LOW, Severity::Warning, title)
            .evidence("uplinks", ecmp.uplinks)
            .evidence("five_tuples", set.five_tuples)
            .evidence("max_over_mean_p50", now)
            .evidence("expected_collisions", set.expected_collisions)
            .evidence("better_case", better)
            .evidence("better_max_over_mean_p50", p50(better))
            .into(found);
    }
}

fn links(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.links;
    let packets_on = |names: &[String], direction| {
        let members =
            input.facts.links.iter().filter(|l| l.direction == direction && names.contains(&l.name));
        members.map(|link| (link.packets, link.bytes, link.name.as_str())).collect::<Vec<_>>()
    };
    let report = |group: Vec<(u64, u64, &str)>,
                  direction: Option<Direction>,
                  ratio: Option<f64>,
                  what: &str| {
        let packets: u64 = group.iter().map(|(packets, _, _)| packets).sum();
        let ratio = ratio.filter(|ratio| *ratio >= limits.max_over_mean && packets >= limits.min_packets)?;
        let (_, _, busiest) = group.iter().max_by_key(|(_, bytes, _)| *bytes)?;
        let way = direction.map_or_else(String::new, |way| format!(" ({})", direction_name(way)));
        let title = format!("{busiest} carries {ratio:.2} times the mean of its {} {what}{way}", group.len());
        let names: Vec<&str> = group.iter().map(|(_, _, name)| *name).collect();
        let bytes: Vec<u64> = group.iter().map(|(_, bytes, _)| *bytes).collect();
        Some(
            Raise::new(&LINKS_IMBALANCE, Severity::Warning, title)
                .evidence("links", names)
                .evidence("bytes", bytes)
                .evidence("max_over_mean", ratio),
        )
    };
    for group in input.facts.imbalance.iter().filter(|group| !group.same_path) {
        let members = packets_on(&group.links, group.direction);
        if let Some(raise) = report(members, group.direction, group.max_over_mean, "links") {
            let mut raise = raise.evidence("jain", group.jain);
            if let Some(time) = &group.over_time {
                raise = raise
                    .evidence("window_ns", time.window_ns)
                    .evidence("max_over_mean_p50", time.max_over_mean_p50)
                    .evidence("max_over_mean_max", time.max_over_mean_max);
            }
            raise.into(found);
        } else {
            stretch(
                input,
                group,
                packets_on(&group.links, group.direction).iter().map(|(p, ..)| p).sum(),
                found,
            );
        }
    }
    for rails in &input.facts.rails {
        let packets = |links: &[String]| packets_on(links, rails.direction).iter().map(|(p, _, _)| p).sum();
        let members =
            rails.rails.iter().map(|rail| (packets(&rail.links), rail.bytes, rail.name.as_str())).collect();
        if let Some(raise) = report(members, rails.direction, rails.max_over_mean, "rails") {
            raise.evidence("jain", rails.jain).into(found);
        }
    }
}

/// A part of the run in which a group was uneven that is even all in all.
fn stretch(input: &Input<'_>, group: &Imbalance, packets: u64, found: &mut Vec<Finding>) {
    let limits = &input.limits.links;
    let Some(part) = uneven::longest(input.sample, group, limits.stretch_max_over_mean) else { return };
    if part.windows < limits.stretch_windows
        || (part.windows as f64) < limits.stretch_ratio * part.of_windows as f64
        // Packets are not counted by window; those of a group are of about one length.
        || packets as f64 * part.bytes_ratio < limits.min_packets as f64
    {
        return;
    }
    let way = group.direction.map_or_else(String::new, |way| format!(" ({})", direction_name(way)));
    let title = format!(
        "{} carried {:.2} times the mean of its {} links{way} for {} since {}: {:.0} % of the time with load",
        part.link,
        part.max_over_mean,
        group.links.len(),
        units::duration(part.length_ns),
        units::clock_utc(part.since_ns),
        100.0 * part.windows as f64 / part.of_windows as f64,
    );
    Raise::new(&LINKS_IMBALANCE, Severity::Warning, title)
        .evidence("links", group.links.clone())
        .evidence("busiest", part.link.as_str())
        .evidence("max_over_mean", part.max_over_mean)
        .evidence("run_max_over_mean", group.max_over_mean)
        .evidence("since_ns", part.since_ns)
        .evidence("length_ns", part.length_ns)
        .evidence("windows", part.windows)
        .evidence("of_windows", part.of_windows)
        .evidence("bytes_ratio", part.bytes_ratio)
        .last_seen(Some(part.since_ns.saturating_add(part.length_ns)))
        .into(found);
}
