//! The settings that determine how a port handles RoCE.
//!
//! Each driver exposes them in different files, if at all:
//!
//! | driver | where |
//! |---|---|
//! | mlx5_ib of MLNX_OFED and DOCA | `/sys/class/net/IFACE/{qos,ecn}`, `/sys/class/infiniband/DEV/tc` |
//! | mlx5_ib of Linux | debugfs, `mlx5/PCI/cc_params` (mlx5/core/debugfs, hw/mlx5/cong.c) |
//! | bnxt_re of Broadcom | configfs, `bnxt_re/DEV/ports/N/cc` (its bnxt_setupcc.sh) |
//! | bnxt_re of Linux | debugfs, `bnxt_re/PCI/cc_config` (hw/bnxt_re/debugfs.c) |
//! | irdma of Intel | configfs, `irdma/DEV` (flow control guide of the 800 series, 635330) |
//! | any | configfs, `rdma_cm/DEV/ports/N` |

use serde::Serialize;

use crate::host::net::dcb::Dcb;
use crate::host::read::{HostRoot, UnreadReasons, number};

/// Header field by which a port assigns priorities to received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// The priority in the VLAN tag: all untagged packets get the same priority.
    Pcp,
    /// DSCP.
    Dscp,
}

/// RoCE settings of an interface and its RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoceSettings {
    /// Header field that determines the priority of received packets.
    pub trust: Option<Trust>,
    /// By priority: true if CE marks are answered with CNPs (notification point).
    pub ecn_np: [Option<bool>; 8],
    /// By priority: true if senders reduce their rate on CNPs (reaction point).
    pub ecn_rp: [Option<bool>; 8],
    /// True if DCQCN is enabled, for drivers with one switch for both points and all priorities.
    pub dcqcn: Option<bool>,
    /// DSCP of the CNPs.
    pub cnp_dscp: Option<u64>,
    /// 802.1p priority of CNPs.
    pub cnp_priority: Option<u64>,
    /// Minimum time between two CNPs, in microseconds.
    pub cnp_interval_us: Option<u64>,
    /// ToS byte of connections established by the RDMA connection manager.
    pub cm_tos: Option<u64>,
    /// Traffic class forced on all queue pairs.
    pub traffic_class: Option<u64>,
}

/// The device whose settings are read.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFiles<'a> {
    /// The interface with the settings of the port.
    pub interface: Option<&'a str>,
    /// Name of the RDMA device.
    pub name: &'a str,
    /// Port of the device, from 1.
    pub port: u32,
    /// PCI address of the device.
    pub pci: Option<&'a str>,
    /// Name of the RDMA driver.
    pub driver: Option<&'a str>,
}

impl DeviceFiles<'_> {
    /// Files of MLNX_OFED for this interface; none for other drivers.
    fn ofed(&self, file: &str) -> Option<String> {
        let interface = self.interface.filter(|_| self.driver == Some("mlx5_ib"))?;
        Some(format!("/sys/class/net/{interface}/{file}"))
    }

    /// Possible files of a congestion control parameter, by its names in mlx5 of MLNX_OFED, mlx5 of Linux, bnxt_re of
    /// Broadcom, bnxt_re of Linux.
    fn places(&self, [ofed, mlx5, broadcom, bnxt_re]: [Option<&str>; 4]) -> Vec<String> {
        let debugfs = |driver: &str, folder: &str, name: &str| {
            Some(format!("/sys/kernel/debug/{driver}/{}/{folder}/{name}", self.pci?))
        };
        let found = match self.driver {
            Some("mlx5_ib") => [
                ofed.and_then(|name| self.ofed(&format!("ecn/roce_np/{name}"))),
                mlx5.and_then(|name| debugfs("mlx5", "cc_params", name)),
            ],
            Some("bnxt_re") => [
                broadcom.map(|name| self.broadcom(name)),
                bnxt_re.and_then(|name| debugfs("bnxt_re", "cc_config", name)),
            ],
            _ => [None, None],
        };
        found.into_iter().flatten().collect()
    }

    fn broadcom(&self, name: &str) -> String {
        format!("/sys/kernel/config/bnxt_re/{}/ports/{}/cc/{name}", self.name, self.port)
    }
}

