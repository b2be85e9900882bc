//! Captures: packets at a point of the simulation, as files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::frame::{self, Addr, Layer};
use super::packet::{Body, CE, Packet, SYNDROME_NAK, SYNDROME_RNR, op};
use crate::capture_file::erf_header;

/// Unix time at the start of simulations.
pub(crate) const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// Counts of the packets at a tap.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// RoCE packets.
    pub packets: u64,
    /// Length of their frames.
    pub bytes: u64,
    /// Packets by opcode.
    pub opcodes: BTreeMap<u8, u64>,
    /// Requests whose PSN passed this tap before.
    pub retransmissions: u64,
    /// PSN sequence error NAKs.
    pub sequence_naks: u64,
    /// Other NAKs.
    pub other_naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// AETHs of the type ACK.
    pub acks: u64,
    /// CE-marked packets.
    pub ce: u64,
    /// Pauses of PFC, without those that end one.
    pub pauses: u64,
    /// Frames of other protocols.
    pub others: u64,
    /// Source ports of requests.
    pub ports: BTreeSet<u16>,
    /// Queue pairs that requests go to, with their host.
    pub qps: BTreeSet<(usize, u32)>,
    /// Requests and READ responses by DSCP.
    pub dscps: BTreeMap<u8, u64>,
    /// RoCE packets and largest payload, by the numbers of the hosts.
    pub pairs: BTreeMap<(usize, usize), (u64, u32)>,
    /// Requests that repeat PSNs which the READ before them takes for its responses.
    pub overlaps: u64,
    /// Requests far from the PSN of the previous one of their queue pair.
    pub jumps: u64,
}

/// Container of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Pcap,
    PcapNg,
}

/// A capture at one or several points.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) name: String,
    pub(crate) snap: u32,
    pub(crate) layer: Layer,
    pub(crate) format: Format,
    /// Clock error of the capturing host.
    pub(crate) ahead_ns: u64,
    /// Its clock is set at this time, by this many nanoseconds.
    pub(crate) set: (u64, i64),
    /// Its clock is faster by this ratio.
    pub(crate) drift_ppm: u64,
    /// Captures only this time range of the simulation.
    pub(crate) range: (u64, u64),
    /// Rate of packets that the capture misses, in ppm.
    pub(crate) misses_ppm: u32,
    pub(crate) counted: Counted,
    /// PSNs seen, by flow.
    passed: HashMap<(usize, usize, u32), HashSet<u64>>,
    /// The last request, and the PSNs of the responses of the last READ, by flow.
    last: HashMap<(usize, usize, u32), (u64, std::ops::Range<u64>)>,
    bytes: Vec<u8>,
}

impl Tap {
    pub(crate) fn new(name: &str, snap: u32) -> Self {
        Self {
            name: name.to_owned(),
            snap,
            layer: Layer::Ethernet,
            format: Format::Pcap,
            ahead_ns: 0,
            set: (u64::MAX, 0),
            drift_ppm: 0,
            range: (0, u64::MAX),
            misses_ppm: 0,
            counted: Counted::default(),
            passed: HashMap::new(),
            last: HashMap::new(),
            bytes: Vec::new(),
        }
    }

