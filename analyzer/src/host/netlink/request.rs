//! Building netlink requests.

use netlink_packet_core::{NLA_F_NESTED, NLM_F_REQUEST};

/// Bytes of a netlink message header.
pub(super) const HEADER_LEN: usize = 16;

/// The fixed header of RTM_*LINK messages (`struct ifinfomsg`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkHeader {
    /// Hardware type (`ARPHRD_*`); 0 in requests.
    pub hardware: u16,
    /// Interface, 0 for none.
    pub index: u32,
    /// Interface flags (`IFF_*`).
    pub flags: u32,
    /// Mask of the `flags` that a request changes.
    pub change: u32,
}

impl LinkHeader {
    /// Bytes of the header.
    pub const LEN: usize = 16;

    /// The header of a message with this payload.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let header: &[u8; Self::LEN] = payload.first_chunk()?;
        Some(Self {
            hardware: u16::from_ne_bytes([header[2], header[3]]),
            index: word(header, 4)?,
            flags: word(header, 8)?,
            change: word(header, 12)?,
        })
    }

    /// The header as the kernel expects it.
    pub fn bytes(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[2..4].copy_from_slice(&self.hardware.to_ne_bytes());
        out[4..8].copy_from_slice(&self.index.to_ne_bytes());
        out[8..12].copy_from_slice(&self.flags.to_ne_bytes());
        out[12..16].copy_from_slice(&self.change.to_ne_bytes());
        out
    }
}

/// The fixed header of traffic control messages (`struct tcmsg`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcHeader {
    /// Index of the interface.
    pub index: u32,
    /// Handle of the queueing discipline or filter.
    pub handle: u32,
    /// Parent handle (`TC_H_*`).
    pub parent: u32,
    /// For filters: priority in the upper half, protocol (network byte order) in the lower.
    pub info: u32,
}

impl TcHeader {
    /// Bytes of the header.
    pub const LEN: usize = 20;

    /// The header of a message with this payload.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let header: &[u8; Self::LEN] = payload.first_chunk()?;
        Some(Self {
            index: word(header, 4)?,
            handle: word(header, 8)?,
            parent: word(header, 12)?,
            info: word(header, 16)?,
        })
    }

    /// The header as the kernel expects it.
    pub fn bytes(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        for (at, value) in [(4, self.index), (8, self.handle), (12, self.parent), (16, self.info)] {
            out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        out
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

/// A request under construction: header, then attributes.
#[derive(Debug, Clone)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this message type with these flags beside `NLM_F_REQUEST`, starting with the
    /// fixed header of its family.
    pub fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend(header);
        let mut request = Self { bytes };
        request.pad();
        request
    }

    /// Adds flags.
    #[must_use]
    pub fn with_flags(mut self, flags: u16) -> Self {
        let old = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        self.bytes[6..8].copy_from_slice(&(old | flags).to_ne_bytes());
        self
    }

    /// Appends an attribute of type `kind`.
    #[must_use]
    pub fn attr(mut self, kind: u16, value: &[u8]) -> Self {
        let start = self.open(kind);
        self.bytes.extend(value);
        self.close(start);
        self
    }

    /// Appends a number in the host's byte order.
    #[must_use]
    pub fn attr_u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends a text with its terminating zero.
    #[must_use]
    pub fn attr_text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// Appends an attribute that contains what `fill` appends.
    #[must_use]
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.open(kind | NLA_F_NESTED);
        let mut filled = fill(self);
        filled.close(start);
        filled
    }

    /// Appends bytes that are not an attribute (a fixed header inside a nested attribute).
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self.pad();
        self
    }

    /// The message, ready to send.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    /// The message after its netlink header, as in a response of this form.
    #[cfg(test)]
    pub(crate) fn payload(self) -> Vec<u8> {
        self.finish(0).split_off(HEADER_LEN)
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend([0, 0]);
        self.bytes.extend(kind.to_ne_bytes());
        start
    }

    fn close(&mut self, start: usize) {
        // No request is nearly 64 KiB long; the kernel refuses an inconsistent length.
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attrs;
    use super::*;

    #[test]
    fn what_is_built_reads_back() {
        let header = LinkHeader { hardware: 1, index: 7, flags: 2, change: 3 };
        let payload = Request::new(16, 0, &header.bytes())
            .attr_text(3, "eth")
            .nest(18, |r| r.attr_text(1, "veth").nest(2, |r| r.raw(&[9; 3]).attr_u32(4, 99)))
            .attr_u32(4, 1500)
            .payload();
        assert_eq!(LinkHeader::parse(&payload), Some(header));
        let attrs = Attrs::after(&payload, LinkHeader::LEN);
        assert_eq!(attrs.text(3).as_deref(), Some("eth"));
        assert_eq!(attrs.u32(4), Some(1500));
        let info = attrs.nested(18).unwrap();
        assert_eq!(info.text(1).as_deref(), Some("veth"));
        assert_eq!(Attrs::after(info.get(2).unwrap(), 4).u32(4), Some(99));
    }

    #[test]
    fn headers_survive_a_round_trip_and_refuse_less() {
        let header = TcHeader { index: 1, handle: 2, parent: 3, info: 4 };
        assert_eq!(TcHeader::parse(&header.bytes()), Some(header));
        assert_eq!(TcHeader::parse(&header.bytes()[..19]), None);
        assert_eq!(LinkHeader::parse(&[0; 15]), None);
    }
}
