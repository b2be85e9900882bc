//! Lifecycle of queue pairs from the kernel's control path: creation, settings, failed verbs, events, end. Covers
//! queue pairs whose packets bypass the kernel.
//!
//! Calls are recorded when they return, and those of several threads in any order. So each change has the time of its
//! call, and the state of a queue pair is the one that the latest call showed, be it a verb, a query or a list. Times
//! are compared by the monotonic clock: the wall clock may be set at any time.

use std::collections::VecDeque;
use std::sync::Arc;

use super::listed::QueuePairs;
use crate::entity::lives::{
    Calls, DESTROYED, DEVX, ERROR, GONE, Lives, QpControl, QpEvent, QpLife, TO_ERROR, VERBS, own_port,
};
use crate::entity::owners::QpOwner;
use crate::entity::qp_source::QpSource;
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
/// Number of complete lists without a queue pair after which it is gone: while others end, the kernel may skip one that
/// exists.
const MISSING: u8 = 2;

/// Beginning and end of a call. Unit: monotonic ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Entry.
    pub began_ns: u64,
    /// Return.
    pub ended_ns: u64,
}

/// A change on the control path, in terms of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A verb or command made or modified the queue pair. `None` fields keep their values.
    Is(QpLife, Span),
    /// The queue pair was queried.
    Found(QpLife, Span),
    /// It was destroyed.
    Ended {
        /// RDMA device.
        device: String,
        /// Number of the queue pair on the device.
        lqpn: u32,
        /// Port of one for management.
        port: Option<u32>,
        /// Unit: monotonic ns.
        time_ns: u64,
    },
    /// The verb that was to destroy it failed, so that it exists still.
    Kept(QpEvent),
    /// The device reported an event of a queue pair.
    Event(QpEvent),
}

/// Device and number of a queue pair; of one for management also the port.
type Key = (String, u32, Option<u32>);

fn key(life: &QpLife) -> Key {
    (life.device.clone(), life.lqpn, own_port(life.lqpn, life.port))
}

/// A queue pair that exists.
#[derive(Debug, Default)]
struct Alive {
    life: QpLife,
    /// The latest call that showed its state.
    shown: Span,
    /// That was a verb or command.
    by_verb: bool,
    /// Results of verbs that had been missed by then.
    missed: u64,
    /// The latest sign that it exists. Unit: monotonic ns.
    known_ns: u64,
    /// The query that found it in the error state, which nothing else shows. Unit: monotonic ns.
    found_dead_ns: Option<u64>,
    /// It was in a list.
    was_listed: bool,
    /// The latest list that contained it.
    list: u64,
    /// Number of complete lists without it in a row, and the beginning of the first. Unit: monotonic ns.
    absent: (u8, u64),
}

/// Follows queue pairs from change to change.
#[derive(Debug, Default)]
pub struct Follower {
    alive: Map<Key, Alive>,
    ended: VecDeque<QpLife>,
    /// Queue pairs among those that were in lists no more. A list may have skipped them.
    gone: usize,
    events: VecDeque<QpEvent>,
    events_left_out: u64,
    /// Number of the next.
    next_event: u64,
    /// Number of those that show a death.
    deaths: u64,
    qps_left_out: u64,
    unnumbered: u64,
    /// Number of lists.
    lists: u64,
    /// Results of verbs missed up to the records before the latest, and up to now, with those that may be missing now.
    missed: [u64; 2],
    outstanding: u64,
    /// Distance of the wall clock from the monotonic one.
    clock_ns: i64,
    changed: bool,
    sampled: Arc<Lives>,
}

impl Follower {
    /// Applies a change of a queue pair's life.
    pub fn take(&mut self, change: Change) {
        match change {
            Change::Is(life, call) => self.set(life, call),
            Change::Found(life, query) => self.found(life, query),
            Change::Ended { device, lqpn, port, time_ns } => self.destroyed((device, lqpn, port), time_ns),
            Change::Kept(event) => self.kept(event),
            Change::Event(event) => self.event(event),
        }
    }

