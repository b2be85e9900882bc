//! Fabrics and their components: hosts on one switch, leaves and spines, connections, taps.

use std::collections::BTreeMap;

use super::channel::{Channel, Fault, Node, Red};
use super::engine::{Host, World};
use super::frame::Addr;
use super::qp::{Ports, Qp, Settings};
use super::switch::{Spread, Switch};
use super::tap::Tap;
use rocescope_common::random::mix;

/// One gigabit per second.
pub(crate) const GBIT: u64 = 1_000_000_000;

impl World {
    /// Adds hosts without cables, from 10.0.0.1 on.
    fn hosts(&mut self, count: usize) {
        for _ in 0..count {
            let number = self.hosts.len() as u8 + 1;
            self.hosts.push(Host {
                addr: self.vary.addr(number),
                uplinks: Vec::new(),
                qps: Vec::new(),
                turn: 0,
                left: 0,
                quantum: 16,
                ident: 0,
                counts_ident: self.vary.idents,
                reaction_ns: self.vary.reaction_ns,
            });
        }
    }

    /// Adds a cable; returns the channels of both directions.
    pub(crate) fn cable(&mut self, a: Node, b: Node, bits_per_s: u64, delay_ns: u64) -> (usize, usize) {
        let (bits_per_s, delay_ns) = (self.vary.rate(bits_per_s), delay_ns * self.vary.delay);
        for (from, to) in [(a, b), (b, a)] {
            let channel = Channel::new(from, to, bits_per_s, delay_ns);
            if let Node::Host(host) = from {
                self.hosts[host].uplinks.push(self.channels.len());
            }
            self.channels.push(channel);
        }
        (self.channels.len() - 2, self.channels.len() - 1)
    }

    fn switch(&mut self) -> usize {
        let seed = self.rng.bits();
        self.switches.push(Switch { routes: BTreeMap::new(), spread: Spread::Hash, seed, pfc: None });
        self.switches.len() - 1
    }

    /// Hosts on one switch.
    pub(crate) fn star(&mut self, hosts: usize, bits_per_s: u64) {
        self.hosts(hosts);
        let switch = self.switch();
        for host in 0..hosts {
            let (_, down) = self.cable(Node::Host(host), Node::Switch(switch), bits_per_s, 1_000);
            self.switches[switch].routes.insert(host, vec![down]);
        }
    }

    /// Two hosts connected through two switches in a row, with a tap on each hop.
    pub(crate) fn line(&mut self, bits_per_s: u64) {
        self.hosts(2);
        let (left, right) = (self.switch(), self.switch());
        let (_, to_first) = self.cable(Node::Host(0), Node::Switch(left), bits_per_s, 1_000);
        let (_, to_second) = self.cable(Node::Host(1), Node::Switch(right), bits_per_s, 1_000);
        let (east, west) = self.cable(Node::Switch(left), Node::Switch(right), bits_per_s, 2_000);
        self.switches[left].routes.extend([(0, vec![to_first]), (1, vec![east])]);
        self.switches[right].routes.extend([(0, vec![west]), (1, vec![to_second])]);
    }

    /// Switches from 0 on are leaves, followed by spines. Hosts 0..per are on leaf 0, and so on.
    pub(crate) fn leaf_spine(&mut self, leaves: usize, per: usize, spines: usize, rates: (u64, u64)) {
        self.hosts(leaves * per);
        let all: Vec<usize> = (0..leaves + spines).map(|_| self.switch()).collect();
        for host in 0..leaves * per {
            let leaf = all[host / per];
            let (_, down) = self.cable(Node::Host(host), Node::Switch(leaf), rates.0, 1_000);
            self.switches[leaf].routes.insert(host, vec![down]);
        }
        for leaf in 0..leaves {
            let mut up = Vec::new();
            for spine in &all[leaves..] {
                let (to_spine, to_leaf) =
                    self.cable(Node::Switch(all[leaf]), Node::Switch(*spine), rates.1, 2_000);
                up.push(to_spine);
                for host in leaf * per..(leaf + 1) * per {
                    self.switches[*spine].routes.insert(host, vec![to_leaf]);
                }
            }
            for host in (0..leaves * per).filter(|host| host / per != leaf) {
                self.switches[all[leaf]].routes.insert(host, up.clone());
            }
        }
    }

