//! RoCE between hosts that do not belong to the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ends;
use crate::analysis::{ByLink, Flow};
use crate::findings::command::ethernet;
use crate::findings::period::{Period, run};
use crate::findings::title::{more, pair, short, title};
use crate::findings::{
    ByHand, Commands, Entry, Episode, Family, Finding, Impact, Input, Measure, Place, Problem, Raise,
    Severity, Unit, label,
};
use crate::sample::Address;
use crate::util::map::Map;
use crate::util::units;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[FOREIGN],
    limits: &[],
    evidence: &[
        label("hosts", "hosts of the foreign network", Unit::Count),
        label("other_hosts", "hosts of the rest", Unit::Count),
        label("share", "share of the RoCE bytes of the link meanwhile", Unit::Ratio),
        label("network", "their smallest common prefix, or addresses", Unit::Text),
    ],
    check,
};

const FOREIGN: Entry = Entry {
    id: "isolation.foreign_roce",
    rank: 405,
    measure: Some(Measure::ratio("share")),
    title: "RoCE of another network on the link",
    meaning: "<eth>Hosts of a network that the rest does not use send RoCE over the same link: another tenant or job, or hosts in the wrong VLAN. They share the queues, the lossless class and its pauses, and the bandwidth.</eth>",
    computed: "Per link and IP version. Hosts that exchange RoCE, directly or through others, belong together. So does a group of which a host lies in the prefix that covers the hosts \
               of another (at most /24, IPv6 /64), shortened by isolation.wider_bits (IPv6: twice as many), and one whose host parts (last 16 bits, IPv6: 64) are all found in another: a \
               rail. The network with most hosts is the job's.\n\
               \n\
               A warning for another network when it has isolation.share of the RoCE bytes of the link from its first packet to its last and at least isolation.roce_packets packets, and \
               the job's has at least isolation.other_hosts times its hosts. So rails with a /24 each, routed subnets of one address plan, and whoever talks with the job are not \
               reported.",
    advice: "<eth>Find the hosts (`ip route get ADDRESS`, LLDP, the MAC table of the switch) and whether they belong on this fabric.</eth> <eth>Separate tenants by VLAN or VRF, give them a traffic class of their own, or limit it with ETS.</eth>",
    caveat: "Storage with an address plan of its own on a converged fabric looks the same. A tap that sees few hosts of a rail, or a small job of another pod in a wide address plan, may take them for foreign.",
    ..Entry::of(Problem::Foreign)
};

/// Hosts that exchange RoCE packets, or the same network.
struct Group<'a> {
    hosts: BTreeSet<IpAddr>,
    flows: Vec<&'a Flow>,
    bytes: u64,
    packets: u64,
    /// The neighbourhood of its groups: the bits of prefixes, and their lengths.
    near: BTreeSet<(u128, u32)>,
    /// Host parts of its hosts.
    parts: BTreeSet<u128>,
}

/// Foreign traffic on a link.
struct ForeignTraffic<'a> {
    link: &'a str,
    /// The foreign network with the most bytes.
    worst: Group<'a>,
    /// Groups of all networks but the largest.
    rest: Vec<Group<'a>>,
    /// Its share of the bytes of the link.
    share: f64,
    /// Number of further foreign groups.
    more: u64,
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let by_link = ByLink::of(input.facts);
    let links = input.facts.links.iter();
    let mut seen: Vec<ForeignTraffic<'_>> =
        links.filter_map(|link| seen(input, &link.name, groups(by_link.on(link).iter().copied()))).collect();
    // Both directions of a link, and taps on one path, show the same hosts.
    seen.sort_by_key(|one| Reverse(one.worst.bytes));
    let mut raised: BTreeSet<&BTreeSet<IpAddr>> = BTreeSet::new();
    for one in &seen {
        if raised.insert(&one.worst.hosts) {
            raise(input, one, found);
        }
    }
}

