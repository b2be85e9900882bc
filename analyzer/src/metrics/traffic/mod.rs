//! The traffic in time and by hosts: bins, flowlets, who sends to whom, messages, lengths of frames.
//!
//! ```text
//! packet ─ bins ──── bursts (per link), series for the rhythm
//!        ├ hosts ─── matrix, senders in a bin (per receiving host)
//!        ├ messages  kinds and lengths, frames by length
//!        └ flowlets steps (see `steps`)
//! ```
//!
//! Live, the kernel programs keep a record of each flow and bin, and [`from_kernel`] makes the same of these.
//!
//! Memory: 32 KiB per link for the first [`MAX_LINKS`] of them, 250 KiB at most while it is open whether packets of it
//! are duplicates, 8 MiB for flowlets, 80 bytes per flow and about 150 per pair of hosts ([`hosts::MAX_PAIRS`]).
//! Nothing is allocated per packet.

pub mod bins;
mod degree;
pub mod flowlets;
pub mod from_kernel;
pub mod hosts;
pub mod series;
pub mod windows;

use rocescope_common::abi::Counter;
use rocescope_common::account::flowlet::Flowlet;
use rocescope_common::account::message::{
    ByOperation, COUNTED_OPERATIONS, FrameSizes, MessageCounts, MessagePacket, OpenMessage, frame_bucket,
};
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::opcode::{Op, Operation};

use super::duplicates::Decided;
use super::packet::{CE, Packet, PacketExtras};
use super::timeline::LinkPoints;
use bins::{Binner, Bursts, CLASS_CNP, DoubtfulPacket};
use flowlets::{FlowletState, Flowlets, PsnTime, Record};
use hosts::{BinPackets, NO_PAIR, Pair, Pairs, Target};

use crate::util::definition::definitions;
use crate::util::time::NS_PER_S;

/// Links whose bins are kept; those beyond have no bursts.
pub const MAX_LINKS: usize = 1024;
/// Length of a bin, unless the user says otherwise: what buffers of switches absorb lasts about as long.
pub const BIN_NS: u64 = 1_000_000;
/// The shortest and the longest bin that may be chosen.
pub const BIN_RANGE_NS: std::ops::RangeInclusive<u64> = 100_000..=NS_PER_S;

/// A number times a factor, rounded down; 0 when that is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is out of range becomes the nearest number in it"
)]
pub fn times(number: u64, factor: f64) -> u64 {
    (number as f64 * factor) as u64
}

/// Class of a packet in a bin.
#[inline(always)]
fn class(packet: &Packet, op: Op) -> usize {
    let ecn = packet.data_ecn();
    match (Flowlet::is_data(op), op.has(Op::CNP)) {
        (true, _) => usize::from(ecn),
        (false, true) => CLASS_CNP,
        // Of an opcode that is not known, a mark is no mark on data.
        (false, false) => usize::from(ecn != 0),
    }
}

/// State of one link.
#[derive(Clone, Debug, Default)]
struct Link {
    bins: Binner,
    frame_sizes: FrameSizes,
}

/// State of one flow.
#[derive(Clone, Copy, Debug)]
struct Slot {
    pair: u32,
    /// Destination queue pair, and [`Slot::IN_PROGRESS`].
    qp: u32,
    flowlet: Flowlet,
    message: OpenMessage,
    messages: [u32; COUNTED_OPERATIONS],
    request: PsnTime,
    answer: PsnTime,
}

impl Slot {
    /// Counts at its pair of hosts what has begun and ended with a packet of data.
    #[inline(always)]
    fn progress(&mut self, pairs: &mut Pairs, op: Op) {
        let in_progress = !op.has(Op::ENDS);
        if self.is_in_progress() != in_progress {
            self.qp ^= Self::IN_PROGRESS;
            pairs.in_progress(self.pair, in_progress);
        }
    }

