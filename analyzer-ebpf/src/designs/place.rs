//! Where the statistics of a flow lie, and how they are found.

use core::arch::asm;

use aya_ebpf::btf_maps::{Array, HashMap, PerCpuArray, PerCpuHashMap};
use aya_ebpf::helpers::generated::{bpf_spin_lock as lock, bpf_spin_unlock as unlock};
use aya_ebpf::macros::btf_map;
use rocescope_common::account::{FlowKey, FlowStats};

use crate::{Work, account, tell};

const FLOWS: usize = 65_536;
const HINTS: usize = 2 * FLOWS;
const CACHED: usize = 64;
const MMAPABLE: usize = 1024;
const NOEXIST: u64 = 1;
/// Rounds of a loop that waits for a turn: the verifier walks through each.
const ROUNDS: u32 = 256;

/// The kernel finds it in map values by this name.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct bpf_spin_lock {
    val: u32,
}

#[repr(C)]
pub(crate) struct Locked {
    lock: bpf_spin_lock,
    pad: u32,
    stats: FlowStats,
}

/// On cache lines of its own, as in rocescope.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Odd while a program counts.
    turn: u64,
    key: FlowKey,
    stats: FlowStats,
}

/// A flow and its slot, 0 for none.
#[repr(C)]
pub(crate) struct Remembered {
    key: FlowKey,
    slot: u32,
}

#[btf_map]
static PERCPU: PerCpuHashMap<FlowKey, FlowStats, FLOWS> = PerCpuHashMap::new();
#[btf_map]
static SHARED: HashMap<FlowKey, FlowStats, FLOWS> = HashMap::new();
#[btf_map]
static LOCKED: HashMap<FlowKey, Locked, FLOWS> = HashMap::new();
#[btf_map]
static SLOT_OF: HashMap<FlowKey, u32, FLOWS> = HashMap::new();
/// Slot 0 is nobody's.
#[btf_map]
static SLOTS: Array<Slot, { FLOWS + 1 }, MMAPABLE> = Array::new();
/// The slot that was given away last.
#[btf_map]
static GIVEN: Array<u64, 1> = Array::new();
#[btf_map]
static CACHE: PerCpuArray<Remembered, CACHED> = PerCpuArray::new();
#[btf_map]
static HINT: Array<u32, HINTS> = Array::new();

/// What hashes are given for a new flow: a value would not fit on the stack.
#[btf_map]
static FRESH: Array<FlowStats, 1> = Array::new();
#[btf_map]
static FRESH_LOCKED: Array<[u64; size_of::<Locked>() / 8], 1> = Array::new();

#[inline(always)]
pub(crate) fn per_cpu(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    let stats = match PERCPU.get_ptr_mut(key) {
        Some(stats) => stats,
        None => {
            let _exists_or_full = PERCPU.insert(key, FRESH.get(0)?, NOEXIST);
            PERCPU.get_ptr_mut(key)?
        }
    };
    // SAFETY: the pointer comes from the map.
    tell(work, unsafe { account(work, stats, now) });
    Some(())
}

#[inline(always)]
pub(crate) fn shared(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    let stats = match SHARED.get_ptr_mut(key) {
        Some(stats) => stats,
        None => {
            let _exists_or_full = SHARED.insert(key, FRESH.get(0)?, NOEXIST);
            SHARED.get_ptr_mut(key)?
        }
    };
    // SAFETY: the pointer comes from the map.
    tell(work, unsafe { account(work, stats, now) });
    Some(())
}

#[inline(always)]
pub(crate) fn shared_lock(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    let place = match LOCKED.get_ptr_mut(key) {
        Some(place) => place,
        None => {
            // From a value of another type: programs may not touch a lock, and this has none.
            let fresh = FRESH_LOCKED.get_ptr_mut(0)?.cast::<Locked>();
            // SAFETY: as large, and zero is a value of every field.
            let _exists_or_full = LOCKED.insert(key, unsafe { &*fresh }, NOEXIST);
            LOCKED.get_ptr_mut(key)?
        }
    };
    // SAFETY: the pointer comes from the map; between lock and unlock this program alone uses the
    // statistics.
    let outcome = unsafe {
        lock((&raw mut (*place).lock).cast());
        let outcome = account(work, &raw mut (*place).stats, now);
        unlock((&raw mut (*place).lock).cast());
        outcome
    };
    tell(work, outcome);
    Some(())
}

#[inline(always)]
pub(crate) fn slot(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    let place = SLOTS.get_ptr_mut(look_up(key)?)?;
    // SAFETY: the pointer comes from the map.
    tell(work, unsafe { account(work, &raw mut (*place).stats, now) });
    Some(())
}

#[inline(always)]
pub(crate) fn slot_turn(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    in_turn(work, look_up(key)?, now)
}

