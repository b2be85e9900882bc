//! The terminal UI: a pure reducer ([`App::on_key`]), a pure picture ([`render`]) and one thin loop.
//!
//! | module | holds |
//! |---|---|
//! | [`app`] | the state, and what keys and updates do to it |
//! | [`key`] | the table of keys, which is the help too |
//! | [`mod@column`] | the table of columns of the queue pairs |
//! | [`layout`] | where things are |
//! | [`log`] | the list of events |
//! | `panel` | one function per part of the screen |
//! | [`theme`] | styles, and what is done without colour or UTF-8 |
//! | `inbox`, `terminal`, `run` | threads, terminal, loop: everything that is not pure |

pub mod app;
pub mod column;
pub mod cursor;
mod filter;
mod inbox;
pub mod key;
pub mod layout;
pub mod log;
mod panel;
mod run;
mod terminal;
pub mod theme;

pub use app::{Action, App, End};
pub use panel::render;
pub use run::run;

use crate::report;

/// What the terminal UI must know beforehand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Links that share a load.
    pub report: report::Options,
    /// Whether colours may be used.
    pub color: bool,
    /// Whether symbols other than ASCII may be used.
    pub unicode: bool,
    /// Speed of a replay when it starts; `None` where it cannot be changed.
    pub speed: Option<f64>,
}

impl Options {
    /// What the environment says: NO_COLOR and TERM=dumb turn colours off, a locale without UTF-8
    /// turns symbols off.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let no_color = lookup("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = lookup("TERM").is_some_and(|term| term == "dumb");
        Self { color: !no_color && !dumb, unicode: theme::is_utf8(lookup), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn no_color_counts_when_it_is_not_empty() {
        let color = |value: &str| Options::from_lookup(|n| (n == "NO_COLOR").then(|| value.to_owned())).color;
        assert!(color("") && !color("1") && !color("0"));
        assert!(!Options::from_lookup(|n| (n == "TERM").then(|| "dumb".to_owned())).color);
    }
}
