//! Compares queue pairs on the kernel's control path with perftest's parameters and packets.

use anyhow::Result;
use rocescope::util::system::{KernelVersion, kernel_version};
use serde_json::Value;

use super::lab::{End, FAR, NEAR, PATH_MTU};
use super::perftest::Transferred;
use super::qps::Qp;
use super::report::{count, flow};

/// The kernel's control path shows each queue pair from its creation to its end, with perftest's settings and the
/// source port of its packets.
pub fn check(report: &Value, transfer: &Transferred) -> Result<()> {
    let lives = &report["qp_lives"];
    assert_eq!(lives["unavailable"], Value::Null, "{lives}");
    assert_eq!((&lives["dropped"], &lives["qps_left_out"]), (&0.into(), &0.into()), "{lives}");
    // Soft-RoCE provides no contexts of its own: three queries per device show that, and no more are made.
    let contexts = &report["qp_context"];
    let refused = contexts["refused"].as_array().map_or(&[][..], Vec::as_slice);
    assert!(count(&contexts["failed"]) <= 6 && contexts["queried"] == 0, "{contexts}");
    assert!(refused.len() <= 2 && (refused.is_empty() || contexts["failed"] != 0), "{contexts}");
    assert!(refused.iter().all(|why| why.as_str().is_some_and(|why| why.contains("EINVAL"))), "{contexts}");
    for (end, other, peer, life) in of_transfer(report, transfer) {
        let flow = flow(report, end, "egress", other, peer)?;
        let (made, gone) = (count(&life["created_ns"]), count(&life["ended_ns"]));
        assert!(made < count(&flow["first_ns"]) && count(&flow["last_ns"]) < gone, "{life} {flow}");
        one_port(life, flow);
    }
    Ok(())
}

/// The queue pairs of a transfer as the report has them, with their end, the other end and the number there; each has
/// perftest's settings.
pub fn of_transfer<'a>(report: &'a Value, transfer: &Transferred) -> Vec<(End, End, u64, &'a Value)> {
    let (client, server) = transfer.pids;
    let mut all = Vec::new();
    for ((near, _), (far, _)) in transfer.near.iter().zip(&transfer.far) {
        for (end, other, qpn, peer, pid) in [(NEAR, FAR, near, far, client), (FAR, NEAR, far, near, server)] {
            let devices = report["devices"].as_array().into_iter().flatten();
            let mut qps = devices
                .filter(|device| device["name"] == end.device)
                .flat_map(|device| device["qps"].as_array().into_iter().flatten());
            let life = qps.find(|qp| qp["lqpn"] == *qpn && qp["rqpn"] == *peer);
            let life = life.unwrap_or_else(|| panic!("QP {qpn} of {} is missing: {report}", end.device));
            as_wanted(life, (end, other, pid), transfer);
            all.push((end, other, *peer, life));
        }
    }
    all
}

fn as_wanted(life: &Value, (end, other, pid): (End, End, u32), transfer: &Transferred) {
    assert_eq!((&life["pid"], &life["comm"]), (&pid.into(), &transfer.wanted.program.into()), "{life}");
    assert_eq!((&life["kind"], &life["dst"]), (&"RC".into(), &other.address.into()), "{life}");
    assert_eq!(life["src"], end.address, "{life}");
    assert_eq!(life["dscp"], transfer.wanted.traffic_class >> 2, "{life}");
    assert_eq!(life["path_mtu"], PATH_MTU, "{life}");
    // A queue pair that only receives stays in RTR, before these are set. Seven retries are perftest's default.
    let sends = life["state"] != "RTR";
    let [timeout, retries] = [4_096u64 << transfer.wanted.timeout(), 7]
        .map(|value| if sends { Value::from(value) } else { Value::Null });
    assert_eq!(life["timeout_ns"], timeout, "{life}");
    assert_eq!((&life["retry_cnt"], &life["rnr_retry"]), (&retries, &retries), "{life}");
    assert!(sends || end == FAR, "{life}");
    assert!(count(&life["created_ns"]) < count(&life["ended_ns"]), "{life}");
    assert_eq!(life["end"], "destroyed", "{life}");
}

/// True if Soft-RoCE computes source ports by the rule of the other drivers: before kernel 5.17 it has its own.
pub fn has_shared_rule() -> bool {
    kernel_version() >= Some(KernelVersion::new(5, 17, 0))
}

/// The expected computed source port of a Soft-RoCE queue pair with this port in its packets: null without the shared
/// rule.
pub fn computed(port: &Value) -> Value {
    if has_shared_rule() { port.clone() } else { Value::Null }
}

/// The packets of a queue pair have one source port, every one of them, and it is the computed one.
pub fn one_port(life: &Value, sent: &Value) {
    let ports = sent["src_ports"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!((ports.len(), &sent["src_port_count"]), (1, &1.into()), "{sent}");
    assert_eq!(
        (&computed(&ports[0]["port"]), &ports[0]["packets"]),
        (&life["udp_port"], &sent["packets"]),
        "{life} {sent}"
    );
}

/// Timeouts that the connection manager chooses for these devices: twice the lifetime of packets, 2^18 or since kernel
/// 6.5 2^16 (`CMA_IBOE_PACKET_LIFETIME` and `cm_ack_timeout` of drivers/infiniband/core).
const CM_TIMEOUTS_NS: [u64; 2] = [4_096 << 19, 4_096 << 17];

/// Checks a queue pair set up by the connection manager, from its creation to its end; returns the other end. `retries`
/// are those that its program asks for.
pub fn connected(report: &Value, end: End, qp: &Qp, retries: u8) -> End {
    let other = if end == NEAR { FAR } else { NEAR };
    let devices = report["devices"].as_array().into_iter().flatten();
    let mut lives = devices
        .filter(|device| device["name"] == end.device)
        .flat_map(|device| device["qps"].as_array().into_iter().flatten());
    let life = lives.find(|life| life["lqpn"] == qp.lqpn && life["pid"].as_u64() == qp.pid.map(u64::from));
    let life = life.unwrap_or_else(|| panic!("{qp:?} is not followed: {}", report["qp_lives"]));
    assert_eq!((&life["kind"], &life["rqpn"]), (&qp.kind.as_str().into(), &qp.rqpn.into()), "{life}");
    assert_eq!((&life["src"], &life["dst"]), (&end.address.into(), &other.address.into()), "{life}");
    assert_eq!((life["comm"].as_str(), &life["path_mtu"]), (qp.comm.as_deref(), &PATH_MTU.into()), "{life}");
    // Neither program sets a type of service.
    assert_eq!((&life["dscp"], &life["retry_cnt"]), (&0.into(), &retries.into()), "{life}");
    assert!(CM_TIMEOUTS_NS.contains(&count(&life["timeout_ns"])), "{life}");
    assert!(life["rnr_retry"].as_u64() <= Some(7) && life["rnr_retry"].is_u64(), "{life}");
    let [made, ready, gone] = ["created_ns", "connected_ns", "ended_ns"].map(|name| count(&life[name]));
    assert!(made < ready && ready < gone, "{life}");
    let peer = qp.rqpn.map(u64::from).unwrap_or_default();
    let sent = flow(report, end, "egress", other, peer).unwrap_or_else(|why| panic!("{why:#}: {life}"));
    assert_eq!(sent["dscp"], life["dscp"], "{sent}");
    one_port(life, sent);
    other
}
