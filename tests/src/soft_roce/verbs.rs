//! The parts of libibverbs that tests need: queue pairs that are created, configured, used and broken as no other
//! program does.
//!
//! The library is that of the guest.
#![expect(unsafe_code, reason = "a C library is called")]

mod abi;

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::FileExt as _;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::lab::{End, gid_index};
use abi::{
    AddressHandle, AsyncEvent, Attributes, Capabilities, Completion, InitAttributes, Library, Object,
    POLL_CQ, POST_RECEIVE, POST_SEND, Piece, QP_NUM, ReceiveRequest, Region, SendRequest, mask, state,
};

/// Status of a completion (`enum ibv_wc_status`): success.
pub const SUCCESS: u32 = 0;
/// The peer rejected the request: with some drivers a message longer than the receive buffer that it posted.
pub const REMOTE_INVALID_REQUEST: u32 = 9;
/// The peer rejected the request: a wrong rkey.
pub const REMOTE_ACCESS_ERROR: u32 = 10;
/// The peer failed to execute the request: with other drivers the same.
pub const REMOTE_OPERATIONAL_ERROR: u32 = 11;
/// The peer did not acknowledge the first transmission and its retries.
pub const RETRY_EXCEEDED: u32 = 12;

/// `IBV_EVENT_SQ_DRAINED`.
pub const SQ_DRAINED: u32 = 5;

const RC: u32 = 2;
/// `IBV_WR_RDMA_WRITE`, `IBV_WR_SEND`.
const WRITE: u32 = 0;
const SEND: u32 = 2;
const LOCAL_WRITE: c_int = 1;
const REMOTE_WRITE: c_int = 2;
const REMOTE_READ: c_int = 4;
const SIGNALED: u32 = 2;
/// Size of the registered buffer.
const BUFFER_BYTES: usize = 1 << 20;
/// Maximum number of work requests of a queue pair.
const DEPTH: u32 = 64;

fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| Library::open().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|why| anyhow!("{why}"))
}

/// An error number, as the verbs return it.
fn checked(verb: &str, errno: c_int) -> Result<()> {
    let error = std::io::Error::from_raw_os_error(errno);
    if errno == 0 { Ok(()) } else { Err(error).with_context(|| verb.to_owned()) }
}

/// The error number of a verb that failed.
pub fn errno(error: &anyhow::Error) -> Option<i32> {
    error.downcast_ref::<std::io::Error>()?.raw_os_error()
}

/// An open device, with a registered buffer.
pub struct Port {
    library: &'static Library,
    end: End,
    context: Object,
    pd: Object,
    region: *mut Region,
    _buffer: Vec<u8>,
    gid: u8,
}

// SAFETY: the library's objects may be used from all threads (ibv_get_device_list(3) and others).
unsafe impl Sync for Port {}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("device", &self.end.device).finish_non_exhaustive()
    }
}

impl Port {
    /// Opens the device of an end.
    pub fn open(end: End) -> Result<Self> {
        let library = library()?;
        let context = open(library, end.device)?;
        let mut buffer = vec![0_u8; BUFFER_BYTES];
        // SAFETY: the context is open; the buffer lives until the region is deregistered, see `drop`.
        let (pd, region) = unsafe {
            let pd = (library.alloc_pd)(context);
            let access = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
            (pd, (library.reg_mr)(pd, buffer.as_mut_ptr().cast(), BUFFER_BYTES, access))
        };
        ensure!(!pd.is_null() && !region.is_null(), "{} gives no memory region", end.device);
        Ok(Self { library, end, context, pd, region, _buffer: buffer, gid: u8::try_from(gid_index(end)?)? })
    }

    /// Creates an unconnected queue pair.
    pub fn queue_pair(&self) -> Result<QueuePair<'_>> {
        // SAFETY: the context is open; the other arguments are optional.
        let cq =
            unsafe { (self.library.create_cq)(self.context, DEPTH.cast_signed(), null_mut(), null_mut(), 0) };
        ensure!(!cq.is_null(), "{} makes no completion queue", self.end.device);
        let cap = Capabilities {
            max_send_wr: DEPTH,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            ..Capabilities::default()
        };
        let mut init = InitAttributes {
            context: null_mut(),
            send_cq: cq,
            recv_cq: cq,
            srq: null_mut(),
            cap,
            kind: RC,
            all_signaled: 0,
        };
        // SAFETY: both exist, and the attributes are complete.
        let qp = unsafe { (self.library.create_qp)(self.pd, &raw mut init) };
        ensure!(
            !qp.is_null(),
            "{} makes no queue pair: {}",
            self.end.device,
            std::io::Error::last_os_error()
        );
        Ok(QueuePair { port: self, cq, qp })
    }

    /// Waits for the next asynchronous event of the device's queue pairs, and returns its type.
    pub fn event(&self) -> Result<u32> {
        let mut event = AsyncEvent { element: null_mut(), kind: 0 };
        // SAFETY: the context is open; an event that was taken is acknowledged.
        let failed = unsafe { (self.library.get_async_event)(self.context, &raw mut event) };
        ensure!(failed == 0, "no event of {}", self.end.device);
        // SAFETY: the event is the one just taken.
        unsafe { (self.library.ack_async_event)(&raw mut event) };
        Ok(event.kind)
    }

    /// The first byte of the provider's `post_send`, as this process would execute it: a probe replaces it.
    pub fn code_of_post_send(&self) -> Result<u8> {
        let mut code = [0];
        File::open("/proc/self/mem")?.read_exact_at(&mut code, self.operation(POST_SEND).addr() as u64)?;
        Ok(code[0])
    }

    fn region(&self) -> &Region {
        // SAFETY: registered until the port is dropped.
        unsafe { &*self.region }
    }

    /// A function in the operations of its context.
    fn operation(&self, offset: usize) -> Object {
        // SAFETY: within `struct ibv_context`, whose operations were set when it was opened.
        unsafe { self.context.byte_add(offset).cast::<Object>().read() }
    }
}

