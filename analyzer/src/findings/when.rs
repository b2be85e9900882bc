//! The time of a finding in words: since when, for how long, and whether it is quiet or has ended.

use super::Finding;
use crate::util::definition::definitions;
use crate::util::units;

definitions! {
    SILENT_NS: u64 = 2_000_000_000,
        "An active finding that has not been seen for this long, in nanoseconds, lasts until it was last seen, not until now",
        "A problem that has stopped does not get longer until that is certain; signals of a job come with its steps";
}

/// The end of the data from which findings were computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataEnd {
    /// Time of the last frame, Unix ns; `None`: unknown.
    pub ns: Option<u64>,
    /// The end of a capture: nothing is active now.
    pub recorded: bool,
    /// The data is so short that times need milliseconds.
    pub short: bool,
    /// Current time of the view, if later than that of the analysis: ongoing findings are shown as lasting until then.
    pub shown_ns: Option<u64>,
}

impl DataEnd {
    /// Time of day in UTC, with the date if it is not that of the end.
    pub fn clock(self, ns: u64) -> String {
        if self.short { units::clock_utc(ns) } else { units::recent_utc(ns, self.ns) }
    }

    /// The word before a beginning without an end: at the end of a capture nothing goes on.
    pub const fn since(self) -> &'static str {
        if self.recorded { "from" } else { "since" }
    }

    /// The time until which what has not ended lasts.
    pub fn until(self) -> Option<u64> {
        self.ns.map(|ns| ns.max(self.shown_ns.unwrap_or(0)))
    }
}

impl Finding {
    /// Start and end: "since 05:41:57 UTC, for 13.0 s", with ", quiet for 4.00 s" behind it where it was last seen that
    /// long ago, "from 05:41:57 UTC to the end of the capture, lasted 13.0 s", or "from 05:41:57 to 05:42:10 UTC,
    /// lasted 13.0 s"; of several episodes the latest, to which the figures belong. `None` if neither is known, as for
    /// settings.
    pub fn when(&self, end: DataEnd) -> Option<String> {
        let ended = self.has_ended(end.ns);
        let first = self.since_ns();
        let last = self.last_seen_ns.filter(|_| ended || first.is_none());
        let at = |ns: u64| end.clock(ns);
        let until = |first: u64, last: u64| units::duration(last.saturating_sub(first));
        let text = match (first, last) {
            (Some(first), Some(last)) if last <= first => format!("at {} UTC", at(first)),
            (Some(first), Some(last)) => {
                format!("from {} to {} UTC, lasted {}", at(first), at(last), until(first, last))
            }
            (Some(first), None) => {
                let quiet = self.quiet_until(end);
                let end_ns = if quiet.is_some() { self.last_seen_ns } else { self.lasts_until(end) };
                let length = end_ns.filter(|end| *end > first).map(|end| until(first, end));
                let (word, to_end) =
                    if end.recorded { ("lasted", " to the end of the capture") } else { ("for", "") };
                let length = length.map_or_else(String::new, |text| format!(", {word} {text}"));
                let since = format!("{} {} UTC", end.since(), at(first));
                match quiet.map(units::duration) {
                    Some(quiet) => format!("{since}{length}, quiet for {quiet}{to_end}"),
                    None => format!("{since}{to_end}{length}"),
                }
            }
            (None, Some(last)) => format!("{} {} UTC", if ended { "ended" } else { "last seen" }, at(last)),
            (None, None) => return None,
        };
        Some(self.recurrence(end).map_or_else(|| text.clone(), |nth| format!("{text}, {nth}")))
    }

    /// The time until which an active one lasts, Unix ns: that of the data, or when it was last seen where that is
    /// long ago (the rule of [`Finding::when`]). `None` if unknown.
    pub fn lasts_until(&self, end: DataEnd) -> Option<u64> {
        self.silent_since(end).or_else(|| end.until())
    }

    /// When an active one was last seen, Unix ns, if that is two seconds or longer ago (the rule of
    /// [`Finding::when`]); `None` at the end of a capture.
    pub fn silent_since(&self, end: DataEnd) -> Option<u64> {
        let is_silent = |last: &u64| {
            !end.recorded && end.ns.is_some_and(|end_ns| end_ns.saturating_sub(*last) >= SILENT_NS)
        };
        self.last_seen_ns.filter(is_silent)
    }

