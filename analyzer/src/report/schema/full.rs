//! A report in which every field is known.
//!
//! The structs are written out in full: a new field must get a value here.

use std::net::Ipv4Addr;

use crate::analysis::fixtures::everything;
use crate::analysis::{
    CeOverTime, Cnp, Communicator, CompletionByOperation, Coverage, DelayChange, DelayPoint, Device,
    DeviceQp, DeviceQpCounters, EcnOverTime, Episodes, Field, FieldChange, Flow, FlowId, Icrc, LastNaks,
    Latency, LatencyByClass, LatencyRange, Link, Loss, LostLarge, MonotonicTimes, Nccl, NcclEvent,
    NcclProcess, NcclRank, Options, Pause, PostOpcode, PostSampling, PostSize, QpContexts, QpControl,
    QpEvent, QpLives, QpPosts, QpSource, QpSources, RankQp, RankState, RawContext, Recorded, Spray, TapFlow,
    Unfollowed, Untimed,
};
use crate::ethernet::lldp::{App, Dialect, Ets, Neighbour, Pfc};
use crate::findings::{End, Episode, Evidence, Finding, Hop, Impact, Place, Severity, Step};
use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::icrc::{Checked, IcrcErrors};
use crate::metrics::marking::Marked;
use crate::report::Report;
use crate::sample::Direction;

/// A report in which every field has a value.
pub(crate) fn full() -> Report {
    let mut sample = everything();
    sample.capture_drops = Some(1);
    sample.metrics.marking = Some(vec![[Marked { data_packets: 1, ..Marked::default() }; 64]]);
    let rails = ["eth0", "eth1"].map(|link| (link.to_owned(), format!("rail of {link}")));
    let options =
        Options { imbalance_all_links: true, ecmp: Some(4), rails: rails.into(), ..Options::default() };
    let mut report = Report::build(&sample, &options.into());
    crate::analysis::traffic::example(&mut report);
    let facts = &mut report.facts;
    facts.steps_absent = Some("no data");
    facts.source.filter = Some("qp 17".into());
    facts.source.recording = Some(Recorded { interval_ns: Some(1) });
    let retired = &mut facts.totals.retired;
    (retired.lost, retired.retransmitted, retired.timeouts) = (Some(0), Some(0), Some(0));
    let lost = &mut facts.totals.lost;
    (lost.ecn_untracked, lost.pause_untracked, lost.bins_dropped) = (Some(1), Some(1), Some(1));
    let id = FlowId::of(&facts.flows[0]);
    fill_flow(&mut facts.flows[0], &id);
    fill_loss(&mut facts.flows[0]);
    fill_link(&mut facts.links[0]);
    let duplicates = Some(Box::new(DuplicateCounts { packets: 1, ..DuplicateCounts::default() }));
    (facts.totals.duplicates, facts.links[0].duplicates, facts.flows[0].duplicates) =
        (duplicates.clone(), duplicates.clone(), duplicates);
    facts.taps = vec![tap_flow(&id)];
    facts.devices.push(device());
    facts.qp_lives = Some(qp_lives());
    facts.nccl = Some(nccl());
    facts.qp_context = Some(QpContexts {
        how: Some("RES_QP_GET_RAW"),
        queried: 1,
        of: 2,
        at_most: 50,
        answered: 3,
        failed: 1,
        mean_ns: Some(1),
        longest_ns: Some(1),
        refused: vec!["rxe0: no context".into()],
        undecoded: vec![RawContext {
            device: "bnxt_re0".into(),
            lqpn: 17,
            bytes: 1_088,
            reason: "its layout has no public definition".into(),
        }],
    });
    facts.qp_paths = Some(crate::analysis::qp_paths_example(facts.ecmp.clone()));
    facts.post_sampling = Some(post_sampling());
    facts.coverage = vec![Coverage {
        device: "mlx5_0".into(),
        port: 1,
        link: "eth0".into(),
        direction: "ingress",
        seen_packets: 1,
        counted_packets: Some(2),
        source: Some("ethtool".into()),
        ratio: Some(0.5),
        why: Some("2 packets dropped".into()),
    }];
    report.findings.push(finding(id));
    report
}

