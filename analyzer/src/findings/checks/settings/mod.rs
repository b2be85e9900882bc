//! Settings visible on the wire: MTU, DSCP, RoCE version, and other traffic on the link.

#[cfg(test)]
mod tests;

mod classes;

use rocescope_common::wire::SkipReason;
use std::collections::BTreeSet;

use super::ends;
use crate::analysis::Flow;
use crate::findings::dedup::{self, deduplicated};
use crate::findings::ids;
use crate::findings::title::{short, title};
use crate::findings::{
    Better, ByHand, Commands, Entry, Family, Finding, Input, Measure, NoEpisodes, Place, Problem, Raise,
    Severity, Unit,
};
use crate::sample::Address;
use crate::util::map::Map;
use crate::util::numbers::share;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[MTU_SMALL, DSCP_MIXED, DSCP_UNSET, CNP_DSCP, ROCEV1, FOREIGN],
    limits: &[MtuLimits::META, QosLimits::META, Rocev1Limits::META, IsolationLimits::META],
    evidence: &[],
    check,
};

const MTU_SMALL: Entry = Entry {
    id: "mtu.small",
    rank: 450,
    lasting: Some(NoEpisodes::Setting),
    measure: Some(Measure { name: "path_mtu", unit: Unit::Bytes, better: Better::More, grades: false }),
    title: "Small path MTU",
    meaning: "Small packets cost header bandwidth and packet rate: at a path MTU of 1024 about 7 % of the link are headers, at 4096 about 2 %, and the NIC handles \
                four times the packets.",
    computed: "The path MTU is the payload of FIRST and MIDDLE packets; one of the flows has at least mtu.min_bytes. A warning when one of its two hosts uses at least mtu.larger times the \
                 path MTU in another flow of the same link, so that the other host or the connection is set otherwise; or when the path MTU is at most mtu.small and the interface MTU (live) has \
                 room for at least mtu.larger times that. Otherwise info when it is at most mtu.small: hosts that use no other with anybody may be set up so.",
    advice: "Set the interface MTU above the path MTU plus headers (4200 or 9000 for a path MTU of 4096) on hosts and switches, restart the connections, and check \
               active_mtu with `ibv_devinfo`. In applications: perftest -m, UCX_RC_PATH_MTU, the path MTU in the connection request.",
    caveat: "Applications with small messages only do not reveal their path MTU.",
    ..Entry::of(Problem::Settings)
};
pub(super) const DSCP_MIXED: Entry = Entry {
    id: ids::QOS_DSCP_MIXED,
    rank: 410,
    causes: &[ids::PATH_REWRITTEN],
    title: "Mixed DSCPs between the same hosts",
    meaning: "Packets of one job with different DSCPs use different queues in every switch: some in the lossless class with ECN, others perhaps not, and they are \
                reordered.",
    computed: "Over data (neither CNP nor ACKNOWLEDGE) of present flows. A warning when a flow of at least qos.min_bytes without trimmed packets changes its DSCP, or when at least two DSCPs \
                 each carry at least qos.share of the bytes from one host to another, without flows with trimmed packets and several DSCPs. These last from the first packet with a second of the DSCPs to the last packet before one is left. Taps that see the same packets raise one finding (capture.own_ratio).",
    advice: "Set one traffic class for the job: NCCL_IB_TC (its value is the ToS byte, DSCP times 4), UCX_IB_TRAFFIC_CLASS, cma_roce_tos for connections by RDMA \
               CM, /sys/class/infiniband/DEVICE/tc/1/traffic_class. Check that no switch rewrites DSCP.",
    caveat: "Two jobs between the same hosts may differ by design. NCCL_IB_FIFO_TC sends small control messages in another class by design; they stay below the \
               share.",
    ..Entry::of(Problem::Settings)
};
pub(super) const DSCP_UNSET: Entry = Entry {
    id: ids::QOS_DSCP_UNSET,
    rank: 420,
    causes: &[ids::PATH_REWRITTEN],
    lasting: Some(NoEpisodes::Setting),
    measure: Some(Measure::ratio("share")),
    title: "DSCP not set (0)",
    meaning: "Most switches put DSCP 0 into the default class, which is neither lossless nor ECN-enabled. Many fabrics are configured that way by mistake; some by \
                design.",
    computed: "Info when at least qos.share of the data bytes of a link have DSCP 0, and the link carries at least qos.min_bytes of data. Taps that see the same \
                 packets raise one finding (capture.own_ratio).",
    advice: "Set the DSCP that the fabric treats as lossless (often 24 or 26): NCCL_IB_TC=106 for DSCP 26 with ECT(0), UCX_IB_TRAFFIC_CLASS, cma_roce_tos; set the \
               port's trust mode to dscp (mlnx_qos --trust dscp).",
    caveat: "Fabrics that classify by PCP in a VLAN tag, or that treat all traffic as lossless, need no DSCP.",
    ..Entry::of(Problem::Settings)
};
pub(super) const CNP_DSCP: Entry = Entry {
    id: "qos.cnp_dscp",
    rank: 430,
    lasting: Some(NoEpisodes::Setting),
    title: "CNPs share the traffic class of the data",
    meaning: "A CNP that queues with the congested data is delayed, and PFC on that class stops it.",
    computed: "Info when at least qos.share of the CNPs of a link have the DSCP that carries most of its data, and the link carries at least qos.min_cnps CNPs. Taps \
                 that see the same packets raise one finding (capture.own_ratio).",
    advice: "Give CNPs a DSCP and a strict-priority queue of their own: roce_np cnp_dscp (default 48 on ConnectX), CNP_DSCP_P1 in mlxconfig, np_cnp_dscp in mlx5 \
               debugfs; map it on every switch.",
    caveat: "",
    ..Entry::of(Problem::Settings)
};
const ROCEV1: Entry = Entry {
    id: "rocev1.present",
    rank: 460,
    lasting: Some(NoEpisodes::Setting),
    measure: Some(Measure::ratio("share")),
    title: "RoCEv1 traffic",
    meaning: "RoCEv1 has no IP header: it cannot be routed, has no ECN, and is not hashed by source port.",
    computed: "Info when any RoCEv1 packet is observed; a warning when RoCEv1 carries at least rocev1.share of the RoCE bytes.",
    advice: "Choose a RoCEv2 GID: NCCL_IB_GID_INDEX (show_gids lists them), NCCL_IB_ROCE_VERSION_NUM=2, cma_roce_mode -m 2, `-x` in perftest.",
    caveat: "",
    ..Entry::of(Problem::Settings)
};
const FOREIGN: Entry = Entry {
    id: "isolation.foreign_traffic",
    rank: 400,
    measure: Some(Measure::ratio("share")),
    title: "Non-RoCE traffic on a RoCE link",
    meaning: "Storage, management or monitoring traffic on a link intended for RoCE uses its bandwidth and its buffers, and does not respond to its congestion \
                control.",
    computed: "Links where RoCE has at least the share isolation.roce_share of the bytes. A warning when other frames (except ARP, LLDP, MAC control and frames excluded by --filter) are at \
                 least isolation.share of the bytes and at least isolation.min_bytes.",
    advice: "Identify it (section NOT RoCE of the report) and move it: NCCL_SOCKET_IFNAME and storage mounts to the front-end network; otherwise give it a class \
               with a bandwidth limit (ETS: `dcb ets`, mlnx_qos).",
    caveat: "A capture that was filtered for RoCE cannot show it. On hosts the RoCE of a hardware NIC is not counted, so that all traffic looks like non-RoCE; isolation.roce_share \
               excludes such links.",
    ..Entry::of(Problem::Foreign)
};

