//! Queue pairs that the NIC or its driver moved to the error state, from the kernel's control path.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{
    Commands, DIED, DeadQp, Episode, GREW_NS, Input, LIST, PATH, Place, REASON_NS, Raise, ends, fatal_nak_in,
    more, pair, reachable, read_log, title, with_settings,
};
use crate::analysis::{Device, DeviceQp, QpEvent};
use crate::entity::interval::{self, EPISODE_GAP_NS, Interval};
use crate::entity::lives::{ERROR, FATAL_EVENTS, REASON, TO_ERROR};
use crate::findings::command::ByHand;
use crate::findings::{Finding, LocalQp, Severity};
use crate::util::map::Map;
use crate::util::small_list::SmallList;
use crate::util::units::plural;

/// Port counters that indicate why queue pairs fail.
const COUNTERS: [(&str, &str); 4] = [
    ("retries_exceeded", "retry count exceeded"),
    ("rnr_retries_exceeded", "RNR retry count exceeded"),
    ("access_naks_received", "remote access error"),
    ("access_naks_sent", "remote access error (its own NAK)"),
];

/// Maximum number of queue pairs listed in a finding.
const MOST_LISTED: usize = 16;

/// The end of one life of a queue pair, or of one of its connections.
struct Death<'a> {
    device: &'a Device,
    lqpn: u32,
    event: &'a QpEvent,
    /// The queue pair, if listed.
    qp: Option<&'a DeviceQp>,
    cause: String,
    /// The cause was inferred from counters of the whole port.
    likely: Option<Likely>,
    /// It refused a request of its peer, which is the requester.
    own_nak: bool,
    /// A query alone shows it, and results of this number of verbs are not known since the one before: one of them may
    /// have taken it to the error state.
    unseen_verbs: u64,
}

/// Evidence of counters for a cause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likely {
    /// They grew at that time.
    AtThatTime,
    /// They grew during the run: their times are not known.
    InTheRun,
}

/// Raises one finding per device, cause and peer, without deaths already seen in packets; the latest first.
pub(super) fn check(input: &Input<'_>, known: &[DeadQp<'_>], found: &mut Vec<Finding>) {
    for device in &input.facts.devices {
        let mut groups: BTreeMap<(String, Option<IpAddr>), Vec<Death<'_>>> = BTreeMap::new();
        for death in deaths(input, device) {
            if !known.iter().any(|dead| is_same(dead, &death)) {
                groups.entry((death.cause.clone(), death.event.dst)).or_default().push(death);
            }
        }
        let mut groups: Vec<Vec<Death<'_>>> = groups.into_values().collect();
        groups.sort_by_key(|deaths| Reverse(deaths.iter().map(|death| death.event.order()).max()));
        for deaths in groups {
            raise(input, deaths, found);
        }
    }
}

/// The deaths of a device's queue pairs, each with the first of its events.
fn deaths<'a>(input: &Input<'a>, device: &'a Device) -> Vec<Death<'a>> {
    let mut deaths: Vec<Death<'_>> = Vec::new();
    // Place of the latest death of each number.
    let mut latest: Map<u32, usize> = Map::default();
    for event in &device.qp_events {
        let Some(death) = death(input, device, event) else { continue };
        let before = latest.get(&death.lqpn).and_then(|at| deaths.get(*at));
        if before.is_none_or(|before| is_another(before, &death)) {
            latest.insert(death.lqpn, deaths.len());
            deaths.push(death);
        }
    }
    deaths
}

/// True if an event is not of the death that an earlier one of the same number shows: the number is in use again, or
/// the queue pair was connected again.
fn is_another(earlier: &Death<'_>, later: &Death<'_>) -> bool {
    // A query shows a death where the one before found the queue pair connected.
    if [earlier, later].iter().all(|death| death.event.event == TO_ERROR) {
        return true;
    }
    let passed_ns = || later.event.order().saturating_sub(earlier.event.order());
    later.qp.map_or_else(
        || passed_ns() >= EPISODE_GAP_NS,
        |qp| qp.control.began_between(earlier.event, later.event),
    )
}

