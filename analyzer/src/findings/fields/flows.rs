//! The flows of a finding in a line.

use std::fmt::Write as _;

use super::{FLOWS, NEXT, listed};
use crate::analysis::link_name;
use crate::findings::Finding;
use crate::util::units::plural;

/// The first flows of a finding with the queue pairs at both ends, the source as far as it is known, and the number of
/// the others. Hosts and link are named when they change.
pub(super) fn flows(finding: &Finding) -> Option<String> {
    let mut before = (None, finding.place.link.as_ref().map(|link| (link.as_str(), finding.place.direction)));
    let one = |(at, flow): (usize, &crate::analysis::FlowId)| {
        let hosts = (flow.src, flow.dst);
        let [src, dst] = match before.0.replace(hosts) {
            Some(known) if known == hosts => [String::new(), String::new()],
            _ => [format!("{} ", flow.src), format!("{} ", flow.dst)],
        };
        let source = finding.subject.source_qps.get(at).copied().flatten();
        let source = source.map_or_else(|| src.clone(), |qp| format!("{src}QP {qp} "));
        let arrow = if source.is_empty() { "" } else { "→ " };
        let mut text = format!("{source}{arrow}{dst}QP {}", flow.dest_qp);
        if before.1 != Some((flow.link.as_str(), flow.direction)) {
            let _ = write!(text, " on {}", link_name(&flow.link, flow.direction));
        }
        text
    };
    let mut named: Vec<String> = finding.flows.iter().take(FLOWS).enumerate().map(one).collect();
    let more = finding.flow_count().saturating_sub(named.len() as u64);
    if more > 0 {
        named.push(plural(more, "more flow"));
    }
    listed(named.into_iter().map(Some), NEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::FlowId;
    use crate::findings::Severity;

    #[test]
    fn flows_name_hosts_and_link_where_they_change_and_queue_pairs_at_both_ends() {
        let mut one = Finding::new("loss.before_tap", Severity::Warning, String::new());
        one.place.link = Some("h1.pcap".into());
        let flow = |dest_qp, link: &str| FlowId {
            link: link.into(),
            direction: None,
            src: "10.0.0.1".parse().unwrap(),
            dst: "10.0.0.2".parse().unwrap(),
            dest_qp,
        };
        one.flows = vec![flow(1, "h1.pcap"), flow(2, "h1.pcap"), flow(3, "h2.pcap"), flow(4, "h2.pcap")];
        let text = "10.0.0.1 → 10.0.0.2 QP 1 · QP 2 · QP 3 on h2 · 1 more flow";
        assert_eq!(flows(&one).as_deref(), Some(text), "from a recording");
        one.subject.source_qps = vec![Some(11), Some(12), None, None];
        let text = "10.0.0.1 QP 11 → 10.0.0.2 QP 1 · QP 12 → QP 2 · QP 3 on h2 · 1 more flow";
        assert_eq!(flows(&one).as_deref(), Some(text));
    }
}
