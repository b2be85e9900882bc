//! Messages by operation and length, and frame lengths.
//!
//! Small enough for a kernel program: eight bytes of state per flow, and a few counters per operation.

use super::bits::bit_length;
use crate::wire::Frame;
use crate::wire::frame::UNKNOWN;
use crate::wire::opcode::{Op, Operation};

/// Upper bounds (inclusive) of the frame length buckets, in bytes without FCS; the last is open. They
/// follow RMON's etherStats (which include the FCS) up to 1,514 and continue with sizes that RoCE uses:
/// path MTUs of 1024, 2048 and 4096 bytes and jumbo frames.
pub const FRAME_ENDS: [u32; 10] = [60, 123, 251, 507, 1019, 1514, 2043, 4091, 9014, u32::MAX];

/// Frames by length bucket.
pub type FrameSizes = [u64; FRAME_ENDS.len()];

/// The bucket of a frame length.
#[inline(always)]
pub fn frame_bucket(len: u32) -> usize {
    let over = |at: usize| usize::from(len > FRAME_ENDS[at]);
    // A decision tree: four comparisons per packet instead of nine.
    if len > FRAME_ENDS[5] {
        if len > FRAME_ENDS[7] { 8 + over(8) } else { 6 + over(6) }
    } else if len > FRAME_ENDS[1] {
        if len > FRAME_ENDS[3] { 4 + over(4) } else { 2 + over(2) }
    } else {
        over(0)
    }
}

/// Number of operations with message counters: every [`Operation`] but the last.
pub const COUNTED_OPERATIONS: usize = Operation::Other as usize;

/// Message counters by [`Operation`].
pub type ByOperation = [MessageCounts; COUNTED_OPERATIONS];

/// Number of message length buckets: 0, 1, 2 to 3, 4 to 7 … 2^31 and more.
pub const SIZE_BUCKETS: usize = 33;

/// Message counters of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MessageCounts {
    /// Packets of this operation, including retransmissions.
    pub packets: u64,
    /// Payload bytes of these packets.
    pub payload_bytes: u64,
    /// Messages by length: bucket 0 is empty messages, bucket k those of 2^(k−1) to 2^k − 1 bytes.
    pub sizes: [u64; SIZE_BUCKETS],
    /// Messages of unknown length: their first packet was not seen, or packets are missing.
    pub size_unknown: u64,
}

impl MessageCounts {
    /// Initial value: all zero.
    pub const NONE: Self = Self { packets: 0, payload_bytes: 0, sizes: [0; SIZE_BUCKETS], size_unknown: 0 };

    /// Completed messages, without retransmissions.
    pub fn messages(&self) -> u64 {
        self.sizes.iter().sum::<u64>() + self.size_unknown
    }

    /// Adds counters of another CPU or flow.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.payload_bytes += other.payload_bytes;
        self.size_unknown += other.size_unknown;
        for (count, more) in self.sizes.iter_mut().zip(other.sizes) {
            *count += more;
        }
    }

    #[inline(always)]
    fn complete(&mut self, known: bool, length: u32) {
        // Without the black box the compiler proves the index in range and removes the bounds check, which
        // the verifier needs.
        let bucket = core::hint::black_box(bit_length(length) as usize);
        if !known {
            self.size_unknown += 1;
        } else if let Some(count) = self.sizes.get_mut(bucket) {
            *count += 1;
        }
    }
}

/// Properties of a packet that message counters need.
#[derive(Clone, Copy, Debug)]
pub struct MessagePacket {
    /// BTH operation code.
    pub opcode: u8,
    /// Payload in bytes, or [`UNKNOWN`].
    pub payload: u32,
    /// DMA length of the RETH, or [`UNKNOWN`].
    pub dma_len: u32,
}

impl MessagePacket {
    /// Properties of a parsed frame.
    #[inline(always)]
    pub const fn of(frame: &Frame) -> Self {
        Self { opcode: frame.opcode, payload: frame.payload, dma_len: frame.dma_len }
    }
}

/// A flow's incomplete message. All zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenMessage {
    /// Payload bytes so far, or the total length if the first packet states it (RETH).
    bytes: u32,
    /// Bits of [`OpenMessage::STARTED`] and the following.
    flags: u8,
}

impl OpenMessage {
    /// Initial value: no open message.
    pub const NONE: Self = Self { bytes: 0, flags: 0 };
    /// Its first packet was seen.
    const STARTED: u8 = 1;
    /// Its first packet stated the total length.
    const STATED: u8 = 1 << 1;
    /// Some of its packets are missing.
    const BROKEN: u8 = 1 << 2;

    /// Encodes the state as numbers.
    #[inline(always)]
    pub const fn parts(self) -> (u32, u8) {
        (self.bytes, self.flags)
    }

    /// Decodes the state from the numbers of [`OpenMessage::parts`].
    #[inline(always)]
    pub const fn from_parts(bytes: u32, flags: u8) -> Self {
        Self { bytes, flags }
    }

    /// True if a message has started and not ended.
    pub fn is_open(&self) -> bool {
        self.flags & Self::STARTED != 0
    }

    /// Counts packets in the middle of a message, alike and none missing before them, as [`packet`](Self::packet) does
    /// one by one.
    #[inline]
    pub fn middle(&mut self, kinds: &mut ByOperation, part: MessagePacket, op: Op, packets: u32) {
        let Some(kind) = kinds.get_mut(Operation::of(part.opcode) as usize) else { return };
        kind.packets += u64::from(packets);
        kind.payload_bytes += u64::from(part.payload) * u64::from(packets);
        if !op.has(Op::RESPONSE) && self.flags & Self::STATED == 0 {
            self.bytes = self.bytes.saturating_add(part.payload.saturating_mul(packets));
        }
    }

