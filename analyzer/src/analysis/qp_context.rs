//! The NIC's own contexts of queue pairs, and their coverage.

use serde::Serialize;

use super::{DeviceQp, QpSource};
use crate::entity::contexts::{Blamed, ContextSample, RawContext};
use crate::entity::devices::Devices;
use crate::entity::lives::timeout_ns;

/// Coverage of the NIC's own contexts of queue pairs, and what the queries cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QpContexts {
    /// Source of the contexts: `RES_QP_GET_RAW` (RDMA netlink), `fwctl` (`--fwctl`), or both. Null: no context was
    /// read.
    pub how: Option<&'static str>,
    /// Queue pairs whose context was read. Unit: queue pairs.
    pub queried: u64,
    /// Connected queue pairs of the watched ports. Unit: queue pairs.
    pub of: u64,
    /// Limit of the queries (`--qp-queries`). Unit: queries/s.
    pub at_most: u32,
    /// Queries that were answered. Unit: queries.
    pub answered: u64,
    /// Queries that were refused, or whose answer could not be decoded. Unit: queries.
    pub failed: u64,
    /// Mean duration of a query. Unit: ns. Null: no query.
    pub mean_ns: Option<u64>,
    /// Longest query. Unit: ns. Null: no query.
    pub longest_ns: Option<u64>,
    /// Devices that are not asked any more, each with the reason.
    pub refused: Vec<String>,
    /// Contexts that were read and could not be decoded: the latest of each device.
    pub undecoded: Vec<RawContext>,
}

impl QpContexts {
    /// True unless every query was refused or failed.
    pub fn works(&self) -> bool {
        self.queried > 0 || (self.refused.is_empty() && self.failed == 0)
    }
}

/// Null without RDMA devices, and where nothing is asked.
pub(super) fn coverage(devices: &Devices) -> Option<QpContexts> {
    let cost = &devices.contexts.queries;
    let asked = cost.answered + cost.failed;
    (!devices.ports.is_empty() && cost.per_second > 0).then(|| QpContexts {
        how: (cost.queried > 0).then_some(match (cost.by_firmware, cost.answered - cost.by_firmware) {
            (0, _) => "RES_QP_GET_RAW",
            (_, 0) => "fwctl",
            _ => "RES_QP_GET_RAW, fwctl",
        }),
        queried: cost.queried,
        of: cost.of,
        at_most: cost.per_second,
        answered: cost.answered,
        failed: cost.failed,
        mean_ns: cost.took_ns.checked_div(asked),
        longest_ns: (asked > 0).then_some(cost.longest_ns),
        refused: cost.refused.iter().map(|(device, why)| format!("{device}: {why}")).collect(),
        undecoded: cost.undecoded.clone(),
    })
}

impl DeviceQp {
    /// True if the packets are those of this context: no list has any, or its count is a lower bound and this one is
    /// not.
    fn has_packets_of(&self, of: &ContextSample) -> bool {
        let is_better = of.ambiguous == 0
            && self.ambiguous_readings.is_some_and(|own| own > 0)
            && of.sent.or(of.received).is_some();
        self.sent_packets.or(self.received_packets).is_none() || is_better
    }

