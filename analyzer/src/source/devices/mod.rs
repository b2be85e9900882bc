//! Counters of this host's devices, independent of the packets captured.
//!
//! A NIC that does RoCE in hardware shows none of its packets to the kernel, but it counts them.
//! This is the second source of a live run: never added to what was counted from packets.
//!
//! | module | does |
//! |---|---|
//! | `listed` | queue pairs of this host, with the processes that made them |
//! | [`psn`] | packets from the PSNs of a queue pair at two moments |
//! | `port`, `follow`, `ethernet` | one port; its queue pairs; the NIC ports below it |
//! | [`lives`] | queue pairs on the kernel's control path |
//! | [`context`] | the NIC's own context of queue pairs, within a budget of queries |
//! | [`posts`], [`present`] | work requests that processes post, sampled; their queue pairs |
//! | `audit` | the settings of the host, read on a thread of its own |
//! | `tally` | cumulative values from readings that wrap and are reset |
//! | `watch` | the devices of watched interfaces, read again and again |

#[cfg(target_os = "linux")]
pub mod audit;
pub mod context;
#[cfg(target_os = "linux")]
mod ethernet;
#[cfg(target_os = "linux")]
mod follow;
#[cfg(target_os = "linux")]
pub mod listed;
pub mod lives;
#[cfg(target_os = "linux")]
mod port;
pub mod posts;
pub mod present;
pub mod psn;
#[cfg(target_os = "linux")]
pub mod tally;
#[cfg(target_os = "linux")]
pub mod watch;
