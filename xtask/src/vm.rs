//! A virtual machine with Debian 12's kernel 6.1, for tests that this machine's kernel cannot run.
//!
//! `cargo xtask vm`: Soft-RoCE devices, on which the program is compared with real traffic and with figures of the
//! kernel and of other tools. `cargo xtask vm NAME` runs those of its tests whose names contain NAME. `cargo xtask
//! test --vm`: most of them, and the kernel programs on an older kernel, which has no TCX, so that TC programs attach
//! as filters, and is stricter with programs. QEMU emulates the processor: no KVM is needed.

mod apt;
mod cpio;
mod debian;
pub(crate) mod packages;
mod processor;
mod userland;

use crate::ebpf_toolchain::cache_dir;
use crate::programs::{CHECKED, DEBUG, Programs};
use crate::run::{into_file, output_of, print, run, run_watched, say, step, target_dir, workspace_root};
use crate::setup;
use anyhow::{Context as _, Result, anyhow, bail};
pub(crate) use apt::Kernel;
use cpio::Archive;
use debian::Parts;
pub(crate) use debian::unpack;
pub(crate) use processor::Processor;
use std::ffi::OsStr;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The tests on an older kernel with every change, and their arguments in the guest: the programs load, count through
/// filters, and leave none. Tests for older kernels only are ignored elsewhere.
const OLDER_KERNEL: [(&str, &str); 2] = [("old_kernel", "--ignored"), ("verifier", "")];
/// The tests with Soft-RoCE devices in the guest.
const SOFT_ROCE: [(&str, &str); 2] = [("soft_roce", "--ignored"), ("soft_roce_posts", "--ignored")];
/// The same with every change, on two guests with one kernel, which take the same time: those beside the tests on an
/// older kernel, and those whose results are compared with tshark. Without jobs, a thousand lives, the hijacked sampler
/// and the limit of samples: minutes of the guest, for code that simulated fabrics, the other tests of queue pairs, and
/// `hijacked` and `post_send` on the build machine run, too.
const BESIDE_OLDER: [(&str, &str); 2] = [
    ("soft_roce", "--ignored faults:: hosts:: queue_pairs_missed:: recorded::"),
    ("soft_roce_posts", "--ignored posts_are"),
];
const COMPARED: [(&str, &str); 1] = [(
    "soft_roce",
    "--ignored --skip faults:: --skip hosts:: --skip jobs:: --skip queue_pairs_missed:: --skip recorded:: \
     --skip a_thousand_short_lives --skip a_hijacked_sampler",
)];
/// Tests that run on another kernel, `cargo xtask vm --kernel 5.15`: the programs load, count what a replay counts,
/// and stop; lifecycle, faults and posts of queue pairs. Those that are only for older kernels come first.
const BY_KERNEL: [(&str, &str); 8] = [
    ("old_kernel", "--ignored"),
    ("verifier", ""),
    // Its tagger attaches as only kernels from 6.6 on allow; `old_kernel` creates such tags with interfaces.
    ("vlan_metadata", "--skip a_tag_beside --skip without_a_tag"),
    ("live_veth", ""),
    // Filters outlive a kill on older kernels, which `old_kernel` covers. The other tests left out here give the same
    // result on any kernel, and load programs for that, which is slow under emulation.
    (
        "live_cli",
        "--skip every_end_leaves_nothing_attached --skip unknown --skip bad_usage --skip the_remedy_is_named --skip jsonl \
         --skip ends_the_run_quietly --skip mtu_is_that_of_now --skip on_top_of_one_another --skip share_a_load \
         --skip the_filter",
    ),
    ("demo", "the_command_shows"),
    ("soft_roce", "--ignored queue_pairs faults"),
    ("soft_roce_posts", "--ignored"),
];
/// Those with Soft-RoCE devices on kernels that are newer than the distribution's: also settings and source ports of
/// perftest's and rping's queue pairs.
const NEWER_SOFT_ROCE: &str = "--ignored queue_pairs faults traffic_is_counted";
/// Tests on another processor, `cargo xtask vm --arch aarch64`: its kernel verifies and translates the programs, which
/// count what a replay counts on single frames and on interfaces; posts and queue pairs are probed. The tests with
/// verbs of their own are left out: they open libibverbs, and static programs open no library.
const BY_PROCESSOR: [(&str, &str); 5] = [
    ("verifier", ""),
    ("kernel_vs_replay", "every_crafted_capture"),
    ("post_send", ""),
    ("live_veth", ""),
    ("soft_roce", "--ignored traffic_is_counted queue_pairs_of_the_connection_manager"),
];
/// The test on this machine that compares their results with tshark afterwards, since tshark would take minutes in
/// the guest.
const AFTERWARDS: &str = "soft_roce_tshark";
/// A test of the package `rocescope`, which makes cargo build the package's program.
pub(crate) const PROGRAMS_TEST: &str = "words";
/// Environment variable with the folder of those results.
const RESULTS_VAR: &str = "ROCESCOPE_VM_RESULTS";
/// Timeout of the guest in seconds, for a hang. It takes ten minutes, on another kernel twenty, and did take twice as
/// long on a slow machine.
const LIMIT: &str = "3000";
/// Prefix of the guest's last line, see `init.sh`.
const DONE: &str = "guest: done";

