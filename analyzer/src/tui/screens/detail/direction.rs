//! One direction of a queue pair: its counters, then its owner, path and packet properties.

use super::counter::{Counter, grown, level};
use crate::analysis::{FlowId, NakCauses, Spray};
use crate::sample::{Direction, Stats, address};
use ratatui::text::{Line, Span};
use rocescope_common::account::flow::{DSCP_NONE, SRC_QP_SEVERAL};
use rocescope_common::account::{Disorder, Mixed, Part, PsnTrack};

use crate::metrics::latency::Figure;
use crate::model::signals::{self, About};
use crate::model::{Counts, Delta, Detail, Level, Row};
use crate::packet::syndrome;
use crate::report::text::{P99_SAMPLES, Requests, ranges};
use crate::tui::analysis::Analysis;
use crate::tui::column::{self, Context, bar, compact};
use crate::tui::view::View;
use crate::tui::widgets::{self, Spans, cut};
use crate::tui::{log, theme};
use crate::util::layout::tap_name;
use crate::util::units::{self, plural};
use crate::util::wrap::hanging_parts;

const NAME: usize = 9;
/// Entries of a list that are shown at least, whatever the height.
const LISTED: usize = 16;

/// Lines of one direction: counters, and properties. `other` is the other direction, where it is known.
pub(super) fn lines(
    detail: &Detail,
    view: &View,
    width: usize,
    other: Option<&Detail>,
) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let route = cut(&log::route(&detail.id.key), width.saturating_sub(2), true);
    let row = view.data.as_ref().and_then(|data| data.row(&detail.id));
    let mut fares = vec![Line::styled(format!(" {route}"), theme::HEAD)];
    // Of an older snapshot, only what is kept snapshot by snapshot.
    let later = view.data.as_ref().filter(|_| view.past()).map(|data| data.sample.time_ns);
    match later {
        Some(_) => fares.extend(then(row, view)),
        None => fares.extend(main(detail, row, view, other)),
    }
    let mut is = if is_owned_in(other, detail, view) { Vec::new() } else { owner(row, view) };
    is.extend(properties(detail, row, view, other.map(|other| other.id.key.dest_qp)));
    if let Some(until) = later {
        let text = format!(" below: state at {} UTC", units::clock_utc(until));
        is.push(Line::styled(text, theme::text(Level::Warning)));
    }
    let whole = |lines: Vec<Line<'static>>| lines.into_iter().flat_map(|line| broken(line, width)).collect();
    let (fares, mut is): (_, Vec<_>) = (whole(fares), whole(is));
    is.extend(lists(detail, width >= 50));
    (fares, is)
}

/// An entry in as many lines as its text takes.
fn broken(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    let room = width.saturating_sub(NAME + 2);
    match &line.spans[..] {
        [name, text] if text.content.chars().count() > room => {
            let parts = hanging_parts(&text.content, room, 0).into_iter().enumerate();
            let lead = |at| if at == 0 { name.content.to_string() } else { " ".repeat(NAME + 1) };
            let part = |(at, part): (usize, String)| {
                let part = part.trim_end_matches(" ·").to_owned();
                Line::from(vec![Span::styled(lead(at), name.style), Span::styled(part, text.style)])
            };
            parts.map(part).collect()
        }
        _ => vec![line],
    }
}

fn entry(name: &str, text: impl Into<String>) -> Line<'static> {
    styled(name, text, Level::Fine)
}

fn styled(name: &str, text: impl Into<String>, level: Level) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(format!(" {name:<NAME$}"), theme::DIM).push(text, theme::text(level));
    spans.into_line()
}