    /// Assigns IPv6 addresses to all hosts.
    pub(crate) fn ipv6(&mut self) {
        for (number, host) in (1..).zip(&mut self.hosts) {
            let mut addr = [0; 16];
            addr[..4].copy_from_slice(&[0x20, 0x01, 0x0D, 0xB8]);
            addr[15] = number;
            host.addr = Addr::V6(addr);
        }
    }

    /// Connects two hosts; returns the queue pairs at both ends. A port of `One(0)` is derived from both QP numbers.
    pub(crate) fn connect(&mut self, a: usize, b: usize, set: &Settings) -> (usize, usize) {
        let (first, second) = (self.qps.len(), self.qps.len() + 1);
        let numbers = [first, second].map(|qp| self.vary.first_qpn + qp as u32);
        let mut set = self.vary.settings(set, first as u64);
        if set.ports == Ports::One(0) {
            let label = mix(u64::from(numbers[0]) * u64::from(numbers[1]));
            set.ports = Ports::One(0xC000 | label as u16 & 0x3FFF);
        }
        for (host, number, peer) in [(a, numbers[0], second), (b, numbers[1], first)] {
            self.hosts[host].qps.push(self.qps.len());
            self.qps.push(Qp::new(host, number, peer, set.clone()));
            self.facts.longest_ack_ns.push(0);
        }
        (first, second)
    }

    /// Captures a host's ingress and egress.
    pub(crate) fn tap_host(&mut self, host: usize, name: &str) -> usize {
        let tap = self.add_tap(name);
        for channel in &mut self.channels {
            if channel.from == Node::Host(host) {
                channel.near.push(tap);
            }
            if channel.to == Node::Host(host) {
                channel.far.push(tap);
            }
        }
        tap
    }

    /// Captures both directions of a cable between two nodes, at the first node's end.
    pub(crate) fn tap_cable(&mut self, at: Node, other: Node, name: &str) -> usize {
        let tap = self.add_tap(name);
        let (out, back) = (self.channel(at, other), self.channel(other, at));
        self.channels[out].near.push(tap);
        self.channels[back].far.push(tap);
        tap
    }

    /// Mirrors a switch: every packet once, as it arrives.
    pub(crate) fn tap_switch(&mut self, switch: usize, name: &str) -> usize {
        let tap = self.add_tap(name);
        for channel in self.channels.iter_mut().filter(|channel| channel.to == Node::Switch(switch)) {
            channel.far.push(tap);
        }
        tap
    }

    /// Mirrors both directions of all ports of a switch: every packet twice.
    pub(crate) fn tap_both_ways(&mut self, switch: usize, name: &str) -> usize {
        let tap = self.tap_switch(switch, name);
        for channel in self.channels.iter_mut().filter(|channel| channel.from == Node::Switch(switch)) {
            channel.near.push(tap);
        }
        tap
    }

    pub(crate) fn add_tap(&mut self, name: &str) -> usize {
        self.taps.push(Tap::new(name, self.snap));
        self.taps.len() - 1
    }

    /// Adds a fault to the channel from one node to another.
    pub(crate) fn fault(&mut self, from: Node, to: Node, fault: Fault) {
        let channel = self.channel(from, to);
        self.channels[channel].faults.push(fault);
    }

    /// Enables ECN marking at all switch ports.
    pub(crate) fn red(&mut self, min: u64, max: u64, max_ppm: u32) {
        for channel in self.channels.iter_mut().filter(|channel| matches!(channel.from, Node::Switch(_))) {
            channel.red = Some(Red { min, max, max_ppm });
        }
    }

    /// Sets the buffer of all switch ports.
    pub(crate) fn buffers(&mut self, limit: u64) {
        for channel in self.channels.iter_mut().filter(|channel| matches!(channel.from, Node::Switch(_))) {
            channel.limit = limit;
        }
    }

    /// Sets the forwarding mode of all switches.
    pub(crate) fn spread(&mut self, spread: Spread) {
        for switch in &mut self.switches {
            switch.spread = spread;
        }
    }
}
