//! A host of the fleet with NICs that process RoCE whose queue pairs retry, stand still and die, at known times of the
//! time range of [`Fault::Stalls`]: what its recording has of it beside counts.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Result;
use rocescope::record::cell::Time;
use rocescope::record::registry::{DeviceSecond, Event, Finding, QpLife, QpSecond};
use rocescope::sample::Address;
use rocescope::util::shared::Shared;

use super::fault::Fault;
use super::offloaded::qpn;
use super::{BEGIN_S, Fleet, NS, PEERS, Port, Written, address, device, link, name};

/// Seconds after the start of the time range: its queue pairs show retries, its ports are paused, its queue pairs stand
/// still, are in the error state, and are refused when they connect again.
pub(super) const RETRY_S: u64 = 3;
const PAUSE_S: u64 = 5;
pub(super) const STAND_S: u64 = 6;
pub(super) const DIE_S: u64 = 10;
const CONNECT_S: u64 = 12;
/// Timeouts of each of its ports in a second with retries.
const TIMEOUTS: u64 = 2;
/// Time paused of each of its ports.
const PAUSED_NS: u64 = 250_000_000;
/// Set-ups that fail.
const REFUSED: u64 = 12;

/// What the timeline has of a second of the time range.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// Seconds after the beginning.
    pub at: u64,
    /// Figures by the name of their column; `None` is null.
    pub figures: Vec<(&'static str, Option<f64>)>,
    /// Worst finding that began.
    pub finding: Option<&'static str>,
}

/// What queue pairs leave in a recording.
#[derive(Debug)]
pub struct QpRows {
    /// Their traffic.
    pub seconds: Vec<QpSecond>,
    /// Their states.
    pub lives: Vec<QpLife>,
    /// Events of the control path.
    pub events: Vec<Event>,
    /// Findings about them.
    pub findings: Vec<Finding>,
}

impl Fleet {
    /// Writes the queue pairs of the time range in which some die, changed as a recording with less may have them.
    /// Their states begin before it.
    pub fn write_deaths(&self, root: &Path, change: impl Fn(&mut QpRows)) -> Result<()> {
        let begin = Time(self.range(Fault::Stalls).0 * NS);
        for host in 0..self.hosts {
            let mut rows = QpRows {
                seconds: self.qps_of(host),
                lives: self.lives_of(host),
                events: self.events_of(host),
                findings: self.findings_of(host),
            };
            rows.seconds.retain(|row| row.t > begin);
            change(&mut rows);
            let mut written = Written::default();
            Self::table(root, host, &rows.seconds, &mut written)?;
            Self::table(root, host, &rows.lives, &mut written)?;
            Self::table(root, host, &rows.events, &mut written)?;
            Self::table(root, host, &rows.findings, &mut written)?;
        }
        Ok(())
    }

    /// Seconds after the beginning of the time range, at the host whose queue pairs die.
    pub(super) fn dying(&self, second: u64, host: u64) -> Option<u64> {
        let is_dying = self.fault_at(second) == Fault::Stalls && host == self.stalled();
        is_dying.then(|| second - self.range(Fault::Stalls).0)
    }

    /// The host whose queue pairs die, which the timeline of the whole recording must name.
    pub fn dying_host(&self) -> String {
        name(self.stalled())
    }

    /// A time at which the queue pairs have died and are not destroyed yet, in Unix seconds.
    pub fn second_after_deaths(&self) -> u64 {
        self.range(Fault::Stalls).0 + DIE_S + 2
    }

