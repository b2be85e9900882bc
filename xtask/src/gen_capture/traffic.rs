//! Synthetic traffic of a fabric of GPU hosts, generated from a seed.
//!
//! Connections send RDMA WRITEs, SENDs and READs of 1 to 32 packets in short bursts, as the queue pairs of a NIC do.
//! The other end acknowledges. One packet in 64 of a congested connection is CE-marked and occasionally triggers a
//! CNP; one in 4,096 is lost upstream of the capture, and after a NAK retransmitted with all later packets
//! (go-back-N).

use std::collections::VecDeque;

use rocescope_common::random::Random;

use super::Generate;
use super::frame::{Ends, Packet, Wrap, other};

/// Largest number of connections.
pub(crate) const MAX_FLOWS: u32 = 1 << 20;
/// Number of hosts.
const HOSTS: u32 = 256;
/// 2026-01-01T00:00:00Z.
const START_NS: u64 = 1_767_225_600_000_000_000;
/// Random bytes from which payloads are cut: larger than a compressor's window, so that payloads do not compress,
/// like those of a training job.
const POOL: usize = 1 << 16;
/// Maximum number of queued replies.
const MAX_REPLIES: usize = 1024;

const ECT0: u8 = 2;
const CE: u8 = 3;
/// DSCP 26 for data and 48 for CNPs, as in many fabrics.
const DATA_TOS: u8 = 26 << 2;
const CNP_TOS: u8 = 48 << 2;

const SEND_FIRST: u8 = 0x00;
const SEND_MIDDLE: u8 = 0x01;
const SEND_LAST: u8 = 0x02;
const SEND_ONLY: u8 = 0x04;
const WRITE_FIRST: u8 = 0x06;
const WRITE_MIDDLE: u8 = 0x07;
const WRITE_LAST: u8 = 0x08;
const WRITE_ONLY: u8 = 0x0A;
const READ_REQUEST: u8 = 0x0C;
const READ_FIRST: u8 = 0x0D;
const READ_MIDDLE: u8 = 0x0E;
const READ_LAST: u8 = 0x0F;
const READ_ONLY: u8 = 0x10;
const ACKNOWLEDGE: u8 = 0x11;
const CNP: u8 = 0x81;
const MASK24: u32 = 0x00FF_FFFF;
const NAK_PSN_SEQUENCE: u32 = 0x60 << 24;

/// Metadata of a written packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Unix time in nanoseconds; never decreases.
    pub(crate) time_ns: u64,
    /// Length of the complete frame.
    pub(crate) wire_len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationKind {
    Write,
    Send,
}

#[derive(Debug)]
struct Connection {
    ends: Ends,
    /// Queue pair of the receiving end, and of the sending end.
    qps: [u32; 2],
    psn: u32,
    msn: u32,
    kind: OperationKind,
    /// Packets of the message sent so far, and in total.
    sent: u32,
    len: u32,
    congested: bool,
}

/// A packet that the receiving end has to send.
#[derive(Clone, Copy, Debug)]
struct Reply {
    connection: usize,
    opcode: u8,
    psn: u32,
    /// Content of the AETH, if the opcode has one.
    aeth: u32,
    full: bool,
}

/// An endless sequence of packets.
#[derive(Debug)]
pub(crate) struct Traffic {
    random: Random,
    connections: Vec<Connection>,
    pool: Vec<u8>,
    replies: VecDeque<Reply>,
    current: usize,
    burst: u32,
    time_ns: u64,
    slower: u64,
    snap: u32,
    mtu: u32,
    other: u32,
}

impl Traffic {
    pub(crate) fn new(wanted: &Generate) -> Self {
        let mut random = Random::new(wanted.seed);
        let connections = (0..wanted.flows).map(|number| connection(number, &mut random)).collect();
        let pool = (0..POOL / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
        Self {
            random,
            connections,
            pool,
            replies: VecDeque::new(),
            current: 0,
            burst: 0,
            time_ns: START_NS,
            slower: wanted.slower,
            snap: wanted.snap.0,
            mtu: wanted.mtu,
            other: wanted.other,
        }
    }

    /// Appends the next frame to `out`.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Written {
        let wire_len = self.frame(out);
        let time_ns = self.time_ns;
        // At 400 Gb/s a byte takes 0.02 ns; NICs pause slightly between packets.
        self.time_ns += (u64::from(wire_len / 50) + u64::from(self.random.below_u32(40))) * self.slower;
        Written { time_ns, wire_len }
    }

