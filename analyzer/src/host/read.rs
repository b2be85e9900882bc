//! Reading the host so that nothing unreadable is fatal: what fails is unknown, and why is kept.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::error::{HostError, Result};
use super::sysfs::SysRoot;

/// More than any file read here holds; a broken driver must not fill the memory.
const MAX_FILE: u64 = 1 << 20;

/// The trees that are read: those of this host, or recorded ones.
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

    /// The folder that stands for `/`.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// sysfs as the calling thread's network namespace shows it.
    #[must_use]
    pub fn sys(&self) -> &SysRoot {
        &self.sys
    }

    /// Where `path` ("/sys/class/net/eth0") lies. What differs between network namespaces is read
    /// through [`Self::sys`]; debugfs, configfs and the tree of devices lie below the real `/sys`.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        if let Some(rest) = path.strip_prefix("/sys/class/") {
            return self.sys.join("class").join(rest);
        }
        self.base.join(path.trim_start_matches('/'))
    }

    /// The trimmed text of a file.
    ///
    /// # Errors
    /// When it is absent, unreadable, too long or empty.
    pub fn text(&self, path: &str) -> Result<String> {
        let failed = |e| HostError::system(format!("read {path}"), e);
        let text = self.bytes(path)?;
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        if text.is_empty() { Err(failed(io::Error::other("it is empty"))) } else { Ok(text) }
    }

    /// The bytes of a file, up to a megabyte.
    ///
    /// # Errors
    /// When it is absent or unreadable.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        fs::File::open(self.path(path))
            .and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
            .map_err(|e| HostError::system(format!("read {path}"), e))?;
        Ok(bytes)
    }

    /// Whether there is such a file or folder.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The entries of a folder, sorted; none when it is absent or unreadable.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The last component of what a symbolic link points to; `None` when it is no link.
    #[must_use]
    pub fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// The components of a path after following all links; none when it leads nowhere.
    #[must_use]
    pub fn components(&self, path: &str) -> Vec<String> {
        // Followed below the real /sys, where links lead from one device to the next.
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

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Of what: an interface, a device, or `host`.
    pub subject: String,
    /// The sentence: what was tried and why it failed.
    pub why: String,
}

/// The reasons collected while reading.
#[derive(Debug, Default)]
pub struct Unread {
    subject: String,
    reasons: Vec<Reason>,
}

impl Unread {
    /// None yet, about the host.
    #[must_use]
    pub fn new() -> Self {
        Self { subject: "host".into(), reasons: Vec::new() }
    }

    /// What is read next belongs to `subject`.
    pub fn about(&mut self, subject: &str) {
        subject.clone_into(&mut self.subject);
    }

    /// The value, or `None` with the reason kept.
    pub fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let reason = Reason { subject: self.subject.clone(), why: error.to_string() };
                if !self.reasons.contains(&reason) {
                    self.reasons.push(reason);
                }
                None
            }
        }
    }

    /// The trimmed text of a file.
    pub fn text(&mut self, root: &HostRoot, path: &str) -> Option<String> {
        self.keep(root.text(path))
    }

    /// A decimal number, or a hexadecimal one with 0x, in a file.
    pub fn number(&mut self, root: &HostRoot, path: &str) -> Option<u64> {
        let text = self.text(root, path)?;
        self.keep(number(&text).ok_or_else(|| {
            HostError::system(
                format!("read {path}"),
                io::Error::other(format!("`{}` is no number", shorten(&text))),
            )
        }))
    }

    /// All reasons, in the order in which they came.
    #[must_use]
    pub fn into_reasons(self) -> Vec<Reason> {
        self.reasons
    }
}

/// A decimal number, or a hexadecimal one with 0x.
#[must_use]
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
    use super::super::testing::tree;
    use super::*;

    #[test]
    fn what_cannot_be_read_is_unknown_and_says_why_once() {
        let tree = tree(&[("sys/class/a", "17\n"), ("proc/b", "x\n"), ("proc/c", ""), ("proc/d/e", "0x1f")]);
        let root = HostRoot::at(tree.path());
        let mut unread = Unread::new();
        assert_eq!(unread.number(&root, "/sys/class/a"), Some(17));
        assert_eq!(unread.number(&root, "/proc/d/e"), Some(31));
        unread.about("eth0");
        for path in ["/proc/b", "/proc/c", "/proc/d", "/proc/none", "/proc/none"] {
            assert_eq!(unread.number(&root, path), None);
        }
        let reasons = unread.into_reasons();
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        assert!(reasons.iter().all(|reason| reason.subject == "eth0"));
        assert!(reasons[0].why.contains("/proc/b") && reasons[0].why.contains("no number"), "{reasons:?}");
        assert_eq!(reasons[3].why, "cannot read /proc/none: No such file or directory");
    }
}
