//! Counters over flows that keep their values after flows have left, and the choice of the few flows and peers that
//! get series of their own.
//!
//! A report has a flow's loss, NAKs and latency while the flow is in the flow table. A Prometheus counter must not
//! decrease, so each sample adds the increase of each flow to its link, its peer and its queue pair. A loss count that
//! a later packet corrects downwards (it proves to be reordering) is not reduced.

use std::collections::BTreeMap;

use rocescope_common::account::latency::{BUCKETS, CLASSES, COMPLETIONS};

use super::nic_qps::{self, NicQp, NicQpId};
use crate::analysis::{Flow, direction_name};
use crate::entity::devices::{Devices, PortSample};
use crate::entity::lives::Lives;
use crate::metrics::latency::{Figure, Histogram};
use crate::report::Report;
use crate::sample::{Address, Direction, Sample};
use crate::util::map::{Map, Set};
use crate::util::shared::Shared;
use crate::util::time::NS_PER_S;

/// Time for which a peer keeps its series after it was last among those with the most bytes, in nanoseconds.
const PEER_STAYS_NS: u64 = 600 * NS_PER_S;
/// The same for a queue pair.
const QP_STAYS_NS: u64 = 300 * NS_PER_S;

/// Maximum number of (device, event name) pairs with series of their own.
const EVENTS: usize = 64;
const OTHER_EVENT: &str = "other";

/// Default number of peers with series of their own.
pub const PEERS: usize = 32;

/// Options of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of peers (pairs of a link and an address) with series of their own; the rest is summed.
    pub peers: usize,
    /// Number of queue pairs with series of their own; 0 for none.
    pub qps: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { peers: PEERS, qps: 0 }
    }
}

/// A count of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Packets of all kinds.
    Packets,
    /// Sum of the frame lengths.
    Bytes,
    /// Packets lost upstream of the link.
    Lost,
    /// Packets out of order.
    Reordered,
    /// Packets retransmitted.
    Retransmitted,
    /// Transport timeouts.
    Timeouts,
    /// RNR NAKs.
    Rnr,
    /// NAKs with code 0.
    PsnSequenceError,
    /// NAKs with code 1.
    InvalidRequest,
    /// NAKs with code 2.
    RemoteAccessError,
    /// NAKs with code 3.
    RemoteOperationalError,
    /// NAKs with code 4.
    InvalidRdRequest,
    /// NAKs with another code.
    Reserved,
}

/// Number of counts.
const COUNTS: usize = Count::Reserved as usize + 1;

/// NAK codes by their names in the report.
pub const NAKS: [(&str, Count); 7] = [
    ("rnr_nak", Count::Rnr),
    ("psn_sequence_error", Count::PsnSequenceError),
    ("invalid_request", Count::InvalidRequest),
    ("remote_access_error", Count::RemoteAccessError),
    ("remote_operational_error", Count::RemoteOperationalError),
    ("invalid_rd_request", Count::InvalidRdRequest),
    ("reserved", Count::Reserved),
];

/// All counts of a flow or of a sum; `None` where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([Option<u64>; COUNTS]);

impl Counts {
    /// The value of one count.
    pub fn get(&self, count: Count) -> Option<u64> {
        self.0.get(count as usize).copied().flatten()
    }

    fn of(flow: &Flow) -> Self {
        let loss = [flow.loss.get(), flow.loss_responses.get()];
        let sum =
            |of: fn(&crate::analysis::Loss) -> u64| loss.iter().flatten().map(of).reduce(u64::saturating_add);
        let naks = &flow.ack.naks;
        Self([
            Some(flow.packets),
            Some(flow.bytes),
            sum(|loss| loss.lost),
            sum(|loss| loss.recovered),
            sum(|loss| loss.retransmitted),
            sum(|loss| loss.timeouts),
            Some(flow.ack.rnr_naks),
            Some(naks.psn_sequence_error),
            Some(naks.invalid_request),
            Some(naks.remote_access_error),
            Some(naks.remote_operational_error),
            Some(naks.invalid_rd_request),
            Some(naks.reserved),
        ])
    }