    /// Notes a packet that asks for an answer, or is one.
    #[inline(always)]
    fn dialogue(&mut self, pairs: &mut Pairs, packet: &Packet, op: Op) {
        let at = PsnTime::of(packet.psn, packet.time_ns);
        if Flowlet::is_data(op) {
            if packet.ack_req() || op.has(Op::READ_REQUEST) {
                self.request = at;
            }
            let is_new = !packet.outcome.duplicate_psn;
            if is_new && op.has(Op::READ_REQUEST) {
                pairs.read_requested(self.pair, packet.time_ns);
            } else if is_new && op.has(Op::RESPONSE | Op::ENDS) {
                pairs.answered(self.pair);
            }
        }
        if op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
            self.answer = at;
        }
    }

    const EMPTY: Self = Self {
        pair: NO_PAIR,
        qp: 0,
        flowlet: Flowlet::NONE,
        message: OpenMessage::NONE,
        messages: [0; COUNTED_OPERATIONS],
        request: PsnTime::NOTHING,
        answer: PsnTime::NOTHING,
    };

    /// The latest packet of data does not end its message. Numbers of queue pairs have 24 bits.
    const IN_PROGRESS: u32 = 1 << 31;

    const fn is_in_progress(&self) -> bool {
        self.qp & Self::IN_PROGRESS != 0
    }

    const fn dest_qp(&self) -> u32 {
        self.qp & !Self::IN_PROGRESS
    }

    fn record(&self) -> Record {
        Record::of(&self.flowlet, self.pair, self.dest_qp())
    }

    /// Its present state; `None` of a slot without a flow.
    fn standing(&self) -> Option<FlowletState> {
        (self.pair != NO_PAIR).then(|| FlowletState {
            flowlet: self.record(),
            message_open: self.message.is_open(),
            messages: Some(self.messages),
            request: self.request,
            answer: self.answer,
        })
    }
}

// Of very many flows each has one.
const _: () = assert!(size_of::<Slot>() == 80);

/// Collects all of this.
#[derive(Clone, Debug)]
pub struct Collector {
    bin_ns: u64,
    links: Vec<Link>,
    slots: Vec<Slot>,
    pairs: Pairs,
    kinds: ByOperation,
    ended: flowlets::EndedFlowlets,
}

impl Collector {
    /// Nothing seen yet; bins of this length.
    pub fn new(bin_ns: u64) -> Self {
        Self {
            bin_ns: bin_ns.max(1),
            links: Vec::new(),
            slots: Vec::new(),
            pairs: Pairs::default(),
            kinds: [MessageCounts::NONE; COUNTED_OPERATIONS],
            ended: flowlets::EndedFlowlets::default(),
        }
    }

