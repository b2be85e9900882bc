//! Provider functions in running processes: the `post_send` that a process calls for a device.
//!
//! Provider libraries have no symbols, and `ibv_post_send` is inline: it calls through the operations of the
//! process's `struct ibv_context`. A context is found in the process's memory by a combination that does not occur by
//! chance: the file descriptor of an uverbs device, operations that all lie in the code of one file, and the mark of
//! libibverbs' extended interface.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::host::read::{HostRoot, guarded};

/// `ibv_context.ops.poll_cq`, then `post_send` and `post_recv`, of libibverbs' stable interface (IBVERBS_1.1). Unit:
/// bytes.
const OPERATIONS: [usize; 3] = [96, POST_SEND, 216];
const POST_SEND: usize = 208;
/// `ibv_context.cmd_fd`.
const CMD_FD: usize = 264;
/// `ibv_context.abi_compat`, after a `pthread_mutex_t`.
const ABI_COMPAT: usize = if cfg!(target_arch = "x86_64") { 320 } else { 328 };
/// Bytes of a context that are examined.
const CONTEXT: usize = ABI_COMPAT + 8;
/// Maximum memory searched per process, smallest mappings first: heaps are small, buffers are large.
const MOST_MEMORY: u64 = 512 << 20;
/// Bytes per read.
const CHUNK: usize = 1 << 20;
/// Maximum length of a list of mappings: by default the kernel allows 65,530.
const MOST_MAPS: u64 = 16 << 20;

/// A mapping of a process, from `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address of the mapping.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Readable, writable and private: may contain a heap.
    pub is_data: bool,
    /// True for executable memory.
    pub is_code: bool,
    /// Offset in its file.
    pub offset: u64,
    /// Device of its file (`fe:00`).
    pub device: String,
    /// Inode of its file; 0 for memory without a file.
    pub inode: u64,
    /// Path of its file as seen by the process, or `[heap]`; empty for anonymous memory.
    pub path: String,
}

/// Parses `/proc/PID/maps`. Malformed lines are left out.
pub fn mappings(text: &str) -> Vec<Mapping> {
    let one = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            is_data: permissions.starts_with("rw-p"),
            is_code: permissions.contains('x'),
            offset: hex(words.next()?)?,
            device: words.next()?.to_owned(),
            inode: words.next()?.parse().ok()?,
            path: words.next().unwrap_or_default().trim().to_owned(),
        })
    };
    text.lines().filter_map(one).collect()
}

/// The function in a device's context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostSend {
    /// File descriptor of the device in the process.
    pub device_fd: u32,
    /// Name of the device's file: `uverbs0`.
    pub uverbs: String,
    /// File that contains the function, by device and inode.
    pub file: (String, u64),
    /// Offset of the function in the file.
    pub offset: u64,
    /// Path of the file as seen by the process.
    pub path: String,
    /// A path to the file that stays valid if the file is replaced or lies in a container.
    pub through: PathBuf,
}

impl PostSend {
    /// Opens the file. A process chooses what it maps: a pipe or device in its place is not opened, and one that does
    /// not answer is given up.
    ///
    /// # Errors
    /// If that is not possible, with the path of the file.
    pub fn open(&self) -> Result<File, String> {
        let (link, offset) = (self.through.clone(), self.offset);
        guarded::timed(move || guarded::behind(&link, offset))
            .map_err(|error| format!("{} cannot be opened: {error}", self.path))
    }
}

/// Properties of a process that are determined before its memory is read.
#[derive(Debug)]
struct Process<'a> {
    mappings: &'a [Mapping],
    /// Names of device files by file descriptor.
    devices: &'a BTreeMap<u32, String>,
}

impl Process<'_> {
    fn code(&self, address: u64) -> Option<&Mapping> {
        let at = self.mappings.partition_point(|mapping| mapping.end <= address);
        let mapping = self.mappings.get(at)?;
        (mapping.start <= address && mapping.is_code && mapping.inode != 0).then_some(mapping)
    }

    /// The contexts in a range of memory: file descriptor, and address of `post_send`.
    fn contexts(&self, memory: &[u8]) -> Vec<(u32, u64)> {
        let word = |at: usize| -> Option<u64> { Some(u64::from_ne_bytes(*memory.get(at..)?.first_chunk()?)) };
        // The mark first, since nearly all memory fails this check.
        let marks = memory.get(ABI_COMPAT..).unwrap_or_default().chunks_exact(8);
        let marked = (0..).step_by(8).zip(marks).filter(|(_, mark)| **mark == [0xff; 8]);
        let found = marked.filter_map(|(at, _)| {
            let fd = u32::from_ne_bytes(*memory.get(at + CMD_FD..)?.first_chunk()?);
            self.devices.get(&fd)?;
            let mut files = OPERATIONS.iter().map(|offset| Some(self.code(word(at + offset)?)?.inode));
            let first = files.next()??;
            files.all(|file| file == Some(first)).then_some((fd, word(at + POST_SEND)?))
        });
        found.collect()
    }
}

