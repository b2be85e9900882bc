//! Traffic in short bins of time, folded into running figures as it passes.
//!
//! Memory does not grow with time, and figures are exact for a run of any length: peak, mean, number and length of the
//! times above each power of two of bytes per bin. The peak decides which of these powers makes a burst.

use super::series::{Decimated, Recent};
use super::times;
use crate::metrics::timeline::{LinkPoints, Point};

/// Bytes and packets in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Number of the bin: Unix time over the length of a bin.
    pub index: u64,
    /// Bytes of the outer frames.
    pub bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// ECN-capable data packets, marked ones included; live, where they are not counted by bin, 0.
    pub capable: u64,
    /// Packets with a CE mark.
    pub ce: u64,
    /// Congestion notification packets (CNPs).
    pub cnp: u64,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.capable += other.capable;
        self.ce += other.ce;
        self.cnp += other.cnp;
    }
}

/// Powers of two that are distinguished: up to 2^47 bytes in a bin.
const LEVELS: usize = 48;
/// Buckets of run lengths: exact up to 4 bins, then four for each doubling (at most 25 % too long).
const LENGTHS: usize = 96;

/// Runs of consecutive bins with at least 2^k bytes.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// First bin of the run that goes on; `u64::MAX` for none.
    since: u64,
    runs: u64,
    /// Bins whose own level this is.
    bins: u64,
    longest: u64,
    lengths: [u32; LENGTHS],
}

const NO_RUN: u64 = u64::MAX;

impl Level {
    const EMPTY: Self = Self { since: NO_RUN, runs: 0, bins: 0, longest: 0, lengths: [0; LENGTHS] };

    fn end(&mut self, after: u64) {
        if self.since == NO_RUN {
            return;
        }
        let length = after.saturating_sub(self.since);
        self.since = NO_RUN;
        self.runs += 1;
        self.longest = self.longest.max(length);
        if let Some(count) = self.lengths.get_mut(length_bucket(length)) {
            *count = count.saturating_add(1);
        }
    }
}

fn length_bucket(length: u64) -> usize {
    let bucket = if length < 4 {
        length
    } else {
        let octave = u64::from(length.ilog2());
        4 + (octave - 2) * 4 + (length >> (octave - 2) & 3)
    };
    usize::try_from(bucket).map_or(LENGTHS - 1, |bucket| bucket.min(LENGTHS - 1))
}

/// The longest length that falls into a bucket.
fn bucket_length(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (octave, quarter) = ((bucket - 4) / 4 + 2, (bucket - 4) % 4);
    ((5 + quarter as u64) << (octave - 2)) - 1
}

/// The figures of all bins that have passed.
#[derive(Clone, Debug)]
pub struct BinTotals {
    first: Option<u64>,
    last: u64,
    sum: Bin,
    active: u64,
    peak: Bin,
    /// Runs go on at the levels below this one.
    running: usize,
    levels: Vec<Level>,
    late_packets: u64,
    recent: Recent,
    long: Decimated,
    points: LinkPoints,
}

impl Default for BinTotals {
    fn default() -> Self {
        Self {
            first: None,
            last: 0,
            sum: Bin::default(),
            active: 0,
            peak: Bin::default(),
            running: 0,
            levels: vec![Level::EMPTY; LEVELS],
            late_packets: 0,
            recent: Recent::default(),
            long: Decimated::default(),
            points: LinkPoints::default(),
        }
    }
}

impl BinTotals {
    /// Takes in a bin that is complete. Bins come in rising order; those without traffic may be left out. One that
    /// comes too late is in the sums and in no run.
    pub fn fold(&mut self, bin: &Bin) {
        if bin.packets == 0 {
            return;
        }
        self.sum.add(bin);
        self.points.add(bin.index, &point(bin));
        match self.first {
            None => self.first = Some(bin.index),
            Some(_) if bin.index <= self.last => {
                self.late_packets += bin.packets;
                return;
            }
            Some(_) if bin.index > self.last + 1 => self.end_runs(0, self.last + 1),
            Some(_) => {}
        }
        self.active += 1;
        let level = (bin.bytes.max(1).ilog2() as usize).min(LEVELS - 1);
        self.end_runs(level + 1, bin.index);
        for level in self.levels.get_mut(self.running..=level).unwrap_or_default() {
            level.since = bin.index;
        }
        self.running = self.running.max(level + 1);
        if let Some(level) = self.levels.get_mut(level) {
            level.bins += 1;
        }
        if bin.bytes > self.peak.bytes {
            self.peak = *bin;
        }
        self.last = bin.index;
        self.recent.add(bin.index, bin.bytes);
        self.long.add(bin.index, bin.bytes);
    }

