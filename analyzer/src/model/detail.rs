//! All figures of one flow, computed on demand.

use super::Identity;
use crate::analysis::{self, Opcode, Port, Ports, Tunnels};
use crate::sample::{Sample, Stats};

/// One flow with all figures that the source has.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Identity of the flow.
    pub id: Identity,
    /// Name of its link.
    pub link: String,
    /// Counters of the flow.
    pub stats: Stats,
    /// UDP source ports, most bytes first. Empty for RoCEv1.
    pub ports: Vec<Port>,
    /// Packets by opcode, most packets first.
    pub opcodes: Box<[Opcode]>,
    /// Queue pair at the sending end.
    pub peer_qp: Option<u32>,
    /// Tunnels around the first packet.
    pub tunnels: Tunnels,
}

impl Detail {
    /// The details of flow number `index` of `sample`; `None` when there is no such flow.
    pub fn new(sample: &Sample, index: usize) -> Option<Self> {
        let flow = sample.flows.get(index)?;
        let stats = flow.stats.clone();
        let extra = sample.extra.get(&flow.slot);
        let mut opcodes = analysis::opcodes(&stats, extra);
        opcodes.sort_by_key(|opcode| std::cmp::Reverse(opcode.packets));
        Some(Self {
            id: Identity { key: flow.key, slot: flow.slot },
            link: sample.links.get(usize::from(flow.key.link)).map_or_else(String::new, |l| l.name.clone()),
            ports: Ports::of(&stats, extra).by_bytes(),
            opcodes,
            peer_qp: peer_qp(sample, index),
            tunnels: Tunnels::of(&stats),
            stats,
        })
    }
}

/// Queue pair at the sending end of flow number `index`, if known.
pub fn peer_qp(sample: &Sample, index: usize) -> Option<u32> {
    analysis::peer(sample, sample.flows.get(index)?).0
}
