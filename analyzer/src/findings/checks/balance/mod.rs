//! Load balancing: over parallel links, and over the 5-tuples that switches hash for ECMP.

mod computed;
mod stretch;
#[cfg(test)]
mod tests;
mod uneven;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::ends;
use crate::analysis::{Ecmp, Flow, Imbalance, QpSpread, hashing_case};
use crate::findings::title::{short, title};
use crate::findings::{
    ByHand, End, Entry, Family, Finding, Input, Measure, Place, Problem, Raise, Severity, Unit, label,
};
use crate::findings::{dedup, ids};
use crate::sample::{Address, Direction};
use crate::util::units::{self, plural};
use computed::Computed;
use uneven::{Uneven, is_bound};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[ENTROPY_LOW, LINKS_IMBALANCE],
    limits: &[EntropyLimits::META, LinksLimits::META],
    evidence: &[
        label("length_ns", "time with load in it", Unit::Nanoseconds),
        label("worse_direction", "busier in direction", Unit::Text),
        label("other_max_over_mean", "busiest link over mean, other direction", Unit::Factor),
        label("windows", "windows with load in it", Unit::Count),
        label("of_windows", "windows with load, whole run or one minute", Unit::Count),
        label("bytes_ratio", "share of the run's bytes", Unit::Ratio),
        label("excess_bytes", "bytes above an even share", Unit::Bytes),
        label("excess_ratio", "share of the links' bytes above an even share", Unit::Ratio),
        label("of_flows", "data flows on all these links", Unit::Count),
        label("heaviest", "heaviest flows there", Unit::Text),
        label("heaviest_ratios", "their shares of the link's bytes", Unit::Ratio),
        label("weighted_by", "weight of a queue pair", Unit::Text),
    ],
    check,
};

