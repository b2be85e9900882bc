//! Paths on which only packets up to a certain size arrive.

use std::collections::BTreeMap;

use super::{BLACK_HOLE, Limits};
use crate::analysis::{Flow, LostLarge, TapFlow};
use crate::findings::checks::{died, ends};
use crate::findings::command::ByHand;
use crate::findings::dedup::{Name, name};
use crate::findings::ids;
use crate::findings::period::{Cost, Period, Wait, impact};
use crate::findings::title::{more, pair, short, title};
use crate::findings::{Commands, Episode, Finding, Hop, Input, Place, Raise, Severity};
use crate::metrics::loss::Loss;
use crate::metrics::loss::signal_intervals::Signal;
use crate::metrics::traffic::times;
use crate::sample::Address;
use crate::util::map::Map;
use crate::util::units;
use rocescope_common::wire::bth::MASK24;

/// Findings that a black hole explains.
const OWNED: &[&str] = &[
    ids::LOSS_BETWEEN_TAPS,
    ids::LOSS_BEFORE_TAP,
    ids::LOSS_AFTER_TAP,
    ids::QP_DIED,
    ids::RETRY_TIMEOUTS,
    ids::RETRY_STORM,
    ids::PEER_SILENT,
];

/// Two hosts between which small packets arrive and large ones do not.
struct BlackHole<'a> {
    src: Address,
    dst: Address,
    /// The two taps; `None` if one tap alone shows it.
    taps: Option<(&'a str, &'a str)>,
    /// Flows whose large packets are lost.
    flows: Vec<&'a Flow>,
    /// Number of large packets lost.
    large: u64,
    /// Smallest and largest payload of the lost packets, as far as known.
    vanished: (Option<u32>, u32),
    /// Largest payload that arrived.
    passed: u32,
    /// Small packets that arrived in the same time.
    small: u64,
    /// First large packet lost, where large ones passed before.
    began_ns: Option<u64>,
    /// One tap shows it, by READs whose responses do not reach it.
    upstream: bool,
}

impl<'a> BlackHole<'a> {
    /// True if enough large packets are lost while small ones arrive.
    fn is_one(&self, limits: &Limits) -> bool {
        self.large >= limits.large.max(1) && self.small >= limits.small.max(1)
    }

    /// Adds the lost packets of a flow, with their smallest and largest payload, if all are larger than any that
    /// arrived.
    fn add(&mut self, flow: &'a Flow, (packets, smallest, largest): (u64, Option<u32>, u32)) {
        if largest > self.passed && smallest.is_none_or(|smallest| smallest > self.passed) {
            self.flows.push(flow);
            self.large += packets;
            self.vanished.0 = self.vanished.0.into_iter().chain(smallest).min();
            self.vanished.1 = self.vanished.1.max(largest);
        }
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let mut all = between_taps(input);
    for one in at_sender(input) {
        // Evidence from two taps takes precedence.
        if !all.iter().any(|known| (known.src, known.dst) == (one.src, one.dst)) {
            all.push(one);
        }
    }
    for one in &all {
        raise(input, one, found);
    }
}

/// Packets of flows between the same hosts while other flows were active, estimated from the mean rate of each, since
/// the times of single packets are unknown.
fn meanwhile<'a>(flows: impl IntoIterator<Item = &'a Flow>, since_ns: u64, until_ns: u64) -> u64 {
    let share = |flow: &Flow| {
        let life = flow.last_ns.saturating_sub(flow.first_ns).max(1);
        let both = flow.last_ns.min(until_ns).saturating_sub(flow.first_ns.max(since_ns));
        both as f64 / life as f64
    };
    flows.into_iter().map(|flow| times(flow.packets, share(flow))).sum()
}

/// Number of unsuccessful retries from the same PSN.
fn stuck(flow: &Flow) -> u64 {
    flow.loss.get().map_or(0, |loss| loss.stuck.or_zero())
}

