//! Flows and their counters.

use super::outcome::{Event, Outcome, PackedOutcome};
use super::part::{Part, in_place};
use super::psn::{Disorder, PsnTrack, Span, Step};
use crate::wire::bth::GSI_QP;
use crate::wire::frame::{Addr, Frame, PCP_NONE, UNKNOWN, VLAN_UNKNOWN};
use crate::wire::infiniband::{Lane, TOS_BECN};
use crate::wire::opcode::Op;

/// One direction of a queue pair on one link. The UDP source port is not part of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FlowKey {
    /// Source address in wire byte order; IPv4 in the last word, the others 0.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// Index of the link (interface and direction) in the run's table of links.
    pub link: u16,
    /// IP version of the addresses, 4 or 6, or [`FAMILY_LID`](crate::wire::frame::FAMILY_LID).
    pub family: u8,
    /// Always 0 in keys of flows, which are compared bytewise. In a kernel slot 1 marks a flow that is not
    /// in the hash.
    pub pad: u8,
}

impl FlowKey {
    /// The flow that `frame` belongs to on `link`.
    #[inline(always)]
    pub const fn of(frame: &Frame, link: u16) -> Self {
        Self { src: frame.src, dst: frame.dst, dest_qp: frame.dest_qp, link, family: frame.family, pad: 0 }
    }
}

/// Properties in which a later packet differed from the flow's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixed;

impl Mixed {
    /// The outermost VLAN id.
    pub const VLAN: u8 = 1;
    /// The second VLAN id.
    pub const INNER_VLAN: u8 = 1 << 1;
    /// The priority code point.
    pub const PCP: u8 = 1 << 2;
    /// DSCP of the packet.
    pub const DSCP: u8 = 1 << 3;
    /// The tunnels around the packet.
    pub const ENCAPSULATION: u8 = 1 << 4;
    /// RoCE version of the packet.
    pub const ROCE_VERSION: u8 = 1 << 5;

    /// Names in reports, by bit.
    pub const NAMES: [(u8, &'static str); 6] = [
        (Self::VLAN, "vlan"),
        (Self::INNER_VLAN, "inner_vlan"),
        (Self::PCP, "pcp"),
        (Self::DSCP, "dscp"),
        (Self::ENCAPSULATION, "encapsulation"),
        (Self::ROCE_VERSION, "roce_version"),
    ];
}

/// DSCP of a flow without an IP header (RoCEv1).
pub const DSCP_NONE: u8 = u8::MAX;
/// [`FlowStats::src_qp`]: datagrams came from several source queue pairs.
pub const SRC_QP_SEVERAL: u32 = UNKNOWN - 1;
/// [`FlowStats::transport`]: only CNPs so far.
pub const TRANSPORT_NONE: u8 = u8::MAX;
/// Maximum gap in nanoseconds between CE marks of one burst.
pub const CE_BURST_GAP_NS: u64 = 10_000_000;

/// Opcodes counted per flow, by their low five bits. The two values above are reserved in every transport;
/// they are counted in the overflow table.
pub const OPCODES: usize = 30;

/// Counters of one flow as a kernel map has them. The default is all zero, so that fresh map memory is
/// valid.
pub type FlowStats = FlowCounters<[u64; OPCODES], Rare, Seldom, Disorder>;

/// Packets by opcode in whatever form: all places in a kernel map, those in use elsewhere.
pub trait OpcodeCounts {
    /// Counts a packet by the low five bits of its opcode. False: there is no place for it, see [`OPCODES`].
    fn count(&mut self, low: usize) -> bool;
}

impl OpcodeCounts for [u64; OPCODES] {
    #[inline(always)]
    fn count(&mut self, low: usize) -> bool {
        let Some(packets) = self.get_mut(low) else { return false };
        *packets += 1;
        true
    }
}

in_place!(Rare Seldom);

/// Counters of flows with several source ports, in tunnels, or with CE marks: more flows than those with [`Rare`]
/// counters, and nearer to the front of a kernel slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seldom {
    /// Packets with a source port other than `src_port`; the overflow table has them by port.
    pub other_port_packets: u64,
    /// Bytes of the packets in `other_port_packets`.
    pub other_port_bytes: u64,
    /// 14 + inner IP length of encapsulated packets.
    pub inner_bytes: u64,
    /// Latest packet marked CE; 0 for none.
    pub last_ce_ns: u64,
}

