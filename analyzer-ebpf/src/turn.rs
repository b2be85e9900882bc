//! Taking turns at a slot: see [`rocescope_common::abi::FlowSlot`].
//!
//! In assembly, because Rust's atomics have no read-modify-write operations for this target, and
//! because the compiler must not move memory accesses over these.

use core::arch::asm;
use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_loop;

use crate::maps::HAVE_LOOP;

/// Attempts without `bpf_loop`, each as long as a line of memory takes to change hands.
const FEW: u32 = 256;
/// Attempts in one `bpf_loop`, the most that the kernel allows: some 50 ms.
const MANY: u32 = 1 << 23;
/// Loops before a packet is given up: near a second in all, far longer than interrupts, or the other
/// guests of a virtual machine's host, hold up a program.
const LOOPS: u32 = 16;

/// Waits for the turn and takes it. Gives what [`pass_on`] is to be told; `None` when another CPU
/// keeps it unreasonably long.
#[inline(always)]
pub(crate) fn take(turn: *mut u64) -> Option<u64> {
    let seen = attempt(turn);
    if seen & 1 == 0 {
        return Some(seen);
    }
    if HAVE_LOOP.load() != 0 {
        let mut wait = Wait { turn, seen: 1 };
        let context = (&raw mut wait).cast::<c_void>();
        for _ in 0..LOOPS {
            // SAFETY: the callback gets the context back while it lives.
            unsafe { bpf_loop(MANY, attempt_again as *mut c_void, context, 0) };
            if wait.seen & 1 == 0 {
                return Some(wait.seen);
            }
        }
        return None;
    }
    for _ in 0..FEW {
        let seen = attempt(turn);
        if seen & 1 == 0 {
            return Some(seen);
        }
    }
    None
}

struct Wait {
    turn: *mut u64,
    seen: u64,
}

/// One more attempt; 1 ends the loop.
extern "C" fn attempt_again(_: u64, wait: *mut Wait) -> i64 {
    // SAFETY: the pointer is that of the loop's caller.
    let wait = unsafe { &mut *wait };
    wait.seen = attempt(wait.turn);
    if wait.seen & 1 == 0 { 1 } else { 0 }
}

/// Takes the turn if it is free. Gives the even number it had, or an odd one.
#[inline(always)]
fn attempt(turn: *mut u64) -> u64 {
    // SAFETY: callers pass an aligned word of map memory.
    let seen = unsafe { turn.read_volatile() };
    if seen & 1 != 0 {
        return 1;
    }
    let found: u64;
    // SAFETY: as above.
    unsafe {
        asm!("r0 = cmpxchg_64({0} + 0, r0, {1})", in(reg) turn, in(reg) seen + 1, inout("r0") seen => found, options(nostack));
    }
    if found == seen { seen } else { 1 }
}

/// Passes the turn on; what was written before is then seen by whoever takes it.
#[inline(always)]
pub(crate) fn pass_on(turn: *mut u64, taken: u64) {
    release(turn, taken + 2);
}

/// Writes a word after everything that was written before.
#[inline(always)]
pub(crate) fn release(word: *mut u64, value: u64) {
    // Stores of this architecture are seen in their order.
    #[cfg(bpf_target_arch = "x86_64")]
    // SAFETY: callers pass an aligned word of map memory.
    unsafe {
        asm!("*(u64 *)({0} + 0) = {1}", in(reg) word, in(reg) value, options(nostack));
    }
    #[cfg(not(bpf_target_arch = "x86_64"))]
    // SAFETY: as above.
    unsafe {
        asm!("{0} = xchg_64({1} + 0, {0})", inout(reg) value => _, in(reg) word, options(nostack));
    }
}

/// Reads a word before everything that is read later.
#[inline(always)]
pub(crate) fn acquire(word: *mut u64) -> u64 {
    #[cfg(bpf_target_arch = "x86_64")]
    {
        let value: u64;
        // SAFETY: callers pass an aligned word of map memory.
        unsafe { asm!("{0} = *(u64 *)({1} + 0)", out(reg) value, in(reg) word, options(nostack)) };
        value
    }
    #[cfg(not(bpf_target_arch = "x86_64"))]
    {
        let mut value = 0u64;
        // SAFETY: as above; adds nothing, but is an atomic operation in full order.
        unsafe {
            asm!("{0} = atomic_fetch_add((u64 *)({1} + 0), {0})", inout(reg) value, in(reg) word, options(nostack))
        };
        value
    }
}