/// The `post_send` of each device that process `pid` has open, one for each file descriptor with a context. Memory that
/// a slow file system backs is given up after `patience`.
///
/// # Errors
/// The reason why the process cannot be searched, or that nothing was found.
pub fn of_process(root: &HostRoot, pid: u32, patience: Duration) -> Result<Vec<PostSend>, String> {
    let root = HostRoot::at(root.base());
    let found = guarded::timed_for(patience, move || Ok(found_in(&root, pid)));
    found.unwrap_or_else(|_| Err("its memory does not answer".to_owned()))
}

fn found_in(root: &HostRoot, pid: u32) -> Result<Vec<PostSend>, String> {
    let devices = uverbs(root, pid)?;
    if devices.is_empty() {
        return Err("it has no RDMA device open (/dev/infiniband/uverbs*)".to_owned());
    }
    let mappings = read_mappings(root, pid)?;
    let process = Process { mappings: &mappings, devices: &devices };
    let memory = root.path(&format!("/proc/{pid}/mem"));
    let memory = guarded::open(&memory)
        .map_err(|error| format!("its memory cannot be read: {error} (needs CAP_SYS_PTRACE)"))?;
    let mut found: BTreeMap<u32, u64> = BTreeMap::new();
    let mut data: Vec<&Mapping> =
        mappings.iter().filter(|m| m.is_data && m.inode == 0 && m.end > m.start).collect();
    // The heap, then the arenas of threads, then other small mappings.
    data.sort_by_key(|mapping| (mapping.path != "[heap]", mapping.end - mapping.start));
    let mut left = MOST_MEMORY;
    for mapping in data {
        if found.len() == devices.len() || left == 0 {
            break;
        }
        let end = mapping.end.min(mapping.start + left);
        left -= end - mapping.start;
        search(&memory, mapping.start..end, &process, &mut found);
    }
    let functions: Vec<PostSend> = found
        .into_iter()
        .filter_map(|(device_fd, address)| {
            let code = process.code(address)?;
            Some(PostSend {
                device_fd,
                uverbs: devices.get(&device_fd)?.clone(),
                file: (code.device.clone(), code.inode),
                offset: address - code.start + code.offset,
                path: code.path.clone(),
                through: root.path(&format!("/proc/{pid}/map_files/{:x}-{:x}", code.start, code.end)),
            })
        })
        .collect();
    if functions.is_empty() {
        return Err(format!(
            "no context of libibverbs found in {} MiB of its memory",
            (MOST_MEMORY - left) >> 20
        ));
    }
    Ok(functions)
}

/// Searches a range of addresses. An unreadable range is skipped, since mappings change while the process runs.
fn search(memory: &File, range: std::ops::Range<u64>, process: &Process<'_>, found: &mut BTreeMap<u32, u64>) {
    let mut chunk = vec![0; CHUNK + CONTEXT];
    let mut at = range.start;
    while at < range.end {
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
        // A mapping may end in a guard page, which shortens the read.
        let read = chunk.get_mut(..wanted).and_then(|part| memory.read_at(part, at).ok()).unwrap_or(0);
        let part = chunk.get(..read).unwrap_or_default();
        found.extend(process.contexts(part));
        // The next part overlaps by enough for a context that crosses the border.
        at += CHUNK as u64;
    }
}

fn read_mappings(root: &HostRoot, pid: u32) -> Result<Vec<Mapping>, String> {
    let failed = |error| format!("its mappings cannot be read: {error} (needs CAP_SYS_PTRACE)");
    let file = guarded::open(&root.path(&format!("/proc/{pid}/maps"))).map_err(failed)?;
    let mut text = Vec::new();
    file.take(MOST_MAPS).read_to_end(&mut text).map_err(failed)?;
    Ok(mappings(&String::from_utf8_lossy(&text)))
}

