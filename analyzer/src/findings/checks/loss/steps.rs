//! Steps to take against loss on one side of a tap.

use super::Side;
use crate::analysis::Flow;
use crate::findings::command::{class_of, priority};
use crate::findings::{ByHand, Commands, Input, Place, Raise};
use crate::sample::Direction;
use crate::util::units::plural;

/// Adds the steps for links on which one of this many hosts loses the packets of a flow.
pub(super) fn steps(
    mut raise: Raise,
    input: &Input<'_>,
    side: Side,
    links: &[&str],
    (flow, hosts): (&Flow, usize),
) -> Raise {
    let port = Place::links(input, links, flow.direction)
        .switch_port
        .map_or_else(String::new, |port| format!(" ({port})"));
    let far = side.far(&flow.src, &flow.dst);
    let others = hosts.saturating_sub(1) as u64;
    let all =
        if others == 0 { far.to_string() } else { format!("{far} and {}", plural(others, "more host")) };
    // The port of this host is on the side that frames come from, or go to.
    let ours = match flow.direction {
        Some(Direction::Ingress) => side == Side::Upstream,
        Some(Direction::Egress) => side == Side::Downstream,
        None => false,
    };
    // What holds for the whole path is asked of the sender, on whichever side the loss is.
    let (near, there) = (Commands::near(input, flow, flow.src), Commands::at(input, flow, far));
    // Each port has counters, and a command, of its own.
    for link in links.iter().filter(|_| ours) {
        let which = if links.len() > 1 { format!("port {link}") } else { "this port".to_owned() };
        let text = format!("Check {which} for discards, buffer drops and link errors.");
        raise = raise.step(text, Commands::on(input, link).nic_counters());
    }
    // And settings.
    let each = links.iter().map(|link| Commands::on(input, link).of_priority(priority(flow)));
    let mut ports: Vec<_> = links.iter().map(|link| format!(" of {link}")).zip(each).collect();
    if links.len() < 2 || !ports.iter().all(|(_, commands)| commands.are_here()) {
        ports = vec![(String::new(), near)];
    }
    raise = raise.step(
        format!(
            "Check the drop, discard and FEC counters of each switch port between this tap and {all}{port}."
        ),
        ByHand::Switch,
    );
    for (of, commands) in &ports {
        let text = format!("Check that PFC is enabled for {} at every hop{of}.", class_of(flow));
        raise = raise.step(text, commands.pfc());
    }
    for (of, commands) in &ports {
        let text = format!("Check trust mode and DSCP-to-priority mapping{of} (NCCL_IB_TC sets the DSCP).");
        raise = raise.step(text, commands.qos());
    }
    raise.step(format!("Check port discards on {far}."), there.nic_counters())
}
