//! `BPF_PROG_TEST_RUN`: runs a program on a given frame, on this CPU, without an interface.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Length of an Ethernet header, the minimum that the kernel accepts.
pub const LEAST: usize = 14;
/// Maximum length that fits the first page of a test frame, between its headroom and the kernel's data at its end.
pub const LINEAR: usize = 3_400;

const BPF_PROG_TEST_RUN: libc::c_long = 10;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 2;

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

/// Runs an XDP program on a frame `repeat` times. Returns the last return value.
pub fn xdp(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<u32> {
    run(program, frame, repeat, None)
}

/// Runs a TC program on a frame `repeat` times; `wire_len` is the frame's pretended length. Returns the last return
/// value.
pub fn tc(program: BorrowedFd<'_>, frame: &[u8], wire_len: u32, repeat: u32) -> io::Result<u32> {
    run(program, frame, repeat, Some(&SkBuff { before: [0; 40], wire_len }))
}

/// Runs an XDP program on copies of a frame `repeat` times and carries out its decision on each: a redirected frame
/// leaves through an interface. Needs kernel 5.18.
pub fn live(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<()> {
    let mut attr = TestRunAttr { flags: LIVE_FRAMES, ..attr(program, frame, repeat)? };
    call(&mut attr)
}

/// Runs an XDP program on a frame `repeat` times. Returns the average nanoseconds per run, including the call and the
/// kernel's work in between.
pub fn duration(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<u32> {
    let mut attr = attr(program, frame, repeat)?;
    call(&mut attr).map(|()| attr.duration)
}

fn attr(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<TestRunAttr> {
    Ok(TestRunAttr {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        data_size_in: number(frame.len())?,
        data_in: frame.as_ptr().addr() as u64,
        repeat,
        ..TestRunAttr::default()
    })
}

fn number(value: usize) -> io::Result<u32> {
    u32::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32, context: Option<&SkBuff>) -> io::Result<u32> {
    let mut attr = attr(program, frame, repeat)?;
    if let Some(context) = context {
        attr.ctx_size_in = number(size_of::<SkBuff>())?;
        attr.ctx_in = std::ptr::from_ref(context).addr() as u64;
    }
    call(&mut attr).map(|()| attr.retval)
}

/// The addresses in `attr` are those of a frame and a context that are valid during the call.
fn call(attr: &mut TestRunAttr) -> io::Result<()> {
    // SAFETY: `attr` is a prefix of the kernel's `union bpf_attr`, and its pointers are valid as the callers
    // guarantee. Only `attr` is written to.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut *attr, size_of::<TestRunAttr>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
