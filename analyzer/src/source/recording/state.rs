//! Sums of the rows, as a sample.
//!
//! Data that a recording does not contain stays empty: opcodes, PSNs, further source ports, and latency distributions
//! beyond the median, 99th percentile and maximum of each interval.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::account::flow::DSCP_NONE;
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::frame::{PCP_NONE, UNKNOWN, VLAN_UNKNOWN};
use serde_json::Value;

use super::limits::{Limits, Total};
use super::qps::{QueuePairs, small};
use super::steps::Steps;
use crate::entity::devices::{Devices, PauseSample, PortSample, SourceSample};
use crate::ethernet::lldp::Neighbour;
use crate::host::rdma::device::is_software;
use crate::metrics::Metrics;
use crate::metrics::latency::{BySlot, Figure, IntervalLatency, MergedLatency};
use crate::metrics::loss::{self, FlowLoss};
use crate::record::cell::Time;
use crate::record::registry::{DeviceSecond, Event, Finding, FlowSecond, Host, LinkSecond, QpSecond};
use crate::sample::{
    Address, Direction, EventSample, FlowSample, LinkSample, PeerKey, Recording, Sample, SourceKind, Stats,
};
use crate::util::map::Map;
use crate::util::numbers::median_of_counts;
use crate::util::shared::Shared;

/// Possible sources of a device's counters.
const SOURCES: [&str; 5] = ["sysfs counters", "sysfs hw_counters", "RDMA netlink", "ethtool", "DCB netlink"];

/// Sums of the rows so far.
#[derive(Debug, Default)]
pub(super) struct State {
    links: Vec<LinkSample>,
    /// All packets and bytes of each link, including those without a flow.
    totals: Vec<Counter>,
    slots: Map<FlowKey, usize>,
    flows: Vec<Flow>,
    neighbours: BTreeMap<String, Neighbour>,
    ports: BTreeMap<(String, u32), PortSample>,
    /// Number of their counters.
    counters: usize,
    /// Time and JSON of the latest row of each.
    findings: BTreeMap<FindingKey, (Time, Shared)>,
    /// Length of their JSON, in bytes.
    json: usize,
    /// Begin of the run of the latest row of `hosts`.
    run: Option<Time>,
    /// Begin of the interval of its first row.
    begun_ns: Option<u64>,
    pub(super) steps: Steps,
    pub(super) qps: QueuePairs,
    intervals: Intervals,
    host: HostCounts,
    window: Option<(u64, u64)>,
    pub(super) limits: Limits,
    sums: Sums,
    /// Rows beyond the limits.
    left_out: u64,
}

/// The counts of all rows, by table.
#[derive(Debug, Default)]
struct Sums {
    flows: Total,
    links: Total,
    hosts: Total,
    devices: Total,
}

/// Counts of the recording host, of all links together.
#[derive(Debug, Default)]
struct HostCounts {
    flow_table_full: u64,
    contended: u64,
    retired_flows: u64,
    events_dropped: Option<u64>,
    capture_drops: Option<u64>,
    interface_drops: Option<u64>,
}

impl HostCounts {
    /// Attributes packets without a flow to what the host counted, and those left over to retired flows. Which link
    /// they were on is not recorded: in the order of the links.
    fn attribute(&self, links: &mut [LinkSample], without_flow: Vec<Counter>) {
        let (mut full, mut contended, mut flows) = (self.flow_table_full, self.contended, self.retired_flows);
        for (link, mut left) in links.iter_mut().zip(without_flow) {
            let mut part = |most: &mut u64| {
                let packets = left.packets.min(*most);
                let bytes = u128::from(left.bytes) * u128::from(packets) / u128::from(left.packets.max(1));
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                (left.packets, left.bytes) = (left.packets - packets, left.bytes.saturating_sub(bytes));
                *most -= packets;
                Counter { packets, bytes }
            };
            (link.flow_table_full, link.contended) = (part(&mut full), part(&mut contended));
            (link.retired.packets, link.retired.bytes) = (left.packets, left.bytes);
            if left.packets > 0 {
                link.retired.flows = std::mem::take(&mut flows);
            }
        }
    }
}

