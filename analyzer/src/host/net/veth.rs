//! veth pairs between namespaces and settings of their ends, over netlink.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use super::interface;
use super::netns::NetNs;
use crate::host::error::{HostError, Result};
use crate::host::netlink::{LinkHeader, Request, RouteSocket};

/// The peer's description inside a veth request (linux/veth.h).
const VETH_INFO_PEER: u16 = 1;
/// Generation mode of an interface's IPv6 link-local address (linux/if_link.h).
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

/// One end of a pair to be created.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Its namespace.
    pub netns: &'a NetNs,
    /// Its name, at most 15 bytes.
    pub name: &'a str,
    /// Its MAC address; `None` for a random one.
    pub mac: Option<[u8; 6]>,
}

/// Creates a veth pair with one end in each namespace (which may be the same) and `queues` queues per direction, sets
/// the MTU, and sets both ends up. Returns the ends' interface indices, each in its own namespace. The pair
/// disappears with either namespace.
///
/// # Errors
/// If a name is taken or the kernel refuses.
pub fn create_pair(a: VethEnd<'_>, b: VethEnd<'_>, mtu: u32, queues: u32) -> Result<(u32, u32)> {
    let action = format!("create the veth pair {} and {}", a.name, b.name);
    let none = LinkHeader::default().bytes();
    let request = Request::new(libc::RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &none);
    let request = describe(request, a, mtu, queues).nest(libc::IFLA_LINKINFO, |info| {
        info.attr_text(libc::IFLA_INFO_KIND, "veth").nest(libc::IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |peer| describe(peer.raw(&none), b, mtu, queues))
        })
    });
    a.netns.run(|| RouteSocket::open()?.request(&action, request))??;
    let finish = |end: VethEnd<'_>| {
        end.netns.run(|| {
            let index = index_of(end.name)?;
            silence(index)?;
            set_up(index)?;
            Ok(index)
        })?
    };
    Ok((finish(a)?, finish(b)?))
}

fn describe(request: Request, end: VethEnd<'_>, mtu: u32, queues: u32) -> Request {
    let request = request
        .attr_text(libc::IFLA_IFNAME, end.name)
        .attr(libc::IFLA_NET_NS_FD, &end.netns.as_fd().as_raw_fd().to_ne_bytes())
        .attr_u32(libc::IFLA_MTU, mtu)
        .attr_u32(libc::IFLA_NUM_RX_QUEUES, queues)
        .attr_u32(libc::IFLA_NUM_TX_QUEUES, queues);
    match end.mac {
        Some(mac) => request.attr(libc::IFLA_ADDRESS, &mac),
        None => request,
    }
}

/// The index of an interface of the calling thread's namespace.
///
/// # Errors
/// If there is none of that name.
pub fn index_of(name: &str) -> Result<u32> {
    let found = interface::list()?.into_iter().find(|i| i.name == name);
    found.map(|i| i.index).ok_or_else(|| HostError::Choice(format!("no network interface {name:?}")))
}

/// Sets an interface of the calling thread's namespace up.
///
/// # Errors
/// If it does not exist or the kernel refuses.
pub fn set_up(index: u32) -> Result<()> {
    let up = libc::IFF_UP.unsigned_abs();
    let header = LinkHeader { index, flags: up, change: up, ..LinkHeader::default() };
    change(&format!("set interface {index} up"), &header, |r| r)
}

/// Sets the MTU of an interface of the calling thread's namespace, in bytes.
///
/// # Errors
/// If it does not exist or its driver does not take that size.
pub fn set_mtu(index: u32, mtu: u32) -> Result<()> {
    let header = LinkHeader { index, ..LinkHeader::default() };
    change(&format!("set the MTU of interface {index} to {mtu}"), &header, |r| {
        r.attr_u32(libc::IFLA_MTU, mtu)
    })
}

