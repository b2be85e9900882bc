//! Prerequisites of `live`: kernel features, capabilities of this process, leftovers of earlier runs.

use super::{CheckList, Entry, Status};
use crate::doctor::facts::HostFacts;
use crate::host::kernel::{Capability, KernelVersion, OLDEST, PERFMON_SUFFICES};
use crate::host::net::hook::{FRAGS_SINCE, ONE_BUFFER_MTU, TCX_SINCE};

const HOST: &str = "host";

pub(super) const ENTRIES: &[Entry] = entries! {
    "kernel.version": "Kernel release. Warning below the oldest release that `live` supports.",
    "kernel.features": "Kernel features without which `live` uses a fallback: TC programs as links (TCX, 6.6), XDP on multi-buffer frames (5.18). Info when a feature is missing.",
    "kernel.btf": "Kernel type information (BTF, /sys/kernel/btf/vmlinux), required to load eBPF programs. Warning when it is missing.",
    "kernel.capabilities": "Capabilities of this process: CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (load and attach programs), CAP_NET_RAW (promiscuous mode, sniffer, LLDP). Warning when one of the first three is missing, info when only CAP_NET_RAW is missing; full root is not needed. Probes of queue pairs may need more: `kernel.perf_paranoid`.",
    "kernel.perf_paranoid": "sysctl kernel.perf_event_paranoid. Info above 2 when this process has CAP_PERFMON but not CAP_SYS_ADMIN: kernels of Debian (default 3) and Ubuntu (default 4) then refuse probes, and queue pairs are not followed by their control path.",
    "kernel.user_namespace": "User namespace of this process. eBPF requires capabilities in the initial user namespace; warning in any other, such as a rootless container.",
    "kernel.bpf_jit": "sysctl net.core.bpf_jit_enable. Warning at 0: programs are interpreted, at several times the cost per packet.",
    "kernel.bpf_jit_harden": "sysctl net.core.bpf_jit_harden. Info at 2, which also hardens, and slows down, programs loaded by root.",
    "kernel.bpf_stats": "sysctl kernel.bpf_stats_enabled. Info at 1: the kernel then reads the clock twice per program run.",
    "kernel.unprivileged_bpf": "sysctl kernel.unprivileged_bpf_disabled. Info when it prevents this process, which lacks CAP_BPF, from loading programs.",
    "kernel.sandbox": "Sandbox in which every command that reads data of others runs after set-up, tried here: no new privileges, capabilities, user, Landlock, seccomp. Info when this kernel or container lacks a part.",
    "filters.stale": "TC filters that a killed rocescope process left on an interface (kernels before 6.6). Warning for each such interface.",
};

pub(super) fn check(facts: &HostFacts, checks: &mut CheckList) {
    let kernel = &facts.kernel;
    match (kernel.version, &kernel.release) {
        (Some(version), Some(release)) if version < OLDEST => checks.say(
            ("kernel.version", Status::Warning),
            HOST,
            release,
            format!("`rocescope live` needs {OLDEST} or newer; counters and `replay` work"),
            format!("boot kernel {OLDEST} or newer"),
        ),
        (Some(_), Some(release)) => checks.ok("kernel.version", HOST, release),
        _ => checks.unknown("kernel.version", HOST, "/proc/sys/kernel/osrelease cannot be read"),
    }
    if let Some(version) = kernel.version.filter(|version| *version >= OLDEST) {
        features(version, checks);
    }
    if kernel.btf {
        checks.ok("kernel.btf", HOST, "present");
    } else {
        checks.say(
            ("kernel.btf", Status::Warning),
            HOST,
            "absent",
            "rocescope's eBPF programs do not load without BTF",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, such as the distribution's",
        );
    }
    capabilities(facts, checks);
    probes(facts, checks);
    match kernel.sandbox_missing.as_deref() {
        None => {}
        Some([]) => checks.ok("kernel.sandbox", HOST, "all parts"),
        Some(missing) => checks.say(
            ("kernel.sandbox", Status::Info),
            HOST,
            missing.join("; "),
            "a parser that is taken over by hostile packets could do more",
            "",
        ),
    }
    sysctls(facts, checks);
    stale_filters(facts, checks);
}

