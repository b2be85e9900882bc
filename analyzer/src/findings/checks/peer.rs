//! Peers that do not answer.

use rocescope_common::wire::SkipReason;
use rocescope_common::wire::bth::psn_distance;

use super::ends;
use crate::analysis::{Facts, Flow};
use crate::findings::command::ethernet;
use crate::findings::ids;
use crate::findings::title::{more, title};
use crate::findings::{
    Commands, Entry, Episode, Family, Finding, Hop, Impact, Input, Place, Problem, Raise, RequiredData,
    Severity, Unit, dedup, label,
};
use crate::metrics::loss::PSN_WINDOW;
use crate::sample::{Address, Direction, LinkSample, Sample, SourceKind};
use crate::util::map::{Map, Set};
use crate::util::time::NS_PER_MS;
use crate::util::units::plural;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[SILENT],
    limits: &[Limits::META],
    evidence: &[
        label("retries", "retries of the same request", Unit::Count),
        label("packets", "packets without an answer", Unit::Count).summed(),
    ],
    check,
};

pub(super) const SILENT: Entry = Entry {
    id: ids::PEER_SILENT,
    rank: 270,
    needs: &[RequiredData::Loss],
    title: "Peer does not answer",
    meaning: "A requester requests acknowledgements, or retransmits the same request, and gets no response: the peer's queue pair, process or host is gone, or packets pass in one direction only. After retry_cnt attempts the connection fails.",
    computed: "Reliable flows that asked for an acknowledgement, and to which no acknowledgement, NAK or response with a PSN of theirs came from the peer's address:\n\
               - Critical: the sender began again at the same PSN at least `qp.retries` times in a row. A warning where nothing at all is seen to be sent to the host that asks.\n\
               - With fewer retransmissions: hosts that asked another for an acknowledgement `peer.wait_ms` or longer before the end of the data, while none of that host's flows \
               answered them at any tap. A warning when they retransmitted, else info.\n\
               \n\
               The second only from a tap that would show the answer: it shows other RoCE packets to the host that asks, and answers to all but one in `peer.pairs` of the pairs of hosts \
               that ask, or to all others.\n\
               \n\
               A host to which nothing else is sent counts too (info) where its requests leave by an interface whose incoming frames were seen (live; captures that tell the two \
               directions apart), and they did not go on for `peer.longest_timer_ms`. Not evaluated where flows were left out (--filter) or have retired.",
    advice: "<eth>See whether the peer's process lives and its queue pair is in RTS (`rdma resource show qp`), whether the peer's address is reachable from that GID (routes, ARP, `rping`), and whether \
             a filter or ACL drops UDP 4791 one way.</eth> NCCL gives up after NCCL_IB_RETRY_CNT times NCCL_IB_TIMEOUT.",
    caveat: "On a tap that sees one direction only, a sender that is stuck for another reason looks the same. Answers may take another path than requests; the rest of the tap's traffic says whether \
             they do, but not for certain.",
    ..Entry::of(Problem::Silent)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "peer";
    wait_ms: u64 = 10,
        "maximum time for an answer, in milliseconds",
        "NICs acknowledge by themselves, within microseconds; software stacks under load take a few milliseconds";
    longest_timer_ms: u64 = 20_000,
        "maximum time that a reliable sender goes on without any answer, in milliseconds",
        "The longest timer in use, NCCL's NCCL_IB_TIMEOUT=22 (4.096 µs · 2^22), has expired by then: a sender that continues gets answers on another path";
    pairs: usize = 3,
        "minimum pairs of hosts that ask, for each without an answer",
        "A mirror of one direction, or of one of several paths, shows many flows without ACKs";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let before = found.len();
    stuck(input, found);
    if found.len() == before {
        unanswered(input, found);
    }
}

