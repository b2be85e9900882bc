//! Queue pairs that share a row of the table, and their sums.
//!
//! With 65,536 flows there may be as many host pairs. So a group keeps the places of its members; their sum is made
//! where a row is sorted or shown, and kept for large groups alone.

use std::fmt;

use rocescope_common::wire::frame::Addr;

use crate::analysis::Overlap;
use crate::model::{Counts, Delta, Identity, Row, dedup};
use crate::sample::{Address, address};
use crate::tui::column::{self, Context};
use crate::util::map::Map;

/// Of groups with more rows than this the sum is kept.
const LARGE: usize = 64;

/// Property that queue pairs in one row share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// Each queue pair has its own, on each link.
    #[default]
    None,
    /// The queue pair, with the views of several taps in one row.
    Taps,
    /// Source and destination address.
    Hosts,
    /// The link that the flow is on.
    Link,
    /// The process that owns the queue pair.
    Process,
}

impl Group {
    /// The one that nobody chose: a queue pair that several taps see is one row.
    pub const fn automatic(taps: bool) -> Self {
        if taps { Self::Taps } else { Self::None }
    }

    /// The next one, in a circle; `taps`: links see the same packets.
    #[must_use]
    pub const fn next(self, taps: bool) -> Self {
        match self {
            Self::None if taps => Self::Taps,
            Self::None | Self::Taps => Self::Hosts,
            Self::Hosts => Self::Link,
            Self::Link => Self::Process,
            Self::Process => Self::None,
        }
    }

    /// Name of a row's subject.
    pub const fn title(self) -> &'static str {
        match self {
            Self::None | Self::Taps => "queue pair",
            Self::Hosts => "host pair",
            Self::Link => "link",
            Self::Process => "process",
        }
    }
}

/// Several queue pairs in one row.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// Sums of their counters; the identity is that of the first.
    pub row: Row,
    /// Number of queue pairs.
    pub flows: usize,
    /// Common property of the rows.
    pub name: Name,
}

/// Common property of queue pairs in one row; its text is made where it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Source and destination.
    Hosts(Address, Address),
    /// Source, destination, and destination queue pair.
    Flow(Address, Address, u32),
    /// The link: its number and its name.
    Link(u16, String),
    /// The process; `None` when it is not known.
    Process(Option<String>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(src, dst) => write!(f, "{src} → {dst}"),
            Self::Flow(src, dst, qp) => write!(f, "{src} → {dst} QP {qp}"),
            Self::Link(_, name) | Self::Process(Some(name)) => f.write_str(name),
            Self::Process(None) => f.write_str("process unknown"),
        }
    }
}

/// Key of a group, without a copy of anything.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Hosts(u8, Addr, Addr),
    Flow(u8, Addr, Addr, u32),
    Link(u16),
    Process(Option<(Option<&'a str>, Option<u32>)>),
}

/// The groups, in the order in which their first rows come.
#[derive(Debug, Default)]
pub struct Groups {
    by: Group,
    /// Places in the model's rows, those of a group together.
    members: Vec<u32>,
    all: Vec<Members>,
    /// Sums of large groups.
    kept: Vec<GroupRow>,
}

/// Sums and members of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Members {
    /// Place of its first member.
    first: u32,
    /// Number of its rows.
    rows: u32,
    /// Queue pairs, by direction, on however many links they are.
    flows: u32,
    /// Its place among the sums that are kept.
    kept: Option<u32>,
}

impl Groups {
    /// Removes all groups.
    pub(in crate::tui) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Puts the rows that are `shown` into groups, and hands each sum to `with`.
    pub(in crate::tui) fn fill(
        &mut self,
        by: Group,
        shown: &[usize],
        cx: Context<'_>,
        overlap: &Overlap,
        mut with: impl FnMut(usize, &Row),
    ) {
        self.by = by;
        self.kept.clear();
        let groups = self.place(shown, cx);
        for at in 0..groups {
            let Some(mut group) = self.all.get(at).copied() else { continue };
            // More than half of many groups have one row, which needs no copy.
            if group.rows == 1 {
                group.flows = 1;
                self.rows(&group, cx).for_each(|row| with(at, row));
            } else if let Some((row, flows)) = self.add_up(&group, cx, overlap) {
                with(at, &row);
                group.flows = u32::try_from(flows).unwrap_or(u32::MAX);
                if group.rows as usize > LARGE {
                    group.kept = u32::try_from(self.kept.len()).ok();
                    let name = self.name(&row, cx);
                    self.kept.push(GroupRow { row, flows, name });
                }
            }
            if let Some(place) = self.all.get_mut(at) {
                *place = group;
            }
        }
    }

    /// Finds out which rows belong together; returns the number of groups.
    fn place(&mut self, shown: &[usize], cx: Context<'_>) -> usize {
        let rows = &cx.model.rows;
        let mut numbers: Map<Key<'_>, u32> = Map::default();
        let mut of: Vec<(u32, u32)> = Vec::with_capacity(shown.len());
        self.all.clear();
        for at in shown {
            let Some((row, place)) = rows.get(*at).zip(u32::try_from(*at).ok()) else { continue };
            let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(self.key(row, cx)).or_insert(next);
            if number == next {
                self.all.push(Members::default());
            }
            if let Some(group) = self.all.get_mut(number as usize) {
                group.rows += 1;
            }
            of.push((number, place));
        }
        let mut end = 0;
        for group in &mut self.all {
            group.first = end;
            end += group.rows;
            // Counted again as they are put there.
            group.rows = 0;
        }
        self.members.clear();
        self.members.resize(of.len(), 0);
        for (number, place) in of {
            let Some(group) = self.all.get_mut(number as usize) else { continue };
            if let Some(member) = self.members.get_mut((group.first + group.rows) as usize) {
                *member = place;
            }
            group.rows += 1;
        }
        self.all.len()
    }

