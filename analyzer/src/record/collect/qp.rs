//! Rows of queue pairs in time: what the kernel's list and the NIC's own context show of their traffic.

use std::collections::BTreeMap;

use super::{Interval, Origin, text};
use crate::analysis::{Device, DeviceQp};
use crate::record::registry::QpSecond;
use crate::report::Report;
use crate::util::map::Map;
use crate::util::shared::Shared;

/// Number of counts of a queue pair.
const COUNTS: usize = 9;

/// Device, port and queue pair number.
type Key = (String, Option<u32>, u32);

/// State of a queue pair at the latest report.
#[derive(Clone, Copy, Debug, Default)]
struct LatestQp {
    /// `None` where a count is not known.
    counts: [Option<u64>; COUNTS],
    /// Time of the latest reading of its context.
    context_ns: Option<u64>,
    created_ns: Option<u64>,
    /// In the latest report.
    present: bool,
}

/// Queue pairs of the latest report.
#[derive(Debug, Default)]
pub(super) struct Qps(Map<Key, LatestQp>);

impl Qps {
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        report: &Report,
        rails: &BTreeMap<&str, Shared>,
        rows: &mut Vec<QpSecond>,
    ) {
        self.0.values_mut().for_each(|known| known.present = false);
        for device in &report.facts.devices {
            let rail = device.interface.as_deref().and_then(|netdev| rails.get(netdev));
            // Of one that ended, nothing is read any more.
            for qp in device.qps.iter().filter(|qp| !qp.control.is_over()) {
                let created_ns = qp.control.created_ns;
                let known = self.0.entry((device.name.clone(), device.port, qp.lqpn)).or_default();
                if known.created_ns.is_some_and(|before| Some(before) != created_ns) {
                    // The number is used again.
                    *known = LatestQp::default();
                }
                let (before, now) = (*known, counts(qp));
                *known = LatestQp { counts: now, context_ns: qp.context_ns, created_ns, present: true };
                let new = std::array::from_fn(|at| grown(before.counts[at], now[at]));
                if is_active(qp, new) {
                    rows.push(row(origin, covered(at, qp, before.context_ns), (device, qp), rail, new));
                }
            }
        }
        self.0.retain(|_, known| known.present);
    }
}

/// Counts in the order of [`row`].
fn counts(qp: &DeviceQp) -> [Option<u64>; COUNTS] {
    [
        qp.sent_packets,
        qp.received_packets,
        qp.context_readings,
        qp.retrying_readings,
        qp.rnr_retrying_readings,
        qp.exhausted_readings,
        qp.timeouts,
        qp.sequence_errors,
        qp.pause_stall_ns,
    ]
}

/// The increase of a count. One that decreases began again.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    let now = now?;
    Some(now.checked_sub(before.unwrap_or(0)).unwrap_or(now))
}

/// True if anything but the number of readings changed, or packets in flight are not acknowledged.
fn is_active(qp: &DeviceQp, new: [Option<u64>; COUNTS]) -> bool {
    let [sent, received, readings, counts @ ..] = new;
    let has = |count: Option<u64>| count.is_some_and(|count| count > 0);
    has(sent) || has(received) || counts.into_iter().any(has) || has(readings) && has(qp.stuck_ns)
}

/// The interval, longer where the context before was read earlier: contexts take turns.
fn covered(at: Interval, qp: &DeviceQp, before_ns: Option<u64>) -> Interval {
    let since = qp.context_ns.zip(before_ns).map_or(0, |(now, before)| now.saturating_sub(before));
    Interval { ns: at.ns.max(since), ..at }
}

fn row(
    origin: &Origin,
    at: Interval,
    (device, qp): (&Device, &DeviceQp),
    rail: Option<&Shared>,
    counts: [Option<u64>; COUNTS],
) -> QpSecond {
    let [sent, received, readings, retrying, rnr_retrying, exhausted, timeouts, sequence_errors, stall_ns] =
        counts;
    let control = &qp.control;
    QpSecond {
        t: at.t,
        interval_ns: at.ns,
        host: origin.host.clone(),
        job: origin.job(qp.pod.as_deref()),
        pod: text(qp.pod.as_deref()),
        device: device.name.as_str().into(),
        port: device.port.map(Into::into),
        netdev: text(device.interface.as_deref()),
        rail: rail.cloned(),
        lqpn: qp.lqpn.into(),
        rqpn: qp.rqpn.map(Into::into),
        src: control.src.map(Into::into),
        dst: control.dst.map(Into::into),
        udp_port: control.udp_port.map(Into::into),
        dscp: control.dscp.map(Into::into),
        pid: qp.pid.map(Into::into),
        comm: text(qp.comm.as_deref()),
        sent_packets: sent,
        received_packets: received,
        readings,
        retrying_readings: retrying,
        rnr_retrying_readings: rnr_retrying,
        exhausted_readings: exhausted,
        in_flight: qp.in_flight.map(Into::into),
        stuck_ns: qp.stuck_ns,
        retries_used: qp.retries_used.map(Into::into),
        rnr_retries_used: qp.rnr_retries_used.map(Into::into),
        posted_receives: qp.posted_receives.map(Into::into),
        unsent_wqes: qp.unsent_wqes.map(Into::into),
        timeouts,
        sequence_errors,
        attribution: text(qp.attribution),
        pause_stall_ns: stall_ns,
    }
}