pub(super) const ENTROPY_LOW: Entry = Entry {
    id: ids::ENTROPY_LOW,
    rank: 350,
    title: "Low ECMP entropy: too few source ports",
    meaning: "Switches choose a path by a hash over addresses and UDP ports. Queue pairs that share a source port are one flow to them and share one uplink, however \
                many paths exist; the busiest uplink then limits collective bandwidth.",
    computed: "The bytes that a host sends are counted by queue pair and by 5-tuple; each count yields a number of effective flows (2 to the entropy of the bytes). A warning when the \
               queue pairs amount to at least entropy.min_flows effective flows, and the 5-tuples to at most entropy.ratio of that.\n\
               \n\
               With --ecmp N also a warning when hashing the 5-tuples over N uplinks puts at least entropy.ecmp times the mean on the busiest (median over hash seeds), while a source \
               port per queue pair, or more queue pairs, would keep it below. More than 8 such hosts are one finding; its figures are those of the host with the lowest ratio of \
               effective flows by 5-tuple to those by queue pair.\n\
               \n\
               Bytes by 5-tuple are counted over the whole run, without times. Live, the same for queue pairs of which no packet is seen (qp_paths), by addresses and source \
               ports that are computed or that the NIC's contexts have; a queue pair weighs its bytes (PSNs sent × path MTU), or all weigh the same where those of some are not known \
               (weighted_by).",
    advice: "Use a source port per queue pair: the driver derives the port from the flow label or from both QP numbers, so check that the flow label is not fixed \
               (perftest --flow_label, a fixed RDMA CM flow label). With NCCL raise NCCL_IB_QPS_PER_CONNECTION (see NCCL_IB_SPLIT_DATA_ON_QPS), or let the switches \
               hash on the BTH destination QP (SAI hash field RDMA_BTH_DEST_QP, user-defined fields), or use adaptive routing.",
    caveat: "Fabrics that hash on the destination QP, spray packets or route adaptively are not affected. The hash function of the real switches is unknown.",
    ..Entry::of(Problem::Hashing)
};
/// Uneven load on parallel links.
pub(in crate::findings) const LINKS_IMBALANCE: Entry = Entry {
    id: ids::LINKS_IMBALANCE,
    rank: 360,
    causes: &[ENTROPY_LOW.id],
    measure: Some(Measure::ratio("max_over_mean")),
    title: "Uneven load on parallel links",
    meaning: "One uplink, port or rail is much busier than its peers, so its traffic queues while others idle.",
    computed: "For each group of links (imbalance) and for rails. In a live run only parallel interfaces are compared: two that see the same packets (both ends of a cable, both sides of \
               a router) share no load. A warning in these cases:\n\
               - The busiest carries at least links.max_over_mean times the mean, and the group carried at least links.min_packets packets. If captures of cables hold both \
               directions, each direction with the share links.one_way of the bytes is compared by itself too.\n\
               - The whole run is even, but in a part one link carries links.stretch_max_over_mean times the mean: at least links.stretch_windows windows of about 100 ms (longer \
               in long runs) and links.stretch_ratio of those of the minute from its start (at most the last one of the run), two of three of them uneven by at least half as much. Only \
               windows with at least links.stretch_loaded times the bytes of the mean window count.\n\
               - In the last 8 s one link carries links.max_over_mean times the mean, for links.lasting_ns or longer and in links.lasting_windows loaded windows, until now. These \
               windows are about 100 ms long in any run, and loaded also compared with one another, if the group has at least links.stretch_loaded times the rate of the run.\n\
               \n\
               A part has ended when over links.lasting_ns or longer after it, in links.lasting_windows loaded windows or more, the link carries less than half of the excess that makes \
               a part. If the load was even for longer within the part, it takes twice that time; {EPISODE_GAP_NS} where another part ended less than {EPISODE_GAP_NS} before it, or where no load follows.\n\
               \n\
               Time shown: the longest uneven part; if it ended {EPISODE_GAP_NS} or more ago, the longest later one. If all have ended, the finding has ended, with the figures of the last, also where the \
               whole run is uneven. Else an uneven run has the figures of the run; it begins with its first part, or at no known time without any. Rails have no times.\n\
               Live, also the rails, or without rails the watched ports, by the bytes (PSNs sent × path MTU) and PSNs of queue pairs of which no packet is seen (qp_paths), over the \
               whole run, with links.max_over_mean and links.min_packets; not where the bytes of some are not known.\n\
               \n\
               A link that is the busiest of its group in both directions is one finding, with the figures of the direction in which it is busier and the time of both. While a part goes \
               on, all figures are those of the part; when it has ended, its share of the loaded windows (windows, of_windows) and bytes (bytes_ratio) of the run follows. excess_bytes \
               are those that would have passed the peers if the load had been even.\n\
               \n\
               It names the flows on the busiest link in that time with at least links.flow_ratio of the bytes of the heaviest, those with most bytes first (heaviest: requester → responder), and the share of each (heaviest_ratios); in a part of \
               the run, their bytes are those of their packets. If all of them have one host as their source or as their destination, title, requester and responder name it.\n\
               \n\
               If one address takes part in all data of each link, and the links have no address in common (live: no address of this host), as the NICs of a host, no switch chooses the link: the steps are about the job's assignment, and entropy.low is no cause.",
    advice: "With few 5-tuples hashing cannot do better. With many, compare the hash fields of the switches (L4 ports, destination QP) and check for hash \
               polarisation between tiers. For rails, check NCCL_IB_HCA, NCCL_CROSS_NIC and the GPU to NIC assignment.",
    caveat: "Groups that share no load by design (--group of unrelated links) are uneven by design, and so are links that a job uses alternately for seconds. Rails \
               are evaluated over the whole run only, without times: an imbalance that began late is reported late, and one that ended lasts.",
    ..Entry::of(Problem::Imbalance)
};

/// Step for flows that share source ports.
const MORE_PORTS: &str =
    "Use more source ports: raise NCCL_IB_QPS_PER_CONNECTION (NCCL_IB_SPLIT_DATA_ON_QPS=1).";
/// Step for flows that the switches hash alike.
const OTHER_HASH: &str = "Enable hashing on the BTH destination QP, or adaptive routing, on the switches.";
/// First step if too few 5-tuples are known to be the cause.
const ENTROPY_FIRST: &str = "See entropy.low first. ";

