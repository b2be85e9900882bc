//! Samples made by hand, for tests.

use std::sync::Arc;

use rocescope_common::abi::Counter;
use rocescope_common::account::flow::TRANSPORT_NONE;
use rocescope_common::account::{Disorder, FlowKey, PsnTrack};
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::frame::{Addr, Encap, PCP_NONE, UNKNOWN, VLAN_UNKNOWN};

use crate::entity::contexts::{ContextSample, Contexts};
use crate::entity::devices::{Devices, PortSample, QpSample};
use crate::entity::lives::{Lives, QpControl, QpEvent, QpLife};
use crate::entity::owners::QpOwner;
use crate::sample::{Address, Stats};
use crate::sample::{
    Direction, Extra, FlowSample, LinkSample, Opcodes, PeerKey, Retired, RetiredTuple, Sample, SourceKind,
    Tuple,
};

#[path = "../../tests/support/document.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with other tests")]
pub(crate) mod document;

/// 2026-03-01 13:05:09.250 UTC.
pub(crate) const START: u64 = 1_772_370_309_250_000_000;
pub(crate) use crate::util::time::NS_PER_S as SECOND;

pub(crate) fn words(ip: &str) -> (u8, Addr) {
    ip.parse::<Address>().unwrap().words()
}

pub(crate) fn key(link: u16, src: &str, dst: &str, dest_qp: u32) -> FlowKey {
    let ((family, src), (_, dst)) = (words(src), words(dst));
    FlowKey { src, dst, dest_qp, link, family, pad: 0 }
}

pub(crate) fn tuple(src: &str, dst: &str, src_port: u16) -> Tuple {
    let ((family, src), (_, dst)) = (words(src), words(dst));
    Tuple { family, src, dst, src_port }
}

/// RC SEND ONLY from one port, ECT(0), untagged, over one second.
pub(crate) fn stats(src_port: u16, packets: u64, bytes: u64) -> Stats {
    let mut stats = Stats {
        packets,
        bytes,
        payload_bytes: bytes.saturating_sub(62 * packets),
        first_ns: START,
        last_ns: START + SECOND,
        ecn_data: [0, 0, packets, 0],
        src_port,
        src_qp: UNKNOWN,
        pcp: PCP_NONE,
        dscp: 26,
        roce_version: 2,
        transport: 0,
        psn: PsnTrack { first: 100, expected: 100 + 1, slack: 1, seen: 1, ..PsnTrack::default() },
        ..Stats::default()
    };
    stats.opcodes = [(4, packets)].into();
    stats
}

/// Nothing but CNPs: no opcode of a transport, no sequence.
pub(crate) fn cnps(src_port: u16, packets: u64) -> Stats {
    Stats {
        payload_bytes: 0,
        ecn_data: [0; 4],
        ecn_control: [packets, 0, 0, 0],
        cnp_packets: packets,
        opcodes: Opcodes::default(),
        transport: TRANSPORT_NONE,
        psn: PsnTrack::default(),
        ..stats(src_port, packets, 74 * packets)
    }
}

pub(crate) fn link(name: &str, direction: Option<Direction>) -> LinkSample {
    LinkSample { name: name.into(), direction, ..LinkSample::default() }
}

pub(crate) fn sample(links: Vec<LinkSample>, flows: Vec<(FlowKey, Stats)>) -> Sample {
    let flows = (0..).zip(flows).map(|(slot, (key, stats))| FlowSample { slot, key, stats });
    Sample {
        time_ns: START + SECOND,
        inputs: vec!["incast.pcap".into()],
        window: Some((START, START + SECOND)),
        links,
        flows: flows.collect(),
        ..Sample::default()
    }
}

pub(crate) fn counter(packets: u64, bytes: u64) -> Counter {
    Counter { packets, bytes }
}

