//! Queue pairs that stall, retry, wait for their receiver or share one path, from the NIC's own contexts.

use std::collections::BTreeMap;

use super::ends;
use crate::analysis::{Device, DeviceQp};
use crate::entity::contexts::ContextTimes;
use crate::entity::interval::{EPISODE_GAP_NS, Interval};
use crate::findings::ids;
use crate::findings::title::{more, pair, title};
use crate::findings::{
    Command, Commands, Entry, Episode, Family, Finding, Input, LocalQp, NoEpisodes, Place, Problem, Raise,
    Severity, Unit, label,
};
use crate::util::small_list::SmallList;
use crate::util::time::NS_PER_MS;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[STUCK, RETRYING, RECEIVER, BOND_PORT, PLANES],
    limits: &[Limits::META],
    evidence: &[
        label("qps", "queue pairs", Unit::Count),
        label("lqpn", "queue pair", Unit::Id),
        label("rqpn", "queue pair of the other end", Unit::Id),
        label("udp_port", "UDP source port", Unit::Id),
        label("process", "process", Unit::Text),
        label("stuck_ns", "time without an acknowledgement, at least", Unit::Nanoseconds),
        label("in_flight", "packets in flight", Unit::Count),
        label("unsent_wqes", "unsent send WQEs", Unit::Count),
        label("readings", "contexts read", Unit::Count),
        label("retrying_readings", "readings with retries in use", Unit::Count),
        label("exhausted_readings", "readings without a posted receive", Unit::Count),
        label("retries_used", "retries used up", Unit::Count),
        label("retry_cnt", "retry count", Unit::Count),
        label("rnr_retry", "RNR retry count", Unit::Count),
        label("timeout_ns", "transport timeout", Unit::Nanoseconds),
        label("timeouts", "timeouts of the port attributed to it", Unit::Count),
        label("sequence_errors", "sequence-error NAKs of the port attributed to it", Unit::Count),
        label("attribution", "attribution", Unit::Text),
        label("ports", "ports of the bond", Unit::Count),
        label("port", "port in use", Unit::Id),
        label("planes", "planes", Unit::Count),
        label("max_over_mean", "busiest plane / mean", Unit::Factor),
        label("by_plane", "load of each plane", Unit::Text),
    ],
    check,
};

/// Common caveat of the contexts.
const READ: &str = "Contexts are read from time to time (`--qp-queries`), so that what happens between two readings is not seen. \
                    Decoders follow the drivers' public definitions and have not run on hardware.";

pub(super) const STUCK: Entry = Entry {
    id: ids::QP_STUCK,
    rank: 162,
    causes: &[RECEIVER.id],
    title: "Queue pair stuck",
    meaning: "A queue pair has packets in flight, and its peer has acknowledged none of them for thousands of round-trip times. The collective that uses it waits; when its retries are exhausted \
              the connection fails.",
    computed: "Live, from the NIC's own context (devices[].qps[]): in_flight is above 0 and stuck_ns is at least `qp_context.stuck_ms`; critical from `qp_context.stuck_critical_ms` on. One finding per device, about the \
               queue pair that is stuck longest.",
    advice: "Follow the 5-tuple: is the peer up, does the path of this source port drop everything (`ping` takes another one), is a priority paused without end (PFC storm), is the process at the other end stopped? \
             The timeouts of the port that are attributed to the queue pair are in the evidence.",
    caveat: READ,
    ..Entry::of(Problem::Silent)
};

