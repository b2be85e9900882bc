//! The queue pairs of this host with their owning processes.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;

use crate::entity::owners::{Owners, QpOwner};
use crate::host::HostError;
use crate::host::process::{self, Container};
use crate::host::rdma;
use crate::host::rdma::nldev::{self, QpCounter, Query, QueuePair};
use crate::host::rdma::port::Port;
use crate::host::read::queries::Queries;
use crate::host::read::{HostRoot, UnreadReasons};

/// The queue pairs of this host at one time.
#[derive(Debug, Default)]
pub struct QueuePairs {
    /// Owners by the ends that packets name.
    pub owners: Owners,
    /// All queue pairs with their processes.
    pub list: Vec<(QueuePair, QpOwner)>,
    /// Counters that queue pairs are bound to.
    pub counters: Vec<QpCounter>,
    /// Devices that the kernel names.
    pub devices: BTreeMap<String, ListedDevice>,
    /// There is no device.
    pub has_no_device: bool,
    /// Reason for which the kernel did not name the devices.
    pub unread: Option<String>,
    /// Beginning of the reading. Unit: ns of `CLOCK_MONOTONIC`.
    pub began_monotonic_ns: u64,
    /// Its end by the same clock.
    pub ended_monotonic_ns: u64,
}

/// A device that the kernel names.
#[derive(Clone, Debug, Default)]
pub struct ListedDevice {
    /// Index by which RDMA netlink names it: another one each time its driver registers it.
    pub index: u32,
    /// Reason for which its queue pairs are not in the list, as when its firmware does not answer about one of them.
    pub unlisted: Option<String>,
}

impl QueuePairs {
    /// True if all queue pairs of this device are in the list, which are none where it exists no more.
    pub fn is_complete(&self, device: &str) -> bool {
        match self.devices.get(device) {
            Some(found) => found.unlisted.is_none(),
            None => !self.devices.is_empty() || self.has_no_device,
        }
    }

    /// Reason for which the queue pairs of this device are not in the list: its own, else that of the list of devices.
    pub fn why_unlisted(&self, device: &str) -> Option<&str> {
        let known = self.devices.get(device);
        known.map_or(&self.unread, |found| &found.unlisted).as_deref()
    }
}

/// The addresses (GIDs) of each device, by its name.
pub type Addresses = Vec<(String, Vec<Ipv6Addr>)>;

/// Reads the addresses of all devices. A device has up to a thousand GID table entries, each a file, so that this
/// takes far longer than [`read`]. An entry that fails is left out, with the reason in `unread`.
#[must_use]
pub fn addresses(root: &HostRoot, unread: &mut UnreadReasons) -> Addresses {
    let mut addresses = Vec::new();
    for device in rdma::list(root.sys()) {
        unread.about(&device.name);
        let ports = device.ports.iter().map(|port| {
            let at = format!("/sys/class/infiniband/{}/ports/{}", device.name, port.number);
            Port::read(root, &at, port.number, unread)
        });
        let of_device = ports.flat_map(|port| port.gids).map(|gid| gid.gid).collect();
        addresses.push((device.name, of_device));
    }
    addresses
}

