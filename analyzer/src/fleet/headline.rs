//! Headlines: a sentence about the most important row, or about what was looked at if nothing stands out.

use super::answer::{cell, ratio};
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

/// A sentence that names the culprit. `None`: nothing stands out.
pub(super) fn headline(question: Question, rows: &[Row]) -> Option<String> {
    let most = |name: &'static str| {
        let known = rows.iter().filter(|row| number(row, name).is_some_and(|z| z >= STANDS_OUT));
        known.max_by(|a, b| number(a, name).unwrap_or(0.0).total_cmp(&number(b, name).unwrap_or(0.0)))
    };
    let row = match question {
        Question::Timeline => most("worst_z"),
        Question::Jobs => most("z"),
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
        1 => format!("in the only {} {}", of.0, if is_of_device(row) { "of it" } else { "through it" }),
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
            "CE" => ratio(value),
            "traffic" => units::bit_rate(value * 8.0),
            "timeouts" => units::count(whole(value)),
            _ => plural(whole(value), "packet"),
        }
    };
    let what = match metric {
        "traffic" => "traffic unusually low".to_owned(),
        "timeouts" => "number of timeouts unusually high".to_owned(),
        _ => format!("{} unusually high", plain(metric)),
    };
    let host = match text(row, "worst_host") {
        "" => String::new(),
        _ => format!(", highest at {}", shown("worst_host")),
    };
    format!(
        "{} UTC: {what}, {} against a median of {} (z {}){host}",
        shown("unix_s"),
        figure("worst_figure"),
        figure("worst_usual"),
        shown("worst_z"),
    )
}

/// The headline if no row stands out: what was compared, and what is not known.
pub(super) fn nothing(question: Question, seen: &Coverage) -> String {
    match question {
        Question::Slow => slow(seen),
        Question::Loss => loss(seen),
        Question::Balance => {
            format!("No link, rail or plane carries more than {UNEVEN} × the mean of those parallel to it")
        }
        Question::Jobs if !seen.has_figure => {
            "Nothing is known of the jobs: no flow was recorded, and no context of a queue pair that shows retries".to_owned()
        }
        Question::Jobs => {
            "No job stands out in loss, retransmission, CE marks, stalls, waits, retries or step growth"
                .to_owned()
        }
        Question::Stragglers => match &seen.upstream_of {
            Some((waiting, hosts, name)) => format!(
                "No straggler is known: {waiting} of {} {} for {} or for a host upstream of it",
                plural(*hosts, "other host"),
                if *waiting == 1 { "waits" } else { "wait" },
                plain(name)
            ),
            None => "No host makes others of its job wait".to_owned(),
        },
        Question::Timeline => "No slot stands out".to_owned(),
    }
}

fn slow(seen: &Coverage) -> String {
    if seen.compared == 0 {
        return format!(
            "Nothing to compare with: a median takes {COMPARED} pairs of ports or devices of one job, and no job has more than {}",
            seen.most
        );
    }
    let alone = match seen.alone {
        0 => String::new(),
        1 => "; 1 job has too few pairs of ports to compare".to_owned(),
        jobs => format!("; {jobs} jobs have too few pairs of ports to compare"),
    };
    format!("No link, host, switch, path or rail exceeds the median of its job{alone}")
}

