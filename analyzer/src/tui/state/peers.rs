//! Flows that share hosts, a process, a link or a rail, with what they lost, for the overview: those with most
//! trouble, and those with most traffic.

use rocescope_common::account::latency::BUCKETS;

use crate::analysis::{FaultRank, Overlap, rail_of};
use crate::metrics::latency::{Histogram, Times};
use crate::model::{Counts, Delta, FlowVerdict, Row, dedup, detail};
use crate::sample::{Address, Direction, Sample, address};
use crate::tui::column::{self, Context};
use crate::util::map::Map;

/// Rows kept for each of trouble and traffic.
const KEPT: usize = 64;

/// Links kept of a row: as many names have room.
const LINKS: usize = 5;

/// Grouping of the overview's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerGrouping {
    /// Pairs of hosts.
    #[default]
    Hosts,
    /// Queue pairs.
    QueuePairs,
    /// Remote hosts, both directions.
    Remote,
    /// Processes that own the queue pairs.
    Process,
    /// Pods of these processes.
    Pod,
    /// Jobs of these pods, or of Slurm.
    Job,
    /// Links.
    Link,
    /// Rails that the user named.
    Rail,
}

/// Links and the names of their rails, as the user gives them.
pub(in crate::tui) type Rails = [(String, String)];

impl PeerGrouping {
    const ALL: [Self; 8] = [
        Self::Hosts,
        Self::QueuePairs,
        Self::Remote,
        Self::Process,
        Self::Pod,
        Self::Job,
        Self::Link,
        Self::Rail,
    ];

    /// The next one that this data has, in a circle.
    #[must_use]
    pub fn next(self, sample: &Sample, rails: &Rails) -> Self {
        let at = Self::ALL.iter().position(|by| *by == self).unwrap_or(0);
        let following = Self::ALL.into_iter().cycle().skip(at + 1).take(Self::ALL.len());
        let mut known = following.filter(|by| by.is_known(sample, rails));
        known.next().unwrap_or_default()
    }

    /// True if the data can be grouped by it.
    fn is_known(self, sample: &Sample, rails: &Rails) -> bool {
        let mut owners = sample.owners.all().iter();
        match self {
            Self::Hosts | Self::QueuePairs => true,
            Self::Remote => sample.links.iter().any(|link| link.direction.is_some()),
            Self::Process => owners.any(|owner| column::process(owner).is_some()),
            Self::Pod => owners.any(|owner| owner.pod.is_some()),
            Self::Job => owners.any(|owner| owner.job().is_some()),
            Self::Link => sample.links.len() > 1,
            Self::Rail => sample.links.iter().any(|link| rail_of(&link.name, rails).is_some()),
        }
    }

    /// Word for a row of this grouping.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Hosts => "host pair",
            Self::QueuePairs => "queue pair",
            Self::Remote => "remote host",
            Self::Process => "process",
            Self::Pod => "pod",
            Self::Job => "job",
            Self::Link => "link",
            Self::Rail => "rail",
        }
    }
}

/// Property that the flows of a row share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shared {
    /// Source and destination.
    Hosts(Address, Address),
    /// One direction of a queue pair: source, destination and destination queue pair.
    QueuePair(Address, Address, u32),
    /// The remote host; `None` on taps, where no host is remote.
    Remote(Option<Address>),
    /// The process; `None` where it is not known.
    Process(Option<String>),
    /// The pod; `None` where there is none, or it is not known.
    Pod(Option<String>),
    /// The job; `None` where there is none, or it is not known.
    Job(Option<String>),
    /// The number of the link.
    Link(u16),
    /// The rail; `None` for links without.
    Rail(Option<String>),
}

impl Shared {
    fn of(by: PeerGrouping, row: &Row, cx: Context<'_>, rails: &Rails) -> Self {
        let key = &row.id.key;
        let (src, dst) = (address(key.family, key.src), address(key.family, key.dst));
        match by {
            PeerGrouping::Hosts => Self::Hosts(src, dst),
            PeerGrouping::QueuePairs => Self::QueuePair(src, dst, key.dest_qp),
            PeerGrouping::Remote => {
                let link = cx.model.links.get(usize::from(key.link));
                Self::Remote(link.and_then(|link| link.direction).map(|direction| match direction {
                    Direction::Ingress => src,
                    Direction::Egress => dst,
                }))
            }
            PeerGrouping::Process => Self::Process(cx.owner(row).and_then(column::process)),
            PeerGrouping::Pod => Self::Pod(cx.owner(row).and_then(|owner| owner.pod.clone())),
            PeerGrouping::Job => Self::Job(cx.owner(row).and_then(|owner| Some(owner.job()?.to_owned()))),
            PeerGrouping::Link => Self::Link(key.link),
            PeerGrouping::Rail => {
                let link = cx.model.links.get(usize::from(key.link));
                Self::Rail(link.and_then(|link| rail_of(&link.name, rails)).map(str::to_owned))
            }
        }
    }
}

