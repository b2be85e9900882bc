//! Headlines: a sentence about the most important row, or about what was looked at if nothing stands out.

use super::cell::{cell, ratio};
use super::coverage::Coverage;
use super::question::{COMPARED, LATE, Question, STANDS_OUT, UNEVEN};
use super::{Row, cover, number, text, whole};
use crate::findings::Limits;
use crate::util::layout::plain;
use crate::util::units::{self, plural};

/// True if the figure is a device counter rather than a property of port pairs.
pub(super) fn is_of_device(row: &Row) -> bool {
    text(row, "metric").ends_with("(device)")
}

/// Problem of a job, or figure of a slot: queue pairs that died.
pub(super) const DEATHS: &str = "deaths (QP)";

/// A sentence that names the culprit. `None`: nothing stands out.
pub(super) fn headline(question: Question, rows: &[Row]) -> Option<String> {
    let most = |what: &'static str, z: &'static str| {
        let known = rows.iter().filter(|row| number(row, z).is_some_and(|z| z >= STANDS_OUT));
        // A queue pair that died ends its job, whatever else is unusual.
        let of = |row: &Row| (text(row, what) == DEATHS, number(row, z).unwrap_or(0.0));
        known.max_by(|a, b| {
            let ((died, z), (other_died, other_z)) = (of(a), of(b));
            died.cmp(&other_died).then(z.total_cmp(&other_z))
        })
    };
    let row = match question {
        Question::Timeline => most("worst_metric", "worst_z"),
        Question::Jobs => most("problem", "z"),
        _ => rows.first(),
    }?;
    let shown = |name: &str| {
        let column = question.columns().iter().find(|column| column.name == name);
        column.map_or_else(String::new, |column| cell(row, column))
    };
    let diagnosis = match question {
        Question::Slow | Question::Loss => hop(row, &shown),
        Question::Balance => balance(row, &shown),
        Question::Jobs => job(row, &shown),
        Question::Stragglers => straggler(row, &shown),
        Question::Timeline => slot(row, &shown),
    };
    let also = text(row, "or");
    let also = if also.is_empty() { String::new() } else { format!("; same evidence: {}", plain(also)) };
    Some(format!("{diagnosis}{also}. Confidence: {}", text(row, "confidence")))
}

fn count(row: &Row, name: &str) -> u64 {
    number(row, name).map_or(0, whole)
}

