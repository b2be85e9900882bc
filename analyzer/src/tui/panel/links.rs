//! Links side by side, how evenly they are used, and how evenly hashing spreads the traffic.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Spans, cut, empty, line};
use crate::model::{Delta, Level, LinkRow};
use crate::report::{Entropy, Imbalance};
use crate::sample::Direction;
use crate::tui::app::{App, Data};
use crate::tui::column::{bar, compact};
use crate::tui::theme;
use crate::units;

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    let Some(data) = &app.data else {
        empty::render(buffer, area, app);
        return;
    };
    let name = usize::from(area.width.saturating_sub(62)).clamp(10, 40);
    let titles = format!(
        " {:<name$} {:<3} {:>9} {:>6} {:<10} {:>6} {:>6} {:>5} {:>7}",
        "LINK", "DIR", "b/s", "pkt/s", "SHARE", "CE %", "BYTES", "QPs", "SKIPPED"
    );
    line(buffer, area, 0, &Line::styled(titles, theme::HEAD));
    let page = app.layout().links_page();
    let most = data.model.links.iter().map(load).fold(0.0, f64::max);
    let visible = data.model.links.iter().skip(app.links.offset).take(page);
    let mut y = 1;
    for link in visible {
        line(buffer, area, y, &row(link, name, most));
        y += 1;
    }
    let below = data.model.links.len().saturating_sub(app.links.offset + page);
    if below > 0 {
        line(buffer, area, y, &Line::styled(format!(" {below} more below"), theme::DIM));
    }
    y += 1;
    for text in balance(data).into_iter().chain(spread(&data.entropy)) {
        line(buffer, area, y, &text);
        y += 1;
    }
}

/// What a link carries: bits per second, or all bytes while that is not known.
fn load(link: &LinkRow) -> f64 {
    link.delta.map_or(link.total.bytes as f64, |d| d.bits_per_s())
}

fn row(link: &LinkRow, name: usize, most: f64) -> Line<'static> {
    let dir = direction(link.direction);
    let unknown = || units::UNKNOWN.to_owned();
    let rate = link.delta.as_ref().map(Delta::bits_per_s).map_or_else(unknown, units::bit_rate);
    let packets = link.delta.as_ref().map(Delta::packets_per_s).map_or_else(unknown, compact);
    let ce = link.total.ce_ratio();
    let marked = ce.is_some_and(|ratio| ratio >= crate::model::health::CE_LIMIT);
    let share = if most > 0.0 { load(link) / most } else { 0.0 };
    let mut spans = Spans::default();
    spans.push(format!(" {:<name$} {dir:<3} ", cut(&link.name, name, true)), theme::PLAIN);
    spans.push(format!("{rate:>9} "), theme::BOLD).push(format!("{packets:>6} "), theme::PLAIN);
    spans.push(bar(share, 10), theme::BAR);
    let ce_style = if marked { theme::text(Level::Warning) } else { theme::PLAIN };
    spans.push(format!(" {:>6}", units::ratio(ce).trim_end_matches(" %")), ce_style);
    let (bytes, skipped) = (compact(link.total.bytes as f64), compact(link.skipped.packets as f64));
    spans.push(format!(" {bytes:>6} {:>5} {skipped:>7}", link.flows), theme::PLAIN);
    spans.into_line()
}

fn direction(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Ingress) => "in",
        Some(Direction::Egress) => "out",
        None => units::UNKNOWN,
    }
}

fn balance(data: &Data) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(" BALANCE over links that share a load", theme::BOLD)];
    if data.imbalance.is_empty() {
        let why = if data.model.links.len() < 2 {
            " one link: nothing to compare"
        } else {
            " no links are known to share a load: name them with --group LINK,LINK"
        };
        lines.push(Line::styled(why, theme::DIM));
    }
    lines.extend(data.imbalance.iter().map(balance_of));
    lines
}

fn balance_of(imbalance: &Imbalance) -> Line<'static> {
    let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
    let uneven = imbalance.max_over_mean.is_some_and(|ratio| ratio >= super::header::UNBALANCED);
    let level = if uneven { Level::Warning } else { Level::Fine };
    let word = if uneven { "uneven" } else { "even" };
    let mut spans = Spans::default();
    spans.push(format!(" {} {word:<7}", theme::symbol(level)), theme::text(level));
    spans.push(format!("max/mean {}  ", number(imbalance.max_over_mean)), theme::PLAIN);
    spans.push(format!("Jain {}  ", number(imbalance.jain)), theme::PLAIN);
    spans.push(format!("{} {}", direction(imbalance.direction), imbalance.links.join(", ")), theme::DIM);
    spans.into_line()
}

fn spread(entropy: &Entropy) -> Vec<Line<'static>> {
    let number = |n: Option<f64>| n.map_or_else(|| units::UNKNOWN.to_owned(), |n| format!("{n:.2}"));
    let mut lines = vec![
        Line::default(),
        Line::styled(" SPREAD over 5-tuples, which the fabric hashes to choose a path", theme::BOLD),
    ];
    let mut counts = Spans::default();
    counts.push(format!(" {} 5-tuples", units::count(entropy.five_tuples)), theme::BOLD);
    counts.push(format!(", {} source ports", units::count(entropy.source_ports)), theme::PLAIN);
    counts.push(
        format!(", as many bytes as {} equal flows would spread", number(entropy.effective_flows)),
        theme::PLAIN,
    );
    lines.push(counts.into_line());
    let low = entropy.five_tuples > 1 && entropy.normalized.is_some_and(|n| n < super::header::LOW_ENTROPY);
    let level = if low { Level::Warning } else { Level::Fine };
    let mut bits = Spans::default();
    bits.push(
        format!(
            " entropy {} bits, {} of the largest possible ",
            number(entropy.entropy_bits),
            units::ratio(entropy.normalized)
        ),
        theme::text(level),
    );
    bits.push(bar(entropy.normalized.unwrap_or(0.0), 10), theme::BAR);
    lines.push(bits.into_line());
    let mut top = Spans::default();
    top.push(
        format!(" the largest 5-tuple has {} of the bytes ", units::ratio(entropy.top_share)),
        theme::PLAIN,
    );
    top.push(bar(entropy.top_share.unwrap_or(0.0), 10), theme::BAR);
    lines.push(top.into_line());
    if let Some(bytes) = entropy.unattributed_bytes.filter(|bytes| *bytes > 0) {
        lines.push(Line::raw(format!(" {} are of 5-tuples no longer known", units::bytes(bytes))));
    }
    lines
}