/// Flows that share something, each packet once.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Property that the flows share.
    pub shared: Shared,
    /// Number of queue pairs.
    pub flows: usize,
    /// Counts in the time range, or while that is not known since the start. CNPs of a pair of hosts or a queue pair
    /// are those that ask its source for less, and travel the other way.
    pub counts: Counts,
    /// Length of the time range in seconds; `None` while it is not known.
    pub seconds: Option<f64>,
    /// Latencies of the requests of its flows that were answered in the time range; `None` where none is known.
    pub latency: Option<Times>,
    /// Place of its worst row in the model: the one that the worst finding lists first, else the one with most trouble
    /// or traffic in the time range.
    pub row: usize,
    /// Place of the one with most trouble, or else most traffic, in the time range.
    counted: usize,
    /// The links of its rows, a few of them at most.
    pub links: Vec<u16>,
    /// The findings that name its flows.
    pub judged: FlowVerdict,
}

impl Peer {
    /// What goes wrong in the time range.
    pub fn fault_rank(&self) -> FaultRank {
        self.counts.fault_rank()
    }
}

impl Peer {
    /// Without packets yet, from the row of its first.
    fn new(shared: Shared, row: usize) -> Self {
        Self {
            shared,
            flows: 0,
            counts: Counts::default(),
            seconds: None,
            latency: None,
            row,
            counted: row,
            links: Vec::new(),
            judged: FlowVerdict::default(),
        }
    }
}

/// The rows of the list, in no order.
pub(in crate::tui) fn of(
    cx: Context<'_>,
    (by, rails): (PeerGrouping, &Rails),
    overlap: &Overlap,
) -> Vec<Peer> {
    let mut places: Map<Shared, usize> = Map::default();
    let mut peers: Vec<Peer> = Vec::new();
    // FaultRank and traffic of the row of each.
    let mut worst: Vec<(FaultRank, u64)> = Vec::new();
    let rows: &[Row] = &cx.model.rows;
    let mut number = 0;
    // A link counts all of its packets, whatever others saw.
    let none = Overlap::default();
    let overlap = if by == PeerGrouping::Link { &none } else { overlap };
    // Rows come in their order, or where they are merged in any.
    let mut index: Map<crate::model::Identity, usize> = Map::default();
    if !overlap.is_empty() {
        index = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    }
    // CNPs by the pair whose rate they reduce.
    let mut reduced: Vec<(Shared, usize, u64)> = Vec::new();
    dedup::each(rows.iter(), overlap, |seen| {
        let key = &seen.row.id.key;
        let row = if overlap.is_empty() { number } else { index.get(&seen.row.id).copied().unwrap_or(0) };
        number += 1;
        let shared = Shared::of(by, seen.row, cx, rails);
        let place = *places.entry(shared.clone()).or_insert_with(|| {
            peers.push(Peer::new(shared, row));
            worst.push((FaultRank::default(), 0));
            peers.len() - 1
        });
        let (Some(peer), Some(worst)) = (peers.get_mut(place), worst.get_mut(place)) else { return };
        let mut counts = seen.delta.map_or(seen.total, |delta| delta.counts);
        let own = (counts.fault_rank(), counts.bytes);
        if own > *worst {
            (*worst, peer.row, peer.counted) = (own, row, row);
        }
        peer.flows += usize::from(seen.new);
        if peer.links.len() < LINKS && !peer.links.contains(&key.link) {
            peer.links.push(key.link);
        }
        if let Some(Delta { seconds, .. }) = seen.delta {
            peer.seconds = Some(seconds);
        }
        if let Some(data) = answered(&peer.shared, seen.row, cx).filter(|_| counts.cnp > 0) {
            reduced.push((data, place, std::mem::take(&mut counts.cnp)));
        }
        peer.counts.add(&counts);
    });
    add_cnps(&mut peers, &places, reduced);
    if peers.len() > 2 * KEPT {
        peers.sort_unstable_by_key(|peer| std::cmp::Reverse(peer.fault_rank()));
        peers[KEPT..].sort_unstable_by_key(|peer| std::cmp::Reverse(peer.counts.bytes));
        peers.truncate(2 * KEPT);
    }
    sort(&mut peers);
    // Taps that see the same packets measure different times.
    if overlap.is_empty() {
        add_latency(&mut peers, cx, (by, rails));
    }
    peers
}

