//! Notifications of removed interfaces.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::NetlinkBuffer;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::host::error::{HostError, Result};
use crate::host::netlink::LinkHeader;

/// Larger than any notification about an interface.
const BUFFER_LEN: usize = 64 * 1024;
/// Maximum number of notifications taken at once, so that a busy host cannot block the caller.
const MAX_NOTICES: usize = 1024;
/// Legacy multicast group of link notifications.
const RTMGRP_LINK: u32 = 1;

/// A subscription to removals of interfaces in one namespace.
pub struct LinkWatch {
    socket: Socket,
    buffer: Vec<u8>,
}

/// Changes since the previous call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removals {
    /// Indices of removed interfaces.
    pub indices: Vec<u32>,
    /// Notifications were lost: check with [`super::interface::exists`].
    pub incomplete: bool,
}

impl std::fmt::Debug for LinkWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkWatch").field("fd", &self.socket.as_raw_fd()).finish_non_exhaustive()
    }
}

impl LinkWatch {
    /// Subscribes in the calling thread's namespace. The descriptor becomes readable on notifications.
    ///
    /// # Errors
    /// If the kernel refuses the socket.
    pub fn open() -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|e| HostError::system("watch the network interfaces", e))?;
        Ok(Self { socket, buffer: Vec::with_capacity(BUFFER_LEN) })
    }

    /// Takes the notifications received so far, without blocking.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn removals(&mut self) -> Result<Removals> {
        let mut found = Removals::default();
        for _ in 0..MAX_NOTICES {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Ok(_) => removed(&self.buffer, &mut found.indices),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(found),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => found.incomplete = true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(HostError::system("watch the network interfaces", e)),
            }
        }
        Ok(found)
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket owns the descriptor and outlives the borrow, which is tied to self.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

fn removed(mut notices: &[u8], indices: &mut Vec<u32>) {
    while let Ok(notice) = NetlinkBuffer::new_checked(notices) {
        let length = notice.length() as usize;
        let header = notices.get(16..length).and_then(LinkHeader::parse);
        // A bridge announces the removal of a port with the same message in its own family.
        let of_bridge = notices.get(16).is_some_and(|family| i32::from(*family) == libc::AF_BRIDGE);
        if let (libc::RTM_DELLINK, Some(header), false) = (notice.message_type(), header, of_bridge) {
            indices.push(header.index);
        }
        notices = notices.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::host::netlink::Request;
    use crate::host::read::testing::{root_or_skip, veth_pair};

    fn notice(kind: u16, family: u8, index: u32) -> Vec<u8> {
        let mut header = LinkHeader { index, ..LinkHeader::default() }.bytes();
        header[0] = family;
        Request::new(kind, 0, &header).finish(0)
    }

    #[test]
    fn only_removals_count() {
        let mut notices = notice(libc::RTM_NEWLINK, 0, 3);
        notices.extend(notice(libc::RTM_DELLINK, 7, 4));
        notices.extend(notice(libc::RTM_DELLINK, 0, 5));
        let mut indices = Vec::new();
        removed(&notices, &mut indices);
        assert_eq!(indices, [5]);
        for end in 0..notices.len() {
            removed(&notices[..end], &mut Vec::new());
        }
    }

    #[test]
    fn a_removed_interface_is_noticed() {
        if !root_or_skip("a_removed_interface_is_noticed") {
            return;
        }
        let pair = veth_pair(1500);
        let (left, index) = (pair.left, pair.left_index);
        let mut watch = left.run(LinkWatch::open).unwrap().unwrap();
        assert_eq!(watch.removals().unwrap().indices, Vec::<u32>::new());
        drop(pair.right);
        let mut found = Vec::new();
        // The first notification may be that of the lost carrier.
        for _ in 0..10 {
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&second)).unwrap();
            found.extend(watch.removals().unwrap().indices);
            if !found.is_empty() {
                break;
            }
        }
        assert_eq!(found, [index]);
    }
}
