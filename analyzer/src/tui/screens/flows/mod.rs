//! The table of queue pairs. Only the visible rows are made into text.

pub(in crate::tui) mod choice;
pub mod groups;
mod sums;
pub mod table;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use serde_json::json;

use self::sums::{GUTTER, GroupAreas, Units, titles};
use self::table::{Group, Table};
use super::page::{Effect, Hint, Hints, Page};
use super::{detail, empty};
use crate::model::{Identity, Row};
use crate::sample::address;
use crate::tui::column::{self, Column, FittedColumn, Id, SortOrder, sets};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::{self, Content, ExportTable, Form};
use crate::tui::focus::{Focus, FocusCondition};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::overlay::Overlay;
use crate::tui::screen::Screen;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, frame_height, panel};
use crate::tui::widgets::{scrolled, select};
use crate::tui::{log, theme};

/// Lines below the table from which on they show the selected queue pair.
const PREVIEW: u16 = 8;
/// Columns beside it from which on they do.
const BESIDE: u16 = 80;

impl Table {
    /// Sorts by a column in its natural direction.
    fn sort_by(&mut self, id: Id) -> Effect {
        self.sort = SortOrder::by(id);
        Effect::Arrange
    }

    fn reverse(&mut self) -> Effect {
        self.sort.descending = !self.sort.descending;
        Effect::Arrange
    }

    /// Sorts by the next visible column, or the one before.
    fn sort_by_next(&mut self, view: &View) -> Effect {
        let visible: Vec<Id> = self.visible_columns(view).iter().map(|fitted| fitted.column.id).collect();
        let count = visible.len();
        if count == 0 {
            return Effect::None;
        }
        let at = visible.iter().position(|id| *id == self.sort.by);
        let to = at.map_or(0, |at| (at + 1) % count);
        visible.get(to).map_or(Effect::None, |id| self.sort_by(*id))
    }

    /// Groups queue pairs, or not.
    pub(in crate::tui) fn group_by(&mut self, view: &mut View, group: Group) -> Effect {
        if group == Group::Process && !view.has().owners {
            view.messages.say("process unknown for all queue pairs");
        }
        (self.next_group, self.grouped) = (Some(group), true);
        view.selected = None;
        self.cursor = Cursor::default();
        Effect::Arrange
    }

    /// Drops the choice of what something is about and of what is marked; false where there was none.
    pub(in crate::tui) fn show_all(&mut self) -> bool {
        self.focus.take().is_some() | std::mem::take(&mut self.only_marked)
    }

    /// Marks the selected queue pair, or removes its mark.
    fn mark(view: &mut View) {
        match view.selected {
            None => view.messages.say("no queue pair selected to mark"),
            Some(id) if view.marked.remove(&id) => {}
            Some(id) => {
                view.marked.insert(id);
            }
        }
    }

    fn follow_or_keep(&mut self, view: &mut View) -> Effect {
        self.follow = !self.follow;
        view.messages.say(if self.follow {
            "the view follows the selected row"
        } else {
            "rows keep their places while one is selected"
        });
        Effect::Arrange
    }

    /// The selected group as a focus.
    fn group_focus(&self, view: &View) -> Option<Focus> {
        let at = *self.order.get(self.cursor.selected?)?;
        let (sum, data) = (self.group_sum(view, at)?, view.data.as_ref()?);
        let id = sum.row.id;
        let host = |words| address(id.key.family, words);
        let on = match self.group {
            Group::None | Group::Taps | Group::Hosts => {
                FocusCondition::Hosts(host(id.key.src), host(id.key.dst))
            }
            Group::Link => FocusCondition::Links(vec![id.key.link]),
            Group::Process => {
                let cx = data.context();
                let row = data.row(&id);
                FocusCondition::Process(row.and_then(|row| cx.owner(row)).and_then(column::process))
            }
        };
        Some(Focus { about: sum.name.to_string(), on })
    }

    /// The columns that the table has now: those of queue pairs, or of groups.
    pub fn visible_columns(&self, view: &View) -> Vec<FittedColumn> {
        match self.group {
            Group::None => self.columns(view),
            group => GroupAreas::new(view.layout().inner(), view, group).columns,
        }
    }

    /// A click on a title sorts by it, or reverses the order.
    fn click_title(&mut self, view: &View, table: Rect, x: u16) -> Effect {
        let start =
            if self.group == Group::None { table.x } else { GroupAreas::new(table, view, self.group).rest.x };
        let mut left = GUTTER + start;
        for fitted in self.visible_columns(view) {
            if (left..=left + fitted.width).contains(&x) {
                let id = fitted.column.id;
                return if self.sort.by == id { self.reverse() } else { self.sort_by(id) };
            }
            left += fitted.width + 1;
        }
        Effect::None
    }
}

impl Page for Table {
    fn step(&mut self, view: &mut View, step: Move) {
        if let Some(data) = &view.data {
            let page = view.layout().table_page();
            view.selected = self.step_rows(step, &data.model, page);
        }
    }

