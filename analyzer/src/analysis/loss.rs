//! Loss, reordering, retransmissions and corrupt packets, as the report has them.

use serde::{Serialize, Serializer};

use crate::analysis::{ByLink, Episodes, Facts, Flow, Psn, TapFlow};
use crate::metrics::icrc::{Checked, IcrcErrors};
use crate::metrics::loss::{Metrics, NakTally, Naks, Retransmission, TIMEOUT_PAUSE_NS};
use crate::sample::{Address, Direction, Stats};
use crate::util::boxed_unless_default::{BoxedUnlessDefault, shared_default};
use crate::util::boxed_unless_zero::BoxedUnlessZero;
use crate::util::map::{Map, Set};
use crate::util::packed_option::PackedOption;
use crate::util::units::plural;

/// Loss, reordering and retransmission among the requests, or the responses, of one flow. Of a recording: of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loss {
    /// Out of order: PSNs skipped that arrived later without being retransmitted. Recognised by the IPv4
    /// identification where the sender counts it up, else by arriving within `--reorder-window` and before
    /// any NAK. Unit: PSNs.
    pub recovered: u64,
    /// Lost upstream of this tap: PSNs skipped here and retransmitted, or lost again when retransmitted. UC,
    /// which does not retransmit: skipped and not seen since. Unit: PSNs.
    pub lost: u64,
    /// Part of `lost` that may have been reordered, on any of four conditions. (1) The packet passed twice. (2)
    /// Neither a NAK nor a timeout explains the run in which it came; all of `lost` counts where more gaps of a
    /// go-back-N sender are filled by such runs than by explained ones. (3) It filled its gap within twice the longest
    /// delay of the flow's reordered packets, with one of these to eight PSNs lost (four to one where identifications
    /// count up). (4) A sender that goes back N after NAKs went on without repeating the packets behind it. Without
    /// IPv4 identifications that count up, the packet that filled the gap may have been the original, out of order.
    /// Unit: PSNs. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub lost_or_reordered: PackedOption,
    /// PSNs skipped here and never seen, although the sender did not retransmit them: they took another path,
    /// or the capture missed them; or the loss was not repaired by the end. Unit: PSNs. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub unfilled: PackedOption,
    /// Retransmissions of packets that had already passed this tap; one whose previous retransmission was lost upstream
    /// counts in `lost`. Unit: packets.
    pub retransmitted: u64,
    /// Duplicates, by the capture or by the network: packets that the capture has twice; the same PSN
    /// with the same IPv4 identification, or twice in a row within 10 µs; a single packet that passes again without a
    /// NAK or a timeout as its reason. Unit: packets. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub mirrored: PackedOption,
    /// READ requests retransmitted because the request or responses were lost. Unit: packets. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub rereads: PackedOption,
    /// Part of `retransmitted` caused by RNR NAKs. Unit: packets. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub rnr_resent: PackedOption,
    /// Part of `retransmitted` and `rereads` caused by transport timeouts. Unit: packets. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub timeout_resent: PackedOption,
    /// Transport timeouts: go-back-N, or a repeated READ request (live: not counted), after a pause of at least 1 ms
    /// that no NAK ended; a NAK that the sender has gone back for before, or 50 ms of silence after it, ends none.
    /// Unit: timeouts.
    pub timeouts: u64,
    /// Part of `timeouts` after which an ACK showed that the packets had arrived: their ACKs were lost, or late.
    #[serde(skip)]
    pub timeouts_acked: u64,
    /// Silence of the sender before these timeouts, summed. Unit: ns.
    pub timeout_wait_ns: u64,
    /// Shortest of these silences. Unit: ns. Null: no timeout, or of a recording.
    pub timeout_shortest_ns: Option<u64>,
    /// Longest of these silences: several times the shortest where the sender backs off. Unit: ns. Null: as
    /// `timeout_shortest_ns`.
    pub timeout_longest_ns: Option<u64>,
    /// Time from RNR NAKs to the retransmissions that they delay, summed. Unit: ns.
    pub rnr_wait_ns: u64,
    /// PSN gaps behind which an ECN-capable packet follows. Unit: gaps. Live: 0. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub gaps_capable: PackedOption,
    /// Part of `gaps_capable` where that packet is CE-marked: a queue that overflows has marked what it still
    /// takes. Unit: gaps. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub gaps_ce: PackedOption,
    /// Consecutive retransmissions from the same PSN at the end of the run, without progress. Unit: times. Null: of a
    /// recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub stuck: PackedOption,
    /// Time of the latest packet in `retransmitted` or `rereads`. Unit: Unix ns. Null: there was none, or of a
    /// recording.
    pub last_again_ns: Option<u64>,
    /// Scheme of the sender. `go_back_n`: everything from the missing packet on is retransmitted;
    /// `selective_repeat`: only the missing packets. Null: nothing was retransmitted, or the scheme is not
    /// clear.
    pub retransmission: Option<&'static str>,
    /// Episodes of loss upstream of this tap, in PSNs lost.
    pub before_tap: Episodes,
    /// Episodes of loss downstream of this tap, in packets retransmitted: a sequence-error NAK, or for
    /// responses a retransmitted READ, names packets that passed this tap; they were lost, damaged or
    /// reordered downstream. If the reverse direction is not captured: all go-back-N runs.
    pub after_tap: Episodes,
}

