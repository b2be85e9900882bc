//! Counters of devices, PAUSE and PFC frames, and LLDP neighbours.

use crate::analysis::{DEVX, Device, DeviceQp, Pause, PostSampling, QpContexts, QpEvent, QpLives, QpPosts};
use crate::ethernet::lldp::Dialect;
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::util::layout::{Align, Table, labelled, plain};
use crate::util::units::{self, plural};

/// Width of the labels at the left.
const LABEL: usize = 4;
/// Queue pairs listed per port.
const MAX_QPS: usize = 20;
/// Events listed per port.
const MAX_EVENTS: usize = 10;
/// Columns of the control path: other end, UDP source port, DSCP.
const PATH: [(&str, Align); 3] = [("PEER", Align::Left), ("SRC PORT", Align::Right), ("DSCP", Align::Right)];

pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut latest = None;
    for device in &report.facts.devices {
        let of = (&device.name, device.port);
        if latest != Some(of) {
            lines.push(head(device));
            latest = Some(of);
        }
        lines.extend(labelled("", LABEL, &counters(device), room));
        for pause in device.pause.iter().filter(|pause| was_paused(pause)) {
            let way = if pause.direction == Some("sent") { "sent" } else { "received" };
            let text = format!("{}: {way} {}", plain(&device.source), of_priority(pause));
            lines.extend(labelled("", LABEL, &text, room));
        }
        lines.extend(qps(device, room));
    }
    let missed = report.facts.qp_lives.as_ref().and_then(missed);
    let contexts = report.facts.qp_context.as_ref().and_then(contexts);
    let listed = report.facts.qp_lives.as_ref().and_then(listed);
    let sampling = report.facts.post_sampling.as_ref().map(sampling);
    lines.extend(
        missed
            .into_iter()
            .chain(contexts)
            .chain(listed)
            .chain(report.facts.qp_lives.iter().flat_map(QpLives::not_listed).map(|said| plain(&said)))
            .chain(sampling)
            .flat_map(|text| labelled("", 0, &text, room)),
    );
    lines.extend(super::qp_paths::lines(report, room));
    lines
}

/// The gaps in the control path of queue pairs; `None` when all of it was seen.
pub(super) fn missed(lives: &QpLives) -> Option<String> {
    let counts = [
        (lives.missed_returns, "call", "without its result"),
        (lives.dropped, "record", "dropped"),
        (lives.skipped.unwrap_or(0), "probe run", "skipped by the kernel"),
        (lives.qps_left_out, "QP", "without room"),
        (lives.unnumbered, "QP", "without a number"),
        (lives.events_left_out, "event", "without room"),
        (lives.missed_commands, "DEVX command", "without its result"),
    ];
    let counted = counts.into_iter().filter(|(n, ..)| *n > 0);
    let counted = counted.map(|(n, what, lack)| format!("{} {lack}", plural(n, what)));
    let absent = lives.absent.iter().map(|function| format!("no probe of {}", plain(function)));
    let fields = lives.absent_fields.iter().map(|field| format!("the kernel has no {}", plain(field)));
    let parts: Vec<String> = counted.chain(absent).chain(fields).collect();
    let incomplete = (!parts.is_empty())
        .then(|| format!("incomplete ({}): {}", plural(lives.calls, "call"), parts.join(", ")));
    let Some(why) = &lives.unavailable else {
        return incomplete.map(|said| format!("Control path of queue pairs {said}"));
    };
    // Probes that cannot be attached again after their modules were loaded again.
    let before = incomplete.map_or_else(String::new, |said| format!("; until then {said}"));
    Some(format!("Control path of queue pairs not available: {}{before}", plain(why)))
}

/// Coverage and cost of the NIC's own contexts; `None` where there is nothing to ask.
fn contexts(of: &QpContexts) -> Option<String> {
    if of.of == 0 && of.refused.is_empty() {
        return None;
    }
    let refused = of.refused.iter().map(|why| plain(why));
    let read = (of.queried > 0).then(|| {
        let mean = of.mean_ns.map_or_else(String::new, |ns| format!(", {} each", units::duration(ns)));
        format!(
            "{} of {} queue pairs read ({}{mean}, at most {}/s)",
            units::count(of.queried),
            units::count(of.of),
            if of.answered == 1 {
                "1 query".to_owned()
            } else {
                format!("{} queries", units::count(of.answered))
            },
            of.at_most
        )
    });
    let parts: Vec<String> = read.into_iter().chain(refused).collect();
    let parts = if parts.is_empty() { "none read yet".to_owned() } else { parts.join("; ") };
    Some(format!("QP context of the NIC: {parts}"))
}

