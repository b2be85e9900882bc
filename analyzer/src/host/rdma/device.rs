//! Identity of an RDMA device: driver, protocol, hardware or software.

use serde::Serialize;

use super::nldev;
use super::port::rate_mbps;
use crate::host::netlink::{Attrs, Request};
use crate::host::rdma::{LinkLayer, RdmaDevice};
use crate::host::read::HostRoot;

/// The protocol of an RDMA device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// RoCE.
    Roce,
    /// InfiniBand.
    InfiniBand,
    /// RDMA over TCP.
    Iwarp,
    /// Scalable reliable datagrams of AWS.
    Efa,
    /// Another protocol, or one that the kernel does not report.
    #[default]
    Unknown,
}

impl Protocol {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Roce => "RoCE",
            Self::InfiniBand => "InfiniBand",
            Self::Iwarp => "iWARP",
            Self::Efa => "EFA",
            Self::Unknown => "unknown",
        }
    }
}

/// The identity of an RDMA device, from sysfs and RDMA netlink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// RDMA driver: `mlx5_ib`, `bnxt_re`, `irdma`, `rxe` …
    pub driver: Option<String>,
    /// True for Soft-RoCE and soft iWARP, whose packets the kernel handles.
    pub software: bool,
    /// RDMA protocol of the device.
    pub protocol: Protocol,
}

/// Hardware properties of a port, for inventories; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Option<String>,
    /// PCI address.
    pub pci: Option<String>,
    /// NUMA node.
    pub numa_node: Option<u64>,
    /// Speed of the port in Mb/s.
    pub speed_mbps: Option<u64>,
}

impl Hardware {
    /// Reads the properties of a port; `pci` is the device's address, `known` its entry in RDMA netlink's list.
    pub fn of(
        root: &HostRoot,
        (device, port): (&str, u32),
        pci: Option<&str>,
        known: Option<&nldev::Device>,
    ) -> Self {
        let class = format!("/sys/class/infiniband/{device}");
        let text = |name: &str| root.text(&format!("{class}/{name}")).ok();
        Self {
            firmware: known.and_then(|known| known.firmware.clone()).or_else(|| text("fw_ver")),
            link_layer: text(&format!("ports/{port}/link_layer")),
            pci: pci.map(str::to_owned),
            // -1: the host has a single node, or the firmware does not report it.
            numa_node: text("device/numa_node").and_then(|node| node.parse().ok()),
            speed_mbps: text(&format!("ports/{port}/rate")).and_then(|rate| rate_mbps(&rate)),
        }
    }
}

impl Identity {
    /// Identifies `device`; `known` is its entry in RDMA netlink's list.
    pub fn of(root: &HostRoot, device: &RdmaDevice, known: Option<&nldev::Device>) -> Self {
        let class = format!("/sys/class/infiniband/{}", device.name);
        let node_type = root.text(&format!("{class}/node_type")).ok();
        let is_iwarp = known.and_then(|k| k.protocol.as_deref()) == Some("iw")
            || node_type.as_deref().is_some_and(|text| text.starts_with('4'));
        let driver = known
            .and_then(|known| known.link_type.clone())
            .or_else(|| device.driver.as_deref().map(rdma_driver))
            .or_else(|| {
                root.exists(&format!("{class}/parent"))
                    .then(|| if is_iwarp { "siw" } else { "rxe" }.to_owned())
            });
        let software = driver.as_deref().is_some_and(is_software);
        let protocol = protocol(device, known, is_iwarp, driver.as_deref());
        Self { driver, software, protocol }
    }
}

/// True for the drivers of Soft-RoCE and soft iWARP, whose packets the kernel handles.
pub fn is_software(driver: &str) -> bool {
    matches!(driver, "rxe" | "siw")
}

/// The RDMA driver that belongs to a PCI driver.
fn rdma_driver(driver: &str) -> String {
    match driver {
        "mlx5_core" => "mlx5_ib",
        "mlx4_core" => "mlx4_ib",
        "bnxt_en" => "bnxt_re",
        "ice" | "i40e" | "idpf" => "irdma",
        "hns3" => "hns_roce",
        "qede" => "qedr",
        "cxgb4" => "iw_cxgb4",
        "mana" => "mana_ib",
        "ionic" => "ionic_rdma",
        other => other,
    }
    .to_owned()
}

fn protocol(
    device: &RdmaDevice,
    known: Option<&nldev::Device>,
    is_iwarp: bool,
    driver: Option<&str>,
) -> Protocol {
    match known.and_then(|known| known.protocol.as_deref()) {
        _ if driver == Some("efa") => Protocol::Efa,
        _ if is_iwarp => Protocol::Iwarp,
        Some("roce") => Protocol::Roce,
        Some("ib" | "opa") => Protocol::InfiniBand,
        None if device.is_infiniband_only() => Protocol::InfiniBand,
        None if device.ports.iter().any(|port| port.link_layer == LinkLayer::Ethernet) => Protocol::Roce,
        _ => Protocol::Unknown,
    }
}

