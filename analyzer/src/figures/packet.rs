//! A packet as collectors see it.

use std::sync::Arc;

use rocescope_common::account::{Event, FlowKey, Outcome};
use rocescope_common::wire::Frame;
use rocescope_common::wire::opcode::Op;

use crate::replay::links::TapLinks;
use crate::table::Observed;

/// One RoCE packet that was counted. It borrows nothing, so that it can be looked at later and
/// elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its headers.
    pub frame: Frame,
    /// Its time, Unix nanoseconds. Packets of one link come in the order of the capture, which is
    /// nearly always that of their times.
    pub time_ns: u64,
    /// Its flow's place in the table. Used again by another flow when the flow is retired.
    pub slot: u32,
    /// What counting it gave rise to.
    pub outcome: Outcome,
    /// First PSN of the sequence that it belongs to (of responses, or of requests).
    pub first: u32,
    /// The PSN that is expected next in that sequence.
    pub expected: u32,
    /// The flow's path MTU; 0 when it is not known.
    pub mtu: u32,
    /// Its link.
    pub link: u16,
    /// The IPv4 identification; 0 where there is none.
    pub id: u16,
    /// Its PSN was behind the expected one.
    pub repeat: bool,
}

impl Packet {
    /// A place for a packet.
    pub const EMPTY: Self = Self {
        frame: Frame::EMPTY,
        time_ns: 0,
        slot: 0,
        outcome: Outcome { events: 0, other_port: false, other_opcode: false, missing: 0 },
        first: 0,
        expected: 0,
        mtu: 0,
        link: 0,
        id: 0,
        repeat: false,
    };

    /// Takes note of what counting [`Self::frame`] gave; `data` are the captured bytes.
    #[inline]
    pub fn counted(&mut self, link: u16, time_ns: u64, observed: &Observed<'_>, data: &[u8]) {
        let Observed { slot, stats, outcome, repeat } = *observed;
        let response = Op::of(self.frame.opcode).has(Op::RESPONSE);
        let track = if response { &stats.psn_responses } else { &stats.psn };
        self.time_ns = time_ns;
        self.slot = slot;
        self.outcome = outcome;
        (self.first, self.expected, self.mtu) = (track.first, track.expected, stats.mtu);
        self.link = link;
        self.id = identification(&self.frame, data);
        self.repeat = repeat;
    }

    /// The flow that it belongs to.
    #[must_use]
    pub fn key(&self) -> FlowKey {
        FlowKey::of(&self.frame, self.link)
    }

    /// Whether collectors need an [`Aside`] to it.
    #[inline]
    #[must_use]
    pub fn wants_aside(&self) -> bool {
        self.outcome.events & (Event::NEW_FLOW | Event::GSI) != 0
    }
}

/// What collectors want to know of few packets: the first of a flow, and those to queue pair 1.
#[derive(Clone, Debug)]
pub struct Aside {
    /// The captured bytes.
    pub data: Vec<u8>,
    /// The tap that it was captured at.
    pub tap: Arc<str>,
    /// The number of the interface within the tap.
    pub interface: u32,
}

impl Aside {
    /// Of a packet on `link` with these bytes.
    #[must_use]
    pub fn of(tap: &TapLinks, link: u16, data: &[u8]) -> Self {
        Self { data: data.to_vec(), tap: tap.name().clone(), interface: tap.interface_of(link) }
    }
}

/// The IPv4 identification; 0 where there is none.
#[inline]
fn identification(frame: &Frame, data: &[u8]) -> u16 {
    if frame.family != 4 || frame.roce_version != 2 {
        return 0;
    }
    let at = frame.ip_offset as usize + 4;
    match data.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}