/// Counters that most flows never need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rare {
    /// Packets with unknown payload length.
    pub payload_unknown: u64,
    /// Packets whose opcode has no place in `opcodes`, without CNPs; they are in the overflow table.
    pub other_opcode_packets: u64,
    /// Number of RNR NAKs.
    pub rnr_naks: u64,
    /// NAKs by code 0 to 4 (0: PSN sequence error); all other codes last.
    pub naks: [u64; 6],
    /// Packets whose AETH is cut off or has the reserved type.
    pub ack_unknown: u64,
    /// PSN sequence of READ responses and atomic acknowledgements.
    pub psn_responses: PsnTrack,
    /// Of the PSNs skipped by responses, those that are certainly missing: see [`Outcome::missing`].
    pub response_holes: u64,
}

impl Rare {
    /// Counters of a flow that has none of these: all zero.
    pub const NONE: Self = Self {
        payload_unknown: 0,
        other_opcode_packets: 0,
        rnr_naks: 0,
        naks: [0; 6],
        ack_unknown: 0,
        psn_responses: PsnTrack::NONE,
        response_holes: 0,
    };

    /// The PSN sequence of responses, restricted to certain gaps: at most one gap per missing PSN.
    pub fn responses_missing(&self) -> PsnTrack {
        let gaps = self.psn_responses.gaps.min(self.response_holes);
        let disorder = Disorder { gaps, missing: self.response_holes, ..*self.psn_responses };
        PsnTrack { disorder, ..self.psn_responses }
    }
}

/// Counters of one flow, with opcodes and rare counters in the form that their place needs.
///
/// Fields are ordered by use: those that every packet reads or writes come first, so that a packet touches
/// few cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FlowCounters<O, R, S, D> {
    /// Packets of every kind. 0: no packet yet.
    pub packets: u64,
    /// Outer frames' lengths without FCS.
    pub bytes: u64,
    /// Payload bytes of packets with known payload length.
    pub payload_bytes: u64,
    /// Earliest packet, in the run's clock.
    pub first_ns: u64,
    /// Latest packet, in the run's clock.
    pub last_ns: u64,
    /// Path MTU: payload of the latest FIRST or MIDDLE packet of a SEND or WRITE; 0 if unknown.
    pub mtu: u32,
    /// Source queue pair of datagrams: [`UNKNOWN`] without datagrams, [`SRC_QP_SEVERAL`].
    pub src_qp: u32,
    /// Tunnels around the first packet, see [`Frame::encap`].
    pub encap: u32,
    /// UDP source port of the first packet.
    pub src_port: u16,
    /// Outermost VLAN id of the first packet.
    pub vlan: u16,
    /// Second VLAN id of the first packet; of InfiniBand its [`Lane`].
    pub inner_vlan: u16,
    /// Priority code point of the first packet.
    pub pcp: u8,
    /// DSCP of the first packet, or [`DSCP_NONE`].
    pub dscp: u8,
    /// Properties that changed later: bits of [`Mixed`].
    pub mixed: u8,
    /// RoCE version of the first packet; 0 for InfiniBand.
    pub roce_version: u8,
    /// Upper three bits of the opcodes counted in `opcodes`, or [`TRANSPORT_NONE`].
    pub transport: u8,
    /// 1 while a response message is incomplete (the latest response was not its LAST or ONLY packet), else
    /// 0.
    pub response_open: u8,
    /// PSN sequence of requests.
    pub psn: PsnTrack<D>,
    /// Bytes of the outer frames, without CNP and ACKNOWLEDGE packets.
    pub data_bytes: u64,
    /// The same packets by IP ECN codepoint. The third cache line of a kernel slot ends before the CE
    /// counter.
    pub ecn_data: [u64; 4],
    /// CNP and ACKNOWLEDGE packets by IP ECN codepoint.
    pub ecn_control: [u64; 4],
    /// Counters that many flows never need.
    pub seldom: S,
    /// AETHs that acknowledge (neither NAK nor RNR NAK).
    pub acks: u64,
    /// Congestion notification packets; of InfiniBand also ACKs with BECN.
    pub cnp_packets: u64,
    /// Packets by the low five bits of the opcode, for the transport `transport`; see [`OPCODES`].
    pub opcodes: O,
    /// Counters that most flows never need.
    pub rare: R,
}

