//! The NIC's own context of a queue pair, as drivers hand it out over RDMA netlink
//! (`RDMA_NLDEV_CMD_RES_QP_GET_RAW`): bytes whose layout is the driver's.
//!
//! Layouts come from public definitions alone; none has been compared with hardware. A context therefore counts
//! only when it names the same peer as the kernel does ([`decode`]).
//!
//! | driver | layout |
//! |---|---|
//! | `mlx5_ib` | `mlx5`: resource dump with the output of QUERY_QP |
//! | `hns_roce` | `hns`: the QP context, in the first kernels a list of some of its fields |
//! | `bnxt_re` | 1,088 bytes of the firmware without a public definition: not decoded |
//! | others (`rxe`, `irdma` …) | hand out none |

mod hns;
mod mlx5;

use std::net::{IpAddr, Ipv6Addr};

/// Fields of a queue pair in the NIC's context. `None`: the driver's context has no such field, it is too short,
/// or the field says that the value is not in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpContext {
    /// State: `RTS`, `ERR` …
    pub state: Option<&'static str>,
    /// Number of the queue pair at the other end.
    pub rqpn: Option<u32>,
    /// Address of the other end.
    pub dst: Option<IpAddr>,
    /// UDP source port.
    pub udp_port: Option<u16>,
    /// DSCP of its packets.
    pub dscp: Option<u8>,
    /// Priority (PCP), 0 to 7.
    pub priority: Option<u8>,
    /// Path MTU. Unit: bytes.
    pub path_mtu: Option<u32>,
    /// Exponent of the transport timeout: 4.096 µs · 2^timeout; 0 for never.
    pub timeout: Option<u8>,
    /// Retries after a timeout or a sequence error, as set.
    pub retry_cnt: Option<u8>,
    /// Retries after an RNR NAK, as set; 7 for ever.
    pub rnr_retry: Option<u8>,
    /// The counter of retries now.
    pub retry_now: Option<u8>,
    /// The counter of RNR retries now.
    pub rnr_retry_now: Option<u8>,
    /// PSN of the next request packet.
    pub next_send_psn: Option<u32>,
    /// PSN up to which the peer has acknowledged.
    pub acked_psn: Option<u32>,
    /// PSN expected next from the peer.
    pub next_recv_psn: Option<u32>,
    /// True when it has sent anything: the counter of send work begun is not 0 (it wraps, so that a queue pair in use
    /// seems unused once in 65,536 values).
    pub used: Option<bool>,
    /// Send work posted and not begun. Unit: the driver's blocks of work requests (mlx5: of 64 bytes).
    pub unsent: Option<u32>,
    /// Receive work requests taken so far, modulo the counter's width; `None` with a shared receive queue.
    pub received_wqes: Option<u32>,
    /// Receive work requests posted and not taken; `None` with a shared receive queue.
    pub posted_receives: Option<u32>,
    /// True when the NIC may spray or reroute its packets (adaptive routing).
    pub adaptive_routing: Option<bool>,
    /// Plane of a multi-plane port, from 1.
    pub plane: Option<u8>,
    /// Port of the bond that it sends on, from 1.
    pub bond_port: Option<u8>,
    /// Difference between next and acknowledged PSN with nothing in flight; `None` where the public definition leaves
    /// open which of the two neighbours of the limit `acked_psn` is.
    pub idle_distance: Option<u32>,
    /// True when the counters of retries are known to count down from their settings; `None` where the public
    /// definition does not say.
    pub counts_down: Option<bool>,
}

/// Reason for which bytes are no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// No public definition of the layout.
    #[error("its layout has no public definition")]
    NoDefinition,
    /// The bytes end before the context does, or have none in them.
    #[error("the answer contains no complete QP context")]
    Incomplete,
    /// The context names another peer than the kernel does: the layout is not the one assumed.
    #[error("the context names another peer than the kernel: unknown layout of this firmware")]
    Disagrees,
}

/// A layout that is known.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Mlx5,
    Hns,
}

