//! What rocescope can see on an interface or device, through which source.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::facts::{DeviceFacts, HostFacts, InterfaceFacts, OPTIONAL_COST, PortFacts, Protocol};
use crate::host::kernel::Capability;

/// A way to see traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Programs on XDP or TC: `rocescope live`.
    Packets,
    /// libpcap's RDMA sniffer, read from a stream.
    Sniffer,
    /// Counters of the device.
    Counters,
}

impl Way {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Sniffer => "sniffer",
            Self::Counters => "counters",
        }
    }
}

/// Whether a way works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Works {
    /// Yes.
    Yes,
    /// No.
    No,
    /// It depends on what cannot be read here.
    Perhaps,
}

impl Works {
    /// The word for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Perhaps => "perhaps",
        }
    }
}

/// One way to see one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sight {
    /// Interface, or device and port ("mlx5_0/1").
    pub subject: String,
    /// The way.
    pub way: Way,
    /// Whether it works.
    pub works: Works,
    /// Why, in a sentence.
    pub why: String,
    /// The command.
    pub command: Option<String>,
}

/// Everything that can and cannot be seen on the host, devices first.
#[must_use]
pub fn sights(facts: &HostFacts) -> Vec<Sight> {
    let mut sights = Vec::new();
    for device in &facts.devices {
        for port in &device.ports {
            of_port(facts, device, port, &mut sights);
        }
    }
    for interface in &facts.interfaces {
        if interface.devices.is_empty() {
            sights.push(of_interface(facts, interface));
        } else if let Some(sight) = of_upper(facts, interface) {
            sights.push(sight);
        }
    }
    for sight in sights.iter_mut().filter(|sight| sight.command.is_some()) {
        // Counters can be read without any.
        let needed: &[Capability] = match sight.way {
            Way::Packets => TO_ATTACH,
            Way::Sniffer => &[Capability::NetRaw, Capability::NetAdmin],
            Way::Counters => &[],
        };
        if lacks(facts, needed) {
            sight.why.push_str("; this process itself lacks the rights (kernel.capabilities)");
            sight.command = sight.command.take().map(|command| format!("sudo {command}"));
        }
    }
    sights
}

/// Whether this process lacks one of these capabilities.
fn lacks(facts: &HostFacts, needed: &[Capability]) -> bool {
    let missing = facts.kernel.missing_capabilities.as_deref().unwrap_or_default();
    needed.iter().any(|capability| missing.contains(&capability.name()))
}

/// What attaching programs takes; promiscuous mode is a thing apart.
const TO_ATTACH: &[Capability] = &[Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];

/// The command that watches an interface, for somebody with the rights to do so.
fn live(facts: &HostFacts, interface: &str) -> String {
    facts.command(&format!("live -i {interface}"))
}

/// The command that watches any interface.
#[must_use]
pub fn live_anywhere(facts: &HostFacts) -> String {
    let sudo = if lacks(facts, TO_ATTACH) { "sudo " } else { "" };
    sudo.to_owned() + &live(facts, "NAME")
}

fn of_port(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts, sights: &mut Vec<Sight>) {
    let subject = format!("{}/{}", device.name, port.port.number);
    let mut say = |way, works, why: String, command| {
        sights.push(Sight { subject: subject.clone(), way, works, why, command });
    };
    let not_roce = match device.protocol {
        Protocol::Roce => None,
        Protocol::InfiniBand => {
            Some("this port speaks InfiniBand, whose packets are no Ethernet frames: not RoCE")
        }
        Protocol::Iwarp => Some("this device speaks iWARP, which is RDMA over TCP: not RoCE"),
        Protocol::Efa => Some("this is an Elastic Fabric Adapter, which speaks SRD: not RoCE"),
        Protocol::Unknown => {
            Some("the kernel does not say what this device speaks; it is not known to be RoCE")
        }
    };
    if let Some(why) = not_roce {
        say(Way::Packets, Works::No, why.to_owned(), None);
        return;
    }
    let interface = port.port.interface.as_deref();
    let live = interface.map(|name| live(facts, name));
    let shown = interface.unwrap_or("its interface");
    if device.software {
        let why = format!(
            "Soft-RoCE: its packets pass {shown} both ways (packets to the host's own address excepted, which pass no interface)"
        );
        say(Way::Packets, Works::Yes, why, live.clone());
    } else if device.roce_enabled == Some(false) {
        let why = format!(
            "RoCE is switched off on the device (devlink enable_roce): RoCE that reaches {shown}, as from a mirror port, passes XDP and TC like any other traffic"
        );
        say(Way::Packets, Works::Yes, why, live.clone());
    } else {
        let why = format!(
            "the NIC handles RoCE in hardware, and neither XDP nor TC on {shown} sees a packet of it; `live` there shows the device's counters, and other traffic. Packets can be had from a mirror port, or on this port with RoCE switched off ({})",
            switch_off(device)
        );
        say(Way::Packets, Works::No, why, None);
        let (works, why) = sniffer(facts, device);
        let replay = facts.kernel.command();
        let command = format!("tcpdump -U -s 128 -i {} -w - | {replay} replay -", device.name);
        say(Way::Sniffer, works, why, (works != Works::No).then_some(command));
    }
    let (works, why) = counters(device, port);
    say(Way::Counters, works, why, live.filter(|_| works == Works::Yes));
}

