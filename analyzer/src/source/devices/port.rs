//! A port of an RDMA device, read periodically.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::context::ask::{Port, PortCounts};
use super::ethernet::{self, Ethernet};
use super::follow::QpWatch;
use super::growth::GrowthWatch;
use super::psn::PortPackets;
use super::tally::Tally;
use crate::doctor::check;
use crate::doctor::facts::HostFacts;
use crate::entity::devices::{PortSample, QpCounters, QpSample, SourceSample, counted};
use crate::host::net::dcb::Dcb;
use crate::host::process::pods::PodInterface;
use crate::host::rdma::counters::{Reading, Source};
use crate::host::rdma::device::{Hardware, Identity};
use crate::host::rdma::nldev::{self, QpCounter, Query, QueuePair};
use crate::host::rdma::port::Gid;
use crate::host::rdma::settings::Trust;
use crate::host::rdma::{RdmaDevice, RdmaPort};
use crate::host::read::queries::Queries;
use crate::host::read::{HostRoot, UnreadReasons};
use crate::metrics::control::STALL_SHARE;
use crate::source::devices::listed::QueuePairs;

/// Maximum number of queue pairs followed per port.
const MOST_QPS: usize = 16_384;

/// Counts of a port when its queue pairs were listed.
#[derive(Clone, Copy, Debug)]
struct AtList {
    /// Unix nanoseconds.
    time_ns: u64,
    /// The same by `CLOCK_MONOTONIC`, nanoseconds.
    monotonic_ns: u64,
    /// Beginning of the list by that clock.
    began_monotonic_ns: u64,
    /// As counted before the list was begun.
    packets: PortPackets,
    /// Pauses received, by priority, in microseconds.
    paused_us: [Option<u64>; 8],
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the port")]
#[derive(Debug, Default)]
pub(super) struct PortWatch {
    pub(super) device: String,
    pub(super) number: u32,
    /// Index by which RDMA netlink names the device.
    index: Option<u32>,
    identity: Identity,
    pub(super) hardware: Hardware,
    pub(super) hidden: bool,
    pub(super) interface: Option<String>,
    /// The pod in whose network namespace its interface is, if any.
    pub(super) pod: Option<PodInterface>,
    /// GIDs belong to no interface of this network namespace.
    pub(super) elsewhere: bool,
    /// The physical ports below that interface: itself, or the members of a bond.
    ethernet: Vec<Ethernet>,
    /// Watched interfaces stacked on that interface.
    pub(super) above: Vec<String>,
    /// The device has disappeared.
    gone: bool,
    tally: Tally,
    /// All counters at the latest reading, by source.
    counters: Vec<SourceSample>,
    growth: GrowthWatch,
    /// Priorities used by RoCE, as far as known, as a bit mask.
    priorities: u8,
    lossless: Option<u8>,
    dscp_priorities: Arc<[Option<u8>]>,
    trusts_pcp: bool,
    /// Addresses by their index in the GID table, up to the highest that contexts can name.
    addresses: Arc<BTreeMap<u8, IpAddr>>,
    active_mtu: Option<u32>,
    qps: HashMap<u32, QpWatch>,
    /// A copy for samples, which are taken more often than queue pairs are read.
    sampled: Arc<Vec<QpSample>>,
    qps_left_out: u64,
    qp_tallies: BTreeMap<u32, (BTreeSet<u32>, Tally)>,
    /// At the latest reading of queue pairs.
    qps_read: Option<AtList>,
    /// Time of the latest reading of queue pairs after which counters were read.
    qps_counted_ns: Option<u64>,
    /// The same by `CLOCK_MONOTONIC`.
    qps_counted_steady_ns: Option<u64>,
    /// True once any PSN has advanced: some drivers report only the initial PSNs.
    moving: bool,
}

impl PortWatch {
    /// `index` is that of RDMA netlink; `interfaces` are those with physical ports below the port's interface.
    pub(super) fn new(
        device: &RdmaDevice,
        port: &RdmaPort,
        index: Option<u32>,
        identity: Identity,
        hidden: bool,
        interfaces: impl Iterator<Item = String>,
    ) -> Self {
        Self {
            device: device.name.clone(),
            number: port.number,
            index,
            identity,
            hidden,
            interface: port.interface.clone(),
            ethernet: interfaces.map(Ethernet::new).collect(),
            ..Self::default()
        }
    }

