//! A parser that an attacker has taken over, in a build for tests: what it tries, and whether that succeeds.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use super::program::Program;
use crate::oracle::binary;

/// Attempts of a misbehaving parser, each on a line of its own.
const ATTEMPTS: usize = 14;
/// Of these, those that who writes can do in its own folder.
pub const WRITES: [&str; 3] = ["write in its folder", "rename in its folder", "remove in its folder"];
/// The variable with the address to which it connects.
pub const HIJACK: &str = "ROCESCOPE_TEST_HIJACK";
/// The variable with the folder in which it writes, renames and removes.
pub const FOLDER: &str = "ROCESCOPE_TEST_HIJACK_FOLDER";
/// Places with a folder that may be theirs.
const PLACES: &[&str] = &[
    "replay",
    "recording",
    "attach",
    "fleet",
    "damaged",
    "analysis",
    "background",
    "view",
    "recorder",
    "publisher",
    "http",
    "dump",
    "facts",
    "clickhouse",
    "journal",
];
/// The file that it writes.
const WRITTEN: &str = "/tmp/rocescope-hijacked";
/// Held by a test whose parser may write that file.
static FREE: Mutex<()> = Mutex::new(());

/// Of the attempts in `place`, exactly these succeeded.
pub fn done_in(said: &str, place: &str, done: &[&str]) {
    let lines: Vec<&str> =
        said.lines().filter(|line| line.contains(&format!("hijack in {place}: "))).collect();
    assert_eq!(lines.len(), ATTEMPTS, "{said}");
    for line in &lines {
        let is_done = done.iter().any(|what| line.contains(&format!(": {what}: ")));
        assert!(line.contains(if is_done { ": done" } else { ": denied: " }), "{line}: {said}");
    }
}

/// All attempts in `place` were refused.
pub fn refused(said: &str, place: &str) {
    done_in(said, place, &[]);
}

/// The attempts of a running program in these places are all refused, but for these.
pub fn refused_in(program: Program, places: &[(&str, &[&str])]) {
    for (place, _) in places {
        tried(&program, place);
    }
    let ended = program.interrupt().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    for (place, done) in places {
        done_in(&ended.err, place, done);
    }
}

/// Makes a folder with what is renamed and removed there.
pub fn victims(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for place in PLACES {
        for what in ["victim", "removed"] {
            std::fs::write(folder.join(format!("hijacked-{what}-{place}")), "").unwrap();
        }
    }
}

/// Waits until all attempts in `place` were made.
pub fn tried(program: &Program, place: &str) {
    let last = format!("hijack in {place}: become root");
    program.wait_for_message(|text| text.contains(&last).then_some(())).unwrap();
}

/// Runs rocescope with a misbehaving parser, in the namespace of the test. Also returns the socket to which it
/// connects.
pub fn hijacked(arguments: &[&str], folder: &Path) -> (Output, TcpListener) {
    hijacked_in(arguments, folder, folder)
}

/// The same; it writes to `own` instead of the working directory.
pub fn hijacked_in(arguments: &[&str], folder: &Path, own: &Path) -> (Output, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    victims(own);
    let mut command = Command::new(binary::path().unwrap());
    command.args(arguments).env(HIJACK, address).env(FOLDER, own).current_dir(folder);
    (command.output().unwrap(), listener)
}

/// The same without a sandbox. What it wrote is removed.
pub fn at_liberty(arguments: &[&str], folder: &Path) -> (Output, TcpListener) {
    let _alone = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = hijacked(arguments, folder);
    // It may belong to another user's test.
    let _ = std::fs::remove_file(WRITTEN);
    ended
}

/// No connection was made, and no file written.
pub fn nobody_came(listener: &TcpListener) {
    let _alone = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a connection was made");
    assert!(!Path::new(WRITTEN).exists());
}
