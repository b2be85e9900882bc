//! Memory of a test at its kernel address, as a driver would pass to a kernel function.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result, ensure};

const PAGE: usize = 4_096;
/// `PT_LOAD` of elf.h.
const LOADED: u64 = 1;

#[derive(Debug)]
#[repr(align(4096))]
struct Page([u8; PAGE]);

/// A page of this process. It is not moved unless the kernel compacts its memory.
#[derive(Debug)]
pub struct KernelMemory {
    page: Box<Page>,
    address: u64,
}

impl KernelMemory {
    /// A page of zeros.
    pub fn new() -> Result<Self> {
        // Written, so that it is present in memory.
        let page = Box::new(Page(std::hint::black_box([1; PAGE])));
        let own = page.0.as_ptr() as u64;
        let mut entry = [0; 8];
        let pages = File::open("/proc/self/pagemap").context("cannot open /proc/self/pagemap")?;
        pages.read_exact_at(&mut entry, own / PAGE as u64 * 8)?;
        // Documentation/admin-guide/mm/pagemap.rst: the frame is in bits 0 to 54, and bit 63 means present.
        let entry = u64::from_le_bytes(entry);
        let frame = entry & ((1 << 55) - 1);
        ensure!(entry >> 63 == 1 && frame != 0, "/proc/self/pagemap does not show the page: {entry:#x}");
        let address = mapped(frame * PAGE as u64)?;
        let mut memory = Self { page, address };
        memory.page.0.fill(0);
        Ok(memory)
    }

    /// Its address in the kernel.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Writes bytes at an offset.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len());
        let place = end.and_then(|end| self.page.0.get_mut(offset..end)).context("beyond the page")?;
        place.copy_from_slice(bytes);
        // The kernel reads it, which the compiler does not know.
        std::hint::black_box(&mut self.page);
        Ok(())
    }
}

/// The kernel's address of a physical address, from the program headers of `/proc/kcore`.
fn mapped(physical: u64) -> Result<u64> {
    let mut headers = vec![0; 64 << 10];
    let read = File::open("/proc/kcore").and_then(|mut file| file.read(&mut headers));
    headers.truncate(read.context("cannot read /proc/kcore")?);
    let word =
        |at: usize| headers.get(at..).and_then(<[u8]>::first_chunk).map(|word| u64::from_le_bytes(*word));
    let half = |at: usize| {
        let half = headers.get(at..).and_then(<[u8]>::first_chunk);
        half.map(|half| usize::from(u16::from_le_bytes(*half)))
    };
    let start = word(32).and_then(|start| usize::try_from(start).ok());
    let (start, size, count) =
        (start.context("no ELF")?, half(54).context("no ELF")?, half(56).context("no ELF")?);
    let inside = |at: usize| {
        let (kind, from, base, length) =
            (word(at)? & 0xffff_ffff, word(at + 16)?, word(at + 24)?, word(at + 40)?);
        // Segments without a physical address have the largest number.
        let inside = physical.checked_sub(base).filter(|inside| *inside < length && base != u64::MAX)?;
        (kind == LOADED).then(|| from + inside)
    };
    (0..count)
        .find_map(|index| inside(start + index * size))
        .with_context(|| format!("/proc/kcore shows no mapping of {physical:#x}"))
}
