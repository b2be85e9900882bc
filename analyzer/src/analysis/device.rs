//! What devices count by themselves, and how much of it rocescope saw.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Kind, Link};
use crate::metrics::control::LinkControl;
use crate::sample::{Direction, FlowSample, Sample, SourceKind};
use crate::source::devices::{Devices, PauseSample, PortSample};
use crate::source::net::lldp::Neighbour;
use crate::source::net::mac_control::station;

/// Queue pairs of a port that the report lists: those that sent and received most.
const MAX_QPS: usize = 4096;
/// Coverage below this is explained.
pub const WHOLE: f64 = 0.99;

/// What a device itself counted, by one source. Never added to totals or flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Device {
    pub name: String,
    pub port: Option<u32>,
    pub source: String,
    pub driver: Option<String>,
    pub interface: Option<String>,
    pub members: Vec<String>,
    pub gone: bool,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    pub counters: BTreeMap<String, u64>,
    pub resets: u64,
    pub pause: Vec<Pause>,
    pub qps: Vec<DeviceQp>,
    pub qp_counters: Vec<DeviceQpCounters>,
    pub qps_left_out: u64,
}

/// Pauses of one priority, one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Pause {
    pub priority: Option<u8>,
    pub direction: Option<&'static str>,
    pub from: Option<String>,
    pub frames: Option<u64>,
    pub resumes: Option<u64>,
    pub quanta: Option<u64>,
    pub paused_ns: Option<u64>,
    pub episodes: Option<u64>,
    pub worst_share: Option<f64>,
    pub least_share: Option<f64>,
    pub most_share: Option<f64>,
    pub worst_frames_per_s: Option<f64>,
    pub longest_ns: Option<u64>,
}

/// A queue pair as the device tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct DeviceQp {
    pub lqpn: u32,
    pub rqpn: Option<u32>,
    pub kind: Option<&'static str>,
    pub state: Option<&'static str>,
    pub pid: Option<u32>,
    pub comm: Option<String>,
    pub pod: Option<String>,
    pub sq_psn: Option<u32>,
    pub rq_psn: Option<u32>,
    pub sent_packets: Option<u64>,
    pub received_packets: Option<u64>,
    pub pause_stall_ns: Option<u64>,
}

/// Counters that the device keeps for one queue pair or several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct DeviceQpCounters {
    pub lqpns: Vec<u32>,
    pub counters: BTreeMap<String, u64>,
}

/// RoCE packets seen, held against what the NIC says it carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Coverage {
    pub device: String,
    pub port: u32,
    pub link: String,
    pub direction: &'static str,
    pub seen_packets: u64,
    pub counted_packets: Option<u64>,
    pub source: Option<String>,
    pub ratio: Option<f64>,
    pub why: Option<String>,
}

impl Pause {
    fn of(pause: &PauseSample) -> Self {
        Self {
            priority: pause.priority,
            direction: Some(if pause.sent { "sent" } else { "received" }),
            from: None,
            frames: pause.frames,
            resumes: None,
            quanta: pause.quanta,
            paused_ns: pause.paused_ns,
            episodes: pause.transitions,
            worst_share: pause.worst_share,
            least_share: pause.least_share,
            most_share: pause.most_share,
            worst_frames_per_s: pause.worst_frames_per_s,
            longest_ns: pause.longest_ns,
        }
    }
}

/// The kind of a source: what devices say is part of it where there are any.
pub(super) fn kind(sample: &Sample, roce_packets: u64) -> Kind {
    let ports = &sample.devices.ports;
    match sample.kind {
        SourceKind::Replay => Kind::Replay,
        SourceKind::Live if ports.is_empty() => Kind::Live,
        SourceKind::Live if sample.links.is_empty() => Kind::Counters,
        SourceKind::Live if roce_packets == 0 && all_hidden(sample) => Kind::Counters,
        SourceKind::Live => Kind::Mixed,
    }
}

/// Whether no packet of RoCE can pass any of the interfaces.
fn all_hidden(sample: &Sample) -> bool {
    let is_hidden = |name: &String| {
        let on = |p: &&PortSample| {
            p.interface.as_ref() == Some(name) || p.members.contains(name) || p.above.contains(name)
        };
        let mut ports = sample.devices.ports.iter().filter(on).peekable();
        ports.peek().is_some() && ports.all(|port| port.hidden)
    };
    sample.inputs.iter().all(is_hidden)
}

