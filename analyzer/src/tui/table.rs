//! The table of queue pairs: which rows, in which order, and which of them the user looks at.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use hashbrown::{HashMap, HashSet};

use super::column::{self, Context, Id, SortKey};
use super::cursor::{Cursor, Move};
use super::query::Query;
use super::texts::{self, Texts};
use crate::model::moment::Finder;
use crate::model::{Identity, Model, Row, once};
use crate::report::{Again, FlowId};
use crate::sample::address;

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
    pub const fn by(id: Id) -> Self {
        Self { by: id, descending: column::largest_first(id) }
    }
}

impl Default for Sort {
    fn default() -> Self {
        Self::by(Id::State)
    }
}

/// What shares a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// Each queue pair has its own.
    #[default]
    None,
    /// Source and destination address.
    Hosts,
    /// The link.
    Link,
    /// The process that owns the queue pair.
    Process,
}

impl Group {
    /// The next one, in a circle.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::None => Self::Hosts,
            Self::Hosts => Self::Link,
            Self::Link => Self::Process,
            Self::Process => Self::None,
        }
    }

    /// What a row is then.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::None => "queue pair",
            Self::Hosts => "host pair",
            Self::Link => "link",
            Self::Process => "process",
        }
    }
}

/// Several queue pairs in one row.
#[derive(Clone, Debug)]
pub struct Sum {
    /// Sums of their counters; the identity is that of the first.
    pub row: Row,
    /// How many there are.
    pub flows: usize,
    /// What they have in common.
    pub name: Name,
}

/// What queue pairs in one row have in common; its text is made where it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Source and destination.
    Hosts(IpAddr, IpAddr),
    /// The link: its number and its name.
    Link(u16, String),
    /// The process; `None` when it is not known.
    Process(Option<String>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(src, dst) => write!(f, "{src} → {dst}"),
            Self::Link(_, name) | Self::Process(Some(name)) => f.write_str(name),
            Self::Process(None) => f.write_str("process not known"),
        }
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
    /// Rows: places in the model's rows, or in `sums` when queue pairs are grouped.
    pub order: Vec<usize>,
    /// Groups, when queue pairs are grouped.
    pub sums: Vec<Sum>,
    /// Place in `order`.
    pub cursor: Cursor,
    /// The selected queue pair, which keeps its selection wherever it is.
    pub selected: Option<Identity>,
    /// Marked queue pairs.
    pub marked: HashSet<Identity, State>,
    /// Whether only marked ones are shown.
    pub only_marked: bool,
    /// Whether rows move while one is selected.
    pub follow: bool,
    /// Which queue pairs are shown, besides the filter.
    pub focus: Option<Focus>,
    /// What words are looked for in.
    pub(super) texts: Texts,
}

impl Table {
    /// Puts rows in order anew. With `keep`, the rows that the present order is of, those that were there stay in
    /// their places, and new ones come last.
    pub(super) fn arrange(
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
            self.sums.clear();
            self.order = if let Some(keep) = keep {
                keep_places(&self.order, keep, rows, shown)
            } else {
                let rows = shown.into_iter().filter_map(|i| Some((i, rows.get(i)?)));
                sorted(self.sort, rows, cx)
            };
        } else {
            sums(&mut self.sums, self.group, &shown, cx, again);
            self.order = sorted(self.sort, self.sums.iter().map(|sum| &sum.row).enumerate(), cx);
        }
        let place = self.selected.and_then(|id| {
            let index = match self.group {
                Group::None => rows.iter().position(|row| row.id == id),
                _ => self.sums.iter().position(|sum| sum.row.id == id),
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
            (query.is_empty() || query.row(row, &self.texts.get(&row.id, &links), cx))
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
            _ => self.sums.get(index).map(|sum| sum.row.id),
        }
    }

    /// Moves the selection.
    pub(super) fn step(&mut self, step: Move, model: &Model, page: usize) {
        self.cursor.step(step, self.order.len(), page);
        self.selected = self.cursor.selected.and_then(|at| self.id_at(at, model));
    }

    /// Selects row number `at`.
    pub(super) fn select(&mut self, at: usize, model: &Model, page: usize) {
        if at < self.order.len() {
            self.cursor.selected = Some(at);
            self.cursor.show(self.order.len(), page);
            self.selected = self.id_at(at, model);
        }
    }

    /// Marks the selected queue pair, or takes the mark away.
    pub(super) fn mark(&mut self) {
        if let Some(id) = self.selected
            && !self.marked.remove(&id)
        {
            self.marked.insert(id);
        }
    }
}

/// Places of rows in the order of their figures.
fn sorted<'a>(sort: Sort, rows: impl Iterator<Item = (usize, &'a Row)>, cx: Context<'_>) -> Vec<usize> {
    let key = |row: &Row| column::sort_key(sort.by, sort.descending, row, cx);
    let room = rows.size_hint().1.unwrap_or(0);
    if column::is_wide(sort.by) {
        let mut keyed: Vec<(SortKey, usize)> = Vec::with_capacity(room);
        keyed.extend(rows.map(|(i, row)| (key(row), i)));
        keyed.sort_unstable();
        return keyed.into_iter().map(|(_, i)| i).collect();
    }
    // Figures fit into half the bits, and half the memory is sorted in half the time.
    let narrow = |key: u128| u64::try_from(key).unwrap_or(u64::MAX);
    let mut keyed: Vec<(u64, Reverse<u64>, u32)> = Vec::with_capacity(room);
    keyed.extend(rows.map(|(i, row)| {
        let SortKey { major, minor } = key(row);
        (narrow(major), minor, u32::try_from(i).unwrap_or(u32::MAX))
    }));
    keyed.sort_unstable();
    let mut places = Vec::with_capacity(keyed.len());
    places.extend(keyed.into_iter().filter_map(|(.., i)| usize::try_from(i).ok()));
    places
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

/// Adds up what has something in common, into the memory of the sums before: each packet once, but on each link what it
/// saw.
fn sums(sums: &mut Vec<Sum>, group: Group, shown: &[usize], cx: Context<'_>, again: &Again) {
    sums.clear();
    let links: Vec<String> = texts::links(cx.model);
    let mut places: HashMap<Name, usize, State> = HashMap::default();
    let none = Again::default();
    let again = if group == Group::Link { &none } else { again };
    once::each(shown.iter().filter_map(|i| cx.model.rows.get(*i)), again, |seen| {
        let key = &seen.row.id.key;
        let name = match group {
            Group::None | Group::Hosts => {
                Name::Hosts(address(key.family, key.src), address(key.family, key.dst))
            }
            Group::Link => {
                Name::Link(key.link, links.get(usize::from(key.link)).cloned().unwrap_or_default())
            }
            Group::Process => Name::Process(cx.owner(seen.row).and_then(column::process)),
        };
        let Some(sum) = places.get(&name).and_then(|place| sums.get_mut(*place)) else {
            places.insert(name.clone(), sums.len());
            let mut row = seen.row.sum();
            // A flow that has PSNs, where one has: only then it is known that nothing is missing.
            row.at = seen.row.at;
            (row.total, row.delta) = (seen.total, seen.delta);
            sums.push(Sum { row, flows: usize::from(seen.new), name });
            return;
        };
        sum.flows += usize::from(seen.new);
        if cx.without_sequence(&sum.row) {
            sum.row.at = seen.row.at;
        }
        sum.row.total.add(&seen.total);
        match (&mut sum.row.delta, &seen.delta) {
            (Some(sum), Some(one)) => sum.counts.add(&one.counts),
            (sum @ None, Some(one)) => *sum = Some(*one),
            (_, None) => {}
        }
    });
}
