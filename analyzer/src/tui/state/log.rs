//! The list of events: newest first, with repetitions joined, and answers joined to what they answer.

mod joined;

use std::collections::VecDeque;

use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::opcode::Name;

use self::joined::Joined;
pub use self::joined::Retransmissions;
use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;
pub use crate::model::events::{CLASSES, Class, IDLE};
use crate::packet;
use crate::sample::{EventSample, address};
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Time without packets after which a flow is idle, in nanoseconds: the usual time range of the screens.
pub const SILENT_NS: u64 = EPISODE_GAP_NS;
/// Entries kept; the oldest go first.
pub const CAPACITY: usize = 2_000;
/// Packets kept for a capture file, at most.
const PACKETS: usize = 8_192;
/// Entries in which a repetition is looked for.
const JOIN_AMONG: usize = 64;
/// Packets in which the same one at another tap is looked for.
const RECENT: usize = 256;
/// Events further apart than this are not joined, in nanoseconds.
const JOIN_WITHIN_NS: u64 = NS_PER_S;
/// Earlier states kept of an entry, at most: those of ten minutes, a second apart.
const STATES: usize = 600;
/// The same of all entries; enough for as many as events can join.
const PAST: usize = 40_000;

/// State of an entry from one of its events to the next that is kept.
#[derive(Clone, Debug)]
pub struct EntryState {
    /// The latest event until then, Unix time in nanoseconds.
    pub time_ns: u64,
    /// Events of the class until then.
    pub count: u64,
    /// Of an entry of PSN gaps: sequence-error NAKs that answer them.
    pub naks: u64,
    /// The latest in words.
    pub text: String,
    /// Latest event of the entry.
    pub event: EventSample,
    /// Its number among all events.
    pub number: u64,
}

/// Key that no other packet of its class has: its flow, whatever the link, and its headers.
type PacketKey = (u16, FlowKey, u8, u32, u32, u32);

fn packet_key(event: &EventSample, class: &Class) -> PacketKey {
    let flow = FlowKey { link: 0, ..event.key };
    (class.bit, flow, event.opcode, event.psn, event.aeth, event.missing)
}

/// A packet of an event, and the taps that reported it.
#[derive(Clone, Debug)]
struct EventPacket {
    packet: PacketKey,
    time_ns: u64,
    links: Vec<u16>,
    /// The number of the entry that it is in.
    entry: u64,
}

impl EventPacket {
    fn new(event: &EventSample, class: &Class, entry: u64) -> Self {
        let packet = packet_key(event, class);
        Self { packet, time_ns: event.time_ns, links: vec![event.key.link], entry }
    }
}

/// One entry: events of one class and flow, each within a second of the one before.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Class of the events.
    pub class: &'static Class,
    /// Key of the flow.
    pub key: FlowKey,
    /// The first of them, Unix time in nanoseconds.
    pub first_ns: u64,
    /// Present state of the entry.
    pub latest: EntryState,
    /// Its states at earlier snapshots, the oldest first.
    before: Vec<EntryState>,
    /// Links other than its flow's on which the same packets showed.
    pub also: Vec<u16>,
    /// What belongs to PSN gaps, or to NAKs of what was lost elsewhere.
    joined: Joined,
    /// Unique and growing, so that a view can stay where it is while entries come.
    pub number: u64,
}

impl Entry {
    /// Its state at a time; `None` before its first event.
    pub fn at(&self, time_ns: u64) -> Option<&EntryState> {
        let had_been = |state: &&EntryState| state.time_ns <= time_ns;
        Some(&self.latest).filter(had_been).or_else(|| self.before.iter().rev().find(had_been))
    }

    /// Adds an event; `kept` decides whether the state before is kept.
    fn push(&mut self, event: &EventSample, number: u64, kept: impl FnOnce(&EntryState) -> bool) {
        self.first_ns = self.first_ns.min(event.time_ns);
        let state = EntryState {
            time_ns: self.latest.time_ns.max(event.time_ns),
            count: self.latest.count + 1,
            naks: self.latest.naks,
            text: describe(event),
            event: event.clone(),
            number,
        };
        self.expect_answer(event);
        self.change(state, kept);
    }

