//! Latency measurement in the kernel: the flows measured, and their results.
//!
//! An entry of the kernel's array belongs to one request flow, as long as its response flow is known. Slots name the
//! entries to which their packets belong. To release an entry, its number is removed from both slots; after a grace
//! period no program uses the entry, which is then read for the last time, cleared, and reused.

use std::io;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use aya::maps::MapData;
use rocescope_common::abi::Timing;
use rocescope_common::account::latency::{Latency, RING, RetxRun};

use super::bpf;
use super::slots::{Slots, mmap};
use crate::host::kernel::clock::monotonic_ns;
use crate::sample::Stats;
use crate::util::map::Map;

/// The counters of a sequence of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LossSignal {
    /// Number of retransmitted packets.
    pub(crate) repeats: u64,
    /// Number of PSN gaps.
    pub(crate) gaps: u64,
}

impl LossSignal {
    fn of(stats: &Stats) -> Self {
        Self { repeats: stats.psn.repeats, gaps: stats.psn.gaps }
    }
}

/// The counters of a flow when the kernel began to report its gaps and retransmissions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Base {
    pub(crate) loss_signal: LossSignal,
    pub(super) packets: u64,
    pub(super) missing: u64,
    /// Expected PSN of the sequence.
    pub(super) expected: u32,
}

impl Base {
    pub(crate) fn of(stats: &Stats) -> Self {
        Self {
            loss_signal: LossSignal::of(stats),
            packets: stats.packets,
            missing: stats.psn.missing,
            expected: stats.psn.expected,
        }
    }
}

/// The entry of a request flow.
#[derive(Clone, Copy, Debug)]
struct Timed {
    /// Index of the entry in its map, from 1.
    entry: u16,
    /// Slot of the response flow; `None` for requests of which only repeats are followed.
    answers: Option<u32>,
}

/// The kind of change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The requests in a slot got an entry.
    Timed {
        slot: u32,
        answers: Option<u32>,
        /// Start of the measurement, in the kernel's clock.
        since_ns: u64,
        /// Their counters at the start; `None` if they kept changing during the reading.
        base: Option<Base>,
    },
    /// They have no entry any more.
    Ended { slot: u32 },
}

/// The kernel's entries and their assignment.
#[derive(Debug, Default)]
pub(crate) struct Times {
    map: Option<Entries>,
    free: Vec<u16>,
    /// By slot of the request flow.
    timed: Map<u32, Timed>,
    /// Slot of the request flow, by slot of the response flow.
    answering: Map<u32, u32>,
    /// Measurements of flows whose entries were reassigned, by slot.
    kept: Map<u32, Box<Latency>>,
    /// Requests counted while a flow had an entry but no known response flow, by slot.
    unpaired: Map<u32, u64>,
    changes: Vec<Change>,
}

impl Times {
    /// An empty assignment of this number of entries; `None` if the programs have no such map.
    ///
    /// # Errors
    /// If the map cannot be mapped into memory.
    pub(crate) fn new(map: Option<MapData>, entries: u32) -> io::Result<Self> {
        Ok(Self::unassigned(map.map(|map| Entries::map(map, entries)).transpose()?))
    }

    fn unassigned(map: Option<Entries>) -> Self {
        let free = map.as_ref().map(|map| map.numbers().rev().collect()).unwrap_or_default();
        Self { map, free, ..Self::default() }
    }

    /// Forgets all assignments and results. No program may be running.
    #[cfg(feature = "test-clock")]
    pub(crate) fn start_anew(&mut self) {
        let map = self.map.take();
        if let Some(map) = &map {
            map.numbers().for_each(|number| map.clear(number));
        }
        *self = Self::unassigned(map);
    }

    /// Number of free entries.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// The changes since the previous call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// True if a request flow has an entry.
    pub(crate) fn has(&self, requests: u32) -> bool {
        self.timed.contains_key(&requests)
    }

    /// The slot of the response flow of a measured request flow.
    pub(crate) fn answers_of(&self, requests: u32) -> Option<u32> {
        self.timed.get(&requests)?.answers
    }

