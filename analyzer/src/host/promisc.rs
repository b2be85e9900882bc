//! Promiscuous mode for as long as a guard lives.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::error::{HostError, Result};

/// Keeps an interface in promiscuous mode. The kernel counts such requests and takes this one
/// back when the socket goes, however the process ends.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Puts an interface of the calling thread's namespace into promiscuous mode.
    ///
    /// # Errors
    /// When the kernel refuses the socket (CAP_NET_RAW) or the interface does not exist.
    pub fn enable(index: u32) -> Result<Self> {
        let action = || format!("put interface {index} into promiscuous mode");
        // Protocol 0: the socket itself receives no packet.
        // SAFETY: takes three numbers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(HostError::last_os(action()));
        }
        // SAFETY: the system call just returned this descriptor to us alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let request = libc::packet_mreq {
            mr_ifindex: i32::try_from(index)
                .map_err(|_| HostError::system(action(), io::Error::from_raw_os_error(libc::ENODEV)))?,
            mr_type: u16::try_from(libc::PACKET_MR_PROMISC).unwrap_or_default(),
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let length = libc::socklen_t::try_from(size_of::<libc::packet_mreq>()).unwrap_or_default();
        // SAFETY: the structure is valid for the call and as long as said.
        let added = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                length,
            )
        };
        if added == 0 { Ok(Self { _socket: socket }) } else { Err(HostError::last_os(action())) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::interface;
    use super::super::netlink::Attrs;
    use super::super::testing::{root_or_skip, veth_pair};
    use super::*;

    /// IFLA_PROMISCUITY: how many asked for promiscuous mode.
    fn promiscuity(index: u32) -> u32 {
        Attrs::after(&interface::raw(index).unwrap(), 16).u32(libc::IFLA_PROMISCUITY).unwrap()
    }

    #[test]
    fn the_mode_lasts_as_long_as_its_guard() {
        if !root_or_skip("the_mode_lasts_as_long_as_its_guard") {
            return;
        }
        let pair = veth_pair(1500);
        pair.left
            .run(|| {
                assert_eq!(promiscuity(pair.left_index), 0);
                let first = Promiscuous::enable(pair.left_index).unwrap();
                let second = Promiscuous::enable(pair.left_index).unwrap();
                assert_eq!(promiscuity(pair.left_index), 2);
                drop(first);
                assert_eq!(promiscuity(pair.left_index), 1);
                drop(second);
                assert_eq!(promiscuity(pair.left_index), 0);
                assert!(Promiscuous::enable(9999).unwrap_err().is_absent());
            })
            .unwrap();
    }
}
