//! Devices of this host and what they counted, as a reading of them gives it.

use std::sync::Arc;

use super::contexts::Contexts;
use super::interval::Interval;
use super::lives::{Lists, Lives};
use super::owners::QpOwner;
use super::pauses::{PauseIntervals, Stall};
use super::posts::Posts;
pub use super::qp_source::QpSource;
use crate::ethernet::lldp::Neighbour;
use crate::host::process::pods::PodInterface;
use crate::host::rdma::device::Hardware;
pub use crate::host::rdma::vocabulary::Meaning as PortCounter;
use crate::util::system::KernelVersion;
use crate::util::time::seconds;

/// Everything known of the watched devices at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// Ports of the devices.
    pub ports: Vec<PortSample>,
    /// Settings that are wrong, as `rocescope doctor` finds them.
    pub settings: Vec<Setting>,
    /// LLDP announcements of the switches, by interface.
    pub neighbours: Vec<(String, Neighbour)>,
    /// Queue pairs on the kernel's control path; shared by all samples until something changes.
    pub lives: Arc<Lives>,
    /// Cost of listing queue pairs.
    pub lists: Lists,
    /// The NIC's own contexts of queue pairs, likewise.
    pub contexts: Arc<Contexts>,
    /// Work that processes posted, likewise.
    pub posts: Arc<Posts>,
    /// Version of the kernel whose devices they are; `None` where it is not known, as of a recording.
    pub kernel: Option<KernelVersion>,
}

/// A port of an RDMA device, and what it counted since the run began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortSample {
    /// Name of the RDMA device.
    pub device: String,
    /// Its port, from 1.
    pub port: u32,
    /// RDMA driver: `mlx5_ib`, `rxe` …
    pub driver: Option<String>,
    /// Firmware, link layer, PCI address, NUMA node and speed, as they were at the start.
    pub hardware: Hardware,
    /// Name of its network interface.
    pub interface: Option<String>,
    /// Its network interface in the network namespace of a pod, if it is in none that is watched.
    pub pod: Option<PodInterface>,
    /// The interfaces that a bond or team makes one of, when the port is of several; their Ethernet
    /// counters are summed.
    pub members: Vec<String>,
    /// Watched interfaces that lie on its own, as VLANs do: their RDMA goes through the port.
    pub above: Vec<String>,
    /// True when the device has been removed; its counts until then stay.
    pub gone: bool,
    /// True for hardware RoCE, whose packets bypass XDP and TC.
    pub hidden: bool,
    /// First and last reading, Unix nanoseconds; `None` before the first.
    pub window: Option<(u64, u64)>,
    /// Counters, by where they were read.
    pub counters: Vec<SourceSample>,
    /// Times in which counters grew, by name, the oldest first; empty where readings have no times of their own.
    pub growth: Vec<(String, Vec<Growth>)>,
    /// Pauses by priority and direction.
    pub pause: Vec<PauseSample>,
    /// Their source: `ethtool` or `DCB netlink`.
    pub pause_source: &'static str,
    /// Bit p: the host has PFC on for priority p; `None` when the driver does not tell.
    pub lossless: Option<u8>,
    /// Priority of each DSCP on the host; `None` for a DSCP that is not mapped, empty where none is or the driver does
    /// not tell.
    pub dscp_priorities: Arc<[Option<u8>]>,
    /// The port is known to derive priorities from the PCP that queue pairs set, not from their DSCP.
    pub trusts_pcp: bool,
    /// Largest path MTU that the port offers, from its interface's MTU. Unit: bytes. `None`: not known.
    pub active_mtu: Option<u32>,
    /// Its queue pairs, by number; shared by all samples until they are read again.
    pub qps: Arc<Vec<QpSample>>,
    /// Time of the latest reading up to which their packets are counted, Unix nanoseconds; `None` before the first one,
    /// and where it is that of the counters.
    pub qps_counted_ns: Option<u64>,
    /// The same by `CLOCK_MONOTONIC`, which does not step; `None` as well where it is not known.
    pub qps_counted_steady_ns: Option<u64>,
    /// Counters of queue pairs that the device counts together or one by one.
    pub qp_counters: Vec<QpCounters>,
    /// Queue pairs that there was no room to follow.
    pub qps_left_out: u64,
}

/// A time in which a counter grew, without 10 s of rest: from the reading before.
pub type Growth = Interval<AtGrowth>;

/// A reading at the beginning or end of a growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtGrowth {
    /// RoCE packets that the port had received and sent; 0 where that is not counted.
    pub packets: [u64; 2],
    /// Its time by `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
}

/// The counters of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSample {
    /// Their source: `sysfs counters`, `sysfs hw_counters`, `RDMA netlink`, `ethtool`.
    pub source: &'static str,
    /// Name in the one vocabulary, else the driver's own, and what was added since the run began.
    pub values: Vec<(String, u64)>,
    /// Counters that decreased (a driver loaded again, a reset by hand): counts in between are lost.
    pub resets: u64,
}

