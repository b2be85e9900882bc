//! The rows of signals: which have room, their values and their lines.

use ratatui::text::Line;

use super::{MOST_SIGNAL, PEAK, Picture, area, short};
use crate::findings::{Finding, Problem};
use crate::metrics::timeline::SignalKind;
use crate::model::over_time::Series;
use crate::model::signals::{self, Row};
use crate::model::{Basis, Level, Model};
use crate::tui::column::compact;
use crate::tui::theme;
use crate::tui::widgets::Spans;
use crate::util::time::NS_PER_S;
use crate::util::units;

/// A value in words.
fn figure(series: Series, value: f64) -> String {
    let unit = if matches!(series, Series::Signal(_)) { " pkt" } else { "" };
    signals::figure(series, value, |value| compact(value.round()) + unit)
}

impl Picture<'_> {
    /// As many of the rows as have room, in their order. Stable: what shows nothing anywhere gives way first; then what
    /// no active problem is about, and before it that whose figure of the time range is zero.
    pub(super) fn fitting<'r>(&self, known: Vec<&'r Row>, room: usize) -> Vec<&'r Row> {
        if known.len() <= room {
            return known;
        }
        let mut order = known.clone();
        order.sort_by_cached_key(|row| {
            let zero = self.of_range(row).is_none_or(|value| value <= 0.0);
            let quiet = self.is_quiet(row);
            (zero && quiet, self.is_calm(row), zero, quiet)
        });
        order.truncate(room);
        known.into_iter().filter(|row| order.iter().any(|one| std::ptr::eq(*one, *row))).collect()
    }

    /// What a row shows: of CE marks those of the link that a problem is about, so that the figures agree.
    fn series_of(&self, row: &Row) -> Series {
        match self.marked_link {
            Some(link) if row.series == Series::CeRatio => Series::LinkCeRatio(link),
            _ => row.series,
        }
    }

    /// The name of a row, with the link that it is about.
    fn signal_name(&self, row: &Row) -> String {
        match self.series_of(row) {
            Series::LinkCeRatio(link) => format!("CE {}", self.name_of(link, self.name.saturating_sub(4))),
            Series::Signal(SignalKind::Lost) if self.is_lost_elsewhere(row) => "lost upstream".to_owned(),
            _ => row.name.to_owned(),
        }
    }

    /// True if packets may be lost downstream while none was lost upstream: a gap shows loss upstream of a tap alone.
    fn is_lost_elsewhere(&self, row: &Row) -> bool {
        signals::is_losing(self.findings)
            && self.is_quiet(row)
            && self.of_range(row).is_none_or(|lost| lost <= 0.0)
    }

    /// True if a signal shows nothing.
    pub(super) fn is_quiet(&self, row: &Row) -> bool {
        self.values(self.series_of(row)).iter().flatten().all(|value| *value <= 0.0)
    }

    /// True if no active problem is about a signal.
    pub(super) fn is_calm(&self, row: &Row) -> bool {
        self.level(row.about, |finding| finding.active) == Level::Fine
    }

    /// Lines of each signal that shows something, where there is room for more than one line each.
    pub(super) fn tall(&self, rows: &[&Row], spare: usize) -> usize {
        let shows = |row: &&&Row| !self.is_quiet(row);
        let more = spare.checked_div(rows.iter().filter(shows).count()).unwrap_or(0);
        (1 + more).min(MOST_SIGNAL)
    }

    /// The figure of a signal in the time range.
    fn of_range(&self, row: &Row) -> Option<f64> {
        let model = &self.data.model;
        let delta = match self.series_of(row) {
            Series::LinkCeRatio(link) => model.links.get(link).and_then(|link| link.delta),
            _ => model.dedup.delta,
        };
        match row.now {
            Some(of) => delta.and_then(|delta| of(&delta.counts)),
            None => self.of_points(row.series),
        }
    }

    /// A signal in a line, or one that shows something in `tall` of them.
    pub(super) fn row(&self, row: &Row, tall: usize) -> Vec<Line<'static>> {
        let (series, at_end) = (self.series_of(row), self.chart.cursor_ns.is_none());
        let values = self.values(series);
        let peak = match series {
            Series::CeRatio | Series::LinkCeRatio(_) => self.highest_of(&values),
            _ => values.iter().flatten().copied().fold(0.0, f64::max),
        };
        let now = if at_end { self.of_range(row) } else { self.at_mark(&values) };
        let text = match now {
            None if series == Series::CeRatio && at_end && self.data.model.is_ecn_off() => "off".to_owned(),
            None => units::UNKNOWN.to_owned(),
            Some(value) if series == Series::P99 && self.is_least() => {
                format!("{}{}", units::LEAST, figure(series, value))
            }
            // At the cursor it is a rate or a part of one, whose time the line of the clock names.
            Some(value) => figure(series, value),
        };
        let level = self.level(row.about, |finding| finding.active);
        let style = match now {
            Some(value) if value > 0.0 => theme::BOLD.patch(theme::text(level)),
            _ => theme::DIM,
        };
        let tall = if peak > 0.0 { tall } else { 1 };
        let known = values.iter().any(Option::is_some);
        // Where requests are unanswered, the peak is a lower bound as much as the value.
        let least = if series == Series::P99 && known && self.is_least() { units::LEAST } else { "" };
        let most = if known { self.peak(series, peak) } else { units::UNKNOWN.to_owned() };
        let most = format!("{least}{most}");
        let bars = self.bars(row, values.len());
        let lines = area(&values, peak, tall).into_iter().enumerate();
        let name = self.signal_name(row);
        let line = |(line, blocks): (usize, Vec<char>)| {
            let (name, text, most) = if line == 0 { (&*name, &*text, &*most) } else { ("", "", "") };
            let mut spans = Spans::default();
            self.head(&mut spans, name, text, style);
            let cells = values.iter().zip(blocks).zip(&bars).map(|((value, symbol), bar)| match value {
                // So that one that is full ends below the next.
                Some(value) if *value > 0.0 && line == 0 && symbol == '█' => ('▇', *bar),
                Some(value) if *value > 0.0 => (symbol, *bar),
                Some(_) if line + 1 == tall => ('·', theme::FRAME),
                _ => (' ', theme::PLAIN),
            });
            self.cells(&mut spans, cells.collect());
            spans.push(format!(" {most:>width$}", width = PEAK - 1), theme::DIM);
            spans.into_line()
        };
        lines.map(line).collect()
    }

    /// True if the latency of the requests that were answered in the time range is a lower bound of that of all.
    fn is_least(&self) -> bool {
        self.chart.cursor_ns.is_none() && self.data.model.latency.is_some_and(|times| times.p99_is_least())
    }

    /// The value of the points in the time range: all of a signal, the percentile of all requests, the highest of
    /// another gauge.
    fn of_points(&self, series: Series) -> Option<f64> {
        let Model { time_ns, basis, .. } = self.data.model;
        let (Basis::Last(seconds) | Basis::Whole(seconds)) = basis else { return None };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of time")]
        let length_ns = (seconds * NS_PER_S as f64) as u64;
        let from_ns = time_ns.saturating_sub(length_ns);
        match series {
            Series::Signal(kind) => Some(self.data.over_time.total(kind, from_ns, time_ns.saturating_add(1))),
            Series::P99 => self.data.model.latency?.tail().map(|bucket| bucket.ns() as f64),
            _ => self.data.over_time.value(series, from_ns, time_ns),
        }
    }

    /// A value of a column with the time in which it was counted.
    fn peak(&self, series: Series, peak: f64) -> String {
        let bucket_ns = self.data.over_time.bucket_ns(self.grid.column_ns);
        match () {
            () if peak <= 0.0 => "0".to_owned(),
            () if !matches!(series, Series::Signal(_)) => figure(series, peak),
            () if bucket_ns >= NS_PER_S => format!("{} pkt/s", compact(peak)),
            () if peak < 0.5 => format!("<1 in {}", short(bucket_ns)),
            () => format!("{} in {}", compact(peak.round()), short(bucket_ns)),
        }
    }

    /// The worst level of the findings about a row of which `of` holds.
    pub(super) fn level(&self, about: &[Problem], of: impl Fn(&Finding) -> bool) -> Level {
        signals::level(self.findings, about, of)
    }
}
