//! Queue pairs that processes make past the verbs (DEVX, mlx5 alone), mostly for GPUs to post to: from their
//! commands to the firmware, since no list of the kernel has them.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context as _, Result, anyhow};
use aya::maps::{MapData, RingBuf};
use aya::{Ebpf, EbpfLoader};
use rocescope_common::abi::qp::{CommandRecord, QP_COMMANDS, command};

use super::qp_probes::{attach, each, text};
use crate::host::btf::Btf;
use crate::host::clock::WallClock;
use crate::host::mlx5_command;
use crate::host::read::HostRoot;
use crate::source::devices::lives::{Change, DEVX, QpControl, QpEvent, QpLife, REASON, timeout_ns};

/// Of mlx5's core driver, which all its commands pass.
const FUNCTION: &str = "mlx5_cmd_do";
const MODULE: &str = "mlx5_core";
/// Queue pairs whose end a command shows, at most.
const MOST_QPS: usize = 65_536;

/// Offsets that the programs need. Unit: bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    core_device: u32,
    name: u32,
}

impl Offsets {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// The reason for which commands cannot be followed.
    pub(super) fn read(root: &HostRoot, base: &[u8]) -> Result<Self> {
        if !root.exists(&format!("/sys/module/{MODULE}")) {
            return Err(anyhow!("the module {MODULE} is not loaded"));
        }
        let module = std::fs::read(root.path(&format!("/sys/kernel/btf/{MODULE}"))).ok();
        let btf = Btf::parse(base.to_vec(), module).context("cannot read the kernel's BTF")?;
        Self::of(&btf)
    }

    fn of(btf: &Btf) -> Result<Self> {
        let offset = |name: &str, path: &str| {
            let field = btf.find(name).and_then(|found| found.field(path));
            field.map(|field| field.offset).ok_or_else(|| anyhow!("BTF has no field {path} of struct {name}"))
        };
        Ok(Self { core_device: offset("mlx5_core_dev", "device")?, name: offset("device", "kobj.name")? })
    }

    /// Gives them to the programs.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the loader keeps references until it loads")]
    pub(super) fn set<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        loader.override_global("CORE_DEVICE", &self.core_device, true).override_global(
            "DEVICE_KOBJ_NAME",
            &self.name,
            true,
        );
    }
}

/// Attached probes of the driver's commands.
pub(super) struct Devx {
    records: RingBuf<MapData>,
    follower: Follower,
}

impl Devx {
    /// Attaches what `ebpf` was loaded for.
    ///
    /// # Errors
    /// The reason for which commands cannot be followed.
    pub(super) fn attach(ebpf: &mut Ebpf) -> Result<Self> {
        for name in ["rocescope_qp_command", "rocescope_qp_commanded"] {
            attach(ebpf, name, FUNCTION)?;
        }
        let records = ebpf.take_map(QP_COMMANDS).context("the kernel object has no commands")?.try_into()?;
        Ok(Self { records, follower: Follower::default() })
    }

    /// Learns the RDMA devices by their PCI or auxiliary devices.
    pub(super) fn learn(&mut self, root: &HostRoot) {
        const DEVICES: &str = "/sys/class/infiniband";
        let parent = |name: &String| root.link_name(&format!("{DEVICES}/{name}/device")).ok();
        let names = root.names(DEVICES).into_iter();
        self.follower.devices = names.filter_map(|name| Some((parent(&name)?, name))).collect();
    }

    /// Adds the changes since the last time; of those that make a queue pair also their places, processes and control groups.
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

/// Knows which queue pairs are not of the verbs: those are ended by a command, too.
#[derive(Debug, Default)]
struct Follower {
    /// RDMA devices by the names of their PCI or auxiliary devices.
    devices: BTreeMap<String, String>,
    qps: HashSet<(String, u32)>,
}

impl Follower {
    /// The change in a command that ended at Unix time `time_ns`.
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
        // Verbs that end a queue pair reset it first. Of one made before the run the first sight is that it is connected.
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

/// A command that was refused.
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
    use super::*;
    use crate::host::btf::tests::Writer;
    use crate::host::mlx5_command::tests::record;
    use crate::host::qp_layout::kernels::{self, Printed};

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
        // One of the verbs: reset, then destroyed; its verb has said so.
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

    #[test]
    fn offsets_of_real_kernels_are_those_that_pahole_prints() {
        for kernel in kernels::KERNELS {
            let (offsets, printed) =
                (Offsets::of(&kernels::btf(kernel, "mlx5_core")).unwrap(), Printed::of(kernel));
            assert_eq!(offsets.core_device, printed.field("mlx5_core_dev", "device").offset);
            assert_eq!(offsets.name, printed.field("device", "kobj.name").offset);
            // A kernel that gives no types of modules.
            let without = Offsets::of(&kernels::btf(kernel, "none")).unwrap_err();
            assert_eq!(without.to_string(), "BTF has no field device of struct mlx5_core_dev");
        }
    }

    #[test]
    fn offsets_come_from_the_kernel_s_types() {
        let mut base = Writer::base();
        let long = base.int(8);
        let object = base.structure("kobject", 16, &[("name", long, 0)]);
        base.structure("device", 32, &[("kobj", object, 64)]);
        base.structure("mlx5_core_dev", 64, &[("device", long, 128)]);
        let offsets = Offsets::of(&Btf::parse(base.bytes(), None).unwrap()).unwrap();
        assert_eq!((offsets.core_device, offsets.name), (16, 8));
        let without = Offsets::of(&Btf::parse(Writer::base().bytes(), None).unwrap()).unwrap_err();
        assert_eq!(without.to_string(), "BTF has no field device of struct mlx5_core_dev");
    }
}
