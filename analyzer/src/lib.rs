//! rocescope as a library: sources, model and views.
//!
//! A source (`replay`, `live`, `demo`) counts packets and makes [`sample::Sample`]s; it runs behind
//! a [`feed`]. Views (`report`, `tui`) are functions of samples.

#[cfg(feature = "live")]
pub mod bench;
pub mod capture;
pub mod cli;
pub mod config;
pub mod demo;
pub mod devices;
pub mod diff;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod drive;
pub mod feed;
pub mod figures;
pub mod filter;
pub mod findings;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(feature = "live")]
pub mod live;
pub mod lldp;
pub mod mac_control;
pub mod model;
pub mod owners;
pub mod packet;
pub mod peers;
pub mod replay;
pub mod report;
pub mod retire;
pub mod sample;
mod second;
pub mod table;
pub mod tui;
pub mod units;
pub mod view;