    /// The slot has a new flow, whose first packet has this time to live.
    #[cold]
    fn open(&mut self, slot: u32, key: &FlowKey, hops: u8) {
        let link = usize::from(key.link);
        if link >= self.links.len() && link < MAX_LINKS {
            self.links.resize_with(link + 1, Link::default);
        }
        let at = slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::EMPTY);
        }
        self.slots[at] = Slot { pair: self.pairs.number(key, hops), qp: key.dest_qp, ..Slot::EMPTY };
    }

    /// Takes in one RoCE packet.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, extras: Option<&PacketExtras>) {
        let Packet { link, slot, time_ns, outcome, wire_len, .. } = *packet;
        let op = Op::of(packet.opcode);
        let data = Flowlet::is_data(op);
        let ce = data && packet.data_ecn() == CE;
        let class = class(packet, op);
        let mut bin = 0;
        if let Some(PacketExtras { key, .. }) = extras
            && outcome.events & Event::NEW_FLOW != 0
        {
            self.open(slot, key, packet.hops);
        }
        if let Some(link) = self.links.get_mut(usize::from(link)) {
            bin = link.bins.packet(time_ns, self.bin_ns, wire_len, class);
            if let Some(count) = link.frame_sizes.get_mut(frame_bucket(wire_len)) {
                *count += 1;
            }
        }
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        let gap = outcome.events & Event::GAP != 0;
        let one = |it: bool| u64::from(it);
        let bytes = u64::from(wire_len);
        self.pairs.packets(
            slot.pair,
            BinPackets {
                bin,
                first_ns: time_ns,
                last_ns: time_ns,
                packets: 1,
                bytes,
                data_packets: one(data),
                data_bytes: one(data) * bytes,
                ce: one(ce),
                gaps: one(gap),
            },
        );
        let part = MessagePacket { opcode: packet.opcode, payload: packet.payload, dma_len: packet.dma_len };
        if slot.message.packet(&mut self.kinds, part, op, outcome.duplicate_psn, gap)
            && let Some(messages) = slot.messages.get_mut(Operation::of(packet.opcode) as usize)
        {
            *messages = messages.saturating_add(1);
        }
        if data {
            slot.progress(&mut self.pairs, op);
            if let Some(before) = slot.flowlet.observe(time_ns, wire_len, outcome.duplicate_psn) {
                self.ended.push(Record::of(&before, slot.pair, slot.dest_qp()));
            }
        }
        // Most packets are neither, which takes one test.
        if packet.ack_req() | op.any(Op::READ_REQUEST | Op::RESPONSE | Op::ACKNOWLEDGE) {
            slot.dialogue(&mut self.pairs, packet, op);
        }
    }

    /// Takes in packets in the middle of a message, alike but for PSN and time, which does not go back, and not marked.
    pub fn train(&mut self, train: &[Packet]) {
        if self.at_once(train).is_none() {
            self.one_by_one(train);
        }
    }

    #[inline(never)]
    fn one_by_one(&mut self, train: &[Packet]) {
        for packet in train {
            self.packet(packet, None);
        }
    }

    /// The same where they are in one bin of time and in one of data; otherwise nothing.
    #[inline]
    fn at_once(&mut self, train: &[Packet]) -> Option<()> {
        let (first, last) = (train.first()?, train.last()?);
        let Packet { opcode, payload, dma_len, wire_len, .. } = *first;
        let op = Op::of(opcode);
        let slot = self.slots.get_mut(first.slot as usize)?;
        let link = self.links.get_mut(usize::from(first.link))?;
        let packets = u32::try_from(train.len()).ok()?;
        let (count, bytes) = (u64::from(packets), u64::from(packets) * u64::from(wire_len));
        let seen = BinPackets {
            bin: link.bins.newest((first.time_ns, last.time_ns))?,
            first_ns: first.time_ns,
            last_ns: last.time_ns,
            packets: count,
            bytes,
            data_packets: count,
            data_bytes: bytes,
            ce: 0,
            gaps: 0,
        };
        if !self.pairs.more(slot.pair, seen, u64::from(wire_len)) {
            return None;
        }
        link.bins.more(count, bytes, class(first, op));
        if let Some(frames) = link.frame_sizes.get_mut(frame_bucket(wire_len)) {
            *frames += count;
        }
        slot.message.middle(&mut self.kinds, MessagePacket { opcode, payload, dma_len }, op, packets);
        let flowlet = Flowlet { start_ns: first.time_ns, end_ns: last.time_ns, fresh_bytes: bytes };
        if let Some(before) = slot.flowlet.merge(&flowlet) {
            self.ended.push(Record::of(&before, slot.pair, slot.dest_qp()));
        }
        if op.has(Op::RESPONSE) {
            slot.answer = PsnTime::of(last.psn, last.time_ns);
        }
        Some(())
    }

    /// A packet that was counted passed again, marked CE by now.
    #[cold]
    pub fn marked(&mut self, packet: &Packet) {
        if let Some(slot) = self.slots.get(packet.slot as usize) {
            self.pairs.marked(slot.pair);
        }
        if let Some(link) = self.links.get_mut(usize::from(packet.link)) {
            link.bins.marked(packet.time_ns / self.bin_ns);
        }
    }

    /// The latest packet may be the duplicate of an earlier one: whether it is shows later
    /// ([`take_out`](Self::take_out)).
    #[cold]
    pub fn doubt(&mut self, packet: &Packet) {
        let Packet { link, slot, time_ns, wire_len, .. } = *packet;
        if let Some(link) = self.links.get_mut(usize::from(link)) {
            let class = class(packet, Op::of(packet.opcode));
            link.bins.doubt(DoubtfulPacket { slot, bin: time_ns / self.bin_ns, wire_len, class });
        }
    }

    /// Takes duplicates in a flow out of what its hosts sent each other, and out of the bins and frames of its link.
    #[cold]
    pub fn take_out(&mut self, decided: &Decided) {
        if let Some(slot) = self.slots.get(decided.slot as usize) {
            self.pairs.take_out(slot.pair, &decided.duplicates);
        }
        let Some(link) = self.links.get_mut(usize::from(decided.link)) else { return };
        for wire_len in link.bins.take_out(decided.slot) {
            if let Some(count) = link.frame_sizes.get_mut(frame_bucket(wire_len)) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            if slot.flowlet.is_some() {
                self.ended.push(slot.record());
            }
            if slot.is_in_progress() {
                self.pairs.in_progress(slot.pair, false);
            }
            *slot = Slot::EMPTY;
        }
    }

    /// The traffic of each link over the whole run.
    pub(super) fn points(&self) -> impl Iterator<Item = LinkPoints> {
        self.links.iter().map(|link| link.bins.points(self.bin_ns))
    }

    /// Bursts, hosts and flowlets of all packets so far.
    pub fn metrics(&self) -> Traffic {
        self.traffic(self.slots.iter().filter_map(Slot::standing).collect())
    }

    /// The same at the end, in the collector's own memory.
    pub fn finish(mut self) -> Traffic {
        // Collected in place.
        const { assert!(size_of::<FlowletState>() <= size_of::<Slot>()) };
        let slots = std::mem::take(&mut self.slots);
        self.traffic(slots.into_iter().filter_map(|slot| slot.standing()).collect())
    }

    fn traffic(&self, standing: Vec<FlowletState>) -> Traffic {
        Traffic {
            bin_ns: self.bin_ns,
            end_ns: None,
            links: (self.links.iter())
                .map(|link| LinkTraffic {
                    bursts: link.bins.bursts(self.bin_ns),
                    frame_sizes: Some(link.frame_sizes),
                    last_ns: None,
                    lost: Counter::default(),
                })
                .collect(),
            pairs: self.pairs.pairs().to_vec(),
            targets: self.pairs.targets(),
            left_out: self.pairs.left_out(),
            kinds: Some(self.kinds),
            flowlets: Flowlets { ended: self.ended.clone(), standing },
        }
    }
}

