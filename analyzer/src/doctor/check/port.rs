//! RoCE ports: state, addresses, MTU, PCIe bandwidth and counters.

use super::{CheckList, Entry, Status};
use crate::doctor::facts::{DeviceFacts, HostFacts, InterfaceFacts, OPTIONAL_COST, PortFacts, Protocol};
use crate::host::pci::PciDevice;
use crate::host::rdma::port::MTU_FOR_4096;
use crate::util::definition::definitions;
use crate::util::source_port::is_computed;

pub(super) const ENTRIES: &[Entry] = entries! {
    "device.protocol": "Protocol of an RDMA device. Info when it is not RoCE (InfiniBand, iWARP, EFA): rocescope cannot show its traffic; of EFA it shows the counters (`live -i DEVICE`).",
    "device.absent": "NICs whose driver supports RoCE but that have no RDMA device. Info, with the kernel module that creates it: without it there are neither queue pairs nor counters.",
    "port.state": "State of the RDMA port. Warning when it is not ACTIVE.",
    "port.gid": "GIDs of the port. Warning when none is a routable RoCE v2 address.",
    "port.mtu": "Largest RDMA path MTU, as the kernel computes it from the interface MTU. Warning below 4096 on a NIC, info with Soft-RoCE.",
    "pcie.bandwidth": "PCIe bandwidth (speed × width, after line coding) compared with the port speed. Critical when the link trained below the device's capability and is slower than the port, warning when even that capability is below the port speed.",
    "pcie.width": "Active and maximum PCIe lanes of the device. Warning when lanes are missing.",
    "entropy.source_port": "UDP source port entropy per queue pair, which ECMP hashing depends on. OK for drivers whose source code varies the port per queue pair.",
    "counters.optional": "Optional counters of the port. Info when some are disabled, with the command that enables them and its cost.",
    "counters.per_qp": "Counters per queue pair. Info when they are supported but disabled.",
};

definitions! {
    LARGEST_MTU: u32 = 4_096,
        "Path MTU in bytes from which on a port has no warning",
        "The largest that RoCE has: each smaller one has more headers and more packets for the same data";
    CAPABLE: f64 = 1.01,
        "Bandwidth of PCIe that a device is capable of, as a multiple of what it has, above which its link is one that trained low",
        "Both are computed from speed and lanes: what is below is rounding";
}

/// Drivers of NICs that support RoCE, and the modules that create their RDMA devices.
const COMPANIONS: [(&str, &str); 7] = [
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_en", "mlx4_ib"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("ionic", "ionic_rdma"),
    ("qede", "qedr"),
    ("hns3", "hns_roce_hw_v2"),
];

pub(super) fn check(facts: &HostFacts, checks: &mut CheckList) {
    for device in &facts.devices {
        let what = device.protocol.name();
        match device.protocol {
            Protocol::Roce => checks.ok("device.protocol", &device.name, what),
            Protocol::Unknown => {
                checks.unknown("device.protocol", &device.name, "the kernel does not report its protocol");
            }
            _ => checks.say(
                ("device.protocol", Status::Info),
                &device.name,
                what,
                "not RoCE: rocescope cannot show its traffic",
                "",
            ),
        }
    }
    absent(facts, checks);
    for (device, port) in facts.roce_ports() {
        let subject = format!("{}/{}", device.name, port.port.number);
        state(port, &subject, checks);
        gid(port, &subject, checks);
        mtu(facts, device, port, &subject, checks);
        if let Some(pci) = &device.pci {
            pcie(pci, port, &subject, checks);
        }
        match device.driver.as_deref() {
            Some(driver) if is_computed(driver, facts.kernel.version) => {
                checks.ok("entropy.source_port", &subject, format!("{driver} varies it per queue pair"));
            }
            _ => checks.unknown(
                "entropy.source_port",
                &subject,
                "unknown for this driver; `rocescope replay` of a capture shows it",
            ),
        }
        counters(device, port, &subject, checks);
    }
}

fn absent(facts: &HostFacts, checks: &mut CheckList) {
    let idle = |i: &&InterfaceFacts| i.up && i.kind == "physical" && i.devices.is_empty();
    for interface in facts.interfaces.iter().filter(idle) {
        let driver = interface.driver.as_deref();
        let Some((driver, module)) = COMPANIONS.into_iter().find(|(known, _)| Some(*known) == driver) else {
            continue;
        };
        checks.say(
            ("device.absent", Status::Info),
            &interface.name,
            format!("{driver} without {module}"),
            "the NIC supports RoCE but has no RDMA device here: the module is not loaded, or the device is in another network namespace (rdma system show)",
            format!("if RoCE is wanted: modprobe {module}"),
        );
    }
}

fn state(port: &PortFacts, subject: &str, checks: &mut CheckList) {
    match (&port.port.state, port.port.is_active()) {
        (Some(state), Some(true)) => checks.ok("port.state", subject, state),
        (Some(state), _) => {
            let physical = port.port.physical_state.as_deref().unwrap_or("unknown");
            let interface = port.port.interface.as_deref().unwrap_or("its interface");
            checks.say(
                ("port.state", Status::Warning),
                subject,
                state,
                format!("the port carries no RoCE in this state (physical state: {physical})"),
                format!("ip link set {interface} up; check the cable and the switch port"),
            );
        }
        (None, _) => checks.unknown("port.state", subject, "sysfs does not report the state"),
    }
}

