//! Exact commands of steps, for the interface or host of a finding.

use super::fabric::Fabric;
use super::{End, Input};
use crate::analysis::{Flow, InputKind};
use crate::sample::{Address, Direction};

/// One command, and its host if that is not this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: String,
    pub(super) host: Option<Address>,
}

impl Command {
    /// A command that runs on this host.
    pub(super) const fn here(line: String) -> Self {
        Self { line, host: None }
    }

    /// True if a line contains a placeholder for an interface.
    pub(super) fn is_open(line: &str) -> bool {
        line.split([' ', '/']).any(|word| word == PLACEHOLDER)
    }

    /// A note on running it on another host, unless the step already names the host. `explained`: the placeholder has
    /// been explained.
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

/// Reason why a step has no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByHand {
    /// It concerns a switch.
    Switch,
    /// It concerns a setting or the log of the job.
    Job,
    /// It needs a capture at another place.
    Elsewhere,
    /// It concerns cables, modules or other hardware.
    Hardware,
    /// It compares figures of the report.
    Reading,
    /// It depends on how rocescope or the capture was started.
    Varies,
}

impl ByHand {
    /// Every reason why a step has no command.
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

/// Means of carrying out a step: a command, if the interface or host is known, else by hand.
pub(super) struct Means {
    pub(super) command: Option<Command>,
    pub(super) fabric: Fabric,
}

impl From<Option<Command>> for Means {
    fn from(command: Option<Command>) -> Self {
        Self { command, fabric: Fabric::Any }
    }
}

impl From<ByHand> for Means {
    fn from(_: ByHand) -> Self {
        None.into()
    }
}

/// Of a step that only holds for Ethernet.
pub(super) fn ethernet(means: impl Into<Means>) -> Means {
    Means { fabric: Fabric::Ethernet, ..means.into() }
}

/// Placeholder for an unknown interface.
const PLACEHOLDER: &str = "DEV";

/// Commands for an interface of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commands<'a> {
    at: RunsOn<'a>,
    /// Priority of the packets in question, if known.
    priority: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
enum RunsOn<'a> {
    /// An interface of this host.
    Here(&'a str),
    /// Several of them, one after another.
    Each(&'a [&'a str]),
    Host(Address),
    Nowhere,
}

impl<'a> Commands<'a> {
    /// Where no host is known: steps without a command.
    pub(super) const NOWHERE: Self = Self { at: RunsOn::Nowhere, priority: None };

    /// For the interface of this host to which a link belongs; none in a replay, whose links are files.
    pub(super) fn on(input: &Input<'_>, link: &'a str) -> Self {
        let here = is_interface(input, link);
        Self { at: if here { RunsOn::Here(link) } else { RunsOn::Nowhere }, priority: None }
    }

