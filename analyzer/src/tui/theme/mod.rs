//! Colours and symbols.
//!
//! Drawing names roles: [`text`], [`badge`], [`BAR`], [`FRAME`]. A role is one of the 16 colours that every terminal
//! has, so that a picture makes sense before it is painted; [`Theme::paint`] puts the colours of the theme in place of
//! the roles once, over the finished buffer. One level has one colour, and colour goes with a word or a symbol, never
//! alone. Symbols that a terminal cannot show are replaced there too: [`ascii`].

mod palette;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use crate::model::Level;

pub use palette::{Depth, Name, Overrides, Theme};

/// Important titles and values.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Less important text: zeros, units, past values.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Style of the selected row.
pub const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
/// Style of ordinary text.
pub const PLAIN: Style = Style::new();
/// Style of column titles.
pub const HEAD: Style = Style::new().add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED));
/// A sparkline or bar.
pub const BAR: Style = Style::new().fg(Color::Cyan);
/// A key in a hint.
pub const KEY: Style = BOLD.fg(Color::Cyan);
/// Style of borders and rules.
pub const FRAME: Style = Style::new().fg(Color::DarkGray);
/// The symbol of what is fine.
pub const GOOD: Style = Style::new().fg(Color::Green);

/// Text of this level.
pub const fn text(level: Level) -> Style {
    match level {
        Level::Fine => PLAIN,
        Level::Warning => BOLD.fg(Color::Yellow),
        Level::Critical => BOLD.fg(Color::Red),
    }
}

/// A badge of this level.
pub const fn badge(level: Level) -> Style {
    match level {
        Level::Fine => BOLD.fg(Color::Black).bg(Color::Green),
        Level::Warning => BOLD.fg(Color::Black).bg(Color::Yellow),
        Level::Critical => BOLD.fg(Color::White).bg(Color::Red),
    }
}

/// Bars and sparklines of this level.
pub const fn bar(level: Level) -> Style {
    match level {
        Level::Fine => BAR,
        Level::Warning => Style::new().fg(Color::Yellow),
        Level::Critical => Style::new().fg(Color::Red),
    }
}

/// The symbol of a finding or problem of this level and its style: hollow and grey once it has ended.
pub const fn mark(level: Level, active: bool) -> (&'static str, Style) {
    match (level, active) {
        (_, false) => ("○", DIM),
        (Level::Fine, true) => (symbol(level), GOOD),
        (_, true) => (symbol(level), text(level)),
    }
}

/// The symbol of this level.
pub const fn symbol(level: Level) -> &'static str {
    match level {
        Level::Fine => "●",
        Level::Warning => "▲",
        Level::Critical => "✖",
    }
}

/// A cell of a heat map: the background of this step, from 1 to 4, with text that is readable on it.
pub const fn heat(step: u8) -> Style {
    match step {
        0 => PLAIN,
        1 => Style::new().bg(palette::HEAT[0]),
        2 => Style::new().bg(palette::HEAT[1]),
        3 => Style::new().bg(palette::HEAT[2]),
        _ => BOLD.bg(palette::HEAT[3]),
    }
}

/// Replaces every symbol that is not ASCII.
pub fn ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            cell.set_symbol(substitute(cell.symbol()));
        }
    }
}

/// Symbols, and the ASCII character that stands for each of them.
const SUBSTITUTES: &[(&str, &str)] = &[
    ("\u{2009}\u{a0}", " "),
    ("●", "*"),
    ("○", "o"),
    ("▲", "!"),
    ("✖", "X"),
    ("→▶▸", ">"),
    ("←≤", "<"),
    ("↓", "v"),
    ("↑", "^"),
    ("…≈≥", "~"),
    ("✓", "x"),
    ("−", "-"),
    ("·", "."),
    ("▂░", ","),
    ("×", "x"),
    ("µ", "u"),
    ("│", "|"),
    ("─▄▏▎▍", "-"),
    ("▁", "_"),
    ("━╸═", "="),
    ("╭╮╰╯├┤┼", "+"),
    ("⋯–—╴╶", "-"),
    ("◀", "<"),
    ("▕", "|"),
    ("▃▒", ":"),
    ("▅▌▋▊▉", "="),
    ("▆┌┐└┘", "+"),
    ("▇▓", "%"),
    ("█", "#"),
];

fn substitute(symbol: &str) -> &'static str {
    SUBSTITUTES.iter().find(|(symbols, _)| symbols.contains(symbol)).map_or("?", |(_, ascii)| ascii)
}

/// True if the locale's encoding is UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set, and TERM names a
/// terminal that has the symbols: the console of Linux, a VT100 and a terminal without a name do not.
pub fn is_unicode(lookup: impl Fn(&str) -> Option<String>) -> bool {
    const WITHOUT: [&str; 7] = ["", "dumb", "linux", "vt52", "vt100", "vt102", "vt220"];
    let set = |name: &&str| lookup(name).filter(|value| !value.is_empty());
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    });
    utf8 && !WITHOUT.contains(&lookup("TERM").unwrap_or_default().as_str())
}

#[cfg(test)]
mod tests {
    use super::{is_unicode, substitute};

    /// In ASCII too, nothing, little and much look different.
    #[test]
    fn heights_and_shades_differ_from_one_another_and_from_zero() {
        for symbols in ["·▁▂▃▄▅▆▇█", "·░▒▓█"] {
            let ascii: std::collections::BTreeSet<&str> =
                symbols.chars().map(|symbol| substitute(&symbol.to_string())).collect();
            assert_eq!(ascii.len(), symbols.chars().count(), "{ascii:?}");
        }
    }

    #[test]
    fn the_locale_is_the_first_variable_set() {
        let with = |pairs: &'static [(&str, &str)]| {
            is_unicode(|name| {
                let set = pairs.iter().chain(&[("TERM", "xterm")]).find(|(n, _)| *n == name);
                set.map(|(_, v)| (*v).to_owned())
            })
        };
        assert!(with(&[("LANG", "de_DE.UTF-8")]));
        assert!(with(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
        assert!(!with(&[]));
        for term in ["linux", "vt100", "dumb", ""] {
            assert!(
                !is_unicode(|name| Some(if name == "TERM" { term } else { "C.UTF-8" }.to_owned())),
                "{term}"
            );
        }
    }
}
