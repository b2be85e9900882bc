//! The seqlock of a flow's slot, see [`rocescope_common::abi::FlowSlot`].
//!
//! In BPF assembly: Rust has no atomic read-modify-write operations for this target, and the compiler must
//! not move memory accesses across these.

use core::arch::asm;

use crate::maps::{FULL_ORDER, SLOTS};

/// Attempts per spin loop; the verifier walks every iteration.
const ROUNDS: u32 = 256;
/// Attempts of the outermost loop: some 500 million in all, about half a second, before the packet is given
/// up. A holder keeps the lock for tens of nanoseconds unless an interrupt or a descheduled virtual CPU
/// delays it.
const OUTER_ROUNDS: u32 = 32;

/// Locks a slot and returns the sequence number that [`unlock`] needs; `None` when another CPU holds the
/// lock for about half a second.
#[inline(always)]
pub(crate) fn lock(slot: u32, seqlock: *mut u64) -> Option<u64> {
    let sequence = try_lock(seqlock);
    if sequence & 1 == 0 {
        return Some(sequence);
    }
    for _ in 0..OUTER_ROUNDS {
        let sequence = rocescope_wait_long(slot);
        if sequence & 1 == 0 {
            return Some(sequence);
        }
    }
    None
}

/// Spins on a slot's lock for about as long as a few packets take.
///
/// A global function, which the verifier checks once by itself, knowing only that argument and result are
/// numbers. `bpf_loop` would serve as well, but needs 5.17.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_wait_short(slot: u32) -> u64 {
    let Some(place) = SLOTS.get_ptr_mut(slot) else { return 1 };
    // SAFETY: the pointer comes from the map.
    let seqlock = unsafe { &raw mut (*place).seqlock };
    spin(|| try_lock(seqlock))
}

/// Spins about 256 times as long.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_wait(slot: u32) -> u64 {
    spin(|| rocescope_wait_short(slot))
}

/// Spins about 65,536 times as long.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_wait_long(slot: u32) -> u64 {
    spin(|| rocescope_wait(slot))
}

#[inline(always)]
fn spin(attempt: impl Fn() -> u64) -> u64 {
    for _ in 0..ROUNDS {
        let sequence = attempt();
        if sequence & 1 == 0 {
            return sequence;
        }
    }
    1
}

/// Locks the slot if it is free. Returns the even sequence number it had, or an odd number.
#[inline(always)]
fn try_lock(seqlock: *mut u64) -> u64 {
    // SAFETY: callers pass an aligned word of map memory.
    let sequence = unsafe { seqlock.read_volatile() };
    if sequence & 1 != 0 {
        return 1;
    }
    let found: u64;
    // SAFETY: as above.
    unsafe {
        asm!("r0 = cmpxchg_64({0} + 0, r0, {1})", in(reg) seqlock, in(reg) sequence + 1, inout("r0") sequence => found, options(nostack));
    }
    if found == sequence { sequence } else { 1 }
}

/// Unlocks; writes before it are visible to the next holder.
#[inline(always)]
pub(crate) fn unlock(seqlock: *mut u64, taken: u64) {
    release(seqlock, taken + 2);
}

/// Store with release semantics.
#[inline(always)]
pub(crate) fn release(word: *mut u64, value: u64) {
    if FULL_ORDER.load() == 0 {
        // SAFETY: callers pass an aligned word of map memory.
        unsafe { asm!("*(u64 *)({0} + 0) = {1}", in(reg) word, in(reg) value, options(nostack)) };
    } else {
        // SAFETY: as above.
        unsafe {
            asm!("{0} = xchg_64({1} + 0, {0})", inout(reg) value => _, in(reg) word, options(nostack));
        }
    }
}

/// Load with acquire semantics.
#[inline(always)]
pub(crate) fn acquire(word: *mut u64) -> u64 {
    let mut value = 0u64;
    if FULL_ORDER.load() == 0 {
        // SAFETY: callers pass an aligned word of map memory.
        unsafe { asm!("{0} = *(u64 *)({1} + 0)", out(reg) value, in(reg) word, options(nostack)) };
    } else {
        // SAFETY: as above; adds 0, as a fully ordered atomic operation.
        unsafe {
            asm!("{0} = atomic_fetch_add((u64 *)({1} + 0), {0})", inout(reg) value, in(reg) word, options(nostack));
        }
    }
    value
}
