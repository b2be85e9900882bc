mod drivers;
mod host;
mod hostile;
mod hosts;
mod layers;

use std::collections::BTreeSet;

use super::check::{Status, catalog};
use super::facts::Protocol;
use super::visibility::{Availability, SourceKind};
use super::*;
use crate::host::rdma::vocabulary::Meaning;
use crate::host::read::recorded::Recorded;
use crate::util::style::Paint;

const MLX5: &str = include_str!("../../../tests/data/host/mlx5.txt");
const BNXT_RE: &str = include_str!("../../../tests/data/host/bnxt_re.txt");
const IONIC: &str = include_str!("../../../tests/data/host/ionic.txt");
const IRDMA: &str = include_str!("../../../tests/data/host/irdma.txt");
const RXE: &str = include_str!("../../../tests/data/host/rxe.txt");

const IFACE: &str = "sys/class/net/enp59s0np0";
const DEVICE: &str = "sys/class/infiniband/mlx5_0";
const NIC: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";
const GPU: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0";

/// The page about a recorded host, with entries changed.
fn page(text: &str, changes: &str) -> Page {
    let host = Recorded::unpack(&format!("{text}\n[]\n{changes}"));
    Page::of(collect(&host.root(), &host.kernel()))
}

/// The worst verdict of a check; `None` when it said nothing.
fn verdict(page: &Page, id: &str) -> Option<Status> {
    page.checks.iter().filter(|check| check.id == id).map(|check| check.verdict).max()
}

/// `4711/environ` with these variables.
fn environment(variables: &[&str]) -> String {
    let bytes: Vec<String> = variables.join("\0").bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("proc/4711/environ hex {}", bytes.join(" "))
}

/// An answer about DCB with these attributes.
fn dcb(attributes: &str) -> String {
    format!("answers/dcb/enp59s0np0 <<\n13 {{\n{attributes}\n}}\n>>")
}

