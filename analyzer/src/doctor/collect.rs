//! Reads the facts. A failed read is recorded and does not end the collection.

use std::collections::BTreeMap;

use super::facts::{DeviceFacts, GpuDirect, HostFacts, InterfaceFacts, KernelState, PortFacts};
use crate::host::error::{AS_ROOT, NOT_ROOT};
use crate::host::kernel::{Capability, KernelFacts, PERF_EVENT_PARANOID, maps_every_user};
use crate::host::net::dcb::Dcb;
use crate::host::net::interface::InterfaceKind;
use crate::host::net::stack;
use crate::host::pci::{self, PciDevice};
use crate::host::process::nccl::PORT;
use crate::host::process::pods::PodInterfaces;
use crate::host::process::{self, local, nccl};
use crate::host::rdma;
use crate::host::rdma::counters::{Reading, Source};
use crate::host::rdma::device::{self, Identity, Protocol};
use crate::host::rdma::mlx5_command;
use crate::host::rdma::nldev::{self, Query};
use crate::host::rdma::port::{self, Port};
use crate::host::rdma::qp_types::Missing;
use crate::host::rdma::settings::{DeviceFiles, RoceSettings};
use crate::host::rdma::vocabulary;
use crate::host::read::queries::Queries;
use crate::host::read::sysfs::{self, Hardware};
use crate::host::read::{HostRoot, Reason, UnreadReasons};

/// Facts that need privileges and stay the same while a program runs, for readings after it has given these up.
#[derive(Clone, Debug)]
pub struct Privileged {
    kernel: KernelState,
    /// Reasons for what is missing in it.
    unread: Vec<Reason>,
    /// Redirecting bridges by RDMA device, of those whose configuration space can be read.
    redirecting: BTreeMap<String, Vec<String>>,
}

impl Privileged {
    /// Reads them below `root`.
    pub fn read(root: &HostRoot) -> Self {
        let mut unread = UnreadReasons::new();
        let kernel = kernel_state(root, &mut unread);
        let bridges = |device: rdma::RdmaDevice| {
            let class = format!("/sys/class/infiniband/{}", device.name);
            let address = pci::address_behind(root, &format!("{class}/device"))?;
            // Of what is missing, a later reading notes the reason.
            let mut unread = UnreadReasons::new();
            let device_on_bus = PciDevice::read(root, &address, &mut unread);
            Some((device.name, pci::redirecting_bridges(root, &device_on_bus, &mut unread)?))
        };
        let redirecting = rdma::list(root.sys()).into_iter().filter_map(bridges).collect();
        Self { kernel, unread: unread.into_reasons(), redirecting }
    }
}

/// Collects the facts of the host whose files are below `root` and whose kernel is queried through `kernel`.
pub fn collect(root: &HostRoot, kernel: &dyn Queries) -> HostFacts {
    collect_with(root, kernel, None)
}

/// The same in a thread without privileges, for which `earlier` has what it cannot read.
pub fn collect_with(root: &HostRoot, kernel: &dyn Queries, earlier: Option<&Privileged>) -> HostFacts {
    let mut unread = UnreadReasons::new();
    let state = earlier.map_or_else(|| kernel_state(root, &mut unread), |earlier| earlier.kernel.clone());
    let mut facts =
        HostFacts { kernel: state, gpudirect: gpudirect(root, &mut unread), ..HostFacts::default() };
    let devices = rdma::list(root.sys());
    if devices.is_empty() {
        no_devices(root, &mut unread);
    }
    facts.interfaces = interfaces(root, kernel, &devices, &mut unread);
    unread.about("host");
    let known: BTreeMap<String, nldev::Device> = if devices.is_empty() {
        BTreeMap::new()
    } else {
        let answers = unread.keep(kernel.rdma(Query::Devices)).unwrap_or_default();
        let mut parse = |answer: &Vec<u8>| {
            unread.understood("read an RDMA device over netlink", nldev::Device::parse(answer))
        };
        let parsed: Vec<_> = answers.iter().filter_map(&mut parse).collect();
        parsed.into_iter().map(|device| (device.name.clone(), device)).collect()
    };
    for device in &devices {
        unread.about(&device.name);
        let known = known.get(&device.name);
        let redirecting = earlier.and_then(|earlier| earlier.redirecting.get(&device.name));
        let read = read_device(root, kernel, (device, redirecting), known, &facts.interfaces, &mut unread);
        facts.devices.push(read);
    }
    facts.gpus = pci::gpus(root, &mut unread);
    // Processes without settings matter only where they could have used RDMA.
    let processes = nccl::processes(root, !devices.is_empty(), &mut unread);
    facts.ras_listens = local::listens(root, PORT);
    (facts.processes, facts.processes_unreadable) = (processes.found, processes.unreadable);
    let before = earlier.map_or_else(Vec::new, |earlier| earlier.unread.clone());
    facts.unread = before.into_iter().chain(unread.into_reasons()).collect();
    if facts.kernel.root == Some(true) {
        for remedy in facts.unread.iter_mut().filter_map(|reason| reason.remedy.as_mut()) {
            if remedy == AS_ROOT {
                NOT_ROOT.clone_into(remedy);
            }
        }
    }
    facts
}

