//! The faults of a simulated fleet: where they are, what they do to a flow, and what each question must answer.

use rocescope::sample::Direction;
use rocescope::util::units::time_utc;

use super::{BUSY, Fleet, PACKET, PLANES, Port, STEP_S, device, name};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    Healthy,
    /// The port of a host: three times the latency in both directions.
    SlowLink,
    /// A switch port drops packets to its host.
    LossyPort,
    /// The hash of a pair of leaf switches sends the traffic to their hosts through one of the two planes.
    PolarisedHash,
    /// A host computes longer than the others of its job.
    Straggler,
    /// One plane carries less traffic, more slowly.
    BadPlane,
    /// A host: three times the latency at all its ports, in both directions.
    SlowHost,
    /// All switches of a rail: the senders see two and a half times the latency.
    SlowRail,
    /// The way from a leaf switch to another: the senders see three times the latency.
    SlowPath,
    /// A switch port marks packets to its host, which nobody but that host sees.
    MarkingPort,
    /// A port sends packets again of which none was lost.
    ResendingPort,
    /// All hosts send more through one rail than through the others.
    UnevenRail,
    /// A host posts receive buffers too late: its senders get RNR NAKs and wait.
    SlowReceiver,
    /// The flows of a host stall until their transport timeouts.
    Stalls,
    /// The steps of a job become twice as long; most of each is traffic.
    StepGrowth,
    /// A leaf switch: three times the latency of all flows through it.
    SlowSwitch,
    /// A leaf switch drops few packets to each of its hosts.
    LossySwitch,
}

/// All faults, in the order of their time ranges.
pub const FAULTS: [Fault; 17] = [
    Fault::Healthy,
    Fault::SlowLink,
    Fault::LossyPort,
    Fault::PolarisedHash,
    Fault::Straggler,
    Fault::BadPlane,
    Fault::SlowHost,
    Fault::SlowRail,
    Fault::SlowPath,
    Fault::MarkingPort,
    Fault::ResendingPort,
    Fault::UnevenRail,
    Fault::SlowReceiver,
    Fault::Stalls,
    Fault::StepGrowth,
    Fault::SlowSwitch,
    Fault::LossySwitch,
];

/// The rail and pod whose leaf switches hash badly.
const POLARISED: Port = Port { host: 0, rail: 1, plane: 0 };
const SLOW_RAIL: u64 = 3;
const UNEVEN_RAIL: u64 = 2;
/// Shares of the packets that are retransmitted to the lossy port, and to each host at the lossy switch.
const PORT_RESENT: f64 = 0.01;
const SWITCH_RESENT: f64 = 0.0005;

/// What a fault does to a flow in a second, as one tap sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    /// Factors of the usual bytes and latency.
    pub(super) bytes: f64,
    pub(super) latency: f64,
    /// Shares of the packets.
    pub(super) marked: f64,
    pub(super) lost: f64,
    pub(super) resent: f64,
    pub(super) timeouts: i64,
    pub(super) timeout_wait_ns: i64,
    pub(super) rnr_wait_ns: i64,
}

const NOTHING: Effect = Effect {
    bytes: 1.0,
    latency: 1.0,
    marked: 0.0,
    lost: 0.0,
    resent: 0.0,
    timeouts: 0,
    timeout_wait_ns: 0,
    rnr_wait_ns: 0,
};

impl Fleet {
    const fn slow(&self) -> Port {
        Port { host: self.hosts / 8, rail: 1, plane: 0 }
    }

    pub(super) const fn lossy(&self) -> Port {
        Port { host: self.hosts / 2 - 7, rail: 2, plane: 1 }
    }

    const fn straggler(&self) -> u64 {
        self.hosts / 2 + 1
    }

    const fn slow_host(&self) -> u64 {
        self.hosts / 5 + 1
    }

    /// Ports at both ends of the slow path, at the switches of the first two pods: a job has hosts in both.
    const fn slow_path(&self) -> (Port, Port) {
        let from = Port { host: 0, rail: 1, plane: 0 };
        (from, Port { host: self.pod(), ..from })
    }

    /// A port at the slow switch, and one at the lossy switch: hosts of two jobs have ports there.
    pub(super) const fn at_switches(&self) -> (Port, Port) {
        let host = self.hosts / 2;
        (Port { host, rail: 2, plane: 0 }, Port { host, rail: 0, plane: 1 })
    }

    const fn marking(&self) -> Port {
        Port { host: self.hosts / 3 + 2, rail: 0, plane: 1 }
    }

