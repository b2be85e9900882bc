//! The guest's kernel and its shell: Debian's packages, downloaded and unpacked, not installed.

use super::userland::{self, Userland};
use crate::run::{has_program, output_of, root_command, run, say, step};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package that depends on a distribution's current kernel. (That for clouds has fewer modules.)
const KERNEL: &str = "linux-image-amd64";
/// The distribution's newer kernel, for what differs between kernels. No package of the machine's own lists is taken from it.
const BACKPORTS: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                         http://deb.debian.org/debian bookworm-backports main\n";
const SHELL: &str = "busybox-static";
/// The first kernel for which this whole test would be pointless: there TC programs attach as links.
const TOO_NEW: (u32, u32) = (6, 6);
/// Modules of the interfaces that the tests create, and those that the kernel loads when a TC filter is added.
const MODULES: [&str; 10] =
    ["veth", "8021q", "bridge", "bonding", "macvlan", "vxlan", "dummy", "tun", "sch_ingress", "cls_bpf"];
/// Soft-RoCE, what its users open, and what harms its traffic; with the checksums asked for by name. And a
/// driver whose hardware is not there.
const RDMA_MODULES: [&str; 13] = [
    "rdma_rxe",
    "crc32_generic",
    "crc32c_generic",
    "ib_uverbs",
    "rdma_ucm",
    "sch_netem",
    "sch_red",
    "sch_tbf",
    "cls_u32",
    "act_gact",
    "act_pedit",
    "act_csum",
    "mlx5_core",
];
/// Another driver without hardware, which not every kernel has.
const PERHAPS: [&str; 1] = ["bnxt_re"];
/// The folder that guest and host share.
const SHARE_MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];

/// Parts of the guest.
pub(super) struct Parts {
    /// Kernel image.
    pub(super) kernel: PathBuf,
    /// Its release, as `uname -r` will say.
    pub(super) release: String,
    /// A folder that becomes the guest's `/lib/modules/<release>`.
    pub(super) modules: PathBuf,
    /// A shell and other basic programs in one static file.
    pub(super) busybox: PathBuf,
    /// A folder that becomes the guest's `/`: its programs and their libraries.
    pub(super) userland: PathBuf,
}

/// The kernel of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kernel {
    /// The distribution's.
    #[default]
    Distribution,
    /// That of its backports.
    Backports,
}

/// Where apt looks.
struct Apt(Vec<String>);

impl Apt {
    /// The machine's own lists, or, below `dir`, lists of backports alone.
    fn new(dir: &Path, kernel: Kernel) -> Result<Self> {
        if kernel == Kernel::Distribution {
            return Ok(Self(Vec::new()));
        }
        let (lists, sources) = (dir.join("backports/lists"), dir.join("backports/sources.list"));
        fs::create_dir_all(lists.join("partial"))
            .with_context(|| format!("cannot create {}", lists.display()))?;
        fs::write(&sources, BACKPORTS).with_context(|| format!("cannot write {}", sources.display()))?;
        let set = [
            ("Dir::Etc::SourceList", sources.display().to_string()),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            ("Dir::State::Lists", lists.display().to_string()),
            // Those of the machine's own lists are not to be replaced.
            ("Dir::Cache::pkgcache", String::new()),
            ("Dir::Cache::srcpkgcache", String::new()),
            ("APT::Sandbox::User", "root".to_owned()),
        ];
        Ok(Self(
            set.into_iter().flat_map(|(name, value)| ["-o".to_owned(), format!("{name}={value}")]).collect(),
        ))
    }

    fn update(&self) -> Result<()> {
        if self.0.is_empty() {
            return update();
        }
        // Lists of its own take no root.
        run(Command::new("apt-get").args(&self.0).args(["update", "--quiet=2"]).stdin(Stdio::null()))
    }

    /// The package of the kernel that [`KERNEL`] stands for.
    fn current_kernel(&self) -> Option<String> {
        let said = output_of(Command::new("apt-cache").args(&self.0).args(["depends", KERNEL]))?;
        dependency(&said).map(str::to_owned)
    }
}

/// Gets the parts, into and below `dir`. Parts that are there already are used again.
///
/// # Errors
/// Fails if the packages are not to be had, or the kernel is not what the test is for.
pub(super) fn parts(dir: &Path, kernel: Kernel, programs: &Userland) -> Result<Parts> {
    if !has_program("apt-get") || !has_program("dpkg-deb") {
        bail!(
            "the guest is made of Debian's packages, which needs apt-get and dpkg-deb: run this on Debian 12"
        );
    }
    let (kernel_package, shell_package) = step("getting a kernel and a shell for the guest", || {
        let apt = Apt::new(dir, kernel)?;
        let name = apt.current_kernel().or_else(|| {
            apt.update().ok()?;
            apt.current_kernel()
        });
        let name =
            name.with_context(|| format!("apt knows no package {KERNEL}: run this on Debian 12 for x86_64"))?;
        Ok((unpacked(dir, &name, &apt)?, unpacked(dir, SHELL, &Apt(Vec::new()))?))
    })?;
    let userland = step("getting the guest's programs", || userland::tree(dir, programs))?;
    let release = only_entry(&kernel_package.join("lib/modules"))?;
    if kernel == Kernel::Distribution && version(&release).is_none_or(|version| version >= TOO_NEW) {
        bail!(
            "the kernel of this distribution is {release}, but this test is for kernels before {}.{}: run it on Debian 12",
            TOO_NEW.0,
            TOO_NEW.1
        );
    }
    let modules = modules(dir, &kernel_package, &release)?;
    Ok(Parts {
        kernel: kernel_package.join(format!("boot/vmlinuz-{release}")),
        busybox: shell_package.join("bin/busybox"),
        userland,
        release,
        modules,
    })
}

