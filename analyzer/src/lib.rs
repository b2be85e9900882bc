//! rocescope as a library: sources, model and views.
//!
//! A source (`replay`, `live`, `demo`) counts packets and makes [`sample::Sample`]s; it runs behind
//! a [`feed`]. Views (`report`, `tui`) are functions of samples.

pub mod demo;
pub mod feed;
#[cfg(target_os = "linux")]
pub mod host;
pub mod sample;