/// A word at the beginning of a sentence. Names of hosts and jobs never are one.
fn begin(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

/// The part that is furthest from the mean comes first.
fn balance(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let (first, other) = if idlest_deviates(row) { ("idlest", "busiest") } else { ("busiest", "idlest") };
    let ratio = |part: &str| shown(&format!("{part}_ratio"));
    let traffic = match text(row, "direction") {
        "egress" => "Egress traffic",
        "ingress" => "Ingress traffic",
        _ => "Traffic",
    };
    let (of, parts) = match text(row, "scope") {
        "links of a host" => (shown("place"), "links"),
        "rails of a host" => (shown("place"), "rails"),
        "switches" => (format!("the hosts at {}", shown("place")), "planes"),
        "rails" => ("all hosts".to_owned(), "rails"),
        _ => ("all hosts".to_owned(), "planes"),
    };
    let agree = match count(row, "of_hosts") {
        0 | 1 => String::new(),
        hosts => {
            format!("; {} carries most on {} of {}", shown("busiest"), shown("agree"), plural(hosts, "host"))
        }
    };
    format!(
        "{traffic} of {of}: {} carries {} the mean of the {parts}, {} {}{agree}",
        shown(first),
        ratio(first),
        shown(other),
        ratio(other),
    )
}

/// True if the idlest part is further from the mean than the busiest. Two parts are always equally far: of planes and
/// rails of all hosts it is then the idlest, as traffic leaves a bad one, while a hash that prefers one side does so at
/// single places.
fn idlest_deviates(row: &Row) -> bool {
    let (Some(busiest), Some(idlest)) = (number(row, "busiest_ratio"), number(row, "idlest_ratio")) else {
        return false;
    };
    let further = (1.0 - idlest) - (busiest - 1.0);
    let of_all = matches!(text(row, "scope"), "planes" | "rails");
    // Engines sum in another order, and round the last digits.
    let rounding = f64::from(f32::EPSILON);
    if of_all { further > -rounding } else { further > rounding }
}

fn job(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let name = match text(row, "job_name") {
        "" => "Hosts without a job name".to_owned(),
        _ => format!("Job {}", shown("job_name")),
    };
    let (problem, figure) = (text(row, "problem"), shown("figure"));
    let found = match problem {
        "stalls" => format!("stalls {figure} of the time (transport timeouts)"),
        "waits" => format!("waits {figure} of the time (RNR NAKs)"),
        "retries (QP)" => format!("retries in use in {figure} of the readings of its queue pairs"),
        "RNR retries (QP)" => format!("RNR retries in use in {figure} of the readings of its queue pairs"),
        DEATHS => format!("{} died ({figure})", plural(count(row, "qps_died"), "queue pair")),
        "stuck (QP)" => format!("{} stuck ({figure})", plural(count(row, "qps_stuck"), "queue pair")),
        "loss" if count(row, "all_timeouts") > 0 => format!("loss at least {figure}"),
        _ => format!("{} {figure}", plain(problem)),
    };
    let hosts = plural(count(row, "host_count"), "host");
    match number(row, "usual") {
        Some(_) => format!("{name}: {found}, against a median of {}, on {hosts}", shown("usual")),
        None => format!(
            "{name}: {found}, on {hosts}; no median to compare with, as fewer than three jobs have this figure"
        ),
    }
}

fn hop(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let at_least = if row.get("lower_bound").is_some_and(|bound| bound == true) { "at least " } else { "" };
    let is_known = number(row, "usual").is_some();
    let figure = match text(row, "metric") {
        "loss" => format!("{at_least}{} lost ({})", plural(count(row, "lost"), "packet"), shown("figure")),
        cover::RETRANSMITTED => {
            format!(
                "{} retransmitted ({}), losses not known",
                plural(count(row, "retransmitted"), "packet"),
                shown("figure")
            )
        }
        metric if is_known => {
            format!("{} {}, against a job median of {}", plain(metric), shown("figure"), shown("usual"))
        }
        metric => format!("{} {}", plain(metric), shown("figure")),
    };
    let of = if is_of_device(row) {
        ("device", "devices")
    } else {
        ("pair of ports", "pairs of ports through it")
    };
    let among = match count(row, "pairs") {
        1 => format!("in the only {} {}", of.0, if is_of_device(row) { "there" } else { "through it" }),
        _ => format!("in {} of {} {}", shown("bad_pairs"), shown("pairs"), of.1),
    };
    let alone = if is_known {
        String::new()
    } else {
        format!(
            "; fewer than {COMPARED} {}s {}, so no median to compare with",
            if is_of_device(row) { "device" } else { "port pair" },
            if text(row, "job").is_empty() { "without a job name" } else { "in the job" }
        )
    };
    format!("{} {}: {figure}, {among}{alone}", begin(&shown("scope")), shown("place"))
}

fn straggler(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let mut evidence = Vec::new();
    let waiting = count(row, "named_by");
    if waiting > 0 {
        evidence.push(format!(
            "{} of {} {} {} for it in {} of the steps ({} each)",
            waiting,
            plural(count(row, "of_hosts"), "other host"),
            if waiting == 1 { "waits" } else { "wait" },
            shown("behind_ns"),
            shown("step_ratio"),
            shown("step_ns")
        ));
    }
    if number(row, "late_seconds").is_some_and(|late| late > LATE) {
        evidence.push(format!(
            "sends alone in {} of {}",
            shown("late_seconds"),
            plural(count(row, "quiet_seconds"), "quiet interval")
        ));
    }
    if evidence.is_empty() {
        evidence.push(format!("its senders wait {} in all for its receive buffers", shown("rnr_wait_ns")));
    }
    let job = match text(row, "job_name") {
        "" => "without a job name".to_owned(),
        _ => format!("of job {}", shown("job_name")),
    };
    format!("Straggler {} {job}: {}", shown("straggler"), evidence.join("; "))
}

fn slot(row: &Row, shown: &dyn Fn(&str) -> String) -> String {
    let metric = text(row, "worst_metric");
    let figure = |name: &str| {
        let value = number(row, name).unwrap_or(0.0);
        match metric {
            "latency" => units::duration(whole(value)),
            "CE" | "retries (QP)" | "stuck (QP)" | "paused (device)" => ratio(value),
            "traffic" | "traffic (device)" => units::bit_rate(value * 8.0),
            "packets (QP)" => format!("{} packets/s", units::count(whole(value))),
            DEATHS => plural(whole(value), "queue pair"),
            "timeouts" | "timeouts (device)" | "set-up failures (QP)" | "critical findings" => {
                units::count(whole(value))
            }
            _ => plural(whole(value), "packet"),
        }
    };
    let what = match metric {
        "traffic" => "traffic unusually low".to_owned(),
        "traffic (device)" => "traffic that the NICs count unusually low".to_owned(),
        "packets (QP)" => "packets of queue pairs unusually few".to_owned(),
        "timeouts" => "number of timeouts unusually high".to_owned(),
        "timeouts (device)" => "number of timeouts that the NICs count unusually high".to_owned(),
        DEATHS => "number of queue pairs that died unusually high".to_owned(),
        "retries (QP)" => "share of queue pairs with retries in use unusually high".to_owned(),
        "stuck (QP)" => "share of stuck queue pairs unusually high".to_owned(),
        "paused (device)" => "time paused, as a share of that of one port, unusually high".to_owned(),
        "set-up failures (QP)" => "number of queue pairs whose set-up failed unusually high".to_owned(),
        "critical findings" => "number of critical findings that began unusually high".to_owned(),
        _ => format!("{} unusually high", plain(metric)),
    };
    let host = match text(row, "worst_host") {
        "" => String::new(),
        _ => format!(", highest at {}", shown("worst_host")),
    };
    let finding = match text(row, "worst_finding") {
        "" => String::new(),
        _ => format!("; worst finding that began: {}", shown("worst_finding")),
    };
    format!(
        "{} UTC: {what}, {} against a median of {} (z {}){host}{finding}",
        shown("unix_s"),
        figure("worst_figure"),
        figure("worst_usual"),
        shown("worst_z"),
    )
}

/// Why nobody is named for sending while others are silent.
const ALONE: &str =
    "no job has two hosts that were recorded at their own interfaces, whose traffic could be compared";

/// The headline if no row stands out: what was compared, and what is not known.
pub(super) fn nothing(question: Question, seen: &Coverage, limits: &Limits) -> String {
    match question {
        Question::Slow => slow(seen),
        Question::Loss => loss(seen, limits),
        Question::Balance if !seen.has_parallel => {
            "Nothing to compare with: no host has two links of a rail, two rails or two planes with traffic in the same direction"
                .to_owned()
        }
        Question::Balance => {
            format!("No link, rail or plane carries more than {UNEVEN} × the mean of those parallel to it")
        }
        Question::Jobs if !seen.has_figure => {
            "Nothing is known of the jobs: no flow was recorded, and no context of a queue pair that shows retries".to_owned()
        }
        Question::Jobs => {
            "No job stands out in loss, retransmission, CE marks, stalls, waits, retries, queue pairs that died or are stuck, or step growth"
                .to_owned()
        }
        Question::Stragglers => match &seen.upstream_of {
            Some((waiting, hosts, name)) => format!(
                "No straggler is known: {waiting} of {} {} for {} or for a host upstream",
                plural(*hosts, "other host"),
                if *waiting == 1 { "waits" } else { "wait" },
                plain(name)
            ),
            None => match seen.steps_alone {
                None => "No host makes others of its job wait".to_owned(),
                Some(0) => format!("Nothing to compare with: no step is known, and {ALONE}"),
                Some(_) => format!("No recorded step waits for another host; {ALONE}"),
            },
        },
        Question::Timeline => "No slot stands out".to_owned(),
    }
}

fn slow(seen: &Coverage) -> String {
    if seen.compared == 0 {
        return format!(
            "Nothing to compare with: a median takes {COMPARED} pairs of ports or devices of one job, and no job has more than {}; CE marks, retransmissions and retries need none, and of those that were recorded none stands out",
            seen.most
        );
    }
    let alone = match seen.alone {
        0 => String::new(),
        1 => "; 1 job has too few pairs of ports to compare".to_owned(),
        jobs => format!("; {jobs} jobs have too few pairs of ports to compare"),
    };
    let high = seen.high.as_ref().map_or_else(String::new, |(metric, median, job)| {
        let of = if job.is_empty() {
            "of hosts without a job name".to_owned()
        } else {
            format!("of job {}", plain(job))
        };
        format!("; but the median {of} is itself high: {} {}", plain(metric), ratio(*median))
    });
    format!("No link, host, switch, path or rail exceeds the median of its job{high}{alone}")
}

fn loss(seen: &Coverage, limits: &Limits) -> String {
    let least = ratio(limits.loss.ratio);
    let all = seen.known + seen.unknown;
    match (seen.known, seen.unknown, seen.devices) {
        (0, 0, devices) => {
            let of_devices = (devices > 0)
                .then(|| format!("no device receives more than {least} of its packets out of sequence"));
            let of_paths = (seen.contexts > 0).then(|| {
                format!("retries of queue pairs stand out on none of {}", plural(seen.contexts, "port pair"))
            });
            match [of_devices, of_paths].into_iter().flatten().collect::<Vec<_>>().as_slice() {
                [] => "Losses are not known: no flow's PSNs are tracked".to_owned(),
                known => begin(&known.join(", and ")),
            }
        }
        (0, unknown, _) => format!(
            "Losses are not known: {} without a tap at the receiver; no retransmissions stand out",
            plural(unknown, "port pair")
        ),
        (_, 0, _) => format!("No pair of ports loses more than {least} of its packets"),
        (_, unknown, _) => format!(
            "No pair of ports loses more than {least} of its packets, as far as known: of {unknown} of {}, no tap is known to be at the receiver",
            plural(all, "port pair")
        ),
    }
}

#[cfg(test)]
#[path = "headline_tests.rs"]
mod tests;
