//! Queue pairs of NICs that have series of their own: those of which no packet is seen, so that no flow is theirs.
//!
//! Their counts never decrease while they have their series: a figure that becomes smaller is held, and a new queue
//! pair of the same numbers goes on from where the one before ended.

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

/// A count that never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RisingCount {
    /// Of earlier queue pairs with the same numbers.
    earlier: Option<u64>,
    /// Of the present one; `None`: unknown.
    high: Option<u64>,
}

impl RisingCount {
    /// The count; `None` if it was never known.
    #[must_use]
    pub fn get(self) -> Option<u64> {
        [self.earlier, self.high].into_iter().flatten().reduce(u64::saturating_add)
    }

    fn raise(&mut self, now: Option<u64>, is_another: bool) {
        if is_another {
            self.earlier = self.get();
            self.high = None;
        }
        self.high = self.high.max(now);
    }
}

/// Figures of a queue pair of a NIC.
#[derive(Clone, Debug, Default)]
pub struct NicQp {
    /// Packets sent.
    pub sent: RisingCount,
    /// Packets received.
    pub received: RisingCount,
    /// Readings since the previous one of which its PSN may have wrapped.
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
}

impl NicQp {
    fn take(&mut self, qp: &DeviceQp) {
        let is_another = match (self.created_ns, qp.control.created_ns) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        };
        self.sent.raise(qp.sent_packets, is_another);
        self.received.raise(qp.received_packets, is_another);
        self.ambiguous.raise(qp.ambiguous_readings, is_another);
        self.timeouts.raise(qp.timeouts, is_another);
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
