//! Hosts, who sends to whom, and how many at once.

use super::super::duplicates::DuplicateCounts;
pub use super::degree::{DEGREES, Degree};
use super::windows::{Window, Windows, count};
use crate::util::definition::definitions;
use crate::util::index::Index;
use crate::util::pack::pack;
use rocescope_common::account::FlowKey;
use rocescope_common::wire::frame::Addr;

/// Pairs of hosts that are counted separately, per run; packets of the others are counted in [`Pairs::left_out`].
pub const MAX_PAIRS: usize = 65_536;
/// Number of a pair that found no room.
pub const NO_PAIR: u32 = u32::MAX;

definitions! {
    pub BIN_BYTES: u64 = 2_097_152,
        "Data to one receiver that ends a bin of data, in bytes",
        "The buffer that a switch gives one port, from one to some megabytes: packets that queue together are in one bin, even where a FIFO sends them in long runs of one sender after the other";
    pub SILENCE_NS: u64 = 200_000,
        "Silence that ends a bin of data, in nanoseconds",
        "A port that has sent nothing for this long has an empty queue. Longer than a 4 KB packet takes at 200 Mb/s, and than network cards delay interrupts";
    pub TURN_NS: u64 = 20_000,
        "Minimum silence after which a further sender takes its turn, where no message and no READ is in progress, in nanoseconds",
        "Through two network cards and a switch a host hears after some microseconds that it may send, and timestamps of interrupts vary by as much";
    pub TURN_PACKETS: u64 = 8,
        "Minimum silence after which a further sender takes its turn, where no message and no READ is in progress, in packets at the pace of the bin",
        "A port with a queue sends one after the other";
}

/// An address and its form (4 or 6).
pub type Host = (u8, Addr);

/// One direction between two hosts on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Pair {
    /// Packets of every kind.
    pub packets: u64,
    /// Bytes of their outer frames.
    pub bytes: u64,
    /// Outer frames of what is no acknowledgement and no CNP.
    pub data_bytes: u64,
    /// The target's turn at the latest packet with data.
    turn: u64,
    target: u32,
    /// The other direction between the two, or [`NO_PAIR`].
    back: u32,
    /// The last bin with data, to count a sender once.
    bin: u64,
    /// The same of bins of data, by their number.
    overlap: u64,
    /// READ requests in this direction whose responses have not ended.
    asked: u32,
    /// Index of the link.
    pub link: u16,
    /// Time to live, or hop limit, of its first packet; 0 where that is not known.
    pub hops: u8,
    /// Times at which the first and the last of the READ requests were sent.
    asked_ns: (u64, u64),
    /// Host that sends.
    pub src: Host,
    /// Host that receives.
    pub dst: Host,
}

impl Pair {
    /// READ requests of which the responses come in the other direction.
    fn has_read_requests(&self, until_ns: u64) -> bool {
        self.asked > 0 && self.asked_ns.0 <= until_ns
    }
}

/// Traffic that a host receives on one link, by the number of senders in a bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Target {
    /// Goes up whenever a bin of time or of data begins: in a turn, a sender is counted at its first packet.
    turn: u64,
    bin: u64,
    /// The latest data packet of the open bin of data.
    last_ns: u64,
    /// Bytes of the open bin of time with which that of data is full.
    full_at: u64,
    open: Degree,
    open_senders: u32,
    /// Messages and READ responses to it that have begun and not ended.
    in_progress: u32,
    overlap: Overlap,
    /// Index of the link.
    pub link: u16,
    /// Host that receives.
    pub host: Host,
    /// Hosts that sent data to it over the whole run.
    pub senders: u64,
    /// By the number of senders in the bin; the last holds all above.
    pub degrees: Vec<Degree>,
    /// The same in bins of data: up to [`BIN_BYTES`] without a silence of [`SILENCE_NS`].
    pub overlaps: Vec<Degree>,
    /// The same over time.
    pub windows: Windows,
    /// Bytes in its fullest bin.
    pub peak_bytes: u64,
    /// Senders in that bin.
    pub peak_senders: u32,
}

