//! Rights that a thread still needs after set-up.

use std::path::{Path, PathBuf};

use crate::host::kernel::{self, Capability};
use crate::host::read::sysfs::SysRoot;

/// The needs of a thread, and of those that it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent need")]
pub struct Plan {
    /// Capabilities that stay, each with what it is for.
    pub keep: Vec<(Capability, &'static str)>,
    /// Files, and folders with all below, that are read.
    pub read: Vec<PathBuf>,
    /// Folders in which files are made, replaced and removed.
    pub write: Vec<PathBuf>,
    /// True when folders are made and removed below those of `write`, which only the present user may do.
    pub tree: bool,
    /// Reach of the limits on files.
    pub files: Files,
    /// True for netlink sockets.
    pub netlink: bool,
    /// TCP ports that are connected to.
    pub connect: Vec<u16>,
    /// True when names of hosts are looked up, by datagrams.
    pub names: bool,
    /// True when connections to sockets that listen already are accepted.
    pub accept: bool,
    /// True for bpf(2) and perf_event_open(2).
    pub bpf: bool,
    /// True for mounting a sysfs that is attached nowhere.
    pub sysfs: bool,
    /// True when the user must stay, and nothing but system calls is limited.
    pub all_rights: bool,
}

/// Reach of Landlock's limits on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// To those of the plan.
    #[default]
    Listed,
    /// None is written. All are read that the user may read: rules cannot name those of a sysfs that is mounted later.
    ReadOnly,
    /// Not at all: it would hide files of other processes in `/proc`. System calls and the user limit them.
    OfProcesses,
}

/// Maximum number of folders below an input whose permissions are looked at.
const MOST_BELOW: usize = 1_000;

impl Plan {
    /// Of a thread that parses, computes and shows, and nothing else.
    pub fn parser() -> Self {
        // Sizes of memory and numbers of processors.
        Self {
            read: ["/proc/self", "/sys/devices/system/cpu"].map(PathBuf::from).to_vec(),
            ..Self::default()
        }
    }

    /// The same, of a command that reads `files`, and writes into `folders`.
    pub fn of_files(files: impl IntoIterator<Item = PathBuf>, folders: Vec<PathBuf>) -> Self {
        let mut plan = Self::parser();
        for file in files {
            // A user who may read a folder may not read all of a recording in it: of that, the folder below decides.
            let below = std::fs::read_dir(&file).into_iter().flatten().flatten();
            let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            plan.read.extend(folders.map(|entry| entry.path()).take(MOST_BELOW));
            plan.read.push(file);
        }
        Self { write: folders, ..plan }
    }

    /// Of a thread that sends what it is given to a server on this TCP port.
    pub fn client(port: u16) -> Self {
        Self { connect: vec![port], ..Self::parser() }
    }

    /// Of a thread that looks up names of hosts, and does nothing else: it reads no answer of a server of the user's.
    pub fn names() -> Self {
        const DNS: u16 = 53;
        let mut plan = Self { connect: vec![DNS], names: true, ..Self::parser() };
        // The whole folder, since its files are replaced while this runs, as by a DHCP client. Nobody may read of it
        // what everybody may.
        plan.read.extend(["/etc", "/run/systemd/resolve"].map(PathBuf::from));
        plan
    }

    /// Of a thread that reads doctor's facts of this host. What needs more, such as PCI configuration space, is read
    /// before.
    pub fn reading_host() -> Self {
        Self { netlink: true, files: Files::OfProcesses, ..Self::parser() }
            .keeping(Capability::SysPtrace, "doctor's facts: settings of NCCL of all processes")
            .keeping(Capability::DacReadSearch, "the same, and debugfs")
            .reading_sysfs()
    }

    /// The same plan of a thread that writes nothing.
    #[must_use]
    pub fn without_writing(&self) -> Self {
        Self { write: Vec::new(), tree: false, ..self.clone() }
    }

    /// Adds a capability that stays.
    #[must_use]
    pub fn keeping(mut self, capability: Capability, reason: &'static str) -> Self {
        self.keep.push((capability, reason));
        self
    }

    /// Of a thread that attaches probes.
    #[must_use]
    pub fn probing(self, reason: &'static str) -> Self {
        let plan = Self { bpf: true, ..self }
            .keeping(Capability::Bpf, reason)
            .keeping(Capability::Perfmon, "the same");
        match kernel::perf_for_administrators(Path::new("/")) {
            Some(_) => plan.keeping(Capability::SysAdmin, "the same: kernel.perf_event_paranoid is above 2"),
            None => plan,
        }
    }

    /// Of a thread that reads `/sys` more than once, which may show another network namespace than its own.
    #[must_use]
    pub fn reading_sysfs(self) -> Self {
        if SysRoot::needs_mount() {
            let plan = Self { sysfs: true, ..self };
            return plan.keeping(Capability::SysAdmin, "sysfs of a network namespace");
        }
        self
    }

    /// The capabilities that stay, for people: `CAP_NET_ADMIN (the NIC's own context of queue pairs)`.
    pub fn kept(&self) -> Vec<String> {
        self.keep.iter().map(|(capability, why)| format!("{} ({why})", capability.name())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_named_with_its_reason() {
        let plan = Plan::parser().keeping(Capability::Kill, "Ctrl-Z stops the whole pipeline");
        assert_eq!(plan.kept(), ["CAP_KILL (Ctrl-Z stops the whole pipeline)"]);
        assert_eq!(Plan::parser().kept(), Vec::<String>::new());
    }

    #[test]
    fn the_folders_below_an_input_are_inputs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("v1")).unwrap();
        std::fs::write(folder.path().join("a"), "").unwrap();
        let plan = Plan::of_files([folder.path().to_owned()], Vec::new());
        assert!(
            plan.read.contains(&folder.path().join("v1")) && plan.read.contains(&folder.path().to_owned())
        );
        assert!(!plan.read.contains(&folder.path().join("a")));
    }

    #[test]
    fn files_add_to_what_every_parser_reads() {
        let plan = Plan::of_files([PathBuf::from("a.pcap")], vec!["out".into()]);
        assert!(plan.read.contains(&"a.pcap".into()) && plan.read.len() > 1);
        assert_eq!(plan.write, [PathBuf::from("out")]);
        assert!(!plan.netlink && !plan.bpf && plan.connect.is_empty());
    }
}
