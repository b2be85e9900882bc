//! `cargo xtask fresh`: follows the README on minimal systems: a bare root of Debian and of Ubuntu, created by
//! debootstrap in separate namespaces, with an ordinary user who has sudo. This detects installation steps that a
//! developer's machine would hide.
//!
//! The Rust toolchain (read-only), CA certificates, names and settings for network access of cargo, pip and apt, and
//! the kernel come from this machine. Everything else is downloaded and built there. Scripts in fresh/ run inside.

use crate::ebpf_toolchain::cache_dir;
use crate::run::{has_program, output_of, root_command, show, step, target_dir, workspace_root};
use crate::{package, setup, ubuntu};
use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Systems and parts to run.
#[derive(Args)]
pub(crate) struct Wanted {
    /// The distributions [default: all]
    #[arg(value_enum)]
    systems: Vec<System>,
    /// Parts to run there (repeatable) [default: all]
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Create the bare roots again instead of using the archives in the cache folder
    #[arg(long)]
    anew: bool,
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// Debian 12
    Debian,
    /// Ubuntu 22.04
    Ubuntu,
}

/// Part of a user's work on the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// `cargo xtask demo`
    Demo,
    /// `cargo xtask test`
    Test,
    /// The .deb, without Rust: installed, used, purged
    Package,
}

impl System {
    fn name(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Ubuntu => "ubuntu",
        }
    }

    /// Its release name, which is also the name of debootstrap's script.
    fn suite(self) -> &'static str {
        match self {
            Self::Debian => "bookworm",
            Self::Ubuntu => "jammy",
        }
    }

    fn archive(self) -> &'static str {
        match self {
            Self::Debian => "http://deb.debian.org/debian",
            Self::Ubuntu => ubuntu::ARCHIVE,
        }
    }

    /// The package sources of an installed system.
    fn sources(self) -> String {
        let (suite, archive) = (self.suite(), self.archive());
        let line = |archive: &str, suite: &str, rest: &str| format!("deb {archive} {suite} {rest}\n");
        match self {
            Self::Debian => [
                line(archive, suite, "main"),
                line(archive, "bookworm-updates", "main"),
                line("http://deb.debian.org/debian-security", "bookworm-security", "main"),
            ],
            Self::Ubuntu => {
                let rest = "main restricted universe multiverse";
                ["", "-updates", "-security"].map(|pocket| line(archive, &format!("{suite}{pocket}"), rest))
            }
        }
        .concat()
    }

    /// The keys that sign its archive.
    fn keyring(self, folder: &Path) -> Result<PathBuf> {
        match self {
            Self::Debian => Ok(PathBuf::from("/usr/share/keyrings/debian-archive-keyring.gpg")),
            Self::Ubuntu => ubuntu::keyring(folder),
        }
    }
}

/// Scripts, and what they read, by name.
const SCRIPTS: [(&str, &str); 7] = [
    ("root.sh", include_str!("fresh/root.sh")),
    ("base.sh", include_str!("fresh/base.sh")),
    ("enter.sh", include_str!("fresh/enter.sh")),
    ("run.sh", include_str!("fresh/run.sh")),
    ("source.sh", include_str!("fresh/source.sh")),
    ("installed.sh", include_str!("fresh/installed.sh")),
    ("skips", include_str!("fresh/skips")),
];

/// Environment variables for the network access of programs.
const PASSED_ON: [&str; 17] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CARGO_HTTP_PROXY",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "PIP_PROXY",
    "PIP_DEFAULT_TIMEOUT",
    "RUSTUP_AUTO_INSTALL",
];