/// True if its packets are retransmitted; they are not if the second capture merely misses packets that the path
/// delivers.
fn is_retried(flow: &Flow) -> bool {
    flow.troubles().any(|loss| loss.stuck.or_zero() + loss.retransmitted > 0)
}

/// Black holes from the packets at two taps.
fn between_taps<'a>(input: &Input<'a>) -> Vec<BlackHole<'a>> {
    type TapsAndHosts<'a> = (&'a str, &'a str, Address, Address);
    let facts = input.facts;
    let limits = &input.limits.path;
    let mut ways: BTreeMap<TapsAndHosts<'a>, Vec<&'a TapFlow>> = BTreeMap::new();
    for (from, to, tap) in facts.sections() {
        ways.entry((from, to, tap.src, tap.dst)).or_default().push(tap);
    }
    if ways.is_empty() {
        return Vec::new();
    }
    let mut at: Map<(&str, Address, Address), Vec<&'a Flow>> = Map::default();
    for flow in &facts.flows {
        at.entry((flow.link.as_str(), flow.src, flow.dst)).or_default().push(flow);
    }
    let mut all = Vec::new();
    for ((from, to, src, dst), taps) in ways {
        let (Some(near), Some(far)) = (at.get(&(from, src, dst)), at.get(&(to, src, dst))) else { continue };
        let passed = taps.iter().map(|tap| tap.largest_matched).max().unwrap_or(0);
        let arrived = |name: Name| far.iter().any(|flow| self::name(flow) == name);
        let mut hole = BlackHole {
            src,
            dst,
            taps: Some((from, to)),
            flows: Vec::new(),
            large: 0,
            vanished: (None, 0),
            passed,
            small: 0,
            began_ns: None,
            upstream: false,
        };
        let large = |flow: &&'a Flow| {
            let tap = taps.iter().find(|tap| tap.name() == name(flow))?;
            Some((*flow, tap.vanished_large?))
        };
        let lost: Vec<(&Flow, LostLarge)> =
            near.iter().filter(|flow| is_retried(flow)).filter_map(large).collect();
        for (flow, large) in &lost {
            hole.add(flow, (large.packets, Some(large.smallest), large.largest));
        }
        for flow in facts.absent(from, to, (src, dst)) {
            hole.add(flow, (flow.packets, None, carried(input, flow)));
        }
        let since = hole.flows.iter().map(|flow| flow.first_ns).min().unwrap_or(0);
        let until = hole.flows.iter().map(|flow| flow.last_ns).max().unwrap_or(0);
        let working = near.iter().copied().filter(|flow| arrived(name(flow)) && !hole.flows.contains(flow));
        let own: u64 = taps
            .iter()
            .filter(|tap| hole.flows.iter().any(|flow| tap.name() == name(flow)))
            .map(|tap| tap.packets_matched)
            .sum();
        hole.small = meanwhile(working, since, until) + own;
        if hole.is_one(limits) {
            all.push(hole);
            continue;
        }
        all.extend(late(input, near, &taps, &lost, &hole));
    }
    all
}