    /// Takes a new state; `kept` decides whether the one before is kept.
    fn change(&mut self, state: EntryState, kept: impl FnOnce(&EntryState) -> bool) {
        let before = std::mem::replace(&mut self.latest, state);
        if self.before.len() < 2 * STATES && kept(&before) {
            self.before.push(before);
        }
    }

    /// Of the states between two snapshots only the last can be shown again.
    fn settle(&mut self, after_ns: u64, snapshot_ns: u64) {
        let from = self.before.partition_point(|state| state.time_ns <= after_ns);
        let mut to = self.before.partition_point(|state| state.time_ns <= snapshot_ns);
        if self.latest.time_ns > snapshot_ns {
            to = to.saturating_sub(1);
        }
        if from < to {
            self.before.drain(from..to);
        }
        if self.before.len() > STATES {
            // The beginning stays.
            self.before.drain(1..=self.before.len() - STATES);
        }
    }
}

/// An entry as a snapshot shows it.
#[derive(Clone, Copy, Debug)]
pub struct EntryAt<'a> {
    /// Entry of the list.
    pub entry: &'a Entry,
    /// State at the snapshot shown.
    pub state: &'a EntryState,
}

/// The entries, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// In boxes: each event moves its entry to the end.
    entries: VecDeque<Box<Entry>>,
    packets: VecDeque<(u64, EventSample)>,
    /// The latest packets, to know them again at other taps.
    recent: VecDeque<EventPacket>,
    next: u64,
    seen: u64,
    /// Stands of the past in all entries.
    past: usize,
    /// The latest snapshot that one can go back to.
    snapshot_ns: u64,
}

impl Log {
    /// Adds an event; several bits of one packet are one entry. `snapshot_ns` is the snapshot before it that one can go
    /// back to, 0 for none: what an entry was then is kept.
    pub fn push(&mut self, event: &EventSample, snapshot_ns: u64) {
        self.push_with(event, snapshot_ns, |_| None);
    }

    /// The same; `peer` is the queue pair that the answers of a flow go to, where that is known: a NAK to another
    /// answers another flow.
    pub fn push_with(
        &mut self,
        event: &EventSample,
        snapshot_ns: u64,
        peer: impl Fn(&FlowKey) -> Option<u32>,
    ) {
        let Some(class) = class_of(event) else { return };
        self.seen += 1;
        if !event.headers.is_empty() {
            if self.packets.len() == PACKETS {
                self.packets.pop_front();
            }
            self.packets.push_back((self.seen, event.clone()));
        }
        if self.seen_elsewhere(event, class) {
            return;
        }
        if let Some(number) = self.place(event, class, snapshot_ns, peer) {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(EventPacket::new(event, class, number));
        }
    }

    /// Takes the packet of an event that another tap reported already: it is the same one.
    fn seen_elsewhere(&mut self, event: &EventSample, class: &Class) -> bool {
        let link = event.key.link;
        let same = |seen: &&mut EventPacket| {
            seen.packet == packet_key(event, class)
                && !seen.links.contains(&link)
                && event.time_ns.abs_diff(seen.time_ns) < JOIN_WITHIN_NS
        };
        let Some(seen) = self.recent.iter_mut().find(same) else { return false };
        seen.links.push(link);
        let number = seen.entry;
        let entry = self.entries.iter_mut().rev().find(|entry| entry.number == number);
        // A NAK that belongs to a gap says nothing of where the gap showed.
        let reported = |entry: &&mut Box<Entry>| {
            entry.class.bit == class.bit && entry.key.link != link && !entry.also.contains(&link)
        };
        if let Some(entry) = entry.filter(reported) {
            entry.also.push(link);
            entry.also.sort_unstable();
        }
        true
    }

