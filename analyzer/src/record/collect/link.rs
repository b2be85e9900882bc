//! Rows of links.

use std::collections::BTreeMap;

use rocescope_common::abi::Counter;
use rocescope_common::wire::SkipReason;

use super::{Interval, Origin, json, text};
use crate::analysis::{Device, Link, Pause};
use crate::record::registry::{FlowSecond, LinkSecond, Rows};
use crate::report::Report;
use crate::sample::{Direction, Sample};
use crate::util::shared::Shared;

type Key = (Shared, Option<Direction>);

/// Counts of a link at the latest report: packets, bytes, ECN-capable, CE, CNPs, skipped frames, bursts, pauses and
/// paused time.
type Counts = [u64; 9];
/// Frames of a link that are not RoCE, by reason, at the latest report.
type Skipped = [Counter; SkipReason::COUNT];

/// Links of the latest report.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<Key, LatestLink>);

/// Interval between two rows of a link without packets: that it is idle is a fact, too.
const EVERY_NS: u64 = 60_000_000_000;

#[derive(Debug, Default)]
struct LatestLink {
    counts: Counts,
    skipped: Skipped,
    /// Time of its latest row.
    recorded_ns: Option<u64>,
}

/// Sums over the flows of a link in an interval.
#[derive(Default)]
struct FlowSums {
    flows: u64,
    packets: u64,
    losses: [Option<i64>; 4],
}

impl FlowSums {
    fn add(&mut self, flow: &FlowSecond) {
        self.flows += u64::from(flow.packets > 0);
        self.packets += flow.packets;
        let new = [flow.lost, flow.reordered, flow.retransmitted, flow.timeouts];
        for (sum, new) in self.losses.iter_mut().zip(new) {
            *sum = [*sum, new].into_iter().flatten().reduce(i64::saturating_add);
        }
    }
}

impl Links {
    /// Adds the rows of the links, given the rows of their flows. Returns the number of RoCE packets that are in no
    /// flow row.
    #[expect(clippy::too_many_lines, reason = "a line for each column")]
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        sample: &Sample,
        report: &Report,
        rails: &BTreeMap<&str, Shared>,
        rows: &mut Rows,
    ) -> u64 {
        let mut sums: BTreeMap<Key, FlowSums> = BTreeMap::new();
        for flow in &rows.flow_seconds {
            sums.entry((flow.link.clone(), flow.direction)).or_default().add(flow);
        }
        let mut unrecorded = 0;
        for link in &report.facts.links {
            let key: Key = (link.name.as_str().into(), link.direction);
            let sum = sums.remove(&key).unwrap_or_default();
            let same = |name: &str, direction| name == link.name && direction == link.direction;
            let counted = sample.links.iter().find(|one| same(&one.name, one.direction));
            let burst = report.facts.bursts.iter().flatten().find(|one| same(&one.link, one.direction));
            let pauses = Pauses::of(link, report);
            let now: Counts = [
                link.packets,
                link.bytes,
                link.ecn_data.capable(),
                link.ecn_data.ce,
                link.cnp_packets,
                counted.map_or(0, |link| link.skipped.iter().map(|skipped| skipped.packets).sum()),
                burst.map_or(0, |burst| burst.bursts),
                pauses.frames.unwrap_or(0),
                pauses.ns.unwrap_or(0),
            ];
            let skipped_now = counted.map(|link| link.skipped).unwrap_or_default();
            let known = self.0.entry(key.clone()).or_default();
            let before = std::mem::replace(&mut known.counts, now);
            let skipped_before = std::mem::replace(&mut known.skipped, skipped_now);
            let [packets, bytes, ecn_capable, ce, cnp_packets, skipped, bursts, pause_frames, pause_ns] =
                std::array::from_fn(|at| now[at].saturating_sub(before[at]));
            unrecorded += packets.saturating_sub(sum.packets);
            let is_idle = packets == 0 && skipped == 0 && sum.flows == 0 && pause_frames == 0;
            let is_recent = known.recorded_ns.is_some_and(|last_ns| at.t.0.abs_diff(last_ns) < EVERY_NS);
            if is_idle && (is_recent || !is_used(link, report)) {
                continue;
            }
            known.recorded_ns = Some(at.t.0);
            let in_interval =
                burst.filter(|burst| (at.from_ns..=at.t.0).contains(&burst.peak_ns) && at.ns > 0);
            let incast = report.facts.incast.as_ref().map(|all| {
                let here = all.iter().filter(|one| same(&one.link, one.direction));
                here.map(|one| one.senders_max).max().unwrap_or(0)
            });
            let [lost, reordered, retransmitted, timeouts] = sum.losses;
            let (neighbour_system, neighbour_port) = neighbour(link);
            rows.link_seconds.push(LinkSecond {
                t: at.t,
                interval_ns: at.ns,
                host: origin.host.clone(),
                job: origin.job.clone(),
                rail: rails.get(link.name.as_str()).cloned(),
                link: key.0,
                direction: link.direction,
                speed_bps: counted
                    .and_then(|link| link.speed_mbps)
                    .map(|mbps| mbps.saturating_mul(1_000_000)),
                packets,
                bytes,
                ecn_capable,
                ce,
                cnp_packets,
                skipped,
                flows: sum.flows,
                lost,
                reordered,
                retransmitted,
                timeouts,
                peak_bytes: in_interval.map(|burst| burst.peak_bytes),
                bin_ns: burst.map(|burst| burst.bin_ns),
                bursts: burst.map(|_| bursts),
                incast_senders: incast,
                neighbour_system,
                neighbour_port,
                pause_frames: pauses.frames.map(|_| pause_frames),
                pause_ns: pauses.ns.map(|_| pause_ns),
                skipped_json: reasons(&skipped_now, &skipped_before),
            });
        }
        unrecorded
    }
}

