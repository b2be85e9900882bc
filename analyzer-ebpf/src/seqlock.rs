//! Taking turns at a slot: see [`rocescope_common::abi::FlowSlot`].
//!
//! In assembly, because Rust's atomics have no read-modify-write operations for this target, and
//! because the compiler must not move memory accesses over these. The assembly is that of BPF, the
//! same on every processor.

use core::arch::asm;

use crate::maps::{FULL_ORDER, SLOTS};

/// Rounds of a loop that waits: the verifier walks through each.
const ROUNDS: u32 = 256;
/// Rounds of the outermost one. With those inside some 500 million attempts, about half a second, before
/// a packet is given up. A turn is kept for some ten nanoseconds; only an interrupt, or
/// a virtual machine whose processor is taken away, keeps it longer.
const LAST: u32 = 32;

/// Waits for the turn and takes it. Gives what [`pass_on`] is to be told; `None` when another CPU
/// keeps it unreasonably long.
#[inline(always)]
pub(crate) fn lock(slot: u32, seqlock: *mut u64) -> Option<u64> {
    let seen = try_lock(seqlock);
    if seen & 1 == 0 {
        return Some(seen);
    }
    for _ in 0..LAST {
        let seen = rocescope_wait_long(slot);
        if seen & 1 == 0 {
            return Some(seen);
        }
    }
    None
}

/// Attempts at a slot's turn, for as long as some packets take to count.
///
/// A function that the verifier checks by itself, knowing of its argument and of its result that they
/// are numbers: called many times, it is still walked through once. `bpf_loop` would do as well, but
/// only on kernels from 5.17 on.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_wait_short(slot: u32) -> u64 {
    let Some(place) = SLOTS.get_ptr_mut(slot) else { return 1 };
    // SAFETY: the pointer comes from the map.
    let seqlock = unsafe { &raw mut (*place).seqlock };
    rounds(|| try_lock(seqlock))
}

/// The same, some hundred times as long.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_wait(slot: u32) -> u64 {
    rounds(|| rocescope_wait_short(slot))
}

/// The same, some hundred times as long again.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_wait_long(slot: u32) -> u64 {
    rounds(|| rocescope_wait(slot))
}

#[inline(always)]
fn rounds(attempt: impl Fn() -> u64) -> u64 {
    for _ in 0..ROUNDS {
        let seen = attempt();
        if seen & 1 == 0 {
            return seen;
        }
    }
    1
}

/// Takes the turn if it is free. Gives the even number it had, or an odd one.
#[inline(always)]
fn try_lock(seqlock: *mut u64) -> u64 {
    // SAFETY: callers pass an aligned word of map memory.
    let seen = unsafe { seqlock.read_volatile() };
    if seen & 1 != 0 {
        return 1;
    }
    let found: u64;
    // SAFETY: as above.
    unsafe {
        asm!("r0 = cmpxchg_64({0} + 0, r0, {1})", in(reg) seqlock, in(reg) seen + 1, inout("r0") seen => found, options(nostack));
    }
    if found == seen { seen } else { 1 }
}

/// Passes the turn on; what was written before is then seen by whoever takes it.
#[inline(always)]
pub(crate) fn unlock(seqlock: *mut u64, taken: u64) {
    release(seqlock, taken + 2);
}

/// Writes a word after everything that was written before.
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

/// Reads a word before everything that is read later.
#[inline(always)]
pub(crate) fn acquire(word: *mut u64) -> u64 {
    let mut value = 0u64;
    if FULL_ORDER.load() == 0 {
        // SAFETY: callers pass an aligned word of map memory.
        unsafe { asm!("{0} = *(u64 *)({1} + 0)", out(reg) value, in(reg) word, options(nostack)) };
    } else {
        // SAFETY: as above; adds nothing, but is an atomic operation in full order.
        unsafe {
            asm!("{0} = atomic_fetch_add((u64 *)({1} + 0), {0})", inout(reg) value, in(reg) word, options(nostack));
        }
    }
    value
}
