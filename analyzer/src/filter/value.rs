//! Values of a filter: numbers with units, address prefixes, names of links, opcodes.

use std::fmt;
use std::net::IpAddr;

use rocescope_common::wire::frame::{Addr, FAMILY_LID};
use rocescope_common::wire::opcode::{Name, transport};

use crate::sample::Address;
use crate::util::layout::tap_name;
use crate::util::nearest::hint;

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Less than.
    Less,
    /// Less than or equal to the value.
    LessOrEqual,
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Greater than or equal to the value.
    MoreOrEqual,
    /// More than.
    More,
}

impl Op {
    /// True if `a` compares so with `b`.
    pub fn holds(self, a: f64, b: f64) -> bool {
        // The typed number has fewer digits than the counted one.
        let equal = || (a - b).abs() <= f64::EPSILON * b.abs();
        match self {
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Equal => equal(),
            Self::NotEqual => !equal(),
            Self::MoreOrEqual => a >= b,
            Self::More => a > b,
        }
    }

    /// Sign of the operator in the language.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::MoreOrEqual => ">=",
            Self::More => ">",
        }
    }
}

/// The unit of a field: how its values are written.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// A number of things: `20`, `10k`.
    Count,
    /// An identifier: `17`, `0x11`.
    Number,
    /// Bits per second: `10G`.
    BitRate,
    /// Things per second: `10k`.
    Rate,
    /// A share: `1%`, `0.01`.
    Ratio,
    /// Bytes: `4k`.
    Bytes,
    /// A time: `100us`; compared in nanoseconds.
    Duration,
    /// Text, of which a part is written.
    Text,
    /// One of these words, of which a part is written; at most 64.
    Words(fn() -> &'static [String]),
}

impl Unit {
    /// True if values are numbers.
    pub const fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Words(_))
    }

    /// Kind of value and an example.
    pub const fn example(self) -> (&'static str, &'static str) {
        match self {
            Self::Count => ("a number", "10k"),
            Self::Number => ("a whole number", "17 or 0x11"),
            Self::BitRate => ("a rate in bits per second", "10G"),
            Self::Rate => ("a rate per second", "10k"),
            Self::Ratio => ("a percentage", "1%"),
            Self::Bytes => ("a number of bytes", "4k"),
            Self::Duration => ("a time", "100us"),
            Self::Text => ("a text", "train"),
            Self::Words(_) => ("a name", "loss"),
        }
    }

    /// The number that `text` is, in units of one (bits, packets, nanoseconds, fractions of 1); `None` when it is none.
    pub fn number(self, text: &str) -> Option<f64> {
        match self {
            Self::Text | Self::Words(_) => None,
            Self::Number => whole(text).map(f64::from),
            Self::Ratio => match text.strip_suffix('%') {
                Some(percent) => plain(percent).map(|n| n / 100.0),
                None => plain(text).filter(|n| *n < 1.0),
            },
            Self::Duration => duration(text),
            Self::Count => scaled(text, &[]),
            Self::BitRate => scaled(text, &["bit/s", "b/s", "bps"]),
            Self::Rate => scaled(text, &["/s"]),
            Self::Bytes => scaled(text, &["bytes", "b"]),
        }
    }
}

/// A number that is neither negative nor infinite.
fn plain(text: &str) -> Option<f64> {
    // Neither `nan` nor `inf`, which are numbers to the parser.
    let number: f64 =
        text.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.parse().ok())??;
    number.is_finite().then_some(number)
}

/// A number with k, M, G or T.
fn scaled(text: &str, units: &[&str]) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let bare = units.iter().find_map(|unit| lower.strip_suffix(unit)).unwrap_or(&lower);
    if let Some(hex) = bare.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).ok().map(f64::from);
    }
    let prefixes = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];
    let scale = prefixes.into_iter().find_map(|(letter, factor)| Some((bare.strip_suffix(letter)?, factor)));
    let (number, factor) = scale.unwrap_or((bare, 1.0));
    plain(number).map(|n| n * factor).filter(|n| n.is_finite())
}

