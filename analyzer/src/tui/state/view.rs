//! The state that several screens show, at the snapshot shown.

use std::sync::Arc;

use rocescope_common::account::FlowKey;

use super::analysis::Analysis;
use super::data::Data;
use super::filter::Filter;
use super::log::{self, Log};
use super::messages::Messages;
use super::peers::PeerGrouping;
use super::screen::Screen;
use super::timeline::Timeline;
use crate::analysis::{Entropy, Imbalance, PortCounter};
use crate::entity::devices::PortSample;
use crate::findings::{DataEnd, Finding, LocalQp, Problem, Verdict};
use crate::model::signals::About;
use crate::model::{Identity, Level, TimeRange};
use crate::sample::{Address, Sample, SourceKind, address};
use crate::tui::layout::{HeaderLines, Layout};
use crate::tui::theme;
use crate::tui::widgets::Spans;
use crate::tui::{Options, column};
use crate::util::deferred::Deferred;
use crate::util::map::Set;
use crate::util::units;

/// Snapshots before the one shown in which entropy is searched, since not every sample is analysed.
const NEAR: usize = 30;

/// The state that several screens show.
#[derive(Debug)]
pub struct View {
    /// Settings of the user.
    pub options: Options,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Screen that is shown.
    pub screen: Screen,
    /// The filter of table and events.
    pub filter: Filter,
    /// The time range that the user chose.
    pub range: TimeRange,
    /// Grouping of the overview's list.
    pub by: PeerGrouping,
    /// Snapshots, and which of them is shown.
    pub timeline: Timeline,
    /// Log of the events.
    pub log: Log,
    /// Sentences for the user.
    pub messages: Messages,
    /// The selected queue pair, wherever it is in the table.
    pub selected: Option<Identity>,
    /// Queue pairs that are marked.
    pub marked: Set<Identity>,
    /// Newest sample of the source.
    pub newest: Option<Deferred<Arc<Sample>>>,
    /// Conclusions of the latest analysis.
    pub analysis: Option<Deferred<Arc<Analysis>>>,
    /// The values shown; `None` before the first. Exported files are made from a copy in the background.
    pub data: Option<Deferred<Arc<Data>>>,
    /// Set while the background makes other values than those shown; true inside where rows may keep their places.
    pub(in crate::tui) awaited: Option<bool>,
}

/// Findings since the start, as they stood at the snapshot shown or as near to it as is known.
#[derive(Clone, Copy, Debug)]
pub struct Concluded<'a> {
    /// The findings, the worst first.
    pub findings: &'a [Finding],
    /// The last frame that they are drawn from.
    pub end_ns: Option<u64>,
    /// Time of the findings, relative to the snapshot.
    pub as_of: AsOf,
}

/// Time of findings in relation to the snapshot shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOf {
    /// They are of the snapshot, or the newest there is.
    Now,
    /// They are of this time, not later than the snapshot.
    Earlier(u64),
    /// They are of this time, later than the snapshot: none of its time are kept.
    Later(u64),
}

/// True if a finding is about a port of a device, or about its interface.
fn is_about_port(finding: &Finding, port: &PortSample) -> bool {
    let label = port.label();
    finding.subject.ports.iter().any(|port| **port == label)
        || port.interface.as_deref().is_some_and(|name| finding.is_at(name))
}

impl View {
    /// View before the first sample.
    pub fn new(options: Options) -> Self {
        Self {
            size: (80, 24),
            screen: options.screen,
            filter: Filter::new(&options.filter),
            range: TimeRange::default(),
            by: PeerGrouping::default(),
            timeline: Timeline::new(options.history_bytes, options.speed),
            log: Log::default(),
            messages: Messages::with(&options.notes),
            selected: None,
            marked: Set::default(),
            newest: None,
            analysis: None,
            data: None,
            awaited: None,
            options,
        }
    }