/// Cost of listing queue pairs; `None` where none was listed.
fn listed(lives: &QpLives) -> Option<String> {
    (lives.list_queries > 0).then(|| {
        format!(
            "Lists of queue pairs: {} of devices in {}, {} altogether",
            if lives.list_queries == 1 {
                "1 query".to_owned()
            } else {
                format!("{} queries", units::count(lives.list_queries))
            },
            plural(lives.lists, "list"),
            units::duration(lives.lists_ns)
        )
    })
}

/// Coverage of the samples of posted work.
pub(super) fn sampling(of: &PostSampling) -> String {
    if let Some(why) = &of.unavailable {
        return format!("Posted work not sampled: {}", plain(why));
    }
    let counts = [
        (of.stopped, "window", "stopped at the limit"),
        (of.unreadable, "call", "without a readable QP"),
        (of.without_room, "call", "without room"),
        (of.without_device, "call", "without a device"),
        (of.qps_left_out, "QP", "without room"),
    ];
    let counted = counts.into_iter().filter(|(n, ..)| *n > 0);
    let counted = counted.map(|(n, what, lack)| format!("{} {lack}", plural(n, what)));
    let absent = of.absent.iter().map(|who| format!("not {}", plain(who)));
    let none = of.files.is_empty().then(|| "no process with queue pairs is sampled".to_owned());
    let parts: Vec<String> = counted.chain(absent).chain(none).collect();
    let lack = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) };
    format!(
        "Posted work (post_send): {} in {} of {}{lack}",
        plural(of.calls, "call"),
        plural(of.windows, "window"),
        units::duration(of.window_ns)
    )
}

/// Work posted to a queue pair in the samples.
fn posted(qp: &DeviceQp) -> Option<String> {
    let of: &QpPosts = qp.posts.as_deref()?;
    let opcodes: Vec<&str> = of.opcodes.iter().map(|opcode| opcode.name).collect();
    let size = match (of.shortest, of.longest) {
        (Some(shortest), Some(longest)) if shortest == longest => format!(" of {}", units::bytes(shortest)),
        (Some(shortest), Some(longest)) => {
            format!(" of {} to {}", units::bytes(shortest), units::bytes(longest))
        }
        _ => String::new(),
    };
    let per_s = of.requests_per_s.zip(of.bytes_per_s).map_or_else(String::new, |(requests, bytes)| {
        format!(", about {}/s and {}", units::count(requests), units::bit_rate(bytes as f64 * 8.0))
    });
    let unread = of.long_chains + of.long_lists + of.unreadable;
    let unread =
        if unread == 0 { String::new() } else { format!(", {} not read to the end", units::count(unread)) };
    Some(format!(
        "QP {} posts {}{size}: {} in {} sampled{per_s}{unread}",
        qp.lqpn,
        opcodes.join(", "),
        plural(of.requests, "work request"),
        units::duration(of.sampled_ns)
    ))
}

/// True if any pause was counted.
fn was_paused(pause: &Pause) -> bool {
    [pause.frames, pause.paused_ns, pause.episodes].into_iter().flatten().any(|n| n > 0)
}

fn head(device: &Device) -> String {
    let driver = device.driver.as_deref().unwrap_or("unknown driver");
    let on = device.place().map_or_else(String::new, |place| format!(" on {}", plain(&place)));
    let span = device.first_ns.zip(device.last_ns).and_then(|(first, last)| last.checked_sub(first));
    let over = span.map_or_else(String::new, |ns| format!(", over {}", units::duration(ns)));
    format!("{} ({}{on}{over})", plain(&device.label()), plain(driver))
}

fn counters(device: &Device) -> String {
    let span = device.first_ns.zip(device.last_ns).and_then(|(first, last)| last.checked_sub(first));
    let counted: Vec<String> = device
        .counters
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(name, n)| {
            let rate = span.filter(|ns| *ns > 0 && name.ends_with("_bytes"));
            let rate = rate.map(|ns| format!(" ({})", units::bit_rate(*n as f64 * 8e9 / ns as f64)));
            format!("{} {}{}", plain(name), units::count(*n), rate.unwrap_or_default())
        })
        .collect();
    let resets = match device.resets {
        0 => String::new(),
        n => format!("; {} reset during the run, counts before a reset are incomplete", plural(n, "counter")),
    };
    let counted = if counted.is_empty() { "no change".into() } else { counted.join(", ") };
    format!("{}: {counted}{resets}", plain(&device.source))
}