    /// From a row to its details, from a group to its queue pairs.
    fn open(&mut self, view: &mut View) -> Effect {
        if view.selected.is_none() {
            self.step(view, Move::Up);
        }
        if matches!(self.group, Group::None | Group::Taps) {
            return view.selected.map_or(Effect::None, Effect::Detail);
        }
        self.group_focus(view).map_or(Effect::None, Effect::Focus)
    }

    /// On a title: sorts. On a row: selects it. On the selected row: opens it.
    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let table = view.layout().inner();
        if !table.contains(at) {
            return Effect::None;
        }
        let free = view.data.as_ref().map(|data| self.split(view.layout().body, view, data).1);
        if free.is_some_and(|free| free.contains(at)) {
            return self.open(view);
        }
        if at.y == table.y {
            return self.click_title(view, table, at.x);
        }
        let row = self.cursor.offset + usize::from(at.y - table.y - 1);
        if self.cursor.selected == Some(row) {
            return self.open(view);
        }
        if let Some(data) = view.data.as_ref().filter(|_| row < self.order.len()) {
            self.cursor.selected = Some(row);
            self.cursor.show(self.order.len(), usize::from(table.height.saturating_sub(1)));
            view.selected = self.id_at(row, &data.model);
        }
        Effect::None
    }

    fn on_input(&mut self, view: &mut View, input: Input) -> Effect {
        match input {
            Input::SortNext => self.sort_by_next(view),
            Input::Reverse => self.reverse(),
            Input::Columns => Effect::Overlay(Overlay::Columns(0)),
            Input::ColumnSet => {
                // Sums have columns of their own.
                (self.next_group, self.grouped) = (Some(Group::None), true);
                self.next_columns(view);
                Effect::Arrange
            }
            Input::Group => self.group_by(view, self.group.next(view.has().twins)),
            Input::Mark => {
                Self::mark(view);
                Effect::None
            }
            Input::OnlyMarked => {
                self.only_marked = !self.only_marked;
                Effect::Arrange
            }
            Input::Follow => self.follow_or_keep(view),
            _ => Effect::None,
        }
    }

    fn keep_in_view(&mut self, view: &View) {
        self.cursor.show(self.order.len(), view.layout().table_page());
    }

    fn selection(&mut self) -> Option<&mut Cursor> {
        Some(&mut self.cursor)
    }

    fn hints(&self, _: &View) -> Hints {
        const SORT: Hint = (&[Input::SortNext], "sort");
        const FILTER: Hint = (&[Input::Filter], "filter");
        const COLUMNS: Hint = (&[Input::Columns], "columns");
        const GROUP: Hint = (&[Input::Group], "group");
        if self.order.is_empty() {
            return (&[], &[SORT, FILTER, COLUMNS]);
        }
        (&[(&[Input::Open], "details")], &[SORT, FILTER, COLUMNS, GROUP])
    }

    /// Rows in the order shown, or their groups.
    fn export_table(&self, view: &View) -> ExportTable {
        let Some(data) = &view.data else { return ExportTable::default() };
        if self.group == Group::None {
            return export::of_rows(data, &self.order);
        }
        let columns: Vec<&Column> = export::columns(true).collect();
        let mut table = ExportTable::new(&["group", "flows"]);
        table.names.extend(columns.iter().map(|column| column.field()));
        let sums = self.order.iter().filter_map(|at| self.group_sum(view, *at));
        table.rows = sums
            .map(|sum| {
                let cells = columns.iter().map(|column| column.value(&sum.row, data.context()).json());
                [json!(sum.name.to_string()), json!(sum.flows)].into_iter().chain(cells).collect()
            })
            .collect();
        table
    }

    /// Many rows take too long for a key: the background makes the table.
    fn content(&self, view: &View, form: Form) -> Content {
        match &view.data {
            Some(data) if self.group == Group::None => {
                Content::Rows(Arc::clone(data), self.order.clone(), form)
            }
            _ => Content::Table(self.export_table(view), form),
        }
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        let Some(data) = view.data.as_ref().filter(|_| !self.order.is_empty()) else {
            self.nothing(buffer, at.body, view);
            return;
        };
        let key = |input| view.options.keys.first(input);
        let set = sets::of(&self.columns).map_or("own", |set| set.name);
        let (group, next, choice) = (key(Input::Group), key(Input::ColumnSet), key(Input::Columns));
        let hint = format!("{next} columns: {set} · {choice} choose · {group} groups");
        self.draw(buffer, at.body, view, data, &hint);
    }
}

impl Table {
    /// The queue pair that is shown where the table leaves room: the selected one, else the first.
    fn previewed(&self, data: &Data) -> Option<Identity> {
        match self.group {
            Group::None | Group::Taps => self.id_at(self.cursor.selected.unwrap_or(0), &data.model),
            _ => None,
        }
    }