    /// Slots of request flows with an entry, with those of their response flows.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Option<u32>)> {
        self.timed.iter().map(|(requests, timed)| (*requests, timed.answers))
    }

    /// Request flows whose measurement needs the flow in this slot.
    pub(crate) fn of(&self, slot: u32) -> impl Iterator<Item = u32> {
        let own = self.timed.contains_key(&slot).then_some(slot);
        own.into_iter().chain(self.answering.get(&slot).copied())
    }

    /// Measures the requests in one slot by the responses in another from now on; without a response flow only
    /// repeats are followed. False if there is no room, or if one of the flows is already in use.
    ///
    /// # Errors
    /// If there is no such slot.
    pub(crate) fn assign(&mut self, slots: &Slots, requests: u32, answers: Option<u32>) -> io::Result<bool> {
        let taken = answers.is_some_and(|answers| self.answering.contains_key(&answers));
        if self.timed.contains_key(&requests) || taken {
            return Ok(false);
        }
        let Some(entry) = self.free.pop() else { return Ok(false) };
        self.timed.insert(requests, Timed { entry, answers });
        if let Some(answers) = answers {
            self.answering.insert(answers, requests);
            if answers != requests {
                self.tell(slots, answers)?;
            }
        }
        let (since_ns, base) = self.begin(slots, requests)?;
        self.changes.push(Change::Timed { slot: requests, answers, since_ns, base });
        Ok(true)
    }

    /// Makes the programs report gaps and retransmissions of the requests in a slot. Returns a time and the counters
    /// at that time: everything counted later is reported.
    fn begin(&self, slots: &Slots, requests: u32) -> io::Result<(u64, Option<Base>)> {
        /// With a million packets per second and a loss of one in a hundred, one of fifty attempts sees a change.
        const TRIES: usize = 4;
        let read = || -> io::Result<Option<Base>> {
            Ok(slots.read(requests)?.map(|place| Base::of(&crate::sample::from_kernel(&place.stats))))
        };
        for _ in 0..TRIES {
            let since_ns = monotonic_ns();
            let before = read()?;
            self.tell(slots, requests)?;
            match (before, read()?) {
                (Some(before), Some(after)) if before.loss_signal == after.loss_signal => {
                    return Ok((since_ns, Some(after)));
                }
                // An unused slot: its flow is still to come.
                (None, None) => return Ok((0, Some(Base::default()))),
                _ => {}
            }
        }
        Ok((monotonic_ns(), None))
    }

    /// Writes the entry numbers of a slot into the slot.
    fn tell(&self, slots: &Slots, slot: u32) -> io::Result<()> {
        let own = self.timed.get(&slot).map_or(0, |timed| timed.entry);
        let requests = self.answering.get(&slot).and_then(|requests| self.timed.get(requests));
        slots.set_pair(slot, Timing::pair(own, requests.map_or(0, |timed| timed.entry)))
    }

    /// Ends the measurement of these request flows. Their results are kept.
    ///
    /// # Errors
    /// If there is no such slot.
    pub(crate) fn release(&mut self, slots: &Slots, requests: &[u32]) -> io::Result<()> {
        let mut gone = Vec::new();
        for slot in requests {
            if let Some(timed) = self.timed.remove(slot) {
                self.changes.push(Change::Ended { slot: *slot });
                self.tell(slots, *slot)?;
                if let Some(answers) = timed.answers {
                    self.answering.remove(&answers);
                    self.tell(slots, answers)?;
                }
                gone.push((*slot, timed));
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        bpf::quiesce();
        for (slot, Timed { entry, answers }) in gone {
            if let Some(map) = &self.map {
                let mut last = map.read(entry);
                if answers.is_none() {
                    *self.unpaired.entry(slot).or_default() += waiting(&last);
                } else {
                    // Their responses will not be recorded.
                    last.ambiguous_responses += last.outstanding();
                    last.ring = [0; RING];
                    fold(self.kept.entry(slot).or_insert_with(|| Box::new(Latency::EMPTY)), &last);
                }
                map.clear(entry);
            }
            self.free.push(entry);
        }
        Ok(())
    }

    /// Call when the flow of a slot was retired and its measurement has ended: discards the results.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.kept.remove(&slot);
        self.unpaired.remove(&slot);
    }

    /// Requests counted while the flow had an entry but no known response flow.
    pub(crate) fn unpaired(&self, slot: u32) -> u64 {
        let before = self.unpaired.get(&slot).copied().unwrap_or(0);
        let now = match (self.timed.get(&slot), &self.map) {
            (Some(Timed { entry, answers: None }), Some(map)) => waiting(&map.read(*entry)),
            _ => 0,
        };
        before + now
    }

    /// Slots of flows that may have results.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        let kept = self.kept.keys().filter(|slot| !self.timed.contains_key(*slot));
        self.timed.keys().chain(kept).copied()
    }

    /// True if the requests in a slot expected a response, as far as their entry shows.
    pub(crate) fn expected_response(&self, requests: u32) -> bool {
        self.entry(requests).is_some_and(|(map, entry)| map.head_and_tail(entry).0 != 0)
    }

    /// True if any of them was acknowledged.
    pub(crate) fn answered(&self, requests: u32) -> bool {
        self.entry(requests).is_some_and(|(map, entry)| map.head_and_tail(entry).1 != 0)
    }

    /// The current run of retransmissions of a slot's requests.
    pub(crate) fn run(&self, requests: u32) -> Option<RetxRun> {
        let (map, entry) = self.entry(requests)?;
        Some(map.run(entry)).filter(|run| run.packets != 0)
    }

    fn entry(&self, requests: u32) -> Option<(&Entries, u16)> {
        Some((self.map.as_ref()?, self.timed.get(&requests)?.entry))
    }

    /// Latency of the requests in a slot so far; `None` if never measured.
    pub(crate) fn read(&self, slot: u32) -> Option<Box<Latency>> {
        let kept = self.kept.get(&slot).cloned();
        let timed = self.timed.get(&slot).filter(|timed| timed.answers.is_some());
        let entry = timed.and_then(|timed| Some(self.map.as_ref()?.read(timed.entry)));
        match (kept, entry) {
            (Some(mut sum), Some(entry)) => {
                fold(&mut sum, &entry);
                sum.ring = entry.ring;
                Some(sum)
            }
            (kept, entry) => kept.or_else(|| entry.map(Box::new)),
        }
    }
}