/// The uverbs devices that a process has open, by file descriptor.
fn uverbs(root: &HostRoot, pid: u32) -> Result<BTreeMap<u32, String>, String> {
    let folder = format!("/proc/{pid}/fd");
    let names = root
        .list(&folder)
        .map_err(|error| format!("its open files cannot be listed: {error} (needs CAP_SYS_PTRACE)"))?;
    let one = |name: &String| {
        let target = std::fs::read_link(root.path(&format!("{folder}/{name}"))).ok()?;
        let file = target.file_name()?.to_str()?;
        let number = file.strip_prefix("uverbs")?;
        let is_device = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_device.then_some((name.parse().ok()?, file.to_owned()))
    };
    Ok(names.iter().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::testing::{fifo, tree};

    const MAPS: &str = "\
55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000010000 rw-p 00000000 00:00 0 
7f1000000000-7f1000008000 r--p 00000000 fe:00 77                         /usr/lib/libibverbs/libmlx5-rdmav34.so
7f1000008000-7f1000020000 r-xp 00008000 fe:00 77                         /usr/lib/libibverbs/libmlx5-rdmav34.so
7f1000020000-7f1000030000 r-xp 00001000 fe:00 78                         /usr/lib/a name with spaces.so (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
not a line";

    /// A context whose operations have these addresses.
    fn context(fd: u32, operations: [u64; 3]) -> Vec<u8> {
        let mut bytes = vec![0; CONTEXT];
        for (at, address) in OPERATIONS.into_iter().zip(operations) {
            bytes[at..at + 8].copy_from_slice(&address.to_ne_bytes());
        }
        bytes[CMD_FD..CMD_FD + 4].copy_from_slice(&fd.to_ne_bytes());
        bytes[ABI_COMPAT..].fill(0xff);
        bytes
    }

    #[test]
    fn mappings_are_read() {
        let all = mappings(MAPS);
        assert_eq!(all.len(), 6);
        assert!(all[0].is_data && all[0].path == "[heap]" && !all[0].is_code);
        assert!(all[1].is_data && all[1].path.is_empty());
        let code = &all[3];
        assert!(code.is_code && !code.is_data);
        assert_eq!((code.offset, code.device.as_str(), code.inode), (0x8000, "fe:00", 77));
        assert_eq!(all[4].path, "/usr/lib/a name with spaces.so (deleted)");
    }

    #[test]
    fn a_context_is_found_by_its_descriptor_its_functions_and_its_mark() {
        let all = mappings(MAPS);
        let devices = BTreeMap::from([(7, "uverbs0".to_owned())]);
        let process = Process { mappings: &all, devices: &devices };
        let code = 0x7f10_0000_8000;
        let right = [code + 0x10, code + 0x123, code + 0x20];
        let places = |memory: &[u8]| process.contexts(memory);
        let mut memory = vec![0xff; 64];
        memory.extend(context(7, right));
        memory.extend([0; 64]);
        assert_eq!(places(&memory), [(7, code + 0x123)]);
        // A file descriptor that is not a device, a function outside the code or in another file, and no mark.
        assert_eq!(places(&context(8, right)), []);
        assert_eq!(places(&context(7, [code + 0x10, 0x7f00_0000_0000, code])), []);
        assert_eq!(places(&context(7, [code, code, 0x7f10_0002_0000])), []);
        let mut unmarked = context(7, right);
        unmarked[ABI_COMPAT] = 0;
        assert_eq!(places(&unmarked), []);
        // Truncated, and empty.
        let whole = context(7, right);
        assert_eq!(places(&whole[..CONTEXT - 1]), []);
        assert_eq!(places(&[]), []);
    }

    /// This process is searched like any other; it has no device open.
    #[test]
    fn a_process_without_a_device_says_so() {
        let root = HostRoot::at("/");
        let why = of_process(&root, std::process::id(), Duration::from_secs(5)).unwrap_err();
        assert!(why.contains("no RDMA device open"), "{why}");
        let why = of_process(&root, u32::MAX, Duration::from_secs(5)).unwrap_err();
        assert!(why.contains("cannot be listed"), "{why}");
    }

    /// Opening a pipe without a writer for reading would block for as long as the search may take.
    #[test]
    fn a_pipe_in_place_of_mappings_or_memory_is_not_opened() {
        let tree = tree(&[("proc/7/fd/7", "-> /dev/infiniband/uverbs0")]);
        let root = HostRoot::at(tree.path());
        let why = || of_process(&root, 7, Duration::from_secs(5)).unwrap_err();
        let maps = tree.path().join("proc/7/maps");
        fifo(&maps);
        assert!(why().starts_with("its mappings cannot be read: not a regular file"), "{}", why());
        std::fs::remove_file(&maps).unwrap();
        std::fs::write(&maps, MAPS).unwrap();
        fifo(&tree.path().join("proc/7/mem"));
        assert!(why().starts_with("its memory cannot be read: not a regular file"), "{}", why());
    }

    #[test]
    fn a_context_across_the_border_of_two_reads_is_found() {
        let all = mappings(MAPS);
        let devices = BTreeMap::from([(7, "uverbs0".to_owned())]);
        let process = Process { mappings: &all, devices: &devices };
        let code = 0x7f10_0000_8000;
        let mut memory = vec![0; CHUNK - 160];
        memory.extend(context(7, [code; 3]));
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&memory, 0).unwrap();
        let mut found = BTreeMap::new();
        search(&file, 0..memory.len() as u64, &process, &mut found);
        assert_eq!(found, BTreeMap::from([(7, code)]));
    }
}