/// Records the reason for having no devices: no driver is loaded, or the directory cannot be read.
fn no_devices(root: &HostRoot, unread: &mut UnreadReasons) {
    const CLASS: &str = "/sys/class/infiniband";
    match root.list(CLASS) {
        Err(error) if error.is_absent() => unread.note(
            format!("list {CLASS}"),
            "the directory does not exist: no RDMA module is loaded",
            Some("if there is an RDMA NIC, load its driver (modprobe mlx5_ib, bnxt_re or irdma)"),
        ),
        Err(error) => unread.failed(&error),
        Ok(_) => {}
    }
}

fn kernel_state(root: &HostRoot, unread: &mut UnreadReasons) -> KernelState {
    let facts = KernelFacts::read(root.base());
    for (path, is_known) in [
        ("/proc/sys/kernel/osrelease", facts.version.is_some()),
        ("/proc/self/status", facts.capabilities.is_some()),
        ("/proc/sys/kernel/unprivileged_bpf_disabled", facts.unprivileged_bpf_disabled.is_some()),
        ("/proc/sys/net/core/bpf_jit_enable", facts.jit.is_some()),
    ] {
        if !is_known {
            // Read again to record the reason.
            let _value: Option<()> = unread.parsed(root, path, "content", |_| None);
        }
    }
    let wanted = [Capability::Bpf, Capability::NetAdmin, Capability::Perfmon, Capability::NetRaw];
    let missing = facts.capabilities.map(|held| {
        wanted.into_iter().filter(|capability| !held.has(*capability)).map(Capability::name).collect()
    });
    let status = root.text("/proc/self/status").ok();
    KernelState {
        // Tried by the command, which knows whether this is the running host.
        sandbox_missing: None,
        release: facts.release,
        version: facts.version,
        btf: facts.btf,
        rdma_btf: root.exists("/sys/module/ib_core").then(|| root.exists("/sys/kernel/btf/ib_core")),
        qp_types: Missing::of(root),
        follows_commands: mlx5_command::can_be_followed(root),
        probes: probes(root, "kprobe"),
        uprobes: probes(root, "uprobe"),
        fwctl: !root.names("/sys/class/fwctl").is_empty(),
        may_trace: facts.capabilities.map(|held| held.has(Capability::SysPtrace)),
        may_administer: facts.capabilities.map(|held| held.has(Capability::SysAdmin)),
        perf_event_paranoid: unread
            .parsed(root, PERF_EVENT_PARANOID, "a number", |text| text.trim().parse().ok()),
        lockdown: root.text("/sys/kernel/security/lockdown").ok().as_deref().and_then(lockdown),
        root: status.as_deref().and_then(effective_user).map(|user| user == 0),
        program: program(root),
        missing_capabilities: missing,
        initial_user_namespace: unread.text(root, "/proc/self/uid_map").as_deref().map(maps_every_user),
        initial_pid_namespace: process::has_numbers_of_host(root),
        bpf_jit: facts.jit,
        bpf_jit_harden: unread.number(root, "/proc/sys/net/core/bpf_jit_harden"),
        bpf_stats: unread.number(root, "/proc/sys/kernel/bpf_stats_enabled"),
        unprivileged_bpf_disabled: facts.unprivileged_bpf_disabled,
        libpcap_sniffs: libpcap_sniffs(root, unread),
    }
}

/// True when perf lists probes of this kind as a source of events.
fn probes(root: &HostRoot, kind: &str) -> Option<bool> {
    const SOURCES: &str = "/sys/bus/event_source/devices";
    root.list(SOURCES).ok().map(|names| names.iter().any(|name| name == kind))
}

