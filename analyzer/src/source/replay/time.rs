//! Parses points in time and durations.

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Timestamp};

use crate::util::time::{DAY_NS, HOUR_NS, NS_PER_S};
use crate::util::units::{duration, time_utc};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// Unix time in nanoseconds.
    Absolute(u64),
    /// Nanoseconds after the first frame.
    Offset(u64),
    /// Nanoseconds of a day in UTC, as screens and reports print times: the first such time from an hour before the
    /// first frame on.
    OfDay(u64),
}

impl TimeSpec {
    /// The point in Unix nanoseconds, with the first frame at `first_ns`.
    #[must_use]
    pub fn resolve(self, first_ns: u64) -> u64 {
        match self {
            Self::Absolute(ns) => ns,
            Self::Offset(ns) => first_ns.saturating_add(ns),
            Self::OfDay(ns) => {
                // A reader rounds the time of the first frame.
                let least_ns = first_ns.saturating_sub(HOUR_NS);
                let time = least_ns / DAY_NS * DAY_NS + ns;
                if time < least_ns { time + DAY_NS } else { time }
            }
        }
    }

    /// True if this is before the other, as far as that is known without data.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::Absolute(a), Self::Absolute(b)) | (Self::Offset(a), Self::Offset(b)) => a < b,
            _ => false,
        }
    }
}

/// Unix nanoseconds of a time range with the first frame at `first_ns`. An end that is a time of day is behind the
/// beginning.
#[must_use]
pub fn range(from: Option<TimeSpec>, to: Option<TimeSpec>, first_ns: u64) -> (u64, u64) {
    let from_ns = from.map_or(0, |from| from.resolve(first_ns));
    let to_ns = to.map_or(u64::MAX, |to| to.resolve(first_ns));
    let is_next_day = to_ns < from_ns && matches!(to, Some(TimeSpec::OfDay(_)));
    (from_ns, if is_next_day { to_ns + DAY_NS } else { to_ns })
}

/// The sentence about a time range that ends before the first `what`.
pub(in crate::source) fn ends_before(to_ns: u64, what: &str) -> String {
    format!("--to {} is before the first {what}", time_utc(to_ns))
}

/// The sentence about a time range without any of the data, whose first and last `what` these are.
#[must_use]
pub fn outside((from_ns, to_ns): (u64, u64), (first_ns, last_ns): (u64, u64), what: &str) -> String {
    let why = if from_ns > last_ns {
        format!("--from {} is after the last {what}", time_utc(from_ns))
    } else if to_ns < first_ns {
        ends_before(to_ns, what)
    } else {
        format!("no {what} is within --from and --to")
    };
    format!(
        "{why}: the {what}s are from {} to {}; choose times within, or offsets below +{}",
        time_utc(first_ns),
        time_utc(last_ns),
        duration(last_ns.saturating_sub(first_ns)).replace(' ', ""),
    )
}

/// Reads a point in time: Unix seconds of at least 10 digits (`1767225600.5`), RFC 3339 (`2026-01-01T00:00:00Z`), a
/// time of day in UTC (`05:41:57.258`), or an offset from the first frame (`+1.5s`).
///
/// # Errors
/// A sentence with the mistake and the accepted formats.
pub fn parse_time(text: &str) -> Result<TimeSpec, String> {
    if let Some(mistake) = mistake(text) {
        return Err(mistake);
    }
    let spec = if let Some(offset) = text.strip_prefix('+') {
        duration_ns(offset).map(TimeSpec::Offset)
    } else if let Some(ns) = time_of_day(text) {
        Some(TimeSpec::OfDay(ns))
    } else if text.contains(':') {
        text.parse::<Timestamp>()
            .ok()
            .and_then(|time| u64::try_from(time.as_nanosecond()).ok())
            .map(TimeSpec::Absolute)
    } else {
        let unix = seconds_ns(text);
        if unix.is_some_and(|ns| ns < LEAST_UNIX_NS) {
            return Err(format!(
                "'{text}' is a time in 1970: write +{text}s for an offset from the first frame"
            ));
        }
        unix.map(TimeSpec::Absolute)
    };
    spec.ok_or_else(|| {
        format!(
            "invalid time '{text}': write Unix seconds (1767225600.5), RFC 3339 (2026-01-01T00:00:00Z), a time of day \
             in UTC (05:41:57.258) or an offset from the first frame (+1.5s, +2m)"
        )
    })
}

