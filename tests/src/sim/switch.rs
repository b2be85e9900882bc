//! Switches and cables: routing, queues, marking, PFC, loss, taps.

use std::collections::BTreeMap;

use super::channel::{Effect, Node, urgent};
use super::engine::{Event, World};
use super::frame::{self, Layer};
use super::packet::{Body, CE, Packet};
use rocescope_common::random::mix;

/// Selection among parallel channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// A hash over the 5-tuple with the switch's seed.
    Hash,
    /// At random, packet by packet.
    Spray,
}

/// Pause thresholds of one ingress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pfc {
    pub(crate) off: u64,
    pub(crate) on: u64,
    pub(crate) priority: u8,
}

/// A switch.
#[derive(Debug)]
pub(crate) struct Switch {
    /// Parallel channels to each host.
    pub(crate) routes: BTreeMap<usize, Vec<usize>>,
    pub(crate) spread: Spread,
    pub(crate) seed: u64,
    pub(crate) pfc: Option<Pfc>,
}

const QUANTA: u16 = u16::MAX;

impl World {
    /// Queues a packet at a channel.
    pub(crate) fn enqueue(&mut self, index: usize, mut packet: Packet) {
        let (len, now) = (self.len(&packet), self.now);
        let rng = &mut self.rng;
        let channel = &mut self.channels[index];
        if channel.queued + u64::from(len) > channel.limit {
            self.lose(&packet);
            return self.leave_switch(&packet);
        }
        if let Some(red) = channel.red
            && packet.is_roce()
            && matches!(packet.tos & CE, 1 | 2)
            && channel.queued > red.min
        {
            let share = (channel.queued - red.min) * u64::from(red.max_ppm) / (red.max - red.min).max(1);
            let ppm = if channel.queued >= red.max { 1_000_000 } else { share.min(1_000_000) as u32 };
            if rng.chance(ppm) {
                packet.tos |= CE;
                self.facts.mark(now);
            }
        }
        let before = u32::try_from(channel.queued).unwrap_or(u32::MAX - 24);
        channel.waited_ns += channel.time(before, now);
        channel.waited += 1;
        channel.queued += u64::from(len);
        if urgent(&packet) {
            channel.queue.push_front(packet);
        } else {
            channel.queue.push_back(packet);
        }
        self.kick(index);
    }

    /// Lets a channel send if it can.
    pub(crate) fn kick(&mut self, index: usize) {
        let now = self.now;
        if self.channels[index].busy {
            return;
        }
        let paused = self.channels[index].paused_until;
        let pfc_waits = self.channels[index].queue.front().is_some_and(|p| !p.is_roce());
        if paused > now && !pfc_waits {
            return self.wake(index, paused);
        }
        let packet = match self.channels[index].queue.pop_front() {
            Some(packet) => {
                let len = u64::from(self.len(&packet));
                self.channels[index].queued -= len;
                Some(packet)
            }
            None => match self.channels[index].from {
                Node::Host(host) => self.pull(host, index),
                Node::Switch(_) => None,
            },
        };
        if let Some(packet) = packet {
            let time = self.channels[index].time(self.len(&packet), now);
            let changed = self.channels[index].rates.iter().any(|(from, _)| *from <= now);
            self.facts.slowed += u64::from(changed && packet.is_roce());
            self.channels[index].busy = true;
            self.at(now + time.max(1), Event::Sent(index, packet));
        }
    }

    /// Schedules another attempt of a channel to send.
    pub(crate) fn wake(&mut self, index: usize, ns: u64) {
        if ns < self.channels[index].wake_at {
            self.channels[index].wake_at = ns;
            self.at(ns, Event::Wake(index));
        }
    }

    pub(crate) fn sent(&mut self, index: usize, packet: Packet) {
        self.channels[index].busy = false;
        self.leave_switch(&packet);
        self.left_host(index, &packet);
        self.capture(index, true, &packet);
        self.travel(index, packet);
        self.kick(index);
    }

