use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::analysis::{InputKind, Options, fixtures};
use crate::doctor;
use crate::host::rdma::qp_context::tests::mlx5_dump;
use crate::host::read::UnreadReasons;
use crate::host::read::recorded::Recorded;
use crate::host::read::testing::files_below;
use crate::report::Report;
use crate::sample::{Direction, Sample, SourceKind};
use crate::source::devices::listed;

const MLX5: &str = include_str!("../../../../tests/data/host/mlx5.txt");
const BUSY: &str = include_str!("../../../../tests/data/host/mlx5_busy.txt");
const LATER: &str = include_str!("../../../../tests/data/host/mlx5_busy_later.txt");
const BNXT_RE: &str = include_str!("../../../../tests/data/host/bnxt_re.txt");
const IRDMA: &str = include_str!("../../../../tests/data/host/irdma.txt");
const IONIC: &str = include_str!("../../../../tests/data/host/ionic.txt");
const NOT_ROCE: &str = include_str!("../../../../tests/data/host/not_roce.txt");
const RXE: &str = include_str!("../../../../tests/data/host/rxe.txt");
const IFACE: &str = "enp59s0np0";
use crate::util::time::NS_PER_S as SECOND;

/// Reads everything once.
fn read(watch: &mut Watch, host: &Recorded, time_ns: u64) {
    let (root, kernel) = (host.root(), host.kernel());
    watch.read_counters(&root, &kernel, (time_ns, time_ns));
    if !watch.is_empty() {
        watch.learn(doctor::collect(&root, &kernel));
    }
    list(watch, host, (time_ns, time_ns));
}

/// Lists queue pairs at this monotonic and Unix time.
fn list(watch: &mut Watch, host: &Recorded, (began_ns, time_ns): (u64, u64)) -> QueuePairs {
    let (root, kernel, mut unread) = (host.root(), host.kernel(), UnreadReasons::new());
    let addresses = listed::addresses(&root, &mut unread);
    let found = listed::read(&root, &kernel, &addresses, &mut unread, &mut || {});
    let found = QueuePairs { began_monotonic_ns: began_ns, ended_monotonic_ns: began_ns, ..found };
    watch.take_qps(&found, time_ns);
    found
}

/// The devices of a host after `snapshots`, read ten seconds apart.
fn watched(snapshots: &[&str], interface: &str) -> Devices {
    let mut watch = None;
    for (at, text) in (0u64..).zip(snapshots) {
        let host = Recorded::unpack(text);
        let watch = watch
            .get_or_insert_with(|| Watch::new(&host.root(), &host.kernel(), &[interface.to_owned()], &[]));
        read(watch, &host, fixtures::START + at * 10 * SECOND);
    }
    let mut watch = watch.unwrap();
    // As by counters after the last list that nothing has passed since.
    watch.ports.iter_mut().for_each(PortWatch::count_qps);
    watch.sample()
}

#[test]
fn a_port_has_its_trust_mode_and_its_addresses_by_index() {
    for (trust, trusts_pcp) in [("dscp", false), ("pcp", true)] {
        let host = Recorded::unpack(&MLX5.replace("qos/trust = dscp", &format!("qos/trust = {trust}")));
        let mut watch = Watch::new(&host.root(), &host.kernel(), &[IFACE.to_owned()], &[]);
        read(&mut watch, &host, fixtures::START);
        assert_eq!(watch.sample().ports[0].trusts_pcp, trusts_pcp, "{trust}");
        let asked = watch.ports[0].query_port().unwrap();
        let address = |index: u8| asked.addresses.get(&index).map(ToString::to_string);
        assert_eq!([3, 4].map(address), [Some("192.0.2.1".to_owned()), None]);
    }
}

fn busy() -> Devices {
    watched(&[&format!("{MLX5}\n{BUSY}"), &format!("{MLX5}\n{BUSY}\n{LATER}")], IFACE)
}

