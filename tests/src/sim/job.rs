//! Applications that use the network: streams, request and reply, collectives with compute phases, datagrams.

use std::collections::BTreeMap;

use super::engine::{Event, Notice, World};
use super::packet::{Packet, op};
use super::qp::Verb;

/// An application. It only reacts to notices.
pub(crate) trait Program {
    fn notice(&mut self, world: &mut World, me: usize, notice: Notice);
}

/// Queue pairs that send messages, with `depth` messages in flight.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) qps: Vec<usize>,
    /// Operations and lengths, used in rotation.
    pub(crate) messages: Vec<(Verb, u32)>,
    /// Messages per queue pair.
    pub(crate) count: u64,
    pub(crate) depth: u64,
    /// Time from a completion to the next message, and its variation.
    pub(crate) gap_ns: u64,
    pub(crate) jitter_ns: u64,
    /// After this number of messages of a queue pair, a longer pause.
    pub(crate) rest: (u64, u64),
    posted: BTreeMap<usize, u64>,
}

/// Queue pairs that send one message each in rotation, after the previous one is complete.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    pub(crate) qps: Vec<usize>,
    pub(crate) message: (Verb, u32),
    /// Total number of messages.
    pub(crate) count: u64,
    /// Time from a completion to the next message.
    pub(crate) gap_ns: u64,
    pub(crate) posted: u64,
}

impl Program for Turns {
    fn notice(&mut self, world: &mut World, me: usize, notice: Notice) {
        match notice {
            Notice::Done { .. } => world.at(world.now + self.gap_ns, Event::Program(me, 0)),
            Notice::Timer(_) if self.posted < self.count => {
                let qp = self.qps[(self.posted % self.qps.len() as u64) as usize];
                self.posted += 1;
                world.post(qp, self.message.0, self.message.1, me, 0);
            }
            _ => {}
        }
    }
}

impl Stream {
    pub(crate) fn new(qps: &[usize], verb: Verb, len: u32, count: u64) -> Self {
        Self {
            qps: qps.to_vec(),
            messages: vec![(verb, len)],
            count,
            depth: 4,
            gap_ns: 0,
            jitter_ns: 0,
            rest: (u64::MAX, 0),
            posted: BTreeMap::new(),
        }
    }

    pub(crate) fn depth(self, depth: u64) -> Self {
        Self { depth, ..self }
    }

    pub(crate) fn gap(self, gap_ns: u64, jitter_ns: u64) -> Self {
        Self { gap_ns, jitter_ns, ..self }
    }

    pub(crate) fn rest(self, every: u64, ns: u64) -> Self {
        Self { rest: (every, ns), ..self }
    }

    pub(crate) fn mix(self, messages: &[(Verb, u32)]) -> Self {
        Self { messages: messages.to_vec(), ..self }
    }

    fn post(&mut self, world: &mut World, me: usize, qp: usize) {
        let posted = self.posted.entry(qp).or_default();
        if *posted < self.count {
            let (verb, len) = self.messages[(*posted % self.messages.len() as u64) as usize];
            *posted += 1;
            world.post(qp, verb, len, me, 0);
        }
    }
}

impl Program for Stream {
    fn notice(&mut self, world: &mut World, me: usize, notice: Notice) {
        match notice {
            Notice::Timer(0) => {
                for qp in self.qps.clone() {
                    for _ in 0..self.depth {
                        self.post(world, me, qp);
                    }
                }
            }
            Notice::Timer(token) => self.post(world, me, token as usize - 1),
            Notice::Done { qp, .. } => {
                let posted = self.posted.get(&qp).copied().unwrap_or(0);
                let rest = if posted % self.rest.0 == 0 { self.rest.1 } else { 0 };
                let wait = self.gap_ns + rest + world.rng.below(self.jitter_ns + 1);
                if wait == 0 {
                    self.post(world, me, qp);
                } else {
                    world.at(world.now + wait, Event::Program(me, qp as u64 + 1));
                }
            }
            Notice::Delivered { .. } => {}
        }
    }
}

/// A client that sends a request, and a server that replies to it.
#[derive(Clone, Debug)]
pub(crate) struct PingPong {
    pub(crate) client: usize,
    pub(crate) server: usize,
    pub(crate) bytes: (u32, u32),
    pub(crate) count: u64,
    pub(crate) gap_ns: u64,
}

