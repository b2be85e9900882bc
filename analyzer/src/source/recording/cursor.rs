//! Rows of all tables of a recording, in order of time.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::left_out;
use super::state::State;
use crate::record::budget::{MOST_TEXTS, MemoryBudget};
use crate::record::parquet::Groups;
use crate::record::registry::{
    DeviceSecond, Event, Finding, FlowSecond, Host, LinkSecond, QpLife, QpSecond, Step,
};
use crate::record::store::{Part, folder_name, walk};
use crate::record::table::Row;
use crate::sample::EventSample;
use crate::util::nearest::hint;
use crate::util::units::plural;

/// True if a path is a recording rather than a capture: a folder, or a Parquet file.
pub fn is_recording(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|end| end == "parquet")
}

/// The files of a table still to be read, and the rows of the current row group.
struct Cursor<R> {
    files: VecDeque<PathBuf>,
    open: Option<(PathBuf, Groups<File>)>,
    rows: VecDeque<R>,
    /// Length of their texts, in bytes.
    texts: usize,
}

impl<R: Row> Cursor<R> {
    fn new(parts: &[Part]) -> Self {
        let own = parts.iter().filter(|part| part.table == R::TABLE.name);
        Self {
            files: own.map(|part| part.path.clone()).collect(),
            open: None,
            rows: VecDeque::new(),
            texts: 0,
        }
    }

    /// Reads until there are rows. A file that cannot be read is left out and reported.
    fn fill(&mut self, with: &mut Filling, at_ns: u64) {
        let Filling { notices, texts } = with;
        while self.rows.is_empty() {
            texts.give_back(std::mem::take(&mut self.texts));
            if self.open.is_none() {
                let Some(path) = self.files.pop_front() else { return };
                match File::open(&path).map_err(Into::into).and_then(Groups::new) {
                    Ok(groups) => self.open = Some((path, groups)),
                    Err(error) => notices.push(left_out(&path, &error, 0)),
                }
                continue;
            }
            let Some((path, groups)) = &mut self.open else { return };
            let left = texts.left();
            let rows = groups.next_within(texts);
            self.texts = left - texts.left();
            match rows {
                Ok(Some(rows)) => self.rows = rows.into(),
                Ok(None) => self.open = None,
                Err(error) => {
                    notices.push(left_out(path, &error, at_ns));
                    self.open = None;
                }
            }
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.rows.front().map(|row| row.t().0)
    }

    /// The rows up to a time.
    fn up_to(&mut self, ns: u64, with: &mut Filling, take: &mut dyn FnMut(R)) {
        while let Some(row) = self.rows.pop_front() {
            if row.t().0 > ns {
                self.rows.push_front(row);
                break;
            }
            take(row);
            self.fill(with, ns);
        }
    }
}

/// What all cursors share.
struct Filling {
    notices: Vec<String>,
    /// Of the rows of all tables that are in memory.
    texts: MemoryBudget,
}

/// The tables from which samples are made.
pub(super) struct Tables {
    flows: Cursor<FlowSecond>,
    links: Cursor<LinkSecond>,
    devices: Cursor<DeviceSecond>,
    qps: Cursor<QpSecond>,
    lives: Cursor<QpLife>,
    findings: Cursor<Finding>,
    events: Cursor<Event>,
    steps: Cursor<Step>,
    hosts: Cursor<Host>,
    last_part_ns: u64,
    filling: Filling,
}

impl Tables {
    /// Finds the files of one host.
    pub(super) fn open(path: &Path, host: Option<&str>) -> Result<Self> {
        std::fs::metadata(path).with_context(|| format!("cannot open {}", path.display()))?;
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("recording");
        let mut parts = Vec::new();
        let mut add = |path: PathBuf| parts.extend(part(&path));
        if path.is_dir() {
            walk(path, &mut |path, _| add(path));
        } else {
            add(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        }
        if parts.is_empty() && path.is_dir() {
            bail!(
                "{}: a directory without files of a recording (part-*.parquet), which a recording that goes on has after its \
                 first rotation; name captures one by one",
                path.display()
            );
        }
        if parts.is_empty() {
            bail!("{}: no file of a recording (part-*.parquet)", path.display());
        }
        let hosts: BTreeSet<&str> = parts.iter().map(|part| part.host.as_str()).collect();
        let some = || hosts.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        let wanted = host.map(folder_name);
        match (host, wanted.as_deref()) {
            (Some(host), Some(wanted)) if !hosts.contains(wanted) => bail!(
                "{}: no rows of host {host}{}; it has rows of {} ({})",
                path.display(),
                hint(wanted, hosts.iter().copied()),
                plural(hosts.len() as u64, "host"),
                some()
            ),
            (None, _) if hosts.len() > 1 => bail!(
                "{}: rows of {} hosts ({}); choose one with --host, or ask rocescope fleet about all",
                path.display(),
                hosts.len(),
                some()
            ),
            _ => {}
        }
        if let Some(wanted) = wanted {
            parts.retain(|part| part.host == wanted);
        }
        parts.sort_unstable();
        let mut tables = Self {
            flows: Cursor::new(&parts),
            links: Cursor::new(&parts),
            devices: Cursor::new(&parts),
            qps: Cursor::new(&parts),
            lives: Cursor::new(&parts),
            findings: Cursor::new(&parts),
            events: Cursor::new(&parts),
            steps: Cursor::new(&parts),
            hosts: Cursor::new(&parts),
            last_part_ns: parts.last().map_or(0, |part| part.first_ns),
            filling: Filling { notices: Vec::new(), texts: MemoryBudget::of(MOST_TEXTS) },
        };
        tables.begin();
        Ok(tables)
    }

    /// Reads the first rows of each table.
    fn begin(&mut self) {
        let with = &mut self.filling;
        self.flows.fill(with, 0);
        self.links.fill(with, 0);
        self.devices.fill(with, 0);
        self.qps.fill(with, 0);
        self.lives.fill(with, 0);
        self.findings.fill(with, 0);
        self.events.fill(with, 0);
        self.steps.fill(with, 0);
        self.hosts.fill(with, 0);
    }

    /// Beginning of the last file, Unix nanoseconds.
    pub(super) const fn last_part_ns(&self) -> u64 {
        self.last_part_ns
    }

    /// Time of the next interval. Events have their own times and are delivered with the interval that contains them.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let of = [
            self.flows.next_ns(),
            self.links.next_ns(),
            self.devices.next_ns(),
            self.qps.next_ns(),
            self.lives.next_ns(),
            self.findings.next_ns(),
        ];
        let others = || [self.events.next_ns(), self.steps.next_ns()].into_iter().flatten().min();
        of.into_iter().flatten().min().or_else(others)
    }