fn loss(seen: &Coverage) -> String {
    let least = ratio(Limits::default().loss.ratio);
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::answer::Answer;
    use crate::fleet::answer::tests::row;

    fn summary() -> Row {
        row(
            json!({"readings": 3600, "flow_readings": "3600", "hosts": 60, "jobs": "3", "first_ms": 1_763_800_000_000_u64, "last_ms": "1763800060500"}),
        )
    }

    #[test]
    fn the_culprit_comes_first_with_its_figure() {
        let found = row(json!({
            "scope": "switches", "direction": "ingress", "place": "l1 + l2", "busiest": "plane 1", "busiest_ratio": 1.9,
            "idlest": "plane 2", "idlest_ratio": "0.1", "agree": "20", "of_hosts": 20, "misplaced": "578653607169",
        }));
        let answer = Answer::of(Question::Balance, vec![summary(), found.clone(), found.clone()], 1).unwrap();
        assert_eq!(
            answer.headline,
            "Ingress traffic of the hosts at l1 + l2: plane 1 carries 1.90 × the mean of the planes, plane 2 0.10 ×; plane 1 carries most on 20 of 20 hosts. Confidence: high"
        );
        for (scope, busiest, idlest, expected) in [
            ("planes", 1.25, 0.75, "plane 2 carries 0.75 × the mean of the planes, plane 1 1.25 ×"),
            ("planes", 1.25, 0.25, "plane 2 carries 0.25 × the mean of the planes, plane 1 1.25 ×"),
            ("planes", 1.6, 0.8, "plane 1 carries 1.60 × the mean of the planes, plane 2 0.80 ×"),
            ("links of a host", 1.2, 0.1, "plane 2 carries 0.10 × the mean of the links, plane 1 1.20 ×"),
        ] {
            let mut other = found.clone();
            let changes =
                [("scope", json!(scope)), ("busiest_ratio", json!(busiest)), ("idlest_ratio", json!(idlest))];
            other.extend(changes.map(|(name, value)| (name.to_owned(), value)));
            let headline = Answer::of(Question::Balance, vec![summary(), other], 1).unwrap().headline;
            assert!(headline.contains(expected), "{scope}: {headline}");
        }
        assert_eq!((answer.rows.len(), answer.left_out), (1, 1));
        assert_eq!(answer.rows[0]["idlest_ratio"], json!(0.1));
        assert!(
            answer.scope.starts_with(
                "60 hosts, 3 jobs, 3,600 readings, 2025-11-22 08:26:40 to 2025-11-22 08:27:40.500 UTC"
            ),
            "{}",
            answer.scope
        );
    }

    #[test]
    fn few_jobs_have_no_median_and_a_job_may_have_no_name() {
        let found = row(
            json!({"job_name": "", "problem": "loss", "figure": 0.0095, "usual": null, "z": 3e4, "host_count": 2}),
        );
        let of = |row: Row| Answer::of(Question::Jobs, vec![summary(), row], 10).unwrap().headline;
        assert_eq!(
            of(found.clone()),
            "Hosts without a job name: loss 0.95 %, on 2 hosts; no median to compare with, as fewer than three jobs have this figure. Confidence: low"
        );
        let mut several = found;
        several.extend([("job_name".to_owned(), json!("a")), ("usual".to_owned(), json!(0.0))]);
        assert_eq!(of(several), "Job a: loss 0.95 %, against a median of 0 %, on 2 hosts. Confidence: high");
        let straggler = row(
            json!({"straggler": "node31", "job_name": "", "named_by": 0, "late_seconds": 0, "quiet_seconds": 0, "rnr_wait_ns": 5e9}),
        );
        let answer = Answer::of(Question::Stragglers, vec![summary(), straggler], 10).unwrap();
        assert!(
            answer
                .headline
                .starts_with("Straggler node31 without a job name: its senders wait 5.00 s in all"),
            "{}",
            answer.headline
        );
        assert!(answer.rows[0]["named_by"].is_null() && answer.rows[0]["late_seconds"].is_null());
    }

    #[test]
    fn a_straggler_is_named_with_its_evidence() {
        let found = row(json!({
            "straggler": "node31", "job_name": "j", "named_by": 19, "of_hosts": 19, "behind_ns": 2e9, "step_ns": 6e9, "step_ratio": 0.5,
            "late_seconds": 0, "quiet_seconds": 10, "rnr_wait_ns": 0,
        }));
        let answer = Answer::of(Question::Stragglers, vec![summary(), found], 10).unwrap();
        assert_eq!(
            answer.headline,
            "Straggler node31 of job j: 19 of 19 other hosts wait 2.00 s for it in 50.0 % of the steps (6.00 s each). Confidence: high"
        );
        // No interval in which it sends alone of ten quiet ones, and nothing known of its receive buffers.
        let shown = ["named_by", "late_seconds", "quiet_seconds", "rnr_wait_ns"]
            .map(|name| answer.rows[0][name].clone());
        assert_eq!(shown, [json!(19), json!(0), json!(10), json!(null)]);
    }

    #[test]
    fn quiet_data_has_no_culprit_and_no_data_is_an_error() {
        for question in [Question::Slow, Question::Loss, Question::Balance, Question::Stragglers] {
            let answer = Answer::of(question, vec![summary()], 10).unwrap();
            assert_eq!(answer.headline, nothing(question, &Coverage::default()));
        }
        let calm = row(json!({"job_name": "j", "problem": "loss", "z": 4.9}));
        let of_jobs = |row: Row| Answer::of(Question::Jobs, vec![summary(), row], 10).unwrap().headline;
        assert!(of_jobs(calm).starts_with("Nothing is known of the jobs"));
        let calm = row(json!({"job_name": "j", "problem": "loss", "figure": 0, "z": 4.9}));
        assert!(of_jobs(calm).starts_with("No job stands out"));
        let empty = row(json!({"readings": 0}));
        assert!(Answer::of(Question::Slow, vec![empty], 10).unwrap_err().contains("--from"));
        assert!(Answer::of(Question::Slow, Vec::new(), 10).is_err());
        let devices = row(
            json!({"readings": 8, "flow_readings": 0, "hosts": 1, "jobs": 0, "first_ms": 1, "last_ms": 2}),
        );
        assert!(
            Answer::of(Question::Timeline, vec![devices.clone()], 10)
                .unwrap_err()
                .contains("`balance` and `jobs`")
        );
        assert!(Answer::of(Question::Loss, vec![devices.clone()], 10).is_ok());
        let mut without_bytes = devices;
        without_bytes.insert("byte_readings".to_owned(), json!("0"));
        assert!(
            Answer::of(Question::Balance, vec![without_bytes], 10).unwrap_err().contains("no bytes of links")
        );
    }

    /// A row of a pair of ports, as the SQL gives it.
    fn pair(metric: &str, job: &str, pairs: u64, is_bad: u8) -> Row {
        row(json!({
            "metric": metric, "scope": "link", "breadth": 1, "side": "to", "hop": "10.0.0.2", "bad_pairs": is_bad, "pairs": 1,
            "hop_z": 60, "job": job, "direction": null, "src": "10.0.0.1", "dst": "10.0.0.2", "readings": 1, "weight": "1",
            "bounded": 1, "peers": pairs, "pairs_of_job": pairs, "figure": 0.02, "usual": 0, "z": 60, "is_bad": is_bad, "score": 1,
        }))
    }

    fn said(question: Question, rows: Vec<Row>) -> String {
        Answer::of(question, [vec![summary()], rows].concat(), 10).unwrap().headline
    }

    #[test]
    fn what_is_not_known_is_not_called_healthy() {
        let loss = |rows| said(Question::Loss, rows);
        assert_eq!(
            loss(vec![pair("retransmitted", "j", 1, 0)]),
            "Losses are not known: 1 port pair without a tap at the receiver; no retransmissions stand out"
        );
        assert_eq!(
            loss(vec![pair("retransmitted", "j", 2, 0), pair("loss", "j", 3, 0), pair("loss", "j", 3, 0)]),
            "No pair of ports loses more than 0.01 % of its packets, as far as known: of 2 of 5 port pairs, no tap is known to be at the receiver"
        );
        assert_eq!(
            loss(vec![pair("loss", "j", 3, 0)]),
            "No pair of ports loses more than 0.01 % of its packets"
        );
        assert_eq!(loss(Vec::new()), "Losses are not known: no flow's PSNs are tracked");
        assert_eq!(
            loss(vec![pair("out of sequence (device)", "j", 3, 0)]),
            "No device receives more than 0.01 % of its packets out of sequence"
        );
        assert_eq!(
            loss(vec![pair("out of sequence (device)", "j", 3, 0), pair(cover::RETRIES, "j", 6, 0)]),
            "No device receives more than 0.01 % of its packets out of sequence, and retries of queue pairs stand out on none of 6 port pairs"
        );
    }

    #[test]
    fn few_pairs_have_nothing_to_compare_with() {
        let slow = |rows| said(Question::Slow, rows);
        assert_eq!(
            slow(vec![pair("latency", "j", 2, 0), pair("CE", "j", 1, 0)]),
            "Nothing to compare with: a median takes 4 pairs of ports or devices of one job, and no job has more than 2"
        );
        assert_eq!(
            slow(vec![pair("latency", "j", 2, 0), pair("latency", "k", 4, 0), pair("CE", "k", 1, 0)]),
            "No link, host, switch, path or rail exceeds the median of its job; 1 job has too few pairs of ports to compare"
        );
        assert_eq!(
            slow(vec![pair("CE", "j", 1, 1)]),
            "Link to 10.0.0.2: CE 2.00 %, in the only pair of ports through it; fewer than 4 port pairs in the job, so no median to compare with. Confidence: low"
        );
        assert!(
            slow(vec![pair("CE", "", 1, 1)])
                .contains("fewer than 4 port pairs without a job name, so no median"),
        );
        assert!(
            slow(vec![pair("CE", "j", 4, 1)])
                .starts_with("Link to 10.0.0.2: CE 2.00 %, against a job median of 0 %, in")
        );
        assert_eq!(
            said(Question::Loss, vec![pair("loss", "j", 4, 1)]),
            "Link to 10.0.0.2: at least 1 packet lost (2.00 %), in the only pair of ports through it. Confidence: low"
        );
    }

    #[test]
    fn a_host_that_is_only_downstream_of_the_straggler_is_not_named() {
        let found = row(json!({
            "straggler": "10.0.0.4", "job_name": "j", "named_by": 0, "of_hosts": 3, "behind_ns": null, "step_ns": null,
            "late_seconds": 0, "quiet_seconds": 0, "rnr_wait_ns": 0, "upstream_of": "1",
        }));
        let answer = Answer::of(Question::Stragglers, vec![summary(), found], 10).unwrap();
        assert_eq!(
            answer.headline,
            "No straggler is known: 1 of 3 other hosts waits for 10.0.0.4 or for a host upstream of it"
        );
        assert!(answer.rows.is_empty());
    }

    #[test]
    fn a_slot_is_named_with_its_time_figure_and_length() {
        let found = row(json!({
            "unix_s": 1_763_800_000.5, "slot_ns": 2e9, "whole_slot_ns": 5e9, "worst_metric": "traffic", "worst_z": 12,
            "worst_figure": 1e9, "worst_usual": 2e9, "worst_host": null,
        }));
        let of = |row: Row| Answer::of(Question::Timeline, vec![summary(), row], 10).unwrap();
        let answer = of(found.clone());
        assert_eq!(
            answer.headline,
            "2025-11-22 08:26:40.500 UTC: traffic unusually low, 8.00 Gb/s against a median of 16.0 Gb/s (z 12.0). Confidence: high"
        );
        assert!(answer.scope.ends_with(" UTC, in slots of 5.00 s"), "{}", answer.scope);
        let mut lost = found;
        lost.extend([("worst_metric".to_owned(), json!("loss")), ("worst_host".to_owned(), json!("n1"))]);
        lost.extend([("worst_figure".to_owned(), json!(1)), ("worst_usual".to_owned(), json!(0))]);
        let headline = of(lost).headline;
        assert!(
            headline.contains(
                ": loss unusually high, 1 packet against a median of 0 packets (z 12.0), highest at n1."
            ),
            "{headline}"
        );
    }
}