impl RoceSettings {
    /// Reads the settings that the drivers of this interface and device expose; for the others the reason is kept.
    #[must_use]
    pub fn read(
        root: &HostRoot,
        device: &DeviceFiles<'_>,
        dcb: Option<&Dcb>,
        unread: &mut UnreadReasons,
    ) -> Self {
        let (name, port) = (device.name, device.port);
        let cm_tos = cm_tos(root, device, unread);
        if device.driver == Some("rxe") {
            // Software devices have no congestion control, PFC or CNPs, and thus no settings.
            return Self { cm_tos, ..Self::default() };
        }
        let is_mlx5 = device.driver == Some("mlx5_ib");
        let [notifies, reacts] = ["roce_np", "roce_rp"].map(|side| {
            let folder = device.ofed(&format!("ecn/{side}/enable"));
            folder.map(|folder| by_priority(root, &folder, device, unread)).unwrap_or_default()
        });
        let dcqcn = match device.driver {
            Some("mlx5_ib") => None,
            Some("irdma") => {
                // 0 or 1. The folder exists only if somebody has created it.
                let folder = format!("/sys/kernel/config/irdma/{name}");
                let file = format!("{folder}/roce_dcqcn_enable");
                if root.exists(&file) {
                    unread.parsed(root, &file, "switch value", switch)
                } else {
                    let remedy = format!("with Intel's out-of-tree driver: mkdir {folder}");
                    let why = "the file does not exist until its directory is created";
                    unread.note(format!("read the DCQCN state from {file}"), why, Some(&remedy));
                    None
                }
            }
            _ => {
                let places = device.places([None, None, Some("ecn_enable"), Some("enable_cc")]);
                unread.first(root, "the DCQCN state", &places, switch)
            }
        };
        let dscp =
            device.places([Some("cnp_dscp"), Some("np_cnp_dscp"), Some("cnp_dscp"), Some("alt_vlan_dscp")]);
        let priority = device.places([
            Some("cnp_802p_prio"),
            // Applies only in the mode in which the driver sets it.
            own_cnp_priority(root, device).then_some("np_cnp_prio"),
            Some("cnp_prio"),
            Some("alt_vlan_pcp"),
        ]);
        let interval = device.places([
            Some("min_time_between_cnps"),
            Some("np_min_time_between_cnps"),
            Some("min_time_bet_cnp"),
            None,
        ]);
        let class = format!("/sys/class/infiniband/{name}/tc/{port}/traffic_class");
        Self {
            trust: trust(root, device, dcb, unread),
            ecn_np: notifies,
            ecn_rp: reacts,
            dcqcn,
            cnp_dscp: unread.first(root, "the DSCP of CNPs", &dscp, number),
            cnp_priority: unread.first(root, "the priority of CNPs", &priority, number),
            cnp_interval_us: unread.first(root, "the minimum time between CNPs", &interval, number),
            cm_tos,
            traffic_class: if is_mlx5 {
                unread.first(root, "the traffic class forced on queue pairs", &[class], traffic_class)
            } else {
                None
            },
        }
    }
}

/// The connection manager's entries must be created by the user, and disappear with the module.
fn cm_tos(root: &HostRoot, device: &DeviceFiles<'_>, unread: &mut UnreadReasons) -> Option<u64> {
    let folder = format!("/sys/kernel/config/rdma_cm/{}", device.name);
    let path = format!("{folder}/ports/{}/default_roce_tos", device.port);
    match root.text(&path) {
        Err(error) if error.is_absent() => {
            let why = "the file does not exist until the connection manager has an entry for the device";
            let remedy = format!("modprobe rdma_cm; mkdir {folder} (or cma_roce_tos -d {})", device.name);
            unread.note(format!("read {path}"), why, Some(&remedy));
            None
        }
        Err(error) => {
            unread.failed(&error);
            None
        }
        Ok(_) => unread.number(root, &path),
    }
}

