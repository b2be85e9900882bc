//! The time of a problem in a line.

use std::ops::Deref;

use crate::findings::{DataEnd, Finding};
use crate::model::History;
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Of what has a beginning that no data has.
const UNKNOWN_START: &str = "start unknown";

/// The end of the data, and what was found earlier.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct Clock<'a> {
    pub(in crate::tui) end: DataEnd,
    pub(in crate::tui) history: Option<&'a History>,
}

impl Deref for Clock<'_> {
    type Target = DataEnd;

    fn deref(&self) -> &DataEnd {
        &self.end
    }
}

impl Clock<'_> {
    /// The time by which a finding was there whose beginning is unknown.
    pub(in crate::tui) fn known_by(self, finding: &Finding) -> Option<u64> {
        let unknown = finding.active && finding.since_ns().is_none() && !finding.episodes.is_empty();
        self.history.filter(|_| unknown)?.concluded_by(finding)
    }
}

/// Forms of the time of a problem, each list with the longest first; both are empty where nothing is known.
#[derive(Debug, Default)]
pub(in crate::tui) struct TimeText {
    /// With its length, and how often it came back: `since 12:00:20 (8 s), 3rd time in 2 min 10 s`, or at the end of
    /// a capture `from 12:00:20 to the end (8 s)`.
    more: Vec<String>,
    /// Those that say enough: `since 12:00:20`, `from 12:00:20`.
    enough: Vec<String>,
}

impl TimeText {
    pub(super) fn of(finding: &Finding, end: Clock<'_>) -> Self {
        let at = |ns: u64| end.clock(ns);
        // Tenths matter in a capture of few seconds alone.
        let length = |ns: u64| match (ns + NS_PER_S / 2) / NS_PER_S {
            seconds if seconds == 0 || end.short => units::duration(ns),
            seconds @ ..60 => format!("{seconds} s"),
            seconds => units::duration(seconds * NS_PER_S),
        };
        match (finding.active, finding.since_ns(), finding.last_seen_ns) {
            (true, Some(first), _) => {
                let since = format!("{} {}", end.since(), at(first));
                if let Some(quiet_ns) = finding.quiet_until(*end) {
                    let quiet = format!("quiet for {} s", quiet_ns / NS_PER_S);
                    return Self::new(finding, end, vec![format!("{since}, {quiet}"), quiet], None);
                }
                if end.recorded && end.until() == Some(first) {
                    return Self::new(finding, end, vec![format!("at the end, {}", at(first))], None);
                }
                let to_end = end.recorded.then(|| format!("{since} to the end"));
                let enough: Vec<String> = to_end.into_iter().chain([since]).collect();
                if let Some(last) = finding.silent_since(*end) {
                    // It does not get shorter either.
                    let mut text = Self::new(finding, end, enough, None);
                    let longest = text.enough.first().map(|since| format!("{since}, last seen {}", at(last)));
                    text.more = longest.into_iter().collect();
                    return text;
                }
                let lasts = end.until().and_then(|until| until.checked_sub(first)).filter(|ns| *ns > 0);
                Self::new(finding, end, enough, lasts.map(length))
            }
            (false, _, Some(last)) => {
                let lasted = finding.length_ns().filter(|ns| *ns > 0).map(length);
                Self::new(finding, end, vec![format!("ended {}", at(last))], lasted)
            }
            // It has a beginning, which is not known.
            _ if !finding.episodes.is_empty() => {
                let by = end.known_by(finding).map(at);
                let enough = by.map_or_else(
                    || vec![UNKNOWN_START.to_owned()],
                    |by| vec![format!("since {by} or before"), format!("by {by}")],
                );
                Self { enough, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    fn new(finding: &Finding, end: Clock<'_>, enough: Vec<String>, length: Option<String>) -> Self {
        let since = enough.first().cloned().unwrap_or_default();
        let timed = length.map(|length| {
            if finding.active { format!("{since} ({length})") } else { format!("{since}, lasted {length}") }
        });
        let with = timed.as_ref().unwrap_or(&since);
        let again = finding.recurrence(*end).map(|nth| format!("{with}, {nth}"));
        Self { more: again.into_iter().chain(timed).collect(), enough }
    }

    pub(super) fn is_known(&self) -> bool {
        !self.enough.is_empty()
    }

    /// True if all that is known is that its beginning is not.
    pub(in crate::tui) fn is_vague(&self) -> bool {
        self.enough == [UNKNOWN_START]
    }

    /// All forms in words, the longest first.
    pub(in crate::tui) fn forms(&self) -> impl Iterator<Item = &str> {
        self.more.iter().chain(&self.enough).map(String::as_str)
    }

    /// The longest form that `fits` beside everything else, else the longest that says enough and fits alone.
    pub(in crate::tui) fn best(
        &self,
        beside_all: impl Fn(&str) -> bool,
        alone: impl Fn(&str) -> bool,
    ) -> Option<&str> {
        let enough = || self.enough.iter().map(String::as_str);
        self.forms().find(|form| beside_all(form)).or_else(|| enough().find(|form| alone(form)))
    }
}
