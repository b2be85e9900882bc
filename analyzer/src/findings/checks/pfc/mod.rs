//! Pauses: PFC by priority, from device counters and from frames in captures.

use super::ends;
use crate::analysis::{Device, Flow, Link, Pause};
use crate::entity::pauses::{PauseInterval, Stall};
use crate::findings::command::priority;
use crate::findings::dedup::deduplicated;
use crate::findings::ids;
use crate::findings::order::OVER_NS;
use crate::findings::period::joined;
use crate::findings::raise::MAX_FLOWS;
use crate::findings::title::{pair, short, title};
use crate::findings::{
    Better, ByHand, Commands, Entry, Episode, Family, Finding, Impact, Input, LocalQp, Measure, Place,
    Problem, Raise, RequiredData, Severity, Unit,
};
use crate::sample::Direction;
use crate::util::time::NS_PER_MS;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family =
    Family { entries: &[STORM, WRONG_PRIORITY, VICTIM], limits: &[Limits::META], evidence: &[], check };

pub(super) const STORM: Entry = Entry {
    id: ids::PFC_STORM,
    rank: 130,
    needs: &[RequiredData::PauseTimes],
    measure: Some(Measure::ratio("worst_share")),
    title: "PFC pause storm",
    meaning: "While a priority is paused, none of its packets leave the paused port; the other direction of the link goes on. Long or endless pauses spread backwards from switch to switch (congestion spreading) \
                and stop flows that do not cross the congested port. A NIC or switch that pauses endlessly is faulty or hangs.",
    computed: "For each priority and direction, the paused share of a window: between two readings of a device's counters (live), or in 100 ms of a capture with PFC frames. A warning \
               from pfc.storm_share; critical when one pause, including its renewals, lasts at least pfc.endless_ms.\n\
               \n\
               In captures without --link-speed only the minimum is evaluated, at the fastest existing link speed: no pause counts as endless. If a driver counts frames and not time, \
               the upper bound of their pause time (65,535 quanta of 512 bits each, at the link speed) is used: a warning from pfc.storm_most_share.\n\
               \n\
               Episodes are such windows with less than 10 s between two of them; figures are those of the latest one.",
    advice: "Received pauses come from the neighbour: check the received pauses of the switch port, and follow them until a device sends pauses without receiving \
               any; that device is slow or hangs. Sent pauses mean that this host receives data too slowly: check PCIe width, IOMMU, memory and pcie_read_stalls. Let \
               switches and NICs stop storms: PFC watchdog on the switch, ethtool --set-tunable DEV pfc-prevention-tout 65535 on the host (mlx5: 100 ms). Lower the \
               ECN thresholds so that ECN acts before PFC.",
    caveat: "For drivers that count frames but not time (ice, older bnxt_en) only a bound is known: many short pauses, each ended by a resume, look like few long \
               ones. In captures, quanta are converted to time by --link-speed; captures do not contain the link speed.",
    ..Entry::of(Problem::Pause)
};
pub(super) const WRONG_PRIORITY: Entry = Entry {
    id: ids::PFC_ON_WRONG_PRIORITY,
    rank: 120,
    title: "PFC pause on a priority that is not lossless",
    meaning: "One side pauses a priority for which the other has PFC disabled. Pauses for such a priority are not obeyed and packets are dropped; or traffic that \
                should not be paused is paused.",
    computed: "A warning when at least pfc.frames pause frames were sent or received on a priority for which the host has PFC disabled (live), or that no DCBX frame \
                 on the same link advertises as lossless (captures with such a frame), in the latest episode that has as many ({EPISODE_GAP_NS} without a frame end one), or in all together.",
    advice: "Configure PFC identically on both sides of the link: dcb pfc show dev DEV (mlnx_qos -i DEV) on the host, priority-flow-control on the switch, and the \
               DSCP to priority map on both.",
    caveat: "Without DCB settings of the host and without DCBX in the capture the intended configuration is unknown.",
    ..Entry::of(Problem::Pause)
};
pub(super) const VICTIM: Entry = Entry {
    id: ids::PFC_VICTIM,
    rank: 140,
    causes: &[STORM.id],
    needs: &[RequiredData::PauseTimes],
    measure: Some(Measure {
        name: "longest_ns",
        unit: Unit::Nanoseconds,
        better: Better::Less,
        grades: false,
    }),
    title: "Queue pairs stalled by PFC (PFC victims)",
    meaning: "These queue pairs had data to send and could not, because their priority was paused on the link: the bottleneck is not their own path but the source \
                of the pauses.",
    computed: "Live: a queue pair in RTS that was busy and whose PSNs did not advance between two readings, while the priority of RoCE was paused for at least half of that time. \
               Captures: data flows or READ requests silent for at least 1 ms, at least half of that time paused by another station on the link (with --link-speed).\n\
               \n\
               Warning when a queue pair's latest stall episode lasts pfc.victim_ms ({EPISODE_GAP_NS} without a stall end one). Figures are those of the queue pairs that stalled together last. Their \
               retransmissions count with it, where none of their packets is lost upstream.",
    advice: "Find the source of the pauses (see pfc.storm); the queue pairs listed here are not at fault. If unrelated jobs suffer, use separate priorities, or \
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
        let at = PauseSource { name: device.label(), by: String::new(), link: interface, way: None };
        for pause in &device.pause {
            let by = format!("{} by {}", pause.direction.unwrap_or("received"), device.label());
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

/// The place at which pauses were counted.
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

/// The pauses of some of its intervals; without times those of the run.
fn in_intervals<'a>(pause: &Pause, intervals: impl Iterator<Item = &'a PauseInterval>) -> Pause {
    let sum = intervals.copied().reduce(|mut sum, one| {
        sum.add(&one);
        sum
    });
    let sum = sum.unwrap_or_default();
    Pause {
        frames: sum.frames,
        quanta: sum.quanta,
        paused_ns: sum.paused_ns,
        worst_share: pause.worst_share.and(sum.share),
        least_share: pause.least_share.and(sum.share),
        most_share: sum.most_share,
        worst_frames_per_s: sum.worst_frames_per_s,
        longest_ns: sum.longest_ns,
        ..pause.clone()
    }
}

/// Intervals that overlap a time, or are less than 10 s away.
fn near(pause: &Pause, (first_ns, last_ns): (u64, u64)) -> impl Iterator<Item = &PauseInterval> {
    let is_near = move |one: &&PauseInterval| {
        one.first_ns < last_ns.saturating_add(OVER_NS) && one.last_ns.saturating_add(OVER_NS) > first_ns
    };
    pause.intervals.0.iter().filter(is_near)
}

/// The pauses of the latest episode that is a storm, and all such episodes; the run without any where times are not
/// known.
fn latest_storm(pause: &Pause, is_storm: impl Fn(&Pause) -> bool) -> Option<(Pause, Vec<Episode>)> {
    let all = pause.intervals.0.iter();
    if all.len() == 0 {
        return is_storm(pause).then(|| (pause.clone(), Vec::new()));
    }
    let bad = all.filter(|one| is_storm(&in_intervals(pause, std::iter::once(*one))));
    let times = joined(bad.map(|one| (one.first_ns, one.last_ns)).collect());
    let episode = |&(first_ns, last_ns): &(u64, u64)| {
        let one = in_intervals(pause, near(pause, (first_ns, last_ns)));
        Episode { first_ns, last_ns, peak: one.worst_share.or(one.least_share).or(one.most_share) }
    };
    let latest = in_intervals(pause, near(pause, *times.last()?));
    Some((latest, times.iter().map(episode).collect()))
}

/// The same of at least this number of frames: of an episode, or of all together.
fn latest_frames(pause: &Pause, least: u64) -> Option<(u64, Vec<Episode>)> {
    let frames = |first_ns: u64, last_ns: u64| {
        let within = |one: &&PauseInterval| one.first_ns >= first_ns && one.last_ns <= last_ns;
        pause.intervals.0.iter().filter(within).filter_map(|one| one.frames).sum::<u64>()
    };
    let with_frames = pause.intervals.0.iter().filter(|one| one.frames.is_some_and(|n| n > 0));
    let times = joined(with_frames.map(|one| (one.first_ns, one.last_ns)).collect());
    let counted = times.iter().map(|&(first, last)| (first, last, frames(first, last)));
    let enough: Vec<_> = counted.filter(|(.., n)| *n >= least).collect();
    let episode =
        |(first_ns, last_ns, n): (u64, u64, u64)| Episode { first_ns, last_ns, peak: Some(n as f64) };
    if let Some((.., n)) = enough.last() {
        return Some((*n, enough.iter().copied().map(episode).collect()));
    }
    let all = pause.frames.filter(|n| *n >= least)?;
    let ends = times.first().zip(times.last()).map(|(first, last)| (first.0, last.1, all));
    Some((all, ends.map(episode).into_iter().collect()))
}

/// Adds the step to the source of the pauses.
fn source(raise: Raise, pause: &Pause, neighbour: &str, here: Commands<'_>) -> Raise {
    match pause.direction {
        Some("received") => raise.step(
            format!("On {neighbour}, check received pauses and follow them to their source."),
            ByHand::Switch,
        ),
        Some(_) => raise.step("Check PCIe width, relaxed ordering and IOMMU of this host.", here.doctor()),
        None => {
            let station = pause.from.as_deref().unwrap_or("the station that sends them");
            raise.step(format!("Find the port with the MAC address of {station}."), ByHand::Switch).step(
                "If that port receives pauses too, follow them upstream; else its device is the source.",
                ByHand::Switch,
            )
        }
    }
}

fn storm(input: &Input<'_>, pause: &Pause, at: &PauseSource<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.pfc;
    let is_endless =
        |pause: &Pause| pause.longest_ns.unwrap_or(0) >= limits.endless_ms.saturating_mul(NS_PER_MS);
    let by_frames = |pause: &Pause| {
        let known = pause.worst_share.or(pause.least_share);
        pause.most_share.filter(|bound| known.is_none() && *bound > 0.0 && *bound >= limits.storm_most_share)
    };
    let share = |pause: &Pause| pause.worst_share.or(pause.least_share).unwrap_or(0.0);
    let judged = latest_storm(pause, |one| {
        share(one) >= limits.storm_share || is_endless(one) || by_frames(one).is_some()
    });
    let Some((pause, episodes)) = &judged else { return };
    let (endless, bound, share) = (is_endless(pause), by_frames(pause), share(pause));
    let of = match pause.priority {
        Some(priority) => format!("PFC storm on priority {priority}"),
        None => "Global pause storm".to_owned(),
    };
    let diagnosis = if bound.is_some() {
        let rate = pause.worst_frames_per_s.unwrap_or(0.0);
        format!("{of}: up to {} paused, {rate:.0} pause frames/s", units::ratio(bound))
    } else if endless {
        let longest = pause.longest_ns.unwrap_or(0);
        format!("{of}: paused for {} without end", units::duration(longest))
    } else {
        let least = if pause.worst_share.is_none() { "at least " } else { "" };
        format!("{of}: paused {least}{} of the time", units::ratio(Some(share)))
    };
    let place = at.place(input);
    let neighbour = place.switch_port.clone().unwrap_or_else(|| "the neighbour".to_owned());
    let here = Commands::on(input, at.link.unwrap_or("")).of_priority(pause.priority);
    let severity = if endless { Severity::Critical } else { Severity::Warning };
    let by = format!(", {}", at.by);
    let mut raise = Raise::new(&STORM, severity, title(diagnosis, [by]))
        .place(place)
        .dated(episodes.clone())
        .impact(Impact { time_lost_ns: pause.paused_ns, ..Impact::default() });
    raise = source(raise, pause, &neighbour, here);
    raise
        .step("Check pause counters and discards of the NIC.", here.nic_counters())
        .step("Check that PFC is enabled for the same priorities on both sides.", here.pfc())
        .step("Enable the PFC watchdog on the switch, and lower the ECN thresholds.", ByHand::Switch)
        .of(input, &at.name)
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
        let by = format!("{} by {}", pause.direction.unwrap_or("received"), device.label());
        let at = PauseSource { name: device.label(), by, link: device.interface.as_deref(), way: None };
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
    let Some(priority) = pause.priority.filter(|priority| lossless >> (priority & 7) & 1 == 0) else {
        return;
    };
    let Some((frames, episodes)) = latest_frames(pause, input.limits.pfc.frames.max(1)) else { return };
    let on: Vec<u8> = (0..8).filter(|p| lossless >> p & 1 == 1).collect();
    let list: Vec<String> = on.iter().map(u8::to_string).collect();
    let list = if list.is_empty() { "none".into() } else { list.join(", ") };
    let diagnosis = format!("PFC pause on lossy priority {priority}: {}", plural(frames, "frame"));
    let parts = [format!(" {}", at.by), format!(", lossless: {list}")];
    let here = Commands::on(input, at.link.unwrap_or("")).of_priority(Some(priority));
    Raise::new(&WRONG_PRIORITY, Severity::Warning, title(diagnosis, parts))
        .place(at.place(input))
        .dated(episodes)
        .step("Check PFC per priority on the host.", here.pfc())
        .step("Check the DSCP to priority map and trust mode on the host.", here.qos())
        .step("Configure the same lossless priorities on the switch port.", ByHand::Switch)
        .evidence("priority", priority)
        .evidence("lossless", on)
        .evidence("direction", pause.direction)
        .evidence("frames", frames)
        .into(found);
}

/// Stalls of at least `least` in the latest overlapping group, the longest first, and when. If no single stall is as
/// long, the sums over the run are compared, and there is no time.
fn together<T>(all: Vec<(T, u64, Stall)>, least: u64) -> (Vec<(T, u64)>, Option<Episode>) {
    let long = all.iter().map(|(.., stall)| stall).filter(|stall| stall.stalled_ns >= least);
    let times = joined(long.map(|stall| (stall.first_ns, stall.last_ns)).collect());
    let latest = times.last().copied();
    let counted = |(one, sum, stall): (T, u64, Stall)| match latest {
        None => (one, sum),
        Some((first_ns, _)) if stall.first_ns >= first_ns => (one, stall.stalled_ns),
        Some(_) => (one, 0),
    };
    let mut victims: Vec<_> = all.into_iter().map(counted).filter(|(_, ns)| *ns >= least).collect();
    victims.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let peak = victims.first().map(|(_, longest)| *longest as f64);
    (victims, latest.map(|(first_ns, last_ns)| Episode { first_ns, last_ns, peak }))
}

fn stalled_qps(input: &Input<'_>, device: &Device, found: &mut Vec<Finding>) {
    let least = input.limits.pfc.victim_ms.saturating_mul(NS_PER_MS);
    let all = device.every_qp().filter_map(|qp| Some((qp, qp.pause_stall_ns?, qp.stall)));
    let (victims, episode) = together(all.collect(), least.max(1));
    let Some((_, longest)) = victims.first() else { return };
    let queue_pairs = plural(victims.len() as u64, "queue pair");
    let diagnosis = format!("PFC victims: {queue_pairs} stalled for up to {}", units::duration(*longest));
    let of = format!(", {}", device.label());
    let interface = device.interface.as_deref();
    let here = Commands::on(input, interface.unwrap_or(""));
    let mut pids: Vec<u32> = victims.iter().filter_map(|(qp, _)| qp.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Raise::new(&VICTIM, Severity::Warning, title(diagnosis, [of]))
        .place(interface.map(|name| Place::link(input, name, None)).unwrap_or_default())
        .impact(stalled(victims.iter().map(|(_, ns)| *ns)))
        .dated(episode.into_iter().collect())
        .step(SOURCE, here.pfc())
        .step("List the queue pairs with their processes.", here.queue_pairs())
        .queue_pairs(LocalQp::all(device, victims.iter().map(|(qp, _)| *qp)))
        .evidence("queue_pairs", victims.iter().take(16).map(|(qp, _)| qp.lqpn).collect::<Vec<_>>())
        .evidence("longest_ns", *longest)
        .evidence("pids", pids)
        .into(found);
}

/// Impact of stalls of this length, which add up.
fn stalled(ns: impl Iterator<Item = u64>) -> Impact {
    Impact { time_lost_ns: Some(ns.sum()), ..Impact::default() }
}

fn stalled_flows(input: &Input<'_>, found: &mut Vec<Finding>) {
    let least = input.limits.pfc.victim_ms.saturating_mul(NS_PER_MS).max(1);
    // An ACK flow is silent because its data flow is.
    let flows = input.facts.flows.iter().filter(|flow| flow.has_sequence());
    let stalls = input.sample.metrics.control.as_ref().map(|control| &control.stalls);
    let stall = |flow: &Flow| stalls.and_then(|all| all.get(&flow.slot)).copied().unwrap_or_default();
    let all = deduplicated(flows, |flow| flow.pause_stall_ns.get().unwrap_or(0));
    let all = all.into_iter().map(|(flow, sum)| (flow, sum, stall(flow)));
    let (victims, episode) = together(all.collect(), least);
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
    let times = episode.map(|one| (one.first_ns, one.last_ns));
    let lengths = own.filter_map(|pause| match times.filter(|_| !pause.intervals.0.is_empty()) {
        Some(times) => in_intervals(pause, near(pause, times)).paused_ns,
        None => pause.paused_ns,
    });
    let paused_ns = lengths.max();
    // With 10 s before and behind, as the pauses.
    let length = |first_ns: u64, last_ns: u64| {
        let (from_ns, to_ns) = times
            .map_or((0, u64::MAX), |(from, to)| (from.saturating_sub(OVER_NS), to.saturating_add(OVER_NS)));
        last_ns.min(to_ns).checked_sub(first_ns.max(from_ns))
    };
    let share = |ns: u64, of: Option<u64>| of.filter(|of| *of > 0).map(|of| ns as f64 / of as f64);
    let window = &input.facts.window;
    let window_ns = window.first_ns.zip(window.last_ns).and_then(|(first, last)| length(first, last));
    // A transport timer that expires while the priority is paused makes the sender retransmit packets that are queued
    // or have arrived.
    let lossless = victims.iter().all(|(flow, _)| flow.loss.get().is_none_or(|loss| loss.lost == 0));
    Raise::new(&VICTIM, Severity::Warning, title(diagnosis, [pair(worst.src, worst.dst)]))
        .place(Place::of(input, worst))
        .ends(requester, responder)
        .impact(stalled(victims.iter().map(|(_, ns)| *ns)))
        .step(SOURCE, here.pfc())
        .evidence("longest_ns", *longest)
        .evidence("longest_ratio", share(*longest, length(worst.first_ns, worst.last_ns)))
        .evidence("stalled_ns", victims.iter().take(MAX_FLOWS).map(|(_, ns)| *ns).collect::<Vec<_>>())
        .evidence("priority", priority)
        .evidence("paused_ns", paused_ns)
        .evidence("paused_ratio", paused_ns.and_then(|ns| share(ns, window_ns)))
        .flows(victims.iter().map(|(flow, _)| *flow))
        .dated(episode.into_iter().collect())
        .owns(if lossless { &[ids::RETRY_STORM, ids::RETRY_TIMEOUTS] } else { &[] })
        .into(found);
}

#[cfg(test)]
mod tests;
