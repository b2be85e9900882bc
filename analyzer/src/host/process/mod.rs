//! Processes: names, and the container and pod in which they run.

pub mod cgroup;
pub mod local;
pub mod nccl;
pub mod pods;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host::read::HostRoot;
use crate::host::read::guarded::Links;

/// A container, and the pod around it, from a process's control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Container {
    /// Id of the container in its runtime (usually 64 hexadecimal digits).
    pub id: Option<String>,
    /// Id of the Kubernetes pod.
    pub pod_uid: Option<String>,
    /// Host name inside: the pod's name, unless the pod uses the host's network.
    pub name: Option<String>,
    /// Number of the Slurm job.
    pub slurm_job: Option<String>,
}

impl Container {
    /// Parses a `/proc/PID/cgroup`; `None` if it names none of these.
    pub fn parse(cgroup: &str) -> Option<Self> {
        let mut found = Self::default();
        // Version 1 has a line per controller, and any of them is sufficient.
        for part in
            cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2)).flat_map(|path| path.split('/'))
        {
            let name = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".slice")).unwrap_or(part);
            if let Some(uid) = pod_uid(name) {
                found.pod_uid.get_or_insert(uid);
            } else if let Some(id) = container_id(name) {
                found.id.get_or_insert_with(|| id.to_owned());
            } else if let Some(job) = name.strip_prefix("job_").filter(|job| is_number(job)) {
                found.slurm_job.get_or_insert_with(|| job.to_owned());
            }
        }
        (found != Self::default()).then_some(found)
    }

    /// The container of process `pid` below `root`; `None` for processes of the host itself.
    pub fn of(root: &HostRoot, pid: u32) -> Option<Self> {
        let mut found = Self::parse(&root.text(&format!("/proc/{pid}/cgroup")).ok()?)?;
        if found.id.is_some() || found.pod_uid.is_some() {
            found.name = host_name(root, pid);
        }
        Some(found)
    }

    /// The name for display: the pod by name or id, otherwise the container, otherwise the job. `None` if it has none
    /// of these.
    pub fn label(&self) -> Option<String> {
        let short = |id: &String| id.chars().take(12).collect::<String>();
        (self.name.clone().filter(|_| self.pod_uid.is_some()))
            .or_else(|| self.pod_uid.clone())
            .or_else(|| self.id.as_ref().map(short))
            .or_else(|| self.slurm_job.as_ref().map(|job| format!("{SLURM}{job}")))
    }
}