    fn travel(&mut self, index: usize, mut packet: Packet) {
        let now = self.now;
        let mut arrival = now + self.channels[index].delay_ns;
        let mut copy = None;
        for at in 0..self.channels[index].faults.len() {
            let mut fault = self.channels[index].faults[at];
            if now < fault.from_ns || now >= fault.to_ns || !fault.only.takes(&packet) {
                continue;
            }
            match fault.effect {
                Effect::Drop { ppm } if self.rng.chance(ppm) => return self.lose(&packet),
                Effect::DropRuns { ppm, len } => {
                    if fault.left == 0 && self.rng.chance(ppm) {
                        fault.left = len;
                    }
                    if fault.left > 0 {
                        self.channels[index].faults[at].left = fault.left - 1;
                        return self.lose(&packet);
                    }
                }
                Effect::Delay { ppm, ns, jitter_ns } if self.rng.chance(ppm) => {
                    arrival += ns + self.rng.below(jitter_ns + 1);
                    self.facts.delayed += 1;
                }
                Effect::Hold { until_ns } => {
                    arrival = arrival.max(until_ns);
                    self.facts.delayed += 1;
                }
                Effect::Tos { keep, set } => self.rewrite(&mut packet, keep, set),
                Effect::Priority { to } => {
                    packet.priority = Some(to);
                    self.facts.changed += 1;
                }
                Effect::Corrupt { ppm } if self.rng.chance(ppm) => {
                    packet.corrupt = true;
                    self.facts.changed += 1;
                }
                Effect::Alter { ppm, recompute } if self.rng.chance(ppm) => {
                    packet.altered = true;
                    self.facts.changed += 1;
                    packet.corrupt |= !recompute;
                }
                Effect::Trim { ppm, payload, tos } if packet.payload > payload && self.rng.chance(ppm) => {
                    // Forwarded at once in another queue, and not a packet for its receiver.
                    (packet.payload, packet.tos, packet.corrupt) = (payload, tos, true);
                    self.facts.trimmed += 1;
                }
                Effect::Duplicate { ppm, after_ns } if self.rng.chance(ppm) => {
                    copy = Some(after_ns);
                    self.facts.copied += 1;
                }
                Effect::Mark { ppm } if matches!(packet.tos & CE, 1 | 2) && self.rng.chance(ppm) => {
                    packet.tos |= CE;
                    self.facts.mark(now);
                }
                _ => {}
            }
        }
        if let Some(after) = copy {
            self.at(arrival + after, Event::Arrive(index, packet.clone()));
        }
        self.at(arrival, Event::Arrive(index, packet));
    }

    fn rewrite(&mut self, packet: &mut Packet, keep: u8, set: u8) {
        let tos = packet.tos & keep | set;
        self.facts.changed += u64::from(tos != packet.tos);
        packet.tos = tos;
    }

    pub(crate) fn lose(&mut self, packet: &Packet) {
        if packet.is_roce() {
            self.facts.lost += 1;
            self.facts.lost_first += u64::from(!self.facts.arrived.contains(&(packet.src, packet.dst)));
            self.facts.lost_data += u64::from(packet.is_data());
            let responder = packet.to_qp.filter(|_| packet.is_request()).map(|qp| &self.qps[qp]);
            self.facts.lost_copies += u64::from(responder.is_some_and(|qp| qp.has(packet.psn)));
        }
    }

    pub(crate) fn arrive(&mut self, index: usize, packet: Packet) {
        self.capture(index, false, &packet);
        if let Body::Pfc { quanta, .. } = packet.body {
            return self.paused(index, quanta);
        }
        match self.channels[index].to {
            Node::Host(host) => {
                self.facts.arrived.insert((packet.src, packet.dst));
                self.receive(host, packet);
            }
            Node::Switch(switch) => self.forward(switch, index, packet),
        }
    }

