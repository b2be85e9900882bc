//! How the parser reads a frame, whatever memory the frame lives in.

/// The captured bytes of one frame.
///
/// A read either gives all the bytes asked for or nothing: what a snap length or a packet buffer
/// cut off is never invented.
pub trait Bytes {
    /// `N` bytes from `offset`, or `None` where the frame (as captured) ends earlier.
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// Whether to look at fixed places first, where nearly all frames have everything. What the parser says does not depend on it; without it
    /// the kernel's verifier has less to walk through, for bytes that are seldom read this way.
    #[inline(always)]
    fn prefers_fast_path(&self) -> bool {
        true
    }

    /// The same offset, or `None` when it is further than headers are followed. The parser calls it where layers meet: kernel programs let the verifier
    /// forget there by which way the offset came about, or it would walk through the rest once for
    /// every combination of headers before.
    #[inline(always)]
    fn forget_range(&self, offset: usize) -> Option<usize> {
        Some(offset)
    }
}

impl Bytes for &[u8] {
    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let end = offset.checked_add(N)?;
        <[u8]>::get(self, offset..end)?.try_into().ok()
    }
}
