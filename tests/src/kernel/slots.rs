//! Maps the flow slots of loaded programs, to modify them like another CPU.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail};
use aya::maps::MapInfo;
use aya::programs::ProgramInfo;
use rocescope_common::abi::{FlowSlot, maps};

/// A mapping of the array.
#[derive(Debug)]
pub struct Slots {
    first: NonNull<FlowSlot>,
    count: u32,
}

// SAFETY: the mapping belongs to the process, and only its atomics are used.
unsafe impl Sync for Slots {}

impl Slots {
    /// Maps the slots of a loaded program.
    pub fn of(program: &ProgramInfo) -> Result<Self> {
        for id in program.map_ids()?.context("the kernel does not report the maps of a program")? {
            let info = MapInfo::from_id(id)?;
            if info.name_as_str() != Some(maps::SLOTS) {
                continue;
            }
            let (fd, count) = (info.fd()?, info.max_entries());
            let len = count as usize * size_of::<FlowSlot>();
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: asks for an address of the kernel's choice, so that nothing is replaced.
            let at = unsafe {
                libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED, fd.as_fd().as_raw_fd(), 0)
            };
            return match NonNull::new(at.cast::<FlowSlot>()) {
                Some(first) if at != libc::MAP_FAILED => Ok(Self { first, count }),
                _ => Err(io::Error::last_os_error()).context("the slots could not be mapped"),
            };
        }
        bail!("the program has no map {}", maps::SLOTS)
    }

    /// The seqlock of a slot; `None` if there is no such slot.
    pub fn seqlock(&self, slot: u32) -> Option<&AtomicU64> {
        if slot >= self.count {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as `self`; the word is aligned, and all
        // access to it is atomic.
        Some(unsafe { AtomicU64::from_ptr(&raw mut (*self.first.as_ptr().add(slot as usize)).seqlock) })
    }

    /// Locks a slot like a program that is delayed while counting; dropping the guard unlocks it.
    #[must_use]
    pub fn hold(&self, slot: u32) -> Option<SlotLock<'_>> {
        let seqlock = self.seqlock(slot)?;
        let seen = seqlock.load(Ordering::SeqCst);
        let free = seen.is_multiple_of(2);
        let taken =
            free && seqlock.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        taken.then_some(SlotLock(seqlock))
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let len = self.count as usize * size_of::<FlowSlot>();
        // SAFETY: this is the whole of what was mapped; references to it borrow `self`.
        unsafe { libc::munmap(self.first.as_ptr().cast(), len) };
    }
}

/// A locked slot.
#[derive(Debug)]
pub struct SlotLock<'a>(&'a AtomicU64);

impl Drop for SlotLock<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
