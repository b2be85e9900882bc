//! Outstanding requests and times of one flow: [`Latency`] for user space, where a flow takes memory for those classes
//! of requests only that it has.
//!
//! [`Latency`]: rocescope_common::account::latency::Latency

use rocescope_common::account::latency::{
    BUCKETS, CLASSES, COMPLETIONS, LatencyMemory, RING, is_timeable, typical_bucket,
};

use super::{Completions, Figure, Histogram};

/// Samples of one class by bucket. Most flows of a capture with very many have a few samples or none.
#[derive(Clone, Debug)]
enum Samples {
    /// Buckets of the first `len` samples.
    Few {
        len: u8,
        buckets: [u8; FEW],
    },
    Many(Box<[u32; BUCKETS]>),
}

/// Samples that need no memory of their own: as many as fit beside a length where the pointer to it is.
const FEW: usize = 14;
const _: () = assert!(size_of::<Samples>() == 16 && BUCKETS <= 256);

impl Default for Samples {
    fn default() -> Self {
        Self::Few { len: 0, buckets: [0; FEW] }
    }
}

impl Samples {
    fn histogram(&self) -> Histogram {
        match self {
            Self::Few { len, buckets } => {
                let mut buckets = *buckets;
                Histogram::of_few(buckets.get_mut(..usize::from(*len)).unwrap_or_default())
            }
            Self::Many(counts) => Histogram::of(&counts.map(u64::from)),
        }
    }

    #[inline]
    fn add(&mut self, bucket: usize) {
        match self {
            Self::Many(counts) => {
                let count = &mut counts[bucket % BUCKETS];
                *count = count.saturating_add(1);
            }
            Self::Few { .. } => self.add_to_few(bucket),
        }
    }

    #[cold]
    fn add_to_few(&mut self, bucket: usize) {
        let Self::Few { len, buckets } = self else { return };
        if let Some(place) = buckets.get_mut(usize::from(*len)) {
            *place = u8::try_from(bucket % BUCKETS).unwrap_or(u8::MAX);
            *len += 1;
            return;
        }
        let mut counts = Box::new([0; BUCKETS]);
        for bucket in buckets.iter().map(|bucket| usize::from(*bucket)).chain([bucket]) {
            counts[bucket % BUCKETS] += 1;
        }
        *self = Self::Many(counts);
    }
}

/// Outstanding requests and times of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    head: u32,
    tail: u32,
    /// Outstanding requests by position, modulo their number: a power of two, at most [`RING`], or none yet.
    cells: Vec<u64>,
    /// The messages that they end.
    messages: Vec<u32>,
    reading: u64,
    /// Requests that cannot be timed.
    ambiguous: u64,
    /// Requests that found the ring full.
    full: u64,
    max_ns: [u64; CLASSES],
    samples: [Samples; CLASSES],
    completion_max_ns: [u64; COMPLETIONS],
    completions: [Samples; COMPLETIONS],
}

/// Cells of a flow at its first request.
const FIRST_CELLS: usize = 4;

impl Ring {
    /// Number of outstanding requests that can still be timed.
    pub(super) fn outstanding(&self) -> u64 {
        self.cells.iter().filter(|cell| is_timeable(**cell)).count() as u64
    }

    /// Its figures; `unpaired` and `untracked` are not its business.
    pub(super) fn figure(&self) -> Figure {
        Figure {
            ambiguous: self.ambiguous,
            ring_full: self.full,
            outstanding: self.outstanding(),
            completions: Completions::of(
                self.completions.each_ref().map(Samples::histogram),
                self.completion_max_ns,
            ),
            ..Figure::times(self.samples.each_ref().map(Samples::histogram), self.max_ns)
        }
    }

    #[inline]
    fn cell_mut(&mut self, index: usize) -> Option<&mut u64> {
        let mask = self.cells.len().wrapping_sub(1);
        self.cells.get_mut(index & mask)
    }

    /// Doubles the cells, each request at its position; all cells that no position from the tail to the head has are
    /// empty.
    #[cold]
    fn grow(&mut self) {
        let size = (self.cells.len() * 2).clamp(FIRST_CELLS, RING);
        let (mut cells, mut messages) = (vec![0; size], vec![0; size]);
        let mut at = self.tail;
        while at != self.head {
            let position = at as usize % RING;
            let (cell, message) = (self.cell(position), self.message(position));
            if let (Some(cells), Some(messages)) =
                (cells.get_mut(position % size), messages.get_mut(position % size))
            {
                (*cells, *messages) = (cell, message);
            }
            at = at.wrapping_add(1);
        }
        (self.cells, self.messages) = (cells, messages);
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
        let mask = self.cells.len().wrapping_sub(1);
        self.cells.get(index & mask).copied().unwrap_or(0)
    }

