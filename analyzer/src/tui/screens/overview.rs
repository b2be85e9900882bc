//! Overview: findings, trends, links, ECMP entropy, busiest queue pairs.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use serde_json::{Value, json};

use super::trends::{self, TRENDS};
use super::{Effect, Hints, Page, Spans, click_list, cut, empty, findings, flows, line, links, sheet};
use crate::analysis::Entropy;
use crate::model::{Level, Problem};
use crate::tui::column::{self, bar, compact};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::Sheet;
use crate::tui::key::Input;
use crate::tui::layout::{BESIDE, Layout};
use crate::tui::screen::Screen;
use crate::tui::theme;
use crate::tui::view::{AsOf, Concluded, View};
use crate::util::units;

/// Findings shown at most.
const FINDINGS: usize = 4;

/// The screen.
#[derive(Debug, Default)]
pub struct OverviewScreen {
    /// Place in the list of the busiest queue pairs.
    pub busiest: Cursor,
}

fn row_count(view: &View) -> usize {
    view.data.as_ref().map_or(0, |data| data.busiest.len())
}

fn page(view: &View) -> usize {
    view.layout().table_page(Screen::Overview)
}

impl Page for OverviewScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        self.busiest.step(step, row_count(view), page(view));
    }

    fn open(&mut self, view: &mut View) -> Effect {
        if self.busiest.selected.is_none() {
            self.step(view, Move::Up);
        }
        let row = view.data.as_ref().zip(self.busiest.selected);
        let row = row.and_then(|(data, at)| data.model.rows.get(*data.busiest.get(at)?));
        row.map_or(Effect::None, |row| Effect::Detail(row.id))
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let table = view.layout().table(Screen::Overview);
        if click_list(&mut self.busiest, table, row_count(view), at) { self.open(view) } else { Effect::None }
    }

    fn keep_in_view(&mut self, view: &View) {
        self.busiest.show(row_count(view), page(view));
    }

    fn selection(&mut self) -> Option<&mut Cursor> {
        Some(&mut self.busiest)
    }

    fn hints(&self, _: &View) -> Hints {
        (&[(&[Input::Open], "details")], &[])
    }

    /// The trends over all links, where `link` is null and packets are deduplicated, and of each link.
    fn sheet(&self, view: &View) -> Sheet {
        let mut sheet = sheet::over_time(&["link", "direction"], &[]);
        let all = trends::points(view, usize::MAX);
        sheet::add_points(&mut sheet, &[Value::Null, Value::Null], &all, &[]);
        let links = view.data.iter().flat_map(|data| &data.model.links);
        for (at, link) in links.enumerate() {
            let first = [json!(link.name), sheet::direction(link.direction)];
            sheet::add_points(&mut sheet, &first, &trends::link_points(view, at, usize::MAX), &[]);
        }
        sheet
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        render(buffer, at, view, &self.busiest);
    }
}

fn render(buffer: &mut Buffer, at: &Layout, view: &View, cursor: &Cursor) {
    if empty::nothing_at_all(buffer, at.body, view) {
        return;
    }
    let Some(data) = &view.data else { return };
    let table = at.table(Screen::Overview);
    let above = Rect { height: at.body.height - table.height, ..at.body };
    busiest(buffer, table, view, data, cursor);
    let room = usize::from(above.height);
    // A third at most for findings, so that a long list leaves room for the rest.
    let mut lines = top(view, usize::from(above.width), FINDINGS.min((room / 3).max(1)));
    let left = room.saturating_sub(lines.len());
    if above.width >= BESIDE {
        let y = u16::try_from(lines.len()).unwrap_or(0);
        for (y, text) in (0..).zip(&lines) {
            line(buffer, above, y, text);
        }
        let half = above.width / 2;
        let below = Rect { y: above.y + y, height: above.height.saturating_sub(y), ..above };
        put(buffer, Rect { width: half, ..below }, trend_lines(view, usize::from(half), left));
        let right = Rect { x: below.x + half, width: below.width - half, ..below };
        put(buffer, right, link_lines(view, data, usize::from(right.width), left));
        return;
    }
    // On narrow screens: as many trends as leave room for entropy and links.
    let below = link_lines(view, data, usize::from(above.width), left / 2);
    let trends = left.saturating_sub(below.len());
    lines.extend(trend_lines(view, usize::from(above.width), trends));
    lines.extend(below);
    put(buffer, above, lines);
}

fn put(buffer: &mut Buffer, area: Rect, lines: Vec<Line<'_>>) {
    for (y, text) in (0..area.height).zip(lines) {
        line(buffer, area, y, &text);
    }
}

/// The first findings, and the number of others.
fn top(view: &View, width: usize, most: usize) -> Vec<Line<'static>> {
    let Some(Concluded { findings: all, as_of, .. }) = view.concluded() else {
        return vec![Line::styled(" FINDINGS analysing…", theme::DIM)];
    };
    if matches!(as_of, AsOf::Later(_)) {
        // Findings of a later time say nothing about the snapshot shown.
        let text = format!(" FINDINGS {}: {} (8)", findings::since(as_of), all.len());
        return vec![Line::styled(cut(&text, width, false), theme::DIM)];
    }
    let mut lines: Vec<Line<'static>> =
        all.iter().take(most).map(|finding| findings::title(finding, width)).collect();
    match (all.len(), all.len().saturating_sub(most)) {
        (0, _) => lines.push(Line::styled(format!(" no findings {}", findings::since(as_of)), theme::DIM)),
        (_, 0) => {}
        (_, more) => {
            if let Some(last) = lines.last_mut() {
                let text = format!("  +{more} more (8)");
                let title = cut(&last.to_string(), width.saturating_sub(text.len()), false);
                *last = Line::styled(format!("{title}{text}"), last.style);
            }
        }
    }
    lines
}

