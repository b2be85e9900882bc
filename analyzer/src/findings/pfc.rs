//! Pauses: PFC by priority, from device counters and from frames in captures.

use super::command::priority;
use super::once::once;
use super::raise::MAX_FLOWS;
use super::title::{pair, short, title};
use super::{
    Better, ByHand, Commands, Entry, Family, Impact, Input, Measure, Need, Place, Problem, Raise, Unit, ends,
};
use crate::analysis::{Device, Flow, Link, Pause};
use crate::findings::{Finding, Severity};
use crate::sample::Direction;
use crate::util::time::NS_PER_MS;
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[STORM, WRONG_PRIORITY, VICTIM], limits: &[Limits::META], evidence: &[], check };

pub(super) const STORM: Entry = Entry {
    id: "pfc.storm",
    rank: 130,
    needs: &[Need::PauseTimes],
    measure: Some(Measure::ratio("worst_share")),
    title: "PFC pause storm",
    meaning: "While a priority is paused, none of its packets move on the link. Long or endless pauses spread backwards from switch to switch (congestion spreading) \
                and stop flows that do not cross the congested port. A NIC or switch that pauses endlessly is faulty or hangs.",
    computed: "For each priority and direction, the paused share of a window: between two readings of a device's counters (live), or in 100 ms of a capture with PFC \
                 frames. A warning from pfc.storm_share; critical when one pause, including its renewals, lasts at least pfc.endless_ms. In captures without \
                 --link-speed only the minimum is evaluated, at the fastest existing link speed: no pause counts as endless. Where a driver counts frames and not time, \
                 the upper bound of their pause time (65,535 quanta of 512 bits each, at the link speed) is used: a warning from pfc.storm_most_share.",
    advice: "Received pauses come from the neighbour: check the received pauses of the switch port, and follow them until a device sends pauses without receiving \
               any; that device is slow or hangs. Sent pauses mean that this host receives data too slowly: check PCIe width, IOMMU, memory and pcie_read_stalls. Let \
               switches and NICs stop storms: PFC watchdog on the switch, ethtool --set-tunable DEV pfc-prevention-tout 65535 on the host (mlx5: 100 ms). Lower the \
               ECN thresholds so that ECN acts before PFC.",
    caveat: "For drivers that count frames but not time (ice, older bnxt_en) only a bound is known: many short pauses, each ended by a resume, look like few long \
               ones. In captures, quanta are converted to time by --link-speed; captures do not contain the link speed.",
    ..Entry::of(Problem::Pause)
};
pub(super) const WRONG_PRIORITY: Entry = Entry {
    id: "pfc.on_wrong_priority",
    rank: 120,
    title: "PFC pause on a priority that is not lossless",
    meaning: "One side pauses a priority for which the other has PFC disabled. Pauses for such a priority are not obeyed and packets are dropped; or traffic that \
                should not be paused is paused.",
    computed: "A warning when at least pfc.frames pause frames were sent or received on a priority for which the host has PFC disabled (live), or that no DCBX frame \
                 on the same link advertises as lossless (captures with such a frame).",
    advice: "Configure PFC identically on both sides of the link: dcb pfc show dev DEV (mlnx_qos -i DEV) on the host, priority-flow-control on the switch, and the \
               DSCP to priority map on both.",
    caveat: "Without DCB settings of the host and without DCBX in the capture the intended configuration is unknown.",
    ..Entry::of(Problem::Pause)
};
pub(super) const VICTIM: Entry = Entry {
    id: "pfc.victim",
    rank: 140,
    causes: &[STORM.id],
    needs: &[Need::PauseTimes],
    measure: Some(Measure { name: "longest_ns", unit: Unit::Nanoseconds, better: Better::Less }),
    title: "Queue pairs stalled by PFC (PFC victims)",
    meaning: "These queue pairs had data to send and could not, because their priority was paused on the link: the bottleneck is not their own path but the source \
                of the pauses.",
    computed: "Live: a queue pair in RTS that was busy and whose PSNs did not advance between two readings, while the priority of RoCE was paused for at least half \
                 of that time. Captures: data flows or READ requests silent for at least 1 ms, at least half of it paused by another station on the link (with \
                 --link-speed). A warning from pfc.victim_ms. What these flows retransmit counts with it, where none of their packets is lost upstream.",
    advice: "Find the source of the pauses (see pfc.storm); the queue pairs listed here are not at fault. Where unrelated jobs suffer, use separate priorities, or \
               lower the ECN thresholds so that ECN acts before PFC.",
    caveat: "The priority of a flow is taken from its VLAN tag; without one DSCP / 8 is assumed, and live the priority that the traffic class in use maps to. A \
               sender without data to send at that time is indistinguishable.",
    ..Entry::of(Problem::Pause)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "pfc";
    storm_share: f64 = 0.1,
        "minimum paused share of a window",
        "Bursts pause for fractions of a per cent; a tenth is a noticeable loss of bandwidth";
    storm_most_share: f64 = 0.5,
        "minimum upper bound of the paused share of a window, where only frames are counted",
        "An endless pause is renewed before it expires, so that its frames add up to the whole window or more; short pauses ended by a resume stay far below half";
    endless_ms: u64 = 1000,
        "minimum duration of an endless pause in milliseconds",
        "Switch watchdogs act from 100 ms to 1 s; no buffer takes as long to empty";
    frames: u64 = 10,
        "minimum pause frames of a priority",
        "A few may remain from before a change of settings";
    victim_ms: u64 = 10,
        "minimum stall of a queue pair in milliseconds",
        "A step of a training job lasts tens of milliseconds and more";
}

