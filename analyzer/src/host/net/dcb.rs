//! Data centre bridging settings of the kernel: PFC, traffic classes, priorities of applications, trust mode, buffers
//! (as shown by `dcb` of iproute2).
//!
//! Numbers and structures are those of linux/dcbnl.h.

use serde::Serialize;

use crate::host::netlink::{Attrs, Request};

const RTM_GETDCB: u16 = 78;
const DCB_CMD_IEEE_GET: u8 = 21;
/// Bytes of `struct dcbmsg`.
const HEADER_LEN: usize = 4;

const DCB_ATTR_IFNAME: u16 = 1;
const DCB_ATTR_IEEE: u16 = 13;
const DCB_ATTR_DCBX: u16 = 14;

const IEEE_ETS: u16 = 1;
const IEEE_PFC: u16 = 2;
const IEEE_APP_TABLE: u16 = 3;
const IEEE_PEER_ETS: u16 = 4;
const IEEE_PEER_PFC: u16 = 5;
const IEEE_PEER_APP: u16 = 6;
const DCB_BUFFER: u16 = 10;
const DCB_APP_TRUST_TABLE: u16 = 11;

const DCBX_HOST: u8 = 0x01;
/// Offset in `struct ieee_pfc`, after padding.
const PFC_REQUESTS: usize = 8;
const PFC_INDICATIONS: usize = 72;
/// Offset in `struct dcbnl_buffer`.
const BUFFER_SIZES: usize = 8;
const BUFFER_TOTAL: usize = 40;
/// Offset in `struct ieee_ets`.
const ETS_BANDWIDTH: usize = 3;
const ETS_ALGORITHM: usize = 19;
const ETS_PRIORITIES: usize = 27;

/// Selector of an application priority by UDP port (IEEE 802.1Q table D-9).
pub const SELECT_UDP: u8 = 3;
/// TCP or UDP port.
pub const SELECT_ANY_PORT: u8 = 4;
/// Selector of a DSCP entry.
pub const SELECT_DSCP: u8 = 5;
/// Trust table: the priority in the VLAN tag (`DCB_APP_SEL_PCP`).
pub const SELECT_PCP: u8 = 255;

/// A set of the eight priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "Vec<u8>")]
pub struct Priorities(pub u8);

impl Priorities {
    /// True if the set contains this priority, 0 to 7.
    pub fn has(self, priority: u8) -> bool {
        priority < 8 && self.0 >> priority & 1 == 1
    }

    /// The priorities of the set in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |priority| self.has(*priority))
    }

    /// True if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Priorities> for Vec<u8> {
    fn from(set: Priorities) -> Self {
        set.iter().collect()
    }
}

impl std::fmt::Display for Priorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<String> = self.iter().map(|priority| priority.to_string()).collect();
        f.write_str(&names.join(", "))
    }
}

/// Priority flow control (PFC) settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pfc {
    /// Number of traffic classes that can be lossless at a time.
    pub capable: u8,
    /// The priorities with PFC enabled.
    pub enabled: Priorities,
    /// Pause frames sent, by priority.
    pub sent: [u64; 8],
    /// Pause frames received, by priority.
    pub received: [u64; 8],
}

/// Mapping of a kind of packets to a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AppPriority {
    /// Kind of `protocol`: `SELECT_*`.
    pub selector: u8,
    /// Ethertype, port or DSCP.
    pub protocol: u16,
    /// The priority, 0 to 7.
    pub priority: u8,
}

/// Enhanced transmission selection (ETS) settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ets {
    /// Traffic class of each priority.
    pub class_of: [u8; 8],
    /// Bandwidth share of each traffic class in per cent, for classes scheduled by bandwidth.
    pub bandwidth: [u8; 8],
    /// Scheduling of each class: 0 strict priority, 1 credit-based shaper, 2 bandwidth share.
    pub algorithm: [u8; 8],
}

/// Receive buffers of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Buffers {
    /// Buffer of each priority.
    pub buffer_of: [u8; 8],
    /// Size of each buffer, in bytes.
    pub sizes: [u32; 8],
    /// Total size in bytes.
    pub total: u32,
}

