//! Sums of queue pairs, a row for each group, and a column for each tap of those that several taps see.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::table::{Group, Table};
use crate::model::Row;
use crate::tui::column::unit::Unit;
use crate::tui::column::{self, Column, Context, FittedColumn, Id};
use crate::tui::data::Data;
use crate::tui::view::View;
use crate::tui::widgets::{cut, line, select};
use crate::tui::{names, theme};

/// Columns at the left for marks.
pub(super) const GUTTER: u16 = 1;
/// Columns of a tap's figure, of the names of taps, and of a sum with the blank before it.
const TAP_WIDTH: u16 = 9;
const SEEN_AT: u16 = 14;
const SUM_WIDTH: u16 = 6;

impl Table {
    /// One row for each group.
    pub(super) fn render_groups(&self, buffer: &mut Buffer, table: Rect, view: &View, data: &Data) {
        let cx = data.context();
        let GroupAreas { name: width, rest, columns, taps, seen_at } =
            GroupAreas::new(table, view, self.group);
        let counted = if self.group == Group::Taps { "TAPS" } else { "QPs" };
        let title = format!("{:<1$}", self.group.title().to_uppercase(), usize::from(width));
        line(buffer, table, 0, &Line::styled(format!(" {title} {counted:>5}"), theme::HEAD));
        titles(buffer, rest, &columns, Some(self.sort.by));
        let figure = column::column(if view.has().lossy() { Id::Lost } else { Id::Rate });
        let used: u16 = columns.iter().map(|fitted| fitted.width + 1).sum();
        let right = Rect { x: rest.x + GUTTER + used, ..rest };
        if seen_at > 0 {
            buffer.set_stringn(right.x, table.y, "SEEN AT", usize::from(seen_at), theme::HEAD);
        }
        let short = names::distinct(&data.model.links.iter().map(column::shown_link).collect::<Vec<_>>());
        let page = usize::from(table.height.saturating_sub(1));
        let rows = self.order.iter().enumerate().skip(self.cursor.offset).take(page);
        let sums: Vec<_> =
            rows.filter_map(|(place, at)| Some((place, *at, self.group_sum(view, *at)?))).collect();
        let units = Units::new(&columns, &sums.iter().map(|(.., sum)| &sum.row).collect::<Vec<_>>(), cx);
        units.name(buffer, rest, &columns);
        let members: Vec<&Row> = sums.iter().flat_map(|(_, at, _)| self.groups.members(*at, cx)).collect();
        let unit = tap_titles(buffer, right, figure, &taps, (&members, cx));
        for (y, (place, index, sum)) in (table.y + 1..).zip(&sums) {
            let members =
                if self.group == Group::Taps { self.groups.members(*index, cx).count() } else { sum.flows };
            let name = cut(&sum.name.to_string(), usize::from(width), true);
            let text = format!(" {name:<0$} {1:>5}", usize::from(width), column::compact(members as f64));
            buffer.set_stringn(table.x, y, text, usize::from(table.width), theme::PLAIN);
            units.row(buffer, Rect { y, ..rest }, &columns, &sum.row, cx, &[]);
            for (at, tap) in (0u16..).zip(&taps) {
                let member = self.groups.members(*index, cx).find(|row| {
                    data.model
                        .links
                        .get(usize::from(row.id.key.link))
                        .is_some_and(|link| column::link_name(link) == *tap)
                });
                let unseen = || (crate::util::units::UNKNOWN.to_owned(), theme::DIM);
                let (mut text, style) = member.map_or_else(unseen, |row| figure.cell(row, cx));
                if let Some((unit, row)) = unit.as_ref().zip(member) {
                    text = unit.show(figure, row, cx);
                }
                let (x, room) = (right.x + at * (TAP_WIDTH + 1), usize::from(TAP_WIDTH));
                buffer.set_stringn(x, y, format!("{text:>room$}"), room, style);
            }
            if seen_at > 0 {
                let mut at: Vec<u16> = self.groups.members(*index, cx).map(|row| row.id.key.link).collect();
                at.sort_unstable();
                let at: Vec<&str> =
                    at.iter().filter_map(|link| short.get(usize::from(*link))).map(String::as_str).collect();
                let room = usize::from(seen_at);
                buffer.set_stringn(right.x, y, cut(&at.join(" "), room, false), room, theme::PLAIN);
            }
            if self.cursor.selected == Some(*place) {
                select(buffer, Rect { y, height: 1, ..table });
            }
        }
    }
}

