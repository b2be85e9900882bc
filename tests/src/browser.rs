//! A headless browser: Debian's Chromium, without network access.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Flags of every run: no user profile, no network, no background services.
const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    // A page may inspect another file that it shows in a frame.
    "--allow-file-access-from-files",
    "--virtual-time-budget=10000",
];

/// True if Chromium is installed. Otherwise prints a SKIP line, or fails with `CI=true`.
///
/// # Panics
/// Panics without Chromium if `CI` is `true`.
#[must_use]
pub fn chromium_or_skip(test: &str) -> bool {
    let found =
        Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} must find chromium where CI=true");
        eprintln!("SKIP: {test} needs chromium");
    }
    found
}

/// A page after its scripts have run.
#[derive(Clone, Debug)]
pub struct RenderedPage {
    /// The document.
    pub dom: String,
    /// Console output, including violations of the content security policy.
    pub console: Vec<String>,
}

/// Opens a page.
///
/// # Errors
/// Fails if Chromium fails, or takes longer than two minutes.
pub fn open(page: &Path) -> Result<RenderedPage> {
    let profile = tempfile::tempdir()?;
    let mut command = Command::new("timeout");
    command.args(["120", "chromium"]).args(FLAGS).arg("--dump-dom");
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.env("HOME", profile.path()).arg(format!("file://{}", page.display()));
    let output = command.output().context("chromium could not be started")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("chromium {} ended with {}: {}", page.display(), output.status, errors.trim());
    }
    let console = errors.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    Ok(RenderedPage { dom: String::from_utf8_lossy(&output.stdout).into_owned(), console })
}
