//! The job's own view, from NCCL's RAS service, joined by process to queue pairs of this host.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::Device;
use crate::entity::nccl::{self as entity, Launched, OPERATIONS, RankState};
use crate::sample::Sample;

/// Ranks that the report lists.
const MAX_RANKS: usize = 1_024;
/// Queue pairs listed of a rank.
const MAX_QPS: usize = 16;

/// The NCCL jobs of this host by their own account (RAS service, NCCL 2.24 and newer).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nccl {
    /// Address of the RAS service.
    pub address: String,
    /// Reason for which the latest query had no answer. Null: it had one, or there was none yet.
    pub unavailable: Option<String>,
    /// Version of NCCL. Null: no answer yet, or it does not say.
    pub version: Option<String>,
    /// Queries that were answered. Unit: queries.
    pub answers: u64,
    /// Queries that were not. Unit: queries.
    pub failures: u64,
    /// Time of the latest answer. Unit: Unix ns. Null: none yet.
    pub answered_ns: Option<u64>,
    /// Least time between two queries. Unit: ns.
    pub interval_ns: u64,
    /// Time that NCCL took to collect the latest answer. Unit: ns. Null: as `version`.
    pub collection_ns: Option<u64>,
    /// Timeouts between NCCL's processes meanwhile. Unit: timeouts. Null: as `version`.
    pub timeouts: Option<u64>,
    /// Answers name every rank (NCCL 2.28.7 and newer); otherwise those that differ from most.
    pub lists_all_ranks: bool,
    /// Lines of the latest answer that were not understood; 0 where answers are in JSON. Unit: lines.
    pub lines_not_understood: u64,
    /// Communicators of the latest answer. Unit: communicators.
    pub communicators_count: u64,
    /// Communicators with listed ranks. Several jobs of a host share the port: those of any answer of the
    /// last two minutes.
    pub communicators: Vec<Communicator>,
    /// Ranks that are not listed, since there are more than 1,024 that differ or are of this host. Unit:
    /// ranks.
    pub ranks_left_out: u64,
    /// The latest 256 events of NCCL's monitor (2.29 and newer).
    pub events: Vec<entity::Event>,
    /// Events that there was no room to keep. Unit: events.
    pub events_left_out: u64,
}

/// A communicator of NCCL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Communicator {
    /// Hash that NCCL's log names it by, in hexadecimal digits.
    pub hash: String,
    /// Ranks that it has. Unit: ranks. Null: not in the answer.
    pub size: Option<u32>,
    /// Latest answer that named it. Unit: Unix ns.
    pub seen_ns: u64,
    /// Most operations that one of its ranks has launched, by name: `AllReduce` …, or `collective` for all
    /// together (NCCL up to 2.25). A name that is absent is not known. Unit: operations.
    pub launched: BTreeMap<&'static str, u64>,
    /// Ranks that are behind. Unit: ranks.
    pub behind_ranks: u64,
    /// Ranks that differ from the others, and those of this host.
    pub ranks: Vec<NcclRank>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NcclRank {
    /// Its number in the communicator.
    pub rank: u32,
    /// Address of its host, of the interface that NCCL bootstraps over. Null: not known to NCCL.
    pub host: Option<IpAddr>,
    /// Its process, by the number in its own PID namespace. Null: as `host`.
    pub pid: Option<u32>,
    /// CUDA device. Null: as `host`.
    pub gpu: Option<u32>,
    /// State: `init`, `running`, `finalize`, `abort`, `no_comm` (its process is not a member yet, or not any
    /// more), `unresponsive` (its process does not answer NCCL), `dead` (NCCL gave it up after 60 s). Null:
    /// not in the answer.
    pub state: Option<RankState>,
    /// First answer in a row with this state and error. Unit: Unix ns.
    pub state_since_ns: u64,
    /// Error of the initialization, or asynchronous error, in the words of NCCL. Null: none.
    pub error: Option<&'static str>,
    /// Operations that others of the communicator have launched and this one has not. Operations that
    /// overtake the query make ranks differ by a few. Unit: operations.
    pub behind: u64,
    /// First answer in a row in which it was behind and had launched nothing more. Unit: Unix ns. Null: it is
    /// not behind.
    pub behind_since_ns: Option<u64>,
    /// Operations that it has launched, as `communicators[].launched`. Unit: operations.
    pub launched: BTreeMap<&'static str, u64>,
    /// Its process on this host, by the number here. Null: on another host, or several processes fit.
    pub local_pid: Option<u32>,
    /// Queue pairs of its process on this host: 16 at most. Empty: on another host, or none is known.
    pub qps: Vec<RankQp>,
    /// Queue pairs of its process that are not listed. Unit: queue pairs.
    pub qps_left_out: u64,
}

