//! The demonstration: bundled RoCE traffic with known ills, sent through links that exist only
//! while it runs.
//!
//! | module | does |
//! |---|---|
//! | [`craft`] | builds single frames |
//! | [`scenario`] | decides which frame crosses which link when, and keeps the truth about it |
//! | [`play`] | sends a scenario in real time |
//! | [`stage`] | the network namespaces and links that it is sent through |

pub mod craft;
#[cfg(target_os = "linux")]
pub mod play;
pub mod scenario;
#[cfg(target_os = "linux")]
pub mod stage;
