//! RDMA devices, queue pairs and counters over RDMA netlink (as shown by `rdma` of iproute2).
//!
//! Numbers are those of rdma/rdma_netlink.h. Messages have no header of their own: attributes
//! follow the netlink header.

use serde::Serialize;

use crate::host::netlink::{Attrs, Request};

/// `RDMA_NL_NLDEV`, in the upper bits of a message type.
const CLIENT: u16 = 5 << 10;
const CMD_GET: u16 = 1;
const CMD_RES_QP_GET: u16 = 10;
const CMD_STAT_GET: u16 = 17;
const CMD_RES_QP_GET_RAW: u16 = 19;
const CMD_STAT_GET_STATUS: u16 = 24;

const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const FW_VERSION: u16 = 5;
const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_LQPN: u16 = 21;
const RES_RQPN: u16 = 22;
const RES_RQ_PSN: u16 = 23;
const RES_SQ_PSN: u16 = 24;
const RES_TYPE: u16 = 26;
const RES_STATE: u16 = 27;
const RES_PID: u16 = 28;
const RES_KERN_NAME: u16 = 29;
const LINK_TYPE: u16 = 65;
const DEV_PROTOCOL: u16 = 67;
const STAT_MODE: u16 = 74;
const STAT_RES: u16 = 75;
const STAT_COUNTER: u16 = 77;
const STAT_COUNTER_ENTRY: u16 = 78;
const STAT_COUNTER_ID: u16 = 79;
const STAT_HWCOUNTERS: u16 = 80;
const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;
const RES_RAW: u16 = 85;
const STAT_HWCOUNTER_DYNAMIC: u16 = 95;
const RES_SUBTYPE: u16 = 98;

/// `RDMA_COUNTER_MODE_MANUAL` of rdma/rdma_counter.h.
const MODE_MANUAL: u32 = 2;

/// A query to RDMA netlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// All RDMA devices.
    Devices,
    /// The queue pairs of the device with this index.
    QueuePairs(u32),
    /// The counters of a port, of device index and port number.
    PortCounters(u32, u32),
    /// The optional counters of a port and their state.
    OptionalCounters(u32, u32),
    /// The counter binding mode of a port's queue pairs.
    BindingMode(u32, u32),
    /// The counters to which queue pairs are bound, of the device with this index.
    QpCounters(u32),
    /// The NIC's own context of a queue pair, by device index, port and number. Needs CAP_NET_ADMIN; mlx5 queries its
    /// firmware.
    QpContext(u32, u32, u32),
}

impl Query {
    /// Netlink request of the query.
    pub fn request(self) -> Request {
        let port = |command, device, port| {
            Request::new(CLIENT | command, 0, &[]).attr_u32(DEV_INDEX, device).attr_u32(PORT_INDEX, port)
        };
        match self {
            Self::Devices => Request::new(CLIENT | CMD_GET, 0, &[]),
            Self::QueuePairs(device) => {
                Request::new(CLIENT | CMD_RES_QP_GET, 0, &[]).attr_u32(DEV_INDEX, device)
            }
            Self::PortCounters(device, number) => port(CMD_STAT_GET, device, number),
            Self::OptionalCounters(device, number) => port(CMD_STAT_GET_STATUS, device, number),
            // Without a mode in the request, whichever it is, the kernel takes it for another command and refuses it
            // (`stat_get_doit_qp` of nldev.c).
            Self::BindingMode(device, number) => port(CMD_STAT_GET, device, number)
                .attr_u32(STAT_MODE, MODE_MANUAL)
                .attr_u32(STAT_RES, u32::from(RES_QP)),
            Self::QpCounters(device) => Request::new(CLIENT | CMD_STAT_GET, 0, &[])
                .attr_u32(DEV_INDEX, device)
                .attr_u32(STAT_RES, u32::from(RES_QP)),
            // Queue pairs belong to ports: without a port the kernel refuses (`res_get_common_doit` of nldev.c).
            Self::QpContext(device, number, lqpn) => {
                port(CMD_RES_QP_GET_RAW, device, number).attr_u32(RES_LQPN, lqpn)
            }
        }
    }

    /// True if the response is a list.
    pub fn is_dump(self) -> bool {
        matches!(self, Self::Devices | Self::QueuePairs(_) | Self::QpCounters(_))
    }