/// Lengths of the intervals, to three digits, and how many there are of each.
#[derive(Debug, Default)]
struct Intervals {
    lengths: BTreeMap<u64, u64>,
    latest_ns: u64,
}

impl Intervals {
    /// Adds the interval that ends at a time, unless a row of another link has.
    fn add(&mut self, end_ns: u64, length_ns: u64) {
        if end_ns != self.latest_ns && length_ns > 0 {
            self.latest_ns = end_ns;
            let unit = 10u64.pow(length_ns.ilog10().saturating_sub(2));
            *self.lengths.entry(length_ns.saturating_add(unit / 2) / unit * unit).or_default() += 1;
        }
    }

    /// The median; `None` without any. The first interval and the last are often shorter than the others.
    fn median_ns(&self) -> Option<u64> {
        median_of_counts(&self.lengths)
    }
}

/// Id, link, direction, and both ends with their queue pairs.
type FindingKey = (Shared, Option<Shared>, Option<Direction>, String);

#[derive(Clone, Debug)]
struct Flow {
    key: FlowKey,
    stats: Stats,
    src_qp: Option<u32>,
    loss: Option<loss::Metrics>,
    /// The losses are those of responses alone.
    is_of_responses: bool,
    times: Option<Box<MergedLatency>>,
}

/// Adds a difference that may be negative, to correct the sum.
fn corrected(sum: u64, by: Option<i64>) -> u64 {
    sum.saturating_add_signed(by.unwrap_or(0))
}

impl State {
    /// The index of a link, which is added if new; `None` if there are too many.
    pub(super) fn link(&mut self, name: &str, direction: Option<Direction>) -> Option<u16> {
        let found = self.links.iter().position(|link| link.name == name && link.direction == direction);
        let at = found.unwrap_or(self.links.len());
        if at >= self.limits.links || name.len() > self.limits.names {
            self.left_out += 1;
            return None;
        }
        if at == self.links.len() {
            self.links.push(LinkSample { name: name.to_owned(), direction, ..LinkSample::default() });
            self.totals.push(Counter::default());
        }
        u16::try_from(at).ok()
    }

