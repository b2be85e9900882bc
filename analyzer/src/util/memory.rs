//! Settings of the allocator.

/// Size in bytes of the lists of a sample of very many flows, and of the open rows of a recording: beyond most lists,
/// which the allocator's pools serve faster.
pub(crate) const LARGE: i32 = 4 << 20;

/// Keeps less memory that is not in use. With very many flows several threads hand each other tens of megabytes, and
/// lists grow to as much. The allocator's usual choices, a pool for each thread, and large lists in these pools as soon
/// as one has been freed, keep up to twice the memory in use: a list that grows is copied, and leaves a hole.
///
/// `large` is the size in bytes from which on a list grows where it is, and is the system's again as soon as it is
/// freed.
pub(crate) fn give_back(large: i32) {
    ask(Allocator::Large(large, 2));
}

/// The same while a screen is drawn. A thread that frees the parts of 65,536 flows keeps its pool to itself for tens of
/// milliseconds, and a key would wait for it: with twice the pools it seldom is the one of the screen. They take 3 %
/// more memory.
pub(crate) fn give_back_of_view() {
    ask(Allocator::Large(LARGE, 4));
}

/// Gives memory back to the system that lies free between what is in use. With very many flows, what the collectors of
/// a replay free is a tenth of all memory.
pub(crate) fn trim() {
    ask(Allocator::Trim);
}

/// Request to the allocator.
#[derive(Clone, Copy)]
enum Allocator {
    /// Lists from this size on are outside of pools, of which there is this number.
    Large(i32, i32),
    /// To give back what is free.
    Trim,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn ask(what: Allocator) {
    // SAFETY: all take numbers; they concern later allocations, or memory that is not in use, and have no effect when
    // they fail.
    unsafe {
        match what {
            Allocator::Large(large, pools) => {
                libc::mallopt(libc::M_ARENA_MAX, pools);
                libc::mallopt(libc::M_MMAP_THRESHOLD, large);
            }
            Allocator::Trim => {
                libc::malloc_trim(0);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn ask(what: Allocator) {
    // Other allocators have settings of their own.
    let _ = match what {
        Allocator::Large(large, pools) => large.max(pools),
        Allocator::Trim => 0,
    };
}