    fn forward(&mut self, switch: usize, entry: usize, mut packet: Packet) {
        let Some(ways) = self.switches[switch].routes.get(&packet.dst) else { return };
        let choice = match self.switches[switch].spread {
            Spread::Spray => self.rng.below(ways.len() as u64),
            Spread::Hash => {
                let tuple = (packet.src as u64) << 40 | (packet.dst as u64) << 20 | u64::from(packet.sport);
                let plane = u64::from(packet.outer.unwrap_or(0));
                mix(tuple ^ mix(self.switches[switch].seed ^ plane)) % ways.len() as u64
            }
        };
        let way = ways[choice as usize];
        packet.ttl -= 1;
        packet.entry = Some(entry);
        if self.switches[switch].pfc.is_some() {
            self.channels[entry].held += u64::from(self.len(&packet));
            self.pause(entry, switch);
        }
        self.enqueue(way, packet);
    }

    /// Sends a pause through the opposite channel if too much is buffered from this one.
    fn pause(&mut self, entry: usize, switch: usize) {
        let Some(pfc) = self.switches[switch].pfc else { return };
        let now = self.now;
        let channel = &mut self.channels[entry];
        let quanta = match channel.holding {
            false if channel.held > pfc.off => QUANTA,
            true if channel.held < pfc.on => 0,
            // The pause expired before the queue was drained.
            true if channel.held > pfc.off && now >= channel.renew_at => QUANTA,
            _ => return,
        };
        channel.holding = quanta > 0;
        channel.renew_at = now + u64::from(QUANTA) * 512 * 1_000_000_000 / channel.bits_per_s;
        self.send_pause(entry, pfc.priority, quanta);
    }

    /// Sends a PFC frame against the direction of `channel`.
    pub(crate) fn send_pause(&mut self, channel: usize, priority: u8, quanta: u16) {
        let (from, to) = (self.channels[channel].to, self.channels[channel].from);
        let number = |node| match node {
            Node::Host(host) => host,
            Node::Switch(switch) => 0x8000 + switch,
        };
        let pause = Packet::other(number(from), number(to), Body::Pfc { priority, quanta });
        if let Some(back) = self.channels.iter().position(|c| c.from == from && c.to == to) {
            self.enqueue(back, pause);
        }
    }

    fn paused(&mut self, index: usize, quanta: u16) {
        let (from, to) = (self.channels[index].from, self.channels[index].to);
        let Some(back) = self.channels.iter().position(|c| c.from == to && c.to == from) else { return };
        let rate = self.channels[back].bits_per_s;
        self.channels[back].paused_until = self.now + u64::from(quanta) * 512 * 1_000_000_000 / rate;
        self.kick(back);
    }

    /// Accounts for a packet that has left the switch's buffer.
    fn leave_switch(&mut self, packet: &Packet) {
        let Some(entry) = packet.entry else { return };
        let Node::Switch(switch) = self.channels[entry].to else { return };
        if self.switches[switch].pfc.is_some() {
            let len = u64::from(self.len(packet));
            self.channels[entry].held = self.channels[entry].held.saturating_sub(len);
            self.pause(entry, switch);
        }
    }

    fn capture(&mut self, index: usize, near: bool, packet: &Packet) {
        let channel = &self.channels[index];
        let count = if near { channel.near.len() } else { channel.far.len() };
        for at in 0..count {
            let channel = &self.channels[index];
            let tap = if near { channel.near[at] } else { channel.far[at] };
            if self.taps[tap].misses_ppm > 0 && self.rng.chance(self.taps[tap].misses_ppm) {
                continue;
            }
            let ends = self.ends(packet);
            self.taps[tap].record(self.now, packet, ends);
        }
    }

    fn ends(&self, packet: &Packet) -> (frame::Addr, frame::Addr) {
        let addr = |host: usize| self.hosts.get(host).map_or(frame::Addr::V4([0; 4]), |host| host.addr);
        (addr(packet.src), addr(packet.dst))
    }

    /// Bytes of a frame on the wire.
    pub(crate) fn len(&self, packet: &Packet) -> u32 {
        frame::wire_len(packet, self.ends(packet), Layer::Ethernet)
    }
}
