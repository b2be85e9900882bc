//! `cargo xtask bench`: measurements side by side with other programs, as ratios.

mod child;
mod kernel;
mod keys;
mod load;
mod machine;
mod replay;

use anyhow::Result;
use clap::Subcommand;

/// What is measured.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Bench {
    /// What counting a packet costs the kernel programs, beside what it may cost
    Kernel(kernel::Wanted),
    /// `rocescope replay` beside tcpdump, tshark and gzip on the same captures
    Replay(replay::Wanted),
    /// `rocescope live` on a flooded veth pair, beside an empty program and nothing
    Load(load::Wanted),
    /// How long the terminal UI takes to answer keys while samples of 65,536 flows come
    Keys(keys::Wanted),
}

/// Measures and prints.
///
/// # Errors
/// When an input cannot be made, or a program cannot be run.
pub(crate) fn bench(wanted: &Bench) -> Result<()> {
    match wanted {
        Bench::Kernel(wanted) => kernel::kernel(wanted),
        Bench::Replay(wanted) => replay::replay(wanted),
        Bench::Load(wanted) => load::load(wanted),
        Bench::Keys(wanted) => keys::keys(wanted),
    }
}