    #[inline]
    fn store(&mut self, index: usize, value: u64, message: u32) {
        if self.head.wrapping_sub(self.tail) as usize >= self.cells.len() {
            self.grow();
        }
        if let Some(cell) = self.cell_mut(index) {
            *cell = value;
        }
        let mask = self.messages.len().wrapping_sub(1);
        if let Some(place) = self.messages.get_mut(index & mask) {
            *place = message;
        }
    }

    #[inline]
    fn swap(&mut self, index: usize, value: u64) -> u64 {
        self.cell_mut(index).map_or(0, |cell| std::mem::replace(cell, value))
    }

    #[inline]
    fn message(&self, index: usize) -> u32 {
        let mask = self.messages.len().wrapping_sub(1);
        self.messages.get(index & mask).copied().unwrap_or(0)
    }

    #[inline]
    fn reading(&self) -> u64 {
        self.reading
    }

    #[inline]
    fn set_reading(&mut self, reading: u64) {
        self.reading = reading;
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
        self.samples[class].add(bucket);
        self.max_ns[class] = self.max_ns[class].max(ns);
    }

    #[inline]
    fn add_completion(&mut self, operation: usize, bucket: usize, ns: u64) {
        let operation = operation % COMPLETIONS;
        self.completions[operation].add(typical_bucket(bucket));
        self.completion_max_ns[operation] = self.completion_max_ns[operation].max(ns);
    }
}

#[cfg(test)]
mod tests {
    use rocescope_common::account::latency::{
        CLASS_WRITE_SEND, Latency, Request, Response, ended_message, on_request, on_response, on_restart,
    };
    use rocescope_common::random::Random;
    use rocescope_common::wire::opcode::Op;

    use super::*;

    /// Whatever happens, its figures are those of the kernel's ring, which has all its memory from the start.
    #[test]
    fn a_ring_that_grows_is_a_whole_one() {
        let mut random = Random::new(7);
        let mut next = |below: u64| random.below(below);
        for most in [1, 3, 20, 90] {
            let (mut ring, mut whole) = (Ring::default(), Latency::EMPTY);
            let (mut psn, mut acked) = (5u32, 5u32);
            for now in (10..3_000u64).map(|i| i * 1_000) {
                let ahead = psn - acked;
                match next(40) {
                    0 => {
                        on_restart(&mut ring);
                        on_restart(&mut whole);
                    }
                    1 => {
                        let again = acked + u32::try_from(next(u64::from(ahead) + 1)).unwrap();
                        let request =
                            Request { psn: again, class: CLASS_WRITE_SEND, message: 0, duplicate_psn: true };
                        on_request(&mut ring, request, now);
                        on_request(&mut whole, request, now);
                    }
                    2..25 if ahead < most => {
                        let class = u32::try_from(next(3) + 1).unwrap();
                        let opcode = if next(2) == 0 { 0x08 } else { 0x04 };
                        let message = ended_message(opcode, Op::of(opcode), now - next(5_000), now);
                        let request = Request { psn, class, message, duplicate_psn: false };
                        on_request(&mut ring, request, now);
                        on_request(&mut whole, request, now);
                        psn += 1;
                    }
                    _ => {
                        let up_to = acked + u32::try_from(next(3)).unwrap().min(ahead);
                        let opcode = [0x11, 0x0D, 0x0F, 0x10][usize::try_from(next(4)).unwrap()];
                        let response = Response::of(opcode, Op::of(opcode), up_to);
                        on_response(&mut ring, response, now);
                        on_response(&mut whole, response, now);
                        acked = acked.max(up_to);
                    }
                }
            }
            let figure = ring.figure();
            assert_eq!(figure, Figure::of(&whole), "{most} outstanding");
            assert!(figure.all.is_some_and(|all| all.count > 20) && figure.ambiguous > 0);
            let completed = figure.completions.summaries().unwrap().map(|one| one.map_or(0, |one| one.count));
            assert!(completed.iter().all(|count| *count > 5), "{completed:?}");
            assert_eq!(figure.ring_full > 0, most > 64, "{most} outstanding");
            assert!(ring.cells.len() <= most.next_power_of_two().max(4) as usize);
        }
    }
}