    /// True if a new sample changes the picture, rather than the history alone.
    pub const fn moves(&self) -> bool {
        !self.timeline.paused || self.timeline.seek_ns.is_some() || self.data.is_none()
    }

    /// The kind of source, once it is known.
    pub fn kind(&self) -> Option<SourceKind> {
        self.newest.as_ref().map(|sample| sample.kind)
    }

    /// The areas of the screen.
    pub fn layout(&self) -> Layout {
        let warning = self.data.as_ref().is_some_and(|data| data.model.lost.any());
        let worst = || self.verdict().and_then(|verdict| verdict.headline);
        let cost = self.screen == Screen::Overview && worst().is_some_and(Finding::names_ends);
        Layout::new(self.size, HeaderLines { schedule: self.options.schedule.is_some(), cost, warning })
    }

    /// Properties of the data that decide about columns.
    pub fn has(&self) -> column::ColumnContext {
        let has =
            self.data.as_ref().map(|data| column::ColumnContext::of(data.context())).unwrap_or_default();
        has.with_active(|kind| self.active_level(kind) > Level::Fine)
    }

    /// True if an older snapshot than the newest sample is shown: values that are not kept per snapshot are later ones.
    pub fn past(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.model.time_ns < data.sample.time_ns)
    }

    /// The findings shown; `None` before the first analysis.
    pub fn concluded(&self) -> Option<Concluded<'_>> {
        let analysis = self.analysis.as_ref()?;
        let report = &analysis.report;
        let of_report =
            |as_of| Concluded { findings: &report.findings, end_ns: report.facts.window.last_ns, as_of };
        let Some(shown_ns) = self.timeline.shown_ns.filter(|shown_ns| *shown_ns < analysis.time_ns) else {
            return Some(of_report(AsOf::Now));
        };
        let kept = self.timeline.snapshot().and_then(|at| self.timeline.history.conclusions(at));
        Some(kept.filter(|kept| kept.time_ns <= shown_ns).map_or_else(
            || of_report(AsOf::Later(analysis.time_ns)),
            |kept| Concluded {
                findings: &kept.findings,
                end_ns: kept.end_ns,
                as_of: AsOf::Earlier(kept.time_ns),
            },
        ))
    }

    /// The verdict at the snapshot shown; `None` before the first analysis, or where no findings of that time are kept.
    pub fn verdict(&self) -> Option<Verdict<'_>> {
        let concluded = self.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)))?;
        Some(self.judged(Verdict::of(concluded.findings, false), self.data.as_ref()?))
    }

    /// A verdict, restricted to what the latest analysis could judge.
    pub fn judged<'a>(&self, verdict: Verdict<'a>, data: &Data) -> Verdict<'a> {
        let total = &data.model.dedup.total;
        let grounds = self.analysis.as_ref().map(|analysis| &analysis.grounds);
        let verdict = match grounds {
            Some(grounds) => verdict.of_judged(grounds),
            None => verdict,
        };
        let verdict = verdict.noting(total.retransmitted, total.packets);
        match grounds.filter(|_| !self.past()) {
            Some(grounds) => verdict.with_basis(grounds),
            None => verdict,
        }
    }

    /// Time of the findings shown, where they are of an earlier time than the values: on a busy host the analysis comes
    /// late.
    pub fn late_ns(&self) -> Option<u64> {
        /// Findings that are older than the values by this say how old they are.
        const LATE_NS: u64 = 2_000_000_000;
        let concluded = self.concluded()?;
        if let AsOf::Earlier(time_ns) = concluded.as_of {
            return Some(time_ns)
                .filter(|time_ns| *time_ns != self.data.as_ref().map_or(0, |data| data.model.time_ns));
        }
        let (analysis, newest) = (self.analysis.as_ref()?, self.newest.as_ref()?);
        // While the picture stands still, what comes meanwhile makes nothing late.
        let shown = self.data.as_ref().filter(|_| self.timeline.still());
        let values_ns = shown.map_or(newest.time_ns, |data| data.model.time_ns);
        let late = values_ns.saturating_sub(analysis.time_ns) >= LATE_NS;
        (late && concluded.as_of == AsOf::Now).then_some(analysis.time_ns)
    }

    /// True if the end of a capture is shown: nothing is active then.
    pub fn shows_end(&self) -> bool {
        let shown = self.timeline.end.is_some() && self.timeline.shown_ns.is_none();
        shown && self.kind() == Some(SourceKind::Replay)
    }

    /// The end of the data of which findings say when they showed.
    pub fn data_end(&self, ns: Option<u64>) -> DataEnd {
        let range = self.data.as_ref().and_then(|data| data.over_time.range());
        let (replay, recorded) = (self.kind() == Some(SourceKind::Replay), self.shows_end());
        let short = range.is_some_and(|(first, last)| last.saturating_sub(first) < units::SHORT_NS);
        // A capture ends with its last frame, and of findings that are late nothing is known after their time, which is
        // named.
        let shown_ns = self.clock_ns().filter(|_| !recorded && self.late_ns().is_none());
        DataEnd { ns, recorded, short: replay && short, shown_ns }
    }

    /// The level of the worst active finding of this kind, at the snapshot shown.
    #[must_use]
    pub fn active_level(&self, kind: Problem) -> Level {
        self.active(kind).map(|one| Level::from(one.severity)).max().unwrap_or_default()
    }

    /// The level of the worst active finding about this counter of a port, at the snapshot shown.
    #[must_use]
    pub fn counter_level(&self, port: &PortSample, counter: PortCounter) -> Level {
        let about =
            |one: &&Finding| is_about_port(one, port) && one.subject.counters.contains(&counter.name());
        self.problems().filter(about).map(|one| Level::from(one.severity)).max().unwrap_or_default()
    }

    /// The level of the worst active finding of these kinds about a port, at the snapshot shown.
    #[must_use]
    pub fn port_level(&self, port: &PortSample, about: About) -> Level {
        self.level(about, |one| is_about_port(one, port))
    }

    /// The level of the worst active finding about a queue pair of a port, at the snapshot shown.
    #[must_use]
    pub fn local_qp_level(&self, port: &PortSample, lqpn: u32) -> Level {
        let label = port.label();
        let is_it = |qp: &LocalQp| qp.lqpn == lqpn && qp.port.as_deref() == Some(label.as_str());
        let about = self.problems().filter(|one| one.subject.queue_pairs.iter().any(is_it));
        about.map(|one| Level::from(one.severity)).max().unwrap_or_default()
    }

    /// The level of the worst active finding of these kinds at a link, or at none, at the snapshot shown.
    #[must_use]
    pub fn level_at(&self, link: &str, about: About) -> Level {
        self.level(about, |one| {
            one.is_at(link) || one.place.names().next().is_none() && one.subject.links.is_empty()
        })
    }

    /// The level of the worst active finding of these kinds of which `is` holds, at the snapshot shown.
    fn level(&self, about: About, is: impl Fn(&Finding) -> bool) -> Level {
        let of_kind = |one: &Finding| Problem::of(one).is_some_and(|kind| about.contains(&kind));
        let all = self.problems().filter(|one| of_kind(one) && is(one));
        all.map(|one| Level::from(one.severity)).max().unwrap_or_default()
    }

    /// The level of the worst active finding of these kinds about queue pairs between the hosts of a flow, at the
    /// snapshot shown.
    #[must_use]
    pub fn level_between(&self, key: &FlowKey, about: About) -> Level {
        let (src, dst) = (address(key.family, key.src), address(key.family, key.dst));
        let is_between = |(from, to, _): &(Address, Address, u32)| {
            (*from, *to) == (src, dst) || (*from, *to) == (dst, src)
        };
        self.level(about, |one| one.named.iter().any(is_between))
    }

    /// True if an active finding says at the snapshot shown that these links share their load unevenly.
    pub fn is_uneven(&self, imbalance: &Imbalance) -> bool {
        let Imbalance { links, direction, .. } = imbalance;
        self.active(Problem::Imbalance).any(|finding| finding.compares_all(links, *direction))
    }

    /// Active findings of this kind above info, at the snapshot shown.
    fn active(&self, kind: Problem) -> impl Iterator<Item = &Finding> {
        self.problems().filter(move |one| Problem::of(one) == Some(kind))
    }

    /// Active findings above info, at the snapshot shown.
    fn problems(&self) -> impl Iterator<Item = &Finding> {
        let concluded = self.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)));
        let findings = concluded.map_or(&[][..], |concluded| concluded.findings);
        findings.iter().filter(|one| one.active && one.is_problem())
    }

    /// The level of the worst active finding about this link at the snapshot shown, and whether it is its place rather
    /// than one of the links compared. A problem of a host is none of the link at which it was seen.
    #[must_use]
    pub fn level_of_link(&self, name: &str) -> (Level, bool) {
        let about = self.problems().filter_map(|finding| {
            let here = finding.is_at(name) && !finding.place.is_host();
            (here || finding.compares(name)).then(|| (Level::from(finding.severity), here))
        });
        about.max().unwrap_or_default()
    }

    /// The sign before the name of a link that an active finding is about, else a blank.
    pub(in crate::tui) fn sign_of_link(&self, name: &str) -> Spans {
        let mut spans = Spans::default();
        match self.level_of_link(name) {
            (level, true) if level > Level::Fine => {
                let (symbol, style) = theme::mark(level, true);
                spans.push(format!(" {symbol} "), style);
            }
            _ => {
                spans.push("   ", theme::PLAIN);
            }
        }
        spans
    }

    /// The time shown: that of the values, or of an event that came after them. `None` before the first sample.
    pub fn clock_ns(&self) -> Option<u64> {
        let metrics = self.data.as_ref().map(|data| data.model.time_ns).filter(|time| *time > 0)?;
        let event = self.log.latest().next().map(|entry| entry.latest.time_ns);
        let moves = self.timeline.shown_ns.is_none() && !self.timeline.paused;
        Some(event.filter(|_| moves).map_or(metrics, |event| event.max(metrics)))
    }

    /// Number of queue pairs.
    pub fn row_count(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.model.rows.len())
    }

    /// Entropy over 5-tuples in the time range, at the snapshot shown or shortly before.
    pub fn entropy(&self) -> Option<Entropy> {
        let at = self.timeline.snapshot()?;
        self.timeline.history.entropy(at, NEAR)
    }

    /// Number of findings.
    pub fn finding_count(&self) -> usize {
        self.concluded().map_or(0, |concluded| concluded.findings.len())
    }

    /// Number of events that the filter lets through.
    pub fn event_count(&self) -> usize {
        self.shown_events().count()
    }

    /// Events that the filter lets through and that had happened at the snapshot shown, the latest first.
    pub fn shown_events(&self) -> impl Iterator<Item = log::EntryAt<'_>> {
        self.log.listed(self.timeline.shown_ns).filter(|listed| self.lets_through(listed.entry, listed.state))
    }

    /// True if the filter lets an event through.
    pub(in crate::tui) fn lets_through(&self, entry: &log::Entry, state: &log::EntryState) -> bool {
        if self.filter.query.is_empty() {
            return true;
        }
        let Some(data) = &self.data else { return self.filter.query.event(entry, state, "", None) };
        let cx = data.context();
        let row = self.filter.rows.get(&entry.key).and_then(|at| data.model.rows.get(*at));
        let flow = row.filter(|row| row.id.key == entry.key).map(|row| (row, cx));
        let link = data.model.links.get(usize::from(entry.key.link)).map_or("", |link| &link.name);
        self.filter.query.event(entry, state, link, flow)
    }
}
