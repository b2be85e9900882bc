//! Runs of probes that the kernel skipped: while a probe or another tracing program runs on a CPU, it runs no program
//! there. Since Linux 6.7 it counts them, by program and by probe.

use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use aya::Ebpf;

use super::bpf;
use crate::host::kernel::KernelVersion;

const SINCE: KernelVersion = KernelVersion::new(6, 7, 0);

/// File descriptors of the programs of an object, and of the links by which they are attached; both belong to it.
#[derive(Debug, Default)]
pub(super) struct Skips {
    programs: Vec<RawFd>,
    links: Vec<RawFd>,
}

impl Skips {
    /// Those of the programs that are loaded and attached now. aya shows no descriptor of a link: the kernel's
    /// descriptions of this process's descriptors do.
    pub(super) fn of(ebpf: &Ebpf) -> Self {
        const DESCRIPTIONS: &str = "/proc/self/fdinfo";
        let loaded = ebpf.programs().filter_map(|(_, program)| {
            Some((program.fd().ok()?.as_fd().as_raw_fd(), program.info().ok()?.id()))
        });
        let (programs, ids): (Vec<RawFd>, Vec<u32>) = loaded.unzip();
        let entries = std::fs::read_dir(DESCRIPTIONS).into_iter().flatten().filter_map(Result::ok);
        let link = |entry: std::fs::DirEntry| {
            let program = program_of_link(&std::fs::read_to_string(entry.path()).ok()?)?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            ids.contains(&program).then_some(number)
        };
        Self { programs, links: entries.filter_map(link).collect() }
    }

    /// Number of skipped runs so far. Those of return probes alone are left out: their returns are missed.
    pub(super) fn count(&self, kernel: Option<KernelVersion>) -> Option<u64> {
        let of_programs = self.programs.iter().filter_map(|fd| bpf::recursion_misses(*fd));
        let of_links = self.links.iter().filter_map(|fd| bpf::missed_hits(*fd));
        (kernel? >= SINCE).then(|| of_programs.chain(of_links).fold(0, u64::saturating_add))
    }
}

/// The program that a link attaches, from the description of its file descriptor.
fn program_of_link(description: &str) -> Option<u32> {
    let value = |name: &str| description.lines().find_map(|line| line.strip_prefix(name));
    value("link_id:")?;
    value("prog_id:")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_known_by_the_kernel_s_description() {
        let link = "pos:\t0\nflags:\t02000000\nlink_type:\tperf\nlink_id:\t7\nprog_tag:\t0\nprog_id:\t42\n";
        assert_eq!(program_of_link(link), Some(42));
        assert_eq!(program_of_link("prog_type:\t2\nprog_id:\t42\n"), None, "the program itself");
    }

    #[test]
    fn kernels_that_count_none_give_none() {
        let nothing = Skips::default();
        let at = |major, minor| nothing.count(Some(KernelVersion::new(major, minor, 0)));
        assert_eq!([at(6, 1), at(6, 7), nothing.count(None)], [None, Some(0), None]);
    }
}