/// Senders that restarted their sequence repeatedly.
fn stuck(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(metrics) = &input.sample.metrics.loss else { return };
    let stuck_for = |flow: &Flow| metrics.flow(flow.slot).requests.map_or(0, |loss| loss.stuck);
    let stuck: Vec<&Flow> = input
        .facts
        .flows
        .iter()
        .filter(|flow| stuck_for(flow) >= input.limits.qp.retries.max(1))
        .filter(|flow| metrics.ack_state(flow.slot).asked_ns.get().is_some())
        .collect();
    if stuck.is_empty() {
        return;
    }
    // By source and destination of the ACKs; without a known queue pair they may be for anyone.
    let mut answers: Map<(Address, Address), Vec<Option<u32>>> = Map::default();
    for flow in &input.facts.flows {
        let ack_state = metrics.ack_state(flow.slot);
        let psn = ack_state.answer_psn.map(Some).or(ack_state.answered_something.then_some(None));
        if let Some(psn) = psn {
            answers.entry((flow.src, flow.dst)).or_default().push(psn);
        }
    }
    let silent: Map<u32, u64> = stuck
        .into_iter()
        .filter(|flow| {
            let back = answers.get(&(flow.dst, flow.src));
            !back.into_iter().flatten().any(|psn| psn.is_none_or(|psn| is_of(psn, flow)))
        })
        .map(|flow| (flow.slot, stuck_for(flow)))
        .collect();
    let mut silent = named(input, &silent);
    silent.sort_by_key(|(_, stuck)| std::cmp::Reverse(*stuck));
    let Some((worst, stuck)) = silent.first() else { return };
    let others = dedup::count(silent.iter().map(|(flow, _)| *flow)).saturating_sub(1);
    // If no packet at all reaches the requester here, the ACKs may take another path.
    let hears = |host: Address| input.facts.flows.iter().any(|flow| flow.dst == host);
    let seen = silent.iter().any(|(flow, _)| hears(flow.src));
    let times = format!(": QP {} got the same request {} times", worst.dest_qp, stuck + 1);
    let diagnosis = format!("No response from {} to {}", worst.dst, worst.src);
    let severity = if seen { Severity::Critical } else { Severity::Warning };
    let raise = Raise::new(&SILENT, severity, title(diagnosis, [times, more(others, "QP")]))
        .evidence("retries", *stuck)
        .flows(silent.iter().map(|(flow, _)| *flow));
    let mut raise = since(input, raise, worst);
    if !seen {
        raise = raise.caveat(format!(
            "Nothing sent to {} is visible at this tap: the answers may take another path.",
            worst.src
        ));
    }
    steps(input, raise, worst).into(found);
}

/// Adds place, ends and steps.
fn steps(input: &Input<'_>, raise: Raise, worst: &Flow) -> Raise {
    let at = |host| Commands::at(input, worst, host);
    let (requester, responder) = ends::of_data(input, [worst]);
    let asks = requester.as_ref().map_or_else(|| worst.src.to_string(), ToString::to_string);
    raise
        .owns(&[ids::RETRY_TIMEOUTS])
        .place(Place::of(input, worst).hop(Hop::Responder))
        .ends(requester, responder)
        .step(
            format!("Check that QP {} on {} exists and is in RTS.", worst.dest_qp, worst.dst),
            at(worst.dst).queue_pairs_of(Some(worst.dest_qp)),
        )
        .step(
            format!("Check that {} is reachable from {}.", worst.dst, worst.src),
            at(worst.src).ping(worst.dst),
        )
        .step(
            format!(
                "Check that no filter drops UDP port 4791 in one direction, on {} and on the way.",
                worst.dst
            ),
            ethernet(at(worst.dst).filters()),
        )
        .step(
            format!(
                "Check the retry settings of the requester, {asks} (NCCL_IB_RETRY_CNT, NCCL_IB_TIMEOUT)."
            ),
            at(worst.src).nccl_settings(),
        )
}

/// Upper opcode bits of the transports without ACKs: UC and UD.
const UNANSWERED: [u8; 2] = [1, 3];

