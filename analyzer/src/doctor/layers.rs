//! The layers that show queue pairs of NICs that do RoCE themselves: which of them works here, why not, and what it
//! would need.
//!
//! A layer is a function from facts to a [`Layer`] in the list of [`of_host`].

use std::collections::BTreeSet;

use serde::Serialize;

use super::facts::{ContextFacts, DeviceFacts, HostFacts, KernelState, Protocol};
use super::visibility::Availability;
use crate::host::kernel::{Capability, KernelVersion, PERFMON_SUFFICES};
use crate::host::process;
use crate::host::process::nccl::PORT;
use crate::host::rdma::fwctl::BNXT_REFUSES;
use crate::host::rdma::mlx5_command::{FUNCTION, FUNCTION_SINCE, REASONS_SINCE};
use crate::host::rdma::qp_context;
use crate::util::source_port::{is_computed, why_unknown};
use crate::util::units;

/// RDMA netlink hands out contexts since this kernel.
const CONTEXTS_SINCE: KernelVersion = KernelVersion::new(5, 9, 0);

/// Advice where the kernel lacks the structures of modules.
const TYPES_OF_MODULES: &str = "use a kernel with CONFIG_DEBUG_INFO_BTF_MODULES=y, and modules built with it";

/// A layer, and its state on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Name of the layer.
    pub name: &'static str,
    /// Availability on this host.
    pub works: Availability,
    /// The reason, and what it would need, in one sentence.
    pub reason: String,
}

/// The layers, in the order of what they need; none without a RoCE device.
pub fn of_host(facts: &HostFacts) -> Vec<Layer> {
    let devices: Vec<&DeviceFacts> =
        facts.devices.iter().filter(|device| device.protocol == Protocol::Roce).collect();
    if devices.is_empty() {
        return Vec::new();
    }
    let layer = |name, (works, reason): (Availability, String)| Layer { name, works, reason };
    vec![
        layer("QP lives", lives(facts)),
        layer("computed ports", ports(facts, &devices)),
        layer("QP context", contexts(facts, &devices)),
        layer("error reasons", reasons(facts, &devices)),
        layer("DEVX QPs", commands(facts, &devices)),
        layer("fwctl", firmware(facts, &devices)),
        layer("NCCL RAS", ras(facts)),
        layer("message sizes", posts(facts)),
    ]
}

/// The first of these capabilities that this process lacks.
fn lacking(facts: &HostFacts, needed: &[Capability]) -> Option<&'static str> {
    let missing = facts.kernel.missing_capabilities.as_deref().unwrap_or_default();
    needed.iter().map(|capability| capability.name()).find(|name| missing.contains(name))
}

/// The reason why the kernel may refuse probes to a process with CAP_PERFMON.
fn for_administrators(facts: &HostFacts) -> Option<String> {
    let level = facts.kernel.perf_event_paranoid.filter(|level| *level > PERFMON_SUFFICES)?;
    let may = facts.kernel.may_administer.unwrap_or(true);
    (!may).then(|| {
        format!("kernel.perf_event_paranoid is {level}, for which kernels of Debian and Ubuntu want CAP_SYS_ADMIN: set it to 2, or run it as root")
    })
}

/// Availability of the RAS service of NCCL, with the reason.
fn ras(facts: &HostFacts) -> (Availability, String) {
    let (works, here) = match facts.ras_listens {
        Some(true) => (
            Availability::Yes,
            format!("something listens on port {PORT}, and `live --nccl-ras` (opt-in) asks it"),
        ),
        Some(false) => (
            Availability::No,
            format!(
                "nothing listens on port {PORT} of this network namespace now; `live --nccl-ras` needs a running job with NCCL 2.24 or \
                 newer (see NCCL_RAS_ADDR, NCCL_RAS_ENABLE)"
            ),
        ),
        None => (
            Availability::Perhaps,
            format!("`live --nccl-ras` (opt-in) asks NCCL 2.24 and newer on localhost:{PORT}"),
        ),
    };
    (works, format!("{here}; tested with NCCL's own RAS code, without GPUs"))
}