pub(super) const RETRYING: Entry = Entry {
    id: ids::QP_RETRYING,
    rank: 163,
    title: "Queue pair retries",
    meaning: "A queue pair retransmits the same packets: its retry counter is in use each time its context is read. Each retry after a timeout costs at least the transport timeout, in which the queue pair sends \
              nothing new.",
    computed: "Live, from the NIC's own context (devices[].qps[]): retrying_readings is at least `qp_context.retrying_readings`. Timeouts and sequence-error NAKs that the port counts \
               are attributed to the queue pairs whose contexts moved at that time: certain when no other queue pair of the port had a packet in flight, else likely.\n\
               \n\
               A queue pair that is stuck is reported as qp.stuck alone. An episode lasts from the first context that shows retries to the last ({EPISODE_GAP_NS} of contexts without any end one); \
               figures are those of the latest one with as many, or of all together.",
    advice: "Look for loss on the path of this 5-tuple: discards on the switch ports, CRC and FEC errors, a bad cable or transceiver, a queue without PFC. With many queue pairs of different paths, look at this host's port first.",
    caveat: READ,
    ..Entry::of(Problem::Silent)
};

pub(super) const RECEIVER: Entry = Entry {
    id: "qp.receiver_behind",
    rank: 157,
    title: "Receiver behind",
    meaning: "Messages arrive faster than the receiving process posts receive buffers: the receiver answers with RNR NAKs, and the sender waits for the time that they name. The process at the receiving end is the bottleneck, not the \
              network.",
    computed: "Live, from the NIC's own context (devices[].qps[]). This host as receiver: a receive queue in use was found without a posted receive at least `qp_context.receiver_readings` times, and the port counted RNR NAKs sent or packets \
               without a buffer. This host as sender: RNR retries were in use in at least that number of contexts. Episodes are those of contexts, as of qp.retrying.",
    advice: "Look at the process on the receiving end: CPU binding, a proxy thread that shares its core, GPU synchronisation, too few receive buffers (queue depth), a garbage collector.",
    caveat: READ,
    ..Entry::of(Problem::Silent)
};

const BOND_PORT: Entry = Entry {
    id: "qp.one_bond_port",
    rank: 352,
    lasting: Some(NoEpisodes::State),
    title: "All queue pairs on one port of the bond",
    meaning: "The NIC sends all queue pairs of a bond on one of its ports: half the bandwidth or more stays unused, and the other ports only receive.",
    computed: "Live, from the NIC's own context or the firmware commands of a DEVX queue pair (devices[].qps[].bond_port): at least `qp_context.bond_qps` connected queue pairs that are in use, of a device whose port is a bond of several interfaces, all have the same port. Queue pairs for \
               which the NIC chooses the port by a hash of the packet have none and are left out.",
    advice: "Use more queue pairs per connection (NCCL_IB_QPS_PER_CONNECTION, NCCL_IB_SPLIT_DATA_ON_QPS=1), hash mode of the bond (`devlink dev param`, LAG_RESOURCE_ALLOCATION and roce LAG of mlx5), or set the port by queue pair \
             (lag_tx_port_affinity). Check that all members are up.",
    caveat: READ,
    ..Entry::of(Problem::Silent)
};

