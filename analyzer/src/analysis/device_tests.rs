use std::sync::Arc;

use super::*;
use crate::analysis::QpSource;
use crate::analysis::{Facts, Options, fixtures};
use crate::entity::contexts::Contexts;
use crate::entity::devices::QpSample;
use crate::entity::owners::QpOwner;

/// Numbers of the queue pairs of a port, each with its sources and whether it has ended.
fn listed(lives: Vec<QpLife>, pid: impl Into<Option<u32>>) -> Vec<(u32, Vec<QpSource>, bool)> {
    let owner = QpOwner { device: fixtures::port().device, lqpn: 17, rqpn: Some(29), ..QpOwner::default() };
    let qp = QpSample { owner: QpOwner { pid: pid.into(), ..owner }, ..QpSample::default() };
    let port = PortSample { qps: Arc::new(vec![qp]), ..fixtures::port() };
    let lives = Arc::new(Lives { qps: lives.into(), ..Lives::default() });
    let found = devices(&Devices { ports: vec![port], lives, ..Devices::default() });
    let qps = found.into_iter().flat_map(|device| device.qps);
    qps.map(|qp| (qp.lqpn, qp.sources, qp.control.ended_ns.is_some())).collect()
}

#[test]
fn a_queue_pair_that_ended_since_the_list_is_one() {
    use QpSource::{ControlPath, Netlink};
    let alive = fixtures::qp_life(17, 29);
    let pid = alive.pid.unwrap();
    let mut ended = alive.clone();
    (ended.control.created_ns, ended.control.ended_ns) = (Some(1), Some(5));
    assert_eq!(listed(vec![ended.clone()], pid), [(17, vec![Netlink, ControlPath], true)]);
    // Its thread has ended, so that the list names no process.
    assert_eq!(listed(vec![ended.clone()], None::<u32>), [(17, vec![Netlink, ControlPath], true)]);
    // Another process has the number by now, or the same one made another queue pair.
    let two = [(17, vec![ControlPath], true), (17, vec![Netlink], false)];
    assert_eq!(listed(vec![ended.clone()], pid + 1), two);
    let mut again = alive;
    again.control.created_ns = Some(9);
    let two = [(17, vec![ControlPath], true), (17, vec![Netlink, ControlPath], false)];
    assert_eq!(listed(vec![ended, again], pid), two);
}

/// A library may set another DSCP past the verbs (NCCL issue 2383): which of the two stands there must be clear.
#[test]
fn figures_of_verbs_and_context_have_their_source() {
    let mut life = fixtures::qp_life(17, 29);
    (life.control.dscp, life.control.timeout_ns) = (Some(26), None);
    life.control.udp_port = Some(50_000);
    let other = fixtures::qp_life(18, 30);
    let mut sample =
        fixtures::with_lives(fixtures::port(), Lives { qps: vec![life, other].into(), ..Lives::default() });
    let mut context =
        ContextSample { device: "mlx5_0".into(), port: 1, lqpn: 17, ..ContextSample::default() };
    (context.context.dscp, context.context.timeout, context.context.rqpn) = (Some(0), Some(14), Some(29));
    (context.context.adaptive_routing, context.context.bond_port) = (Some(true), Some(2));
    Arc::make_mut(&mut sample.devices).contexts =
        Arc::new(Contexts { qps: vec![context], ..Contexts::default() });
    let qps = |sample: &Sample| -> Vec<DeviceQp> {
        let facts = Facts::of(sample, &Options::default());
        facts.devices.into_iter().flat_map(|device| device.qps).collect()
    };
    let [both, one] = &qps(&sample)[..] else { panic!("two queue pairs") };
    let verbs = ["src", "dst", "state", "rqpn", "udp_port"].map(|figure| (figure, QpSource::ControlPath));
    let contexts =
        ["dscp", "timeout_ns", "adaptive_routing", "bond_port"].map(|figure| (figure, QpSource::Context));
    let expected: BTreeMap<_, _> = verbs.into_iter().chain(contexts).collect();
    assert_eq!((both.control.dscp, both.figure_sources.clone()), (Some(0), expected));
    assert!(one.figure_sources.is_empty(), "the verbs alone: {:?}", one.figure_sources);
    let [verbs, context] = [QpSource::ControlPath, QpSource::Context].map(Some);
    assert_eq!(
        [both.source_of("src"), both.source_of("dscp"), one.source_of("src")],
        [verbs, context, verbs]
    );
    sample.recording = Some(Arc::default());
    let recorded = &qps(&sample)[0];
    assert!(recorded.figure_sources.is_empty());
    assert_eq!(recorded.source_of("src"), None, "one of two");
}