    /// Number of rows beyond the limits.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out + self.qps.left_out + self.steps.left_out
    }

    fn saw(&mut self, from_ns: u64, to_ns: u64) {
        let (first, last) = self.window.unwrap_or((from_ns, to_ns));
        self.window = Some((first.min(from_ns), last.max(to_ns)));
    }

    fn key(link: u16, src: Address, dst: Address, dest_qp: u64) -> FlowKey {
        let ((family, src), (_, dst)) = (src.words(), dst.words());
        FlowKey { src, dst, dest_qp: small(Some(dest_qp), 0), link, family, pad: 0 }
    }

    pub(super) fn flow(&mut self, row: &FlowSecond) {
        if !self.sums.flows.take(self.limits.count, counts(row)) {
            self.left_out += 1;
            return;
        }
        let Some(link) = self.link(&row.link, row.direction) else { return };
        let key = Self::key(link, row.src, row.dst, row.dest_qp);
        let from_ns = row.t.0.saturating_sub(row.interval_ns);
        self.saw(from_ns, row.t.0);
        let next = self.flows.len();
        if next >= self.limits.flows && !self.slots.contains_key(&key) {
            self.left_out += 1;
            self.host.flow_table_full = self.host.flow_table_full.saturating_add(row.packets);
            return;
        }
        let at = *self.slots.entry(key).or_insert(next);
        if at == next {
            self.flows.push(Flow {
                key,
                stats: first(row, from_ns),
                src_qp: None,
                loss: None,
                is_of_responses: false,
                times: None,
            });
        }
        let Some(flow) = self.flows.get_mut(at) else { return };
        flow.src_qp = row.src_qp.and_then(|qp| u32::try_from(qp).ok()).or(flow.src_qp);
        add(&mut flow.stats, row);
        if row.lost.is_some() {
            let loss = flow.loss.get_or_insert_default();
            flow.is_of_responses = row.loss_of.as_deref() == Some("responses");
            loss.lost = corrected(loss.lost, row.lost);
            loss.recovered = corrected(loss.recovered, row.reordered);
            loss.retransmitted = corrected(loss.retransmitted, row.retransmitted);
            loss.timeouts = corrected(loss.timeouts, row.timeouts);
            loss.timeout_wait_ns = corrected(loss.timeout_wait_ns, row.timeout_wait_ns);
            loss.rnr_wait_ns = corrected(loss.rnr_wait_ns, row.rnr_wait_ns);
        }
        if let (Some(count), Some(p50), Some(p99), Some(max)) =
            (row.rtt_count.filter(|n| *n > 0), row.rtt_p50_ns, row.rtt_p99_ns, row.rtt_max_ns)
        {
            flow.times.get_or_insert_default().add(IntervalLatency { count, p50, p99, max });
        }
    }

    pub(super) fn link_row(&mut self, row: &LinkSecond) {
        self.intervals.add(row.t.0, row.interval_ns);
        let skipped = skipped(row);
        let counts = skipped.iter().flat_map(|(_, count)| [count.packets, count.bytes]);
        if !self.sums.links.take(self.limits.count, counts.chain([row.packets, row.bytes])) {
            self.left_out += 1;
            return;
        }
        let Some(at) = self.link(&row.link, row.direction).map(usize::from) else { return };
        self.saw(row.t.0.saturating_sub(row.interval_ns), row.t.0);
        if let (Some(link), Some(total)) = (self.links.get_mut(at), self.totals.get_mut(at)) {
            link.speed_mbps = row.speed_bps.map(|bps| bps / 1_000_000).or(link.speed_mbps);
            total.packets += row.packets;
            total.bytes += row.bytes;
            for (reason, count) in skipped {
                if let Some(sum) = link.skipped.get_mut(reason as usize) {
                    sum.packets += count.packets;
                    sum.bytes += count.bytes;
                }
            }
        }
        let names = [&row.neighbour_system, &row.neighbour_port].map(Option::as_ref);
        if self.limits.exclude(names) {
            self.left_out += 1;
        } else if names.iter().any(Option::is_some) {
            let owned = |text: &Option<Shared>| text.as_deref().map(str::to_owned);
            let neighbour = Neighbour {
                system: owned(&row.neighbour_system),
                port: owned(&row.neighbour_port),
                ..Neighbour::default()
            };
            self.neighbours.insert(row.link.as_str().to_owned(), neighbour);
        }
    }

    /// The beginning of a run, after its first row.
    pub(super) const fn take_begun(&mut self) -> Option<u64> {
        self.begun_ns.take()
    }

    pub(super) fn host(&mut self, row: &Host) {
        if row.started.is_some() && row.started != self.run {
            self.run = row.started;
            self.begun_ns = Some(row.t.0.saturating_sub(row.interval_ns));
            // Nobody saw the end of what the run before had found.
            let earlier = self.findings.values_mut().filter(|(time, _)| Some(*time) < row.started);
            earlier.for_each(|(_, json)| *json = ended(json));
            // Numbers may be longer than they were.
            self.json = self.findings.values().map(|(_, json)| json.len()).sum();
        }
        let of_all = [row.flow_table_full, row.contended, row.retired_flows];
        let known = [row.events_dropped, row.capture_drops, row.interface_drops].into_iter().flatten();
        if !self.sums.hosts.take(self.limits.count, known.chain(of_all)) {
            self.left_out += 1;
            return;
        }
        let counts = &mut self.host;
        counts.flow_table_full = counts.flow_table_full.saturating_add(row.flow_table_full);
        counts.contended += row.contended;
        counts.retired_flows += row.retired_flows;
        for (sum, more) in [
            (&mut counts.events_dropped, row.events_dropped),
            (&mut counts.capture_drops, row.capture_drops),
            (&mut counts.interface_drops, row.interface_drops),
        ] {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        }
    }

    pub(super) fn qp(&mut self, row: &QpSecond) {
        self.saw(row.t.0.saturating_sub(row.interval_ns), row.t.0);
        self.qps.counted(row);
    }

    pub(super) fn device(&mut self, row: &DeviceSecond) {
        let port = small(row.port, 0);
        let from_ns = row.t.0.saturating_sub(row.interval_ns);
        self.saw(from_ns, row.t.0);
        let names = [Some(&row.device), row.netdev.as_ref(), row.driver.as_ref(), Some(&row.counter)];
        let device = (row.device.as_str().to_owned(), port);
        let is_beyond = self.ports.len() >= self.limits.ports && !self.ports.contains_key(&device);
        let most = self.limits.count.saturating_mul(2);
        if is_beyond || self.limits.exclude(names) || !self.sums.devices.take(most, [row.delta]) {
            self.left_out += 1;
            return;
        }
        let known = self.ports.entry(device).or_insert_with(|| PortSample {
            device: row.device.as_str().to_owned(),
            port,
            ..PortSample::default()
        });
        known.interface = row.netdev.as_deref().map(str::to_owned);
        known.driver = row.driver.as_deref().map(str::to_owned);
        known.hidden = row.driver.as_deref().is_some_and(|driver| !is_software(driver));
        known.window = Some((known.window.map_or(from_ns, |(first, _)| first), row.t.0));
        let Some(source) = SOURCES.into_iter().find(|source| *source == row.source.as_str()) else { return };
        if let Some(direction) = &row.direction {
            known.pause_source = source;
            let sent = direction.as_str() == "sent";
            let priority = row.priority.and_then(|priority| u8::try_from(priority).ok());
            let at = known.pause.iter().position(|pause| (pause.sent, pause.priority) == (sent, priority));
            let at = at.unwrap_or_else(|| {
                known.pause.push(PauseSample { sent, priority, ..PauseSample::default() });
                known.pause.len() - 1
            });
            let Some(pause) = known.pause.get_mut(at) else { return };
            let sum = match row.counter.as_str() {
                "pause_frames" => &mut pause.frames,
                "pause_ns" => &mut pause.paused_ns,
                _ => &mut pause.transitions,
            };
            *sum = Some(sum.unwrap_or(0) + row.delta);
            return;
        }
        let at = known.counters.iter().position(|one| one.source == source).unwrap_or_else(|| {
            known.counters.push(SourceSample { source, ..SourceSample::default() });
            known.counters.len() - 1
        });
        let Some(counters) = known.counters.get_mut(at) else { return };
        match counters.values.iter_mut().find(|(name, _)| *name == *row.counter.as_str()) {
            Some((_, value)) => *value += row.delta,
            None if self.counters >= self.limits.counters => self.left_out += 1,
            None => {
                self.counters += 1;
                counters.values.push((row.counter.as_str().to_owned(), row.delta));
            }
        }
    }

    pub(super) fn finding(&mut self, row: &Finding) {
        // As values, JSON takes many times its length.
        let is_long = row.json.len() > self.limits.json / 4;
        if is_long || self.limits.exclude([Some(&row.id), row.link.as_ref()]) {
            self.left_out += 1;
            return;
        }
        let json: Value = serde_json::from_str(&row.json).unwrap_or_default();
        let end = |name: &str| [&json[name]["addr"], &json[name]["qpn"]].map(ToString::to_string).concat();
        // Without its own, those in the JSON are others from one row to the next.
        let ends = if (row.src, row.dst) == (None, None) {
            String::new()
        } else {
            end("requester") + &end("responder")
        };
        let key = (row.id.clone(), row.link.clone(), row.direction, ends + &json["where"]["hop"].to_string());
        let before = self.findings.remove(&key);
        self.json = self.json.saturating_sub(before.map_or(0, |(_, json)| json.len()));
        // A finding that left the report before it ended has the JSON of its last row.
        if json["active"] != Value::Bool(row.active == 1) {
            return;
        }
        if self.findings.len() >= self.limits.findings || self.json + row.json.len() > self.limits.json {
            self.left_out += 1;
            return;
        }
        self.json += row.json.len();
        self.findings.insert(key, (row.t, row.json.clone()));
    }

    /// A packet event; `None` for events of the control path, which are kept.
    pub(super) fn event(&mut self, row: &Event) -> Option<EventSample> {
        if row.link.is_none() {
            self.qps.event(row);
        }
        let link = self.link(row.link.as_deref()?, row.direction)?;
        Some(EventSample {
            time_ns: row.t.0,
            key: Self::key(link, row.src?, row.dst?, row.dest_qp?),
            events: small(row.bits, 0),
            opcode: small(row.opcode, 0),
            tos: small(row.tos, 0),
            src_port: small(row.src_port, 0),
            psn: small(row.psn, 0),
            missing: small(row.missing, 0),
            aeth: small(row.aeth, UNKNOWN),
            wire_len: small(row.wire_len, 0),
            bth_offset: 0,
            headers: bytes::Bytes::new(),
        })
    }

    /// Adds a packet event to those of its interval.
    pub(super) fn add_event(&mut self, row: &Event, events: &mut Vec<EventSample>) {
        let Some(event) = self.event(row) else { return };
        if events.len() < self.limits.events {
            events.push(event);
        } else {
            self.left_out += 1;
        }
    }

    fn devices(&self) -> Devices {
        let mut ports = self.ports.clone();
        self.qps.list(&mut ports);
        Devices {
            ports: ports.into_values().collect(),
            neighbours: self.neighbours.iter().map(|(name, one)| (name.clone(), one.clone())).collect(),
            lives: Arc::new(self.qps.lives()),
            contexts: Arc::new(self.qps.contexts()),
            ..Devices::default()
        }
    }

    /// The sample of a time.
    pub(super) fn sample(&self, time_ns: u64, inputs: &[String]) -> Sample {
        let mut links = self.links.clone();
        let mut left = self.totals.clone();
        for flow in &self.flows {
            if let Some(left) = left.get_mut(usize::from(flow.key.link)) {
                left.packets = left.packets.saturating_sub(flow.stats.packets);
                left.bytes = left.bytes.saturating_sub(flow.stats.bytes);
            }
        }
        self.host.attribute(&mut links, left);
        let slotted = || (0u32..).zip(&self.flows);
        let flows =
            slotted().map(|(slot, flow)| FlowSample { slot, key: flow.key, stats: flow.stats.clone() });
        let peers = self.flows.iter().filter_map(|flow| Some((PeerKey::of(&flow.key), flow.src_qp?)));
        let losses = slotted().filter_map(|(slot, flow)| {
            let sums = Some(flow.loss?);
            let (requests, responses) = if flow.is_of_responses { (None, sums) } else { (sums, None) };
            Some((slot, FlowLoss { requests, responses, ..FlowLoss::default() }))
        });
        let has_requests = |flow: &Flow| flow.loss.is_some() && !flow.is_of_responses;
        let known = slotted().filter(|(_, flow)| has_requests(flow)).map(|(slot, _)| slot).collect();
        let times = slotted().filter_map(|(slot, flow)| {
            let times = flow.times.as_ref()?;
            Some((slot, Figure { all: times.summary(), histogram: times.histogram(), ..Figure::default() }))
        });
        let ranges = slotted().filter_map(|(slot, flow)| Some((slot, flow.times.as_ref()?.range()?)));
        Sample {
            time_ns,
            kind: SourceKind::Replay,
            inputs: inputs.to_vec(),
            window: self.window,
            flows: flows.collect(),
            links,
            peers: peers.collect(),
            events_dropped: self.host.events_dropped,
            capture_drops: self.host.capture_drops,
            interface_drops: self.host.interface_drops,
            devices: Arc::new(self.devices()),
            recording: Some(Arc::new(Recording {
                findings: self.findings.values().map(|(_, json)| json.clone()).collect(),
                interval_ns: self.intervals.median_ns(),
                latency_ranges: ranges.collect(),
            })),
            metrics: Metrics {
                loss: Some(loss::Loss {
                    flows: losses.collect(),
                    known: Some(known),
                    ..loss::Loss::default()
                }),
                latency: Some(times.collect::<BySlot>()),
                steps: self.steps.job(&self.links, time_ns).map(Arc::new),
                ..Metrics::default()
            },
            ..Sample::default()
        }
    }
}