const PLANES: Entry = Entry {
    id: "qp.uneven_planes",
    rank: 353,
    lasting: Some(NoEpisodes::State),
    title: "Planes loaded unevenly",
    meaning: "Planes of a multi-plane fabric carry equal shares by design. Here one plane carries far more than the mean: its links saturate while others idle.",
    computed: "Live, from the NIC's own context or the firmware commands of a DEVX queue pair (devices[].qps[].plane): of at least `qp_context.plane_qps` connected queue pairs with a plane, the busiest plane has `qp_context.planes_ratio` times the mean of all planes up to the highest number seen. \
               The load is the bytes that each queue pair sent at most (sent_packets × path_mtu), as in qp_paths.planes, or one each where these are not known exactly of all.",
    advice: "Check that all planes are up on this host and on the peers, and how the library chooses planes (NCCL_IB_SPLIT_DATA_ON_QPS, number of queue pairs a multiple of the planes).",
    caveat: READ,
    ..Entry::of(Problem::Silent)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "qp_context";
    stuck_ms: u64 = 1000,
        "minimum time without an acknowledgement, in milliseconds",
        "Round trips take below a millisecond; PFC pauses that last are cut off by switch watchdogs within some hundred milliseconds";
    stuck_critical_ms: u64 = 10000,
        "time without an acknowledgement that is critical, in milliseconds",
        "A link that trains again and a route that converges are back by then";
    retrying_readings: u64 = 3,
        "minimum readings with retries in use",
        "One may catch the retransmission of a single lost packet";
    receiver_readings: u64 = 3,
        "minimum contexts with an empty receive queue or RNR retries in use",
        "A queue that is empty for a moment at the start of a step is normal";
    bond_qps: u64 = 4,
        "minimum queue pairs on one port of a bond",
        "The driver assigns ports in turn: four on one port cannot result from this order";
    plane_qps: u64 = 8,
        "minimum queue pairs with a plane",
        "With fewer, an unequal number of queue pairs per plane explains an uneven load";
    planes_ratio: f64 = 1.5,
        "minimum load of the busiest plane, as a multiple of the mean",
        "As for links: a few long flows do not put half more than the mean on one plane";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for device in &input.facts.devices {
        let mut qps: Vec<&DeviceQp> = device.every_qp().filter(|qp| !qp.control.is_over()).collect();
        // Commands past the verbs choose port and plane, too.
        bond_port(input, device, &qps, found);
        planes(input, device, &qps, found);
        qps.retain(|qp| qp.context_ns.is_some());
        stuck(input, device, &qps, found);
        retrying(input, device, &qps, found);
        receiver(input, device, &qps, found);
    }
}

fn is_stuck(input: &Input<'_>, qp: &DeviceQp) -> bool {
    let least_ns = input.limits.qp_context.stuck_ms.saturating_mul(NS_PER_MS);
    qp.in_flight.is_some_and(|packets| packets > 0) && qp.stuck_ns.is_some_and(|ns| ns >= least_ns.max(1))
}

fn stuck(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], found: &mut Vec<Finding>) {
    let stuck: Vec<&DeviceQp> = qps.iter().copied().filter(|qp| is_stuck(input, qp)).collect();
    let Some(worst) = stuck.iter().copied().max_by_key(|qp| qp.stuck_ns) else { return };
    let stuck_ns = worst.stuck_ns.unwrap_or(0);
    let critical_ns = input.limits.qp_context.stuck_critical_ms.saturating_mul(NS_PER_MS);
    let severity = if stuck_ns >= critical_ns { Severity::Critical } else { Severity::Warning };
    let in_flight = worst.in_flight.unwrap_or(0);
    let diagnosis = format!("QP {} of {} stuck for {}", worst.lqpn, device.name, units::duration(stuck_ns));
    let packets = format!(": {} unacknowledged", plural(u64::from(in_flight), "packet"));
    let last_ns = worst.context_ns.unwrap_or(0);
    let episode = Episode { first_ns: last_ns.saturating_sub(stuck_ns), last_ns, peak: None };
    let priority = worst.control.dscp.map(|dscp| dscp >> 3);
    let here = Commands::on(input, device.interface.as_deref().unwrap_or("")).of_priority(priority);
    let title = with_hosts(diagnosis, worst, stuck.len(), packets);
    of_one(input, device, (worst, stuck.iter().copied()), Raise::new(&STUCK, severity, title))
        .evidence("qps", stuck.len())
        .evidence("stuck_ns", stuck_ns)
        .evidence("in_flight", in_flight)
        .evidence("unsent_wqes", worst.unsent_wqes)
        .evidence("retries_used", worst.retries_used)
        .episodes(vec![episode])
        .step("Look for pauses that do not end on the priority of the queue pair.", here.pfc())
        .into(found);
}

/// Readings of a queue pair that show a state, of the latest time that has enough of them, else of all times together.
struct StateReadings<'a> {
    qp: &'a DeviceQp,
    /// Readings that show it, and all readings meanwhile.
    readings: u64,
    of: u64,
    episodes: Vec<Episode>,
}

