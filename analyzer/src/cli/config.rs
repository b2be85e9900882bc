//! The configuration file: thresholds of findings, live sources, and theme, columns and keys of the terminal view.
//!
//! `$XDG_CONFIG_HOME/rocescope/config.toml`, else `~/.config/rocescope/config.toml`, else the file
//! that `--config` names. Everything in it is optional.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

use super::args::help;
use super::mistake::{self, Document, Place};
use crate::findings::{self, LimitMeta, Limits};
use crate::source::devices::context::DEFAULT_PER_SECOND;
use crate::tui::key::KEYMAP;
use crate::tui::settings::{self, SettingMeta, Settings};
use crate::util::layout::plain;
use crate::util::nearest::hint;
use crate::util::wrap::wrap;

/// Contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Thresholds: `[findings.FAMILY]`.
    pub findings: Limits,
    /// Sources of a live run: `[live]`.
    pub live: Live,
    /// Options of `rocescope agent` by their long names: `[agent]`.
    pub agent: toml::Table,
    /// The place of each of those options in the file.
    #[serde(skip)]
    pub(super) agent_places: BTreeMap<String, Place>,
    /// The terminal UI: `[tui]`.
    pub tui: Settings,
}

/// Sources of a live run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Live {
    /// Maximum queries per second for the NIC's own contexts of queue pairs; 0 disables them.
    pub qp_queries: u32,
}

impl Default for Live {
    fn default() -> Self {
        Self { qp_queries: DEFAULT_PER_SECOND }
    }
}

/// The settings of [`Live`] with their defaults and meanings.
fn live_settings() -> [(&'static str, String, &'static str); 1] {
    [(
        "qp_queries",
        Live::default().qp_queries.to_string(),
        "Most queries per second for the NIC's own context of queue pairs (--qp-queries); 0 disables them. On mlx5 each is a \
         firmware command, and the firmware runs one at a time",
    )]
}

impl Config {
    /// Reads the named file, else the user's if there is one.
    ///
    /// # Errors
    /// A named file that does not exist or cannot be read; an unknown name or invalid value, with its line.
    pub fn load(asked: Option<&Path>) -> Result<Self> {
        if let Some(path) = asked {
            let text = std::fs::read_to_string(path).with_context(|| {
                format!(
                    "--config: cannot read {}; `rocescope config` prints a file with all settings",
                    path.display()
                )
            })?;
            return Self::parse(&text, path);
        }
        let Some(path) = user_file() else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            // The home directory of another user, as after su without a login, is not readable and provides no file.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                Ok(Self::default())
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Reads the text of a file; `path` names it in errors.
    ///
    /// # Errors
    /// An unknown name or invalid value, with its line.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        // Not the error's own text: it quotes the line, and under sudo the user may have no right to read that file.
        let table: toml::Table = toml::from_str(text).unwrap_or_default();
        if let Some([old, new]) = REPLACED.into_iter().find(|[old, _]| has(&table, old)) {
            let place = Document::parse(text)
                .and_then(|document| document.place(&old.split('.').collect::<Vec<_>>()));
            return Err(invalid(path, place, &format!("unknown key {old}: {new} has taken its place")));
        }
        let mut config: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let place = Place::of(text, error.span().map_or(0, |span| span.start));
            let kind = plain(&mistake::kind(error.message()).replace('\n', ", "));
            invalid(path, Some(place), &kind)
        })?;
        if let Some(found) = table.get("findings").and_then(|limits| senseless("findings", limits)) {
            let keys: Vec<&str> = found.split('.').collect();
            let problem = format!("invalid threshold {found}: must be 0 or more");
            let place = Document::parse(text).and_then(|document| document.place(&keys));
            return Err(invalid(path, place, &problem));
        }
        config.agent_places = agent_places(text, path, &config.agent)?;
        Ok(config)
    }
}

/// Keys of settings that others have replaced.
const REPLACED: [[&str; 2]; 5] = [
    ["findings.burst.incast_ce_ratio", "findings.ecn.congestion_ratio"],
    ["findings.device.ce_ratio", "findings.ecn.congestion_ratio"],
    ["findings.parallel.ce_ratio", "findings.ecn.congestion_ratio"],
    ["findings.peer.retries", "findings.qp.retries"],
    ["findings.retry.asked_ratio", "findings.retry.nak_ratio"],
];

