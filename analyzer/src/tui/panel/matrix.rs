//! Host by host: a heat map with the figures in it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Spans, cut, empty, line};
use crate::model::Level;
use crate::tui::app::App;
use crate::tui::column::compact;
use crate::tui::matrix::{Cell, Metric};
use crate::tui::theme;
use crate::units;

/// Width of a cell with the space before it.
const CELL: u16 = 8;

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    if empty::nothing_at_all(buffer, area, app) {
        return;
    }
    let Some(data) = &app.data else { return };
    let matrix = &data.matrix;
    let (rows, columns) = matrix.size();
    let metric = app.metric;
    let most = matrix.most(metric);
    let mut title = Spans::default();
    title.push(format!(" {} ", metric.title().to_uppercase()), theme::BOLD);
    title.push(format!("░▒▓█ up to {}  ", figure(metric, Some(most))), theme::BAR);
    title.push(format!("{rows} hosts (rows) to {columns} (columns)"), theme::PLAIN);
    line(buffer, area, 0, &title.into_line());
    let shown = matrix.iter().any(|(.., cell)| cell.value(metric).is_some());
    if !shown {
        let (why, help) = match metric {
            Metric::Latency => (
                "No latency is known of these queue pairs.",
                "It needs requests and their answers seen at the same place. m shows another figure.",
            ),
            Metric::Ce => ("ECN is off: no data packet is ECN-capable.", "m shows another figure."),
            Metric::Rate | Metric::Loss => {
                ("Nothing is known of this span yet.", "It comes with the next sample.")
            }
        };
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        empty::because(buffer, below, why, help);
        return;
    }
    let name = if data.model.has_ipv6 { 24 } else { 15 };
    let fits = usize::from(area.width.saturating_sub(name + 1) / CELL).max(1);
    let page = usize::from(area.height.saturating_sub(4)).max(1);
    let (top, left) = (scroll(app.cell.0, rows, page), scroll(app.cell.1, columns, fits));
    let grid = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    heads(buffer, grid, name, matrix.destinations.iter().skip(left).take(fits), app.cell.1 - left);
    for (y, (row, src)) in (grid.y + 1..).zip(matrix.sources.iter().enumerate().skip(top).take(page)) {
        let style = if row == app.cell.0 { theme::BOLD } else { theme::PLAIN };
        let text = cut(&src.to_string(), usize::from(name), true);
        buffer.set_stringn(grid.x + 1, y, text, usize::from(name), style);
        let mut x = grid.x + 1 + name;
        for (column, dst) in matrix.destinations.iter().enumerate().skip(left).take(fits) {
            let cell = matrix.cell(src, dst);
            let area = Rect { x, y, width: CELL, height: 1 };
            draw(buffer, area, cell, metric, most);
            if (row, column) == app.cell {
                super::select(buffer, area);
            }
            x += CELL;
        }
    }
    let bottom = Rect { y: area.bottom().saturating_sub(2), height: 2, ..area };
    selected(buffer, bottom, app);
}

/// The first row or column shown, so that the selected one is.
fn scroll(selected: usize, count: usize, page: usize) -> usize {
    (selected + 1).saturating_sub(page).min(count.saturating_sub(page))
}

/// Titles of columns: the ends of addresses, which tell them apart.
fn heads<'a>(
    buffer: &mut Buffer,
    grid: Rect,
    name: u16,
    hosts: impl Iterator<Item = &'a std::net::IpAddr>,
    selected: usize,
) {
    let mut x = grid.x + 1 + name;
    for (i, host) in hosts.enumerate() {
        let text = host.to_string();
        let room = usize::from(CELL) - 1;
        let long = text.chars().count();
        let end: String = text.chars().skip(long.saturating_sub(room)).collect();
        let style = if i == selected { theme::HEAD } else { theme::BOLD };
        buffer.set_stringn(x + 1, grid.y, format!("{end:>room$}"), room, style);
        x += CELL;
    }
}

fn figure(metric: Metric, value: Option<f64>) -> String {
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

/// Shade and figure; the shade is of the share of the largest.
fn draw(buffer: &mut Buffer, area: Rect, cell: Option<&Cell>, metric: Metric, most: f64) {
    let Some(cell) = cell else {
        buffer.set_stringn(area.x, area.y, format!("{:>7} ", "·"), 8, theme::DIM);
        return;
    };
    let value = cell.value(metric);
    let share = value.map_or(0.0, |value| if most > 0.0 { value / most } else { 0.0 });
    let block = match share {
        s if s <= 0.0 => ' ',
        s if s <= 0.25 => '░',
        s if s <= 0.5 => '▒',
        s if s <= 0.75 => '▓',
        _ => '█',
    };
    let level = match (metric, value) {
        (Metric::Ce, Some(ratio)) if ratio >= crate::model::health::CE_LIMIT => Level::Warning,
        (Metric::Loss, Some(loss)) if loss > 0.0 => Level::Critical,
        _ => Level::Fine,
    };
    let style = if level == Level::Fine { theme::BAR } else { theme::text(level) };
    buffer.set_stringn(area.x + 1, area.y, block.to_string(), 1, style);
    let text = format!("{:>6}", cut(&figure(metric, value), 6, false));
    buffer.set_stringn(area.x + 2, area.y, text, 6, theme::text(level));
}

/// The selected cell in words.
fn selected(buffer: &mut Buffer, area: Rect, app: &App) {
    let Some(data) = &app.data else { return };
    let matrix = &data.matrix;
    let pair = matrix.sources.get(app.cell.0).zip(matrix.destinations.get(app.cell.1));
    let Some((src, dst)) = pair else { return };
    let Some(cell) = matrix.cell(src, dst) else {
        line(buffer, area, 1, &Line::styled(format!(" {src} → {dst}: nothing"), theme::DIM));
        return;
    };
    let of = |metric| figure(metric, cell.value(metric));
    let text = format!(
        " {src} → {dst}: {} in {}, CE {}, loss {}, latency p99 {}",
        format_args!("{}b/s", of(Metric::Rate)),
        units::plural(cell.flows as u64, "queue pair"),
        of(Metric::Ce),
        of(Metric::Loss),
        of(Metric::Latency),
    );
    line(buffer, area, 1, &Line::styled(text, theme::BOLD));
}