/// Why the kernel takes no probe at all.
fn no_probes(kernel: &KernelState) -> Option<&'static str> {
    if kernel.lockdown.as_deref() == Some("confidentiality") {
        return Some("kernel lockdown is `confidentiality`, which forbids probes that read memory");
    }
    (kernel.initial_user_namespace == Some(false)).then_some("eBPF needs the initial user namespace")
}

/// Uprobes of providers' `post_send`.
fn posts(facts: &HostFacts) -> (Availability, String) {
    let kernel = &facts.kernel;
    let no = |reason: String| (Availability::No, reason);
    if kernel.uprobes == Some(false) {
        return no("the kernel has no uprobes; use one built with CONFIG_UPROBE_EVENTS=y".to_owned());
    }
    if let Some(forbidden) = no_probes(kernel) {
        return no(forbidden.to_owned());
    }
    let untraced = (kernel.may_trace == Some(false)).then_some(Capability::SysPtrace.name());
    if let Some(missing) = lacking(facts, &[Capability::Bpf, Capability::Perfmon]).or(untraced) {
        return no(format!("{missing} is missing: run it as root (sudo)"));
    }
    if let Some(refused) = for_administrators(facts) {
        return (Availability::Perhaps, refused);
    }
    let works = if kernel.uprobes.is_none() { Availability::Perhaps } else { Availability::Yes };
    let reason = "`live --sample-posts` probes the post_send of processes (opt-in), which those that post by ibv_wr_* or a \
                  GPU do not call; tested with Soft-RoCE, not on hardware";
    (works, reason.to_owned())
}

/// Kprobes on the control path.
fn lives(facts: &HostFacts) -> (Availability, String) {
    let kernel = &facts.kernel;
    let no = |reason: &str| (Availability::No, reason.to_owned());
    if !kernel.btf {
        return no("the kernel has no BTF; use one built with CONFIG_DEBUG_INFO_BTF=y");
    }
    if kernel.probes == Some(false) {
        return no(
            "the kernel has no kprobes; use one built with CONFIG_KPROBES=y and CONFIG_KPROBE_EVENTS=y",
        );
    }
    if let Some(forbidden) = no_probes(kernel) {
        return no(forbidden);
    }
    if let Some(missing) = lacking(facts, &[Capability::Bpf, Capability::Perfmon]) {
        return (Availability::No, format!("{missing} is missing: run it as root (sudo)"));
    }
    if let Some(refused) = for_administrators(facts) {
        return (Availability::Perhaps, refused);
    }
    if let Some(needed) = kernel.qp_types.as_ref().and_then(|types| types.needed.as_ref()) {
        return (Availability::No, format!("the kernel's BTF has no {needed}; {TYPES_OF_MODULES}"));
    }
    let modules = match kernel.rdma_btf {
        Some(true) => "kprobes, BTF of the kernel and of ib_core",
        _ => {
            "kprobes and BTF of the kernel; ib_core has no BTF of its own, which suffices if it is built into the kernel or vmlinux's BTF has its structures"
        }
    };
    let works = if kernel.probes.is_none() { Availability::Perhaps } else { Availability::Yes };
    let fields = kernel.qp_types.as_ref().map_or(&[][..], |types| &types.fields);
    let unknown = if fields.is_empty() {
        String::new()
    } else {
        format!("; not known here, since the kernel has no such fields: {}", fields.join(", "))
    };
    let unseen = match kernel.initial_pid_namespace {
        Some(false) => format!("; {}", process::NO_OWN_QUERIES),
        _ => String::new(),
    };
    (works, format!("{modules}{unknown}{unseen}; tested with Soft-RoCE, not on hardware"))
}