shared_default!(Loss, LastNaks);

/// The loss of one sequence of a flow. Nearly all arrive once and in order.
pub type SequenceLoss = BoxedUnlessDefault<Loss>;

/// Time of the latest NAK of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LastNaks {
    /// RNR NAK. Unit: Unix ns. Null: there was none; live also: not known, events were dropped.
    pub rnr: Option<u64>,
    /// Code 0. Unit: Unix ns. Null: as `rnr`.
    pub psn_sequence_error: Option<u64>,
    /// Code 1. Unit: Unix ns. Null: as `rnr`.
    pub invalid_request: Option<u64>,
    /// Code 2. Unit: Unix ns. Null: as `rnr`.
    pub remote_access_error: Option<u64>,
    /// Code 3. Unit: Unix ns. Null: as `rnr`.
    pub remote_operational_error: Option<u64>,
    /// Code 4.
    #[serde(skip)]
    pub invalid_rd_request: Option<u64>,
    /// All other codes.
    #[serde(skip)]
    pub reserved: Option<u64>,
}

impl LastNaks {
    /// Of a flow with these counters. If the kernel dropped events, the latest of a kind may be missing.
    pub(crate) fn of(naks: &Naks, stats: &Stats) -> Self {
        let last =
            |naks: NakTally, counted: u64| (counted > 0 && naks.count >= counted).then_some(naks.last_ns);
        let [sequence, invalid, access, operational, invalid_rd, reserved] = naks.codes;
        let [sequence_errors, invalid_requests, access_errors, operational_errors, rd_errors, others] =
            stats.rare.naks;
        Self {
            rnr: last(naks.rnr, stats.rare.rnr_naks),
            psn_sequence_error: last(sequence, sequence_errors),
            invalid_request: last(invalid, invalid_requests),
            remote_access_error: last(access, access_errors),
            remote_operational_error: last(operational, operational_errors),
            invalid_rd_request: last(invalid_rd, rd_errors),
            reserved: last(reserved, others),
        }
    }
}

/// Packets by the result of the check of their invariant CRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Icrc {
    /// Packets whose ICRC was computed. Unit: packets.
    pub checked: u64,
    /// Packets with a wrong ICRC: damaged on the path, or a field that must not change was rewritten. Unit:
    /// packets.
    pub bad: u64,
    /// Time of the first packet in `bad`. Unit: Unix ns. Null: there was none.
    pub bad_first_ns: Option<u64>,
    /// Time of the last packet in `bad`. Unit: Unix ns. Null: there was none.
    pub bad_last_ns: Option<u64>,
    /// Packets whose ICRC cannot be computed: truncated by the snap length, or fragments. Unit: packets.
    pub unchecked: u64,
}

impl Default for Loss {
    /// Everything arrived once and in order.
    fn default() -> Self {
        Self::of(None)
    }
}

