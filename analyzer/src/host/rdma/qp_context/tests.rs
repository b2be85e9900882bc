//! Fixtures follow the drivers' structures member by member, in the order and with the widths of the sources: offsets
//! are sums of widths, independent of the decoders' tables.

use super::{Place, QpContext, Undecodable, decode_query, is_decoded};
use rocescope_common::random::Random;

/// An answer that is the first of its device.
fn decode(driver: &str, bytes: &[u8], lqpn: u32, rqpn: Option<u32>) -> Result<QpContext, Undecodable> {
    super::decode(driver, bytes, lqpn, rqpn, &mut Place::default())
}

/// Members of `mlx5_ifc_ads_bits` (Linux 6.12), width in bits.
const ADS: &[(&str, usize)] = &[
    ("fl", 1),
    ("free_ar", 1),
    ("-", 0xe),
    ("pkey_index", 0x10),
    ("plane_index", 8),
    ("grh", 1),
    ("mlid", 7),
    ("rlid", 0x10),
    ("ack_timeout", 5),
    ("-", 3),
    ("src_addr_index", 8),
    ("-", 4),
    ("stat_rate", 4),
    ("hop_limit", 8),
    ("-", 4),
    ("tclass", 8),
    ("flow_label", 0x14),
    ("rgid_0", 32),
    ("rgid_1", 32),
    ("rgid_2", 32),
    ("rgid_3", 32),
    ("-", 4),
    ("f_dscp", 1),
    ("f_ecn", 1),
    ("-", 1),
    ("f_eth_prio", 1),
    ("ecn", 2),
    ("dscp", 6),
    ("udp_sport", 0x10),
    ("dei_cfi", 1),
    ("eth_prio", 3),
    ("sl", 4),
    ("vhca_port_num", 8),
    ("rmac_47_32", 0x10),
    ("rmac_31_0", 0x20),
];

/// Members of `mlx5_ifc_qpc_bits` before and after the two address paths.
const BEFORE: &[(&str, usize)] = &[
    ("state", 4),
    ("lag_tx_port_affinity", 4),
    ("st", 8),
    ("-", 2),
    ("isolate_vl_tc", 1),
    ("pm_state", 2),
    ("-", 1),
    ("req_e2e_credit_mode", 2),
    ("offload_type", 4),
    ("end_padding_mode", 2),
    ("-", 2),
    ("wq_signature", 1),
    ("block_lb_mc", 1),
    ("atomic_like_write_en", 1),
    ("latency_sensitive", 1),
    ("-", 1),
    ("drain_sigerr", 1),
    ("-", 2),
    ("pd", 0x18),
    ("mtu", 3),
    ("log_msg_max", 5),
    ("-", 1),
    ("log_rq_size", 4),
    ("log_rq_stride", 3),
    ("no_sq", 1),
    ("log_sq_size", 4),
    ("-", 1),
    ("retry_mode", 2),
    ("ts_format", 2),
    ("-", 1),
    ("rlky", 1),
    ("ulp_stateless_offload_mode", 4),
    ("counter_set_id", 8),
    ("uar_page", 0x18),
    ("-", 8),
    ("user_index", 0x18),
    ("-", 3),
    ("log_page_size", 5),
    ("remote_qpn", 0x18),
];
const AFTER: &[(&str, usize)] = &[
    ("log_ack_req_freq", 4),
    ("-", 4),
    ("log_sra_max", 3),
    ("-", 2),
    ("retry_count", 3),
    ("rnr_retry", 3),
    ("-", 1),
    ("fre", 1),
    ("cur_rnr_retry", 3),
    ("cur_retry_count", 3),
    ("-", 5),
    ("-", 0x20),
    ("-", 8),
    ("next_send_psn", 0x18),
    ("-", 3),
    ("log_num_dci_stream_channels", 5),
    ("cqn_snd", 0x18),
    ("-", 3),
    ("log_num_dci_errored_streams", 5),
    ("deth_sqpn", 0x18),
    ("-", 0x20),
    ("-", 8),
    ("last_acked_psn", 0x18),
    ("-", 8),
    ("ssn", 0x18),
    ("-", 0x20),
    ("-", 3),
    ("min_rnr_nak", 5),
    ("next_rcv_psn", 0x18),
    ("-", 8),
    ("xrcd", 0x18),
    ("-", 8),
    ("cqn_rcv", 0x18),
    ("dbr_addr_h", 0x20),
    ("dbr_addr_l", 0x20),
    ("q_key", 0x20),
    ("-", 5),
    ("rq_type", 3),
    ("srqn_rmpn_xrqn", 0x18),
    ("-", 8),
    ("rmsn", 0x18),
    ("hw_sq_wqebb_counter", 0x10),
    ("sw_sq_wqebb_counter", 0x10),
    ("hw_rq_counter", 0x20),
    ("sw_rq_counter", 0x20),
    ("-", 0x20),
    ("-", 0xf),
    ("cgs", 1),
    ("cs_req", 8),
    ("cs_res", 8),
    ("dc_access_key_h", 0x20),
    ("dc_access_key_l", 0x20),
    ("-", 3),
    ("dbr_umem_valid", 1),
    ("-", 0xbc),
];

