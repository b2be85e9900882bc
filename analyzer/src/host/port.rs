//! A port of an RDMA device as sysfs shows it, and the settings that decide how RoCE is treated.

use std::net::Ipv6Addr;

use serde::Serialize;

use super::dcb::Dcb;
use super::read::{HostRoot, Unread, number};

/// GIDs read of a port at most; drivers have 256 or fewer.
const MAX_GIDS: usize = 4096;

/// What a GID's packets look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum GidType {
    /// InfiniBand, or RoCE version 1, which has no IP header.
    #[serde(rename = "IB/RoCE v1")]
    V1,
    /// RoCE version 2.
    #[serde(rename = "RoCE v2")]
    V2,
}

/// An entry of a port's table of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Its place in the table: `NCCL_IB_GID_INDEX`.
    pub index: u32,
    /// The address; IPv4 is written as IPv6 (`::ffff:10.0.0.1`).
    pub gid: Ipv6Addr,
    /// Which RoCE.
    pub kind: Option<GidType>,
    /// The interface it belongs to.
    pub interface: Option<String>,
}

impl Gid {
    /// Whether it is an IPv4 address.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.gid.to_ipv4_mapped().is_some()
    }

    /// Whether it is a link-local address, which no router passes on.
    #[must_use]
    pub fn is_link_local(&self) -> bool {
        self.gid.segments()[0] & 0xffc0 == 0xfe80
    }

    /// Whether packets from it can cross routers: RoCE v2 and not link-local.
    #[must_use]
    pub fn is_routable(&self) -> bool {
        self.kind == Some(GidType::V2) && !self.is_link_local()
    }

    /// The address as people write it.
    #[must_use]
    pub fn address(&self) -> String {
        self.gid.to_ipv4_mapped().map_or_else(|| self.gid.to_string(), |v4| v4.to_string())
    }
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Port {
    /// Its number, from 1.
    pub number: u32,
    /// `ACTIVE`, `DOWN` …
    pub state: Option<String>,
    /// `LinkUp`, `Disabled`, `Polling` …
    pub physical_state: Option<String>,
    /// Mbit/s.
    pub rate_mbps: Option<u64>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Option<String>,
    /// Its interface.
    pub interface: Option<String>,
    /// Its addresses.
    pub gids: Vec<Gid>,
}

impl Port {
    /// Reads the port below `at` ("/sys/class/infiniband/mlx5_0/ports/1").
    #[must_use]
    pub fn read(root: &HostRoot, at: &str, number: u32, unread: &mut Unread) -> Self {
        // "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)".
        let after = |text: String| text.split_once(": ").map(|(_, name)| name.to_owned());
        let rate = unread.text(root, &format!("{at}/rate"));
        Self {
            number,
            state: unread.text(root, &format!("{at}/state")).and_then(after),
            physical_state: unread.text(root, &format!("{at}/phys_state")).and_then(after),
            rate_mbps: rate.and_then(|text| rate_mbps(&text)),
            link_layer: unread.text(root, &format!("{at}/link_layer")),
            interface: None,
            gids: gids(root, at),
        }
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_active(&self) -> Option<bool> {
        self.state.as_deref().map(|state| state == "ACTIVE")
    }
}

/// Mbit/s of "200 Gb/sec (4X HDR)" and "2.5 Gb/sec (1X SDR)".
fn rate_mbps(text: &str) -> Option<u64> {
    let (number, rest) = text.split_once(' ')?;
    let rest = rest.strip_prefix("Gb/sec")?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let tenth: u64 = part.get(..1)?.parse().ok()?;
    let mbps = whole.parse::<u64>().ok()?.checked_mul(1000)? + tenth * 100;
    (mbps > 0 && (rest.is_empty() || rest.starts_with(' '))).then_some(mbps)
}

/// Empty places of the table cannot be read, or are all zero: neither is worth a word.
fn gids(root: &HostRoot, at: &str) -> Vec<Gid> {
    let mut indices: Vec<u32> =
        root.names(&format!("{at}/gids")).iter().filter_map(|name| name.parse().ok()).collect();
    indices.sort_unstable();
    let one = |index: u32| {
        let gid: Ipv6Addr = root.text(&format!("{at}/gids/{index}")).ok()?.parse().ok()?;
        // A port without an address of its own has the bare prefix. Most places are empty, and soft
        // devices have a thousand: nothing more is read of those.
        if gid.segments()[4..] == [0; 4] {
            return None;
        }
        let kind = match root.text(&format!("{at}/gid_attrs/types/{index}")).ok().as_deref() {
            Some("RoCE v2") => Some(GidType::V2),
            Some("IB/RoCE v1" | "RoCE v1") => Some(GidType::V1),
            _ => None,
        };
        let interface = root.text(&format!("{at}/gid_attrs/ndevs/{index}")).ok();
        Some(Gid { index, gid, kind, interface })
    };
    indices.into_iter().take(MAX_GIDS).filter_map(one).collect()
}

/// The RDMA path MTU that a port with this interface MTU offers: the largest of 256 … 4096 that
/// leaves room for the longest headers, as the kernel computes it for all RoCE devices
/// (`iboe_get_mtu` of rdma/ib_addr.h). `None` below the least.
#[must_use]
pub fn active_mtu(interface_mtu: u32) -> Option<u32> {
    /// GRH 40, UDP 8, BTH 12, XRC header 4, atomic header 28, ICRC 4.
    const HEADERS: u32 = 96;
    let room = interface_mtu.checked_sub(HEADERS)?;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| *mtu <= room)
}

