//! The devices of watched interfaces, read again and again.
//!
//! All that is read comes through [`HostRoot`] and [`Ask`], so that recorded hosts drive it in
//! tests. What cannot be read is left out: nothing here fails.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::tally::{PauseTally, Tally};
use super::{Devices, PortSample, QpCounters, QpSample, Setting, psn};
use crate::doctor::check::{self, Verdict};
use crate::doctor::facts::HostFacts;
use crate::doctor::{self};
use crate::host::ask::Ask;
use crate::host::counters::{Reading, Source};
use crate::host::dcb::Dcb;
use crate::host::device::{Identity, Protocol};
use crate::host::nldev::{self, QpCounter, Query, QueuePair};
use crate::host::qp::QueuePairs;
use crate::host::rdma;
use crate::host::read::{HostRoot, Unread};
use crate::host::vocabulary::{self, PauseCount, PauseCounts};
use crate::host::{device, pci};
use crate::lldp::Neighbour;

/// Queue pairs of a port that are followed, at most.
const MOST_QPS: usize = 16_384;
/// Sources of pause counts, as reports name them.
const ETHTOOL: &str = "ethtool";
const DCB: &str = "DCB netlink";
/// From this share of the time paused on, a queue pair that stands still does so for the pause.
const STALL_SHARE: f64 = 0.5;

/// The RoCE ports of watched interfaces.
#[derive(Debug, Default)]
pub struct Watch {
    ports: Vec<PortWatch>,
    interfaces: Vec<String>,
    facts: Option<HostFacts>,
    settings: Vec<Setting>,
    heard: BTreeMap<String, Neighbour>,
}

#[derive(Debug, Default)]
struct PortWatch {
    device: String,
    number: u32,
    /// By which RDMA netlink names the device.
    index: Option<u32>,
    identity: Identity,
    hidden: bool,
    interface: Option<String>,
    tally: Tally,
    pauses: PauseTally,
    /// Where pauses are read; empty before the first.
    pause_source: &'static str,
    /// Priorities that RoCE uses, as far as it can be told; bit p.
    priorities: u8,
    lossless: Option<u8>,
    qps: HashMap<u32, QpWatch>,
    /// The same for samples, which come more often than readings of them.
    sampled: Arc<Vec<QpSample>>,
    qps_left_out: u64,
    qp_tallies: BTreeMap<u32, (BTreeSet<u32>, Tally)>,
    /// Time, packets and pauses of the port at the latest reading of queue pairs.
    qps_read: Option<(u64, PortPackets, [Option<u64>; 8])>,
    /// Whether any PSN has ever moved: some drivers tell those of the connection's start for ever.
    moving: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct PortPackets {
    sent: Option<u64>,
    received: Option<u64>,
}

#[derive(Debug)]
struct QpWatch {
    qp: QueuePair,
    comm: Option<String>,
    pod: Option<String>,
    /// PSNs that passed; `None` once that cannot be told.
    sent: Option<u64>,
    received: Option<u64>,
    stalled_ns: u64,
    /// It moved in the latest interval, or stands still since.
    busy: bool,
}

impl Watch {
    /// The ports that do RoCE over these interfaces.
    #[must_use]
    pub fn new(root: &HostRoot, kernel: &dyn Ask, interfaces: &[String]) -> Self {
        let devices = rdma::list(root.sys());
        // Without a device the question itself would have the kernel load modules.
        let answers = if devices.is_empty() { Vec::new() } else { answers(kernel, Query::Devices) };
        let known: Vec<nldev::Device> =
            answers.iter().filter_map(|answer| nldev::Device::parse(answer)).collect();
        let mut ports = Vec::new();
        for device in &devices {
            let known = known.iter().find(|known| known.name == device.name);
            let identity = Identity::of(root, device, known);
            if identity.protocol != Protocol::Roce {
                continue;
            }
            let pci = pci::address_behind(root, &format!("/sys/class/infiniband/{}/device", device.name));
            let off = || {
                let answer = kernel.parameter(&pci?, "enable_roce").ok()?;
                Some(!device::is_on(&answer)?)
            };
            let hidden = !identity.software && off() != Some(true);
            let watched = |name: &Option<String>| name.as_ref().is_some_and(|name| interfaces.contains(name));
            ports.extend(device.ports.iter().filter(|port| watched(&port.interface)).map(|port| PortWatch {
                device: device.name.clone(),
                number: port.number,
                index: known.map(|known| known.index),
                identity: identity.clone(),
                hidden,
                interface: port.interface.clone(),
                ..PortWatch::default()
            }));
        }
        Self { ports, interfaces: interfaces.to_vec(), ..Self::default() }
    }

