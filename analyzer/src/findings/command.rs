//! The exact commands of steps, for the interface or the host that a finding is about.

use super::Input;
use crate::analysis::{Flow, InputKind};
use crate::sample::{Address, Direction};

/// One command, and the host that it is for where that is not this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: String,
    pub(super) host: Option<Address>,
}

impl Command {
    /// For this host.
    pub(super) const fn here(line: String) -> Self {
        Self { line, host: None }
    }

    /// Whether a line has the name of an interface to be filled in.
    pub(super) fn is_open(line: &str) -> bool {
        line.split([' ', '/']).any(|word| word == PLACEHOLDER)
    }

    /// What to know before it is run elsewhere; `explained`: the placeholder is known.
    pub(super) fn note(&self, explained: bool) -> Option<String> {
        let host = self.host?;
        Some(if Self::is_open(&self.line) && !explained {
            format!("Run this on {host}; {PLACEHOLDER} is its interface with that address (ip -br address).")
        } else {
            format!("Run this on {host}.")
        })
    }
}

/// Stands for an interface whose name is not known.
const PLACEHOLDER: &str = "DEV";

/// Commands about the interface of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commands<'a> {
    at: At<'a>,
}

#[derive(Clone, Copy, Debug)]
enum At<'a> {
    /// An interface of this host.
    Here(&'a str),
    Host(Address),
    Nowhere,
}

