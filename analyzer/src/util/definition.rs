//! Numbers that define what a figure means: no setting changes them, and docs/findings.md lists them.

use std::time::Duration;

use crate::util::time::nanos;
use crate::util::units;

/// A number that defines what a figure means.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name in the source text.
    pub name: &'static str,
    /// Value of the constant, as its definition writes it.
    pub value: &'static str,
    /// Unit and meaning.
    pub meaning: &'static str,
    /// Reason for this value, and its origin.
    pub reason: &'static str,
}

impl Definition {
    /// Its value as a sentence has it: `10 s`, `2 MiB`.
    pub fn in_sentence(&self) -> String {
        let text = number(self.value, self.meaning.contains(IN_NS));
        if self.name.ends_with("_BYTES")
            && let Ok(bytes) = self.value.replace('_', "").parse::<u64>()
            && bytes % (1 << 20) == 0
        {
            return format!("{} MiB", bytes >> 20);
        }
        short(&text)
    }
}

/// A number with its unit, without zeros behind the point.
pub(crate) fn short(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
}

impl std::fmt::Display for Definition {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, meaning, reason, .. } = self;
        let is_time = meaning.contains(IN_NS);
        let (before, behind) = meaning.split_once(IN_NS).unwrap_or((meaning, ""));
        // The second comma of an insertion goes with the first.
        let behind = behind.strip_prefix(',').unwrap_or(behind);
        let value = number(value, is_time);
        write!(out, "- {before}{behind}: {value}. {reason}.")
    }
}

/// Part of a meaning that gives its unit.
const IN_NS: &str = ", in nanoseconds";

/// A number of the source text as readers write it: `8,192`, `0.00001`, a time with its unit; other text as it is.
pub(crate) fn number(source: &str, is_time: bool) -> String {
    let digits = source.replace('_', "");
    match (digits.parse::<u64>(), digits.parse::<f64>()) {
        (_, Ok(ns)) if is_time => Duration::try_from_secs_f64(ns / 1e9)
            .map_or_else(|_| source.to_owned(), |time| units::duration(nanos(time))),
        (Ok(number), _) => units::count(number),
        (_, Ok(_)) => digits,
        _ => source.to_owned(),
    }
}

/// Declares such numbers, each once with type, value, meaning and reason, and the list of them.
macro_rules! definitions {
    ($($vis:vis $name:ident: $type:ty = $value:expr, $meaning:literal, $reason:literal;)+) => {
        $(#[doc = concat!($meaning, ". ", $reason, ".")] $vis const $name: $type = $value;)+
        // Some stand in SQL alone.
        $(const _: $type = $name;)+

        /// The numbers that this module defines.
        pub(crate) const DEFINITIONS: &[$crate::util::definition::Definition] = &[
            $($crate::util::definition::Definition {
                name: stringify!($name),
                value: stringify!($value),
                meaning: $meaning,
                reason: $reason,
            },)+
        ];
    };
}
pub(crate) use definitions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_readers() {
        assert_eq!(number("10_000_000_000", true), "10.0 s");
        assert_eq!(number("1e3", true), "1.00 µs");
        assert_eq!(number("8_192", false), "8,192");
        assert_eq!(number("0.000_01", false), "0.00001");
        assert_eq!(number("RING", false), "RING");
    }

    #[test]
    fn the_unit_of_a_time_is_beside_its_value() {
        let text = Definition {
            name: "WAIT_NS",
            value: "20_000",
            meaning: "Silence that ends it, in nanoseconds",
            reason: "None is longer",
        };
        assert_eq!(text.in_sentence(), "20 µs");
        let size =
            Definition { name: "BIN_BYTES", value: "2_097_152", meaning: "Size, in bytes", reason: "" };
        assert_eq!(size.in_sentence(), "2 MiB");
        assert_eq!(text.to_string(), "- Silence that ends it: 20.0 µs. None is longer.");
    }
}
