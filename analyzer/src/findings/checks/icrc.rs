//! Corrupt packets.

use std::cell::LazyCell;
use std::cmp::Reverse;

use super::ends;
use crate::analysis::{ByLink, Flow, Icrc, Link};
use crate::findings::ids;
use crate::findings::period::Period;
use crate::findings::title::{pair, short, title};
use crate::findings::{
    ByHand, Commands, Entry, Episode, Family, Finding, Hop, Impact, Input, Measure, Place, Problem, Raise,
    RequiredData, Severity, Unit, label,
};
use crate::sample::Address;
use crate::util::map::Map;
use crate::util::numbers::share;
use crate::util::units::{self, plural};

/// What the receiver drops because of a wrong ICRC. One that is filled in later, or that the capture alone shows, is no
/// reason.
const ABOUT_LOSS: &[&str] =
    &[ids::LOSS_BEFORE_TAP, ids::LOSS_AFTER_TAP, ids::LOSS_BETWEEN_TAPS, ids::RETRY_STORM];

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[ERRORS],
    limits: &[Limits::META],
    evidence: &[
        label("bad", "packets with a wrong ICRC", Unit::Count).summed(),
        label("checked", "packets checked", Unit::Count).summed(),
        label("unchecked", "packets cut, not checked", Unit::Count).summed(),
        label("bad_ratio", "corruption ratio", Unit::Ratio),
    ],
    check,
};

pub(super) const ERRORS: Entry = Entry {
    id: ids::ICRC_ERRORS,
    of_queue_pairs: true,
    rank: 150,
    needs: &[RequiredData::Frames],
    causes: &[ids::PATH_REWRITTEN],
    measure: Some(Measure::ratio("bad_ratio")),
    title: "Corruption: wrong invariant CRC (ICRC)",
    meaning: "A device between the sender and this tap changes packets in bits that must not change. Ethernet's FCS did not notice, so it happens inside a device: memory of a switch or NIC, a faulty ASIC, or software that rewrites headers. The receiver drops such packets, which looks like loss downstream.",
    computed: "The ICRC is computed over whole frames in replay; frames cut by a snap length are not evaluated. A warning from `icrc.packets` packets with a wrong ICRC and the share \
               `icrc.ratio` of a link from the first to the last of them (over {LEAST_NS} at least), else info.\n\
               \n\
               Flows, senders and links of which nearly all packets are wrong (the share `icrc.always` of at least `icrc.always_packets`) are reported separately, as info, and so are fewer \
               packets that are all wrong: there the sender's NIC fills in the ICRC downstream of the capture, or a device on the path rewrites addresses, ports or the IP identification.",
    advice: "Narrow down the location with a second tap: the faulty device is between a tap where the packets are correct and one where they are wrong. Check its \
               memory error and FCS counters (of cut-through switches also the upstream ports) and replace it. On the receiver, rx_icrc_encapsulated counts \
               the same packets (mlx5).",
    caveat: "Address translation breaks the ICRC of all packets that pass it.",
    ..Entry::of(Problem::Icrc)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "icrc";
    packets: u64 = 3,
        "minimum corrupt packets on a link for a warning",
        "A single one may be a bit that flipped once";
    ratio: f64 = 0.000_001,
        "minimum share of corrupt packets for a warning",
        "A link at the bit error rate of 1e-12 that Ethernet allows damages 3 in 100 million packets of 4 KB, and its FCS finds those";
    always: f64 = 0.9,
        "minimum share of wrong ICRCs in a flow, of a sender or on a link that means rewriting, not corruption",
        "Corruption does not hit nearly every packet of what goes on";
    always_packets: u64 = 5,
        "minimum packets of such a flow or sender",
        "A packet with a damaged header may look like a flow of its own";
}

impl Limits {
    /// True if nearly all of these packets, wrong ones and all that were checked, have a wrong ICRC.
    fn is_always(&self, (bad, checked): (u64, u64)) -> bool {
        checked >= self.always_packets && bad as f64 >= self.always * checked as f64
    }

    /// Severity of this number of damaged packets, which are this share.
    fn severity(&self, bad: u64, ratio: f64) -> Severity {
        if bad >= self.packets && ratio >= self.ratio { Severity::Warning } else { Severity::Info }
    }
}