    fn add(&mut self, more: &Self) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        }
    }

    /// Returns the increase from these counts to `now`, and raises them to it.
    fn rise(&mut self, now: &Self) -> Self {
        if now.get(Count::Packets) < self.get(Count::Packets) {
            // A decrease means that another flow has the same key.
            *self = Self::default();
        }
        let mut new = Self::default();
        for ((new, high), now) in new.0.iter_mut().zip(&mut self.0).zip(now.0) {
            let Some(now) = now else { continue };
            *new = Some(now.saturating_sub(high.unwrap_or(0)));
            *high = Some(now.max(high.unwrap_or(0)));
        }
        new
    }
}

/// A link and its direction.
pub type LinkId = (Shared, Option<Direction>);
/// A host at the other end of a link.
pub type PeerId = (Shared, Address);

/// Identity of a flow in labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// Link and direction.
    pub link: LinkId,
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Destination queue pair.
    pub dest_qp: u32,
}

impl FlowId {
    fn of(flow: &Flow) -> Self {
        let Flow { link, direction, src, dst, dest_qp, .. } = flow;
        Self { link: (link.clone(), *direction), src: *src, dst: *dst, dest_qp: *dest_qp }
    }

    /// The remote host; `None` if the direction is unknown.
    pub fn peer(&self) -> Option<Address> {
        match self.link.1? {
            Direction::Ingress => Some(self.src),
            Direction::Egress => Some(self.dst),
        }
    }
}

/// A queue pair that may have series of its own: one direction of it that packets show, or one of a NIC whose packets
/// are not seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum QpId {
    Flow(FlowId),
    Nic(NicQpId),
}

/// Counts of a flow up to now.
#[derive(Debug, Default)]
struct FlowTotals {
    counts: Counts,
    times: [Histogram; CLASSES],
    completions: [Histogram; COMPLETIONS],
    /// In the latest report.
    present: bool,
}

/// A distribution of times over all flows of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution([u64; BUCKETS]);

impl Distribution {
    /// Samples per bucket of [`latency`](rocescope_common::account::latency).
    pub fn buckets(&self) -> &[u64; BUCKETS] {
        &self.0
    }

    /// Adds the increase from `before` to `now`, and makes `before` the same.
    fn add(&mut self, before: &mut Histogram, now: &Histogram) {
        let (mut old, mut new) = ([0; BUCKETS], [0; BUCKETS]);
        now.add_to(&mut new);
        if before.count() <= now.count() {
            before.add_to(&mut old);
        }
        for (sum, (new, old)) in self.0.iter_mut().zip(new.iter().zip(old)) {
            *sum += new.saturating_sub(old);
        }
        before.clone_from(now);
    }
}

/// A queue pair with series of its own.
#[derive(Clone, Debug, Default)]
pub struct Qp {
    /// Its counts.
    pub counts: Counts,
    /// CE-marked packets.
    pub ce_marked: u64,
    /// PID of the owning process.
    pub pid: Option<u32>,
    /// Command name of the process.
    pub comm: Option<Shared>,
    /// Pod of the process.
    pub pod: Option<Shared>,
    /// RDMA device of the link.
    pub device: Option<Box<str>>,
    /// Queue pair at the sending end.
    pub peer_qp: Option<u32>,
}

/// Counters over all flows, present and past.
#[derive(Debug)]
pub struct Ledger {
    flows: Map<FlowId, FlowTotals>,
    /// Sums by link.
    pub links: BTreeMap<LinkId, Counts>,
    /// Request-to-ACK and response latency by link and class of the request.
    pub times: BTreeMap<(LinkId, Option<usize>), Distribution>,
    /// Message completion times by link and operation, of the messages that this host sends: those of its peers
    /// complete there.
    pub completions: BTreeMap<(Shared, usize), Distribution>,
    /// Events of queue pairs and ports, by device and event name.
    pub qp_events: BTreeMap<(String, String), u64>,
    /// Events counted so far.
    events_seen: u64,
    /// Sums by link and peer, for the chosen peers.
    pub peers: BTreeMap<(LinkId, Address), Counts>,
    /// Sums by link over all other peers.
    pub others: BTreeMap<LinkId, Counts>,
    /// Chosen queue pairs with packets.
    pub qps: BTreeMap<FlowId, Qp>,
    /// Chosen queue pairs of NICs without.
    pub nic_qps: BTreeMap<NicQpId, NicQp>,
    peer_choice: StickyChoice<PeerId>,
    qp_choice: StickyChoice<QpId>,
    /// Bytes by link at the latest sample.
    link_bytes: BTreeMap<LinkId, u64>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(options: Options) -> Self {
        Self {
            flows: Map::default(),
            links: BTreeMap::new(),
            times: BTreeMap::new(),
            completions: BTreeMap::new(),
            qp_events: BTreeMap::new(),
            events_seen: 0,
            peers: BTreeMap::new(),
            others: BTreeMap::new(),
            qps: BTreeMap::new(),
            nic_qps: BTreeMap::new(),
            peer_choice: StickyChoice::new(options.peers, PEER_STAYS_NS),
            qp_choice: StickyChoice::new(options.qps, QP_STAYS_NS),
            link_bytes: BTreeMap::new(),
        }
    }