    /// Ends the runs of the levels from `from` on before bin `at`.
    fn end_runs(&mut self, from: usize, at: u64) {
        for level in self.levels.get_mut(from..self.running).unwrap_or_default() {
            level.end(at);
        }
        self.running = self.running.min(from);
    }

    /// The figures; `None` when there was no traffic.
    pub fn bursts(&self, bin_ns: u64) -> Option<Bursts> {
        let first = self.first?;
        let mut all = self.clone();
        all.end_runs(0, self.last + 1);
        let bins = self.last - first + 1;
        let level = (self.peak.bytes / 2).max(1).ilog2() as usize;
        let above = all.levels.get(level..)?;
        let at = above.first()?;
        let burst_bins: u64 = above.iter().map(|level| level.bins).sum();
        let length = |share: f64| {
            let rank = at.runs - times(at.runs, 1.0 - share);
            let mut seen = 0;
            let found = at.lengths.iter().position(|count| {
                seen += u64::from(*count);
                seen >= rank
            });
            found.map_or(at.longest, bucket_length).min(at.longest) * bin_ns
        };
        Some(Bursts {
            bin_ns,
            bins,
            active_bins: self.active,
            first_ns: first.saturating_mul(bin_ns),
            peak: self.peak,
            total: self.sum,
            threshold_bytes: 1 << level,
            bursts: at.runs,
            burst_bins,
            length_p50_ns: length(0.5),
            length_p99_ns: length(0.99),
            length_max_ns: at.longest * bin_ns,
            late_packets: self.late_packets,
            recent: self.recent.points(),
            long: self.long.points(),
            long_bins: self.long.bins_per_point(),
            long_first: self.long.first_bin(),
        })
    }
}

/// The traffic of one link in bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Bursts {
    /// Length of a bin.
    pub bin_ns: u64,
    /// Bins from the first to the last that had traffic.
    pub bins: u64,
    /// Number of bins with traffic.
    pub active_bins: u64,
    /// Start of the first bin, Unix time.
    pub first_ns: u64,
    /// The bin with most bytes.
    pub peak: Bin,
    /// The sum of all.
    pub total: Bin,
    /// Bins with at least this many bytes are in a burst: the largest power of two that is no more than half of the
    /// peak.
    pub threshold_bytes: u64,
    /// Runs of such bins.
    pub bursts: u64,
    /// Bins in bursts.
    pub burst_bins: u64,
    /// Median length of bursts, ns.
    pub length_p50_ns: u64,
    /// 99th percentile of the length.
    pub length_p99_ns: u64,
    /// Length of the longest burst, ns.
    pub length_max_ns: u64,
    /// Packets that came too late for their bin.
    pub late_packets: u64,
    /// Bytes of the latest bins.
    pub recent: Vec<u32>,
    /// Bytes over the whole run, `long_bins` bins to a point.
    pub long: Vec<u64>,
    /// Bins to a point of `long`: a power of two.
    pub long_bins: u64,
    /// Number of the bin that the first point of `long` begins with: a multiple of `long_bins`.
    pub long_first: u64,
}

/// Packets come nearly in order: those of the latest bins still find theirs.
const OPEN: u64 = 8;
const PLACES: usize = 8;

/// Classes of packets in a bin: data by its two ECN bits (0 also for what is no data), then CNPs.
const CLASSES: usize = 5;
/// The class of CNPs.
pub const CLASS_CNP: usize = 4;

/// A bin that is being filled: a packet is in one class, and so changes two numbers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct OpenBin {
    index: u64,
    bytes: u64,
    packets: [u64; CLASSES],
}

