//! The compiler and linker of the kernel programs.
//!
//! Shared by `cargo xtask` and by `analyzer/build.rs` (through `#[path]`), so that a plain `cargo build -p rocescope
//! --features live` uses the toolchain that `cargo xtask setup` chose. Only the standard library is used here.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// rustup toolchain (or linked name) that compiles the kernel programs.
pub(crate) const TOOLCHAIN_VAR: &str = "ROCESCOPE_EBPF_TOOLCHAIN";
/// Folder with the `bpf-linker` for that toolchain's LLVM version.
pub(crate) const LINKER_DIR_VAR: &str = "ROCESCOPE_BPF_LINKER_DIR";

/// Folder in which builds of all profiles and targets compile the kernel programs; without it each has its own.
pub(crate) const SHARED_DIR_VAR: &str = "ROCESCOPE_EBPF_TARGET_DIR";

/// A compiler and a linker that are compatible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EbpfToolchain {
    /// Name for `rustup run`. Without rustup the compiler comes from `PATH`, and this is not used.
    pub(crate) toolchain: String,
    /// Folder with `bpf-linker`.
    pub(crate) linker_dir: PathBuf,
}

impl EbpfToolchain {
    /// The choice in the environment. The linker's folder is optional if `bpf-linker` is on `PATH`.
    pub(crate) fn from_env() -> Option<Self> {
        let toolchain = env::var(TOOLCHAIN_VAR).ok().filter(|name| !name.is_empty())?;
        let linker_dir = env::var_os(LINKER_DIR_VAR).map(PathBuf::from).or_else(linker_on_path)?;
        Some(Self { toolchain, linker_dir })
    }

    /// The choice recorded by the last `cargo xtask setup`.
    pub(crate) fn from_record() -> Option<Self> {
        Self::parse(&fs::read_to_string(record_path()?).ok()?)
    }

    /// Parses a record: lines of `key=value`.
    pub(crate) fn parse(record: &str) -> Option<Self> {
        let value = |key: &str| {
            record.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::trim)
        };
        Some(Self {
            toolchain: value("toolchain")?.to_owned(),
            linker_dir: PathBuf::from(value("linker_dir").filter(|dir| !dir.is_empty())?),
        })
    }

    /// Path of the linker's executable.
    pub(crate) fn linker(&self) -> PathBuf {
        self.linker_dir.join("bpf-linker")
    }
}

/// Cache folder for results that take long to build: `${XDG_CACHE_HOME:-~/.cache}/rocescope`.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| Some(env::home_dir()?.join(".cache")))
        .map(|dir| dir.join("rocescope"))
}

/// The file in which `cargo xtask setup` records its choice.
pub(crate) fn record_path() -> Option<PathBuf> {
    Some(cache_dir()?.join("ebpf-toolchain"))
}

/// The first executable with this name in the folders of `PATH`.
pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|file| file.is_file())
}

fn linker_on_path() -> Option<PathBuf> {
    find_on_path("bpf-linker")?.parent().map(Path::to_path_buf)
}