    /// Number of peers that were summed and of queue pairs that were left out, since others had the series.
    pub fn dropped(&self) -> [(&'static str, u64); 2] {
        [("rocescope_peer", self.peer_choice.dropped), ("rocescope_qp", self.qp_choice.dropped)]
    }

    /// Adds a sample and its report.
    pub fn take(&mut self, sample: &Sample, report: &Report) {
        let flows: Vec<(FlowId, &Flow)> =
            report.facts.flows.iter().map(|flow| (FlowId::of(flow), flow)).collect();
        self.choose_peers(&flows, sample.time_ns);
        if self.qp_choice.most > 0 {
            self.choose_qps(&flows, report, sample.time_ns);
        }
        self.flows.values_mut().for_each(|known| known.present = false);
        let mut by_flow: BTreeMap<LinkId, u64> = BTreeMap::new();
        for (id, flow) in flows {
            let known = self.flows.entry(id.clone()).or_default();
            known.present = true;
            let new = known.counts.rise(&Counts::of(flow));
            self.links.entry(id.link.clone()).or_default().add(&new);
            *by_flow.entry(id.link.clone()).or_default() += new.get(Count::Bytes).unwrap_or(0);
            let figure = sample.metrics.latency.as_ref().and_then(|all| all.get(flow.slot));
            for (class, histogram) in figure.into_iter().flat_map(Figure::by_class) {
                let Some(before) = known.times.get_mut(class.unwrap_or(0)).filter(|_| !histogram.is_empty())
                else {
                    continue;
                };
                let sum = self.times.entry((id.link.clone(), class));
                sum.or_insert(Distribution([0; BUCKETS])).add(before, histogram);
            }
            let own = figure.filter(|_| id.link.1 != Some(Direction::Ingress));
            for (operation, histogram) in own.into_iter().flat_map(|figure| figure.completions.histograms()) {
                let Some(before) = known.completions.get_mut(operation) else { continue };
                let sum = self.completions.entry((id.link.0.clone(), operation));
                sum.or_insert(Distribution([0; BUCKETS])).add(before, histogram);
            }
            if let Some(peer) = id.peer() {
                let sum = if self.peer_choice.has(&(id.link.0.clone(), peer)) {
                    self.peers.entry((id.link.clone(), peer)).or_default()
                } else {
                    self.others.entry(id.link.clone()).or_default()
                };
                sum.add(&new);
            }
            if self.qp_choice.most > 0 && self.qp_choice.has(&QpId::Flow(id.clone())) {
                self.qps.insert(id, Qp::of(flow, &known.counts, &sample.devices));
            }
        }
        self.flows.retain(|_, known| known.present);
        self.rest(report, &by_flow);
        self.events(&sample.devices.lives);
    }

    /// Counts events since the previous sample. The list holds the latest events, and the number that has left it.
    fn events(&mut self, lives: &Lives) {
        let seen = self.events_seen;
        for event in lives.events.iter().filter(|event| event.number >= seen) {
            let mut name = (event.device.clone(), event.event.clone());
            if self.qp_events.len() >= EVENTS && !self.qp_events.contains_key(&name) {
                OTHER_EVENT.clone_into(&mut name.1);
            }
            *self.qp_events.entry(name).or_default() += 1;
        }
        self.events_seen = lives.next_number(seen);
    }

    /// Chooses the peers with series, by bytes.
    fn choose_peers(&mut self, flows: &[(FlowId, &Flow)], now_ns: u64) {
        let mut bytes: BTreeMap<PeerId, u64> = BTreeMap::new();
        for (id, flow) in flows {
            if let Some(peer) = id.peer() {
                *bytes.entry((id.link.0.clone(), peer)).or_default() += flow.bytes;
            }
        }
        let mut peers: Vec<(u64, PeerId)> = bytes.into_iter().map(|(peer, bytes)| (bytes, peer)).collect();
        peers.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        self.peer_choice.choose(peers.into_iter().map(|(_, peer)| peer), now_ns);
        let choice = &self.peer_choice;
        self.peers.retain(|(link, peer), _| choice.has(&(link.0.clone(), *peer)));
    }

    /// Chooses the queue pairs with series, and takes over the figures of those without packets. Flows are chosen by
    /// losses and retransmissions, then bytes; queue pairs of NICs by trouble, then packets. Figures of the two cannot
    /// be compared: those in trouble come first, and flows and queue pairs of NICs take turns.
    fn choose_qps(&mut self, flows: &[(FlowId, &Flow)], report: &Report, now_ns: u64) {
        let rank = |flow: &Flow| {
            let counts = Counts::of(flow);
            let harm = [Count::Lost, Count::Retransmitted].map(|count| counts.get(count).unwrap_or(0));
            (harm.iter().sum::<u64>(), flow.bytes)
        };
        let mut seen: Vec<_> = flows.iter().map(|(id, flow)| (rank(flow), id)).collect();
        seen.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let seen = seen.into_iter().map(|((harm, _), id)| (harm > 0, QpId::Flow(id.clone()))).enumerate();
        let unseen =
            nic_qps::ranked(report).into_iter().map(|(harmed, id)| (harmed, QpId::Nic(id))).enumerate();
        let mut ranked: Vec<_> = seen.chain(unseen).collect();
        ranked.sort_by_key(|(place, (harmed, _))| (!harmed, *place));
        self.qp_choice.choose(ranked.into_iter().map(|(_, (_, id))| id), now_ns);
        let choice = &self.qp_choice;
        self.qps.retain(|id, _| choice.has(&QpId::Flow(id.clone())));
        self.nic_qps.retain(|id, _| choice.has(&QpId::Nic(id.clone())));
        nic_qps::take(report, &mut self.nic_qps, |id| choice.has(&QpId::Nic(id.clone())));
    }

    /// Attributes bytes of a link that belong to no flow of this report (retired between two samples, or the table
    /// was full) to unknown peers.
    fn rest(&mut self, report: &Report, by_flow: &BTreeMap<LinkId, u64>) {
        for link in report.facts.links.iter().filter(|link| link.direction.is_some()) {
            let id: LinkId = (link.name.as_str().into(), link.direction);
            let before = self.link_bytes.insert(id.clone(), link.bytes).unwrap_or(0);
            let new = link.bytes.saturating_sub(before);
            let mut rest = Counts::default();
            rest.0[Count::Bytes as usize] = Some(new.saturating_sub(by_flow.get(&id).copied().unwrap_or(0)));
            self.others.entry(id).or_default().add(&rest);
        }
    }
}

impl Qp {
    fn of(flow: &Flow, counts: &Counts, devices: &Devices) -> Self {
        let Flow { pid, comm, pod, ecn, peer_qp, .. } = flow;
        let link = flow.link.as_str();
        let is = |name: &String| name == link;
        let carries =
            |port: &&PortSample| port.interface.iter().chain(&port.members).chain(&port.above).any(is);
        let device = devices.ports.iter().find(carries).map(|port| port.device.as_str().into());
        Self {
            counts: *counts,
            ce_marked: ecn.get().unwrap_or_default().ce,
            pid: *pid,
            comm: comm.clone(),
            pod: pod.clone(),
            device,
            peer_qp: *peer_qp,
        }
    }
}

/// A bounded choice with hysteresis: series that come and go cost the database more than series that stay.
#[derive(Debug)]
struct StickyChoice<K> {
    most: usize,
    stays_ns: u64,
    /// The time at which each key was last among the first.
    chosen: Map<K, u64>,
    /// Keys without room at the latest sample.
    waiting: Set<K>,
    dropped: u64,
}

impl<K: Clone + Eq + std::hash::Hash> StickyChoice<K> {
    fn new(most: usize, stays_ns: u64) -> Self {
        Self { most, stays_ns, chosen: Map::default(), waiting: Set::default(), dropped: 0 }
    }