    /// Whether there is no RoCE port.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// A sentence about each port whose packets no program on its interface can see.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let hidden = self.ports.iter().filter(|port| port.hidden);
        hidden
            .map(|port| {
                format!(
                    "{} does RoCE in hardware, so that no RoCE packet of it passes {}: going on with its \
                     counters (DEVICES in the report, screen 5); `rocescope doctor` names ways to its packets",
                    port.device,
                    port.interface.as_deref().unwrap_or("its interface")
                )
            })
            .collect()
    }

    /// Reads the counters of all ports. `time_ns` is the Unix time.
    pub fn read_counters(&mut self, root: &HostRoot, kernel: &dyn Ask, time_ns: u64) {
        for port in &mut self.ports {
            port.read_counters(root, kernel, time_ns);
        }
    }

    /// Takes in the queue pairs as they were at Unix time `time_ns`.
    pub fn take_qps(&mut self, found: &QueuePairs, time_ns: u64) {
        for port in &mut self.ports {
            port.take_qps(found, time_ns);
        }
    }

    /// Reads and judges the settings of the host, as doctor does.
    pub fn audit(&mut self, root: &HostRoot, kernel: &dyn Ask) {
        if self.ports.is_empty() {
            return;
        }
        let mut facts = doctor::collect(root, kernel);
        for (name, neighbour) in &self.heard {
            if let Some(interface) = facts.interfaces.iter_mut().find(|known| known.name == *name) {
                interface.neighbour = Some(neighbour.clone());
            }
        }
        for port in &mut self.ports {
            port.learn(&facts);
        }
        self.facts = Some(facts);
        self.judge();
    }

    /// Takes in what the switch behind an interface said.
    pub fn hear(&mut self, interface: &str, neighbour: Neighbour) {
        if self.heard.get(interface) == Some(&neighbour) {
            return;
        }
        let known = self.facts.iter_mut().flat_map(|facts| &mut facts.interfaces);
        if let Some(known) = known.into_iter().find(|known| known.name == interface) {
            known.neighbour = Some(neighbour.clone());
        }
        self.heard.insert(interface.to_owned(), neighbour);
        self.judge();
    }

    fn judge(&mut self) {
        let Some(facts) = &self.facts else { return };
        // Other interfaces and devices are not what this run is about.
        let mut others: BTreeSet<String> = facts.interfaces.iter().map(|i| i.name.clone()).collect();
        for device in &facts.devices {
            others.insert(device.name.clone());
            others.extend(device.ports.iter().map(|port| format!("{}/{}", device.name, port.port.number)));
        }
        for name in &self.interfaces {
            others.remove(name);
        }
        for port in &self.ports {
            others.remove(&port.device);
            others.remove(&format!("{}/{}", port.device, port.number));
        }
        let found = check::check(facts)
            .into_iter()
            .filter(|check| check.verdict >= Verdict::Warning && !others.contains(&check.subject));
        self.settings = found
            .map(|check| Setting {
                check: check.id,
                subject: check.subject,
                critical: check.verdict == Verdict::Critical,
                value: check.value,
                why: check.why,
                change: check.change,
            })
            .collect();
    }

    /// Everything known so far.
    #[must_use]
    pub fn sample(&self) -> Devices {
        Devices {
            ports: self.ports.iter().map(PortWatch::sample).collect(),
            settings: self.settings.clone(),
            neighbours: self.heard.iter().map(|(name, heard)| (name.clone(), heard.clone())).collect(),
        }
    }
}

/// The answers to a question, or none.
fn answers(kernel: &dyn Ask, query: Query) -> Vec<Vec<u8>> {
    kernel.rdma(query).unwrap_or_default()
}

impl PortWatch {
    fn driver(&self) -> Option<&str> {
        self.identity.driver.as_deref()
    }