const _: () =
    assert!(std::mem::offset_of!(Target, open.bins) == 64, "what each packet changes is one cache line");

pack! {
    struct Pair {
        link, src, dst, packets, bytes, data_bytes, hops, target, turn, bin, overlap, back, asked, asked_ns,
    }
    struct Target {
        turn, bin, last_ns, full_at, open, open_senders, in_progress, overlap, link, host, senders, degrees, overlaps, windows, peak_bytes, peak_senders,
    }
    struct Windows { begun_ns, open, ended }
    struct Window { first_ns, last_ns, overlaps }
    struct Overlap { number, senders, sum, before, first_ns }
}

/// The bin of data that is being filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Overlap {
    number: u64,
    senders: u32,
    /// Without the packets of the open bin of time.
    sum: Degree,
    /// State at the start of the open bin of time.
    before: Degree,
    first_ns: u64,
}

impl Target {
    /// Adds data packets to the open bins.
    #[inline(always)]
    fn add(&mut self, seen: &BinPackets) {
        self.last_ns = self.last_ns.max(seen.last_ns);
        self.open.packets += seen.data_packets;
        self.open.bytes += seen.data_bytes;
        self.open.ce += seen.ce;
        if seen.gaps != 0 {
            self.open.gaps += seen.gaps;
        }
    }

    /// Data in the open bin of data.
    fn overlap(&self) -> Degree {
        let (mut sum, before) = (self.overlap.sum, &self.overlap.before);
        sum.packets += self.open.packets - before.packets;
        sum.bytes += self.open.bytes - before.bytes;
        sum.ce += self.open.ce - before.ce;
        sum.gaps += self.open.gaps - before.gaps;
        sum
    }

    /// Ends the open bin of time.
    fn fold(&mut self) {
        self.turn += 1;
        self.overlap.sum = self.overlap();
        self.full_at = self.full_at.saturating_sub(self.open.bytes);
        self.overlap.before = Degree::default();
        let open = Degree { bins: 1, ..std::mem::take(&mut self.open) };
        if open.packets == 0 {
            return;
        }
        if open.bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_senders) = (open.bytes, self.open_senders);
        }
        count(&mut self.degrees, self.open_senders, &open);
        self.open_senders = 0;
    }

    /// Another bin begins with a packet at `now_ns`: of time, unless `bin` is the open one, or of data.
    #[inline(never)]
    fn another_bin(&mut self, bin: u64, now_ns: u64) {
        if self.bin != bin {
            self.fold();
            self.bin = bin;
        }
        if now_ns > self.last_ns.saturating_add(SILENCE_NS) || self.open.bytes >= self.full_at {
            self.fold_overlap();
            self.overlap.first_ns = now_ns;
        }
    }

    /// Ends the bin of data before a sender that takes its turn: the others have nothing in progress, and pause.
    /// `asked`: the READ request that it answers, if any, was sent while they had not.
    fn turn(&mut self, pair: &Pair, asked: bool, now_ns: u64) {
        let (last_ns, Overlap { number, senders, first_ns, .. }) = (self.last_ns, self.overlap);
        let silence_ns = now_ns.saturating_sub(last_ns);
        if asked || self.in_progress > 0 || senders == 0 || pair.overlap == number || silence_ns <= TURN_NS {
            return;
        }
        let intervals = self.overlap().packets.saturating_sub(1);
        let pace_ns = last_ns.saturating_sub(first_ns).checked_div(intervals);
        if pace_ns.is_some_and(|pace_ns| silence_ns > TURN_PACKETS.saturating_mul(pace_ns)) {
            self.fold_overlap();
            self.overlap.first_ns = now_ns;
        }
    }

    /// Counts a sender at its first data packet in a turn; `first`: in the whole run.
    #[inline(never)]
    fn sender(&mut self, pair: &mut Pair, first: bool) {
        pair.turn = self.turn;
        if pair.bin != self.bin {
            pair.bin = self.bin;
            self.open_senders += 1;
        }
        if pair.overlap != self.overlap.number {
            pair.overlap = self.overlap.number;
            self.overlap.senders += 1;
        }
        self.senders += u64::from(first);
    }

    /// Ends the open bin of data.
    #[cold]
    fn fold_overlap(&mut self) {
        self.turn += 1;
        let mut bin = Degree { bins: 1, ..self.overlap() };
        let (last_ns, Overlap { number, senders, first_ns, .. }) = (self.last_ns, self.overlap);
        (self.last_ns, self.full_at) = (0, self.open.bytes.saturating_add(BIN_BYTES));
        self.overlap = Overlap { number: number + 1, before: self.open, ..Overlap::default() };
        if bin.packets == 0 {
            return;
        }
        if bin.gaps > 0 {
            (bin.lossy_bytes, bin.lossy_ns) = (bin.bytes, last_ns.saturating_sub(first_ns));
        }
        count(&mut self.overlaps, senders, &bin);
        self.windows.bin(&self.overlaps, senders, &bin, (first_ns, last_ns));
    }
}