    /// True if its packets pass this interface.
    pub(super) fn carries(&self, interface: &str) -> bool {
        self.interface.as_deref() == Some(interface)
            || self.ethernet.iter().any(|ethernet| ethernet.interface == interface)
            || self.above.iter().any(|above| above == interface)
    }

    /// The interfaces that its packets pass, as text.
    pub(super) fn passed(&self) -> String {
        let mut names: Vec<&str> = self.interface.iter().chain(&self.above).map(String::as_str).collect();
        match names.pop() {
            None => "its interface".to_owned(),
            Some(last) if names.is_empty() => last.to_owned(),
            Some(last) => format!("{} or {last}", names.join(", ")),
        }
    }

    /// The members of a bond; empty if the interface is not a bond.
    fn members(&self) -> Vec<String> {
        let names = self.ethernet.iter().map(|ethernet| ethernet.interface.clone());
        names.filter(|name| Some(name) != self.interface.as_ref()).collect()
    }

    pub(super) fn driver(&self) -> Option<&str> {
        self.identity.driver.as_deref()
    }

    /// Reads the counters, at a time by the monotonic clock and as Unix time.
    pub(super) fn read_counters(
        &mut self,
        root: &HostRoot,
        kernel: &dyn Queries,
        (monotonic_ns, time_ns): (u64, u64),
    ) {
        let at = format!("/sys/class/infiniband/{}/ports/{}", self.device, self.number);
        // Reasons are reported by doctor; here an unreadable counter is simply absent.
        let mut reading = Reading::of_port(root, &at, &mut UnreadReasons::new());
        if let Some(index) = self.index {
            let named = kernel.rdma(Query::PortCounters(index, self.number)).unwrap_or_default();
            let new: Vec<_> = named
                .iter()
                .flat_map(|answer| nldev::counters(answer))
                .filter(|(name, _)| !reading.has(Source::Hardware, name))
                .collect();
            reading.add(Source::Netlink, new);
        }
        self.gone = !root.exists(&at);
        if !reading.is_empty() {
            self.tally.take(reading, time_ns);
        }
        for ethernet in &mut self.ethernet {
            ethernet.read(kernel, time_ns);
        }
        self.counters = self.tally.sources(self.driver());
        self.counters.extend(ethernet::counters(&self.ethernet));
        self.growth.take(&self.counters, (monotonic_ns, time_ns));
        self.count_qps();
    }

    /// Counts the packets of queue pairs up to their latest reading, which the counters were read after.
    pub(super) fn count_qps(&mut self) {
        self.qps_counted_ns = self.qps_read.map(|at| at.time_ns);
        self.qps_counted_steady_ns = self.qps_read.map(|at| at.monotonic_ns);
        let (packets, mut is_changed) = (self.packets(), false);
        for qp in self.qps.values_mut() {
            is_changed |= qp.counted(packets);
        }
        if is_changed {
            self.share_qps();
        }
    }

    /// Includes the queue pairs as they are known now in samples.
    fn share_qps(&mut self) {
        let mut sampled: Vec<QpSample> = self.qps.values().map(|qp| qp.sample(self.moving)).collect();
        sampled.sort_by_key(|qp| qp.owner.lqpn);
        self.sampled = Arc::new(sampled);
    }

    /// RoCE packets that the port has counted.
    fn packets(&self) -> PortPackets {
        let value = |name| counted(&self.counters, name).map(|(value, _)| value);
        PortPackets { sent: value("tx_packets"), received: value("rx_packets") }
    }

