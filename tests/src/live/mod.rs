//! Helpers of the tests that run the program on real interfaces.
//!
//! Everything runs in anonymous network namespaces, which disappear with the test.

pub mod attached;
pub mod frames;
pub mod hijack;
pub mod program;
pub mod tcp;
pub mod terminal;
pub mod wire;

/// True if a test that needs root can run. Otherwise prints a SKIP line, or fails with `CI=true`.
///
/// # Panics
/// Panics if this is not root and `CI` is `true`.
#[must_use]
pub fn root_or_skip(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} must run as root where CI=true");
        eprintln!("SKIP: {test} needs root");
    }
    root
}
