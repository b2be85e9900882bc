//! Landlock: the files that the calling thread reaches, and the TCP ports that it binds and connects to.

use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, NetPort, PathBeneath, PathFd, PathFdError,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::plan::Files;
use super::{Plan, State};
use crate::util::limit::explained;
use anyhow::Context as _;

/// The newest interface that rules are written for. Older kernels enforce the part that they know.
const NEWEST: ABI = ABI::V6;
/// The first kernel with rules for files, and with rules for TCP.
const SINCE: &str = "Linux 5.13; for TCP 6.7";

/// Limits the thread, or says what keeps it from that.
pub(super) fn limit(plan: &Plan, state: &mut State) {
    if plan.all_rights {
        return;
    }
    if plan.files == Files::OfProcesses {
        state.holds.push("files: what its user may read".to_owned());
        return;
    }
    match restrict(plan) {
        Ok(status) => report(plan, &status, state),
        Err(error) => state.missing.push(format!("Landlock is refused: {}", explained(&error))),
    }
}

fn restrict(plan: &Plan) -> anyhow::Result<RestrictionStatus> {
    let limited = match plan.files {
        Files::ReadOnly => AccessFs::from_write(NEWEST) | AccessFs::Execute,
        Files::Listed | Files::OfProcesses => AccessFs::from_all(NEWEST),
    };
    let mut rules = Ruleset::default()
        .handle_access(limited)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::AbstractUnixSocket)?
        .create()?;
    let read = AccessFs::from_read(NEWEST) & !AccessFs::Execute;
    let terminal = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut folder =
        read | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    if plan.tree {
        folder |= AccessFs::MakeDir | AccessFs::RemoveDir | AccessFs::Refer;
    }
    let devices = ["/dev/tty", "/dev/null"].map(std::path::PathBuf::from);
    let all = (plan.read.iter().map(|path| (path, read)))
        .chain(devices.iter().map(|path| (path, terminal)))
        .chain(plan.write.iter().map(|path| (path, folder)));
    for (path, access) in all {
        let file = match PathFd::new(path) {
            Ok(file) => file,
            Err(PathFdError::OpenCall { source, .. }) if is_out_of_reach(&source) => continue,
            // Without its rule the thread could not read what it needs later.
            Err(error) => return Err(error).with_context(|| format!("{} has no rule", path.display())),
        };
        let access = access & limited;
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        if access.is_empty() {
            continue;
        }
        rules = rules.add_rule(PathBeneath::new(file, access))?;
    }
    for port in &plan.connect {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(rules.restrict_self()?)
}

/// True if a path that does not open for this cause needs no rule: it is absent, or its permissions exclude this user.
fn is_out_of_reach(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

fn report(plan: &Plan, status: &RestrictionStatus, state: &mut State) {
    if status.ruleset == RulesetStatus::NotEnforced {
        state
            .missing
            .push(format!("this kernel has no Landlock, or it is off: files are not limited ({SINCE})"));
        return;
    }
    let writes = match plan.write.as_slice() {
        [] => "none is written".to_owned(),
        folders => format!(
            "written below {}",
            folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")
        ),
    };
    let reads =
        if plan.files == Files::ReadOnly { "what its user may read" } else { "the inputs of this run" };
    state.holds.push(format!("files: {reads}; {writes} (Landlock)"));
    let since_tcp = matches!(status.landlock, LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI::V4);
    // Without connections seccomp allows no socket for them.
    if !since_tcp && !plan.connect.is_empty() {
        state.missing.push(format!("this kernel's Landlock does not limit TCP ports ({SINCE})"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_opened_is_not_taken_for_an_absent_one() {
        let folder = tempfile::tempdir().unwrap();
        let (absent, circle) = (folder.path().join("absent"), folder.path().join("circle"));
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let missing = |path| {
            let mut state = State::default();
            // In a thread of its own, which the limits of the first plan end with.
            std::thread::scope(|scope| {
                scope.spawn(|| limit(&Plan::of_files([path], Vec::new()), &mut state));
            });
            state.missing.join("\n")
        };
        assert!(!missing(absent).contains("refused"));
        let refused = missing(circle.clone());
        assert!(refused.starts_with("Landlock is refused: "), "{refused}");
        assert!(
            refused.contains(&*circle.to_string_lossy()) && refused.contains("symbolic links"),
            "{refused}"
        );
    }
}
