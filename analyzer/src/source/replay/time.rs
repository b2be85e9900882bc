//! Points in time as the user writes them.

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// Unix time in nanoseconds.
    Absolute(u64),
    /// Nanoseconds after the first frame.
    Offset(u64),
}

impl TimeSpec {
    /// The point in Unix nanoseconds, when the first frame was at `first_ns`.
    #[must_use]
    pub fn resolve(self, first_ns: u64) -> u64 {
        match self {
            Self::Absolute(ns) => ns,
            Self::Offset(ns) => first_ns.saturating_add(ns),
        }
    }

    /// Whether this is before the other, where that can be told without data.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::Absolute(a), Self::Absolute(b)) | (Self::Offset(a), Self::Offset(b)) => a < b,
            _ => false,
        }
    }
}

const NANOS: u64 = 1_000_000_000;

/// Reads a point in time: Unix seconds (`1767225600.5`), RFC 3339 (`2026-01-01T00:00:00Z`), or an
/// offset from the first frame (`+1.5s`).
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_time(text: &str) -> Result<TimeSpec, String> {
    let spec = if let Some(offset) = text.strip_prefix('+') {
        duration_ns(offset).map(TimeSpec::Offset)
    } else if text.contains(':') {
        rfc3339(text).map(TimeSpec::Absolute)
    } else {
        scaled(text, NANOS).map(TimeSpec::Absolute)
    };
    spec.ok_or_else(|| {
        format!(
            "`{text}` is no point in time; write Unix seconds (1767225600.5), RFC 3339 \
             (2026-01-01T00:00:00Z) or an offset from the first frame (+1.5s, +2m)"
        )
    })
}

/// Reads a duration: `10s`, `500ms`, `2m`, `1h`, `250us`; a plain number means seconds.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    duration_ns(text)
        .map(std::time::Duration::from_nanos)
        .ok_or_else(|| format!("`{text}` is no duration; write 10s, 500ms, 2m or a number of seconds"))
}

fn duration_ns(text: &str) -> Option<u64> {
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_len);
    let unit = match unit {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        "s" | "" => NANOS,
        "m" | "min" => 60 * NANOS,
        "h" => 3600 * NANOS,
        _ => return None,
    };
    scaled(number, unit)
}

/// A decimal number times `unit`, exactly; digits beyond the unit's precision are dropped.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut result = whole.checked_mul(unit)?;
    let mut place = unit;
    let mut rest = 0u64;
    for digit in fraction.bytes() {
        // Units are powers of ten times 60 or 3600: every step divides without a remainder that
        // would matter above a nanosecond.
        if place < 10 {
            break;
        }
        place /= 10;
        rest += u64::from(digit - b'0') * place;
    }
    result = result.checked_add(rest)?;
    Some(result)
}

/// `YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm)`.
fn rfc3339(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let mark = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|b| any.contains(b));
    if !(mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        if len == 0 {
            return None;
        }
        nanos = scaled(&format!("0.{}", fraction.get(..len)?), NANOS)?;
        rest = fraction.get(len..)?;
    }
    let offset = match rest.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), h1, h0, b':', m1, m0] => {
            let digit = |b: &u8| b.is_ascii_digit().then(|| i64::from(b - b'0'));
            let seconds = (digit(h1)? * 10 + digit(h0)?) * 3600 + (digit(m1)? * 10 + digit(m0)?) * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    u64::try_from(seconds).ok()?.checked_mul(NANOS)?.checked_add(nanos)
}

/// Days of the Gregorian calendar; years are counted from March, so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("10s", 10 * NANOS),
            ("500ms", 500_000_000),
            ("2m", 120 * NANOS),
            ("1.5h", 5400 * NANOS),
            ("3", 3 * NANOS),
            ("0.25", 250_000_000),
            (".5s", 500_000_000),
            ("7us", 7000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in ["", "s", "-1", "1e3", "10 s", "5days", ".", "99999999999999h", "1.2.3"] {
            assert!(parse_duration(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn points_in_time() {
        let second = 1_767_225_600;
        for (text, spec) in [
            ("1767225600", TimeSpec::Absolute(second * NANOS)),
            ("1767225600.123456789", TimeSpec::Absolute(second * NANOS + 123_456_789)),
            ("2026-01-01T00:00:00Z", TimeSpec::Absolute(second * NANOS)),
            ("2026-01-01 02:30:00.5+02:30", TimeSpec::Absolute(second * NANOS + 500_000_000)),
            ("2025-12-31T23:00:00-01:00", TimeSpec::Absolute(second * NANOS)),
            ("2024-02-29T12:00:00Z", TimeSpec::Absolute(1_709_208_000 * NANOS)),
            ("1970-01-01T00:00:00Z", TimeSpec::Absolute(0)),
            ("+1.5s", TimeSpec::Offset(1_500_000_000)),
            ("+2m", TimeSpec::Offset(120 * NANOS)),
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
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "é026-01-01T00:00:00Z",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(TimeSpec::Offset(5).resolve(10), 15);
        assert_eq!(TimeSpec::Absolute(5).resolve(10), 5);
    }
}