/// A live sample of one interface without visible RoCE packets.
fn sample(devices: Devices, interface: &str) -> Sample {
    let ways = [Direction::Ingress, Direction::Egress];
    let links = ways.map(|way| fixtures::link(interface, Some(way)));
    let mut sample = fixtures::sample(links.into(), Vec::new());
    (sample.kind, sample.inputs) = (SourceKind::Live, vec![interface.to_owned()]);
    sample.devices = Arc::new(devices);
    sample
}

#[test]
fn efa_is_read_when_it_is_named_and_is_no_roce_otherwise() {
    let counters = |packets: u32, timeouts: u32| {
        format!(
            "{NOT_ROCE}\n[sys/class/infiniband/rdmap0s6/ports/1/hw_counters]\n\
             tx_pkts = {packets}\nretrans_timeout_events = {timeouts}"
        )
    };
    let before = Recorded::unpack(&counters(1_000, 2));
    assert!(Watch::new(&before.root(), &before.kernel(), &["ens6".to_owned()], &[]).is_empty());
    let mut watch = Watch::new(&before.root(), &before.kernel(), &[], &["rdmap0s6".to_owned()]);
    read(&mut watch, &before, fixtures::START);
    read(&mut watch, &Recorded::unpack(&counters(5_000, 5)), fixtures::START + 10 * SECOND);
    let devices = watch.sample();
    let [port] = &devices.ports[..] else { panic!("{devices:?}") };
    assert_eq!(port.value("tx_packets"), Some((4_000, "sysfs hw_counters")));
    assert_eq!(port.value("local_ack_timeouts"), Some((3, "sysfs hw_counters")));
    assert!(watch.notes()[0].contains("Elastic Fabric Adapter"), "{:?}", watch.notes());
}

#[test]
fn two_readings_make_figures_of_the_time_between() {
    let devices = busy();
    let [port] = &devices.ports[..] else { panic!("{devices:?}") };
    assert!(port.hidden);
    assert_eq!(port.seconds(), Some(10.0));
    for (name, value, source) in [
        ("rx_packets", 8_000_000, "ethtool"),
        ("tx_packets", 8_000_000, "ethtool"),
        ("tx_bytes", 33_000_000_000, "ethtool"),
        ("ce_marked_packets", 600_000, "sysfs hw_counters"),
        ("cnps_sent", 9_000, "sysfs hw_counters"),
        // Across a wrap of 32 bits.
        ("out_of_sequence", 1_500, "sysfs hw_counters"),
        ("local_ack_timeouts", 30, "sysfs hw_counters"),
        ("port_discards", 1_200, "ethtool"),
        ("fec_uncorrectable", 0, "ethtool"),
    ] {
        assert_eq!(port.value(name), Some((value, source)), "{name}");
    }
    // Only the counters that netlink has in addition.
    let netlink = port.counters.iter().find(|counters| counters.source == "RDMA netlink").unwrap();
    assert_eq!(netlink.values, [("ce_marked_packets".to_owned(), 600_000)]);
    let hardware = port.counters.iter().find(|counters| counters.source == "sysfs hw_counters").unwrap();
    assert_eq!(hardware.resets, 1, "slow restarts went from 5 to 2");
    assert_eq!(port.lossless, Some(1 << 3));
    let paused = port.pause.iter().find(|pause| !pause.sent && pause.priority == Some(3)).unwrap();
    assert_eq!((paused.frames, paused.paused_ns), (Some(90_000), Some(6 * SECOND)));
    assert_eq!(paused.worst_share, Some(0.6));
}

