//! Rows of devices: counters, queue pairs, events of the control path.

use std::collections::BTreeMap;

use super::qp::{MOST, is_seen};
use super::{Interval, Origin, text};
use crate::analysis::{Device, DeviceQp, QpSource, own_port};
use crate::record::cell::Time;
use crate::record::registry::{DeviceSecond, Event, QpLife, Rows};
use crate::report::Report;
use crate::sample::Sample;
use crate::util::map::{Map, Set};
use crate::util::shared::Shared;

/// Device, port, source, counter, direction and priority.
type CounterKey = (String, Option<u32>, String, String, Option<&'static str>, Option<u8>);
/// Device, queue pair number, port of one for management, and time of creation.
type QpKey = (String, u32, Option<u32>, Option<u64>);

/// State of the devices at the latest report.
#[derive(Debug, Default)]
pub(super) struct Devices {
    counters: BTreeMap<CounterKey, u64>,
    /// The latest row of each, and whether it is in the latest report.
    qps: Map<QpKey, (QpLife, bool)>,
    /// Events of the control path that were seen, those included that left its list.
    events_seen: u64,
}

impl Devices {
    /// Adds the rows of the devices. Returns the number of events that left the list before they were seen.
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        (sample, report): (&Sample, &Report),
        rows: &mut Rows,
    ) -> u64 {
        self.qps.values_mut().for_each(|(_, present)| *present = false);
        for device in &report.facts.devices {
            self.counters(origin, at, device, &mut rows.device_seconds);
            self.qps(origin, at, device, &mut rows.qp_lives);
        }
        // A report that lists a part of them may list the others again.
        let is_part = report.facts.devices.iter().any(|device| device.qps_left_out > 0);
        let all_present = self.qps.values().all(|(_, present)| *present);
        if all_present || is_part && self.qps.len() <= MOST {
            return self.events(origin, sample, &mut rows.events);
        }
        let present = self.qps.iter().filter(|(_, (_, present))| *present);
        let numbers: Set<(String, u32, Option<u32>)> =
            present.map(|((device, lqpn, port, _), _)| (device.clone(), *lqpn, *port)).collect();
        self.qps.retain(|(device, lqpn, port, _), (life, present)| {
            // A row of another queue pair with the number, or of itself without its creation, replaces it.
            let is_replaced = || numbers.contains(&(device.clone(), *lqpn, *port));
            if !*present && life.ended.is_none() && !is_replaced() {
                rows.qp_lives.push(QpLife { t: at.t, gone: Some(1), ..life.clone() });
            }
            *present
        });
        self.events(origin, sample, &mut rows.events)
    }

    /// Rows of the queue pairs that have none since `first_ns`, as of that time.
    pub(super) fn before(&self, first_ns: u64) -> impl Iterator<Item = QpLife> {
        let older = self.qps.values().filter(move |(life, _)| life.t.0 < first_ns);
        older.map(move |(life, _)| QpLife { t: Time(first_ns), ..life.clone() })
    }

    fn counters(&mut self, origin: &Origin, at: Interval, device: &Device, rows: &mut Vec<DeviceSecond>) {
        let plain = device.counters.iter().map(|(name, value)| (name.as_str(), *value, None, None));
        let pauses = device.pause.iter().flat_map(|pause| {
            let figures = [
                ("pause_frames", pause.frames),
                ("pause_ns", pause.paused_ns),
                ("pause_episodes", pause.episodes),
            ];
            let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
            known.map(|(name, value)| (name, value, pause.direction, pause.priority))
        });
        for (name, value, direction, priority) in plain.chain(pauses) {
            let key = (
                device.name.clone(),
                device.port,
                device.source.clone(),
                name.to_owned(),
                direction,
                priority,
            );
            let before = self.counters.insert(key, value).unwrap_or(0);
            let delta = value.saturating_sub(before);
            if delta == 0 {
                continue;
            }
            rows.push(DeviceSecond {
                t: at.t,
                interval_ns: at.ns,
                host: origin.host.clone(),
                job: origin.job.clone(),
                device: device.name.as_str().into(),
                port: device.port.map(Into::into),
                netdev: text(device.interface.as_deref()),
                driver: text(device.driver.as_deref()),
                source: device.source.as_str().into(),
                counter: name.into(),
                direction: text(direction),
                priority: priority.map(Into::into),
                delta,
            });
        }
    }

    fn qps(&mut self, origin: &Origin, at: Interval, device: &Device, rows: &mut Vec<QpLife>) {
        for qp in device.qps.iter().filter(|qp| is_seen(qp)) {
            let now = life(origin, at, device, qp);
            let port = own_port(qp.lqpn, device.port);
            let key = (device.name.clone(), qp.lqpn, port, qp.control.created_ns);
            if let Some((known, present)) = self.qps.get_mut(&key) {
                *present = true;
                if *known == (QpLife { t: known.t, ..now.clone() }) {
                    continue;
                }
            }
            rows.push(now.clone());
            self.qps.insert(key, (now, true));
        }
    }

    /// Adds the events since the previous sample: by their number, since the clock may step back.
    fn events(&mut self, origin: &Origin, sample: &Sample, rows: &mut Vec<Event>) -> u64 {
        let lives = &sample.devices.lives;
        let seen = self.events_seen;
        self.events_seen = lives.next_number(seen);
        rows.extend(lives.events.iter().filter(|event| event.number >= seen).map(|event| Event {
            t: Time(event.time_ns),
            host: origin.host.clone(),
            job: origin.job.clone(),
            event: event.event.as_str().into(),
            device: text(Some(&event.device)),
            lqpn: event.lqpn.map(Into::into),
            src: event.src.map(Into::into),
            dst: event.dst.map(Into::into),
            errno: event.errno.map(Into::into),
            pid: event.pid.map(Into::into),
            comm: text(event.comm.as_deref()),
            reason: text(event.reason.as_deref()),
            duration_ns: event.duration_ns,
            ..Event::default()
        }));
        let first = lives.events.first().map_or(seen, |first| first.number);
        first.saturating_sub(seen).min(lives.events_left_out)
    }
}

