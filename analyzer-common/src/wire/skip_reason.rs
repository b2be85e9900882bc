//! Reasons for not counting a frame as RoCE.

/// Reason for skipping a frame. The number is the index of the kernel's counter and part of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SkipReason {
    /// ARP (ethertype 0x0806).
    Arp = 0,
    /// LLDP (ethertype 0x88CC).
    Lldp = 1,
    /// MAC control: PAUSE and PFC (ethertype 0x8808).
    MacControl = 2,
    /// Another ethertype, or an IEEE 802.3 length field.
    OtherEthertype = 3,
    /// TCP.
    Tcp = 4,
    /// ICMP for IPv4.
    Icmp = 5,
    /// ICMP for IPv6: neighbour discovery, multicast groups.
    Icmpv6 = 6,
    /// IGMP: multicast groups of IPv4.
    Igmp = 7,
    /// An IP protocol other than TCP, UDP, ICMP and IGMP that is not a known tunnel.
    OtherIpProtocol = 8,
    /// UDP to a port that is neither RoCEv2 nor a known tunnel.
    OtherUdp = 9,
    /// Ultra Ethernet transport: UDP to port 4793. Recognised, not parsed.
    UltraEthernet = 10,
    /// An IP fragment other than the first: it has no UDP header.
    Fragment = 11,
    /// A GRH, of RoCEv1 or InfiniBand, that is not followed by a BTH.
    GrhNotBth = 12,
    /// RoCE by its headers, but truncated before the end of the BTH.
    Truncated = 13,
    /// Truncated before it could be identified as RoCE.
    TruncatedHeaders = 14,
    /// A header is inconsistent: wrong IP version, or a length below that of its own header.
    Malformed = 15,
    /// More IPv6 extension headers than the parser follows, or an unknown one.
    Ipv6ExtUnparsed = 16,
    /// More VLAN tags than the parser follows.
    VlanUnparsed = 17,
    /// A tunnel or mirror encapsulation that is not decoded here, or nested too deeply.
    TunnelUnparsed = 18,
    /// rocescope does not support the link type of the capture.
    LinkTypeUnsupported = 19,
    /// RoCE, but excluded by the user's `--filter`.
    Filtered = 20,
    /// Subnet management on virtual lane 15 of InfiniBand.
    InfinibandManagement = 21,
    /// An InfiniBand packet without BTH: raw IPv6 or raw ethertype.
    InfinibandRaw = 22,
}

impl SkipReason {
    /// Number of reasons, the size of a counter array.
    pub const COUNT: usize = 23;

    /// Number of reasons that the kernel programs count: those before InfiniBand's, which no interface of the kernel
    /// has.
    pub const KERNEL: usize = Self::InfinibandManagement as usize;

    /// Every reason, by number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Arp,
        Self::Lldp,
        Self::MacControl,
        Self::OtherEthertype,
        Self::Tcp,
        Self::Icmp,
        Self::Icmpv6,
        Self::Igmp,
        Self::OtherIpProtocol,
        Self::OtherUdp,
        Self::UltraEthernet,
        Self::Fragment,
        Self::GrhNotBth,
        Self::Truncated,
        Self::TruncatedHeaders,
        Self::Malformed,
        Self::Ipv6ExtUnparsed,
        Self::VlanUnparsed,
        Self::TunnelUnparsed,
        Self::LinkTypeUnsupported,
        Self::Filtered,
        Self::InfinibandManagement,
        Self::InfinibandRaw,
    ];

    /// Name in reports (`totals.skipped`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arp => "arp",
            Self::Lldp => "lldp",
            Self::MacControl => "mac_control",
            Self::OtherEthertype => "other_ethertype",
            Self::Tcp => "tcp",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmpv6",
            Self::Igmp => "igmp",
            Self::OtherIpProtocol => "other_ip_protocol",
            Self::OtherUdp => "other_udp",
            Self::UltraEthernet => "ultra_ethernet",
            Self::Fragment => "fragment",
            Self::GrhNotBth => "grh_not_bth",
            Self::Truncated => "truncated",
            Self::TruncatedHeaders => "truncated_headers",
            Self::Malformed => "malformed",
            Self::Ipv6ExtUnparsed => "ipv6_ext_unparsed",
            Self::VlanUnparsed => "vlan_unparsed",
            Self::TunnelUnparsed => "tunnel_unparsed",
            Self::LinkTypeUnsupported => "link_type_unsupported",
            Self::Filtered => "filtered",
            Self::InfinibandManagement => "infiniband_management",
            Self::InfinibandRaw => "infiniband_raw",
        }
    }

    /// One-line explanation for help texts and docs/metrics.md.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Arp => "ARP",
            Self::Lldp => "LLDP",
            Self::MacControl => "MAC control frames: PAUSE and PFC",
            Self::OtherEthertype => "another ethertype, or an IEEE 802.3 length field",
            Self::Tcp => "TCP",
            Self::Icmp => "ICMP for IPv4",
            Self::Icmpv6 => "ICMP for IPv6: neighbour discovery, multicast groups",
            Self::Igmp => "IGMP: multicast groups of IPv4",
            Self::OtherIpProtocol => {
                "an IP protocol other than TCP, UDP, ICMP and IGMP that is not a known tunnel"
            }
            Self::OtherUdp => "UDP to a port that is neither RoCEv2 nor a known tunnel",
            Self::UltraEthernet => "Ultra Ethernet transport (UDP 4793): recognised, not parsed",
            Self::Fragment => "an IP fragment other than the first: it has no UDP header",
            Self::GrhNotBth => "a GRH (RoCEv1, InfiniBand) that no BTH follows",
            Self::Truncated => "RoCE by its headers, but cut before the end of the BTH",
            Self::TruncatedHeaders => "truncated before it could be identified as RoCE",
            Self::Malformed => {
                "a header is inconsistent (IP version, or a length below that of its own header)"
            }
            Self::Ipv6ExtUnparsed => "more IPv6 extension headers than the parser follows",
            Self::VlanUnparsed => "more VLAN tags than the parser follows",
            Self::TunnelUnparsed => {
                "a tunnel or mirror encapsulation that is not decoded here, or nested too deeply"
            }
            Self::LinkTypeUnsupported => "the link type of the capture is not supported",
            Self::Filtered => "RoCE excluded by --filter",
            Self::InfinibandManagement => "InfiniBand subnet management (virtual lane 15)",
            Self::InfinibandRaw => "an InfiniBand packet without BTH: raw IPv6 or raw ethertype",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SkipReason;

    #[test]
    fn all_reasons_are_listed_by_number() {
        for (number, reason) in SkipReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number, "{}", reason.name());
        }
    }
}
