//! Builder of findings.

use serde_json::Value;

use super::command::{Command, Means};
use super::dedup::{Name, is_near, name};
use super::{CostBase, End, Entry, Episode, Evidence, Finding, Impact, Place, Severity, Step, Subject, Unit};
use crate::analysis::{Flow, FlowId};
use crate::util::definition::definitions;

definitions! {
    ALIKE: f64 = 0.9,
        "Minimum figure of one direction over that of the other, for both to be affected alike",
        "Directions that share a fault differ by a few percent by chance";
}

/// True if the figures of which these are the least and the most differ no more than by chance.
pub(super) fn are_alike(least: f64, most: f64) -> bool {
    least >= ALIKE * most
}

/// Maximum number of flows listed in a finding; their total is in the evidence as `flows`.
pub(super) const MAX_FLOWS: usize = 16;

/// A finding under construction.
#[derive(Debug)]
pub(super) struct Raise {
    pub(super) finding: Finding,
    /// Caveat of its kind.
    caveat: &'static str,
    /// Time at which it was last seen, if known better than from its flows.
    seen_ns: Option<u64>,
    /// Times of the first and the last packet of its flows.
    flows_ns: Option<(u64, u64)>,
}

impl Raise {
    /// Begins a finding of this kind. `title` is the diagnosis with the most important figure.
    pub(super) fn new(entry: &Entry, severity: Severity, title: String) -> Self {
        let finding = Finding { advice: entry.advice.to_owned(), ..Finding::new(entry.id, severity, title) };
        Self { finding, caveat: entry.caveat, seen_ns: None, flows_ns: None }
    }

    /// Sets the title, if it is known only later.
    pub(super) fn titled(mut self, title: String) -> Self {
        self.finding.title = title;
        self
    }

    /// Adds a number, or a list of numbers. `None` becomes null: unknown.
    pub(super) fn evidence(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.finding.evidence.insert(Evidence::declared(self.finding.id, name, value.into()));
        self
    }

    /// Sets what it is about.
    pub(super) fn about<T>(mut self, set: impl FnOnce(&mut Subject) -> T) -> Self {
        set(&mut self.finding.subject);
        self
    }

    /// Adds a value with label and unit.
    pub(super) fn value(mut self, evidence: Evidence) -> Self {
        self.finding.evidence.insert(evidence);
        self
    }

    /// Says of these, set before, that they are of all episodes, where there are several: those of each are not kept.
    pub(super) fn of_all_episodes(mut self, names: &[&str]) -> Self {
        if self.finding.episodes.len() > 1 {
            for name in names {
                if let Some(mut one) = self.finding.evidence.get(name).cloned() {
                    one.label.push_str(", all episodes");
                    self.finding.evidence.insert(one);
                }
            }
        }
        self
    }

    /// Adds one value per member of another list, with names and labels from that list.
    pub(super) fn measured(self, name: String, label: String, unit: Unit, value: impl Into<Value>) -> Self {
        self.value(Evidence { name, label, unit, value: value.into() })
    }

    /// Adds a step: one action, with its command ([`Commands`](super::Commands)) or the reason why there is none.
    pub(super) fn step(mut self, text: impl Into<String>, means: impl Into<Means>) -> Self {
        let (mut text, Means { command, fabric }) = (text.into(), means.into());
        let explained =
            |one: &Step| one.host.is_some() && one.command.as_deref().is_some_and(Command::is_open);
        let explained = self.finding.steps.iter().any(explained);
        if let Some(note) = command.as_ref().and_then(|command| command.note(&text, explained)) {
            text = format!("{text} {note}");
        }
        let (command, host) = command.map_or((None, None), |one| (Some(one.line), one.host));
        self.finding.steps.push(Step { text, command, host, fabric });
        self
    }

    /// Adds a caveat of this case; the caveat of the kind follows it.
    pub(super) fn caveat(mut self, text: impl Into<String>) -> Self {
        self.finding.caveats.push(text.into());
        self
    }

    /// Sets the place.
    pub(super) fn place(mut self, place: Place) -> Self {
        self.finding.place = place;
        self
    }

    /// Sets requester and responder.
    pub(super) fn ends(mut self, requester: Option<End>, responder: Option<End>) -> Self {
        (self.finding.requester, self.finding.responder) = (requester, responder);
        self
    }

    /// Sets the impact.
    pub(super) fn impact(mut self, impact: Impact) -> Self {
        self.finding.impact = impact;
        self
    }

    /// Sets what its impact is a part of.
    pub(super) fn of_cost(mut self, base: CostBase) -> Self {
        self.finding.subject.cost_base = Some(base);
        self
    }

    /// Says by the counts of all flows, in their order, whether the first is the worst: not if the next is near it.
    pub(super) fn near(mut self, counts: impl IntoIterator<Item = u64>) -> Self {
        let mut counts = counts.into_iter();
        let first = counts.next().zip(counts.next());
        self.finding.subject.is_alike = first.is_some_and(|(a, b)| is_near(a.min(b), a.max(b)));
        self
    }