/// A structure with these members, most significant bit first, as `MLX5_SET` writes it.
fn packed(members: &[(String, usize)], values: &[(&str, u32)]) -> Vec<u8> {
    let mut bits = Vec::new();
    for (name, width) in members {
        let value = values.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value);
        bits.extend((0..*width).rev().map(|bit| bit < 32 && value >> bit & 1 == 1));
    }
    for (name, _) in values {
        assert!(members.iter().any(|(known, _)| known == name), "no member {name}");
    }
    bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect()
}

fn qpc(values: &[(&str, u32)]) -> Vec<u8> {
    let path =
        |prefix: &str| ADS.iter().map(move |(name, width)| (format!("{prefix}{name}"), *width)).collect();
    let plain = |members: &[(&str, usize)]| -> Vec<(String, usize)> {
        members.iter().map(|(name, width)| ((*name).to_owned(), *width)).collect()
    };
    let (first, second): (Vec<_>, Vec<_>) = (path("ads."), path("secondary."));
    let bytes = packed(&[plain(BEFORE), first, second, plain(AFTER)].concat(), values);
    assert_eq!(bytes.len(), 232, "the sources say 0x740 bits");
    bytes
}

/// A segment of a resource dump.
fn segment(kind: u16, index: u32, payload: &[u8]) -> Vec<u8> {
    let words = u16::try_from((16 + payload.len()).div_ceil(4)).unwrap();
    [&words.to_be_bytes()[..], &kind.to_be_bytes(), &[0; 4], &index.to_be_bytes(), &[0; 4], payload].concat()
}

/// A dump in the firmware's format: info, command, the queue pair, end.
pub(crate) fn mlx5_dump(lqpn: u32, values: &[(&str, u32)]) -> Vec<u8> {
    // status, syndrome, reserved, opt_param_mask, ece.
    let out = [&[0; 24][..], &qpc(values), &[0; 16]].concat();
    dump(&segment(0x1000, lqpn, &out))
}

/// The firmware's response to QUERY_QP.
pub(crate) fn mlx5_query(values: &[(&str, u32)]) -> Vec<u8> {
    [&[0; 24][..], &qpc(values), &[0; 16]].concat()
}

#[test]
fn a_query_s_answer_is_read_and_compared_with_the_peer() {
    let answer = mlx5_query(SET);
    assert_eq!(answer.len(), 272);
    let context = decode_query(&answer, Some(0x3b7)).unwrap();
    assert_eq!((context.state, context.rqpn, context.dscp), (Some("RTS"), Some(0x3b7), Some(26)));
    assert_eq!(decode_query(&answer, None).as_ref(), Ok(&context));
    assert_eq!(decode_query(&answer, Some(5)), Err(Undecodable::Disagrees));
    for len in 0..256 {
        assert_eq!(decode_query(&answer[..len], None), Err(Undecodable::Incomplete), "{len}");
    }
}

fn dump(resource: &[u8]) -> Vec<u8> {
    let end = [0, 1, 0xff, 0xfb];
    [&segment(0xfffe, 0, &[])[..], &segment(0xfffa, 0, &[0; 4]), resource, &end].concat()
}

const SET: &[(&str, u32)] = &[
    ("state", 3),
    ("lag_tx_port_affinity", 2),
    ("mtu", 5),
    ("remote_qpn", 0x3b7),
    ("ads.free_ar", 1),
    ("ads.plane_index", 3),
    ("ads.ack_timeout", 20),
    ("ads.src_addr_index", 3),
    ("ads.flow_label", 0xa_bcde),
    ("ads.rgid_2", 0xffff),
    ("ads.rgid_3", 0x0a00_0002),
    ("ads.dscp", 26),
    ("ads.udp_sport", 0xc1ed),
    ("ads.eth_prio", 5),
    ("retry_count", 7),
    ("rnr_retry", 6),
    ("cur_rnr_retry", 4),
    ("cur_retry_count", 2),
    ("next_send_psn", 0x00_0010),
    ("last_acked_psn", 0xff_fff0),
    ("next_rcv_psn", 0x12_3456),
    ("rq_type", 0),
    ("hw_sq_wqebb_counter", 0xfffe),
    ("sw_sq_wqebb_counter", 3),
    ("hw_rq_counter", 1_000),
    ("sw_rq_counter", 1_016),
];

