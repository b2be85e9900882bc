//! Values of the [`registry`](super::registry): series read from a sample and its report.

use std::collections::BTreeMap;

use rocescope_common::account::latency::{BUCKETS, bounds};
use rocescope_common::wire::SkipReason;

use super::ledger::{self, Count, Distribution, NAKS, Qp};
use super::metric::{Series, Value};
use super::nic_qps::NicQp;
use super::reading::Reading;
use crate::analysis::{Device, InputKind, Link, Pause, QpPaths, direction_name};
use crate::findings::Severity;
use crate::sample::Direction;
use crate::util::system;
use crate::util::time::seconds;

/// Upper bounds of the latency buckets, as powers of two of a nanosecond: 2 µs to 1.07 s.
const OCTAVES: [u32; 12] = [11, 12, 13, 14, 15, 16, 17, 18, 20, 22, 26, 30];
/// The same of message completion times: 8 µs to 1.07 s. Few, since each is a series of every link.
const COMPLETION_OCTAVES: [u32; 8] = [13, 15, 17, 19, 21, 23, 26, 30];
/// Maximum number of owners of queue pairs with series of their own.
const OWNERS: usize = 32;
/// Classes of requests, in the words of the report.
const CLASSES: [&str; 3] = ["write_send", "read", "atomic"];
/// Operations with a message completion time, in the words of the report.
const OPERATIONS: [&str; 3] = ["write", "send", "read"];
const REST: &str = "other";

/// Unix time in seconds, rounded to milliseconds, which a floating-point number represents exactly enough.
pub(super) fn unix_seconds(ns: u64) -> f64 {
    (ns / 1_000_000) as f64 / 1e3
}

fn name(direction: Option<Direction>) -> &'static str {
    direction.map_or("", direction_name)
}

pub(super) fn build(reading: &Reading<'_>, series: &mut Series) {
    let kernel = reading.process.kernel.as_deref().unwrap_or_default();
    let revision = system::COMMIT.unwrap_or_default();
    series.push(&[env!("CARGO_PKG_VERSION"), revision, kernel], 1);
}

fn port(device: &Device) -> String {
    device.port.map(|port| port.to_string()).unwrap_or_default()
}

pub(super) fn device_info(reading: &Reading<'_>, series: &mut Series) {
    for device in &reading.report.facts.devices {
        let Device { driver, firmware, link_layer, pci_address, pod, .. } = device;
        let netdev = if pod.is_some() { &device.pod_interface } else { &device.interface };
        let [netdev, driver, firmware, layer, pci, pod] =
            [netdev, driver, firmware, link_layer, pci_address, pod]
                .map(|text| text.as_deref().unwrap_or_default());
        let [node, speed] = [device.numa_node, device.speed_mbps]
            .map(|number| number.map(|number| number.to_string()).unwrap_or_default());
        let labels = [&device.name, &port(device), netdev, driver, firmware, layer, pci, &node, &speed, pod];
        series.push(&labels, 1);
    }
}

/// If several sources of a port have the same counter, the first one counts.
pub(super) fn device(reading: &Reading<'_>, series: &mut Series, counter: &str) {
    for device in &reading.report.facts.devices {
        series.known(&[&device.name, &port(device)], device.counters.get(counter).copied());
    }
}

pub(super) fn resets(reading: &Reading<'_>, series: &mut Series) {
    for device in reading.report.facts.devices.iter().filter(|device| !device.counters.is_empty()) {
        series.push(&[&device.name, &port(device), &device.source], device.resets);
    }
}

fn pauses<V: Into<Value>>(reading: &Reading<'_>, series: &mut Series, of: impl Fn(&Pause) -> Option<V>) {
    for device in &reading.report.facts.devices {
        let ever = |pause: &&Pause| {
            [pause.frames, pause.paused_ns, pause.episodes].iter().any(|count| count.is_some_and(|n| n > 0))
        };
        for pause in device.pause.iter().filter(ever) {
            let priority = pause.priority.map(|priority| priority.to_string()).unwrap_or_default();
            let direction = pause.direction.unwrap_or_default();
            series.known(&[&device.name, &port(device), direction, &priority], of(pause));
        }
    }
}

pub(super) fn pause_frames(reading: &Reading<'_>, series: &mut Series) {
    pauses(reading, series, |pause| pause.frames);
}

