//! The guest's kernel and its shell: packages of Debian and, for other kernels, of Ubuntu, downloaded and unpacked,
//! not installed.

use super::apt::{Apt, Kernel};
use super::processor::Processor;
use super::userland::{self, Userland};
use crate::run::{has_program, root_command, run, say, step};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package with a shell.
pub(super) const SHELL: &str = "busybox-static";
/// The first kernel on which TC programs attach as links, and which is therefore too new for tests of older ones.
const TOO_NEW: (u32, u32) = (6, 6);
/// Modules of the interfaces that the tests create, and those that the kernel loads when a TC filter is added.
const MODULES: [&str; 10] =
    ["veth", "8021q", "bridge", "bonding", "macvlan", "vxlan", "dummy", "tun", "sch_ingress", "cls_bpf"];
/// Soft-RoCE, modules used by its applications, and modules that drop or change its traffic. Also a driver without
/// its hardware.
const RDMA_MODULES: [&str; 12] = [
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "sch_netem",
    "sch_red",
    "sch_tbf",
    "cls_u32",
    "act_gact",
    "act_mirred",
    "act_pedit",
    "act_csum",
    "mlx5_core",
];
/// Modules that not every kernel has: another driver without its hardware, and checksums, which newer kernels have in
/// a library.
const PERHAPS: [&str; 3] = ["bnxt_re", "crc32_generic", "crc32c_generic"];
/// Modules for the folder shared by guest and host.
const SHARE_MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];

/// Parts of the guest.
pub(super) struct Parts {
    /// The processor for which all of it is.
    pub(super) processor: Processor,
    /// Image of the kernel.
    pub(super) kernel: PathBuf,
    /// Its release, as printed by `uname -r`.
    pub(super) release: String,
    /// A folder that becomes the guest's `/lib/modules/<release>`.
    pub(super) modules: PathBuf,
    /// A shell and other basic programs in one static executable.
    pub(super) busybox: PathBuf,
    /// A folder that becomes the guest's `/`: its programs and their libraries.
    pub(super) userland: PathBuf,
}

/// Downloads the parts into and below `dir`. Existing parts are reused.
///
/// # Errors
/// Fails if the packages are not available, or the kernel is not one for the test.
pub(super) fn parts(dir: &Path, kernel: &Kernel, processor: Processor, programs: &Userland) -> Result<Parts> {
    if !has_program("apt-get") || !has_program("dpkg-deb") {
        bail!(
            "the guest is made of Debian's packages, which needs apt-get and dpkg-deb: run this on Debian 12"
        );
    }
    // Packages of another processor have the same names.
    let dir = &match processor {
        Processor::X86 => dir.to_path_buf(),
        Processor::Arm => dir.join(processor.debian()),
    };
    // The programs come from the distribution, whose kernel it may not be.
    let own = Apt::new(dir, &Kernel::Distribution, processor)?;
    let (kernel_package, shell_package) = step("getting a kernel and a shell for the guest", || {
        let apt = Apt::new(dir, kernel, processor)?;
        let names = apt.kernel(kernel).or_else(|| {
            apt.update().ok()?;
            apt.kernel(kernel)
        });
        let names = names.with_context(|| kernel.unknown())?;
        Ok((unpacked(dir, &names, &apt)?, unpacked(dir, &[SHELL.to_owned()], &own)?))
    })?;
    let userland = step("getting the guest's programs", || userland::tree(dir, programs, &own))?;
    let release = only_entry(&kernel_package.join("lib/modules"))?;
    if *kernel == Kernel::Distribution && !is_older(&release) {
        bail!(
            "the kernel of this distribution is {release}, but this test is for kernels before {}.{}: run it on Debian 12",
            TOO_NEW.0,
            TOO_NEW.1
        );
    }
    let modules = modules(dir, &kernel_package, &release)?;
    Ok(Parts {
        processor,
        kernel: kernel_package.join(format!("boot/vmlinuz-{release}")),
        busybox: shell_package.join("bin/busybox"),
        userland,
        release,
        modules,
    })
}