/// Runs the parts on the distributions, one after the other, and prints their durations.
///
/// # Errors
/// Names missing prerequisites, and failed parts with their system.
pub(crate) fn fresh(wanted: &Wanted) -> Result<()> {
    setup::fresh_tools()?;
    let or_all =
        |given: &[System]| if given.is_empty() { System::value_variants().to_vec() } else { given.to_vec() };
    let parts = if wanted.only.is_empty() { Part::value_variants() } else { &wanted.only[..] };
    let mut failed = Vec::new();
    let deb = if parts.contains(&Part::Package) { Some(package::native_deb()?) } else { None };
    for system in or_all(&wanted.systems) {
        let base = base(system, wanted.anew)?;
        let from_source: Vec<&str> = [(Part::Demo, "demo"), (Part::Test, "test")]
            .into_iter()
            .filter_map(|(part, name)| parts.contains(&part).then_some(name))
            .collect();
        let mut runs = Vec::new();
        if let Some(deb) = &deb {
            runs.push(("package", Stage::installed(system, deb)));
        }
        if !from_source.is_empty() {
            runs.push(("source", Stage::source(system, &from_source)));
        }
        for (what, stage) in runs {
            let name = format!("{} ({what})", system.name());
            if let Err(error) = step(&format!("a bare {name}"), || stage?.run(&base)) {
                failed.push(format!("{name}: {error:#}"));
            }
        }
    }
    ensure!(failed.is_empty(), "on a bare root not all is well:\n  {}", failed.join("\n  "));
    Ok(())
}

/// The archive of a bare root, created once.
fn base(system: System, anew: bool) -> Result<PathBuf> {
    let cache = cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no folder for the bare root")?;
    let cache = cache.join("fresh");
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let archive = cache.join(format!("{}.tar", system.suite()));
    if archive.is_file() && !anew {
        return Ok(archive);
    }
    let stage = Stage::new(system, "base")?;
    let sources = stage.write("sources.list", &system.sources())?;
    let keyring = system.keyring(&stage.files)?;
    step(&format!("debootstrap {} (minutes, once)", system.suite()), || {
        stage.enter("base.sh", |command| {
            command
                .args([system.suite(), system.archive(), system.suite()])
                .args([&keyring, &sources, &archive])
        })
    })?;
    Ok(archive)
}

/// A folder below `target` with the files for a root, and with the root itself while it exists.
struct Stage {
    /// Removed at the end, by root.
    folder: PathBuf,
    /// `/fresh` inside.
    files: PathBuf,
    /// The toolchain and cargo's folder, for a root with Rust.
    rust: Option<[PathBuf; 2]>,
}

impl Stage {
    fn new(system: System, name: &str) -> Result<Self> {
        let folder = target_dir().join("fresh").join(format!("{}-{name}", system.name()));
        let files = folder.join("files");
        fs::create_dir_all(&files).with_context(|| format!("cannot create {}", files.display()))?;
        let stage = Self { folder, files, rust: None };
        for (name, text) in SCRIPTS {
            stage.write(name, text)?;
        }
        Ok(stage)
    }

    /// A stage with a clean clone, for a user who has Rust.
    fn source(system: System, parts: &[&str]) -> Result<Self> {
        let rust = rust()?;
        let stage = Self { rust: Some(rust), ..Self::new(system, "source")? };
        stage.write("wanted", &parts.join(" "))?;
        stage.write("parts", include_str!("fresh/source.sh"))?;
        stage.settings("export RUSTUP_HOME=/opt/rustup\nexport PATH=/opt/rust:$PATH\n")?;
        let clone = stage.files.join("repository");
        let _ = fs::remove_dir_all(&clone);
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-hardlinks"]).arg(workspace_root()).arg(&clone);
        crate::run::run(git.stdin(Stdio::null()))?;
        let cargo_home = env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        if let Some(config) =
            cargo_home.map(|home| home.join("config.toml")).filter(|config| config.is_file())
        {
            fs::copy(&config, stage.files.join("cargo.toml"))
                .with_context(|| format!("cannot copy {}", config.display()))?;
        }
        Ok(stage)
    }

