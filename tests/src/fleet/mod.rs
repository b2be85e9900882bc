//! Synthetic recordings of many hosts with known faults, for `rocescope fleet`.
//!
//! A fabric of rails and planes: each host has a port in each plane of each rail, at a leaf switch of its pod. Jobs
//! communicate in rings, in steps of four seconds. Each [`Fault`] has its own time range in one recording; the first
//! range is healthy.

#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "counts of a simulation are positive and far below the limits"
)]

pub mod ask;
mod dying;
mod fault;
mod offloaded;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context as _, Result};
use rocescope::record::cell::Time;
use rocescope::record::parquet::{VERSION, encode};
use rocescope::record::registry::{DeviceSecond, FlowSecond, LinkSecond, Step};
use rocescope::record::table::Row;
use rocescope::sample::{Address, Direction};
use rocescope::util::shared::Shared;

pub use dying::{QpRows, Second};
pub use fault::{FAULTS, Fault};
use rocescope_common::random::mix;

/// Beginning of the recording: an hour, 2025-11-22 08:00:00 UTC.
const BEGIN_S: u64 = 1_763_798_400;
const HOUR: &str = "date=2025-11-22/hour=08";
const NS: u64 = 1_000_000_000;
const RAILS: u64 = 4;
const PLANES: u64 = 2;
/// Number of hosts to which each host sends on each port: the next ones of its job.
const PEERS: u64 = 2;
/// Length of a step; hosts send in its first half.
const STEP_S: u64 = 4;
/// Bytes of a flow per second in that half, and in the other half.
const BUSY: f64 = 1.5e9;
const QUIET: f64 = 0.1e9;
const PACKET: f64 = 4_096.0;
const BIT_RATE: u64 = 400_000_000_000;

/// A fleet, and the duration of each fault.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Hosts.
    pub hosts: u64,
    /// Seconds per fault; for all faults together an hour.
    pub seconds: u64,
    /// Number of faults: the first of [`FAULTS`].
    pub faults: usize,
}

/// Size of the written recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Rows of all tables.
    pub rows: u64,
    /// Rows of `flow_seconds`.
    pub flow_rows: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// A port of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Port {
    host: u64,
    rail: u64,
    plane: u64,
}

/// Host of a mirror port.
const MIRROR: &str = "mirror0";

impl Fleet {
    /// The fleet used in tests.
    pub const SMALL: Self = Self { hosts: 60, seconds: 16, faults: FAULTS.len() };

    /// The same without what follows a fault.
    #[must_use]
    pub fn until(self, last: Fault) -> Self {
        Self { faults: FAULTS.iter().take_while(|fault| **fault != last).count() + 1, ..self }
    }

    /// Hosts per job, each with its own ring.
    const fn job(&self) -> u64 {
        if self.hosts < 200 { 20 } else { 40 }
    }

    /// Hosts per leaf switch: a job has hosts at two of them.
    const fn pod(&self) -> u64 {
        if self.hosts < 200 { 15 } else { 50 }
    }

    /// The time range of a fault in Unix seconds, for `--from` and `--to`.
    pub fn range(&self, fault: Fault) -> (u64, u64) {
        let at = FAULTS.iter().position(|one| *one == fault).unwrap_or(0) as u64;
        (BEGIN_S + at * self.seconds, BEGIN_S + (at + 1) * self.seconds)
    }

    fn fault_at(&self, second: u64) -> Fault {
        FAULTS[((second - BEGIN_S) / self.seconds).min(FAULTS.len() as u64 - 1) as usize]
    }

    fn job_of(&self, host: u64) -> String {
        format!("train-{}", host / self.job())
    }

    fn switch(&self, port: Port) -> String {
        format!("leaf-{}-r{}-{}", port.host / self.pod(), port.rail, ["a", "b"][port.plane as usize])
    }

    fn switch_port(&self, port: Port) -> String {
        format!("Ethernet{}", port.host % self.pod() + 1)
    }

    fn cable(&self, port: Port) -> String {
        format!("{} {} - {} {}", name(port.host), link(port), self.switch(port), self.switch_port(port))
    }

    /// Writes the recording below `root`.
    pub fn write(&self, root: &Path) -> Result<Written> {
        let mut written = Written::default();
        for host in 0..self.hosts {
            let (flows, links) = self.rows_of(host);
            written.flow_rows += flows.len() as u64;
            Self::table(root, host, &flows, &mut written)?;
            Self::table(root, host, &links, &mut written)?;
            Self::table(root, host, &self.steps_of(host), &mut written)?;
            Self::table(root, host, &self.devices_of(host), &mut written)?;
        }
        Ok(written)
    }

