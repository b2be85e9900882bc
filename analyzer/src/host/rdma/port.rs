//! A port of an RDMA device, from sysfs.

use std::net::Ipv6Addr;

use serde::Serialize;

use crate::host::read::{HostRoot, UnreadReasons};

/// Maximum number of GIDs read per port; drivers have 256 or fewer.
const MAX_GIDS: usize = 4096;

/// The RoCE version of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum GidType {
    /// InfiniBand, or RoCE version 1, which has no IP header.
    #[serde(rename = "IB/RoCE v1")]
    V1,
    /// RoCE version 2.
    #[serde(rename = "RoCE v2")]
    V2,
}

/// An entry of a port's GID table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Index in the table: `NCCL_IB_GID_INDEX`.
    pub index: u32,
    /// The address; IPv4 is written as IPv6 (`::ffff:10.0.0.1`).
    pub gid: Ipv6Addr,
    /// RoCE version of the GID.
    pub kind: Option<GidType>,
    /// The interface to which it belongs.
    pub interface: Option<String>,
}

impl Gid {
    /// True if it is an IPv4 address.
    pub fn is_ipv4(&self) -> bool {
        self.gid.to_ipv4_mapped().is_some()
    }

    /// True if it is a link-local address, which routers do not forward.
    pub fn is_link_local(&self) -> bool {
        self.gid.segments()[0] & 0xffc0 == 0xfe80
    }

    /// True if its packets can cross routers: RoCE v2 and not link-local.
    pub fn is_routable(&self) -> bool {
        self.kind == Some(GidType::V2) && !self.is_link_local()
    }

    /// The address in its usual notation.
    pub fn address(&self) -> String {
        self.gid.to_ipv4_mapped().map_or_else(|| self.gid.to_string(), |v4| v4.to_string())
    }
}

/// Port of an RDMA device, from sysfs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Port {
    /// Its number, from 1.
    pub number: u32,
    /// State of the port: `ACTIVE`, `DOWN` …
    pub state: Option<String>,
    /// `LinkUp`, `Disabled`, `Polling` …
    pub physical_state: Option<String>,
    /// Rate of the port, in Mbit/s.
    pub rate_mbps: Option<u64>,
    /// Link layer: `Ethernet` or `InfiniBand`.
    pub link_layer: Option<String>,
    /// Name of its network interface.
    pub interface: Option<String>,
    /// GIDs of the port.
    pub gids: Vec<Gid>,
}

impl Port {
    /// Reads the port below `at` ("/sys/class/infiniband/mlx5_0/ports/1").
    #[must_use]
    pub fn read(root: &HostRoot, at: &str, number: u32, unread: &mut UnreadReasons) -> Self {
        // "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)".
        let after = |text: &str| text.split_once(": ").map(|(_, name)| name.to_owned());
        Self {
            number,
            state: unread.parsed(root, &format!("{at}/state"), "state", after),
            physical_state: unread.parsed(root, &format!("{at}/phys_state"), "state", after),
            rate_mbps: unread.parsed(root, &format!("{at}/rate"), "rate", rate_mbps),
            link_layer: unread.text(root, &format!("{at}/link_layer")),
            interface: None,
            gids: gids(root, at, unread),
        }
    }

    /// True if it is up.
    pub fn is_active(&self) -> Option<bool> {
        self.state.as_deref().map(|state| state == "ACTIVE")
    }
}

/// Mbit/s of "200 Gb/sec (4X HDR)" and "2.5 Gb/sec (1X SDR)".
pub(super) fn rate_mbps(text: &str) -> Option<u64> {
    let (number, rest) = text.split_once(' ')?;
    let rest = rest.strip_prefix("Gb/sec")?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let tenth: u64 = part.get(..1)?.parse().ok()?;
    let mbps = whole.parse::<u64>().ok()?.checked_mul(1000)? + tenth * 100;
    (mbps > 0 && (rest.is_empty() || rest.starts_with(' '))).then_some(mbps)
}

/// Empty entries of the table cannot be read (EINVAL) or are all zero; neither is a failure.
fn gids(root: &HostRoot, at: &str, unread: &mut UnreadReasons) -> Vec<Gid> {
    let names = unread.names(root, &format!("{at}/gids"));
    let mut indices: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    indices.sort_unstable();
    let mut one = |index: u32| {
        let path = format!("{at}/gids/{index}");
        let text = match root.text(&path) {
            Err(error) if error.is_absent() || error.errno() == Some(libc::EINVAL) => return None,
            text => unread.keep(text)?,
        };
        let Ok(gid) = text.parse::<Ipv6Addr>() else {
            unread.note(format!("read {path}"), format!("invalid GID `{text}`"), None);
            return None;
        };
        // A port without an address has only the prefix. Most entries are empty, and software devices have a
        // thousand: for those nothing more is read.
        if gid.segments()[4..] == [0; 4] {
            return None;
        }
        let kind = |text: &str| match text {
            "RoCE v2" => Some(GidType::V2),
            "IB/RoCE v1" | "RoCE v1" => Some(GidType::V1),
            _ => None,
        };
        let kind = unread.parsed(root, &format!("{at}/gid_attrs/types/{index}"), "GID type", kind);
        // InfiniBand has none, and one in another network namespace is hidden.
        let interface = root.text(&format!("{at}/gid_attrs/ndevs/{index}"));
        let interface = match interface {
            Err(error) if error.errno() == Some(libc::EINVAL) => None,
            interface => unread.keep_if_there(interface),
        };
        Some(Gid { index, gid, kind, interface })
    };
    indices.into_iter().take(MAX_GIDS).filter_map(&mut one).collect()
}

/// The RDMA path MTU of a port with this interface MTU: the largest of 256 … 4096 that leaves room for the longest
/// headers, as the kernel computes it for all RoCE devices (`iboe_get_mtu` of rdma/ib_addr.h). `None` below the
/// minimum.
pub fn active_mtu(interface_mtu: u32) -> Option<u32> {
    /// GRH 40, UDP 8, BTH 12, XRC header 4, atomic header 28, ICRC 4.
    const HEADERS: u32 = 96;
    let room = interface_mtu.checked_sub(HEADERS)?;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| *mtu <= room)
}

/// Minimum interface MTU for an RDMA path MTU of 4096, as the kernel computes it.
pub const MTU_FOR_4096: u32 = 4192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

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
        let mut unread = UnreadReasons::new();
        let port = Port::read(&HostRoot::at(tree.path()), &format!("/{AT}"), 1, &mut unread);
        assert_eq!((port.is_active(), port.rate_mbps), (Some(true), Some(200_000)));
        let gids: Vec<_> =
            port.gids.iter().map(|gid| (gid.index, gid.address(), gid.is_routable())).collect();
        assert_eq!(gids, [(0, "fe80::ff:fe00:1".to_owned(), false), (3, "192.0.2.1".to_owned(), true)]);
        let why: Vec<_> = unread.into_reasons().into_iter().map(|r| (r.what, r.why)).collect();
        assert_eq!(why.len(), 2, "{why:?}");
        assert_eq!(why[0], (format!("read /{AT}/link_layer"), "No such file or directory".to_owned()));
        assert_eq!(why[1], (format!("read /{AT}/gids/4"), "invalid GID `nonsense`".to_owned()));
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
}
