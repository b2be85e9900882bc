//! All figures of one flow, computed on demand.

use rocescope_common::abi::Counter;
use rocescope_common::account::flow::{SRC_QP_SEVERAL, TRANSPORT_NONE};
use rocescope_common::wire::frame::{Encap, UNKNOWN};
use rocescope_common::wire::opcode::CNP;

use super::Identity;
use crate::sample::{PeerKey, Sample, Stats};

/// One flow with all figures that the source has.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Identity of the flow.
    pub id: Identity,
    /// Name of its link.
    pub link: String,
    /// Counters of the flow.
    pub stats: Stats,
    /// Packets and bytes by source port, most bytes first. Empty for RoCEv1.
    pub ports: Vec<(u16, Counter)>,
    /// Packets by opcode, most packets first.
    pub opcodes: Vec<(u8, u64)>,
    /// Queue pair at the sending end.
    pub peer_qp: Option<u32>,
    /// Tunnels around the first packet, the outermost first.
    pub encapsulation: Vec<&'static str>,
}

impl Detail {
    /// The details of flow number `index` of `sample`; `None` when there is no such flow.
    pub fn new(sample: &Sample, index: usize) -> Option<Self> {
        let flow = sample.flows.get(index)?;
        let stats = flow.stats.clone();
        let extra = sample.extra.get(&flow.slot);

        let first = Counter { packets: stats.first_port_packets(), bytes: stats.first_port_bytes() };
        let mut ports = Vec::new();
        if first.packets > 0 && stats.roce_version == 2 {
            ports.push((stats.src_port, first));
        }
        ports.extend(extra.iter().flat_map(|e| &e.ports).copied());
        ports.sort_by_key(|(port, c)| (std::cmp::Reverse(c.bytes), *port));

        let mut opcodes: Vec<(u8, u64)> = Vec::new();
        if stats.transport != TRANSPORT_NONE {
            opcodes
                .extend(stats.opcodes.iter().map(|(low, packets)| ((stats.transport << 5) | low, packets)));
        }
        if stats.cnps_of_roce() > 0 {
            opcodes.push((CNP, stats.cnps_of_roce()));
        }
        opcodes.extend(extra.iter().flat_map(|e| &e.opcodes).copied());
        opcodes.sort_by_key(|(code, packets)| (std::cmp::Reverse(*packets), *code));

        Some(Self {
            id: Identity { key: flow.key, slot: flow.slot },
            link: sample.links.get(usize::from(flow.key.link)).map_or_else(String::new, |l| l.name.clone()),
            ports,
            opcodes,
            peer_qp: peer_qp(sample, index),
            encapsulation: encapsulation(stats.encap),
            stats,
        })
    }
}

/// Queue pair at the sending end of flow number `index`, if known.
pub fn peer_qp(sample: &Sample, index: usize) -> Option<u32> {
    let flow = sample.flows.get(index)?;
    if let Some(qp) = sample.owned(flow).and_then(|owned| owned.peer_qp) {
        return Some(qp);
    }
    if let Some(pair) = sample.metrics.pairs.as_ref().and_then(|pairs| pairs.get(&flow.slot)) {
        return pair.peer_qp;
    }
    match flow.stats.src_qp {
        UNKNOWN | SRC_QP_SEVERAL => sample.peers.get(&PeerKey::of(&flow.key)).copied(),
        qp => Some(qp),
    }
}

/// The tunnels in [`Stats::encap`], outermost first.
pub fn encapsulation(encap: u32) -> Vec<&'static str> {
    encap.to_le_bytes().into_iter().filter_map(Encap::from_byte).map(Encap::name).collect()
}
