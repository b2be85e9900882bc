//! The kernel's tables as user space reads them, and the retirement of idle flows.
//!
//! User space never writes to a counter of the programs. A flow retires in this order: its key leaves the hash and
//! its slot is marked, so that no program finds the slot any more, neither by the hash nor by a hint; a grace period
//! passes, after which no program holds it either; only then its last figures are read, folded into the sums of its
//! link, and the slot is cleared and free again. Not one packet is lost or counted twice.

use anyhow::{Context as _, Result};
use rocescope_common::abi::maps::ExtraKind;
use rocescope_common::abi::{Counter, ExtraKey, ExtraValue, LinkCounters};
use rocescope_common::account::{FlowKey, Mixed};
use rustix::mm::{Advice, madvise};

use super::bpf;
use super::load::Programs;
use super::object::Data;
use super::slots::{OpenBin, Place};
use crate::sample::{Extra, FlowSample, Flows, LinkSample, Retired, SpareList, Stats, from_kernel};
use crate::source::flows::retire::RetiredTuples;
use crate::util::map::Map;

/// This number of consecutive unused slots marks the end of the used ones: programs on several CPUs may insert flows
/// out of order, but fewer than this.
const UNUSED: u32 = 512;

/// The tables read so far, with retired flows folded in.
#[derive(Debug, Default)]
pub struct Tables {
    /// One above the highest slot seen in use.
    high: u32,
    /// Number of flows at the last reading.
    flows: usize,
    /// Sums of retired flows, by kernel link index.
    retired: Map<u16, Retired>,
    /// Retired flows that the filter excludes, by kernel link index.
    filtered: Map<u16, Counter>,
    tuples: RetiredTuples,
    spare: SpareList,
}

/// The kernel's figures at one time, with times in the kernel's clock.
#[derive(Debug, Default)]
pub struct Reading {
    /// Flows in use, by slot.
    pub flows: Flows,
    /// Additional values of some flows, by slot.
    pub extra: Map<u32, Extra>,
    /// Requests that expect a response but were not measured, by slot, modulo 2^32.
    pub untimed: Vec<(u32, u32)>,
    /// The unreported bin of each flow, in the order of the flows; empty without bins.
    pub(super) open_bins: Vec<OpenBin>,
}

