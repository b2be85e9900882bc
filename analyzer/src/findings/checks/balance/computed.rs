//! Balance of queue pairs of which no packet is seen: their 5-tuples are computed, or the NIC's contexts have them.

use super::whole;
use crate::analysis::{Device, QpPaths};
use crate::findings::{Commands, End, Finding, Input, Place, Raise};
use crate::sample::{Address, Direction};
use crate::util::units;

/// Paths of queue pairs of which no packet is seen.
#[derive(Clone, Copy)]
pub(super) struct Computed<'a>(pub(super) &'a QpPaths);

impl Computed<'_> {
    /// Says where 5-tuples and weights come from.
    pub(super) fn mark(self, raise: Raise) -> Raise {
        let Self(paths) = self;
        let weight = if paths.is_by_bytes() {
            "each queue pair weighs PSNs sent × path MTU, an upper bound of its bytes"
        } else {
            "each queue pair weighs the same, since the bytes of some are not known"
        };
        raise
            .evidence("weighted_by", paths.weighted_by)
            // That of packets of the same direction is another finding.
            .place(Place { direction: Some(Direction::Egress), ..Place::default() })
            .caveat(format!(
                "No packet of these queue pairs is seen: source ports are computed as the driver does, or are those of the \
                 NIC's contexts, known of {} of {} queue pairs; {weight}.",
                units::count(paths.known),
                units::count(paths.qps)
            ))
    }

    /// The same for one sending address, with its port.
    pub(super) fn of_host(self, input: &Input<'_>, raise: Raise, host: Address) -> Raise {
        let sends = |device: &&Device| {
            device.every_qp().any(|qp| qp.control.src.is_some_and(|src| Address::from(src) == host))
        };
        let interface = input.facts.devices.iter().find(sends).and_then(|device| device.interface.as_deref());
        let raise = self.mark(raise);
        let raise = match interface {
            Some(name) => raise.place(Place::link(input, name, Some(Direction::Egress))),
            None => raise,
        };
        raise.ends(Some(End { addr: host, qpn: None, pid: None, comm: None, pod: None }), None)
    }
}

/// Rails, else ports, of which one carries far more than the mean of the queue pairs' bytes. Queue pairs whose bytes
/// are not known are no load.
pub(super) fn balance(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(paths) = &input.facts.qp_paths else { return };
    let rails = paths.rails.as_ref().map(|balance| (balance, "rails"));
    let Some((balance, what)) = rails.or_else(|| Some((paths.ports.as_ref()?, "ports"))) else { return };
    if !balance.is_by_bytes() {
        return;
    }
    let parts: Vec<_> = balance
        .parts
        .iter()
        .map(|part| (part.sent_packets.unwrap_or(0), part.load, part.name.as_str()))
        .collect();
    let Some(uneven) = whole(input, &parts, None, balance.max_over_mean, what) else { return };
    let busiest = uneven.busiest.clone();
    let is_port = |device: &&Device| format!("{}/{}", device.name, device.port.unwrap_or(0)) == busiest;
    let interface = input.facts.devices.iter().find(is_port).and_then(|device| device.interface.as_deref());
    let place =
        interface.map_or_else(Place::default, |name| Place::link(input, name, Some(Direction::Egress)));
    let here = Commands::on(input, interface.unwrap_or(""));
    uneven
        .without_flows(input, place)
        .port((what == "ports").then_some(busiest))
        .evidence("jain", balance.jain)
        .evidence("weighted_by", balance.weighted_by)
        .caveat(
            "No packet of these queue pairs is seen: each weighs PSNs sent × path MTU, an upper bound of its bytes, and is on \
             the port that its device names.",
        )
        .step("List the queue pairs of each port with their processes.", here.queue_pairs())
        .step(
            "Check NCCL_IB_HCA, NCCL_CROSS_NIC and the GPU to NIC assignment.",
            here.nccl_settings(),
        )
        .into(found);
}
