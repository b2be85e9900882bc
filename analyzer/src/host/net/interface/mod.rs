//! Network interfaces, read over netlink so that they are those of the calling thread's namespace.

use crate::host::error::{HostError, Result};
use crate::host::netlink::{Attrs, LinkHeader, Request, RouteSocket};
use crate::host::read::sysfs::{Hardware, SysRoot};

// Numbers of linux/if_link.h that libc does not carry.
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFLA_XDP_HW_PROG_ID: u16 = 7;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_PARENT_DEV_NAME: u16 = 56;

/// Kind of an interface, as far as it matters for attaching and stacking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the kernel's own names")]
pub enum InterfaceKind {
    /// A port of a device: a NIC, a virtual function, the NIC of a virtual machine.
    Physical,
    Loopback,
    Bond,
    Team,
    Bridge,
    Vlan,
    Vxlan,
    Geneve,
    Macvlan,
    Ipvlan,
    Vrf,
    Veth,
    Netkit,
    Tun,
    Dummy,
    Ifb,
    /// Any other kind, by the kernel's name; empty if the kernel reports none.
    Other(String),
}

impl InterfaceKind {
    fn from_link(info: Option<&str>, loopback: bool, has_device: bool) -> Self {
        match info {
            _ if loopback => Self::Loopback,
            None if has_device => Self::Physical,
            None => Self::Other(String::new()),
            Some("bond") => Self::Bond,
            Some("team") => Self::Team,
            Some("bridge") => Self::Bridge,
            Some("vlan") => Self::Vlan,
            Some("vxlan") => Self::Vxlan,
            Some("geneve") => Self::Geneve,
            Some("macvlan" | "macvtap") => Self::Macvlan,
            Some("ipvlan" | "ipvtap") => Self::Ipvlan,
            Some("vrf") => Self::Vrf,
            Some("veth") => Self::Veth,
            Some("netkit") => Self::Netkit,
            Some("tun") => Self::Tun,
            Some("dummy") => Self::Dummy,
            Some("ifb") => Self::Ifb,
            Some(other) => Self::Other(other.to_owned()),
        }
    }

    /// The name for the user.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Physical => "physical",
            Self::Loopback => "loopback",
            Self::Bond => "bond",
            Self::Team => "team",
            Self::Bridge => "bridge",
            Self::Vlan => "VLAN",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
            Self::Vrf => "VRF",
            Self::Veth => "veth",
            Self::Netkit => "netkit",
            Self::Tun => "tun/tap",
            Self::Dummy => "dummy",
            Self::Ifb => "ifb",
            Self::Other(name) if name.is_empty() => "virtual",
            Self::Other(name) => name,
        }
    }
}

/// Operational state (RFC 2863), with the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the states of RFC 2863")]
pub enum OperState {
    Unknown,
    NotPresent,
    Down,
    LowerLayerDown,
    Testing,
    Dormant,
    Up,
}

impl OperState {
    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::NotPresent,
            2 => Self::Down,
            3 => Self::LowerLayerDown,
            4 => Self::Testing,
            5 => Self::Dormant,
            6 => Self::Up,
            _ => Self::Unknown,
        }
    }
}

/// Attach mode of an existing XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpAttachment {
    /// In the driver (native mode).
    Native,
    /// In the network stack, on socket buffers (generic mode).
    Generic,
    /// In the NIC (offloaded mode).
    Offloaded,
    /// Several at once.
    Multiple,
}

impl XdpAttachment {
    /// The name for the user.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
            Self::Multiple => "native and offloaded",
        }
    }
}

/// The first header of an interface's packets, derived from its hardware type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// Ethernet, including the loopback interface.
    #[default]
    Ethernet,
    /// IP: tun, WireGuard, tunnels of IP in IP and other interfaces without a link layer.
    RawIp,
    /// Another one: the number in linux/if_arp.h (`ARPHRD_*`).
    Other(u16),
}

