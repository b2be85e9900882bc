//! The report as a self-contained HTML file (`--output html`), which loads nothing and is readable without its
//! script.
//!
//! The order follows an engineer's questions: problems, beginning, cost, remedy; then the evidence over time, the
//! affected hosts, and all figures. Views draw no conclusions: findings, verdict and sentences are those of all
//! views.
//!
//! The content security policy allows one style and one script, identified by hashes, and no requests.

mod flows;
mod job;
mod latency;
pub(crate) mod markup;
mod matrix;
mod nics;
mod problems;
mod timeline;

use std::io::{self, Write};

use self::markup::Markup;
use crate::model::OverTime;
use crate::report::Report;
use crate::report::text::{
    BURSTS_NOT_RECORDED, Topic, headline, not_evaluated, qp_layers, sections, summary,
};
use crate::util::style::{Paint, Role};
use crate::util::units;
pub use latency::Distribution;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// SHA-256 of the style for the policy; a test verifies it.
const STYLE_HASH: &str = "sha256-WeXXBze+lffKMaXapgP6aEGpPi19fw9j0/FWZl/hNQI=";
/// SHA-256 of the script.
const SCRIPT_HASH: &str = "sha256-WK+Ol0hca7NM5OInB34hhQha7qQsTJ07BxcRcZpEwhY=";
/// Maximum size of the report embedded in the page, in bytes of JSON: browsers become slow beyond it.
const MOST_JSON: usize = 32 << 20;
/// Width of preformatted text, in columns.
const COLUMNS: usize = 120;

/// Topics with tables of their own on the page.
const OWN: [Topic; 4] = [Topic::Findings, Topic::Flows, Topic::Latency, Topic::Verdict];

/// Writes the page.
///
/// # Errors
/// An error of writing to `out`.
pub fn write(
    report: &Report,
    over_time: Option<&OverTime>,
    distribution: Option<&Distribution>,
    out: &mut impl Write,
) -> io::Result<()> {
    out.write_all(page(report, over_time, distribution).as_bytes())
}

fn page(report: &Report, over_time: Option<&OverTime>, distribution: Option<&Distribution>) -> String {
    let mut page = Markup::default();
    let headline = headline(report);
    head(&mut page, &headline.sentence);
    page.raw("<body>\n<header>");
    page.leaf("span", "brand", "rocescope");
    for (label, text) in summary(report).iter().take_while(|(label, _)| *label != "IB" && *label != "RoCE") {
        let label = if *label == "rocescope" { "" } else { label };
        page.raw("<span class=\"what\">").leaf("span", "label", label).text(" ").text(text).raw("</span>");
    }
    page.raw("</header>\n<main>\n");
    problems::verdict(&mut page, report, &headline);
    let problems = problems::cards(report);
    let topics = sections(report, COLUMNS, Paint::PLAIN);
    let mut parts: Vec<(&'static str, &'static str, Markup)> = vec![
        ("timeline", "Timeline", timeline::section(report, over_time)),
        ("problems", "Problems", problems),
        ("hosts", "Traffic between hosts", matrix::section(report)),
        ("flows", "Flows", flows::section(report)),
        ("latency", "Latency", latency::section(report, distribution)),
        ("job", "Job steps", job::section(report, &topics)),
        ("qps", "Queue pairs of NICs", nics::section(report)),
        ("coverage", "Not visible", coverage(report)),
    ];
    let mut details = Markup::default();
    for section in
        topics.iter().filter(|section| !OWN.contains(&section.topic) && section.topic != Topic::Job)
    {
        details.raw("<details open><summary>").text(&section.title).raw("</summary>");
        details.lines(&section.lines).raw("</details>\n");
    }
    parts.push(("details", "All figures", details));
    parts.push(("data", "Data", data(report)));
    parts.retain(|(.., part)| !part.is_empty());
    page.raw("<nav aria-label=\"Sections\">");
    for (id, title, _) in &parts {
        page.open("a", &[("href", &format!("#{id}"))]).text(title).close("a").raw(" ");
    }
    page.raw("</nav>\n");
    for (id, title, part) in parts {
        page.open("section", &[("id", id)]).leaf("h2", "", title).raw("\n").append(&part).raw("</section>\n");
    }
    page.raw("</main>\n<footer>").text(concat!("rocescope ", env!("CARGO_PKG_VERSION")));
    page.text(" · times are UTC · ").raw("<code>rocescope explain ID</code> explains a finding</footer>");
    page.raw("\n<script>").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    page.finish()
}

/// Writes everything before the body.
pub(crate) fn head(page: &mut Markup, sentence: &str) {
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let policy = format!(
        "default-src 'none'; style-src '{STYLE_HASH}'; script-src '{SCRIPT_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
    );
    page.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]).raw("\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    page.raw("<link rel=\"icon\" href=\"data:,\">\n<title>").text(sentence).raw(" – rocescope</title>\n");
    page.raw("<style>").raw(STYLE).raw("</style>\n</head>\n");
}

/// The CSS class of a colour.
const fn class_of(role: Role) -> &'static str {
    match role {
        Role::Good => "good",
        Role::Warning => "warning",
        Role::Critical => "critical",
        Role::Heading | Role::Dim | Role::Command => "info",
    }
}

/// Writes what was dropped, is not visible, or was not evaluated.
fn coverage(report: &Report) -> Markup {
    let mut page = Markup::default();
    page.raw("<ul>");
    let said = summary(report);
    for (label, text) in said.iter().filter(|(label, _)| matches!(*label, "Drops" | "Coverage" | "Retired")) {
        page.raw("<li>").leaf("b", "", label).text(": ").text(text).raw("</li>");
    }
    // Sentences without a label at the end of the summary give the reason why nothing was observed.
    for (_, text) in said.iter().rev().take_while(|(label, _)| label.is_empty()) {
        page.leaf("li", "", text);
    }
    if let Some(why) = report.facts.steps_absent {
        page.raw("<li>").leaf("b", "", "Steps").text(": none: ").text(why).raw("</li>");
    }
    if report.facts.is_recording() {
        page.raw("<li>").leaf("b", "", "Bursts").text(": ").text(BURSTS_NOT_RECORDED).raw("</li>");
    }
    for sentence in qp_layers(report).into_iter().chain(not_evaluated(report)) {
        page.leaf("li", "", &sentence);
    }
    page.raw("</ul>");
    page
}

/// Embeds the report as JSON.
fn data(report: &Report) -> Markup {
    let mut page = Markup::default();
    let json = serde_json::to_string(report).unwrap_or_default();
    let size = units::bytes(json.len() as u64);
    page.raw("<p>").text(&format!("The report in {} ({size}): ", report.schema));
    if json.len() > MOST_JSON {
        page.text("too large for this page. ").raw("<code>--output json</code> writes it.</p>");
        return page;
    }
    page.raw("<button id=\"download\" hidden>Download JSON</button><span id=\"nojs\">");
    page.raw("the element <code>#report</code> of this page has it.</span></p>").data("report", &json);
    page
}

#[cfg(test)]
mod tests;