    /// Adds an event to the entry that it belongs to, or as a new one; its number.
    fn place(
        &mut self,
        event: &EventSample,
        class: &'static Class,
        snapshot_ns: u64,
        peer: impl Fn(&FlowKey) -> Option<u32>,
    ) -> Option<u64> {
        // Between two snapshots there is nothing to go back to; but events come before the snapshot that follows them.
        let open = event.time_ns > self.snapshot_ns;
        let kept = |before: &EntryState| open || before.time_ns <= snapshot_ns;
        if self.answer(event, peer, kept) {
            self.forget();
            return self.entries.back().map(|entry| entry.number);
        }
        let same = self.entries.iter().rev().take(JOIN_AMONG).position(|entry| {
            entry.class.bit == class.bit
                && entry.key == event.key
                && event.time_ns.abs_diff(entry.latest.time_ns) < JOIN_WITHIN_NS
        });
        let joined = same.map(|back| self.entries.len() - 1 - back);
        if let Some(mut entry) = joined.and_then(|at| self.entries.remove(at)) {
            let before = entry.before.len();
            entry.push(event, self.seen, kept);
            self.past += entry.before.len() - before;
            // It is the latest now, and has the place of the latest.
            let number = entry.number;
            self.entries.push_back(entry);
            self.forget();
            return Some(number);
        }
        if self.entries.len() == CAPACITY {
            self.past -= self.entries.pop_front().map_or(0, |entry| entry.before.len());
        }
        let mut entry = Box::new(Entry {
            class,
            key: event.key,
            first_ns: event.time_ns,
            latest: EntryState {
                time_ns: event.time_ns,
                count: 1,
                naks: 0,
                text: describe(event),
                event: event.clone(),
                number: self.seen,
            },
            before: Vec::new(),
            also: Vec::new(),
            joined: Joined::default(),
            number: self.next,
        });
        entry.expect_answer(event);
        // Of a flow that fell silent a sample says so, after later events of others.
        let before = |other: &Entry| class.bit != IDLE || other.latest.time_ns <= event.time_ns;
        let at = self.entries.iter().rposition(|other| before(other)).map_or(0, |at| at + 1);
        self.entries.insert(at, entry);
        self.next += 1;
        Some(self.next - 1)
    }

    /// There is another snapshot that one can go back to, later than all before.
    pub fn settle(&mut self, snapshot_ns: u64) {
        let after_ns = std::mem::replace(&mut self.snapshot_ns, snapshot_ns);
        for entry in &mut self.entries {
            let before = entry.before.len();
            if before > STATES || entry.before.last().is_some_and(|state| state.time_ns > after_ns) {
                entry.settle(after_ns, snapshot_ns);
                self.past -= before - entry.before.len();
            }
        }
    }

    /// Of the oldest entries only what they are now is kept, where the past of all is too much.
    fn forget(&mut self) {
        if self.past <= PAST {
            return;
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| !entry.before.is_empty()) {
            self.past -= std::mem::take(&mut entry.before).len();
        }
    }

    /// Entries, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev().map(|entry| &**entry)
    }

    /// Entries as they were at a time, the latest first; `None` for now.
    pub fn listed(&self, time_ns: Option<u64>) -> impl Iterator<Item = EntryAt<'_>> {
        let until = time_ns.unwrap_or(u64::MAX);
        let then = self.latest().filter_map(|entry| Some(EntryAt { entry, state: entry.at(until)? }));
        let mut listed: Vec<EntryAt<'_>> = then.collect();
        if time_ns.is_some() {
            // Entries with events after that time have moved up since.
            listed.sort_by_key(|listed| std::cmp::Reverse(listed.state.time_ns));
        }
        listed.into_iter()
    }

    /// The flow of the NAKs that answer the gaps of an entry.
    pub fn answers(entry: &Entry) -> Option<FlowKey> {
        entry.joined.answers
    }

    /// The entry of this number, while it is kept.
    pub fn entry(&self, number: u64) -> Option<&Entry> {
        self.latest().find(|entry| entry.number == number)
    }

    /// The event of this number in an entry, while it is kept.
    pub fn event<'a>(&'a self, entry: &'a Entry, number: u64) -> Option<&'a EventSample> {
        let states = std::iter::once(&entry.latest).chain(&entry.before);
        let found = states.into_iter().find(|state| state.number == number).map(|state| &state.event);
        let kept = || self.packets.iter().rev().find(|(kept, _)| *kept == number).map(|(_, event)| event);
        found.or_else(kept)
    }

    /// Events of an entry whose headers are kept, up to a time: their numbers, the oldest first.
    pub fn kept(&self, entry: &Entry, until_ns: u64) -> impl Iterator<Item = (u64, &EventSample)> {
        let of = move |event: &EventSample| {
            event.key == entry.key
                && (entry.first_ns..=entry.latest.time_ns.min(until_ns)).contains(&event.time_ns)
                && class_of(event).is_some_and(|class| class.bit == entry.class.bit)
        };
        let joined = move |number: &u64| entry.joined.numbers.contains(number);
        let kept = self
            .packets
            .iter()
            .filter(move |(number, event)| of(event) || (event.time_ns <= until_ns && joined(number)));
        kept.map(|(number, event)| (*number, event))
    }

    /// The latest packets that carry their headers, the oldest first.
    pub fn packets(&self) -> impl DoubleEndedIterator<Item = &EventSample> {
        self.packets.iter().map(|(_, event)| event)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing happened.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Events ever added, joined and forgotten ones included.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

/// The worst class that an event is of.
pub fn class_of(event: &EventSample) -> Option<&'static Class> {
    CLASSES.iter().find(|class| event.events & class.bit != 0)
}

