//! Cost of 10,000 queue pairs: records of the probes, listings by RDMA netlink, the NIC's contexts, and owners of
//! flows, at the rate of a live run. Does not include the time of kernel and firmware.
//!
//! `cargo xtask bench queue-pairs` prints the figures, and fails when one misses its limit.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rocescope_common::abi::qp::{DEVICE_NAME, kind};

use super::*;
use crate::entity::owners::Owners;
use crate::host::Result;
use crate::host::net::ethtool::{Pause, Rings};
use crate::host::net::interface::Interface;
use crate::host::netlink::Request;
use crate::host::rdma::nldev::Query;
use crate::host::rdma::qp_context::tests::mlx5_dump;
use crate::host::rdma::qp_layout::tests::{layout, record};
use crate::host::read::UnreadReasons;
use crate::host::read::queries::Queries;
use crate::host::read::recorded::{Recorded, RecordedKernel};
use crate::source::devices::context::ask::Clock;
use crate::source::devices::listed;
use crate::source::devices::watch::Watch;
use crate::source::live::counters::list_pause;
use crate::util::time::nanos;

const QPS: u32 = 10_000;
const FIRST: u32 = 1_000;
const MLX5: &str = include_str!("../../../../tests/data/host/mlx5.txt");
use crate::util::time::NS_PER_MS as MS;

/// The recorded host with thousands of queue pairs and its own clock.
#[derive(Debug)]
struct ManyQueuePairs {
    recorded: RecordedKernel,
    list: Vec<Vec<u8>>,
    contexts: BTreeMap<u32, Vec<u8>>,
    now_ns: Cell<u64>,
}

impl ManyQueuePairs {
    fn new(recorded: RecordedKernel) -> Self {
        let entry = |request: Request, lqpn: u32| {
            request.nest(20, |one| {
                let numbers = one.attr_u32(3, 1).attr_u32(21, lqpn).attr_u32(22, lqpn + QPS);
                numbers
                    .attr_u32(23, 1_000)
                    .attr_u32(24, 2_000)
                    .attr(26, &[2])
                    .attr(27, &[3])
                    .attr_u32(28, 4_711)
            })
        };
        // As many per message as in the kernel's messages of some kilobytes.
        let numbers: Vec<u32> = (FIRST..FIRST + QPS).collect();
        let answer = |part: &[u32]| {
            let head = Request::new(0, 0, &[]).attr_u32(1, 0).attr_text(2, "mlx5_0");
            head.nest(19, |table| part.iter().fold(table, |table, lqpn| entry(table, *lqpn))).payload()
        };
        let context = |lqpn: u32| {
            let values =
                [("state", 3), ("remote_qpn", lqpn + QPS), ("retry_count", 7), ("cur_retry_count", 7)];
            Request::new(0, 0, &[]).attr(85, &mlx5_dump(lqpn, &values)).payload()
        };
        Self {
            recorded,
            list: numbers.chunks(50).map(answer).collect(),
            contexts: numbers.iter().map(|lqpn| (*lqpn, context(*lqpn))).collect(),
            now_ns: Cell::new(1_000_000 * MS),
        }
    }
}

impl Queries for ManyQueuePairs {
    fn rdma(&self, query: Query) -> Result<Vec<Vec<u8>>> {
        match query {
            Query::QueuePairs(_) => Ok(self.list.clone()),
            Query::QpContext(_, _, lqpn) => Ok(self.contexts.get(&lqpn).cloned().into_iter().collect()),
            other => self.recorded.rdma(other),
        }
    }

    fn interfaces(&self) -> Result<Vec<Interface>> {
        self.recorded.interfaces()
    }

    fn statistics(&self, interface: &str) -> Result<Vec<(String, u64)>> {
        self.recorded.statistics(interface)
    }

    fn pause(&self, interface: &str) -> Result<Pause> {
        self.recorded.pause(interface)
    }

    fn rings(&self, interface: &str) -> Result<Rings> {
        self.recorded.rings(interface)
    }

    fn dcb(&self, interface: &str) -> Result<Vec<u8>> {
        self.recorded.dcb(interface)
    }

    fn stale_filters(&self, index: u32) -> Result<usize> {
        self.recorded.stale_filters(index)
    }

    fn parameter(&self, pci: &str, name: &str) -> Result<Vec<u8>> {
        self.recorded.parameter(pci, name)
    }
}

impl Clock for ManyQueuePairs {
    fn monotonic_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns
    }
}

/// CPU time of this thread.
fn spent_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000 * MS + u64::try_from(time.tv_nsec).unwrap()
}

/// Resident memory. Unit: bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Simulates the reader thread of a live run.
struct ReaderRun {
    kernel: ManyQueuePairs,
    host: Recorded,
    watch: Watch,
    addresses: listed::Addresses,
    owners: Arc<Owners>,
    calls: u64,
}

impl ReaderRun {
    fn new() -> Self {
        let host = Recorded::unpack(MLX5);
        let kernel = ManyQueuePairs::new(host.kernel());
        let mut watch = Watch::new(&host.root(), &kernel, &["enp59s0np0".to_owned()], &[]);
        watch.query_contexts(50);
        let addresses = listed::addresses(&host.root(), &mut UnreadReasons::new());
        Self { kernel, host, watch, addresses, owners: Arc::default(), calls: 0 }
    }