/// Requests in an entry that no response will remove.
fn waiting(entry: &Latency) -> u64 {
    entry.outstanding() + entry.ring_full + entry.ambiguous
}

fn fold(sum: &mut Latency, more: &Latency) {
    sum.ambiguous += more.ambiguous;
    sum.ambiguous_responses += more.ambiguous_responses;
    sum.ring_full += more.ring_full;
    let maximums = sum.max_ns.iter_mut().chain(&mut sum.completion_max_ns);
    for (sum, more) in maximums.zip(more.max_ns.iter().chain(&more.completion_max_ns)) {
        *sum = (*sum).max(*more);
    }
    let counts = sum.counts.as_flattened_mut().iter_mut().chain(sum.completions.as_flattened_mut());
    for (sum, more) in counts.zip(more.counts.as_flattened().iter().chain(more.completions.as_flattened())) {
        *sum = sum.saturating_add(*more);
    }
}

/// Latency entries in the mapped array of the kernel.
#[derive(Debug)]
struct Entries {
    first: NonNull<Latency>,
    count: u32,
    /// Kept open, since programs loaded later need its descriptor.
    _map: MapData,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is used with atomics.
unsafe impl Send for Entries {}

impl Entries {
    fn map(map: MapData, count: u32) -> io::Result<Self> {
        Ok(Self { first: mmap(&map, count)?, count, _map: map })
    }

    /// The numbers of all entries.
    fn numbers(&self) -> RangeInclusive<u16> {
        1..=u16::try_from(self.count).unwrap_or(u16::MAX)
    }

    /// An entry by its number, from 1.
    fn at(&self, number: u16) -> Option<*mut Latency> {
        let index = u32::from(number).checked_sub(1).filter(|index| *index < self.count)?;
        // SAFETY: within the mapping, as just checked.
        Some(unsafe { self.first.add(index as usize) }.as_ptr())
    }

