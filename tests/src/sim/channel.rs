//! One direction of a cable: queue and rate of the sending port, and faults in transit.

use std::collections::VecDeque;

use super::packet::{Body, Packet, op};

/// Random early marking: none below `min` bytes of queue, `max_ppm` at `max`, everything above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Red {
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) max_ppm: u32,
}

/// Selects packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Match {
    pub(crate) src: Option<usize>,
    pub(crate) dst: Option<usize>,
    pub(crate) qp: Option<u32>,
    /// Only requests and READ responses (`Some(true)`), or only the rest.
    pub(crate) data: Option<bool>,
    /// Only packets with more payload than this.
    pub(crate) over: Option<u32>,
    /// Only an opcode.
    pub(crate) opcode: Option<u8>,
}

impl Match {
    pub(crate) fn takes(&self, packet: &Packet) -> bool {
        packet.is_roce()
            && self.src.is_none_or(|src| src == packet.src)
            && self.dst.is_none_or(|dst| dst == packet.dst)
            && self.qp.is_none_or(|qp| qp == packet.dest_qp)
            && self.data.is_none_or(|data| data == packet.is_data())
            && self.over.is_none_or(|over| packet.payload > over)
            && self.opcode.is_none_or(|opcode| opcode == packet.opcode)
    }
}

/// A fault on a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Drops packets at random.
    Drop { ppm: u32 },
    /// Drops runs of packets.
    DropRuns { ppm: u32, len: u32 },
    /// Delays packets at random by up to `jitter_ns` beyond `ns`: reorders if that exceeds their distance.
    Delay { ppm: u32, ns: u64, jitter_ns: u64 },
    /// Holds packets back until then, in their order, as pauses do.
    Hold { until_ns: u64 },
    /// Changes ToS bits: keeps those of `keep`, sets those of `set`.
    Tos { keep: u8, set: u8 },
    /// Changes the priority in the 802.1Q tag.
    Priority { to: u8 },
    /// Flips a bit that must not change.
    Corrupt { ppm: u32 },
    /// Changes the payload; recomputes the ICRC, or keeps the old one.
    Alter { ppm: u32, recompute: bool },
    /// Truncates the payload to this many bytes and forwards the rest with this ToS, like a trimming switch with a
    /// full queue.
    Trim { ppm: u32, payload: u32, tos: u8 },
    /// Sends a duplicate later.
    Duplicate { ppm: u32, after_ns: u64 },
    /// CE-marks packets at random.
    Mark { ppm: u32 },
}

/// An effect on matching packets for some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) only: Match,
    pub(crate) effect: Effect,
    /// Packets still to be dropped by a run of losses.
    pub(crate) left: u32,
}

impl Fault {
    /// A fault for the whole simulation.
    pub(crate) fn always(only: Match, effect: Effect) -> Self {
        Self { from_ns: 0, to_ns: u64::MAX, only, effect, left: 0 }
    }

    /// A fault for a time range of the simulation.
    pub(crate) fn during(from_ns: u64, to_ns: u64, only: Match, effect: Effect) -> Self {
        Self { from_ns, to_ns, only, effect, left: 0 }
    }
}

/// Node at the end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Host(usize),
    Switch(usize),
}

/// One direction of a cable with its egress queue.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) bits_per_s: u64,
    pub(crate) delay_ns: u64,
    pub(crate) queue: VecDeque<Packet>,
    pub(crate) queued: u64,
    /// Queue length in bytes beyond which packets are dropped.
    pub(crate) limit: u64,
    pub(crate) red: Option<Red>,
    /// Sum of queueing delays, and the number of packets.
    pub(crate) waited_ns: u64,
    pub(crate) waited: u64,
    pub(crate) busy: bool,
    pub(crate) paused_until: u64,
    pub(crate) wake_at: u64,
    pub(crate) faults: Vec<Fault>,
    /// Taps at the entry of the cable, and at its exit.
    pub(crate) near: Vec<usize>,
    pub(crate) far: Vec<usize>,
    /// Changes of the rate: time, and bits per second.
    pub(crate) rates: Vec<(u64, u64)>,
    /// For PFC: bytes in the switch after this channel that entered through it, and whether it is paused.
    pub(crate) held: u64,
    pub(crate) holding: bool,
    pub(crate) renew_at: u64,
}

impl Channel {
    pub(crate) fn new(from: Node, to: Node, bits_per_s: u64, delay_ns: u64) -> Self {
        Self {
            from,
            to,
            bits_per_s,
            delay_ns,
            queue: VecDeque::new(),
            queued: 0,
            limit: u64::MAX,
            red: None,
            waited_ns: 0,
            waited: 0,
            busy: false,
            paused_until: 0,
            wake_at: u64::MAX,
            faults: Vec::new(),
            near: Vec::new(),
            far: Vec::new(),
            rates: Vec::new(),
            held: 0,
            holding: false,
            renew_at: 0,
        }
    }

    /// Mean queueing delay of packets, in nanoseconds.
    pub(crate) fn wait_ns(&self) -> u64 {
        self.waited_ns / self.waited.max(1)
    }

    /// Transmission time of a frame of `bytes` in nanoseconds, including preamble, FCS and gap.
    pub(crate) fn time(&self, bytes: u32, now: u64) -> u64 {
        let changed = self.rates.iter().rev().find(|(from, _)| *from <= now);
        let rate = changed.map_or(self.bits_per_s, |(_, rate)| *rate);
        u64::from(bytes + 24) * 8_000_000_000 / rate
    }
}

/// True for packets with priority over data in a host's NIC.
pub(crate) fn urgent(packet: &Packet) -> bool {
    packet.opcode == op::CNP || matches!(packet.body, Body::Pfc { .. })
}