/// Metrics of a queue pair at an older snapshot, which keeps counters only.
fn then(row: Option<&Row>, view: &View) -> Vec<Line<'static>> {
    let Some(row) = row else { return vec![entry("", "not kept in this snapshot")] };
    let counts = &row.total;
    let mut lines = vec![entry("rate", rate(row.delta)), entry("total", total(counts.bytes, counts.packets))];
    let without = view
        .data
        .as_ref()
        .is_some_and(|data| !data.sample.has_psns() || counts.of_sequence(|counts| counts.missing).is_none());
    if without {
        lines.push(entry("PSN", units::UNKNOWN));
    } else {
        lines.extend(found("PSN", (grown(Some(row)), counts), None, Some(row)));
    }
    lines.extend(lost(row));
    // The row has the NAKs that answer its packets.
    let acks = Counter::of(grown(Some(row)).as_ref(), counts, |counts| counts.acks);
    lines.push(entry("acks out", acks.text(|acks| format!("{} ACK", compact(acks as f64)))));
    lines.extend(answered(counts, Some(row)));
    // Of data only: acknowledgements are not kept apart.
    lines.extend(marks(counts, codepoints(view, counts.ecn_data, counts.ecn_data), Some(row)));
    lines.push(entry("latency", latency_now(Some(row), view, u64::MAX)));
    lines
}

/// Packets lost, as in the table: more than the PSNs skipped where retransmissions are lost again, fewer where
/// some were reordered.
fn lost(row: &Row) -> Option<Line<'static>> {
    let (now, total) = (grown(Some(row)), &row.total);
    let [lost, reordered] = [
        Counter::of(now.as_ref(), total, |counts| counts.lost),
        Counter::of(now.as_ref(), total, |counts| counts.reordered),
    ];
    let mut found = Vec::new();
    if lost.total > 0 {
        // A recording has no PSNs.
        let again = if total.missing > 0 && lost.total > total.missing {
            ", lost retransmissions included"
        } else {
            ""
        };
        found.push(lost.text(|lost| format!("{} upstream{again}", compact(lost as f64))));
    }
    if reordered.total > 0 {
        let none = if lost.total == 0 { "none, " } else { "" };
        found.push(reordered.text(|reordered| format!("{none}{} reordered", compact(reordered as f64))));
    }
    let level = if lost.total > 0 {
        lost.level(signals::LOST, Some(row))
    } else {
        reordered.level(signals::RETRANSMITTED, Some(row))
    };
    (!found.is_empty()).then(|| styled("lost", found.join(", "), level))
}

fn rate(delta: Option<Delta>) -> String {
    delta.map_or_else(
        || units::UNKNOWN.into(),
        |d| format!("{}, {} pkt/s", units::bit_rate(d.bits_per_s()), compact(d.packets_per_s())),
    )
}

fn total(bytes: u64, packets: u64) -> String {
    let s = if packets == 1 { "" } else { "s" };
    format!("{}, {} packet{s}", units::bytes(bytes), units::count(packets))
}

/// The entry of the latest analysis about the flow in one of its lists; `None` where there is none.
fn concluded<'a, T>(
    detail: &Detail,
    view: &'a View,
    list: impl Fn(&'a Analysis) -> &'a Vec<(FlowId, T)>,
) -> Option<&'a T> {
    let (analysis, data) = view.analysis.as_ref().zip(view.data.as_ref())?;
    let key = &detail.id.key;
    let [src, dst] = [key.src, key.dst].map(|end| address(key.family, end));
    let link = data.model.links.get(usize::from(key.link));
    let is = |flow: &FlowId| {
        (flow.src, flow.dst, flow.dest_qp) == (src, dst, key.dest_qp)
            && link.is_some_and(|link| flow.link == link.name && flow.direction == link.direction)
    };
    list(analysis).iter().find(|(flow, _)| is(flow)).map(|(_, found)| found)
}

/// Spreading of its packets over paths, if there is any.
fn spread(detail: &Detail, view: &View) -> Vec<Line<'static>> {
    let Some(Spray { src_ports, planes, reordering_depth, trimmed }) =
        concluded(detail, view, |analysis| &analysis.spread)
    else {
        return Vec::new();
    };
    let parts = [
        planes.map(|n| format!("over {}", plural(n, "plane"))),
        src_ports.map(|n| plural(n, "source port")),
        reordering_depth.map(|n| format!("out of order by up to {}", plural(n, "PSN"))),
        match trimmed {
            // Not available from the kernel programs.
            None => Some(format!("trimmed {}", units::UNKNOWN)),
            Some(0) => None,
            Some(n) => Some(format!("{} trimmed by a switch", plural(*n, "packet"))),
        },
    ];
    let name = |at: usize| if at == 0 { "spread" } else { "" };
    parts.into_iter().flatten().enumerate().map(|(at, text)| entry(name(at), text)).collect()
}