/// The mode in brackets: `none [integrity] confidentiality`.
fn lockdown(modes: &str) -> Option<String> {
    let mode = modes.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
    Some(mode.to_owned())
}

/// The effective user ID in `/proc/PID/status`: the second number of `Uid`.
fn effective_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// The path of this executable; `None` when it was removed or replaced meanwhile.
fn program(root: &HostRoot) -> Option<String> {
    let path = root.link("/proc/self/exe").ok()?.to_str()?.to_owned();
    (!path.ends_with(" (deleted)")).then_some(path)
}

/// True when a libpcap in one of the usual places calls the functions of the RDMA sniffer.
fn libpcap_sniffs(root: &HostRoot, unread: &mut UnreadReasons) -> Option<bool> {
    /// A function of libibverbs that only the RDMA sniffer of libpcap calls.
    const CALL: &[u8] = b"ibv_create_flow";
    const FOLDERS: [&str; 5] = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let libraries = FOLDERS.iter().flat_map(|folder| {
        let of_pcap = |name: &String| name.starts_with("libpcap.so.");
        root.names(folder).into_iter().filter(of_pcap).map(move |name| format!("{folder}/{name}"))
    });
    let libraries: Vec<String> = libraries.collect();
    if libraries.is_empty() {
        unread.note(
            "search libpcap for the RDMA sniffer",
            format!("no libpcap.so in {}", FOLDERS.join(", ")),
            Some("install libpcap 1.9 or newer, built with RDMA (the tcpdump package includes it)"),
        );
    }
    let mut sniffs = |library: &String| {
        let bytes = unread.keep(root.bytes(library))?;
        Some(bytes.windows(CALL.len()).any(|window| window == CALL))
    };
    let found: Vec<bool> = libraries.iter().filter_map(&mut sniffs).collect();
    (!found.is_empty()).then(|| found.contains(&true))
}

fn gpudirect(root: &HostRoot, unread: &mut UnreadReasons) -> GpuDirect {
    // Absent without that driver.
    let version = unread.keep_if_there(root.text("/proc/driver/nvidia/version"));
    GpuDirect {
        peermem: root.exists("/sys/module/nvidia_peermem") || root.exists("/sys/module/nv_peer_mem"),
        nvidia_open: version.map(|text| text.contains("Open Kernel Module")),
        amdgpu: root.exists("/sys/module/amdgpu"),
    }
}

fn interfaces(
    root: &HostRoot,
    kernel: &dyn Queries,
    devices: &[rdma::RdmaDevice],
    unread: &mut UnreadReasons,
) -> Vec<InterfaceFacts> {
    let mut read = Vec::new();
    let all = unread.keep(kernel.interfaces()).unwrap_or_default();
    for interface in all.iter().cloned() {
        if interface.kind == InterfaceKind::Loopback {
            continue;
        }
        let name = interface.name.clone();
        let interface = interface.with_hardware(Hardware::read(root.sys(), &name));
        let of_device = |device: &&rdma::RdmaDevice| {
            let mut own = device.interfaces().into_iter();
            // An upper interface, such as a VLAN, has GIDs on the port and sends its RDMA through it.
            let related = stack::related(std::slice::from_ref(&name), &all);
            own.any(|own| related.contains(own) || stack::bottoms(own, &all).contains(&name))
        };
        let users: Vec<String> = devices.iter().filter(of_device).map(|device| device.name.clone()).collect();
        unread.about(&name);
        let mut facts = InterfaceFacts {
            index: interface.index,
            kind: interface.kind.as_str().to_owned(),
            mtu: interface.mtu,
            up: interface.is_up(),
            speed_mbps: interface.speed_mbps,
            xdp: interface.xdp.map(|xdp| xdp.mode.as_str()),
            stale_filters: unread.keep(kernel.stale_filters(interface.index)),
            driver: interface.driver,
            devices: users,
            below: stack::bottoms(&name, &all).into_iter().filter(|below| *below != name).collect(),
            name,
            ..InterfaceFacts::default()
        };
        // Only physical interfaces have these; reading them elsewhere would only record failures.
        if interface.kind == InterfaceKind::Physical {
            read_hardware(root, kernel, &mut facts, unread);
        }
        read.push(facts);
    }
    read
}

