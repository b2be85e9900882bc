//! Connection management, foreign traffic, inconsistent settings.

use std::rc::Rc;

use super::{Entry, connections, mtu, settings};
use crate::sim::engine::{Event, World};
use crate::sim::frame::Addr;
use crate::sim::job::{Datagrams, Stream};
use crate::sim::lab::{KB, Lab, MS};
use crate::sim::net::GBIT;
use crate::sim::packet::{Body, Packet, op};
use crate::sim::qp::Verb;

pub(super) const ALL: &[Entry] = &[
    ("cm", "cm-rejected", |lab| rejected(lab, 28)),
    ("cm", "cm-rejected-no-listener", |lab| rejected(lab, 8)),
    ("cm", "cm-no-reply", no_reply),
    ("cm", "cm-service-refused", |lab| unresolved(lab, Some(2))),
    ("cm", "cm-service-unknown", |lab| unresolved(lab, Some(1))),
    ("cm", "cm-service-no-reply", |lab| unresolved(lab, None)),
    ("psn", "psn-of-read-reused", psn_of_read),
    ("foreign", "foreign-roce-subnet", |lab| foreign_roce(lab, [8, 9].map(|host| v4([192, 168, 77, host])))),
    ("foreign", "foreign-roce-same-first-octet", |lab| {
        foreign_roce(lab, [8, 9].map(|host| v4([10, 200, 3, host])));
    }),
    ("foreign", "foreign-roce-ipv6-same-32", |lab| foreign_roce(lab, [8, 9].map(|host| v6(0x77, 3, host)))),
    ("control", "clean-tenant-that-the-job-talks-with", |lab| {
        lab.world.star(6, 10 * GBIT);
        beside(lab, [8, 9].map(|host| v4([10, 200, 3, host])));
        let storage = connections(lab, 0, 4, 1, &settings());
        lab.world.start(Stream::new(&storage, Verb::Read, 64 * KB, 20).gap(5 * MS, MS), 0);
    }),
    ("control", "clean-rail-of-two-far-in-the-plan", |lab| {
        lab.world.star(6, 10 * GBIT);
        beside(lab, [108, 109].map(|host| v4([10, 0, 200, host])));
    }),
    ("control", "clean-rail-of-two-of-a-16-each", |lab| {
        lab.world.star(6, 10 * GBIT);
        beside(lab, [2, 3].map(|host| v4([10, 7, 0, host])));
    }),
    ("control", "clean-rail-of-two-ipv6", |lab| {
        lab.world.star(6, 10 * GBIT);
        beside(lab, [108, 109].map(|host| v6(0, 0x300, host)));
    }),
    ("foreign", "foreign-traffic", foreign_traffic),
    ("mtu", "mtu-small-on-one", mixed_mtu),
];

const REQ: u16 = 0x10;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
pub(super) const DREQ: u16 = 0x15;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;

/// A management datagram of the connection manager, to queue pair 1.
pub(super) fn mad(src: usize, dst: usize, attribute: u16, data: &[(usize, &[u8])]) -> Packet {
    let mut bytes = vec![0; 256];
    // Base version 1, class communication management, class version 2, method send.
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    for (at, value) in data {
        bytes[24 + at..24 + at + value.len()].copy_from_slice(value);
    }
    let mut packet = Packet::roce(src, dst, op::UD_SEND_ONLY, 1, 0);
    (packet.deth, packet.payload) = ((0x8001_0000, 1), 256);
    packet.mad = Some(Rc::new(bytes));
    packet.sport = 0xC000 + src as u16;
    packet
}

pub(super) fn send(world: &mut World, ns: u64, packet: Packet) {
    world.at(ns, Event::Emit(Box::new(packet)));
}

fn gid(world: &World, host: usize) -> [u8; 16] {
    match world.hosts[host].addr {
        Addr::V6(bytes) => bytes,
        Addr::V4([a, b, c, d]) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d],
    }
}

fn request(world: &World, src: usize, dst: usize, id: u32, qpn: u32) -> Packet {
    let (own, other) = (gid(world, src), gid(world, dst));
    let data: [(usize, &[u8]); 7] = [
        (0, &id.to_be_bytes()),
        (8, &[0, 0, 0, 0, 1, 6, 0x1C, 0x06]),
        (32, &qpn.to_be_bytes()[1..]),
        (44, &[0, 0x10, 0]),
        (50, &[0x50]),
        (56, &own),
        (72, &other),
    ];
    mad(src, dst, REQ, &data)
}

/// The connection requests of host 0 to host 2 are rejected; those to host 1 are accepted.
fn rejected(lab: &mut Lab, reason: u16) {
    lab.world.star(3, 10 * GBIT);
    for at in 0..6 {
        let (id, ns) = (0x100 + at as u32, at * 10 * MS);
        let accepted = request(&lab.world, 0, 1, id, 0x400 + at as u32);
        send(&mut lab.world, ns, accepted);
        let reply: [(usize, &[u8]); 4] = [
            (0, &(id + 0x50).to_be_bytes()),
            (4, &id.to_be_bytes()),
            (12, &[0, 5, at as u8]),
            (20, &[0, 0x10, 0]),
        ];
        send(&mut lab.world, ns + MS, mad(1, 0, REP, &reply));
        let ready: [(usize, &[u8]); 2] = [(0, &id.to_be_bytes()), (4, &(id + 0x50).to_be_bytes())];
        send(&mut lab.world, ns + 2 * MS, mad(0, 1, RTU, &ready));
        let refused = request(&lab.world, 0, 2, id + 0x1000, 0x500 + at as u32);
        send(&mut lab.world, ns + 3 * MS, refused);
        let no: [(usize, &[u8]); 3] =
            [(4, &(id + 0x1000).to_be_bytes()), (8, &[0]), (10, &reason.to_be_bytes())];
        send(&mut lab.world, ns + 4 * MS, mad(2, 0, REJ, &no));
    }
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Send, 16 * KB, 40).gap(MS, 0), 5 * MS);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 2);
    lab.expect(&["cm.rejected"], pair);
}

