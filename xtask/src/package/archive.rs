//! Packs trees of files as tar, .deb and .rpm: sorted names, the commit's time, root as owner.

use super::tree::{Layout, Parts, set_mode, write};
use super::{MAINTAINER, Release};
use crate::dist::Target;
use crate::run::{run, workspace_root};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SUMMARY: &str = "RoCE traffic analyzer for GPU hosts";
const DESCRIPTION: &str = "Shows RoCE traffic per queue pair, live through eBPF or from captures, with a
diagnosis of congestion, loss, slow receivers, bad hashing and wrong settings.
One static program; the service is installed, and not enabled.";
const HOME: &str = "https://github.com/rocescope/rocescope";

/// rocescope-VERSION-TRIPLE.tar.gz, with one folder of that name inside.
pub(crate) fn tarball(
    release: &Release,
    target: Target,
    parts: &Parts<'_>,
    work: &Path,
    to: &Path,
) -> Result<PathBuf> {
    let name = format!("rocescope-{}-{}", release.version, target.triple());
    parts.write(&work.join(&name), Layout::Tarball, release)?;
    let path = to.join(format!("{name}.tar.gz"));
    sorted_tar(release, work, &[&name], &path, true)?;
    Ok(path)
}

/// An archive of some entries of a folder.
pub(crate) fn sorted_tar(
    release: &Release,
    folder: &Path,
    entries: &[&str],
    path: &Path,
    packed: bool,
) -> Result<()> {
    let mut command = Command::new("tar");
    command
        .current_dir(folder)
        .args(["--create", "--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"])
        .arg("--mode=u=rwX,go=rX")
        .arg(format!("--mtime=@{}", release.epoch));
    if packed {
        // Without a name and a timestamp.
        command.args(["--use-compress-program", "gzip -n9"]);
    }
    run(command.arg("--file").arg(path).args(entries))
}

/// A package for Debian and Ubuntu.
pub(crate) fn deb(
    release: &Release,
    target: Target,
    parts: &Parts<'_>,
    work: &Path,
    to: &Path,
) -> Result<PathBuf> {
    let root = work.join("deb");
    parts.write(&root, Layout::Deb, release)?;
    let control = root.join("DEBIAN");
    let size = size_of_tree(&root)?.div_ceil(1024);
    let indented = format!(" {}\n", DESCRIPTION.replace('\n', "\n "));
    let fields = format!(
        "Package: rocescope\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size}\nSection: net\nPriority: optional\nHomepage: {HOME}\nDescription: {SUMMARY}\n{indented}",
        release.version,
        target.debian()
    );
    write(&control.join("control"), fields.as_bytes())?;
    write(&control.join("conffiles"), b"/etc/rocescope/agent.toml\n")?;
    let scripts = workspace_root().join("deploy/debian");
    for name in ["postinst", "prerm", "postrm"] {
        let text = fs::read(scripts.join(name)).with_context(|| format!("cannot read {name}"))?;
        write(&control.join(name), &text)?;
        set_mode(&control.join(name), 0o755)?;
    }
    folders(&root)?;
    let path = to.join(format!("rocescope_{}_{}.deb", release.version, target.debian()));
    run(Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string())
        // The bytes depend on their number. As an option, only versions since 1.21.9 know it.
        .env("DPKG_DEB_THREADS_MAX", "1")
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&root)
        .arg(&path))?;
    Ok(path)
}