/// Runs the tests of every change in guests. Two run at the same time, each of which keeps one CPU busy: any other
/// program beside them makes them late, at any priority. Tests within a guest inspect the whole system, so they run one
/// after the other.
///
/// # Errors
/// Names missing prerequisites, or failed tests.
pub(crate) fn test() -> Result<()> {
    let prepared = Prepared::new(CHECKED, &Kernel::Distribution, Processor::X86, &OLDER_KERNEL)?;
    let older: Vec<_> = OLDER_KERNEL.into_iter().chain(BESIDE_OLDER).collect();
    let failed = thread::scope(|scope| {
        let older = scope.spawn(|| prepared.guest("older-kernel", &older, &[])?.run(&prepared, true));
        let soft_roce = compared(&prepared, &COMPARED, &[]);
        let older = older.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")));
        [("Soft-RoCE", soft_roce), ("older kernel", older)]
            .into_iter()
            .filter_map(|(name, result)| Some(format!("{name}: {:#}", result.err()?)))
            .collect::<Vec<_>>()
    });
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

/// Runs only the tests with Soft-RoCE devices: those whose names contain one of `names`, or all; on a kernel other
/// than the distribution's those of [`BY_KERNEL`], on another processor those of [`BY_PROCESSOR`]. `debug`: program
/// and tests without optimisation.
///
/// # Errors
/// Names missing prerequisites, or failed tests.
pub(crate) fn vm(names: &[String], debug: bool, kernel: &Kernel, processor: Processor) -> Result<()> {
    let profile = if debug { DEBUG } else { CHECKED };
    if *kernel == Kernel::Distribution && processor == Processor::X86 {
        return compared(&Prepared::new(profile, kernel, processor, &[])?, &SOFT_ROCE, names);
    }
    let (name, all) = match processor {
        Processor::X86 => ("by-kernel", &BY_KERNEL[..]),
        Processor::Arm => ("by-processor", &BY_PROCESSOR[..]),
    };
    let prepared = Prepared::new(profile, kernel, processor, all)?;
    let is_older = debian::is_older(&prepared.parts.release);
    let is_for = |name: &str| name != OLDER_KERNEL[0].0 || is_older;
    // Test names replace the default arguments.
    let of_names = |(name, arguments): (&'static str, &'static str)| {
        let option = if arguments.starts_with("--ignored") { "--ignored" } else { "" };
        match (name, names.is_empty()) {
            ("soft_roce", true) if !is_older && processor == Processor::X86 => (name, NEWER_SOFT_ROCE),
            (_, true) => (name, arguments),
            (_, false) => (name, option),
        }
    };
    let tests: Vec<_> = all.iter().copied().filter(|(name, _)| is_for(name)).map(of_names).collect();
    prepared.guest(name, &tests, names)?.run(&prepared, false)
}

/// Runs the tests with Soft-RoCE that `names` select in a guest, and compares their results with tshark.
fn compared(prepared: &Prepared, tests: &[(&str, &str)], names: &[String]) -> Result<()> {
    let guest = prepared.guest("soft-roce", tests, names)?;
    guest.run(prepared, false)?;
    if !names.is_empty() {
        // The comparison below needs the results of all tests.
        return Ok(());
    }
    step("holding what was counted in the guest against tshark", || {
        let mut command = Command::new(prepared.programs.integration(AFTERWARDS)?);
        command.args(["--ignored", "--test-threads=1", "--show-output"]).env(RESULTS_VAR, guest.share());
        run(command.env("ROCESCOPE_BIN", &prepared.programs.rocescope).stdin(Stdio::null()))
    })
}

/// A shell and other basic programs in one static executable, for roots that have nothing else.
///
/// # Errors
/// Fails if it is not available.
pub(crate) fn shell() -> Result<PathBuf> {
    let cache = cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no directory for a shell")?;
    Ok(unpack(&cache.join("vm"), &[debian::SHELL])?.join("bin/busybox"))
}

/// Parts common to all guests.
struct Prepared {
    parts: Parts,
    programs: Programs,
}

impl Prepared {
    /// With `tests` and those with Soft-RoCE. In [`CHECKED`] they come from the build of `cargo xtask test`, and cost
    /// nothing after it. Their C library is that of the guest, which consists of packages of the same distribution.
    fn new(profile: &str, kernel: &Kernel, processor: Processor, tests: &[(&str, &str)]) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            bail!("the programs of this machine are those of the guest, an x86_64 machine: run this on one");
        }
        setup::vm_tools(processor)?;
        let toolchain = setup::ebpf_toolchain()?;
        // Downloads are kept when the build tree is cleaned.
        let cache =
            cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no directory for the guest")?;
        let parts = debian::parts(&cache.join("vm"), kernel, processor, &userland::RDMA)?;
        let names = tests.iter().chain(&SOFT_ROCE).map(|(name, _)| *name).chain([AFTERWARDS]);
        // `--bin rocescope` would select the program's unit tests instead.
        let selection = [PROGRAMS_TEST].into_iter().chain(names).flat_map(|name| ["--test", name]);
        let programs = step("building the tests for the guest", || match processor.foreign_target() {
            None => Programs::build(Some(&toolchain), profile, selection),
            Some(target) => Programs::foreign(&toolchain, profile, target, selection),
        })?;
        Ok(Self { parts, programs })
    }

    /// A guest that runs `tests`, or those of them whose names contain one of `only`.
    fn guest(&self, name: &'static str, tests: &[(&str, &str)], only: &[String]) -> Result<Guest> {
        let dir = target_dir().join("vm").join(name);
        let _ = fs::remove_dir_all(&dir);
        let share = dir.join("share");
        fs::create_dir_all(&share).with_context(|| format!("cannot create {}", share.display()))?;
        let test = |(name, arguments): &(&str, &str)| -> Result<_> {
            let arguments = [&[(*arguments).to_owned()], only].concat().join(" ");
            Ok(((*name).to_owned(), arguments, self.programs.integration(name)?.to_path_buf()))
        };
        let tests: Result<Vec<_>> = tests.iter().map(test).collect();
        Ok(Guest { name, dir, tests: tests? })
    }
}