#[test]
fn every_field_of_mlx5_is_read_from_its_place() {
    let context = decode("mlx5_ib", &mlx5_dump(0x12a, SET), 0x12a, Some(0x3b7)).unwrap();
    let expected = QpContext {
        state: Some("RTS"),
        rqpn: Some(0x3b7),
        dst: "10.0.0.2".parse().ok(),
        src_index: Some(3),
        udp_port: Some(0xc1ed),
        flow_label: Some(0xa_bcde),
        dscp: Some(26),
        priority: Some(5),
        path_mtu: Some(4_096),
        timeout: Some(20),
        retry_cnt: Some(7),
        rnr_retry: Some(6),
        retry_now: Some(2),
        rnr_retry_now: Some(4),
        next_send_psn: Some(0x10),
        acked_psn: Some(0xff_fff0),
        next_recv_psn: Some(0x12_3456),
        used: Some(true),
        unsent: Some(5),
        received_wqes: Some(1_000),
        posted_receives: Some(16),
        adaptive_routing: Some(true),
        plane: Some(3),
        bond_port: Some(2),
        idle_distance: None,
        counts_down: None,
    };
    assert_eq!(context, expected);
    // Only the context, without the command's output around it.
    let bare = dump(&segment(0x1000, 0x12a, &qpc(SET)));
    assert_eq!(decode("mlx5_ib", &bare, 0x12a, Some(0x3b7)).as_ref(), Ok(&expected));
}

#[test]
fn fields_that_are_not_in_use_are_unknown() {
    let shared = [("remote_qpn", 9), ("rq_type", 1), ("mtu", 7), ("state", 15)];
    let context = decode("mlx5_ib", &mlx5_dump(1, &shared), 1, Some(9)).unwrap();
    assert_eq!((context.received_wqes, context.posted_receives), (None, None), "a shared receive queue");
    assert_eq!((context.path_mtu, context.state, context.dst), (None, None, None));
    assert_eq!((context.src_index, context.flow_label), (None, None), "without a path");
    assert_eq!((context.plane, context.bond_port, context.udp_port), (None, None, None));
}

#[test]
fn bytes_that_contradict_the_kernel_are_no_context() {
    let dump = mlx5_dump(0x12a, SET);
    assert_eq!(decode("mlx5_ib", &dump, 0x12a, Some(0x3b8)), Err(Undecodable::Disagrees));
    assert_eq!(decode("mlx5_ib", &dump, 0x12b, Some(0x3b7)), Err(Undecodable::Incomplete), "another number");
    assert_eq!(decode("bnxt_re", &[0; 1_088], 1, Some(2)), Err(Undecodable::NoDefinition));
    for driver in ["mlx5_ib", "hns_roce"] {
        assert!(is_decoded(driver));
        assert_eq!(decode(driver, &[], 1, None), Err(Undecodable::Incomplete));
    }
    assert!(!is_decoded("rxe") && !is_decoded("bnxt_re"));
}

/// A queue pair of XRC, whose peer the kernel does not name.
#[test]
fn a_context_without_a_peer_is_read_where_another_of_the_device_was() {
    let mut place = Place::default();
    let whole = mlx5_dump(0x12a, SET);
    let bare = dump(&segment(0x1000, 0x12a, &[&qpc(SET)[..], &[0; 24]].concat()));
    for (bytes, next) in [(&whole, Some(0x10)), (&bare, Some(0x10))] {
        let mut of = |rqpn| super::decode("mlx5_ib", bytes, 0x12a, rqpn, &mut place);
        assert_eq!(of(Some(0x3b8)), Err(Undecodable::Disagrees), "which confirms nothing");
        let checked = of(Some(0x3b7)).unwrap();
        assert_eq!((checked.next_send_psn, of(None)), (next, Ok(checked)));
    }
    assert_eq!(decode("mlx5_ib", &whole, 0x12a, None), Err(Undecodable::Unconfirmed));
    // The list of the first kernels names no peer, and its length shows what it is.
    assert_eq!(decode("hns_roce", &hns(HNS, 256), 1, None), Err(Undecodable::Unconfirmed));
    assert!(decode("hns_roce", &[0; 136], 1, None).is_ok());
}