/// Step for PFC victims.
const SOURCE: &str =
    "Find the source of the pauses on the switches; the queue pairs listed here are not at fault.";

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for device in &input.facts.devices {
        let interface = device.interface.as_deref();
        let at = PauseSource { name: label(device), by: String::new(), link: interface, way: None };
        for pause in &device.pause {
            let by = format!("{} by {}", pause.direction.unwrap_or("received"), label(device));
            storm(input, pause, &PauseSource { by, ..at.clone() }, found);
        }
        wrong_priority_of_device(input, device, found);
        stalled_qps(input, device, found);
    }
    for link in &input.facts.links {
        for pause in link.pause.iter().flatten() {
            let from = pause.from.as_deref().unwrap_or(units::UNKNOWN);
            let by = format!("sent by {from} on {}", short(&link.name));
            let at = PauseSource { name: link.name.clone(), by, link: Some(&link.name), way: link.direction };
            storm(input, pause, &at, found);
        }
        wrong_priority_of_link(input, link, found);
    }
    stalled_flows(input, found);
}

fn label(device: &Device) -> String {
    let port = device.port.map_or_else(String::new, |port| format!("/{port}"));
    format!("{}{port}", device.name)
}

/// Where pauses were counted.
#[derive(Clone, Debug)]
struct PauseSource<'a> {
    /// Device and port, or link.
    name: String,
    /// `received by mlx5_0/1`.
    by: String,
    /// Interface or link.
    link: Option<&'a str>,
    way: Option<Direction>,
}

impl PauseSource<'_> {
    fn place(&self, input: &Input<'_>) -> Place {
        self.link.map(|link| Place::link(input, link, self.way)).unwrap_or_default()
    }
}