/// Acknowledgements among the packets of this direction: problems first, so that they are never what does not fit.
/// `answered`: what the NAKs among them answer in the time range, which the other direction's row has.
fn acks(stats: &Stats, row: Option<&Row>, answered: Option<Counts>) -> Vec<Line<'static>> {
    let naks = Counter { now: answered.map(|counts| counts.naks()), total: stats.rare.naks.iter().sum() };
    let rnr = Counter { now: answered.map(|counts| counts.rnr), total: stats.rare.rnr_naks };
    let acks = Counter { now: grown(row).map(|counts| counts.acks), total: stats.acks };
    let kinds = [
        (naks, "NAK", naks.level(signals::NAK, row)),
        (rnr, "RNR NAK", rnr.level(signals::RNR, row)),
        (acks, "ACK", Level::Fine),
    ];
    let seen = kinds.into_iter().filter(|(counter, ..)| counter.total > 0).enumerate();
    let line = |(at, (counter, what, level)): (usize, (Counter, &str, Level))| {
        let text = counter.text(|count| format!("{} {what}", compact(count as f64)));
        styled(if at == 0 { "acks out" } else { "" }, text, level)
    };
    let lines: Vec<Line<'static>> = seen.map(line).collect();
    if lines.is_empty() { vec![entry("acks out", "none")] } else { lines }
}

/// Packets by ECN codepoint: `all`, or of a recording those of `data`, whose ECT(0) and ECT(1) it does not tell apart.
fn codepoints(view: &View, all: [u64; 4], data: [u64; 4]) -> String {
    let is_recording = view.data.as_ref().is_some_and(|data| data.sample.recording.is_some());
    let [not_ect, ect1, ect0, ce] = if is_recording { data } else { all };
    let named: &[_] = if is_recording {
        &[(ce, "CE"), (ect0 + ect1, "ECT")]
    } else {
        &[(ce, "CE"), (ect0, "ECT(0)"), (ect1, "ECT(1)"), (not_ect, "Not-ECT")]
    };
    let seen = named.iter().filter(|(count, _)| *count > 0);
    let seen: Vec<String> = seen.map(|(count, what)| format!("{} {what}", compact(*count as f64))).collect();
    if seen.is_empty() { units::UNKNOWN.to_owned() } else { format!("{} total", seen.join(", ")) }
}

/// ECN: CE ratio and CNPs, in the time range and in total; `ecn` counts packets by ECN codepoint.
fn marks(counts: &Counts, marks: String, row: Option<&Row>) -> Vec<Line<'static>> {
    let ratio = counts.ce_ratio();
    let now = row.and_then(|row| row.delta).and_then(|d| d.counts.ce_ratio());
    let text = format!("CE {} · {} total", units::ratio(now), units::ratio(ratio));
    // Without an ECN-capable packet there is no ratio, and the codepoints say why.
    let mut lines = Vec::new();
    if ratio.is_some() {
        lines.push(styled("ECN", text, level(signals::CE, row)));
    }
    if counts.cnp > 0 {
        let cnp = Counter::of(grown(row).as_ref(), counts, |counts| counts.cnp);
        let text = cnp.text(|cnp| format!("{} CNP", compact(cnp as f64)));
        lines.push(styled("", text, cnp.level(signals::CNP, row)));
    }
    let name = if lines.is_empty() { "ECN" } else { "" };
    lines.push(entry(name, marks));
    lines
}

