//! Flows that were seen at several taps, as the report has them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::missed::Missed;
use crate::analysis::{Facts, FieldChange, Flow, changed};
use crate::metrics::loss::{FlowLoss, Loss};
use crate::metrics::taps::{LatestOfSize, TapPair, are_parallel};
use crate::sample::{Address, FlowSample, Sample, address};
use crate::util::map::{Map, Set};
use crate::util::numbers::share;
use rocescope_common::account::FlowKey;

/// One flow at two taps on its path: captures from two places, or two interfaces. Packets are matched by PSN,
/// opcode and IPv4 identification, not by time: clocks may differ by seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TapFlow {
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// Names of the two links; the one nearer the sender first, if known.
    pub links: [String; 2],
    /// Link nearer the sender, by the time to live, else by times in both directions where nearly all agree, else by
    /// which of the two lacks packets. Null: not known.
    pub from: Option<String>,
    /// Link nearer the receiver. Null: not known.
    pub to: Option<String>,
    /// Packets that both links saw. Unit: packets.
    pub packets_matched: u64,
    /// Packets seen at `from` and not at `to`, between packets seen at both, or before the first of these while other
    /// flows between the same hosts already passed both links: lost on the path, or missed by the capture at `to`.
    /// Unit: packets. Null: the order is not known and one of the two lacks packets.
    pub vanished: Option<u64>,
    /// Packets that only the first, and only the second link saw, as in `vanished`. Unit: packets.
    pub only_at: [u64; 2],
    /// Time of the first packet in `vanished`, by the clock of `from`. Unit: Unix ns. Null: there was none.
    pub vanished_first_ns: Option<u64>,
    /// Time of the last packet in `vanished`. Unit: Unix ns. Null: there was none.
    pub vanished_last_ns: Option<u64>,
    /// Duplicates at the first, and at the second link: same PSN with the same IPv4 identification. They are
    /// in no other count. Unit: packets.
    pub copies_at: [u64; 2],
    /// Packets at the first, and at the second link that could not be compared: before the first (while nothing else
    /// passed both) or after the last packet that both saw, CNPs without distinct IPv4 identification, and packets for
    /// which there was no room. With `packets_matched`, `only_at` and `copies_at` they make up `flows[].packets`. Unit:
    /// packets. Null: the flow was retired during the run.
    pub not_compared: [Option<u64>; 2],
    /// Packets that `from` saw after the last packet that both saw, while other flows between the same hosts
    /// still passed both links. Unit: packets. Null: the order is not known.
    pub vanished_at_end: Option<u64>,
    /// Largest payload among the packets that both links saw. Unit: bytes.
    pub largest_matched: u32,
    /// Of the packets in `vanished` and `vanished_at_end`: those with more payload than any later packet of the flow
    /// that both links saw. Null: there was none, or the order is not known.
    pub vanished_large: Option<LostLarge>,
    /// The latest packets that both links saw, by size; times at the first.
    #[serde(skip)]
    pub latest_matched: Vec<LatestOfSize>,
    /// Packets that `from` saw again. `None`: the order is not known, or as of `retransmitted`.
    #[serde(skip)]
    pub retransmitted: Option<u64>,
    /// Header fields that differ between the links in the same packets, most packets first. CE marks set on
    /// the path are in `marked`.
    pub changed: Vec<FieldChange>,
    /// Packets whose headers were not compared: the flow had more than 32 different ones. Unit: packets.
    pub changed_not_compared: u64,
    /// Packets CE-marked between `from` and `to`. Unit: packets. Null: the order is not known.
    pub marked: Option<u64>,
    /// Smallest and largest number of routers between the links, by the time to live: it varies where packets
    /// take several paths, or paths change. Unit: hops. Null: the order is not known.
    pub router_hops: Option<[u8; 2]>,
    /// Change of the one-way delay from the first link to the second.
    pub delay_change_ns: DelayChange,
}

/// Packets larger than any that arrived later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LostLarge {
    /// Packets. Unit: packets.
    pub packets: u64,
    /// Smallest payload of these. Unit: bytes.
    pub smallest: u32,
    /// Largest payload of these. Unit: bytes.
    pub largest: u32,
    /// Time of the first, by the clock of `from`. Unit: Unix ns.
    pub first_ns: u64,
    /// Time of the last. Unit: Unix ns.
    pub last_ns: u64,
}

