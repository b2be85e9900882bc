//! Congestion control: ECN at both ends, and the CNPs between them.

use super::{CheckList, Status};
use crate::doctor::facts::{DeviceFacts, PortFacts};
use crate::host::net::dcb::{Dcb, Priorities};

/// Checks the DCQCN notification and reaction points: per priority, or one setting for all priorities.
pub(super) fn ecn(
    device: &DeviceFacts,
    port: &PortFacts,
    lossless: Priorities,
    name: &str,
    checks: &mut CheckList,
) {
    let settings = &port.settings;
    for (id, side, folder) in [
        ("ecn.notification_point", &settings.ecn_np, "roce_np"),
        ("ecn.reaction_point", &settings.ecn_rp, "roce_rp"),
    ] {
        let of = |wanted: bool| -> Vec<u8> {
            let matters = |priority: &u8| lossless.is_empty() || lossless.has(*priority);
            let is = |priority: &u8| side.get(usize::from(*priority)) == Some(&Some(wanted));
            (0..8).filter(matters).filter(is).collect()
        };
        let (off, on) = (of(false), of(true));
        let why = "senders get no congestion notification; only PFC limits their rate";
        match (on.first(), off.first(), settings.dcqcn) {
            // Without PFC the priority that RoCE uses is unknown: one enabled priority suffices.
            (_, Some(first), _) if !lossless.is_empty() || on.is_empty() => checks.say(
                (id, Status::Warning),
                name,
                format!("disabled on priority {}", list(&off)),
                why,
                format!("echo 1 > /sys/class/net/{name}/ecn/{folder}/enable/{first}"),
            ),
            (Some(_), ..) => checks.ok(id, name, format!("enabled on priority {}", list(&on))),
            (None, _, Some(true)) => checks.ok(id, name, "enabled (one setting for all priorities)"),
            (None, _, Some(false)) => {
                checks.say(
                    (id, Status::Warning),
                    name,
                    "disabled (one setting for all priorities)",
                    why,
                    turn_on(device, port),
                );
            }
            (None, _, None) => {
                let driver = device.driver.as_deref().unwrap_or("this driver");
                let why = format!("{driver} reports it in none of the known places (--verbose lists them)");
                checks.unknown(id, name, &why);
            }
        }
    }
}

fn list(priorities: &[u8]) -> String {
    priorities.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

/// The command that enables DCQCN with drivers that have one setting for it.
fn turn_on(device: &DeviceFacts, port: &PortFacts) -> String {
    let name = &device.name;
    match device.driver.as_deref() {
        Some("irdma") => format!("echo 1 > /sys/kernel/config/irdma/{name}/roce_dcqcn_enable"),
        _ => format!(
            "{} (Broadcom's out-of-tree driver; with the in-tree driver: echo 1 > /sys/kernel/debug/bnxt_re/{}/cc_config/enable_cc)",
            broadcom(device, port, "ecn_enable", "0x1"),
            pci(device),
        ),
    }
}

fn broadcom(device: &DeviceFacts, port: &PortFacts, file: &str, value: &str) -> String {
    let (name, number) = (&device.name, port.port.number);
    format!(
        "mkdir -p /sys/kernel/config/bnxt_re/{name}; echo -n {value} > /sys/kernel/config/bnxt_re/{name}/ports/{number}/cc/{file}"
    )
}

fn pci(device: &DeviceFacts) -> &str {
    device.pci.as_ref().map_or("PCI", |pci| pci.address.as_str())
}

/// DSCP and priority of CNPs, which must not queue behind the data that they throttle.
pub(super) fn cnp(
    device: &DeviceFacts,
    port: &PortFacts,
    dcb: Option<&Dcb>,
    lossless: Priorities,
    name: &str,
    checks: &mut CheckList,
) {
    let settings = &port.settings;
    let byte = |value: Option<u64>| value.and_then(|value| u8::try_from(value).ok());
    let dscp = byte(settings.cnp_dscp);
    // In DSCP trust mode the DSCP decides, otherwise the priority in the VLAN tag.
    let by_dscp = dscp.and_then(|dscp| dcb?.priority_of_dscp(dscp));
    let priority = by_dscp.or_else(|| byte(settings.cnp_priority));
    let value = match (dscp, priority) {
        (Some(dscp), Some(priority)) => format!("DSCP {dscp}, priority {priority}"),
        (Some(dscp), None) => format!("DSCP {dscp}, without an explicit priority mapping"),
        (None, Some(priority)) => format!("priority {priority}"),
        (None, None) => {
            let driver = device.driver.as_deref().unwrap_or("this driver");
            let why = format!("{driver} reports it in none of the known places (--verbose lists them)");
            checks.unknown("cnp.priority", name, &why);
            return;
        }
    };
    if !priority.is_some_and(|priority| lossless.has(priority)) {
        checks.ok("cnp.priority", name, value);
        return;
    }
    let set = match device.driver.as_deref() {
        Some("bnxt_re") => format!(
            "{} (Broadcom's out-of-tree driver; with the in-tree driver: echo 48 > /sys/kernel/debug/bnxt_re/{}/cc_config/alt_vlan_dscp)",
            broadcom(device, port, "cnp_dscp", "0x30"),
            pci(device),
        ),
        // Only MLNX_OFED and DOCA have settings per priority.
        _ if settings.ecn_np.iter().any(Option::is_some) => {
            format!("echo 48 > /sys/class/net/{name}/ecn/roce_np/cnp_dscp")
        }
        _ => format!("echo 48 > /sys/kernel/debug/mlx5/{}/cc_params/np_cnp_dscp", pci(device)),
    };
    checks.say(
        ("cnp.priority", Status::Warning),
        name,
        value,
        "CNPs share the lossless priority: a PFC pause also stops the CNPs that would relieve the congestion",
        format!("{set}; then map DSCP 48 to a priority of its own on hosts and switches"),
    );
}