/// Start of a process since the boot, in clock ticks: with its number it names the process. `None`: it does not exist.
pub fn started(root: &HostRoot, pid: u32) -> Option<u64> {
    /// Place of `starttime` behind the name, which may contain blanks and parentheses (proc_pid_stat(5)).
    const START: usize = 19;
    let stat = root.text(&format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(START)?.parse().ok()
}

/// Prefix of the label of a Slurm job.
const SLURM: &str = "slurm job ";

/// Characters of the random suffix that Kubernetes gives a pod's name (`rand` of k8s.io/apimachinery).
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Length of that suffix.
const RANDOM_LEN: usize = 5;

/// The job of a [label](Container::label): that of Slurm, or the pod's name without the suffix that a job's
/// controller adds: an index, or five random characters. `None` for other pods and containers.
pub fn job(label: &str) -> Option<&str> {
    if label.starts_with(SLURM) {
        return Some(label);
    }
    // Longer numbers are parts of ids.
    let is_suffix = |text: &str| text.len() <= 4 && is_number(text) || is_random(text);
    label.rsplit_once('-').filter(|(name, end)| !name.is_empty() && is_suffix(end)).map(|(name, _)| name)
}

fn is_random(text: &str) -> bool {
    text.len() == RANDOM_LEN && text.chars().all(|c| RANDOM.contains(c))
}

/// The job of this process by its environment: that of Slurm; that which a pod's specification names
/// (`K8S_JOB_NAME` or `JOB_NAME`, by the downward API); or that of an indexed Job of Kubernetes, by the name of its
/// pod.
pub fn job_of_environment(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| get(name).filter(|text| !text.is_empty());
    // Programs outside a pod give JOB_NAME other meanings.
    let in_pod = || set("KUBERNETES_SERVICE_HOST").and_then(|_| set("JOB_NAME"));
    let indexed = || {
        let (index, pod) = (set("JOB_COMPLETION_INDEX")?, set("HOSTNAME")?);
        // The kubelet sets the host name, without the random suffix, unless the pod uses the host's network.
        let pod = pod.rsplit_once('-').filter(|(_, end)| is_random(end)).map_or(&*pod, |(name, _)| name);
        let name = pod.strip_suffix(&*index)?.strip_suffix('-')?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    };
    let slurm = set("SLURM_JOB_ID").map(|id| format!("{SLURM}{id}"));
    slurm.or_else(|| set("K8S_JOB_NAME")).or_else(in_pod).or_else(indexed)
}

/// The host name in a container's own file, as runtimes write it; `None` if the file has other content.
fn host_name(root: &HostRoot, pid: u32) -> Option<String> {
    /// Longest domain name.
    const MAX_NAME: usize = 253;
    let text = String::from_utf8(root.of_process(pid, "/etc/hostname", Links::Refused).ok()?).ok()?;
    let name = text.trim();
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    (!name.is_empty() && name.len() <= MAX_NAME && name.chars().all(valid)).then(|| name.to_owned())
}

/// `kubepods-burstable-pod12345678_1234_…` (systemd) or `pod12345678-1234-…` (cgroupfs).
fn pod_uid(name: &str) -> Option<String> {
    let uid = match name.rsplit_once("-pod") {
        Some((before, uid)) if before.starts_with("kubepods") => uid,
        _ => name.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_uid.then_some(uid)
}

/// `docker-…`, `cri-containerd-…`, `crio-…`, `libpod-…`, or only the id.
fn container_id(name: &str) -> Option<&str> {
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// A process whose environment cannot be read, so that its NCCL settings are unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// PID of the process.
    pub pid: u32,
    /// Command name of the process.
    pub comm: Option<String>,
}

/// Processes as text, by command name: `python3 (4711, 4712), sshd (801)`. Of many, some are named and the rest is
/// counted.
pub fn by_name(processes: &[Unreadable]) -> String {
    const NAMES: usize = 8;
    const NUMBERS: usize = 4;
    let mut pids: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for process in processes {
        pids.entry(process.comm.as_deref().unwrap_or("?")).or_default().push(process.pid.to_string());
    }
    let one = |(comm, pids): (&&str, &Vec<String>)| {
        let more = pids.len().saturating_sub(NUMBERS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{comm} ({}{more})", pids.iter().take(NUMBERS).cloned().collect::<Vec<_>>().join(", "))
    };
    let mut named: Vec<String> = pids.iter().take(NAMES).map(one).collect();
    let left: usize = pids.values().skip(NAMES).map(Vec::len).sum();
    if left > 0 {
        named.push(format!("{left} others"));
    }
    named.join(", ")
}

/// The process of a thread: the kernel lists resources by the thread that created them.
pub fn leader(root: &HostRoot, thread: u32) -> Option<u32> {
    let status = root.text(&format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The name of a process's command.
pub fn comm(root: &HostRoot, pid: u32) -> Option<String> {
    root.text(&format!("/proc/{pid}/comm")).ok()
}

/// The consequence of another PID namespace than the host's, and what to do.
pub const NO_OWN_QUERIES: &str = "in this PID namespace the kernel's number of rocescope's process is not known, so that the settings of QPs made before the run are not read: use the host's (hostPID)";

/// True in the PID namespace of the host, whose numbers programs in the kernel see; `None` if /proc does not show it.
pub fn has_numbers_of_host(root: &HostRoot) -> Option<bool> {
    /// Its number on each kernel (`PROC_PID_INIT_INO` of linux/proc_ns.h).
    const INITIAL: &str = "pid:[4026531836]";
    root.link_name("/proc/self/ns/pid").ok().map(|name| name == INITIAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::{fifo, tree};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_namespace_of_the_host_differs_from_a_container_s() {
        let host =
            tree(&[("host/proc/self/ns/pid", "-> pid:[4026531836]"), ("pod/proc/self/ns/pid", "-> pid:[9]")]);
        let of = |name: &str| has_numbers_of_host(&HostRoot::at(host.path().join(name)));
        assert_eq!([of("host"), of("pod"), of("none")], [Some(true), Some(false), None]);
    }

    #[test]
    fn a_thread_leads_to_its_process() {
        let own = HostRoot::here().unwrap();
        let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert_ne!(thread, std::process::id(), "tests run on threads of their own");
        assert_eq!(leader(&own, thread), Some(std::process::id()));
    }

    #[test]
    fn containers_of_every_runtime_are_recognised() {
        let pod = "11111111-2222-3333-4444-555555555555";
        for (path, uid, id) in [
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{ID}.scope",
                    pod.replace('-', "_")
                ),
                Some(pod),
                Some(ID),
            ),
            (format!("0::/kubepods/besteffort/pod{pod}/{ID}"), Some(pod), Some(ID)),
            (format!("12:cpu:/docker/{ID}\n11:memory:/docker/{ID}"), None, Some(ID)),
            (format!("0::/system.slice/docker-{ID}.scope"), None, Some(ID)),
            (format!("0::/machine.slice/libpod-{ID}.scope/container"), None, Some(ID)),
        ] {
            let found = Container::parse(&path).unwrap();
            assert_eq!((found.pod_uid.as_deref(), found.id.as_deref()), (uid, id), "{path}");
        }
        let job = Container::parse("0::/system.slice/slurmstepd.scope/job_77/step_0").unwrap();
        assert_eq!(job.label().as_deref(), Some("slurm job 77"));
        assert_eq!(Container { name: Some("host0".to_owned()), ..Container::default() }.label(), None);
        let jobs = [
            ("slurm job 77", Some("slurm job 77")),
            ("llama-worker-12", Some("llama-worker")),
            // Pods of a Job: without an index, and beside it by the alphabet and by the length.
            ("llama-train-x7k2p", Some("llama-train")),
            ("llama-train-3-x7k2p", Some("llama-train-3")),
            ("llama-train-a7k2p", None),
            ("llama-train-x7k2", None),
            ("llama-train-x7k2pb", None),
            ("-x7k2p", None),
            ("11111111-2222-3333-4444-555555555555", None),
            ("0123456789ab", None),
            ("-3", None),
        ];
        for (label, of) in jobs {
            assert_eq!(super::job(label), of, "{label}");
        }
        for none in ["0::/user.slice/user-0.slice/session-1.scope", "0::/podman", "", "x", "0::/job_x"] {
            assert_eq!(Container::parse(none), None, "{none}");
        }
    }

    #[test]
    fn the_environment_of_slurm_and_of_kubernetes_names_the_job() {
        type Set<'a> = &'a [(&'a str, &'a str)];
        let of = |set: &[(&str, &str)]| {
            job_of_environment(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let cases: [(Set<'_>, Option<&str>); 11] = [
            (&[], None),
            (&[("SLURM_JOB_ID", "77"), ("K8S_JOB_NAME", "train")], Some("slurm job 77")),
            (&[("SLURM_JOB_ID", ""), ("K8S_JOB_NAME", "train"), ("JOB_NAME", "x")], Some("train")),
            (&[("JOB_NAME", "train"), ("KUBERNETES_SERVICE_HOST", "10.96.0.1")], Some("train")),
            (&[("JOB_NAME", "nightly build")], None),
            (&[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "train-llama-3")], Some("train-llama")),
            (&[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "train-llama-3-x7k2p")], Some("train-llama")),
            // The host's network: the name of the node.
            (&[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "node17")], None),
            (&[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "node-13")], None),
            (&[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "-3")], None),
            (&[("HOSTNAME", "train-llama-3")], None),
        ];
        for (set, job) in cases {
            assert_eq!(of(set).as_deref(), job, "{set:?}");
        }
    }

    #[test]
    fn a_containers_host_name_is_no_pipe_and_no_file_of_the_host() {
        let cgroup = format!("0::/system.slice/docker-{ID}.scope");
        let files = |hostname: &str| {
            tree(&[
                ("proc/9/cgroup", cgroup.as_str()),
                ("proc/9/root/etc/hostname", hostname),
                ("proc/9/root/etc/other", "other"),
                ("etc/shadow", "root:secret"),
            ])
        };
        let name = |tree: &tempfile::TempDir| Container::of(&HostRoot::at(tree.path()), 9).unwrap().name;
        assert_eq!(name(&files("worker-0.jobs\n")).as_deref(), Some("worker-0.jobs"));
        let long = "x".repeat(254);
        for refused in
            ["-> /etc/other", "-> ../../../../etc/shadow", "root:secret", "a\nb", "\u{1b}[2J", &long]
        {
            assert_eq!(name(&files(refused)), None, "{refused:?}");
        }
        let shadow = files("x");
        let hostname = shadow.path().join("proc/9/root/etc/hostname");
        std::fs::remove_file(&hostname).unwrap();
        std::os::unix::fs::symlink(shadow.path().join("etc/shadow"), &hostname).unwrap();
        assert_eq!(name(&shadow), None, "a file of the host");
        std::fs::remove_file(&hostname).unwrap();
        fifo(&hostname);
        assert_eq!(name(&shadow), None, "a pipe, which must not be waited for");
    }

    #[test]
    fn many_processes_are_named_in_few_words() {
        let of = |comm: &str, pids: std::ops::Range<u32>| {
            let comm = Some(comm.to_owned());
            pids.map(move |pid| Unreadable { pid, comm: comm.clone() }).collect::<Vec<_>>()
        };
        let some = [of("python3", 10..16), of("sshd", 3..4)].concat();
        assert_eq!(by_name(&some), "python3 (10, 11, 12, 13 and 2 more), sshd (3)");
        let many: Vec<_> = (0..10).flat_map(|n| of(&format!("p{n}"), n..n + 2)).collect();
        assert!(by_name(&many).ends_with("p7 (7, 8), 4 others"), "{}", by_name(&many));
        assert_eq!(by_name(&[Unreadable { pid: 1, comm: None }]), "? (1)");
    }
}
