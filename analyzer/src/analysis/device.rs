//! Counters of devices, and the share of their traffic that rocescope saw.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{DeviceQp, InputKind, Link};
use crate::entity::contexts::ContextSample;
use crate::entity::devices::{self, Devices, PauseSample, PortSample};
use crate::entity::lives::{Lives, QpEvent, QpLife, TO_ERROR};
use crate::entity::pauses::PauseIntervals;
use crate::ethernet::lldp::Neighbour;
use crate::ethernet::mac_control::station;
use crate::metrics::control::LinkControl;
use crate::sample::{Direction, FlowSample, Sample, SourceKind};
use crate::util::definition::definitions;

/// Queue pairs of a port that the report lists: those that stand still, and those that sent and received most.
const MAX_QPS: usize = 4096;
definitions! {
    pub WHOLE: f64 = 0.99,
        "Share of a NIC's packets seen here, below which a reason is given",
        "Counters and packets are read at slightly different times";
}

/// Counters of one port of an RDMA device by one source. Never added to totals or flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// Name of the RDMA device.
    pub name: String,
    /// Port of the device. Null: the counters are not of one port.
    pub port: Option<u32>,
    /// Source of the counters: `sysfs counters`, `sysfs hw_counters`, `RDMA netlink`, `ethtool`, or `DCB
    /// netlink` (pauses of drivers without statistics of their own).
    pub source: String,
    /// RDMA driver: `mlx5_ib`, `bnxt_re`, `irdma`, `rxe` … Null: not known.
    pub driver: Option<String>,
    /// Version of the device's firmware, at the start of the run. Null: not known.
    pub firmware: Option<String>,
    /// Link layer of the port: `Ethernet` or `InfiniBand`. Null: not known.
    pub link_layer: Option<String>,
    /// PCI address of the device. Null: a software device, or not known.
    pub pci_address: Option<String>,
    /// NUMA node of the device. Null: the host has one, or not known.
    pub numa_node: Option<u64>,
    /// Speed of the port, at the start of the run. Unit: Mb/s. Null: not known.
    pub speed_mbps: Option<u64>,
    /// Network interface of the port. Null: not known.
    pub interface: Option<String>,
    /// Pod, container or Slurm job in whose network namespace the port's interface is, as for an SR-IOV function that
    /// it was given. Null: it is not in that of one, or not known.
    pub pod: Option<String>,
    /// Name of the port's interface in that pod. Null: no such pod, or not known.
    pub pod_interface: Option<String>,
    /// Interfaces of the port's bond, whose Ethernet counters are summed. Empty without a bond.
    pub members: Vec<String>,
    /// The device disappeared during the run; its counts up to then stay.
    pub gone: bool,
    /// First reading of the counters. Unit: Unix ns. Null: none yet.
    pub first_ns: Option<u64>,
    /// Last reading of the counters. Unit: Unix ns. Null: none yet.
    pub last_ns: Option<u64>,
    /// Increase of each counter since the first reading. Names are the same for all drivers, those of `Port counters`
    /// in docs/metrics.md; `prio0_rx_packets`, `prio0_rx_bytes`, `prio0_tx_packets`, `prio0_tx_bytes` to those of
    /// priority 7 are of the port, all traffic. Other counters have the driver's name. 32-bit counters may wrap. A
    /// counter that is absent is not known. Unit: as named.
    pub counters: BTreeMap<String, u64>,
    /// Times at which counters of this entry decreased (driver reloaded, manual reset): counts since the
    /// reading before are lost. Unit: times.
    pub resets: u64,
    /// Pauses by priority and direction, as the driver or DCB counts them.
    pub pause: Vec<Pause>,
    /// Queue pairs of the port, from RDMA netlink, the kernel's control path and the NIC's own context: the 4,096
    /// busiest and those that stand still, by number.
    pub qps: Vec<DeviceQp>,
    /// Asynchronous events and failed verbs of the port's queue pairs, and events of the port, from the
    /// kernel's control path: the latest 4,096.
    pub qp_events: Vec<QpEvent>,
    /// Counters that the device keeps per queue pair or group of queue pairs (`rdma statistic qp`).
    pub qp_counters: Vec<DeviceQpCounters>,
    /// Queue pairs of the port that are not listed. Unit: queue pairs.
    pub qps_left_out: u64,
    /// Those of them that are known: figures and findings about all queue pairs count them, too.
    #[serde(skip)]
    pub unlisted: Vec<DeviceQp>,
}

