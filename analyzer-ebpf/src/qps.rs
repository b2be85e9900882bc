//! Programs that follow queue pairs through the kernel's control path: kprobes of the verbs that make,
//! modify and end them, and of the events that devices report.
//!
//! They run for control verbs only, never for a packet or a work request. A call is recorded when it
//! returns, because addresses are resolved in between; its arguments wait in `CALLS` until then. The
//! programs know a few offsets, which user space sets, and copy the structures whole.
#![no_std]
#![no_main]
#![expect(unsafe_code, reason = "kernel memory is read through pointers that the helpers check")]

mod commands;

use aya_ebpf::Global;
use aya_ebpf::bindings::{BPF_F_NO_COMMON_LRU, BPF_RB_NO_WAKEUP};
use aya_ebpf::btf_maps::{HashMap, LruHashMap, PerCpuArray, RingBuf};
use aya_ebpf::helpers::generated::{
    bpf_get_current_cgroup_id, bpf_ktime_get_ns, bpf_probe_read_kernel as read_kernel,
};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_probe_read_kernel};
use aya_ebpf::macros::{btf_map, kprobe, kretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rocescope_common::abi::qp::{
    ABSENT, ATTR_BYTES, BY_PROCESS, COMM, Call, DEVICE_NAME, LONGEST_CALL_NS, QP_BYTES, QP_RECORDS_BYTES,
    QpRecord, count, kind,
};

/// Calls under way at once: the kernel divides them among its CPUs, 128 on each of 128.
const CALLS_MAX: usize = 16_384;
/// Queue pairs that are being destroyed at once: a thread destroys one at a time, and waits for no peer.
const DESTROYS_MAX: usize = 2_048;
/// Each CPU makes room among its own entries. With a common list CPUs set free entries aside, and on hosts with many of
/// them calls that are under way would go.
const OF_EACH_CPU: usize = BPF_F_NO_COMMON_LRU as usize;

#[btf_map]
static QP_RECORDS: RingBuf<QpRecord, QP_RECORDS_BYTES> = RingBuf::new();

#[btf_map]
static QP_COUNTS: PerCpuArray<u64, { count::COUNTS as usize }> = PerCpuArray::new();

/// Arguments of the calls that have not returned, by thread: a thread is in one verb at a time. The entry of a call
/// whose return is missed stays, and if its thread ends nothing removes it: the least recently used make room.
#[btf_map]
static CALLS: LruHashMap<u64, Call, CALLS_MAX, OF_EACH_CPU> = LruHashMap::new();

/// Queue pairs that are being destroyed, by thread. Within that of mlx5's for management, the driver destroys others:
/// then the result of the outer one is not recorded.
#[btf_map]
static DESTROYS: LruHashMap<u64, u64, DESTROYS_MAX, OF_EACH_CPU> = LruHashMap::new();

/// Calls within which the driver calls the same verb for another queue pair, by thread: mlx5 has a hidden queue pair
/// behind each of those for management (GSI), and modifies it so.
#[btf_map]
static OUTER_CALLS: HashMap<u64, Call, OUTER_MAX> = HashMap::new();
/// One for each port of a device, while it is added.
const OUTER_MAX: usize = 256;
/// The longest time from a call to one within it. A call that was entered before has returned unseen.
const NESTED_NS: u64 = 100_000_000;

/// See [`rocescope_common::abi::qp::QpLayout`], also for the others.
#[unsafe(no_mangle)]
static QP_SIZE: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static ATTR_SIZE: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static QP_DEVICE: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static DEVICE_NAME_AT: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static QP_SGID: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static QP_REAL: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static QP_TASK: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static TASK_TGID: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static GID_AT: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static EVENT_DEVICE: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static EVENT_ELEMENT: Global<u32> = Global::new(ABSENT);
#[unsafe(no_mangle)]
static EVENT_TYPE: Global<u32> = Global::new(ABSENT);
/// From `bnxt_re_qp.qplib_qp` to `bnxt_re_qp.ib_qp`, which may be backwards; or [`ABSENT`].
#[unsafe(no_mangle)]
static BNXT_QP: Global<u32> = Global::new(ABSENT);
/// The thread whose queries are recorded: the one of rocescope that lists queue pairs.
#[unsafe(no_mangle)]
static OWN_THREAD: Global<u32> = Global::new(0);

/// A process is about to make a queue pair on a device.
#[kprobe]
pub fn rocescope_qp_create(ctx: ProbeContext) -> u32 {
    let Some(device) = ctx.arg::<u64>(0) else { return 0 };
    remember(Call {
        qp: 0,
        attr: device,
        time_ns: now(),
        mask: u64::from(BY_PROCESS),
        kind: u64::from(kind::CREATED),
    });
    0
}

/// A queue pair was made, or that failed.
#[kretprobe]
pub fn rocescope_qp_created(ctx: RetProbeContext) -> u32 {
    let qp: u64 = ctx.ret();
    add(count::RETURNED);
    // An error is the last page of addresses (`IS_ERR` of linux/err.h).
    let failed = qp > u64::MAX - 4_096;
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: the entry belongs to this thread alone.
    let call = match unsafe { CALLS.get(thread) } {
        Some(call) if call.kind == u64::from(kind::CREATED) => {
            let call = *call;
            let _gone = CALLS.remove(thread);
            call
        }
        // The kernel's own are entered unseen, also within a verb that has not returned.
        _ => {
            add(count::ENTERED);
            Call { qp: 0, attr: 0, time_ns: 0, mask: 0, kind: 0 }
        }
    };
    let call = Call { qp: if failed { 0 } else { qp }, ..call };
    record(kind::CREATED, &call, if failed { qp as i32 } else { 0 }, 0);
    0
}

/// A queue pair is about to be modified.
#[kprobe]
pub fn rocescope_qp_modify(ctx: ProbeContext) -> u32 {
    enter(&ctx, u64::from(kind::MODIFIED));
    0
}

/// A queue pair was modified.
#[kretprobe]
pub fn rocescope_qp_modified(ctx: RetProbeContext) -> u32 {
    leave(&ctx, kind::MODIFIED);
    0
}

/// A queue pair is about to be queried.
#[kprobe]
pub fn rocescope_qp_query(ctx: ProbeContext) -> u32 {
    if bpf_get_current_pid_tgid() as u32 == OWN_THREAD.load() {
        enter(&ctx, u64::from(kind::QUERIED));
    }
    0
}

/// A queue pair was queried.
#[kretprobe]
pub fn rocescope_qp_queried(ctx: RetProbeContext) -> u32 {
    if bpf_get_current_pid_tgid() as u32 == OWN_THREAD.load() {
        leave(&ctx, kind::QUERIED);
    }
    0
}

/// A queue pair is about to go. Processes share one that is the target of XRC and have a handle each, which the same
/// function destroys: the queue pair lives on until it is called for that itself.
#[kprobe]
pub fn rocescope_qp_destroyed(ctx: ProbeContext) -> u32 {
    let Some(qp) = ctx.arg::<u64>(0) else { return 0 };
    let real = of(qp, QP_REAL.load());
    if real != 0 && real != qp {
        // Its return must not be taken for that of an earlier one whose return was missed.
        let _gone = DESTROYS.remove(bpf_get_current_pid_tgid());
        return 0;
    }
    add(count::ENTERED);
    add(count::RETURNED);
    let _full = DESTROYS.insert(bpf_get_current_pid_tgid(), qp, 0);
    record(kind::DESTROYED, &Call { qp, attr: 0, time_ns: 0, mask: 0, kind: 0 }, 0, 0);
    0
}

/// A queue pair was destroyed, or that failed: then it exists still, and its memory with it.
#[kretprobe]
pub fn rocescope_qp_kept(ctx: RetProbeContext) -> u32 {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: the entry belongs to this thread alone.
    let Some(qp) = (unsafe { DESTROYS.get(thread) }).copied() else { return 0 };
    let _gone = DESTROYS.remove(thread);
    let result: i32 = ctx.ret();
    if result != 0 {
        record(kind::DESTROYED, &Call { qp, attr: 0, time_ns: 0, mask: 0, kind: 0 }, result, 0);
    }
    0
}

/// An asynchronous event of a queue pair.
#[kprobe]
pub fn rocescope_qp_event(ctx: ProbeContext) -> u32 {
    event(&ctx, kind::EVENT);
    0
}

/// An event of a port or device.
#[kprobe]
pub fn rocescope_device_event(ctx: ProbeContext) -> u32 {
    event(&ctx, kind::DEVICE_EVENT);
    0
}

/// An event of bnxt_re's firmware: it took a queue pair to the error state, and says why
/// (`struct creq_qp_error_notification` of roce_hsi.h): byte 9 is the kind of event, reasons of requester and responder
/// are bytes 3 and 11. The functions that it is handed on to are static, and the compiler leaves none of them.
#[kprobe]
pub fn rocescope_qp_reason(ctx: ProbeContext) -> u32 {
    const QP_ERROR: u64 = 0xc0;
    let (Some(event), Some(own)) = (ctx.arg::<u64>(1), ctx.arg::<u64>(2)) else { return 0 };
    let (of_qp, rest) = (BNXT_QP.load(), pointer(event, 8));
    // Without a queue pair, it is gone already.
    if of_qp == ABSENT || own == 0 || (rest >> 8) & 0xff != QP_ERROR {
        return 0;
    }
    let requester = (pointer(event, 0) >> 24) as u32 & 0xff;
    let responder = (rest >> 24) as u32 & 0xff;
    let qp = own.wrapping_add(of_qp as i32 as u64);
    let call = Call { qp, attr: 0, time_ns: 0, mask: u64::from(requester | responder << 8), kind: 0 };
    record(kind::REASON, &call, 0, 0);
    0
}

#[inline(always)]
fn enter(ctx: &ProbeContext, kind: u64) {
    let (Some(qp), Some(attr), Some(mask)) = (ctx.arg::<u64>(0), ctx.arg::<u64>(1), ctx.arg::<u32>(2)) else {
        return;
    };
    let (thread, now) = (bpf_get_current_pid_tgid(), now());
    // SAFETY: the entry belongs to this thread alone.
    if let Some(outer) = unsafe { CALLS.get(thread) }
        && outer.kind == kind
        && outer.qp != qp
        && now.wrapping_sub(outer.time_ns) < NESTED_NS
    {
        let outer = *outer;
        let _full = OUTER_CALLS.insert(thread, outer, 0);
    }
    remember(Call { qp, attr, time_ns: now, mask: u64::from(mask), kind });
}

#[inline(always)]
fn remember(call: Call) {
    add(count::ENTERED);
    // Without room the return is not seen, which the two counts show.
    let _full = CALLS.insert(bpf_get_current_pid_tgid(), call, 0);
}

/// True while this thread is in a verb.
#[inline(always)]
fn is_in_verb(thread: u64) -> bool {
    // SAFETY: the entry belongs to this thread alone.
    let Some(call) = (unsafe { CALLS.get(thread) }) else { return false };
    now().wrapping_sub(call.time_ns) < LONGEST_CALL_NS
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: takes nothing and reads the clock.
    unsafe { bpf_ktime_get_ns() }
}

/// The control group of the calling process.
#[inline(always)]
fn cgroup() -> u64 {
    // SAFETY: takes nothing and reads the current task.
    unsafe { bpf_get_current_cgroup_id() }
}

#[inline(always)]
fn leave(ctx: &RetProbeContext, kind: u8) {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: the entry belongs to this thread alone.
    let Some(call) = (unsafe { CALLS.get(thread) }).copied() else { return };
    // An inner verb has already ended, or this is the return of one.
    if call.kind != u64::from(kind) {
        return;
    }
    // SAFETY: as above.
    if let Some(outer) = unsafe { OUTER_CALLS.get(thread) }.copied() {
        let _gone = OUTER_CALLS.remove(thread);
        let _full = CALLS.insert(thread, outer, 0);
    } else {
        let _gone = CALLS.remove(thread);
    }
    add(count::RETURNED);
    record(kind, &call, ctx.ret(), 0);
}

/// An event names its queue pair, or its port, in the same place.
#[inline(always)]
fn event(ctx: &ProbeContext, kind: u8) {
    let Some(event) = ctx.arg::<u64>(0) else { return };
    let (of_device, of_element, of_type) = (EVENT_DEVICE.load(), EVENT_ELEMENT.load(), EVENT_TYPE.load());
    if of_device == ABSENT || of_element == ABSENT || of_type == ABSENT {
        return;
    }
    let element = pointer(event, of_element);
    let number = pointer(event, of_type) as u32;
    let (qp, attr) = if kind == kind::EVENT { (element, 0) } else { (0, pointer(event, of_device)) };
    // The port lies in the lower half of the element.
    let call = Call { qp, attr, time_ns: 0, mask: u64::from(element as u32), kind: 0 };
    record(kind, &call, 0, number);
}

/// Eight bytes at an address of the kernel; 0 when it cannot be read.
#[inline(always)]
fn pointer(base: u64, offset: u32) -> u64 {
    let at = base.wrapping_add(u64::from(offset)) as *const u64;
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(at) }.unwrap_or(0)
}