impl Tables {
    /// Reads all flows in use.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn read(&mut self, programs: &Programs) -> Result<Reading> {
        let mut reading = Reading { flows: self.spare.list(self.flows), ..Reading::default() };
        if reading.flows.capacity() < self.flows {
            reading.flows.reserve_exact(self.flows);
            large_pages(&mut reading.flows);
        }
        // Slots are handed out from 0 upwards.
        let mut unused = 0;
        for slot in 0..programs.max_flows {
            if let Some(Place { key, stats, open_bin }) =
                programs.slots.read(slot).context("cannot read the flow table")?
            {
                unused = 0;
                self.high = self.high.max(slot + 1);
                reading.flows.push(FlowSample { slot, key, stats: from_kernel(&stats) });
                let untimed = programs.slots.untimed(slot);
                if untimed != 0 {
                    reading.untimed.push((slot, untimed));
                }
                if programs.timing {
                    reading.open_bins.push(open_bin);
                }
            } else {
                unused += 1;
                if unused >= UNUSED && slot >= self.high {
                    break;
                }
            }
        }
        self.flows = reading.flows.len();
        let has_others = |stats: &Stats| {
            stats.seldom.other_port_packets > 0
                || stats.rare.other_opcode_packets > 0
                || stats.mixed & Mixed::DSCP != 0
        };
        if reading.flows.iter().any(|flow| has_others(&flow.stats)) {
            reading.extra = extra(programs)?;
        }
        Ok(reading)
    }

    /// Flows without a packet since `before` (in the kernel's clock).
    pub fn idle(flows: &[FlowSample], before: u64) -> impl Iterator<Item = &FlowSample> {
        flows.iter().filter(move |flow| flow.stats.last_ns < before)
    }

    /// Retires flows without a packet since `before` (in the kernel's clock). Returns their number.
    ///
    /// # Errors
    /// If a map cannot be read or written.
    pub fn retire_idle(
        &mut self,
        programs: &mut Programs,
        flows: &[FlowSample],
        before: u64,
    ) -> Result<usize> {
        self.retire_idle_telling(programs, flows, before, |_, _| true, |_, _| Ok(()))
    }

    /// The same; flows that are not `wanted` are added to [`Self::filtered`] only. `tell` gets the unreported
    /// bins of the flows, before their slots are reused.
    ///
    /// # Errors
    /// As for [`Self::retire_idle`], and the errors of `tell`.
    pub fn retire_idle_telling(
        &mut self,
        programs: &mut Programs,
        flows: &[FlowSample],
        before: u64,
        wanted: impl Fn(&FlowSample, Option<&Extra>) -> bool,
        tell: impl FnOnce(&Programs, &[(u32, OpenBin)]) -> Result<()>,
    ) -> Result<usize> {
        let idle: Vec<(u32, FlowKey)> = Self::idle(flows, before).map(|flow| (flow.slot, flow.key)).collect();
        if idle.is_empty() {
            return Ok(0);
        }
        for (slot, key) in &idle {
            programs.flows.remove(&Data(*key)).context("cannot retire an idle flow")?;
            programs.slots.retire(*slot).context("cannot retire an idle flow")?;
        }
        bpf::quiesce();
        let extra = extra(programs)?;
        let mut gone = Vec::with_capacity(idle.len());
        for (slot, _) in &idle {
            let place = programs.slots.read_retired(*slot).context("cannot read a retired flow")?;
            gone.push((*slot, place.context("a retiring flow is missing from the table")?));
        }
        tell(programs, &gone.iter().map(|(slot, place)| (*slot, place.open_bin)).collect::<Vec<_>>())?;
        for (slot, Place { key, stats, .. }) in gone {
            let (flow, extra) = (FlowSample { slot, key, stats: from_kernel(&stats) }, extra.get(&slot));
            if wanted(&flow, extra) {
                self.tuples.fold(self.retired.entry(key.link).or_default(), &key, &flow.stats, extra);
            } else {
                let sum = self.filtered.entry(key.link).or_default();
                sum.packets += stats.packets;
                sum.bytes += stats.bytes;
            }
            release(programs, slot, extra)?;
        }
        Ok(idle.len())
    }

    /// Discards all flows and all sums of retired flows.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn reset(&mut self, programs: &mut Programs, flows: &[FlowSample]) -> Result<()> {
        self.retire_idle(programs, flows, u64::MAX)?;
        *self = Self { high: self.high, ..Self::default() };
        Ok(())
    }

    /// Sums of the retired flows of the link with this kernel index.
    pub fn retired(&self, link: u16) -> Retired {
        self.retired.get(&link).copied().unwrap_or_default()
    }

    /// Packets and bytes of retired flows excluded by the filter, for the link with this kernel index.
    pub fn filtered(&self, link: u16) -> Counter {
        self.filtered.get(&link).copied().unwrap_or_default()
    }

    /// Bytes by 5-tuple of retired flows; links are kernel indices.
    pub fn tuples(&self) -> &RetiredTuples {
        &self.tuples
    }
}

/// Clears the slot of a retired flow and hands it back to the programs.
fn release(programs: &mut Programs, slot: u32, extra: Option<&Extra>) -> Result<()> {
    programs.slots.clear(slot).context("cannot clear a retired flow's slot")?;
    for key in extra.into_iter().flat_map(|extra| extra_keys(slot, extra)) {
        programs.extra.remove(&Data(key)).context("cannot remove a retired flow")?;
    }
    programs.free.push(slot, 0).context("cannot release a retired flow's slot")
}

