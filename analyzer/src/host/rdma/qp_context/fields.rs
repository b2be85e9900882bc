//! A context and its fields: what both layouts share.

use std::net::{IpAddr, Ipv6Addr};

/// Fields of a queue pair in the NIC's context. `None`: the driver's context has no such field, it is too short, or
/// the field indicates that the value is unused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpContext {
    /// State: `RTS`, `ERR` …
    pub state: Option<&'static str>,
    /// Number of the peer's queue pair.
    pub rqpn: Option<u32>,
    /// Address of the peer.
    pub dst: Option<IpAddr>,
    /// Index of its own address in the port's GID table.
    pub src_index: Option<u8>,
    /// UDP source port.
    pub udp_port: Option<u16>,
    /// IPv6 flow label; 0 for none.
    pub flow_label: Option<u32>,
    /// DSCP of its packets.
    pub dscp: Option<u8>,
    /// Priority (PCP), 0 to 7.
    pub priority: Option<u8>,
    /// Path MTU. Unit: bytes.
    pub path_mtu: Option<u32>,
    /// Exponent of the transport timeout: 4.096 µs · 2^timeout; 0 disables it.
    pub timeout: Option<u8>,
    /// Configured retries after a timeout or a sequence error.
    pub retry_cnt: Option<u8>,
    /// Configured retries after an RNR NAK; 7 means unlimited.
    pub rnr_retry: Option<u8>,
    /// Current value of the retry counter.
    pub retry_now: Option<u8>,
    /// Current value of the RNR retry counter.
    pub rnr_retry_now: Option<u8>,
    /// PSN of the next request packet.
    pub next_send_psn: Option<u32>,
    /// Acknowledged PSN; whether it is the last acknowledged or the next one depends on the driver.
    pub acked_psn: Option<u32>,
    /// PSN expected next from the peer.
    pub next_recv_psn: Option<u32>,
    /// True if it has sent anything: the counter of started send work is not 0 (it wraps, so that a queue pair in use
    /// looks unused at one of 65,536 values).
    pub used: Option<bool>,
    /// Send work posted and not started. Unit: the driver's blocks of work requests (mlx5: of 64 bytes).
    pub unsent: Option<u32>,
    /// Receive work requests consumed so far, modulo the counter's width; `None` with a shared receive queue.
    pub received_wqes: Option<u32>,
    /// Receive work requests posted and not consumed; `None` with a shared receive queue.
    pub posted_receives: Option<u32>,
    /// True if the NIC may spray or reroute its packets (adaptive routing).
    pub adaptive_routing: Option<bool>,
    /// Plane of a multi-plane port, from 1.
    pub plane: Option<u8>,
    /// Port of the bond that it sends on, from 1.
    pub bond_port: Option<u8>,
    /// Difference between next and acknowledged PSN with nothing in flight; `None` if the public definition does not
    /// specify whether `acked_psn` is the last acknowledged or the next one.
    pub idle_distance: Option<u32>,
    /// True if the retry counters are known to count down from their settings; `None` if the public definition does
    /// not specify it.
    pub counts_down: Option<bool>,
}

impl QpContext {
    /// Removes what a queue pair that waits for no answers does not use.
    pub fn forget_retries(&mut self) {
        self.timeout = None;
        [self.retry_cnt, self.rnr_retry, self.retry_now, self.rnr_retry_now] = [None; 4];
    }
}

/// A field of a context: its position and meaning.
pub(super) struct Field {
    /// Name in the driver's source.
    pub(super) name: &'static str,
    /// Lowest bit in the numbering of the driver's source.
    pub(super) at: u32,
    /// Width in bits, 32 at most.
    pub(super) bits: u32,
    pub(super) put: fn(&mut QpContext, u32),
}

pub(super) const fn field(name: &'static str, at: u32, bits: u32, put: fn(&mut QpContext, u32)) -> Field {
    Field { name, at, bits, put }
}

/// Sets each field that `read` finds.
pub(super) fn fill(context: &mut QpContext, fields: &[Field], read: impl Fn(&Field) -> Option<u32>) {
    for field in fields {
        debug_assert!(field.bits <= 32, "{}", field.name);
        if let Some(value) = read(field) {
            (field.put)(context, value);
        }
    }
}

/// `enum ib_mtu` as bytes: 1 is 256, 5 is 4,096.
pub(super) fn mtu(value: u32) -> Option<u32> {
    (1..=5).contains(&value).then(|| 128 << value)
}

/// An address from a GID: IPv4 if it is mapped; `None` if it is empty.
pub(super) fn address(gid: [u8; 16]) -> Option<IpAddr> {
    let v6 = Ipv6Addr::from(gid);
    (!v6.is_unspecified()).then(|| v6.to_canonical())
}

/// The lowest byte, for fields of up to eight bits.
pub(super) const fn byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

/// The value, unless it is 0, which means none.
pub(super) fn nonzero(value: u32) -> Option<u8> {
    Some(byte(value)).filter(|value| *value != 0)
}
