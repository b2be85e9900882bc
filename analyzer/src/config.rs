//! The configuration file: thresholds of findings.
//!
//! `$XDG_CONFIG_HOME/rocescope/config.toml`, else `~/.config/rocescope/config.toml`, else the file
//! that `--config` names. Everything in it is optional.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::findings::{self, LimitMeta, Limits};
use crate::report::text::layout::wrap;

/// What the file may hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Thresholds: `[findings.FAMILY]`.
    pub findings: Limits,
}

impl Config {
    /// Reads the file that was asked for, or the user's if there is one.
    ///
    /// # Errors
    /// A file that was asked for and is not there; one that cannot be read; a name or value in it that does
    /// not exist, with its line.
    pub fn load(asked: Option<&Path>) -> Result<Self> {
        if let Some(path) = asked {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("--config {}: cannot be read", path.display()))?;
            return Self::parse(&text, path);
        }
        let Some(path) = user_file() else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("{}: cannot be read", path.display())),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        toml::from_str(text).with_context(|| {
            format!(
                "{}: not a configuration file; `rocescope config` prints one with every setting",
                path.display()
            )
        })
    }
}

/// Where the user's file would be; `None` without a home directory.
fn user_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("rocescope/config.toml"))
}

/// A file with every setting at its default, each with its meaning and reason, commented out.
#[must_use]
pub fn template() -> String {
    const WIDTH: usize = 100;
    let mut text = String::from(
        "# Configuration of rocescope: ~/.config/rocescope/config.toml, or --config FILE.\n\
         # Every setting is at its default; remove the # in front of those you change.\n",
    );
    let mut table = "";
    for LimitMeta { name, default, meaning, reason } in findings::limits() {
        let (family, field) = name.split_once('.').unwrap_or(("", name));
        if family != table {
            table = family;
            let _ = writeln!(text, "\n[findings.{family}]");
        }
        for line in wrap(&format!("{meaning}. {reason}."), WIDTH) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "#{field} = {default}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(Config::parse(&set, path).unwrap(), Config::default());
    }

    #[test]
    fn settings_change_what_they_name_and_nothing_else() {
        let config = Config::parse("[findings.mtu]\nsmall = 2048", Path::new("x")).unwrap();
        assert_eq!(config.findings.mtu.small, 2048);
        assert_eq!(config.findings.qos, Limits::default().qos);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, word) in [
            ("[findings.mtu]\nsmal = 2048", "smal"),
            ("[finding.mtu]\nsmall = 2048", "finding"),
            ("[findings.mtu]\nsmall = \"big\"", "line 2"),
        ] {
            let error = format!("{:#}", Config::parse(text, Path::new("my.toml")).unwrap_err());
            assert!(error.contains(word) && error.contains("my.toml"), "{error}");
        }
        let missing = Config::load(Some(Path::new("/nowhere/x.toml"))).unwrap_err();
        assert!(format!("{missing:#}").contains("/nowhere/x.toml"));
    }
}