/// Packets of one bin as pairs see them: one, or all of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct BinPackets {
    /// Number of the newest bin.
    pub bin: u64,
    /// First of these packets, in nanoseconds.
    pub first_ns: u64,
    /// Last of these packets.
    pub last_ns: u64,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of their outer frames.
    pub bytes: u64,
    /// Those that are no acknowledgement and no CNP.
    pub data_packets: u64,
    /// Outer frames of these.
    pub data_bytes: u64,
    /// Of these, those marked CE.
    pub ce: u64,
    /// Jumps of a PSN ahead.
    pub gaps: u64,
}

/// All pairs of hosts.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Packets of one bin come flow by flow and not in the order of time: a bin of data ends where one of time does.
    by_flow: bool,
    list: Vec<Pair>,
    targets: Vec<Target>,
    index: Index,
    target_index: Index,
    left_out: u64,
}

/// Key of a pair.
fn hosts(list: &[Pair], number: u32) -> Option<(u16, Host, Host)> {
    let pair = list.get(number as usize)?;
    Some((pair.link, pair.src, pair.dst))
}

/// Key of a target.
fn place(list: &[Target], number: u32) -> Option<(u16, Host)> {
    list.get(number as usize).map(|target| (target.link, target.host))
}

impl Pairs {
    /// Of packets that come flow by flow within each bin.
    pub fn by_flow() -> Self {
        Self { by_flow: true, ..Self::default() }
    }

    /// The number of a target, which may be new.
    fn target(&mut self, link: u16, host: Host) -> u32 {
        let known = self.target_index.get(&(link, host), |number| place(&self.targets, number));
        if let Some(number) = known {
            return number;
        }
        // No more than pairs.
        let number = u32::try_from(self.targets.len()).unwrap_or(NO_PAIR);
        self.targets.push(Target { link, host, bin: u64::MAX, ..Target::default() });
        let targets = &self.targets;
        self.target_index.insert(&(link, host), number, |number| place(targets, number));
        number
    }

    /// The number of the pair that a flow is between, or [`NO_PAIR`]; `hops` of the flow's first packet.
    pub fn number(&mut self, key: &FlowKey, hops: u8) -> u32 {
        let FlowKey { link, family, .. } = *key;
        let (src, dst) = ((family, key.src), (family, key.dst));
        let own = (link, src, dst);
        if let Some(number) = self.index.get(&own, |number| hosts(&self.list, number)) {
            return number;
        }
        if self.list.len() >= MAX_PAIRS {
            return NO_PAIR;
        }
        let Ok(number) = u32::try_from(self.list.len()) else { return NO_PAIR };
        let target = self.target(link, dst);
        let back = self.index.get(&(link, dst, src), |number| hosts(&self.list, number)).unwrap_or(NO_PAIR);
        if let Some(back) = self.list.get_mut(back as usize) {
            back.back = number;
        }
        let none = u64::MAX;
        self.list.push(Pair {
            link,
            src,
            dst,
            packets: 0,
            bytes: 0,
            data_bytes: 0,
            hops,
            target,
            turn: none,
            bin: none,
            overlap: none,
            back,
            asked: 0,
            asked_ns: (0, 0),
        });
        let list = &self.list;
        self.index.insert(&own, number, |number| hosts(list, number));
        number
    }

