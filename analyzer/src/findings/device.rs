//! Findings from device counters, for hosts whose packets are not visible.

use super::title::title;
use super::{Better, ByHand, Commands, Entry, Family, Input, Measure, Place, Problem, Raise, Unit};
use crate::entity::devices::PortSample;
use crate::findings::{Finding, Severity};
use crate::util::units;

/// This family.
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
    computed: "From the increase of the device's counters during the run: out_of_sequence, psn_error_naks, implied_psn_errors, local_ack_timeouts, retransmissions, \
                 retries_exceeded. A warning when their sum is at least device.events and at least device.loss_ratio of the RoCE packets (where packets are counted); \
                 critical when a queue pair failed (retries_exceeded). Without a timeout, sequence errors may be reordering as well as loss, and the title says so.",
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
    computed: "From the increase of the device's counters during the run. A warning when ce_marked_packets are at least device.ce_ratio of the received RoCE packets; \
                 info when at least device.events CNPs were sent or handled but the ratio is lower, or packets are not counted.",
    advice: "Locate the source: incast, ECMP collisions, or a slow receiver. The findings of the ecn and balance families, from packets of a mirror port or a \
               capture, name it.",
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
const DISCARDS: Entry = Entry {
    id: "device.discards",
    rank: 190,
    title: "Port discards frames",
    meaning: "The port had no buffer for arriving frames, or could not send: on a lossless priority this must not happen.",
    computed: "A warning when port_discards, tx_discards or rx_discards of the device grew by at least device.events together.",
    advice: "Check that PFC is enabled for RoCE's priority on both sides, that its buffer has headroom (dcb buffer show), that PCIe runs at full width and speed, \
               and that the host is not the bottleneck (pcie_read_stalls).",
    caveat: "The port counters do not distinguish RoCE from other traffic.",
    ..Entry::of(Problem::Device)
};
const LINK: Entry = Entry {
    id: "device.link_errors",
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
    measure: Some(Measure { name: "per_s", unit: Unit::PerSecond, better: Better::Less }),
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
    ce_ratio: f64 = 0.01,
        "minimum CE ratio of received RoCE packets",
        "Below one per cent, CE marking is normal operation";
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

/// The named counters that are not 0, and their sum.
fn sum(port: &PortSample, names: &[&'static str]) -> (u64, Vec<(&'static str, u64)>) {
    let of = |name: &&'static str| port.value(name).map(|(value, _)| (*name, value)).filter(|(_, n)| *n > 0);
    let all: Vec<_> = names.iter().filter_map(of).collect();
    (all.iter().map(|(_, n)| n).sum(), all)
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
        .evidence("device", port.label())
        .evidence("driver", port.driver.clone())
        .evidence("seconds", port.seconds());
    for (name, value) in counters {
        raise = raise.measured((*name).to_owned(), name.replace('_', " "), Unit::Count, *value);
    }
    raise
}

fn loss(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let limits = &input.limits.device;
    let (events, counters) = sum(
        port,
        &[
            "out_of_sequence",
            "psn_error_naks",
            "implied_psn_errors",
            "local_ack_timeouts",
            "retransmissions",
            "retries_exceeded",
        ],
    );
    let (packets, _) = sum(port, &["rx_packets", "tx_packets"]);
    let ratio = (packets > 0).then(|| events as f64 / packets as f64);
    let gave_up = port.value("retries_exceeded").is_some_and(|(n, _)| n > 0);
    let few = events < limits.events || ratio.is_some_and(|ratio| ratio < limits.loss_ratio);
    if few && !gave_up {
        return;
    }
    let severity = if gave_up { Severity::Critical } else { Severity::Warning };
    let here = commands(input, port);
    // A network with adaptive routing reorders packets, and receivers react to that as to loss.
    let is_sequence = |(name, _): &(&str, u64)| matches!(*name, "out_of_sequence" | "psn_error_naks");
    let is_timeout = |(name, _): &(&str, u64)| matches!(*name, "local_ack_timeouts" | "retries_exceeded");
    let either = counters.iter().any(is_sequence) && !counters.iter().any(is_timeout);
    let what = if either { "Packets lost or reordered" } else { "Packet loss" };
    raise(input, &LOSS, severity, port, what, &counters)
        .evidence("ratio", ratio)
        .step("Check discards of the NIC, and of every switch port on the path.", here.nic_counters())
        .step("Check that PFC is enabled on the priority of RoCE.", here.pfc())
        .step("Check QP state and retry counters.", here.rdma_counters())
        .into(found);
}

fn congestion(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let limits = &input.limits.device;
    let (events, counters) = sum(port, &["ce_marked_packets", "cnps_sent", "cnps_handled"]);
    let received = port.value("rx_packets").map(|(n, _)| n).filter(|n| *n > 0);
    let ratio = port.value("ce_marked_packets").zip(received).map(|((ce, _), all)| ce as f64 / all as f64);
    let severity = match ratio {
        Some(ratio) if ratio >= limits.ce_ratio && events >= limits.events => Severity::Warning,
        _ if events >= limits.events => Severity::Info,
        _ => return,
    };
    raise(input, &CONGESTION, severity, port, "Congestion", &counters)
        .evidence("ce_ratio", ratio)
        .step("Check that DCQCN is enabled on the NIC (roce_np, roce_rp).", commands(input, port).ecn())
        .step(
            "Analyze a capture or mirror port to name the congested flows: rocescope replay FILE.",
            ByHand::Elsewhere,
        )
        .into(found);
}

fn not_ready(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let names = ["rnr_naks_received", "rnr_naks_sent", "out_of_buffer", "rnr_retries_exceeded"];
    let (events, counters) = sum(port, &names);
    let gave_up = port.value("rnr_retries_exceeded").is_some_and(|(n, _)| n > 0);
    if events >= input.limits.device.events || gave_up {
        let severity = if gave_up { Severity::Critical } else { Severity::Warning };
        raise(input, &NOT_READY, severity, port, "Receiver not ready", &counters)
            .step("Find the receiving processes of this host.", commands(input, port).queue_pairs())
            .step("Post more receive buffers in the application, or post them earlier.", ByHand::Job)
            .into(found);
    }
}

fn discards(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let (events, counters) = sum(port, &["port_discards", "tx_discards", "rx_discards"]);
    if events >= input.limits.device.events.max(1) {
        let here = commands(input, port);
        raise(input, &DISCARDS, Severity::Warning, port, "Frames discarded", &counters)
            .step("Check that PFC is enabled for the same priorities on both sides.", here.pfc())
            .step("Check buffers, trust mode and priorities.", here.qos())
            .step("Check PCIe width and speed of the NIC.", here.doctor())
            .into(found);
    }
}

fn link(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let (events, counters) = sum(port, &["fec_uncorrectable", "link_downs"]);
    if events > 0 {
        let here = commands(input, port);
        raise(input, &LINK, Severity::Warning, port, "Link errors", &counters)
            .step("Check temperature and power of the transceiver.", here.module())
            .step(
                "Clean or replace cable and transceiver; check the counters of the switch port.",
                ByHand::Hardware,
            )
            .into(found);
    }
}

fn pcie(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let (events, counters) = sum(port, &["pcie_read_stalls", "pcie_write_stalls"]);
    let per_s = events as f64 / port.seconds().unwrap_or(f64::INFINITY);
    if events > 0 && per_s >= input.limits.device.stalls_per_s {
        raise(input, &PCIE, Severity::Info, port, "PCIe stalls", &counters)
            .evidence("per_s", per_s)
            .step("Check PCIe width, speed and relaxed ordering.", commands(input, port).doctor())
            .into(found);
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
