//! Program that samples `post_send` of RDMA providers: a uprobe at the entry of the function, attached for short
//! windows.
//!
//! A call posts a chain of work requests, which is walked. Layouts of `struct ibv_qp`, `ibv_send_wr` and `ibv_sge` are
//! those of libibverbs' stable interface (IBVERBS_1.1).
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unsafe_code, reason = "memory of processes is read through pointers that the helpers check")]

use core::arch::asm;
use core::ffi::c_void;

use aya_ebpf::btf_maps::{Array, HashMap};
use aya_ebpf::helpers::generated::{bpf_ktime_get_ns, bpf_probe_read_user as read_user};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_user};
use aya_ebpf::macros::{btf_map, uprobe};
use aya_ebpf::programs::ProbeContext;
use rocescope_common::abi::post::{
    MOST_QPS, MOST_REQUESTS, MOST_SGES, OPCODES, PostCounts, PostKey, PostWindow, SIZES, WITHOUT_MESSAGE,
    size_class,
};

#[btf_map]
static POST_QPS: HashMap<PostKey, PostCounts, MOST_QPS> = HashMap::new();

#[btf_map]
static POST_WINDOW: Array<PostWindow, 1> = Array::new();

/// A new entry of the map: too large for the stack.
static NONE: &PostCounts = &PostCounts::NONE;

/// `BPF_NOEXIST`: another CPU may have been first.
const NO_EXIST: u64 = 1;
/// `ibv_context.cmd_fd`.
const CMD_FD: u64 = 264;
/// `ibv_send_wr.next`; `sg_list`, `num_sge` and `opcode` follow.
const WR_NEXT: u64 = 8;

/// First bytes of a `struct ibv_qp`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Qp {
    context: u64,
    others: [u64; 5],
    handle: u32,
    qp_num: u32,
}

/// A `struct ibv_send_wr` from `next` on.
#[derive(Clone, Copy)]
#[repr(C)]
struct Request {
    next: u64,
    sg_list: u64,
    num_sge: i32,
    opcode: u32,
}

/// `post_send(qp, wr, bad_wr)` was called.
#[uprobe]
pub fn rocescope_post_send(ctx: ProbeContext) -> u32 {
    if let (Some(qp), Some(wr)) = (ctx.arg::<u64>(0), ctx.arg::<u64>(1)) {
        count(qp, wr);
    }
    0
}

#[inline(always)]
fn count(qp: u64, wr: u64) {
    let Some(window) = POST_WINDOW.get_ptr_mut(0) else { return };
    // SAFETY: takes nothing and reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: map memory, whose words are read and written whole.
    unsafe {
        if now >= (&raw const (*window).until_ns).read_volatile() {
            return;
        }
        if (&raw const (*window).calls).read_volatile() >= (*window).most_calls {
            (&raw mut (*window).until_ns).write_volatile(0);
            (&raw mut (*window).stopped_ns).write_volatile(now);
            return;
        }
        add(&raw mut (*window).calls, 1);
    }
    let Some(key) = key_of(qp) else {
        // SAFETY: as above.
        unsafe { add(&raw mut (*window).faults, 1) };
        return;
    };
    let Some(counts) = entry(&key) else {
        // SAFETY: as above.
        unsafe { add(&raw mut (*window).full, 1) };
        return;
    };
    // SAFETY: a value of the map.
    unsafe {
        add(&raw mut (*counts).calls, 1);
        walk(wr, counts);
    }
}

#[inline(always)]
fn key_of(qp: u64) -> Option<PostKey> {
    // SAFETY: the helper checks the address.
    let of = unsafe { bpf_probe_read_user(qp as *const Qp) }.ok()?;
    // SAFETY: as above.
    let device_fd = unsafe { bpf_probe_read_user(of.context.wrapping_add(CMD_FD) as *const u32) }.ok()?;
    let pid = (bpf_get_current_pid_tgid() >> 32) as u32;
    Some(PostKey { pid, qpn: of.qp_num, device_fd, pad: 0 })
}

#[inline(always)]
fn entry(key: &PostKey) -> Option<*mut PostCounts> {
    if let Some(known) = POST_QPS.get_ptr_mut(key) {
        return Some(known);
    }
    let _full_or_known = POST_QPS.insert(key, NONE, NO_EXIST);
    POST_QPS.get_ptr_mut(key)
}

