//! Queue pairs created without the verbs (DEVX, only mlx5), mostly to be driven by GPUs: detected from their firmware
//! commands, since no list of the kernel contains them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use rocescope_common::abi::qp::{CommandRecord, QP_COMMANDS, command};

use super::probe::{attach, each, text};
use crate::entity::lives::{DEVX, PAST_VERBS, PathChoices, QpControl, QpEvent, QpLife, REASON, timeout_ns};
use crate::host::kernel::clock::WallClock;
use crate::host::rdma::mlx5_command::{self, FUNCTION};
use crate::host::read::HostRoot;
use crate::source::devices::lives::{Change, Span};

const DEVICES: &str = "/sys/class/infiniband";
/// Gives the address of a device, port and index in its GID table.
type AddressOf<'a> = dyn Fn(&str, Option<u32>, u8) -> Option<IpAddr> + 'a;

/// Maximum number of queue pairs whose destruction is followed by commands.
const MOST_QPS: usize = 65_536;

/// Attached probes of the driver's commands.
pub(super) struct Devx {
    records: RingBuf<MapData>,
    follower: Follower,
}

impl Devx {
    /// Attaches the loaded programs.
    ///
    /// # Errors
    /// The reason why commands cannot be followed.
    pub(super) fn attach(ebpf: &mut Ebpf) -> Result<Self> {
        for name in ["rocescope_qp_command", "rocescope_qp_commanded"] {
            attach(ebpf, name, FUNCTION)?;
        }
        let records = ebpf.take_map(QP_COMMANDS).context("the kernel object has no commands")?.try_into()?;
        Ok(Self { records, follower: Follower::default() })
    }

    /// Maps PCI and auxiliary devices to RDMA devices.
    pub(super) fn learn(&mut self, root: &HostRoot) {
        let parent = |name: &String| root.link_name(&format!("{DEVICES}/{name}/device")).ok();
        let names = root.names(DEVICES).into_iter();
        self.follower.devices = names.filter_map(|name| Some((parent(&name)?, name))).collect();
    }

    /// Adds the changes since the last call; for those that create a queue pair also their indices, processes and
    /// control groups. `root` gives the host's files.
    pub(super) fn read(
        &mut self,
        clock: WallClock,
        root: &dyn Fn() -> Option<HostRoot>,
        changes: &mut Vec<Change>,
        makers: &mut Vec<(usize, u32, u64)>,
    ) {
        // Opened once for all commands that connect a queue pair, and mostly not at all.
        let opened = OnceCell::new();
        let address = |device: &str, port: Option<u32>, index: u8| {
            gid(opened.get_or_init(root).as_ref()?, device, port, index)
        };
        each(&mut self.records, |record: &CommandRecord| {
            if let Some(change) = self.follower.take(record, clock, &address) {
                if matches!(&change, Change::Is(life, _) if life.control.created_ns.is_some()) {
                    makers.push((changes.len(), record.pid, record.cgroup));
                }
                changes.push(change);
            }
        });
    }
}

/// The address at this index of a port's GID table, now: indices are assigned anew when an interface gets or loses an
/// address. Without a port number, that of a device with one port.
fn gid(root: &HostRoot, device: &str, port: Option<u32>, index: u8) -> Option<IpAddr> {
    let ports = format!("{DEVICES}/{device}/ports");
    let port = match (port, &root.names(&ports)[..]) {
        (Some(port), _) => port.to_string(),
        (None, [only]) => only.clone(),
        (None, _) => return None,
    };
    let gid: Ipv6Addr = root.text(&format!("{ports}/{port}/gids/{index}")).ok()?.parse().ok()?;
    (!gid.is_unspecified()).then(|| gid.to_canonical())
}

/// Tracks which queue pairs were created without the verbs: those of the verbs are destroyed by a command, too.
#[derive(Debug, Default)]
struct Follower {
    /// RDMA devices, by the names of their PCI or auxiliary devices.
    devices: BTreeMap<String, String>,
    /// Their ports, which only the first commands name.
    qps: HashMap<(String, u32), Option<u32>>,
}

