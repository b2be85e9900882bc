//! A guest with systemd as its first process, in which the package is installed, run, upgraded and purged.

use super::cpio::Archive;
use super::{Kernel, Processor, boot, debian, userland};
use crate::ebpf_toolchain::cache_dir;
use crate::run::{step, target_dir};
use crate::setup;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::io::BufWriter;
use std::path::Path;

/// Runs the guest with a package for amd64 and one of a higher version.
///
/// # Errors
/// Names missing prerequisites, or the faults found by the guest.
pub(crate) fn test(first: &Path, second: &Path) -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the guest is an x86_64 machine: run this on one");
    }
    setup::vm_tools(Processor::X86)?;
    let cache = cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no directory for the guest")?;
    let parts = debian::parts(&cache.join("vm"), &Kernel::Distribution, Processor::X86, &userland::SYSTEMD)?;
    let dir = target_dir().join("vm/packages");
    let _ = fs::remove_dir_all(&dir);
    let share = dir.join("share");
    fs::create_dir_all(&share).with_context(|| format!("cannot create {}", share.display()))?;
    let image = dir.join("initramfs");
    step("packing the guest packages", || {
        let file = fs::File::create(&image).with_context(|| format!("cannot create {}", image.display()))?;
        let mut archive = Archive::new(BufWriter::new(file));
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        archive.program("/init", include_bytes!("packages/init.sh"))?;
        archive.device("/dev/console", 5, 1)?;
        archive.program("/busybox/busybox", &read(&parts.busybox)?)?;
        // systemd switches mount namespaces by pivot_root, which an initramfs does not allow, so the tree becomes a
        // separate file system.
        archive.copy_all("/tree", &parts.userland)?;
        archive.copy_all(&format!("/tree/usr/lib/modules/{}", parts.release), &parts.modules)?;
        archive.program("/tree/test/run", include_bytes!("packages/test.sh"))?;
        archive.plain(
            "/tree/etc/systemd/system/rocescope-test.service",
            include_bytes!("packages/rocescope-test.service"),
        )?;
        archive.plain("/tree/test/first.deb", &read(first)?)?;
        archive.plain("/tree/test/second.deb", &read(second)?)?;
        archive.finish()
    })?;
    step(&format!("packages on kernel {}", parts.release), || boot(&parts, &image, &share, None))
}
