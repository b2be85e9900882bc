//! The table of queue pairs: rows, their order, and the place of the selected one.

use std::cmp::Reverse;

pub use super::groups::{Group, GroupRow, Groups, Name};
use crate::model::snapshot::Finder;
use crate::model::{Identity, Model, Row, State};
use crate::sample::address;
use crate::tui::Options;
pub use crate::tui::column::SortOrder;
use crate::tui::column::{self, Column, Context, Id, SortKey};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::{Data, is_of};
pub use crate::tui::focus::{Focus, FocusCondition};
use crate::tui::texts;
use crate::tui::view::View;

/// Stands above states in lower case or with a sign.
pub(super) const MARKED_STATES: &str = "lower case: ended · +: and others";

/// The table of queue pairs.
#[derive(Debug, Default)]
pub struct Table {
    /// Column and order of the rows.
    pub sort: SortOrder,
    /// Columns that the user chose, from left to right; empty for those that fit.
    pub columns: Vec<Id>,
    /// Those that the configuration file names or the user chose one by one, which are not in a set.
    pub own_columns: Vec<Id>,
    /// Property that queue pairs in one row share.
    pub group: Group,
    /// The one that rows are to be grouped by, once they are arranged again.
    pub(in crate::tui) next_group: Option<Group>,
    /// Rows: places in the model's rows, or in `groups` when queue pairs are grouped.
    pub order: Vec<usize>,
    /// Groups, when queue pairs are grouped.
    pub groups: Groups,
    /// Selected place in `order`.
    pub cursor: Cursor,
    /// True if only marked ones are shown.
    pub only_marked: bool,
    /// True if rows move while one is selected.
    pub follow: bool,
    /// The queue pairs shown, besides the filter.
    pub focus: Option<Focus>,
    /// True once the user chose how queue pairs are grouped.
    pub grouped: bool,
}

impl Table {
    /// The state that the options ask for.
    pub fn new(options: &Options) -> Self {
        let (sort, columns) = (options.sort.unwrap_or_default(), options.columns.clone());
        Self { sort, own_columns: columns.clone(), columns, ..Self::default() }
    }

    /// The property that rows are grouped by, or will be once they are arranged again.
    pub(in crate::tui) fn chosen_group(&self) -> Group {
        self.next_group.unwrap_or(self.group)
    }

    /// True if rows keep their places: while the user looks at one.
    pub(in crate::tui) fn keeps_places(&self, view: &View) -> bool {
        view.selected.is_some() && !self.follow && self.group == Group::None
    }

    /// True if a visible row's state is written in lower case or with a sign.
    pub(super) fn marks_states(&self, view: &View, data: &Data) -> bool {
        let visible = self.order.iter().skip(self.cursor.offset).take(view.layout().table_page());
        let mut states = visible.filter_map(|at| data.model.rows.get(*at)).map(State::of);
        states.any(|state| state.worst.is_some() && (state.more || !state.present))
    }

    /// Sorts and filters again; returns the selected queue pair while it is still in the table. With `keep`, the rows
    /// that the present order refers to, those that were there stay in their places, and new ones come last.
    pub(in crate::tui) fn arrange(
        &mut self,
        view: &View,
        data: &Data,
        keep: Option<&[Row]>,
    ) -> Option<Identity> {
        let cx = data.context();
        let chosen = self.chosen_group();
        self.group = if self.grouped { chosen } else { Group::automatic(cx.model.dedup.taps > 1) };
        self.next_group = None;
        let rows = &cx.model.rows;
        let shown = self.shown(view, cx);
        if self.group == Group::None {
            self.groups.clear();
            self.order = if let Some(keep) = keep {
                keep_places(&self.order, keep, rows, shown)
            } else {
                let mut sorting = Sorting::new(self.sort, shown.len(), cx);
                for at in shown {
                    if let Some(row) = rows.get(at) {
                        sorting.add(at, row);
                    }
                }
                sorting.sorted()
            };
        } else {
            let mut sorting = Sorting::new(self.sort, shown.len(), cx);
            self.groups.fill(self.group, &shown, cx, &data.paths.overlap, |at, row| sorting.add(at, row));
            self.order = sorting.sorted();
        }
        let place = view.selected.and_then(|id| {
            let index = match self.group {
                Group::None => data.place(&id),
                _ => self.groups.position(&id, cx),
            }?;
            self.order.iter().position(|other| *other == index)
        });
        self.cursor.follow(place, self.order.len(), view.layout().table_page());
        view.selected.filter(|_| place.is_some())
    }

    /// The rows that filter, focus and marks let through.
    fn shown(&self, view: &View, cx: Context<'_>) -> Vec<usize> {
        let rows = &cx.model.rows;
        let filter = &view.filter;
        if filter.query.is_empty() && !self.only_marked && self.focus.is_none() {
            return (0..rows.len()).collect();
        }
        let links = texts::links(cx.model);
        let focused = |row: &Row| match self.focus.as_ref().map(|focus| &focus.on) {
            None => true,
            Some(FocusCondition::Flows(flows)) => flows.iter().any(|flow| is_of(row, flow, cx.model)),
            Some(FocusCondition::Hosts(src, dst)) => {
                let key = &row.id.key;
                address(key.family, key.src) == *src && address(key.family, key.dst) == *dst
            }
            Some(FocusCondition::Host(host)) => {
                let key = &row.id.key;
                [key.src, key.dst].into_iter().any(|end| address(key.family, end) == *host)
            }
            Some(FocusCondition::Pod(pod)) => {
                cx.owner(row).and_then(|owner| owner.pod.as_ref()) == pod.as_ref()
            }
            Some(FocusCondition::Job(job)) => cx.owner(row).and_then(|owner| owner.job()) == job.as_deref(),
            Some(FocusCondition::Links(links)) => links.contains(&row.id.key.link),
            Some(FocusCondition::Process(name)) => cx.owner(row).and_then(column::process) == *name,
        };
        let wanted = |(_, row): &(usize, &Row)| {
            (filter.query.is_empty() || filter.query.row(row, &filter.texts, &links, cx))
                && (!self.only_marked || view.marked.contains(&row.id))
                && focused(row)
        };
        rows.iter().enumerate().filter(wanted).map(|(i, _)| i).collect()
    }

