//! Pauses: PFC by priority, from devices' counters and from frames in captures.

use super::once::once;
use super::raise::MAX_FLOWS;
use super::{Better, Entry, Family, Input, Measure, Need, Raise, Unit};
use crate::analysis::{Device, Flow, Link, Pause};
use crate::findings::{Finding, Severity};
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[STORM, WRONG_PRIORITY, VICTIM], limits: &[Limits::META], evidence: &[], check };

const STORM: Entry = Entry {
    id: "pfc.storm",
    rank: 130,
    needs: &[Need::PauseTimes],
    measure: Some(Measure::ratio("worst_share")),
    title: "A priority is paused for much of the time",
    meaning: "While a priority is paused, nothing of it moves on the link. Pauses that are long or never end spread backwards from switch to switch, and stop flows that do not even cross the place \
              that is congested. A NIC or switch that pauses without end is broken or hangs.",
    computed: "For each priority and direction, the share of a window that was paused: between two readings of a device's counters (live), or in 100 ms of a capture with PFC frames. A warning from pfc.storm_share \
               on; critical when one pause, its renewals included, lasted pfc.endless_ms or longer. In captures without --link-speed only what it was at least is judged, as at the fastest link there is: no pause is called endless. Where a driver counts frames and not time, the most that they can have paused (65,535 quanta of 512 bits each, at \
               the link's speed) stands for it: a warning from pfc.storm_most_share on.",
    advice: "Received pauses come from the neighbour: look at the switch port's own received pauses, and follow them until a device sends them without receiving any; that one is slow or hangs. Sent pauses mean \
             that this host takes data too slowly: check PCIe width, IOMMU, memory and pcie_read_stalls. Let switches and NICs stop storms: PFC watchdog on the switch, ethtool --set-tunable DEV pfc-prevention-tout 65535 on the host (mlx5: 100 ms), \
             and lower the ECN thresholds so that senders slow down before PFC has to.",
    caveat: "Of drivers that count frames but not time (ice, older bnxt_en) only a bound is known: many short pauses, each ended by a resume, look like few long ones. In captures, quanta become time by --link-speed; the speed of a capture's links is not in it.",
    ..Entry::EMPTY
};
const WRONG_PRIORITY: Entry = Entry {
    id: "pfc.on_wrong_priority",
    rank: 120,
    title: "A priority is paused that is not meant to be lossless",
    meaning: "One side pauses a priority for which the other has no PFC. Pauses for such a priority are not obeyed, and packets are dropped; or traffic that was never meant to stop is stopped.",
    computed: "Warning when pause frames were sent or received on a priority for which the host has PFC off (live), or that no DCBX frame on the same link says is lossless (captures that hold such a frame).",
    advice: "Make PFC the same on both sides of the link: dcb pfc show dev DEV (mlnx_qos -i DEV) on the host, the switch's priority-flow-control settings, and the map from DSCP to priority on both.",
    caveat: "Without DCB settings of the host and without DCBX in the capture nothing is known of what is meant.",
    ..Entry::EMPTY
};
const VICTIM: Entry = Entry {
    id: "pfc.victim",
    rank: 140,
    causes: &["pfc.storm"],
    needs: &[Need::PauseTimes],
    measure: Some(Measure { name: "longest_ns", unit: Unit::Nanoseconds, better: Better::Less }),
    title: "Queue pairs stand still while their priority is paused",
    meaning: "These queue pairs had data to send and could not, because the link was paused for their priority: what the job waits for is not their own path but whoever caused the pause.",
    computed: "Live: a queue pair in RTS that was busy and whose PSNs did not move between two readings, while RoCE's priority was paused half of that time or more. Captures: flows of data or READ requests silent for 1 ms or more, half of it \
               paused by another station on the link (with --link-speed). A warning from pfc.victim_ms on.",
    advice: "Find the source of the pauses (pfc.storm says how); the queue pairs here are not at fault. Where unrelated jobs suffer, give them different priorities, or lower the ECN thresholds so that PFC is not reached.",
    caveat: "Which priority a flow has is known from its tag; without one DSCP / 8 is assumed, and live the priority that the traffic class in use is mapped to. A sender that had nothing to send just then looks the same.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "pfc";
    storm_share: f64 = 0.1,
        "share of a window that is paused",
        "Bursts pause for parts of a per cent; a tenth is bandwidth that the job misses";
    storm_most_share: f64 = 0.5,
        "most of a window that frames can have paused, where only frames are counted",
        "A pause without end is renewed before it is over, so that its frames add up to the whole window or more; short ones that a resume ends stay far below half";
    endless_ms: u64 = 1000,
        "milliseconds that a single pause lasts from which it is called endless",
        "Switch watchdogs act from 100 ms to 1 s; no buffer takes as long to empty";
    frames: u64 = 10,
        "pause frames below which their priority is not judged",
        "A few may be left from before a change of settings";
    victim_ms: u64 = 10,
        "milliseconds that a queue pair stood still",
        "A step of a training job lasts tens of milliseconds and more";
}

