//! Made-up traffic for tests: jobs and what is none, as flowlets of flows, the way a port of a host or of a switch sees
//! them.

use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::account::flowlet::Flowlet;
use rocescope_common::random::Random;
use rocescope_common::wire::Frame;

use super::tests::{MS, host};
use crate::metrics::traffic::flowlets::{FlowletState, Flowlets, Record};
use crate::metrics::traffic::hosts::{BinPackets, Pairs};
use crate::metrics::traffic::{LinkTraffic, Traffic};

/// Random numbers of a job.
pub(super) struct Dice(Random);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// From 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Around 1, by up to so much more or less.
    pub(super) fn jitter(&mut self, by: f64) -> f64 {
        1.0 + by * (2.0 * self.unit() - 1.0)
    }

    /// Of the exponential distribution with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Random number below `count`.
    pub(super) fn below(&mut self, count: u32) -> u32 {
        self.0.below_u32(count)
    }
}

/// Data of one flow without a silence: source, destination, queue pair, start, end, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) qp: u32,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) bytes: u64,
    /// True if every packet was sent before.
    pub(super) again: bool,
}

/// Packets that were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire(pub(super) Vec<Sent>);

impl Wire {
    /// Sends; gives the end.
    pub(super) fn send(
        &mut self,
        (src, dst, qp): (u32, u32, u32),
        start: u64,
        length: u64,
        bytes: u64,
    ) -> u64 {
        let end_ns = start + length;
        self.0.push(Sent { src, dst, qp, start_ns: start, end_ns, bytes, again: false });
        end_ns
    }

    /// Traffic that passes the port of a host, or a switch (0).
    pub(super) fn at(&self, seen_by: u32) -> Traffic {
        self.links(
            |sent| if seen_by == 0 || [sent.src, sent.dst].contains(&seen_by) { vec![0] } else { vec![] },
        )
    }

    /// The same, with what a host sends and what it receives on links of their own, as in a live run.
    pub(super) fn live_at(&self, host: u32) -> Traffic {
        self.links(|sent| {
            if [sent.src, sent.dst].contains(&host) { vec![u16::from(sent.src == host)] } else { vec![] }
        })
    }

    /// Traffic that passes the ports of some hosts, each a link of its own.
    pub(super) fn at_all(&self, hosts: &[u32]) -> Traffic {
        self.links(|sent| {
            let at = (0u16..).zip(hosts).filter(|(_, host)| [sent.src, sent.dst].contains(host));
            at.map(|(link, _)| link).collect()
        })
    }

    /// Traffic of the links that each transfer passes.
    fn links(&self, links_of: impl Fn(&Sent) -> Vec<u16>) -> Traffic {
        let passes = |sent: &Sent| links_of(sent).into_iter().map(|link| (*sent, link)).collect::<Vec<_>>();
        let mut sent: Vec<(Sent, u16)> = self.0.iter().flat_map(passes).collect();
        sent.sort_by_key(|(sent, _)| sent.start_ns);
        let links = sent.iter().map(|(_, link)| usize::from(*link) + 1).max().unwrap_or(0);
        let mut pairs = Pairs::default();
        let mut all = Flowlets::default();
        let mut flows = std::collections::BTreeMap::<(u32, u32, u32, u16), (u32, Flowlet)>::new();
        for (one, link) in sent {
            let Sent { src, dst, qp, start_ns, end_ns, bytes, again } = one;
            let frame = Frame { src: host(src).1, dst: host(dst).1, family: 4, ..Frame::EMPTY };
            let pair = pairs.number(&FlowKey::of(&frame, link), 64);
            let seen =
                BinPackets { packets: 1, bytes, data_packets: 1, data_bytes: bytes, ..BinPackets::default() };
            pairs.packets(pair, seen);
            let more = Flowlet { start_ns, end_ns, fresh_bytes: if again { 0 } else { bytes } };
            let flow = flows.entry((src, dst, qp, link)).or_insert((pair, Flowlet::default()));
            if let Some(before) = flow.1.merge(&more) {
                all.ended.push(Record::of(&before, pair, qp));
            }
        }
        all.standing = (flows.iter())
            .map(|((_, _, qp, _), (pair, flowlet))| FlowletState {
                flowlet: Record::of(flowlet, *pair, *qp),
                ..FlowletState::default()
            })
            .collect();
        let last_ns = all.standing.iter().map(|standing| standing.flowlet.end_ns).max();
        let link = LinkTraffic { bursts: None, frame_sizes: None, last_ns, lost: Counter::default() };
        Traffic {
            bin_ns: MS,
            links: vec![link; links.max(2)],
            pairs: pairs.pairs().to_vec(),
            flowlets: all,
            ..Traffic::default()
        }
    }
}