    /// Number of events so far that show the death of a queue pair.
    pub const fn deaths(&self) -> u64 {
        self.deaths
    }

    /// Notes how many results of verbs were missed up to the records that follow.
    pub fn note_calls(&mut self, calls: &Calls) {
        self.missed = [self.missed[1], calls.missed_returns];
        self.outstanding = calls.may_end;
    }

    /// Notes the distance of the wall clock from the monotonic one, for the Unix times of the changes that follow.
    pub fn note_clock(&mut self, offset_ns: i64) {
        self.clock_ns = offset_ns;
    }

    fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.clock_ns)
    }

    /// A verb or command returned.
    fn set(&mut self, mut new: QpLife, call: Span) {
        if !new.has_number() {
            self.unnumbered += u64::from(new.control.created_ns.is_some());
            self.changed = true;
            return;
        }
        let key = key(&new);
        let control = &mut new.control;
        control.monotonic.created_ns = control.created_ns.and(Some(call.ended_ns));
        control.monotonic.connected_ns = control.connected_ns.and(Some(call.ended_ns));
        if control.created_ns.is_some()
            && let Some(mut before) = self.alive.remove(&key)
        {
            // Its destruction was missed.
            before.life.control.reused(control);
            self.end(before.life);
        }
        if let Some(known) = self.alive.get_mut(&key) {
            // A later query has shown a later state.
            if call.ended_ns < known.shown.began_ns {
                new.state = None;
            }
            // The query was answered while this verb was under way, which took the queue pair there.
            let dead_ns = known.found_dead_ns.filter(|at| new.state.is_some() && call.began_ns <= *at);
            if let Some(dead_ns) = dead_ns {
                known.found_dead_ns = None;
                known.life.control.end = None;
                self.changed = true;
                let is_it = |event: &QpEvent| {
                    (event.lqpn, event.monotonic_ns) == (Some(key.1), Some(dead_ns))
                        && event.event == TO_ERROR
                        && event.device == key.0
                };
                self.events.retain(|event| !is_it(event));
            }
        }
        self.update(key, new, call, true);
    }

    /// A query was answered.
    fn found(&mut self, mut life: QpLife, query: Span) {
        if !life.has_number() {
            return;
        }
        let key = key(&life);
        if !self.alive.contains_key(&key) {
            self.revive(&key);
        }
        let Some(known) = self.alive.get(&key) else {
            if !self.has_just_ended(&life, query.ended_ns) {
                self.update(key, life, query, false);
            }
            return;
        };
        // The state from before the latest verb: the two overlapped, and the verb was recorded first.
        let is_older = if known.by_verb {
            query.began_ns < known.shown.ended_ns
        } else {
            query.ended_ns < known.shown.began_ns
        };
        if is_older {
            life.state = None;
        }
        let was_connected = matches!(known.life.state, Some("RTR" | "RTS" | "SQD"));
        // Its maker was seen.
        if known.life.control.created_ns.is_some() {
            (life.origin, life.pid, life.comm, life.pod) = (None, None, None, None);
        }
        if was_connected && life.state == Some("ERR") {
            let unseen = self.missed[1].saturating_add(self.outstanding).saturating_sub(known.missed);
            let is_first = known.life.control.end.is_none();
            self.event(QpEvent {
                time_ns: self.unix_ns(query.ended_ns),
                monotonic_ns: Some(query.ended_ns),
                device: key.0.clone(),
                lqpn: Some(key.1),
                event: TO_ERROR.to_owned(),
                unseen_verbs: unseen,
                ..QpEvent::default()
            });
            if let Some(known) = self.alive.get_mut(&key).filter(|_| is_first) {
                known.found_dead_ns = Some(query.ended_ns);
            }
        }
        self.update(key, life, query, false);
    }

    /// The NIC's own context showed this state of a queue pair: one that is followed on the control path.
    pub fn shown(&mut self, life: QpLife, query: Span) {
        if self.alive.contains_key(&key(&life)) {
            self.found(life, query);
        }
    }

    /// Merges what a call showed.
    fn update(&mut self, key: Key, life: QpLife, call: Span, by_verb: bool) {
        if self.alive.len() >= MOST_ALIVE && !self.alive.contains_key(&key) {
            self.qps_left_out += 1;
            self.changed = true;
            return;
        }
        let missed = self.missed[0];
        let known = self.alive.entry(key).or_default();
        known.known_ns = known.known_ns.max(call.ended_ns);
        if life.state.is_some() {
            (known.shown, known.by_verb, known.missed) = (call, by_verb, missed);
            if life.state != Some("ERR") {
                known.found_dead_ns = None;
            }
        }
        self.changed |= known.life.update(life);
    }

    fn destroyed(&mut self, key: Key, time_ns: u64) {
        self.changed = true;
        let known = self.alive.remove(&key).map(|known| known.life);
        let (device, lqpn, port) = key;
        let mut life = known.unwrap_or(QpLife { device, lqpn, port, ..QpLife::default() });
        if !life.has_number() {
            return;
        }
        life.control.ended_ns = Some(self.unix_ns(time_ns));
        life.control.monotonic.over_ns = Some(time_ns);
        life.control.end.get_or_insert(DESTROYED);
        self.end(life);
    }

    /// A queue pair was not destroyed, after all: its end was noted when the verb began.
    fn kept(&mut self, event: QpEvent) {
        if let Some(lqpn) = event.lqpn {
            let key = (event.device.clone(), lqpn, own_port(lqpn, event.port));
            let is_it = |life: &QpLife| key == self::key(life) && life.control.ended_ns.is_some();
            let at = self.ended.iter().rposition(is_it).filter(|_| !self.alive.contains_key(&key));
            if let Some(mut life) = at.and_then(|at| self.ended.remove(at)) {
                (life.control.ended_ns, life.control.monotonic.over_ns) = (None, None);
                life.control.end = life.control.end.filter(|end| *end != DESTROYED);
                let (known_ns, missed) = (event.monotonic_ns.unwrap_or(0), self.missed[1]);
                let known = Alive { life, known_ns, missed, was_listed: true, ..Alive::default() };
                self.alive.insert(key, known);
            }
        }
        self.event(event);
    }

    fn event(&mut self, mut event: QpEvent) {
        self.changed = true;
        let key = event.lqpn.map(|lqpn| (event.device.clone(), lqpn, own_port(lqpn, event.port)));
        if let Some(known) = key.and_then(|key| self.alive.get_mut(&key)) {
            known.known_ns = known.known_ns.max(event.monotonic_ns.unwrap_or(0));
            let life = &mut known.life;
            if event.is_death() {
                life.control.end = Some(ERROR);
                known.found_dead_ns = None;
            }
            (event.src, event.dst) = (event.src.or(life.control.src), event.dst.or(life.control.dst));
            event.pid = event.pid.or(life.pid);
            event.comm = event.comm.or_else(|| life.comm.clone());
        }
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
            self.events_left_out += 1;
        }
        self.deaths += u64::from(event.is_death());
        self.events.push_back(QpEvent { number: self.next_event, ..event });
        self.next_event += 1;
    }

    /// Applies the kernel's lists: processes of queue pairs made before the run, states, and ends that were missed.
    pub fn listed(&mut self, found: &QueuePairs) {
        self.lists += 1;
        let at = Span { began_ns: found.began_monotonic_ns, ended_ns: found.began_monotonic_ns };
        for (qp, owner) in &found.list {
            let key = (owner.device.clone(), owner.lqpn, own_port(owner.lqpn, qp.port));
            if !self.alive.contains_key(&key) {
                self.revive(&key);
            }
            let Some(known) = self.alive.get_mut(&key) else { continue };
            (known.was_listed, known.list, known.absent) = (true, self.lists, (0, 0));
            let life = &mut known.life;
            if owner.pid.is_some() && (life.pid.is_none() || life.comm.is_none() && life.pid == owner.pid) {
                (life.pid, life.comm, life.pod) = (owner.pid, owner.comm.clone(), owner.pod.clone());
                self.changed = true;
            }
            // Its query mostly has a record, too.
            if known.life.state != owner.state && known.shown.ended_ns < at.began_ns {
                let (state, state_of) = (owner.state, Some(QpSource::Netlink));
                let (device, lqpn, port) = key;
                self.found(QpLife { device, lqpn, port, state, state_of, ..QpLife::default() }, at);
            }
        }
        self.end_missing(found);
    }

    /// Ends the queue pairs that lists contain no more: their destruction was missed.
    fn end_missing(&mut self, found: &QueuePairs) {
        let (lists, began_ns) = (self.lists, found.began_monotonic_ns);
        let mut over: Vec<Key> = Vec::new();
        for (key, known) in &mut self.alive {
            // Of a device that is gone, none is left, whatever its kind.
            let is_listable = !found.devices.contains_key(&key.0) || known.is_listable();
            let is_missing = is_listable && found.is_complete(&key.0);
            if known.list == lists || !is_missing || known.known_ns >= began_ns {
                continue;
            }
            let (times, first_ns) = known.absent;
            known.absent = (times + 1, if times == 0 { began_ns } else { first_ns });
            if known.absent.0 >= MISSING {
                over.push(key.clone());
            }
        }
        for key in over {
            let Some(Alive { mut life, absent, .. }) = self.alive.remove(&key) else { continue };
            let control = &mut life.control;
            (control.reused_ns, control.monotonic.over_ns) = (Some(self.unix_ns(absent.1)), Some(absent.1));
            control.end = Some(GONE);
            self.changed = true;
            self.gone += 1;
            self.end(life);
        }
    }

    /// Takes back the end of a queue pair that lists had skipped.
    fn revive(&mut self, key: &Key) {
        if self.gone == 0 {
            return;
        }
        let is_it = |life: &QpLife| *key == self::key(life);
        let Some(at) = self.ended.iter().rposition(is_it) else { return };
        if let Some(mut life) = self.ended.remove(at) {
            if life.control.end == Some(GONE) {
                let control = &mut life.control;
                (control.end, control.reused_ns, control.monotonic.over_ns) = (None, None, None);
                (self.gone, self.changed) = (self.gone - 1, true);
                self.alive.insert(key.clone(), Alive { life, was_listed: true, ..Alive::default() });
            } else {
                self.ended.insert(at, life);
            }
        }
    }

    /// Connected queue pairs that are in no list of the kernel, in the form of a list entry.
    pub fn past_verbs(&self) -> impl Iterator<Item = QueuePair> {
        let all = self.alive.values().map(|known| &known.life);
        let own = all.filter(|life| life.origin == Some(DEVX) && life.rqpn.is_some());
        own.map(|life| QueuePair {
            device: life.device.clone(),
            port: life.port,
            lqpn: life.lqpn,
            rqpn: life.rqpn,
            kind: life.kind.or(Some("RC")),
            state: life.state,
            pid: life.pid,
            ..QueuePair::default()
        })
    }

    /// A listed queue pair of XRC with its peer, which the kernel's lists name for RC and UC alone.
    #[must_use]
    pub fn with_peer(&self, qp: &QueuePair) -> Option<QueuePair> {
        let is_nameless = matches!(qp.kind, Some("XRC_INI" | "XRC_TGT")) && qp.rqpn.is_none();
        let known = is_nameless.then(|| self.alive.get(&(qp.device.clone(), qp.lqpn, None))).flatten()?;
        Some(QueuePair { rqpn: Some(known.life.rqpn?), ..qp.clone() })
    }

    /// True if a query ends after the start of the verb that destroyed the queue pair: it concerns the destroyed one.
    fn has_just_ended(&self, found: &QpLife, time_ns: u64) -> bool {
        let since = time_ns.saturating_sub(LONGEST_QUERY_NS);
        let destroyed_ns = |life: &QpLife| life.control.ended_ns.and(life.control.monotonic.over_ns);
        let is_late = |life: &&QpLife| destroyed_ns(life).is_none_or(|ended| ended >= since);
        let mut lately = self.ended.iter().rev().take_while(is_late);
        lately.any(|life| destroyed_ns(life).is_some() && key(life) == key(found))
    }

    fn end(&mut self, life: QpLife) {
        if self.ended.len() >= MOST_ENDED {
            let oldest = self.ended.pop_front();
            self.gone -= usize::from(oldest.is_some_and(|life| life.control.end == Some(GONE)));
            self.qps_left_out += 1;
        }
        self.ended.push_back(life);
    }

    /// All queue pairs, sorted by device, number and age.
    fn sorted(&self) -> Vec<QpLife> {
        let mut qps: Vec<&QpLife> =
            self.ended.iter().chain(self.alive.values().map(|known| &known.life)).collect();
        qps.sort_by(|a, b| {
            let age = |life: &QpLife| life.control.creation_order();
            (&a.device, a.lqpn, age(a)).cmp(&(&b.device, b.lqpn, age(b)))
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
                unnumbered: self.unnumbered,
                unavailable: unavailable.map(str::to_owned),
                calls: calls.clone(),
            });
            self.changed = false;
        }
        Arc::clone(&self.sampled)
    }
}

