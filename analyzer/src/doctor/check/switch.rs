//! DCBX settings of the switch, compared with the host's.

use super::lossless::set_pfc;
use super::{CheckList, Entry, Status};
use crate::doctor::facts::{HostFacts, InterfaceFacts};
use crate::host::net::dcb::{AppPriority, Ets, Priorities, SELECT_ANY_PORT, SELECT_DSCP, SELECT_UDP};
use rocescope_common::wire::PORT_ROCE;

pub(super) const ENTRIES: &[Entry] = entries! {
    "switch.pfc": "PFC priorities of the switch (from LLDP frames or the NIC's DCBX engine) compared with the host's. Critical when a priority is lossless on one side only.",
    "switch.dscp": "Switch mapping of DSCPs and of RoCE's UDP port to priorities, compared with the host's table and PFC. Warning when they differ.",
    "switch.ets": "ETS bandwidth share of the lossless priorities on the switch, compared with the host's. Info when they differ: each end schedules its own transmissions, so one direction can be slower.",
    "switch.dcbx_error": "DCBX mismatch reported by the switch (CEE). Warning when it reports one.",
};

pub(super) fn check(facts: &HostFacts, checks: &mut CheckList) {
    let concerned = facts.interfaces.iter().filter(|interface| {
        // RoCE interfaces, and every interface on which LLDP was received.
        !interface.devices.is_empty() && interface.kind == "physical" || interface.neighbour.is_some()
    });
    for interface in concerned {
        pfc(interface, checks);
        apps(interface, checks);
        ets(interface, checks);
        if let Some(neighbour) = &interface.neighbour
            && let Some(pfc) = neighbour.pfc
        {
            if pfc.error {
                checks.say(
                    ("switch.dcbx_error", Status::Warning),
                    &interface.name,
                    "error",
                    format!(
                        "{} reports that its PFC settings and those of this port do not match",
                        neighbour.label()
                    ),
                    "configure the same PFC priorities on both sides",
                );
            } else {
                checks.ok("switch.dcbx_error", &interface.name, "none");
            }
        }
    }
}

fn pfc(interface: &InterfaceFacts, checks: &mut CheckList) {
    let name = &interface.name;
    let heard = interface.neighbour.as_ref().and_then(|neighbour| neighbour.pfc);
    let theirs = heard.map(|pfc| Priorities(pfc.enabled)).or_else(|| {
        // The driver's DCBX engine reports an empty set until it has received the peer's frame.
        interface.dcb.as_ref().and_then(|dcb| dcb.peer_pfc).filter(|set| !set.is_empty())
    });
    let ours = interface.dcb.as_ref().and_then(|dcb| dcb.pfc).map(|pfc| pfc.enabled);
    let (Some(theirs), Some(ours)) = (theirs, ours) else {
        let why = if theirs.is_none() {
            "no LLDP frame received from the switch: run `rocescope doctor --lldp 35s` (some NICs consume LLDP in firmware)"
        } else {
            "the driver does not report the host's PFC settings"
        };
        checks.unknown("switch.pfc", name, why);
        return;
    };
    let value = format!("switch {theirs}; host {ours}");
    if theirs == ours {
        checks.ok("switch.pfc", name, value);
        return;
    }
    let one_sided = Priorities(theirs.0 ^ ours.0);
    checks.say(
        ("switch.pfc", Status::Critical),
        name,
        value,
        format!("priority {one_sided} is lossless on one side only: the other side ignores its pause frames, and packets are dropped"),
        format!("configure both sides alike; on this host: {}", set_pfc(interface, &on(theirs))),
    );
}

/// ETS settings of one end: the bandwidth shares of its traffic classes.
struct Shares {
    class_of: [u8; 8],
    bandwidth: [u8; 8],
    /// By class: true when ETS schedules it, false for strict priority.
    shared: Option<[bool; 8]>,
}

impl Shares {
    /// From DCB netlink, where algorithm 2 is enhanced transmission selection.
    fn of(ets: &Ets) -> Self {
        let shared = ets.algorithm.map(|algorithm| algorithm == 2);
        Self { class_of: ets.class_of, bandwidth: ets.bandwidth, shared: Some(shared) }
    }

    /// The share of a priority as text; `None` where its class is outside the eight, such as CEE's strict
    /// group 15 and vendor classes.
    fn share(&self, priority: u8) -> Option<String> {
        let class = usize::from(*self.class_of.get(usize::from(priority))?);
        let bandwidth = *self.bandwidth.get(class)?;
        // The LLDP algorithm table is not kept: a share of 0 % is taken as strict priority.
        let is_shared = self.shared.map_or(Some(bandwidth > 0), |shared| shared.get(class).copied())?;
        Some(if is_shared { format!("{bandwidth} %") } else { "strict priority".into() })
    }
}

