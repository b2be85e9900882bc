//! Settings that show on the wire: MTU, DSCP, RoCE version, and what else shares the link.

use std::collections::BTreeMap;

use rocescope_common::wire::SkipReason;

use super::once::{self, once};
use super::{Better, Entry, Family, Input, Measure, Raise, Unit, classes};
use crate::analysis::Flow;
use crate::findings::{Finding, Severity};
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family = Family {
    entries: &[MTU_SMALL, DSCP_MIXED, DSCP_UNSET, CNP_DSCP, ROCEV1, FOREIGN],
    limits: &[MtuLimits::META, QosLimits::META, Rocev1Limits::META, IsolationLimits::META],
    evidence: &[],
    check,
};

const MTU_SMALL: Entry = Entry {
    id: "mtu.small",
    rank: 450,
    lasting: true,
    measure: Some(Measure { name: "path_mtu", unit: Unit::Count, better: Better::More }),
    title: "A queue pair uses a small path MTU",
    meaning: "Small packets cost more headers and more packets a second: at a path MTU of 1024 about 7 % of a link are headers, at 4096 about 2 %, and the NIC handles four times the packets.",
    computed: "Path MTU is the payload of FIRST and MIDDLE packets. Only flows with mtu.min_bytes or more. A warning when another flow of the same link uses twice the path MTU or more, so that the port \
               could, or when the path MTU is mtu.small or less and the interface's own MTU (live) has room for twice that or more; info when it is mtu.small or less and nothing larger is seen.",
    advice: "Set the interface MTU above the path MTU plus headers (4200 or 9000 for a path MTU of 4096) on hosts and switches alike, restart the connections, and check active_mtu with `ibv_devinfo`. In \
             applications: perftest -m, UCX_RC_PATH_MTU, the path MTU in the connection request.",
    caveat: "Applications with small messages do not show their path MTU at all.",
    ..Entry::EMPTY
};
pub(super) const DSCP_MIXED: Entry = Entry {
    id: "qos.dscp_mixed",
    rank: 410,
    lasting: true,
    title: "Data between the same hosts travels in different classes",
    meaning: "Packets of one job with different DSCPs take different queues in every switch: some in the lossless class with ECN, others perhaps not, and they overtake one another.",
    computed: "Over data (neither CNP nor ACKNOWLEDGE) of present flows. A warning when a flow of qos.min_bytes or more changes its DSCP, or when two or more DSCPs each carry qos.share or more of the bytes \
               from one host to another.",
    advice: "Set one traffic class for the job: NCCL_IB_TC (its value is the ToS byte, DSCP times 4), UCX_IB_TRAFFIC_CLASS, cma_roce_tos for connections by RDMA CM, /sys/class/infiniband/<dev>/tc/1/traffic_class. \
             Check that no switch rewrites DSCP.",
    caveat: "Two jobs between the same hosts may be meant to differ. NCCL_IB_FIFO_TC sends small control messages in another class on purpose; they stay below the share.",
    ..Entry::EMPTY
};
pub(super) const DSCP_UNSET: Entry = Entry {
    id: "qos.dscp_unset",
    rank: 420,
    lasting: true,
    measure: Some(Measure::ratio("share")),
    title: "Data is sent with DSCP 0",
    meaning: "With DSCP 0 most switches put the traffic into the default class, which is neither lossless nor marked with ECN. Many fabrics are set up that way by mistake; some by design.",
    computed: "Info when qos.share or more of the data bytes of a link have DSCP 0, from qos.min_bytes on; once for taps that see the same packets.",
    advice: "Find the DSCP that the fabric treats as lossless (often 24 or 26) and set it: NCCL_IB_TC=106 for DSCP 26 with ECT(0), UCX_IB_TRAFFIC_CLASS, cma_roce_tos; set the port's trust mode to dscp \
             (mlnx_qos --trust dscp).",
    caveat: "Fabrics that sort by PCP in a VLAN tag, or that treat all traffic as lossless, need no DSCP.",
    ..Entry::EMPTY
};
pub(super) const CNP_DSCP: Entry = Entry {
    id: "qos.cnp_dscp",
    rank: 430,
    lasting: true,
    title: "CNPs travel in the class of the data",
    meaning: "A congestion notification that queues behind the very data it is about arrives late, and PFC on that class stops it altogether.",
    computed: "Info when qos.share or more of a link's CNPs have the DSCP that carries most of its data, from qos.min_cnps CNPs on; once for taps that see the same packets.",
    advice: "Give CNPs a DSCP and a strict-priority queue of their own: roce_np cnp_dscp (48 is the default of ConnectX), CNP_DSCP_P1 in mlxconfig, np_cnp_dscp in mlx5 debugfs; map it in every switch.",
    caveat: "",
    ..Entry::EMPTY
};
const ROCEV1: Entry = Entry {
    id: "rocev1.present",
    rank: 460,
    lasting: true,
    measure: Some(Measure::ratio("share")),
    title: "RoCEv1 frames",
    meaning: "RoCEv1 has no IP header: it cannot be routed, is not marked with ECN, and is not hashed by source port.",
    computed: "Info when any RoCEv1 packet is seen beside RoCEv2; a warning when RoCEv1 carries rocev1.share or more of the bytes.",
    advice: "Choose a RoCEv2 GID: NCCL_IB_GID_INDEX (show_gids lists them), NCCL_IB_ROCE_VERSION_NUM=2, cma_roce_mode -m 2, `-x` in perftest.",
    caveat: "",
    ..Entry::EMPTY
};
const FOREIGN: Entry = Entry {
    id: "isolation.foreign_traffic",
    rank: 400,
    measure: Some(Measure::ratio("share")),
    title: "Other traffic shares a link that carries mostly RoCE",
    meaning: "Storage, management or monitoring traffic on a link meant for RoCE takes its bandwidth and its buffers, and does not slow down for its congestion control.",
    computed: "A link on which RoCE is half of the bytes or more counts as meant for it. A warning when other frames (ARP, LLDP, MAC control and what --filter left out excepted) are isolation.share or more \
               of the bytes, from isolation.min_bytes on.",
    advice: "Find it (the report's NOT RoCE section tells the kind) and move it: NCCL_SOCKET_IFNAME and storage mounts to the front-end network; else give it a class of its own with a bandwidth limit \
             (ETS: `dcb ets`, mlnx_qos).",
    caveat: "A capture that was filtered for RoCE cannot show it; on hosts the RoCE of a NIC in hardware is not counted here, so that everything looks foreign: the half keeps such links out.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds about MTU.
    pub struct MtuLimits = "mtu";
    small: u32 = 1024,
        "path MTU in bytes that is called small by itself",
        "1024 is what a port at the Ethernet default of 1500 gives";
    min_bytes: u64 = 1_000_000,
        "bytes of a flow below which its MTU does not matter",
        "A thousand packets";
}

