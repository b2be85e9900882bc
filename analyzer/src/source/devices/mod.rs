//! Counters of this host's devices, independent of captured packets.
//!
//! A NIC with hardware RoCE passes none of its packets to the kernel, but counts them. This is the second source of a
//! live run; its figures are never added to those from packets.
//!
//! | module | does |
//! |---|---|
//! | `listed` | queue pairs of this host, with their processes |
//! | [`psn`] | packet counts from the PSNs of a queue pair at two times |
//! | `port`, `follow`, `ethernet` | one port; its queue pairs; the NIC ports below it |
//! | [`lives`] | queue pairs on the kernel's control path |
//! | [`context`] | the NIC's own context of queue pairs, within a budget of queries |
//! | [`posts`], [`present`] | work requests that processes post, sampled; the existing queue pairs |
//! | `audit` | the settings of the host, read in a separate thread |
//! | `tally` | cumulative values from counters that wrap and are reset |
//! | `watch` | the devices of watched interfaces, read periodically |

#[cfg(target_os = "linux")]
pub mod audit;
pub mod context;
#[cfg(target_os = "linux")]
mod ethernet;
#[cfg(target_os = "linux")]
mod follow;
mod growth;
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
