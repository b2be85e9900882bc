//! Resolves the user's `-i` names to the interfaces to attach to.

use super::interface::{Framing, Interface, InterfaceKind};
use super::stack;
use crate::host::error::{HostError, Result};
use crate::host::rdma::RdmaDevice;

/// The interfaces and devices that `-i` selects on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Interfaces to attach to.
    pub targets: Vec<Interface>,
    /// RDMA devices without an interface here, whose counters can still be read: name and reason.
    pub without_interface: Vec<(String, String)>,
}

/// The interfaces for `wanted`: names of interfaces or RDMA devices, in that order and each once, and those of the
/// devices that have no interface here. An empty list stands for every RDMA device.
///
/// # Errors
/// If a name is unknown, there is no RDMA device, a device is InfiniBand, or one of the interfaces is
/// stacked on another. The message lists the candidates.
#[expect(clippy::too_many_lines, reason = "one case after the other, each with its error")]
pub fn resolve(wanted: &[String], interfaces: &[Interface], rdma: &[RdmaDevice]) -> Result<Chosen> {
    let mut chosen: Vec<usize> = Vec::new();
    let mut choose = |position: usize| {
        if !chosen.contains(&position) {
            chosen.push(position);
        }
    };
    let mut without_interface: Vec<(String, String)> = Vec::new();
    let mut leave = |device: &RdmaDevice| {
        if !without_interface.iter().any(|(name, _)| *name == device.name) {
            without_interface.push((device.name.clone(), no_interface(device, interfaces, rdma)));
        }
    };
    if wanted.is_empty() {
        for device in rdma.iter().filter(|device| !device.is_infiniband_only()) {
            let found = positions(device, interfaces);
            if found.is_empty() {
                leave(device);
            }
            found.into_iter().for_each(&mut choose);
        }
    }
    for name in wanted {
        if let Some(position) = interfaces.iter().position(|i| i.name == *name) {
            choose(position);
        } else if let Some(device) = rdma.iter().find(|d| d.name == *name) {
            let found = positions(device, interfaces);
            if device.is_infiniband_only() {
                return Err(HostError::Choice(no_interface(device, interfaces, rdma)));
            }
            if found.is_empty() {
                leave(device);
            }
            found.into_iter().for_each(&mut choose);
        } else {
            return Err(HostError::Choice(unknown(name, interfaces, rdma)));
        }
    }
    if chosen.is_empty() && without_interface.is_empty() {
        return Err(HostError::Choice(format!(
            "no network interface with an RDMA device to select by default; use -i. {}",
            candidates(interfaces, rdma)
        )));
    }
    let chosen_ones = || chosen.iter().filter_map(|position| interfaces.get(*position));
    if let Some((name, hardware)) = chosen_ones().find_map(|interface| match interface.framing {
        Framing::Other(hardware) => Some((&interface.name, hardware)),
        Framing::Ethernet | Framing::RawIp => None,
    }) {
        return Err(HostError::Choice(format!(
            "packets of {name} begin with neither Ethernet nor IP (hardware type {hardware} in linux/if_arp.h), so \
             they cannot be parsed in the kernel: select the interface below it, or use `tcpdump -i {name} -U -w - | \
             rocescope replay -`"
        )));
    }
    if let Some(pair) = stack::find(&chosen, interfaces) {
        return Err(HostError::Choice(format!(
            "{} and {} cannot be watched together: {}, so every packet would be counted twice; \
             select one of them with -i",
            pair.upper, pair.lower, pair.relation
        )));
    }
    let target = |position: usize| interfaces[position].clone();
    Ok(Chosen { targets: chosen.into_iter().map(target).collect(), without_interface })
}

/// Notices about the selected interfaces before any packet arrives.
pub fn notes(targets: &[Interface]) -> Vec<String> {
    let mut notes = Vec::new();
    for interface in targets {
        let name = &interface.name;
        if !interface.admin_up {
            notes.push(format!("{name} is down: it receives no packets until `ip link set {name} up`"));
        } else if !interface.is_up() {
            notes.push(format!("{name} has no link: it receives no packets until its cable or peer is up"));
        }
        if interface.kind == InterfaceKind::Vxlan && interface.lower.is_empty() && targets.len() > 1 {
            notes.push(format!(
                "{name} is a VXLAN with a routed underlay: if that is one of the other interfaces, its packets \
                 are counted on both"
            ));
        }
    }
    notes
}

/// One sentence with all interfaces that can be named, with kind and RDMA devices.
pub fn candidates(interfaces: &[Interface], rdma: &[RdmaDevice]) -> String {
    let list: Vec<String> = interfaces
        .iter()
        .filter(|i| i.kind != InterfaceKind::Loopback)
        .map(|i| {
            let mut about = vec![i.kind.as_str().to_owned()];
            about.extend(users(&i.name, rdma));
            if !i.is_up() {
                about.push("down".to_owned());
            }
            format!("{} ({})", i.name, about.join(", "))
        })
        .collect();
    if list.is_empty() {
        "This network namespace has no interface except loopback.".to_owned()
    } else {
        format!("Interfaces: {}.", list.join(", "))
    }
}

fn positions(device: &RdmaDevice, interfaces: &[Interface]) -> Vec<usize> {
    let position = |name: &str| interfaces.iter().position(|i| i.name == name);
    device.interfaces().into_iter().filter_map(position).collect()
}

fn users(interface: &str, rdma: &[RdmaDevice]) -> Vec<String> {
    rdma.iter().filter(|d| d.interfaces().contains(&interface)).map(|d| d.name.clone()).collect()
}

fn no_interface(device: &RdmaDevice, interfaces: &[Interface], rdma: &[RdmaDevice]) -> String {
    let name = &device.name;
    if device.is_infiniband_only() {
        return format!("{name} is an InfiniBand device: it has no RoCE traffic to watch");
    }
    match device.interfaces().first() {
        Some(elsewhere) => format!(
            "the interface of {name} is {elsewhere}, which is in another network namespace; select \
             it with --netns. {}",
            candidates(interfaces, rdma)
        ),
        None => format!(
            "the kernel does not report the interface of {name}; use the interface name. {}",
            candidates(interfaces, rdma)
        ),
    }
}

fn unknown(name: &str, interfaces: &[Interface], rdma: &[RdmaDevice]) -> String {
    let known = interfaces.iter().map(|i| i.name.as_str()).chain(rdma.iter().map(|d| d.name.as_str()));
    let closest = known.map(|known| (strsim::levenshtein(name, known), known)).min();
    // A typing mistake rather than a completely different name.
    let hint = match closest {
        Some((edits, known)) if edits <= 2 && edits < name.chars().count() => {
            format!(" (did you mean {known}?)")
        }
        _ if name.contains(',') => " (repeat -i for each interface)".to_owned(),
        _ => String::new(),
    };
    format!("no network interface or RDMA device {name:?}{hint}. {}", candidates(interfaces, rdma))
}

#[cfg(test)]
mod tests;
