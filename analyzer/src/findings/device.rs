//! What devices counted by themselves: the findings where no packet can be seen.

use super::{Better, Entry, Family, Input, Measure, Raise, Unit};
use crate::findings::{Finding, Severity};
use crate::source::devices::PortSample;
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
    title: "The NIC counts lost packets",
    meaning: "Packets of RoCE arrived out of sequence, were asked for again, or were never acknowledged in time. Each costs at least a round trip, and with go-back-N all that was sent meanwhile.",
    computed: "From the device's counters since the run began: out_of_sequence, psn_error_naks, implied_psn_errors, local_ack_timeouts, retransmissions, retries_exceeded. A warning when their sum is device.events or \
               more and device.loss_ratio of the RoCE packets or more (where packets are counted); critical when a queue pair gave up (retries_exceeded).",
    advice: "Timeouts without out_of_sequence at the receivers mean that requests or ACKs are lost altogether. Look at discards of this port and of every switch port on the way, at PFC on the priority in use, and at \
             FEC errors. `rocescope live` on a mirror port says which queue pairs and where.",
    caveat: "Adaptive routing reorders on purpose: out_of_sequence grows then without a loss.",
    ..Entry::EMPTY
};
const CONGESTION: Entry = Entry {
    id: "device.congestion",
    rank: 300,
    measure: Some(Measure::ratio("ce_ratio")),
    title: "The NIC counts congestion",
    meaning: "Data arrives marked CE, and senders are told to slow down.",
    computed: "From the device's counters since the run began. A warning when ce_marked_packets are device.ce_ratio or more of the received RoCE packets; info when only CNPs were sent or handled, device.events or more, or \
               packets are not counted.",
    advice: "See where it comes from: many senders to one receiver (incast), bad hashing, or a slow receiver. The findings of the ecn and balance families, from packets of a mirror port or a capture, say which.",
    caveat: "Firmware counts CE-marked packets of all protocols on some NICs. CNPs are paced: their number says little about the number of marks.",
    ..Entry::EMPTY
};
const NOT_READY: Entry = Entry {
    id: "device.not_ready",
    rank: 240,
    title: "The NIC counts receivers that are not ready",
    meaning: "A SEND or WRITE with immediate found no receive buffer posted: the sender waits for the time that the RNR NAK names and tries again.",
    computed: "A warning when rnr_naks_received, rnr_naks_sent and out_of_buffer of the device add up to device.events or more; critical when a queue pair gave up (rnr_retries_exceeded).",
    advice: "The application at the receiving end posts receive buffers too late or too few: it is busy, waits for a GPU, or is badly set up. Sent NAKs mean this host.",
    caveat: "",
    ..Entry::EMPTY
};
const DISCARDS: Entry = Entry {
    id: "device.discards",
    rank: 190,
    title: "The port drops frames",
    meaning: "The port had no room for frames that arrived or could not send: on a lossless priority that must not happen.",
    computed: "A warning when port_discards, tx_discards or rx_discards of the device grew by device.events or more.",
    advice: "Check that PFC is on for RoCE's priority on both sides, that its buffer has headroom (dcb buffer show), that PCIe is as wide and fast as it should be, and that the host is not the bottleneck (pcie_read_stalls).",
    caveat: "The counters of the port do not tell RoCE from other traffic.",
    ..Entry::EMPTY
};
const LINK: Entry = Entry {
    id: "device.link_errors",
    rank: 100,
    title: "The link has errors",
    meaning: "Forward error correction could not mend blocks, or the link went down: frames were lost whatever the settings.",
    computed: "A warning when fec_uncorrectable or link_downs of the device grew at all during the run.",
    advice: "Clean or replace cable and transceiver, check their temperature and power (ethtool -m), and look at the same counters of the switch port.",
    caveat: "Symbols that are corrected are normal at 100G a lane and more.",
    ..Entry::EMPTY
};
const PCIE: Entry = Entry {
    id: "device.pcie_stalls",
    rank: 110,
    measure: Some(Measure { name: "per_s", unit: Unit::PerSecond, better: Better::Less }),
    title: "The NIC waits for PCIe",
    meaning: "The NIC could not read or write memory as fast as the network goes: it pauses its neighbour, or drops.",
    computed: "Info when pcie_read_stalls or pcie_write_stalls of the device grew by device.stalls_per_s or more a second.",
    advice: "Check PCIe width and speed (rocescope doctor), relaxed ordering, the IOMMU, and whether memory of another NUMA node is used.",
    caveat: "Only mlx5 counts them, in events whose length is not known.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "device";
    events: u64 = 10,
        "counted events below which nothing is said",
        "A connection that ends can leave a few";
    loss_ratio: f64 = 0.000_01,
        "lost packets over RoCE packets",
        "Go-back-N loses bandwidth visibly from about one in a hundred thousand on";
    ce_ratio: f64 = 0.01,
        "share of received RoCE packets with a CE mark",
        "Below one per cent, marking is at work and harmless";
    stalls_per_s: f64 = 1000.0,
        "stall events a second",
        "Hundreds occur on healthy hosts under load";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for port in input.sample.devices.ports.iter().filter(|port| port.seconds().is_some()) {
        loss(input, port, found);
        congestion(input, port, found);
        not_ready(input, port, found);
        discards(input, port, found);
        link(port, found);
        pcie(input, port, found);
    }
}

