//! Sampling: reads the tables of the kernel programs into a [`Sample`].

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use rocescope_common::wire::SkipReason;

use super::Source;
use crate::host::clock::{WallClock, monotonic_ns};
use crate::metrics::{Metrics, marking};
use crate::sample::{
    Direction, FlowSample, LinkSample, Retired, RetiredTuple, Sample, SourceKind, TRANSPORT_UD,
};
use crate::source::flows::owners::Owners;
use crate::source::live::counters::{Known, Reader};
use crate::source::live::load::Programs;
use crate::source::live::tables::{Reading, Tables, fill_link, link_counters};
use crate::util::time::nanos;

impl Source {
    /// Takes the bins reported so far, before the flows are read.
    fn drain_bins(&mut self) {
        if let Some(bins) = &mut self.bins {
            bins.drain();
        }
    }

    /// Takes in bins between samples.
    pub(super) fn settle_bins(&mut self) -> Result<()> {
        let now = monotonic_ns();
        self.drain_bins();
        let reading = self.tables.read(&self.programs)?;
        match &mut self.bins {
            Some(bins) => bins.settle(&self.programs, &reading, Some(now)),
            None => Ok(()),
        }
    }

    /// Reads the flow table, lets idle flows retire, and shows the rest to what makes figures of readings.
    fn read(&mut self, now: u64, running: bool, owners: &Owners) -> Result<Reading> {
        self.drain_bins();
        let mut reading = self.tables.read(&self.programs)?;
        if let Some(bins) = &mut self.bins {
            bins.settle(&self.programs, &reading, running.then_some(now))?;
        }
        if let Some(idle) = self.config.idle.filter(|_| running) {
            let before = now.saturating_sub(nanos(idle));
            let gone = || Tables::idle(&reading.flows, before).map(|flow| flow.slot);
            self.pairs.retire(&mut self.programs, gone())?;
            self.ecn.reading(&reading.flows, self.clock.unix_ns(now));
            self.losses.changes(&mut self.programs, &self.pairs);
            for slot in gone() {
                self.ecn.retired(slot);
                self.losses.retired(slot);
            }
            let bins = &mut self.bins;
            let tell = |programs: &Programs, gone: &[_]| match bins {
                Some(bins) => bins.retire(programs, gone),
                None => Ok(()),
            };
            if self.tables.retire_idle_telling(&mut self.programs, &reading.flows, before, tell)? > 0 {
                reading = self.tables.read(&self.programs)?;
            }
        }
        self.find_pairs(&reading, owners)?;
        self.ecn.reading(&reading.flows, self.clock.unix_ns(now));
        self.losses.changes(&mut self.programs, &self.pairs);
        self.losses.reading(&reading.flows, &self.programs, (!running).then_some(&self.clock));
        self.losses.count(&reading.flows, self.clock.unix_ns(now));
        Ok(reading)
    }

