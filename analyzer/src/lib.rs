//! rocescope as a library: sources, model and views.
pub mod capture;
pub mod cli;
pub mod drive;
pub mod feed;
pub mod filter;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(feature = "live")]
pub mod live;
pub mod peers;
pub mod replay;
pub mod report;
pub mod retire;
pub mod sample;
pub mod table;
pub mod units;
pub mod view;
