//! A packet and what surrounds it.

/// A NAK has to do with what is sent again after it, at most so long (the longest RNR timer is
/// 655 ms).
const NAK_MEMORY_NS: u64 = 2_000_000_000;
/// How far an IP identification is ahead of another when it was given later.
pub(super) const ID_AHEAD: u16 = 0x4000;

/// After a pause like this, what comes was sent after what came before it, and may be another connection's.
pub(super) const REUSE_PAUSE_NS: u64 = 100_000_000;

/// A NAK that was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nak {
    pub(super) psn: u32,
    pub(super) time_ns: u64,
    pub(super) rnr: bool,
}

/// What a packet's surroundings are.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one packet")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) psn: u32,
    pub(super) time_ns: u64,
    /// IPv4 identification, or 0.
    pub(super) id: u16,
    /// The sender numbers its packets, so that `id` says when this one was sent.
    pub(super) numbered: bool,
    /// At least, packets have different ones.
    pub(super) differs: bool,
    /// PSN, IPv4 identification and time of the packet before it, and the highest identification.
    pub(super) last_psn: u32,
    pub(super) last_id: u16,
    pub(super) last_ns: u64,
    pub(super) high_id: u16,
    /// First PSN of the sequence, and the one that is expected.
    pub(super) first: u32,
    pub(super) expected: u32,
    /// PSNs it takes: 1 but for READ requests.
    pub(super) span: u32,
    /// It is a READ request.
    pub(super) read: bool,
    /// NAKs of the other direction, in no order.
    pub(super) naks: &'a [Nak],
    /// Answers of the other direction are seen at all.
    pub(super) answered: bool,
    /// How late a packet may come and still be taken for one out of order.
    pub(super) window_ns: u64,
}

impl Seen<'_> {
    /// Whether it was sent before another that has passed already, as its number tells.
    pub(super) fn is_late(&self) -> bool {
        let behind = self.high_id.wrapping_sub(self.id);
        let paused = self.time_ns.saturating_sub(self.last_ns) >= REUSE_PAUSE_NS;
        self.numbered && !paused && behind > 0 && behind < ID_AHEAD
    }

    /// A NAK of these PSNs, near in time and not before `since_ns`; that of a receiver that was not ready
    /// says more than the sequence error that follows it.
    pub(super) fn nak(&self, of: impl Fn(u32) -> bool, since_ns: u64) -> Option<Nak> {
        let near = |nak: &&Nak| of(nak.psn) && nak.time_ns.abs_diff(self.time_ns) < NAK_MEMORY_NS;
        let mut found = self.naks.iter().filter(near).filter(|nak| nak.time_ns >= since_ns);
        let first = found.next()?;
        Some(if first.rnr { *first } else { *found.find(|nak| nak.rnr).unwrap_or(first) })
    }
}
