//! A simulated NIC with its own clock: its queue pairs progress, and its firmware takes time to answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::*;
use crate::entity::contexts::Blamed;
use crate::host::Result;
use crate::host::net::ethtool::{Pause, Rings};
use crate::host::net::interface::Interface;
use crate::host::netlink::Request;
use crate::host::rdma::qp_context::tests::{mlx5_dump, mlx5_query};

use crate::util::time::NS_PER_MS as MS;

/// A queue pair in terms of mlx5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Virtual {
    pub(crate) next: u32,
    pub(crate) acked: u32,
    pub(crate) retry_now: u32,
    pub(crate) rnr_retry_now: u32,
    /// Receives consumed, which are all that were posted.
    pub(crate) received: u32,
    pub(crate) bond_port: u32,
    pub(crate) plane: u32,
}

/// A queue pair that has sent and has nothing in flight.
pub(crate) const IDLE: Virtual =
    Virtual { next: 10, acked: 10, retry_now: 7, rnr_retry_now: 6, received: 0, bond_port: 0, plane: 0 };

#[derive(Debug, Default)]
pub(crate) struct Nic {
    qps: RefCell<BTreeMap<u32, Virtual>>,
    /// Number of queries for each queue pair, and the times of all.
    asked: RefCell<BTreeMap<u32, u32>>,
    times: RefCell<Vec<u64>>,
    now_ns: Cell<u64>,
    /// Duration of a query.
    cost_ns: u64,
    errno: Option<i32>,
    /// Answers in another format.
    raw: Option<Vec<u8>>,
}

impl Clock for Nic {
    fn monotonic_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns + 1_000_000 * MS
    }
}

fn refused<T>(errno: i32) -> Result<T> {
    Err(HostError::system("ask", std::io::Error::from_raw_os_error(errno)))
}

impl Queries for Nic {
    fn rdma(&self, query: Query) -> Result<Vec<Vec<u8>>> {
        let Query::QpContext(7, 1, lqpn) = query else { panic!("{query:?}") };
        self.times.borrow_mut().push(self.now_ns.get());
        self.now_ns.set(self.now_ns.get() + self.cost_ns);
        *self.asked.borrow_mut().entry(lqpn).or_default() += 1;
        if let Some(errno) = self.errno {
            return refused(errno);
        }
        let Some(of) = self.qps.borrow().get(&lqpn).copied() else { return refused(libc::ENOENT) };
        let dump = self.raw.clone().unwrap_or_else(|| {
            mlx5_dump(
                lqpn,
                &[
                    ("state", 3),
                    ("remote_qpn", lqpn + 1_000),
                    ("ads.src_addr_index", lqpn + 2),
                    ("ads.rgid_2", 0xffff),
                    ("ads.rgid_3", 0x0a00_0002),
                    ("retry_count", 7),
                    ("cur_retry_count", of.retry_now),
                    ("rnr_retry", 6),
                    ("cur_rnr_retry", of.rnr_retry_now),
                    ("hw_rq_counter", of.received),
                    ("sw_rq_counter", of.received),
                    ("lag_tx_port_affinity", of.bond_port),
                    ("ads.plane_index", of.plane),
                    ("hw_sq_wqebb_counter", 3),
                    ("sw_sq_wqebb_counter", 3),
                    ("next_send_psn", of.next),
                    ("last_acked_psn", of.acked),
                ],
            )
        });
        Ok(vec![Request::new(0, 0, &[]).attr(85, &dump).payload()])
    }

    fn interfaces(&self) -> Result<Vec<Interface>> {
        refused(libc::EOPNOTSUPP)
    }

    fn statistics(&self, _: &str) -> Result<Vec<(String, u64)>> {
        refused(libc::EOPNOTSUPP)
    }

    fn pause(&self, _: &str) -> Result<Pause> {
        refused(libc::EOPNOTSUPP)
    }

    fn rings(&self, _: &str) -> Result<Rings> {
        refused(libc::EOPNOTSUPP)
    }

    fn dcb(&self, _: &str) -> Result<Vec<u8>> {
        refused(libc::EOPNOTSUPP)
    }

    fn stale_filters(&self, _: u32) -> Result<usize> {
        refused(libc::EOPNOTSUPP)
    }

    fn parameter(&self, _: &str, _: &str) -> Result<Vec<u8>> {
        refused(libc::EOPNOTSUPP)
    }
}