fn gid(port: &PortFacts, subject: &str, checks: &mut CheckList) {
    if port.port.gids.is_empty() {
        checks.unknown("port.gid", subject, "no GID can be read");
        return;
    }
    let routable: Vec<String> = port
        .port
        .gids
        .iter()
        .filter(|gid| gid.is_routable())
        .map(|gid| format!("{} (index {})", gid.address(), gid.index))
        .collect();
    if routable.is_empty() {
        let interface = port.port.interface.as_deref().unwrap_or("its interface");
        checks.say(
            ("port.gid", Status::Warning),
            subject,
            "no routable RoCE v2 address",
            "only link-local or RoCE v1 addresses: traffic cannot leave its layer 2 network, and RoCE v1 has no ECN",
            format!("assign an IP address: ip address add ADDRESS/PREFIX dev {interface}"),
        );
    } else {
        checks.ok("port.gid", subject, routable.join(", "));
    }
}

fn mtu(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts, subject: &str, checks: &mut CheckList) {
    let (Some(mtu), Some(interface)) = (port.active_mtu, facts.interface_of(port)) else {
        checks.unknown("port.mtu", subject, "the interface of the port is not in this network namespace");
        return;
    };
    let value = format!("{mtu} (interface {})", interface.mtu);
    if mtu >= LARGEST_MTU {
        checks.ok("port.mtu", subject, value);
        return;
    }
    let verdict = if device.software { Status::Info } else { Status::Warning };
    checks.say(
        ("port.mtu", verdict),
        subject,
        value,
        "a path MTU of 4096 needs fewer packets and less header overhead",
        format!(
            "ip link set {} mtu 9000 (minimum {MTU_FOR_4096}), on all hosts and switch ports of the fabric",
            interface.name
        ),
    );
}

fn pcie(pci: &PciDevice, port: &PortFacts, subject: &str, checks: &mut CheckList) {
    let link = &pci.link;
    match (link.mbps(), port.port.rate_mbps) {
        (Some(have), Some(port_mbps)) => {
            let need = port_mbps as f64;
            let value = format!(
                "{:.0} Gb/s ({} GT/s, {} lanes) for a port of {:.0} Gb/s",
                have / 1000.0,
                link.speed.unwrap_or_default(),
                link.width.unwrap_or_default(),
                need / 1000.0
            );
            let could = link.max_mbps().is_some_and(|max| max > have * CAPABLE);
            if have >= need {
                checks.ok("pcie.bandwidth", subject, value);
            } else if could {
                checks.say(
                    ("pcie.bandwidth", Status::Critical),
                    subject,
                    value,
                    "the PCIe link runs below the device's capability and is slower than the port: the NIC drops packets or sends pause frames",
                    "reseat the card or riser, check the slot's lanes and its speed setting in the firmware (lspci -vv: compare LnkSta with LnkCap)",
                );
            } else {
                checks.say(
                    ("pcie.bandwidth", Status::Warning),
                    subject,
                    value,
                    "the slot or the device cannot sustain the port's speed",
                    "move the card to a slot with more or faster lanes",
                );
            }
        }
        _ => checks.unknown(
            "pcie.bandwidth",
            subject,
            "the speed or width of the PCIe link, or the port speed, cannot be read",
        ),
    }
    match (link.width, link.max_width) {
        (Some(width), Some(max)) if width < max => checks.say(
            ("pcie.width", Status::Warning),
            subject,
            format!("{width} of {max} lanes"),
            "some lanes did not train, or the slot has fewer lanes",
            "reseat the card, or use a slot with enough lanes",
        ),
        (Some(width), Some(_)) => checks.ok("pcie.width", subject, format!("{width} lanes")),
        _ => checks.unknown("pcie.width", subject, "the PCIe link width cannot be read"),
    }
}

fn counters(device: &DeviceFacts, port: &PortFacts, subject: &str, checks: &mut CheckList) {
    match &port.optional_counters {
        Some(_) if !port.optional_off().is_empty() => checks.say(
            ("counters.optional", Status::Info),
            subject,
            format!("disabled: {}", port.optional_off().join(", ")),
            format!("when enabled, they count CE-marked packets, CNPs and RoCE packets in hardware; {OPTIONAL_COST}"),
            format!(
                "{} (replaces the current list, until the next boot)",
                port.turn_on_optional(&device.name)
            ),
        ),
        Some(counters) if !counters.is_empty() => checks.ok("counters.optional", subject, "all enabled"),
        Some(_) => checks.ok("counters.optional", subject, "none: the driver's counters are always enabled"),
        None => checks.unknown(
            "counters.optional",
            subject,
            "the kernel (before 5.16) or the driver offers none, or does not report them",
        ),
    }
    match port.qp_binding {
        // The kernel accepts the mode for any device; Soft-RoCE has no counters to bind.
        Some(_) if device.software => {
            checks.unknown("counters.per_qp", subject, "Soft-RoCE has no counters per queue pair");
        }
        Some("none") => checks.say(
            ("counters.per_qp", Status::Info),
            subject,
            "off",
            format!(
                "all queue pairs of {} share the port's counters; with binding, new queue pairs of the same type and process share a set",
                device.name
            ),
            format!("rdma statistic qp set link {subject} auto type,pid on (on mlx5 with Linux 6.15 or newer, append `optional-counters on` for CE, CNP and bytes)"),
        ),
        Some(mode) => checks.ok("counters.per_qp", subject, mode),
        None => checks.unknown("counters.per_qp", subject, "the kernel or the driver does not support them"),
    }
}