impl OpenBin {
    #[inline]
    fn add(&mut self, wire_len: u32, class: usize) {
        self.bytes += u64::from(wire_len);
        if let Some(packets) = self.packets.get_mut(class) {
            *packets += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.packets.iter().all(|count| *count == 0)
    }

    /// Takes out a packet that was added.
    fn remove(&mut self, wire_len: u32, class: usize) {
        self.bytes = self.bytes.saturating_sub(u64::from(wire_len));
        if let Some(packets) = self.packets.get_mut(class) {
            *packets = packets.saturating_sub(1);
        }
    }

    fn bin(&self) -> Bin {
        let Self { index, bytes, packets: [none, ect1, ect0, ce, cnp] } = *self;
        let capable = ect1 + ect0 + ce;
        Bin { index, bytes, packets: none + capable + cnp, capable, ce, cnp }
    }
}

/// A packet that is the duplicate of an earlier one, or one of its own.
#[derive(Clone, Copy, Debug)]
pub struct DoubtfulPacket {
    /// Slot of its flow.
    pub slot: u32,
    /// Number of its bin.
    pub bin: u64,
    /// Bytes of its outer frame.
    pub wire_len: u32,
    /// Its class in the bin.
    pub class: usize,
}

/// Bins with traffic that wait for what is in doubt.
const MOST_HELD: usize = 1_024;
/// Packets in doubt: it is decided by some tens of each pair of hosts.
const MOST_DOUBTFUL: usize = 4_096;

/// Bins that have passed and wait for packets in doubt: what is folded cannot be taken out.
#[derive(Clone, Debug, Default)]
struct HeldBins {
    /// By rising index.
    bins: Vec<OpenBin>,
    doubtful: Vec<DoubtfulPacket>,
}

impl HeldBins {
    /// Adds a packet to its bin, which is `new` if there is none.
    fn add(&mut self, new: OpenBin, wire_len: u32, class: usize) {
        match self.bins.binary_search_by_key(&new.index, |bin| bin.index) {
            Ok(at) => self.bins[at].add(wire_len, class),
            Err(at) => self.bins.insert(at, new),
        }
    }

    fn bin_mut(&mut self, index: u64) -> Option<&mut OpenBin> {
        let at = self.bins.binary_search_by_key(&index, |bin| bin.index).ok()?;
        self.bins.get_mut(at)
    }
}

/// Puts packets into bins and folds those that have passed.
#[derive(Clone, Debug, Default)]
pub struct Binner {
    open: [OpenBin; PLACES],
    /// Number of the newest bin.
    newest: u64,
    /// Its start and length; both 0 before the first packet.
    start_ns: u64,
    length_ns: u64,
    folded: BinTotals,
    held: Option<Box<HeldBins>>,
}

impl Binner {
    /// Takes in a packet and gives the number of the newest bin. `bin_ns` must always be the same, and not 0; `class`
    /// is the ECN bits of data, or [`CLASS_CNP`].
    #[inline(always)]
    pub fn packet(&mut self, time_ns: u64, bin_ns: u64, wire_len: u32, class: usize) -> u64 {
        // One comparison for both ends.
        if time_ns.wrapping_sub(self.start_ns) < self.length_ns {
            if let Some(bin) = self.open.get_mut(place(self.newest)) {
                bin.add(wire_len, class);
            }
        } else {
            self.other(time_ns, bin_ns, wire_len, class);
        }
        self.newest
    }

    /// The number of the newest bin, if both times are in it.
    #[inline]
    pub fn newest(&self, (first_ns, last_ns): (u64, u64)) -> Option<u64> {
        let within = |time_ns: u64| time_ns.wrapping_sub(self.start_ns) < self.length_ns;
        (within(first_ns) && within(last_ns)).then_some(self.newest)
    }

    /// Adds packets of one class to the newest bin.
    #[inline]
    pub fn more(&mut self, packets: u64, bytes: u64, class: usize) {
        if let Some(bin) = self.open.get_mut(place(self.newest)) {
            bin.bytes += bytes;
            if let Some(count) = bin.packets.get_mut(class) {
                *count += packets;
            }
        }
    }