/// A queue pair of a rank, as in `devices[].qps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankQp {
    /// RDMA device.
    pub device: String,
    /// Number of the queue pair.
    pub lqpn: u32,
    /// Number of the queue pair at the other end. Null: not connected.
    pub rqpn: Option<u32>,
    /// Address that it sends from. Null: not known.
    pub src: Option<IpAddr>,
    /// Address of the other end. Null: not known.
    pub dst: Option<IpAddr>,
    /// UDP source port of its packets. Null: not known.
    pub udp_port: Option<u16>,
    /// State: `RTS`, `ERR` … Null: not known.
    pub state: Option<&'static str>,
    /// Link that it sends on: the network interface of the device's port. Null: not known.
    pub link: Option<String>,
    /// As `devices[].qps[].stuck_ns`. Unit: ns. Null: as there.
    pub stuck_ns: Option<u64>,
    /// As `devices[].qps[].retries_used`. Unit: retries. Null: as there.
    pub retries_used: Option<u8>,
}

impl NcclRank {
    /// True if the rank differs from the usual: behind, in error, or not running.
    pub fn differs(&self) -> bool {
        let is_usual = matches!(self.state, None | Some(RankState::Running | RankState::Init));
        self.behind > 0 || self.error.is_some() || !is_usual
    }
}

/// Null where NCCL is not asked.
pub(super) fn nccl(sample: &Sample, devices: &[Device]) -> Option<Nccl> {
    let known = sample.nccl.as_deref()?;
    let mut qps = QpsByPid::of(devices);
    let mut room = RankLimit { ranks: MAX_RANKS, left_out: 0 };
    let communicators = known.communicators.iter().map(|one| communicator(one, &mut qps, &mut room));
    let communicators = communicators.filter(|one| !one.ranks.is_empty()).collect();
    let latest = &known.latest;
    Some(Nccl {
        address: known.address.clone(),
        unavailable: known.unavailable.clone(),
        version: latest.version.clone(),
        answers: known.answers,
        failures: known.failures,
        answered_ns: known.answered_ns,
        interval_ns: known.interval_ns,
        collection_ns: latest.collection_ns,
        timeouts: latest.timeouts,
        lists_all_ranks: latest.whole,
        lines_not_understood: latest.not_understood,
        communicators_count: latest.communicators,
        communicators,
        ranks_left_out: room.left_out,
        events: known.events.clone(),
        events_left_out: known.events_left_out,
    })
}

struct RankLimit {
    ranks: usize,
    left_out: u64,
}

fn communicator(one: &entity::Communicator, qps: &mut QpsByPid, room: &mut RankLimit) -> Communicator {
    let mut ranks: Vec<NcclRank> = Vec::new();
    let mut behind_ranks = 0;
    for rank in &one.ranks {
        let found = of(rank, &one.furthest);
        behind_ranks += u64::from(found.behind > 0);
        if !found.differs() && found.local_pid.is_none() {
            continue;
        }
        if room.ranks == 0 {
            room.left_out += 1;
            continue;
        }
        room.ranks -= 1;
        ranks.push(found);
    }
    for rank in &mut ranks {
        let of_rank = rank.local_pid.and_then(|pid| qps.0.get(&pid)).map_or(&[][..], Vec::as_slice);
        rank.qps = of_rank.iter().take(MAX_QPS).cloned().collect();
        rank.qps_left_out = (of_rank.len() - rank.qps.len()) as u64;
    }
    Communicator {
        hash: format!("{:016x}", one.id.hash),
        size: one.size,
        seen_ns: one.seen_ns,
        launched: launched(&one.furthest),
        behind_ranks,
        ranks,
    }
}

