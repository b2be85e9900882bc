//! `cargo xtask package`: archives, .deb and .rpm of the static programs, with manual pages, completions, units,
//! licences, an SBOM and checksums. The same commit gives the same bytes.

mod archive;
mod compare;
mod container;
mod dependencies;
mod image;
mod lint;
mod oci;
mod readers;
mod systemd;
mod tree;

use crate::dist::{self, Dist, Target};
use crate::run::{output_of, step, target_dir, workspace_root};
use crate::setup;
use crate::vm;
use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use compare::compare;

/// Maintainer named in the packages.
const MAINTAINER: &str = "rocescope contributors <rocescope@users.noreply.github.com>";

/// Properties common to all packages of a run.
pub(crate) struct Release {
    /// Version of the program.
    version: String,
    /// Timestamp of every file, in Unix seconds: that of the commit.
    epoch: u64,
}

impl Release {
    /// The version of the workspace, with the time of its commit.
    fn of_this_tree() -> Result<Self> {
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), epoch: epoch()? })
    }
}

/// Builds the programs, then the packages.
///
/// # Errors
/// Errors of the build, or a tool that is missing and cannot be installed, or fails.
pub(crate) fn package(wanted: &Dist) -> Result<()> {
    // Before the build, which takes minutes.
    setup::packing_tools()?;
    let programs = dist::programs(wanted)?;
    let native = programs.iter().find(|(target, _)| target.is_native()).map(|(_, program)| program);
    let Some(native) = native else {
        bail!("the manual pages come from the program itself: build the target of this machine too")
    };
    let release = Release::of_this_tree()?;
    systemd::check(&workspace_root().join("deploy/systemd"))?;
    let folder = empty(target_dir().join("package"))?;
    let mut made = Vec::new();
    for (target, program) in &programs {
        made.extend(step(&format!("packing for {}", target.triple()), || {
            pack(&release, *target, program, native, &folder)
        })?);
    }
    made.sort();
    let sums: Result<String> = made.iter().map(|path| sum(path)).collect();
    let sums = sums?;
    let list = folder.join("SHA256SUMS");
    fs::write(&list, &sums).with_context(|| format!("cannot write {}", list.display()))?;
    print!("{sums}");
    Ok(())
}