/// Nanoseconds of a day of a time such as `12:00`, `12:00:05` or `12:00:05.250`; `None` if it is none.
#[must_use]
pub fn time_of_day(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')) {
        return None;
    }
    let mut parts = text.split(':');
    let mut below = |limit: u64| parts.next()?.parse::<u64>().ok().filter(|number| *number < limit);
    let minutes = below(24)? * 60 + below(60)?;
    let seconds = parts.next().map_or(Some(0), seconds_ns).filter(|ns| *ns < 60 * NS_PER_S)?;
    parts.next().is_none().then_some(minutes * 60 * NS_PER_S + seconds)
}

/// This time of day on the day on which it is nearest to `near_ns`: a capture may go past midnight.
#[must_use]
pub fn nearest(of_day_ns: u64, near_ns: u64) -> u64 {
    let today = near_ns / DAY_NS * DAY_NS;
    let days = [today.saturating_sub(DAY_NS), today, today.saturating_add(DAY_NS)];
    let times = days.map(|day| day.saturating_add(of_day_ns));
    times.into_iter().min_by_key(|time| time.abs_diff(near_ns)).unwrap_or(near_ns)
}

/// A common mistake in a time, as a sentence for the user.
fn mistake(text: &str) -> Option<String> {
    let without_zone = || text.parse::<DateTime>().is_ok() && text.parse::<Timestamp>().is_err();
    if text.strip_prefix('-').and_then(duration_ns).is_some() {
        return Some(format!(
            "'{text}' is before the first frame: write {} for an offset from it, or a time (2026-01-01T00:00:00Z)",
            text.replacen('-', "+", 1)
        ));
    }
    if !text.starts_with('+') && seconds_ns(text).is_none() && duration_ns(text).is_some() {
        return Some(format!(
            "'{text}' is a duration, not a time: write +{text} for an offset from the first frame"
        ));
    }
    if text.contains(':') && without_zone() {
        return Some(format!(
            "'{text}' has no time zone: write {text}Z for UTC, or append an offset such as +02:00"
        ));
    }
    (!text.contains(':') && text.parse::<Date>().is_ok() && seconds_ns(text).is_none())
        .then(|| format!("'{text}' has no time of day: write {text}T00:00:00Z"))
}

/// Reads a duration: `10s`, `500ms`, `2m`, `1h 30m`, `250us`; a plain number is in seconds.
///
/// # Errors
/// A sentence with the accepted formats.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    duration_ns(text)
        .map(std::time::Duration::from_nanos)
        .ok_or_else(|| format!("invalid duration '{text}': write 10s, 500ms, 2m or a number of seconds"))
}

fn duration_ns(text: &str) -> Option<u64> {
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return seconds_ns(text);
    }
    let duration: SignedDuration = text.parse().ok()?;
    u64::try_from(duration.as_nanos()).ok()
}

/// Nanoseconds of a decimal number of seconds, exactly; digits beyond the nanosecond are dropped.
fn seconds_ns(text: &str) -> Option<u64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}").get(..9)?.parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(NS_PER_S)?.checked_add(nanoseconds)
}

