//! Lifecycle of queue pairs from the kernel's control path: creation, settings, failed verbs, events, end. Covers
//! queue pairs whose packets bypass the kernel.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::entity::lives::{Calls, DESTROYED, DEVX, ERROR, Lives, QpControl, QpEvent, QpLife, TO_ERROR};
use crate::entity::owners::QpOwner;
use crate::host::rdma::nldev::QueuePair;
use crate::util::map::Map;
use crate::util::time::NS_PER_S;

/// Maximum number of ended queue pairs kept for the report.
const MOST_ENDED: usize = 4_096;
/// Maximum number of existing queue pairs that are followed.
const MOST_ALIVE: usize = 65_536;
/// Maximum number of events kept.
const MOST_EVENTS: usize = 4_096;
/// A query that takes longer is no evidence that the queue pair is gone, in nanoseconds.
const LONGEST_QUERY_NS: u64 = NS_PER_S;

/// A change on the control path, in terms of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The queue pair was made or modified. `None` fields keep their values.
    Is(QpLife),
    /// The queue pair was queried at this Unix time.
    Found {
        /// State of the queue pair.
        life: QpLife,
        /// Unix time.
        time_ns: u64,
    },
    /// It was destroyed at this Unix time.
    Ended {
        /// RDMA device.
        device: String,
        /// Number.
        lqpn: u32,
        /// Unix time.
        time_ns: u64,
    },
    /// An event.
    Event(QpEvent),
}

/// Follows queue pairs from change to change.
#[derive(Debug, Default)]
pub struct Follower {
    alive: Map<(String, u32), QpLife>,
    ended: VecDeque<QpLife>,
    events: VecDeque<QpEvent>,
    events_left_out: u64,
    qps_left_out: u64,
    changed: bool,
    sampled: Arc<Lives>,
}

impl Follower {
    /// Applies a change.
    pub fn take(&mut self, change: Change) {
        match change {
            Change::Is(new) => {
                let key = (new.device.clone(), new.lqpn);
                if new.control.created_ns.is_some()
                    && let Some(mut before) = self.alive.remove(&key)
                {
                    // Its destruction was missed.
                    before.control.reused(new.control.created_ns);
                    self.end(before);
                }
                if self.alive.len() >= MOST_ALIVE && !self.alive.contains_key(&key) {
                    self.qps_left_out += 1;
                    self.changed = true;
                    return;
                }
                self.changed |= self.alive.entry(key).or_default().update(new);
            }
            Change::Found { mut life, time_ns } => {
                if self.has_just_ended(&life, time_ns) {
                    return;
                }
                if self.is_older(&life) {
                    life.state = None;
                }
                if self.has_died(&life) {
                    self.take(Change::Event(QpEvent {
                        time_ns,
                        device: life.device.clone(),
                        lqpn: Some(life.lqpn),
                        event: TO_ERROR.to_owned(),
                        ..QpEvent::default()
                    }));
                }
                self.take(Change::Is(life));
            }
            Change::Ended { device, lqpn, time_ns } => {
                self.changed = true;
                let known = self.alive.remove(&(device.clone(), lqpn));
                let mut life = known.unwrap_or(QpLife { device, lqpn, ..QpLife::default() });
                life.control.ended_ns = Some(time_ns);
                life.control.end.get_or_insert(DESTROYED);
                self.end(life);
            }
            Change::Event(mut event) => {
                self.changed = true;
                let key = event.lqpn.map(|lqpn| (event.device.clone(), lqpn));
                if let Some(life) = key.and_then(|key| self.alive.get_mut(&key)) {
                    if event.is_death() {
                        life.control.end = Some(ERROR);
                    }
                    (event.src, event.dst) = (event.src.or(life.control.src), event.dst.or(life.control.dst));
                    event.pid = event.pid.or(life.pid);
                    event.comm = event.comm.or_else(|| life.comm.clone());
                }
                if self.events.len() >= MOST_EVENTS {
                    self.events.pop_front();
                    self.events_left_out += 1;
                }
                self.events.push_back(event);
            }
        }
    }