limits! {
    /// Thresholds of the MTU.
    pub struct MtuLimits = "mtu";
    small: u32 = 1024,
        "maximum path MTU in bytes that counts as small",
        "1024 is the result of the Ethernet default MTU of 1500";
    larger: u32 = 2,
        "minimum factor of a larger path MTU that is used beside it, or that the interface allows",
        "Path MTUs are powers of two";
    min_bytes: u64 = 1_000_000,
        "minimum bytes of a flow",
        "A thousand packets";
}

limits! {
    /// Thresholds of traffic classes.
    pub struct QosLimits = "qos";
    share: f64 = 0.1,
        "minimum share of bytes or packets",
        "Small control messages of collective libraries stay far below a tenth";
    min_bytes: u64 = 1_000_000,
        "minimum bytes of data",
        "A thousand packets";
    min_cnps: u64 = 10,
        "minimum CNPs",
        "Fewer are not significant";
}

limits! {
    /// Thresholds of RoCEv1.
    pub struct Rocev1Limits = "rocev1";
    share: f64 = 0.01,
        "minimum share of RoCE bytes for a warning",
        "Connection tests use RoCEv1 occasionally; one per cent is traffic";
}

limits! {
    /// Thresholds of other traffic.
    pub struct IsolationLimits = "isolation";
    share: f64 = 0.05,
        "minimum share of a link's bytes",
        "Control planes and monitoring stay below one per cent of a busy link; five per cent are a workload";
    min_bytes: u64 = 10_000_000,
        "minimum bytes of other traffic",
        "Ten megabytes cannot delay a training job";
    roce_packets: u64 = 1_000,
        "minimum RoCE packets of hosts of another network",
        "A connection test or a health check sends fewer; a thousand are a use of the fabric";
    other_hosts: usize = 2,
        "minimum hosts of the largest network, for each of the foreign network",
        "Two networks of similar size are two rails or two jobs, and neither is foreign";
    wider_bits: u32 = 8,
        "bits by which the prefix of the largest network is shortened (IPv6: twice as many) to contain what belongs to it",
        "Rails, racks and pods of one fabric are numbered side by side: of a /24 each, within a /16";
    roce_share: f64 = 0.5,
        "minimum share of RoCE in a link's bytes",
        "On a link that carries mostly other traffic, RoCE is the guest; hosts with hardware RoCE look like that too";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    mtu(input, found);
    classes::mixed(input, found);
    classes::by_link(input, found);
    rocev1(input, found);
    foreign(input, found);
}