/// A time in nanoseconds; 0 needs no unit.
fn duration(text: &str) -> Option<f64> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let lower = text.to_lowercase();
    let found = units.into_iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, factor)));
    match found {
        Some((number, factor)) => plain(number).map(|n| n * factor).filter(|n| n.is_finite()),
        None => plain(&lower).filter(|n| *n == 0.0),
    }
}

/// A whole number, in decimal or hexadecimal digits.
pub(super) fn whole(text: &str) -> Option<u32> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Address prefix, such as 10.0.0.0/24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    family: u8,
    prefix: u128,
    mask: u128,
}

impl Net {
    /// The prefix that `text` is: an address, a prefix, or the first parts of an address (`10.0.1`, `fd00:1`).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<Address>() else {
            return if len.is_none() { Self::beginning(text) } else { None };
        };
        Self::new(address, len)
    }

    fn new(address: Address, len: Option<u32>) -> Option<Self> {
        let (family, _) = address.words();
        let bits = match address {
            Address::Ip(IpAddr::V4(_)) => 32,
            Address::Ip(IpAddr::V6(_)) => 128,
            Address::Lid(_) => 16,
        };
        let value = address.bits();
        let len = len.unwrap_or(bits);
        if len > bits {
            return None;
        }
        let all = u128::MAX >> (128 - bits);
        let mask = all & all.checked_shl(bits - len).unwrap_or(0);
        Some(Self { family, prefix: value & mask, mask })
    }

    /// The prefix of whole parts of an address.
    fn beginning(text: &str) -> Option<Self> {
        let (separator, most, bits) = if text.contains(':') { (':', 8, 16) } else { ('.', 4, 8) };
        let text = text.strip_suffix(separator).unwrap_or(text);
        let parts: Vec<&str> = text.split(separator).collect();
        if parts.len() >= most {
            return None;
        }
        let missing = most - parts.len();
        let rest = if separator == ':' { "::".to_owned() } else { ".0".repeat(missing) };
        let address = format!("{text}{rest}").parse().ok()?;
        Self::new(address, Some(u32::try_from(parts.len()).ok()? * bits))
    }

    /// True if an address is in it.
    pub(super) fn contains(self, family: u8, words: Addr) -> bool {
        let address = words.iter().fold(0u128, |sum, word| sum << 32 | u128::from(u32::from_be(*word)));
        family == self.family && address & self.mask == self.prefix
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.mask.count_ones();
        write!(f, "{}", Address::from_bits(self.family, self.prefix))?;
        let whole = match self.family {
            4 => 32,
            FAMILY_LID => 16,
            _ => 128,
        };
        if len == whole { Ok(()) } else { write!(f, "/{len}") }
    }
}

/// A name in which `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// True if a link's name is so, as it is or as reports print it: without the suffix of a capture file.
    pub fn is(&self, name: &str) -> bool {
        self.matches(name) || self.matches(&tap_name(name))
    }

    fn matches(&self, name: &str) -> bool {
        let mut parts = self.text.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.ends_with(last)
    }

    /// Text of the pattern.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The opcodes of a number, of a full name, or of an operation in every transport.
pub(super) fn opcodes(text: &str) -> Option<Box<[bool; 256]>> {
    let mut set = Box::new([false; 256]);
    if let Some(code) = whole(text) {
        *set.get_mut(code as usize)? = true;
        return Some(set);
    }
    let wanted = text.to_ascii_uppercase();
    for code in 0..=255u8 {
        let name = opcode_name(code);
        if name == wanted || operation(code, &name) == Some(&wanted) {
            set[usize::from(code)] = true;
        }
    }
    set.contains(&true).then_some(set)
}

/// The name of an opcode or an operation that `text`, which is none, probably means, as part of a sentence.
pub(super) fn opcode_hint(text: &str) -> String {
    let names: Vec<String> = (0..=255).map(opcode_name).collect();
    let operations = (0..=255).zip(&names).filter_map(|(code, name)| operation(code, name));
    hint(&text.to_ascii_uppercase(), operations.chain(names.iter().map(String::as_str)))
}

fn opcode_name(code: u8) -> String {
    Name(code).to_string().to_ascii_uppercase()
}

/// The operation in an opcode's name, which begins with its transport.
fn operation(code: u8, name: &str) -> Option<&str> {
    name.strip_prefix(transport(code)).and_then(|rest| rest.strip_prefix('_'))
}
