//! Severity of loss on one side of a tap: each host pair by its own figures, and what may be no loss as information.

use super::counts::LossCounts;
use super::taps::without_nak;
use super::{LossyPair, Pair, Side};
use crate::analysis::loss::Downstream;
use crate::findings::raise::MAX_FLOWS;
use crate::findings::{ByHand, Input, Raise, Severity, title};
use crate::sample::Address;
use crate::util::units::{self, plural};

/// Caveat of NAKs for packets seen at the tap.
const SAME_AS_REORDERING: &str =
    "Reordering downstream looks the same; with adaptive routing, receivers need out-of-order placement.";

/// Reasons why packets between two hosts may have been reordered rather than lost.
#[derive(Clone, Copy, Default)]
pub(super) struct ReorderingDoubt {
    /// Nothing triggered a retransmission: what filled the gaps may be originals that arrived out of order.
    without_nak: bool,
    /// Enough of the lost PSNs may have been reordered.
    doubtful: bool,
    /// The episodes downstream of the tap, as it sees them. `None`: upstream.
    downstream: Option<Downstream>,
}

impl ReorderingDoubt {
    pub(super) fn of(input: &Input<'_>, side: Side, hosts: (Address, Address), pair: &Pair<'_>) -> Self {
        if side == Side::Downstream {
            return Self { downstream: Some(pair.downstream()), ..Self::default() };
        }
        let (late, lost) = pair.doubtful;
        Self {
            without_nak: pair.reliable && without_nak(input, hosts),
            doubtful: late > 0 && late as f64 >= input.limits.loss.doubtful * lost as f64,
            downstream: None,
        }
    }

    /// True if it may all be reordering.
    pub(super) fn any(self) -> bool {
        self.without_nak || self.doubtful || self.downstream.is_some_and(|what| what != Downstream::Loss)
    }

    /// Adds the evidence, its caveats and what to do about it to the finding of which this pair is the worst.
    pub(super) fn add_to(self, mut raise: Raise, worst: &Pair<'_>) -> Raise {
        if self.any() {
            raise = raise.lost_or_reordered();
        }
        if self.downstream.is_some_and(|what| what != Downstream::Loss) {
            raise = raise.caveat(SAME_AS_REORDERING);
        }
        if self.without_nak {
            raise = raise.caveat("No NAK or timeout triggered these packets: they may be reordered originals; a constant IPv4 identification does not distinguish those from retransmissions.");
        }
        if self.doubtful {
            raise = raise.caveat(format!(
                "{} of these PSNs may have been reordered rather than lost: they passed twice after their gap, or alone where the sender otherwise goes back N, or after later ones without a NAK or timeout that explains it, or in gaps that are more often filled without a NAK or timeout than after one. Constant IPv4 identifications do not distinguish originals from retransmissions.",
                units::count(worst.doubtful.0)
            ));
        }
        // Where packets are seen out of order, or none was asked for, this comes first.
        if self.without_nak || self.doubtful || self.downstream == Some(Downstream::ReorderingOrLoss) {
            raise = raise.step("If the fabric sprays packets or uses adaptive routing, enable out-of-order placement on the NICs of both ends, and set NCCL_IB_ADAPTIVE_ROUTING=1 for NCCL.", ByHand::Job);
        }
        raise
    }
}

impl Pair<'_> {
    /// True if its packets were lost, and it matters: a service that retransmits nothing expects loss.
    pub(super) fn is_certain(&self) -> bool {
        self.reliable && !self.doubt.any()
    }

    /// Severity by its own figures.
    fn severity(&self, input: &Input<'_>, side: Side, hosts: (Address, Address)) -> Severity {
        let enough = self.sum.is_enough(&input.limits.loss);
        let ratio = if enough { self.sum.ratio() } else { 0.0 };
        if self.is_certain() { graded(input, side, hosts, ratio) } else { Severity::Info }
    }
}

/// Severity of this share of packets that two hosts lost for certain.
fn graded(input: &Input<'_>, side: Side, (src, dst): (Address, Address), ratio: f64) -> Severity {
    let known = || side == Side::Upstream || input.facts.between(dst, src).next().is_some();
    if ratio >= input.limits.loss.critical_ratio && known() { Severity::Critical } else { Severity::Warning }
}

