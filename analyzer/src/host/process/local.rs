//! Facts about this host: its addresses, and processes in containers, which know themselves by other PIDs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::host::error::Result;
use crate::host::netlink::{Attrs, Request, RouteSocket};
use crate::host::read::HostRoot;

/// `struct ifaddrmsg`.
const HEADER: usize = 8;
const IFA_ADDRESS: u16 = 1;
/// On a point-to-point link, `IFA_ADDRESS` is the address of the other end.
const IFA_LOCAL: u16 = 2;

/// The addresses of all interfaces of the calling thread's network namespace.
///
/// # Errors
/// If the kernel does not respond.
pub fn addresses() -> Result<BTreeSet<IpAddr>> {
    let request = Request::new(libc::RTM_GETADDR, 0, &[0; HEADER]);
    let dump = RouteSocket::open()?.dump("list the addresses", libc::RTM_NEWADDR, &request)?;
    Ok(dump.iter().filter_map(|payload| address(payload)).collect())
}

fn address(payload: &[u8]) -> Option<IpAddr> {
    let attrs = Attrs::after(payload, HEADER);
    let bytes = attrs.get(IFA_LOCAL).or_else(|| attrs.get(IFA_ADDRESS))?;
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into())).ok()
}

/// The PID here of a process of this network namespace whose PID in its own PID namespace is `pid`; `None` if no
/// process or several match.
pub fn process(root: &HostRoot, pid: u32) -> Option<u32> {
    let own = root.link_name("/proc/thread-self/ns/net").ok();
    let here =
        |candidate: u32| own.is_some() && root.link_name(&format!("/proc/{candidate}/ns/net")).ok() == own;
    let is_it = |candidate: &u32| {
        let status = root.text(&format!("/proc/{candidate}/status")).unwrap_or_default();
        innermost(&status) == Some(pid) && here(*candidate)
    };
    let all = root.list("/proc").unwrap_or_default();
    let mut found = all.iter().filter_map(|name| name.parse().ok()).filter(is_it);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// True if a process listens on a TCP port in the network namespace of the calling thread; `None` if that cannot be
/// read.
pub fn listens(root: &HostRoot, port: u16) -> Option<bool> {
    /// `TCP_LISTEN` of net/tcp_states.h.
    const LISTEN: &str = "0A";
    let tables = ["tcp", "tcp6"].map(|table| root.text(&format!("/proc/thread-self/net/{table}")).ok());
    let is_it = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (Some(local), Some(state)) = (words.next(), words.nth(1)) else { return false };
        let own = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        state == LISTEN && own == Some(port)
    };
    // Without IPv6 there is only one table.
    let mut known = tables.iter().flatten().peekable();
    known.peek()?;
    Some(known.flat_map(|table| table.lines()).any(is_it))
}

/// PID of a process in its own PID namespace, from `/proc/PID/status`; `None` for kernel threads, which have no
/// memory of their own.
fn innermost(status: &str) -> Option<u32> {
    status.lines().find(|line| line.starts_with("VmSize:"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::tree;

    #[test]
    fn loopback_is_among_the_addresses_and_foreign_ones_are_not() {
        let known = addresses().unwrap();
        assert!(known.contains(&IpAddr::from(Ipv4Addr::LOCALHOST)), "{known:?}");
        assert!(!known.contains(&IpAddr::from([192, 0, 2, 1])));
        assert_eq!(address(&[0; 3]), None);
    }

    #[test]
    fn processes_are_found_by_their_number_in_a_container() {
        const USER: &str = "VmSize:\t1 kB\nNSpid:\t";
        let status = |pids: &str| format!("{USER}{pids}\n");
        let (contained, own, twin, other) =
            (status("4711\t17"), status("900"), status("4712\t18"), status("5\t33"));
        let root = tree(&[
            ("proc/thread-self/ns/net", "-> net:[1]"),
            ("proc/4711/status", &contained),
            ("proc/4711/ns/net", "-> net:[1]"),
            ("proc/900/status", &own),
            ("proc/900/ns/net", "-> net:[1]"),
            // A kernel thread with the PID that the process has in the container.
            ("proc/17/status", "NSpid:\t17\n"),
            ("proc/17/ns/net", "-> net:[1]"),
            ("proc/4712/status", &twin),
            ("proc/4712/ns/net", "-> net:[1]"),
            ("proc/18/status", &status("18")),
            ("proc/18/ns/net", "-> net:[1]"),
            ("proc/5/status", &other),
            ("proc/5/ns/net", "-> net:[2]"),
        ]);
        let root = HostRoot::at(root.path());
        assert_eq!((process(&root, 17), process(&root, 900)), (Some(4_711), Some(900)));
        assert_eq!(process(&root, 18), None, "two have it");
        assert_eq!((process(&root, 33), process(&root, 34)), (None, None));
    }
}
