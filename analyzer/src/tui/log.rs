//! The list of events: the latest first, with repetitions of the same thing joined.

use std::collections::VecDeque;

use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::opcode::Name;

use super::gone::SILENT_NS;
use crate::model::Level;
use crate::packet;
use crate::sample::{EventSample, address};
use crate::units;

/// Entries kept; the oldest go first.
pub const CAPACITY: usize = 2_000;
/// Packets kept for a capture file, at most.
const PACKETS: usize = 8_192;
/// Entries in which a repetition is looked for.
const JOIN_AMONG: usize = 64;
/// Events further apart than this are not joined, in nanoseconds.
const JOIN_WITHIN_NS: u64 = 1_000_000_000;

/// Bit of an event that no packet is: a flow fell silent. Not among those of [`Event`].
pub const GONE: u16 = 1 << 15;

/// What happened, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bit of [`Event`], or [`GONE`].
    pub bit: u16,
    /// The word.
    pub word: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What it means, for the help.
    pub help: &'static str,
}

const fn class(bit: u16, word: &'static str, level: Level, help: &'static str) -> Class {
    Class { bit, word, level, help }
}

/// Every class of event, the worst first: an event with several is listed under the first.
pub const CLASSES: &[Class] = &[
    class(Event::NAK, "NAK", Level::Critical, "a request was refused, or PSNs are missing at the receiver"),
    class(Event::GAP, "GAP", Level::Critical, "PSNs were skipped before this packet"),
    class(Event::RNR, "RNR", Level::Warning, "the receiver has no buffer posted"),
    class(Event::CNP, "CNP", Level::Warning, "the sender is told to slow down"),
    class(Event::CE, "CE", Level::Warning, "first CE mark after 10 ms without"),
    class(Event::RESTART, "RESTART", Level::Fine, "the PSNs start anew: the QP number is in use again"),
    class(Event::GSI, "CM", Level::Fine, "connection management"),
    class(Event::NEW_FLOW, "NEW", Level::Fine, "first packet of a flow"),
    class(GONE, "GONE", Level::Fine, "no packet of a flow for 10 s"),
];

/// One entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The latest such event, Unix time in nanoseconds.
    pub time_ns: u64,
    /// What happened.
    pub class: &'static Class,
    /// Its flow.
    pub key: FlowKey,
    /// How often.
    pub count: u64,
    /// The first of them, Unix time in nanoseconds.
    pub first_ns: u64,
    /// What is known of the latest.
    pub text: String,
    /// The latest.
    pub event: EventSample,
    /// Unique and growing, so that a view can stay where it is while entries come.
    pub number: u64,
}

/// The entries, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    packets: VecDeque<EventSample>,
    next: u64,
    seen: u64,
}

impl Log {
    /// Adds an event. Several bits of one packet are one entry.
    pub fn push(&mut self, event: &EventSample) {
        let Some(class) = CLASSES.iter().find(|class| event.events & class.bit != 0) else { return };
        self.seen += 1;
        if !event.headers.is_empty() {
            if self.packets.len() == PACKETS {
                self.packets.pop_front();
            }
            self.packets.push_back(event.clone());
        }
        let same = self.entries.iter().rev().take(JOIN_AMONG).position(|entry| {
            entry.class.bit == class.bit
                && entry.key == event.key
                && event.time_ns.abs_diff(entry.time_ns) < JOIN_WITHIN_NS
        });
        let joined = same.map(|back| self.entries.len() - 1 - back);
        if let Some(mut entry) = joined.and_then(|at| self.entries.remove(at)) {
            entry.count += 1;
            entry.time_ns = entry.time_ns.max(event.time_ns);
            entry.text = describe(event);
            entry.event = event.clone();
            // It is the latest now, and stands where the latest stand.
            self.entries.push_back(entry);
            return;
        }
        if self.entries.len() == CAPACITY {
            self.entries.pop_front();
        }
        let (number, time_ns, key) = (self.next, event.time_ns, event.key);
        self.next += 1;
        self.entries.push_back(Entry {
            time_ns,
            first_ns: time_ns,
            class,
            key,
            count: 1,
            text: describe(event),
            event: event.clone(),
            number,
        });
    }

