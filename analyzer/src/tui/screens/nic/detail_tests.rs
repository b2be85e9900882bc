//! The reasons for dashes.

use std::collections::BTreeMap;

use super::super::columns::COLUMNS;
use super::*;
use crate::analysis::{Device, DeviceQp, Facts, Options, fixtures};
use crate::tui::screens::nic::reasons::Reasons;

fn facts() -> Facts {
    Facts::of(&fixtures::sample(Vec::new(), Vec::new()), &Options::default())
}

/// The reasons for the dashes of a queue pair of a device with this driver.
fn reasons_of(facts: &Facts, driver: Option<&str>, qp: &DeviceQp) -> Reasons {
    let device = Device { name: "mlx5_0".into(), driver: driver.map(str::to_owned), ..Device::default() };
    let row = row_of(&device, qp);
    reasons::of(facts, &row, None, dashes(&row))
}

fn row_of<'a>(device: &'a Device, qp: &'a DeviceQp) -> Row<'a> {
    let rates_of = (None, None);
    Row { device, qp, sent: None, received: None, rates_of, age_ns: None, level: Level::Fine }
}

/// Columns of the table, and their names in the detail.
const SHOWN_AS: [(&str, &str); 19] = [
    ("rqpn", "peer QP"),
    ("kind", "type"),
    ("state", "state"),
    ("src", "from"),
    ("dst", "to"),
    ("udp_port", "UDP source port"),
    ("dscp", "DSCP"),
    ("path_mtu", "path MTU"),
    ("timeout_ns", "timeout"),
    ("retry_cnt", "retries"),
    ("tx_packets_per_s", "sends"),
    ("rx_packets_per_s", "receives"),
    ("in_flight", "in flight"),
    ("stuck_ns", "stuck"),
    ("retries_used", "retries used"),
    ("timeouts", "port's timeouts"),
    ("age_ns", "age"),
    ("process", "process"),
    ("pod", "pod"),
];

#[test]
fn dashes_of_the_table_are_dashes_of_the_detail() {
    let (device, qp) = (Device::default(), DeviceQp::default());
    let row = row_of(&device, &qp);
    let named = dashes(&row);
    for column in COLUMNS.iter().filter(|column| column.cell(&row) == UNKNOWN) {
        let name = SHOWN_AS.iter().find(|(name, _)| *name == column.name).map(|(_, name)| name);
        let is_posts = column.name == "requests_per_s";
        assert!(is_posts || name.is_some_and(|name| named.contains(name)), "{}: {named:?}", column.name);
    }
    let given = reasons_of(&facts(), None, &qp).given;
    assert!(given.contains(&"posted work: not sampled (--sample-posts)".to_owned()), "{given:#?}");
    let sampled = DeviceQp { posts: Some(Box::default()), ..DeviceQp::default() };
    let given = reasons_of(&facts(), None, &sampled).given;
    assert!(given.contains(&"posted work: no rate, as no time was sampled".to_owned()), "{given:#?}");
}

#[test]
fn figures_of_another_source_than_most_are_marked() {
    let mut qp = DeviceQp {
        sources: vec![QpSource::ControlPath, QpSource::Context],
        figure_sources: [("src", QpSource::ControlPath), ("path_mtu", QpSource::ControlPath)].into(),
        priority: Some(3),
        ..DeviceQp::default()
    };
    qp.figure_sources.insert("priority", QpSource::Context);
    qp.control.src = "192.0.2.1".parse().ok();
    (qp.control.path_mtu, qp.control.rnr_retry) = (Some(4_096), Some(7));
    let shown = |qp: &DeviceQp| {
        let device = Device::default();
        let (title, all) = by_source(qp, settings(&row_of(&device, qp)));
        let value = |name: &str| all.iter().find(|(other, _)| *other == name).unwrap().1.clone();
        (title, ["from", "path MTU", "priority", "plane"].map(value))
    };
    let (title, values) = shown(&qp);
    assert_eq!(title, "from verbs, unless marked");
    assert_eq!(values, ["192.0.2.1", "4096", "3 (context)", UNKNOWN]);
    // One source alone has all of them.
    (qp.sources, qp.figure_sources) = (vec![QpSource::Devx, QpSource::Packets], BTreeMap::new());
    let (title, values) = shown(&qp);
    assert_eq!(
        (title.as_str(), values),
        ("from DEVX", ["192.0.2.1", "4096", "3", UNKNOWN].map(str::to_owned))
    );
    // A recording has no source by figure.
    qp.sources = vec![QpSource::ControlPath, QpSource::Context];
    assert_eq!(shown(&qp).0, "");
}

#[test]
fn packets_of_lists_are_marked_beside_figures_of_the_context() {
    let device = Device::default();
    let of = |source| {
        let mut qp = DeviceQp { sent_packets: Some(8_000), ..DeviceQp::default() };
        qp.figure_sources.insert("sent_packets", source);
        let row = Row { sent: Some(250.0), rates_of: (Some(source), None), ..row_of(&device, &qp) };
        let value = |name: &str| context(&row).into_iter().find(|(other, _)| *other == name).unwrap().1;
        ["packets sent", "sends"].map(value)
    };
    assert_eq!(of(QpSource::Netlink), ["8,000 (list)", "250 pkt/s (list)"]);
    assert_eq!(of(QpSource::Context), ["8,000", "250 pkt/s"]);
}

