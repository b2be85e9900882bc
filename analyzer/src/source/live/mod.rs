//! The live source: programs in the kernel.
//!
//! | module | contents |
//! |---|---|
//! | [`attach`], [`load`] | programs on interfaces; programs and maps in the kernel |
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
//! | `ras` | NCCL's report about its job |
//! | [`bpf`], `ticks` | system calls that aya lacks; the clock of the kernel programs |

pub mod attach;
pub mod bins;
pub mod bpf;
mod control;
mod counters;
mod counters_only;
mod devx;
pub mod ecn;
pub mod event;
mod latency;
pub mod load;
pub mod loss;
pub mod pairing;
pub mod posts;
mod qp_pods;
mod qp_probes;
mod ras;
mod setup;
mod slots;
mod source;
pub mod tables;
mod ticks;

use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};

pub use load::{DEFAULT_MAX_FLOWS, LoadOptions, Programs};
use setup::Prepared;
pub use slots::OpenBin;
pub use tables::Tables;

use crate::filter::Filter;
use crate::host::net::hook::{HookChoice, XdpModeChoice};
use crate::host::net::netns::NetNs;
use crate::host::read::queries::{Host, Kernel};
use crate::source::devices::posts::Plan;
use crate::source::feed::{self, Feed};
use crate::source::nccl::address::RasAddress;
use crate::util::memory;

/// Configuration of a live run.
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
    /// Hook for received packets.
    pub hook: HookChoice,
    /// Mode of the XDP programs.
    pub xdp_mode: XdpModeChoice,
    /// True to enable promiscuous mode.
    pub promiscuous: bool,
    /// Size of the flow table.
    pub max_flows: u32,
    /// Flows without a packet for this long are retired; `None` keeps them all.
    pub idle: Option<Duration>,
    /// Time between samples, in the data's time.
    pub interval: Duration,
    /// True if samples are wanted before the end.
    pub samples: bool,
    /// Filter of the flows to show; `None` for all. Packets of other flows are counted as filtered.
    pub filter: Option<Filter>,
    /// Duration after which the run ends; `None` for no limit.
    pub duration: Option<Duration>,
    /// True if the programs send events (connection management is read from them too).
    pub events: bool,
    /// True if the view receives the events.
    pub events_to_view: bool,
    /// True for exact times and latency measurement; false for the time of the latest timer tick, which costs less.
    pub precise_clock: bool,
    /// Length of the bins in which bursts are counted: up to 1 ms, or a multiple of 1 ms. Without the exact clock
    /// there are none.
    pub bin_ns: u64,
    /// Verbosity of the programs' own log, 0 (off) to 5.
    pub log_level: u8,
    /// Address of NCCL's RAS service; `None` if it is not queried.
    pub nccl_ras: Option<RasAddress>,
    /// Follow queue pairs by probes of the kernel.
    pub qp_probes: bool,
    /// Maximum queries per second for the NIC's own contexts of queue pairs; 0 disables them.
    pub qp_queries: u32,
    /// Also query the firmware for contexts (fwctl).
    pub fwctl: bool,
    /// Schedule for sampling calls of `post_send`; `None` for never.
    pub sample_posts: Option<Plan>,
    /// Host whose RDMA devices and settings are read: this one, or a recorded one in tests.
    pub host: Box<dyn Host>,
}

impl Default for Config {
    /// All interfaces of this host with an RDMA device, with samples and events, until stopped.
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            netns: None,
            hook: HookChoice::Auto,
            xdp_mode: XdpModeChoice::Auto,
            promiscuous: true,
            max_flows: DEFAULT_MAX_FLOWS,
            idle: None,
            interval: Duration::from_secs(1),
            samples: true,
            filter: None,
            duration: None,
            events: true,
            events_to_view: false,
            precise_clock: true,
            bin_ns: crate::metrics::traffic::BIN_NS,
            qp_probes: true,
            qp_queries: crate::source::devices::context::DEFAULT_PER_SECOND,
            log_level: 0,
            nccl_ras: None,
            fwctl: false,
            sample_posts: None,
            host: Box::new(Kernel),
        }
    }
}

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
    source::open_netns(name)
}
