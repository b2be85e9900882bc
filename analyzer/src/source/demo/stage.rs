//! The demo's network: unnamed network namespaces and two links between them.
//!
//! Nothing else on the host changes, and the kernel removes the namespaces with their last file descriptor, however
//! the process ends.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, eth, socket_with};

use super::play::{Player, Port, Ports, bind};
use super::scenario::{LINK_MTU, Scenario, Uplink};
use crate::host::net::netns::NetNs;
use crate::host::net::veth::{VethEnd, create_pair};
use crate::host::{HostError, Result};

/// Names of the links' other ends, which are visible to the demo only.
const FAR_NAMES: [&str; 2] = ["switch0", "switch1"];
const QUEUES: u32 = 1;
const ETH_P_LLDP: u16 = 0x88CC;

/// The observed host with its two uplinks, and the namespace of their other ends.
#[derive(Debug)]
pub struct Stage {
    observed: NetNs,
    far: NetNs,
    links: [Link; 2],
}

#[derive(Debug)]
struct Link {
    near: u32,
    far: u32,
    _listeners: [OwnedFd; 2],
}

impl Stage {
    /// Creates the namespaces and the links between them, and sets the links up.
    ///
    /// # Errors
    /// If the kernel refuses; it needs root.
    pub fn new() -> Result<Self> {
        let observed = NetNs::anonymous()?;
        let far = NetNs::anonymous()?;
        let link = |uplink: Uplink| {
            let near_end = VethEnd { netns: &observed, name: uplink.name(), mac: None };
            let far_end = VethEnd { netns: &far, name: FAR_NAMES[uplink.index()], mac: None };
            let (near, far_index) = create_pair(near_end, far_end, LINK_MTU, QUEUES)?;
            let listeners = [observed.run(|| listen(near))??, far.run(|| listen(far_index))??];
            Ok::<_, HostError>(Link { near, far: far_index, _listeners: listeners })
        };
        let links = [link(Uplink::Rail0)?, link(Uplink::Rail1)?];
        Ok(Self { observed, far, links })
    }

    /// The namespace of the observed host, to run code in.
    pub fn observed(&self) -> &NetNs {
        &self.observed
    }

    /// The observed host's interfaces.
    pub fn interfaces(&self) -> [String; 2] {
        Uplink::ALL.map(|uplink| uplink.name().to_owned())
    }

    /// Their indices, in the same order.
    pub fn indices(&self) -> [u32; 2] {
        Uplink::ALL.map(|uplink| self.links[uplink.index()].near)
    }

    /// Starts sending a scenario, for `limit` of its time or until the player is stopped. The
    /// player's sockets keep the namespaces: they go with the stage or the player, whichever
    /// is dropped last.
    ///
    /// # Errors
    /// If the kernel refuses the packet sockets, or no thread can be started.
    pub fn start(&self, scenario: Scenario, limit: Option<Duration>) -> Result<Player> {
        let open = |netns: &NetNs, index: u32| {
            netns
                .run(|| Port::open(index))?
                .map_err(|e| HostError::system("open a packet socket for the demo's traffic", e))
        };
        let [first, second] = &self.links;
        let ports = Ports {
            near: [open(&self.observed, first.near)?, open(&self.observed, second.near)?],
            far: [open(&self.far, first.far)?, open(&self.far, second.far)?],
        };
        Player::start(scenario, ports, limit)
            .map_err(|e| HostError::system("start the thread that sends the demo's traffic", e))
    }
}

/// A socket that receives LLDP frames and is never read. Without a receiver the kernel counts them as dropped by the
/// interface, which would look like capture loss.
fn listen(index: u32) -> Result<OwnedFd> {
    let action = "open a packet socket for the demo's LLDP frames";
    let open = || {
        let (family, flags) = (AddressFamily::PACKET, SocketFlags::CLOEXEC);
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(eth::LLDP))?;
        // The smallest that the kernel gives.
        set_socket_recv_buffer_size(&socket, 1)?;
        bind(&socket, index, ETH_P_LLDP)?;
        Ok(socket)
    };
    open().map_err(|error: io::Error| HostError::system(action, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if the test can run; prints a reason if it cannot, and fails if it must run.
    fn root(test: &str) -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} must run as root where CI=true");
            eprintln!("SKIP: {test} needs root");
        }
        root
    }

    /// Statistics of an interface of the calling thread's namespace: received and sent packets,
    /// dropped on receipt.
    fn counters(name: &str) -> [u64; 3] {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = text.lines().find(|l| l.trim_start().starts_with(&format!("{name}:"))).unwrap();
        let numbers: Vec<u64> =
            line.split_once(':').unwrap().1.split_whitespace().map(|n| n.parse().unwrap()).collect();
        [numbers[1], numbers[9], numbers[3]]
    }

    #[test]
    fn every_frame_of_the_truth_crosses_the_links() {
        if !root("every_frame_of_the_truth_crosses_the_links") {
            return;
        }
        let stage = Stage::new().unwrap();
        let limit = Duration::from_millis(1_500);
        let player = stage.start(Scenario::new(1, Duration::from_secs(5)), Some(limit)).unwrap();
        let result = player.join().unwrap();
        assert_eq!((result.failed, result.first_error.as_deref()), (0, None));
        let total = result.truth.total().packets + result.truth.other_packets;
        assert_eq!(result.sent, total);
        assert!(total > 1_000);
        let mut seen = 0;
        for name in stage.interfaces() {
            let [received, sent, dropped] = stage.observed().run(|| counters(&name)).unwrap();
            assert!(received > 0 && sent > 0, "{name}");
            assert_eq!(dropped, 0, "{name}");
            seen += received + sent;
        }
        assert_eq!(seen, total);
    }

    #[test]
    fn a_player_stops_when_asked_and_outlives_its_stage() {
        if !root("a_player_stops_when_asked_and_outlives_its_stage") {
            return;
        }
        let stage = Stage::new().unwrap();
        let player = stage.start(Scenario::new(1, Duration::from_secs(40)), None).unwrap();
        // Bounded: ten seconds.
        for _ in 0..500 {
            if player.sent() > 10 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(player.sent() > 10 && !player.is_finished());
        drop(stage);
        player.stop();
        let result = player.join().unwrap();
        assert!(result.sent > 10);
    }
}