fn read_hardware(
    root: &HostRoot,
    kernel: &dyn Queries,
    facts: &mut InterfaceFacts,
    unread: &mut UnreadReasons,
) {
    if facts.speed_mbps.is_none() {
        // Read again to record the reason. An unknown speed is no failure: drivers report it with a
        // special value, and the kernel returns EINVAL while the interface is down.
        let path = format!("/sys/class/net/{}/speed", facts.name);
        match root.text(&path) {
            Ok(text) if sysfs::rejects_speed(&text) => {}
            Err(error) if error.errno() == Some(libc::EINVAL) => {}
            _ => drop(unread.parsed(root, &path, "speed", |_| None::<()>)),
        }
    }
    if facts.driver.is_none() {
        unread.keep(root.link_name(&format!("/sys/class/net/{}/device/driver", facts.name)));
    }
    let statistics = unread.keep(kernel.statistics(&facts.name));
    if statistics.as_ref().is_some_and(Vec::is_empty) {
        let what = format!("read the driver statistics of {}", facts.name);
        unread.note(what, "the driver has none (ethtool -S)", None);
    }
    let statistics = statistics.unwrap_or_default();
    facts.pause_counts = vocabulary::pause(&statistics);
    let mut reading = Reading::default();
    reading.add(Source::Ethtool, statistics);
    facts.counters = reading.counters(None).into_iter().filter(|c| c.meaning.is_some()).collect();
    facts.pause = unread.keep(kernel.pause(&facts.name));
    facts.rings = unread.keep(kernel.rings(&facts.name));
    if let Some(answer) = unread.keep(kernel.dcb(&facts.name)) {
        let what = format!("read the IEEE settings of {} over DCB netlink", facts.name);
        facts.dcb = unread.understood(what, Dcb::parse(&answer));
    }
}

fn read_device(
    root: &HostRoot,
    kernel: &dyn Queries,
    (device, redirecting): (&rdma::RdmaDevice, Option<&Vec<String>>),
    known: Option<&nldev::Device>,
    interfaces: &[InterfaceFacts],
    unread: &mut UnreadReasons,
) -> DeviceFacts {
    let name = &device.name;
    let class = format!("/sys/class/infiniband/{name}");
    let address = pci::address_behind(root, &format!("{class}/device"));
    let Identity { driver, software, protocol } = Identity::of(root, device, known);
    if driver.is_none() || protocol == Protocol::Unknown {
        unread.keep(root.link_name(&format!("{class}/device/driver")));
        unread.text(root, &format!("{class}/node_type"));
    }
    if known.is_none() {
        unread.note(
            "query the device over RDMA netlink (queue pairs, optional counters)",
            "it is not in the device list",
            None,
        );
    }
    if address.is_none() && !software {
        unread.note(
            format!("find the PCI device behind {class}/device"),
            "the path contains no PCI address",
            None,
        );
    }
    let pci = address.filter(|_| !software).map(|address| PciDevice::read(root, &address, unread));
    let mut facts = DeviceFacts {
        name: name.clone(),
        software,
        protocol,
        roce_enabled: roce_enabled(kernel, driver.as_deref(), pci.as_ref(), unread),
        firmware: known
            .and_then(|known| known.firmware.clone())
            .or_else(|| if software { None } else { unread.text(root, &format!("{class}/fw_ver")) }),
        verbs: opens(root, name),
        acs_redirect: (redirecting.cloned())
            .or_else(|| pci::redirecting_bridges(root, pci.as_ref()?, unread)),
        queue_pairs: known.and_then(|known| {
            let answers = unread.keep(kernel.rdma(Query::QueuePairs(known.index)))?;
            Some(answers.iter().map(|answer| nldev::queue_pairs(answer).len()).sum())
        }),
        context: None,
        driver,
        pci,
        ports: Vec::new(),
    };
    for port in &device.ports {
        let read =
            read_port(root, kernel, (&facts, known.map(|known| known.index)), port, interfaces, unread);
        facts.ports.push(read);
    }
    facts
}

