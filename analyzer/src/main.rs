//! The `rocescope` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocescope::cli::main()
}