fn of(rank: &entity::Rank, furthest: &Launched) -> NcclRank {
    NcclRank {
        rank: rank.rank,
        host: rank.process.host,
        pid: rank.process.pid,
        gpu: rank.gpu,
        state: rank.state,
        state_since_ns: rank.state_since_ns,
        error: rank.error,
        behind: rank.behind(furthest),
        behind_since_ns: rank.behind_since_ns,
        launched: launched(&rank.launched),
        local_pid: rank.local,
        qps: Vec::new(),
        qps_left_out: 0,
    }
}

fn launched(counts: &Launched) -> BTreeMap<&'static str, u64> {
    OPERATIONS.iter().zip(counts).filter_map(|(name, count)| Some((*name, (*count)?))).collect()
}

/// Queue pairs by their process; those in the error state first, then those that stand still longest, then by number.
struct QpsByPid(BTreeMap<u32, Vec<RankQp>>);

impl QpsByPid {
    fn of(devices: &[Device]) -> Self {
        let mut by_pid: BTreeMap<u32, Vec<RankQp>> = BTreeMap::new();
        for device in devices {
            for qp in device.every_qp().filter(|qp| !qp.control.is_over()) {
                let Some(pid) = qp.pid else { continue };
                by_pid.entry(pid).or_default().push(RankQp {
                    device: device.name.clone(),
                    lqpn: qp.lqpn,
                    rqpn: qp.rqpn,
                    src: qp.control.src,
                    dst: qp.control.dst,
                    udp_port: qp.control.udp_port,
                    state: qp.state,
                    link: device.interface.clone(),
                    stuck_ns: qp.stuck_ns,
                    retries_used: qp.retries_used,
                });
            }
        }
        for qps in by_pid.values_mut() {
            qps.sort_by(|a, b| {
                let stuck = |qp: &RankQp| Reverse(qp.stuck_ns.unwrap_or(0));
                let key = |qp: &RankQp| (qp.state != Some("ERR"), stuck(qp), qp.device.clone(), qp.lqpn);
                key(a).cmp(&key(b))
            });
        }
        Self(by_pid)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{DeviceQp, Facts, Options, fixtures};
    use crate::source::nccl::server::example;

    #[test]
    fn ranks_of_this_host_have_the_queue_pairs_of_their_process() {
        let mut sample = fixtures::sample(Vec::new(), Vec::new());
        assert_eq!(Facts::of(&sample, &Options::default()).nccl, None, "it is not asked");
        sample.nccl = Some(Arc::new(example(30, 10)));
        let qp =
            |lqpn, pid, state| DeviceQp { lqpn, pid: Some(pid), state: Some(state), ..DeviceQp::default() };
        let qps = vec![qp(5, 4_711, "RTS"), qp(6, 4_711, "ERR"), qp(7, 18, "RTS")];
        let devices = [Device { name: "mlx5_0".into(), qps, ..Device::default() }];
        let found = nccl(&sample, &devices).unwrap();
        let [one] = &found.communicators[..] else { panic!("{found:?}") };
        assert_eq!((one.hash.as_str(), one.behind_ranks, found.answers), ("000000000000001a", 1, 2));
        assert_eq!(one.launched, BTreeMap::from([("AllReduce", 9)]));
        // Rank 0 is on another host, and healthy.
        let [rank] = &one.ranks[..] else { panic!("{one:?}") };
        assert_eq!((rank.rank, rank.behind, rank.behind_since_ns), (1, 2, Some(10)));
        assert_eq!(rank.qps.iter().map(|qp| qp.lqpn).collect::<Vec<_>>(), [6, 5]);
    }
}
