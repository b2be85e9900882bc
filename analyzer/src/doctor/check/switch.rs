//! What the switch says over DCBX, held against the host's own settings.

use super::lossless::set_pfc;
use super::{Entry, Sheet, Verdict};
use crate::doctor::facts::{HostFacts, InterfaceFacts};
use crate::host::dcb::{AppPriority, Ets, Priorities, SELECT_ANY_PORT, SELECT_DSCP, SELECT_UDP};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "switch.pfc",
        about: "Priorities with PFC on the switch, from LLDP frames or the NIC's own DCBX engine, against the host's. Critical when one is lossless on one side only.",
    },
    Entry {
        id: "switch.dscp",
        about: "Priorities that the switch gives DSCPs and RoCE's UDP port, against the host's table and its PFC. A warning when they differ.",
    },
    Entry {
        id: "switch.ets",
        about: "The share of bandwidth (ETS) that the switch gives the host's lossless priorities when sending, against the host's own. Info when they differ: each end shares out what it sends, so that one way can be narrower than the other.",
    },
    Entry {
        id: "switch.dcbx_error",
        about: "Whether the switch reports that the settings do not match (CEE). A warning when it does.",
    },
];

/// RoCEv2.
const ROCE_PORT: u16 = 4791;

pub(super) fn check(facts: &HostFacts, sheet: &mut Sheet) {
    let concerned = facts.interfaces.iter().filter(|interface| {
        // Where RoCE runs, and wherever the user listened.
        !interface.devices.is_empty() && interface.kind == "physical" || interface.neighbour.is_some()
    });
    for interface in concerned {
        pfc(interface, sheet);
        apps(interface, sheet);
        ets(interface, sheet);
        if let Some(neighbour) = &interface.neighbour
            && let Some(pfc) = neighbour.pfc
        {
            if pfc.error {
                sheet.say(
                    ("switch.dcbx_error", Verdict::Warning),
                    &interface.name,
                    "error",
                    format!(
                        "{} says that its PFC settings and those of this port do not match",
                        neighbour.label()
                    ),
                    "make them alike on both sides",
                );
            } else {
                sheet.ok("switch.dcbx_error", &interface.name, "none");
            }
        }
    }
}

fn pfc(interface: &InterfaceFacts, sheet: &mut Sheet) {
    let name = &interface.name;
    let heard = interface.neighbour.as_ref().and_then(|neighbour| neighbour.pfc);
    let theirs = heard.map(|pfc| Priorities(pfc.enabled)).or_else(|| {
        // The driver's own engine knows a peer only once it has heard one; before, it has none on.
        interface.dcb.as_ref().and_then(|dcb| dcb.peer_pfc).filter(|set| !set.is_empty())
    });
    let ours = interface.dcb.as_ref().and_then(|dcb| dcb.pfc).map(|pfc| pfc.enabled);
    let (Some(theirs), Some(ours)) = (theirs, ours) else {
        let why = if theirs.is_none() {
            "nothing was heard from the switch; `rocescope doctor --lldp 35s` listens, and some NICs keep LLDP for themselves"
        } else {
            "the driver does not tell the host's own PFC"
        };
        sheet.unknown("switch.pfc", name, why);
        return;
    };
    let value = format!("switch {theirs}; host {ours}");
    if theirs == ours {
        sheet.ok("switch.pfc", name, value);
        return;
    }
    let one_sided = Priorities(theirs.0 ^ ours.0);
    sheet.say(
        ("switch.pfc", Verdict::Critical),
        name,
        value,
        format!("priority {one_sided} is lossless on one side only: what that side pauses, the other does not obey, and packets are dropped"),
        format!("make both sides alike; here: {}", set_pfc(interface, &on(theirs))),
    );
}

/// How one end shares out what it sends among its traffic classes.
struct Shares {
    class_of: [u8; 8],
    bandwidth: [u8; 8],
    /// By class: whether it takes its share; else it goes before or behind by its number.
    shared: Option<[bool; 8]>,
}

