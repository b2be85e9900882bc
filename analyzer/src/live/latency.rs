//! Which flows are timed in the kernel, and what was measured.
//!
//! An entry of the kernel's array belongs to one flow of requests, as long as its flow of answers is
//! known. Slots say which entries their packets belong to. To end this, the numbers leave both slots, a
//! grace period passes, after which no program uses the entry; then it is read for the last time,
//! cleared, and free for another flow.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use aya::maps::MapData;
use hashbrown::HashMap;
use rocescope_common::abi::Timing;
use rocescope_common::account::latency::{CLASSES, Latency, RING};

use super::bpf;
use super::slots::Slots;

type State = foldhash::fast::RandomState;

/// The entry of a flow of requests.
#[derive(Clone, Copy, Debug)]
struct Timed {
    /// Its number, from 1.
    entry: u16,
    /// Slot of the flow with the answers.
    answers: u32,
}

/// The kernel's entries, and whose they are.
#[derive(Debug)]
pub(crate) struct Times {
    map: Option<Entries>,
    free: Vec<u16>,
    /// By slot of the flow of requests.
    timed: HashMap<u32, Timed, State>,
    /// By slot of the flow of answers: slot of the flow of requests.
    answering: HashMap<u32, u32, State>,
    /// What flows measured in entries that are others' now, by slot.
    kept: HashMap<u32, Box<Latency>, State>,
}

impl Times {
    /// Nothing timed yet, with so many entries; `None` when the programs have no such map.
    ///
    /// # Errors
    /// When the map cannot be mapped into memory.
    pub(crate) fn new(map: Option<MapData>, entries: u32) -> io::Result<Self> {
        let map = map.map(|map| Entries::map(map, entries)).transpose()?;
        let most = map.as_ref().map_or(0, |map| u16::try_from(map.count).unwrap_or(u16::MAX));
        Ok(Self {
            map,
            free: (1..=most).rev().collect(),
            timed: HashMap::default(),
            answering: HashMap::default(),
            kept: HashMap::default(),
        })
    }

    /// How many more flows could be timed.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// The slot with the answers to a timed flow of requests.
    pub(crate) fn answers_of(&self, requests: u32) -> Option<u32> {
        self.timed.get(&requests).map(|timed| timed.answers)
    }