/// One of everything: a live run on two uplinks with congestion, loss, tunnels, datagrams, RoCEv1,
/// lost ports and retired flows.
#[expect(clippy::too_many_lines, reason = "one sample that has something of everything")]
pub(crate) fn everything() -> Sample {
    let ingress = Some(Direction::Ingress);
    let mut up0 = link("eth0", ingress);
    up0.skipped[SkipReason::Tcp as usize] = counter(60_000, 6_000_000);
    up0.skipped[SkipReason::Arp as usize] = counter(12, 720);
    up0.flow_table_full = counter(5, 5_000);
    up0.contended = counter(2, 2_000);
    up0.extra_full = 40;
    up0.retired = Retired {
        flows: 2,
        packets: 1_000,
        bytes: 1_000_000,
        cnp_packets: 3,
        ecn: [3, 0, 897, 100],
        ecn_data: [0, 0, 897, 100],
    };
    let mut out0 = link("eth0", Some(Direction::Egress));
    out0.skipped[SkipReason::Tcp as usize] = counter(1, 66);
    let links = vec![up0, out0, link("eth1", ingress), link("eth1", Some(Direction::Egress))];

    let mut write = stats(49_152, 1_500_000, 1_560_000_000);
    write.ecn_data = [0, 0, 1_300_000, 200_000];
    write.psn = PsnTrack {
        first: 5,
        expected: 0x00AB_CDEF,
        slack: 1,
        seen: 1,
        disorder: Disorder { repeats: 812, gaps: 37, missing: 1_204, restarts: 1 }.into(),
    };
    (write.seldom.other_port_packets, write.seldom.other_port_bytes) = (500_100, 520_104_000);
    write.opcodes = [(6, 100_000), (7, 1_300_000), (8, 100_000)].into();
    let mut acks = stats(51_000, 90_000, 5_580_000);
    acks.opcodes = [(0x11, 89_995)].into();
    acks.rare.other_opcode_packets = 5;
    (acks.ecn_data, acks.ecn_control) = ([0; 4], [0, 0, 90_000, 0]);
    (acks.acks, acks.payload_bytes) = (89_000, 0);
    (acks.rare.rnr_naks, acks.rare.ack_unknown) = (960, 3);
    acks.rare.naks = [37, 0, 0, 0, 0, 0];
    acks.psn = PsnTrack::default();
    let mut read = stats(49_200, 220_000, 229_000_000);
    (read.rare.psn_responses, read.psn) = (read.psn.form(), PsnTrack::default());
    read.rare.psn_responses.missing = 4;
    read.rare.psn_responses.gaps = 1;
    read.rare.response_holes = 4;
    read.opcodes = [(0x0D, 1_000), (0x0E, 218_000), (0x0F, 1_000)].into();
    (read.encap, read.seldom.inner_bytes) = (Encap::Erspan2 as u32, 218_000_000);
    (read.vlan, read.inner_vlan, read.pcp) = (100, 0, 3);
    read.mixed = rocescope_common::account::Mixed::DSCP;
    let mut gsi = stats(4_791, 24, 7_752);
    (gsi.transport, gsi.src_qp, gsi.rare.payload_unknown) = (3, 1, 2);
    gsi.ecn_data = [24, 0, 0, 0];
    gsi.psn = PsnTrack::default();
    let mut v1 = stats(0, 3_000, 3_300_000);
    (v1.roce_version, v1.dscp, v1.ecn_data) = (1, u8::MAX, [0; 4]);
    (v1.seldom.other_port_packets, v1.seldom.other_port_bytes) = (3_000, 3_300_000);
    (v1.vlan, v1.inner_vlan) = (VLAN_UNKNOWN, VLAN_UNKNOWN);

    let (a, b) = ("10.1.0.11", "10.1.0.42");
    let mut sample = sample(
        links,
        vec![
            (key(0, a, b, 0x118), write),
            (key(1, b, a, 0x2A7), acks),
            (key(1, b, a, 0x118), cnps(0, 5_120)),
            (key(2, "fd00:10::c0de:11", "fd00:10::c0de:42", 0x00FF_0001), read),
            (key(0, a, b, 1), gsi),
            (key(2, "fe80::1", "fe80::2", 17), v1),
        ],
    );
    sample.kind = SourceKind::Live;
    sample.inputs = vec!["eth0".into(), "eth1".into()];
    sample.events_dropped = Some(12);
    sample.interface_drops = Some(0);
    sample.window = Some((START, START + 10 * SECOND));
    sample.extra.insert(
        0,
        Extra {
            ports: vec![(49_153, counter(300_000, 312_000_000)), (49_154, counter(200_060, 208_062_400))],
            ..Extra::default()
        },
    );
    sample.extra.insert(1, Extra { ports: Vec::new(), opcodes: vec![(0x65, 5)], ..Extra::default() });
    sample.peers.insert(PeerKey::of(&sample.flows[0].key), 0x2A7);
    sample.retired_tuples = vec![RetiredTuple { tuple: tuple(a, b, 49_152), link: 0, bytes: 900_000 }];
    sample.retired_unattributed = 100_000;
    sample
}

