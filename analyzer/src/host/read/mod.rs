//! Reads the host such that nothing unreadable is fatal: missing values are unknown, and the reasons are kept.

pub(super) mod guarded;
pub mod queries;
#[cfg(test)]
pub(crate) mod recorded;
pub mod sysfs;
#[cfg(test)]
pub(crate) mod testing;

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use crate::host::error::{HostError, Result};
use guarded::Links;
use sysfs::SysRoot;

/// The trees to read: those of this host, or recorded ones.
#[derive(Debug)]
pub struct HostRoot {
    base: PathBuf,
    sys: SysRoot,
}

impl HostRoot {
    /// This host, with the sysfs of the calling thread's network namespace.
    ///
    /// # Errors
    /// Those of [`SysRoot::of_this_thread`].
    pub fn here() -> Result<Self> {
        Ok(Self { base: "/".into(), sys: SysRoot::of_this_thread()? })
    }

    /// A recorded tree with `sys`, `proc` and `dev` below `base`.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        let base = base.into();
        Self { sys: SysRoot::at(base.join("sys")), base }
    }

    /// The folder that represents `/`.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// sysfs as the calling thread's network namespace shows it.
    pub fn sys(&self) -> &SysRoot {
        &self.sys
    }

    /// The location of `path` ("/sys/class/net/eth0"). Files that differ between network namespaces are read through
    /// [`Self::sys`]; debugfs, configfs and the device tree are below the real `/sys`.
    pub fn path(&self, path: &str) -> PathBuf {
        if let Some(rest) = path.strip_prefix("/sys/class/") {
            return self.sys.join("class").join(rest);
        }
        self.base.join(path.trim_start_matches('/'))
    }

    /// The trimmed text of a file.
    ///
    /// # Errors
    /// If it is absent, unreadable, too long or empty.
    pub fn text(&self, path: &str) -> Result<String> {
        let failed = |e| HostError::system(format!("read {path}"), e);
        let text = self.bytes(path)?;
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        if text.is_empty() { Err(failed(io::Error::other("the file is empty"))) } else { Ok(text) }
    }

    /// The bytes of a regular file, at most 1 MiB.
    ///
    /// # Errors
    /// When it is absent, unreadable or not a regular file, or if it belongs to a process and times out.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        let at = self.path(path);
        let of_process =
            path.strip_prefix("/proc/").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let bytes =
            if of_process { guarded::timed(move || guarded::regular(&at)) } else { guarded::regular(&at) };
        bytes.map_err(|e| HostError::system(format!("read {path}"), e))
    }

    /// The bytes of a regular file at `path` as seen by process `pid`, at most 1 MiB.
    ///
    /// # Errors
    /// As for [`Self::bytes`], and for links that are refused or form a circle.
    pub fn of_process(&self, pid: u32, path: &str, links: Links) -> Result<Vec<u8>> {
        let top = format!("/proc/{pid}/root");
        let (root, file) = (self.path(&top), path.to_owned());
        guarded::timed(move || guarded::below(&root, &file, links))
            .map_err(|e| HostError::system(format!("read {top}{path}"), e))
    }

    /// True if there is such a file or folder.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The entries of a folder, sorted; empty if it is absent or unreadable.
    pub fn names(&self, path: &str) -> Vec<String> {
        self.list(path).unwrap_or_default()
    }

    /// The entries of a folder, sorted.
    ///
    /// # Errors
    /// If it is absent or unreadable.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        let entries =
            fs::read_dir(self.path(path)).map_err(|e| HostError::system(format!("list {path}"), e))?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// If it is absent, unreadable or no link.
    pub fn link(&self, path: &str) -> Result<PathBuf> {
        fs::read_link(self.path(path)).map_err(|e| HostError::system(format!("follow {path}"), e))
    }

    /// The last component of what a symbolic link points to.
    ///
    /// # Errors
    /// If it is absent, unreadable or no link.
    pub fn link_name(&self, path: &str) -> Result<String> {
        let target = self.link(path)?;
        let name = target.file_name().and_then(|name| name.to_str());
        let nameless =
            || HostError::system(format!("follow {path}"), io::Error::other("the link target has no name"));
        name.map(str::to_owned).ok_or_else(nameless)
    }

    /// The components of a path after resolving all links; empty if a target is missing.
    pub fn components(&self, path: &str) -> Vec<String> {
        // Resolved below the real /sys, where links lead from one device to another.
        let Ok(real) = fs::canonicalize(self.base.join(path.trim_start_matches('/'))) else {
            return Vec::new();
        };
        let names = real.components().filter_map(|part| match part {
            Component::Normal(name) => name.to_str().map(str::to_owned),
            _ => None,
        });
        names.collect()
    }
}