fn trend_lines(view: &View, width: usize, most: usize) -> Vec<Line<'static>> {
    let cells = width.saturating_sub(trends::AROUND + 1);
    let points = trends::points(view, cells);
    let mut lines = Vec::new();
    if most > TRENDS.len() {
        let covered = units::duration(trends::covered(view, cells));
        lines.push(Line::styled(format!(" TREND, last {covered} (newest right)"), theme::HEAD));
    }
    lines.extend(TRENDS.iter().map(|trend| trends::row(trend, &points, cells)));
    lines.truncate(most);
    lines
}

/// Entropy and balance in a line each, then links by load.
fn link_lines(view: &View, data: &Data, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut lines = vec![gauge(view, width)];
    lines.extend(data.imbalance.iter().map(|imbalance| links::balance_of(imbalance, view)));
    let mut order: Vec<_> = data.model.links.iter().collect();
    order.sort_by(|a, b| links::load(b).total_cmp(&links::load(a)));
    let room = most.saturating_sub(lines.len());
    // Bars need the title, without which they would seem to show the share of the link's speed.
    let titled = order.len() < room;
    let name = width.saturating_sub(43).clamp(8, 30);
    if titled {
        let title = format!(" {:<name$} {:<3} {:<10} {:>9}  {:>10}", "LINK", "DIR", "% BUSIEST", "b/s", "CE");
        lines.push(Line::styled(title, theme::HEAD));
    }
    let highest = order.first().map_or(0.0, |link| links::load(link));
    let fit = if titled || order.len() <= room { order.len() } else { room.saturating_sub(1) };
    for link in order.iter().take(fit) {
        let share = if highest > 0.0 { links::load(link) / highest } else { 0.0 };
        let rate = link.delta.map_or_else(|| units::UNKNOWN.into(), |d| units::bit_rate(d.bits_per_s()));
        let ce = link.delta.and_then(|d| d.counts.ce_ratio());
        let mut spans = Spans::default();
        let shown = links::short(&data.model, link, name);
        spans.push(format!(" {shown:<name$} {:<3} ", links::direction(link.direction)), theme::PLAIN);
        if titled {
            spans.push(bar(share, 10), theme::BAR);
        }
        spans.push(format!(" {rate:>9}"), theme::BOLD);
        spans.push(format!("  CE {:>7}", units::ratio(ce)), theme::PLAIN);
        lines.push(spans.into_line());
    }
    let left_out = order.len() - fit;
    lines.truncate(most);
    if left_out > 0 && room > 0 {
        let which = if fit > 0 { "more link" } else { "link" };
        let s = if left_out == 1 { "" } else { "s" };
        let sign = if fit > 0 { "+" } else { "" };
        lines.push(Line::styled(format!(" {sign}{left_out} {which}{s} (5)"), theme::DIM));
    }
    lines
}

/// ECMP entropy in the time range, or why it is unknown.
pub(super) fn entropy_shown(view: &View) -> Result<Entropy, &'static str> {
    match view.entropy() {
        Some(entropy) if entropy.five_tuples > 0 => Ok(entropy),
        Some(_) => Err("no RoCE packets in this time range"),
        None if view.past() => Err("not kept for this snapshot"),
        None => Err("analysing…"),
    }
}

/// Normalized entropy over 5-tuples as a gauge.
fn gauge(view: &View, width: usize) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(" ECMP ENTROPY ", theme::BOLD);
    let entropy = match entropy_shown(view) {
        Ok(entropy) => entropy,
        Err(why) => {
            spans.push(why, theme::DIM);
            return spans.into_line();
        }
    };
    let cells = if width >= 70 { 16 } else { 8 };
    let level = if view.is_active(Problem::Hashing) { Level::Warning } else { Level::Fine };
    spans.push(bar(entropy.normalized.unwrap_or(0.0), cells), theme::BAR);
    spans.push(format!(" {}", units::ratio(entropy.normalized)), theme::text(level));
    let effective = entropy.effective_flows.map_or_else(|| units::UNKNOWN.into(), compact);
    spans.push(
        format!(" {} ≈ {effective} equal flows", super::counted(entropy.five_tuples, "5-tuple")),
        theme::PLAIN,
    );
    spans.into_line()
}

fn busiest(buffer: &mut Buffer, table: Rect, view: &View, data: &Data, cursor: &Cursor) {
    let columns =
        column::fit(table.width.saturating_sub(flows::GUTTER), view.has(), &[], Some(column::Id::Rate));
    flows::titles(buffer, table, &columns, Some(column::Id::Rate));
    let rows = data.busiest.iter().enumerate().skip(cursor.offset);
    let rows = rows.filter_map(|(place, index)| Some((place, data.model.rows.get(*index)?)));
    flows::list(buffer, table, view, data, &columns, rows, cursor.selected);
}
