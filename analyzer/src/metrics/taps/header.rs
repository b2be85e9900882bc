//! Header fields and contents of the same packets at two taps.

use crate::metrics::icrc::Contents;
use crate::metrics::packet::Packet;

/// Taps at which a flow is followed.
pub(super) const MAX_TAPS: usize = 4;

/// Different headers that a flow keeps, at all of its taps together.
const MAX_HEADERS: usize = 32;
/// Different pairs of headers, before and after, that two taps keep.
const MAX_PASSED: usize = 32;
/// Payload whose length is not known.
const NO_LENGTH: u16 = u16::MAX;

/// Header fields that a hop may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// IPv4 ToS or IPv6 traffic class.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Priority code point of the outermost VLAN tag; `None` when it is untagged, or the tag is not known.
    pub priority: Option<u8>,
    /// Its ICRC is right; `None` when it cannot be computed.
    pub icrc: Option<bool>,
}

impl Header {
    #[inline]
    pub(super) fn of(packet: &Packet, contents: Option<Contents>) -> Self {
        let icrc = contents.map(|contents| contents.right);
        Self { tos: packet.tos, hops: packet.hops, priority: packet.priority(), icrc }
    }
}

/// Fields that no hop changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// The ICRC that its contents need; 0 when it is not known.
    pub(super) needed: u32,
    /// Fields that a retransmission may carry otherwise, folded: AETH, DMA length, AckReq.
    pub(super) variable: u16,
    /// Length of its payload.
    pub(super) payload: u16,
}

impl Body {
    #[inline]
    pub(super) fn of(packet: &Packet, contents: Option<Contents>) -> Self {
        let variable = packet.aeth ^ packet.dma_len.rotate_left(8) ^ u32::from(packet.ack_req());
        Self {
            needed: contents.map_or(0, |contents| contents.needed),
            variable: ((variable ^ variable >> 16) & 0xFFFF) as u16,
            payload: u16::try_from(packet.payload).unwrap_or(NO_LENGTH),
        }
    }

    /// True if the contents of a packet, here and at another tap, differ although nothing distinguishes the two but
    /// that.
    fn is_altered(self, other: Self) -> bool {
        self.needed != other.needed
            && (self.variable, self.payload) == (other.variable, other.payload)
            && self.needed != 0
            && other.needed != 0
    }
}

/// The headers of a flow, numbered from 1; 0 is one that there was no room for.
#[derive(Debug, Default)]
pub(super) struct Headers {
    known: Vec<Header>,
    /// The latest at each tap.
    latest: [u8; MAX_TAPS],
}

impl Headers {
    /// The number of a packet's header at a tap.
    #[inline]
    pub(super) fn number(&mut self, tap: usize, header: Header) -> u8 {
        let latest = self.latest.get(tap).copied().unwrap_or(0);
        if self.get(latest) == Some(header) {
            return latest;
        }
        let number = match self.known.iter().position(|known| *known == header) {
            Some(at) => at + 1,
            None if self.known.len() < MAX_HEADERS => {
                self.known.push(header);
                self.known.len()
            }
            None => 0,
        };
        let number = u8::try_from(number).unwrap_or(0);
        if let Some(latest) = self.latest.get_mut(tap) {
            *latest = number;
        }
        number
    }

    pub(super) fn get(&self, number: u8) -> Option<Header> {
        self.known.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Packets that had one header at the first of two taps, and one, maybe another, at the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPair {
    /// The header at the first, and at the second.
    pub headers: [Header; 2],
    /// Their contents, which no hop changes, are others at the second.
    pub altered: bool,
    /// Number of packets.
    pub packets: u64,
    /// First and last time of these at each tap, Unix nanoseconds by its clock.
    pub seen_ns: [(u64, u64); 2],
}

/// Packets whose payload has another length at the second of two taps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Number of packets.
    pub packets: u64,
    /// Payload of the latest at the first tap, and at the second, in bytes.
    pub bytes: [u16; 2],
    /// First and last time of these at each tap, Unix nanoseconds by its clock.
    pub seen_ns: [(u64, u64); 2],
}

/// First and last time at each of two taps.
type SeenNs = [(u64, u64); 2];

/// Packets by the numbers of their headers at two taps.
#[derive(Clone, Debug, Default)]
pub(super) struct Compared {
    passed: Vec<(([u8; 2], bool), u64, SeenNs)>,
    pub(super) resized: Resized,
    /// Packets whose headers there was no room for.
    pub(super) left_out: u64,
}

impl Compared {
    /// A packet with these headers and contents passed both taps at these times.
    pub(super) fn add(&mut self, headers: [u8; 2], [first, second]: [Body; 2], times_ns: [u64; 2]) {
        let as_it_was = (headers, first.is_altered(second));
        if let Some((_, packets, seen_ns)) = self.passed.iter_mut().find(|(known, ..)| *known == as_it_was) {
            *packets += 1;
            extend(seen_ns, times_ns);
        } else if self.passed.len() < MAX_PASSED && !headers.contains(&0) {
            self.passed.push((as_it_was, 1, times_ns.map(|time_ns| (time_ns, time_ns))));
        } else {
            self.left_out += 1;
        }
    }

    /// Its payload was of one length at the first tap, and of another at the second.
    pub(super) fn resized(&mut self, bytes: [u16; 2], times_ns: [u64; 2]) {
        if bytes.contains(&NO_LENGTH) {
            return;
        }
        let Resized { packets, mut seen_ns, .. } = self.resized;
        if packets == 0 {
            seen_ns = times_ns.map(|time_ns| (time_ns, time_ns));
        }
        extend(&mut seen_ns, times_ns);
        self.resized = Resized { packets: packets + 1, bytes, seen_ns };
    }

    pub(super) fn passed(&self, headers: &Headers) -> Vec<HeaderPair> {
        let known = |number: u8| headers.get(number);
        let named = self.passed.iter().filter_map(|(([first, second], altered), packets, seen_ns)| {
            let headers = [known(*first)?, known(*second)?];
            Some(HeaderPair { headers, altered: *altered, packets: *packets, seen_ns: *seen_ns })
        });
        named.collect()
    }
}

impl HeaderPair {
    /// The same from the second tap to the first.
    pub(super) fn reversed(mut self) -> Self {
        self.headers.reverse();
        self.seen_ns.reverse();
        self
    }
}

impl Resized {
    /// The same from the second tap to the first.
    pub(super) fn reversed(mut self) -> Self {
        self.bytes.reverse();
        self.seen_ns.reverse();
        self
    }
}

fn extend(seen_ns: &mut SeenNs, times_ns: [u64; 2]) {
    for (seen, time_ns) in seen_ns.iter_mut().zip(times_ns) {
        *seen = (seen.0.min(time_ns), seen.1.max(time_ns));
    }
}

/// Length of a payload in bytes, where it is known.
pub(super) fn length(payload: u16) -> Option<u16> {
    (payload != NO_LENGTH).then_some(payload)
}