/// The same where large packets passed until it began: those that are retried in vain since then say when. One queue
/// pair that fails as a whole may have lost its path.
fn late<'a>(
    input: &Input<'a>,
    near: &[&'a Flow],
    taps: &[&TapFlow],
    lost: &[(&'a Flow, LostLarge)],
    whole: &BlackHole<'a>,
) -> Option<BlackHole<'a>> {
    let lost = || lost.iter().filter(|(flow, _)| input.facts.ends_in_vain(flow));
    let began_ns = lost().map(|(_, large)| large.first_ns).min()?;
    let passed = taps.iter().map(|tap| tap.largest_since(began_ns)).max().filter(|passed| *passed > 0)?;
    let until_ns = lost().map(|(flow, _)| flow.last_ns).max()?;
    let all_pass = |flow: &&Flow| taps.iter().any(|tap| tap.name() == name(flow) && tap.vanished == Some(0));
    let small = meanwhile(near.iter().copied().filter(all_pass), began_ns, until_ns);
    let mut hole = BlackHole {
        flows: Vec::new(),
        large: 0,
        vanished: (None, 0),
        passed,
        small,
        began_ns: Some(began_ns),
        ..*whole
    };
    for (flow, large) in lost() {
        hole.add(flow, (large.packets, Some(large.smallest), large.largest));
    }
    let is_of_hole = |tap: &&&TapFlow| hole.flows.iter().any(|flow| tap.name() == name(flow));
    let own = taps.iter().filter(is_of_hole).any(|tap| tap.largest_since(began_ns) > 0);
    ((own || hole.flows.len() > 1) && hole.is_one(&input.limits.path)).then_some(hole)
}

/// Largest payload that packets of a flow carry, all of which are lost.
fn carried(input: &Input<'_>, flow: &Flow) -> u32 {
    let asks = input.sample.metrics.loss.as_ref().is_some_and(|loss| died::is_read(loss, flow));
    let responses = flow.path_mtu.filter(|_| flow.psn_responses.is_some() && flow.ack.acks == 0);
    responses.unwrap_or(0).max(if asks { 0 } else { largest(input, flow) })
}

/// Largest payload of a flow's requests, of READs that of their responses.
fn largest(input: &Input<'_>, flow: &Flow) -> u32 {
    let loss = input.sample.metrics.loss.as_ref();
    loss.map_or(0, |loss| loss.ack_state(flow.slot).sizes.largest.into())
}

/// Black holes from retries and ACKs at one tap.
fn at_sender<'a>(input: &Input<'a>) -> Vec<BlackHole<'a>> {
    let Some(loss) = &input.sample.metrics.loss else { return Vec::new() };
    let limits = &input.limits.path;
    let requests = |flow: &&Flow| flow.psn.is_some() && !flow.is_uc();
    let requests = input.facts.flows.iter().filter(requests);
    let mut requests: Vec<&'a Flow> = requests.collect();
    // One list for all host pairs: a list per pair takes several times the memory.
    let way = |flow: &&'a Flow| (flow.link.as_str(), flow.src, flow.dst);
    requests.sort_by(|a, b| way(a).cmp(&way(b)));
    let mut all = Vec::new();
    for flows in requests.chunk_by(|a, b| way(a) == way(b)) {
        // Nearly no pair has one, and looking for answers takes long.
        let Some(Flow { src, dst, .. }) = flows.iter().find(|flow| flow.is_retried_in_vain()) else {
            continue;
        };
        let flows: Vec<(&'a Flow, u32)> =
            flows.iter().map(|flow| (*flow, acked(input, loss, flow))).collect();
        let passed = flows.iter().map(|(_, acked)| *acked).max().unwrap_or(0);
        let (stuck, working): (Vec<_>, Vec<_>) =
            flows.iter().partition(|(flow, _)| flow.is_retried_in_vain());
        // Responses of several packets show their path MTU: no packet of a READ is larger.
        let response_mtu = stuck.iter().any(|(flow, _)| died::is_read(loss, flow)).then(|| {
            let back = input.facts.between(*dst, *src).filter(|flow| flow.psn_responses.is_some());
            back.filter_map(|flow| flow.path_mtu).max()
        });
        let largest = |flow: &Flow| {
            let mtu = response_mtu.flatten().filter(|_| died::is_read(loss, flow));
            largest(input, flow).min(mtu.unwrap_or(u32::MAX))
        };
        // A dead path loses small requests, too.
        let by_size = stuck.iter().all(|(flow, _)| largest(flow) > passed);
        let own = stuck.iter().any(|(_, acked)| *acked > 0);
        if passed == 0 || !by_size || stuck.len() < 2 && !(own && stuck.len() == 1) {
            continue;
        }
        let victims: Vec<&Flow> = stuck.iter().map(|(flow, _)| *flow).collect();
        let since = victims.iter().map(|flow| flow.first_ns).min().unwrap_or(0);
        let until = victims.iter().map(|flow| flow.last_ns).max().unwrap_or(0);
        let answered = working.iter().filter(|(_, acked)| *acked > 0).map(|(flow, _)| *flow);
        let small = meanwhile(answered, since, until);
        let sizes = || victims.iter().map(|flow| largest(flow));
        let losses = victims.iter().filter_map(|flow| flow.loss.get());
        let large = losses.map(|loss| loss.retransmitted + loss.rereads.or_zero()).sum();
        if small >= limits.small.max(1) && large >= limits.large.max(1) {
            let reads = victims.iter().all(|flow| died::is_read(loss, flow));
            // How much of a READ a lost response carried is not known.
            let vanished = (sizes().min().filter(|_| !reads), sizes().max().unwrap_or(0));
            let (src, dst) = if reads { (*dst, *src) } else { (*src, *dst) };
            // Next to the responder, all responses pass the tap and are lost downstream of it.
            let upstream = reads && victims.iter().any(|flow| misses_responses(input, loss, flow));
            let began_ns = None;
            all.push(BlackHole {
                src,
                dst,
                taps: None,
                flows: victims,
                large,
                vanished,
                passed,
                small,
                began_ns,
                upstream,
            });
        }
    }
    all
}

