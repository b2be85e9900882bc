//! How this host spreads received packets over processors: what one core has to carry.

use serde::Serialize;

use crate::host::ethtool;
use crate::host::interface;
use crate::host::sysfs::SysRoot;

/// One interface that packets are received on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receiver {
    /// Name.
    pub interface: String,
    /// Receive queues; `None` when unknown.
    pub rx_queues: Option<u32>,
    /// Whether UDP ports of IPv4 packets are part of the hash that picks the queue; `None` where
    /// the driver does not say.
    pub udp4_ports_hashed: Option<bool>,
    /// The same of IPv6.
    pub udp6_ports_hashed: Option<bool>,
}

/// Physical interfaces of this network namespace; reads only. Empty when they cannot be listed.
#[must_use]
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

/// What it means, in sentences.
#[must_use]
pub fn advice(receivers: &[Receiver]) -> Vec<String> {
    let mut said = vec![
        "One queue pair keeps one receive queue and so one core, however many there are: the Gb/s above \
         are what one queue pair may bring. Sent packets are counted on the core that sends them."
            .to_owned(),
    ];
    for receiver in receivers {
        let name = &receiver.interface;
        let queues = receiver.rx_queues.map_or("unknown".to_owned(), |n| n.to_string());
        said.push(match (receiver.rx_queues, receiver.udp4_ports_hashed) {
            (Some(1), _) => format!("{name} has 1 receive queue: one core carries all of it."),
            (_, Some(false)) => format!(
                "{name} ({queues} receive queues) picks the queue by addresses alone: all queue pairs between two \
                 hosts sit on one core. `ethtool -N {name} rx-flow-hash udp4 sdfn` (udp6 likewise) takes the \
                 UDP ports into it."
            ),
            (_, Some(true)) => format!(
                "{name} ({queues} receive queues) takes UDP ports into the choice of the queue: queue pairs spread."
            ),
            (_, None) => format!(
                "{name} ({queues} receive queues) does not say how it picks the queue. Many adapters hash UDP by \
                 addresses alone, so that all queue pairs between two hosts sit on one core; `ethtool -N {name} \
                 rx-flow-hash udp4 sdfn` takes the ports into it where the driver can."
            ),
        });
    }
    said.push(
        "A mirror (ERSPAN, GRE) arrives as one outer pair of addresses without ports: the whole of it sits on one \
         core, unless the adapter hashes by the inner packet."
            .to_owned(),
    );
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_command_only_where_it_helps() {
        let receiver = |queues, hashed| Receiver {
            interface: "eth7".into(),
            rx_queues: queues,
            udp4_ports_hashed: hashed,
            udp6_ports_hashed: hashed,
        };
        let said = |queues, hashed| advice(&[receiver(queues, hashed)])[1].clone();
        assert!(said(Some(8), Some(false)).contains("ethtool -N eth7 rx-flow-hash udp4 sdfn"));
        assert!(!said(Some(8), Some(true)).contains("ethtool"));
        assert!(said(Some(8), None).contains("Many adapters"));
        assert!(said(Some(1), None).contains("one core carries all"));
        assert_eq!(advice(&[]).len(), 2);
    }
}
