//! Runs the collectors of [`metrics`](crate::metrics) on the packets of a replay, in a second thread if the replay is
//! long.
//!
//! ```text
//! counting thread: parse, count ─► a batch of packets ─┐ full, in order, at most DEPTH
//!               ▲                                      ▼
//!               └───────── used batches ───── metrics thread: collectors, packet by packet
//! ```
//!
//! Collectors get the same packets in the same order with and without the thread, so the results are the same. Work
//! on a packet's bytes (ICRC, control frames) runs in the counting thread, where the bytes are available, and so does
//! what frames of all kinds decide (silences of links).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rocescope_common::wire::Frame;

use super::links::TapLinks;
use super::silences::Silences;
use crate::metrics::icrc::Contents;
use crate::metrics::loss::in_message::LinkSilence;
use crate::metrics::packet::{Packet, PacketExtras};
use crate::metrics::{Collector, Metrics, Options, control, icrc, spray};
use crate::source::flows::table::Observed;
use crate::util::{background, memory};

/// Packets per batch: waking the other thread costs as much as some hundred packets, and all batches together must
/// fit into a cache.
const BATCH: usize = 4096;
/// Maximum number of queued batches.
const DEPTH: u32 = 4;
/// Number of batches from which a replay is long enough for a second thread.
const LONG: u32 = 4;

/// Silences of links in one batch: without a packet that is counted, none would be handed over.
const MOST_SILENCES: usize = 1024;

/// Packets, and the additional data of a few of them.
#[derive(Debug)]
struct Batch {
    packets: Vec<Packet>,
    /// Number of packets in use.
    len: usize,
    /// Additional data of packets that [need it](Packet::wants_extras), with the packet's index, in order.
    extras: Vec<(usize, PacketExtras)>,
    /// ICRC check of each packet; empty with a single tap.
    contents: Vec<Option<Contents>>,
    /// Silences of links that have ended, with the index of the packet before which they end, in order.
    silences: Vec<(usize, u16, LinkSilence)>,
    /// Packets that only continue the message of the one before each: indexes of the first and behind the last, in
    /// order.
    trains: Vec<(usize, usize)>,
}

impl Batch {
    fn new() -> Self {
        Self {
            packets: vec![Packet::EMPTY; BATCH],
            len: 0,
            extras: Vec::new(),
            contents: Vec::new(),
            silences: Vec::new(),
            trains: Vec::new(),
        }
    }

    const fn is_empty(&self) -> bool {
        self.len == 0 && self.silences.is_empty()
    }

    /// Passes everything to the collectors, then empties itself.
    fn collect(&mut self, collector: &mut Collector) {
        let mut done = 0;
        for (at, link, silence) in &self.silences {
            self.collect_packets(done, *at, collector);
            collector.silence(*link, *silence);
            done = *at;
        }
        self.collect_packets(done, self.len, collector);
        self.clear();
    }

    /// Passes the packets with these indexes.
    fn collect_packets(&self, from: usize, to: usize, collector: &mut Collector) {
        let packets = self.packets.get(..to).unwrap_or_default();
        let contents = |at: usize| self.contents.get(at).copied().flatten();
        let between = |from: usize, to: usize, collector: &mut Collector| {
            if self.contents.is_empty() {
                return self.collect_trains((from, to), collector);
            }
            for (at, packet) in (from..).zip(packets.get(from..to).unwrap_or_default()) {
                collector.packet_with(packet, None, contents(at));
            }
        };
        let mut done = from;
        let first = self.extras.partition_point(|(at, _)| *at < from);
        for (at, extras) in self.extras.iter().skip(first).take_while(|(at, _)| *at < to) {
            between(done, *at, collector);
            if let Some(packet) = packets.get(*at) {
                collector.packet_with(packet, Some(extras), contents(*at));
            }
            done = at + 1;
        }
        between(done, to, collector);
    }

    /// Passes the packets with these indexes, of one tap and without additional data, trains at once.
    fn collect_trains(&self, (from, to): (usize, usize), collector: &mut Collector) {
        let packets = |from: usize, to: usize| self.packets.get(from..to).unwrap_or_default();
        let mut done = from;
        let first = self.trains.partition_point(|(_, end)| *end <= from);
        for (start, end) in self.trains.iter().skip(first).take_while(|(start, _)| *start < to) {
            // The packet that a train continues goes before it by itself.
            let (start, end) = ((*start).max(from + 1).min(to), (*end).min(to));
            collect(packets(done, start), collector);
            collector.train(packets(start, end));
            done = end;
        }
        collect(packets(done, to), collector);
    }

    fn clear(&mut self) {
        self.trains.clear();
        self.len = 0;
        self.extras.clear();
        self.contents.clear();
        self.silences.clear();
    }
}

/// Packets of one tap without additional data, which are nearly all. Code for the other cases is kept out of this
/// loop.
#[inline(never)]
fn collect(packets: &[Packet], collector: &mut Collector) {
    for packet in packets {
        collector.packet(packet, None, None);
    }
}