#[test]
fn queue_pairs_move_by_their_psns() {
    let devices = busy();
    let [first, second] = &devices.ports[0].qps[..] else { panic!("{devices:?}") };
    assert_eq!((first.owner.lqpn, first.owner.rqpn, first.owner.state), (298, Some(951), Some("RTS")));
    // The expected PSN wrapped at 24 bits.
    assert_eq!((first.sent, first.received), (Some(7_000_000), Some(1_000)));
    assert_eq!(
        (first.owner.comm.as_deref(), first.owner.pod.as_deref()),
        (Some("python3"), Some("trainer-0"))
    );
    assert_eq!((second.sent, second.stalled_ns), (Some(0), Some(0)), "idle from the start is not stalled");
    let [bound] = &devices.ports[0].qp_counters[..] else { panic!("{devices:?}") };
    assert_eq!(bound.lqpns, [298]);
    assert_eq!(bound.values, [("ce_marked_packets".to_owned(), 600_000), ("cnps_sent".to_owned(), 8_000)]);
}

#[test]
fn a_queue_pair_that_stands_still_while_it_is_paused_is_a_victim() {
    let (start, later) = (format!("{MLX5}\n{BUSY}"), format!("{MLX5}\n{BUSY}\n{LATER}"));
    let still = later.replace("rx_prio3_pause_duration 6000120", "rx_prio3_pause_duration 15000120");
    let devices = watched(&[&start, &later, &still], IFACE);
    assert_eq!(devices.ports[0].qps[0].stalled_ns, Some(10 * SECOND));
    let report = Report::build(&sample(devices, IFACE), &Options::default().into());
    let victim = report.findings.iter().find(|finding| finding.id == "pfc.victim").unwrap();
    assert_eq!(victim.evidence["queue_pairs"], serde_json::json!([298]));
    // The same silence without a pause is not a stall caused by pauses.
    let devices = watched(&[&start, &later, &later], IFACE);
    assert_eq!(devices.ports[0].qps[0].stalled_ns, Some(0));
}

#[test]
fn a_psn_that_may_have_wrapped_counts_at_least_what_it_shows() {
    let later = format!("{MLX5}\n{BUSY}\n{LATER}")
        .replace("tx_vport_rdma_unicast_packets 8050000", "tx_vport_rdma_unicast_packets 98050000");
    let (start, few) = (format!("{MLX5}\n{BUSY}"), format!("{MLX5}\n{BUSY}\n{LATER}"));
    // The bound is what the port has counted after the list: counters from before it are older.
    for (at_list, after, expected) in [(&few, &few, 0), (&few, &later, 1), (&later, &later, 1)] {
        let hosts = [&start, at_list, after].map(|text| Recorded::unpack(text));
        let mut watch = Watch::new(&hosts[0].root(), &hosts[0].kernel(), &[IFACE.to_owned()], &[]);
        read(&mut watch, &hosts[0], fixtures::START);
        read(&mut watch, &hosts[1], fixtures::START + 10 * SECOND);
        let devices = watch.sample();
        let qp = &devices.ports[0].qps[0];
        assert_eq!((qp.sent, qp.received, qp.ambiguous), (Some(0), Some(0), 0), "not decided yet");
        let now_ns = fixtures::START + 11 * SECOND;
        watch.read_counters(&hosts[2].root(), &hosts[2].kernel(), (now_ns, now_ns));
        let devices = watch.sample();
        let qp = &devices.ports[0].qps[0];
        assert_eq!(
            (qp.sent, qp.received, qp.ambiguous),
            (Some(7_000_000), Some(1_000), expected),
            "at least"
        );
    }
    // Some drivers report only the initial PSNs.
    let devices = watched(&[MLX5, MLX5], IFACE);
    assert_eq!((devices.ports[0].qps[0].sent, devices.ports[0].qps[0].stalled_ns), (None, None));
}

