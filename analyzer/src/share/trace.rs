//! A trace in the JSON format of Chrome, which Perfetto and `chrome://tracing` open (`--output trace`).
//!
//! | process | threads |
//! |---|---|
//! | findings | one per finding: its episodes as slices |
//! | job | steps as slices |
//! | one per link | one per flow: its time as a slice, events as instants; counters of the link |
//! | the same | replay of captures only, below each flow of requests: messages as slices, on one thread per concurrent message |
//! | one per port of a NIC | one per queue pair: its life as a slice, events and failed verbs as instants |
//!
//! Times are Unix microseconds with three decimals. Traces of PyTorch and NCCL count from times of their own:
//! docs/report.md has what to add to them before they are merged. Of messages, the longest are included, from the first
//! packet to the response; the number left out is in `otherData`.

mod devices;

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::io::{self, Write};

use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::bth::psn_distance;
use rocescope_common::wire::opcode::Name;
use serde_json::{Value, json};

use crate::analysis::{Flow, link_name};
use crate::findings::{DataEnd, Finding};
use crate::metrics::messages::Messages;
use crate::metrics::timeline::{LinkPoints, SignalKind};
use crate::model::events::CLASSES;
use crate::packet;
use crate::report::Report;
use crate::report::text::end_of;
use crate::sample::{Address, Direction, EventSample, address};
use crate::util::layout::plain;
use crate::util::map::Map;

/// Maximum number of events kept; further ones are counted.
const MOST_EVENTS: usize = 200_000;
/// Maximum number of flows with a track: those with events, those named by findings, then the busiest.
const MOST_FLOWS: usize = 4_000;

/// Base of the process ids: above every one that Linux gives (at most 2²², and small ones in containers), so that none
/// is that of a process in a trace that is merged with this one; and a positive 32-bit number, as viewers expect.
const PROCESSES: u64 = 2_000_000_000;
/// The process of the findings.
const FINDINGS: u64 = PROCESSES + 1;
/// The process of the job's steps.
const JOB: u64 = PROCESSES + 2;
/// Reason why there are no slices of messages.
const NO_MESSAGES: &str =
    "single messages are known of captures alone: neither a live run nor a recording keeps them";
/// Thread ids per flow: the flow, and one for each of its concurrent messages.
const LANES: u64 = 100;
/// First process id of links.
const LINKS: u64 = PROCESSES + 10;

/// An event without packet headers.
#[derive(Clone, Copy, Debug)]
struct Instant {
    time_ns: u64,
    key: FlowKey,
    events: u16,
    opcode: u8,
    psn: u32,
    missing: u32,
    aeth: u32,
}

/// The events of a run, up to the limit.
#[derive(Clone, Debug, Default)]
pub struct Events {
    kept: Vec<Instant>,
    left_out: u64,
}

impl Events {
    /// Adds events; the first packet of a flow is the start of its slice.
    pub fn extend(&mut self, events: &[EventSample]) {
        for event in events {
            if event.events & !Event::NEW_FLOW == 0 {
                continue;
            }
            if self.kept.len() >= MOST_EVENTS {
                self.left_out += 1;
                continue;
            }
            self.kept.push(Instant {
                time_ns: event.time_ns,
                key: event.key,
                events: event.events,
                opcode: event.opcode,
                psn: event.psn,
                missing: event.missing,
                aeth: event.aeth,
            });
        }
    }
}

/// An entry of the trace.
struct Entry {
    pid: u64,
    tid: u64,
    time_ns: u64,
    /// Length of a slice.
    length_ns: Option<u64>,
    phase: char,
    name: String,
    args: Value,
}

/// Identity of a flow: link, hosts and queue pair.
type Key = (usize, Address, Address, u32);