/// Pattern of senders and receivers in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// To the next host, all around and once again, as an all-reduce does; each part needs the one before from the host
    /// before. In a large ring only some of the parts.
    Ring,
    /// Each host sends to all others.
    AllToAll,
}

/// Job that the tests simulate.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedJob {
    pub(super) shape: Shape,
    pub(super) hosts: u32,
    /// Queue pairs of each connection.
    pub(super) qps: u32,
    pub(super) steps: u64,
    /// Of a step without jitter.
    pub(super) period_ns: u64,
    /// Share of the period in which nobody sends.
    pub(super) pause: f64,
    /// By how much computing and sending vary.
    pub(super) jitter: f64,
    /// By how much computing grows from the first step to the last.
    pub(super) slower: f64,
}

impl SimulatedJob {
    pub(super) const USUAL: Self = Self {
        shape: Shape::Ring,
        hosts: 4,
        qps: 2,
        steps: 30,
        period_ns: 100 * MS,
        pause: 0.4,
        jitter: 0.1,
        slower: 0.0,
    };

    /// Runs it. `late` says by how much longer a host computes in a step, as a share of the period; `slow` how many
    /// times as long a connection takes to send.
    pub(super) fn run(&self, late: impl Fn(u64, u32) -> f64, slow: impl Fn(u64, u32, u32) -> f64) -> Wire {
        use crate::metrics::traffic::times;
        let mut dice = Dice::new(self.steps ^ self.period_ns ^ u64::from(self.hosts));
        let mut wire = Wire::default();
        let mut done = vec![1_000 * MS; self.hosts as usize];
        let parts = if self.shape == Shape::Ring { (2 * self.hosts - 2).min(14) } else { 1 };
        for step in 0..self.steps {
            let grown = 1.0 + self.slower * step as f64 / self.steps as f64;
            // All hosts that take part in a step compute about as long.
            let compute = self.pause * grown * dice.jitter(self.jitter);
            let sending = (1.0 - self.pause) * dice.jitter(self.jitter);
            let all_done = done.iter().copied().max().unwrap_or(0);
            let mut ready: Vec<u64> = (0..self.hosts)
                .map(|me| {
                    let from = if self.shape == Shape::Ring { done[me as usize] } else { all_done };
                    from + times(self.period_ns, compute * dice.jitter(0.02) + late(step, me + 1))
                })
                .collect();
            for _ in 0..parts {
                let mut sent = ready.clone();
                for me in 0..self.hosts {
                    let peers: Vec<u32> = match self.shape {
                        Shape::Ring => vec![(me + 1) % self.hosts],
                        Shape::AllToAll => (0..self.hosts).filter(|peer| *peer != me).collect(),
                    };
                    for peer in peers {
                        let pace = slow(step, me + 1, peer + 1);
                        let length = times(self.period_ns, sending / f64::from(parts) * pace);
                        for qp in 0..self.qps {
                            let flow = (me + 1, peer + 1, 100 * (me + 1) + qp);
                            let end = wire.send(flow, ready[me as usize], length, 1_000_000);
                            sent[me as usize] = sent[me as usize].max(end);
                        }
                    }
                }
                ready = (0..self.hosts as usize)
                    .map(|me| {
                        let before = (me + self.hosts as usize - 1) % self.hosts as usize;
                        sent[me].max(sent[before]) + 20_000
                    })
                    .collect();
            }
            done = ready;
        }
        wire
    }

    pub(super) fn healthy(&self) -> Wire {
        self.run(|_, _| 0.0, |_, _, _| 1.0)
    }
}
