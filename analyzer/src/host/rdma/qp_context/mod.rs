//! The NIC's own context of a queue pair, returned by drivers over RDMA netlink (`RDMA_NLDEV_CMD_RES_QP_GET_RAW`):
//! bytes with a driver-specific layout.
//!
//! Layouts come only from public definitions, and none has been compared with hardware. A context is therefore
//! accepted only if it names the same peer as the kernel, or lies where such a one of its device does ([`decode`]).
//!
//! | driver | layout |
//! |---|---|
//! | `mlx5_ib` | `mlx5`: resource dump with the output of QUERY_QP |
//! | `hns_roce` | `hns`: the QP context, in the first kernels a list of some of its fields |
//! | `bnxt_re` | 1,088 bytes of the firmware without a public definition: not decoded |
//! | others (`rxe`, `irdma` …) | provide none |
//!
//! bnxt_re passes on what the firmware returns to READ_CONTEXT (`BNXT_RE_CONTEXT_TYPE_QPC_SIZE_P5`, `_P7`). Neither
//! roce_hsi.h and the driver's other headers nor include/linux/bnxt/hsi.h, rdma-core or iproute2 has its fields.
//! Broadcom's own driver puts the number of the queue pair before them, and leaves out as much at the end.

mod fields;
mod hns;
mod mlx5;

pub use self::fields::QpContext;
use crate::host::error::HostError;

/// Reason why bytes cannot be decoded as a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// No public definition of the layout.
    #[error("its layout has no public definition")]
    NoDefinition,
    /// The bytes end before the context does, or contain none.
    #[error("the answer contains no complete QP context")]
    Incomplete,
    /// The context names another peer than the kernel does: its layout is not the assumed one.
    #[error("the context names another peer than the kernel: unknown layout of this firmware")]
    Disagrees,
    /// The kernel names no peer to compare it with, and the place of a context has not been confirmed on this device.
    #[error(
        "the kernel names no peer of the queue pair, and no other context of the device has confirmed the layout yet"
    )]
    Unconfirmed,
}

impl Undecodable {
    /// True if it may concern one queue pair of a device.
    pub const fn is_of_one(self) -> bool {
        matches!(self, Self::Incomplete | Self::Unconfirmed)
    }
}

/// Which of the possible places of the context in the answers of a device has it, learned from queue pairs whose peer
/// the kernel names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(Option<usize>);

/// Reason why a driver or the kernel gives no context, in words.
pub fn refusal(driver: &str, error: &HostError) -> String {
    let driver = if driver.is_empty() { "the driver" } else { driver };
    match error.errno() {
        Some(libc::EPERM | libc::EACCES) => "CAP_NET_ADMIN is missing (EPERM)".to_owned(),
        Some(libc::EINVAL) => format!("{driver} of this kernel returns no QP context (EINVAL)"),
        Some(libc::EOPNOTSUPP) => {
            format!("the device or its firmware does not support dumps of QP contexts ({driver}, EOPNOTSUPP)")
        }
        _ => error.cause(),
    }
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

/// True if contexts of this driver can be decoded.
pub fn is_decoded(driver: &str) -> bool {
    layout(driver).is_some()
}

/// Decodes the bytes of `RDMA_NLDEV_ATTR_RES_RAW` from this driver for queue pair `lqpn`, which according to the
/// kernel is connected to `rqpn`. `place` is that of the device.
///
/// # Errors
/// The driver's layout is not public, the bytes are too few, they contradict the kernel, or nothing confirms them.
pub fn decode(
    driver: &str,
    bytes: &[u8],
    lqpn: u32,
    rqpn: Option<u32>,
    place: &mut Place,
) -> Result<QpContext, Undecodable> {
    let candidates = match layout(driver).ok_or(Undecodable::NoDefinition)? {
        Layout::Mlx5 => mlx5::contexts(bytes, lqpn),
        Layout::Hns => hns::contexts(bytes),
    };
    if candidates.is_empty() {
        return Err(Undecodable::Incomplete);
    }
    let Some(peer) = rqpn else {
        let is_known = |(at, context): &(usize, QpContext)| context.rqpn.is_none() || place.0 == Some(*at);
        let known = candidates.into_iter().find(is_known);
        return known.map(|(_, context)| context).ok_or(Undecodable::Unconfirmed);
    };
    // There is a format without the peer.
    let agrees = |(_, context): &(usize, QpContext)| context.rqpn.is_none_or(|found| found == peer);
    let (at, context) = candidates.into_iter().find(agrees).ok_or(Undecodable::Disagrees)?;
    if context.rqpn.is_some() {
        place.0 = Some(at);
    }
    Ok(context)
}

/// Decodes the response of mlx5's firmware to QUERY_QP for a queue pair that is connected to `rqpn`.
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

/// Length of mlx5's context of a queue pair, in bytes.
pub const MLX5_LEN: usize = mlx5::LEN;

/// Decodes mlx5's context of a queue pair in firmware commands (`mlx5_ifc_qpc_bits`).
pub fn of_mlx5(qpc: &[u8]) -> QpContext {
    mlx5::context(qpc)
}

#[cfg(test)]
pub(crate) mod tests;