    pub(super) const fn resending(&self) -> Port {
        Port { host: self.hosts / 4, rail: 3, plane: 0 }
    }

    pub(super) const fn receiver(&self) -> u64 {
        self.hosts / 3
    }

    pub(super) const fn stalled(&self) -> u64 {
        self.hosts * 2 / 3 + 1
    }

    const fn growing(&self) -> u64 {
        self.hosts - 1
    }

    /// True if the host computes at this time, while its job communicates, and the reverse.
    pub(super) const fn is_late(&self, fault: Fault, host: u64) -> bool {
        matches!(fault, Fault::Straggler) && host == self.straggler()
    }

    /// The host that a host waits for in its steps, and why, as its record says. The straggler's own record says it
    /// too, and one host knows only that the one before it, or a host upstream of that, is late.
    pub(super) fn waits_for(&self, fault: Fault, host: u64) -> Option<(u64, &'static str)> {
        let straggler = self.straggler();
        if fault != Fault::Straggler || host / self.job() != straggler / self.job() {
            return None;
        }
        let is_unsure = host == straggler + 2;
        Some(if is_unsure { (host - 1, "upstream") } else { (straggler, "starts_late") })
    }

    /// The step in which the job of a host is, this number of seconds after the beginning of a fault's time range: its
    /// beginning there, its length, and its time with traffic.
    pub(super) const fn step_at(&self, fault: Fault, host: u64, second: u64) -> (u64, u64, u64) {
        let grows = matches!(fault, Fault::StepGrowth) && host / self.job() == self.growing() / self.job();
        if !grows {
            return (second - second % STEP_S, STEP_S, STEP_S / 2);
        }
        let change = (self.seconds / 2).div_ceil(STEP_S) * STEP_S;
        if second < change {
            (second - second % STEP_S, STEP_S, STEP_S * 3 / 4)
        } else {
            (second - (second - change) % (2 * STEP_S), 2 * STEP_S, STEP_S * 3 / 2)
        }
    }

    /// What the tap of this direction sees of a fault in a flow that is in its busy time, or not.
    pub(super) fn effect(
        &self,
        fault: Fault,
        src: Port,
        dst: Port,
        direction: Direction,
        busy: bool,
    ) -> Effect {
        let is_sender = direction == Direction::Egress;
        let pod = |port: Port| port.host / self.pod();
        let on_path =
            |at: Port, port: Port| (pod(at), at.rail, at.plane) == (pod(port), port.rail, port.plane);
        let (slow_switch, lossy_switch) = self.at_switches();
        match fault {
            Fault::SlowSwitch if on_path(slow_switch, src) || on_path(slow_switch, dst) => {
                Effect { latency: 3.0, ..NOTHING }
            }
            Fault::LossySwitch if on_path(lossy_switch, dst) => {
                Effect { lost: if is_sender { 0.0 } else { 0.0003 }, resent: SWITCH_RESENT, ..NOTHING }
            }
            Fault::SlowLink if [src, dst].contains(&self.slow()) => Effect { latency: 3.0, ..NOTHING },
            Fault::SlowHost if [src.host, dst.host].contains(&self.slow_host()) => {
                Effect { latency: 3.0, ..NOTHING }
            }
            Fault::SlowRail if is_sender && src.rail == SLOW_RAIL => Effect { latency: 2.5, ..NOTHING },
            Fault::SlowPath if is_sender => {
                let (from, to) = self.slow_path();
                let passes = on_path(from, src) && on_path(to, dst);
                Effect { latency: if passes { 3.0 } else { 1.0 }, ..NOTHING }
            }
            Fault::MarkingPort if !is_sender && dst == self.marking() => Effect { marked: 0.1, ..NOTHING },
            Fault::ResendingPort if src == self.resending() => Effect { resent: 0.004, ..NOTHING },
            Fault::LossyPort if dst == self.lossy() => {
                let timeouts = i64::from(busy);
                // Lost on the last hop, which the sender's tap does not see.
                let lost = if is_sender { 0.0 } else { 0.002 };
                Effect {
                    lost,
                    resent: PORT_RESENT,
                    timeouts,
                    timeout_wait_ns: timeouts * 67_000_000,
                    ..NOTHING
                }
            }
            Fault::PolarisedHash if !is_sender && pod(dst) == 0 && dst.rail == POLARISED.rail => {
                Effect { bytes: if dst.plane == 0 { 1.9 } else { 0.1 }, ..NOTHING }
            }
            Fault::BadPlane if dst.plane == 1 => Effect { bytes: 0.6, latency: 1.6, ..NOTHING },
            Fault::UnevenRail if src.rail == UNEVEN_RAIL => Effect { bytes: 1.6, ..NOTHING },
            Fault::SlowReceiver if dst.host == self.receiver() && busy => {
                Effect { rnr_wait_ns: 300_000_000, ..NOTHING }
            }
            Fault::Stalls if src.host == self.stalled() => {
                Effect { timeouts: 1, timeout_wait_ns: 500_000_000, ..NOTHING }
            }
            _ => NOTHING,
        }
    }