/// Change of the one-way delay, relative to the smallest delay at the start. The difference of the two clocks
/// is not known, so the delay itself is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DelayChange {
    /// Smallest change. Unit: ns.
    pub min: i64,
    /// Largest change. Unit: ns.
    pub max: i64,
    /// Change of the smallest delay from the first point to the last: the clocks drift, or the path has
    /// become longer. Unit: ns.
    pub drift: i64,
    /// Smallest delay over time, at most 32 points.
    pub points: Vec<DelayPoint>,
}

/// Smallest delay within one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DelayPoint {
    /// Start of the interval, by the clock of the link that saw the flow first. Unit: Unix ns.
    pub time_ns: u64,
    /// Change of the smallest delay in it. Unit: ns.
    pub change_ns: i64,
}

/// All of them, sorted by flow and links.
pub(super) fn taps(sample: &Sample) -> Vec<TapFlow> {
    let mut pairs = sample.metrics.taps.iter().flatten().peekable();
    if pairs.peek().is_none() {
        return Vec::new();
    }
    let flows: Map<FlowKey, &FlowSample> = sample.flows.iter().map(|flow| (flow.key, flow)).collect();
    let mut taps: Vec<TapFlow> = pairs.map(|pair| build(sample, pair, &flows)).collect();
    taps.sort_by(|a, b| (a.src, a.dst, a.dest_qp, &a.links).cmp(&(b.src, b.dst, b.dest_qp, &b.links)));
    taps
}

fn build(sample: &Sample, pair: &TapPair, flows: &Map<FlowKey, &FlowSample>) -> TapFlow {
    let TapPair { key, links, ordered, matched, only, only_ns, duplicates, delay, gone: [gone, _], .. } =
        pair;
    let lost_ns = (*ordered && only[0] > 0).then_some(only_ns[0]);
    let at = links.map(|link| flows.get(&FlowKey { link, ..*key }).copied());
    // A flow that was closed meanwhile begins again from 0.
    let not_compared =
        [0, 1].map(|side| at[side]?.stats.packets.checked_sub(matched + only[side] + duplicates[side]));
    let losses = sample.metrics.loss.as_ref().filter(|_| *ordered);
    let links = links
        .map(|link| sample.links.get(usize::from(link)).map_or_else(String::new, |link| link.name.clone()));
    let [from, to] = links.clone();
    let first = delay.points().next().map_or(0, |(_, least)| least);
    let points: Vec<DelayPoint> = delay
        .points()
        .map(|(time_ns, least)| DelayPoint { time_ns, change_ns: least.saturating_sub(first) })
        .collect();
    let (min, max) = delay.range();
    TapFlow {
        src: address(key.family, key.src),
        dst: address(key.family, key.dst),
        dest_qp: key.dest_qp,
        links,
        from: ordered.then_some(from),
        to: ordered.then_some(to),
        packets_matched: *matched,
        // If no packet is missing at either, the order does not matter.
        vanished: (*ordered || *only == [0; 2]).then_some(only[0]),
        only_at: *only,
        vanished_first_ns: lost_ns.map(|(first, _)| first),
        vanished_last_ns: lost_ns.map(|(_, last)| last),
        copies_at: *duplicates,
        not_compared,
        vanished_at_end: ordered.then_some(gone.at_end),
        largest_matched: pair.largest.into(),
        vanished_large: (*ordered && gone.large > 0).then_some(LostLarge {
            packets: gone.large,
            smallest: gone.sizes.0.into(),
            largest: gone.sizes.1.into(),
            first_ns: gone.large_ns.0,
            last_ns: gone.large_ns.1,
        }),
        latest_matched: pair.sizes.clone(),
        retransmitted: losses
            .zip(at[0].zip(at[1]))
            .and_then(|(losses, ends)| retransmitted(losses, ends.into())),
        changed: changed::changes(pair),
        changed_not_compared: pair.not_passed,
        marked: ordered.then(|| changed::marked(pair)),
        router_hops: changed::routers(pair).filter(|_| *ordered),
        delay_change_ns: DelayChange {
            min: min.saturating_sub(first),
            max: max.saturating_sub(first),
            drift: points.last().map_or(0, |last| last.change_ns),
            points,
        },
    }
}

/// Source, destination and destination queue pair.
type Name = (Address, Address, u32);

