//! The last minutes of the header figures, and what was not RoCE.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Spans, empty, line, spark};
use crate::model::history::Point;
use crate::model::{Counts, Level};
use crate::tui::app::{App, Data};
use crate::tui::column::compact;
use crate::tui::theme;
use crate::units;

/// One figure over time.
struct Trend {
    name: &'static str,
    value: fn(&Point) -> Option<f64>,
    format: fn(f64) -> String,
    level: Level,
}

const fn trend(
    name: &'static str,
    value: fn(&Point) -> Option<f64>,
    format: fn(f64) -> String,
    level: Level,
) -> Trend {
    Trend { name, value, format, level }
}

const TRENDS: &[Trend] = &[
    trend("bits/s", |p| p.per_second(|c| c.bytes * 8), units::bit_rate, Level::Fine),
    trend("packets/s", |p| p.per_second(|c| c.packets), compact, Level::Fine),
    trend(
        "CE ratio",
        |p| p.counts.and_then(|c: Counts| c.ce_ratio()),
        |r| units::ratio(Some(r)),
        Level::Warning,
    ),
    trend("CNP/s", |p| p.per_second(|c| c.cnp), compact, Level::Warning),
    trend("missing/s", |p| p.per_second(|c| c.missing), compact, Level::Critical),
    trend("repeats/s", |p| p.per_second(|c| c.repeats), compact, Level::Warning),
    trend("RNR NAK/s", |p| p.per_second(|c| c.rnr), compact, Level::Warning),
    trend("NAK/s", |p| p.per_second(|c| c.sequence_naks + c.other_naks), compact, Level::Critical),
];

const NAME: u16 = 22;
const PEAK: u16 = 16;

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    let Some(data) = &app.data else {
        empty::render(buffer, area, app);
        return;
    };
    let width = area.width.saturating_sub(NAME + PEAK);
    let points: Vec<&Point> = app.history.latest(usize::from(width)).collect();
    let span = points.first().zip(points.last()).map_or(0, |(a, b)| b.time_ns.saturating_sub(a.time_ns));
    let title = format!(" TREND over {}, the newest at the right", units::duration(span));
    line(buffer, area, 0, &Line::styled(title, theme::HEAD));
    // Tall screens leave a blank line between figures.
    let step = if area.height >= 30 { 2 } else { 1 };
    let mut y = 1;
    for trend in TRENDS {
        line(buffer, area, y, &row(trend, &points, usize::from(width)));
        y += step;
    }
    for text in not_roce(data) {
        y += 1;
        line(buffer, area, y, &text);
    }
}

fn row(trend: &Trend, points: &[&Point], width: usize) -> Line<'static> {
    let values: Vec<Option<f64>> = points.iter().map(|point| (trend.value)(point)).collect();
    let peak = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.last().copied().flatten();
    let style = if peak > 0.0 { theme::text(trend.level) } else { theme::DIM };
    let mut spans = Spans::default();
    spans.push(format!(" {:<10}", trend.name), theme::DIM);
    spans.push(format!("{:>10} ", now.map_or_else(|| units::UNKNOWN.into(), trend.format)), style);
    let bars = if trend.level == Level::Fine { theme::BAR } else { style };
    spans.push(format!("{:>width$}", spark(&values, peak)), bars);
    spans.push(format!(" peak {:>9}", (trend.format)(peak)), theme::DIM);
    spans.into_line()
}

fn not_roce(data: &Data) -> Vec<Line<'static>> {
    let model = &data.model;
    let frames = model.frames();
    let title = format!(" NOT RoCE: frames skipped, of {}", units::count(frames));
    let mut lines = vec![Line::styled(title, theme::HEAD)];
    if model.skipped.is_empty() {
        lines.push(Line::styled(" none", theme::DIM));
    }
    lines.extend(model.skipped.iter().map(|(reason, counter)| {
        let share = units::ratio(Some(counter.packets as f64 / frames.max(1) as f64));
        let count = compact(counter.packets as f64);
        Line::raw(format!(" {count:>6} {share:>7}  {}: {}", reason.name(), reason.meaning()))
    }));
    if model.lost.any() {
        lines.push(Line::styled(
            format!(" {}", super::header::own_losses(&model.lost)),
            theme::text(Level::Warning),
        ));
    }
    if model.retired_flows > 0 {
        let bytes = model.retired_flows;
        lines.push(Line::raw(format!(
            " {} flows were retired; their packets stay in the totals",
            units::count(bytes)
        )));
    }
    lines
}
