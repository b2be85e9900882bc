//! The demonstration's traffic: two training jobs as seen by one host with two uplinks.
//!
//! A step is a few bursts of traffic (an AllReduce along several rings: RDMA WRITEs with acknowledgements and small
//! clear-to-send WRITEs in the other direction, on all connections at once), then silence while GPUs compute. Episodes
//! follow one another in a cycle; each shows one problem. The seed determines everything: no clock, no I/O.

mod ambient;
mod fabric;
mod step;
mod truth;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

pub use fabric::Uplink;
pub use truth::{FlowTruth, Truth, TruthKey};

use super::craft::{self, Operation, Packet};
use crate::sample::Direction;
use crate::util::time::NS_PER_S;
use crate::util::time::nanos;
use fabric::Connection;
use step::Planner;
use truth::SequencePosition;

/// Path MTU of all connections, in bytes.
pub const PATH_MTU: u16 = 2048;
/// MTU of the links: fits [`PATH_MTU`] with all headers, and is small enough for any XDP program.
pub const LINK_MTU: u32 = 2200;

/// A part of the cycle with one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Episode {
    /// No problem.
    Healthy,
    /// A rising share of CE-marked packets arrives at the first uplink; receivers send CNPs, and senders reduce their
    /// rate.
    Congestion,
    /// Packets are lost upstream and downstream of this host's ports: sequence-error NAKs and go-back-N
    /// retransmissions.
    Loss,
    /// One peer is not ready to receive: RNR NAKs, and retransmissions after the RNR timer.
    SlowReceiver,
    /// A second job with few source ports, most of which hash to the first uplink.
    BadHashing,
}

impl Episode {
    /// All episodes, in the order of the cycle.
    pub const ALL: [Self; 5] =
        [Self::Healthy, Self::Congestion, Self::Loss, Self::SlowReceiver, Self::BadHashing];

    /// A title for the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Healthy => "healthy training steps",
            Self::Congestion => "congestion on rail0: CE marks and CNPs",
            Self::Loss => "packet loss: gaps, NAKs and retransmissions",
            Self::SlowReceiver => "slow receiver: RNR NAKs",
            Self::BadHashing => "bad hashing: most of a second job on rail0",
        }
    }
}

/// A frame, and when and where it crosses a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Nanoseconds since the start.
    pub at_ns: u64,
    /// Uplink that the frame passes.
    pub uplink: Uplink,
    /// The direction, as seen from the observed host.
    pub direction: Direction,
    /// The bytes from the Ethernet header on, without FCS.
    pub frame: Vec<u8>,
}

/// Length of a cycle for people who watch: eight steps of two seconds per episode. A finding counts as active for ten
/// seconds after its signal, so that the last seconds of an episode show its own alone.
pub const WATCHED: Duration = Duration::from_secs(80);
/// Length of a cycle for a run that only prints its result.
pub const BRIEF: Duration = Duration::from_secs(12);
/// The shortest cycle: below this, episodes would be shorter than their own steps.
const MIN_CYCLE_NS: u64 = 5_000_000_000;
/// The intended time from the start of one step to that of the next.
const STEP_NS: u64 = NS_PER_S;
/// Minimum steps of an episode: enough for periodic steps to be detected.
const MIN_STEPS: u64 = 8;

/// The schedule: an endless iterator in the order of time.
#[derive(Debug)]
pub struct Scenario {
    clock: Clock,
    connections: Vec<Connection>,
    planner: Planner,
    next_step: u64,
    waiting: BinaryHeap<Reverse<Plan>>,
    /// Packets sent of each connection, received and sent by the observed host: adapters count the IPv4
    /// identification up, so that a retransmission differs from a packet that the network delivers twice.
    sent: Vec<[u16; 2]>,
    truth: Truth,
}

/// The division of time into steps and episodes.
#[derive(Clone, Copy, Debug)]
struct Clock {
    step_ns: u64,
    steps_per_episode: u64,
}

impl Clock {
    fn new(cycle: Duration) -> Self {
        let cycle_ns = nanos(cycle).max(MIN_CYCLE_NS);
        let episode_ns = cycle_ns / Episode::ALL.len() as u64;
        let steps_per_episode = ((episode_ns + STEP_NS / 2) / STEP_NS).max(MIN_STEPS);
        Self { step_ns: episode_ns / steps_per_episode, steps_per_episode }
    }

    /// The episode of a step, and its progress in thousandths: 0 in its first step.
    fn episode(self, step: u64) -> (Episode, u32) {
        let episodes = Episode::ALL.len() as u64;
        let index = (step / self.steps_per_episode) % episodes;
        let progress = step % self.steps_per_episode * 1_000 / self.steps_per_episode;
        (
            Episode::ALL[usize::try_from(index).unwrap_or_default()],
            u32::try_from(progress).unwrap_or_default(),
        )
    }
}

