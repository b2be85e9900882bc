//! Queue pairs of kinds that contexts and lists say less of.

use super::*;

/// A NIC that is asked about these queue pairs.
fn list_and_read(nic: &Nic, asker: &mut Asker, qps: &[QueuePair]) {
    let port = Port { device: "mlx5_0".into(), index: 7, number: 1, ..Port::default() };
    asker.take_qps(&[Port { driver: Some("mlx5_ib".into()), ..port }], qps.iter());
    nic.run(asker, 3_000, |_, _| {});
}

/// Nothing acknowledges the packets of UC: the field of the context keeps its first value.
#[test]
fn a_queue_pair_without_acknowledgements_is_never_stuck() {
    let nic = Nic::with(2);
    nic.qps.borrow_mut().insert(2, Virtual { next: 900, acked: 10, retry_now: 0, ..IDLE });
    let mut asker = Asker::new(50);
    let both = [listed(1), QueuePair { kind: Some("UC"), ..listed(2) }];
    list_and_read(&nic, &mut asker, &both);
    count(&nic, &mut asker, 0);
    let figures = |asker: &mut Asker| {
        let sample = asker.sample();
        let of = |at: usize| (sample.qps[at].in_flight, sample.qps[at].stuck_ns, sample.qps[at].retries_used);
        (of(0), of(1), sample.qps[0].blamed.map(|blamed| blamed.certain))
    };
    assert_eq!(figures(&mut asker), ((Some(0), Some(0), Some(0)), (None, None, None), None));
    // It has no timeouts either, so that those of its port are of the other one.
    nic.run(&mut asker, 3_000, |at, qps| {
        qps.insert(1, Virtual { next: 40, acked: 20, retry_now: 5, ..IDLE });
        qps.insert(2, Virtual { next: 900 + u32::try_from(at).unwrap(), acked: 10, ..IDLE });
    });
    count(&nic, &mut asker, 3);
    nic.run(&mut asker, 4_000, |_, _| {});
    assert_eq!(figures(&mut asker).2, Some(true));
}

/// Those that GPUs drive may have had the timeouts of their port.
#[test]
fn queue_pairs_that_nothing_reaches_make_attribution_uncertain() {
    for (device, port, certain) in [
        ("mlx5_0", Some(1), false),
        ("mlx5_0", None, false),
        ("mlx5_0", Some(2), true),
        ("mlx5_1", None, true),
    ] {
        let nic = Nic::with(2);
        let mut asker = Asker::new(50);
        let unreached = QueuePair { device: device.into(), port, ..listed(99) };
        asker.take_past_verbs(vec![unreached]);
        nic.list(&mut asker, "mlx5_ib");
        nic.run(&mut asker, 3_000, |_, _| {});
        count(&nic, &mut asker, 0);
        nic.run(&mut asker, 3_000, |_, qps| {
            qps.insert(2, Virtual { next: 40, acked: 20, retry_now: 5, ..IDLE });
        });
        count(&nic, &mut asker, 3);
        nic.run(&mut asker, 4_000, |_, _| {});
        let sample = asker.sample();
        let blamed = sample.qps.iter().find_map(|qp| qp.blamed).map(|blamed| blamed.certain);
        assert_eq!((blamed, sample.queries.of), (Some(certain), 2), "{device} {port:?}");
    }
}

/// Of EFA's queue pairs, which are all of a kind of its own, and of those of irdma or ionic.
#[test]
fn a_driver_without_contexts_is_given_up_with_its_reason_whatever_the_kind() {
    for (driver, kind, is_over) in
        [("efa", "DRIVER", true), ("ionic_rdma", "XRC_INI", true), ("mlx5_ib", "DRIVER", false)]
    {
        let nic = Nic { errno: Some(libc::EINVAL), ..Nic::with(8) };
        let mut asker = Asker::new(50);
        let qps: Vec<QueuePair> =
            (1..=8).map(|lqpn| QueuePair { kind: Some(kind), ..listed(lqpn) }).collect();
        let port = Port { device: "mlx5_0".into(), index: 7, number: 1, ..Port::default() };
        asker.take_qps(&[Port { driver: Some(driver.into()), ..port }], qps.iter());
        nic.run(&mut asker, 3_000, |_, _| {});
        let queries = asker.sample().queries.clone();
        let why = format!("{driver} of this kernel returns no QP context (EINVAL)");
        let expected = is_over.then(|| ("mlx5_0".to_owned(), why));
        assert_eq!(queries.refused, expected.into_iter().collect::<Vec<_>>(), "{driver}");
        assert_eq!(queries.failed <= 3, is_over, "{driver}: {}", queries.failed);
    }
}

/// A DC queue pair has another peer with each message: the PSNs are those of the latest.
#[test]
fn psns_of_dc_count_nothing() {
    let nic = Nic::with(2);
    let mut asker = Asker::new(50);
    let both = [listed(1), QueuePair { kind: Some("DRIVER"), ..listed(2) }];
    list_and_read(&nic, &mut asker, &both);
    let sample = asker.sample();
    let sent: Vec<_> = sample.qps.iter().map(|qp| (qp.lqpn, qp.sent, qp.received)).collect();
    assert_eq!(sent, [(1, Some(0), Some(0)), (2, None, None)]);
}

/// The kernel names no peer of XRC: the layout is that which another queue pair of the device has confirmed.
#[test]
fn a_context_that_nothing_confirms_waits_for_another_of_the_device() {
    let nic = Nic::with(2);
    let mut asker = Asker::new(50);
    let nameless = QueuePair { kind: Some("XRC_INI"), rqpn: None, ..listed(2) };
    list_and_read(&nic, &mut asker, std::slice::from_ref(&nameless));
    let sample = asker.sample();
    assert_eq!((sample.qps.len(), sample.queries.refused.len()), (0, 0));
    assert_eq!(sample.queries.undecoded[0].reason, Undecodable::Unconfirmed.to_string());
    list_and_read(&nic, &mut asker, &[listed(1), nameless]);
    assert_eq!(asker.sample().qps.iter().map(|qp| qp.lqpn).collect::<Vec<_>>(), [1, 2]);
}