    fn frame(&mut self, out: &mut Vec<u8>) -> u32 {
        if self.other > 0 && self.random.below_u32(100) < self.other {
            return self.not_roce(out);
        }
        // Replies are sent between the packets of others, not all at once.
        if !self.replies.is_empty()
            && (self.replies.len() >= MAX_REPLIES || self.random.one_in(2))
            && let Some(reply) = self.replies.pop_front()
        {
            return self.reply(reply, out);
        }
        if self.burst == 0 {
            self.burst = 1 + self.random.below_u32(8);
            let count = u32::try_from(self.connections.len()).unwrap_or(MAX_FLOWS);
            self.current = self.random.below_u32(count) as usize;
        }
        self.burst -= 1;
        self.request(out)
    }

    fn request(&mut self, out: &mut Vec<u8>) -> u32 {
        let Self { random, connections, replies, .. } = self;
        let at = self.current;
        let Some(connection) = connections.get_mut(at) else { return 0 };
        if connection.sent == connection.len {
            connection.sent = 0;
            connection.len = 1 + random.below_u32(32);
            connection.kind = if random.one_in(5) { OperationKind::Send } else { OperationKind::Write };
            connection.msn = (connection.msn + 1) & MASK24;
            if random.one_in(10) {
                return self.read(at, out);
            }
        }
        if connection.sent + 1 < connection.len && random.one_in(4096) {
            return self.lose(at, out);
        }
        let mark = connection.congested && random.one_in(64);
        let (psn, last) = (connection.psn, connection.sent + 1 == connection.len);
        if mark && random.one_in(4) {
            replies.push_back(Reply { connection: at, opcode: CNP, psn: 0, aeth: 0, full: false });
        }
        if last {
            let aeth = 0x1F << 24 | connection.msn;
            replies.push_back(Reply { connection: at, opcode: ACKNOWLEDGE, psn, aeth, full: false });
        }
        self.data(at, mark, out)
    }

    /// A packet is lost and the next one arrives: the receiver sends a NAK, and the sender goes back to the lost
    /// packet.
    fn lose(&mut self, at: usize, out: &mut Vec<u8>) -> u32 {
        let Some(connection) = self.connections.get_mut(at) else { return 0 };
        let (psn, sent) = (connection.psn, connection.sent);
        let aeth = NAK_PSN_SEQUENCE | connection.msn;
        self.replies.push_back(Reply { connection: at, opcode: ACKNOWLEDGE, psn, aeth, full: false });
        connection.psn = (psn + 1) & MASK24;
        connection.sent = sent + 1;
        let wire_len = self.data(at, false, out);
        if let Some(connection) = self.connections.get_mut(at) {
            (connection.psn, connection.sent) = (psn, sent);
        }
        wire_len
    }

    /// The next packet of a connection's message.
    fn data(&mut self, at: usize, mark: bool, out: &mut Vec<u8>) -> u32 {
        let cut = self.random.bits();
        let Some(connection) = self.connections.get_mut(at) else { return 0 };
        let first = connection.sent == 0;
        let last = connection.sent + 1 == connection.len;
        let opcode = match (connection.kind, first, last) {
            (OperationKind::Write, true, true) => WRITE_ONLY,
            (OperationKind::Write, true, false) => WRITE_FIRST,
            (OperationKind::Write, false, false) => WRITE_MIDDLE,
            (OperationKind::Write, false, true) => WRITE_LAST,
            (OperationKind::Send, true, true) => SEND_ONLY,
            (OperationKind::Send, true, false) => SEND_FIRST,
            (OperationKind::Send, false, false) => SEND_MIDDLE,
            (OperationKind::Send, false, true) => SEND_LAST,
        };
        let reth = reth(connection.len.saturating_mul(self.mtu));
        let len = if last { last_len(cut, self.mtu) } else { self.mtu };
        let packet = Packet {
            ends: connection.ends,
            tos: DATA_TOS | if mark { CE } else { ECT0 },
            opcode,
            ack_req: last,
            becn: false,
            dest_qp: connection.qps[0],
            psn: connection.psn,
            ext: if first && connection.kind == OperationKind::Write { &reth } else { &[] },
            payload: payload(&self.pool, cut, len),
        };
        connection.psn = (connection.psn + 1) & MASK24;
        connection.sent += 1;
        packet.write(self.snap, out)
    }

