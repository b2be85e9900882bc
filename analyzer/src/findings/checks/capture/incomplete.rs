//! A capture that misses a part of the packets.

use std::cmp::Reverse;

use crate::analysis::{ByLink, Facts, Flow, Link};
use crate::findings::checks::tool;
use crate::findings::dedup::{Name, name};
use crate::findings::period::run;
use crate::findings::title::{short, title};
use crate::findings::{
    ByHand, Entry, Finding, Input, Measure, Place, Problem, Raise, RequiredData, Severity,
};
use crate::util::map::{Map, Set};
use crate::util::numbers::share;
use crate::util::units::{self, plural};

pub(in crate::findings) const INCOMPLETE: Entry = Entry {
    id: "capture.incomplete",
    rank: 16,
    needs: &[RequiredData::Loss, RequiredData::Sequences],
    causes: &[tool::LOST.id],
    measure: Some(Measure::ratio("missing_ratio")),
    title: "The capture misses packets",
    meaning: "Packets reached their receivers and are not in the capture: it drops some, samples, or sees one of several paths. Counters, rates and bursts are too low by that share, and what happened to the missing \
              packets is unknown: loss, marks and NAKs among them are in no figure.",
    computed: "Per link: PSNs that never passed although their sender did not retransmit them (flows[].loss.unfilled), as a share of these and the packets of the same queue pairs. Not counted: UC, which \
               retransmits nothing, requesters that get no answer, queue pairs seen on several links that share their packets, and those recognised as sprayed over paths (flows[].spray).\n\
               \n\
               Raised from `capture.missing` PSNs and the share `capture.missing_ratio` on, as info; a warning from the share `capture.missing_warning` on.",
    advice: "Capture with a smaller snap length (-s 128), a larger buffer (tcpdump -B) and to a fast disk, and turn sampling off at the mirror (sFlow, 1 in N). A mirror port that is slower than what it mirrors drops: \
             mirror fewer ports, or one direction. In a fabric that sprays packets over paths, capture at a host, which sees all of them.",
    caveat: "Missing ACKs and CNPs do not show: they have no PSN of their own.",
    ..Entry::of(Problem::Capture)
};

/// PSNs that passed unseen, and the packets of the same queue pairs.
#[derive(Default)]
struct MissedCounts<'a> {
    missing: u64,
    packets: u64,
    flows: Vec<&'a Flow>,
}

fn unfilled(flow: &Flow) -> u64 {
    flow.losses_sum(|loss| loss.unfilled.or_zero())
}

/// Queue pairs of which several links show different packets.
fn shared(facts: &Facts) -> Set<Name> {
    if facts.links.len() < 2 {
        return Set::default();
    }
    let mut links: Map<Name, u32> = Map::default();
    for flow in &facts.flows {
        *links.entry(name(flow)).or_default() += 1;
    }
    for tap in facts.taps.iter().filter(|tap| tap.only_at.iter().all(|only| *only <= tap.packets_matched)) {
        links.remove(&tap.name());
    }
    links.into_iter().filter(|(_, links)| *links > 1).map(|(name, _)| name).collect()
}

pub(super) fn check(input: &Input<'_>, by_link: &ByLink<'_>, found: &mut Vec<Finding>) {
    let shared = shared(input.facts);
    for link in &input.facts.links {
        let mut missed = MissedCounts::default();
        for flow in by_link.on(link).iter().copied() {
            let left_out = flow.is_uc() || flow.spray.is_some() || flow.is_retried_in_vain();
            if left_out || !flow.has_sequence() || shared.contains(&name(flow)) {
                continue;
            }
            let missing = unfilled(flow);
            missed.missing += missing;
            missed.packets += flow.packets;
            if missing > 0 {
                missed.flows.push(flow);
            }
        }
        raise(input, link, missed, found);
    }
}

fn raise(input: &Input<'_>, link: &Link, missed: MissedCounts<'_>, found: &mut Vec<Finding>) {
    let MissedCounts { missing, packets, mut flows } = missed;
    let limits = &input.limits.capture;
    let sent = packets + missing;
    let ratio = share(missing, sent);
    if missing < limits.missing.max(1) || ratio < limits.missing_ratio {
        return;
    }
    let severity = if ratio >= limits.missing_warning { Severity::Warning } else { Severity::Info };
    flows.sort_by_key(|flow| Reverse(unfilled(flow)));
    let diagnosis = format!(
        "The capture misses {} of {} ({})",
        units::count(missing),
        plural(sent, "packet"),
        units::ratio(Some(ratio))
    );
    let whole = run(flows.iter().copied());
    Raise::new(&INCOMPLETE, severity, title(diagnosis, [format!(", on {}", short(&link.name))]))
        .evidence("missing", missing)
        .evidence("missing_ratio", ratio)
        .evidence("packets", packets)
        .episodes(vec![whole.episode(Some(ratio))])
        .flows(flows)
        .place(Place::link(input, &link.name, link.direction))
        .step(
            "Check what the capture dropped: tcpdump prints it when it ends, a mirror port counts discards.",
            ByHand::Varies,
        )
        .step("Check whether the mirror samples (1 in N), or shows one of several paths.", ByHand::Switch)
        .into(found);
}

#[cfg(test)]
mod tests {
    use crate::analysis::Options;
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::findings::{Severity, tests::found};
    use crate::metrics::loss::{FlowLoss, Loss, Metrics};

    /// One flow of `packets`, at as many links, of which the capture misses `unfilled`.
    fn raised(packets: u64, unfilled: u64, links: u16) -> Option<(Severity, String)> {
        let flow = |at| (key(at, "10.0.0.1", "10.0.0.2", 17), stats(50_000, packets, 1_000 * packets));
        let names = ["a.pcap", "b.pcap"];
        let links_of = names[..usize::from(links)].iter().map(|name| link(name, None)).collect();
        let mut sample = sample(links_of, (0..links).map(flow).collect());
        let mut loss = Loss::default();
        for flow in &*sample.flows {
            let requests = Some(Metrics { unfilled, ..Metrics::default() });
            loss.flows.insert(flow.slot, FlowLoss { requests, ..FlowLoss::default() });
        }
        sample.metrics.loss = Some(loss);
        let all = found(&sample, &Options::default());
        let one = all.into_iter().find(|one| one.id == "capture.incomplete")?;
        Some((one.severity, one.title))
    }

    #[test]
    fn a_sampled_capture_says_so() {
        let (severity, title) = raised(700, 31_199, 1).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert_eq!(title, "The capture misses 31,199 of 31,899 packets (97.8 %), on a");
        assert_eq!(raised(9_700, 300, 1).unwrap().0, Severity::Info);
        assert_eq!((raised(9_700, 0, 1), raised(1_000, 99, 1), raised(99_900, 999, 1)), (None, None, None));
        assert_eq!(raised(700, 700, 2), None, "parallel links share the packets");
    }
}
