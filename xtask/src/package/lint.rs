//! Messages of the distributions' tools about a package.

use crate::run::{output_of, run, step};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// Required files of a package, and the beginning of their lines in the listing of a .rpm.
const MUST_HAVE: [&str; 8] = [
    "/usr/bin/rocescope",
    "/etc/rocescope/agent.toml",
    "/usr/lib/systemd/system/rocescope-agent.service",
    "/usr/lib/systemd/system/rocescope-agent.socket",
    "/usr/share/man/man1/rocescope-agent.1.gz",
    "/usr/share/bash-completion/completions/rocescope",
    "/usr/share/fish/vendor_completions.d/rocescope.fish",
    "/usr/share/doc/rocescope/THIRD-PARTY-LICENSES.txt",
];

/// Debian's lint: no errors or warnings except those in `deploy/debian/lintian-overrides`, which states the reasons.
pub(super) fn deb(package: &Path) -> Result<()> {
    let listed = output_of(Command::new("dpkg-deb").arg("--contents").arg(package))
        .context("dpkg-deb cannot list it")?;
    has_all(&listed, package)?;
    step("lintian", || {
        run(Command::new("lintian")
            .args(["--fail-on", "error,warning", "--allow-root", "--tag-display-limit", "0", "--info"])
            .arg(package)
            .stdin(Stdio::null()))
    })
}

/// Fedora's checks: digests match, files are present, and the only requirements are those of rpm itself.
pub(super) fn rpm(package: &Path) -> Result<()> {
    let ask = |arguments: &[&str]| {
        output_of(Command::new("rpm").args(arguments).arg(package))
            .with_context(|| format!("rpm {} failed for {}", arguments.join(" "), package.display()))
    };
    let sums = ask(&["--checksig", "--nosignature"])?;
    ensure!(sums.trim_end().ends_with("digests OK"), "rpm finds wrong digests: {sums}");
    let listed = ask(&["--query", "--package", "--list"])?;
    has_all(&listed, package)?;
    // Otherwise it would stay after the package is removed.
    for folder in ["/etc/rocescope", "/usr/share/doc/rocescope"] {
        ensure!(listed.lines().any(|line| line == folder), "the .rpm does not own {folder}");
    }
    let needs = ask(&["--query", "--package", "--requires"])?;
    let foreign: Vec<&str> = needs
        .lines()
        .filter(|line| {
            !line.starts_with("rpmlib(") && !line.starts_with("/bin/sh") && !line.starts_with("config(")
        })
        .collect();
    ensure!(foreign.is_empty(), "the .rpm requires {foreign:?}, and a static program requires nothing");
    let configuration = ask(&["--query", "--package", "--configfiles"])?;
    ensure!(configuration.trim() == "/etc/rocescope/agent.toml", "configuration files are {configuration}");
    Ok(())
}

fn has_all(listed: &str, package: &Path) -> Result<()> {
    let missing: Vec<&&str> =
        MUST_HAVE.iter().filter(|file| !listed.lines().any(|line| line.ends_with(**file))).collect();
    ensure!(missing.is_empty(), "{} lacks {missing:?}", package.display());
    Ok(())
}