/// A queue pair gets its initial send PSN in the transition to RTS, whatever the PSN was before.
#[test]
fn a_psn_that_is_set_is_no_packet() {
    let at = |state: u8, sending: u32, receiving: u32| {
        let text = format!("{MLX5}\n{BUSY}").replace("24 u32 2000", &format!("24 u32 {sending}"));
        let text = text.replace("23 u32 16777000", &format!("23 u32 {receiving}"));
        text.replacen(
            "27 u8 3\n    28 u32 4711\n  }\n  20 {",
            &format!("27 u8 {state}\n    28 u32 4711\n  }}\n  20 {{"),
            1,
        )
    };
    // A port without traffic cannot have sent packets, but some drivers report no counters.
    let (reset, init, rtr, rts) = (0, 1, 2, 3);
    for (moments, expected) in [
        // Set in the transition from RTR to RTS; packets received meanwhile count.
        (vec![(rtr, 0, 500), (rts, 7000, 510), (rts, 7003, 511)], (Some(3), Some(11))),
        (vec![(init, 0, 0), (rtr, 0, 500), (rts, 7000, 500), (rts, 7000, 501)], (Some(0), Some(1))),
        (vec![(rts, 7000, 500), (rts, 7010, 505)], (Some(10), Some(5))),
        // Reset for another connection: the latest packets are unknown and not estimated.
        (vec![(rts, 7000, 500), (reset, 0, 0), (rtr, 0, 90), (rts, 100, 90)], (Some(0), Some(0))),
    ] {
        let texts: Vec<String> = moments.iter().map(|(state, sq, rq)| at(*state, *sq, *rq)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let devices = watched(&texts, IFACE);
        let qp = &devices.ports[0].qps[0];
        assert_eq!((qp.owner.lqpn, (qp.sent, qp.received)), (298, expected), "{moments:?}");
        let is_reset = moments.iter().any(|(state, ..)| *state == reset);
        assert_eq!(qp.ambiguous, u64::from(is_reset), "at least: {moments:?}");
    }
}

/// RoCE over a VLAN is handled by the hardware of the port below: only counters are available.
#[test]
fn a_vlan_on_a_port_whose_packets_are_hidden_has_counters_only() {
    const VLAN: &str = include_str!("../../../../tests/data/host/mlx5_vlan.txt");
    let name = "enp59s0np0.7";
    let texts = [format!("{MLX5}\n{VLAN}\n{BUSY}"), format!("{MLX5}\n{VLAN}\n{BUSY}\n{LATER}")];
    let host = Recorded::unpack(&texts[0]);
    let watch = Watch::new(&host.root(), &host.kernel(), &[name.to_owned()], &[]);
    assert!(watch.hides_all());
    let notes = watch.notes();
    assert!(notes.len() == 1 && notes[0].contains("bypass enp59s0np0 or enp59s0np0.7"), "{notes:?}");
    let devices = watched(&[&texts[0], &texts[1]], name);
    assert_eq!(devices.ports[0].above, [name]);
    let report = Report::build(&sample(devices, name), &Options::default().into());
    assert_eq!(report.facts.source.kind, InputKind::Counters);
    let [rx, ..] = &report.facts.coverage[..] else { panic!("{:?}", report.facts.coverage) };
    assert_eq!((rx.link.as_str(), rx.ratio), (name, Some(0.0)));
    assert!(rx.why.as_ref().unwrap().contains("in hardware"), "{rx:?}");
    // If its packets are visible, they are a part of those that the port counts.
    let mut rxe = busy();
    (rxe.ports[0].hidden, rxe.ports[0].above) = (false, vec![name.to_owned()]);
    let report = Report::build(&sample(rxe, name), &Options::default().into());
    assert_eq!(report.facts.source.kind, InputKind::Mixed);
    let why = report.facts.coverage[0].why.as_ref().unwrap();
    assert!(why.contains("only what passes enp59s0np0.7 is watched"), "{why}");
}

#[test]
fn the_report_of_a_host_whose_packets_are_hidden() {
    let report = Report::build(&sample(busy(), IFACE), &Options::default().into());
    assert_eq!(report.facts.source.kind, InputKind::Counters);
    assert_eq!((report.facts.totals.packets, report.facts.totals.roce_packets), (0, 0), "never added");
    let sources: Vec<&str> = report.facts.devices.iter().map(|device| device.source.as_str()).collect();
    assert_eq!(sources, ["sysfs counters", "sysfs hw_counters", "RDMA netlink", "ethtool"]);
    let [ingress, egress] = &report.facts.coverage[..] else { panic!("{:?}", report.facts.coverage) };
    assert_eq!((ingress.counted_packets, ingress.ratio), (Some(8_000_000), Some(0.0)));
    assert!(ingress.why.as_ref().unwrap().contains("in hardware"));
    assert_eq!((egress.direction, egress.counted_packets), ("egress", Some(8_000_000)));
    let found: Vec<(&str, String)> =
        report.findings.iter().map(|finding| (finding.id, format!("{:?}", finding.severity))).collect();
    let expected = [
        ("pfc.storm", "Warning"),
        ("pfc.on_wrong_priority", "Warning"),
        ("device.discards", "Warning"),
        ("device.loss", "Warning"),
        ("device.congestion", "Warning"),
        ("device.pcie_stalls", "Info"),
    ];
    assert_eq!(found, expected.map(|(id, severity)| (id, severity.to_owned())), "{:#?}", report.findings);
    let text = crate::report::text::text(&report, 120);
    for word in [
        "device counters of enp59s0np0",
        "mlx5_0/1 (mlx5_ib on enp59s0np0, over 10.0 s)",
        "hw_counters",
        "ethtool: received PFC priority 3",
        "298",
        "trainer-0",
        "mlx5_0/1 ingress: 0 %, 0 of 8",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
}

#[test]
fn a_quiet_host_without_a_fault_has_no_findings() {
    let report = Report::build(&sample(watched(&[MLX5, MLX5], IFACE), IFACE), &Options::default().into());
    assert_eq!(report.findings, []);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["source"]["kind"], "counters");
    assert_eq!(json["coverage"][0]["ratio"], serde_json::Value::Null, "nothing carried, nothing to cover");
}

#[test]
fn settings_that_are_wrong_are_findings_and_so_is_a_switch_that_differs() {
    let wrong = format!("{MLX5}\n[]\nanswers/pause/{IFACE} = off on on");
    let devices = watched(&[&wrong], IFACE);
    let checks: Vec<&str> = devices.settings.iter().map(|setting| setting.check).collect();
    assert_eq!(checks, ["pfc.with_global_pause"]);
    let report = Report::build(&sample(devices, IFACE), &Options::default().into());
    assert!(report.findings.iter().any(|finding| finding.id == "config.lossless"), "{:?}", report.findings);

    // The switch announces PFC on priority 4 instead of 3.
    let host = Recorded::unpack(MLX5);
    let mut watch = Watch::new(&host.root(), &host.kernel(), &[IFACE.to_owned()], &[]);
    read(&mut watch, &host, 0);
    assert_eq!(watch.sample().settings, []);
    let pfc = crate::ethernet::lldp::Pfc { enabled: 1 << 4, capable: 8, willing: false, error: false };
    let switch = Neighbour { system: Some("leaf1".into()), pfc: Some(pfc), ..Neighbour::default() };
    watch.hear(IFACE, switch.clone());
    let devices = watch.sample();
    assert_eq!(
        devices.settings.iter().map(|s| (s.check, s.critical)).collect::<Vec<_>>(),
        [("switch.pfc", true)]
    );
    let report = Report::build(&sample(devices, IFACE), &Options::default().into());
    assert_eq!(report.facts.links[0].neighbours, [switch]);
    assert_eq!(report.facts.links[1].neighbours, [], "it arrives");
    assert!(report.findings.iter().any(|finding| finding.id == "config.switch"));
}

/// Increase of a device's counters by their common names; each counter was doubled.
fn doubled(text: &str, interface: &str) -> BTreeMap<String, u64> {
    let twice = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        let value: u64 = value.parse().ok()?;
        Some(format!("{name} {}", 2 * value))
    };
    let is_counter =
        |line: &&str| ["/hw_counters/", "_pri", "x_pa", "x_dropped"].iter().any(|part| line.contains(part));
    let grown = |line: &str| if is_counter(&line) { twice(line) } else { None };
    let later: Vec<String> =
        text.lines().map(|line| grown(line).unwrap_or_else(|| line.to_owned())).collect();
    let devices = watched(&[text, &later.join("\n")], interface);
    let all = devices.ports[0].counters.iter().flat_map(|source| source.values.iter().cloned());
    all.collect()
}