impl Loss {
    /// Of a sequence that was there; nothing may have happened to it.
    pub(crate) fn of(metrics: Option<&Metrics>) -> Self {
        let metrics = metrics.copied().unwrap_or_default();
        let (shortest, longest) = metrics.timeout_range_ns;
        let waited = |ns| (metrics.timeouts > 0).then_some(ns);
        Self {
            recovered: metrics.recovered,
            lost: metrics.lost,
            lost_or_reordered: metrics.doubtful.into(),
            unfilled: metrics.unfilled.into(),
            retransmitted: metrics.retransmitted,
            mirrored: metrics.mirrored.into(),
            rereads: metrics.rereads.into(),
            rnr_resent: metrics.rnr_retransmitted.into(),
            timeout_resent: metrics.timeout_retransmitted.into(),
            timeouts: metrics.timeouts,
            timeouts_acked: metrics.timeouts_acked.into(),
            timeout_wait_ns: metrics.timeout_wait_ns,
            timeout_shortest_ns: waited(shortest),
            timeout_longest_ns: waited(longest),
            rnr_wait_ns: metrics.rnr_wait_ns,
            gaps_capable: metrics.gaps_capable.into(),
            gaps_ce: metrics.gaps_ce.into(),
            stuck: metrics.stuck.into(),
            last_again_ns: (metrics.last_retransmission_ns != 0).then_some(metrics.last_retransmission_ns),
            retransmission: metrics.retransmission.map(|how| match how {
                Retransmission::GoBackN => "go_back_n",
                Retransmission::SelectiveRepeat => "selective_repeat",
            }),
            before_tap: metrics.upstream.into(),
            after_tap: metrics.downstream.into(),
        }
    }

    /// Of a recording, which has the sums of both sequences, and only those of its columns.
    pub(crate) fn recorded(metrics: &Metrics) -> Self {
        let unknown = PackedOption::UNKNOWN;
        Self {
            lost_or_reordered: unknown,
            unfilled: unknown,
            mirrored: unknown,
            rereads: unknown,
            rnr_resent: unknown,
            timeout_resent: unknown,
            timeout_shortest_ns: None,
            timeout_longest_ns: None,
            gaps_capable: unknown,
            gaps_ce: unknown,
            stuck: unknown,
            last_again_ns: None,
            retransmission: None,
            before_tap: Episodes::UNKNOWN,
            after_tap: Episodes::UNKNOWN,
            ..Self::of(Some(metrics))
        }
    }
}

/// Judgement of the loss episodes downstream of a tap, as far as the taps show. Every view says it in these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Downstream {
    /// READs were repeated after a timeout, or another tap downstream did not see as many packets.
    Loss,
    /// A receiver sent NAKs: what arrives out of order looks to it like a loss.
    LossOrReordering,
    /// The same, and as many packets were out of order at the tap, or all of them reached the next one.
    ReorderingOrLoss,
}

impl Downstream {
    /// All values, in order.
    pub(crate) const ALL: [Self; 3] = [Self::Loss, Self::LossOrReordering, Self::ReorderingOrLoss];

    /// Of episodes, with the number of packets `reordered` in them, and of READs repeated `after_silence`.
    pub(crate) const fn of(episodes: u64, reordered: u64, after_silence: u64) -> Self {
        if reordered > 0 && reordered >= episodes {
            Self::ReorderingOrLoss
        } else if after_silence > 0 && after_silence >= episodes {
            Self::Loss
        } else {
            Self::LossOrReordering
        }
    }

    /// Term for the start of a sentence, such as `Loss or reordering`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loss => "Loss",
            Self::LossOrReordering => "Loss or reordering",
            Self::ReorderingOrLoss => "Reordering or loss",
        }
    }

    /// `17 loss or reordering episodes downstream`.
    pub(crate) fn episodes(self, n: u64) -> String {
        plural(n, &format!("{} episode", self.name().to_lowercase())) + " downstream"
    }
}

impl Loss {
    /// Retransmissions, repeated READ requests included. Unit: packets.
    pub fn retransmissions(&self) -> u64 {
        self.retransmitted + self.rereads.or_zero()
    }

    /// READs that were repeated after a timeout, in episodes downstream, where this is of responses: a requester that
    /// misses a response among others repeats its READ at once.
    pub(crate) fn repeated_after_silence(&self) -> u64 {
        Self::after_silence(self.after_tap.episodes.or_zero(), self.after_tap.total_ns.unwrap_or(0))
    }

    /// The same of this number of episodes, which took that long together.
    pub(crate) const fn after_silence(episodes: u64, total_ns: u64) -> u64 {
        if total_ns >= episodes.saturating_mul(TIMEOUT_PAUSE_NS) { episodes } else { 0 }
    }
}

