//! TC filters left behind by killed rocescope processes.
//!
//! On kernels before 6.6 programs attach as filters of a clsact queueing discipline, which stay if their process is
//! killed. rocescope's filters have its name, and as handle the PID of their owner, which distinguishes those of
//! running processes from leftovers.

use std::fs;
use std::path::Path;

use crate::host::error::Result;
use crate::host::netlink::{Attrs, Request, RouteSocket, TcHeader};
use crate::host::read::guarded;

/// Prefix of the names of rocescope's filters.
pub const NAME_PREFIX: &str = "rocescope";
/// Name of processes that own such filters (`/proc/PID/comm`).
const OWNER: &str = "rocescope";

// linux/pkt_sched.h, linux/pkt_cls.h
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_INGRESS: u32 = 0xffff_fff2;
const CLSACT_EGRESS: u32 = 0xffff_fff3;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;

/// A BPF filter on a clsact hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Name; `None` for filters of other kinds, or without one.
    pub name: Option<String>,
    /// True for ingress, false for egress.
    pub ingress: bool,
    /// Handle: for rocescope's filters the PID of the owner.
    pub handle: u32,
    /// Program id; `None` if the kernel does not report it.
    pub program_id: Option<u32>,
    header: TcHeader,
    kind: String,
}

impl Filter {
    /// Parses an RTM_NEWTFILTER message (after its netlink header). `None` for an entry that represents a priority
    /// rather than a filter.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let header = TcHeader::parse(payload)?;
        let attrs = Attrs::after(payload, TcHeader::LEN);
        let options = attrs.nested(libc::TCA_OPTIONS)?;
        let kind = attrs.text(libc::TCA_KIND)?;
        let bpf = |attr| (kind == "bpf").then_some(attr);
        Some(Self {
            name: bpf(TCA_BPF_NAME).and_then(|attr| options.text(attr)),
            program_id: bpf(TCA_BPF_ID).and_then(|attr| options.u32(attr)),
            ingress: header.parent == CLSACT_INGRESS,
            handle: header.handle,
            header,
            kind,
        })
    }

    /// True if it is one of rocescope's filters, whichever process owns it.
    pub fn is_ours(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with(NAME_PREFIX))
    }

    /// True if it is one of rocescope's filters and its owner, looked up in the processes below `root`, no longer
    /// runs.
    fn is_stale(&self, root: &Path) -> bool {
        self.is_ours()
            && !guarded::regular(&root.join(format!("proc/{}/comm", self.handle)))
                .is_ok_and(|comm| comm.starts_with(OWNER.as_bytes()))
    }
}

/// The handle for this process's clsact filters, by which [`remove_stale_filters`] of other runs recognises a live
/// owner. Owners are recognised by their process name, so this process sets it, whatever the name of its executable.
pub fn owner_handle() -> u32 {
    // If this fails, the name of the executable may still identify this process.
    let _ = fs::write("/proc/self/comm", OWNER);
    std::process::id()
}

/// The filters on both clsact hooks of an interface of the calling thread's namespace; empty without a clsact.
///
/// # Errors
/// If the kernel does not answer.
pub fn list(index: u32) -> Result<Vec<Filter>> {
    let mut socket = RouteSocket::open()?;
    let mut filters = Vec::new();
    for parent in [CLSACT_INGRESS, CLSACT_EGRESS] {
        let header = TcHeader { index, parent, ..TcHeader::default() };
        let request = Request::new(libc::RTM_GETTFILTER, 0, &header.bytes());
        let action = format!("list the TC filters of interface {index}");
        let dump = socket.dump(&action, libc::RTM_NEWTFILTER, &request)?;
        filters.extend(dump.iter().filter_map(|payload| Filter::parse(payload)).filter(|filter| {
            // Kernels that do not support the parent in a dump return the filters of another.
            filter.header.parent == parent && filter.header.index == index
        }));
    }
    Ok(filters)
}

/// True if an interface of the calling thread's namespace has filters, all of them rocescope's, whichever process
/// owns them.
///
/// # Errors
/// If the kernel does not answer.
pub fn are_all_ours(index: u32) -> Result<bool> {
    let filters = list(index)?;
    Ok(!filters.is_empty() && filters.iter().all(Filter::is_ours))
}

/// Counts the filters left by earlier runs on an interface of the calling thread's namespace.
///
/// # Errors
/// If the kernel does not answer.
pub fn stale(index: u32) -> Result<usize> {
    Ok(list(index)?.iter().filter(|filter| filter.is_stale(Path::new("/"))).count())
}

/// Removes the filters left by earlier runs on an interface of the calling thread's namespace. Returns their number.
///
/// # Errors
/// If the kernel does not answer or refuses a removal.
pub fn remove_stale_filters(index: u32) -> Result<usize> {
    let mut socket = RouteSocket::open()?;
    let mut removed = 0;
    for filter in list(index)?.iter().filter(|filter| filter.is_stale(Path::new("/"))) {
        let request = Request::new(libc::RTM_DELTFILTER, 0, &filter.header.bytes())
            .attr_text(libc::TCA_KIND, &filter.kind);
        let action = format!(
            "remove the TC filter {} left on interface {index}",
            filter.name.as_deref().unwrap_or("-")
        );
        match socket.request(&action, request) {
            // Another process has removed it meanwhile.
            Err(error) if error.is_absent() => {}
            result => {
                result?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

/// Removes the clsact queueing discipline of an interface if it has no filter. Only for one that this program added.
/// Returns true if it was removed.
///
/// # Errors
/// If the kernel does not answer or refuses the removal.
pub fn remove_clsact_if_empty(index: u32) -> Result<bool> {
    if !list(index)?.is_empty() {
        return Ok(false);
    }
    let header = TcHeader { index, handle: CLSACT_HANDLE, parent: CLSACT, ..TcHeader::default() };
    let request = Request::new(libc::RTM_DELQDISC, 0, &header.bytes()).attr_text(libc::TCA_KIND, "clsact");
    let action = format!("remove the empty clsact of interface {index}");
    match RouteSocket::open()?.request(&action, request) {
        Ok(()) => Ok(true),
        Err(error) if error.is_absent() || error.errno() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