fn fill_flow(flow: &mut Flow, id: &FlowId) {
    let latency = Some(Latency { count: 1, p50: 1, p99: 1, p999: 1.into(), max: 1 });
    flow.path_mtu = Some(4096);
    (flow.service_level, flow.virtual_lane) = (Some(1), Some(0));
    flow.latency_ns = latency.map(Box::new);
    flow.latency_range_ns =
        Some(Box::new(LatencyRange { p50_least: 1, p50_most: 1, p99_least: 1, p99_most: 1 }));
    flow.latency_by_class = Some(Box::new(LatencyByClass {
        write_send: latency.map(Box::new),
        read: latency.map(Box::new),
        atomic: latency.map(Box::new),
    }));
    flow.message_completion_ns = Some(Box::new(CompletionByOperation {
        write: latency.map(Box::new),
        send: latency.map(Box::new),
        read: latency.map(Box::new),
    }));
    flow.latency_unpaired = Some(1).into();
    flow.latency_untimed = Some(Untimed { ambiguous: 1, ring_full: 1, untracked: 1, outstanding: 1 }).into();
    flow.pause_stall_ns = Some(1).into();
    (flow.pid, flow.comm, flow.pod) = (Some(1), Some("train".into()), Some("trainer-0".into()));
    flow.ce_over_time = Some(Box::new(CeOverTime { start_ns: 1, bin_ns: 1, capable: vec![1], ce: vec![1] }));
    flow.cnp = Some(Box::new(Cnp {
        answers: Some(id.clone()),
        per_second: Some(1.0),
        min_interval_ns: Some(1),
        delay_ns: latency,
        without_ce: Some(1),
        rate_before_bps: Some(1),
        rate_after_bps: Some(1),
        rate_window_ns: Some(1),
        rate_samples: Some(1),
    }));
}

fn fill_loss(flow: &mut Flow) {
    let known = Some(1);
    let episodes = Episodes {
        episodes: 1.into(),
        longest_ns: known,
        total_ns: known,
        largest: known,
        first_ns: known,
        last_ns: known,
    };
    let loss = Loss {
        recovered: 1,
        lost: 1,
        lost_or_reordered: 1.into(),
        unfilled: 1.into(),
        retransmitted: 1,
        mirrored: 1.into(),
        rereads: 1.into(),
        rnr_resent: 1.into(),
        timeout_resent: 1.into(),
        timeouts: 1,
        timeouts_acked: 0,
        timeout_wait_ns: 1,
        timeout_shortest_ns: known,
        timeout_longest_ns: known,
        rnr_wait_ns: 1,
        gaps_capable: 1.into(),
        gaps_ce: 1.into(),
        stuck: 1.into(),
        last_again_ns: known,
        retransmission: Some("go_back_n"),
        before_tap: episodes,
        after_tap: episodes,
    };
    (flow.loss, flow.loss_responses) = (Some(loss).into(), Some(loss).into());
    let one = Some(1);
    let spray = Spray { src_ports: one, planes: one, reordering_depth: one, trimmed: one };
    flow.spray = Some(spray.into());
    flow.loss_unfollowed = Some(Unfollowed { until_ns: 1, packets: 1, missing: 1, repeats: 1 }.into());
    let wrong = IcrcErrors { packets: 1, at_ns: (1, 1) }.into();
    flow.icrc = Some(Checked { checked: 2, wrong, unchecked: 1 }).into();
    let last = LastNaks {
        rnr: known,
        psn_sequence_error: known,
        invalid_request: known,
        remote_access_error: known,
        remote_operational_error: known,
        invalid_rd_request: known,
        reserved: known,
    };
    flow.last_naks_ns = Some(last).into();
}