#[test]
fn ionic_speaks_the_common_vocabulary() {
    let found = doubled(IONIC, "enp9s0");
    for (name, value) in [
        ("rx_packets", 1_000),
        ("tx_packets", 2_000),
        ("rx_bytes", 1_000_000),
        ("tx_bytes", 2_000_000),
        ("ce_marked_packets", 1),
        ("cnps_handled", 2),
        ("cnps_sent", 3),
        ("local_ack_timeouts", 4),
        ("retransmissions", 5),
        ("psn_error_naks", 6),
        ("implied_psn_errors", 7),
        ("rnr_naks_received", 8),
        ("retries_exceeded", 9),
        ("out_of_sequence", 10),
        ("out_of_buffer", 11),
        ("duplicate_requests", 12),
        // A counter without a common name keeps the name of the driver.
        ("req_rx_cqe_err", 13),
        ("rx_discards", 14),
        ("port_discards", 15),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}: {found:?}");
    }
    let port = watched(&[IONIC], "enp9s0").ports.remove(0);
    assert_eq!((port.driver.as_deref(), port.hidden), (Some("ionic_rdma"), true));
    let pauses: Vec<_> =
        port.pause.iter().map(|one| (one.priority, one.sent, one.frames, one.paused_ns)).collect();
    let [rx, other, tx] = [(3, false, Some(0)), (4, false, None), (3, true, None)]
        .map(|(priority, sent, paused_ns)| (Some(priority), sent, Some(0), paused_ns));
    assert_eq!(pauses, [rx, other, tx]);
}