/// Updates apt's package lists.
///
/// # Errors
/// Fails if apt fails.
pub(super) fn update() -> Result<()> {
    run(root_command("apt-get", "updating the list of packages")?
        .args(["update", "--quiet=2"])
        .stdin(Stdio::null()))
}

/// Downloads packages and unpacks them into a folder of `dir` with the name of the first, once, without installing.
///
/// # Errors
/// Fails if one is not available.
pub(crate) fn unpack(dir: &Path, packages: &[&str]) -> Result<PathBuf> {
    let packages: Vec<String> = packages.iter().map(|package| (*package).to_owned()).collect();
    unpacked(dir, &packages, &Apt::default())
}

/// The folder with the unpacked packages, named after the first.
fn unpacked(dir: &Path, packages: &[String], apt: &Apt) -> Result<PathBuf> {
    let package = packages.first().context("no package is named")?;
    let place = dir.join(package);
    if place.is_dir() {
        return Ok(place);
    }
    let downloads = dir.join("packages");
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    if download_from(apt, &downloads, &names).is_err() {
        // With outdated lists, the named versions may have been replaced.
        apt.update()?;
        download_from(apt, &downloads, &names)
            .with_context(|| format!("cannot get the package {}", names.join(" ")))?;
    }
    // All or nothing: an interrupted run must not leave a partial kernel.
    let partial = dir.join(format!("{package}.partial"));
    let _ = fs::remove_dir_all(&partial);
    for package in packages {
        let file = newest(&downloads, &format!("{package}_"))
            .with_context(|| format!("apt-get left no package {package} in {}", downloads.display()))?;
        extract(&file, &partial)?;
        say(&format!("unpacked {}", file.file_name().unwrap_or_default().to_string_lossy()));
    }
    fs::rename(&partial, &place).with_context(|| format!("cannot create {}", place.display()))?;
    Ok(place)
}

/// Downloads packages into a folder, each by its name or as `name=version`.
///
/// # Errors
/// Fails if one of them is not available.
pub(super) fn download_from(apt: &Apt, into: &Path, packages: &[&str]) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut command = Command::new("apt-get");
    command.args(apt.options());
    // As root, apt would download as a user without write permission here, and print a warning.
    command.args(["download", "--quiet=2", "-o", "APT::Sandbox::User=root"]).args(packages);
    run(command.current_dir(into).stdin(Stdio::null()))
}

/// Unpacks a package into a folder, which may already contain others.
///
/// # Errors
/// Fails if it is not a package, or the folder cannot be written.
pub(super) fn extract(package: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut files = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start dpkg-deb")?;
    let archive = files.stdout.take().context("dpkg-deb has no standard output")?;
    // Folders that are symbolic links here stay so; `dpkg-deb --extract` would replace them.
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--keep-directory-symlink", "--no-same-owner", "--directory"])
        .arg(into)
        .arg("--file=-");
    let unpacked = run(tar.stdin(archive));
    let read = files.wait().context("cannot wait for dpkg-deb")?;
    anyhow::ensure!(read.success(), "{} is not a package: dpkg-deb ended with {read}", package.display());
    unpacked
}

/// The most recently modified file with this prefix.
fn newest(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let files = fs::read_dir(dir).ok()?.flatten();
    files
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok())
        .map(|entry| entry.path())
}

fn only_entry(dir: &Path) -> Result<String> {
    let mut entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let first = entries.next().with_context(|| format!("{} is empty", dir.display()))??;
    Ok(first.file_name().to_string_lossy().into_owned())
}