    /// Entries, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev()
    }

    /// The latest packets that carry their headers, the oldest first.
    #[must_use]
    pub fn packets(&self) -> impl DoubleEndedIterator<Item = &EventSample> {
        self.packets.iter()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Events ever added, joined and forgotten ones included.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

/// Source, destination and queue pair in one line.
#[must_use]
pub fn route(key: &FlowKey) -> String {
    format!("{} → {} QP {}", address(key.family, key.src), address(key.family, key.dst), key.dest_qp)
}

/// The packet in words, what matters most first.
#[must_use]
pub fn describe(event: &EventSample) -> String {
    let mut parts = Vec::new();
    let has = |bit| event.events & bit != 0;
    if has(GONE) {
        let last = event.time_ns.saturating_sub(SILENT_NS);
        return format!("no packet for 10 s, the last at {} UTC", units::clock_utc(last));
    }
    if has(Event::NAK) || has(Event::RNR) {
        let text = packet::syndrome(event.aeth);
        parts.push(text.trim_start_matches("NAK: ").trim_start_matches("RNR NAK, ").to_owned());
    }
    if has(Event::GAP) {
        let before = event.psn.wrapping_sub(event.missing) & 0x00FF_FFFF;
        let s = if event.missing == 1 { "" } else { "s" };
        parts.push(format!("{} PSN{s} missing from {before}", event.missing));
    }
    if has(Event::CNP) {
        parts.push("slow down".to_owned());
    }
    if has(Event::CE) {
        parts.push("marked CE".to_owned());
    }
    if has(Event::RESTART) {
        parts.push("sequence starts anew".to_owned());
    }
    if has(Event::NEW_FLOW) && parts.is_empty() {
        parts.push("first packet".to_owned());
    }
    if !has(Event::CNP) {
        parts.push(format!("{} PSN {}", Name(event.opcode), event.psn));
    }
    if event.src_port != 0 {
        parts.push(format!("port {}", event.src_port));
    }
    if event.tos != 0 {
        parts.push(format!("DSCP {}", event.tos >> 2));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::Log;
    use crate::sample::EventSample;
    use bytes::Bytes;
    use rocescope_common::account::{Event, FlowKey};

    fn event(bits: u16, time_ns: u64, dest_qp: u32) -> EventSample {
        EventSample {
            time_ns,
            key: FlowKey { dest_qp, family: 4, ..FlowKey::default() },
            events: bits,
            opcode: 0x11,
            tos: 0,
            src_port: 0,
            psn: 2,
            missing: 4,
            aeth: 0x6000_0000,
            wire_len: 62,
            bth_offset: 42,
            headers: Bytes::new(),
        }
    }

    #[test]
    fn repetitions_are_joined_and_counted_and_the_list_is_bounded() {
        let mut log = Log::default();
        for i in 0..10 {
            log.push(&event(Event::CNP, i, 1));
            log.push(&event(Event::GAP | Event::NEW_FLOW, i, 2));
        }
        let entries: Vec<_> = log.latest().map(|e| (e.class.word, e.count)).collect();
        assert_eq!(entries, [("GAP", 10), ("CNP", 10)]);
        log.push(&event(Event::CNP, 5_000_000_000, 1));
        assert_eq!((log.len(), log.seen()), (3, 21));
        for i in 0..5_000 {
            log.push(&event(Event::NAK, 0, i));
        }
        assert_eq!((log.len(), log.seen()), (super::CAPACITY, 5_021));
    }

    #[test]
    fn events_in_words() {
        let mut log = Log::default();
        log.push(&event(Event::GAP, 0, 2));
        let text = log.latest().next().unwrap().text.clone();
        assert_eq!(text, "4 PSNs missing from 16777214, RC_ACKNOWLEDGE PSN 2");
    }
}
