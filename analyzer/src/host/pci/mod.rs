//! PCI Express: position of NICs and GPUs, width and speed of their links, and obstacles to direct traffic between
//! them.

use serde::Serialize;

use crate::host::error::AS_ROOT;
use crate::host::read::{HostRoot, UnreadReasons, number};

/// Extended capabilities follow the 256 bytes of conventional configuration space.
const EXTENDED_START: usize = 0x100;
/// Access Control Services in a list of extended capabilities (pci_regs.h).
const CAP_ACS: u16 = 0x0d;
/// Control register within that capability.
const ACS_CONTROL: usize = 6;
/// Redirects requests between devices to the root complex.
const ACS_REQUEST_REDIRECT: u16 = 1 << 2;
/// Maximum number of extended capabilities that fit into configuration space.
const MAX_CAPS: usize = 64;

/// A PCI Express link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    /// Current GT/s per lane.
    pub speed: Option<f64>,
    /// Maximum GT/s per lane.
    pub max_speed: Option<f64>,
    /// Number of lanes in use.
    pub width: Option<u64>,
    /// Largest number of lanes.
    pub max_width: Option<u64>,
}

impl Link {
    /// Mbit/s in one direction, after line coding; `None` when unknown.
    pub fn mbps(&self) -> Option<f64> {
        Some(coded(self.speed?) * self.width? as f64)
    }

    /// The same at maximum speed and width.
    pub fn max_mbps(&self) -> Option<f64> {
        Some(coded(self.max_speed?) * self.max_width? as f64)
    }
}

/// The number of a NUMA node, or -1.
fn node(text: &str) -> Option<i64> {
    text.parse().ok().filter(|node| *node >= -1)
}

/// Mbit/s of one lane. Encoding takes a fifth at 2.5 and 5 GT/s, and 2 of 130 at higher speeds (from 64 GT/s on flits
/// take about as much).
fn coded(gigatransfers: f64) -> f64 {
    gigatransfers * 1000.0 * if gigatransfers <= 5.0 { 0.8 } else { 128.0 / 130.0 }
}

/// A device on PCI Express.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PciDevice {
    /// PCI address ("0000:3b:00.0").
    pub address: String,
    /// Vendor and device numbers.
    pub id: Option<(u64, u64)>,
    /// The bridges above it, nearest first.
    pub bridges: Vec<String>,
    /// NUMA node of the device.
    pub numa_node: Option<u64>,
    /// PCIe link of the device.
    pub link: Link,
    /// Its IOMMU domain type: `DMA`, `DMA-FQ`, `identity`; `None` without an IOMMU.
    pub iommu: Option<String>,
    /// The driver in use.
    pub driver: Option<String>,
}

impl PciDevice {
    /// Reads the device at `address`.
    #[must_use]
    pub fn read(root: &HostRoot, address: &str, unread: &mut UnreadReasons) -> Self {
        let at = format!("/sys/bus/pci/devices/{address}");
        let mut bridges: Vec<String> =
            root.components(&at).into_iter().filter(|part| is_address(part) && part != address).collect();
        bridges.reverse();
        let id =
            unread.number(root, &format!("{at}/vendor")).zip(unread.number(root, &format!("{at}/device")));
        Self {
            id,
            bridges,
            // -1 means unknown, or a single node: a valid value.
            numa_node: unread
                .parsed(root, &format!("{at}/numa_node"), "NUMA node", node)
                .and_then(|node| u64::try_from(node).ok()),
            link: read_link(root, &at, unread),
            // Neither an IOMMU nor a driver is required.
            iommu: unread.keep_if_there(root.text(&format!("{at}/iommu_group/type"))),
            driver: unread.keep_if_there(root.link_name(&format!("{at}/driver"))),
            address: address.to_owned(),
        }
    }

    /// The PCIe distance to another device.
    pub fn distance(&self, other: &Self) -> Distance {
        let shared = self.bridges.iter().any(|bridge| other.bridges.contains(bridge));
        match (self.bridges.first(), other.bridges.first()) {
            // All devices below a switch share the root port; two or more common bridges, or one to which both
            // connect through their own ports, means a switch.
            _ if shared => Distance::Switch,
            _ => match (self.numa_node, other.numa_node) {
                (Some(a), Some(b)) if a == b => Distance::Node,
                (Some(_), Some(_)) => Distance::Far,
                _ => Distance::Unknown,
            },
        }
    }
}

/// PCIe distance of two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// Below the same PCIe bridge: the path for GPUDirect.
    Switch,
    /// In the same NUMA node.
    Node,
    /// In different NUMA nodes: through the link between processors.
    Far,
    /// Unknown to the kernel.
    Unknown,
}

