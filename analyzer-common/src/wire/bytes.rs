//! How the parser reads a frame, whatever memory the frame lives in.

/// The captured bytes of one frame.
///
/// A read either gives all the bytes asked for or nothing: what a snap length or a packet buffer
/// cut off is never invented.
pub trait Bytes {
    /// `N` bytes from `offset`, or `None` where the frame (as captured) ends earlier.
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;
}

impl Bytes for &[u8] {
    #[inline(always)]
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let end = offset.checked_add(N)?;
        <[u8]>::get(self, offset..end)?.try_into().ok()
    }
}