fn death<'a>(input: &Input<'a>, device: &'a Device, event: &'a QpEvent) -> Option<Death<'a>> {
    let lqpn = event.lqpn.filter(|_| event.is_death())?;
    // Queue pair numbers are reused: this is the queue pair that existed at the time.
    let lived = |qp: &&DeviceQp| qp.lqpn == lqpn && qp.control.lived_at(event);
    let qp = device.every_qp().filter(lived).max_by_key(|qp| qp.control.creation_order());
    let death = |cause: String| Death {
        device,
        lqpn,
        event,
        qp,
        cause,
        likely: None,
        own_nak: false,
        unseen_verbs: 0,
    };
    let named = FATAL_EVENTS.iter().find(|(name, _)| *name == event.event);
    // The driver's reason takes precedence.
    let of_same = |other: &&QpEvent| {
        let is_near = || other.order().abs_diff(event.order()) <= REASON_NS;
        other.event == REASON && other.lqpn == event.lqpn && is_near()
    };
    if let Some(why) = device.qp_events.iter().find(of_same).and_then(|event| event.reason.clone()) {
        return Some(death(why));
    }
    if let Some((name, meaning)) = named {
        return Some(death(format!("{meaning} ({name})")));
    }
    if event.event != TO_ERROR {
        return None;
    }
    if let Some((nak, own_nak)) = qp.and_then(|qp| nak(input, qp)) {
        let cause = if own_nak { format!("{nak} (its own)") } else { nak.to_owned() };
        return Some(Death { own_nak, ..death(cause) });
    }
    let (causes, likely) = by_counters(input, device, event);
    let cause = if causes.is_empty() { "found in the error state".to_owned() } else { causes.join(", or ") };
    let likely = Some(likely).filter(|_| !causes.is_empty());
    Some(Death { likely, unseen_verbs: event.unseen_verbs, ..death(cause) })
}

/// The causes that counters of the port indicate for a death: those that grew at its time, or where times of growth are
/// not known, those that grew during the run.
fn by_counters(input: &Input<'_>, device: &Device, event: &QpEvent) -> (Vec<&'static str>, Likely) {
    let is_port = |name: &str, port: Option<u32>| name == device.name && port == device.port;
    let port = input.sample.devices.ports.iter().find(|port| is_port(&port.device, Some(port.port)));
    let growth = port.map_or(&[][..], |port| &port.growth);
    if growth.is_empty() {
        let of_port = || input.facts.devices.iter().filter(|one| is_port(&one.name, one.port));
        let grew = |name: &str| of_port().any(|one| one.counters.get(name).is_some_and(|count| *count > 0));
        let causes = COUNTERS.iter().filter(|(name, _)| grew(name));
        return (causes.map(|(_, cause)| *cause).collect(), Likely::InTheRun);
    }
    let grew = |name: &str| {
        let mut times = growth.iter().filter(|(own, _)| own == name).flat_map(|(_, times)| times);
        times.any(|time| {
            let (from_ns, to_ns) = match event.monotonic_ns {
                Some(_) => (time.at_first.monotonic_ns, time.at_last.monotonic_ns),
                None => (time.first_ns, time.last_ns),
            };
            (from_ns.saturating_sub(GREW_NS)..=to_ns.saturating_add(GREW_NS)).contains(&event.order())
        })
    };
    let causes = COUNTERS.iter().filter(|(name, _)| grew(name));
    (causes.map(|(_, cause)| *cause).collect(), Likely::AtThatTime)
}

/// A fatal NAK that packets show for a queue pair: received, or its own (true).
fn nak(input: &Input<'_>, qp: &DeviceQp) -> Option<(&'static str, bool)> {
    let (src, dst) = (qp.control.src?.into(), qp.control.dst?.into());
    let received = input.facts.to_qp(dst, src, qp.lqpn).find_map(fatal_nak_in).map(|nak| (nak, false));
    received.or_else(|| input.facts.to_qp(src, dst, qp.rqpn?).find_map(fatal_nak_in).map(|nak| (nak, true)))
}

/// True if packets have shown the same death.
fn is_same(dead: &DeadQp<'_>, death: &Death<'_>) -> bool {
    let Some(qp) = death.qp else { return false };
    let (src, dst) = (qp.control.src.map(Into::into), qp.control.dst.map(Into::into));
    (src, dst, qp.rqpn) == (Some(dead.flow.src), Some(dead.flow.dst), Some(dead.flow.dest_qp))
}

