//! Pairing of the two directions of flows in a live run, and selection of flows for latency measurement.
//!
//! Based on the information in user space: the first packet of a flow and connection management (through the ring
//! buffer, some milliseconds later), readings of the counters (at each interval, whatever the ring buffer dropped),
//! and the queue pairs that RDMA devices report. The rules are those of [`crate::metrics::pairing`], except pairing
//! by PSNs, which needs every packet.
//!
//! There are entries for [`rocescope_common::abi::TIMED_FLOWS`] request flows. While there is room each pair gets one
//! as soon as it is known; afterwards the busiest pairs have them.

use std::io;

use anyhow::{Context as _, Result};
use rocescope_common::abi::{EventRecord, Timing};
use rocescope_common::account::flow::TRANSPORT_NONE;
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::opcode::Op;

use super::load::Programs;
use super::tables::Reading;
use crate::host::kernel::clock::WallClock;
use crate::metrics::latency::{BySlot, Figure};
use crate::metrics::pairing::peers::Peers;
use crate::metrics::pairing::{self, NONE, Pairing, Place};
use crate::metrics::setups::Setups;
use crate::sample::{Extra, FlowSample, Stats};
use crate::util::map::Map;

/// Maximum number of new flows paired between two readings of the counters, since each takes a system call; the rest
/// waits for the next reading.
const EAGER: usize = 256;
/// Maximum number of entries reassigned at one reading, since each reassignment loses the requests in flight.
const EXCHANGES: usize = 64;
/// Factor in packets by which a flow must be busier to take another's entry.
const BUSIER: u64 = 2;
/// Minimum packets between two readings for a flow to take an entry from another.
const BUSY: u64 = 256;

/// State of the flow in a slot.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug, Default)]
struct SlotState {
    key: FlowKey,
    /// The source port of its connection is known.
    ported: bool,
    /// It sends requests that expect responses.
    asks: bool,
    /// Restarts at the last reading.
    restarts: u64,
    packets: u64,
    /// Packets between the last two readings.
    recent: u64,
    /// Its requests are being retransmitted.
    repeating: bool,
    /// Its pair is known, but there was no room for it.
    waiting: bool,
    /// The slot's count of requests without measured latency, at its last reading.
    untimed: u32,
    /// Those among them whose response flow was unknown.
    unpaired: u64,
    /// Those among them for which there was no room.
    untracked: u64,
}

/// Pairs and latency measurements of a live run. Links are the kernel's numbers.
#[derive(Debug, Default)]
pub struct Pairs {
    pairing: Pairing,
    known: Vec<Option<SlotState>>,
    slots: Map<FlowKey, u32>,
    /// Number of flows paired since the last reading.
    eager: usize,
}

impl Pairs {
    /// Sets the interface of a link.
    pub fn link(&mut self, link: u16, interface: u32) {
        self.pairing.link(link, Place { tap: 0, interface });
    }

    /// Connections from connection management.
    pub fn peers(&self) -> &Peers {
        self.pairing.peers()
    }

    /// Connection set-ups, from connection management.
    pub fn setups(&self) -> Setups {
        self.pairing.setups()
    }

    /// The slot of a flow, if known.
    pub fn slot_of(&self, key: &FlowKey) -> Option<u32> {
        self.slots.get(key).copied()
    }

    /// The flow in a slot, if known.
    pub fn key_of(&self, slot: u32) -> Option<&FlowKey> {
        self.at(slot).map(|known| &known.key)
    }

    /// The slot of the reverse direction: the response flow, or the flow that this one acknowledges.
    pub fn reverse(&self, slot: u32) -> Option<u32> {
        Some(self.pairing.reverse(slot).slot).filter(|slot| *slot != NONE)
    }

    /// Applies an event, and starts to measure the flow if the event reveals its pair.
    ///
    /// # Errors
    /// If the kernel's tables cannot be accessed.
    pub fn event(&mut self, programs: &mut Programs, record: &EventRecord, clock: &WallClock) -> Result<()> {
        let key = &record.key;
        if record.events & Event::GSI != 0 {
            let bytes = record.headers.get(..usize::from(record.headers_len)).unwrap_or_default();
            let bytes = (bytes, usize::from(record.bth_offset));
            let now_ns = clock.unix_ns(record.time_ns);
            self.pairing.management(key.family, (key.src, key.dst), bytes, now_ns);
        }
        let op = Op::of(record.opcode);
        let port = op.any(Op::REQUEST | Op::RESPONSE | Op::ACKNOWLEDGE).then_some(record.src_port);
        if record.events & Event::NEW_FLOW != 0 && self.eager < EAGER {
            self.eager += 1;
            // It may have been retired meanwhile.
            let Some(slot) = programs.slot_of(key) else { return Ok(()) };
            if self.at(slot).is_some() {
                return Ok(());
            }
            self.add(slot, key, port, op.has(Op::RELIABLE));
            self.time(programs, slot)?;
        } else if record.events & Event::RESTART != 0
            && op.has(Op::REQUEST)
            && let Some(slot) = self.slot_of(key)
        {
            self.pairing.flow(slot, key, port, false, true);
            if let Some(known) = self.at_mut(slot) {
                known.ported = true;
                known.restarts += 1;
            }
            self.time(programs, slot)?;
        }
        Ok(())
    }