/// Each check with a change to the faultless host that must make it speak, and how loud.
#[expect(clippy::too_many_lines, reason = "a table of faults")]
fn faults() -> Vec<(&'static str, Status, String)> {
    use Status::{Critical, Info, Warning};
    const PFC_3: &str = "2 hex 08 08 00*134\n";
    vec![
        ("kernel.version", Warning, "proc/sys/kernel/osrelease = 5.4.0".into()),
        ("kernel.features", Info, "proc/sys/kernel/osrelease = 6.1.0-31-amd64".into()),
        ("kernel.btf", Warning, "sys/kernel/btf/vmlinux = (none)".into()),
        ("kernel.capabilities", Warning, "proc/self/status = CapEff:\t0000000000003000".into()),
        (
            "kernel.perf_paranoid",
            Info,
            "proc/sys/kernel/perf_event_paranoid = 3\nproc/self/status = CapEff:\t000000c000001000".into(),
        ),
        ("kernel.user_namespace", Warning, "proc/self/uid_map = 0 100000 65536".into()),
        ("kernel.bpf_jit", Warning, "proc/sys/net/core/bpf_jit_enable = 0".into()),
        ("kernel.bpf_jit_harden", Info, "proc/sys/net/core/bpf_jit_harden = 2".into()),
        ("kernel.bpf_stats", Info, "proc/sys/kernel/bpf_stats_enabled = 1".into()),
        ("kernel.unprivileged_bpf", Info, "proc/self/status = CapEff:\t0000000000003000".into()),
        ("filters.stale", Warning, "answers/stale_filters/2 = 2".into()),
        ("device.protocol", Info, format!("{DEVICE}/node_type = 4: RNIC")),
        ("device.absent", Info, "sys/class/infiniband = (none)".into()),
        ("port.state", Warning, format!("{DEVICE}/ports/1/state = 1: DOWN")),
        ("port.gid", Warning, format!("{DEVICE}/ports/1/gids/3 = (none)")),
        ("port.mtu", Warning, "answers/interfaces = enp59s0np0 2 physical 1500 up".into()),
        ("pcie.bandwidth", Critical, format!("{NIC}/current_link_speed = 5.0 GT/s PCIe")),
        (
            "pcie.bandwidth",
            Warning,
            format!("{NIC}/current_link_speed = 8.0 GT/s PCIe\n{NIC}/max_link_speed = 8.0 GT/s PCIe"),
        ),
        ("pcie.width", Warning, format!("{NIC}/current_link_width = 8")),
        (
            "counters.optional",
            Info,
            "answers/rdma/optional.0.1 <<\n80 {\n81 {\n82 text cc_rx_ce_pkts\n95 u8 0\n}\n}\n>>".into(),
        ),
        ("counters.per_qp", Info, "answers/rdma/binding.0.1 = 74 u32 0".into()),
        ("qos.trust", Warning, format!("{IFACE}/qos/trust = pcp")),
        ("pfc.enabled", Info, dcb("2 hex 08 00 00*134")),
        ("pfc.enabled", Warning, dcb("2 hex 08 0e 00*134")),
        ("pfc.with_global_pause", Critical, "answers/pause/enp59s0np0 = off on on".into()),
        (
            "pause.global",
            Info,
            format!("answers/pause/enp59s0np0 = off on on\n{}", dcb("2 hex 08 00 00*134")),
        ),
        ("qos.roce_priority", Critical, dcb(&format!("{PFC_3}3 {{\n1 hex 05 02 1a 00\n}}"))),
        ("qos.roce_priority", Critical, environment(&["NCCL_IB_TC=192"])),
        ("ecn.notification_point", Warning, format!("{IFACE}/ecn/roce_np/enable/3 = 0")),
        ("ecn.reaction_point", Warning, format!("{IFACE}/ecn/roce_rp/enable/3 = 0")),
        ("cnp.priority", Warning, format!("{IFACE}/ecn/roce_np/cnp_dscp = 26")),
        ("cm.tos", Info, "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos = 0".into()),
        (
            "buffer.lossless",
            Critical,
            dcb(&format!("{PFC_3}10 hex 00 00 00 01 00*4 00 40 00 00 00*28 00 40 00 00")),
        ),
        ("buffer.lossless", Warning, dcb(&format!("{PFC_3}10 hex 00*8 00 40 00 00 00*28 00 40 00 00"))),
        ("ring.receive", Info, "answers/rings/enp59s0np0 = 256 8192 1024 8192".into()),
        // PFC priorities that the NIC's own engine received from the switch: priority 4 beside 3.
        ("switch.pfc", Critical, dcb(&format!("{PFC_3}5 hex 08 18 00*6"))),
        (
            "switch.dscp",
            Warning,
            dcb(&format!("{PFC_3}3 {{\n1 hex 05 03 1a 00\n}}\n6 {{\n1 hex 05 04 1a 00\n}}")),
        ),
        ("switch.dscp", Warning, dcb(&format!("{PFC_3}6 {{\n1 hex 03 04 b7 12\n}}"))),
        (
            "gpu.nic",
            Warning,
            "sys/bus/pci/devices/0000:3c:00.0 -> ../../../devices/pci0000:da/0000:3c:00.0\n\
             sys/devices/pci0000:da/0000:3c:00.0/class = 0x030200\n\
             sys/devices/pci0000:da/0000:3c:00.0/vendor = 0x10de\n\
             sys/devices/pci0000:da/0000:3c:00.0/numa_node = 1"
                .into(),
        ),
        ("gpu.link", Warning, format!("{GPU}/current_link_width = 4")),
        (
            "gpudirect.memory",
            Warning,
            "sys/module/nvidia_peermem = (none)\nproc/driver/nvidia/version = NVRM version: 550.1".into(),
        ),
        ("gpudirect.iommu", Warning, format!("{NIC}/iommu_group/type = DMA-FQ")),
        ("nccl.disabled", Warning, environment(&["NCCL_IB_DISABLE=1"])),
        ("nccl.hca", Warning, environment(&["NCCL_IB_HCA=mlx5_0,mlx5_7"])),
        ("nccl.hca", Warning, environment(&["NCCL_IB_HCA=^mlx5"])),
        ("nccl.gid_index", Critical, environment(&["NCCL_IB_GID_INDEX=9"])),
        ("nccl.gid_index", Warning, environment(&["NCCL_IB_GID_INDEX=2"])),
        ("nccl.gid_index", Warning, environment(&["NCCL_IB_GID_INDEX=1"])),
        ("nccl.traffic_class", Warning, environment(&["NCCL_IB_HCA=mlx5"])),
        ("nccl.socket_interface", Warning, environment(&["NCCL_SOCKET_IFNAME=eth"])),
        ("nccl.gpudirect", Info, environment(&["NCCL_NET_GDR_LEVEL=LOC"])),
        // From a file that the process sees, in the ways in which NCCL takes a number.
        ("nccl.disabled", Warning, "proc/4711/root/etc/nccl.conf = NCCL_IB_DISABLE=0x1".into()),
        ("qos.roce_priority", Critical, environment(&["NCCL_IB_TC=0300"])),
        ("nccl.roce_version", Warning, environment(&["NCCL_IB_TC=106", "NCCL_IB_ROCE_VERSION_NUM=1"])),
    ]
}

