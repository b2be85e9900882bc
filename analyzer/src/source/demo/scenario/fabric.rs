//! This host, its peers, and the connections of two training jobs.

use std::net::{IpAddr, Ipv4Addr};

use super::super::craft::{Addresses, Route};
use crate::sample::Direction;
use crate::util::source_port;

/// One of the observed host's two network ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Uplink {
    /// To the first top-of-rack switch.
    Rail0,
    /// To the second top-of-rack switch.
    Rail1,
}

impl Uplink {
    /// Both, in the order of their index.
    pub const ALL: [Self; 2] = [Self::Rail0, Self::Rail1];

    /// Index of the uplink: 0 or 1.
    pub const fn index(self) -> usize {
        match self {
            Self::Rail0 => 0,
            Self::Rail1 => 1,
        }
    }

    /// The interface's name on the observed host.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rail0 => "rail0",
            Self::Rail1 => "rail1",
        }
    }
}

/// The direction of a connection's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// This host writes to the peer.
    Sends,
    /// The peer writes to this host.
    Receives,
}

/// A training job: a set of connections that take part in the same steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrainingJob {
    /// Many source ports, spread evenly over both uplinks.
    Spread,
    /// Two source ports, most of which hash to the first uplink.
    Skewed,
}

/// Connections of each job.
pub(super) const PER_JOB: usize = 16;
/// Peers in the ring's two neighbouring positions.
const PEERS: usize = 8;
/// The peer, one that this host sends to, whose receive queue runs empty.
pub(super) const SLOW_PEER: usize = 2;

const HOST: Ipv4Addr = Ipv4Addr::new(10, 40, 1, 11);
const HOP_LIMIT: u8 = 64;
/// Flow labels that the second job was started with; each gives one source port.
const PINNED: [(u32, u32); 2] = [(28, 29), (28, 31)];

/// A connected pair of queue pairs, one at each end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// Job that it belongs to.
    pub(super) job: TrainingJob,
    /// Index of the peer.
    pub(super) peer: usize,
    /// The direction of data.
    pub(super) role: Role,
    /// The uplink that it is hashed to, in both directions.
    pub(super) uplink: Uplink,
    /// This host's queue pair.
    pub(super) local_qp: u32,
    /// The peer's queue pair.
    pub(super) remote_qp: u32,
    /// Headers of packets from this host.
    pub(super) out: Route,
    /// Headers of packets to this host.
    pub(super) back: Route,
}

impl Connection {
    /// Headers of packets in a direction.
    pub(super) fn route(&self, direction: Direction) -> &Route {
        match direction {
            Direction::Egress => &self.out,
            Direction::Ingress => &self.back,
        }
    }

    /// The queue pair that packets in a direction go to.
    pub(super) fn dest_qp(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Egress => self.remote_qp,
            Direction::Ingress => self.local_qp,
        }
    }

    /// The direction of data.
    pub(super) fn data(&self) -> Direction {
        match self.role {
            Role::Sends => Direction::Egress,
            Role::Receives => Direction::Ingress,
        }
    }

    /// The direction of acknowledgements and CNPs.
    pub(super) fn answers(&self) -> Direction {
        match self.role {
            Role::Sends => Direction::Ingress,
            Role::Receives => Direction::Egress,
        }
    }
}

/// Source and destination of packets in a direction.
pub(super) fn ends(route: &Route) -> (IpAddr, IpAddr) {
    match route.addresses {
        Addresses::V4(src, dst) => (src.into(), dst.into()),
        Addresses::V6(src, dst) => (src.into(), dst.into()),
    }
}

/// Both jobs' connections: the first [`PER_JOB`] are [`TrainingJob::Spread`].
pub(super) fn connections() -> Vec<Connection> {
    (0..2 * PER_JOB).map(connection).collect()
}

fn connection(index: usize) -> Connection {
    let job = if index < PER_JOB { TrainingJob::Spread } else { TrainingJob::Skewed };
    let within = index % PER_JOB;
    // Half of the connections go to the next hosts of the rings, half come from the previous ones.
    let role = if within.is_multiple_of(2) { Role::Sends } else { Role::Receives };
    let ring = within / 2;
    let half = PEERS / 2;
    let peer = if role == Role::Sends { ring % half } else { half + ring % half };
    let uplink = match job {
        TrainingJob::Spread if (ring + ring / half).is_multiple_of(2) => Uplink::Rail0,
        // One ring of eight hashes to the other uplink.
        TrainingJob::Skewed if ring != half => Uplink::Rail0,
        _ => Uplink::Rail1,
    };
    let number = u32::try_from(index).unwrap_or_default();
    let local_qp = 0x0116 + number * 3;
    let remote_qp = 0x0209 + number * 5;
    let port = match job {
        TrainingJob::Spread => source_port::of_both(local_qp, remote_qp),
        TrainingJob::Skewed => {
            let (a, b) = PINNED[ring % PINNED.len()];
            source_port::of_both(a, b)
        }
    };
    let peer_number = u8::try_from(peer).unwrap_or_default();
    let address = Ipv4Addr::new(10, 40, 2, 21 + peer_number);
    let (mine, switch) = (host_mac(uplink), switch_mac(uplink));
    let out = Route {
        src_mac: mine,
        dst_mac: switch,
        vlan: None,
        addresses: Addresses::V4(HOST, address),
        src_port: port,
        hop_limit: HOP_LIMIT,
    };
    let back = Route {
        src_mac: switch,
        dst_mac: mine,
        // Two switches between the racks.
        hop_limit: HOP_LIMIT - 2,
        addresses: Addresses::V4(address, HOST),
        ..out
    };
    Connection { job, peer, role, uplink, local_qp, remote_qp, out, back }
}

/// Address of this host.
pub(super) const fn host() -> Ipv4Addr {
    HOST
}

const fn last_octet(uplink: Uplink) -> u8 {
    match uplink {
        Uplink::Rail0 => 0,
        Uplink::Rail1 => 1,
    }
}

/// The MAC address of this host's port.
pub(super) const fn host_mac(uplink: Uplink) -> [u8; 6] {
    [0x02, 0x00, 0x0A, 0x28, 0x01, 0x10 + last_octet(uplink)]
}

/// The MAC address of the switch at its other end.
pub(super) const fn switch_mac(uplink: Uplink) -> [u8; 6] {
    [0x02, 0x00, 0x0A, 0x28, 0x01, 0xF0 + last_octet(uplink)]
}