    /// Queue pairs shown, and all there are: rows, or in groups each of them once.
    pub fn queue_pairs(&self, view: &View) -> (usize, usize) {
        let grouped = self.groups.flows();
        match self.group {
            Group::None => (self.order.len(), view.row_count()),
            Group::Link => (grouped, view.row_count()),
            Group::Taps | Group::Hosts | Group::Process => {
                let all = view.data.as_ref().map_or(0, |data| data.model.dedup.flows);
                // Both ends may be captured here; each counts for its own process.
                (grouped.min(all), all)
            }
        }
    }

    /// Sum of group number `at`.
    pub fn group_sum(&self, view: &View, at: usize) -> Option<GroupRow> {
        let data = view.data.as_ref()?;
        self.groups.sum(at, data.context(), &data.paths.overlap)
    }

    /// The columns of queue pairs, as they fit.
    pub fn columns(&self, view: &View) -> Vec<column::FittedColumn> {
        self.columns_in(view, view.layout().inner().width)
    }

    /// The columns that this width has room for.
    pub(super) fn columns_in(&self, view: &View, width: u16) -> Vec<column::FittedColumn> {
        column::fit(width.saturating_sub(1), view.has(), &self.columns)
    }

    /// Title of the column that rows are sorted by.
    pub fn sorted_by(&self) -> &'static str {
        column::column(self.sort.by).title
    }

    /// The queue pair in row number `at`; the first of a group.
    pub fn id_at(&self, at: usize, model: &Model) -> Option<Identity> {
        let index = *self.order.get(at)?;
        match self.group {
            Group::None => model.rows.get(index).map(|row| row.id),
            _ => self.groups.id(index, &model.rows),
        }
    }

    /// Moves the selection; returns the selected queue pair.
    pub(in crate::tui) fn step_rows(&mut self, step: Move, model: &Model, page: usize) -> Option<Identity> {
        self.cursor.step(step, self.order.len(), page);
        self.cursor.selected.and_then(|at| self.id_at(at, model))
    }
}

/// Puts rows in the order of a column.
struct Sorting<'a> {
    column: &'static Column,
    descending: bool,
    cx: Context<'a>,
    /// By addresses and texts.
    wide: Vec<(SortKey, usize)>,
    /// By numbers. They fit into half the bits, and half the memory is sorted in half the time.
    narrow: Vec<(u64, Reverse<u64>, u32)>,
}

impl<'a> Sorting<'a> {
    /// For at most this number of rows.
    fn new(sort: SortOrder, rows: usize, cx: Context<'a>) -> Self {
        let column = column::column(sort.by);
        let (wide, narrow) = if column.kind.is_wide() { (rows, 0) } else { (0, rows) };
        Self {
            column,
            descending: sort.descending,
            cx,
            wide: Vec::with_capacity(wide),
            narrow: Vec::with_capacity(narrow),
        }
    }

    fn add(&mut self, place: usize, row: &Row) {
        let key = self.column.sort_key(self.descending, row, self.cx);
        if self.column.kind.is_wide() {
            self.wide.push((key, place));
        } else {
            let SortKey { major, minor } = key;
            let major = u64::try_from(major).unwrap_or(u64::MAX);
            self.narrow.push((major, minor, u32::try_from(place).unwrap_or(u32::MAX)));
        }
    }

    fn sorted(mut self) -> Vec<usize> {
        self.wide.sort_unstable();
        self.narrow.sort_unstable();
        let wide = self.wide.into_iter().map(|(_, place)| place);
        wide.chain(self.narrow.into_iter().map(|(.., place)| place as usize)).collect()
    }
}

/// `order`, which is one of rows of `before`, as far as those are still shown; what is new comes behind.
fn keep_places(order: &[usize], before: &[Row], rows: &[Row], shown: Vec<usize>) -> Vec<usize> {
    let mut left = vec![false; rows.len()];
    for at in &shown {
        if let Some(left) = left.get_mut(*at) {
            *left = true;
        }
    }
    // Flows nearly always keep their places in the sample, so that the next is looked for behind the one before.
    let id_at = |at: usize| rows.get(at).map(|row| row.id);
    let mut finder = Finder::new(rows.len());
    let now: Vec<Option<usize>> = before.iter().map(|row| finder.find(&row.id, id_at)).collect();
    let mut kept: Vec<usize> = Vec::with_capacity(shown.len());
    for at in order.iter().filter_map(|at| *now.get(*at)?) {
        if left.get_mut(at).is_some_and(std::mem::take) {
            kept.push(at);
        }
    }
    kept.extend(shown.into_iter().filter(|at| left.get(*at) == Some(&true)));
    kept
}
