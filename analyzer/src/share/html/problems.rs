//! The verdict, the list of problems, and a card for each: place, time, cost, ends, steps, evidence, explanation.

use super::class_of;
use super::markup::Markup;
use crate::findings::{Finding, Severity, entry};
use crate::report::Report;
use crate::report::text::{Headline, end_of, sorted, summary};
use crate::util::style::Role;

/// Fields in the list of problems.
const LISTED: [&str; 3] = ["Where", "When", "Impact"];

/// The symbol of a severity, since colour alone is not sufficient.
pub(super) const fn sign(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "ℹ",
        Severity::Warning => "▲",
        Severity::Critical => "✖",
    }
}

/// The findings of the page, in order; [`anchor`] links to one by index.
pub(super) fn listed(report: &Report) -> Vec<Finding> {
    sorted(report)
}

/// The anchor of the finding at an index of the list.
pub(super) fn anchor(at: usize) -> String {
    format!("p{}", at + 1)
}

fn badge(page: &mut Markup, finding: &Finding, ended: bool) {
    let state = if ended { "badge ended" } else { "badge" };
    let name = finding.severity.name();
    page.leaf("span", &format!("{state} {name}"), &format!("{} {name}", sign(finding.severity)));
}

/// Writes the verdict, the worst finding, the one that shows now where that is another, and the next command; the list
/// of problems; totals.
pub(super) fn verdict(page: &mut Markup, report: &Report, headline: &Headline) {
    page.open("section", &[("id", "verdict"), ("class", class_of(headline.role))]);
    let sign = match headline.role {
        Role::Critical => "✖ ",
        Role::Warning => "▲ ",
        Role::Good => "● ",
        _ => "○ ",
    };
    page.raw("<h1>").leaf("span", "sign", sign).text(&headline.sentence).raw("</h1>\n");
    for (label, text) in [("Worst", &headline.worst), ("Latest", &headline.latest)] {
        let Some(text) = text else { continue };
        page.raw("<p class=\"worst\">").leaf("span", "label", label).text(" ").text(text).raw("</p>\n");
    }
    page.raw("<p class=\"next\"><span class=\"label\">Next</span> ");
    if let Some(step) = &headline.step {
        page.text(step).text(" ");
    }
    page.leaf("code", "command", &headline.next).raw("</p>\n");
    list(page, report);
    page.raw("<dl class=\"totals\">");
    let totals = summary(report).into_iter().skip_while(|(label, _)| *label != "RoCE" && *label != "IB");
    for (label, text) in totals.filter(|(label, _)| !matches!(*label, "Coverage" | "Retired")) {
        if !label.is_empty() {
            page.leaf("dt", "", label);
        }
        page.leaf("dd", "", &text);
    }
    page.raw("</dl></section>\n");
}

