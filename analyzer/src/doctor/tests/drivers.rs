//! Checks of each driver, and of facts that could not be read.

use super::*;
use crate::doctor::visibility::Visibility;

const NOT_ROCE: &str = include_str!("../../../../tests/data/host/not_roce.txt");
const VLAN: &str = include_str!("../../../../tests/data/host/mlx5_vlan.txt");

fn entry<'a>(page: &'a Page, subject: &str, way: SourceKind) -> Option<&'a Visibility> {
    page.visibility.iter().find(|entry| entry.subject == subject && entry.source == way)
}

/// The first check of this name, which must be there.
fn check<'a>(page: &'a Page, id: &str) -> &'a check::Check {
    page.checks.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("{id}: {:#?}", page.checks))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of reads")]
fn each_read_that_fails_is_listed_with_its_cause() {
    let counter = format!("{DEVICE}/ports/1/hw_counters/np_cnp_sent");
    let cases = [
        // A folder where a file should be is the one failure that even root meets.
        (format!("{counter} = (none)\n{counter}/x = 1"), "mlx5_0", "hw_counters/np_cnp_sent", "directory"),
        (format!("{DEVICE}/ports/1/hw_counters = (none)"), "mlx5_0", "list /sys/class", "No such file"),
        (
            format!("{DEVICE}/ports/1/counters/link_downed = N/A"),
            "mlx5_0",
            "link_downed",
            "invalid number `N/A`",
        ),
        (format!("{DEVICE}/ports/1/rate = fast"), "mlx5_0", "ports/1/rate", "invalid rate `fast`"),
        (format!("{DEVICE}/ports/1/gids = (none)"), "mlx5_0", "ports/1/gids", "No such file"),
        (format!("{DEVICE}/ports/1/gid_attrs/types/3 = RoCE v9"), "mlx5_0", "types/3", "invalid GID type"),
        ("answers/statistics = (none)".into(), IFACE_NAME, "statistics/", "not supported"),
        ("answers/pause = (none)".into(), IFACE_NAME, "pause/", "not supported"),
        ("answers/rings = (none)".into(), IFACE_NAME, "rings/", "not supported"),
        ("answers/dcb = (none)".into(), IFACE_NAME, "dcb/", "not supported"),
        ("answers/dcb/enp59s0np0 <<\n>>".into(), IFACE_NAME, "DCB netlink", "missing from the reply"),
        (format!("{IFACE}/speed = fast"), IFACE_NAME, "speed", "invalid speed `fast`"),
        ("answers/interfaces = (none)".into(), "host", "interfaces", "not supported"),
        ("answers/rdma/devices = (none)".into(), "host", "rdma/devices", "not supported"),
        ("answers/rdma/counters.0.1 = (none)".into(), "mlx5_0", "rdma/counters.0.1", "not supported"),
        ("answers/rdma/optional.0.1 = (none)".into(), "mlx5_0", "rdma/optional.0.1", "not supported"),
        ("answers/rdma/binding.0.1 = (none)".into(), "mlx5_0", "rdma/binding.0.1", "not supported"),
        ("answers/rdma/qp.0 = (none)".into(), "mlx5_0", "rdma/qp.0", "not supported"),
        ("answers/parameter = (none)".into(), "mlx5_0", "enable_roce", "not supported"),
        (
            format!("{NIC}/current_link_speed = Unknown"),
            "mlx5_0",
            "current_link_speed",
            "invalid speed `Unknown`",
        ),
        (
            format!("{NIC}/current_link_width = 255"),
            "mlx5_0",
            "current_link_width",
            "invalid lane count `255`",
        ),
        (
            "sys/devices/pci0000:3a/0000:3a:00.0/config hex 00*64".into(),
            "mlx5_0",
            "extended capabilities (ACS)",
            "64 bytes",
        ),
        (format!("{GPU}/numa_node = x"), "0000:3c:00.0", "numa_node", "invalid NUMA node `x`"),
        (format!("{IFACE}/ecn/roce_np/cnp_dscp = (none)"), "mlx5_0", "the DSCP of CNPs", "np_cnp_dscp"),
        ("sys/kernel/config = (none)".into(), "mlx5_0", "default_roce_tos", "connection manager"),
        ("usr/lib64 = (none)".into(), "host", "libpcap", "/usr/lib64"),
        ("proc/self/status = nonsense".into(), "host", "/proc/self/status", "invalid content `nonsense`"),
        ("proc/sys/net/core/bpf_jit_enable = (none)".into(), "host", "bpf_jit_enable", "No such file"),
        ("proc/4711/cgroup = (none)".into(), "process 4711", "/proc/4711/cgroup", "No such file"),
        ("sys/class/infiniband = (none)".into(), "host", "/sys/class/infiniband", "no RDMA module"),
    ];
    let faultless = page(MLX5, "");
    for (change, subject, what, why) in cases {
        let of = |page: &Page| {
            page.host
                .unread
                .iter()
                .filter(|r| r.subject == subject && r.what.contains(what) && r.why.contains(why))
                .count()
        };
        assert_eq!(of(&faultless), 0, "{what}: {:#?}", faultless.host.unread);
        let page = page(MLX5, &change);
        assert_eq!(of(&page), 1, "{change}: {:#?}", page.host.unread);
        let text = text::text(&page, true, 120);
        let all = text.split_once("NOT READ").unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ");
        let reason = page.host.unread.iter().find(|r| r.subject == subject && r.what.contains(what)).unwrap();
        let line = format!("{subject}: cannot {}: {}", reason.what, reason.why);
        assert!(all.contains(&line), "{line} in\n{text}");
        assert_eq!(all.contains("Remedy: "), page.host.unread.iter().any(|r| r.remedy.is_some()));
        assert!(!text::text(&page, false, 120).contains("NOT READ"));
        let json: serde_json::Value = serde_json::from_str(&page.json().unwrap()).unwrap();
        let listed = json["host"]["unread"].as_array().unwrap();
        assert!(listed.iter().any(|r| r["subject"] == subject && r["what"] == reason.what.as_str()));
    }
}

