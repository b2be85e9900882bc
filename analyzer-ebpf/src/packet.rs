//! Packet buffers as the parser reads them.

use core::arch::asm;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::bpf_skb_load_bytes;
use aya_ebpf::programs::TcContext;
use rocescope_common::wire::Bytes;

use crate::maps::{SCRATCH, SCRATCH_LEN};

/// The linear part of a packet between two packet pointers, for reads at constant offsets.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    start: usize,
    end: usize,
}

impl Head {
    #[inline(always)]
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    #[inline(always)]
    pub(crate) const fn len(&self) -> usize {
        self.end - self.start
    }

    /// The same for the parser. `offset` is a word of map memory, see [`through`].
    #[inline(always)]
    pub(crate) const fn with_scratch(self, offset: *mut u64) -> Linear {
        Linear { head: self, offset }
    }
}

/// The linear part of a packet, for reads at variable offsets.
#[derive(Clone, Copy)]
pub(crate) struct Linear {
    head: Head,
    offset: *mut u64,
}

impl Linear {
    #[inline(always)]
    pub(crate) const fn len(&self) -> usize {
        self.head.len()
    }
}

/// The parser follows headers up to this offset.
const OFFSET_MAX: usize = 4096;

/// Hides a pointer from LLVM, which would otherwise compute it twice: the verifier only accepts the
/// register that was compared with the end of the packet.
#[inline(always)]
pub(crate) fn opaque(mut pointer: usize) -> usize {
    // A move of a register to itself rather than no instruction: the kernel rejects two line records for
    // one instruction.
    // SAFETY: the instruction changes nothing.
    unsafe { asm!("{0} = {0}", inout(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Copies a word. Explicitly, since the compiler loads each byte of a larger array by itself and puts the numbers
/// together again.
///
/// # Safety
/// From `at` and from `to` there are `offset` bytes and a word more.
#[inline(always)]
unsafe fn piece<T>(at: usize, to: *mut u8, offset: usize) {
    // SAFETY: promised by the caller.
    unsafe { to.add(offset).cast::<T>().write_unaligned(((at + offset) as *const T).read_unaligned()) };
}

impl Bytes for Head {
    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let at = opaque(self.start + offset);
        if at + N > self.end {
            return None;
        }
        let mut bytes = [0; N];
        let to = bytes.as_mut_ptr();
        let mut done = 0;
        // SAFETY: the N bytes from `at` lie before the end of the packet; the verifier checks it.
        unsafe {
            while done + 8 <= N {
                piece::<u64>(at, to, done);
                done += 8;
            }
            if N & 4 != 0 {
                piece::<u32>(at, to, done);
                done += 4;
            }
            if N & 2 != 0 {
                piece::<u16>(at, to, done);
                done += 2;
            }
            if N & 1 != 0 {
                piece::<u8>(at, to, done);
            }
        }
        Some(bytes)
    }
}

impl Bytes for Linear {
    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.head.get(offset)
    }

    #[inline(always)]
    fn forget_range(&self, offset: usize) -> Option<usize> {
        forget_range(self.offset, offset)
    }

    #[inline(always)]
    fn forget_tags(&self, tags: u8) -> u8 {
        forget_tags(self.offset, tags)
    }
}

/// Passes a number through map memory, so that the verifier forgets its range and history.
#[inline(always)]
pub(crate) fn through(memory: *mut u64, number: u64) -> u64 {
    // SAFETY: the pointer comes from a per-CPU map; volatile, or the compiler would see through it.
    unsafe {
        memory.write_volatile(number);
        memory.read_volatile()
    }
}

/// Passes an offset through map memory, and bounds it again.
#[inline(always)]
fn forget_range(memory: *mut u64, offset: usize) -> Option<usize> {
    let any = through(memory, offset as u64) as usize;
    // The barrier makes a spill to the stack hold the checked value: before 6.8 the verifier does not
    // propagate the bound to a copy made earlier.
    (any <= OFFSET_MAX).then(|| opaque(any))
}

/// Passes a number of tags through map memory.
///
/// Bounded by the conversion rather than by a comparison, whose other branch would leave the number undefined:
/// kernel 5.15 refuses a program that reads such a number back from its stack.
#[inline(always)]
fn forget_tags(memory: *mut u64, tags: u8) -> u8 {
    through(memory, u64::from(tags)) as u8
}

/// Clamps a length to 1 to `MOST` for helpers that accept no other; `None` for 0.
///
/// Before 6.8 the verifier learns nothing from a comparison with 0, but does from an upper bound.
#[inline(always)]
pub(crate) fn length<const MOST: usize>(len: usize) -> Option<usize> {
    let beyond_first = opaque(len.min(MOST).wrapping_sub(1));
    (beyond_first < MOST).then(|| beyond_first + 1)
}

/// A copy of a packet's first bytes, for packets whose headers are not in the linear part.
#[derive(Clone, Copy)]
pub(crate) struct HeadCopy {
    bytes: *const u8,
    len: usize,
    offset: *mut u64,
}

impl HeadCopy {
    /// Copies up to [`SCRATCH_LEN`] bytes of the packet to this CPU's scratch memory.
    #[inline(always)]
    pub(crate) fn of(ctx: &TcContext, offset: *mut u64) -> Option<Self> {
        let scratch = SCRATCH.get_ptr_mut(0)?;
        let len = length::<SCRATCH_LEN>(ctx.len() as usize)?;
        // SAFETY: `scratch` has room for SCRATCH_LEN bytes, and `len` is not more.
        let done = unsafe { bpf_skb_load_bytes(ctx.as_ptr(), 0, scratch.cast(), len as u32) };
        (done == 0).then_some(Self { bytes: scratch.cast(), len, offset })
    }
}

impl Bytes for HeadCopy {
    #[inline(always)]
    fn prefers_fast_path(&self) -> bool {
        false
    }

    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        if offset + N > self.len {
            return None;
        }
        // The barrier forces a second check on the register that is added: before 6.8 the verifier learns
        // nothing from a comparison with a variable limit.
        let offset = opaque(offset);
        if offset > SCRATCH_LEN - N {
            return None;
        }
        // SAFETY: within the scratch value, as just checked.
        Some(unsafe { self.bytes.add(offset).cast::<[u8; N]>().read_unaligned() })
    }

    #[inline(always)]
    fn forget_range(&self, offset: usize) -> Option<usize> {
        forget_range(self.offset, offset)
    }

    #[inline(always)]
    fn forget_tags(&self, tags: u8) -> u8 {
        forget_tags(self.offset, tags)
    }
}
