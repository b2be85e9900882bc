use super::*;

fn qp_answer() -> Vec<u8> {
    Request::new(0, 0, &[])
        .attr_u32(DEV_INDEX, 0)
        .attr_text(DEV_NAME, "mlx5_0")
        .nest(RES_QP, |r| {
            r.nest(RES_QP_ENTRY, |r| {
                r.attr_u32(PORT_INDEX, 1)
                    .attr_u32(RES_LQPN, 0x1a2)
                    .attr_u32(RES_RQPN, 0x3b4)
                    .attr_u32(RES_RQ_PSN, 7)
                    .attr_u32(RES_SQ_PSN, 9)
                    .attr(RES_TYPE, &[2])
                    .attr(RES_STATE, &[3])
                    .attr_u32(RES_PID, 4711)
            })
            .nest(RES_QP_ENTRY, |r| {
                r.attr_u32(RES_LQPN, 1)
                    .attr_u32(RES_RQPN, 0)
                    .attr(RES_TYPE, &[1])
                    .attr(RES_STATE, &[99])
                    .attr_text(RES_KERN_NAME, "ib_core")
            })
            .nest(RES_QP_ENTRY, |r| r.attr_u32(RES_PID, 1))
        })
        .payload()
}

#[test]
fn queue_pairs_are_read() {
    let qps = queue_pairs(&qp_answer());
    assert_eq!(qps.len(), 2, "an entry without a number is none");
    assert_eq!(
        qps[0],
        QueuePair {
            device: "mlx5_0".into(),
            port: Some(1),
            lqpn: 0x1a2,
            rqpn: Some(0x3b4),
            kind: Some("RC"),
            state: Some("RTS"),
            rq_psn: Some(7),
            sq_psn: Some(9),
            pid: Some(4711),
            kernel_name: None,
            subtype: None,
        }
    );
    assert_eq!((qps[1].kind, qps[1].state, qps[1].rqpn, qps[1].pid), (Some("GSI"), None, None, None));
    assert_eq!(qps[1].kernel_name.as_deref(), Some("ib_core"));
}

#[test]
fn counters_and_options_are_read() {
    let payload = Request::new(0, 0, &[])
        .nest(STAT_HWCOUNTERS, |r| {
            r.nest(81, |r| {
                r.attr_text(STAT_HWCOUNTER_ENTRY_NAME, "out_of_sequence")
                    .attr(STAT_HWCOUNTER_ENTRY_VALUE, &17u64.to_ne_bytes())
            })
            .nest(81, |r| {
                r.attr_text(STAT_HWCOUNTER_ENTRY_NAME, "cc_rx_ce_pkts").attr(STAT_HWCOUNTER_DYNAMIC, &[0])
            })
        })
        .attr_u32(STAT_MODE, 1)
        .payload();
    assert_eq!(counters(&payload), [("out_of_sequence".to_owned(), 17)]);
    assert_eq!(optional_counters(&payload), [("cc_rx_ce_pkts".to_owned(), false)]);
    assert_eq!(binding_mode(&payload), Some("auto"));
}

#[test]
fn counters_of_queue_pairs_are_read() {
    let payload = Request::new(0, 0, &[])
        .attr_text(DEV_NAME, "mlx5_0")
        .nest(STAT_COUNTER, |r| {
            r.nest(STAT_COUNTER_ENTRY, |r| {
                r.attr_u32(PORT_INDEX, 1)
                    .attr_u32(STAT_COUNTER_ID, 4)
                    .nest(RES_QP, |r| r.nest(RES_QP_ENTRY, |r| r.attr_u32(RES_LQPN, 178)))
                    .nest(STAT_HWCOUNTERS, |r| {
                        r.nest(81, |r| {
                            r.attr_text(STAT_HWCOUNTER_ENTRY_NAME, "cc_rx_ce_pkts")
                                .attr(STAT_HWCOUNTER_ENTRY_VALUE, &5u64.to_ne_bytes())
                        })
                    })
            })
        })
        .payload();
    let read = qp_counters(&payload);
    assert_eq!((read[0].id, read[0].lqpns.as_slice()), (4, [178].as_slice()));
    assert_eq!(read[0].counters, [("cc_rx_ce_pkts".to_owned(), 5)]);
}

#[test]
fn no_cut_or_changed_answer_makes_it_panic() {
    let whole = qp_answer();
    for end in 0..whole.len() {
        assert!(queue_pairs(&whole[..end]).len() <= 2);
        let _ = (counters(&whole[..end]), Device::parse(&whole[..end]));
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        let _ = (queue_pairs(&changed), qp_counters(&changed), optional_counters(&changed));
    }
}

#[test]
fn requests_name_their_object() {
    let attrs = Query::BindingMode(3, 1).request().payload();
    let attrs = Attrs::new(&attrs);
    assert_eq!(
        (attrs.u32(DEV_INDEX), attrs.u32(PORT_INDEX), attrs.u32(STAT_RES)),
        (Some(3), Some(1), Some(19))
    );
    assert!(attrs.u32(STAT_MODE).is_some(), "without it the kernel answers EINVAL");
    assert!(Query::QpCounters(3).is_dump() && !Query::PortCounters(3, 1).is_dump());
    assert_eq!(Query::Devices.kind(), 0x1401);
}

#[test]
fn the_context_of_a_queue_pair_is_asked_for_with_its_port() {
    let query = Query::QpContext(3, 1, 0x1a2);
    let payload = query.request().payload();
    let attrs = Attrs::new(&payload);
    assert_eq!((attrs.u32(1), attrs.u32(3), attrs.u32(21)), (Some(3), Some(1), Some(0x1a2)));
    // RDMA_NLDEV_CMD_RES_QP_GET_RAW and RDMA_NLDEV_ATTR_RES_RAW of rdma/rdma_netlink.h.
    assert_eq!((query.kind() & 0xff, query.is_dump()), (19, false));
    let answer = Request::new(0, 0, &[]).attr_text(2, "mlx5_0").attr(85, &[1, 2, 3]).payload();
    assert_eq!(qp_context(&answer), Some(vec![1, 2, 3]));
    assert_eq!(qp_context(&[]), None);
}
