//! Programs of Debian packages that some tests call, unpacked by `cargo xtask setup` and not installed: a package of a server
//! would start it.

use std::path::PathBuf;
use std::process::Command;

/// Folder with a folder for each package; `None` without `cargo xtask test`.
fn unpacked(package: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("ROCESCOPE_PACKAGES")?).join(package);
    folder.is_dir().then_some(folder)
}

/// A program of a package: unpacked, or on `PATH`. Says so when there is none, and fails where there must be.
///
/// # Panics
/// Panics if it is missing and `CI` is `true`.
#[must_use]
pub fn program_or_skip(test: &str, package: &str, program: &str) -> Option<PathBuf> {
    let of_package = unpacked(package).map(|folder| folder.join("usr/bin").join(program));
    let found = of_package.filter(|path| path.is_file()).or_else(|| {
        let installed = Command::new(program).arg("--version").output();
        installed.is_ok_and(|output| output.status.success()).then(|| program.into())
    });
    if found.is_none() {
        missing(test, package);
    }
    found
}

/// Python with the module of a package. Says so when there is none, and fails where there must be.
///
/// # Panics
/// Panics if it is missing and `CI` is `true`.
#[must_use]
pub fn python_or_skip(test: &str, package: &str, module: &str) -> Option<Command> {
    let mut python = Command::new("python3");
    if let Some(folder) = unpacked(package) {
        python.env("PYTHONPATH", folder.join("usr/lib/python3/dist-packages"));
    }
    // Else it would write beside the module.
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    let mut attempt = Command::new("python3");
    attempt.envs(python.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let imported = attempt.args(["-c", &format!("import {module}")]).output();
    if imported.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    missing(test, package);
    None
}

fn missing(test: &str, package: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} must find the Debian package {package} where CI=true: ROCESCOPE_PACKAGES names the folder of cargo xtask setup"
    );
    eprintln!("SKIP: {test} needs the Debian package {package}");
}