/// A virtual machine and its tests.
struct Guest {
    name: &'static str,
    /// Its folder on this machine.
    dir: PathBuf,
    /// Name, arguments, program.
    tests: Vec<(String, String, PathBuf)>,
}

impl Guest {
    /// The folder that it shares with this machine.
    fn share(&self) -> PathBuf {
        self.dir.join("share")
    }

    /// Boots it and runs its tests. `beside`: its output is printed as a whole at its end.
    fn run(&self, prepared: &Prepared, beside: bool) -> Result<()> {
        let parts = &prepared.parts;
        let program = stripped(&prepared.programs.rocescope, &self.dir);
        let image = step(&format!("packing the guest {}", self.name), || self.pack(parts, &program))?;
        let log = self.dir.join("log");
        step(&format!("{} on kernel {}", self.name, parts.release), || {
            boot(parts, &image, &self.share(), beside.then_some(&log))
        })
    }

    /// Writes its file system to a file.
    fn pack(&self, parts: &Parts, program: &Path) -> Result<PathBuf> {
        let image = self.dir.join("initramfs");
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let file = fs::File::create(&image).with_context(|| format!("cannot create {}", image.display()))?;
        let mut archive = Archive::new(BufWriter::new(file));
        // The folders of the distribution first, since the rest is placed in them.
        archive.copy_all("", &parts.userland)?;
        archive.program("/init", include_bytes!("vm/init.sh"))?;
        archive.device("/dev/console", 5, 1)?;
        archive.program("/busybox/busybox", &read(&parts.busybox)?)?;
        // The path at which the kernel looks for its module loader.
        archive.link("/sbin/modprobe", "/busybox/busybox")?;
        archive.copy_all(&format!("/lib/modules/{}", parts.release), &parts.modules)?;
        archive.program("/programs/rocescope", &read(program)?)?;
        let mut list = Vec::new();
        for (name, arguments, path) in &self.tests {
            archive.program(&format!("/tests/{name}"), &read(&stripped(path, &self.dir))?)?;
            list.push(format!("{name} {arguments}\n"));
        }
        archive.program("/tests/list", list.concat().as_bytes())?;
        // Tests look for captures at the path of the repository at build time.
        let data = workspace_root().join("tests/data");
        archive.copy_all(&data.to_string_lossy(), &data)?;
        archive.finish()?;
        Ok(image)
    }
}

/// A copy of a program without debug information below `dir`, since the guest loads programs slowly. Without `strip`,
/// the program itself.
fn stripped(program: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join(program.file_name().unwrap_or_default());
    let mut strip = Command::new("strip");
    let done = output_of(strip.arg("-o").args([&copy, program]));
    if done.is_some() { copy } else { program.to_path_buf() }
}

/// Runs the guest to its end and returns its result. Guest and host share the folder `share`. Its output goes to
/// `log` first, if given.
fn boot(parts: &Parts, image: &Path, share: &Path, log: Option<&PathBuf>) -> Result<()> {
    let mut result = None;
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", LIMIT, parts.processor.emulator()])
        .args(parts.processor.machine())
        .args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "1536M"])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"])
        .args([OsStr::new("-kernel"), parts.kernel.as_os_str(), OsStr::new("-initrd"), image.as_os_str()])
        .arg("-virtfs")
        .arg(format!("local,path={},mount_tag=share,security_model=none", share.display()))
        .args(["-append", &parts.processor.kernel_arguments()])
        .stdin(Stdio::null());
    let mut watch = |line: &str| {
        if let Some(at) = line.find(DONE) {
            result = line.get(at..).and_then(result_of);
        }
    };
    let ended = match log {
        None => run_watched(&mut command, watch),
        Some(log) => {
            let ended = into_file(&mut command, log);
            print(log).lines().for_each(&mut watch);
            ended
        }
    };
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

/// True if the guest's last line reports success; `None` if the line is truncated.
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