/// Error reasons that drivers give of queue pairs in the error state.
fn reasons(facts: &HostFacts, devices: &[&DeviceFacts]) -> (Availability, String) {
    let has = |driver: &str| devices.iter().any(|device| device.driver.as_deref() == Some(driver));
    let mut parts = Vec::new();
    if has("mlx5_ib") {
        parts.push("the error syndrome of mlx5's firmware (kernel 6.4 and newer)");
    }
    if has("bnxt_re") {
        parts.push("the reasons of bnxt_re's firmware by a kprobe of its handler, tested with notifications made by hand");
    }
    if parts.is_empty() {
        return (Availability::No, "only mlx5 and bnxt_re give a reason for a QP's error state".to_owned());
    }
    if lives(facts).0 == Availability::No {
        return (Availability::No, "they need the QP lives, which are not available here".to_owned());
    }
    let types = facts.kernel.qp_types.as_ref();
    let with_types = |why: &String| format!("{why}; {TYPES_OF_MODULES}");
    let of_mlx5 = || types.and_then(|types| types.mlx5.as_ref()).map(with_types);
    let is_old = |version: KernelVersion| version < REASONS_SINCE;
    let too_old = facts.kernel.version.filter(|version| is_old(*version)).map(|version| {
        format!("mlx5's driver asks for them in kernel {REASONS_SINCE} and newer (here: {version}), or where it was backported")
    });
    let of_mlx5 = too_old.or_else(of_mlx5).filter(|_| has("mlx5_ib"));
    let of_bnxt = types.and_then(|types| types.bnxt.as_ref()).filter(|_| has("bnxt_re")).map(with_types);
    let lacks: Vec<String> = [of_mlx5, of_bnxt].into_iter().flatten().collect();
    if lacks.len() == parts.len() {
        return (Availability::No, lacks.join("; "));
    }
    let lacks = lacks.iter().map(String::as_str);
    parts.extend(lacks);
    (Availability::Perhaps, format!("{}; not run on hardware", parts.join("; ")))
}

/// Commands to the firmware, past the verbs.
fn commands(facts: &HostFacts, devices: &[&DeviceFacts]) -> (Availability, String) {
    if !devices.iter().any(|device| device.driver.as_deref() == Some("mlx5_ib")) {
        return (
            Availability::No,
            "only mlx5 devices have queue pairs that are made past the verbs".to_owned(),
        );
    }
    match lives(facts) {
        (Availability::No, _) => {
            (Availability::No, "it needs the QP lives, which are not available here".to_owned())
        }
        _ if facts.kernel.qp_types.as_ref().is_some_and(|types| types.mlx5.is_some()) => {
            let why = facts.kernel.qp_types.as_ref().and_then(|types| types.mlx5.as_deref()).unwrap_or_default();
            (Availability::No, format!("{why}; {TYPES_OF_MODULES}"))
        }
        _ if !follows_commands(facts) => (
            Availability::No,
            format!("mlx5's driver has no {FUNCTION} here; kernel {FUNCTION_SINCE} and newer have it"),
        ),
        _ => (
            Availability::Perhaps,
            "a kprobe of mlx5_cmd_do lists queue pairs that GPUs drive, made while `live` runs; decoded by the driver's public definitions, not run on hardware"
                .to_owned(),
        ),
    }
}

/// True if the driver's commands can be probed, or may be: by the kernel's symbols, else by its version.
fn follows_commands(facts: &HostFacts) -> bool {
    let by_version = || facts.kernel.version.is_none_or(|version| version >= FUNCTION_SINCE);
    facts.kernel.follows_commands.unwrap_or_else(by_version)
}

/// Queries to the firmware.
fn firmware(facts: &HostFacts, devices: &[&DeviceFacts]) -> (Availability, String) {
    let no = |reason: &str| (Availability::No, reason.to_owned());
    let has = |driver: &str| devices.iter().any(|device| device.driver.as_deref() == Some(driver));
    if !has("mlx5_ib") {
        let of_bnxt = if has("bnxt_re") { format!("; {BNXT_REFUSES}") } else { String::new() };
        return no(&format!("only mlx5's firmware answers with QP contexts{of_bnxt}"));
    }
    if !facts.kernel.fwctl {
        return no(
            "the kernel has no fwctl device; use kernel 6.15 or newer with CONFIG_MLX5_FWCTL (module mlx5_fwctl)",
        );
    }
    let reason = "`live --fwctl` (opt-in) queries QP contexts also of QPs that GPUs drive, which needs access to /dev/fwctl; \
                  not run on hardware";
    (Availability::Perhaps, reason.to_owned())
}

