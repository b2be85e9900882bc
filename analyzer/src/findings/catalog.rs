//! Texts about findings: meaning, rule and remedy of each kind.

use std::fmt::Write as _;

use super::checks::died;
use super::relate::causality;
use super::{Entry, FAMILIES, Family, LimitMeta, bound, order, span, verdict};
use crate::entity::interval;
use crate::metrics;
use crate::util::definition::{Definition, number};
use crate::util::nearest::nearest;

/// All kinds of findings, by family.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().flat_map(|family| family.entries)
}

/// The known id or family closest to an unknown one, which may be written as family and name, or as either alone.
#[must_use]
pub fn similar(id: &str) -> Option<&'static str> {
    let parts = |id: &'static str| id.split_once('.').unwrap_or((id, id));
    let ids = entries().map(|entry| entry.id);
    // A family is preferred to one of its findings.
    nearest(id, ids.flat_map(|one| [(one, one), (parts(one).1, one), (parts(one).0, parts(one).0)]))
}

/// The kind of finding with this id; `None` if unknown.
#[must_use]
pub fn entry(id: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.id == id)
}

/// The family of a kind of finding.
pub(super) fn family(id: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.entries.iter().any(|entry| entry.id == id))
}

/// The label of an evidence value, in words.
#[must_use]
pub fn evidence_label(id: &str, name: &'static str) -> &'static str {
    let own = family(id).map_or(&[][..], |family| family.evidence);
    own.iter().chain(super::labels::COMMON).find(|known| known.name == name).map_or(name, |known| known.label)
}

/// All thresholds, by family.
pub fn limits() -> impl Iterator<Item = &'static LimitMeta> {
    FAMILIES.iter().flat_map(limits_of)
}

fn limits_of(family: &'static Family) -> impl Iterator<Item = &'static LimitMeta> {
    family.limits.iter().copied().flatten()
}

impl LimitMeta {
    /// Name in the configuration file, within `[findings]`, such as `tool.lost_ratio`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.table, self.field)
    }

    fn line(&self) -> String {
        let time = Some(number(self.default, true)).filter(|_| self.field.ends_with("_ns"));
        let time = time.map_or_else(String::new, |time| format!(" ({time})"));
        // Decimals need no grouping; TOML allows that of whole numbers.
        let is_decimal = self.default.contains('.');
        let default = if is_decimal { self.default.replace('_', "") } else { self.default.to_owned() };
        format!("- `{}` = {default}{time}: {}. {}.\n", self.name(), self.meaning, self.reason)
    }
}

impl Entry {
    /// The entry with its thresholds, as `rocescope explain` prints it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.about();
        let mut own = self.limits().peekable();
        if own.peek().is_some() {
            let _ = write!(text, "\nThresholds ([findings] in the configuration file):\n\n");
            own.for_each(|limit| text.push_str(&limit.line()));
        }
        text
    }

    /// The same for InfiniBand, without sentences that only apply to Ethernet.
    #[must_use]
    pub fn text_on_infiniband(&self) -> String {
        super::infiniband::adapted(&self.text())
    }

    /// The thresholds named in `computed`.
    pub(super) fn limits(&self) -> impl Iterator<Item = &'static LimitMeta> {
        limits().filter(|limit| names(self.computed, &limit.name()))
    }

    /// The entry without thresholds.
    fn about(&self) -> String {
        let Self { title, meaning, computed, advice, caveat, .. } = self;
        let mut text =
            format!("{title}\n\n{meaning}\n\nHow it is computed: {computed}\n\nWhat to do: {advice}\n");
        if let Some(lasting) = self.lasting {
            let _ = write!(text, "\nEpisodes: none; {}.\n", lasting.reason());
        }
        if !caveat.is_empty() {
            let _ = write!(text, "\nCaveats: {caveat}\n");
        }
        text
    }
}

/// True if `text` contains `name` as a whole word.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    text.match_indices(name).any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        let after = rest[name.len()..].chars().next();
        !before.ends_with(is_part) && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// The text of docs/findings.md.
