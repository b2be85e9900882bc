//! Retransmissions after NAKs for packets that passed the tap, which does not show whether they were lost downstream or
//! reordered: the cost is certain, whatever the reason.

use super::{Pair, is_during, nak_episodes, raise, whole};
use crate::analysis::Flow;
use crate::findings::checks::loss::taps::Ends;
use crate::findings::index::{ByHosts, FlowSet};
use crate::findings::span::{Judged, Span, latest, spans};
use crate::findings::{Finding, Input, Severity};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::Address;

/// True for loss or reordering downstream of a tap.
pub(super) fn asks(finding: &Finding) -> bool {
    finding.id == crate::findings::checks::loss::AFTER.id && finding.severity == Severity::Info
}

/// True for a finding that owns loss downstream of a tap, and with it these retransmissions.
pub(super) fn owns_asked(finding: &Finding) -> bool {
    finding.severity > Severity::Info && finding.owns.contains(&crate::findings::checks::loss::AFTER.id)
}

/// Raises retransmissions between the hosts that such a finding names, where no storm or loss has them.
pub(super) fn check(
    input: &Input<'_>,
    ends: &Ends<'_>,
    not_evaluated: impl Fn() -> u64,
    mut known: ByHosts,
    found: &mut Vec<Finding>,
) {
    let asking: Vec<usize> = (0..found.len()).filter(|at| found.get(*at).is_some_and(asks)).collect();
    for at in asking {
        let Some((asked, hosts, judged)) = found
            .get(at)
            .and_then(|one| judge(input, ends, one, |hosts| known.between(found, hosts).any(has)))
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

/// True for a finding that has the retransmissions between its hosts.
fn has(one: &Finding) -> bool {
    one.id == super::STORM.id
        || owns_asked(one)
        || super::OWNERS.contains(&one.id) && one.severity > Severity::Info
}

/// NAK episodes of the receivers of this finding, its hosts whose retransmissions nothing else has, and these.
fn judge<'a>(
    input: &Input<'a>,
    ends: &Ends<'_>,
    asking: &Finding,
    had: impl Fn(Hosts) -> bool,
) -> Option<(u64, Vec<Hosts>, Judged<Pair<'a>>)> {
    let limits = &input.limits.retry;
    let mut hosts = hosts(&asking.named);
    hosts.retain(|hosts| !had(*hosts));
    let mut flows: Vec<&Flow> = hosts.iter().flat_map(|(src, dst)| input.facts.between(*src, *dst)).collect();
    // In the order of all flows, whose worst are named first.
    flows.sort_unstable_by_key(|flow| std::ptr::from_ref::<Flow>(flow));
    // Of the NAKs and repeated READs: retransmissions for another reason, such as RNR NAKs, may go on behind them.
    let spans = spans(flows.iter().copied(), &[Signal::LossDownstream]);
    let judge = |span: &Span| {
        let mut pair = Pair::of(input.facts, ends, &flows, span);
        // A slow receiver has what follows its RNR NAKs.
        let asked = pair.retransmitted.saturating_sub(pair.after_rnr);
        pair.retransmitted = asked;
        let ratio = pair.ratio();
        let enough = asked >= limits.packets && ratio >= limits.asked_ratio;
        (enough && is_during(asking, span)).then_some((pair, Some(ratio)))
    };
    Some((nak_episodes(asking), hosts, latest(&spans, whole(&flows), judge)?))
}
