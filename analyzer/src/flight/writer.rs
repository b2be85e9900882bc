//! The thread that writes dumps, so that neither counting nor the view waits for a disk. It reads what packets had, and
//! has no rights but to write to the folder of dumps; what needs more is done by threads beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Settings;
use super::aside::{self, Aside};
use super::dump::{self, Dump, PARTIAL, PREFIX, WHY, Written};
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Plan};
use crate::source::feed::Update;
use crate::util::limit;
use crate::util::notice::say;
use crate::util::units::plural;

/// Maximum run time of the user's program.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// Interval of checks whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Produces doctor's page as JSON.
pub type Facts = Box<dyn Fn() -> Option<String> + Send>;
/// Runs the user's program with the folder of a dump.
type RunProgram = Aside<PathBuf, io::Result<()>>;

/// Rights of the thread.
#[cfg(target_os = "linux")]
pub fn needs(folder: &Path) -> Plan {
    Plan { tree: true, ..Plan::of_files(Vec::new(), vec![folder.to_owned()]) }
}

/// Starts the thread, and makes the folder of dumps. It ends when all senders are dropped and the last dump is written.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(
    settings: Settings,
    facts: Facts,
    notices: mpsc::SyncSender<Update>,
) -> io::Result<(mpsc::SyncSender<Dump>, JoinHandle<()>)> {
    // Here, since its parent is not among the folders of the sandbox.
    if let Err(error) = dump::folder(&settings.folder) {
        say(&format!(
            "no dump can be written: cannot make {}: {}; choose another --dump-dir",
            settings.folder.display(),
            limit::words(&error.to_string())
        ));
    }
    let run = settings.command.clone().map(|program| {
        // Its program has the user's rights, so that this thread gives up none. It reads nothing.
        aside::start("on-cmd", move || move |folder: PathBuf| run(&program, &folder, COMMAND_TIME))
    });
    let run: Option<RunProgram> = run.transpose()?;
    // One dump being written, and one queued.
    let (sender, dumps) = mpsc::sync_channel::<Dump>(1);
    let thread = std::thread::Builder::new().name("dumps".to_owned()).spawn(move || {
        #[cfg(target_os = "linux")]
        sandbox::confine(&needs(&settings.folder));
        // Messages go to the view, which may own the terminal, and to standard error after the view has ended.
        let say = |sentence: &str| {
            if notices.send(Update::Notice(sentence.to_owned())).is_err() {
                say(sentence);
            }
        };
        for dump in dumps {
            one(&settings, &dump, facts().as_deref(), run.as_ref(), &say);
        }
    })?;
    Ok((sender, thread))
}

fn one(settings: &Settings, dump: &Dump, facts: Option<&str>, run: Option<&RunProgram>, say: &dyn Fn(&str)) {
    let why = dump.reasons.first().map_or("", |reason| reason.title.as_str());
    let (written, pruned) = match write(settings, dump, facts) {
        Ok(done) => done,
        Err(error) => {
            let folder = settings.folder.display();
            if !settings.folder.is_dir() {
                return say(&format!(
                    "no dump of \"{why}\": {folder} does not exist; a restart of rocescope makes it"
                ));
            }
            let remedy = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space, or ",
                _ => "",
            };
            return say(&format!(
                "no dump of \"{why}\": cannot write to {folder}: {}; {remedy}choose another --dump-dir",
                limit::words(&error.to_string())
            ));
        }
    };
    let folder = written.folder.display();
    let lost = match written.rows_lost {
        0 => String::new(),
        lost => format!(", {} lost", plural(lost, "row")),
    };
    say(&format!("dump written to {folder}: {why} ({}{lost})", plural(written.rows as u64, "row")));
    match pruned {
        Ok(removed) => {
            for folder in removed {
                say(&format!("removed {}: --max-dumps {}", folder.display(), settings.most));
            }
        }
        Err(error) => say(&format!("cannot remove an old dump: {error}")),
    }
    if let Some((program, run)) = settings.command.as_ref().zip(run)
        && let Some(Err(error)) = run(written.folder)
    {
        say(&format!("--on-cmd {}: {error}", program.display()));
    }
}

/// Writes the dump, and removes old ones.
fn write(
    settings: &Settings,
    dump: &Dump,
    facts: Option<&str>,
) -> io::Result<(Written, io::Result<Vec<PathBuf>>)> {
    let folder = &settings.folder;
    // It may have been removed.
    dump::folder(folder)?;
    let written = dump::write(dump, folder, facts)?;
    let pruned = prune(folder, settings.most, &written.folder);
    Ok((written, pruned))
}

/// Removes the oldest dumps beyond `most`, and returns their paths. Folders that are not dumps stay, and so does the
/// `latest` one, whose name is not the last where the clock was set back.
pub(super) fn prune(parent: &Path, most: usize, latest: &Path) -> io::Result<Vec<PathBuf>> {
    let is_dump = |path: &PathBuf| {
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        named && path.join(WHY).is_file()
    };
    let mut dumps: Vec<PathBuf> =
        fs::read_dir(parent)?.flatten().map(|entry| entry.path()).filter(is_dump).collect();
    // Names begin with the time, so they sort by it.
    dumps.sort_unstable();
    let surplus = dumps.len().saturating_sub(most);
    dumps.retain(|dump| dump != latest);
    dumps.truncate(surplus);
    dumps.iter().try_for_each(fs::remove_dir_all)?;
    let abandoned =
        fs::read_dir(parent)?.flatten().map(|entry| entry.path()).filter(|path| is_abandoned(path));
    abandoned.for_each(|path| drop(fs::remove_dir_all(path)));
    Ok(dumps)
}

/// True for the unfinished dump of a process that was killed: writing one takes seconds.
fn is_abandoned(path: &Path) -> bool {
    const LONG: Duration = Duration::from_secs(3_600);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let age = fs::metadata(path).and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
    name.starts_with(PREFIX) && name.ends_with(PARTIAL) && age.is_some_and(|age| age > LONG)
}

/// Runs a program with the folder as its only argument, without a shell, for at most `most`.
pub(super) fn run(program: &Path, folder: &Path, most: Duration) -> io::Result<()> {
    let mut command = Command::new(program);
    // Its output would corrupt the terminal view.
    command.arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let late = Instant::now() + most;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("failed with {status}"))),
            None if Instant::now() >= late => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other(format!(
                    "ended after {} s without an end of its own",
                    most.as_secs()
                )));
            }
            None => std::thread::sleep(LOOK),
        }
    }
}