    fn has(&self, key: &K) -> bool {
        self.chosen.contains_key(key)
    }

    /// Chooses among `ranked`, which is in descending order of preference.
    fn choose(&mut self, ranked: impl Iterator<Item = K>, now_ns: u64) {
        let ranked: Vec<K> = ranked.collect();
        let first = ranked.get(..self.most.min(ranked.len())).unwrap_or_default();
        for key in first {
            if let Some(last_ns) = self.chosen.get_mut(key) {
                *last_ns = now_ns;
            }
        }
        self.chosen.retain(|_, last_ns| now_ns.abs_diff(*last_ns) <= self.stays_ns);
        for key in first {
            if self.chosen.len() < self.most && !self.chosen.contains_key(key) {
                self.chosen.insert(key.clone(), now_ns);
            }
        }
        let mut waiting = Set::default();
        for key in ranked {
            if !self.chosen.contains_key(&key) {
                self.dropped += u64::from(!self.waiting.contains(&key));
                waiting.insert(key);
            }
        }
        self.waiting = waiting;
    }
}

/// Name of the direction; empty if unknown.
pub fn direction(link: &LinkId) -> &'static str {
    link.1.map_or("", direction_name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    use crate::util::time::NS_PER_S as SECOND;

    fn chosen(sticky: &StickyChoice<&'static str>) -> BTreeSet<&'static str> {
        sticky.chosen.keys().copied().collect()
    }

    #[test]
    fn a_choice_lasts_and_what_it_leaves_out_is_counted() {
        let mut sticky = StickyChoice::new(2, 10 * SECOND);
        sticky.choose(["a", "b", "c"].into_iter(), 0);
        assert_eq!((chosen(&sticky), sticky.dropped), (["a", "b"].into(), 1));
        // `c` ranks first now, but `a` and `b` keep their places for a while.
        sticky.choose(["c", "a", "b"].into_iter(), 10 * SECOND);
        assert_eq!((chosen(&sticky), sticky.dropped), (["a", "b"].into(), 1));
        sticky.choose(["c", "a", "b"].into_iter(), 11 * SECOND);
        assert_eq!((chosen(&sticky), sticky.dropped), (["a", "c"].into(), 2));
        // Keys that disappear keep their places equally long.
        sticky.choose(["d"].into_iter(), 12 * SECOND);
        assert_eq!((chosen(&sticky), sticky.dropped), (["a", "c"].into(), 3));
        sticky.choose(["d"].into_iter(), 30 * SECOND);
        assert_eq!(chosen(&sticky), ["d"].into());
    }

    #[test]
    fn counts_rise_only() {
        let counts = |packets, lost| {
            let mut counts = Counts::default();
            counts.0[Count::Packets as usize] = Some(packets);
            counts.0[Count::Lost as usize] = lost;
            counts
        };
        let mut known = Counts::default();
        assert_eq!(known.rise(&counts(10, None)), counts(10, None));
        assert_eq!(known.rise(&counts(12, Some(5))), counts(2, Some(5)));
        // Three of the losses were reordering; an unknown value in between changes nothing.
        assert_eq!(known.rise(&counts(13, Some(2))), counts(1, Some(0)));
        assert_eq!(known.rise(&counts(14, None)), counts(1, None));
        assert_eq!(known.rise(&counts(15, Some(6))), counts(1, Some(1)));
        // A new flow with the same key.
        assert_eq!(known.rise(&counts(3, Some(1))), counts(3, Some(1)));
        let mut sum = counts(1, None);
        sum.add(&counts(2, Some(4)));
        sum.add(&counts(2, None));
        assert_eq!(sum, counts(5, Some(4)));
    }

    #[test]
    fn a_distribution_takes_what_is_new() {
        let histogram = |first: u64, last: u64| {
            let mut counts = [0; BUCKETS];
            (counts[0], counts[BUCKETS - 1]) = (first, last);
            Histogram::of(&counts)
        };
        let mut sum = Distribution([0; BUCKETS]);
        sum.add(&mut Histogram::default(), &histogram(3, 0));
        sum.add(&mut histogram(3, 0), &histogram(4, 1));
        // From another flow with the same key.
        sum.add(&mut histogram(4, 1), &histogram(2, 0));
        assert_eq!((sum.0[0], sum.0[BUCKETS - 1]), (6, 1));
    }
}