fn fill_link(link: &mut Link) {
    let column = || vec![1];
    link.ecn_over_time =
        Some(EcnOverTime { start_ns: 1, bin_ns: 1, capable: column(), ce: column(), cnp: column() });
    link.icrc = Some(Icrc { checked: 2, bad: 1, bad_first_ns: Some(1), bad_last_ns: Some(1), unchecked: 1 });
    link.mtu = Some(9000);
    link.pause = Some(vec![pause()]);
    link.neighbours = vec![Neighbour {
        system: Some("leaf1".into()),
        chassis: Some("00:11:22:33:44:55".into()),
        port: Some("Ethernet12".into()),
        port_description: Some("rack 3".into()),
        dialect: Some(Dialect::Ieee),
        pfc: Some(Pfc { enabled: 8, capable: 8, willing: true, error: false }),
        ets: Some(Ets { class_of: [0; 8], bandwidth: [0; 8], willing: false }),
        apps: vec![App { selector: 5, protocol: 26, priorities: 8 }],
    }];
}

/// No source knows all of these.
fn pause() -> Pause {
    Pause {
        priority: Some(3),
        direction: Some("received"),
        from: Some("00:11:22:33:44:55".into()),
        frames: Some(1),
        resumes: Some(1),
        quanta: Some(1),
        paused_ns: Some(1),
        episodes: Some(1),
        worst_share: Some(0.5),
        least_share: Some(0.5),
        most_share: Some(0.5),
        worst_frames_per_s: Some(1.0),
        longest_ns: Some(1),
        intervals: Pause::default().intervals,
    }
}

fn tap_flow(id: &FlowId) -> TapFlow {
    TapFlow {
        src: id.src,
        dst: id.dst,
        dest_qp: id.dest_qp,
        links: ["eth0".into(), "eth1".into()],
        from: Some("eth0".into()),
        to: Some("eth1".into()),
        packets_matched: 1,
        vanished: Some(1),
        only_at: [1, 0],
        vanished_first_ns: Some(1),
        vanished_last_ns: Some(1),
        copies_at: [0, 1],
        not_compared: [Some(2), None],
        vanished_at_end: Some(2),
        largest_matched: 512,
        latest_matched: Vec::new(),
        retransmitted: None,
        vanished_large: Some(LostLarge {
            packets: 1,
            smallest: 1024,
            largest: 4096,
            first_ns: 1,
            last_ns: 2,
        }),
        changed: vec![FieldChange {
            field: Field::Dscp,
            from: 26,
            to: 0,
            packets: 1,
            of: 2,
            first_ns: 1,
            last_ns: 2,
        }],
        changed_not_compared: 1,
        marked: Some(1),
        router_hops: Some([1, 2]),
        delay_change_ns: DelayChange {
            min: 0,
            max: 1,
            drift: 1,
            points: vec![DelayPoint { time_ns: 1, change_ns: 0 }],
        },
    }
}

fn post_sampling() -> PostSampling {
    PostSampling {
        unavailable: Some("no uprobes".into()),
        files: vec!["librxe-rdmav34.so".into()],
        absent: vec!["train (1): no device".into()],
        ..PostSampling::default()
    }
}

fn qp_lives() -> QpLives {
    QpLives {
        unavailable: Some("no kprobes".into()),
        calls: 3,
        missed_returns: 1,
        under_way: 1,
        dropped: 1,
        skipped: Some(1),
        qps_left_out: 1,
        unnumbered: 1,
        events_left_out: 1,
        absent: vec!["ib_query_qp".into()],
        absent_fields: vec!["ib_qp_attr.timeout".into()],
        devx_unavailable: Some("the module mlx5_core is not loaded".into()),
        commands: 2,
        missed_commands: 1,
        lists: 1,
        list_queries: 2,
        lists_ns: 1,
        unlisted: vec!["mlx5_0: Input/output error".into()],
        sources: QpSources { netlink: 1, control_path: 1, devx: 1, context: 1, posts: 1, captured: 1 },
    }
}

