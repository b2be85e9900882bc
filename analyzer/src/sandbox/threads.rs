//! Threads of a process as the kernel describes them.

use std::collections::BTreeMap;
use std::fs;

use crate::host::kernel::Capabilities;

/// Rights of a thread, of `/proc/PID/task/TID/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Name of the thread.
    pub name: String,
    /// Effective user ID of the thread.
    pub user: u32,
    /// Capabilities that it has or can take on.
    pub permitted: Capabilities,
    /// Those that hold now.
    pub effective: Capabilities,
    /// Those that a program which it starts could get.
    pub bounding: Capabilities,
    /// True when no call gives it more.
    pub no_new_privs: bool,
    /// True when its system calls are filtered.
    pub filtered: bool,
}

impl Thread {
    /// Reads a status; `None` when a field is missing.
    pub fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let set = |name: &str| Some(Capabilities(u64::from_str_radix(field(name)?, 16).ok()?));
        Some(Self {
            name: field("Name")?.to_owned(),
            user: field("Uid")?.split_whitespace().nth(1)?.parse().ok()?,
            permitted: set("CapPrm")?,
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            no_new_privs: field("NoNewPrivs")? == "1",
            filtered: field("Seccomp")? == "2",
        })
    }
}

/// The threads of a process, by number. Those that end meanwhile are left out.
pub fn of(pid: u32) -> BTreeMap<u32, Thread> {
    let folder = format!("/proc/{pid}/task");
    let names = fs::read_dir(&folder).into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let status = |number: u32| {
        let text = fs::read_to_string(format!("{folder}/{number}/status")).ok()?;
        Some((number, Thread::parse(&text)?))
    };
    numbers.filter_map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tdevices\nUmask:\t0022\nUid:\t0\t65534\t65534\t65534\nCapInh:\t0\nCapPrm:\t0000000000001000\n\
                    CapEff:\t2\nCapBnd:\t1f\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";
        let thread = Thread::parse(text).unwrap();
        assert_eq!((thread.name.as_str(), thread.user), ("devices", 65_534));
        assert_eq!((thread.permitted.0, thread.no_new_privs, thread.filtered), (0x1000, true, true));
        assert_eq!((thread.effective.0, thread.bounding.0), (2, 0x1f));
        for missing in ["NoNewPrivs", "Seccomp:", "CapPrm", "CapEff", "CapBnd", "Uid"] {
            assert_eq!(Thread::parse(&text.replace(missing, "x")), None, "{missing}");
        }
        assert!(of(std::process::id()).contains_key(&std::process::id()));
    }
}
