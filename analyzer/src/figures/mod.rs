//! Figures beyond counters: what only the order and the times of packets tell.
//!
//! Each figure is a collector (fed packet by packet, bounded memory, no clock of its own) and a
//! plain result that goes into the [`Sample`](crate::sample::Sample). A figure that a source cannot
//! collect is `None` there.

pub mod control;
pub mod ecn;
pub mod icrc;
pub mod latency;
pub mod loss;
pub mod marking;
pub mod pairing;
pub mod steps;
pub mod taps;
pub mod traffic;
#[cfg(test)]
mod wire;

use std::sync::Arc;
use std::time::Duration;

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
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How late a packet may come and still be taken for one out of order; `None` for
    /// [`loss::REORDER_WINDOW_NS`].
    pub reorder_window: Option<Duration>,
    /// Length of the bins in which bursts are counted, in nanoseconds.
    pub bin_ns: u64,
    /// Speed of the links in Mbit/s, which pause times are counted in; `None` for
    /// [`control::LINK_MBPS`].
    pub link_mbps: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { reorder_window: None, bin_ns: traffic::BIN_NS, link_mbps: None }
    }
}

/// Collects every figure of a replay.
#[derive(Debug)]
pub struct Collector {
    marking: Marking,
    pairing: pairing::Pairing,
    latency: latency::Collector,
    ecn: ecn::Collector,
    loss: loss::Collector,
    icrc: icrc::Collector,
    taps: taps::Collector,
    traffic: traffic::Collector,
    control: control::Collector,
}

impl Collector {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let window = options
            .reorder_window
            .map_or(loss::REORDER_WINDOW_NS, |window| u64::try_from(window.as_nanos()).unwrap_or(u64::MAX));
        Self {
            marking: Marking::default(),
            pairing: pairing::Pairing::default(),
            latency: latency::Collector::default(),
            ecn: ecn::Collector::default(),
            loss: loss::Collector::new(window),
            icrc: icrc::Collector::default(),
            taps: taps::Collector::default(),
            traffic: traffic::Collector::new(options.bin_ns),
            control: control::Collector::new(options.link_mbps),
        }
    }

    /// A frame of any kind passed a link; those with RoCE come to [`Self::packet`] next.
    #[inline]
    pub fn frame(&mut self, link: u16, time_ns: u64) {
        self.traffic.frame(link, time_ns);
    }

    /// A frame between link partners passed: MAC control or LLDP.
    pub fn control(&mut self, link: u16, time_ns: u64, data: &[u8]) {
        self.control.frame(link, time_ns, data);
    }

    /// Says how many taps there will be.
    pub fn expect_taps(&mut self, taps: usize) {
        self.taps.expect(taps);
    }

    /// Takes in one packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.marking.packet(packet);
        let reverse = self.pairing.packet(packet);
        self.latency.packet(packet, reverse);
        self.ecn.packet(packet, reverse);
        self.loss.packet(packet);
        self.icrc.packet(packet);
        self.taps.packet(packet);
        self.traffic.packet(packet);
        self.control.packet(packet);
    }

    /// The flow of a slot was retired; the slot will be used again.
    pub fn retired(&mut self, slot: u32) {
        self.pairing.retired(slot);
        self.latency.retired(slot);
        self.ecn.retired(slot);
        self.loss.retired(slot);
        self.icrc.retired(slot);
        self.taps.retired(slot);
        self.traffic.retired(slot);
        self.control.retired(slot);
    }

    /// What is known so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            marking: Some(self.marking.links().to_vec()),
            pairs: Some(self.pairing.pairs()),
            latency: Some(self.latency.figures()),
            ecn: Some(self.ecn.figures()),
            loss: Some(self.loss.figures()),
            icrc: Some(self.icrc.figures()),
            taps: Some(self.taps.figures()),
            traffic: Some(Arc::new(self.traffic.figures())),
            control: Some(self.control.figures()),
        }
    }
}

/// The figures at a moment. What a source cannot collect is `None`.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Packets by DSCP, by link; links at the end that have none may be missing.
    pub marking: Option<Vec<ByDscp>>,
    /// The other direction of flows, by slot, as far as it is known.
    pub pairs: Option<HashMap<u32, pairing::Pair, State>>,
    /// Times from request to answer, by slot of the flow of requests.
    pub latency: Option<HashMap<u32, latency::Figure, State>>,
    /// Congestion marks and notifications.
    pub ecn: Option<ecn::Figures>,
    /// Loss, reordering and what was sent again.
    pub loss: Option<loss::Loss>,
    /// Whether packets arrive as they were sent.
    pub icrc: Option<icrc::Icrc>,
    /// Flows that were seen at several taps.
    pub taps: Option<Vec<taps::TapPair>>,
    /// Traffic in time and by hosts.
    pub traffic: Option<Arc<traffic::Traffic>>,
    /// Pauses and LLDP, from frames between link partners.
    pub control: Option<control::ControlFigures>,
}

/// The IPv4 identification; 0 where there is none.
#[inline]
fn identification(packet: &Packet<'_>) -> u16 {
    let frame = packet.frame;
    if frame.family != 4 || frame.roce_version != 2 {
        return 0;
    }
    let at = frame.ip_offset as usize + 4;
    match packet.data.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}