/// An entry for each source of each port.
pub(super) fn devices(devices: &Devices) -> Vec<Device> {
    let mut entries = Vec::new();
    for port in &devices.ports {
        let entry = |source: &str| Device {
            name: port.device.clone(),
            port: Some(port.port),
            source: source.to_owned(),
            driver: port.driver.clone(),
            interface: port.interface.clone(),
            members: port.members.clone(),
            gone: port.gone,
            first_ns: port.window.map(|(first, _)| first),
            last_ns: port.window.map(|(_, last)| last),
            ..Device::default()
        };
        let mut of_port: Vec<Device> = Vec::new();
        for counters in &port.counters {
            of_port.push(Device {
                counters: counters.values.iter().cloned().collect(),
                resets: counters.resets,
                ..entry(counters.source)
            });
        }
        let mut put = |source: &str, fill: &mut dyn FnMut(&mut Device)| {
            let at = of_port.iter().position(|known| known.source == source).unwrap_or_else(|| {
                of_port.push(entry(source));
                of_port.len() - 1
            });
            if let Some(known) = of_port.get_mut(at) {
                fill(known);
            }
        };
        if !port.pause.is_empty() {
            put(port.pause_source, &mut |known| known.pause = port.pause.iter().map(Pause::of).collect());
        }
        if !port.qps.is_empty() || !port.qp_counters.is_empty() {
            put("RDMA netlink", &mut |known| queue_pairs(port, known));
        }
        entries.append(&mut of_port);
    }
    entries
}

fn queue_pairs(port: &PortSample, device: &mut Device) {
    let mut busiest: Vec<_> = port.qps.iter().collect();
    if busiest.len() > MAX_QPS {
        busiest.sort_by_key(|qp| std::cmp::Reverse(qp.sent.unwrap_or(0) + qp.received.unwrap_or(0)));
        busiest.truncate(MAX_QPS);
        busiest.sort_by_key(|qp| qp.owner.lqpn);
    }
    let left_out = port.qps.len() - busiest.len();
    device.qps_left_out = port.qps_left_out + left_out as u64;
    device.qps = busiest
        .into_iter()
        .map(|qp| DeviceQp {
            lqpn: qp.owner.lqpn,
            rqpn: qp.owner.rqpn,
            kind: qp.owner.kind,
            state: qp.owner.state,
            pid: qp.owner.pid,
            comm: qp.owner.comm.clone(),
            pod: qp.owner.pod.clone(),
            sq_psn: qp.sq_psn,
            rq_psn: qp.rq_psn,
            sent_packets: qp.sent,
            received_packets: qp.received,
            pause_stall_ns: qp.stalled_ns,
        })
        .collect();
    device.qp_counters = port
        .qp_counters
        .iter()
        .map(|bound| DeviceQpCounters {
            lqpns: bound.lqpns.clone(),
            counters: bound.values.iter().cloned().collect(),
        })
        .collect();
}

/// For each watched port and direction, how much of what it carried was seen.
pub(super) fn coverage(sample: &Sample, links: &[Link]) -> Vec<Coverage> {
    let lost = sample.interface_drops.unwrap_or(0)
        + sample.links.iter().map(|link| link.contended.packets).sum::<u64>();
    let mut found = Vec::new();
    for port in &sample.devices.ports {
        for (way, name, direction) in
            [(Direction::Ingress, "rx_packets", "ingress"), (Direction::Egress, "tx_packets", "egress")]
        {
            let counted = port.value(name).filter(|_| port.seconds().is_some());
            let seen = seen(port, links, way);
            // Where nothing of it is watched, that is what there is to say.
            if seen.links.is_empty() && !sample.links.is_empty() {
                continue;
            }
            let ratio = counted
                .filter(|(packets, _)| *packets > 0)
                .map(|(packets, _)| seen.packets as f64 / packets as f64);
            let why = ratio.filter(|ratio| *ratio < WHOLE).map(|_| why(port, &seen, lost));
            let link =
                if seen.links.is_empty() { port.interface.clone() } else { Some(seen.links.join(", ")) };
            found.push(Coverage {
                device: port.device.clone(),
                port: port.port,
                link: link.unwrap_or_else(|| port.device.clone()),
                direction,
                seen_packets: seen.packets,
                counted_packets: counted.map(|(packets, _)| packets),
                source: counted.map(|(_, source)| source.to_owned()),
                ratio,
                why,
            });
        }
    }
    found
}

