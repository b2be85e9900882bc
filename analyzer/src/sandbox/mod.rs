//! Rights of the threads of this process after set-up: capabilities, user, files, sockets and system calls.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | what a thread still needs, with the reason for each |
//! | `rights` | capabilities and user |
//! | `files` | Landlock: files and TCP ports |
//! | `calls` | seccomp: system calls |
//! | [`threads`] | what the kernel says of each thread |
//!
//! These limits belong to a thread, and threads that it starts inherit them. So a thread that starts others enters its
//! sandbox first, and one that is started while privileges are still there enters its own.

mod calls;
mod files;
pub mod plan;
mod rights;
pub mod threads;

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

pub use plan::Plan;

use crate::host::error;
use crate::util::lock::Locked as _;
use crate::util::notice;

/// Set by `--no-sandbox`.
static OFF: AtomicBool = AtomicBool::new(false);
/// Limits of the command's threads that write nothing, where the command writes.
static READ_ONLY: OnceLock<Plan> = OnceLock::new();
/// What was said to be missing.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Makes every [`enter`] from now on change nothing.
pub fn disable() {
    OFF.store(true, Ordering::Relaxed);
}

/// Limits of a thread after `enter`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Limits that hold now, one sentence each.
    pub holds: Vec<String>,
    /// Limits that this kernel, or the rights that the process began with, did not allow; one sentence each.
    pub missing: Vec<String>,
}

/// Runs `work` in a thread of its own, which has no rights but those of `plan`, and waits for its result.
///
/// # Errors
/// If a thread cannot be started.
pub fn alone<T: Send>(name: &str, plan: &Plan, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    wait_for(name, || {
        confine(plan);
        work()
    })
}

/// Runs `work`, which parses, in a thread of its own that has the rights of the command but writes nothing, and waits
/// for its result. The threads that it starts write nothing either.
///
/// # Errors
/// If a thread cannot be started.
pub fn reading<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if READ_ONLY.get().is_none() {
        return Ok(work());
    }
    wait_for(name, || {
        write_nothing();
        work()
    })
}

fn wait_for<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// The capabilities that a thread keeps of those that the calling thread has, for people, each with what it is for;
/// none when nothing is given up.
pub fn kept(plan: &Plan) -> Vec<String> {
    if is_off() { Vec::new() } else { rights::kept(&whole(plan).1) }
}

/// The same for several threads, one sentence for each that keeps any.
pub fn kept_by<'a>(threads: impl IntoIterator<Item = (&'a str, Vec<String>)>) -> Vec<String> {
    let all = threads.into_iter().filter(|(_, kept)| !kept.is_empty());
    all.map(|(thread, kept)| format!("{thread}: {}", kept.join(", "))).collect()
}

/// The user that a thread of `plan` changes to, `None` to stay, and the plan with what root, who stays, needs besides.
fn whole(plan: &Plan) -> (Option<rights::User>, Plan) {
    let user = rights::user(plan);
    let mut plan = plan.clone();
    if user.is_none() {
        plan.keep.extend(rights::of_others(&plan));
    }
    (user, plan)
}

/// True if nothing is given up (`--no-sandbox`).
pub fn is_off() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// Enters the sandbox of a thread that no view describes, and says what is missing.
pub fn confine(plan: &Plan) {
    tell(&enter(plan));
}

/// Enters the sandbox of the main thread, and says what is missing. Threads that are started later share its limits; of
/// those, the ones that parse call [`write_nothing`].
pub fn enter_command(plan: &Plan) -> State {
    let state = enter(plan);
    tell(&state);
    if !is_off() && !plan.write.is_empty() {
        // Of a process that is confined twice, the first limits hold anyway.
        let _ = READ_ONLY.set(plan.without_writing());
    }
    state
}

/// Takes from the calling thread, and those that it starts, the folders that the command writes to. Of a command that
/// writes none, and of a thread that has its own sandbox, nothing is left to take.
pub fn write_nothing() {
    let Some(plan) = READ_ONLY.get() else { return };
    let mut state = State::default();
    files::limit(plan, &mut state);
    calls::limit(plan, &mut state);
    tell(&state);
}

/// The same for the thread of the view, which may still open the terminal, as Landlock allows.
pub fn write_to_terminal_only() {
    let Some(plan) = READ_ONLY.get() else { return };
    let mut state = State::default();
    files::limit(plan, &mut state);
    tell(&state);
}

/// Says on standard error what is missing, each part once.
fn tell(state: &State) {
    let mut said = SAID.locked();
    for missing in &state.missing {
        if said.insert(missing.clone()) {
            notice::say(&format!("privileges: {missing}"));
        }
    }
}

/// Gives up everything that `plan` does not need, for the calling thread and those that it starts from now on. A right
/// that cannot be given up stands in the result; the run goes on without that limit.
pub fn enter(plan: &Plan) -> State {
    if is_off() {
        return State { holds: vec!["privileges are kept (--no-sandbox)".to_owned()], missing: Vec::new() };
    }
    error::note_user();
    let mut state = State::default();
    let (user, plan) = whole(plan);
    let plan = &plan;
    // Rules name files, which the privileges may be needed to reach.
    files::limit(plan, &mut state);
    rights::give_up(plan, user, &mut state);
    // Last: the calls above are not among those that it allows.
    calls::limit(plan, &mut state);
    state
}
