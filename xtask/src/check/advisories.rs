//! Advisories on dependencies: cargo-deny and cargo-audit, with the newest database that can be had.

use super::Checks;
use crate::ebpf_toolchain::cache_dir;
use crate::run::{captured, output_of, run, say};
use crate::setup;
use anyhow::{Context as _, Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const NAME: &str = "advisories on dependencies";

/// The database, as cargo-deny asks git for it.
const ORIGIN: &str = "https://github.com/RustSec/advisory-db";

/// Names the folder of a clone of it, for networks that do not reach [`ORIGIN`].
const VARIABLE: &str = "ROCESCOPE_ADVISORY_DB";

/// The packages whose lock files are compared with the advisories. The fuzz targets are a workspace of their own.
const LOCKED: [(&str, &str); 2] = [("Cargo.toml", "Cargo.lock"), ("fuzz/Cargo.toml", "fuzz/Cargo.lock")];

/// Compares both lock files with the database, by both tools. Skipped where there is no database at all, in continuous
/// integration too: its network may reach no repository.
pub(super) fn check(checks: &mut Checks) {
    if let Err(error) = setup::advisory_tools() {
        return checks.without_tool(NAME, &format!("{error:#}"));
    }
    let database = match env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        Some(folder) => match Database::at(PathBuf::from(folder), VARIABLE) {
            Ok(database) => database,
            Err(error) => return checks.check(NAME, || Err(error)),
        },
        None => match Database::fetched() {
            Ok(database) => database,
            Err(error) => return checks.skip(NAME, &format!("{error:#}")),
        },
    };
    say(&database.described());
    by(checks, "cargo-deny", setup::deny, |deny, (manifest, _)| {
        deny.envs(database.in_place_of_the_origin());
        deny.args(["--manifest-path", manifest, "--all-features", "--locked", "--config", "deny.toml"]);
        run(deny.args(["check", "advisories"]))
    });
    by(checks, "cargo-audit", setup::audit, |audit, (_, lock)| {
        // cargo-deny looks for yanked versions.
        audit.args(["--no-fetch", "--no-yanked", "--db"]).arg(&database.folder);
        run(audit.args(["--file", lock]))
    });
}

/// Checks every lock file with a tool.
fn by(
    checks: &mut Checks,
    name: &str,
    tool: fn() -> Result<Command>,
    work: impl Fn(&mut Command, (&str, &str)) -> Result<()>,
) {
    if let Err(error) = tool() {
        return checks.without_tool(&format!("{NAME}: {name}"), &format!("{error:#}"));
    }
    for locked in LOCKED {
        checks.check(&format!("{NAME} of {}: {name}", locked.1), || work(&mut tool()?, locked));
    }
}

/// A clone of the database.
#[derive(Debug)]
struct Database {
    folder: PathBuf,
    /// Its origin, in words.
    from: String,
    /// Time of its newest commit, in Unix seconds.
    newest: u64,
}

impl Database {
    fn at(folder: PathBuf, from: &str) -> Result<Self> {
        let remedy = format!("`git clone {ORIGIN}` makes one, where that is reached");
        if !folder.join("crates").is_dir() {
            bail!("{from}: {} is no clone of the advisory database: {remedy}", folder.display());
        }
        let newest = output_of(git(&folder).args(["log", "-1", "--format=%ct"]));
        let newest = newest.and_then(|seconds| seconds.trim().parse().ok());
        let newest = newest
            .with_context(|| format!("{from}: git finds no commit in {}: {remedy}", folder.display()))?;
        Ok(Self { folder, from: from.to_owned(), newest })
    }

    /// The clone in the cache folder, brought up to date where the network allows it.
    fn fetched() -> Result<Self> {
        let cache =
            cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no folder for the database")?;
        let folder = cache.join("advisory-db");
        let is_there = folder.is_dir();
        let fetched = if is_there {
            captured(git(&folder).args(["pull", "--quiet", "--ff-only"]))
        } else {
            captured(git(&cache).args(["clone", "--quiet", ORIGIN]).arg(&folder))
        };
        let with_remedy = || {
            format!(
                "the advisory database ({ORIGIN}) cannot be fetched; {VARIABLE}=FOLDER names a clone of it"
            )
        };
        match fetched {
            Ok(()) => Self::at(folder, ORIGIN),
            Err(error) if is_there => Self::at(folder, &format!("the cache, since {error:#}")),
            Err(error) => Err(error).with_context(with_remedy),
        }
    }

    fn described(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let Self { folder, from, newest } = self;
        format!("advisory database: {}, {}, from {from}", folder.display(), age(*newest, now))
    }

    /// Settings of git that give cargo-deny this clone, and no network.
    fn in_place_of_the_origin(&self) -> [(&'static str, String); 3] {
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        [
            ("GIT_CONFIG_COUNT", "1".to_owned()),
            ("GIT_CONFIG_KEY_0", format!("url.file://{}.insteadOf", folder.display())),
            ("GIT_CONFIG_VALUE_0", ORIGIN.to_owned()),
        ]
    }
}

/// git in a folder; it asks for no password.
fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    git
}

/// `17 days old`.
fn age(newest: u64, now: u64) -> String {
    match now.saturating_sub(newest) / 86_400 {
        0 => "of today".to_owned(),
        1 => "1 day old".to_owned(),
        days => format!("{days} days old"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_age_of_a_database_is_in_days() {
        let day = 86_400;
        assert_eq!(age(5 * day, 5 * day + 7), "of today");
        assert_eq!((age(day, 2 * day), age(day, 20 * day)), ("1 day old".into(), "19 days old".into()));
        assert_eq!(age(9 * day, day), "of today");
    }

    #[test]
    fn a_folder_is_a_database_if_it_is_a_clone_with_advisories() {
        let folder = env::temp_dir().join(format!("rocescope-advisories-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let error = |what: &str| {
            let error = format!("{:#}", Database::at(folder.clone(), VARIABLE).unwrap_err());
            assert!(
                error.contains(what) && error.contains(VARIABLE) && error.contains("git clone"),
                "{error}"
            );
        };
        error("no clone of the advisory database");
        let advisory = folder.join("crates/x/RUSTSEC-2024-0001.md");
        fs::create_dir_all(advisory.parent().unwrap()).unwrap();
        fs::write(&advisory, "text").unwrap();
        run(git(&folder).args(["init", "--quiet"])).unwrap();
        error("git finds no commit");
        run(git(&folder).args(["add", "."])).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "new"];
        run(git(&folder).args(who).env("GIT_COMMITTER_DATE", "@1700000000 +0000")).unwrap();
        let found = Database::at(folder.clone(), VARIABLE).unwrap();
        let settings = found.in_place_of_the_origin();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.newest, 1_700_000_000);
        assert!(found.described().contains(" days old, from ROCESCOPE_ADVISORY_DB"), "{}", found.described());
        assert!(settings[1].1.starts_with("url.file:///") && settings[2].1 == ORIGIN, "{settings:?}");
    }
}