impl<O, R, S, D: Part<Disorder>> FlowCounters<O, R, S, D> {
    /// The same with its parts in another form.
    #[must_use]
    pub fn with_parts<P, Q, T, E: From<Disorder>>(
        &self,
        opcodes: P,
        rare: Q,
        seldom: T,
    ) -> FlowCounters<P, Q, T, E> {
        FlowCounters {
            packets: self.packets,
            bytes: self.bytes,
            payload_bytes: self.payload_bytes,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            mtu: self.mtu,
            src_qp: self.src_qp,
            encap: self.encap,
            src_port: self.src_port,
            vlan: self.vlan,
            inner_vlan: self.inner_vlan,
            pcp: self.pcp,
            dscp: self.dscp,
            mixed: self.mixed,
            roce_version: self.roce_version,
            transport: self.transport,
            response_open: self.response_open,
            psn: self.psn.form(),
            data_bytes: self.data_bytes,
            ecn_data: self.ecn_data,
            ecn_control: self.ecn_control,
            seldom,
            acks: self.acks,
            cnp_packets: self.cnp_packets,
            opcodes,
            rare,
        }
    }

    /// All packets by ECN codepoint: not-ECT, ECT(1), ECT(0), CE. All zero for RoCEv1.
    pub fn ecn(&self) -> [u64; 4] {
        core::array::from_fn(|i| self.ecn_data[i] + self.ecn_control[i])
    }
}

const ECN_CE: usize = 3;

/// Counts one packet of a flow, in the kernel programs and in replay. `now`: time of the packet in
/// nanoseconds.
#[inline(always)]
pub fn observe<O: OpcodeCounts, R: Part<Rare>, S: Part<Seldom>, D: Part<Disorder>>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    now: u64,
) -> Outcome {
    let mut outcome = PackedOutcome::NONE;
    observe_into(stats, frame, now, &mut outcome);
    outcome.unpack()
}

/// The same, with the outcome in the caller's memory: few packets write to it again, and kernel programs have few
/// registers.
#[inline(always)]
pub fn observe_into<O: OpcodeCounts, R: Part<Rare>, S: Part<Seldom>, D: Part<Disorder>>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    now: u64,
    outcome: &mut PackedOutcome,
) {
    let op = Op::of(frame.opcode);
    *outcome = PackedOutcome::NONE;

    if stats.packets == 0 {
        outcome.event(Event::NEW_FLOW);
        first(stats, frame, now);
    } else {
        later(stats, frame, now, outcome);
    }
    stats.packets += 1;
    stats.bytes += u64::from(frame.wire_len);
    // Not a cache line more for a sum that stays 0.
    if frame.inner_bytes != 0 {
        stats.seldom.part_mut().inner_bytes += u64::from(frame.inner_bytes);
    }
    if frame.payload == UNKNOWN {
        stats.rare.part_mut().payload_unknown += 1;
    } else {
        stats.payload_bytes += u64::from(frame.payload);
    }

    if frame.roce_version != 1 {
        ecn(stats, frame, op, now, outcome);
    }
    if frame.roce_version != 2 || frame.src_port != stats.src_port || stats.roce_version != 2 {
        let seldom = stats.seldom.part_mut();
        seldom.other_port_packets += 1;
        seldom.other_port_bytes += u64::from(frame.wire_len);
        if frame.roce_version == 2 {
            outcome.bits |= PackedOutcome::OTHER_PORT;
        }
    }

    opcode(stats, frame, op, outcome);
    if op.any(Op::REQUEST | Op::RESPONSE) {
        sequence(stats, frame, op, outcome);
    }
    if op.has(Op::AETH) {
        aeth(stats, frame, outcome);
    }
    if op.has(Op::DETH) {
        datagram(stats, frame, outcome);
    }
}

/// Counts a packet directly behind another in the middle of a message, as [`observe`] does: both are of RoCEv2, in no
/// tunnel, not marked CE, of a known payload, leave nothing to do ([`Outcome::NONE`]) and differ in their PSN alone,
/// which is the next one. `now`: its time.
#[inline(always)]
pub fn observe_next<O: OpcodeCounts, R: Part<Rare>, S, D>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    now: u64,
) {
    times(stats, now);
    stats.packets += 1;
    stats.bytes += u64::from(frame.wire_len);
    stats.payload_bytes += u64::from(frame.payload);
    stats.ecn_data[usize::from(frame.tos & 3)] += 1;
    stats.data_bytes += u64::from(frame.wire_len);
    stats.opcodes.count(usize::from(frame.opcode & 0x1F));
    if Op::of(frame.opcode).has(Op::RESPONSE) {
        stats.rare.part_mut().psn_responses.next();
    } else {
        stats.psn.next();
    }
}