    /// The port for queries of queue pairs; `None` if RDMA netlink does not list the device.
    pub(super) fn query_port(&self) -> Option<Port> {
        let driver = self.identity.driver.clone();
        let addresses = Arc::clone(&self.addresses);
        Some(Port { device: self.device.clone(), index: self.index?, number: self.number, driver, addresses })
    }

    /// Counters that help to attribute packets and errors.
    pub(super) fn counted(&self) -> PortCounts {
        let value = |name| counted(&self.counters, name).map(|(value, _)| value);
        PortCounts {
            packets: self.packets(),
            timeouts: value("local_ack_timeouts"),
            sequence_errors: value("psn_error_naks"),
        }
    }

    /// Number of queue pairs that exceeded their retries, from the port's counters.
    pub(super) fn given_up(&self) -> u64 {
        let value = |name| counted(&self.counters, name).map_or(0, |(value, _)| value);
        let names = ["retries_exceeded", "rnr_retries_exceeded", "access_naks_received", "access_naks_sent"];
        names.into_iter().map(value).fold(0, u64::saturating_add)
    }

    /// Time of the first and the last reading, over all sources.
    fn window(&self) -> Option<(u64, u64)> {
        let all = self.ethernet.iter().map(Ethernet::window).chain([self.tally.window()]);
        all.flatten().reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
    }

    /// True if any of its counters could be read.
    pub(super) fn is_readable(&self) -> bool {
        self.window().is_some()
    }

    /// Learns the relevant priorities from the host's settings.
    pub(super) fn learn(&mut self, facts: &HostFacts) {
        let ports = facts.roce_ports();
        let found = ports
            .into_iter()
            .find(|(device, port)| device.name == self.device && port.port.number == self.number);
        let Some((device, port)) = found else { return };
        self.active_mtu = port.active_mtu;
        // On a bond, a priority is lossless only if all members agree.
        let pfc = facts.ethernet_of(port).filter_map(|i| Some(i.dcb.as_ref()?.pfc?.enabled.0));
        self.lossless = pfc.reduce(|all, one| all & one);
        let mut dcb = facts.ethernet_of(port).filter_map(|i| i.dcb.as_ref()).filter(|dcb| dcb.maps_dscp());
        let map = |dcb: &Dcb| (0..64).map(|dscp| dcb.priority_of_dscp(dscp)).collect();
        self.dscp_priorities = dcb.next().map(map).unwrap_or_default();
        self.trusts_pcp = port.settings.trust == Some(Trust::Pcp);
        let address = |gid: &Gid| Some((u8::try_from(gid.index).ok()?, IpAddr::from(gid.gid).to_canonical()));
        self.addresses = Arc::new(port.port.gids.iter().filter_map(address).collect());
        for ethernet in &mut self.ethernet {
            let interface = facts.interface(&ethernet.interface);
            ethernet.speed_mbps = interface.and_then(|interface| interface.speed_mbps);
        }
        let classes = check::roce_priorities(facts, device, port);
        self.priorities = if classes == 0 { self.lossless.unwrap_or(0) } else { classes };
    }