#[inline(always)]
fn record(kind: u8, call: &Call, result: i32, event: u32) {
    let Some(mut entry) = QP_RECORDS.reserve(0) else {
        add(count::DROPPED);
        return;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: the entry has room for a record, and every field is written before it is submitted.
    unsafe {
        let now = now();
        (*record).time_ns = now;
        (*record).duration_ns = if call.time_ns == 0 { 0 } else { now.wrapping_sub(call.time_ns) };
        (*record).cgroup = cgroup();
        (*record).pid =
            if kind == kind::QUERIED { maker(call.qp) } else { (bpf_get_current_pid_tgid() >> 32) as u32 };
        (*record).mask = call.mask as u32;
        (*record).result = result;
        (*record).event = event;
        (*record).kind = kind;
        (*record).pad = 0;
        (*record).comm = bpf_get_current_comm().unwrap_or([0; COMM]);
        let has_device = kind == kind::DEVICE_EVENT || kind == kind::CREATED;
        let device = if has_device && call.qp == 0 { call.attr } else { of(call.qp, QP_DEVICE.load()) };
        let name = (&raw mut (*record).device).cast::<u8>();
        copy(name, DEVICE_NAME as u32, DEVICE_NAME, device, DEVICE_NAME_AT.load());
        let sgid = of(call.qp, QP_SGID.load());
        (*record).has_sgid =
            u8::from(copy((&raw mut (*record).sgid).cast(), 16, 16, sgid, GID_AT.load()) > 0);
        let bytes = (&raw mut (*record).qp_bytes).cast::<u8>();
        (*record).qp_len = copy(bytes, QP_SIZE.load(), QP_BYTES, call.qp, 0) as u16;
        let attr = if has_device { 0 } else { call.attr };
        let bytes = (&raw mut (*record).attr_bytes).cast::<u8>();
        (*record).attr_len = copy(bytes, ATTR_SIZE.load(), ATTR_BYTES, attr, 0) as u16;
    }
    // Without a wakeup: user space polls. The wakeup is an interrupt on this CPU, after which the kernel runs
    // what waits there, a driver's completions among it; while a probe runs it skips the probes of those.
    entry.submit(u64::from(BPF_RB_NO_WAKEUP));
}

/// The process that made a queue pair; 0 for the kernel's own. RDMA netlink names the thread, as long as that runs.
#[inline(always)]
fn maker(qp: u64) -> u32 {
    let task = of(qp, QP_TASK.load());
    if task == 0 { 0 } else { pointer(task, TASK_TGID.load()) as u32 }
}

/// The pointer in a field; 0 when there is none.
#[inline(always)]
fn of(base: u64, offset: u32) -> u64 {
    if base == 0 || offset == ABSENT { 0 } else { pointer(base, offset) }
}

/// Copies `len` bytes, at most `room`, of what lies at `offset` from `base`. Gives the number of bytes
/// copied. Bytes that are not copied stay undefined and are no part of the record's valid bytes.
///
/// # Safety
/// `to` points to `room` bytes.
#[inline(always)]
unsafe fn copy(to: *mut u8, len: u32, room: usize, base: u64, offset: u32) -> u32 {
    let len = if len as usize > room { room as u32 } else { len };
    if base == 0 || offset == ABSENT || len == 0 {
        // SAFETY: promised by the caller; a name that was not read is empty.
        unsafe { to.write(0) };
        return 0;
    }
    let from = base.wrapping_add(u64::from(offset)) as *const core::ffi::c_void;
    // SAFETY: the helper checks the source, and `len` is at most `room`.
    let failed = unsafe { read_kernel(to.cast(), len, from) };
    if failed == 0 {
        len
    } else {
        // SAFETY: as above.
        unsafe { to.write(0) };
        0
    }
}

#[inline(always)]
fn add(index: u32) {
    if let Some(count) = QP_COUNTS.get_ptr_mut(index) {
        // SAFETY: a value of this CPU; a kprobe does not interrupt another on it.
        unsafe { *count += 1 };
    }
}

rocescope_ebpf::kernel_object!();