/// A value that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Subject: an interface, a device, or `host`.
    pub subject: String,
    /// The failed action, as it reads after "cannot", with the file or kernel query.
    pub what: String,
    /// Cause, in words.
    pub why: String,
    /// The remedy, if one is known.
    pub remedy: Option<String>,
}

/// The reasons collected while reading.
#[derive(Debug, Default)]
pub struct UnreadReasons {
    subject: String,
    reasons: Vec<Reason>,
}

impl UnreadReasons {
    /// An empty list with the host as subject.
    pub fn new() -> Self {
        Self { subject: "host".into(), reasons: Vec::new() }
    }

    /// Sets the subject of the following reads.
    pub fn about(&mut self, subject: &str) {
        subject.clone_into(&mut self.subject);
    }

    /// Adds a reason: `what` reads after "cannot". Duplicates are dropped.
    pub fn note(&mut self, what: impl Into<String>, why: impl Into<String>, remedy: Option<&str>) {
        let (what, why) = (what.into(), why.into());
        let reason = Reason { subject: self.subject.clone(), what, why, remedy: remedy.map(str::to_owned) };
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Adds the reason of a failure.
    pub fn failed(&mut self, error: &HostError) {
        self.note(error.action().unwrap_or("read a value"), error.cause(), error.remedy());
    }

    /// The value, or `None` after adding the reason.
    pub fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| self.failed(error)).ok()
    }

    /// The same for optional objects: that one does not exist is a result and no failure.
    pub fn keep_if_there<T>(&mut self, result: Result<T>) -> Option<T> {
        result
            .inspect_err(|error| {
                if !error.is_absent() {
                    self.failed(error);
                }
            })
            .ok()
    }

    /// The value, or `None` after adding the reason that the response to `what` has an unknown format.
    pub fn understood<T>(&mut self, what: impl Into<String>, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.note(what, "missing from the reply, or in an unknown format", None);
        }
        value
    }

    /// The trimmed text of a file.
    pub fn text(&mut self, root: &HostRoot, path: &str) -> Option<String> {
        self.keep(root.text(path))
    }

    /// The entries of a folder, sorted; empty if it cannot be listed.
    pub fn names(&mut self, root: &HostRoot, path: &str) -> Vec<String> {
        self.keep(root.list(path)).unwrap_or_default()
    }

    /// A decimal number, or a hexadecimal one with 0x, in a file.
    pub fn number(&mut self, root: &HostRoot, path: &str) -> Option<u64> {
        self.parsed(root, path, "number", number)
    }

    /// The parsed content of a file; `kind` ("number") names its format in the reason of a failure.
    pub fn parsed<T>(
        &mut self,
        root: &HostRoot,
        path: &str,
        kind: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(root, path)?;
        let value = parse(&text);
        if value.is_none() {
            self.note(format!("read {path}"), format!("invalid {kind} `{}`", shorten(&text)), None);
        }
        value
    }

    /// The result of `parse` for the first readable one of these files: drivers expose a setting in different places,
    /// of which a host has at most one. If none is readable, one reason names the setting (`what`, as it reads after
    /// "read") and the places.
    pub fn first<T>(
        &mut self,
        root: &HostRoot,
        what: &str,
        places: &[String],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let (mut why, mut remedy) = (Vec::new(), None);
        let mut absent = Vec::new();
        for path in places {
            match root.text(path) {
                Ok(text) => match parse(&text) {
                    Some(value) => return Some(value),
                    None => why.push(format!("invalid value `{}` in {path}", shorten(&text))),
                },
                Err(error) if error.is_absent() => absent.push(path.as_str()),
                Err(error) => {
                    remedy = remedy.or(error.remedy());
                    why.push(format!("{path}: {}", error.cause()));
                }
            }
        }
        if !absent.is_empty() {
            why.push(format!("no {}", absent.join(" or ")));
        }
        if places.is_empty() {
            why.push("no known file of this driver contains it".into());
        }
        self.note(format!("read {what}"), why.join("; "), remedy);
        None
    }

    /// All reasons, in the order in which they were added.
    pub fn into_reasons(self) -> Vec<Reason> {
        self.reasons
    }
}