/// Loss upstream of a link, of one sequence of a flow. Packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upstream {
    pub(crate) lost: u64,
    /// Of these, packets that may have been reordered; of a recording 0.
    pub(crate) doubtful: u64,
    /// It is a lower bound: before a timeout the last packets in flight are lost, which leaves no gap.
    pub(crate) at_least: bool,
}

/// Facts of both sides of each flow's tap: from the PSNs there, and from other taps that see the flow.
pub(crate) struct TapContext<'a> {
    facts: &'a Facts,
    nothing_vanished: Set<AtTap<'a>>,
    all_arrive: Set<AtTap<'a>>,
    /// Packets of flows that passed this tap and not the next.
    lost_ahead: Map<AtTap<'a>, u64>,
}

impl<'a> TapContext<'a> {
    pub(crate) fn of(facts: &'a Facts) -> Self {
        // PSNs alone may suggest a loss between two taps that both saw all packets: that is reordering, or a loss
        // upstream of both.
        let nothing_vanished = whole(facts, |tap| tap.to.as_deref());
        // NAKs for packets that passed the first of them are for reordering, or a loss downstream of both.
        let all_arrive = whole(facts, |tap| tap.from.as_deref());
        let mut lost_ahead = Map::default();
        for tap in &facts.taps {
            if let (Some(from), Some(lost)) = (tap.from.as_deref(), tap.vanished) {
                let most: &mut u64 = lost_ahead.entry((from, tap.src, tap.dst, tap.dest_qp)).or_default();
                *most = lost.max(*most);
            }
        }
        Self { facts, nothing_vanished, all_arrive, lost_ahead }
    }

    /// Lost upstream, of the requests and of the responses.
    pub(crate) fn upstream(&self, flow: &Flow) -> [Upstream; 2] {
        let losses = flow.losses();
        let lost = losses.map(|loss| loss.map_or(0, |loss| loss.lost));
        if let Some(exact) = flow.lost_upstream.get() {
            // Other taps know the sum of both only.
            let mut both = [Upstream::default(); 2];
            both[usize::from(lost[1] > lost[0])].lost = exact;
            return both;
        }
        if self.nothing_vanished.contains(&at_tap(flow)) {
            return [Upstream::default(); 2];
        }
        let waited = losses[0].is_some_and(|loss| loss.timeouts > 0);
        let asked = lost[1] > 0 && self.facts.requester_timed_out(flow);
        let one = |loss: Option<Loss>, waited: bool| {
            loss.map_or_else(Upstream::default, |loss| Upstream {
                lost: loss.lost,
                doubtful: loss.lost_or_reordered.or_zero(),
                at_least: loss.lost > 0 && waited,
            })
        };
        [one(losses[0], waited), one(losses[1], asked)]
    }

    /// Judgement of the episodes downstream, of the requests and of the responses.
    pub(crate) fn downstream(&self, flow: &Flow) -> [Downstream; 2] {
        let arrived = self.all_arrive(flow);
        let lost_ahead = self.lost_ahead.get(&at_tap(flow)).copied().unwrap_or(0);
        let one = |loss: Option<Loss>, responses: bool| {
            let loss = loss.unwrap_or_default();
            let episodes = loss.after_tap.episodes.or_zero();
            let reordered = if arrived { episodes.max(1) } else { loss.recovered };
            if !arrived && lost_ahead >= episodes.max(1) {
                return Downstream::Loss;
            }
            Downstream::of(episodes, reordered, if responses { loss.repeated_after_silence() } else { 0 })
        };
        let [requests, responses] = flow.losses();
        [one(requests, false), one(responses, true)]
    }

    /// True if all its packets that passed this tap passed the next.
    pub(crate) fn all_arrive(&self, flow: &Flow) -> bool {
        self.all_arrive.contains(&at_tap(flow))
    }
}

impl Facts {
    /// Retransmissions, and the packets of all flows: of each queue pair where most of its packets are seen.
    pub(crate) fn retransmitted(&self) -> (u64, u64) {
        let queue_pair = |flow: &Flow| (flow.src, flow.dst, flow.dest_qp);
        // A map of a million of them takes 180 MB.
        let mut flows: Vec<&Flow> = self.flows.iter().collect();
        flows.sort_unstable_by_key(|flow| queue_pair(flow));
        let taps = flows.chunk_by(|one, next| queue_pair(one) == queue_pair(next));
        taps.filter_map(|taps| {
            taps.iter().map(|flow| (flow.packets, flow.losses_sum(Loss::retransmissions))).max()
        })
        .fold((0, 0), |(all, packets), (own, again)| (all + again, packets + own))
    }

