//! The same fleet with NICs that process RoCE themselves: no flows, but counters of devices and contexts of queue
//! pairs.

use std::path::Path;

use anyhow::Result;
use rocescope::record::cell::Time;
use rocescope::record::registry::{DeviceSecond, LinkSecond, QpSecond};
use rocescope::sample::Direction;
use rocescope::util::shared::Shared;

use super::fault::{FAULTS, Fault};
use super::{BEGIN_S, BUSY, Fleet, NS, PACKET, PEERS, Port, Written, address, device, link, name};
use crate::sim::rng::mix;

/// Share of the readings that show retries, per share of the packets that are retransmitted: a retry lasts for as long
/// as its timeout.
const SHOWN: f64 = 600.0;

impl Fleet {
    /// Writes the recording as hosts make it that see no packet.
    ///
    /// # Errors
    /// A file cannot be written.
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
            devices.extend(self.bytes_of(&devices));
            Self::table(root, host, &links, &mut written)?;
            Self::table(root, host, &devices, &mut written)?;
            Self::table(root, host, &self.qps_of(host), &mut written)?;
        }
        Ok(written)
    }

    /// Bytes of each port in the time range of each fault, as two sources count them.
    fn bytes_of(&self, devices: &[DeviceSecond]) -> Vec<DeviceSecond> {
        let of_packets = |row: &&DeviceSecond| ["rx_packets", "tx_packets"].contains(&row.counter.as_str());
        let mut rows = Vec::new();
        for row in devices.iter().filter(of_packets) {
            let fault = FAULTS.into_iter().find(|fault| self.range(*fault).1 * NS == row.t.0);
            let port = self.port_of(row);
            let (Some(fault), Some(port)) = (fault, port) else { continue };
            let (counter, bytes) = if row.counter.as_str() == "rx_packets" {
                ("rx_bytes", self.effect(fault, self.peer(port, 1), port, Direction::Ingress, true).bytes)
            } else {
                ("tx_bytes", self.effect(fault, port, self.peer(port, 1), Direction::Egress, true).bytes)
            };
            for (source, share) in [("ethtool", 1.0), ("sysfs counters", 0.98)] {
                let delta = (BUSY * bytes * share) as u64 * self.seconds;
                rows.push(DeviceSecond {
                    counter: counter.into(),
                    source: source.into(),
                    delta,
                    ..row.clone()
                });
            }
        }
        rows
    }

    fn port_of(&self, row: &DeviceSecond) -> Option<Port> {
        (0..self.hosts)
            .filter(|host| name(*host) == row.host.as_str())
            .flat_map(Self::ports)
            .find(|port| device(*port) == row.device.as_str())
    }

    /// The host of the same job at this distance in its ring.
    fn peer(&self, own: Port, distance: u64) -> Port {
        let first = own.host / self.job() * self.job();
        let members = self.job().min(self.hosts - first);
        Port { host: first + (own.host - first + distance) % members, ..own }
    }

    /// Queue pairs that send, one to each peer and port. Their contexts are read once a second.
    fn qps_of(&self, host: u64) -> Vec<QpSecond> {
        let mut rows = Vec::new();
        for second in BEGIN_S..BEGIN_S + self.seconds * FAULTS.len() as u64 {
            for own in Self::ports(host) {
                for distance in 1..=PEERS {
                    rows.push(self.qp(second, own, distance));
                }
            }
        }
        rows
    }

    fn qp(&self, second: u64, own: Port, distance: u64) -> QpSecond {
        let fault = self.fault_at(second);
        let peer = self.peer(own, distance);
        let effect = self.effect(fault, own, peer, Direction::Egress, true);
        let seed = mix(second ^ mix(own.host << 20 | own.rail << 12 | own.plane << 8 | distance));
        let dice =
            |n: u64, share: f64| u64::from((mix(seed.wrapping_add(n)) as f64 / u64::MAX as f64) < share);
        let sent = (BUSY * effect.bytes / PACKET) as u64;
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
            lqpn: 64 + distance,
            rqpn: Some(164 + distance),
            src: Some(address(own)),
            dst: Some(address(peer)),
            udp_port: Some(49_152 + seed % 16_384),
            dscp: Some(26),
            pid: Some(4_711),
            comm: Some(Shared::from("python3")),
            sent_packets: Some(sent),
            received_packets: Some(0),
            readings: Some(1),
            retrying_readings: Some(dice(1, (effect.resent * SHOWN).min(0.9))),
            rnr_retrying_readings: Some(dice(2, effect.rnr_wait_ns as f64 / NS as f64)),
            exhausted_readings: Some(0),
            in_flight: Some(32),
            stuck_ns: Some(0),
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
    #[must_use]
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
            Fault::Healthy => vec![
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