    /// Applies a reading of the counters, and the devices' information on the queue pair at the sending end of a flow
    /// on a link. Starts to measure the flows that are busy enough.
    ///
    /// # Errors
    /// If the kernel's tables cannot be accessed.
    pub fn reading(
        &mut self,
        programs: &mut Programs,
        reading: &Reading,
        device: impl Fn(&FlowSample) -> Option<u32>,
    ) -> Result<()> {
        self.eager = 0;
        for (slot, untimed) in &reading.untimed {
            self.account(*slot, *untimed);
        }
        for flow in &reading.flows {
            self.observe(flow, reading.extra.get(&flow.slot));
            if let Some(qp) = device(flow) {
                self.pairing.device(flow.slot, qp);
            }
        }
        // Those that were unknown before.
        for (slot, untimed) in &reading.untimed {
            self.account(*slot, *untimed);
        }
        self.choose(programs).context("cannot enable latency measurement")
    }

    /// Call before flows retire: ends their measurements before their slots are reused.
    ///
    /// # Errors
    /// If the kernel's tables cannot be accessed.
    pub fn retire(&mut self, programs: &mut Programs, slots: impl Iterator<Item = u32>) -> Result<()> {
        let mut gone = Vec::new();
        for slot in slots {
            let Some(known) = self.known.get_mut(slot as usize).and_then(Option::take) else { continue };
            self.slots.remove(&known.key);
            self.pairing.retired(slot);
            gone.push(slot);
        }
        let Programs { times, slots, .. } = programs;
        let ended: Vec<u32> = gone.iter().flat_map(|slot| times.of(*slot)).collect();
        times.release(slots, &ended).context("cannot end the latency measurement of an idle flow")?;
        for slot in gone {
            times.forget(slot);
        }
        Ok(())
    }

    /// Pairs of flows, by slot.
    pub fn pairs(&self) -> pairing::BySlot {
        self.pairing.pairs()
    }

    /// Latencies, by slot of the request flow.
    pub fn latency(&self, programs: &Programs) -> BySlot {
        let mut metrics: Map<u32, Figure> = Map::default();
        for slot in programs.times.slots() {
            if let Some(times) = programs.times.read(slot) {
                metrics.insert(slot, Figure::of(&times));
            }
        }
        for (slot, known) in (0u32..).zip(&self.known) {
            let Some(known) = known else { continue };
            let unpaired = known.unpaired + programs.times.unpaired(slot);
            if unpaired + known.untracked > 0 {
                let figure = metrics.entry(slot).or_default();
                (figure.unpaired, figure.untracked) = (unpaired, known.untracked);
            }
        }
        metrics.into_iter().collect()
    }

    fn at(&self, slot: u32) -> Option<&SlotState> {
        self.known.get(slot as usize)?.as_ref()
    }

    fn at_mut(&mut self, slot: u32) -> Option<&mut SlotState> {
        self.known.get_mut(slot as usize)?.as_mut()
    }

    fn add(&mut self, slot: u32, key: &FlowKey, port: Option<u16>, asks: bool) {
        let at = slot as usize;
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        if let Some(place) = self.known.get_mut(at) {
            *place = Some(SlotState { key: *key, ported: port.is_some(), asks, ..SlotState::default() });
        }
        self.slots.insert(*key, slot);
        self.pairing.flow(slot, key, port, true, false);
    }

    /// Attributes requests without measured latency, since the slot was last read, to their reasons.
    fn account(&mut self, slot: u32, untimed: u32) {
        let Some(known) = self.at_mut(slot) else { return };
        let more = u64::from(untimed.wrapping_sub(known.untimed) & !Timing::RETX_RUN);
        known.untimed = untimed;
        if known.waiting {
            known.untracked += more;
        } else {
            known.unpaired += more;
        }
    }

    /// Updates a flow's state from its counters.
    fn observe(&mut self, flow: &FlowSample, extra: Option<&Extra>) {
        let FlowSample { slot, key, stats } = flow;
        if self.at(*slot).is_none_or(|known| known.key != *key) {
            self.add(*slot, key, port_of(stats, extra), expects_response(stats));
        }
        let Some(known) = self.at_mut(*slot) else { return };
        known.recent = stats.packets.saturating_sub(known.packets);
        known.packets = stats.packets;
        known.repeating = stats.psn.repeats > 0;
        let restart = stats.psn.restarts > known.restarts;
        known.restarts = stats.psn.restarts;
        if known.recent == 0 || (known.ported && known.asks && !restart) {
            return;
        }
        known.asks = expects_response(stats);
        let mut port = port_of(stats, extra);
        if restart && stats.seldom.other_port_packets > 0 {
            // Only the event would have identified the new connection's port.
            port = None;
        }
        known.ported |= port.is_some();
        self.pairing.flow(*slot, key, port, false, restart);
    }

