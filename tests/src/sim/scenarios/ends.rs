//! Connections that end, by a fault or normally.

use super::faults::{DREQ, mad, send};
use super::timeouts::LOSSES;
use super::{Entry, connections, settings};
use crate::sim::job::Stream;
use crate::sim::lab::{KB, Lab, MS};
use crate::sim::net::GBIT;
use crate::sim::packet::{Packet, SYNDROME_ACK, op};
use crate::sim::qp::Verb;

pub(super) const ALL: &[Entry] = &[
    ("end", "died-number-reused", number_reused),
    ("end", "died-disconnected", disconnected),
    ("control", "clean-connections-end", connections_end),
];

const QP: u32 = 0x900;
const PEER: u32 = 0x800;
const TIMEOUT: u64 = 17 * MS;

/// SENDs of one packet from host 0 to host 1 on a separate queue pair, one every 2 ms, each with its ACK; returns the
/// time and PSN after the last.
fn sends(lab: &mut Lab, from_ns: u64, first_psn: u64, count: u64) -> (u64, u64) {
    for at in 0..count {
        request(lab, from_ns + at * 2 * MS, first_psn + at);
        let mut ack = Packet::roce(1, 0, op::ACK, PEER, first_psn + at);
        (ack.aeth, ack.sport) = ((SYNDROME_ACK, at as u32 + 1), 0xC123);
        send(&mut lab.world, from_ns + at * 2 * MS + MS / 10, ack);
    }
    (from_ns + count * 2 * MS, first_psn + count)
}

fn request(lab: &mut Lab, ns: u64, psn: u64) {
    let mut packet = Packet::roce(0, 1, op::SEND_ONLY, QP, psn);
    (packet.payload, packet.sport, packet.ack_req) = (1_024, 0xC123, true);
    send(&mut lab.world, ns, packet);
}

/// The same as [`sends`], with a last one that is not acknowledged and its retries; returns the time of the last.
fn dies(lab: &mut Lab, retries: u64) -> u64 {
    let (ns, psn) = sends(lab, MS, 1_000, 40);
    for retry in 0..=retries {
        request(lab, ns + retry * TIMEOUT, psn);
    }
    ns + retries * TIMEOUT
}

/// Two other connections of the same hosts that continue for some time.
fn others(lab: &mut Lab, messages: u64) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, messages).gap(2 * MS, 0), 0);
}

fn expect_death(lab: &mut Lab) {
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["qp.died"], pair).also(LOSSES);
}

/// The process destroys the queue pair at once, and the NIC reuses its number for the next connection.
fn number_reused(lab: &mut Lab) {
    others(lab, 150);
    let last_ns = dies(lab, 3);
    sends(lab, last_ns + TIMEOUT + MS, 9_000_000, 60);
    expect_death(lab);
}

/// The connection manager disconnects as soon as the work request has failed, and the capture ends.
fn disconnected(lab: &mut Lab) {
    others(lab, 80);
    let last_ns = dies(lab, 3);
    disconnect(lab, last_ns + TIMEOUT);
    expect_death(lab);
}

fn disconnect(lab: &mut Lab, ns: u64) {
    let [_, a, b, c] = QP.to_be_bytes();
    let asks: [(usize, &[u8]); 3] = [(0, &[0, 0, 0, 1]), (4, &[0, 0, 0, 2]), (8, &[a, b, c])];
    send(&mut lab.world, ns, mad(0, 1, DREQ, &asks));
}

/// Connections that end with nothing outstanding, one after a lost ACK, and whose numbers are reused.
fn connections_end(lab: &mut Lab) {
    others(lab, 150);
    let (ns, psn) = sends(lab, MS, 1_000, 40);
    // The ACK of the last one is lost; that of its retry is not.
    request(lab, ns, psn);
    sends(lab, ns + TIMEOUT, psn, 1);
    disconnect(lab, ns + TIMEOUT + 5 * MS);
    let (ns, _) = sends(lab, ns + TIMEOUT + 30 * MS, 9_000_000, 30);
    disconnect(lab, ns + MS);
    lab.world.tap_host(0, "h0.pcap");
}