    /// A packet that is not in the newest bin.
    #[inline(never)]
    fn other(&mut self, time_ns: u64, bin_ns: u64, wire_len: u32, class: usize) {
        let index = time_ns / bin_ns.max(1);
        if self.length_ns == 0 || index > self.newest {
            let oldest = index.saturating_sub(OPEN - 1);
            let passed = self.in_order();
            let passed = passed.iter().filter(|bin| bin.index < oldest);
            if let Some(held) = &mut self.held {
                held.bins.extend(passed.filter(|bin| !bin.is_empty()));
                if held.bins.len() > MOST_HELD {
                    self.release();
                }
            } else {
                passed.for_each(|bin| self.folded.fold(&bin.bin()));
            }
            for at in oldest..=index {
                if let Some(bin) = self.open.get_mut(place(at))
                    && bin.index != at
                {
                    *bin = OpenBin { index: at, ..OpenBin::default() };
                }
            }
            self.newest = index;
            self.start_ns = index.saturating_mul(bin_ns);
            self.length_ns = self.start_ns.saturating_add(bin_ns) - self.start_ns;
        }
        match self.open.get_mut(place(index)) {
            Some(bin) if bin.index == index => bin.add(wire_len, class),
            _ => {
                let mut late = OpenBin { index, ..OpenBin::default() };
                late.add(wire_len, class);
                match &mut self.held {
                    Some(held) if index > self.folded.last => held.add(late, wire_len, class),
                    _ => self.folded.fold(&late.bin()),
                }
            }
        }
    }

    /// The open bins, the oldest first.
    fn in_order(&self) -> [OpenBin; PLACES] {
        let mut open = self.open;
        open.sort_unstable_by_key(|bin| bin.index);
        open
    }

    /// The bins that are not folded, the oldest first.
    fn not_folded(&self) -> impl Iterator<Item = Bin> {
        let held = self.held.as_ref().map_or(&[][..], |held| &held.bins);
        held.iter().map(OpenBin::bin).chain(self.in_order().map(|open| open.bin()))
    }

    /// The latest packet may be a duplicate: its bin waits until that is known, unless it has been folded.
    pub fn doubt(&mut self, packet: DoubtfulPacket) {
        let is_open = self.open.get(place(packet.bin)).is_some_and(|bin| bin.index == packet.bin);
        if !is_open && self.held.as_mut().is_none_or(|held| held.bin_mut(packet.bin).is_none()) {
            return;
        }
        let doubtful = &mut self.held.get_or_insert_default().doubtful;
        doubtful.push(packet);
        if doubtful.len() > MOST_DOUBTFUL {
            self.release();
        }
    }

    /// The packets of a flow that were in doubt are duplicates; gives their lengths.
    pub fn take_out(&mut self, slot: u32) -> Vec<u32> {
        let Some(mut held) = self.held.take() else { return Vec::new() };
        let (duplicates, rest): (Vec<DoubtfulPacket>, Vec<DoubtfulPacket>) =
            std::mem::take(&mut held.doubtful).into_iter().partition(|one| one.slot == slot);
        for DoubtfulPacket { bin, wire_len, class, .. } in &duplicates {
            let open = self.open.get_mut(place(*bin)).filter(|open| open.index == *bin);
            if let Some(bin) = open.or_else(|| held.bin_mut(*bin)) {
                bin.remove(*wire_len, *class);
            }
        }
        held.doubtful = rest;
        if self.held.insert(held).doubtful.is_empty() {
            self.release();
        }
        duplicates.into_iter().map(|one| one.wire_len).collect()
    }

    /// A packet in this bin passed again, marked CE by now.
    pub fn marked(&mut self, bin: u64) {
        let open = self.open.get_mut(place(bin)).filter(|open| open.index == bin);
        let Some(OpenBin { packets: [_, ect1, ect0, ce, _], .. }) = open else { return };
        if let Some(from) = [ect0, ect1].into_iter().find(|packets| **packets > 0) {
            (*from, *ce) = (*from - 1, *ce + 1);
        }
    }

    /// Folds the bins that were held: what is in doubt stays in them.
    #[cold]
    fn release(&mut self) {
        let held = self.held.take();
        held.into_iter().flat_map(|held| held.bins).for_each(|bin| self.folded.fold(&bin.bin()));
    }

    /// The figures up to now, bins that are not complete included.
    pub fn bursts(&self, bin_ns: u64) -> Option<Bursts> {
        let mut folded = self.folded.clone();
        for bin in self.not_folded() {
            folded.fold(&bin);
        }
        folded.bursts(bin_ns)
    }