/// A package for Fedora, RHEL and SUSE.
pub(crate) fn rpm(
    release: &Release,
    target: Target,
    parts: &Parts<'_>,
    work: &Path,
    to: &Path,
) -> Result<PathBuf> {
    let root = work.join("rpm");
    parts.write(&root, Layout::Rpm, release)?;
    folders(&root)?;
    let top = work.join("rpmbuild");
    let spec = work.join("rocescope.spec");
    write(&spec, spec_text(release, &root)?.as_bytes())?;
    let machine = target.rpm();
    run(Command::new("rpmbuild")
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string())
        .args(["-bb", "--quiet", "--target", machine])
        .arg("--define")
        .arg(format!("_topdir {}", top.display()))
        .args(["--define", "_buildhost rocescope", "--define", "use_source_date_epoch_as_buildtime 1"])
        .args(["--define", "clamp_mtime_to_source_date_epoch 1", "--define", "_build_id_links none"])
        .args(["--define", "_binary_payload w9.xzdio", "--define", "debug_package %{nil}"])
        .args(["--define", "__os_install_post %{nil}", "--define", "__brp_mangle_shebangs %{nil}"])
        .arg(&spec))?;
    let name = format!("rocescope-{}-1.{machine}.rpm", release.version);
    let path = to.join(&name);
    let built = top.join("RPMS").join(machine).join(&name);
    fs::copy(&built, &path).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(path)
}

/// The description from which rpmbuild packs the files below `root`.
fn spec_text(release: &Release, root: &Path) -> Result<String> {
    let mut files = Vec::new();
    list(root, &mut files)?;
    files.sort();
    let mut folders = BTreeSet::new();
    for file in &files {
        folders.extend(own_folders(root, file)?);
    }
    let folders: Vec<String> = folders.iter().map(|folder| format!("%dir \"{folder}\"\n")).collect();
    let lines: Result<Vec<String>> = files
        .iter()
        .map(|file| {
            let place = Path::new("/").join(file.strip_prefix(root).context("a file outside of the tree")?);
            let kind = match place.to_string_lossy() {
                name if name.starts_with("/etc/") => "%config(noreplace) ",
                name if name.contains("/LICENSE") => "%license ",
                name if name.starts_with("/usr/share/doc/") => "%doc ",
                _ => "",
            };
            Ok(format!("{kind}\"{}\"\n", place.display()))
        })
        .collect();
    Ok(format!(
        "Name: rocescope\nVersion: {version}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\nURL: {HOME}\n\
         AutoReqProv: no\n\n%description\n{DESCRIPTION}\n\n%install\ncp -a {root}/. %{{buildroot}}/\n\n\
         %post\n[ ! -d /run/systemd/system ] || systemctl daemon-reload || :\n\n\
         %preun\nif [ $1 -eq 0 ] && [ -d /run/systemd/system ]; then\n  \
         systemctl --no-reload disable --now rocescope-agent.socket rocescope-agent.service || :\nfi\n\n\
         %postun\nif [ -d /run/systemd/system ]; then\n  systemctl daemon-reload || :\n  \
         if [ $1 -ge 1 ]; then\n    systemctl try-restart rocescope-agent.service || :\n  fi\nfi\n\n%files\n{folders}{files}",
        version = release.version,
        root = root.display(),
        folders = folders.concat(),
        files = lines?.concat(),
    ))
}

/// The folders above a file that belong only to the package: rpm keeps folders that no package owns.
fn own_folders(root: &Path, file: &Path) -> Result<Vec<String>> {
    let place = file.strip_prefix(root).context("a file outside of the tree")?;
    let above = place.ancestors().skip(1);
    let is_own = |folder: &&Path| folder.iter().any(|name| name == "rocescope");
    Ok(above.filter(is_own).map(|folder| format!("/{}", folder.display())).collect())
}

/// The files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?.flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Makes folders accessible to everyone, whatever the umask of the build.
fn folders(folder: &Path) -> Result<()> {
    set_mode(folder, 0o755)?;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?.flatten()
    {
        if entry.path().is_dir() {
            folders(&entry.path())?;
        }
    }
    Ok(())
}

fn size_of_tree(root: &Path) -> Result<u64> {
    let mut files = Vec::new();
    list(root, &mut files)?;
    files.iter().map(|file| Ok(fs::metadata(file).context("cannot read a size")?.len())).sum()
}
