//! Time bins of flows: from the ring buffer, and from the slots of idle flows.
//!
//! The kernel reports a bin with the first packet of the flow in a later bin. The ring buffer therefore has all bins
//! of flows that keep sending; the last bin of the others is read from their slot once it is over, and is not counted
//! again if it is reported later.

use anyhow::{Context as _, Result};
use aya::maps::{MapData, RingBuf};
use rocescope_common::abi::{BinRecord, Counter, LinkCounters};
use rocescope_common::account::FlowKey;
use rocescope_common::account::bin::{Bins as Cut, LONGEST_NS};
use rocescope_common::account::message::{ByOperation, COUNTED_OPERATIONS, MessageCounts};

use super::load::Programs;
use super::object::Data;
use super::slots::OpenBin;
use super::tables::Reading;
use crate::filter::Filter;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::from_kernel::{Collector, KernelFlowState, LinkExtras};
use crate::sample::{FlowSample, from_kernel};

/// Time allowed to programs between reading the clock and updating their flow's record. Packets that take longer, as
/// when a virtual CPU is descheduled, are counted as late for their bin.
const MARGIN_NS: u64 = 5_000_000;
/// Maximum number of records that wait for a reading of the flow table: 12 MiB.
const MOST_WAITING: usize = 1 << 18;
/// Maximum number of records taken from the ring buffer at once: slightly more than its capacity.
const BUDGET: usize = 16_384;

/// The bins recorded by the programs, from which bins of `bin_ns` can be summed. `shift_ns` converts the programs'
/// clock to Unix time.
pub fn cut(bin_ns: u64, shift_ns: i64) -> Cut {
    let length_ns = if bin_ns.is_multiple_of(LONGEST_NS) { LONGEST_NS } else { bin_ns.clamp(1, LONGEST_NS) };
    let phase = i128::from(shift_ns).rem_euclid(i128::from(length_ns));
    Cut { length_ns, phase_ns: u64::try_from(phase).unwrap_or(0) }
}

/// Receives bins from the kernel.
pub struct Bins {
    ring: RingBuf<MapData>,
    /// Records from the ring buffer whose flows may not be known yet.
    raw: Vec<BinRecord>,
    collector: Collector,
    cut: Cut,
    /// Kernel number and name of the sample's links, in its order.
    links: Vec<(u16, String)>,
    filter: Option<Filter>,
    /// Packets of records that belong to no flow.
    stray: Counter,
}

impl std::fmt::Debug for Bins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bins").field("cut", &self.cut).finish_non_exhaustive()
    }
}

impl Bins {
    /// Takes the ring buffer. `None` if the programs report no bins, or if it was already taken.
    ///
    /// `cut` is the bin setting of the loaded programs; `links` are those of the sample, by kernel number and name;
    /// `filter` excludes flows.
    #[must_use]
    pub fn take(
        programs: &mut Programs,
        cut: Cut,
        bin_ns: u64,
        shift_ns: i64,
        links: Vec<(u16, String)>,
        filter: Option<Filter>,
    ) -> Option<Self> {
        let ring = programs.take_bins()?;
        let collector = Collector::new(bin_ns, shift_ns);
        Some(Self { ring, raw: Vec::new(), collector, cut, links, filter, stray: Counter::default() })
    }

    /// Without what was received so far, and with an empty ring buffer. `bin_ns` and `shift_ns` as for [`Self::take`].
    #[cfg(feature = "test-clock")]
    #[must_use]
    pub fn start_anew(mut self, bin_ns: u64, shift_ns: i64) -> Self {
        while self.ring.next().is_some() {}
        let collector = Collector::new(bin_ns, shift_ns);
        Self { raw: Vec::new(), collector, stray: Counter::default(), ..self }
    }

    /// Empties the ring buffer. True if the number of waiting records requires reading the flow table.
    pub fn drain(&mut self) -> bool {
        for _ in 0..BUDGET {
            let Some(item) = self.ring.next() else { break };
            if item.len() == size_of::<BinRecord>() {
                // SAFETY: the item has the length of a record, which is integers without padding.
                self.raw.push(unsafe { item.as_ptr().cast::<BinRecord>().read_unaligned() });
            }
        }
        self.raw.len() >= MOST_WAITING
    }

    /// Processes the reported bins, and those of `reading` that are over at `until_ns` in the programs' clock; `None`
    /// for all of them, after counting has stopped.
    ///
    /// `until_ns` must be before the last call of [`Self::drain`], and the reading after it: a bin that is
    /// reported after it was read from its flow's slot must be processed in that order too, or it would count
    /// twice.
    ///
    /// # Errors
    /// If the flow table cannot be read.
    pub fn settle(&mut self, programs: &Programs, reading: &Reading, until_ns: Option<u64>) -> Result<()> {
        let mut new: Vec<&FlowSample> =
            reading.flows.iter().filter(|flow| !self.collector.knows(flow.slot)).collect();
        new.sort_unstable_by_key(|flow| (flow.stats.first_ns, flow.slot));
        for flow in new {
            self.name(reading, flow);
        }
        self.resolve(programs)?;
        let until_ns = until_ns.map_or(u64::MAX, |until| until.saturating_sub(MARGIN_NS));
        for (flow, OpenBin { bin, .. }) in reading.flows.iter().zip(&reading.open_bins) {
            if bin.start_ns.saturating_add(self.cut.length_ns) <= until_ns {
                self.collector.at_hand(flow.slot, bin);
            }
        }
        self.collector.fold(until_ns);
        Ok(())
    }

