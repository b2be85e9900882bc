//! Causes and effects: findings that name the same hosts at the same time, if the one can cause the other.

pub(super) mod causality;
mod owners;

use std::collections::BTreeSet;

use super::catalog::entry;
use super::index::Name;
use super::{CostBase, Finding, Impact, Subject};
use crate::sample::Address;
use crate::util::map::Map;
use causality::{QueuePair, met, related_by_queue_pairs};
use owners::owned;

/// Sets causes and effects of all findings. `peer` gives the queue pair at the other end of a flow, if known, and is
/// asked once for each.
///
/// There may be thousands of findings, such as one for each of many links, so none is compared with all others: [`met`]
/// finds those of a kind that meet one by their places and times.
pub(super) fn relate(found: &mut [Finding], peer: impl Fn(&Name) -> Option<u32>) {
    for (at, finding) in found.iter_mut().enumerate() {
        finding.at = Some(at);
    }
    let hosts: Vec<BTreeSet<(Address, Address)>> = found.iter().map(hosts).collect();
    let queue_pairs = all_queue_pairs(found, peer);
    let claimed = claimed(found, &hosts);
    let met = met(found, &hosts, &queue_pairs);
    for (finding, (causes, effects)) in found.iter_mut().zip(met) {
        for id in causes {
            add(&mut finding.causes, id);
        }
        for id in effects {
            add(&mut finding.effects, id);
        }
    }
    let owned = owned(found, &hosts, claimed.owned);
    // What a finding costs may own it, and does not cause it.
    let is_cost = |id, of| entry(id).is_some_and(|entry| entry.causes.contains(&of));
    for (cause, effect) in claimed.caused.into_iter().chain(owned.iter().copied()) {
        let (cause_id, effect_id) = (found[cause].id, found[effect].id);
        if !is_cost(cause_id, effect_id) {
            add(&mut found[effect].causes, cause_id);
            add(&mut found[cause].effects, effect_id);
        }
    }
    for (owner, effect) in &owned {
        if is_cost(found[*owner].id, found[*effect].id) {
            continue;
        }
        let cost = found[*effect].impact;
        let Subject { timeouts, cost_base, .. } = found[*effect].subject;
        found[*owner].bear(&cost, cost_base, timeouts);
    }
    let owner_of: Map<usize, usize> = owned.iter().map(|(owner, effect)| (*effect, *owner)).collect();
    for (mut owner, effect) in owned {
        // An effect of an owned finding counts as an effect of the owner.
        for _ in 0..found.len() {
            let Some(above) = owner_of.get(&owner) else { break };
            owner = *above;
        }
        found[effect].owner = Some(found[owner].id);
        found[effect].owner_at = Some(owner);
        found[owner].severity = found[owner].severity.max(found[effect].severity);
    }
}

/// Causes and owners set by a family itself, from better evidence than hosts and times.
struct ClaimedRelations {
    caused: Vec<(usize, usize)>,
    owned: Vec<(usize, usize)>,
}

fn claimed(found: &[Finding], hosts: &[BTreeSet<(Address, Address)>]) -> ClaimedRelations {
    // The first of each kind, and the first of it between two hosts.
    let mut first: Map<&'static str, usize> = Map::default();
    let mut first_between: Map<(&'static str, (Address, Address)), usize> = Map::default();
    for (at, one) in found.iter().enumerate() {
        first.entry(one.id).or_insert(at);
        for pair in &hosts[at] {
            first_between.entry((one.id, *pair)).or_insert(at);
        }
    }
    // Of several of a kind, one between the same hosts.
    let of = |effect: usize, id: &'static str| {
        let meets = hosts[effect].iter().filter_map(|pair| first_between.get(&(id, *pair))).min();
        Some((*meets.or_else(|| first.get(id))?, effect))
    };
    let owner =
        |at: usize, one: &Finding| one.owner_at.map(|owner| (owner, at)).or_else(|| of(at, one.owner?));
    let all = || found.iter().enumerate();
    ClaimedRelations {
        caused: all().flat_map(|(at, one)| one.causes.iter().filter_map(move |id| of(at, id))).collect(),
        owned: all().filter_map(|(at, one)| owner(at, one)).collect(),
    }
}