    /// Writes flows and links after these changes to each row, without device counters.
    pub fn write_changed(
        &self,
        root: &Path,
        flow: impl Fn(&mut FlowSecond),
        link: impl Fn(&mut LinkSecond),
    ) -> Result<()> {
        let mut written = Written::default();
        for host in 0..self.hosts {
            let (mut flows, mut links) = self.rows_of(host);
            flows.iter_mut().for_each(&flow);
            links.iter_mut().for_each(&link);
            Self::table(root, host, &flows, &mut written)?;
            Self::table(root, host, &links, &mut written)?;
        }
        Ok(())
    }

    /// Writes flows and steps as if they were read from captures, which have no direction.
    pub fn write_as_captures(&self, root: &Path) -> Result<Written> {
        let mut written = Written::default();
        for host in 0..self.hosts {
            let (mut flows, _) = self.rows_of(host);
            let mut steps = self.steps_of(host);
            for row in &mut flows {
                row.direction = None;
            }
            for row in &mut steps {
                row.direction = None;
            }
            Self::table(root, host, &flows, &mut written)?;
            Self::table(root, host, &steps, &mut written)?;
        }
        Ok(written)
    }

    /// Writes flows alone, of recorders whose seconds begin when they were started: each host at another fraction. A
    /// silent job sends nothing in the second half of a step, of which there are then no rows.
    pub fn write_shifted(&self, root: &Path, is_silent: bool) -> Result<Written> {
        let mut written = Written::default();
        for host in 0..self.hosts {
            let late_ns = mix(host) % NS;
            let (mut flows, links) = self.rows_of(host);
            for row in flows.iter_mut().filter(|row| is_silent && row.bytes < BUSY as u64 / 3) {
                row.bytes = 0;
            }
            // Rows of a second come together, in the same order in each.
            let of_a_second = flows.len() / (links.len() / (RAILS * PLANES * 2) as usize);
            let next: Vec<u64> = flows.iter().skip(of_a_second).map(|row| row.bytes).collect();
            let mut shifted = Vec::new();
            for (row, next) in flows.into_iter().zip(next) {
                let part = |bytes: u64, ns: u64| (u128::from(bytes) * u128::from(ns) / u128::from(NS)) as u64;
                let bytes = part(row.bytes, NS - late_ns) + part(next, late_ns);
                shifted.push(FlowSecond { t: Time(row.t.0 + late_ns), bytes, ..row });
            }
            shifted.retain(|row| row.bytes > 0);
            written.flow_rows += shifted.len() as u64;
            Self::table(root, host, &shifted, &mut written)?;
        }
        Ok(written)
    }

    /// Adds the recording of a mirror port that gets what the hosts send, all of it received. Its name sorts before
    /// theirs.
    pub fn add_mirror(&self, root: &Path) -> Result<()> {
        let mut flows: Vec<FlowSecond> = (0..self.hosts).flat_map(|host| self.rows_of(host).0).collect();
        flows.retain(|row| row.direction == Some(Direction::Egress));
        for row in &mut flows {
            row.host = Shared::from(MIRROR);
            row.link = Shared::from("mon0");
            row.rail = None;
            row.direction = Some(Direction::Ingress);
        }
        Self::table_of(root, MIRROR, u64::MAX, &flows, &mut Written::default())
    }

    fn table<R: Row>(root: &Path, host: u64, rows: &[R], written: &mut Written) -> Result<()> {
        Self::table_of(root, &name(host), host, rows, written)
    }