    /// Excludes kinds that this finding cannot cause, although its kind may.
    pub(super) fn no_cause_of(mut self, ids: &'static [&'static str]) -> Self {
        self.finding.no_cause_of = ids;
        self
    }

    /// Sets the kinds that it explains.
    pub(super) fn owns(mut self, ids: &'static [&'static str]) -> Self {
        self.finding.owns = ids;
        self
    }

    /// Sets kind and place of the finding that explains it, if its family knows.
    pub(super) fn owner(mut self, of: Option<(&'static str, usize)>) -> Self {
        (self.finding.owner, self.finding.owner_at) = of.unzip();
        self
    }

    /// Sets the episodes, in order of time; first and last time follow from them.
    pub(super) fn episodes(mut self, episodes: Vec<Episode>) -> Self {
        self.finding.first_seen_ns = episodes.first().map(|episode| episode.first_ns);
        self.seen_ns = episodes.last().map(|episode| episode.last_ns).or(self.seen_ns);
        self.finding.episodes = episodes;
        self
    }

    /// The same where there are any; without, times follow from the flows or the data.
    pub(super) fn dated(self, episodes: Vec<Episode>) -> Self {
        if episodes.is_empty() { self } else { self.episodes(episodes) }
    }

    /// Sets whether the data shows that it has ended.
    pub(super) fn settled(mut self, settled: bool) -> Self {
        self.finding.settled = settled;
        self
    }

    /// Sets the advice of this case, in place of the general one.
    pub(super) fn advice(mut self, advice: &str) -> Self {
        advice.clone_into(&mut self.finding.advice);
        self
    }

    /// Sets the flows, most affected first. A flow seen on several links is listed once, under the first of them.
    pub(super) fn flows<'a>(mut self, flows: impl IntoIterator<Item = &'a Flow>) -> Self {
        // There may be a million flows, of which a set takes several times the memory.
        let (mut names, mut listed): (Vec<Name>, Vec<Name>) = (Vec::new(), Vec::new());
        for flow in flows {
            let (first_ns, last_ns) = self.flows_ns.unwrap_or((flow.first_ns, flow.last_ns));
            self.flows_ns = Some((first_ns.min(flow.first_ns), last_ns.max(flow.last_ns)));
            let name = name(flow);
            if listed.len() < MAX_FLOWS && !listed.contains(&name) {
                listed.push(name);
                self.finding.flows.push(FlowId::of(flow));
            }
            names.push(name);
        }
        self.finding.named = names.into_iter().collect();
        let count = self.finding.named.len();
        self.flow_count(count)
    }

    /// The same with the count of each, which say whether the first is the worst.
    pub(super) fn counted<'a>(self, flows: impl IntoIterator<Item = (u64, &'a Flow)>) -> Self {
        let (counts, flows): (Vec<u64>, Vec<&Flow>) = flows.into_iter().unzip();
        self.near(counts).flows(flows)
    }

    /// Sets the latest time at which it can have been seen, Unix nanoseconds; the default is the last packet of its
    /// flows. Of a silence it is the end of the data: it does not end with the flows that fell silent.
    pub(super) fn last_seen(mut self, seen_ns: Option<u64>) -> Self {
        self.seen_ns = seen_ns;
        self
    }

    /// Completes it and adds it to the others.
    pub(super) fn into(mut self, found: &mut Vec<Finding>) {
        let flows_end_ns = self.flows_ns.map(|(_, last_ns)| last_ns);
        self.finding.last_seen_ns = self.seen_ns.or(flows_end_ns).filter(|_| !self.finding.lasts());
        // Without times of its own, unless it has none by its nature, it covers the time from the first packet of its
        // flows to the last.
        let has_times = !self.finding.episodes.is_empty() || self.finding.lasts();
        if let Some((first_ns, last_ns)) = self.flows_ns.filter(|_| !has_times) {
            let last_ns = self.seen_ns.unwrap_or(last_ns).max(first_ns);
            self.finding.episodes = vec![Episode { first_ns, last_ns, peak: None }];
        }
        if !self.caveat.is_empty() {
            self.finding.caveats.push(self.caveat.to_owned());
        }
        found.push(self.finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_flows_near_one_another_is_the_worst() {
        let entry = crate::findings::entry("ecn.congestion").unwrap();
        let alike = |counts: &[u64]| {
            let raise = Raise::new(entry, Severity::Warning, String::new());
            raise.near(counts.iter().copied()).finding.subject.is_alike
        };
        assert!(alike(&[97, 122, 3]) && alike(&[10_000, 8_100]));
        assert!(!alike(&[10_000, 7_900, 7_900]));
        assert!(!alike(&[500]), "one alone is like no other");
    }
}