limits! {
    /// Thresholds about traffic classes.
    pub struct QosLimits = "qos";
    share: f64 = 0.1,
        "share of bytes or packets",
        "Small control messages of collective libraries stay far below a tenth";
    min_bytes: u64 = 1_000_000,
        "bytes of data below which classes are not judged",
        "A thousand packets";
    min_cnps: u64 = 10,
        "CNPs below which their class is not judged",
        "A few say nothing about a setting";
}

limits! {
    /// Thresholds about RoCEv1.
    pub struct Rocev1Limits = "rocev1";
    share: f64 = 0.01,
        "share of RoCE bytes from which it is a warning",
        "Connection tests use v1 now and then; one per cent is traffic";
}

limits! {
    /// Thresholds about other traffic.
    pub struct IsolationLimits = "isolation";
    share: f64 = 0.05,
        "share of a link's bytes",
        "Control planes and monitoring stay below one per cent of a busy link; five are a workload";
    min_bytes: u64 = 10_000_000,
        "other bytes below which nothing is said",
        "Ten megabytes cannot slow a training job";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    mtu(input, found);
    classes::mixed(input, found);
    classes::by_link(input, found);
    rocev1(input, found);
    foreign(input, found);
}

fn mtu(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.mtu;
    let mut largest: BTreeMap<&str, u32> = BTreeMap::new();
    for flow in &input.facts.flows {
        let most = largest.entry(&flow.link).or_default();
        *most = flow.path_mtu.unwrap_or(0).max(*most);
    }
    let port = |flow: &Flow| {
        let mut links = input.facts.links.iter();
        let link = links.find(|link| link.name == flow.link && link.direction == flow.direction);
        link.and_then(|link| link.mtu).filter(|_| flow.encapsulation.is_none())
    };
    let mut beside: Vec<&Flow> = Vec::new();
    let mut jumbo: Vec<&Flow> = Vec::new();
    let mut alone: Vec<&Flow> = Vec::new();
    for flow in input.facts.flows.iter().filter(|flow| flow.bytes >= limits.min_bytes) {
        let (Some(mtu), Some(&most)) = (flow.path_mtu, largest.get(flow.link.as_str())) else { continue };
        if most >= mtu.saturating_mul(2) {
            beside.push(flow);
        } else if mtu <= limits.small && port(flow).is_some_and(|port| path_mtu_of(port) >= 2 * mtu) {
            jumbo.push(flow);
        } else if mtu <= limits.small {
            alone.push(flow);
        }
    }
    let all = [
        (beside, Severity::Warning, false),
        (jumbo, Severity::Warning, true),
        (alone, Severity::Info, false),
    ];
    for (mut flows, severity, at_port) in all {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
        let Some(first) = flows.first() else { continue };
        let smallest = flows.iter().filter_map(|flow| flow.path_mtu).min();
        let most = largest.get(first.link.as_str()).copied();
        let interface = port(first);
        let distinct = once::count(flows.iter().copied());
        let use_it = if distinct == 1 { "uses" } else { "use" };
        let more = units::bytes(limits.min_bytes);
        let users = format!("{} of {more} or more {use_it}", plural(distinct, "flow"));
        let title = match (severity, most) {
            _ if at_port => format!(
                "{} a path MTU of {} bytes on a port whose MTU of {} bytes has room for {}",
                users,
                smallest.unwrap_or(0),
                interface.unwrap_or(0),
                interface.map_or(0, path_mtu_of),
            ),
            (Severity::Warning, Some(most)) => format!(
                "{} a path MTU of {} bytes where others on the link use {most}",
                users,
                smallest.unwrap_or(0)
            ),
            _ => format!("{} a path MTU of {} bytes", users, smallest.unwrap_or(0)),
        };
        Raise::new(&MTU_SMALL, severity, title)
            .evidence("path_mtu", smallest)
            .evidence("largest_path_mtu", most)
            .evidence("interface_mtu", interface)
            .flows(flows)
            .into(found);
    }
}

