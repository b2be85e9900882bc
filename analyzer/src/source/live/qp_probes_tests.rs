use super::*;
use crate::host::kernel::btf::cut;
use crate::host::rdma::qp_layout::kernels;
use crate::host::rdma::qp_layout::tests::{layout, record};
use crate::host::read::testing::tree;

fn of(record: &QpRecord) -> Option<Change> {
    change(&layout(), record, WallClock::sample(), &|device| (device == "rxe0").then(|| "rxe".into()))
}

#[test]
fn a_host_without_the_types_has_no_probes_and_says_why() {
    let host = tree(&[("sys/module/ib_core/refcnt", "0"), ("sys/kernel/btf/vmlinux", "")]);
    let root = HostRoot::at(host.path());
    let why = |root: &HostRoot| format!("{:#}", QpProbes::start(root).unwrap_err());
    assert_eq!(why(&root), "cannot read the kernel's BTF: invalid BTF");
    std::fs::remove_file(root.path("/sys/kernel/btf/vmlinux")).unwrap();
    let said = why(&root);
    assert!(said.starts_with("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"), "{said}");
    // ib_core is a module with its own BTF.
    let whole = kernels::btf(kernels::KERNELS[0], "ib_core");
    let (kernel_alone, _) = cut::cut(&whole, &["kobject"]);
    std::fs::write(root.path("/sys/kernel/btf/vmlinux"), kernel_alone).unwrap();
    assert_eq!(why(&root), "the kernel's BTF has no struct ib_qp");
}

/// One that waits for an address is no missed one: it goes on, and connects a queue pair.
#[test]
fn calls_under_way_are_not_missed() {
    const NOW: u64 = 100 * 1_000_000_000;
    let host = tree(&[("proc/5/task/6/comm", "train"), ("proc/5/task/7/comm", "train")]);
    let root = HostRoot::at(host.path());
    let call =
        |kind, mask, time_ns| Call { qp: 1, attr: 2, time_ns, mask: u64::from(mask), kind: u64::from(kind) };
    let thread = |number: u64| 5 << 32 | number;
    let of = |calls: &[(u64, Call)]| {
        let found = Outstanding::among(calls.iter().copied(), NOW, Some(&root));
        (found.under_way, found.may_end)
    };
    let waits = call(kind::MODIFIED, mask::STATE | mask::AV, NOW - 1_000_000_000);
    assert_eq!(of(&[(thread(6), waits)]), (1, 0));
    assert_eq!(of(&[(thread(7), call(kind::MODIFIED, mask::STATE, NOW - 1))]), (1, 1));
    assert_eq!(of(&[(thread(7), call(kind::CREATED, BY_PROCESS, NOW - 1))]), (1, 0));
    let over = [
        (thread(8), waits),
        (thread(6), Call { time_ns: NOW - LONGEST_CALL_NS, ..waits }),
        (thread(7), call(kind::QUERIED, 0, NOW - 1)),
    ];
    assert_eq!(of(&over), (0, 0), "the thread has ended; it is too old; rocescope's own");
}

#[test]
fn calls_become_changes() {
    let created = record(kind::CREATED, 17, 0, &|_| {});
    let Some(Change::Is(life, _)) = of(&created) else { panic!() };
    assert_eq!((life.lqpn, life.kind, life.state), (17, Some("RC"), Some("RESET")));
    assert_eq!(life.origin, Some(KERNEL));
    let Some(Change::Is(of_process, _)) = of(&record(kind::CREATED, 17, BY_PROCESS, &|_| {})) else {
        panic!()
    };
    assert_eq!(of_process.origin, Some(VERBS));
    assert_eq!((life.pid, life.comm.as_deref()), (Some(4_711), Some("train")));

    let to_rtr = mask::STATE | mask::AV | mask::DEST_QPN;
    let set = |attr: &mut [u8]| {
        attr[..4].copy_from_slice(&2u32.to_ne_bytes());
        attr[16..20].copy_from_slice(&29u32.to_ne_bytes());
    };
    let Some(Change::Is(life, _)) = of(&record(kind::MODIFIED, 17, to_rtr, &set)) else { panic!() };
    assert_eq!((life.state, life.rqpn, life.control.udp_port), (Some("RTR"), Some(29), Some(0xc1ed)));
    assert_eq!((life.control.flow_label, life.control.connected_ns), (Some(0), None));
    let mut sending = record(kind::MODIFIED, 17, mask::STATE, &|attr| {
        attr[..4].copy_from_slice(&3u32.to_ne_bytes());
    });
    (sending.time_ns, sending.duration_ns) = (10_000, 7_000);
    let Some(Change::Is(ready, call)) = of(&sending) else { panic!() };
    assert_eq!((ready.state, ready.control.connect_took_ns), (Some("RTS"), Some(7_000)));
    assert!(ready.control.connected_ns.is_some());
    assert_eq!(call, Span { began_ns: 3_000, ended_ns: 10_000 });

    // A query in RTR: attributes that are set in the transition to RTS are 0, which is no value.
    let queried = record(kind::QUERIED, 17, 0, &set);
    let of_kernel = QpRecord { pid: 0, ..queried };
    let made_by = |record: &QpRecord| match of(record) {
        Some(Change::Found(life, _)) => (life.pid, life.origin),
        _ => panic!(),
    };
    assert_eq!((made_by(&queried), made_by(&of_kernel)), ((Some(4_711), Some(VERBS)), (None, None)));
    let Some(Change::Found(life, _)) = of(&queried) else { panic!() };
    assert_eq!((life.rqpn, life.control.timeout_ns, life.control.retry_cnt), (Some(29), None, None));

    let mut failed = record(kind::MODIFIED, 17, to_rtr, &set);
    (failed.result, failed.duration_ns) = (-110, 1_020_000_000);
    let Some(Change::Event(event)) = of(&failed) else { panic!() };
    assert_eq!((event.event.as_str(), event.errno), ("modify to RTR", Some(110)));
    assert_eq!((event.lqpn, event.duration_ns), (Some(17), Some(1_020_000_000)));

    let mut gone = record(kind::EVENT, 17, 0, &|_| {});
    gone.event = 1;
    let Some(Change::Event(event)) = of(&gone) else { panic!() };
    assert_eq!((event.event.as_str(), event.lqpn), ("QP_FATAL", Some(17)));
    let destroyed = record(kind::DESTROYED, 17, 0, &|_| {});
    assert!(matches!(of(&destroyed), Some(Change::Ended { lqpn: 17, port: None, .. })));
    let Some(Change::Kept(event)) = of(&QpRecord { result: -16, ..destroyed }) else { panic!() };
    assert_eq!((event.event.as_str(), event.errno, event.lqpn), (DESTROY, Some(16), Some(17)));
    // Of the second port.
    let mut qp1 = record(kind::DESTROYED, 1, 0, &|_| {});
    qp1.qp_bytes[32..36].copy_from_slice(&2u32.to_ne_bytes());
    assert!(matches!(of(&qp1), Some(Change::Ended { lqpn: 1, port: Some(2), .. })));
}

