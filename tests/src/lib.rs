//! Helpers of the integration tests.
#![expect(
    clippy::cast_possible_truncation,
    reason = "tests choose lengths and numbers that fit the fields they are put into"
)]
#![expect(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "an error of a helper is the failure of its test, which prints it"
)]

pub mod browser;
pub mod capture_file;
pub mod craft;
pub mod diff;
#[path = "../../analyzer/tests/support/document.rs"]
pub mod document;
#[cfg(feature = "live")]
pub mod fleet;
pub mod hostile;
#[cfg(feature = "live")]
pub mod kernel;
pub mod killed;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "live")]
pub mod load;
pub mod mutation;
#[path = "../../analyzer/tests/support/needs.rs"]
pub mod needs;
pub mod oracle;
pub mod packages;
pub mod picture;
pub mod pty;
#[cfg(feature = "live")]
pub mod recording;
pub mod schema;
pub mod sim;
#[cfg(feature = "live")]
pub mod soft_roce;
pub mod verdict;

/// Ends a test that needs root where this is none; see [`needs::root_or_skip`].
#[macro_export]
macro_rules! needs_root {
    () => {{
        fn here() {}
        // The path of the test, and the name of the function above.
        let path = std::any::type_name_of_val(&here);
        if !$crate::needs::root_or_skip(path.trim_end_matches("::here")) {
            return;
        }
    }};
}

/// The exit status of a program; an error is printed as a message, without the backtrace of `main() -> Result`.
pub fn exit_status(result: anyhow::Result<()>) -> std::process::ExitCode {
    if let Err(error) = result {
        eprintln!("error: {error:#}");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}
