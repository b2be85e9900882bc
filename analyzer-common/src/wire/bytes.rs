//! The parser's access to a frame, independent of the memory that holds it.

/// The captured bytes of one frame.
///
/// A read returns all requested bytes or nothing: bytes cut off by a snap length or a packet buffer are
/// never invented.
pub trait Bytes {
    /// `N` bytes from `offset`, or `None` if the captured frame ends earlier.
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// True if the parser tries the fast path first. The result is the same; without it the kernel's
    /// verifier has less code to walk, for sources that are read rarely.
    #[inline(always)]
    fn prefers_fast_path(&self) -> bool {
        true
    }

    /// Returns `offset`, or `None` beyond the limit up to which headers are followed. Called where layers
    /// meet: kernel programs make the verifier forget the range and history of the offset here, since it
    /// would otherwise walk the remaining code once for every combination of preceding headers.
    #[inline(always)]
    fn forget_range(&self, offset: usize) -> Option<usize> {
        Some(offset)
    }

    /// Returns `tags`, a number of tags, of which kernel programs make the verifier forget the value in the same way.
    #[inline(always)]
    fn forget_tags(&self, tags: u8) -> u8 {
        tags
    }
}

impl Bytes for &[u8] {
    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let end = offset.checked_add(N)?;
        <[u8]>::get(self, offset..end)?.try_into().ok()
    }
}
