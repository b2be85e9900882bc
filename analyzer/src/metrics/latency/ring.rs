//! Outstanding requests and times of one flow: [`Latency`] for user space, where a flow takes memory for those classes of
//! requests only that it has.
//!
//! [`Latency`]: rocescope_common::account::latency::Latency

use rocescope_common::account::latency::{BUCKETS, CLASSES, LatencyMemory, RING};

use super::Figure;

/// Outstanding requests and times of one flow.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    head: u32,
    tail: u32,
    /// Requests that cannot be timed.
    ambiguous: u64,
    /// Requests that found the ring full.
    full: u64,
    max_ns: [u64; CLASSES],
    /// Samples by bucket, of classes that have any.
    counts: [Option<Box<[u32; BUCKETS]>>; CLASSES],
    cells: [u64; RING],
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            head: 0,
            tail: 0,
            ambiguous: 0,
            full: 0,
            max_ns: [0; CLASSES],
            counts: [const { None }; CLASSES],
            cells: [0; RING],
        }
    }
}

impl Ring {
    /// Number of outstanding requests.
    pub(super) fn outstanding(&self) -> u64 {
        self.cells.iter().filter(|cell| **cell != 0).count() as u64
    }

    /// Its figures; `unpaired` and `untracked` are not its business.
    pub(super) fn figure(&self) -> Figure {
        Figure {
            ambiguous: self.ambiguous,
            ring_full: self.full,
            outstanding: self.outstanding(),
            ..Figure::times(self.counts.each_ref().map(Option::as_deref), self.max_ns)
        }
    }
}

impl LatencyMemory for Ring {
    #[inline]
    fn head(&self) -> u32 {
        self.head
    }

    #[inline]
    fn set_head(&mut self, head: u32) {
        self.head = head;
    }

    #[inline]
    fn tail(&self) -> u32 {
        self.tail
    }

    #[inline]
    fn set_tail(&mut self, tail: u32) {
        self.tail = tail;
    }

    #[inline]
    fn cell(&self, index: usize) -> u64 {
        self.cells[index % RING]
    }

    #[inline]
    fn store(&mut self, index: usize, value: u64) {
        self.cells[index % RING] = value;
    }

    #[inline]
    fn swap(&mut self, index: usize, value: u64) -> u64 {
        std::mem::replace(&mut self.cells[index % RING], value)
    }

    #[inline]
    fn count_ambiguous(&mut self) {
        self.ambiguous += 1;
    }

    #[inline]
    fn count_ambiguous_response(&mut self) {
        self.ambiguous += 1;
    }

    #[inline]
    fn count_ring_full(&mut self) {
        self.full += 1;
    }

    #[inline]
    fn add_sample(&mut self, class: usize, bucket: usize, ns: u64) {
        let class = class % CLASSES;
        let counts = self.counts[class].get_or_insert_with(|| Box::new([0; BUCKETS]));
        let count = &mut counts[bucket % BUCKETS];
        *count = count.saturating_add(1);
        self.max_ns[class] = self.max_ns[class].max(ns);
    }
}