/// Source, destination and queue pair in one line.
pub fn route(key: &FlowKey) -> String {
    format!("{} → {} QP {}", address(key.family, key.src), address(key.family, key.dst), key.dest_qp)
}

/// The packet in words, what matters most first.
pub fn describe(event: &EventSample) -> String {
    let mut parts = Vec::new();
    let has = |bit| event.events & bit != 0;
    if has(IDLE) {
        let last = event.time_ns.saturating_sub(SILENT_NS);
        return format!("no packets for 10 s, last packet {} UTC", units::clock_utc(last));
    }
    if has(Event::NAK) || has(Event::RNR) {
        parts.push(refusal(event));
    }
    if has(Event::GAP) {
        parts.push(gap(event));
    }
    if has(Event::CNP) {
        parts.push("rate reduction".to_owned());
    }
    if has(Event::CE) {
        parts.push("CE-marked".to_owned());
    }
    if has(Event::RESTART) {
        parts.push("PSN sequence restarted".to_owned());
    }
    if has(Event::NEW_FLOW) && parts.is_empty() {
        parts.push("first packet".to_owned());
    }
    parts.extend(packet_of(event));
    parts.join(", ")
}

/// The syndrome of a NAK or RNR NAK in words.
fn refusal(event: &EventSample) -> String {
    let text = packet::syndrome(event.aeth);
    text.trim_start_matches("NAK: ").trim_start_matches("RNR NAK, ").to_owned()
}

/// A gap in words.
fn gap(event: &EventSample) -> String {
    let s = if event.missing == 1 { "" } else { "s" };
    format!("{} PSN{s} missing from {}", event.missing, event.first_missing())
}

