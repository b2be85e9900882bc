//! `rocescope bench`.

use std::io::Write as _;

use anyhow::{Context as _, Result};

use super::output::{self, Interrupt};
use super::progress::Rounds;
use crate::bench::measure::{Effort, measure};
use crate::bench::{receive, show};
use crate::host::kernel::{KernelFacts, PrivilegeNeeds, preflight, raise_memlock};

/// Measures and prints the result, as JSON or as a table.
///
/// # Errors
/// If the kernel refuses the programs, or privileges are missing.
pub(super) fn run(json: bool) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    let facts = KernelFacts::read(std::path::Path::new("/"));
    preflight(&facts, PrivilegeNeeds::default())?;
    // Needed only on kernels that charge BPF maps to RLIMIT_MEMLOCK; if it fails there, loading reports the error.
    let _ = raise_memlock();
    let effort = Effort::default();
    output::say(&format!(
        "measuring {} rounds without an interface; Ctrl-C stops and prints the results so far",
        effort.rounds
    ));
    let progress = Rounds::of(effort.rounds);
    let measured = measure(effort, None, &|done| {
        if let Some(progress) = &progress {
            progress.show(done);
        }
        interrupt.is_set()
    });
    drop(progress);
    let measured = measured?;
    if measured.rounds < effort.rounds {
        output::say(&format!("interrupted after {} of {} rounds", measured.rounds, effort.rounds));
    }
    if measured.rounds == 0 {
        return Ok(());
    }
    let document = show::Document::new(&measured, &facts, receive::interfaces());
    let mut out = std::io::stdout().lock();
    let written = if json { document.json(&mut out) } else { document.text(&mut out) };
    match written.and_then(|()| out.flush()) {
        // A closed pipe, as with `| head`, is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the result"),
    }
}