fn of_priority(pause: &Pause) -> String {
    let what = pause.priority.map_or_else(|| "link pause".into(), |p| format!("PFC priority {p}"));
    let frames = pause.frames.map(|n| plural(n, "frame"));
    let resumes = pause.resumes.filter(|n| *n > 0).map(|n| format!("{} resume frames", units::count(n)));
    let episodes = pause.episodes.map(|n| plural(n, "pause"));
    let quanta = pause.quanta.filter(|_| pause.paused_ns.is_none());
    let quanta = quanta
        .map(|n| format!("{} quanta of 512 bit times (--link-speed converts them to time)", units::count(n)));
    let least =
        pause.least_share.map(|share| format!("peak at least {} of the time", units::ratio(Some(share))));
    let paused = pause.paused_ns.map(|ns| format!("paused {}", units::duration(ns)));
    let longest = pause.longest_ns.filter(|ns| *ns > 0).map(|ns| format!("longest {}", units::duration(ns)));
    let worst = pause.worst_share.map(|share| format!("peak {} of the time", units::ratio(Some(share))));
    let most = pause.most_share.map(|share| {
        let rate = pause.worst_frames_per_s.map_or_else(String::new, |rate| format!(" ({rate:.0} frames/s)"));
        format!(
            "peak up to {} of the time{rate}, upper bound as the driver counts frames only",
            units::ratio(Some(share))
        )
    });
    let parts: Vec<String> = [frames, resumes, quanta, least, episodes, paused, longest, worst, most]
        .into_iter()
        .flatten()
        .collect();
    format!("{what}: {}", parts.join(", "))
}

/// An event of a queue pair or port, or a verb that failed.
fn qp_event(event: &QpEvent) -> String {
    let time = units::clock_utc(event.time_ns);
    let qp = event.lqpn.map_or_else(String::new, |lqpn| format!("QP {lqpn}: "));
    let to = event.dst.map_or_else(String::new, |dst| format!(" towards {dst}"));
    let comm = event.comm.as_deref().map_or_else(String::new, |comm| format!(" by {}", plain(comm)));
    let failed = event.errno.map_or_else(String::new, |errno| {
        let after =
            event.duration_ns.map_or_else(String::new, |ns| format!(" after {}", units::duration(ns)));
        format!(" failed{after}: {}", std::io::Error::from_raw_os_error(errno))
    });
    let reason = event.reason.as_deref().map_or_else(String::new, |why| format!(": {}", plain(why)));
    format!("{time} {qp}{}{to}{comm}{failed}{reason}", plain(&event.event))
}

fn qps(device: &Device, room: usize) -> Vec<String> {
    if device.qps.is_empty() && device.qp_events.is_empty() {
        return Vec::new();
    }
    // The control path is seen with the right to probe the kernel only.
    let has_paths = device.qps.iter().any(|qp| qp.control.dst.is_some());
    let path_columns = if has_paths { PATH.as_slice() } else { &[] };
    let mut columns = vec![("    QP", Align::Right), ("PEER QP", Align::Right)];
    columns.extend(path_columns);
    columns.extend([
        ("TYPE", Align::Left),
        ("STATE", Align::Left),
        ("SENT", Align::Right),
        ("RECEIVED", Align::Right),
        ("SOURCE", Align::Left),
        ("PID", Align::Right),
        ("COMMAND", Align::Left),
    ]);
    let mut table = Table::new(columns);
    let mut busiest: Vec<&DeviceQp> = device.qps.iter().collect();
    // What died, stands still or retries is what is looked for.
    busiest.sort_by_key(|qp| std::cmp::Reverse(qp.rank()));
    let packets = |qp: &DeviceQp, n: Option<u64>| {
        n.map_or_else(|| units::UNKNOWN.into(), |n| format!("{}{}", qp.packets_mark(), units::count(n)))
    };
    let small = |n: Option<u32>| n.map_or_else(|| units::UNKNOWN.into(), |n| n.to_string());
    let text = |text: Option<&str>| text.map_or_else(|| units::UNKNOWN.into(), plain);
    for qp in busiest.iter().take(MAX_QPS) {
        let command = match (&qp.comm, &qp.pod) {
            (Some(comm), Some(pod)) => format!("{} in {}", plain(comm), plain(pod)),
            (comm, _) => text(comm.as_deref()),
        };
        let mut cells = vec![qp.lqpn.to_string(), small(qp.rqpn)];
        if has_paths {
            cells.push(qp.control.dst.map_or_else(|| units::UNKNOWN.into(), |dst| dst.to_string()));
            cells.push(small(qp.control.udp_port.map(u32::from)));
            cells.push(small(qp.control.dscp.map(u32::from)));
        }
        cells.extend([
            text(qp.kind),
            if qp.control.is_over() { "ended".into() } else { text(qp.state) },
            packets(qp, qp.sent_packets),
            packets(qp, qp.received_packets),
            source(qp).into(),
            small(qp.pid),
            command,
        ]);
        table.row(cells);
    }
    let mut lines = table.lines(room);
    let notes = busiest.iter().take(MAX_QPS).flat_map(|qp| [trouble(qp), posted(qp)]).flatten();
    lines.extend(notes.flat_map(|text| labelled("", LABEL, &text, room)));
    for event in device.qp_events.iter().rev().take(MAX_EVENTS).rev() {
        lines.extend(labelled("", LABEL, &qp_event(event), room));
    }
    let more = (busiest.len().saturating_sub(MAX_QPS)) as u64 + device.qps_left_out;
    if more > 0 {
        lines.push(format!("    … and {}", plural(more, "more queue pair")));
    }
    lines.extend(bound_counters(device, room));
    lines
}