    fn read_counters(&mut self, root: &HostRoot, kernel: &dyn Ask, time_ns: u64) {
        let at = format!("/sys/class/infiniband/{}/ports/{}", self.device, self.number);
        // Reasons are doctor's business: here a counter that cannot be read is just not there.
        let mut reading = Reading::of_port(root, &at, &mut Unread::new());
        if let Some(index) = self.index {
            let named = answers(kernel, Query::PortCounters(index, self.number));
            let new: Vec<_> = named
                .iter()
                .flat_map(|answer| nldev::counters(answer))
                .filter(|(name, _)| !reading.has(Source::Hardware, name))
                .collect();
            reading.add(Source::Netlink, new);
        }
        if let Some(interface) = &self.interface {
            let statistics = kernel.statistics(interface).unwrap_or_default();
            // Once one of the two, always that one: their counts are not each other's.
            let of_driver = vocabulary::pause(&statistics).filter(|_| self.pause_source != DCB);
            if let Some(pauses) = of_driver {
                self.pause_source = ETHTOOL;
                self.pauses.take(pauses, time_ns);
            } else if self.pause_source != ETHTOOL
                && let Some(pauses) = dcb_pauses(kernel, interface)
            {
                self.pause_source = DCB;
                self.pauses.take(pauses, time_ns);
            }
            let known = statistics.into_iter().filter(|(name, _)| vocabulary::ethernet(name).is_some());
            reading.add(Source::Ethtool, known);
        }
        if !reading.is_empty() {
            self.tally.take(reading, time_ns);
        }
    }

    /// Which priorities matter, from the host's settings.
    fn learn(&mut self, facts: &HostFacts) {
        let ports = facts.roce_ports();
        let found = ports
            .into_iter()
            .find(|(device, port)| device.name == self.device && port.port.number == self.number);
        let Some((device, port)) = found else { return };
        let dcb = facts.interface_of(port).and_then(|interface| interface.dcb.as_ref());
        self.lossless = dcb.and_then(|dcb| dcb.pfc).map(|pfc| pfc.enabled.0);
        let classes = check::roce_priorities(facts, device, port);
        self.priorities = if classes == 0 { self.lossless.unwrap_or(0) } else { classes };
    }

    fn take_qps(&mut self, found: &QueuePairs, time_ns: u64) {
        let now = PortPackets {
            sent: self.tally.value(self.driver(), "tx_packets"),
            received: self.tally.value(self.driver(), "rx_packets"),
        };
        let paused_us = self.pauses.received_us();
        let before = self.qps_read.replace((time_ns, now, paused_us));
        let since = |of: fn(&PortPackets) -> Option<u64>| {
            let (_, before, _) = before?;
            of(&now)?.checked_sub(of(&before)?)
        };
        let most = PortPackets { sent: since(|p| p.sent), received: since(|p| p.received) };
        let span_ns = before.map_or(0, |(then, ..)| time_ns.saturating_sub(then));
        let paused = before.is_some_and(|(.., before)| {
            let added =
                before.iter().zip(&paused_us).map(|(then, now)| now.as_ref()?.checked_sub(*then.as_ref()?));
            let of_roce = (0..8).zip(added).filter(|(priority, _)| self.priorities >> priority & 1 == 1);
            of_roce.filter_map(|(_, us)| us).any(|us: u64| us as f64 * 1000.0 >= span_ns as f64 * STALL_SHARE)
        });
        let mut present = HashMap::new();
        self.qps_left_out = 0;
        let of_port =
            |qp: &QueuePair| qp.device == self.device && qp.port.is_none_or(|port| port == self.number);
        for (qp, comm, pod) in found.list.iter().filter(|(qp, ..)| of_port(qp)) {
            if present.len() >= MOST_QPS {
                self.qps_left_out += 1;
                continue;
            }
            let earlier = self.qps.remove(&qp.lqpn).filter(|earlier| earlier.is_same(qp));
            let mut followed = earlier.unwrap_or_else(|| QpWatch::new(qp, comm.clone(), pod.clone()));
            self.moving |= followed.advance(qp, most, span_ns, paused);
            present.insert(qp.lqpn, followed);
        }
        self.qps = present;
        let mut sampled: Vec<QpSample> = self.qps.values().map(|qp| qp.sample(self.moving)).collect();
        sampled.sort_by_key(|qp| qp.lqpn);
        self.sampled = Arc::new(sampled);
        let mine = found.counters.iter().filter(|counter| {
            counter.device == self.device && counter.port.is_none_or(|port| port == self.number)
        });
        for QpCounter { id, lqpns, counters, .. } in mine {
            let (bound, tally) = self.qp_tallies.entry(*id).or_default();
            let lqpns: BTreeSet<u32> = lqpns.iter().copied().collect();
            if *bound != lqpns && bound.is_disjoint(&lqpns) {
                // The number of a counter that was given back is in use again.
                *tally = Tally::default();
            }
            *bound = lqpns;
            let mut reading = Reading::default();
            reading.add(Source::Netlink, counters.iter().cloned());
            tally.take(reading, time_ns);
        }
    }

