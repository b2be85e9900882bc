//! RDMA devices and the network interface behind each of their ports, from sysfs.

pub mod counters;
pub mod device;
pub mod fwctl;
pub mod mlx5_command;
pub mod nldev;
pub mod port;
pub mod qp_context;
pub mod qp_layout;
pub mod qp_reason;
pub mod qp_types;
pub mod settings;
pub mod verbs_context;
pub mod vocabulary;

use std::path::Path;

use crate::host::read::sysfs::SysRoot;

/// Link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// Ethernet: RoCE (or iWARP).
    Ethernet,
    /// InfiniBand, whose packets never pass a network interface.
    InfiniBand,
    /// Not reported by sysfs.
    Unknown,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: u32,
    /// Link layer of the port.
    pub link_layer: LinkLayer,
    /// Its network interface; `None` if sysfs does not report it.
    pub interface: Option<String>,
}

/// RDMA device with its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Name of the device ("mlx5_0").
    pub name: String,
    /// The kernel driver; `None` for software devices.
    pub driver: Option<String>,
    /// Its ports in order.
    pub ports: Vec<RdmaPort>,
}

impl RdmaDevice {
    /// The interfaces of its ports, each once.
    pub fn interfaces(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.ports.iter().filter_map(|port| port.interface.as_deref()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// True if every port is an InfiniBand port, so that there is no RoCE.
    pub fn is_infiniband_only(&self) -> bool {
        !self.ports.is_empty() && self.ports.iter().all(|p| p.link_layer == LinkLayer::InfiniBand)
    }
}

/// The RDMA devices below `root`, by name; empty if the kernel has no RDMA support.
pub fn list(root: &SysRoot) -> Vec<RdmaDevice> {
    let class = Path::new("class/infiniband");
    root.names(class).into_iter().map(|name| read_device(root, &class.join(&name), name)).collect()
}

fn read_device(root: &SysRoot, at: &Path, name: String) -> RdmaDevice {
    let mut numbers: Vec<u32> =
        root.names(at.join("ports")).iter().filter_map(|port| port.parse().ok()).collect();
    numbers.sort_unstable();
    let ports = numbers
        .into_iter()
        .map(|number| {
            let port = at.join("ports").join(number.to_string());
            let link_layer = match root.text(port.join("link_layer")).as_deref() {
                Some("Ethernet") => LinkLayer::Ethernet,
                Some("InfiniBand") => LinkLayer::InfiniBand,
                _ => LinkLayer::Unknown,
            };
            let interface = match link_layer {
                LinkLayer::InfiniBand => None,
                _ => port_interface(root, at, &port, number),
            };
            RdmaPort { number, link_layer, interface }
        })
        .collect();
    RdmaDevice { driver: root.link_name(at.join("device/driver")), name, ports }
}

/// Software devices name their interface in `parent`. Otherwise it is the interface of the first GID (later GIDs
/// belong to stacked VLANs; with bonding the first is the bond), or else the device's network interface with the same
/// port number.
fn port_interface(root: &SysRoot, device: &Path, port: &Path, number: u32) -> Option<String> {
    let from_gid = || {
        let ndevs = port.join("gid_attrs/ndevs");
        let mut indices: Vec<u32> =
            root.names(&ndevs).iter().filter_map(|index| index.parse().ok()).collect();
        indices.sort_unstable();
        // An index without a GID cannot be read: the first readable one counts.
        indices.into_iter().find_map(|index| root.text(ndevs.join(index.to_string())))
    };
    let from_device = || {
        let names = root.names(device.join("device/net"));
        if names.len() == 1 && number == 1 {
            return names.into_iter().next();
        }
        names.into_iter().find(|name| {
            let dev_port = root.text(device.join("device/net").join(name).join("dev_port"));
            dev_port.and_then(|text| text.parse::<u32>().ok()) == number.checked_sub(1)
        })
    };
    root.text(device.join("parent")).or_else(from_gid).or_else(from_device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

    #[test]
    fn each_kind_of_device_leads_to_its_interface() {
        let root = tree(&[
            ("class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n"),
            ("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "\n"),
            ("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/10", "eth0.100\n"),
            ("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/2", "eth0\n"),
            ("class/infiniband/mlx5_0/device/driver", "-> ../../bus/pci/drivers/mlx5_core"),
            ("class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand\n"),
            ("class/infiniband/mlx5_1/device/net/ib0/dev_port", "0\n"),
            ("class/infiniband/rxe0/parent", "eth7\n"),
            ("class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n"),
            ("class/infiniband/mlx4_0/ports/1/link_layer", "Ethernet\n"),
            ("class/infiniband/mlx4_0/ports/2/link_layer", "Ethernet\n"),
            ("class/infiniband/mlx4_0/device/net/enp1/dev_port", "0\n"),
            ("class/infiniband/mlx4_0/device/net/enp1d1/dev_port", "1\n"),
            ("class/infiniband/irdma0/ports/1/link_layer", "Ethernet\n"),
            ("class/infiniband/irdma0/device/net/ens1/dev_port", "0\n"),
        ]);
        let devices = list(&SysRoot::at(root.path()));
        let found: Vec<_> = devices.iter().map(|d| (d.name.as_str(), d.interfaces())).collect();
        assert_eq!(
            found,
            [
                ("irdma0", vec!["ens1"]),
                ("mlx4_0", vec!["enp1", "enp1d1"]),
                ("mlx5_0", vec!["eth0"]),
                ("mlx5_1", vec![]),
                ("rxe0", vec!["eth7"]),
            ]
        );
        assert_eq!(devices[2].driver.as_deref(), Some("mlx5_core"));
        assert!(devices[3].is_infiniband_only() && !devices[2].is_infiniband_only());
    }

    #[test]
    fn a_host_without_rdma_has_no_devices() {
        assert!(list(&SysRoot::at(tree(&[]).path())).is_empty());
    }
}