limits! {
    /// Thresholds of entropy.
    pub struct EntropyLimits = "entropy";
    min_flows: f64 = 4.0,
        "minimum effective flows by queue pair",
        "With fewer there is nothing to balance, whatever the ports";
    ratio: f64 = 0.5,
        "maximum effective flows by 5-tuple over those by queue pair",
        "Ports derived from QP numbers collide occasionally; a collision of half of them is not a coincidence";
    ecmp: f64 = 1.5,
        "minimum load of the busiest uplink over the mean, median over hash seeds",
        "At 1.5 the job gets two thirds of the bandwidth; Meta reported up to 40 % gained by fixing less (SIGCOMM 2024)";
}

limits! {
    /// Thresholds of link balance.
    pub struct LinksLimits = "links";
    max_over_mean: f64 = 1.5,
        "minimum load of the busiest link over the mean",
        "The value of entropy.ecmp, here of the load that was measured";
    min_packets: u64 = 1000,
        "minimum RoCE packets in the group",
        "A few messages hit a few links by chance";
    one_way: f64 = 0.2,
        "minimum share of the bytes of both directions that one must carry to be compared by itself",
        "ACKs are a few per cent of the data that they are for, and no load";
    stretch_max_over_mean: f64 = 1.4,
        "minimum load of the busiest link over the mean in a part of an otherwise even run",
        "Less than for a whole run: even load at other times shows that the links share the load";
    stretch_windows: u64 = 10,
        "minimum loaded windows in which one link is uneven",
        "A second or more: messages that coincide, a step or a checkpoint are shorter";
    stretch_ratio: f64 = 0.1,
        "minimum share of the loaded windows of the minute from its start, or of the last minute of the run",
        "At 1.4 times the mean, a tenth of the time costs the run a thirtieth; less is not worth an on-call alert";
    lasting_ns: u64 = 2_000_000_000,
        "minimum time over which the load is uneven until now, and even again after it, in nanoseconds",
        "Two steps of a second: messages that coincide, a step or a checkpoint are shorter. Its share of the minute is known only when it has ended";
    lasting_windows: u64 = 6,
        "minimum loaded windows in that time",
        "Three steps of a second that communicate for a quarter of the time. Fewer are uneven by chance";
    stretch_loaded: f64 = 0.5,
        "minimum bytes of a window over those of the mean window, for it to count as loaded",
        "Little traffic passes between two steps, or while a job evaluates; it may use one link without harm";
    flow_ratio: f64 = 0.01,
        "minimum bytes of a flow that the finding names, over those of the heaviest one on the link",
        "Acknowledgements and control messages are no load that could be moved";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let senders: BTreeSet<_> =
        input.facts.flows.iter().filter(|flow| flow.payload_bytes > 0).map(|flow| flow.src).collect();
    // ACKs are no load, wherever they are hashed to.
    let with_data = input.facts.spreads.iter().filter(|spread| senders.contains(&spread.src));
    shared_ports(input, with_data, None, found);
    uplinks(input, input.facts.ecmp.as_ref(), None, found);
    if let Some(paths) = &input.facts.qp_paths {
        let computed = Some(Computed(paths));
        shared_ports(input, paths.spreads.iter(), computed, found);
        uplinks(input, paths.ecmp.as_ref(), computed, found);
    }
    let few_tuples = found.iter().any(|finding| finding.id == ENTROPY_LOW.id);
    let from = found.len();
    let hashed = links(input, found);
    computed::balance(input, found);
    let (entropy, uneven) = found.split_at_mut(from);
    if few_tuples && hashed {
        for finding in uneven {
            finding.advice.insert_str(0, ENTROPY_FIRST);
        }
    } else if few_tuples {
        let entropy = entropy.iter_mut().filter(|finding| finding.id == ENTROPY_LOW.id);
        entropy.for_each(|finding| finding.no_cause_of = &[ids::LINKS_IMBALANCE]);
    }
}

/// Maximum number of hosts with a finding each. If more hosts show the same, no single host is the cause.
const HOSTS_EACH: usize = 8;

