//! rocescope as a library: sources, model and views.
//!
//! A source (`replay`, `live`, `demo`) counts packets and makes [`sample::Sample`]s; it runs behind
//! a [`feed`](source::feed). Views (`report`, `tui`) are functions of samples.

pub mod analysis;
#[cfg(feature = "live")]
pub mod bench;
pub mod cli;
pub mod diff;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod entity;
pub mod ethernet;
pub mod export;
pub mod filter;
pub mod findings;
pub mod fleet;
pub mod flight;
#[cfg(target_os = "linux")]
pub mod host;
pub mod metrics;
pub mod model;
pub mod packet;
pub mod record;
pub mod report;
pub mod sample;
#[cfg(target_os = "linux")]
pub mod sandbox;
pub mod share;
pub mod source;
pub mod tui;
pub mod util;
