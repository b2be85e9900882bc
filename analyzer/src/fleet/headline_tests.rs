use serde_json::{Value, json};

use super::*;
use crate::fleet::answer::Answer;
use crate::fleet::answer::tests::row;

fn summary() -> Row {
    row(
        json!({"readings": 3600, "all_rows": "3610", "flow_readings": "3600", "hosts": 60, "jobs": "3", "first_ms": 1_763_800_000_000_u64, "last_ms": "1763800060500"}),
    )
}

#[test]
fn the_culprit_comes_first_with_its_figure() {
    let found = row(json!({
        "scope": "switches", "direction": "ingress", "place": "l1 + l2", "busiest": "plane 1", "busiest_ratio": 1.9,
        "idlest": "plane 2", "idlest_ratio": "0.1", "agree": "20", "of_hosts": 20, "misplaced": "578653607169", "is_bad": 1,
    }));
    let answer =
        Answer::of(Question::Balance, vec![summary(), found.clone(), found.clone()], 1, &Limits::default())
            .unwrap();
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
        let headline =
            Answer::of(Question::Balance, vec![summary(), other], 1, &Limits::default()).unwrap().headline;
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
    let of =
        |row: Row| Answer::of(Question::Jobs, vec![summary(), row], 10, &Limits::default()).unwrap().headline;
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
    let answer =
        Answer::of(Question::Stragglers, vec![summary(), straggler], 10, &Limits::default()).unwrap();
    assert!(
        answer.headline.starts_with("Straggler node31 without a job name: its senders wait 5.00 s in all"),
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
    let answer = Answer::of(Question::Stragglers, vec![summary(), found], 10, &Limits::default()).unwrap();
    assert_eq!(
        answer.headline,
        "Straggler node31 of job j: 19 of 19 other hosts wait 2.00 s for it in 50.0 % of the steps (6.00 s each). Confidence: high"
    );
    // No interval in which it sends alone of ten quiet ones, and nothing known of its receive buffers.
    let shown =
        ["named_by", "late_seconds", "quiet_seconds", "rnr_wait_ns"].map(|name| answer.rows[0][name].clone());
    assert_eq!(shown, [json!(19), json!(0), json!(10), json!(null)]);
}

#[test]
fn quiet_data_has_no_culprit_and_no_data_is_an_error() {
    for question in [Question::Slow, Question::Loss, Question::Balance, Question::Stragglers] {
        let answer = Answer::of(question, vec![summary()], 10, &Limits::default()).unwrap();
        assert_eq!(answer.headline, nothing(question, &Coverage::default(), &Limits::default()));
    }
    let calm = row(json!({"job_name": "j", "problem": "loss", "z": 4.9}));
    let of_jobs =
        |row: Row| Answer::of(Question::Jobs, vec![summary(), row], 10, &Limits::default()).unwrap().headline;
    assert!(of_jobs(calm).starts_with("Nothing is known of the jobs"));
    let calm = row(json!({"job_name": "j", "problem": "loss", "figure": 0, "z": 4.9}));
    assert!(of_jobs(calm).starts_with("No job stands out"));
    let empty = row(json!({"readings": 0, "all_rows": 0}));
    assert!(Answer::of(Question::Slow, vec![empty], 10, &Limits::default()).unwrap_err().contains("--from"));
    let without_readings = row(json!({"readings": null, "all_rows": "2"}));
    assert!(Answer::of(Question::Timeline, vec![without_readings], 10, &Limits::default()).is_ok());
    assert!(Answer::of(Question::Slow, Vec::new(), 10, &Limits::default()).is_err());
    let devices = row(
        json!({"readings": 8, "all_rows": 8, "flow_readings": 0, "hosts": 1, "jobs": 0, "first_ms": 1, "last_ms": 2}),
    );
    assert!(
        Answer::of(Question::Stragglers, vec![devices.clone()], 10, &Limits::default())
            .unwrap_err()
            .contains("`timeline` has the time at which queue pairs stand still")
    );
    assert_eq!(
        Answer::of(Question::Timeline, vec![devices.clone()], 10, &Limits::default()).unwrap().headline,
        "No slot stands out"
    );
    assert!(Answer::of(Question::Loss, vec![devices.clone()], 10, &Limits::default()).is_ok());
    let mut without_bytes = devices;
    without_bytes.insert("byte_readings".to_owned(), json!("0"));
    assert!(
        Answer::of(Question::Balance, vec![without_bytes], 10, &Limits::default())
            .unwrap_err()
            .contains("no bytes of links")
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

fn headline_of(question: Question, rows: Vec<Row>) -> String {
    Answer::of(question, [vec![summary()], rows].concat(), 10, &Limits::default()).unwrap().headline
}

#[test]
fn what_is_not_known_is_not_called_healthy() {
    let loss = |rows| headline_of(Question::Loss, rows);
    assert_eq!(
        loss(vec![pair("retransmitted", "j", 1, 0)]),
        "Losses are not known: 1 port pair without a tap at the receiver; no retransmissions stand out"
    );
    assert_eq!(
        loss(vec![pair("retransmitted", "j", 2, 0), pair("loss", "j", 3, 0), pair("loss", "j", 3, 0)]),
        "No pair of ports loses more than 0.01 % of its packets, as far as known: of 2 of 5 port pairs, no tap is known to be at the receiver"
    );
    assert_eq!(loss(vec![pair("loss", "j", 3, 0)]), "No pair of ports loses more than 0.01 % of its packets");
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
    let slow = |rows| headline_of(Question::Slow, rows);
    assert_eq!(
        slow(vec![pair("latency", "j", 2, 0), pair("CE", "j", 1, 0)]),
        "Nothing to compare with: a median takes 4 pairs of ports or devices of one job, and no job has more than 2; CE marks, retransmissions and retries need none, and of those that were recorded none stands out"
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
        slow(vec![pair("CE", "", 1, 1)]).contains("fewer than 4 port pairs without a job name, so no median"),
    );
    assert!(
        slow(vec![pair("CE", "j", 4, 1)])
            .starts_with("Link to 10.0.0.2: CE 2.00 %, against a job median of 0 %, in")
    );
    assert_eq!(
        headline_of(Question::Loss, vec![pair("loss", "j", 4, 1)]),
        "Link to 10.0.0.2: at least 1 packet lost (2.00 %), in the only pair of ports through it. Confidence: low"
    );
}

/// More than half of the pairs retransmit: none exceeds the median, and yet not all is well.
#[test]
fn a_median_that_is_itself_high_is_named() {
    let usual = |metric: &str, job: &str, pairs: u64, usual: f64| {
        let mut row = pair(metric, job, pairs, 0);
        row.insert("usual".to_owned(), json!(usual));
        row
    };
    let slow = |rows| headline_of(Question::Slow, rows);
    assert_eq!(
        slow(vec![
            usual("CE", "j", 4, 0.012),
            usual("retransmission", "k", 4, 0.02),
            usual("latency", "j", 4, 5e6)
        ]),
        "No link, host, switch, path or rail exceeds the median of its job; but the median of job k is itself high: retransmission 2.00 %"
    );
    assert!(!slow(vec![usual("CE", "j", 4, 0.009)]).contains("itself high"));
    // What stands in for the median of fewer is none.
    assert!(
        !slow(vec![usual("retransmission", "j", 3, 0.02), pair("CE", "j", 4, 0)]).contains("itself high")
    );
}

#[test]
fn an_answer_without_anything_parallel_is_not_called_even() {
    let even = row(json!({"scope": "planes", "busiest_ratio": 1.01, "is_bad": 0}));
    let balance = |rows| headline_of(Question::Balance, rows);
    assert!(balance(vec![even]).starts_with("No link, rail or plane carries more than 1.1 ×"));
    assert!(balance(Vec::new()).starts_with("Nothing to compare with: no host has two links"));
}

#[test]
fn rows_of_a_clock_that_is_far_off_are_counted_and_left_out() {
    let mut some = summary();
    some.insert("unset_rows".to_owned(), json!("12"));
    let of = |row: &Row| Answer::of(Question::Slow, vec![row.clone()], 10, &Limits::default());
    let scope = of(&some).unwrap().scope;
    assert!(scope.ends_with(" UTC; left out: 12 rows of before 2010, as from a host whose clock was not set: --from 1970-01-01T00:00:00Z selects it"), "{scope}");
    some.insert("ahead_rows".to_owned(), json!(1));
    let scope = of(&some).unwrap().scope;
    assert!(
        scope.ends_with("; 1 row of more than a day from now, as from a host whose clock is ahead: --to 2100-01-01T00:00:00Z selects it"),
        "{scope}"
    );
    some.insert("all_rows".to_owned(), json!(0));
    assert!(
        of(&some).unwrap_err().starts_with(
            "all that was recorded in this time range and job is left out: 12 rows of before 2010"
        )
    );
}

#[test]
fn a_host_that_is_only_downstream_of_the_straggler_is_not_named() {
    let found = row(json!({
        "straggler": "10.0.0.4", "job_name": "j", "named_by": 0, "of_hosts": 3, "behind_ns": null, "step_ns": null,
        "late_seconds": 0, "quiet_seconds": 0, "rnr_wait_ns": 0, "upstream_of": "1",
    }));
    let answer = Answer::of(Question::Stragglers, vec![summary(), found], 10, &Limits::default()).unwrap();
    assert_eq!(
        answer.headline,
        "No straggler is known: 1 of 3 other hosts waits for 10.0.0.4 or for a host upstream"
    );
    assert!(answer.rows.is_empty());
}

/// Its own record says for whom it waits, if steps are known, and not whether others wait for it.
#[test]
fn one_host_of_a_job_alone_is_not_called_healthy() {
    let of = |most_hosts: Value, step_hosts: u64| {
        let mut summary = summary();
        summary.insert("most_hosts".to_owned(), most_hosts);
        summary.insert("step_hosts".to_owned(), json!(step_hosts));
        Answer::of(Question::Stragglers, vec![summary], 10, &Limits::default()).unwrap().headline
    };
    let why =
        "no job has two hosts that were recorded at their own interfaces, whose traffic could be compared";
    for alone in [json!(1), json!("1"), Value::Null] {
        assert_eq!(of(alone.clone(), 0), format!("Nothing to compare with: no step is known, and {why}"));
        assert_eq!(of(alone, 1), format!("No recorded step waits for another host; {why}"));
    }
    assert_eq!(of(json!(2), 0), "No host makes others of its job wait");
}

#[test]
fn a_slot_is_named_with_its_time_figure_and_length() {
    let found = row(json!({
        "unix_s": 1_763_800_000.5, "slot_ns": 2e9, "whole_slot_ns": 5e9, "worst_metric": "traffic", "worst_z": 12,
        "worst_figure": 1e9, "worst_usual": 2e9, "worst_host": null,
    }));
    let of = |row: Row| Answer::of(Question::Timeline, vec![summary(), row], 10, &Limits::default()).unwrap();
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

#[test]
fn queue_pairs_that_died_come_first() {
    let job = |name: &str, problem: &str, z: f64| {
        row(json!({
            "job_name": name, "problem": problem, "figure": 0.05, "usual": null, "z": z, "host_count": 20, "qps_died": "16.0",
            "qps_stuck": 3,
        }))
    };
    let of = |rows: Vec<Row>| {
        Answer::of(Question::Jobs, [vec![summary()], rows].concat(), 10, &Limits::default()).unwrap()
    };
    let answer = of(vec![job("a", "loss", 1e6), job("b", DEATHS, 60.0)]);
    assert_eq!(
        answer.headline,
        "Job b: 16 queue pairs died (5.00 %), on 20 hosts; no median to compare with, as fewer than three jobs have this figure. Confidence: high"
    );
    assert!(
        of(vec![job("b", "stuck (QP)", 9.0)]).headline.starts_with("Job b: 3 queue pairs stuck (5.00 %), ")
    );
    assert!(of(vec![job("a", "loss", 1e6), job("b", DEATHS, 4.0)]).headline.starts_with("Job a: loss "));
    let slot = |metric: &str, z: f64, figure: f64, finding: Option<&str>| {
        row(json!({
            "unix_s": 1_763_800_000, "slot_ns": 1e9, "whole_slot_ns": 1e9, "worst_metric": metric, "worst_z": z, "worst_figure": figure,
            "worst_usual": 0, "worst_host": "n1", "worst_finding": finding,
        }))
    };
    let of = |rows: Vec<Row>| {
        Answer::of(Question::Timeline, [vec![summary()], rows].concat(), 10, &Limits::default()).unwrap()
    };
    let answer = of(vec![slot("retransmission", 1e5, 7e4, None), slot(DEATHS, 160.0, 16.0, Some("qp.died"))]);
    assert_eq!(
        answer.headline,
        "2025-11-22 08:26:40 UTC: number of queue pairs that died unusually high, 16 queue pairs against a median of 0 queue pairs (z 160.0), highest at n1; worst finding that began: qp.died. Confidence: high"
    );
    let stuck = of(vec![slot("stuck (QP)", 30.0, 0.02, None)]).headline;
    assert!(
        stuck.contains(": share of stuck queue pairs unusually high, 2.00 % against a median of 0 % (z 30.0), highest at n1."),
        "{stuck}"
    );
}

#[test]
fn hosts_without_packets_are_no_healthy_hosts() {
    let mut some = summary();
    some.insert("flow_hosts".to_owned(), json!("40"));
    let answer = Answer::of(Question::Stragglers, vec![some.clone()], 10, &Limits::default()).unwrap();
    assert!(
        answer.scope.ends_with(" UTC; 20 hosts not evaluated, as no packet of theirs was seen"),
        "{}",
        answer.scope
    );
    some.insert("flow_hosts".to_owned(), json!(60));
    assert!(
        Answer::of(Question::Stragglers, vec![some], 10, &Limits::default()).unwrap().scope.ends_with(" UTC")
    );
}