/// A link with wrong ICRCs, and the flows that have them.
struct Corrupt<'a> {
    link: &'a Link,
    flows: Vec<&'a Flow>,
    icrc: Icrc,
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let by_link = LazyCell::new(|| ByLink::of(input.facts));
    let (mut damaged, mut always) = (Vec::new(), Vec::new());
    for link in &input.facts.links {
        let Some(all) = link.icrc.filter(|icrc| icrc.bad > 0) else { continue };
        let (of_damaged, of_always) = divide(link, all, by_link.on(link), &input.limits.icrc);
        damaged.extend(of_damaged);
        always.extend(of_always);
    }
    for one in damaged {
        corruption(input, by_link.on(one.link), one, found);
    }
    for one in always {
        rewritten(input, one, found);
    }
}

/// Divides the wrong packets of a link, with these flows, into damaged ones and those of flows and senders that have
/// nothing else. Retired flows have no sender any more: what is left of the link is theirs.
fn divide<'a>(
    link: &'a Link,
    all: Icrc,
    on_link: &[&'a Flow],
    limits: &Limits,
) -> (Option<Corrupt<'a>>, Option<Corrupt<'a>>) {
    let sum = |of: &dyn Fn(&Flow) -> bool| {
        let own = on_link.iter().filter(|flow| of(flow)).filter_map(|flow| flow.icrc.get());
        own.fold((0, 0), |sum, icrc| (sum.0 + icrc.bad, sum.1 + icrc.checked))
    };
    let mut senders: Map<Address, (u64, u64)> = Map::default();
    for (flow, icrc) in on_link.iter().filter_map(|flow| Some((flow, flow.icrc.get()?))) {
        let sender = senders.entry(flow.src).or_default();
        *sender = (sender.0 + icrc.bad, sender.1 + icrc.checked);
    }
    let of_sender = |flow: &Flow| senders.get(&flow.src).copied().unwrap_or_default();
    let of_flow = |flow: &Flow| flow.icrc.get().map_or((0, 0), |icrc| (icrc.bad, icrc.checked));
    let whole = limits.is_always((all.bad, all.checked));
    let is_always =
        |flow: &Flow| whole || limits.is_always(of_flow(flow)) || limits.is_always(of_sender(flow));
    let of_table = sum(&|_| true);
    let retired = (all.bad.saturating_sub(of_table.0), all.checked.saturating_sub(of_table.1));
    let mut sums = sum(&|flow| bad_of(flow) > 0 && is_always(flow));
    if whole || limits.is_always(retired) {
        sums = (sums.0 + retired.0, sums.1 + retired.1);
    }
    let bad = on_link.iter().copied().filter(|flow| bad_of(flow) > 0);
    let (mut of_always, mut of_damaged): (Vec<&Flow>, Vec<&Flow>) = bad.partition(|flow| is_always(flow));
    let mut rest = (all.bad.saturating_sub(sums.0), all.checked.saturating_sub(sums.1));
    // Nothing of it is right: that is no corruption, however few they are.
    if rest.0 > 0 && rest.0 >= rest.1 {
        sums = (sums.0 + rest.0, sums.1 + rest.1);
        of_always.append(&mut of_damaged);
        rest = (0, 0);
    }
    let corrupt = |flows, (bad, checked)| {
        (bad > 0).then_some(Corrupt { link, flows, icrc: Icrc { checked, bad, ..all } })
    };
    (corrupt(of_damaged, rest), corrupt(of_always, sums))
}

fn bad_of(flow: &Flow) -> u64 {
    flow.icrc.get().map_or(0, |icrc| icrc.bad)
}

/// True if each of these flows of a link has at least as many packets with a wrong ICRC as loss episodes downstream: a
/// receiver drops such a packet and then sends a NAK.
fn explains_loss(on_link: &[&Flow]) -> bool {
    on_link
        .iter()
        .all(|flow| flow.loss.get().is_none_or(|loss| loss.after_tap.episodes.or_zero() <= bad_of(flow)))
}

/// Times of packets with a wrong ICRC in these flows.
fn seen(flows: &[&Flow], ratio: Option<f64>) -> Vec<Episode> {
    let times = flows
        .iter()
        .filter_map(|flow| flow.icrc.get())
        .filter_map(|icrc| icrc.bad_first_ns.zip(icrc.bad_last_ns));
    let both = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    both.map(|(first_ns, last_ns)| Episode { first_ns, last_ns, peak: ratio }).into_iter().collect()
}

