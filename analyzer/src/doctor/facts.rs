//! What doctor knows of a host: plain facts, read once. Nothing here is judged.

use serde::Serialize;

use crate::host::counters::Counter;
use crate::host::dcb::Dcb;
pub use crate::host::device::Protocol;
use crate::host::ethtool::{Pause, Rings};
use crate::host::kernel::KernelVersion;
use crate::host::nccl::NcclProcess;
use crate::host::pci::{Gpu, PciDevice};
use crate::host::port::Port;
use crate::host::process::Unreadable;
use crate::host::read::Reason;
use crate::host::settings::RoceSettings;
use crate::host::vocabulary::PauseCounts;
use crate::source::net::lldp::Neighbour;

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostFacts {
    /// The kernel and the rights of this process.
    pub kernel: KernelState,
    /// The network namespace looked into, as the user named it; `None` for that of this process.
    pub netns: Option<String>,
    /// Network interfaces, the loopback excepted.
    pub interfaces: Vec<InterfaceFacts>,
    /// RDMA devices.
    pub devices: Vec<DeviceFacts>,
    /// Graphics processors.
    pub gpus: Vec<Gpu>,
    /// What lets NICs reach GPU memory.
    pub gpudirect: GpuDirect,
    /// Processes that use NCCL or have settings for it.
    pub processes: Vec<NcclProcess>,
    /// Processes whose environment could not be read: whether they have such settings is not known.
    pub processes_unreadable: Vec<Unreadable>,
    /// What could not be read, and why.
    pub unread: Vec<Reason>,
}

/// The kernel and the rights of this process; `None` where it cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelState {
    /// `uname -r`.
    pub release: Option<String>,
    /// The numbers in it.
    #[serde(skip)]
    pub version: Option<KernelVersion>,
    /// Whether the kernel describes its types.
    pub btf: bool,
    /// Whether this process is root's; `None` when that cannot be read.
    pub root: Option<bool>,
    /// The file of this program; `None` when it is not to be found any more.
    pub program: Option<String>,
    /// Capabilities that `live` needs and this process lacks.
    pub missing_capabilities: Option<Vec<&'static str>>,
    /// Whether this is the first user namespace, in which capabilities count for eBPF.
    pub initial_user_namespace: Option<bool>,
    /// `net.core.bpf_jit_enable` is not 0.
    pub bpf_jit: Option<bool>,
    /// `net.core.bpf_jit_harden`.
    pub bpf_jit_harden: Option<u64>,
    /// `kernel.bpf_stats_enabled`.
    pub bpf_stats: Option<u64>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<u32>,
    /// Whether the libpcap of this host has the RDMA sniffer; `None` when none was found.
    pub libpcap_sniffs: Option<bool>,
}

impl KernelState {
    /// How this program is called in a shell, through sudo as well: sudo has a search path of its own,
    /// which holds neither ~/.cargo/bin nor a folder of builds.
    #[must_use]
    pub fn command(&self) -> String {
        const SEARCHED: [&str; 6] =
            ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let Some(program) = &self.program else { return "rocescope".into() };
        let is_searched = program.rsplit_once('/').is_some_and(|(folder, _)| SEARCHED.contains(&folder));
        if is_searched && program.ends_with("/rocescope") { "rocescope".into() } else { quoted(program) }
    }

    /// The file of this program, for a shell.
    #[must_use]
    pub fn file(&self) -> String {
        self.program.as_deref().map_or_else(|| "FILE-OF-ROCESCOPE".into(), quoted)
    }
}

/// A word for a shell: in quotes where it has more than letters, digits and a few signs.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InterfaceFacts {
    /// Name.
    pub name: String,
    /// Index.
    pub index: u32,
    /// What it is: `physical`, `veth`, `VLAN` …
    pub kind: String,
    /// Kernel driver.
    pub driver: Option<String>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Whether packets can arrive.
    pub up: bool,
    /// Link speed in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// RDMA devices that use it, or a bond that it is part of.
    pub devices: Vec<String>,
    /// The interfaces whose ports carry its packets, when those are others: the members of a bond, the
    /// parent of a VLAN.
    pub below: Vec<String>,
    /// An XDP program it carries, by how it is attached.
    pub xdp: Option<&'static str>,
    /// Global pause.
    pub pause: Option<Pause>,
    /// Ring sizes.
    pub rings: Option<Rings>,
    /// Data centre bridging.
    pub dcb: Option<Dcb>,
    /// Pause by priority.
    pub pause_counts: Option<PauseCounts>,
    /// Driver statistics with a meaning for RoCE.
    pub counters: Vec<Counter>,
    /// TC filters that an earlier run left behind.
    pub stale_filters: Option<usize>,
    /// What the switch said over LLDP.
    pub neighbour: Option<Neighbour>,
}

impl InterfaceFacts {
    /// Whether RoCE is to be looked for here: an RDMA device uses it, or it is a port of hardware with a
    /// link, as one for a mirror is. What is neither (veth, dummy, ifb, a port without a cable) would
    /// carry RoCE only if somebody sent it there.
    #[must_use]
    pub fn is_place_for_roce(&self) -> bool {
        !self.devices.is_empty()
            || self.neighbour.is_some()
            || self.kind == "ipoib"
            || (self.up && self.kind == "physical")
    }
}

