//! What the user asks of a live run.

use std::time::Duration;

use super::load::DEFAULT_MAX_FLOWS;
use crate::filter::Filter;
use crate::host::net::hook::{HookChoice, XdpModeChoice};
use crate::host::net::netns::NetNs;
use crate::host::read::queries::{Host, Kernel};
use crate::source::devices::posts::Plan;
use crate::source::nccl::address::RasAddress;

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