/// True if a file has this key.
fn has(table: &toml::Table, key: &str) -> bool {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let value = table.get(first);
    rest.map_or(value.is_some(), |rest| {
        value.and_then(toml::Value::as_table).is_some_and(|table| has(table, rest))
    })
}

/// The error for a mistake at this place.
fn invalid(path: &Path, place: Option<Place>, problem: &str) -> anyhow::Error {
    let place = place.map_or_else(String::new, |place| format!(" at {place}"));
    anyhow!(
        "{}: invalid configuration{place}: {problem}; `rocescope config` prints a file with all settings",
        path.display()
    )
}

/// The first threshold whose value is not valid, by its name. All names are known: the file has been read.
fn senseless(name: &str, value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::Table(table) => {
            table.iter().find_map(|(key, value)| senseless(&format!("{name}.{key}"), value))
        }
        toml::Value::Float(number) if !number.is_finite() || *number < 0.0 => Some(name.to_owned()),
        _ => None,
    }
}

/// The places of the options in `[agent]`.
///
/// # Errors
/// A name that is no option of the agent.
fn agent_places(text: &str, path: &Path, agent: &toml::Table) -> Result<BTreeMap<String, Place>> {
    if agent.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (known, document) = (agent_names(), Document::parse(text));
    let mut places = BTreeMap::new();
    for name in agent.keys() {
        let place = document.as_ref().and_then(|document| document.place(&["agent", name]));
        if name == "config" {
            return Err(invalid(path, place, "agent.config: a configuration file names no other one"));
        }
        let written = name.replace('-', "_");
        if !known.contains(&written) {
            let hint = hint(&written, known.iter().map(String::as_str));
            return Err(invalid(
                path,
                place,
                &format!("unknown key in [agent]{hint}: use {}", known.join(", ")),
            ));
        }
        places.extend(place.map(|place| (written, place)));
    }
    Ok(places)
}

/// The options of the agent as the file names them.
fn agent_names() -> Vec<String> {
    let command = super::command();
    let of_all = command.get_arguments().filter(|option| option.is_global_set() && !help::is_help(option));
    let own = command.find_subcommand("agent").into_iter().flat_map(clap::Command::get_arguments);
    // `--config` is valid on the command line only.
    let longs = own.chain(of_all).filter_map(clap::Arg::get_long).filter(|long| *long != "config");
    longs.map(|long| long.replace('-', "_")).collect()
}

/// Path of the user's file; `None` without a home directory.
fn user_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("rocescope/config.toml"))
}

/// Appends a table of the file.
fn section(text: &mut String, head: &str, settings: &mut dyn Iterator<Item = (&str, String, &str)>) {
    let _ = writeln!(text, "\n[{head}]");
    for (name, default, meaning) in settings {
        for line in wrap(&format!("{meaning}."), WIDTH) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "#{name} = {default}");
    }
}

/// Line width of the file, in columns.
const WIDTH: usize = 100;

/// Appends `[agent]`: the options of the command by their long names, in the sections of its help.
fn agent_options(text: &mut String) {
    text.push_str("\n[agent]\n");
    let command = super::command();
    let all = command.find_subcommand("agent").into_iter().flat_map(clap::Command::get_arguments);
    let mut options: Vec<&clap::Arg> = all.collect();
    let heads: Vec<_> = options.iter().map(|option| option.get_help_heading()).collect();
    // Each section appears once, at the position of its first option.
    options.sort_by_key(|option| heads.iter().position(|head| *head == option.get_help_heading()));
    let mut section = None;
    for option in options {
        // `--config` is valid on the command line only.
        let Some(long) = option.get_long().filter(|long| *long != "config") else { continue };
        if section != option.get_help_heading() {
            section = option.get_help_heading();
            let _ = writeln!(text, "\n# {}:", section.unwrap_or("Options"));
        }
        let meaning = option.get_long_help().or_else(|| option.get_help()).map(ToString::to_string);
        let meaning = meaning.unwrap_or_default().replace("\n\n", ". ");
        for line in wrap(&format!("{}.", meaning.trim_end_matches('.')), WIDTH) {
            let _ = writeln!(text, "# {line}");
        }
        let name = long.replace('-', "_");
        let defaults: Vec<_> = option.get_default_values().iter().map(|one| one.to_string_lossy()).collect();
        let _ = match defaults.as_slice() {
            _ if matches!(option.get_action(), clap::ArgAction::SetTrue) => writeln!(text, "#{name} = false"),
            [default] if default.parse::<u64>().is_ok() => writeln!(text, "#{name} = {default}"),
            [default, ..] => writeln!(text, "#{name} = \"{default}\""),
            [] => {
                let value =
                    option.get_value_names().and_then(|names| names.first()).map_or("VALUE", |name| name);
                let is_list = matches!(option.get_action(), clap::ArgAction::Append);
                let (open, close) = if is_list { ("[\"", "\", ...]") } else { ("\"", "\"") };
                // The space after `#` marks an example: this option has no default.
                writeln!(text, "# {name} = {open}{value}{close}")
            }
        };
    }
}

