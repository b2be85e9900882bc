//! A bound on the findings of a kind: in the traffic of thousands of hosts the worst of them stand by themselves, the
//! rest are one.
//!
//! It works on related findings, so that each cause, effect and owner is exact. What was owned by a finding that is now
//! part of the rest is owned by the rest.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{declared_label, entry};
use super::checks::ends::common;
use super::period::joined;
use super::raise::{MAX_FLOWS, Raise};
use super::title::{MOST, title};
use super::{
    Better, ByHand, End, Entry, Episode, Evidence, Finding, Impact, Measure, Place, Severity, Subject, order,
};
use crate::analysis::FlowId;
use crate::sample::Address;
use crate::util::definition::definitions;
use crate::util::map::{Map, Set};
use crate::util::units::{self, plural};

definitions! {
    pub(super) ALONE: usize = 16,
        "Findings of a kind that are listed by themselves, the worst: of those above info and of info, each with an owner and without; the rest are one finding",
        "The worst places are where to begin, and the rest need one line: thousands of hosts or links may have the same problem";
}

/// Evidence that is true for the joined finding if it is true for any of its findings.
const LOWER_BOUND: &str = "lower_bound";

/// Findings that share a limit: id, whether info, id of the owner.
type Class = (&'static str, bool, Option<&'static str>);

/// Leaves the worst [`ALONE`] of each class, and joins the rest of each to one finding.
pub(super) fn bound(found: &mut Vec<Finding>, end_ns: Option<u64>) {
    // Findings without an owner first: then each owner has its final place.
    for is_owned in [false, true] {
        bound_of(found, is_owned, end_ns);
    }
}

fn bound_of(found: &mut Vec<Finding>, is_owned: bool, end_ns: Option<u64>) {
    let mut classes: BTreeMap<Class, Vec<usize>> = BTreeMap::new();
    for (at, one) in found.iter().enumerate().filter(|(_, one)| one.owner.is_some() == is_owned) {
        classes.entry((one.id, one.severity == Severity::Info, one.owner)).or_default().push(at);
    }
    let mut rests: Vec<Vec<usize>> = Vec::new();
    for mut class in classes.into_values().filter(|class| class.len() > ALONE + 1) {
        class.sort_by_cached_key(|at| (order::key(&found[*at], end_ns), found[*at].at));
        rests.push(class.split_off(ALONE));
    }
    if rests.is_empty() {
        return;
    }
    let mut moved: Map<usize, usize> = Map::default();
    let mut joined: Vec<Finding> = Vec::new();
    for rest in &rests {
        let members: Vec<&Finding> = rest.iter().map(|at| &found[*at]).collect();
        let Some(one) = join(&members) else { continue };
        moved.extend(members.iter().filter_map(|member| Some((member.at?, one.at?))));
        joined.push(one);
    }
    let gone: Set<usize> = rests.into_iter().flatten().collect();
    let mut at = 0..;
    found.retain(|_| at.next().is_none_or(|at| !gone.contains(&at)));
    found.extend(joined);
    for owner in found.iter_mut().filter_map(|one| one.owner_at.as_mut()) {
        *owner = moved.get(owner).copied().unwrap_or(*owner);
    }
}

