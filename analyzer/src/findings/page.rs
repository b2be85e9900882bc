//! The page of all findings, and the definitions that no setting changes.

use std::fmt::Write as _;

use super::catalog::{entries, limits_of};
use super::checks::died;
use super::relate::causality;
use super::{Entry, FAMILIES, Family, Finding, bound, dedup, order, period, raise, verdict, when};
use crate::entity::interval;
use crate::metrics;
use crate::util::definition::Definition;

/// The text of docs/findings.md.
pub fn markdown() -> String {
    let mut ranked: Vec<&Entry> = entries().collect();
    ranked.sort_by_key(|entry| entry.rank);
    let kinds: Vec<String> = ranked.iter().map(|entry| format!("`{}`", entry.id)).collect();
    let mut text = format!("{HEAD}\n{}{}.\n", filled(ORDER), kinds.join(", "));
    let reasons = super::ByHand::ALL.map(super::ByHand::reason);
    let _ = writeln!(text, "\nA step without a command has one of these reasons: {}.", reasons.join("; "));
    for family in FAMILIES {
        for entry in family.entries {
            let _ = writeln!(text, "\n## {}\n\n{}", entry.id, entry.about().trim_end());
        }
        let mut own = limits_of(family).peekable();
        if own.peek().is_some() {
            let _ = writeln!(text, "\n### Thresholds of {}\n", tables(family).join(", "));
            own.for_each(|limit| text.push_str(&limit.line()));
        }
    }
    let _ = writeln!(text, "\n{FIXED}");
    text + &definitions("### ")
}

/// Definitions of findings.
const OWN: [&[Definition]; 11] = [
    interval::DEFINITIONS,
    order::DEFINITIONS,
    causality::DEFINITIONS,
    bound::DEFINITIONS,
    period::DEFINITIONS,
    raise::DEFINITIONS,
    dedup::DEFINITIONS,
    when::DEFINITIONS,
    verdict::DEFINITIONS,
    died::DEFINITIONS,
    died::OF_STOPPED,
];

/// All definitions, by subject.
fn subjects() -> impl Iterator<Item = (&'static str, &'static [&'static [Definition]])> {
    let first: [(_, &[&[Definition]]); 2] =
        [("Findings and their episodes", &OWN), ("Links and hosts", &crate::analysis::DEFINITIONS)];
    first.into_iter().chain(metrics::DEFINITIONS)
}

/// All definitions.
pub(super) fn all_definitions() -> impl Iterator<Item = &'static Definition> {
    subjects().flat_map(|(_, lists)| lists).copied().flatten()
}

/// A text with the values of the definitions that it names: `{EPISODE_GAP_NS}`.
pub(super) fn filled(text: &str) -> String {
    let mut filled = text.to_owned();
    // Few texts name one.
    if text.contains('{') {
        for one in all_definitions() {
            filled = filled.replace(&format!("{{{}}}", one.name), &one.in_sentence());
        }
    }
    filled
}

/// Fills in the values of definitions in the texts that findings take over from their kinds.
pub(super) fn fill(found: &mut [Finding]) {
    for text in found.iter_mut().flat_map(|one| one.caveats.iter_mut().chain([&mut one.advice])) {
        if text.contains('{') {
            *text = filled(text);
        }
    }
}

/// The numbers that no setting changes, by subject, each of which begins with `mark`.
pub fn definitions(mark: &str) -> String {
    let subject = |(name, lists): (&str, &[&[Definition]])| {
        let mut text = format!("{mark}{name}\n\n");
        for one in lists.iter().copied().flatten() {
            let _ = writeln!(text, "{one}");
        }
        text
    };
    subjects().map(subject).collect::<Vec<_>>().join("\n")
}

/// Tables of a family's thresholds, each with the pattern of its fields, such as `loss.*`.
fn tables(family: &Family) -> Vec<String> {
    family.limits.iter().filter_map(|table| Some(format!("`{}.*`", table.first()?.table))).collect()
}

const HEAD: &str = "\
# Findings

<!-- Made from analyzer/src/findings: change that, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope findings -->

The problems that rocescope diagnoses. Each finding has an id, a severity (info: good to know; warning: costs performance, or will; critical: stops
traffic, takes a large part of its bandwidth, or makes the figures wrong), evidence in numbers, the flows concerned, where and since when it was seen, what it costs, and what to do.
If a finding has episodes, its ratios are of the latest: of the packets that the flows concerned sent from its first signal to its last, and never of
packets before or after. Signals within less than a second are compared with the packets of the second around them. The packets of a flow without a signal
of its own are taken as evenly spread between the marks that are kept every 10 s.

A threshold is a fixed number: two runs of one fault whose true figure is near it may differ in severity. A margin or a confidence interval would only move
the threshold. The title has the counts behind a ratio, and `rocescope diff` compares such findings by their figure. A warning of any kind is critical when
its retransmissions are at least `retry.packets` and the share `retry.critical_ratio` of what its flows sent: one fault has one severity at every tap.

`rocescope explain ID` prints the same text. Thresholds are set under `[findings]` in the configuration file (`rocescope config`).
";

const FIXED: &str = "\
## Definitions

Numbers that are part of what a figure means, or that decide it. No setting changes them; `rocescope explain definitions` prints them.
";

const ORDER: &str = "\
The order is the same everywhere (text, JSON, screen): active findings that show now, then active ones not seen for {QUIET_NS}, both critical before warning; then those that ended (`last_seen_ns` {EPISODE_GAP_NS} or more before the end of the
data); then info. Findings of one severity are in the order of their impact (the share of packets or of time that they cost); those with equal impact in the order of cause and
effect. A finding follows a cause that it names if both have the same severity and the same state (active or ended). A finding that another owns (`owner`) is counted as part of that one and follows it.

At most {ALONE} findings of a kind are listed individually, the worst first; warnings and info, with an owner and without, count separately. The others are combined in one finding: its evidence has their number (`findings`), the sums of
their counts and the worst value of their measure. It begins with the first of them, is active if one of them is, and is as severe as the worst; its `impact` counts a flow that several of them name once.

Cause and effect: ";