impl Nic {
    /// A NIC with idle queue pairs 1 to `count`.
    pub(crate) fn with(count: u32) -> Self {
        let nic = Self { cost_ns: 20_000, ..Self::default() };
        nic.now_ns.set(1_000 * MS);
        nic.qps.replace((1..=count).map(|lqpn| (lqpn, IDLE)).collect());
        nic
    }

    pub(crate) fn asker(&self, per_second: u32, driver: &str) -> Asker {
        let mut asker = Asker::new(per_second);
        self.list(&mut asker, driver);
        asker
    }

    fn list(&self, asker: &mut Asker, driver: &str) {
        let port = Port {
            device: "mlx5_0".into(),
            index: 7,
            number: 1,
            driver: Some(driver.into()),
            addresses: Arc::new([(3, "10.0.0.1".parse().unwrap())].into()),
        };
        let found: Vec<QueuePair> = self.qps.borrow().keys().map(|lqpn| listed(*lqpn)).collect();
        asker.take_qps(&[port], found.iter());
    }

    /// Simulates this time with a call every 50 ms, as in a run; `step` changes the queue pairs before each call.
    pub(crate) fn run(
        &self,
        asker: &mut Asker,
        ms: u64,
        mut step: impl FnMut(u64, &mut BTreeMap<u32, Virtual>),
    ) {
        for at in (0..ms).step_by(50) {
            step(at, &mut self.qps.borrow_mut());
            asker.run(self, self);
            self.now_ns.set(self.now_ns.get().next_multiple_of(50 * MS).max(self.now_ns.get() + 1));
        }
    }
}

fn listed(lqpn: u32) -> QueuePair {
    QueuePair {
        device: "mlx5_0".into(),
        port: Some(1),
        lqpn,
        rqpn: Some(lqpn + 1_000),
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(4_711),
        ..QueuePair::default()
    }
}

#[test]
fn the_budget_is_kept_and_all_queue_pairs_have_their_turn() {
    for (count, per_second, cost_ns) in
        [(1_000, 50, 20_000), (200, 50, 20_000), (10_000, 200, 1_000), (3, 50, 20_000)]
    {
        let nic = Nic { cost_ns, ..Nic::with(count) };
        let mut asker = nic.asker(per_second, "mlx5_ib");
        nic.run(&mut asker, 10_000, |_, _| {});
        let done: u32 = nic.asked.borrow().values().sum();
        assert!(done <= per_second * 10, "{done} queries of {count} queue pairs");
        let queries = &asker.sample().queries;
        assert_eq!((queries.answered, queries.of, queries.failed), (u64::from(done), u64::from(count), 0));
        assert_eq!(queries.took_ns, u64::from(done) * cost_ns);
        if count >= 200 {
            assert!(done >= per_second * 9, "{done} queries of {count} queue pairs");
            let times = nic.asked.borrow();
            let counts: Vec<u32> = (1..=count).map(|lqpn| times.get(&lqpn).copied().unwrap_or(0)).collect();
            let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(spread <= 1, "round robin: {spread}");
        } else {
            assert!(done <= 3 * 11, "an idle queue pair once a second is enough: {done}");
        }
    }
}

/// The first is at the index of a known address, the second at one that the port does not have.
#[test]
fn the_own_address_is_that_of_the_index_in_the_context() {
    let nic = Nic::with(2);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 1_000, |_, _| {});
    let sample = asker.sample();
    let ends: Vec<_> = sample.qps.iter().map(|qp| (qp.lqpn, qp.src, qp.context.dst)).collect();
    let [own, peer] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().ok());
    assert_eq!(ends, [(1, own, peer), (2, None, peer)]);
}

#[test]
fn a_slow_device_is_asked_less() {
    let nic = Nic { cost_ns: 50 * MS, ..Nic::with(1_000) };
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 20_000, |_, _| {});
    let queries = asker.sample().queries.clone();
    let passed = nic.now_ns.get() - 1_000 * MS;
    assert!(queries.took_ns * 9 <= passed + 1_000 * MS, "{} of {passed} ns", queries.took_ns);
    assert_eq!(queries.longest_ns, 50 * MS);
    let off = nic.asked.borrow().len();
    let mut none = nic.asker(0, "mlx5_ib");
    nic.run(&mut none, 1_000, |_, _| {});
    assert_eq!((nic.asked.borrow().len(), none.sample().queries.of), (off, 0), "0 is off");
}