/// Reads the queue pairs of all devices, their processes and their counters; `addresses` are those of the devices.
/// Each queue pair costs a netlink query, so this runs about once per second; `between` is called repeatedly
/// meanwhile. An entry that fails is left out, with the reason in `unread`.
#[must_use]
pub fn read(
    root: &HostRoot,
    kernel: &dyn Queries,
    addresses: &[(String, Vec<Ipv6Addr>)],
    unread: &mut UnreadReasons,
    between: &mut dyn FnMut(),
) -> QueuePairs {
    if rdma::list(root.sys()).is_empty() {
        return QueuePairs { has_no_device: true, ..QueuePairs::default() };
    }
    unread.about("host");
    let named = kernel.rdma(Query::Devices);
    let why = named.as_ref().err().map(HostError::cause);
    let mut found = QueuePairs { unread: why, ..QueuePairs::default() };
    let answers = unread.keep(named).unwrap_or_default();
    let mut owners = Vec::new();
    let mut known = Processes::default();
    for device in answers.iter().filter_map(|answer| nldev::Device::parse(answer)) {
        unread.about(&device.name);
        let listed = kernel.rdma_in_parts(Query::QueuePairs(device.index), between);
        let unlisted = listed.as_ref().err().map(HostError::cause);
        found.devices.insert(device.name.clone(), ListedDevice { index: device.index, unlisted });
        let listed = unread.keep(listed);
        let answers = listed.unwrap_or_default();
        for qp in answers.iter().flat_map(|answer| nldev::queue_pairs(answer)) {
            let owner = known.owner(root, &qp);
            owners.push(owner.clone());
            found.list.push((qp, owner));
        }
        let answers = unread.keep(kernel.rdma(Query::QpCounters(device.index))).unwrap_or_default();
        found.counters.extend(answers.iter().flat_map(|answer| nldev::qp_counters(answer)));
    }
    found.owners = Owners::new(owners, addresses);
    found
}

/// Names of processes, each read once: a job has thousands of queue pairs and few processes.
#[derive(Default)]
struct Processes(HashMap<u32, (u32, Option<String>, Option<String>)>);

impl Processes {
    fn owner(&mut self, root: &HostRoot, qp: &QueuePair) -> QpOwner {
        let of_process = qp.pid.map(|thread| {
            let read = || {
                let pid = process::leader(root, thread).unwrap_or(thread);
                (pid, process::comm(root, thread), Container::of(root, pid).and_then(|c| c.label()))
            };
            self.0.entry(thread).or_insert_with(read).clone()
        });
        let (pid, comm, pod) =
            of_process.map_or((None, None, None), |(pid, comm, pod)| (Some(pid), comm, pod));
        QpOwner {
            comm: comm.or_else(|| qp.kernel_name.clone()),
            pod,
            device: qp.device.clone(),
            lqpn: qp.lqpn,
            rqpn: qp.rqpn,
            kind: qp.kind,
            state: qp.state,
            pid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read::recorded::Recorded;
    use crate::sample::{Address, Direction};
    use rocescope_common::account::FlowKey;

    const MLX5: &str = include_str!("../../../../tests/data/host/mlx5.txt");
    const RXE: &str = include_str!("../../../../tests/data/host/rxe.txt");

    fn found(host: &Recorded, unread: &mut UnreadReasons) -> Owners {
        let addresses = addresses(&host.root(), unread);
        read(&host.root(), &host.kernel(), &addresses, unread, &mut || {}).owners
    }

    #[test]
    fn a_flow_leads_to_the_pod_that_sends_it() {
        let host = Recorded::unpack(MLX5);
        let mut unread = UnreadReasons::new();
        let owners = found(&host, &mut unread);
        assert_eq!(owners.all().len(), 1);
        let address = |text: &str| text.parse::<Address>().unwrap().words();
        let ((family, src), (_, dst)) = (address("192.0.2.1"), address("192.0.2.2"));
        let key = FlowKey { src, dst, dest_qp: 951, link: 0, family, pad: 0 };
        let owned = owners.of(&key, Some(Direction::Egress), true).unwrap();
        assert_eq!(owned.peer_qp, Some(298));
        let QpOwner { pid, comm, pod, kind, state, .. } = owned.owner;
        assert_eq!((*pid, comm.as_deref(), pod.as_deref()), (Some(4711), Some("python3"), Some("trainer-0")));
        assert_eq!((*kind, *state), (Some("RC"), Some("RTS")));
    }

    #[test]
    fn a_kernel_that_does_not_answer_leaves_none_and_says_why() {
        for text in [RXE, ""] {
            let host = Recorded::unpack(text);
            let mut unread = UnreadReasons::new();
            assert!(found(&host, &mut unread).all().is_empty());
            assert_eq!(unread.into_reasons().is_empty(), text.is_empty());
        }
    }
}