    /// A stage with a package, for a user without Rust.
    fn installed(system: System, deb: &Path) -> Result<Self> {
        let stage = Self::new(system, "package")?;
        stage.write("parts", include_str!("fresh/installed.sh"))?;
        stage.settings("")?;
        fs::copy(deb, stage.files.join("rocescope.deb"))
            .with_context(|| format!("cannot copy {}", deb.display()))?;
        Ok(stage)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let place = self.files.join(name);
        fs::write(&place, text).with_context(|| format!("cannot write {}", place.display()))?;
        Ok(place)
    }

    /// Writes settings for network access: lines for the user's profile, and apt's.
    fn settings(&self, profile: &str) -> Result<()> {
        let variables = PASSED_ON.iter().filter_map(|name| Some((*name, env::var(name).ok()?)));
        self.write("settings", &exports(profile, variables))?;
        let apt = output_of(Command::new("apt-config").args(["dump", "Acquire"])).unwrap_or_default();
        self.write("apt.conf", &apt_settings(&apt)).map(drop)
    }

    fn run(&self, base: &Path) -> Result<()> {
        self.enter("enter.sh", |command| command.arg(base).arg(&self.files).args(self.rust.iter().flatten()))
    }

    /// Runs a script as root in separate namespaces. They and the folder are removed afterwards, even if this process
    /// is killed, since the pipe that root.sh reads is then closed.
    fn enter(&self, script: &str, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Result<()> {
        let mut command = root_command("sh", "a bare root")?;
        command
            .arg(self.files.join("root.sh"))
            .arg(&self.folder)
            .arg(self.files.join(script))
            .arg(&self.folder);
        arguments(&mut command);
        let shown = show(&command);
        let mut child =
            command.stdin(Stdio::piped()).spawn().with_context(|| format!("cannot start `{shown}`"))?;
        let lifeline = child.stdin.take();
        let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
        drop(lifeline);
        ensure!(status.success(), "it ended with {status}: see its lines above");
        Ok(())
    }
}

/// The folder of rustup's toolchains, and that of its programs.
fn rust() -> Result<[PathBuf; 2]> {
    let home = output_of(Command::new("rustup").args(["show", "home"]));
    let Some(home) = home.filter(|_| has_program("rustup")) else {
        bail!("a bare root gets the Rust of this machine, which must be rustup's: install rustup")
    };
    let programs = crate::ebpf_toolchain::find_on_path("rustup").context("rustup is not on PATH")?;
    let programs = programs.parent().context("rustup lies in no folder")?.to_owned();
    Ok([PathBuf::from(home.trim()), programs])
}

/// Lines of a shell profile.
fn exports<'a>(profile: &str, variables: impl Iterator<Item = (&'a str, String)>) -> String {
    variables.fold(profile.to_owned(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "export {name}='{}'", value.replace('\'', r"'\''"));
        text
    })
}

/// apt's settings for network access and for tolerance of server clocks.
fn apt_settings(dump: &str) -> String {
    let is_wanted = |line: &&str| {
        ["Acquire::http", "Acquire::https", "Acquire::Check"].iter().any(|begin| line.starts_with(begin))
    };
    dump.lines().filter(is_wanted).fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted() {
        let text = exports("a\n", [("B", "it's".to_owned())].into_iter());
        assert_eq!(text, "a\nexport B='it'\\''s'\n");
    }

    #[test]
    fn apt_reaches_servers_as_it_does_here() {
        let dump = "Acquire \"\";\nAcquire::http::Proxy \"http://p:3128\";\nAcquire::Languages \"none\";\n\
                    Acquire::Check-Date \"false\";\n";
        assert_eq!(
            apt_settings(dump),
            "Acquire::http::Proxy \"http://p:3128\";\nAcquire::Check-Date \"false\";\n"
        );
    }

    #[test]
    fn sources_have_security_updates() {
        for system in System::value_variants() {
            assert!(system.sources().contains("-security"), "{system:?}");
        }
    }
}