/// Writes the trace of a report, its timeline by link, and its events.
///
/// # Errors
/// An error of writing to `out`.
pub fn write(
    report: &Report,
    timeline: &[LinkPoints],
    events: &Events,
    messages: Option<&Messages>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut names: Vec<Entry> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    of_findings(report, &mut names, &mut entries);
    of_steps(report, &mut names, &mut entries);
    let tracks = of_flows(report, events, &mut names, &mut entries);
    let mut untracked = 0u64;
    for event in &events.kept {
        let key = &event.key;
        let flow =
            (usize::from(key.link), address(key.family, key.src), address(key.family, key.dst), key.dest_qp);
        match tracks.get(&flow) {
            Some(tid) => entries.push(of_event(event, *tid)),
            None => untracked += 1,
        }
    }
    let messages_left_out =
        messages.map(|messages| of_messages(report, messages, &tracks, &mut names, &mut entries));
    of_points(timeline, &mut entries);
    let qps_left_out = devices::of_devices(report, &mut names, &mut entries);
    // A slice must precede the slices inside it.
    entries.sort_by_key(|entry| (entry.pid, entry.tid, entry.time_ns, Reverse(entry.length_ns.unwrap_or(0))));
    let other = json!({
        "schema": "rocescope.trace/1",
        "report": report.schema,
        "source": report.facts.source.kind.name(),
        "inputs": report.facts.source.inputs.iter().map(|name| plain(name)).collect::<Vec<_>>(),
        "first_unix_ns": report.facts.window.first_ns,
        "last_unix_ns": report.facts.window.last_ns,
        "flows_left_out": report.facts.flows.len().saturating_sub(tracks.len()),
        "events_left_out": events.left_out + untracked,
        "messages_left_out": messages_left_out,
        "messages_absent": messages.is_none().then_some(NO_MESSAGES),
        "messages_partial": messages.map(|messages| messages.partial),
        "qps_left_out": qps_left_out,
        "qp_events_left_out": report.facts.qp_lives.as_ref().map(|lives| lives.events_left_out),
        "events_dropped": report.facts.totals.lost.events_dropped,
    });
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")?;
    for (at, entry) in names.iter().chain(&entries).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(out, "{comma}\n{}", line(entry))?;
    }
    out.write_all(b"\n]}\n")
}

/// Microseconds with three decimals, as text: a JSON number may have more digits than a float.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

fn line(entry: &Entry) -> String {
    let mut text = format!(
        "{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"name\":{}",
        entry.phase,
        entry.pid,
        entry.tid,
        Value::String(plain(&entry.name))
    );
    if entry.phase != 'M' {
        // Writing to a string cannot fail.
        let _ = write!(text, ",\"ts\":{}", micros(entry.time_ns));
    }
    if let Some(length_ns) = entry.length_ns {
        let _ = write!(text, ",\"dur\":{}", micros(length_ns));
    }
    if entry.phase == 'i' {
        text.push_str(",\"s\":\"t\"");
    }
    if !entry.args.is_null() {
        let _ = write!(text, ",\"args\":{}", entry.args);
    }
    text.push('}');
    text
}

/// Adds the name and sort position of a process or thread.
fn named(names: &mut Vec<Entry>, pid: u64, thread: Option<u64>, name: &str) {
    let (tid, kind) = thread.map_or((0, "process"), |tid| (tid, "thread"));
    for (what, args) in
        [("name", json!({"name": plain(name)})), ("sort_index", json!({"sort_index": thread.unwrap_or(pid)}))]
    {
        let name = format!("{kind}_{what}");
        names.push(Entry { pid, tid, time_ns: 0, length_ns: None, phase: 'M', name, args });
    }
}

fn slice(pid: u64, tid: u64, (from_ns, to_ns): (u64, u64), name: String, args: Value) -> Entry {
    let length_ns = Some(to_ns.saturating_sub(from_ns));
    Entry { pid, tid, time_ns: from_ns, length_ns, phase: 'X', name, args }
}

