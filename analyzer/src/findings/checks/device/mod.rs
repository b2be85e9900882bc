//! Findings from device counters, for hosts whose packets are not visible.

use crate::entity::devices::PortSample;
use crate::findings::ids;
use crate::findings::period::joined;
use crate::findings::title::title;
use crate::findings::{
    Better, ByHand, Commands, Entry, Episode, Family, Finding, Input, Measure, Place, Problem, Raise,
    Severity, Unit,
};
use crate::util::units;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[LOSS, CONGESTION, NOT_READY, DISCARDS, LINK, PCIE],
    limits: &[Limits::META],
    evidence: &[],
    check,
};

const LOSS: Entry = Entry {
    id: "device.loss",
    rank: 200,
    measure: Some(Measure::ratio("ratio")),
    title: "Packet loss counted by the NIC",
    meaning: "RoCE packets arrived out of sequence, were NAKed and retransmitted, or were not acknowledged in time. Each loss costs at least one round trip, and \
                with go-back-N all packets in flight.",
    computed: "From the increase of the device's counters in the latest episode ({EPISODE_GAP_NS} without growth end one): out_of_sequence, psn_error_naks, implied_psn_errors, local_ack_timeouts, \
               retransmissions, retries_exceeded.\n\
               \n\
               A warning when their sum is at least device.events and at least device.loss_ratio of the RoCE packets (where packets are counted); critical when a queue pair failed \
               (retries_exceeded).\n\
               \n\
               Without a timeout, sequence errors may be reordering as well as loss, and the title says so.",
    advice: "Timeouts without out_of_sequence at the receivers mean that whole requests or ACKs are lost. Check discards of this port and of every switch port on \
               the path, PFC on the priority in use, and FEC errors. `rocescope live` on a mirror port shows the queue pairs and the location.",
    caveat: "Adaptive routing reorders by design: out_of_sequence then grows without loss.",
    ..Entry::of(Problem::Device)
};
const CONGESTION: Entry = Entry {
    id: "device.congestion",
    rank: 300,
    measure: Some(Measure::ratio("ce_ratio")),
    title: "Congestion counted by the NIC",
    meaning: "Data arrives CE-marked, and CNPs request rate reductions from the senders.",
    computed: "From the increase of the device's counters in the latest episode ({EPISODE_GAP_NS} without growth end one). A warning when ce_marked_packets are at least ecn.congestion_ratio of the received RoCE packets; \
                 info when at least device.events CNPs were sent or handled but the ratio is lower, or packets are not counted.",
    advice: "Locate the source: incast, ECMP collisions, or a slow receiver. Packets of a mirror port or a capture name it: ecn.congestion, burst.incast, \
               links.imbalance, rnr.slow_receiver.",
    caveat: "Some NIC firmware counts CE-marked packets of all protocols. CNPs are paced: their number does not follow from the number of CE marks.",
    ..Entry::of(Problem::Device)
};
const NOT_READY: Entry = Entry {
    id: "device.not_ready",
    rank: 240,
    title: "Receiver not ready (RNR NAKs), counted by the NIC",
    meaning: "A SEND or WRITE with immediate data found no posted receive buffer: the sender waits for the RNR timer and retries.",
    computed: "A warning when rnr_naks_received, rnr_naks_sent and out_of_buffer of the device add up to at least device.events; critical when a queue pair failed \
                 (rnr_retries_exceeded).",
    advice: "The receiving application posts receive buffers too late or too few: it is busy, waits for a GPU, or is misconfigured. rnr_naks_sent means that this \
               host is the receiver.",
    caveat: "",
    ..Entry::of(Problem::Device)
};
pub(super) const DISCARDS: Entry = Entry {
    id: ids::DEVICE_DISCARDS,
    rank: 190,
    title: "Port discards frames",
    meaning: "The port had no buffer for arriving frames, or could not send: on a lossless priority this must not happen.",
    computed: "A warning when port_discards, tx_discards or rx_discards of the device grew by at least device.events together.",
    advice: "Check that PFC is enabled for RoCE's priority on both sides, that its buffer has headroom (dcb buffer show), that PCIe runs at full width and speed, \
               and that the host is not the bottleneck (pcie_read_stalls).",
    caveat: "The port counters do not distinguish RoCE from other traffic.",
    ..Entry::of(Problem::Device)
};
pub(super) const LINK: Entry = Entry {
    id: ids::DEVICE_LINK_ERRORS,
    rank: 100,
    title: "Link errors",
    meaning: "Forward error correction could not correct blocks, or the link went down: frames were lost whatever the settings.",
    computed: "A warning when fec_uncorrectable or link_downs of the device grew during the run.",
    advice: "Clean or replace cable and transceiver, check their temperature and power (ethtool -m), and check the same counters of the switch port.",
    caveat: "Corrected symbols are normal at 100G per lane and above.",
    ..Entry::of(Problem::Device)
};
const PCIE: Entry = Entry {
    id: "device.pcie_stalls",
    rank: 110,
    measure: Some(Measure { name: "per_s", unit: Unit::PerSecond, better: Better::Less, grades: false }),
    title: "PCIe stalls of the NIC",
    meaning: "The NIC could not read or write memory at line rate: it pauses its neighbour, or drops packets.",
    computed: "Info when pcie_read_stalls and pcie_write_stalls of the device grow by at least device.stalls_per_s per second.",
    advice: "Check PCIe width and speed (rocescope doctor), relaxed ordering, the IOMMU, and whether memory of a remote NUMA node is used.",
    caveat: "Only mlx5 counts them, as events of unknown duration.",
    ..Entry::of(Problem::Device)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "device";
    events: u64 = 10,
        "minimum counted events",
        "A closing connection can leave a few";
    loss_ratio: f64 = 0.000_01,
        "minimum ratio of lost packets to RoCE packets",
        "Go-back-N loses measurable bandwidth from about one in a hundred thousand";
    stalls_per_s: f64 = 1000.0,
        "minimum stall events per second",
        "Hundreds occur on healthy hosts under load";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for port in input.sample.devices.ports.iter().filter(|port| port.seconds().is_some()) {
        loss(input, port, found);
        congestion(input, port, found);
        not_ready(input, port, found);
        discards(input, port, found);
        link(input, port, found);
        pcie(input, port, found);
    }
}

