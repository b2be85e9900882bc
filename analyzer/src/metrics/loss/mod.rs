//! Loss, reordering and retransmission, each retransmission with its cause.
//!
//! Every flow keeps 64 bytes about its latest packets. Only a flow with a PSN gap or a packet behind the expected PSN
//! gets a state machine (`sequence`) of at most 12 KiB; each pair of hosts remembers its last 32 NAKs. A conclusion
//! waits for the packets that decide it: a skipped PSN is lost once it is retransmitted, and reordered when its
//! original packet arrives, which the IPv4 identification shows where the sender counts it up.
//!
//! | file | holds |
//! |---|---|
//! | `sequence` | the states of a sequence, and what follows from each packet; `decide` has what is observed when it goes back |
//! | `state` | those states, and the run of packets behind the expected PSN |
//! | `cause` | why a sender goes back: the table "observation → cause" |
//! | `gaps` | PSN gaps, open and filled |
//! | `episode` | episodes of loss in time |
//! | [`signal_intervals`] | times in which a flow showed a signal, for the episodes of findings |
//! | [`in_message`] | flows that stand within a message, and silences there |
//! | [`reads`] | requests with a PSN that belongs to a READ |
//! | `result` | the figures of a flow, as `sample` holds them |
//! | `answers` | ACKs and NAKs of two hosts, and where they were captured |
//! | `acks` | the latest PSN acknowledged, and timeouts whose packets had arrived |
//! | `arrival` | what is known of a packet before it is judged: its PSN, times, NAKs and requests around it |
//! | `slot` | what is kept of a flow: its latest packets, and a sequence once one is needed |
//! | `parallel` | PSNs of a flow that is spread over links: a packet at another tap is no gap |
//! | `retired` | sums of flows that are gone |
//! | `ending` | the results of all flows, so far and at the end |
//! | `train` | packets in the middle of a message at once |
//! | `latest` | the latest packets of a sequence, and their order of sending |
//! | `from_kernel` | the same from events of the kernel programs instead of packets |

mod answers;
mod arrival;
mod cause;
mod ending;
mod episode;
pub mod from_kernel;
mod gaps;
pub mod in_message;
mod latest;
mod parallel;
pub mod reads;
mod result;
mod retired;
mod sequence;
pub mod signal_intervals;
mod slot;
mod state;
#[cfg(test)]
mod tests;
mod train;

use crate::util::definition::Definition;
use crate::util::index::Index;
use crate::util::map::{Map, Set};
use crate::util::packed_option::PackedOption;
use rocescope_common::account::psn::{Span, WINDOW};
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::bth::psn_distance;
use rocescope_common::wire::frame::{Addr, UNKNOWN};
use rocescope_common::wire::opcode::{Op, TRANSPORT_UC};

use serde::Serialize;

use super::packet::{CE, Packet, PacketExtras};
use super::pairing::Reverse;
use super::timeline::LinkPoints;
use answers::{Answered, Answers};
pub(super) use arrival::DUPLICATE_NS;
use arrival::{Arrival, Nak, Request};
use cause::SEVERAL_ACKS;
pub use cause::{PSN_WINDOW, TIMEOUT_PAUSE_NS};
pub use episode::Episodes;
use in_message::{LinkSilence, LinkSilences};
use parallel::{Member, Parallel};
pub use result::{GivenUp, Metrics, NakTally, Naks, OTHER_CODES, Retransmission, is_in_vain};
pub use retired::RetiredLoss;
use sequence::Sequence;
use signal_intervals::{Counts, Recorder, Signal, SignalIntervals};
use slot::Slot;
use state::Missing;

/// Default reordering window: a packet that arrives within it fills its gap as reordered, unless its identification or
/// a NAK says otherwise. Longer than the largest shared packet buffers take to drain into one port (64 MB at 100 Gb/s),
/// shorter than transport timers.
pub const REORDER_WINDOW_NS: u64 = 5_000_000;