/// The worst severity of these pairs, each by its own figures. A share of few packets says little of one pair, but much
/// of all: where no pair lost enough, it is that of their sum.
pub(super) fn grade(input: &Input<'_>, side: Side, bad: &[LossyPair<'_>]) -> Severity {
    let worst = bad.iter().map(|(hosts, pair)| pair.severity(input, side, *hosts)).max();
    let few = bad.iter().all(|(_, pair)| !pair.sum.is_enough(&input.limits.loss));
    match (worst, bad.first()) {
        (Some(Severity::Warning), Some((hosts, _))) if few => {
            graded(input, side, *hosts, LossCounts::of_all(bad.iter().map(|(_, pair)| pair.sum)).ratio())
        }
        (worst, _) => worst.unwrap_or(Severity::Info),
    }
}

/// Each pair with its share, of many the worst, and with its severity where they differ.
pub(super) fn in_words(input: &Input<'_>, side: Side, bad: &[LossyPair<'_>]) -> Vec<String> {
    let severity = |(hosts, pair): &LossyPair<'_>| pair.severity(input, side, *hosts);
    let differ = bad.first().is_some_and(|first| bad.iter().any(|one| severity(one) != severity(first)));
    let one = |one: &LossyPair<'_>| {
        let ((src, dst), pair) = one;
        let at_least = if side == Side::Downstream || pair.at_least() { "at least " } else { "" };
        let severity = if differ { format!(", {}", severity(one).name()) } else { String::new() };
        format!("{src} → {dst} ({at_least}{}{severity})", units::ratio(Some(pair.sum.ratio())))
    };
    bad.iter().take(MAX_FLOWS).map(one).collect()
}

/// The diagnosis with its figure, the longest that leaves room for the hosts.
pub(super) fn headline(
    side: Side,
    links: &[&str],
    (worst, sum): (&Pair<'_>, LossCounts),
    answers: bool,
    hosts: &[String; 2],
) -> String {
    let names = title::links(links);
    let mut all = vec![diagnosis(side, &names, worst, sum, answers)];
    if links.len() > 1 {
        all.push(diagnosis(side, &plural(links.len() as u64, "link"), worst, sum, answers));
    }
    let shortest = all.len() - 1;
    if side == Side::Upstream && !worst.doubt.any() {
        all.push(lost_upstream(&names, worst, sum, ""));
    }
    let fits = |form: &String| all.iter().position(|diagnosis| title::fits(diagnosis, [form]));
    let fitting = hosts.iter().find_map(fits).unwrap_or(shortest);
    all.swap_remove(fitting)
}

fn diagnosis(side: Side, link: &str, worst: &Pair<'_>, sum: LossCounts, answers: bool) -> String {
    let LossCounts { lost, packets, .. } = sum;
    match side {
        Side::Upstream if worst.doubt.any() => {
            format!("Reordering or loss upstream of {link}: {}", plural(lost, "packet"))
        }
        Side::Upstream => lost_upstream(link, worst, sum, &format!(" of {}", units::count(packets))),
        Side::Downstream => match shown_by(worst, answers) {
            Some(shown) => {
                let what = match shown {
                    Downstream::Loss => "repeated READ",
                    _ if worst.rereads.0 == 0 => "NAK episode",
                    _ => "episode",
                };
                format!("{} downstream of {link}: {}", shown.name(), plural(lost, what))
            }
            None => format!("Retransmissions of packets seen at {link}: {}", plural(lost, "time")),
        },
    }
}

/// Packets lost upstream of a link, `of` all.
fn lost_upstream(link: &str, worst: &Pair<'_>, sum: LossCounts, of: &str) -> String {
    let at_least = if worst.at_least() { "at least " } else { "" };
    let (lost, ratio) = (units::count(sum.lost), units::ratio(Some(sum.ratio())));
    let packets = if of.is_empty() && sum.lost == 1 { "packet" } else { "packets" };
    format!("Loss upstream of {link}: {at_least}{lost}{of} {packets} ({ratio})")
}

/// What the episodes downstream of the tap show; `None` if the answers are not captured and the packets do not show it.
pub(super) fn shown_by(worst: &Pair<'_>, answers: bool) -> Option<Downstream> {
    let shown = worst.downstream();
    (answers || shown == Downstream::ReorderingOrLoss).then_some(shown)
}