/// Counters of problems come first, so that they show on small screens.
fn main(detail: &Detail, row: Option<&Row>, view: &View, other: Option<&Detail>) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let delta = row.and_then(|row| row.delta);
    let mut lines = vec![entry("rate", rate(delta)), entry("total", total(stats.bytes, stats.packets))];
    let responds = stats.rare.psn_responses.seen != 0;
    // First arrivals that fill a gap are behind the highest PSN, too.
    let retransmitted = row.filter(|_| !responds).map_or(stats.psn.repeats, |row| row.total.retransmitted);
    // The row counts both sequences together.
    let now = grown(row).filter(|_| !responds);
    lines.extend(psn("PSN", &stats.psn, (now, retransmitted), row));
    if responds {
        let answers = stats.rare.responses_missing();
        lines.extend(psn("PSN resp", &answers, (None, answers.repeats), row));
    }
    lines.extend(row.and_then(lost));
    lines.extend(spread(detail, view));
    let other_row = other.zip(view.data.as_ref()).and_then(|(other, data)| data.row(&other.id));
    lines.extend(acks(stats, row, grown(other_row)));
    lines.extend(other.into_iter().flat_map(|other| answered(&Counts::counted(&other.stats), row)));
    lines.extend(marks(&Counts::counted(stats), codepoints(view, stats.ecn(), stats.ecn_data), row));
    lines.extend(nak_codes(stats, row));
    lines.extend(nak_causes_of(detail, row, view, other));
    lines.extend(latency(detail, row, view));
    lines
}

/// For a flow of answers with sequence-error NAKs: their causes, and the queue pair whose data was lost, since the loss
/// is in the reverse direction.
fn nak_causes_of(
    detail: &Detail,
    row: Option<&Row>,
    view: &View,
    other: Option<&Detail>,
) -> Vec<Line<'static>> {
    let Some(causes) = concluded(detail, view, |analysis| &analysis.nak_causes) else { return Vec::new() };
    let NakCauses { rnr, reordering, loss, unknown } = *causes;
    // The data goes to the queue pair that sends these answers.
    let qp = detail.peer_qp.or(other.map(|other| other.id.key.dest_qp));
    let qp = qp.map_or_else(|| "an unknown QP".to_owned(), |qp| format!("QP {qp}"));
    let causes = [
        (loss, format!("caused by loss of data to {qp}")),
        (reordering, "caused by reordering".to_owned()),
        (rnr, "caused by packets after RNR NAKs".to_owned()),
        (unknown, "of unknown cause".to_owned()),
    ];
    let line = |(naks, cause): (u64, String)| {
        styled("", format!("{} {cause}", compact(naks as f64)), level(signals::NAK, row))
    };
    causes.into_iter().filter(|(naks, _)| *naks > 0).map(line).collect()
}

/// NAKs of the receiver, which answer packets of this direction.
fn answered(naks: &Counts, row: Option<&Row>) -> Vec<Line<'static>> {
    let now = grown(row);
    let counter = |of: fn(&Counts) -> u64| Counter::of(now.as_ref(), naks, of);
    let kinds = [
        (counter(|counts| counts.sequence_naks), "sequence-error NAK", signals::NAK),
        (counter(|counts| counts.other_naks), "other NAK", signals::NAK),
        (counter(|counts| counts.rnr), "RNR NAK", signals::RNR),
    ];
    let kinds = kinds.into_iter().filter(|(counter, ..)| counter.total > 0);
    let line = |(at, (counter, what, about)): (usize, (Counter, &str, About))| {
        let text = counter.text(|count| widgets::counted(count, what));
        styled(if at == 0 { "naks in" } else { "" }, text, counter.level(about, row))
    };
    kinds.enumerate().map(line).collect()
}

/// True if the other direction has the owner: that of the packets that this host sends.
fn is_owned_in(other: Option<&Detail>, detail: &Detail, view: &View) -> bool {
    let links = view.data.as_ref().map_or(&[][..], |data| &data.model.links);
    let way = |detail: &Detail| links.get(usize::from(detail.id.key.link)).and_then(|link| link.direction);
    let [own, others] = [Some(detail), other].map(|one| one.and_then(way));
    (own, others) == (Some(Direction::Ingress), Some(Direction::Egress))
}

