//! The NIC's own contexts of queue pairs, read repeatedly within a budget, and the conclusions from them.
//!
//! | module | does |
//! |---|---|
//! | [`ask`] | choice of the next query, refusals, cost |
//! | `budget` | the time at which it may be sent |
//! | `progress` | one queue pair over successive contexts: progress, retries, queues |
//! | `attribution` | attribution of a port's timeouts to queue pairs |

#[cfg(target_os = "linux")]
pub mod ask;
#[cfg(target_os = "linux")]
mod attribution;
#[cfg(target_os = "linux")]
mod budget;
#[cfg(target_os = "linux")]
mod progress;

/// Default number of queries per second: on mlx5 each is a firmware command, which the firmware executes one at a
/// time.
pub const DEFAULT_PER_SECOND: u32 = 50;
