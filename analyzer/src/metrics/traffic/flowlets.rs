//! Flowlets of all flows: the recent ones, in bounded memory.

use std::collections::VecDeque;
use std::sync::Arc;

use rocescope_common::account::flowlet::Flowlet;
use rocescope_common::account::message::COUNTED_OPERATIONS;

use crate::util::pack::pack;

/// Flowlets in a chunk, which is shared once it is full.
const CHUNK: usize = 4096;
/// Full chunks that are kept: a quarter of a million flowlets of 32 bytes, 8 MiB.
const CHUNKS: usize = 64;

/// A flowlet of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// First packet, Unix time.
    pub start_ns: u64,
    /// Time of the last packet, ns.
    pub end_ns: u64,
    /// Bytes that were not sent before.
    pub fresh_bytes: u64,
    /// Number of the pair of hosts.
    pub pair: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
}

impl Record {
    /// The record of a flowlet; all times are 0 where there is none.
    pub fn of(flowlet: &Flowlet, pair: u32, dest_qp: u32) -> Self {
        let Flowlet { start_ns, end_ns, fresh_bytes } = *flowlet;
        Self { start_ns: start_ns.min(end_ns), end_ns, fresh_bytes, pair, dest_qp }
    }
}

/// Flowlets that have ended, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub struct EndedFlowlets {
    full: VecDeque<Arc<Vec<Record>>>,
    open: Vec<Record>,
    dropped: u64,
}

pack! {
    struct EndedFlowlets { full, open, dropped }
}

impl EndedFlowlets {
    /// Keeps a flowlet; the oldest give way.
    pub fn push(&mut self, record: Record) {
        self.open.push(record);
        if self.open.len() == CHUNK {
            if self.full.len() == CHUNKS {
                self.full.pop_front();
                self.dropped += CHUNK as u64;
            }
            self.full.push_back(Arc::new(std::mem::take(&mut self.open)));
        }
    }

    /// Those that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.full.iter().flat_map(|chunk| chunk.iter()).chain(&self.open)
    }

    /// Number of records that gave way.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// PSN and time of a packet; both are the highest number where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PsnTime {
    /// In two halves, which leave no gap behind the PSN.
    time_ns: [u32; 2],
    psn: u32,
}

impl PsnTime {
    /// No packet.
    pub const NOTHING: Self = Self { time_ns: [u32::MAX; 2], psn: u32::MAX };

    /// A packet of this PSN and time.
    #[expect(clippy::cast_possible_truncation, reason = "each half is one")]
    #[inline]
    pub const fn of(psn: u32, time_ns: u64) -> Self {
        Self { time_ns: [(time_ns >> 32) as u32, time_ns as u32], psn }
    }

    /// PSN and time; `None` where there was no packet.
    pub fn get(self) -> Option<(u32, u64)> {
        let [high, low] = self.time_ns.map(u64::from);
        (self.psn != u32::MAX).then_some((self.psn, high << 32 | low))
    }
}

impl Default for PsnTime {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl From<Option<(u32, u64)>> for PsnTime {
    fn from(packet: Option<(u32, u64)>) -> Self {
        packet.map_or(Self::NOTHING, |(psn, time_ns)| Self::of(psn, time_ns))
    }
}

pack! {
    struct PsnTime { time_ns, psn }
}

/// Present state of a flow: its last flowlet, and whether something is outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowletState {
    /// The flowlet that goes on or was the last.
    pub flowlet: Record,
    /// A message has begun and not ended.
    pub message_open: bool,
    /// Messages that have ended, by operation; `None` where they are not counted by flow: live.
    pub messages: Option<[u32; COUNTED_OPERATIONS]>,
    /// PSN of the latest request that wants an answer, and when it was sent.
    pub request: PsnTime,
    /// PSN of the latest answer in this flow, and when.
    pub answer: PsnTime,
}

/// Flowlets of all flows: those that ended, and the present one of each flow.
#[derive(Clone, Debug, Default)]
pub struct Flowlets {
    /// Flowlets that have ended.
    pub ended: EndedFlowlets,
    /// Flows with data or answers, as they stand.
    pub standing: Vec<FlowletState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_and_are_counted() {
        let mut ended = EndedFlowlets::default();
        let total = (CHUNKS as u64 + 3) * CHUNK as u64 + 5;
        for start_ns in 0..total {
            ended.push(Record { start_ns, ..Record::default() });
        }
        let kept: Vec<u64> = ended.iter().map(|record| record.start_ns).collect();
        assert_eq!(kept.len() as u64 + ended.dropped(), total);
        assert_eq!((kept.first(), kept.last()), (Some(&ended.dropped()), Some(&(total - 1))));
    }
}