    /// Counts packets between the hosts of a pair.
    #[inline(always)]
    pub fn packets(&mut self, number: u32, seen: BinPackets) {
        let Some(pair) = self.list.get_mut(number as usize) else {
            self.left_out += seen.packets;
            return;
        };
        pair.packets += seen.packets;
        pair.bytes += seen.bytes;
        if seen.data_packets == 0 {
            return;
        }
        pair.data_bytes += seen.data_bytes;
        let Some(target) = self.targets.get_mut(pair.target as usize) else { return };
        let another = target.bin != seen.bin;
        if another
            || !self.by_flow
                && (seen.first_ns > target.last_ns.saturating_add(SILENCE_NS)
                    || target.open.bytes >= target.full_at)
        {
            target.another_bin(seen.bin, seen.first_ns);
        }
        if pair.turn != target.turn {
            let first = pair.data_bytes == seen.data_bytes;
            if !self.by_flow {
                let (pair, last_ns) = (*pair, target.last_ns);
                let asked =
                    self.list.get(pair.back as usize).is_some_and(|back| back.has_read_requests(last_ns));
                target.turn(&pair, asked, seen.first_ns);
            }
            if let Some(pair) = self.list.get_mut(number as usize) {
                target.sender(pair, first);
            }
        }
        target.add(&seen);
    }

    /// Counts data packets of one length and flow as [`packets`](Self::packets) does one by one, if none of them begins
    /// a bin and the sender has its turn; otherwise nothing.
    #[inline]
    pub fn more(&mut self, number: u32, seen: BinPackets, wire_len: u64) -> bool {
        let Some(pair) = self.list.get_mut(number as usize) else {
            self.left_out += seen.packets;
            return true;
        };
        let Some(target) = self.targets.get_mut(pair.target as usize) else { return false };
        let before_last = target.open.bytes + seen.data_bytes - wire_len;
        if target.bin != seen.bin
            || pair.turn != target.turn
            || seen.first_ns > target.last_ns.saturating_add(SILENCE_NS)
            || seen.last_ns - seen.first_ns > SILENCE_NS
            || before_last >= target.full_at
        {
            return false;
        }
        pair.packets += seen.packets;
        pair.bytes += seen.bytes;
        pair.data_bytes += seen.data_bytes;
        target.add(&seen);
        true
    }

    /// A data packet between the hosts of a pair passed again, marked CE by now.
    pub fn marked(&mut self, number: u32) {
        let Some(pair) = self.list.get(number as usize) else { return };
        let Some(target) = self.targets.get_mut(pair.target as usize) else { return };
        // It may have been in the bin before: no bin has more marks than packets.
        let in_overlap = target.overlap();
        if target.open.ce < target.open.packets && in_overlap.ce < in_overlap.packets {
            target.open.ce += 1;
        }
    }

    /// Takes out duplicates that were counted between the hosts of a pair.
    pub fn take_out(&mut self, number: u32, duplicates: &DuplicateCounts) {
        let Some(pair) = self.list.get_mut(number as usize) else { return };
        pair.packets = pair.packets.saturating_sub(duplicates.packets);
        pair.bytes = pair.bytes.saturating_sub(duplicates.bytes);
        pair.data_bytes = pair.data_bytes.saturating_sub(duplicates.data_bytes);
    }

    /// A message, or the response to a READ, has begun or ended in one of the flows of a pair.
    pub fn in_progress(&mut self, number: u32, begun: bool) {
        let Some(pair) = self.list.get(number as usize) else { return };
        let Some(target) = self.targets.get_mut(pair.target as usize) else { return };
        let now = target.in_progress;
        target.in_progress = if begun { now.saturating_add(1) } else { now.saturating_sub(1) };
    }