impl<'a> StateReadings<'a> {
    /// `count` is the number of the whole run; `None` if it is below `least`.
    fn new(
        qp: &'a DeviceQp,
        count: Option<u64>,
        times: fn(&ContextTimes) -> &SmallList<Interval>,
        least: u64,
    ) -> Option<Self> {
        let count = count.filter(|count| *count >= least.max(1))?;
        let times = qp.context_times.as_deref().map_or(&[][..], |all| &**times(all));
        let enough: Vec<&Interval> = times.iter().filter(|one| one.count >= least).collect();
        let between = |first: &Interval, last: &Interval| last.at_last.saturating_sub(first.at_first);
        let episode = |first: &Interval, last: &Interval| Episode {
            first_ns: first.first_ns,
            last_ns: last.last_ns,
            peak: None,
        };
        Some(match (enough.last(), times.first().zip(times.last())) {
            (Some(latest), _) => {
                let episodes = enough.iter().map(|one| episode(one, one)).collect();
                Self { qp, readings: latest.count, of: between(latest, latest), episodes }
            }
            (None, Some((first, end))) => {
                Self { qp, readings: count, of: between(first, end), episodes: vec![episode(first, end)] }
            }
            (None, None) => {
                Self { qp, readings: count, of: qp.context_readings.unwrap_or(0), episodes: Vec::new() }
            }
        })
    }

    fn last_ns(&self) -> Option<u64> {
        self.episodes.last().map(|episode| episode.last_ns)
    }

    /// Removes those that ended 10 s or more before another one.
    fn retain_latest(all: &mut Vec<Self>) {
        let latest_ns = all.iter().filter_map(Self::last_ns).max().unwrap_or(0);
        all.retain(|one| one.last_ns().is_none_or(|ns| latest_ns.saturating_sub(ns) < EPISODE_GAP_NS));
    }

    fn share(&self) -> String {
        format!("{} of {} readings", units::count(self.readings), units::count(self.of))
    }
}

fn retrying(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], found: &mut Vec<Finding>) {
    let least = input.limits.qp_context.retrying_readings;
    let others = qps.iter().copied().filter(|qp| !is_stuck(input, qp));
    let mut all: Vec<StateReadings<'_>> = others
        .filter_map(|qp| StateReadings::new(qp, qp.retrying_readings, |times| &times.retrying, least))
        .collect();
    StateReadings::retain_latest(&mut all);
    let Some(worst) = all.iter().max_by_key(|one| (one.qp.timeouts, one.readings)) else { return };
    let diagnosis = format!("QP {} of {} retries", worst.qp.lqpn, device.name);
    // Timeouts are those of the whole run.
    let counted = match worst.qp.timeouts.filter(|count| *count > 0 && worst.episodes.len() < 2) {
        Some(count) => {
            format!(": {} ({})", plural(count, "timeout"), worst.qp.attribution.unwrap_or("likely"))
        }
        None => format!(": in {}", worst.share()),
    };
    let here = Commands::on(input, device.interface.as_deref().unwrap_or(""));
    let title = with_hosts(diagnosis, worst.qp, all.len(), counted);
    of_one(
        input,
        device,
        (worst.qp, all.iter().map(|one| one.qp)),
        Raise::new(&RETRYING, Severity::Warning, title),
    )
    .evidence("qps", all.len())
    .evidence("readings", worst.of)
    .evidence("retrying_readings", worst.readings)
    .evidence("retries_used", worst.qp.retries_used)
    .last_seen(worst.qp.context_ns)
    .dated(worst.episodes.clone())
    .of_all_episodes(&["timeouts", "sequence_errors"])
    .step("Look for drops, CRC and FEC errors of this port.", here.nic_counters())
    .into(found);
}

