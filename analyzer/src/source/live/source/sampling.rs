//! Sampling: reads the tables of the kernel programs into a [`Sample`].

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use rocescope_common::abi::LinkCounters;
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::opcode::TRANSPORT_UD;

use super::Source;
use crate::entity::owners::Owners;
use crate::filter::Filter;
use crate::host::kernel::clock::{WallClock, monotonic_ns};
use crate::metrics::Metrics;
use crate::sample::{Direction, Extra, FlowSample, LinkSample, RetiredTuple, Sample, SourceKind, marking};
use crate::source::live::counters::{LatestReadings, Reader};
use crate::source::live::load::Programs;
use crate::source::live::ras::RasReader;
use crate::source::live::tables::{Reading, Tables, fill_link, link_counters};
use crate::util::time::nanos;

impl Source {
    /// Takes the bins reported so far, before the flows are read.
    fn drain_bins(&mut self) {
        if let Some(bins) = &mut self.bins {
            bins.drain();
        }
    }

    /// Processes bins between samples.
    pub(super) fn settle_bins(&mut self) -> Result<()> {
        let now = monotonic_ns();
        self.drain_bins();
        let reading = self.tables.read(&self.programs)?;
        match &mut self.bins {
            Some(bins) => bins.settle(&self.programs, &reading, Some(now)),
            None => Ok(()),
        }
    }

    /// Reads the flow table, retires idle flows, and passes the rest to the collectors.
    fn read(&mut self, now: u64, running: bool, owners: &Owners) -> Result<Reading> {
        self.drain_bins();
        let mut reading = self.tables.read(&self.programs)?;
        if let Some(bins) = &mut self.bins {
            bins.settle(&self.programs, &reading, running.then_some(now))?;
        }
        if let Some(idle) = self.config.idle.filter(|_| running)
            && self.retire_idle(&reading, now.saturating_sub(nanos(idle)), now)? > 0
        {
            reading = self.tables.read(&self.programs)?;
        }
        self.find_pairs(&reading, owners)?;
        self.ecn.reading(&reading.flows, self.clock.unix_ns(now));
        self.losses.changes(&mut self.programs, &self.pairs);
        self.losses.reading(&reading.flows, &self.programs, (!running).then_some(&self.clock));
        self.losses.count(&reading.flows, self.clock.unix_ns(now));
        Ok(reading)
    }

    /// Retires the flows of `reading` without a packet since `before`. Returns their number.
    fn retire_idle(&mut self, reading: &Reading, before: u64, now: u64) -> Result<usize> {
        let gone = || Tables::idle(&reading.flows, before).map(|flow| flow.slot);
        self.pairs.retire(&mut self.programs, gone())?;
        self.ecn.reading(&reading.flows, self.clock.unix_ns(now));
        self.losses.changes(&mut self.programs, &self.pairs);
        for slot in gone() {
            self.ecn.retired(slot);
            self.losses.retired(slot);
            self.tails.retired(slot);
        }
        let names: BTreeMap<u16, String> = self
            .kernel_links()
            .map(|(kernel, _, watched)| (kernel, watched.interface.name.clone()))
            .collect();
        let filter = self.config.filter.as_ref();
        let wanted = |flow: &FlowSample, extra: Option<&Extra>| {
            let name = names.get(&flow.key.link);
            filter.zip(name).is_none_or(|(filter, name)| filter.flow(flow, extra, name))
        };
        let bins = &mut self.bins;
        let tell = |programs: &Programs, gone: &[_]| match bins {
            Some(bins) => bins.retire(programs, gone),
            None => Ok(()),
        };
        self.tables.retire_idle_telling(&mut self.programs, &reading.flows, before, wanted, tell)
    }

    /// All counts so far. `running`: programs continue counting, and idle flows are retired.
    pub(super) fn sample(&mut self, running: bool) -> Result<Sample> {
        self.clock = WallClock::sample();
        self.programs.keep_clock()?;
        let now = monotonic_ns();
        let LatestReadings { owners, devices } = self.devices.as_ref().map(Reader::known).unwrap_or_default();
        // Before the programs' counters: programs then have counted at least the frames that both count.
        self.read_interfaces();
        let mut reading = self.read(now, running, &owners)?;
        let Links { samples: mut links, places, counters } = self.links()?;
        let events_dropped = counters.iter().map(|counters| counters.events_dropped).sum();
        let traffic = match &self.bins {
            Some(bins) => Some(bins.metrics(&self.programs, &reading, &counters, now, None)?),
            None => None,
        };
        let place = |kernel: u16| places.get(&kernel).copied().unwrap_or(0);
        self.in_unix_time(&mut reading.flows, place);
        let unhandled = unhandled(&links, &reading.flows);
        if let Some(filter) = &self.config.filter {
            exclude(filter, &mut links, &mut reading);
        }
        let loss = self.losses.metrics(&reading.flows, &self.programs, &self.pairs, &self.clock);
        let tuples = self.tables.tuples();
        let retired_tuples: Vec<RetiredTuple> =
            tuples.tuples().iter().map(|t| RetiredTuple { link: place(t.link), ..*t }).collect();
        let retired_unattributed = tuples.unattributed();
        let retired = tuples.marking().map(|(link, marked)| (place(link), marked));
        let marking = marking::by_link(&links, &reading.flows, &reading.extra, retired);
        let sample = Sample {
            time_ns: self.clock.unix_ns(now),
            steady_ns: Some(now),
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
            interface_drops: self.interface_drops(&unhandled),
            owners,
            devices,
            nccl: self.nccl.as_ref().map(RasReader::known),
            metrics: Metrics {
                marking,
                traffic: traffic.map(Arc::new),
                ecn: Some(self.ecn.metrics(
                    |slot| self.pairs.reverse(slot),
                    self.kernel_links().map(|(link, ..)| link),
                    events_dropped == 0,
                )),
                pairs: Some(self.pairs.pairs()),
                setups: Some(self.pairs.setups()),
                loss: self.config.precise_clock.then_some(loss),
                latency: self.config.precise_clock.then(|| self.pairs.latency(&self.programs)),
                ..Metrics::default()
            },
            ..Sample::default()
        };
        Ok(self.with_times(sample))
    }