    /// Message type of the responses.
    pub fn kind(self) -> u16 {
        CLIENT
            | match self {
                Self::Devices => CMD_GET,
                Self::QueuePairs(_) => CMD_RES_QP_GET,
                Self::OptionalCounters(..) => CMD_STAT_GET_STATUS,
                Self::QpContext(..) => CMD_RES_QP_GET_RAW,
                Self::PortCounters(..) | Self::BindingMode(..) | Self::QpCounters(_) => CMD_STAT_GET,
            }
    }

    /// The action, as it reads after "cannot".
    pub fn action(self) -> String {
        match self {
            Self::Devices => "list the RDMA devices over netlink".into(),
            Self::QueuePairs(device) => format!("list the queue pairs of RDMA device {device}"),
            Self::PortCounters(device, port) => {
                format!("read the counters of port {port} of RDMA device {device}")
            }
            Self::OptionalCounters(device, port) => {
                format!("list the optional counters of port {port} of RDMA device {device}")
            }
            Self::BindingMode(device, port) => {
                format!("read the counter binding mode of port {port} of RDMA device {device}")
            }
            Self::QpCounters(device) => format!("read the queue pair counters of RDMA device {device}"),
            Self::QpContext(device, _, lqpn) => {
                format!("read the context of queue pair {lqpn} of RDMA device {device}")
            }
        }
    }
}

/// A device in RDMA netlink's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Index, by which other queries name it.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// `roce`, `ib`, `iw`, `opa`, `usnic`; `None` if no port has a known protocol.
    pub protocol: Option<String>,
    /// Kind of software device: `rxe`, `siw`.
    pub link_type: Option<String>,
}

impl Device {
    /// Parses one response to [`Query::Devices`].
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let attrs = Attrs::new(payload);
        Some(Self {
            index: attrs.u32(DEV_INDEX)?,
            name: attrs.text(DEV_NAME)?,
            firmware: attrs.text(FW_VERSION),
            protocol: attrs.text(DEV_PROTOCOL),
            link_type: attrs.text(LINK_TYPE),
        })
    }
}