fn open(library: &Library, name: &str) -> Result<Object> {
    // SAFETY: the list ends with a null pointer, and its devices are valid until it is freed.
    unsafe {
        let list = (library.get_device_list)(null_mut());
        ensure!(!list.is_null(), "libibverbs lists no devices");
        let mut context = null_mut();
        let mut at = list;
        while !(*at).is_null() {
            if CStr::from_ptr((library.get_device_name)(*at)).to_bytes() == name.as_bytes() {
                context = (library.open_device)(*at);
            }
            at = at.add(1);
        }
        (library.free_device_list)(list);
        ensure!(!context.is_null(), "libibverbs cannot open {name}");
        Ok(context)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: each exists, and nothing uses it any more: queue pairs borrow the port.
        unsafe {
            (self.library.dereg_mr)(self.region);
            (self.library.dealloc_pd)(self.pd);
            (self.library.close_device)(self.context);
        }
    }
}

/// The GID of an address.
fn gid(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address of the peer.
    pub peer: IpAddr,
    /// The peer's queue pair number.
    pub qpn: u32,
    /// Path MTU as an `enum ibv_mtu`: 3 for 1,024 bytes.
    pub mtu: u32,
    /// Exponent of the transport timeout.
    pub timeout: u8,
    /// Retries after a timeout.
    pub retries: u8,
    /// Retries after an RNR NAK.
    pub rnr_retries: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// IPv6 flow label, from which the UDP source port follows.
    pub flow_label: u32,
    /// First PSN in both directions.
    pub psn: u32,
}

impl Settings {
    /// Settings for a connection to a queue pair of an end, with a timeout of 67 ms and three retries.
    pub fn to(end: End, qpn: u32) -> Result<Self> {
        Ok(Self {
            peer: end.address.parse()?,
            qpn,
            mtu: 3,
            timeout: 14,
            retries: 3,
            rnr_retries: 6,
            traffic_class: 106,
            flow_label: 0,
            psn: 100,
        })
    }
}

/// A reliable connected queue pair with its completion queue; destroyed when dropped.
pub struct QueuePair<'a> {
    port: &'a Port,
    cq: Object,
    qp: Object,
}

// SAFETY: as for `Port`.
unsafe impl Send for QueuePair<'_> {}
// SAFETY: as for `Port`.
unsafe impl Sync for QueuePair<'_> {}

impl std::fmt::Debug for QueuePair<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QP {} of {}", self.number(), self.port.end.device)
    }
}

