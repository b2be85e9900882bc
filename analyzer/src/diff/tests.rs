use serde_json::{Value, json};

use super::{State, Verdict, diff, text};
use crate::util::style::Paint;

fn report(seconds: u64, bytes: u64, ce: f64, findings: &[(&str, &str)]) -> Value {
    let findings: Vec<Value> = findings
        .iter()
        .map(|(id, severity)| json!({ "id": id, "severity": severity, "title": format!("about {id}") }))
        .collect();
    json!({
        "schema": "rocescope.report/1",
        "source": { "kind": "replay", "inputs": ["x.pcap"] },
        "window": { "first_ns": 0, "last_ns": seconds * 1_000_000_000 },
        "totals": {
            "roce_packets": bytes / 1000, "roce_bytes": bytes, "cnp_packets": 0, "ce_ratio": ce,
            "lost": { "flow_table_full": 0, "capture_drops": null, "interface_drops": null },
        },
        "flows": [{
            "src": "10.0.0.1", "dst": "10.0.0.2", "dest_qp": 17, "packets": bytes / 1000, "bytes": bytes,
            "payload_bytes": bytes, "ecn": { "not_ect": 0, "ect1": 0, "ect0": 90, "ce": 10 }, "ce_ratio": ce,
            "opcodes": [{ "code": 7, "packets": bytes / 1000 }],
            "ack": { "acks": 10, "rnr_naks": 0, "naks": { "psn_sequence_error": 0 } },
            "psn": { "missing": 0, "repeats": 0 }, "psn_responses": null,
            "latency_ns": { "count": 100, "p50": 5000, "p99": 20000 },
        }],
        "entropy": { "effective_flows": 1.0 },
        "imbalance": [],
        "findings": findings,
    })
}

fn verdict(a: &Value, b: &Value, name: &str) -> Option<Verdict> {
    diff(("a", a), ("b", b)).metrics.iter().find(|change| change.name == name).unwrap().verdict
}

#[test]
fn a_run_is_the_same_as_itself() {
    let a = report(10, 1_000_000, 0.01, &[("ecn.congestion", "warning")]);
    let same = diff(("a", &a), ("b", &a));
    assert!(
        same.metrics.iter().all(|change| matches!(change.verdict, None | Some(Verdict::Same))),
        "{same:?}"
    );
    assert!(same.findings.iter().all(|finding| finding.verdict == Some(Verdict::Same)));
    assert_eq!(same.hosts, []);
}

#[test]
fn two_taps_of_one_run_are_known_by_their_flows_and_times() {
    let mut a = report(10, 1_000_000, 0.0, &[]);
    assert!(!diff(("a", &a), ("b", &a)).same_traffic, "one capture");
    a["source"]["inputs"] = json!(["y.pcap"]);
    let said = |b: &Value| {
        let diff = diff(("a", &a), ("b", b));
        let text = text(&diff, 80, Paint::PLAIN);
        assert_eq!(text.contains("A and B are of the same traffic"), diff.same_traffic);
        assert_eq!(text.contains("not two runs"), diff.same_traffic);
        diff.same_traffic
    };
    assert!(said(&report(9, 900_000, 0.0, &[])));
    assert!(!said(&report(30, 1_000_000, 0.0, &[])), "a third of its time");
    let mut other = report(10, 1_000_000, 0.0, &[]);
    other["flows"][0]["dest_qp"] = json!(18);
    assert!(!said(&other), "other queue pairs");
    other = report(10, 1_000_000, 0.0, &[]);
    other["window"] = json!({ "first_ns": 20_000_000_000_u64, "last_ns": 30_000_000_000_u64 });
    assert!(!said(&other), "later");
}

