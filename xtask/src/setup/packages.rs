//! Packages of the distribution.

use crate::run::{has_program, output_of, root_command, root_prefix, run, say, step};
use crate::vm::{Processor, unpack};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs used by the integration tests, with their Debian packages.
const TEST_TOOLS: [(&str, &str); 10] = [
    ("tshark", "tshark"),
    ("tcpdump", "tcpdump"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("tmux", "tmux"),
    ("python3", "python3"),
    ("pip3", "python3-pip"),
    ("qemu-aarch64", "qemu-user"),
    ("systemd-analyze", "systemd"),
    ("git", "git"),
];

/// The browser for tests of shared reports, with its package, which not every distribution has.
const BROWSER: [(&str, &str); 1] = [("chromium", "chromium")];
/// Packages used by the integration tests without installation, since most would start a server; each with those that
/// it needs and that a bare system does not have.
const UNPACKED: [&[&str]; 4] = [
    &["prometheus"],
    &["prometheus-node-exporter"],
    &["python3-prometheus-client", "python3-decorator"],
    &["victoria-metrics"],
];

/// Programs used by the tests in a virtual machine, with their packages.
const VM_TOOLS: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("depmod", "kmod"),
    ("timeout", "coreutils"),
    ("tshark", "tshark"),
];

/// The emulator of a machine with aarch64, with its package.
const ARM_MACHINE: [(&str, &str); 1] = [("qemu-system-aarch64", "qemu-system-arm")];

/// Programs that build packages, with their packages.
const PACKING_TOOLS: [(&str, &str); 3] =
    [("dpkg-deb", "dpkg"), ("rpmbuild", "rpm"), ("systemd-analyze", "systemd")];

/// Programs that check packages, with their packages.
const PACKAGE_TOOLS: [(&str, &str); 7] = [
    ("lintian", "lintian"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("pip3", "python3-pip"),
];

/// Programs that create and run a bare root, with their packages.
const FRESH_TOOLS: [(&str, &str); 4] =
    [("debootstrap", "debootstrap"), ("unshare", "util-linux"), ("setpriv", "util-linux"), ("tar", "tar")];

/// The compiler of libFuzzer, with its package.
const FUZZ_TOOLS: [(&str, &str); 1] = [("c++", "g++")];

/// What fetches the advisory database, with its package.
const ADVISORY_TOOLS: [(&str, &str); 1] = [("git", "git")];

/// Installs the programs used by the integration tests.
///
/// # Errors
/// Names the missing packages when they cannot be installed.
pub(super) fn ensure_test_tools() -> Result<()> {
    ensure_programs("the tests", &TEST_TOOLS)?;
    // Without it only these tests are skipped, with a message.
    if let Err(error) = ensure_programs("the tests in a browser", &BROWSER) {
        say(&format!("the tests in a browser cannot run: {error:#}"));
    }
    Ok(())
}

/// Unpacks packages for the integration tests into folders of `dir`.
///
/// # Errors
/// Names the package that is not available.
pub(super) fn unpack_for_tests(dir: &Path) -> Result<()> {
    if !has_program("apt-get") || !has_program("dpkg-deb") {
        bail!(
            "tests of `export` use Debian's packages {}, which apt-get and dpkg-deb unpack",
            UNPACKED.concat().join(" ")
        );
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    step("packages that the tests use and that are not installed", || {
        UNPACKED.iter().try_for_each(|packages| unpack(dir, packages).map(drop))
    })
}

/// Installs the programs used by the tests in a virtual machine.
///
/// # Errors
/// Names the missing packages when they cannot be installed.
pub(super) fn ensure_vm_tools(processor: Processor) -> Result<()> {
    ensure_programs("the test in a virtual machine", &VM_TOOLS)?;
    match processor {
        Processor::X86 => Ok(()),
        Processor::Arm => ensure_programs("a machine with aarch64", &ARM_MACHINE),
    }
}

/// Installs the programs that build packages.
///
/// # Errors
/// Names the missing packages when they cannot be installed.
pub(super) fn ensure_packing_tools() -> Result<()> {
    ensure_programs("packages", &PACKING_TOOLS)
}

/// Installs the programs that build and check packages.
///
/// # Errors
/// Names the missing packages when they cannot be installed.
pub(super) fn ensure_package_tools() -> Result<()> {
    ensure_packing_tools()?;
    ensure_programs("the test of the packages", &PACKAGE_TOOLS)
}

/// Installs the programs that create a bare root.
///
/// # Errors
/// Names the missing packages when they cannot be installed.
pub(super) fn ensure_fresh_tools() -> Result<()> {
    ensure_programs("a bare root", &FRESH_TOOLS)
}

/// Installs the compiler that libFuzzer, which is C++, is built with.
///
/// # Errors
/// Names the missing package when it cannot be installed.
pub(super) fn ensure_fuzz_tools() -> Result<()> {
    ensure_programs("fuzzing", &FUZZ_TOOLS)
}

/// Installs the program that fetches the advisory database.
///
/// # Errors
/// Names the missing package when it cannot be installed.
pub(super) fn ensure_advisory_tools() -> Result<()> {
    ensure_programs("the advisory database", &ADVISORY_TOOLS)
}

fn ensure_programs(purpose: &str, programs: &[(&str, &'static str)]) -> Result<()> {
    let missing: Vec<&str> =
        programs.iter().filter(|(program, _)| !has_program(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        say(&format!("programs for {purpose}: all there"));
        return Ok(());
    }
    install(purpose, &missing)
}

/// Installs those of the packages that are not installed according to dpkg.
///
/// # Errors
/// Names the missing packages when they cannot be installed.
pub(super) fn ensure(purpose: &str, packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() { Ok(()) } else { install(purpose, &missing) }
}

fn is_installed(package: &str) -> bool {
    output_of(Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]))
        .is_some_and(|status| status == "installed")
}

fn install(purpose: &str, packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if !has_program("apt-get") {
        bail!(
            "{purpose} needs {names} (names of the Debian packages): install them with your package manager"
        );
    }
    if root_prefix().is_none() {
        bail!(
            "{purpose} needs packages, and this is neither root nor a machine with sudo: as root, run `apt-get install {names}`"
        );
    }
    step(&format!("installing {names} for {purpose}"), || {
        // Whether non-root users may capture is the owner's decision: the package's default is no.
        preseed("wireshark-common wireshark-common/install-setuid boolean false\n", packages);
        apt(&["update", "--quiet=2"])?;
        let mut args = vec!["install", "--yes", "--quiet=2", "--no-install-recommends"];
        args.extend(packages);
        apt(&args)
    })
    .with_context(|| format!("cannot install {names}"))
}

fn apt(args: &[&str]) -> Result<()> {
    let mut command = root_command("env", "apt-get")?;
    run(command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(args).stdin(Stdio::null()))
}

/// Answers tshark's installation question in advance. A failure does not matter, since the non-interactive front end
/// takes the default.
fn preseed(answers: &str, packages: &[&str]) {
    use std::io::Write as _;
    if !packages.contains(&"tshark") || !has_program("debconf-set-selections") {
        return;
    }
    let child = root_command("debconf-set-selections", "answering tshark's installation question")
        .and_then(|mut command| command.stdin(Stdio::piped()).spawn().map_err(Into::into));
    if let Ok(mut child) = child {
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(answers.as_bytes());
        }
        let _ = child.wait();
    }
}
