//! Receivers that are not ready.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::ends;
use super::nak::{episodes_of, latest_nak};
use crate::analysis::Flow;
use crate::findings::dedup::deduplicated;
use crate::findings::ids;
use crate::findings::not_evaluated::is_not_evaluated;
use crate::findings::period::{Cost, Evaluated, Period, Wait, cost_base, impact, latest, run, timed};
use crate::findings::title::{self, title};
use crate::findings::{
    ByHand, Commands, End, Entry, Family, Finding, Hop, Impact, Input, Measure, Place, Problem, Raise,
    Severity, Unit, label,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::{Address, UntimedCounter};
use crate::util::map::Map;
use crate::util::numbers;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[SLOW],
    limits: &[Limits::META],
    evidence: &[
        label("rnr_naks", "RNR NAKs", Unit::Count).summed(),
        label("rnr_ratio", "RNR NAKs per request packet", Unit::Ratio),
        label("packets", "request packets", Unit::Count).summed(),
        label("packets_resent", "retransmissions after RNR NAK", Unit::Count).summed(),
    ],
    check,
};

pub(in crate::findings) const SLOW: Entry = Entry {
    id: ids::RNR_SLOW_RECEIVER,
    rank: 260,
    grows: Some(UntimedCounter::RnrNaks),
    measure: Some(Measure::ratio("rnr_ratio")),
    title: "Receiver not ready (RNR NAKs)",
    meaning: "SENDs, or WRITEs with immediate data, arrive before the receiver has posted a receive buffer. The receiver refuses them with an RNR NAK; the sender waits for the RNR timer and retransmits all that was in flight. After rnr_retry attempts the connection fails.",
    computed: "Per receiving host: a warning from `rnr.naks` RNR NAKs on, when they are at least the share `rnr.ratio` of the request packets sent to it. The sequence-error NAKs and retransmissions that follow an RNR NAK belong to it and are no finding of their own. Figures are those of the latest episode ({EPISODE_GAP_NS} without the signal end one), over {LEAST_NS} at least.",
    advice: "The receiving process is too slow or posts too few receives: look at its CPU (pinning, NUMA node, a busy or paused GPU), at the depth of its receive queue, and at what it waits for. A \
             longer RNR timer only hides it. If retries are exhausted: rnr_retry 7 means unlimited.",
    caveat: "A few RNR NAKs at the start of a job are usual: peers do not start at the same time.",
    ..Entry::of(Problem::NotReady)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "rnr";
    naks: u64 = 5,
        "minimum RNR NAKs of a host",
        "Fewer are what the start of a connection may bring";
    ratio: f64 = 0.001,
        "minimum RNR NAKs per request packet sent to the host",
        "Each one costs a timer of at least 10 us (NCCL: 640 us), as long as hundreds of packets take; below 1 in 1,000 that is a small share";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let mut by_host: BTreeMap<Address, Vec<&Flow>> = BTreeMap::new();
    for (flow, _) in deduplicated(&input.facts.flows, Flow::rnr_naks_dedup) {
        by_host.entry(flow.src).or_default().push(flow);
    }
    if by_host.is_empty() {
        return;
    }
    let mut requests: Map<Address, Vec<&Flow>> = Map::default();
    for flow in input.facts.flows.iter().filter(|flow| by_host.contains_key(&flow.dst)) {
        requests.entry(flow.dst).or_default().push(flow);
    }
    let to = |host: Address| requests.get(&host).map_or(&[][..], |all| &all[..]);
    let retransmitted = retransmitted_after_rnr(&input.facts.flows);
    let mut raised: Vec<(Address, Vec<&Flow>, Evaluated<NotReadyReceiver>)> = Vec::new();
    for (host, flows) in by_host {
        let counted = |flow: &Flow| flow.rnr_naks_dedup();
        let periods = timed(&flows, Signal::RnrNak, counted);
        let judge = |period: &Period| NotReadyReceiver::of(input, to(host), &flows, period);
        if let Some(judged) = latest(&periods, run(flows.iter().copied()), judge) {
            raised.push((host, flows, judged));
        }
    }
    raised.sort_by_key(|(host, _, judged)| (Reverse(judged.what.naks), *host));
    for (host, flows, judged) in raised {
        raise(
            input,
            (host, to(host)),
            &flows,
            &judged,
            retransmitted.get(&host).copied().unwrap_or(Some(0)),
            found,
        );
    }
}