    /// The text with which the headline for `question` begins for a fault, in its time range. `None`: nothing stands
    /// out, or the fault is another question's.
    pub fn culprit(&self, question: &str, fault: Fault) -> Option<String> {
        match (question, fault) {
            ("slow", Fault::SlowLink) => Some(format!("Link {}: latency", self.cable(self.slow()))),
            ("slow", Fault::LossyPort) => {
                Some(format!("Link to {}: retransmission ", self.cable(self.lossy())))
            }
            ("slow", Fault::SlowHost) => Some(format!("Host {}: latency", name(self.slow_host()))),
            ("slow", Fault::SlowRail) => Some(format!("Rail rail{SLOW_RAIL}: latency")),
            ("slow", Fault::SlowPath) => {
                let (from, to) = self.slow_path();
                Some(format!("Path {} to {}: latency", self.switch(from), self.switch(to)))
            }
            ("slow", Fault::MarkingPort) => Some(format!("Link to {}: CE 10.", self.cable(self.marking()))),
            ("slow", Fault::ResendingPort) => {
                Some(format!("Link from {}: retransmission 0.40", self.cable(self.resending())))
            }
            ("slow", Fault::SlowSwitch) => {
                Some(format!("Switch {}: latency", self.switch(self.at_switches().0)))
            }
            ("slow", Fault::LossySwitch) => {
                Some(format!("Switch to {}: retransmission 0.05", self.switch(self.at_switches().1)))
            }
            ("loss", Fault::LossySwitch) => {
                Some(format!("Switch to {}: ", self.switch(self.at_switches().1)))
            }
            ("loss", Fault::LossyPort) => Some(format!("Link to {}: ", self.cable(self.lossy()))),
            ("balance", Fault::PolarisedHash) => {
                let (one, other) = (
                    self.switch(Port { plane: 0, ..POLARISED }),
                    self.switch(Port { plane: 1, ..POLARISED }),
                );
                Some(format!("Ingress traffic of the hosts at {one} + {other}: plane 1 carries 1.9"))
            }
            ("balance", Fault::BadPlane) => {
                Some("Egress traffic of all hosts: plane 2 carries 0.7".to_owned())
            }
            ("balance", Fault::UnevenRail) => Some(format!(
                "Egress traffic of all hosts: rail{UNEVEN_RAIL} carries 1.39 × the mean of the rails"
            )),
            ("jobs", Fault::LossyPort) => Some(format!("Job {}: loss ", self.job_of(self.lossy().host))),
            ("jobs", Fault::SlowReceiver) => Some(format!("Job {}: waits ", self.job_of(self.receiver()))),
            ("jobs", Fault::Stalls) => Some(format!("Job {}: stalls ", self.job_of(self.stalled()))),
            ("jobs", Fault::StepGrowth) => {
                Some(format!("Job {}: step growth 100", self.job_of(self.growing())))
            }
            ("stragglers", Fault::Straggler) => {
                let host = self.straggler();
                Some(format!("Straggler node{host:05} of job {}: ", self.job_of(host)))
            }
            ("stragglers", Fault::SlowReceiver) => {
                let host = self.receiver();
                Some(format!("Straggler node{host:05} of job {}: its senders wait ", self.job_of(host)))
            }
            _ => None,
        }
    }

    /// True if the answer about a fault must be that nothing was found: a port that resends loses nothing.
    pub fn is_quiet(question: &str, fault: Fault) -> bool {
        fault == Fault::Healthy || (question, fault) == ("loss", Fault::ResendingPort)
    }

    /// The host whose port drops packets, and the text with which the headline for `loss` begins if that host is not
    /// recorded: its senders see retransmissions, and no tap is after the switch port.
    pub fn unrecorded_loser(&self) -> (String, String) {
        (name(self.lossy().host), format!("Link to {}: ", super::address(self.lossy())))
    }