fn storm(input: &Input<'_>, pause: &Pause, at: &PauseSource<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.pfc;
    let known = pause.worst_share.or(pause.least_share);
    let share = known.unwrap_or(0.0);
    let longest = pause.longest_ns.unwrap_or(0);
    let endless = longest >= limits.endless_ms.saturating_mul(NS_PER_MS);
    let bound = pause.most_share.filter(|_| known.is_none()).unwrap_or(0.0);
    let by_frames = bound > 0.0 && bound >= limits.storm_most_share;
    if share < limits.storm_share && !endless && !by_frames {
        return;
    }
    let of = match pause.priority {
        Some(priority) => format!("PFC storm on priority {priority}"),
        None => "Global pause storm".to_owned(),
    };
    let diagnosis = if by_frames {
        let rate = pause.worst_frames_per_s.unwrap_or(0.0);
        format!("{of}: up to {} paused, {rate:.0} pause frames/s", units::ratio(Some(bound)))
    } else if endless {
        format!("{of}: paused for {} without end", units::duration(longest))
    } else {
        let least = if pause.worst_share.is_none() { "at least " } else { "" };
        format!("{of}: paused {least}{} of the time", units::ratio(Some(share)))
    };
    let received = pause.direction == Some("received");
    let place = at.place(input);
    let neighbour = place.switch_port.clone().unwrap_or_else(|| "the neighbour".to_owned());
    let here = Commands::on(input, at.link.unwrap_or("")).of_priority(pause.priority);
    let severity = if endless { Severity::Critical } else { Severity::Warning };
    let by = format!(", {}", at.by);
    let mut raise = Raise::new(&STORM, severity, title(diagnosis, [by]))
        .place(place)
        .impact(Impact { time_lost_ns: pause.paused_ns, ..Impact::default() });
    raise = match pause.direction {
        Some(_) if received => raise.step(
            format!("On {neighbour}, check received pauses and follow them to their source."),
            ByHand::Switch,
        ),
        Some(_) => raise.step("Check PCIe width, relaxed ordering and IOMMU of this host.", here.doctor()),
        None => raise
            .step("Follow the pauses to the station that sends them without receiving any.", ByHand::Switch),
    };
    raise
        .step("Check pause counters and discards of the NIC.", here.nic_counters())
        .step("Check that PFC is enabled for the same priorities on both sides.", here.pfc())
        .step("Enable the PFC watchdog on the switch, and lower the ECN thresholds.", ByHand::Switch)
        .evidence("of", at.name.as_str())
        .evidence("priority", pause.priority)
        .evidence("direction", pause.direction)
        .evidence("from", pause.from.clone())
        .evidence("worst_share", pause.worst_share)
        .evidence("least_share", pause.least_share)
        .evidence("most_share", pause.most_share)
        .evidence("worst_frames_per_s", pause.worst_frames_per_s)
        .evidence("longest_ns", pause.longest_ns)
        .evidence("paused_ns", pause.paused_ns)
        .evidence("quanta", pause.quanta)
        .evidence("frames", pause.frames)
        .into(found);
}

fn wrong_priority_of_device(input: &Input<'_>, device: &Device, found: &mut Vec<Finding>) {
    let ports = &input.sample.devices.ports;
    let port = ports.iter().find(|port| port.device == device.name && Some(port.port) == device.port);
    let Some(lossless) = port.and_then(|port| port.lossless) else { return };
    for pause in &device.pause {
        let by = format!("{} by {}", pause.direction.unwrap_or("received"), label(device));
        let at = PauseSource { name: label(device), by, link: device.interface.as_deref(), way: None };
        wrong(input, pause, lossless, &at, found);
    }
}

fn wrong_priority_of_link(input: &Input<'_>, link: &Link, found: &mut Vec<Finding>) {
    let advertised = link.neighbours.iter().filter_map(|neighbour| neighbour.pfc).map(|pfc| pfc.enabled);
    let Some(lossless) = advertised.reduce(|all, one| all | one) else { return };
    for pause in link.pause.iter().flatten() {
        let from = pause.from.as_deref().unwrap_or(units::UNKNOWN);
        let by = format!("sent by {from} on {}", short(&link.name));
        let at = PauseSource { name: link.name.clone(), by, link: Some(&link.name), way: link.direction };
        wrong(input, pause, lossless, &at, found);
    }
}

fn wrong(input: &Input<'_>, pause: &Pause, lossless: u8, at: &PauseSource<'_>, found: &mut Vec<Finding>) {
    let (Some(priority), Some(frames)) = (pause.priority, pause.frames) else { return };
    if lossless >> (priority & 7) & 1 == 1 || frames < input.limits.pfc.frames.max(1) {
        return;
    }
    let on: Vec<u8> = (0..8).filter(|p| lossless >> p & 1 == 1).collect();
    let list: Vec<String> = on.iter().map(u8::to_string).collect();
    let list = if list.is_empty() { "none".into() } else { list.join(", ") };
    let diagnosis = format!("PFC pause on lossy priority {priority}: {}", plural(frames, "frame"));
    let parts = [format!(" {}", at.by), format!(", lossless: {list}")];
    let here = Commands::on(input, at.link.unwrap_or("")).of_priority(Some(priority));
    Raise::new(&WRONG_PRIORITY, Severity::Warning, title(diagnosis, parts))
        .place(at.place(input))
        .step("Check PFC per priority on the host.", here.pfc())
        .step("Check the DSCP to priority map and trust mode on the host.", here.qos())
        .step("Configure the same lossless priorities on the switch port.", ByHand::Switch)
        .evidence("priority", priority)
        .evidence("lossless", on)
        .evidence("direction", pause.direction)
        .evidence("frames", frames)
        .into(found);
}

