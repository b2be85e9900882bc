//! Tests of the kernel programs: single frames are run through them, and their maps are read as a live source does.
//!
//! [`frames`] turns captures into Ethernet frames, [`machine`] runs them through a program with `BPF_PROG_TEST_RUN`
//! ([`test_run`]) and makes a sample of the counts, [`replayed`] gets the same from replay, and [`diff`](crate::diff)
//! finds all differences between the two reports. [`wire`] is a pair of real interfaces with the live source on one
//! of them.

pub mod cpus;
pub mod frames;
pub mod machine;
pub mod memory;
pub mod replayed;
pub mod slots;
pub mod test_run;
pub mod wire;

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// True if this process may load programs. Otherwise prints a SKIP line, or fails if all tests must run (`CI=true`).
pub fn available() -> bool {
    let why = if !rustix::process::geteuid().is_root() {
        "this is not root".to_owned()
    } else if let Err(error) = make_a_map() {
        format!("this kernel lets nobody use eBPF here ({error})")
    } else {
        return true;
    };
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{why}, but CI=true expects the tests of the kernel programs to run"
    );
    println!("SKIP tests of the kernel programs: {why}");
    false
}

/// The smallest possible eBPF operation: creates an array of one number, which is removed at once.
fn make_a_map() -> io::Result<()> {
    const BPF_MAP_CREATE: libc::c_long = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    // Type, sizes of key and value, entries, flags.
    let attr = [BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0];
    // SAFETY: the numbers are a prefix of the kernel's `union bpf_attr` for this command.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attr.as_ptr(), size_of_val(&attr)) };
    let Ok(fd @ 0..) = i32::try_from(fd) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the descriptor is new and belongs to nobody else.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}
