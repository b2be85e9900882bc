//! Existing queue pairs by process: from the kernel's control path as soon as they are created, and from its lists.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::lives::Change;
use crate::entity::lives::VERBS;
use crate::entity::owners::QpOwner;
use crate::util::map::{Map, Set};

/// Number of lists without a queue pair after which it counts as gone: one list may have been started before it was
/// created.
const MISSING: u64 = 2;
/// Number of lists for which an ended queue pair is remembered, since its posted work may be read later.
const REMEMBERED: u64 = 3;

/// Queue pairs of processes.
#[derive(Debug, Default)]
pub struct PresentQps {
    alive: Map<(String, u32), OwnedQp>,
    ended: VecDeque<EndedQp>,
    /// Devices of existing and ended ones, by process and number, each with a count.
    devices: Map<(u32, u32), BTreeMap<String, u32>>,
    lists: u64,
}

#[derive(Clone, Copy, Debug)]
struct OwnedQp {
    pid: u32,
    /// The latest list that contained it, or the latest one when it was created.
    listed: u64,
}

#[derive(Debug)]
struct EndedQp {
    device: String,
    lqpn: u32,
    pid: u32,
    /// The latest list when it ended.
    at: u64,
}

impl PresentQps {
    /// Applies changes of the control path. True if a queue pair was created.
    pub fn take(&mut self, changes: &[Change]) -> bool {
        let mut made = false;
        for change in changes {
            match change {
                Change::Is(life, _) if life.control.created_ns.is_some() && life.origin == Some(VERBS) => {
                    let Some(pid) = life.pid else { continue };
                    let key = (life.device.clone(), life.lqpn);
                    self.end(&key);
                    self.know(key, OwnedQp { pid, listed: self.lists });
                    made = true;
                }
                // A query shows one from before the run before a list does.
                Change::Found(life, _) if life.origin == Some(VERBS) => {
                    let Some(pid) = life.pid else { continue };
                    let key = (life.device.clone(), life.lqpn);
                    if !self.alive.contains_key(&key) && !self.has_just_ended(&key, pid) {
                        self.know(key, OwnedQp { pid, listed: self.lists });
                        made = true;
                    }
                }
                Change::Ended { device, lqpn, .. } => self.end(&(device.clone(), *lqpn)),
                Change::Kept(event) => {
                    let Some(lqpn) = event.lqpn else { continue };
                    self.keep(&(event.device.clone(), lqpn));
                }
                _ => {}
            }
        }
        made
    }

    /// Those of these devices are not in the next list, although they exist.
    pub fn keep_unlisted(&mut self, is_unlisted: impl Fn(&str) -> bool) {
        let next = self.lists + 1;
        let unlisted = self.alive.iter_mut().filter(|((device, _), _)| is_unlisted(device));
        unlisted.for_each(|(_, known)| known.listed = next);
    }

