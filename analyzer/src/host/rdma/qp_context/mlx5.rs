//! `mlx5_ib`: a resource dump of type PRM_QUERY_QP, as `fill_res_qp_entry_raw` of
//! drivers/infiniband/hw/mlx5/restrack.c returns it.
//!
//! Source: Linux 6.12, include/linux/mlx5/mlx5_ifc.h: `mlx5_ifc_resource_dump_*_segment_bits`,
//! `mlx5_ifc_query_qp_out_bits`, `mlx5_ifc_qpc_bits`, `mlx5_ifc_ads_bits`; values of `rq_type` and states:
//! include/linux/mlx5/qp.h. All integers are big-endian; bit 0 is the highest of the first byte.

use super::fields::{Field, QpContext, address, byte, field, fill, mtu, nonzero};

/// Length of `mlx5_ifc_qpc_bits`, bytes.
pub(super) const LEN: usize = 0x740 / 8;
/// Bytes of `mlx5_ifc_resource_dump_resource_segment_bits` before its payload: header, reserved, index1, index2.
const SEGMENT_HEADER: usize = 16;
/// Segment types from this value on describe the dump itself (notice, command, terminate, error, reference, info,
/// menu). Types of resources are dynamic: the firmware's menu lists them.
const FIRST_OWN_TYPE: u16 = 0xfff0;
/// Possible offsets of the context in a payload: after `status` … `ece` of `mlx5_ifc_query_qp_out_bits`, or at the
/// start. The definitions do not specify which applies to a dump.
const PLACES: [usize; 2] = [24, 0];
/// Receive queue type with fields of its own: `MLX5_NON_ZERO_RQ`.
const OWN_RQ: u32 = 0;

/// `mlx5_ifc_qpc_bits`, with `primary_address_path` at 0xc0.
const FIELDS: &[Field] = &[
    field("state", 0x0, 4, |c, v| c.state = state(v)),
    field("lag_tx_port_affinity", 0x4, 4, |c, v| c.bond_port = nonzero(v)),
    field("mtu", 0x40, 3, |c, v| c.path_mtu = mtu(v)),
    field("remote_qpn", 0xa8, 24, |c, v| c.rqpn = Some(v)),
    field("ads.free_ar", 0xc1, 1, |c, v| c.adaptive_routing = Some(v == 1)),
    field("ads.plane_index", 0xe0, 8, |c, v| c.plane = nonzero(v)),
    field("ads.ack_timeout", 0x100, 5, |c, v| c.timeout = Some(byte(v))),
    field("ads.src_addr_index", 0x108, 8, |c, v| c.src_index = Some(byte(v))),
    field("ads.flow_label", 0x12c, 20, |c, v| c.flow_label = Some(v)),
    field("ads.dscp", 0x1ca, 6, |c, v| c.dscp = Some(byte(v))),
    field("ads.udp_sport", 0x1d0, 16, |c, v| c.udp_port = u16::try_from(v).ok().filter(|port| *port != 0)),
    field("ads.eth_prio", 0x1e1, 3, |c, v| c.priority = Some(byte(v))),
    field("retry_count", 0x38d, 3, |c, v| c.retry_cnt = Some(byte(v))),
    field("rnr_retry", 0x390, 3, |c, v| c.rnr_retry = Some(byte(v))),
    field("cur_rnr_retry", 0x395, 3, |c, v| c.rnr_retry_now = Some(byte(v))),
    field("cur_retry_count", 0x398, 3, |c, v| c.retry_now = Some(byte(v))),
    field("next_send_psn", 0x3c8, 24, |c, v| c.next_send_psn = Some(v)),
    field("last_acked_psn", 0x448, 24, |c, v| c.acked_psn = Some(v)),
    field("next_rcv_psn", 0x4a8, 24, |c, v| c.next_recv_psn = Some(v)),
];

/// `ads.rgid_rip`, in bytes.
const RGID: usize = 0x140 / 8;
const RQ_TYPE: Field = field("rq_type", 0x565, 3, |_, _| {});
const HW_SQ: Field = field("hw_sq_wqebb_counter", 0x5a0, 16, |_, _| {});
const SW_SQ: Field = field("sw_sq_wqebb_counter", 0x5b0, 16, |_, _| {});
const HW_RQ: Field = field("hw_rq_counter", 0x5c0, 32, |_, _| {});
const SW_RQ: Field = field("sw_rq_counter", 0x5e0, 32, |_, _| {});

/// The contexts that the dump may contain, most likely first, each with the number of its place.
pub(super) fn contexts(dump: &[u8], lqpn: u32) -> Vec<(usize, QpContext)> {
    let Some(payload) = payload(dump, lqpn) else { return Vec::new() };
    let at_place = |(place, at): (usize, &usize)| Some((place, context(payload.get(*at..at + LEN)?)));
    PLACES.iter().enumerate().filter_map(at_place).collect()
}

/// The payload of the first segment about queue pair `lqpn`.
fn payload(dump: &[u8], lqpn: u32) -> Option<&[u8]> {
    let mut rest = dump;
    loop {
        let header = read(rest, 0, 32)?;
        let (words, kind) = ((header >> 16) as usize, (header & 0xffff) as u16);
        // Its length includes the header.
        let length = words.checked_mul(4).filter(|length| *length >= 4)?;
        let segment = rest.get(..length)?;
        if kind < FIRST_OWN_TYPE && read(segment, 64, 32) == Some(lqpn) {
            return segment.get(SEGMENT_HEADER..);
        }
        rest = rest.get(length..)?;
    }
}

pub(super) fn context(qpc: &[u8]) -> QpContext {
    let value = |field: &Field| read(qpc, field.at, field.bits);
    let mut context = QpContext::default();
    fill(&mut context, FIELDS, value);
    context.dst = qpc.get(RGID..).and_then(<[u8]>::first_chunk).and_then(|gid| address(*gid));
    // Without a peer's address there is no path: index and label are 0 without meaning it.
    let has_path = context.dst.is_some();
    context.src_index = context.src_index.filter(|_| has_path);
    context.flow_label = context.flow_label.filter(|_| has_path);
    context.unsent =
        value(&SW_SQ).zip(value(&HW_SQ)).map(|(posted, begun)| posted.wrapping_sub(begun) & 0xffff);
    context.used = value(&HW_SQ).map(|begun| begun != 0);
    if value(&RQ_TYPE) == Some(OWN_RQ) {
        context.received_wqes = value(&HW_RQ);
        context.posted_receives = value(&SW_RQ).zip(value(&HW_RQ)).map(|(sw, hw)| sw.wrapping_sub(hw));
    }
    context
}

/// `enum mlx5_qp_state`.
fn state(value: u32) -> Option<&'static str> {
    Some(match value {
        0 => "RESET",
        1 => "INIT",
        2 => "RTR",
        3 => "RTS",
        4 => "SQE",
        5 | 7 => "SQD",
        6 => "ERR",
        _ => return None,
    })
}

/// Reads `bits` bits at bit `at`; no field of these structures crosses a 32-bit word.
fn read(bytes: &[u8], at: u32, bits: u32) -> Option<u32> {
    let word = u32::from_be_bytes(*bytes.get((at / 32 * 4) as usize..)?.first_chunk()?);
    let below = 32_u32.checked_sub(at % 32 + bits)?;
    Some(word.checked_shr(below)? & u32::MAX.checked_shr(32_u32.checked_sub(bits)?)?)
}