#[test]
fn priorities_of_bnxt_en_are_counted_where_it_shows_them() {
    let found = doubled(BNXT_RE, "enp1s0f0np0");
    let of: Vec<_> = found.iter().filter(|(name, _)| name.contains("prio")).collect();
    let expected = [
        ("prio0_rx_bytes", 100),
        ("prio3_rx_bytes", 4_000),
        ("prio3_rx_packets", 40),
        ("prio3_tx_bytes", 5_000),
        ("prio3_tx_packets", 50),
    ];
    assert_eq!(
        of,
        expected
            .map(|(name, value)| (name.to_owned(), value))
            .iter()
            .map(|(n, v)| (n, v))
            .collect::<Vec<_>>()
    );
}

#[test]
fn each_driver_is_known_for_what_it_is() {
    for (text, interface, driver, hidden) in [
        (IONIC, None, "ionic_rdma", true),
        (BNXT_RE, None, "bnxt_re", true),
        (IRDMA, None, "irdma", true),
        (RXE, None, "rxe", false),
        (MLX5, Some(IFACE), "mlx5_ib", true),
    ] {
        let host = Recorded::unpack(text);
        let named: Option<String> = interface.map(str::to_owned);
        let first = rdma::list(host.root().sys())[0].interfaces()[0].to_owned();
        let interface = named.unwrap_or(first);
        let watch = Watch::new(&host.root(), &host.kernel(), std::slice::from_ref(&interface), &[]);
        let port = &watch.sample().ports[0];
        assert_eq!((port.driver.as_deref(), port.hidden), (Some(driver), hidden), "{interface}");
        assert_eq!(watch.notes().len(), usize::from(hidden), "one line each");
    }
    // With RoCE offload disabled its packets are visible.
    let off = format!(
        "{MLX5}\n[]\nanswers/parameter/0000:3b:00.0.enable_roce <<\n80 {{\n84 {{\n85 {{\n87 u8 1\n}}\n}}\n}}\n>>"
    );
    let host = Recorded::unpack(&off);
    let watch = Watch::new(&host.root(), &host.kernel(), &[IFACE.to_owned()], &[]);
    assert!(!watch.sample().ports[0].hidden && watch.notes().is_empty());
}