/// A planned frame, kept small until it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    at_ns: u64,
    /// Keeps frames of the same time in the order in which they were planned.
    number: u64,
    content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Roce(Roce),
    Other(Uplink, Direction, ambient::FrameKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Roce {
    connection: usize,
    direction: Direction,
    operation: Operation,
    psn: u32,
    tos: u8,
    ack_req: bool,
    payload: u16,
    position: SequencePosition,
}

impl Ord for Plan {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

impl PartialOrd for Plan {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Scenario {
    /// The traffic of `seed`, with a cycle of this length (at least five seconds).
    pub fn new(seed: u64, cycle: Duration) -> Self {
        let connections = fabric::connections();
        Self {
            clock: Clock::new(cycle),
            planner: Planner::new(seed, connections.len()),
            sent: vec![[0; 2]; connections.len()],
            connections,
            next_step: 0,
            waiting: BinaryHeap::new(),
            truth: Truth::default(),
        }
    }

    /// The episode at a time, in nanoseconds since the start.
    pub fn episode_at(&self, at_ns: u64) -> Episode {
        self.clock.episode(at_ns / self.clock.step_ns).0
    }

    /// The length of an episode.
    pub fn episode_length(&self) -> Duration {
        Duration::from_nanos(self.clock.step_ns.saturating_mul(self.clock.steps_per_episode))
    }

    /// The length of a cycle.
    pub fn round(&self) -> Duration {
        let steps = self.clock.steps_per_episode * Episode::ALL.len() as u64;
        Duration::from_nanos(self.clock.step_ns.saturating_mul(steps))
    }

    /// The ground truth of the frames handed out so far.
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// The time of the next frame, in nanoseconds since the start.
    pub fn next_at(&mut self) -> Option<u64> {
        self.plan_ahead();
        self.waiting.peek().map(|Reverse(plan)| plan.at_ns)
    }

    /// Makes sure that the earliest waiting frame is the next one of all.
    fn plan_ahead(&mut self) {
        loop {
            let starts = self.next_step.saturating_mul(self.clock.step_ns);
            if self.waiting.peek().is_some_and(|Reverse(plan)| plan.at_ns < starts) {
                return;
            }
            let (episode, progress) = self.clock.episode(self.next_step);
            let step =
                step::Step { number: self.next_step, starts, length: self.clock.step_ns, episode, progress };
            self.planner.plan(&step, &self.connections, &mut self.waiting);
            self.next_step += 1;
        }
    }

    fn build(&mut self, at_ns: u64, content: Content) -> Scheduled {
        match content {
            Content::Other(uplink, direction, kind) => {
                let frame = ambient::frame(uplink, direction, kind);
                self.truth.other(frame.len());
                Scheduled { at_ns, uplink, direction, frame }
            }
            Content::Roce(roce) => {
                let connection = &self.connections[roce.connection];
                let Roce { direction, operation, tos, payload, .. } = roce;
                let uplink = connection.uplink;
                let mut route = *connection.route(direction);
                if operation == Operation::Cnp {
                    // Adapters do not send CNPs from the connection's source port.
                    route.src_port = 0;
                }
                let dest_qp = connection.dest_qp(direction);
                let (src, dst) = fabric::ends(&route);
                let key = TruthKey { uplink, direction, src, dst, dest_qp };
                self.truth.roce(key, operation, tos, payload, roce.position);
                let sent = &mut self.sent[roce.connection][usize::from(direction == Direction::Egress)];
                *sent = sent.wrapping_add(1);
                let frame = craft::roce(&Packet {
                    route: &route,
                    tos,
                    identification: *sent,
                    dest_qp,
                    psn: roce.psn,
                    ack_req: roce.ack_req,
                    operation,
                    payload: &PATTERN[..usize::from(payload.min(PATH_MTU))],
                });
                Scheduled { at_ns, uplink, direction, frame }
            }
        }
    }
}

/// Payload of all data; no protocol analyzer takes it for a protocol.
static PATTERN: [u8; PATH_MTU as usize] = {
    let mut bytes = [0xA5; PATH_MTU as usize];
    let mut i = 1;
    while i < bytes.len() {
        let before: u8 = bytes[i - 1];
        bytes[i] = before.wrapping_mul(29).wrapping_add(7);
        i += 1;
    }
    bytes
};

impl Iterator for Scenario {
    type Item = Scheduled;

    fn next(&mut self) -> Option<Scheduled> {
        self.plan_ahead();
        let Reverse(plan) = self.waiting.pop()?;
        Some(self.build(plan.at_ns, plan.content))
    }
}

#[cfg(test)]
mod tests;
