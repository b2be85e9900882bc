//! The packet as the parser reads it; the same as rocescope's own programs do.

use core::arch::asm;

use aya_ebpf::programs::XdpContext;
use rocescope_common::wire::Bytes;

/// Offsets that headers are followed to.
const OFFSET_MAX: usize = 4096;

/// A packet between two packet pointers, and where offsets go to be forgotten by the verifier.
#[derive(Clone, Copy)]
pub(crate) struct Linear {
    start: usize,
    end: usize,
    offset: *mut u64,
}

impl Linear {
    #[inline(always)]
    pub(crate) const fn new(start: usize, end: usize, offset: *mut u64) -> Self {
        Self { start, end, offset }
    }

    #[inline(always)]
    pub(crate) const fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Keeps LLVM from computing a pointer twice: the verifier trusts the register that was compared alone.
#[inline(always)]
fn opaque(mut pointer: usize) -> usize {
    // SAFETY: the instruction changes nothing.
    unsafe { asm!("{0} = {0}", inout(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

impl Bytes for Linear {
    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let at = opaque(self.start + offset);
        if at + N > self.end {
            return None;
        }
        // SAFETY: the N bytes from `at` lie before the end of the packet; the verifier checks it.
        Some(unsafe { (at as *const [u8; N]).read_unaligned() })
    }

    #[inline(always)]
    fn settle(&self, offset: usize) -> Option<usize> {
        // SAFETY: the pointer comes from a per-CPU map; volatile, or the compiler would see through it.
        let any = unsafe {
            self.offset.write_volatile(offset as u64);
            self.offset.read_volatile() as usize
        };
        (any <= OFFSET_MAX).then(|| opaque(any))
    }
}

/// Writes the low 24 bits of a number into the packet.
#[inline(always)]
pub(crate) fn put(ctx: &XdpContext, offset: usize, number: u32) -> Option<()> {
    let at = ctx.data() + offset;
    if at + 3 > ctx.data_end() {
        return None;
    }
    let [_, bytes @ ..] = number.to_be_bytes();
    // SAFETY: the three bytes from `at` lie before the end of the packet; the verifier checks it.
    unsafe { (at as *mut [u8; 3]).write_unaligned(bytes) };
    Some(())
}