/// Generic netlink's control family, and its command for the number of another family (linux/genetlink.h).
const CONTROLLER: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Bytes of `struct genlmsghdr`: command, version, two reserved.
const GENERIC_HEADER: usize = 4;
/// linux/devlink.h
const DEVLINK_CMD_PARAM_GET: u8 = 38;
const DEVLINK_BUS_NAME: u16 = 1;
const DEVLINK_DEV_NAME: u16 = 2;
const DEVLINK_PARAM: u16 = 80;
const DEVLINK_PARAM_NAME: u16 = 81;
const DEVLINK_VALUES: u16 = 84;
const DEVLINK_VALUE: u16 = 85;
const DEVLINK_VALUE_DATA: u16 = 86;
const DEVLINK_VALUE_MODE: u16 = 87;
/// The configuration modes with values in effect: `driverinit` and `runtime`.
const IN_FORCE: [u8; 2] = [0, 1];

/// The request for the number of a generic netlink family.
pub fn family_request(name: &str) -> Request {
    Request::new(CONTROLLER, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0]).attr_text(CTRL_ATTR_FAMILY_NAME, name)
}

/// The number in the response to [`family_request`].
pub fn family(payload: &[u8]) -> Option<u16> {
    let value = Attrs::after(payload, GENERIC_HEADER).get(CTRL_ATTR_FAMILY_ID)?;
    value.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// The devlink request for a parameter of a PCI device; `family` is the number of devlink's family.
pub fn parameter_request(family: u16, pci: &str, name: &str) -> Request {
    Request::new(family, 0, &[DEVLINK_CMD_PARAM_GET, 1, 0, 0])
        .attr_text(DEVLINK_BUS_NAME, "pci")
        .attr_text(DEVLINK_DEV_NAME, pci)
        .attr_text(DEVLINK_PARAM_NAME, name)
}

/// The boolean in the response to [`parameter_request`]; `None` if it has no value in effect. It is a flag: true when
/// the value attribute is present.
pub fn is_on(payload: &[u8]) -> Option<bool> {
    let parameter = Attrs::after(payload, GENERIC_HEADER).nested(DEVLINK_PARAM)?;
    let values = parameter.nested(DEVLINK_VALUES)?;
    values.iter().filter(|(kind, _)| *kind == DEVLINK_VALUE).find_map(|(_, value)| {
        let value = Attrs::new(value);
        let is_in_force = IN_FORCE.contains(&value.u8(DEVLINK_VALUE_MODE)?);
        is_in_force.then(|| value.get(DEVLINK_VALUE_DATA).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(mode: u8, on: bool) -> Vec<u8> {
        Request::new(0, 0, &[DEVLINK_CMD_PARAM_GET, 1, 0, 0])
            .attr_text(DEVLINK_BUS_NAME, "pci")
            .nest(DEVLINK_PARAM, |r| {
                r.attr_text(DEVLINK_PARAM_NAME, "enable_roce").nest(DEVLINK_VALUES, |r| {
                    r.nest(DEVLINK_VALUE, |r| {
                        let r = if on { r.attr(DEVLINK_VALUE_DATA, &[]) } else { r };
                        r.attr(DEVLINK_VALUE_MODE, &[mode])
                    })
                })
            })
            .payload()
    }

    #[test]
    fn a_switch_of_devlink_is_read() {
        assert_eq!(is_on(&answer(1, true)), Some(true));
        assert_eq!(is_on(&answer(0, false)), Some(false));
        assert_eq!(is_on(&answer(2, true)), None, "what is stored for the next start is not in force");
        let whole = answer(1, true);
        for end in 0..whole.len() {
            let _ = is_on(&whole[..end]);
        }
        assert_eq!(is_on(&whole[..20]), None);
    }

    /// Whatever this kernel lacks: the device, the parameter, or devlink itself.
    #[test]
    fn a_kernel_that_refuses_says_so() {
        use crate::host::read::queries::{Kernel, Queries as _};
        let error = Kernel.parameter("ffff:ff:1f.7", "enable_roce").unwrap_err();
        assert!(error.to_string().starts_with("cannot "), "{error}");
    }

    #[test]
    fn a_family_has_a_number() {
        let payload = Request::new(0, 0, &[1, 2, 0, 0])
            .attr_text(CTRL_ATTR_FAMILY_NAME, "devlink")
            .attr(CTRL_ATTR_FAMILY_ID, &21u16.to_ne_bytes())
            .payload();
        assert_eq!(family(&payload), Some(21));
        assert_eq!(family(&payload[..3]), None);
    }
}