impl Program for PingPong {
    fn notice(&mut self, world: &mut World, me: usize, notice: Notice) {
        match notice {
            Notice::Timer(_) if self.count > 0 => {
                self.count -= 1;
                world.post(self.client, Verb::Send, self.bytes.0, me, 1);
            }
            Notice::Delivered { tag: 1 } => world.post(self.server, Verb::Send, self.bytes.1, me, 2),
            Notice::Delivered { .. } => world.at(world.now + self.gap_ns, Event::Program(me, 0)),
            _ => {}
        }
    }
}

/// A member's part in one round of a collective: it sends a chunk through each of these queue pairs, and continues
/// after as many chunks have arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) sends: Vec<usize>,
    pub(crate) wait: u64,
}

/// Compute time of members before a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compute {
    pub(crate) ns: u64,
    pub(crate) jitter_ns: u64,
    /// A member with longer compute time: index, additional time, steps.
    pub(crate) late: Option<(usize, u64, std::ops::Range<u64>)>,
    /// Increase of everyone's compute time per step.
    pub(crate) growth_ns: u64,
    /// Additional compute time of all members, in these steps.
    pub(crate) longer: Option<(u64, std::ops::Range<u64>)>,
    /// A member that stops permanently, in this step and round.
    pub(crate) hang: Option<(usize, u64, usize)>,
    /// A pause of all members before a step: step and duration.
    pub(crate) pause: Option<(u64, u64)>,
}

/// A job in steps: all members compute, then exchange data in rounds.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    /// Rounds of each member.
    pub(crate) rounds: Vec<Vec<Round>>,
    pub(crate) verb: Verb,
    /// A chunk: number of messages, and bytes per message.
    pub(crate) chunk: (u64, u32),
    pub(crate) steps: u64,
    pub(crate) compute: Compute,
    at: Vec<(u64, usize)>,
    arrived: Vec<u64>,
    needed: Vec<u64>,
    /// Messages that arrived, of all members.
    delivered: u64,
}

impl Collective {
    pub(crate) fn new(rounds: Vec<Vec<Round>>, chunk: (u64, u32), steps: u64, compute: Compute) -> Self {
        let members = rounds.len();
        Self {
            rounds,
            verb: Verb::WriteImm,
            chunk,
            steps,
            compute,
            at: vec![(0, 0); members],
            arrived: vec![0; members],
            needed: vec![0; members],
            delivered: 0,
        }
    }

    /// Messages of a step, of all members.
    fn messages(&self) -> u64 {
        self.rounds.iter().flatten().map(|round| round.wait).sum::<u64>() * self.chunk.0
    }

    /// Ring all-reduce over queue pairs `next[i]`, each from member i to i + 1.
    pub(crate) fn ring(next: &[usize], chunk: (u64, u32), steps: u64, compute: Compute) -> Self {
        let rounds = 2 * (next.len() - 1);
        let of = |qp: &usize| vec![Round { sends: vec![*qp], wait: 1 }; rounds];
        Self::new(next.iter().map(of).collect(), chunk, steps, compute)
    }

    /// All-to-all: `out[i]` are the queue pairs of member i to all others.
    pub(crate) fn all_to_all(out: &[Vec<usize>], chunk: (u64, u32), steps: u64, compute: Compute) -> Self {
        let wait = out.len() as u64 - 1;
        let of = |sends: &Vec<usize>| vec![Round { sends: sends.clone(), wait }];
        Self::new(out.iter().map(of).collect(), chunk, steps, compute)
    }

    /// Parameter server: member 0 collects from the others by `up`, then sends to them by `down`.
    pub(crate) fn server(
        up: &[usize],
        down: &[usize],
        chunk: (u64, u32),
        steps: u64,
        compute: Compute,
    ) -> Self {
        let collect = Round { sends: Vec::new(), wait: up.len() as u64 };
        let mut rounds = vec![vec![collect, Round { sends: down.to_vec(), wait: 0 }]];
        rounds.extend(up.iter().map(|qp| vec![Round { sends: vec![*qp], wait: 1 }]));
        Self::new(rounds, chunk, steps, compute)
    }