/// A configuration file for `rocescope agent`: its options and the other settings that it uses, all at their defaults
/// and commented out.
pub fn agent_template() -> String {
    let mut text = String::from(
        "# Configuration of rocescope agent: /etc/rocescope/agent.toml, or --config FILE.\n\
         # All settings are at their defaults; to change one, remove its #. A setting without a default\n\
         # is shown with the kind of its value. `systemctl reload rocescope-agent.service` reads the file again.\n",
    );
    agent_options(&mut text);
    section(&mut text, "live", &mut live_settings().into_iter());
    thresholds(&mut text);
    text
}

/// A configuration file with all settings at their defaults, commented out, each with its meaning and reason.
pub fn template() -> String {
    let mut text = String::from(
        "# Configuration of rocescope: ~/.config/rocescope/config.toml, or --config FILE.\n\
         # All settings are at their defaults; to change one, remove its #.\n",
    );
    thresholds(&mut text);
    let plain = |setting: &'static SettingMeta| (setting.name, setting.default.to_owned(), setting.meaning);
    section(&mut text, "live", &mut live_settings().into_iter());
    section(&mut text, "agent", &mut std::iter::empty());
    text.push_str(
        "# The options of `rocescope agent` by their long names, such as interface = [\"eth2\"] and keep = \"10m\";\n\
         # `rocescope config --agent` prints them. None is set.\n",
    );
    section(&mut text, "tui", &mut settings::SETTINGS.iter().map(plain));
    section(&mut text, "tui.theme", &mut settings::THEME.iter().map(plain));
    let keys = KEYMAP.iter().map(|binding| {
        let keys: Vec<String> = binding.keys.iter().map(|key| format!("\"{key}\"")).collect();
        (binding.name, format!("[{}]", keys.join(", ")), binding.help)
    });
    section(&mut text, "tui.keys", &mut { keys });
    text
}