#[test]
fn a_host_without_a_fault_is_reported_so() {
    let page = page(MLX5, "");
    let said: Vec<_> = page.checks.iter().filter(|check| check.verdict >= Status::Info).collect();
    assert!(said.is_empty(), "{said:#?}");
    assert!(!page.is_critical());
    // The checks without a verdict are known: nothing slipped from ok to unknown.
    let unknown: BTreeSet<&str> =
        page.checks.iter().filter(|check| check.verdict == Status::Unknown).map(|check| check.id).collect();
    assert_eq!(unknown, BTreeSet::from(["switch.dscp", "switch.ets"]), "{:#?}", page.host.unread);
}

#[test]
fn every_fault_is_found_and_only_where_it_is() {
    let faultless = page(MLX5, "");
    for (id, expected, change) in faults() {
        let before = verdict(&faultless, id);
        assert!(before.is_none_or(|verdict| verdict <= Status::Unknown), "{id} without a fault: {before:?}");
        let faulty = page(MLX5, &change);
        assert_eq!(verdict(&faulty, id), Some(expected), "{id} after {change}: {:#?}", faulty.checks);
        assert_eq!(faulty.is_critical(), expected == Status::Critical, "{id} after {change}");
        let spoken = faulty.checks.iter().find(|check| check.id == id && check.verdict == expected).unwrap();
        assert!(spoken.why.is_some() && spoken.value.is_some(), "{spoken:?}");
    }
}

#[test]
fn settings_that_are_fine_another_way_are_not_blamed() {
    for (id, change) in [
        ("nccl.hca", environment(&["NCCL_IB_HCA==mlx5_0:1", "NCCL_IB_TC=106"])),
        ("nccl.hca", environment(&["NCCL_IB_HCA=^mlx4", "NCCL_IB_TC=106"])),
        ("nccl.traffic_class", environment(&["NCCL_IB_TC=0x6a"])),
        (
            "nccl.traffic_class",
            format!("{}\nproc/4711/root/etc/nccl.conf = NCCL_IB_TC=106", environment(&["NCCL_IB_HCA=mlx5"])),
        ),
        // The environment goes before files.
        (
            "nccl.disabled",
            format!(
                "{}\nproc/4711/root/etc/nccl.conf = NCCL_IB_DISABLE=1",
                environment(&["NCCL_IB_DISABLE=0", "NCCL_IB_TC=106"])
            ),
        ),
        ("nccl.roce_version", environment(&["NCCL_IB_ROCE_VERSION_NUM=2", "NCCL_IB_TC=106"])),
        ("nccl.roce_version", environment(&["NCCL_IB_ROCE_VERSION_NUM=1", "NCCL_IB_GID_INDEX=3"])),
        ("nccl.gid_index", environment(&["NCCL_IB_GID_INDEX=3"])),
        ("nccl.gid_index", environment(&["NCCL_IB_GID_INDEX=-1"])),
        ("nccl.socket_interface", environment(&["NCCL_SOCKET_IFNAME=enp59,eth"])),
        ("nccl.socket_interface", environment(&["NCCL_SOCKET_IFNAME=^docker,lo"])),
        // Another namespace has other interfaces.
        (
            "nccl.socket_interface",
            format!("{}\nproc/4711/ns/net -> net:[1]", environment(&["NCCL_SOCKET_IFNAME=eth0"])),
        ),
        // The device forces a class of its own on all.
        (
            "nccl.traffic_class",
            format!(
                "{}\n{DEVICE}/tc/1/traffic_class = Global tclass=104",
                environment(&["NCCL_IB_HCA=mlx5"])
            ),
        ),
        ("gpudirect.memory", "sys/module/nvidia_peermem = (none)".into()),
        ("gpudirect.iommu", format!("{NIC}/iommu_group/type = (none)")),
    ] {
        let page = page(MLX5, &change);
        assert!(verdict(&page, id).is_none_or(|verdict| verdict <= Status::Unknown), "{id} after {change}");
    }
}