/// An empty folder.
fn empty(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// The .deb for this machine, of the program named by `ROCESCOPE_BIN`, else of the static one, which is built.
///
/// # Errors
/// Errors of the build, or dpkg-deb is missing or fails.
pub(crate) fn native_deb() -> Result<PathBuf> {
    setup::packing_tools()?;
    let program = tested_program()?;
    let target = [Target::X86, Target::Arm].into_iter().find(|target| target.is_native());
    let target = target.context("no package is made for this machine")?;
    let release = Release::of_this_tree()?;
    let folder = empty(target_dir().join("package-fresh"))?;
    archive::deb(
        &release,
        target,
        &parts(&release, target, &program, &program)?,
        &folder.join(".work"),
        &folder,
    )
}

/// The program named by `ROCESCOPE_BIN`, else the static one.
fn tested_program() -> Result<PathBuf> {
    env::var_os("ROCESCOPE_BIN").map_or_else(dist::native_program, |program| Ok(PathBuf::from(program)))
}

/// Builds the packages twice, which must give the same bytes; checks them with the tools of both distributions; and
/// lets a guest with systemd install, run, upgrade and purge one. Uses the program named by `ROCESCOPE_BIN`, else the
/// static one.
///
/// # Errors
/// Names the faults, or missing prerequisites.
pub(crate) fn test() -> Result<()> {
    setup::package_tools()?;
    let program = tested_program()?;
    let target = Target::X86;
    let release = Release::of_this_tree()?;
    systemd::check(&workspace_root().join("deploy/systemd"))?;
    let folder = empty(target_dir().join("package-test"))?;
    let [first, second] = ["first", "second"].map(|name| folder.join(name));
    let made = step("packing twice", || {
        let made = pack(&release, target, &program, &program, &empty(first)?)?;
        let again = pack(&release, target, &program, &program, &empty(second)?)?;
        ensure!(made.len() == again.len(), "the second run made other files");
        for (one, other) in made.iter().zip(&again) {
            let same = fs::read(one).context("cannot read")? == fs::read(other).context("cannot read")?;
            ensure!(same, "{} and {} differ: packing is not reproducible", one.display(), other.display());
        }
        Ok(made)
    })?;
    let newer = Release { version: format!("{}+next", release.version), ..release };
    let (upgrade, upgrade_rpm) = step("packing a higher version", || {
        let to = empty(folder.join("newer"))?;
        let parts = parts(&newer, target, &program, &program)?;
        let deb = archive::deb(&newer, target, &parts, &to.join(".work"), &to)?;
        Ok((deb, archive::rpm(&newer, target, &parts, &to.join(".work"), &to)?))
    })?;
    let of_kind = |all: &[PathBuf], kind: &str| {
        let found = all.iter().find(|path| path.extension().is_some_and(|extension| extension == kind));
        found.cloned().with_context(|| format!("no .{kind} was made"))
    };
    let image = of_kind(&made, "tar")?;
    if let Some(version) =
        step("running the image", || image::run_in(&image, &folder.join("image"), "--version"))?
    {
        ensure!(version.contains(env!("CARGO_PKG_VERSION")), "the image has another program: {version}");
    }
    step("running the image in a container", || container::run_in(&image, &folder.join("container")))?;
    step("completions, read by their shells", || {
        readers::completions(&program, &folder.join("completions"))
    })?;
    step("the bill of materials, by its schema", || readers::sbom(&of_kind(&made, "json")?))?;
    let (deb, rpm) = (of_kind(&made, "deb")?, of_kind(&made, "rpm")?);
    lint::deb(&deb)?;
    lint::rpm(&rpm)?;
    step("the .rpm installed, upgraded and removed", || {
        readers::rpm(&rpm, &upgrade_rpm, &folder.join("rpm"))
    })?;
    vm::packages::test(&deb, &upgrade)
}

/// The parts of the packages for a target.
fn parts<'a>(
    release: &Release,
    target: Target,
    program: &'a Path,
    native: &'a Path,
) -> Result<tree::Parts<'a>> {
    let found = dependencies::of_program(target)?;
    let sbom = dependencies::sbom(&found, release)?;
    Ok(tree::Parts { program, native, licences: dependencies::licences(&found)?, sbom })
}

/// Builds everything for one target; returns the files.
fn pack(release: &Release, target: Target, program: &Path, native: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    let work = to.join(".work").join(target.triple());
    let parts = parts(release, target, program, native)?;
    let mut made = portable(release, target, &parts, &work, to)?;
    made.push(archive::deb(release, target, &parts, &work, to)?);
    made.push(archive::rpm(release, target, &parts, &work, to)?);
    fs::remove_dir_all(to.join(".work")).context("cannot remove the working folder")?;
    Ok(made)
}

/// Builds what belongs to no package manager, without its tools: SBOM, archive and image.
fn portable(
    release: &Release,
    target: Target,
    parts: &tree::Parts<'_>,
    work: &Path,
    to: &Path,
) -> Result<Vec<PathBuf>> {
    let sbom = to.join(format!("rocescope-{}-{}.cdx.json", release.version, target.triple()));
    fs::write(&sbom, &parts.sbom).with_context(|| format!("cannot write {}", sbom.display()))?;
    let archive = archive::tarball(release, target, parts, work, to)?;
    Ok(vec![sbom, archive, oci::image(release, target, parts.program, &parts.licences, work, to)?])
}