/// Queue pairs of one host, or of many hosts, that share source ports: seen in packets, or computed.
fn shared_ports<'a>(
    input: &Input<'_>,
    spreads: impl Iterator<Item = &'a QpSpread>,
    computed: Option<Computed<'_>>,
    found: &mut Vec<Finding>,
) {
    let limits = &input.limits.entropy;
    let low: Vec<LowEntropy<'_>> = spreads
        .filter_map(|spread| {
            let (pairs, tuples) = (spread.effective_queue_pairs?, spread.effective_tuples?);
            (pairs >= limits.min_flows && tuples <= pairs * limits.ratio).then_some(LowEntropy {
                spread,
                pairs,
                tuples,
            })
        })
        .collect();
    if low.is_empty() {
        return;
    }
    // None of the flows is one of those of which no packet is seen.
    let mut busiest = if computed.is_some() { BTreeMap::new() } else { busiest(input) };
    let mut flows_of = |host| busiest.remove(&host).unwrap_or_default();
    if low.len() > HOSTS_EACH {
        let flows = low.iter().filter_map(|one| flows_of(one.spread.src).into_iter().next()).collect();
        of_hosts(input, &low, flows, computed, found);
        return;
    }
    for one in &low {
        let host = one.spread.src;
        let (queue_pairs, ports) =
            (plural(one.spread.queue_pairs, "QP"), plural(one.spread.source_ports, "source port"));
        let diagnosis = format!("Low ECMP entropy: {queue_pairs} of {host} share {ports}");
        let flows = flows_of(host);
        let requester = ends::of_data(input, flows.iter().copied()).0.map(|end| End { qpn: None, ..end });
        let raised = Raise::new(&ENTROPY_LOW, Severity::Warning, title(diagnosis, [one.figure()]));
        let raised = one.evidence(raised);
        let raised = match computed {
            Some(computed) => computed.of_host(input, raised, host),
            None => raised
                .place(flows.first().map(|flow| Place::of(input, flow)).unwrap_or_default())
                .flows(flows)
                .ends(requester, None),
        };
        raised
            .step(
                format!("On {host}, check that the flow label of the queue pairs is not fixed."),
                ByHand::Job,
            )
            .step(MORE_PORTS, ByHand::Job)
            .step(OTHER_HASH, ByHand::Switch)
            .into(found);
    }
}

/// One finding for all hosts: `flows` contains the busiest flow of each.
fn of_hosts(
    input: &Input<'_>,
    low: &[LowEntropy<'_>],
    mut flows: Vec<&Flow>,
    computed: Option<Computed<'_>>,
    found: &mut Vec<Finding>,
) {
    let share = |one: &&LowEntropy<'_>| one.tuples / one.pairs;
    let Some(worst) = low.iter().min_by(|a, b| share(a).total_cmp(&share(b))) else { return };
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    let hosts = units::count(low.len() as u64);
    let diagnosis = format!("Low ECMP entropy: QPs of {hosts} hosts share source ports");
    let host = format!(", worst {}", worst.spread.src);
    let raised = Raise::new(&ENTROPY_LOW, Severity::Warning, title(diagnosis, [host, worst.figure()]))
        .evidence("hosts", low.len());
    let raised = worst.evidence(raised);
    let raised = match computed {
        Some(computed) => computed.mark(raised),
        None => {
            raised.place(flows.first().map(|flow| Place::of(input, flow)).unwrap_or_default()).flows(flows)
        }
    };
    raised
        .step("On these hosts, check that the flow label of the queue pairs is not fixed.", ByHand::Job)
        .step(MORE_PORTS, ByHand::Job)
        .step(OTHER_HASH, ByHand::Switch)
        .into(found);
}

/// A host whose queue pairs share source ports.
struct LowEntropy<'a> {
    spread: &'a QpSpread,
    /// Effective flows, counted by queue pair.
    pairs: f64,
    /// Effective flows, counted by 5-tuple.
    tuples: f64,
}

impl LowEntropy<'_> {
    fn figure(&self) -> String {
        format!(" ({:.1} of {:.1} flows)", self.tuples, self.pairs)
    }

    fn evidence(&self, raised: Raise) -> Raise {
        raised
            .evidence("queue_pairs", self.spread.queue_pairs)
            .evidence("effective_queue_pairs", self.pairs)
            .evidence("five_tuples", self.spread.five_tuples)
            .evidence("effective_five_tuples", self.tuples)
            .evidence("source_ports", self.spread.source_ports)
    }
}

