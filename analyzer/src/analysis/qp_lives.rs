//! Coverage of the kernel's control path, and of all sources of queue pairs.

use serde::Serialize;

use super::{Device, QpSource};
use crate::entity::devices::Devices;
use crate::entity::lives::{Calls, DEVX};

/// Coverage of the kernel's control path: probes of the functions that create, modify and destroy queue pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpLives {
    /// Reason for which queue pairs are not followed. Null: they are.
    pub unavailable: Option<String>,
    /// Verbs seen. Unit: calls.
    pub calls: u64,
    /// Verbs whose result was not seen: the kernel has few places for calls that sleep at once (kretprobe).
    /// Unit: calls.
    pub missed_returns: u64,
    /// Verbs that had not returned yet: one that connects a queue pair waits for the address of its peer. Unit: calls.
    pub under_way: u64,
    /// Records lost because rocescope was late. Unit: records.
    pub dropped: u64,
    /// Runs of probes that the kernel skipped, because another probe or tracing program ran on the same CPU at that
    /// time: at most this number of verbs, events or firmware commands went unseen. Unit: runs. Null: the kernel does
    /// not count them (before 6.7), or the count could not be read.
    pub skipped: Option<u64>,
    /// Queue pairs that there was no room to follow or keep. Unit: queue pairs.
    pub qps_left_out: u64,
    /// Queue pairs that were made and are not listed, because the kernel has no number for them (mlx5's DCT). Unit:
    /// queue pairs.
    pub unnumbered: u64,
    /// Events that there was no room to keep. Unit: events.
    pub events_left_out: u64,
    /// Kernel functions that could not be probed.
    pub absent: Vec<String>,
    /// Fields of the kernel's structures (`ib_qp_attr.timeout` …) that its type information (BTF) does not have: what
    /// they say is null for each queue pair.
    pub absent_fields: Vec<String>,
    /// Reason for which queue pairs that are made past the verbs (DEVX, mlx5) are not followed. Null: they are, from
    /// when the run began: of an older one the next command that modifies it shows a part.
    pub devx_unavailable: Option<String>,
    /// Commands about queue pairs of processes other than within a verb that makes or modifies one: those of such queue
    /// pairs, and the ends of all others. Unit: commands.
    pub commands: u64,
    /// Those whose result was not seen. Unit: commands.
    pub missed_commands: u64,
    /// Lists of all queue pairs of the host that were read (RDMA netlink), for states, processes and settings. Unit:
    /// lists.
    pub lists: u64,
    /// Queue pairs in all of these lists together: for each the kernel queried its device, on mlx5 by a firmware
    /// command. They come on top of `qp_context.answered`. Unit: queries.
    pub list_queries: u64,
    /// Time that the lists took. Lists rest for a hundred times as long as the latest took, at least 0.5 s; if that
    /// is more than 20 s, for 20 s or fifty times as long; for ten times as long after a retry error of the port. Unit:
    /// ns.
    pub lists_ns: u64,
    /// Devices whose queue pairs the kernel did not list at the latest attempt, each with the reason: what was known of
    /// them stays.
    pub unlisted: Vec<String>,
    /// Queue pairs by what is known of them.
    pub sources: QpSources,
}

impl QpLives {
    /// A sentence for each device that did not list its queue pairs.
    pub fn not_listed(&self) -> impl Iterator<Item = String> {
        self.not_listed_by().map(|(_, said)| said)
    }

    /// The same with the device.
    pub fn not_listed_by(&self) -> impl Iterator<Item = (&str, String)> {
        self.unlisted.iter().map(|one| {
            let (device, why) = one.split_once(": ").unwrap_or((one, "reason not known"));
            let said = format!(
                "{device} did not list its queue pairs ({why}): shown as last known; see dmesg and `rdma resource show qp`"
            );
            (device, said)
        })
    }
}

/// Queue pairs by the source of what is known of them; one can be in several. Unit: queue pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpSources {
    /// Listed by RDMA netlink at the latest reading that its device answered.
    pub netlink: u64,
    /// Seen on the kernel's control path, those that ended included.
    pub control_path: u64,
    /// Among those of the control path: made past the verbs.
    pub devx: u64,
    /// With a reading of the NIC's own context.
    pub context: u64,
    /// With work that its process posted, in samples (`post_sampling`).
    pub posts: u64,
    /// With packets in `flows` (source `packets`).
    pub captured: u64,
}

/// Null without RDMA devices.
pub(super) fn lives(devices: &Devices, listed: &[Device]) -> Option<QpLives> {
    let lives = &devices.lives;
    let qps = || listed.iter().flat_map(Device::every_qp);
    let from = |source: QpSource| qps().filter(|qp| qp.sources.contains(&source)).count() as u64;
    let watched =
        !devices.ports.is_empty() && (lives.unavailable.is_some() || lives.calls != Calls::default());
    watched.then(|| QpLives {
        unavailable: lives.unavailable.clone(),
        calls: lives.calls.entered,
        missed_returns: lives.calls.missed_returns,
        under_way: lives.calls.under_way,
        dropped: lives.calls.dropped,
        skipped: lives.calls.skipped,
        qps_left_out: lives.qps_left_out,
        unnumbered: lives.unnumbered,
        events_left_out: lives.events_left_out,
        lists: devices.lists.lists,
        list_queries: devices.lists.queries,
        lists_ns: devices.lists.took_ns,
        unlisted: devices.lists.unlisted.iter().map(|(device, why)| format!("{device}: {why}")).collect(),
        absent: lives.calls.absent.iter().map(|(function, why)| format!("{function}: {why}")).collect(),
        absent_fields: lives.calls.absent_fields.clone(),
        devx_unavailable: lives.calls.devx_unavailable.clone().or_else(|| lives.unavailable.clone()),
        commands: lives.calls.commands,
        missed_commands: lives.calls.missed_commands,
        sources: QpSources {
            netlink: devices.ports.iter().map(|port| port.qps.len() as u64 + port.qps_left_out).sum(),
            control_path: lives.qps.len() as u64,
            devx: lives.qps.iter().filter(|life| life.origin == Some(DEVX)).count() as u64,
            context: devices.contexts.qps.len() as u64,
            posts: from(QpSource::Posts),
            captured: from(QpSource::Packets),
        },
    })
}
