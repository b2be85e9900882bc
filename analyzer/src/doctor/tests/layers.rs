//! The layers on recorded hosts: each with the change that takes it away, and the reason that is given.

use super::*;
use crate::doctor::layers::{self, Layer};
use crate::doctor::visibility::Availability::{No, Perhaps, Yes};
use crate::host::rdma::qp_context::tests::mlx5_dump;
use crate::host::rdma::qp_types::Missing;

/// A kernel with kprobes and BTF of ib_core.
const PROBES: &str =
    "sys/bus/event_source/devices/kprobe/type = 8\nsys/kernel/btf/ib_core = x\nsys/module/ib_core/refcnt = 1";

/// And with uprobes.
const UPROBES: &str = "sys/bus/event_source/devices/uprobe/type = 9";
/// A kernel whose mlx5 driver executes commands by another function, and one to which a newer driver was added.
const OLD: &str = "proc/sys/kernel/osrelease = 5.15.0";
const BACKPORTED: &str =
    "sys/module/mlx5_core/refcnt = 1\nproc/kallsyms = 0000000000000000 T mlx5_cmd_do [mlx5_core]";
/// CAP_BPF and CAP_PERFMON without CAP_SYS_PTRACE.
const BPF_ALONE: &str = "proc/self/status = CapEff:\t000000c000000000";

/// A page of this host, whose kernel's types leave out what `change` says.
fn without_types(text: &str, change: impl Fn(&mut Missing)) -> Page {
    let mut host = page(text, PROBES).host;
    change(host.kernel.qp_types.get_or_insert_default());
    Page { layers: layers::of_host(&host), host, ..page(text, PROBES) }
}

#[test]
fn types_that_the_kernel_lacks_are_named() {
    let of = |page: &Page, name: &str| {
        let layer = page.layers.iter().find(|layer| layer.name == name).unwrap();
        (layer.works, layer.reason.clone())
    };
    let none = without_types(MLX5, |types| types.needed = Some("struct ib_qp".into()));
    let (works, why) = of(&none, "QP lives");
    assert_eq!(works, No, "{why}");
    assert!(why.contains("no struct ib_qp; use a kernel with CONFIG_DEBUG_INFO_BTF_MODULES=y"), "{why}");
    assert_eq!(of(&none, "DEVX QPs").0, No);
    let some = without_types(MLX5, |types| types.fields = vec!["ib_qp_attr.timeout"]);
    let (works, why) = of(&some, "QP lives");
    assert_eq!(works, Yes, "{why}");
    assert!(why.contains("no such fields: ib_qp_attr.timeout"), "{why}");
    let mlx5 = without_types(MLX5, |types| {
        types.mlx5 = Some("BTF has no field device of struct mlx5_core_dev".into());
    });
    for name in ["DEVX QPs", "error reasons"] {
        let (works, why) = of(&mlx5, name);
        assert_eq!(works, No, "{name}: {why}");
        assert!(why.contains("mlx5_core_dev; use a kernel with CONFIG_DEBUG_INFO_BTF_MODULES=y"), "{why}");
    }
    assert_eq!(of(&mlx5, "QP lives").0, Yes);
    let bnxt = without_types(BNXT_RE, |types| types.bnxt = Some("BTF has no struct bnxt_re_qp".into()));
    assert_eq!(of(&bnxt, "error reasons").0, No);
}

#[test]
fn a_service_of_nccl_is_seen_where_it_listens() {
    const HEAD: &str = "  sl  local_address rem_address   st";
    let line = |address: &str, state: &str| {
        format!(
            "proc/thread-self/net/tcp <<\n{HEAD}\n   0: {address} 00000000:0000 {state} 00000000:00000000\n>>"
        )
    };
    for (change, works, expected) in [
        (line("0100007F:6D7C", "0A"), Yes, "something listens on port 28028"),
        // A connection to it, and another port.
        (line("0100007F:6D7C", "01"), No, "nothing listens on port 28028"),
        (line("0100007F:6D7D", "0A"), No, "NCCL 2.24 or newer"),
        (String::new(), Perhaps, "asks NCCL 2.24 and newer on localhost:28028"),
    ] {
        let layer = layer(MLX5, &change, "NCCL RAS");
        assert_eq!(layer.works, works, "{layer:?}");
        assert!(layer.reason.contains(expected), "{layer:?}");
    }
}

