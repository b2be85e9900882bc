//! Captures: packets at a point of the simulation, as files.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::frame::{self, Addr, Layer};
use super::packet::{Body, CE, Packet, SYNDROME_NAK, SYNDROME_RNR, op};

/// Unix time at the start of simulations.
pub(crate) const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// Counts of the packets at a tap.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// RoCE packets.
    pub packets: u64,
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
    /// Captures only this time range of the simulation.
    pub(crate) range: (u64, u64),
    /// Rate of packets that the capture misses, in ppm.
    pub(crate) misses_ppm: u32,
    pub(crate) counted: Counted,
    /// PSNs seen, by flow.
    passed: HashMap<(usize, usize, u32), HashSet<u64>>,
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
            range: (0, u64::MAX),
            misses_ppm: 0,
            counted: Counted::default(),
            passed: HashMap::new(),
            bytes: Vec::new(),
        }
    }

    pub(crate) fn record(&mut self, now: u64, packet: &Packet, ends: (Addr, Addr)) {
        if now < self.range.0 || now >= self.range.1 {
            return;
        }
        self.count(packet);
        let time = EPOCH_NS + now + self.ahead_ns;
        let mut bytes = Vec::with_capacity(self.snap as usize);
        let len = frame::write(packet, ends, self.layer, self.snap, &mut bytes);
        let infiniband = self.layer == Layer::InfiniBand;
        let head = if infiniband { erf(time, len) } else { Vec::new() };
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

    fn count(&mut self, packet: &Packet) {
        if packet.body != Body::Roce {
            return;
        }
        let counted = &mut self.counted;
        counted.packets += 1;
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
    }

    /// The whole file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let link_type: u32 = if self.layer == Layer::InfiniBand { 197 } else { 1 };
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

/// The record header of ERF, type 21 for InfiniBand: time in units of 2^-32 s, lengths.
fn erf(time: u64, len: u32) -> Vec<u8> {
    let fraction = ((u128::from(time % 1_000_000_000) << 32) / 1_000_000_000) as u64;
    let mut head = ((time / 1_000_000_000) << 32 | fraction).to_le_bytes().to_vec();
    head.extend([21, 4]);
    head.extend((len as u16 + 16).to_be_bytes());
    head.extend([0, 0]);
    head.extend((len as u16).to_be_bytes());
    head
}
