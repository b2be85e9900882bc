//! One flow of the report.

use rocescope_common::account::flow::{DSCP_NONE, TRANSPORT_NONE};
use rocescope_common::account::{Disorder, Mixed, Part, PsnTrack};
use rocescope_common::wire::opcode::{CNP, Name, TRANSPORT_UC};

use crate::analysis::{
    Ack, Flow, LastNaks, Loss, MAX_PORTS, MixedIn, Naks, Opcode, Port, Psn, Tunnels, device, ecn, latency,
};
use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::loss::{self, is_in_vain};
use crate::sample::{Extra, FlowSample, Sample, Stats, address};
use crate::util::packed_option::PackedOption;
use crate::util::shared::Shared;

impl Flow {
    /// True if the flow belongs to an unreliable connection (UC), which retransmits nothing.
    pub fn is_uc(&self) -> bool {
        self.opcodes.iter().all(|opcode| opcode.code >> 5 == TRANSPORT_UC)
    }

    /// True if it has requests or responses, and not ACKs, CNPs and datagrams alone.
    pub(crate) const fn has_sequence(&self) -> bool {
        self.psn.is_some() || self.psn_responses.is_some()
    }

    /// True if losses of it would show: in its PSNs, or in a recording, which has losses and no PSNs.
    pub(crate) fn would_show_loss(&self) -> bool {
        self.has_sequence() || self.losses().iter().any(Option::is_some)
    }

    /// A count of the NAKs that travel in it, duplicates excluded; `None` without any ACK or NAK, as of datagrams.
    pub(crate) fn of_answers(&self, count: impl Fn(&Self) -> u64) -> Option<u64> {
        let has_answers = self.ack.acks + self.ack.rnr_naks + self.ack.naks.total() > 0;
        has_answers.then(|| count(self))
    }

    /// Loss of the requests and of the responses; `None` where it is not known.
    pub fn losses(&self) -> [Option<Loss>; 2] {
        [self.loss.get(), self.loss_responses.get()]
    }

    /// Sum of a figure over the loss of the requests and of the responses, as far as it is known.
    pub fn losses_sum(&self, of: impl Fn(&Loss) -> u64) -> u64 {
        // Of what arrived once and in order each figure is 0.
        self.troubles().map(of).sum()
    }

    /// Loss of the requests and of the responses, where not everything arrived once and in order.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = &Loss> {
        [&self.loss, &self.loss_responses].into_iter().filter_map(|loss| loss.other())
    }

    /// Packets that the capture shows twice.
    pub fn duplicates(&self) -> DuplicateCounts {
        self.duplicates.as_deref().copied().unwrap_or_default()
    }

    /// Bytes, each packet once though the capture may show some twice.
    pub fn bytes_dedup(&self) -> u64 {
        self.bytes.saturating_sub(self.duplicates().bytes)
    }

    /// RNR NAKs, each once though the capture may show some twice.
    pub fn rnr_naks_dedup(&self) -> u64 {
        self.ack.rnr_naks.saturating_sub(self.duplicates().rnr_naks)
    }

    /// NAKs by code, duplicates excluded.
    pub fn naks_dedup(&self) -> Naks {
        less(self.ack.naks.codes(), self.duplicates().naks).into()
    }

    /// CNPs, duplicates excluded.
    pub fn cnps_dedup(&self) -> u64 {
        self.cnp_packets.saturating_sub(self.duplicates().cnp_packets)
    }

    /// True if its sender has retried the same request in vain.
    pub fn is_retried_in_vain(&self) -> bool {
        self.loss.other().is_some_and(|loss| is_in_vain(loss.stuck.or_zero()))
    }

    /// The packets that its figures of loss are about, each once: a mirror may show some twice.
    pub fn followed_packets(&self) -> u64 {
        let mirrored = self.losses_sum(|loss| loss.mirrored.or_zero());
        // Those of requests and responses are among them.
        let duplicates = self.duplicates();
        let duplicates = mirrored + duplicates.packets
            - (duplicates.requests + duplicates.responses).min(duplicates.packets);
        self.packets
            .saturating_sub(self.loss_unfollowed.as_ref().map_or(0, |before| before.packets) + duplicates)
    }
}

/// Counts without those of duplicates.
pub(super) fn less<const N: usize>(counts: [u64; N], duplicates: [u64; N]) -> [u64; N] {
    std::array::from_fn(|i| counts[i].saturating_sub(duplicates[i]))
}