/// Requests to host 2 are repeated and never answered.
fn no_reply(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    for at in 0..5 {
        let ask = request(&lab.world, 0, 2, 0x99, 0x700);
        send(&mut lab.world, at * 100 * MS, ask);
    }
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Send, 16 * KB, 200).gap(10 * MS, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 2);
    lab.expect(&["cm.rejected"], pair);
}

/// Host 0 requests from hosts 1 and 2 the queue pairs for datagrams of a service (SIDR): host 1 names one, host 2
/// answers with this status, or not at all.
fn unresolved(lab: &mut Lab, status: Option<u8>) {
    lab.world.star(3, 10 * GBIT);
    for at in 0..5 {
        let (ns, again) = (at * 100 * MS, status.is_none());
        for (dst, id) in [(1, 0x200 + at as u32), (2, if again { 0x300 } else { 0x300 + at as u32 })] {
            let asks: [(usize, &[u8]); 3] =
                [(0, &id.to_be_bytes()), (4, &[0xFF, 0xFF]), (8, &[0, 0, 0, 0, 1, 0x11, 0x1C, 0x06])];
            send(&mut lab.world, ns + dst as u64 * MS, mad(0, dst, SIDR_REQ, &asks));
            let Some(status) = (if dst == 1 { Some(0) } else { status }) else { continue };
            let qpn: &[u8] = if status == 0 { &[0, 7, 0] } else { &[0; 3] };
            let says: [(usize, &[u8]); 3] = [(0, &id.to_be_bytes()), (4, &[status]), (8, qpn)];
            send(&mut lab.world, ns + dst as u64 * MS + MS / 2, mad(dst, 0, SIDR_REP, &says));
        }
    }
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Send, 16 * KB, 60).gap(10 * MS, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 2);
    lab.expect(&["cm.rejected"], pair);
}

/// A requester that numbers the request after a READ as if the READ took one PSN, and continues from there.
fn psn_of_read(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 60).gap(MS, MS), 0);
    for at in 0..20 {
        let mut read = Packet::roce(0, 1, op::READ_REQUEST, 0x900, 1_000 + 2 * at);
        (read.dma_len, read.sport) = (16 * KB, 0xC123);
        send(&mut lab.world, at * MS, read);
        let mut next = Packet::roce(0, 1, op::SEND_ONLY, 0x900, 1_001 + 2 * at);
        (next.payload, next.sport, next.ack_req) = (64, 0xC123, true);
        send(&mut lab.world, at * MS + 100_000, next);
    }
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["qp.psn_overlap"], pair).also(&["peer.silent"]);
}

fn v4(addr: [u8; 4]) -> Addr {
    Addr::V4(addr)
}

/// 2001:db8:SITE:SUBNET::HOST
fn v6(site: u16, subnet: u16, host: u16) -> Addr {
    let groups = [0x2001, 0x0DB8, site, subnet, 0, 0, 0, host];
    Addr::V6(std::net::Ipv6Addr::from(groups).octets())
}

/// RoCE of another subnet on the links of a job.
fn foreign_roce(lab: &mut Lab, foreign: [Addr; 2]) {
    lab.world.star(6, 10 * GBIT);
    beside(lab, foreign);
    let pair = lab.pair(4, 5);
    lab.expect(&["isolation.foreign_roce"], pair);
}

/// A job of four hosts, and RoCE between two others with these addresses.
fn beside(lab: &mut Lab, others: [Addr; 2]) {
    if matches!(others[0], Addr::V6(_)) {
        lab.world.ipv6();
    } else {
        for (number, host) in (1..).zip(&mut lab.world.hosts) {
            host.addr = v4([10, 0, 0, number]);
        }
    }
    [lab.world.hosts[4].addr, lab.world.hosts[5].addr] = others;
    let mut ends = Vec::new();
    for host in 0..4 {
        ends.extend(connections(lab, host, (host + 1) % 4, 2, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 60).gap(MS, MS), 0);
    let foreign = connections(lab, 4, 5, 1, &settings());
    lab.world.start(Stream::new(&foreign, Verb::Write, 64 * KB, 120).gap(MS, MS), 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// Storage traffic on the same link: a fifth of its bytes.
fn foreign_traffic(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 160).gap(MS, 0), 0);
    let other = Packet::other(0, 1, Body::Other { bytes: 1_400 });
    lab.world.start(Datagrams { packet: other, count: 14_000, gap_ns: 5_000 }, 0);
    lab.world.tap_host(0, "h0.pcap");
    lab.expect(&["isolation.foreign_traffic"], crate::sim::truth::Place::Link("h0.pcap".into()));
}

/// One of three hosts uses a quarter of the others' path MTU.
fn mixed_mtu(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let mut ends = connections(lab, 0, 3, 2, &settings());
    ends.extend(connections(lab, 1, 3, 2, &settings()));
    ends.extend(connections(lab, 2, 3, 2, &mtu(1024)));
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 30).gap(MS, MS), 0);
    lab.world.tap_host(3, "h3.pcap");
    let host = lab.host(2);
    lab.expect(&["mtu.small"], host).also(&["burst.incast"]);
}
