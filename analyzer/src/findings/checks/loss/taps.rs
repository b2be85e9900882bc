//! Taps that see the same flow, upstream or downstream of one another.

use super::steps::of_class;
use super::{BETWEEN, Side};
use crate::analysis::{BetweenTaps, Facts, Flow, TapFlow};
use crate::findings::checks::ends;
use crate::findings::checks::tool::own_between;
use crate::findings::dedup::{Name, name, worst_first};
use crate::findings::ids;
use crate::findings::period::{Cost, Period, Wait, cost_base, impact, run, scaled};
use crate::findings::title::{self, pair, short};
use crate::findings::{ByHand, Commands, Episode, Finding, Hop, Impact, Input, Place, Raise, Severity};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::Address;
use crate::util::map::Set;
use crate::util::units::{self, plural};

/// Flows with another tap upstream or downstream: loss between the two is counted there.
pub(in crate::findings) struct Ends<'a> {
    /// Links and flows with another tap upstream.
    behind: Set<(&'a str, Name)>,
    /// Links and flows with another tap downstream.
    ahead: Set<(&'a str, Name)>,
}

impl<'a> Ends<'a> {
    pub(in crate::findings) fn of(facts: &'a Facts) -> Self {
        let (mut behind, mut ahead) = (Set::default(), Set::default());
        for tap in facts.taps.iter().filter(|tap| !see_different(tap)) {
            let name = tap.name();
            if let (Some(from), Some(to)) = (&tap.from, &tap.to) {
                ahead.insert((from.as_str(), name));
                behind.insert((to.as_str(), name));
            } else if tap.only_at == [0, 0] {
                // The order is unknown: both taps see the same, so one of them suffices.
                let [_, other] = &tap.links;
                ahead.insert((other.as_str(), name));
                behind.insert((other.as_str(), name));
            }
        }
        Self { behind, ahead }
    }

    /// True if another tap covers this side of the flow.
    pub(in crate::findings) fn covers(&self, side: Side, flow: &Flow) -> bool {
        let key = (flow.link.as_str(), name(flow));
        match side {
            Side::Upstream => self.behind.contains(&key),
            Side::Downstream => self.ahead.contains(&key),
        }
    }
}

/// True if most of what each tap sees of a flow did not pass the other: parallel links over which it is sprayed share
/// retransmissions alone.
fn see_different(tap: &TapFlow) -> bool {
    tap.not_compared.iter().all(|others| others.is_some_and(|others| others > tap.packets_matched))
}

/// The flows that lose packets between two taps, as seen at the first tap.
fn at_first<'a>(input: &Input<'a>, between: &BetweenTaps<'a>) -> Vec<&'a Flow> {
    let at_first = |flow: &&Flow| {
        input.facts.to_qp(flow.src, flow.dst, flow.dest_qp).find(|other| other.link == between.from)
    };
    between.flows.iter().filter_map(at_first).collect()
}

/// The first tap sees retransmissions and silences of the sender; the second sees when the gaps are filled.
fn cost(between: &BetweenTaps<'_>, sent: &[&Flow]) -> Impact {
    let whole = run(between.flows.iter().copied());
    let cost = |flows: &[&Flow], waits: &[Wait]| {
        let cost = Cost { ratio: Some(between.ratio()), signal: Signal::Retransmitted, waits };
        impact(&whole, flows.iter().copied(), &cost)
    };
    let retransmitted = cost(sent, &[Wait::RecoveryDownstream, Wait::Timeout]);
    let repaired = cost(&between.flows, &[Wait::RecoveryUpstream]);
    Impact { time_lost_ns: retransmitted.time_lost_ns.max(repaired.time_lost_ns), ..retransmitted }
}

/// Packets that both taps saw between the first and the last lost one, estimated from the packets at the first tap,
/// whose clock the times use.
fn in_episode(input: &Input<'_>, between: &BetweenTaps<'_>) -> u64 {
    let Some((first_ns, last_ns)) = between.seen_ns else { return between.matched };
    let period = Period::episode_of(first_ns, last_ns);
    let sent = at_first(input, between);
    let packets = |period: &Period| sent.iter().map(|flow| period.packets(input.facts, flow)).sum::<u64>();
    let all = packets(&Period::whole(first_ns, last_ns));
    scaled(packets(&period), between.matched, all)
}

/// Packets, or where flows have no sequence ACKs.
fn what_is_lost(between: &BetweenTaps<'_>) -> &'static str {
    let answers = !between.flows.is_empty() && between.flows.iter().all(|flow| !flow.has_sequence());
    if answers { "ACK" } else { "packet" }
}

/// Raises loss between taps.
pub(super) fn between(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.loss;
    let mut bad = input.facts.between_taps();
    // A different path affects the whole run.
    bad.retain(|one| one.vanished >= limits.vanished && one.ratio() < limits.other_way);
    for one in &mut bad {
        one.not_compared = if one.is_lower_bound() { one.not_compared } else { 0 };
        one.matched = in_episode(input, one);
    }
    bad.retain(|one| one.ratio() >= limits.ratio);
    bad.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for mut one in bad {
        let lost = |flow: &Flow| flow.losses_sum(|loss| loss.lost);
        worst_first(&mut one.flows, |flow| lost(flow), |flow| flow);
        let BetweenTaps { from, to, src, dst, vanished, .. } = &one;
        let diagnosis = format!(
            "Loss between {} and {}: {}{} of {} ({})",
            short(from),
            short(to),
            if one.not_compared > 0 { "at least " } else { "" },
            units::count(*vanished),
            plural(one.packets(), what_is_lost(&one)),
            units::ratio(Some(one.ratio()))
        );
        let critical = one.ratio() >= limits.critical_ratio;
        let severity = if critical { Severity::Critical } else { Severity::Warning };
        let dropped = own_between(input, one.seen_ns);
        let sent = at_first(input, &one);
        let (requester, responder) = ends::of_lost(input, sent.iter().copied());
        let episode = |(first_ns, last_ns)| Episode { first_ns, last_ns, peak: Some(one.ratio()) };
        let episodes = one.seen_ns.map(episode).into_iter().collect();
        let first = one.flows.first().copied();
        let place = first.map(|flow| Place::of(input, flow)).unwrap_or_default();
        let raise =
            Raise::new(&BETWEEN, severity, title::title(diagnosis, [pair(src, dst), own_loss(dropped)]))
                .evidence("loss_ratio", one.ratio())
                .evidence("vanished", *vanished)
                .evidence("packets", one.packets())
                .counted(one.flows.iter().map(|flow| (lost(flow), *flow)))
                .place(place.hop(Hop::between(*from, *to)))
                .ends(requester, responder)
                .impact(cost(&one, &sent))
                .of_cost(cost_base(input.facts, &run(one.flows.iter().copied()), sent.iter().copied()))
                .owns(&[ids::RETRY_TIMEOUTS])
                .episodes(episodes)
                .step(
                    format!(
                        "Check the drop, discard and FEC counters of each port between {} and {}.",
                        short(from),
                        short(to)
                    ),
                    ByHand::Switch,
                );
        let raise = match first {
            Some(flow) => class_steps(input, raise, flow),
            None => raise,
        };
        with_own_loss(dropped, raise).into(found);
    }
}

/// Adds the steps about the class of a flow that loses packets between taps.
fn class_steps(input: &Input<'_>, raise: Raise, flow: &Flow) -> Raise {
    let sender = ("", Commands::near(input, flow, flow.src));
    of_class(raise, flow, sender, "on both sides of each of these links")
}

/// True if a receiver's ACKs are captured and neither they nor a timeout triggered a retransmission.
pub(super) fn without_nak(input: &Input<'_>, (src, dst): (Address, Address)) -> bool {
    let between = |from, to| input.facts.between(from, to);
    let asked = |flow: &Flow| flow.ack.rnr_naks + flow.ack.naks.total() + flow.ack.unknown > 0;
    let lost_answers = |flow: &Flow| flow.loss_responses.get().is_some_and(|loss| loss.lost > 0);
    let by_itself =
        |flow: &Flow| flow.loss.get().is_some_and(|loss| loss.timeouts + loss.rereads.or_zero() > 0);
    between(dst, src).any(|flow| flow.ack.acks > 0)
        && !between(dst, src).any(|flow| asked(flow) || by_itself(flow))
        && !between(src, dst).any(|flow| by_itself(flow) || lost_answers(flow))
}

/// ` (may be capture loss)` if packets were dropped meanwhile before rocescope saw them.
pub(super) fn own_loss(dropped: u64) -> String {
    if dropped > 0 { " (may be capture loss)".to_owned() } else { String::new() }
}

/// Adds the number of them, and the caveat.
pub(super) fn with_own_loss(dropped: u64, raise: Raise) -> Raise {
    let raise = raise.evidence("tool_lost", dropped);
    if dropped == 0 {
        return raise;
    }
    raise.caveat(format!(
        "May be capture loss: {} dropped before rocescope saw them.",
        plural(dropped, "packet")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_share_retransmissions_alone_see_different_packets() {
        let flow = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), 17);
        let of = |packets_matched, others: [u64; 2]| {
            let not_compared = others.map(Some);
            see_different(&TapFlow { packets_matched, not_compared, ..TapFlow::empty(flow, ["a", "b"]) })
        };
        assert!(of(9, [5_089, 5_153]));
        assert!(!of(1_000, [0, 0]) && !of(1_000, [3, 5_000]), "the second tap began earlier");
        assert!(!of(20, [512, 0]), "the last of a queue pair vanish");
    }
}
