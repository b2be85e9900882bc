//! Landlock: the files that the calling thread reaches, and the TCP ports that it binds and connects to.

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, NetPort, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::plan::Files;
use super::{Plan, State};
use crate::util::limit::explained;

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
        Err(error) => state.missing.push(format!("Landlock is refused: {}", explained(&error.into()))),
    }
}

fn restrict(plan: &Plan) -> Result<RestrictionStatus, RulesetError> {
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
        // A path that is absent needs no rule.
        let Ok(file) = PathFd::new(path) else { continue };
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
    rules.restrict_self()
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
