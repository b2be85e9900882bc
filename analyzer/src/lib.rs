//! rocescope as a library: sources, model and views.
//!
//! A source (`replay`, `live`, `demo`) counts packets and makes [`sample::Sample`]s; it runs behind
//! a [`feed`]. Views (`report`, `tui`) are functions of samples.

pub mod feed;
pub mod model;
pub mod report;
pub mod sample;
pub mod tui;
pub mod units;