#[test]
fn one_refusal_that_holds_for_the_device_is_enough_and_has_its_reason() {
    for (driver, errno, expected, queries) in [
        ("rxe", libc::EINVAL, "rxe of this kernel returns no QP context (EINVAL)", 3),
        ("mlx5_ib", libc::EPERM, "CAP_NET_ADMIN is missing (EPERM)", 1),
        (
            "mlx5_ib",
            libc::EOPNOTSUPP,
            "the device or its firmware does not support dumps of QP contexts (mlx5_ib, EOPNOTSUPP)",
            1,
        ),
    ] {
        let nic = Nic { errno: Some(errno), ..Nic::with(100) };
        let mut asker = nic.asker(50, driver);
        nic.run(&mut asker, 5_000, |_, _| {});
        let cost = asker.sample().queries.clone();
        assert_eq!(nic.asked.borrow().len(), queries, "{driver}");
        assert_eq!(cost.refused, [("mlx5_0".to_owned(), expected.to_owned())]);
        assert_eq!((cost.queried, cost.of, cost.failed), (0, 100, queries as u64));
    }
    // Undecodable answers.
    let nic = Nic { raw: Some(vec![1; 1_088]), ..Nic::with(100) };
    let mut asker = nic.asker(50, "bnxt_re");
    nic.run(&mut asker, 2_000, |_, _| {});
    assert_eq!(nic.asked.borrow().len(), 1);
    let refused = &asker.sample().queries.refused;
    assert_eq!(refused[0].1, "1088 bytes read from bnxt_re, but its layout has no public definition");
    let [raw] = &asker.sample().queries.undecoded[..] else { panic!() };
    assert_eq!((raw.bytes, raw.reason.as_str()), (1_088, "its layout has no public definition"));
    // Transient errors: a queue pair that is busy or ends between two queries is no refusal.
    for errno in [libc::ENOENT, libc::EAGAIN, libc::EBUSY] {
        let nic = Nic { errno: Some(errno), ..Nic::with(100) };
        let mut asker = nic.asker(50, "mlx5_ib");
        nic.run(&mut asker, 2_000, |_, _| {});
        assert!(nic.asked.borrow().len() > 50 && asker.sample().queries.refused.is_empty(), "{errno}");
    }
}

#[test]
fn a_queue_pair_that_stands_still_is_seen_more_often_than_the_others() {
    let nic = Nic::with(500);
    let mut asker = nic.asker(50, "mlx5_ib");
    let stuck = Virtual { next: 40, acked: 20, retry_now: 4, ..IDLE };
    nic.run(&mut asker, 30_000, |at, qps| {
        if at == 12_000 {
            qps.insert(250, stuck);
        }
    });
    let contexts = asker.sample();
    let of = contexts.qps.iter().find(|qp| qp.lqpn == 250).unwrap();
    assert_eq!((of.in_flight, of.retries_used), (Some(20), Some(3)));
    // From the first context that shows it: with 500 queue pairs and 50 queries per second, within 10 s.
    assert!(of.stuck_ns.is_some_and(|ns| (8_000 * MS..18_000 * MS).contains(&ns)), "{of:?}");
    assert!(of.retrying > 50, "{of:?}");
    let others: Vec<u64> = contexts.qps.iter().filter(|qp| qp.lqpn != 250).map(|qp| qp.readings).collect();
    assert!(others.iter().all(|readings| *readings >= 2), "the others go on: {:?}", others.iter().min());
    assert!(
        contexts.qps.iter().filter(|qp| qp.lqpn != 250).all(|qp| qp.stuck_ns == Some(0) && qp.retrying == 0)
    );
}

#[test]
fn a_number_that_is_in_use_again_starts_anew() {
    let nic = Nic::with(3);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 3_000, |_, _| {});
    assert!(asker.sample().qps.iter().all(|qp| qp.readings >= 2));
    // Removed, and recreated with another peer: its context now contradicts the kernel's list.
    let port = Port {
        device: "mlx5_0".into(),
        index: 7,
        number: 1,
        driver: Some("mlx5_ib".into()),
        ..Port::default()
    };
    let again = QueuePair { rqpn: Some(5), ..listed(2) };
    asker.take_qps(&[port], [listed(1), again].iter());
    assert_eq!(asker.sample().qps.iter().map(|qp| qp.lqpn).collect::<Vec<_>>(), [1]);
    nic.run(&mut asker, 2_000, |_, _| {});
    assert_eq!(asker.sample().qps.iter().map(|qp| qp.lqpn).collect::<Vec<_>>(), [1]);
    assert!(asker.sample().queries.failed > 0, "counted");
}