fn seen<'a>(input: &Input<'a>, link: &'a str, groups: Vec<Group<'a>>) -> Option<ForeignTraffic<'a>> {
    let limits = &input.limits.isolation;
    let (mut v4, v6): (Vec<_>, Vec<_>) =
        networks(groups, limits.wider_bits).into_iter().partition(Group::is_v4);
    // The network with most hosts comes first.
    let is_small = |at: usize, group: &Group<'_>, all: &[Group<'_>]| {
        let most = all.first().map_or(0, |job| job.hosts.len());
        at > 0 && most >= limits.other_hosts * group.hosts.len()
    };
    let of = |all: &[Group<'_>]| -> Vec<bool> {
        (0..).zip(all).map(|(at, group)| is_small(at, group, all)).collect()
    };
    let small = [of(&v4), of(&v6)].concat();
    v4.extend(v6);
    let mut all = v4;
    let is_foreign = |(group, small): (&Group<'_>, &bool)| {
        *small && group.packets >= limits.roce_packets && share(input, group, &all) >= limits.share
    };
    let foreign: Vec<usize> =
        (0..).zip(all.iter().zip(&small)).filter(|(_, one)| is_foreign(*one)).map(|(at, _)| at).collect();
    let worst = foreign.iter().copied().max_by_key(|at| all.get(*at).map(|group| group.bytes))?;
    let share = share(input, all.get(worst)?, &all);
    let worst = all.swap_remove(worst);
    Some(ForeignTraffic { link, share, more: foreign.len() as u64 - 1, worst, rest: all })
}

/// Groups that belong together as one, those with most hosts first.
fn networks(mut groups: Vec<Group<'_>>, wider: u32) -> Vec<Group<'_>> {
    groups.sort_by_key(|group| (Reverse(group.hosts.len()), group.hosts.first().copied()));
    let mut networks: Vec<Group<'_>> = Vec::new();
    for mut group in groups {
        group.near = group.prefix(wider).into_iter().collect();
        group.parts = group.hosts.iter().copied().map(host_part).collect();
        match networks.iter_mut().find(|network| network.takes(&group)) {
            Some(network) => network.join(group),
            None => networks.push(group),
        }
    }
    networks.sort_by_key(|group| (Reverse(group.hosts.len()), group.hosts.first().copied()));
    networks
}

impl Group<'_> {
    fn is_v4(&self) -> bool {
        self.hosts.first().is_some_and(IpAddr::is_ipv4)
    }

    /// The prefix that covers the hosts, at most that of a subnet, shortened.
    fn prefix(&self, wider: u32) -> Option<(u128, u32)> {
        let (first, last) = self.hosts.first().zip(self.hosts.last())?;
        let (subnet, wider) = if self.is_v4() { (24, wider) } else { (64, 2 * wider) };
        let common = (bits(*first) ^ bits(*last)).leading_zeros();
        let len = common.min(subnet).saturating_sub(wider);
        Some((start(bits(*first), len), len))
    }

    /// True if another group belongs to this one: it is near, or a rail of the same hosts.
    fn takes(&self, other: &Self) -> bool {
        if self.is_v4() != other.is_v4() {
            return false;
        }
        let is_near =
            |host: &IpAddr| self.near.iter().any(|(prefix, len)| start(bits(*host), *len) == *prefix);
        other.hosts.iter().any(is_near) || other.parts.is_subset(&self.parts)
    }
}

impl<'a> Group<'a> {
    fn join(&mut self, other: Group<'a>) {
        self.hosts.extend(other.hosts);
        self.flows.extend(other.flows);
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.near.extend(other.near);
        self.parts.extend(other.parts);
    }
}

/// The share of a group in the bytes of all, from its first packet to its last.
fn share(input: &Input<'_>, group: &Group<'_>, all: &[Group<'_>]) -> f64 {
    let run = run(group.flows.iter().copied());
    let period = Period::between(run.first_ns, run.last_ns);
    let of = |flow: &&Flow| period.part(input.facts, flow, flow.bytes);
    let bytes: u64 = all.iter().flat_map(|group| &group.flows).map(of).sum();
    group.bytes as f64 / bytes.max(group.bytes).max(1) as f64
}

/// Groups of connected hosts of one IP version, from the flows between them.
fn groups<'a>(flows: impl Iterator<Item = &'a Flow>) -> Vec<Group<'a>> {
    let mut between: Vec<&Flow> = flows.filter(|flow| hosts(flow).is_some()).collect();
    between.sort_by_key(|flow| (flow.src, flow.dst));
    let by_hosts = between.chunk_by(|a, b| (a.src, a.dst) == (b.src, b.dst));
    let by_hosts: Vec<_> = by_hosts.filter_map(|own| Some((hosts(own.first()?)?, own))).collect();
    let mut leaders: Map<IpAddr, IpAddr> = Map::default();
    for &((src, dst), _) in &by_hosts {
        let (a, b) = (leader(&mut leaders, src), leader(&mut leaders, dst));
        leaders.insert(a.max(b), a.min(b));
    }
    let mut groups: BTreeMap<IpAddr, Group<'a>> = BTreeMap::new();
    for ((src, dst), flows) in by_hosts {
        let leader = leader(&mut leaders, src);
        let group = groups.entry(leader).or_insert_with(|| Group {
            hosts: BTreeSet::new(),
            flows: Vec::new(),
            bytes: 0,
            packets: 0,
            near: BTreeSet::new(),
            parts: BTreeSet::new(),
        });
        group.hosts.extend([src, dst]);
        group.bytes += flows.iter().map(|flow| flow.bytes).sum::<u64>();
        group.packets += flows.iter().map(|flow| flow.packets).sum::<u64>();
        group.flows.extend(flows);
    }
    groups.into_values().collect()
}

