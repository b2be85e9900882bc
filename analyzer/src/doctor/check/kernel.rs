//! Whether rocescope can work here: the kernel, the rights of this process, what earlier runs left.

use super::{Entry, Sheet, Verdict};
use crate::doctor::facts::HostFacts;
use crate::host::hook::{FRAGS_SINCE, ONE_BUFFER_MTU, TCX_SINCE};
use crate::host::kernel::{KernelVersion, OLDEST};

const HOST: &str = "host";

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "kernel.version",
        about: "Release of the kernel. A warning below the oldest that `live` is made for.",
    },
    Entry {
        id: "kernel.features",
        about: "What `live` does in a lesser way because the kernel is too old for it: TC programs as links (TCX, 6.6), XDP on frames of several buffers (5.18). Info when something is missing.",
    },
    Entry {
        id: "kernel.btf",
        about: "Whether the kernel describes its types (/sys/kernel/btf/vmlinux), which loading eBPF programs needs. A warning without.",
    },
    Entry {
        id: "kernel.capabilities",
        about: "Whether this process holds CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (to load and attach) and CAP_NET_RAW (promiscuous mode, sniffer, LLDP). A warning when one of the first three is missing, info when only CAP_NET_RAW is; full root is not needed.",
    },
    Entry {
        id: "kernel.user_namespace",
        about: "Capabilities count for eBPF in the first user namespace only. A warning in another, as in a rootless container.",
    },
    Entry {
        id: "kernel.bpf_jit",
        about: "sysctl net.core.bpf_jit_enable. A warning at 0: programs are interpreted and cost several times as much per packet.",
    },
    Entry {
        id: "kernel.bpf_jit_harden",
        about: "sysctl net.core.bpf_jit_harden. Info at 2, which makes the programs of root slower too.",
    },
    Entry {
        id: "kernel.bpf_stats",
        about: "sysctl kernel.bpf_stats_enabled. Info at 1: the kernel then reads the clock twice for every run of every program.",
    },
    Entry {
        id: "kernel.unprivileged_bpf",
        about: "sysctl kernel.unprivileged_bpf_disabled, the sysctl that stands in the way of a process without CAP_BPF. Info when it does.",
    },
    Entry {
        id: "filters.stale",
        about: "TC filters that a killed run of rocescope left on an interface (kernels before 6.6). A warning for each that has any.",
    },
];

pub(super) fn check(facts: &HostFacts, sheet: &mut Sheet) {
    let kernel = &facts.kernel;
    match (kernel.version, &kernel.release) {
        (Some(version), Some(release)) if version < OLDEST => sheet.say(
            ("kernel.version", Verdict::Warning),
            HOST,
            release,
            format!("`rocescope live` needs {OLDEST} or newer; counters and `replay` work"),
            format!("boot a kernel from {OLDEST} on"),
        ),
        (Some(_), Some(release)) => sheet.ok("kernel.version", HOST, release),
        _ => sheet.unknown("kernel.version", HOST, "/proc/sys/kernel/osrelease cannot be read"),
    }
    if let Some(version) = kernel.version.filter(|version| *version >= OLDEST) {
        features(version, sheet);
    }
    if kernel.btf {
        sheet.ok("kernel.btf", HOST, "present");
    } else {
        sheet.say(
            ("kernel.btf", Verdict::Warning),
            HOST,
            "absent",
            "without type information no eBPF program of ours loads",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as those of the distributions are",
        );
    }
    capabilities(facts, sheet);
    sysctls(facts, sheet);
    stale_filters(facts, sheet);
}

fn features(version: KernelVersion, sheet: &mut Sheet) {
    const ID: &str = "kernel.features";
    let mut lesser = Vec::new();
    if version < TCX_SINCE {
        lesser.push(format!(
            "no TCX ({TCX_SINCE}): TC programs are filters of a clsact queueing discipline, which a kill -9 leaves behind until the next run or `doctor --clean`"
        ));
    }
    if version < FRAGS_SINCE {
        lesser.push(format!(
            "no XDP on frames of several buffers ({FRAGS_SINCE}): with an MTU above {ONE_BUFFER_MTU} TC is used instead"
        ));
    }
    if lesser.is_empty() {
        sheet.ok(ID, HOST, "all that `live` uses");
    } else {
        let why = "`live` works and counts the same";
        sheet.say((ID, Verdict::Info), HOST, lesser.join("; "), why, "");
    }
}

/// What is as it should be is said of all interfaces at once: hosts with containers have hundreds.
fn stale_filters(facts: &HostFacts, sheet: &mut Sheet) {
    const ID: &str = "filters.stale";
    let mut clean = 0;
    let mut unknown = Vec::new();
    for interface in &facts.interfaces {
        match interface.stale_filters {
            Some(0) => clean += 1,
            Some(count) => sheet.say(
                (ID, Verdict::Warning),
                &interface.name,
                count.to_string(),
                "an earlier run of rocescope was killed and its TC filters still run",
                facts.command("doctor --clean"),
            ),
            None => unknown.push(interface.name.as_str()),
        }
    }
    match clean {
        0 => {}
        1 => sheet.ok(ID, HOST, "none on 1 interface"),
        _ => sheet.ok(ID, HOST, format!("none on {clean} interfaces")),
    }
    if !unknown.is_empty() {
        let why = format!("the kernel does not list the TC filters of {}", unknown.join(", "));
        sheet.unknown(ID, HOST, &why);
    }
}