#[must_use]
pub fn markdown() -> String {
    let mut ranked: Vec<&Entry> = entries().collect();
    ranked.sort_by_key(|entry| entry.rank);
    let kinds: Vec<String> = ranked.iter().map(|entry| format!("`{}`", entry.id)).collect();
    let mut text = format!("{HEAD}\n{ORDER}{}.\n", kinds.join(", "));
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

/// The numbers that no setting changes, by subject, each of which begins with `mark`.
#[must_use]
pub fn definitions(mark: &str) -> String {
    let own: &[&[Definition]] = &[
        interval::DEFINITIONS,
        order::DEFINITIONS,
        causality::DEFINITIONS,
        bound::DEFINITIONS,
        span::DEFINITIONS,
        verdict::DEFINITIONS,
        died::DEFINITIONS,
        died::OF_STOPPED,
    ];
    let facts: &[&[Definition]] = &crate::analysis::DEFINITIONS;
    let first = [("Findings and their episodes", own), ("Links and hosts", facts)];
    let subject = |(name, lists): (&str, &[&[Definition]])| {
        let mut text = format!("{mark}{name}\n\n");
        for one in lists.iter().copied().flatten() {
            let _ = writeln!(text, "{one}");
        }
        text
    };
    first.into_iter().chain(metrics::DEFINITIONS).map(subject).collect::<Vec<_>>().join("\n")
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
traffic, or makes the figures wrong), evidence in numbers, the flows concerned, where and since when it was seen, what it costs, and what to do.
Where a finding has episodes, its ratios are of the latest: of the packets that the flows concerned sent from its first signal to its last, and never of
packets before or after. Signals within less than a second are compared with the packets of the second around them. The packets of a flow without a signal
of its own are taken as evenly spread between the marks that are kept every 10 s.

`rocescope explain ID` prints the same text. Thresholds are set under `[findings]` in the configuration file (`rocescope config`).
";

const FIXED: &str = "\
## Definitions

Numbers that are part of what a figure means, or that decide it. No setting changes them; `rocescope explain definitions` prints them.
";

const ORDER: &str = "\
The order is the same everywhere (text, JSON, screen): active findings that show now, then active ones not seen for 3 s, both critical before warning; then those that ended (`last_seen_ns` 10 s or more before the end of the
data); then info. Findings of one severity are in the order of their impact (the share of packets or of time that they cost); those with equal impact in the order of cause and
effect. A finding follows a cause that it names if both have the same severity and the same state (active or ended). A finding that another owns (`owner`) is counted as part of that one and follows it.

Of a kind at most 16 findings are listed by themselves, the worst, of those above info and of info, each with an owner and without; the rest are one finding. Its evidence has their number (`findings`), the sums of their counts and the worst value
of their measure. It began with the first of them, is active if one of them is, and is as severe as the worst; its `impact` counts a flow that several of them name once.

Cause and effect: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_named_by_the_findings_that_it_decides() {
        let open: Vec<String> = limits()
            .filter(|limit| !entries().any(|entry| entry.limits().any(|own| own == *limit)))
            .map(LimitMeta::name)
            .collect();
        assert!(open.is_empty(), "no `computed` names {open:?}");
    }

    #[test]
    fn an_unknown_id_suggests_the_one_most_like_it() {
        assert_eq!(similar("loss.before_tab"), Some("loss.before_tap"));
        assert_eq!(similar("dscp_unset"), Some("qos.dscp_unset"));
        assert_eq!(similar("ecnn"), Some("ecn"));
        assert_eq!(similar("loss.befor"), Some("loss.before_tap"));
        assert_eq!(similar("retry.timeuots"), Some("retry.timeouts"));
        for other in ["xyzzy", "nosuch", "network", "", "a"] {
            assert_eq!(similar(other), None, "{other}");
        }
    }

    #[test]
    fn an_explanation_has_its_own_thresholds() {
        let text = entry("ecn.not_capable").unwrap().text();
        assert!(text.contains("- `ecn.not_capable_ratio` = "), "{text}");
        assert!(!text.contains("ecn.congestion_ratio"), "{text}");
        assert!(names("from `loss.ratio` on", "loss.ratio") && !names("loss.ratios", "loss.ratio"));
        assert!(!names("my.loss.ratio", "loss.ratio"));
    }
}
