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

    /// What to know before it is run elsewhere; `explained`: the placeholder is known. A step that names the host says it already.
    pub(super) fn note(&self, step: &str, explained: bool) -> Option<String> {
        let host = self.host?;
        let open = Self::is_open(&self.line) && !explained;
        let named = step.contains(&format!("n {host}"));
        match (named, open) {
            (true, true) => {
                Some(format!("{PLACEHOLDER} is its interface with that address (ip -br address)."))
            }
            (true, false) => None,
            (false, true) => Some(format!(
                "Run this on {host}; {PLACEHOLDER} is its interface with that address (ip -br address)."
            )),
            (false, false) => Some(format!("Run this on {host}.")),
        }
    }
}

/// Why a step has no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByHand {
    /// It is done on a switch.
    Switch,
    /// It is a setting or the log of the job.
    Job,
    /// It needs a capture at another place.
    Elsewhere,
    /// It is about cables, modules or other hardware.
    Hardware,
    /// It compares what the report says.
    Reading,
    /// It depends on how rocescope or the capture was started.
    Varies,
}

impl ByHand {
    /// All of them.
    pub(super) const ALL: [Self; 6] =
        [Self::Switch, Self::Job, Self::Elsewhere, Self::Hardware, Self::Reading, Self::Varies];

    /// The reason in words.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Switch => "it is done on a switch, whose vendor is not known",
            Self::Job => "it is a setting or a log of the job, or of the driver of its NICs",
            Self::Elsewhere => "it needs a capture at another place",
            Self::Hardware => "it is about cables, transceivers or other hardware",
            Self::Reading => "it compares what the report says",
            Self::Varies => "it depends on how rocescope or the capture was started",
        }
    }
}

/// How a step is done: by a command, where the interface or the host that it is for is known, or by hand.
pub(super) struct Means(pub(super) Option<Command>);

impl From<Option<Command>> for Means {
    fn from(command: Option<Command>) -> Self {
        Self(command)
    }
}

impl From<ByHand> for Means {
    fn from(_: ByHand) -> Self {
        Self(None)
    }
}

/// Stands for an interface whose name is not known.
const PLACEHOLDER: &str = "DEV";

