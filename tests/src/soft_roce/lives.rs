//! Queue pairs on the kernel's control path, held against what perftest asked for and sent.

use anyhow::Result;
use serde_json::Value;

use super::lab::{FAR, NEAR, PATH_MTU};
use super::perftest::Transferred;
use super::report::{count, flow};

/// The kernel's control path shows each queue pair from its creation to its end, with the settings that
/// perftest asked for and the source port that its packets had.
///
/// # Errors
/// When a flow is not in the report.
///
/// # Panics
/// When a queue pair is not as it was made.
pub fn check(report: &Value, transfer: &Transferred) -> Result<()> {
    let lives = &report["qp_lives"];
    assert_eq!(lives["unavailable"], Value::Null, "{lives}");
    assert_eq!((&lives["dropped"], &lives["qps_left_out"]), (&0.into(), &0.into()), "{lives}");
    // Soft-RoCE has no context of its own to hand out: one query a device says so, and no more are made.
    let contexts = &report["qp_context"];
    let refused = contexts["refused"].as_array().map_or(&[][..], Vec::as_slice);
    assert!(count(&contexts["failed"]) <= 2 && contexts["queried"] == 0, "{contexts}");
    assert_eq!(refused.len() as u64, count(&contexts["failed"]), "{contexts}");
    assert!(refused.iter().all(|why| why.as_str().is_some_and(|why| why.contains("EINVAL"))), "{contexts}");
    let (client, server) = transfer.pids;
    for ((near, _), (far, _)) in transfer.near.iter().zip(&transfer.far) {
        for (end, other, qpn, peer, pid) in [(NEAR, FAR, near, far, client), (FAR, NEAR, far, near, server)] {
            let devices = report["devices"].as_array().into_iter().flatten();
            let mut qps = devices
                .filter(|device| device["name"] == end.device)
                .flat_map(|device| device["qps"].as_array().into_iter().flatten());
            let life = qps.find(|qp| qp["lqpn"] == *qpn && qp["rqpn"] == *peer);
            let life = life.unwrap_or_else(|| panic!("QP {qpn} of {} is not followed: {lives}", end.device));
            assert_eq!(
                (&life["pid"], &life["comm"]),
                (&pid.into(), &transfer.wanted.program.into()),
                "{life}"
            );
            assert_eq!((&life["kind"], &life["dst"]), (&"RC".into(), &other.address.into()), "{life}");
            assert_eq!(life["src"], end.address, "{life}");
            assert_eq!(life["dscp"], transfer.wanted.traffic_class >> 2, "{life}");
            assert_eq!(life["path_mtu"], PATH_MTU, "{life}");
            // Who only receives never goes on from RTR, where these are set. Seven retries are perftest's default.
            let sends = life["state"] != "RTR";
            let [timeout, retries] = [4_096u64 << transfer.wanted.timeout(), 7]
                .map(|value| if sends { Value::from(value) } else { Value::Null });
            assert_eq!(life["timeout_ns"], timeout, "{life}");
            assert_eq!((&life["retry_cnt"], &life["rnr_retry"]), (&retries, &retries), "{life}");
            assert!(sends || end == FAR, "{life}");
            let (made, gone) = (count(&life["created_ns"]), count(&life["ended_ns"]));
            assert!(made < gone, "{life}");
            let flow = flow(report, end, "egress", other, *peer)?;
            assert!(made < count(&flow["first_ns"]) && count(&flow["last_ns"]) < gone, "{life} {flow}");
            assert_eq!(life["udp_port"], flow["src_ports"][0]["port"], "computed and on the wire: {flow}");
        }
    }
    Ok(())
}