#[test]
fn every_check_is_in_the_catalogue_and_has_a_fault_in_these_tests() {
    let known: BTreeSet<&str> = catalog().map(|entry| entry.id).collect();
    assert_eq!(known.len(), catalog().count(), "an id is there twice");
    let mut said: BTreeSet<&str> = BTreeSet::new();
    for host in [MLX5, BNXT_RE, IRDMA, RXE] {
        said.extend(page(host, "").checks.iter().map(|check| check.id));
    }
    let faults = faults();
    said.extend(faults.iter().map(|(id, ..)| *id));
    assert!(said.is_subset(&known), "{:?}", said.difference(&known));
    let tested: BTreeSet<&str> = faults.iter().map(|(id, ..)| *id).collect();
    // Held by tests of their own: they are never bad, or need a frame, or a refusal.
    let elsewhere = BTreeSet::from([
        "entropy.source_port",
        "gpudirect.acs",
        "kernel.sandbox",
        "nccl.environment",
        "qos.dscp_map",
        "switch.dcbx_error",
        "switch.ets",
    ]);
    assert_eq!(known.difference(&tested).copied().collect::<BTreeSet<_>>(), elsewhere);
}

#[test]
fn a_sandbox_that_lacks_a_part_is_named() {
    let tried = |missing: Option<&[&str]>| {
        let host = Recorded::unpack(MLX5);
        let mut facts = collect(&host.root(), &host.kernel());
        facts.kernel.sandbox_missing = missing.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        Page::of(facts)
    };
    assert_eq!(verdict(&tried(None), "kernel.sandbox"), None, "a recorded host");
    assert_eq!(verdict(&tried(Some(&[])), "kernel.sandbox"), Some(Status::Ok));
    let page = tried(Some(&["this kernel has no Landlock"]));
    assert_eq!(verdict(&page, "kernel.sandbox"), Some(Status::Info));
    assert!(text::text(&page, false, 100).contains("no Landlock"));
}

#[test]
fn a_switch_that_was_heard_is_held_against_the_host() {
    let hear = |enabled: u8, error: bool| {
        let host = Recorded::unpack(MLX5);
        let mut facts = collect(&host.root(), &host.kernel());
        let neighbour = crate::ethernet::lldp::Neighbour {
            system: Some("leaf1".into()),
            pfc: Some(crate::ethernet::lldp::Pfc { enabled, capable: 8, willing: false, error }),
            apps: vec![crate::ethernet::lldp::App { selector: 5, protocol: 26, priorities: 8 }],
            ..crate::ethernet::lldp::Neighbour::default()
        };
        facts.interfaces[0].neighbour = Some(neighbour);
        Page::of(facts)
    };
    let same = hear(8, false);
    assert_eq!(verdict(&same, "switch.pfc"), Some(Status::Ok));
    assert_eq!(verdict(&same, "switch.dscp"), Some(Status::Ok));
    assert_eq!(verdict(&same, "switch.dcbx_error"), Some(Status::Ok));
    for enabled in [0, 1, 0b11000] {
        assert_eq!(verdict(&hear(enabled, false), "switch.pfc"), Some(Status::Critical), "{enabled}");
    }
    assert_eq!(verdict(&hear(8, true), "switch.dcbx_error"), Some(Status::Warning));
}

#[test]
fn what_can_be_seen_follows_the_kind_of_device() {
    let of = |page: &Page, subject: &str, way| {
        let mut found =
            page.visibility.iter().filter(|entry| entry.subject == subject && entry.source == way);
        found.next().map(|entry| entry.availability)
    };
    let mlx5 = page(MLX5, "");
    assert_eq!(of(&mlx5, "mlx5_0/1", SourceKind::Packets), Some(Availability::No));
    assert_eq!(of(&mlx5, "mlx5_0/1", SourceKind::Sniffer), Some(Availability::Perhaps));
    assert_eq!(of(&mlx5, "mlx5_0/1", SourceKind::Counters), Some(Availability::Yes));
    let without = page(MLX5, "usr/lib64/libpcap.so.1.10.4 = plain");
    assert_eq!(of(&without, "mlx5_0/1", SourceKind::Sniffer), Some(Availability::No));
    let closed = page(MLX5, "dev/infiniband/uverbs0 = (none)");
    assert_eq!(of(&closed, "mlx5_0/1", SourceKind::Sniffer), Some(Availability::No));
    let irdma = page(IRDMA, "");
    assert_eq!(of(&irdma, "irdma0/1", SourceKind::Sniffer), Some(Availability::No));
    for not_roce in ["irdma1/1", "mlx5_1/1"] {
        assert_eq!(of(&irdma, not_roce, SourceKind::Packets), Some(Availability::No));
        assert_eq!(of(&irdma, not_roce, SourceKind::Counters), None);
    }
    let rxe = page(RXE, "");
    assert_eq!(of(&rxe, "rxe0/1", SourceKind::Packets), Some(Availability::Yes));
    let mirror = page(RXE, "answers/interfaces <<\nveth0 2 veth 1500 up\neth9 3 physical 1500 up\n>>");
    assert_eq!(of(&mirror, "eth9", SourceKind::Packets), Some(Availability::Yes));
}