#[expect(clippy::too_many_lines, reason = "the classes of small path MTUs, and the finding of each")]
fn mtu(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.mtu;
    let used = || input.facts.flows.iter().filter_map(|flow| flow.path_mtu);
    let (smallest, most) = (used().min().unwrap_or(0), used().max().unwrap_or(0));
    if smallest > limits.small && most < smallest.saturating_mul(limits.larger) {
        return;
    }
    let largest = LargestMtus::of(&input.facts.flows);
    let links: Map<_, _> =
        input.facts.links.iter().map(|link| ((link.name.as_str(), link.direction), link.mtu)).collect();
    let port = |flow: &Flow| {
        let mtu = *links.get(&(flow.link.as_str(), flow.direction))?;
        mtu.filter(|_| flow.encapsulation.is_none())
    };
    let mut all = [
        (Vec::new(), Severity::Warning, false),
        (Vec::new(), Severity::Warning, true),
        (Vec::new(), Severity::Info, false),
    ];
    let [(beside, ..), (jumbo, ..), (alone, ..)] = &mut all;
    let works = all_that_works(found);
    for flow in input.facts.flows.iter().filter(|flow| !works.contains(&(flow.src, flow.dst))) {
        let Some(mtu) = flow.path_mtu else { continue };
        let larger = mtu.saturating_mul(limits.larger);
        if largest.of_hosts(flow) >= larger {
            beside.push(flow);
        } else if mtu <= limits.small && port(flow).is_some_and(|port| path_mtu_of(port) >= larger) {
            jumbo.push(flow);
        } else if mtu <= limits.small {
            alone.push(flow);
        }
    }
    for (mut flows, severity, at_port) in all {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
        let Some(first) = flows.first().filter(|most| most.bytes >= limits.min_bytes) else { continue };
        let smallest = flows.iter().filter_map(|flow| flow.path_mtu).min();
        let by_hosts = severity == Severity::Warning && !at_port;
        let of_hosts = flows.iter().map(|flow| largest.of_hosts(flow)).max().unwrap_or(0);
        let most = if by_hosts { of_hosts } else { largest.on_link(first) };
        let interface = port(first);
        let largest_small = flows.iter().filter_map(|flow| flow.path_mtu).max();
        let mtu = from_to(smallest.unwrap_or(0), largest_small.unwrap_or(0));
        let count = dedup::count(flows.iter().copied());
        let users = plural(count, "data flow");
        let is_larger = most >= smallest.unwrap_or(0).saturating_mul(limits.larger);
        let room = match interface {
            Some(port) if at_port => format!(" (interface MTU {port} allows {})", path_mtu_of(port)),
            _ if by_hosts && count > 1 => format!(" (their hosts use up to {most})"),
            _ if by_hosts => format!(" (its hosts use up to {most})"),
            _ if is_larger => format!(" (other hosts on the link: {most})"),
            _ => String::new(),
        };
        let diagnosis = format!("Small path MTU: {mtu} bytes in {users}");
        let (place, here) = (Place::of(input, first), Commands::near(input, first, first.src));
        let (requester, responder) = ends::of_data(input, flows.iter().copied());
        Raise::new(&MTU_SMALL, severity, title(diagnosis, [room]))
            .evidence("path_mtu", smallest)
            .evidence("largest_path_mtu", most)
            .evidence("interface_mtu", interface)
            .flows(flows)
            .place(place)
            .ends(requester, responder)
            .step("Check the interface MTU; set 4200 or 9000 on hosts and switches.", here.mtu())
            .step("Check active_mtu, and reconnect with a path MTU of 4096.", here.rdma_ports())
            .into(found);
    }
}

