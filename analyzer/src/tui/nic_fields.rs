//! Fields of the filter language that queue pairs of NICs alone have; those of flows of the same name count there too.

use crate::filter::{Field, Unit};

/// A field, and the column of the screen that has its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct NicField {
    pub(super) field: Field,
    pub(super) column: &'static str,
}

const fn field(name: &'static str, column: &'static str, unit: Unit, help: &'static str) -> NicField {
    NicField { field: Field { name, aliases: &[], unit, help }, column }
}

/// All fields, in order.
pub(super) const FIELDS: [NicField; 12] = [
    field("qp_state", "state", Unit::Text, "on the screen of NICs' queue pairs: RTS, ERR, ended …"),
    field("device", "device", Unit::Text, "NIC QP screen: RDMA device and port"),
    field("tx_pps", "tx_packets_per_s", Unit::Rate, "NIC QP screen: packets sent per second"),
    field("rx_pps", "rx_packets_per_s", Unit::Rate, "NIC QP screen: packets received per second"),
    field("in_flight", "in_flight", Unit::Count, "NIC QP screen: packets in flight"),
    field("stuck", "stuck_ns", Unit::Duration, "NIC QP screen: time without an acknowledgement"),
    field("retries", "retries_used", Unit::Count, "NIC QP screen: retries used up"),
    field("retry_cnt", "retry_cnt", Unit::Number, "NIC QP screen: retry count, as set"),
    field("timeouts", "timeouts", Unit::Count, "NIC QP screen: timeouts attributed to the queue pair"),
    field("ack_timeout", "timeout_ns", Unit::Duration, "NIC QP screen: transport timeout, as set"),
    field("posts", "requests_per_s", Unit::Rate, "NIC QP screen: work requests posted per second"),
    field("age", "age_ns", Unit::Duration, "NIC QP screen: time since creation"),
];

/// Fields of flows that queue pairs of NICs have as well, and their columns.
pub(super) const SHARED: [(&str, &str); 5] =
    [("process", "process"), ("pod", "pod"), ("mtu", "path_mtu"), ("peer_qp", "rqpn"), ("pid", "pid")];

/// The column of a field of this name; `None` for one that these queue pairs do not have.
pub(super) fn column(name: &str) -> Option<&'static str> {
    let own = FIELDS.iter().find(|own| own.field.name == name).map(|own| own.column);
    own.or_else(|| SHARED.iter().find(|(shared, _)| *shared == name).map(|(_, column)| *column))
}