/// Properties of the packet itself.
fn packet_of(event: &EventSample) -> Vec<String> {
    let mut parts = Vec::new();
    if event.events & Event::CNP == 0 {
        parts.push(format!("{} PSN {}", Name(event.opcode), event.psn));
    }
    if event.src_port != 0 {
        parts.push(format!("port {}", event.src_port));
    }
    if event.tos != 0 {
        parts.push(format!("DSCP {}", event.tos >> 2));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::Log;
    use crate::sample::EventSample;
    use rocescope_common::account::{Event, FlowKey};

    pub(super) fn event(bits: u16, time_ns: u64, dest_qp: u32) -> EventSample {
        EventSample {
            time_ns,
            key: FlowKey { dest_qp, family: 4, ..FlowKey::default() },
            events: bits,
            opcode: 0x11,
            psn: 2,
            missing: 4,
            aeth: 0x6000_0000,
            wire_len: 62,
            bth_offset: 42,
            ..EventSample::default()
        }
    }

    #[test]
    fn repetitions_are_joined_and_counted_and_the_list_is_bounded() {
        let mut log = Log::default();
        for i in 0..10 {
            log.push(&event(Event::CNP, i, 1), 0);
            log.push(&event(Event::GAP | Event::NEW_FLOW, i, 2), 0);
        }
        let entries: Vec<_> = log.latest().map(|e| (e.class.word, e.latest.count)).collect();
        assert_eq!(entries, [("GAP", 10), ("CNP", 10)]);
        log.push(&event(Event::CNP, 5_000_000_000, 1), 0);
        assert_eq!((log.len(), log.seen()), (3, 21));
        for i in 0..5_000 {
            log.push(&event(Event::NAK, 0, i), 0);
        }
        assert_eq!((log.len(), log.seen()), (super::CAPACITY, 5_021));
    }

    /// Two flows with an event each half second, and snapshots a second apart.
    #[test]
    fn an_older_snapshot_has_the_events_before_it() {
        const HALF: u64 = 500_000_000;
        let mut log = Log::default();
        for half in 2..10 {
            let now = half * HALF;
            log.push(&event(Event::CNP, now, 1), 0);
            if half < 5 {
                log.push(&event(Event::CNP, now + 1, 2), 0);
            }
            // Samples come later than events.
            if half % 2 == 1 {
                log.settle((half - 1) * HALF);
            }
        }
        let at = |time_ns: Option<u64>| -> Vec<(u32, u64, u64)> {
            log.listed(time_ns)
                .map(|l| (l.entry.key.dest_qp, l.state.count, l.state.time_ns / HALF))
                .collect()
        };
        assert_eq!(at(None), [(1, 8, 9), (2, 3, 4)]);
        // Flow 2 was the latest then.
        assert_eq!(at(Some(5 * HALF - 1)), [(2, 3, 4), (1, 3, 4)]);
        assert_eq!(at(Some(2 * HALF)), [(1, 1, 2)]);
        assert_eq!(at(Some(2 * HALF - 1)), []);
        let entry = log.entry(0).unwrap();
        assert_eq!(entry.before.len(), 4, "no more than snapshots");
        assert_eq!(entry.first_ns, 2 * HALF);
    }

    #[test]
    fn the_past_is_bounded_and_the_beginning_of_an_entry_is_kept_longest() {
        let mut log = Log::default();
        let second = 999_999_999;
        for i in 1..=2_000 {
            log.push(&event(Event::CNP, i * second, 1), 0);
            log.settle(i * second);
        }
        let entry = log.entry(0).unwrap();
        assert_eq!((entry.before.len(), log.past), (super::STATES, super::STATES));
        assert_eq!(entry.at(second).map(|state| state.count), Some(1));
        assert_eq!(entry.at(1_500 * second).map(|state| state.count), Some(1_500));
        for flow in 2..200 {
            for i in 1..=500 {
                log.push(&event(Event::CNP, i * second, flow), (i - 1) * second);
            }
        }
        assert!(log.past <= super::PAST);
        assert_eq!(log.past, log.latest().map(|entry| entry.before.len()).sum::<usize>());
    }

    /// A sample says of a flow that it fell silent, after later events of others.
    #[test]
    fn a_flow_that_fell_silent_has_the_place_of_its_time() {
        let mut log = Log::default();
        for (bits, second, flow) in [(Event::NAK, 1, 1), (Event::GAP, 9, 2), (super::IDLE, 5, 3)] {
            log.push(&event(bits, second * 1_000_000_000, flow), 0);
        }
        let words = |log: &Log| log.latest().map(|entry| entry.class.word).collect::<Vec<_>>();
        assert_eq!(words(&log), ["GAP", "IDLE", "NAK"]);
        // Another tap that showed the same flow is no entry of its own.
        let mut twin = event(super::IDLE, 5_000_000_001, 3);
        twin.key.link = 1;
        log.push(&twin, 0);
        let entry = log.latest().nth(1).unwrap();
        assert_eq!((words(&log).len(), &entry.also[..]), (3, &[1][..]));
        log.push(&event(super::IDLE, 10_000_000_000, 4), 0);
        assert_eq!(words(&log), ["IDLE", "GAP", "IDLE", "NAK"]);
    }

    #[test]
    fn events_in_words() {
        let mut log = Log::default();
        log.push(&event(Event::GAP, 0, 2), 0);
        let text = log.latest().next().unwrap().latest.text.clone();
        assert_eq!(text, "4 PSNs missing from 16777214, RC_ACKNOWLEDGE PSN 2");
    }
}