    /// True if the requester whose READ responses a flow carries had timeouts, as far as the flow of its requests is
    /// known.
    fn requester_timed_out(&self, flow: &Flow) -> bool {
        let requests = self.requests_answered_by(flow);
        requests.filter_map(|other| other.loss.get()).any(|loss| loss.timeouts > 0)
    }

    /// The flow of requests, at the same tap, that a flow of responses answers: what is upstream of one tap says
    /// nothing of another.
    pub(crate) fn requests_answered_by<'a>(&'a self, flow: &'a Flow) -> impl Iterator<Item = &'a Flow> {
        self.back(flow).filter(|other| other.link == flow.link)
    }
}

/// [`Icrc`] of a flow, in the memory of its collector: hardly any flow has a wrong one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowIcrc {
    /// Not known where the check is not made.
    checked: PackedOption,
    wrong: BoxedUnlessZero<IcrcErrors>,
    unchecked: u64,
}

impl FlowIcrc {
    /// The check; `None` where it is not made.
    pub fn get(&self) -> Option<Icrc> {
        let checked = self.checked.get()?;
        Some(Checked { checked, wrong: self.wrong.clone(), unchecked: self.unchecked }.into())
    }
}

impl From<Option<Checked>> for FlowIcrc {
    fn from(all: Option<Checked>) -> Self {
        let known = all.is_some();
        let Checked { checked, wrong, unchecked } = all.unwrap_or_default();
        Self { checked: known.then_some(checked).into(), wrong, unchecked }
    }
}

impl Serialize for FlowIcrc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl From<Checked> for Icrc {
    fn from(Checked { checked, wrong, unchecked }: Checked) -> Self {
        let IcrcErrors { packets: bad, at_ns: (first, last) } = *wrong;
        let known = |ns| (bad > 0).then_some(ns);
        Self { checked, bad, bad_first_ns: known(first), bad_last_ns: known(last), unchecked }
    }
}

/// Loss, reordering and retransmission at one link, summed over its flows. Packets (PSNs) unless the name says
/// otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AtLink<'a> {
    pub(crate) link: &'a str,
    pub(crate) direction: Option<Direction>,
    /// Lost upstream of this link.
    pub(crate) lost: u64,
    /// They are a lower bound: before a timeout the last packets in flight are lost, which leaves no gap.
    pub(crate) at_least: bool,
    /// Some are known from PSN gaps at this tap alone, though another tap is upstream.
    pub(crate) alone: bool,
    /// The longest time until one of them was repaired, nanoseconds.
    pub(crate) longest_recovery_ns: u64,
    /// Of these, packets that may have been reordered; of a recording 0.
    pub(crate) doubtful: u64,
    /// Packets that were reordered, not lost.
    pub(crate) reordered: u64,
    /// Neither observed at this link nor retransmitted.
    pub(crate) unfilled: u64,
    /// Episodes downstream, in the order of [`Downstream::ALL`]: a receiver sent a sequence-error NAK for packets that
    /// passed this link, or a READ was repeated.
    pub(crate) downstream: [u64; 3],
    /// Of these, episodes in flows whose packets all reached the next tap.
    pub(crate) arrived: u64,
    /// Go-back-N retransmissions, in episodes, of packets that passed this link, where the reverse direction is not
    /// captured.
    pub(crate) went_back: u64,
    /// Retransmitted although they had passed this link.
    pub(crate) retransmitted: u64,
    /// READ requests that were repeated.
    pub(crate) rereads: u64,
    /// PSN gaps in flows whose losses are known.
    pub(crate) missing: u64,
    /// PSN gaps in other flows: lost or reordered.
    pub(crate) undecided: u64,
    /// Packets behind the expected PSN in flows whose losses are unknown.
    pub(crate) repeats: u64,
    /// Retransmitted after an RNR NAK.
    pub(crate) rnr_resent: u64,
    /// NAKs with PSN sequence error.
    pub(crate) naks: u64,
    /// All other NAKs: refused requests.
    pub(crate) refused: u64,
    pub(crate) rnr_naks: u64,
}

