//! Training steps, bursts and traffic pattern.

use crate::analysis::traffic::{OperationShare, Pattern, StepParts, StepStraggler, StepTrend, Steps};
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::util::layout::{Align, Table, labelled};
use crate::util::numbers::share;
use crate::util::units::{self, plural};

/// Width of the labels at the left.
const LABEL: usize = 10;
/// Host pairs listed.
const MAX_PAIRS: usize = 6;

/// Share of a port's data in steps below which these show a part of the run.
const MOST_DATA: f64 = 0.6;

/// Reason why a recording has no bursts.
pub(crate) const BURSTS_NOT_RECORDED: &str = "not recorded, nor incast and the traffic pattern";

/// Steps and pattern of the job.
pub(super) fn job(report: &Report, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |label: &str, text: &str| lines.extend(labelled(label, LABEL, text, room));
    if let Some(steps) = &report.facts.steps {
        say("Steps", &steps_of(steps));
        for (label, text) in
            parts_of(steps).map(|parts| ("Each step", parts)).into_iter().chain(trend_in_words(steps))
        {
            say(label, &text);
        }
        if let Some(straggler) = &steps.straggler {
            say("Straggler", &straggler_of(straggler));
        }
    }
    if let Some(why) = report.facts.steps_absent {
        say("Steps", &format!("none: {why}"));
    }
    if report.facts.is_recording() {
        say("Bursts", BURSTS_NOT_RECORDED);
    }
    if let Some(pattern) = report.facts.pattern.as_ref().filter(|pattern| pattern.hosts > 0) {
        say("Pattern", &pattern_of(pattern, report.facts.totals.counted_again.taps));
    }
    lines
}

/// Trend and cost of the steps, each with its label; none where no trend is known.
pub(crate) fn trend_in_words(steps: &Steps) -> Vec<(&'static str, String)> {
    let of = |trend: &StepTrend| vec![("Trend", trend.in_words()), ("Time lost", lost_of(trend))];
    steps.trend.as_ref().map_or_else(Vec::new, of)
}

/// Step times, and until when they hold.
fn steps_of(steps: &Steps) -> String {
    let over = if steps.are_over() {
        format!("; other traffic since {} UTC", units::second_utc(steps.last_ns))
    } else {
        String::new()
    };
    let part = if steps.explained_ratio < MOST_DATA {
        format!("; {} of the data is in none", units::ratio(Some(1.0 - steps.explained_ratio)))
    } else {
        String::new()
    };
    format!(
        "{} of {} (median; p10 {}, p90 {}, jitter {}), {} each on {}, {}{part}{over}",
        plural(steps.count, "step"),
        units::duration(steps.period_ns),
        units::duration(steps.period_p10_ns),
        units::duration(steps.period_p90_ns),
        units::ratio(Some(steps.jitter_ratio)),
        units::bytes(steps.step_bytes),
        link_name(&steps.link, steps.direction),
        units::span_utc(steps.first_ns, steps.last_ns),
    )
}

/// The parts of a step's time, and the upper bound of the gain from a faster network.
fn parts_of(steps: &Steps) -> Option<String> {
    let StepParts { period_ns, transfer_ns, wait_ns, compute_ns } = steps.parts?;
    let gain_ns = steps.faster_network_ns?;
    let part = |ns| match ns {
        0 => "none".to_owned(),
        ns => format!("{} ({})", units::duration(ns), units::ratio(Some(share(ns, period_ns)))),
    };
    Some(format!(
        "mean of the middle half {}: transfer {}, waiting within the step {}, no traffic until the next {} (mostly computing). A network twice as fast gains at \
         most {}, less where transfers overlap with computing",
        units::duration(period_ns),
        part(transfer_ns),
        part(wait_ns),
        part(compute_ns),
        part(gain_ns)
    ))
}

