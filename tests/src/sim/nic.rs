//! A host's NIC: schedules egress packets, and delivers ingress packets to their queue pair.

use super::channel::Node;
use super::engine::World;
use super::packet::{CE, Packet, op};
use super::qp::Ports;

/// ToS of CNPs: DSCP 48, ECT(0).
const CNP_TOS: u8 = 48 << 2 | 2;

impl World {
    /// Sends a packet of the host itself (ACK, CNP, datagram) with priority over data of queue pairs.
    pub(crate) fn emit(&mut self, mut packet: Packet) {
        let host = &mut self.hosts[packet.src];
        if host.counts_ident {
            host.ident = host.ident.wrapping_add(1);
            packet.ident = host.ident;
        }
        let uplink = host.uplinks[usize::from(packet.sport) % host.uplinks.len()];
        self.enqueue(uplink, packet);
    }

    /// The next packet of the host's queue pairs for one of its uplinks.
    pub(crate) fn pull(&mut self, host: usize, channel: usize) -> Option<Packet> {
        let count = self.hosts[host].qps.len();
        let mut earliest = u64::MAX;
        for tried in 0..=count {
            if count == 0 {
                break;
            }
            if tried > 0 || self.hosts[host].left == 0 {
                let taken = &mut self.hosts[host];
                taken.turn = (taken.turn + 1) % count;
                taken.left = taken.quantum;
            }
            let index = self.hosts[host].qps[self.hosts[host].turn];
            let qp = &self.qps[index];
            if qp.stopped() || qp.uplink.is_some_and(|uplink| self.hosts[host].uplinks[uplink] != channel) {
                continue;
            }
            let (now, free_at) = (self.now, qp.free_at);
            let Some(ready) = self.ready(index) else { continue };
            let ready = ready.max(free_at);
            if ready > now {
                earliest = earliest.min(ready);
                continue;
            }
            if let Some(packet) = self.next_packet(index) {
                self.hosts[host].left -= 1;
                return Some(self.finish(index, channel, packet));
            }
        }
        if earliest < u64::MAX {
            self.wake(channel, earliest);
        }
        None
    }

    /// Completes a packet of a queue pair (port, ToS, identification), and charges its rate limit.
    fn finish(&mut self, index: usize, channel: usize, mut packet: Packet) -> Packet {
        let port = self.channels[channel].bits_per_s;
        let now = self.now;
        let len = self.len(&packet);
        let qp = &mut self.qps[index];
        qp.packets += 1;
        packet.tos = qp.set.tos;
        packet.sport = match qp.set.ports {
            Ports::One(port) => port,
            Ports::Many(base, count) => {
                base + (rocescope_common::random::mix(qp.packets) % u64::from(count)) as u16
            }
        };
        if qp.set.planes > 0 {
            packet.outer = Some((qp.packets % u64::from(qp.set.planes)) as u16);
            packet.routing = qp.set.routing;
        }
        let rate = qp.rate.recover(now, port);
        let time = (u64::from(len + 24) * 8_000_000_000).checked_div(rate).unwrap_or(0);
        qp.free_at = now.max(qp.free_at) + time;
        let host = &mut self.hosts[packet.src];
        if host.counts_ident {
            host.ident = host.ident.wrapping_add(1);
            packet.ident = host.ident;
        }
        packet
    }

    /// A packet is on the cable of its host: the time to its ACK begins.
    pub(crate) fn left_host(&mut self, channel: usize, packet: &Packet) {
        if !matches!(self.channels[channel].from, Node::Host(_)) || packet.retransmission {
            return;
        }
        let Some(peer) = packet.to_qp.filter(|_| packet.is_request() && packet.ack_req) else { return };
        let (now, index) = (self.now, self.qps[peer].peer);
        if let Some(asked) = self.qps[index].asked.get_mut(&packet.psn) {
            *asked = now;
        }
    }

    /// Wakes the NIC, since a queue pair may send.
    pub(crate) fn ring(&mut self, index: usize) {
        for at in 0..self.hosts[self.qps[index].host].uplinks.len() {
            let channel = self.hosts[self.qps[index].host].uplinks[at];
            self.kick(channel);
        }
    }

    /// Handles a packet that reached its host.
    pub(crate) fn receive(&mut self, host: usize, packet: Packet) {
        let Some(index) = packet.to_qp else { return };
        if packet.dst != host || self.qps[index].stopped() || packet.corrupt {
            return;
        }
        if packet.opcode == op::CNP {
            let port = self.channels[self.hosts[host].uplinks[0]].bits_per_s;
            let now = self.now;
            if self.qps[index].set.dcqcn {
                self.qps[index].rate.reduce(now, port);
            }
            return;
        }
        if packet.tos & CE == CE {
            self.congested(index);
        }
        if packet.is_request() {
            self.respond(index, packet);
        } else {
            self.answered(index, &packet);
        }
    }

    /// Sends a CNP for a marked packet, if the pacing allows it.
    fn congested(&mut self, index: usize) {
        let qp = &self.qps[index];
        if !qp.set.dcqcn || self.now < qp.cnp_at {
            return;
        }
        let cnp_at = self.now + qp.set.cnp_gap_ns;
        self.qps[index].cnp_at = cnp_at;
        self.send_cnp(index);
    }

    /// Sends a CNP to the peer of a queue pair.
    pub(crate) fn send_cnp(&mut self, index: usize) {
        let qp = &self.qps[index];
        let peer = &self.qps[qp.peer];
        let mut cnp = Packet::roce(qp.host, peer.host, op::CNP, peer.number, 0);
        cnp.becn = true;
        cnp.tos = CNP_TOS;
        cnp.to_qp = Some(qp.peer);
        self.emit(cnp);
    }

    /// The channel in the direction from one node to another.
    pub(crate) fn channel(&self, from: Node, to: Node) -> usize {
        let found = self.channels.iter().position(|c| c.from == from && c.to == to);
        found.unwrap_or_else(|| panic!("no cable from {from:?} to {to:?}"))
    }
}
