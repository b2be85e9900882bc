//! Programs of a guest with their libraries: Debian's packages, unpacked into one tree. Nothing is installed and no
//! maintainer script runs, so that no root is needed.

use super::apt::Apt;
use super::debian::{download_from, extract};
use crate::run::{output_of, run, say};
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs of a guest.
pub(super) struct Userland {
    /// Name of its folder.
    name: &'static str,
    /// Its packages, without dependencies.
    packages: &'static [&'static str],
    /// Folders that no program there reads, left out to reduce the size of the guest.
    left_out: &'static [&'static str],
    /// True if `/bin`, `/sbin` and `/lib` are links into `/usr`, as on an installed Debian.
    is_merged: bool,
}

/// Programs for RDMA devices that the tests use.
pub(super) const RDMA: Userland = Userland {
    name: "userland",
    packages: &[
        "perftest",
        "rdmacm-utils",
        "ibverbs-utils",
        "ibverbs-providers",
        "iproute2",
        "tcpdump",
        // setpriv; that of busybox changes no user.
        "util-linux",
    ],
    left_out: &["usr/share", "var", "usr/lib/x86_64-linux-gnu/gconv"],
    is_merged: false,
};

/// A host with systemd, on which packages are installed.
pub(super) const SYSTEMD: Userland = Userland {
    name: "systemd",
    packages: &[
        "systemd",
        "kmod",
        "dpkg",
        "bash",
        "dash",
        "coreutils",
        "util-linux",
        "mount",
        "procps",
        "grep",
        "sed",
        "findutils",
        "diffutils",
        "tar",
        "gzip",
        "libc-bin",
        "base-files",
        "base-passwd",
        "iproute2",
        "bpftool",
    ],
    left_out: &[
        "usr/share/doc",
        "usr/share/man",
        "usr/share/info",
        "usr/share/locale",
        "usr/share/zoneinfo",
        "usr/share/perl",
        "usr/lib/x86_64-linux-gnu/gconv",
        "usr/lib/x86_64-linux-gnu/perl-base",
    ],
    is_merged: true,
};

/// Links of a merged-usr system.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// File in a tree that lists its packages.
const LIST: &str = "packages.list";

/// The folder with all of them, below `dir`. Reused until the distribution has newer versions.
///
/// # Errors
/// Fails if the packages are not available.
pub(super) fn tree(dir: &Path, userland: &Userland, apt: &Apt) -> Result<PathBuf> {
    let place = dir.join(userland.name);
    let have = fs::read_to_string(place.join(LIST)).ok();
    let wanted = match (closure(dir, userland, apt), &have) {
        (Ok(wanted), _) => wanted,
        // Without package lists there is nothing newer.
        (Err(_), Some(_)) => return Ok(place),
        (Err(_), None) => {
            apt.update()?;
            closure(dir, userland, apt)?
        }
    };
    let list = wanted.join("\n");
    if have.as_deref() == Some(&list) {
        return Ok(place);
    }
    let partial = dir.join(format!("{}.partial", userland.name));
    let downloads = dir.join(format!("{}.packages", userland.name));
    let _ = fs::remove_dir_all(&partial);
    let names = |wanted: &[String]| -> Result<()> {
        let _ = fs::remove_dir_all(&downloads);
        download_from(apt, &downloads, &wanted.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let list = if names(&wanted).is_ok() {
        list
    } else {
        // With outdated lists, the named versions may have been replaced.
        apt.update()?;
        let newer = closure(dir, userland, apt)?;
        names(&newer).context("cannot get the programs for the guest")?;
        newer.join("\n")
    };
    let packages =
        fs::read_dir(&downloads).with_context(|| format!("cannot read {}", downloads.display()))?;
    if userland.is_merged {
        merge(&partial)?;
    }
    for package in packages {
        extract(&package?.path(), &partial)?;
    }
    for folder in userland.left_out {
        let _ = fs::remove_dir_all(partial.join(folder));
    }
    fs::write(partial.join(LIST), &list).context("cannot write the list of packages")?;
    // All or nothing: an interrupted run must not leave a partial tree.
    let _ = fs::remove_dir_all(&place);
    fs::rename(&partial, &place).with_context(|| format!("cannot create {}", place.display()))?;
    let _ = fs::remove_dir_all(&downloads);
    say(&format!("unpacked {} packages for the guest", list.lines().count()));
    Ok(place)
}

/// Creates the links of a merged-usr system, through which packages are unpacked.
fn merge(root: &Path) -> Result<()> {
    for name in MERGED {
        let folder = root.join("usr").join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let link = root.join(name);
        symlink(format!("usr/{name}"), &link).with_context(|| format!("cannot create {}", link.display()))?;
    }
    Ok(())
}

/// The packages with all dependencies, as `name=version`: what apt would install on an empty system.
fn closure(dir: &Path, userland: &Userland, apt: &Apt) -> Result<Vec<String>> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let nothing = dir.join("nothing-installed");
    fs::write(&nothing, "").with_context(|| format!("cannot write {}", nothing.display()))?;
    let mut command = Command::new("apt-get");
    command.args(apt.options()).args([
        "--simulate",
        "--no-install-recommends",
        "-o",
        "Debug::NoLocking=true",
        "-o",
    ]);
    command.arg(format!("Dir::State::status={}", nothing.display()));
    command.arg("install").args(userland.packages).env("LC_ALL", "C");
    let packages = output_of(&mut command).map(|text| installed(&text)).unwrap_or_default();
    if packages.is_empty() {
        // Again, to show apt's error message.
        run(command.stdin(Stdio::null()).stdout(Stdio::null()))
            .context("apt does not know the packages of the guest's programs")?;
    }
    Ok(packages)
}

/// The packages in the output of a simulated installation.
fn installed(text: &str) -> Vec<String> {
    let one = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
        Some(format!("{name}={}", rest.split_whitespace().next()?))
    };
    let mut found: Vec<String> = text.lines().filter_map(one).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_names_packages_and_versions() {
        let text = "Reading package lists...\n\
                    Inst perftest (4.5+0.20-1 Debian:12.14/oldstable [amd64])\n\
                    Inst libc6 (2.36-9+deb12u13 Debian:12.14/oldstable [amd64]) []\n\
                    Conf perftest (4.5+0.20-1 Debian:12.14/oldstable [amd64])\n";
        assert_eq!(installed(text), ["libc6=2.36-9+deb12u13", "perftest=4.5+0.20-1"]);
        assert_eq!(installed("E: Unable to locate package perftest\n"), Vec::<String>::new());
    }
}
