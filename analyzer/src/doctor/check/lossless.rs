//! The settings that make RoCE lossless: priorities, PFC, ECN, CNPs, pause, buffers.

use super::{CheckList, Entry, Status, congestion};
use crate::doctor::facts::{DeviceFacts, HostFacts, InterfaceFacts, PortFacts};
use crate::host::net::dcb::{Dcb, Priorities, SELECT_PCP};
use crate::host::rdma::settings::Trust;
use crate::util::definition::definitions;

pub(super) const ENTRIES: &[Entry] = entries! {
    "qos.trust": "Trust mode: the header field that selects the priority of received packets (pcp or dscp). Warning for pcp: untagged RoCE then gets one priority regardless of its DSCP.",
    "qos.dscp_map": "Explicit mappings of DSCP and VLAN PCP to priority. Evaluated by `qos.roce_priority` and `switch.dscp`.",
    "pfc.enabled": "Priorities with PFC enabled. Info when there are none: RoCE then relies on ECN and retransmission. Warning for more than two: few switches and NICs have buffers for them.",
    "pfc.with_global_pause": "Global pause (802.3x) enabled together with PFC. Critical: they are mutually exclusive, and which one takes effect is undefined.",
    "pause.global": "Global pause (802.3x) without PFC. Info: a pause stops all traffic of the port, not one priority.",
    "qos.roce_priority": "The priority that the traffic class in use (NCCL_IB_TC, the device's forced class, the connection manager's ToS) maps to. Critical when PFC is disabled on it but enabled on others.",
    "ecn.notification_point": "DCQCN notification point (roce_np), which answers CE-marked packets with CNPs: on lossless priorities, or on any if none is lossless. Warning when disabled. bnxt_re and irdma have one setting for both points and all priorities.",
    "ecn.reaction_point": "DCQCN reaction point (roce_rp), which reduces the sending rate on CNPs; as above. Warning when disabled.",
    "cnp.priority": "DSCP and priority of CNPs. Warning when PFC is enabled on that priority: CNPs then queue behind the data that they should throttle.",
    "cm.tos": "Default ToS byte of connections made by the RDMA connection manager (cma_roce_tos). Info when it is 0 while PFC is enabled.",
    "buffer.lossless": "Receive buffer of lossless priorities. Critical when its size is 0, warning when other priorities share it.",
    "ring.receive": "Receive ring size. Info when it is below 1024 packets and can be larger. It affects TCP, Soft-RoCE and mirrored traffic, not hardware RoCE.",
};

definitions! {
    MOST_LOSSLESS: usize = 2,
        "Lossless priorities of a port, at most, without a warning",
        "More of them need more headroom than most switches and NICs have";
    SMALL_RING: u32 = 1_024,
        "Receive ring in packets from which on it is not small",
        "At 100 Gb/s it holds 0.3 ms of frames with 4 kB: a burst while its processor is busy overflows it";
}

pub(super) fn check(facts: &HostFacts, checks: &mut CheckList) {
    for interface in facts.interfaces.iter().filter(|i| !i.devices.is_empty() && i.below.is_empty()) {
        rings(interface, checks);
        pause(interface, checks);
    }
    for (device, port) in facts.roce_ports().filter(|(device, _)| !device.software) {
        for interface in facts.ethernet_of(port) {
            lossless(facts, device, port, interface, checks);
        }
    }
}

fn lossless(
    facts: &HostFacts,
    device: &DeviceFacts,
    port: &PortFacts,
    interface: &InterfaceFacts,
    checks: &mut CheckList,
) {
    let name = interface.name.as_str();
    trust(port, name, checks);
    let dcb = interface.dcb.as_ref();
    let lossless = dcb.and_then(|dcb| dcb.pfc).map(|pfc| pfc.enabled);
    if let Some(dcb) = dcb {
        dscp_map(dcb, name, checks);
        pfc(lossless, interface, checks);
        roce_priority(facts, device, port, dcb, name, checks);
        buffers(dcb, lossless.unwrap_or_default(), name, checks);
    } else {
        for id in ["pfc.enabled", "qos.roce_priority", "buffer.lossless"] {
            checks.unknown(id, name, "the driver does not support DCB, or the kernel was built without it");
        }
    }
    let lossless = lossless.unwrap_or_default();
    congestion::ecn(device, port, lossless, name, checks);
    congestion::cnp(device, port, dcb, lossless, name, checks);
    cm(device, port, lossless, checks);
}

