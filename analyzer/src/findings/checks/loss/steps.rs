//! Steps to take against loss on one side of a tap.

use super::Side;
use crate::analysis::Flow;
use crate::findings::command::{class_of, ethernet, is_best_effort, priority};
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
    let names = links.join(", ");
    if ours {
        let which = if links.len() > 1 { format!("NIC ports {names}") } else { "this NIC port".to_owned() };
        let text = format!("Check {which} for discards, buffer drops and link errors.");
        raise = raise.step(text, Commands::on_each(input, links).nic_counters());
    }
    let each = Commands::on_each(input, links).of_priority(priority(flow));
    let several = links.len() > 1 && each.are_here();
    let (of, commands) = if several { (format!(" of {names}"), each) } else { (String::new(), near) };
    raise = raise.step(
        format!(
            "Check the drop, discard and FEC counters of each switch port between this tap and {all}{port}."
        ),
        ByHand::Switch,
    );
    raise = of_class(raise, flow, (&of, commands), "at every hop");
    raise.step(format!("Check port discards on {far}."), there.nic_counters())
}

/// Adds the steps about the priority of a flow, for some ports with their words. Traffic without a class of its own
/// gets one: PFC on its priority would pause all other traffic, too.
pub(super) fn of_class(raise: Raise, flow: &Flow, (of, commands): (&str, Commands<'_>), at: &str) -> Raise {
    if is_best_effort(flow) {
        let ecn = if flow.ecn_data().capable() == 0 { ", ECN off" } else { "" };
        return raise
            .step(
                format!("RoCE runs as best effort (DSCP 0{ecn}): mark it with the DSCP of the fabric's lossless class, such as 26 (NCCL_IB_TC=106, cma_roce_tos)."),
                ethernet(ByHand::Job),
            )
            .step(
                format!(
                    "Check that the NIC trusts the DSCP and maps it to the priority that has PFC{of}; enable no PFC on priority 0, which other traffic uses."
                ),
                commands.qos(),
            );
    }
    raise.step(format!("Check that PFC is enabled for {} {at}{of}.", class_of(flow)), commands.pfc()).step(
        format!("Check trust mode and DSCP-to-priority mapping{of} (NCCL_IB_TC sets the DSCP)."),
        commands.qos(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::everything;
    use crate::analysis::{Ecn, Facts, Options};
    use crate::findings::Severity;

    /// PFC on the priority of all other traffic would pause that, too.
    #[test]
    fn best_effort_gets_a_class_before_pfc() {
        let steps = |dscp: u8, Ecn { not_ect, ect1, ect0, ce }: Ecn| {
            let facts = Facts::of(&everything(), &Options::default());
            let data = Some([not_ect, ect1, ect0, ce]).into();
            let flow = Flow { dscp: Some(dscp), pcp: None, data, ..facts.flows[0].clone() };
            let ports = ("", Commands::of_host(flow.src));
            let mut found = Vec::new();
            let raise = Raise::new(&super::super::UPSTREAM, Severity::Warning, String::new());
            of_class(raise, &flow, ports, "at every hop").into(&mut found);
            found.remove(0).steps.into_iter().map(|step| step.text).collect::<Vec<_>>()
        };
        let off = Ecn { not_ect: 9, ..Ecn::default() };
        let best_effort = steps(0, off);
        assert!(best_effort[0].starts_with("RoCE runs as best effort (DSCP 0, ECN off)"), "{best_effort:?}");
        assert!(!best_effort.iter().any(|text| text.contains("PFC is enabled")), "{best_effort:?}");
        let on = Ecn { ect0: 9, ..Ecn::default() };
        assert!(steps(0, on)[0].starts_with("RoCE runs as best effort (DSCP 0):"));
        assert!(
            steps(26, off)[0].starts_with("Check that PFC is enabled for priority 3 (DSCP 26) at every hop")
        );
    }
}