/// Adds the episodes of all findings; those without a time are left out.
fn of_findings(report: &Report, names: &mut Vec<Entry>, entries: &mut Vec<Entry>) {
    let end = end_of(report);
    let timed = |finding: &&Finding| !spans(finding, end).is_empty();
    for (finding, tid) in report.findings.iter().filter(timed).zip(1..) {
        if tid == 1 {
            named(names, FINDINGS, None, "findings");
        }
        named(names, FINDINGS, Some(tid), finding.id);
        let fields = finding.fields(end).into_iter();
        let mut args: serde_json::Map<String, Value> =
            fields.map(|(label, text)| (label.to_lowercase(), Value::String(text))).collect();
        args.insert("severity".into(), finding.severity.name().into());
        args.insert("id".into(), finding.id.into());
        for span in spans(finding, end) {
            entries.push(slice(FINDINGS, tid, span, finding.title.clone(), Value::Object(args.clone())));
        }
    }
}

/// Time spans of a finding, in order and without overlap; an active one that is not quiet extends to the end of the
/// data. None where its beginning is not known.
pub(super) fn spans(finding: &Finding, end: DataEnd) -> Vec<(u64, u64)> {
    let Some(first_ns) = finding.first_seen_ns else { return Vec::new() };
    let mut spans: Vec<(u64, u64)> =
        finding.episodes.iter().map(|one| (one.first_ns, one.last_ns.max(one.first_ns))).collect();
    if spans.is_empty() {
        spans.push((first_ns, finding.last_seen_ns.or(end.ns).unwrap_or(first_ns).max(first_ns)));
    }
    spans.sort_unstable();
    if let (None, Some((_, last)), Some(end_ns)) = (finding.past_word(end.ns), spans.last_mut(), end.ns) {
        *last = end_ns.max(*last);
    }
    for at in 1..spans.len() {
        let next = spans[at].0;
        spans[at - 1].1 = spans[at - 1].1.min(next);
    }
    spans
}

fn of_steps(report: &Report, names: &mut Vec<Entry>, entries: &mut Vec<Entry>) {
    let Some(steps) = &report.facts.steps else { return };
    named(names, JOB, None, "job");
    named(names, JOB, Some(1), &format!("steps on {}", link_name(&steps.link, steps.direction)));
    let mut end_ns = 0;
    for step in &steps.latest {
        let from_ns = step.start_ns.max(end_ns);
        end_ns = step.start_ns.saturating_add(step.length_ns).max(from_ns);
        let args = json!({
            "busy_ns": step.busy_ns,
            "busy_ratio": step.busy_ratio,
            "longest_silence_ns": step.silence_ns,
        });
        entries.push(slice(JOB, 1, (from_ns, end_ns), "step".into(), args));
    }
    let first_kept = steps.latest.first().map_or(u64::MAX, |step| step.start_ns);
    for start_ns in steps.all.iter().map(|step| step.start_ns).filter(|start_ns| *start_ns < first_kept) {
        let (name, args) = ("step begins".into(), Value::Null);
        entries.push(Entry { pid: JOB, tid: 1, time_ns: start_ns, length_ns: None, phase: 'i', name, args });
    }
}

/// The process id of a link.
fn process(link: usize) -> u64 {
    LINKS + link as u64
}

/// The index of a link.
fn place(report: &Report, name: &str, direction: Option<Direction>) -> Option<usize> {
    report.facts.links.iter().position(|link| link.name == name && link.direction == direction)
}