fn rings(interface: &InterfaceFacts, checks: &mut CheckList) {
    let name = &interface.name;
    match interface.rings {
        Some(rings) if rings.rx < SMALL_RING && rings.rx < rings.rx_max => checks.say(
            ("ring.receive", Status::Info),
            name,
            format!("{} of {}", rings.rx, rings.rx_max),
            "a short burst of TCP, Soft-RoCE or mirrored traffic overflows it; hardware RoCE does not use it",
            format!("ethtool -G {name} rx {} (the link may flap)", rings.rx_max.min(8192)),
        ),
        Some(rings) => checks.ok("ring.receive", name, format!("{} of {}", rings.rx, rings.rx_max)),
        None => checks.unknown("ring.receive", name, "the driver reports no ring sizes"),
    }
}

fn pause(interface: &InterfaceFacts, checks: &mut CheckList) {
    let name = &interface.name;
    let pfc = interface.dcb.as_ref().and_then(|dcb| dcb.pfc).map(|pfc| pfc.enabled);
    let Some(pause) = interface.pause else {
        checks.unknown("pause.global", name, "the driver reports no pause settings");
        return;
    };
    let way = match (pause.rx, pause.tx) {
        (true, true) => "receive and send",
        (true, false) => "receive",
        (false, true) => "send",
        (false, false) => "off",
    };
    let change = format!("ethtool -A {name} autoneg off rx off tx off");
    match pfc {
        _ if way == "off" => {
            checks.ok("pause.global", name, way);
            if pfc.is_some_and(|pfc| !pfc.is_empty()) {
                checks.ok("pfc.with_global_pause", name, "off");
            }
        }
        Some(pfc) if !pfc.is_empty() => checks.say(
            ("pfc.with_global_pause", Status::Critical),
            name,
            format!("{way}, PFC on priority {pfc}"),
            "global pause and PFC are mutually exclusive: PFC may have no effect",
            change,
        ),
        _ => checks.say(
            ("pause.global", Status::Info),
            name,
            way,
            "a pause stops all traffic of the port, including storage and management",
            format!("disable it ({change}) and enable PFC on one priority: {}", set_pfc(interface, "3:on")),
        ),
    }
}

fn trust(port: &PortFacts, name: &str, checks: &mut CheckList) {
    match port.settings.trust {
        Some(Trust::Dscp) => checks.ok("qos.trust", name, "dscp"),
        Some(Trust::Pcp) => checks.say(
            ("qos.trust", Status::Warning),
            name,
            "pcp",
            "untagged RoCE gets one priority regardless of its DSCP, which may not be the lossless one",
            if port.settings.ecn_np.iter().any(Option::is_some) {
                // MLNX_OFED and DOCA include the tool.
                format!("mlnx_qos -i {name} --trust dscp")
            } else {
                format!("dcb app add dev {name} dscp-prio 26:3 (use the fabric's DSCP and priority; the driver trusts DSCP once one is mapped)")
            },
        ),
        None => checks.unknown("qos.trust", name, "the driver does not report it"),
    }
}

