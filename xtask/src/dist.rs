//! `cargo xtask dist`: the program as one static executable, for hosts without Rust.

mod elf;

use crate::build::{commit, with_ebpf};
use crate::check::ensure_target;
use crate::ebpf_toolchain::EbpfToolchain;
use crate::run::{cargo, output_of, run, say, step, target_dir, workspace_root};
use crate::setup;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use elf::Machine;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Replacements for the folders of crates and of this repository.
const REPLACED: [&str; 2] = ["/cargo", "/rocescope"];

/// The targets to build for.
#[derive(Args)]
pub(crate) struct Dist {
    /// Build only for this target (repeatable) [default: x86_64-unknown-linux-musl and aarch64-unknown-linux-musl,
    /// installed if missing]
    #[arg(long = "target", value_name = "TARGET", value_parser = Target::parse)]
    targets: Vec<Target>,
}

impl Dist {
    /// All of them.
    fn all(&self) -> Vec<Target> {
        if self.targets.is_empty() { vec![Target::X86, Target::Arm] } else { self.targets.clone() }
    }

    /// The arguments that ask for these targets.
    pub(crate) fn arguments(&self) -> Vec<String> {
        self.targets.iter().map(|target| format!("--target={}", target.triple())).collect()
    }
}

/// A target whose programs need no C library on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    X86,
    Arm,
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let all = [Self::X86, Self::Arm];
        all.into_iter().find(|target| target.triple() == text).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|target| target.triple()).collect();
            format!("only static programs for 64-bit Linux are made: {}", names.join(" or "))
        })
    }

    /// Its name in rustc.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-unknown-linux-musl",
            Self::Arm => "aarch64-unknown-linux-musl",
        }
    }

    /// Advice for a build without it.
    fn left_out(self) -> String {
        let other = if self == Self::X86 { Self::Arm } else { Self::X86 };
        format!("`--target {}` builds without it", other.triple())
    }

    /// Debian's name of the architecture.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Name of the target in rpm.
    pub(crate) fn rpm(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// True if its programs run on this machine.
    pub(crate) fn is_native(self) -> bool {
        self.rpm() == std::env::consts::ARCH
    }

    /// Environment variable for rustc that replaces local paths in programs for the target, since these would differ
    /// between machines.
    fn flags(self) -> (String, String) {
        let name = self.triple().to_uppercase().replace('-', "_");
        let [crates, repository] = REPLACED;
        let of_crates =
            cargo_home().map(|home| format!("--remap-path-prefix={home}={crates} ")).unwrap_or_default();
        let value = format!("{of_crates}--remap-path-prefix={}={repository}", workspace_root().display());
        (format!("CARGO_TARGET_{name}_RUSTFLAGS"), value)
    }

    fn machine(self) -> Machine {
        match self {
            Self::X86 => Machine::X86_64,
            Self::Arm => Machine::Aarch64,
        }
    }

    /// rustc includes everything for linking musl programs except, for a foreign architecture, the linker: the local
    /// C compiler links only for this machine.
    pub(crate) fn foreign_linker(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::X86 if !cfg!(target_arch = "x86_64") => {
                Some(("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"))
            }
            Self::Arm if !cfg!(target_arch = "aarch64") => {
                Some(("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"))
            }
            _ => None,
        }
    }
}

/// Builds, checks and prints the locations of the programs.
///
/// # Errors
/// Errors of set-up or build, or a program that is not static.
pub(crate) fn dist(wanted: &Dist) -> Result<()> {
    for (_, path) in programs(wanted)? {
        println!("{}", describe(&path)?);
    }
    Ok(())
}

/// Builds and checks the programs.
///
/// # Errors
/// Those of [`dist`].
pub(crate) fn programs(wanted: &Dist) -> Result<Vec<(Target, PathBuf)>> {
    let toolchain = setup::ebpf_toolchain()?;
    let targets = wanted.all();
    // Before the first build, which takes minutes.
    for target in &targets {
        ensure_target(target.triple()).map_err(|why| anyhow!("{why}; {}", target.left_out()))?;
    }
    targets.into_iter().map(|target| Ok((target, static_program(&toolchain, target)?))).collect()
}

/// Builds the program for this machine, and returns its path.
///
/// # Errors
/// Those of [`dist`], and a machine that has no such target.
pub(crate) fn native_program() -> Result<PathBuf> {
    let native = [Target::X86, Target::Arm].into_iter().find(|target| target.is_native());
    static_program(&setup::ebpf_toolchain()?, native.context("no static program is made for this machine")?)
}