    /// What the timeline of the time range has, second by second.
    pub fn seconds_of_deaths(&self) -> Vec<Second> {
        let ports = Self::ports(0).count() as u64;
        let own = ports * PEERS;
        let all = self.hosts * own;
        let of = |at: u64| {
            let is_retrying = (RETRY_S..DIE_S).contains(&at);
            let is_standing = (STAND_S..DIE_S).contains(&at);
            let sending = if at < STAND_S { all } else { all - own };
            let (ports_sending, paused) =
                (if at < DIE_S { self.hosts } else { self.hosts - 1 } * ports, u64::from(at == PAUSE_S));
            let when = |second: u64, count: u64| if at == second { count } else { 0 } as f64;
            let figures = vec![
                ("qps_retrying_ratio", if is_retrying { own as f64 / all as f64 } else { 0.0 }),
                ("qps_stuck", if is_standing { own as f64 } else { 0.0 }),
                ("qp_packets_per_s", sending as f64 * Self::packets_per_s() as f64),
                ("nic_bytes_per_s", ports_sending as f64 * Self::bytes_per_s() as f64),
                ("nic_timeouts", if is_retrying { (ports * TIMEOUTS) as f64 } else { 0.0 }),
                ("paused_ns", (paused * ports * PAUSED_NS) as f64),
                ("qps_died", when(DIE_S, own)),
                ("setup_failures", when(CONNECT_S, REFUSED)),
                ("critical_findings", when(STAND_S, 1) + when(DIE_S, 1)),
                ("warning_findings", when(RETRY_S, 2)),
            ];
            let finding = match at {
                RETRY_S => Some("qp.retrying"),
                STAND_S => Some("qp.stuck"),
                DIE_S => Some("qp.died"),
                _ => None,
            };
            // No packet was seen.
            let unseen = ["bytes_per_s", "lost_packets", "ce_ratio", "latency_ns"].map(|name| (name, None));
            let known = figures.into_iter().map(|(name, figure)| (name, Some(figure)));
            Second { at, figures: known.chain(unseen).collect(), finding }
        };
        (0..self.seconds).map(of).collect()
    }

    /// Counters of the ports of the dying host. Of two sources of the pauses, one saw fewer.
    pub(super) fn counters_of_death(&self, host: u64) -> Vec<DeviceSecond> {
        let (begin, end) = self.range(Fault::Stalls);
        let mut rows = Vec::new();
        for second in begin..end {
            let Some(at) = self.dying(second, host) else { continue };
            for port in Self::ports(host) {
                let row = |counter: &str, source: &str, delta: u64| DeviceSecond {
                    t: Time((second + 1) * NS),
                    interval_ns: NS,
                    host: Shared::from(name(host).as_str()),
                    job: Some(Shared::from(self.job_of(host).as_str())),
                    device: Shared::from(device(port).as_str()),
                    port: Some(1),
                    netdev: Some(Shared::from(link(port).as_str())),
                    driver: Some(Shared::from("mlx5_core")),
                    source: Shared::from(source),
                    counter: Shared::from(counter),
                    direction: None,
                    priority: None,
                    delta,
                };
                if (RETRY_S..DIE_S).contains(&at) {
                    rows.push(row("local_ack_timeouts", "sysfs hw_counters", TIMEOUTS));
                }
                if at == PAUSE_S {
                    for (source, delta) in [("ethtool", PAUSED_NS), ("DCB netlink", PAUSED_NS * 4 / 5)] {
                        rows.push(DeviceSecond {
                            direction: Some(Shared::from("received")),
                            priority: Some(3),
                            ..row("pause_ns", source, delta)
                        });
                    }
                }
            }
        }
        rows
    }

    /// States of the queue pairs of a host: all connect at the start of the recording. Those of the dying host end, and
    /// others have their numbers afterwards.
    pub(super) fn lives_of(&self, host: u64) -> Vec<QpLife> {
        let stalls = self.range(Fault::Stalls);
        let mut rows = Vec::new();
        for own in Self::ports(host) {
            for distance in 1..=PEERS {
                let first = self.life(BEGIN_S, own, distance);
                if host == self.stalled() {
                    let died = QpLife {
                        t: Time((stalls.0 + DIE_S + 1) * NS),
                        state: Some(Shared::from("ERR")),
                        end_kind: Some(Shared::from("error")),
                        end_reason: Some(Shared::from("transport retry count exceeded")),
                        ..first.clone()
                    };
                    // The process goes on for a while.
                    let ended = QpLife {
                        t: Time((stalls.0 + DIE_S + 3) * NS),
                        ended: Some(Time((stalls.0 + DIE_S + 2) * NS)),
                        ..died.clone()
                    };
                    rows.extend([died, ended, self.life(stalls.1, own, distance)]);
                }
                rows.push(first);
            }
        }
        rows.sort_by_key(|row| row.t);
        rows
    }

