//! `cargo xtask demo`: builds, then runs `rocescope demo` as root.

use crate::build::build;
use crate::run::{root_command, run};
use anyhow::Result;

/// Passes `args` on to `rocescope demo`.
///
/// # Errors
/// Of the build, of becoming root, or of the demo itself.
pub(crate) fn demo(args: &[String]) -> Result<()> {
    let binary = build()?;
    // The terminal stays the demo's: it is its user interface.
    run(root_command(&binary, "rocescope demo")?.arg("demo").args(args))
}