/// Lists every finding above info in a line, owned ones below their owner.
fn list(page: &mut Markup, report: &Report) {
    let (findings, end) = (listed(report), end_of(report));
    let shown = || findings.iter().enumerate().filter(|(_, one)| one.is_problem());
    if shown().next().is_none() {
        return;
    }
    page.raw("<table class=\"list\"><thead><tr><th></th><th>Problem</th>");
    for label in LISTED {
        page.leaf("th", "", label);
    }
    page.raw("</tr></thead><tbody>\n");
    for (at, finding) in shown() {
        let ended = finding.has_ended(end.ns);
        let row = if ended { "ended" } else { "" };
        page.open("tr", &[("class", row)]).raw("<td>");
        badge(page, finding, ended);
        page.raw("</td><td>");
        if finding.owner.is_some() {
            page.leaf("span", "label", "↳ ");
        }
        page.open("a", &[("href", &format!("#{}", anchor(at)))]).text(&finding.title).close("a").raw("</td>");
        let fields = finding.fields(end);
        for label in LISTED {
            let text = fields.iter().find(|(own, _)| *own == label).map_or("–", |(_, text)| text.as_str());
            page.leaf("td", "", text);
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table>\n");
}

/// A card for each finding. Those that require action are open.
pub(super) fn cards(report: &Report) -> Markup {
    let mut page = Markup::default();
    let findings = listed(report);
    if findings.is_empty() {
        page.raw("<p>No finding.</p>");
    }
    for (at, finding) in findings.iter().enumerate() {
        card(&mut page, report, &findings, at, finding);
    }
    page
}

fn card(page: &mut Markup, report: &Report, all: &[Finding], at: usize, finding: &Finding) {
    let end = end_of(report);
    let ended = finding.has_ended(end.ns);
    let open = if finding.is_primary() { "open" } else { "" };
    let class = format!("problem {}{}", finding.severity.name(), if ended { " ended" } else { "" });
    page.open("details", &[("class", &class), ("id", &anchor(at)), ("open", open)]).raw("<summary>");
    badge(page, finding, ended);
    page.raw(" ").leaf("strong", "", &finding.title);
    let past = finding.past_word(end.ns).map_or_else(String::new, |word| format!(" {word}"));
    page.leaf("span", "label", &past).raw(" ").leaf("code", "id", finding.id);
    page.raw("</summary>\n<div class=\"columns\"><div>\n<dl>");
    for (label, text) in finding.fields(end).into_iter().filter(|(label, _)| *label != "Evidence") {
        page.leaf("dt", "", label).leaf("dd", "", &text);
    }
    page.raw("</dl>\n");
    steps(page, finding);
    page.raw("</div><div>\n");
    evidence(page, finding);
    related(page, all, finding);
    page.raw("</div></div>\n");
    let text = entry(finding.id)
        .map(|entry| if report.facts.is_infiniband() { entry.text_on_infiniband() } else { entry.text() });
    if let Some(text) = text {
        page.raw("<details class=\"explanation\"><summary>Explanation: meaning, rule, thresholds</summary>");
        for paragraph in text.lines().filter(|line| !line.trim().is_empty()) {
            page.leaf("p", if paragraph.starts_with("- ") { "item" } else { "" }, paragraph);
        }
        page.raw("</details>");
    }
    page.raw("</details>\n");
}

/// Writes the steps, each command on a line of its own.
fn steps(page: &mut Markup, finding: &Finding) {
    if finding.steps.is_empty() && finding.advice.is_empty() {
        return;
    }
    page.raw("<h3>Do next</h3>");
    if finding.steps.is_empty() {
        page.leaf("p", "", &finding.advice);
        return;
    }
    page.raw("<ol class=\"steps\">");
    for step in &finding.steps {
        page.raw("<li>").text(&step.text);
        if let Some(command) = &step.command {
            page.leaf("code", "command", command);
        }
        page.raw("</li>");
    }
    page.raw("</ol>\n");
}

fn evidence(page: &mut Markup, finding: &Finding) {
    let all = finding.measurements();
    if !all.is_empty() {
        page.raw("<h3>Evidence</h3><table class=\"evidence\"><tbody>");
        for (label, value) in all {
            page.raw("<tr>").leaf("th", "", &label).leaf("td", "", &value).raw("</tr>");
        }
        page.raw("</tbody></table>\n");
    }
    if !finding.caveats.is_empty() {
        page.raw("<h3>Caveats</h3><ul>");
        for caveat in &finding.caveats {
            page.leaf("li", "", caveat);
        }
        page.raw("</ul>\n");
    }
}

/// Writes causes and effects, each with a link to its card.
fn related(page: &mut Markup, all: &[Finding], finding: &Finding) {
    let owns = |owned: &Finding, owner: &Finding| owned.is_owned_by(owner.id, owner.at);
    let is_cause = |cause: &Finding, effect: &Finding| {
        effect.causes.contains(&cause.id) && cause.effects.contains(&effect.id)
    };
    // A part of a finding may be its cause as well: it is named once.
    let relations = |other: &Finding| {
        let (part, whole, caused) = (owns(finding, other), owns(other, finding), is_cause(other, finding));
        let leads = is_cause(finding, other) && !part || whole && !caused;
        [part, caused && !part && !whole, leads, whole && caused]
    };
    let mut any = false;
    for (kind, label) in ["Part of", "Caused by", "Leads to", "Includes"].into_iter().enumerate() {
        for (at, other) in all.iter().enumerate().filter(|(_, other)| relations(other)[kind]) {
            if !any {
                page.raw("<h3>Causes and effects</h3><ul>");
                any = true;
            }
            page.raw("<li>").leaf("span", "label", label).text(" ");
            page.open("a", &[("href", &format!("#{}", anchor(at)))])
                .text(&other.title)
                .close("a")
                .raw("</li>");
        }
    }
    if any {
        page.raw("</ul>\n");
    }
}