/// Smaller Unix times, before September 2001, are taken for offsets without their +.
const LEAST_UNIX_NS: u64 = 1_000_000_000 * NS_PER_S;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("10s", 10 * NS_PER_S),
            ("500ms", 500_000_000),
            ("2m", 120 * NS_PER_S),
            ("1.5h", 5400 * NS_PER_S),
            ("3", 3 * NS_PER_S),
            ("0.25", 250_000_000),
            ("1h 30m", 5400 * NS_PER_S),
            ("1 min", 60 * NS_PER_S),
            ("7us", 7000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in ["", "s", "-1", "1e3", "5days", "-3s", ".", "99999999999999h", "1.2.3"] {
            assert!(parse_duration(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn points_in_time() {
        let second = 1_767_225_600;
        for (text, spec) in [
            ("1767225600", TimeSpec::Absolute(second * NS_PER_S)),
            ("1767225600.123456789", TimeSpec::Absolute(second * NS_PER_S + 123_456_789)),
            ("2026-01-01T00:00:00Z", TimeSpec::Absolute(second * NS_PER_S)),
            ("2026-01-01 02:30:00.5+02:30", TimeSpec::Absolute(second * NS_PER_S + 500_000_000)),
            ("2025-12-31T23:00:00-01:00", TimeSpec::Absolute(second * NS_PER_S)),
            ("2024-02-29T12:00:00Z", TimeSpec::Absolute(1_709_208_000 * NS_PER_S)),
            ("1970-01-01T00:00:00Z", TimeSpec::Absolute(0)),
            ("+1.5s", TimeSpec::Offset(1_500_000_000)),
            ("+2m", TimeSpec::Offset(120 * NS_PER_S)),
            ("05:41:57.258", TimeSpec::OfDay(20_517_258_000_000)),
            ("03:00", TimeSpec::OfDay(10_800 * NS_PER_S)),
        ] {
            assert_eq!(parse_time(text), Ok(spec), "{text}");
        }
        for text in [
            "",
            "now",
            "+",
            "+x",
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T25:00:00Z",
            "1969-12-31T23:59:59Z",
            "1767225600s",
            "24:00",
            "05:60:00",
            "05:41:60",
            "05:41:57:1",
            "5",
            "12:+05",
            "-1",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "é026-01-01T00:00:00Z",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert!(parse_time("10").unwrap_err().contains("+10s"), "nobody means 1970");
        for (text, remedy) in [
            ("10s", "is a duration, not a time: write +10s"),
            ("-1s", "is before the first frame: write +1s"),
            ("2026-01-01T00:00:00", "has no time zone: write 2026-01-01T00:00:00Z"),
            ("2026-01-01 10:30", "has no time zone: write 2026-01-01 10:30Z"),
            ("2026-01-01", "has no time of day: write 2026-01-01T00:00:00Z"),
        ] {
            let said = parse_time(text).unwrap_err();
            assert!(said.contains(remedy), "{said}");
        }
        assert_eq!(TimeSpec::Offset(5).resolve(10), 15);
        assert_eq!(TimeSpec::Absolute(5).resolve(10), 5);
    }

    #[test]
    fn a_time_of_day_is_the_first_one_from_an_hour_before_the_first_frame_on() {
        let (midnight, minute) = (20_000 * DAY_NS, 60 * NS_PER_S);
        assert_eq!(TimeSpec::OfDay(minute).resolve(midnight - minute), midnight + minute, "past midnight");
        assert_eq!(TimeSpec::OfDay(minute).resolve(midnight + 2 * minute), midnight + minute);
        assert_eq!(TimeSpec::OfDay(DAY_NS - 1).resolve(midnight), midnight - 1);
        let at = |hour: u64| TimeSpec::OfDay(hour * 60 * minute);
        assert_eq!(at(20).resolve(midnight + 360 * minute), midnight + 1_200 * minute, "14 hours later");
        let late = range(Some(at(22)), Some(at(2)), midnight + 1_260 * minute);
        assert_eq!(late, (midnight + 1_320 * minute, midnight + 1_560 * minute), "past midnight");
        assert_eq!(range(Some(at(2)), Some(TimeSpec::Absolute(5)), midnight).1, 5);
    }
}
