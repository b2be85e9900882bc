//! The second recipe: the distribution's compiler and LLVM.

use super::tool::Tool;
use super::{in_toolchain, packages};
use crate::ebpf_toolchain::EbpfToolchain;
use crate::recipe::{DEBIAN_PACKAGES, DEBIAN_TOOLCHAIN, LLVM_MAJOR};
use crate::run::{has_program, output_of, run, say};
use anyhow::{Context as _, Result};
use std::process::{Command, Stdio};

const LINKER: Tool = Tool {
    name: "bpf-linker",
    version: "0.13.0",
    args: &["--no-default-features", "--features", "llvm-22"],
    env: &[("LLVM_PREFIX", "/usr/lib/llvm-22"), ("LLVM_SYS_221_PREFIX", "/usr/lib/llvm-22")],
};

/// Installs the missing parts of this recipe.
pub(super) fn install() -> Result<EbpfToolchain> {
    packages::ensure("an eBPF compiler", &DEBIAN_PACKAGES)?;
    if has_program("rustup") {
        let list = output_of(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
        if !list.lines().any(|line| line.split_whitespace().next() == Some(DEBIAN_TOOLCHAIN)) {
            run(Command::new("rustup")
                .args(["toolchain", "link", DEBIAN_TOOLCHAIN, "/usr"])
                .stdin(Stdio::null()))
            .context("cannot link Debian's compiler as a rustup toolchain")?;
        }
    }
    let linker_dir = LINKER.install(in_toolchain(DEBIAN_TOOLCHAIN, "cargo"))?;
    say(&format!(
        "eBPF toolchain: Debian's rustc and LLVM {LLVM_MAJOR} with bpf-linker {} in {}",
        LINKER.version,
        linker_dir.display()
    ));
    Ok(EbpfToolchain { toolchain: DEBIAN_TOOLCHAIN.to_owned(), linker_dir })
}