/// The numbers that figures of loss rest on.
pub(super) const DEFINITIONS: [&[Definition]; 6] = [
    cause::DEFINITIONS,
    arrival::DEFINITIONS,
    latest::DEFINITIONS,
    state::DEFINITIONS,
    sequence::DEFINITIONS[0],
    sequence::DEFINITIONS[1],
];
/// Pairs of hosts followed; NAKs of more are not known.
const MAX_PAIRS: usize = 65_536;

/// Loss in one flow with a gap or a packet behind the expected PSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowLoss {
    /// Its requests; `None` when they arrived once and in order.
    pub requests: Option<Metrics>,
    /// Its READ responses and atomic acknowledgements.
    pub responses: Option<Metrics>,
    /// Packets that passed before its requests were followed; `None` where they were followed from the first packet on,
    /// or had arrived in order until then.
    pub unfollowed: Option<Unfollowed>,
    /// The latest connection that was given up before another one took its number.
    pub given_up: Option<GivenUp>,
}

/// Packets of a flow before loss detection began, or whose events were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unfollowed {
    /// Time at which loss detection began, or went on. Unit: Unix ns.
    pub until_ns: u64,
    /// Part of the flow's `packets`. Unit: packets.
    pub packets: u64,
    /// Part of `psn.missing`: lost or out of order. Unit: PSNs.
    pub missing: u64,
    /// Part of `psn.repeats`. Unit: packets.
    pub repeats: u64,
}

/// Requests for acknowledgement, and acknowledgements, of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckState {
    /// First request with the AckReq bit, Unix nanoseconds.
    pub asked_ns: PackedOption,
    /// PSN of the latest ACK, NAK or response in this flow.
    pub answer_psn: Option<u32>,
    /// That was a NAK, which acknowledges the PSN before.
    pub refused: bool,
    /// It carried ACKs, but their PSNs are not known.
    pub answered_something: bool,
    /// Sizes of the requests in this flow. Live: not known, 0.
    pub sizes: Sizes,
}

/// Sizes of a flow's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Largest payload, of READs that of their responses, in bytes.
    pub largest: u16,
    /// Largest payload before the first of this size, in bytes.
    pub before: u16,
    /// PSN of the first of this size.
    pub largest_psn: u32,
}

/// All flows, by slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// Those with a gap or a packet behind the expected PSN.
    pub flows: Map<u32, FlowLoss>,
    /// Those that carry NAKs.
    pub naks: Map<u32, Naks>,
    /// Requests for acknowledgement and ACKs; the index is the slot.
    pub ack_states: Vec<AckState>,
    /// The flows whose requests were followed without interruption, where that is not every flow; responses are not
    /// followed then.
    pub known: Option<Set<u32>>,
    /// Requests with a PSN that belongs to a READ.
    pub overlaps: reads::BySlot,
    /// Flows within a message. Live: not known, `None`.
    pub in_messages: Option<in_message::BySlot>,
    /// Times of loss, retransmission and congestion signals.
    pub intervals: SignalIntervals,
    /// Flows that were retired.
    pub retired: RetiredLoss,
}

impl Loss {
    /// Loss in the flow of a slot; the default, all in order, where there is none.
    #[must_use]
    pub fn flow(&self, slot: u32) -> FlowLoss {
        self.flows.get(&slot).copied().unwrap_or_default()
    }

    /// NAKs in the flow of a slot.
    #[must_use]
    pub fn naks(&self, slot: u32) -> Naks {
        self.naks.get(&slot).copied().unwrap_or_default()
    }

    /// Adds duplicates of requests and of responses, by slot, that the collector did not get.
    pub(super) fn mirrored(&mut self, duplicates: impl Iterator<Item = (u32, u64, u64)>) {
        for (slot, requests, responses) in duplicates {
            let flow = self.flows.entry(slot).or_default();
            for (sequence, duplicates) in [(&mut flow.requests, requests), (&mut flow.responses, responses)] {
                if duplicates > 0 {
                    sequence.get_or_insert_default().mirrored += duplicates;
                }
            }
        }
    }

