//! Figures made beside the counting.
//!
//! ```text
//! counting:  parse, count ─► a batch of packets ─┐ full, in order, at most DEPTH
//!        ▲                                       ▼
//!        └──────────── used batches ───── figures: collectors, packet by packet
//! ```
//!
//! Packets are gathered into batches, which a long replay hands to a second thread. Collectors get the same
//! packets in the same order with and without it, so nothing of what they find depends on whether
//! there is one. What needs a packet's bytes is done before they are gone.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rocescope_common::wire::Frame;

use super::packet::{Aside, Packet};
use super::{Collector, Metrics, Options, control, icrc};
use crate::source::flows::table::Observed;
use crate::source::replay::links::TapLinks;
use crate::util::background;

/// Packets handed over at once: to wake up the other thread costs as much as some hundred of them, and all batches together
/// are to stay in a cache.
const BATCH: usize = 4096;
/// Batches that may wait.
const DEPTH: u32 = 4;
/// Batches after which a replay is called long.
const LONG: u32 = 4;

/// Packets, and what is wanted of few of them.
#[derive(Debug)]
struct Batch {
    packets: Vec<Packet>,
    /// How many of them there are.
    len: usize,
    /// Of those that [want it](Packet::wants_aside), in their order.
    asides: Vec<Aside>,
}

impl Batch {
    fn new() -> Self {
        Self { packets: vec![Packet::EMPTY; BATCH], len: 0, asides: Vec::new() }
    }

    /// Shows all packets to the collectors, and forgets them.
    fn collect(&mut self, collector: &mut Collector) {
        let mut asides = self.asides.iter();
        for packet in self.packets.get(..self.len).unwrap_or_default() {
            let aside = if packet.wants_aside() { asides.next() } else { None };
            collector.packet(packet, aside);
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.len = 0;
        self.asides.clear();
    }
}

/// What the thread is to do, in this order.
enum Job {
    Packets(Batch),
    Retired(Vec<u32>),
    Tell(Sender<Metrics>),
}

/// Who shows packets to the collectors.
enum Worker {
    Here(Box<Collector>),
    Thread {
        jobs: SyncSender<Job>,
        used: Receiver<Batch>,
    },
    /// The thread is gone: nothing is known.
    Nobody,
}

/// Collects every figure of a replay.
pub struct Beside {
    batch: Batch,
    worker: Worker,
    batches: u32,
    icrc: icrc::Collector,
    control: control::Collector,
    /// By link: its last frame of any kind, Unix time.
    last_ns: Vec<u64>,
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("batches", &self.batches).finish_non_exhaustive()
    }
}

impl Beside {
    /// Nothing seen yet of what `taps` taps will show.
    #[must_use]
    pub fn new(options: &Options, taps: usize) -> Self {
        let mut collector = Collector::new(options);
        collector.expect_taps(taps);
        Self {
            batch: Batch::new(),
            worker: Worker::Here(Box::new(collector)),
            batches: 0,
            icrc: icrc::Collector::default(),
            control: control::Collector::new(options.link_mbps),
            last_ns: Vec::new(),
        }
    }

    /// A frame of any kind passed a link.
    #[inline]
    pub fn frame(&mut self, link: u16, time_ns: u64) {
        match self.last_ns.get_mut(usize::from(link)) {
            Some(last) => *last = time_ns.max(*last),
            None => self.add_link(link, time_ns),
        }
    }

    /// A frame between link partners passed: MAC control or LLDP.
    pub fn control(&mut self, link: u16, time_ns: u64, data: &[u8]) {
        self.control.frame(link, time_ns, data);
    }

    #[cold]
    fn add_link(&mut self, link: u16, time_ns: u64) {
        self.last_ns.resize(usize::from(link) + 1, 0);
        if let Some(last) = self.last_ns.last_mut() {
            *last = time_ns;
        }
    }