/// Hosts on a link, in the direction of the requests.
type Hosts = (Address, Address);

/// Requests from one host to another on one link.
#[derive(Default)]
struct PendingRequests<'a> {
    flows: Vec<&'a Flow>,
    /// They left through an interface whose ingress is seen, where ACKs would arrive, and lasted long enough that
    /// there should have been some.
    way_back: bool,
    /// They are old enough for an ACK to have arrived.
    waited: bool,
}

/// Egress links of interfaces whose ingress is also seen: names and directions.
fn with_way_back<'a>(sample: &'a Sample, facts: &'a Facts) -> Set<(&'a str, Option<Direction>)> {
    let mut hears: Set<(&str, Option<Direction>)> = Set::default();
    for link in &sample.links {
        if link.skipped.iter().any(|counter| counter.packets > 0) {
            hears.insert((link.name.as_str(), link.direction));
        }
    }
    hears.extend(facts.link_by_link().map(|(link, direction, _)| (link, direction)));
    // Captures of a host's interfaces have the direction in the name of the link.
    let comes_in = |link: &LinkSample| match (link.direction, link.name.strip_suffix(":out")) {
        (Some(Direction::Egress), _) => hears.contains(&(link.name.as_str(), Some(Direction::Ingress))),
        (None, Some(interface)) => hears.contains(&(format!("{interface}:in").as_str(), None)),
        _ => false,
    };
    sample
        .links
        .iter()
        .filter(|link| comes_in(link))
        .map(|link| (link.name.as_str(), link.direction))
        .collect()
}

/// Slots of flows whose requests were not answered where answers would be seen: true if requests were retransmitted.
#[expect(clippy::too_many_lines, reason = "one pass over the flows, and the rule for each pair of hosts")]
fn unanswered_slots(input: &Input<'_>) -> Option<Map<u32, bool>> {
    let sample = input.sample;
    let (metrics, (_, end)) = (sample.metrics.loss.as_ref()?, sample.window?);
    // ACKs may belong to retired flows, or be excluded by a filter.
    let hidden = |link: &LinkSample| {
        let filtered =
            link.skipped.get(SkipReason::Filtered as usize).is_some_and(|counter| counter.packets > 0);
        link.retired.flows > 0 || link.flow_table_full.packets > 0 || filtered
    };
    if sample.links.iter().any(hidden) {
        return None;
    }
    let wait_ns = input.limits.peer.wait_ms.saturating_mul(NS_PER_MS);
    let pairs = input.limits.peer.pairs;
    let longest_ns = input.limits.peer.longest_timer_ms.saturating_mul(NS_PER_MS);
    // Links by the number of their name: both directions of an interface are one.
    let mut names: Map<&str, usize> = Map::default();
    let mut asked: Map<(usize, Hosts), PendingRequests<'_>> = Map::default();
    let mut answered: Set<Hosts> = Set::default();
    let mut receives: Set<(usize, Address)> = Set::default();
    let two_ways = with_way_back(sample, input.facts);
    for (name, direction, flows) in input.facts.link_by_link() {
        let two_way = two_ways.contains(&(name, direction));
        let next = names.len();
        let link = *names.entry(name).or_insert(next);
        for flow in flows {
            receives.insert((link, flow.dst));
            let ack_state = metrics.ack_state(flow.slot);
            let answers = flow.ack.acks + flow.ack.rnr_naks + flow.ack.naks.total();
            if answers > 0 || flow.psn_responses.is_some() || ack_state.answer_psn.is_some() {
                answered.insert((flow.dst, flow.src));
            }
            if let Some(first_ns) = ack_state.asked_ns.get().filter(|_| !UNANSWERED.contains(&flow.transport))
            {
                // In live runs the time of a flow's first request is unknown.
                let since = if sample.kind == SourceKind::Live { flow.last_ns } else { first_ns };
                let pair = asked.entry((link, (flow.src, flow.dst))).or_default();
                pair.waited |= end.saturating_sub(since) >= wait_ns;
                let short = flow.last_ns.saturating_sub(first_ns) < longest_ns;
                pair.way_back = two_way && short && (pair.way_back || pair.flows.is_empty());
                pair.flows.push(flow);
            }
        }
    }
    let mut at: Map<usize, (usize, usize)> = Map::default();
    for (link, hosts) in asked.keys() {
        let (all, open) = at.entry(*link).or_default();
        *all += 1;
        *open += usize::from(!answered.contains(hosts));
    }
    let two_way = |link| at.get(link).is_some_and(|(all, open)| *open == 1 || open * pairs <= *all);
    let mut silent: Map<u32, bool> = Map::default();
    for ((link, hosts), pair) in &asked {
        let receives = receives.contains(&(*link, hosts.0));
        let visible = (receives || pair.way_back) && two_way(link);
        if answered.contains(hosts) || !pair.waited || !visible {
            continue;
        }
        // If ACKs may take another interface, a repaired loss is no sign that they are missing.
        let again = |flow: &&Flow| {
            receives
                && metrics
                    .flow(flow.slot)
                    .requests
                    .is_some_and(|loss| loss.retransmitted > 0 || loss.stuck > 0)
        };
        silent.extend(pair.flows.iter().map(|flow| (flow.slot, again(flow))));
    }
    Some(silent)
}