impl Framing {
    fn from_hardware(hardware: u16) -> Self {
        const ARPHRD_RAWIP: u16 = 519;
        match hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Self::Ethernet,
            // ipip, ip6tnl and sit have taken the outer header off, or will put it on behind the hook.
            libc::ARPHRD_NONE
            | ARPHRD_RAWIP
            | libc::ARPHRD_TUNNEL
            | libc::ARPHRD_TUNNEL6
            | libc::ARPHRD_SIT => Self::RawIp,
            other => Self::Other(other),
        }
    }
}

/// An XDP program found on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedXdp {
    /// Attach mode of the program.
    pub mode: XdpAttachment,
    /// Program id, as shown by `bpftool prog`; `None` if the kernel does not report it.
    pub program_id: Option<u32>,
}

/// A network interface of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Its index in the namespace.
    pub index: u32,
    /// Kind of the interface.
    pub kind: InterfaceKind,
    /// The first header of its packets.
    pub framing: Framing,
    /// The kernel driver; `None` if it has none or sysfs was not read.
    pub driver: Option<String>,
    /// Maximum length of an IP packet, in bytes.
    pub mtu: u32,
    /// True if it is administratively up.
    pub admin_up: bool,
    /// Operational state of the interface.
    pub oper_state: OperState,
    /// Link speed in Mbit/s; `None` if unknown or sysfs was not read.
    pub speed_mbps: Option<u32>,
    /// Number of receive queues: those in use if sysfs was read, else those allocated.
    pub rx_queues: Option<u32>,
    /// MAC address; `None` for interfaces without one.
    pub mac: Option<[u8; 6]>,
    /// Index of the bond, bridge, team or VRF of which it is a member.
    pub master: Option<u32>,
    /// Indices, in this namespace, of the interfaces on which it is stacked (VLAN parent, VXLAN underlay …).
    pub lower: Vec<u32>,
    /// For a veth: index of its peer, in this namespace or another.
    pub peer: Option<u32>,
    /// Bus address of the device to which the port belongs ("0000:3b:00.0").
    pub device: Option<String>,
    /// The attached XDP program.
    pub xdp: Option<AttachedXdp>,
}

impl Interface {
    /// Parses an RTM_NEWLINK message (after its netlink header). `None` if it has no name or index, which no kernel
    /// sends.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let header = LinkHeader::parse(payload)?;
        let attrs = Attrs::after(payload, LinkHeader::LEN);
        let info = attrs.nested(libc::IFLA_LINKINFO);
        let info_kind = info.and_then(|info| info.text(libc::IFLA_INFO_KIND));
        let loopback = header.flags & flag(libc::IFF_LOOPBACK) != 0;
        let device = attrs.text(IFLA_PARENT_DEV_NAME);
        let kind = InterfaceKind::from_link(info_kind.as_deref(), loopback, device.is_some());
        let is_elsewhere = attrs.i32(libc::IFLA_LINK_NETNSID).is_some();
        // An interface refers to itself if it is not stacked; in another namespace the same number is another
        // interface.
        let link =
            attrs.u32(libc::IFLA_LINK).filter(|link| *link != 0 && (*link != header.index || is_elsewhere));
        let is_pair = matches!(kind, InterfaceKind::Veth | InterfaceKind::Netkit);
        let underlay = || {
            let data = info?.nested(libc::IFLA_INFO_DATA)?;
            data.u32(IFLA_VXLAN_LINK).filter(|link| *link != 0)
        };
        let mut lower = Vec::new();
        if !is_pair && !is_elsewhere {
            lower.extend(link);
            if kind == InterfaceKind::Vxlan {
                lower.extend(underlay());
            }
            lower.dedup();
        }
        Some(Self {
            name: attrs.text(libc::IFLA_IFNAME)?,
            index: Some(header.index).filter(|index| *index != 0)?,
            driver: None,
            mtu: attrs.u32(libc::IFLA_MTU).unwrap_or_default(),
            framing: Framing::from_hardware(header.hardware),
            admin_up: header.flags & flag(libc::IFF_UP) != 0,
            oper_state: attrs.u8(libc::IFLA_OPERSTATE).map_or(OperState::Unknown, OperState::from_code),
            speed_mbps: None,
            rx_queues: attrs.u32(libc::IFLA_NUM_RX_QUEUES),
            mac: (header.hardware == libc::ARPHRD_ETHER)
                .then(|| attrs.get(libc::IFLA_ADDRESS)?.try_into().ok())
                .flatten(),
            master: attrs.u32(libc::IFLA_MASTER).filter(|master| *master != 0),
            lower,
            peer: link.filter(|_| is_pair),
            device,
            xdp: attrs.nested(libc::IFLA_XDP).and_then(attached_xdp),
            kind,
        })
    }

    /// True if it can receive packets: it is up, and its link is not known to be down.
    pub fn is_up(&self) -> bool {
        self.admin_up && matches!(self.oper_state, OperState::Up | OperState::Unknown)
    }

    /// Adds the attributes that only sysfs provides.
    #[must_use]
    pub fn with_hardware(mut self, hardware: Hardware) -> Self {
        self.driver = hardware.driver;
        self.speed_mbps = hardware.speed_mbps;
        self.rx_queues = hardware.rx_queues.or(self.rx_queues);
        self
    }
}