/// The largest path MTU of InfiniBand that fits into the MTU of an interface, with the headers for which RDMA drivers leave room:
/// 96 bytes (`iboe_get_mtu` of Linux: GRH, UDP, BTH, XRCETH, AtomicETH, ICRC).
fn path_mtu_of(interface: u32) -> u32 {
    const HEADERS: u32 = 96;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| mtu + HEADERS <= interface).unwrap_or(0)
}

fn rocev1(input: &Input<'_>, found: &mut Vec<Finding>) {
    let flows = once(input.facts.flows.iter().filter(|flow| flow.roce_version == 1), |flow| flow.packets);
    if flows.is_empty() {
        return;
    }
    let packets: u64 = flows.iter().map(|(_, packets)| packets).sum();
    let bytes: u64 = flows.iter().map(|(flow, _)| flow.bytes).sum();
    let totals = &input.facts.totals;
    let all = totals.roce_bytes.saturating_sub(totals.counted_again.roce_bytes.unwrap_or(0));
    let share = bytes as f64 / all.max(1) as f64;
    let severity = if share >= input.limits.rocev1.share { Severity::Warning } else { Severity::Info };
    let title = format!(
        "{} of the RoCE bytes are RoCEv1, which has no ECN and is not routed",
        crate::util::units::ratio(Some(share))
    );
    Raise::new(&ROCEV1, severity, title)
        .evidence("packets", packets)
        .evidence("bytes", bytes)
        .evidence("share", share)
        .flows(flows.iter().map(|(flow, _)| *flow))
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
        let share = other as f64 / all.max(1) as f64;
        if other < limits.min_bytes || link.bytes < other || share < limits.share {
            continue;
        }
        let Some(most) = others().max_by_key(|reason| bytes_of(*reason)) else { continue };
        let title = format!(
            "{} of the bytes on {} are not RoCE, most of them {}",
            crate::util::units::ratio(Some(share)),
            link.name,
            most.meaning()
        );
        let mut raise = Raise::new(&FOREIGN, Severity::Warning, title)
            .evidence("share", share)
            .evidence("roce_bytes", link.bytes)
            .evidence("other_bytes", other);
        for reason in others().filter(|reason| bytes_of(*reason) > 0) {
            raise = raise.evidence(&format!("{}_bytes", reason.name()), bytes_of(reason));
        }
        raise.into(found);
    }
}