impl<'a> Commands<'a> {
    /// About the interface of this host that a link is of; none in a replay, whose links are files.
    pub(super) fn on(input: &Input<'_>, link: &'a str) -> Self {
        let live = input.facts.source.kind != InputKind::Replay;
        let plain = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c))
        };
        Self { at: if live && plain(link) { At::Here(link) } else { At::Nowhere } }
    }

    /// About an end of a flow: this host where the flow comes in or goes out there, else that host, by its address.
    pub(super) fn at(input: &Input<'_>, flow: &'a Flow, host: Address) -> Self {
        let own = match flow.direction {
            Some(Direction::Ingress) => Some(flow.dst),
            Some(Direction::Egress) => Some(flow.src),
            None => None,
        };
        match Self::on(input, &flow.link) {
            here @ Self { at: At::Here(_) } if own.is_none_or(|own| own == host) => here,
            _ if host.ip().is_some() => Self { at: At::Host(host) },
            _ => Self { at: At::Nowhere },
        }
    }

    /// About this host where it is one that packets are captured on, else about `host`, one of those that a flow is between.
    pub(super) fn near(input: &Input<'_>, flow: &'a Flow, host: Address) -> Self {
        match Self::on(input, &flow.link) {
            here @ Self { at: At::Here(_) } => here,
            _ => Self::at(input, flow, host),
        }
    }

    /// Drops, discards and pauses that the NIC counts.
    pub(super) fn nic_counters(self) -> Option<Command> {
        self.with(|dev| format!("ethtool -S {dev} | grep -iE 'discard|drop|buf|pause|err'"))
    }

    /// Trust mode, priorities, PFC and buffers.
    pub(super) fn qos(self) -> Option<Command> {
        self.with(|dev| format!("mlnx_qos -i {dev}"))
    }

    /// PFC by priority.
    pub(super) fn pfc(self) -> Option<Command> {
        self.with(|dev| format!("dcb pfc show dev {dev}"))
    }

    /// Whether the NIC sends CNPs and obeys them, by priority (mlx5).
    pub(super) fn ecn(self) -> Option<Command> {
        self.with(|dev| format!("grep . /sys/class/net/{dev}/ecn/roce_[nr]p/enable/*"))
    }

    /// Speed and state of the link.
    pub(super) fn link(self) -> Option<Command> {
        self.with(|dev| format!("ethtool {dev}"))
    }

    /// Power and temperature of the transceiver.
    pub(super) fn module(self) -> Option<Command> {
        self.with(|dev| format!("ethtool -m {dev}"))
    }

    /// MTU of the interface.
    pub(super) fn mtu(self) -> Option<Command> {
        self.with(|dev| format!("ip link show dev {dev}"))
    }

    /// PCIe speed and width, relaxed ordering and what else `rocescope doctor` checks.
    pub(super) fn doctor(self) -> Option<Command> {
        self.with(|_| "rocescope doctor".to_owned())
    }

    /// Counters of the RDMA devices.
    pub(super) fn rdma_counters(self) -> Option<Command> {
        self.with(|_| "rdma statistic show".to_owned())
    }

    /// Listeners and connections of the RDMA connection manager, with their process.
    pub(super) fn listeners(self) -> Option<Command> {
        self.with(|_| "rdma resource show cm_id".to_owned())
    }

    /// Queue pairs with their state and process.
    pub(super) fn queue_pairs(self) -> Option<Command> {
        self.with(|_| "rdma resource show qp".to_owned())
    }

    /// Queue pairs of this number with their state and process.
    pub(super) fn queue_pairs_of(self, lqpn: Option<u32>) -> Option<Command> {
        match lqpn {
            Some(lqpn) => self.with(|_| format!("rdma resource show qp lqpn {lqpn}")),
            None => self.queue_pairs(),
        }
    }

    /// One queue pair with its state and process.
    pub(super) fn queue_pair(self, device: &str, port: Option<u32>, lqpn: u32) -> Option<Command> {
        let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let link = port.filter(|_| is_plain(device)).map(|port| format!(" link {device}/{port}"))?;
        self.with(|_| format!("rdma resource show qp{link} lqpn {lqpn}"))
    }

    /// Whether an address answers through the interface.
    pub(super) fn ping(self, address: Address) -> Option<Command> {
        let address = address.ip()?;
        match self.at {
            // The address of a port will do for its name.
            At::Host(host) => self.with(|_| format!("ping -c 3 -I {host} {address}")),
            _ => self.with(|dev| format!("ping -c 3 -I {dev} {address}")),
        }
    }

    fn with(self, command: impl FnOnce(&str) -> String) -> Option<Command> {
        match self.at {
            At::Here(interface) => Some(Command::here(command(interface))),
            At::Host(host) => Some(Command { line: command(PLACEHOLDER), host: Some(host) }),
            At::Nowhere => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::analysis::{Facts, Options};
    use crate::findings::Limits;

    /// The commands for both ends of one flow.
    fn at_both_ends(live: bool, link_direction: Option<Direction>) -> [Option<Command>; 2] {
        let flows = vec![(key(0, "10.0.0.1", "10.0.0.2", 17), stats(50_000, 10, 1_000))];
        let mut sample = sample(vec![link("eth0", link_direction)], flows);
        sample.kind = if live { crate::sample::SourceKind::Live } else { crate::sample::SourceKind::Replay };
        let facts = Facts::of(&sample, &Options::default());
        let limits = Limits::default();
        let input = Input { sample: &sample, facts: &facts, limits: &limits };
        let flow = &facts.flows[0];
        [flow.src, flow.dst].map(|host| Commands::at(&input, flow, host).link())
    }

    #[test]
    fn an_end_that_is_not_this_host_has_its_address_and_a_placeholder() {
        let [src, dst] = at_both_ends(true, Some(Direction::Ingress));
        assert_eq!(dst, Some(Command::here("ethtool eth0".to_owned())), "what comes in is for this host");
        let src = src.unwrap();
        assert_eq!((src.line.as_str(), src.host), ("ethtool DEV", "10.0.0.1".parse().ok()));
        assert!(src.note(false).unwrap().contains("DEV is its interface"));
        assert_eq!(src.note(true).unwrap(), "Run this on 10.0.0.1.");
        let [src, dst] = at_both_ends(false, None);
        assert!(src.unwrap().host.is_some() && dst.unwrap().host.is_some(), "of a capture nothing is here");
    }
}
