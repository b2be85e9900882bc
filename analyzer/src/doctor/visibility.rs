//! The sources that can observe an interface or device on this host.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::facts::{DeviceFacts, HostFacts, InterfaceFacts, OPTIONAL_COST, PortFacts, Protocol};
use crate::host::kernel::Capability;

/// A source of traffic information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Programs on XDP or TC: `rocescope live`.
    Packets,
    /// libpcap's RDMA sniffer, read from a stream.
    Sniffer,
    /// Counters of the device.
    Counters,
}

impl SourceKind {
    /// The name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Sniffer => "sniffer",
            Self::Counters => "counters",
        }
    }
}

/// Availability of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// Yes.
    Yes,
    /// No.
    No,
    /// It depends on something that cannot be read here.
    Perhaps,
}

impl Availability {
    /// The word shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Perhaps => "perhaps",
        }
    }
}

/// The availability of one source for one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Visibility {
    /// Interface, or device and port ("mlx5_0/1").
    pub subject: String,
    /// Source of packets or counters.
    #[serde(rename = "way")]
    pub source: SourceKind,
    /// Availability of the source on this host.
    #[serde(rename = "works")]
    pub availability: Availability,
    /// The reason, in one sentence.
    pub why: String,
    /// Command that uses the source.
    pub command: Option<String>,
}

/// The sources of every port and interface of the host, devices first.
pub fn of_host(facts: &HostFacts) -> Vec<Visibility> {
    let mut entries = Vec::new();
    for device in &facts.devices {
        for port in &device.ports {
            of_port(facts, device, port, &mut entries);
        }
    }
    for interface in &facts.interfaces {
        if interface.devices.is_empty() {
            entries.push(of_interface(facts, interface));
        } else if let Some(entry) = of_upper(facts, interface) {
            entries.push(entry);
        }
    }
    for entry in entries.iter_mut().filter(|entry| entry.command.is_some()) {
        // Reading counters needs no capability.
        let needed: &[Capability] = match entry.source {
            SourceKind::Packets => TO_ATTACH,
            SourceKind::Sniffer => &[Capability::NetRaw, Capability::NetAdmin],
            SourceKind::Counters => &[],
        };
        if lacks(facts, needed) {
            entry.why.push_str("; this process lacks the required privileges (kernel.capabilities)");
            entry.command = entry.command.take().map(|command| format!("sudo {command}"));
        }
    }
    entries
}

/// True when this process lacks one of these capabilities.
fn lacks(facts: &HostFacts, needed: &[Capability]) -> bool {
    let missing = facts.kernel.missing_capabilities.as_deref().unwrap_or_default();
    needed.iter().any(|capability| missing.contains(&capability.name()))
}

/// Capabilities needed to attach programs; promiscuous mode is not among them.
const TO_ATTACH: &[Capability] = &[Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];

/// The command that watches an interface, for a user with the required privileges.
fn live(facts: &HostFacts, interface: &str) -> String {
    facts.command(&format!("live -i {interface}"))
}

/// The command that watches any interface.
pub fn live_anywhere(facts: &HostFacts) -> String {
    let sudo = if lacks(facts, TO_ATTACH) { "sudo " } else { "" };
    sudo.to_owned() + &live(facts, "NAME")
}

fn of_port(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts, entries: &mut Vec<Visibility>) {
    let subject = format!("{}/{}", device.name, port.port.number);
    let mut say = |source, availability, why: String, command| {
        entries.push(Visibility { subject: subject.clone(), source, availability, why, command });
    };
    let not_roce = match device.protocol {
        Protocol::Roce => None,
        Protocol::InfiniBand => Some("InfiniBand, not RoCE: its packets are not Ethernet frames"),
        Protocol::Iwarp => Some("iWARP device (RDMA over TCP): not RoCE"),
        Protocol::Efa => Some("Elastic Fabric Adapter (SRD): not RoCE"),
        Protocol::Unknown => {
            Some("the kernel does not report the device's protocol; it is not known to be RoCE")
        }
    };
    if let Some(why) = not_roce {
        say(SourceKind::Packets, Availability::No, why.to_owned(), None);
        if device.protocol == Protocol::Efa {
            let (availability, why) = counters(device, port);
            let command = live(facts, &device.name);
            say(
                SourceKind::Counters,
                availability,
                why,
                (availability == Availability::Yes).then_some(command),
            );
        }
        return;
    }
    let interface = port.port.interface.as_deref();
    let live = interface.map(|name| live(facts, name));
    let shown = interface.unwrap_or("its interface");
    if device.software {
        let why = format!(
            "Soft-RoCE: its packets pass {shown} in both directions (except packets to the host's own address, which pass no interface)"
        );
        say(SourceKind::Packets, Availability::Yes, why, live.clone());
    } else if device.roce_enabled == Some(false) {
        let why = format!(
            "RoCE is disabled on the device (devlink enable_roce): RoCE packets that reach {shown}, for example from a mirror port, pass XDP and TC like any other traffic"
        );
        say(SourceKind::Packets, Availability::Yes, why, live.clone());
    } else {
        let why = format!(
            "hardware-offloaded RoCE bypasses XDP and TC on {shown}: `live` shows the device counters and other traffic only. For packets, use a mirror port, or disable RoCE on this device ({})",
            switch_off(device)
        );
        say(SourceKind::Packets, Availability::No, why, None);
        let (availability, why) = sniffer(facts, device);
        let replay = facts.kernel.command();
        let command = format!("tcpdump -U -s 128 -i {} -w - | {replay} replay -", device.name);
        say(SourceKind::Sniffer, availability, why, (availability != Availability::No).then_some(command));
    }
    let (availability, why) = counters(device, port);
    say(SourceKind::Counters, availability, why, live.filter(|_| availability == Availability::Yes));
}