/// Pauses of one priority in one direction: from MAC control frames in a capture (`links[].pause`), or as a
/// driver or DCB counts them (`devices[].pause`).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pause {
    /// Priority of the PFC frames, 0 to 7. Null: the whole link (global pause, IEEE 802.3x).
    pub priority: Option<u8>,
    /// `received`: the neighbour paused this port. `sent`: this port paused the neighbour. Null: in
    /// `links[]`, where `from` names the station.
    pub direction: Option<&'static str>,
    /// Hardware address of the station that requests the pauses. Null: in `devices[]`.
    pub from: Option<String>,
    /// Frames that request a pause (quanta above 0). Unit: frames. Null: the driver does not count them.
    pub frames: Option<u64>,
    /// Frames that end a pause at once (quanta 0). Unit: frames. Null: in `devices[]`: drivers do not count
    /// them.
    pub resumes: Option<u64>,
    /// Sum of the requested quanta, of 512 bit times each at the link's speed. Unit: quanta. Null: in
    /// `devices[]`: drivers do not count them.
    pub quanta: Option<u64>,
    /// Time paused. In `links[]`: from each frame to the next of its priority, or until its quanta have
    /// passed at `--link-speed`. Unit: ns. Null: `--link-speed` is not given, or the driver does not count
    /// it.
    pub paused_ns: Option<u64>,
    /// Changes from running to paused. Unit: episodes. Null: `--link-speed` is not given, or the driver does
    /// not count them.
    pub episodes: Option<u64>,
    /// Largest share of time paused: in a window of 100 ms (`links[]`), or between two readings
    /// (`devices[]`). Unit: ratio. Null: as `paused_ns`; in `devices[]` also: fewer than two readings.
    pub worst_share: Option<f64>,
    /// Lower bound of `worst_share`: at 1.6 Tb/s, the fastest Ethernet. Unit: ratio. Null: `worst_share` is
    /// known, or in `devices[]`.
    pub least_share: Option<f64>,
    /// Upper bound of the share of time paused between two readings: each frame pauses for 65,535 quanta at
    /// the link's speed. Unit: ratio. Null: `worst_share` is known, frames or speed are not known, or in
    /// `links[]`.
    pub most_share: Option<f64>,
    /// Highest rate of pause frames between two readings. Unit: frames/s. Null: the driver does not count
    /// them, fewer than two readings, or in `links[]`.
    pub worst_frames_per_s: Option<f64>,
    /// Longest pause, renewals included; in `devices[]`: longest run of readings between which at least 95 %
    /// of the time was paused. Unit: ns. Null: as `paused_ns`.
    pub longest_ns: Option<u64>,
    /// Times of the pauses.
    #[serde(skip)]
    pub intervals: PauseIntervals,
}

/// Counters of one queue pair, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceQpCounters {
    /// Numbers of the queue pairs that the device counts together; one if they are bound individually.
    pub lqpns: Vec<u32>,
    /// Increase of each counter since the first reading; names as in `devices[].counters`. Unit: as named.
    pub counters: BTreeMap<String, u64>,
}

/// RoCE packets seen by rocescope against those that the NIC counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Coverage {
    /// Name of the RDMA device.
    pub device: String,
    /// Port of the device.
    pub port: u32,
    /// Interface of the port, or the watched members of its bond.
    pub link: String,
    /// `ingress` or `egress`.
    pub direction: &'static str,
    /// RoCE packets seen on the link (`links[].packets`). Unit: packets.
    pub seen_packets: u64,
    /// RoCE packets that the NIC counted meanwhile: `rx_packets` or `tx_packets` of `devices[].counters`.
    /// Unit: packets. Null: the device has no counter of RoCE packets.
    pub counted_packets: Option<u64>,
    /// Source of `counted_packets`. Null: as `counted_packets`.
    pub source: Option<String>,
    /// `seen_packets` / `counted_packets`. The two are read at slightly different times: values a little
    /// above 1 are possible. Unit: ratio. Null: not known, or nothing was counted.
    pub ratio: Option<f64>,
    /// Reason for a ratio below 0.99. Null: the ratio is at least 0.99, or not known.
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
            intervals: pause.intervals.clone(),
        }
    }
}

/// Kind of the source: devices are part of the source if there are any.
pub(super) fn kind(sample: &Sample, roce_packets: u64) -> InputKind {
    let ports = &sample.devices.ports;
    match sample.kind {
        SourceKind::Replay => InputKind::Replay,
        SourceKind::Live if ports.is_empty() => InputKind::Live,
        SourceKind::Live if sample.links.is_empty() => InputKind::Counters,
        SourceKind::Live if roce_packets == 0 && all_hidden(sample) => InputKind::Counters,
        SourceKind::Live => InputKind::Mixed,
    }
}

/// True if no RoCE packet can pass any of the interfaces.
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

