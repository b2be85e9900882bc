//! The program that samples `post_send`, attached to a function of this process: every chain, opcode and length is
//! counted, and unreadable ones are counted as such.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]
#![expect(unsafe_code, reason = "chains of work requests are linked by pointers, as libibverbs has them")]

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

use rocescope::host::kernel::clock::monotonic_ns;
use rocescope::source::live::posts::Probe;
use rocescope_common::abi::post::{MOST_REQUESTS, MOST_SGES, PostCounts, size_class};
use rocescope_tests::kernel::available;

/// The tests share the function, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());
const MINUTE: u64 = 60_000_000_000;
/// `enum ibv_wr_opcode`.
const RDMA_WRITE: u32 = 0;
const SEND: u32 = 2;
const LOCAL_INV: u32 = 7;

/// `struct ibv_sge`.
#[repr(C)]
struct Sge {
    addr: u64,
    length: u32,
    lkey: u32,
}

/// `struct ibv_send_wr`, up to the last field read.
#[repr(C)]
struct Request {
    wr_id: u64,
    next: *const Request,
    sg_list: *const Sge,
    num_sge: i32,
    opcode: u32,
    send_flags: u32,
}

/// `struct ibv_context` up to its file descriptor.
#[repr(C)]
struct Context {
    before: [u64; 33],
    cmd_fd: i32,
}

/// `struct ibv_qp` up to its number.
#[repr(C)]
struct Qp {
    context: *const Context,
    others: [u64; 5],
    handle: u32,
    number: u32,
}

/// Stands for a provider's function.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn rocescope_test_post_send(qp: *const Qp, wr: *const Request, bad: *mut *const Request) -> i32 {
    black_box((qp, wr, bad));
    0
}

/// Location of the function in this executable.
fn place() -> (File, u64) {
    let address = rocescope_test_post_send as *const () as u64;
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let all = rocescope::host::rdma::verbs_context::mappings(&text);
    let code = all.iter().find(|m| (m.start..m.end).contains(&address)).unwrap();
    (File::open("/proc/self/exe").unwrap(), address - code.start + code.offset)
}

/// The program attached to the function, with the window open; `None` if that is not possible.
fn attached(most_calls: u64) -> Option<Probe> {
    if !available() {
        return None;
    }
    let mut probe = Probe::load().unwrap();
    let (file, offset) = place();
    probe.attach(&file, offset).unwrap();
    probe.open(monotonic_ns() + MINUTE, most_calls).unwrap();
    Some(probe)
}

/// Posts a chain of work requests, each with an opcode and the lengths of its buffers.
fn post(qpn: u32, chain: &[(u32, Vec<u32>)]) {
    let lists: Vec<Vec<Sge>> = chain
        .iter()
        .map(|(_, lengths)| lengths.iter().map(|&length| Sge { addr: 1, length, lkey: 2 }).collect())
        .collect();
    let mut requests: Vec<Request> = chain
        .iter()
        .zip(&lists)
        .map(|((opcode, _), list)| Request {
            wr_id: 1,
            next: ptr::null(),
            sg_list: list.as_ptr(),
            num_sge: i32::try_from(list.len()).unwrap(),
            opcode: *opcode,
            send_flags: 0,
        })
        .collect();
    let first = requests.as_mut_ptr();
    for at in 1..requests.len() {
        // SAFETY: both lie in the vector, which no longer grows.
        unsafe { (*first.add(at - 1)).next = first.add(at) };
    }
    post_raw(qpn, first);
}

fn post_raw(qpn: u32, wr: *const Request) {
    let context = Context { before: [7; 33], cmd_fd: 42 };
    let qp = Qp { context: &raw const context, others: [9; 5], handle: 3, number: qpn };
    let mut bad = ptr::null();
    rocescope_test_post_send(&raw const qp, wr, &raw mut bad);
}

/// The first PID namespace of every kernel (PROC_PID_INIT_INO of linux/proc_ns.h).
const FIRST_PIDS: &str = "pid:[4026531836]";

fn counts(probe: &Probe, qpn: u32) -> PostCounts {
    let all = probe.counts();
    let (key, counts) =
        all.iter().find(|(key, _)| key.qpn == qpn).unwrap_or_else(|| panic!("no QP {qpn}: {all:?}"));
    assert_eq!(key.device_fd, 42);
    // The kernel counts processes as its first namespace numbers them, which others do not know.
    if std::fs::read_link("/proc/self/ns/pid").unwrap() == Path::new(FIRST_PIDS) {
        assert_eq!(key.pid, std::process::id());
    } else {
        assert_ne!(key.pid, 0);
    }
    *counts
}