/// What was seen of a port in one direction.
struct Seen<'a> {
    packets: u64,
    /// On these interfaces.
    links: Vec<&'a str>,
    /// Interfaces of its bond that are not watched.
    unwatched: Vec<&'a str>,
}

/// On the port's interface, else on the members of the bond that it is, else on what lies on it.
fn seen<'a>(port: &'a PortSample, links: &'a [Link], way: Direction) -> Seen<'a> {
    let on = |name: &str| links.iter().find(|link| link.name == name && link.direction == Some(way));
    if let Some(link) = port.interface.as_deref().and_then(on) {
        return Seen { packets: link.packets, links: vec![&link.name], unwatched: Vec::new() };
    }
    let mut seen = Seen { packets: 0, links: Vec::new(), unwatched: Vec::new() };
    for member in &port.members {
        match on(member) {
            Some(link) => {
                seen.packets += link.packets;
                seen.links.push(&link.name);
            }
            None => seen.unwatched.push(member),
        }
    }
    if seen.links.is_empty() {
        for link in port.above.iter().filter_map(|above| on(above)) {
            seen.packets += link.packets;
            seen.links.push(&link.name);
        }
    }
    seen
}

fn why(port: &PortSample, seen: &Seen<'_>, lost: u64) -> String {
    if seen.links.is_empty() {
        return "no program is attached, so that no packet is seen: the counters are what there is"
            .to_owned();
    }
    if port.hidden {
        return format!(
            "{} handles RoCE in hardware, and neither XDP nor TC on {} sees it: the counters are what there is",
            port.device,
            seen.links.join(", ")
        );
    }
    if seen.links.iter().all(|link| port.above.iter().any(|above| above == link)) {
        return format!(
            "only what passes {} is watched, and the counters are of the whole port; -i {} has all of it",
            seen.links.join(", "),
            port.interface.as_deref().unwrap_or(&port.device)
        );
    }
    if !seen.unwatched.is_empty() {
        return format!(
            "of the bond's members {} {} not watched; name all of them with -i",
            seen.unwatched.join(", "),
            if seen.unwatched.len() == 1 { "is" } else { "are" }
        );
    }
    if lost > 0 {
        return format!("{lost} packets were dropped by the interface or missed while it was busy");
    }
    "packets to the host's own addresses bypass the interfaces, and packets before the programs were attached, or \
     while counters were read, are in one of the two counts only"
        .to_owned()
}

/// The pauses on a link, from its control frames; `None` where they are not read.
pub(super) fn pauses(sample: &Sample, link: u16) -> Option<Vec<Pause>> {
    let control = sample.metrics.control.as_ref()?;
    let of = |control: &LinkControl| -> Vec<Pause> {
        let one = |(from, resumes, pause): &([u8; 6], u64, PauseSample)| Pause {
            direction: None,
            from: Some(station(*from)),
            resumes: Some(*resumes),
            ..Pause::of(pause)
        };
        control.pauses.iter().map(one).collect()
    };
    Some(control.links.get(&link).map(of).unwrap_or_default())
}

/// How long a flow stood still for pauses; `None` where its link had none that could be read, or its speed is not known.
pub(super) fn stalled(sample: &Sample, flow: &FlowSample) -> Option<u64> {
    let control = sample.metrics.control.as_ref()?;
    let stalled = control.stalled.as_ref()?;
    let paused = control.links.get(&flow.key.link).filter(|link| !link.pauses.is_empty());
    paused.map(|_| stalled.get(&flow.slot).copied().unwrap_or(0))
}

/// What was heard over LLDP on a link.
pub(super) fn neighbours(sample: &Sample, number: u16) -> Vec<Neighbour> {
    let control = sample.metrics.control.as_ref();
    if let Some(control) = control.and_then(|control| control.links.get(&number)) {
        return control.neighbours.clone();
    }
    let Some(link) = sample.links.get(usize::from(number)) else { return Vec::new() };
    let heard = sample.devices.neighbours.iter().filter(|(name, _)| *name == link.name);
    heard.filter(|_| link.direction == Some(Direction::Ingress)).map(|(_, heard)| heard.clone()).collect()
}

/// The worst coverage of all ports; `None` where none is known.
#[must_use]
pub fn worst(coverage: &[Coverage]) -> Option<f64> {
    coverage.iter().filter_map(|one| one.ratio).reduce(f64::min)
}
