//! The kernel's flow slots, mapped into memory: read without a system call.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use aya::maps::MapData;
use rocescope_common::abi::{FlowSlot, Timing};
use rocescope_common::account::bin::LastExchange;
use rocescope_common::account::{FlowBin, FlowKey, FlowStats};
use rustix::mm::{self, MapFlags, ProtFlags};

/// Attempts to copy a slot while programs keep changing it, before yielding the CPU.
const ATTEMPTS: u32 = 64;
/// Number and length of the pauses before giving up on a slot: ten seconds in all, for which a virtual CPU may be
/// descheduled.
const PAUSES: u32 = 10_000;
const PAUSE: Duration = Duration::from_millis(1);
/// [`FlowKey::pad`] of a flow that is not in the hash yet, or not any more.
const MARK: u8 = 1;

/// Flow slots in the mapped array of the kernel.
#[derive(Debug)]
pub(crate) struct Slots {
    first: NonNull<FlowSlot>,
    /// One per slot; `None` without bins.
    exchanges: Option<NonNull<LastExchange>>,
    count: u32,
    /// Kept open, since programs loaded later need their descriptors.
    maps: (MapData, Option<MapData>),
}

/// A flow's unreported bin.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenBin {
    /// Bin of time that the kernel fills.
    pub(crate) bin: FlowBin,
    /// Latest request and response.
    pub(crate) exchange: LastExchange,
}

/// A consistent copy of a slot in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) key: FlowKey,
    pub(crate) stats: FlowStats,
    /// All zero without bins.
    pub(crate) open_bin: OpenBin,
}

// SAFETY: the mapping belongs to the process, not to a thread. It is not `Sync`: atomics of several sizes on the same
// bytes, as in `retire`, are used by one thread at a time; the others are programs of the kernel.
unsafe impl Send for Slots {}

impl Slots {
    /// Maps the array of slots, and that of requests and responses.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn map(
        map: MapData,
        exchanges: Option<MapData>,
        timing: bool,
        count: u32,
    ) -> io::Result<Self> {
        let first = mmap(&map, count)?;
        // Constructed first, so that it is unmapped if the other fails.
        let mut slots = Self { first, exchanges: None, count, maps: (map, None) };
        slots.exchanges = exchanges.as_ref().filter(|_| timing).map(|map| mmap(map, count)).transpose()?;
        // Kept even if it is not mapped, since programs loaded later refer to it by its descriptor.
        slots.maps.1 = exchanges;
        Ok(slots)
    }

    fn at(&self, slot: u32) -> io::Result<NonNull<FlowSlot>> {
        if slot >= self.count {
            return Err(io::Error::other(format!("no slot {slot}")));
        }
        // SAFETY: within the mapping, as just checked.
        Ok(unsafe { self.first.add(slot as usize) })
    }

    /// A consistent copy of the key and statistics of a slot, or `None` if it is not in use, or if its flow is just
    /// being inserted, which the next reading will see.
    ///
    /// # Errors
    /// If there is no such slot, or a program holds it for longer than programs can run.
    pub(crate) fn read(&self, slot: u32) -> io::Result<Option<Place>> {
        Ok(self.copy(slot)?.filter(|place| place.key.pad != MARK))
    }

    /// The same for a slot that [`Self::retire`] marked.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub(crate) fn read_retired(&self, slot: u32) -> io::Result<Option<Place>> {
        Ok(self.copy(slot)?.map(|place| Place { key: FlowKey { pad: 0, ..place.key }, ..place }))
    }

    fn copy(&self, slot: u32) -> io::Result<Option<Place>> {
        let place = self.at(slot)?.as_ptr();
        // SAFETY: within the mapping, as `at` just checked for the slots, of which there are as many.
        let exchange = self.exchanges.map(|first| unsafe { first.add(slot as usize) }.as_ptr());
        // SAFETY: the fields lie in the mapping, which lives as long as `self`, and are aligned; all access to them
        // here is atomic, as it is in effect in the kernel.
        let (seqlock, packets) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*place).seqlock),
                AtomicU64::from_ptr(&raw mut (*place).stats.packets),
            )
        };
        if packets.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        for pause in 0..PAUSES {
            for _ in 0..ATTEMPTS {
                let copied = consistent(seqlock, || {
                    // SAFETY: as above; all types are integers without padding, in whole words.
                    unsafe {
                        Place {
                            key: words((&raw mut (*place).key).cast()),
                            stats: words((&raw mut (*place).stats).cast()),
                            open_bin: exchange.map_or_else(OpenBin::default, |exchange| OpenBin {
                                bin: words((&raw mut (*place).bin).cast()),
                                exchange: words(exchange.cast()),
                            }),
                        }
                    }
                });
                if let Some(copy) = copied {
                    return Ok((copy.stats.packets > 0 && copy.key.family != 0).then_some(copy));
                }
                std::hint::spin_loop();
            }
            if pause > 0 {
                std::thread::sleep(PAUSE);
            } else {
                std::thread::yield_now();
            }
        }
        Err(io::Error::other(format!("slot {slot} stays locked by a kernel program")))
    }

    /// Number of requests of the flow in a slot without measured latency, modulo 2^31; 0 for a slot that is not in
    /// use.
    pub(crate) fn untimed(&self, slot: u32) -> u32 {
        let Ok(place) = self.at(slot) else { return 0 };
        // SAFETY: the number lies in the mapping, which lives as long as `self`, and is aligned.
        let untimed = unsafe { AtomicU32::from_ptr(&raw mut (*place.as_ptr()).timing.untimed) };
        untimed.load(Ordering::Relaxed) & !Timing::RETX_RUN
    }

    /// Sets the entries to which the packets of the flow in a slot belong: see [`rocescope_common::abi::Timing`].
    /// Programs only read it.
    ///
    /// # Errors
    /// If there is no such slot.
    pub(crate) fn set_pair(&self, slot: u32, pair: u32) -> io::Result<()> {
        let place = self.at(slot)?.as_ptr();
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*place).timing.pair) }.store(pair, Ordering::SeqCst);
        Ok(())
    }

    /// Marks the slot of a flow that was read and removed from the hash: programs that start from now on do not find
    /// it by a hint.
    ///
    /// # Errors
    /// If there is no such slot.
    pub(crate) fn retire(&self, slot: u32) -> io::Result<()> {
        let place = self.at(slot)?.as_ptr();
        // SAFETY: the byte lies in the mapping.
        unsafe { AtomicU8::from_ptr(&raw mut (*place).key.pad) }.store(MARK, Ordering::SeqCst);
        Ok(())
    }

    /// Clears a slot that no program can find any more. Its seqlock keeps its sequence number.
    ///
    /// # Errors
    /// If there is no such slot.
    pub(crate) fn clear(&self, slot: u32) -> io::Result<()> {
        let place = self.at(slot)?.as_ptr();
        // Everything after the seqlock.
        for word in 1..size_of::<FlowSlot>() / size_of::<u64>() {
            // SAFETY: a slot is whole words, all within the mapping.
            unsafe { AtomicU64::from_ptr(place.cast::<u64>().add(word)) }.store(0, Ordering::Relaxed);
        }
        for word in 0..size_of::<LastExchange>() / size_of::<u64>() {
            let Some(exchanges) = self.exchanges else { break };
            // SAFETY: as above, in the mapping beside it.
            unsafe {
                let place = exchanges.add(slot as usize).as_ptr().cast::<u64>().add(word);
                AtomicU64::from_ptr(place).store(0, Ordering::Relaxed);
            }
        }
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let count = self.count as usize;
        // SAFETY: this is the whole of what `map` mapped, and nothing refers to it any more.
        unsafe {
            let _ = mm::munmap(self.first.as_ptr().cast(), count * size_of::<FlowSlot>());
            if let Some(exchanges) = self.exchanges {
                let _ = mm::munmap(exchanges.as_ptr().cast(), count * size_of::<LastExchange>());
            }
        }
    }
}

