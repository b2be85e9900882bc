//! Texts about findings: meaning, rule and remedy of each kind.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::checks::retry;
use super::fabric::on_ethernet;
use super::labels::COMMON;
use super::page::filled;
use super::{Entry, FAMILIES, Family, Label, LimitMeta};
use crate::util::definition::{number, short};
use crate::util::nearest::nearest;

/// All kinds of findings, by family.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().flat_map(|family| family.entries)
}

/// The known id or family closest to an unknown one, which may be written as family and name, or as either alone.
pub fn similar(id: &str) -> Option<&'static str> {
    let written = |entry: &'static Entry| {
        let (family, name) = entry.parts();
        [(entry.id, entry.id), (name, entry.id), (family, family)]
    };
    // A family is preferred to one of its findings.
    nearest(id, entries().flat_map(written))
}

/// The kind of finding with this id; `None` if unknown.
pub fn entry(id: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.id == id)
}

/// The family of a kind of finding.
pub(super) fn family(id: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.entries.iter().any(|entry| entry.id == id))
}

/// The label of an evidence value, in words.
pub fn evidence_label(id: &str, name: &'static str) -> &'static str {
    declared_label(id, name).map_or(name, |label| label.label)
}

/// The declaration of an evidence value by its family or the common list.
pub(super) fn declared_label(id: &str, name: &str) -> Option<&'static Label> {
    let own = family(id).map_or(&[][..], |family| family.evidence);
    own.iter().chain(COMMON).find(|known| known.name == name)
}

/// All thresholds, by family.
pub fn limits() -> impl Iterator<Item = &'static LimitMeta> {
    FAMILIES.iter().flat_map(limits_of)
}

pub(super) fn limits_of(family: &'static Family) -> impl Iterator<Item = &'static LimitMeta> {
    family.limits.iter().copied().flatten()
}

impl LimitMeta {
    /// Name in the configuration file, within `[findings]`, such as `tool.lost_ratio`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.table, self.field)
    }

    fn is_time(&self) -> bool {
        self.field.ends_with("_ns")
    }

    /// Its default as a sentence has it: `2 s`, `100 ms`, `1,000`.
    fn in_sentence(&self) -> String {
        let value = short(&number(self.default, self.is_time()));
        // Their names have the unit.
        let units = [("_per_s", "per s"), ("_us", "µs"), ("_ms", "ms"), ("_s", "s")];
        let unit = units.into_iter().find(|(end, _)| self.field.ends_with(end));
        unit.map_or_else(|| value.clone(), |(_, unit)| format!("{value} {unit}"))
    }

    pub(super) fn line(&self) -> String {
        let time = Some(number(self.default, true)).filter(|_| self.is_time());
        let time = time.map_or_else(String::new, |time| format!(" ({time})"));
        // Decimals need no grouping; TOML allows that of whole numbers.
        let is_decimal = self.default.contains('.');
        let default = if is_decimal { self.default.replace('_', "") } else { self.default.to_owned() };
        format!("- `{}` = {default}{time}: {}. {}.\n", self.name(), self.meaning, self.reason)
    }
}

impl Entry {
    /// The entry with its thresholds, as `rocescope explain` prints it.
    pub fn text(&self) -> String {
        self.text_with(on_ethernet)
    }

    /// The same, with each of its texts as `on` writes it.
    pub(super) fn text_with(&self, on: fn(&str) -> Cow<'_, str>) -> String {
        let mut text = self.about_with(on);
        let mut own = self.limits().peekable();
        if own.peek().is_some() {
            let _ = write!(text, "\nThresholds ([findings] in the configuration file):\n\n");
            own.for_each(|limit| text.push_str(&limit.line()));
        }
        text
    }

    /// The thresholds named in `computed`.
    pub(super) fn limits(&self) -> impl Iterator<Item = &'static LimitMeta> {
        limits().filter(|limit| names(self.computed, &limit.name()))
    }

    /// The entry without thresholds.
    pub(super) fn about(&self) -> String {
        self.about_with(on_ethernet)
    }

    fn about_with(&self, on: fn(&str) -> Cow<'_, str>) -> String {
        let Self { title, meaning, computed, advice, caveat, .. } = self;
        let mut text = format!("{title}\n\n{}\n\nHow it is computed: {}\n", on(meaning), on(computed));
        // The finding of retransmissions says so itself.
        if retry::can_cost(self.problem) && !names(computed, retry::CRITICAL_RATIO) {
            let _ = write!(text, "\nSeverity: {}\n", retry::GRADED);
        }
        let (advice, caveat) = (on(advice), on(caveat));
        if !advice.is_empty() {
            let _ = write!(text, "\nWhat to do: {advice}\n");
        }
        if let Some(lasting) = self.lasting {
            let _ = write!(text, "\nEpisodes: none; {}.\n", lasting.reason());
        }
        if !caveat.is_empty() {
            let _ = write!(text, "\nCaveats: {caveat}\n");
        }
        with_values(&filled(&text))
    }
}

/// The text with the default of each threshold behind its first mention, and behind its code mark.
fn with_values(text: &str) -> String {
    let mut text = text.to_owned();
    for limit in limits() {
        let name = limit.name();
        if let Some(at) = place(&text, &name) {
            let end = at + name.len();
            let behind_mark = end + usize::from(text[end..].starts_with('`'));
            text.insert_str(behind_mark, &format!(" ({})", limit.in_sentence()));
        }
    }
    text
}

/// True if `text` contains `name` as a whole word.
fn names(text: &str, name: &str) -> bool {
    place(text, name).is_some()
}

/// Where `text` contains `name` as a whole word for the first time.
fn place(text: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut all = text.match_indices(name).map(|(at, _)| at);
    all.find(|at| {
        let (before, rest) = text.split_at(*at);
        let after = rest[name.len()..].chars().next();
        !before.ends_with(is_part) && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

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
        assert!(text.contains(" ecn.not_capable_ratio ("), "{text}");
        let limit = limits().find(|limit| limit.name() == "links.lasting_ns").unwrap();
        assert_eq!(
            with_values("links.lasting_nsx, links.lasting_ns."),
            "links.lasting_nsx, links.lasting_ns (2 s)."
        );
        assert_eq!(with_values("from `links.lasting_ns` on"), "from `links.lasting_ns` (2 s) on");
        assert_eq!(limit.in_sentence(), "2 s");
        let wait = limits().find(|limit| limit.name() == "retry.timeout_wait_ms").unwrap();
        assert_eq!(wait.in_sentence(), "100 ms");
        assert!(!text.contains("ecn.congestion_ratio"), "{text}");
        assert!(names("from `loss.ratio` on", "loss.ratio") && !names("loss.ratios", "loss.ratio"));
        assert!(!names("my.loss.ratio", "loss.ratio"));
    }
}