/// Verbs and queries of a connected queue pair, applied one after the other.
fn known_after(records: &[QpRecord]) -> QpLife {
    let mut lives = crate::source::devices::lives::Follower::default();
    for record in records {
        lives.take(of(record).unwrap());
    }
    let mut life = lives.sample(&Calls::default(), None).qps[0].clone();
    // Of the clock at that time.
    life.control.connected_ns = None;
    life
}

/// irdma and ionic leave the path and the timeout at 0 in the answer to a query; erdma leaves what was on the stack.
#[test]
fn a_query_does_not_replace_what_a_verb_has_set_by_what_its_driver_left_out() {
    let path = |attr: &mut [u8], peer: &str, class: u8| {
        let peer: std::net::Ipv6Addr = peer.parse().unwrap();
        attr[..4].copy_from_slice(&3u32.to_ne_bytes());
        attr[4..8].copy_from_slice(&3u32.to_ne_bytes());
        attr[16..20].copy_from_slice(&29u32.to_ne_bytes());
        attr[32..48].copy_from_slice(&peer.octets());
        attr[48..52].copy_from_slice(&593_445u32.to_ne_bytes());
        (attr[55], attr[80], attr[81], attr[82]) = (class, 14, 7, 6);
    };
    let verb = record(kind::MODIFIED, 17, mask::ALL, &|attr| path(attr, "::ffff:10.0.0.2", 104));
    let set = known_after(&[verb]);
    assert_eq!((set.control.dscp, set.control.flow_label), (Some(26), Some(593_445)));
    assert_eq!((set.control.timeout_ns, set.control.retry_cnt), (Some(timeout_ns(14)), Some(7)));
    let without = record(kind::QUERIED, 17, 0, &|attr| {
        attr[..4].copy_from_slice(&3u32.to_ne_bytes());
        attr[16..20].copy_from_slice(&29u32.to_ne_bytes());
    });
    let with_maker = QpLife { pid: Some(4_711), origin: Some(VERBS), ..set };
    assert_eq!(known_after(&[verb, without]), with_maker);
    assert_eq!(known_after(&[without]).control, QpControl::default(), "made before the run: unknown");
    // A driver that answers in full.
    let other = record(kind::QUERIED, 17, 0, &|attr| path(attr, "::ffff:10.0.0.3", 0));
    let control = known_after(&[verb, other]).control;
    assert_eq!((control.dscp, control.dst), (Some(0), "10.0.0.3".parse().ok()));
    // Whatever erdma answers but the state is no answer.
    let filled = layout().queried(&other, Some("erdma"));
    assert_eq!(filled, Attributes { state: Some(3), ..Attributes::default() });
}

#[test]
fn a_query_shows_only_what_a_queue_pair_of_its_kind_has() {
    let all = |attr: &mut [u8]| {
        attr[..4].copy_from_slice(&3u32.to_ne_bytes());
        attr[16..20].copy_from_slice(&29u32.to_ne_bytes());
        attr[32 + 15] = 1;
        (attr[80], attr[81], attr[82]) = (14, 7, 6);
    };
    for (number, peer, sends) in [
        (1, None, false),
        (2, Some(29), true),
        (3, Some(29), false),
        (4, None, false),
        (9, Some(29), true),
        (10, Some(29), false),
    ] {
        let mut answer = record(kind::QUERIED, 17, 0, &all);
        answer.qp_bytes[24..28].copy_from_slice(&u32::to_ne_bytes(number));
        let life = known_after(&[answer]);
        let control = &life.control;
        assert_eq!((life.state, life.rqpn), (Some("RTS"), peer), "type {number}");
        // Without a peer no port follows from the numbers.
        assert_eq!((control.udp_port.is_some(), control.dscp.is_some()), (peer.is_some(), peer.is_some()));
        assert_eq!((control.timeout_ns.is_some(), control.retry_cnt.is_some()), (sends, sends));
    }
    // No peer yet.
    let modified = record(kind::MODIFIED, 17, mask::AV | mask::DEST_QPN, &|_| {});
    assert_eq!(known_after(&[modified]).control.udp_port, None);
}
