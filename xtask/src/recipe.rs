//! Ways to install an eBPF toolchain, and the order in which this machine tries them: pure functions.

use std::fmt;

/// The tested nightly: rustc 1.97 with LLVM 22, the version that bpf-linker expects.
pub(crate) const PINNED_NIGHTLY: &str = "nightly-2026-05-20";
/// Both recipes compile and link with this major version of LLVM.
pub(crate) const LLVM_MAJOR: u32 = 22;
/// Name under which Debian's compiler is linked into rustup.
pub(crate) const DEBIAN_TOOLCHAIN: &str = "rocescope-ebpf";
/// Debian's compiler with the source of `core`, and the LLVM with which it was built.
pub(crate) const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "llvm-22-dev"];

/// A way to get a compiler and a linker for the kernel programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// A rustup toolchain, and a bpf-linker that uses that compiler's own LLVM.
    Rustup,
    /// Debian's compiler and LLVM.
    Debian,
}

impl Recipe {
    /// The recipe that provides a toolchain with this name.
    pub(crate) fn of(toolchain: &str) -> Self {
        if toolchain == DEBIAN_TOOLCHAIN { Self::Debian } else { Self::Rustup }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rustup => "rustup",
            Self::Debian => "debian",
        })
    }
}

/// Facts about the machine before anything is installed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// `ROCESCOPE_RECIPE`: only this recipe.
    pub(crate) forced: Option<String>,
    /// rustup is available.
    pub(crate) rustup: bool,
    /// apt-get is available.
    pub(crate) apt: bool,
}

/// The recipes to try, in order.
///
/// # Errors
/// A sentence that names what to install when no recipe fits the machine.
pub(crate) fn plan(facts: &Facts) -> Result<Vec<Recipe>, String> {
    match facts.forced.as_deref() {
        Some("rustup") => return Ok(vec![Recipe::Rustup]),
        Some("debian") => return Ok(vec![Recipe::Debian]),
        Some(other) => {
            return Err(format!("ROCESCOPE_RECIPE={other} is not a recipe: use `rustup` or `debian`"));
        }
        None => {}
    }
    let mut recipes = Vec::new();
    if facts.rustup {
        recipes.push(Recipe::Rustup);
    }
    if facts.apt {
        recipes.push(Recipe::Debian);
    }
    if recipes.is_empty() {
        return Err(format!(
            "there is neither rustup nor apt-get on this machine: install rustup (https://rustup.rs), or a \
             rustc with LLVM {LLVM_MAJOR}, the source of `core` and a bpf-linker built for that LLVM, then \
             name them in ROCESCOPE_EBPF_TOOLCHAIN and ROCESCOPE_BPF_LINKER_DIR"
        ));
    }
    Ok(recipes)
}

/// Major LLVM version in the output of `rustc -vV`.
pub(crate) fn llvm_major(verbose_version: &str) -> Option<u32> {
    let version = verbose_version.lines().find_map(|line| line.strip_prefix("LLVM version:"))?;
    version.trim().split('.').next()?.parse().ok()
}

/// Toolchain names in the output of `rustup toolchain list`, best candidate first: a nightly needs no switch to build
/// `core`. Debian's compiler is excluded: it uses the system's LLVM, which the linker of this recipe does not find.
pub(crate) fn candidates(toolchain_list: &str) -> Vec<String> {
    let mut names: Vec<String> = toolchain_list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| Recipe::of(name) == Recipe::Rustup)
        .map(str::to_owned)
        .collect();
    names.sort_by_key(|name| (!name.starts_with(PINNED_NIGHTLY), !name.starts_with("nightly"), name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustup_is_tried_before_debian() {
        let both = Facts { rustup: true, apt: true, ..Facts::default() };
        assert_eq!(plan(&both), Ok(vec![Recipe::Rustup, Recipe::Debian]));
        let only_apt = Facts { apt: true, ..Facts::default() };
        assert_eq!(plan(&only_apt), Ok(vec![Recipe::Debian]));
        let only_rustup = Facts { rustup: true, ..Facts::default() };
        assert_eq!(plan(&only_rustup), Ok(vec![Recipe::Rustup]));
    }

    #[test]
    fn nothing_to_install_with_names_what_to_install() {
        let message = plan(&Facts::default()).unwrap_err();
        assert!(message.contains("install rustup"), "{message}");
    }

    #[test]
    fn forced_recipe_is_the_only_one() {
        let forced = |name: &str| plan(&Facts { forced: Some(name.to_owned()), rustup: true, apt: true });
        assert_eq!(forced("debian"), Ok(vec![Recipe::Debian]));
        assert_eq!(forced("rustup"), Ok(vec![Recipe::Rustup]));
        assert!(forced("gentoo").unwrap_err().contains("gentoo"));
    }

    #[test]
    fn llvm_version_is_read_from_rustc() {
        let output = "rustc 1.97.0-nightly (0b0c2f9ae 2026-05-19)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n\
                      release: 1.97.0-nightly\nLLVM version: 22.1.4\n";
        assert_eq!(llvm_major(output), Some(22));
        assert_eq!(llvm_major("LLVM version: 23\n"), Some(23));
        assert_eq!(llvm_major("release: 1.97.0\n"), None);
        assert_eq!(llvm_major("LLVM version: unknown\n"), None);
    }

    #[test]
    fn pinned_nightly_is_the_first_candidate() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\nnightly-x86_64-unknown-linux-gnu\n\
                    nightly-2026-05-20-x86_64-unknown-linux-gnu\nrocescope-ebpf\n";
        assert_eq!(
            candidates(list),
            [
                "nightly-2026-05-20-x86_64-unknown-linux-gnu",
                "nightly-x86_64-unknown-linux-gnu",
                "stable-x86_64-unknown-linux-gnu"
            ]
        );
    }
}
