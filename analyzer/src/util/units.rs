//! Numbers and times as people read them: three significant digits, decimal prefixes, `-` for unknown.
//!
//! Every function has a largest width, so that columns can be laid out without measuring first:
//!
//! | function | at most | examples |
//! |---|---|---|
//! | [`si`] | 6 | `0`, `999`, `1.25 M`, `125 G` |
//! | [`bytes()`] | 7 | `512 B`, `1.25 MB` |
//! | [`bit_rate`] | 9 | `0 b/s`, `12.4 Gb/s` |
//! | [`ratio`] | 7 | `-`, `0 %`, `<0.01 %`, `12.3 %`, `100 %` |
//! | [`duration`] | 11 | `850 ns`, `12.3 ms`, `2 min 5 s` |
//! | [`clock_utc`] | 12 | `13:05:09.250` |
//! | [`time_utc`] | 27 | `2026-03-01 13:05:09.250 UTC` |
//!
//! A value other than zero is never shown as zero. A share is never rounded up to 0.01, 0.1, 1, 10 or 100 %: below a
//! threshold of 1 % it does not read 1.00 %, nor 100 % below the whole.

use jiff::Timestamp;

use super::time::{self, DAY_NS, NS_PER_S};

/// Stands for an unknown value.
pub const UNKNOWN: &str = "-";

/// Clock times of data that is shorter have milliseconds.
pub const SHORT_NS: u64 = 10 * NS_PER_S;

/// Between groups of three digits.
const GROUP: char = ',';

/// Three significant digits of `n` with a decimal prefix from `k` to `E`, and a space before it.
/// Negative and undefined numbers give `-`.
pub fn si(n: f64) -> String {
    let (figure, prefix) = scaled(n);
    if prefix.is_empty() { figure } else { format!("{figure} {prefix}") }
}

/// The number, and the prefix of its unit.
fn scaled(n: f64) -> (String, &'static str) {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if !n.is_finite() || n < 0.0 {
        return (UNKNOWN.into(), "");
    }
    let mut value = n;
    let mut last = "E";
    for prefix in PREFIXES {
        // 999.5 of one prefix rounds to 1.00 of the next.
        if value < 999.5 {
            let whole = prefix.is_empty() && value.fract() == 0.0;
            return (if whole { format!("{value:.0}") } else { three_digits(value) }, prefix);
        }
        last = prefix;
        value /= 1000.0;
    }
    (format!("{:.0}", value * 1000.0), last)
}

/// `value` below 1000 with three significant digits, at most two of them behind the point.
fn three_digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else if value > 0.0 && value < 0.01 {
        "<0.01".into()
    } else {
        format!("{value:.2}")
    }
}

fn with_unit(n: f64, unit: &str) -> String {
    let (figure, prefix) = scaled(n);
    if figure == UNKNOWN { figure } else { format!("{figure} {prefix}{unit}") }
}

/// A rate in bits per second, decimal: `12.4 Gb/s`.
pub fn bit_rate(bits_per_s: f64) -> String {
    with_unit(bits_per_s, "b/s")
}

/// A rate of packets or events per second: `1.25 M/s`.
pub fn per_second(n: f64) -> String {
    with_unit(n, "/s")
}

/// A number of bytes, decimal: `1.25 MB`.
pub fn bytes(n: u64) -> String {
    with_unit(n as f64, "B")
}

/// A fraction of 1 in percent; `-` when it is unknown.
pub fn ratio(fraction: Option<f64>) -> String {
    let Some(percent) = fraction.filter(|f| f.is_finite() && *f >= 0.0).map(|f| f * 100.0) else {
        return UNKNOWN.into();
    };
    let least = |figure: f64| percent >= figure * (1.0 - ALIKE);
    if percent == 0.0 {
        "0 %".into()
    } else if !least(0.01) {
        "<0.01 %".into()
    } else {
        let decimals = if least(100.0) {
            0
        } else if least(10.0) {
            1
        } else {
            2
        };
        format!("{} %", share_digits(percent, decimals))
    }
}

