//! LINKTYPE numbers, as registered by the tcpdump project.

/// BSD loopback: a 4-byte address family in the byte order of the capturing host.
pub const LINKTYPE_NULL: u16 = 0;
/// LINKTYPE of Ethernet.
pub const LINKTYPE_EN10MB: u16 = 1;
/// Raw IP as some BSDs number it.
pub const LINKTYPE_RAW_BSD: u16 = 12;
/// Raw IP as OpenBSD numbers it.
pub const LINKTYPE_RAW_OPENBSD: u16 = 14;
/// Raw IPv4 or IPv6, distinguished by the version field.
pub const LINKTYPE_RAW: u16 = 101;
/// OpenBSD loopback: a 4-byte address family in network byte order.
pub const LINKTYPE_LOOP: u16 = 108;
/// Linux cooked capture: what `tcpdump -i any` writes by default on older systems.
pub const LINKTYPE_LINUX_SLL: u16 = 113;
/// LINKTYPE of raw IPv4.
pub const LINKTYPE_IPV4: u16 = 228;
/// LINKTYPE of raw IPv6.
pub const LINKTYPE_IPV6: u16 = 229;
/// Endace record format (ERF): InfiniBand packets, each behind a record header, of `ibdump`.
pub const LINKTYPE_ERF: u16 = 197;
/// InfiniBand, from the local route header on.
pub const LINKTYPE_INFINIBAND: u16 = 247;
/// Linux cooked capture, version 2: carries the interface index.
pub const LINKTYPE_LINUX_SLL2: u16 = 276;

/// The name of a LINKTYPE number, as in the registry without its prefix; `LINKTYPE_n` for the
/// numbers that rocescope does not use.
pub fn link_type_name(link_type: u16) -> String {
    let name = match link_type {
        LINKTYPE_NULL => "NULL",
        LINKTYPE_EN10MB => "ETHERNET",
        LINKTYPE_RAW_BSD | LINKTYPE_RAW_OPENBSD | LINKTYPE_RAW => "RAW",
        LINKTYPE_LOOP => "LOOP",
        LINKTYPE_LINUX_SLL => "LINUX_SLL",
        LINKTYPE_IPV4 => "IPV4",
        LINKTYPE_IPV6 => "IPV6",
        LINKTYPE_LINUX_SLL2 => "LINUX_SLL2",
        LINKTYPE_ERF => "ERF",
        LINKTYPE_INFINIBAND => "INFINIBAND",
        // Unsupported, but met in practice.
        105 => "IEEE802_11",
        127 => "IEEE802_11_RADIOTAP",
        189 => "USB_LINUX",
        220 => "USB_LINUX_MMAPPED",
        239 => "NFLOG",
        253 => "NETLINK",
        other => return format!("LINKTYPE_{other}"),
    };
    name.to_owned()
}