fn sniffer(facts: &HostFacts, device: &DeviceFacts) -> (Works, String) {
    if !matches!(device.driver.as_deref(), Some("mlx5_ib" | "bnxt_re" | "mlx4_ib")) {
        let driver = device.driver.as_deref().unwrap_or("this driver");
        return (Works::No, format!("{driver} is not known to let a program receive copies of its packets"));
    }
    if !device.verbs {
        return (
            Works::No,
            "there is no /dev/infiniband/uverbs file for the device; load the module ib_uverbs".to_owned(),
        );
    }
    match facts.kernel.libpcap_sniffs {
        Some(false) => (Works::No, "the libpcap of this host was built without RDMA; build it with libibverbs present".into()),
        None => (Works::Perhaps, "no libpcap was found in the usual places; it must be 1.9 or newer and built with RDMA".into()),
        Some(true) => (
            Works::Perhaps,
            "libpcap has the RDMA sniffer; whether the NIC's firmware allows it shows when it starts. It slows traffic down, and its own losses are not counted"
                .into(),
        ),
    }
}

/// How RoCE is switched off with devlink; drivers differ in when that takes effect.
fn switch_off(device: &DeviceFacts) -> String {
    let pci = device.pci.as_ref().map_or("ADDRESS", |pci| pci.address.as_str());
    let set =
        |mode: &str| format!("devlink dev param set pci/{pci} name enable_roce value false cmode {mode}");
    match device.driver.as_deref() {
        Some("mlx5_ib") => format!("{}; devlink dev reload pci/{pci}", set("driverinit")),
        Some("irdma") => set("runtime"),
        Some("bnxt_re") => format!("{}, then a new start of the host", set("permanent")),
        _ => format!("if its driver can: devlink dev param show pci/{pci} name enable_roce"),
    }
}

fn counters(device: &DeviceFacts, port: &PortFacts) -> (Works, String) {
    if port.counters.is_empty() {
        return (
            Works::No,
            "none below ports/N/counters and hw_counters can be read (--verbose says why)".into(),
        );
    }
    let names: BTreeSet<&str> = port.counters.iter().filter_map(|c| Some(c.meaning?.name())).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut why =
        format!("{} counters of the port, known by meaning: {}", port.counters.len(), names.join(", "));
    match port.qp_binding.filter(|_| !device.software) {
        Some("auto") => why.push_str("; by queue pair, for those made since automatic counting is on"),
        Some("manual") => why.push_str("; by queue pair, for those bound by hand"),
        Some(_) => why.push_str("; not by queue pair, which is switched off"),
        None => why.push_str("; not by queue pair"),
    }
    let off = port.optional_off();
    if !off.is_empty() {
        let _ = write!(
            why,
            "; optional ones that are off: {} ({} turns them on; {OPTIONAL_COST})",
            off.join(", "),
            port.turn_on_optional(&device.name)
        );
    }
    (Works::Yes, why)
}

/// An interface that lies on the port of a device, as a VLAN does: its RDMA goes the way of the port's.
fn of_upper(facts: &HostFacts, interface: &InterfaceFacts) -> Option<Sight> {
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
    let mut sight = Sight {
        subject: name.clone(),
        way: Way::Packets,
        works: Works::Yes,
        why: format!("RoCE of {name} passes it, and {below} as well"),
        command: Some(live(facts, name)),
    };
    if device.hides_packets() {
        sight.works = Works::No;
        sight.command = None;
        sight.why = format!(
            "{} sends and receives the RoCE of {name} in hardware through {below}, and neither XDP nor TC sees a packet of it: there are counters only, of the whole port",
            device.name
        );
    }
    Some(sight)
}

fn of_interface(facts: &HostFacts, interface: &InterfaceFacts) -> Sight {
    if interface.kind == "ipoib" {
        return Sight {
            subject: interface.name.clone(),
            way: Way::Packets,
            works: Works::No,
            why: "this is IP over InfiniBand, whose packets are no Ethernet frames: not RoCE".to_owned(),
            command: None,
        };
    }
    let command = interface.up.then(|| live(facts, &interface.name));
    let (works, why) = if interface.up {
        (Works::Yes, "no RDMA device uses it: RoCE that arrives or leaves here passes XDP and TC, as from a mirror port".to_owned())
    } else {
        (Works::Perhaps, "no RDMA device uses it, and it is down: nothing arrives".to_owned())
    };
    Sight { subject: interface.name.clone(), way: Way::Packets, works, why, command }
}
