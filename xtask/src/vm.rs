//! A virtual machine with Debian 12's kernel 6.1, for what this machine's own kernel cannot show.
//!
//! `cargo xtask vm`: Soft-RoCE devices, so that the program as users get it is held against real
//! traffic and against what the kernel and other tools say of it. `cargo xtask test --vm`: that, and
//! the live path on an older kernel, which has no TCX, so that TC programs attach as filters, and is
//! stricter with programs. QEMU emulates the processor: no KVM is needed.

mod cpio;
mod debian;
mod userland;

use crate::dist::{self, Target};
use crate::ebpf_toolchain::{EbpfToolchain, cache_dir};
use crate::programs::Programs;
use crate::run::{output_of, run, run_watched, say, step, target_dir, workspace_root};
use crate::setup;
use anyhow::{Context as _, Result, bail};
use cpio::Archive;
use debian::Parts;
use std::ffi::OsStr;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tests on an older kernel, and their arguments in the guest. Those that only hold there are
/// ignored elsewhere.
const OLDER_KERNEL: [(&str, &str); 6] = [
    ("old_kernel", "--ignored"),
    ("verifier", ""),
    // Its tagger attaches as kernels from 6.6 allow; `old_kernel` makes such tags with interfaces.
    ("vlan_metadata", "--skip a_tag_beside"),
    ("live_veth", ""),
    // Filters outlive a kill on such kernels; `old_kernel` looks at what becomes of them.
    ("live_cli", "--skip every_end_leaves_nothing_attached"),
    ("demo", ""),
];
/// The tests with Soft-RoCE devices in the guest, of the program as users get it.
const SOFT_ROCE: (&str, &str) = ("soft_roce", "--ignored");
/// The test on this machine that compares their results with tshark afterwards: tshark would take
/// minutes in the guest.
const AFTERWARDS: &str = "soft_roce_tshark";
/// A test of the package `rocescope`: with it cargo builds the package's program.
const PROGRAMS_TEST: &str = "words";
/// Environment variable with the folder of those results.
const RESULTS_VAR: &str = "ROCESCOPE_VM_RESULTS";
/// Name of the static program in the guest: as on a host to which it was copied under the name
/// that `cargo xtask dist` gave it.
const RELEASED: &str = "rocescope-x86_64-unknown-linux-musl";
/// Time limit of the guest in seconds. It takes about five minutes, more on a busy machine.
const LIMIT: &str = "1800";
/// Beginning of the guest's last line, see `init.sh`.
const DONE: &str = "guest: done";

/// Everything that runs in the guest.
///
/// # Errors
/// Names missing prerequisites, or failed tests.
pub(crate) fn test() -> Result<()> {
    in_guest(&OLDER_KERNEL)
}

/// The tests with Soft-RoCE devices alone.
///
/// # Errors
/// Names missing prerequisites, or failed tests.
pub(crate) fn vm() -> Result<()> {
    in_guest(&[])
}

/// Builds, boots and runs `tests` and those with Soft-RoCE.
fn in_guest(tests: &[(&str, &str)]) -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the guest is an x86_64 machine: run this on one");
    }
    setup::vm_tools()?;
    let toolchain = setup::ebpf_toolchain()?;
    // Downloads outlive a clean tree.
    let cache = cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no directory for the guest")?;
    let parts = debian::parts(&cache.join("vm"))?;
    let released = dist::static_program(&toolchain, Target::X86)?;
    let built = step("building the tests for the guest", || build(&toolchain, tests))?;
    let dir = target_dir().join("vm");
    let share = dir.join("share");
    let _ = fs::remove_dir_all(&share);
    fs::create_dir_all(&share).with_context(|| format!("cannot create {}", share.display()))?;
    let image = step("packing the guest", || pack(&dir, &parts, &released, &built))?;
    let name = format!("tests on kernel {}", parts.release);
    step(&name, || boot(&parts, &image, &share))?;
    step("holding what was counted in the guest against tshark", || {
        let mut command = Command::new(&built.afterwards);
        command.args(["--ignored", "--test-threads=1", "--show-output"]).env(RESULTS_VAR, &share);
        run(command.env("ROCESCOPE_BIN", &released).stdin(Stdio::null()))
    })
}

/// The executables for the guest.
struct Built {
    /// The program with its arithmetic checked, as the tests on an older kernel want it.
    checked: PathBuf,
    /// Tests in the guest: name, arguments, program.
    tests: Vec<(String, String, PathBuf)>,
    /// The test on this machine.
    afterwards: PathBuf,
}

