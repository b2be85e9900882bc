//! The demonstration: generated RoCE traffic with known problems, sent through links that exist only while it runs.
//!
//! | module | does |
//! |---|---|
//! | [`craft`] | builds single frames |
//! | [`scenario`] | plans which frame crosses which link when, and keeps the ground truth |
//! | [`play`] | sends a scenario in real time |
//! | [`stage`] | the network namespaces and links for it |

pub mod craft;
#[cfg(target_os = "linux")]
pub mod play;
pub mod scenario;
#[cfg(target_os = "linux")]
pub mod stage;
