//! Verdicts: pure functions of the facts.

mod congestion;
mod gpu;
mod kernel;
mod lossless;
mod nccl;
mod port;
mod switch;

use serde::Serialize;

use super::facts::{DeviceFacts, HostFacts, PortFacts};

/// What is thought of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It cannot be read here.
    Unknown,
    /// Worth knowing.
    Info,
    /// It costs performance, or hides something.
    Warning,
    /// Traffic stalls, is lost or runs far below what the hardware can do.
    Critical,
}

impl Verdict {
    /// The word for people.
    #[must_use]
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

/// A setting, its value, and what is thought of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which check; one of the catalogue.
    pub id: &'static str,
    /// Of what: interface, device and port, GPU, process, or `host`.
    pub subject: String,
    /// What is thought of it.
    pub verdict: Verdict,
    /// The value; `None` when unknown.
    pub value: Option<String>,
    /// Why, in a sentence; `None` where the value says it all.
    pub why: Option<String>,
    /// How to change it, where that would help.
    pub change: Option<String>,
}

/// A kind of check: its id, and what it looks at, for the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: &'static str,
    /// What it looks at and what each verdict means.
    pub about: &'static str,
}

/// Every check there is.
pub fn catalog() -> impl Iterator<Item = &'static Entry> {
    [kernel::ENTRIES, port::ENTRIES, lossless::ENTRIES, switch::ENTRIES, gpu::ENTRIES, nccl::ENTRIES]
        .into_iter()
        .flatten()
}

/// All verdicts, the worst first, then in the order of the catalogue.
#[must_use]
pub fn check(facts: &HostFacts) -> Vec<Check> {
    let mut sheet = Sheet::default();
    for check in [kernel::check, port::check, lossless::check, switch::check, gpu::check, nccl::check] {
        check(facts, &mut sheet);
    }
    let mut checks = sheet.0;
    checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
    checks
}

/// The priorities that RoCE of a port is sent with, as far as settings tell: bit p for priority p.
#[must_use]
pub fn roce_priorities(facts: &HostFacts, device: &DeviceFacts, port: &PortFacts) -> u8 {
    lossless::roce_priorities(facts, device, port)
}

/// Verdicts in the making.
#[derive(Debug, Default)]
struct Sheet(Vec<Check>);

impl Sheet {
    /// As it should be.
    fn ok(&mut self, id: &'static str, subject: &str, value: impl Into<String>) {
        self.add(id, subject, Verdict::Ok, Some(value.into()), None, None);
    }

    /// It cannot be read, and why.
    fn unknown(&mut self, id: &'static str, subject: &str, why: &str) {
        self.add(id, subject, Verdict::Unknown, None, Some(why.to_owned()), None);
    }

    /// Something to say.
    fn say(
        &mut self,
        (id, verdict): (&'static str, Verdict),
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
        verdict: Verdict,
        value: Option<String>,
        why: Option<String>,
        change: Option<String>,
    ) {
        self.0.push(Check { id, subject: subject.to_owned(), verdict, value, why, change });
    }
}
