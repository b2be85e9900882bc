//! Findings about InfiniBand: steps that only Ethernet has are replaced.

use super::Finding;
use super::finding::Step;

/// Words of steps that make no sense on InfiniBand, which has credits instead of pauses and service levels instead of DSCPs.
const OF_ETHERNET: [&str; 8] = ["PFC", "DSCP", "NCCL_IB_TC", "802.1p", "VLAN", "4791", "MAC table", "ARP"];

/// Replaces the steps of Ethernet by one about the counters that InfiniBand has.
pub(super) fn adapt(found: &mut [Finding]) {
    for finding in found {
        let before = finding.steps.len();
        finding.steps.retain(|step| !OF_ETHERNET.iter().any(|word| step.text.contains(word)));
        if finding.steps.len() < before {
            finding.steps.push(Step {
                text: "Check the error and congestion counters of each port on the path (perfquery -x: SymbolErrorCounter, \
                       PortRcvErrors, PortXmitDiscards, PortXmitWait), and the mapping of service levels to virtual lanes."
                    .to_owned(),
                command: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;

    #[test]
    fn steps_of_ethernet_make_room_for_one_of_infiniband() {
        let step = |text: &str| Step { text: text.to_owned(), command: None };
        let mut found = [Finding::new("loss.before_tap", Severity::Warning, String::new())];
        found[0].steps = vec![
            step("Check the drop, discard and FEC counters."),
            step("Check that PFC is enabled."),
            step("Check trust mode and DSCP-to-priority mapping (NCCL_IB_TC sets the DSCP)."),
        ];
        adapt(&mut found);
        let texts: Vec<&str> = found[0].steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!((texts.len(), texts[0]), (2, "Check the drop, discard and FEC counters."));
        assert!(texts[1].contains("PortXmitWait"));
        let once = found[0].steps.clone();
        adapt(&mut found);
        assert_eq!(found[0].steps, once);
    }
}