/// The hosts of a flow; `None` if they are no evidence, since management datagrams of others occur on every fabric.
fn hosts(flow: &Flow) -> Option<(IpAddr, IpAddr)> {
    let (Address::Ip(src), Address::Ip(dst)) = (flow.src, flow.dst) else { return None };
    (flow.dest_qp > 1 && is_unicast(src) && is_unicast(dst)).then_some((src, dst))
}

/// Lowest address of a host's group so far (union-find with path compression).
fn leader(leaders: &mut Map<IpAddr, IpAddr>, host: IpAddr) -> IpAddr {
    let mut at = host;
    while let Some(next) = leaders.get(&at).copied().filter(|next| *next != at) {
        at = next;
    }
    leaders.insert(host, at);
    at
}

fn is_unicast(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_link_local(),
        // The link-local address of a port is an alias of a host with other addresses.
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unicast_link_local(),
    }
}

/// An address from its most significant bit on.
fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The first bits of an address.
fn start(bits: u128, len: u32) -> u128 {
    bits & u128::MAX.checked_shl(128 - len).unwrap_or(0)
}

/// The part of an address that distinguishes hosts of a subnet.
fn host_part(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => u128::from(v4.to_bits() & 0xFFFF),
        IpAddr::V6(v6) => v6.to_bits() & u128::from(u64::MAX),
    }
}