    /// True, for requests and for responses, if those of the flow in a slot were followed.
    #[must_use]
    pub fn is_known(&self, slot: u32) -> (bool, bool) {
        let Some(known) = &self.known else { return (true, true) };
        // The kernel follows no responses; a recording may have their losses.
        (known.contains(&slot), self.flow(slot).responses.is_some())
    }

    /// Requests for acknowledgement, and ACKs, of the flow in a slot.
    #[must_use]
    pub fn ack_state(&self, slot: u32) -> AckState {
        self.ack_states.get(slot as usize).copied().unwrap_or_default()
    }
}

impl Sizes {
    fn grow(&mut self, payload: u32, psn: u32) {
        if let Ok(payload) = u16::try_from(payload)
            && payload > self.largest
        {
            *self = Self { largest: payload, before: self.largest, largest_psn: psn };
        }
    }
}

/// Collects loss, packet by packet.
#[derive(Debug)]
pub struct Collector {
    window_ns: u64,
    slots: Vec<Slot>,
    /// Places in `answers`.
    pairs: Index,
    answers: Vec<Answers>,
    answered: Answered,
    naks: Map<u32, Naks>,
    overlaps: reads::BySlot,
    intervals: Recorder,
    silences: LinkSilences,
    parallel: Parallel,
    retired: RetiredLoss,
}

impl Collector {
    /// A collector without packets. A packet that arrives later than `window_ns` is not reordered, unless its IPv4
    /// identification proves it. The timeline has bins of `bin_ns`.
    #[must_use]
    pub fn new(window_ns: u64, bin_ns: u64) -> Self {
        Self {
            window_ns,
            slots: Vec::new(),
            pairs: Index::default(),
            answers: Vec::new(),
            answered: Answered::default(),
            naks: Map::default(),
            overlaps: Map::default(),
            intervals: Recorder::new(bin_ns),
            silences: LinkSilences::default(),
            parallel: Parallel::default(),
            retired: RetiredLoss::default(),
        }
    }

