//! Packets that two taps of a flow saw, and those that one of them saw alone.

use super::header::{Body, Compared, MAX_TAPS, length};
use super::series::Series;

/// Packets before the first that both of two taps saw, kept when they leave their place.
const EARLY: usize = 8;

/// A packet at the taps that have seen it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// PSN, opcode and IPv4 identification; 0 marks a free place.
    pub(super) id: u64,
    /// Bit per tap, [`COPY`] and [`TWIN`].
    pub(super) taps: u8,
    /// Number of its header at each.
    pub(super) headers: [u8; MAX_TAPS],
    /// Of the tap that saw it last.
    pub(super) body: Body,
    pub(super) time_ns: [u64; MAX_TAPS],
    /// Its number among the packets of the flow there.
    pub(super) place: [u32; MAX_TAPS],
}

/// Set for a packet that the same tap has just seen and that nothing distinguishes from it: a duplicate, unless the
/// other tap shows it twice as well, farther apart.
pub(super) const COPY: u8 = 0x80;
/// Set for packets that wait with the same identity: a retransmission that nothing distinguishes from its original.
pub(super) const TWIN: u8 = 0x40;

const _: () = assert!(size_of::<Entry>() == 72, "a waiting packet takes 72 bytes");

impl Entry {
    /// True if this number of taps have seen it.
    pub(super) fn is_at(&self, taps: usize) -> bool {
        (self.taps & !(COPY | TWIN)).count_ones() as usize >= taps
    }
}

pub(super) const FREE: Entry = Entry {
    id: 0,
    taps: 0,
    headers: [0; MAX_TAPS],
    body: Body { needed: 0, variable: 0, payload: 0 },
    time_ns: [0; MAX_TAPS],
    place: [0; MAX_TAPS],
};

/// Packets that one of two taps saw and the other did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingAtTap {
    /// After the last packet that both saw, while packets of other flows between the same hosts still passed both.
    pub at_end: u64,
    /// Of these, and of those between packets that both saw: those with more payload than any packet of the flow that
    /// both saw later.
    pub large: u64,
    /// The smallest and the largest payload of these, in bytes.
    pub sizes: (u16, u16),
    /// First and last time of these, Unix nanoseconds by the clock of the tap that saw them; 0 for none.
    pub large_ns: (u64, u64),
}

/// Sizes kept of the latest packets that two taps saw.
const MOST_SIZES: usize = 8;

/// The latest packet that two taps saw with this much payload or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestOfSize {
    /// Its payload or less, in bytes.
    pub payload: u16,
    /// When it passed each.
    pub at_ns: [u64; 2],
}

/// Takes in a packet that both saw: the largest comes first, and each is later than those before it.
fn note_size(sizes: &mut Vec<LatestOfSize>, latest: LatestOfSize) {
    if let Some(last) = sizes.last_mut()
        && last.payload == latest.payload
    {
        *last = latest;
        return;
    }
    while sizes.pop_if(|before| before.payload <= latest.payload).is_some() {}
    let is_full = sizes.len() >= MOST_SIZES;
    match sizes.last_mut() {
        Some(last) if is_full => *last = LatestOfSize { payload: last.payload, ..latest },
        _ => sizes.push(latest),
    }
}

/// Times of the first and of the latest packet that two taps saw, by the clock of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) first_ns: [u64; 2],
    pub(super) last_ns: [u64; 2],
}

/// Ends of a flow of which no packet was seen.
impl Default for Ends {
    fn default() -> Self {
        Self { first_ns: [u64::MAX; 2], last_ns: [0; 2] }
    }
}

impl Ends {
    pub(super) fn join(&mut self, other: Self) {
        for side in 0..2 {
            self.first_ns[side] = self.first_ns[side].min(other.first_ns[side]);
            self.last_ns[side] = self.last_ns[side].max(other.last_ns[side]);
        }
    }

    /// As seen from the other end.
    pub(super) const fn reversed(self) -> Self {
        let (first, last) = (self.first_ns, self.last_ns);
        Self { first_ns: [first[1], first[0]], last_ns: [last[1], last[0]] }
    }
}