    /// Measures a flow and its response flow, if both are known and there is room.
    fn time(&mut self, programs: &mut Programs, slot: u32) -> Result<()> {
        let Some(other) = self.reverse(slot) else { return Ok(()) };
        let Programs { times, slots, .. } = programs;
        for (requests, answers) in [(slot, other), (other, slot)] {
            let asks = self.at(requests).is_some_and(|known| known.asks);
            if asks
                && times
                    .assign(slots, requests, Some(answers))
                    .context("cannot enable latency measurement for a flow")?
            {
                self.account(requests, slots.untimed(requests));
            }
        }
        Ok(())
    }

    /// Ends the measurement of dissolved pairs, and measures the busiest pairs.
    fn choose(&mut self, programs: &mut Programs) -> io::Result<()> {
        let Programs { times, slots, .. } = programs;
        let stale = |(requests, answers): &(u32, Option<u32>)| self.reverse(*requests) != *answers;
        let stale: Vec<u32> = times.all().filter(stale).map(|(requests, _)| requests).collect();
        times.release(slots, &stale)?;
        let mut wanted: Vec<(u64, u32, Option<u32>)> = Vec::new();
        for (slot, known) in (0u32..).zip(&self.known) {
            let Some(known) = known else { continue };
            let answers = self.reverse(slot);
            // Requests without a known response flow are of interest when they are retransmitted.
            if known.asks && !times.has(slot) && (answers.is_some() || known.repeating) {
                wanted.push((known.recent, slot, answers));
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        if wanted.len() > times.room() {
            let mut quiet: Vec<(u64, u32)> =
                times.all().map(|(slot, _)| (self.at(slot).map_or(0, |known| known.recent), slot)).collect();
            quiet.sort_unstable();
            let beyond = wanted.iter().skip(times.room());
            let changes = beyond.zip(&quiet).take(EXCHANGES);
            let worth = |new: u64, old: u64| new >= BUSY && new > old.saturating_mul(BUSIER);
            let ended: Vec<u32> =
                changes.take_while(|(new, old)| worth(new.0, old.0)).map(|(_, old)| old.1).collect();
            times.release(slots, &ended)?;
        }
        for (_, requests, answers) in wanted {
            let timed = times.room() > 0 && times.assign(slots, requests, answers)?;
            if let Some(known) = self.known.get_mut(requests as usize).and_then(Option::as_mut) {
                known.waiting = !timed && answers.is_some();
            }
        }
        Ok(())
    }
}

/// True if a flow's counters show requests that expect a response.
fn expects_response(stats: &Stats) -> bool {
    stats.transport != TRANSPORT_NONE
        && stats.opcodes.iter().any(|(low, _)| Op::of(stats.transport << 5 | low).has(Op::RELIABLE))
}

/// The source port of a flow's connection: that of its first packet, unless only CNPs used it, which may have another
/// port.
fn port_of(stats: &Stats, extra: Option<&Extra>) -> Option<u16> {
    let connected =
        |low: u8| Op::of(stats.transport << 5 | low).any(Op::REQUEST | Op::RESPONSE | Op::ACKNOWLEDGE);
    if stats.transport == TRANSPORT_NONE
        || stats.roce_version != 2
        || !stats.opcodes.iter().any(|(low, _)| connected(low))
    {
        return None;
    }
    let only_cnps = stats.seldom.other_port_packets > 0 && stats.first_port_packets() <= stats.cnp_packets;
    if !only_cnps {
        return Some(stats.src_port);
    }
    let busiest = extra?.ports.iter().max_by_key(|(_, count)| count.packets);
    busiest.map(|(port, _)| *port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::abi::Counter;

    fn stats(opcode: u8, packets: u64) -> Stats {
        let mut stats = Stats { packets, transport: opcode >> 5, src_port: 50_000, ..Stats::default() };
        stats.roce_version = 2;
        stats.opcodes = [(opcode & 31, packets)].into();
        stats
    }

    #[test]
    fn only_reliable_requests_ask() {
        assert!(expects_response(&stats(0x0A, 1)), "RC WRITE ONLY");
        assert!(!expects_response(&stats(0x11, 1)), "RC ACKNOWLEDGE");
        assert!(!expects_response(&stats(0x24, 1)), "UC SEND ONLY");
        assert!(!expects_response(&Stats { transport: TRANSPORT_NONE, ..Stats::default() }));
    }

    #[test]
    fn the_port_of_notifications_is_not_that_of_the_connection() {
        assert_eq!(port_of(&stats(0x0A, 3), None), Some(50_000));
        assert_eq!(port_of(&stats(0x64, 3), None), None, "datagrams");
        // A CNP came first, then data from another port.
        let mut mixed = Stats { packets: 5, cnp_packets: 2, ..stats(0x0A, 3) };
        mixed.seldom.other_port_packets = 3;
        let extra = Extra {
            ports: vec![(51_000, Counter { packets: 3, bytes: 300 })],
            opcodes: vec![],
            dscps: vec![],
        };
        assert_eq!(port_of(&mixed, Some(&extra)), Some(51_000));
        assert_eq!(port_of(&mixed, None), None);
    }
}
