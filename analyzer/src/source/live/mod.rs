//! The live source: programs in the kernel.
//!
//! | module | contents |
//! |---|---|
//! | `config` | what the user asks of a run |
//! | [`attach`], [`load`] | programs on interfaces; programs and maps in the kernel |
//! | `object`, [`names`] | values of maps as aya takes them, refusals in words; names of the programs |
//! | `setup` | start of a run: packets and counters, or counters only |
//! | `source` | the thread of a run with programs; `sampling` reads the maps into samples |
//! | `counters_only` | a run without programs |
//! | `control` | commands of the view, notices to the user |
//! | [`tables`], `slots` | the flow table: reading, retiring idle flows; its mapped memory |
//! | [`event`], [`bins`] | the ring buffers |
//! | [`pairing`], `latency` | the two directions of a flow; latency measured by the programs |
//! | [`ecn`], [`loss`] | CE marks and CNPs; loss episodes |
//! | `counters` | device counters |
//! | `qp_probes`, `devx`, [`posts`] | queue pairs on the control path and without the verbs; samples of `post_send` |
//! | `probe`, `qp_pods` | what these probes share; the names and pods of those that made queue pairs |
//! | `ras` | NCCL's report about its job |
//! | [`bpf`], `skips`, `ticks` | system calls that aya lacks; skipped probes; the clock of the kernel programs |

pub mod attach;
pub mod bins;
pub mod bpf;
mod config;
mod control;
mod counters;
mod counters_only;
mod devx;
pub mod ecn;
pub mod event;
mod latency;
pub mod load;
pub mod loss;
#[cfg(test)]
#[path = "map_memory_tests.rs"]
mod map_memory;
pub mod names;
mod object;
pub mod pairing;
pub mod posts;
mod probe;
mod qp_pods;
mod qp_probes;
mod ras;
mod setup;
mod skips;
mod slots;
mod source;
pub mod tables;
mod ticks;

use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result, anyhow};

pub use config::Config;
pub use load::{DEFAULT_MAX_FLOWS, LoadOptions, Programs};
use setup::Prepared;
pub use slots::OpenBin;
pub use tables::Tables;

use crate::host::net::netns::NetNs;
use crate::source::feed::{self, Feed};
use crate::util::memory;

/// A source that is attached and running.
#[derive(Debug)]
pub struct Running {
    /// The channel of its samples and notices.
    pub feed: Feed,
    /// Its thread; everything is detached when it ends.
    pub thread: JoinHandle<()>,
    /// The hooks of each interface, one sentence each.
    pub hooks: Vec<String>,
    /// Number of watched interfaces.
    pub interfaces: usize,
    /// Privileges that the thread gave up.
    pub sandbox: crate::sandbox::State,
    /// The capabilities that threads keep, one sentence for each that keeps any.
    pub kept: Vec<String>,
}

/// The largest flow table; beyond it the maps' sizes overflow what the kernel accepts.
pub const MOST_FLOWS: u32 = 4_000_000;

/// Finds what a run would watch, and attaches nothing.
///
/// # Errors
/// As [`start`], but for a program that the kernel or an interface does not take.
pub fn check(config: Config) -> Result<()> {
    // A thread of its own: it enters the network namespace.
    let thread = thread::Builder::new().name("check".to_owned());
    let thread = thread
        .spawn(move || setup::visible(&config).map(|_| ()))
        .context("cannot start a thread to find the interfaces")?;
    thread.join().map_err(|_| anyhow!("bug: the thread that finds the interfaces ended unexpectedly"))?
}

/// Attaches, and starts the counting thread. Notices name automatic choices with their reasons.
///
/// # Errors
/// If this host, these interfaces or the privileges do not allow it.
pub fn start(config: Config) -> Result<Running> {
    memory::give_back(memory::LARGE);
    let (tap, feed) = feed::channel();
    let (ready_in, ready_out) = std::sync::mpsc::channel();
    let thread = thread::Builder::new()
        .name("live".to_owned())
        .spawn(move || match setup::prepare(config) {
            Ok((prepared, notes)) => {
                let hooks = match &prepared {
                    Prepared::Packets(source) => source.hooks(),
                    Prepared::Counters(counting) => counting.hooks(),
                };
                let kept = prepared.kept();
                let sandbox = crate::sandbox::enter(&prepared.needs());
                // Loading took as much memory as hundreds of flows do.
                memory::trim();
                if ready_in.send(Ok((hooks, sandbox, kept))).is_ok() {
                    match prepared {
                        Prepared::Packets(source) => source.run(&tap, notes),
                        Prepared::Counters(counting) => counting.run(&tap, notes),
                    }
                }
            }
            Err(error) => {
                // The caller waits only for this.
                let _ = ready_in.send(Err(error));
            }
        })
        .context("cannot start the live source thread")?;
    let (hooks, sandbox, kept) =
        ready_out.recv().map_err(|_| anyhow!("bug: the live source thread ended unexpectedly"))??;
    Ok(Running { feed, thread, interfaces: hooks.len(), hooks, sandbox, kept })
}

/// Opens the network namespace that the user named.
///
/// # Errors
/// If it does not exist or cannot be opened.
pub fn netns(name: &str) -> Result<NetNs> {
    Ok(NetNs::open(name)?)
}
