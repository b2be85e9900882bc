//! Queue pairs of a recording: their states, and what was counted of them.
//!
//! A row goes to where the live source would have put it, by the sources that it names: the kernel's list, the control
//! path, the NIC's own context. The analysis joins them as it does live.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use super::limits::{Limits, Total};
use crate::entity::contexts::{Blamed, ContextSample, Contexts};
use crate::entity::devices::{PortSample, QpSample, QpSource};
use crate::entity::lives::{
    DESTROYED, DEVX, ERROR, GONE, KERNEL, Lives, NUMBER_REUSED, PathChoices, QpControl, QpEvent, QpLife,
    VERBS, own_port,
};
use crate::entity::owners::QpOwner;
use crate::host::rdma::nldev::{kind_name, state_name};
use crate::record::registry::{self, QpSecond};
use crate::sample::Address;
use crate::util::shared::Shared;

/// Maximum number of events kept; the oldest leave first.
const MOST_EVENTS: usize = 4_096;

/// Maximum number of queue pairs kept that ended; the oldest leave first.
const MOST_ENDED: usize = 4_096;

/// Device and number of a queue pair; of one for management also the port.
type Key = (Shared, u64, Option<u64>);

fn key(device: &Shared, lqpn: u64, port: Option<u64>) -> Key {
    (device.clone(), lqpn, own_port(lqpn, port))
}

/// Converts a number of a column; `none` if unknown or out of range.
pub(super) fn small<T: TryFrom<u64>>(number: Option<u64>, none: T) -> T {
    number.and_then(|number| T::try_from(number).ok()).unwrap_or(none)
}

/// Queue pairs so far.
#[derive(Debug, Default)]
pub(super) struct QueuePairs {
    /// Those that exist, by device and number.
    states: BTreeMap<Key, registry::QpLife>,
    /// Those that ended, the oldest first.
    ended: VecDeque<registry::QpLife>,
    /// The latest row of each, with the sums of its counts, and its rows in which PSNs may have wrapped.
    counts: BTreeMap<Key, (QpSecond, u64)>,
    events: Vec<QpEvent>,
    events_left_out: u64,
    pub(super) limits: Limits,
    /// Of `counts`.
    total: Total,
    /// Rows beyond them.
    pub(super) left_out: u64,
}

impl QueuePairs {
    /// Takes in a state, which replaces an earlier one of the number. Those that ended before the range are left out.
    pub(super) fn life(&mut self, row: &registry::QpLife, is_in_range: bool) {
        if self.limits.exclude(names(row)) {
            self.left_out += 1;
            return;
        }
        let key = key(&row.device, row.lqpn, row.port);
        let is_over = life(row).control.is_over();
        if is_over || row.gone == Some(1) {
            if self.states.get(&key).is_some_and(|known| !is_other(known, row)) {
                self.states.remove(&key);
                self.counts.remove(&key);
            }
            if is_over && is_in_range {
                // Its reason may come later.
                self.ended.retain(|known| {
                    (&known.device, known.lqpn, known.created) != (&row.device, row.lqpn, row.created)
                });
                self.ended.push_back(row.clone());
                if self.ended.len() > MOST_ENDED {
                    self.ended.pop_front();
                }
            }
            return;
        }
        if self.states.get(&key).is_some_and(|known| is_other(known, row)) {
            self.counts.remove(&key);
        }
        if self.states.len() >= self.limits.qps && !self.states.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        self.states.insert(key, row.clone());
    }

    /// Takes in the counts of an interval.
    pub(super) fn counted(&mut self, row: &QpSecond) {
        let key = key(&row.device, row.lqpn, row.port);
        let names = [&row.job, &row.pod, &row.netdev, &row.rail, &row.comm, &row.attribution];
        let names = names.map(Option::as_ref).into_iter().chain([&row.host, &row.device].map(Some));
        let is_beyond = self.counts.len() >= self.limits.qps && !self.counts.contains_key(&key);
        let counts = [
            row.sent_packets,
            row.received_packets,
            row.readings,
            row.retrying_readings,
            row.rnr_retrying_readings,
            row.exhausted_readings,
            row.timeouts,
            row.sequence_errors,
            row.pause_stall_ns,
        ];
        let counts = counts.into_iter().flatten();
        if is_beyond || self.limits.exclude(names) || !self.total.take(self.limits.count, counts) {
            self.left_out += 1;
            return;
        }
        let (sums, mut ambiguous) = match self.counts.get(&key) {
            Some((sums, ambiguous)) => (Some(sums), *ambiguous),
            None => (None, 0),
        };
        let is_known = |row: &QpSecond| row.sent_packets.or(row.received_packets).is_some();
        // Whichever comes first: the sum lacks the packets of a row without a count.
        ambiguous += u64::from(sums.is_some_and(|sums| is_known(sums) != is_known(row)));
        let sum = |of: fn(&QpSecond) -> Option<u64>| {
            let before = sums.and_then(of);
            of(row).map(|new| before.unwrap_or(0).saturating_add(new)).or(before)
        };
        let sums = QpSecond {
            sent_packets: sum(|row| row.sent_packets),
            received_packets: sum(|row| row.received_packets),
            readings: sum(|row| row.readings),
            retrying_readings: sum(|row| row.retrying_readings),
            rnr_retrying_readings: sum(|row| row.rnr_retrying_readings),
            exhausted_readings: sum(|row| row.exhausted_readings),
            timeouts: sum(|row| row.timeouts),
            sequence_errors: sum(|row| row.sequence_errors),
            pause_stall_ns: sum(|row| row.pause_stall_ns),
            ..row.clone()
        };
        self.counts.insert(key, (sums, ambiguous));
    }