/// The pair whose data the packets of a pair answer, as far as it is known.
fn answered(shared: &Shared, row: &Row, cx: Context<'_>) -> Option<Shared> {
    match shared {
        Shared::Hosts(src, dst) => Some(Shared::Hosts(*dst, *src)),
        Shared::QueuePair(src, dst, _) => {
            let qp = row.at.and_then(|at| detail::peer_qp(cx.sample, at))?;
            Some(Shared::QueuePair(*dst, *src, qp))
        }
        _ => None,
    }
}

/// Adds CNPs to the pairs whose rate they reduce, each with the place of the pair that carries them. Where its data is
/// not seen, they stay there.
fn add_cnps(peers: &mut [Peer], places: &Map<Shared, usize>, reduced: Vec<(Shared, usize, u64)>) {
    for (shared, carrier, cnps) in reduced {
        let place = places.get(&shared).copied().unwrap_or(carrier);
        if let Some(peer) = peers.get_mut(place) {
            peer.counts.cnp += cnps;
        }
    }
}

/// Adds up the latencies of the flows of each.
fn add_latency(peers: &mut [Peer], cx: Context<'_>, (by, rails): (PeerGrouping, &Rails)) {
    if !cx.model.has_latency {
        return;
    }
    let places: Map<Shared, usize> =
        peers.iter().enumerate().map(|(at, peer)| (peer.shared.clone(), at)).collect();
    let mut ends = vec![([[0; BUCKETS]; 2], 0); peers.len()];
    for row in &cx.model.rows {
        let place = places.get(&Shared::of(by, row, cx, rails)).and_then(|at| ends.get_mut(*at));
        if let Some((ends, unanswered)) = place {
            cx.model.add_latency(row, ends);
            *unanswered += cx.model.unanswered(row);
        }
    }
    for (peer, ([now, then], unanswered)) in peers.iter_mut().zip(ends) {
        let times = Histogram::of(&now).since(&Histogram::of(&then));
        peer.latency = times.map(|times| Times { unanswered, ..times });
    }
}

/// The worst first: those that the headline is about, then by what findings say, then by what was counted, then by
/// traffic. A finding stays active for a while after its last signal: what goes on now comes before it.
fn sort(peers: &mut [Peer]) {
    peers.sort_by_key(|peer| {
        let (judged, trouble) = (peer.judged, peer.fault_rank());
        let now = judged.active && trouble.any();
        let findings = (judged.is_headline(), now, judged.active, judged.rank());
        std::cmp::Reverse((findings, trouble, peer.counts.bytes))
    });
}

/// Rank, trouble and place of a row that a finding lists.
type ListedRow = (u32, FaultRank, usize);

