//! Settings of the terminal UI: from the command line, the configuration file and the environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use super::column::Sort;
use super::column::{self, Id};
use super::key::{Key, Keys};
use super::query::Query;
use super::screen::Screen;
use super::theme::{self, Palette};
use crate::model::history;
use crate::report;

/// Settings of the terminal UI.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Options {
    /// Options of the report.
    pub report: report::Options,
    /// True if colours may be used.
    pub color: bool,
    /// True if symbols other than ASCII may be used.
    pub unicode: bool,
    /// The palette.
    pub palette: Palette,
    /// True if clicks come here rather than to the terminal.
    pub mouse: bool,
    /// Speed of a replay when it starts; `None` where it cannot be changed.
    pub speed: Option<f64>,
    /// The first screen.
    pub screen: Screen,
    /// The filter that the view starts with.
    pub filter: String,
    /// True if the source leaves packets out that the user did not ask for.
    pub source_filtered: bool,
    /// Sorting of the queue pairs; `None` for the worst first.
    pub sort: Option<Sort>,
    /// Columns of the queue pairs; empty for those that fit.
    pub columns: Vec<Id>,
    /// Keys.
    pub keys: Keys,
    /// Memory for the history, in bytes.
    pub history_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            report: report::Options::default(),
            color: false,
            unicode: false,
            palette: Palette::default(),
            mouse: true,
            speed: None,
            screen: Screen::default(),
            filter: String::new(),
            source_filtered: false,
            sort: None,
            columns: Vec::new(),
            keys: Keys::default(),
            history_bytes: history::BUDGET,
        }
    }
}

/// A choice that may be left to the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// By the environment.
    #[default]
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

impl Choice {
    fn or(self, auto: bool) -> bool {
        match self {
            Self::Auto => auto,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The `[tui]` table of the configuration file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The first screen, by name.
    #[serde(deserialize_with = "screen")]
    pub screen: String,
    /// Columns of the queue pairs, by name.
    #[serde(deserialize_with = "columns")]
    pub columns: Vec<String>,
    /// Filter to start with.
    #[serde(deserialize_with = "filter")]
    pub filter: String,
    /// Column to sort by; `-` before it turns the order round.
    #[serde(deserialize_with = "sort")]
    pub sort: String,
    /// True if colours are used.
    pub color: Choice,
    /// True if symbols other than ASCII are used.
    pub unicode: Choice,
    /// True if the mouse is used.
    pub mouse: bool,
    /// Memory for the history, in MiB.
    #[serde(deserialize_with = "history_mib")]
    pub history_mib: usize,
    /// Colours by what they stand for.
    pub theme: Palette,
    /// Keys by the name of what they do.
    #[serde(deserialize_with = "keys")]
    pub keys: BTreeMap<String, Vec<String>>,
}

/// A setting that is checked where it is read, so that an error has the line of the mistake.
fn checked<'de, D, T>(from: D, check: impl FnOnce(&T) -> Result<(), String>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let setting = T::deserialize(from)?;
    check(&setting).map_err(de::Error::custom)?;
    Ok(setting)
}

fn screen<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |name: &String| parse_screen(name).map(drop))
}

fn columns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    checked(from, |names: &Vec<String>| names.iter().try_for_each(|name| parse_column(name).map(drop)))
}

fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |text: &String| parse_view_filter(text).map(drop))
}

fn sort<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |text: &String| parse_sort(text).map(drop))
}

fn history_mib<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    checked(from, |mib| parse_history(*mib).map(drop))
}

/// The keys of one name.
#[derive(Deserialize)]
struct Spelled(#[serde(deserialize_with = "spelled")] Vec<String>);

fn spelled<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    checked(from, |keys: &Vec<String>| keys.iter().try_for_each(|key| key.parse::<Key>().map(drop)))
}

fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let spelled = BTreeMap::<String, Spelled>::deserialize(from)?;
    let keys = spelled.into_iter().map(|(name, Spelled(keys))| (name, keys)).collect();
    Keys::new(&keys).map_err(de::Error::custom)?;
    Ok(keys)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            screen: "overview".into(),
            columns: Vec::new(),
            filter: String::new(),
            sort: "state".into(),
            color: Choice::Auto,
            unicode: Choice::Auto,
            mouse: true,
            history_mib: history::BUDGET >> 20,
            theme: Palette::default(),
            keys: BTreeMap::new(),
        }
    }
}

/// One setting, for the printed configuration.
#[derive(Clone, Copy, Debug)]
pub struct SettingMeta {
    /// Its name within `[tui]`.
    pub name: &'static str,
    /// The default, as written in the file.
    pub default: &'static str,
    /// Its effect.
    pub meaning: &'static str,
}