fn receiver(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], found: &mut Vec<Finding>) {
    let least = input.limits.qp_context.receiver_readings;
    let of_port = input.facts.devices.iter().filter(|one| one.name == device.name && one.port == device.port);
    let grew = ["rnr_naks_sent", "out_of_buffer"];
    let refused = of_port.flat_map(|one| grew.map(|name| one.counters.get(name))).flatten().any(|n| *n > 0);
    for local in [true, false] {
        let shown = qps.iter().copied().filter_map(|qp| {
            if local {
                StateReadings::new(
                    qp,
                    qp.exhausted_readings.filter(|_| refused),
                    |times| &times.exhausted,
                    least,
                )
            } else {
                StateReadings::new(qp, qp.rnr_retrying_readings, |times| &times.rnr_retrying, least)
            }
        });
        let mut all: Vec<StateReadings<'_>> = shown.collect();
        StateReadings::retain_latest(&mut all);
        let Some(worst) = all.iter().max_by_key(|one| one.readings) else { continue };
        let who = if local { "has no receive posted" } else { "waits for its receiver (RNR)" };
        let diagnosis = format!("QP {} of {} {who}", worst.qp.lqpn, device.name);
        let title = with_hosts(diagnosis, worst.qp, all.len(), format!(": {}", worst.share()));
        let (own, peer) = ends::of_qp(worst.qp);
        let mut raise = of_one(
            input,
            device,
            (worst.qp, all.iter().map(|one| one.qp)),
            Raise::new(&RECEIVER, Severity::Warning, title),
        )
        .evidence("qps", all.len())
        .evidence("readings", worst.of)
        .evidence("rnr_retry", worst.qp.control.rnr_retry)
        .last_seen(worst.qp.context_ns)
        .dated(worst.episodes.clone())
        .of_all_episodes(&["timeouts", "sequence_errors"]);
        if local {
            // Its peer sends the requests.
            raise = raise.evidence("exhausted_readings", worst.readings).ends(peer, own);
        } else {
            raise = raise.evidence("retrying_readings", worst.readings);
        }
        let process = if local { worst.qp.pid } else { None };
        let threads = process.map(|pid| Command::here(format!("top -H -b -n 1 -p {pid}")));
        raise
            .step("Look at the threads of the receiving process: is one of them at 100 % of a core?", threads)
            .into(found);
    }
}

fn bond_port(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], found: &mut Vec<Finding>) {
    let in_use = |qp: &&&DeviceQp| qp.rqpn.is_some() && qp.exactly_sent() != Some(0);
    let ports: Vec<(u8, &DeviceQp)> =
        qps.iter().filter(in_use).filter_map(|qp| Some((qp.bond_port?, *qp))).collect();
    let (Some((port, first)), count) = (ports.first().copied(), ports.len()) else { return };
    let enough = count as u64 >= input.limits.qp_context.bond_qps.max(1);
    if device.members.len() < 2 || !enough || ports.iter().any(|(other, _)| *other != port) {
        return;
    }
    let diagnosis = format!(
        "All {} of {} use port {port} of its bond of {}",
        plural(count as u64, "QP"),
        device.name,
        device.members.len()
    );
    let here = Commands::on(input, device.members.get(usize::from(port) - 1).map_or("", String::as_str));
    of_one(
        input,
        device,
        (first, ports.iter().map(|(_, qp)| *qp)),
        Raise::new(&BOND_PORT, Severity::Warning, title(diagnosis, [])),
    )
    .evidence("qps", count)
    .evidence("ports", device.members.len())
    .evidence("port", port)
    .step("Check that all members of the bond are up, and at what speed.", here.link())
    .into(found);
}