#[expect(clippy::too_many_lines, reason = "a literal with all fields of a flow")]
pub(super) fn build(sample: &Sample, flow: &FlowSample, names: &[Shared]) -> Flow {
    let FlowSample { key, stats, .. } = flow;
    let extra = sample.extra.get(&flow.slot);
    let duplicates = sample.duplicates(flow.slot);
    let latency = sample.metrics.latency.as_ref().and_then(|latency| latency.get(flow.slot));
    // A recording has the samples alone.
    let timed = latency.filter(|_| sample.recording.is_none());
    let owned = sample.owned(flow);
    let (peer_qp, pairing) = latency::peer(sample, flow);
    let link = sample.links.get(usize::from(key.link));
    let loss = sample.metrics.loss.as_ref();
    let (requests_known, responses_known) = loss.map_or((false, false), |loss| loss.is_known(flow.slot));
    let last_naks_ns = loss.map(|loss| LastNaks::of(&loss.naks(flow.slot), stats)).into();
    let intervals = loss.and_then(|loss| loss.intervals.flows.get(&flow.slot));
    let loss = loss.map(|loss| loss.flow(flow.slot));
    let sequence = |of: Option<&loss::Metrics>| match (of, &sample.recording) {
        (Some(sums), Some(_)) => Loss::recorded(sums),
        (of, _) => Loss::of(of),
    };
    let ports = Ports::of(stats, extra);
    let lost_ports = sample.lacks_ports(key.link) && ports.missing_packets > 0;
    let src_port_count = (!lost_ports).then_some(ports.seen.len() as u64);
    let mut ports = ports.by_bytes();
    ports.truncate(MAX_PORTS);
    Flow {
        link: names.get(usize::from(key.link)).cloned().unwrap_or_default(),
        direction: link.and_then(|link| link.direction),
        src: address(key.family, key.src),
        dst: address(key.family, key.dst),
        dest_qp: key.dest_qp,
        roce_version: (stats.roce_version != 0).then_some(stats.roce_version),
        src_port_count: src_port_count.into(),
        src_ports: ports.into(),
        vlan: stats.vlan_id(),
        inner_vlan: stats.inner_vlan_id(),
        pcp: stats.priority(),
        service_level: stats.lane().map(|lane| lane.service_level),
        virtual_lane: stats.lane().map(|lane| lane.virtual_lane),
        dscp: (stats.dscp != DSCP_NONE).then_some(stats.dscp),
        encapsulation: Tunnels::of(stats),
        mixed: MixedIn::of(stats),
        path_mtu: (stats.mtu != 0).then_some(stats.mtu),
        packets: stats.packets,
        bytes: stats.bytes,
        inner_bytes: (stats.encap != 0 || stats.mixed & Mixed::ENCAPSULATION != 0)
            .then_some(stats.seldom.inner_bytes)
            .into(),
        payload_bytes: stats.payload_bytes,
        payload_unknown: stats.rare.payload_unknown,
        first_ns: stats.first_ns,
        last_ns: stats.last_ns,
        ecn: sample.recording.is_none().then(|| stats.ecn()).into(),
        data: Some(less(stats.ecn_data, duplicates.ecn_data)).into(),
        duplicates: duplicates.if_any(),
        ce_over_time: ecn::flow(sample, flow.slot).map(Box::new),
        cnp_packets: stats.cnp_packets,
        // Made where all flows are known.
        cnp: None,
        opcodes: opcodes(stats, extra).into(),
        ack: Ack {
            acks: stats.acks,
            rnr_naks: stats.rare.rnr_naks,
            naks: Naks::from(stats.rare.naks).into(),
            unknown: stats.rare.ack_unknown,
        },
        last_naks_ns,
        psn: psn(&stats.psn).into(),
        psn_responses: psn(&stats.rare.psn_responses).map(Box::new),
        responses_missing: (stats.rare.psn_responses.seen != 0).then_some(stats.rare.response_holes).into(),
        latency_ns: latency.and_then(|figure| figure.all).map(Box::new),
        latency_by_class: latency.and_then(latency::by_class).map(Box::new),
        message_completion_ns: latency.and_then(latency::completions).map(Box::new),
        latency_range_ns: sample
            .recording
            .as_ref()
            .and_then(|of| of.latency_ranges.get(&flow.slot).copied())
            .map(Box::new),
        latency_unpaired: timed.map(|figure| figure.unpaired).into(),
        latency_untimed: timed.map(latency::untimed).into(),
        pause_stall_ns: device::stalled(sample, flow).into(),
        peer_qp,
        pairing,
        loss: loss
            .filter(|_| requests_known && (stats.psn.seen != 0 || !sample.has_psns()))
            .map(|loss| sequence(loss.requests.as_ref()))
            .into(),
        loss_responses: loss
            .filter(|_| responses_known && (stats.rare.psn_responses.seen != 0 || !sample.has_psns()))
            .map(|loss| sequence(loss.responses.as_ref()))
            .into(),
        loss_unfollowed: loss.filter(|_| requests_known).and_then(|loss| loss.unfollowed).map(Box::new),
        // Made where all flows are known.
        lost_upstream: PackedOption::default(),
        spray: None,
        icrc: sample.metrics.icrc.as_ref().map(|icrc| icrc.flow(flow.slot, stats.packets)).into(),
        pid: owned.and_then(|owned| owned.owner.pid),
        comm: owned.and_then(|owned| owned.owner.comm.as_deref().map(Into::into)),
        pod: owned.and_then(|owned| owned.owner.pod.as_deref().map(Into::into)),
        transport: stats.transport,
        slot: flow.slot,
        intervals: intervals.cloned().unwrap_or_default(),
    }
}