/// The largest path MTUs on each link: of all flows, and of those of each host. The path MTU of a connection is that of
/// the end with the smaller one, so that a host which uses a larger one with another peer is not what limits it.
struct LargestMtus<'a> {
    links: Map<&'a str, u32>,
    hosts: Map<(&'a str, Address), u32>,
}

impl<'a> LargestMtus<'a> {
    fn of(flows: &'a [Flow]) -> Self {
        let mut all = Self { links: Map::default(), hosts: Map::default() };
        for flow in flows {
            let (Some(mtu), link) = (flow.path_mtu, flow.link.as_str()) else { continue };
            let of_link = all.links.entry(link).or_default();
            *of_link = mtu.max(*of_link);
            for host in [flow.src, flow.dst] {
                let of_host = all.hosts.entry((link, host)).or_default();
                *of_host = mtu.max(*of_host);
            }
        }
        all
    }

    fn on_link(&self, flow: &Flow) -> u32 {
        self.links.get(flow.link.as_str()).copied().unwrap_or(0)
    }

    /// Of both ends of a flow.
    fn of_hosts(&self, flow: &Flow) -> u32 {
        let of = |host| self.hosts.get(&(flow.link.as_str(), host)).copied().unwrap_or(0);
        of(flow.src).max(of(flow.dst))
    }
}

/// A range as text, or a single number.
fn from_to(low: u32, high: u32) -> String {
    if low < high { format!("{low} to {high}") } else { low.to_string() }
}

/// Hosts between which large packets are lost: there a small path MTU is a workaround.
fn all_that_works(found: &[Finding]) -> BTreeSet<(Address, Address)> {
    let holes = found.iter().filter(|one| one.id == ids::PATH_MTU_BLACK_HOLE);
    holes.flat_map(|hole| hole.named.iter().map(|(src, dst, _)| (*src, *dst))).collect()
}

