//! Promiscuous mode for the lifetime of a guard.

use std::os::fd::OwnedFd;

use super::packet;
use crate::host::error::Result;

/// Keeps an interface in promiscuous mode. The kernel counts such requests, and revokes this one when the socket is
/// closed, however the process ends.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Puts an interface of the calling thread's namespace into promiscuous mode.
    ///
    /// # Errors
    /// If the kernel refuses the socket (CAP_NET_RAW) or the interface does not exist.
    pub fn enable(index: u32) -> Result<Self> {
        let action = format!("put interface {index} into promiscuous mode");
        let socket = packet::socket(&action)?;
        packet::join(&socket, packet::index(index, &action)?, libc::PACKET_MR_PROMISC, None, &action)?;
        Ok(Self { _socket: socket })
    }
}

#[cfg(test)]
mod tests {
    use super::super::interface;
    use super::*;
    use crate::host::netlink::Attrs;
    use crate::host::read::testing::{root_or_skip, veth_pair};

    /// IFLA_PROMISCUITY: number of promiscuous mode requests.
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
