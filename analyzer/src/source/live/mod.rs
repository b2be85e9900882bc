//! Live: the programs in the kernel as a source.
//!
//! `load` brings programs and maps into the kernel, `attach` puts programs on interfaces, `tables`
//! reads the maps and retires idle flows, `pairing` finds which flows answer which, `latency` holds what the
//! programs time of them, `ecn` follows marks and CNPs, `loss` what is sent again, `event` and `bins` read the ring
//! buffers, `counters` reads devices, `begin` decides what a run is about, `counting` is one without programs, and `source` is the thread that does it all and feeds the views. `bpf` holds the system calls that aya lacks, `slots` the mapped
//! flow table, and `ticks` sets the clock of the kernel programs.

pub mod attach;
mod begin;
pub mod bins;
pub mod bpf;
mod counters;
mod counting;
pub mod ecn;
pub mod event;
mod latency;
pub mod load;
pub mod loss;
pub mod pairing;
mod slots;
mod source;
pub mod tables;
mod ticks;

use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};

use begin::Begun;
pub use load::{DEFAULT_MAX_FLOWS, LoadOptions, Programs};
pub use slots::Hand;
pub use tables::Tables;

use crate::filter::Filter;
use crate::host::ask::Host;
use crate::host::hook::{HookChoice, XdpModeChoice};
use crate::host::netns::NetNs;
use crate::source::feed::{self, Feed};

/// What to watch and how.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent switch of the user's or the view's"
)]
#[derive(Debug)]
pub struct Config {
    /// Interfaces or RDMA devices; none means every interface that has an RDMA device.
    pub interfaces: Vec<String>,
    /// The network namespace of the interfaces; `None` for the caller's.
    pub netns: Option<NetNs>,
    /// Which ingress hook.
    pub hook: HookChoice,
    /// Where XDP runs.
    pub xdp_mode: XdpModeChoice,
    /// Whether to make the interfaces promiscuous.
    pub promiscuous: bool,
    /// Size of the flow table.
    pub max_flows: u32,
    /// Flows without a packet for this long are retired; `None` keeps them all.
    pub idle: Option<Duration>,
    /// Time between samples.
    pub interval: Duration,
    /// Whether samples are wanted before the end.
    pub samples: bool,
    /// Which flows to show; `None` for all. The packets of the others are counted as filtered.
    pub filter: Option<Filter>,
    /// When to end by itself.
    pub duration: Option<Duration>,
    /// Whether the programs send events (connection management is read from them too).
    pub events: bool,
    /// Whether the view gets them.
    pub events_to_view: bool,
    /// Whether times are exact and requests are timed; without, times are those of the latest timer tick,
    /// which costs less.
    pub precise_clock: bool,
    /// Length of the bins in which bursts are counted: up to 1 ms, or a multiple of it. Without the exact clock there are none.
    pub bin_ns: u64,
    /// Verbosity of the programs' own log, 0 (off) to 5.
    pub log_level: u8,
    /// Where RDMA devices and settings are read: this host, or a recorded one in tests.
    pub host: Box<dyn Host>,
}

/// A running source.
#[derive(Debug)]
pub struct Running {
    /// Its feed.
    pub feed: Feed,
    /// Its thread; everything is detached when it ends.
    pub thread: JoinHandle<()>,
    /// Which hook each interface got, a sentence each.
    pub hooks: Vec<String>,
    /// How many interfaces are watched.
    pub interfaces: usize,
}

/// The largest flow table; beyond it the maps' sizes overflow what the kernel accepts.
pub const MOST_FLOWS: u32 = 4_000_000;

/// Attaches, and starts the thread that counts. Notices say what was chosen and why.
///
/// # Errors
/// With a sentence, when this host, these interfaces or these privileges do not allow it.
pub fn start(config: Config) -> Result<Running> {
    let (tap, feed) = feed::channel();
    let (ready_in, ready_out) = std::sync::mpsc::channel();
    let thread = thread::Builder::new()
        .name("live".to_owned())
        .spawn(move || match begin::begin(config) {
            Ok((begun, notes)) => {
                let hooks = match &begun {
                    Begun::Packets(source) => source.hooks(),
                    Begun::Counters(counting) => counting.hooks(),
                };
                if ready_in.send(Ok(hooks)).is_ok() {
                    match begun {
                        Begun::Packets(source) => source.run(&tap, notes),
                        Begun::Counters(counting) => counting.run(&tap, notes),
                    }
                }
            }
            Err(error) => {
                // The caller waits for this and nothing else.
                let _ = ready_in.send(Err(error));
            }
        })
        .context("cannot start the live source thread")?;
    let hooks = ready_out.recv().map_err(|_| anyhow!("bug: the live source thread ended unexpectedly"))??;
    Ok(Running { feed, thread, interfaces: hooks.len(), hooks })
}

/// Opens the network namespace that the user named.
///
/// # Errors
/// When there is none.
pub fn netns(name: &str) -> Result<NetNs> {
    source::open_netns(name)
}
