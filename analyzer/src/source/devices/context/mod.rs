//! The NIC's own context of queue pairs, read again and again within a budget, and what follows from it.
//!
//! | module | does |
//! |---|---|
//! | [`ask`] | which queue pair to ask about next, refusals, what the queries cost |
//! | `progress` | one queue pair from context to context: progress, retries, queues |
//! | `blame` | timeouts that a port counts, and the queue pairs that made them |

#[cfg(target_os = "linux")]
pub mod ask;
#[cfg(target_os = "linux")]
mod blame;
#[cfg(target_os = "linux")]
mod progress;

/// Queries a second unless the user says otherwise: on mlx5 each is a firmware command, of which there is one at a
/// time.
pub const DEFAULT_PER_SECOND: u32 = 50;