/// The first dependency in what `apt-cache depends` says.
fn dependency(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).map(str::trim)
}

/// Has apt fetch what packages there are.
///
/// # Errors
/// Fails if it cannot.
pub(super) fn update() -> Result<()> {
    run(root_command("apt-get", "updating the list of packages")?
        .args(["update", "--quiet=2"])
        .stdin(Stdio::null()))
}

/// Downloads a package and unpacks it into a folder of its name in `dir`, without installing it; once.
///
/// # Errors
/// Fails if it cannot be had.
pub(crate) fn unpack(dir: &Path, package: &str) -> Result<PathBuf> {
    unpacked(dir, package, &Apt(Vec::new()))
}

/// The folder into which a package was unpacked.
fn unpacked(dir: &Path, package: &str, apt: &Apt) -> Result<PathBuf> {
    let place = dir.join(package);
    if place.is_dir() {
        return Ok(place);
    }
    let downloads = dir.join("packages");
    if download_from(apt, &downloads, &[package]).is_err() {
        // Lists grow old: what they name may have been replaced.
        apt.update()?;
        download_from(apt, &downloads, &[package])
            .with_context(|| format!("cannot get the package {package}"))?;
    }
    let file = newest(&downloads, &format!("{package}_"))
        .with_context(|| format!("apt-get left no package {package} in {}", downloads.display()))?;
    // Complete or not there: an interrupted run must not leave half of a kernel.
    let partial = dir.join(format!("{package}.partial"));
    let _ = fs::remove_dir_all(&partial);
    extract(&file, &partial)?;
    fs::rename(&partial, &place).with_context(|| format!("cannot create {}", place.display()))?;
    say(&format!("unpacked {}", file.file_name().unwrap_or_default().to_string_lossy()));
    Ok(place)
}

/// Downloads packages into a folder, each by its name or as `name=version`.
///
/// # Errors
/// Fails if one of them cannot be had.
pub(super) fn download(into: &Path, packages: &[&str]) -> Result<()> {
    download_from(&Apt(Vec::new()), into, packages)
}

fn download_from(apt: &Apt, into: &Path, packages: &[&str]) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let mut command = Command::new("apt-get");
    command.args(&apt.0);
    // As root, apt would fetch as a user that may not write here, and complain.
    command.args(["download", "--quiet=2", "-o", "APT::Sandbox::User=root"]).args(packages);
    run(command.current_dir(into).stdin(Stdio::null()))
}

/// Unpacks a package into a folder, which may have others in it already.
///
/// # Errors
/// Fails if it is no package, or the folder cannot be written.
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
    // Folders that are links here stay so: `dpkg-deb --extract` would replace them.
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--keep-directory-symlink", "--no-same-owner", "--directory"])
        .arg(into)
        .arg("--file=-");
    let unpacked = run(tar.stdin(archive));
    let read = files.wait().context("cannot wait for dpkg-deb")?;
    anyhow::ensure!(read.success(), "{} is no package: dpkg-deb ended with {read}", package.display());
    unpacked
}

/// The file of this prefix that was changed last.
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

/// The modules wanted and those they need, with the index that modprobe reads.
fn modules(dir: &Path, kernel: &Path, release: &str) -> Result<PathBuf> {
    let below = format!("lib/modules/{release}");
    let all = kernel.join(&below);
    if !all.join("modules.dep").is_file() {
        run(Command::new("depmod").arg("-b").arg(kernel).arg(release).env("PATH", system_path()))?;
    }
    let root = dir.join(format!("modules-{release}"));
    let _ = fs::remove_dir_all(&root);
    let copy = |path: &Path| -> Result<()> {
        let inside = path.strip_prefix(&all).with_context(|| format!("{} is no module", path.display()))?;
        let target = root.join(&below).join(inside);
        fs::create_dir_all(target.parent().unwrap_or(&root))?;
        fs::copy(path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        if target.extension().is_some_and(|extension| extension == "xz") {
            // The guest's module loader is spared that.
            run(Command::new("xz").args(["--decompress", "--force"]).arg(&target))?;
        }
        Ok(())
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

/// Whether a module is part of the kernel itself, in what the kernel's build calls `modules.builtin`.
fn is_builtin(list: &str, module: &str) -> bool {
    list.lines().any(|file| {
        let name = Path::new(file).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        name.replace('-', "_") == module
    })
}

/// The files of a module and of those it needs, in what depmod calls `modules.dep`.
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

/// Debian keeps depmod where a user's `PATH` does not look.
fn system_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
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
    fn the_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-49-amd64\n  Recommends: apparmor\n";
        assert_eq!(dependency(text), Some("linux-image-6.1.0-49-amd64"));
        assert_eq!(dependency("linux-image-amd64\n"), None);
    }

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
        assert!(version("6.12.3+deb13-amd64") > Some(TOO_NEW));
        assert_eq!(version("amd64"), None);
    }
}
