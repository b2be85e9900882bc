//! The findings in full, and the verdict that ends the page.

use std::fmt::Write as _;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::Value;

use crate::analysis::Kind;
use crate::findings::{End, Finding, Health, Severity, Verdict};
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::util::layout::{labelled, plain, wrap};
use crate::util::style::{Paint, Role};
use crate::util::units::{self, plural};
use crate::util::wrap::hanging;

/// Width of the severities at the left.
const SEVERITY: usize = 10;
/// Width of the labels behind them.
const LABEL: usize = 10;
/// Width of the labels of the verdict.
const VERDICT: usize = 9;
/// Flows named in a finding.
const FLOWS: usize = 3;
const DAY_NS: u64 = 86_400_000_000_000;

/// The findings in the order of the report, and the kinds that could not be evaluated.
pub(super) fn lines(report: &Report, room: usize, paint: Paint) -> Vec<String> {
    let end = report.facts.window.last_ns;
    let mut lines = Vec::new();
    let mut page = Page::default();
    for finding in &sorted(report) {
        let (severity, role) = match finding.severity {
            Severity::Info => ("info", Role::Dim),
            Severity::Warning => ("warning", Role::Warning),
            Severity::Critical => ("CRITICAL", Role::Critical),
        };
        let ended = if has_ended(finding, end) { " (ended)" } else { "" };
        let owner = finding.owner.map_or_else(String::new, |id| format!(" (caused by [{id}])"));
        let title = format!("{}{ended} [{}]{owner}", plain(&finding.title), finding.id);
        let mut title = labelled(severity, SEVERITY, &title, room);
        if let Some(first) = title.first_mut() {
            *first = paint.head(role, first, SEVERITY);
        }
        lines.extend(title);
        // An info needs no diagnosis.
        if finding.severity == Severity::Info {
            continue;
        }
        let mut fields = page.fields(finding, end);
        if finding.owner.is_some() {
            // Its owner says what to do.
            fields.retain(|(label, _)| matches!(*label, "Where" | "When" | "Impact" | "Evidence"));
        }
        for (label, texts) in fields {
            for (n, text) in texts.iter().enumerate() {
                lines.extend(field(if n == 0 { label } else { "" }, text, room, paint));
            }
        }
    }
    lines.extend(not_evaluated(report, room));
    if !report.findings.is_empty() {
        lines.push(paint.paint(Role::Dim, "`rocescope explain ID` explains a finding and its thresholds."));
    }
    lines
}

/// A labelled text below a title. A command keeps its line, so that it can be copied.
fn field(label: &str, text: &str, room: usize, paint: Paint) -> Vec<String> {
    if let Some((before, command)) = text.split_once("$ ").filter(|(before, _)| before.trim().is_empty()) {
        let command = paint.paint(Role::Command, command);
        return vec![format!("{:width$}{before}$ {command}", "", width = SEVERITY + LABEL)];
    }
    let numbered = text.split_once(". ").is_some_and(|(n, _)| n.bytes().all(|byte| byte.is_ascii_digit()));
    let indent = if numbered { 3 } else { 0 };
    let wrapped = hanging(text, room.saturating_sub(SEVERITY + LABEL), indent);
    let head = format!("{:SEVERITY$}{}", "", paint.paint(Role::Dim, label));
    let first = format!("{head}{:width$}", "", width = LABEL.saturating_sub(label.len()));
    let heads = std::iter::once(first).chain(std::iter::repeat(" ".repeat(SEVERITY + LABEL)));
    wrapped.into_iter().zip(heads).map(|(line, head)| format!("{head}{line}")).collect()
}

/// The last lines of the page: the verdict, the worst finding, and the next command.
pub(super) fn verdict(report: &Report, room: usize, paint: Paint) -> Vec<String> {
    let findings = sorted(report);
    let verdict = Verdict::of(&findings);
    let role = match verdict.health {
        Health::Healthy | Health::Recovered => Role::Good,
        Health::Degraded => Role::Warning,
        Health::Critical => Role::Critical,
    };
    let nothing = report.facts.totals.roce_packets == 0 && report.facts.devices.is_empty();
    let (sentence, role) = match verdict.worst {
        None if nothing => ("Unknown: no RoCE packet was observed", Role::Warning),
        _ => (verdict.sentence.as_str(), role),
    };
    let mut lines = labelled("Verdict", VERDICT, sentence, room);
    if let Some(first) = lines.first_mut() {
        let (label, text) = first.split_at(VERDICT);
        *first = format!("{label}{}", paint.paint(role, text));
    }
    let Some(worst) = verdict.worst else { return lines };
    let when =
        since(worst, report.facts.window.last_ns).map_or_else(String::new, |when| format!(" ({when})"));
    lines.extend(labelled("Worst", VERDICT, &format!("{}{when}", plain(&worst.title)), room));
    if let Some(command) = verdict.next_command() {
        lines.push(format!("{:VERDICT$}$ {}", "Next", paint.paint(Role::Command, &plain(&command))));
    }
    lines
}