fn qp_posts() -> QpPosts {
    QpPosts {
        source: "post_send",
        sampled_ns: 1,
        calls: 1,
        requests: 2,
        bytes: 3,
        requests_per_s: Some(1),
        bytes_per_s: Some(1),
        shortest: Some(1),
        longest: Some(2),
        sizes: vec![PostSize { up_to: 2, messages: 2 }],
        opcodes: vec![PostOpcode { name: "SEND", requests: 2 }],
        long_chains: 1,
        long_lists: 1,
        unreadable: 1,
    }
}

fn device_qp() -> DeviceQp {
    DeviceQp {
        origin: Some("verbs"),
        lqpn: 17,
        sources: QpSource::ALL.to_vec(),
        rqpn: Some(18),
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(1),
        comm: Some("train".into()),
        pod: Some("trainer-0".into()),
        sq_psn: Some(1),
        rq_psn: Some(1),
        sent_packets: Some(1),
        received_packets: Some(1),
        ambiguous_readings: Some(0),
        pause_stall_ns: Some(1),
        stall: DeviceQp::default().stall,
        control: QpControl {
            src: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
            dst: Some(Ipv4Addr::new(10, 0, 0, 2).into()),
            udp_port: Some(49_152),
            flow_label: Some(0),
            dscp: Some(26),
            path_mtu: Some(4_096),
            timeout_ns: Some(67_108_864),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            created_ns: Some(1),
            connected_ns: Some(1),
            connect_took_ns: Some(1),
            ended_ns: Some(2),
            reused_ns: None,
            monotonic: MonotonicTimes::default(),
            end: Some("destroyed"),
        },
        figure_sources: [("dscp", QpSource::Context)].into(),
        context_ns: Some(1),
        context_steady_ns: None,
        context_readings: Some(2),
        priority: Some(3),
        adaptive_routing: Some(true),
        plane: Some(1),
        bond_port: Some(1),
        in_flight: Some(4),
        stuck_ns: Some(1),
        unsent_wqes: Some(1),
        posted_receives: Some(1),
        retries_used: Some(1),
        rnr_retries_used: Some(1),
        retrying_readings: Some(1),
        rnr_retrying_readings: Some(1),
        exhausted_readings: Some(1),
        context_times: None,
        timeouts: Some(1),
        sequence_errors: Some(1),
        attribution: Some("likely"),
        posts: Some(Box::new(qp_posts())),
    }
}

fn device() -> Device {
    Device {
        name: "mlx5_0".into(),
        port: Some(1),
        source: "RDMA netlink".into(),
        driver: Some("mlx5_ib".into()),
        firmware: Some("28.42.1000".into()),
        link_layer: Some("Ethernet".into()),
        pci_address: Some("0000:3b:00.0".into()),
        numa_node: Some(0),
        speed_mbps: Some(200_000),
        interface: Some("bond0".into()),
        pod: Some("trainer-0".into()),
        pod_interface: Some("net1".into()),
        members: vec!["eth0".into(), "eth1".into()],
        gone: false,
        first_ns: Some(1),
        last_ns: Some(2),
        counters: [("ce_marked_packets".to_owned(), 4)].into(),
        resets: 1,
        pause: vec![pause()],
        qps: vec![device_qp()],
        qp_events: vec![QpEvent {
            time_ns: 1,
            lqpn: Some(17),
            event: "modify to RTR".into(),
            reason: Some("transport retry count exceeded".into()),
            errno: Some(110),
            duration_ns: Some(1_020_000_000),
            pid: Some(1),
            comm: Some("train".into()),
            src: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
            dst: Some(Ipv4Addr::new(10, 0, 0, 2).into()),
            ..QpEvent::default()
        }],
        qp_counters: vec![DeviceQpCounters {
            lqpns: vec![17],
            counters: [("cnps_handled".to_owned(), 4)].into(),
        }],
        qps_left_out: 1,
        unlisted: Vec::new(),
    }
}