/// `hns_roce_v2_qp_context` with these fields, given as in hns_roce_hw_v2.h: highest and lowest bit.
fn hns(values: &[(usize, usize, u32)], length: usize) -> Vec<u8> {
    let mut bytes = vec![0_u8; length];
    for (high, low, value) in values {
        for bit in *low..=*high {
            let set = u8::from(value >> (bit - low) & 1 == 1);
            bytes[bit / 8] |= set << (bit % 8);
        }
    }
    bytes
}

const HNS: &[(usize, usize, u32)] = &[
    (175, 168, 106),    // QPC_TC
    (191, 188, 3),      // QPC_MTU
    (215, 212, 3),      // QPC_SL
    (223, 219, 17),     // QPC_AT, with another meaning on HIP08
    (415, 400, 50_000), // QPC_UDPSPN
    (439, 416, 77),     // QPC_DQPN
    (479, 477, 3),      // QPC_QP_ST
    (655, 640, 2),      // QPC_RQ_PRODUCER_IDX
    (671, 656, 0xffff), // QPC_RQ_CONSUMER_IDX
    (863, 840, 5),      // QPC_RX_REQ_EPSN
    (1263, 1248, 12),   // QPC_SQ_PRODUCER_IDX
    (1279, 1264, 8),    // QPC_SQ_CONSUMER_IDX
    (1567, 1544, 900),  // QPC_SQ_MAX_PSN
    (1690, 1688, 7),    // QPC_RETRY_NUM_INIT
    (1695, 1693, 6),    // QPC_RETRY_CNT
    (1943, 1920, 890),  // QPC_RX_ACK_EPSN
    (1946, 1944, 5),    // QPC_RNR_NUM_INIT
    (1949, 1947, 4),    // QPC_RNR_CNT
];

#[test]
fn contexts_of_hns_are_read_in_each_form() {
    for length in [256, 512, 576] {
        let context = decode("hns_roce", &hns(HNS, length), 1, Some(77)).unwrap();
        assert_eq!((context.state, context.dscp, context.path_mtu), (Some("RTS"), Some(26), Some(1_024)));
        assert_eq!((context.priority, context.timeout, context.udp_port), (Some(3), None, Some(50_000)));
        assert_eq!(
            (context.next_send_psn, context.acked_psn, context.next_recv_psn),
            (Some(900), Some(890), Some(5))
        );
        assert_eq!((context.retry_cnt, context.retry_now), (Some(7), Some(6)));
        assert_eq!((context.rnr_retry, context.rnr_retry_now), (Some(5), Some(4)));
        assert_eq!(
            (context.unsent, context.posted_receives, context.received_wqes),
            (Some(4), Some(3), Some(0xffff))
        );
        assert_eq!((context.idle_distance, context.counts_down), (Some(0), Some(true)));
    }
    assert_eq!(decode("hns_roce", &hns(HNS, 512), 1, Some(78)), Err(Undecodable::Disagrees));
    // The order of `data[offset++]` in the first version of the driver's function.
    let mut list = [0_u32; 34];
    for (at, value) in [(0, 3), (8, 12), (9, 8), (11, 2), (12, 0xffff), (22, 7), (23, 6), (25, 900)] {
        list[at] = value;
    }
    let bytes: Vec<u8> = list.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let context = decode("hns_roce", &bytes, 1, Some(77)).unwrap();
    assert_eq!((context.state, context.retry_cnt, context.retry_now), (Some("RTS"), Some(7), Some(6)));
    assert_eq!(
        (context.unsent, context.posted_receives, context.next_send_psn),
        (Some(4), Some(3), Some(900))
    );
    assert_eq!((context.rqpn, context.acked_psn), (None, None), "not in the list");
}

#[test]
fn no_bytes_make_a_decoder_fail() {
    let whole = mlx5_dump(0x12a, SET);
    for end in 0..=whole.len() {
        let cut = decode("mlx5_ib", &whole[..end], 0x12a, Some(0x3b7));
        assert!(cut.is_ok() || cut == Err(Undecodable::Incomplete), "{end} bytes: {cut:?}");
    }
    for end in 0..256 {
        let cut = decode("hns_roce", &hns(HNS, 576)[..end], 1, Some(77));
        assert!(end == 136 || cut == Err(Undecodable::Incomplete), "{end} bytes: {cut:?}");
    }
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let length = random.index(1_100);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        if random.one_in(2) && length > 16 {
            // Lengths that lead to further segments: pure noise ends at the first segment.
            bytes[..4].copy_from_slice(&[0, random.byte() % 12, 0, random.byte()]);
        }
        for driver in ["mlx5_ib", "hns_roce", "bnxt_re"] {
            let _ = decode(driver, &bytes, random.below_u32(4), random.one_in(2).then_some(7));
        }
    }
}