/// One for each link that has flows, in the order of the links.
pub(crate) fn by_link(facts: &Facts) -> Vec<AtLink<'_>> {
    let mut all: Vec<AtLink<'_>> = Vec::new();
    let around = TapContext::of(facts);
    let ways: Set<(Address, Address)> = facts.flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    let by_link = ByLink::of(facts);
    let behind: Set<&str> = facts.taps.iter().filter_map(|tap| tap.to.as_deref()).collect();
    for link in &facts.links {
        let mut sum = AtLink { link: &link.name, direction: link.direction, ..AtLink::default() };
        let flows = by_link.on(link);
        if !flows.is_empty() {
            for flow in flows {
                sum.add(flow, &around, ways.contains(&(flow.dst, flow.src)));
            }
            sum.alone &= behind.contains(link.name.as_str());
            all.push(sum);
        }
    }
    all
}

/// A flow at a tap.
type AtTap<'a> = (&'a str, Address, Address, u32);

fn at_tap(flow: &Flow) -> AtTap<'_> {
    (flow.link.as_str(), flow.src, flow.dst, flow.dest_qp)
}

/// Flows whose packets all passed both a tap and the next, at this `end` of the two.
fn whole(facts: &Facts, end: fn(&TapFlow) -> Option<&str>) -> Set<AtTap<'_>> {
    let whole = facts.taps.iter().filter(|tap| {
        tap.packets_matched > 0 && tap.only_at == [0, 0] && tap.vanished_at_end.unwrap_or(0) == 0
    });
    whole.filter_map(|tap| Some((end(tap)?, tap.src, tap.dst, tap.dest_qp))).collect()
}

impl AtLink<'_> {
    fn add(&mut self, flow: &Flow, around: &TapContext<'_>, answers: bool) {
        let (upstream, downstream) = (around.upstream(flow), around.downstream(flow));
        for one in &upstream {
            self.lost += one.lost;
            self.at_least |= one.at_least;
            self.doubtful += one.doubtful;
        }
        let psns = [flow.psn.get(), counted_responses(flow)];
        // Parallel links show the rest.
        let shared = flow.spray.as_ref().is_some_and(|spray| spray.planes.is_some());
        self.alone |= flow.lost_upstream.get().is_none() && upstream.iter().any(|one| one.lost > 0);
        for (i, (loss, psn)) in flow.losses().into_iter().zip(psns).enumerate() {
            match (loss, psn) {
                (Some(loss), psn) => {
                    if upstream[i].lost > 0 {
                        let longest = loss.before_tap.longest_ns.unwrap_or(0);
                        self.longest_recovery_ns = self.longest_recovery_ns.max(longest);
                    }
                    self.downstream(downstream[i], &loss, answers, around.all_arrive(flow));
                    self.rnr_resent += loss.rnr_resent.or_zero();
                    self.reordered += loss.recovered;
                    self.unfilled += if shared { 0 } else { loss.unfilled.or_zero() };
                    self.retransmitted += loss.retransmitted;
                    self.rereads += loss.rereads.or_zero();
                    self.missing += psn.map_or(0, |psn| psn.missing);
                }
                (None, Some(psn)) => {
                    self.undecided += psn.missing;
                    self.repeats += psn.repeats;
                }
                (None, None) => {}
            }
        }
        if let Some(before) = &flow.loss_unfollowed {
            self.missing = self.missing.saturating_sub(before.missing);
            self.undecided += before.missing;
            self.repeats += before.repeats;
        }
        let naks = flow.naks_dedup();
        self.naks += naks.psn_sequence_error;
        self.refused += naks.refused();
        self.rnr_naks += flow.rnr_naks_dedup();
    }

    fn downstream(&mut self, is: Downstream, loss: &Loss, answers: bool, arrived: bool) {
        let episodes = loss.after_tap.episodes.or_zero();
        if !answers {
            self.went_back += episodes;
            return;
        }
        self.arrived += if arrived { episodes } else { 0 };
        self.downstream[is as usize] += episodes;
    }
}

/// The PSNs of responses as far as they say something of loss.
///
/// Responses take the PSNs of their READs. If the requester also writes or sends, those PSNs are answered by
/// ACKNOWLEDGEs, and the jumps over them are no loss.
pub(crate) fn counted_responses(flow: &Flow) -> Option<Psn> {
    let missing = flow.responses_missing.get()?;
    flow.psn_responses.as_deref().map(|psn| Psn { missing, gaps: psn.gaps.min(missing), ..*psn })
}
