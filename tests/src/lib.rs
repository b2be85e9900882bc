//! Helpers of the integration tests.

pub mod capture_file;
pub mod craft;
pub mod oracle;