    fn table_of<R: Row>(root: &Path, name: &str, id: u64, rows: &[R], written: &mut Written) -> Result<()> {
        let folder = root.join(VERSION).join(R::TABLE.name).join(HOUR).join(format!("host={name}"));
        let file = folder.join(format!("part-{}-{id:012x}.parquet", BEGIN_S * NS));
        let bytes = encode(rows).with_context(|| format!("rows of {} are no Parquet", R::TABLE.name))?;
        let put = || -> io::Result<()> {
            fs::create_dir_all(&folder)?;
            fs::write(&file, &bytes)
        };
        put().with_context(|| format!("cannot write {}", file.display()))?;
        written.rows += rows.len() as u64;
        written.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Flows and links of a host.
    fn rows_of(&self, host: u64) -> (Vec<FlowSecond>, Vec<LinkSecond>) {
        let first = host / self.job() * self.job();
        let members = self.job().min(self.hosts - first);
        let names =
            Names { host: Shared::from(name(host).as_str()), job: Shared::from(self.job_of(host).as_str()) };
        let (mut flows, mut links) = (Vec::new(), Vec::new());
        for second in BEGIN_S..BEGIN_S + self.seconds * self.faults as u64 {
            for own in Self::ports(host) {
                for direction in [Direction::Egress, Direction::Ingress] {
                    let start = flows.len();
                    for distance in 1..=PEERS {
                        let step = if direction == Direction::Egress { distance } else { members - distance };
                        let peer = Port { host: first + (host - first + step) % members, ..own };
                        flows.push(self.flow(&names, second, own, peer, direction, distance));
                    }
                    links.push(self.link_row(&names, second, own, direction, &flows[start..]));
                }
            }
        }
        (flows, links)
    }

    #[expect(clippy::too_many_lines, reason = "every column of the row")]
    fn flow(
        &self,
        names: &Names,
        second: u64,
        own: Port,
        peer: Port,
        direction: Direction,
        distance: u64,
    ) -> FlowSecond {
        let fault = self.fault_at(second);
        let (src, dst) = if direction == Direction::Egress { (own, peer) } else { (peer, own) };
        let seed = mix(second ^ mix(src.host << 20 | src.rail << 12 | src.plane << 8 | distance));
        let dice = |n: u64| mix(seed.wrapping_add(n)) as f64 / u64::MAX as f64;
        let of_range = (second - BEGIN_S) % self.seconds;
        let (start, _, traffic_s) = self.step_at(fault, src.host, of_range);
        let busy = (of_range - start < traffic_s) != self.is_late(fault, src.host);
        let effect = self.effect(fault, src, dst, direction, busy);
        let bytes = if busy { BUSY } else { QUIET } * (0.9 + 0.2 * dice(1)) * effect.bytes;
        let packets = bytes / PACKET;
        // At the receiver, the path through the fabric is upstream of the tap.
        let base = if direction == Direction::Egress { 20_000.0 } else { 4_000.0 };
        let latency = base * (0.8 + 0.4 * dice(2)) * effect.latency;
        // Occasional bit errors are no fault.
        let stray = u64::from(direction == Direction::Ingress && dice(3) < 0.001);
        let lost = stray + (packets * effect.lost) as u64;
        FlowSecond {
            t: Time((second + 1) * NS),
            interval_ns: NS,
            host: names.host.clone(),
            job: Some(names.job.clone()),
            pod: None,
            link: Shared::from(link(own).as_str()),
            rail: Some(Shared::from(format!("rail{}", own.rail).as_str())),
            direction: Some(direction),
            src: address(src),
            dst: address(dst),
            dest_qp: 64 + distance,
            src_qp: None,
            src_port: Some(49_152 + seed % 16_384),
            src_port_count: Some(1),
            roce_version: Some(2),
            transport: 0,
            dscp: Some(26),
            pcp: None,
            vlan: Some(0),
            packets: packets as u64,
            bytes: bytes as u64,
            payload_bytes: bytes as u64,
            ecn_capable: packets as u64,
            ce: (packets * (0.001 * dice(4) + effect.marked)) as u64,
            cnp_packets: 0,
            acks: 0,
            rnr_naks: 0,
            nak_sequence: 0,
            nak_other: 0,
            lost: Some(lost as i64),
            reordered: Some(0),
            retransmitted: Some((packets * effect.resent) as i64),
            timeouts: Some(effect.timeouts),
            timeout_wait_ns: Some(effect.timeout_wait_ns),
            rnr_wait_ns: Some(effect.rnr_wait_ns),
            rtt_count: Some(1_000),
            rtt_sum_ns: Some((latency * 600.0) as u64),
            rtt_p50_ns: Some((latency * 0.6) as u64),
            rtt_p99_ns: Some(latency as u64),
            rtt_max_ns: Some((latency * 1.5) as u64),
            messages: packets as u64 / 256,
            pid: None,
            comm: None,
            source: Shared::from("packets"),
            message_bytes: None,
            nak_other_json: None,
            loss_of: None,
            first: None,
        }
    }

    fn link_row(
        &self,
        names: &Names,
        second: u64,
        own: Port,
        direction: Direction,
        flows: &[FlowSecond],
    ) -> LinkSecond {
        let sum = |of: fn(&FlowSecond) -> u64| flows.iter().map(of).sum::<u64>();
        let signed = |of: fn(&FlowSecond) -> Option<i64>| Some(flows.iter().filter_map(of).sum::<i64>());
        LinkSecond {
            t: Time((second + 1) * NS),
            interval_ns: NS,
            host: names.host.clone(),
            job: Some(names.job.clone()),
            link: Shared::from(link(own).as_str()),
            rail: Some(Shared::from(format!("rail{}", own.rail).as_str())),
            direction: Some(direction),
            speed_bps: Some(BIT_RATE),
            packets: sum(|flow| flow.packets),
            bytes: sum(|flow| flow.bytes),
            ecn_capable: sum(|flow| flow.ecn_capable),
            ce: sum(|flow| flow.ce),
            flows: flows.len() as u64,
            lost: signed(|flow| flow.lost),
            reordered: Some(0),
            retransmitted: signed(|flow| flow.retransmitted),
            timeouts: signed(|flow| flow.timeouts),
            neighbour_system: Some(Shared::from(self.switch(own).as_str())),
            neighbour_port: Some(Shared::from(self.switch_port(own).as_str())),
            ..LinkSecond::default()
        }
    }

    /// Device counters of a host, in the time range of each fault: the only data in a recording with hardware RoCE.
    fn devices_of(&self, host: u64) -> Vec<DeviceSecond> {
        let (name, job) = (name(host), self.job_of(host));
        let of_port = |port: Port| {
            let (name, job) = (&name, &job);
            let row = move |fault: Fault, counter: &str, delta: u64| DeviceSecond {
                t: Time(self.range(fault).1 * NS),
                interval_ns: self.seconds * NS,
                host: Shared::from(name.as_str()),
                job: Some(Shared::from(job.as_str())),
                device: Shared::from(device(port).as_str()),
                port: Some(1),
                netdev: Some(Shared::from(link(port).as_str())),
                driver: Some(Shared::from("mlx5_core")),
                source: Shared::from("sysfs"),
                counter: Shared::from(counter),
                direction: None,
                priority: None,
                delta,
            };
            FAULTS.into_iter().take(self.faults).flat_map(move |fault| {
                self.counters(fault, port).map(|(counter, delta)| row(fault, counter, delta))
            })
        };
        Self::ports(host).flat_map(|port| of_port(port).collect::<Vec<_>>()).collect()
    }

    /// The steps seen by a host, with the straggler that it waits for.
    fn steps_of(&self, host: u64) -> Vec<Step> {
        let names =
            Names { host: Shared::from(name(host).as_str()), job: Shared::from(self.job_of(host).as_str()) };
        let step = |fault: Fault, start: u64, length: u64, traffic: u64| {
            let waits_for = self.waits_for(fault, host);
            Step {
                t: Time((start + length) * NS),
                host: names.host.clone(),
                job: Some(names.job.clone()),
                link: Shared::from("eth0"),
                direction: Some(Direction::Egress),
                start: Time(start * NS),
                length_ns: length * NS,
                busy_ns: traffic * NS,
                silence_ns: NS / 10,
                straggler: waits_for.map(|(host, _)| address(Port { host, rail: 0, plane: 0 })),
                straggler_kind: waits_for.map(|(_, why)| Shared::from(why)),
                straggler_certain: waits_for.map(|(_, why)| u64::from(why != "upstream")),
                behind_ns: waits_for.map(|_| 2 * NS),
                straggler_json: None,
                gap_follows: Some(0),
                active_ns: Some(traffic * NS),
                step_bytes: None,
                explained_ratio: None,
            }
        };
        let mut steps = Vec::new();
        for fault in FAULTS.into_iter().take(self.faults) {
            let (begin, mut at) = (self.range(fault).0, 0);
            while at < self.seconds {
                let (start, length, traffic) = self.step_at(fault, host, at);
                at = start + length;
                // One that the next range cuts off has no end.
                if at <= self.seconds {
                    steps.push(step(fault, begin + start, length, traffic));
                }
            }
        }
        steps
    }
}

struct Names {
    host: Shared,
    job: Shared,
}

fn name(host: u64) -> String {
    format!("node{host:05}")
}

fn device(port: Port) -> String {
    format!("mlx5_{}", port.rail * PLANES + port.plane)
}

fn link(port: Port) -> String {
    format!("eth{}", port.rail * PLANES + port.plane)
}

fn address(port: Port) -> Address {
    let host = port.host as u32;
    let ports = (port.rail * PLANES + port.plane) as u32;
    Address::Ip(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | ports << 20 | (host + 1))))
}