/// The DCB settings of an interface; `None` for those that the driver does not support.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dcb {
    /// Priority flow control (PFC).
    pub pfc: Option<Pfc>,
    /// Traffic classes (ETS).
    pub ets: Option<Ets>,
    /// Priorities of applications and DSCPs.
    pub apps: Vec<AppPriority>,
    /// Header fields that select the priority of received packets, in order of precedence: `SELECT_*`; kernels before
    /// 6.2 do not report them.
    pub trust: Option<Vec<u8>>,
    /// Receive buffers of the port.
    pub buffers: Option<Buffers>,
    /// PFC priorities of the switch, from the driver's DCBX engine.
    pub peer_pfc: Option<Priorities>,
    /// ETS settings of the switch, from the same engine.
    pub peer_ets: Option<Ets>,
    /// Application priorities of the switch, from the same engine.
    pub peer_apps: Vec<AppPriority>,
    /// True if a program on the host runs DCBX; otherwise the NIC's firmware may.
    pub dcbx_on_host: Option<bool>,
}

impl Dcb {
    /// Parses the response to [`request`] (after its netlink header); `None` if it has no IEEE 802.1Qaz settings.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let attrs = Attrs::after(payload, HEADER_LEN);
        let ieee = attrs.nested(DCB_ATTR_IEEE)?;
        Some(Self {
            pfc: ieee.get(IEEE_PFC).and_then(pfc),
            ets: ieee.get(IEEE_ETS).and_then(ets),
            apps: apps(ieee.nested(IEEE_APP_TABLE)),
            trust: ieee
                .nested(DCB_APP_TRUST_TABLE)
                .map(|table| table.iter().filter_map(|(_, value)| value.first().copied()).collect()),
            buffers: ieee.get(DCB_BUFFER).and_then(buffers),
            peer_pfc: ieee.get(IEEE_PEER_PFC).and_then(pfc).map(|pfc| pfc.enabled),
            peer_ets: ieee.get(IEEE_PEER_ETS).and_then(ets),
            peer_apps: apps(ieee.nested(IEEE_PEER_APP)),
            dcbx_on_host: attrs.u8(DCB_ATTR_DCBX).map(|mode| mode & DCBX_HOST != 0),
        })
    }

    /// The priority of packets with this DSCP, if DSCPs are mapped.
    pub fn priority_of_dscp(&self, dscp: u8) -> Option<u8> {
        // Several entries for one DSCP are allowed; drivers use the highest priority.
        let of =
            self.apps.iter().filter(|app| app.selector == SELECT_DSCP && app.protocol == u16::from(dscp));
        of.map(|app| app.priority).max()
    }

    /// True if any DSCP is mapped to a priority.
    pub fn maps_dscp(&self) -> bool {
        self.apps.iter().any(|app| app.selector == SELECT_DSCP)
    }
}

/// The request for the DCB settings of an interface.
pub fn request(interface: &str) -> Request {
    Request::new(RTM_GETDCB, 0, &[0, DCB_CMD_IEEE_GET, 0, 0]).attr_text(DCB_ATTR_IFNAME, interface)
}

fn eight<T: Copy + Default>(at: impl Fn(usize) -> Option<T>) -> Option<[T; 8]> {
    let mut out = [T::default(); 8];
    for (index, slot) in out.iter_mut().enumerate() {
        *slot = at(index)?;
    }
    Some(out)
}

fn bytes(value: &[u8], from: usize) -> Option<[u8; 8]> {
    value.get(from..)?.first_chunk().copied()
}