fn stalled_qps(input: &Input<'_>, device: &Device, found: &mut Vec<Finding>) {
    let least = input.limits.pfc.victim_ms.saturating_mul(NS_PER_MS);
    let mut victims: Vec<_> = device
        .qps
        .iter()
        .filter_map(|qp| Some((qp, qp.pause_stall_ns.filter(|ns| *ns >= least.max(1))?)))
        .collect();
    victims.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let Some((_, longest)) = victims.first() else { return };
    let queue_pairs = plural(victims.len() as u64, "queue pair");
    let diagnosis = format!("PFC victims: {queue_pairs} stalled for up to {}", units::duration(*longest));
    let of = format!(", {}", label(device));
    let interface = device.interface.as_deref();
    let here = Commands::on(input, interface.unwrap_or(""));
    let mut pids: Vec<u32> = victims.iter().filter_map(|(qp, _)| qp.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Raise::new(&VICTIM, Severity::Warning, title(diagnosis, [of]))
        .place(interface.map(|name| Place::link(input, name, None)).unwrap_or_default())
        .impact(stalled(victims.iter().map(|(_, ns)| *ns)))
        .step(SOURCE, here.pfc())
        .step("List the queue pairs with their processes.", here.queue_pairs())
        .evidence("queue_pairs", victims.iter().take(16).map(|(qp, _)| qp.lqpn).collect::<Vec<_>>())
        .evidence("longest_ns", *longest)
        .evidence("pids", pids)
        .into(found);
}

/// Impact of stalls.
fn stalled(ns: impl Iterator<Item = u64>) -> Impact {
    Impact { time_lost_ns: Some(ns.sum()), ..Impact::default() }
}

fn stalled_flows(input: &Input<'_>, found: &mut Vec<Finding>) {
    let least = input.limits.pfc.victim_ms.saturating_mul(NS_PER_MS).max(1);
    // An ACK flow is silent because its data flow is.
    let has_sequence = |flow: &&Flow| flow.psn.is_some() || flow.psn_responses.is_some();
    let flows = input.facts.flows.iter().filter(has_sequence);
    let mut victims = once(flows, |flow| flow.pause_stall_ns.get().unwrap_or(0));
    victims.retain(|(_, stalled)| *stalled >= least);
    let Some((worst, longest)) = victims.first() else { return };
    let count = plural(victims.len() as u64, "flow");
    let diagnosis = format!("PFC victims: {count} stalled for up to {}", units::duration(*longest));
    let (requester, responder) = ends::of_data(input, victims.iter().map(|(flow, _)| *flow));
    // The same rule as in the collector of pauses.
    let priority = priority(worst);
    let here = Commands::on(input, &worst.link).of_priority(priority);
    let links = input.facts.links.iter().filter(|link| link.name == worst.link);
    let pauses = links.flat_map(|link| link.pause.iter().flatten());
    let own = pauses.filter(|pause| pause.priority.is_none() || pause.priority == priority);
    let paused_ns = own.filter_map(|pause| pause.paused_ns).max();
    let share = |ns: u64, of: Option<u64>| of.filter(|of| *of > 0).map(|of| ns as f64 / of as f64);
    // A transport timer that expires while the priority is paused makes the sender retransmit packets that are queued
    // or have arrived.
    let lossless = victims.iter().all(|(flow, _)| flow.loss.get().is_none_or(|loss| loss.lost == 0));
    Raise::new(&VICTIM, Severity::Warning, title(diagnosis, [pair(worst.src, worst.dst)]))
        .place(Place::of(input, worst))
        .ends(requester, responder)
        .impact(stalled(victims.iter().map(|(_, ns)| *ns)))
        .step(SOURCE, here.pfc())
        .evidence("longest_ns", *longest)
        .evidence("longest_ratio", share(*longest, worst.last_ns.checked_sub(worst.first_ns)))
        .evidence("stalled_ns", victims.iter().take(MAX_FLOWS).map(|(_, ns)| *ns).collect::<Vec<_>>())
        .evidence("priority", priority)
        .evidence("paused_ns", paused_ns)
        .evidence("paused_ratio", paused_ns.and_then(|ns| share(ns, input.facts.window.length_ns())))
        .flows(victims.iter().map(|(flow, _)| *flow))
        .owns(if lossless { &[super::retry::STORM.id, super::timeouts::TIMEOUTS.id] } else { &[] })
        .into(found);
}

#[cfg(test)]
#[path = "pfc_tests.rs"]
mod tests;
