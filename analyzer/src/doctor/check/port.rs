//! Ports that do RoCE: whether they are up, addressed, wide enough and countable.

use super::{Entry, Sheet, Verdict};
use crate::doctor::facts::{DeviceFacts, HostFacts, InterfaceFacts, OPTIONAL_COST, PortFacts, Protocol};
use crate::host::pci::PciDevice;
use crate::host::port::MTU_FOR_4096;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "device.protocol",
        about: "What an RDMA device speaks. Info when it is not RoCE (InfiniBand, iWARP, EFA), so that nothing of it can be shown.",
    },
    Entry {
        id: "device.absent",
        about: "NICs whose driver has a companion for RoCE, but no RDMA device. Info, with the module that makes it one: without it there are neither queue pairs nor counters.",
    },
    Entry { id: "port.state", about: "State of the RDMA port. A warning when it is not ACTIVE." },
    Entry {
        id: "port.gid",
        about: "Addresses of the port. A warning when none is a RoCE v2 address that routers pass on.",
    },
    Entry {
        id: "port.mtu",
        about: "Largest RDMA path MTU, as the kernel computes it from the MTU of the interface. A warning below 4096 on a NIC, info with Soft-RoCE.",
    },
    Entry {
        id: "pcie.bandwidth",
        about: "PCIe speed times width, after line coding, against the speed of the port. Critical when the link trained below what the device can and the port is faster than it; a warning when the device's best is less than the port.",
    },
    Entry {
        id: "pcie.width",
        about: "PCIe lanes in use against those that the device has. A warning when some are missing.",
    },
    Entry {
        id: "entropy.source_port",
        about: "Whether the driver varies the UDP source port by queue pair, on which hashing over uplinks rests. Ok for drivers whose source does so.",
    },
    Entry {
        id: "counters.optional",
        about: "Optional counters of the port. Info when some are off, with the command that turns them on and what it costs.",
    },
    Entry {
        id: "counters.per_qp",
        about: "Whether queue pairs have counters of their own. Info when they could and do not.",
    },
];

/// Drivers of NICs that do RoCE, and the modules that make RDMA devices of them.
const COMPANIONS: [(&str, &str); 7] = [
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_en", "mlx4_ib"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("ionic", "ionic_rdma"),
    ("qede", "qedr"),
    ("hns3", "hns_roce_hw_v2"),
];

/// Drivers that take the source port from the flow label or from both queue pair numbers
/// (rdma_get_udp_sport and rdma_flow_label_to_udp_sport in hw/mlx5, hw/irdma and hw/hns; rxe
/// hashes the queue pair number).
const VARY_SOURCE_PORT: [&str; 4] = ["mlx5_ib", "irdma", "hns_roce", "rxe"];

pub(super) fn check(facts: &HostFacts, sheet: &mut Sheet) {
    for device in &facts.devices {
        let what = device.protocol.name();
        match device.protocol {
            Protocol::Roce => sheet.ok("device.protocol", &device.name, what),
            Protocol::Unknown => {
                sheet.unknown("device.protocol", &device.name, "the kernel does not say what it speaks");
            }
            _ => sheet.say(
                ("device.protocol", Verdict::Info),
                &device.name,
                what,
                "this is not RoCE: rocescope shows nothing of it",
                "",
            ),
        }
    }
    absent(facts, sheet);
    for (device, port) in facts.roce_ports() {
        let subject = format!("{}/{}", device.name, port.port.number);
        state(port, &subject, sheet);
        gid(port, &subject, sheet);
        mtu(facts, device, port, &subject, sheet);
        if let Some(pci) = &device.pci {
            pcie(pci, port, &subject, sheet);
        }
        match device.driver.as_deref() {
            Some(driver) if VARY_SOURCE_PORT.contains(&driver) => {
                sheet.ok("entropy.source_port", &subject, format!("{driver} varies it by queue pair"));
            }
            _ => sheet.unknown(
                "entropy.source_port",
                &subject,
                "not known of this driver; `rocescope replay` of a capture shows it",
            ),
        }
        counters(device, port, &subject, sheet);
    }
}

fn absent(facts: &HostFacts, sheet: &mut Sheet) {
    let idle = |i: &&InterfaceFacts| i.up && i.kind == "physical" && i.devices.is_empty();
    for interface in facts.interfaces.iter().filter(idle) {
        let driver = interface.driver.as_deref();
        let Some((driver, module)) = COMPANIONS.into_iter().find(|(known, _)| Some(*known) == driver) else {
            continue;
        };
        sheet.say(
            ("device.absent", Verdict::Info),
            &interface.name,
            format!("{driver} without {module}"),
            "the NIC can do RoCE, but no RDMA device is here for it: nothing does RDMA through it, or the device is in another network namespace (rdma system show)",
            format!("where RoCE is wanted: modprobe {module}"),
        );
    }
}

