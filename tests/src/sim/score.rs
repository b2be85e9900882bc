//! Comparison of a report with the truth.

use std::fmt;

use serde_json::Value;

use super::truth::{ANY, Expected, Place, Truth};

/// The result of one run, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Everything true is reported, at its place, and nothing else.
    Right,
    /// A false finding of severity warning or critical.
    FalseAlarm,
    /// The right finding at a wrong place or time.
    WrongPlace,
    /// A true finding is missing.
    Missed,
    /// No report: the program failed or took too long.
    Failed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Right => "right",
            Self::FalseAlarm => "false alarm",
            Self::WrongPlace => "wrong place",
            Self::Missed => "missed",
            Self::Failed => "failed",
        })
    }
}

/// The result with its reasons.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The worst result.
    pub verdict: Verdict,
    /// One line for each deviation.
    pub reasons: Vec<String>,
}

impl Judgement {
    /// A run without a report.
    pub fn failed(why: String) -> Self {
        Self { verdict: Verdict::Failed, reasons: vec![why] }
    }
}

/// Compares a report with the truth of its run.
pub fn judge(truth: &Truth, report: &Value) -> Judgement {
    let findings = report["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let mut wrong = Vec::new();
    for expected in &truth.expected {
        let named: Vec<&Value> = findings.iter().filter(|finding| is_one_of(finding, expected)).collect();
        if named.is_empty() {
            wrong.push((Verdict::Missed, format!("no {}", expected.ids.join(" or "))));
        } else if !named.iter().any(|finding| is_it(finding, expected) && in_time(finding, expected)) {
            let titles: Vec<&str> = named.iter().filter_map(|finding| finding["title"].as_str()).collect();
            wrong.push((Verdict::WrongPlace, format!("true {}: {}", truth_of(expected), titles.join("; "))));
        }
    }
    for finding in findings {
        let id = finding["id"].as_str().unwrap_or("");
        let title = finding["title"].as_str().unwrap_or("");
        // What is expected at one place is a false alarm at another.
        let expected = truth.expected.iter().any(|one| one.ids.contains(&id) && is_it(finding, one));
        let info = finding["severity"] == "info";
        if truth.never.contains(&id) || !info && !expected && !truth.also.contains(&id) {
            wrong.push((Verdict::FalseAlarm, format!("{id} ({}): {title}", finding["severity"])));
        }
    }
    for figure in &truth.figures {
        let value = (figure.of)(report);
        if value.is_none_or(|value| value < figure.range.0 || value > figure.range.1) {
            let (low, high) = figure.range;
            wrong.push((Verdict::Missed, format!("{} is {value:?}, true: {low} to {high}", figure.name)));
        }
    }
    let verdict = wrong.iter().map(|(verdict, _)| *verdict).max().unwrap_or(Verdict::Right);
    Judgement { verdict, reasons: wrong.into_iter().map(|(_, reason)| reason).collect() }
}

fn is_one_of(finding: &Value, expected: &Expected) -> bool {
    let id = finding["id"].as_str().unwrap_or("");
    expected.ids.contains(&id) && (expected.info || finding["severity"] != "info")
}

/// True if a finding is of the expected place and has the expected evidence.
fn is_it(finding: &Value, expected: &Expected) -> bool {
    let has = |(name, value): &(&str, String)| match &finding["evidence"][*name] {
        Value::Null => false,
        _ if value == ANY => true,
        Value::String(text) => text == value,
        Value::Number(number) => number.to_string() == *value,
        _ => false,
    };
    let is_responder = |addr: &String| finding["responder"]["addr"] == addr.as_str();
    is_at(finding, &expected.place)
        && expected.responder.as_ref().is_none_or(is_responder)
        && expected.evidence.iter().all(has)
}

/// What is expected beside the kind, for the reason.
fn truth_of(expected: &Expected) -> String {
    let Expected { place, evidence, seen, responder, .. } = expected;
    let responder = responder.as_ref().map_or_else(String::new, |addr| format!(", responder {addr}"));
    format!("at {place:?}, evidence {evidence:?}, seen {seen:?}{responder}")
}

/// True if a finding's ends, title, place and evidence name the place, and its title or ends name no other.
fn is_at(finding: &Value, place: &Place) -> bool {
    let ends = [&finding["requester"]["addr"], &finding["responder"]["addr"]];
    let ends: Vec<&str> = ends.into_iter().filter_map(Value::as_str).collect();
    let title = finding["title"].as_str().unwrap_or("");
    let text = |value: &Value| value.to_string();
    let stem = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    match place {
        Place::Any => true,
        Place::Host(addr) => {
            ends.contains(&addr.as_str()) || names(title, addr) || names(&text(&finding["evidence"]), addr)
        }
        Place::Pair(a, b) => {
            let all = format!("{title} {}", text(&finding["evidence"]));
            let has = |addr: &String| ends.contains(&addr.as_str()) || names(&all, addr);
            let of_flow = |flow: &Value| {
                let (src, dst) = (flow["src"].as_str(), flow["dst"].as_str());
                let (a, b) = (Some(a.as_str()), Some(b.as_str()));
                (src, dst) == (a, b) || (src, dst) == (b, a)
            };
            // Ends that contradict the truth count; without ends, flows decide.
            has(a) && has(b)
                || ends.iter().all(|end| end == a || end == b)
                    && finding["flows"].as_array().is_some_and(|flows| flows.iter().any(of_flow))
        }
        // A title may name the peers of the link, too.
        Place::Link(name) => match finding["where"]["link"].as_str() {
            Some(link) => link.contains(name),
            None => names(title, &stem(name)) || text(&finding["where"]).contains(name),
        },
        Place::Hop(a, b) => {
            let hop = finding["where"]["hop"].as_str().unwrap_or("");
            let both = |text: &str| match (text.find(&stem(a)), text.find(&stem(b))) {
                (Some(first), Some(second)) => first < second,
                _ => false,
            };
            both(hop) || both(title)
        }
    }
}

/// True if a text contains a name that no further letter or digit continues.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let continues = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        !continues(text[at + name.len()..].chars().next()) && !continues(text[..at].chars().next_back())
    })
}