/// Packets of a link, with these flows, whose ICRC was checked, from the first wrong one of the damaged flows to the
/// last.
fn checked_meanwhile(input: &Input<'_>, on_link: &[&Flow], damaged: &[&Flow]) -> u64 {
    let [episode] = &seen(damaged, None)[..] else { return u64::MAX };
    let period = Period::between(episode.first_ns, episode.last_ns);
    let of = |flow: &&Flow| {
        let checked = flow.icrc.get().map_or(0, |icrc| icrc.checked);
        period.part(input.facts, flow, checked)
    };
    on_link.iter().map(of).sum()
}

/// Some packets of a link have a wrong ICRC.
fn corruption(input: &Input<'_>, on_link: &[&Flow], one: Corrupt<'_>, found: &mut Vec<Finding>) {
    let Corrupt { link, flows: mut damaged, icrc: Icrc { bad, checked, unchecked, .. } } = one;
    let limits = &input.limits.icrc;
    let meanwhile = checked_meanwhile(input, on_link, &damaged).clamp(bad, checked.max(bad));
    let ratio = share(bad, meanwhile);
    damaged.sort_by_key(|flow| Reverse(bad_of(flow)));
    let diagnosis = format!(
        "Corruption upstream of {}: {} of {} with a wrong ICRC",
        short(&link.name),
        units::count(bad),
        plural(meanwhile, "packet")
    );
    let share = format!(" ({})", units::ratio(Some(ratio)));
    let (requester, responder) = ends::of_data(input, damaged.iter().copied());
    let first = damaged.first().copied();
    let host = |of: fn(&Flow) -> Address, other: &str| {
        first.map_or_else(|| other.to_owned(), |flow| of(flow).to_string())
    };
    let (sender, receiver) = (host(|flow| flow.src, "the senders"), host(|flow| flow.dst, "the receivers"));
    let severity = limits.severity(bad, ratio);
    Raise::new(&ERRORS, severity, title(diagnosis, [share]))
        .evidence("bad", bad)
        .evidence("checked", checked)
        .evidence("unchecked", unchecked)
        .evidence("bad_ratio", ratio)
        .episodes(seen(&damaged, Some(ratio)))
        .flows(damaged)
        .place(Place::link(input, &link.name, link.direction).hop(Hop::Upstream))
        .ends(requester, responder)
        .impact(Impact { packets_ratio: Some(ratio), ..Impact::default() })
        .owns(if explains_loss(on_link) { &[ids::LOSS_AFTER_TAP] } else { &[] })
        .step(
            format!("Check FCS, FEC and memory (parity, ECC) errors of the switches between {sender} and this tap."),
            ByHand::Switch,
        )
        .step(
            format!("Check NIC, PCIe and memory errors of {sender}."),
            first.and_then(|flow| Commands::at(input, flow, flow.src).kernel_log()),
        )
        .step(
            format!("Capture nearer to {sender}, too: what damages packets is between a tap with correct ICRCs and one with wrong ones."),
            ByHand::Elsewhere,
        )
        .step(
            format!("On {receiver}, compare rx_icrc_encapsulated (mlx5): damage downstream of this tap adds to it."),
            first.and_then(|flow| Commands::at(input, flow, flow.dst).rdma_counters()),
        )
        .into(found);
}