    /// Processes the unreported bins of retiring flows, which no program can find any more.
    ///
    /// # Errors
    /// As for [`Self::settle`].
    pub fn retire(&mut self, programs: &Programs, gone: &[(u32, OpenBin)]) -> Result<()> {
        self.drain();
        self.resolve(programs)?;
        for (slot, OpenBin { bin, .. }) in gone {
            self.collector.at_hand(*slot, bin);
            self.collector.retired(*slot);
        }
        Ok(())
    }

    /// Assigns the records of the ring buffer to flows.
    fn resolve(&mut self, programs: &Programs) -> Result<()> {
        let raw = std::mem::take(&mut self.raw);
        let mut unknown: Vec<u32> =
            raw.iter().map(|record| record.slot).filter(|slot| !self.collector.knows(*slot)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let mut new = Vec::new();
        for slot in unknown {
            let place = programs.slots.read_retired(slot).context("cannot read the flow table")?;
            new.extend(place.map(|place| FlowSample {
                slot,
                key: place.key,
                stats: from_kernel(&place.stats),
            }));
        }
        new.sort_unstable_by_key(|flow| (flow.stats.first_ns, flow.slot));
        for flow in &new {
            self.name(&Reading::default(), flow);
        }
        for BinRecord { slot, bin, .. } in &raw {
            if !self.collector.tell(*slot, bin) {
                self.stray.packets += u64::from(bin.packets);
                self.stray.bytes += u64::from(bin.bytes);
            }
        }
        // The buffer is kept for later records unless it is exceptionally large.
        if raw.capacity() <= BUDGET {
            self.raw = raw;
            self.raw.clear();
        }
        Ok(())
    }

    fn name(&mut self, reading: &Reading, flow: &FlowSample) {
        let Some(at) = self.links.iter().position(|(kernel, _)| *kernel == flow.key.link) else { return };
        let (link, name) = (u16::try_from(at).unwrap_or(u16::MAX), self.links.get(at).map(|link| &*link.1));
        let shown = self
            .filter
            .as_ref()
            .is_none_or(|filter| filter.flow(flow, reading.extra.get(&flow.slot), name.unwrap_or("")));
        self.collector.name(flow.slot, &FlowKey { link, ..flow.key }, shown);
    }

    /// The metrics, with counters of the sample's links in their order. `last_ns` is the time of the last frame of
    /// any kind, if known.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn metrics(
        &self,
        programs: &Programs,
        reading: &Reading,
        counters: &[LinkCounters],
        now_ns: u64,
        last_ns: Option<u64>,
    ) -> Result<Traffic> {
        let all = self.filter.is_none();
        let mut extras: Vec<LinkExtras> = (counters.iter())
            .map(|link| LinkExtras {
                frame_sizes: all.then_some(link.frame_sizes),
                lost: link.bins_lost,
                last_ns,
            })
            .collect();
        if let Some(link) = extras.first_mut() {
            link.lost.packets += self.stray.packets;
            link.lost.bytes += self.stray.bytes;
        }
        let states: Vec<KernelFlowState> = (reading.flows.iter().zip(&reading.open_bins))
            .map(|(flow, OpenBin { bin, exchange })| KernelFlowState {
                slot: flow.slot,
                message_open: bin.message_is_open(),
                request: exchange.request.get(now_ns),
                answer: exchange.response.get(now_ns),
            })
            .collect();
        let kinds = if all { Some(kinds(programs)?) } else { None };
        Ok(self.collector.metrics(now_ns, &extras, kinds, &states))
    }
}

/// Message counts, summed over CPUs.
fn kinds(programs: &Programs) -> Result<ByOperation> {
    const WORDS: usize = size_of::<MessageCounts>() / 8;
    let mut sum = [MessageCounts::NONE; COUNTED_OPERATIONS];
    let values = programs.cpu_state.get(&0, 0).context("cannot read the message counters")?;
    for Data(words) in values.iter() {
        for (sum, words) in sum.iter_mut().zip(words.chunks_exact(WORDS)) {
            let [packets, payload_bytes, sizes @ .., size_unknown] = words else { continue };
            let mut cpu =
                MessageCounts { packets: *packets, payload_bytes: *payload_bytes, ..MessageCounts::NONE };
            cpu.size_unknown = *size_unknown;
            for (count, size) in cpu.sizes.iter_mut().zip(sizes) {
                *count = *size;
            }
            sum.add(&cpu);
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_make_up_bins_of_the_wall_clock() {
        for (bin_ns, length_ns) in
            [(100_000, 100_000), (1_000_000, 1_000_000), (7_000_000, 1_000_000), (1_000_000_000, 1_000_000)]
        {
            for shift_ns in [0, 1, 1_763_000_000_123_456_789, -5_000_001] {
                let cut = cut(bin_ns, shift_ns);
                assert_eq!(cut.length_ns, length_ns);
                let start = cut.start(77_777_777_777);
                assert_eq!((i128::from(start) + i128::from(shift_ns)).rem_euclid(i128::from(length_ns)), 0);
                assert!((0..length_ns).contains(&(77_777_777_777 - start)));
            }
        }
    }
}