    fn life(&self, second: u64, own: Port, distance: u64) -> QpLife {
        QpLife {
            t: Time((second + 1) * NS),
            host: Shared::from(name(own.host).as_str()),
            job: Some(Shared::from(self.job_of(own.host).as_str())),
            device: Shared::from(device(own).as_str()),
            port: Some(1),
            netdev: Some(Shared::from(link(own).as_str())),
            lqpn: qpn(distance),
            rqpn: Some(qpn(distance) + 100),
            kind: Some(Shared::from("RC")),
            origin: Some(Shared::from("verbs")),
            state: Some(Shared::from("RTS")),
            pid: Some(4_711),
            comm: Some(Shared::from("python3")),
            created: Some(Time(second * NS)),
            src: Some(address(own)),
            dst: Some(address(self.peer(own, distance))),
            dscp: Some(26),
            path_mtu: Some(4_096),
            timeout_ns: Some(67_108_864),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            connected: Some(Time(second * NS)),
            priority: Some(3),
            sources: Some(Shared::from("netlink,control_path,context")),
            ..QpLife::default()
        }
    }

    /// Events of the control path of a host: why its queue pairs died, set-ups that fail, and an attempt of a library
    /// that fails on purpose.
    pub(super) fn events_of(&self, host: u64) -> Vec<Event> {
        if host != self.stalled() {
            return Vec::new();
        }
        let begin = self.range(Fault::Stalls).0;
        let event = |ns: u64, port: Port, lqpn: u64, event: &str| Event {
            t: Time(begin * NS + ns),
            host: Shared::from(name(host).as_str()),
            job: Some(Shared::from(self.job_of(host).as_str())),
            event: Shared::from(event),
            device: Some(Shared::from(device(port).as_str())),
            lqpn: Some(lqpn),
            src: Some(address(port)),
            pid: Some(4_711),
            comm: Some(Shared::from("python3")),
            ..Event::default()
        };
        let mut rows = Vec::new();
        for port in Self::ports(host) {
            for distance in 1..=PEERS {
                let died = event(DIE_S * NS + NS / 3, port, qpn(distance), "error reason");
                rows.push(Event { reason: Some(Shared::from("transport retry count exceeded")), ..died });
            }
        }
        let ports: Vec<Port> = Self::ports(host).collect();
        for (port, at) in ports.into_iter().cycle().zip(0..REFUSED) {
            let refused = event(CONNECT_S * NS + NS / 4 + at, port, 900 + at, "modify to RTR");
            rows.push(Event { errno: Some(110), duration_ns: Some(NS / 5), ..refused });
        }
        for port in Self::ports(host) {
            rows.push(Event { errno: Some(22), ..event(CONNECT_S * NS + NS / 2, port, 0, "create") });
        }
        rows.sort_by_key(|row| row.t);
        rows
    }

    /// Findings of a host. One that changes or goes on has several rows, and began once.
    pub(super) fn findings_of(&self, host: u64) -> Vec<Finding> {
        let begin = self.range(Fault::Stalls).0;
        let finding = |id: &str, severity: &str, since: u64, row: u64| Finding {
            t: Time((begin + row + 1) * NS),
            host: Shared::from(name(host).as_str()),
            job: Some(Shared::from(self.job_of(host).as_str())),
            id: Shared::from(id),
            severity: Shared::from(severity),
            active: 1,
            since: Some(Time((begin + since) * NS + NS / 2)),
            title: Shared::from(id),
            src: Some(Address::Ip(IpAddr::from([10, 0, 0, 1]))),
            json: Shared::from("{}"),
            ..Finding::default()
        };
        if host == self.stalled() {
            vec![
                finding("qp.retrying", "warning", RETRY_S, RETRY_S),
                Finding { since: None, ..finding("config.qp_settings", "warning", 0, RETRY_S) },
                finding("path.changed", "info", RETRY_S, RETRY_S),
                finding("qp.stuck", "warning", STAND_S, STAND_S),
                finding("qp.stuck", "critical", STAND_S, STAND_S + 1),
                finding("qp.died", "critical", DIE_S, DIE_S),
                Finding { active: 0, ..finding("qp.retrying", "warning", RETRY_S, DIE_S + 1) },
            ]
        } else if host == self.stalled() + 1 {
            vec![finding("qp.retrying", "warning", RETRY_S, RETRY_S + 1)]
        } else {
            Vec::new()
        }
    }
}