/// The least interface MTU for an RDMA path MTU of 4096, as the kernel computes it.
pub const MTU_FOR_4096: u32 = 4192;

/// By what a port sorts received packets into priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// The priority in the VLAN tag: packets without a tag all get one priority.
    Pcp,
    /// DSCP.
    Dscp,
}

/// How RoCE is treated on an interface and its RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoceSettings {
    /// By what received packets are sorted.
    pub trust: Option<Trust>,
    /// By priority: whether CE marks are answered with CNPs (notification point).
    pub ecn_np: [Option<bool>; 8],
    /// By priority: whether CNPs slow senders down (reaction point).
    pub ecn_rp: [Option<bool>; 8],
    /// DSCP of CNPs.
    pub cnp_dscp: Option<u64>,
    /// 802.1p priority of CNPs.
    pub cnp_priority: Option<u64>,
    /// Least time between two CNPs, in microseconds.
    pub cnp_interval_us: Option<u64>,
    /// ToS byte of connections made by the RDMA connection manager.
    pub cm_tos: Option<u64>,
    /// Traffic class forced on all queue pairs.
    pub traffic_class: Option<u64>,
}

impl RoceSettings {
    /// Reads what the drivers of this interface and device offer. Each of these files exists with
    /// some drivers only, so that an absent one is no failure and nothing is said about it.
    #[must_use]
    pub fn read(
        root: &HostRoot,
        interface: Option<&str>,
        device: &DeviceFiles<'_>,
        dcb: Option<&Dcb>,
    ) -> Self {
        let of_interface = |file: &str| root.text(&format!("/sys/class/net/{}/{file}", interface?)).ok();
        let of_mlx5 = |name: &str| {
            let file = format!("/sys/kernel/debug/mlx5/{}/cc_params/{name}", device.pci?);
            number(&root.text(&file).ok()?)
        };
        let by_priority = |side: &str| {
            std::array::from_fn(|priority| {
                of_interface(&format!("ecn/{side}/enable/{priority}")).and_then(|text| match text.as_str() {
                    "0" => Some(false),
                    "1" => Some(true),
                    _ => None,
                })
            })
        };
        let np = |name: &str| of_interface(&format!("ecn/roce_np/{name}")).as_deref().and_then(number);
        // The priority of CNPs counts only in the mode in which the driver sets it.
        let own_priority = || of_mlx5("np_cnp_prio").filter(|_| of_mlx5("np_cnp_prio_mode") == Some(0));
        let (name, port) = (device.name, device.port);
        let cm_file = format!("/sys/kernel/config/rdma_cm/{name}/ports/{port}/default_roce_tos");
        let class_file = format!("/sys/class/infiniband/{name}/tc/{port}/traffic_class");
        Self {
            trust: trust(of_interface("qos/trust").as_deref(), device.driver, dcb),
            ecn_np: by_priority("roce_np"),
            ecn_rp: by_priority("roce_rp"),
            cnp_dscp: np("cnp_dscp").or_else(|| of_mlx5("np_cnp_dscp")),
            cnp_priority: np("cnp_802p_prio").or_else(own_priority),
            cnp_interval_us: np("min_time_between_cnps").or_else(|| of_mlx5("np_min_time_between_cnps")),
            cm_tos: root.text(&cm_file).ok().as_deref().and_then(number),
            traffic_class: root.text(&class_file).ok().as_deref().and_then(traffic_class),
        }
    }
}

/// Which device the settings are of.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFiles<'a> {
    /// RDMA device.
    pub name: &'a str,
    /// Its port.
    pub port: u32,
    /// Its PCI address.
    pub pci: Option<&'a str>,
    /// Its RDMA driver.
    pub driver: Option<&'a str>,
}

/// "Global tclass=106", or the bare number; with several lines the first, which is of all.
fn traffic_class(text: &str) -> Option<u64> {
    let line = text.lines().next()?;
    number(line.rsplit_once('=').map_or(line, |(_, value)| value).trim())
}

