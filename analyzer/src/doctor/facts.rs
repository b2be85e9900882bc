//! The facts that doctor reads on a host, without any judgement.

use serde::Serialize;

use crate::ethernet::lldp::Neighbour;
use crate::host::kernel::KernelVersion;
use crate::host::net::dcb::Dcb;
use crate::host::net::ethtool::{Pause, Rings};
use crate::host::pci::{Gpu, PciDevice};
use crate::host::process::Unreadable;
use crate::host::process::nccl::NcclProcess;
use crate::host::rdma::counters::Counter;
pub use crate::host::rdma::device::Protocol;
use crate::host::rdma::port::Port;
use crate::host::rdma::qp_types::Missing;
use crate::host::rdma::settings::RoceSettings;
use crate::host::rdma::vocabulary::PauseCounts;
use crate::host::read::Reason;

/// Facts of a host, as far as they could be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostFacts {
    /// The kernel and the privileges of this process.
    pub kernel: KernelState,
    /// The examined network namespace, as the user named it; `None` for that of this process.
    pub netns: Option<String>,
    /// Network interfaces, the loopback excepted.
    pub interfaces: Vec<InterfaceFacts>,
    /// RDMA devices of the host.
    pub devices: Vec<DeviceFacts>,
    /// Graphics processors of the host.
    pub gpus: Vec<Gpu>,
    /// Kernel support for GPUDirect RDMA.
    pub gpudirect: GpuDirect,
    /// Processes that use NCCL or have NCCL settings.
    pub processes: Vec<NcclProcess>,
    /// True when something listens where NCCL's RAS service does by default; `None` when that cannot be read.
    pub ras_listens: Option<bool>,
    /// Processes whose environment, and so their NCCL settings, could not be read.
    pub processes_unreadable: Vec<Unreadable>,
    /// Failed reads, with reasons.
    pub unread: Vec<Reason>,
}

/// The kernel and the privileges of this process; `None` where a value cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelState {
    /// Release of the kernel, as `uname -r`.
    pub release: Option<String>,
    /// The release as numbers.
    #[serde(skip)]
    pub version: Option<KernelVersion>,
    /// True when the kernel has BTF type information.
    pub btf: bool,
    /// True when ib_core has BTF of its own; `None` when the module is not there (built in, or not loaded).
    pub rdma_btf: Option<bool>,
    /// Facts of queue pairs that the kernel's types leave out; `None` when they cannot be read.
    pub qp_types: Option<Missing>,
    /// True when mlx5's loaded driver has the function by which commands past the verbs are followed; `None` when the
    /// kernel's symbols cannot be read, or it is not loaded.
    #[serde(skip)]
    pub follows_commands: Option<bool>,
    /// True when the kernel takes kprobes from perf; `None` when /sys/bus/event_source cannot be read.
    pub probes: Option<bool>,
    /// True when it takes uprobes; `None` as `probes`.
    pub uprobes: Option<bool>,
    /// True when firmware can be queried through fwctl.
    pub fwctl: bool,
    /// True when this process may read the memory of others (CAP_SYS_PTRACE).
    pub may_trace: Option<bool>,
    /// True when this process has CAP_SYS_ADMIN, which probes may need where `perf_event_paranoid` is above 2.
    pub may_administer: Option<bool>,
    /// Setting `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// Kernel lockdown: `none`, `integrity`, `confidentiality`; `None` when the kernel has none or it cannot be read.
    pub lockdown: Option<String>,
    /// True when the effective user is root.
    pub root: Option<bool>,
    /// The path of this executable; `None` when it no longer exists.
    pub program: Option<String>,
    /// Capabilities that `live` needs and this process lacks.
    pub missing_capabilities: Option<Vec<&'static str>>,
    /// True in the initial user namespace, in which capabilities permit eBPF.
    pub initial_user_namespace: Option<bool>,
    /// True in the initial PID namespace, whose numbers of processes programs in the kernel see.
    #[serde(skip)]
    pub initial_pid_namespace: Option<bool>,
    /// `net.core.bpf_jit_enable` is not 0.
    pub bpf_jit: Option<bool>,
    /// Setting `net.core.bpf_jit_harden`.
    pub bpf_jit_harden: Option<u64>,
    /// Setting `kernel.bpf_stats_enabled`.
    pub bpf_stats: Option<u64>,
    /// Setting `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<u32>,
    /// Parts of the sandbox that this kernel or container lacks, with what each means; `None` when it was not tried.
    pub sandbox_missing: Option<Vec<String>>,
    /// True when the host's libpcap has the RDMA sniffer; `None` when no libpcap was found.
    pub libpcap_sniffs: Option<bool>,
}