    /// The least confidence of the answer about a fault. A cause that two or three pairs of ports pass is not certain.
    pub fn confidence(&self, question: &str, fault: Fault) -> &'static str {
        match (question, fault) {
            (
                "slow",
                Fault::SlowLink | Fault::SlowHost | Fault::SlowRail | Fault::SlowSwitch | Fault::LossySwitch,
            )
            | ("loss", Fault::LossySwitch)
            | ("balance" | "jobs", _)
            | ("stragglers", Fault::Straggler) => "high",
            // RNR waits alone do not say that the others wait for the host.
            ("stragglers", _) => "low",
            _ => "medium",
        }
    }

    /// Column and value of the first answer about a fault, where a question measures it.
    pub fn figures(&self, question: &str, fault: Fault) -> &'static [(&'static str, f64)] {
        match (question, fault) {
            // Of the three or more steps, more than half have the usual length.
            ("jobs", Fault::StepGrowth) => {
                &[("figure", 1.0), ("growth", 1.0), ("step_ns", 4e9), ("network_ratio", 0.75)]
            }
            // Of the 20 hosts of the job, one is the straggler, and one does not know.
            ("stragglers", Fault::Straggler) => &[("named_by", 18.0), ("of_hosts", 19.0)],
            _ => &[],
        }
    }

    /// True if this is the headline of the timeline of the whole recording: of the port that drops packets, or of the
    /// leaf switch that drops a few to each host where it has enough hosts to drop more in all.
    pub fn is_of_worst_slot(&self, headline: &str) -> bool {
        let (at, text) = headline.split_at_checked(19).unwrap_or_default();
        let (fault, hosts) = if (self.pod() as f64) * SWITCH_RESENT > PORT_RESENT {
            let pod = self.at_switches().1.host / self.pod();
            // Those at the switch, and the ones before, which send to them.
            (Fault::LossySwitch, (pod * self.pod()).saturating_sub(super::PEERS)..(pod + 1) * self.pod())
        } else {
            (Fault::LossyPort, self.lossy().host..self.lossy().host + 1)
        };
        let (begin, end) = self.range(fault);
        // A slot of a few seconds can begin before it.
        let [begin, end] = [begin - self.seconds / 2, end].map(|second| time_utc(second * super::NS));
        let is_at = |host| text.contains(&format!("highest at {}", name(host)));
        (&begin[..19]..&end[..19]).contains(&at)
            && text.contains("retransmission unusually high")
            && hosts.into_iter().any(is_at)
    }

    /// Counters of the device of a port in the time range of a fault.
    pub(super) fn counters(&self, fault: Fault, port: Port) -> [(&'static str, u64); 5] {
        let packets = (BUSY / PACKET) as u64 * self.seconds;
        let is_at = |faulty: Fault, at: Port| fault == faulty && port == at;
        let disordered = if is_at(Fault::LossyPort, self.lossy()) { packets / 500 } else { 3 };
        let marks = is_at(Fault::SlowLink, self.slow()) || is_at(Fault::MarkingPort, self.marking());
        let resent = if is_at(Fault::ResendingPort, self.resending()) { packets / 250 } else { 3 };
        [
            ("rx_packets", packets),
            ("tx_packets", packets),
            ("out_of_sequence", disordered),
            ("ce_marked_packets", packets / if marks { 10 } else { 1_000 }),
            ("retransmissions", resent),
        ]
    }

    /// The question about a fault and the text with which its headline begins, if the recording has only device
    /// counters.
    pub fn culprit_by_devices(&self, fault: Fault) -> Option<(&'static str, String)> {
        let named = |port: Port, metric: &str| format!("Link {} {}: {metric}", name(port.host), device(port));
        match fault {
            Fault::SlowLink => Some(("slow", named(self.slow(), "CE (device)"))),
            Fault::MarkingPort => Some(("slow", named(self.marking(), "CE (device)"))),
            Fault::ResendingPort => Some(("slow", named(self.resending(), "retransmission (device)"))),
            Fault::LossyPort => Some(("loss", named(self.lossy(), "out of sequence (device)"))),
            _ => None,
        }
    }

    /// The ports of a host.
    pub(super) fn ports(host: u64) -> impl Iterator<Item = Port> {
        (0..super::RAILS * PLANES).map(move |at| Port { host, rail: at / PLANES, plane: at % PLANES })
    }
}