    pub(super) fn take_qps(&mut self, found: &QueuePairs, time_ns: u64) {
        self.index = found.devices.get(&self.device).map(|listed| listed.index).or(self.index);
        // Those of the list before stay until the device answers.
        if !found.is_complete(&self.device) {
            return;
        }
        let now = AtList {
            time_ns,
            monotonic_ns: found.ended_monotonic_ns,
            began_monotonic_ns: found.began_monotonic_ns,
            packets: self.packets(),
            paused_us: ethernet::received_us(&self.ethernet),
        };
        let before = self.qps_read.replace(now);
        let packets = before.map(|before| before.packets).unwrap_or_default();
        let span_ns = before.map_or(0, |then| now.began_monotonic_ns.saturating_sub(then.began_monotonic_ns));
        let from_ns = time_ns.saturating_sub(span_ns);
        let paused = before.is_some_and(|before| {
            let added = before
                .paused_us
                .iter()
                .zip(&now.paused_us)
                .map(|(then, now)| now.as_ref()?.checked_sub(*then.as_ref()?));
            let of_roce = (0..8).zip(added).filter(|(priority, _)| self.priorities >> priority & 1 == 1);
            of_roce
                .filter_map(|(_, us)| us)
                .any(|us: u64| us > 0 && us as f64 * 1000.0 >= span_ns as f64 * STALL_SHARE)
        });
        // In place: a second map of thousands of queue pairs would be the most memory that a list takes.
        let mut present = HashSet::new();
        self.qps_left_out = 0;
        let of_port =
            |qp: &QueuePair| qp.device == self.device && qp.port.is_none_or(|port| port == self.number);
        for (qp, owner) in found.list.iter().filter(|(qp, _)| of_port(qp)) {
            if present.len() >= MOST_QPS {
                self.qps_left_out += 1;
                continue;
            }
            let followed = self.qps.entry(qp.lqpn).or_insert_with(|| QpWatch::new(qp, owner));
            if !followed.is_same(qp) {
                *followed = QpWatch::new(qp, owner);
            }
            let moved = followed.advance(qp, owner, packets, (from_ns, time_ns), paused);
            self.moving |= moved && !sets_psns_alone(self.driver());
            present.insert(qp.lqpn);
        }
        self.qps.retain(|lqpn, _| present.contains(lqpn));
        self.share_qps();
        let mine = found.counters.iter().filter(|counter| {
            counter.device == self.device && counter.port.is_none_or(|port| port == self.number)
        });
        for QpCounter { id, lqpns, counters, .. } in mine {
            let (bound, tally) = self.qp_tallies.entry(*id).or_default();
            let lqpns: BTreeSet<u32> = lqpns.iter().copied().collect();
            if *bound != lqpns && bound.is_disjoint(&lqpns) {
                // The id of a released counter is reused.
                *tally = Tally::default();
            }
            *bound = lqpns;
            let mut reading = Reading::default();
            reading.add(Source::Netlink, counters.iter().cloned());
            tally.take(reading, time_ns);
        }
    }

    pub(super) fn sample(&self) -> PortSample {
        let qp_counters = self.qp_tallies.values().map(|(lqpns, tally)| QpCounters {
            lqpns: lqpns.iter().copied().collect(),
            values: tally.sources(self.driver()).into_iter().flat_map(|source| source.values).collect(),
        });
        PortSample {
            device: self.device.clone(),
            port: self.number,
            driver: self.identity.driver.clone(),
            hardware: self.hardware.clone(),
            interface: self.interface.clone(),
            pod: self.pod.clone(),
            members: self.members(),
            above: self.above.clone(),
            gone: self.gone,
            hidden: self.hidden,
            window: self.window(),
            counters: self.counters.clone(),
            growth: self.growth.growth(),
            pause: ethernet::pauses(&self.ethernet),
            pause_source: ethernet::pause_source(&self.ethernet),
            lossless: self.lossless,
            dscp_priorities: Arc::clone(&self.dscp_priorities),
            trusts_pcp: self.trusts_pcp,
            active_mtu: self.active_mtu,
            qps: Arc::clone(&self.sampled),
            qps_counted_ns: self.qps_counted_ns,
            qps_counted_steady_ns: self.qps_counted_steady_ns,
            qp_counters: qp_counters.collect(),
            qps_left_out: self.qps_left_out,
        }
    }
}

/// True for a driver that answers queries with the PSNs that verbs have set: they change when a queue pair is connected
/// anew, and count nothing (`irdma_query_qp` of hw/irdma/verbs.c).
fn sets_psns_alone(driver: Option<&str>) -> bool {
    driver == Some("irdma")
}