/// Adds a track for each flow, up to the limit: with events, named by findings, then the busiest.
fn of_flows(
    report: &Report,
    events: &Events,
    names: &mut Vec<Entry>,
    entries: &mut Vec<Entry>,
) -> Map<Key, u64> {
    let mut concerned: Map<(u16, Address, Address, u32), ()> = Map::default();
    for event in &events.kept {
        let key = &event.key;
        concerned
            .insert((key.link, address(key.family, key.src), address(key.family, key.dst), key.dest_qp), ());
    }
    for finding in &report.findings {
        for id in &finding.flows {
            let link = place(report, &id.link, id.direction).and_then(|link| u16::try_from(link).ok());
            if let Some(link) = link {
                concerned.insert((link, id.src, id.dst, id.dest_qp), ());
            }
        }
    }
    let placed = report.facts.flows.iter().filter_map(|flow| {
        let link = place(report, &flow.link, flow.direction)?;
        Some(((link, flow.src, flow.dst, flow.dest_qp), flow))
    });
    let mut order: Vec<(Key, &Flow)> = placed.collect();
    order.sort_by_cached_key(|((link, src, dst, qp), flow)| {
        let known = u16::try_from(*link).is_ok_and(|link| concerned.contains_key(&(link, *src, *dst, *qp)));
        (!known, Reverse(flow.fault_rank()), Reverse(flow.bytes_dedup()))
    });
    order.truncate(MOST_FLOWS);
    // Order: links, and on each the flows of the same hosts together.
    order.sort_by_key(|(key, _)| *key);
    let mut tracks = Map::default();
    for (at, link) in report.facts.links.iter().enumerate() {
        named(names, process(at), None, &format!("link {}", link_name(&link.name, link.direction)));
    }
    for ((key, flow), number) in order.into_iter().zip(1..) {
        let tid = number * LANES;
        let pid = process(key.0);
        let name = format!("{} → {} QP {}", flow.src, flow.dst, flow.dest_qp);
        named(names, pid, Some(tid), &name);
        entries.push(slice(pid, tid, (flow.first_ns, flow.last_ns), "flow".into(), of_flow(flow)));
        tracks.insert(key, tid);
    }
    tracks
}

