//! Settings of the terminal UI: from the command line, the configuration file and the environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use super::column::SortOrder;
use super::column::{self, Id};
use super::key::{Key, Keys};
use super::query::Query;
use super::screen::Screen;
use super::theme::{self, Name, Overrides, Theme};
use crate::model::history;
use crate::report;
use crate::source::feed::Schedule;
use crate::util::nearest::hint;

/// Settings of the terminal UI.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is something of its own")]
pub struct Options {
    /// Options of the report.
    pub report: report::Options,
    /// Theme of the colours.
    pub theme: Theme,
    /// True if symbols other than ASCII may be used.
    pub unicode: bool,
    /// True if clicks come here rather than to the terminal.
    pub mouse: bool,
    /// Speed of a replay when it starts; `None` where it cannot be changed.
    pub speed: Option<f64>,
    /// Screen at the start.
    pub screen: Screen,
    /// The filter that the view starts with.
    pub filter: String,
    /// True if the source leaves packets out that the user did not ask for.
    pub source_filtered: bool,
    /// Sorting of the queue pairs; `None` for the worst first.
    pub sort: Option<SortOrder>,
    /// Columns of the queue pairs; empty for those that fit.
    pub columns: Vec<Id>,
    /// Keys and their commands.
    pub keys: Keys,
    /// Memory for the history, in bytes.
    pub history_bytes: usize,
    /// Episodes of the source; `None` but in the demonstration.
    pub schedule: Option<Schedule>,
    /// Sentences that stand before the first notice.
    pub notes: Vec<String>,
    /// The name of the host that is watched live.
    pub host: Option<String>,
    /// True if the source keeps the last minutes for dumps.
    pub dumps: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            report: report::Options::default(),
            theme: Theme { name: Name::Mono, ..Theme::default() },
            unicode: false,
            mouse: true,
            speed: None,
            screen: Screen::default(),
            filter: String::new(),
            source_filtered: false,
            sort: None,
            columns: Vec::new(),
            keys: Keys::default(),
            history_bytes: history::BUDGET,
            schedule: None,
            notes: Vec::new(),
            host: None,
            dumps: false,
        }
    }
}

/// A choice that may be left to the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// As the environment says (`NO_COLOR`, `TERM`).
    #[default]
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

impl Choice {
    const fn or(self, auto: bool) -> bool {
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
    /// The theme, and colours in place of its own.
    pub theme: Overrides,
    /// Keys by the name of what they do.
    #[serde(deserialize_with = "keys")]
    pub keys: BTreeMap<String, Vec<String>>,
}

/// A setting that is checked where it is read, so that an error has the line of the mistake. The error quotes nothing
/// of the file, which the user may have no right to read.
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
    checked(from, |name: &String| find_screen(name).map(drop).map_err(UnknownName::unquoted))
}

fn columns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let check = |name: &String| find_columns(name).map(drop).map_err(UnknownName::unquoted);
    checked(from, |names: &Vec<String>| names.iter().try_for_each(check))
}

fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |text: &String| match Query::new(text).error {
        Some(error) => Err(format!("invalid filter: its character {} is wrong", error.column())),
        None => Ok(()),
    })
}

fn sort<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |text: &String| find_sort(text).map(drop).map_err(UnknownName::unquoted))
}

fn history_mib<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    checked(from, |mib| parse_history(*mib).map(drop))
}

/// The keys of one name.
#[derive(Deserialize)]
struct KeyNames(#[serde(deserialize_with = "spelled")] Vec<String>);

fn spelled<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    checked(from, |keys: &Vec<String>| keys.iter().try_for_each(|key| key.parse::<Key>().map(drop)))
}

fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let spelled = BTreeMap::<String, KeyNames>::deserialize(from)?;
    let keys = spelled.into_iter().map(|(name, KeyNames(keys))| (name, keys)).collect();
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
            theme: Overrides::default(),
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
    /// Effect of the setting.
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
        meaning: "Columns of the queue pairs from left to right, such as [\"state\", \"src\", \"dst\", \"qp\", \"rate\", \"ce\"], or a set \
                  of them, such as [\"latency\"]: health, latency, traffic or identity; empty: as many as fit",
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
        meaning: "auto, always or never; auto means unless NO_COLOR is set or TERM is dumb; never is the theme mono",
    },
    SettingMeta {
        name: "unicode",
        default: "\"auto\"",
        meaning: "auto, always or never (ASCII only); auto goes by the locale, and by TERM (linux, vt100)",
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

/// The settings of `[tui.theme]`.
pub const THEME: &[SettingMeta] = &[
    SettingMeta {
        name: "name",
        default: "\"auto\"",
        meaning: "auto, dark, light, high-contrast, mono or 16; auto goes by COLORTERM, TERM, COLORFGBG and NO_COLOR",
    },
    SettingMeta {
        name: "data",
        default: "\"theme\"",
        meaning: "Bars, sparklines and keys: a name such as cyan, a number of 256, or #rrggbb",
    },
    SettingMeta { name: "good", default: "\"theme\"", meaning: "Healthy state" },
    SettingMeta { name: "warning", default: "\"theme\"", meaning: "Warnings: performance is reduced" },
    SettingMeta {
        name: "critical",
        default: "\"theme\"",
        meaning: "Critical: data is lost or requests are refused",
    },
];

impl Settings {
    /// The theme, where `auto` is that of the environment.
    fn theme(&self, auto: Theme) -> Theme {
        let named = if self.theme.name == Name::Auto { auto.name } else { self.theme.name };
        let name = match (self.color, named) {
            (Choice::Never, _) => Name::Mono,
            // NO_COLOR, which the file overrides.
            (Choice::Always, Name::Mono) if self.theme.name == Name::Auto => Name::Ansi,
            (Choice::Always | Choice::Auto, name) => name,
        };
        Theme { name, overrides: self.theme, ..auto }
    }
}

impl Options {
    /// The settings of the environment: NO_COLOR and TERM=dumb turn colours off, a locale without UTF-8
    /// turns symbols off.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        Self { theme: Theme::from_lookup(&lookup), unicode: theme::is_unicode(lookup), ..Self::default() }
    }

    /// With the settings of the configuration file.
    ///
    /// # Errors
    /// A screen, column or key that does not exist, or two meanings for one key.
    pub fn with_settings(self, settings: &Settings) -> Result<Self, String> {
        let columns: Result<Vec<Columns>, String> =
            settings.columns.iter().map(|name| parse_columns(name)).collect();
        Ok(Self {
            screen: parse_screen(&settings.screen)?,
            columns: columns?.into_iter().flat_map(|Columns(some)| some).collect(),
            filter: parse_view_filter(&settings.filter)?,
            sort: Some(parse_sort(&settings.sort)?),
            theme: settings.theme(self.theme),
            unicode: settings.unicode.or(self.unicode),
            mouse: settings.mouse,
            history_bytes: parse_history(settings.history_mib)?,
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
        Err("invalid history_mib: use 1 to 65536".to_owned())
    }
}

/// A name that is none of those known.
struct UnknownName<'a> {
    kind: &'static str,
    name: &'a str,
    known: Vec<&'static str>,
}

impl UnknownName<'_> {
    /// With the name, for who wrote it.
    fn quoted(self) -> String {
        self.message(&format!(" '{}'", self.name))
    }

    /// Without the name, for one from a file.
    fn unquoted(self) -> String {
        self.message("")
    }

    fn message(&self, quoted: &str) -> String {
        let Self { kind, name, known } = self;
        format!("invalid {kind}{quoted}{}: use {}", hint(name, known.iter().copied()), known.join(", "))
    }
}

/// A screen by name or number.
///
/// # Errors
/// An error if there is none of this name.
pub fn parse_screen(name: &str) -> Result<Screen, String> {
    find_screen(name).map_err(UnknownName::quoted)
}

fn find_screen(name: &str) -> Result<Screen, UnknownName<'_>> {
    let known = || Screen::TABS.iter().map(|screen| screen.name()).collect();
    Screen::from_name(name).ok_or_else(|| UnknownName { kind: "screen", name, known: known() })
}

/// Columns of `--columns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(pub Vec<Id>);

/// Names of columns or sets of them, between commas.
///
/// # Errors
/// An error if there is none of such a name.
pub fn parse_columns(text: &str) -> Result<Columns, String> {
    let all: Result<Vec<Vec<Id>>, String> =
        text.split(',').map(|name| find_columns(name.trim()).map_err(UnknownName::quoted)).collect();
    Ok(Columns(all?.concat()))
}

/// The columns of a set, or one of them by its own name.
fn find_columns(name: &str) -> Result<Vec<Id>, UnknownName<'_>> {
    let one = || find_column(name).map(|id| vec![id]);
    column::sets::named(name).map_or_else(one, Ok)
}

fn find_column(name: &str) -> Result<Id, UnknownName<'_>> {
    let known = || column::COLUMNS.iter().map(|column| column.name).collect();
    let found = column::by_name(name).map(|column| column.id);
    found.ok_or_else(|| UnknownName { kind: "column", name, known: known() })
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
pub fn parse_sort(text: &str) -> Result<SortOrder, String> {
    find_sort(text).map_err(UnknownName::quoted)
}

fn find_sort(text: &str) -> Result<SortOrder, UnknownName<'_>> {
    let (name, turned) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let sort = SortOrder::by(find_column(name)?);
    Ok(SortOrder { descending: sort.descending != turned, ..sort })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(options.sort, Some(SortOrder { by: Id::Source, descending: true }));
        assert!(options.theme.name == Name::Ansi && !options.unicode);
        let colors = |choice, name, auto| {
            let theme = Overrides { name, ..Overrides::default() };
            let settings = Settings { color: choice, theme, ..Settings::default() };
            settings.theme(Theme { name: auto, ..Theme::default() }).name
        };
        assert_eq!(colors(Choice::Auto, Name::Auto, Name::Dark), Name::Dark);
        assert_eq!(colors(Choice::Auto, Name::Light, Name::Dark), Name::Light);
        assert_eq!(colors(Choice::Never, Name::Light, Name::Dark), Name::Mono);
        assert_eq!(colors(Choice::Always, Name::Auto, Name::Mono), Name::Ansi);
        settings.sort = "rait".into();
        assert!(Options::default().with_settings(&settings).unwrap_err().contains("'rait'"));
        settings = Settings { history_mib: 0, ..Settings::default() };
        assert!(Options::default().with_settings(&settings).unwrap_err().contains("history_mib"));
        assert_eq!(parse_columns("qp, rate").unwrap(), Columns(vec![Id::Qp, Id::Rate]));
        assert!(parse_columns("identity").unwrap().0.contains(&Id::SourcePort));
        assert!(parse_columns("qp,rait").unwrap_err().contains("'rait'"));
        assert!(parse_screen("flows").unwrap_err().contains("overview"));
    }
}