#[test]
fn drivers_and_their_counters_are_recognised() {
    for (host, name, driver, protocol, meanings) in [
        (MLX5, "mlx5_0", "mlx5_ib", Protocol::Roce, 12),
        (BNXT_RE, "bnxt_re0", "bnxt_re", Protocol::Roce, 12),
        (IRDMA, "irdma0", "irdma", Protocol::Roce, 7),
        (RXE, "rxe0", "rxe", Protocol::Roce, 8),
    ] {
        let page = page(host, "");
        let device = page.host.devices.iter().find(|device| device.name == name).unwrap();
        assert_eq!((device.driver.as_deref(), device.protocol), (Some(driver), protocol));
        let counters = &device.ports[0].counters;
        let known = counters.iter().filter(|counter| counter.meaning.is_some()).count();
        // Ten of sysfs for each plus what the port itself counts and netlink adds.
        assert!(known >= meanings, "{name}: {known} of {counters:?}");
        assert_eq!(device.software, driver == "rxe");
    }
    let mlx5 = page(MLX5, "");
    let counters = &mlx5.host.devices[0].ports[0].counters;
    let optional = counters.iter().find(|counter| counter.name == "cc_rx_ce_pkts").unwrap();
    assert_eq!((optional.value, optional.meaning), (99, Some(Meaning::CeMarkedPackets)));
    assert_eq!(counters.iter().filter(|counter| counter.name == "out_of_sequence").count(), 1);
    let pause = mlx5.host.interfaces[0].pause_counts.unwrap();
    assert_eq!((pause.received[3].frames, pause.received[3].microseconds), (Some(4), Some(120)));
    assert_eq!(mlx5.host.devices[0].queue_pairs, Some(1));
    let irdma = page(IRDMA, "");
    let protocols: Vec<_> = irdma.host.devices.iter().map(|device| device.protocol).collect();
    assert_eq!(protocols, [Protocol::Roce, Protocol::Iwarp, Protocol::InfiniBand]);
}

#[test]
fn a_host_without_anything_is_no_failure() {
    let nothing = page("", "");
    assert!(!nothing.is_critical());
    assert!(nothing.host.devices.is_empty());
    assert!(!nothing.host.unread.is_empty(), "why is kept");
    let text = text::text(&nothing, true, 120);
    for said in ["No RDMA device", "NOT READ", "nothing about RoCE was checked"] {
        assert!(text.contains(said), "{text}");
    }
    // Folders where files should be, and files of nonsense.
    let odd = page(
        MLX5,
        &format!(
            "{DEVICE}/ports/1/state = (none)\n{DEVICE}/ports/1/state/x = 1\n{DEVICE}/ports/1/rate = fast\n{DEVICE}/ports/1/hw_counters/np_cnp_sent = \u{0}\n\
             {NIC}/current_link_speed = Unknown\n{NIC}/numa_node = -1\nproc/self/status = nonsense\n\
             proc/sys/kernel/osrelease = none\nanswers/dcb/enp59s0np0 = 13 hex 00\nanswers/rdma/devices = 1 hex 00"
        ),
    );
    assert!(!odd.is_critical(), "{:#?}", odd.checks);
    assert_eq!(odd.host.devices[0].ports[0].port.state, None);
}