impl Follower {
    /// The change made by a command.
    fn take(&mut self, record: &CommandRecord, clock: WallClock, address: &AddressOf<'_>) -> Option<Change> {
        let time_ns = clock.unix_ns(record.time_ns);
        let device = self.devices.get(&text(&record.device)?)?.clone();
        if let Some((lqpn, reason)) = mlx5_command::reason(record) {
            return Some(Change::Event(QpEvent {
                time_ns,
                monotonic_ns: Some(record.time_ns),
                device,
                lqpn: Some(lqpn),
                event: REASON.to_owned(),
                reason: Some(reason),
                ..QpEvent::default()
            }));
        }
        let given = mlx5_command::decode(record)?;
        if record.result != 0 {
            return Some(failure(record, &given, device, time_ns));
        }
        let lqpn = given.lqpn?;
        let key = (device, lqpn);
        if given.opcode == command::DESTROY {
            let was_ours = self.qps.remove(&key);
            let ended = Change::Ended { device: key.0, lqpn, port: None, time_ns: record.time_ns };
            return was_ours.is_some().then_some(ended);
        }
        let call = Span { began_ns: record.time_ns, ended_ns: record.time_ns };
        // Also of a queue pair of the verbs.
        if given.opcode == command::RTS2RTS {
            let choices = PathChoices {
                udp_port: given.set.udp_port,
                bond_port: given.set.bond_port,
                ..PathChoices::default()
            };
            let life = QpLife { device: key.0, lqpn, choices, ..QpLife::default() };
            return (choices != PathChoices::default()).then_some(Change::Is(life, call));
        }
        // Verbs reset a queue pair before they destroy it. One created before the run is first seen when it connects.
        let begins = matches!(
            given.opcode,
            command::CREATE | command::RST2INIT | command::INIT2RTR | command::RTR2RTS
        );
        if begins && self.qps.len() < MOST_QPS {
            self.qps.entry(key.clone()).or_default();
        }
        let port = self.qps.get_mut(&key)?;
        *port = given.port.or(*port).filter(|_| given.opcode != command::CREATE);
        let src = given.set.src_index.and_then(|index| address(&key.0, *port, index));
        Some(Change::Is(life(record, given, key, src, time_ns), call))
    }
}

/// Facts in a command about the queue pair `device` and `lqpn`, which sends from `src`.
fn life(
    record: &CommandRecord,
    given: mlx5_command::Command,
    (device, lqpn): (String, u32),
    src: Option<IpAddr>,
    time_ns: u64,
) -> QpLife {
    let set = given.set;
    QpLife {
        device,
        lqpn,
        origin: Some(DEVX),
        port: given.port,
        kind: given.kind,
        state: set.state,
        state_of: None,
        pid: Some(record.pid).filter(|pid| *pid != 0),
        comm: text(&record.comm),
        pod: None,
        rqpn: set.rqpn,
        control: QpControl {
            src,
            dst: set.dst,
            udp_port: set.udp_port,
            flow_label: set.flow_label,
            dscp: set.dscp,
            path_mtu: set.path_mtu,
            timeout_ns: set.timeout.map(timeout_ns),
            retry_cnt: set.retry_cnt,
            rnr_retry: set.rnr_retry,
            created_ns: (given.opcode == command::CREATE).then_some(time_ns),
            connected_ns: (given.opcode == command::RTR2RTS).then_some(time_ns),
            ..QpControl::default()
        },
        choices: PathChoices {
            priority: set.priority,
            adaptive_routing: set.adaptive_routing,
            plane: set.plane,
            bond_port: set.bond_port,
            udp_port: None,
        },
    }
}