fn layer(text: &str, changes: &str, name: &str) -> Layer {
    let page = page(text, changes);
    page.layers.into_iter().find(|layer| layer.name == name).unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of hosts")]
fn each_layer_says_what_it_would_need() {
    let with = |change: &str| format!("{PROBES}\n{change}");
    let user = "proc/self/status = CapEff:\t0000000000000000";
    for (text, changes, name, works, expected) in [
        (MLX5, with(""), "QP lives", Yes, "kprobes, BTF of the kernel and of ib_core; tested with"),
        (MLX5, with("sys/kernel/btf/ib_core = (none)"), "QP lives", Yes, "ib_core has no BTF of its own"),
        (MLX5, String::new(), "QP lives", Perhaps, "kprobes and BTF"),
        (MLX5, with("proc/self/ns/pid -> pid:[9]"), "QP lives", Yes, "use the host's (hostPID)"),
        (MLX5, with("sys/kernel/btf/vmlinux = (none)"), "QP lives", No, "CONFIG_DEBUG_INFO_BTF=y"),
        (MLX5, "sys/bus/event_source/devices/software/type = 1".into(), "QP lives", No, "CONFIG_KPROBES=y"),
        (
            MLX5,
            with("sys/kernel/security/lockdown = none integrity [confidentiality]"),
            "QP lives",
            No,
            "lockdown",
        ),
        (MLX5, with("sys/kernel/security/lockdown = none [integrity] confidentiality"), "QP lives", Yes, ""),
        (MLX5, with(user), "QP lives", No, "CAP_BPF is missing: run it as root"),
        (
            MLX5,
            with("proc/sys/kernel/perf_event_paranoid = 3\nproc/self/status = CapEff:\t000000c000001000"),
            "QP lives",
            Perhaps,
            "kernel.perf_event_paranoid is 3",
        ),
        (MLX5, with("proc/self/uid_map = 0 100000 65536"), "QP lives", No, "user namespace"),
        (MLX5, with(""), "computed ports", Yes, "mlx5_ib computes them"),
        (BNXT_RE, with(""), "computed ports", No, "bnxt_re leaves the UDP source port to the firmware"),
        (IONIC, with(""), "computed ports", No, "versions of ionic_rdma differ"),
        (
            IRDMA,
            with("proc/sys/kernel/osrelease = 5.15.0"),
            "computed ports",
            No,
            "before kernel 5.17, irdma has another rule for the UDP source port",
        ),
        (IRDMA, with(""), "computed ports", Yes, "irdma computes them"),
        (MLX5, with(PROBES), "error reasons", Perhaps, "kernel 6.4 and newer"),
        (
            MLX5,
            with(&format!("{PROBES}\n{OLD}")),
            "error reasons",
            No,
            "in kernel 6.4 and newer (here: 5.15)",
        ),
        (BNXT_RE, with(PROBES), "error reasons", Perhaps, "notifications made by hand; not run on hardware"),
        (BNXT_RE, with(user), "error reasons", No, "they need the QP lives"),
        (RXE, with(PROBES), "error reasons", No, "only mlx5 and bnxt_re"),
        (MLX5, with(user), "computed ports", No, "QP lives"),
        (MLX5, with(""), "QP context", Perhaps, "has not run on hardware"),
        (MLX5, with(user), "QP context", No, "CAP_NET_ADMIN is missing"),
        (MLX5, with("proc/sys/kernel/osrelease = 5.4.0"), "QP context", No, "needs kernel 5.9"),
        (BNXT_RE, with(""), "QP context", No, "1,088 bytes whose layout is not public"),
        (IRDMA, with(""), "QP context", No, "irdma returns no QP context"),
        (RXE, with(""), "QP context", No, "rxe returns no QP context (RES_QP_GET_RAW: EINVAL)"),
        (MLX5, with(PROBES), "DEVX QPs", Perhaps, "kprobe of mlx5_cmd_do"),
        (MLX5, with(user), "DEVX QPs", No, "it needs the QP lives"),
        (
            MLX5,
            with(&format!("{PROBES}\n{OLD}")),
            "DEVX QPs",
            No,
            "no mlx5_cmd_do here; kernel 5.18 and newer have it",
        ),
        (MLX5, with(&format!("{PROBES}\n{OLD}\n{BACKPORTED}")), "DEVX QPs", Perhaps, "mlx5_cmd_do"),
        (BNXT_RE, with(PROBES), "DEVX QPs", No, "only mlx5 devices"),
        (MLX5, with(""), "fwctl", No, "use kernel 6.15 or newer"),
        (MLX5, with("sys/class/fwctl/fwctl0/dev = 250:0"), "fwctl", Perhaps, "live --fwctl"),
        (
            BNXT_RE,
            with("sys/class/fwctl/fwctl0/dev = 250:0"),
            "fwctl",
            No,
            "only mlx5's firmware answers with QP contexts; the kernel's bnxt_fwctl lets no command pass",
        ),
        (MLX5, with(""), "message sizes", No, "CONFIG_UPROBE_EVENTS=y"),
        (MLX5, with(UPROBES), "message sizes", Yes, "--sample-posts"),
        (
            MLX5,
            with(&format!("{UPROBES}\n{user}")),
            "message sizes",
            No,
            "CAP_BPF is missing: run it as root",
        ),
        (MLX5, with(&format!("{UPROBES}\n{BPF_ALONE}")), "message sizes", No, "CAP_SYS_PTRACE is missing"),
    ] {
        let layer = layer(text, &changes, name);
        assert_eq!(layer.works, works, "{layer:?} with {changes}");
        assert!(layer.reason.contains(expected), "{layer:?}, expected {expected:?}");
    }
}

/// What a context that was read shows comes before what is known of the driver.
#[test]
fn a_context_that_was_read_decides() {
    const BNXT_QP: &str = "answers/rdma/qp.0 <<\n1 u32 0\n2 text bnxt_re0\n19 {\n20 {\n3 u32 1\n21 u32 17\n22 u32 29\n26 u8 2\n27 u8 3\n28 u32 4711\n}\n}\n>>";
    let answer = |lqpn: u32, bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("answers/rdma/qp_context.0.1.{lqpn} <<\n85 hex {}\n>>", hex.join(" "))
    };
    let asked = |text: &str, changes: &str| {
        let host = Recorded::unpack(&format!("{text}\n[]\n{changes}"));
        let mut facts = collect(&host.root(), &host.kernel());
        crate::doctor::ask_contexts(&mut facts, &host.kernel());
        let context = facts.devices[0].context.clone();
        let layer = layers::of_host(&facts).into_iter().find(|layer| layer.name == "QP context").unwrap();
        (context, layer.works, layer.reason)
    };
    let bnxt = format!("{BNXT_QP}\n{}", answer(17, &[0x5a; 1_088]));
    let (context, works, reason) = asked(BNXT_RE, &bnxt);
    assert_eq!(context.unwrap().bytes, Some(1_088));
    let expected =
        "QP 17 of bnxt_re0: 1,088 bytes read from bnxt_re, but its layout has no public definition";
    assert_eq!((works, reason.as_str()), (No, expected));
    // A firmware that hands out none.
    let (_, works, reason) = asked(BNXT_RE, BNXT_QP);
    assert_eq!(works, No, "{reason}");
    assert!(reason.starts_with("QP 17 of bnxt_re0: the device or its firmware does not support"), "{reason}");
    let mlx5 = answer(298, &mlx5_dump(298, &[("state", 3), ("remote_qpn", 951)]));
    let (_, works, reason) = asked(MLX5, &mlx5);
    assert_eq!(works, Yes, "{reason}");
    assert!(
        reason.starts_with("QP 298 of mlx5_0: ") && reason.contains(" bytes read and decoded"),
        "{reason}"
    );
    let other = answer(298, &mlx5_dump(298, &[("state", 3), ("remote_qpn", 952)]));
    let (_, works, reason) = asked(MLX5, &other);
    assert_eq!(works, No, "{reason}");
    assert!(reason.ends_with("unknown layout of this firmware"), "{reason}");
    // No queue pair is connected.
    assert_eq!(asked(BNXT_RE, "").0, None);
}

#[test]
fn the_layers_are_in_the_text_and_in_json_and_only_where_there_is_roce() {
    let here = page(MLX5, PROBES);
    let said = text::text(&here, false, 100);
    let lines: Vec<&str> =
        said.lines().skip_while(|line| !line.contains("QUEUE PAIRS WITHOUT PACKETS")).collect();
    assert!(lines.get(1).is_some_and(|line| line.starts_with("QP lives        yes      ")), "{said}");
    let json: serde_json::Value = serde_json::from_str(&here.json().unwrap()).unwrap();
    assert_eq!(json["layers"][2]["name"], "QP context");
    assert_eq!(json["layers"][2]["works"], "perhaps");
    assert!(page("", "").layers.is_empty());
}
