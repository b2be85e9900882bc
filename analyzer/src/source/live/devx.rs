//! Queue pairs created without the verbs (DEVX, only mlx5), mostly to be driven by GPUs: detected from their firmware
//! commands, since no list of the kernel contains them.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use rocescope_common::abi::qp::{CommandRecord, QP_COMMANDS, command};

use super::qp_probes::{attach, each, text};
use crate::entity::lives::{DEVX, QpControl, QpEvent, QpLife, REASON, timeout_ns};
use crate::host::kernel::clock::WallClock;
use crate::host::rdma::mlx5_command;
use crate::host::read::HostRoot;
use crate::source::devices::lives::Change;

/// Function of mlx5's core driver that executes all commands.
const FUNCTION: &str = "mlx5_cmd_do";
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
        const DEVICES: &str = "/sys/class/infiniband";
        let parent = |name: &String| root.link_name(&format!("{DEVICES}/{name}/device")).ok();
        let names = root.names(DEVICES).into_iter();
        self.follower.devices = names.filter_map(|name| Some((parent(&name)?, name))).collect();
    }

    /// Adds the changes since the last call; for those that create a queue pair also their indices, processes and
    /// control groups.
    pub(super) fn read(&mut self, changes: &mut Vec<Change>, makers: &mut Vec<(usize, u32, u64)>) {
        let clock = WallClock::sample();
        each(&mut self.records, |record: &CommandRecord| {
            if let Some(change) = self.follower.take(record, clock.unix_ns(record.time_ns)) {
                if matches!(&change, Change::Is(life) if life.control.created_ns.is_some()) {
                    makers.push((changes.len(), record.pid, record.cgroup));
                }
                changes.push(change);
            }
        });
    }
}

/// Tracks which queue pairs were created without the verbs: those of the verbs are destroyed by a command, too.
#[derive(Debug, Default)]
struct Follower {
    /// RDMA devices, by the names of their PCI or auxiliary devices.
    devices: BTreeMap<String, String>,
    qps: HashSet<(String, u32)>,
}