/// Adds messages of flows with a track, each on the first free thread of its flow. Returns the number without a free
/// thread.
fn of_messages(
    report: &Report,
    messages: &Messages,
    tracks: &Map<Key, u64>,
    names: &mut Vec<Entry>,
    entries: &mut Vec<Entry>,
) -> u64 {
    let placed = report.facts.flows.iter().filter_map(|flow| {
        let link = place(report, &flow.link, flow.direction)?;
        Some((flow.slot, (process(link), *tracks.get(&(link, flow.src, flow.dst, flow.dest_qp))?)))
    });
    let by_slot: Map<u32, (u64, u64)> = placed.collect();
    let mut left_out = messages.left_out;
    // End of the latest message on each thread of a flow.
    let mut lanes: Vec<u64> = Vec::new();
    let mut of_slot = None;
    for message in &messages.longest {
        let Some((pid, tid)) = by_slot.get(&message.slot) else {
            left_out += 1;
            continue;
        };
        if of_slot != Some(message.slot) {
            of_slot = Some(message.slot);
            lanes.clear();
        }
        let end_ns = message.start_ns.saturating_add(message.length_ns);
        let free = lanes.iter().position(|lane_end| *lane_end <= message.start_ns);
        let lane = free.unwrap_or(lanes.len());
        let thread = tid + 1 + lane as u64;
        if lane as u64 + 1 >= LANES {
            left_out += 1;
            continue;
        }
        if let Some(lane_end) = lanes.get_mut(lane) {
            *lane_end = end_ns;
        } else {
            lanes.push(end_ns);
            named(names, *pid, Some(thread), "messages");
        }
        let name = Name(message.opcode).to_string();
        let name = ["_FIRST", "_ONLY_WITH_IMMEDIATE", "_ONLY_WITH_INVALIDATE", "_ONLY", "_REQUEST"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(&name)
            .to_owned();
        let args = json!({
            "bytes": message.bytes,
            "first_psn": message.psn,
            "sending_ns": message.sending_ns,
            "answered": message.answered,
        });
        entries.push(slice(*pid, thread, (message.start_ns, end_ns), name, args));
    }
    left_out
}

/// Figures of a flow.
fn of_flow(flow: &Flow) -> Value {
    let losses = flow.losses();
    let loss = |get: fn(&crate::analysis::Loss) -> u64| losses.iter().flatten().map(get).reduce(|a, b| a + b);
    json!({
        "packets": flow.packets,
        "bytes": flow.bytes,
        "lost_packets": loss(|loss| loss.lost),
        "retransmitted_packets": loss(crate::analysis::Loss::retransmissions),
        "timeouts": loss(|loss| loss.timeouts),
        "ce_ratio": flow.ce_ratio(),
        "latency_p50_ns": flow.latency_ns.as_deref().map(|latency| latency.p50),
        "latency_max_ns": flow.latency_ns.as_deref().map(|latency| latency.max),
        "source_qp": flow.peer_qp,
        "pid": flow.pid,
        "process": flow.comm.as_deref().map(plain),
    })
}

fn of_event(event: &Instant, tid: u64) -> Entry {
    let class = CLASSES.iter().find(|class| event.events & class.bit != 0);
    let word = class.map_or("event", |class| class.word);
    let has = |bit| event.events & bit != 0;
    let mut args = serde_json::Map::new();
    let mut name = word.to_owned();
    if has(Event::NAK) || has(Event::RNR) {
        name = packet::syndrome(event.aeth);
    } else if has(Event::GAP) {
        name = format!("PSN gap: {} missing", event.missing);
        args.insert("missing_psns".into(), event.missing.into());
        args.insert("first_missing_psn".into(), psn_distance(event.missing, event.psn).into());
    }
    if let Some(class) = class {
        args.insert("meaning".into(), class.help.into());
    }
    args.insert("opcode".into(), Name(event.opcode).to_string().into());
    if !has(Event::CNP) {
        args.insert("psn".into(), event.psn.into());
    }
    let (pid, args) = (process(usize::from(event.key.link)), Value::Object(args));
    Entry { pid, tid, time_ns: event.time_ns, length_ns: None, phase: 'i', name, args }
}

/// Adds counters of each link over time, from a replay: the rate, and signals with any value.
fn of_points(timeline: &[LinkPoints], entries: &mut Vec<Entry>) {
    const SIGNALS: [(SignalKind, &str); 7] = [
        (SignalKind::Lost, "lost packets"),
        (SignalKind::Retransmitted, "retransmitted packets"),
        (SignalKind::Nak, "NAKs"),
        (SignalKind::Rnr, "RNR NAKs"),
        (SignalKind::Ce, "CE-marked packets"),
        (SignalKind::Cnp, "CNPs"),
        (SignalKind::WrongIcrc, "packets with a wrong ICRC"),
    ];
    for (link, points) in timeline.iter().enumerate() {
        let length_ns = points.length_ns().max(1);
        let shown: Vec<(SignalKind, &str)> = SIGNALS
            .into_iter()
            .filter(|(kind, _)| points.points.iter().any(|point| point.signals[*kind as usize] > 0))
            .collect();
        let mut counter = |time_ns: u64, name: &str, args: Value| {
            entries.push(Entry {
                pid: process(link),
                tid: 0,
                time_ns,
                length_ns: None,
                phase: 'C',
                name: name.to_owned(),
                args,
            });
        };
        for (number, point) in (points.first..).zip(&points.points) {
            let time_ns = number.saturating_mul(length_ns);
            let bits_per_s = point.bytes as f64 * 8e9 / length_ns as f64;
            counter(time_ns, "rate", json!({"bits per second": bits_per_s}));
            for (kind, name) in &shown {
                counter(time_ns, name, json!({"count": point.signals[*kind as usize]}));
            }
        }
        if !points.points.is_empty() {
            // A counter keeps its value until the next entry.
            let end = points.first.saturating_add(points.points.len() as u64).saturating_mul(length_ns);
            counter(end, "rate", json!({"bits per second": 0}));
            for (_, name) in &shown {
                counter(end, name, json!({"count": 0}));
            }
        }
    }
}

#[cfg(test)]
mod tests;