impl Device {
    /// Device and port, such as `mlx5_0/1`.
    pub fn label(&self) -> String {
        let port = self.port.map_or_else(String::new, |port| format!("/{port}"));
        format!("{}{port}", self.name)
    }

    /// All known queue pairs, also those that are not listed.
    pub fn every_qp(&self) -> impl DoubleEndedIterator<Item = &DeviceQp> {
        self.qps.iter().chain(&self.unlisted)
    }

    /// Events that show the death of a queue pair, the oldest first.
    pub fn deaths_of<'a>(&'a self, qp: &'a DeviceQp) -> impl Iterator<Item = &'a QpEvent> {
        self.events_of(qp).filter(|event| event.is_death())
    }

    /// Reason why a queue pair is over: that of its driver, else its latest fatal event, of which that of a query says
    /// least, else its latest event.
    pub fn end_reason<'a>(&'a self, qp: &'a DeviceQp) -> Option<&'a str> {
        let says = |event: &&QpEvent| {
            (event.reason.is_some(), event.is_death(), event.event != TO_ERROR, event.order())
        };
        let event = self.events_of(qp).max_by_key(says)?;
        Some(event.reason.as_deref().unwrap_or(&event.event))
    }

    /// Events of a queue pair: those of its number during its life.
    fn events_of<'a>(&'a self, qp: &'a DeviceQp) -> impl Iterator<Item = &'a QpEvent> {
        let is_own = |event: &&QpEvent| event.lqpn == Some(qp.lqpn) && qp.control.lived_at(event);
        self.qp_events.iter().filter(is_own)
    }

    /// The place of its interface; see [`devices::place`].
    pub fn place(&self) -> Option<String> {
        devices::place(
            self.interface.as_deref(),
            self.pod.as_deref().map(|pod| (pod, self.pod_interface.as_deref())),
        )
    }
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
            firmware: port.hardware.firmware.clone(),
            link_layer: port.hardware.link_layer.clone(),
            pci_address: port.hardware.pci.clone(),
            numa_node: port.hardware.numa_node,
            speed_mbps: port.hardware.speed_mbps,
            interface: port.interface.clone(),
            pod: port.pod.as_ref().map(|at| at.pod.clone()),
            pod_interface: port.pod.as_ref().and_then(|at| at.name.clone()),
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
        let (lives, events) = lives_of(devices, port);
        let contexts = contexts_of(devices, port);
        let has_posts = devices.posts.qps.iter().any(|qp| qp.device == port.device);
        if !port.qps.is_empty()
            || !port.qp_counters.is_empty()
            || !lives.is_empty()
            || !events.is_empty()
            || has_posts
        {
            put("RDMA netlink", &mut |known| {
                queue_pairs(devices, port, &lives, &contexts, known);
                known.qp_events.clone_from(&events);
            });
        }
        entries.append(&mut of_port);
    }
    entries
}

/// The lives of a port's queue pairs, and its events. A queue pair without a port belongs to the device's first.
fn lives_of<'a>(devices: &'a Devices, port: &PortSample) -> (Vec<&'a QpLife>, Vec<QpEvent>) {
    let Lives { qps, events, .. } = devices.lives.as_ref();
    let ports = devices.ports.iter().filter(|other| other.device == port.device);
    let is_first = ports.map(|other| other.port).min() == Some(port.port);
    let is_here = |device: &str, of: Option<u32>| {
        device == port.device && of.map_or(is_first, |number| number == port.port)
    };
    let lives: Vec<&QpLife> = qps.iter().filter(|life| is_here(&life.device, life.port)).collect();
    // The port of a queue pair's event is that of the queue pair.
    let mut named: BTreeMap<u32, Vec<&QpLife>> =
        events.iter().filter_map(|event| Some((event.lqpn?, Vec::new()))).collect();
    for life in qps.iter().filter(|life| life.device == port.device && life.port.is_some()) {
        if let Some(of) = named.get_mut(&life.lqpn) {
            of.push(life);
        }
    }
    let port_of = |event: &QpEvent| {
        let mut of = named.get(&event.lqpn?)?.iter().rev();
        of.find(|life| life.control.lived_at(event))?.port
    };
    let events = events.iter().filter(|event| is_here(&event.device, event.port.or_else(|| port_of(event))));
    (lives, events.cloned().collect())
}

/// The contexts of a port's queue pairs, by number.
fn contexts_of<'a>(devices: &'a Devices, port: &PortSample) -> BTreeMap<u32, &'a ContextSample> {
    let of = devices.contexts.qps.iter().filter(|qp| qp.device == port.device && qp.port == port.port);
    of.map(|qp| (qp.lqpn, qp)).collect()
}

