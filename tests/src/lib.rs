//! Helpers of the integration tests.

pub mod capture_file;
pub mod craft;
#[cfg(feature = "live")]
pub mod kernel;
pub mod oracle;