/// A message to the metrics thread; messages are handled in order.
enum Message {
    Packets(Batch),
    Retired(Vec<u32>),
    Report(Sender<Metrics>),
    /// The last metrics; the thread ends after this.
    Finish(Sender<Metrics>),
}

/// Place where the collectors run.
enum Runner {
    Inline(Box<Collector>),
    Thread {
        messages: SyncSender<Message>,
        used: Receiver<Batch>,
    },
    /// The thread ended unexpectedly, so no metrics are available.
    Gone,
}

/// Collects all metrics of a replay.
pub struct MetricsWorker {
    batch: Batch,
    runner: Runner,
    batches: u32,
    icrc: icrc::Collector,
    spray: spray::Collector,
    control: control::Collector,
    silences: Silences,
    /// Packets may pass several taps, so that their ICRC checks are compared.
    several: bool,
}

impl std::fmt::Debug for MetricsWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsWorker").field("batches", &self.batches).finish_non_exhaustive()
    }
}

impl MetricsWorker {
    /// A worker for a replay of `taps` taps.
    #[must_use]
    pub fn new(options: &Options, taps: usize) -> Self {
        let mut collector = Collector::new(options);
        collector.expect_taps(taps);
        Self {
            batch: Batch::new(),
            runner: Runner::Inline(Box::new(collector)),
            batches: 0,
            icrc: icrc::Collector::new(options.bin_ns),
            spray: spray::Collector::default(),
            control: control::Collector::new(options.link_mbps),
            silences: Silences::default(),
            several: taps > 1,
        }
    }

    /// Records the time of a RoCE packet on a link, counted or not.
    #[inline]
    pub fn roce(&mut self, tap: &TapLinks, link: u16, time_ns: u64) {
        if let Some(before_ns) = self.silences.roce(link, time_ns) {
            self.ended(tap, link, (before_ns, time_ns));
        }
    }

    /// Records the time of any other frame on a link.
    #[inline]
    pub fn other(&mut self, link: u16, time_ns: u64) {
        self.silences.other(link, time_ns);
    }

    /// A RoCE packet ends a silence of one direction of a link.
    #[cold]
    fn ended(&mut self, tap: &TapLinks, link: u16, times: (u64, u64)) {
        let (reverse, cooked) = tap.directions(link);
        let Some(silence) = self.silences.ended((link, reverse), times, cooked) else { return };
        for link in [Some(link), reverse].into_iter().flatten() {
            self.batch.silences.push((self.batch.len, link, silence));
        }
        if self.batch.silences.len() >= MOST_SILENCES {
            self.hand_over();
        }
    }

    /// Processes a frame between link partners: MAC control or LLDP.
    pub fn control(&mut self, link: u16, time_ns: u64, data: &[u8]) {
        self.control.frame(link, time_ns, data);
    }

    /// Processes a counted packet: headers and captured bytes, time, link within `tap`, and the result of counting.
    #[inline]
    pub fn packet(
        &mut self,
        (frame, data): (&Frame, &[u8]),
        (time_ns, link): (u64, u16),
        observed: &Observed<'_>,
        tap: &TapLinks,
    ) {
        let Observed { slot, stats, outcome } = *observed;
        let at = self.batch.len % BATCH;
        // Built in place: copying the whole would stall the CPU until all parts are stored.
        let packet = &mut self.batch.packets[at];
        *packet = Packet::new((frame, data), (time_ns, link), slot, stats, outcome);
        let trimmed = self.spray.packet(packet, frame, data);
        let contents = self.icrc.packet(packet, frame, data, trimmed);
        if self.several || self.silences.links() > 1 {
            // Earlier packets were of a single tap.
            self.batch.contents.resize(at, None);
            self.batch.contents.push(contents);
        }
        self.control.packet(packet, frame, stats.packets, data);
        if packet.wants_extras() {
            let extras =
                PacketExtras::of((frame, data), link, Arc::clone(tap.name()), tap.interface_of(link));
            self.batch.extras.push((at, extras));
        }
        self.batch.len += 1;
        if self.batch.len == BATCH {
            self.hand_over();
        }
    }