/// Looks up the findings that name the flows of each, and sorts again. The rows of `cx` are judged already.
pub(in crate::tui) fn judge(
    peers: &mut [Peer],
    cx: Context<'_>,
    (by, rails): (PeerGrouping, &Rails),
    known: bool,
) {
    let none = if known { FlowVerdict::FINE } else { FlowVerdict::default() };
    // With the place of the worst row that a finding lists; of a flow on several links, of the one with most trouble.
    let mut judged: Map<Shared, (FlowVerdict, Option<ListedRow>)> = Map::default();
    for (at, row) in cx.model.rows.iter().enumerate().filter(|(_, row)| row.judged.worst.is_some()) {
        let (worst, listed) =
            judged.entry(Shared::of(by, row, cx, rails)).or_insert((FlowVerdict::FINE, None));
        *worst = worst.join(row.judged);
        let own = (row.judged.rank(), row.delta.map_or(row.total, |delta| delta.counts).fault_rank(), at);
        if row.judged.is_listed() && listed.is_none_or(|best| (own.0, own.1) > (best.0, best.1)) {
            *listed = Some(own);
        }
    }
    for peer in &mut *peers {
        let (verdict, listed) = judged.get(&peer.shared).copied().unwrap_or((none, None));
        (peer.judged, peer.row) = (verdict, listed.map_or(peer.counted, |(.., at)| at));
    }
    sort(peers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::FlowId;
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::findings::{Finding, Severity};
    use crate::model::{FlowVerdicts, History, Model, TimeRange};

    /// Packets that only arrived out of order are no retransmissions where that is known.
    #[test]
    fn lost_packets_outrank_reordered_ones() {
        use crate::metrics::loss::{FlowLoss, Loss, Metrics};
        let flow = |dst: &str, repeats| {
            let mut stats = stats(7, 10_000, 1_000_000);
            (stats.psn.repeats, stats.psn.gaps, stats.psn.missing) = (repeats, repeats, repeats);
            (key(0, "10.0.0.1", dst, 17), stats)
        };
        let mut sample = sample(vec![link("rail0", None)], vec![flow("10.0.0.2", 500), flow("10.0.0.3", 4)]);
        let mut loss = Loss::default();
        for (slot, metrics) in [
            (0, Metrics { recovered: 500, ..Metrics::default() }),
            (1, Metrics { lost: 4, retransmitted: 4, ..Metrics::default() }),
        ] {
            loss.flows.insert(slot, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
        }
        sample.metrics.loss = Some(loss);
        let mut history = History::new(1 << 20);
        history.push(&sample, false);
        let model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
        let peers = of(
            Context { model: &model, sample: &sample },
            (PeerGrouping::Hosts, &[][..]),
            &Overlap::default(),
        );
        let first = &peers[0];
        assert_eq!(first.shared, Shared::Hosts("10.0.0.1".parse().unwrap(), "10.0.0.3".parse().unwrap()));
        assert_eq!((first.fault_rank().lost, first.fault_rank().recovery), (4, 4));
        assert!(!peers[1].fault_rank().any(), "{:?}", peers[1].fault_rank());
    }

    /// Two hosts of which one only answers: its losses are unknown, not none.
    #[test]
    fn only_a_sequence_shows_losses() {
        let flow = |src: &str, dst: &str, seen: u32| {
            let mut stats = stats(7, 100, 10_000);
            stats.psn.seen = seen;
            (key(0, src, dst, 17), stats)
        };
        let (a, b) = ("10.0.0.1", "10.0.0.2");
        let sample = sample(vec![link("rail0", None)], vec![flow(a, b, 100), flow(b, a, 0)]);
        let mut history = History::new(1 << 20);
        history.push(&sample, false);
        let model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
        let cx = Context { model: &model, sample: &sample };
        let by = |by| of(cx, (by, &[][..]), &Overlap::default());
        let pairs = by(PeerGrouping::Hosts);
        let of_data =
            pairs.iter().find(|peer| peer.shared == Shared::Hosts(a.parse().unwrap(), b.parse().unwrap()));
        assert!(of_data.unwrap().counts.sequenced);
        assert_eq!(pairs.iter().filter(|peer| peer.counts.sequenced).count(), 1);
        assert!(by(PeerGrouping::Remote)[0].counts.sequenced, "data and answers together");
    }

    #[test]
    fn the_worst_queue_pair_is_the_one_that_the_worst_finding_lists_first() {
        let hosts = ["10.0.0.1", "10.0.0.2"];
        let flow = |qp: u32, repeats: u64| {
            let mut stats = stats(7, 100, 10_000);
            stats.psn.repeats = repeats;
            (key(0, hosts[0], hosts[1], qp), stats)
        };
        let sample = sample(vec![link("rail0", None)], vec![flow(17, 9), flow(18, 2), flow(19, 1)]);
        let mut history = History::new(1 << 20);
        history.push(&sample, false);
        let mut model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
        let by = (PeerGrouping::Hosts, &[][..]);
        let mut peers = of(Context { model: &model, sample: &sample }, by, &Overlap::default());
        let mut worst = |found: &[Finding]| {
            model.judge(Some(&FlowVerdicts::of(found)));
            judge(&mut peers, Context { model: &model, sample: &sample }, by, true);
            model.rows[peers[0].row].id.key.dest_qp
        };
        let [src, dst]: [Address; 2] = hosts.map(|host| host.parse().unwrap());
        let finding = |listed: &[u32]| {
            let listed = listed.iter();
            Finding {
                named: [17, 18, 19].map(|qp| (src, dst, qp)).into_iter().collect(),
                flows: listed
                    .map(|qp| FlowId { link: "rail0".into(), direction: None, src, dst, dest_qp: *qp })
                    .collect(),
                ..Finding::new("loss.before_tap", Severity::Warning, String::new())
            }
        };
        assert_eq!(worst(&[]), 17, "by what was counted in the time range");
        assert_eq!(worst(&[finding(&[18, 17])]), 18);
        assert_eq!(worst(&[finding(&[19]), finding(&[18])]), 19, "the worst finding decides");
        assert_eq!(worst(&[finding(&[])]), 17, "it names them and lists none");
    }
}