/// Traffic of one link.
#[derive(Clone, Debug)]
pub struct LinkTraffic {
    /// Its traffic in bins; `None` when there was none.
    pub bursts: Option<Bursts>,
    /// Frames by length; `None` where those of some flows are left out.
    pub frame_sizes: Option<FrameSizes>,
    /// Its last frame of any kind, Unix time; `None` where only flows have times.
    pub last_ns: Option<u64>,
    /// Packets that are in its flows, but found no room on their way to these figures.
    pub lost: Counter,
}

impl Default for LinkTraffic {
    /// A link without RoCE.
    fn default() -> Self {
        Self {
            bursts: None,
            frame_sizes: Some(FrameSizes::default()),
            last_ns: None,
            lost: Counter::default(),
        }
    }
}

/// The figures at a moment.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Length of a bin.
    pub bin_ns: u64,
    /// Time of the sample, by the clock of all times here; `None` in a replay, which ends with its frames.
    pub end_ns: Option<u64>,
    /// By index of the link; links beyond [`MAX_LINKS`] are missing.
    pub links: Vec<LinkTraffic>,
    /// Pairs of sender and receiver, by link.
    pub pairs: Vec<Pair>,
    /// Receivers of data, by link.
    pub targets: Vec<Target>,
    /// Packets between pairs of hosts for which there was no room.
    pub left_out: u64,
    /// Messages by [`rocescope_common::wire::opcode::Operation`], over all links; `None` where those of some flows are
    /// left out.
    pub kinds: Option<ByOperation>,
    /// Flowlets of all flows.
    pub flowlets: Flowlets,
}

definitions! {
    MOST_LOST: f64 = 0.001,
        "Maximum share of all packets that may be missing from bins, for steps to be known",
        "Steps are recognised by the volume that each moves, and stragglers by single flowlets";
}

impl Traffic {
    /// Says of each link when its last frame of any kind passed; 0 for never.
    pub fn frames_until(&mut self, last_ns: &[u64]) {
        let links = last_ns.len().min(MAX_LINKS).max(self.links.len());
        self.links.resize_with(links, LinkTraffic::default);
        for (link, last_ns) in self.links.iter_mut().zip(last_ns) {
            link.last_ns = (*last_ns > 0).then_some(*last_ns);
        }
    }

    /// Packets that found no room on their way to these figures; `None` where nothing can get lost: in a replay.
    pub fn lost_packets(&self) -> Option<u64> {
        self.end_ns.map(|_| self.links.iter().map(|link| link.lost.packets).sum())
    }

    /// True if too many packets are missing for conclusions from single flowlets, packets in no flow included.
    pub fn too_much_lost(&self, without_flow: u64) -> bool {
        let lost = self.lost_packets().unwrap_or(0) + without_flow;
        let reported: u64 = self.pairs.iter().map(|pair| pair.packets).sum();
        lost > 0 && lost as f64 > MOST_LOST * (lost + reported) as f64
    }
}

#[cfg(test)]
mod tests;
