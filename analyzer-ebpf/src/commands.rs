//! Commands about queue pairs that processes give to mlx5's firmware past the verbs (DEVX): how GPUs get
//! queue pairs that no list of the kernel has.
//!
//! All commands of the driver pass the function, so the opcode decides first. A command of a verb runs in the
//! thread of that verb, which waits in `CALLS`; one of the kernel's own has no user (`uid`). Of these the query with
//! the context's extension is recorded: by it the driver asks why a queue pair is in the error state.

use core::ffi::c_void;

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::btf_maps::{LruHashMap, RingBuf};
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid};
use aya_ebpf::macros::{btf_map, kprobe, kretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rocescope_common::abi::qp::{
    ABSENT, COMM, COMMAND_INPUT, COMMAND_OUTPUT, CommandRecord, DEVICE_NAME, command, count,
};

use super::{CALLS_MAX, OF_EACH_CPU, add, cgroup, copy, is_in_verb, now, of, pointer};

/// Some 680 records, emptied every 20 ms; a command takes the firmware some tens of microseconds.
const COMMANDS_BYTES: usize = 256 << 10;

#[btf_map]
static QP_COMMANDS: RingBuf<CommandRecord, COMMANDS_BYTES> = RingBuf::new();

/// Arguments of the commands that have not ended, by thread.
#[btf_map]
static COMMANDS: LruHashMap<u64, Command, CALLS_MAX, OF_EACH_CPU> = LruHashMap::new();

#[derive(Clone, Copy)]
#[repr(C)]
struct Command {
    device: u64,
    input: u64,
    output: u64,
    input_len: u32,
    output_len: u32,
}

/// `mlx5_core_dev.device`, or [`ABSENT`].
#[unsafe(no_mangle)]
static CORE_DEVICE: Global<u32> = Global::new(ABSENT);
/// `device.kobj.name`, or [`ABSENT`].
#[unsafe(no_mangle)]
static DEVICE_KOBJ_NAME: Global<u32> = Global::new(ABSENT);

/// A command goes to the firmware.
#[kprobe]
pub fn rocescope_qp_command(ctx: ProbeContext) -> u32 {
    let (Some(input), Some(input_len)) = (ctx.arg::<u64>(1), ctx.arg::<u32>(2)) else { return 0 };
    // Opcode and user, both big-endian, in the first eight bytes.
    let first = u64::from_be(pointer(input, 0));
    let (opcode, user) = ((first >> 48) as u16, (first >> 32) as u16);
    // `qpc_ext` is the highest bit of the next eight bytes.
    let asks_why = opcode == command::QUERY && u64::from_be(pointer(input, 8)) >> 63 == 1;
    if !asks_why && (!command::is_followed(opcode) || user == 0) {
        return 0;
    }
    let thread = bpf_get_current_pid_tgid();
    if is_in_verb(thread) {
        return 0;
    }
    let (Some(device), Some(output), Some(output_len)) =
        (ctx.arg::<u64>(0), ctx.arg::<u64>(3), ctx.arg::<u32>(4))
    else {
        return 0;
    };
    // Of a query the extension matters, which a short answer does not have.
    let skipped = if asks_why { command::EXTENSION } else { 0 };
    let output = output.wrapping_add(u64::from(skipped));
    let output_len = output_len.saturating_sub(skipped);
    add(count::COMMANDS);
    // Without room its end is not seen, which the two counts show.
    let _full = COMMANDS.insert(thread, Command { device, input, output, input_len, output_len }, 0);
    0
}

/// The firmware has answered.
#[kretprobe]
pub fn rocescope_qp_commanded(ctx: RetProbeContext) -> u32 {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: the entry belongs to this thread alone.
    let Some(command) = (unsafe { COMMANDS.get(thread) }).copied() else { return 0 };
    let _gone = COMMANDS.remove(thread);
    add(count::COMMANDS_ENDED);
    let Some(mut entry) = QP_COMMANDS.reserve(0) else {
        add(count::DROPPED);
        return 0;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: the entry has room for a record, and every field is written before it is submitted.
    unsafe {
        (*record).time_ns = now();
        (*record).cgroup = cgroup();
        (*record).pid = (thread >> 32) as u32;
        (*record).result = ctx.ret();
        (*record).comm = bpf_get_current_comm().unwrap_or([0; COMM]);
        let name = of(of(command.device, CORE_DEVICE.load()), DEVICE_KOBJ_NAME.load());
        let to = (&raw mut (*record).device).cast::<u8>();
        to.write(0);
        // Without a name the device is not known.
        let _failed = bpf_probe_read_kernel_str(to.cast(), DEVICE_NAME as u32, name as *const c_void);
        let to = (&raw mut (*record).input).cast();
        (*record).input_len = copy(to, command.input_len, COMMAND_INPUT, command.input, 0);
        let to = (&raw mut (*record).output).cast();
        (*record).output_len = copy(to, command.output_len, COMMAND_OUTPUT, command.output, 0);
    }
    entry.submit(u64::from(BPF_RB_NO_WAKEUP));
    0
}