/// True if responses to the READ that a flow repeats, or to earlier ones, do not reach this tap: none does, or the
/// small last one alone.
fn misses_responses(input: &Input<'_>, loss: &Loss, flow: &Flow) -> bool {
    let (Some(psn), Some(stuck)) = (flow.psn.get(), died::read_in_vain(input, loss, flow)) else {
        return true;
    };
    let mut here = input.facts.back(flow).filter(|back| back.link == flow.link);
    here.any(|back| {
        let first = back.psn_responses.as_deref().map(|responses| responses.first);
        let begins_later = first.is_some_and(|first| !died::is_at_or_after(stuck, first, &psn));
        begins_later || back.responses_missing.get() > Some(0)
    })
}

/// Largest payload of a flow's requests that the peer acknowledged; 0 if it acknowledged none.
fn acked(input: &Input<'_>, loss: &Loss, flow: &Flow) -> u32 {
    let sizes = loss.ack_state(flow.slot).sizes;
    match (died::acked(input, loss, flow), flow.psn.get()) {
        (Some(acked), Some(psn)) => {
            // A READ that is repeated in vain has no response at its requester.
            let arrived =
                died::read_in_vain(input, loss, flow).map_or(acked, |stuck| stuck.wrapping_sub(1) & MASK24);
            let all = died::is_at_or_after(arrived, sizes.largest_psn, &psn);
            if all { sizes.largest.into() } else { sizes.before.into() }
        }
        _ => 0,
    }
}