#[test]
fn rates_are_compared_and_not_sums() {
    let (a, b) = (report(10, 1_000_000, 0.0, &[]), report(20, 2_000_000, 0.0, &[]));
    assert_eq!(verdict(&a, &b, "roce_bits_per_second"), Some(Verdict::Same));
    let faster = report(10, 2_000_000, 0.0, &[]);
    assert_eq!(verdict(&a, &faster, "roce_bits_per_second"), Some(Verdict::Better));
    assert_eq!(verdict(&faster, &a, "roce_bits_per_second"), Some(Verdict::Worse));
    let nearly = report(10, 1_040_000, 0.0, &[]);
    assert_eq!(
        verdict(&a, &nearly, "roce_bits_per_second"),
        Some(Verdict::Same),
        "4 % is what runs differ by"
    );
}

#[test]
fn a_capture_that_shows_packets_twice_is_the_same_run() {
    let once = report(10, 1_000_000, 0.01, &[]);
    let mut twice = report(10, 2_000_000, 0.01, &[]);
    let copied = json!({
        "packets": 1000, "bytes": 1_000_000, "payload_bytes": 1_000_000, "cnp_packets": 0, "rnr_naks": 0, "naks": 0,
        "repeats": 1000,
    });
    twice["totals"]["copied"] = copied.clone();
    twice["flows"][0]["copied"] = copied;
    twice["flows"][0]["psn"]["repeats"] = 1000.into();
    let compared = diff(("once", &once), ("twice", &twice));
    for change in compared.metrics.iter().filter(|change| change.verdict.is_some()) {
        assert_eq!(change.verdict, Some(Verdict::Same), "{change:?}");
    }
    assert!(compared.hosts.is_empty(), "{:?}", compared.hosts);
    twice["flows"][0]["copied"]["repeats"] = 990.into();
    assert_eq!(verdict(&once, &twice, "retransmitted_ratio"), Some(Verdict::Worse), "10 are retransmissions");
}

#[test]
fn more_marks_are_worse() {
    let (a, b) = (report(10, 1_000_000, 0.0, &[]), report(10, 1_000_000, 0.1, &[]));
    assert_eq!(verdict(&a, &b, "ce_ratio"), Some(Verdict::Worse));
    assert_eq!(verdict(&b, &a, "ce_ratio"), Some(Verdict::Better));
}

#[test]
fn what_one_report_does_not_have_is_unknown() {
    let a = report(10, 1_000_000, 0.0, &[]);
    let old = json!({ "schema": "rocescope.report/1" });
    for change in diff(("a", &a), ("b", &old)).metrics {
        assert_eq!((change.b, change.verdict), (None, None), "{change:?}");
    }
    assert_eq!(diff(("a", &Value::Null), ("b", &Value::Null)).findings, []);
}

#[test]
fn findings_come_go_and_change() {
    let a = report(
        10,
        1_000_000,
        0.0,
        &[("loss.before_tap", "warning"), ("mtu.small", "info"), ("rnr.slow_receiver", "warning")],
    );
    let b = report(
        10,
        1_000_000,
        0.0,
        &[
            ("loss.before_tap", "critical"),
            ("entropy.low", "warning"),
            ("mtu.small", "info"),
            ("mtu.small", "info"),
        ],
    );
    let found: Vec<(String, Verdict)> = diff(("a", &a), ("b", &b))
        .findings
        .into_iter()
        .map(|change| (change.id, change.verdict.unwrap()))
        .collect();
    let expected = [
        ("entropy.low", Verdict::Worse),
        ("loss.before_tap", Verdict::Worse),
        ("rnr.slow_receiver", Verdict::Better),
        ("mtu.small", Verdict::Changed),
    ];
    assert_eq!(found, expected.map(|(id, verdict)| (id.to_owned(), verdict)));
}