/// A sequence number changed by others: the operations that [`consistent`] needs.
trait Sequence {
    fn load(&self, order: Ordering) -> u64;
    /// Prevents earlier loads from moving after later loads.
    fn fence();
}

impl Sequence for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn fence() {
        fence(Ordering::Acquire);
    }
}

/// The result of `copy`, which reads with relaxed loads, if no program changed the slot meanwhile: programs make the
/// number odd before they write, and even again afterwards, by a store with release semantics.
fn consistent<S: Sequence, T>(sequence: &S, copy: impl FnOnce() -> T) -> Option<T> {
    let before = sequence.load(Ordering::Acquire);
    if !before.is_multiple_of(2) {
        return None;
    }
    let copy = copy();
    S::fence();
    (sequence.load(Ordering::Relaxed) == before).then_some(copy)
}

/// Maps an array of `count` values.
pub(super) fn mmap<T>(map: &MapData, count: u32) -> io::Result<NonNull<T>> {
    let len = count as usize * size_of::<T>();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: asks for an address of the kernel's choice, so that nothing is replaced.
    let at = unsafe { mm::mmap(ptr::null_mut(), len, access, MapFlags::SHARED, map.fd(), 0) }?;
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

/// Copies a value word by word.
///
/// # Safety
/// `from` must be aligned and point to a `T` of whole words for which any bits are a value.
unsafe fn words<T: Copy>(from: *mut u64) -> T {
    let mut to = MaybeUninit::<T>::uninit();
    for word in 0..size_of::<T>() / size_of::<u64>() {
        // SAFETY: within the value, as promised by the caller; `to` is as large.
        unsafe {
            let value = AtomicU64::from_ptr(from.add(word)).load(Ordering::Relaxed);
            to.as_mut_ptr().cast::<u64>().add(word).write_unaligned(value);
        }
    }
    // SAFETY: every word was written.
    unsafe { to.assume_init() }
}

const _: () = {
    assert!(
        size_of::<FlowKey>().is_multiple_of(8)
            && size_of::<FlowStats>().is_multiple_of(8)
            && size_of::<FlowSlot>().is_multiple_of(8)
            && size_of::<FlowBin>().is_multiple_of(8)
            && size_of::<LastExchange>().is_multiple_of(8)
    );
};

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