    /// The table, and what it leaves free below its rows, or beside its columns.
    fn split(&self, area: Rect, view: &View, data: &Data) -> (Rect, Rect) {
        if self.previewed(data).is_none() {
            return (area, Rect::default());
        }
        let frame = frame_height(view.layout().boxed());
        let used = u16::try_from(self.order.len()).unwrap_or(u16::MAX).saturating_add(1 + frame);
        let below = area.height.saturating_sub(used);
        if below >= PREVIEW {
            let table = Rect { height: area.height - below, ..area };
            return (table, Rect { y: table.bottom(), height: below, ..area });
        }
        let columns: u16 = self.columns(view).iter().map(|fitted| fitted.width + 1).sum();
        let beside = area.width.saturating_sub(GUTTER + columns + frame);
        if self.group != Group::None || view.screen != Screen::Qps || beside < BESIDE {
            return (area, Rect::default());
        }
        let table = Rect { width: area.width - beside, ..area };
        (table, Rect { x: table.right(), width: beside, ..area })
    }

    /// The table in its frame, and below or beside it the selected queue pair, where there is room.
    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, view: &View, data: &Data, hint: &str) {
        let boxed = view.layout().boxed();
        let id = self.previewed(data);
        let (above, free) = self.split(area, view, data);
        let name = format!("{}S", self.group.title().to_uppercase().replace("PROCESS", "PROCESSE"));
        let focused = self.focus.as_ref().map(|focus| format!("of {}", focus.about));
        let about = match self.group {
            _ if focused.is_some() => focused.as_deref().unwrap_or_default(),
            Group::None if data.model.dedup.taps > 1 => "each tap",
            Group::None if self.marks_states(view, data) => table::MARKED_STATES,
            Group::None => "each direction",
            Group::Taps => "deduplicated across taps",
            Group::Hosts | Group::Link | Group::Process => "sums",
        };
        let table = panel(buffer, above, boxed, Title { name: &name, about, hint });
        if let Some(id) = id.filter(|_| !free.is_empty()) {
            let about = log::route(&id.key);
            let hint = format!("{} opens", view.options.keys.first(Input::Open));
            let hint = if view.screen == Screen::Qps { hint.as_str() } else { "" };
            let name = if self.cursor.selected.is_some() { "SELECTED" } else { "FIRST ROW" };
            let area = panel(buffer, free, boxed, Title { name, about: &about, hint });
            let lines = detail::preview(view, id, usize::from(area.width), usize::from(area.height));
            scrolled(buffer, area, &lines, 0);
        }
        if self.group != Group::None {
            self.render_groups(buffer, table, view, data);
            return;
        }
        let rows = self.order.iter().enumerate().skip(self.cursor.offset);
        let rows = rows.filter_map(|(place, index)| Some((place, data.model.rows.get(*index)?)));
        // On another screen it has a part of the width.
        let own = view.screen == Screen::Qps;
        let columns = if own { self.columns(view) } else { self.columns_in(view, table.width) };
        titles(buffer, table, &columns, Some(self.sort.by));
        list(buffer, table, view, data, &columns, rows, self.cursor.selected);
    }
}

impl Table {
    /// Reason why there are no rows.
    fn nothing(&self, buffer: &mut Buffer, area: Rect, view: &View) {
        if view.row_count() == 0 {
            empty::render(buffer, area, view);
            return;
        }
        let by = match &self.focus {
            Some(focus) => format!("belongs to {}", focus.about),
            None if self.only_marked => "is marked".to_owned(),
            None => format!("matches \"{}\"", view.filter.text),
        };
        empty::because(buffer, area, &format!("No queue pair {by}."), "Esc clears it, / edits the filter.");
    }
}

/// Rows of queue pairs below one line of titles.
pub(super) fn list<'a>(
    buffer: &mut Buffer,
    table: Rect,
    view: &View,
    data: &Data,
    columns: &[FittedColumn],
    rows: impl Iterator<Item = (usize, &'a Row)>,
    selected: Option<usize>,
) {
    let cx = data.context();
    let rows: Vec<(usize, &Row)> = rows.take(usize::from(table.height.saturating_sub(1))).collect();
    let links: Vec<String> = data.model.links.iter().map(column::shown_link).collect();
    let units = Units::new(columns, &rows.iter().map(|(_, row)| *row).collect::<Vec<_>>(), cx);
    units.name(buffer, table, columns);
    for (y, (place, row)) in (table.y + 1..).zip(rows) {
        let marked = view.marked.contains(&row.id);
        let sign = if marked { "*" } else { " " };
        buffer.set_stringn(table.x, y, sign, 1, theme::BOLD);
        units.row(buffer, Rect { y, ..table }, columns, row, cx, &links);
        if selected == Some(place) {
            select(buffer, Rect { y, height: 1, ..table });
        }
    }
}