/// Path and packet properties.
fn properties(detail: &Detail, row: Option<&Row>, view: &View, sender: Option<u32>) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let mut lines = vec![entry("peer QP", peer(detail, sender))];
    let (path, tags) = path(detail);
    lines.extend([entry("path", path), entry("tags", tags)]);
    lines.push(entry("link", tap_name(&detail.link)));
    let then = view.data.as_ref().map(|data| data.model.time_ns).filter(|then| *then < stats.last_ns);
    let last = match then.filter(|_| view.past()) {
        Some(_) => "after this snapshot".to_owned(),
        None => format!("{} UTC", units::clock_utc(stats.last_ns)),
    };
    lines.push(entry("last", last));
    let mixed: Vec<&str> =
        Mixed::NAMES.iter().filter(|(bit, _)| stats.mixed & bit != 0).map(|(_, name)| *name).collect();
    if !mixed.is_empty() {
        lines.push(styled("changed", mixed.join(", "), level(signals::CHANGED, row)));
    }
    lines
}

/// Latency percentiles, in the time range and since the start.
fn latency(detail: &Detail, row: Option<&Row>, view: &View) -> Vec<Line<'static>> {
    let timed = view.data.as_ref().and_then(|data| data.sample.metrics.latency.as_ref());
    let figure = timed.and_then(|timed| timed.get(detail.id.slot));
    let not_timed = figure.map_or(0, Figure::not_timed);
    let not_timed = (not_timed > 0).then(|| entry("", plural(not_timed, "request") + " not timed"));
    let outstanding = figure.map_or(0, |figure| figure.outstanding);
    let not_timed = not_timed
        .into_iter()
        .chain((outstanding > 0).then(|| entry("", plural(outstanding, "request") + " not answered so far")));
    let Some(all) = figure.and_then(|figure| figure.all.as_ref()) else {
        return [entry("latency", units::UNKNOWN)].into_iter().chain(not_timed).collect();
    };
    let requests = Requests { answered: all.count, unanswered: figure.map_or(0, Figure::unanswered) };
    let (p999, max) = (requests.p999(all.p999.get()), units::duration(all.max));
    let lines = [
        entry("latency", latency_now(row, view, all.max)),
        entry("  total", percentiles([all.p50, all.p99], requests)),
        entry("", format!("p99.9 {p999}, max {max}")),
        entry("", format!("{} sample{}", compact(all.count as f64), if all.count == 1 { "" } else { "s" })),
    ];
    lines
        .into_iter()
        .chain(recorded_ranges(detail, view, all.count))
        .chain(not_timed)
        .chain(figure.into_iter().flat_map(completion))
        .collect()
}

/// Ranges of the percentiles since the start, of a recording.
fn recorded_ranges(detail: &Detail, view: &View, count: u64) -> Vec<Line<'static>> {
    let recording = view.data.as_ref().and_then(|data| data.sample.recording.as_ref());
    let Some(of) = recording.and_then(|recording| recording.latency_ranges.get(&detail.id.slot)) else {
        return Vec::new();
    };
    let [p50, p99] = ranges(of);
    let tail = (count >= P99_SAMPLES).then(|| entry("", format!("p99 {p99}")));
    [entry("  range", format!("p50 {p50}"))].into_iter().chain(tail).collect()
}

/// Message completion times by operation, since the start; the longest where too few are known for a 99th percentile.
fn completion(figure: &Figure) -> impl Iterator<Item = Line<'static>> {
    let times = figure.completions.summaries().unwrap_or_default();
    let named = ["WRITE", "SEND", "READ"].into_iter().zip(times);
    named.filter_map(|(name, times)| Some((name, times?))).enumerate().map(|(at, (name, times))| {
        let p50 = units::duration(times.p50);
        let tail = if times.count < P99_SAMPLES { ("max", times.max) } else { ("p99", times.p99) };
        let tail = format!("{} {}", tail.0, units::duration(tail.1));
        entry(if at == 0 { "messages" } else { "" }, format!("{name} p50 {p50}, {tail}"))
    })
}

