//! Queue pairs of NICs that have series of their own: those of which no packet is seen, so that no flow is theirs.
//!
//! Their counts never decrease while they have their series: a new queue pair of the same numbers, a figure of another
//! source and one that began again go on from where the one before ended.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::analysis::{Device, DeviceQp, QpSource};
use crate::report::Report;

/// A queue pair of a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NicQpId {
    /// RDMA device.
    pub device: Box<str>,
    /// Number of the queue pair on the device.
    pub lqpn: u32,
    /// Number of the queue pair at the other end.
    pub rqpn: Option<u32>,
}

impl NicQpId {
    fn of(device: &Device, qp: &DeviceQp) -> Self {
        Self { device: device.name.as_str().into(), lqpn: qp.lqpn, rqpn: qp.rqpn }
    }
}

/// What counts are of, compared with the report before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountOf {
    /// The same queue pair, from the same source.
    Same,
    /// The same queue pair, from a source that began to count at another time.
    OtherSource,
    /// Another queue pair with the same numbers, which counts from 0.
    OtherQp,
}

/// A count that never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RisingCount {
    /// `None` if it was never known.
    sum: Option<u64>,
    /// The latest figure of the present source; `None`: it has not shown one.
    latest: Option<u64>,
}

impl RisingCount {
    /// The count; `None` if it was never known.
    pub fn get(self) -> Option<u64> {
        self.sum
    }

    /// Adds what a figure has grown by. Of a source that took over, and of a figure that began again, only what is
    /// counted from now on is new for certain: then true, as something may be missing.
    fn take(&mut self, now: Option<u64>, of: CountOf) -> bool {
        match of {
            CountOf::Same => {}
            CountOf::OtherSource => self.latest = None,
            CountOf::OtherQp => self.latest = Some(0),
        }
        let Some(now) = now else { return false };
        let more = match (self.latest, self.sum) {
            (Some(before), _) => now.checked_sub(before),
            (None, None) => Some(now),
            (None, Some(_)) => None,
        };
        self.sum = Some(self.sum.unwrap_or(0).saturating_add(more.unwrap_or(0)));
        self.latest = Some(now);
        more.is_none()
    }

    /// Adds one, if the count is known.
    fn add_one(&mut self) {
        self.sum = self.sum.map(|sum| sum.saturating_add(1));
    }
}

/// Figures of a queue pair of a NIC.
#[derive(Clone, Debug, Default)]
pub struct NicQp {
    /// Packets sent.
    pub sent: RisingCount,
    /// Packets received.
    pub received: RisingCount,
    /// Readings since the previous one of which its PSN may have wrapped, or that another source, or a new count, began
    /// with.
    pub ambiguous: RisingCount,
    /// Transport timeouts attributed to it.
    pub timeouts: RisingCount,
    /// Packets in flight at the latest reading.
    pub in_flight: Option<u32>,
    /// Time without an acknowledgement at the latest reading, in nanoseconds.
    pub stuck_ns: Option<u64>,
    /// Retries in use at the latest reading.
    pub retries_used: Option<u8>,
    /// Address of the other end.
    pub peer: Option<IpAddr>,
    /// PID of the owning process.
    pub pid: Option<u32>,
    /// Command name of the process.
    pub comm: Option<String>,
    /// Pod of the process.
    pub pod: Option<String>,
    created_ns: Option<u64>,
    packets_of: Option<QpSource>,
}

impl NicQp {
    fn take(&mut self, qp: &DeviceQp) {
        let differs = |(before, now)| before != now;
        let is_other = self.created_ns.zip(qp.control.created_ns).is_some_and(differs);
        let packets_of = qp.packets_source();
        let changes = self.packets_of.zip(packets_of).is_some_and(|(before, now)| before != now);
        let of = if is_other { CountOf::OtherQp } else { CountOf::Same };
        let packets = if changes && !is_other { CountOf::OtherSource } else { of };
        let lacks_sent = self.sent.take(qp.sent_packets, packets);
        let lacks_received = self.received.take(qp.received_packets, packets);
        self.ambiguous.take(qp.ambiguous_readings, packets);
        if lacks_sent || lacks_received {
            self.ambiguous.add_one();
        }
        self.timeouts.take(qp.timeouts, of);
        self.packets_of = packets_of.or(self.packets_of);
        (self.in_flight, self.stuck_ns, self.retries_used) = (qp.in_flight, qp.stuck_ns, qp.retries_used);
        self.peer = qp.control.dst;
        (self.pid, self.comm, self.pod) = (qp.pid, qp.comm.clone(), qp.pod.clone());
        self.created_ns = qp.control.created_ns.or(self.created_ns);
    }
}

/// Queue pairs that exist and of which no packet is seen.
fn unseen(report: &Report) -> impl Iterator<Item = (&Device, &DeviceQp)> {
    let all = report.facts.devices.iter().flat_map(|device| device.qps.iter().map(move |qp| (device, qp)));
    all.filter(|(_, qp)| !qp.control.is_over() && !qp.sources.contains(&QpSource::Packets))
}

/// These queue pairs from the first choice on: by trouble, then by packets; with true for those in trouble.
pub(super) fn ranked(report: &Report) -> Vec<(bool, NicQpId)> {
    let mut all: Vec<_> = unseen(report).map(|(device, qp)| (qp.rank(), NicQpId::of(device, qp))).collect();
    all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.into_iter().map(|((trouble, ..), id)| (trouble.any(), id)).collect()
}

/// Takes over the figures of the chosen ones. One that is gone has its counts alone.
pub(super) fn take(
    report: &Report,
    qps: &mut BTreeMap<NicQpId, NicQp>,
    is_chosen: impl Fn(&NicQpId) -> bool,
) {
    for qp in qps.values_mut() {
        (qp.in_flight, qp.stuck_ns, qp.retries_used) = (None, None, None);
    }
    for (device, qp) in unseen(report) {
        let id = NicQpId::of(device, qp);
        if is_chosen(&id) {
            qps.entry(id).or_default().take(qp);
        }
    }
}