/// All packets of some flows have a wrong ICRC.
fn rewritten(input: &Input<'_>, one: Corrupt<'_>, found: &mut Vec<Finding>) {
    let Corrupt { link, flows: always, icrc: Icrc { bad, checked, .. } } = one;
    let first = always.first().copied();
    let which = match always.len() as u64 {
        0 => "retired flows".to_owned(),
        flows => plural(flows, "flow"),
    };
    let diagnosis =
        format!("ICRC always wrong in {which} on {}: rewritten, or filled in later", short(&link.name));
    let hosts = first.map_or_else(String::new, |first| pair(first.src, first.dst));
    let (requester, responder) = ends::of_data(input, first);
    Raise::new(&ERRORS, Severity::Info, title(diagnosis, [hosts]))
        .evidence("bad", bad)
        .evidence("checked", checked)
        .dated(seen(&always, None))
        .flows(always)
        .place(Place::link(input, &link.name, link.direction))
        .ends(requester, responder)
        .no_cause_of(ABOUT_LOSS)
        .step(
            "Check whether the capture point is before the NIC fills in the ICRC (a sending host).",
            ByHand::Reading,
        )
        .step("Check for address translation or header rewriting between sender and tap.", ByHand::Elsewhere)
        .into(found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Episodes, Facts, Loss, Options, fixtures::everything};
    use crate::findings::tests::found_on;
    use crate::metrics::icrc::{Checked, IcrcErrors};

    #[test]
    fn corruption_accounts_for_no_more_loss_than_it_explains() {
        let owns = |bad| {
            let mut facts = Facts::of(&everything(), &Options::default());
            let wrong = IcrcErrors { packets: bad, at_ns: (1, 2) };
            let icrc = Checked { checked: 1_000, wrong: wrong.into(), unchecked: 0 };
            let after_tap = Episodes { episodes: 2.into(), ..Episodes::default() };
            for flow in &mut facts.flows {
                flow.icrc = Some(icrc.clone()).into();
                flow.loss = Some(Loss { after_tap, ..Loss::default() }).into();
            }
            let (name, direction) = (facts.flows[0].link.clone(), facts.flows[0].direction);
            for link in &mut facts.links {
                link.icrc = (link.name == name && link.direction == direction).then(|| icrc.clone().into());
            }
            found_on(&facts, "icrc.errors").unwrap().owns
        };
        assert_eq!((owns(1), owns(2)), (&[][..], &["loss.after_tap"][..]));
    }

    /// The sender and the path to the tap are searched, not the receiver behind it.
    #[test]
    fn steps_against_corruption_are_taken_upstream_of_the_tap() {
        let mut facts = Facts::of(&everything(), &Options::default());
        let wrong = IcrcErrors { packets: 10, at_ns: (1, 2) };
        let icrc = Checked { checked: 1_000, wrong: wrong.into(), unchecked: 0 };
        facts.flows.truncate(1);
        let flow = &mut facts.flows[0];
        flow.icrc = Some(icrc.clone()).into();
        flow.direction = None;
        let (src, dst, name) = (flow.src, flow.dst, flow.link.clone());
        facts.links.truncate(1);
        (facts.links[0].name, facts.links[0].direction) = (name.as_str().to_owned(), None);
        facts.links[0].icrc = Some(icrc.into());
        facts.source.kind = crate::analysis::InputKind::Replay;
        let found = found_on(&facts, "icrc.errors").unwrap();
        let of = |at: usize| (found.steps[at].text.as_str(), found.steps[at].host);
        assert!(of(0).0.ends_with(&format!("between {src} and this tap.")), "{:?}", of(0));
        assert_eq!((of(1).1, of(3).1), (Some(src), Some(dst)), "{:?}", found.steps);
    }

    /// Packets of a flow, wrong and checked, on one link that has more of both: of retired flows.
    fn of_flows(flows: &[(u64, u64)], retired: (u64, u64)) -> Vec<(Severity, u64, u64)> {
        let mut facts = Facts::of(&everything(), &Options::default());
        let flow = facts.flows[0].clone();
        let icrc = |(bad, checked): (u64, u64)| {
            let wrong = IcrcErrors { packets: bad, at_ns: (1, 2) };
            Checked { checked, wrong: wrong.into(), unchecked: 0 }
        };
        let of = |(at, one): (usize, &(u64, u64))| {
            let src = [10, 0, 0, u8::try_from(at).unwrap()];
            Flow { src: src.into(), icrc: Some(icrc(*one)).into(), ..flow.clone() }
        };
        let all = flows.iter().fold(retired, |sum, one| (sum.0 + one.0, sum.1 + one.1));
        facts.flows = flows.iter().enumerate().map(of).collect();
        for link in &mut facts.links {
            let is_own = link.name == *flow.link && link.direction == flow.direction;
            link.icrc = is_own.then(|| icrc(all).into());
        }
        let all = crate::findings::tests::all_on(&facts).into_iter().filter(|one| one.id == "icrc.errors");
        let figure = |one: &Finding, name: &str| one.evidence[name].as_u64().unwrap();
        all.map(|one| (one.severity, figure(&one, "bad"), figure(&one, "checked"))).collect()
    }

    #[test]
    fn what_is_always_wrong_is_no_corruption_however_it_is_divided_into_flows() {
        let info = |bad, checked| vec![(Severity::Info, bad, checked)];
        assert_eq!(of_flows(&[(4, 4); 50], (0, 0)), info(200, 200), "short flows");
        assert_eq!(of_flows(&[(3, 3)], (0, 0)), info(3, 3), "a few packets");
        assert_eq!(of_flows(&[], (601, 601)), info(601, 601), "retired flows");
        let damaged = vec![(Severity::Warning, 4, 1_004)];
        assert_eq!(of_flows(&[(4, 4), (0, 1_000)], (0, 0)), damaged, "one more flow is right");
        let both = of_flows(&[(4, 1_000)], (600, 600));
        assert_eq!(both, [(Severity::Warning, 4, 1_000), (Severity::Info, 600, 600)], "apart");
    }

    #[test]
    fn clean_traffic_before_and_behind_does_not_dilute_the_share() {
        use crate::util::time::NS_PER_S as S;
        let ratio = |seconds: u64, wrong_s: (u64, u64)| {
            let mut facts = Facts::of(&everything(), &Options::default());
            let packets = 1_000 * seconds;
            let wrong = IcrcErrors { packets: 10, at_ns: (wrong_s.0 * S, wrong_s.1 * S) };
            let icrc = Checked { checked: packets, wrong: wrong.into(), unchecked: 0 };
            let (name, direction) = (facts.flows[0].link.clone(), facts.flows[0].direction);
            (facts.window.first_ns, facts.window.last_ns) = (Some(S), Some((1 + seconds) * S));
            facts.flows.truncate(1);
            let flow = &mut facts.flows[0];
            (flow.first_ns, flow.last_ns, flow.packets) = (S, (1 + seconds) * S, packets);
            flow.icrc = Some(icrc.clone()).into();
            for link in &mut facts.links {
                link.icrc = (link.name == name && link.direction == direction).then(|| icrc.clone().into());
            }
            let found = found_on(&facts, "icrc.errors").unwrap();
            found.evidence.get("bad_ratio").unwrap().value.as_f64().unwrap()
        };
        assert!((ratio(2, (1, 3)) - 0.005).abs() < 1e-9, "{}", ratio(2, (1, 3)));
        assert!((ratio(60, (10, 12)) - 0.005).abs() < 1e-9, "{}", ratio(60, (10, 12)));
    }

    #[test]
    fn many_links_have_a_finding_each_up_to_sixteen_and_one_together() {
        let found = |links: u64| {
            let mut facts = Facts::of(&everything(), &Options::default());
            let (link, flow) = (facts.links[0].clone(), facts.flows[0].clone());
            (facts.links, facts.flows) = (Vec::new(), Vec::new());
            for at in 0..links {
                let name = format!("port{at}");
                let wrong = IcrcErrors { packets: 10 + at, at_ns: (1, 2) };
                let icrc = Checked { checked: 1_000, wrong: wrong.into(), unchecked: 0 };
                let of_link = Some(icrc.clone().into());
                facts.links.push(Link { name: name.clone(), direction: None, icrc: of_link, ..link.clone() });
                let of_flow = Some(icrc).into();
                facts.flows.push(Flow {
                    link: name.as_str().into(),
                    direction: None,
                    icrc: of_flow,
                    ..flow.clone()
                });
            }
            let all = crate::findings::tests::all_on(&facts);
            all.into_iter().filter(|one| one.id == "icrc.errors").collect::<Vec<_>>()
        };
        assert_eq!(found(17).len(), 17);
        let many = found(300);
        assert_eq!(many.len(), 17);
        let rest = many.iter().find(|one| one.place.link.is_none()).unwrap();
        assert_eq!(rest.evidence["findings"], 284);
        let bad: u64 = many.iter().map(|one| one.evidence["bad"].as_u64().unwrap()).sum();
        assert_eq!(bad, (0..300).map(|at| 10 + at).sum::<u64>(), "a packet is in no finding");
    }
}
