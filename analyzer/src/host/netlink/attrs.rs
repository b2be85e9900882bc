//! Reading netlink attributes.

use netlink_packet_core::NlasIterator;

/// The attributes in a range of bytes, by number. Iteration ends silently at the first one that is malformed or
/// truncated.
#[derive(Debug, Clone, Copy)]
pub struct Attrs<'a>(&'a [u8]);

impl<'a> Attrs<'a> {
    /// The attributes that fill `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The attributes after a fixed header of `header` bytes; none if there is nothing after it.
    pub fn after(payload: &'a [u8], header: usize) -> Self {
        Self(payload.get(header..).unwrap_or_default())
    }

    /// Number (without the flag bits) and value of each attribute.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        NlasIterator::new(self.0).map_while(|attr| {
            let attr = attr.ok()?;
            let kind = attr.kind();
            let length = attr.value_length();
            Some((kind, attr.into_inner().get(4..4 + length)?))
        })
    }

    /// The value of the first attribute with this number.
    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(k, _)| *k == kind).map(|(_, value)| value)
    }

    /// The attributes nested in the first attribute with this number.
    pub fn nested(&self, kind: u16) -> Option<Self> {
        self.get(kind).map(Self)
    }

    /// First byte of an attribute.
    pub fn u8(&self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    /// A 64-bit number in the host's byte order.
    pub fn u64(&self, kind: u16) -> Option<u64> {
        self.get(kind)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// A number in the host's byte order.
    pub fn u32(&self, kind: u16) -> Option<u32> {
        self.get(kind)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    /// A signed number in the host's byte order.
    pub fn i32(&self, kind: u16) -> Option<i32> {
        self.get(kind)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
    }

    /// A text up to its terminating zero; `None` when empty.
    pub fn text(&self, kind: u16) -> Option<String> {
        let bytes = self.get(kind)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_number_whatever_surrounds_them() {
        let mut bytes = vec![7, 0, 0xee, 0x03, 1, 2, 3, 0];
        bytes.extend([8, 0, 4, 0x80]);
        bytes.extend(1500u32.to_ne_bytes());
        bytes.extend([7, 0, 3, 0, b'h', b'i', 0, 0]);
        let attrs = Attrs::new(&bytes);
        assert_eq!(attrs.u32(4), Some(1500));
        assert_eq!(attrs.text(3).as_deref(), Some("hi"));
        assert_eq!(attrs.u32(5), None);
    }

    #[test]
    fn no_prefix_or_garbage_makes_it_panic() {
        let mut bytes = vec![8, 0, 4, 0, 1, 0, 0, 0, 200, 0, 5, 0, 1];
        for end in 0..bytes.len() {
            assert!(Attrs::new(&bytes[..end]).iter().count() <= 1);
        }
        bytes[0] = 0;
        assert_eq!(Attrs::new(&bytes).iter().count(), 0);
        assert!(Attrs::after(&bytes, 100).iter().next().is_none());
    }
}
