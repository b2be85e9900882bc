//! Options of `live`, and those shared by all live sources.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::{FlightArgs, ViewArgs};
use crate::cli::values::{parse_bin, parse_misplaced, parse_windows};
use crate::filter::fields;
use crate::host::net::hook::{HookChoice, XdpModeChoice};
use crate::source::attach::SOCKET;
use crate::source::devices::posts::Plan;
use crate::source::nccl::address::RasAddress;

const LIVE_EXAMPLES: &str = "\
Examples:
  sudo rocescope live                         all interfaces with an RDMA device
  sudo rocescope live -i eth2 -i mlx5_1       by interface name or RDMA device
  sudo rocescope live -i eth0 --netns 4711    in the pod of process 4711
  sudo rocescope live --nccl-ras              with the ranks of the NCCL job
  sudo rocescope live -i eth2 --output json --duration 10s
  sudo rocescope live -i eth2 --output html --out report.html --duration 60s
  sudo rocescope live --keep 10m --on 'loss.*|qp.died'   dump before a problem
  rocescope live --attach                     what this host's agent counts";

/// Source options that conflict with `--attach`: the agent has its own.
const OF_THE_SOURCE: [&str; 18] = [
    "interface",
    "netns",
    "nccl_ras",
    "no_qp_probes",
    "qp_queries",
    "fwctl",
    "sample_posts",
    "sample_posts_limit",
    "hook",
    "xdp_mode",
    "no_promisc",
    "no_timing",
    "bin",
    "log",
    "keep",
    "filter",
    "max_flows",
    "idle",
];

/// Options of `live`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = LIVE_EXAMPLES, after_long_help = format!("{LIVE_EXAMPLES}\n\n{}", fields::source_help()))]
pub struct LiveArgs {
    /// Show what the agent of this host counts
    ///
    /// Through its unix socket, without kernel programs of its own; needs only access to it
    /// [default: /run/rocescope/agent.sock].
    #[arg(help_heading = "Live source")]
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, conflicts_with_all = OF_THE_SOURCE)]
    #[arg(default_missing_value = SOCKET, hide_default_value = true)]
    pub attach: Option<PathBuf>,
    /// Options of the source.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Options of the flight recorder.
    #[command(flatten)]
    pub flight: FlightArgs,
    /// Options of the output.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// Options of the live source: interfaces and how they are observed.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Live source")]
pub struct SourceArgs {
    /// Network interface, or RDMA device; repeatable
    ///
    /// An RDMA device selects its network interface. Without -i: all interfaces with an RDMA device.
    #[arg(short, long = "interface", value_name = "IFACE")]
    pub interface: Vec<String>,
    /// An interface given without -i; always an error that names the option.
    #[arg(hide = true, value_name = "IFACE", value_parser = parse_misplaced)]
    pub misplaced: Option<String>,
    /// Network namespace of the interfaces: a name, or the PID of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,
    /// Query the NCCL job on this host for its ranks every 10 s or more, through its RAS service (NCCL 2.24 and newer)
    /// [default without HOST:PORT: localhost:28028]
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "localhost", hide_default_value = true)]
    pub nccl_ras: Option<RasAddress>,
    /// Do not follow queue pairs by probes of the kernel's verbs and of mlx5's commands
    #[arg(long)]
    pub no_qp_probes: bool,
    /// Most queries per second for the NIC's own context of queue pairs (mlx5, hns); 0 disables them [default: 50]
    #[arg(long, value_name = "N")]
    pub qp_queries: Option<u32>,
    /// Query the firmware of mlx5 NICs for contexts, too, through /dev/fwctl (kernel 6.15 and newer), within
    /// --qp-queries: of queue pairs that GPUs drive, and where the kernel provides none
    #[arg(long)]
    pub fwctl: bool,
    /// Sample the work requests that processes post, by probes of their providers' post_send (100 ms in 10 s unless
    /// given): opcodes, message sizes and rates per queue pair. Its thread keeps CAP_SYS_PTRACE and
    /// CAP_DAC_READ_SEARCH, and may read every file and process
    #[arg(long, value_name = "WINDOW/PERIOD", num_args = 0..=1, require_equals = true, value_parser = parse_windows)]
    #[arg(default_missing_value = "100ms/10s", hide_default_value = true)]
    pub sample_posts: Option<(Duration, Duration)>,
    /// Calls of post_send per second above which a window of --sample-posts ends early
    #[arg(long, value_name = "N", default_value_t = Plan::default().most_calls_per_s, requires = "sample_posts")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub sample_posts_limit: u64,
    /// Options of all live sources.
    #[command(flatten)]
    pub attach: AttachArgs,
}

/// Options of attaching the kernel programs.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Kernel programs")]
pub struct AttachArgs {
    /// Ingress hook: tc, or xdp, which may reset the NIC's queues and change its offloads and MTU
    #[arg(long, value_enum, default_value_t = HookChoice::Auto)]
    pub hook: HookChoice,
    /// XDP mode: in the driver (native) or in the network stack (generic)
    #[arg(long, value_enum, default_value_t = XdpModeChoice::Auto)]
    pub xdp_mode: XdpModeChoice,
    /// Do not enable promiscuous mode
    #[arg(long)]
    pub no_promisc: bool,
    /// Disable latency measurement (lower overhead per packet; timestamps at tick resolution, 1 to 10 ms)
    #[arg(long)]
    pub no_timing: bool,
    /// Bin of burst and incast statistics: 100us to 1ms, or whole milliseconds up to 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_bin, default_value = "1ms")]
    pub bin: Duration,
    /// Print diagnostics of the kernel programs
    #[arg(long)]
    pub log: bool,
}
