//! Retransmissions after NAKs for packets that passed the tap, which does not show whether they were lost downstream or
//! reordered: the cost is certain, whatever the reason.

use super::{Pair, STORM, is_about, is_during, raise, whole};
use crate::analysis::Flow;
use crate::analysis::loss::Downstream;
use crate::findings::checks::loss::taps::Ends;
use crate::findings::ids;
use crate::findings::index::{ByHosts, FlowSet};
use crate::findings::period::{Evaluated, Period, latest, periods};
use crate::findings::relate::causality::overlap;
use crate::findings::{Finding, Input, Severity};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::Address;
use crate::util::map::Map;

/// True for loss or reordering downstream of a tap.
pub(super) fn is_downstream_of_tap(finding: &Finding) -> bool {
    finding.id == ids::LOSS_AFTER_TAP && finding.severity == Severity::Info
}

/// True for a finding that owns loss downstream of a tap, and with it these retransmissions.
pub(super) fn owns_downstream_loss(finding: &Finding) -> bool {
    finding.is_problem() && finding.owns.contains(&ids::LOSS_AFTER_TAP)
}

/// NAKs of receivers for packets that passed the tap.
pub(super) struct NakEpisodes {
    /// Episodes of NAKs or repeated READs.
    pub(super) episodes: u64,
    /// What they show. `None`: answers are not captured.
    pub(super) what: Option<Downstream>,
}

impl NakEpisodes {
    pub(super) fn of(finding: &Finding) -> Self {
        let subject = &finding.subject;
        Self { episodes: subject.nak_episodes.unwrap_or(0), what: subject.downstream }
    }
}

/// Gives such a finding to the retransmissions between all of its hosts at that time: they are what it costs, and the
/// two are one trouble.
pub(super) fn own(found: &mut [Finding]) {
    let is_cost = |one: &Finding| one.id == STORM.id && one.subject.nak_episodes.is_some();
    let costs = found.iter().enumerate().filter(|(_, one)| is_cost(one));
    let costs: Vec<(usize, Vec<Hosts>)> = costs.map(|(at, one)| (at, hosts(&one.named))).collect();
    let mut by_hosts: Map<Hosts, Vec<&(usize, Vec<Hosts>)>> = Map::default();
    for cost in &costs {
        for pair in &cost.1 {
            by_hosts.entry(*pair).or_default().push(cost);
        }
    }
    for at in 0..found.len() {
        let Some(asking) = found.get(at).filter(|one| is_downstream_of_tap(one) && one.owner.is_none())
        else {
            continue;
        };
        let asked = hosts(&asking.named);
        let accounts_for_all = |cost: &&&(usize, Vec<Hosts>)| {
            let during = found.get(cost.0).is_some_and(|one| overlap(&one.episodes, &asking.episodes));
            during && asked.iter().all(|pair| cost.1.binary_search(pair).is_ok())
        };
        let near = asked.first().and_then(|pair| by_hosts.get(pair));
        let owner = near.into_iter().flatten().find(accounts_for_all).map(|cost| cost.0);
        if let (Some(owner), Some(asking)) = (owner, found.get_mut(at)) {
            (asking.owner, asking.owner_at) = (Some(STORM.id), Some(owner));
        }
    }
}

/// Raises retransmissions between the hosts that such a finding names, where no storm or loss has them.
pub(super) fn check(
    input: &Input<'_>,
    ends: &Ends<'_>,
    not_evaluated: impl Fn() -> u64,
    mut known: ByHosts,
    found: &mut Vec<Finding>,
) {
    let asking: Vec<usize> =
        (0..found.len()).filter(|at| found.get(*at).is_some_and(is_downstream_of_tap)).collect();
    for at in asking {
        let Some((asked, hosts, judged)) = found
            .get(at)
            .and_then(|one| judge(input, ends, one, |hosts| has_owner(input, hosts, &known, found)))
        else {
            continue;
        };
        raise(input, &hosts, &judged, (Some(asked), not_evaluated()), &mut known, found);
    }
}

/// Source and destination.
type Hosts = (Address, Address);

/// Host pairs of a finding, each once, in order.
fn hosts(named: &FlowSet) -> Vec<(Address, Address)> {
    let mut hosts: Vec<(Address, Address)> = named.iter().map(|(src, dst, _)| (*src, *dst)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// True if a finding has the retransmissions from one host to another.
fn has_owner(input: &Input<'_>, hosts: Hosts, known: &ByHosts, found: &[Finding]) -> bool {
    let has = |one: &Finding| {
        let is_loss = super::OWNERS.contains(&one.id) && one.is_problem();
        owns_downstream_loss(one) || (one.id == STORM.id || is_loss) && is_about(input.facts, one, hosts)
    };
    known.between(found, hosts).any(has)
}

/// The NAKs of the receivers of this finding, its hosts whose retransmissions nothing else has, and these.
fn judge<'a>(
    input: &Input<'a>,
    ends: &Ends<'_>,
    asking: &Finding,
    had: impl Fn(Hosts) -> bool,
) -> Option<(NakEpisodes, Vec<Hosts>, Evaluated<Pair<'a>>)> {
    let limits = &input.limits.retry;
    let mut hosts = hosts(&asking.named);
    hosts.retain(|hosts| !had(*hosts));
    let mut flows: Vec<&Flow> = hosts.iter().flat_map(|(src, dst)| input.facts.between(*src, *dst)).collect();
    // In the order of all flows, whose worst are named first.
    flows.sort_unstable_by_key(|flow| std::ptr::from_ref::<Flow>(flow));
    // Of the NAKs and repeated READs: retransmissions for another reason, such as RNR NAKs, may go on behind them.
    let periods = periods(flows.iter().copied(), &[Signal::LossDownstream]);
    let judge = |period: &Period| {
        let mut pair = Pair::of(input.facts, ends, &flows, period);
        // A slow receiver has what follows its RNR NAKs.
        let asked = pair.retransmitted.saturating_sub(pair.after_rnr);
        pair.retransmitted = asked;
        let ratio = pair.ratio();
        let enough = asked >= limits.packets && ratio >= limits.nak_ratio;
        (enough && is_during(asking, period)).then_some((pair, Some(ratio)))
    };
    Some((NakEpisodes::of(asking), hosts, latest(&periods, whole(&flows), judge)?))
}