    /// Everything counted so far. `running`: programs go on counting, and idle flows retire.
    pub(super) fn sample(&mut self, running: bool) -> Result<Sample> {
        self.clock = WallClock::sample();
        self.programs.keep_clock()?;
        let now = monotonic_ns();
        let Known { owners, devices } = self.devices.as_ref().map(Reader::known).unwrap_or_default();
        // Before what programs counted, so that of what both count the programs have as much.
        self.read_drops();
        let mut reading = self.read(now, running, &owners)?;
        let mut events_dropped = 0;
        let mut links = Vec::new();
        let mut places = BTreeMap::new();
        let mut all_counters = Vec::new();
        for (kernel, direction, watched) in self.kernel_links() {
            let counters = link_counters(&self.programs, u32::from(kernel))?;
            events_dropped += counters.events_dropped;
            let mut link = LinkSample {
                name: watched.interface.name.clone(),
                direction: Some(direction),
                skipped: counters.skipped,
                flow_table_full: counters.flow_table_full,
                contended: counters.contended,
                mtu: Some(watched.interface.mtu),
                extra_full: 0,
                retired: Retired::default(),
            };
            fill_link(&mut link, &counters, self.tables.retired(kernel));
            places.insert(kernel, u16::try_from(links.len()).unwrap_or(u16::MAX));
            links.push(link);
            all_counters.push(counters);
        }
        let traffic = match &self.bins {
            Some(bins) => Some(bins.metrics(&self.programs, &reading, &all_counters, now, None)?),
            None => None,
        };
        let place = |kernel: u16| places.get(&kernel).copied().unwrap_or(0);
        for flow in &mut reading.flows {
            flow.key.link = place(flow.key.link);
            flow.stats.first_ns = self.clock.unix_ns(flow.stats.first_ns);
            flow.stats.last_ns = self.clock.unix_ns(flow.stats.last_ns);
            if flow.stats.last_ce_ns != 0 {
                flow.stats.last_ce_ns = self.clock.unix_ns(flow.stats.last_ce_ns);
            }
        }
        let unhandled = unhandled(&links, &reading.flows);
        if let Some(filter) = &self.config.filter {
            let Reading { flows, extra, .. } = &mut reading;
            flows.retain(|flow| {
                let Some(link) = links.get_mut(usize::from(flow.key.link)) else { return true };
                let shown = filter.flow(flow, extra.get(&flow.slot), &link.name);
                if !shown {
                    let filtered = &mut link.skipped[SkipReason::Filtered as usize];
                    filtered.packets += flow.stats.packets;
                    filtered.bytes += flow.stats.bytes;
                }
                shown
            });
        }
        let loss = self.losses.metrics(&reading.flows, &self.programs, &self.pairs, &self.clock);
        let tuples = self.tables.tuples();
        let retired_tuples: Vec<RetiredTuple> =
            tuples.tuples().iter().map(|t| RetiredTuple { link: place(t.link), ..*t }).collect();
        let retired_unattributed = tuples.unattributed();
        let retired = tuples.marking().map(|(link, marked)| (place(link), marked));
        // The retired flows that the filter would have excluded are unknown.
        let known = self.config.filter.is_none() || links.iter().all(|link| link.retired.flows == 0);
        let marking = marking::by_link(&links, &reading.flows, &reading.extra, retired).filter(|_| known);
        Ok(Sample {
            time_ns: self.clock.unix_ns(now),
            kind: SourceKind::Live,
            inputs: self.interfaces.iter().map(|w| w.interface.name.clone()).collect(),
            window: Some((self.clock.unix_ns(self.start_ns), self.clock.unix_ns(now))),
            links,
            flows: reading.flows,
            extra: reading.extra,
            retired_tuples,
            retired_unattributed,
            peers: self.pairs.peers().peers().clone(),
            events_dropped: Some(events_dropped),
            capture_drops: None,
            interface_drops: self.interface_drops(&unhandled),
            owners,
            devices,
            metrics: Metrics {
                marking,
                traffic: traffic.map(Arc::new),
                ecn: Some(self.ecn.metrics(
                    |slot| self.pairs.reverse(slot),
                    self.kernel_links().map(|(link, ..)| link),
                    events_dropped == 0,
                )),
                pairs: Some(self.pairs.pairs()),
                loss: self.config.precise_clock.then_some(loss),
                latency: self.config.precise_clock.then(|| self.pairs.latency(&self.programs)),
                ..Metrics::default()
            },
        })
    }

    /// Finds the reverse direction of flows from a reading and the RDMA devices.
    fn find_pairs(&mut self, reading: &Reading, owners: &Owners) -> Result<()> {
        let directions: BTreeMap<u16, Direction> =
            self.kernel_links().map(|(link, direction, _)| (link, direction)).collect();
        self.pairs.reading(&mut self.programs, reading, |flow| {
            let connected = flow.stats.transport != TRANSPORT_UD;
            owners.of(&flow.key, directions.get(&flow.key.link).copied(), connected)?.peer_qp
        })
    }
}

/// Frames that came in and are of no protocol that every network stack handles, by name of the interface: the
/// kernel counts those as dropped that nobody takes, after programs saw them.
fn unhandled(links: &[LinkSample], flows: &[FlowSample]) -> BTreeMap<String, u64> {
    const KINDS: [SkipReason; 4] =
        [SkipReason::Lldp, SkipReason::MacControl, SkipReason::OtherEthertype, SkipReason::GrhNotBth];
    let mut all = BTreeMap::new();
    for (at, link) in (0u16..).zip(links).filter(|(_, link)| link.direction == Some(Direction::Ingress)) {
        let skipped: u64 =
            KINDS.iter().filter_map(|kind| link.skipped.get(*kind as usize)).map(|one| one.packets).sum();
        let first_version = |flow: &&FlowSample| flow.key.link == at && flow.stats.roce_version == 1;
        let version_1: u64 = flows.iter().filter(first_version).map(|flow| flow.stats.packets).sum();
        *all.entry(link.name.clone()).or_default() += skipped + version_1;
    }
    all
}