/// Commands about the interface of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commands<'a> {
    at: At<'a>,
    /// Priority of the packets in question, where it is known.
    priority: Option<u8>,
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
        Self { at: if live && plain(link) { At::Here(link) } else { At::Nowhere }, priority: None }
    }

    /// About an end of a flow: this host where the flow comes in or goes out there, else that host, by its address.
    pub(super) fn at(input: &Input<'_>, flow: &'a Flow, host: Address) -> Self {
        let own = match flow.direction {
            Some(Direction::Ingress) => Some(flow.dst),
            Some(Direction::Egress) => Some(flow.src),
            None => None,
        };
        let priority = priority(flow);
        let at = match Self::on(input, &flow.link).at {
            here @ At::Here(_) if own.is_none_or(|own| own == host) => here,
            _ if host.ip().is_some() => At::Host(host),
            _ => At::Nowhere,
        };
        Self { at, priority }
    }

    /// About a host of which no flow is known.
    pub(super) const fn of_host(host: Address) -> Self {
        let at = if host.ip().is_some() { At::Host(host) } else { At::Nowhere };
        Self { at, priority: None }
    }

    /// About this host where it is one that packets are captured on, else about `host`, one of those that a flow is between.
    pub(super) fn near(input: &Input<'_>, flow: &'a Flow, host: Address) -> Self {
        match Self::on(input, &flow.link) {
            Self { at: here @ At::Here(_), .. } => Self { at: here, priority: priority(flow) },
            _ => Self::at(input, flow, host),
        }
    }

    /// About packets of this priority.
    pub(super) fn of_priority(self, priority: Option<u8>) -> Self {
        Self { priority: priority.or(self.priority), ..self }
    }

    /// Drops, discards and pauses that the NIC counts.
    pub(super) fn nic_counters(self) -> Option<Command> {
        // The pauses of a priority are among its own counters.
        let pauses = self.priority.map_or_else(|| "pause".to_owned(), |priority| format!("prio{priority}_"));
        self.with(|dev| format!("ethtool -S {dev} | grep -iE 'discard|drop|buf|{pauses}|err'"))
    }

    /// Trust mode, priorities, PFC and buffers.
    pub(super) fn qos(self) -> Option<Command> {
        self.with(|dev| format!("mlnx_qos -i {dev}"))
    }

    /// PFC by priority; of one that is known, whether it is on.
    pub(super) fn pfc(self) -> Option<Command> {
        self.with(|dev| match self.priority {
            Some(priority) => format!("dcb pfc show dev {dev} prio-pfc | grep -o '{priority}:[a-z]*'"),
            None => format!("dcb pfc show dev {dev}"),
        })
    }

    /// Whether the NIC sends CNPs and obeys them, by priority (mlx5).
    pub(super) fn ecn(self) -> Option<Command> {
        let own = self.priority.map_or_else(|| "*".to_owned(), |priority| priority.to_string());
        self.with(|dev| format!("grep . /sys/class/net/{dev}/ecn/roce_[nr]p/enable/{own}"))
    }

    /// What the kernel says of NICs, PCIe, GPUs and memory.
    pub(super) fn kernel_log(self) -> Option<Command> {
        self.with(|_| "dmesg -T | grep -iE 'xid|mlx5|bnxt|irdma|aer|oom'".to_owned())
    }

    /// Clocks, throttling and errors of the GPUs.
    pub(super) fn gpus(self) -> Option<Command> {
        self.with(|_| "nvidia-smi -q -d PERFORMANCE,CLOCK,ECC".to_owned())
    }

    /// The busiest threads with their CPU.
    pub(super) fn threads(self) -> Option<Command> {
        self.with(|_| "ps -eLo pid,tid,psr,pcpu,comm --sort=-pcpu | head -20".to_owned())
    }

    /// The settings of NCCL that processes were started with.
    pub(super) fn nccl_settings(self) -> Option<Command> {
        self.with(|_| r"grep -haz ^NCCL_ /proc/*/environ | tr '\0' '\n'".to_owned())
    }

    /// Filters that may drop RoCE.
    pub(super) fn filters(self) -> Option<Command> {
        self.with(|_| "nft list ruleset | grep -nE '4791|drop|reject'".to_owned())
    }

    /// Driver and firmware of the interface.
    pub(super) fn versions(self) -> Option<Command> {
        self.with(|dev| format!("ethtool -i {dev}"))
    }

    /// Path MTU and GIDs of the RDMA devices.
    pub(super) fn rdma_ports(self) -> Option<Command> {
        self.with(|_| "ibv_devinfo -v | grep -E 'hca_id|port:|active_mtu|GID'".to_owned())
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

/// The priority of a flow's packets: of its tag, else the one that a DSCP has by default.
pub(super) fn priority(flow: &Flow) -> Option<u8> {
    flow.pcp.or(flow.dscp.map(|dscp| dscp >> 3))
}

/// `priority 3 (DSCP 26)`, as far as both are known; else `the priority of RoCE`.
pub(super) fn class_of(flow: &Flow) -> String {
    match (priority(flow), flow.dscp) {
        (Some(priority), Some(dscp)) => format!("priority {priority} (DSCP {dscp})"),
        (Some(priority), None) => format!("priority {priority}"),
        _ => "the priority of RoCE".to_owned(),
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
        assert!(src.note("Look.", false).unwrap().contains("DEV is its interface"));
        assert_eq!(src.note("Look.", true).unwrap(), "Run this on 10.0.0.1.");
        assert_eq!(src.note("On 10.0.0.1, look.", true), None, "the step says so");
        assert!(src.note("Look on 10.0.0.1.", false).unwrap().starts_with("DEV is its interface"));
        let [src, dst] = at_both_ends(false, None);
        assert!(src.unwrap().host.is_some() && dst.unwrap().host.is_some(), "of a capture nothing is here");
    }
}