/// The required modules with their dependencies, and the index for modprobe.
fn modules(dir: &Path, kernel: &Path, release: &str) -> Result<PathBuf> {
    let below = format!("lib/modules/{release}");
    let all = kernel.join(&below);
    if !all.join("modules.dep").is_file() {
        run(Command::new("depmod").arg("-b").arg(kernel).arg(release).env("PATH", system_path()))?;
    }
    let root = dir.join(format!("modules-{release}"));
    let _ = fs::remove_dir_all(&root);
    let copy = |path: &Path| -> Result<()> {
        let inside =
            path.strip_prefix(&all).with_context(|| format!("{} is not a module", path.display()))?;
        let target = root.join(&below).join(inside);
        fs::create_dir_all(target.parent().unwrap_or(&root))?;
        fs::copy(path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        // Decompressed here, to save the guest's module loader the work.
        match target.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => run(Command::new("xz").args(["--decompress", "--force"]).arg(&target)),
            Some("zst") => {
                run(Command::new("zstd").args(["--decompress", "--force", "--quiet", "--rm"]).arg(&target))
            }
            _ => Ok(()),
        }
    };
    let builtin = fs::read_to_string(all.join("modules.builtin")).unwrap_or_default();
    let index = fs::read_to_string(all.join("modules.dep")).context("depmod left no list of modules")?;
    for module in MODULES.iter().chain(&RDMA_MODULES).chain(&PERHAPS).chain(&SHARE_MODULES) {
        match needed(&index, module) {
            Some(files) => files.into_iter().try_for_each(|file| copy(&all.join(file)))?,
            None if is_builtin(&builtin, module) || PERHAPS.contains(module) => {}
            None => bail!("the kernel {release} has no module {module}"),
        }
    }
    for list in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        copy(&all.join(list))?;
    }
    run(Command::new("depmod").arg("-b").arg(&root).arg(release).env("PATH", system_path()))?;
    Ok(root.join(below))
}

/// True if a module is built into the kernel, according to `modules.builtin`.
fn is_builtin(list: &str, module: &str) -> bool {
    list.lines().any(|file| {
        let name = Path::new(file).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        name.replace('-', "_") == module
    })
}

/// The files of a module and its dependencies, from depmod's `modules.dep`.
fn needed<'a>(index: &'a str, module: &str) -> Option<Vec<&'a str>> {
    index.lines().find_map(|line| {
        let (file, others) = line.split_once(':')?;
        let name = Path::new(file).file_name()?.to_str()?;
        // Compressed modules have a second extension.
        if name.split('.').next()?.replace('-', "_") != module {
            return None;
        }
        Some(std::iter::once(file).chain(others.split_whitespace()).collect())
    })
}

/// `PATH` with system folders, where Debian keeps depmod.
fn system_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// True on kernels before [`TOO_NEW`].
pub(super) fn is_older(release: &str) -> bool {
    version(release).is_some_and(|version| version < TOO_NEW)
}

/// Major and minor number of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_what_they_need() {
        let index = "kernel/net/802/stp.ko: kernel/net/llc/llc.ko\n\
                     kernel/net/a/sch-x.ko.xz:\n\
                     kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko kernel/net/llc/llc.ko\n";
        let bridge = ["kernel/net/bridge/bridge.ko", "kernel/net/802/stp.ko", "kernel/net/llc/llc.ko"];
        assert_eq!(needed(index, "bridge").unwrap(), bridge);
        assert_eq!(needed(index, "sch_x").unwrap(), ["kernel/net/a/sch-x.ko.xz"]);
        assert_eq!(needed(index, "llc"), None);
        let builtin = "kernel/drivers/virtio/virtio-pci.ko\nkernel/fs/ext4/ext4.ko\n";
        assert!(is_builtin(builtin, "virtio_pci") && !is_builtin(builtin, "virtio"));
    }

    #[test]
    fn releases_compare_as_numbers() {
        assert_eq!(version("6.1.0-49-amd64"), Some((6, 1)));
        assert!(is_older("5.15.0-204-generic") && !is_older("6.12.3+deb13-amd64"));
        assert_eq!(version("amd64"), None);
    }
}
