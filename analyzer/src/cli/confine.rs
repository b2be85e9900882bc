//! Privileges of the main thread after set-up, for each command that reads bytes from the network or from files.

use std::path::PathBuf;

use super::{ReplayArgs, output};
#[cfg(target_os = "linux")]
use crate::host::kernel::Capability;
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Plan};

/// What was given up, for the notes of a view.
pub(super) type Notes = Vec<String>;

/// Before the first byte of a capture is read.
pub(super) fn replay(args: &ReplayArgs, tui: bool) -> Notes {
    let named = args.tap.iter().flat_map(|tap| &tap.files);
    let files: Vec<PathBuf> =
        args.files.iter().chain(named).filter(|file| file.as_os_str() != "-").cloned().collect();
    #[cfg(target_os = "linux")]
    {
        let stream = args.files.iter().any(|file| file.as_os_str() == "-");
        let mut plan = Plan::of_files(files, exports(tui));
        if tui && stream {
            plan = plan
                .keeping(Capability::Kill, "Ctrl-Z also stops the capture tool that writes into the pipe");
        }
        enter(&plan)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (files, tui);
        Notes::new()
    }
}

/// Before the first byte of two files is read.
pub(super) fn files(files: &[PathBuf]) {
    #[cfg(target_os = "linux")]
    enter(&Plan::of_files(files.iter().cloned(), Vec::new()));
    #[cfg(not(target_os = "linux"))]
    let _ = files;
}

/// After programs were attached; their thread has a sandbox of its own, which did `source`.
#[cfg(feature = "live")]
pub(super) fn live(tui: bool, source: &sandbox::State) -> Notes {
    let mut notes = enter(&Plan::of_files(Vec::new(), exports(tui)));
    notes.extend(source.holds.iter().map(|held| format!("source: {held}")));
    notes
}

/// After sockets were bound and programs attached. `folders`: where files and sockets are made anew or removed;
/// `tree`: folders are made below them, as a recording does.
#[cfg(feature = "live")]
pub(super) fn export(reads: impl IntoIterator<Item = PathBuf>, folders: Vec<PathBuf>, tree: bool) {
    enter(&Plan { accept: true, tree, ..Plan::of_files(reads, folders) });
}

/// Before the first byte of captures is read, or after programs were attached, by a command that records into `folder`.
pub(super) fn record(files: &[PathBuf], folder: PathBuf) {
    #[cfg(target_os = "linux")]
    enter(&Plan { tree: true, ..Plan::of_files(files.iter().cloned(), vec![folder]) });
    #[cfg(not(target_os = "linux"))]
    let _ = (files, folder);
}

/// `doctor`, which reads everything that the user may read: it starts nothing and connects to nobody.
#[cfg(target_os = "linux")]
pub(super) fn doctor() {
    enter(&Plan { all_rights: true, ..Plan::default() });
}

/// What a sandbox would lack on this host, tried by a thread that ends; `None` when that cannot be tried.
#[cfg(target_os = "linux")]
pub(super) fn missing() -> Option<Vec<String>> {
    std::thread::scope(|scope| {
        let tried = || sandbox::enter(&Plan::parser()).missing;
        std::thread::Builder::new().spawn_scoped(scope, tried).ok()?.join().ok()
    })
}

/// The folder in which the terminal view writes files.
#[cfg(target_os = "linux")]
fn exports(tui: bool) -> Vec<PathBuf> {
    if tui { std::env::current_dir().into_iter().collect() } else { Vec::new() }
}

/// Enters, and says what this kernel does not allow.
#[cfg(target_os = "linux")]
fn enter(plan: &Plan) -> Notes {
    let state = sandbox::enter(plan);
    for missing in &state.missing {
        output::say(&format!("privileges: {missing}"));
    }
    state.holds.into_iter().map(|held| format!("privileges: {held}")).collect()
}
