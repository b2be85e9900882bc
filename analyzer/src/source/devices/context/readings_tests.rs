//! Packets of contexts, which the counters of the port decide about.

use super::*;

const ROUND: u64 = 1 << 24;

impl Nic {
    /// Reads the counters of the port, which has sent this many packets.
    pub(crate) fn counts(&self, asker: &mut Asker, sent: u64) {
        let packets = PortPackets { sent: Some(sent), received: Some(0) };
        let counted = PortCounts { packets, ..PortCounts::default() };
        asker.take_counters("mlx5_0", 1, counted, self.now_ns.get());
    }
}

/// Readings of the only queue pair, its packets, and the ambiguous readings.
fn known(asker: &mut Asker) -> Option<(u64, Option<u64>, u64)> {
    asker.sample().qps.first().map(|qp| (qp.readings, qp.sent, qp.ambiguous))
}

/// Makes the only queue pair send 90 packets before its next context is read.
fn move_on(nic: &Nic, asker: &mut Asker) {
    nic.run(asker, 3_000, |_, qps| {
        qps.insert(1, Virtual { next: 100, acked: 100, ..IDLE });
    });
}

/// The bound of the packets between two contexts is what the port has counted from before the first until after the
/// second: counters are older than a context that is read after them.
#[test]
fn a_psn_may_have_wrapped_if_the_port_counts_enough_until_after_the_context() {
    for (counted, expected) in [
        ([0, 0, ROUND], 1),
        ([7, 7, ROUND + 6], 0),
        // Nothing passes after the counters in between.
        ([0, ROUND / 2 + 1, ROUND / 2 + 1], 0),
        ([0, ROUND, ROUND], 1),
    ] {
        let nic = Nic::with(1);
        let mut asker = nic.asker(50, "mlx5_ib");
        let [first, between, last] = counted;
        nic.counts(&mut asker, first);
        nic.run(&mut asker, 50, |_, _| {});
        nic.counts(&mut asker, between);
        assert_eq!(known(&mut asker), Some((1, Some(0), 0)));
        move_on(&nic, &mut asker);
        assert_eq!(known(&mut asker), Some((2, Some(0), 0)), "its packets are not decided yet: {counted:?}");
        nic.counts(&mut asker, last);
        assert_eq!(known(&mut asker), Some((2, Some(90), expected)), "{counted:?}");
    }
}

/// A run reads counters before it lists queue pairs for the first time.
#[test]
fn counters_before_the_first_list_bound_what_follows_the_first_context() {
    let nic = Nic::with(1);
    let mut asker = Asker::new(50);
    nic.counts(&mut asker, 5);
    nic.list(&mut asker, "mlx5_ib");
    nic.run(&mut asker, 50, |_, _| {});
    move_on(&nic, &mut asker);
    nic.counts(&mut asker, 100);
    assert_eq!(known(&mut asker), Some((2, Some(90), 0)));
}

/// Of a port that nothing counts, no bound is known.
#[test]
fn a_psn_that_moves_may_have_wrapped_if_the_port_counts_nothing() {
    let nic = Nic::with(1);
    let mut asker = nic.asker(50, "mlx5_ib");
    count(&nic, &mut asker, 0);
    nic.run(&mut asker, 50, |_, _| {});
    move_on(&nic, &mut asker);
    count(&nic, &mut asker, 0);
    assert_eq!(known(&mut asker), Some((2, Some(90), 1)));
}
