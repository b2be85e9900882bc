//! Checks the exposure of the units according to systemd.

use crate::run::{has_program, is_ci, output_of, run, say};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Maximum exposure of a service, in tenths: systemd's own services have 20 to 96.
const MOST: &str = "25";

const ANALYZE: &str = "systemd-analyze";

const MISSING: &str =
    "systemd-analyze is missing: cargo xtask setup installs it (Debian: apt-get install systemd)";
const TOO_OLD: &str =
    "systemd-analyze reads unit files since systemd 250: use a newer distribution (Debian 12, Ubuntu 24.04)";

/// The first version of systemd that judges a file instead of a running service (`--offline`).
const OFFLINE_SINCE: u32 = 250;

/// Why nothing can be checked, if so.
fn obstacle() -> Option<&'static str> {
    if !has_program(ANALYZE) {
        return Some(MISSING);
    }
    let version = output_of(Command::new(ANALYZE).arg("--version")).unwrap_or_default();
    is_too_old(&version).then_some(TOO_OLD)
}

/// True for the text of an older version: `systemd 249 (249.11-0ubuntu3)`.
fn is_too_old(version: &str) -> bool {
    let number = version.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
    number.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|number| number < OFFLINE_SINCE)
}

/// The result where nothing can be checked.
fn without(why: &str, ci: bool) -> Result<()> {
    ensure!(!ci, "the exposure of the services must be checked where CI=true: {why}");
    say(&format!("SKIP exposure of the services: {why}"));
    Ok(())
}

/// Checks that every service in a folder is confined.
///
/// # Errors
/// Names the service that is not. In continuous integration also fails without a systemd-analyze that can, which
/// `cargo xtask setup` installs.
pub(crate) fn check(folder: &Path) -> Result<()> {
    if let Some(why) = obstacle() {
        return without(why, is_ci());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for path in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "service"))
    {
        run(Command::new(ANALYZE)
            .args(["security", "--no-pager", "--offline=true", &format!("--threshold={MOST}")])
            .arg(&path)
            .stdout(std::process::Stdio::null()))
        .with_context(|| format!("{} is too exposed", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::workspace_root;

    #[test]
    fn the_services_are_confined() {
        let units = workspace_root().join("deploy/systemd");
        check(&units).unwrap();
        if let Some(why) = obstacle() {
            // The message of `check` does not begin with the word that `cargo xtask test` counts.
            eprintln!("SKIP: the exposure of the services is not checked: {why}");
            return;
        }
        let folder = std::env::temp_dir().join(format!("rocescope-unit-{}", std::process::id()));
        let refused = |text: &str| {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("open.service"), text).unwrap();
            let result = check(&folder);
            fs::remove_dir_all(&folder).unwrap();
            result.is_err()
        };
        assert!(refused("[Service]\nExecStart=/bin/true\n"), "a service without any limit must not pass");
        let service = fs::read_to_string(units.join("rocescope-agent.service")).unwrap();
        assert!(!refused(&service));
        assert!(
            refused(&service.replace("SystemCallFilter=", "#")),
            "the limit holds a service without a filter"
        );
    }

    #[test]
    fn continuous_integration_fails_without_the_program() {
        assert!(without(MISSING, false).is_ok());
        assert!(without(MISSING, true).unwrap_err().to_string().contains("systemd-analyze"));
    }

    #[test]
    fn versions_that_read_no_file_are_known() {
        assert!(is_too_old("systemd 249 (249.11-0ubuntu3.12)\n+PAM"));
        assert!(!is_too_old("systemd 252 (252.39-1~deb12u1)\n+PAM") && !is_too_old(""));
    }
}
