//! Capabilities and user of the calling thread.

use std::path::PathBuf;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::{Plan, State};
use crate::host::kernel::Capability;

/// The user and group that own nothing.
const NOBODY: u32 = 65_534;

/// The user that a thread changes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    uid: u32,
    gid: u32,
    name: &'static str,
}

/// The user for `plan`, tried with what it reads and writes. `None` to stay.
pub(super) fn user(plan: &Plan) -> Option<User> {
    if plan.all_rights || plan.tree || !getuid().is_root() {
        return None;
    }
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok().filter(|number| *number > 0);
    let caller = number("SUDO_UID").zip(number("SUDO_GID"));
    let caller = caller.map(|(uid, gid)| User { uid, gid, name: "the user who called sudo" });
    candidates(plan, caller).find(|user| can(plan, Some(*user)) == (true, true))
}

/// The users for `plan`, best first. Nobody has no files, no processes and no keys; but what it wrote would be
/// nobody's.
fn candidates(plan: &Plan, caller: Option<User>) -> impl Iterator<Item = User> {
    let nobody = User { uid: NOBODY, gid: NOBODY, name: "nobody" };
    [plan.write.is_empty().then_some(nobody), caller].into_iter().flatten()
}

/// The capabilities that root, who stays, needs for the files of others that `plan` reads and writes.
pub(super) fn of_others(plan: &Plan) -> Vec<(Capability, &'static str)> {
    if plan.all_rights || !getuid().is_root() {
        return Vec::new();
    }
    let (reads, writes) = can(plan, None);
    let needs = [
        (!reads).then_some((Capability::DacReadSearch, "an input that only its owner may read")),
        (!writes).then_some((Capability::DacOverride, "a folder that only its owner may write to")),
    ];
    needs.into_iter().flatten().collect()
}

/// True for each of reading and writing if a user without capabilities can do those of `plan`, tried by a thread that
/// ends.
fn can(plan: &Plan, user: Option<User>) -> (bool, bool) {
    // Asked, not opened: a named pipe would wait for its writer, who would then lose its reader. A user who may not
    // look into a folder does not know that a file is not there.
    let reads = |path: &PathBuf| {
        matches!(accessat(CWD, path, Access::READ_OK, AtFlags::empty()), Ok(()) | Err(Errno::NOENT))
    };
    let writes =
        |path: &PathBuf| accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty()).is_ok();
    std::thread::scope(|scope| {
        let tried = std::thread::Builder::new().spawn_scoped(scope, || {
            let changed = match user {
                Some(user) => change(user, CapabilitySet::empty()),
                None => limit(CapabilitySet::empty()),
            };
            (changed.is_ok() && plan.read.iter().all(reads), changed.is_ok() && plan.write.iter().all(writes))
        });
        // Without memory for a thread nothing is known: the user stays.
        tried.map_or_else(|_| (false, false), |tried| tried.join().unwrap_or_default())
    })
}

/// Becomes `user`, with `kept` of the permitted capabilities.
fn change(user: User, kept: CapabilitySet) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    set_keep_capabilities(false)?;
    limit(kept)
}

fn limit(kept: CapabilitySet) -> rustix::io::Result<()> {
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )
}

/// The capabilities of `plan` that the calling thread has.
fn wanted(plan: &Plan) -> CapabilitySet {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    let wanted = plan.keep.iter().fold(CapabilitySet::empty(), |all, (capability, _)| {
        all | CapabilitySet::from_bits_retain(1 << (*capability as u32))
    });
    held & wanted
}

/// Those of `plan` in a set, for people.
fn names(plan: &Plan, set: CapabilitySet) -> Vec<String> {
    let all = plan.keep.iter().zip(plan.kept());
    all.filter(|((capability, _), _)| set.bits() >> (*capability as u32) & 1 == 1)
        .map(|(_, name)| name)
        .collect()
}

/// The capabilities that a thread of the calling one keeps, for people.
pub(super) fn kept(plan: &Plan) -> Vec<String> {
    names(plan, wanted(plan))
}

/// Changes the user and gives up capabilities.
pub(super) fn give_up(plan: &Plan, user: Option<User>, state: &mut State) {
    match set_no_new_privs(true) {
        Ok(()) => state.holds.push("no new privileges".to_owned()),
        Err(error) => state.missing.push(format!("no_new_privs cannot be set: {error}")),
    }
    if plan.all_rights {
        return;
    }
    let kept = wanted(plan);
    // Needs a capability itself. Without it, no new privileges and empty sets keep it from mattering.
    for capability in 0..64_u32 {
        let bit = CapabilitySet::from_bits_retain(1 << capability);
        if !kept.contains(bit) && remove_capability_from_bounding_set(bit).is_err() {
            break;
        }
    }
    let _ = clear_ambient_capability_set();
    let changed = user.map(|user| (user, change(user, kept)));
    match changed {
        Some((user, Ok(()))) => state.holds.push(format!("user {} ({})", user.uid, user.name)),
        Some((user, Err(error))) => {
            state.missing.push(format!("the user cannot become {}: {error}", user.name));
        }
        None if getuid().is_root() => {
            state.holds.push("user root, as no other may read or write the files of this run".to_owned());
        }
        None => state.holds.push(format!("user {}", getuid().as_raw())),
    }
    if let Err(error) = limit(kept) {
        state.missing.push(format!("capabilities cannot be given up: {error}"));
        return;
    }
    let names = names(plan, kept);
    state.holds.push(if names.is_empty() {
        "no capabilities".to_owned()
    } else {
        format!("capabilities: {}", names.join(", "))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::error::{self, HostError};

    /// A thread without rights is refused much that root could do.
    #[test]
    fn a_refusal_to_a_thread_that_gave_up_root_does_not_advise_root() {
        let began_as_root = getuid().is_root();
        let thread = std::thread::spawn(|| {
            let _state = crate::sandbox::enter(&Plan::parser());
            let refused = std::io::Error::from_raw_os_error(libc::EPERM);
            (getuid().is_root(), HostError::system("x", refused).remedy())
        });
        let expected = if began_as_root { error::GAVE_UP_ROOT } else { error::AS_ROOT };
        assert_eq!(thread.join().unwrap(), (false, Some(expected)));
    }

    #[test]
    fn whoever_called_sudo_is_needed_only_for_files_that_are_written() {
        let caller = User { uid: 1000, gid: 1000, name: "the user who called sudo" };
        let users = |plan: &Plan, caller| candidates(plan, caller).map(|user| user.uid).collect::<Vec<_>>();
        let writes = Plan::of_files(Vec::new(), vec!["/".into()]);
        assert_eq!(users(&Plan::parser(), Some(caller)), [NOBODY, 1000]);
        assert_eq!(users(&Plan::parser(), None), [NOBODY]);
        assert_eq!(users(&writes, Some(caller)), [1000]);
        assert_eq!(users(&writes, None), [0_u32; 0]);
    }
}