fn dscp_map(dcb: &Dcb, name: &str, checks: &mut CheckList) {
    let mapped = |priority: u8| -> Vec<String> {
        let dscps = (0..64).filter(|dscp| dcb.priority_of_dscp(*dscp) == Some(priority));
        dscps.map(|dscp: u8| dscp.to_string()).collect()
    };
    let rows = (0..8).map(|priority| (priority, mapped(priority))).filter(|(_, dscps)| !dscps.is_empty());
    let mut rows: Vec<String> =
        rows.map(|(priority, dscps)| format!("DSCP {} → {priority}", dscps.join(", "))).collect();
    // A PCP with the drop eligible bit is encoded as 8 + PCP (linux/dcbnl.h).
    let pcps = dcb.apps.iter().filter(|app| app.selector == SELECT_PCP && app.protocol < 16);
    rows.extend(pcps.map(|app| {
        let dei = if app.protocol >= 8 { " with DEI" } else { "" };
        format!("PCP {}{dei} → {}", app.protocol % 8, app.priority)
    }));
    if rows.is_empty() {
        checks.unknown("qos.dscp_map", name, "no explicit DSCP or PCP mapping; the driver's default applies");
    } else {
        checks.ok("qos.dscp_map", name, rows.join("; "));
    }
}

/// The command that sets PFC on an interface, with priorities in the syntax of `dcb` ("3:on"). If the NIC's
/// LLDP agent controls DCB, the driver refuses it (ice_dcbnl_setpfc and bnxt_dcbnl_ieee_setpfc require
/// DCB_CAP_DCBX_HOST).
pub(super) fn set_pfc(interface: &InterfaceFacts, priorities: &str) -> String {
    let name = &interface.name;
    let set = format!("dcb pfc set dev {name} prio-pfc all:off {priorities}");
    match interface.driver.as_deref() {
        Some("ice") => {
            format!("{set} (if refused, first: ethtool --set-priv-flags {name} fw-lldp-agent off)")
        }
        Some("bnxt_en") => {
            format!("{set} (if refused, the NIC firmware runs DCBX: disable it with Broadcom's niccli)")
        }
        Some("mlx5_core") => format!("{set} (or mlnx_qos -i {name} --pfc with eight values, 0 or 1)"),
        _ => set,
    }
}

fn pfc(lossless: Option<Priorities>, interface: &InterfaceFacts, checks: &mut CheckList) {
    let name = interface.name.as_str();
    let change = format!("{}; use the priority configured on the switch", set_pfc(interface, "3:on"));
    match lossless {
        None => checks.unknown("pfc.enabled", name, "the driver does not report it"),
        Some(set) if set.is_empty() => checks.say(
            ("pfc.enabled", Status::Info),
            name,
            "none",
            "RoCE is not lossless here: it relies on ECN and retransmission, which suits only fabrics designed for that",
            change,
        ),
        Some(set) if set.iter().count() > MOST_LOSSLESS => checks.say(
            ("pfc.enabled", Status::Warning),
            name,
            set.to_string(),
            "each lossless priority needs buffer headroom at every hop; shared among this many, it is too small",
            change,
        ),
        Some(set) => checks.ok("pfc.enabled", name, set.to_string()),
    }
}

/// The traffic classes that RoCE on this port is sent with, each with the setting that states it.
fn classes(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts) -> Vec<(u64, String)> {
    let mut classes = Vec::new();
    if let Some(class) = port.settings.traffic_class {
        // It overrides the class that programs request.
        return vec![(class, format!("traffic class of {}", device.name))];
    }
    for process in &facts.processes {
        // NCCL treats a negative value as unset.
        if let Some(class) = process.number("NCCL_IB_TC").and_then(|class| u64::try_from(class).ok()) {
            let entry = (class, format!("NCCL_IB_TC of process {}", process.pid));
            // A job has one process per GPU, all with the same setting.
            if !classes.iter().any(|(known, _)| *known == class) {
                classes.push(entry);
            }
        }
    }
    if let Some(tos) = port.settings.cm_tos.filter(|tos| *tos != 0) {
        classes.push((tos, "ToS of the connection manager".to_owned()));
    }
    classes
}