impl Alive {
    /// True if the kernel lists queue pairs of its kind: those that processes make by the verbs, except for raw packets
    /// and drivers' own kinds, and others that a list has contained.
    fn is_listable(&self) -> bool {
        let life = &self.life;
        let is_usual = || life.origin == Some(VERBS) && matches!(life.kind, Some("RC" | "UC" | "UD"));
        life.origin != Some(DEVX) && (self.was_listed || is_usual())
    }
}

impl QpControl {
    /// Takes the time of a verb to RTR, or of the first one to RTS after that, which ends the connecting. True if it
    /// changed anything.
    fn connect(&mut self, to: Option<&str>, verb: &Self) -> bool {
        match to {
            Some("RTR") if verb.connect_took_ns.is_some() => self.connect_took_ns = verb.connect_took_ns,
            Some("RTS") if self.connected_ns.is_none() && verb.connected_ns.is_some() => {
                self.connected_ns = verb.connected_ns;
                self.monotonic.connected_ns = verb.monotonic.connected_ns;
                // Unknown when the verb to RTR was not seen.
                let both = self.connect_took_ns.zip(verb.connect_took_ns);
                self.connect_took_ns = both.map(|(earlier, last)| earlier.saturating_add(last));
                return true;
            }
            _ => {}
        }
        false
    }
}

impl QpLife {
    /// False for one that the kernel gives no number: mlx5's DCT, which gets its number from the firmware when it is
    /// connected.
    fn has_number(&self) -> bool {
        self.lqpn != 0 || self.kind == Some("SMI")
    }

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
            known.monotonic.connected_ns = None;
            self.choices.udp_port = None;
        }
        if new.state.is_some() {
            self.state_of = new.state_of;
        }
        let news = [
            known.connect(new.state, &control),
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
            set(&mut known.monotonic.created_ns, control.monotonic.created_ns),
            set(&mut self.choices.priority, new.choices.priority),
            set(&mut self.choices.adaptive_routing, new.choices.adaptive_routing),
            set(&mut self.choices.plane, new.choices.plane),
            set(&mut self.choices.bond_port, new.choices.bond_port),
            set(&mut self.choices.udp_port, new.choices.udp_port),
        ];
        news.contains(&true)
    }
}

#[cfg(test)]
#[path = "lives_tests.rs"]
mod tests;