/// A finding that is over.
fn ended(json: &Shared) -> Shared {
    let mut value: Value = serde_json::from_str(json).unwrap_or_default();
    if let Some(active) = value.get_mut("active") {
        *active = Value::Bool(false);
    }
    value.to_string().as_str().into()
}

/// The counters of a flow before its first row.
fn first(row: &FlowSecond, from_ns: u64) -> Stats {
    Stats {
        first_ns: row.first.map_or(from_ns, |first| first.0),
        src_qp: UNKNOWN,
        src_port: small(row.src_port, 0),
        vlan: small(row.vlan, VLAN_UNKNOWN),
        inner_vlan: VLAN_UNKNOWN,
        pcp: small(row.pcp, PCP_NONE),
        dscp: small(row.dscp, DSCP_NONE),
        roce_version: small(row.roce_version, 0),
        transport: small(Some(row.transport), 0),
        ..Stats::default()
    }
}

/// The counts of a flow's row that are summed.
fn counts(row: &FlowSecond) -> impl Iterator<Item = u64> {
    let sizes = [row.packets, row.bytes, row.payload_bytes];
    let marks = [row.ecn_capable, row.ce, row.cnp_packets];
    let answers = [row.acks, row.rnr_naks, row.nak_sequence, row.nak_other];
    let losses = [row.lost, row.reordered, row.retransmitted, row.timeouts];
    let waits = [row.timeout_wait_ns, row.rnr_wait_ns];
    let changes = losses.into_iter().chain(waits).flatten().map(i64::unsigned_abs);
    sizes.into_iter().chain(marks).chain(answers).chain(row.rtt_count).chain(changes)
}