/// Shares that differ by less, relative to one another, are the same: 0.29 · 100 is a little below 29.
const ALIKE: f64 = 1e-9;

/// A share in percent with this number of decimals, rounded, but not up to 0.01, 0.1, 1, 10 or 100 %: thresholds are
/// such figures, and 0.997 % is below 1 %.
fn share_digits(percent: f64, decimals: usize) -> String {
    let unit = 10f64.powi(i32::try_from(decimals).unwrap_or(0));
    let exact = percent * unit;
    let rounded = exact.round();
    let is_up = rounded > exact * (1.0 + ALIKE);
    // A power of ten in this unit is one in percent.
    let is_threshold = [1.0, 10.0, 100.0, 1_000.0, 10_000.0].contains(&rounded);
    let shown = if is_up && is_threshold { rounded - 1.0 } else { rounded };
    format!("{:.decimals$}", shown / unit)
}

/// All digits of `n`, with a comma between groups of three: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(2 * digits.len());
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(GROUP);
        }
        text.push(digit);
    }
    text
}

/// [`count`], or `-` when the number is unknown.
pub fn count_or_unknown(n: Option<u64>) -> String {
    n.map_or_else(|| UNKNOWN.into(), count)
}

/// A duration in nanoseconds: two units from a minute on, three digits below.
pub fn duration(ns: u64) -> String {
    let seconds = ns / NS_PER_S;
    match seconds {
        0 => {
            let (figure, unit) = match ns {
                0..1_000 => return format!("{ns} ns"),
                1_000..999_500 => (ns as f64 / 1e3, "µs"),
                999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
                _ => (time::seconds(ns), "s"),
            };
            format!("{} {unit}", three_digits(figure))
        }
        1..60 => format!("{} s", three_digits(time::seconds(ns).min(59.9))),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        86_400..8_640_000 => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Before the lower bound of a time.
pub const LEAST: &str = ">";

/// The change of a duration, with its sign.
pub fn growth(ns: i64) -> String {
    let sign = if ns < 0 { '−' } else { '+' };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

/// The time of day in UTC to the millisecond, of Unix time in nanoseconds.
pub fn clock_utc(ns: u64) -> String {
    utc(ns).strftime("%H:%M:%S%.3f").to_string()
}

/// The time of day in UTC to the second.
pub fn second_utc(ns: u64) -> String {
    utc(ns).strftime("%H:%M:%S").to_string()
}

/// A time range in UTC: to the second, and to the millisecond where it is short ([`SHORT_NS`]).
pub fn span_utc(from_ns: u64, to_ns: u64) -> String {
    let of = if to_ns.saturating_sub(from_ns) < SHORT_NS { clock_utc } else { second_utc };
    format!("from {} to {} UTC", of(from_ns), of(to_ns))
}

/// Date and time in UTC to the millisecond, of Unix time in nanoseconds.
pub fn time_utc(ns: u64) -> String {
    utc(ns).strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

/// The time of day in UTC to the second, or date and minute where `now_ns` is on another day.
pub fn recent_utc(ns: u64, now_ns: Option<u64>) -> String {
    if now_ns.is_none_or(|now| now / DAY_NS == ns / DAY_NS) {
        return second_utc(ns);
    }
    utc(ns).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Date and time in UTC to the second for the name of a file: `20260301T130509Z`.
pub fn stamp_utc(ns: u64) -> String {
    utc(ns).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Date and hour in UTC: `2026-03-01` and `13`.
pub fn date_hour_utc(ns: u64) -> (String, String) {
    let time = utc(ns);
    (time.strftime("%Y-%m-%d").to_string(), time.strftime("%H").to_string())
}

/// Unix time in nanoseconds as a calendar time; every `u64` is one, the last in the year 2554.
fn utc(ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(Timestamp::MAX)
}

/// A count and the thing counted.
pub fn plural(n: u64, of: &str) -> String {
    format!("{} {of}{}", count(n), if n == 1 { "" } else { "s" })
}

/// One unit for all values of a column, which its title names: the prefix that the largest needs, and the same number
/// of decimals for all, up to two where the smallest needs them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    divisor: f64,
    prefix: &'static str,
    decimals: usize,
}

/// The largest and the smallest of these values above 0 that are finite.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let known = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
    known.fold((0.0, f64::INFINITY), |(most, least), value| (f64::max(most, value), f64::min(least, value)))
}

impl Scale {
    /// The unit for these values; infinite and negative ones do not count.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        Self::up_to(&["", "k", "M", "G", "T", "P", "E"], values)
    }

    /// The unit for these times in nanoseconds; [`Scale::time_unit`] names it. Beside long times it is one in which the
    /// shortest shows its digits, while that takes five of them for the longest.
    pub fn of_ns(values: impl IntoIterator<Item = f64>) -> Self {
        const PREFIXES: [&str; 4] = ["", "k", "M", "G"];
        let (most, least) = ends(values);
        let scale = Self::between(&PREFIXES, most, least);
        let divisor = scale.divisor / 1000.0;
        let smaller =
            PREFIXES.windows(2).find(|two| two.last() == Some(&scale.prefix)).and_then(<[_]>::first);
        match smaller {
            Some(prefix) if least < scale.divisor / 10.0 && most / divisor < 99_999.5 => {
                Self { divisor, prefix, decimals: 0 }
            }
            _ => scale,
        }
    }

    /// The unit for these fractions of 1 in percent; [`Scale::show_percent`] shows them.
    pub fn of_ratios(values: impl IntoIterator<Item = f64>) -> Self {
        Self::up_to(&[""], values.into_iter().map(|ratio| ratio * 100.0))
    }

    fn up_to(prefixes: &[&'static str], values: impl IntoIterator<Item = f64>) -> Self {
        let (most, least) = ends(values);
        Self::between(prefixes, most, least)
    }

    fn between(prefixes: &[&'static str], most: f64, least: f64) -> Self {
        let mut divisor = 1.0;
        let mut prefix = "";
        for (at, next) in prefixes.iter().enumerate() {
            prefix = next;
            // 999.5 of one prefix rounds to 1.00 of the next.
            if most / divisor < 999.5 || at + 1 == prefixes.len() {
                break;
            }
            divisor *= 1000.0;
        }
        let decimals = match most / divisor {
            99.95.. => 0,
            _ if most == 0.0 || (prefix.is_empty() && least.fract() == 0.0 && most.fract() == 0.0) => 0,
            9.995.. if least / divisor >= 0.05 => 1,
            _ => 2,
        };
        Self { divisor, prefix, decimals }
    }

    /// The prefix of the unit: `""`, `k`, `M` …
    pub const fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// The unit of times in nanoseconds: `ns`, `µs`, `ms` or `s`.
    pub fn time_unit(&self) -> &'static str {
        match self.prefix {
            "" => "ns",
            "k" => "µs",
            "M" => "ms",
            _ => "s",
        }
    }

    /// A fraction of 1 in percent; a dash where it is unknown.
    pub fn show_percent(&self, ratio: Option<f64>) -> String {
        self.show_by(ratio.map(|ratio| ratio * 100.0), share_digits)
    }

    /// A value in the unit; a dash where it is unknown, and never 0 for one above it.
    pub fn show(&self, value: Option<f64>) -> String {
        self.show_by(value, |shown, decimals| format!("{shown:.decimals$}"))
    }

    fn show_by(&self, value: Option<f64>, digits: impl Fn(f64, usize) -> String) -> String {
        let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) else {
            return UNKNOWN.into();
        };
        let decimals = self.decimals;
        let least = 10f64.powi(-i32::try_from(decimals).unwrap_or(0));
        match value / self.divisor {
            shown if value > 0.0 && shown < least / 2.0 => format!("<{least:.decimals$}"),
            _ if value == 0.0 => "0".into(),
            shown => match digits(shown, decimals) {
                // Rounded down to nothing.
                text if text.bytes().all(|c| matches!(c, b'0' | b'.')) => format!("<{least:.decimals$}"),
                text => text,
            },
        }
    }
}

/// A fraction of 1 in percent without its sign, for columns whose title has it; `-` when it is unknown.
pub fn percent(fraction: Option<f64>) -> String {
    ratio(fraction).trim_end_matches(" %").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_unit_and_as_many_decimals_in_each_row() {
        let of = |values: &[f64]| {
            let scale = Scale::of(values.iter().copied());
            let shown: Vec<String> = values.iter().map(|value| scale.show(Some(*value))).collect();
            format!("{}: {}", scale.prefix(), shown.join(" "))
        };
        assert_eq!(of(&[17.1e6, 267e3, 0.0]), "M: 17.1 0.3 0");
        assert_eq!(of(&[47.2e9, 44.6e6, 3.0]), "G: 47.20 0.04 <0.01");
        assert_eq!(of(&[12.0, 7.0]), ": 12 7");
        assert_eq!(of(&[999.6, 4.0]), "k: 1.00 <0.01");
        assert_eq!(of(&[267e6, 400e3, 1.2e6]), "M: 267 <1 1");
        assert_eq!(of(&[0.0]), ": 0");
        let times = Scale::of_ns([7_940.0, 172_000.0]);
        assert_eq!((times.time_unit(), times.show(Some(7_940.0))), ("µs", "8".into()));
        assert_eq!(Scale::of_ns([5e12]).time_unit(), "s");
        let shown = |values: &[f64]| {
            let scale = Scale::of_ns(values.iter().copied());
            let all: Vec<String> = values.iter().map(|value| scale.show(Some(*value))).collect();
            format!("{}: {}", scale.time_unit(), all.join(" "))
        };
        assert_eq!(shown(&[5_600.0, 139_000.0, 3_280_000.0]), "µs: 6 139 3280");
        assert_eq!(shown(&[100_000.0, 3_280_000.0]), "ms: 0.10 3.28");
        assert_eq!(shown(&[5_600.0, 99_999_600.0]), "ms: <1 100", "six digits");
        let ratios = Scale::of_ratios([0.0387, 0.1, 0.0]);
        let shown = [0.0387, 0.1, 0.0].map(|ratio| ratios.show_percent(Some(ratio)));
        assert_eq!(shown, ["3.9", "10.0", "0"]);
        assert_eq!(Scale::of_ratios([1.0]).show_percent(None), UNKNOWN);
        let near = |least: f64| Scale::of_ratios([least, 0.009_97]).show_percent(Some(0.009_97));
        assert_eq!([near(0.009_97), near(0.5), near(1.0)], ["0.99", "0.9", "<1"], "below 1 %");
        assert_eq!(of(&[3.5e18]), "E: 3.50");
        assert_eq!(Scale::of([]).show(None), "-");
        assert_eq!(Scale::of([f64::INFINITY, 5.0]).show(Some(f64::NAN)), "-");
        assert_eq!((percent(Some(0.1234)), percent(None)), ("12.3".into(), "-".into()));
    }

    #[test]
    fn prefixes_round_into_one_another() {
        for (n, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.5, "0.50"),
            (0.001, "<0.01"),
            (999.0, "999"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (1_000.0, "1.00 k"),
            (1_250_000.0, "1.25 M"),
            (9_994.0, "9.99 k"),
            (9_996.0, "10.0 k"),
            (99_960.0, "100 k"),
            (999_499.0, "999 k"),
            (999_500.0, "1.00 M"),
            (12.4e9, "12.4 G"),
            (u64::MAX as f64, "18.4 E"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
            (-1.0, "-"),
        ] {
            assert_eq!(si(n), text, "{n}");
        }
        assert_eq!(bit_rate(12.4e9), "12.4 Gb/s");
        assert_eq!(bit_rate(0.0), "0 b/s");
        assert_eq!(bit_rate(f64::NAN), "-");
        assert_eq!(per_second(1_250_000.0), "1.25 M/s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(4_190), "4.19 kB");
    }

    #[test]
    fn a_ratio_is_zero_or_whole_only_when_it_is() {
        for (fraction, text) in [
            (None, "-"),
            (Some(f64::NAN), "-"),
            (Some(0.0), "0 %"),
            (Some(1e-9), "<0.01 %"),
            (Some(0.0001), "0.01 %"),
            (Some(0.0123), "1.23 %"),
            (Some(0.123), "12.3 %"),
            (Some(0.999_999), "99.9 %"),
            // Just below a threshold of 1 %, at it and above it; the same of others.
            (Some(0.009_97), "0.99 %"),
            (Some(0.009_999_999), "0.99 %"),
            (Some(0.01), "1.00 %"),
            (Some(0.010_04), "1.00 %"),
            (Some(0.000_996), "0.09 %"),
            (Some(0.001), "0.10 %"),
            (Some(0.049_98), "5.00 %"),
            (Some(0.099_96), "9.99 %"),
            (Some(0.1), "10.0 %"),
            (Some(0.299_7), "30.0 %"),
            (Some(0.609_8), "61.0 %"),
            (Some(0.29), "29.0 %"),
            (Some(0.012_36), "1.24 %"),
            (Some(0.004_97), "0.50 %"),
            (Some(0.022_96), "2.30 %"),
            (Some(1.496), "150 %"),
            (Some(1.0), "100 %"),
            (Some(1.5), "150 %"),
        ] {
            assert_eq!(ratio(fraction), text, "{fraction:?}");
        }
    }

    #[test]
    fn counts_and_durations() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count_or_unknown(None), "-");
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (12_340_000, "12.3 ms"),
            (999_600_000, "1.00 s"),
            (1_500_000_000, "1.50 s"),
            (59_999_999_999, "59.9 s"),
            (125_000_000_000, "2 min 5 s"),
            (3_720_000_000_000, "1 h 2 min"),
            (273_600_000_000_000, "3 d 4 h"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn dates_across_leap_years() {
        for (s, text) in [
            (0, "1970-01-01 00:00:00.000 UTC"),
            (951_782_399, "2000-02-28 23:59:59.000 UTC"),
            (951_782_400, "2000-02-29 00:00:00.000 UTC"),
            (1_709_164_800, "2024-02-29 00:00:00.000 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00.000 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59.000 UTC"),
        ] {
            assert_eq!(time_utc(s * NS_PER_S), text);
        }
        assert_eq!(time_utc(u64::MAX), "2554-07-21 23:34:33.709 UTC");
        assert_eq!(clock_utc(1_250_000_000), "00:00:01.250");
        assert_eq!(span_utc(1_250_000_000, 11_249_999_999), "from 00:00:01.250 to 00:00:11.249 UTC");
        assert_eq!(span_utc(1_250_000_000, 11_250_000_000), "from 00:00:01 to 00:00:11 UTC");
    }

    #[test]
    fn nothing_is_wider_than_promised() {
        let mut n = 1u64;
        for _ in 0..64 {
            for n in [n, n - 1, n + n / 3] {
                let f = n as f64;
                assert!(si(f).chars().count() <= 6, "{}", si(f));
                assert!(bytes(n).chars().count() <= 7, "{}", bytes(n));
                assert!(bit_rate(f).chars().count() <= 9, "{}", bit_rate(f));
                assert!(ratio(Some(1.0 / f)).chars().count() <= 7, "{}", ratio(Some(1.0 / f)));
                let text = duration(n);
                assert!(text.chars().count() <= 11, "{text}");
                assert_eq!(time_utc(n).len(), 27);
            }
            n = n.saturating_mul(2);
        }
    }
}