    /// Sets the process that made a queue pair from the kernel's list, for those made before the run.
    pub fn owned(&mut self, owner: &QpOwner) {
        let key = (owner.device.clone(), owner.lqpn);
        let Some(life) = self.alive.get_mut(&key).filter(|_| owner.pid.is_some()) else { return };
        if life.pid.is_none() {
            (life.pid, life.comm, life.pod) = (owner.pid, owner.comm.clone(), owner.pod.clone());
            self.changed = true;
        }
    }

    /// Connected queue pairs that are in no list of the kernel, in the form of a list entry.
    pub fn past_verbs(&self) -> impl Iterator<Item = QueuePair> {
        let own = self.alive.values().filter(|life| life.origin == Some(DEVX) && life.rqpn.is_some());
        own.map(|life| QueuePair {
            device: life.device.clone(),
            port: life.port,
            lqpn: life.lqpn,
            rqpn: life.rqpn,
            kind: life.kind.or(Some("RC")),
            state: life.state,
            rq_psn: None,
            sq_psn: None,
            pid: life.pid,
            kernel_name: None,
            subtype: None,
        })
    }

    /// True if a queue pair that was connected is found in the error state without a verb that moved it there:
    /// records arrive in the order of the calls.
    fn has_died(&self, found: &QpLife) -> bool {
        let before = self.alive.get(&(found.device.clone(), found.lqpn)).and_then(|life| life.state);
        found.state == Some("ERR") && matches!(before, Some("RTR" | "RTS" | "SQD"))
    }

    /// True if a query ends after the start of the verb that destroyed the queue pair: it concerns the destroyed one.
    fn has_just_ended(&self, found: &QpLife, time_ns: u64) -> bool {
        let since = time_ns.saturating_sub(LONGEST_QUERY_NS);
        let mut lately = self
            .ended
            .iter()
            .rev()
            .take_while(|life| life.control.ended_ns.is_some_and(|ended| ended >= since));
        !self.alive.contains_key(&(found.device.clone(), found.lqpn))
            && lately.any(|life| (life.lqpn, &life.device) == (found.lqpn, &found.device))
    }

    /// True if a query found the state from before the latest verb: the two overlapped, and the verb was recorded
    /// first. A return to an earlier state also takes a verb, which would have been seen.
    fn is_older(&self, found: &QpLife) -> bool {
        const ORDER: [&str; 4] = ["RESET", "INIT", "RTR", "RTS"];
        let place = |state: Option<&str>| ORDER.iter().position(|known| Some(*known) == state);
        let known = self.alive.get(&(found.device.clone(), found.lqpn));
        let known = known.filter(|life| life.control.created_ns.is_some());
        known.is_some_and(|known| match (place(found.state), place(known.state)) {
            (Some(found), Some(known)) => found < known,
            _ => false,
        })
    }

    fn end(&mut self, life: QpLife) {
        if self.ended.len() >= MOST_ENDED {
            self.ended.pop_front();
            self.qps_left_out += 1;
        }
        self.ended.push_back(life);
    }

    /// All queue pairs, sorted by device, number and age.
    fn sorted(&self) -> Vec<QpLife> {
        let mut qps: Vec<&QpLife> = self.ended.iter().chain(self.alive.values()).collect();
        qps.sort_by(|a, b| {
            (&a.device, a.lqpn, a.control.created_ns).cmp(&(&b.device, b.lqpn, b.control.created_ns))
        });
        qps.into_iter().cloned().collect()
    }

    /// All results so far; the same shared object while nothing changes.
    pub fn sample(&mut self, calls: &Calls, unavailable: Option<&str>) -> Arc<Lives> {
        let same = self.sampled.calls == *calls && self.sampled.unavailable.as_deref() == unavailable;
        if self.changed || !same {
            self.sampled = Arc::new(Lives {
                // Listing produces calls that mostly change nothing.
                qps: if self.changed { Arc::new(self.sorted()) } else { Arc::clone(&self.sampled.qps) },
                events: self.events.iter().cloned().collect(),
                events_left_out: self.events_left_out,
                qps_left_out: self.qps_left_out,
                unavailable: unavailable.map(str::to_owned),
                calls: calls.clone(),
            });
            self.changed = false;
        }
        Arc::clone(&self.sampled)
    }
}

