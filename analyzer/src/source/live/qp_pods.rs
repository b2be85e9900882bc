//! Pods and jobs of the processes that create queue pairs, at the time of creation; names of those that did before the
//! run.

use std::cell::OnceCell;

use crate::host::process::{self, Container, cgroup};
use crate::host::read::HostRoot;
use crate::source::devices::lives::Change;
use crate::util::map::Map;

/// Maximum number of names kept.
const MOST: usize = 4_096;

/// Names by control group, each read once: a job has thousands of queue pairs and few control groups.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Keyed by control group of the unified hierarchy, or without it by process and its start, since numbers are used
    /// again.
    known: Map<(u64, u64), Option<String>>,
}

impl Pods {
    /// The pod, container or job of the process that created a queue pair in this control group. `None`: it belongs
    /// to the host, or neither the process nor its control group exists any more.
    pub(super) fn of(&mut self, root: &HostRoot, pid: u32, group: u64) -> Option<String> {
        let unified = cgroup::is_unified(root);
        // One that has ended is not known by its start.
        let started = || Some((u64::from(pid), process::started(root, pid)?));
        let key = if unified { Some((group, 0)) } else { started() };
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            return known.clone();
        }
        let named = || cgroup::line_of(root, group).and_then(|line| Container::parse(&line));
        let found = match cgroup::holds(root, group, pid) {
            // The process may have moved to another control group since.
            Some(false) if unified => named(),
            Some(true) => {
                let found = Container::of(root, pid);
                // It may have moved between the two readings.
                let moved = unified && cgroup::holds(root, group, pid) == Some(false);
                if moved { named() } else { found }
            }
            _ => Container::of(root, pid).or_else(|| if unified { named() } else { None }),
        };
        let label = found.and_then(|container| container.label());
        if self.known.len() >= MOST {
            self.known.clear();
        }
        if let Some(key) = key {
            self.known.insert(key, label.clone());
        }
        label
    }
}

/// Commands and pods by process, each read once: a job has thousands of queue pairs and few processes.
#[derive(Debug, Default)]
pub(super) struct Names(Map<u32, (Option<String>, Option<String>)>);

impl Names {
    /// Adds the names of the processes that queries have shown. `root` gives the host's files.
    pub(super) fn add(&mut self, changes: &mut [Change], root: &dyn Fn() -> Option<HostRoot>) {
        let opened = OnceCell::new();
        for change in changes {
            let Change::Found(life, _) = change else { continue };
            let Some(pid) = life.pid else { continue };
            if !self.0.contains_key(&pid) {
                let Some(root) = opened.get_or_init(root) else { continue };
                let pod = Container::of(root, pid).and_then(|container| container.label());
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                self.0.insert(pid, (process::comm(root, pid), pod));
            }
            if let Some((comm, pod)) = self.0.get(&pid) {
                (life.comm, life.pod) = (comm.clone(), pod.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::host::read::testing::tree;

    const POD: &str = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice";
    const UID: &str = "11111111-2222-3333-4444-555555555555";

    #[test]
    fn the_pod_is_known_also_when_the_process_has_ended() {
        let host = tree(&[
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
            (&format!("sys/fs/cgroup/{POD}/cgroup.procs"), ""),
            ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_77/cgroup.procs", ""),
            ("proc/5/cgroup", "0::/system.slice/slurmstepd.scope/job_77"),
        ]);
        let root = HostRoot::at(host.path());
        let inode =
            |path: &str| std::fs::metadata(root.path(&format!("/sys/fs/cgroup/{path}"))).unwrap().ino();
        let mut pods = Pods::default();
        assert_eq!(pods.of(&root, 4_711, inode(POD)).as_deref(), Some(UID), "no such process");
        let job = inode("system.slice/slurmstepd.scope/job_77");
        assert_eq!(pods.of(&root, 5, job).as_deref(), Some("slurm job 77"));
        // Known from another process in the same group.
        assert_eq!(pods.of(&root, 6, job).as_deref(), Some("slurm job 77"));
        assert_eq!(pods.of(&root, 7, inode("system.slice")), None, "of the host");
    }

    #[test]
    fn a_process_that_a_query_shows_has_its_name_and_pod() {
        use crate::entity::lives::QpLife;
        use crate::source::devices::lives::Span;
        let host = tree(&[("proc/5/comm", "train\n"), ("proc/5/cgroup", &format!("0::/{POD}"))]);
        let found = |pid| Change::Found(QpLife { pid, ..QpLife::default() }, Span::default());
        let mut changes = [Some(5), None, Some(6)].map(found);
        Names::default().add(&mut changes, &|| Some(HostRoot::at(host.path())));
        let named = changes.map(|change| match change {
            Change::Found(life, _) => (life.comm, life.pod),
            _ => panic!(),
        });
        assert_eq!(named[0], (Some("train".to_owned()), Some(UID.to_owned())));
        assert_eq!([&named[1], &named[2]], [&(None, None); 2]);
    }

    #[test]
    fn a_process_that_goes_to_a_pod_made_its_queue_pairs_before() {
        let host = tree(&[
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
            (&format!("sys/fs/cgroup/{POD}/cgroup.procs"), ""),
            ("sys/fs/cgroup/system.slice/cgroup.procs", ""),
            ("proc/5/cgroup", &format!("0::/{POD}")),
        ]);
        let root = HostRoot::at(host.path());
        let inode =
            |path: &str| std::fs::metadata(root.path(&format!("/sys/fs/cgroup/{path}"))).unwrap().ino();
        let mut pods = Pods::default();
        assert_eq!(pods.of(&root, 5, inode("system.slice")), None, "where it was");
        assert_eq!(pods.of(&root, 5, inode(POD)).as_deref(), Some(UID), "where it is");
    }

    #[test]
    fn a_control_group_that_is_not_mounted_here_is_that_of_its_process() {
        let host =
            tree(&[("sys/fs/cgroup/cgroup.controllers", "cpu"), ("proc/5/cgroup", &format!("0::/../{POD}"))]);
        let root = HostRoot::at(host.path());
        assert_eq!(Pods::default().of(&root, 5, u64::MAX).as_deref(), Some(UID));
    }

    #[test]
    fn without_the_unified_hierarchy_processes_are_asked() {
        let host = tree(&[
            ("proc/5/cgroup", "12:cpu:/slurm/uid_0/job_77/step_0"),
            ("proc/6/cgroup", "12:cpu:/user.slice"),
        ]);
        let root = HostRoot::at(host.path());
        let mut pods = Pods::default();
        // Without the unified hierarchy all have the number of the root group.
        assert_eq!(pods.of(&root, 5, 1).as_deref(), Some("slurm job 77"));
        assert_eq!(pods.of(&root, 6, 1), None);
        assert_eq!(pods.of(&root, 8, 1), None);
        // The number is used again, by a process of the host.
        let stat = |start: u32| format!("5 (a (b) c) S 1 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0");
        let write =
            |name: &str, text: &str| std::fs::write(root.path(&format!("/proc/5/{name}")), text).unwrap();
        write("stat", &stat(100));
        assert_eq!(pods.of(&root, 5, 1).as_deref(), Some("slurm job 77"));
        write("stat", &stat(200));
        write("cgroup", "12:cpu:/user.slice");
        assert_eq!(pods.of(&root, 5, 1), None);
    }
}