/// Port 1 of mlx5_0, the device of eth0.
pub(crate) fn port() -> PortSample {
    PortSample {
        device: "mlx5_0".into(),
        port: 1,
        interface: Some("eth0".into()),
        driver: Some("mlx5_ib".into()),
        ..PortSample::default()
    }
}

/// Queue pair of process 4711 on [`port`], connected from 10.0.0.1 to a queue pair of 10.0.0.2.
pub(crate) fn qp_life(lqpn: u32, rqpn: u32) -> QpLife {
    QpLife {
        device: "mlx5_0".into(),
        lqpn,
        rqpn: Some(rqpn),
        kind: Some("RC"),
        state: Some("RTS"),
        pid: Some(4_711),
        comm: Some("train".into()),
        control: QpControl {
            src: "10.0.0.1".parse().ok(),
            dst: "10.0.0.2".parse().ok(),
            ..QpControl::default()
        },
        ..QpLife::default()
    }
}

/// Event of a [`qp_life`].
pub(crate) fn qp_event(lqpn: u32, event: &str, time_ns: u64) -> QpEvent {
    let QpLife { device, pid, comm, control, .. } = qp_life(lqpn, 0);
    let event = event.to_owned();
    let (src, dst) = (control.src, control.dst);
    QpEvent { device, time_ns, lqpn: Some(lqpn), event, pid, comm, src, dst, ..QpEvent::default() }
}

/// A queue pair: number, peer's last byte, source port, packets sent, plane.
pub(crate) type HiddenQp = (u32, u8, Option<u16>, Option<u64>, Option<u8>);

/// Queue pairs of `mlx5_0`, of which no packet is seen, beside an idle port `mlx5_1`.
pub(crate) fn hidden_qps(driver: &str, given: &[HiddenQp]) -> Sample {
    let mut lives = Lives::default();
    let mut contexts = Contexts::default();
    let mut listed = Vec::new();
    for (lqpn, peer, udp_port, sent, plane) in given {
        let mut life = qp_life(*lqpn, lqpn + 1_000);
        life.control.dst = Some([10, 0, 0, *peer].into());
        (life.control.udp_port, life.control.path_mtu) = (*udp_port, Some(4_096));
        let owner = QpOwner {
            device: life.device.clone(),
            lqpn: *lqpn,
            rqpn: life.rqpn,
            kind: life.kind,
            state: life.state,
            ..QpOwner::default()
        };
        listed.push(QpSample { owner, sent: *sent, ..QpSample::default() });
        let mut context =
            ContextSample { device: life.device.clone(), port: 1, lqpn: *lqpn, ..ContextSample::default() };
        context.context.plane = *plane;
        contexts.qps.push(context);
        Arc::make_mut(&mut lives.qps).push(life);
    }
    let mut busy = port();
    (busy.driver, busy.qps) = (Some(driver.to_owned()), Arc::new(listed));
    let idle = PortSample { device: "mlx5_1".into(), interface: Some("eth1".into()), ..port() };
    let mut sample = with_lives(busy, lives);
    let devices = Arc::make_mut(&mut sample.devices);
    devices.ports.push(idle);
    devices.contexts = Arc::new(contexts);
    sample
}

/// A sample of one link with these devices and the control path of their queue pairs.
pub(crate) fn with_lives(port: PortSample, lives: Lives) -> Sample {
    let mut sample = sample(vec![link("eth0", None)], Vec::new());
    sample.devices = Arc::new(Devices { ports: vec![port], lives: Arc::new(lives), ..Devices::default() });
    sample
}
