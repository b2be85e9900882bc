//! Sends a scenario in real time through packet sockets: ingress of the observed host at the far ends of its links,
//! egress at the near ends.
//!
//! The sockets do not bypass the queueing discipline, or programs at TC egress would see no frame.
//! One frame is one system call: at the scenario's rates batches would cost more in timing than
//! they save.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::scenario::{Scenario, Scheduled, Truth, Uplink};
use crate::sample::Direction;
use crate::util::time::nanos;

/// Longest sleep, and therefore the longest reaction time to a stop request.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Frames due within this time are sent at once, since a sleep would take longer.
const SOON: Duration = Duration::from_micros(60);
/// If sending is behind by more (a suspended machine), the rest is delayed instead of sent as a burst.
const LAG_LIMIT: Duration = Duration::from_millis(250);

/// An interface's sending end: a packet socket that receives nothing.
#[derive(Debug)]
pub struct Port(OwnedFd);

impl Port {
    /// Opens interface `index` of the calling thread's network namespace for sending.
    ///
    /// # Errors
    /// If the kernel refuses: it needs CAP_NET_RAW, and the interface must exist.
    pub fn open(index: u32) -> io::Result<Self> {
        // Protocol 0: the socket takes part in no receiving.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, index, 0)?;
        Ok(Self(socket))
    }

    /// Sends one frame, Ethernet header included.
    ///
    /// # Errors
    /// The kernel's error, for instance that the interface is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let sent = send(&self.0, frame, SendFlags::empty())?;
        if sent == frame.len() {
            return Ok(());
        }
        Err(io::Error::other(format!("only {sent} of {} bytes were sent", frame.len())))
    }
}

/// Binds a packet socket to an interface; `protocol` in host byte order, 0 for none.
pub(super) fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let index = libc::c_int::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: all fields are integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
    // SAFETY: the address lives through the call and has the length given.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Both ends of both links, by [`Uplink::index`].
#[derive(Debug)]
pub struct Ports {
    /// In the observed namespace, for egress.
    pub near: [Port; 2],
    /// At the other ends, for ingress.
    pub far: [Port; 2],
}

impl Ports {
    fn port(&self, uplink: Uplink, direction: Direction) -> &Port {
        let ends = match direction {
            Direction::Egress => &self.near,
            Direction::Ingress => &self.far,
        };
        &ends[uplink.index()]
    }
}

/// The result of a player.
#[derive(Clone, Debug)]
pub struct PlayResult {
    /// Number of frames sent.
    pub sent: u64,
    /// Frames that the kernel refused.
    pub failed: u64,
    /// The error of the first refused frame.
    pub first_error: Option<String>,
    /// The delay of the last frame against the plan, in nanoseconds, because the machine did not keep up.
    pub delayed_ns: u64,
    /// The ground truth of all frames, refused ones included.
    pub truth: Truth,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
    at_ns: AtomicU64,
    delayed_ns: Arc<AtomicU64>,
}

/// A thread that sends a scenario. Stops when dropped.
#[derive(Debug)]
pub struct Player {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<PlayResult>>,
}

impl Player {
    /// Starts sending, for `limit` of the scenario's time or until stopped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(scenario: Scenario, ports: Ports, limit: Option<Duration>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let end = limit.map_or(u64::MAX, nanos);
        let thread = thread::Builder::new().name("demo-traffic".to_owned()).spawn(move || {
            // Its sockets are open.
            #[cfg(target_os = "linux")]
            crate::sandbox::confine(&crate::sandbox::Plan::parser());
            play(scenario, &ports, end, &theirs)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Frames that the kernel has refused so far.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// The scenario's time, in nanoseconds since its start.
    pub fn at_ns(&self) -> u64 {
        self.shared.at_ns.load(Ordering::Relaxed)
    }

    /// True if the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Nanoseconds by which frames are later than planned, because the machine did not keep up; grows while it plays.
    pub fn delayed_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.delayed_ns)
    }

    /// Requests the end, which follows within a few hundredths of a second.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If the thread has panicked.
    pub fn join(mut self) -> io::Result<PlayResult> {
        let Some(thread) = self.thread.take() else {
            return Err(io::Error::other("bug: the demo's traffic thread was joined twice"));
        };
        thread.join().map_err(|_| io::Error::other("bug: the demo's traffic thread panicked"))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // The thread has printed its panic.
            drop(thread.join());
        }
    }
}

fn play(mut scenario: Scenario, ports: &Ports, end: u64, shared: &Shared) -> PlayResult {
    let mut start = Instant::now();
    let mut delayed = Duration::ZERO;
    let mut first_error = None;
    while let Some(at_ns) = scenario.next_at().filter(|at| *at < end) {
        let due = Duration::from_nanos(at_ns);
        if !wait(start, due, &shared.stop) {
            break;
        }
        let lag = start.elapsed().saturating_sub(due);
        if lag > LAG_LIMIT {
            start += lag;
            delayed += lag;
            shared.delayed_ns.store(nanos(delayed), Ordering::Relaxed);
        }
        let Some(Scheduled { uplink, direction, frame, .. }) = scenario.next() else { break };
        match ports.port(uplink, direction).send(&frame) {
            Ok(()) => shared.sent.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                first_error.get_or_insert_with(|| error.to_string());
                shared.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
        shared.at_ns.store(at_ns, Ordering::Relaxed);
    }
    PlayResult {
        sent: shared.sent.load(Ordering::Relaxed),
        failed: shared.failed.load(Ordering::Relaxed),
        first_error,
        delayed_ns: nanos(delayed),
        truth: scenario.truth().clone(),
    }
}

/// Sleeps until `due` after `start`; false when a stop is requested before.
fn wait(start: Instant, due: Duration, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let ahead = due.saturating_sub(start.elapsed());
        if ahead <= SOON {
            return true;
        }
        thread::sleep(ahead.min(MAX_SLEEP));
    }
}