/// A receiver that was not ready, in one period.
struct NotReadyReceiver {
    naks: u64,
    /// Request packets sent to it; `None` if not visible.
    packets: Option<u64>,
    ratio: Option<f64>,
}

impl NotReadyReceiver {
    /// `None` if below the thresholds.
    fn of(
        input: &Input<'_>,
        to_host: &[&Flow],
        flows: &[&Flow],
        period: &Period,
    ) -> Option<(Self, Option<f64>)> {
        let limits = &input.limits.rnr;
        let naks = flows.iter().map(|flow| period.count(flow, Signal::RnrNak, flow.rnr_naks_dedup())).sum();
        let to_host = to_host.iter().copied().filter(|flow| flow.psn.is_some());
        let sent: Vec<u64> = deduplicated(to_host, |flow| period.packets_of(input.facts, flow))
            .into_iter()
            .map(|(_, packets)| packets)
            .collect();
        let packets = (!sent.is_empty()).then(|| sent.iter().sum());
        let ratio = packets.map(|packets: u64| naks as f64 / packets as f64);
        // A mirror may show only the NAKs: then there is no ratio.
        let enough = naks >= limits.naks && ratio.is_none_or(|ratio| ratio >= limits.ratio);
        enough.then_some((Self { naks, packets, ratio }, ratio))
    }
}

fn raise(
    input: &Input<'_>,
    (host, to_host): (Address, &[&Flow]),
    flows: &[&Flow],
    judged: &Evaluated<NotReadyReceiver>,
    retransmitted: Option<u64>,
    found: &mut Vec<Finding>,
) {
    let (period, NotReadyReceiver { naks, packets, ratio }) = (&judged.period, &judged.what);
    let peers: BTreeSet<Address> = flows.iter().map(|flow| flow.dst).collect();
    let requests = || {
        let sends = |flow: &&Flow| flow.loss.get().is_some() && peers.contains(&flow.src);
        to_host.iter().copied().filter(sends)
    };
    let again = deduplicated(requests(), |flow| {
        period.count(
            flow,
            Signal::RetransmittedAfterRnr,
            flow.loss.get().map_or(0, |loss| loss.rnr_resent.or_zero()),
        )
    });
    let cost = Cost { ratio: None, signal: Signal::RetransmittedAfterRnr, waits: &[Wait::Rnr] };
    let cost = impact(period, again.iter().map(|(flow, _)| *flow), &cost);
    let retransmissions = retransmitted.and(cost.retransmissions);
    // Of the packets sent to it, as far as they were followed.
    let packets_ratio = retransmissions.zip(*packets).map(|(again, all)| numbers::share(again, all).min(1.0));
    let diagnosis = |figures: &str| format!("Receiver {host} not ready: {figures}");
    let title = match (retransmissions.zip(packets_ratio).zip(*packets), packets) {
        // What it costs; a single RNR NAK may cost all packets in flight.
        (Some(((again, share), packets)), _) if again > 0 => {
            let of = format!("{} of {}", units::count(again), plural(packets, "packet"));
            title(diagnosis(&format!("{of} ({}) retransmitted", units::ratio(Some(share)))), [])
        }
        (_, packets) => {
            let diagnosis = diagnosis(&plural(*naks, "RNR NAK"));
            let ratio = units::ratio(*ratio);
            let of = packets.map(|packets| format!(" for {} ({ratio})", plural(packets, "request packet")));
            let to = match (peers.len(), peers.first()) {
                (1, Some(peer)) => format!(" to {peer}"),
                (n, _) => format!(" to {}", plural(n as u64, "peer")),
            };
            let of = of.unwrap_or_default();
            let parts = if title::fits(&diagnosis, [&to, &of]) { [to, of] } else { [of, String::new()] };
            title(diagnosis, parts)
        }
    };
    let refusing = |flow: &&Flow| period.count(flow, Signal::RnrNak, flow.rnr_naks_dedup()) > 0;
    let place = Place::of_several(input, flows.iter().copied().filter(refusing));
    let first = flows.iter().min_by_key(|flow| (&flow.link, flow.dst, flow.dest_qp));
    let (requester, responder) = ends::of_answers(input, flows.iter().copied());
    let receiver = responder.clone();
    let raise = Raise::new(&SLOW, Severity::Warning, title)
        .evidence("rnr_naks", *naks)
        .evidence("rnr_ratio", *ratio)
        .evidence("packets", *packets)
        .evidence("packets_resent", if period.is_whole() { retransmitted } else { retransmissions })
        .last_seen(latest_nak(flows, |last| last.rnr))
        .flows(ends::flows_at_fault(input, flows.iter().copied()))
        .near(flows.iter().map(|flow| flow.rnr_naks_dedup()))
        .place(place.hop(Hop::Responder))
        .ends(requester, responder)
        .impact(Impact { packets_ratio, retransmissions, ..cost })
        .of_cost(cost_base(input.facts, period, again.iter().map(|(flow, _)| *flow)))
        .episodes(episodes_of(judged, flows, |last| last.rnr));
    steps(input, raise, host, first.copied(), receiver.as_ref()).into(found);
}