const MS: u64 = 1_000_000;

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for device in &input.facts.devices {
        let of = |pause: &Pause| match pause.direction {
            Some("sent") => format!("{} told its neighbour to stop", label(device)),
            _ => format!("{} was told to stop", label(device)),
        };
        for pause in &device.pause {
            storm(input, pause, &of(pause), &label(device), found);
        }
        wrong_priority_of_device(input, device, found);
        stalled_qps(input, device, found);
    }
    for link in &input.facts.links {
        for pause in link.pause.iter().flatten() {
            let from = pause.from.as_deref().unwrap_or(units::UNKNOWN);
            storm(input, pause, &format!("{from} stopped its neighbour on {}", link.name), &link.name, found);
        }
        wrong_priority_of_link(input, link, found);
    }
    stalled_flows(input, found);
}

fn label(device: &Device) -> String {
    let port = device.port.map_or_else(String::new, |port| format!("/{port}"));
    format!("{}{port}", device.name)
}

fn of_priority(pause: &Pause) -> String {
    pause.priority.map_or_else(|| "the whole link".into(), |priority| format!("priority {priority}"))
}

fn storm(input: &Input<'_>, pause: &Pause, who: &str, place: &str, found: &mut Vec<Finding>) {
    let limits = &input.limits.pfc;
    let known = pause.worst_share.or(pause.least_share);
    let share = known.unwrap_or(0.0);
    let longest = pause.longest_ns.unwrap_or(0);
    let endless = longest >= limits.endless_ms.saturating_mul(MS);
    let bound = pause.most_share.filter(|_| known.is_none()).unwrap_or(0.0);
    let by_frames = bound > 0.0 && bound >= limits.storm_most_share;
    if share < limits.storm_share && !endless && !by_frames {
        return;
    }
    let title = if by_frames {
        let rate = pause.worst_frames_per_s.unwrap_or(0.0);
        format!(
            "{who} on {} by {rate:.0} frames a second at worst, which can have paused it for up to {} of the time",
            of_priority(pause),
            units::ratio(Some(bound))
        )
    } else if endless {
        format!("{who} on {} for {} without end", of_priority(pause), units::duration(longest))
    } else {
        let least = if pause.worst_share.is_none() { "at least " } else { "" };
        let share = units::ratio(Some(share));
        format!("{who} on {} for {least}{share} of the time at worst", of_priority(pause))
    };
    let severity = if endless { Severity::Critical } else { Severity::Warning };
    Raise::new(&STORM, severity, title)
        .evidence("of", place)
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
        let way = pause.direction.unwrap_or_default();
        wrong(input, pause, lossless, &format!("{} {way}", label(device)), "PFC is on for", found);
    }
}

fn wrong_priority_of_link(input: &Input<'_>, link: &Link, found: &mut Vec<Finding>) {
    let advertised = link.neighbours.iter().filter_map(|neighbour| neighbour.pfc).map(|pfc| pfc.enabled);
    let Some(lossless) = advertised.reduce(|all, one| all | one) else { return };
    for pause in link.pause.iter().flatten() {
        let from = pause.from.as_deref().unwrap_or(units::UNKNOWN);
        wrong(input, pause, lossless, &format!("{from} on {} sent", link.name), "DCBX has PFC on", found);
    }
}