/// The data flows of each host, largest first: of each queue pair the flow with the most bytes.
fn busiest<'a>(input: &Input<'a>) -> BTreeMap<Address, Vec<&'a Flow>> {
    // A list: a map of very many flows takes several times the memory.
    let mut flows: Vec<&Flow> = input.facts.flows.iter().filter(|flow| flow.payload_bytes > 0).collect();
    flows.sort_by_key(|flow| dedup::name(flow));
    flows.dedup_by(|next, best| {
        let same = dedup::name(next) == dedup::name(best);
        if same && next.bytes > best.bytes {
            *best = *next;
        }
        same
    });
    let mut hosts: BTreeMap<Address, Vec<&Flow>> = BTreeMap::new();
    for flow in flows {
        hosts.entry(flow.src).or_default().push(flow);
    }
    for flows in hosts.values_mut() {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    }
    hosts
}

/// ECMP over the number of uplinks given with `--ecmp`.
fn uplinks(input: &Input<'_>, ecmp: Option<&Ecmp>, computed: Option<Computed<'_>>, found: &mut Vec<Finding>) {
    let Some(ecmp) = ecmp else { return };
    for set in &ecmp.sets {
        let p50 =
            |name: &str| set.cases.iter().find(|case| case.case == name).map(|case| case.max_over_mean_p50);
        let limit = input.limits.entropy.ecmp;
        let Some(now) = p50("as_seen").filter(|now| *now >= limit) else { continue };
        // Remedies, least effort first.
        let better = ["port_per_qp", "qps_2", "qps_4", "qps_8"]
            .into_iter()
            .find(|name| p50(name).is_some_and(|p| p < limit));
        let Some(better) = better else { continue };
        let diagnosis =
            format!("Simulated ECMP: busiest of {} uplinks carries {now:.2} × the mean", ecmp.uplinks);
        let tuples = format!(", {} 5-tuples", set.five_tuples);
        let remedy = match (hashing_case(better), p50(better)) {
            (Some(words), Some(p50)) => {
                format!("With {words}, the busiest uplink would carry {p50:.2} × the mean.")
            }
            _ => MORE_PORTS.to_owned(),
        };
        let title = title(diagnosis, [tuples, format!(" ({})", set.of)]);
        let raised = Raise::new(&ENTROPY_LOW, Severity::Warning, title);
        let raised = match computed {
            Some(computed) => computed.mark(raised),
            None => raised,
        };
        raised
            .step(remedy, ByHand::Job)
            .step(OTHER_HASH, ByHand::Switch)
            .evidence("uplinks", ecmp.uplinks)
            .evidence("five_tuples", set.five_tuples)
            .evidence("max_over_mean_p50", now)
            .evidence("expected_collisions", set.expected_collisions)
            .evidence("better_case", better)
            .evidence("better_max_over_mean_p50", p50(better))
            .into(found);
    }
}

/// Uneven links and rails; false if no hash distributes the load of any of them.
fn links(input: &Input<'_>, found: &mut Vec<Finding>) -> bool {
    let mut all = Vec::new();
    let on = |names: &[String], direction| {
        let links = input.facts.links.iter();
        let members = links.filter(|link| link.direction == direction && names.contains(&link.name));
        members.map(|link| (link.packets, link.bytes, link.name.as_str())).collect::<Vec<_>>()
    };
    for group in input.facts.imbalance.iter().filter(|group| !group.same_path) {
        let members = on(&group.links, group.direction);
        let packets = members.iter().map(|(packets, ..)| packets).sum();
        let whole = whole(input, &members, group.direction, group.max_over_mean, "links");
        let part = stretch::of(input, group, packets);
        // A part that has ended must not last for the bytes that it had.
        let has_ended = part.as_ref().is_some_and(|part| part.has_ended(input));
        let whole = whole.or_else(|| one_way(input, group)).filter(|_| !has_ended);
        let bound = || {
            let parts: Vec<&[String]> = group.links.iter().map(std::slice::from_ref).collect();
            is_bound(input, &parts, group.direction)
        };
        if let Some(uneven) = whole {
            let mut uneven = uneven.evidence("jain", group.jain);
            if let Some(time) = &group.over_time {
                uneven = uneven
                    .evidence("window_ns", time.window_ns)
                    .evidence("max_over_mean_p50", time.max_over_mean_p50)
                    .evidence("max_over_mean_max", time.max_over_mean_max);
            }
            uneven.episodes = part.map(|part| part.episodes).unwrap_or_default();
            uneven.bound = bound();
            uneven.join(&mut all);
        } else if let Some(mut uneven) = part {
            uneven.bound = bound();
            uneven.join(&mut all);
        }
    }
    for rails in &input.facts.rails {
        let packets = |links: &[String]| on(links, rails.direction).iter().map(|(p, _, _)| p).sum();
        let members: Vec<_> =
            rails.rails.iter().map(|rail| (packets(&rail.links), rail.bytes, rail.name.as_str())).collect();
        if let Some(mut uneven) = whole(input, &members, rails.direction, rails.max_over_mean, "rails") {
            let busiest = rails.rails.iter().find(|rail| rail.name == uneven.busiest);
            uneven.on = busiest.map(|rail| rail.links.clone()).unwrap_or_default();
            let parts: Vec<&[String]> = rails.rails.iter().map(|rail| &rail.links[..]).collect();
            uneven.bound = is_bound(input, &parts, rails.direction);
            uneven.evidence("jain", rails.jain).join(&mut all);
        }
    }
    let hashed = all.is_empty() || all.iter().any(|(uneven, _)| !uneven.bound);
    for (uneven, other) in all {
        uneven.into(input, other, found);
    }
    hashed
}