#[test]
fn what_is_active_and_what_it_costs_decide() {
    use crate::util::time::NS_PER_S as S;
    let with = |active: bool, lost_ns: Option<u64>| {
        let mut report = report(10, 1_000_000, 0.0, &[("job.stalled", "critical")]);
        report["findings"][0]["active"] = active.into();
        report["findings"][0]["impact"] = json!({ "time_lost_ns": lost_ns });
        report
    };
    let one = |a: &Value, b: &Value| {
        let change = diff(("a", a), ("b", b)).findings.remove(0);
        (change.state.unwrap(), change.verdict.unwrap())
    };
    let active = with(true, Some(S));
    assert_eq!(one(&active, &with(false, Some(S))), (State::Ended, Verdict::Better));
    assert_eq!(one(&with(false, Some(S)), &active), (State::Worse, Verdict::Worse));
    assert_eq!(one(&active, &with(true, Some(3 * S))), (State::Worse, Verdict::Worse));
    assert_eq!(one(&active, &with(true, Some(S / 3))), (State::Better, Verdict::Better));
    assert_eq!(one(&active, &with(true, Some(S + S / 10))), (State::Same, Verdict::Same));
    assert_eq!(one(&active, &with(true, None)), (State::Same, Verdict::Same), "not known");
    let none = report(10, 1_000_000, 0.0, &[]);
    assert_eq!(one(&none, &active), (State::New, Verdict::Worse));
    assert_eq!(one(&active, &none), (State::Gone, Verdict::Better));
    let page = text(&diff(("a", &active), ("b", &with(false, None))), 120, Paint::PLAIN);
    assert!(page.contains("critical (ended)") && page.contains("ended"), "{page}");
}

#[test]
fn hosts_that_changed_are_named() {
    let (a, b) = (report(10, 1_000_000, 0.0, &[]), report(10, 400_000, 0.0, &[]));
    let all = diff(("before.pcap", &a), ("after.pcap", &b));
    assert_eq!(all.hosts.len(), 1);
    assert_eq!(
        (all.hosts[0].src.as_str(), all.hosts[0].metrics[0].verdict),
        ("10.0.0.1", Some(Verdict::Worse))
    );
    let page = text(&all, 100, Paint::PLAIN);
    assert!(
        page.contains("before.pcap") && page.contains("−60.0 %") && page.contains("10.0.0.1 → 10.0.0.2"),
        "{page}"
    );
    assert!(text(&diff(("a", &Value::Null), ("b", &Value::Null)), 80, Paint::PLAIN).contains("No findings"));
}

/// Between two hosts as in a flow, marks are a share of the data: acknowledgements thin nothing out.
#[test]
fn marks_between_hosts_are_those_of_data() {
    let mut a = report(10, 1_000_000, 0.2, &[]);
    let mut more = a["flows"][0].clone();
    (more["dest_qp"], more["ce_ratio"]) = (json!(18), json!(0.5));
    more["opcodes"] = json!([{ "code": 7, "packets": 500 }, { "code": 0x11, "packets": 400 },
                             { "code": 0x81, "packets": 100 }]);
    let mut answers = more.clone();
    (answers["dest_qp"], answers["ce_ratio"]) = (json!(19), Value::Null);
    a["flows"].as_array_mut().unwrap().extend([more, answers]);
    let hosts = super::value::by_hosts(&a, super::value::Likeness::Alike);
    let ratio = hosts.values().next().unwrap()["ce_ratio"].as_f64().unwrap();
    assert!((ratio - (0.2 * 1000.0 + 0.5 * 500.0) / 1500.0).abs() < 1e-9, "{ratio}");
}

/// JSON pointers of all values of a report.
fn paths(value: &Value, at: &str, all: &mut Vec<String>) {
    if !at.is_empty() {
        all.push(at.to_owned());
    }
    match value {
        Value::Object(map) => map.iter().for_each(|(name, one)| paths(one, &format!("{at}/{name}"), all)),
        Value::Array(list) => {
            for (n, one) in list.iter().enumerate() {
                paths(one, &format!("{at}/{n}"), all);
            }
        }
        _ => {}
    }
}