/// `SOURCE_DATE_EPOCH`, else the time of the commit.
fn epoch() -> Result<u64> {
    let given = env::var("SOURCE_DATE_EPOCH").ok();
    let of_commit =
        || output_of(Command::new("git").current_dir(workspace_root()).args(["log", "-1", "--format=%ct"]));
    let text = given.or_else(of_commit).unwrap_or_default();
    text.trim()
        .parse()
        .context("neither SOURCE_DATE_EPOCH nor git gives the time that files in the packages have")
}

/// A line that `sha256sum --check` reads in the folder of the packages.
fn sum(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let digits: Vec<String> = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}  {name}\n", digits.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::has_program;
    use std::os::unix::fs::PermissionsExt as _;

    /// A stand-in with the program's output that packages contain.
    const PROGRAM: &str = "#!/bin/sh
case $1 in
manual) mkdir -p \"$2\"; echo .TH rocescope 1 > \"$2/rocescope.1\" ;;
*) echo \"# $1 $2\" ;;
esac
";

    fn packed(program: &Path, to: &Path) -> Vec<(String, Vec<u8>)> {
        fs::create_dir_all(to).unwrap();
        let release = Release { version: "1.2.3".to_owned(), epoch: 1_700_000_000 };
        let mut made = Vec::new();
        for target in [Target::X86, Target::Arm] {
            let work = to.join(".work").join(target.triple());
            let parts = parts(&release, target, program, program).unwrap();
            made.extend(portable(&release, target, &parts, &work, to).unwrap());
            // Set-up installs these where packages are built.
            if has_program("dpkg-deb") {
                made.push(archive::deb(&release, target, &parts, &work, to).unwrap());
            }
            if has_program("rpmbuild") {
                made.push(archive::rpm(&release, target, &parts, &work, to).unwrap());
            }
        }
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut all: Vec<_> = made.iter().map(|path| (name(path), fs::read(path).unwrap())).collect();
        all.sort();
        all
    }

    #[test]
    fn the_same_program_gives_the_same_bytes() {
        let folder = env::temp_dir().join(format!("rocescope-package-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let first = packed(&program, &folder.join("a"));
        // Timestamps in archives have a resolution of one second.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let second = packed(&program, &folder.join("b"));
        let listed = output_of(
            Command::new("tar")
                .arg("-tzf")
                .arg(folder.join("a/rocescope-1.2.3-x86_64-unknown-linux-musl.tar.gz")),
        );
        let deb = folder.join("a/rocescope_1.2.3_amd64.deb");
        let of_deb = deb.exists().then(|| output_of(Command::new("dpkg-deb").arg("-c").arg(&deb)).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        for (one, other) in first.iter().zip(&second) {
            assert!(one == other, "{} differs", one.0);
        }
        assert_eq!(first.len(), second.len());
        let made: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "rocescope-1.2.3-aarch64-unknown-linux-musl.tar.gz",
            "rocescope-1.2.3-aarch64-unknown-linux-musl.cdx.json",
            "rocescope-1.2.3-arm64.oci.tar",
            "rocescope-1.2.3-amd64.oci.tar",
        ] {
            assert!(made.contains(&name), "{name}: {made:?}");
        }
        for (program, name) in
            [("dpkg-deb", "rocescope_1.2.3_arm64.deb"), ("rpmbuild", "rocescope-1.2.3-1.aarch64.rpm")]
        {
            assert!(!has_program(program) || made.contains(&name), "{name}: {made:?}");
        }
        let listed = listed.unwrap();
        for name in [
            "/rocescope\n",
            "completions/_rocescope",
            "man/rocescope.1",
            "systemd/rocescope-agent.service",
            "agent.toml",
        ] {
            assert!(listed.contains(name), "{name}: {listed}");
        }
        for name in [
            "./usr/bin/rocescope\n",
            "man1/rocescope.1.gz",
            "vendor-completions/_rocescope",
            "doc/rocescope/copyright",
        ] {
            assert!(
                of_deb.as_ref().is_none_or(|listed| listed.contains(name) && listed.contains("root/root")),
                "{name}: {of_deb:?}"
            );
        }
    }
}