/// The settings of `[tui]` but keys, which the table of keys has.
pub const SETTINGS: &[SettingMeta] = &[
    SettingMeta {
        name: "screen",
        default: "\"overview\"",
        meaning: "First screen: overview, qps, detail, matrix, links, bursts, events or findings",
    },
    SettingMeta {
        name: "columns",
        default: "[]",
        meaning: "Columns of the queue pairs from left to right, such as [\"state\", \"src\", \"dst\", \"qp\", \"rate\", \"ce\"]; empty: \
                  as many as fit",
    },
    SettingMeta {
        name: "filter",
        default: "\"\"",
        meaning: "Initial filter, as typed at /, such as \"ce > 1%\"; empty for none",
    },
    SettingMeta {
        name: "sort",
        default: "\"state\"",
        meaning: "Sort column of the queue pairs; a leading - reverses the order",
    },
    SettingMeta {
        name: "color",
        default: "\"auto\"",
        meaning: "auto, always or never; auto means unless NO_COLOR is set or TERM is dumb",
    },
    SettingMeta {
        name: "unicode",
        default: "\"auto\"",
        meaning: "auto, always or never (ASCII only); auto goes by the locale",
    },
    SettingMeta {
        name: "mouse",
        default: "true",
        meaning: "Use clicks and the wheel; false leaves them to the terminal, to select text",
    },
    SettingMeta {
        name: "history_mib",
        default: "256",
        meaning: "Memory for the last ten minutes, in MiB (1 to 65536)",
    },
];

/// Colours of `[tui.theme]`.
pub const THEME: &[SettingMeta] = &[
    SettingMeta { name: "fine", default: "\"cyan\"", meaning: "Healthy state, and bars" },
    SettingMeta { name: "warning", default: "\"magenta\"", meaning: "Warnings: performance is reduced" },
    SettingMeta { name: "warning_badge", default: "\"yellow\"", meaning: "Background of warning badges" },
    SettingMeta {
        name: "critical",
        default: "\"red\"",
        meaning: "Critical: data is lost or requests are refused",
    },
];

impl Options {
    /// The settings of the environment: NO_COLOR and TERM=dumb turn colours off, a locale without UTF-8
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

    /// With the settings of the configuration file.
    ///
    /// # Errors
    /// A screen, column or key that does not exist, or two meanings for one key.
    pub fn with_settings(self, settings: &Settings) -> Result<Self, String> {
        let columns: Result<Vec<Id>, String> =
            settings.columns.iter().map(|name| parse_column(name)).collect();
        Ok(Self {
            screen: parse_screen(&settings.screen)?,
            columns: columns?,
            filter: parse_view_filter(&settings.filter)?,
            sort: Some(parse_sort(&settings.sort)?),
            color: settings.color.or(self.color),
            unicode: settings.unicode.or(self.unicode),
            mouse: settings.mouse,
            history_bytes: parse_history(settings.history_mib)?,
            palette: settings.theme,
            keys: Keys::new(&settings.keys)?,
            ..self
        })
    }
}

/// Memory for the history, in bytes.
fn parse_history(mib: usize) -> Result<usize, String> {
    if (1..=65_536).contains(&mib) {
        Ok(mib << 20)
    } else {
        Err(format!("invalid history_mib {mib}: use 1 to 65536"))
    }
}

/// A screen by name or number.
///
/// # Errors
/// An error if there is none of this name.
pub fn parse_screen(name: &str) -> Result<Screen, String> {
    Screen::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Screen::ALL.iter().map(|screen| screen.name()).collect();
        format!("invalid screen '{name}': use {}", names.join(", "))
    })
}

fn parse_column(name: &str) -> Result<Id, String> {
    column::by_name(name).map(|column| column.id).ok_or_else(|| {
        let names: Vec<&str> = column::COLUMNS.iter().map(|column| column.name).collect();
        format!("invalid column '{name}': use {}", names.join(", "))
    })
}

/// An expression of `--view-filter`, as typed at `/`.
///
/// # Errors
/// Position, cause and remedy of the first mistake.
pub fn parse_view_filter(text: &str) -> Result<String, String> {
    Query::new(text).error.map_or_else(|| Ok(text.to_owned()), |error| Err(error.to_string()))
}

/// A column to sort by, in its natural direction; `-` before it turns that round.
///
/// # Errors
/// An error if there is no such column.
pub fn parse_sort(text: &str) -> Result<Sort, String> {
    let (name, turned) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let sort = Sort::by(parse_column(name)?);
    Ok(Sort { descending: sort.descending != turned, ..sort })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_counts_when_it_is_not_empty() {
        let color = |value: &str| Options::from_lookup(|n| (n == "NO_COLOR").then(|| value.to_owned())).color;
        assert!(color("") && !color("1") && !color("0"));
        assert!(!Options::from_lookup(|n| (n == "TERM").then(|| "dumb".to_owned())).color);
    }

    #[test]
    fn settings_are_read_and_mistakes_are_named() {
        let mut settings = Settings {
            screen: "2".into(),
            columns: vec!["qp".into(), "rate".into()],
            sort: "-src".into(),
            color: Choice::Always,
            unicode: Choice::Never,
            ..Settings::default()
        };
        let options = Options { unicode: true, ..Options::default() }.with_settings(&settings).unwrap();
        assert_eq!((options.screen, options.columns.as_slice()), (Screen::Qps, &[Id::Qp, Id::Rate][..]));
        assert_eq!(options.sort, Some(Sort { by: Id::Source, descending: true }));
        assert!(options.color && !options.unicode);
        settings.sort = "rait".into();
        assert!(Options::default().with_settings(&settings).unwrap_err().contains("'rait'"));
        settings = Settings { history_mib: 0, ..Settings::default() };
        assert!(Options::default().with_settings(&settings).unwrap_err().contains("history_mib"));
        assert!(parse_screen("flows").unwrap_err().contains("overview"));
    }
}