fn raise(input: &Input<'_>, hole: &BlackHole<'_>, found: &mut Vec<Finding>) {
    let &BlackHole { src, dst, taps, ref flows, large, vanished, passed, small, began_ns, upstream } = hole;
    let Some(first) = flows.first() else { return };
    let severity = if taps.is_some() { Severity::Critical } else { Severity::Warning };
    let (passed_bytes, packets) = (units::count(passed.into()), units::count(large));
    // One tap shows retransmissions, not losses.
    let diagnosis = match taps {
        Some(_) => format!("MTU black hole: payloads above {passed_bytes} B are lost ({packets} packets)"),
        None => format!("Likely MTU black hole above {passed_bytes} B: {packets} retransmissions"),
    };
    let parts = [pair(src, dst), more(flows.len() as u64 - 1, "QP")];
    let (requester, responder) = ends::of_lost(input, flows.iter().copied());
    let place = Place::of(input, first);
    let (place, between) = match taps {
        Some((from, to)) => {
            (place.hop(Hop::between(from, to)), format!("between {} and {}", short(from), short(to)))
        }
        None if upstream => (place.hop(Hop::Upstream), format!("between {src} and this tap")),
        None => (place.hop(Hop::Downstream), format!("between this tap and {dst}")),
    };
    let here = Commands::near(input, first, src);
    let first_ns = began_ns.or_else(|| flows.iter().map(|flow| flow.first_ns).min()).unwrap_or(0);
    let last_ns = flows.iter().map(|flow| flow.last_ns).max().unwrap_or(0);
    let cost = Cost { ratio: None, signal: Signal::Retransmitted, waits: &[Wait::Timeout] };
    let retries = flows.iter().map(|flow| stuck(flow)).max();
    Raise::new(&BLACK_HOLE, severity, title(diagnosis, parts))
        .certain(taps.is_some())
        .evidence("large", large)
        .evidence("largest_passed", passed)
        .evidence("smallest_vanished", vanished.0)
        .evidence("largest_vanished", vanished.1)
        .evidence("small", small)
        .evidence("retries", retries)
        .flows(flows.iter().copied())
        .place(place)
        .ends(requester, responder)
        .impact(impact(&Period::whole(first_ns, last_ns), flows.iter().copied(), &cost))
        .owns(OWNED)
        .episodes(vec![Episode { first_ns, last_ns, peak: None }])
        .step(format!("Compare the MTU of each port {between} with the path MTU plus headers."), here.mtu())
        .step(
            format!("Send packets of both sizes from {src}: ping -M do -s 4128 {dst}, then with 1000."),
            here.ping(dst),
        )
        .step("Until it is repaired, connect with a smaller path MTU.", ByHand::Job)
        .into(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::findings::tests::found;
    use crate::metrics::loss::{AckState, FlowLoss, Metrics, Sizes};
    use crate::metrics::taps::{LatestOfSize, MissingAtTap, TapPair};
    use crate::sample::{PeerKey, Sample};
    use rocescope_common::account::PsnTrack;

    const SMALL: u32 = 17;
    const LARGE: [u32; 2] = [19, 21];

    /// One queue pair with small requests that are acknowledged, and two whose large requests are retried without
    /// success, seen by `taps`. The peer has acknowledged `acked` PSNs of the large ones.
    fn sample_of(taps: u16, passed: u16, acked: u32, stuck: u64) -> Sample {
        let mut flows = Vec::new();
        for tap in 0..taps {
            for qp in [SMALL, LARGE[0], LARGE[1]] {
                let mut data = stats(50_000, 1_000, 1_000_000);
                data.psn.expected = 200;
                flows.push((key(tap, "10.0.0.1", "10.0.0.2", qp), data));
            }
            let mut back = stats(50_000, 10, 620);
            back.acks = 10;
            flows.push((key(tap, "10.0.0.2", "10.0.0.1", 18), back));
        }
        let links = (0..taps).map(|tap| link(&format!("h{tap}.pcap"), None)).collect();
        let mut sample = sample(links, flows);
        let mut loss = Loss::default();
        loss.ack_states.resize(sample.flows.len(), AckState::default());
        for flow in &sample.flows {
            let large = LARGE.contains(&flow.key.dest_qp);
            let ack_state = &mut loss.ack_states[flow.slot as usize];
            if flow.key.dest_qp == 18 {
                ack_state.answer_psn = Some(acked);
            } else {
                let largest = if large { 4096 } else { passed };
                ack_state.sizes = Sizes { largest, before: 256, largest_psn: if large { 150 } else { 100 } };
            }
            if large {
                let metrics = Metrics { stuck, retransmitted: 7, ..Metrics::default() };
                loss.flows.insert(flow.slot, FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
            }
        }
        sample.metrics.loss = Some(loss);
        sample
    }

    fn black_hole(sample: &Sample) -> Option<Finding> {
        found(sample, &Options::default()).into_iter().find(|finding| finding.id == "path.mtu_black_hole")
    }

    fn at_one_tap(passed: u16, acked: u32, stuck: u64) -> Option<Finding> {
        black_hole(&sample_of(1, passed, acked, stuck))
    }

    #[test]
    fn large_requests_that_are_retried_while_small_ones_are_answered_are_likely_a_black_hole() {
        let finding = at_one_tap(512, 149, 7).unwrap();
        assert_eq!(
            finding.title,
            "Likely MTU black hole above 512 B: 14 retransmissions, 10.0.0.1 → 10.0.0.2"
        );
        let evidence = |name: &str| finding.evidence[name].clone();
        assert_eq!((evidence("certainty"), evidence("smallest_vanished")), ("likely".into(), 4096.into()));
        assert_eq!((&finding.place.hop, finding.flows.len()), (&Some(Hop::Downstream), 2));
        assert_eq!(at_one_tap(4096, 149, 7), None, "others as large were acknowledged");
        assert_eq!(at_one_tap(512, 150, 7), None, "large ones were acknowledged");
        assert_eq!(at_one_tap(512, 149, 1), None, "a lost packet");
    }

    /// The same READs are repeated, from this PSN on, and the latest response that passes has another.
    fn of_reads(response: u32, repeated: u32) -> Option<Finding> {
        black_hole(&repeated_reads(response, repeated))
    }

    fn repeated_reads(response: u32, repeated: u32) -> Sample {
        let mut sample = sample_of(1, 512, response, 7);
        for loss in sample.metrics.loss.as_mut().unwrap().flows.values_mut() {
            let requests = loss.requests.as_mut().unwrap();
            (requests.stuck_opcode, requests.stuck_psn) = (Some(0x0C), Some(repeated));
            (requests.retransmitted, requests.rereads) = (0, 7);
        }
        sample
    }

    #[test]
    fn large_reads_without_responses_while_small_ones_have_some_are_likely_a_black_hole() {
        let finding = of_reads(149, 150).unwrap();
        assert_eq!(
            finding.title,
            "Likely MTU black hole above 512 B: 14 retransmissions, 10.0.0.2 → 10.0.0.1"
        );
        assert_eq!(finding.place.hop, Some(Hop::Upstream));
    }

    /// Next to the responder the responses to each repetition pass.
    #[test]
    fn large_reads_that_are_answered_in_vain_are_likely_a_black_hole_downstream() {
        let finding = of_reads(199, 150).unwrap();
        assert!(finding.title.ends_with("14 retransmissions, 10.0.0.2 → 10.0.0.1"), "{}", finding.title);
        assert_eq!(finding.place.hop, Some(Hop::Downstream));
        assert!(finding.steps[0].text.contains("between this tap and 10.0.0.1"), "{:?}", finding.steps);
        assert_eq!(of_reads(199, 151), None, "one as large arrived");
    }

    /// A READ of 65,536 + 500 bytes: its last response is small enough to arrive.
    #[test]
    fn large_reads_of_which_the_small_last_response_arrives_are_a_black_hole_upstream() {
        let hop = |first: u32, missing: u64| {
            let mut sample = repeated_reads(199, 150);
            for flow in sample.flows.iter().filter(|flow| LARGE.contains(&flow.key.dest_qp)) {
                sample.peers.insert(PeerKey::of(&flow.key), 18);
            }
            let back = sample.flows.iter_mut().find(|flow| flow.key.dest_qp == 18).unwrap();
            back.stats.rare.psn_responses = PsnTrack { first, expected: 200, seen: 1, ..PsnTrack::default() };
            back.stats.rare.response_holes = missing;
            black_hole(&sample).unwrap().place.hop
        };
        assert_eq!(hop(150, 0), Some(Hop::Downstream), "next to the responder");
        assert_eq!(hop(120, 0), Some(Hop::Downstream), "there, after others");
        assert_eq!(
            hop(199, 0),
            Some(Hop::Upstream),
            "the first response that arrives is not the first of the READ"
        );
        assert_eq!(hop(120, 1), Some(Hop::Upstream), "after others");
    }

    /// Two taps and the large queue pairs: `large` packets lost, of at least this size.
    fn at_two_taps(large: u64, smallest: u16) -> Sample {
        let mut sample = sample_of(2, 512, 149, 7);
        let gone =
            MissingAtTap { at_end: large, large, sizes: (smallest, 4096), large_ns: (START, START + SECOND) };
        let pair = |qp: u32, gone, largest| TapPair {
            matched: 100,
            gone: [gone, MissingAtTap::default()],
            largest,
            ..TapPair::empty(key(0, "10.0.0.1", "10.0.0.2", qp), [0, 1])
        };
        sample.metrics.taps = Some(vec![
            pair(SMALL, MissingAtTap::default(), 512),
            pair(LARGE[0], gone, 256),
            pair(LARGE[1], gone, 256),
        ]);
        sample
    }

    #[test]
    fn what_two_taps_show_is_certain() {
        let finding = black_hole(&at_two_taps(40, 4096)).unwrap();
        assert_eq!(
            (finding.severity, &finding.evidence["certainty"]),
            (Severity::Critical, &"certain".into())
        );
        assert_eq!(finding.place.hop, Some(Hop::between("h0.pcap", "h1.pcap")));
        assert_eq!(
            (&finding.evidence["large"], &finding.evidence["largest_passed"]),
            (&80.into(), &512.into())
        );
        let likely = |sample: &Sample| black_hole(sample).map(|one| one.evidence["certainty"] == "likely");
        assert_eq!(likely(&at_two_taps(40, 512)), Some(true), "as large as what arrived");
        assert_eq!(likely(&at_two_taps(4, 4096)), Some(true), "too few");
    }

    /// Large packets pass until `began_ns`, then none does; others of `passed` bytes pass later.
    fn late(began_ns: u64, passed: u16, stuck: u64) -> Option<Finding> {
        let mut sample = at_two_taps(40, 4096);
        for (at, pair) in sample.metrics.taps.as_mut().unwrap().iter_mut().enumerate() {
            let latest = |payload, at_ns| LatestOfSize { payload, at_ns: [at_ns; 2] };
            pair.largest = 4096;
            pair.sizes = vec![latest(4096, began_ns)];
            if at == 0 {
                pair.sizes.push(latest(passed, START + SECOND));
            }
        }
        for loss in sample.metrics.loss.as_mut().unwrap().flows.values_mut() {
            loss.requests.as_mut().unwrap().stuck = stuck;
        }
        black_hole(&sample).filter(|one| one.evidence["certainty"] == "certain")
    }

    #[test]
    fn large_packets_may_have_passed_before_it_began() {
        let finding = late(START - 1, 512, 7).unwrap();
        let evidence = |name: &str| finding.evidence[name].as_u64();
        assert_eq!((evidence("largest_passed"), evidence("small")), (Some(512), Some(3_000)));
        assert_eq!(finding.episodes[0].first_ns, START);
        assert_eq!(late(START + 1, 512, 7), None, "large packets pass");
        assert_eq!(late(START - 1, 4096, 7), None, "those of another queue pair do");
        assert_eq!(late(START - 1, 0, 7), None, "nothing but ACKs passes");
        assert_eq!(late(START - 1, 512, 1), None, "the last packets before a timeout");
    }

    #[test]
    fn flows_that_never_arrive_count_and_what_a_filter_left_out_does_not() {
        let mut sample = at_two_taps(40, 4096);
        sample.flows.retain(|flow| flow.key.link == 0 || !LARGE.contains(&flow.key.dest_qp));
        sample.metrics.taps.as_mut().unwrap().truncate(1);
        let finding = black_hole(&sample).unwrap();
        assert_eq!(finding.evidence["large"], 2_000);
        let lost = found(&sample, &Options::default());
        assert!(lost.iter().all(|one| one.id != "loss.between_taps"), "nearly all: another way");
        for loss in sample.metrics.loss.as_mut().unwrap().flows.values_mut() {
            loss.requests = Some(Metrics::default());
        }
        assert_eq!(black_hole(&sample), None, "nothing is retried");
    }
}