/// The frames that are not RoCE, by reason.
fn skipped(row: &LinkSecond) -> Vec<(SkipReason, Counter)> {
    let of = |(reason, counts): (String, Value)| {
        let known = SkipReason::ALL.into_iter().find(|known| known.name() == reason)?;
        let [packets, bytes] = [0, 1].map(|at| counts[at].as_u64().unwrap_or(0));
        Some((known, Counter { packets, bytes }))
    };
    by_name(row.skipped_json.as_deref()).into_iter().filter_map(of).collect()
}

/// NAKs of other codes than 0, by code; all as reserved ones of an older version, which does not tell them apart.
fn other_naks(row: &FlowSecond) -> [u64; 5] {
    if row.nak_other_json.is_none() {
        return [0, 0, 0, 0, row.nak_other];
    }
    let counts = by_name(row.nak_other_json.as_deref());
    loss::OTHER_CODES.map(|code| counts.get(code).and_then(Value::as_u64).unwrap_or(0).min(row.nak_other))
}

/// The values of a JSON column by name.
fn by_name(json: Option<&str>) -> serde_json::Map<String, Value> {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

fn add(stats: &mut Stats, row: &FlowSecond) {
    let control = row.acks + row.rnr_naks + row.nak_sequence + row.nak_other + row.cnp_packets;
    stats.packets += row.packets;
    stats.bytes += row.bytes;
    stats.payload_bytes += row.payload_bytes;
    stats.last_ns = stats.last_ns.max(row.t.0);
    // How packets are spread over several source ports is not recorded: that of none is known.
    if stats.seldom.other_port_packets > 0 || row.src_port_count.is_some_and(|ports| ports > 1) {
        (stats.seldom.other_port_packets, stats.seldom.other_port_bytes) = (stats.packets, stats.bytes);
    }
    if row.packets > control {
        stats.data_bytes += row.bytes;
    }
    let [_, _, ect, ce] = &mut stats.ecn_data;
    *ect += row.ecn_capable.saturating_sub(row.ce);
    *ce += row.ce;
    if row.roce_version == Some(2) {
        // The recording does not have the codepoint of the others, which reports state as unknown; their number
        // separates RoCEv2 packets from those without a port.
        stats.ecn_control[0] += row.packets.saturating_sub(row.ecn_capable);
    }
    stats.acks += row.acks;
    stats.cnp_packets += row.cnp_packets;
    if row.rnr_naks + row.nak_sequence + row.nak_other > 0 {
        stats.rare.rnr_naks += row.rnr_naks;
        let [sequence, others @ ..] = &mut stats.rare.naks;
        *sequence += row.nak_sequence;
        others.iter_mut().zip(other_naks(row)).for_each(|(sum, naks)| *sum += naks);
    }
}