/// A decimal number, or a hexadecimal one with 0x.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::testing::tree;
    use super::*;

    #[test]
    fn what_cannot_be_read_is_unknown_and_says_why_once() {
        let tree = tree(&[("sys/class/a", "17\n"), ("proc/b", "x\n"), ("proc/c", ""), ("proc/d/e", "0x1f")]);
        let root = HostRoot::at(tree.path());
        let mut unread = UnreadReasons::new();
        assert_eq!(unread.number(&root, "/sys/class/a"), Some(17));
        assert_eq!(unread.number(&root, "/proc/d/e"), Some(31));
        unread.about("eth0");
        for path in ["/proc/b", "/proc/c", "/proc/d", "/proc/none", "/proc/none"] {
            assert_eq!(unread.number(&root, path), None);
        }
        let reasons = unread.into_reasons();
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        assert!(reasons.iter().all(|reason| reason.subject == "eth0"));
        assert_eq!(
            (reasons[0].what.as_str(), reasons[0].why.as_str()),
            ("read /proc/b", "invalid number `x`")
        );
        let said = |reason: &Reason| (reason.what.clone(), reason.why.clone());
        assert_eq!(said(&reasons[3]), ("read /proc/none".into(), "No such file or directory".into()));
    }

    #[test]
    fn a_setting_is_taken_where_it_is_and_missed_once_with_all_its_places() {
        let tree =
            tree(&[("sys/class/odd", "x\n"), ("sys/class/good", "7\n"), ("sys/class/folder/file", "1")]);
        let root = HostRoot::at(tree.path());
        let places =
            |names: &[&str]| names.iter().map(|name| format!("/sys/class/{name}")).collect::<Vec<_>>();
        let mut unread = UnreadReasons::new();
        assert_eq!(unread.first(&root, "it", &places(&["none", "odd", "good"]), number), Some(7));
        assert_eq!(unread.first(&root, "it", &places(&["none", "odd", "nothing", "folder"]), number), None);
        assert_eq!(unread.first(&root, "a value without files", &[], number), None);
        assert_eq!(unread.keep_if_there(root.text("/sys/class/none")), None);
        assert_eq!(unread.keep_if_there(root.text("/sys/class/folder")), None);
        let reasons = unread.into_reasons();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert_eq!(reasons[0].what, "read it");
        for part in [
            "invalid value `x` in /sys/class/odd",
            "no /sys/class/none or /sys/class/nothing",
            "/sys/class/folder: ",
        ] {
            assert!(reasons[0].why.contains(part), "{part} in {}", reasons[0].why);
        }
        assert!(reasons[1].why.starts_with("no known file"), "{reasons:?}");
    }

    #[test]
    fn a_refusal_comes_with_what_helps() {
        let mut unread = UnreadReasons::new();
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(unread.keep::<()>(Err(HostError::system("read /x", refused))), None);
        let [reason] = &unread.into_reasons()[..] else { panic!("one reason") };
        assert_eq!(reason.why, "not permitted for this process");
        assert_eq!(
            reason.remedy.as_deref(),
            HostError::system("x", io::Error::from_raw_os_error(libc::EACCES)).remedy()
        );
    }
}