/// Senders whose requests were not answered, whether they retried or not.
fn unanswered(input: &Input<'_>, found: &mut Vec<Finding>) {
    let mut silent = named(input, &unanswered_slots(input).unwrap_or_default());
    let repeated = silent.iter().any(|(_, again)| *again);
    silent.sort_by_key(|(flow, again)| std::cmp::Reverse((*again, flow.packets)));
    let Some((worst, _)) = silent.first() else { return };
    let others = dedup::count(silent.iter().map(|(flow, _)| *flow)).saturating_sub(1);
    let diagnosis = format!("No response from {} to {}", worst.dst, worst.src);
    let sent = format!(": {} to QP {}", plural(worst.packets, "packet"), worst.dest_qp);
    let again = if repeated { ", with retransmissions" } else { "" };
    let severity = if repeated { Severity::Warning } else { Severity::Info };
    let raise = Raise::new(&SILENT, severity, title(diagnosis, [sent, again.to_owned(), more(others, "QP")]))
        .evidence("packets", worst.packets)
        .flows(silent.iter().map(|(flow, _)| *flow));
    steps(input, since(input, raise, worst), worst).into(found);
}

/// Adds the time of the silence: from the first request for an ACK, whose time a live run does not know, to the end of
/// the data.
fn since(input: &Input<'_>, raise: Raise, worst: &Flow) -> Raise {
    let asked_ns =
        input.sample.metrics.loss.as_ref().and_then(|loss| loss.ack_state(worst.slot).asked_ns.get());
    let (asked_ns, end_ns) =
        (asked_ns.filter(|_| input.sample.kind == SourceKind::Replay), input.facts.window.last_ns);
    let Some((first_ns, last_ns)) = asked_ns.zip(end_ns) else { return raise.last_seen(end_ns) };
    let waited_ns = last_ns.saturating_sub(first_ns);
    raise
        .episodes(vec![Episode { first_ns, last_ns: last_ns.max(first_ns), peak: None }])
        .impact(Impact { time_lost_ns: Some(waited_ns), ..Impact::default() })
}

/// True if the PSN of an ACK lies in the flow's sequence or shortly before it: a capture that begins in the middle
/// misses a part of what a sender goes back to, and a repeated ACK refers to earlier packets.
fn is_of(psn: u32, flow: &Flow) -> bool {
    let own = flow.psn.get().unwrap_or_default();
    let before = own.first.wrapping_sub(PSN_WINDOW);
    psn_distance(before, psn) < psn_distance(before, own.expected)
}