/// Counters of the port, at the time of the NIC's clock.
fn count(nic: &Nic, asker: &mut Asker, timeouts: u64) {
    count_errors(nic, asker, timeouts, 0);
}

/// The same, with sequence-error NAKs.
fn count_errors(nic: &Nic, asker: &mut Asker, timeouts: u64, naks: u64) {
    let counted =
        PortCounts { timeouts: Some(timeouts), sequence_errors: Some(naks), ..PortCounts::default() };
    asker.take_counters("mlx5_0", 1, counted, nic.now_ns.get());
}

#[test]
fn timeouts_of_the_port_belong_to_the_only_queue_pair_that_can_have_had_them() {
    let nic = Nic::with(4);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 3_000, |_, _| {});
    count(&nic, &mut asker, 0);
    nic.run(&mut asker, 3_000, |_, qps| {
        qps.insert(2, Virtual { next: 40, acked: 20, retry_now: 5, ..IDLE });
    });
    count(&nic, &mut asker, 3);
    nic.run(&mut asker, 4_000, |_, _| {});
    let blamed = |asker: &mut Asker| -> Vec<(u32, Blamed)> {
        asker.sample().qps.iter().filter_map(|qp| Some((qp.lqpn, qp.blamed?))).collect()
    };
    let certain = Blamed { timeouts: 3, sequence_errors: 0, certain: true };
    assert_eq!(blamed(&mut asker), [(2, certain)], "the others had nothing in flight");

    // Another queue pair sends at that time: it may have recovered before it was read.
    nic.run(&mut asker, 3_000, |at, qps| {
        let psn = 100 + u32::try_from(at).unwrap();
        qps.insert(3, Virtual { next: psn, acked: psn, ..IDLE });
    });
    count(&nic, &mut asker, 5);
    nic.run(&mut asker, 4_000, |_, _| {});
    assert_eq!(blamed(&mut asker), [(2, Blamed { timeouts: 5, certain: false, ..certain })]);
}

/// A queue pair that retried and was destroyed leaves timeouts in its port's counters, which must not be attributed
/// with certainty to others that send at that time.
#[test]
fn timeouts_of_a_queue_pair_that_has_ended_are_certainly_nobody_s() {
    let busy = |nic: &Nic, asker: &mut Asker| {
        nic.run(asker, 3_000, |_, qps| {
            qps.insert(2, Virtual { next: 40, acked: 20, retry_now: 5, ..IDLE });
        });
    };
    let blamed = |asker: &mut Asker| {
        let sampled = asker.sample();
        sampled.qps.iter().find_map(|qp| Some((qp.lqpn, qp.blamed?.certain)))
    };
    // Its end shows in a list, on the control path, or not at all.
    for (how, certain) in [("list", false), ("verb", false), ("", true)] {
        let nic = Nic::with(4);
        let mut asker = nic.asker(50, "mlx5_ib");
        nic.run(&mut asker, 3_000, |_, _| {});
        count(&nic, &mut asker, 0);
        busy(&nic, &mut asker);
        match how {
            "list" => {
                nic.qps.borrow_mut().remove(&3);
                nic.list(&mut asker, "mlx5_ib");
            }
            "verb" => asker.ended("mlx5_0"),
            _ => asker.ended("mlx5_1"),
        }
        count(&nic, &mut asker, 3);
        busy(&nic, &mut asker);
        nic.run(&mut asker, 2_000, |_, _| {});
        assert_eq!(blamed(&mut asker), Some((2, certain)), "{how}");
        // Long ago by then.
        count(&nic, &mut asker, 3);
        busy(&nic, &mut asker);
    }
}

#[test]
fn timeouts_without_a_suspect_are_nobodys() {
    let nic = Nic::with(4);
    let mut asker = nic.asker(50, "mlx5_ib");
    nic.run(&mut asker, 3_000, |_, _| {});
    count(&nic, &mut asker, 0);
    nic.run(&mut asker, 3_000, |_, _| {});
    count(&nic, &mut asker, 2);
    nic.run(&mut asker, 5_000, |_, _| {});
    assert!(asker.sample().qps.iter().all(|qp| qp.blamed.is_none()), "all were idle");
}

/// Simulated firmware behind fwctl.
#[derive(Debug)]
struct VirtualFirmware {
    errno: Option<i32>,
    /// It refuses every query with a status of its own.
    refuses: bool,
    /// State in the contexts.
    state: u32,
}

