//! Checks the exposure of the units according to systemd.

use crate::run::{has_program, is_ci, run, say};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Maximum exposure of a service, in tenths: systemd's own services have 20 to 96.
const MOST: &str = "25";

const ANALYZE: &str = "systemd-analyze";

/// The result without systemd-analyze.
fn without(ci: bool) -> Result<()> {
    const WHY: &str =
        "systemd-analyze is missing: cargo xtask setup installs it (Debian: apt-get install systemd)";
    ensure!(!ci, "the exposure of the services must be checked where CI=true: {WHY}");
    say(&format!("SKIP exposure of the services: {WHY}"));
    Ok(())
}

/// Checks that every service in a folder is confined.
///
/// # Errors
/// Names the service that is not. In continuous integration also fails without systemd-analyze, which
/// `cargo xtask setup` installs.
pub(crate) fn check(folder: &Path) -> Result<()> {
    if !has_program(ANALYZE) {
        return without(is_ci());
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
        if !has_program(ANALYZE) {
            // The message of `check` does not begin with the word that `cargo xtask test` counts.
            eprintln!("SKIP: the exposure of the services is not checked: systemd-analyze is missing");
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
        assert!(without(false).is_ok());
        assert!(without(true).unwrap_err().to_string().contains("systemd-analyze"));
    }
}
