//! Made-up samples: counters as they would stand some seconds into a run.

use bytes::Bytes;
use rocescope::entity::owners::{Owners, QpOwner};
use rocescope::metrics::{Metrics, latency};
use rocescope::sample::{
    Direction, EventSample, Extra, FlowSample, LinkSample, PeerKey, Sample, SourceKind, Stats,
};
use rocescope::util::map::Map;
use rocescope_common::abi::Counter;
use rocescope_common::account::latency::{BUCKETS, bucket};
use rocescope_common::account::{Disorder, Event, FlowKey, PsnTrack};
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::frame::UNKNOWN;

/// 2026-03-01 12:00:00 UTC.
pub const START_NS: u64 = 1_772_366_400_000_000_000;

/// Traffic of one flow, per second unless noted.
#[derive(Clone, Debug)]
pub struct Spec {
    pub src: std::net::IpAddr,
    pub dst: std::net::IpAddr,
    pub dest_qp: u32,
    pub link: u16,
    pub packets: u64,
    /// Of one frame.
    pub size: u64,
    /// ECN-capable packets of 1000 that are marked CE.
    pub ce_permille: u64,
    pub capable: bool,
    pub cnp: u64,
    pub gaps: u64,
    pub missing: u64,
    pub repeats: u64,
    pub rnr: u64,
    /// In all, by code.
    pub naks: [u64; 6],
    pub acks: u64,
    pub ports: u16,
    pub opcode: u8,
    pub peer_qp: Option<u32>,
    /// Microseconds that a request usually takes; `None` where none is timed.
    pub latency_us: Option<u64>,
    /// Requests without an answer, beside a hundred that are timed.
    pub unanswered: u64,
    /// Number and command of the process, and its pod.
    pub owner: Option<(u32, String, String)>,
}

impl Spec {
    pub fn new(src: &str, dst: &str, dest_qp: u32) -> Self {
        Self {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            dest_qp,
            link: 0,
            packets: 100_000,
            size: 4178,
            ce_permille: 0,
            capable: true,
            cnp: 0,
            gaps: 0,
            missing: 0,
            repeats: 0,
            rnr: 0,
            naks: [0; 6],
            acks: 0,
            ports: 1,
            opcode: 0x07,
            peer_qp: None,
            latency_us: None,
            unanswered: 0,
            owner: None,
        }
    }

    /// The acknowledgements that answer this flow.
    pub fn answers(&self, dest_qp: u32, link: u16) -> Self {
        Self {
            link,
            packets: self.packets / 16,
            size: 62,
            acks: self.packets / 16,
            opcode: 0x11,
            ..Self::new(&self.dst.to_string(), &self.src.to_string(), dest_qp)
        }
    }

    fn key(&self) -> FlowKey {
        let words = |ip: std::net::IpAddr| {
            let octets = match ip {
                std::net::IpAddr::V4(ip) => {
                    let mut octets = [0; 16];
                    octets[12..].copy_from_slice(&ip.octets());
                    octets
                }
                std::net::IpAddr::V6(ip) => ip.octets(),
            };
            let mut words = [0; 4];
            for (word, chunk) in words.iter_mut().zip(octets.chunks_exact(4)) {
                *word = u32::from_ne_bytes(chunk.try_into().unwrap());
            }
            words
        };
        FlowKey {
            src: words(self.src),
            dst: words(self.dst),
            dest_qp: self.dest_qp,
            link: self.link,
            family: if self.src.is_ipv4() { 4 } else { 6 },
            pad: 0,
        }
    }