fn wrong(input: &Input<'_>, pause: &Pause, lossless: u8, who: &str, meant: &str, found: &mut Vec<Finding>) {
    let (Some(priority), Some(frames)) = (pause.priority, pause.frames) else { return };
    if lossless >> (priority & 7) & 1 == 1 || frames < input.limits.pfc.frames.max(1) {
        return;
    }
    let on: Vec<u8> = (0..8).filter(|p| lossless >> p & 1 == 1).collect();
    let list: Vec<String> = on.iter().map(u8::to_string).collect();
    let list = if list.is_empty() { "none".into() } else { list.join(", ") };
    let title =
        format!("{who} {} for priority {priority}, where {meant} {list}", plural(frames, "pause frame"));
    Raise::new(&WRONG_PRIORITY, Severity::Warning, title)
        .evidence("priority", priority)
        .evidence("lossless", on)
        .evidence("direction", pause.direction)
        .evidence("frames", frames)
        .into(found);
}

fn stalled_qps(input: &Input<'_>, device: &Device, found: &mut Vec<Finding>) {
    let least = input.limits.pfc.victim_ms.saturating_mul(MS);
    let mut victims: Vec<_> = device
        .qps
        .iter()
        .filter_map(|qp| Some((qp, qp.pause_stall_ns.filter(|ns| *ns >= least.max(1))?)))
        .collect();
    victims.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let Some((_, longest)) = victims.first() else { return };
    let title = format!(
        "{} of {} stood still for up to {} while their priority was paused",
        plural(victims.len() as u64, "queue pair"),
        label(device),
        units::duration(*longest)
    );
    let mut pids: Vec<u32> = victims.iter().filter_map(|(qp, _)| qp.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Raise::new(&VICTIM, Severity::Warning, title)
        .evidence("queue_pairs", victims.iter().take(16).map(|(qp, _)| qp.lqpn).collect::<Vec<_>>())
        .evidence("longest_ns", *longest)
        .evidence("pids", pids)
        .into(found);
}

fn stalled_flows(input: &Input<'_>, found: &mut Vec<Finding>) {
    let least = input.limits.pfc.victim_ms.saturating_mul(MS).max(1);
    // Acknowledgements wait for data, and not for themselves.
    let has_sequence = |flow: &&Flow| flow.psn.is_some() || flow.psn_responses.is_some();
    let flows = input.facts.flows.iter().filter(has_sequence);
    let mut victims = once(flows, |flow| flow.pause_stall_ns.unwrap_or(0));
    victims.retain(|(_, stalled)| *stalled >= least);
    let Some((worst, longest)) = victims.first() else { return };
    let title = format!(
        "{} stood still for up to {} while their priority was paused",
        plural(victims.len() as u64, "flow"),
        units::duration(*longest)
    );
    // As the collector of pauses takes it.
    let priority = worst.pcp.or(worst.dscp.map(|dscp| dscp >> 3));
    let links = input.facts.links.iter().filter(|link| link.name == worst.link);
    let pauses = links.flat_map(|link| link.pause.iter().flatten());
    let own = pauses.filter(|pause| pause.priority.is_none() || pause.priority == priority);
    let paused_ns = own.filter_map(|pause| pause.paused_ns).max();
    let share = |ns: u64, of: Option<u64>| of.filter(|of| *of > 0).map(|of| ns as f64 / of as f64);
    Raise::new(&VICTIM, Severity::Warning, title)
        .evidence("longest_ns", *longest)
        .evidence("longest_ratio", share(*longest, worst.last_ns.checked_sub(worst.first_ns)))
        .evidence("stalled_ns", victims.iter().take(MAX_FLOWS).map(|(_, ns)| *ns).collect::<Vec<_>>())
        .evidence("priority", priority)
        .evidence("paused_ns", paused_ns)
        .evidence("paused_ratio", paused_ns.and_then(|ns| share(ns, input.facts.window.length_ns())))
        .flows(victims.iter().map(|(flow, _)| *flow))
        .into(found);
}

#[cfg(test)]
#[path = "pfc_tests.rs"]
mod tests;