#[test]
fn coverage_is_seen_over_counted() {
    let at = |seen: u64| {
        let mut sample = sample(busy(), IFACE);
        sample.links[0].retired.packets = seen;
        Report::build(&sample, &Options::default().into())
    };
    let report = at(7_990_000);
    assert!((report.facts.coverage[0].ratio.unwrap() - 0.999).abs() < 0.001);
    assert_eq!((report.facts.coverage[0].why.clone(), report.facts.source.kind), (None, InputKind::Mixed));
    assert!(at(4_000_000).facts.coverage[0].why.is_some());
}

#[test]
fn a_driver_without_pause_statistics_has_those_of_dcb() {
    let counted = |sent: u8, received: u8| {
        let three = |count: u8| format!("00*24 {count:02x} 00*39");
        format!(
            "{MLX5}\n[]\nanswers/statistics/{IFACE} = rx_discards_phy 0\nanswers/dcb/{IFACE} <<\n13 {{\n2 hex 08 08 00*6 {} {}\n}}\n>>",
            three(sent),
            three(received)
        )
    };
    let devices = watched(&[&counted(1, 2), &counted(4, 7)], IFACE);
    let port = &devices.ports[0];
    assert_eq!(port.pause_source, "DCB netlink");
    let of = |sent: bool| port.pause.iter().find(|p| p.sent == sent && p.priority == Some(3)).unwrap().frames;
    assert_eq!((of(true), of(false)), (Some(3), Some(5)));
    // A driver that does not count them reports zeros, which are not counts.
    let devices = watched(&[&counted(0, 0), &counted(0, 0)], IFACE);
    assert_eq!(devices.ports[0].pause, []);
}

/// Each file missing in turn, or with invalid content: no panic, and no invented value.
#[test]
fn an_odd_driver_crashes_nothing() {
    let nothing = Devices { kernel: kernel_version(), ..Devices::default() };
    assert_eq!(watched(&["", ""], IFACE), nothing);
    let host = Recorded::unpack(&format!("{MLX5}\n{BUSY}"));
    let mut files = files_below(host.root().base(), &["sys/class", "sys/devices", "sys/kernel", "proc"]);
    // The targets of symbolic links are covered separately.
    files.retain(|file| !file.is_symlink());
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        let whole = std::fs::read(&file).unwrap();
        for odd in [None, Some("\u{fffd}-1 \u{0}"), Some("99999999999999999999")] {
            match odd {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let mut watch = Watch::new(&host.root(), &host.kernel(), &[IFACE.to_owned()], &[]);
            read(&mut watch, &host, fixtures::START);
            let report = Report::build(&sample(watch.sample(), IFACE), &Options::default().into());
            assert_eq!(report.facts.totals.packets, 0, "{}", file.display());
        }
        std::fs::write(&file, whole).unwrap();
    }
}

/// A clock set by tests.
impl Clock for u64 {
    fn monotonic_ns(&self) -> u64 {
        *self
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns
    }
}

/// The answer to a context query for queue pair 298 of mlx5.txt, in the format of recorded hosts.
fn answer(state: u32, next: u32, acked: u32, peer: u32) -> String {
    let set = [
        ("state", state),
        ("remote_qpn", peer),
        ("retry_count", 7),
        ("cur_retry_count", 7),
        ("hw_sq_wqebb_counter", 3),
        ("sw_sq_wqebb_counter", 3),
        ("ads.dscp", 26),
        ("ads.udp_sport", 50_000),
        ("next_send_psn", next),
        ("last_acked_psn", acked),
    ];
    let hex = mlx5_dump(298, &set).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, " {byte:02x}");
        hex
    });
    format!("answers/rdma/qp_context.0.1.298 <<\n85 hex{hex}\n>>")
}