/// Walks a chain of work requests.
///
/// # Safety
/// `counts` is a value of the map.
#[inline(always)]
unsafe fn walk(mut wr: u64, counts: *mut PostCounts) {
    for _ in 0..MOST_REQUESTS {
        if wr == 0 {
            return;
        }
        // SAFETY: the helper checks the address.
        let read = unsafe { bpf_probe_read_user(wr.wrapping_add(WR_NEXT) as *const Request) };
        // SAFETY: promised by the caller.
        let next = read.ok().and_then(|request| unsafe { one(&request, counts) }.then_some(request.next));
        let Some(next) = next else {
            // SAFETY: promised by the caller.
            unsafe { add(&raw mut (*counts).faults, 1) };
            return;
        };
        wr = next;
    }
    if wr != 0 {
        // SAFETY: promised by the caller.
        unsafe { add(&raw mut (*counts).long_chains, 1) };
    }
}

/// Counts one work request. False when its buffers cannot be read.
///
/// # Safety
/// As for [`walk`].
#[inline(always)]
unsafe fn one(request: &Request, counts: *mut PostCounts) -> bool {
    let opcode = request.opcode as usize;
    let carries = opcode < OPCODES && WITHOUT_MESSAGE >> opcode & 1 == 0;
    let mut length = 0;
    if carries {
        // SAFETY: promised by the caller.
        match unsafe { message(request, counts) } {
            Some(bytes) => length = bytes,
            None => return false,
        }
    }
    // SAFETY: promised by the caller; the indices are within the arrays.
    unsafe {
        add(&raw mut (*counts).requests, 1);
        if opcode < OPCODES {
            add((&raw mut (*counts).opcodes).cast::<u64>().add(opcode), 1);
        } else {
            add(&raw mut (*counts).other_opcodes, 1);
        }
        if carries {
            add(&raw mut (*counts).bytes, length);
            add((&raw mut (*counts).sizes).cast::<u64>().add(class_of(length)), 1);
            // Two threads on one queue pair may overwrite each other's: the next message of that length sets it again.
            if length < (*counts).shortest {
                (*counts).shortest = length;
            }
            if length > (*counts).longest {
                (*counts).longest = length;
            }
        }
    }
    true
}

/// [`size_class`], with a bound that the verifier sees: the compiler proves it and leaves it out.
#[inline(always)]
fn class_of(length: u64) -> usize {
    let mut class = size_class(length);
    // SAFETY: the instruction changes nothing; the compiler forgets what it knows of the number.
    unsafe { asm!("{0} = {0}", inout(reg) class, options(nomem, nostack, preserves_flags)) };
    if class < SIZES { class } else { SIZES - 1 }
}

/// Length of a work request's message; `None` when its buffers cannot be read.
///
/// # Safety
/// As for [`walk`].
#[inline(always)]
unsafe fn message(request: &Request, counts: *mut PostCounts) -> Option<u64> {
    let mut number = if request.num_sge < 0 { 0 } else { request.num_sge as usize };
    if number > MOST_SGES {
        number = MOST_SGES;
        // SAFETY: promised by the caller.
        unsafe { add(&raw mut (*counts).long_lists, 1) };
    }
    if number == 0 {
        return Some(0);
    }
    // A `struct ibv_sge` is address, length, key. Elements that are not read stay 0.
    let mut list = [0u64; 2 * MOST_SGES];
    let from = request.sg_list as *const c_void;
    // SAFETY: the helper checks the source, and the list has room for as many.
    let failed = unsafe { read_user(list.as_mut_ptr().cast(), (number * 16) as u32, from) };
    if failed != 0 {
        return None;
    }
    let mut length = 0;
    let mut index = 1;
    while index < 2 * MOST_SGES {
        length += list[index] & 0xffff_ffff;
        index += 2;
    }
    Some(length)
}

/// Adds to a word of map memory atomically. In BPF assembly: Rust has no such operation for this target.
///
/// # Safety
/// The word is aligned and in the memory of a map.
#[inline(always)]
unsafe fn add(word: *mut u64, value: u64) {
    // SAFETY: promised by the caller.
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) word, in(reg) value, options(nostack)) };
}

rocescope_ebpf::kernel_object!();