impl Finding {
    /// Takes over the cost of an owned finding. The two overlap, so the larger figure counts.
    fn bear(&mut self, cost: &Impact, base: Option<CostBase>, timeouts: Option<u64>) {
        let own = &mut self.impact;
        if cost.retransmissions > own.retransmissions {
            self.subject.cost_base = base;
        }
        own.retransmissions = own.retransmissions.max(cost.retransmissions);
        own.goodput_lost_bytes = own.goodput_lost_bytes.max(cost.goodput_lost_bytes);
        own.time_lost_ns = own.time_lost_ns.max(cost.time_lost_ns);
        self.at_least_timeouts(timeouts);
    }
}

fn add(ids: &mut Vec<&'static str>, id: &'static str) {
    if !ids.contains(&id) {
        ids.push(id);
    }
}

/// The host pairs named by a finding, smaller address first; a finding about a device names none.
pub(super) fn hosts(finding: &Finding) -> BTreeSet<(Address, Address)> {
    let mut before = None;
    let all = finding.named.iter().map(|(src, dst, _)| (*src.min(dst), *src.max(dst)));
    // Flows are sorted: of a million, few are between other hosts than the one before.
    all.filter(|hosts| before.replace(*hosts) != Some(*hosts)).collect()
}

/// The queue pairs of each finding of a kind that is related by them.
fn all_queue_pairs<'f>(found: &'f [Finding], peer: impl Fn(&Name) -> Option<u32>) -> Vec<Vec<QueuePair>> {
    let kinds = related_by_queue_pairs(found);
    let names = |one: &'f Finding| kinds.contains(one.id).then_some(one.named.iter());
    // Thousands of findings may name the same flow, on as many links, and one a million flows.
    let mut peers: Vec<(&Name, Option<u32>)> =
        found.iter().filter_map(names).flatten().map(|name| (name, None)).collect();
    peers.sort_unstable();
    peers.dedup();
    for (name, qp) in &mut peers {
        *qp = peer(name);
    }
    let known = |name: &Name| peers.get(peers.binary_search_by_key(&name, |(name, _)| *name).ok()?)?.1;
    found.iter().map(|one| queue_pairs(names(one).into_iter().flatten(), known)).collect()
}

/// The queue pairs of flows, each with its host, sorted.
pub(super) fn queue_pairs<'n>(
    names: impl Iterator<Item = &'n Name>,
    peer: impl Fn(&Name) -> Option<u32>,
) -> Vec<QueuePair> {
    let ends = |name: &Name| [Some((name.1, name.2)), peer(name).map(|qp| (name.0, qp))];
    let mut all: Vec<QueuePair> = names.flat_map(ends).flatten().collect();
    all.sort_unstable();
    all.dedup();
    all.shrink_to_fit();
    all
}

#[cfg(test)]
mod tests {
    use super::super::{Episode, Evidence, Severity};
    use super::causality::COMPARED;
    use super::*;
    use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;