fn features(version: KernelVersion, checks: &mut CheckList) {
    const ID: &str = "kernel.features";
    let mut lesser = Vec::new();
    if version < TCX_SINCE {
        lesser.push(format!(
            "no TCX ({TCX_SINCE}): TC programs are attached as filters of a clsact qdisc, which remain after kill -9 until the next run or `doctor --clean`"
        ));
    }
    if version < FRAGS_SINCE {
        lesser.push(format!(
            "no XDP on multi-buffer frames ({FRAGS_SINCE}): TC is used when the MTU exceeds {ONE_BUFFER_MTU}"
        ));
    }
    if lesser.is_empty() {
        checks.ok(ID, HOST, "all available");
    } else {
        let why = "`live` works, with identical counts";
        checks.say((ID, Status::Info), HOST, lesser.join("; "), why, "");
    }
}

/// Interfaces without leftovers share one entry: hosts with containers have hundreds.
fn stale_filters(facts: &HostFacts, checks: &mut CheckList) {
    const ID: &str = "filters.stale";
    let mut clean = 0;
    let mut unknown = Vec::new();
    for interface in &facts.interfaces {
        match interface.stale_filters {
            Some(0) => clean += 1,
            Some(count) => checks.say(
                (ID, Status::Warning),
                &interface.name,
                count.to_string(),
                "a killed rocescope process left TC filters that still run",
                facts.command("doctor --clean"),
            ),
            None => unknown.push(interface.name.as_str()),
        }
    }
    match clean {
        0 => {}
        1 => checks.ok(ID, HOST, "none (1 interface)"),
        _ => checks.ok(ID, HOST, format!("none ({clean} interfaces)")),
    }
    if !unknown.is_empty() {
        let why = format!("the TC filters of {} cannot be listed", unknown.join(", "));
        checks.unknown(ID, HOST, &why);
    }
}

/// The remedy for missing capabilities.
fn rights(facts: &HostFacts, missing: &[&str]) -> String {
    if facts.kernel.root == Some(true) {
        // Root lacks capabilities only in a container.
        let flags = missing.iter().map(|name| format!("--cap-add={}", name.trim_start_matches("CAP_")));
        let flags: Vec<String> = flags.collect();
        return format!(
            "root lacks them in this container: start it with {} (docker, podman), or --privileged",
            flags.join(" ")
        );
    }
    format!(
        "run it with sudo (sudo {} ..), or grant the file capabilities: sudo setcap cap_bpf,cap_net_admin,cap_perfmon,cap_net_raw+ep {}",
        facts.kernel.command(),
        facts.kernel.file()
    )
}

fn capabilities(facts: &HostFacts, checks: &mut CheckList) {
    let missing = facts.kernel.missing_capabilities.as_deref();
    match missing {
        Some([]) => checks.ok("kernel.capabilities", HOST, "all required ones present"),
        Some(missing @ ["CAP_NET_RAW"]) => checks.say(
            ("kernel.capabilities", Status::Info),
            HOST,
            "CAP_NET_RAW missing",
            "`rocescope live` works without promiscuous mode; the RDMA sniffer and LLDP are not available",
            rights(facts, missing),
        ),
        Some(missing) => checks.say(
            ("kernel.capabilities", Status::Warning),
            HOST,
            format!("{} missing", missing.join(", ")),
            "`rocescope live` cannot attach, and some checks remain unknown",
            rights(facts, missing),
        ),
        None => checks.unknown("kernel.capabilities", HOST, "/proc/self/status cannot be read"),
    }
    match facts.kernel.initial_user_namespace {
        Some(true) => checks.ok("kernel.user_namespace", HOST, "initial"),
        Some(false) => checks.say(
            ("kernel.user_namespace", Status::Warning),
            HOST,
            "not the initial one",
            "capabilities of this user namespace do not permit eBPF",
            "run rocescope on the host, or in a privileged container without user namespaces",
        ),
        None => checks.unknown("kernel.user_namespace", HOST, "/proc/self/uid_map cannot be read"),
    }
    let lacks_bpf = missing.is_some_and(|missing| missing.contains(&"CAP_BPF"));
    match facts.kernel.unprivileged_bpf_disabled {
        Some(disabled) if disabled != 0 && lacks_bpf => checks.say(
            ("kernel.unprivileged_bpf", Status::Info),
            HOST,
            disabled.to_string(),
            "this process lacks CAP_BPF and may not load programs",
            "grant it CAP_BPF; kernel.unprivileged_bpf_disabled=0 would open eBPF to every user",
        ),
        Some(0) => checks.ok("kernel.unprivileged_bpf", HOST, "0, eBPF open to every user"),
        Some(disabled) => {
            checks.ok("kernel.unprivileged_bpf", HOST, format!("{disabled}, eBPF requires CAP_BPF"));
        }
        None => checks.unknown(
            "kernel.unprivileged_bpf",
            HOST,
            "/proc/sys/kernel/unprivileged_bpf_disabled cannot be read",
        ),
    }
}