    /// Takes in an event of the control path.
    pub(super) fn event(&mut self, row: &registry::Event) {
        let Some(device) = row.device.as_deref() else { return };
        if self.limits.exclude([
            row.device.as_ref(),
            Some(&row.event),
            row.reason.as_ref(),
            row.comm.as_ref(),
        ]) {
            self.left_out += 1;
            return;
        }
        if self.events.len() >= MOST_EVENTS {
            self.events.remove(0);
            self.events_left_out += 1;
        }
        self.events.push(QpEvent {
            number: self.events_left_out + self.events.len() as u64,
            device: device.to_owned(),
            port: None,
            time_ns: row.t.0,
            lqpn: number(row.lqpn),
            event: row.event.as_str().to_owned(),
            reason: owned(row.reason.as_ref()),
            errno: row.errno.and_then(|errno| i32::try_from(errno).ok()),
            duration_ns: row.duration_ns,
            pid: number(row.pid),
            comm: owned(row.comm.as_ref()),
            src: ip(row.src),
            dst: ip(row.dst),
            ..QpEvent::default()
        });
    }

    /// Adds what the kernel lists to the ports, which may be new.
    pub(super) fn list(&self, ports: &mut BTreeMap<(String, u32), PortSample>) {
        let mut lists: BTreeMap<(String, u32), Vec<QpSample>> = BTreeMap::new();
        for row in self.states.values() {
            let port = (row.device.as_str().to_owned(), small(row.port, 0));
            let at = ports.entry(port.clone()).or_insert_with(|| PortSample {
                device: port.0.clone(),
                port: port.1,
                ..PortSample::default()
            });
            at.interface = at.interface.take().or_else(|| owned(row.netdev.as_ref()));
            // Only hardware has contexts.
            at.hidden |= has(row, QpSource::Context);
            if has(row, QpSource::Netlink) {
                lists.entry(port).or_default().push(self.listed(row));
            }
        }
        for (port, qps) in lists {
            if let Some(port) = ports.get_mut(&port) {
                port.qps = Arc::new(qps);
            }
        }
    }

    fn listed(&self, row: &registry::QpLife) -> QpSample {
        let key = key(&row.device, row.lqpn, row.port);
        let (counts, ambiguous) = self.counts.get(&key).map(|(counts, n)| (counts, *n)).unzip();
        // With a context, the counts are its own.
        let own = counts.filter(|_| !has(row, QpSource::Context));
        QpSample {
            owner: QpOwner {
                device: row.device.as_str().to_owned(),
                lqpn: small(Some(row.lqpn), 0),
                rqpn: number(row.rqpn),
                kind: kind(row.kind.as_deref()),
                state: state(row.state.as_deref()),
                pid: number(row.pid),
                comm: owned(row.comm.as_ref()),
                pod: owned(row.pod.as_ref()),
            },
            sent: own.and_then(|counts| counts.sent_packets),
            received: own.and_then(|counts| counts.received_packets),
            ambiguous: ambiguous.unwrap_or(0),
            stalled_ns: counts.and_then(|counts| counts.pause_stall_ns),
            ..QpSample::default()
        }
    }

    /// Queue pairs as the control path showed them.
    pub(super) fn lives(&self) -> Lives {
        // Of an older version, only what the control path alone knows shows that it was seen there.
        let on_path = |row: &&registry::QpLife| match row.sources {
            None => row.created.is_some() || row.origin.is_some(),
            Some(_) => {
                has(row, QpSource::ControlPath) || has(row, QpSource::Devx) || !has(row, QpSource::Netlink)
            }
        };
        Lives {
            qps: Arc::new(self.ended.iter().chain(self.states.values()).filter(on_path).map(life).collect()),
            events: self.events.clone(),
            events_left_out: self.events_left_out,
            ..Lives::default()
        }
    }

