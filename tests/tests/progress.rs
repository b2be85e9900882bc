//! Progress of commands that take longer than a moment, on a terminal and nowhere else. That of commands that read
//! files is tested with them (`record/main.rs`).

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::process::Command;

use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::pty;

/// The program with a terminal as its standard error, which does not wait before it shows progress.
fn in_terminal(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1 >/dev/null", "sh"]).arg(binary::path().unwrap());
    command.args(arguments).env("ROCESCOPE_TEST_IMPATIENT", "1");
    command
}

/// The last line of progress that has `part` was removed from the terminal.
fn shows_progress(shown: &str, part: &str) {
    let at = shown.rfind(part).unwrap_or_else(|| panic!("no {part:?}: {shown:?}"));
    let (line, rest) = shown[at..].split_once('\r').unwrap_or_else(|| panic!("it stays: {shown:?}"));
    assert!(line.ends_with(" s left") && rest.starts_with("\u{1b}[K"), "{shown:?}");
}

#[test]
fn a_live_run_of_a_given_duration_shows_the_time_left() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("recording").display().to_string();
    let (world, _link) = World::with_link(1500).unwrap();
    let on = ["-i", "near0", "--duration", "3s"];
    for (command, what) in [
        (&["live", "--output", "json"][..], "counting packets, "),
        (&["live", "--output", "html"], "counting packets, "),
        (&["record", "--dir", &dir], "recording, "),
    ] {
        let arguments = [command, &on].concat();
        let mut started = in_terminal(&arguments);
        let (status, shown) = world.near.run(|| pty::output(&mut started)).unwrap().unwrap();
        assert!(status.success(), "{shown}");
        shows_progress(&shown, what);
        // Elsewhere it would be in the way.
        let how = Start { netns: Some(&world.near), ..Start::default() };
        let ended = Program::run(how, &arguments).unwrap();
        assert!(ended.status.success() && !ended.err.contains(" s left"), "{ended:?}");
    }
}

#[test]
fn a_benchmark_shows_the_time_left() {
    needs_root!();
    // It gets the signal of Ctrl-C once it shows it.
    let mut command = in_terminal(&["bench", "--output", "json"]);
    let (status, shown) = pty::interrupted(&mut command, " s left").unwrap();
    assert!(status.success(), "{shown}");
    shows_progress(&shown, " rounds, ");
}