/// In the order in which findings should be looked at.
fn sorted(report: &Report) -> Vec<Finding> {
    let mut findings = report.findings.clone();
    crate::findings::order::sort(&mut findings, report.facts.window.last_ns);
    findings
}

fn has_ended(finding: &Finding, end_ns: Option<u64>) -> bool {
    !finding.active || finding.over_since(end_ns).is_some()
}

/// Begin and end of a finding: "since 05:41:57 UTC", "05:41:57 to 05:42:10 UTC, ended after 13.0 s"; `None` when neither is known, as of
/// settings.
pub(crate) fn since(finding: &Finding, end_ns: Option<u64>) -> Option<String> {
    let today = |ns: u64| end_ns.is_none_or(|end| end / DAY_NS == ns / DAY_NS);
    let at = |ns: u64| {
        if today(ns) { format!("{} UTC", units::second_utc(ns)) } else { units::minute_utc(ns) }
    };
    let ended = has_ended(finding, end_ns);
    let episodes = match finding.episodes.len() {
        0 | 1 => String::new(),
        n => format!(", {}", plural(n as u64, "episode")),
    };
    match (finding.first_seen_ns, finding.last_seen_ns) {
        (Some(first), Some(last)) if ended => {
            let length = units::duration(last.saturating_sub(first));
            let first = if today(first) && today(last) { units::second_utc(first) } else { at(first) };
            Some(format!("{first} to {}, ended after {length}{episodes}", at(last)))
        }
        (None, Some(last)) if ended => Some(format!("ended {}{episodes}", at(last))),
        (Some(first), _) => Some(format!("since {}{episodes}", at(first))),
        (None, Some(last)) => Some(format!("last seen {}{episodes}", at(last))),
        (None, None) => None,
    }
}