fn ets(interface: &InterfaceFacts, checks: &mut CheckList) {
    const ID: &str = "switch.ets";
    let name = &interface.name;
    let dcb = interface.dcb.as_ref();
    let heard = interface.neighbour.as_ref().and_then(|neighbour| neighbour.ets);
    let heard = heard.map(|ets| Shares { class_of: ets.class_of, bandwidth: ets.bandwidth, shared: None });
    // A DCBX engine without a peer reports zeros.
    let reported = || dcb?.peer_ets.filter(|ets| ets.bandwidth != [0; 8]).map(|ets| Shares::of(&ets));
    let theirs = heard.or_else(reported);
    let ours = dcb.and_then(|dcb| dcb.ets.as_ref()).map(Shares::of);
    let (Some(theirs), Some(ours)) = (&theirs, &ours) else {
        let why = if theirs.is_none() {
            "no ETS settings received from the switch"
        } else {
            "the driver does not report the host's ETS settings"
        };
        checks.unknown(ID, name, why);
        return;
    };
    let lossless = dcb.and_then(|dcb| dcb.pfc).map(|pfc| pfc.enabled).unwrap_or_default();
    let (mut same, mut differing) = (Vec::new(), Vec::new());
    for priority in lossless.iter() {
        match (theirs.share(priority), ours.share(priority)) {
            (Some(theirs), Some(ours)) if theirs == ours => same.push(format!("priority {priority}: {ours}")),
            (Some(theirs), Some(ours)) => {
                differing.push(format!("priority {priority}: {theirs} on the switch, {ours} here"));
            }
            _ => {}
        }
    }
    if !differing.is_empty() {
        checks.say(
            (ID, Status::Info),
            name,
            differing.join("; "),
            "each end schedules its own transmissions: under load RoCE gets less bandwidth in one direction",
            format!("configure both alike: dcb ets set dev {name} tc-tsa CLASS:ets tc-bw CLASS:PERCENT (100 over all classes)"),
        );
    } else if same.is_empty() {
        checks.unknown(ID, name, "no lossless priority has an ETS share reported by both ends");
    } else {
        checks.ok(ID, name, same.join("; "));
    }
}

fn on(set: Priorities) -> String {
    set.iter().map(|priority| format!("{priority}:on")).collect::<Vec<_>>().join(" ")
}

fn apps(interface: &InterfaceFacts, checks: &mut CheckList) {
    let name = &interface.name;
    let mut theirs: Vec<AppPriority> = Vec::new();
    for app in interface.neighbour.iter().flat_map(|neighbour| &neighbour.apps) {
        theirs.extend(Priorities(app.priorities).iter().map(|priority| AppPriority {
            selector: app.selector,
            protocol: app.protocol,
            priority,
        }));
    }
    let Some(dcb) = &interface.dcb else {
        checks.unknown("switch.dscp", name, "the driver does not support DCB");
        return;
    };
    theirs.extend(&dcb.peer_apps);
    if theirs.is_empty() {
        checks.unknown("switch.dscp", name, "no priority mappings received from the switch");
        return;
    }
    let lossless = dcb.pfc.map(|pfc| pfc.enabled).unwrap_or_default();
    let mut compared = Vec::new();
    let mut differing = Vec::new();
    for app in theirs {
        let (what, ours) = match app.selector {
            SELECT_DSCP => {
                let dscp = u8::try_from(app.protocol).unwrap_or(u8::MAX);
                (format!("DSCP {dscp}"), dcb.priority_of_dscp(dscp))
            }
            SELECT_UDP | SELECT_ANY_PORT if app.protocol == PORT_ROCE => {
                // The host has no such table for UDP ports: the priority must be lossless here too.
                let fits = lossless.has(app.priority) || lossless.is_empty();
                ("RoCE's UDP port".to_owned(), fits.then_some(app.priority))
            }
            _ => continue,
        };
        match ours {
            Some(ours) if ours == app.priority => compared.push(format!("{what} → {ours}")),
            Some(ours) => differing.push(format!("{what} → {} on the switch, {ours} here", app.priority)),
            None if app.selector == SELECT_DSCP => {}
            None => differing
                .push(format!("{what} → {} on the switch, but PFC is disabled for it here", app.priority)),
        }
    }
    if !differing.is_empty() {
        checks.say(
            ("switch.dscp", Status::Warning),
            name,
            differing.join("; "),
            "packets get different priorities on host and switch",
            format!("configure the same table on both: dcb app replace dev {name} dscp-prio DSCP:PRIORITY"),
        );
    } else if compared.is_empty() {
        checks.unknown(
            "switch.dscp",
            name,
            "the switch advertised no mapping that the host's table contains",
        );
    } else {
        checks.ok("switch.dscp", name, compared.join("; "));
    }
}
