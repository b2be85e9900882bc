//! Checks the exposure of the units according to systemd.

use crate::run::{has_program, run, say};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Maximum exposure of a service, in tenths: systemd's own services have 20 to 96.
const MOST: &str = "25";

/// Checks that every service in a folder is confined.
///
/// # Errors
/// Names the service that is not.
pub(crate) fn check(folder: &Path) -> Result<()> {
    if !has_program("systemd-analyze") {
        say("SKIP exposure of the services: systemd-analyze is missing (Debian: apt-get install systemd)");
        return Ok(());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for path in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "service"))
    {
        run(Command::new("systemd-analyze")
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
        check(&workspace_root().join("deploy/systemd")).unwrap();
        if has_program("systemd-analyze") {
            let folder = std::env::temp_dir().join(format!("rocescope-unit-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("open.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
            let refused = check(&folder);
            fs::remove_dir_all(&folder).unwrap();
            assert!(refused.is_err(), "a service without any limit must not pass");
        }
    }
}