    /// Takes in one packet; `reverse` is what is known of the other direction at it.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, extras: Option<&PacketExtras>, reverse: Reverse) {
        if let Some(extras) = extras
            && packet.outcome.events & Event::NEW_FLOW != 0
        {
            self.open(packet.slot, &extras.key);
            self.intervals.on_link(packet.slot, packet.link);
        }
        if self.intervals.is_due(packet.time_ns) {
            self.intervals.mark(packet.time_ns, self.slots.iter().map(|slot| slot.counts));
        }
        let op = Op::of(packet.opcode);
        if op.any(Op::REQUEST | Op::RESPONSE) {
            self.sequence(packet, op, reverse);
        } else {
            self.unsequenced(packet, op);
        }
        if packet.data_ecn() == CE {
            self.marked(packet);
        }
        if op.has(Op::AETH) {
            self.answer(packet, op, reverse);
        }
    }

    /// A packet without a place in a sequence: an ACK or a CNP.
    #[inline(always)]
    fn unsequenced(&mut self, packet: &Packet, op: Op) {
        if let Some(slot) = self.slots.get_mut(packet.slot as usize) {
            slot.counts.add(packet);
        }
        if op.has(Op::CNP) {
            let counts = self.counts(packet.slot);
            self.intervals.note(packet.slot, Signal::Cnp, (packet.time_ns, packet.time_ns), 1, counts);
        }
    }

    /// The next packet of a link ends a silence of all RoCE traffic on it.
    pub fn silence(&mut self, link: u16, silence: LinkSilence) {
        self.silences.ended(link, silence);
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            self.retired.add(&slot.loss());
            *slot = Slot::empty();
        }
        self.naks.remove(&number);
        self.overlaps.remove(&number);
        self.intervals.retired(number);
    }

    /// A packet is marked CE, or was counted already and passed again, marked by now.
    pub fn marked(&mut self, packet: &Packet) {
        let counts = self.counts(packet.slot);
        self.intervals.note(packet.slot, Signal::CeMarked, (packet.time_ns, packet.time_ns), 1, counts);
    }

    /// The counts of the flow of a slot; live, nothing is counted here.
    fn counts(&self, slot: u32) -> Option<Counts> {
        let counts = self.slots.get(slot as usize)?.counts;
        (counts != Counts::default()).then_some(counts)
    }

    /// Discards the state of a flow that was created by duplicates of its packets.
    pub fn forget(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            (slot.request_loss, slot.response_loss) = (None, None);
        }
        self.intervals.opened(number);
    }

    /// Traffic, which is given, and signals over the whole run, by link.
    pub(super) fn timeline(&self, traffic: impl Iterator<Item = LinkPoints>) -> Vec<LinkPoints> {
        self.intervals.timeline(traffic)
    }

    #[cold]
    fn open(&mut self, slot: u32, key: &FlowKey) {
        let pair = self.pair(key.family, key.src, key.dst);
        let reverse = self.pair(key.family, key.dst, key.src);
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Slot::empty);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Slot { pair, reverse, dest_qp: key.dest_qp, ..Slot::empty() };
        }
        self.naks.remove(&slot);
        self.overlaps.remove(&slot);
        self.intervals.opened(slot);
    }

    /// Counts a NAK in the flow of a slot.
    #[cold]
    fn note_nak(&mut self, slot: u32, rnr: bool, code: u32, time_ns: u64) {
        self.naks.entry(slot).or_default().add(rnr, code, time_ns);
        let signal = match (rnr, u8::try_from(code).unwrap_or(u8::MAX)) {
            (true, _) => Signal::RnrNak,
            (false, 0) => Signal::SequenceNak,
            (false, code) => Signal::OtherNak(code.min(5)),
        };
        let counts = self.counts(slot);
        self.intervals.note(slot, signal, (time_ns, time_ns), 1, counts);
    }

    fn pair(&mut self, family: u8, src: Addr, dst: Addr) -> u32 {
        let hosts = (family, src, dst);
        if let Some(pair) = self.pairs.get(&hosts, |pair| Some(self.answers.get(pair as usize)?.hosts)) {
            return pair;
        }
        if self.answers.len() >= MAX_PAIRS {
            return UNKNOWN;
        }
        let Ok(pair) = u32::try_from(self.answers.len()) else { return UNKNOWN };
        self.answers.push(Answers::of(hosts));
        let answers = &self.answers;
        self.pairs.insert(&hosts, pair, |pair| Some(answers.get(pair as usize)?.hosts));
        pair
    }

    #[inline(always)]
    fn answer(&mut self, packet: &Packet, op: Op, reverse: Reverse) {
        let Some(slot) = self.slots.get_mut(packet.slot as usize) else { return };
        let first = slot.answer_psn == UNKNOWN;
        slot.answer_psn = packet.psn;
        let nak = packet.outcome.events & (Event::NAK | Event::RNR) != 0;
        let pair = slot.pair;
        let code = packet.aeth >> 24 & 0x1F;
        let rnr = packet.outcome.events & Event::RNR != 0;
        slot.refused = nak;
        slot.acks = slot.acks.saturating_add(u8::from(!nak));
        if nak {
            self.note_nak(packet.slot, rnr, code, packet.time_ns);
        }
        if (first || nak || !op.has(Op::ACKNOWLEDGE))
            && let Some(answers) = self.answers.get_mut(pair as usize)
        {
            if answers.seen_on(packet.link) {
                self.answered.note(packet.link, answers);
            }
            if op.has(Op::RESPONSE) {
                answers.responded_ns = packet.time_ns;
            }
            // Other NAKs end the connection, without retransmission.
            if nak && (rnr || code == 0) {
                let nak = Nak { slot: packet.slot, psn: packet.psn, time_ns: packet.time_ns, rnr };
                answers.nak(packet.link, nak);
            }
        }
        if !nak
            && let Some(asks) = self.slots.get_mut(reverse.slot as usize)
            && let Some(sequence) = &mut asks.request_loss
        {
            sequence.acknowledged(packet.psn);
        }
    }

    #[inline(always)]
    fn sequence(&mut self, packet: &Packet, op: Op, reverse: Reverse) {
        let repeated_read = op.has(Op::READ_REQUEST) && self.is_repeated_read(packet, reverse);
        let Some(slot) = self.slots.get_mut(packet.slot as usize) else { return };
        slot.counts.add(packet);
        let (psn, now) = (packet.psn, packet.time_ns);
        let id = packet.id;
        let response = op.has(Op::RESPONSE);
        let smooth = is_smooth(packet);
        let (latest, loss) = if response {
            let responses = &mut *slot.responses;
            responses.open = !op.has(Op::ENDS);
            if !packet.outcome.duplicate_psn {
                responses.within_message = responses.open;
            }
            (&mut responses.latest, &mut slot.response_loss)
        } else {
            if !packet.outcome.duplicate_psn {
                slot.request = packet.opcode;
            }
            if packet.ack_req() && slot.asked_ns == 0 {
                slot.asked_ns = now;
            }
            if op.has(Op::READ_REQUEST) {
                slot.read = reads::Read::of(psn, packet.dma_len, packet.mtu);
                slot.sizes.grow(reads::largest_response(packet.dma_len, packet.mtu), psn);
            } else if slot.read.is_some() && slot.read.overlaps(psn) {
                let overlap = self.overlaps.entry(packet.slot).or_default();
                slot.read.note(overlap, psn, packet.opcode, now);
            }
            if packet.payload > slot.sizes.largest.into() {
                slot.sizes.grow(packet.payload, psn);
            }
            (&mut slot.requests, &mut slot.request_loss)
        };
        let parallel = &mut self.parallel;
        let mut advances = |sequence: &mut Box<Sequence>| {
            let advances = sequence.advance(psn, id);
            if advances && sequence.parallel != UNKNOWN {
                parallel.pass(sequence.parallel, psn, now);
            }
            advances
        };
        if smooth && !repeated_read && loss.as_mut().is_none_or(&mut advances) {
            let (before_ns, before) = (latest.time_ns, (!response).then_some(latest.psn()));
            latest.passed(psn, id, now, true);
            if now.wrapping_sub(before_ns) > slot.pace_ns && !op.has(Op::STARTS) {
                self.paused(packet.slot, (before_ns, now), before, reverse);
            }
        } else {
            self.anomaly(packet, op, reverse, repeated_read);
        }
    }

    /// A gap, a packet behind the expected PSN, or the packet that ends a run.
    #[cold]
    #[inline(never)]
    fn anomaly(&mut self, packet: &Packet, op: Op, reverse: Reverse, repeated_read: bool) {
        let Self { slots, answers, answered, window_ns, intervals, parallel, .. } = self;
        let answers_of = slots.get(reverse.slot as usize);
        let acked = answers_of.and_then(|slot| slot.ack_state().acknowledged());
        let several = answers_of.is_some_and(|slot| slot.acks >= SEVERAL_ACKS);
        let responded_ns = answers_of.map(|slot| slot.responses.latest.time_ns);
        let response = op.has(Op::RESPONSE);
        let asks = answers_of.filter(|_| response && reverse.paired).map(Slot::repeated_reads);
        let Some(slot) = slots.get_mut(packet.slot as usize) else { return };
        let smooth = is_smooth(packet);
        let is_partial = slot.request_loss.as_ref().is_some_and(|sequence| sequence.is_partial(psns(packet)));
        let (naks, reverse_captured) = match answers.get(slot.reverse as usize) {
            // Responses are not acknowledged: the requester retransmits the READ.
            Some(answers) if (!smooth || repeated_read) && !response => {
                let from = Some(reverse.slot).filter(|_| reverse.paired && responded_ns.is_some());
                (answers.on(packet.link, is_partial, from), !answers.links.is_empty())
            }
            _ => (Vec::new(), false),
        };
        let own = answers.get(slot.pair as usize);
        // Of an unknown peer, the latest response of any.
        let of_hosts = answers.get(slot.reverse as usize).filter(|_| op.has(Op::READ_REQUEST));
        let responded_ns = responded_ns.or_else(|| of_hosts?.responded_ns());
        let others_answer = !reverse_captured && !response && answered.has_source_of(packet.link, own);
        let (latest, loss) = if response {
            (&mut slot.responses.latest, &mut slot.response_loss)
        } else {
            (&mut slot.requests, &mut slot.request_loss)
        };
        let reliable = packet.opcode >> 5 != TRANSPORT_UC;
        let sequence = loss.get_or_insert_with(|| Box::new(Sequence::new(reliable, latest.psn(), latest.id)));
        let name = (slot.pair, slot.dest_qp);
        let member = (is_partial && !response).then_some(Member::of(name, packet));
        let elsewhere = sequence.note_parallel(parallel, member, (packet.psn, packet.time_ns, *window_ns));
        let arrival = Arrival {
            psn: packet.psn,
            time_ns: packet.time_ns,
            id: packet.id,
            numbered: latest.numbered(),
            differs: latest.differs(),
            last_psn: latest.psn(),
            last_id: latest.id,
            last_ns: latest.time_ns,
            high_id: latest.high_id,
            first: packet.first,
            expected: packet.expected,
            span: span_of(packet, op),
            read: op.has(Op::READ_REQUEST),
            request: Request { opcode: packet.opcode, bytes: packet.dma_len },
            ecn: packet.tos & 3,
            naks: &naks,
            reverse_captured,
            others_answer,
            answers_slot: reverse.slot,
            all_acked: acked.filter(|_| several),
            responded_ns,
            asked: asks.unwrap_or_default(),
            window_ns: *window_ns,
            elsewhere,
        };
        follow(sequence, &arrival, packet, acked, repeated_read);
        sequence.record(intervals, packet.slot, packet.time_ns, Some(slot.counts));
        latest.passed(arrival.psn, packet.id, arrival.time_ns, smooth && !repeated_read);
    }
}