    /// Its latest episode among those since the first: "3rd time in 2 min 10 s"; `None` for the first one.
    pub fn recurrence(&self, end: DataEnd) -> Option<String> {
        let nth = ordinal(self.episodes.len()).filter(|_| self.episodes.len() > 1)?;
        let until = if self.has_ended(end.ns) { self.last_seen_ns } else { end.until() };
        let since = until.zip(self.first_seen_ns).map(|(until, first)| until.saturating_sub(first));
        Some(
            since
                .map_or_else(|| format!("{nth} time"), |ns| format!("{nth} time in {}", units::duration(ns))),
        )
    }

    /// True if it was not seen in the last seconds of data that end at `end_ns`.
    pub fn has_ended(&self, end_ns: Option<u64>) -> bool {
        !self.active || self.over_since(end_ns).is_some()
    }
}

/// `1st`, `2nd`, `11th`; `None` for 0.
fn ordinal(number: usize) -> Option<String> {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    (number > 0).then(|| format!("{number}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::START;
    use crate::findings::{Episode, Severity};
    use crate::util::time::NS_PER_S as SECOND;

    #[test]
    fn a_finding_says_when_it_began_and_ended() {
        let live = DataEnd { ns: Some(START + 100 * SECOND), recorded: false, ..DataEnd::default() };
        let mut one = Finding::new("loss.before_tap", Severity::Critical, String::new());
        assert_eq!(one.when(live), None, "a setting has no time");
        one.first_seen_ns = Some(START);
        one.last_seen_ns = live.ns;
        assert_eq!(one.when(live).as_deref(), Some("since 13:05:09 UTC, for 1 min 40 s"));
        let capture = DataEnd { recorded: true, ..live };
        assert_eq!(
            one.when(capture).as_deref(),
            Some("from 13:05:09 UTC to the end of the capture, lasted 1 min 40 s")
        );
        // Last seen a while before the end, but not ended yet: it lasts no longer than it was seen.
        one.active = true;
        let soon = |recorded| DataEnd { ns: Some(START + 20 * SECOND), recorded, ..DataEnd::default() };
        one.last_seen_ns = Some(START + 13 * SECOND);
        let quiet = "since 13:05:09 UTC, for 13.0 s, quiet for 7.00 s";
        assert_eq!(one.when(soon(false)).as_deref(), Some(quiet));
        let quiet = "from 13:05:09 UTC, lasted 13.0 s, quiet for 7.00 s to the end of the capture";
        assert_eq!(one.when(soon(true)).as_deref(), Some(quiet));
        let shown = DataEnd { shown_ns: Some(START + 22 * SECOND), ..soon(false) };
        assert!(one.when(shown).unwrap().ends_with("for 13.0 s, quiet for 9.00 s"), "by the time shown");
        for (seen, lasts) in [(19, "20.0"), (18, "18.0")] {
            one.last_seen_ns = Some(START + seen * SECOND);
            let expected = format!("since 13:05:09 UTC, for {lasts} s");
            assert_eq!(one.when(soon(false)).as_deref(), Some(&*expected), "2 s of silence are none of it");
        }
        one.last_seen_ns = Some(START);
        let moment = "since 13:05:09 UTC, quiet for 9.00 s";
        let end = DataEnd { ns: Some(START + 9 * SECOND), ..DataEnd::default() };
        assert_eq!(one.when(end).as_deref(), Some(moment), "a moment has no length");
        one.last_seen_ns = Some(START + 13 * SECOND);
        let episode = |from: u64| Episode { first_ns: START + from * SECOND, last_ns: START, peak: None };
        one.episodes = vec![episode(0), episode(5)];
        one.active = false;
        let ended = "from 13:05:14 to 13:05:22 UTC, lasted 8.00 s, 2nd time in 13.0 s";
        assert_eq!(one.when(live).as_deref(), Some(ended));
        let tomorrow = DataEnd { ns: Some(START + 86_400 * SECOND), recorded: false, ..DataEnd::default() };
        assert_eq!(
            one.when(tomorrow).as_deref(),
            Some("from 2026-03-01 13:05 to 2026-03-01 13:05 UTC, lasted 8.00 s, 2nd time in 13.0 s")
        );
        one.episodes[1].first_ns = START + 13 * SECOND;
        let moment = "at 13:05:22 UTC, 2nd time in 13.0 s";
        assert_eq!(one.when(live).as_deref(), Some(moment), "a moment has no length");
        (one.first_seen_ns, one.episodes) = (None, Vec::new());
        assert_eq!(one.when(live).as_deref(), Some("ended 13:05:22 UTC"));
    }
}