impl Follower {
    /// The change made by a command that completed at Unix time `time_ns`.
    fn take(&mut self, record: &CommandRecord, time_ns: u64) -> Option<Change> {
        let device = self.devices.get(&text(&record.device)?)?.clone();
        if let Some((lqpn, reason)) = mlx5_command::reason(record) {
            return Some(Change::Event(QpEvent {
                time_ns,
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
            return was_ours.then_some(Change::Ended { device: key.0, lqpn, time_ns });
        }
        // Verbs reset a queue pair before they destroy it. One created before the run is first seen when it connects.
        let begins = matches!(
            given.opcode,
            command::CREATE | command::RST2INIT | command::INIT2RTR | command::RTR2RTS
        );
        if begins && self.qps.len() < MOST_QPS {
            self.qps.insert(key.clone());
        }
        if !self.qps.contains(&key) {
            return None;
        }
        let set = given.set;
        let is_new = given.opcode == command::CREATE;
        Some(Change::Is(QpLife {
            device: key.0,
            lqpn,
            origin: Some(DEVX),
            port: given.port,
            kind: given.kind,
            state: set.state,
            pid: Some(record.pid).filter(|pid| *pid != 0),
            comm: text(&record.comm),
            pod: None,
            rqpn: set.rqpn,
            control: QpControl {
                dst: set.dst,
                udp_port: set.udp_port,
                dscp: set.dscp,
                path_mtu: set.path_mtu,
                timeout_ns: set.timeout.map(timeout_ns),
                retry_cnt: set.retry_cnt,
                rnr_retry: set.rnr_retry,
                created_ns: is_new.then_some(time_ns),
                ..QpControl::default()
            },
        }))
    }
}

/// A command that failed.
fn failure(record: &CommandRecord, given: &mlx5_command::Command, device: String, time_ns: u64) -> Change {
    let verb = match given.opcode {
        command::CREATE => "create".to_owned(),
        command::DESTROY => "destroy".to_owned(),
        _ => format!("modify to {}", given.set.state.unwrap_or("another state")),
    };
    let syndrome = match given.syndrome {
        0 => String::new(),
        code => format!(" (syndrome {code:#x})"),
    };
    Change::Event(QpEvent {
        time_ns,
        device,
        lqpn: given.lqpn,
        event: format!("DEVX {verb}{syndrome}"),
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
    use crate::report::{Options, Report};
    use crate::source::devices::lives::{self};

    fn follower() -> Follower {
        Follower { devices: [("0000:17:00.0".into(), "mlx5_0".into())].into(), ..Follower::default() }
    }

    #[test]
    fn a_life_past_the_verbs() {
        let mut follower = follower();
        let Some(Change::Is(made)) = follower.take(&record(command::CREATE, 99, &[]), 5) else { panic!() };
        assert_eq!((made.device.as_str(), made.lqpn, made.origin), ("mlx5_0", 99, Some(DEVX)));
        assert_eq!(
            (made.control.created_ns, made.pid, made.comm.as_deref()),
            (Some(5), Some(4_711), Some("train"))
        );
        let to_rtr = record(command::INIT2RTR, 99, &[(0x1ca, 6, 26), (0xa8, 24, 7)]);
        let Some(Change::Is(connected)) = follower.take(&to_rtr, 6) else { panic!() };
        assert_eq!(
            (connected.state, connected.control.dscp, connected.rqpn),
            (Some("RTR"), Some(26), Some(7))
        );
        assert_eq!(connected.control.created_ns, None);
        let end = record(command::DESTROY, 99, &[]);
        assert!(matches!(follower.take(&end, 7), Some(Change::Ended { lqpn: 99, time_ns: 7, .. })));
        // A queue pair of the verbs: reset, then destroyed; its verb has already been reported.
        for opcode in [command::TO_RST, command::TO_ERR, command::DESTROY] {
            assert_eq!(follower.take(&record(opcode, 98, &[]), 8), None, "{opcode:#x}");
        }
    }

    #[test]
    fn refusals_have_the_firmware_s_reason_and_unknown_devices_are_left_out() {
        let mut refused = record(command::INIT2RTR, 99, &[]);
        refused.result = -121;
        refused.output[7] = 0x2a;
        let Some(Change::Event(event)) = follower().take(&refused, 5) else { panic!() };
        assert_eq!((event.event.as_str(), event.errno), ("DEVX modify to RTR (syndrome 0x2a)", Some(121)));
        refused.device[0] = b'9';
        assert_eq!(follower().take(&refused, 5), None);
    }

    /// A GPU-driven queue pair ignores the traffic class of the device, and hangs when its lossy priority drops
    /// packets (NVIDIA/nccl issue 2383): from the bytes of the commands to the finding.
    #[test]
    fn a_queue_pair_past_the_verbs_outside_the_lossless_priority_is_found() {
        let found = |dscp: u32| {
            let mut to_rtr = record(command::INIT2RTR, 99, &[(0x40, 3, 5), (0xa8, 24, 7), (0x1ca, 6, dscp)]);
            // The context follows a header of 24 bytes; the address of the peer is in its bytes 40 to 55.
            to_rtr.input[64..80].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().octets());
            let commands = [
                record(command::CREATE, 99, &[]),
                record(command::RST2INIT, 99, &[(0x1e8, 8, 1)]),
                to_rtr,
                record(command::RTR2RTS, 99, &[(0x100, 5, 20), (0x38d, 3, 7), (0x390, 3, 7)]),
            ];
            let (mut follower, mut lives) = (follower(), lives::Follower::default());
            for command in commands {
                lives.take(follower.take(&command, fixtures::START).unwrap());
            }
            let lives = Lives::clone(&lives.sample(&Calls::default(), None));
            let priority = |dscp| (dscp == 26).then_some(3);
            let dscp_priorities = (0..64).map(priority).collect();
            let port = PortSample { lossless: Some(1 << 3), dscp_priorities, ..fixtures::port() };
            let report = Report::build(&fixtures::with_lives(port, lives), &Options::default());
            report.findings.into_iter().find(|one| one.id == "config.qp_dscp")
        };
        assert_eq!(found(26), None);
        let one = found(0).unwrap();
        assert_eq!(one.title, "DSCP 0 of 1 QP of mlx5_0 has priority 0: unmapped");
        let process = one.evidence.get("processes").and_then(|all| all.value.as_str());
        assert_eq!(process, Some("train (4711)"));
    }
}