fn planes(input: &Input<'_>, device: &Device, qps: &[&DeviceQp], found: &mut Vec<Finding>) {
    let with: Vec<(u8, &DeviceQp)> =
        qps.iter().filter(|qp| qp.rqpn.is_some()).filter_map(|qp| Some((qp.plane?, *qp))).collect();
    if (with.len() as u64) < input.limits.qp_context.plane_qps.max(2) {
        return;
    }
    let known = with.iter().all(|(_, qp)| qp.sent_bytes_at_most().is_some());
    let mut loads: BTreeMap<u8, u64> = BTreeMap::new();
    for (plane, qp) in &with {
        let load = if known { qp.sent_bytes_at_most().unwrap_or(0) } else { 1 };
        let sum = loads.entry(*plane).or_default();
        *sum = sum.saturating_add(load);
    }
    let planes = loads.keys().max().copied().unwrap_or(0).max(2);
    let total = loads.values().copied().fold(0, u64::saturating_add);
    let Some((busiest, most)) = loads.iter().max_by_key(|(_, load)| **load) else { return };
    if total == 0 {
        return;
    }
    let ratio = *most as f64 * f64::from(planes) / total as f64;
    if ratio < input.limits.qp_context.planes_ratio {
        return;
    }
    let diagnosis =
        format!("Plane {busiest} of {} carries {ratio:.1} × the mean of {planes} planes", device.name);
    let of_each: Vec<String> = (1..=planes)
        .map(|plane| {
            let load = loads.get(&plane).copied().unwrap_or(0);
            format!("plane {plane}: {}", if known { units::bytes(load) } else { plural(load, "queue pair") })
        })
        .collect();
    let Some((_, first)) = with.iter().find(|(plane, _)| plane == busiest) else { return };
    let here = Commands::on(input, device.interface.as_deref().unwrap_or(""));
    let there = with.iter().filter(|(plane, _)| plane == busiest).map(|(_, qp)| *qp);
    of_one(input, device, (first, there), Raise::new(&PLANES, Severity::Warning, title(diagnosis, [])))
        .evidence("qps", with.len())
        .evidence("planes", planes)
        .evidence("max_over_mean", ratio)
        .evidence("by_plane", of_each.join(", "))
        .step("Compare the counters of the planes' links.", here.nic_counters())
        .into(found);
}

/// The title with hosts and the other queue pairs, as far as there is room.
fn with_hosts(diagnosis: String, worst: &DeviceQp, all: usize, figure: String) -> String {
    let hosts =
        worst.control.src.zip(worst.control.dst).map_or_else(String::new, |(src, dst)| pair(src, dst));
    title(diagnosis, [figure, more((all as u64).saturating_sub(1), "QP"), hosts])
}

/// Adds the queue pairs, and the known properties of the one that represents the others.
fn of_one<'q>(
    input: &Input<'_>,
    device: &Device,
    (qp, qps): (&DeviceQp, impl IntoIterator<Item = &'q DeviceQp>),
    raise: Raise,
) -> Raise {
    let interface = device.interface.as_deref().unwrap_or("");
    let here = Commands::on(input, interface);
    let (requester, responder) = ends::of_qp(qp);
    let mut raise = raise
        .queue_pairs(LocalQp::all(device, qps))
        .evidence("lqpn", qp.lqpn)
        .evidence("rqpn", qp.rqpn)
        .evidence("udp_port", qp.control.udp_port)
        .evidence("process", ends::process(qp.comm.as_deref(), qp.pid))
        .evidence("retry_cnt", qp.control.retry_cnt)
        .evidence("timeout_ns", qp.control.timeout_ns)
        .timeouts(qp.timeouts)
        .evidence("sequence_errors", qp.sequence_errors)
        .evidence("attribution", qp.attribution)
        .place(Place::link(input, interface, None))
        .ends(requester, responder)
        .step(
            format!("Read state and owner of queue pair {}.", qp.lqpn),
            here.queue_pair(&device.name, device.port, qp.lqpn),
        );
    if let Some(dst) = qp.control.dst {
        raise = raise.step(format!("Check that {dst} is reachable from {interface}."), here.ping(dst.into()));
    }
    raise
}

#[cfg(test)]
mod tests;