impl QpControl {
    /// Takes the time of a verb to RTR, or of the first one to RTS after that, which ends the connecting. True if it
    /// changed anything.
    fn connect(&mut self, to: Option<&str>, connected_ns: Option<u64>, took_ns: Option<u64>) -> bool {
        match to {
            Some("RTR") if took_ns.is_some() => self.connect_took_ns = took_ns,
            Some("RTS") if self.connected_ns.is_none() && connected_ns.is_some() => {
                self.connected_ns = connected_ns;
                // Unknown when the verb to RTR was not seen.
                let both = self.connect_took_ns.zip(took_ns);
                self.connect_took_ns = both.map(|(earlier, last)| earlier.saturating_add(last));
                return true;
            }
            _ => {}
        }
        false
    }
}

impl QpLife {
    /// The queue pair and its owner.
    pub(super) fn owner(&self) -> QpOwner {
        QpOwner {
            device: self.device.clone(),
            lqpn: self.lqpn,
            rqpn: self.rqpn,
            kind: self.kind,
            state: self.state,
            pid: self.pid,
            comm: self.comm.clone(),
            pod: self.pod.clone(),
        }
    }

    /// The pod, container or job in which it was created, which may be none. `None`: its creation was not seen, so
    /// that only the current place of its process is known.
    #[must_use]
    pub fn made_in(&self) -> Option<&Option<String>> {
        self.control.created_ns.map(|_| &self.pod)
    }

    /// Merges the known fields of `new`. True if anything changed; queries mostly confirm known values.
    fn update(&mut self, new: Self) -> bool {
        fn set<T: PartialEq>(known: &mut Option<T>, new: Option<T>) -> bool {
            let is_news = new.is_some() && *known != new;
            if is_news {
                *known = new;
            }
            is_news
        }
        let is_first = self.device.is_empty();
        if is_first {
            (self.device, self.lqpn) = (new.device, new.lqpn);
        }
        // The process that created it remains the owner, whoever modifies or queries it.
        let owned = [
            self.pid.is_none() && set(&mut self.pid, new.pid),
            self.comm.is_none() && set(&mut self.comm, new.comm),
            self.pod.is_none() && set(&mut self.pod, new.pod),
        ];
        let (known, control) = (&mut self.control, new.control);
        // A verb can take it out of the error state, and connect it again.
        if matches!(new.state, Some("RESET" | "INIT")) {
            (known.end, known.connected_ns, known.connect_took_ns) = (None, None, None);
        }
        let news = [
            known.connect(new.state, control.connected_ns, control.connect_took_ns),
            is_first,
            owned.contains(&true),
            set(&mut self.origin, new.origin),
            set(&mut self.port, new.port),
            set(&mut self.kind, new.kind),
            set(&mut self.state, new.state),
            set(&mut self.rqpn, new.rqpn),
            set(&mut known.src, control.src),
            set(&mut known.dst, control.dst),
            set(&mut known.udp_port, control.udp_port),
            set(&mut known.flow_label, control.flow_label),
            set(&mut known.dscp, control.dscp),
            set(&mut known.path_mtu, control.path_mtu),
            set(&mut known.timeout_ns, control.timeout_ns),
            set(&mut known.retry_cnt, control.retry_cnt),
            set(&mut known.rnr_retry, control.rnr_retry),
            set(&mut known.created_ns, control.created_ns),
            set(&mut self.choices.priority, new.choices.priority),
            set(&mut self.choices.adaptive_routing, new.choices.adaptive_routing),
            set(&mut self.choices.plane, new.choices.plane),
            set(&mut self.choices.bond_port, new.choices.bond_port),
        ];
        news.contains(&true)
    }
}

#[cfg(test)]
#[path = "lives_tests.rs"]
mod tests;