/// Latency percentiles in the time range: those of a histogram, whose buckets end above the `max` of all requests.
fn latency_now(row: Option<&Row>, view: &View, max: u64) -> String {
    let times = row.zip(view.data.as_ref()).and_then(|(row, data)| data.model.latency(row));
    times.map_or_else(
        || units::UNKNOWN.to_owned(),
        |times| {
            let all = [times.p50, times.p99].map(|time| time.ns().min(max));
            percentiles(all, Requests { answered: times.count, unanswered: times.unanswered })
        },
    )
}

/// Median and 99th percentile of the requests that were answered, marked where those of all may be longer.
fn percentiles([p50, p99]: [u64; 2], requests: Requests) -> String {
    format!("p50 {}, p99 {}", requests.p50(p50), requests.p99(p99))
}

/// Process, pod and device, where the kernel says whose the queue pair is.
fn owner(row: Option<&Row>, view: &View) -> Vec<Line<'static>> {
    let owner = row.zip(view.data.as_ref()).and_then(|(row, data)| {
        let cx = Context { model: &data.model, sample: &data.sample };
        cx.owner(row)
    });
    let Some(owner) = owner else { return Vec::new() };
    let mut lines: Vec<Line<'static>> = Vec::new();
    lines.extend(column::process(owner).map(|process| entry("process", process)));
    lines.extend(owner.pod.clone().map(|pod| entry("pod", pod)));
    let state = owner.state.map_or_else(String::new, |state| format!(", {state}"));
    lines.push(entry("device", format!("{} QP {}{state}", owner.device, owner.lqpn)));
    lines
}

/// `now`: the counters in the time range, with the retransmissions since the start.
fn psn(
    name: &str,
    track: &PsnTrack<impl Part<Disorder>>,
    (now, retransmitted): (Option<Counts>, u64),
    row: Option<&Row>,
) -> Vec<Line<'static>> {
    if track.seen == 0 {
        return vec![entry(name, units::UNKNOWN)];
    }
    let counts = Counts {
        missing: track.missing,
        gaps: track.gaps,
        retransmitted,
        restarts: track.restarts,
        ..Counts::default()
    };
    found(name, (now, &counts), Some((track.first, track.expected)), row)
}

/// Anomalies of a PSN sequence in the time range and since the start, and its first and next PSN where they are known.
fn found(
    name: &str,
    (now, counts): (Option<Counts>, &Counts),
    ends: Option<(u32, u32)>,
    row: Option<&Row>,
) -> Vec<Line<'static>> {
    /// Letters for which half of a narrow screen has room.
    const ROOM: usize = 28;
    let counter = |of: fn(&Counts) -> u64| Counter::of(now.as_ref(), counts, of);
    let found = [
        (counter(|counts| counts.missing), "missing", "", signals::LOST),
        (counter(|counts| counts.gaps), "gap", "s", signals::LOST),
        (counter(|counts| counts.retransmitted), "retransmitted", "", signals::RETRANSMITTED),
        (counter(|counts| counts.restarts), "restart", "s", signals::NOTHING),
    ];
    let found: Vec<(String, Level)> = found
        .into_iter()
        .filter(|(counter, ..)| counter.total > 0)
        .map(|(counter, what, s, about)| {
            let text = |count| format!("{} {what}{}", compact(count as f64), if count == 1 { "" } else { s });
            (counter.text(text), counter.level(about, row))
        })
        .collect();
    if found.is_empty() {
        let next = ends.map_or_else(String::new, |(_, expected)| format!(", next {expected}"));
        return vec![entry(name, format!("in sequence{next}"))];
    }
    let mut lines: Vec<(String, Level)> = Vec::new();
    for (text, level) in found {
        match lines.last_mut() {
            // Two of one level in a line where they have room.
            Some((line, same))
                if *same == level && line.chars().count() + 2 + text.chars().count() <= ROOM =>
            {
                line.push_str(", ");
                line.push_str(&text);
            }
            _ => lines.push((text, level)),
        }
    }
    let line =
        |(at, (text, level)): (usize, (String, Level))| styled(if at == 0 { name } else { "" }, text, level);
    let mut lines: Vec<Line<'static>> = lines.into_iter().enumerate().map(line).collect();
    lines.extend(ends.map(|(first, expected)| entry("", format!("next {expected}, first {first}"))));
    lines
}