    /// Takes in a packet: its headers and its bytes, when and on which link of `tap` it passed, and what came of counting
    /// it.
    #[inline]
    pub fn packet(
        &mut self,
        (frame, data): (&Frame, &[u8]),
        (time_ns, link): (u64, u16),
        observed: &Observed<'_>,
        tap: &TapLinks,
    ) {
        let at = self.batch.len % BATCH;
        // Made in its place: to copy it as a whole, the processor waits for its parts.
        let packet = &mut self.batch.packets[at];
        *packet = Packet::new(frame, link, time_ns, observed, data);
        self.icrc.packet(packet, frame, data);
        self.control.packet(packet, frame, observed.stats.packets, data);
        if packet.wants_aside() {
            self.batch.asides.push(Aside::of(tap, link, frame, data));
        }
        self.batch.len += 1;
        if self.batch.len == BATCH {
            self.hand_over();
        }
    }

    /// The flows of these slots were retired; the slots will be used again.
    pub fn retired(&mut self, slots: Vec<u32>) {
        for slot in &slots {
            self.icrc.retired(*slot);
            self.control.retired(*slot);
        }
        self.hand_over();
        match &mut self.worker {
            Worker::Here(collector) => slots.into_iter().for_each(|slot| collector.retired(slot)),
            Worker::Thread { jobs, .. } => {
                if jobs.send(Job::Retired(slots)).is_err() {
                    self.worker = Worker::Nobody;
                }
            }
            Worker::Nobody => {}
        }
    }

    /// What is known so far.
    #[must_use]
    pub fn metrics(&mut self) -> Metrics {
        self.hand_over();
        let mut metrics = match &self.worker {
            Worker::Here(collector) => collector.metrics(),
            Worker::Thread { jobs, .. } => {
                let (tell, told) = channel();
                let asked = jobs.send(Job::Tell(tell));
                asked.ok().and_then(|()| told.recv().ok()).unwrap_or_default()
            }
            Worker::Nobody => Metrics::default(),
        };
        metrics.icrc = Some(self.icrc.metrics());
        metrics.control = Some(self.control.metrics());
        if let Some(traffic) = &mut metrics.traffic {
            // Nobody else has it yet: nothing is copied.
            Arc::make_mut(traffic).frames_until(&self.last_ns);
        }
        metrics
    }

    /// Gives the batch to the collectors.
    #[inline(never)]
    fn hand_over(&mut self) {
        if self.batch.len == 0 {
            return;
        }
        self.batches = self.batches.saturating_add(1);
        if self.batches == LONG {
            self.start();
        }
        match &mut self.worker {
            Worker::Here(collector) => self.batch.collect(collector),
            Worker::Thread { jobs, used } => {
                let next = if self.batches < LONG + DEPTH { Some(Batch::new()) } else { used.recv().ok() };
                let Some(next) = next else {
                    self.worker = Worker::Nobody;
                    return;
                };
                let full = std::mem::replace(&mut self.batch, next);
                if jobs.send(Job::Packets(full)).is_err() {
                    self.worker = Worker::Nobody;
                }
            }
            Worker::Nobody => self.batch.forget(),
        }
    }

    /// Moves the collectors into a thread of their own, where there is a second processor and a
    /// thread to be had.
    #[cold]
    fn start(&mut self) {
        let (jobs, to_do) = sync_channel(DEPTH as usize);
        let (used_in, used) = channel();
        let here = std::mem::replace(&mut self.worker, Worker::Thread { jobs, used });
        let Worker::Here(collector) = here else {
            self.worker = here;
            return;
        };
        let start =
            background::start("figures", collector, move |collector| work(collector, &to_do, &used_in));
        if let Err(collector) = start {
            self.worker = Worker::Here(collector);
        }
    }
}

/// What the thread does, until nobody has anything to do for it.
fn work(mut collector: Box<Collector>, jobs: &Receiver<Job>, used: &Sender<Batch>) {
    for job in jobs {
        match job {
            Job::Packets(mut batch) => {
                batch.collect(&mut collector);
                // Whoever fills batches may be gone.
                let _ = used.send(batch);
            }
            Job::Retired(slots) => slots.into_iter().for_each(|slot| collector.retired(slot)),
            Job::Tell(to) => {
                let _ = to.send(collector.metrics());
            }
        }
    }
}