#[inline(always)]
pub(crate) fn last(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    remembered(unsafe { &raw mut (*work).last }, work, key, now)
}

#[inline(always)]
pub(crate) fn cache(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    remembered(CACHE.get_ptr_mut(spread(key) >> (32 - CACHED.ilog2()))?, work, key, now)
}

#[inline(always)]
pub(crate) fn hints(work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    let hint = HINT.get_ptr_mut(spread(key) >> (32 - HINTS.ilog2()))?;
    // SAFETY: the pointer comes from the map; any number is a hint.
    let hinted = unsafe { hint.read_volatile() };
    let place = SLOTS.get_ptr_mut(hinted)?;
    // SAFETY: as above; a slot's key stays.
    if unsafe { same(&raw const (*place).key, key) } {
        return in_turn(work, hinted, now);
    }
    let slot = look_up(key)?;
    // SAFETY: as above.
    unsafe { hint.write_volatile(slot) };
    in_turn(work, slot, now)
}

/// Goes by what is remembered, and remembers what the hash says otherwise.
#[inline(always)]
fn remembered(memory: *mut Remembered, work: *mut Work, key: &FlowKey, now: u64) -> Option<()> {
    // SAFETY: the pointer comes from a per-CPU map.
    let memory = unsafe { &mut *memory };
    // SAFETY: both are keys.
    if !unsafe { same(&raw const memory.key, key) } {
        memory.slot = look_up(key)?;
        memory.key = *key;
    }
    in_turn(work, memory.slot, now)
}

#[inline(always)]
fn in_turn(work: *mut Work, slot: u32, now: u64) -> Option<()> {
    let place = SLOTS.get_ptr_mut(slot)?;
    // SAFETY: the pointer comes from the map.
    let turn = unsafe { &raw mut (*place).turn };
    let mut taken = attempt(turn);
    if taken & 1 != 0 {
        taken = designs_wait_long(slot);
        if taken & 1 != 0 {
            return None;
        }
    }
    // SAFETY: as above; until the turn is passed on this program alone uses the statistics.
    let outcome = unsafe { account(work, &raw mut (*place).stats, now) };
    // SAFETY: as above. On x86 every store is seen after those before it; this is measured there.
    unsafe { asm!("*(u64 *)({0} + 0) = {1}", in(reg) turn, in(reg) taken + 2, options(nostack)) };
    tell(work, outcome);
    Some(())
}

/// Attempts at a slot's turn. A function that the verifier checks by itself, so that calling it many
/// times is not walked through as often.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn designs_wait(slot: u32) -> u64 {
    let Some(place) = SLOTS.get_ptr_mut(slot) else { return 1 };
    // SAFETY: the pointer comes from the map.
    let turn = unsafe { &raw mut (*place).turn };
    rounds(|| attempt(turn))
}

/// Some milliseconds of them.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn designs_wait_long(slot: u32) -> u64 {
    rounds(|| designs_wait(slot))
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

/// The number of a flow's slot by the hash, a new one if need be.
#[inline(always)]
fn look_up(key: &FlowKey) -> Option<u32> {
    if let Some(slot) = SLOT_OF.get_ptr(key) {
        // SAFETY: a number that is read at once.
        return Some(unsafe { *slot });
    }
    let mut given = 1u64;
    // SAFETY: the pointer comes from the map.
    unsafe {
        asm!("{0} = atomic_fetch_add((u64 *)({1} + 0), {0})", inout(reg) given, in(reg) GIVEN.get_ptr_mut(0)?, options(nostack));
    }
    let slot = given as u32 + 1;
    // SAFETY: the slot was given to this program alone.
    unsafe { (*SLOTS.get_ptr_mut(slot)?).key = *key };
    // Another CPU may have been faster: then its slot counts, and this one stays empty.
    let _exists_or_full = SLOT_OF.insert(key, slot, NOEXIST);
    // SAFETY: as above.
    SLOT_OF.get_ptr(key).map(|slot| unsafe { *slot })
}

/// Queue pairs in order end up evenly in the upper bits.
#[inline(always)]
fn spread(key: &FlowKey) -> u32 {
    (key.dest_qp ^ key.src[3] ^ key.dst[3].rotate_left(9)).wrapping_mul(0x9E37_79B9)
}

/// Whether two keys are equal, without a branch for each word.
///
/// # Safety
/// Both must point to keys.
#[inline(always)]
unsafe fn same(one: *const FlowKey, other: *const FlowKey) -> bool {
    let mut differing = 0;
    for word in 0..size_of::<FlowKey>() / size_of::<u32>() {
        // SAFETY: a key is words without padding, and `word` is one of them.
        differing |= unsafe { one.cast::<u32>().add(word).read() ^ other.cast::<u32>().add(word).read() };
    }
    differing == 0
}