/// The program and the tests, from the build that `cargo xtask test` makes: this costs nothing after it. Their C
/// library is the guest's too: it is made of the same distribution's packages.
fn build(toolchain: &EbpfToolchain, tests: &[(&str, &str)]) -> Result<Built> {
    let tests = || tests.iter().chain([&SOFT_ROCE]);
    let names = tests().map(|(name, _)| *name).chain([AFTERWARDS]);
    // `--bin rocescope` would select the program's unit tests instead.
    let selection = [PROGRAMS_TEST].into_iter().chain(names).flat_map(|name| ["--test", name]);
    let programs = Programs::build(Some(toolchain), selection)?;
    let in_guest = |(name, arguments): &(&str, &str)| -> Result<_> {
        Ok(((*name).to_owned(), (*arguments).to_owned(), programs.integration(name)?.to_path_buf()))
    };
    let tests: Result<Vec<_>> = tests().map(in_guest).collect();
    let afterwards = programs.integration(AFTERWARDS)?.to_path_buf();
    Ok(Built { checked: programs.rocescope, tests: tests?, afterwards })
}

/// Writes the guest's file system to a file below `dir`.
fn pack(dir: &Path, parts: &Parts, released: &Path, built: &Built) -> Result<PathBuf> {
    let image = dir.join("initramfs");
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let file = fs::File::create(&image).with_context(|| format!("cannot create {}", image.display()))?;
    let mut archive = Archive::new(BufWriter::new(file));
    // The folders of the distribution first: what follows lies in them.
    archive.copy_all("", &parts.userland)?;
    archive.program("/init", include_bytes!("vm/init.sh"))?;
    archive.device("/dev/console", 5, 1)?;
    archive.program("/busybox/busybox", &read(&parts.busybox)?)?;
    // The path at which the kernel looks for its module loader.
    archive.link("/sbin/modprobe", "/busybox/busybox")?;
    archive.copy_all(&format!("/lib/modules/{}", parts.release), &parts.modules)?;
    archive.program("/programs/checked/rocescope", &read(&stripped(&built.checked, dir))?)?;
    archive.program(&format!("/programs/released/{RELEASED}"), &read(released)?)?;
    let mut list = Vec::new();
    for (name, arguments, path) in &built.tests {
        archive.program(&format!("/tests/{name}"), &read(&stripped(path, dir))?)?;
        let program =
            if name == SOFT_ROCE.0 { format!("released/{RELEASED}") } else { "checked/rocescope".to_owned() };
        list.push(format!("{program} {name} {arguments}\n"));
    }
    archive.program("/tests/list", list.concat().as_bytes())?;
    // Tests look for captures where the repository was when they were built.
    let data = workspace_root().join("tests/data");
    archive.copy_all(&data.to_string_lossy(), &data)?;
    archive.finish()?;
    Ok(image)
}

/// A copy of a program without what only a debugger reads, below `dir`: the guest is slow at loading
/// it. Without `strip`, the program itself.
fn stripped(program: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join(program.file_name().unwrap_or_default());
    let mut strip = Command::new("strip");
    let done = output_of(strip.arg("-o").args([&copy, program]));
    if done.is_some() { copy } else { program.to_path_buf() }
}

/// Runs the guest to its end and passes its result on. Guest and host share the folder `share`.
fn boot(parts: &Parts, image: &Path, share: &Path) -> Result<()> {
    let mut result = None;
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", LIMIT, "qemu-system-x86_64"])
        .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1536M"])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"])
        .args([OsStr::new("-kernel"), parts.kernel.as_os_str(), OsStr::new("-initrd"), image.as_os_str()])
        .arg("-virtfs")
        .arg(format!("local,path={},mount_tag=share,security_model=none", share.display()))
        .args(["-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc=reliable"])
        .stdin(Stdio::null());
    let ended = run_watched(&mut command, |line| {
        if let Some(at) = line.find(DONE) {
            result = line.get(at..).and_then(result_of);
        }
    });
    match result {
        Some(true) => {
            say("all tests passed in the guest");
            Ok(())
        }
        Some(false) => bail!("tests failed in the guest: see its lines above"),
        None => {
            ended?;
            bail!("the guest ended before its tests did: see its last lines above")
        }
    }
}

/// True when the guest's last line says that all went well; `None` when it is cut off.
fn result_of(line: &str) -> Option<bool> {
    match line.trim().rsplit_once("failed=")?.1 {
        "0" => Some(true),
        "1" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_last_line_is_a_result() {
        assert_eq!(result_of("guest: done after 12.30 s, failed=0\r\n"), Some(true));
        assert_eq!(result_of("guest: done after 12.30 s, failed=1"), Some(false));
        assert_eq!(result_of("guest: done after 12.30 s, failed="), None);
        assert_eq!(result_of("guest: done after"), None);
    }
}