impl TapFlow {
    /// A flow at two taps, the first nearer the sender, that no packet has passed.
    #[cfg(test)]
    pub(crate) fn empty((src, dst, dest_qp): Name, [from, to]: [&str; 2]) -> Self {
        Self {
            src,
            dst,
            dest_qp,
            links: [from.into(), to.into()],
            from: Some(from.into()),
            to: Some(to.into()),
            packets_matched: 0,
            vanished: Some(0),
            only_at: [0, 0],
            vanished_first_ns: None,
            vanished_last_ns: None,
            copies_at: [0, 0],
            not_compared: [Some(0), Some(0)],
            vanished_at_end: Some(0),
            largest_matched: 0,
            vanished_large: None,
            latest_matched: Vec::new(),
            retransmitted: None,
            changed: Vec::new(),
            changed_not_compared: 0,
            marked: Some(0),
            router_hops: None,
            delay_change_ns: DelayChange { min: 0, max: 0, drift: 0, points: Vec::new() },
        }
    }

    /// Largest payload of the packets that both links saw after this time, by the clock of the first.
    pub(crate) fn largest_since(&self, time_ns: u64) -> u32 {
        let later = self.latest_matched.iter().find(|latest| latest.at_ns[0] > time_ns);
        later.map_or(0, |latest| latest.payload.into())
    }

    /// Source, destination and destination queue pair.
    pub(crate) const fn name(&self) -> Name {
        (self.src, self.dst, self.dest_qp)
    }
}

/// Packets lost between two taps on the way from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct BetweenTaps<'a> {
    /// The tap nearer the sender.
    pub from: &'a str,
    /// Name of the second tap.
    pub to: &'a str,
    /// Address of the sending host.
    pub src: Address,
    /// Address of the receiving host.
    pub dst: Address,
    /// Packets that both saw.
    pub matched: u64,
    /// Packets that did not arrive at the second: between packets that did, or retried in vain at the end.
    pub vanished: u64,
    /// Packets that the second did not see though they reached the receiver, which sent no NAK for them; ACKs and CNPs,
    /// as many as its capture misses of other packets.
    pub missed: u64,
    /// Packets that passed the first tap while the second saw the same flow, and could not be compared: more may be
    /// lost.
    pub not_compared: u64,
    /// First and last time at which a packet passed the first tap and not the second, Unix nanoseconds.
    pub seen_ns: Option<(u64, u64)>,
    /// The flows at the second tap that something did not pass.
    pub flows: Vec<&'a Flow>,
}

impl BetweenTaps<'_> {
    /// Share of the packets seen at the first tap.
    pub fn ratio(&self) -> f64 {
        share(self.vanished, self.packets())
    }

    /// True if more of them may be lost: one in a hundred packets or more could not be compared.
    pub const fn is_lower_bound(&self) -> bool {
        self.not_compared.saturating_mul(100) >= self.packets() && self.not_compared > 0
    }

    /// Packets that passed the first tap.
    pub const fn packets(&self) -> u64 {
        self.matched + self.vanished
    }
}

/// Of the packets that the second tap did not see, those that reached the receiver: packets that its sender never
/// retransmitted, `unfilled` at the second tap by their PSNs. A READ request takes an unknown number of PSNs and need
/// not leave a gap: no more were lost than the first tap saw retransmitted, where that is known. `is_proof`: that shows
/// it. It does not of UC, which retransmits nothing, nor of a sender that retried in vain, which had no chance to.
pub(super) fn arrived(vanished: u64, unfilled: u64, again: Option<u64>, is_proof: bool) -> u64 {
    let never_again = again.map_or(0, |again| vanished.saturating_sub(again));
    if is_proof { unfilled.max(never_again).min(vanished) } else { 0 }
}

/// Packets that the first of two taps saw again, of a flow of nothing but requests: ACKs are never retransmitted.
/// `None` where packets of the flow pass it by, as retransmissions may do as well.
pub(super) fn retransmitted(losses: &Loss, [near, far]: [&FlowSample; 2]) -> Option<u64> {
    let requests = |flow: &FlowSample| flow.stats.acks == 0 && flow.stats.rare.psn_responses.seen == 0;
    let (is_known, _) = losses.is_known(near.slot);
    let FlowLoss { requests: loss, unfollowed, .. } = losses.flow(near.slot);
    let followed = is_known && unfollowed.is_none() && near.stats.psn.seen != 0;
    let loss = loss.unwrap_or_default();
    let cnps = near.stats.cnp_packets.saturating_sub(far.stats.cnp_packets);
    (followed && loss.unfilled == 0 && requests(near) && requests(far))
        .then(|| loss.lost + loss.retransmissions() + loss.mirrored + cnps)
}

