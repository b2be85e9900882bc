//! Compares device counters in a report with those that the driver shows through `rdma`, with perftest's output, and
//! with packet counts.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::lab::{ENDS, End, FAR, NEAR};
use super::perftest::Transferred;
use super::report::{flow, on_link, used};

/// PSNs count modulo 2^24.
const PSNS: u64 = 1 << 24;
/// Fields of `rdma statistic` that are not counters.
const ABOUT: [&str; 3] = ["ifname", "ifindex", "port"];

/// The name in rocescope's vocabulary of a Soft-RoCE counter; others keep the driver's name. Names of the driver:
/// rxe_hw_counters.c of Linux.
fn common_name(of_driver: &str) -> &str {
    match of_driver {
        "sent_pkts" => "tx_packets",
        "rcvd_pkts" => "rx_packets",
        "duplicate_request" => "duplicate_requests",
        "out_of_seq_request" => "out_of_sequence",
        "rcvd_rnr_err" => "rnr_naks_received",
        "send_rnr_err" => "rnr_naks_sent",
        "rcvd_seq_err" => "psn_error_naks",
        "retry_exceeded_err" => "retries_exceeded",
        "retry_rnr_exceeded_err" => "rnr_retries_exceeded",
        "completer_retry_err" => "retransmissions",
        "link_downed" => "link_downs",
        other => other,
    }
}

fn entries<'a>(report: &'a Value, end: End, source: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = report["devices"].as_array().into_iter().flatten();
    all.filter(move |entry| entry["name"] == end.device && entry["source"] == source)
}

/// Every counter of the driver is in the report's `devices`, with its increase during the run (`counted`), and no
/// other counter is.
///
/// # Errors
/// The differences.
pub fn as_the_driver(report: &Value, end: End, counted: &Value) -> Result<()> {
    let mut found = entries(report, end, "sysfs hw_counters");
    let entry =
        found.next().with_context(|| format!("no counters of {}: {}", end.device, report["devices"]))?;
    ensure!(found.next().is_none(), "counters of {} twice: {}", end.device, report["devices"]);
    let about = (&entry["port"], &entry["driver"], &entry["interface"], &entry["resets"]);
    ensure!(about == (&1.into(), &"rxe".into(), &end.interface.into(), &0.into()), "{entry}");
    let theirs = || {
        let all = counted.as_object().into_iter().flatten();
        all.filter(|(name, _)| !ABOUT.contains(&name.as_str()))
    };
    ensure!(theirs().count() >= 10, "`rdma statistic` has few counters of {}: {counted}", end.device);
    for (name, value) in theirs() {
        let ours = &entry["counters"][common_name(name)];
        ensure!(
            ours == value,
            "{name} of {}: {value} in the driver, {ours} in the report: {entry}",
            end.device
        );
    }
    let ours = entry["counters"].as_object().map_or(0, serde_json::Map::len);
    ensure!(ours == theirs().count(), "{ours} counters: {entry}, where the driver has {counted}");
    Ok(())
}

/// All packets pass the interface here, so that everything the driver carried was seen.
///
/// # Errors
/// The differences.
pub fn covered(report: &Value, end: End, counted: &Value) -> Result<()> {
    for (direction, name) in [("ingress", "rcvd_pkts"), ("egress", "sent_pkts")] {
        let mut all = report["coverage"].as_array().into_iter().flatten();
        let one = all
            .find(|one| one["device"] == end.device && one["direction"] == direction)
            .with_context(|| format!("no coverage of {} {direction}: {}", end.device, report["coverage"]))?;
        ensure!(one["seen_packets"] == on_link(report, end, direction)?, "{one}");
        ensure!(one["counted_packets"] == counted[name], "{name} is {}: {one}", counted[name]);
        ensure!(one["source"] == "sysfs hw_counters" && one["link"] == end.interface, "{one}");
        ensure!(one["ratio"] == 1.0 && one["why"].is_null(), "{one}");
    }
    Ok(())
}