fn sniffer(facts: &HostFacts, device: &DeviceFacts) -> (Availability, String) {
    if !matches!(device.driver.as_deref(), Some("mlx5_ib" | "bnxt_re" | "mlx4_ib")) {
        let driver = device.driver.as_deref().unwrap_or("this driver");
        return (
            Availability::No,
            format!("{driver} is not known to support flow steering of packet copies to a sniffer"),
        );
    }
    if !device.verbs {
        return (
            Availability::No,
            "the device has no /dev/infiniband/uverbs file; load the module ib_uverbs".to_owned(),
        );
    }
    match facts.kernel.libpcap_sniffs {
        Some(false) => (Availability::No, "libpcap on this host was built without RDMA; build it with libibverbs installed".into()),
        None => (Availability::Perhaps, "no libpcap found in the usual places; 1.9 or newer, built with RDMA, is required".into()),
        Some(true) => (
            Availability::Perhaps,
            "libpcap has the RDMA sniffer; the NIC firmware may still refuse it. It slows traffic down, and its capture losses are not counted"
                .into(),
        ),
    }
}

/// The command that disables RoCE with devlink; drivers differ in when it takes effect.
fn switch_off(device: &DeviceFacts) -> String {
    let pci = device.pci.as_ref().map_or("ADDRESS", |pci| pci.address.as_str());
    let set =
        |mode: &str| format!("devlink dev param set pci/{pci} name enable_roce value false cmode {mode}");
    match device.driver.as_deref() {
        Some("mlx5_ib") => format!("{}; devlink dev reload pci/{pci}", set("driverinit")),
        Some("irdma") => set("runtime"),
        Some("bnxt_re") => format!("{}, then reboot the host", set("permanent")),
        _ => format!("if the driver supports it: devlink dev param show pci/{pci} name enable_roce"),
    }
}

fn counters(device: &DeviceFacts, port: &PortFacts) -> (Availability, String) {
    if port.counters.is_empty() {
        return (
            Availability::No,
            "no counter below ports/N/counters and hw_counters can be read (--verbose gives the reasons)"
                .into(),
        );
    }
    let names: BTreeSet<&str> = port.counters.iter().filter_map(|c| Some(c.meaning?.name())).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut why = format!("{} port counters; recognized: {}", port.counters.len(), names.join(", "));
    match port.qp_binding.filter(|_| !device.software) {
        Some("auto") => {
            why.push_str("; per queue pair for those created since automatic binding was enabled");
        }
        Some("manual") => why.push_str("; per queue pair for those bound manually"),
        Some(_) => why.push_str("; not per queue pair (binding disabled)"),
        None => why.push_str("; not per queue pair"),
    }
    let off = port.optional_off();
    if !off.is_empty() {
        let _ = write!(
            why,
            "; optional counters disabled: {} ({} enables them; {OPTIONAL_COST})",
            off.join(", "),
            port.turn_on_optional(&device.name)
        );
    }
    (Availability::Yes, why)
}

/// Visibility of an upper interface (such as a VLAN) on a device's port: its RDMA follows the port's path.
fn of_upper(facts: &HostFacts, interface: &InterfaceFacts) -> Option<Visibility> {
    let is_of_port = facts.roce_ports().any(|(_, port)| {
        let own = port.port.interface.as_deref();
        own == Some(interface.name.as_str())
            || facts.ethernet_of(port).any(|below| below.name == interface.name)
    });
    let device = facts.devices.iter().find(|device| interface.devices.contains(&device.name))?;
    if is_of_port || device.protocol != Protocol::Roce {
        return None;
    }
    let (name, below) = (&interface.name, interface.below.join(", "));
    let mut entry = Visibility {
        subject: name.clone(),
        source: SourceKind::Packets,
        availability: Availability::Yes,
        why: format!("RoCE of {name} passes it, and {below} too"),
        command: Some(live(facts, name)),
    };
    if device.hides_packets() {
        entry.availability = Availability::No;
        entry.command = None;
        entry.why = format!(
            "{} handles the RoCE of {name} in hardware through {below}, bypassing XDP and TC: only counters of the whole port are available",
            device.name
        );
    }
    Some(entry)
}

fn of_interface(facts: &HostFacts, interface: &InterfaceFacts) -> Visibility {
    if interface.kind == "ipoib" {
        return Visibility {
            subject: interface.name.clone(),
            source: SourceKind::Packets,
            availability: Availability::No,
            why: "IP over InfiniBand, not RoCE: its packets are not Ethernet frames".to_owned(),
            command: None,
        };
    }
    let command = interface.up.then(|| live(facts, &interface.name));
    let (availability, why) = if interface.up {
        (
            Availability::Yes,
            "no RDMA device uses it: RoCE packets here, for example from a mirror port, pass XDP and TC"
                .to_owned(),
        )
    } else {
        (Availability::Perhaps, "no RDMA device uses it, and it is down".to_owned())
    };
    Visibility { subject: interface.name.clone(), source: SourceKind::Packets, availability, why, command }
}
