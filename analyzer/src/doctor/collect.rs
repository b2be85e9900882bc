//! Reads the facts. Nothing that fails ends it.

use std::collections::BTreeMap;

use super::facts::{DeviceFacts, GpuDirect, HostFacts, InterfaceFacts, KernelState, PortFacts};
use crate::host::ask::Ask;
use crate::host::counters::{Reading, Source};
use crate::host::dcb::Dcb;
use crate::host::device::{self, Identity};
use crate::host::interface::Kind;
use crate::host::kernel::{Capability, KernelFacts};
use crate::host::nldev::{self, Query};
use crate::host::pci::{self, PciDevice};
use crate::host::port::{self, DeviceFiles, Port, RoceSettings};
use crate::host::read::{HostRoot, Unread};
use crate::host::sysfs::Hardware;
use crate::host::{process, rdma, stack, vocabulary};

/// The facts of the host whose files lie below `root` and whose kernel answers as `kernel`.
#[must_use]
pub fn collect(root: &HostRoot, kernel: &dyn Ask) -> HostFacts {
    let mut unread = Unread::new();
    let processes = process::nccl_processes(root);
    let mut facts = HostFacts {
        kernel: kernel_state(root, &mut unread),
        gpudirect: gpudirect(root),
        processes: processes.found,
        processes_unreadable: processes.unreadable,
        ..HostFacts::default()
    };
    let devices = rdma::list(root.sys());
    facts.interfaces = interfaces(root, kernel, &devices, &mut unread);
    unread.about("host");
    let known: BTreeMap<String, nldev::Device> = if devices.is_empty() {
        BTreeMap::new()
    } else {
        let answers = unread.keep(kernel.rdma(Query::Devices)).unwrap_or_default();
        let parsed = answers.iter().filter_map(|answer| nldev::Device::parse(answer));
        parsed.map(|device| (device.name.clone(), device)).collect()
    };
    for device in &devices {
        unread.about(&device.name);
        let known = known.get(&device.name);
        let read = read_device(root, kernel, device, known, &facts.interfaces, &mut unread);
        facts.devices.push(read);
    }
    facts.gpus = pci::gpus(root, &mut unread);
    facts.unread = unread.into_reasons();
    facts
}

fn kernel_state(root: &HostRoot, unread: &mut Unread) -> KernelState {
    let facts = KernelFacts::read(root.base());
    let wanted = [Capability::Bpf, Capability::NetAdmin, Capability::Perfmon, Capability::NetRaw];
    let missing = facts.capabilities.map(|held| {
        wanted.into_iter().filter(|capability| !held.has(*capability)).map(Capability::name).collect()
    });
    // Inside and outside are the same numbers, all of them, in the first user namespace alone.
    let whole = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    KernelState {
        release: facts.release,
        version: facts.version,
        btf: facts.btf,
        missing_capabilities: missing,
        initial_user_namespace: unread.text(root, "/proc/self/uid_map").map(whole),
        bpf_jit: facts.jit,
        bpf_jit_harden: unread.number(root, "/proc/sys/net/core/bpf_jit_harden"),
        bpf_stats: unread.number(root, "/proc/sys/kernel/bpf_stats_enabled"),
        unprivileged_bpf_disabled: facts.unprivileged_bpf_disabled,
        libpcap_sniffs: libpcap_sniffs(root),
    }
}

/// Whether a libpcap in one of the usual places calls the functions of the RDMA sniffer.
fn libpcap_sniffs(root: &HostRoot) -> Option<bool> {
    /// A function of libibverbs that nothing else in libpcap needs.
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
    let sniffs = |library: String| {
        let bytes = root.bytes(&library).ok()?;
        Some(bytes.windows(CALL.len()).any(|window| window == CALL))
    };
    let found: Vec<bool> = libraries.filter_map(sniffs).collect();
    (!found.is_empty()).then(|| found.contains(&true))
}

fn gpudirect(root: &HostRoot) -> GpuDirect {
    let version = root.text("/proc/driver/nvidia/version").ok();
    GpuDirect {
        peermem: root.exists("/sys/module/nvidia_peermem") || root.exists("/sys/module/nv_peer_mem"),
        nvidia_open: version.map(|text| text.contains("Open Kernel Module")),
        amdgpu: root.exists("/sys/module/amdgpu"),
    }
}