/// Builds the program for one target, and returns its path below `target/static`.
///
/// # Errors
/// Errors of the build, or the dynamic part of the program.
fn static_program(toolchain: &EbpfToolchain, target: Target) -> Result<PathBuf> {
    let triple = target.triple();
    ensure_target(triple).map_err(|why| anyhow!("{why}"))?;
    step(&format!("building rocescope for {triple}"), || {
        let mut command = cargo();
        command.envs(target.foreign_linker()).envs([target.flags()]).envs(commit());
        run(with_ebpf(&mut command, toolchain)
            .args(["build", "--profile", "dist", "--target", triple, "--locked"])
            .args(["-p", "rocescope", "--bin", "rocescope", "--features", "live"]))
    })?;
    let built = target_dir().join(triple).join("dist/rocescope");
    elf::ensure_static(&built, target.machine())?;
    ensure_no_path(&built)?;
    if target.is_native() {
        let printed = output_of(Command::new(&built).arg("--version"));
        let printed = printed.with_context(|| format!("{} does not run", built.display()))?;
        ensure_version(&printed, commit().as_ref().map(|(_, commit)| commit.as_str()))?;
    }
    let folder = target_dir().join("static");
    let place = folder.join(format!("rocescope-{}-{triple}", env!("CARGO_PKG_VERSION")));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::copy(&built, &place).with_context(|| format!("cannot write {}", place.display()))?;
    Ok(place)
}

/// Fails unless the program says its version, the commit that it was built from (`None` outside of a repository), and
/// what is in it.
fn ensure_version(printed: &str, commit: Option<&str>) -> Result<()> {
    let wanted = [
        format!("rocescope {}", env!("CARGO_PKG_VERSION")),
        format!("commit: {}", commit.unwrap_or("unknown")),
        "features: live".to_owned(),
    ];
    let missing = wanted.iter().find(|line| !printed.lines().any(|printed| printed == line.as_str()));
    match missing {
        Some(line) => bail!("`rocescope --version` has no line `{line}`: {printed}"),
        None if !printed.contains("kernel programs: XDP") => bail!("it has no kernel programs: {printed}"),
        None => Ok(()),
    }
}

/// Fails if a program, including its kernel programs, contains the path of a local folder, since another folder would
/// give other bytes.
fn ensure_no_path(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let rustup = output_of(Command::new("rustup").args(["show", "home"]));
    let folders = [Some(workspace_root().display().to_string()), cargo_home(), rustup];
    // Local folders may have the same path as a replacement.
    let mut others = folders.iter().flatten().filter(|folder| !REPLACED.contains(&folder.trim()));
    match others.find(|folder| has_path(&bytes, folder.trim())) {
        Some(folder) => bail!("{} has the path {} in it", program.display(), folder.trim()),
        None => Ok(()),
    }
}

/// True if the bytes contain the path of a file in the folder.
fn has_path(bytes: &[u8], folder: &str) -> bool {
    let wanted = format!("{}/", folder.trim_end_matches('/'));
    bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes())
}

/// The folder in which cargo keeps the sources of crates.
fn cargo_home() -> Option<String> {
    let var = |name| std::env::var(name).ok();
    var("CARGO_HOME").or_else(|| Some(format!("{}/.cargo", var("HOME")?)))
}

/// A line in the format of `sha256sum --check`. Prints the file's size.
fn describe(path: &Path) -> Result<String> {
    let program = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let digest = Sha256::digest(&program);
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    say(&format!("static, stripped, {:.1} MB: {}", program.len() as f64 / 1e6, path.display()));
    Ok(format!("{}  {}", digits.concat(), path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_target_both_are_built() {
        let of = |targets: &[Target]| Dist { targets: targets.to_vec() }.all();
        assert_eq!(of(&[]), [Target::X86, Target::Arm]);
        assert_eq!(of(&[Target::Arm]), [Target::Arm]);
        assert!(Target::Arm.left_out().contains("--target x86_64-unknown-linux-musl"));
    }

    #[test]
    fn only_static_targets_are_taken() {
        assert_eq!(Target::parse("aarch64-unknown-linux-musl"), Ok(Target::Arm));
        assert!(Target::parse("x86_64-unknown-linux-gnu").unwrap_err().contains("x86_64-unknown-linux-musl"));
    }

    #[test]
    fn a_program_of_another_commit_or_without_the_kernel_side_is_found() {
        let version = env!("CARGO_PKG_VERSION");
        let text = |commit: &str, programs: &str, features: &str| {
            format!(
                "rocescope {version}\ncommit: {commit}\nkernel programs: {programs}\nfeatures: {features}\n"
            )
        };
        let good = text("0123456789ab", "XDP, TC", "live");
        assert!(ensure_version(&good, Some("0123456789ab")).is_ok());
        assert!(ensure_version(&good, Some("ba9876543210")).is_err());
        assert!(ensure_version(&text("0123456789ab", "none", "live"), Some("0123456789ab")).is_err());
        assert!(ensure_version(&text("unknown", "XDP, TC", "live"), None).is_ok());
        assert!(ensure_version(&text("unknown", "XDP, TC", "none"), None).is_err());
    }

    #[test]
    fn paths_are_found_in_programs() {
        let program = b"\x7fELF\0/home/a/.cargo/registry/x.rs\0";
        assert!(has_path(program, "/home/a/.cargo") && has_path(program, "/home/a/.cargo/"));
        assert!(!has_path(program, "/home/a/.car") && !has_path(program, "/work"));
    }

    #[test]
    fn sums_are_those_of_sha256sum() {
        let folder = std::env::temp_dir().join(format!("rocescope-dist-{}", std::process::id()));
        fs::write(&folder, b"abc").unwrap();
        let line = describe(&folder).unwrap();
        fs::remove_file(&folder).unwrap();
        // The example of FIPS 180-4.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(line, format!("{known}  {}", folder.display()));
    }
}
