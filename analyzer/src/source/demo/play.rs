//! Sends a scenario in real time through packet sockets: what the observed host receives from the
//! far ends of its links, what it sends from the near ends.
//!
//! The sockets do not bypass the queueing discipline, or programs at TC egress would see nothing.
//! One frame is one system call: at the scenario's rates batches would cost more in timing than
//! they save.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::scenario::{Scenario, Scheduled, Truth, Uplink};
use crate::sample::Direction;

/// The longest sleep: how late a request to stop may be heard.
const NAP: Duration = Duration::from_millis(20);
/// Frames due within this time are sent at once; a sleep would take longer.
const SOON: Duration = Duration::from_micros(60);
/// When sending falls behind by more (a suspended machine), the rest is sent later, not faster.
const LAG_LIMIT: Duration = Duration::from_millis(250);

/// An interface's sending end: a packet socket that receives nothing.
#[derive(Debug)]
pub struct Port(OwnedFd);

impl Port {
    /// Opens interface `index` of the calling thread's network namespace for sending.
    ///
    /// # Errors
    /// When the kernel refuses: it needs CAP_NET_RAW, and the interface must exist.
    pub fn open(index: u32) -> io::Result<Self> {
        // Protocol 0: the socket takes part in no receiving.
        // SAFETY: no pointers; the result is checked before it is used.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        bind(&socket, index, 0)?;
        Ok(Self(socket))
    }

    /// Sends one frame, Ethernet header included.
    ///
    /// # Errors
    /// What the kernel says, for instance that the interface is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and length are those of a live slice, which is only read.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        match usize::try_from(sent) {
            Ok(length) if length == frame.len() => Ok(()),
            Ok(length) => Err(io::Error::other(format!("only {length} of {} bytes were sent", frame.len()))),
            Err(_) => Err(io::Error::last_os_error()),
        }
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
    /// In the observed namespace: what is sent here is egress.
    pub near: [Port; 2],
    /// At the other ends: what is sent here is ingress.
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

/// What a player has done.
#[derive(Clone, Debug)]
pub struct Played {
    /// Frames sent.
    pub sent: u64,
    /// Frames that the kernel did not take.
    pub failed: u64,
    /// Why it did not take the first of them.
    pub first_error: Option<String>,
    /// How much later than planned the last frame was sent because the machine did not keep up,
    /// in nanoseconds.
    pub delayed_ns: u64,
    /// What was played, with the truth about it; frames that failed are in it.
    pub truth: Truth,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
    at_ns: AtomicU64,
}

/// A scenario being played by a thread of its own. Stops when dropped.
#[derive(Debug)]
pub struct Player {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Played>>,
}

impl Player {
    /// Starts to play, for `limit` of the scenario's time or until stopped.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(scenario: Scenario, ports: Ports, limit: Option<Duration>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let end = limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        let thread = thread::Builder::new()
            .name("demo-traffic".to_owned())
            .spawn(move || play(scenario, &ports, end, &theirs))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Frames sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Frames that the kernel did not take so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// How far the scenario has come, in nanoseconds of its time.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.shared.at_ns.load(Ordering::Relaxed)
    }

    /// Whether it has come to its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks it to end; it does within a few hundredths of a second.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn join(mut self) -> io::Result<Played> {
        let Some(thread) = self.thread.take() else {
            return Err(io::Error::other("the demo's traffic was waited for twice"));
        };
        thread.join().map_err(|_| io::Error::other("the thread that sends the demo's traffic has panicked"))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic was printed by the thread itself; there is nobody to hand it to here.
            drop(thread.join());
        }
    }
}

fn play(mut scenario: Scenario, ports: &Ports, end: u64, shared: &Shared) -> Played {
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
    Played {
        sent: shared.sent.load(Ordering::Relaxed),
        failed: shared.failed.load(Ordering::Relaxed),
        first_error,
        delayed_ns: u64::try_from(delayed.as_nanos()).unwrap_or(u64::MAX),
        truth: scenario.truth().clone(),
    }
}

/// Sleeps until `due` after `start`. False when asked to stop.
fn wait(start: Instant, due: Duration, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let ahead = due.saturating_sub(start.elapsed());
        if ahead <= SOON {
            return true;
        }
        thread::sleep(ahead.min(NAP));
    }
}