fn commands<'a>(input: &Input<'_>, port: &'a PortSample) -> Commands<'a> {
    Commands::on(input, port.interface.as_deref().unwrap_or(""))
}

/// The increase of some counters of a port in one time.
#[derive(Clone, Debug, Default)]
struct CountedGrowth {
    /// Those that are not 0.
    counters: Vec<(&'static str, u64)>,
    /// RoCE packets received and sent meanwhile; 0 where that is not counted.
    packets: [u64; 2],
    /// `None`: of the whole run, since the times of the counters are not known.
    times: Option<(u64, u64)>,
}

impl CountedGrowth {
    /// The sum of the counters.
    fn events(&self) -> u64 {
        self.counters.iter().map(|(_, n)| n).sum()
    }

    fn has(&self, name: &str) -> bool {
        self.counters.iter().any(|(own, _)| *own == name)
    }

    /// Counts over packets; `None` where no packets are counted.
    fn per_packet(events: u64, packets: u64) -> Option<f64> {
        (packets > 0).then(|| events as f64 / packets as f64)
    }
}

/// The increase of these counters each time that one of them grew without 10 s of rest, the latest first.
fn counted(port: &PortSample, names: &[&'static str]) -> Vec<CountedGrowth> {
    let growth = |name: &str| port.growth.iter().find(|(own, _)| own == name).map_or(&[][..], |(_, all)| all);
    let times = names.iter().flat_map(|name| growth(name)).map(|one| (one.first_ns, one.last_ns));
    let times = joined(times.collect());
    let whole = || {
        let value = |name: &str| port.value(name).map_or(0, |(value, _)| value);
        let counters = names.iter().map(|name| (*name, value(name))).filter(|(_, n)| *n > 0).collect();
        CountedGrowth { counters, packets: ["rx_packets", "tx_packets"].map(value), times: None }
    };
    let in_time = |&(first_ns, last_ns): &(u64, u64)| {
        let mut counted = CountedGrowth { times: Some((first_ns, last_ns)), ..CountedGrowth::default() };
        let (mut before, mut after) = ([u64::MAX; 2], [0; 2]);
        for name in names {
            let own = growth(name).iter().filter(|one| one.first_ns >= first_ns && one.last_ns <= last_ns);
            let mut count = 0u64;
            for one in own {
                count = count.saturating_add(one.count);
                before = [0, 1].map(|way| one.at_first.packets[way].min(before[way]));
                after = [0, 1].map(|way| one.at_last.packets[way].max(after[way]));
            }
            if count > 0 {
                counted.counters.push((*name, count));
            }
        }
        counted.packets = [0, 1].map(|way: usize| after[way].saturating_sub(before[way]));
        counted
    };
    if times.is_empty() { vec![whole()] } else { times.iter().rev().map(in_time).collect() }
}

/// The latest time of these counters that `judge` gives a severity, and every such time.
fn latest(
    port: &PortSample,
    names: &[&'static str],
    judge: impl Fn(&CountedGrowth) -> Option<Severity>,
) -> Option<(CountedGrowth, Severity, Vec<Episode>)> {
    let judged = counted(port, names).into_iter().filter_map(|one| Some((judge(&one)?, one)));
    let judged: Vec<_> = judged.collect();
    let episode = |(_, one): &(Severity, CountedGrowth)| {
        one.times.map(|(first_ns, last_ns)| Episode { first_ns, last_ns, peak: None })
    };
    let episodes = judged.iter().rev().filter_map(episode).collect();
    let (severity, counted) = judged.into_iter().next()?;
    Some((counted, severity, episodes))
}

/// The finding with these counters as evidence, and the first of them in the title.
fn raise(
    input: &Input<'_>,
    entry: &'static Entry,
    severity: Severity,
    port: &PortSample,
    what: &str,
    counters: &[(&'static str, u64)],
) -> Raise {
    let figure = |(name, n): &(&'static str, u64)| format!("{} {}", name.replace('_', " "), units::count(*n));
    let first = counters.first().map_or_else(String::new, |first| format!(": {}", figure(first)));
    let others: [String; 5] = std::array::from_fn(|at| {
        counters.get(at + 1).map_or_else(String::new, |other| format!(", {}", figure(other)))
    });
    let title = title(format!("{what} at {}{first}", port.label()), others);
    let interface = port.interface.as_deref();
    let mut raise = Raise::new(entry, severity, title)
        .place(interface.map(|name| Place::link(input, name, None)).unwrap_or_default())
        .port(Some(port.label()))
        .evidence("driver", port.driver.clone())
        .evidence("seconds", port.seconds());
    raise = raise.about(|subject| subject.counters = counters.iter().map(|(name, _)| *name).collect());
    for (name, value) in counters {
        raise = raise.measured((*name).to_owned(), name.replace('_', " "), Unit::Count, *value);
    }
    raise
}

fn loss(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    const NAMES: [&str; 6] = [
        "out_of_sequence",
        "psn_error_naks",
        "implied_psn_errors",
        "local_ack_timeouts",
        "retransmissions",
        "retries_exceeded",
    ];
    let limits = &input.limits.device;
    let ratio = |one: &CountedGrowth| CountedGrowth::per_packet(one.events(), one.packets.iter().sum());
    let judged = latest(port, &NAMES, |one| {
        let gave_up = one.has("retries_exceeded");
        let few = one.events() < limits.events || ratio(one).is_some_and(|ratio| ratio < limits.loss_ratio);
        let severity = if gave_up { Severity::Critical } else { Severity::Warning };
        (gave_up || !few).then_some(severity)
    });
    let Some((one, severity, episodes)) = judged else { return };
    let here = commands(input, port);
    // An adaptive network reorders, and receivers answer that as they answer loss.
    let either = (one.has("out_of_sequence") || one.has("psn_error_naks"))
        && !one.has("local_ack_timeouts")
        && !one.has("retries_exceeded");
    let what = if either { "Packets lost or reordered" } else { "Packet loss" };
    raise(input, &LOSS, severity, port, what, &one.counters)
        .evidence("ratio", ratio(&one))
        .dated(episodes)
        .step("Check discards of the NIC, and of every switch port on the path.", here.nic_counters())
        .step("Check that PFC is enabled on the priority of RoCE.", here.pfc())
        .step("Check QP state and retry counters.", here.rdma_counters())
        .into(found);
}

fn congestion(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let limits = &input.limits.device;
    let ratio = |one: &CountedGrowth| {
        let (_, ce) = one.counters.iter().find(|(name, _)| *name == "ce_marked_packets")?;
        CountedGrowth::per_packet(*ce, one.packets[0])
    };
    let judged = latest(port, &["ce_marked_packets", "cnps_sent", "cnps_handled"], |one| {
        let severe = ratio(one).is_some_and(|ratio| ratio >= input.limits.ecn.congestion_ratio);
        let severity = if severe { Severity::Warning } else { Severity::Info };
        (one.events() >= limits.events).then_some(severity)
    });
    let Some((one, severity, episodes)) = judged else { return };
    raise(input, &CONGESTION, severity, port, "Congestion", &one.counters)
        .evidence("ce_ratio", ratio(&one))
        .dated(episodes)
        .step("Check that DCQCN is enabled on the NIC (roce_np, roce_rp).", commands(input, port).ecn())
        .step(
            "Analyze a capture or mirror port to name the congested flows: rocescope replay FILE.",
            ByHand::Elsewhere,
        )
        .into(found);
}

fn not_ready(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    const NAMES: [&str; 4] = ["rnr_naks_received", "rnr_naks_sent", "out_of_buffer", "rnr_retries_exceeded"];
    let judged = latest(port, &NAMES, |one| {
        let gave_up = one.has("rnr_retries_exceeded");
        let severity = if gave_up { Severity::Critical } else { Severity::Warning };
        (gave_up || one.events() >= input.limits.device.events).then_some(severity)
    });
    let Some((one, severity, episodes)) = judged else { return };
    raise(input, &NOT_READY, severity, port, "Receiver not ready", &one.counters)
        .dated(episodes)
        .step("Find the receiving processes of this host.", commands(input, port).queue_pairs())
        .step("Post more receive buffers in the application, or post them earlier.", ByHand::Job)
        .into(found);
}

fn discards(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let judged = latest(port, &["port_discards", "tx_discards", "rx_discards"], |one| {
        (one.events() >= input.limits.device.events.max(1)).then_some(Severity::Warning)
    });
    let Some((one, severity, episodes)) = judged else { return };
    let here = commands(input, port);
    raise(input, &DISCARDS, severity, port, "Frames discarded", &one.counters)
        .dated(episodes)
        .step("Check that PFC is enabled for the same priorities on both sides.", here.pfc())
        .step("Check buffers, trust mode and priorities.", here.qos())
        .step("Check PCIe width and speed of the NIC.", here.doctor())
        .into(found);
}

fn link(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let judged = latest(port, &["fec_uncorrectable", "link_downs"], |one| {
        (one.events() > 0).then_some(Severity::Warning)
    });
    let Some((one, severity, episodes)) = judged else { return };
    let here = commands(input, port);
    raise(input, &LINK, severity, port, "Link errors", &one.counters)
        .dated(episodes)
        .step("Check temperature and power of the transceiver.", here.module())
        .step(
            "Clean or replace cable and transceiver; check the counters of the switch port.",
            ByHand::Hardware,
        )
        .into(found);
}

fn pcie(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let per_s = |one: &CountedGrowth| {
        let seconds = one.times.map(|(first, last)| crate::util::time::seconds(last.saturating_sub(first)));
        one.events() as f64 / seconds.or(port.seconds()).unwrap_or(f64::INFINITY)
    };
    let judged = latest(port, &["pcie_read_stalls", "pcie_write_stalls"], |one| {
        (one.events() > 0 && per_s(one) >= input.limits.device.stalls_per_s).then_some(Severity::Info)
    });
    let Some((one, severity, episodes)) = judged else { return };
    raise(input, &PCIE, severity, port, "PCIe stalls", &one.counters)
        .evidence("per_s", per_s(&one))
        .dated(episodes)
        .step("Check PCIe width, speed and relaxed ordering.", commands(input, port).doctor())
        .into(found);
}

#[cfg(test)]
mod tests;