/// Pauses of one priority, one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PauseSample {
    /// True for pauses that this port sent, false for those it received.
    pub sent: bool,
    /// Priority, 0 to 7; `None` for pauses of the whole link (IEEE 802.3x).
    pub priority: Option<u8>,
    /// Pause frames; `None` when the driver does not count them.
    pub frames: Option<u64>,
    /// Quanta of 512 bits that they asked for; `None` where frames are not read.
    pub quanta: Option<u64>,
    /// Time spent paused; `None` when the driver does not count it.
    pub paused_ns: Option<u64>,
    /// Changes from running to paused.
    pub transitions: Option<u64>,
    /// Largest share of the time between two readings that was spent paused.
    pub worst_share: Option<f64>,
    /// If quanta are known and the link speed is not: a lower bound of the largest paused share of a window.
    pub least_share: Option<f64>,
    /// If time is not counted: the largest share of the time between two readings that could have been
    /// paused, if every frame of it had paused for as long as a frame can.
    pub most_share: Option<f64>,
    /// Most pause frames a second between two readings.
    pub worst_frames_per_s: Option<f64>,
    /// Longest time in which every reading found it paused (nearly) all the time.
    pub longest_ns: Option<u64>,
    /// Times of the pauses; empty where readings have no times of their own.
    pub intervals: PauseIntervals,
}

/// A queue pair as the device reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpSample {
    /// Its number, peer, state and process.
    pub owner: QpOwner,
    /// PSN sent next.
    pub sq_psn: Option<u32>,
    /// PSN expected next.
    pub rq_psn: Option<u32>,
    /// PSNs that its requests used since it was first seen, at least, up to the latest list that was followed by a
    /// reading of counters; `None` where unknown.
    pub sent: Option<u64>,
    /// PSNs of requests that it took in, likewise.
    pub received: Option<u64>,
    /// Readings since the previous one of which PSNs may have wrapped: there may have been more.
    pub ambiguous: u64,
    /// Time in which it stood still although ready, while a priority of RoCE was paused; `None`
    /// where its PSNs do not tell.
    pub stalled_ns: Option<u64>,
    /// The latest time in which it did.
    pub stall: Stall,
}

/// A counter set of the device that queue pairs are bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpCounters {
    /// The queue pairs that count in it.
    pub lqpns: Vec<u32>,
    /// Name in the one vocabulary, else the driver's own, and what was added.
    pub values: Vec<(String, u64)>,
}

/// A setting that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Identifier of the check of `rocescope doctor`.
    pub check: &'static str,
    /// Of what: interface, device and port, process …
    pub subject: String,
    /// True when it causes traffic to stall or be lost.
    pub critical: bool,
    /// Value found on the host.
    pub value: Option<String>,
    /// The reason that it is a problem.
    pub why: Option<String>,
    /// Remedy: the command or step that changes it.
    pub change: Option<String>,
}

/// The place of a port's interface: its name, or `net1 of pod trainer-0`. `None`: not known.
pub fn place(interface: Option<&str>, pod: Option<(&str, Option<&str>)>) -> Option<String> {
    match pod {
        Some((pod, name)) => Some(format!("{} of pod {pod}", name.unwrap_or("an interface"))),
        None => interface.map(str::to_owned),
    }
}

/// The value of a counter by its name in the vocabulary, from the source that separates RoCE best; and that source.
pub fn counted(counters: &[SourceSample], name: &str) -> Option<(u64, &'static str)> {
    // ethtool first: mlx5 counts RDMA of its virtual port there without anything else.
    const ORDER: [&str; 4] = ["ethtool", "sysfs hw_counters", "RDMA netlink", "sysfs counters"];
    ORDER.iter().find_map(|source| {
        let of = counters.iter().find(|counters| counters.source == *source)?;
        let (_, value) = of.values.iter().find(|(known, _)| known == name)?;
        Some((*value, *source))
    })
}

impl PortSample {
    /// The place of its interface; see [`place`].
    pub fn place(&self) -> Option<String> {
        place(self.interface.as_deref(), self.pod.as_ref().map(|at| (&*at.pod, at.name.as_deref())))
    }

    /// The name in reports: device and port.
    pub fn label(&self) -> String {
        format!("{}/{}", self.device, self.port)
    }

    /// The value of a counter, as [`counted`].
    pub fn value(&self, name: &str) -> Option<(u64, &'static str)> {
        counted(&self.counters, name)
    }

    /// Seconds between first and last reading; `None` when there were not two.
    pub fn seconds(&self) -> Option<f64> {
        let (first, last) = self.window?;
        last.checked_sub(first).filter(|ns| *ns > 0).map(seconds)
    }
}