/// A switch per priority, with a file each in `folder`.
fn by_priority(
    root: &HostRoot,
    folder: &str,
    device: &DeviceFiles<'_>,
    unread: &mut UnreadReasons,
) -> [Option<bool>; 8] {
    if let Err(error) = root.list(folder) {
        let remedy = device.pci.filter(|_| error.is_absent()).map(|pci| {
            format!(
                "the drivers of MLNX_OFED and DOCA have it; with others, query the firmware: \
                 mlxconfig -d {pci} query | grep ROCE_CC"
            )
        });
        unread.note(format!("list {folder}"), error.cause(), remedy.as_deref().or(error.remedy()));
        return [None; 8];
    }
    std::array::from_fn(|priority| {
        let file = format!("{folder}/{priority}");
        match root.text(&file) {
            // Not every priority needs a file.
            Err(error) if error.is_absent() => None,
            _ => unread.parsed(root, &file, "switch value", switch),
        }
    })
}

fn switch(text: &str) -> Option<bool> {
    match number(text)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn own_cnp_priority(root: &HostRoot, device: &DeviceFiles<'_>) -> bool {
    let mode = device.places([None, Some("np_cnp_prio_mode"), None, None]);
    mode.first().and_then(|path| root.text(path).ok()).is_none_or(|text| number(&text) == Some(0))
}

/// "Global tclass=106", or only the number; of several lines the first, which applies to all.
fn traffic_class(text: &str) -> Option<u64> {
    let line = text.lines().next()?;
    number(line.rsplit_once('=').map_or(line, |(_, value)| value).trim())
}

fn trust(
    root: &HostRoot,
    device: &DeviceFiles<'_>,
    dcb: Option<&Dcb>,
    unread: &mut UnreadReasons,
) -> Option<Trust> {
    let file = device.ofed("qos/trust");
    match file.as_ref().and_then(|file| unread.keep_if_there(root.text(file))).as_deref() {
        Some("dscp") => return Some(Trust::Dscp),
        Some("pcp") => return Some(Trust::Pcp),
        _ => {}
    }
    let reported = dcb.and_then(|dcb| dcb.trust.as_ref()).and_then(|trust| trust.first());
    let found = match (reported, dcb) {
        (Some(&crate::host::net::dcb::SELECT_DSCP), _) => Some(Trust::Dscp),
        (Some(&crate::host::net::dcb::SELECT_PCP), _) => Some(Trust::Pcp),
        // mlx5 and ice trust DSCP as soon as the first one is mapped, and PCP again after the last is
        // gone (mlx5e_dcbnl_ieee_setapp of en_dcbnl.c, ice_dcbnl_setapp of ice_dcb_nl.c).
        (None, Some(dcb)) if matches!(device.driver, Some("mlx5_ib" | "irdma")) => {
            Some(if dcb.maps_dscp() { Trust::Dscp } else { Trust::Pcp })
        }
        _ => None,
    };
    if found.is_none() {
        let of_file = file.map_or_else(String::new, |file| format!(", and no {file}"));
        let why = match dcb {
            Some(_) => format!("the driver does not report it over DCB netlink{of_file}"),
            None => format!("no DCB netlink reply{of_file}"),
        };
        unread.note("read the trust mode (DSCP or PCP)", why, None);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

    fn device<'a>(name: &'a str, driver: &'a str) -> DeviceFiles<'a> {
        DeviceFiles {
            interface: Some("eth0"),
            name,
            port: 1,
            pci: Some("0000:3b:00.0"),
            driver: Some(driver),
        }
    }

    #[test]
    fn settings_of_both_kinds_of_mlx5() {
        let ofed = tree(&[
            ("sys/class/net/eth0/qos/trust", "dscp\n"),
            ("sys/class/net/eth0/ecn/roce_np/enable/3", "1\n"),
            ("sys/class/net/eth0/ecn/roce_rp/enable/3", "0\n"),
            ("sys/class/net/eth0/ecn/roce_np/cnp_802p_prio", "6\n"),
            ("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=106\n"),
            ("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "104\n"),
        ]);
        let mlx5 = device("mlx5_0", "mlx5_ib");
        let mut unread = UnreadReasons::new();
        let read = RoceSettings::read(&HostRoot::at(ofed.path()), &mlx5, None, &mut unread);
        assert_eq!(
            (read.trust, read.ecn_np[3], read.ecn_rp[3]),
            (Some(Trust::Dscp), Some(true), Some(false))
        );
        assert_eq!((read.ecn_np[0], read.cnp_priority), (None, Some(6)));
        assert_eq!((read.traffic_class, read.cm_tos), (Some(106), Some(104)));
        let what: Vec<_> = unread.into_reasons().into_iter().map(|reason| reason.what).collect();
        assert_eq!(what, ["read the DSCP of CNPs", "read the minimum time between CNPs"]);

        let upstream = tree(&[
            ("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp", "48\n"),
            ("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_prio_mode", "1\n"),
            ("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_prio", "6\n"),
        ]);
        let (dcb, mut unread) = (Dcb::default(), UnreadReasons::new());
        let read = RoceSettings::read(&HostRoot::at(upstream.path()), &mlx5, Some(&dcb), &mut unread);
        assert_eq!((read.cnp_dscp, read.cnp_priority, read.trust), (Some(48), None, Some(Trust::Pcp)));
        let reasons = unread.into_reasons();
        let enable = reasons.iter().find(|reason| reason.what.ends_with("roce_np/enable")).unwrap();
        assert!(enable.remedy.as_ref().unwrap().contains("mlxconfig -d 0000:3b:00.0"), "{enable:?}");
    }

    #[test]
    fn settings_of_both_kinds_of_bnxt_re() {
        let debugfs = tree(&[
            ("sys/kernel/debug/bnxt_re/0000:3b:00.0/cc_config/enable_cc", "1\n"),
            ("sys/kernel/debug/bnxt_re/0000:3b:00.0/cc_config/alt_vlan_dscp", "48\n"),
            ("sys/kernel/debug/bnxt_re/0000:3b:00.0/cc_config/alt_vlan_pcp", "7\n"),
        ]);
        let configfs = tree(&[
            ("sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/ecn_enable", "0x1\n"),
            ("sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/cnp_dscp", "0x30\n"),
            ("sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/cnp_prio", "0x7\n"),
        ]);
        for tree in [debugfs, configfs] {
            let mut unread = UnreadReasons::new();
            let bnxt_re = device("bnxt_re0", "bnxt_re");
            let read = RoceSettings::read(&HostRoot::at(tree.path()), &bnxt_re, None, &mut unread);
            assert_eq!((read.dcqcn, read.cnp_dscp, read.cnp_priority), (Some(true), Some(48), Some(7)));
            assert_eq!(read.ecn_np, [None; 8], "it has no setting per priority");
        }
    }

    #[test]
    fn settings_that_no_driver_reports_are_unknown_with_the_reason() {
        let nowhere = HostRoot::at("/nonexistent");
        for (driver, expected) in [("mlx5_ib", 8), ("bnxt_re", 6), ("irdma", 6), ("frob", 6), ("rxe", 1)] {
            let mut unread = UnreadReasons::new();
            let read = RoceSettings::read(&nowhere, &device("x0", driver), None, &mut unread);
            assert_eq!(read, RoceSettings::default());
            let reasons = unread.into_reasons();
            assert_eq!(reasons.len(), expected, "{driver}: {reasons:#?}");
        }
        let irdma = tree(&[("sys/kernel/config/irdma/x0/roce_dcqcn_enable", "0\n")]);
        let read = RoceSettings::read(
            &HostRoot::at(irdma.path()),
            &device("x0", "irdma"),
            Some(&Dcb::default()),
            &mut UnreadReasons::new(),
        );
        assert_eq!((read.dcqcn, read.trust), (Some(false), Some(Trust::Pcp)));
    }
}
