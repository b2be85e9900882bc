//! Linux cooked captures (SLL): the link-layer header that `tcpdump -i any` writes.

use super::bytes::Bytes;

/// Packet direction in the cooked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PacketDirection {
    /// Received by this host (including broadcast, multicast and packets for other hosts).
    In,
    /// Sent by this host.
    Out,
}

/// Header of a Linux cooked capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooked {
    /// Ethertype of the payload.
    pub ethertype: u16,
    /// Offset of the payload.
    pub offset: usize,
    /// Direction of the packet.
    pub direction: PacketDirection,
    /// Interface index; `None` in version 1.
    pub ifindex: Option<u32>,
}

const OUTGOING: u16 = 4;

fn direction(packet_type: u16) -> PacketDirection {
    if packet_type == OUTGOING { PacketDirection::Out } else { PacketDirection::In }
}

/// Version 1 (LINKTYPE 113), 16 bytes. `None` if truncated.
pub fn sll(bytes: &impl Bytes) -> Option<Cooked> {
    const LEN: usize = 16;
    let h = bytes.get::<LEN>(0)?;
    Some(Cooked {
        ethertype: u16::from_be_bytes([h[14], h[15]]),
        offset: LEN,
        direction: direction(u16::from_be_bytes([h[0], h[1]])),
        ifindex: None,
    })
}

/// Version 2 (LINKTYPE 276), 20 bytes. `None` if truncated.
pub fn sll2(bytes: &impl Bytes) -> Option<Cooked> {
    const LEN: usize = 20;
    let h = bytes.get::<LEN>(0)?;
    Some(Cooked {
        ethertype: u16::from_be_bytes([h[0], h[1]]),
        offset: LEN,
        direction: direction(u16::from(h[10])),
        ifindex: Some(u32::from_be_bytes([h[4], h[5], h[6], h[7]])),
    })
}

#[cfg(test)]
mod tests {
    use super::{Cooked, PacketDirection, sll, sll2};

    #[test]
    fn both_versions_whole_and_truncated() {
        let v1: [u8; 16] = [0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x86, 0xDD];
        let out = Cooked { ethertype: 0x86DD, offset: 16, direction: PacketDirection::Out, ifindex: None };
        assert_eq!(sll(&&v1[..]), Some(out));
        assert_eq!(sll(&&v1[..15]), None);
        let v2: [u8; 20] = [8, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0];
        let within =
            Cooked { ethertype: 0x0800, offset: 20, direction: PacketDirection::In, ifindex: Some(9) };
        assert_eq!(sll2(&&v2[..]), Some(within));
        assert_eq!(sll2(&&v2[..19]), None);
    }
}