    pub(crate) fn record(&mut self, now: u64, packet: &Packet, ends: (Addr, Addr)) {
        if now < self.range.0 || now >= self.range.1 {
            return;
        }
        self.count(packet);
        let time = self.clock(now);
        let mut bytes = Vec::with_capacity(self.snap as usize);
        let len = frame::write(packet, ends, self.layer, self.snap, &mut bytes);
        self.counted.bytes += if packet.is_roce() { u64::from(len) } else { 0 };
        let head = if self.layer == Layer::InfiniBand { erf_header(time, len as u16) } else { Vec::new() };
        let (kept, len) = ((head.len() + bytes.len()) as u32, len + head.len() as u32);
        match self.format {
            Format::Pcap => {
                for word in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, kept, len] {
                    self.bytes.extend(word.to_le_bytes());
                }
                self.bytes.extend(head.iter().chain(&bytes));
            }
            Format::PcapNg => {
                let padded = kept.next_multiple_of(4);
                for word in [6, 32 + padded, 0, (time >> 32) as u32, time as u32, kept, len] {
                    self.bytes.extend(word.to_le_bytes());
                }
                self.bytes.extend(head.iter().chain(&bytes));
                self.bytes.resize(self.bytes.len() + (padded - kept) as usize, 0);
                self.bytes.extend((32 + padded).to_le_bytes());
            }
        }
    }

    /// What the clock of the capturing host shows.
    fn clock(&self, now: u64) -> u64 {
        let time = EPOCH_NS + now + self.ahead_ns + now / 1_000_000 * self.drift_ppm;
        if now >= self.set.0 { time.saturating_add_signed(self.set.1) } else { time }
    }

    fn count(&mut self, packet: &Packet) {
        let counted = &mut self.counted;
        match packet.body {
            Body::Roce => {}
            Body::Pfc { quanta, .. } => return counted.pauses += u64::from(quanta > 0),
            Body::Other { .. } => return counted.others += 1,
        }
        counted.packets += 1;
        let (packets, largest) = counted.pairs.entry((packet.src, packet.dst)).or_default();
        (*packets, *largest) = (*packets + 1, packet.payload.max(*largest));
        if packet.is_data() {
            *counted.dscps.entry(packet.tos >> 2).or_default() += 1;
        }
        *counted.opcodes.entry(packet.opcode).or_default() += 1;
        counted.ce += u64::from(packet.tos & CE == CE);
        if packet.has_aeth() {
            match packet.aeth.0 & 0xE0 {
                SYNDROME_RNR => counted.rnr_naks += 1,
                SYNDROME_NAK if packet.aeth.0 == SYNDROME_NAK => counted.sequence_naks += 1,
                SYNDROME_NAK => counted.other_naks += 1,
                _ => counted.acks += 1,
            }
        }
        if packet.is_request() && packet.opcode != op::READ_REQUEST {
            let passed = self.passed.entry((packet.src, packet.dst, packet.dest_qp)).or_default();
            let again = !passed.insert(packet.psn);
            self.counted.retransmissions += u64::from(again);
        }
        if packet.is_request() {
            self.count_request(packet);
        }
    }

    fn count_request(&mut self, packet: &Packet) {
        const FAR: u64 = 1 << 22;
        const LARGEST_MTU: u32 = 4_096;
        self.counted.ports.insert(packet.sport);
        self.counted.qps.insert((packet.dst, packet.dest_qp));
        let first = (packet.psn, 0..0);
        let flow = (packet.src, packet.dst, packet.dest_qp);
        let (last, read) = self.last.entry(flow).or_insert(first);
        self.counted.jumps += u64::from(packet.psn.abs_diff(*last) > FAR);
        *last = packet.psn;
        if packet.opcode == op::READ_REQUEST {
            // The PSNs after the first, at the least.
            *read = packet.psn + 1..packet.psn + u64::from(packet.dma_len.div_ceil(LARGEST_MTU).max(1));
        } else {
            self.counted.overlaps += u64::from(read.contains(&packet.psn));
        }
    }

    /// The whole file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let link_type: u32 = match self.layer {
            Layer::InfiniBand => 197,
            Layer::InfiniBandRaw => 247,
            Layer::Ethernet | Layer::Vlan(..) => 1,
        };
        let mut file = Vec::new();
        let words: &[u32] = match self.format {
            Format::Pcap => &[0xA1B2_3C4D, 0x0004_0002, 0, 0, self.snap, link_type],
            // A section without a length, and an interface with `if_tsresol` 9 (nanoseconds).
            Format::PcapNg => &[
                0x0A0D_0D0A,
                28,
                0x1A2B_3C4D,
                1,
                u32::MAX,
                u32::MAX,
                28,
                1,
                32,
                link_type,
                self.snap,
                0x0001_0009,
                9,
                0,
                32,
            ],
        };
        for word in words {
            file.extend(word.to_le_bytes());
        }
        file.extend(&self.bytes);
        file
    }
}