fn trust(file: Option<&str>, driver: Option<&str>, dcb: Option<&Dcb>) -> Option<Trust> {
    match file {
        Some("dscp") => return Some(Trust::Dscp),
        Some("pcp") => return Some(Trust::Pcp),
        _ => {}
    }
    let dcb = dcb?;
    if let Some(first) = dcb.trust.as_ref().and_then(|trust| trust.first()) {
        return match *first {
            super::dcb::SELECT_DSCP => Some(Trust::Dscp),
            super::dcb::SELECT_PCP => Some(Trust::Pcp),
            _ => None,
        };
    }
    // mlx5 trusts DSCP as soon as the first one is mapped, and PCP again after the last is gone
    // (mlx5e_dcbnl_ieee_setapp of en_dcbnl.c).
    (driver == Some("mlx5_ib")).then(|| if dcb.maps_dscp() { Trust::Dscp } else { Trust::Pcp })
}

#[cfg(test)]
mod tests {
    use super::super::testing::tree;
    use super::*;

    const AT: &str = "sys/class/infiniband/mlx5_0/ports/1";

    #[test]
    fn a_port_is_read() {
        let files: Vec<(String, &str)> = [
            ("state", "4: ACTIVE\n"),
            ("phys_state", "5: LinkUp\n"),
            ("rate", "200 Gb/sec (4X HDR)\n"),
            ("gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n"),
            ("gids/1", "fe80:0000:0000:0000:0000:0000:0000:0000\n"),
            ("gids/3", "0000:0000:0000:0000:0000:ffff:c000:0201\n"),
            ("gids/4", "nonsense\n"),
            ("gid_attrs/types/0", "IB/RoCE v1\n"),
            ("gid_attrs/types/3", "RoCE v2\n"),
            ("gid_attrs/ndevs/3", "eth0\n"),
        ]
        .into_iter()
        .map(|(file, text)| (format!("{AT}/{file}"), text))
        .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        let tree = tree(&files);
        let mut unread = Unread::new();
        let port = Port::read(&HostRoot::at(tree.path()), &format!("/{AT}"), 1, &mut unread);
        assert_eq!((port.is_active(), port.rate_mbps), (Some(true), Some(200_000)));
        let gids: Vec<_> =
            port.gids.iter().map(|gid| (gid.index, gid.address(), gid.is_routable())).collect();
        assert_eq!(gids, [(0, "fe80::ff:fe00:1".to_owned(), false), (3, "192.0.2.1".to_owned(), true)]);
        assert_eq!(unread.into_reasons().len(), 1, "link_layer is missing");
    }

    #[test]
    fn rates_and_mtus() {
        for (text, mbps) in [
            ("2.5 Gb/sec (1X SDR)", Some(2500)),
            ("400 Gb/sec", Some(400_000)),
            ("10 Mb/sec", None),
            ("0 Gb/sec (x)", None),
            ("x Gb/sec", None),
            ("", None),
        ] {
            assert_eq!(rate_mbps(text), mbps, "{text}");
        }
        assert_eq!(
            [90, 1500, 4191, MTU_FOR_4096, 9000].map(active_mtu),
            [None, Some(1024), Some(2048), Some(4096), Some(4096)]
        );
    }

    #[test]
    fn settings_of_both_kinds_of_driver() {
        let ofed = tree(&[
            ("sys/class/net/eth0/qos/trust", "dscp\n"),
            ("sys/class/net/eth0/ecn/roce_np/enable/3", "1\n"),
            ("sys/class/net/eth0/ecn/roce_rp/enable/3", "0\n"),
            ("sys/class/net/eth0/ecn/roce_np/cnp_802p_prio", "6\n"),
            ("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106\n"),
            ("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "104\n"),
        ]);
        let device =
            DeviceFiles { name: "mlx5_0", port: 1, pci: Some("0000:3b:00.0"), driver: Some("mlx5_ib") };
        let read = RoceSettings::read(&HostRoot::at(ofed.path()), Some("eth0"), &device, None);
        assert_eq!(
            (read.trust, read.ecn_np[3], read.ecn_rp[3]),
            (Some(Trust::Dscp), Some(true), Some(false))
        );
        assert_eq!((read.ecn_np[0], read.cnp_priority), (None, Some(6)));
        assert_eq!((read.traffic_class, read.cm_tos), (Some(106), Some(104)));

        let upstream = tree(&[
            ("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp", "48\n"),
            ("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_prio_mode", "1\n"),
            ("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_prio", "6\n"),
        ]);
        let dcb = Dcb::default();
        let read = RoceSettings::read(&HostRoot::at(upstream.path()), Some("eth0"), &device, Some(&dcb));
        assert_eq!((read.cnp_dscp, read.cnp_priority, read.trust), (Some(48), None, Some(Trust::Pcp)));

        let none = RoceSettings::read(&HostRoot::at("/nonexistent"), None, &device, None);
        assert_eq!(none, RoceSettings::default());
    }
}
