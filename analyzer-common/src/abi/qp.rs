//! Records of the programs that follow queue pairs through the kernel's control path.
//!
//! The programs copy the kernel's structures whole: their layout is known to user space alone, which reads
//! it from BTF.

/// Bytes copied of `struct ib_qp`, whose length differs between kernels (296 in 6.1).
pub const QP_BYTES: usize = 384;
/// Bytes copied of `struct ib_qp_attr` (216 in 6.1).
pub const ATTR_BYTES: usize = 256;
/// Length of a device's name in bytes, the kernel's `IB_DEVICE_NAME_MAX`.
pub const DEVICE_NAME: usize = 64;
/// Length of a process name (`TASK_COMM_LEN`).
pub const COMM: usize = 16;

/// Ring buffer of [`QpRecord`].
pub const QP_RECORDS: &str = "QP_RECORDS";
/// Its length. Each record takes its own length and a header of 8 bytes.
pub const QP_RECORDS_BYTES: usize = 2 << 20;
/// Map from threads to the verbs that they have entered and that have not been seen to return: [`Call`].
pub const QP_CALLS: &str = "CALLS";
/// Per-CPU array of counts, indexed by the constants of [`count`].
pub const QP_COUNTS: &str = "QP_COUNTS";

/// Ring buffer of [`CommandRecord`].
pub const QP_COMMANDS: &str = "QP_COMMANDS";
/// Bytes copied of a command's input: its header of 24 bytes, the QP context of 232, and the second part of the mask of
/// what it sets, behind 8 bytes.
pub const COMMAND_INPUT: usize = 272;
/// Bytes copied of a command's output: status, syndrome, and the number of a new queue pair.
pub const COMMAND_OUTPUT: usize = 16;

/// `mask` of a queue pair that a process made, not the kernel for itself.
pub const BY_PROCESS: u32 = 1;

/// Indices into [`QP_COUNTS`].
pub mod count {
    /// Calls that were entered.
    pub const ENTERED: u32 = 0;
    /// Calls whose return was seen. A kretprobe misses returns silently when more calls sleep at once than
    /// it, or the table of their arguments, has places for.
    pub const RETURNED: u32 = 1;
    /// Records that found the ring buffer full.
    pub const DROPPED: u32 = 2;
    /// Commands of queue pairs that were handed to the firmware (`mlx5_cmd_do`).
    pub const COMMANDS: u32 = 3;
    /// Those whose end was seen.
    pub const COMMANDS_ENDED: u32 = 4;
    /// Number of counts.
    pub const COUNTS: u32 = 5;
}

/// Subjects of a record.
pub mod kind {
    /// A queue pair was made (`ib_create_qp_user`, `ib_create_qp_kernel`).
    pub const CREATED: u8 = 1;
    /// A queue pair was modified, or that failed (`ib_modify_qp_with_udata`, `ib_modify_qp`).
    pub const MODIFIED: u8 = 2;
    /// A queue pair is about to go (`ib_destroy_qp_user`), or, with a result, it did not and exists still; not one of
    /// its handles, if BTF has `ib_qp.real_qp`.
    pub const DESTROYED: u8 = 3;
    /// The attributes of a queue pair as its device reports them (`ib_query_qp`), asked for by rocescope; `pid` is the
    /// process that made it.
    pub const QUERIED: u8 = 4;
    /// An asynchronous event of a queue pair (`ib_uverbs_qp_event_handler`).
    pub const EVENT: u8 = 5;
    /// An event of a port or device (`ib_dispatch_event`).
    pub const DEVICE_EVENT: u8 = 6;
    /// The reason for which a queue pair is in the error state (`bnxt_re_aeq_handler`): that of its requester
    /// in the lowest byte of `mask`, that of its responder in the next.
    pub const REASON: u8 = 7;
}

/// One call or event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct QpRecord {
    /// Kernel's monotonic clock at the end of the call.
    pub time_ns: u64,
    /// Duration of the call; 0 for those that are recorded as they begin.
    pub duration_ns: u64,
    /// Control group of the calling process, in the unified hierarchy.
    pub cgroup: u64,
    /// Calling process, in the initial PID namespace; in a record of [`kind::QUERIED`] the one that made the queue
    /// pair, or 0.
    pub pid: u32,
    /// Attributes that were given (`enum ib_qp_attr_mask`); of a queue pair that was made, [`BY_PROCESS`] or 0; of an
    /// event of a port, its number.
    pub mask: u32,
    /// Result of the call: 0, or a negative errno.
    pub result: i32,
    /// Event, a value of the kernel's `enum ib_event_type`.
    pub event: u32,
    /// Kind of the record, a value of [`kind`].
    pub kind: u8,
    /// 1 when `sgid` was read.
    pub has_sgid: u8,
    /// Valid bytes of `qp_bytes`.
    pub qp_len: u16,
    /// Valid bytes of `attr_bytes`.
    pub attr_len: u16,
    /// Always 0.
    pub pad: u16,
    /// Name of the calling thread.
    pub comm: [u8; COMM],
    /// Name of the device.
    pub device: [u8; DEVICE_NAME],
    /// The GID that the queue pair sends from.
    pub sgid: [u8; 16],
    /// Start of the `struct ib_qp`.
    pub qp_bytes: [u8; QP_BYTES],
    /// Start of the `struct ib_qp_attr`.
    pub attr_bytes: [u8; ATTR_BYTES],
}