const IFACE_NAME: &str = "enp59s0np0";

#[test]
fn congestion_control_of_bnxt_re_and_irdma_is_read_where_they_show_it() {
    let bnxt_re = page(BNXT_RE, "");
    for id in ["ecn.notification_point", "ecn.reaction_point", "cnp.priority", "counters.optional"] {
        assert_eq!(verdict(&bnxt_re, id), Some(Status::Ok), "{id}: {:?}", check(&bnxt_re, id));
    }
    assert_eq!(check(&bnxt_re, "cnp.priority").value.as_deref(), Some("DSCP 48, priority 7"));
    let cc = "sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc";
    let off = page(BNXT_RE, &format!("{cc}/ecn_enable = 0x0"));
    let said = check(&off, "ecn.reaction_point");
    assert_eq!(said.verdict, Status::Warning);
    assert!(said.change.as_ref().unwrap().contains(&format!("echo -n 0x1 > /{cc}/ecn_enable")), "{said:?}");
    // DSCP 26 is mapped to the lossless priority.
    let shared = page(BNXT_RE, &format!("{cc}/cnp_dscp = 0x1a"));
    let said = check(&shared, "cnp.priority");
    assert_eq!((said.verdict, said.value.as_deref()), (Status::Warning, Some("DSCP 26, priority 3")));
    assert!(said.change.as_ref().unwrap().contains("cc_config/alt_vlan_dscp"), "{said:?}");

    // It has a verdict without data centre bridging, too.
    let irdma = page(IRDMA, "");
    assert!(irdma.host.interfaces[0].dcb.is_none());
    assert_eq!(verdict(&irdma, "ecn.notification_point"), Some(Status::Ok));
    assert_eq!(verdict(&irdma, "cnp.priority"), Some(Status::Unknown));
    assert!(irdma.host.unread.iter().any(|r| r.subject == "irdma0" && r.what == "read the DSCP of CNPs"));
    let off = page(IRDMA, "sys/kernel/config/irdma/irdma0/roce_dcqcn_enable = 0");
    let said = check(&off, "ecn.notification_point");
    assert_eq!(said.verdict, Status::Warning);
    assert!(said.change.as_ref().unwrap().ends_with("irdma/irdma0/roce_dcqcn_enable"), "{said:?}");
}