pub(super) fn pause_seconds(reading: &Reading<'_>, series: &mut Series) {
    pauses(reading, series, |pause| pause.paused_ns.map(seconds));
}

pub(super) fn pause_episodes(reading: &Reading<'_>, series: &mut Series) {
    pauses(reading, series, |pause| pause.episodes);
}

pub(super) fn coverage(reading: &Reading<'_>, series: &mut Series) {
    for one in &reading.report.facts.coverage {
        let source = one.source.as_deref().unwrap_or_default();
        series.known(&[&one.device, &one.port.to_string(), &one.link, one.direction, source], one.ratio);
    }
}

pub(super) fn links(reading: &Reading<'_>, series: &mut Series, of: impl Fn(&Link) -> u64) {
    for link in &reading.report.facts.links {
        series.push(&[&link.name, name(link.direction)], of(link));
    }
}

pub(super) fn link_count(reading: &Reading<'_>, series: &mut Series, count: Count) {
    for (link, counts) in &reading.ledger.links {
        series.known(&[&link.0, ledger::direction(link)], counts.get(count));
    }
}

pub(super) fn link_naks(reading: &Reading<'_>, series: &mut Series) {
    for (link, counts) in &reading.ledger.links {
        for (code, count) in NAKS {
            let always = matches!(count, Count::Rnr | Count::PsnSequenceError);
            let naks = counts.get(count).filter(|n| always || *n > 0);
            series.known(&[&link.0, ledger::direction(link), code], naks);
        }
    }
}

pub(super) fn link_skipped(reading: &Reading<'_>, series: &mut Series) {
    for link in &reading.sample.links {
        for (reason, skipped) in SkipReason::ALL.iter().zip(&link.skipped) {
            let frames = Some(skipped.packets).filter(|n| *n > 0);
            series.known(&[&link.name, name(link.direction), reason.name()], frames);
        }
    }
}

pub(super) fn burst_peak(reading: &Reading<'_>, series: &mut Series) {
    for burst in reading.report.facts.bursts.iter().flatten() {
        let same =
            |link: &&crate::sample::LinkSample| link.name == burst.link && link.direction == burst.direction;
        let speed = reading.sample.links.iter().find(same).and_then(|link| link.speed_mbps);
        let peak = speed.filter(|mbps| *mbps > 0).map(|mbps| {
            // 1 Mb/s is one bit per microsecond.
            let room_bytes = mbps as f64 * burst.bin_ns as f64 / 8e3;
            burst.peak_bytes as f64 / room_bytes
        });
        series.known(&[&burst.link, name(burst.direction)], peak);
    }
}

pub(super) fn latency(reading: &Reading<'_>, series: &mut Series) {
    for ((link, class), times) in &reading.ledger.times {
        let class = class.and_then(|class| CLASSES.get(class)).copied().unwrap_or_default();
        series.push(&[&link.0, ledger::direction(link), class], histogram(times, &OCTAVES));
    }
}

pub(super) fn completion(reading: &Reading<'_>, series: &mut Series) {
    for ((link, operation), times) in &reading.ledger.completions {
        let operation = OPERATIONS.get(*operation).copied().unwrap_or_default();
        series.push(&[link, operation], histogram(times, &COMPLETION_OCTAVES));
    }
}

/// A histogram with these upper bounds, as powers of two of a nanosecond.
fn histogram(times: &Distribution, octaves: &[u32]) -> Value {
    let counts = times.buckets();
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for octave in octaves {
        let end = 1u64 << octave;
        let below = (0..BUCKETS).zip(counts).filter(|(bucket, _)| bounds(*bucket).1 <= end);
        buckets.push((seconds(end), below.map(|(_, n)| n).sum()));
    }
    buckets.push((f64::INFINITY, counts.iter().sum()));
    let middle = |bucket: usize| match bounds(bucket) {
        // The unbounded bucket has no middle.
        (low, u64::MAX) => low,
        (low, high) => u64::midpoint(low, high),
    };
    let sum = (0..BUCKETS).zip(counts).map(|(bucket, n)| seconds(middle(bucket)) * *n as f64).sum();
    Value::Histogram { buckets, sum }
}