fn state(port: &PortFacts, subject: &str, sheet: &mut Sheet) {
    match (&port.port.state, port.port.is_active()) {
        (Some(state), Some(true)) => sheet.ok("port.state", subject, state),
        (Some(state), _) => {
            let physical = port.port.physical_state.as_deref().unwrap_or("unknown");
            let interface = port.port.interface.as_deref().unwrap_or("its interface");
            sheet.say(
                ("port.state", Verdict::Warning),
                subject,
                state,
                format!("no RoCE passes a port in this state (physical state: {physical})"),
                format!("ip link set {interface} up; check cable and switch port"),
            );
        }
        (None, _) => sheet.unknown("port.state", subject, "sysfs does not tell the state"),
    }
}

fn gid(port: &PortFacts, subject: &str, sheet: &mut Sheet) {
    if port.port.gids.is_empty() {
        sheet.unknown("port.gid", subject, "no GID can be read");
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
        sheet.say(
            ("port.gid", Verdict::Warning),
            subject,
            "no routable RoCE v2 address",
            "only link-local or RoCE v1 addresses: traffic stays in one layer 2 network, without ECN for v1",
            format!("give {interface} an IP address: ip address add ADDRESS/PREFIX dev {interface}"),
        );
    } else {
        sheet.ok("port.gid", subject, routable.join(", "));
    }
}

fn mtu(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts, subject: &str, sheet: &mut Sheet) {
    let (Some(mtu), Some(interface)) = (port.active_mtu, facts.interface_of(port)) else {
        sheet.unknown("port.mtu", subject, "the interface of the port is not in this network namespace");
        return;
    };
    let value = format!("{mtu} (interface {})", interface.mtu);
    if mtu >= 4096 {
        sheet.ok("port.mtu", subject, value);
        return;
    }
    let verdict = if device.software { Verdict::Info } else { Verdict::Warning };
    sheet.say(
        ("port.mtu", verdict),
        subject,
        value,
        "a path MTU of 4096 takes fewer packets and less of the link for headers",
        format!(
            "ip link set {} mtu 9000 ({MTU_FOR_4096} is the least), on all hosts and switch ports of the fabric alike",
            interface.name
        ),
    );
}

fn pcie(pci: &PciDevice, port: &PortFacts, subject: &str, sheet: &mut Sheet) {
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
            let could = link.max_mbps().is_some_and(|max| max > have * 1.01);
            if have >= need {
                sheet.ok("pcie.bandwidth", subject, value);
            } else if could {
                sheet.say(
                    ("pcie.bandwidth", Verdict::Critical),
                    subject,
                    value,
                    "the PCIe link runs below what the device can, and is the narrowest place of the path: the NIC drops or pauses what the host cannot take",
                    "reseat the card or riser, check the slot's lanes and the firmware's settings for its speed (lspci -vv: LnkSta against LnkCap)",
                );
            } else {
                sheet.say(
                    ("pcie.bandwidth", Verdict::Warning),
                    subject,
                    value,
                    "the slot or device cannot carry the port's speed",
                    "move the card to a slot with more or faster lanes",
                );
            }
        }
        _ => sheet.unknown("pcie.bandwidth", subject, "speed or width of link or port cannot be read"),
    }
    match (link.width, link.max_width) {
        (Some(width), Some(max)) if width < max => sheet.say(
            ("pcie.width", Verdict::Warning),
            subject,
            format!("{width} of {max} lanes"),
            "lanes did not come up, or the slot has fewer",
            "reseat the card, or use a slot with all lanes",
        ),
        (Some(width), Some(_)) => sheet.ok("pcie.width", subject, format!("{width} lanes")),
        _ => sheet.unknown("pcie.width", subject, "the width of the link cannot be read"),
    }
}

fn counters(device: &DeviceFacts, port: &PortFacts, subject: &str, sheet: &mut Sheet) {
    match &port.optional_counters {
        Some(_) if !port.optional_off().is_empty() => sheet.say(
            ("counters.optional", Verdict::Info),
            subject,
            format!("off: {}", port.optional_off().join(", ")),
            format!("on, they count CE marks, CNPs and RoCE packets in hardware; {OPTIONAL_COST}"),
            format!(
                "{} (the list replaces the one before, until the next boot)",
                port.turn_on_optional(&device.name)
            ),
        ),
        Some(counters) if !counters.is_empty() => sheet.ok("counters.optional", subject, "all on"),
        Some(_) => sheet.ok("counters.optional", subject, "none: all that the driver has are always on"),
        None => sheet.unknown(
            "counters.optional",
            subject,
            "the kernel (5.16 on) or driver offers none, or does not tell",
        ),
    }
    match port.qp_binding {
        // The kernel takes the order for any device; Soft-RoCE has no counters to hand out.
        Some(_) if device.software => {
            sheet.unknown("counters.per_qp", subject, "Soft-RoCE has none by queue pair");
        }
        Some("none") => sheet.say(
            ("counters.per_qp", Verdict::Info),
            subject,
            "off",
            format!(
                "queue pairs of {} share the counters of the port; bound, those of one type and process share a set, made with the next queue pair",
                device.name
            ),
            format!("rdma statistic qp set link {subject} auto type,pid on (on mlx5 from Linux 6.15 with `optional-counters on` behind it, also CE, CNP and bytes)"),
        ),
        Some(mode) => sheet.ok("counters.per_qp", subject, mode),
        None => sheet.unknown("counters.per_qp", subject, "the kernel or driver offers none"),
    }
}
