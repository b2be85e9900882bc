//! Mistakes in a configuration file: their kind, their place, and what is allowed there.
//!
//! Never text of the file. `--config` takes any path, and under sudo the user may have no right to read what is there.

use std::borrow::Cow;
use std::fmt;

use toml::de::{DeTable, DeValue};

use crate::util::nearest::hint;

/// Place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the line, from 1.
    pub(super) line: usize,
    /// Number of the character in it, from 1.
    pub(super) column: usize,
}

impl Place {
    /// The place of a byte; the beginning for one outside the text.
    pub(super) fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or_default();
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
        Self { line: before.matches('\n').count() + 1, column: column + 1 }
    }
}

/// A text that is TOML, and the places of its keys.
pub(super) struct Document<'a> {
    text: &'a str,
    root: DeTable<'a>,
}

impl<'a> Document<'a> {
    /// `None` if the text is no TOML.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        Some(Self { text, root: DeTable::parse(text).ok()?.into_inner() })
    }

    /// The place of the key with this path of tables; `None` if the text has no such key.
    pub(super) fn place(&self, path: &[&str]) -> Option<Place> {
        let (mut table, mut at) = (&self.root, None);
        for (level, name) in path.iter().enumerate() {
            let (key, value) = table.iter().find(|(key, _)| key.get_ref().as_ref() == *name)?;
            at = Some(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ if level + 1 < path.len() => return None,
                _ => {}
            }
        }
        Some(Place::of(self.text, at?))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Kind of an error of the TOML reader, and what is allowed in place of what the file has, with the nearest.
///
/// Messages of serde quote the file first and say what they expected last; the last separator is therefore serde's own.
/// Messages about TOML itself, and those of settings that check themselves, quote nothing.
pub(super) fn kind(message: &str) -> Cow<'_, str> {
    let expected = |separator: &str| message.rsplit_once(separator).map(|(_, own)| own);
    for (start, kind) in [("unknown field `", "unknown key"), ("unknown variant `", "unknown value")] {
        if let Some(rest) = message.strip_prefix(start) {
            let none = rest.ends_with("`, there are no fields");
            return rest.rsplit_once("`, expected ").filter(|_| !none).map_or(kind.into(), |(given, own)| {
                let own = own.strip_prefix("one of ").unwrap_or(own).replace('`', "");
                let meant = hint(given, own.split(", ").flat_map(|one| one.split(" or ")));
                format!("{kind}{meant}: use {own}").into()
            });
        }
    }
    for start in ["invalid type: ", "invalid value: ", "invalid length "] {
        if let Some(rest) = message.strip_prefix(start) {
            let start = start.trim_end_matches([':', ' ']);
            let found = found(rest).map_or_else(String::new, |found| format!(" {found}"));
            return expected(", expected ").map_or(start.into(), |own| {
                format!("{start}:{found}; use {}", wanted(own)).replace(":;", ";").into()
            });
        }
    }
    if message.starts_with("unexpected keys in table: ") { "unknown key".into() } else { message.into() }
}

/// The value that the file has, by its type.
fn found(rest: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 6] = [
        ("string ", "a string"),
        ("integer ", "an integer"),
        ("floating point ", "a number with a fraction"),
        ("boolean ", "true or false"),
        ("sequence,", "a list"),
        ("map,", "a table"),
    ];
    TYPES.iter().find(|(start, _)| rest.starts_with(start)).map(|(_, name)| *name)
}

/// The values that a setting takes, from the name of its type.
fn wanted(own: &str) -> &str {
    match own {
        "a map" => "a table",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "an integer from 0 up",
        own if own.starts_with("struct ") => "a table",
        own => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_quotes_is_left_out_and_what_it_expects_stays() {
        for (message, said) in [
            ("unknown field `pass`, expected `a`", "unknown key: use a"),
            ("unknown field `pass`, expected `a` or `b`", "unknown key: use a or b"),
            ("unknown field `x`, expected one of `pass`, expected one of `a`, `b`", "unknown key: use a, b"),
            ("unknown field `x`, expected `pass`, there are no fields", "unknown key"),
            (
                "unknown field `quuet`, expected one of `quiet`, `pause`",
                "unknown key (did you mean 'quiet'?): use quiet, pause",
            ),
            (
                "unknown field `paus`, expected `quiet` or `pause`",
                "unknown key (did you mean 'pause'?): use quiet or pause",
            ),
            ("unknown variant `pass`, expected one of `auto`, `never`", "unknown value: use auto, never"),
            (
                "invalid type: string \"pass, expected word\", expected struct Limits",
                "invalid type: a string; use a table",
            ),
            ("invalid type: integer `73`, expected a sequence", "invalid type: an integer; use a list"),
            ("invalid type: sequence, expected f64", "invalid type: a list; use a number"),
            (
                "invalid value: integer `-73`, expected u64",
                "invalid value: an integer; use an integer from 0 up",
            ),
            ("invalid type: Option value, expected a boolean", "invalid type; use true or false"),
            ("unexpected keys in table: pass, available keys: a", "unknown key"),
            (
                "string values must be quoted, expected literal string",
                "string values must be quoted, expected literal string",
            ),
        ] {
            assert_eq!(kind(message), said, "{message}");
        }
    }

    #[test]
    fn places_count_characters_and_lines_from_one() {
        let text = "a = 1\n[b]\n\"é\" = 2\n[b.c]\nd.e = 3\n";
        assert_eq!(Place::of(text, text.find("= 2").unwrap()).to_string(), "line 3, column 5");
        assert_eq!(Place::of("é", 1), Place { line: 1, column: 1 });
        let document = Document::parse(text).unwrap();
        let key = |path: &[&str]| document.place(path).map(|place| (place.line, place.column));
        assert_eq!([key(&["a"]), key(&["b", "é"])], [Some((1, 1)), Some((3, 1))]);
        assert_eq!([key(&["b", "c", "d", "e"]), key(&["a", "b"]), key(&["z"])], [Some((5, 3)), None, None]);
    }
}