/// UDP source ports from flow labels and numbers.
fn ports(facts: &HostFacts, devices: &[&DeviceFacts]) -> (Availability, String) {
    let driver = |device: &&DeviceFacts| device.driver.clone().unwrap_or_else(|| "an unknown driver".into());
    let kernel = facts.kernel.version;
    let computed =
        |device: &&&DeviceFacts| device.driver.as_deref().is_some_and(|driver| is_computed(driver, kernel));
    let (with, without): (Vec<&DeviceFacts>, Vec<&DeviceFacts>) =
        devices.iter().copied().partition(|device| computed(&device));
    let names = |devices: &[&DeviceFacts]| {
        let mut names: Vec<String> = devices.iter().map(driver).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    if with.is_empty() {
        let reasons: BTreeSet<String> = without.iter().map(|one| why_unknown(&driver(one), kernel)).collect();
        return (Availability::No, reasons.into_iter().collect::<Vec<_>>().join("; "));
    }
    let (works, _) = lives(facts);
    if works == Availability::No {
        return (
            Availability::No,
            "flow labels come from the QP lives, which are not available here".to_owned(),
        );
    }
    let except = if without.is_empty() { String::new() } else { format!("; not with {}", names(&without)) };
    let reason = format!(
        "{} computes them as the kernel does{except}; compared with packets of Soft-RoCE, not run on hardware",
        names(&with)
    );
    (works, reason)
}

/// The NIC's own contexts.
fn contexts(facts: &HostFacts, devices: &[&DeviceFacts]) -> (Availability, String) {
    let mut all: Vec<(Availability, String)> = devices.iter().map(|device| context(facts, device)).collect();
    let place = |works: Availability| {
        [Availability::Yes, Availability::Perhaps, Availability::No].iter().position(|one| *one == works)
    };
    // What works comes first, and decides.
    all.sort_by(|(a, why), (b, other)| (place(*a), why).cmp(&(place(*b), other)));
    all.dedup();
    let works = all.first().map_or(Availability::No, |(works, _)| *works);
    (works, all.into_iter().map(|(_, why)| why).collect::<Vec<_>>().join("; "))
}

/// The context of a device: what one of its queue pairs showed, else what its driver is known for.
fn context(facts: &HostFacts, device: &DeviceFacts) -> (Availability, String) {
    let driver = device.driver.as_deref().unwrap_or("the driver");
    if let Some(ContextFacts { lqpn, bytes, problem }) = &device.context {
        let of = format!("QP {lqpn} of {}", device.name);
        let read = bytes.map(|bytes| format!("{of}: {} bytes read", units::count(bytes)));
        return match (read, problem) {
            (Some(read), None) => (
                Availability::Yes,
                format!(
                    "{read} and decoded, by {driver}'s public definitions, which were not compared with hardware"
                ),
            ),
            (Some(read), Some(why)) => (Availability::No, format!("{read} from {driver}, but {why}")),
            (None, why) => (Availability::No, format!("{of}: {}", why.as_deref().unwrap_or("no answer"))),
        };
    }
    match driver {
        "bnxt_re" => {
            return (
                Availability::No,
                "bnxt_re returns 1,088 bytes whose layout is not public; no QP is connected whose context could be read"
                    .to_owned(),
            );
        }
        _ if !qp_context::is_decoded(driver) => {
            return (Availability::No, format!("{driver} returns no QP context (RES_QP_GET_RAW: EINVAL)"));
        }
        _ => {}
    }
    if facts.kernel.version.is_some_and(|version| version < CONTEXTS_SINCE) {
        return (Availability::No, format!("needs kernel {CONTEXTS_SINCE} or newer"));
    }
    if let Some(missing) = lacking(facts, &[Capability::NetAdmin]) {
        return (Availability::No, format!("{missing} is missing: run it as root (sudo)"));
    }
    let why = "the decoder follows the driver's public definitions and has not run on hardware; the firmware may refuse";
    (Availability::Perhaps, why.to_owned())
}