fn interfaces(
    root: &HostRoot,
    kernel: &dyn Ask,
    devices: &[rdma::RdmaDevice],
    unread: &mut Unread,
) -> Vec<InterfaceFacts> {
    let mut read = Vec::new();
    let all = unread.keep(kernel.interfaces()).unwrap_or_default();
    for interface in all.iter().cloned() {
        if interface.kind == Kind::Loopback {
            continue;
        }
        let name = interface.name.clone();
        let interface = interface.with_hardware(Hardware::read(root.sys(), &name));
        let of_device = |device: &&rdma::RdmaDevice| {
            let mut own = device.interfaces().into_iter();
            own.any(|own| own == name || stack::bottoms(own, &all).contains(&name))
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
        // What is no port of hardware has none of these, and would only fail in as many words.
        if interface.kind == Kind::Physical {
            read_hardware(kernel, &mut facts, unread);
        }
        read.push(facts);
    }
    read
}

fn read_hardware(kernel: &dyn Ask, facts: &mut InterfaceFacts, unread: &mut Unread) {
    let statistics = unread.keep(kernel.statistics(&facts.name)).unwrap_or_default();
    facts.pause_counts = vocabulary::pause(&statistics);
    let mut reading = Reading::default();
    reading.add(Source::Ethtool, statistics);
    facts.counters = reading.counters(None).into_iter().filter(|c| c.meaning.is_some()).collect();
    facts.pause = unread.keep(kernel.pause(&facts.name));
    facts.rings = unread.keep(kernel.rings(&facts.name));
    facts.dcb = unread.keep(kernel.dcb(&facts.name)).and_then(|answer| Dcb::parse(&answer));
}

fn read_device(
    root: &HostRoot,
    kernel: &dyn Ask,
    device: &rdma::RdmaDevice,
    known: Option<&nldev::Device>,
    interfaces: &[InterfaceFacts],
    unread: &mut Unread,
) -> DeviceFacts {
    let name = &device.name;
    let class = format!("/sys/class/infiniband/{name}");
    let address = pci::address_behind(root, &format!("{class}/device"));
    let Identity { driver, software, protocol } = Identity::of(root, device, known);
    let pci = address.filter(|_| !software).map(|address| PciDevice::read(root, &address, unread));
    let mut facts = DeviceFacts {
        name: name.clone(),
        software,
        protocol,
        roce_enabled: roce_enabled(kernel, driver.as_deref(), pci.as_ref(), unread),
        firmware: known
            .and_then(|known| known.firmware.clone())
            .or_else(|| root.text(&format!("{class}/fw_ver")).ok()),
        verbs: opens(root, name),
        acs_redirect: pci.as_ref().and_then(|pci| pci::redirecting_bridges(root, pci, unread)),
        queue_pairs: known.and_then(|known| {
            let answers = unread.keep(kernel.rdma(Query::QueuePairs(known.index)))?;
            Some(answers.iter().map(|answer| nldev::queue_pairs(answer).len()).sum())
        }),
        driver,
        pci,
        ports: Vec::new(),
    };
    for port in &device.ports {
        let at = format!("{class}/ports/{}", port.number);
        let mut read = Port::read(root, &at, port.number, unread);
        read.interface.clone_from(&port.interface);
        let on = read.interface.as_deref().and_then(|name| interfaces.iter().find(|i| i.name == name));
        let mut reading = Reading::of_port(root, &at, unread);
        let ask = |unread: &mut Unread, query: fn(u32, u32) -> Query| {
            unread.keep(kernel.rdma(query(known?.index, port.number)))?.into_iter().next()
        };
        if let Some(answer) = ask(unread, Query::PortCounters) {
            // Netlink has the same counters as hw_counters, and optional ones besides.
            let own = reading.counters(None);
            let is_new = |name: &String| !own.iter().any(|counter| counter.name == *name);
            reading
                .add(Source::Netlink, nldev::counters(&answer).into_iter().filter(|(name, _)| is_new(name)));
        }
        let files = DeviceFiles {
            name,
            port: port.number,
            pci: facts.pci.as_ref().map(|pci| pci.address.as_str()),
            driver: facts.driver.as_deref(),
        };
        // Of a bond, the first member stands for all: checks compare what can differ.
        let below = on.and_then(|on| on.below.first());
        let ethernet = below.and_then(|name| interfaces.iter().find(|i| i.name == *name)).or(on);
        let dcb = ethernet.and_then(|interface| interface.dcb.as_ref());
        let settings_of = ethernet.map(|e| e.name.as_str()).or(read.interface.as_deref());
        let read = PortFacts {
            active_mtu: on.and_then(|interface| port::active_mtu(interface.mtu)),
            settings: RoceSettings::read(root, settings_of, &files, dcb),
            counters: reading.counters(facts.driver.as_deref()),
            optional_counters: ask(unread, Query::OptionalCounters)
                .map(|answer| nldev::optional_counters(&answer)),
            qp_binding: ask(unread, Query::BindingMode).and_then(|answer| nldev::binding_mode(&answer)),
            port: read,
        };
        facts.ports.push(read);
    }
    facts
}

/// Whether RoCE is on, from those drivers that have such a switch.
fn roce_enabled(
    kernel: &dyn Ask,
    driver: Option<&str>,
    pci: Option<&PciDevice>,
    unread: &mut Unread,
) -> Option<bool> {
    if !matches!(driver, Some("mlx5_ib" | "bnxt_re" | "irdma")) {
        return None;
    }
    device::is_on(&unread.keep(kernel.parameter(&pci?.address, "enable_roce"))?)
}

/// Whether programs can open the device: it has a file of verbs, and that file is there.
fn opens(root: &HostRoot, device: &str) -> bool {
    root.names("/sys/class/infiniband_verbs").into_iter().any(|verbs| {
        root.text(&format!("/sys/class/infiniband_verbs/{verbs}/ibdev")).is_ok_and(|name| name == device)
            && root.exists(&format!("/dev/infiniband/{verbs}"))
    })
}