/// Whatever part of a report is not there: what rests on it is unknown, and everything else as before.
#[test]
fn nothing_is_zero_for_want_of_a_field() {
    let mut whole = report(10, 1_000_000, 0.1, &[("mtu.small", "info")]);
    whole["totals"]["lost"]["capture_drops"] = json!(3);
    whole["totals"]["cnp_packets"] = json!(70);
    (whole["flows"][0]["psn"], whole["flows"][0]["loss"]) =
        (json!({ "missing": 30, "repeats": 60 }), json!({ "lost": 20, "after_tap": { "episodes": 4 } }));
    whole["flows"][0]["ack"] = json!({ "rnr_naks": 50, "naks": { "psn_sequence_error": 50 } });
    whole["imbalance"] = json!([{ "max_over_mean": 1.5 }]);
    whole["taps"] = json!([{ "links": ["x", "y"], "packets_matched": 90, "vanished": 10 }]);
    let parts = json!({ "transfer_ns": 500, "wait_ns": 100, "compute_ns": 400 });
    let slower = json!({ "exposed_ratio": 0.8 });
    let trend = json!({ "fastest": { "period_ns": 900 }, "lost_ratio": 0.1, "slower": slower });
    whole["steps"] = json!({
        "period_ns": 1000, "busy_ratio": 0.5, "communication_ratio": 0.6, "jitter_ratio": 0.1, "parts": parts, "trend": trend,
        "faster_network_ns": 250, "trend_ns_per_step": 2.5,
    });
    let mut all = Vec::new();
    paths(&whole, "", &mut all);
    assert!(all.len() > 50);
    let value = |name: &str, report: &Value| {
        let all = diff(("a", report), ("b", report));
        all.metrics.into_iter().find(|change| change.name == name).unwrap().a
    };
    let names: Vec<&str> =
        diff(("a", &whole), ("b", &whole)).metrics.iter().map(|change| change.name).collect();
    for path in all {
        let mut part = whole.clone();
        *part.pointer_mut(&path).unwrap() = Value::Null;
        for name in &names {
            let (with, without) = (value(name, &whole), value(name, &part));
            assert!(with.is_some(), "{name}");
            // With a flow's counters gone, others may still know; none turns to 0.
            assert!(
                without.is_none() || without > Some(0.0) || *name == "flows",
                "{name} without {path}: {without:?}"
            );
        }
        // Nor does a comparison with it call anything better or worse.
        for change in diff(("a", &whole), ("b", &part)).metrics.iter().filter(|change| change.name != "flows")
        {
            let sums = ["/totals/counted_again", "/flows/0/packets", "/window"];
            let reported = matches!(change.verdict, None | Some(Verdict::Same));
            assert!(reported || sums.iter().any(|sum| path.starts_with(sum)), "{path}: {change:?}");
        }
    }
    let mut silent = whole.clone();
    silent["findings"] = Value::Null;
    assert_eq!(diff(("a", &whole), ("b", &silent)).findings[0].verdict, None);
    (silent["findings"], silent["unjudged"]) = (json!([]), json!([{ "id": "mtu.small" }]));
    assert_eq!(diff(("a", &whole), ("b", &silent)).findings[0].verdict, None);
    silent["unjudged"] = json!([]);
    assert_eq!(diff(("a", &whole), ("b", &silent)).findings[0].verdict, Some(Verdict::Better));
}

/// The same run at one tap and at two.
#[test]
fn a_second_tap_changes_nothing() {
    let mut one = report(10, 1_000_000, 0.1, &[]);
    (one["flows"][0]["link"], one["flows"][0]["psn"]) =
        (json!("near"), json!({ "missing": 0, "repeats": 9 }));
    let mut two = one.clone();
    let mut far = one["flows"][0].clone();
    (far["link"], far["psn"]["missing"]) = (json!("far"), json!(0));
    two["flows"].as_array_mut().unwrap().push(far);
    for name in ["roce_packets", "roce_bytes"] {
        two["totals"][name] = json!(2 * one["totals"][name].as_u64().unwrap());
    }
    let of_old = diff(("one", &one), ("two", &two));
    let named = json!({ "taps": 2, "roce_packets": 1000, "roce_bytes": 1_000_000, "cnp_packets": 0 });
    two["totals"]["counted_again"] = named;
    two["links"] = json!([{ "ce_ratio": 0.1 }, { "ce_ratio": 0.1 }]);
    for all in [of_old, diff(("one", &one), ("two", &two))] {
        for change in all.metrics {
            assert!(matches!(change.verdict, None | Some(Verdict::Same)), "{change:?}");
        }
    }
}