    /// Delivers the rows up to a time. Counts and events before the range are left out; findings and the states of
    /// queue pairs persist until their next row.
    pub(super) fn take(
        &mut self,
        ns: u64,
        state: &mut State,
        is_in_range: bool,
        events: &mut Vec<EventSample>,
    ) {
        let with = &mut self.filling;
        self.flows.up_to(ns, with, &mut |row| {
            if is_in_range {
                state.flow(&row);
            }
        });
        self.links.up_to(ns, with, &mut |row| {
            if is_in_range {
                state.link_row(&row);
            }
        });
        self.devices.up_to(ns, with, &mut |row| {
            if is_in_range {
                state.device(&row);
            }
        });
        // A new queue pair begins before its counts.
        self.lives.up_to(ns, with, &mut |row| state.qps.life(&row, is_in_range));
        self.qps.up_to(ns, with, &mut |row| {
            if is_in_range {
                state.qp(&row);
            }
        });
        self.findings.up_to(ns, with, &mut |row| state.finding(&row));
        self.steps.up_to(ns, with, &mut |row| {
            if is_in_range {
                state.steps.row(&row);
            }
        });
        self.events.up_to(ns, with, &mut |row| {
            if is_in_range {
                state.add_event(&row, events);
            }
        });
        // The last row of the host may be of an interval without others.
        let hosts_ns = if self.next_ns().is_some() { ns } else { u64::MAX };
        self.hosts.up_to(hosts_ns, &mut self.filling, &mut |row| {
            if is_in_range {
                state.host(&row);
            }
        });
    }

    /// Notices about files that could not be read.
    pub(super) fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.filling.notices)
    }
}

/// The part at a path: by its position in a recording, or for a file elsewhere by the table named in its metadata.
fn part(path: &Path) -> Option<Part> {
    let is_parquet = path.extension().is_some_and(|end| end == "parquet");
    if !is_parquet || path.components().any(|part| part.as_os_str() == "queue") {
        return None;
    }
    Part::at(path).or_else(|| {
        let table = Groups::new(File::open(path).ok()?).ok()?.table().to_owned();
        Some(Part { first_ns: 0, table, host: String::new(), path: path.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_a_recording_lacks_is_an_error_with_those_that_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let mut said = Vec::new();
        for host in ["node1", "node2"] {
            let folder = dir.path().join(format!("v1/steps/date=2026-03-01/hour=13/host={host}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("part-1-a.parquet"), "").unwrap();
            said.extend(Tables::open(dir.path(), Some("other")).err().map(|error| error.to_string()));
        }
        let expected = ["1 host (node1)", "2 hosts (node1, node2)"]
            .map(|hosts| format!("{}: no rows of host other; it has rows of {hosts}", dir.path().display()));
        assert_eq!(said, expected);
    }
}
