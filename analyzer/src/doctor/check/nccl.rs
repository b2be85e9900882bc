//! NCCL settings of running processes, compared with the host's devices and interfaces.

use super::{CheckList, Entry, Status};
use crate::doctor::facts::{DeviceFacts, HostFacts, Protocol};
use crate::host::process;
use crate::host::process::nccl::NcclProcess;
use crate::host::rdma::port::GidType;

pub(super) const ENTRIES: &[Entry] = entries! {
    "nccl.environment": "Readable process environments, on hosts with RoCE devices. Unknown, with names, where some cannot be read: jobs of other users are then not checked. Settings come from the environment that a process started with, then from the file named by NCCL_CONF_FILE or ~/.nccl.conf, then from /etc/nccl.conf (RCCL: ~/.rccl.conf, /etc/rccl.conf), as the process sees them. A process counts as an NCCL process when it has such variables or has loaded libnccl.so or librccl.so; NCCL linked statically into another library, and settings made by the program itself, are not visible.",
    "nccl.disabled": "NCCL_IB_DISABLE. Warning at 1 on a host with RoCE devices: the job uses TCP.",
    "nccl.hca": "NCCL_IB_HCA. Warning when a name in it matches no RDMA device, or when it leaves no device.",
    "nccl.gid_index": "NCCL_IB_GID_INDEX. Critical when a device in use has no GID at that index, warning when the GID is RoCE v1 or link-local.",
    "nccl.roce_version": "NCCL_IB_ROCE_VERSION_NUM. Warning at 1 when NCCL selects the GID itself.",
    "nccl.traffic_class": "NCCL_IB_TC. Warning when it is unset or 0 while a device in use has PFC: the data then has DSCP 0 and does not use the lossless priority.",
    "nccl.socket_interface": "NCCL_SOCKET_IFNAME, for processes in this network namespace. Warning when a name matches no interface.",
    "nccl.gpudirect": "NCCL_NET_GDR_LEVEL. Info at LOC or 0, which disable GPUDirect RDMA.",
};

pub(super) fn check(facts: &HostFacts, checks: &mut CheckList) {
    if facts.roce_ports().next().is_some() && !facts.processes_unreadable.is_empty() {
        let unread = process::by_name(&facts.processes_unreadable);
        let why = format!("the environment of {unread} cannot be read: NCCL settings unknown");
        checks.unknown("nccl.environment", "host", &why);
    }
    for process in &facts.processes {
        one(facts, process, &process.label(), checks);
    }
}

fn one(facts: &HostFacts, process: &NcclProcess, subject: &str, checks: &mut CheckList) {
    let has_roce = facts.devices.iter().any(|device| device.protocol == Protocol::Roce);
    match process.number("NCCL_IB_DISABLE") {
        Some(disabled) if disabled != 0 && has_roce => {
            checks.say(
                ("nccl.disabled", Status::Warning),
                subject,
                process.shown("NCCL_IB_DISABLE"),
                "the job uses TCP although the host has RoCE devices",
                process.unset("NCCL_IB_DISABLE"),
            );
            return;
        }
        Some(_) => checks.ok("nccl.disabled", subject, process.shown("NCCL_IB_DISABLE")),
        None => {}
    }
    let used = hca(facts, process, subject, checks);
    gid_index(process, &used, subject, checks);
    roce_version(process, &used, subject, checks);
    traffic_class(facts, process, &used, subject, checks);
    socket_interface(facts, process, subject, checks);
    match process.get("NCCL_NET_GDR_LEVEL") {
        Some("LOC" | "0") if !facts.gpus.is_empty() => checks.say(
            ("nccl.gpudirect", Status::Info),
            subject,
            process.shown("NCCL_NET_GDR_LEVEL"),
            "GPUDirect RDMA is disabled: all data is copied through host memory",
            format!("{}, or set PHB or SYS", process.unset("NCCL_NET_GDR_LEVEL")),
        ),
        Some(_) => checks.ok("nccl.gpudirect", subject, process.shown("NCCL_NET_GDR_LEVEL")),
        None => {}
    }
}

/// A list in NCCL's syntax: a leading `^` excludes the names, `=` matches whole names rather
/// than prefixes, and `:port` may follow a device.
struct List<'a> {
    inverted: bool,
    exact: bool,
    names: Vec<&'a str>,
}

impl<'a> List<'a> {
    fn parse(text: &'a str) -> Self {
        let (inverted, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (exact, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        let names = text.split(',').map(|name| name.split(':').next().unwrap_or(name).trim());
        Self { inverted, exact, names: names.filter(|name| !name.is_empty()).collect() }
    }

    fn fits(&self, pattern: &str, name: &str) -> bool {
        if self.exact { name == pattern } else { name.starts_with(pattern) }
    }

    fn takes(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| self.fits(pattern, name)) != self.inverted
    }

    /// The names that match none of `all`.
    fn strangers(&self, all: &[&str]) -> Vec<&'a str> {
        let is_stranger = |pattern: &&&str| !all.iter().any(|name| self.fits(pattern, name));
        self.names.iter().filter(is_stranger).copied().collect()
    }
}