/// Appearance of a transfer's queue pairs in reports.
#[derive(Debug, Default)]
pub struct Followed {
    /// Number of times that one was in a report.
    pub sightings: usize,
    /// Number of those whose device was read again with another result while they were active.
    pub read_again: usize,
    /// Number of those that advanced.
    pub moved: usize,
    /// For each, the changes from report to report: state, PSN, packets counted from PSNs.
    pub steps: Vec<String>,
}

/// The queue pairs of a transfer as reported by their devices in `reports` during the run: peer, process and PSNs.
///
/// # Errors
/// The differences from perftest's output, from `rdma resource`, and from the packets.
pub fn queue_pairs(reports: &[Value], transfer: &Transferred) -> Result<Followed> {
    let last = reports.last().context("no report")?;
    let name = transfer.wanted.program;
    let mut followed = Followed::default();
    for (near, far) in transfer.near.iter().zip(&transfer.far) {
        let whole = flow(last, NEAR, "egress", FAR, far.0)?;
        let repeated = whole["psn"]["repeats"] != 0;
        for (end, own, peer, pid, psn, count) in [
            (NEAR, near, far, transfer.pids.0, "sq_psn", "sent_packets"),
            (FAR, far, near, transfer.pids.1, "rq_psn", "received_packets"),
        ] {
            let of = |report: &Value| -> Option<Value> {
                let mut all = entries(report, end, "RDMA netlink")
                    .flat_map(|e| e["qps"].as_array().into_iter().flatten());
                all.find(|qp| qp["lqpn"] == own.0 && qp["rqpn"] == peer.0).cloned()
            };
            // First PSN of the requester, which is also the responder's.
            let first = near.1;
            // A requester that retransmits lowers its PSN. A responder never does.
            let goes_back = repeated && end == NEAR;
            let mut before: Option<(u64, u64)> = None;
            let mut first_psn = None;
            let mut read_again = false;
            for report in reports {
                let Some(qp) = of(report) else { continue };
                followed.sightings += 1;
                let place = format!("{name} on {}: {qp}", end.device);
                ensure!(qp["kind"] == "RC" && qp["pid"] == pid && qp["comm"] == name, "{place}");
                let step = format!("{} QP {}: {} {} {}", end.device, own.0, qp["state"], qp[psn], qp[count]);
                if followed.steps.last() != Some(&step) {
                    followed.steps.push(step);
                }
                // A list from before the verb that set the PSN has none, beside a newer state.
                let Some(at) = qp[psn].as_u64() else { continue };
                // perftest's server never sends, so it may stay in RTR.
                let ready = qp["state"] == "RTS" || end == FAR && qp["state"] == "RTR";
                if !ready || goes_back {
                    continue;
                }
                read_again |= *first_psn.get_or_insert(at) != at;
                let used_by_then = (at + PSNS - first) % PSNS;
                // The report's packets are read after its queue pairs; Soft-RoCE assigns a PSN before it sends.
                let seen = flow(report, NEAR, "egress", FAR, far.0).map_or(0, |flow| used(&flow["psn"]));
                ensure!(used_by_then <= seen + 1, "{used_by_then} PSNs, {seen} of them in packets: {place}");
                let Some(counted) = qp[count].as_u64() else { continue };
                ensure!(counted <= used_by_then, "{counted} packets with {used_by_then} PSNs: {place}");
                // PSNs are shown as they are read, packets once the port has counted what followed.
                if let Some((psns, packets)) = before {
                    ensure!(
                        used_by_then >= psns && counted >= packets,
                        "{packets} packets and {psns} PSNs before: {place}"
                    );
                }
                before = Some((used_by_then, counted));
            }
            followed.read_again += usize::from(read_again);
            followed.moved += usize::from(before.is_some_and(|(_, packets)| packets > 0));
        }
    }
    Ok(followed)
}

/// Both ends, with what their drivers counted.
///
/// # Errors
/// The differences.
pub fn both(report: &Value, counted: &[Value]) -> Result<()> {
    ensure!(report["source"]["kind"] == "mixed", "packets and counters: {}", report["source"]);
    for (end, counted) in ENDS.into_iter().zip(counted) {
        as_the_driver(report, end, counted)?;
        covered(report, end, counted)?;
    }
    Ok(())
}