    /// Queue pairs as the NIC's own contexts showed them.
    pub(super) fn contexts(&self) -> Contexts {
        let read = self.states.values().filter(|row| has(row, QpSource::Context));
        let qps = read.filter_map(|row| {
            let (counts, ambiguous) = self.counts.get(&key(&row.device, row.lqpn, row.port))?;
            let attributed = counts.timeouts.zip(counts.sequence_errors);
            let mut context = ContextSample {
                device: row.device.as_str().to_owned(),
                port: small(row.port, 0),
                lqpn: small(Some(row.lqpn), 0),
                src: ip(row.src),
                read_ns: counts.t.0,
                readings: counts.readings.unwrap_or(0),
                sent: counts.sent_packets,
                received: counts.received_packets,
                ambiguous: *ambiguous,
                in_flight: number(counts.in_flight),
                stuck_ns: counts.stuck_ns,
                retries_used: number(counts.retries_used),
                rnr_retries_used: number(counts.rnr_retries_used),
                retrying: counts.retrying_readings.unwrap_or(0),
                rnr_retrying: counts.rnr_retrying_readings.unwrap_or(0),
                receives_exhausted: counts.exhausted_readings.unwrap_or(0),
                blamed: attributed.map(|(timeouts, sequence_errors)| Blamed {
                    timeouts,
                    sequence_errors,
                    certain: counts.attribution.as_deref() == Some("certain"),
                }),
                ..ContextSample::default()
            };
            context.context.dst = ip(row.dst);
            context.context.unsent = number(counts.unsent_wqes);
            context.context.posted_receives = number(counts.posted_receives);
            Some(context)
        });
        Contexts { qps: qps.collect(), ..Contexts::default() }
    }
}

/// The texts of a row.
fn names(row: &registry::QpLife) -> impl Iterator<Item = Option<&Shared>> {
    let about = [&row.kind, &row.origin, &row.state, &row.end_reason, &row.end_kind, &row.sources];
    let of = [&row.job, &row.pod, &row.netdev, &row.comm];
    let known = about.into_iter().chain(of).map(Option::as_ref);
    known.chain([&row.host, &row.device].map(Some))
}

/// True if two rows of a number are of different queue pairs: of a queue pair that is listed first, the creation is
/// known later.
fn is_other(known: &registry::QpLife, row: &registry::QpLife) -> bool {
    let differ =
        |one: Option<u64>, other: Option<u64>| one.zip(other).is_some_and(|(one, other)| one != other);
    let created = |of: &registry::QpLife| of.created.map(|time| time.0);
    differ(created(known), created(row)) || differ(known.rqpn, row.rqpn) || differ(known.pid, row.pid)
}

fn life(row: &registry::QpLife) -> QpLife {
    QpLife {
        device: row.device.as_str().to_owned(),
        lqpn: small(Some(row.lqpn), 0),
        origin: [VERBS, KERNEL, DEVX].into_iter().find(|one| row.origin.as_deref() == Some(one)),
        port: number(row.port),
        kind: kind(row.kind.as_deref()),
        state: state(row.state.as_deref()),
        state_of: None,
        pid: number(row.pid),
        comm: owned(row.comm.as_ref()),
        pod: owned(row.pod.as_ref()),
        rqpn: number(row.rqpn),
        control: QpControl {
            src: ip(row.src),
            dst: ip(row.dst),
            udp_port: number(row.udp_port),
            dscp: number(row.dscp),
            path_mtu: number(row.path_mtu),
            timeout_ns: row.timeout_ns,
            retry_cnt: number(row.retry_cnt),
            rnr_retry: number(row.rnr_retry),
            created_ns: row.created.map(|time| time.0),
            connected_ns: row.connected.map(|time| time.0),
            ended_ns: row.ended.map(|time| time.0),
            end: [DESTROYED, ERROR, NUMBER_REUSED, GONE]
                .into_iter()
                .find(|one| row.end_kind.as_deref() == Some(one)),
            ..QpControl::default()
        },
        choices: PathChoices {
            priority: number(row.priority),
            adaptive_routing: None,
            plane: number(row.plane),
            bond_port: number(row.bond_port),
            udp_port: None,
        },
    }
}

/// True if this source is among those of a row.
fn has(row: &registry::QpLife, source: QpSource) -> bool {
    row.sources.as_deref().is_some_and(|all| all.split(',').any(|one| one == source.name()))
}

fn kind(name: Option<&str>) -> Option<&'static str> {
    (0..=u8::MAX).filter_map(kind_name).find(|one| Some(*one) == name)
}

fn state(name: Option<&str>) -> Option<&'static str> {
    (0..=u8::MAX).map_while(state_name).find(|one| Some(*one) == name)
}

fn number<T: TryFrom<u64>>(number: Option<u64>) -> Option<T> {
    T::try_from(number?).ok()
}

fn owned(text: Option<&Shared>) -> Option<String> {
    text.map(|text| text.as_str().to_owned())
}

fn ip(address: Option<Address>) -> Option<IpAddr> {
    match address? {
        Address::Ip(ip) => Some(ip),
        Address::Lid(_) => None,
    }
}

#[cfg(test)]
#[path = "qps_tests.rs"]
mod tests;