/// Without a context the list and the verbs are two sources.
#[test]
fn figures_of_list_and_verbs_have_their_source() {
    use QpSource::{Context, ControlPath, Netlink};
    let owner = QpOwner {
        device: "mlx5_0".into(),
        lqpn: 17,
        rqpn: Some(29),
        state: Some("RTS"),
        ..QpOwner::default()
    };
    let of = |life: Option<QpLife>, context: Option<ContextSample>| {
        let qp = QpSample { owner: owner.clone(), sent: Some(5), ..QpSample::default() };
        let port = PortSample { qps: Arc::new(vec![qp]), ..fixtures::port() };
        let lives = Arc::new(Lives { qps: life.into_iter().collect::<Vec<_>>().into(), ..Lives::default() });
        let contexts = Contexts { qps: context.into_iter().collect(), ..Contexts::default() };
        let devices =
            Devices { ports: vec![port], lives, contexts: Arc::new(contexts), ..Devices::default() };
        super::devices(&devices)[0].qps[0].figure_sources.clone()
    };
    let ordered = |all: &[(&'static str, QpSource)]| all.iter().copied().collect::<BTreeMap<_, _>>();
    let verbs = [("src", ControlPath), ("dst", ControlPath), ("sent_packets", Netlink)];
    let both = [&verbs[..], &[("state", ControlPath), ("rqpn", ControlPath)]].concat();
    assert_eq!(of(Some(fixtures::qp_life(17, 29)), None), ordered(&both));
    // Without state and peer in what the verbs showed, those of the list stand.
    let life = QpLife { rqpn: None, state: None, ..fixtures::qp_life(17, 29) };
    let listed = [&verbs[..], &[("state", Netlink), ("rqpn", Netlink)]].concat();
    assert_eq!(of(Some(life), None), ordered(&listed));
    // What a list or a context has shown last is in the life, too.
    for shown in [Netlink, Context] {
        let life = QpLife { state_of: Some(shown), ..fixtures::qp_life(17, 29) };
        let expected = [&verbs[..], &[("state", shown), ("rqpn", ControlPath)]].concat();
        assert_eq!(of(Some(life), None), ordered(&expected));
    }
    let mut context =
        ContextSample { device: "mlx5_0".into(), port: 1, lqpn: 17, ..ContextSample::default() };
    (context.context.rqpn, context.context.plane) = (Some(29), Some(1));
    let read = [("state", Netlink), ("rqpn", Netlink), ("sent_packets", Netlink), ("plane", Context)];
    assert_eq!(of(None, Some(context)), ordered(&read));
    assert!(of(None, None).is_empty(), "the list alone");
}

#[test]
fn an_exact_count_of_the_context_comes_before_a_lower_bound_of_the_list() {
    let packets = |ambiguous: u64, own: u64, read: Option<u64>| {
        let owner = QpOwner { device: "mlx5_0".into(), lqpn: 17, ..QpOwner::default() };
        let qp = QpSample { owner, sent: Some(5), received: Some(6), ambiguous, ..QpSample::default() };
        let port = PortSample { qps: Arc::new(vec![qp]), ..fixtures::port() };
        let context = ContextSample {
            device: "mlx5_0".into(),
            port: 1,
            lqpn: 17,
            sent: read,
            ambiguous: own,
            ..ContextSample::default()
        };
        let contexts = Arc::new(Contexts { qps: vec![context], ..Contexts::default() });
        let found = devices(&Devices { ports: vec![port], contexts, ..Devices::default() });
        let qp = &found[0].qps[0];
        (qp.sent_packets, qp.ambiguous_readings, qp.figure_sources.get("sent_packets").copied())
    };
    assert_eq!(packets(1, 0, Some(9)), (Some(9), Some(0), Some(QpSource::Context)));
    assert_eq!(packets(1, 1, Some(9)), (Some(5), Some(1), Some(QpSource::Netlink)));
    assert_eq!(packets(1, 0, None), (Some(5), Some(1), Some(QpSource::Netlink)), "the context has none");
}

/// The list may be older than the latest verb, and newer than a query; the life has the latest of them.
#[test]
fn the_latest_state_is_that_of_the_life() {
    let owner = |lqpn| QpOwner {
        device: "mlx5_0".into(),
        lqpn,
        rqpn: Some(29),
        state: Some("RTS"),
        ..QpOwner::default()
    };
    let qps = [17, 18].map(|lqpn| QpSample { owner: owner(lqpn), ..QpSample::default() });
    let port = PortSample { qps: Arc::new(qps.into()), ..fixtures::port() };
    let mut life = fixtures::qp_life(17, 30);
    life.state = Some("ERR");
    let lives = Arc::new(Lives { qps: vec![life].into(), ..Lives::default() });
    let found = devices(&Devices { ports: vec![port], lives, ..Devices::default() });
    let states: Vec<_> = found[0].qps.iter().map(|qp| (qp.lqpn, qp.state, qp.rqpn)).collect();
    assert_eq!(states, [(17, Some("ERR"), Some(30)), (18, Some("RTS"), Some(29))]);
}

/// Those that died send nothing any more.
#[test]
fn of_too_many_queue_pairs_the_dead_ones_stay() {
    let port = PortSample { qps: Arc::default(), ..fixtures::port() };
    let mut lives: Vec<QpLife> = (0..).map(|lqpn| fixtures::qp_life(lqpn, 1)).take(MAX_QPS + 10).collect();
    for life in lives.iter_mut().take(20) {
        (life.control.ended_ns, life.control.end) = (Some(9), Some(crate::entity::lives::DESTROYED));
    }
    lives[5].control.end = Some(crate::entity::lives::ERROR);
    let lives = Arc::new(Lives { qps: lives.into(), ..Lives::default() });
    let found = devices(&Devices { ports: vec![port], lives, ..Devices::default() });
    let ended: Vec<u32> = found[0].qps.iter().filter(|qp| qp.control.is_over()).map(|qp| qp.lqpn).collect();
    assert_eq!((found[0].qps.len(), found[0].qps_left_out, ended.len()), (MAX_QPS, 10, 10));
    assert!(ended.contains(&5), "{ended:?}");
    assert_eq!(found[0].every_qp().count(), MAX_QPS + 10);
}

#[test]
fn an_event_is_of_the_port_of_its_queue_pair() {
    let second = PortSample { port: 2, interface: Some("eth1".into()), ..fixtures::port() };
    let mut life = fixtures::qp_life(17, 29);
    life.port = Some(2);
    let events = vec![fixtures::qp_event(17, "QP_FATAL", fixtures::START)];
    let lives = Arc::new(Lives { qps: vec![life].into(), events, ..Lives::default() });
    let found = devices(&Devices { ports: vec![fixtures::port(), second], lives, ..Devices::default() });
    let of: Vec<_> =
        found.iter().map(|device| (device.port, device.qp_events.len(), device.qps.len())).collect();
    assert_eq!(of, [(Some(2), 1, 1)]);
}
