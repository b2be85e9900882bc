//! Figures beyond counters: what only the order and the times of packets tell.
//!
//! Each figure is a collector (fed packet by packet, bounded memory, no clock of its own) and a
//! plain result that goes into the [`Sample`](crate::sample::Sample). A figure that a source cannot
//! collect is `None` there.

pub mod steps;
pub mod traffic;

use std::sync::Arc;

use rocescope_common::account::{FlowKey, FlowStats, Outcome};
use rocescope_common::wire::Frame;

/// One RoCE packet that was counted, as collectors see it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its flow.
    pub key: &'a FlowKey,
    /// The flow's place in the table. Used again by another flow when the flow is retired.
    pub slot: u32,
    /// Its headers.
    pub frame: &'a Frame,
    /// Its time, Unix nanoseconds. Packets of one link come in the order of the capture, which is
    /// nearly always that of their times.
    pub time_ns: u64,
    /// What counting it gave rise to.
    pub outcome: Outcome,
    /// Its PSN was behind the expected one, in the sequence of requests or of responses.
    pub repeat: bool,
    /// The flow's counters, this packet included.
    pub stats: &'a FlowStats,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// What the user chose about figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Length of the bins in which bursts are counted, in nanoseconds.
    pub bin_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { bin_ns: traffic::BIN_NS }
    }
}

/// Collects every figure of a replay.
#[derive(Debug)]
pub struct Collector {
    traffic: traffic::Collector,
}

impl Collector {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self { traffic: traffic::Collector::new(options.bin_ns) }
    }

    /// A frame of any kind passed a link; those with RoCE come to [`Self::packet`] next.
    #[inline]
    pub fn frame(&mut self, link: u16, time_ns: u64) {
        self.traffic.frame(link, time_ns);
    }

    /// Takes in one packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.traffic.packet(packet);
    }

    /// The flow of a slot was retired; the slot will be used again.
    pub fn retired(&mut self, slot: u32) {
        self.traffic.retired(slot);
    }

    /// What is known so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures { traffic: Some(Arc::new(self.traffic.figures())) }
    }
}

/// The figures at a moment. What a source cannot collect is `None`.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Traffic in time and by hosts.
    pub traffic: Option<Arc<traffic::Traffic>>,
}
