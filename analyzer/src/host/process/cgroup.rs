//! Looks up control groups by their kernel number: gives the pod of a process even after it has ended.

use std::os::unix::fs::MetadataExt as _;

use crate::host::read::HostRoot;

/// Maximum number of directories visited.
const MOST: usize = 20_000;
/// Mount points of the unified hierarchy: alone, or beside those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// True if all control groups are in the unified hierarchy, so that a control group's number identifies a container.
pub fn is_unified(root: &HostRoot) -> bool {
    root.exists("/sys/fs/cgroup/cgroup.controllers")
}

/// Mount point of the unified hierarchy; `None` if it is not mounted.
fn mount(root: &HostRoot) -> Option<&'static str> {
    MOUNTS.into_iter().rev().find(|at| root.exists(&format!("{at}/cgroup.controllers")))
}

/// True if this process is now in the control group with this number. `None`: it has ended, or its control group is
/// not below the hierarchy mounted here.
pub fn holds(root: &HostRoot, id: u64, pid: u32) -> Option<bool> {
    let text = root.text(&format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let at = mount(root)?;
    std::fs::metadata(root.path(&format!("{at}/{path}"))).ok().map(|found| found.ino() == id)
}

/// The line in `/proc/PID/cgroup` of processes in the control group with this number (its inode); `None` if it does
/// not exist any more, or if there are too many to search.
pub fn line_of(root: &HostRoot, id: u64) -> Option<String> {
    let at = mount(root)?;
    let mount = root.path(at);
    let mut left = vec![mount.clone()];
    for _ in 0..MOST {
        let directory = left.pop()?;
        if std::fs::metadata(&directory).is_ok_and(|found| found.ino() == id) {
            let path = directory.strip_prefix(&mount).ok()?;
            return Some(format!("0::/{}", path.to_string_lossy()));
        }
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        left.extend(entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::Container;
    use super::*;
    use crate::host::read::testing::tree;

    #[test]
    fn a_number_leads_to_the_pod() {
        const POD: &str = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice";
        let host = tree(&[
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
            ("sys/fs/cgroup/system.slice/cgroup.procs", ""),
            (&format!("sys/fs/cgroup/{POD}/cgroup.procs"), ""),
        ]);
        let root = HostRoot::at(host.path());
        let inode =
            |path: &str| std::fs::metadata(root.path(&format!("/sys/fs/cgroup/{path}"))).unwrap().ino();
        assert!(is_unified(&root));
        let line = line_of(&root, inode(POD)).unwrap();
        assert_eq!(line, format!("0::/{POD}"));
        assert_eq!(
            Container::parse(&line).unwrap().label().as_deref(),
            Some("11111111-2222-3333-4444-555555555555")
        );
        assert_eq!(line_of(&root, inode("system.slice")).as_deref(), Some("0::/system.slice"));
        assert_eq!(line_of(&root, u64::MAX), None);
    }

    #[test]
    fn without_the_unified_hierarchy_there_is_none() {
        let host = tree(&[("sys/fs/cgroup/cpu/cgroup.procs", "")]);
        assert!(!is_unified(&HostRoot::at(host.path())));
        assert_eq!(line_of(&HostRoot::at(host.path()), 1), None);
    }
}