    fn stats(&self, seconds: u64) -> Stats {
        let mut stats = Stats::default();
        let control = self.opcode == 0x11;
        let data = self.packets * seconds;
        let ce = data * self.ce_permille / 1000;
        stats.packets = data + self.cnp * seconds;
        stats.bytes = data * self.size + self.cnp * seconds * 74;
        stats.payload_bytes = if control { 0 } else { data * self.size.saturating_sub(82) };
        stats.first_ns = START_NS;
        stats.last_ns = START_NS + seconds * 1_000_000_000;
        let ecn = if self.capable { [0, 0, data - ce, ce] } else { [data, 0, 0, 0] };
        *(if control { &mut stats.ecn_control } else { &mut stats.ecn_data }) = ecn;
        stats.cnp_packets = self.cnp * seconds;
        stats.opcodes = [(self.opcode & 0x1F, data)].into();
        stats.transport = self.opcode >> 5;
        stats.acks = self.acks * seconds;
        stats.rare.rnr_naks = self.rnr * seconds;
        stats.rare.naks = self.naks;
        stats.psn = PsnTrack {
            first: 1_000,
            expected: u32::try_from((1_000 + data) & 0xFF_FFFF).unwrap(),
            slack: 1,
            seen: u32::from(!control),
            disorder: Disorder {
                repeats: self.repeats * seconds,
                gaps: self.gaps * seconds,
                missing: self.missing * seconds,
                restarts: 0,
            }
            .into(),
        };
        stats.mtu = if control { 0 } else { 4096 };
        stats.src_qp = UNKNOWN;
        stats.src_port = 49_152 + u16::try_from(self.dest_qp % 8_192).unwrap();
        stats.dscp = if control { 48 } else { 26 };
        stats.pcp = 3;
        stats.vlan = 100;
        stats.roce_version = 2;
        if self.ports > 1 {
            let share = u64::from(self.ports - 1);
            stats.seldom.other_port_packets = stats.packets / u64::from(self.ports) * share;
            stats.seldom.other_port_bytes = stats.bytes / u64::from(self.ports) * share;
        }
        stats
    }

    /// The first bytes of a packet: Ethernet, IPv4, UDP, BTH and, of an ACKNOWLEDGE, the AETH.
    fn headers(&self, opcode: u8, psn: u32, aeth: u32) -> Bytes {
        let (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) = (self.src, self.dst) else {
            return Bytes::new();
        };
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        bytes.extend([0x45, 26 << 2 | 2, 16, 68, 0, 1, 0x40, 0, 64, 17, 0, 0]);
        bytes.extend(src.octets());
        bytes.extend(dst.octets());
        bytes.extend([0xC0, 0, 0x12, 0xB7, 16, 48, 0, 0]);
        bytes.extend([opcode, 0x40, 0xFF, 0xFF, 0]);
        bytes.extend(&self.dest_qp.to_be_bytes()[1..]);
        bytes.push(0);
        bytes.extend(&psn.to_be_bytes()[1..]);
        if opcode == 0x11 {
            bytes.extend(aeth.to_be_bytes());
        }
        bytes.resize(bytes.len() + 16, 0);
        Bytes::from(bytes)
    }

    /// Times of a hundred requests a second: most as usual, some twice, few eight times as long, and each
    /// tenth second all of them twice.
    fn times(&self, seconds: u64) -> Option<latency::Figure> {
        let usual = self.latency_us? * 1_000;
        let mut counts = [0; BUCKETS];
        let slow = seconds / 10;
        for (ns, n) in
            [(usual, 90 * (seconds - slow)), (2 * usual, 8 * seconds + 90 * slow), (8 * usual, 2 * seconds)]
        {
            counts[bucket(ns)] += n;
        }
        Some(latency::Figure {
            all: latency::Summary::of(&counts, 8 * usual),
            histogram: latency::Histogram::of(&counts),
            ambiguous: self.unanswered * seconds,
            ..latency::Figure::default()
        })
    }