/// The flag bits are small positive constants of libc's signed type.
fn flag(bit: libc::c_int) -> u32 {
    bit.unsigned_abs()
}

fn attached_xdp(attrs: Attrs<'_>) -> Option<AttachedXdp> {
    let mode = match attrs.u8(IFLA_XDP_ATTACHED)? {
        0 => return None,
        1 => XdpAttachment::Native,
        2 => XdpAttachment::Generic,
        3 => XdpAttachment::Offloaded,
        _ => XdpAttachment::Multiple,
    };
    let ids = [IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID, IFLA_XDP_HW_PROG_ID];
    Some(AttachedXdp { mode, program_id: ids.into_iter().find_map(|id| attrs.u32(id)) })
}

/// The interfaces of the calling thread's namespace, without attributes that only sysfs provides.
///
/// # Errors
/// If the kernel refuses the netlink socket or the dump.
pub fn list() -> Result<Vec<Interface>> {
    let request = Request::new(libc::RTM_GETLINK, 0, &LinkHeader::default().bytes());
    let dump = RouteSocket::open()?.dump("list the network interfaces", libc::RTM_NEWLINK, &request)?;
    Ok(dump.iter().filter_map(|payload| Interface::parse(payload)).collect())
}

/// The interfaces of the calling thread's namespace with driver, speed and queues from `root`,
/// which must be of the same namespace.
///
/// # Errors
/// If the kernel refuses the netlink socket or the dump.
pub fn list_with_hardware(root: &SysRoot) -> Result<Vec<Interface>> {
    let with = |i: Interface| {
        let hardware = Hardware::read(root, &i.name);
        i.with_hardware(hardware)
    };
    Ok(list()?.into_iter().map(with).collect())
}

/// The raw response about one interface, for other attributes.
pub(crate) fn raw(index: u32) -> Result<Vec<u8>> {
    let header = LinkHeader { index, ..LinkHeader::default() };
    let request = Request::new(libc::RTM_GETLINK, 0, &header.bytes());
    RouteSocket::open()?.get(&format!("read interface {index}"), request)
}

/// The current state of one interface of the calling thread's namespace.
///
/// # Errors
/// If there is no such interface ([`HostError::is_absent`]) or the kernel refuses.
pub fn get(index: u32) -> Result<Interface> {
    let absent = || {
        HostError::system(format!("read interface {index}"), std::io::Error::from_raw_os_error(libc::ENODEV))
    };
    Interface::parse(&raw(index)?).ok_or_else(absent)
}

/// True if the interface still exists.
///
/// # Errors
/// If the kernel does not respond.
pub fn exists(index: u32) -> Result<bool> {
    match raw(index) {
        Ok(_) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
