//! Data held in memory: rows in sealed blocks, and packet headers.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use crate::record::Rows;
use crate::record::parquet::{self as file, GROUP};
use crate::record::table::{Row, Visit};
use crate::sample::EventSample;

/// Maximum size of sealed blocks, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Data time after which rows are sealed, however few.
const OPEN_NS: u64 = 30_000_000_000;
/// Maximum size of events with packet headers, in bytes.
const MOST_EVENT_BYTES: usize = 16 << 20;
/// Size of an event without its headers, in bytes.
const EVENT_BYTES: usize = size_of::<(i64, EventSample)>();

/// Sealed rows of all tables: a Parquet file per table with rows.
#[derive(Clone, Debug)]
pub struct Block {
    /// Time of the first interval.
    pub first_ns: u64,
    /// Time of the last interval.
    pub last_ns: u64,
    /// Sum of the clock's steps before it.
    stepped_ns: i64,
    /// Tables with their encoded files.
    files: Vec<(&'static str, Bytes)>,
}

impl Block {
    fn bytes(&self) -> usize {
        self.files.iter().map(|(_, file)| file.len()).sum()
    }

    /// Number of rows.
    fn count(&self) -> u64 {
        self.rows().map_or(0, |rows| rows.len() as u64)
    }

    /// Decodes the rows.
    ///
    /// # Errors
    /// Errors of the Parquet reader, which no encoded rows cause.
    pub fn rows(&self) -> io::Result<Rows> {
        let mut rows = Rows::default();
        rows.visit(&mut Unseal(&self.files))?;
        Ok(rows)
    }
}

/// Encodes the rows of each table.
#[derive(Default)]
struct Seal(Vec<(&'static str, Bytes)>);

impl Visit for Seal {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        if !rows.is_empty() {
            self.0.push((R::TABLE.name, file::encode(rows).map_err(io::Error::other)?.into()));
            rows.clear();
        }
        Ok(())
    }
}

/// Decodes the files of each table.
struct Unseal<'a>(&'a [(&'static str, Bytes)]);

impl Visit for Unseal<'_> {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        for (_, bytes) in self.0.iter().filter(|(table, _)| *table == R::TABLE.name) {
            rows.extend(file::decode(bytes.clone()).map_err(io::Error::other)?);
        }
        Ok(())
    }
}

/// The last minutes.
#[derive(Debug, Default)]
pub struct Ring {
    keep_ns: u64,
    blocks: VecDeque<Block>,
    bytes: usize,
    open: Rows,
    open_ns: Option<(u64, u64)>,
    /// Sum of the clock's steps so far.
    stepped_ns: i64,
    /// Events, each with the sum of the clock's steps before it.
    events: VecDeque<(i64, EventSample)>,
    event_bytes: usize,
    lost: Lost,
}

/// Data missing from the time range of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Rows that were dropped for lack of memory or after a clock step, or could not be encoded.
    pub rows: u64,
    /// Packet events that were dropped for lack of memory or after a clock step.
    pub events: u64,
}

impl Ring {
    /// A ring that holds `keep_ns` of data time.
    pub fn new(keep_ns: u64) -> Self {
        Self { keep_ns, ..Self::default() }
    }

    /// Notes a step of the clock in the interval that ends at `time_ns`. What is held keeps its time: some of it may
    /// leave early.
    pub fn step(&mut self, jump_ns: i64, time_ns: u64) {
        // Rows of both times in one block would leave together.
        self.seal();
        self.stepped_ns = self.stepped_ns.saturating_add(jump_ns);
        let unstepped_ns = time_ns.saturating_add_signed(jump_ns.saturating_neg());
        // Events of this interval may have the new time.
        let is_after = |at_ns: u64| at_ns.abs_diff(time_ns) < at_ns.abs_diff(unstepped_ns);
        for (stepped_ns, _) in self.events.iter_mut().rev().take_while(|(_, event)| is_after(event.time_ns)) {
            *stepped_ns = self.stepped_ns;
        }
    }

    /// Adds the rows of an interval that ends at `time_ns`.
    pub fn push(&mut self, time_ns: u64, rows: Rows) {
        if !rows.is_empty() {
            self.open.append(rows);
            let first_ns = self.open_ns.map_or(time_ns, |(first_ns, _)| first_ns);
            self.open_ns = Some((first_ns, time_ns));
            if self.open.len() >= GROUP || time_ns.abs_diff(first_ns) >= OPEN_NS {
                self.seal();
            }
        }
        // Compares the distance in time: after a backward step of the clock, rows in its future are dropped as well.
        let keep_ns = self.keep_ns;
        let is_old = |at_ns: u64| at_ns.abs_diff(time_ns) > keep_ns;
        let stepped_ns = self.stepped_ns;
        // By a clock without steps it is not: the step costs it.
        let is_lost = |at_ns: u64, before_ns: i64| {
            !is_old(at_ns.saturating_add_signed(stepped_ns.saturating_sub(before_ns)))
        };
        while self.blocks.front().is_some_and(|block| is_old(block.last_ns)) {
            let Some(block) = self.evict() else { break };
            if is_lost(block.last_ns, block.stepped_ns) {
                self.lost.rows += block.count();
            }
        }
        while let Some((before_ns, event)) = self.events.front() {
            if !is_old(event.time_ns) {
                break;
            }
            self.lost.events += u64::from(is_lost(event.time_ns, *before_ns));
            self.evict_event();
        }
    }

    /// Adds packet events.
    pub fn events(&mut self, events: &[EventSample]) {
        for event in events {
            // Copied, since a slice of a few bytes would keep the whole buffer alive.
            let headers = Bytes::copy_from_slice(&event.headers);
            self.event_bytes += EVENT_BYTES + headers.len();
            self.events.push_back((self.stepped_ns, EventSample { headers, ..event.clone() }));
        }
        while self.event_bytes > MOST_EVENT_BYTES {
            self.lost.events += 1;
            self.evict_event();
        }
    }

    fn evict_event(&mut self) {
        if let Some((_, event)) = self.events.pop_front() {
            self.event_bytes = self.event_bytes.saturating_sub(EVENT_BYTES + event.headers.len());
        }
    }

    fn evict(&mut self) -> Option<Block> {
        let block = self.blocks.pop_front()?;
        self.bytes = self.bytes.saturating_sub(block.bytes());
        Some(block)
    }

    fn seal(&mut self) {
        let Some((first_ns, last_ns)) = self.open_ns.take() else { return };
        let mut rows = std::mem::take(&mut self.open);
        let count = rows.len() as u64;
        let mut seal = Seal::default();
        if rows.visit(&mut seal).is_err() {
            self.lost.rows += count;
            return;
        }
        let block = Block { first_ns, last_ns, stepped_ns: self.stepped_ns, files: seal.0 };
        self.bytes += block.bytes();
        self.blocks.push_back(block);
        while self.bytes > MOST_BYTES {
            self.lost.rows += self.evict().map_or(0, |block| block.count());
        }
    }

    /// The content from `from_ns` on: complete blocks, oldest first, and events.
    pub fn contents(&mut self, from_ns: u64) -> (Vec<Block>, Vec<EventSample>) {
        self.seal();
        let blocks = self.blocks.iter().filter(|block| block.last_ns >= from_ns);
        let events = self.events.iter().map(|(_, event)| event).filter(|event| event.time_ns >= from_ns);
        (blocks.cloned().collect(), events.cloned().collect())
    }

    /// Losses so far.
    pub const fn lost(&self) -> Lost {
        self.lost
    }

    /// Memory in use for sealed blocks and events, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes + self.event_bytes
    }
}