    fn extra(&self, stats: &Stats) -> Option<Extra> {
        if self.ports < 2 {
            return None;
        }
        let n = u64::from(self.ports - 1);
        let part = Counter {
            packets: stats.seldom.other_port_packets / n,
            bytes: stats.seldom.other_port_bytes / n,
        };
        let ports = (1..self.ports).map(|i| (stats.src_port + i, part)).collect();
        Some(Extra { ports, ..Extra::default() })
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct World {
    pub kind: SourceKind,
    pub inputs: Vec<String>,
    pub links: Vec<(String, Option<Direction>)>,
    pub flows: Vec<Spec>,
    /// Frames that are no RoCE, per second.
    pub skipped: Vec<(SkipReason, u64)>,
    /// RoCE packets per second that find the flow table full.
    pub table_full: u64,
    pub capture_drops: Option<u64>,
}

impl World {
    /// Interfaces without traffic.
    pub fn live() -> Self {
        let both = |name: &str| {
            [(name.to_owned(), Some(Direction::Ingress)), (name.to_owned(), Some(Direction::Egress))]
        };
        Self {
            kind: SourceKind::Live,
            inputs: vec!["eth0".into(), "eth1".into()],
            links: both("eth0").into_iter().chain(both("eth1")).collect(),
            flows: Vec::new(),
            skipped: Vec::new(),
            table_full: 0,
            capture_drops: None,
        }
    }

    /// A capture file without frames.
    pub fn replay() -> Self {
        Self {
            kind: SourceKind::Replay,
            inputs: vec!["captures/rack7/gpu12-uplink0.pcap.gz".into()],
            links: vec![("gpu12-uplink0.pcap.gz".into(), None)],
            ..Self::live()
        }
    }

    /// Eight busy queue pairs on two uplinks.
    pub fn healthy() -> Self {
        let mut world = Self::live();
        for i in 0..8u32 {
            let uplink = u16::try_from(i % 2).unwrap();
            let mut spec = Spec::new(&format!("10.1.{i}.12"), &format!("10.2.{}.7", 7 - i), 0x1200 + i * 17);
            spec.link = 2 * uplink + 1;
            spec.packets = 350_000 + u64::from(i) * 1_000;
            spec.ports = 4;
            spec.peer_qp = Some(0x900 + i);
            spec.latency_us = Some(12 + u64::from(i));
            spec.owner = Some((4_711 + i / 4, "python3".into(), format!("train-worker-{}", i / 4)));
            let answers = spec.answers(0x900 + i, 2 * uplink);
            world.flows.extend([spec, answers]);
        }
        world.skipped = vec![(SkipReason::Tcp, 812), (SkipReason::Arp, 2), (SkipReason::OtherUdp, 37)];
        world
    }

    /// The same with congestion, loss, a slow receiver, refused requests, and own losses.
    pub fn sick() -> Self {
        let mut world = Self::healthy();
        let flows = &mut world.flows;
        flows[0].ce_permille = 82;
        flows[0].latency_us = Some(95);
        flows[1].cnp = 1_230;
        (flows[4].gaps, flows[4].missing, flows[4].repeats) = (3, 41, 38);
        flows[5].naks = [12, 0, 0, 0, 0, 0];
        flows[7].rnr = 56;
        flows[9].naks = [0, 0, 2, 0, 0, 0];
        flows[10].packets = 12;
        flows[12].capable = false;
        world.table_full = 3;
        world
    }

    /// Many queue pairs, few of them sick.
    pub fn many(n: u32) -> Self {
        let mut world = Self::live();
        world.flows = (0..n)
            .map(|i| {
                let (a, b) = (i / 250 % 250, i % 250);
                let mut spec = Spec::new(&format!("10.{}.{a}.{b}", i % 3), "10.9.0.1", 100 + i);
                spec.packets = u64::from(i.wrapping_mul(2_654_435_761) % 100_000);
                spec.missing = u64::from(i % 199 == 7);
                spec.gaps = spec.missing;
                spec
            })
            .collect();
        world
    }

    /// IPv6 addresses, long and short.
    pub fn ipv6() -> Self {
        let mut world = Self::live();
        world.flows = vec![
            Spec::new("2001:db8:1234:5678:9abc:def0:1234:5678", "2001:db8::1", 17),
            Spec::new("fe80::1", "2001:db8:1234:5678:9abc:def0:1234:5679", 0xFF_FFFF),
        ];
        world.flows[1].ce_permille = 20;
        world
    }

    /// The counters after this number of seconds.
    pub fn at(&self, seconds: u64) -> Sample {
        let mut extra = Map::default();
        let mut peers = Map::default();
        let flows = (0u32..).zip(&self.flows).map(|(slot, spec)| {
            let (key, stats) = (spec.key(), spec.stats(seconds));
            extra.extend(spec.extra(&stats).map(|extra| (slot, extra)));
            peers.extend(spec.peer_qp.map(|qp| (PeerKey::of(&key), qp)));
            FlowSample { slot, key, stats }
        });
        let flows = flows.collect();
        let links = self.links.iter().enumerate().map(|(i, (name, direction))| {
            let mut skipped = [Counter::default(); SkipReason::COUNT];
            for (reason, per_second) in self.skipped.iter().filter(|_| i == 0) {
                skipped[*reason as usize] =
                    Counter { packets: per_second * seconds, bytes: per_second * seconds * 90 };
            }
            let full = if i == 0 { self.table_full * seconds } else { 0 };
            LinkSample {
                name: name.clone(),
                direction: *direction,
                skipped,
                flow_table_full: Counter { packets: full, bytes: full * 4178 },
                ..LinkSample::default()
            }
        });
        let times = (0u32..).zip(&self.flows).filter_map(|(slot, spec)| Some((slot, spec.times(seconds)?)));
        let times: latency::BySlot = times.collect();
        let metrics = Metrics { latency: (!times.is_empty()).then_some(times), ..Metrics::default() };
        let time_ns = START_NS + seconds * 1_000_000_000;
        let any = !self.flows.is_empty() || !self.skipped.is_empty() || self.kind == SourceKind::Live;
        Sample {
            time_ns,
            kind: self.kind,
            inputs: self.inputs.clone(),
            window: any.then_some((START_NS, time_ns)),
            links: links.collect(),
            flows,
            extra,
            peers,
            events_dropped: (self.kind == SourceKind::Live).then_some(0),
            capture_drops: self.capture_drops,
            owners: self.owners(),
            metrics,
            ..Sample::default()
        }
    }

    /// Whose the sending ends are.
    fn owners(&self) -> std::sync::Arc<Owners> {
        let owned = self.flows.iter().enumerate().filter_map(|(i, spec)| {
            let (pid, comm, pod) = spec.owner.clone()?;
            let owner = QpOwner {
                device: format!("mlx5_{i}"),
                lqpn: spec.peer_qp?,
                rqpn: Some(spec.dest_qp),
                kind: Some("RC"),
                state: Some("RTS"),
                pid: Some(pid),
                comm: Some(comm),
                pod: Some(pod),
            };
            let gid = match spec.src {
                std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                std::net::IpAddr::V6(ip) => ip,
            };
            Some((owner, (format!("mlx5_{i}"), vec![gid])))
        });
        let (owners, gids): (Vec<_>, Vec<_>) = owned.unzip();
        std::sync::Arc::new(Owners::new(owners, &gids))
    }

    /// Events of the second before `seconds`.
    pub fn events(&self, seconds: u64) -> Vec<EventSample> {
        let mut events = Vec::new();
        for (i, spec) in (0u64..).zip(&self.flows) {
            let mut bits = vec![(seconds == 1, Event::NEW_FLOW, spec.opcode, 0, UNKNOWN)];
            bits.push((spec.gaps > 0, Event::GAP, spec.opcode, 14, UNKNOWN));
            bits.push((spec.ce_permille > 0, Event::CE, spec.opcode, 0, UNKNOWN));
            bits.push((spec.cnp > 0, Event::CNP, 0x81, 0, UNKNOWN));
            bits.push((spec.rnr > 0, Event::RNR, 0x11, 0, 0x2C00_0007));
            let code = (0u32..).zip(spec.naks).find(|(_, n)| *n > 0).map(|(code, _)| code);
            bits.push((
                seconds == 2 && code.is_some(),
                Event::NAK,
                0x11,
                0,
                (0x60 | code.unwrap_or(0)) << 24,
            ));
            for (nth, (_, bit, opcode, missing, aeth)) in (0u64..).zip(bits.into_iter().filter(|b| b.0)) {
                events.push(EventSample {
                    time_ns: START_NS + (seconds - 1) * 1_000_000_000 + (i * 10 + nth) * 1_000_000,
                    key: spec.key(),
                    events: bit,
                    opcode,
                    tos: 26 << 2,
                    src_port: 49_152,
                    psn: 1_000 + u32::try_from(seconds * 100 + i).unwrap(),
                    missing,
                    aeth,
                    wire_len: 4178,
                    bth_offset: 42,
                    headers: if bit & (Event::NAK | Event::RNR | Event::GAP | Event::CNP) == 0 {
                        Bytes::new()
                    } else {
                        spec.headers(opcode, 1_000 + u32::try_from(seconds * 100 + i).unwrap(), aeth)
                    },
                });
            }
        }
        events.sort_by_key(|event| event.time_ns);
        events
    }
}