impl KernelState {
    /// The command that starts this program from a shell, also through sudo, whose search path
    /// contains neither ~/.cargo/bin nor a build directory.
    pub fn command(&self) -> String {
        const SEARCHED: [&str; 6] =
            ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let Some(program) = &self.program else { return "rocescope".into() };
        let is_searched = program.rsplit_once('/').is_some_and(|(folder, _)| SEARCHED.contains(&folder));
        if is_searched && program.ends_with("/rocescope") { "rocescope".into() } else { quoted(program) }
    }

    /// The path of this executable, quoted for a shell.
    pub fn file(&self) -> String {
        self.program.as_deref().map_or_else(|| "FILE-OF-ROCESCOPE".into(), quoted)
    }
}

/// A word quoted for a shell where it contains more than letters, digits and a few signs.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Facts of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InterfaceFacts {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub index: u32,
    /// Kind of the interface: `physical`, `veth`, `VLAN` …
    pub kind: String,
    /// Name of its kernel driver.
    pub driver: Option<String>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// True when the interface is up and can receive packets.
    pub up: bool,
    /// Link speed in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// RDMA devices that use it, or that use a bond it is a member of.
    pub devices: Vec<String>,
    /// The lower interfaces that carry its packets, if any: the members of a bond, the
    /// parent of a VLAN.
    pub below: Vec<String>,
    /// Attach mode of an XDP program on it.
    pub xdp: Option<&'static str>,
    /// Global pause settings.
    pub pause: Option<Pause>,
    /// Sizes of its rings.
    pub rings: Option<Rings>,
    /// Data centre bridging (DCB) settings.
    pub dcb: Option<Dcb>,
    /// PFC counters per priority.
    pub pause_counts: Option<PauseCounts>,
    /// Driver statistics with a meaning for RoCE.
    pub counters: Vec<Counter>,
    /// TC filters that an earlier run left behind.
    pub stale_filters: Option<usize>,
    /// The switch's LLDP announcement.
    pub neighbour: Option<Neighbour>,
}

impl InterfaceFacts {
    /// True when RoCE is plausible here: an RDMA device uses it, or it is a physical port with a
    /// link, such as a mirror destination. Others (veth, dummy, ifb, a port without a cable)
    /// carry RoCE only if it is deliberately sent there.
    pub fn is_place_for_roce(&self) -> bool {
        !self.devices.is_empty()
            || self.neighbour.is_some()
            || self.kind == "ipoib"
            || (self.up && self.kind == "physical")
    }
}

/// Facts of an RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceFacts {
    /// Name of the device.
    pub name: String,
    /// RDMA driver: `mlx5_ib`, `bnxt_re`, `irdma`, `rxe` …
    pub driver: Option<String>,
    /// True for Soft-RoCE, whose packets the kernel handles.
    pub software: bool,
    /// RDMA protocol of the device.
    pub protocol: Protocol,
    /// State of devlink's `enable_roce`; `None` when the driver does not report it.
    pub roce_enabled: Option<bool>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// True when programs can open it (`/dev/infiniband/uverbsN` exists).
    pub verbs: bool,
    /// Its PCI device; `None` for software devices.
    pub pci: Option<PciDevice>,
    /// Upstream bridges that redirect peer-to-peer traffic to the root complex (ACS).
    pub acs_redirect: Option<Vec<String>>,
    /// Ports of the device.
    pub ports: Vec<PortFacts>,
    /// Queue pairs in use.
    pub queue_pairs: Option<usize>,
    /// The NIC's context of one of them; `None` when it was not asked for, as no queue pair is connected.
    pub context: Option<ContextFacts>,
}

