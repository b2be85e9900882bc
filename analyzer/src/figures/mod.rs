//! Figures beyond counters: what only the order and the times of packets tell.
//!
//! Each figure is a collector (fed packet by packet, bounded memory, no clock of its own) and a
//! plain result that goes into the [`Sample`](crate::sample::Sample). A figure that a source cannot
//! collect is `None` there.

pub mod ecn;
pub mod latency;
pub mod marking;
pub mod pairing;

use hashbrown::HashMap;
use rocescope_common::account::{FlowKey, FlowStats, Outcome};
use rocescope_common::wire::Frame;

use crate::replay::links::TapLinks;
use marking::{ByDscp, Marking};

type State = foldhash::fast::RandomState;

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
    /// The tap that it was captured at.
    pub tap: &'a TapLinks,
}

/// What the user chose about figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {}

/// Collects every figure of a replay.
#[derive(Debug)]
pub struct Collector {
    marking: Marking,
    pairing: pairing::Pairing,
    latency: latency::Collector,
    ecn: ecn::Collector,
}

impl Collector {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(_options: &Options) -> Self {
        Self {
            marking: Marking::default(),
            pairing: pairing::Pairing::default(),
            latency: latency::Collector::default(),
            ecn: ecn::Collector::default(),
        }
    }

    /// Takes in one packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.marking.packet(packet);
        let reverse = self.pairing.packet(packet);
        self.latency.packet(packet, reverse);
        self.ecn.packet(packet, reverse);
    }

    /// The flow of a slot was retired; the slot will be used again.
    pub fn retired(&mut self, slot: u32) {
        self.pairing.retired(slot);
        self.latency.retired(slot);
        self.ecn.retired(slot);
    }

    /// What is known so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            marking: Some(self.marking.links().to_vec()),
            pairs: Some(self.pairing.pairs()),
            latency: Some(self.latency.figures()),
            ecn: Some(self.ecn.figures()),
        }
    }
}

/// The figures at a moment. What a source cannot collect is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Packets by DSCP, by link; links at the end that have none may be missing.
    pub marking: Option<Vec<ByDscp>>,
    /// The other direction of flows, by slot, as far as it is known.
    pub pairs: Option<HashMap<u32, pairing::Pair, State>>,
    /// Times from request to answer, by slot of the flow of requests.
    pub latency: Option<HashMap<u32, latency::Figure, State>>,
    /// Congestion marks and notifications.
    pub ecn: Option<ecn::Figures>,
}