/// Takes a packet that is not simply the next one into its sequence.
fn follow(sequence: &mut Sequence, arrival: &Arrival<'_>, packet: &Packet, acked: Option<u32>, reread: bool) {
    let events = packet.outcome.events;
    if events & Event::RESTART != 0 {
        sequence.restart(arrival, acked);
    } else if packet.outcome.duplicate_psn || reread {
        sequence.behind(arrival);
    } else if packet.outcome.missing != 0 {
        let starts = Op::of(packet.opcode).has(Op::STARTS);
        sequence.gap(arrival, packet.outcome.missing, Missing::of(events, starts));
    } else {
        sequence.in_order(arrival);
    }
    sequence.acknowledged_before(acked);
}

/// PSNs of its sequence before a packet.
const fn psns(packet: &Packet) -> u32 {
    psn_distance(packet.first, packet.expected)
}

/// PSNs that a packet takes: of a READ request one for each response, where that is known.
fn span_of(packet: &Packet, op: Op) -> u32 {
    let span = op.has(Op::READ_REQUEST).then(|| Span::of_read(packet.dma_len, packet.mtu.into()));
    span.filter(|span| !span.loose).map_or(1, |span| span.upper)
}

/// True if the packet is at the expected PSN.
#[inline]
const fn is_smooth(packet: &Packet) -> bool {
    let outcome = &packet.outcome;
    // One branch for all three.
    outcome.missing | outcome.duplicate_psn as u32 | (outcome.events & Event::RESTART) as u32 == 0
}