/// Those of the named counters that are not 0, and their sum.
fn sum(port: &PortSample, names: &[&'static str]) -> (u64, Vec<(&'static str, u64)>) {
    let of = |name: &&'static str| port.value(name).map(|(value, _)| (*name, value)).filter(|(_, n)| *n > 0);
    let all: Vec<_> = names.iter().filter_map(of).collect();
    (all.iter().map(|(_, n)| n).sum(), all)
}

/// The finding with these counters as evidence, and what they are of.
fn raise(
    entry: &'static Entry,
    severity: Severity,
    port: &PortSample,
    what: &str,
    counters: &[(&'static str, u64)],
) -> Raise {
    let list: Vec<String> =
        counters.iter().map(|(name, n)| format!("{} {}", name.replace('_', " "), units::count(*n))).collect();
    let title = format!("{} {what}: {}", port.label(), list.join(", "));
    let mut raise = Raise::new(entry, severity, title)
        .evidence("device", port.label())
        .evidence("driver", port.driver.clone())
        .evidence("seconds", port.seconds());
    for (name, value) in counters {
        raise = raise.evidence(name, *value);
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
    raise(&LOSS, severity, port, "counts losses", &counters).evidence("ratio", ratio).into(found);
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
    raise(&CONGESTION, severity, port, "counts congestion", &counters)
        .evidence("ce_ratio", ratio)
        .into(found);
}

fn not_ready(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let names = ["rnr_naks_received", "rnr_naks_sent", "out_of_buffer", "rnr_retries_exceeded"];
    let (events, counters) = sum(port, &names);
    let gave_up = port.value("rnr_retries_exceeded").is_some_and(|(n, _)| n > 0);
    if events >= input.limits.device.events || gave_up {
        let severity = if gave_up { Severity::Critical } else { Severity::Warning };
        raise(&NOT_READY, severity, port, "counts receivers that were not ready", &counters).into(found);
    }
}

fn discards(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let (events, counters) = sum(port, &["port_discards", "tx_discards", "rx_discards"]);
    if events >= input.limits.device.events.max(1) {
        raise(&DISCARDS, Severity::Warning, port, "dropped frames", &counters).into(found);
    }
}

fn link(port: &PortSample, found: &mut Vec<Finding>) {
    let (events, counters) = sum(port, &["fec_uncorrectable", "link_downs"]);
    if events > 0 {
        raise(&LINK, Severity::Warning, port, "has link errors", &counters).into(found);
    }
}

fn pcie(input: &Input<'_>, port: &PortSample, found: &mut Vec<Finding>) {
    let (events, counters) = sum(port, &["pcie_read_stalls", "pcie_write_stalls"]);
    let per_s = events as f64 / port.seconds().unwrap_or(f64::INFINITY);
    if events > 0 && per_s >= input.limits.device.stalls_per_s {
        raise(&PCIE, Severity::Info, port, "waited for PCIe", &counters).evidence("per_s", per_s).into(found);
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
