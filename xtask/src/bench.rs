//! `cargo xtask bench`: measurements alongside other programs, as ratios.

mod child;
mod cost;
mod fleet;
mod floor;
mod goal;
mod kernel;
mod keys;
mod load;
mod machine;
mod queue_pairs;
mod replay;
mod screen;
mod text;
mod truth;

use anyhow::Result;
use clap::Subcommand;

/// Measurements of `cargo xtask bench`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Bench {
    /// Cost per packet of the kernel programs, compared with the budget
    Kernel(kernel::Wanted),
    /// `rocescope replay` compared with tcpdump, tshark and gzip on the same captures
    Replay(replay::Wanted),
    /// Minimum work of any replay on one capture: reading it, and a table of its flows
    Floor(floor::Wanted),
    /// `rocescope live` on a flooded veth pair, compared with an empty program and with none
    Load(load::Wanted),
    /// CPU time and memory of `export`, `record` and an agent at 400 flows; fails when a limit is missed
    Cost(cost::Wanted),
    /// Questions of `rocescope fleet` over a simulated fleet with known faults
    Fleet(fleet::Wanted),
    /// Response time of the terminal UI to keys while it receives samples of 65,536 flows
    Keys(keys::Wanted),
    /// CPU time and output of the terminal UI, idle and during a replay at full speed
    Screen(screen::Wanted),
    /// Cost of the layers that follow 10,000 queue pairs of NICs; fails when a limit is missed
    QueuePairs(queue_pairs::Wanted),
    /// Findings of `rocescope replay` against simulated fabrics with a known truth
    Truth(truth::Wanted),
}

/// Measures and prints; by default the kernel programs, a flood and replay, and one table of all their rows.
pub(crate) fn bench(wanted: Option<&Bench>) -> Result<()> {
    let Some(wanted) = wanted else { return all() };
    match wanted {
        Bench::Kernel(wanted) => kernel::kernel(wanted),
        Bench::Replay(wanted) => replay::replay(wanted),
        Bench::Floor(wanted) => floor::floor(wanted),
        Bench::Load(wanted) => load::load(wanted),
        Bench::Cost(wanted) => cost::cost(wanted),
        Bench::Fleet(wanted) => fleet::fleet(wanted),
        Bench::Keys(wanted) => keys::keys(wanted),
        Bench::Screen(wanted) => screen::screen(wanted),
        Bench::QueuePairs(wanted) => queue_pairs::queue_pairs(wanted),
        Bench::Truth(wanted) => truth::truth(wanted),
    }
}

/// Every row beside its goals, from one run of one program.
fn all() -> Result<()> {
    let binary = crate::build::build()?;
    // A failure of one measurement does not prevent the others.
    let parts =
        [kernel::rows(&binary), load::rows(&binary), replay::rows(&replay::Wanted::default(), &binary)];
    goal::print(&parts.iter().flatten().flatten().cloned().collect::<Vec<_>>());
    parts.into_iter().collect::<Result<Vec<_>>>().map(drop)
}