/// One finding of several of a class, the worst first.
fn join(members: &[&Finding]) -> Option<Finding> {
    let worst = members.first()?;
    let entry = entry(worst.id)?;
    let severity = members.iter().map(|one| one.severity).max()?;
    let measured = measured(entry, members);
    let named: super::FlowSet = members.iter().flat_map(|one| one.named.iter().copied()).collect();
    let mut raise = Raise::new(entry, severity, in_words(entry, members.len(), &measured))
        .about(|subject| *subject = Subject::of_all(members))
        .joins(members.len())
        .flow_count(named.len());
    for one in measured {
        raise = raise.value(one);
    }
    let mut found = Vec::new();
    raise
        .step(
            format!(
                "Begin with the {ALONE} of the kind that have a finding of their own: they are the worst."
            ),
            ByHand::Reading,
        )
        .caveat("Its counts are the sums of those findings: what two links show counts twice.")
        .into(&mut found);
    let both = |of: fn(&Finding) -> &Option<End>| {
        let mut ends = members.iter().map(|one| of(one).clone());
        let first = ends.next().flatten();
        ends.fold(first, |known, other| common(known?, &other?))
    };
    let of_all = |of: fn(&Finding) -> &Vec<&'static str>| {
        let all: BTreeSet<&'static str> = members.iter().flat_map(|one| of(one)).copied().collect();
        all.into_iter().collect::<Vec<_>>()
    };
    let is_one = |of: fn(&Finding) -> Option<usize>| members.iter().all(|one| of(one) == of(worst));
    let place = if members.iter().all(|one| one.place == worst.place) {
        worst.place.clone()
    } else {
        Place::default()
    };
    Some(Finding {
        flows: flows(members),
        named,
        last_seen_ns: members.iter().filter_map(|one| one.last_seen_ns).max(),
        first_seen_ns: members.iter().filter_map(|one| one.first_seen_ns).min(),
        active: members.iter().any(|one| one.active),
        settled: members.iter().all(|one| one.settled),
        episodes: episodes(members),
        impact: impact(members),
        place,
        requester: both(|one| &one.requester),
        responder: both(|one| &one.responder),
        causes: of_all(|one| &one.causes),
        effects: of_all(|one| &one.effects),
        owner: worst.owner,
        at: members.iter().filter_map(|one| one.at).min(),
        // Of several owners the kind alone.
        owner_at: worst.owner_at.filter(|_| is_one(|one| one.owner_at)),
        ..found.pop()?
    })
}

/// `Loss upstream of this tap: 284 further findings, 43,026 packets lost`.
fn in_words(entry: &Entry, findings: usize, measured: &[Evidence]) -> String {
    let count = format!(": {}", plural(findings as u64, "further finding"));
    let room = MOST.saturating_sub(count.chars().count());
    let kind: String = entry.title.chars().take(room).collect();
    let is_sum =
        |one: &&Evidence| one.value.is_u64() && one.unit == super::Unit::Count && is_sum(entry.id, &one.name);
    let first = measured.iter().find(is_sum);
    let sum = first.and_then(|one| Some(format!(", {} {}", units::count(one.value.as_u64()?), one.label)));
    title(kind + &count, [sum.unwrap_or_default()])
}

fn is_sum(id: &str, name: &str) -> bool {
    declared_label(id, name).is_some_and(|label| label.is_sum)
}

/// The evidence of all: the measure of the kind as the worst has it, and the sums of what may be added.
fn measured(entry: &Entry, members: &[&Finding]) -> Vec<Evidence> {
    let mut seen: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for one in members.iter().flat_map(|one| one.evidence.iter()) {
        if seen.contains(&one.name.as_str()) {
            continue;
        }
        seen.push(&one.name);
        let values =
            || members.iter().filter_map(|member| member.evidence.get(&one.name)).map(|one| &one.value);
        let measure = entry.measure.filter(|measure| measure.name == one.name);
        let (value, label) = match measure {
            _ if one.name == LOWER_BOUND => {
                (Value::from(values().any(|value| *value == true)), one.label.clone())
            }
            Some(measure) => (worst_of(measure, values()), format!("{}, worst of them", one.label)),
            None if is_sum(entry.id, &one.name) => (sum(values()), one.label.clone()),
            None => continue,
        };
        all.push(Evidence { label, value, ..one.clone() });
    }
    all
}

/// The sum; null if one of them is unknown, or no whole number.
fn sum<'a>(mut values: impl Iterator<Item = &'a Value>) -> Value {
    values.try_fold(0_u64, |sum, value| sum.checked_add(value.as_u64()?)).map_or(Value::Null, Value::from)
}

/// The worst value; null if none is known.
fn worst_of<'a>(measure: Measure, values: impl Iterator<Item = &'a Value>) -> Value {
    let badness = |value: &Value| {
        let number = value.as_f64().unwrap_or(f64::NAN);
        if measure.better == Better::Less { number } else { -number }
    };
    let known = values.filter(|value| value.is_number());
    known.max_by(|a, b| badness(a).total_cmp(&badness(b))).cloned().unwrap_or(Value::Null)
}