/// Adds the steps; `first`: a flow of the answers of the `receiver`.
fn steps(
    input: &Input<'_>,
    raise: Raise,
    host: Address,
    first: Option<&Flow>,
    receiver: Option<&End>,
) -> Raise {
    let process = receiver.filter(|end| end.pid.is_some()).map_or_else(String::new, |end| format!(", {end}"));
    let there = first.map(|flow| Commands::at(input, flow, host));
    let sender = first.map_or_else(|| "the senders".to_owned(), |flow| flow.dst.to_string());
    let threads = there.and_then(|there| there.threads_of(receiver));
    raise
        .step(format!("Check CPU load and pinning of the receiving process{process}."), threads)
        .step(
            format!("Check out_of_buffer on {host}, and rnr_nak_retry_err (gave up) on {sender}."),
            there.and_then(Commands::rdma_counters),
        )
        .step("Post more receive buffers in the application, or post them earlier.", ByHand::Job)
        .step("Keep rnr_retry at 7 (unlimited), so that connections survive until then.", ByHand::Job)
}

/// Retransmissions to each host after its RNR NAKs; `None` if some flow to it could not be followed.
fn retransmitted_after_rnr(flows: &[Flow]) -> Map<Address, Option<u64>> {
    let mut retransmitted: Map<Address, Option<u64>> = Map::default();
    for (flow, packets) in
        deduplicated(flows, |flow| flow.loss.get().map_or(0, |loss| loss.rnr_resent.or_zero()))
    {
        if let Some(sum) = retransmitted.entry(flow.dst).or_insert(Some(0)) {
            *sum += packets;
        }
    }
    retransmitted.extend(flows.iter().filter(|flow| is_not_evaluated(flow)).map(|flow| (flow.dst, None)));
    retransmitted
}

#[cfg(test)]
mod tests {
    use crate::analysis::{Options, fixtures};
    use crate::findings::tests::found;
    use crate::sample::Direction::Ingress;

    /// Which of two rails has more NAKs changes with every sample.
    #[test]
    fn the_place_of_a_receiver_with_two_rails_is_both_of_them() {
        let slow = |naks: [u64; 2]| {
            let links = ["rail0", "rail1"].map(|name| fixtures::link(name, Some(Ingress)));
            let flow = |link: u16, naks: u64| {
                let mut answers = fixtures::stats(50_000, 1_000, 60_000);
                answers.rare.rnr_naks = naks;
                (fixtures::key(link, "10.0.0.2", "10.0.0.1", 17 + u32::from(link)), answers)
            };
            let sample = fixtures::sample(links.into(), vec![flow(0, naks[0]), flow(1, naks[1])]);
            let all = found(&sample, &Options::default());
            all.into_iter().find(|one| one.id == super::SLOW.id).unwrap()
        };
        let (one, other) = (slow([20, 21]), slow([21, 20]));
        assert_eq!(one.place.links, ["rail0", "rail1"]);
        assert_eq!((&one.place, &one.steps, one.key()), (&other.place, &other.steps, other.key()));
        assert_eq!(slow([20, 0]).place.link.as_deref(), Some("rail0"));
        // Each counter on the host that has it.
        let has = |part: &str| one.steps.iter().any(|step| step.text.contains(part));
        assert!(has("out_of_buffer on 10.0.0.2, ") && has("(gave up) on 10.0.0.1"), "{:?}", one.steps);
    }
}
