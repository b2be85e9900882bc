//! The findings in full, and the verdict that ends the page.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::analysis::{Facts, InputKind, link_name};
use crate::findings::{DataEnd, Finding, Health, Severity, Verdict};
use crate::report::{Report, ReportVerdict};
use crate::util::layout::{labelled, plain, wrap};
use crate::util::style::{Paint, Role};
use crate::util::units::plural;
use crate::util::wrap::hanging;

/// Width of the severities at the left.
const SEVERITY: usize = 10;
/// Width of the labels behind them.
const LABEL: usize = 10;
/// Width of the labels of the verdict.
const VERDICT: usize = 9;

/// The findings in the order of the report, and the kinds that could not be evaluated.
pub(super) fn lines(report: &Report, room: usize, paint: Paint) -> Vec<String> {
    let end = end_of(report);
    let mut lines = Vec::new();
    let mut page = Page::default();
    for finding in &sorted(report) {
        let role = match finding.severity {
            Severity::Info => Role::Dim,
            Severity::Warning => Role::Warning,
            Severity::Critical => Role::Critical,
        };
        let past = finding.past_word(end.ns).map_or_else(String::new, |word| format!(" ({word})"));
        let owner = finding.owner.map_or_else(String::new, |id| format!(" (part of [{id}])"));
        let title = format!("{}{past} [{}]{owner}", plain(&finding.title), finding.id);
        let mut title = labelled(finding.severity.word(), SEVERITY, &title, room);
        if let Some(first) = title.first_mut() {
            *first = paint.head(role, first, SEVERITY);
        }
        lines.extend(title);
        // An info needs no diagnosis; one about the capture says how to make a better one.
        let of_capture = finding.id.starts_with("capture.");
        if finding.severity == Severity::Info && !of_capture {
            continue;
        }
        let mut fields = page.fields(finding, end);
        if finding.severity == Severity::Info {
            fields.retain(|(label, _)| *label == "Do");
        } else if finding.owner.is_some() {
            // Its owner says what to do.
            fields.retain(|(label, _)| matches!(*label, "Where" | "When" | "Impact" | "Evidence"));
        }
        for (label, texts) in fields {
            for (n, text) in texts.iter().enumerate() {
                lines.extend(field(if n == 0 { label } else { "" }, text, room, paint));
            }
        }
    }
    lines.extend(not_evaluated(report).iter().flat_map(|sentence| wrap(sentence, room)));
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

/// The verdict in words.
pub(crate) struct Headline {
    /// The sentence, without its label.
    pub(crate) sentence: String,
    /// Its colour.
    pub(crate) role: Role,
    /// The worst finding, whose it is and when it held; `None` where there is none above info.
    pub(crate) worst: Option<String>,
    /// The same of the one that a screen shows first, where that is another one: the worst is quiet by now.
    pub(crate) latest: Option<String>,
    /// The first step against the worst finding, where none has a command for this host, and the first that has one for
    /// another.
    pub(crate) step: Option<String>,
    /// The command of that step, or the one to run next.
    pub(crate) next: String,
}

/// The verdict over the findings of a report.
pub(crate) fn headline(report: &Report) -> Headline {
    let ReportVerdict { health, good, sentence, next, .. } = &report.verdict;
    let role = match health {
        Some(Health::Healthy | Health::Recovered) if *good => Role::Good,
        Some(Health::Healthy | Health::Recovered) => Role::Heading,
        Some(Health::Degraded) | None => Role::Warning,
        Some(Health::Critical) => Role::Critical,
    };
    let findings = sorted(report);
    let in_words = |finding: &Finding| {
        let when = finding.when(end_of(report)).map_or_else(String::new, |when| format!(" ({when})"));
        let who = finding.who().filter(|_| !finding.names_both_ends_in_title());
        let who = who.map_or_else(String::new, |who| format!(", {}", plain(&who)));
        format!("{}{who}{when}", plain(&finding.title))
    };
    let verdict = Verdict::of(&findings, false);
    let Verdict { worst, headline, .. } = verdict;
    let steps = verdict.steps_elsewhere();
    // A command for another host says more than what the finding means, if no step is left out before it.
    let command = steps.iter().take(2).find(|step| step.command.is_some());
    let next = plain(command.and_then(|step| step.command.as_ref()).unwrap_or(next));
    let step = steps.first().map(|first| match command.filter(|step| !std::ptr::eq(*step, first)) {
        Some(then) => format!("{} Then: {}", plain(&first.text), plain(&then.text)),
        None => plain(&first.text),
    });
    let latest = headline.filter(|latest| worst.is_some_and(|worst| !std::ptr::eq(worst, *latest)));
    let (worst, latest) = (worst.map(in_words), latest.map(in_words));
    Headline { sentence: sentence.clone(), role, worst, latest, step, next }
}

/// The last lines of the page: the verdict, the worst finding, and the next command.
pub(super) fn verdict(report: &Report, room: usize, paint: Paint) -> Vec<String> {
    let Headline { sentence, role, worst, latest, step, next } = headline(report);
    let mut lines = labelled("Verdict", VERDICT, &sentence, room);
    if let Some(first) = lines.first_mut() {
        let (label, text) = first.split_at(VERDICT);
        *first = format!("{label}{}", paint.paint(role, text));
    }
    let worst = worst.unwrap_or_else(|| "no finding above info".to_owned());
    lines.extend(labelled("Worst", VERDICT, &worst, room));
    lines.extend(latest.into_iter().flat_map(|latest| labelled("Latest", VERDICT, &latest, room)));
    let label = if step.is_some() { "" } else { "Next" };
    lines.extend(step.into_iter().flat_map(|step| labelled("Next", VERDICT, &step, room)));
    lines.push(format!("{label:VERDICT$}$ {}", paint.paint(Role::Command, &next)));
    lines
}

/// The end of the data, and whether it is that of a capture.
pub(crate) fn end_of(report: &Report) -> DataEnd {
    DataEnd {
        ns: report.facts.window.last_ns,
        recorded: report.facts.source.kind == InputKind::Replay,
        ..DataEnd::default()
    }
}

/// In the order in which findings should be looked at.
pub(crate) fn sorted(report: &Report) -> Vec<Finding> {
    let mut findings = report.findings.clone();
    crate::findings::order::sort(&mut findings, report.facts.window.last_ns);
    findings
}

/// Steps and advice that stand on the page already, with the finding that gave them.
#[derive(Default)]
struct Page(HashMap<String, &'static str>);

impl Page {
    /// The lines below a title: what is unknown has none.
    fn fields(&mut self, finding: &Finding, end: DataEnd) -> Vec<(&'static str, Vec<String>)> {
        let list = |ids: &[&str]| (!ids.is_empty()).then(|| ids.join(", "));
        let mut all: Vec<(&'static str, Vec<String>)> =
            finding.fields(end).into_iter().map(|(label, text)| (label, vec![text])).collect();
        let caveats = finding.caveats.iter().map(|caveat| plain(caveat)).collect();
        let after = [("Caused by", list(&finding.causes)), ("Leads to", list(&finding.effects))];
        all.push(("Do", self.steps(finding)));
        all.push(("Caveats", caveats));
        all.extend(after.into_iter().map(|(label, text)| (label, text.into_iter().collect())));
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

    /// Those of `parts`, each with its key, that do not stand on the page, and the finding that has the first of the
    /// others.
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

/// A sentence for each kind of missing input that kept findings from being evaluated.
pub(crate) fn not_evaluated(report: &Report) -> Vec<String> {
    if report.facts.totals.roce_packets == 0 {
        return Vec::new();
    }
    let live = matches!(report.facts.source.kind, InputKind::Live | InputKind::Mixed);
    let mut sentences = Vec::new();
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
            sentences.push(format!("{why}: {}", open.join(", ")));
        }
    }
    sentences.extend(not_compared(&report.facts));
    sentences
}

/// The losses between two taps that these did not show.
fn not_compared(facts: &Facts) -> impl Iterator<Item = String> {
    let open = facts.unordered().count() as u64;
    let order = (open > 0).then(|| {
        format!(
            "Loss between taps evaluated without {} of which both taps lack packets: the order of the taps is not known",
            plural(open, "flow")
        )
    });
    let mut hops: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (from, to, _) in facts.uc_at_first_only() {
        *hops.entry((from, to)).or_default() += 1;
    }
    let uc = hops.into_iter().map(|((from, to), flows)| {
        format!(
            "Loss between {} and {} evaluated without {} of which the second tap saw nothing: UC is not retransmitted",
            link_name(from, None),
            link_name(to, None),
            plural(flows, "UC flow")
        )
    });
    order.into_iter().chain(uc.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Step;

    fn finding() -> Finding {
        Finding::new("loss.before_tap", Severity::Critical, "Loss upstream of rail0".into())
    }

    #[test]
    fn steps_are_numbered_and_stand_on_the_page_once() {
        let mut one = finding();
        let step = |command: Option<&str>| Step {
            text: "Look.".into(),
            command: command.map(Into::into),
            ..Step::default()
        };
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

    /// A critical problem that is quiet by now stays the worst; what a screen says first stands below it.
    #[test]
    fn the_verdict_names_what_shows_now_beside_a_worse_problem_that_is_quiet() {
        let mut report = crate::report::schema::full::full();
        let end_ns = 1_000 * crate::util::time::NS_PER_S;
        report.facts.window.last_ns = Some(end_ns);
        let seen = |finding: Finding, ago_s: u64| {
            let last_ns = end_ns - ago_s * crate::util::time::NS_PER_S;
            Finding { active: true, first_seen_ns: Some(1), last_seen_ns: Some(last_ns), ..finding }
        };
        let slow = Finding::new("rnr.slow_receiver", Severity::Warning, "Receiver not ready".into());
        report.findings = vec![seen(slow, 0), seen(finding(), 6)];
        let lines = |report: &Report| verdict(report, 80, Paint::default()).join("\n");
        let text = lines(&report);
        assert!(text.contains("Worst    Loss upstream of rail0"), "{text}");
        assert!(text.contains("Latest   Receiver not ready"), "{text}");
        report.findings.truncate(1);
        assert!(!lines(&report).contains("Latest"), "one alone is both");
    }

    #[test]
    fn a_step_elsewhere_is_what_to_do_next() {
        let mut report = crate::report::schema::full::full();
        let step = Step { text: "Check the switch.".into(), ..Step::default() };
        report.findings = vec![Finding { active: true, steps: vec![step], ..finding() }];
        report.verdict.next = "rocescope explain loss.before_tap".into();
        let text = |report: &Report| verdict(report, 80, Paint::default()).join("\n");
        let said = text(&report);
        assert!(
            said.ends_with("Next     Check the switch.\n         $ rocescope explain loss.before_tap"),
            "{said}"
        );
        let step = &mut report.findings[0].steps[0];
        (step.command, step.host) = (Some("ethtool -S DEV".into()), Some([10, 0, 0, 2].into()));
        assert!(text(&report).ends_with("Next     Check the switch.\n         $ ethtool -S DEV"));
        report.findings[0].steps[0].host = None;
        report.verdict.next = "ethtool -S eth2".into();
        assert!(text(&report).ends_with("Next     $ ethtool -S eth2"), "on this host");
    }
}