    /// The traffic over the whole run, bins that are not complete included.
    pub fn points(&self, bin_ns: u64) -> LinkPoints {
        let mut points = self.folded.points.clone();
        points.bin_ns = bin_ns;
        for bin in self.not_folded().filter(|bin| bin.packets > 0) {
            points.add(bin.index, &point(&bin));
        }
        points
    }
}

/// Point of the timeline for a bin; its signals come from the collectors that judge them.
fn point(bin: &Bin) -> Point {
    let capable = u32::try_from(bin.capable).unwrap_or(u32::MAX);
    Point { bytes: bin.bytes, capable, ..Point::default() }
}

/// The place of an open bin.
#[inline]
fn place(index: u64) -> usize {
    (index % OPEN) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(bins: &[(u64, u64)]) -> Bursts {
        let mut folded = BinTotals::default();
        for (index, bytes) in bins {
            folded.fold(&Bin { index: *index, bytes: *bytes, packets: 1, ..Bin::default() });
        }
        folded.bursts(1000).unwrap()
    }

    #[test]
    fn bursts_are_runs_near_the_peak() {
        // Peak 1000: a burst has at least 256 in each bin.
        let b =
            fold(&[(10, 300), (11, 1000), (12, 256), (13, 255), (15, 256), (16, 1), (20, 600), (21, 600)]);
        assert_eq!((b.bins, b.active_bins, b.threshold_bytes), (12, 8, 256));
        assert_eq!((b.peak.index, b.peak.bytes, b.total.bytes), (11, 1000, 3268));
        assert_eq!((b.bursts, b.burst_bins), (3, 6));
        assert_eq!((b.length_p50_ns, b.length_max_ns), (2000, 3000));
    }

    #[test]
    fn a_steady_stream_is_one_burst() {
        let b = fold(&(0..10_000).map(|i| (i, 5000)).collect::<Vec<_>>());
        assert_eq!((b.bursts, b.burst_bins, b.length_max_ns), (1, 10_000, 10_000_000));
        assert_eq!(b.bins, b.active_bins);
    }

    /// Any threshold is known at the end, whatever came first.
    #[test]
    fn small_bursts_before_the_peak_do_not_count() {
        let mut bins: Vec<(u64, u64)> = (0..50).map(|i| (2 * i, 100)).collect();
        bins.push((200, 1 << 20));
        let b = fold(&bins);
        assert_eq!((b.bursts, b.burst_bins), (1, 1));
    }

    #[test]
    fn lengths_are_at_most_a_quarter_too_long() {
        for length in 0..100_000u64 {
            let reported = bucket_length(length_bucket(length));
            assert!(reported >= length && reported <= length + length / 4, "{length}: {reported}");
        }
        assert_eq!(length_bucket(u64::MAX), LENGTHS - 1);
    }

    #[test]
    fn packets_find_their_bins_in_disorder() {
        let mut binner = Binner::default();
        for time in [10_000, 10_999, 12_500, 10_500, 30_000, 12_001, 5, 29_999] {
            binner.packet(time, 1000, 100, if time == 12_500 { 3 } else { 2 });
        }
        let b = binner.bursts(1000).unwrap();
        // 10: three packets; 12: one, and one that came when its bin had passed; 29 and 30; 5 is far too late.
        assert_eq!((b.total.packets, b.total.bytes, b.total.capable, b.total.ce), (8, 800, 8, 1));
        assert_eq!((b.peak.index, b.peak.bytes), (10, 300));
        assert_eq!((b.late_packets, b.active_bins, b.bins), (2, 4, 21));
    }

    /// Bins that were open when time jumped ahead pass in their order.
    #[test]
    fn bins_before_a_silence_are_not_late() {
        let mut binner = Binner::default();
        for index in (0..13).chain(40..53).chain(100..101) {
            binner.packet(index * 1000, 1000, 100, 0);
        }
        let b = binner.bursts(1000).unwrap();
        assert_eq!((b.late_packets, b.active_bins, b.bursts, b.length_max_ns), (0, 27, 3, 13_000));
    }

    #[test]
    fn a_clock_that_jumps_costs_nothing() {
        let mut binner = Binner::default();
        for time in [0, 1, u64::MAX, 5, u64::MAX - 1, 1 << 62] {
            binner.packet(time, 100_000, 1500, CLASS_CNP);
        }
        let b = binner.bursts(100_000).unwrap();
        assert_eq!(b.total.packets, 6);
    }
}