fn life(origin: &Origin, at: Interval, device: &Device, qp: &DeviceQp) -> QpLife {
    let control = &qp.control;
    let is_over = control.is_over() || qp.state == Some("ERR");
    QpLife {
        t: at.t,
        host: origin.host.clone(),
        job: origin.job(qp.pod.as_deref()),
        pod: text(qp.pod.as_deref()),
        device: device.name.as_str().into(),
        port: device.port.map(Into::into),
        netdev: text(device.interface.as_deref()),
        lqpn: qp.lqpn.into(),
        rqpn: qp.rqpn.map(Into::into),
        kind: text(qp.kind),
        origin: text(qp.origin),
        state: text(qp.state),
        pid: qp.pid.map(Into::into),
        comm: text(qp.comm.as_deref()),
        created: control.created_ns.map(Time),
        ended: control.ended_ns.map(Time),
        end_reason: text(device.end_reason(qp).filter(|_| is_over)),
        src: control.src.map(Into::into),
        dst: control.dst.map(Into::into),
        udp_port: control.udp_port.map(Into::into),
        dscp: control.dscp.map(Into::into),
        path_mtu: control.path_mtu.map(Into::into),
        timeout_ns: control.timeout_ns,
        retry_cnt: control.retry_cnt.map(Into::into),
        rnr_retry: control.rnr_retry.map(Into::into),
        connected: control.connected_ns.map(Time),
        priority: qp.priority.map(Into::into),
        plane: qp.plane.map(Into::into),
        bond_port: qp.bond_port.map(Into::into),
        end_kind: text(control.end),
        sources: sources(qp),
        gone: None,
    }
}

/// Names of the sources of a queue pair, without packets, which flows show; `None` without any.
fn sources(qp: &DeviceQp) -> Option<Shared> {
    let known = qp.sources.iter().filter(|source| **source != QpSource::Packets);
    let names: Vec<&str> = known.map(|source| source.name()).collect();
    (!names.is_empty()).then(|| names.join(",").as_str().into())
}