/// Steps and advice that stand on the page already, with the finding that gave them.
#[derive(Default)]
struct Page(HashMap<String, &'static str>);

impl Page {
    /// The lines below a title: what is unknown has none.
    fn fields(&mut self, finding: &Finding, end_ns: Option<u64>) -> Vec<(&'static str, Vec<String>)> {
        let list = |ids: &[&str]| (!ids.is_empty()).then(|| ids.join(", "));
        let fields = [
            ("Where", place(finding)),
            ("When", since(finding, end_ns)),
            ("Who", who(finding)),
            ("Flows", flows(finding)),
            ("Impact", impact(finding)),
            ("Evidence", evidence(finding)),
        ];
        let caveats = finding.caveats.iter().map(|caveat| plain(caveat)).collect();
        let after = [("Caused by", list(&finding.causes)), ("Causes", list(&finding.effects))];
        let one = |(label, text): (&'static str, Option<String>)| (label, text.into_iter().collect());
        let mut all: Vec<(&'static str, Vec<String>)> = fields.into_iter().map(one).collect();
        all.push(("Do", self.steps(finding)));
        all.push(("Caveats", caveats));
        all.extend(after.into_iter().map(one));
        all.retain(|(_, texts)| !texts.is_empty());
        all
    }

    /// Numbered steps, each command on a line of its own, else the advice; what stands above is referred to.
    fn steps(&mut self, finding: &Finding) -> Vec<String> {
        if finding.steps.is_empty() {
            let sentences = finding.advice.split_inclusive(". ").map(|one| plain(one.trim_end()));
            let (new, above) = self.new_of(finding.id, sentences.map(|one| (one.clone(), one)));
            let rest = above.map(|id| reference(id, new.is_empty()));
            let text = new.into_iter().chain(rest).collect::<Vec<_>>().join(" ");
            return if text.is_empty() { Vec::new() } else { vec![text] };
        }
        let steps = finding.steps.iter().map(|step| (format!("{step:?}"), step));
        let (new, above) = self.new_of(finding.id, steps);
        let mut lines = Vec::new();
        for (n, step) in (1..).zip(&new) {
            lines.push(format!("{n}. {}", plain(&step.text)));
            lines.extend(step.command.iter().map(|command| format!("   $ {}", plain(command))));
        }
        lines.extend(above.map(|id| reference(id, new.is_empty())));
        lines
    }

    /// Those of `parts`, each with its key, that do not stand on the page, and the finding that has the first of the others.
    fn new_of<T>(
        &mut self,
        id: &'static str,
        parts: impl Iterator<Item = (String, T)>,
    ) -> (Vec<T>, Option<&'static str>) {
        let (mut new, mut above) = (Vec::new(), None);
        for (key, part) in parts {
            match self.0.entry(key) {
                Entry::Occupied(known) => above = above.or(Some(*known.get())),
                Entry::Vacant(place) => {
                    place.insert(id);
                    new.push(part);
                }
            }
        }
        (new, above)
    }
}

fn reference(id: &str, all: bool) -> String {
    if all { format!("See [{id}] above.") } else { format!("For the rest see [{id}] above.") }
}

fn place(finding: &Finding) -> Option<String> {
    let place = &finding.place;
    let link = place.link.as_ref().map(|link| link_name(link, place.direction));
    let tap = place.tap.as_ref().filter(|tap| place.link.as_ref() != Some(tap)).map(|tap| plain(tap));
    let switch = place.switch_port.as_ref().map(|port| format!("switch port {}", plain(port)));
    let hop = place.hop.as_ref().map(|hop| plain(hop));
    let parts: Vec<String> = [hop, tap, link, switch].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn who(finding: &Finding) -> Option<String> {
    let end = |end: &End| {
        let mut text = end.addr.to_string();
        if let Some(qpn) = end.qpn {
            let _ = write!(text, " QP {qpn}");
        }
        let comm = end.comm.as_ref().map(|comm| plain(comm));
        let pid = end.pid.map(|pid| format!("pid {pid}"));
        let pod = end.pod.as_ref().map(|pod| format!("pod {}", plain(pod)));
        let owner: Vec<String> = [comm, pid, pod].into_iter().flatten().collect();
        if !owner.is_empty() {
            let _ = write!(text, " ({})", owner.join(", "));
        }
        text
    };
    match (&finding.requester, &finding.responder) {
        (Some(requester), Some(responder)) => {
            Some(format!("requester {} → responder {}", end(requester), end(responder)))
        }
        (Some(requester), None) => Some(format!("requester {}", end(requester))),
        (None, Some(responder)) => Some(format!("responder {}", end(responder))),
        (None, None) => None,
    }
}

/// The first flows of a finding, and the number of the others.
fn flows(finding: &Finding) -> Option<String> {
    let named: Vec<String> = (finding.flows.iter().take(FLOWS))
        .map(|flow| {
            let link = link_name(&flow.link, flow.direction);
            format!("{} → {} QP {} on {link}", flow.src, flow.dst, flow.dest_qp)
        })
        .collect();
    let all = finding.evidence["flows"].as_u64();
    let more = all.unwrap_or(finding.flows.len() as u64).saturating_sub(named.len() as u64);
    let rest = if more > 0 { format!(", and {}", plural(more, "more flow")) } else { String::new() };
    (!named.is_empty()).then(|| format!("{}{rest}", named.join("; ")))
}

fn impact(finding: &Finding) -> Option<String> {
    let impact = &finding.impact;
    let parts: Vec<String> = [
        impact.packets_ratio.map(|ratio| format!("{} of packets", units::ratio(Some(ratio)))),
        impact.retransmissions.map(|n| plural(n, "retransmission")),
        impact.goodput_lost_bytes.map(|n| format!("{} of goodput lost", units::bytes(n))),
        impact.time_lost_ns.map(|ns| format!("senders waited {}", units::duration(ns))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The measurements with their units; the flows have their own line.
fn evidence(finding: &Finding) -> Option<String> {
    let is_plain = |value: &Value| match value {
        Value::Null | Value::Object(_) => false,
        Value::Array(list) => !list.is_empty() && !list.iter().any(|one| one.is_object() || one.is_array()),
        _ => true,
    };
    let parts: Vec<String> = (finding.evidence.iter())
        .filter(|evidence| is_plain(&evidence.value) && evidence.name != "flows")
        .map(|evidence| format!("{} {}", evidence.label, plain(&evidence.text())))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A line for each kind of missing input that kept findings from being evaluated.
fn not_evaluated(report: &Report, room: usize) -> Vec<String> {
    if report.facts.totals.roce_packets == 0 {
        return Vec::new();
    }
    let live = matches!(report.facts.source.kind, Kind::Live | Kind::Mixed);
    let mut lines = Vec::new();
    for (needs, why, applies) in [
        ("exact_times", "Not evaluated (--no-timing)", live),
        ("link_speed", "Not evaluated, or with bounds only (link speed unknown; --link-speed 100G)", true),
        (
            "whole_sequences",
            "Evaluated without queue pairs whose losses could not be followed completely",
            live,
        ),
    ] {
        let open: Vec<&str> =
            report.not_evaluated.iter().filter(|one| one.needs == needs).map(|one| one.id).collect();
        if applies && !open.is_empty() {
            lines.extend(wrap(&format!("{why}: {}", open.join(", ")), room));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Episode, Evidence, Step};

    const START: u64 = crate::analysis::fixtures::START;
    const SECOND: u64 = 1_000_000_000;

    fn finding() -> Finding {
        Finding::new("loss.before_tap", Severity::Critical, "Loss upstream of rail0".into())
    }

    #[test]
    fn a_finding_says_when_it_began_and_ended() {
        let end = Some(START + 100 * SECOND);
        let mut one = finding();
        assert_eq!(since(&one, end), None, "a setting has no time");
        one.first_seen_ns = Some(START);
        one.last_seen_ns = end;
        assert_eq!(since(&one, end).as_deref(), Some("since 13:05:09 UTC"));
        one.last_seen_ns = Some(START + 13 * SECOND);
        let episode = Episode { first_ns: START, last_ns: START, peak: None };
        one.episodes = vec![episode; 2];
        one.active = false;
        assert_eq!(
            since(&one, end).as_deref(),
            Some("13:05:09 to 13:05:22 UTC, ended after 13.0 s, 2 episodes")
        );
        let tomorrow = Some(START + DAY_NS);
        assert_eq!(
            since(&one, tomorrow).as_deref(),
            Some("2026-03-01 13:05 UTC to 2026-03-01 13:05 UTC, ended after 13.0 s, 2 episodes")
        );
        one.first_seen_ns = None;
        assert_eq!(since(&one, end).as_deref(), Some("ended 13:05:22 UTC, 2 episodes"));
    }

    #[test]
    fn what_is_unknown_has_no_line() {
        let mut page = Page::default();
        assert!(page.fields(&finding(), None).is_empty());
    }

    #[test]
    fn steps_are_numbered_and_stand_on_the_page_once() {
        let mut one = finding();
        let step = |command: Option<&str>| Step { text: "Look.".into(), command: command.map(Into::into) };
        one.steps = vec![step(Some("ethtool -S eth2")), step(None)];
        let mut page = Page::default();
        assert_eq!(page.steps(&one), ["1. Look.", "   $ ethtool -S eth2", "2. Look."]);
        assert_eq!(page.steps(&one), ["See [loss.before_tap] above."]);
        one.steps.push(step(Some("rdma stat")));
        let rest = "For the rest see [loss.before_tap] above.";
        assert_eq!(page.steps(&one), ["1. Look.", "   $ rdma stat", rest]);
        one.steps.clear();
        one.advice = "Look elsewhere.".into();
        assert_eq!(page.steps(&one), ["Look elsewhere."]);
    }

    #[test]
    fn evidence_has_units_and_no_json() {
        let mut one = finding();
        for (name, value) in [
            ("loss_ratio", serde_json::json!(0.007)),
            ("lost", serde_json::json!(6671)),
            ("hosts", serde_json::json!([{ "addr": "10.0.0.1" }])),
            ("flows", serde_json::json!(3)),
            ("qpn", Value::Null),
        ] {
            one.evidence.insert(Evidence::named(name, value));
        }
        assert_eq!(evidence(&one).as_deref(), Some("loss 0.70 %; lost 6,671"));
    }

    #[test]
    fn both_ends_are_named_with_their_process() {
        let mut one = finding();
        let end = |addr: &str, pid| End {
            addr: addr.parse().unwrap(),
            qpn: Some(17),
            pid,
            comm: pid.map(|_| "python3".to_owned()),
            pod: None,
        };
        one.requester = Some(end("10.0.0.1", Some(4711)));
        one.responder = Some(end("10.0.0.2", None));
        let expected = "requester 10.0.0.1 QP 17 (python3, pid 4711) → responder 10.0.0.2 QP 17";
        assert_eq!(who(&one).as_deref(), Some(expected));
    }
}
