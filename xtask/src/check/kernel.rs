//! Lints of the kernel programs.

use super::{Checks, component};
use crate::ebpf_toolchain::EbpfToolchain;
use crate::run::{cargo, output_of, run, workspace_root};
use crate::setup::{has_core_source, in_toolchain, with_component};
use std::process::{Command, Stdio};

const NAME: &str = "lints of the kernel programs";

/// Lints them for their own target, in a separate run: otherwise feature unification would enable features that need
/// the standard library.
pub(super) fn lints(checks: &mut Checks, ebpf: Option<&EbpfToolchain>) {
    let Some(clippy) = clippy(ebpf) else {
        return checks.without_tool(
            NAME,
            "no toolchain here has both clippy and rust-src: `rustup component add clippy rust-src`",
        );
    };
    for features in ["", "test-clock"] {
        let name = if features.is_empty() { NAME.to_owned() } else { format!("{NAME} with `{features}`") };
        checks.check(&name, || {
            run(clippy()
                .args(["-p", "rocescope-ebpf", "--target", "bpfel-unknown-none", "-Z", "build-std=core"])
                .args(["--features", features, "--", "-D", "warnings"])
                // `core` is built from source, which a stable compiler allows only with this variable.
                .env("RUSTC_BOOTSTRAP", "1"))
        });
    }
}

/// Clippy of the toolchain that builds the programs, or of the active one. Linting links nothing, so that any
/// compiler with the source of `core` is suitable.
fn clippy(ebpf: Option<&EbpfToolchain>) -> Option<Box<dyn Fn() -> Command + '_>> {
    if let Some(ebpf) = ebpf {
        let own = move || {
            let mut command = in_toolchain(&ebpf.toolchain, "cargo");
            command.arg("clippy").current_dir(workspace_root()).stdin(Stdio::null());
            command
        };
        // If the component cannot be installed, the active toolchain may have it.
        let _absent = with_component(&ebpf.toolchain, "clippy");
        if output_of(own().arg("--version")).is_some() {
            return Some(Box::new(own));
        }
    }
    let active = || {
        let mut command = cargo();
        command.arg("clippy");
        command
    };
    let usable = component("clippy", "clippy").is_ok() && has_core_source(&mut Command::new("rustc"));
    usable.then(|| Box::new(active) as Box<dyn Fn() -> Command>)
}