/// The most affected flows, of each finding the first before any second.
fn flows(members: &[&Finding]) -> Vec<FlowId> {
    let mut seen: Set<(Address, Address, u32)> = Set::default();
    let turns = (0..MAX_FLOWS).flat_map(|turn| members.iter().filter_map(move |one| one.flows.get(turn)));
    turns.filter(|flow| seen.insert((flow.src, flow.dst, flow.dest_qp))).take(MAX_FLOWS).cloned().collect()
}

/// The times of all, those less than 10 s apart as one.
fn episodes(members: &[&Finding]) -> Vec<Episode> {
    let all = || members.iter().flat_map(|one| &one.episodes);
    let times = joined(all().map(|one| (one.first_ns, one.last_ns)).collect());
    let of = |(first_ns, last_ns)| {
        let own = all().filter(|one| (first_ns..=last_ns).contains(&one.first_ns));
        Episode { first_ns, last_ns, peak: own.filter_map(|one| one.peak).reduce(f64::max) }
    };
    times.into_iter().map(of).collect()
}

/// The cost of all: a flow that several of them name counts with the worst of these. The share is the largest.
fn impact(members: &[&Finding]) -> Impact {
    let mut seen: Set<(Address, Address, u32)> = Set::default();
    let mut sum = Impact::default();
    for one in members {
        let is_new = one.named.iter().all(|name| !seen.contains(name));
        seen.extend(one.named.iter().copied());
        let add = |sum: Option<u64>, own: Option<u64>| match (sum, own) {
            (Some(sum), Some(own)) if is_new => Some(sum.saturating_add(own)),
            (sum, own) => sum.max(own),
        };
        let own = one.impact;
        sum = Impact {
            packets_ratio: [sum.packets_ratio, own.packets_ratio].into_iter().flatten().reduce(f64::max),
            retransmissions: add(sum.retransmissions, own.retransmissions),
            goodput_lost_bytes: add(sum.goodput_lost_bytes, own.goodput_lost_bytes),
            time_lost_ns: add(sum.time_lost_ns, own.time_lost_ns),
        };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::findings::relate::relate;
    use crate::findings::tests::found;
    use crate::metrics::loss::{Episodes, FlowLoss, Loss, Metrics};
    use crate::sample::Sample;

    const LINKS: u16 = 300;

    /// Host pairs behind a link each, which lose the more the later they come.
    fn lossy_links() -> Sample {
        let host = |net: u8, at: u16| format!("10.{net}.{}.{}", at / 200, 1 + at % 200);
        let flows =
            (0..LINKS).map(|at| (key(at, &host(1, at), &host(2, at), 17), stats(50_000, 1_000, 1_000_000)));
        let links = (0..LINKS).map(|at| link(&format!("port{at}.pcap"), None));
        let mut sample = sample(links.collect(), flows.collect());
        sample.window = Some((START, START + 2 * SECOND));
        let mut known = Loss::default();
        for at in 0..LINKS {
            let lost = 10 + u64::from(at);
            let (first_ns, last_ns) = (START + u64::from(LINKS - at), START + SECOND + u64::from(at));
            let upstream =
                Episodes { count: lost, longest_ns: 9, total_ns: 9 * lost, largest: 1, first_ns, last_ns };
            let metrics = Metrics { lost, upstream, retransmitted: lost, ..Metrics::default() };
            known.flows.insert(u32::from(at), FlowLoss { requests: Some(metrics), ..FlowLoss::default() });
        }
        sample.metrics.loss = Some(known);
        sample
    }

    #[test]
    fn of_hundreds_of_host_pairs_with_loss_the_worst_stand_alone_and_the_rest_are_one() {
        let all = found(&lossy_links(), &Options::default());
        let mut kinds: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        for one in &all {
            *kinds.entry((one.id, one.severity == Severity::Info)).or_default() += 1;
        }
        assert!(kinds.values().all(|count| *count <= ALONE + 1), "{kinds:?}");
        let of_kind = || all.iter().filter(|one| one.id == "loss.before_tap");
        let is_rest = |one: &&Finding| one.subject.joined.is_some();
        assert_eq!(of_kind().count(), ALONE + 1);
        let rest = of_kind().find(is_rest).unwrap();
        assert_eq!(rest.evidence["findings"], u64::from(LINKS) - ALONE as u64);
        assert_eq!(rest.evidence["flows"], rest.evidence["findings"]);
        let lost = |one: &Finding| one.evidence["lost"].as_u64().unwrap();
        assert_eq!(of_kind().map(lost).sum::<u64>(), (0..u64::from(LINKS)).map(|at| 10 + at).sum::<u64>());
        assert_eq!(
            rest.title,
            format!(
                "Loss upstream of this tap: 284 further findings, {} packets lost",
                units::count(lost(rest))
            )
        );
        // The worst have the highest shares, of which the cost of the rest is less.
        let ratio = |one: &Finding| one.evidence["loss_ratio"].as_f64().unwrap();
        assert!(of_kind().filter(|one| !is_rest(one)).all(|one| ratio(one) >= ratio(rest) / 2.0));
        assert_eq!(rest.severity, of_kind().map(|one| one.severity).max().unwrap());
        assert!(rest.active && rest.place == Place::default() && rest.requester.is_none());
        assert_eq!((rest.flows.len(), rest.named.len()), (MAX_FLOWS, 284));
        assert!(
            rest.first_seen_ns >= Some(START) && rest.last_seen_ns <= Some(START + SECOND + u64::from(LINKS))
        );
        assert_eq!(rest.episodes.len(), 1);
    }

    /// Damage and what it explains, between as many hosts: the least damage has the worst effect.
    fn related(count: u8) -> Vec<Finding> {
        let finding = |id, host: u8, ratio: f64, owns| {
            let first_ns = START + u64::from(host);
            let mut one = Finding {
                named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 1, host]), 17)]
                    .into_iter()
                    .collect(),
                owns,
                episodes: vec![Episode { first_ns, last_ns: first_ns + SECOND, peak: Some(ratio) }],
                first_seen_ns: Some(first_ns),
                last_seen_ns: Some(first_ns + SECOND),
                impact: Impact {
                    packets_ratio: Some(ratio),
                    retransmissions: Some(u64::from(host)),
                    ..Impact::default()
                },
                ..Finding::new(id, Severity::Warning, String::new())
            };
            for (name, value) in
                [("bad", Value::from(host)), ("bad_ratio", ratio.into()), ("checked", Value::Null)]
            {
                one.evidence.insert(Evidence::declared(id, name, value));
            }
            one
        };
        let ratio = |host: u8| 1.0 / f64::from(1_u32 << (host / 4).min(20));
        let damage = (0..count).map(|host| finding("icrc.errors", host, ratio(host), &["loss.after_tap"]));
        let loss = (0..count).map(|host| finding("loss.after_tap", host, ratio(count - 1 - host), &[]));
        let mut all: Vec<Finding> = damage.chain(loss).collect();
        relate(&mut all, |_| None);
        all
    }

    #[test]
    fn an_effect_of_a_finding_in_the_rest_is_owned_by_the_rest() {
        const COUNT: u8 = 60;
        let before = related(COUNT);
        assert!(before[usize::from(COUNT)..].iter().all(|one| one.owner_at.is_some()));
        let mut all = before.clone();
        bound(&mut all, Some(START + 2 * SECOND));
        assert_eq!(all.len(), 2 * (ALONE + 1));
        let rest_of = |id| all.iter().find(|one| one.id == id && one.subject.joined.is_some()).unwrap();
        let (damage, loss) = (rest_of("icrc.errors"), rest_of("loss.after_tap"));
        let alone = |id| all.iter().filter(move |one| one.id == id && one.subject.joined.is_none());
        // The worst losses are those of the least damage, which is in the rest.
        for one in alone("loss.after_tap") {
            assert!(one.is_owned_by("icrc.errors", damage.at) && one.owner_at.is_some(), "{:?}", one.named);
        }
        // The other losses have several owners.
        assert_eq!((loss.owner, loss.owner_at), (Some("icrc.errors"), None));
        let owners: Vec<usize> =
            all.iter().filter(|one| one.owner.is_none()).filter_map(|one| one.at).collect();
        let places: Set<usize> = owners.iter().copied().collect();
        assert_eq!(places.len(), ALONE + 1, "each has a place of its own");
        assert!(all.iter().filter_map(|one| one.owner_at).all(|owner| places.contains(&owner)));
        assert_eq!((&damage.effects[..], &loss.causes[..]), (&["loss.after_tap"][..], &["icrc.errors"][..]));
    }

    #[test]
    fn the_rest_has_the_sums_the_worst_measure_and_all_of_the_time() {
        let mut all = related(60);
        let of_kind =
            |all: &[Finding]| all.iter().filter(|one| one.id == "icrc.errors").cloned().collect::<Vec<_>>();
        let before = of_kind(&all);
        bound(&mut all, Some(START + 2 * SECOND));
        let rest = of_kind(&all).into_iter().find(|one| one.subject.joined.is_some()).unwrap();
        let members = &before[ALONE..];
        let sum: u64 = (16..60).sum();
        assert_eq!(rest.evidence["bad"], sum);
        assert_eq!(rest.evidence["checked"], Value::Null, "one is not known");
        assert_eq!(rest.evidence["bad_ratio"], members[0].evidence["bad_ratio"], "the worst of them");
        assert_eq!(rest.impact.retransmissions, members.iter().map(|one| one.impact.retransmissions).sum());
        assert_eq!(rest.impact.packets_ratio, members[0].impact.packets_ratio);
        assert_eq!((rest.first_seen_ns, rest.last_seen_ns), (Some(START + 16), Some(START + 59 + SECOND)));
        assert_eq!(rest.episodes.len(), 1);
        assert_eq!((rest.episodes[0].first_ns, rest.episodes[0].last_ns), (START + 16, START + 59 + SECOND));
        let hosts = (rest.requester.clone(), rest.responder.clone());
        assert_eq!(hosts, (None, None), "none of them names any");
    }

    /// As everywhere, 10 s without the condition end an episode.
    #[test]
    fn episodes_ten_seconds_apart_are_two() {
        let at = |first_ns, peak| Episode { first_ns, last_ns: first_ns + SECOND, peak };
        let finding = |episodes: &[Episode]| Finding {
            episodes: episodes.to_vec(),
            ..Finding::new("loss.before_tap", Severity::Warning, String::new())
        };
        let one = finding(&[at(START, Some(0.1)), at(START + 20 * SECOND, None)]);
        let other = finding(&[at(START + 11 * SECOND - 1, Some(0.3)), at(START + 31 * SECOND, Some(0.2))]);
        let times: Vec<_> = episodes(&[&one, &other])
            .iter()
            .map(|one| (one.first_ns - START, one.last_ns - START, one.peak))
            .collect();
        assert_eq!(times, [(0, 21 * SECOND, Some(0.3)), (31 * SECOND, 32 * SECOND, Some(0.2))]);
    }

    #[test]
    fn a_flow_of_several_findings_costs_once() {
        let finding = |host: u8, lost| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 1, host]), 17)]
                .into_iter()
                .collect(),
            impact: Impact { retransmissions: Some(lost), ..Impact::default() },
            ..Finding::new("loss.before_tap", Severity::Warning, String::new())
        };
        let (a, b, c) = (finding(1, 5), finding(1, 4), finding(2, 3));
        assert_eq!(impact(&[&a, &b, &c]).retransmissions, Some(8));
    }

    #[test]
    fn a_finding_more_than_stand_alone_stands_alone_too() {
        let mut all = related(u8::try_from(ALONE).unwrap() + 1);
        let before = all.clone();
        bound(&mut all, None);
        assert_eq!(all, before);
    }
}