    /// The storm shows so long after the receiver, of this host.
    fn storm_and_receiver(host: u8, at_ns: u64) -> Vec<Finding> {
        let finding = |id, host: u8, at_ns| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, host]), 17)]
                .into_iter()
                .collect(),
            episodes: vec![Episode { first_ns: at_ns, last_ns: at_ns, peak: None }],
            ..Finding::new(id, Severity::Warning, String::new())
        };
        let mut found = vec![finding("retry.storm", 2, at_ns), finding("rnr.slow_receiver", host, 0)];
        relate(&mut found, |_| None);
        found
    }

    #[test]
    fn damage_in_other_queue_pairs_is_no_cause() {
        let finding = |id, qp| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), qp)].into_iter().collect(),
            ..Finding::new(id, Severity::Warning, String::new())
        };
        for (qp, causes) in [(17, &["icrc.errors"][..]), (18, &[])] {
            let mut found = vec![finding("icrc.errors", qp), finding("loss.after_tap", 17)];
            relate(&mut found, |_| None);
            assert_eq!(found[1].causes, causes, "{qp}");
        }
        // Damaged ACKs of the same connection: 10.0.0.2 sends them to QP 9 of 10.0.0.1.
        let mut found = vec![finding("icrc.errors", 9), finding("loss.after_tap", 17)];
        let (from, to) = (Address::from([10, 0, 0, 2]), Address::from([10, 0, 0, 1]));
        found[0].named = [(from, to, 9)].into_iter().collect();
        relate(&mut found, |(_, _, qp)| (*qp == 17).then_some(9));
        assert_eq!(found[1].causes, ["icrc.errors"]);
    }

    #[test]
    fn the_other_end_is_asked_for_where_queue_pairs_decide() {
        let asked = |ids: [&'static str; 2]| {
            let mut found = ids.map(|id| Finding {
                named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), 17)]
                    .into_iter()
                    .collect(),
                ..Finding::new(id, Severity::Warning, String::new())
            });
            let asked = std::cell::Cell::new(0);
            relate(&mut found, |_| {
                asked.set(asked.get() + 1);
                None
            });
            (found[1].causes.clone(), asked.get())
        };
        assert_eq!(asked(["icrc.errors", "loss.after_tap"]), (vec!["icrc.errors"], 1), "once for both");
        assert_eq!(asked(["rnr.slow_receiver", "retry.storm"]), (vec!["rnr.slow_receiver"], 0), "by hosts");
        assert_eq!(asked(["icrc.errors", "ecn.congestion"]), (vec![], 0), "not related");
    }

    #[test]
    fn a_cause_and_its_effect_name_one_another() {
        let found = storm_and_receiver(2, EPISODE_GAP_NS);
        assert_eq!(
            (&found[0].causes[..], &found[1].effects[..]),
            (&["rnr.slow_receiver"][..], &["retry.storm"][..])
        );
        assert!(found[0].effects.is_empty() && found[1].causes.is_empty());
    }

    #[test]
    fn an_owner_accounts_for_what_happens_between_its_hosts_only() {
        let finding = |id, severity, hosts: &[u8], owns| {
            let name = |host: &u8| (Address::from([10, 0, 0, *host]), Address::from([10, 0, 0, 9]), 17);
            Finding {
                named: hosts.iter().map(name).collect(),
                owns,
                ..Finding::new(id, severity, String::new())
            }
        };
        let owner = |lossy: &[u8]| {
            let mut found = vec![
                finding("loss.before_tap", Severity::Critical, lossy, &[]),
                finding("ecn.congestion", Severity::Warning, &[1, 2], &[]),
                finding(
                    "burst.incast",
                    Severity::Warning,
                    &[1, 2, 3],
                    &["loss.before_tap", "ecn.congestion"],
                ),
            ];
            relate(&mut found, |_| None);
            assert_eq!(found[1].owner, Some("burst.incast"));
            (found[0].owner, found[2].severity, found[2].effects.clone())
        };
        let both = vec!["ecn.congestion", "loss.before_tap"];
        assert_eq!(owner(&[1, 3]), (Some("burst.incast"), Severity::Critical, both));
        assert_eq!(owner(&[1, 4]), (None, Severity::Warning, vec!["ecn.congestion"]));
        assert_eq!(owner(&[]).0, None, "of unknown hosts");
    }

    #[test]
    fn an_owner_costs_what_it_accounts_for() {
        let finding = |id, owns, timeouts: u64, ns| {
            let named =
                [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), 17)].into_iter().collect();
            let impact = Impact { time_lost_ns: Some(ns), ..Impact::default() };
            let mut one =
                Finding { named, impact, owns, ..Finding::new(id, Severity::Warning, String::new()) };
            one.evidence.insert(Evidence::declared(one.id, "timeouts", timeouts.into()));
            one.subject.timeouts = Some(timeouts);
            one
        };
        let mut found = vec![
            finding("loss.after_tap", &["retry.timeouts"], 2, 16),
            finding("retry.timeouts", &[], 11, 25),
        ];
        relate(&mut found, |_| None);
        assert_eq!((found[0].impact.time_lost_ns, &found[0].evidence["timeouts"]), (Some(25), &11.into()));
    }

    #[test]
    fn what_a_loss_costs_may_own_it_and_does_not_cause_it() {
        let finding = |id, severity| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), 17)].into_iter().collect(),
            ..Finding::new(id, severity, String::new())
        };
        let mut found =
            vec![finding("loss.after_tap", Severity::Info), finding("retry.storm", Severity::Warning)];
        (found[0].owner, found[0].owner_at) = (Some("retry.storm"), Some(1));
        relate(&mut found, |_| None);
        assert!(found[0].causes.is_empty() && found[1].effects.is_empty());
        assert_eq!(
            (&found[1].causes[..], &found[0].effects[..]),
            (&["loss.after_tap"][..], &["retry.storm"][..])
        );
        assert_eq!(found[0].owner, Some("retry.storm"));
        assert_eq!(found[0].severity, Severity::Info, "neither has the severity of the other");
    }

    #[test]
    fn the_owner_of_an_owner_accounts_for_both() {
        let finding = |id, owns| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), 17)].into_iter().collect(),
            owns,
            ..Finding::new(id, Severity::Warning, String::new())
        };
        let mut found = vec![
            finding("qp.died", &["retry.timeouts"]),
            finding("path.mtu_black_hole", &["qp.died", "retry.timeouts"]),
            finding("retry.timeouts", &[]),
        ];
        relate(&mut found, |_| None);
        let owners: Vec<_> = found.iter().map(|one| one.owner).collect();
        assert_eq!(owners, [Some("path.mtu_black_hole"), None, Some("path.mtu_black_hole")]);
    }

    #[test]
    fn of_two_receivers_each_accounts_for_its_own() {
        let finding = |id, severity, to: u8, owns| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, to]), 17)].into_iter().collect(),
            owns,
            ..Finding::new(id, severity, String::new())
        };
        let mut found = vec![
            finding("loss.before_tap", Severity::Critical, 3, &[]),
            finding("burst.incast", Severity::Warning, 2, &["loss.before_tap"]),
            finding("burst.incast", Severity::Warning, 3, &["loss.before_tap"]),
        ];
        relate(&mut found, |_| None);
        assert_eq!(
            found.iter().map(|one| one.severity).collect::<Vec<_>>(),
            [Severity::Critical, Severity::Warning, Severity::Critical]
        );
        assert!(
            found[0].is_owned_by("burst.incast", found[2].at)
                && !found[0].is_owned_by("burst.incast", found[1].at)
        );
        // The owned one follows its own owner, and the other receiver follows both.
        crate::findings::order::sort(&mut found, None);
        let order: Vec<_> = found.iter().map(|one| (one.id, one.at)).collect();
        assert_eq!(
            order,
            [("burst.incast", Some(2)), ("loss.before_tap", Some(0)), ("burst.incast", Some(1))]
        );
    }

    #[test]
    fn what_is_likely_accounts_for_nothing_that_is_worse() {
        let finding = |id, severity, owns| Finding {
            named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), 17)].into_iter().collect(),
            owns,
            ..Finding::new(id, severity, String::new())
        };
        for (certainty, owner, severity) in [
            ("likely", None, Severity::Warning),
            ("certain", Some("path.mtu_black_hole"), Severity::Critical),
        ] {
            let mut found = vec![
                finding("qp.died", Severity::Critical, &[]),
                finding("retry.timeouts", Severity::Warning, &[]),
                finding("path.mtu_black_hole", Severity::Warning, &["qp.died", "retry.timeouts"]),
            ];
            found[2].subject.is_likely = certainty == "likely";
            relate(&mut found, |_| None);
            assert_eq!((found[0].owner, found[2].severity), (owner, severity), "{certainty}");
            assert_eq!(found[1].owner, Some("path.mtu_black_hole"));
        }
    }

    #[test]
    fn comparisons_grow_with_the_number_of_findings_and_no_faster() {
        let compared = |count: u64| {
            let mut found: Vec<Finding> = (0..count)
                .flat_map(|at| {
                    // Damage and loss between the same two hosts, each at its own time.
                    let at_ns = at * 5 * EPISODE_GAP_NS;
                    ["icrc.errors", "loss.after_tap"].map(|id| Finding {
                        named: [(Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2]), 17)]
                            .into_iter()
                            .collect(),
                        episodes: vec![Episode { first_ns: at_ns, last_ns: at_ns, peak: None }],
                        owns: if id == "icrc.errors" { &["loss.after_tap"] } else { &[] },
                        ..Finding::new(id, Severity::Warning, String::new())
                    })
                })
                .collect();
            let asked = std::cell::Cell::new(0_u64);
            COMPARED.set(0);
            relate(&mut found, |_| {
                asked.set(asked.get() + 1);
                None
            });
            assert_eq!(asked.get(), 1, "the same queue pair is looked up again and again");
            let owners = found.iter().skip(1).step_by(2).map(|one| one.owner_at);
            assert!(owners.zip((0..).step_by(2)).all(|(owner, at)| owner == Some(at)), "each has its own");
            assert!(found.iter().skip(1).step_by(2).all(|one| one.causes == ["icrc.errors"]));
            COMPARED.get()
        };
        let (few, many) = (compared(1_000), compared(2_000));
        assert!(few > 0 && many <= 2 * few + 100, "{few}, {many}");
    }

    #[test]
    fn what_was_elsewhere_or_at_another_time_is_no_cause() {
        for found in [storm_and_receiver(3, 0), storm_and_receiver(2, EPISODE_GAP_NS + 1)] {
            assert!(found[0].causes.is_empty() && found[1].effects.is_empty());
        }
    }
}
