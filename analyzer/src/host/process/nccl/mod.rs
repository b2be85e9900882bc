//! Processes that use NCCL, and their settings from the environment and from configuration files.
//!
//! For each variable NCCL uses the environment first, then the user's file, then the host's (src/misc/param.cc of
//! NVIDIA/nccl):
//!
//! | library | files |
//! |---|---|
//! | NCCL | the one named by `NCCL_CONF_FILE` (2.23 on), else `~/.nccl.conf`; then `/etc/nccl.conf` |
//! | RCCL | `~/.rccl.conf`; then `/etc/rccl.conf` (src/misc/param.cc of ROCm/rccl) |
//!
//! `~` is the home directory in the password database, not `HOME`. All paths are resolved below the root directory of
//! the process, so that a process in a container gets the container's files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

/// Default port of the RAS service; `NCCL_RAS_ADDR` changes it.
pub const PORT: u16 = 28_028;

use serde::Serialize;

use crate::host::error::Result;
use crate::host::process::{Container, Unreadable, comm};
use crate::host::read::guarded::{self, Links};
use crate::host::read::{HostRoot, UnreadReasons};

/// Larger than the memory map of any process.
const MAX_MAP: u64 = 64 << 20;

/// A process that uses NCCL or has NCCL settings. RCCL has the same variable names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NcclProcess {
    /// PID of the process.
    pub pid: u32,
    /// Command name of the process.
    pub comm: Option<String>,
    /// Its container, if any.
    pub container: Option<Container>,
    /// True if it shares this process's network namespace; `None` if that cannot be read.
    pub same_network: Option<bool>,
    /// True if it shares this process's root file system; `None` if that cannot be read.
    pub same_files: Option<bool>,
    /// The loaded library; `None` if it is statically linked, not loaded (yet), or was not searched for.
    pub library: Option<Library>,
    /// The `NCCL_` variables of its initial environment.
    pub environment: BTreeMap<String, String>,
    /// Settings from files, for variables that the environment does not have.
    pub configured: BTreeMap<String, Configured>,
}

/// A collective communication library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// NVIDIA's.
    Nccl,
    /// AMD's.
    Rccl,
}

impl Library {
    /// Prefixes of the libraries' file names, for any version.
    const FILES: [(&str, Self); 2] = [("/libnccl.so", Self::Nccl), ("/librccl.so", Self::Rccl)];

    /// The name in its configuration files.
    fn stem(self) -> &'static str {
        match self {
            Self::Nccl => "nccl",
            Self::Rccl => "rccl",
        }
    }
}

/// A setting of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Configured {
    /// Value of the variable.
    pub value: String,
    /// The file, as seen by the process.
    pub file: String,
}

impl NcclProcess {
    /// Name and PID for display: `python3 4711`.
    pub fn label(&self) -> String {
        format!("{} {}", self.comm.as_deref().unwrap_or("process"), self.pid)
    }

    /// The value of a variable; `None` if unset or empty. The environment takes precedence over files, even if its
    /// value is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = match self.environment.get(name) {
            Some(value) => value,
            None => &self.configured.get(name)?.value,
        };
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// The value as NCCL parses it: decimal, octal with prefix 0, hexadecimal with prefix 0x, up to the first other
    /// character. `None` if unset, empty, or out of range, for which NCCL uses its default.
    pub fn number(&self, name: &str) -> Option<i64> {
        strtoll(self.get(name)?)
    }

    /// `NAME=VALUE`, with the file if it comes from one; `NAME unset` without a value.
    pub fn shown(&self, name: &str) -> String {
        let Some(value) = self.get(name) else { return format!("{name} unset") };
        let from = self.file_of(name).map_or_else(String::new, |file| format!(" (from {file})"));
        format!("{name}={value}{from}")
    }

    /// Text that explains how to unset it.
    pub fn unset(&self, name: &str) -> String {
        match self.file_of(name) {
            Some(file) => format!("take {name} out of {file}"),
            None => format!("unset {name}"),
        }
    }

    /// The file that sets a variable; `None` for the environment.
    pub fn file_of(&self, name: &str) -> Option<String> {
        let file = &self.configured.get(name)?.file;
        let inside = if self.same_files == Some(false) { " inside its container" } else { "" };
        Some(format!("{file}{inside}"))
    }

    /// All effective settings, by name.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> =
            self.environment.keys().chain(self.configured.keys()).map(String::as_str).collect();
        names.into_iter()
    }
}

/// As C's `strtoll` with base 0; `None` if out of range.
fn strtoll(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (radix, digits) = match hex.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit())) {
        Some(rest) => (16, rest),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let digits = digits.get(..end).filter(|digits| !digits.is_empty()).unwrap_or("0");
    let value = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

/// The result of searching all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NcclProcesses {
    /// Processes that use NCCL, by PID.
    pub found: Vec<NcclProcess>,
    /// Processes whose environment could not be read, which only root and their own user may.
    pub unreadable: Vec<Unreadable>,
}