fn read_link(root: &HostRoot, at: &str, unread: &mut UnreadReasons) -> Link {
    // "16.0 GT/s PCIe", or "Unknown" for a device integrated in the CPU.
    let speed = |unread: &mut UnreadReasons, file: &str| {
        let speed = |text: &str| {
            let speed = text.split(' ').next()?.parse::<f64>().ok()?;
            (speed.is_finite() && speed > 0.0).then_some(speed)
        };
        unread.parsed(root, &format!("{at}/{file}"), "speed", speed)
    };
    let width = |unread: &mut UnreadReasons, file: &str| {
        // A link that is down has 0 lanes or 255.
        let lanes = |text: &str| number(text).filter(|width| (1..=32).contains(width));
        unread.parsed(root, &format!("{at}/{file}"), "lane count", lanes)
    };
    Link {
        speed: speed(unread, "current_link_speed"),
        max_speed: speed(unread, "max_link_speed"),
        width: width(unread, "current_link_width"),
        max_width: width(unread, "max_link_width"),
    }
}

/// The last PCI address in the resolved target of `path`: the device behind a class entry, also with functions or
/// auxiliary devices in between.
pub fn address_behind(root: &HostRoot, path: &str) -> Option<String> {
    root.components(path).into_iter().rfind(|part| is_address(part))
}

/// True if this is a PCI address: domain, bus, device, function.
fn is_address(text: &str) -> bool {
    let hex = |part: &str, least: usize| part.len() >= least && part.bytes().all(|b| b.is_ascii_hexdigit());
    let mut parts = text.split(':');
    let (Some(domain), Some(bus), Some(rest), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    rest.split_once('.')
        .is_some_and(|(device, function)| hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1))
}

/// A graphics processor or other accelerator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gpu {
    /// Vendor of the GPU.
    pub vendor: &'static str,
    /// PCI device of the GPU.
    pub pci: PciDevice,
}

/// GPUs whose memory NICs can access, by class (display, 3D, processing accelerator) and vendor.
#[must_use]
pub fn gpus(root: &HostRoot, unread: &mut UnreadReasons) -> Vec<Gpu> {
    let mut gpus = Vec::new();
    unread.about("host");
    for address in unread.names(root, "/sys/bus/pci/devices") {
        let at = format!("/sys/bus/pci/devices/{address}");
        unread.about(&address);
        let Some(class) = unread.number(root, &format!("{at}/class")) else { continue };
        // Base class and subclass: 0x0300 VGA, 0x0302 3D, 0x0380 other display, 0x1200 accelerator.
        if !matches!(class >> 8, 0x0300 | 0x0302 | 0x0380 | 0x1200) {
            continue;
        }
        let vendor = match unread.number(root, &format!("{at}/vendor")) {
            Some(0x10de) => "NVIDIA",
            Some(0x1002) => "AMD",
            _ => continue,
        };
        gpus.push(Gpu { vendor, pci: PciDevice::read(root, &address, unread) });
    }
    gpus
}

/// The bridges above `device` that redirect requests between their ports to the root complex (ACS), so that direct
/// traffic between NIC and GPU takes a detour. `None` if configuration space cannot be read, which needs root.
#[must_use]
pub fn redirecting_bridges(
    root: &HostRoot,
    device: &PciDevice,
    unread: &mut UnreadReasons,
) -> Option<Vec<String>> {
    let mut redirecting = Vec::new();
    for bridge in &device.bridges {
        let path = format!("/sys/bus/pci/devices/{bridge}/config");
        let config = unread.keep(root.bytes(&path))?;
        if config.len() <= EXTENDED_START {
            // Without CAP_SYS_ADMIN the kernel returns only the first 64 bytes.
            unread.note(
                format!("read the extended capabilities (ACS) in {path}"),
                format!("this process can read only {} bytes", config.len()),
                Some(AS_ROOT),
            );
            return None;
        }
        if acs_control(&config).is_some_and(|control| control & ACS_REQUEST_REDIRECT != 0) {
            redirecting.push(bridge.clone());
        }
    }
    Some(redirecting)
}

/// The ACS control register in configuration space; `None` if the device has no ACS.
fn acs_control(config: &[u8]) -> Option<u16> {
    let half = |at: usize| config.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    let mut at = EXTENDED_START;
    for _ in 0..MAX_CAPS {
        // Capability number in 16 bits, then version in four bits and the offset of the next one in twelve.
        let (cap, next) = (half(at)?, usize::from(half(at + 2)? >> 4));
        if cap == CAP_ACS {
            return half(at + ACS_CONTROL);
        }
        if next < EXTENDED_START {
            return None;
        }
        at = next;
    }
    None
}

#[cfg(test)]
mod tests;