    /// The same of a packet that only continues the message of the one before, which was [usual](Self::is_usual).
    #[inline]
    pub fn next(
        &mut self,
        (frame, data): (&Frame, &[u8]),
        (time_ns, link): (u64, u16),
        observed: &Observed<'_>,
        tap: &TapLinks,
    ) {
        let at = self.batch.len % BATCH;
        let alone = !self.several && self.silences.links() <= 1;
        let from = at.checked_sub(1).filter(|_| alone);
        let pair = from.and_then(|from| self.batch.packets.get_mut(from..)?.first_chunk_mut());
        // The one before is in another batch, or there are several taps.
        let Some([before, packet]) = pair else {
            return self.packet((frame, data), (time_ns, link), observed, tap);
        };
        *packet = before.next((frame, data), time_ns);
        self.icrc.next(packet, frame, data);
        self.control.packet(packet, frame, observed.stats.packets, data);
        match self.batch.trains.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => self.batch.trains.push((at, at + 1)),
        }
        self.batch.len += 1;
        if self.batch.len == BATCH {
            self.hand_over();
        }
    }

    /// True if a packet that was just processed is of the length and DSCP of its flow.
    #[inline]
    pub fn is_usual(&self, slot: u32, frame: &Frame) -> bool {
        self.spray.is_usual(slot, frame)
    }

    /// Call when the flows of these slots were retired, since the slots will be reused.
    pub fn retired(&mut self, slots: Vec<u32>) {
        for slot in &slots {
            self.icrc.retired(*slot);
            self.spray.retired(*slot);
            self.control.retired(*slot);
        }
        self.hand_over();
        match &mut self.runner {
            Runner::Inline(collector) => slots.into_iter().for_each(|slot| collector.retired(slot)),
            Runner::Thread { messages, .. } => {
                if messages.send(Message::Retired(slots)).is_err() {
                    self.runner = Runner::Gone;
                }
            }
            Runner::Gone => {}
        }
    }

    /// All metrics up to the latest packet.
    #[must_use]
    pub fn metrics(&mut self) -> Metrics {
        self.hand_over();
        let metrics = match &self.runner {
            Runner::Inline(collector) => collector.metrics(),
            Runner::Thread { messages, .. } => ask(messages, Message::Report),
            Runner::Gone => Metrics::default(),
        };
        self.with_those_of_bytes(metrics, (self.icrc.metrics(), self.spray.metrics()))
    }

    /// All metrics; the collectors are freed.
    #[must_use]
    pub fn finish(&mut self) -> Metrics {
        self.hand_over();
        let metrics = match std::mem::replace(&mut self.runner, Runner::Gone) {
            Runner::Inline(collector) => collector.finish(),
            Runner::Thread { messages, .. } => ask(&messages, Message::Finish),
            Runner::Gone => Metrics::default(),
        };
        let icrc = std::mem::replace(&mut self.icrc, icrc::Collector::new(1));
        let of_bytes = (icrc.finish(), std::mem::take(&mut self.spray).metrics());
        memory::trim();
        self.with_those_of_bytes(metrics, of_bytes)
    }

    fn with_those_of_bytes(
        &self,
        mut metrics: Metrics,
        (mut icrc, spray): (icrc::Icrc, spray::BySlot),
    ) -> Metrics {
        if let Some(timeline) = &mut metrics.timeline {
            icrc.add_to(Arc::make_mut(timeline));
        }
        metrics.icrc = Some(icrc);
        metrics.spray = Some(spray);
        metrics.control = Some(self.control.metrics());
        if let Some(traffic) = &mut metrics.traffic {
            // This is the only reference, so nothing is copied.
            Arc::make_mut(traffic).frames_until(&self.silences.last_ns());
        }
        metrics
    }

    /// Passes the batch to the collectors.
    #[inline(never)]
    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.batches = self.batches.saturating_add(1);
        if self.batches == LONG {
            self.start_thread();
        }
        match &mut self.runner {
            Runner::Inline(collector) => self.batch.collect(collector),
            Runner::Thread { messages, used } => {
                let next = if self.batches < LONG + DEPTH { Some(Batch::new()) } else { used.recv().ok() };
                let sent = next.is_some_and(|next| {
                    let full = std::mem::replace(&mut self.batch, next);
                    messages.send(Message::Packets(full)).is_ok()
                });
                if !sent {
                    self.batch.clear();
                    self.runner = Runner::Gone;
                }
            }
            Runner::Gone => self.batch.clear(),
        }
    }

    /// Moves the collectors to a separate thread, if there is a second CPU and a thread can be started.
    #[cold]
    fn start_thread(&mut self) {
        let (messages, inbox) = sync_channel(DEPTH as usize);
        let (used_in, used) = channel();
        let runner = std::mem::replace(&mut self.runner, Runner::Thread { messages, used });
        let Runner::Inline(collector) = runner else {
            self.runner = runner;
            return;
        };
        let started =
            background::start("metrics", collector, move |collector| work(collector, &inbox, &used_in));
        if let Err(collector) = started {
            self.runner = Runner::Inline(collector);
        }
    }
}

/// Response of the metrics thread; empty if it ended unexpectedly.
fn ask(messages: &SyncSender<Message>, question: fn(Sender<Metrics>) -> Message) -> Metrics {
    let (reply, replied) = channel();
    let sent = messages.send(question(reply));
    sent.ok().and_then(|()| replied.recv().ok()).unwrap_or_default()
}

/// The metrics thread: runs until all senders are dropped, or until the last report.
fn work(mut collector: Box<Collector>, messages: &Receiver<Message>, used: &Sender<Batch>) {
    for message in messages {
        match message {
            Message::Packets(mut batch) => {
                batch.collect(&mut collector);
                // The counting thread may have ended.
                let _ = used.send(batch);
            }
            Message::Retired(slots) => slots.into_iter().for_each(|slot| collector.retired(slot)),
            Message::Report(to) => {
                let _ = to.send(collector.metrics());
            }
            Message::Finish(to) => {
                let _ = to.send(collector.finish());
                return;
            }
        }
    }
}
