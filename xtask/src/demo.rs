//! `cargo xtask demo`: builds, then runs `rocescope demo` as root.

use crate::build::build;
use crate::run::{root_command, run};
use anyhow::Result;

/// Passes `args` on to `rocescope demo`.
///
/// # Errors
/// Errors of the build, of becoming root, or of the demonstration itself.
pub(crate) fn demo(args: &[String]) -> Result<()> {
    let binary = build()?;
    // The terminal stays with the demonstration, which uses it for its user interface.
    run(root_command(&binary, "rocescope demo")?.arg("demo").args(args))
}
