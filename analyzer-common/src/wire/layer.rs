//! Protocol layers, in the order in which the parser finds them.

/// Protocol layer at which the parser stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet II.
    Ethernet,
    /// Linux cooked capture, version 1.
    Sll,
    /// Linux cooked capture, version 2.
    Sll2,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Ext,
    /// UDP.
    Udp,
    /// VXLAN.
    Vxlan,
    /// VXLAN with generic protocol extension.
    VxlanGpe,
    /// Network service header (inside VXLAN-GPE).
    Nsh,
    /// Geneve.
    Geneve,
    /// GRE.
    Gre,
    /// ERSPAN type I, II or III.
    Erspan,
    /// An MPLS label.
    Mpls,
    /// InfiniBand LRH.
    Lrh,
    /// InfiniBand GRH (RoCEv1, or InfiniBand across subnets).
    Grh,
    /// InfiniBand BTH.
    Bth,
}

impl Layer {
    /// Short lower-case name, as in tshark where it has one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "eth",
            Self::Sll => "sll",
            Self::Sll2 => "sll2",
            Self::Vlan => "vlan",
            Self::Ipv4 => "ip",
            Self::Ipv6 => "ipv6",
            Self::Ipv6Ext => "ipv6ext",
            Self::Udp => "udp",
            Self::Vxlan => "vxlan",
            Self::VxlanGpe => "vxlangpe",
            Self::Nsh => "nsh",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Erspan => "erspan",
            Self::Mpls => "mpls",
            Self::Lrh => "lrh",
            Self::Grh => "grh",
            Self::Bth => "infiniband",
        }
    }
}

/// Receives each layer whose header was read completely. `()` ignores them at no cost.
pub trait Trace {
    /// A layer starts at `offset`.
    fn layer(&mut self, layer: Layer, offset: usize);
}

impl Trace for () {
    #[inline(always)]
    fn layer(&mut self, _: Layer, _: usize) {}
}