    /// A copy of an entry's figures and outstanding requests, without their messages, while programs may be counting in
    /// it: each number is consistent in itself, and later ones may be newer.
    fn read(&self, number: u16) -> Latency {
        let Some(entry) = self.at(number) else { return Latency::EMPTY };
        // SAFETY: the fields lie in the mapping, which lives as long as `self`, and are aligned; all access to them
        // here is atomic, as it is in effect in the kernel.
        let word = |at: *mut u64| unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Relaxed);
        // SAFETY: as above.
        let half = |at: *mut u32| unsafe { AtomicU32::from_ptr(at) }.load(Ordering::Relaxed);
        // SAFETY: places of fields of the entry; indices stay below the lengths of the arrays.
        unsafe {
            Latency {
                head: half(&raw mut (*entry).head),
                tail: half(&raw mut (*entry).tail),
                ambiguous: word(&raw mut (*entry).ambiguous),
                ambiguous_responses: word(&raw mut (*entry).ambiguous_responses),
                ring_full: word(&raw mut (*entry).ring_full),
                begun_ns: 0,
                max_ns: std::array::from_fn(|i| word((&raw mut (*entry).max_ns).cast::<u64>().add(i))),
                ring: std::array::from_fn(|i| word((&raw mut (*entry).ring).cast::<u64>().add(i))),
                messages: [0; RING],
                reading: 0,
                counts: std::array::from_fn(|class| {
                    let row = (&raw mut (*entry).counts[class]).cast::<u32>();
                    std::array::from_fn(|i| half(row.add(i)))
                }),
                completion_max_ns: std::array::from_fn(|i| {
                    word((&raw mut (*entry).completion_max_ns).cast::<u64>().add(i))
                }),
                completions: std::array::from_fn(|operation| {
                    let row = (&raw mut (*entry).completions[operation]).cast::<u32>();
                    std::array::from_fn(|i| half(row.add(i)))
                }),
                marked_ns: std::array::from_fn(|i| word((&raw mut (*entry).marked_ns).cast::<u64>().add(i))),
                retx_run: self.run(number),
            }
        }
    }

    /// Numbers of requests added and removed, modulo 2^32.
    fn head_and_tail(&self, number: u16) -> (u32, u32) {
        let Some(entry) = self.at(number) else { return (0, 0) };
        // SAFETY: both lie in the mapping and are aligned.
        unsafe {
            let (head, tail) = (&raw mut (*entry).head, &raw mut (*entry).tail);
            (
                AtomicU32::from_ptr(head).load(Ordering::Relaxed),
                AtomicU32::from_ptr(tail).load(Ordering::Relaxed),
            )
        }
    }

    /// The current run of retransmissions in an entry.
    fn run(&self, number: u16) -> RetxRun {
        let Some(entry) = self.at(number) else { return RetxRun::EMPTY };
        // SAFETY: the fields lie in the mapping, which lives as long as `self`, and are aligned.
        let word = |at: *mut u64| unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Relaxed);
        // SAFETY: as above.
        let half = |at: *mut u32| unsafe { AtomicU32::from_ptr(at) }.load(Ordering::Relaxed);
        // SAFETY: places of fields of the entry.
        unsafe {
            RetxRun {
                start_ns: word(&raw mut (*entry).retx_run.start_ns),
                end_ns: word(&raw mut (*entry).retx_run.end_ns),
                pause_ns: half(&raw mut (*entry).retx_run.pause_ns),
                first: half(&raw mut (*entry).retx_run.first),
                packets: half(&raw mut (*entry).retx_run.packets),
                expected: half(&raw mut (*entry).retx_run.expected),
            }
        }
    }

    /// Clears an entry that no program uses any more.
    fn clear(&self, number: u16) {
        let Some(entry) = self.at(number) else { return };
        for word in 0..size_of::<Latency>() / size_of::<u64>() {
            // SAFETY: an entry is whole words, all within the mapping.
            unsafe { AtomicU64::from_ptr(entry.cast::<u64>().add(word)) }.store(0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        let len = self.count as usize * size_of::<Latency>();
        // SAFETY: this is the whole of what `map` mapped, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), len) };
    }
}

const _: () = assert!(size_of::<Latency>().is_multiple_of(8));

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
