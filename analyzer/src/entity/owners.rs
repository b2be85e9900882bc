//! Owners of flows: the queue pair and process on this host, from RDMA netlink.
//!
//! A packet names the queue pair that it goes to, and no other. The kernel knows both numbers of
//! every connected queue pair of this host, and who made it, so that device address and number
//! lead from a flow to its process, and to the queue pair at the sending end. This is certain
//! where it gives an answer; where two queue pairs fit, it gives none.

use std::net::Ipv6Addr;

use hashbrown::hash_map::Entry;
use rocescope_common::account::FlowKey;
use serde::Serialize;

use super::{Address, Direction, address};
use crate::util::map::Map;
use crate::util::pack::pack;

/// A queue pair of this host, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct QpOwner {
    /// Name of the RDMA device.
    pub device: String,
    /// Queue pair number.
    pub lqpn: u32,
    /// The number at the other end, of connected transports.
    pub rqpn: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` …
    pub kind: Option<&'static str>,
    /// State: `RTS`, `ERR` …
    pub state: Option<&'static str>,
    /// Process that made it; `None` for the kernel's own, and in other PID namespaces.
    pub pid: Option<u32>,
    /// The process's command, or the kernel module.
    pub comm: Option<String>,
    /// The pod or container it runs in.
    pub pod: Option<String>,
}

impl QpOwner {
    /// True if its process or kernel module is known.
    fn has_maker(&self) -> bool {
        self.pid.is_some() || self.comm.is_some()
    }

    /// Takes over the process: the kernel's list names the thread that made it, and nobody when that has ended.
    fn take_maker(&mut self, earlier: &Self) {
        if !self.has_maker() {
            (self.pid, self.comm, self.pod) = (earlier.pid, earlier.comm.clone(), earlier.pod.clone());
        }
    }

    /// The job that it works for: that of Slurm, or that of its pod; `None` where it is not known.
    pub fn job(&self) -> Option<&str> {
        crate::host::process::job(self.pod.as_deref()?)
    }
}

/// The local end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned<'a> {
    /// Queue pair at the sending end; `None` for datagrams received.
    pub peer_qp: Option<u32>,
    /// The queue pair of this host.
    pub owner: &'a QpOwner,
}

/// Queue pairs kept at most, those that are gone included.
const MOST: usize = 1 << 17;

/// A queue pair's number on an address.
type End = (Address, u32);

/// The queue pairs of this host at a moment, by the ends that packets name.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    all: Vec<QpOwner>,
    /// Addresses by device.
    addresses: Map<String, Vec<Address>>,
    /// By own address and own number; `None` where several share them.
    by_local: Map<End, Option<usize>>,
    /// By own address and the number at the other end.
    by_remote: Map<End, Option<usize>>,
}

pack! {
    struct Owners { all, addresses, by_local, by_remote }
    struct QpOwner { device, lqpn, rqpn, kind, state, pid, comm, pod }
}

impl Owners {
    /// The queue pairs `owners` on devices with these GIDs (IPv4 mapped into IPv6, as sysfs has
    /// them).
    pub fn new(owners: Vec<QpOwner>, gids: &[(String, Vec<Ipv6Addr>)]) -> Self {
        let mut found = Self { all: owners, ..Self::default() };
        for (device, gids) in gids {
            let mut addresses: Vec<Address> = gids.iter().flat_map(|gid| forms(*gid)).collect();
            // A device has an address once per version of RoCE.
            addresses.sort_unstable();
            addresses.dedup();
            found.addresses.insert(device.clone(), addresses);
        }
        for (index, owner) in found.all.iter().enumerate() {
            for &address in found.addresses.get(&owner.device).into_iter().flatten() {
                insert(&mut found.by_local, (address, owner.lqpn), index);
                if let Some(rqpn) = owner.rqpn {
                    insert(&mut found.by_remote, (address, rqpn), index);
                }
            }
        }
        found
    }

    /// The same, with those of an earlier reading that are gone since, as far as nothing new has
    /// taken their place: a report at the end of a run is about flows whose queue pairs were
    /// destroyed with the job.
    #[must_use]
    pub fn with_gone(mut self, earlier: &Self) -> Self {
        for owner in &earlier.all {
            if self.all.len() >= MOST {
                break;
            }
            let known = earlier
                .addresses
                .get(&owner.device)
                .and_then(|all| self.by_local.get(&(*all.first()?, owner.lqpn)).copied().flatten());
            if let Some(now) = known.and_then(|index| self.all.get_mut(index))
                && (&now.device, now.rqpn) == (&owner.device, owner.rqpn)
            {
                now.take_maker(owner);
            }
            let is_same = |index: &usize| self.all.get(*index).is_some_and(|now| now.device == owner.device);
            let addresses = earlier.addresses.get(&owner.device).cloned().unwrap_or_default();
            let mut ends = addresses.iter().map(|address| (*address, owner.lqpn));
            if ends.any(|end| self.by_local.get(&end).is_some_and(|now| now.as_ref().is_none_or(is_same))) {
                continue;
            }
            self.add(owner.clone(), &addresses);
            self.addresses.entry(owner.device.clone()).or_insert(addresses);
        }
        self
    }

    fn add(&mut self, owner: QpOwner, addresses: &[Address]) {
        let index = self.all.len();
        for &address in addresses {
            self.by_local.entry((address, owner.lqpn)).or_insert(Some(index));
            if let Some(rqpn) = owner.rqpn {
                self.by_remote.entry((address, rqpn)).or_insert(Some(index));
            }
        }
        self.all.push(owner);
    }

    /// True when [`Owners::learn`] would change nothing.
    pub fn knows(
        &self,
        device: &str,
        (lqpn, rqpn): (u32, u32),
        (pid, made_in): (Option<u32>, Option<&Option<String>>),
    ) -> bool {
        let address = self.addresses.get(device).and_then(|all| all.first());
        let index = address.and_then(|address| *self.by_local.get(&(*address, lqpn))?);
        index.and_then(|index| self.all.get(index)).is_some_and(|known| {
            let is_named = known.has_maker() || pid.is_none();
            let is_same = known.device == device && known.rqpn == Some(rqpn);
            is_named && is_same && made_in.is_none_or(|pod| *pod == known.pod)
        })
    }

    /// Takes in a queue pair that the kernel's control path showed: it lived shorter than the time between two
    /// readings, or was connected after the last of them. `owner` gives it where it is not known; `made_in` is the pod
    /// in which it was made, where that was seen: its process may be elsewhere by now.
    pub fn learn(
        &mut self,
        device: &str,
        (lqpn, rqpn): (u32, u32),
        made_in: Option<&Option<String>>,
        owner: impl FnOnce() -> QpOwner,
    ) {
        let addresses = self.addresses.get(device).cloned().unwrap_or_default();
        match addresses.iter().find_map(|address| self.by_local.get(&(*address, lqpn))) {
            None if self.all.len() < MOST => self.add(owner(), &addresses),
            Some(&Some(index)) => {
                let known = self.all.get_mut(index).filter(|known| known.device == device);
                let Some(known) = known.filter(|known| known.rqpn.is_none_or(|peer| peer == rqpn)) else {
                    return;
                };
                if !known.has_maker() {
                    known.take_maker(&owner());
                }
                if let Some(pod) = made_in.filter(|pod| **pod != known.pod) {
                    known.pod.clone_from(pod);
                }
                if known.rqpn.is_none() {
                    known.rqpn = Some(rqpn);
                    for address in addresses {
                        self.by_remote.entry((address, rqpn)).or_insert(Some(index));
                    }
                }
            }
            _ => {}
        }
    }

    /// All queue pairs with their owners.
    pub fn all(&self) -> &[QpOwner] {
        &self.all
    }

    /// The owner of a flow. `connected` is false for datagrams, whose sender's number shows in each
    /// packet rather than in the kernel. On the way in the receiving end is meant, on the way out
    /// the sending one; without a direction, the one that is here.
    pub fn of(&self, key: &FlowKey, direction: Option<Direction>, connected: bool) -> Option<Owned<'_>> {
        let receiver = || {
            let owner = self.get(&self.by_local, address(key.family, key.dst), key.dest_qp)?;
            Some(Owned { peer_qp: owner.rqpn.filter(|_| connected), owner })
        };
        let sender = || {
            let owner = self.get(&self.by_remote, address(key.family, key.src), key.dest_qp)?;
            connected.then_some(Owned { peer_qp: Some(owner.lqpn), owner })
        };
        match direction {
            Some(Direction::Ingress) => receiver(),
            Some(Direction::Egress) => sender(),
            None => receiver().or_else(sender),
        }
    }

    fn get(&self, map: &Map<End, Option<usize>>, address: Address, qpn: u32) -> Option<&QpOwner> {
        self.all.get((*map.get(&(address, qpn))?)?)
    }
}

/// An address as packets show it: of RoCEv1 always as IPv6, of RoCEv2 as what it is.
fn forms(gid: Ipv6Addr) -> impl Iterator<Item = Address> {
    [Some(gid.into()), gid.to_ipv4_mapped().map(Address::from)].into_iter().flatten()
}

fn insert(map: &mut Map<End, Option<usize>>, end: End, index: usize) {
    match map.entry(end) {
        Entry::Vacant(entry) => {
            entry.insert(Some(index));
        }
        // Two devices with one address, or two queue pairs with peers of one number on different
        // hosts: which of them it is, no packet says.
        Entry::Occupied(mut entry) => {
            entry.insert(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(device: &str, lqpn: u32, rqpn: Option<u32>, pid: u32) -> QpOwner {
        QpOwner { device: device.into(), lqpn, rqpn, pid: Some(pid), ..QpOwner::default() }
    }

    fn flow(src: &str, dst: &str, dest_qp: u32) -> FlowKey {
        let ((family, src), (_, dst)) =
            (src.parse::<Address>().unwrap().words(), dst.parse::<Address>().unwrap().words());
        FlowKey { src, dst, dest_qp, link: 0, family, pad: 0 }
    }

    fn owners(list: Vec<QpOwner>) -> Owners {
        let gid = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        Owners::new(
            list,
            &[
                ("mlx5_0".to_owned(), vec![gid("::ffff:10.0.0.1"), gid("::ffff:10.0.0.1"), gid("fd00::1")]),
                ("mlx5_1".to_owned(), vec![gid("::ffff:10.0.1.1")]),
            ],
        )
    }

    const IN: Option<Direction> = Some(Direction::Ingress);
    const OUT: Option<Direction> = Some(Direction::Egress);

    #[test]
    fn a_life_between_two_readings_is_learnt() {
        let mut known = owners(vec![owner("mlx5_0", 17, None, 100)]);
        known.learn("mlx5_0", (17, 40), None, || unreachable!("it is known"));
        known.learn("mlx5_0", (18, 41), None, || owner("mlx5_0", 18, Some(41), 200));
        known.learn("mlx5_0", (18, 50), None, || unreachable!("the newest comes first"));
        assert!(
            known.knows("mlx5_0", (17, 40), (None, None))
                && known.knows("mlx5_0", (18, 41), (None, Some(&None)))
        );
        assert!(
            !known.knows("mlx5_0", (18, 50), (None, None)) && !known.knows("mlx5_1", (18, 41), (None, None))
        );
        assert!(!known.knows("mlx5_0", (18, 41), (None, Some(&Some("trainer-0".into())))));
        known.learn("elsewhere", (19, 42), None, || owner("elsewhere", 19, Some(42), 300));
        let sender = |qp| {
            let owned = known.of(&flow("10.0.0.1", "10.0.0.9", qp), OUT, true)?;
            Some((owned.owner.pid, owned.peer_qp))
        };
        assert_eq!(sender(40), Some((Some(100), Some(17))));
        assert_eq!(sender(41), Some((Some(200), Some(18))));
        assert_eq!((sender(50), sender(42)), (None, None));
    }

    #[test]
    fn the_pod_is_where_a_queue_pair_was_made_where_that_was_seen() {
        let of_now = QpOwner { pod: Some("trainer-0".into()), ..owner("mlx5_0", 17, Some(40), 100) };
        let pod_of = |made_in: Option<Option<&str>>| {
            let made_in = made_in.map(|pod| pod.map(str::to_owned));
            let mut known = owners(vec![of_now.clone()]);
            known.learn("mlx5_0", (17, 40), made_in.as_ref(), || unreachable!("it is known"));
            known.all()[0].pod.clone()
        };
        assert_eq!(pod_of(None).as_deref(), Some("trainer-0"), "its process is there now");
        assert_eq!(pod_of(Some(None)), None, "of the host when it was made");
        assert_eq!(pod_of(Some(Some("job"))).as_deref(), Some("job"));
    }

    /// The kernel names the thread that made a queue pair, and nobody when that has ended.
    #[test]
    fn a_queue_pair_whose_thread_has_ended_keeps_its_process() {
        let named = QpOwner { comm: Some("train".into()), ..owner("mlx5_0", 17, Some(40), 100) };
        let nameless = |lqpn, rqpn| QpOwner { pid: None, ..owner("mlx5_0", lqpn, Some(rqpn), 0) };
        let before = owners(vec![named.clone(), owner("mlx5_0", 18, Some(41), 200)]);
        // Another one has the second number.
        let now = owners(vec![nameless(17, 40), nameless(18, 50)]).with_gone(&before);
        assert_eq!((&now.all()[0], now.all()[1].pid), (&named, None));
        // One that the control path knows.
        let mut now = owners(vec![nameless(17, 40)]);
        assert!(
            now.knows("mlx5_0", (17, 40), (None, None)) && !now.knows("mlx5_0", (17, 40), (Some(100), None))
        );
        now.learn("mlx5_0", (17, 40), None, || named.clone());
        assert_eq!(now.all(), [named]);
        assert!(now.knows("mlx5_0", (17, 40), (Some(100), None)));
    }

    #[test]
    fn both_directions_lead_to_the_process_and_the_sending_end() {
        let owners = owners(vec![owner("mlx5_0", 17, Some(40), 100), owner("mlx5_1", 17, Some(41), 200)]);
        let found = |src, dst, qp, direction| {
            owners.of(&flow(src, dst, qp), direction, true).map(|owned| (owned.owner.pid, owned.peer_qp))
        };
        assert_eq!(found("10.0.0.9", "10.0.0.1", 17, IN), Some((Some(100), Some(40))));
        assert_eq!(found("10.0.0.9", "10.0.1.1", 17, IN), Some((Some(200), Some(41))));
        assert_eq!(found("10.0.0.1", "10.0.0.9", 40, OUT), Some((Some(100), Some(17))));
        assert_eq!(found("fd00::1", "fd00::9", 40, OUT), Some((Some(100), Some(17))));
        assert_eq!(found("::ffff:10.0.0.9", "::ffff:10.0.0.1", 17, IN), Some((Some(100), Some(40))));
        // Traffic that only passes, as on a mirror port, has no owner here.
        assert_eq!(found("10.0.0.8", "10.0.0.9", 17, IN), None);
        assert_eq!(found("10.0.0.9", "10.0.0.1", 18, IN), None);
        assert_eq!(found("10.0.0.9", "10.0.0.1", 17, OUT), None);
        assert_eq!(found("10.0.0.1", "10.0.0.9", 40, None), Some((Some(100), Some(17))));
    }

    #[test]
    fn what_fits_two_is_nobodys() {
        // Peers on two hosts that happen to have the same number.
        let owners = owners(vec![owner("mlx5_0", 17, Some(40), 100), owner("mlx5_0", 18, Some(40), 200)]);
        assert_eq!(owners.of(&flow("10.0.0.1", "10.0.0.9", 40), OUT, true), None);
        let one = owners.of(&flow("10.0.0.9", "10.0.0.1", 18), IN, true).unwrap();
        assert_eq!((one.owner.pid, one.peer_qp), (Some(200), Some(40)));
    }

    #[test]
    fn between_two_queue_pairs_of_one_host_the_direction_decides() {
        let owners = owners(vec![owner("mlx5_0", 17, Some(40), 100), owner("mlx5_1", 40, Some(17), 200)]);
        let key = flow("10.0.0.1", "10.0.1.1", 40);
        assert_eq!(owners.of(&key, OUT, true).map(|o| (o.owner.pid, o.peer_qp)), Some((Some(100), Some(17))));
        assert_eq!(owners.of(&key, IN, true).map(|o| (o.owner.pid, o.peer_qp)), Some((Some(200), Some(17))));
    }

    #[test]
    fn those_that_are_gone_stay_until_their_place_is_taken() {
        let before = owners(vec![owner("mlx5_0", 17, Some(40), 100), owner("mlx5_0", 18, Some(41), 200)]);
        let now = owners(vec![owner("mlx5_0", 17, Some(50), 300)]).with_gone(&before);
        let received = |qp| now.of(&flow("10.0.0.9", "10.0.0.1", qp), IN, true).map(|owned| owned.owner.pid);
        assert_eq!((received(17), received(18)), (Some(Some(300)), Some(Some(200))));
        let sent = |qp| now.of(&flow("10.0.0.1", "10.0.0.9", qp), OUT, true).map(|owned| owned.owner.pid);
        assert_eq!((sent(50), sent(41), sent(40)), (Some(Some(300)), Some(Some(200)), None));
        // Readings without a change do not make it grow.
        assert_eq!(owners(before.all().to_vec()).with_gone(&before).all().len(), 2);
        let gone = Owners::default().with_gone(&now).with_gone(&now);
        assert_eq!(gone.all().len(), 2);
    }

    #[test]
    fn datagrams_have_a_receiver_and_no_peer() {
        let owners = owners(vec![owner("mlx5_0", 17, None, 100), owner("mlx5_0", 18, Some(5), 200)]);
        let owned = owners.of(&flow("10.0.0.9", "10.0.0.1", 17), IN, false).unwrap();
        assert_eq!((owned.owner.pid, owned.peer_qp), (Some(100), None));
        // To queue pair 5 somewhere: not by the connected one that has a peer of that number.
        assert_eq!(owners.of(&flow("10.0.0.1", "10.0.0.9", 5), OUT, false), None);
    }
}