    /// Notes which source each figure has once this context is added to what other sources have shown; an empty one for
    /// a queue pair without.
    pub(super) fn note_sources(&mut self, of: &ContextSample) {
        let is_other = |source: &&QpSource| matches!(source, QpSource::ControlPath | QpSource::Devx);
        let other = self.sources.iter().find(is_other).copied();
        let (context, control) = (&of.context, &self.control);
        let own = |has: bool| has.then_some(QpSource::Context);
        let others = |has: bool| other.filter(|_| has);
        let listed = |has: bool| has.then_some(QpSource::Netlink);
        // Both directions have one source.
        let is_own = self.has_packets_of(of);
        let packets = |known: Option<u64>, read: Option<u64>| {
            if is_own { own(read.is_some()) } else { listed(known.is_some()) }
        };
        // A port that a command set has its source already, and so has what the list and another source have.
        let noted = |name: &str| self.figure_sources.get(name).copied();
        let port = noted("udp_port").or(others(control.udp_port.is_some()));
        let known = |name: &str, has: bool| noted(name).or(others(has)).or(listed(has));
        let peer = context.rqpn.is_some_and(|qpn| qpn != 0);
        // The first of them that has it, as in `add_context`.
        let all = [
            ("state", known("state", self.state.is_some()).or(own(context.state.is_some()))),
            ("rqpn", known("rqpn", self.rqpn.is_some()).or(own(peer))),
            ("src", others(control.src.is_some()).or(own(of.src.is_some()))),
            ("dst", others(control.dst.is_some()).or(own(context.dst.is_some()))),
            ("udp_port", own(context.udp_port.is_some()).or(port)),
            ("flow_label", others(control.flow_label.is_some()).or(own(context.flow_label.is_some()))),
            ("dscp", own(context.dscp.is_some()).or(others(control.dscp.is_some()))),
            ("path_mtu", others(control.path_mtu.is_some()).or(own(context.path_mtu.is_some()))),
            ("timeout_ns", others(control.timeout_ns.is_some()).or(own(context.timeout.is_some()))),
            ("retry_cnt", others(control.retry_cnt.is_some()).or(own(context.retry_cnt.is_some()))),
            ("rnr_retry", others(control.rnr_retry.is_some()).or(own(context.rnr_retry.is_some()))),
            ("priority", own(context.priority.is_some()).or(others(self.priority.is_some()))),
            (
                "adaptive_routing",
                own(context.adaptive_routing.is_some()).or(others(self.adaptive_routing.is_some())),
            ),
            ("plane", own(context.plane.is_some()).or(others(self.plane.is_some()))),
            ("bond_port", own(context.bond_port.is_some()).or(others(self.bond_port.is_some()))),
            ("sent_packets", packets(self.sent_packets, of.sent)),
            ("received_packets", packets(self.received_packets, of.received)),
        ];
        self.figure_sources = all.into_iter().filter_map(|(name, source)| Some((name, source?))).collect();
    }

    /// Takes over what the NIC's own context says. Settings come from the control path first: they are as the
    /// application requested.
    pub(super) fn add_context(&mut self, of: &ContextSample) {
        let context = &of.context;
        self.note_sources(of);
        self.sources.push(QpSource::Context);
        self.rqpn = self.rqpn.or(context.rqpn.filter(|qpn| *qpn != 0));
        self.state = self.state.or(context.state);
        let control = &mut self.control;
        control.src = control.src.or(of.src);
        control.dst = control.dst.or(context.dst);
        // The NIC's own values come first here: a firmware may replace what was asked for.
        control.udp_port = context.udp_port.or(control.udp_port);
        control.flow_label = control.flow_label.or(context.flow_label);
        control.dscp = context.dscp.or(control.dscp);
        control.path_mtu = control.path_mtu.or(context.path_mtu);
        control.timeout_ns = control.timeout_ns.or(context.timeout.map(timeout_ns));
        control.retry_cnt = control.retry_cnt.or(context.retry_cnt);
        control.rnr_retry = control.rnr_retry.or(context.rnr_retry);
        if self.has_packets_of(of) {
            (self.sent_packets, self.received_packets) = (of.sent, of.received);
            self.ambiguous_readings = of.sent.or(of.received).map(|_| of.ambiguous);
        }
        self.context_ns = Some(of.read_ns);
        self.context_steady_ns = of.read_steady_ns;
        self.context_readings = Some(of.readings);
        self.priority = context.priority.or(self.priority);
        self.adaptive_routing = context.adaptive_routing.or(self.adaptive_routing);
        self.plane = context.plane.or(self.plane);
        self.bond_port = context.bond_port.or(self.bond_port);
        self.in_flight = of.in_flight;
        self.stuck_ns = of.stuck_ns;
        self.unsent_wqes = context.unsent;
        self.posted_receives = context.posted_receives;
        self.retries_used = of.retries_used;
        self.rnr_retries_used = of.rnr_retries_used;
        self.retrying_readings = of.retries_used.map(|_| of.retrying);
        self.rnr_retrying_readings = of.rnr_retries_used.map(|_| of.rnr_retrying);
        self.exhausted_readings = context.posted_receives.map(|_| of.receives_exhausted);
        self.context_times = (!of.times.is_empty()).then(|| Box::new(of.times.clone()));
        self.timeouts = of.blamed.map(|blamed| blamed.timeouts);
        self.sequence_errors = of.blamed.map(|blamed| blamed.sequence_errors);
        self.attribution = of.blamed.map(|Blamed { certain, .. }| if certain { "certain" } else { "likely" });
    }
}
