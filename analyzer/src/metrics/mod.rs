//! Figures beyond counters: what only the order and the times of packets tell.
//!
//! Each figure is a collector (fed packet by packet, bounded memory, no clock of its own) and a
//! plain result that goes into the [`Sample`](crate::sample::Sample). A figure that a source cannot
//! collect is `None` there.

#![expect(
    clippy::inline_always,
    reason = "one loop over packets with all collectors in it, and another for packets with extras, or of several taps: with two places to \
              inline them into, the compiler would call them"
)]

pub mod control;
pub mod duplicates;
pub mod ecn;
pub mod icrc;
pub mod latency;
pub mod loss;
pub mod marking;
pub mod messages;
mod packed;
pub mod packet;
pub mod pairing;
pub mod setups;
pub mod spray;
pub mod steps;
pub mod taps;
#[cfg(test)]
mod testing;
pub mod timeline;
pub mod traffic;

use std::sync::Arc;
use std::time::Duration;

use crate::util::definition::Definition;
use crate::util::time::nanos;
use duplicates::Verdict;
use icrc::Contents;
use loss::in_message::LinkSilence;
use marking::ByDscp;
use packet::{Packet, PacketExtras};

/// The numbers that these figures rest on, by subject.
pub(crate) const DEFINITIONS: [(&str, &[&[Definition]]); 5] = [
    ("Loss, reordering, retransmissions", &loss::DEFINITIONS),
    (
        "Duplicates, taps, pairs of flows",
        &[
            duplicates::DEFINITIONS,
            duplicates::OF_HOSTS,
            taps::DEFINITIONS,
            taps::OF_FLOWS,
            pairing::DEFINITIONS,
            pairing::OF_REQUESTS,
            setups::DEFINITIONS,
            spray::DEFINITIONS,
        ],
    ),
    ("Pauses", &[control::DEFINITIONS]),
    (
        "Latency, bins",
        &[
            latency::histogram::DEFINITIONS,
            latency::tails::DEFINITIONS,
            traffic::hosts::DEFINITIONS,
            traffic::DEFINITIONS,
        ],
    ),
    (
        "Steps of a job",
        &[
            steps::DEFINITIONS,
            steps::segment::DEFINITIONS,
            steps::job::DEFINITIONS,
            steps::rhythm::DEFINITIONS,
            steps::trend::DEFINITIONS,
            steps::straggler::DEFINITIONS,
        ],
    ),
];

/// Options of the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Reordering window: a packet that arrives later than this counts as retransmitted; `None` for
    /// [`loss::REORDER_WINDOW_NS`].
    pub reorder_window: Option<Duration>,
    /// Length of the bins in which bursts are counted, in nanoseconds.
    pub bin_ns: u64,
    /// Speed of the links in Mbit/s, which pause times are counted in; `None` where it is not known.
    pub link_mbps: Option<u64>,
    /// Follow single messages.
    pub messages: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { reorder_window: None, bin_ns: traffic::BIN_NS, link_mbps: None, messages: false }
    }
}

/// Collects every figure that needs no bytes of packets.
#[derive(Debug)]
pub struct Collector {
    duplicates: duplicates::Filter,
    pairing: pairing::Pairing,
    latency: latency::Collector,
    ecn: ecn::Collector,
    loss: loss::Collector,
    taps: taps::Collector,
    traffic: traffic::Collector,
    messages: Option<Box<messages::Collector>>,
}

impl Collector {
    /// Collector before the first packet.
    pub fn new(options: &Options) -> Self {
        let window = options.reorder_window.map_or(loss::REORDER_WINDOW_NS, nanos);
        Self {
            duplicates: duplicates::Filter::default(),
            pairing: pairing::Pairing::default(),
            latency: latency::Collector::default(),
            ecn: ecn::Collector::default(),
            loss: loss::Collector::new(window, options.bin_ns),
            taps: taps::Collector::default(),
            traffic: traffic::Collector::new(options.bin_ns),
            messages: options.messages.then(Box::default),
        }
    }

