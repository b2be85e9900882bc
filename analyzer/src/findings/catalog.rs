//! The text about findings: what each means, how it is computed, what to do.

use std::fmt::Write as _;

use crate::findings::order::CAUSES_FIRST;

use super::{
    balance, burst, cnp, config, device, ecn, icrc, job, latency, loss, nak, peer, pfc, retry, rnr, settings,
    step, tool,
};

/// What there is to say about a kind of finding, whatever the case at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Family and name, joined with a dot: `loss.before_tap`.
    pub id: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it means for the traffic and the job.
    pub meaning: &'static str,
    /// From which figures and by which rule it is raised, with the severities it can have.
    pub computed: &'static str,
    /// What to do about it, with the names of real settings.
    pub advice: &'static str,
    /// When it may be wrong, or what it does not see.
    pub caveat: &'static str,
}

/// A threshold: a field of a family's `Limits`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitMeta {
    /// Name in the configuration file, within `[findings]`: `tool.lost_ratio`.
    pub name: &'static str,
    /// The default, as written in the configuration file.
    pub default: &'static str,
    /// Unit and meaning.
    pub meaning: &'static str,
    /// Why this value, and where it comes from.
    pub reason: &'static str,
}

/// Every kind of finding, by family.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    let families = [
        balance::ENTRIES,
        burst::ENTRIES,
        cnp::ENTRIES,
        config::ENTRIES,
        device::ENTRIES,
        ecn::ENTRIES,
        icrc::ENTRIES,
        job::ENTRIES,
        latency::ENTRIES,
        loss::ENTRIES,
        nak::ENTRIES,
        peer::ENTRIES,
        pfc::ENTRIES,
        retry::ENTRIES,
        rnr::ENTRIES,
        settings::ENTRIES,
        step::ENTRIES,
        tool::ENTRIES,
    ];
    families.into_iter().flatten()
}

/// Every threshold, by family.
pub fn limits() -> impl Iterator<Item = &'static LimitMeta> {
    let families = [
        balance::LIMITS,
        burst::LIMITS,
        device::LIMITS,
        ecn::LIMITS,
        icrc::LIMITS,
        job::LIMITS,
        latency::LIMITS,
        loss::LIMITS,
        nak::LIMITS,
        peer::LIMITS,
        pfc::LIMITS,
        retry::LIMITS,
        rnr::LIMITS,
        settings::LIMITS,
        step::LIMITS,
        tool::LIMITS,
    ];
    families.into_iter().flatten()
}

impl Entry {
    /// The entry as `rocescope explain` prints it and docs/findings.md has it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { title, meaning, computed, advice, caveat, .. } = self;
        let mut text =
            format!("{title}\n\n{meaning}\n\nHow it is computed: {computed}\n\nWhat to do: {advice}\n");
        if !caveat.is_empty() {
            let _ = write!(text, "\nMind: {caveat}\n");
        }
        let family = self.id.split('.').next().unwrap_or_default();
        let prefix = format!("{family}.");
        let mut own = limits().filter(|limit| limit.name.starts_with(&prefix)).peekable();
        if own.peek().is_some() {
            let _ = write!(text, "\nThresholds of this family ([findings] in the configuration file):\n\n");
            for LimitMeta { name, default, meaning, reason } in own {
                let _ = writeln!(text, "- {name} = {default}: {meaning}. {reason}.");
            }
        }
        text
    }
}

/// The text of docs/findings.md.
#[must_use]
pub fn markdown() -> String {
    let kinds: Vec<String> = CAUSES_FIRST.iter().map(|id| format!("`{id}`")).collect();
    let mut text = format!("{HEAD}\n{ORDER}{}.\n", kinds.join(", "));
    for entry in entries() {
        let _ = writeln!(text, "\n## {}\n\n{}", entry.id, entry.text().trim_end());
    }
    text
}

const HEAD: &str = "\
# Findings

<!-- Made from analyzer/src/findings: change that, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope findings -->

What rocescope concludes from its figures. Each finding has an id, a severity (info: good to know; warning: costs performance, or will; critical: stops
traffic, or makes the figures wrong), the evidence in numbers, the flows concerned and advice. `rocescope explain ID` prints the same text.
";

const ORDER: &str = "\
They are told in one order everywhere (text, JSON, screen): critical before warning before info; what is over, as far as that is known (`last_seen_ns`, 10 s before the end or more), behind
what goes on, but before what is only good to know. Of those that are as bad, causes come before what they cause: ";