/// The processes below `root` with `NCCL_` variables in their initial environment and, with `libraries`, those that
/// have loaded a library. Variables that a program sets later are not visible. Other failures are kept in `unread`.
#[must_use]
pub fn processes(root: &HostRoot, libraries: bool, unread: &mut UnreadReasons) -> NcclProcesses {
    let mut result = NcclProcesses::default();
    unread.about("host");
    // A thread may be in another namespace than its process.
    let own = |kind: &str| namespace(root, "thread-self", kind).or_else(|_| namespace(root, "self", kind));
    let (network, files) = (unread.keep(own("net")), own("mnt").ok());
    let mut pids: Vec<u32> =
        unread.names(root, "/proc").iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        let environ = match root.bytes(&format!("/proc/{pid}/environ")) {
            Ok(environ) => environ,
            // A process that has ended meanwhile is not counted.
            Err(error) if error.is_absent() => continue,
            Err(_) => {
                // Kernel threads have no command line and no settings.
                let is_program =
                    root.bytes(&format!("/proc/{pid}/cmdline")).map_or(true, |line| !line.is_empty());
                if is_program {
                    result.unreadable.push(Unreadable { pid, comm: comm(root, pid) });
                }
                continue;
            }
        };
        let variables = variables(&environ);
        let environment: BTreeMap<String, String> = variables
            .iter()
            .filter(|(name, _)| name.starts_with("NCCL_"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let library = if libraries { library(root, pid) } else { None };
        if environment.is_empty() && library.is_none() {
            continue;
        }
        unread.about(&format!("process {pid}"));
        let _cgroup = unread.text(root, &format!("/proc/{pid}/cgroup"));
        let same = |own: &Option<String>, other: Option<String>| {
            own.as_ref().zip(other).map(|(own, other)| other == *own)
        };
        let number = pid.to_string();
        let its_network = unread.keep(namespace(root, &number, "net"));
        result.found.push(NcclProcess {
            pid,
            comm: unread.text(root, &format!("/proc/{pid}/comm")),
            container: Container::of(root, pid),
            same_network: same(&network, its_network),
            same_files: same(&files, namespace(root, &number, "mnt").ok()),
            library,
            configured: configured(root, pid, library, &variables, unread),
            environment,
        });
    }
    result
}

/// A namespace of a process, by its kernel number.
fn namespace(root: &HostRoot, process: &str, kind: &str) -> Result<String> {
    root.link_name(&format!("/proc/{process}/ns/{kind}"))
}

fn variables(environ: &[u8]) -> BTreeMap<String, String> {
    let one = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    environ.split(|byte| *byte == 0).filter_map(one).collect()
}

/// The library mapped into a process; `None` if there is none or that cannot be read: processes of other users have
/// already been counted.
fn library(root: &HostRoot, pid: u32) -> Option<Library> {
    let of = |line: &[u8]| {
        let named = |name: &str| line.windows(name.len()).any(|window| window == name.as_bytes());
        Library::FILES.into_iter().find(|(name, _)| named(name)).map(|(_, library)| library)
    };
    let path = root.path(&format!("/proc/{pid}/maps"));
    let search = move || {
        let map = BufReader::new(guarded::open(&path)?.take(MAX_MAP));
        Ok(map.split(b'\n').map_while(std::result::Result::ok).find_map(|line| of(&line)))
    };
    guarded::timed(search).ok()?
}

/// Variables in the configuration files of a process, the first value of each; without those in its environment.
fn configured(
    root: &HostRoot,
    pid: u32,
    library: Option<Library>,
    environment: &BTreeMap<String, String>,
    unread: &mut UnreadReasons,
) -> BTreeMap<String, Configured> {
    let library = library.unwrap_or(Library::Nccl);
    let stem = library.stem();
    let named = environment.get("NCCL_CONF_FILE").filter(|file| library == Library::Nccl && !file.is_empty());
    let first = match named {
        Some(file) => Some(file.clone()),
        None => home(root, pid, environment).map(|home| format!("{home}/.{stem}.conf")),
    };
    let mut found = BTreeMap::new();
    for file in first.into_iter().chain([format!("/etc/{stem}.conf")]) {
        let text = unread.keep_if_there(self::file(root, pid, &file));
        for (name, value) in settings(&text.unwrap_or_default()) {
            if name.starts_with("NCCL_") && !environment.contains_key(&name) {
                found.entry(name).or_insert_with(|| Configured { value, file: file.clone() });
            }
        }
    }
    found
}

/// Parses the lines `NAME=VALUE` of a configuration file. Spaces belong to the name or value.
fn settings(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The home directory of a process's user, from the password file that it sees; `HOME` if the user is not in it, as
/// with a directory service.
fn home(root: &HostRoot, pid: u32, environment: &BTreeMap<String, String>) -> Option<String> {
    let of_passwd = || {
        let user = user(root, pid)?.to_string();
        let passwd = file(root, pid, "/etc/passwd").ok()?;
        let passwd = String::from_utf8_lossy(&passwd).into_owned();
        let mut entries = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let entry = entries.find(|entry| entry.get(2) == Some(&user.as_str()))?;
        entry.get(5).map(|home| (*home).to_owned())
    };
    of_passwd().or_else(|| environment.get("HOME").cloned())
}

/// The user id of a process inside its user namespace.
fn user(root: &HostRoot, pid: u32) -> Option<u64> {
    let status = root.text(&format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let user: u64 = users.split_whitespace().next()?.parse().ok()?;
    let Ok(map) = root.text(&format!("/proc/{pid}/uid_map")) else { return Some(user) };
    // Columns: id inside, id outside, length.
    map.lines().find_map(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        let at = user.checked_sub(outside).filter(|at| *at < count)?;
        inside.checked_add(at)
    })
}

/// Reads a file as process `pid` would: relative to its working directory, or absolute.
fn file(root: &HostRoot, pid: u32, path: &str) -> Result<Vec<u8>> {
    let folder = if path.starts_with('/') { PathBuf::new() } else { root.link(&format!("/proc/{pid}/cwd"))? };
    root.of_process(pid, &folder.join(path).to_string_lossy(), Links::Below)
}

#[cfg(test)]
mod tests;