/// A run with more loss downstream of the tap is worse, and so is a finding in both.
#[test]
fn more_loss_downstream_is_worse() {
    let lossy = |episodes: u64, ratio: f64| {
        let mut report = report(10, 1_000_000, 0.0, &[("loss.after_tap", "warning")]);
        report["flows"][0]["loss"] = json!({ "lost": 0, "after_tap": { "episodes": episodes } });
        report["findings"][0]["evidence"] = json!({ "loss_ratio": ratio });
        report
    };
    let (a, b) = (lossy(10, 0.01), lossy(20, 0.02));
    assert_eq!(verdict(&a, &b, "lost_before_tap_ratio"), Some(Verdict::Same));
    assert_eq!(verdict(&a, &b, "lost_after_tap_ratio"), Some(Verdict::Worse));
    assert_eq!(verdict(&a, &b, "lost_between_taps_ratio"), None, "there is one tap");
    let finding = |a: &Value, b: &Value| diff(("a", a), ("b", b)).findings.remove(0);
    let worse = finding(&a, &b);
    assert_eq!((worse.verdict, worse.figure.unwrap().b), (Some(Verdict::Worse), Some(0.02)));
    assert_eq!(finding(&b, &a).verdict, Some(Verdict::Better));
    assert_eq!(finding(&a, &lossy(10, 0.012)).verdict, Some(Verdict::Same), "chance");
    let severe = |severity: &str, ratio: f64| {
        let mut report = lossy(10, ratio);
        report["findings"][0]["severity"] = json!(severity);
        report
    };
    let critical = severe("critical", 0.0101);
    assert_eq!(finding(&severe("warning", 0.0099), &critical).verdict, Some(Verdict::Same), "chance");
    assert_eq!(finding(&severe("warning", 0.005), &critical).verdict, Some(Verdict::Worse));
    assert_eq!(
        finding(&severe("info", 0.02), &critical).verdict,
        Some(Verdict::Worse),
        "severity comes first"
    );
    // The worst host pair decides, beside many others that lose little, or that may not have lost anything.
    let of_pairs = |severity: &str, worst: f64| {
        let mut report = severe(severity, 0.005);
        report["findings"][0]["evidence"]["worst_ratio"] = json!(worst);
        let mut reordered = report["findings"][0].clone();
        (reordered["severity"], reordered["evidence"]["worst_ratio"]) = (json!("info"), json!(0.5));
        report["findings"].as_array_mut().unwrap().push(reordered);
        report
    };
    for (worst, verdict) in [(0.005, Verdict::Worse), (0.0099, Verdict::Same)] {
        let (few, many) = (of_pairs("warning", worst), of_pairs("critical", 0.0101));
        assert_eq!(finding(&few, &many).verdict, Some(verdict), "{worst}");
    }
    assert!(
        text(&diff(("a", &a), ("b", &b)), 120, Paint::PLAIN)
            .contains("warning 1.00 %  warning 2.00 %  worse")
    );
}

/// As `loss.between_taps` has it: without what the second capture missed.
#[test]
fn loss_between_taps_is_a_share_of_the_packets_at_the_first() {
    let mut a = report(10, 1_000_000, 0.0, &[]);
    (a["flows"][0]["link"], a["flows"][0]["loss"]) = (json!("y"), json!({ "lost": 0, "unfilled": 5 }));
    let tap = |from: Value, vanished: u64| {
        json!({ "src": "10.0.0.1", "dst": "10.0.0.2", "dest_qp": 17, "links": ["x", "y"], "from": from, "to": "y",
                "packets_matched": 85, "vanished": vanished })
    };
    a["taps"] = json!([tap(json!("x"), 20), tap(Value::Null, 0)]);
    let figure =
        diff(("a", &a), ("a", &a)).metrics.into_iter().find(|one| one.name == "lost_between_taps_ratio");
    assert_eq!(figure.unwrap().a, Some(15.0 / 185.0));
}

