//! Ethtool queries of an interface: driver statistics (`-S`) and the receive hash (`-n`) in
//! the calling thread's namespace.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use serde::Serialize;

use crate::host::error::{HostError, Result};

// linux/ethtool.h
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
const ETHTOOL_GRXFH: u32 = 0x29;
const ETH_SS_STATS: u32 = 1;
const UDP_V4_FLOW: u32 = 0x02;
const UDP_V6_FLOW: u32 = 0x06;
/// Both port fields: the first four bytes of the transport header.
const RXH_PORTS: u64 = 1 << 6 | 1 << 7;
/// Far larger than `struct ethtool_rxnfc` of any kernel.
const RXNFC_WORDS: usize = 256;
const NAME_LEN: usize = 32;
/// More than any driver has (mlx5 with hundreds of queues has some ten thousand).
const MAX_STATISTICS: u32 = 1 << 20;

/// Name and value of each statistic, in the driver's order; empty if the driver has none.
///
/// # Errors
/// If there is no such interface or the kernel refuses.
pub fn statistics(name: &str) -> Result<Vec<(String, u64)>> {
    let action = || format!("read the driver statistics of {name}");
    let result = read(name).map_err(|e| HostError::system(action(), e));
    match result {
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
        result => result,
    }
}

/// Drops at the port, before any queue of the host: mlx5 counts packets that its buffer could not take only there
/// (`rx_discards_phy`). `None` if the driver has no such counter.
pub fn port_discards(statistics: &[(String, u64)]) -> Option<u64> {
    statistics.iter().find(|(name, _)| name == "rx_discards_phy").map(|(_, value)| *value)
}

/// True if the NIC's receive hash includes the UDP ports, for IPv4 or (`v6`) IPv6. `None` if the driver does not
/// report it.
///
/// # Errors
/// If there is no such interface or the kernel refuses.
pub fn udp_ports_hashed(name: &str, v6: bool) -> Result<Option<bool>> {
    // struct ethtool_rxnfc: command, flow type, 64-bit set of fields, and fields that only other requests use.
    let mut request = vec![0; RXNFC_WORDS];
    request[..2].copy_from_slice(&[ETHTOOL_GRXFH, if v6 { UDP_V6_FLOW } else { UDP_V4_FLOW }]);
    let result = socket().and_then(|socket| call(&socket, name, &mut request));
    let result = result.map_err(|e| HostError::system(format!("read the receive hash of {name}"), e));
    match result {
        Ok(()) => Ok(Some(number([request[2], request[3]]) & RXH_PORTS == RXH_PORTS)),
        Err(error) if matches!(error.errno(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Global pause (IEEE 802.3x), which pauses a whole link rather than one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// True if it is negotiated with the link partner.
    pub autonegotiated: bool,
    /// True if the NIC pauses on received pause frames.
    pub rx: bool,
    /// True if the NIC sends pause frames.
    pub tx: bool,
}

/// Sizes of the descriptor rings between driver and NIC, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rings {
    /// Receive descriptors in use.
    pub rx: u32,
    /// Maximum receive descriptors.
    pub rx_max: u32,
    /// Transmit descriptors in use.
    pub tx: u32,
    /// Maximum transmit descriptors.
    pub tx_max: u32,
}

/// The global pause setting (`ethtool -a`).
///
/// # Errors
/// If there is no such interface, the driver has no such setting, or the kernel refuses.
pub fn pause(name: &str) -> Result<Pause> {
    let mut request = vec![ETHTOOL_GPAUSEPARAM, 0, 0, 0];
    ask(name, "read the pause setting", &mut request)?;
    Ok(Pause { autonegotiated: request[1] != 0, rx: request[2] != 0, tx: request[3] != 0 })
}

/// The sizes of the rings (`ethtool -g`).
///
/// # Errors
/// If there is no such interface, the driver has no such setting, or the kernel refuses.
pub fn rings(name: &str) -> Result<Rings> {
    // struct ethtool_ringparam: command, maxima of rx, mini, jumbo and tx, then what is in use.
    let mut request = vec![ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
    ask(name, "read the ring sizes", &mut request)?;
    Ok(Rings { rx_max: request[1], tx_max: request[4], rx: request[5], tx: request[8] })
}

/// Sends a request about `name`; a failure reads "cannot `action` of `name`".
fn ask(name: &str, action: &str, request: &mut [u32]) -> Result<()> {
    socket()
        .and_then(|socket| call(&socket, name, request))
        .map_err(|e| HostError::system(format!("{action} of {name}"), e))
}

fn socket() -> io::Result<OwnedFd> {
    // Any socket family works for this ioctl, and after set-up the sandbox allows only netlink sockets.
    let protocol = Some(net::netlink::GENERIC);
    Ok(net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?)
}

fn read(name: &str) -> io::Result<Vec<(String, u64)>> {
    let socket = socket()?;
    // struct ethtool_sset_info: command, reserved, 64-bit mask of sets, then a count per set.
    let mut info = vec![ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    info[2..4].copy_from_slice(&words(1 << ETH_SS_STATS));
    call(&socket, name, &mut info)?;
    let has_statistics = info[2..4] != [0, 0];
    let count = if has_statistics { info[4] } else { 0 };
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > MAX_STATISTICS {
        return Err(io::Error::other(format!("the driver has {count} statistics")));
    }
    // The next calls write as many as the driver has by then, regardless of the requested number, so there is far
    // more space than a change of queues can fill. Untouched pages cost nothing.
    let room = (count as usize * 2).max(1 << 16);
    let mut names = vec![0; 3 + room * NAME_LEN / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_STATS, count]);
    call(&socket, name, &mut names)?;
    let mut values = vec![0; 2 + room * 2];
    values[..2].copy_from_slice(&[ETHTOOL_GSTATS, count]);
    call(&socket, name, &mut values)?;
    let count = (names[2].min(values[1]) as usize).min(room);
    let names = names[3..].chunks_exact(NAME_LEN / 4).map(text);
    let values = values[2..].chunks_exact(2).map(|pair| number([pair[0], pair[1]]));
    Ok(names.zip(values).take(count).collect())
}

/// A number as two words in native byte order.
fn words(value: u64) -> [u32; 2] {
    let bytes = value.to_ne_bytes();
    std::array::from_fn(|word| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[word * 4 + byte])))
}

fn number(words: [u32; 2]) -> u64 {
    let bytes = words.map(u32::to_ne_bytes);
    u64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte / 4][byte % 4]))
}

fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Sends an ethtool request about `name`: `command` starts with its number and has space for the response.
fn call(socket: &OwnedFd, name: &str, command: &mut [u32]) -> io::Result<()> {
    let data = libc::__c_anonymous_ifr_ifru { ifru_data: command.as_mut_ptr().cast() };
    let mut request = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: data };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the structure and the buffer it points to are valid for the call, and the buffer has room for what the
    // kernel writes in answer to this command: a structure of known length, or statistics, see `read`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::{root_or_skip, veth_pair};

    #[test]
    fn numbers_and_names_are_taken_as_they_lie_in_memory() {
        assert_eq!(number(words(0x0123_4567_89ab_cdef)), 0x0123_4567_89ab_cdef);
        let mut name = [0; 8];
        name[0] = u32::from_ne_bytes(*b"rx_d");
        name[1] = u32::from_ne_bytes([b'r', b'o', b'p', 0]);
        assert_eq!(text(&name), "rx_drop");
    }

    #[test]
    fn port_discards_are_unknown_without_the_counter() {
        let stats = |name: &str| vec![("rx_packets".to_owned(), 1), (name.to_owned(), 7)];
        assert_eq!(port_discards(&stats("rx_discards_phy")), Some(7));
        assert_eq!(port_discards(&stats("rx_discards")), None);
    }

    #[test]
    fn a_veth_has_its_statistics() {
        if !root_or_skip("a_veth_has_its_statistics") {
            return;
        }
        let pair = veth_pair(1500);
        let read = |name: &'static str| pair.left.run(move || statistics(name)).unwrap();
        let all = read("left0").unwrap();
        assert!(all.iter().any(|(name, value)| name == "peer_ifindex" && *value > 0), "{all:?}");
        assert!(all.iter().any(|(name, _)| name.starts_with("rx_queue_0")), "{all:?}");
        assert_eq!(read("lo").unwrap(), []);
        // Neither has several queues, so neither driver reports a hash.
        assert_eq!(udp_ports_hashed("lo", false).unwrap(), None);
        assert!(udp_ports_hashed("nothere", true).unwrap_err().is_absent());
        assert!(read("nothere").unwrap_err().is_absent());
        assert!(rings("nothere").unwrap_err().is_absent());
        // A veth has neither setting, and none must be invented.
        assert!(pair.left.run(|| pause("left0")).unwrap().is_err());
        assert!(read("a-name-that-is-far-too-long").unwrap_err().is_absent());
    }
}