fn finding(id: FlowId) -> Finding {
    let mut finding = Finding::new("loss.before_tap", Severity::Warning, "Loss upstream of eth0".into());
    let evidence =
        [("lost", 37.into()), ("links", ["eth0"].as_slice().into()), ("share", serde_json::Value::Null)];
    for (name, value) in evidence {
        finding.evidence.insert(Evidence::declared(finding.id, name, value));
    }
    finding.flows.push(id);
    (finding.advice, finding.first_seen_ns) = ("Check the link.".into(), Some(1));
    finding.last_seen_ns = Some(2);
    finding.episodes.push(Episode { first_ns: 1, last_ns: 2, peak: Some(1.0) });
    let name = Some("eth0".to_owned());
    finding.place = Place {
        tap: name.clone(),
        link: name.clone(),
        links: name.iter().cloned().collect(),
        more_links: 1,
        direction: Some(Direction::Ingress),
        hop: Some(Hop::Upstream),
        switch_port: Some("leaf1 Ethernet12".into()),
    };
    let end = End {
        addr: [10, 0, 0, 1].into(),
        qpn: Some(1),
        pid: Some(1),
        comm: Some("train".into()),
        pod: Some("trainer-0".into()),
    };
    (finding.requester, finding.responder) = (Some(end.clone()), Some(end));
    (finding.causes, finding.effects) = (vec!["retry.storm"], vec!["retry.storm"]);
    finding.owner = Some("burst.incast");
    finding.steps.push(Step {
        text: "Read the counters of the port.".into(),
        command: Some("ethtool -S eth0".into()),
        host: Some([10, 0, 0, 1].into()),
        ..crate::findings::Step::default()
    });
    finding.caveats.push("May be capture loss.".into());
    finding.impact = Impact {
        packets_ratio: Some(0.1),
        retransmissions: Some(1),
        goodput_lost_bytes: Some(1),
        time_lost_ns: Some(1),
    };
    finding
}

fn nccl() -> Nccl {
    let host = Some(Ipv4Addr::new(192, 0, 2, 1).into());
    let launched = || [("AllReduce", 7)].into();
    let qp = RankQp {
        device: "mlx5_0".into(),
        lqpn: 17,
        rqpn: Some(29),
        src: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
        dst: Some(Ipv4Addr::new(10, 0, 0, 2).into()),
        udp_port: Some(51_234),
        state: Some("RTS"),
        link: Some("eth0".into()),
        stuck_ns: Some(1),
        retries_used: Some(1),
    };
    let rank = NcclRank {
        rank: 1,
        host,
        pid: Some(17),
        gpu: Some(1),
        state: Some(RankState::Running),
        state_since_ns: 1,
        error: Some("System error"),
        behind: 2,
        behind_since_ns: Some(1),
        launched: launched(),
        local_pid: Some(4_711),
        qps: vec![qp],
        qps_left_out: 1,
    };
    let communicator = Communicator {
        hash: "1a".into(),
        size: Some(2),
        seen_ns: 1,
        launched: launched(),
        behind_ranks: 1,
        ranks: vec![rank],
    };
    Nccl {
        address: "localhost:28028".into(),
        unavailable: Some("no answer in time".into()),
        version: Some("2.29.1".into()),
        answers: 1,
        failures: 1,
        answered_ns: Some(1),
        interval_ns: 1,
        collection_ns: Some(1),
        timeouts: Some(1),
        lists_all_ranks: true,
        lines_not_understood: 1,
        communicators_count: 1,
        communicators: vec![communicator],
        ranks_left_out: 1,
        events: vec![NcclEvent {
            time_ns: 1,
            event: "PEER_DEAD".into(),
            process: NcclProcess { host, pid: Some(17) },
        }],
        events_left_out: 1,
    }
}