/// The largest InfiniBand path MTU that fits into the MTU of an interface, less the 96 bytes of headers that RDMA
/// drivers reserve (`iboe_get_mtu` of Linux: GRH, UDP, BTH, XRCETH, AtomicETH, ICRC).
fn path_mtu_of(interface: u32) -> u32 {
    const HEADERS: u32 = 96;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| mtu + HEADERS <= interface).unwrap_or(0)
}

fn rocev1(input: &Input<'_>, found: &mut Vec<Finding>) {
    let flows = deduplicated(input.facts.flows.iter().filter(|flow| flow.roce_version == Some(1)), |flow| {
        flow.packets
    });
    if flows.is_empty() {
        return;
    }
    let packets: u64 = flows.iter().map(|(_, packets)| packets).sum();
    let bytes: u64 = flows.iter().map(|(flow, _)| flow.bytes).sum();
    let totals = &input.facts.totals;
    let all = totals.roce_bytes.saturating_sub(totals.counted_again.roce_bytes.unwrap_or(0));
    let share = share(bytes, all);
    let severity = if share >= input.limits.rocev1.share { Severity::Warning } else { Severity::Info };
    let diagnosis = format!("RoCEv1 traffic: {} of the RoCE bytes", units::ratio(Some(share)));
    let parts = [", not routable, no ECN".to_owned()];
    let first = flows.first().map(|(flow, _)| *flow);
    let place = first.map(|flow| Place::of(input, flow)).unwrap_or_default();
    let (requester, responder) = ends::of_data(input, flows.iter().map(|(flow, _)| *flow));
    Raise::new(&ROCEV1, severity, title(diagnosis, parts))
        .evidence("packets", packets)
        .evidence("bytes", bytes)
        .evidence("share", share)
        .flows(flows.iter().map(|(flow, _)| *flow))
        .place(place)
        .ends(requester, responder)
        .step(
            "List the GIDs and select a RoCEv2 GID (NCCL_IB_GID_INDEX).",
            first.and_then(|flow| Commands::near(input, flow, flow.src).rdma_ports()),
        )
        .into(found);
}

fn foreign(input: &Input<'_>, found: &mut Vec<Finding>) {
    const EXPECTED: [SkipReason; 4] =
        [SkipReason::Arp, SkipReason::Lldp, SkipReason::MacControl, SkipReason::Filtered];
    let limits = &input.limits.isolation;
    for (link, raw) in input.facts.links.iter().zip(&input.sample.links) {
        let others = || SkipReason::ALL.into_iter().filter(|reason| !EXPECTED.contains(reason));
        let bytes_of =
            |reason: SkipReason| raw.skipped.get(reason as usize).map_or(0, |counter| counter.bytes);
        let other: u64 = others().map(bytes_of).sum();
        let all = link.bytes + other;
        let share = share(other, all);
        if other < limits.min_bytes
            || (link.bytes as f64) < limits.roce_share * all as f64
            || share < limits.share
        {
            continue;
        }
        let Some(most) = others().max_by_key(|reason| bytes_of(*reason)) else { continue };
        let percent = units::ratio(Some(share));
        let diagnosis = format!("Non-RoCE traffic on {}: {percent} of the bytes", short(&link.name));
        let kind = most.meaning().split([':', ',']).next().unwrap_or_default();
        let here = Commands::on(input, &link.name);
        let mut raise =
            Raise::new(&FOREIGN, Severity::Warning, title(diagnosis, [format!(", mostly {kind}")]))
                .place(Place::link(input, &link.name, link.direction))
                .step(
                    "Move storage and management traffic to the front-end network (NCCL_SOCKET_IFNAME).",
                    ByHand::Job,
                )
                .step("Otherwise limit its bandwidth with ETS.", here.qos())
                .evidence("share", share)
                .evidence("roce_bytes", link.bytes)
                .evidence("other_bytes", other);
        for reason in others().filter(|reason| bytes_of(*reason) > 0) {
            let (name, label) = (format!("{}_bytes", reason.name()), reason.name().replace('_', " "));
            raise = raise.measured(name, label, Unit::Bytes, bytes_of(reason));
        }
        raise.into(found);
    }
}