/// True for a link that is to carry RoCE: one that did, one with a connected queue pair, a capture that the user named.
/// A host may have ports that no job uses.
fn is_used(link: &Link, report: &Report) -> bool {
    let is_connected = |device: &Device| {
        device.interface.as_deref() == Some(link.name.as_str())
            && device.qps.iter().any(|qp| qp.state == Some("RTS"))
    };
    link.packets > 0 || link.direction.is_none() || report.facts.devices.iter().any(is_connected)
}

/// Frames since `before` by reason, with their bytes, in JSON; `None` without any.
fn reasons(now: &Skipped, before: &Skipped) -> Option<Shared> {
    let of_reason = SkipReason::ALL.iter().zip(now.iter().zip(before)).map(|(reason, (now, before))| {
        let packets = now.packets.saturating_sub(before.packets);
        (reason.name(), packets, now.bytes.saturating_sub(before.bytes))
    });
    let new = of_reason.filter(|(_, packets, _)| *packets > 0);
    json(new.map(|(reason, packets, bytes)| (reason, serde_json::json!([packets, bytes]))))
}

/// Pauses that stop one direction of a link, over all priorities.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    frames: Option<u64>,
    ns: Option<u64>,
}

impl Pauses {
    /// From the port's counters on a live link, or from the frames in a capture.
    fn of(link: &Link, report: &Report) -> Self {
        let mut sum = Self::default();
        let mut add = |pause: &Pause| {
            let more = |sum: &mut Option<u64>, new: Option<u64>| {
                *sum = [*sum, new].into_iter().flatten().reduce(u64::saturating_add);
            };
            more(&mut sum.frames, pause.frames);
            more(&mut sum.ns, pause.paused_ns);
        };
        let stops = match link.direction {
            None => {
                link.pause.iter().flatten().for_each(add);
                return sum;
            }
            Some(Direction::Egress) => "received",
            Some(Direction::Ingress) => "sent",
        };
        let is = |name: &str| name == link.name;
        let carries = |device: &&Device| {
            device.interface.as_deref().is_some_and(is) || device.members.iter().any(|name| is(name))
        };
        let pauses = report.facts.devices.iter().filter(carries).flat_map(|device| &device.pause);
        pauses.filter(|pause| pause.direction == Some(stops)).for_each(&mut add);
        sum
    }
}

/// Switch and port at the other end; the first of several.
fn neighbour(link: &Link) -> (Option<Shared>, Option<Shared>) {
    let Some(one) = link.neighbours.first() else { return (None, None) };
    (
        text(one.system.as_deref().or(one.chassis.as_deref())),
        text(one.port.as_deref().or(one.port_description.as_deref())),
    )
}