/// The priorities of [`classes`], as a set of bits.
pub(super) fn roce_priorities(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts) -> u8 {
    let Some(dcb) = facts.ethernet_of(port).find_map(|interface| interface.dcb.as_ref()) else { return 0 };
    let dscp = |class: u64| u8::try_from(class >> 2 & 0x3f).unwrap_or_default();
    let of = |(class, _)| dcb.priority_of_dscp(dscp(class));
    classes(facts, device, port).into_iter().filter_map(of).fold(0, |set, priority| set | 1 << (priority & 7))
}

fn roce_priority(
    facts: &HostFacts,
    device: &DeviceFacts,
    port: &PortFacts,
    dcb: &Dcb,
    name: &str,
    checks: &mut CheckList,
) {
    let classes = classes(facts, device, port);
    let lossless = dcb.pfc.map(|pfc| pfc.enabled).unwrap_or_default();
    if classes.is_empty() {
        checks.unknown("qos.roce_priority", name, "no configured traffic class can be read");
        return;
    }
    for (class, source) in classes {
        let dscp = u8::try_from(class >> 2 & 0x3f).unwrap_or_default();
        let Some(priority) = dcb.priority_of_dscp(dscp) else {
            checks.unknown(
                "qos.roce_priority",
                name,
                &format!("DSCP {dscp} ({source}) has no explicit priority mapping"),
            );
            continue;
        };
        let value = format!("DSCP {dscp} → priority {priority} ({source})");
        if lossless.is_empty() || lossless.has(priority) {
            checks.ok("qos.roce_priority", name, value);
        } else {
            checks.say(
                ("qos.roce_priority", Status::Critical),
                name,
                value,
                format!("this traffic does not use the lossless priority {lossless}"),
                format!("map the DSCP to it (dcb app replace dev {name} dscp-prio {dscp}:PRIORITY), or send with a DSCP that maps to it"),
            );
        }
    }
}

fn cm(device: &DeviceFacts, port: &PortFacts, lossless: Priorities, checks: &mut CheckList) {
    let subject = format!("{}/{}", device.name, port.port.number);
    match port.settings.cm_tos {
        Some(0) if !lossless.is_empty() => checks.say(
            ("cm.tos", Status::Info),
            &subject,
            "0",
            format!("connections made by the connection manager (storage, perftest -R) do not use the lossless priority {lossless} unless they set a traffic class"),
            format!(
                "echo 104 > /sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_tos (DSCP 26 × 4; use the fabric's DSCP)",
                device.name, port.port.number
            ),
        ),
        Some(tos) => checks.ok("cm.tos", &subject, tos.to_string()),
        None => checks.unknown(
            "cm.tos",
            &subject,
            "configfs has it only after `cma_roce_tos` has created the device's entry; the default is 0",
        ),
    }
}

fn buffers(dcb: &Dcb, lossless: Priorities, name: &str, checks: &mut CheckList) {
    let Some(buffers) = dcb.buffers.filter(|buffers| buffers.total > 0) else {
        checks.unknown("buffer.lossless", name, "the driver does not report its receive buffers");
        return;
    };
    let buffer_of =
        |priority: u8| usize::from(buffers.buffer_of.get(usize::from(priority)).copied().unwrap_or(0));
    for priority in lossless.iter() {
        let buffer = buffer_of(priority);
        let size = buffers.sizes.get(buffer).copied().unwrap_or(0);
        let value = format!("priority {priority} in buffer {buffer}, {size} bytes");
        let change = format!(
            "dcb buffer set dev {name} prio-buffer {priority}:1 buffer-size 1:BYTES (mlnx_qos -i {name} --prio2buffer, --buffer_size)"
        );
        let shared = (0..8).any(|other| !lossless.has(other) && buffer_of(other) == buffer);
        if size == 0 {
            checks.say(
                ("buffer.lossless", Status::Critical),
                name,
                value,
                "a lossless priority without a buffer drops packets that PFC should protect",
                change,
            );
        } else if shared {
            checks.say(
                ("buffer.lossless", Status::Warning),
                name,
                value,
                "other priorities share the buffer and can fill it, which pauses RoCE",
                change,
            );
        } else {
            checks.ok("buffer.lossless", name, value);
        }
    }
}