/// The UDP source ports of a flow.
pub(crate) struct Ports {
    /// Those that are known, in no order.
    pub(super) seen: Vec<Port>,
    /// RoCEv2 packets whose port is not among them.
    pub(super) missing_packets: u64,
    /// Their bytes; `None` when RoCEv1 packets, which have no port, cannot be separated from them.
    pub(super) missing_bytes: Option<u64>,
}

impl Ports {
    pub(crate) fn of(stats: &Stats, extra: Option<&Extra>) -> Self {
        if stats.roce_version == 0 {
            return Self { seen: Vec::new(), missing_packets: 0, missing_bytes: Some(0) };
        }
        // Packets without a port count as "other port" too, and only their packets are known
        // apart: every RoCEv2 packet, and no RoCEv1 packet, is counted by its ECN bits.
        let without_port = stats.packets.saturating_sub(stats.ecn().iter().sum());
        let mut seen = Vec::new();
        if stats.first_port_packets() > 0 {
            seen.push(Port {
                port: stats.src_port,
                packets: stats.first_port_packets(),
                bytes: stats.first_port_bytes(),
            });
        }
        let (mut packets, mut bytes) = (0, 0);
        for &(port, counter) in extra.into_iter().flat_map(|extra| &extra.ports) {
            packets += counter.packets;
            bytes += counter.bytes;
            seen.push(Port { port, packets: counter.packets, bytes: counter.bytes });
        }
        let missing_packets =
            stats.seldom.other_port_packets.saturating_sub(without_port).saturating_sub(packets);
        let missing_bytes = match (missing_packets, without_port) {
            (0, _) => Some(0),
            (_, 0) => Some(stats.seldom.other_port_bytes.saturating_sub(bytes)),
            _ => None,
        };
        Self { seen, missing_packets, missing_bytes }
    }

    /// Those that are known, the one with most bytes first.
    pub(crate) fn by_bytes(self) -> Vec<Port> {
        let mut seen = self.seen;
        seen.sort_by_key(|port| (std::cmp::Reverse(port.bytes), port.port));
        seen
    }
}

/// Opcodes that most flows have, at most.
const MOST_OPCODES: usize = 12;

/// The opcodes of a flow, by code.
pub(crate) fn opcodes(stats: &Stats, extra: Option<&Extra>) -> Box<[Opcode]> {
    let mut all = Vec::with_capacity(MOST_OPCODES);
    let mut add = |code: u8, packets: u64| {
        if packets > 0 {
            all.push(Opcode { code, name: Name(code), packets });
        }
    };
    if stats.transport != TRANSPORT_NONE {
        stats.opcodes.iter().for_each(|(low, packets)| add(stats.transport << 5 | low, packets));
    }
    add(CNP, stats.cnps_of_roce());
    for (code, packets) in extra.into_iter().flat_map(|extra| &extra.opcodes) {
        add(*code, *packets);
    }
    all.sort_unstable_by_key(|opcode| opcode.code);
    all.dedup_by(|more, kept| {
        let same = more.code == kept.code;
        kept.packets += if same { more.packets } else { 0 };
        same
    });
    // The list takes no more memory than it needs.
    all.into_boxed_slice()
}

fn psn(track: &PsnTrack<impl Part<Disorder>>) -> Option<Psn> {
    (track.seen != 0).then_some(Psn {
        first: track.first,
        expected: track.expected,
        repeats: track.repeats,
        gaps: track.gaps,
        missing: track.missing,
        restarts: track.restarts,
    })
}
