//! The same fleet with NICs that process RoCE themselves: no flows, but counters of devices and contexts of queue
//! pairs.

use std::path::Path;

use anyhow::Result;
use rocescope::record::cell::Time;
use rocescope::record::registry::{DeviceSecond, LinkSecond, QpSecond};
use rocescope::sample::Direction;
use rocescope::util::shared::Shared;
use rocescope::util::units::time_utc;

use super::dying::{DIE_S, RETRY_S, STAND_S};
use super::fault::{FAULTS, Fault};
use super::{BEGIN_S, BUSY, Fleet, NS, PACKET, PEERS, Port, Written, address, device, link, name};
use rocescope_common::random::mix;

/// Number of the queue pair that sends to the host at this distance.
pub(super) const fn qpn(distance: u64) -> u64 {
    64 + distance
}

/// Share of the readings that show retries, per share of the packets that are retransmitted: a retry lasts for as long
/// as its timeout.
const SHOWN: f64 = 600.0;

impl Fleet {
    /// Writes the recording as hosts make it that see no packet.
    pub fn write_offloaded(&self, root: &Path) -> Result<Written> {
        let mut written = Written::default();
        for host in 0..self.hosts {
            let (_, mut links) = self.rows_of(host);
            // LLDP and ARP alone.
            links.retain(|row| row.t.0 % (NS * self.seconds) == 0);
            let links: Vec<LinkSecond> = links
                .into_iter()
                .map(|row| LinkSecond {
                    packets: 0,
                    bytes: 0,
                    ecn_capable: 0,
                    ce: 0,
                    flows: 0,
                    skipped: 3,
                    ..row
                })
                .collect();
            let mut devices = self.devices_of(host);
            devices.extend(self.bytes_of(host, &devices));
            devices.extend(self.counters_of_death(host));
            Self::table(root, host, &links, &mut written)?;
            Self::table(root, host, &devices, &mut written)?;
            Self::table(root, host, &self.qps_of(host), &mut written)?;
            Self::table(root, host, &self.lives_of(host), &mut written)?;
            Self::table(root, host, &self.events_of(host), &mut written)?;
            Self::table(root, host, &self.findings_of(host), &mut written)?;
        }
        Ok(written)
    }

    /// Bytes of each port, as two sources count them: one each second, the other in the time range of each fault.
    fn bytes_of(&self, host: u64, devices: &[DeviceSecond]) -> Vec<DeviceSecond> {
        let of_packets = |row: &&DeviceSecond| ["rx_packets", "tx_packets"].contains(&row.counter.as_str());
        let mut rows = Vec::new();
        for row in devices.iter().filter(of_packets) {
            let fault = FAULTS.into_iter().find(|fault| self.range(*fault).1 * NS == row.t.0);
            let port = Self::ports(host).find(|port| device(*port) == row.device.as_str());
            let (Some(fault), Some(port)) = (fault, port) else { continue };
            let (counter, bytes) = if row.counter.as_str() == "rx_packets" {
                ("rx_bytes", self.effect(fault, self.peer(port, 1), port, Direction::Ingress, true).bytes)
            } else {
                ("tx_bytes", self.effect(fault, port, self.peer(port, 1), Direction::Egress, true).bytes)
            };
            let (begin, end) = self.range(fault);
            let seconds = (begin..end).filter(|second| {
                counter == "rx_bytes" || self.dying(*second, port.host).is_none_or(|at| at < DIE_S)
            });
            let each = (bytes * Self::bytes_per_s() as f64) as u64;
            let row = |t: u64, interval: u64, source: &str, delta: u64| DeviceSecond {
                t: Time(t * NS),
                interval_ns: interval * NS,
                counter: counter.into(),
                source: source.into(),
                delta,
                ..row.clone()
            };
            rows.extend(seconds.map(|second| row(second + 1, 1, "ethtool", each)));
            // In one of the seconds alone, and less.
            rows.push(row(begin + 1, 1, "sysfs counters", each / 2));
        }
        rows
    }