/// Firmware that answers about queue pairs that send.
const ANSWERS: VirtualFirmware = VirtualFirmware { errno: None, refuses: false, state: 3 };

impl Firmware for VirtualFirmware {
    fn reaches(&self, device: &str) -> bool {
        device == "mlx5_0"
    }

    fn query_qp(&self, _: &str, lqpn: u32) -> Result<Vec<u8>> {
        match self.errno {
            Some(errno) => refused(errno),
            None if self.refuses => Err(HostError::system("ask", std::io::Error::other("status 0x3"))),
            None => {
                Ok(mlx5_query(&[("state", self.state), ("remote_qpn", lqpn + 1_000), ("next_send_psn", 9)]))
            }
        }
    }
}

#[test]
fn the_firmware_is_asked_about_what_the_kernel_does_not_list() {
    let nic = Nic::with(3);
    let mut asker = Asker::new(50);
    assert!(!asker.reaches("mlx5_0"));
    asker.use_firmware(Box::new(ANSWERS));
    assert!(asker.reaches("mlx5_0") && !asker.reaches("mlx5_1"));
    asker.take_past_verbs(vec![listed(99)]);
    nic.list(&mut asker, "mlx5_ib");
    nic.run(&mut asker, 4_000, |_, _| {});
    let sample = asker.sample();
    let numbers: Vec<u32> = sample.qps.iter().map(|qp| qp.lqpn).collect();
    assert_eq!(numbers, [1, 2, 3, 99]);
    assert_eq!(sample.qps[3].context.rqpn, Some(1_099));
    let queries = &sample.queries;
    assert!(queries.by_firmware >= 2 && queries.answered > queries.by_firmware, "{queries:?}");
    assert!(!nic.asked.borrow().contains_key(&99), "the kernel does not know it");
    // It ended, and the next list does not contain it.
    nic.list(&mut asker, "mlx5_ib");
    assert_eq!(asker.sample().queries.of, 3);
}

#[test]
fn the_firmware_is_the_second_way_and_its_refusal_ends_that() {
    // The kernel provides no contexts.
    let nic = Nic { errno: Some(libc::EOPNOTSUPP), ..Nic::with(3) };
    let mut asker = nic.asker(50, "mlx5_ib");
    asker.use_firmware(Box::new(ANSWERS));
    nic.run(&mut asker, 4_000, |_, _| {});
    let queries = asker.sample().queries.clone();
    assert_eq!((queries.queried, queries.answered, queries.failed), (3, queries.by_firmware, 1));
    assert_eq!(nic.asked.borrow().values().sum::<u32>(), 1);
    // Neither does the firmware: it is not queried again after the refusal.
    let mut asker = nic.asker(50, "mlx5_ib");
    asker.use_firmware(Box::new(VirtualFirmware { errno: Some(libc::EACCES), ..ANSWERS }));
    nic.run(&mut asker, 4_000, |_, _| {});
    let queries = asker.sample().queries.clone();
    assert_eq!((queries.queried, queries.failed, queries.refused.len()), (0, 2, 1), "{queries:?}");
    let netlink = "the device or its firmware does not support dumps of QP contexts (mlx5_ib, EOPNOTSUPP)";
    assert!(queries.refused[0].1.starts_with(&format!("{netlink}; fwctl: ")), "{queries:?}");
    // By a status that names no error of the kernel.
    let mut asker = nic.asker(50, "mlx5_ib");
    asker.use_firmware(Box::new(VirtualFirmware { refuses: true, ..ANSWERS }));
    nic.run(&mut asker, 10_000, |_, _| {});
    let queries = asker.sample().queries.clone();
    assert_eq!((queries.queried, queries.failed), (0, 1 + u64::from(REFUSALS)), "{queries:?}");
    assert_eq!(queries.refused[0].1, format!("{netlink}; fwctl: status 0x3"));
    // It refuses only those that the kernel does not list: the others continue.
    let nic = Nic::with(3);
    let mut asker = Asker::new(50);
    asker.use_firmware(Box::new(VirtualFirmware { errno: Some(libc::EBADMSG), ..ANSWERS }));
    asker.take_past_verbs(vec![listed(99)]);
    nic.list(&mut asker, "mlx5_ib");
    nic.run(&mut asker, 10_000, |_, _| {});
    let queries = asker.sample().queries.clone();
    let failed = u64::from(REFUSALS);
    assert_eq!((queries.queried, queries.failed, queries.by_firmware), (3, failed, 0), "{queries:?}");
}

