//! How the allocator keeps memory.

/// Keeps less memory that is not in use. With very many flows several threads hand each other tens of megabytes, and lists grow to as much. The allocator's usual choices, a
/// pool for each thread, and large lists in these pools as soon as one has been freed, keep up to twice the memory in use: a list
/// that grows is copied, and leaves a hole.
///
/// `large` is the size in bytes from which on a list grows where it is, and is the system's again as soon as it is freed.
pub(crate) fn give_back(large: i32) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const POOLS: libc::c_int = 2;
        // SAFETY: takes two numbers and concerns later allocations alone; without effect when it fails.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, POOLS);
            libc::mallopt(libc::M_MMAP_THRESHOLD, large);
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = large;
}

/// Gives memory back to the system that lies free between what is in use. With very many flows, what the collectors of a replay
/// free is a tenth of all memory.
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: changes nothing that is in use; `malloc_trim` takes a number of bytes to keep.
    unsafe {
        libc::malloc_trim(0);
    }
}