/// Answer to a query for the NIC's context of a queue pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContextFacts {
    /// Number of the queue pair.
    pub lqpn: u32,
    /// Length of the context in bytes; `None` when the kernel gave none.
    pub bytes: Option<u64>,
    /// Reason for which there is no context, or it was not decoded; `None` when it was.
    pub problem: Option<String>,
}

impl DeviceFacts {
    /// True for a hardware RoCE device.
    pub fn is_hardware_roce(&self) -> bool {
        self.protocol == Protocol::Roce && !self.software
    }

    /// True when its RoCE packets bypass XDP and TC: the hardware handles them, and
    /// RoCE is not disabled on the device.
    pub fn hides_packets(&self) -> bool {
        self.is_hardware_roce() && self.roce_enabled != Some(false)
    }
}

/// A port of an RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortFacts {
    /// Attributes from sysfs.
    #[serde(flatten)]
    pub port: Port,
    /// Largest RDMA path MTU in bytes, computed from the interface MTU as the kernel does.
    pub active_mtu: Option<u32>,
    /// RoCE settings: DCQCN, CNP, traffic class, trust mode.
    pub settings: RoceSettings,
    /// Counters of the port.
    pub counters: Vec<Counter>,
    /// Optional counters and their state; `None` when the kernel does not report them.
    pub optional_counters: Option<Vec<(String, bool)>>,
    /// Counter binding mode of queue pairs: `none`, `auto`, `manual`.
    pub qp_binding: Option<&'static str>,
}

impl PortFacts {
    /// Names of the disabled optional counters.
    pub fn optional_off(&self) -> Vec<&str> {
        let optional = self.optional_counters.iter().flatten();
        optional.filter(|(_, on)| !on).map(|(name, _)| name.as_str()).collect()
    }

    /// The command that enables all optional counters of this port of `device`. It replaces
    /// the current list.
    pub fn turn_on_optional(&self, device: &str) -> String {
        let all: Vec<&str> = self.optional_counters.iter().flatten().map(|(name, _)| name.as_str()).collect();
        let number = self.port.number;
        format!("rdma statistic set link {device}/{number} optional-counters {}", all.join(","))
    }
}

/// The cost of optional counters, as text.
pub const OPTIONAL_COST: &str =
    "each uses a flow rule and a flow counter of the NIC, and may reduce throughput";

/// Kernel support for GPUDirect RDMA.
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
    pub fn command(&self, arguments: &str) -> String {
        let netns = self.netns.as_deref().map(|name| format!(" --netns {}", quoted(name)));
        format!("{} {arguments}{}", self.kernel.command(), netns.unwrap_or_default())
    }

    /// The command that enters the examined namespace; `None` when it is that of this process.
    pub fn entering(&self) -> Option<String> {
        let name = self.netns.as_deref()?;
        let quoted = quoted(name);
        // In lookup order: a path, a PID (no namespace has a numeric name), a name.
        Some(match name {
            _ if name.starts_with('/') => format!("nsenter --net={quoted}"),
            _ if name.bytes().all(|b| b.is_ascii_digit()) => format!("nsenter -t {quoted} -n"),
            _ => format!("ip netns exec {quoted} bash"),
        })
    }

    /// RoCE ports, with their devices.
    pub fn roce_ports(&self) -> impl Iterator<Item = (&DeviceFacts, &PortFacts)> {
        let roce = self.devices.iter().filter(|device| device.protocol == Protocol::Roce);
        roce.flat_map(|device| device.ports.iter().map(move |port| (device, port)))
    }

    /// The interface of this name.
    pub fn interface(&self, name: &str) -> Option<&InterfaceFacts> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The interface of a port.
    pub fn interface_of(&self, port: &PortFacts) -> Option<&InterfaceFacts> {
        self.interface(port.port.interface.as_deref()?)
    }

    /// The physical interfaces that a port sends through: its own, or the members of the
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