pub(super) fn entropy(reading: &Reading<'_>, series: &mut Series) {
    for (link, entropy) in reading.entropy {
        series.known(&[link], entropy.tuples.normalized);
    }
}

pub(super) fn source_ports(reading: &Reading<'_>, series: &mut Series) {
    for (link, entropy) in reading.entropy {
        series.push(&[link], entropy.tuples.source_ports);
    }
}

pub(super) fn imbalance(reading: &Reading<'_>, series: &mut Series) {
    for group in reading.report.facts.imbalance.iter().filter(|group| group.links.len() > 1) {
        series.known(&[&group.links.join(","), name(group.direction)], group.max_over_mean);
    }
}

/// Paths of queue pairs without packets: their own metrics, never mixed with those of packets.
pub(super) fn qp_paths(reading: &Reading<'_>, series: &mut Series, of: impl Fn(&QpPaths) -> Option<f64>) {
    if let Some(paths) = &reading.report.facts.qp_paths {
        series.known(&[paths.weighted_by], of(paths));
    }
}

pub(super) fn qp_paths_qps(reading: &Reading<'_>, series: &mut Series) {
    if let Some(paths) = &reading.report.facts.qp_paths {
        series.push(&["known"], paths.known);
        series.push(&["unknown"], paths.qps.saturating_sub(paths.known));
    }
}

pub(super) fn qp_paths_imbalance(reading: &Reading<'_>, series: &mut Series) {
    let Some(paths) = &reading.report.facts.qp_paths else { return };
    for (over, balance) in [("ports", &paths.ports), ("rails", &paths.rails), ("planes", &paths.planes)] {
        if let Some(balance) = balance {
            series.known(&[over, balance.weighted_by], balance.max_over_mean);
        }
    }
}

pub(super) fn peers(reading: &Reading<'_>, series: &mut Series, count: Count) {
    for ((link, peer), counts) in &reading.ledger.peers {
        series.known(&[&link.0, ledger::direction(link), &peer.to_string()], counts.get(count));
    }
    for (link, counts) in &reading.ledger.others {
        series.known(&[&link.0, ledger::direction(link), REST], counts.get(count));
    }
}

pub(super) fn qps(reading: &Reading<'_>, series: &mut Series, of: impl Fn(&Qp) -> Option<u64>) {
    for (id, qp) in &reading.ledger.qps {
        let peer = id.peer().map(|peer| peer.to_string()).unwrap_or_default();
        let pid = qp.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let [comm, pod] = [&qp.comm, &qp.pod].map(|text| text.as_deref().unwrap_or_default());
        let direction = ledger::direction(&id.link);
        let device = qp.device.as_deref().unwrap_or_default();
        let other = qp.peer_qp.map(|qp| qp.to_string()).unwrap_or_default();
        let (local, remote) = match id.link.1 {
            Some(Direction::Ingress) => (id.dest_qp.to_string(), other),
            _ => (other, id.dest_qp.to_string()),
        };
        let labels = [&id.link.0, direction, &peer, device, &local, &remote, &pid, comm, pod];
        series.known(&labels, of(qp));
    }
}

pub(super) fn nic_qps<V: Into<Value>>(
    reading: &Reading<'_>,
    series: &mut Series,
    of: impl Fn(&NicQp) -> Option<V>,
) {
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    for (id, qp) in &reading.ledger.nic_qps {
        let peer = qp.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let [comm, pod] = [&qp.comm, &qp.pod].map(|text| text.as_deref().unwrap_or_default());
        let (local, remote, pid) = (id.lqpn.to_string(), number(id.rqpn), number(qp.pid));
        series.known(&[&id.device, &local, &remote, &peer, &pid, comm, pod], of(qp));
    }
}