impl Shares {
    /// `Ets` as DCB netlink has it, in which 2 stands for enhanced transmission selection.
    fn of(ets: &Ets) -> Self {
        let shared = ets.algorithm.map(|algorithm| algorithm == 2);
        Self { class_of: ets.class_of, bandwidth: ets.bandwidth, shared: Some(shared) }
    }

    /// The share of a priority in words; `None` where its class is none of the eight, as CEE's strict
    /// group 15 and vendors' classes are.
    fn share(&self, priority: u8) -> Option<String> {
        let class = usize::from(*self.class_of.get(usize::from(priority))?);
        let bandwidth = *self.bandwidth.get(class)?;
        // LLDP names the algorithm in a part that is not kept: a share of nothing is none.
        let is_shared = self.shared.map_or(Some(bandwidth > 0), |shared| shared.get(class).copied())?;
        Some(if is_shared { format!("{bandwidth} %") } else { "no share (strict)".into() })
    }
}

fn ets(interface: &InterfaceFacts, sheet: &mut Sheet) {
    const ID: &str = "switch.ets";
    let name = &interface.name;
    let dcb = interface.dcb.as_ref();
    let heard = interface.neighbour.as_ref().and_then(|neighbour| neighbour.ets);
    let heard = heard.map(|ets| Shares { class_of: ets.class_of, bandwidth: ets.bandwidth, shared: None });
    // An engine that has heard nobody has nothing but zeros.
    let told = || dcb?.peer_ets.filter(|ets| ets.bandwidth != [0; 8]).map(|ets| Shares::of(&ets));
    let theirs = heard.or_else(told);
    let ours = dcb.and_then(|dcb| dcb.ets.as_ref()).map(Shares::of);
    let (Some(theirs), Some(ours)) = (&theirs, &ours) else {
        let why = if theirs.is_none() {
            "the switch was not heard to say how it shares bandwidth out"
        } else {
            "the driver does not tell the host's own shares"
        };
        sheet.unknown(ID, name, why);
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
        sheet.say(
            (ID, Verdict::Info),
            name,
            differing.join("; "),
            "each end shares out what it sends: where all are busy, RoCE gets less one way than the other",
            format!("give both the same: dcb ets set dev {name} tc-tsa CLASS:ets tc-bw CLASS:PERCENT (all classes together 100)"),
        );
    } else if same.is_empty() {
        sheet.unknown(ID, name, "there is no lossless priority whose share both ends tell");
    } else {
        sheet.ok(ID, name, same.join("; "));
    }
}

fn on(set: Priorities) -> String {
    set.iter().map(|priority| format!("{priority}:on")).collect::<Vec<_>>().join(" ")
}

fn apps(interface: &InterfaceFacts, sheet: &mut Sheet) {
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
        sheet.unknown("switch.dscp", name, "the driver has no DCB");
        return;
    };
    theirs.extend(&dcb.peer_apps);
    if theirs.is_empty() {
        sheet.unknown("switch.dscp", name, "the switch was not heard to say what it gives priorities to");
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
            SELECT_UDP | SELECT_ANY_PORT if app.protocol == ROCE_PORT => {
                // The host has no such map for RoCE: what counts is that it is lossless here too.
                let fits = lossless.has(app.priority) || lossless.is_empty();
                ("RoCE's UDP port".to_owned(), fits.then_some(app.priority))
            }
            _ => continue,
        };
        match ours {
            Some(ours) if ours == app.priority => compared.push(format!("{what} → {ours}")),
            Some(ours) => differing.push(format!("{what} → {} on the switch, {ours} here", app.priority)),
            None if app.selector == SELECT_DSCP => {}
            None => differing.push(format!("{what} → {} on the switch, which has no PFC here", app.priority)),
        }
    }
    if !differing.is_empty() {
        sheet.say(
            ("switch.dscp", Verdict::Warning),
            name,
            differing.join("; "),
            "packets change their priority between host and switch",
            format!("give both the same table: dcb app replace dev {name} dscp-prio DSCP:PRIORITY"),
        );
    } else if compared.is_empty() {
        sheet.unknown("switch.dscp", name, "the switch advertised nothing that the host has in its table");
    } else {
        sheet.ok("switch.dscp", name, compared.join("; "));
    }
}