    /// The same for several interfaces.
    pub(super) fn on_each(input: &Input<'_>, links: &'a [&'a str]) -> Self {
        match links {
            [link] => Self::on(input, link),
            links if links.iter().all(|link| is_interface(input, link)) => {
                Self { at: RunsOn::Each(links), priority: None }
            }
            _ => Self::NOWHERE,
        }
    }

    /// For an end of a flow: this host, if the flow enters or leaves it there, else that host, named by its address.
    pub(super) fn at(input: &Input<'_>, flow: &'a Flow, host: Address) -> Self {
        let own = match flow.direction {
            Some(Direction::Ingress) => Some(flow.dst),
            Some(Direction::Egress) => Some(flow.src),
            None => None,
        };
        let priority = priority(flow);
        let at = match Self::on(input, &flow.link).at {
            here @ RunsOn::Here(_) if own.is_none_or(|own| own == host) => here,
            _ if host.ip().is_some() => RunsOn::Host(host),
            _ => RunsOn::Nowhere,
        };
        Self { at, priority }
    }

    /// For a host without a known flow.
    pub(super) const fn of_host(host: Address) -> Self {
        let at = if host.ip().is_some() { RunsOn::Host(host) } else { RunsOn::Nowhere };
        Self { at, priority: None }
    }

    /// For this host if packets are captured on it, else for `host`, one of the ends of the flow.
    pub(super) fn near(input: &Input<'_>, flow: &'a Flow, host: Address) -> Self {
        match Self::on(input, &flow.link) {
            Self { at: here @ RunsOn::Here(_), .. } => Self { at: here, priority: priority(flow) },
            _ => Self::at(input, flow, host),
        }
    }

    /// True if they run on this host.
    pub(super) const fn are_here(&self) -> bool {
        matches!(self.at, RunsOn::Here(_) | RunsOn::Each(_))
    }

    /// About packets of this priority.
    pub(super) fn of_priority(self, priority: Option<u8>) -> Self {
        Self { priority: priority.or(self.priority), ..self }
    }

    /// Shows the NIC's counters of drops, discards and pauses.
    pub(super) fn nic_counters(self) -> Option<Command> {
        // Pauses of a priority have counters of their own.
        let pauses = self.priority.map_or_else(|| "pause".to_owned(), |priority| format!("prio{priority}_"));
        self.with(|dev| format!("ethtool -S {dev} | grep -iE 'discard|drop|buf|{pauses}|err'"))
    }

    /// Captures the headers of RoCE packets, tagged ones included, into a file.
    pub(super) fn capture(self, file: &str) -> Option<Command> {
        self.with(|dev| {
            format!(
                "tcpdump -i {dev} -s 128 -c 1000000 -w {file} 'udp port 4791 or (vlan and udp port 4791)'"
            )
        })
    }

    /// Shows trust mode, priorities, PFC and buffers.
    pub(super) fn qos(self) -> Means {
        ethernet(self.with(|dev| format!("mlnx_qos -i {dev}")))
    }

    /// Shows PFC by priority; where the priority is known, whether PFC is on for it.
    pub(super) fn pfc(self) -> Means {
        ethernet(self.with(|dev| match self.priority {
            Some(priority) => format!("dcb pfc show dev {dev} prio-pfc | grep -o '{priority}:[a-z]*'"),
            None => format!("dcb pfc show dev {dev}"),
        }))
    }

    /// Shows for each priority whether the NIC sends CNPs and reacts to them (mlx5).
    pub(super) fn ecn(self) -> Option<Command> {
        let own = self.priority.map_or_else(|| "*".to_owned(), |priority| priority.to_string());
        self.with(|dev| format!("grep . /sys/class/net/{dev}/ecn/roce_[nr]p/enable/{own}"))
    }

    /// Shows kernel messages about NICs, PCIe, GPUs and memory.
    pub(super) fn kernel_log(self) -> Option<Command> {
        self.with(|_| "dmesg -T | grep -iE 'xid|mlx5|bnxt|irdma|aer|oom'".to_owned())
    }

    /// Shows clocks, throttling and errors of the GPUs.
    pub(super) fn gpus(self) -> Option<Command> {
        self.with(|_| "nvidia-smi -q -d PERFORMANCE,CLOCK,ECC".to_owned())
    }

    /// Shows the busiest threads with their CPU.
    pub(super) fn threads(self) -> Option<Command> {
        self.with(|_| "ps -eLo pid,tid,psr,pcpu,comm --sort=-pcpu | head -20".to_owned())
    }

    /// Shows the threads of the process of this end with their CPU, or the busiest of its host where neither process
    /// nor queue pair is known.
    pub(super) fn threads_of(self, end: Option<&End>) -> Option<Command> {
        let process = match (end.and_then(|end| end.pid), end.and_then(|end| end.qpn)) {
            (Some(pid), _) => pid.to_string(),
            (None, Some(lqpn)) => {
                format!("$(rdma resource show qp lqpn {lqpn} | grep -oP 'pid \\K\\d+')")
            }
            (None, None) => return self.threads(),
        };
        self.with(|_| format!("ps -Lo pid,tid,psr,pcpu,comm -p {process}"))
    }

    /// Shows the NCCL settings in the environment of processes.
    pub(super) fn nccl_settings(self) -> Option<Command> {
        self.with(|_| r"grep -haz ^NCCL_ /proc/*/environ | tr '\0' '\n'".to_owned())
    }

    /// Shows the queue pairs of the interface with their source ports, those with the highest rate first.
    pub(super) fn source_ports(self) -> Option<Command> {
        self.with(|dev| format!("rocescope live -i {dev} --columns identity --sort rate"))
    }

    /// Shows filters that may drop RoCE.
    pub(super) fn filters(self) -> Option<Command> {
        self.with(|_| "nft list ruleset | grep -nE '4791|drop|reject'".to_owned())
    }

    /// Shows driver and firmware of the interface.
    pub(super) fn versions(self) -> Option<Command> {
        self.with(|dev| format!("ethtool -i {dev}"))
    }

    /// Shows path MTU and GIDs of the RDMA devices.
    pub(super) fn rdma_ports(self) -> Option<Command> {
        self.with(|_| "ibv_devinfo -v | grep -E 'hca_id|port:|active_mtu|GID'".to_owned())
    }

    /// Shows speed and state of the link.
    pub(super) fn link(self) -> Option<Command> {
        self.with(|dev| format!("ethtool {dev}"))
    }

    /// Shows power and temperature of the transceiver.
    pub(super) fn module(self) -> Option<Command> {
        self.with(|dev| format!("ethtool -m {dev}"))
    }

    /// Shows the MTU of the interface.
    pub(super) fn mtu(self) -> Option<Command> {
        self.with(|dev| format!("ip link show dev {dev}"))
    }

    /// Shows PCIe speed and width, relaxed ordering and the other checks of `rocescope doctor`.
    pub(super) fn doctor(self) -> Option<Command> {
        self.with(|_| "rocescope doctor".to_owned())
    }

    /// Shows counters of the RDMA devices.
    pub(super) fn rdma_counters(self) -> Option<Command> {
        self.with(|_| "rdma statistic show".to_owned())
    }

    /// Shows listeners and connections of the RDMA connection manager, with their processes.
    pub(super) fn listeners(self) -> Option<Command> {
        self.with(|_| "rdma resource show cm_id".to_owned())
    }

    /// Shows queue pairs with their state and process.
    pub(super) fn queue_pairs(self) -> Option<Command> {
        self.with(|_| "rdma resource show qp".to_owned())
    }

    /// Shows queue pairs with this number, their state and process.
    pub(super) fn queue_pairs_of(self, lqpn: Option<u32>) -> Option<Command> {
        match lqpn {
            Some(lqpn) => self.with(|_| format!("rdma resource show qp lqpn {lqpn}")),
            None => self.queue_pairs(),
        }
    }

    /// Shows one queue pair with its state and process.
    pub(super) fn queue_pair(self, device: &str, port: Option<u32>, lqpn: u32) -> Option<Command> {
        let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let link = port.filter(|_| is_plain(device)).map(|port| format!(" link {device}/{port}"))?;
        self.with(|_| format!("rdma resource show qp{link} lqpn {lqpn}"))
    }

    /// Tests whether an address is reachable through the interface.
    pub(super) fn ping(self, address: Address) -> Option<Command> {
        let address = address.ip()?;
        match self.at {
            // `ping -I` accepts the address of a port as well as its name.
            RunsOn::Host(host) => self.with(|_| format!("ping -c 3 -I {host} {address}")),
            _ => self.with(|dev| format!("ping -c 3 -I {dev} {address}")),
        }
    }

    fn with(self, command: impl FnOnce(&str) -> String) -> Option<Command> {
        match self.at {
            RunsOn::Here(interface) => Some(Command::here(command(interface))),
            RunsOn::Each(interfaces) => {
                let (all, each) = (interfaces.join(" "), command("$i"));
                Some(Command::here(format!("for i in {all}; do echo $i; {each}; done")))
            }
            RunsOn::Host(host) => Some(Command { line: command(PLACEHOLDER), host: Some(host) }),
            RunsOn::Nowhere => None,
        }
    }
}

/// True for the interface of this host to which a link belongs, by a name that a shell takes as it is.
fn is_interface(input: &Input<'_>, link: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    input.facts.source.kind != InputKind::Replay && !link.is_empty() && link.chars().all(plain)
}

/// Priority of a flow's packets: from the tag, else the default mapping of the DSCP.
pub(super) fn priority(flow: &Flow) -> Option<u8> {
    flow.pcp.or(flow.dscp.map(|dscp| dscp >> 3))
}

/// True if nothing marks the packets of a flow as RoCE: they have the class of all other traffic.
pub(super) fn is_best_effort(flow: &Flow) -> bool {
    flow.dscp == Some(0) && priority(flow) == Some(0)
}

/// `priority 3 (DSCP 26)` as far as known; else `the priority of RoCE`.
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

    /// The commands for both ends of a flow.
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

    #[test]
    fn several_interfaces_have_one_command() {
        let lines = |kind, links: &[&str]| {
            let mut sample = sample(vec![link("eth0", None), link("eth1", None)], Vec::new());
            sample.kind = kind;
            let facts = Facts::of(&sample, &Options::default());
            let limits = Limits::default();
            let input = Input { sample: &sample, facts: &facts, limits: &limits };
            Commands::on_each(&input, links).link().map(|command| command.line)
        };
        let live = |links: &[&str]| lines(crate::sample::SourceKind::Live, links);
        let both = "for i in eth0 eth1; do echo $i; ethtool $i; done";
        assert_eq!(live(&["eth0", "eth1"]).as_deref(), Some(both));
        assert_eq!(live(&["eth0"]).as_deref(), Some("ethtool eth0"));
        assert_eq!(live(&["eth0", "eth1; reboot"]), None, "a shell would take it for more than a name");
        assert_eq!(
            lines(crate::sample::SourceKind::Replay, &["eth0", "eth1"]),
            None,
            "files, not interfaces"
        );
    }
}