/// An RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceFacts {
    /// Name.
    pub name: String,
    /// RDMA driver: `mlx5_ib`, `bnxt_re`, `irdma`, `rxe` …
    pub driver: Option<String>,
    /// Whether the kernel itself handles its packets.
    pub software: bool,
    /// What it speaks.
    pub protocol: Protocol,
    /// Whether RoCE is switched on (devlink's `enable_roce`); `None` when the driver does not tell.
    pub roce_enabled: Option<bool>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Whether programs can open it (`/dev/infiniband/uverbsN`).
    pub verbs: bool,
    /// Where it sits.
    pub pci: Option<PciDevice>,
    /// Bridges above it that redirect direct traffic to the root complex.
    pub acs_redirect: Option<Vec<String>>,
    /// Its ports.
    pub ports: Vec<PortFacts>,
    /// Queue pairs in use.
    pub queue_pairs: Option<usize>,
}

impl DeviceFacts {
    /// Whether it does RoCE in hardware.
    #[must_use]
    pub fn is_hardware_roce(&self) -> bool {
        self.protocol == Protocol::Roce && !self.software
    }

    /// Whether no program on its interface sees its RoCE packets: it handles them in hardware, and
    /// is not told to leave them to the kernel.
    #[must_use]
    pub fn hides_packets(&self) -> bool {
        self.is_hardware_roce() && self.roce_enabled != Some(false)
    }
}

/// A port of an RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortFacts {
    /// What sysfs says.
    #[serde(flatten)]
    pub port: Port,
    /// Largest RDMA path MTU, computed from the MTU of the interface as the kernel does it.
    pub active_mtu: Option<u32>,
    /// How RoCE is treated.
    pub settings: RoceSettings,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Optional counters and whether they are on; `None` when the kernel does not tell.
    pub optional_counters: Option<Vec<(String, bool)>>,
    /// How queue pairs get counters of their own: `none`, `auto`, `manual`.
    pub qp_binding: Option<&'static str>,
}

impl PortFacts {
    /// Optional counters that are off.
    #[must_use]
    pub fn optional_off(&self) -> Vec<&str> {
        let optional = self.optional_counters.iter().flatten();
        optional.filter(|(_, on)| !on).map(|(name, _)| name.as_str()).collect()
    }

    /// The command that turns all optional counters of this port of `device` on. The list that it sets
    /// replaces the one before.
    #[must_use]
    pub fn turn_on_optional(&self, device: &str) -> String {
        let all: Vec<&str> = self.optional_counters.iter().flatten().map(|(name, _)| name.as_str()).collect();
        let number = self.port.number;
        format!("rdma statistic set link {device}/{number} optional-counters {}", all.join(","))
    }
}

/// What optional counters cost.
pub const OPTIONAL_COST: &str =
    "each takes a flow rule and a flow counter of the NIC, and may slow the data path";

/// What lets NICs reach GPU memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuDirect {
    /// The module nvidia_peermem (or its predecessor nv_peer_mem) is loaded.
    pub peermem: bool,
    /// The NVIDIA driver's kernel modules are the open ones, which offer dma-buf.
    pub nvidia_open: Option<bool>,
    /// The module amdgpu is loaded.
    pub amdgpu: bool,
}

impl HostFacts {
    /// The command line of this program with `arguments`, for this namespace.
    #[must_use]
    pub fn command(&self, arguments: &str) -> String {
        let netns = self.netns.as_deref().map(|name| format!(" --netns {}", quoted(name)));
        format!("{} {arguments}{}", self.kernel.command(), netns.unwrap_or_default())
    }

    /// The command that enters the namespace looked into; `None` when that is where one is.
    #[must_use]
    pub fn entering(&self) -> Option<String> {
        let name = self.netns.as_deref()?;
        let quoted = quoted(name);
        // As it is looked for: a path, a process (names that are numbers are nobody's), a name.
        Some(match name {
            _ if name.starts_with('/') => format!("nsenter --net={quoted}"),
            _ if name.bytes().all(|b| b.is_ascii_digit()) => format!("nsenter -t {quoted} -n"),
            _ => format!("ip netns exec {quoted} bash"),
        })
    }

    /// Ports that do RoCE, with their devices.
    pub fn roce_ports(&self) -> impl Iterator<Item = (&DeviceFacts, &PortFacts)> {
        let roce = self.devices.iter().filter(|device| device.protocol == Protocol::Roce);
        roce.flat_map(|device| device.ports.iter().map(move |port| (device, port)))
    }

    /// The interface of this name.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<&InterfaceFacts> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The interface of a port.
    #[must_use]
    pub fn interface_of(&self, port: &PortFacts) -> Option<&InterfaceFacts> {
        self.interface(port.port.interface.as_deref()?)
    }

    /// The interfaces with ports of their own that a port sends through: its own, or the members of the
    /// bond that it uses.
    pub fn ethernet_of(&self, port: &PortFacts) -> impl Iterator<Item = &InterfaceFacts> {
        let own = self.interface_of(port);
        let is_below = move |name: &str| match own {
            Some(own) if own.below.is_empty() => own.name == name,
            Some(own) => own.below.iter().any(|below| below == name),
            None => false,
        };
        self.interfaces.iter().filter(move |interface| is_below(&interface.name))
    }
}