    /// Counts a packet; true if it ends a message. `gap`: PSNs are missing before it.
    #[inline(always)]
    pub fn packet(
        &mut self,
        kinds: &mut ByOperation,
        part: MessagePacket,
        op: Op,
        duplicate_psn: bool,
        gap: bool,
    ) -> bool {
        let Some(kind) = kinds.get_mut(Operation::of(part.opcode) as usize) else { return false };
        kind.packets += 1;
        let payload = if part.payload == UNKNOWN { 0 } else { part.payload };
        kind.payload_bytes += u64::from(payload);
        // A response belongs to a message that its request counted.
        if duplicate_psn || !op.has(Op::KNOWN) || op.any(Op::RESPONSE | Op::ACKNOWLEDGE | Op::CNP) {
            return false;
        }
        // A RETH is in the first packet of a message.
        if op.has(Op::STARTS) {
            let stated = op.has(Op::RETH) && part.dma_len != UNKNOWN;
            let flags = if stated {
                Self::STARTED | Self::STATED
            } else if part.payload == UNKNOWN {
                Self::STARTED | Self::BROKEN
            } else {
                Self::STARTED
            };
            *self = Self { bytes: if stated { part.dma_len } else { payload }, flags };
        } else if self.flags & Self::STATED == 0 {
            self.bytes = self.bytes.saturating_add(payload);
            if part.payload == UNKNOWN || gap {
                self.flags |= Self::BROKEN;
            }
        }
        if op.has(Op::ENDS) {
            let whole = self.flags & (Self::STARTED | Self::BROKEN) == Self::STARTED;
            kind.complete(whole, self.bytes);
            *self = Self::NONE;
        }
        op.has(Op::ENDS)
    }
}

const _: () = {
    use core::mem::size_of;
    assert!(size_of::<MessageCounts>() == (3 + SIZE_BUCKETS) * 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn run(packets: &[(u8, u32, u32, bool)]) -> ByOperation {
        let mut kinds = [MessageCounts::NONE; COUNTED_OPERATIONS];
        let mut open = OpenMessage::default();
        for (opcode, payload, dma_len, repeat) in packets {
            let part = MessagePacket { opcode: *opcode, payload: *payload, dma_len: *dma_len };
            open.packet(&mut kinds, part, Op::of(*opcode), *repeat, false);
        }
        kinds
    }

    #[test]
    fn lengths_from_the_first_packet_or_the_sum() {
        let kinds = run(&[
            (0x06, 1024, 3000, false),
            (0x07, 1024, UNKNOWN, false),
            (0x07, 1024, UNKNOWN, true),
            (0x08, 952, UNKNOWN, false),
            (0x0A, 0, 0, false),
            (0x00, 1024, UNKNOWN, false),
            (0x02, 1, UNKNOWN, false),
            (0x0C, 0, 65_536, false),
            (0x10, 1024, UNKNOWN, false),
            (0x13, 0, UNKNOWN, false),
        ]);
        let write = kinds[Operation::Write as usize];
        assert_eq!((write.messages(), write.packets, write.sizes[12], write.sizes[0]), (2, 5, 1, 1));
        let send = kinds[Operation::Send as usize];
        assert_eq!((send.messages(), send.sizes[11], send.payload_bytes), (1, 1, 1025));
        let read = kinds[Operation::Read as usize];
        assert_eq!((read.messages(), read.sizes[17], read.payload_bytes), (1, 1, 1024));
        assert_eq!(kinds[Operation::Atomic as usize].messages(), 1);
    }

    #[test]
    fn a_message_without_its_first_packet_has_no_length() {
        let kinds = run(&[(0x01, 1024, UNKNOWN, false), (0x02, 10, UNKNOWN, false)]);
        let send = kinds[Operation::Send as usize];
        assert_eq!((send.messages(), send.size_unknown, send.sizes.iter().sum::<u64>()), (1, 1, 0));
    }

    #[test]
    fn packets_in_the_middle_at_once_are_those_one_by_one() {
        for (first, middle, dma_len) in [(0x06, 0x07, 9_000), (0x00, 0x01, UNKNOWN), (0x0D, 0x0E, UNKNOWN)] {
            let mut kinds = [MessageCounts::NONE; COUNTED_OPERATIONS];
            let mut open = OpenMessage::default();
            let part = MessagePacket { opcode: first, payload: 1024, dma_len };
            open.packet(&mut kinds, part, Op::of(first), false, false);
            let (mut all, mut at_once) = (kinds, open);
            let part = MessagePacket { opcode: middle, payload: 1024, dma_len: UNKNOWN };
            for _ in 0..5 {
                open.packet(&mut kinds, part, Op::of(middle), false, false);
            }
            at_once.middle(&mut all, part, Op::of(middle), 5);
            assert_eq!((all, at_once), (kinds, open), "{middle:#x}");
        }
    }

    #[test]
    fn frame_buckets_have_inclusive_upper_bounds() {
        // Miri takes a minute for all of them.
        let step = if cfg!(miri) { 61 } else { 1 };
        for len in (0..=9200).step_by(step).chain([u32::MAX]) {
            assert_eq!(frame_bucket(len), FRAME_ENDS.iter().filter(|end| len > **end).count(), "{len}");
        }
    }

    #[test]
    fn frames_fall_into_their_bucket() {
        for (len, bucket) in
            [(60, 0), (61, 1), (74, 1), (1098, 5), (1514, 5), (1515, 6), (4170, 8), (9014, 8), (9015, 9)]
        {
            assert_eq!(frame_bucket(len), bucket, "{len}");
        }
    }
}
