//! `hns_roce`: `hns_roce_fill_res_qp_entry_raw` of drivers/infiniband/hw/hns/hns_roce_restrack.c.
//!
//! It is `struct hns_roce_v2_qp_context` (in newer kernels followed by the congestion context, whose fields are not
//! public and stay unread); the first kernels with it returned a list of 34 selected fields. Source: Linux 6.12,
//! drivers/infiniband/hw/hns/hns_roce_hw_v2.h (`QPC_*`: highest and lowest bit); which of them are set to the first
//! PSN and to the retry counts: `hns_roce_v2_modify_qp` and its helpers in hns_roce_hw_v2.c. Little-endian words; bit
//! 0 is the lowest of the first. `QPC_AT` stays unread: on HIP08 the driver adds 10 to the timeout's exponent
//! (`check_qp_timeout_cfg_range`), and nothing in the context distinguishes the two kinds.

use super::fields::{Field, QpContext, address, byte, field, fill, mtu};

/// Bytes of the context without its extension.
const LEN: usize = 256;
/// Length of the list in bytes.
const LIST_LEN: usize = 34 * 4;

const FIELDS: &[Field] = &[
    field("QPC_TC", 168, 8, |c, v| c.dscp = Some(byte(v) >> 2)),
    field("QPC_MTU", 188, 4, |c, v| c.path_mtu = mtu(v)),
    field("QPC_SL", 212, 4, |c, v| c.priority = Some(byte(v) & 7)),
    field("QPC_UDPSPN", 400, 16, |c, v| c.udp_port = u16::try_from(v).ok().filter(|port| *port != 0)),
    field("QPC_DQPN", 416, 24, |c, v| c.rqpn = Some(v)),
    field("QPC_QP_ST", 477, 3, |c, v| c.state = state(v)),
    field("QPC_RX_REQ_EPSN", 840, 24, |c, v| c.next_recv_psn = Some(v)),
    field("QPC_SQ_MAX_PSN", 1544, 24, |c, v| c.next_send_psn = Some(v)),
    field("QPC_RETRY_NUM_INIT", 1688, 3, |c, v| c.retry_cnt = Some(byte(v))),
    field("QPC_RETRY_CNT", 1693, 3, |c, v| c.retry_now = Some(byte(v))),
    field("QPC_RX_ACK_EPSN", 1920, 24, |c, v| c.acked_psn = Some(v)),
    field("QPC_RNR_NUM_INIT", 1944, 3, |c, v| c.rnr_retry = Some(byte(v))),
    field("QPC_RNR_CNT", 1947, 3, |c, v| c.rnr_retry_now = Some(byte(v))),
];

/// Offset of `dgid` in the structure, in bytes.
const DGID: usize = 28;
const SQ_PRODUCER: Field = field("QPC_SQ_PRODUCER_IDX", 1248, 16, |_, _| {});
const SQ_CONSUMER: Field = field("QPC_SQ_CONSUMER_IDX", 1264, 16, |_, _| {});
const SRQ_EN: Field = field("QPC_SRQ_EN", 600, 1, |_, _| {});
const RQ_PRODUCER: Field = field("QPC_RQ_PRODUCER_IDX", 640, 16, |_, _| {});
const RQ_CONSUMER: Field = field("QPC_RQ_CONSUMER_IDX", 656, 16, |_, _| {});

/// The list: `at` is the index in it. It has no acknowledged PSN and no peer.
const LIST: &[Field] = &[
    field("QPC_QP_ST", 0, 32, |c, v| c.state = state(v)),
    field("QPC_RETRY_NUM_INIT", 22, 32, |c, v| c.retry_cnt = Some(byte(v))),
    field("QPC_RETRY_CNT", 23, 32, |c, v| c.retry_now = Some(byte(v))),
    field("QPC_SQ_MAX_PSN", 25, 32, |c, v| c.next_send_psn = Some(v)),
];
const LIST_SRQ_EN: u32 = 3;
const LIST_SQ: (u32, u32) = (8, 9);
const LIST_RQ: (u32, u32) = (11, 12);

/// The context in the driver's response, whose length shows its place.
pub(super) fn contexts(bytes: &[u8]) -> Vec<(usize, QpContext)> {
    let mut context = QpContext { counts_down: Some(true), ..QpContext::default() };
    if bytes.len() >= LEN {
        let value = |field: &Field| read(bytes, field);
        fill(&mut context, FIELDS, value);
        // The driver sets both to the first PSN: the next one expected to be acknowledged.
        context.idle_distance = Some(0);
        context.dst = bytes.get(DGID..).and_then(<[u8]>::first_chunk).and_then(|gid| address(*gid));
        let own_rq = value(&SRQ_EN) == Some(0);
        queues(&mut context, own_rq, [&SQ_PRODUCER, &SQ_CONSUMER, &RQ_PRODUCER, &RQ_CONSUMER].map(value));
    } else if bytes.len() == LIST_LEN {
        let value =
            |at: u32| bytes.get((at * 4) as usize..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        fill(&mut context, LIST, |field| value(field.at));
        let own_rq = value(LIST_SRQ_EN) == Some(0);
        queues(&mut context, own_rq, [LIST_SQ.0, LIST_SQ.1, LIST_RQ.0, LIST_RQ.1].map(value));
    } else {
        return Vec::new();
    }
    vec![(0, context)]
}

/// Producer and consumer indices of the send and the receive queue, 16 bits each.
fn queues(context: &mut QpContext, own_rq: bool, [sent, begun, posted, taken]: [Option<u32>; 4]) {
    let ahead = |(producer, consumer): (u32, u32)| producer.wrapping_sub(consumer) & 0xffff;
    context.unsent = sent.zip(begun).map(ahead);
    context.used = begun.map(|begun| begun != 0);
    if own_rq {
        context.received_wqes = taken;
        context.posted_receives = posted.zip(taken).map(ahead);
    }
}

/// `enum hns_roce_qp_state`, of which the first four and the error state equal those of the verbs.
fn state(value: u32) -> Option<&'static str> {
    Some(match value {
        0 => "RESET",
        1 => "INIT",
        2 => "RTR",
        3 => "RTS",
        6 => "ERR",
        _ => return None,
    })
}

fn read(bytes: &[u8], field: &Field) -> Option<u32> {
    let word = u32::from_le_bytes(*bytes.get((field.at / 32 * 4) as usize..)?.first_chunk()?);
    Some(word.checked_shr(field.at % 32)? & u32::MAX.checked_shr(32_u32.checked_sub(field.bits)?)?)
}