/// Tools and files are those that the host at hand has: MLNX_OFED shows itself by its switches.
#[test]
fn commands_are_for_the_driver_at_hand() {
    let change = |page: &Page, id: &str| check(page, id).change.clone().unwrap_or_default();
    let upstream = format!(
        "{IFACE}/ecn = (none)\n{IFACE}/qos = (none)\nsys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp = 26"
    );
    let no_dscp = dcb("2 hex 08 08 00*134");
    for (changes, id, expected) in [
        (
            format!("{IFACE}/ecn/roce_np/cnp_dscp = 26"),
            "cnp.priority",
            "echo 48 > /sys/class/net/enp59s0np0/ecn/roce_np/cnp_dscp",
        ),
        (
            upstream.clone(),
            "cnp.priority",
            "echo 48 > /sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp",
        ),
        (format!("{IFACE}/qos/trust = pcp"), "qos.trust", "mlnx_qos -i enp59s0np0 --trust dscp"),
        (format!("{upstream}\n{no_dscp}"), "qos.trust", "dcb app add dev enp59s0np0 dscp-prio 26:3"),
        (dcb("2 hex 08 00 00*134"), "pfc.enabled", "mlnx_qos -i enp59s0np0 --pfc"),
    ] {
        let said = change(&page(MLX5, &changes), id);
        assert!(said.contains(expected), "{id}: {said}");
    }
    let lossy = "answers/dcb/enp1s0f0np0 <<\n13 {\n2 hex 08 00 00*134\n}\n>>";
    let said = change(&page(BNXT_RE, lossy), "pfc.enabled");
    assert!(
        said.starts_with("dcb pfc set dev enp1s0f0np0 prio-pfc all:off 3:on") && said.contains("niccli"),
        "{said}"
    );
    let ice = "sys/bus/pci/drivers/ice/x = 1\nanswers/dcb/ens1f0 <<\n13 {\n2 hex 08 00 00*134\n5 hex 08 08 00*6\n}\n>>";
    for id in ["pfc.enabled", "switch.pfc"] {
        let said = change(&page(IRDMA, ice), id);
        assert!(said.contains("ethtool --set-priv-flags ens1f0 fw-lldp-agent off"), "{id}: {said}");
    }
    // A mapping that nobody sent is not called a difference between tables.
    let silent = page(BNXT_RE, "");
    assert!(
        check(&silent, "switch.dscp").why.as_ref().unwrap().contains("no priority mappings received"),
        "{:#?}",
        silent.checks
    );
}

#[test]
fn ecn_is_judged_where_nothing_is_lossless() {
    let lossy = dcb("2 hex 08 00 00*134");
    let one = page(MLX5, &lossy);
    assert_eq!(check(&one, "ecn.reaction_point").value.as_deref(), Some("enabled on priority 3"));
    let none = page(MLX5, &format!("{lossy}\n{IFACE}/ecn/roce_rp/enable/3 = 0"));
    assert_eq!(verdict(&none, "ecn.reaction_point"), Some(Status::Warning));
    assert_eq!(verdict(&none, "ecn.notification_point"), Some(Status::Ok));
}

#[test]
fn a_device_without_roce_has_that_verdict_alone() {
    let page = page(NOT_ROCE, "");
    let text = text::text(&page, true, 120);
    for (device, driver, protocol, name) in [
        ("rdmap0s6", "efa", Protocol::Efa, "Elastic Fabric Adapter"),
        ("cxgb4_0", "iw_cxgb4", Protocol::Iwarp, "iWARP"),
        ("siw0", "siw", Protocol::Iwarp, "iWARP"),
        ("mlx5_1", "mlx5_ib", Protocol::InfiniBand, "InfiniBand"),
    ] {
        let facts = page.host.devices.iter().find(|facts| facts.name == device).unwrap();
        assert_eq!((facts.driver.as_deref(), facts.protocol), (Some(driver), protocol), "{device}");
        let subject = format!("{device}/1");
        let said: Vec<_> = page.visibility.iter().filter(|entry| entry.subject == subject).collect();
        // EFA's counters are shown to those who ask for them.
        assert_eq!(said.len(), if protocol == Protocol::Efa { 2 } else { 1 }, "{said:?}");
        assert_eq!((said[0].source, said[0].availability), (SourceKind::Packets, Availability::No));
        assert!(said[0].why.contains(name) && said[0].why.contains("not RoCE"), "{said:?}");
        assert!(text.contains(&format!("{subject}, packets: no")), "{text}");
        let checks: Vec<_> = page.checks.iter().filter(|c| c.subject.starts_with(device)).collect();
        assert_eq!(checks.len(), 1, "{checks:?}");
        assert_eq!((checks[0].id, checks[0].verdict), ("device.protocol", Status::Info));
        // No setting of RoCE was looked for.
        let missed = page.host.unread.iter().filter(|r| r.subject == device);
        assert!(missed.clone().all(|r| !r.what.contains("CNP") && !r.what.contains("tos")), "{missed:?}");
    }
    // IP over InfiniBand is an interface, and shows no RoCE either.
    let ib0 = entry(&page, "ib0", SourceKind::Packets).unwrap();
    assert!(
        ib0.availability == Availability::No && ib0.command.is_none() && ib0.why.contains("not RoCE"),
        "{ib0:?}"
    );
    assert!(!page.is_critical());
}