/// Packets that two taps have in common. The first has the lower number.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) matched: u64,
    /// Packets that one of them saw and the other did not, though it saw some before and behind.
    pub(super) only: [u64; 2],
    /// First and last time of these, by the clock of the tap that saw them; 0 for none.
    pub(super) only_ns: [(u64, u64); 2],
    /// The same, and those after the last packet that both saw, by size.
    pub(super) gone: [MissingAtTap; 2],
    /// Largest payload of the packets that both saw.
    pub(super) largest: u16,
    /// The latest of them by size.
    pub(super) sizes: Vec<LatestOfSize>,
    /// Times of the first packet and of the latest that both saw, by the clock of each.
    pub(super) ends: Ends,
    /// Time at the second minus time at the first, of the latest packet that both saw.
    pub(super) difference: i64,
    /// The latest ones that one saw before the first that both saw, of those that have left their place.
    pub(super) early: Vec<Entry>,
    /// Headers of the packets that both saw.
    pub(super) compared: Compared,
    /// Packets that each saw once more.
    pub(super) duplicates: [u64; 2],
    /// First and last packet that both saw, as each of them counts.
    pub(super) span: [(u32, u32); 2],
    /// Numbers of the packets here that are the first and last of the section at the other tap: retransmissions
    /// and packets out of order are not the same at both.
    pub(super) edge: [(u32, u32); 2],
    /// Packets left before the section that the second had yet to show: what is before it, or behind it, is not known.
    pub(super) is_part: bool,
    /// Time at the second minus time at the first.
    pub(super) delay: Series,
}

/// A section without packets.
const EMPTY: (u32, u32) = (u32::MAX, 0);

impl Common {
    /// Of two taps that are about to see their first packet in common: its time at the first, and the difference.
    pub(super) fn new((first, second): (usize, usize), time_ns: u64, difference: i64) -> Self {
        Self {
            first,
            second,
            matched: 0,
            only: [0; 2],
            only_ns: [(0, 0); 2],
            gone: [MissingAtTap::default(); 2],
            largest: 0,
            sizes: Vec::new(),
            ends: Ends::default(),
            difference,
            early: Vec::new(),
            compared: Compared::default(),
            duplicates: [0; 2],
            span: [EMPTY; 2],
            edge: [EMPTY; 2],
            is_part: false,
            delay: Series::new(time_ns, difference),
        }
    }

    /// Takes in the places of a packet that both saw. `released`: up to this place at the first, packets have left that
    /// the second had yet to show. What it shows of them looks as if the first had missed them.
    pub(super) fn extend(&mut self, places: [u32; 2], released: u32) {
        self.is_part |= released > 0;
        if places[0] <= released {
            return;
        }
        if self.span[0].1 <= released {
            self.span = places.map(|place| (place, place));
            self.edge = self.span;
            return;
        }
        let [at_first, at_second] = self.span;
        for (edge, here, there, span) in
            [(0, places[0], places[1], at_second), (1, places[1], places[0], at_first)]
        {
            let edge = &mut self.edge[edge];
            if there < span.0 {
                edge.0 = here;
            }
            if there > span.1 {
                edge.1 = here;
            }
        }
        for (span, place) in self.span.iter_mut().zip(places) {
            *span = (span.0.min(place), span.1.max(place));
        }
    }

    /// Takes in the headers of a packet that both saw, `tap` last, and `before` as it was there.
    pub(super) fn compare(&mut self, entry: &Entry, tap: usize, before: Body) {
        let time_ns = |tap: usize| entry.time_ns.get(tap).copied().unwrap_or_default();
        let (at_first, at_second) = (time_ns(self.first), time_ns(self.second));
        let both = [at_first, at_second];
        self.ends.join(Ends { first_ns: both, last_ns: both });
        let payload = length(entry.body.payload).unwrap_or(0);
        self.largest = self.largest.max(payload);
        note_size(&mut self.sizes, LatestOfSize { payload, at_ns: both });
        let mut bodies = [before, entry.body];
        if tap == self.first {
            bodies.reverse();
        }
        if let (Some(first), Some(second)) = (entry.headers.get(self.first), entry.headers.get(self.second)) {
            self.compared.add([*first, *second], bodies, both);
        }
        let bytes = bodies.map(|body| body.payload);
        if bytes[0] != bytes[1] {
            self.compared.resized(bytes, both);
        }
    }

    /// Tap that has seen a packet that the other has not: 0 or 1, and the tap's number.
    pub(super) fn one_of(&self, taps: u8) -> Option<(usize, usize)> {
        if taps & COPY != 0 {
            return None;
        }
        match (taps & 1 << self.first != 0, taps & 1 << self.second != 0) {
            (true, false) => Some((0, self.first)),
            (false, true) => Some((1, self.second)),
            _ => None,
        }
    }

