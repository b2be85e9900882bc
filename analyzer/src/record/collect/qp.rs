//! Rows of queue pairs in time: what the kernel's list and the NIC's own context show of their traffic.

use std::collections::BTreeMap;

use super::{Interval, Origin, text};
use crate::analysis::{Device, DeviceQp, QpSource};
use crate::record::registry::QpSecond;
use crate::report::Report;
use crate::sample::Sample;
use crate::util::map::Map;
use crate::util::shared::Shared;

/// Number of counts of a queue pair.
const COUNTS: usize = 10;
/// Place of the readings before which PSNs may have wrapped.
const WRAPS: usize = COUNTS - 1;
/// Number of figures that are those of the latest reading.
const GAUGES: usize = 6;

/// Queue pairs remembered that are not in the report, where it lists only a part.
pub(super) const MOST: usize = 1 << 16;

/// Time of a reading.
#[derive(Clone, Copy, Debug)]
struct ReadAt {
    unix_ns: u64,
    /// The same by the clock that does not step, if known.
    steady_ns: Option<u64>,
}

impl ReadAt {
    fn of(unix_ns: Option<u64>, steady_ns: Option<u64>) -> Option<Self> {
        Some(Self { unix_ns: unix_ns?, steady_ns })
    }

    /// Time since an earlier reading, in nanoseconds. Unix time has what the clock was set by in between.
    fn since(self, before: Self) -> u64 {
        let steady = self.steady_ns.zip(before.steady_ns);
        let (now_ns, before_ns) = steady.unwrap_or((self.unix_ns, before.unix_ns));
        now_ns.saturating_sub(before_ns)
    }
}

/// Device, port and queue pair number.
type Key = (String, Option<u32>, u32);

/// State of a queue pair at the latest report.
#[derive(Clone, Copy, Debug, Default)]
struct LatestQp {
    /// `None` where a count was never known.
    counts: [Option<u64>; COUNTS],
    /// Those of its latest row.
    gauges: [Option<u64>; GAUGES],
    /// It moved in its latest row.
    moved: bool,
    /// The latest reading up to which its packets are counted.
    counted: Option<ReadAt>,
    /// Source of its packets.
    packets_of: Option<QpSource>,
    created_ns: Option<u64>,
    rqpn: Option<u32>,
    /// In the latest report.
    present: bool,
}

impl LatestQp {
    /// True if the number is used again: by a queue pair that was created since, or is connected to another.
    fn is_other(&self, qp: &DeviceQp, at: Interval) -> bool {
        let is_later = match (self.created_ns, qp.control.created_ns) {
            // Its life may be no longer known while the kernel lists it.
            (Some(before), now) => now.is_some_and(|now| now != before),
            // One that was listed before its creation was reported was created before the latest report.
            (None, Some(now)) => self.counts.iter().any(Option::is_some) && now > at.from_ns,
            (None, None) => false,
        };
        is_later || self.rqpn.zip(qp.rqpn).is_some_and(|(before, now)| before != now)
    }
}

/// Queue pairs of the latest report.
#[derive(Debug, Default)]
pub(super) struct Qps {
    known: Map<Key, LatestQp>,
}

impl Qps {
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        (sample, report): (&Sample, &Report),
        rails: &BTreeMap<&str, Shared>,
        rows: &mut Vec<QpSecond>,
    ) {
        self.known.values_mut().for_each(|known| known.present = false);
        for device in &report.facts.devices {
            let rail = device.interface.as_deref().and_then(|netdev| rails.get(netdev));
            let mut ports = sample.devices.ports.iter();
            let port = ports.find(|port| port.device == device.name && Some(port.port) == device.port);
            let list = port.and_then(|port| ReadAt::of(port.qps_counted_ns, port.qps_counted_steady_ns));
            // Of one that ended, nothing is read any more.
            for qp in device.qps.iter().filter(|qp| !qp.control.is_over() && is_seen(qp)) {
                let known = self.known.entry((device.name.clone(), device.port, qp.lqpn)).or_default();
                if known.is_other(qp, at) {
                    *known = LatestQp::default();
                }
                let (before, now, gauges) = (*known, counts(qp), gauges(qp));
                let mut new: [Option<u64>; COUNTS] =
                    std::array::from_fn(|at| grown(before.counts[at], now[at]));
                let packets_of = qp.packets_source();
                // The list and the context began to count at different times: the packets in between are not known.
                let changes = before.packets_of.zip(packets_of).is_some_and(|(before, now)| before != now);
                if changes {
                    (new[0], new[1], new[WRAPS]) = (None, None, None);
                }
                let moved = has(new[0]) || has(new[1]);
                let is_read = has(new[2]);
                let is_active = moved || changes || new[3..].iter().copied().any(has);
                // One that comes to rest has a last row: what it stands at, and that it does not move.
                let is_due = is_active || is_read && (before.moved || gauges != before.gauges);
                let is_listed = packets_of == Some(QpSource::Netlink);
                let context = ReadAt::of(qp.context_ns, qp.context_steady_ns);
                let counted = list.filter(|_| is_listed).or(context);
                *known = LatestQp {
                    counts: std::array::from_fn(|at| now[at].or(before.counts[at])),
                    gauges: if is_due { gauges } else { before.gauges },
                    moved: if is_due { moved } else { before.moved },
                    counted: counted.or(before.counted),
                    packets_of: packets_of.or(before.packets_of),
                    created_ns: qp.control.created_ns.or(before.created_ns),
                    rqpn: qp.rqpn.or(before.rqpn),
                    present: true,
                };
                if is_due {
                    let since = counted.zip(before.counted);
                    let since_ns = since.map_or(0, |(now, before)| now.since(before));
                    let at = Interval { ns: at.ns.max(since_ns), ..at };
                    rows.push(row(origin, at, (device, qp), rail, new));
                }
            }
        }
        // A report that lists a part of them may list the others again.
        let is_part = report.facts.devices.iter().any(|device| device.qps_left_out > 0);
        if !is_part || self.known.len() > MOST {
            self.known.retain(|_, known| known.present);
        }
    }
}

/// True if more than samples of posted work shows it.
pub(super) fn is_seen(qp: &DeviceQp) -> bool {
    qp.sources.iter().any(|source| !matches!(source, QpSource::Posts | QpSource::Packets))
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
        qp.ambiguous_readings,
    ]
}

/// The increase of a count. One that decreases began again.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    let now = now?;
    Some(now.checked_sub(before.unwrap_or(0)).unwrap_or(now))
}

/// Figures of the latest reading, of which a change is worth a row.
fn gauges(qp: &DeviceQp) -> [Option<u64>; GAUGES] {
    [
        qp.in_flight.map(Into::into),
        qp.stuck_ns,
        qp.retries_used.map(Into::into),
        qp.rnr_retries_used.map(Into::into),
        qp.posted_receives.map(Into::into),
        qp.unsent_wqes.map(Into::into),
    ]
}

fn has(count: Option<u64>) -> bool {
    count.is_some_and(|count| count > 0)
}

fn row(
    origin: &Origin,
    at: Interval,
    (device, qp): (&Device, &DeviceQp),
    rail: Option<&Shared>,
    counts: [Option<u64>; COUNTS],
) -> QpSecond {
    let [
        sent,
        received,
        readings,
        retrying,
        rnr_retrying,
        exhausted,
        timeouts,
        sequence_errors,
        stall_ns,
        wraps,
    ] = counts;
    let exact = |packets: Option<u64>| packets.filter(|_| !has(wraps));
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
        sent_packets: exact(sent),
        received_packets: exact(received),
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