#[test]
fn roce_is_switched_off_as_the_driver_wants_it() {
    for (host, port, expected) in [
        (
            MLX5,
            "mlx5_0/1",
            "pci/0000:3b:00.0 name enable_roce value false cmode driverinit; devlink dev reload",
        ),
        (BNXT_RE, "bnxt_re0/1", "pci/0000:01:00.0 name enable_roce value false cmode permanent"),
        (IRDMA, "irdma0/1", "pci/0000:02:00.0 name enable_roce value false cmode runtime"),
    ] {
        let page = page(host, "");
        let why = &entry(&page, port, SourceKind::Packets).unwrap().why;
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn counters_are_named_and_how_the_optional_ones_are_turned_on_and_at_what_price() {
    let why = |page: &Page, subject| entry(page, subject, SourceKind::Counters).unwrap().why.clone();
    let all_on = why(&page(MLX5, ""), "mlx5_0/1");
    for part in ["ce_marked_packets, cnps_handled", "rx_bytes", "per queue pair"] {
        assert!(all_on.contains(part), "{part} in {all_on}");
    }
    assert!(!all_on.contains("are off"), "{all_on}");
    let off = page(
        MLX5,
        "answers/rdma/optional.0.1 <<\n80 {\n81 {\n82 text cc_rx_ce_pkts\n95 u8 1\n}\n81 {\n82 text cc_rx_cnp_pkts\n95 u8 0\n}\n}\n>>",
    );
    let off = why(&off, "mlx5_0/1");
    for part in [
        "disabled: cc_rx_cnp_pkts (",
        "rdma statistic set link mlx5_0/1 optional-counters cc_rx_ce_pkts,cc_rx_cnp_pkts",
        "may reduce throughput",
    ] {
        assert!(off.contains(part), "{part} in {off}");
    }
    for (host, port) in [(BNXT_RE, "bnxt_re0/1"), (IRDMA, "irdma0/1"), (RXE, "rxe0/1")] {
        let said = why(&page(host, ""), port);
        assert!(said.contains("tx_packets") && said.contains("not per queue pair"), "{said}");
    }
}

#[test]
fn a_vlan_on_a_port_does_not_pass_for_an_interface_without_rdma() {
    let name = "enp59s0np0.7";
    let hidden = page(&format!("{MLX5}\n{VLAN}"), "");
    let vlan = hidden.host.interface(name).unwrap();
    assert_eq!(
        (vlan.devices.as_slice(), vlan.below.as_slice()),
        (&["mlx5_0".to_owned()][..], &[IFACE_NAME.to_owned()][..])
    );
    let said: Vec<_> = hidden.visibility.iter().filter(|entry| entry.subject == name).collect();
    assert!(said.len() == 1 && said[0].availability == Availability::No, "{said:?}");
    assert!(said[0].why.contains("only counters") && said[0].command.is_none(), "{said:?}");
    let text = text::text(&hidden, true, 120);
    assert!(text.contains("GID 5: 198.51.100.1, RoCE v2, on enp59s0np0.7"), "{text}");
    // Its own settings are those of the port: they are checked once.
    assert!(
        !hidden.checks.iter().any(|c| c.subject == name && c.id != "filters.stale"),
        "{:#?}",
        hidden.checks
    );
    let off = "answers/parameter/0000:3b:00.0.enable_roce <<\n80 {\n84 {\n85 {\n87 u8 1\n}\n}\n}\n>>";
    let shown = page(&format!("{MLX5}\n{VLAN}"), off);
    assert_eq!(entry(&shown, name, SourceKind::Packets).unwrap().availability, Availability::Yes);
}
