//! Queue pairs of NICs in a trace: a process per port, a thread per queue pair. Of a NIC that processes RoCE itself
//! they are all that a trace has.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::{Entry, PROCESSES, named, slice};
use crate::analysis::{Device, DeviceQp, QpEvent};
use crate::report::Report;
use crate::util::layout::plain;
use crate::util::map::Set;

/// Maximum number of queue pairs with a track: those with events, in trouble, then the busiest.
pub(super) const MOST_QPS: usize = 4_000;
/// First process id of ports, above those of links, which have 16-bit numbers.
const PORTS: u64 = PROCESSES + 100_000;
/// The thread of events of the port, and of queue pairs without a track.
const EVENTS: u64 = 1;

/// Adds the queue pairs and events of all ports. Returns the number of queue pairs without a track.
pub(super) fn of_devices(report: &Report, names: &mut Vec<Entry>, entries: &mut Vec<Entry>) -> u64 {
    let devices = &report.facts.devices;
    let window = (report.facts.window.first_ns, report.facts.window.last_ns);
    let mut order: Vec<((usize, usize), &DeviceQp)> = Vec::new();
    let mut with_events: Set<(usize, u32)> = Set::default();
    for (at, device) in devices.iter().enumerate() {
        order.extend(device.qps.iter().enumerate().map(|(number, qp)| ((at, number), qp)));
        with_events.extend(device.qp_events.iter().filter_map(|event| Some((at, event.lqpn?))));
    }
    let all = order.len();
    order.sort_by_cached_key(|((at, _), qp)| Reverse((with_events.contains(&(*at, qp.lqpn)), qp.rank())));
    order.truncate(MOST_QPS);
    let chosen: Set<(usize, usize)> = order.into_iter().map(|(place, _)| place).collect();
    let mut shown = 0;
    for (at, device) in devices.iter().enumerate() {
        if device.qps.is_empty() && device.qp_events.is_empty() {
            continue;
        }
        let mut track = Track { pid: PORTS + at as u64, device, lives: Vec::new() };
        named(names, track.pid, None, &format!("NIC {}", device.label()));
        for (number, qp) in
            device.qps.iter().enumerate().filter(|(number, _)| chosen.contains(&(at, *number)))
        {
            let Some(span) = life(device, qp, window) else { continue };
            let tid = EVENTS + 1 + number as u64;
            named(names, track.pid, Some(tid), &title(qp));
            track.queue_pair(tid, qp, span, entries);
            shown += 1;
        }
        track.events(names, entries);
    }
    let left_out: u64 = devices.iter().map(|device| device.qps_left_out).sum();
    (all - shown) as u64 + left_out
}

/// The queue pairs of a port that have a thread, each with that.
struct Track<'a> {
    pid: u64,
    device: &'a Device,
    lives: Vec<(&'a DeviceQp, u64)>,
}

fn title(qp: &DeviceQp) -> String {
    let peer = qp.control.dst.map_or_else(String::new, |dst| format!(" {dst}"));
    let other = qp.rqpn.map_or_else(String::new, |rqpn| format!(" QP {rqpn}"));
    let arrow = if peer.is_empty() && other.is_empty() { "" } else { " →" };
    format!("QP {}{arrow}{peer}{other}", qp.lqpn)
}

/// Beginning and end of a queue pair, as far as the run saw them; `None` if no time is known.
fn life(
    device: &Device,
    qp: &DeviceQp,
    (first_ns, last_ns): (Option<u64>, Option<u64>),
) -> Option<(u64, u64)> {
    let control = &qp.control;
    let from_ns = control.created_ns.or(first_ns)?;
    // Its end was not seen: it was before the next one of its number.
    let next = || {
        let same = device.qps.iter().filter(|other| other.lqpn == qp.lqpn);
        same.filter_map(|other| other.control.created_ns).filter(|created_ns| *created_ns > from_ns).min()
    };
    let to_ns = match control.over_by() {
        None if control.is_over() => next(),
        None => last_ns.max(qp.context_ns),
        ended_ns => ended_ns,
    };
    Some((from_ns, to_ns.unwrap_or(from_ns).max(from_ns)))
}

