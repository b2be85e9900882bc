//! How a finding is put together.

use serde_json::Value;

use super::catalog::entry;
use super::command::{Command, Means};
use super::once::{Name, name};
use super::{End, Entry, Episode, Evidence, Finding, Impact, Place, Severity, Step, Unit};
use crate::analysis::{Flow, FlowId};
use crate::util::map::Set;

/// Flows that a finding lists; how many there are is in its evidence as `flows`.
pub(super) const MAX_FLOWS: usize = 16;

/// A finding under construction.
#[derive(Debug)]
pub(super) struct Raise {
    finding: Finding,
    /// Caveat of its kind.
    caveat: &'static str,
    /// When it was seen last, where that is known better than by its flows.
    seen_ns: Option<u64>,
    /// First and last packet of its flows.
    flows_ns: Option<(u64, u64)>,
    /// It is about something that is not there, or that is set: no flow's end is the end of it.
    lasting: bool,
}

impl Raise {
    /// A finding of this kind. `title` says the case in words, with the figure that matters most.
    pub(super) fn new(entry: &Entry, severity: Severity, title: String) -> Self {
        let finding = Finding { advice: entry.advice.to_owned(), ..Finding::new(entry.id, severity, title) };
        let (caveat, lasting) = (entry.caveat, entry.lasting.is_some());
        Self { finding, caveat, seen_ns: None, flows_ns: None, lasting }
    }

    /// Says the case in words, where they are known late.
    pub(super) fn titled(mut self, title: String) -> Self {
        self.finding.title = title;
        self
    }

    /// Adds a number, or a list of numbers. `None` becomes null: not known.
    pub(super) fn evidence(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.finding.evidence.insert(Evidence::declared(self.finding.id, name, value.into()));
        self
    }

    /// Adds a measurement of which there is one per member of another list, which gives its name and label.
    pub(super) fn measured(
        mut self,
        name: String,
        label: String,
        unit: Unit,
        value: impl Into<Value>,
    ) -> Self {
        self.finding.evidence.insert(Evidence { name, label, unit, value: value.into() });
        self
    }

    /// Adds a step: one action, and the command for it ([`Commands`](super::Commands)), or why there is none.
    pub(super) fn step(mut self, text: impl Into<String>, means: impl Into<Means>) -> Self {
        let (mut text, Means(command)) = (text.into(), means.into());
        let explained =
            |one: &Step| one.host.is_some() && one.command.as_deref().is_some_and(Command::is_open);
        let explained = self.finding.steps.iter().any(explained);
        if let Some(note) = command.as_ref().and_then(|command| command.note(&text, explained)) {
            text = format!("{text} {note}");
        }
        let (command, host) = command.map_or((None, None), |one| (Some(one.line), one.host));
        self.finding.steps.push(Step { text, command, host });
        self
    }

    /// Adds a caveat of this case; that of its kind follows them.
    pub(super) fn caveat(mut self, text: impl Into<String>) -> Self {
        self.finding.caveats.push(text.into());
        self
    }

    /// Says where it was seen.
    pub(super) fn place(mut self, place: Place) -> Self {
        self.finding.place = place;
        self
    }

    /// Names the end that sends the requests and the one that answers them.
    pub(super) fn ends(mut self, requester: Option<End>, responder: Option<End>) -> Self {
        (self.finding.requester, self.finding.responder) = (requester, responder);
        self
    }

    /// Says what it costs.
    pub(super) fn impact(mut self, impact: Impact) -> Self {
        self.finding.impact = impact;
        self
    }

    /// Names kinds that this one cannot cause, though its kind may.
    pub(super) fn no_cause_of(mut self, ids: &'static [&'static str]) -> Self {
        self.finding.no_cause_of = ids;
        self
    }

    /// Names the kinds that it accounts for.
    pub(super) fn owns(mut self, ids: &'static [&'static str]) -> Self {
        self.finding.owns = ids;
        self
    }

    /// Names the kind that accounts for it, where its family knows.
    pub(super) fn owner(mut self, id: Option<&'static str>) -> Self {
        self.finding.owner = id;
        self
    }

    /// Says when it showed, in the order of time: first and last time follow from it.
    pub(super) fn episodes(mut self, episodes: Vec<Episode>) -> Self {
        self.finding.first_seen_ns = episodes.first().map(|episode| episode.first_ns);
        self.seen_ns = episodes.last().map(|episode| episode.last_ns).or(self.seen_ns);
        self.finding.episodes = episodes;
        self
    }

    /// Says what to do in this very case, in place of what holds for all of its kind.
    pub(super) fn advice(mut self, advice: &str) -> Self {
        advice.clone_into(&mut self.finding.advice);
        self
    }

    /// Names the flows, those that matter most first. One that several links see is one, named as the first of them has it.
    pub(super) fn flows<'a>(mut self, flows: impl IntoIterator<Item = &'a Flow>) -> Self {
        let mut seen: Set<Name> = Set::default();
        for flow in flows {
            let (first_ns, last_ns) = self.flows_ns.unwrap_or((flow.first_ns, flow.last_ns));
            self.flows_ns = Some((first_ns.min(flow.first_ns), last_ns.max(flow.last_ns)));
            if seen.insert(name(flow)) && self.finding.flows.len() < MAX_FLOWS {
                self.finding.flows.push(FlowId::of(flow));
            }
        }
        let count = seen.len();
        self.finding.named = seen.into_iter().collect();
        self.evidence("flows", count)
    }

    /// Nothing of it can have shown later, Unix nanoseconds; without it, nothing later than the last packet of its
    /// flows.
    pub(super) fn last_seen(mut self, seen_ns: Option<u64>) -> Self {
        self.seen_ns = seen_ns;
        self
    }

    /// It lasts: a silence does not end with the flows that fell silent.
    pub(super) fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Whether its episodes are known, or it has none by its nature.
    fn has_times(&self) -> bool {
        !self.finding.episodes.is_empty()
            || entry(self.finding.id).is_some_and(|entry| entry.lasting.is_some())
    }

    /// Puts it with the others.
    pub(super) fn into(mut self, found: &mut Vec<Finding>) {
        let flows_end_ns = self.flows_ns.map(|(_, last_ns)| last_ns);
        self.finding.last_seen_ns = self.seen_ns.or(flows_end_ns).filter(|_| !self.lasting);
        // What has no times of its own is a figure of its flows, from their first packet to their last.
        if let Some((first_ns, last_ns)) = self.flows_ns.filter(|_| !self.has_times()) {
            let last_ns = self.seen_ns.unwrap_or(last_ns).max(first_ns);
            self.finding.first_seen_ns = Some(first_ns);
            self.finding.episodes = vec![Episode { first_ns, last_ns, peak: None }];
            self.finding.undated = true;
        }
        if !self.caveat.is_empty() {
            self.finding.caveats.push(self.caveat.to_owned());
        }
        found.push(self.finding);
    }
}