#[test]
fn contexts_of_queue_pairs_reach_the_report_with_their_coverage() {
    let host = Recorded::unpack(&format!("{MLX5}\n[]\n{}", answer(3, 10, 10, 951)));
    let mut watch = Watch::new(&host.root(), &host.kernel(), &[IFACE.to_owned()], &[]);
    watch.query_contexts(50);
    let mut report = |host: &Recorded, at: u64| {
        read(&mut watch, host, fixtures::START + at * SECOND);
        watch.read_contexts(&host.kernel(), &(fixtures::START + at * SECOND));
        watch.note_counters(fixtures::START + at * SECOND);
        Report::build(&sample(watch.sample(), IFACE), &Options::default().into())
    };
    // Idle, twice.
    report(&host, 0);
    report(&host, 1);
    host.apply(&format!("[]\n{}", answer(3, 60, 40, 951)));
    report(&host, 2);
    let last = report(&host, 5);
    let qp = last.facts.devices.iter().flat_map(|device| &device.qps).find(|qp| qp.lqpn == 298).unwrap();
    assert_eq!((qp.in_flight, qp.stuck_ns, qp.retries_used), (Some(20), Some(3 * SECOND), Some(0)));
    assert_eq!(
        (qp.control.udp_port, qp.control.dscp, qp.context_ns),
        (Some(50_000), Some(26), Some(fixtures::START + 5 * SECOND))
    );
    let coverage = last.facts.qp_context.clone().unwrap();
    assert_eq!((coverage.how, coverage.queried, coverage.of), (Some("RES_QP_GET_RAW"), 1, 1));
    assert_eq!((coverage.at_most, coverage.answered), (50, 4));
    let stuck = last.findings.iter().find(|finding| finding.id == "qp.stuck").unwrap();
    assert!(stuck.title.starts_with("QP 298 of mlx5_0 stuck for 3.00 s: 20 packets"), "{}", stuck.title);
    let words: Vec<String> =
        crate::report::text::text(&last, 120).split_whitespace().map(str::to_owned).collect();
    let words = words.join(" ");
    for said in [
        "QP 298: 20 packets in flight, stuck for 3.00 s",
        "QP context of the NIC: 1 of 1 queue pairs read (4 queries",
    ] {
        assert!(words.contains(said), "{said}: {words}");
    }
    assert_eq!(last.facts.totals.packets, 0, "never added to packets");
}

#[test]
fn a_device_without_contexts_says_why_once() {
    // A recorded host without an answer behaves like mlx5 without dumps; a peer that contradicts the kernel's list is
    // rejected.
    for (answer, expected) in [
        (
            String::new(),
            "mlx5_0: the device or its firmware does not support dumps of QP contexts (mlx5_ib, EOPNOTSUPP)",
        ),
        (answer(3, 60, 40, 952), "the context names another peer than the kernel"),
    ] {
        let host = Recorded::unpack(&format!("{MLX5}\n[]\n{answer}"));
        let mut watch = Watch::new(&host.root(), &host.kernel(), &[IFACE.to_owned()], &[]);
        watch.query_contexts(50);
        for at in 0..4 {
            read(&mut watch, &host, fixtures::START + at * SECOND);
            watch.read_contexts(&host.kernel(), &(fixtures::START + at * SECOND));
        }
        watch.note_counters(fixtures::START + 4 * SECOND);
        assert!(!watch.reads_contexts(), "it is not queried a second time");
        let report = Report::build(&sample(watch.sample(), IFACE), &Options::default().into());
        let coverage = report.facts.qp_context.clone().unwrap();
        assert_eq!((coverage.how, coverage.queried, coverage.of, coverage.failed), (None, 0, 1, 1));
        assert!(coverage.refused[0].contains(expected), "{:?}", coverage.refused);
        assert!(crate::report::text::text(&report, 120).contains("QP context of the NIC"));
    }
}

#[path = "clock_tests.rs"]
mod clock;
#[path = "counted_tests.rs"]
mod counted;
#[path = "relisted_tests.rs"]
mod relisted;
