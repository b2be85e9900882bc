//! The exact commands of steps, for the interface that a finding is about.

use std::net::IpAddr;

use super::Input;
use crate::analysis::Kind;

/// Commands about an interface of this host; none in a replay, whose links are files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commands<'a> {
    interface: Option<&'a str>,
}

impl<'a> Commands<'a> {
    /// About the interface that a link is of.
    pub(super) fn on(input: &Input<'_>, link: &'a str) -> Self {
        let live = matches!(input.facts.source.kind, Kind::Live | Kind::Mixed);
        let plain = |name: &&str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c))
        };
        Self { interface: Some(link).filter(|name| live && plain(name)) }
    }

    /// Drops, discards and pauses that the NIC counts.
    pub(super) fn nic_counters(self) -> Option<String> {
        self.with(|dev| format!("ethtool -S {dev} | grep -iE 'discard|drop|buf|pause|err'"))
    }

    /// Trust mode, priorities, PFC and buffers.
    pub(super) fn qos(self) -> Option<String> {
        self.with(|dev| format!("mlnx_qos -i {dev}"))
    }

    /// PFC by priority.
    pub(super) fn pfc(self) -> Option<String> {
        self.with(|dev| format!("dcb pfc show dev {dev}"))
    }

    /// Counters of the RDMA devices.
    pub(super) fn rdma_counters(self) -> Option<String> {
        self.with(|_| "rdma statistic show".to_owned())
    }

    /// Queue pairs with their state and process.
    pub(super) fn queue_pairs(self) -> Option<String> {
        self.with(|_| "rdma resource show qp".to_owned())
    }

    /// Whether an address answers through the interface.
    pub(super) fn ping(self, address: IpAddr) -> Option<String> {
        self.with(|dev| format!("ping -c 3 -I {dev} {address}"))
    }

    fn with(self, command: impl FnOnce(&str) -> String) -> Option<String> {
        self.interface.map(command)
    }
}