const _: () =
    assert!(core::mem::size_of::<QpRecord>() == 48 + COMM + DEVICE_NAME + 16 + QP_BYTES + ATTR_BYTES);

/// Commands of mlx5's firmware about queue pairs (`MLX5_CMD_OP_*` of include/linux/mlx5/mlx5_ifc.h, Linux 6.12).
pub mod command {
    /// `CREATE_QP`.
    pub const CREATE: u16 = 0x500;
    /// `DESTROY_QP`.
    pub const DESTROY: u16 = 0x501;
    /// `RST2INIT_QP`.
    pub const RST2INIT: u16 = 0x502;
    /// `INIT2RTR_QP`.
    pub const INIT2RTR: u16 = 0x503;
    /// `RTR2RTS_QP`.
    pub const RTR2RTS: u16 = 0x504;
    /// `RTS2RTS_QP`.
    pub const RTS2RTS: u16 = 0x505;
    /// `2ERR_QP`.
    pub const TO_ERR: u16 = 0x507;
    /// `2RST_QP`.
    pub const TO_RST: u16 = 0x50a;
    /// `QUERY_QP`.
    pub const QUERY: u16 = 0x50b;
    /// Of the extension of the context, in the output of [`QUERY`]: behind its header of 24 bytes, the context and 16
    /// bytes.
    pub const EXTENSION: u32 = 24 + 232 + 16;

    /// True for the commands that are recorded.
    pub const fn is_followed(opcode: u16) -> bool {
        matches!(opcode, CREATE | DESTROY | RST2INIT | INIT2RTR | RTR2RTS | RTS2RTS | TO_ERR | TO_RST)
    }
}

/// A command about a queue pair that a process gave to mlx5's firmware past the verbs (DEVX), or the driver's query for
/// the reason of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CommandRecord {
    /// Kernel's monotonic clock at the end of the command.
    pub time_ns: u64,
    /// Control group of the calling process, in the unified hierarchy.
    pub cgroup: u64,
    /// Calling process, in the initial PID namespace.
    pub pid: u32,
    /// Result of the driver: 0, or a negative errno.
    pub result: i32,
    /// Valid bytes of `input`.
    pub input_len: u32,
    /// Valid bytes of `output`.
    pub output_len: u32,
    /// Name of the calling thread.
    pub comm: [u8; COMM],
    /// Name of the PCI or auxiliary device that the command went to.
    pub device: [u8; DEVICE_NAME],
    /// Start of the command, big-endian.
    pub input: [u8; COMMAND_INPUT],
    /// Start of the firmware's answer, big-endian; of a query, that of the context's extension.
    pub output: [u8; COMMAND_OUTPUT],
}

const _: () = assert!(
    core::mem::size_of::<CommandRecord>() == 32 + COMM + DEVICE_NAME + COMMAND_INPUT + COMMAND_OUTPUT
);

/// Arguments of a verb that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// Address of the `struct ib_qp`.
    pub qp: u64,
    /// Address of the `struct ib_qp_attr`, or of the device of a queue pair that is being made.
    pub attr: u64,
    /// Kernel's monotonic clock at its entry; 0 when it was not seen.
    pub time_ns: u64,
    /// As [`QpRecord::mask`].
    pub mask: u64,
    /// One of [`kind`]: the return of another verb is not the end of this call.
    pub kind: u64,
}

/// The longest time that a call is taken to be under way. The kernel resolves an address for a second or a few; a
/// longer one has returned unseen.
pub const LONGEST_CALL_NS: u64 = 10_000_000_000;

impl Call {
    /// Number of 64-bit words.
    pub const WORDS: usize = 5;

    /// From the words of its memory.
    pub const fn from_words([qp, attr, time_ns, mask, kind]: [u64; Self::WORDS]) -> Self {
        Self { qp, attr, time_ns, mask, kind }
    }
}

const _: () = assert!(core::mem::size_of::<Call>() == Call::WORDS * 8);

/// Layout of the running kernel, as far as the programs have to know it. Unit: bytes.
/// Each is a global of the programs, by the name beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpLayout {
    /// Length of `struct ib_qp`, at most [`QP_BYTES`].
    pub qp_size: u32,
    /// Length of `struct ib_qp_attr`, at most [`ATTR_BYTES`].
    pub attr_size: u32,
    /// `ib_qp.device`.
    pub qp_device: u32,
    /// `ib_device.name`.
    pub device_name: u32,
    /// `ib_qp.av_sgid_attr`, or [`ABSENT`].
    pub qp_sgid: u32,
    /// `ib_qp.real_qp`, or [`ABSENT`].
    pub qp_real: u32,
    /// `ib_qp.res.task`: the thread that made it, whose structure stays when it has ended; or [`ABSENT`].
    pub qp_task: u32,
    /// `task_struct.tgid`, or [`ABSENT`].
    pub task_tgid: u32,
    /// `ib_gid_attr.gid`.
    pub gid: u32,
    /// `ib_event.device`.
    pub event_device: u32,
    /// `ib_event.element`.
    pub event_element: u32,
    /// `ib_event.event`.
    pub event_type: u32,
}

/// The offset of a field that the kernel does not have.
pub const ABSENT: u32 = u32::MAX;