/// Requests large pages for a list that is about to be filled: page faults for every small page of a fresh list cost
/// as much as filling it.
fn large_pages(list: &mut Vec<FlowSample>) {
    const LARGE: usize = 2 << 20;
    let room = list.spare_capacity_mut();
    let first = room.as_mut_ptr().cast::<u8>();
    let skip = first.align_offset(LARGE);
    let len = size_of_val(room).saturating_sub(skip) / LARGE * LARGE;
    if len > 0 {
        // SAFETY: the range lies within the list's own memory, and the advice changes none of its bytes. A kernel
        // that rejects it changes nothing.
        let _ = unsafe { madvise(first.wrapping_add(skip).cast(), len, Advice::LinuxHugepage) };
    }
}

fn extra_keys(slot: u32, extra: &Extra) -> impl Iterator<Item = ExtraKey> {
    let ports = extra.ports.iter().map(|(port, _)| (ExtraKind::PORT, *port));
    let opcodes = extra.opcodes.iter().map(|(code, _)| (ExtraKind::OPCODE, u16::from(*code)));
    let dscps = extra.dscps.iter().map(|(value, _)| (ExtraKind::DSCP, *value));
    ports.chain(opcodes).chain(dscps).map(move |(kind, value)| ExtraKey { slot, kind, value })
}

fn extra(programs: &Programs) -> Result<Map<u32, Extra>> {
    let entries: Vec<(Data<ExtraKey>, Data<ExtraValue>)> =
        bpf::hash_entries(programs.extra_fd()).context("cannot read the overflow table")?;
    let mut all: Map<u32, Extra> = Map::default();
    for (Data(key), Data(value)) in entries {
        let extra = all.entry(key.slot).or_default();
        if key.kind == ExtraKind::PORT {
            extra.ports.push((key.value, Counter { packets: value.packets, bytes: value.bytes }));
        } else if key.kind == ExtraKind::DSCP {
            extra.dscps.push((key.value, Counter { packets: value.packets, bytes: value.bytes }));
        } else if let Ok(opcode) = u8::try_from(key.value) {
            extra.opcodes.push((opcode, value.packets));
        }
    }
    // A hash is unordered; a report is ordered.
    for extra in all.values_mut() {
        extra.ports.sort_unstable_by_key(|(port, _)| *port);
        extra.opcodes.sort_unstable_by_key(|(code, _)| *code);
        extra.dscps.sort_unstable_by_key(|(value, _)| *value);
    }
    Ok(all)
}

/// Counters of one link other than those of flows, summed over CPUs.
///
/// # Errors
/// If the map cannot be read.
pub fn link_counters(programs: &Programs, link: u32) -> Result<LinkCounters> {
    let mut sum = LinkCounters::default();
    let values = programs.links.get(&link, 0).context("cannot read a link's counters")?;
    for Data(cpu) in values.iter() {
        for (sum, cpu) in sum.skipped.iter_mut().zip(cpu.skipped) {
            sum.packets += cpu.packets;
            sum.bytes += cpu.bytes;
        }
        sum.flow_table_full.packets += cpu.flow_table_full.packets;
        sum.flow_table_full.bytes += cpu.flow_table_full.bytes;
        sum.contended.packets += cpu.contended.packets;
        sum.contended.bytes += cpu.contended.bytes;
        sum.extra_full += cpu.extra_full;
        sum.events_dropped += cpu.events_dropped;
        for (sum, cpu) in sum.frame_sizes.iter_mut().zip(cpu.frame_sizes) {
            *sum += cpu;
        }
        sum.bins_lost.packets += cpu.bins_lost.packets;
        sum.bins_lost.bytes += cpu.bins_lost.bytes;
    }
    Ok(sum)
}

/// Copies counters and retired sums of a kernel link to the link of a sample.
pub fn fill_link(link: &mut LinkSample, counters: &LinkCounters, retired: Retired) {
    link.skipped = counters.skipped();
    link.flow_table_full = counters.flow_table_full;
    link.contended = counters.contended;
    link.extra_full = counters.extra_full;
    link.retired = retired;
}
