//! Addresses as people write them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rocescope_common::wire::frame::{Addr, FAMILY_LID};
use serde::{Serialize, Serializer};

/// Destination of multicast datagrams, which is no queue pair (IBTA 10.5).
pub const MULTICAST_QP: u32 = 0xFF_FFFF;

/// Address of a host in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// IP address, or GID of a GRH.
    Ip(IpAddr),
    /// Local identifier (LID) of a port in an InfiniBand subnet.
    Lid(u16),
}

/// By kind, then as numbers.
impl Ord for Address {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            // Nearly all, and reports of many flows sort a lot.
            (Self::Ip(IpAddr::V4(one)), Self::Ip(IpAddr::V4(other))) => one.to_bits().cmp(&other.to_bits()),
            _ => (self.kind(), self.bits()).cmp(&(other.kind(), other.bits())),
        }
    }
}

impl PartialOrd for Address {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Address {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.kind());
        state.write_u128(self.bits());
    }
}

impl Address {
    /// Place of its kind among those of other kinds.
    #[inline]
    const fn kind(self) -> u8 {
        match self {
            Self::Ip(IpAddr::V4(_)) => 0,
            Self::Ip(IpAddr::V6(_)) => 1,
            Self::Lid(_) => 2,
        }
    }

    /// Family and words of the address, as in the key of a flow.
    pub fn words(self) -> (u8, Addr) {
        let family = match self {
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 6,
            Self::Lid(_) => FAMILY_LID,
        };
        let mut words = [0; 4];
        for (word, chunk) in words.iter_mut().zip(self.bits().to_be_bytes().as_chunks().0) {
            *word = u32::from_ne_bytes(*chunk);
        }
        (family, words)
    }

    /// The address as a number, which gives its place among others of the family.
    #[inline]
    pub const fn bits(self) -> u128 {
        match self {
            Self::Ip(IpAddr::V4(ip)) => ip.to_bits() as u128,
            Self::Ip(IpAddr::V6(ip)) => ip.to_bits(),
            Self::Lid(lid) => lid as u128,
        }
    }

    /// The address of a family that is this number.
    #[expect(clippy::cast_possible_truncation, reason = "the upper bits of shorter addresses are 0")]
    pub const fn from_bits(family: u8, bits: u128) -> Self {
        match family {
            4 => Self::Ip(IpAddr::V4(Ipv4Addr::from_bits(bits as u32))),
            FAMILY_LID => Self::Lid(bits as u16),
            _ => Self::Ip(IpAddr::V6(Ipv6Addr::from_bits(bits))),
        }
    }

    /// True for an address of a group of hosts: multicast IP address or GID, or multicast LID.
    pub const fn is_multicast(self) -> bool {
        match self {
            Self::Ip(IpAddr::V4(ip)) => ip.is_multicast(),
            Self::Ip(IpAddr::V6(ip)) => ip.is_multicast(),
            Self::Lid(lid) => lid >= 0xC000,
        }
    }

    /// The IP address; `None` for a LID.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::Lid(_) => None,
        }
    }
}

/// The address of these words, which a key of a flow holds with their family.
pub fn address(family: u8, words: Addr) -> Address {
    Address::from_bits(
        family,
        words.iter().fold(0, |bits, word| bits << 32 | u128::from(u32::from_be(*word))),
    )
}

impl<T: Into<IpAddr>> From<T> for Address {
    fn from(ip: T) -> Self {
        Self::Ip(ip.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            // Padded as a whole, like an IP address.
            Self::Lid(lid) => f.pad(&format!("lid:{lid:#06x}")),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lid = text.strip_prefix("lid:").map(|lid| match lid.strip_prefix("0x") {
            Some(hex) => u16::from_str_radix(hex, 16),
            None => lid.parse(),
        });
        match lid {
            Some(Ok(lid)) => Ok(Self::Lid(lid)),
            _ => text.parse().map(Self::Ip),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, address};

    /// As `ip` orders its kinds, and LIDs behind them; equal addresses alone have equal hashes.
    #[test]
    fn addresses_are_in_the_order_of_their_numbers() {
        use std::hash::BuildHasher as _;
        const ORDER: [&str; 9] = [
            "0.0.0.1",
            "9.255.0.0",
            "10.0.0.2",
            "10.0.0.11",
            "255.0.0.0",
            "::1",
            "9::",
            "10::",
            "lid:0x0001",
        ];
        let order = ORDER.map(|text| text.parse::<Address>().unwrap());
        let state = crate::util::map::State::default();
        for (at, one) in order.iter().enumerate() {
            for (other_at, other) in order.iter().enumerate() {
                assert_eq!(one.cmp(other), at.cmp(&other_at), "{one} {other}");
                assert_eq!(state.hash_one(one) == state.hash_one(other), at == other_at, "{one} {other}");
                if let Some((one, other)) = one.ip().zip(other.ip()) {
                    assert_eq!(one.cmp(&other), at.cmp(&other_at), "{one} {other}");
                }
            }
        }
    }

    #[test]
    fn texts_and_words_give_the_address_again() {
        for text in ["10.0.1.2", "fe80::1", "lid:0x0011"] {
            let parsed: Address = text.parse().unwrap();
            let (family, words) = parsed.words();
            assert_eq!((address(family, words), parsed.to_string().as_str()), (parsed, text));
        }
        assert_eq!("lid:17".parse(), Ok(Address::Lid(17)));
        assert!(
            ["lid:", "lid:0x1ffff", "lid:-1", "10.0.0"].iter().all(|text| text.parse::<Address>().is_err())
        );
    }
}
