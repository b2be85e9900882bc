//! Which losses upstream may be reordering, in the words of the findings.

use crate::analysis::Flow;
use crate::analysis::loss::{TapContext, Upstream};
use crate::findings::Finding;
use crate::report::Report;
use crate::sample::Direction;
use crate::util::map::{Map, Set};

/// The findings about loss upstream, each with the names of its links.
pub(super) struct Doubts<'a>(Vec<(&'a Finding, Set<&'a str>)>);

impl<'a> Doubts<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let own = report.findings.iter().filter(|one| one.id == "loss.before_tap");
        Self(own.map(|one| (one, one.place.names().collect())).collect())
    }

    /// Lost upstream of a flow's tap; it may all be reordering where the findings that name the flow there say so.
    /// Those of another tap say nothing of this one.
    pub(super) fn upstream(&self, around: &TapContext<'_>, flow: &Flow) -> [Upstream; 2] {
        let lost = around.upstream(flow);
        if lost.iter().all(|one| one.doubtful >= one.lost) {
            return lost;
        }
        let name = (flow.src, flow.dst, flow.dest_qp);
        let own = self.0.iter().filter(|(one, _)| one.named.contains(&name));
        let mut own = own.filter(|(_, links)| links.contains(flow.link.as_str())).peekable();
        let all = own.peek().is_some() && own.all(|(one, _)| one.subject.is_lost_or_reordered);
        lost.map(|one| Upstream { doubtful: if all { one.lost } else { one.doubtful }, ..one })
    }

    /// Of the packets lost upstream of each link, those that may have been reordered: what a finding says of its flows
    /// says nothing of others.
    pub(super) fn by_link(
        &self,
        flows: &'a [Flow],
        around: &TapContext<'_>,
    ) -> Map<(&'a str, Option<Direction>), u64> {
        let mut all: Map<_, u64> = Map::default();
        for flow in flows {
            let doubtful: u64 = self.upstream(around, flow).iter().map(|one| one.doubtful).sum();
            if doubtful > 0 {
                *all.entry((flow.link.as_str(), flow.direction)).or_default() += doubtful;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Loss, Options};
    use crate::findings::Severity;

    /// A finding is about its flows at its tap.
    #[test]
    fn what_a_finding_doubts_is_of_its_flows_at_its_tap() {
        let mut report = Report::build(&crate::analysis::fixtures::everything(), &Options::default().into());
        report.facts.flows[0].loss = Some(Loss { lost: 7, ..Loss::default() }).into();
        let (src, dst) = (report.facts.flows[0].src, report.facts.flows[0].dst);
        let (link, qp) = (report.facts.flows[0].link.to_string(), report.facts.flows[0].dest_qp);
        let mut said = |at: &str, dest_qp: u32| {
            let mut finding = Finding::new("loss.before_tap", Severity::Info, String::new());
            finding.named = [(src, dst, dest_qp)].into_iter().collect();
            finding.place.link = Some(at.to_owned());
            finding.subject.is_lost_or_reordered = true;
            report.findings = vec![finding];
            let (around, doubts) = (TapContext::of(&report.facts), Doubts::of(&report));
            let [requests, _] = doubts.upstream(&around, &report.facts.flows[0]);
            let of_links = doubts.by_link(&report.facts.flows, &around).values().sum::<u64>();
            (requests.lost, requests.doubtful, of_links)
        };
        assert_eq!(said(&link, qp), (7, 7, 7));
        assert_eq!(said("another tap", qp), (7, 0, 0));
        assert_eq!(said(&link, qp + 1), (7, 0, 0));
    }
}