    /// Says how many taps there will be.
    pub fn expect_taps(&mut self, taps: usize) {
        self.taps.expect(taps);
    }

    /// Takes in one packet with extras, which it [wants](Packet::wants_extras), or with what its ICRC says, which taps
    /// compare.
    #[inline(never)]
    pub fn packet_with(
        &mut self,
        packet: &Packet,
        extras: Option<&PacketExtras>,
        contents: Option<Contents>,
    ) {
        self.packet(packet, extras, contents);
    }

    /// Takes in one packet, with the additional facts of those that [want it](Packet::wants_extras).
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, extras: Option<&PacketExtras>, contents: Option<Contents>) {
        // One test for nearly all packets.
        let mut doubtful = false;
        match self.duplicates.packet(packet, extras) {
            Verdict::Own => {}
            Verdict::Doubtful => doubtful = true,
            Verdict::Copy { marked } => return self.count_duplicate(packet, marked),
        }
        let reverse = self.pairing.packet(packet, extras);
        self.latency.packet(packet, reverse);
        if doubtful {
            self.ecn.doubtful(packet, reverse);
        } else {
            self.ecn.packet(packet, reverse);
        }
        self.loss.packet(packet, extras, reverse);
        self.taps.packet(packet, extras, contents);
        self.traffic.packet(packet, extras);
        if doubtful {
            self.traffic.doubt(packet);
        }
        if let Some(messages) = &mut self.messages {
            messages.packet(packet, reverse);
        }
    }

    /// Takes in a train: packets that only continue the message of the packet before, alike but for PSN, identification
    /// and time, which does not go back.
    #[inline(never)]
    pub fn train(&mut self, train: &[Packet]) {
        let Some(first) = train.first() else { return };
        if !(self.duplicates.is_idle() && self.pairing.is_decided(first.slot) && self.taps.is_idle()) {
            return train.iter().for_each(|packet| self.packet_with(packet, None, None));
        }
        let reverse = self.pairing.reverse(first.slot);
        self.latency.train(train, reverse);
        self.ecn.train(train);
        self.loss.train(train, reverse);
        self.traffic.train(train);
        if let Some(messages) = &mut self.messages {
            for packet in train {
                messages.packet(packet, reverse);
            }
        }
    }

    /// A duplicate of a packet that the collectors have had. A CE mark that only the duplicate shows is reported to
    /// those that count marks.
    #[cold]
    fn count_duplicate(&mut self, packet: &Packet, marked: bool) {
        if marked {
            self.ecn.marked(packet);
            self.loss.marked(packet);
            self.traffic.marked(packet);
        }
        for decided in self.duplicates.decided() {
            if decided.whole {
                self.loss.forget(decided.slot);
            }
            self.ecn.take_out(decided.slot);
            self.traffic.take_out(&decided);
        }
    }

    /// The next packet of a link ends a silence of all RoCE traffic on it.
    pub fn silence(&mut self, link: u16, silence: LinkSilence) {
        self.loss.silence(link, silence);
    }

    /// The flow of a slot was retired; the slot will be used again.
    pub fn retired(&mut self, slot: u32) {
        self.duplicates.retired(slot);
        self.pairing.retired(slot);
        self.latency.retired(slot);
        self.ecn.retired(slot);
        self.loss.retired(slot);
        self.taps.retired(slot);
        self.traffic.retired(slot);
        if let Some(messages) = &mut self.messages {
            messages.retired(slot);
        }
    }

    /// Metrics of the packets so far.
    pub fn metrics(&self) -> Metrics {
        let Self { duplicates, pairing, latency, ecn, loss, taps, traffic, messages } = self;
        let messages = messages.as_ref().map(|messages| Arc::new(messages.metrics()));
        let metrics = metrics(
            (duplicates.metrics(), loss.metrics(), loss.timeline(traffic.points())),
            (pairing.pairs(), pairing.setups()),
            (latency.metrics(), ecn.metrics()),
            (taps.metrics(), traffic.metrics()),
        );
        Metrics { messages, ..metrics }
    }

    /// The figures at the end. Each collector is freed as soon as its figures are made: with very many flows, all of
    /// both together are half of the memory.
    pub fn finish(self) -> Metrics {
        let Self { duplicates, pairing, latency, ecn, loss, taps, traffic, messages } = self;
        let messages = messages.map(|messages| Arc::new(messages.metrics()));
        let timeline = loss.timeline(traffic.points());
        // While its figures are made a collector is still there: those with the largest figures come last, when most
        // room is free.
        let duplicates = last(duplicates, duplicates::Filter::metrics);
        let taps = last(taps, taps::Collector::metrics);
        let ecn = last(ecn, ecn::Collector::metrics);
        let pairs = last(pairing, |pairing| (pairing.pairs(), pairing.setups()));
        let latency = last(latency, latency::Collector::metrics);
        let loss = loss.finish();
        let traffic = traffic.finish();
        let metrics = metrics((duplicates, loss, timeline), pairs, (latency, ecn), (taps, traffic));
        Metrics { messages, ..metrics }
    }
}