    /// A READ request was sent.
    pub fn read_requested(&mut self, number: u32, time_ns: u64) {
        let Some(pair) = self.list.get_mut(number as usize) else { return };
        pair.asked = pair.asked.saturating_add(1);
        pair.asked_ns = if pair.asked == 1 { (time_ns, time_ns) } else { (pair.asked_ns.0, time_ns) };
    }

    /// The response to a READ of the other direction has ended.
    pub fn answered(&mut self, number: u32) {
        let back = self.list.get(number as usize).map_or(NO_PAIR, |pair| pair.back);
        let Some(back) = self.list.get_mut(back as usize) else { return };
        back.asked = back.asked.saturating_sub(1);
        // The times between first and last are not kept: those that are left were sent by the last of them.
        back.asked_ns.0 = back.asked_ns.1;
    }

    /// The pairs by number.
    pub fn pairs(&self) -> &[Pair] {
        &self.list
    }

    /// Receivers and their bins, incomplete bins included.
    pub fn targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> =
            self.targets.iter().filter(|target| target.senders > 0).cloned().collect();
        for target in &mut targets {
            target.fold_overlap();
            target.windows.end();
            target.fold();
        }
        targets
    }

    /// Packets between hosts for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(pairs: &mut Pairs, src: u32, bin: u64, data: bool) {
        let key = FlowKey { src: [0, 0, 0, src], dst: [0, 0, 0, 9], family: 4, ..FlowKey::default() };
        let number = pairs.number(&key, 64);
        let data = u64::from(data);
        let ce = if src == 3 { data } else { 0 };
        let (packets, bytes, data_bytes) = (1, 1000, data * 1000);
        let (first_ns, last_ns) = (bin * 1_000_000, bin * 1_000_000);
        pairs.packets(
            number,
            BinPackets {
                bin,
                first_ns,
                last_ns,
                packets,
                bytes,
                data_packets: data,
                data_bytes,
                ce,
                gaps: 0,
            },
        );
    }

    /// The duplicates of what was in the bin before come when that has few packets.
    #[test]
    fn no_bin_has_more_marks_than_packets() {
        let mut pairs = Pairs::default();
        send(&mut pairs, 1, 5, true);
        for _ in 0..3 {
            pairs.marked(0);
        }
        send(&mut pairs, 1, 6, true);
        pairs.marked(0);
        let targets = pairs.targets();
        for degrees in [&targets[0].degrees, &targets[0].overlaps] {
            let all: Degree = degrees.iter().copied().sum();
            assert_eq!((all.packets, all.ce), (2, 2));
        }
    }

    #[test]
    fn senders_are_counted_once_per_bin() {
        let mut pairs = Pairs::default();
        for (src, bin) in [(1, 5), (2, 5), (1, 5), (3, 5), (1, 6), (1, 6), (2, 9)] {
            send(&mut pairs, src, bin, true);
        }
        send(&mut pairs, 4, 9, false);
        let targets = pairs.targets();
        assert_eq!((targets.len(), targets[0].senders), (1, 3));
        let [_, one, _, three] = targets[0].degrees[..] else { panic!("{:?}", targets[0].degrees) };
        assert_eq!((one.bins, one.bytes), (2, 3000));
        assert_eq!((three.bins, three.bytes, three.ce), (1, 4000, 1));
        assert_eq!((targets[0].peak_bytes, targets[0].peak_senders), (4000, 3));
        assert_eq!(pairs.pairs().len(), 4);
        assert_eq!((pairs.pairs()[3].data_bytes, pairs.pairs()[3].bytes), (0, 1000));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pairs = Pairs::default();
        for src in 0..u32::try_from(MAX_PAIRS).unwrap() + 2 {
            send(&mut pairs, src, 1, true);
        }
        assert_eq!((pairs.pairs().len(), pairs.left_out()), (MAX_PAIRS, 2));
        let targets = pairs.targets();
        assert_eq!(targets[0].degrees.len(), DEGREES);
        assert_eq!(targets[0].degrees[DEGREES - 1].bins, 1);
    }
}