/// The facts of one port of a device, whose number in RDMA netlink is `index`.
fn read_port(
    root: &HostRoot,
    kernel: &dyn Queries,
    (device, index): (&DeviceFacts, Option<u32>),
    port: &rdma::RdmaPort,
    interfaces: &[InterfaceFacts],
    unread: &mut UnreadReasons,
) -> PortFacts {
    let class = format!("/sys/class/infiniband/{}", device.name);
    let at = format!("{class}/ports/{}", port.number);
    let mut read = Port::read(root, &at, port.number, unread);
    read.interface.clone_from(&port.interface);
    if read.interface.is_none() && device.protocol == Protocol::Roce {
        note_hidden_interface(root, (&class, &at), &read, unread);
    }
    let on = read.interface.as_deref().and_then(|name| interfaces.iter().find(|i| i.name == name));
    let mut reading = Reading::of_port(root, &at, unread);
    let ask = |unread: &mut UnreadReasons, query: fn(u32, u32) -> Query| {
        let query = query(index?, port.number);
        let answer = unread.keep(kernel.rdma(query))?.into_iter().next();
        unread.understood(query.action(), answer)
    };
    if let Some(answer) = ask(unread, Query::PortCounters) {
        // Netlink has the same counters as hw_counters, and optional ones besides.
        let own = reading.counters(None);
        let is_new = |name: &String| !own.iter().any(|counter| counter.name == *name);
        reading.add(Source::Netlink, nldev::counters(&answer).into_iter().filter(|(name, _)| is_new(name)));
    }
    // The first member of a bond represents all: other checks compare what can differ.
    let below = on.and_then(|on| on.below.first());
    let ethernet = below.and_then(|name| interfaces.iter().find(|i| i.name == *name)).or(on);
    let files = DeviceFiles {
        interface: ethernet.map(|e| e.name.as_str()).or(read.interface.as_deref()),
        name: &device.name,
        port: port.number,
        pci: device.pci.as_ref().map(|pci| pci.address.as_str()),
        driver: device.driver.as_deref(),
    };
    let dcb = ethernet.and_then(|interface| interface.dcb.as_ref());
    // Other protocols have no RoCE settings.
    let settings = match device.protocol {
        Protocol::Roce => RoceSettings::read(root, &files, dcb, unread),
        _ => RoceSettings::default(),
    };
    PortFacts {
        active_mtu: on.and_then(|interface| port::active_mtu(interface.mtu)),
        settings,
        counters: reading.counters(device.driver.as_deref()),
        optional_counters: ask(unread, Query::OptionalCounters)
            .map(|answer| nldev::optional_counters(&answer)),
        qp_binding: ask(unread, Query::BindingMode).and_then(|answer| {
            unread.understood("read the counter binding mode of queue pairs", nldev::binding_mode(&answer))
        }),
        port: read,
    }
}

/// Notes where the interface of a port may be: in another network namespace.
fn note_hidden_interface(
    root: &HostRoot,
    (class, at): (&str, &str),
    read: &Port,
    unread: &mut UnreadReasons,
) {
    let gids: Vec<_> = read.gids.iter().map(|gid| gid.gid).collect();
    let (why, remedy) = match PodInterfaces::read(root).of(&gids) {
        Some(found) => (
            format!("it is {} of pod {}", found.name.as_deref().unwrap_or("an interface"), found.pod),
            format!("rocescope doctor --netns {}", found.pid),
        ),
        None => (
            format!(
                "neither {at}/gid_attrs/ndevs nor {class}/device/net names one in this network namespace"
            ),
            "run doctor in its network namespace (nsenter --net)".to_owned(),
        ),
    };
    unread.note(format!("find the interface of port {}", read.number), why, Some(&remedy));
}

/// State of `enable_roce`, with the drivers that have it.
fn roce_enabled(
    kernel: &dyn Queries,
    driver: Option<&str>,
    pci: Option<&PciDevice>,
    unread: &mut UnreadReasons,
) -> Option<bool> {
    if !matches!(driver, Some("mlx5_ib" | "bnxt_re" | "irdma")) {
        return None;
    }
    let answer = unread.keep(kernel.parameter(&pci?.address, "enable_roce"))?;
    unread.understood("read the devlink parameter enable_roce", device::is_on(&answer))
}

/// True when the device has a verbs character device that exists.
fn opens(root: &HostRoot, device: &str) -> bool {
    root.names("/sys/class/infiniband_verbs").into_iter().any(|verbs| {
        root.text(&format!("/sys/class/infiniband_verbs/{verbs}/ibdev")).is_ok_and(|name| name == device)
            && root.exists(&format!("/dev/infiniband/{verbs}"))
    })
}