#[test]
fn no_dash_is_without_a_reason() {
    let facts = facts();
    let kinds = [None, Some("RC"), Some("UC"), Some("UD"), Some("GSI"), Some("XRC_TGT"), Some("DRIVER")];
    let optional = [QpSource::ControlPath, QpSource::Devx, QpSource::Context, QpSource::Netlink];
    let mut count = 0;
    for driver in [None, Some("mlx5_ib"), Some("irdma"), Some("hns_roce")] {
        let states = [None, Some("INIT"), Some("RTS"), Some("ERR")];
        for (kind, state) in kinds.iter().flat_map(|kind| states.map(|state| (*kind, state))) {
            for chosen in 0..1 << optional.len() {
                let sources = optional.iter().enumerate().filter(|(at, _)| (chosen >> at) & 1 == 1);
                let sources: Vec<QpSource> = sources.map(|(_, source)| *source).collect();
                for rqpn in [None, Some(117)] {
                    let qp = DeviceQp {
                        lqpn: 17,
                        kind,
                        state,
                        sources: sources.clone(),
                        rqpn,
                        ..DeviceQp::default()
                    };
                    let found = reasons_of(&facts, driver, &qp);
                    assert!(found.open.is_empty(), "{driver:?} {qp:?}: {:?}", found.open);
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 4 * 7 * 4 * 16 * 2);
}

/// One of mlx5 that is connected, with a context and the lists.
fn read_by_context() -> DeviceQp {
    let mut qp = DeviceQp {
        lqpn: 17,
        rqpn: Some(117),
        kind: Some("RC"),
        state: Some("RTS"),
        sources: vec![QpSource::Netlink, QpSource::ControlPath, QpSource::Context],
        in_flight: Some(0),
        stuck_ns: Some(0),
        unsent_wqes: Some(0),
        priority: Some(3),
        adaptive_routing: Some(false),
        sent_packets: Some(9),
        ..DeviceQp::default()
    };
    let control = &mut qp.control;
    (control.src, control.dst) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
    (control.path_mtu, control.udp_port) = (Some(4_096), Some(50_000));
    qp
}

#[test]
fn a_context_that_lacks_a_figure_has_its_own_reason_for_each() {
    let given = |driver, qp: &DeviceQp| reasons_of(&facts(), Some(driver), qp).given;
    let has = |all: &[String], reason: &str| all.iter().any(|one| one == reason);
    let mlx5 = given("mlx5_ib", &read_by_context());
    for reason in [
        "plane: its context chooses none, as on a port with one plane",
        "port of the bond: its context chooses none, as on a port without a bond",
        "port's errors: none that the port counted is attributed to it",
        "posted receives: it has no receive queue of its own: a shared one, or none",
        "retries used, RNR retries used, retried in: no idle queue pair of the device has shown yet from which value its retries count",
        "packets received: its sources do not have this PSN",
        "flow label, DSCP, timeout and retries: connected before this run, and no query has shown them",
        "creation: it was created before this run",
    ] {
        assert!(has(&mlx5, reason), "{reason}: {mlx5:#?}");
    }
    let hns = given("hns_roce", &DeviceQp { adaptive_routing: None, ..read_by_context() });
    assert!(has(
        &hns,
        "adaptive routing, plane, port of the bond: the contexts of this driver do not have them"
    ));
    let dead = DeviceQp { state: Some("ERR"), in_flight: None, stuck_ns: None, ..read_by_context() };
    let dead = given("mlx5_ib", &dead);
    assert!(
        has(&dead, "in flight, stuck, retries in use: in the error state its queues are flushed"),
        "{dead:#?}"
    );
    let new = DeviceQp { in_flight: None, stuck_ns: None, ..read_by_context() };
    let new = given("mlx5_ib", &new);
    assert!(
        new.iter().any(|one| one.starts_with("in flight, stuck, retries in use: it has sent nothing")),
        "{new:#?}"
    );
}

#[test]
fn a_setting_that_a_driver_leaves_out_of_queries_names_the_driver() {
    let before = DeviceQp { sources: vec![QpSource::Netlink, QpSource::ControlPath], ..read_by_context() };
    for driver in ["irdma", "ionic_rdma", "erdma"] {
        let given = reasons_of(&facts(), Some(driver), &before).given;
        let reason = format!(
            "flow label, DSCP, timeout and retries: connected before this run, and {driver} leaves them out of queries"
        );
        assert!(given.contains(&reason), "{given:#?}");
    }
    let mut since = before;
    since.control.created_ns = Some(1);
    let given = reasons_of(&facts(), Some("irdma"), &since).given;
    assert!(
        !given.iter().any(|one| one.contains("leaves them out")),
        "its verbs would have set them: {given:#?}"
    );
}
