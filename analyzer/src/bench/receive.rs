//! Distribution of received packets over cores on this host.

use serde::Serialize;

use crate::host::net::{ethtool, interface};
use crate::host::read::sysfs::SysRoot;

/// One interface that packets are received on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receiver {
    /// Name of the interface that receives.
    pub interface: String,
    /// Receive queues; `None` when unknown.
    pub rx_queues: Option<u32>,
    /// True when UDP ports of IPv4 packets are part of the hash that picks the queue; `None` where
    /// the driver does not say.
    pub udp4_ports_hashed: Option<bool>,
    /// The same of IPv6.
    pub udp6_ports_hashed: Option<bool>,
}

/// Physical interfaces of this network namespace; reads only. Empty when they cannot be listed.
pub fn interfaces() -> Vec<Receiver> {
    let Ok(root) = SysRoot::of_this_thread() else { return Vec::new() };
    let Ok(all) = interface::list_with_hardware(&root) else { return Vec::new() };
    all.into_iter()
        .filter(|interface| interface.driver.is_some() || interface.device.is_some())
        .map(|interface| Receiver {
            udp4_ports_hashed: ethtool::udp_ports_hashed(&interface.name, false).ok().flatten(),
            udp6_ports_hashed: ethtool::udp_ports_hashed(&interface.name, true).ok().flatten(),
            rx_queues: interface.rx_queues,
            interface: interface.name,
        })
        .collect()
}

/// The consequences, as sentences.
pub fn advice(receivers: &[Receiver]) -> Vec<String> {
    let mut said = vec![
        "A queue pair always uses one receive queue and so one core: the Gb/s above are the limit per queue \
         pair. Sent packets are counted on the core that sends them."
            .to_owned(),
    ];
    // True once a command was named.
    let mut reported = false;
    for receiver in receivers {
        let name = &receiver.interface;
        if receiver.rx_queues == Some(1) {
            said.push(format!("{name} has 1 receive queue: one core processes all packets."));
            continue;
        }
        let queues = receiver.rx_queues.map_or("unknown".to_owned(), |n| n.to_string());
        let hashed = [("udp4", receiver.udp4_ports_hashed), ("udp6", receiver.udp6_ports_hashed)];
        let of = |wanted| hashed.iter().filter(move |(_, is)| *is == wanted).map(|(kind, _)| *kind);
        let commands = |kinds: Vec<&str>| {
            let each = kinds.iter().map(|kind| format!("`ethtool -N {name} rx-flow-hash {kind} sdfn`"));
            each.collect::<Vec<_>>().join(" and ")
        };
        let spread: Vec<&str> = of(Some(true)).collect();
        if !spread.is_empty() {
            said.push(format!(
                "{name} ({queues} receive queues) hashes {} with ports: queue pairs are distributed over cores.",
                spread.join(" and ")
            ));
        }
        let alone: Vec<&str> = of(Some(false)).collect();
        if !alone.is_empty() {
            reported = true;
            said.push(format!(
                "{name} ({queues} receive queues) hashes {} by addresses only: all queue pairs between two hosts \
                 share one core. {} adds the ports.",
                alone.join(" and "),
                commands(alone)
            ));
        }
        let unknown: Vec<&str> = of(None).collect();
        if !unknown.is_empty() {
            reported = true;
            said.push(format!(
                "{name} ({queues} receive queues) does not report its hash of {}. Many adapters hash UDP by addresses \
                 only, so that all queue pairs between two hosts share one core; {} adds the ports where the \
                 driver supports it.",
                unknown.join(" and "),
                commands(unknown)
            ));
        }
    }
    let vxlan = if reported {
        "so the commands above distribute it"
    } else {
        "so a hash with ports distributes it (`ethtool -N DEVICE rx-flow-hash udp4 sdfn`, with several queues)"
    };
    said.push(format!(
        "Traffic mirrored over ERSPAN or GRE has one outer pair of addresses and no ports: one core processes all \
         packets unless the adapter hashes the inner packet. Over VXLAN the outer source port varies, {vxlan}."
    ));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_command_only_where_it_helps() {
        let said = |rx_queues, udp4_ports_hashed, udp6_ports_hashed| {
            let interface = "eth7".to_owned();
            let all = advice(&[Receiver { interface, rx_queues, udp4_ports_hashed, udp6_ports_hashed }]);
            all[1..all.len() - 1].join("\n")
        };
        let alone = said(Some(8), Some(false), Some(false));
        assert!(alone.contains(
            "`ethtool -N eth7 rx-flow-hash udp4 sdfn` and `ethtool -N eth7 rx-flow-hash udp6 sdfn`"
        ));
        assert!(!said(Some(8), Some(true), Some(true)).contains("ethtool"));
        let one = said(Some(8), Some(true), Some(false));
        assert!(one.contains("hashes udp4 with ports") && one.contains("hashes udp6 by addresses"));
        assert!(one.contains("rx-flow-hash udp6") && !one.contains("rx-flow-hash udp4"));
        assert!(said(Some(8), None, None).contains("Many adapters"));
        assert!(said(None, Some(true), None).contains("(unknown receive queues)"));
        assert_eq!(said(Some(1), None, None), "eth7 has 1 receive queue: one core processes all packets.");
        assert_eq!(advice(&[]).len(), 2);
    }
}