/// A command that failed.
fn failure(record: &CommandRecord, given: &mlx5_command::Command, device: String, time_ns: u64) -> Change {
    let verb = match given.opcode {
        command::CREATE => "create".to_owned(),
        command::DESTROY => "destroy".to_owned(),
        command::RTS2RTS => "modify in RTS".to_owned(),
        _ => format!("modify to {}", given.set.state.unwrap_or("another state")),
    };
    let syndrome = match given.syndrome {
        0 => String::new(),
        code => format!(" (syndrome {code:#x})"),
    };
    Change::Event(QpEvent {
        time_ns,
        monotonic_ns: Some(record.time_ns),
        device,
        lqpn: given.lqpn,
        event: format!("{PAST_VERBS}{verb}{syndrome}"),
        errno: Some(record.result.saturating_neg()),
        pid: Some(record.pid),
        comm: text(&record.comm),
        dst: given.set.dst,
        ..QpEvent::default()
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::analysis::fixtures;
    use crate::entity::devices::PortSample;
    use crate::entity::lives::{Calls, Lives};
    use crate::host::rdma::mlx5_command::tests::record;
    use crate::host::read::testing::tree;
    use crate::report::{Options, Report};
    use crate::source::devices::lives::{self};

    fn follower() -> Follower {
        Follower { devices: [("0000:17:00.0".into(), "mlx5_0".into())].into(), ..Follower::default() }
    }

    /// With no address at any index.
    fn take(follower: &mut Follower, record: &CommandRecord, time_ns: u64) -> Option<Change> {
        let record = CommandRecord { time_ns, ..*record };
        follower.take(&record, WallClock::unix(), &|_, _, _| None)
    }

    #[test]
    fn a_life_past_the_verbs() {
        let mut follower = follower();
        let Some(Change::Is(made, _)) = take(&mut follower, &record(command::CREATE, 99, &[]), 5) else {
            panic!()
        };
        assert_eq!((made.device.as_str(), made.lqpn, made.origin), ("mlx5_0", 99, Some(DEVX)));
        assert_eq!(
            (made.control.created_ns, made.pid, made.comm.as_deref()),
            (Some(5), Some(4_711), Some("train"))
        );
        let to_rtr = record(command::INIT2RTR, 99, &[(0x1ca, 6, 26), (0xa8, 24, 7)]);
        let Some(Change::Is(connected, _)) = take(&mut follower, &to_rtr, 6) else { panic!() };
        assert_eq!(
            (connected.state, connected.control.dscp, connected.rqpn),
            (Some("RTR"), Some(26), Some(7))
        );
        assert_eq!(connected.control.created_ns, None);
        let end = record(command::DESTROY, 99, &[]);
        assert!(matches!(take(&mut follower, &end, 7), Some(Change::Ended { lqpn: 99, time_ns: 7, .. })));
        // A queue pair of the verbs: reset, then destroyed; its verb has already been reported.
        for opcode in [command::TO_RST, command::TO_ERR, command::DESTROY] {
            assert_eq!(take(&mut follower, &record(opcode, 98, &[]), 8), None, "{opcode:#x}");
        }
    }

    /// `mlx5dv_modify_qp_udp_sport`: the verbs do not show it, and their query computes another port.
    #[test]
    fn a_port_set_past_the_verbs_stays_until_the_queue_pair_is_connected_anew() {
        let mut anew = record(command::RTS2RTS, 17, &[(0x1d0, 16, 50_001)]);
        anew.input[271] = 4;
        let mut lives = lives::Follower::default();
        let at = |time_ns| Span { began_ns: time_ns, ended_ns: time_ns };
        let verb = |state, udp_port| QpLife {
            device: "mlx5_0".into(),
            lqpn: 17,
            state: Some(state),
            control: QpControl { udp_port, ..QpControl::default() },
            ..QpLife::default()
        };
        let port = |lives: &mut lives::Follower| {
            let lives = lives.sample(&Calls::default(), None);
            let sample = fixtures::with_lives(fixtures::port(), Lives::clone(&lives));
            let report = Report::build(&sample, &Options::default());
            let qp = &report.facts.devices[0].qps[0];
            (qp.control.udp_port, qp.origin)
        };
        lives.take(Change::Is(verb("RTS", Some(49_153)), at(10)));
        assert_eq!(port(&mut lives), (Some(49_153), None));
        lives.take(take(&mut follower(), &anew, 20).unwrap());
        lives.take(Change::Found(verb("RTS", Some(49_153)), at(30)));
        assert_eq!(port(&mut lives), (Some(50_001), None), "no queue pair past the verbs");
        lives.take(Change::Is(verb("RESET", None), at(40)));
        lives.take(Change::Is(verb("RTR", Some(49_153)), at(50)));
        assert_eq!(port(&mut lives).0, Some(49_153));
        // It sets something else.
        assert_eq!(take(&mut follower(), &record(command::RTS2RTS, 17, &[]), 60), None);
    }

    #[test]
    fn refusals_have_the_firmware_s_reason_and_unknown_devices_are_left_out() {
        let mut refused = record(command::INIT2RTR, 99, &[]);
        refused.result = -121;
        refused.output[7] = 0x2a;
        let Some(Change::Event(event)) = take(&mut follower(), &refused, 5) else { panic!() };
        assert_eq!((event.event.as_str(), event.errno), ("DEVX modify to RTR (syndrome 0x2a)", Some(121)));
        refused.device[0] = b'9';
        assert_eq!(take(&mut follower(), &refused, 5), None);
    }

    #[test]
    fn the_address_is_that_of_the_index_on_the_port_of_the_first_commands() {
        let zero = "0000:0000:0000:0000:0000:0000:0000:0000";
        let host = tree(&[
            ("sys/class/infiniband/mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
            ("sys/class/infiniband/mlx5_0/ports/1/gids/4", zero),
            ("sys/class/infiniband/mlx5_1/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0002"),
            ("sys/class/infiniband/mlx5_1/ports/2/gids/3", "fd00:0000:0000:0000:0000:0000:0000:0002"),
        ]);
        let root = HostRoot::at(host.path());
        let at = |device: &str, port, index| gid(&root, device, port, index).map(|found| found.to_string());
        assert_eq!(at("mlx5_0", Some(1), 3).as_deref(), Some("10.0.0.1"));
        assert_eq!(at("mlx5_0", None, 3).as_deref(), Some("10.0.0.1"), "it has one port");
        assert_eq!(at("mlx5_1", Some(2), 3).as_deref(), Some("fd00::2"));
        for nothing in
            [("mlx5_1", None, 3), ("mlx5_0", Some(1), 4), ("mlx5_0", Some(1), 5), ("none", None, 0)]
        {
            assert_eq!(at(nothing.0, nothing.1, nothing.2), None, "{nothing:?}");
        }

        let mut follower = follower();
        let mut asked = |record: &CommandRecord| {
            let asked = std::cell::RefCell::new(None);
            let change = follower.take(record, WallClock::unix(), &|device, port, index| {
                asked.replace(Some((device.to_owned(), port, index)));
                Some(Ipv4Addr::new(10, 0, 0, 1).into())
            });
            let Some(Change::Is(life, _)) = change else { panic!("{change:?}") };
            (asked.into_inner(), life.control.src)
        };
        assert_eq!(asked(&record(command::CREATE, 99, &[])), (None, None));
        assert_eq!(asked(&record(command::RST2INIT, 99, &[(0x1e8, 8, 2)])), (None, None));
        let from = Some(Ipv4Addr::new(10, 0, 0, 1).into());
        assert_eq!(asked(&to_rtr(0, 0)), (Some(("mlx5_0".to_owned(), Some(2), 3)), from));
        // Its number is used again, for a queue pair of a port that is not known yet.
        asked(&record(command::CREATE, 99, &[]));
        assert_eq!(asked(&to_rtr(0, 0)).0, Some(("mlx5_0".to_owned(), None, 3)));
    }

    /// Connects queue pair 99 with this DSCP and priority to 10.0.0.2, from the address at index 3.
    fn to_rtr(dscp: u32, priority: u32) -> CommandRecord {
        let fields = [
            (0x40, 3, 5),
            (0xa8, 24, 7),
            (0xc1, 1, 1),
            (0xe0, 8, 2),
            (0x108, 8, 3),
            (0x1ca, 6, dscp),
            (0x1d0, 16, 50_000),
            (0x1e1, 3, priority),
        ];
        let mut record = record(command::INIT2RTR, 99, &fields);
        // The context follows a header of 24 bytes; the address of the peer is in its bytes 40 to 55.
        record.input[64..80].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().octets());
        record
    }

    /// The report on [`to_rtr`], on a port with PFC on priority 3 to which DSCP 26 is mapped; `trusts_pcp`: no DSCP is.
    fn report(dscp: u32, priority: u32, trusts_pcp: bool) -> Report {
        let commands = [
            record(command::CREATE, 99, &[]),
            record(command::RST2INIT, 99, &[(0x4, 4, 2), (0x1e8, 8, 1)]),
            to_rtr(dscp, priority),
            record(command::RTR2RTS, 99, &[(0x100, 5, 20), (0x38d, 3, 7), (0x390, 3, 7)]),
        ];
        let (mut follower, mut lives) = (follower(), lives::Follower::default());
        let own = |device: &str, port: Option<u32>, index: u8| {
            ((device, port, index) == ("mlx5_0", Some(1), 3)).then(|| Ipv4Addr::new(10, 0, 0, 1).into())
        };
        for command in commands {
            let command = CommandRecord { time_ns: fixtures::START, ..command };
            lives.take(follower.take(&command, WallClock::unix(), &own).unwrap());
        }
        let lives = Lives::clone(&lives.sample(&Calls::default(), None));
        let priority = |dscp| (dscp == 26).then_some(3);
        let mapped: Vec<Option<u8>> = (0..64).map(priority).collect();
        let dscp_priorities = if trusts_pcp { Vec::new() } else { mapped };
        let port = PortSample {
            lossless: Some(1 << 3),
            dscp_priorities: dscp_priorities.into(),
            trusts_pcp,
            ..fixtures::port()
        };
        Report::build(&fixtures::with_lives(port, lives), &Options::default())
    }

    #[test]
    fn the_report_has_path_and_choices_of_a_queue_pair_past_the_verbs() {
        let report = report(26, 5, false);
        let paths = report.facts.qp_paths.as_ref().unwrap();
        assert_eq!((paths.qps, paths.known, &paths.unknown), (1, 1, &BTreeMap::new()));
        let qp = &report.facts.devices[0].qps[0];
        assert_eq!(qp.control.src, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(
            (qp.priority, qp.adaptive_routing, qp.plane, qp.bond_port),
            (Some(5), Some(true), Some(2), Some(2))
        );
        assert_eq!((qp.context_ns, qp.in_flight), (None, None));
        let control = &qp.control;
        assert_eq!((control.flow_label, control.connected_ns), (Some(0), Some(fixtures::START)));
        assert_eq!(control.connect_took_ns, None, "commands have no duration");
    }

    /// A GPU-driven queue pair ignores the traffic class of the device, and hangs when its lossy priority drops
    /// packets (NVIDIA/nccl issue 2383): from the bytes of the commands to the finding.
    #[test]
    fn a_queue_pair_past_the_verbs_outside_the_lossless_priority_is_found() {
        let found = |dscp, priority, trusts_pcp| {
            let found = report(dscp, priority, trusts_pcp).findings;
            found.into_iter().find(|one| one.id == "config.qp_dscp")
        };
        // Where DSCPs decide, the priority that a queue pair is given does not: NCCL leaves it 0.
        assert_eq!(found(26, 0, false), None);
        let one = found(0, 3, false).unwrap();
        assert_eq!(one.title, "DSCP 0 of 1 QP of mlx5_0 has priority 0: unmapped");
        let process = one.evidence.get("processes").and_then(|all| all.value.as_str());
        assert_eq!(process, Some("train (4711)"));
        let own = one.requester.unwrap();
        assert_eq!((own.addr.to_string(), own.qpn), ("10.0.0.1".to_owned(), Some(99)));
        assert_eq!(one.responder.map(|end| end.addr.to_string()).as_deref(), Some("10.0.0.2"));
        // Where the port trusts priorities, those of the commands decide.
        assert_eq!(found(0, 3, true), None);
        let by_priority = found(26, 0, true).unwrap();
        assert_eq!(by_priority.title, "Priority 0 of 1 QP of mlx5_0 has no PFC");
    }
}
