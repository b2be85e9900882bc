//! Flows that stand within a message at their latest packet, and silences within messages.

use rocescope_common::wire::bth::psn_distance;
use rocescope_common::wire::opcode::Op;

pub use super::arrival::STALL_NS;
use super::signal_intervals::SignalIntervals;
use super::{Collector, PSN_WINDOW, Slot};
use crate::metrics::pairing::Reverse;
use crate::util::map::Map;

/// A flow that stands within a message, or whose sender has paused within one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMessage {
    /// Opcode of the request with the highest PSN, where its message is not complete: that is not its last packet, or
    /// the sender has gone back and not come to it again.
    pub request: Option<u8>,
    /// The READ response with the highest PSN is not the last of its message.
    pub response: bool,
    /// Longest normal gap between two packets of a message, nanoseconds: a longer silence is a stall.
    pub pace_ns: u64,
}

impl InMessage {
    /// True if a message is not complete.
    #[must_use]
    pub const fn is_within(&self) -> bool {
        self.request.is_some() || self.response
    }
}

/// A time as long as a stall in which no RoCE packet passed a link, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSilence {
    /// From the packet before to the packet behind it, Unix nanoseconds.
    pub roce_ns: (u64, u64),
    /// The latest time as long as a stall in which no frame of any kind was captured on the interface.
    pub any_ns: Option<(u64, u64)>,
}

/// The latest silence of each link.
#[derive(Debug, Default)]
pub(super) struct LinkSilences(Vec<Option<LinkSilence>>);

impl LinkSilences {
    /// A silence of a link has ended.
    pub(super) fn ended(&mut self, link: u16, silence: LinkSilence) {
        let at = usize::from(link);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(silence);
    }

    fn latest(&self, link: u16) -> Option<LinkSilence> {
        *self.0.get(usize::from(link))?
    }
}

/// True if a silence is as long as another within it, but for less than a stall.
#[must_use]
pub fn is_but_for(silence: (u64, u64), other: (u64, u64)) -> bool {
    let length = |(from_ns, to_ns): (u64, u64)| to_ns.saturating_sub(from_ns);
    silence.0 <= other.0 && other.1 <= silence.1 && length(silence) - length(other) < STALL_NS
}

/// Gaps within messages, by slot of the flow.
pub type BySlot = Map<u32, InMessage>;

impl Slot {
    fn in_message(&self) -> Option<InMessage> {
        let gone_back = self.request_loss.as_ref().is_some_and(|sequence| sequence.state.is_behind());
        let within = |opcode: u8| !Op::of(opcode).has(Op::ENDS);
        let request =
            (self.requests.time_ns > 0 && (within(self.request) || gone_back)).then_some(self.request);
        let at = InMessage { request, response: self.responses.within_message, pace_ns: self.pace_ns };
        (at.is_within() || self.has_stalled).then_some(at)
    }
}

impl Collector {
    /// Nothing of a flow passed between these times, longer than ever before within a message, and then its message
    /// went on with the next packet, behind `psn` where it is a request. The first of them is 0 where nothing had
    /// passed; clocks may step backwards.
    #[cold]
    pub(super) fn paused(
        &mut self,
        number: u32,
        (from_ns, to_ns): (u64, u64),
        psn: Option<u32>,
        reverse: Reverse,
    ) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        if from_ns == 0 || from_ns > to_ns {
            return;
        }
        if to_ns - from_ns < STALL_NS {
            slot.pace_ns = to_ns - from_ns;
            return;
        }
        slot.has_stalled = true;
        if let Some(counts) = self.counts(number) {
            self.intervals.stalled(number, (from_ns, to_ns), counts);
        }
        let of_link = self.intervals.link(number).and_then(|link| self.silences.latest(link));
        if let Some(all) = of_link.filter(|all| is_but_for((from_ns, to_ns), all.roce_ns))
            && self.is_held_up(psn, reverse, all.roce_ns.0)
        {
            let no_frame = all.any_ns.filter(|any_ns| is_but_for(all.roce_ns, *any_ns));
            self.intervals.held_up(number, all.roce_ns, no_frame);
        }
    }

    /// True if no timer can have ended a silence since this time, behind this PSN of a request or in a response: the
    /// sender has not gone back to what was not acknowledged, and the requester has not repeated its READ.
    fn is_held_up(&self, psn: Option<u32>, reverse: Reverse, since_ns: u64) -> bool {
        let Some(other) = self.slots.get(reverse.slot as usize).filter(|_| reverse.paired) else {
            return false;
        };
        let Some(psn) = psn else {
            return other.requests.time_ns > 0 && other.requests.time_ns <= since_ns;
        };
        let acked = other.ack_state().acknowledged();
        acked.is_some_and(|acked| (1..PSN_WINDOW).contains(&psn_distance(acked, psn)))
    }

    /// Flows within a message.
    pub(super) fn in_messages(&self) -> BySlot {
        (0..).zip(&self.slots).filter_map(|(number, slot)| Some((number, slot.in_message()?))).collect()
    }

    /// Adds silences within messages that last until the latest packet of the link: whether the flow goes on is not
    /// known yet.
    pub(super) fn add_lasting(&self, intervals: &mut SignalIntervals) {
        let latest = |slot: &Slot| slot.requests.time_ns.max(slot.responses.latest.time_ns);
        let mut links: Map<u16, u64> = Map::default();
        for (number, slot) in (0..).zip(&self.slots) {
            if let Some(link) = self.intervals.link(number) {
                let until = links.entry(link).or_default();
                *until = (*until).max(latest(slot));
            }
        }
        for (number, slot) in (0..).zip(&self.slots) {
            let until = self.intervals.link(number).and_then(|link| links.get(&link));
            let Some(until_ns) = until.copied() else { continue };
            let from_ns = latest(slot);
            if from_ns == 0 || until_ns.saturating_sub(from_ns) < STALL_NS {
                continue;
            }
            if slot.in_message().is_some_and(|at| at.is_within()) {
                intervals
                    .flows
                    .entry(number)
                    .or_default()
                    .add_stall((from_ns, until_ns), slot.counts.packets);
            }
        }
    }
}
