//! Network namespaces: entering one by name or PID, creating anonymous ones, running code inside.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::host::error::{HostError, Result};
use crate::util::nearest::hint;

/// A network namespace, kept alive by a file descriptor. It disappears with its last descriptor, thread and mount,
/// and everything in it as well.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    label: String,
}

impl NetNs {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn current() -> Result<Self> {
        Self::open_path(Path::new("/proc/thread-self/ns/net"), "the current network namespace".into())
    }

    /// The namespace of the process's main thread.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn of_process() -> Result<Self> {
        Self::open_path(Path::new("/proc/self/ns/net"), "the network namespace of the process".into())
    }

    /// The namespace for `NAME|PID`: a name below `/run/netns` (`ip netns list`), a process, or the path of a
    /// namespace file.
    ///
    /// # Errors
    /// If there is no such name (existing names are listed) or process.
    pub fn open(what: &str) -> Result<Self> {
        Self::open_below(Path::new("/"), what)
    }

    fn open_below(root: &Path, what: &str) -> Result<Self> {
        Self::open_path(&locate(root, what)?, format!("network namespace {what}"))
    }

    /// A new namespace with only a loopback interface, which is down. IPv6 is disabled for all future interfaces, so
    /// that links carry no unsolicited packets.
    ///
    /// # Errors
    /// If the kernel refuses (it needs CAP_SYS_ADMIN).
    pub fn anonymous() -> Result<Self> {
        on_a_thread(|| {
            // SAFETY: a new network namespace for this thread, which ends with the closure, does not touch its files.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|error| HostError::system("create a network namespace", error.into()))?;
            for conf in ["default", "all"] {
                let path = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
                // procfs resolves this by the namespace of the opening thread.
                match fs::write(&path, "1") {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(HostError::system("disable IPv6 in a new network namespace", e));
                    }
                    _ => {}
                }
            }
            let mut netns = Self::current()?;
            "an anonymous network namespace".clone_into(&mut netns.label);
            Ok(netns)
        })?
    }

    /// Moves the calling thread, and threads that it starts later, into this namespace.
    ///
    /// # Errors
    /// If the kernel refuses, or the file is not a network namespace.
    pub fn enter(&self) -> Result<()> {
        match move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network)) {
            Ok(()) => Ok(()),
            Err(Errno::INVAL) => Err(HostError::Choice(format!(
                "{} is not a network namespace; use a name from `ip netns list` or a PID",
                self.label
            ))),
            Err(error) => Err(HostError::system(format!("enter {}", self.label), error.into())),
        }
    }

    /// Runs a closure in a separate thread inside this namespace and returns its result. Sockets opened there stay in
    /// this namespace wherever they are used.
    ///
    /// # Errors
    /// If the namespace cannot be entered or the thread cannot be started.
    ///
    /// # Panics
    /// If the closure panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| self.enter().map(|()| work()))?
    }

    /// True if both are the same namespace.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.file.metadata(), other.file.metadata()) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => false,
        }
    }

    /// Another descriptor of the same namespace.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn try_clone(&self) -> Result<Self> {
        let file =
            self.file.try_clone().map_err(|e| HostError::system(format!("duplicate {}", self.label), e))?;
        Ok(Self { file, label: self.label.clone() })
    }

    fn open_path(path: &Path, label: String) -> Result<Self> {
        let file = File::open(path).map_err(|e| HostError::system(format!("open {label}"), e))?;
        Ok(Self { file, label })
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The file of the namespace that the user named. An existing name takes precedence over a PID, since names may
/// consist of digits.
fn locate(root: &Path, what: &str) -> Result<PathBuf> {
    if what.starts_with('/') {
        return Ok(PathBuf::from(what));
    }
    let names = root.join("run/netns");
    let is_name = !what.is_empty() && what != "." && what != ".." && !what.contains('/');
    if is_name && names.join(what).exists() {
        return Ok(names.join(what));
    }
    if let Ok(pid) = what.parse::<u32>() {
        let path = root.join(format!("proc/{pid}/ns/net"));
        return if fs::symlink_metadata(&path).is_ok() {
            Ok(path)
        } else {
            Err(HostError::Choice(format!("no process {pid} with a network namespace that can be entered")))
        };
    }
    let mut known: Vec<String> = fs::read_dir(&names)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    known.sort();
    let hint = hint(what, known.iter().map(String::as_str));
    let known = if known.is_empty() {
        "there are no named namespaces; use the PID of a process inside the pod".to_owned()
    } else {
        format!("known namespaces: {}", known.join(", "))
    };
    Err(HostError::Choice(format!("no network namespace {what:?}{hint}; {known}")))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|e| HostError::system("start a thread", e))?;
        match handle.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::interface;
    use super::*;
    use crate::host::read::testing::{root_or_skip, tree};

    #[test]
    fn a_name_wins_over_a_process_id() {
        let root = tree(&[("run/netns/blue", ""), ("run/netns/42", ""), ("proc/7/ns/net", "")]);
        let at = |what| locate(root.path(), what);
        assert_eq!(at("blue").unwrap(), root.path().join("run/netns/blue"));
        assert_eq!(at("42").unwrap(), root.path().join("run/netns/42"));
        assert_eq!(at("7").unwrap(), root.path().join("proc/7/ns/net"));
        assert_eq!(at("/some/where").unwrap(), Path::new("/some/where"));
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let root = tree(&[("run/netns/blue", ""), ("run/netns/red", "")]);
        let error = |what| locate(root.path(), what).unwrap_err().to_string();
        assert!(
            error("bleu").contains("(did you mean 'blue'?); known namespaces: blue, red"),
            "{}",
            error("bleu")
        );
        assert!(error("green").contains("\"green\"; known"), "{}", error("green"));
        assert!(error("99").contains("no process 99"), "{}", error("99"));
        assert!(error("../x").contains("no network namespace"));
        assert!(error("").contains("no network namespace"));
        let none = tree(&[]);
        let text = locate(none.path(), "x").unwrap_err().to_string();
        assert!(text.contains("PID"), "{text}");
    }

    #[test]
    fn a_file_that_is_no_namespace_is_named() {
        if !root_or_skip("a_file_that_is_no_namespace_is_named") {
            return;
        }
        let root = tree(&[("run/netns/fake", "")]);
        let netns = NetNs::open_below(root.path(), "fake").unwrap();
        let text = netns.run(|| ()).unwrap_err().to_string();
        assert!(text.contains("network namespace fake is not"), "{text}");
    }

    #[test]
    fn an_anonymous_namespace_is_empty_and_leaves_this_thread_where_it_was() {
        if !root_or_skip("an_anonymous_namespace_is_empty") {
            return;
        }
        let before = NetNs::current().unwrap();
        let netns = NetNs::anonymous().unwrap();
        assert!(!netns.is_same(&before));
        let names = netns.run(|| interface::list().map(|all| all.into_iter().map(|i| i.name))).unwrap();
        assert_eq!(names.unwrap().collect::<Vec<_>>(), ["lo"]);
        assert!(NetNs::current().unwrap().is_same(&before));
        let clone = netns.try_clone().unwrap();
        drop(netns);
        assert!(clone.run(NetNs::current).unwrap().unwrap().is_same(&clone));
        let pid = std::process::id().to_string();
        assert!(NetNs::open(&pid).unwrap().is_same(&NetNs::of_process().unwrap()));
    }
}
