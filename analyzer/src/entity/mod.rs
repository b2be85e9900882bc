//! Objects that traffic is counted by, as plain values: addresses, flows, queue pairs and their owners, devices, ranks.
//!
//! Sources fill these values, metrics are keyed by them, and a [`Sample`](crate::sample::Sample) holds them. Nothing
//! here reads anything.

mod address;
pub mod contexts;
pub mod devices;
pub mod interval;
pub mod lives;
pub mod nccl;
pub mod owners;
mod packed;
pub mod pauses;
pub mod posts;
pub mod qp_source;
mod stats;

use std::hash::{Hash, Hasher};

use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::wire::frame::Addr;
use serde::Serialize;

pub use address::{Address, MULTICAST_QP, address};
pub use stats::{Opcodes, Psns, Stats, from_kernel, has_answers, has_sequence};

/// Direction of a link's packets, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Received.
    Ingress,
    /// Sent.
    Egress,
}

/// Counts that only few flows have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Packets and bytes by source port, for ports other than the first.
    pub ports: Vec<(u16, Counter)>,
    /// Packets by opcode, for opcodes of another transport than the flow's.
    pub opcodes: Vec<(u8, u64)>,
    /// Packets and bytes by DSCP and kind of packet (see [`rocescope_common::abi::maps::dscp_value`]), for DSCPs other
    /// than the first.
    pub dscps: Vec<(u16, Counter)>,
}

/// A UDP 5-tuple of RoCEv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// IP version of the addresses: 4 or 6.
    pub family: u8,
    /// Source address in wire order.
    pub src: Addr,
    /// Destination address in wire order.
    pub dst: Addr,
    /// UDP source port.
    pub src_port: u16,
}

/// A queue pair as the packets to it name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerKey {
    /// IP version of the addresses: 4 or 6.
    pub family: u8,
    /// Source address of the packets.
    pub src: Addr,
    /// Destination address of the packets.
    pub dst: Addr,
    /// Destination queue pair.
    pub dest_qp: u32,
}

/// The words of an address as one number: as numbers they are in the same order.
#[inline]
pub fn wide([a, b, c, d]: Addr) -> u128 {
    u128::from(a) << 96 | u128::from(b) << 64 | u128::from(c) << 32 | u128::from(d)
}

/// In wide words: eleven narrow ones take three times as long.
impl Hash for PeerKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(wide(self.src));
        state.write_u128(wide(self.dst));
        state.write_u64(u64::from(self.dest_qp) | u64::from(self.family) << 32);
    }
}

impl PeerKey {
    /// The peer key of a flow.
    pub fn of(key: &FlowKey) -> Self {
        Self { family: key.family, src: key.src, dst: key.dst, dest_qp: key.dest_qp }
    }
}
