//! What tests need that a machine may not have, for the tests of every crate.

use std::process::Command;

/// True if `is_there`. Otherwise prints a SKIP line for a test that needs `what`, or fails with `CI=true`.
///
/// # Panics
/// Panics if it is missing and `CI` is `true`.
pub fn there_or_skip(test: &str, is_there: bool, what: &str) -> bool {
    if !is_there {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{test} needs {what}, and CI=true skips nothing"
        );
        eprintln!("SKIP: {test} needs {what}");
    }
    is_there
}

/// True if this is root; see [`there_or_skip`].
///
/// # Panics
/// As there.
pub fn root_or_skip(test: &str) -> bool {
    there_or_skip(test, rustix::process::geteuid().is_root(), "root")
}

/// True if a program runs; see [`there_or_skip`].
///
/// # Panics
/// As there.
pub fn installed_or_skip(test: &str, program: &str) -> bool {
    let runs =
        |option| Command::new(program).arg(option).output().is_ok_and(|output| output.status.success());
    there_or_skip(test, runs("--version") || runs("-V"), program)
}
