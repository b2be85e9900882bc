//! The first recipe: a rustup toolchain, and a bpf-linker that uses the compiler's own LLVM.

use super::tool::Tool;
use super::{check_compiler, in_toolchain};
use crate::ebpf_toolchain::EbpfToolchain;
use crate::recipe::{LLVM_MAJOR, PINNED_NIGHTLY, candidates};
use crate::run::{output_of, run, say, step};
use anyhow::{Context as _, Result, bail};
use std::process::{Command, Stdio};

/// Needs no LLVM of the system, since it uses that of the compiler.
const LINKER: Tool = Tool { name: "bpf-linker", version: "0.10.3", args: &[], env: &[] };

/// Installs the missing parts of this recipe.
pub(super) fn install() -> Result<EbpfToolchain> {
    let toolchain = compiler()?;
    let linker_dir = LINKER.install(in_toolchain(&toolchain, "cargo"))?;
    say(&format!(
        "eBPF toolchain: rustup's {toolchain} (LLVM {LLVM_MAJOR}) with bpf-linker {} in {}",
        LINKER.version,
        linker_dir.display()
    ));
    Ok(EbpfToolchain { toolchain, linker_dir })
}

fn compiler() -> Result<String> {
    if check_compiler(PINNED_NIGHTLY).is_ok() {
        return Ok(PINNED_NIGHTLY.to_owned());
    }
    let installed = step(&format!("rustup toolchain install {PINNED_NIGHTLY}"), || {
        run(Command::new("rustup")
            .args(["toolchain", "install", PINNED_NIGHTLY, "--profile", "minimal"])
            .args(["--component", "rust-src", "--no-self-update"])
            .stdin(Stdio::null()))?;
        check_compiler(PINNED_NIGHTLY)
    });
    let Err(error) = installed else { return Ok(PINNED_NIGHTLY.to_owned()) };
    say(&format!("cannot install {PINNED_NIGHTLY} ({error:#}); looking at the installed toolchains"));
    let list = output_of(Command::new("rustup").args(["toolchain", "list"]))
        .context("rustup lists no toolchains")?;
    match candidates(&list).into_iter().find(|name| check_compiler(name).is_ok()) {
        Some(name) => Ok(name),
        None => bail!(
            "{PINNED_NIGHTLY} cannot be installed, and no installed toolchain has LLVM {LLVM_MAJOR} and rust-src"
        ),
    }
}

/// Ensures that a toolchain with a component is installed.
pub(super) fn ensure_component(toolchain: &str, component: &str) -> Result<()> {
    let listed = || {
        output_of(Command::new("rustup").args(["component", "list", "--installed", "--toolchain", toolchain]))
    };
    // Platform-specific components have the platform in their names.
    let has = |list: &String| {
        list.lines().any(|line| {
            line.strip_prefix(component).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    };
    if listed().as_ref().is_some_and(has) {
        return Ok(());
    }
    step(&format!("{component} for the toolchain {toolchain}"), || {
        if listed().is_none() {
            let install = ["toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update"];
            run(Command::new("rustup").args(install).stdin(Stdio::null()))?;
        }
        run(Command::new("rustup")
            .args(["component", "add", "--toolchain", toolchain, component])
            .stdin(Stdio::null()))
    })
    .with_context(|| format!("cannot install {component} for {toolchain}"))
}
