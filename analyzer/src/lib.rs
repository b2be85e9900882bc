//! rocescope as a library: sources, model and views.

#[cfg(target_os = "linux")]
pub mod host;
