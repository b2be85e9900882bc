//! Latencies: percentiles of the flows with the longest tail, each as a bar on one logarithmic scale.

use std::cmp::Reverse;

use super::markup::Markup;
use crate::analysis::{Flow, Latency, link_name};
use crate::report::Report;
use crate::report::text::{P99_SAMPLES, P999_SAMPLES, Topic, enough, sections};
use crate::util::style::Paint;
use crate::util::units;

/// Flows listed.
const LISTED: usize = 20;

/// The section; empty where nothing was timed.
pub(super) fn section(report: &Report) -> Markup {
    let mut page = Markup::default();
    let mut flows: Vec<(&Flow, Latency)> =
        report.facts.flows.iter().filter_map(|flow| Some((flow, *flow.latency_ns.as_deref()?))).collect();
    if flows.is_empty() {
        return page;
    }
    flows.sort_by_key(|(_, one)| Reverse((one.count >= P99_SAMPLES, one.p99, one.count)));
    let hidden = flows.len().saturating_sub(LISTED);
    flows.truncate(LISTED);
    let scale = Scale::of(&flows);
    page.raw(
        "<p class=\"hint\">From request to ACK or response at this tap. Bar: median to longest, mark: p99; ",
    );
    page.text(&format!(
        "logarithmic from {} to {}.",
        units::duration(scale.from_ns),
        units::duration(scale.to_ns)
    ));
    page.raw("</p>\n<div class=\"wide\"><table class=\"latency\"><thead><tr><th>Flow</th>");
    let several = report.facts.links.len() > 1;
    if several {
        page.leaf("th", "", "Link");
    }
    for heading in ["Samples", "p50", "p99", "p99.9", "Max"] {
        page.leaf("th", "n", heading);
    }
    page.raw("<th class=\"range\"></th></tr></thead><tbody>\n");
    for (flow, one) in &flows {
        page.raw("<tr>").leaf("td", "", &format!("{} → {} QP {}", flow.src, flow.dst, flow.dest_qp));
        if several {
            page.leaf("td", "", &link_name(&flow.link, flow.direction));
        }
        let texts = [
            units::count(one.count),
            units::duration(one.p50),
            enough(one.p99, one.count, P99_SAMPLES),
            enough(one.p999, one.count, P999_SAMPLES),
            units::duration(one.max),
        ];
        for text in texts {
            page.leaf("td", "n", &text);
        }
        page.raw("<td class=\"range\">");
        scale.bar(&mut page, one);
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    if hidden > 0 {
        page.leaf("p", "hint", &format!("… and {}", units::plural(hidden as u64, "more flow")));
    }
    // The precision of the figures, in the words of the text report.
    let text =
        sections(report, 400, Paint::PLAIN).into_iter().find(|section| section.topic == Topic::Latency);
    if let Some(line) =
        text.and_then(|section| section.lines.into_iter().find(|line| line.starts_with("Percentiles")))
    {
        page.leaf("p", "hint", &line);
    }
    page
}

/// A logarithmic scale over powers of ten.
struct Scale {
    from_ns: u64,
    to_ns: u64,
}

impl Scale {
    fn of(flows: &[(&Flow, Latency)]) -> Self {
        let least = flows.iter().map(|(_, one)| one.p50).min().unwrap_or(1).max(1);
        let most = flows.iter().map(|(_, one)| one.max).max().unwrap_or(1).max(1);
        let from_ns = 10u64.pow(least.ilog10());
        let to_ns = 10u64.checked_pow(most.ilog10() + 1).unwrap_or(u64::MAX);
        Self { from_ns, to_ns }
    }

    fn percent(&self, ns: u64) -> f64 {
        let (from, to) = ((self.from_ns as f64).ln(), (self.to_ns as f64).ln());
        ((ns.max(1) as f64).ln() - from).clamp(0.0, to - from) / (to - from).max(f64::MIN_POSITIVE) * 100.0
    }

    fn bar(&self, page: &mut Markup, one: &Latency) {
        let (from, to) = (self.percent(one.p50), self.percent(one.max));
        page.raw("<svg class=\"bar\">");
        let (x, width) = (format!("{from:.2}%"), format!("{:.2}%", (to - from).max(0.5)));
        page.open("rect", &[("x", &x), ("width", &width), ("y", "5"), ("height", "6"), ("rx", "3")])
            .close("rect");
        if one.count >= P99_SAMPLES {
            let x = format!("{:.2}%", self.percent(one.p99));
            page.open("line", &[("x1", &x), ("x2", &x), ("y1", "1"), ("y2", "15")]).close("line");
        }
        page.raw("</svg>");
    }
}