#[inline(always)]
fn first<O, R, S, D>(stats: &mut FlowCounters<O, R, S, D>, frame: &Frame, now: u64) {
    stats.first_ns = now;
    stats.last_ns = now;
    stats.src_port = frame.src_port;
    stats.vlan = frame.vlan;
    stats.inner_vlan = frame.inner_vlan;
    stats.pcp = frame.pcp;
    stats.dscp = dscp(frame);
    stats.encap = frame.encap;
    stats.roce_version = frame.roce_version;
    stats.transport = TRANSPORT_NONE;
    stats.src_qp = UNKNOWN;
}

#[inline(always)]
fn dscp(frame: &Frame) -> u8 {
    if frame.roce_version == 2 { frame.tos >> 2 } else { DSCP_NONE }
}

#[inline(always)]
fn times<O, R, S, D>(stats: &mut FlowCounters<O, R, S, D>, now: u64) {
    if now > stats.last_ns {
        stats.last_ns = now;
    } else if now < stats.first_ns {
        stats.first_ns = now;
    }
}

#[inline(always)]
fn later<O, R, S, D>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    now: u64,
    outcome: &mut PackedOutcome,
) {
    times(stats, now);
    if frame.vlan != stats.vlan {
        stats.mixed |= Mixed::VLAN;
    }
    if frame.inner_vlan != stats.inner_vlan {
        stats.mixed |= Mixed::INNER_VLAN;
    }
    if frame.pcp != stats.pcp {
        stats.mixed |= Mixed::PCP;
    }
    if dscp(frame) != stats.dscp {
        stats.mixed |= Mixed::DSCP;
        if frame.roce_version == 2 {
            outcome.bits |= PackedOutcome::OTHER_DSCP;
        }
    }
    if frame.encap != stats.encap {
        stats.mixed |= Mixed::ENCAPSULATION;
    }
    if frame.roce_version != stats.roce_version {
        stats.mixed |= Mixed::ROCE_VERSION;
    }
}

#[inline(always)]
fn ecn<O, R, S: Part<Seldom>, D>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    op: Op,
    now: u64,
    outcome: &mut PackedOutcome,
) {
    let mark = usize::from(frame.tos & 3);
    if op.any(Op::CNP | Op::ACKNOWLEDGE) {
        stats.ecn_control[mark] += 1;
    } else {
        stats.ecn_data[mark] += 1;
        stats.data_bytes += u64::from(frame.wire_len);
        if mark == ECN_CE {
            let last_ce_ns = &mut stats.seldom.part_mut().last_ce_ns;
            if *last_ce_ns == 0 || now.wrapping_sub(*last_ce_ns) > CE_BURST_GAP_NS {
                outcome.event(Event::CE);
            }
            *last_ce_ns = now;
        }
    }
}

#[inline(always)]
fn opcode<O: OpcodeCounts, R: Part<Rare>, S, D>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    op: Op,
    outcome: &mut PackedOutcome,
) {
    if op.has(Op::CNP) {
        stats.cnp_packets += 1;
        outcome.event(Event::CNP);
        // On InfiniBand an ACK may count in `cnp_packets`, too: the opcode is counted by itself.
        if frame.roce_version == 0 {
            outcome.bits |= PackedOutcome::OTHER_OPCODE;
            stats.rare.part_mut().other_opcode_packets += 1;
        }
        return;
    }
    let transport = frame.opcode >> 5;
    if stats.transport == TRANSPORT_NONE {
        stats.transport = transport;
    }
    if stats.transport != transport || !stats.opcodes.count(usize::from(frame.opcode & 0x1F)) {
        stats.rare.part_mut().other_opcode_packets += 1;
        outcome.bits |= PackedOutcome::OTHER_OPCODE;
    }
}