impl QueuePair<'_> {
    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: within `struct ibv_qp`.
        unsafe { self.qp.byte_add(QP_NUM).cast::<u32>().read() }
    }

    fn modify(&self, attributes: Attributes, mask: c_int) -> Result<()> {
        let mut attributes = attributes;
        // SAFETY: the queue pair exists, and the attributes are complete.
        let errno = unsafe { (self.port.library.modify_qp)(self.qp, &raw mut attributes, mask) };
        checked("modify", errno)
    }

    /// Changes the state from RESET to INIT.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn init(&self) -> Result<()> {
        let set = Attributes {
            state: state::INIT,
            port_num: 1,
            access_flags: LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ,
            ..Attributes::default()
        };
        self.modify(set, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)
    }

    /// Changes the state from INIT to RTR.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn receive(&self, to: &Settings) -> Result<()> {
        let address = AddressHandle {
            dgid: gid(to.peer).octets(),
            flow_label: to.flow_label,
            sgid_index: self.port.gid,
            hop_limit: 64,
            traffic_class: to.traffic_class,
            is_global: 1,
            port_num: 1,
            ..AddressHandle::default()
        };
        let set = Attributes {
            state: state::RTR,
            path_mtu: to.mtu,
            rq_psn: to.psn,
            dest_qp_num: to.qpn,
            address,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ..Attributes::default()
        };
        let path = mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        self.modify(set, mask::STATE | path | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)
    }

    /// Changes the state from RTR to RTS.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn send(&self, to: &Settings) -> Result<()> {
        let set = Attributes {
            state: state::RTS,
            sq_psn: to.psn,
            timeout: to.timeout,
            retry_cnt: to.retries,
            rnr_retry: to.rnr_retries,
            max_rd_atomic: 1,
            ..Attributes::default()
        };
        let retries = mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY;
        self.modify(set, mask::STATE | mask::SQ_PSN | retries | mask::MAX_QP_RD_ATOMIC)
    }

    /// Changes to a state without further attributes.
    ///
    /// # Errors
    /// The error number of the verb: `EINVAL` if more attributes are required.
    pub fn bare(&self, state: &str) -> Result<()> {
        let state = match state {
            "RTR" => state::RTR,
            "RTS" => state::RTS,
            other => bail!("no test goes to {other} so"),
        };
        self.modify(Attributes { state, ..Attributes::default() }, mask::STATE)
    }

    /// Changes the state from RTS to SQD, with an event when the posted work is done.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn drain(&self) -> Result<()> {
        let set = Attributes { state: state::SQD, en_sqd_async_notify: 1, ..Attributes::default() };
        self.modify(set, mask::STATE | mask::EN_SQD_ASYNC_NOTIFY)
    }

    /// Connects two queue pairs with the same settings except for the peer.
    ///
    /// # Errors
    /// The error number of the verb that failed.
    pub fn connect(&self, far: &Self, with: impl Fn(Settings) -> Settings) -> Result<()> {
        for (own, other) in [(self, far), (far, self)] {
            let to = with(Settings::to(other.port.end, other.number())?);
            own.init()?;
            own.receive(&to)?;
            own.send(&to)?;
        }
        Ok(())
    }

    /// Posts an RDMA WRITE of this length into the buffer of a port. `rkey` replaces the right one.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn write(&self, to: &Port, length: u32, rkey: Option<u32>) -> Result<()> {
        let remote = to.region();
        self.post(WRITE, length, (remote.address.addr() as u64, rkey.unwrap_or(remote.rkey)))
    }

    /// Posts a SEND of this length: the peer must have posted a receive.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn send_message(&self, length: u32) -> Result<()> {
        self.post(SEND, length, (0, 0))
    }

    fn post(&self, opcode: u32, length: u32, (remote_address, rkey): (u64, u32)) -> Result<()> {
        let piece = self.piece(length)?;
        let request = SendRequest {
            id: 1,
            next: null_mut(),
            pieces: &raw const piece,
            piece_count: 1,
            opcode,
            flags: SIGNALED,
            immediate: 0,
            remote_address,
            rkey,
            rest: [0; 19],
        };
        self.post_request(POST_SEND, request)
    }

    /// Posts a receive of this length.
    ///
    /// # Errors
    /// The error number of the verb.
    pub fn post_receive(&self, length: u32) -> Result<()> {
        let piece = self.piece(length)?;
        let request = ReceiveRequest { id: 2, next: null_mut(), pieces: &raw const piece, piece_count: 1 };
        self.post_request(POST_RECEIVE, request)
    }

    /// Calls the operation at this offset, which takes such requests.
    fn post_request<Request>(&self, offset: usize, mut request: Request) -> Result<()> {
        type Post<Request> = unsafe extern "C" fn(Object, *mut Request, *mut Object) -> c_int;
        let mut bad = null_mut();
        // SAFETY: the operation has this type in verbs.h, and takes a copy of the request.
        let errno = unsafe {
            let post = std::mem::transmute::<Object, Post<Request>>(self.port.operation(offset));
            post(self.qp, &raw mut request, &raw mut bad)
        };
        checked("post", errno)
    }

    /// The first bytes of its own buffer.
    fn piece(&self, length: u32) -> Result<Piece> {
        ensure!(length as usize <= BUFFER_BYTES, "{length} bytes are more than the buffer");
        let own = self.port.region();
        Ok(Piece { address: own.address.addr() as u64, length, lkey: own.lkey })
    }

    /// The status of the next completion; `None` if there is none within this time.
    pub fn completion(&self, within: Duration) -> Result<Option<u32>> {
        type Poll = unsafe extern "C" fn(Object, c_int, *mut Completion) -> c_int;
        let late = Instant::now() + within;
        loop {
            let mut done = Completion::default();
            // SAFETY: the operation has this type in verbs.h, and fills one completion.
            let count = unsafe {
                let poll = std::mem::transmute::<Object, Poll>(self.port.operation(POLL_CQ));
                poll(self.cq, 1, &raw mut done)
            };
            match count {
                1 => return Ok(Some(done.status)),
                0 if Instant::now() >= late => return Ok(None),
                0 => std::thread::sleep(Duration::from_micros(500)),
                failed => bail!("polling of {self:?} failed: {failed}"),
            }
        }
    }

    /// Writes messages one by one, and waits for each completion.
    pub fn write_all(&self, to: &Port, messages: u64, length: u32) -> Result<()> {
        for message in 0..messages {
            self.write(to, length, None)?;
            let status = self.completion(super::tool::LIMIT)?;
            ensure!(status == Some(SUCCESS), "message {message} of {self:?} ended with {status:?}");
        }
        Ok(())
    }
}

impl Drop for QueuePair<'_> {
    fn drop(&mut self) {
        // SAFETY: both exist, and nothing uses them any more.
        unsafe {
            (self.port.library.destroy_qp)(self.qp);
            (self.port.library.destroy_cq)(self.cq);
        }
    }
}