/// The 99th percentile of 99 samples is not known, as everywhere.
#[test]
fn percentiles_need_their_samples() {
    let mut a = report(10, 1_000_000, 0.0, &[]);
    assert!(verdict(&a, &a, "latency_p99_ns").is_some());
    a["flows"][0]["latency_ns"]["count"] = json!(99);
    assert_eq!(verdict(&a, &a, "latency_p99_ns"), None);
    assert_eq!(verdict(&a, &a, "latency_p50_ns"), Some(Verdict::Same));
    assert_eq!(
        super::value::by_hosts(&a, super::value::Likeness::Alike).values().next().unwrap()["latency_p99_ns"],
        Value::Null
    );
}

#[test]
fn the_document_is_up_to_date() {
    crate::analysis::fixtures::document::check("diff.md", &super::markdown());
}

#[test]
fn main_figures_have_known_units() {
    let measures = super::finding::measures();
    let options = crate::report::Options::default();
    let report = crate::report::Report::build(&crate::analysis::fixtures::everything(), &options);
    for finding in report.findings {
        if let Some((id, main)) = measures.iter().find(|(id, _)| *id == finding.id) {
            assert!(finding.evidence.get(main.name).is_some(), "{id} has no {}", main.name);
        }
    }
}

#[test]
fn verdicts_have_a_colour_on_demand() {
    let (a, b) = (report(10, 1_000_000, 0.0, &[]), report(10, 400_000, 0.0, &[("mtu.small", "info")]));
    let all = diff(("a", &a), ("b", &b));
    assert!(!text(&all, 120, Paint::PLAIN).contains('\u{1b}'));
    let page = text(&all, 120, Paint::COLORED);
    assert!(
        page.contains("\u{1b}[1m\u{1b}[31mworse\u{1b}[0m") && page.contains("\u{1b}[31mnew\u{1b}[0m"),
        "{page}"
    );
}

#[test]
fn every_figure_of_steps_is_compared() {
    let steps = |period: u64, transfer: u64, jitter: f64, growth: f64, exposed: Option<f64>, lost: f64| {
        let mut whole = report(10, 1_000_000, 0.0, &[]);
        let slower = exposed.map(|exposed| json!({ "exposed_ratio": exposed }));
        let trend = json!({ "fastest": { "period_ns": period }, "lost_ratio": lost, "slower": slower });
        whole["steps"] = json!({
            "period_ns": period, "communication_ratio": 0.5, "jitter_ratio": jitter, "trend_ns_per_step": growth,
            "parts": { "transfer_ns": transfer, "wait_ns": 0, "compute_ns": period - transfer },
            "faster_network_ns": transfer / 2, "trend": trend,
        });
        whole
    };
    let a = steps(50_000_000, 20_000_000, 0.01, -30_000.0, Some(0.2), 0.0);
    let b = steps(70_000_000, 40_000_000, 0.1, 2_500_000.0, Some(0.9), 0.2);
    let compared = diff(("a", &a), ("b", &b));
    let verdict = |name: &str| compared.metrics.iter().find(|change| change.name == name).unwrap().verdict;
    for name in [
        "step_period_ns",
        "step_jitter_ratio",
        "step_trend_ns_per_step",
        "step_exposed_ratio",
        "step_transfer_ns",
        "step_lost_ratio",
    ] {
        assert_eq!(verdict(name), Some(Verdict::Worse), "{name}");
    }
    assert_eq!(verdict("step_faster_network_ns"), Some(Verdict::Changed));
    assert_eq!(verdict("step_communication_ratio"), Some(Verdict::Same));
    let text = text(&compared, 120, Paint::PLAIN);
    for line in
        ["step time, growth per step", "−30.0 µs", "+2.50 ms", "a network twice as fast gains", "20.0 ms"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    // A job that did not become slower has no share that is exposed.
    let c = steps(50_000_000, 20_000_000, 0.01, 0.0, None, 0.0);
    let exposed =
        diff(("a", &a), ("b", &c)).metrics.into_iter().find(|one| one.name == "step_exposed_ratio").unwrap();
    assert_eq!((exposed.b, exposed.verdict), (None, None));
}
