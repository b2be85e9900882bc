//! Packet sockets and their memberships.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::host::error::{HostError, Result};

/// A raw packet socket that receives nothing until it is bound to a protocol. `action` describes its purpose, as it
/// reads after "cannot".
///
/// # Errors
/// If the kernel refuses (it needs CAP_NET_RAW).
pub(in crate::host) fn socket(action: &str) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(|error| HostError::system(action, error.into()))
}

/// The interface index as the kernel's type.
///
/// # Errors
/// If the index is out of range.
pub(super) fn index(index: u32, action: &str) -> Result<libc::c_int> {
    i32::try_from(index).map_err(|_| HostError::system(action, io::Error::from_raw_os_error(libc::ENODEV)))
}

/// The address of a protocol, by its Ethertype, on an interface; 0 is none.
pub(in crate::host) fn address(interface: libc::c_int, ethertype: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: AddressFamily::PACKET.as_raw(),
        sll_protocol: ethertype.to_be(),
        sll_ifindex: interface,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Joins a multicast group, or promiscuous mode (`kind`), for as long as the socket is open.
///
/// # Errors
/// If the interface does not exist or the kernel refuses.
pub(super) fn join(
    socket: &OwnedFd,
    interface: libc::c_int,
    kind: libc::c_int,
    group: Option<[u8; 6]>,
    action: &str,
) -> Result<()> {
    let mut request = libc::packet_mreq {
        mr_ifindex: interface,
        mr_type: u16::try_from(kind).unwrap_or_default(),
        mr_alen: if group.is_some() { 6 } else { 0 },
        mr_address: [0; 8],
    };
    request.mr_address[..6].copy_from_slice(&group.unwrap_or_default());
    let length = libc::socklen_t::try_from(size_of::<libc::packet_mreq>()).unwrap_or_default();
    // SAFETY: the structure is valid for the call, and its length is correct.
    let added = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            length,
        )
    };
    if added == 0 { Ok(()) } else { Err(HostError::last_os(action)) }
}
