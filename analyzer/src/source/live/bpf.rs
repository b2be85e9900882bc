//! The bpf(2) calls that aya has no method for: reading many map entries at once, and counts of skipped programs.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

use aya::Pod;

const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;

/// The part of `union bpf_attr` that batch commands use.
#[repr(C)]
#[derive(Default)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<()> {
    // SAFETY: `attr` is a prefix of the kernel's `union bpf_attr` for this command, and the addresses in it, whose
    // provenance is exposed, point to memory that the callers below keep alive and sized for the map.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;

/// The part of `union bpf_attr` for that command.
#[repr(C)]
struct InfoAttr {
    fd: u32,
    len: u32,
    info: u64,
}

/// The first words of what the kernel says of an object; 0 for what it does not know yet.
fn info<const WORDS: usize>(fd: RawFd) -> io::Result<[u64; WORDS]> {
    let mut words = [0_u64; WORDS];
    let len = u32::try_from(size_of_val(&words)).unwrap_or(0);
    let info = words.as_mut_ptr().expose_provenance() as u64;
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut InfoAttr { fd: fd.cast_unsigned(), len, info })?;
    Ok(words)
}

/// Times that the kernel did not run a program, since another one ran on the CPU (`recursion_misses`, the 27th word of
/// `struct bpf_prog_info`).
///
/// # Errors
/// The kernel's error.
pub fn recursion_misses(program: RawFd) -> io::Result<u64> {
    let [.., misses] = info::<27>(program)?;
    Ok(misses)
}

/// Times that a probe was hit while another one was handled on the CPU (`perf_event.kprobe.missed`, the 7th word of
/// `struct bpf_link_info`); `None` for a link of another kind.
///
/// # Errors
/// The kernel's error.
pub fn missed_hits(link: RawFd) -> io::Result<Option<u64>> {
    /// `BPF_LINK_TYPE_PERF_EVENT`, and of its kinds `BPF_PERF_EVENT_KPROBE`.
    const KIND: (u32, u32) = (7, 3);
    let first = |word: u64| {
        let [a, b, c, d, ..] = word.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    };
    let [link, _, event, _, _, _, missed] = info::<7>(link)?;
    Ok(((first(link), first(event)) == KIND).then_some(missed))
}

/// All entries of a hash map. Entries that are added or removed meanwhile may be missing.
///
/// # Errors
/// The kernel's error.
pub fn hash_entries<K: Pod, V: Pod>(map: BorrowedFd<'_>) -> io::Result<Vec<(K, V)>> {
    let mut entries = Vec::new();
    let mut chunk = 1024u32;
    let mut token = 0u32;
    let mut first = true;
    loop {
        let mut keys = Vec::<K>::with_capacity(chunk as usize);
        let mut values = Vec::<V>::with_capacity(chunk as usize);
        let mut next = 0u32;
        let mut attr = BatchAttr {
            in_batch: if first { 0 } else { (&raw const token).expose_provenance() as u64 },
            out_batch: (&raw mut next).expose_provenance() as u64,
            keys: keys.as_mut_ptr().expose_provenance() as u64,
            values: values.as_mut_ptr().expose_provenance() as u64,
            count: chunk,
            map_fd: map.as_raw_fd().cast_unsigned(),
            elem_flags: 0,
            flags: 0,
        };
        let result = bpf(BPF_MAP_LOOKUP_BATCH, &mut attr);
        let end = match &result {
            Ok(()) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            // A bucket has more entries than the chunk: retry with a larger one.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && chunk < 1 << 20 => {
                chunk *= 4;
                continue;
            }
            Err(_) => return result.map(|()| entries),
        };
        let read = attr.count.min(chunk) as usize;
        // SAFETY: the kernel wrote `read` keys and as many values, within the capacities.
        unsafe {
            keys.set_len(read);
            values.set_len(read);
        }
        entries.extend(keys.into_iter().zip(values));
        if end {
            return Ok(entries);
        }
        token = next;
        first = false;
    }
}

/// Waits until all programs that were running at the call have ended.
///
/// Programs run in RCU read-side sections; the system call waits for all of those. If the kernel refuses it
/// (`nohz_full` CPUs), a pause far longer than any program's run time takes its place.
pub fn quiesce() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_long = 1;
    // SAFETY: the call takes plain numbers and touches no memory.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if done != 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