/// A queue pair of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueuePair {
    /// Name of the device.
    pub device: String,
    /// Port; `None` before it has one.
    pub port: Option<u32>,
    /// Queue pair number.
    pub lqpn: u32,
    /// Number of the peer's queue pair; connected transports only.
    pub rqpn: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` …
    pub kind: Option<&'static str>,
    /// State: `RTS`, `ERR` …
    pub state: Option<&'static str>,
    /// Next expected PSN.
    pub rq_psn: Option<u32>,
    /// Next PSN to send; its advance over time is the packet rate.
    pub sq_psn: Option<u32>,
    /// Creating process, by its PID in this process's PID namespace.
    pub pid: Option<u32>,
    /// Creating kernel module, if no process created it.
    pub kernel_name: Option<String>,
    /// Driver-specific kind of queue pair (`DCT`, `DCI`).
    pub subtype: Option<String>,
}

impl QueuePair {
    /// True if the NIC's context of it can say something: it is connected, and past INIT.
    pub fn has_context(&self) -> bool {
        let connected = matches!(self.kind, Some("RC" | "UC" | "XRC_INI" | "XRC_TGT" | "DRIVER"));
        connected && !matches!(self.state, Some("RESET" | "INIT"))
    }
}

/// The queue pairs in one response to [`Query::QueuePairs`].
#[must_use]
pub fn queue_pairs(payload: &[u8]) -> Vec<QueuePair> {
    let attrs = Attrs::new(payload);
    let (Some(device), Some(table)) = (attrs.text(DEV_NAME), attrs.nested(RES_QP)) else {
        return Vec::new();
    };
    let one = |entry: &[u8]| {
        let attrs = Attrs::new(entry);
        let kind = attrs.u8(RES_TYPE).and_then(kind_name);
        let connected = matches!(kind, Some("RC" | "UC" | "XRC_INI" | "XRC_TGT"));
        Some(QueuePair {
            device: device.clone(),
            port: attrs.u32(PORT_INDEX),
            lqpn: attrs.u32(RES_LQPN)?,
            // The kernel reports zero before there is a connection.
            rqpn: attrs.u32(RES_RQPN).filter(|qpn| connected && *qpn != 0),
            kind,
            state: attrs.u8(RES_STATE).and_then(state_name),
            rq_psn: attrs.u32(RES_RQ_PSN).filter(|_| connected),
            sq_psn: attrs.u32(RES_SQ_PSN),
            pid: attrs.u32(RES_PID).filter(|pid| *pid != 0),
            kernel_name: attrs.text(RES_KERN_NAME),
            subtype: attrs.text(RES_SUBTYPE),
        })
    };
    table.iter().filter(|(kind, _)| *kind == RES_QP_ENTRY).filter_map(|(_, entry)| one(entry)).collect()
}

/// `enum ib_qp_type` of rdma/ib_verbs.h.
pub fn kind_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "SMI",
        1 => "GSI",
        2 => "RC",
        3 => "UC",
        4 => "UD",
        5 => "RAW_IPV6",
        6 => "RAW_ETHERTYPE",
        8 => "RAW_PACKET",
        9 => "XRC_INI",
        10 => "XRC_TGT",
        0xff => "DRIVER",
        _ => return None,
    })
}

/// `enum ib_qp_state` of rdma/ib_verbs.h.
pub fn state_name(state: u8) -> Option<&'static str> {
    ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"].get(usize::from(state)).copied()
}

/// Name and value of each counter in a response to [`Query::PortCounters`]; of several counters with one name the
/// last.
pub fn counters(payload: &[u8]) -> Vec<(String, u64)> {
    named(Attrs::new(payload).nested(STAT_HWCOUNTERS))
}

fn named(table: Option<Attrs<'_>>) -> Vec<(String, u64)> {
    let one = |entry: &[u8]| {
        let attrs = Attrs::new(entry);
        Some((attrs.text(STAT_HWCOUNTER_ENTRY_NAME)?, attrs.u64(STAT_HWCOUNTER_ENTRY_VALUE)?))
    };
    table.into_iter().flat_map(|table| table.iter()).filter_map(|(_, entry)| one(entry)).collect()
}

/// The optional counters in a response to [`Query::OptionalCounters`], and whether each is enabled.
pub fn optional_counters(payload: &[u8]) -> Vec<(String, bool)> {
    let one = |entry: &[u8]| {
        let attrs = Attrs::new(entry);
        Some((attrs.text(STAT_HWCOUNTER_ENTRY_NAME)?, attrs.u8(STAT_HWCOUNTER_DYNAMIC)? != 0))
    };
    let table = Attrs::new(payload).nested(STAT_HWCOUNTERS);
    table.into_iter().flat_map(|table| table.iter()).filter_map(|(_, entry)| one(entry)).collect()
}

/// The counter binding mode of queue pairs: `none`, `auto` or `manual`.
pub fn binding_mode(payload: &[u8]) -> Option<&'static str> {
    ["none", "auto", "manual"].get(Attrs::new(payload).u32(STAT_MODE)? as usize).copied()
}

/// A counter to which queue pairs are bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QpCounter {
    /// Name of the device.
    pub device: String,
    /// Port of the device, from 1.
    pub port: Option<u32>,
    /// Id of the counter.
    pub id: u32,
    /// The queue pairs counted in it: a single one if bound manually, or in automatic mode with only one.
    pub lqpns: Vec<u32>,
    /// Name and value of each counter in the set.
    pub counters: Vec<(String, u64)>,
}

/// The counters in one response to [`Query::QpCounters`].
pub fn qp_counters(payload: &[u8]) -> Vec<QpCounter> {
    let attrs = Attrs::new(payload);
    let (Some(device), Some(table)) = (attrs.text(DEV_NAME), attrs.nested(STAT_COUNTER)) else {
        return Vec::new();
    };
    let one = |entry: &[u8]| {
        let attrs = Attrs::new(entry);
        let qps = attrs.nested(RES_QP).into_iter().flat_map(|table| table.iter());
        Some(QpCounter {
            device: device.clone(),
            port: attrs.u32(PORT_INDEX),
            id: attrs.u32(STAT_COUNTER_ID)?,
            lqpns: qps.filter_map(|(_, qp)| Attrs::new(qp).u32(RES_LQPN)).collect(),
            counters: named(attrs.nested(STAT_HWCOUNTERS)),
        })
    };
    table.iter().filter(|(kind, _)| *kind == STAT_COUNTER_ENTRY).filter_map(|(_, entry)| one(entry)).collect()
}

/// The bytes of the context in the response to [`Query::QpContext`]; their layout is driver-specific.
pub fn qp_context(payload: &[u8]) -> Option<Vec<u8>> {
    Attrs::new(payload).get(RES_RAW).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests;
