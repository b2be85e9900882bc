//! The discrete-event simulation: time in integer nanoseconds, a queue of events, and the simulated state.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::channel::Channel;
use super::facts::Facts;
use super::frame::Addr;
use super::job::Program;
use super::packet::Packet;
use super::qp::Qp;
use super::switch::Switch;
use super::tap::Tap;
use super::vary::Vary;
use rocescope_common::random::Random;

/// An event at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A channel has put the last bit of a packet on the wire.
    Sent(usize, Packet),
    /// A packet reaches the other end of a channel.
    Arrive(usize, Packet),
    /// A channel may have a packet to send: a rate limit or a pause has ended.
    Wake(usize),
    /// The transport timer of a queue pair.
    Timer(usize),
    /// A responder's delayed ACK.
    Ack(usize),
    /// A receive buffer is posted.
    Credit(usize),
    /// An event of a job.
    Program(usize, u64),
    /// Sends a frame from a host's control queue.
    Emit(Box<Packet>),
    /// Freezes a queue pair: the process stops, and neither sends nor answers.
    Freeze(usize),
}

/// Notification of a queue pair to its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The job starts, or an event that it scheduled is due.
    Timer(u64),
    /// The requester's message is complete.
    Done { qp: usize, tag: u64 },
    /// A message reached the receiver.
    Delivered { tag: u64 },
}

/// A host: its address, the channels of its NIC, and its control queue.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) addr: Addr,
    pub(crate) uplinks: Vec<usize>,
    pub(crate) qps: Vec<usize>,
    /// Position of the round robin, and packets that the current queue pair may still send.
    pub(crate) turn: usize,
    pub(crate) left: u32,
    /// Maximum consecutive packets of one queue pair.
    pub(crate) quantum: u32,
    pub(crate) ident: u16,
    /// IPv4 identifications are incremented; otherwise they are 0.
    pub(crate) counts_ident: bool,
    /// Time from a packet's arrival to its answer.
    pub(crate) reaction_ns: u64,
}

/// The simulated state.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) end: u64,
    /// Snap length of the taps.
    pub(crate) snap: u32,
    pub(crate) vary: Vary,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    sequence: u64,
    pub(crate) rng: Random,
    pub(crate) hosts: Vec<Host>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) qps: Vec<Qp>,
    pub(crate) taps: Vec<Tap>,
    pub(crate) jobs: Vec<Option<Box<dyn Program>>>,
    pub(crate) facts: Facts,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: 0,
            end: u64::MAX,
            snap: 128,
            vary: Vary::default(),
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            sequence: 0,
            rng: Random::new(seed),
            hosts: Vec::new(),
            switches: Vec::new(),
            channels: Vec::new(),
            qps: Vec::new(),
            taps: Vec::new(),
            jobs: Vec::new(),
            facts: Facts::default(),
        }
    }

    /// Schedules an event. Events at the same time occur in the order of scheduling.
    pub(crate) fn at(&mut self, ns: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((ns.max(self.now), self.sequence)));
        self.events.insert(self.sequence, event);
    }

    /// Starts a job.
    pub(crate) fn start(&mut self, job: impl Program + 'static, ns: u64) -> usize {
        self.jobs.push(Some(Box::new(job)));
        let index = self.jobs.len() - 1;
        self.at(ns, Event::Program(index, 0));
        index
    }

    /// Runs until no event is left, or until `end`. A scenario that says nothing of the outcome leaves that to the
    /// laboratory.
    pub(crate) fn run(&mut self) {
        while let Some(Reverse((ns, sequence))) = self.queue.pop() {
            if ns > self.end {
                break;
            }
            self.now = ns;
            if let Some(event) = self.events.remove(&sequence) {
                self.happen(event);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Sent(channel, packet) => self.sent(channel, packet),
            Event::Arrive(channel, packet) => self.arrive(channel, packet),
            Event::Wake(channel) => {
                self.channels[channel].wake_at = u64::MAX;
                self.kick(channel);
            }
            Event::Timer(qp) => self.timer(qp),
            Event::Ack(qp) => self.delayed_ack(qp),
            Event::Credit(qp) => self.qps[qp].credits += 1,
            Event::Program(job, token) => self.notify(job, Notice::Timer(token)),
            Event::Emit(packet) => self.emit(*packet),
            Event::Freeze(qp) => {
                self.qps[qp].frozen = true;
                self.facts.frozen += 1;
            }
        }
    }

    /// Notifies a job.
    pub(crate) fn notify(&mut self, job: usize, notice: Notice) {
        if let Some(mut running) = self.jobs[job].take() {
            running.notice(self, job, notice);
            self.jobs[job] = Some(running);
        }
    }
}
