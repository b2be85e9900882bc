//! Runs of probes that the kernel skipped: while a probe or another tracing program runs on a CPU, it runs no program
//! there. Since Linux 6.7 it counts them, by program and by probe.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use aya::Ebpf;
use aya::programs::{ProbeKind, Program};

use super::bpf;
use crate::host::kernel::KernelVersion;

const SINCE: KernelVersion = KernelVersion::new(6, 7, 0);

/// File descriptors of the programs of an object that run when a function is entered, and of the links by which they
/// are attached; both belong to the object.
#[derive(Debug, Default)]
pub(super) struct Skips {
    programs: Vec<RawFd>,
    links: Vec<RawFd>,
    /// Not all of them could be found.
    is_part: bool,
}

impl Skips {
    /// Those of the programs that are loaded and attached now, without those at the return of a function: a call whose
    /// return is not seen is counted already (`missed_returns`).
    pub(super) fn of(ebpf: &Ebpf) -> Self {
        Self::find(ebpf).unwrap_or(Self { is_part: true, ..Self::default() })
    }

    /// aya shows no descriptor of a link: the kernel's descriptions of this process's descriptors do.
    fn find(ebpf: &Ebpf) -> io::Result<Self> {
        const DESCRIPTIONS: &str = "/proc/self/fdinfo";
        let (mut programs, mut ids) = (Vec::new(), Vec::new());
        for (_, program) in ebpf.programs() {
            let is_at_return =
                matches!(program, Program::KProbe(probe) if matches!(probe.kind(), ProbeKind::Return));
            // One that is not loaded has no descriptor.
            if let Ok(fd) = program.fd()
                && !is_at_return
            {
                programs.push(fd.as_fd().as_raw_fd());
                ids.push(program.info().map_err(io::Error::other)?.id());
            }
        }
        let mut links = Vec::new();
        for entry in std::fs::read_dir(DESCRIPTIONS)? {
            let entry = entry?;
            let description = match std::fs::read_to_string(entry.path()) {
                Ok(description) => description,
                // It was closed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if program_of_link(&description).is_some_and(|program| ids.contains(&program)) {
                links.extend(entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
            }
        }
        Ok(Self { programs, links, is_part: false })
    }

    /// Number of skipped runs so far; `None` if it is not known.
    pub(super) fn count(&self, kernel: Option<KernelVersion>) -> Option<u64> {
        if self.is_part || kernel? < SINCE {
            return None;
        }
        let of_programs = self.programs.iter().map(|fd| bpf::recursion_misses(*fd).ok());
        let of_links = self.links.iter().map(|fd| Some(bpf::missed_hits(*fd).ok()?.unwrap_or(0)));
        of_programs.chain(of_links).try_fold(0_u64, |sum, skipped| Some(sum.saturating_add(skipped?)))
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
        let part = Skips { is_part: true, ..Skips::default() };
        assert_eq!(part.count(Some(KernelVersion::new(6, 7, 0))), None, "not found is not 0");
        let closed = Skips { programs: vec![-1], ..Skips::default() };
        assert_eq!(closed.count(Some(KernelVersion::new(6, 7, 0))), None, "no such descriptor");
    }
}
