//! The `rocescope` command.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;

fn main() -> ExitCode {
    rocescope::cli::main()
}

/// The system's allocator. Without memory, the program ends with a sentence and exit status 1; Rust's own way is to
/// abort, which looks like a crash of the program.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: every call goes to the system's allocator as it came, and only what that gave is returned.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        given(unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as promised by the caller.
        given(unsafe { System.realloc(memory, layout, size) })
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        out_of_memory();
    }
    memory
}

/// Says so without allocating, and ends the program at once. The kernel detaches what descriptors held.
#[cold]
fn out_of_memory() -> ! {
    const SAID: &[u8] = b"\rrocescope: out of memory: use a smaller --max-flows or a --filter, or raise the limit (ulimit -v, cgroup)\r\n";
    // SAFETY: the bytes are there for as long as the program; neither call allocates.
    unsafe {
        libc::write(2, SAID.as_ptr().cast(), SAID.len());
        libc::_exit(1)
    }
}