impl<'a> Track<'a> {
    /// Adds the life of a queue pair, and what it did.
    fn queue_pair(&mut self, tid: u64, qp: &'a DeviceQp, span: (u64, u64), entries: &mut Vec<Entry>) {
        self.lives.push((qp, tid));
        entries.push(slice(self.pid, tid, span, "queue pair".into(), figures(qp)));
        if let Some((read_ns, stuck_ns)) = qp.context_ns.zip(qp.stuck_ns.filter(|ns| *ns > 0)) {
            let within = |ns: u64| ns.clamp(span.0, span.1);
            let stuck = (within(read_ns.saturating_sub(stuck_ns)), within(read_ns));
            let args = json!({ "at_least_ns": stuck_ns, "in_flight_packets": qp.in_flight });
            entries.push(slice(self.pid, tid, stuck, "no packet acknowledged".into(), args));
        }
        if let Some(time_ns) = qp.control.connected_ns {
            let args = json!({ "connect_took_ns": qp.control.connect_took_ns });
            entries.push(self.instant(tid, time_ns, "connected".into(), args));
        }
    }

    fn instant(&self, tid: u64, time_ns: u64, name: String, args: Value) -> Entry {
        Entry { pid: self.pid, tid, time_ns, length_ns: None, phase: 'i', name, args }
    }

    /// Adds events and failed verbs, each to its queue pair.
    fn events(&self, names: &mut Vec<Entry>, entries: &mut Vec<Entry>) {
        let mut is_named = false;
        for event in &self.device.qp_events {
            let tid = self.thread_of(event).unwrap_or(EVENTS);
            if tid == EVENTS && !std::mem::replace(&mut is_named, true) {
                named(names, self.pid, Some(EVENTS), "events");
            }
            let failed = if event.errno.is_some() { " failed" } else { "" };
            let name = format!("{}{failed}", event.event);
            entries.push(self.instant(tid, event.time_ns, name, of_event(event)));
        }
    }

    /// The thread of the queue pair that existed then, else of the latest with its number.
    fn thread_of(&self, event: &QpEvent) -> Option<u64> {
        let same = || self.lives.iter().filter(|(qp, _)| Some(qp.lqpn) == event.lqpn);
        let then = same().filter(|(qp, _)| qp.control.lived_at(event));
        let then = then.max_by_key(|(qp, _)| qp.control.creation_order());
        then.or_else(|| same().next_back()).map(|(_, tid)| *tid)
    }
}

/// Figures of a queue pair, with the names of the report and their units.
fn figures(qp: &DeviceQp) -> Value {
    let control = &qp.control;
    json!({
        "sources": qp.sources,
        "state": qp.state,
        "end": control.end,
        "transport": qp.kind,
        "origin": qp.origin,
        "src": control.src,
        "dst": control.dst,
        "dest_qp": qp.rqpn,
        "udp_port": control.udp_port,
        "dscp": control.dscp,
        "path_mtu_bytes": control.path_mtu,
        "timeout_ns": control.timeout_ns,
        "retry_cnt": control.retry_cnt,
        "rnr_retry": control.rnr_retry,
        "created_unix_ns": control.created_ns,
        "sent_packets": qp.sent_packets,
        "received_packets": qp.received_packets,
        "ambiguous_readings": qp.ambiguous_readings,
        "in_flight_packets": qp.in_flight,
        "stuck_ns": qp.stuck_ns,
        "retries_used": qp.retries_used,
        "rnr_retries_used": qp.rnr_retries_used,
        "timeouts": qp.timeouts,
        "pid": qp.pid,
        "process": qp.comm.as_deref().map(plain),
        "pod": qp.pod.as_deref().map(plain),
    })
}

fn of_event(event: &QpEvent) -> Value {
    let error = event.errno.map(|errno| std::io::Error::from_raw_os_error(errno).to_string());
    json!({
        "lqpn": event.lqpn,
        "dead": event.is_death(),
        "reason": event.reason.as_deref().map(plain),
        "errno": event.errno,
        "error": error,
        "duration_ns": event.duration_ns,
        "src": event.src,
        "dst": event.dst,
        "pid": event.pid,
        "process": event.comm.as_deref().map(plain),
    })
}
