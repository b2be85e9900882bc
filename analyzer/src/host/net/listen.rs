//! Receives LLDP frames.

use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{self, RecvFlags};

use super::packet;
use crate::ethernet::lldp::{ETHERTYPE, Neighbour};
use crate::host::error::{HostError, Result};

/// Destination addresses of LLDP: nearest bridge, nearest non-TPMR bridge, nearest customer bridge.
const GROUPS: [[u8; 6]; 3] =
    [[0x01, 0x80, 0xc2, 0, 0, 0x0e], [0x01, 0x80, 0xc2, 0, 0, 0x03], [0x01, 0x80, 0xc2, 0, 0, 0x00]];
/// Longer than any LLDP frame.
const FRAME: usize = 9216;
/// Interval at which `stop` and the time limit are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A socket for the LLDP frames of one interface.
#[derive(Debug)]
pub struct LldpSocket {
    socket: OwnedFd,
    name: String,
}

impl LldpSocket {
    /// Opens a socket on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// If the kernel refuses (it needs CAP_NET_RAW) or there is no such interface.
    pub fn open(name: &str, index: u32) -> Result<Self> {
        let action = format!("listen for LLDP on {name}");
        let index = packet::index(index, &action)?;
        // Without a protocol until it is bound, so that no frames of other interfaces are received.
        let socket = packet::socket(&action)?;
        for group in GROUPS {
            packet::join(&socket, index, libc::PACKET_MR_MULTICAST, Some(group), &action)?;
        }
        let address = packet::address(index, ETHERTYPE);
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap_or_default();
        // SAFETY: the structure is valid for the call, and its length is correct.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 {
            return Err(HostError::last_os(action));
        }
        Ok(Self { socket, name: name.to_owned() })
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives a frame without blocking; `None` if there is none.
    ///
    /// # Errors
    /// If the socket fails, as it does when the interface goes down.
    pub fn receive(&self) -> Result<Option<Neighbour>> {
        let mut frame = [0u8; FRAME];
        match net::recv(&self.socket, &mut frame, RecvFlags::empty()) {
            Ok((length, _)) => {
                #[cfg(feature = "test-clock")]
                crate::util::hijack::here("lldp");
                Ok(frame.get(..length).and_then(Neighbour::parse))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(HostError::system(format!("receive LLDP on {}", self.name), error.into())),
        }
    }
}

/// Frames received, by interface.
#[derive(Debug, Default)]
pub struct ReceivedFrames {
    /// The latest announcement per interface.
    pub neighbours: Vec<(String, Neighbour)>,
    /// The latest socket error per interface, if any.
    pub failed: Vec<(String, HostError)>,
}

/// Listens until every socket has received its switch's lossless settings, `limit` has passed, or `stop` returns
/// true.
pub fn listen(sockets: &[LldpSocket], limit: Duration, stop: impl Fn() -> bool) -> ReceivedFrames {
    let mut heard = ReceivedFrames::default();
    let end = Instant::now() + limit;
    loop {
        for socket in sockets {
            // A socket that fails (its interface went down) may recover later.
            loop {
                match socket.receive() {
                    Ok(Some(neighbour)) => {
                        heard.neighbours.retain(|(name, _)| *name != socket.name);
                        heard.neighbours.push((socket.name.clone(), neighbour));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        heard.failed.retain(|(name, _)| *name != socket.name);
                        heard.failed.push((socket.name.clone(), error));
                        break;
                    }
                }
            }
        }
        let is_done = !sockets.is_empty() && heard.neighbours.len() == sockets.len();
        if is_done || Instant::now() >= end || stop() {
            return heard;
        }
        std::thread::sleep(CHECK_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::promisc::Promiscuous;
    use super::*;
    use crate::host::read::testing::{root_or_skip, send, veth_pair};

    #[test]
    fn what_a_neighbour_says_is_heard() {
        if !root_or_skip("what_a_neighbour_says_is_heard") {
            return;
        }
        let pair = veth_pair(1500);
        let index = pair.right_index;
        let socket = pair.right.run(move || LldpSocket::open("right0", index)).unwrap().unwrap();
        assert!(listen(std::slice::from_ref(&socket), Duration::ZERO, || false).neighbours.is_empty());
        let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
        frame.extend([0x0a, 5]);
        frame.extend(b"leaf1");
        frame.extend([0xfe, 6, 0x00, 0x80, 0xc2, 0x0b, 8, 1 << 3]);
        frame.extend([0; 40]);
        // A link that was just created may drop the first frames.
        let (mut heard, index) = (Vec::new(), pair.left_index);
        for _ in 0..100 {
            pair.left.run(|| send(index, &frame)).unwrap();
            heard = listen(std::slice::from_ref(&socket), Duration::from_millis(50), || false).neighbours;
            if !heard.is_empty() {
                break;
            }
        }
        assert_eq!(heard[0].0, "right0");
        assert_eq!(heard[0].1.system.as_deref(), Some("leaf1"));
        assert_eq!(heard[0].1.pfc.unwrap().enabled, 8);
        // The kernel refuses a missing interface.
        assert!(LldpSocket::open("none", 4_000_000).is_err());
        assert!(Promiscuous::enable(4_000_000).is_err());
    }
}