/// Checks who may attach probes. Without any of the three capabilities, `kernel.capabilities` has the reason.
fn probes(facts: &HostFacts, checks: &mut CheckList) {
    const ID: &str = "kernel.perf_paranoid";
    let kernel = &facts.kernel;
    let missing = kernel.missing_capabilities.as_deref().unwrap_or_default();
    let has_perfmon = !missing.contains(&Capability::Perfmon.name());
    match kernel.perf_event_paranoid {
        Some(level) if level <= PERFMON_SUFFICES => {
            checks.ok(ID, HOST, format!("{level}, CAP_PERFMON suffices for probes"));
        }
        Some(level) if kernel.may_administer == Some(false) && has_perfmon => checks.say(
            (ID, Status::Info),
            HOST,
            level.to_string(),
            "kernels of Debian and Ubuntu then refuse probes without CAP_SYS_ADMIN: `live` and the agent count packets, and do not follow queue pairs by their control path",
            "sysctl kernel.perf_event_paranoid=2 (in /etc/sysctl.d/ to keep it), or run it as root",
        ),
        Some(level) => checks.ok(
            ID,
            HOST,
            format!("{level}, kernels of Debian and Ubuntu require CAP_SYS_ADMIN for probes"),
        ),
        None => checks.unknown(ID, HOST, "/proc/sys/kernel/perf_event_paranoid cannot be read"),
    }
}

fn sysctls(facts: &HostFacts, checks: &mut CheckList) {
    let kernel = &facts.kernel;
    match kernel.bpf_jit {
        Some(true) => checks.ok("kernel.bpf_jit", HOST, "on"),
        Some(false) => checks.say(
            ("kernel.bpf_jit", Status::Warning),
            HOST,
            "off",
            "programs are interpreted, at several times the cost per packet",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        None => checks.unknown(
            "kernel.bpf_jit",
            HOST,
            "only root in the initial network namespace can read net.core.bpf_jit_enable",
        ),
    }
    match kernel.bpf_jit_harden {
        Some(2) => checks.say(
            ("kernel.bpf_jit_harden", Status::Info),
            HOST,
            "2",
            "constants are blinded in programs loaded by root too, which raises the cost per packet",
            "sysctl net.core.bpf_jit_harden=1 while measuring, if your security policy permits",
        ),
        Some(0) => checks.ok("kernel.bpf_jit_harden", HOST, "0, off"),
        Some(value) => {
            checks.ok("kernel.bpf_jit_harden", HOST, format!("{value}, unprivileged programs only"));
        }
        None => checks.unknown(
            "kernel.bpf_jit_harden",
            HOST,
            "only root in the initial network namespace can read net.core.bpf_jit_harden",
        ),
    }
    match kernel.bpf_stats {
        Some(1) => checks.say(
            ("kernel.bpf_stats", Status::Info),
            HOST,
            "1",
            "the kernel reads the clock twice per program run",
            "sysctl kernel.bpf_stats_enabled=0",
        ),
        Some(value) => checks.ok("kernel.bpf_stats", HOST, format!("{value}, off")),
        None => checks.unknown("kernel.bpf_stats", HOST, "kernel.bpf_stats_enabled cannot be read"),
    }
}