/// Metrics of a collector at the end; it is dropped then.
fn last<C, M>(collector: C, metrics: impl FnOnce(&C) -> M) -> M {
    let metrics = metrics(&collector);
    drop(collector);
    metrics
}

fn metrics(
    (duplicates, mut loss, timeline): (duplicates::Duplicates, loss::Loss, Vec<timeline::LinkPoints>),
    (pairs, setups): (pairing::BySlot, setups::Setups),
    (latency, ecn): (latency::BySlot, ecn::Metrics),
    (taps, traffic): (Vec<taps::TapPair>, traffic::Traffic),
) -> Metrics {
    loss.mirrored(
        duplicates.flows.iter().map(|(slot, duplicates)| (*slot, duplicates.requests, duplicates.responses)),
    );
    Metrics {
        steps: None,
        messages: None,
        // The table of flows has it.
        marking: None,
        pairs: Some(pairs),
        setups: Some(setups),
        latency: Some(latency),
        ecn: Some(ecn),
        loss: Some(loss),
        duplicates: Some(duplicates),
        icrc: None,
        spray: None,
        taps: Some(taps),
        traffic: Some(Arc::new(traffic)),
        timeline: Some(Arc::new(timeline)),
        control: None,
    }
}

/// The figures at a moment. A metric that a source cannot collect is `None`.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Steps of the job that a recording has; `None` where they are found in the traffic.
    pub steps: Option<Arc<steps::Steps>>,
    /// Single messages; `None` where they are not followed.
    pub messages: Option<Arc<messages::Messages>>,
    /// Packets by DSCP, by link.
    pub marking: Option<Vec<ByDscp>>,
    /// The other direction of flows, by slot, as far as it is known.
    pub pairs: Option<pairing::BySlot>,
    /// Connections that were accepted, rejected or not answered.
    pub setups: Option<setups::Setups>,
    /// Times from request to answer, by slot of the flow of requests.
    pub latency: Option<latency::BySlot>,
    /// Congestion marks and notifications.
    pub ecn: Option<ecn::Metrics>,
    /// Loss, reordering and retransmissions.
    pub loss: Option<loss::Loss>,
    /// Packets that the capture shows twice.
    pub duplicates: Option<duplicates::Duplicates>,
    /// ICRC checks of the packets.
    pub icrc: Option<icrc::Icrc>,
    /// Trimmed packets, and planes by the outer destination.
    pub spray: Option<spray::BySlot>,
    /// Flows that were seen at several taps.
    pub taps: Option<Vec<taps::TapPair>>,
    /// Traffic in time and by hosts.
    pub traffic: Option<Arc<traffic::Traffic>>,
    /// Traffic and signals over the whole run, by link; live the history of samples has them.
    pub timeline: Option<timeline::Timeline>,
    /// Pauses and LLDP, from frames between link partners.
    pub control: Option<control::ControlMetrics>,
}