    /// Adds when requests had long tails, and when something was missed.
    fn with_times(&mut self, mut sample: Sample) -> Sample {
        if let Some(latency) = &mut sample.metrics.latency {
            if self.tails.is_due(sample.time_ns) && !self.tails.begin(self.clock.unix_ns(self.start_ns)) {
                self.tails.take(latency, sample.time_ns);
            }
            self.tails.fill(latency, sample.time_ns);
        }
        self.missed.take(&sample);
        sample.missed = self.missed.clone();
        self.grown.take(&sample);
        sample.grown = self.grown.clone();
        sample
    }

    /// The counters of each link.
    fn links(&self) -> Result<Links> {
        let mut all = Links { samples: Vec::new(), places: BTreeMap::new(), counters: Vec::new() };
        for (kernel, direction, watched) in self.kernel_links() {
            let counters = link_counters(&self.programs, u32::from(kernel))?;
            let mut link = LinkSample {
                name: watched.interface.name.clone(),
                direction: Some(direction),
                mtu: Some(watched.interface.mtu),
                speed_mbps: watched.interface.speed_mbps.map(u64::from),
                ..LinkSample::default()
            };
            fill_link(&mut link, &counters, self.tables.retired(kernel));
            let retired = self.tables.filtered(kernel);
            skip_filtered(&mut link, retired.packets, retired.bytes);
            all.places.insert(kernel, u16::try_from(all.samples.len()).unwrap_or(u16::MAX));
            all.samples.push(link);
            all.counters.push(counters);
        }
        Ok(all)
    }

    /// Converts flows to link numbers of the sample and to Unix time.
    fn in_unix_time(&self, flows: &mut [FlowSample], place: impl Fn(u16) -> u16) {
        for flow in flows {
            flow.key.link = place(flow.key.link);
            flow.stats.first_ns = self.clock.unix_ns(flow.stats.first_ns);
            flow.stats.last_ns = self.clock.unix_ns(flow.stats.last_ns);
            if flow.stats.seldom.last_ce_ns != 0 {
                flow.stats.seldom.last_ce_ns = self.clock.unix_ns(flow.stats.seldom.last_ce_ns);
            }
        }
    }

    /// Pairs flows from a reading and from the RDMA devices.
    fn find_pairs(&mut self, reading: &Reading, owners: &Owners) -> Result<()> {
        let directions: BTreeMap<u16, Direction> =
            self.kernel_links().map(|(link, direction, _)| (link, direction)).collect();
        self.pairs.reading(&mut self.programs, reading, |flow| {
            let connected = flow.stats.transport != TRANSPORT_UD;
            owners.of(&flow.key, directions.get(&flow.key.link).copied(), connected)?.peer_qp
        })
    }
}

/// The links of a sample.
struct Links {
    samples: Vec<LinkSample>,
    /// Position in `samples` by the kernel's number.
    places: BTreeMap<u16, u16>,
    /// The kernel's counters, in the order of `samples`.
    counters: Vec<LinkCounters>,
}

/// Moves the flows that `filter` excludes from `reading` to the skipped packets of their links.
fn exclude(filter: &Filter, links: &mut [LinkSample], reading: &mut Reading) {
    let Reading { flows, extra, .. } = reading;
    flows.retain(|flow| {
        let Some(link) = links.get_mut(usize::from(flow.key.link)) else { return true };
        let shown = filter.flow(flow, extra.get(&flow.slot), &link.name);
        if !shown {
            skip_filtered(link, flow.stats.packets, flow.stats.bytes);
        }
        shown
    });
}

fn skip_filtered(link: &mut LinkSample, packets: u64, bytes: u64) {
    let filtered = &mut link.skipped[SkipReason::Filtered as usize];
    filtered.packets += packets;
    filtered.bytes += bytes;
}

/// Ingress frames of protocols that the network stack may not handle, by name of the interface: the kernel counts
/// such frames as dropped after programs saw them.
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