/// The cost of slower and long steps.
fn lost_of(trend: &StepTrend) -> String {
    let StepTrend { fastest, lost_ns, lost_ratio, long_steps, long_ns, .. } = trend;
    let long = match long_steps {
        0 => String::new(),
        n => format!(", {} in {}", units::duration(*long_ns), plural(*n, "single long step")),
    };
    if *lost_ns == 0 {
        return format!("none, compared with the fastest {} consecutive steps", units::count(fastest.steps));
    }
    format!(
        "{} ({}) against {} in the fastest {} steps in a row{long}",
        units::duration(*lost_ns),
        units::ratio(Some(*lost_ratio)),
        units::duration(fastest.period_ns),
        units::count(fastest.steps)
    )
}

fn straggler_of(straggler: &StepStraggler) -> String {
    let words = straggler.in_words();
    format!(
        "{}, {}",
        words.strip_prefix("Straggler ").unwrap_or(&words),
        units::span_utc(straggler.since_ns, straggler.until_ns)
    )
}

fn pattern_of(pattern: &Pattern, taps: u64) -> String {
    let shape = match pattern.shape {
        Some("all_to_all") => "all to all",
        Some(shape) => shape,
        None => "no known communication pattern",
    };
    let once = |one: &OperationShare| one.messages.saturating_sub(one.counted_again.unwrap_or(0));
    let kinds: Vec<String> = (pattern.operations.iter().flatten())
        .filter(|one| one.messages > 0)
        .map(|one| format!("{} {}", units::count(once(one)), one.operation.to_uppercase()))
        .collect();
    let each = pattern.operations.iter().flatten().any(|one| one.counted_again.is_none());
    let messages = if kinds.is_empty() { "none complete".to_owned() } else { kinds.join(", ") };
    let data = pattern.matrix.iter().filter(|cell| cell.data_bytes > 0);
    let pairs: Vec<String> = (data.clone().take(MAX_PAIRS))
        .map(|cell| format!("{} → {} {}", cell.src, cell.dst, units::bytes(cell.data_bytes)))
        .collect();
    let more = match data.count().saturating_sub(MAX_PAIRS) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let at_each = if taps > 1 && each { " (counted once per tap)" } else { "" };
    let data = if pairs.is_empty() { String::new() } else { format!("; data: {}{more}", pairs.join(", ")) };
    let left_out = left_out(pattern.left_out_packets + pattern.matrix_left_out_packets)
        .map_or_else(String::new, |text| format!("; {text}"));
    format!("{shape} among {}; messages: {messages}{at_each}{data}{left_out}", plural(pattern.hosts, "host"))
}

/// Packets that a table leaves out.
fn left_out(packets: u64) -> Option<String> {
    (packets > 0).then(|| format!("{} without a flow left out", plural(packets, "packet")))
}

/// Bursts of each link.
pub(super) fn bursts(report: &Report, room: usize) -> Vec<String> {
    let Some(bursts) = report.facts.bursts.as_ref().filter(|bursts| !bursts.is_empty()) else {
        return Vec::new();
    };
    let mut table = Table::new(vec![
        ("LINK", Align::Left),
        ("BUSY", Align::Right),
        ("PEAK", Align::Right),
        ("PEAK/MEAN", Align::Right),
        ("BURSTS", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("SENDERS", Align::Right),
    ]);
    for burst in bursts {
        let own = report.facts.incast.iter().flatten();
        let senders = own.filter(|one| one.link == burst.link && one.direction == burst.direction);
        let rate = burst.peak_bytes as f64 * 8e9 / burst.bin_ns as f64;
        table.row(vec![
            link_name(&burst.link, burst.direction),
            units::ratio(Some(burst.duty_cycle)),
            units::bit_rate(rate),
            format!("{:.1}", burst.peak_to_mean),
            units::count(burst.bursts),
            units::duration(burst.length_p50_ns),
            units::duration(burst.length_p99_ns),
            senders.map(|one| one.senders_max).max().map_or_else(|| units::UNKNOWN.into(), units::count),
        ]);
    }
    let mut lines = table.lines(room);
    if let Some(text) = left_out(bursts.iter().map(|burst| burst.left_out_packets).sum()) {
        lines.extend(labelled("", 0, &format!("Bursts and senders: {text}."), room));
    }
    lines
}
