//! Pairs of hosts with what they lost, for the overview: those with most trouble, and those with most traffic.

use hashbrown::HashMap;
use rocescope_common::wire::frame::Addr;

use crate::analysis::Overlap;
use crate::model::{Counts, Delta, FlowVerdicts, Judged, Model, Row, dedup};
use crate::sample::{Address, address};

type State = foldhash::fast::RandomState;

/// Pairs kept for each of trouble and traffic.
const KEPT: usize = 64;

/// One host that sends to another, each packet once.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Source.
    pub src: Address,
    /// Destination.
    pub dst: Address,
    /// Queue pairs.
    pub flows: usize,
    /// What it counted in the time range, or while that is not known since the start.
    pub counts: Counts,
    /// Length of the time range in seconds; `None` while it is not known.
    pub seconds: Option<f64>,
    /// Place of its first row in the model.
    pub row: usize,
    /// The link of its rows; `None` where they are on several.
    pub link: Option<u16>,
    /// The findings that name its flows.
    pub judged: Judged,
}

impl Peer {
    fn trouble(&self) -> u64 {
        let Counts { lost, repeats, rnr, cnp, .. } = self.counts;
        lost.saturating_mul(1_000)
            + (repeats + rnr + self.counts.naks()).saturating_mul(10)
            + cnp
            + self.counts.ecn_data[3]
    }
}

/// The pairs of hosts, in no order.
pub(in crate::tui) fn of(model: &Model, overlap: &Overlap) -> Vec<Peer> {
    let mut places: HashMap<(u8, Addr, Addr), usize, State> = HashMap::default();
    let mut peers: Vec<Peer> = Vec::new();
    let rows: &[Row] = &model.rows;
    let mut number = 0;
    // Rows come in their order, or where they are merged in any.
    let mut index: HashMap<crate::model::Identity, usize, State> = HashMap::default();
    if !overlap.is_empty() {
        index = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    }
    dedup::each(rows.iter(), overlap, |seen| {
        let key = &seen.row.id.key;
        let row = if overlap.is_empty() { number } else { index.get(&seen.row.id).copied().unwrap_or(0) };
        number += 1;
        let place = *places.entry((key.family, key.src, key.dst)).or_insert_with(|| {
            peers.push(Peer {
                src: address(key.family, key.src),
                dst: address(key.family, key.dst),
                flows: 0,
                counts: Counts::default(),
                seconds: None,
                row,
                link: Some(key.link),
                judged: Judged::default(),
            });
            peers.len() - 1
        });
        let Some(peer) = peers.get_mut(place) else { return };
        peer.flows += usize::from(seen.new);
        peer.link = peer.link.filter(|link| *link == key.link);
        match seen.delta {
            Some(Delta { counts, seconds }) => {
                peer.counts.add(&counts);
                peer.seconds = Some(seconds);
            }
            None => peer.counts.add(&seen.total),
        }
    });
    if peers.len() > 2 * KEPT {
        peers.sort_unstable_by_key(|peer| std::cmp::Reverse(peer.trouble()));
        peers[KEPT..].sort_unstable_by_key(|peer| std::cmp::Reverse(peer.counts.bytes));
        peers.truncate(2 * KEPT);
    }
    sort(&mut peers);
    peers
}

/// The worst first: by what findings say, then by what was counted, then by traffic.
fn sort(peers: &mut [Peer]) {
    peers.sort_by_key(|peer| {
        std::cmp::Reverse((peer.judged.active, peer.judged.rank(), peer.trouble(), peer.counts.bytes))
    });
}

/// Looks up the findings that name the flows of each, and sorts again.
pub(in crate::tui) fn judge(peers: &mut [Peer], verdicts: Option<&FlowVerdicts>) {
    let none = if verdicts.is_some() { Judged::FINE } else { Judged::default() };
    let mut judged: HashMap<(Address, Address), Judged, State> = HashMap::default();
    for (src, dst, one) in verdicts.into_iter().flat_map(FlowVerdicts::flows) {
        let worst = judged.entry((src, dst)).or_insert(Judged::FINE);
        *worst = worst.join(one);
    }
    for peer in &mut *peers {
        peer.judged = judged.get(&(peer.src, peer.dst)).copied().unwrap_or(none);
    }
    sort(peers);
}