    /// A READ: the request now, its responses later.
    fn read(&mut self, at: usize, out: &mut Vec<u8>) -> u32 {
        let Some(connection) = self.connections.get_mut(at) else { return 0 };
        let len = connection.len;
        connection.sent = len;
        for number in 0..len {
            let opcode = match (number == 0, number + 1 == len) {
                (true, true) => READ_ONLY,
                (true, false) => READ_FIRST,
                (false, true) => READ_LAST,
                (false, false) => READ_MIDDLE,
            };
            let psn = (connection.psn + number) & MASK24;
            let aeth = 0x1F << 24 | connection.msn;
            self.replies.push_back(Reply { connection: at, opcode, psn, aeth, full: true });
        }
        let packet = Packet {
            ends: connection.ends,
            tos: DATA_TOS | ECT0,
            opcode: READ_REQUEST,
            ack_req: true,
            becn: false,
            dest_qp: connection.qps[0],
            psn: connection.psn,
            ext: &reth(len.saturating_mul(self.mtu)),
            payload: &[],
        };
        connection.psn = (connection.psn + len) & MASK24;
        packet.write(self.snap, out)
    }

    fn reply(&mut self, reply: Reply, out: &mut Vec<u8>) -> u32 {
        let cut = self.random.bits();
        let Some(connection) = self.connections.get(reply.connection) else { return 0 };
        let ends = connection.ends;
        let aeth = reply.aeth.to_be_bytes();
        let packet = Packet {
            ends: Ends { src: ends.dst, dst: ends.src, ..ends },
            tos: if reply.opcode == CNP { CNP_TOS } else { DATA_TOS | ECT0 },
            opcode: reply.opcode,
            ack_req: false,
            becn: reply.opcode == CNP,
            dest_qp: connection.qps[1],
            psn: reply.psn,
            ext: match reply.opcode {
                CNP => &[0; 16],
                READ_MIDDLE => &[],
                _ => &aeth,
            },
            payload: if reply.full { payload(&self.pool, cut, self.mtu) } else { &[] },
        };
        packet.write(self.snap, out)
    }

    fn not_roce(&mut self, out: &mut Vec<u8>) -> u32 {
        let cut = self.random.bits();
        let Some(connection) = self.connections.get(self.current) else { return 0 };
        other(connection.ends, payload(&self.pool, cut, last_len(cut >> 7, 1024)), self.snap, out)
    }
}

fn connection(number: u32, random: &mut Random) -> Connection {
    let src = random.below_u32(HOSTS);
    let dst = (src + 1 + random.below_u32(HOSTS - 1)) % HOSTS;
    let host = |host: u32| u16::try_from(host + 1).unwrap_or(1);
    let wrap = match random.below_u32(16) {
        0 | 1 => Wrap::V6,
        2 => Wrap::Vlan(0x6064),
        _ => Wrap::V4,
    };
    let port = 0xC000 | u16::try_from(random.below_u32(0x4000)).unwrap_or(0);
    Connection {
        ends: Ends { src: host(src), dst: host(dst), port, wrap },
        // NICs assign queue pair numbers consecutively.
        qps: [0x100 + number * 2, 0x101 + number * 2],
        psn: random.below_u32(MASK24),
        msn: 0,
        kind: OperationKind::Write,
        sent: 0,
        len: 0,
        congested: random.one_in(4),
    }
}

/// RETH: an arbitrary address and key, and the length.
fn reth(dma_len: u32) -> [u8; 16] {
    let mut reth = [0; 16];
    reth[1] = 0x7F;
    reth[11] = 0x42;
    reth[12..].copy_from_slice(&dma_len.to_be_bytes());
    reth
}

/// The last packet of a message has a random length.
fn last_len(random: u64, mtu: u32) -> u32 {
    let quarters = u64::from(mtu / 4);
    u32::try_from(random % quarters + 1).unwrap_or(1) * 4
}

fn payload(pool: &[u8], random: u64, len: u32) -> &[u8] {
    let len = len as usize;
    let places = pool.len().saturating_sub(len);
    let start = usize::try_from(random >> 40).unwrap_or(0) % places.max(1);
    pool.get(start..start + len).unwrap_or_default()
}