    fn compute(&mut self, world: &mut World, me: usize, member: usize) {
        let step = self.at[member].0;
        world.facts.steps += 1;
        if self.compute.growth_ns * step > 0 {
            world.facts.grow(world.now);
        }
        let mut ns =
            self.compute.ns + self.compute.growth_ns * step + world.rng.below(self.compute.jitter_ns + 1);
        if let Some((late, by, steps)) = &self.compute.late
            && *late == member
            && steps.contains(&step)
        {
            ns += by;
            world.facts.late += 1;
        }
        if let Some((by, steps)) = &self.compute.longer
            && steps.contains(&step)
        {
            ns += by;
            world.facts.grow(world.now);
        }
        if let Some((paused, by)) = self.compute.pause
            && paused == step
        {
            ns += by;
            world.facts.rested += 1;
        }
        world.at(world.now + ns, Event::Program(me, member as u64 + 1));
    }

    fn send(&mut self, world: &mut World, me: usize, member: usize) {
        let (step, round) = self.at[member];
        if self.compute.hang == Some((member, step, round)) {
            self.needed[member] = u64::MAX;
            world.facts.hung += 1;
            return;
        }
        let Round { sends, wait } = self.rounds[member][round].clone();
        self.needed[member] += wait * self.chunk.0;
        if !sends.is_empty() {
            world.facts.begin_data(step, world.now);
        }
        for qp in sends {
            // Member i runs on host i.
            let to = world.qps[world.qps[qp].peer].host % self.rounds.len();
            for _ in 0..self.chunk.0 {
                world.post(qp, self.verb, self.chunk.1, me, to as u64);
            }
        }
        self.advance(world, me, member);
    }

    fn advance(&mut self, world: &mut World, me: usize, member: usize) {
        if self.arrived[member] < self.needed[member] {
            return;
        }
        let (step, round) = self.at[member];
        if round + 1 < self.rounds[member].len() {
            self.at[member] = (step, round + 1);
            self.send(world, me, member);
        } else if step + 1 < self.steps {
            self.at[member] = (step + 1, 0);
            self.compute(world, me, member);
            // It does not continue before it has finished computing.
            self.at[member].1 = usize::MAX;
        } else {
            self.at[member].1 = usize::MAX;
        }
    }
}

impl Program for Collective {
    fn notice(&mut self, world: &mut World, me: usize, notice: Notice) {
        match notice {
            Notice::Timer(0) => {
                for member in 0..self.rounds.len() {
                    self.at[member].1 = usize::MAX;
                    self.compute(world, me, member);
                }
            }
            Notice::Timer(token) => {
                let member = token as usize - 1;
                self.at[member].1 = 0;
                self.send(world, me, member);
            }
            Notice::Delivered { tag } => {
                let member = tag as usize;
                self.arrived[member] += 1;
                world.facts.end_data(self.delivered / self.messages().max(1), world.now);
                self.delivered += 1;
                if self.at[member].1 != usize::MAX {
                    self.advance(world, me, member);
                }
            }
            Notice::Done { .. } => {}
        }
    }
}

/// Datagrams from one host to another, or frames that are not RoCE.
#[derive(Clone, Debug)]
pub(crate) struct Datagrams {
    pub(crate) packet: Packet,
    pub(crate) count: u64,
    pub(crate) gap_ns: u64,
}

impl Datagrams {
    /// UD SENDs.
    pub(crate) fn ud(src: usize, dst: usize, bytes: u32, count: u64, gap_ns: u64) -> Self {
        let mut packet = Packet::roce(src, dst, op::UD_SEND_ONLY, 0x200 + dst as u32, 77);
        (packet.deth, packet.payload) = ((0x1111_1111, 0x200 + src as u32), bytes);
        (packet.sport, packet.tos) = (51_000 + src as u16, 26 << 2 | 2);
        Self { packet, count, gap_ns }
    }
}

impl Program for Datagrams {
    fn notice(&mut self, world: &mut World, me: usize, _: Notice) {
        if self.count > 0 {
            self.count -= 1;
            world.emit(self.packet.clone());
            self.packet.psn += 1;
            let wait = self.gap_ns / 2 + world.rng.below(self.gap_ns + 1);
            world.at(world.now + wait, Event::Program(me, 1));
        }
    }
}
