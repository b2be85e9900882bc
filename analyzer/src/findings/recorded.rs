//! Findings of a recording: restored from the JSON of their report, without a new evaluation.

use serde_json::Value;

use super::catalog::entry;
use super::{End, Episode, Evidence, Finding, Hop, Impact, Place, Severity, Step, Subject};
use crate::analysis::FlowId;
use crate::sample::Direction;

/// A finding from its JSON; `None` if invalid, or of a kind unknown to this version.
pub fn read(json: &str) -> Option<Finding> {
    let value: Value = serde_json::from_str(json).ok()?;
    let kind = entry(text(&value, "id")?)?;
    let severity = Severity::named(text(&value, "severity")?)?;
    let mut finding = Finding::new(kind.id, severity, text(&value, "title")?.to_owned());
    // An object of JSON is read in the order of its names; the list has the order of the finding.
    let all = value.get("evidence").and_then(Value::as_object);
    let listed = list(&value, "evidence_values").filter_map(|one| text(one, "name"));
    let names = listed.chain(all.into_iter().flatten().map(|(name, _)| name.as_str()));
    for (name, value) in names.filter_map(|name| Some((name, all?.get(name)?))) {
        if finding.evidence.get(name).is_none() {
            finding.evidence.insert(evidence(kind.id, name, value.clone()));
        }
    }
    finding.flows = list(&value, "flows").filter_map(flow).collect();
    finding.named = finding.flows.iter().map(|flow| (flow.src, flow.dst, flow.dest_qp)).collect();
    text(&value, "advice").unwrap_or_default().clone_into(&mut finding.advice);
    finding.last_seen_ns = number(&value, "last_seen_ns");
    finding.first_seen_ns = number(&value, "first_seen_ns");
    finding.active = value.get("active").and_then(Value::as_bool).unwrap_or(false);
    finding.settled = !finding.active;
    finding.episodes = list(&value, "episodes").filter_map(episode).collect();
    if let Some(impact) = value.get("impact") {
        finding.impact = Impact {
            packets_ratio: impact.get("packets_ratio").and_then(Value::as_f64),
            retransmissions: number(impact, "retransmissions"),
            goodput_lost_bytes: number(impact, "goodput_lost_bytes"),
            time_lost_ns: number(impact, "time_lost_ns"),
        };
    }
    finding.place = value.get("where").map(place).unwrap_or_default();
    finding.requester = value.get("requester").and_then(end);
    finding.responder = value.get("responder").and_then(end);
    finding.causes = ids(&value, "causes");
    finding.effects = ids(&value, "effects");
    finding.owner = text(&value, "owner").and_then(entry).map(|owner| owner.id);
    finding.steps = list(&value, "steps").filter_map(step).collect();
    finding.caveats = texts(&value, "caveats");
    finding.subject = Subject::of_recorded(&finding);
    Some(finding)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

fn small(value: &Value, name: &str) -> Option<u32> {
    u32::try_from(number(value, name)?).ok()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name).filter_map(|one| Some(one.as_str()?.to_owned())).collect()
}

fn ids(value: &Value, name: &str) -> Vec<&'static str> {
    list(value, name).filter_map(|id| Some(entry(id.as_str()?)?.id)).collect()
}

/// An evidence value with the label and unit that its family declares.
fn evidence(id: &str, name: &str, value: Value) -> Evidence {
    Evidence::declared(id, name, value)
}

fn direction(value: &Value) -> Option<Direction> {
    match text(value, "direction")? {
        "ingress" => Some(Direction::Ingress),
        "egress" => Some(Direction::Egress),
        _ => None,
    }
}

fn flow(value: &Value) -> Option<FlowId> {
    Some(FlowId {
        link: text(value, "link")?.into(),
        direction: direction(value),
        src: text(value, "src")?.parse().ok()?,
        dst: text(value, "dst")?.parse().ok()?,
        dest_qp: small(value, "dest_qp")?,
    })
}

fn episode(value: &Value) -> Option<Episode> {
    Some(Episode {
        first_ns: number(value, "first_ns")?,
        last_ns: number(value, "last_ns")?,
        peak: value.get("peak").and_then(Value::as_f64),
    })
}

fn place(value: &Value) -> Place {
    let owned = |name| text(value, name).map(str::to_owned);
    Place {
        tap: owned("tap"),
        link: owned("link"),
        links: texts(value, "links"),
        more_links: number(value, "more_links").unwrap_or(0),
        direction: direction(value),
        hop: text(value, "hop").and_then(|hop| Hop::read(hop, text(value, "tap"))),
        switch_port: owned("switch_port"),
    }
}

fn end(value: &Value) -> Option<End> {
    Some(End {
        addr: text(value, "addr")?.parse().ok()?,
        qpn: small(value, "qpn"),
        pid: small(value, "pid"),
        comm: text(value, "comm").map(str::to_owned),
        pod: text(value, "pod").map(str::to_owned),
    })
}

fn step(value: &Value) -> Option<Step> {
    Some(Step {
        text: text(value, "text")?.to_owned(),
        command: text(value, "command").map(str::to_owned),
        host: text(value, "host").and_then(|host| host.parse().ok()),
        ..Step::default()
    })
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::analysis::fixtures::everything;
    use crate::report::{Options, Report};

    #[test]
    fn a_finding_comes_back_as_the_report_had_it() {
        let report = Report::build(&everything(), &Options::default());
        assert!(report.findings.len() > 2);
        for finding in &report.findings {
            let json = serde_json::to_string(finding).unwrap();
            let back = read(&json).unwrap();
            let names = |one: &crate::findings::Finding| {
                one.evidence.iter().map(|evidence| evidence.name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&back), names(finding));
            // Labels and units are restored, too.
            for evidence in finding.evidence.iter() {
                let found = back.evidence.get(&evidence.name).unwrap();
                assert_eq!((&found.label, found.unit), (&evidence.label, evidence.unit));
                // The last digit of a ratio may differ.
                match (found.value.as_f64(), evidence.value.as_f64()) {
                    (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-12 * b.abs(), "{}", evidence.name),
                    _ => assert_eq!(found.value, evidence.value),
                }
            }
            let rest = |mut one: crate::findings::Finding| {
                one.evidence = crate::findings::EvidenceList::default();
                one.impact.packets_ratio = one.impact.packets_ratio.map(|ratio| (ratio * 1e9).round());
                serde_json::to_string(&one).unwrap()
            };
            assert_eq!(rest(back), rest(finding.clone()));
        }
    }

    #[test]
    fn what_is_no_finding_is_none() {
        for json in [
            "",
            "{}",
            "[]",
            r#"{"id":"no.such","severity":"info","title":""}"#,
            r#"{"id":"loss.before_tap"}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