fn nak_codes(stats: &Stats, row: Option<&Row>) -> Vec<Line<'static>> {
    let codes = (0u32..).zip(stats.rare.naks).filter(|(_, count)| *count > 0);
    let line = |(at, (code, count)): (usize, (u32, u64))| {
        let name = syndrome((0x60 | code) << 24);
        let label = if at == 0 { "naks out" } else { "" };
        // By syndrome they are known since the start alone.
        let name = name.trim_start_matches("NAK: ");
        styled(label, format!("{count} total: {name}"), level(signals::NAK, row))
    };
    codes.enumerate().map(line).collect()
}

fn peer(detail: &Detail, sender: Option<u32>) -> String {
    match (detail.peer_qp.or(sender), detail.stats.src_qp) {
        (Some(qp), _) => qp.to_string(),
        (None, SRC_QP_SEVERAL) => "several".to_owned(),
        (None, _) => "unknown".to_owned(),
    }
}

/// Packet properties: RoCE version, MTU and DSCP, then tags and tunnels.
fn path(detail: &Detail) -> (String, String) {
    let stats = &detail.stats;
    let mtu = if stats.mtu > 0 { stats.mtu.to_string() } else { units::UNKNOWN.to_owned() };
    let dscp = if stats.dscp == DSCP_NONE { units::UNKNOWN.to_owned() } else { stats.dscp.to_string() };
    let mut tags = vec![match stats.vlan_id() {
        None => "VLAN unknown".to_owned(),
        Some(0) => "untagged".to_owned(),
        Some(id) => format!("VLAN {id}"),
    }];
    if let Some(lane) = stats.lane() {
        tags = vec![format!("SL {}", lane.service_level), format!("VL {}", lane.virtual_lane)];
    }
    if let Some(id) = stats.inner_vlan_id().filter(|id| *id != 0) {
        tags.push(format!("inner VLAN {id}"));
    }
    tags.extend(stats.priority().map(|pcp| format!("PCP {pcp}")));
    if !detail.tunnels.is_none() {
        tags.push(detail.tunnels.names().join("/"));
    }
    let protocol = match stats.roce_version {
        0 => format!("InfiniBand, MTU {mtu}"),
        version => format!("RoCEv{version}, MTU {mtu}, DSCP {dscp}"),
    };
    (protocol, tags.join(", "))
}

fn lists(detail: &Detail, bars: bool) -> Vec<Line<'static>> {
    let packets = detail.stats.packets;
    let mut lines = vec![Line::styled(" opcodes", theme::DIM)];
    for opcode in detail.opcodes.iter().take(LISTED) {
        lines.push(counted(&opcode.name.to_string(), opcode.packets, packets, bars));
    }
    let ports = detail.ports.len();
    if ports > 0 {
        lines.push(Line::styled(format!(" source ports: {ports}"), theme::DIM));
        for port in detail.ports.iter().take(LISTED) {
            lines.push(counted(&port.port.to_string(), port.packets, packets, bars));
        }
    }
    lines
}

fn counted(name: &str, count: u64, all: u64, bars: bool) -> Line<'static> {
    let share = if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let mut spans = Spans::default();
    spans.push(format!(" {:>6} ", compact(count as f64)), theme::BOLD);
    if bars {
        spans.push(format!("{} ", bar(share, 5)), theme::BAR);
    }
    spans.push(name, theme::PLAIN);
    spans.into_line()
}
