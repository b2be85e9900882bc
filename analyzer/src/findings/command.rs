//! The exact commands of steps, for the interface that a finding is about.

use super::Input;
use crate::analysis::Kind;
use crate::sample::Address;

/// Commands about an interface of this host; none in a replay, whose links are files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commands<'a> {
    interface: Option<&'a str>,
}

impl<'a> Commands<'a> {
    /// About the interface that a link is of.
    pub(super) fn on(input: &Input<'_>, link: &'a str) -> Self {
        let live = input.facts.source.kind != Kind::Replay;
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

    /// Whether the NIC sends CNPs and obeys them, by priority (mlx5).
    pub(super) fn ecn(self) -> Option<String> {
        self.with(|dev| format!("grep . /sys/class/net/{dev}/ecn/roce_[nr]p/enable/*"))
    }

    /// Speed and state of the link.
    pub(super) fn link(self) -> Option<String> {
        self.with(|dev| format!("ethtool {dev}"))
    }

    /// Power and temperature of the transceiver.
    pub(super) fn module(self) -> Option<String> {
        self.with(|dev| format!("ethtool -m {dev}"))
    }

    /// MTU of the interface.
    pub(super) fn mtu(self) -> Option<String> {
        self.with(|dev| format!("ip link show dev {dev}"))
    }

    /// PCIe speed and width, relaxed ordering and what else `rocescope doctor` checks.
    pub(super) fn doctor(self) -> Option<String> {
        self.with(|_| "rocescope doctor".to_owned())
    }

    /// Counters of the RDMA devices.
    pub(super) fn rdma_counters(self) -> Option<String> {
        self.with(|_| "rdma statistic show".to_owned())
    }

    /// Listeners and connections of the RDMA connection manager, with their process.
    pub(super) fn listeners(self) -> Option<String> {
        self.with(|_| "rdma resource show cm_id".to_owned())
    }

    /// Queue pairs with their state and process.
    pub(super) fn queue_pairs(self) -> Option<String> {
        self.with(|_| "rdma resource show qp".to_owned())
    }

    /// One queue pair with its state and process.
    pub(super) fn queue_pair(self, device: &str, port: Option<u32>, lqpn: u32) -> Option<String> {
        let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let link = port.filter(|_| is_plain(device)).map(|port| format!(" link {device}/{port}"))?;
        self.with(|_| format!("rdma resource show qp{link} lqpn {lqpn}"))
    }

    /// Whether an address answers through the interface.
    pub(super) fn ping(self, address: Address) -> Option<String> {
        let address = address.ip()?;
        self.with(|dev| format!("ping -c 3 -I {dev} {address}"))
    }

    fn with(self, command: impl FnOnce(&str) -> String) -> Option<String> {
        self.interface.map(command)
    }
}
