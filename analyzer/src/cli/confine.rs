//! Privileges of the main thread after set-up, for each command that reads bytes from the network or from files.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::ReplayArgs;
#[cfg(feature = "live")]
use super::output;
#[cfg(target_os = "linux")]
use crate::host::kernel::Capability;
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Plan};
use crate::source::capture::{CaptureError, Reader};

/// What is missing where no thread can be started.
#[cfg(target_os = "linux")]
const NO_THREAD: &str =
    "cannot start a thread: too many threads (ulimit -u), or too little memory (ulimit -v)";

/// Rights that could not be given up, as notes for the view.
pub(super) type Notes = Vec<String>;

/// Fails if one of the inputs does not exist. Call it before the others: a sandbox hides the folder, and with it the
/// name that is meant.
pub(super) fn present<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let mut named = files.into_iter().filter(|file| file.as_os_str() != "-");
    named.find_map(|file| CaptureError::absent(file)).map_or(Ok(()), |error| Err(error.into()))
}

/// Fails if one of the captures cannot be read or is none. Reads its header in a thread with the rights of a parser.
pub(super) fn captures(files: &[PathBuf]) -> Result<()> {
    // What is no file could not be read twice.
    let again: Vec<&PathBuf> = files.iter().filter(|file| file.is_file() || file.is_dir()).collect();
    let open = || again.iter().try_for_each(|file| Reader::open(file).map(drop));
    #[cfg(target_os = "linux")]
    let opened = sandbox::alone("header", &Plan::of_files(again.iter().copied().cloned(), Vec::new()), open)?;
    #[cfg(not(target_os = "linux"))]
    let opened = open();
    opened.map_err(Into::into)
}

/// The folder of a file.
#[cfg(target_os = "linux")]
pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Call it before the first byte of an engine's answer is parsed; before a server of this port is asked. The page may
/// be written to `out`.
pub(super) fn fleet(port: Option<u16>, out: Option<&Path>) {
    #[cfg(target_os = "linux")]
    {
        let plan = port.map_or_else(Plan::parser, Plan::client);
        enter(&Plan { write: out.map(parent).into_iter().collect(), ..plan });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (port, out);
}

/// Call it before the first byte of a capture is read.
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

/// Call it before the first byte of either file is read.
pub(super) fn files(files: &[PathBuf]) {
    #[cfg(target_os = "linux")]
    enter(&Plan::of_files(files.iter().cloned(), Vec::new()));
    #[cfg(not(target_os = "linux"))]
    let _ = files;
}

/// Call it after the programs were attached. The thread of the source has its own sandbox, whose state is `source`.
#[cfg(feature = "live")]
pub(super) fn live(tui: bool, source: &sandbox::State, kept: &[String]) -> Notes {
    let mut notes = enter(&Plan::of_files(Vec::new(), exports(tui)));
    notes.extend(source.holds.iter().map(|held| format!("source: {held}")));
    notes.push(summary(kept));
    notes
}

/// Names in one line the capabilities that threads keep, of a command without a view that lists them.
#[cfg(feature = "live")]
pub(super) fn tell(kept: &[String]) {
    output::say(&summary(kept));
}

/// `capabilities after set-up: source: CAP_NET_ADMIN (TC filters are removed at the end)`.
#[cfg(feature = "live")]
fn summary(kept: &[String]) -> String {
    let all = match kept {
        _ if sandbox::is_off() => "all (--no-sandbox)".to_owned(),
        [] => "none".to_owned(),
        _ => kept.join("; "),
    };
    format!("capabilities after set-up: {all}")
}

/// Call it after sockets were bound and programs attached. In `folders`, files and sockets are replaced or removed;
/// below `tree`, folders are created as well, as a recording does.
#[cfg(feature = "live")]
pub(super) fn export(reads: impl IntoIterator<Item = PathBuf>, folders: Vec<PathBuf>, tree: bool) {
    enter(&Plan { accept: true, tree, ..Plan::of_files(reads, folders) });
}

/// Call it before the first byte of a capture is read, or after the programs were attached. The command records into
/// `folder`.
pub(super) fn record(files: &[PathBuf], folder: &Path) {
    #[cfg(target_os = "linux")]
    {
        // What it holds already is compared with a capture.
        let reads = files.iter().cloned().chain([folder.to_owned()]);
        enter(&Plan { tree: true, ..Plan::of_files(reads, vec![folder.to_owned()]) });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (files, folder);
}

/// For `doctor`: it reads everything that the user may read, starts no program and makes no connection.
#[cfg(target_os = "linux")]
pub(super) fn doctor() {
    enter(&reading_all());
}

/// Runs `work`, which reads what `doctor` reads, in a thread with its limits. The calling thread keeps its rights.
#[cfg(target_os = "linux")]
pub(super) fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    sandbox::alone("host", &reading_all(), work).context(NO_THREAD)
}

#[cfg(target_os = "linux")]
fn reading_all() -> Plan {
    Plan { all_rights: true, ..Plan::default() }
}

/// Runs `work`, which parses bytes of the network that `files` or open sockets have, in a thread with the rights of a
/// parser.
pub(super) fn parsing<T: Send>(files: &[PathBuf], work: impl FnOnce() -> T + Send) -> io::Result<T> {
    #[cfg(target_os = "linux")]
    return sandbox::alone("parser", &Plan::of_files(files.iter().cloned(), Vec::new()), work);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = files;
        Ok(work())
    }
}

/// Runs `work`, which parses bytes of others, without the right to write that the command keeps, and starts threads
/// that do not have it.
pub(super) fn reading<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    #[cfg(target_os = "linux")]
    return sandbox::reading("reading", work).context(NO_THREAD)?;
    #[cfg(not(target_os = "linux"))]
    work()
}

/// Limits of the thread that looks up names of hosts.
pub(super) fn names() {
    #[cfg(target_os = "linux")]
    sandbox::confine(&Plan::names());
}

/// Sandbox features that this host lacks, tried by a thread that then ends; `None` if the trial is not possible.
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

/// Enters the sandbox. Returns a note for each limit that holds.
#[cfg(target_os = "linux")]
fn enter(plan: &Plan) -> Notes {
    let state = sandbox::enter_command(plan);
    state.holds.into_iter().map(|held| format!("privileges: {held}")).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_reads_the_host_starts_no_program_and_its_caller_still_may() {
        let start = || Command::new("true").status();
        let refused = alone(start).unwrap().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        assert!(start().unwrap().success());
    }
}
