//! Checks: pure functions of the facts.

/// Declares the checks of a module: id, and what [`Entry::about`] says.
macro_rules! entries {
    ($($id:literal: $about:literal,)+) => {
        &[$($crate::doctor::check::Entry { id: $id, about: $about }),+]
    };
}

mod congestion;
mod gpu;
mod kernel;
mod lossless;
mod nccl;
mod port;
mod switch;

use serde::Serialize;

use super::facts::{DeviceFacts, HostFacts, PortFacts};
use crate::util::definition::Definition;

/// The verdict on a setting, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Passed.
    Ok,
    /// The value cannot be read on this host.
    Unknown,
    /// Worth knowing.
    Info,
    /// It reduces performance or visibility.
    Warning,
    /// Traffic stalls, is lost, or runs far below the hardware's capability.
    Critical,
}

impl Status {
    /// The word shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A setting, its value, and the verdict on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Identifier in the catalog.
    pub id: &'static str,
    /// The subject: interface, device and port, GPU, process, or `host`.
    pub subject: String,
    /// The verdict on the value.
    pub verdict: Status,
    /// The value; `None` when unknown.
    pub value: Option<String>,
    /// The reason, in one sentence; `None` where the value suffices.
    pub why: Option<String>,
    /// The remedy, usually a command; `None` where there is none.
    pub change: Option<String>,
}

/// A kind of check, for the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Id of the check.
    pub id: &'static str,
    /// The setting that it examines, and the meaning of each verdict.
    pub about: &'static str,
}

/// Every kind of check.
pub fn catalog() -> impl Iterator<Item = &'static Entry> {
    [kernel::ENTRIES, port::ENTRIES, lossless::ENTRIES, switch::ENTRIES, gpu::ENTRIES, nccl::ENTRIES]
        .into_iter()
        .flatten()
}

/// The numbers that verdicts rest on.
pub(crate) const DEFINITIONS: [&[Definition]; 2] = [port::DEFINITIONS, lossless::DEFINITIONS];

/// All checks, the worst verdict first, then in the order of the catalog.
pub fn check(facts: &HostFacts) -> Vec<Check> {
    let mut checks = CheckList::default();
    for check in [kernel::check, port::check, lossless::check, switch::check, gpu::check, nccl::check] {
        check(facts, &mut checks);
    }
    let mut checks = checks.0;
    checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
    checks
}

/// The priorities that RoCE of a port is sent with, as far as the settings state them: bit p for priority p.
pub fn roce_priorities(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts) -> u8 {
    lossless::roce_priorities(facts, device, port)
}

/// Collects the checks.
#[derive(Debug, Default)]
struct CheckList(Vec<Check>);

impl CheckList {
    /// Passed.
    fn ok(&mut self, id: &'static str, subject: &str, value: impl Into<String>) {
        self.add(id, subject, Status::Ok, Some(value.into()), None, None);
    }

    /// Adds a check whose value cannot be read, with the reason.
    fn unknown(&mut self, id: &'static str, subject: &str, why: &str) {
        self.add(id, subject, Status::Unknown, None, Some(why.to_owned()), None);
    }

    /// Adds a check with a verdict, its reason and its remedy.
    fn say(
        &mut self,
        (id, verdict): (&'static str, Status),
        subject: &str,
        value: impl Into<String>,
        why: impl Into<String>,
        change: impl Into<String>,
    ) {
        let change: String = change.into();
        let change = (!change.is_empty()).then_some(change);
        self.add(id, subject, verdict, Some(value.into()), Some(why.into()), change);
    }

    fn add(
        &mut self,
        id: &'static str,
        subject: &str,
        verdict: Status,
        value: Option<String>,
        why: Option<String>,
        change: Option<String>,
    ) {
        self.0.push(Check { id, subject: subject.to_owned(), verdict, value, why, change });
    }
}