    /// Counts a packet that one of the two did not see, when it lies between packets that both saw.
    pub(super) fn count(&mut self, entry: &Entry) -> bool {
        let Some((side, tap)) = self.one_of(entry.taps) else { return false };
        let ((first, last), edge) = (self.span[side], self.edge[side]);
        let (first, last) = (first.max(edge.0), last.min(edge.1));
        let between = first < entry.place[tap] && entry.place[tap] < last;
        if between {
            self.count_one(entry, side, tap);
        }
        between
    }

    fn count_one(&mut self, entry: &Entry, side: usize, tap: usize) {
        let (first_ns, last_ns) = &mut self.only_ns[side];
        let time_ns = entry.time_ns[tap];
        *first_ns = if self.only[side] == 0 { time_ns } else { time_ns.min(*first_ns) };
        *last_ns = time_ns.max(*last_ns);
        self.only[side] += 1;
        self.count_large(entry, side, time_ns);
    }

    /// Tap that has seen a packet before the first that both saw: 0 or 1, and the tap's number.
    fn before(&self, entry: &Entry) -> Option<(usize, usize)> {
        let is_before = |&(side, tap): &(usize, usize)| {
            !self.is_part && entry.place[tap] < self.span[side].0.min(self.edge[side].0)
        };
        self.one_of(entry.taps).filter(is_before)
    }

    /// Counts a packet that one of the two did not see before the first that both saw, when the other was there by
    /// then: it had seen earlier packets between the same hosts (the first of them at `since`) than when this one would
    /// have come to it.
    pub(super) fn count_begin(&mut self, entry: &Entry, since: [u64; 2]) {
        let Some((side, tap)) = self.before(entry) else { return };
        let (least, most) = self.delay.at_first();
        let difference = if side == 0 { least } else { most.saturating_neg() };
        if entry.time_ns[tap].saturating_add_signed(difference) > since[1 - side] {
            self.count_one(entry, side, tap);
        }
    }

    /// Keeps a packet for [`count_begin`](Self::count_begin).
    pub(super) fn keep_early(&mut self, entry: &Entry) {
        let Some((_, tap)) = self.before(entry) else { return };
        if self.early.len() < EARLY {
            self.early.push(*entry);
        } else if let Some(oldest) = self.early.iter_mut().min_by_key(|early| early.place[tap])
            && oldest.place[tap] < entry.place[tap]
        {
            *oldest = *entry;
        }
    }

    /// Counts a packet that one of the two did not see after the last that both saw, when later packets between the
    /// same hosts (up to `until`) passed both.
    pub(super) fn count_end(&mut self, entry: &Entry, until: [u64; 2]) {
        let Some((side, tap)) = self.one_of(entry.taps) else { return };
        let time_ns = entry.time_ns[tap];
        let behind = !self.is_part && entry.place[tap] > self.span[side].1.max(self.edge[side].1);
        if behind && time_ns < until[side] {
            self.gone[side].at_end += 1;
            self.count_large(entry, side, time_ns);
        }
    }

    /// Largest payload of the packets that both saw after this time, by the clock of one of them.
    fn largest_since(&self, side: usize, time_ns: u64) -> u16 {
        self.sizes.iter().find(|latest| latest.at_ns[side] > time_ns).map_or(0, |latest| latest.payload)
    }

    /// Forgets large packets that were missing if others as large passed since.
    pub(super) fn forget_large(&mut self) {
        for side in 0..2 {
            let MissingAtTap { sizes: (smallest, _), large_ns: (_, last_ns), large, .. } = self.gone[side];
            if large > 0 && self.largest_since(side, last_ns) >= smallest {
                self.gone[side] = MissingAtTap { at_end: self.gone[side].at_end, ..MissingAtTap::default() };
            }
        }
    }

    fn count_large(&mut self, entry: &Entry, side: usize, time_ns: u64) {
        let since = self.largest_since(side, time_ns);
        let Some(payload) = length(entry.body.payload).filter(|payload| *payload > since) else {
            return;
        };
        let MissingAtTap { large, sizes, large_ns, .. } = &mut self.gone[side];
        let (least, first_ns) = if *large == 0 { (payload, time_ns) } else { (sizes.0, large_ns.0) };
        *sizes = (least.min(payload), sizes.1.max(payload));
        *large_ns = (first_ns.min(time_ns), large_ns.1.max(time_ns));
        *large += 1;
    }
}