pub(super) fn qp_states(reading: &Reading<'_>, series: &mut Series) {
    let devices = &reading.report.facts.devices;
    let mut owners: BTreeMap<&str, u64> = BTreeMap::new();
    for qp in devices.iter().flat_map(|device| &device.qps) {
        *owners.entry(qp.comm.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let mut ranked: Vec<(u64, &str)> = owners.into_iter().map(|(owner, qps)| (qps, owner)).collect();
    ranked.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked.truncate(OWNERS);
    let mut counts: BTreeMap<[String; 5], u64> = BTreeMap::new();
    for device in devices {
        for qp in &device.qps {
            let owner = qp.comm.as_deref().unwrap_or_default();
            let owner = if ranked.iter().any(|(_, known)| *known == owner) { owner } else { REST };
            let [kind, state] = [qp.kind, qp.state].map(Option::unwrap_or_default);
            let labels = [&device.name, &port(device), kind, state, owner].map(str::to_owned);
            *counts.entry(labels).or_default() += 1;
        }
    }
    for (labels, count) in counts {
        series.push(&labels.each_ref().map(String::as_str), count);
    }
}

pub(super) fn qp_events(reading: &Reading<'_>, series: &mut Series) {
    for ((device, event), count) in &reading.ledger.qp_events {
        series.push(&[device, event], *count);
    }
}

pub(super) fn finding_active(reading: &Reading<'_>, series: &mut Series) {
    for finding in reading.report.findings.iter().filter(|finding| finding.active) {
        let direction = name(finding.place.direction);
        let mut links: Vec<&str> = finding.place.names().collect();
        let mut ports: Vec<&str> = finding.subject.ports.iter().map(|port| &**port).collect();
        for of in [&mut links, &mut ports] {
            if of.is_empty() {
                of.push("");
            }
        }
        for (link, port) in links.iter().flat_map(|link| ports.iter().map(move |port| (link, port))) {
            let (device, port) = port.rsplit_once('/').unwrap_or((port, ""));
            series.push(&[finding.id, finding.severity.name(), link, direction, device, port], 1);
        }
    }
}

pub(super) fn findings(reading: &Reading<'_>, series: &mut Series) {
    for of in [Severity::Info, Severity::Warning, Severity::Critical] {
        let count = reading.report.findings.iter().filter(|one| one.stands() && one.severity == of).count();
        series.push(&[of.name()], count as u64);
    }
}

pub(super) fn lost(reading: &Reading<'_>, series: &mut Series) {
    let lost = &reading.report.facts.totals.lost;
    let by_place = [
        ("flow_table_full", Some(lost.flow_table_full)),
        ("contended", Some(lost.contended)),
        ("extra_table_full", Some(lost.extra_table_full)),
        ("events", lost.events_dropped),
        ("bins", lost.bins_dropped),
        ("interface", lost.interface_drops),
        ("capture", lost.capture_drops),
    ];
    for (place, count) in by_place {
        series.known(&[place], count);
    }
}

pub(super) fn dropped(reading: &Reading<'_>, series: &mut Series) {
    for (family, count) in reading.ledger.dropped() {
        series.push(&[family], count);
    }
}

pub(super) fn otlp_requests(reading: &Reading<'_>, series: &mut Series) {
    for (signal, tally) in &reading.process.otlp {
        let results = [
            ("sent", tally.sent),
            ("retried", tally.retried),
            ("dropped", tally.dropped),
            ("refused", tally.refused),
        ];
        for (result, count) in results {
            series.push(&[signal, result], count);
        }
    }
}

pub(super) fn otlp_rejected(reading: &Reading<'_>, series: &mut Series) {
    for (signal, tally) in &reading.process.otlp {
        series.push(&[signal], tally.rejected_points);
    }
}

pub(super) fn collectors(reading: &Reading<'_>, series: &mut Series) {
    let facts = &reading.report.facts;
    let works = |works: bool| u64::from(works);
    series.push(&["packets"], works(!facts.links.is_empty()));
    if matches!(facts.source.kind, InputKind::Counters | InputKind::Mixed) {
        let readable = facts.devices.iter().any(|device| !device.gone && device.last_ns.is_some());
        series.push(&["devices"], works(readable));
    }
    series.known(&["qp_lives"], facts.qp_lives.as_ref().map(|lives| works(lives.unavailable.is_none())));
    series.known(&["qp_list"], facts.qp_lives.as_ref().map(|lives| works(lives.unlisted.is_empty())));
    series.known(&["qp_context"], facts.qp_context.as_ref().map(|of| works(of.works())));
    series.known(&["nccl"], facts.nccl.as_ref().map(|nccl| works(nccl.unavailable.is_none())));
}

pub(super) fn bpf_run(reading: &Reading<'_>, series: &mut Series) {
    for (program, ns) in &reading.process.bpf.run_ns {
        series.push(&[program], seconds(*ns));
    }
}