#[test]
fn chains_lengths_and_opcodes_are_counted() {
    let _alone = ALONE.lock();
    let Some(probe) = attached(1_000) else { return };
    for _ in 0..3 {
        post(17, &[(RDMA_WRITE, vec![65_536])]);
    }
    post(17, &[(SEND, vec![1, 0, 4_000]), (LOCAL_INV, vec![]), (RDMA_WRITE, vec![])]);
    post(18, &[(99, vec![5])]);
    let of = counts(&probe, 17);
    assert_eq!((of.calls, of.requests, of.bytes), (4, 6, 3 * 65_536 + 4_001));
    assert_eq!((of.opcodes[0], of.opcodes[2], of.opcodes[7], of.other_opcodes), (4, 1, 1, 0));
    assert_eq!((of.shortest, of.longest), (0, 65_536));
    let sizes: Vec<(usize, u64)> = (0..).zip(of.sizes).filter(|(_, n)| *n > 0).collect();
    // LOCAL_INV has no message.
    assert_eq!(sizes, [(0, 1), (size_class(4_001), 1), (size_class(65_536), 3)]);
    assert_eq!((of.long_chains, of.long_lists, of.faults), (0, 0, 0));
    let other = counts(&probe, 18);
    assert_eq!((other.requests, other.other_opcodes, other.bytes), (1, 1, 0));
    assert_eq!(probe.state().unwrap().window.calls, 5);
}

#[test]
fn what_is_too_long_or_cannot_be_read_is_counted() {
    let _alone = ALONE.lock();
    let Some(probe) = attached(1_000) else { return };
    let one = || (SEND, vec![10]);
    post(21, &(0..MOST_REQUESTS).map(|_| one()).collect::<Vec<_>>());
    assert_eq!((counts(&probe, 21).requests, counts(&probe, 21).long_chains), (MOST_REQUESTS as u64, 0));
    post(22, &(0..=MOST_REQUESTS).map(|_| one()).collect::<Vec<_>>());
    assert_eq!((counts(&probe, 22).requests, counts(&probe, 22).long_chains), (MOST_REQUESTS as u64, 1));
    post(23, &[(SEND, vec![10; MOST_SGES + 1]), one()]);
    let of = counts(&probe, 23);
    assert_eq!((of.requests, of.bytes, of.long_lists), (2, 10 * MOST_SGES as u64 + 10, 1));
    // An invalid address, and a list with an invalid address after a valid request.
    post_raw(24, ptr::without_provenance(8));
    assert_eq!((counts(&probe, 24).requests, counts(&probe, 24).faults), (0, 1));
    let lost = Request {
        wr_id: 1,
        next: ptr::null(),
        sg_list: ptr::without_provenance(8),
        num_sge: 1,
        opcode: SEND,
        send_flags: 0,
    };
    let first = Request { next: &raw const lost, num_sge: -1, sg_list: ptr::null(), ..lost };
    post_raw(25, &raw const first);
    assert_eq!((counts(&probe, 25).requests, counts(&probe, 25).faults), (1, 1));
    rocescope_test_post_send(ptr::null(), ptr::null(), ptr::null_mut());
    assert_eq!(probe.state().unwrap().window.faults, 1);
}

#[test]
fn the_limit_closes_the_window_and_what_is_detached_counts_nothing() {
    let _alone = ALONE.lock();
    let Some(mut probe) = attached(5) else { return };
    for _ in 0..9 {
        post(31, &[(SEND, vec![1])]);
    }
    let state = probe.state().unwrap();
    assert_eq!((counts(&probe, 31).calls, state.window.calls, state.is_stopped), (5, 5, true));
    assert!(state.window.stopped_ns <= monotonic_ns());
    probe.open(monotonic_ns() + MINUTE, 100).unwrap();
    post(31, &[(SEND, vec![1])]);
    assert_eq!((counts(&probe, 31).calls, probe.state().unwrap().window.calls), (6, 1));
    // A window that has expired.
    probe.open(1, 100).unwrap();
    post(31, &[(SEND, vec![1])]);
    probe.open(monotonic_ns() + MINUTE, 100).unwrap();
    probe.detach();
    post(31, &[(SEND, vec![1])]);
    assert_eq!((counts(&probe, 31).calls, probe.state().unwrap().window.calls), (6, 0));
    probe.forget(&[probe.counts()[0].0]);
    assert_eq!(probe.counts(), []);
}

/// Time per call while it is sampled, and afterwards: only printed, since it depends on the machine.
#[test]
fn a_call_costs_what_a_uprobe_costs() {
    const CALLS: u32 = 20_000;
    let _alone = ALONE.lock();
    let Some(mut probe) = attached(u64::MAX) else { return };
    let timed = || {
        let start = monotonic_ns();
        for _ in 0..CALLS {
            post_raw(41, ptr::null());
        }
        (monotonic_ns() - start) / u64::from(CALLS)
    };
    let open = timed();
    probe.open(1, 1).unwrap();
    let closed = timed();
    probe.detach();
    let without = timed();
    println!(
        "{open} ns a call in an open window, {closed} ns attached with the window closed, {without} ns without"
    );
    assert_eq!(counts(&probe, 41).calls, u64::from(CALLS));
    // Detached, a call has its normal cost again.
    assert!(without * 4 < open, "{without} ns after, {open} ns before");
}