/// The unit of the figure of each tap in these rows, as those of a column have one, and titles with it.
fn tap_titles(
    buffer: &mut Buffer,
    right: Rect,
    figure: &'static Column,
    taps: &[String],
    (rows, cx): (&[&Row], Context<'_>),
) -> Option<Unit> {
    let unit = Unit::of(figure, TAP_WIDTH, rows, cx);
    let measure = unit.as_ref().map_or(figure.title, |unit| unit.title.as_str());
    for (at, tap) in (0u16..).zip(names::distinct(taps)) {
        let room = usize::from(TAP_WIDTH);
        let name = cut(&format!("{measure} {tap}"), room, true);
        buffer.set_stringn(
            right.x + at * (TAP_WIDTH + 1),
            right.y,
            format!("{name:>room$}"),
            room,
            theme::HEAD,
        );
    }
    unit
}

/// Areas of the table of groups.
pub(super) struct GroupAreas {
    /// Columns for the name.
    name: u16,
    /// The columns right of name and number of queue pairs.
    pub(super) rest: Rect,
    /// These columns.
    pub(super) columns: Vec<FittedColumn>,
    /// Links with a figure of their own, right of all.
    taps: Vec<String>,
    /// Columns for the names of the taps instead, where there are too many for that.
    seen_at: u16,
}

impl GroupAreas {
    pub(super) fn new(table: Rect, view: &View, group: Group) -> Self {
        const FLOWS: u16 = 6;
        // Two short addresses, or on wider screens two long ones.
        let least = if table.width < 80 { 20 } else { 28 };
        let mut name = (table.width / 3).max(least);
        let mut taps = Vec::new();
        if let (Group::Taps, Some(data)) = (group, &view.data) {
            // No wider than the longest.
            name = name.min(if view.has().ipv6 { 96 } else { 2 * view.has().ipv4 + 14 });
            let links = data.model.links.iter().filter(|link| link.flows > 0).map(column::link_name);
            taps = links.collect();
        }
        let used = GUTTER + name + 1 + FLOWS;
        let rest = Rect { x: table.x + used, width: table.width.saturating_sub(used), ..table };
        let has = view.has();
        // State, rate and what there is trouble with come before taps, and taps are all there or none.
        let count = u16::try_from(taps.len()).unwrap_or(u16::MAX);
        let spare = rest.width.saturating_sub(GUTTER + SUM_WIDTH * (2 + has.troubles()));
        let own = count.saturating_mul(TAP_WIDTH + 1);
        let (own, seen_at) = match group {
            Group::Taps if own <= spare => (own, 0),
            Group::Taps => {
                taps.clear();
                let seen_at = if spare > SEEN_AT { SEEN_AT } else { 0 };
                (seen_at + seen_at.min(1), seen_at)
            }
            _ => (0, 0),
        };
        let width = rest.width.saturating_sub(GUTTER + own);
        Self { name, rest, columns: column::fit_sums(width, has, own == 0), taps, seen_at }
    }
}

/// The unit of each column over the rows in view, which its title names; `None` for columns that have none.
pub(super) struct Units(Vec<Option<Unit>>);

impl Units {
    pub(super) fn new(columns: &[FittedColumn], rows: &[&Row], cx: Context<'_>) -> Self {
        Self(columns.iter().map(|fitted| Unit::of(fitted.column, fitted.width, rows, cx)).collect())
    }

    /// Puts the units into the titles, which keep their style.
    pub(super) fn name(&self, buffer: &mut Buffer, table: Rect, columns: &[FittedColumn]) {
        let mut x = table.x + GUTTER;
        for (fitted, unit) in columns.iter().zip(&self.0) {
            let area = Rect { x, y: table.y, width: fitted.width, height: 1 };
            let style =
                buffer.cell((area.right().saturating_sub(1), area.y)).map(ratatui::buffer::Cell::style);
            if let (Some(Unit { title, .. }), Some(style)) = (unit, style) {
                let blank = " ".repeat(usize::from(area.width));
                buffer.set_stringn(x, area.y, blank, usize::from(area.width), ratatui::style::Style::reset());
                put(buffer, area, fitted, title, style);
            }
            x += fitted.width + 1;
        }
    }

    /// The cells of a row.
    pub(super) fn row(
        &self,
        buffer: &mut Buffer,
        table: Rect,
        columns: &[FittedColumn],
        row: &Row,
        cx: Context<'_>,
        links: &[String],
    ) {
        let mut x = table.x + GUTTER;
        for (fitted, unit) in columns.iter().zip(&self.0) {
            let (mut text, style) = fitted.column.cell(row, cx);
            if let Some(unit) = unit {
                text = unit.show(fitted.column, row, cx);
            } else if fitted.column.id == Id::Link {
                text = names::apart(&text, links.iter().map(String::as_str), usize::from(fitted.width));
            }
            put(buffer, Rect { x, y: table.y, width: fitted.width, height: 1 }, fitted, &text, style);
            x += fitted.width + 1;
        }
    }
}

/// The title of a column, in short where it is narrower than that.
fn title(fitted: &FittedColumn) -> &'static str {
    match fitted.column.id {
        Id::Destination if usize::from(fitted.width) < fitted.column.title.len() => "DEST",
        _ => fitted.column.title,
    }
}

pub(super) fn titles(buffer: &mut Buffer, table: Rect, columns: &[FittedColumn], sorted: Option<Id>) {
    let mut x = table.x + GUTTER;
    for fitted in columns {
        let area = Rect { x, y: table.y, width: fitted.width, height: 1 };
        let style =
            if sorted == Some(fitted.column.id) { theme::HEAD.patch(theme::SELECTED) } else { theme::HEAD };
        put(buffer, area, fitted, title(fitted), style);
        x += fitted.width + 1;
    }
}

fn put(buffer: &mut Buffer, area: Rect, fitted: &FittedColumn, text: &str, style: ratatui::style::Style) {
    let width = usize::from(area.width);
    let keep_end = matches!(fitted.column.id, Id::Source | Id::Destination | Id::Link);
    let text = cut(text, width, keep_end);
    let free = width - text.chars().count().min(width);
    let x = area.x + if fitted.column.kind.right() { u16::try_from(free).unwrap_or(0) } else { 0 };
    buffer.set_stringn(x, area.y, &text, width, style);
}
