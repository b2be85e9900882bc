//! The table of queue pairs: which rows, in which order, and which of them the user looks at.

use std::cmp::Reverse;
use std::net::IpAddr;

use hashbrown::HashSet;

use super::cursor::{Cursor, Move};
pub use super::groups::{Group, Groups, Name, Sum};
use super::texts::{self, Texts};
use crate::analysis::{Again, FlowId};
use crate::model::snapshot::Finder;
use crate::model::{Identity, Model, Row};
use crate::sample::address;
use crate::tui::column::{self, Column, Context, Id, SortKey};
use crate::tui::query::Query;

type State = foldhash::fast::RandomState;

/// How the table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// By which column.
    pub by: Id,
    /// Largest first.
    pub descending: bool,
}

impl Sort {
    /// By a column in its natural direction.
    #[must_use]
    pub fn by(id: Id) -> Self {
        Self { by: id, descending: column::column(id).kind.largest_first() }
    }
}

impl Default for Sort {
    fn default() -> Self {
        Self::by(Id::State)
    }
}

/// Queue pairs that something is about: a finding, a cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    /// What, in a few words.
    pub about: String,
    /// Which.
    pub on: Only,
}

/// Which queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// Those that a finding lists.
    Flows(Vec<FlowId>),
    /// Those from one host to another.
    Hosts(IpAddr, IpAddr),
    /// Those on a link.
    Link(u16),
    /// Those of a process; `None` for those whose process is not known.
    Process(Option<String>),
}

/// The state of the table.
#[derive(Debug, Default)]
pub struct Table {
    /// Sorting.
    pub sort: Sort,
    /// Columns that the user chose, from left to right; empty for those that fit.
    pub columns: Vec<Id>,
    /// What shares a row.
    pub group: Group,
    /// Rows: places in the model's rows, or in `groups` when queue pairs are grouped.
    pub order: Vec<usize>,
    /// Groups, when queue pairs are grouped.
    pub groups: Groups,
    /// Place in `order`.
    pub cursor: Cursor,
    /// The selected queue pair, which keeps its selection wherever it is.
    pub selected: Option<Identity>,
    /// Marked queue pairs.
    pub marked: HashSet<Identity, State>,
    /// True if only marked ones are shown.
    pub only_marked: bool,
    /// True if rows move while one is selected.
    pub follow: bool,
    /// Which queue pairs are shown, besides the filter.
    pub focus: Option<Focus>,
    /// What words are looked for in.
    pub(in crate::tui) texts: Texts,
}

impl Table {
    /// Puts rows in order anew. With `keep`, the rows that the present order is of, those that were there stay in
    /// their places, and new ones come last.
    pub(in crate::tui) fn arrange(
        &mut self,
        query: &Query,
        cx: Context<'_>,
        again: &Again,
        keep: Option<&[Row]>,
        page: usize,
    ) {
        let rows = &cx.model.rows;
        let shown = self.shown(query, cx);
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
            self.groups.fill(self.group, &shown, cx, again, |at, row| sorting.add(at, row));
            self.order = sorting.sorted();
        }
        let place = self.selected.and_then(|id| {
            let index = match self.group {
                Group::None => rows.iter().position(|row| row.id == id),
                _ => self.groups.position(&id, rows),
            }?;
            self.order.iter().position(|other| *other == index)
        });
        self.cursor.follow(place, self.order.len(), page);
        if place.is_none() {
            self.selected = None;
        }
    }

    /// The rows that filter, focus and marks let through.
    fn shown(&self, query: &Query, cx: Context<'_>) -> Vec<usize> {
        let rows = &cx.model.rows;
        if query.is_empty() && !self.only_marked && self.focus.is_none() {
            return (0..rows.len()).collect();
        }
        let links = texts::links(cx.model);
        let focused = |row: &Row| match self.focus.as_ref().map(|focus| &focus.on) {
            None => true,
            Some(Only::Flows(flows)) => flows.iter().any(|flow| is(flow, row, cx.model)),
            Some(Only::Hosts(src, dst)) => {
                let key = &row.id.key;
                address(key.family, key.src) == *src && address(key.family, key.dst) == *dst
            }
            Some(Only::Link(link)) => row.id.key.link == *link,
            Some(Only::Process(name)) => cx.owner(row).and_then(column::process) == *name,
        };
        let wanted = |(_, row): &(usize, &Row)| {
            (query.is_empty() || query.row(row, &self.texts, &links, cx))
                && (!self.only_marked || self.marked.contains(&row.id))
                && focused(row)
        };
        rows.iter().enumerate().filter(wanted).map(|(i, _)| i).collect()
    }

    /// The queue pair in row number `at`; the first of a group.
    #[must_use]
    pub fn id_at(&self, at: usize, model: &Model) -> Option<Identity> {
        let index = *self.order.get(at)?;
        match self.group {
            Group::None => model.rows.get(index).map(|row| row.id),
            _ => self.groups.id(index, &model.rows),
        }
    }

    /// Moves the selection.
    pub(in crate::tui) fn step(&mut self, step: Move, model: &Model, page: usize) {
        self.cursor.step(step, self.order.len(), page);
        self.selected = self.cursor.selected.and_then(|at| self.id_at(at, model));
    }

    /// Selects row number `at`.
    pub(in crate::tui) fn select(&mut self, at: usize, model: &Model, page: usize) {
        if at < self.order.len() {
            self.cursor.selected = Some(at);
            self.cursor.show(self.order.len(), page);
            self.selected = self.id_at(at, model);
        }
    }

    /// Marks the selected queue pair, or takes the mark away.
    pub(in crate::tui) fn mark(&mut self) {
        if let Some(id) = self.selected
            && !self.marked.remove(&id)
        {
            self.marked.insert(id);
        }
    }
}

/// Puts rows in the order of their figures.
struct Sorting<'a> {
    column: &'static Column,
    descending: bool,
    cx: Context<'a>,
    /// By addresses and texts.
    wide: Vec<(SortKey, usize)>,
    /// By figures. They fit into half the bits, and half the memory is sorted in half the time.
    narrow: Vec<(u64, Reverse<u64>, u32)>,
}

impl<'a> Sorting<'a> {
    /// Of so many rows at most.
    fn new(sort: Sort, rows: usize, cx: Context<'a>) -> Self {
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

fn is(flow: &FlowId, row: &Row, model: &Model) -> bool {
    let key = &row.id.key;
    key.dest_qp == flow.dest_qp
        && address(key.family, key.src) == flow.src
        && address(key.family, key.dst) == flow.dst
        && model
            .links
            .get(usize::from(key.link))
            .is_some_and(|link| link.name == flow.link && link.direction == flow.direction)
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