impl Facts {
    /// Flows at two taps whose order is known, with no other tap of the flow between the two: the tap nearer the
    /// sender, the other, and the flow.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&str, &str, &TapFlow)> {
        let mut next: Map<(&str, Name), Set<&str>> = Map::default();
        for tap in &self.taps {
            if let (Some(from), Some(to)) = (&tap.from, &tap.to) {
                next.entry((from, tap.name())).or_default().insert(to);
            }
        }
        let is_direct = move |tap: &TapFlow, from: &str, to: &str| {
            let onward = |by: &&str| next.get(&(*by, tap.name())).is_some_and(|taps| taps.contains(to));
            !next.get(&(from, tap.name())).is_some_and(|taps| taps.iter().any(onward))
        };
        let ordered =
            self.taps.iter().filter_map(|tap| Some((tap.from.as_deref()?, tap.to.as_deref()?, tap)));
        ordered.filter(move |(from, to, tap)| is_direct(tap, from, to))
    }

    /// Packets lost between taps whose order is known, by taps and hosts. Of several taps in a row each section counts
    /// by itself: a packet lost in one does not reach the next.
    pub fn between_taps(&self) -> Vec<BetweenTaps<'_>> {
        let mut pairs: BTreeMap<(&str, &str, Address, Address), BetweenTaps<'_>> = BTreeMap::new();
        let captures = self.missed();
        for (from, to, tap) in self.sections() {
            let Some(vanished) = tap.vanished else { continue };
            let (src, dst) = (tap.src, tap.dst);
            let new = BetweenTaps {
                from,
                to,
                src,
                dst,
                matched: 0,
                vanished: 0,
                missed: 0,
                not_compared: 0,
                seen_ns: None,
                flows: Vec::new(),
            };
            let sum = pairs.entry((from, to, src, dst)).or_insert(new);
            sum.matched += tap.packets_matched;
            let near = self.at(from, tap);
            let in_vain = near.is_some_and(|flow| self.ends_in_vain(flow));
            sum.not_compared += near.map_or(0, |near| self.left_out(near, to, tap));
            let at_end = tap.vanished_at_end.filter(|_| in_vain);
            let vanished = vanished + at_end.unwrap_or(0);
            if vanished == 0 {
                continue;
            }
            let Some(flow) = self.at(to, tap) else { continue };
            let is_proof = !flow.is_uc() && !in_vain;
            let unfilled = flow.losses_sum(|loss| loss.unfilled.or_zero());
            let sequenced = arrived(vanished, unfilled, tap.retransmitted, is_proof);
            let answers = self.answers_missed(&captures, to, tap, (flow, vanished - sequenced, is_proof));
            let missed = sequenced + answers;
            sum.vanished += vanished - missed;
            sum.missed += missed;
            if let Some((first, last)) = tap.vanished_first_ns.zip(tap.vanished_last_ns) {
                let (begin, end) = sum.seen_ns.unwrap_or((first, last));
                sum.seen_ns = Some((begin.min(first), end.max(last)));
            }
            sum.flows.push(flow);
        }
        for ((from, to, src, dst), sum) in &mut pairs {
            for flow in self.absent(from, to, (*src, *dst)) {
                sum.vanished += flow.packets;
                let (begin, end) = sum.seen_ns.unwrap_or((flow.first_ns, flow.last_ns));
                sum.seen_ns = Some((begin.min(flow.first_ns), end.max(flow.last_ns)));
                sum.flows.push(flow);
            }
        }
        pairs.into_values().collect()
    }

    /// The flow of two taps at one of them.
    fn at(&self, link: &str, tap: &TapFlow) -> Option<&Flow> {
        self.to_qp(tap.src, tap.dst, tap.dest_qp).filter(|flow| flow.link == *link).last()
    }

    /// Packets of a flow that were not compared though the second tap saw it for as long as the first: its clock is so
    /// far behind that they could not wait for it.
    fn left_out(&self, near: &Flow, to: &str, tap: &TapFlow) -> u64 {
        let Some(far) = self.at(to, tap) else { return 0 };
        let [near_ns, far_ns] = [near, far].map(|flow| flow.last_ns.saturating_sub(flow.first_ns));
        let alike = near_ns.abs_diff(far_ns) <= near_ns.max(far_ns) / 200;
        tap.not_compared[0].filter(|_| alike).unwrap_or(0)
    }

    /// What the captures at taps missed of requests and responses: at the second tap what nobody retransmitted, at the
    /// first what the second shows.
    fn missed(&self) -> Missed<&str> {
        let mut captures = Missed::default();
        for (from, to, tap) in self.sections() {
            let [near, far] = [from, to].map(|link| self.at(link, tap));
            let (Some(near), Some(far)) = (near, far) else { continue };
            if !far.has_sequence() || far.is_uc() || self.ends_in_vain(near) {
                continue;
            }
            let unfilled = far.losses_sum(|loss| loss.unfilled.or_zero());
            let missed = arrived(tap.vanished.unwrap_or(0), unfilled, tap.retransmitted, true);
            captures.note(to, tap.packets_matched + missed, missed);
            let [_, behind] = tap.only_at;
            captures.note(from, tap.packets_matched + behind, behind);
        }
        captures
    }

    /// Of the packets of a flow that did not pass the second tap, without requests and responses that reached the
    /// receiver: the ACKs that the capture may have missed.
    fn answers_missed(
        &self,
        captures: &Missed<&str>,
        to: &str,
        tap: &TapFlow,
        (flow, vanished, is_proof): (&Flow, u64, bool),
    ) -> u64 {
        let is_answer = !flow.has_sequence();
        if !is_proof || !is_answer && flow.ack.acks == 0 {
            return 0;
        }
        // Requests and responses are lost as their PSNs say.
        let lost = if is_answer { 0 } else { flow.losses_sum(|loss| loss.lost) };
        let answers = vanished.saturating_sub(lost);
        let packets = if is_answer { tap.packets_matched } else { flow.ack.acks } + answers;
        let waited =
            self.back(flow).filter_map(|other| other.loss.get()).map(|loss| loss.timeouts_acked).max();
        captures.answers(&to, (packets, answers), waited.unwrap_or(0))
    }

    /// Flows at two taps that lack packets of one another, where nobody can say which of them are lost: the order of
    /// the taps is not known. Parallel links have none.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = &TapFlow> {
        let is_open =
            |tap: &&TapFlow| tap.vanished.is_none() && !are_parallel(tap.only_at, tap.packets_matched);
        self.taps.iter().filter(is_open)
    }

    /// UC flows that passed a tap and not the next one, which others between the same hosts passed: lost as a whole, or
    /// on another path. Nobody retransmits them, so nothing shows it.
    pub(crate) fn uc_at_first_only(&self) -> impl Iterator<Item = (&str, &str, &Flow)> {
        let ways: BTreeSet<(&str, &str, Address, Address)> =
            self.sections().map(|(from, to, tap)| (from, to, tap.src, tap.dst)).collect();
        ways.into_iter().flat_map(|(from, to, src, dst)| {
            let own = || self.between(src, dst);
            let arrived: Set<u32> = own().filter(|flow| flow.link == *to).map(|flow| flow.dest_qp).collect();
            own()
                .filter(move |flow| flow.link == *from && flow.is_uc() && !arrived.contains(&flow.dest_qp))
                .map(move |flow| (from, to, flow))
        })
    }

    /// Flows between two hosts of which the first tap sees requests that are retried in vain, or their answers, and the
    /// second nothing.
    pub(crate) fn absent(&self, from: &str, to: &str, (src, dst): (Address, Address)) -> Vec<&Flow> {
        let at = |link: &str| {
            let on = self.flows.iter().filter(move |flow| flow.link == link);
            on.filter(|flow| (flow.src, flow.dst) == (src, dst)).collect::<Vec<&Flow>>()
        };
        let arrived: Set<u32> = at(to).iter().map(|flow| flow.dest_qp).collect();
        let mut near = at(from);
        near.retain(|flow| self.ends_in_vain(flow) && !arrived.contains(&flow.dest_qp));
        near
    }

    /// True if requests are retried in vain, those of this flow or those that it answers.
    pub(crate) fn ends_in_vain(&self, flow: &Flow) -> bool {
        flow.is_retried_in_vain() || self.requests_answered_by(flow).any(Flow::is_retried_in_vain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::everything;
    use crate::analysis::{Loss, Options};

    /// READ requests at two taps, of which the second capture lacks 13; some are retransmitted at the first, or pass
    /// it by.
    #[test]
    fn no_more_requests_are_lost_than_are_retransmitted() {
        let of = |retransmitted: Option<u64>, unfilled: u64| {
            let mut facts = Facts::of(&everything(), &Options::default());
            let flow = facts.flows.iter().find(|flow| flow.psn.is_some() && !flow.is_uc()).unwrap().clone();
            let loss = Loss { unfilled: unfilled.into(), ..Loss::default() };
            let mut requests = Flow {
                psn_responses: None,
                loss: Some(loss).into(),
                loss_responses: None.into(),
                loss_unfollowed: None,
                ..flow
            };
            requests.ack.acks = 0;
            facts.flows =
                ["a", "b"].iter().map(|link| Flow { link: (*link).into(), ..requests.clone() }).collect();
            let name = (requests.src, requests.dst, requests.dest_qp);
            facts.taps = vec![TapFlow {
                packets_matched: 1_216,
                vanished: Some(13),
                only_at: [13, 0],
                retransmitted,
                ..TapFlow::empty(name, ["a", "b"])
            }];
            let pairs = facts.between_taps();
            pairs.iter().map(|one| (one.vanished, one.missed)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        assert_eq!((of(Some(0), 0), of(Some(2), 0), of(Some(20), 0)), ((0, 13), (2, 11), (13, 0)));
        // Retransmissions take the other way as well.
        let (lost, missed) = of(None, 6);
        assert_eq!((lost + missed, lost > 0), (13, true));
    }

    /// Packets of a flow that passed the second tap too, and were not compared; and the lives of both.
    #[test]
    fn packets_that_could_not_wait_make_the_loss_a_lower_bound() {
        let of = |not_compared: u64, far_last_ns: u64| {
            let mut facts = Facts::of(&everything(), &Options::default());
            let flow = facts.flows.iter().find(|flow| flow.psn.is_some() && !flow.is_uc()).unwrap().clone();
            let at = |link: &str, last_ns| Flow { link: link.into(), first_ns: 0, last_ns, ..flow.clone() };
            facts.flows = vec![at("a", 1_000), at("b", far_last_ns)];
            facts.taps = vec![TapFlow {
                packets_matched: 990,
                vanished: Some(10),
                not_compared: [Some(not_compared), Some(0)],
                ..TapFlow::empty((flow.src, flow.dst, flow.dest_qp), ["a", "b"])
            }];
            facts.between_taps().iter().map(BetweenTaps::is_lower_bound).collect::<Vec<_>>()
        };
        assert_eq!((of(500, 1_000), of(9, 1_000), of(500, 700)), (vec![true], vec![false], vec![false]));
    }

    /// Two hosts at two taps, requests one way and ACKs the other: ACKs that the second capture does not show, where it
    /// misses some requests and where it misses none, and where the requester waited for some.
    #[test]
    fn acks_that_the_second_capture_missed_are_not_lost() {
        let of = |unfilled: u64, waited: u64| {
            let mut facts = Facts::of(&everything(), &Options::default());
            let flow = facts.flows.iter().find(|flow| flow.psn.is_some() && !flow.is_uc()).unwrap().clone();
            let at = |link: &str, flow: &Flow| Flow { link: link.into(), ..flow.clone() };
            let requests = Flow {
                peer_qp: Some(6),
                loss: Some(Loss { unfilled: unfilled.into(), timeouts_acked: waited, ..Loss::default() })
                    .into(),
                loss_responses: None.into(),
                ..flow.clone()
            };
            let (src, dst) = (flow.dst, flow.src);
            let acks = Flow {
                src,
                dst,
                dest_qp: 6,
                peer_qp: Some(flow.dest_qp),
                psn: None.into(),
                psn_responses: None,
                ..requests.clone()
            };
            let acks = Flow { loss: None.into(), ..acks };
            facts.flows = ["a", "b"].iter().flat_map(|link| [at(link, &requests), at(link, &acks)]).collect();
            facts.flows.sort_by_key(|flow| (flow.src, flow.dst, flow.dest_qp));
            let tap = |flow: &Flow, packets_matched, vanished| TapFlow {
                packets_matched,
                vanished: Some(vanished),
                only_at: [vanished, 0],
                ..TapFlow::empty((flow.src, flow.dst, flow.dest_qp), ["a", "b"])
            };
            facts.taps = vec![tap(&requests, 5_000, unfilled), tap(&acks, 785, 15)];
            let lost = facts.between_taps();
            lost.iter().map(|one| (one.vanished, one.missed)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        assert_eq!(of(100, 0), (0, 115));
        assert_eq!(of(100, 4), (4, 111));
        assert_eq!(of(0, 0), (15, 0));
    }
}