/// The smallest prefix that contains these hosts and none of the rest; else their addresses.
fn network(hosts: &BTreeSet<IpAddr>, rest: &[Group<'_>]) -> String {
    const MOST: usize = 4;
    let (Some(first), Some(last)) = (hosts.first(), hosts.last()) else { return String::new() };
    let common = (bits(*first) ^ bits(*last)).leading_zeros();
    let prefix = start(bits(*first), common);
    let within = |host: &IpAddr| host.is_ipv4() == first.is_ipv4() && start(bits(*host), common) == prefix;
    if rest.iter().flat_map(|group| &group.hosts).any(within) {
        let more = hosts.len().saturating_sub(MOST);
        let names: Vec<String> = hosts.iter().take(MOST).map(ToString::to_string).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return format!("{}{more}", names.join(", "));
    }
    match first {
        IpAddr::V4(_) => {
            format!("{}/{}", Ipv4Addr::from_bits((prefix >> 96) as u32), common.min(32))
        }
        IpAddr::V6(_) => format!("{}/{common}", Ipv6Addr::from_bits(prefix)),
    }
}

fn raise(input: &Input<'_>, seen: &ForeignTraffic<'_>, found: &mut Vec<Finding>) {
    let ForeignTraffic { link, worst: group, rest, share, more: more_groups } = seen;
    let time = run(group.flows.iter().copied());
    let mut flows = group.flows.clone();
    flows.sort_by_key(|flow| Reverse(flow.bytes));
    let Some(first) = flows.first().copied() else { return };
    let diagnosis = format!("Foreign RoCE on {}: {} of the bytes", short(link), units::ratio(Some(*share)));
    let parts = [pair(first.src, first.dst), more(*more_groups, "network")];
    let (requester, responder) = ends::of_data(input, [first]);
    let here = Commands::on(input, link);
    let (first_ns, last_ns) = (time.first_ns, time.last_ns);
    Raise::new(&FOREIGN, Severity::Warning, title(diagnosis, parts))
        .evidence("hosts", group.hosts.len())
        .evidence("other_hosts", rest.iter().map(|group| group.hosts.len()).sum::<usize>())
        .evidence("share", *share)
        .evidence("network", network(&group.hosts, rest))
        .place(Place::of(input, first))
        .flows(flows)
        .ends(requester, responder)
        .impact(Impact { packets_ratio: Some(*share), ..Impact::default() })
        .episodes(vec![Episode { first_ns, last_ns, peak: Some(*share) }])
        .step(
            format!("Find {} and {}: MAC table of the switch, LLDP.", first.src, first.dst),
            ethernet(ByHand::Switch),
        )
        .step("If they do not belong here, give them a VLAN or VRF of their own.", ethernet(ByHand::Switch))
        .step("Otherwise give them a traffic class of their own, or limit them with ETS.", here.qos())
        .into(found);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Group, network};
    use crate::analysis::Options;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::findings::{Finding, tests::found};

    /// The finding if each of these host pairs exchanges packets in both directions.
    fn judged(pairs: &[(&str, &str, u64)]) -> Option<Finding> {
        let flows = pairs.iter().flat_map(|&(src, dst, packets)| {
            let flow = || stats(50_000, packets, 1_000 * packets);
            [(key(0, src, dst, 17), flow()), (key(0, dst, src, 18), flow())]
        });
        let sample = sample(vec![link("switch.pcap", None)], flows.collect());
        let all = found(&sample, &Options::default());
        all.into_iter().find(|finding| finding.id == "isolation.foreign_roce")
    }

    #[test]
    fn a_network_is_the_smallest_that_holds_no_other_host() {
        let group = |hosts: &[&str]| Group {
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            flows: Vec::new(),
            bytes: 0,
            packets: 0,
            near: BTreeSet::new(),
            parts: BTreeSet::new(),
        };
        let of = |hosts: &[&str], rest: &[&str]| network(&group(hosts).hosts, &[group(rest)]);
        assert_eq!(of(&["192.168.1.9", "192.168.2.1"], &["10.0.0.1"]), "192.168.0.0/22");
        assert_eq!(of(&["192.168.1.9", "192.168.2.1"], &["192.168.1.200"]), "192.168.1.9, 192.168.2.1");
        assert_eq!(of(&["1.0.0.1", "200.0.0.1"], &["fd00::1"]), "0.0.0.0/0");
        assert_eq!(of(&["fd00:1::1", "fd00:1::ff"], &["fd00:2::1"]), "fd00:1::/120");
        assert_eq!(
            of(&["1.0.0.1", "1.0.0.2", "9.0.0.1", "9.0.0.2", "9.0.0.3"], &["8.0.0.1"]),
            "1.0.0.1, 1.0.0.2, 9.0.0.1, 9.0.0.2 and 1 more"
        );
    }

    #[test]
    fn links_that_show_the_same_hosts_raise_one_finding() {
        let pairs = [&JOB[..], &[("192.168.77.8", "192.168.77.9", 4_000)]].concat();
        let flows = (0..2).flat_map(|at| {
            let of = move |&(src, dst, packets): &(&str, &str, u64)| {
                // The second tap starts later.
                let packets = packets - 100 * u64::from(at);
                let flow = || stats(50_000, packets, 1_000 * packets);
                [(key(at, src, dst, 17), flow()), (key(at, dst, src, 18), flow())]
            };
            pairs.iter().flat_map(of).collect::<Vec<_>>()
        });
        let links = ["near.pcap", "far.pcap"].map(|name| link(name, None));
        let all = found(&sample(links.into(), flows.collect()), &Options::default());
        let [one] = &all.iter().filter(|one| one.id == "isolation.foreign_roce").collect::<Vec<_>>()[..]
        else {
            panic!("{all:?}")
        };
        assert!(one.title.contains(" on near: "), "the one with more bytes: {}", one.title);
    }

    const JOB: [(&str, &str, u64); 3] =
        [("10.0.0.1", "10.0.1.2", 5_000), ("10.0.1.2", "10.0.2.3", 5_000), ("10.0.2.3", "10.0.3.4", 5_000)];

    #[test]
    fn two_hosts_of_another_network_are_foreign() {
        let found = judged(&[&JOB[..], &[("192.168.77.8", "192.168.77.9", 4_000)]].concat()).unwrap();
        let title = "Foreign RoCE on switch: 21.1 % of the bytes, 192.168.77.8 → 192.168.77.9";
        assert_eq!(found.title, title);
        assert_eq!(found.evidence.get("other_hosts").unwrap().value, 4);
        assert_eq!((found.first_seen_ns, found.last_seen_ns), (Some(START), Some(START + SECOND)));
        assert_eq!(found.evidence.get("network").unwrap().value, "192.168.77.8/31");
    }

    #[test]
    fn little_traffic_connected_hosts_and_few_others_are_not() {
        let with = |more: &[(&str, &str, u64)]| judged(&[&JOB[..], more].concat());
        assert_eq!(with(&[("192.168.77.8", "192.168.77.9", 499)]), None, "few packets");
        assert_eq!(with(&[("192.168.77.8", "10.0.0.1", 4_000)]), None, "the job talks to it");
        assert_eq!(with(&[("10.3.9.8", "10.3.9.9", 4_000)]), None, "near: 10.0.0.0/14 of 10.0.0.0/22");
        assert_eq!(with(&[("10.9.0.1", "10.9.2.3", 4_000)]), None, "host parts of the job: a rail");
        assert_eq!(
            with(&[("192.168.77.8", "192.168.77.9", 4_000), ("192.168.77.9", "192.168.77.7", 4_000)]),
            None,
            "no small part"
        );
        let storage = judged(&[("10.0.0.1", "10.0.0.2", 5_000), ("192.168.77.8", "192.168.77.9", 4_000)]);
        assert_eq!(storage, None, "two pairs of hosts: neither is the rest");
    }

    #[test]
    fn what_is_far_from_the_job_is_foreign_in_the_same_octet_too() {
        let with = |more: &[(&str, &str, u64)]| judged(&[&JOB[..], more].concat());
        let far = with(&[("10.9.9.8", "10.9.9.9", 4_000)]).unwrap();
        assert_eq!(far.evidence.get("network").unwrap().value, "10.9.9.8/31");
        assert_eq!(with(&[("10.9.9.8", "10.9.9.9", 4_000), ("10.9.9.8", "10.0.3.4", 9)]), None, "they talk");
        // Two pairs of one network are one network, of half as many hosts as a job of eight.
        let job: Vec<String> = (1..=8).map(|host| format!("10.0.{host}.{host}")).collect();
        let mut pairs: Vec<_> = job.windows(2).map(|two| (two[0].as_str(), two[1].as_str(), 5_000)).collect();
        pairs.extend([("10.200.3.8", "10.200.3.9", 4_000), ("10.200.3.18", "10.200.3.19", 4_000)]);
        assert_eq!(judged(&pairs).unwrap().evidence.get("hosts").unwrap().value, 4);
        // IPv6: another /48 for a /64.
        let of = |far: &str| {
            let [a, b] = ["8", "9"].map(|host| format!("2001:db8:{far}::{host}"));
            judged(&[
                ("2001:db8::1", "2001:db8::2", 5_000),
                ("2001:db8::2", "2001:db8::3", 5_000),
                ("2001:db8::3", "2001:db8::4", 5_000),
                (&a, &b, 4_000),
            ])
        };
        assert!(of("77:3").is_some());
        assert_eq!(of("0:300"), None, "a rail of the same /48");
    }

    #[test]
    fn rails_with_subnets_of_their_own_are_one_fabric() {
        let rail = |plan: u8, hosts: &[u8]| {
            let of = |host: &u8| format!("{plan}.1.0.{host}");
            hosts.windows(2).map(|two| (of(&two[0]), of(&two[1]))).collect::<Vec<_>>()
        };
        let is_none = |rails: &[Vec<(String, String)>]| {
            let all: Vec<_> =
                rails.iter().flatten().map(|(src, dst)| (src.as_str(), dst.as_str(), 5_000)).collect();
            judged(&all).is_none()
        };
        // Eight rails of four hosts, numbered consecutively over the rails.
        let rails: Vec<_> =
            (0..8).map(|rail_of| rail(10 + rail_of, &[1, 2, 3, 4].map(|h| h + 4 * rail_of))).collect();
        assert!(is_none(&rails));
        // One rail has only two sending hosts, with the host numbers of the other rails.
        assert!(is_none(&[rail(10, &[1, 2, 3, 4]), rail(11, &[1, 2, 3, 4]), rail(12, &[3, 4])]));
        // Two hosts whose numbers occur on no other rail.
        assert!(!is_none(&[rail(10, &[1, 2, 3, 4]), rail(11, &[1, 2, 3, 4]), rail(12, &[103, 104])]));
    }
}