/// The RoCE devices that the process uses.
fn hca<'a>(
    facts: &'a HostFacts,
    process: &NcclProcess,
    subject: &str,
    checks: &mut CheckList,
) -> Vec<&'a DeviceFacts> {
    let roce = facts.devices.iter().filter(|device| device.protocol == Protocol::Roce);
    let Some(text) = process.get("NCCL_IB_HCA") else { return roce.collect() };
    let list = List::parse(text);
    let used: Vec<&DeviceFacts> = roce.filter(|device| list.takes(&device.name)).collect();
    let all: Vec<&str> = facts.devices.iter().map(|device| device.name.as_str()).collect();
    let strangers = list.strangers(&all);
    let value = process.shown("NCCL_IB_HCA");
    if !strangers.is_empty() && !list.inverted || used.is_empty() {
        let why = if used.is_empty() {
            "this leaves no RoCE device: the job uses TCP, or fails".to_owned()
        } else {
            format!("no such device on this host: {}", strangers.join(", "))
        };
        checks.say(
            ("nccl.hca", Status::Warning),
            subject,
            value,
            why,
            format!(
                "use devices of this host: {}",
                if all.is_empty() { "it has none".into() } else { all.join(",") }
            ),
        );
    } else {
        checks.ok("nccl.hca", subject, value);
    }
    used
}

fn gid_index(process: &NcclProcess, used: &[&DeviceFacts], subject: &str, checks: &mut CheckList) {
    const ID: &str = "nccl.gid_index";
    let Some(index) = process.number("NCCL_IB_GID_INDEX") else { return };
    let value = process.shown("NCCL_IB_GID_INDEX");
    // -1: NCCL selects the GID.
    let Ok(index) = u32::try_from(index) else {
        checks.ok(ID, subject, value);
        return;
    };
    let change = "unset it (NCCL 2.21 and newer select the GID), or use an index that is a RoCE v2 IP address on every device (show_gids)";
    let (mut missing, mut poor) = (Vec::new(), Vec::new());
    // An unreadable GID table proves nothing about the index.
    for device in used.iter().filter(|device| device.ports.iter().any(|port| !port.port.gids.is_empty())) {
        let mut gids = device.ports.iter().flat_map(|port| &port.port.gids);
        match gids.find(|gid| gid.index == index) {
            None => missing.push(device.name.as_str()),
            Some(gid) if gid.kind == Some(GidType::V1) || gid.is_link_local() => {
                poor.push(device.name.as_str());
            }
            Some(_) => {}
        }
    }
    if !missing.is_empty() {
        let why = format!("{} has no GID at this index: connections fail", missing.join(", "));
        checks.say((ID, Status::Critical), subject, value, why, change);
    } else if !poor.is_empty() {
        let why = format!(
            "on {} the GID is RoCE v1 or link-local: not routable, and RoCE v1 has no ECN",
            poor.join(", ")
        );
        checks.say((ID, Status::Warning), subject, value, why, change);
    } else {
        checks.ok(ID, subject, value);
    }
}

fn roce_version(process: &NcclProcess, used: &[&DeviceFacts], subject: &str, checks: &mut CheckList) {
    const ID: &str = "nccl.roce_version";
    const NAME: &str = "NCCL_IB_ROCE_VERSION_NUM";
    let Some(version) = process.number(NAME) else { return };
    // An explicit index takes precedence.
    let chooses = process.number("NCCL_IB_GID_INDEX").is_none_or(|index| index < 0);
    if version == 1 && chooses && !used.is_empty() {
        let why = "NCCL then selects RoCE v1 GIDs: not routable, no ECN";
        checks.say((ID, Status::Warning), subject, process.shown(NAME), why, process.unset(NAME));
    } else {
        checks.ok(ID, subject, process.shown(NAME));
    }
}

fn traffic_class(
    facts: &HostFacts,
    process: &NcclProcess,
    used: &[&DeviceFacts],
    subject: &str,
    checks: &mut CheckList,
) {
    const ID: &str = "nccl.traffic_class";
    let value = process.shown("NCCL_IB_TC");
    // NCCL treats a negative value as unset.
    let is_set = process.number("NCCL_IB_TC").is_some_and(|class| class > 0);
    // Unset is fine where the device forces a class, or DSCP 0 maps to a lossless priority.
    let concerned = used.iter().flat_map(|device| &device.ports).find(|port| {
        let lossless = facts.ethernet_of(port).next().and_then(|interface| {
            let dcb = interface.dcb.as_ref()?;
            let pfc = dcb.pfc?.enabled;
            let default = dcb.priority_of_dscp(0).unwrap_or(0);
            Some(!pfc.is_empty() && !pfc.has(default))
        });
        lossless == Some(true) && port.settings.traffic_class.is_none()
    });
    match concerned {
        Some(port) if !is_set => checks.say(
            (ID, Status::Warning),
            subject,
            value,
            format!(
                "data is sent with DSCP 0, not in the lossless priority of {}",
                port.port.interface.as_deref().unwrap_or("the port")
            ),
            "NCCL_IB_TC=106 (DSCP 26 × 4, plus 2 for ECT(0); use the DSCP that the fabric treats as lossless), in the job's environment or, for all jobs, in /etc/nccl.conf",
        ),
        _ => checks.ok(ID, subject, value),
    }
}

fn socket_interface(facts: &HostFacts, process: &NcclProcess, subject: &str, checks: &mut CheckList) {
    const ID: &str = "nccl.socket_interface";
    let Some(text) = process.get("NCCL_SOCKET_IFNAME") else { return };
    let value = process.shown("NCCL_SOCKET_IFNAME");
    if process.same_network != Some(true) {
        checks.unknown(
            ID,
            subject,
            "the process is in another network namespace, or its namespace cannot be read",
        );
        return;
    }
    let list = List::parse(text);
    let all: Vec<&str> =
        facts.interfaces.iter().map(|interface| interface.name.as_str()).chain(["lo"]).collect();
    if !list.inverted && !all.iter().any(|name| list.takes(name)) {
        checks.say(
            (ID, Status::Warning),
            subject,
            value,
            "no interface of this host matches: NCCL cannot establish its connections",
            "use an interface of the front-end network (a prefix without the number matches several)",
        );
    } else {
        checks.ok(ID, subject, value);
    }
}