/// Appends `[findings.FAMILY]`.
fn thresholds(text: &mut String) {
    let mut table = "";
    for LimitMeta { table: own, field, default, meaning, reason } in findings::limits() {
        if *own != table {
            table = own;
            let _ = writeln!(text, "\n[findings.{own}]");
        }
        for line in wrap(&format!("{meaning}. {reason}."), WIDTH) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "#{field} = {default}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Args;
    use crate::tui::key::Keys;
    use std::collections::BTreeMap;

    #[test]
    fn the_template_is_a_valid_file_with_and_without_its_comment_signs() {
        let path = Path::new("config.toml");
        assert_eq!(Config::parse(&template(), path).unwrap(), Config::default());
        let set: String = template()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        assert!(set.lines().filter(|line| !line.starts_with('#') && line.contains(" = ")).count() > 5);
        let all = Config::parse(&set, path).unwrap();
        assert_eq!((all.findings, all.live), (Limits::default(), Live::default()));
        // The file writes keys out in full, so the parsed key tables are compared, not the text.
        let keys = Keys::new(&all.tui.keys).unwrap();
        for binding in KEYMAP {
            assert_eq!(keys.of(binding), binding.keys, "{}", binding.name);
        }
        assert_eq!(Settings { keys: BTreeMap::new(), ..all.tui }, Settings::default());
    }

    #[test]
    fn the_file_of_the_agent_is_valid_with_and_without_its_comment_signs() {
        let path = Path::new("agent.toml");
        let text = agent_template();
        assert_eq!(Config::parse(&text, path).unwrap(), Config::default());
        assert!(!text.contains("[tui") && text.lines().all(|line| line.chars().count() <= 110), "{text}");
        let set: String = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let all = Config::parse(&set, path).unwrap();
        assert_eq!((all.findings, all.live), (Limits::default(), Live::default()));
        assert!(all.agent.len() > 10 && all.agent.contains_key("interval"), "{:?}", all.agent);
        // Every default that the file states must be the default of the command line.
        let agent = |words: Vec<String>| {
            let start = ["rocescope", "agent"].map(str::to_owned);
            match Args::read(start.into_iter().chain(words).map(Into::into)).unwrap().verb {
                crate::cli::Verb::Agent(args) => format!("{args:?}"),
                other => panic!("{other:?}"),
            }
        };
        let (mut table, mut needed) = (all.agent, Vec::new());
        // clap refuses this option without the one that it requires.
        needed.extend(table.remove("sample_posts_limit"));
        assert_eq!(needed.len(), 1);
        let words = crate::cli::args::agent::line(&table, path).unwrap();
        assert_eq!(agent(words), agent(Vec::new()));
        for name in ["interface", "record", "keep", "otlp"] {
            assert!(text.contains(&format!("\n# {name} = ")), "{name}: {text}");
        }
    }

    #[test]
    fn errors_quote_nothing_that_commands_a_terminal() {
        for text in
            ["\"\\u001b[2J\" = 1", "[tui]\nscreen = \"\\u001b[2J\"", "[tui.keys]\n\"\\u009b\" = 1", "x = \"a"]
        {
            let error = Config::parse(text, Path::new("x.toml")).unwrap_err().to_string();
            assert!(!error.chars().any(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn a_threshold_that_nothing_can_reach_is_refused() {
        for value in ["nan", "inf", "-0.1"] {
            let text = format!("[findings.ecn]\ncongestion_ratio = {value}");
            let error = Config::parse(&text, Path::new("x.toml")).unwrap_err().to_string();
            let said = "x.toml: invalid configuration at line 2, column 1: invalid threshold findings.ecn.congestion_ratio: ";
            assert!(error.starts_with(said) && !error.contains(value), "{error}");
        }
        assert!(Config::parse("[findings.ecn]\ncongestion_ratio = 0.0", Path::new("x")).is_ok());
    }

    #[test]
    fn the_terminal_ui_is_set_up_by_name() {
        let text = "[tui]\nscreen = \"qps\"\n[tui.theme]\ncritical = \"208\"\n[tui.keys]\npause = [\"p\"]";
        let config = Config::parse(text, Path::new("x")).unwrap();
        assert_eq!(config.tui.screen, "qps");
        assert_eq!(config.tui.theme.critical, Some(ratatui::style::Color::Indexed(208)));
        let wrong = Config::parse("[tui.theme]\ngood = \"pinkish\"", Path::new("x")).unwrap_err();
        assert!(
            format!("{wrong:#}").contains("line 2, column 8: invalid colour: use theme, cyan"),
            "{wrong:#}"
        );
    }

    #[test]
    fn no_mistake_quotes_the_file() {
        // No word of the program, and no part of one.
        const SECRET: &str = "zq7Xw0";
        let mut texts = vec![
            format!("findings = \"{SECRET}\""),
            format!("{SECRET} = 1"),
            format!("[{SECRET}]\na = 1"),
            format!("findings = {SECRET}"),
            format!("{SECRET}"),
            format!("a = \"{SECRET}"),
            format!("{SECRET} = 1\n{SECRET} = 2"),
            format!("[tui]\ncolumns = [\"qp\", \"{SECRET}\"]"),
            format!("[tui.keys]\nquit = [\"{SECRET}\"]"),
            format!("[tui]\nfilter = \"ce > {SECRET}\""),
            format!("[tui]\nhistory_mib = 987654321"),
            format!("[live]\nqp_queries = -987654321"),
            format!("[findings.ecn]\ncongestion_ratio = -987654321.0"),
        ];
        // Every setting with a text for its value, and an unknown one in every section.
        let mut section = String::new();
        for line in template().lines().chain(agent_template().lines()) {
            if line.starts_with('[') {
                section = line.to_owned();
                texts.push(format!("{section}\n{SECRET} = 987654321"));
            } else if let Some((name, _)) = line.strip_prefix('#').and_then(|line| line.split_once(" = ")) {
                let name = name.trim_start();
                texts.extend((!name.contains(' ')).then(|| format!("{section}\n{name} = \"{SECRET}\"")));
            }
        }
        assert!(texts.len() > 300, "{}", texts.len());
        let mut refused = 0;
        for text in texts {
            // Texts of [agent] are judged by the command line.
            let Err(error) = Config::parse(&text, Path::new("my.toml")) else { continue };
            let error = format!("{error:#}");
            assert!(error.starts_with("my.toml: invalid configuration at line "), "{text}: {error}");
            assert!(!error.contains(SECRET) && !error.contains("987654321"), "{text}: {error}");
            refused += 1;
        }
        assert!(refused > 200, "{refused}");
    }

    #[test]
    fn settings_change_what_they_name_and_nothing_else() {
        let config = Config::parse("[findings.mtu]\nsmall = 2048", Path::new("x")).unwrap();
        assert_eq!(config.findings.mtu.small, 2048);
        assert_eq!(config.findings.qos, Limits::default().qos);
        let config = Config::parse("[live]\nqp_queries = 0", Path::new("x")).unwrap();
        assert_eq!((config.live.qp_queries, Config::default().live.qp_queries), (0, DEFAULT_PER_SECOND));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, word) in [
            ("[tui]\nscreen = \"flows\"", "line 2, column 10"),
            ("[tui]\n\ncolumns = [\"qp\", \"rait\"]", "line 3"),
            ("[tui]\nfilter = \"ce > x\"", "line 2"),
            ("[tui]\nsort = \"tunel\"", "invalid column (did you mean 'tunnel'?)"),
            ("[tui]\nsort = \"-rait\"", "line 2, column 8: invalid column: use state, "),
            ("[tui]\nhistory_mib = 0", "use 1 to 65536"),
            ("[tui.keys]\nhelp = [\"h\"]\nquit = [\"x\", \"Entre\"]", "line 3"),
            ("[tui.keys]\nquitt = [\"x\"]", "unknown key binding (did you mean 'quit'?)"),
            ("[tui.keys]\nquit = [\"?\"]", "help and quit"),
            (
                "[findings.parallel]\nfactor = 3.0\nce_ratio = 0.1",
                "line 3, column 1: unknown key findings.parallel.ce_ratio: findings.ecn.congestion_ratio has taken its place",
            ),
            (
                "[findings.mtu]\nsmal = 2048",
                "line 2, column 1: unknown key (did you mean 'small'?): use small",
            ),
            (
                "[finding.mtu]\nsmall = 2048",
                "line 1, column 2: unknown key (did you mean 'findings'?): use findings, live, agent, tui",
            ),
            ("[tui]\ncolor = \"red\"", "line 2, column 9: unknown value: use auto, always, never"),
            (
                "[agent]\n\nkepe = \"1m\"",
                "line 3, column 1: unknown key in [agent] (did you mean 'keep'?): use record, ",
            ),
            ("findings = 3", "line 1, column 12: invalid type: an integer; use a table"),
            ("[findings.mtu]\nsmall = \"big\"", "line 2"),
        ] {
            let error = format!("{:#}", Config::parse(text, Path::new("my.toml")).unwrap_err());
            assert!(error.contains(word) && error.contains("my.toml"), "{error}");
        }
        // Errors must not quote lines of a file that is not a configuration file.
        for other in ["root:$6$secret:19000:0:99999:7:::\n", "password = secret\n", "[tui]\nscreen secret"] {
            let error = format!("{:#}", Config::parse(other, Path::new("my.toml")).unwrap_err());
            assert!(!error.contains("secret"), "{error}");
        }
        let missing = Config::load(Some(Path::new("/nowhere/x.toml"))).unwrap_err();
        assert!(format!("{missing:#}").contains("/nowhere/x.toml"));
    }
}
