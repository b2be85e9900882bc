//! The kernel programs under test: run over single frames, read like a live source reads them.
//!
//! [`frames`] turns captures into Ethernet frames, [`machine`] sends those through a program with
//! `BPF_PROG_TEST_RUN` ([`test_run`]) and makes a sample of what was counted, [`replayed`] gets the
//! same from replay, and [`diff`] finds every difference between the two reports.

pub mod diff;
pub mod frames;
pub mod machine;
pub mod memory;
pub mod replayed;
pub mod test_run;

/// Whether this process may load programs. Without that a test has nothing to do: it says so in a
/// line, or fails where every test is expected to run (`CI=true`).
///
/// # Panics
/// When it may not, and `CI=true` is set.
#[must_use]
pub fn available() -> bool {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "tests of the kernel programs need root, and CI=true expects every test to run"
    );
    println!("SKIP tests of the kernel programs need root");
    false
}