    fn sample(&self) -> PortSample {
        let qp_counters = self.qp_tallies.values().map(|(lqpns, tally)| QpCounters {
            lqpns: lqpns.iter().copied().collect(),
            values: tally.sources(self.driver()).into_iter().flat_map(|source| source.values).collect(),
        });
        PortSample {
            device: self.device.clone(),
            port: self.number,
            driver: self.identity.driver.clone(),
            interface: self.interface.clone(),
            hidden: self.hidden,
            window: self.tally.window(),
            counters: self.tally.sources(self.driver()),
            pause: self.pauses.pauses(),
            pause_source: self.pause_source,
            lossless: self.lossless,
            qps: Arc::clone(&self.sampled),
            qp_counters: qp_counters.collect(),
            qps_left_out: self.qps_left_out,
        }
    }
}

/// Pause frames by priority as data centre bridging counts them, for drivers without statistics of
/// their own.
fn dcb_pauses(kernel: &dyn Ask, interface: &str) -> Option<PauseCounts> {
    let pfc = Dcb::parse(&kernel.dcb(interface).ok()?)?.pfc?;
    let counted = |frames: u64| PauseCount { frames: Some(frames), ..PauseCount::default() };
    // A driver that does not count leaves all of them at zero, which would not be true.
    let any = pfc.sent.iter().chain(&pfc.received).any(|frames| *frames > 0);
    any.then(|| PauseCounts { received: pfc.received.map(counted), sent: pfc.sent.map(counted) })
}

impl QpWatch {
    fn new(qp: &QueuePair, comm: Option<String>, pod: Option<String>) -> Self {
        Self { qp: qp.clone(), comm, pod, sent: Some(0), received: Some(0), stalled_ns: 0, busy: false }
    }

    /// Whether this is the queue pair that had the number before.
    fn is_same(&self, qp: &QueuePair) -> bool {
        // The peer comes with the connection, and goes with it.
        let same_peer = self.qp.rqpn.is_none() || qp.rqpn == self.qp.rqpn;
        self.qp.pid == qp.pid && self.qp.kind == qp.kind && same_peer
    }

    /// Takes in its state after `span_ns`, in which the port carried `most` packets. True when a
    /// PSN moved since the latest time.
    fn advance(&mut self, qp: &QueuePair, most: PortPackets, span_ns: u64, paused: bool) -> bool {
        let step = |before: Option<u32>, now: Option<u32>, most: Option<u64>| match (before, now) {
            (Some(before), Some(now)) => psn::advance(before, now, most),
            // Before a connection there is no PSN.
            (None, _) => Some(0),
            (Some(_), None) => None,
        };
        // States before RTR have PSNs that are being set.
        let was_up = matches!(self.qp.state, Some("RTR" | "RTS" | "SQD" | "SQE"));
        let changed = was_up && (self.qp.sq_psn, self.qp.rq_psn) != (qp.sq_psn, qp.rq_psn);
        if was_up && span_ns > 0 {
            let sent = step(self.qp.sq_psn, qp.sq_psn, most.sent);
            let received = step(self.qp.rq_psn, qp.rq_psn, most.received);
            self.sent = self.sent.zip(sent).map(|(sum, more)| sum + more);
            self.received = self.received.zip(received).map(|(sum, more)| sum + more);
            let ready = qp.state == Some("RTS");
            if !changed && ready && self.busy && paused {
                self.stalled_ns = self.stalled_ns.saturating_add(span_ns);
            } else {
                self.busy = changed;
            }
        }
        self.qp = qp.clone();
        changed
    }

    /// `moving` tells whether the device's PSNs are those of now.
    fn sample(&self, moving: bool) -> QpSample {
        QpSample {
            lqpn: self.qp.lqpn,
            rqpn: self.qp.rqpn,
            kind: self.qp.kind,
            state: self.qp.state,
            pid: self.qp.pid,
            comm: self.comm.clone(),
            pod: self.pod.clone(),
            sq_psn: self.qp.sq_psn,
            rq_psn: self.qp.rq_psn,
            sent: self.sent.filter(|_| moving),
            received: self.received.filter(|_| moving && self.qp.rq_psn.is_some()),
            stalled_ns: moving.then_some(self.stalled_ns),
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