    /// Applies a list of all queue pairs.
    pub fn list<'a>(&mut self, owners: impl Iterator<Item = &'a QpOwner>) {
        self.lists += 1;
        let lists = self.lists;
        for owner in owners {
            let key = (owner.device.clone(), owner.lqpn);
            let Some(pid) = owner.pid else {
                // The thread that made it has ended, so that the kernel names none. Its own have a name.
                if let Some(known) = self.alive.get_mut(&key).filter(|_| owner.comm.is_none()) {
                    known.listed = lists;
                }
                continue;
            };
            // It was listed, but ended before the list was applied.
            let is_gone = |gone: &EndedQp| {
                gone.at + 1 == lists
                    && gone.lqpn == owner.lqpn
                    && gone.pid == pid
                    && gone.device == owner.device
            };
            match self.alive.get_mut(&key) {
                Some(known) if known.pid == pid => known.listed = lists,
                None if self.ended.iter().any(is_gone) => {}
                _ => self.know(key, OwnedQp { pid, listed: lists }),
            }
        }
        let missing = self.alive.iter().filter(|(_, known)| known.listed + MISSING <= lists);
        for key in missing.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.end(&key);
        }
        let (kept, forgotten) = self.ended.drain(..).partition(|gone| gone.at + REMEMBERED > lists);
        self.ended = kept;
        for gone in forgotten {
            self.forget(gone.pid, gone.lqpn, &gone.device);
        }
    }

    /// Adds a queue pair, replacing one of another process.
    fn know(&mut self, key: (String, u32), owned: OwnedQp) {
        let devices = self.devices.entry((owned.pid, key.1)).or_default();
        *devices.entry(key.0.clone()).or_default() += 1;
        let lqpn = key.1;
        let device = key.0.clone();
        if let Some(other) = self.alive.insert(key, owned) {
            self.forget(other.pid, lqpn, &device);
        }
    }

    fn forget(&mut self, pid: u32, lqpn: u32, device: &str) {
        let Some(devices) = self.devices.get_mut(&(pid, lqpn)) else { return };
        if let Some(count) = devices.get_mut(device) {
            *count -= 1;
            if *count == 0 {
                devices.remove(device);
            }
        }
        if devices.is_empty() {
            self.devices.remove(&(pid, lqpn));
        }
    }

    fn end(&mut self, key: &(String, u32)) {
        if let Some(OwnedQp { pid, .. }) = self.alive.remove(key) {
            self.ended.push_back(EndedQp { device: key.0.clone(), lqpn: key.1, pid, at: self.lists });
        }
    }

    /// Takes back an end: the queue pair was not destroyed, after all.
    fn keep(&mut self, key: &(String, u32)) {
        let is_it = |gone: &EndedQp| (gone.device.as_str(), gone.lqpn) == (key.0.as_str(), key.1);
        let at = self.ended.iter().rposition(is_it).filter(|_| !self.alive.contains_key(key));
        if let Some(gone) = at.and_then(|at| self.ended.remove(at)) {
            // Its process and number are counted still.
            self.alive.insert(key.clone(), OwnedQp { pid: gone.pid, listed: self.lists });
        }
    }

    fn has_just_ended(&self, key: &(String, u32), pid: u32) -> bool {
        self.ended
            .iter()
            .any(|gone| (gone.device.as_str(), gone.lqpn, gone.pid) == (key.0.as_str(), key.1, pid))
    }

    /// Number of lists applied.
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// Process and number of each existing queue pair.
    pub fn alive(&self) -> Set<(u32, u32)> {
        self.alive.iter().map(|((_, lqpn), known)| (known.pid, *lqpn)).collect()
    }

    /// The processes with queue pairs, each with its devices.
    pub fn processes(&self) -> BTreeMap<u32, BTreeSet<String>> {
        let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for ((device, _), known) in &self.alive {
            let devices = found.entry(known.pid).or_default();
            if !devices.contains(device) {
                devices.insert(device.clone());
            }
        }
        found
    }

    /// The device of a process's queue pair, also shortly after its end; `None` if the process has this number on
    /// several devices.
    pub fn device(&self, pid: u32, lqpn: u32) -> Option<&str> {
        let devices = self.devices.get(&(pid, lqpn))?;
        let first = devices.keys().next()?;
        (devices.len() == 1).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::lives::{KERNEL, QpControl, QpEvent, QpLife};
    use crate::source::devices::lives::Span;

    fn made(device: &str, lqpn: u32, pid: u32) -> Change {
        let control = QpControl { created_ns: Some(1), ..QpControl::default() };
        let origin = Some(VERBS);
        let life =
            QpLife { device: device.into(), lqpn, pid: Some(pid), origin, control, ..QpLife::default() };
        Change::Is(life, Span::default())
    }

    fn ended(device: &str, lqpn: u32) -> Change {
        Change::Ended { device: device.into(), lqpn, port: None, time_ns: 2 }
    }

    fn owner(device: &str, lqpn: u32, pid: u32) -> QpOwner {
        QpOwner { device: device.into(), lqpn, pid: Some(pid), ..QpOwner::default() }
    }

    #[test]
    fn a_queue_pair_is_known_from_its_creation_to_shortly_after_its_end() {
        let mut present = PresentQps::default();
        assert!(present.take(&[made("rxe0", 17, 4_711)]));
        let of_kernel = match made("rxe0", 1, 3) {
            Change::Is(life, call) => Change::Is(QpLife { origin: Some(KERNEL), ..life }, call),
            other => other,
        };
        assert!(!present.take(&[of_kernel]), "no process posts to it");
        assert_eq!(present.processes(), BTreeMap::from([(4_711, BTreeSet::from(["rxe0".to_owned()]))]));
        assert_eq!((present.device(4_711, 17), present.device(4_712, 17)), (Some("rxe0"), None));
        // A list that was started before it was created.
        present.list([].into_iter());
        assert!(present.alive().contains(&(4_711, 17)));
        // A list that contains it, applied after its end.
        assert!(!present.take(&[ended("rxe0", 17)]));
        present.list([owner("rxe0", 17, 4_711)].iter());
        assert_eq!((present.alive().len(), present.device(4_711, 17)), (0, Some("rxe0")));
        for _ in 0..REMEMBERED {
            present.list([].into_iter());
        }
        assert_eq!(present.device(4_711, 17), None);
    }

    #[test]
    fn one_that_was_not_destroyed_is_still_there() {
        let mut present = PresentQps::default();
        assert!(present.take(&[made("rxe0", 17, 4_711)]));
        let kept = QpEvent { device: "rxe0".into(), lqpn: Some(17), ..QpEvent::default() };
        assert!(!present.take(&[ended("rxe0", 17), Change::Kept(kept)]));
        assert_eq!((present.alive(), present.ended.len()), (Set::from_iter([(4_711, 17)]), 0));
        present.take(&[ended("rxe0", 17)]);
        assert!(present.alive().is_empty());
        for _ in 0..=REMEMBERED {
            present.list([].into_iter());
        }
        assert_eq!(present.device(4_711, 17), None, "it counts once");
    }

    #[test]
    fn a_query_shows_one_from_before_the_run() {
        let mut present = PresentQps::default();
        let found = |pid| {
            let origin = Some(VERBS);
            let life = QpLife { device: "rxe0".into(), lqpn: 17, pid, origin, ..QpLife::default() };
            Change::Found(life, Span::default())
        };
        assert!(present.take(&[found(Some(5))]));
        assert!(!present.take(&[found(Some(5)), found(None)]), "it is known");
        // A query that is recorded after the end.
        assert!(!present.take(&[ended("rxe0", 17), found(Some(5))]));
        assert!(present.alive().is_empty());
    }

    #[test]
    fn one_whose_thread_has_ended_is_still_there() {
        let mut present = PresentQps::default();
        present.list([owner("mlx5_0", 17, 1), owner("mlx5_0", 18, 1)].iter());
        let nameless = |lqpn| QpOwner { device: "mlx5_0".into(), lqpn, ..QpOwner::default() };
        let of_kernel = QpOwner { comm: Some("ib_core".into()), ..nameless(18) };
        for _ in 0..=MISSING {
            present.list([nameless(17), of_kernel.clone(), nameless(19)].iter());
        }
        assert_eq!(present.alive(), Set::from_iter([(1, 17)]), "another one has the number 18");
    }

    #[test]
    fn without_the_control_path_lists_are_enough() {
        let mut present = PresentQps::default();
        let both = [owner("rxe0", 17, 1), owner("rxe1", 17, 1), owner("rxe1", 18, 2)];
        present.list(both.iter());
        assert_eq!(present.device(1, 17), None, "two devices have the number");
        assert_eq!(present.device(2, 18), Some("rxe1"));
        for _ in 0..MISSING {
            present.list(both[1..].iter());
        }
        assert_eq!(present.alive(), Set::from_iter([(1, 17), (2, 18)]));
        assert_eq!(present.processes().get(&1).unwrap().len(), 1);
        for _ in 0..=MISSING {
            present.keep_unlisted(|device| device == "rxe1");
            present.list([].into_iter());
        }
        assert_eq!(present.alive().len(), 2, "the device did not list them");
        // Its end was missed, and its number is reused.
        assert!(present.take(&[made("rxe1", 18, 9)]));
        assert_eq!((present.alive().len(), present.device(9, 18)), (2, Some("rxe1")));
    }
}