fn queue_pairs(
    devices: &Devices,
    port: &PortSample,
    lives: &[&QpLife],
    contexts: &BTreeMap<u32, &ContextSample>,
    device: &mut Device,
) {
    let mut qps: Vec<DeviceQp> = port.qps.iter().map(DeviceQp::of).collect();
    let place: BTreeMap<u32, usize> = qps.iter().enumerate().map(|(at, qp)| (qp.lqpn, at)).collect();
    // The latest life of each number: it may have ended since the list.
    let latest: BTreeMap<u32, &QpLife> = lives.iter().map(|life| (life.lqpn, *life)).collect();
    for life in lives {
        let is_latest = latest.get(&life.lqpn).is_some_and(|latest| std::ptr::eq(*latest, *life));
        let is_same = |qp: &&mut DeviceQp| {
            // The list names no process once the thread that made the queue pair has ended.
            let is_nameless = qp.pid.is_none() && qp.comm.is_none();
            let is_of_same = is_nameless || qp.pid == life.pid;
            !life.control.is_over() || is_latest && is_of_same && qp.rqpn == life.rqpn
        };
        if let Some(known) = place.get(&life.lqpn).and_then(|at| qps.get_mut(*at)).filter(is_same) {
            known.add(life);
        } else {
            let mut qp = DeviceQp { lqpn: life.lqpn, ..DeviceQp::default() };
            qp.add(life);
            qps.push(qp);
        }
    }
    for qp in &mut qps {
        match contexts.get(&qp.lqpn).filter(|_| !qp.control.is_over()) {
            Some(context) => qp.add_context(context),
            None if qp.sources.len() > 1 => qp.note_sources(&ContextSample::default()),
            None => {}
        }
    }
    super::posts::join(devices, port, &mut qps);
    if qps.len() > MAX_QPS {
        // A queue pair that died or stands still sends nothing, and is most important to keep.
        qps.sort_by_key(|qp| std::cmp::Reverse(qp.rank()));
        device.unlisted = qps.split_off(MAX_QPS);
    }
    qps.sort_by_key(|qp| (qp.lqpn, !qp.control.is_over(), qp.control.creation_order()));
    device.qps_left_out = port.qps_left_out + device.unlisted.len() as u64;
    device.qps = qps;
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
            // A port without a watched interface has no coverage to report.
            if seen.links.is_empty() && !sample.links.is_empty() {
                continue;
            }
            let ratio = counted
                .filter(|(packets, _)| *packets > 0)
                .map(|(packets, _)| seen.packets as f64 / packets as f64);
            let why = ratio
                .filter(|ratio| *ratio < WHOLE)
                .map(|_| why(port, &seen, lost, sample.recording.is_some()));
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

/// Packets seen of a port in one direction.
struct PortTraffic<'a> {
    packets: u64,
    /// Interfaces on which it occurred.
    links: Vec<&'a str>,
    /// Interfaces of its bond that are not watched.
    unwatched: Vec<&'a str>,
}

/// On the port's interface, else on the members of the bond that it is, else on what lies on it.
fn seen<'a>(port: &'a PortSample, links: &'a [Link], way: Direction) -> PortTraffic<'a> {
    let on = |name: &str| links.iter().find(|link| link.name == name && link.direction == Some(way));
    if let Some(link) = port.interface.as_deref().and_then(on) {
        return PortTraffic { packets: link.packets, links: vec![&link.name], unwatched: Vec::new() };
    }
    let mut seen = PortTraffic { packets: 0, links: Vec::new(), unwatched: Vec::new() };
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

fn why(port: &PortSample, seen: &PortTraffic<'_>, lost: u64, is_recorded: bool) -> String {
    if seen.links.is_empty() && is_recorded {
        return "no packet of its interface was recorded: the counters are what there is".to_owned();
    }
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
            "only what passes {} is watched, and the counters are of the whole port; -i {} has the whole port",
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

/// Time that a flow stood still for pauses, ns; `None` if its link had no readable pause, or its speed is unknown.
pub(super) fn stalled(sample: &Sample, flow: &FlowSample) -> Option<u64> {
    let control = sample.metrics.control.as_ref()?;
    let stalled = control.stalled.as_ref()?;
    let paused = control.links.get(&flow.key.link).filter(|link| !link.pauses.is_empty());
    paused.map(|_| stalled.get(&flow.slot).copied().unwrap_or(0))
}

/// LLDP neighbours of a link.
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
pub fn worst(coverage: &[Coverage]) -> Option<f64> {
    coverage.iter().filter_map(|one| one.ratio).reduce(f64::min)
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