#[test]
fn both_views_say_all_of_it() {
    let page = page(MLX5, "answers/pause/enp59s0np0 = off on on");
    let painted = text::painted(&page, false, 120, Paint::COLORED);
    assert!(painted.contains("\u{1b}[1m── ISSUES"), "{painted}");
    let text = text::text(&page, false, 120);
    for part in [
        "mlx5_0/1, mlx5_ib, on enp59s0np0, ACTIVE, 200 Gb/s, RDMA MTU 4096",
        "critical  pfc.with_global_pause",
        "ethtool -A enp59s0np0 autoneg off rx off tx off",
        "packets: no",
        "$ tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -",
        "--verbose lists them",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120 || line.starts_with("    $ ")), "{text}");
    let json: serde_json::Value = serde_json::from_str(&page.json().unwrap()).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["checks"][0]["verdict"], "critical");
    assert_eq!(json["host"]["devices"][0]["ports"][0]["rate_mbps"], 200_000);
    assert_eq!(json["host"]["interfaces"][0]["dcb"]["pfc"]["enabled"], serde_json::json!([3]));
    assert_eq!(json["host"]["processes"][0]["container"]["name"], "trainer-0");
    assert!(json["host"]["devices"][0]["ports"][0]["settings"]["traffic_class"].is_null());
}

#[test]
fn the_document_is_that_of_the_checks() {
    crate::analysis::fixtures::document::check("doctor.md", &markdown());
}

#[test]
fn a_device_with_roce_switched_off_shows_its_packets() {
    let of = |page: &Page| {
        page.visibility
            .iter()
            .find(|entry| entry.source == SourceKind::Packets)
            .map(|entry| (entry.availability, entry.why.clone()))
            .unwrap()
    };
    assert_eq!(of(&page(MLX5, "")).0, Availability::No);
    let off =
        page(MLX5, "answers/parameter/0000:3b:00.0.enable_roce <<\n80 {\n84 {\n85 {\n87 u8 1\n}\n}\n}\n>>");
    assert_eq!(off.host.devices[0].roce_enabled, Some(false));
    let (works, why) = of(&off);
    assert!(works == Availability::Yes && why.contains("RoCE is disabled"), "{why}");
    assert!(text::text(&off, false, 120).contains("RoCE disabled"));
    // A driver without the switch is not known to be on or off, and --verbose says why.
    let unknown = page(MLX5, "answers/parameter = (none)");
    assert_eq!(unknown.host.devices[0].roce_enabled, None);
    assert!(text::text(&unknown, true, 120).contains("enable_roce"));
}

#[test]
fn members_of_a_bond_are_judged_one_by_one() {
    const BOND: &str = include_str!("../../../tests/data/host/mlx5_bond.txt");
    let bonded = format!("{MLX5}\n{BOND}");
    let whole = page(&bonded, "");
    let bad: Vec<_> = whole.checks.iter().filter(|check| check.verdict >= Status::Warning).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let of = |page: &Page, name: &str| page.host.interface(name).unwrap().clone();
    assert_eq!(of(&whole, "bond0").below, ["enp59s0np0", "enp59s0np1"]);
    for name in ["bond0", "enp59s0np0", "enp59s0np1"] {
        assert_eq!(of(&whole, name).devices, ["mlx5_0"], "{name}");
        assert!(
            !whole.visibility.iter().any(|entry| entry.subject == name),
            "{name} does not show its packets"
        );
    }
    // One member without PFC is half of the traffic.
    let half = page(
        &bonded,
        "answers/dcb/enp59s0np1 <<\n13 {\n2 hex 08 00 00*134\n3 {\n1 hex 05 03 1a 00\n}\n}\n>>",
    );
    let check = half.checks.iter().find(|c| c.id == "pfc.enabled" && c.subject == "enp59s0np1").unwrap();
    assert!(check.verdict > Status::Ok, "{check:?}");
    let other = half.checks.iter().find(|c| c.id == "pfc.enabled" && c.subject == "enp59s0np0").unwrap();
    assert_eq!(other.verdict, Status::Ok);
}

#[test]
fn without_rights_the_command_for_packets_is_one_that_works() {
    let command = |changes: &str| {
        let page = page(RXE, changes);
        let packets = page
            .visibility
            .iter()
            .find(|s| s.source == SourceKind::Packets && s.availability == Availability::Yes)
            .unwrap();
        (packets.command.clone().unwrap(), packets.why.contains("lacks the required privileges"))
    };
    assert!(
        matches!(command("proc/self/status = CapEff:\t0"), (words, true) if words.starts_with("sudo rocescope live"))
    );
    // CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: promiscuous mode is a thing apart.
    let three = "proc/self/status = CapEff:\t000000c000001000";
    assert!(matches!(command(three), (words, false) if words.starts_with("rocescope live")));
}
