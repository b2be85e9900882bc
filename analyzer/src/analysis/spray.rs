//! Queue pairs whose packets take several paths on purpose: multipath transports, packet spraying, adaptive routing.

use serde::Serialize;

use super::facts::Port;
use super::paths::parts;
use super::{Flow, Loss};
use crate::sample::{FlowSample, Sample};
use crate::util::definition::definitions;
use crate::util::map::Map;

definitions! {
    PORTS: u64 = 4,
        "Minimum source ports of a queue pair, for its packets to take several paths",
        "A connection that is made again changes its port once";
    BUSIEST: f64 = 0.5,
        "Maximum share of a queue pair's packets with the busiest of its source ports, for them to take several paths",
        "Ports that a sender alternates between are used alike";
    LATE: u64 = 16,
        "Minimum packets of a queue pair out of order, for them to take several paths",
        "A path that changes once has fewer";
    LATE_SHARE: f64 = 0.01,
        "Minimum share of a queue pair's packets out of order, for them to take several paths",
        "As the minimum number";
}

/// Spreading of the packets of a queue pair over paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spray {
    /// UDP source ports that its packets alternate between: at least 4, none with more than half of the packets. Unit:
    /// ports. Null: one port, or ports that changed with the connection.
    pub src_ports: Option<u64>,
    /// Planes: links that carry a part of its packets each, or outer destinations of its tunnels, at most 64; whichever
    /// are more. Unit: planes. Null: one, or not known. Live: links alone are known.
    pub planes: Option<u64>,
    /// Largest distance of a packet out of order behind the PSN expected then. Unit: PSNs. Null: none was out of order,
    /// or as `loss`.
    pub reordering_depth: Option<u64>,
    /// Packets that a switch trimmed instead of dropping them: FIRST or MIDDLE packets shorter than the path MTU, the
    /// last packets of WRITEs shorter than what is left of them, other last packets with the DSCP of trimmed packets,
    /// or frames shorter than the payload that their headers state. Unit: packets. Null: live.
    pub trimmed: Option<u64>,
}

impl Flow {
    /// Its packets that a switch trimmed, as far as it is known.
    pub(crate) fn trimmed_packets(&self) -> u64 {
        self.spray.as_deref().and_then(|spray| spray.trimmed).unwrap_or(0)
    }
}

/// Links that carry a part of a queue pair's packets each, by slot of the flows there.
#[derive(Debug, Default)]
pub(super) struct Planes(Map<u32, u64>);

impl Planes {
    pub(super) fn of(sample: &Sample) -> Self {
        let slot = |at: usize| sample.flows.get(at).map(|flow| flow.slot);
        Self(parts(sample).into_iter().filter_map(|(at, links)| Some((slot(at)?, links))).collect())
    }

    /// Spreading of the packets of a flow; `None` if there is no evidence of any.
    pub(super) fn spray(
        &self,
        sample: &Sample,
        flow: &FlowSample,
        (src_port_count, src_ports): (Option<u64>, &[Port]),
        losses: &[Option<Loss>; 2],
    ) -> Option<Spray> {
        let FlowSample { slot, stats, .. } = flow;
        let share = |packets: u64, of: f64| packets as f64 <= stats.packets as f64 * of;
        let busiest = src_ports.iter().map(|port| port.packets).max().unwrap_or(0);
        let restarts = stats.psn.restarts + stats.rare.psn_responses.restarts;
        let alternate =
            |ports: &u64| *ports >= PORTS && share(busiest, BUSIEST) && restarts.saturating_mul(2) < *ports;
        let known = sample.metrics.spray.as_ref();
        let outer = known.and_then(|known| known.planes.get(slot)).copied();
        let recovered: u64 = losses.iter().flatten().map(|loss| loss.recovered).sum();
        // Few flows have any.
        let reordered = sample.metrics.loss.as_ref().filter(|_| recovered > 0).map(|loss| loss.flow(*slot));
        let sequences = reordered.into_iter().flat_map(|loss| [loss.requests, loss.responses]).flatten();
        let depth = sequences.map(|sequence| sequence.depth).max();
        let spray = Spray {
            src_ports: src_port_count.filter(alternate),
            planes: outer.max(self.0.get(slot).copied()).filter(|planes| *planes > 1),
            reordering_depth: depth.filter(|depth| *depth > 0).map(u64::from),
            trimmed: known.map(|known| known.trimmed.get(slot).copied().unwrap_or(0)),
        };
        let is_reordered = recovered >= LATE && !share(recovered, LATE_SHARE);
        let is =
            spray.src_ports.is_some() || spray.planes.is_some() || spray.trimmed > Some(0) || is_reordered;
        is.then_some(spray)
    }
}
