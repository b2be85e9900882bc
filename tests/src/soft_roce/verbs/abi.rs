//! The structures of infiniband/verbs.h and the functions of libibverbs, opened at run time. Their layout is part of
//! the library's binary interface (IBVERBS_1.1).

use std::ffi::{c_char, c_int, c_void};

use anyhow::{Result, ensure};

/// A pointer to any of the library's objects.
pub(super) type Object = *mut c_void;

/// `enum ibv_qp_attr_mask`.
pub(super) mod mask {
    use std::ffi::c_int;

    pub(in super::super) const STATE: c_int = 1;
    pub(in super::super) const EN_SQD_ASYNC_NOTIFY: c_int = 1 << 2;
    pub(in super::super) const ACCESS_FLAGS: c_int = 1 << 3;
    pub(in super::super) const PKEY_INDEX: c_int = 1 << 4;
    pub(in super::super) const PORT: c_int = 1 << 5;
    pub(in super::super) const AV: c_int = 1 << 7;
    pub(in super::super) const PATH_MTU: c_int = 1 << 8;
    pub(in super::super) const TIMEOUT: c_int = 1 << 9;
    pub(in super::super) const RETRY_CNT: c_int = 1 << 10;
    pub(in super::super) const RNR_RETRY: c_int = 1 << 11;
    pub(in super::super) const RQ_PSN: c_int = 1 << 12;
    pub(in super::super) const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub(in super::super) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(in super::super) const SQ_PSN: c_int = 1 << 16;
    pub(in super::super) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(in super::super) const DEST_QPN: c_int = 1 << 20;
}

/// `enum ibv_qp_state`.
pub(super) mod state {
    pub(in super::super) const INIT: u32 = 1;
    pub(in super::super) const RTR: u32 = 2;
    pub(in super::super) const RTS: u32 = 3;
    pub(in super::super) const SQD: u32 = 4;
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of verbs.h")]
pub(super) struct Capabilities {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

#[repr(C)]
pub(super) struct InitAttributes {
    pub(super) context: Object,
    pub(super) send_cq: Object,
    pub(super) recv_cq: Object,
    pub(super) srq: Object,
    pub(super) cap: Capabilities,
    pub(super) kind: u32,
    pub(super) all_signaled: c_int,
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub(super) struct AddressHandle {
    pub(super) dgid: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) pad: u8,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Attributes {
    pub(super) state: u32,
    pub(super) current_state: u32,
    pub(super) path_mtu: u32,
    pub(super) path_mig_state: u32,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) access_flags: c_int,
    pub(super) cap: Capabilities,
    pub(super) address: AddressHandle,
    pub(super) alternative: AddressHandle,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

#[repr(C)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

#[repr(C)]
pub(super) struct SendRequest {
    pub(super) id: u64,
    pub(super) next: Object,
    pub(super) pieces: *const Piece,
    pub(super) piece_count: c_int,
    pub(super) opcode: u32,
    pub(super) flags: u32,
    pub(super) immediate: u32,
    pub(super) remote_address: u64,
    pub(super) rkey: u32,
    /// The larger members of its unions.
    pub(super) rest: [u32; 19],
}

#[repr(C)]
pub(super) struct ReceiveRequest {
    pub(super) id: u64,
    pub(super) next: Object,
    pub(super) pieces: *const Piece,
    pub(super) piece_count: c_int,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) status: u32,
    /// Fields that no test reads.
    pub(super) rest: [u32; 9],
}

#[repr(C)]
pub(super) struct AsyncEvent {
    pub(super) element: Object,
    pub(super) kind: u32,
}

/// `struct ibv_mr`, its public part.
#[repr(C)]
pub(super) struct Region {
    pub(super) context: Object,
    pub(super) pd: Object,
    pub(super) address: Object,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// Offset of a queue pair's number in `struct ibv_qp`.
pub(super) const QP_NUM: usize = 52;
/// Offsets of operations in `struct ibv_context`.
pub(super) const POLL_CQ: usize = 96;
pub(super) const POST_SEND: usize = 208;
pub(super) const POST_RECEIVE: usize = 216;

/// A function of the library, in the version whose structures these are.
#[cfg(not(target_env = "musl"))]
macro_rules! symbol {
    ($handle:expr, $name:expr) => {
        libc::dlvsym($handle, $name, c"IBVERBS_1.1".as_ptr())
    };
}
/// musl has no versions, and its static programs open no library.
#[cfg(target_env = "musl")]
macro_rules! symbol {
    ($handle:expr, $name:expr) => {
        libc::dlsym($handle, $name)
    };
}

macro_rules! library {
    ($($field:ident $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(super) struct Library { $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Library {
            pub(super) fn open() -> Result<Self> {
                // SAFETY: a system library without preconditions of its initialisation.
                let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
                ensure!(!handle.is_null(), "libibverbs.so.1 cannot be opened: this is for the machine of `cargo xtask vm`");
                $(
                    // SAFETY: the handle is open, and the name ends with a zero.
                    let found = unsafe { symbol!(handle, concat!($symbol, "\0").as_ptr().cast()) };
                    ensure!(!found.is_null(), "libibverbs has no {}", $symbol);
                    // SAFETY: the type is that of the function in verbs.h.
                    let $field = unsafe {
                        std::mem::transmute::<Object, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                    };
                )*
                Ok(Self { $($field),* })
            }
        }
    };
}

library! {
    get_device_list "ibv_get_device_list" fn(*mut c_int) -> *mut Object;
    free_device_list "ibv_free_device_list" fn(*mut Object);
    get_device_name "ibv_get_device_name" fn(Object) -> *const c_char;
    open_device "ibv_open_device" fn(Object) -> Object;
    close_device "ibv_close_device" fn(Object) -> c_int;
    alloc_pd "ibv_alloc_pd" fn(Object) -> Object;
    dealloc_pd "ibv_dealloc_pd" fn(Object) -> c_int;
    reg_mr "ibv_reg_mr" fn(Object, Object, usize, c_int) -> *mut Region;
    dereg_mr "ibv_dereg_mr" fn(*mut Region) -> c_int;
    create_cq "ibv_create_cq" fn(Object, c_int, Object, Object, c_int) -> Object;
    destroy_cq "ibv_destroy_cq" fn(Object) -> c_int;
    create_qp "ibv_create_qp" fn(Object, *mut InitAttributes) -> Object;
    modify_qp "ibv_modify_qp" fn(Object, *mut Attributes, c_int) -> c_int;
    destroy_qp "ibv_destroy_qp" fn(Object) -> c_int;
    get_async_event "ibv_get_async_event" fn(Object, *mut AsyncEvent) -> c_int;
    ack_async_event "ibv_ack_async_event" fn(*mut AsyncEvent);
}

const _: () = {
    assert!(size_of::<SendRequest>() == 128);
    assert!(size_of::<ReceiveRequest>() == 32);
    assert!(size_of::<Completion>() == 48);
    assert!(size_of::<AddressHandle>() == 32);
    assert!(size_of::<InitAttributes>() == 64);
    assert!(std::mem::offset_of!(Attributes, pkey_index) == 120);
    assert!(std::mem::offset_of!(Region, lkey) == 36);
};