/// The source of most that is known of a queue pair.
fn source(qp: &DeviceQp) -> &'static str {
    if qp.origin == Some(DEVX) {
        "DEVX"
    } else if qp.context_ns.is_some() {
        "context"
    } else if qp.control.dst.is_some() || qp.control.created_ns.is_some() {
        "kernel"
    } else {
        "netlink"
    }
}

/// The NIC's own context of a queue pair that stands still or retries; `None` of one that does neither.
fn trouble(qp: &DeviceQp) -> Option<String> {
    let stuck = qp.stuck_ns.filter(|ns| *ns > 0).map(|ns| format!("stuck for {}", units::duration(ns)));
    let used = |used: Option<u8>, of: Option<u8>, kind: &str| {
        let used = used.filter(|used| *used > 0)?;
        Some(format!("{used} of {} {kind} used", of.map_or_else(|| units::UNKNOWN.into(), |n| n.to_string())))
    };
    let retries = used(qp.retries_used, qp.control.retry_cnt, "retries");
    let rnr = used(qp.rnr_retries_used, qp.control.rnr_retry, "RNR retries");
    let timeouts = qp.timeouts.filter(|n| *n > 0);
    let timeouts =
        timeouts.map(|n| format!("{} ({})", plural(n, "timeout"), qp.attribution.unwrap_or("likely")));
    let parts: Vec<String> = [stuck, retries, rnr, timeouts].into_iter().flatten().collect();
    if parts.is_empty() {
        return None;
    }
    let in_flight =
        qp.in_flight.map_or_else(String::new, |n| format!("{} in flight, ", plural(u64::from(n), "packet")));
    Some(format!("QP {}: {in_flight}{}", qp.lqpn, parts.join(", ")))
}

/// Counters that the device keeps per queue pair or group of queue pairs.
fn bound_counters(device: &Device, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for bound in &device.qp_counters {
        let counted: Vec<String> = bound
            .counters
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(name, n)| format!("{} {}", plain(name), units::count(*n)))
            .collect();
        if !counted.is_empty() {
            let of: Vec<String> = bound.lqpns.iter().take(8).map(u32::to_string).collect();
            let more = if bound.lqpns.len() > 8 { " …" } else { "" };
            let text = format!("QP {}{more}: {}", of.join(", "), counted.join(", "));
            lines.extend(labelled("", LABEL, &text, room));
        }
    }
    lines
}

/// PAUSE and PFC frames of links.
pub(super) fn pauses(report: &Report, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for link in &report.facts.links {
        for pause in link.pause.iter().flatten() {
            let from = pause.from.as_deref().unwrap_or(units::UNKNOWN);
            let text =
                format!("{} from {from}: {}", link_name(&link.name, link.direction), of_priority(pause));
            lines.extend(labelled("", 0, &text, room));
        }
    }
    lines
}

/// Switches and hosts at the other ends of links, from LLDP.
pub(super) fn neighbours(report: &Report, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for link in &report.facts.links {
        for heard in &link.neighbours {
            let mut parts = vec![heard.label()];
            parts.extend(heard.dialect.map(|dialect| match dialect {
                Dialect::Ieee => "IEEE DCBX".to_owned(),
                Dialect::Cee => "CEE DCBX".to_owned(),
            }));
            if let Some(pfc) = heard.pfc {
                let on = if pfc.enabled == 0 { "no priority".into() } else { priorities(pfc.enabled) };
                parts.push(format!("PFC on {on}"));
                if pfc.error {
                    parts.push("the switch reports a configuration mismatch".into());
                }
            }
            for app in &heard.apps {
                let what = match app.selector {
                    1 => format!("ethertype 0x{:04x}", app.protocol),
                    5 => format!("DSCP {}", app.protocol),
                    _ => format!("port {}", app.protocol),
                };
                parts.push(format!("{what} → {}", priorities(app.priorities)));
            }
            let text = format!("{}: {}", link_name(&link.name, link.direction), parts.join("; "));
            lines.extend(labelled("", 0, &plain(&text), room));
        }
    }
    lines
}

/// "priority 3, 4" from a bit mask.
fn priorities(bits: u8) -> String {
    let on: Vec<String> = (0..8).filter(|p| bits >> p & 1 == 1).map(|p: u8| p.to_string()).collect();
    format!("priority {}", on.join(", "))
}
