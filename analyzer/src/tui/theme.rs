//! Colours and symbols.
//!
//! Text keeps the terminal's own foreground; colour goes with a word or a symbol, never alone, and
//! is one of the 16 that every terminal has. Badges set foreground and background both, so they
//! read on dark and on light. Text that cannot be shown is mended once, over the finished buffer:
//! [`plain`] for terminals without colour, [`ascii`] for locales without UTF-8.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use serde::{Deserialize, Deserializer};

use crate::model::Level;

/// Important titles and values.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Less important text: zeros, units, past values.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// The selected row.
pub const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
/// Ordinary text.
pub const PLAIN: Style = Style::new();
/// Column titles.
pub const HEAD: Style = Style::new().add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED));
/// A sparkline or bar.
pub const BAR: Style = Style::new().fg(Color::Cyan);

/// Text of this level.
#[must_use]
pub const fn text(level: Level) -> Style {
    match level {
        Level::Fine => PLAIN,
        Level::Warning => BOLD.fg(Color::Magenta),
        Level::Critical => BOLD.fg(Color::Red),
    }
}

/// A badge of this level.
#[must_use]
pub const fn badge(level: Level) -> Style {
    match level {
        Level::Fine => BOLD.fg(Color::Black).bg(Color::Cyan),
        Level::Warning => BOLD.fg(Color::Black).bg(Color::Yellow),
        Level::Critical => BOLD.fg(Color::White).bg(Color::Red),
    }
}

/// The symbol of this level.
#[must_use]
pub const fn symbol(level: Level) -> &'static str {
    match level {
        Level::Fine => "●",
        Level::Warning => "▲",
        Level::Critical => "✖",
    }
}

/// Colours by what they stand for: names of the 16 colours of a terminal, such as `cyan` or
/// `lightred`, numbers of 256, or `#rrggbb` where the terminal has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Palette {
    /// Healthy values, and bars.
    #[serde(deserialize_with = "color")]
    pub fine: Color,
    /// Reduced performance.
    #[serde(deserialize_with = "color")]
    pub warning: Color,
    /// The same, as a background.
    #[serde(deserialize_with = "color")]
    pub warning_badge: Color,
    /// Lost or refused packets.
    #[serde(deserialize_with = "color")]
    pub critical: Color,
}

impl Default for Palette {
    fn default() -> Self {
        Self {
            fine: Color::Cyan,
            warning: Color::Magenta,
            warning_badge: Color::Yellow,
            critical: Color::Red,
        }
    }
}

fn color<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Color, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(|_| {
        serde::de::Error::custom(format!("invalid colour '{name}': use cyan, lightred, 208 or #ff8700"))
    })
}

/// Puts the user's colours in place of the usual ones.
pub fn paint(buffer: &mut Buffer, palette: &Palette) {
    if *palette == Palette::default() {
        return;
    }
    let paint = |color: &mut Color| {
        *color = match *color {
            Color::Cyan => palette.fine,
            Color::Magenta => palette.warning,
            Color::Yellow => palette.warning_badge,
            Color::Red => palette.critical,
            other => other,
        };
    };
    for cell in &mut buffer.content {
        paint(&mut cell.fg);
        paint(&mut cell.bg);
    }
}

/// Takes the colours out; what had a background is shown reversed.
pub fn plain(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.bg != Color::Reset {
            cell.modifier.insert(Modifier::REVERSED);
        }
        cell.fg = Color::Reset;
        cell.bg = Color::Reset;
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
    ("←", "<"),
    ("↓", "v"),
    ("↑", "^"),
    ("…≈", "~"),
    ("✓", "x"),
    ("−", "-"),
    ("·▂░", "."),
    ("×", "x"),
    ("µ", "u"),
    ("│", "|"),
    ("─▄▏▎▍", "-"),
    ("▁", "_"),
    ("▃▒", ":"),
    ("▅▌▋▊▉", "="),
    ("▆┌┐└┘", "+"),
    ("▇▓", "%"),
    ("█", "#"),
];

fn substitute(symbol: &str) -> &'static str {
    SUBSTITUTES.iter().find(|(symbols, _)| symbols.contains(symbol)).map_or("?", |(_, ascii)| ascii)
}

/// True if the locale's encoding is UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set.
#[must_use]
pub fn is_utf8(lookup: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(lookup).find(|value| !value.is_empty());
    set.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::is_utf8;

    #[test]
    fn the_locale_is_the_first_variable_set() {
        let with = |pairs: &'static [(&str, &str)]| {
            is_utf8(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(with(&[("LANG", "de_DE.UTF-8")]));
        assert!(with(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
        assert!(!with(&[]));
    }
}
