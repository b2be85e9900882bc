//! Prerequisites of attaching programs: kernel release, BTF, capabilities.

pub mod btf;
pub mod clock;
pub mod fdinfo;

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::host::error::{HostError, Result};
pub use crate::util::system::KernelVersion;

/// The oldest supported kernel. On aarch64 that is the first which can translate the programs' atomic operations.
pub const OLDEST: KernelVersion =
    if cfg!(target_arch = "x86_64") { KernelVersion::new(5, 15, 0) } else { KernelVersion::new(5, 18, 0) };

/// A capability of linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernel's own names")]
pub enum Capability {
    DacOverride = 1,
    DacReadSearch = 2,
    Kill = 5,
    NetAdmin = 12,
    NetRaw = 13,
    SysPtrace = 19,
    SysAdmin = 21,
    Perfmon = 38,
    Bpf = 39,
    CheckpointRestore = 40,
}

impl Capability {
    /// Name in the kernel, such as `CAP_NET_ADMIN`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::Kill => "CAP_KILL",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
            Self::CheckpointRestore => "CAP_CHECKPOINT_RESTORE",
        }
    }
}

/// The effective capabilities of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// The `CapEff` line of a `/proc/PID/status`.
    pub fn parse(status: &str) -> Option<Self> {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Self)
    }

    /// True if it includes this one. CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON, as in the kernel.
    pub fn has(self, capability: Capability) -> bool {
        let bit = |c: Capability| self.0 >> (c as u32) & 1 == 1;
        let implied = matches!(capability, Capability::Bpf | Capability::Perfmon);
        bit(capability) || implied && bit(Capability::SysAdmin)
    }
}

/// Facts about the kernel and the privileges of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFacts {
    /// The release, as printed by `uname -r`; `None` if unreadable.
    pub release: Option<String>,
    /// The version numbers in it.
    pub version: Option<KernelVersion>,
    /// True if the kernel has BTF type information.
    pub btf: bool,
    /// Effective capabilities; `None` if unreadable.
    pub capabilities: Option<Capabilities>,
    /// True if they are those of the initial user namespace, as eBPF requires; `None` if unreadable.
    pub initial_user_namespace: Option<bool>,
    /// `kernel.unprivileged_bpf_disabled`: 0 allowed, 1 and 2 not; `None` if unreadable.
    pub unprivileged_bpf_disabled: Option<u32>,
    /// True if BPF programs are JIT-compiled (`net.core.bpf_jit_enable` not 0); `None` if unreadable (only root may
    /// read it, or the JIT is always on).
    pub jit: Option<bool>,
}

impl KernelFacts {
    /// Reads the facts below `root` (`/`, or a recorded tree).
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| text(path).and_then(|text| text.trim().parse::<u32>().ok());
        let release = text("proc/sys/kernel/osrelease").map(|text| text.trim().to_owned());
        Self {
            version: release.as_deref().and_then(KernelVersion::parse),
            release,
            btf: root.join("sys/kernel/btf/vmlinux").exists(),
            // Of this thread, since other threads may have dropped theirs. A recorded tree has those of the process.
            capabilities: text("proc/thread-self/status")
                .or_else(|| text("proc/self/status"))
                .as_deref()
                .and_then(Capabilities::parse),
            initial_user_namespace: text("proc/self/uid_map").as_deref().map(maps_every_user),
            unprivileged_bpf_disabled: number("proc/sys/kernel/unprivileged_bpf_disabled"),
            jit: number("proc/sys/net/core/bpf_jit_enable").map(|enabled| enabled != 0),
        }
    }
}

/// True for the `/proc/self/uid_map` of the initial user namespace, the only one that maps the whole range of IDs
/// onto itself.
pub fn maps_every_user(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The sysctl that decides who may call perf_event_open.
pub const PERF_EVENT_PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// The highest level of [`PERF_EVENT_PARANOID`] at which CAP_PERFMON is sufficient for a probe on every kernel. Kernels
/// of Debian and Ubuntu have levels above it, for which CAP_SYS_ADMIN is needed.
pub const PERFMON_SUFFICES: i64 = 2;

/// The level of [`PERF_EVENT_PARANOID`] below `root`, if it is one for which a probe may need CAP_SYS_ADMIN.
pub fn perf_for_administrators(root: &Path) -> Option<i64> {
    let level = fs::read_to_string(root.join(PERF_EVENT_PARANOID.trim_start_matches('/'))).ok()?;
    level.trim().parse::<i64>().ok().filter(|level| *level > PERFMON_SUFFICES)
}

/// Privileges that a run needs in addition to loading and attaching programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrivilegeNeeds {
    /// Entering or creating network namespaces.
    pub netns: bool,
}

/// Checks the prerequisites of attaching. Facts that could not be read are assumed to be fine: if not, the kernel
/// refuses.
///
/// # Errors
/// A sentence for the user with the missing prerequisite.
pub fn preflight(facts: &KernelFacts, needs: PrivilegeNeeds) -> Result<()> {
    if let Some(capabilities) = facts.capabilities {
        let mut wanted = vec![Capability::Bpf, Capability::NetAdmin, Capability::Perfmon];
        wanted.extend(needs.netns.then_some(Capability::SysAdmin));
        wanted.retain(|capability| !capabilities.has(*capability));
        let missing: Vec<&str> = wanted.iter().map(|capability| capability.name()).collect();
        if !missing.is_empty() {
            return Err(HostError::Unfit(format!(
                "cannot load and attach eBPF programs: this process lacks {}; run it as root (sudo), or grant \
                 it these capabilities (rocescope replay needs none)",
                missing.join(", ")
            )));
        }
    }
    if facts.initial_user_namespace == Some(false) {
        return Err(HostError::Unfit(
            "cannot load eBPF programs: this process is in a user namespace, whose capabilities do not permit it; run \
             it on the host, or in a privileged container without user namespaces (rocescope replay needs neither)"
                .to_owned(),
        ));
    }
    if let (Some(version), Some(release)) = (facts.version, &facts.release)
        && version < OLDEST
    {
        return Err(HostError::Unfit(format!(
            "rocescope live needs kernel {OLDEST} or newer, this is {release}; capture with tcpdump on \
             this host and analyze the file with rocescope replay"
        )));
    }
    if !facts.btf {
        return Err(HostError::Unfit(
            "cannot load eBPF programs: this kernel has no BTF type information (/sys/kernel/btf/vmlinux); \
             use a kernel built with CONFIG_DEBUG_INFO_BTF=y, such as the distribution's"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Raises the limit on locked memory, to which some kernel configurations (all before 5.11) charge eBPF maps.
///
/// # Errors
/// If the kernel refuses; loading may succeed nevertheless.
pub fn raise_memlock() -> Result<()> {
    // `None` means no limit.
    setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })
        .map_err(|error| HostError::system("raise the limit on locked memory (RLIMIT_MEMLOCK)", error.into()))
}

#[cfg(test)]
mod tests;