/// The layout of a driver's contexts.
fn layout(driver: &str) -> Option<Layout> {
    match driver {
        "mlx5_ib" => Some(Layout::Mlx5),
        "hns_roce" | "hns_roce_hw_v2" => Some(Layout::Hns),
        _ => None,
    }
}

/// True when contexts of this driver can be decoded.
#[must_use]
pub fn is_decoded(driver: &str) -> bool {
    layout(driver).is_some()
}

/// Reads the bytes of `RDMA_NLDEV_ATTR_RES_RAW` that this driver gave for queue pair `lqpn`, which the kernel says is
/// connected to `rqpn`.
///
/// # Errors
/// The driver's layout is not public, the bytes are too few, or they contradict the kernel.
pub fn decode(driver: &str, bytes: &[u8], lqpn: u32, rqpn: Option<u32>) -> Result<QpContext, Undecodable> {
    let candidates = match layout(driver).ok_or(Undecodable::NoDefinition)? {
        Layout::Mlx5 => mlx5::contexts(bytes, lqpn),
        Layout::Hns => hns::contexts(bytes),
    };
    if candidates.is_empty() {
        return Err(Undecodable::Incomplete);
    }
    let agrees = |context: &QpContext| match (rqpn, context.rqpn) {
        (Some(known), Some(found)) => known == found,
        // Not connected, or a form of the context without the peer.
        _ => true,
    };
    candidates.into_iter().find(agrees).ok_or(Undecodable::Disagrees)
}

/// Reads the answer of mlx5's firmware to QUERY_QP about a queue pair that is connected to `rqpn`.
///
/// # Errors
/// As [`decode`].
pub fn decode_query(bytes: &[u8], rqpn: Option<u32>) -> Result<QpContext, Undecodable> {
    /// `status` … `ece` of `mlx5_ifc_query_qp_out_bits`.
    const HEADER: usize = 24;
    let context = bytes.get(HEADER..HEADER + MLX5_LEN).map(of_mlx5).ok_or(Undecodable::Incomplete)?;
    match (rqpn, context.rqpn) {
        (Some(known), Some(found)) if known != found => Err(Undecodable::Disagrees),
        _ => Ok(context),
    }
}

/// Bytes of mlx5's context of a queue pair.
pub const MLX5_LEN: usize = mlx5::LEN;

/// Reads mlx5's context of a queue pair, as commands to the firmware have it (`mlx5_ifc_qpc_bits`).
#[must_use]
pub fn of_mlx5(qpc: &[u8]) -> QpContext {
    mlx5::context(qpc)
}

/// A field of a context: its place, and what its value says.
struct Field {
    /// Name in the driver's source.
    name: &'static str,
    /// Lowest bit in the numbering of the driver's source.
    at: u32,
    /// Width in bits, 32 at most.
    bits: u32,
    put: fn(&mut QpContext, u32),
}

const fn field(name: &'static str, at: u32, bits: u32, put: fn(&mut QpContext, u32)) -> Field {
    Field { name, at, bits, put }
}

/// Applies each field that `read` finds.
fn fill(context: &mut QpContext, fields: &[Field], read: impl Fn(&Field) -> Option<u32>) {
    for field in fields {
        debug_assert!(field.bits <= 32, "{}", field.name);
        if let Some(value) = read(field) {
            (field.put)(context, value);
        }
    }
}

/// `enum ib_mtu` as bytes: 1 is 256, 5 is 4,096.
fn mtu(value: u32) -> Option<u32> {
    (1..=5).contains(&value).then(|| 128 << value)
}

/// An address of a GID: IPv4 when it is mapped; `None` when it is empty.
fn address(gid: [u8; 16]) -> Option<IpAddr> {
    let v6 = Ipv6Addr::from(gid);
    (!v6.is_unspecified()).then(|| v6.to_canonical())
}

/// The lowest byte: fields of up to eight bits.
const fn byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

/// The value unless it is 0, which stands for "none".
fn nonzero(value: u32) -> Option<u8> {
    Some(byte(value)).filter(|value| *value != 0)
}

#[cfg(test)]
pub(crate) mod tests;