fn word(value: &[u8], from: usize) -> Option<u32> {
    value.get(from..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

fn pfc(value: &[u8]) -> Option<Pfc> {
    let counts =
        |from: usize| eight(|i| value.get(from + i * 8..)?.first_chunk().map(|b| u64::from_ne_bytes(*b)));
    Some(Pfc {
        capable: *value.first()?,
        enabled: Priorities(*value.get(1)?),
        // Older kernels, and settings of peers, have no counters and report zero.
        sent: counts(PFC_REQUESTS).unwrap_or_default(),
        received: counts(PFC_INDICATIONS).unwrap_or_default(),
    })
}

fn ets(value: &[u8]) -> Option<Ets> {
    Some(Ets {
        class_of: bytes(value, ETS_PRIORITIES)?,
        bandwidth: bytes(value, ETS_BANDWIDTH)?,
        algorithm: bytes(value, ETS_ALGORITHM)?,
    })
}

fn buffers(value: &[u8]) -> Option<Buffers> {
    Some(Buffers {
        buffer_of: bytes(value, 0)?,
        sizes: eight(|i| word(value, BUFFER_SIZES + i * 4))?,
        total: word(value, BUFFER_TOTAL)?,
    })
}

fn apps(table: Option<Attrs<'_>>) -> Vec<AppPriority> {
    // struct dcb_app: selector, priority, protocol in the host's byte order.
    let one = |value: &[u8]| {
        let &[selector, priority, a, b] = value.first_chunk()?;
        Some(AppPriority { selector, priority: priority & 7, protocol: u16::from_ne_bytes([a, b]) })
    };
    table.into_iter().flat_map(|table| table.iter()).filter_map(|(_, value)| one(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Vec<u8> {
        let mut pfc = vec![8, 1 << 3, 0, 0, 0, 0, 0, 0];
        for count in 0..16u64 {
            pfc.extend((count * 10).to_ne_bytes());
        }
        let mut ets = vec![0; 59];
        ets[ETS_BANDWIDTH + 1] = 60;
        ets[ETS_ALGORITHM + 1] = 2;
        ets[ETS_PRIORITIES + 3] = 1;
        let mut buffer = vec![0, 0, 0, 1, 0, 0, 0, 0];
        for size in [20_000u32, 150_000, 0, 0, 0, 0, 0, 0, 262_144] {
            buffer.extend(size.to_ne_bytes());
        }
        let mut app = vec![SELECT_DSCP, 3];
        app.extend(26u16.to_ne_bytes());
        Request::new(RTM_GETDCB, 0, &[0, DCB_CMD_IEEE_GET, 0, 0])
            .attr_text(DCB_ATTR_IFNAME, "eth0")
            .nest(DCB_ATTR_IEEE, |r| {
                r.attr(IEEE_ETS, &ets)
                    .attr(IEEE_PFC, &pfc)
                    .nest(IEEE_APP_TABLE, |r| r.attr(1, &app))
                    .attr(IEEE_PEER_ETS, &ets)
                    .attr(IEEE_PEER_PFC, &pfc[..8])
                    .attr(DCB_BUFFER, &buffer)
                    .nest(DCB_APP_TRUST_TABLE, |r| r.attr(13, &[SELECT_DSCP]).attr(13, &[SELECT_PCP]))
            })
            .attr(DCB_ATTR_DCBX, &[0x0d])
            .payload()
    }

    #[test]
    fn every_setting_is_read() {
        let dcb = Dcb::parse(&answer()).unwrap();
        let pfc = dcb.pfc.unwrap();
        assert_eq!((pfc.capable, pfc.enabled.to_string().as_str()), (8, "3"));
        assert_eq!((pfc.sent[3], pfc.received[3]), (30, 110));
        assert_eq!(dcb.ets.unwrap().class_of[3], 1);
        assert_eq!((dcb.ets.unwrap().bandwidth[1], dcb.ets.unwrap().algorithm[1]), (60, 2));
        assert_eq!((dcb.priority_of_dscp(26), dcb.priority_of_dscp(24)), (Some(3), None));
        assert_eq!(dcb.trust, Some(vec![SELECT_DSCP, SELECT_PCP]));
        let buffers = dcb.buffers.unwrap();
        assert_eq!((buffers.buffer_of[3], buffers.sizes[1], buffers.total), (1, 150_000, 262_144));
        assert_eq!((dcb.peer_pfc, dcb.peer_ets), (Some(Priorities(8)), dcb.ets));
        assert_eq!(dcb.dcbx_on_host, Some(true));
    }

    #[test]
    fn no_cut_or_changed_answer_makes_it_panic() {
        let whole = answer();
        for end in 0..whole.len() {
            let _ = Dcb::parse(&whole[..end]);
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            let _ = Dcb::parse(&changed);
        }
        assert_eq!(Dcb::parse(&whole[..HEADER_LEN]), None);
    }

    #[test]
    fn a_set_of_priorities_reads_well() {
        assert_eq!(Priorities(0b1001).to_string(), "0, 3");
        assert_eq!(Priorities(0).to_string(), "none");
        assert!(!Priorities(0xff).has(8));
    }
}