/// mlx5 has no context of a DCT: that says nothing about the others.
#[test]
fn a_kind_without_a_context_does_not_end_the_queries() {
    let nic = Nic { cost_ns: 20_000, ..Nic::default() };
    nic.now_ns.set(1_000 * MS);
    let port = Port { device: "mlx5_0".into(), index: 7, number: 1, ..Port::default() };
    let port = Port { driver: Some("mlx5_ib".into()), ..port };
    let mut asker = Asker::new(50);
    let refusing = Nic { errno: Some(libc::EINVAL), ..nic };
    let kind = |lqpn, kind| QueuePair { kind: Some(kind), ..listed(lqpn) };
    let first = [kind(1, "DRIVER"), kind(2, "XRC_TGT"), kind(3, "XRC_INI")];
    asker.take_qps(std::slice::from_ref(&port), first.iter());
    refusing.run(&mut asker, 10_000, |_, _| {});
    assert_eq!(asker.sample().queries.refused, []);
    assert_eq!(asker.sample().queries.failed, 3 * u64::from(REFUSALS), "each a few times");
    let nic = Nic { errno: None, ..refusing };
    nic.qps.borrow_mut().insert(4, IDLE);
    let all: Vec<QueuePair> = first.into_iter().chain([listed(4)]).collect();
    asker.take_qps(&[port], all.iter());
    nic.run(&mut asker, 2_000, |_, _| {});
    assert_eq!(asker.sample().qps.iter().map(|qp| qp.lqpn).collect::<Vec<_>>(), [4]);
}

#[test]
fn queue_pairs_that_are_too_many_count_in_the_coverage_and_make_attribution_uncertain() {
    let many = u32::try_from(MOST_QPS).unwrap() + 100;
    let nic = Nic::with(many);
    let asker = &mut nic.asker(1, "mlx5_ib");
    assert_eq!(asker.sample().queries.of, u64::from(many));
    assert!(asker.ports.values().all(|state| state.attribution.others));
    let nic = Nic::with(3);
    nic.list(asker, "mlx5_ib");
    assert!(asker.ports.values().all(|state| !state.attribution.others));
    assert_eq!(asker.sample().queries.of, 3);
}

/// No verb and no event shows the death of a queue pair that a GPU drives.
#[test]
fn the_context_shows_the_state_of_those_that_the_kernel_does_not_list() {
    let states = |state| {
        let nic = Nic::with(1);
        let mut asker = Asker::new(50);
        asker.use_firmware(Box::new(VirtualFirmware { state, ..ANSWERS }));
        asker.take_past_verbs(vec![listed(99)]);
        nic.list(&mut asker, "mlx5_ib");
        nic.run(&mut asker, 1_000, |_, _| {});
        let (shown, now_ns) = (asker.take_shown(), nic.now_ns.get());
        let is_past = |span: &Span| span.began_ns <= span.ended_ns && span.ended_ns <= now_ns;
        assert!(shown.iter().all(|(_, span)| is_past(span)), "{shown:?}");
        shown.into_iter().map(|(life, _)| (life.lqpn, life.state)).collect::<Vec<_>>()
    };
    assert_eq!(states(3), [(99, Some("RTS"))]);
    assert_eq!(states(6), [(99, Some("ERR"))]);
}

/// As while a device with thousands of queue pairs is listed.
#[test]
fn a_pause_is_no_reason_for_more_queries_a_second() {
    let nic = Nic::with(1_000);
    let mut asker = nic.asker(50, "mlx5_ib");
    for pause_ms in [0, 300, 700, 60_000] {
        nic.now_ns.set(nic.now_ns.get() + pause_ms * MS);
        nic.run(&mut asker, 3_000, |_, _| {});
    }
    let times = nic.times.borrow();
    assert!(times.len() > 500, "{}", times.len());
    let spans: Vec<u64> = times.windows(51).map(|of| of[50] - of[0]).collect();
    assert!(spans.iter().all(|span_ns| *span_ns >= NS_PER_S), "{:?}", spans.iter().min());
    let last = times.iter().filter(|asked_ns| **asked_ns + 3 * NS_PER_S > nic.now_ns.get()).count();
    assert!(last >= 148, "all of the budget is used behind a pause: {last} of 150 queries");
}

#[path = "kinds_tests.rs"]
mod kinds;

#[path = "readings_tests.rs"]
mod readings;

#[path = "port_counter_tests.rs"]
mod port_counters;