/// How this process comes by its capabilities.
fn rights(facts: &HostFacts, missing: &[&str]) -> String {
    if facts.kernel.root == Some(true) {
        // Root without them is root in a container.
        let flags = missing.iter().map(|name| format!("--cap-add={}", name.trim_start_matches("CAP_")));
        let flags: Vec<String> = flags.collect();
        return format!(
            "root has been denied them here: start the container with {} (docker, podman), or --privileged",
            flags.join(" ")
        );
    }
    format!(
        "run it with sudo (sudo {} ..), or give the file its rights: sudo setcap cap_bpf,cap_net_admin,cap_perfmon,cap_net_raw+ep {}",
        facts.kernel.command(),
        facts.kernel.file()
    )
}

fn capabilities(facts: &HostFacts, sheet: &mut Sheet) {
    let missing = facts.kernel.missing_capabilities.as_deref();
    match missing {
        Some([]) => sheet.ok("kernel.capabilities", HOST, "all that are needed"),
        Some(missing @ ["CAP_NET_RAW"]) => sheet.say(
            ("kernel.capabilities", Verdict::Info),
            HOST,
            "without CAP_NET_RAW",
            "`rocescope live` attaches, but not in promiscuous mode; neither the RDMA sniffer nor LLDP can be had",
            rights(facts, missing),
        ),
        Some(missing) => sheet.say(
            ("kernel.capabilities", Verdict::Warning),
            HOST,
            format!("without {}", missing.join(", ")),
            "`rocescope live` cannot attach here, and parts of this page stay unknown",
            rights(facts, missing),
        ),
        None => sheet.unknown("kernel.capabilities", HOST, "/proc/self/status cannot be read"),
    }
    match facts.kernel.initial_user_namespace {
        Some(true) => sheet.ok("kernel.user_namespace", HOST, "the first"),
        Some(false) => sheet.say(
            ("kernel.user_namespace", Verdict::Warning),
            HOST,
            "not the first",
            "capabilities held here do not allow eBPF, whatever their names",
            "run rocescope on the host, or in a privileged container without user namespaces",
        ),
        None => sheet.unknown("kernel.user_namespace", HOST, "/proc/self/uid_map cannot be read"),
    }
    let lacks_bpf = missing.is_some_and(|missing| missing.contains(&"CAP_BPF"));
    match facts.kernel.unprivileged_bpf_disabled {
        Some(disabled) if disabled != 0 && lacks_bpf => sheet.say(
            ("kernel.unprivileged_bpf", Verdict::Info),
            HOST,
            disabled.to_string(),
            "without CAP_BPF this process may not load programs",
            "give it CAP_BPF rather than set kernel.unprivileged_bpf_disabled to 0, which opens eBPF to everybody",
        ),
        Some(0) => sheet.ok("kernel.unprivileged_bpf", HOST, "0, eBPF for everybody"),
        Some(disabled) => sheet.ok("kernel.unprivileged_bpf", HOST, format!("{disabled}, eBPF with CAP_BPF alone")),
        None => sheet.unknown(
            "kernel.unprivileged_bpf",
            HOST,
            "/proc/sys/kernel/unprivileged_bpf_disabled cannot be read",
        ),
    }
}

fn sysctls(facts: &HostFacts, sheet: &mut Sheet) {
    let kernel = &facts.kernel;
    match kernel.bpf_jit {
        Some(true) => sheet.ok("kernel.bpf_jit", HOST, "on"),
        Some(false) => sheet.say(
            ("kernel.bpf_jit", Verdict::Warning),
            HOST,
            "off",
            "programs are interpreted and cost several times as much per packet",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        None => sheet.unknown(
            "kernel.bpf_jit",
            HOST,
            "net.core.bpf_jit_enable shows to root alone, and in the first network namespace alone",
        ),
    }
    match kernel.bpf_jit_harden {
        Some(2) => sheet.say(
            ("kernel.bpf_jit_harden", Verdict::Info),
            HOST,
            "2",
            "constants are blinded in the programs of root too, which makes each packet dearer",
            "sysctl net.core.bpf_jit_harden=1 while measuring, if your rules allow it",
        ),
        Some(0) => sheet.ok("kernel.bpf_jit_harden", HOST, "0, off"),
        Some(value) => sheet.ok("kernel.bpf_jit_harden", HOST, format!("{value}, for unprivileged programs")),
        None => sheet.unknown(
            "kernel.bpf_jit_harden",
            HOST,
            "net.core.bpf_jit_harden shows to root alone, and in the first network namespace alone",
        ),
    }
    match kernel.bpf_stats {
        Some(1) => sheet.say(
            ("kernel.bpf_stats", Verdict::Info),
            HOST,
            "1",
            "the kernel reads the clock twice for each run of each program",
            "sysctl kernel.bpf_stats_enabled=0",
        ),
        Some(value) => sheet.ok("kernel.bpf_stats", HOST, format!("{value}, off")),
        None => sheet.unknown("kernel.bpf_stats", HOST, "kernel.bpf_stats_enabled cannot be read"),
    }
}