fn in_time(finding: &Value, expected: &Expected) -> bool {
    let (first, last) = (finding["first_seen_ns"].as_u64(), finding["last_seen_ns"].as_u64());
    if let Some(seen) = expected.seen {
        let within =
            |(least, most): (u64, u64), ns: Option<u64>| ns.is_some_and(|ns| ns >= least && ns <= most);
        return within(seen[0], first) && within(seen[1], last);
    }
    let Some((from, to)) = expected.window else { return true };
    first.is_none_or(|first| first <= to) && last.is_none_or(|last| last >= from)
}

#[cfg(test)]
mod tests {
    use super::super::truth::{Expected, Place, Truth};
    use super::{Verdict, judge};
    use serde_json::{Value, json};

    fn finding(id: &str, severity: &str, src: &str, dst: &str) -> Value {
        json!({
            "id": id, "severity": severity, "title": format!("Loss, {src} to {dst}"),
            "requester": { "addr": src }, "responder": { "addr": dst }, "evidence": {}, "flows": [],
            "where": {}, "first_seen_ns": 10, "last_seen_ns": 20,
        })
    }

    fn loss() -> Truth {
        let place = Place::Pair("10.0.0.1".into(), "10.0.0.2".into());
        let expected = Expected { window: Some((15, 30)), ..Expected::new(&["loss.before_tap"], place) };
        Truth {
            expected: vec![expected],
            also: vec!["retry.storm"],
            never: vec!["icrc.errors"],
            ..Truth::default()
        }
    }

    #[track_caller]
    fn is(truth: &Truth, findings: &Value, verdict: Verdict) {
        let judgement = judge(truth, &json!({ "findings": findings }));
        assert_eq!(judgement.verdict, verdict, "{:?}", judgement.reasons);
    }

    #[test]
    fn each_verdict_has_its_case() {
        let found = finding("loss.before_tap", "critical", "10.0.0.1", "10.0.0.2");
        is(&loss(), &json!([found]), Verdict::Right);
        is(&loss(), &json!([found, finding("retry.storm", "warning", "a", "b")]), Verdict::Right);
        is(&loss(), &json!([]), Verdict::Missed);
        is(&loss(), &json!([finding("loss.before_tap", "info", "10.0.0.1", "10.0.0.2")]), Verdict::Missed);
        is(
            &loss(),
            &json!([finding("loss.before_tap", "critical", "10.0.0.1", "10.0.0.20")]),
            Verdict::WrongPlace,
        );
        is(&loss(), &json!([found, finding("entropy.low", "warning", "a", "b")]), Verdict::FalseAlarm);
        is(&loss(), &json!([found, finding("icrc.errors", "info", "a", "b")]), Verdict::FalseAlarm);
        is(&loss(), &json!([found, finding("mtu.small", "info", "a", "b")]), Verdict::Right);
        is(&Truth::default(), &json!([found]), Verdict::FalseAlarm);
    }

    #[test]
    fn evidence_and_both_ends_of_the_time_are_compared() {
        let place = Place::Host("10.0.0.1".into());
        let expected = |truth: Expected| Truth { expected: vec![truth], ..Truth::default() };
        let new = || Expected::new(&["loss.before_tap"], place.clone());
        let mut found = finding("loss.before_tap", "critical", "10.0.0.1", "10.0.0.2");
        found["evidence"] = json!({ "kind": "gap", "lost": 7 });
        let with =
            |kind: &str, lost: &str| expected(new().with("kind", kind.into()).with("lost", lost.into()));
        is(&with("gap", "7"), &json!([found]), Verdict::Right);
        is(&with("gap", "8"), &json!([found]), Verdict::WrongPlace);
        is(&with("run", "7"), &json!([found]), Verdict::WrongPlace);
        let at = |seen| expected(Expected { seen: Some(seen), ..new() });
        is(&at([(9, 10), (20, 21)]), &json!([found]), Verdict::Right);
        is(&at([(11, 12), (20, 21)]), &json!([found]), Verdict::WrongPlace);
        is(&at([(9, 10), (18, 19)]), &json!([found]), Verdict::WrongPlace);
        found["last_seen_ns"] = json!(null);
        is(&at([(9, 10), (20, 21)]), &json!([found]), Verdict::WrongPlace);
    }

    #[test]
    fn the_responder_is_compared_in_full() {
        let place = || Place::Pair("10.0.0.1".into(), "10.0.0.2".into());
        let of = |responder: &str| {
            let one = Expected::new(&["qp.died"], place()).of_responder(responder.into());
            Truth { expected: vec![one], ..Truth::default() }
        };
        let found = json!([finding("qp.died", "critical", "10.0.0.1", "10.0.0.2")]);
        is(&of("10.0.0.2"), &found, Verdict::Right);
        is(&of("10.0.0.1"), &found, Verdict::WrongPlace);
        is(&of("192.168.0.2"), &found, Verdict::WrongPlace);
    }

    #[test]
    fn a_finding_of_another_time_is_at_the_wrong_place() {
        let mut late = finding("loss.before_tap", "critical", "10.0.0.1", "10.0.0.2");
        late["first_seen_ns"] = json!(31);
        late["last_seen_ns"] = json!(40);
        is(&loss(), &json!([late]), Verdict::WrongPlace);
    }
}