    /// Bytes that a port sends in a second without a fault, as its NIC counts them.
    pub(super) const fn bytes_per_s() -> u64 {
        BUSY as u64
    }

    /// Packets that a queue pair sends in a second without a fault.
    pub(super) const fn packets_per_s() -> u64 {
        (BUSY / PACKET) as u64
    }

    /// The host of the same job at this distance in its ring.
    pub(super) fn peer(&self, own: Port, distance: u64) -> Port {
        let first = own.host / self.job() * self.job();
        let members = self.job().min(self.hosts - first);
        Port { host: first + (own.host - first + distance) % members, ..own }
    }

    /// Queue pairs that send, one to each peer and port. Their contexts are read once a second.
    pub(super) fn qps_of(&self, host: u64) -> Vec<QpSecond> {
        let mut rows = Vec::new();
        for second in BEGIN_S..BEGIN_S + self.seconds * self.faults as u64 {
            for own in Self::ports(host) {
                // Of one that died, nothing is read any more.
                let is_read = self.dying(second, host).is_none_or(|at| at < DIE_S);
                rows.extend((1..=PEERS).filter(|_| is_read).map(|distance| self.qp(second, own, distance)));
            }
        }
        rows
    }

    /// Writes the queue pairs of the healthy time range, whose contexts are read in turns of this number of seconds
    /// at most hosts, at every third host each second.
    pub fn write_in_turns(&self, root: &Path, turn_s: u64) -> Result<()> {
        for host in 0..self.hosts {
            let turn_s = if host % 3 == 0 { 1 } else { turn_s };
            let of_qp = |(at, (own, distance)): (usize, (Port, u64))| {
                self.read_in_turns(own, distance, turn_s, at as u64 % turn_s)
            };
            let qps = Self::ports(host).flat_map(|own| (1..=PEERS).map(move |distance| (own, distance)));
            let rows: Vec<QpSecond> = qps.enumerate().flat_map(of_qp).collect();
            Self::table(root, host, &rows, &mut Written::default())?;
        }
        Ok(())
    }

    /// A queue pair that is read for the first time after this number of seconds, when nothing of its packets is known
    /// yet, and then in turns.
    fn read_in_turns(&self, own: Port, distance: u64, turn_s: u64, first_s: u64) -> Vec<QpSecond> {
        let (begin, end) = self.range(Fault::Healthy);
        let reading = |second: u64, turn_s: u64| {
            let one = self.qp(second, own, distance);
            let sent = |back: u64| self.qp(second - back, own, distance).sent_packets;
            let sent_packets = (0..turn_s).filter_map(sent).sum();
            QpSecond { interval_ns: turn_s.max(1) * NS, sent_packets: Some(sent_packets), ..one }
        };
        let later = (begin + first_s..end).step_by(turn_s as usize).skip(1);
        std::iter::once(reading(begin + first_s, 0))
            .chain(later.map(|second| reading(second, turn_s)))
            .collect()
    }