/// A group that is uneven over the whole run, from packets, bytes and name of each member.
fn whole(
    input: &Input<'_>,
    group: &[(u64, u64, &str)],
    direction: Option<Direction>,
    ratio: Option<f64>,
    what: &str,
) -> Option<Uneven> {
    let limits = &input.limits.links;
    let packets: u64 = group.iter().map(|(packets, _, _)| packets).sum();
    let ratio = ratio.filter(|ratio| *ratio >= limits.max_over_mean && packets >= limits.min_packets)?;
    let (_, _, busiest) = group.iter().max_by_key(|(_, bytes, _)| *bytes)?;
    let (name, count) = (short(busiest), group.len());
    let diagnosis = format!("Uneven load: {name} carries {ratio:.2} × the mean of {count} {what}");
    let names = group.iter().map(|(_, _, name)| (*name).to_owned()).collect();
    let bytes: Vec<u64> = group.iter().map(|(_, bytes, _)| *bytes).collect();
    let mut uneven = Uneven::new(names, busiest, ratio, diagnosis).of_bytes(bytes);
    uneven.direction = direction;
    Some(uneven.evidence("max_over_mean", ratio))
}

/// A captured link that is uneven in one direction although the sum of both directions is even.
fn one_way(input: &Input<'_>, group: &Imbalance) -> Option<Uneven> {
    let limits = &input.limits.links;
    let all: u64 = group.ways.iter().flatten().flat_map(|way| &way.bytes).sum();
    let uneven = group.ways.iter().flatten().filter(|way| {
        // A direction with only ACKs carries no load.
        let bytes: u64 = way.bytes.iter().sum();
        way.packets >= limits.min_packets && bytes as f64 >= limits.one_way * all as f64
    });
    let worst =
        uneven.max_by(|a, b| a.max_over_mean.partial_cmp(&b.max_over_mean).unwrap_or(Ordering::Equal))?;
    let ratio = worst.max_over_mean.filter(|ratio| *ratio >= limits.max_over_mean)?;
    let (busiest, _) = group.links.iter().zip(&worst.bytes).max_by_key(|(_, bytes)| **bytes)?;
    let source = worst.sources.first()?;
    let diagnosis = format!(
        "Uneven load: {} carries {ratio:.2} × the mean of {} links",
        short(busiest),
        group.links.len()
    );
    let more = match worst.sources.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let mut uneven = Uneven::new(group.links.clone(), busiest, ratio, diagnosis)
        .of_bytes(worst.bytes.clone())
        .evidence("max_over_mean", ratio)
        .evidence("run_max_over_mean", group.max_over_mean)
        .evidence("sources", worst.sources.iter().map(ToString::to_string).collect::<Vec<_>>());
    uneven.more = format!(" (from {source}{more})");
    Some(uneven)
}
