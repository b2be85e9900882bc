//! What the counters of a port say about its queue pairs: whose sequence errors they are, and whether a PSN may have
//! wrapped.

use super::*;

fn blamed(asker: &mut Asker) -> Vec<(u32, Blamed)> {
    asker.sample().qps.iter().filter_map(|qp| Some((qp.lqpn, qp.blamed?))).collect()
}

/// Lets these queue pairs send for 3 s, each packet acknowledged by the next reading, from this PSN on.
fn send(nic: &Nic, asker: &mut Asker, from: u32, senders: &[u32]) {
    nic.run(asker, 3_000, |at, qps| {
        let psn = from + u32::try_from(at).unwrap();
        qps.extend(senders.iter().map(|lqpn| (*lqpn, Virtual { next: psn, acked: psn, ..IDLE })));
    });
}

/// A NAK is answered at once: the contexts of these queue pairs show PSNs that move, and no retries.
#[test]
fn sequence_errors_of_the_port_belong_to_those_that_moved() {
    let nic = Nic::with(4);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 3_000, |_, _| {});
    count_errors(&nic, &mut asker, 0, 5);
    send(&nic, &mut asker, 100, &[2]);
    count_errors(&nic, &mut asker, 0, 45);
    nic.run(&mut asker, 4_000, |_, _| {});
    let certain = Blamed { timeouts: 0, sequence_errors: 40, certain: true };
    assert_eq!(blamed(&mut asker), [(2, certain)], "the others sent nothing");

    // Timeouts, at which retries show, are of neither: no context showed any.
    send(&nic, &mut asker, 5_000, &[2, 3]);
    count_errors(&nic, &mut asker, 6, 52);
    nic.run(&mut asker, 4_000, |_, _| {});
    let likely = |sequence_errors| Blamed { timeouts: 0, sequence_errors, certain: false };
    assert_eq!(blamed(&mut asker), [(2, likely(47)), (3, likely(7))]);

    // One of them at least is blameless.
    send(&nic, &mut asker, 10_000, &[2, 3]);
    count_errors(&nic, &mut asker, 6, 53);
    nic.run(&mut asker, 4_000, |_, _| {});
    assert_eq!(blamed(&mut asker), [(2, likely(47)), (3, likely(7))]);
}

#[test]
fn sequence_errors_likely_belong_to_one_that_retries_while_others_move() {
    let nic = Nic::with(4);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 3_000, |_, _| {});
    count_errors(&nic, &mut asker, 0, 0);
    nic.run(&mut asker, 3_000, |at, qps| {
        let psn = 100 + u32::try_from(at).unwrap();
        qps.insert(2, Virtual { next: psn + 8, acked: psn, retry_now: 6, ..IDLE });
        qps.insert(3, Virtual { next: psn, acked: psn, ..IDLE });
    });
    count_errors(&nic, &mut asker, 2, 9);
    nic.run(&mut asker, 4_000, |_, _| {});
    assert_eq!(blamed(&mut asker), [(2, Blamed { timeouts: 2, sequence_errors: 9, certain: false })]);
}

/// Its peer does not answer: it sends no NAK either.
#[test]
fn sequence_errors_are_not_those_of_one_that_stood_still_while_others_moved() {
    let nic = Nic::with(4);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 3_000, |_, _| {});
    nic.run(&mut asker, 3_000, |_, qps| {
        qps.insert(2, Virtual { next: 40, acked: 20, retry_now: 5, ..IDLE });
    });
    count_errors(&nic, &mut asker, 0, 0);
    send(&nic, &mut asker, 100, &[3]);
    count_errors(&nic, &mut asker, 3, 40);
    nic.run(&mut asker, 4_000, |_, _| {});
    let likely = |timeouts, sequence_errors| Blamed { timeouts, sequence_errors, certain: false };
    assert_eq!(blamed(&mut asker), [(2, likely(3, 0)), (3, likely(0, 40))]);
    // Nothing else moves any more, and another one has ended.
    count_errors(&nic, &mut asker, 3, 40);
    asker.ended("mlx5_0");
    nic.run(&mut asker, 3_000, |_, _| {});
    count_errors(&nic, &mut asker, 3, 45);
    nic.run(&mut asker, 4_000, |_, _| {});
    assert_eq!(blamed(&mut asker), [(2, likely(3, 5)), (3, likely(0, 40))]);
}

/// One that ended or that nothing reaches may have sent as well: moved PSNs alone are no reason to blame another one.
#[test]
fn sequence_errors_are_nobodys_while_others_may_have_had_them() {
    for (ended, unreached, expected) in [(false, false, 2), (true, false, 0), (false, true, 0)] {
        let nic = Nic::with(4);
        let mut asker = Asker::new(50);
        asker.take_past_verbs(if unreached { vec![listed(99)] } else { Vec::new() });
        nic.list(&mut asker, "mlx5_ib");
        nic.run(&mut asker, 3_000, |_, _| {});
        count_errors(&nic, &mut asker, 0, 0);
        send(&nic, &mut asker, 100, &[2, 3]);
        if ended {
            asker.ended("mlx5_0");
        }
        count_errors(&nic, &mut asker, 0, 40);
        nic.run(&mut asker, 4_000, |_, _| {});
        assert_eq!(blamed(&mut asker).len(), expected, "ended: {ended}, unreached: {unreached}");
    }
}

/// Counters of the port, at the time of the NIC's clock: packets sent and received.
fn count_packets(nic: &Nic, asker: &mut Asker, [sent, received]: [Option<u64>; 2]) {
    let counted = PortCounts { packets: PortPackets { sent, received }, ..PortCounts::default() };
    asker.take_counters("mlx5_0", 1, counted, nic.now_ns.get());
}

/// The port's packets from before the reading before the first of these readings until after the last one.
#[test]
fn a_psn_of_contexts_may_have_wrapped_once_as_many_packets_pass_the_port() {
    const ROUND: u64 = 1 << 24;
    for (sent, received, may_have) in [
        (Some(ROUND - 1), Some(0), false),
        (Some(ROUND), Some(0), true),
        (Some(ROUND / 2), Some(ROUND / 2 - 1), false),
        (Some(ROUND / 2), Some(ROUND / 2), true),
        (None, Some(0), true),
    ] {
        let nic = Nic::with(2);
        let mut asker = nic.asker(50, "mlx5_ib");
        nic.run(&mut asker, 3_000, |_, _| {});
        count_packets(&nic, &mut asker, [Some(7), Some(9)]);
        nic.run(&mut asker, 3_000, |_, _| {});
        let of_each = |asker: &mut Asker, figure: fn(&ContextSample) -> u64| {
            asker.sample().qps.iter().map(figure).collect::<Vec<_>>()
        };
        let before = of_each(&mut asker, |qp| qp.readings);
        send(&nic, &mut asker, 100, &[1]);
        let moved = of_each(&mut asker, |qp| qp.readings)[0] - before[0];
        assert!(moved > 0);
        assert_eq!(of_each(&mut asker, |qp| qp.ambiguous), [0, 0], "not decided");
        let counted = [sent.map(|sent| sent + 7), received.map(|received| received + 9)];
        count_packets(&nic, &mut asker, counted);
        let expected = [if may_have { moved } else { 0 }, 0];
        assert_eq!(of_each(&mut asker, |qp| qp.ambiguous), expected, "{sent:?} and {received:?}");
        // What passes later is of later readings.
        count_packets(&nic, &mut asker, counted.map(|packets| Some(packets? + 2 * ROUND)));
        assert_eq!(of_each(&mut asker, |qp| qp.ambiguous), expected, "decided once");
    }
}