/// Flows of the report by slot, in the order of the report.
fn named<'a, T: Copy>(input: &Input<'a>, by_slot: &Map<u32, T>) -> Vec<(&'a Flow, T)> {
    let flows = input.facts.flows.iter();
    flows.filter_map(|flow| Some((flow, *by_slot.get(&flow.slot)?))).collect()
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixtures::{SECOND, START, counter, key, link, sample, stats};
    use crate::findings::Severity;
    use crate::findings::episode_tests::by_id;
    use crate::findings::tests::severity;
    use crate::metrics::loss::{AckState, FlowLoss, Loss, Metrics};
    use crate::sample::{Direction, Sample, SourceKind};
    use rocescope_common::wire::SkipReason;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";

    /// A thousand requests from A to B, starting with the captured second, beside other flows.
    fn silent_receiver(others: &[(&str, &str, AckState)]) -> Sample {
        let asked = AckState { asked_ns: START.into(), ..AckState::default() };
        let mut flows = vec![(key(0, A, B, 17), stats(50_000, 1_000, 1_000_000))];
        let mut ack_states = vec![asked];
        for (n, (src, dst, ack_state)) in (30..).zip(others) {
            flows.push((key(0, src, dst, n), stats(50_000, 10, 10_000)));
            ack_states.push(*ack_state);
        }
        let mut sample = sample(vec![link("eth0", None)], flows);
        sample.metrics.loss = Some(Loss { ack_states, ..Loss::default() });
        sample
    }

    fn found(sample: &Sample) -> Option<Severity> {
        severity(sample, "peer.silent")
    }

    #[test]
    fn requests_without_any_answer_are_reported_where_answers_would_be_seen() {
        let data = AckState::default();
        let answers = AckState { answer_psn: Some(100), ..data };
        let asked = AckState { asked_ns: START.into(), ..data };
        assert_eq!(
            found(&silent_receiver(&[(B, A, data)])),
            Some(Severity::Info),
            "the peer sends, and answers nothing"
        );
        let silent = by_id(&silent_receiver(&[(B, A, data)]), "peer.silent").unwrap();
        let end = START + SECOND;
        assert_eq!((silent.first_seen_ns, silent.last_seen_ns), (Some(START), Some(end)));
        assert_eq!(silent.impact.time_lost_ns, Some(SECOND), "from the first request to the end of the data");
        assert_eq!(found(&silent_receiver(&[(B, A, answers)])), None);
        assert_eq!(found(&silent_receiver(&[])), None, "one direction may be all that is seen");
        let mirror = silent_receiver(&[(A, "10.0.0.3", asked), (A, "10.0.0.4", asked)]);
        assert_eq!(found(&mirror), None, "a mirror of one direction");
        let paths = silent_receiver(&[(B, A, data), (A, "10.0.0.3", asked), ("10.0.0.3", A, data)]);
        assert_eq!(found(&paths), None, "all answers take another path");

        let mut again = silent_receiver(&[(B, A, data)]);
        let requests = Some(Metrics { retransmitted: 1, ..Metrics::default() });
        if let Some(loss) = &mut again.metrics.loss {
            loss.flows.insert(0, FlowLoss { requests, ..FlowLoss::default() });
        }
        assert_eq!(found(&again), Some(Severity::Warning));
    }

    /// A lone sender: its requests leave on link 1, and link 0 is the ingress of the same interface.
    fn lone(links: [(&str, Option<Direction>); 2], frames_in: u64) -> Sample {
        let mut sample = silent_receiver(&[]);
        sample.links = links.map(|(name, direction)| link(name, direction)).into();
        sample.links[0].skipped[SkipReason::Arp as usize] = counter(frames_in, 60 * frames_in);
        sample.flows[0].key.link = 1;
        // Ten requests at once, at the start of the observed second.
        sample.flows[0].stats.last_ns = START + 1_000;
        sample
    }

    #[test]
    fn a_lone_sender_is_reported_where_answers_would_come_in() {
        const WAYS: [(&str, Option<Direction>); 2] =
            [("eth0", Some(Direction::Ingress)), ("eth0", Some(Direction::Egress))];
        let live = |links, frames_in| {
            let mut sample = lone(links, frames_in);
            sample.kind = SourceKind::Live;
            sample
        };
        assert_eq!(found(&live(WAYS, 1)), Some(Severity::Info));
        assert_eq!(found(&live(WAYS, 0)), None, "nothing comes in: that way may not be seen");
        assert_eq!(found(&live([WAYS[1], WAYS[0]], 1)), None, "a mirror: both ways come in");
        assert_eq!(found(&live([("eth1", WAYS[0].1), WAYS[1]], 1)), None, "another interface");
        let any = [("any.pcap:if2:in", None), ("any.pcap:if2:out", None)];
        assert_eq!(found(&lone(any, 1)), Some(Severity::Info), "a capture with directions");
        assert_eq!(found(&lone([("a.pcap", None), ("b.pcap", None)], 1)), None, "one of one way each");

        let mut resent = live(WAYS, 1);
        if let Some(loss) = &mut resent.metrics.loss {
            let requests = Some(Metrics { retransmitted: 1, ..Metrics::default() });
            loss.flows.insert(0, FlowLoss { requests, ..FlowLoss::default() });
        }
        assert_eq!(found(&resent), Some(Severity::Info), "no warning on what may take another interface");
        let mut busy = live(WAYS, 1);
        busy.flows[0].stats.last_ns = START + 20 * SECOND;
        (busy.window, busy.time_ns) = (Some((START, START + 30 * SECOND)), START + 30 * SECOND);
        assert_eq!(found(&busy), None, "it would have stopped long ago without any answer");
    }

    /// A sender that restarts repeatedly, in a capture that begins in the middle.
    fn begins_again(answer: Option<u32>) -> Sample {
        let data = AckState::default();
        let mut sample = silent_receiver(&[(B, A, AckState { answer_psn: answer, ..data })]);
        sample.flows[0].stats.psn.first = 30_000;
        sample.flows[0].stats.psn.expected = 30_064;
        let requests = Some(Metrics { stuck: 3, ..Metrics::default() });
        if let Some(loss) = &mut sample.metrics.loss {
            loss.flows.insert(0, FlowLoss { requests, ..FlowLoss::default() });
        }
        sample
    }

    #[test]
    fn an_answer_to_what_was_before_the_capture_is_an_answer() {
        assert_eq!(found(&begins_again(None)), Some(Severity::Critical));
        assert_eq!(found(&begins_again(Some(30_010))), None);
        assert_eq!(found(&begins_again(Some(29_950))), None, "a receiver that is not ready, say");
        assert_eq!(found(&begins_again(Some(5_000))), Some(Severity::Critical), "to another queue pair");
        let mut one_way = begins_again(None);
        one_way.flows.truncate(1);
        assert_eq!(found(&one_way), Some(Severity::Warning), "answers may come in by another way");
    }

    #[test]
    fn answers_that_may_be_on_their_way_or_hidden_are_awaited() {
        let others = [(B, A, AckState::default())];
        for (before_end, raised) in [(9_000_000, None), (10_000_000, Some(Severity::Info))] {
            let mut late = silent_receiver(&others);
            if let Some(loss) = &mut late.metrics.loss {
                loss.ack_states[0].asked_ns = (START + SECOND - before_end).into();
            }
            assert_eq!(found(&late), raised, "{before_end}");
        }
        let mut filtered = silent_receiver(&others);
        filtered.links[0].skipped[SkipReason::Filtered as usize] = counter(1, 100);
        assert_eq!(found(&filtered), None);
        let mut retired = silent_receiver(&others);
        retired.links[0].retired.flows = 1;
        assert_eq!(found(&retired), None);
    }
}