#[inline(always)]
fn sequence<O, R: Part<Rare>, S, D: Part<Disorder>>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    op: Op,
    outcome: &mut PackedOutcome,
) {
    if op.has(Op::FULL_MTU) && frame.payload != UNKNOWN && frame.payload != 0 {
        stats.mtu = frame.payload;
    }
    // Response messages need not have consecutive PSNs, so message boundaries decide whether a jump is a
    // gap.
    let (mut over, mut begins) = (false, false);
    let step = if op.has(Op::RESPONSE) {
        (over, begins) = (stats.response_open == 0, op.has(Op::STARTS));
        stats.response_open = u8::from(!op.has(Op::ENDS));
        stats.rare.part_mut().psn_responses.observe(frame.psn, Span::ONE)
    } else {
        let span = if op.has(Op::READ_REQUEST) { Span::of_read(frame.dma_len, stats.mtu) } else { Span::ONE };
        stats.psn.observe(frame.psn, span)
    };
    match step {
        Step::Gap(missing) => {
            outcome.missing = missing;
            if !(over && begins) {
                let edge = (over || begins) && missing > 1;
                outcome.event(Event::GAP | if edge { Event::EDGE } else { 0 });
                if op.has(Op::RESPONSE) {
                    stats.rare.part_mut().response_holes += u64::from(if edge { 1 } else { missing });
                }
            }
        }
        Step::Restart => outcome.event(Event::RESTART),
        Step::Duplicate => outcome.bits |= PackedOutcome::DUPLICATE_PSN,
        Step::InOrder => {}
    }
}

#[inline(always)]
fn aeth<O, R: Part<Rare>, S, D>(
    stats: &mut FlowCounters<O, R, S, D>,
    frame: &Frame,
    outcome: &mut PackedOutcome,
) {
    if frame.aeth == UNKNOWN {
        stats.rare.part_mut().ack_unknown += 1;
        return;
    }
    let syndrome = frame.aeth >> 24;
    match (syndrome >> 5) & 3 {
        0 => {
            stats.acks += 1;
            if frame.roce_version == 0 && frame.tos & TOS_BECN != 0 {
                stats.cnp_packets += 1;
                outcome.event(Event::CNP);
            }
        }
        1 => {
            stats.rare.part_mut().rnr_naks += 1;
            outcome.event(Event::RNR);
        }
        3 => {
            let code = syndrome & 0x1F;
            stats.rare.part_mut().naks[if code < 5 { code as usize } else { 5 }] += 1;
            outcome.event(Event::NAK);
        }
        _ => stats.rare.part_mut().ack_unknown += 1,
    }
}

#[inline(always)]
fn datagram<O, R, S, D>(stats: &mut FlowCounters<O, R, S, D>, frame: &Frame, outcome: &mut PackedOutcome) {
    if frame.dest_qp == GSI_QP {
        outcome.event(Event::GSI);
    }
    if frame.src_qp == UNKNOWN {
        return;
    }
    if stats.src_qp == UNKNOWN {
        stats.src_qp = frame.src_qp;
    } else if stats.src_qp != frame.src_qp {
        stats.src_qp = SRC_QP_SEVERAL;
    }
}

impl<O, R, S: Part<Seldom>, D> FlowCounters<O, R, S, D> {
    /// The outermost VLAN id: 0 for untagged, `None` if unknown.
    pub fn vlan_id(&self) -> Option<u16> {
        (self.vlan != VLAN_UNKNOWN).then_some(self.vlan)
    }

    /// The second VLAN id: 0 without one, `None` if unknown.
    pub fn inner_vlan_id(&self) -> Option<u16> {
        (self.inner_vlan != VLAN_UNKNOWN && self.roce_version != 0).then_some(self.inner_vlan)
    }

    /// Service level and virtual lane of the first packet; `None` without a link layer of InfiniBand.
    pub fn lane(&self) -> Option<Lane> {
        (self.roce_version == 0).then(|| Lane::of(self.inner_vlan))
    }

    /// The priority code point; `None` without a tag.
    pub fn priority(&self) -> Option<u8> {
        (self.pcp != PCP_NONE).then_some(self.pcp)
    }

    /// Packets of the opcode [`CNP`](crate::wire::opcode::CNP); those of InfiniBand are in the overflow table.
    pub const fn cnps_of_roce(&self) -> u64 {
        if self.roce_version == 0 { 0 } else { self.cnp_packets }
    }

    /// Packets with the source port `src_port`.
    pub fn first_port_packets(&self) -> u64 {
        self.packets.saturating_sub(self.seldom.part().other_port_packets)
    }

    /// Bytes of the packets with the source port `src_port`.
    pub fn first_port_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.seldom.part().other_port_bytes)
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