/// Adds an IP address to an interface of the calling thread's namespace. An IPv6 address is usable at once (without
/// duplicate detection); it needs a namespace with IPv6, which [`NetNs::anonymous`] disables.
///
/// # Errors
/// If the interface does not exist, the address is there already or the kernel refuses.
pub fn add_address(index: u32, address: IpAddr, prefix_len: u8) -> Result<()> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let family = u8::try_from(family).unwrap_or_default();
    let flags = u8::try_from(libc::IFA_F_NODAD).unwrap_or_default();
    let mut header = vec![family, prefix_len, flags, 0];
    header.extend(index.to_ne_bytes());
    let request = Request::new(libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &header)
        .attr(libc::IFA_LOCAL, &bytes)
        .attr(libc::IFA_ADDRESS, &bytes);
    let action = format!("assign to interface {index} the address {address}/{prefix_len}");
    RouteSocket::open()?.request(&action, request)
}

/// Prevents an interface from generating an IPv6 address and sending packets about it. Kernels without IPv6 refuse,
/// and need nothing.
fn silence(index: u32) -> Result<()> {
    let header = LinkHeader { index, ..LinkHeader::default() };
    let inet6 = u16::try_from(libc::AF_INET6).unwrap_or_default();
    let done = change(&format!("disable IPv6 address generation on interface {index}"), &header, |r| {
        r.nest(libc::IFLA_AF_SPEC, |r| {
            r.nest(inet6, |r| r.attr(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]))
        })
    });
    match done {
        Err(e) if matches!(e.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EINVAL)) => Ok(()),
        done => done,
    }
}

fn change(action: &str, header: &LinkHeader, fill: impl FnOnce(Request) -> Request) -> Result<()> {
    let request = fill(Request::new(libc::RTM_NEWLINK, 0, &header.bytes()));
    RouteSocket::open()?.request(action, request)
}

#[cfg(test)]
mod tests {
    use super::super::interface::InterfaceKind;
    use super::*;
    use crate::host::read::testing::{root_or_skip, veth_pair};

    #[test]
    fn a_pair_is_up_and_as_ordered() {
        if !root_or_skip("a_pair_is_up_and_as_ordered") {
            return;
        }
        let pair = veth_pair(9000);
        let (left, right) = (pair.left_interface(), pair.right_interface());
        assert_eq!((left.name.as_str(), right.name.as_str()), ("left0", "right0"));
        assert_eq!((&left.kind, left.mtu, left.rx_queues), (&InterfaceKind::Veth, 9000, Some(2)));
        assert_eq!(left.mac, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(left.peer, Some(right.index));
        assert!(left.lower.is_empty());
        assert!(left.is_up() && right.is_up());
    }

    #[test]
    fn settings_take_effect_and_refusals_name_the_thing() {
        if !root_or_skip("settings_take_effect") {
            return;
        }
        let pair = veth_pair(1500);
        let index = pair.left_index;
        pair.left
            .run(|| {
                set_mtu(index, 4200).unwrap();
                add_address(index, "192.0.2.1".parse().unwrap(), 24).unwrap();
                let text = set_mtu(index, 10_000_000).unwrap_err().to_string();
                assert!(text.contains(&format!("MTU of interface {index}")), "{text}");
                assert!(set_up(9999).unwrap_err().is_absent());
            })
            .unwrap();
        assert_eq!(pair.left_interface().mtu, 4200);
    }

    #[test]
    fn a_quiet_pair_stays_quiet() {
        if !root_or_skip("a_quiet_pair_stays_quiet") {
            return;
        }
        let pair = veth_pair(1500);
        // Neighbour discovery and multicast reports would arrive within this time.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let raw = pair.right.run(|| interface::raw(pair.right_index)).unwrap().unwrap();
        let stats = crate::host::netlink::Attrs::after(&raw, 16).get(libc::IFLA_STATS64).unwrap();
        assert_eq!(&stats[..16], [0; 16], "received or sent packets");
    }

    #[test]
    fn a_pair_is_removed_with_one_of_its_namespaces() {
        if !root_or_skip("a_pair_is_removed_with_one_of_its_namespaces") {
            return;
        }
        let pair = veth_pair(1500);
        let (left, index) = (pair.left, pair.left_index);
        drop(pair.right);
        let gone = || left.run(|| !interface::exists(index).unwrap()).unwrap();
        let mut tries = 0;
        while !gone() {
            tries += 1;
            assert!(tries < 500, "the pair is still there");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