    /// Slots of timed flows of requests, with those of their answers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.timed.iter().map(|(requests, timed)| (*requests, timed.answers))
    }

    /// Flows of requests whose timing needs the flow in this slot.
    pub(crate) fn of(&self, slot: u32) -> impl Iterator<Item = u32> {
        let own = self.timed.contains_key(&slot).then_some(slot);
        own.into_iter().chain(self.answering.get(&slot).copied())
    }

    /// Times the requests in one slot by the answers in another from now on. False when there is no
    /// room, or one of them has its part already.
    ///
    /// # Errors
    /// When there is no such slot.
    pub(crate) fn assign(&mut self, slots: &Slots, requests: u32, answers: u32) -> io::Result<bool> {
        if self.timed.contains_key(&requests) || self.answering.contains_key(&answers) {
            return Ok(false);
        }
        let Some(entry) = self.free.pop() else { return Ok(false) };
        self.timed.insert(requests, Timed { entry, answers });
        self.answering.insert(answers, requests);
        self.tell(slots, requests)?;
        self.tell(slots, answers)?;
        Ok(true)
    }

    /// Writes the entries of a slot into it.
    fn tell(&self, slots: &Slots, slot: u32) -> io::Result<()> {
        let own = self.timed.get(&slot).map_or(0, |timed| timed.entry);
        let requests = self.answering.get(&slot).and_then(|requests| self.timed.get(requests));
        slots.set_pair(slot, Timing::pair(own, requests.map_or(0, |timed| timed.entry)))
    }

    /// Ends the timing of these flows of requests. What they measured stays theirs.
    ///
    /// # Errors
    /// When there is no such slot.
    pub(crate) fn release(&mut self, slots: &Slots, requests: &[u32]) -> io::Result<()> {
        let mut gone = Vec::new();
        for slot in requests {
            if let Some(timed) = self.timed.remove(slot) {
                self.answering.remove(&timed.answers);
                self.tell(slots, *slot)?;
                self.tell(slots, timed.answers)?;
                gone.push((*slot, timed.entry));
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        bpf::quiesce();
        for (slot, entry) in gone {
            if let Some(map) = &self.map {
                let mut last = map.read(entry);
                // Nobody will take their answers.
                last.ambiguous_answers += last.outstanding();
                last.ring = [0; RING];
                fold(self.kept.entry(slot).or_insert_with(|| Box::new(Latency::EMPTY)), &last);
                map.clear(entry);
            }
            self.free.push(entry);
        }
        Ok(())
    }

    /// The flow of a slot was retired: what it measured is nobody's. Its timing has ended before.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.kept.remove(&slot);
    }

    /// Slots of flows that have measured something, or may have.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        let kept = self.kept.keys().filter(|slot| !self.timed.contains_key(*slot));
        self.timed.keys().chain(kept).copied()
    }

    /// What the requests in a slot measured so far; `None` if they were never timed.
    pub(crate) fn read(&self, slot: u32) -> Option<Box<Latency>> {
        let kept = self.kept.get(&slot).cloned();
        let entry = self.timed.get(&slot).and_then(|timed| Some(self.map.as_ref()?.read(timed.entry)));
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

fn fold(sum: &mut Latency, more: &Latency) {
    sum.ambiguous += more.ambiguous;
    sum.ambiguous_answers += more.ambiguous_answers;
    sum.ring_full += more.ring_full;
    for class in 0..CLASSES {
        sum.max_ns[class] = sum.max_ns[class].max(more.max_ns[class]);
        for (sum, more) in sum.counts[class].iter_mut().zip(more.counts[class]) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The mapped array.
#[derive(Debug)]
struct Entries {
    first: NonNull<Latency>,
    count: u32,
    /// Programs that are loaded later still need its descriptor.
    _map: MapData,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is used with atomics.
unsafe impl Send for Entries {}
// SAFETY: as above.
unsafe impl Sync for Entries {}

impl Entries {
    fn map(map: MapData, count: u32) -> io::Result<Self> {
        let fd = map.fd().as_fd().as_raw_fd();
        let len = count as usize * size_of::<Latency>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for an address of the kernel's choice, so that nothing is replaced.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(at.cast::<Latency>()) {
            Some(first) if at != libc::MAP_FAILED => Ok(Self { first, count, _map: map }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// An entry by its number, from 1.
    fn at(&self, number: u16) -> Option<*mut Latency> {
        let index = u32::from(number).checked_sub(1).filter(|index| *index < self.count)?;
        // SAFETY: within the mapping, as just checked.
        Some(unsafe { self.first.add(index as usize) }.as_ptr())
    }

    /// A copy of an entry. Programs may be counting in it: each number in it is whole, and later ones may be
    /// of a later moment.
    fn read(&self, number: u16) -> Latency {
        let Some(entry) = self.at(number) else { return Latency::EMPTY };
        // SAFETY: the fields lie in the mapping, which lives as long as `self`, and are aligned; all
        // access to them here is atomic, as the kernel's is in effect.
        let word = |at: *mut u64| unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Relaxed);
        // SAFETY: as above.
        let half = |at: *mut u32| unsafe { AtomicU32::from_ptr(at) }.load(Ordering::Relaxed);
        // SAFETY: places of fields of the entry; indices stay below the lengths of the arrays.
        unsafe {
            Latency {
                head: half(&raw mut (*entry).head),
                tail: half(&raw mut (*entry).tail),
                ambiguous: word(&raw mut (*entry).ambiguous),
                ambiguous_answers: word(&raw mut (*entry).ambiguous_answers),
                ring_full: word(&raw mut (*entry).ring_full),
                max_ns: std::array::from_fn(|i| word((&raw mut (*entry).max_ns).cast::<u64>().add(i))),
                ring: std::array::from_fn(|i| word((&raw mut (*entry).ring).cast::<u64>().add(i))),
                counts: std::array::from_fn(|class| {
                    let row = (&raw mut (*entry).counts[class]).cast::<u32>();
                    std::array::from_fn(|i| half(row.add(i)))
                }),
                marked_ns: std::array::from_fn(|i| word((&raw mut (*entry).marked_ns).cast::<u64>().add(i))),
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
        unsafe { libc::munmap(self.first.as_ptr().cast(), len) };
    }
}

const _: () = assert!(size_of::<Latency>().is_multiple_of(8));
