//! `BPF_PROG_TEST_RUN`: a program runs on a frame of ours, on this CPU, without any interface.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Bytes of an Ethernet header, the least that the kernel takes.
pub const LEAST: usize = 14;
/// What surely fits the first page of a test frame, behind its headroom and before the kernel's own
/// data at its end.
pub const LINEAR: usize = 3_400;

const BPF_PROG_TEST_RUN: libc::c_long = 10;

/// The part of `union bpf_attr` for test runs.
#[repr(C)]
#[derive(Default)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// The fields of `struct __sk_buff` up to the one that is set.
#[repr(C)]
struct SkBuff {
    before: [u32; 40],
    wire_len: u32,
}

/// Runs an XDP program over a frame `repeat` times. Gives what the program returned last.
///
/// # Errors
/// The kernel's, for example when the frame is longer than it takes.
pub fn xdp(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<u32> {
    run(program, frame, repeat, None)
}

/// Runs a TC program over a frame `repeat` times; `wire_len` is the length the kernel shall believe
/// the frame had. Gives what the program returned last.
///
/// # Errors
/// As for [`xdp`].
pub fn tc(program: BorrowedFd<'_>, frame: &[u8], wire_len: u32, repeat: u32) -> io::Result<u32> {
    run(program, frame, repeat, Some(&SkBuff { before: [0; 40], wire_len }))
}

fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32, context: Option<&SkBuff>) -> io::Result<u32> {
    let number =
        |value: usize| u32::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let mut attr = TestRunAttr {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        data_size_in: number(frame.len())?,
        data_in: frame.as_ptr().addr() as u64,
        repeat,
        ..TestRunAttr::default()
    };
    if let Some(context) = context {
        attr.ctx_size_in = number(size_of::<SkBuff>())?;
        attr.ctx_in = std::ptr::from_ref(context).addr() as u64;
    }
    // SAFETY: `attr` is a prefix of the kernel's `union bpf_attr`; the addresses in it are those of
    // `frame` and `context`, which live through the call, with their sizes. Nothing is written back
    // but into `attr`.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attr, size_of::<TestRunAttr>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(attr.retval) }
}