    fn key<'a>(&self, row: &Row, cx: Context<'a>) -> Key<'a> {
        let key = &row.id.key;
        match self.by {
            Group::None | Group::Hosts => Key::Hosts(key.family, key.src, key.dst),
            Group::Taps => Key::Flow(key.family, key.src, key.dst, key.dest_qp),
            Group::Link => Key::Link(key.link),
            Group::Process => Key::Process(cx.owner(row).map(|owner| (owner.comm.as_deref(), owner.pid))),
        }
    }

    /// Sum of the queue pairs of group number `at`: each packet once, or on each link its own packets.
    pub fn sum(&self, at: usize, cx: Context<'_>, overlap: &Overlap) -> Option<GroupRow> {
        let group = self.all.get(at)?;
        if let Some(kept) = group.kept {
            return self.kept.get(kept as usize).cloned();
        }
        let (row, flows) = self.add_up(group, cx, overlap)?;
        let name = self.name(&row, cx);
        Some(GroupRow { row, flows, name })
    }

    /// The sum of a group's rows, and its queue pairs by direction.
    fn add_up(&self, group: &Members, cx: Context<'_>, overlap: &Overlap) -> Option<(Row, usize)> {
        let mut sum: Option<Row> = None;
        let mut flows = 0;
        let mut add = |row: &Row, total: &Counts, delta: Option<&Delta>, new: bool| {
            flows += usize::from(new);
            let Some(sum) = &mut sum else {
                sum = Some(row.sum(*total, delta.copied()));
                return;
            };
            sum.judged = sum.judged.join(row.judged);
            sum.total.add(total);
            match (&mut sum.delta, delta) {
                (Some(sum), Some(one)) => sum.counts.add(&one.counts),
                (sum @ None, Some(one)) => *sum = Some(*one),
                (_, None) => {}
            }
        };
        let rows = self.rows(group, cx);
        if overlap.is_empty() || self.by == Group::Link {
            rows.for_each(|row| add(row, &row.total, row.delta.as_ref(), true));
        } else {
            dedup::each(rows, overlap, |seen| add(seen.row, &seen.total, seen.delta.as_ref(), seen.new));
        }
        Some((sum?, flows))
    }

    /// The rows of group number `at`.
    pub(in crate::tui) fn members<'a>(&self, at: usize, cx: Context<'a>) -> impl Iterator<Item = &'a Row> {
        self.all.get(at).into_iter().flat_map(move |group| self.rows(group, cx))
    }

    fn rows<'a>(&self, group: &Members, cx: Context<'a>) -> impl Iterator<Item = &'a Row> {
        let (first, end) = (group.first as usize, (group.first + group.rows) as usize);
        let members = self.members.get(first..end).unwrap_or_default();
        members.iter().filter_map(move |at| cx.model.rows.get(*at as usize))
    }

    fn name(&self, row: &Row, cx: Context<'_>) -> Name {
        let key = &row.id.key;
        match self.by {
            Group::None | Group::Hosts => {
                Name::Hosts(address(key.family, key.src), address(key.family, key.dst))
            }
            Group::Taps => {
                Name::Flow(address(key.family, key.src), address(key.family, key.dst), key.dest_qp)
            }
            Group::Link => Name::Link(
                key.link,
                cx.model.links.get(usize::from(key.link)).map(column::link_name).unwrap_or_default(),
            ),
            Group::Process => Name::Process(cx.owner(row).and_then(column::process)),
        }
    }

    /// The first queue pair of group number `at`; of taps, at that one which saw most of what went wrong.
    pub(in crate::tui) fn id(&self, at: usize, rows: &[Row]) -> Option<Identity> {
        let group = self.all.get(at)?;
        let first = group.first as usize;
        let members = self.members.get(first..first + group.rows as usize)?;
        let mut rows = members.iter().filter_map(|at| rows.get(*at as usize));
        if self.by != Group::Taps {
            return rows.next().map(|row| row.id);
        }
        // Of several that are equal the first.
        rows.rev().max_by_key(|row| (row.judged.rank(), row.total.fault_rank())).map(|row| row.id)
    }

    /// The group whose first queue pair this is; of taps, the group that it is in.
    pub(in crate::tui) fn position(&self, id: &Identity, cx: Context<'_>) -> Option<usize> {
        let rows = &cx.model.rows;
        let first = || (0..self.len()).find(|at| self.id(*at, rows).as_ref() == Some(id));
        let member = || (0..self.len()).find(|at| self.members(*at, cx).any(|row| row.id == *id));
        first().or_else(|| member().filter(|_| self.by == Group::Taps))
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if queue pairs are not grouped, or there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Queue pairs in all groups, by direction.
    pub fn flows(&self) -> usize {
        self.all.iter().map(|group| group.flows as usize).sum()
    }
}
