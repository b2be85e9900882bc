//! Steps of the training job: the sentences of the text report, and the latest steps as columns.

use super::markup::Markup;
use crate::report::Report;
use crate::report::text::{Section, Topic};
use crate::util::units;

/// The section; empty if neither steps nor a pattern are known.
pub(super) fn section(report: &Report, topics: &[Section]) -> Markup {
    let mut page = Markup::default();
    if let Some(steps) = &report.facts.steps {
        let longest = steps.latest.iter().map(|step| step.length_ns).max().unwrap_or(0).max(1);
        page.raw("<p class=\"hint\">The latest steps: height is the time from first to last packet; dark: with data in it. ");
        page.text(&format!("The highest is {}.", units::duration(longest))).raw("</p>\n");
        let view = format!("0 0 {} 100", steps.latest.len() * 10);
        page.open("svg", &[("class", "steps"), ("viewBox", &view), ("preserveAspectRatio", "none")]);
        for (at, step) in steps.latest.iter().enumerate() {
            let x = (at * 10 + 1).to_string();
            let parts = [("length", step.length_ns), ("busy", step.busy_ns.min(step.length_ns))];
            for (class, ns) in parts {
                let height = (ns as f64 / longest as f64 * 100.0).max(0.5);
                let (y, tall) = (format!("{:.1}", 100.0 - height), format!("{height:.1}"));
                page.open(
                    "rect",
                    &[("class", class), ("x", &x), ("width", "8"), ("y", &y), ("height", &tall)],
                );
                let text = format!(
                    "{} UTC: {}, {} with data, longest silence {}",
                    units::clock_utc(step.start_ns),
                    units::duration(step.length_ns),
                    units::duration(step.busy_ns),
                    units::duration(step.silence_ns)
                );
                page.leaf("title", "", &text).raw("</rect>");
            }
        }
        page.raw("</svg>\n");
    }
    if let Some(text) = topics.iter().find(|section| section.topic == Topic::Job) {
        page.lines(&text.lines);
    }
    page
}