    /// Processes a call about each queue pair, in portions of what the ring buffer holds between two readings.
    fn calls(&mut self, kind: u8, mask: u32) {
        let layout = layout();
        let clock = WallClock::sample();
        let driver = |device: &str| (device == "mlx5_0").then(|| "mlx5_ib".to_owned());
        let mut device = [0; DEVICE_NAME];
        device[..6].copy_from_slice(b"mlx5_0");
        for first in (FIRST..FIRST + QPS).step_by(500) {
            let records = (first..first + 500).map(|lqpn| {
                let set = |attr: &mut [u8]| {
                    attr[..4].copy_from_slice(&3u32.to_ne_bytes());
                    attr[16..20].copy_from_slice(&(lqpn + QPS).to_ne_bytes());
                };
                QpRecord { device, ..record(kind, lqpn, mask, &set) }
            });
            let changes: Vec<Change> =
                records.filter_map(|record| change(&layout, &record, clock, &driver)).collect();
            self.calls += changes.len() as u64;
            self.watch.take_lives(changes);
        }
    }

    /// Lists all queue pairs as a live run does; the queries for that show their settings.
    fn list(&mut self) {
        self.calls(kind::QUERIED, 0);
        let found = listed::read(
            &self.host.root(),
            &self.kernel,
            &self.addresses,
            &mut UnreadReasons::new(),
            &mut || {},
        );
        assert_eq!(found.list.len(), QPS as usize);
        self.watch.take_qps(&found, self.kernel.now_ns.get());
        self.publish(Some(found.owners));
    }

    fn publish(&mut self, owners: Option<Owners>) {
        self.watch.share_lives(Ok(Calls { entered: self.calls, ..Calls::default() }));
        if let Some(owners) = owners {
            let mut owners = owners.with_gone(&self.owners);
            self.watch.add_lives(&mut owners);
            self.owners = Arc::new(owners);
        }
    }

    /// Half a second between two listings: contexts every 50 ms, then counters and a sample.
    fn half_a_second(&mut self) {
        for _ in 0..10 {
            self.kernel.now_ns.set(self.kernel.now_ns.get() + 50 * MS);
            self.watch.read_contexts(&self.kernel, &self.kernel);
        }
        let now_ns = self.kernel.now_ns.get();
        self.watch.read_counters(&self.host.root(), &self.kernel, (now_ns, now_ns));
        self.watch.note_counters(now_ns);
        self.publish(None);
    }
}

/// Largest share of a core, and most memory beyond that of a run without queue pairs.
const LIMIT_SHARE: f64 = 0.02;
const LIMIT_BYTES: u64 = 100_000_000;

#[test]
#[ignore = "depends on the machine: `cargo xtask bench queue-pairs`"]
fn ten_thousand_queue_pairs_cost_little() {
    const SECONDS: u64 = 60;
    let mut run = ReaderRun::new();
    let empty = resident();
    let mut start = spent_ns();
    let mut passed = |what: &str| {
        let now = spent_ns();
        println!("{what}: {:.2} ms", (now - start) as f64 / 1e6);
        (now - std::mem::replace(&mut start, now)) as f64
    };
    run.calls(kind::CREATED, 1);
    run.calls(kind::MODIFIED, mask::STATE | mask::DEST_QPN);
    passed("creating and connecting 10,000");
    run.list();
    passed("a first list");
    let mut samples = Vec::new();
    let mut due_ns = 0;
    let mut lists = 0;
    for half in 0..2 * SECONDS {
        let now_ns = half * 500 * MS;
        if now_ns >= due_ns {
            let before = spent_ns();
            run.list();
            lists += 1;
            let took = Duration::from_nanos(spent_ns() - before);
            due_ns = now_ns + nanos(list_pause(took));
        }
        run.half_a_second();
        // The source and its view hold the two latest samples.
        samples.push(run.watch.sample());
        if samples.len() > 2 {
            samples.remove(0);
        }
    }
    let took = passed(&format!("{SECONDS} s with {lists} lists and 50 queries a second"));
    let share = took / (SECONDS as f64 * 1e9);
    let bytes = resident().saturating_sub(empty);
    println!("{:.2} % of a core", share * 100.0);
    println!("{} MiB resident more than before", bytes >> 20);
    let devices = samples.last().unwrap();
    assert_eq!((devices.lives.qps.len(), devices.ports[0].qps.len()), (QPS as usize, QPS as usize));
    let queries = &devices.contexts.queries;
    println!("{} contexts read of {}", queries.queried, queries.of);
    let most = 50 * SECONDS;
    assert!((most - 50..=most + 50).contains(&queries.answered), "the budget is used and kept: {queries:?}");
    let missed = [
        (share > LIMIT_SHARE).then(|| format!("limit of {:.0} % of a core", LIMIT_SHARE * 100.0)),
        (bytes > LIMIT_BYTES).then(|| format!("limit of {} MB", LIMIT_BYTES / 1_000_000)),
    ];
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "missed: {}", missed.join(", "));
}
