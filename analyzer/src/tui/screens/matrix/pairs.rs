//! The pairs of hosts with the largest values, and how values are written.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::model::Level;
use crate::tui::column::{self, compact};
use crate::tui::data::Data;
use crate::tui::matrix::{Cell, Metric};
use crate::tui::theme;
use crate::tui::widgets::{Spans, cut, line};
use crate::util::units::{self, Scale};

pub(super) fn figure(metric: Metric, value: Option<f64>) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds that were counted"
    )]
    match (metric, value) {
        (_, None) => units::UNKNOWN.to_owned(),
        (Metric::Ce, value) => units::ratio(value).replace(' ', ""),
        (Metric::Latency, Some(value)) => units::duration(value as u64).replace(' ', ""),
        (_, Some(value)) => compact(value),
    }
}

/// One unit for all values of a metric, which the title names.
pub(super) struct Unit {
    pub(super) metric: Metric,
    scale: Scale,
}

impl Unit {
    pub(super) fn of(metric: Metric, values: impl IntoIterator<Item = f64>) -> Self {
        let scale = match metric {
            Metric::Ce => Scale::of_ratios(values),
            Metric::Latency => Scale::of_ns(values),
            _ => Scale::of(values),
        };
        Self { metric, scale }
    }

    /// The title of a column.
    pub(super) fn title(&self) -> String {
        match self.metric {
            Metric::Rate => format!("{}b/s", self.scale.prefix()),
            Metric::Ce => "CE %".to_owned(),
            Metric::Loss => "LOST".to_owned(),
            Metric::Retransmissions => "RETX".to_owned(),
            Metric::Naks => "NAK rx".to_owned(),
            Metric::Rnr => "RNR rx".to_owned(),
            Metric::Latency => format!("p99 {}", self.scale.time_unit()),
        }
    }

    /// The unit behind the metric's name, if it has one.
    pub(super) fn behind_title(&self) -> String {
        match self.metric {
            Metric::Rate => format!(" in {}b/s", self.scale.prefix()),
            Metric::Ce => " in %".to_owned(),
            Metric::Latency => format!(" in {}", self.scale.time_unit()),
            _ => String::new(),
        }
    }

    /// True where all values are whole numbers.
    pub(super) const fn is_of_counts(&self) -> bool {
        matches!(self.metric, Metric::Loss | Metric::Retransmissions | Metric::Naks | Metric::Rnr)
    }

    pub(super) fn show(&self, value: Option<f64>) -> String {
        match (self.metric, value) {
            (Metric::Ce, value) => self.scale.show_percent(value),
            (Metric::Rate | Metric::Latency, value) => self.scale.show(value),
            (_, value) => figure(self.metric, value),
        }
    }
}

/// The metrics of a pair, and their widths.
const SHOWN: [(Metric, usize); 7] = [
    (Metric::Rate, 6),
    (Metric::Loss, 5),
    (Metric::Retransmissions, 5),
    (Metric::Naks, 6),
    (Metric::Rnr, 6),
    (Metric::Ce, 6),
    (Metric::Latency, 6),
];
/// Columns of a bar.
const LEAST_BAR: u16 = 8;
const MOST_BAR: u16 = 60;
/// Columns of the number of queue pairs.
const QPS: usize = 5;

/// The top pairs by the metric shown, with all metrics.
pub(super) fn pairs(buffer: &mut Buffer, area: Rect, data: &Data, metric: Metric) {
    if area.height == 0 {
        return;
    }
    let room = usize::from(area.height.saturating_sub(1));
    let shown = data.matrix.top(metric, room);
    let names: Vec<String> = shown.iter().map(|(src, dst, _)| format!("{src} → {dst}")).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(TITLE.len());
    let width = usize::from(area.width);
    let route = longest.min(width.saturating_sub(40));
    let values = |of: Metric| shown.iter().filter_map(move |(.., cell)| cell.value(of));
    // What is unknown for every pair has no column; metrics that a row has come before those that are zero in all.
    let known = SHOWN.into_iter().filter(|(of, _)| *of == metric || values(*of).next().is_some());
    let mut columns: Vec<(Unit, usize)> =
        known.map(|(of, width)| (Unit::of(of, values(of)), width)).collect();
    columns.sort_by_key(|(unit, _)| unit.metric != metric && !values(unit.metric).any(|value| value > 0.0));
    let mut left = width.saturating_sub(1 + route + QPS);
    columns.retain(|(_, width)| {
        let fits = *width < left;
        left = left.saturating_sub(width + 1);
        fits
    });
    // A bar of the metric shown makes use of what is left.
    let bar = u16::try_from(left.saturating_sub(3)).unwrap_or(0).min(MOST_BAR);
    let bar = if bar >= LEAST_BAR { bar } else { 0 };
    let most = values(metric).fold(0.0, f64::max);
    let mut head = format!(" {TITLE:<route$} {:>4}", "QPs");
    for (unit, width) in &columns {
        let _ = write!(head, " {:>width$}", unit.title());
    }
    if let Some((unit, _)) = columns.iter().find(|(unit, _)| unit.metric == metric && bar > 0) {
        // The figures have a column of that title already.
        let scale = format!("{} 0 to {}", unit.title(), unit.show(Some(most)));
        let _ = write!(head, "  {}", cut(&scale, usize::from(bar), false));
    }
    line(buffer, area, 0, &Line::styled(head, theme::DIM));
    for (y, (name, (.., cell))) in (1..).zip(names.iter().zip(shown)) {
        let mut spans = Spans::default();
        let text = cut(name, route, true);
        spans.push(format!(" {text:<route$} {:>4}", compact(cell.flows as f64)), theme::PLAIN);
        for (unit, width) in &columns {
            let of = unit.metric;
            let value = cell.value(of);
            let style = match (of == metric, level(of, cell)) {
                (true, Level::Fine) => theme::BOLD,
                (false, Level::Fine) => theme::PLAIN,
                (_, level) => theme::text(level),
            };
            let text = format!("{}{}", least(of, cell), unit.show(value));
            spans.push(format!(" {text:>width$}"), style);
        }
        if let Some(value) = cell.value(metric).filter(|value| bar > 0 && *value > 0.0) {
            spans
                .push("  ", theme::PLAIN)
                .push(column::bar(value / most, bar), theme::bar(level(metric, cell)));
        }
        line(buffer, area, y, &spans.into_line());
    }
}

/// The sign before a latency that is a lower bound.
pub(super) fn least(metric: Metric, cell: &Cell) -> &'static str {
    let is_least = metric == Metric::Latency && cell.latency_ns.is_some() && cell.latency_is_least;
    if is_least { units::LEAST } else { "" }
}

/// Only an active finding about the metric that names a flow of the pair makes a value stand out.
pub(super) fn level(metric: Metric, cell: &Cell) -> Level {
    let shows = cell.value(metric).is_some_and(|value| value > 0.0);
    if shows { cell.judged.level_of(metric.about()) } else { Level::Fine }
}

/// Title of the names.
const TITLE: &str = "TOP PAIRS";