    fn qp(&self, second: u64, own: Port, distance: u64) -> QpSecond {
        let fault = self.fault_at(second);
        let peer = self.peer(own, distance);
        let effect = self.effect(fault, own, peer, Direction::Egress, true);
        let seed = mix(second ^ mix(own.host << 20 | own.rail << 12 | own.plane << 8 | distance));
        let dice =
            |n: u64, share: f64| u64::from((mix(seed.wrapping_add(n)) as f64 / u64::MAX as f64) < share);
        let dying = self.dying(second, own.host);
        let stood = dying.map_or(0, |at| (at + 1).saturating_sub(STAND_S));
        let sent = if stood > 0 { 0 } else { (BUSY * effect.bytes / PACKET) as u64 };
        let retrying = match dying {
            Some(at) => u64::from(at >= RETRY_S),
            None => dice(1, (effect.resent * SHOWN).min(0.9)),
        };
        QpSecond {
            t: Time((second + 1) * NS),
            interval_ns: NS,
            host: Shared::from(name(own.host).as_str()),
            job: Some(Shared::from(self.job_of(own.host).as_str())),
            pod: None,
            device: Shared::from(device(own).as_str()),
            port: Some(1),
            netdev: Some(Shared::from(link(own).as_str())),
            rail: Some(Shared::from(format!("rail{}", own.rail).as_str())),
            lqpn: qpn(distance),
            rqpn: Some(qpn(distance) + 100),
            src: Some(address(own)),
            dst: Some(address(peer)),
            udp_port: Some(49_152 + seed % 16_384),
            dscp: Some(26),
            pid: Some(4_711),
            comm: Some(Shared::from("python3")),
            sent_packets: Some(sent),
            received_packets: Some(0),
            readings: Some(1),
            retrying_readings: Some(retrying),
            rnr_retrying_readings: Some(dice(2, effect.rnr_wait_ns as f64 / NS as f64)),
            exhausted_readings: Some(0),
            in_flight: Some(32),
            stuck_ns: Some(stood * NS),
            retries_used: Some(0),
            rnr_retries_used: Some(0),
            posted_receives: Some(128),
            unsent_wqes: Some(4),
            timeouts: Some(effect.timeouts as u64),
            sequence_errors: Some((sent as f64 * effect.resent * 0.01) as u64),
            attribution: Some(Shared::from("certain")),
            pause_stall_ns: Some(0),
        }
    }

    /// The question about a fault and the text with which its headline begins, if NICs process RoCE.
    pub fn culprit_offloaded(&self, fault: Fault) -> Vec<(&'static str, String)> {
        let of_path = |question: &'static str, port: Port, way: &str, metric: &str| {
            (question, format!("Link {way} {}: {metric}", self.cable(port)))
        };
        let balance = || self.culprit("balance", fault).map(|text| ("balance", text));
        match fault {
            Fault::LossyPort => vec![
                of_path("loss", self.lossy(), "to", "timeouts and sequence errors (QP)"),
                ("jobs", format!("Job {}: retries in use in ", self.job_of(self.lossy().host))),
            ],
            Fault::ResendingPort => vec![of_path("slow", self.resending(), "from", "retries (QP)")],
            Fault::LossySwitch => {
                vec![("slow", format!("Switch to {}: retries (QP)", self.switch(self.at_switches().1)))]
            }
            Fault::SlowReceiver => vec![
                ("slow", format!("Host to {}: RNR retries (QP)", name(self.receiver()))),
                ("jobs", format!("Job {}: RNR retries in use in ", self.job_of(self.receiver()))),
            ],
            Fault::PolarisedHash | Fault::BadPlane | Fault::UnevenRail => balance().into_iter().collect(),
            Fault::Stalls => {
                let job = self.job_of(self.stalled());
                let share = 100.0 / self.job() as f64;
                let at = time_utc((self.range(fault).0 + DIE_S) * NS);
                let at = at.get(..19).unwrap_or_default();
                vec![
                    ("jobs", format!("Job {job}: 16 queue pairs died ({share:.2} %), against ")),
                    (
                        "timeline",
                        format!(
                            "{at} UTC: number of queue pairs that died unusually high, 16 queue pairs against a median of 0 queue pairs (z 160.0), highest at {}; worst finding that began: qp.died",
                            name(self.stalled())
                        ),
                    ),
                ]
            }
            Fault::Healthy => vec![
                ("jobs", "No job stands out".to_owned()),
                ("timeline", "No slot stands out".to_owned()),
                (
                    "loss",
                    "No device receives more than 0.01 % of its packets out of sequence, and retries of queue pairs stand out on none of "
                        .to_owned(),
                ),
                ("slow", "No link, host".to_owned()),
            ],
            _ => Vec::new(),
        }
    }
}