/// A finding about deaths of a device with one cause and one peer: it names the first queue pair of the latest episode.
fn raise(input: &Input<'_>, mut deaths: Vec<Death<'_>>, found: &mut Vec<Finding>) {
    deaths.sort_by_key(|death| death.event.order());
    let mut times: SmallList<Interval> = SmallList::default();
    for death in &deaths {
        let at = death.event.time_ns;
        interval::add(Interval { first_ns: at, last_ns: at, ..Interval::default() }, &mut times, at);
    }
    let Some(latest) = times.last() else { return };
    deaths.retain(|death| death.event.time_ns >= latest.first_ns);
    let Some((first, others)) = deaths.split_first() else { return };
    let Death { device, lqpn, event, qp, cause, likely, own_nak, unseen_verbs } = first;
    let episodes = times
        .iter()
        .map(|time| Episode { first_ns: time.first_ns, last_ns: time.last_ns, peak: None })
        .collect();
    // Neither the port nor a packet shows a failure.
    let is_doubtful = *unseen_verbs > 0 && likely.is_none();
    let severity = if is_doubtful { Severity::Warning } else { Severity::Critical };
    let diagnosis = format!("QP {lqpn} of {} died: {cause}", device.name);
    let hosts = event.src.zip(event.dst).map_or_else(String::new, |(src, dst)| pair(src, dst));
    // A device whose interface another network namespace has is known by its name alone.
    let interface = device.interface.as_deref();
    let place = interface.map_or_else(Place::default, |name| Place::link(input, name, None));
    let here = Commands::on(input, interface.unwrap_or(""));
    let (own, peer) = ends::of_event(event, *qp);
    let process = own.as_ref().and_then(|end| ends::process(end.comm.as_deref(), end.pid));
    let log = read_log(process.as_deref().unwrap_or("the process"), "");
    let (requester, responder) = if *own_nak { (peer, own) } else { (own, peer) };
    let title = title(diagnosis, [hosts, more(others.len() as u64, "QP")]);
    let raise = Raise::new(&DIED, severity, title)
        .evidence("cause", cause.as_str())
        .queue_pairs(LocalQp::numbered(device, deaths.iter().map(|death| (death.lqpn, death.qp))))
        .port(Some(device.label()))
        .evidence("lqpn", *lqpn);
    let raise = if others.is_empty() {
        raise
    } else {
        raise.evidence("queue_pairs", deaths.len()).evidence("lqpns", listed(*lqpn, others))
    };
    let mut raise = with_settings(raise, *qp)
        .died_ns(event.time_ns)
        .evidence("process", process)
        .place(place)
        .ends(requester, responder)
        .episodes(episodes)
        .last_seen(last_seen(input, &deaths))
        .step(LIST, here.queue_pairs())
        .step(log, ByHand::Varies);
    if let Some(dst) = event.dst {
        let from = interface.unwrap_or(&device.name);
        raise = raise.step(reachable(dst, from), here.ping(dst.into()));
    }
    for caveat in caveats(*likely, *unseen_verbs) {
        raise = raise.caveat(caveat);
    }
    raise.step(PATH, here.nic_counters()).into(found);
}

/// The end of the data while one of these queue pairs is still in the error state, else the time at which the last of
/// them was destroyed, or died if that was not seen.
fn last_seen(input: &Input<'_>, deaths: &[Death<'_>]) -> Option<u64> {
    let is_dead = |qp: &DeviceQp| qp.control.end == Some(ERROR) && !qp.control.is_over();
    if deaths.iter().filter_map(|death| death.qp).any(is_dead) {
        return input.facts.window.last_ns;
    }
    let over_ns =
        |death: &Death<'_>| death.qp.and_then(|qp| qp.control.over_by()).max(Some(death.event.time_ns));
    deaths.iter().filter_map(over_ns).max()
}

/// Numbers of the queue pairs of a finding, each once: the one that it names, then the latest of the others.
fn listed(first: u32, others: &[Death<'_>]) -> Vec<u32> {
    let mut numbers = vec![first];
    for death in others.iter().rev() {
        if numbers.len() < MOST_LISTED && !numbers.contains(&death.lqpn) {
            numbers.push(death.lqpn);
        }
    }
    numbers
}

/// Caveats about the cause of a death, or about the death itself.
fn caveats(likely: Option<Likely>, unseen_verbs: u64) -> impl Iterator<Item = String> {
    let inferred = likely.map(|likely| {
        let grew = match likely {
            Likely::AtThatTime => "that grew at that time",
            Likely::InTheRun => "that grew during the run, at times that are not known",
        };
        format!("The reason is inferred from counters of the whole port {grew}: another queue pair may have made them grow.")
    });
    let unseen = (unseen_verbs > 0).then(|| {
        format!(
            "The results of {} since it was last seen connected are not known (qp_lives.missed_returns): one of them may \
             have taken it to the error state.",
            plural(unseen_verbs, "verb")
        )
    });
    inferred.into_iter().chain(unseen)
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
