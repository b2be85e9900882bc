//! Latencies: percentiles of the flows with the longest tail, each as a bar on a common logarithmic scale.

use std::cmp::Reverse;

use rocescope_common::account::latency::{BUCKETS, bounds};

use super::markup::Markup;
use crate::analysis::{Flow, Latency, link_name};
use crate::metrics::latency::BySlot;
use crate::report::Report;
use crate::report::text::{P99_SAMPLES, Requests, Topic, ranges, sections};
use crate::sample::Sample;
use crate::util::style::Paint;
use crate::util::units;

/// Classes of requests.
const CLASSES: [&str; 3] = ["SEND and WRITE", "READ, to the first response", "Atomics"];
/// Operations with a message completion time.
const COMPLETIONS: [&str; 3] = [
    "WRITE, to the message's completion",
    "SEND, to the message's completion",
    "READ, to the message's completion",
];
/// Maximum number of flows listed.
const LISTED: usize = 20;

/// Latencies over all flows by class of request, and message completion times by operation, which reports do not
/// contain.
#[derive(Clone, Debug)]
pub struct Distribution(Vec<(&'static str, [u64; BUCKETS])>);

impl Distribution {
    /// The distribution of a sample; none of a recording, which has percentiles alone.
    pub fn of(sample: &Sample) -> Self {
        let mut classes: Vec<(&'static str, [u64; BUCKETS])> =
            CLASSES.into_iter().chain(COMPLETIONS).map(|name| (name, [0; BUCKETS])).collect();
        for figure in sample.metrics.latency.iter().flat_map(BySlot::figures) {
            let latencies = figure.by_class().filter_map(|(class, times)| Some((class?, times)));
            let completions = figure.completions.histograms().map(|(at, times)| (CLASSES.len() + at, times));
            for (at, histogram) in latencies.chain(completions) {
                if let Some((_, counts)) = classes.get_mut(at) {
                    histogram.add_to(counts);
                }
            }
        }
        classes.retain(|(_, counts)| counts.iter().any(|count| *count > 0));
        Self(classes)
    }

    /// A row per octave, from the first to the last with a sample.
    fn tables(&self) -> Markup {
        let mut page = Markup::default();
        for (name, counts) in &self.0 {
            let octaves = octaves(counts);
            let most = octaves.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
            let all: u64 = counts.iter().sum();
            page.leaf("h3", "", &format!("{name}: {}", units::plural(all, "sample")));
            page.raw("<div class=\"wide\"><table class=\"latency\"><thead><tr>");
            page.leaf("th", "n", "From").leaf("th", "n", "to").leaf("th", "n", "Samples");
            page.raw("<th class=\"range\"></th></tr></thead><tbody>\n");
            for (from_ns, to_ns, count) in octaves {
                let to = if to_ns == u64::MAX { "more".to_owned() } else { units::duration(to_ns) };
                page.raw("<tr>").leaf("td", "n", &units::duration(from_ns)).leaf("td", "n", &to);
                page.leaf("td", "n", &units::count(count)).raw("<td class=\"range\"><svg class=\"bar\">");
                let width = format!("{:.2}%", count as f64 / most as f64 * 100.0);
                page.open("rect", &[("width", &width), ("y", "3"), ("height", "10")]).close("rect");
                page.raw("</svg></td></tr>\n");
            }
            page.raw("</tbody></table></div>\n");
        }
        page
    }
}

/// Samples by octave, including empty octaves in between.
fn octaves(counts: &[u64; BUCKETS]) -> Vec<(u64, u64, u64)> {
    let mut octaves: Vec<(u64, u64, u64)> = Vec::new();
    for (bucket, count) in counts.iter().enumerate() {
        let (low, high) = bounds(bucket);
        match octaves.last_mut() {
            Some((from, to, sum)) if low > 0 && low.ilog2() == (*from).max(1).ilog2() => {
                (*to, *sum) = (high, *sum + count);
            }
            _ => octaves.push((low, high, *count)),
        }
    }
    let is_some = |octave: &(u64, u64, u64)| octave.2 > 0;
    let first = octaves.iter().position(is_some).unwrap_or(0);
    let last = octaves.iter().rposition(is_some).map_or(0, |last| last + 1);
    octaves.get(first..last).unwrap_or_default().to_vec()
}

/// The section; empty without latency measurement.
pub(super) fn section(report: &Report, distribution: Option<&Distribution>) -> Markup {
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
        let texts = texts(flow, one);
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
    page.append(&distribution.map(Distribution::tables).unwrap_or_default());
    // The accuracy of the figures, as worded in the text report.
    let text =
        sections(report, 400, Paint::PLAIN).into_iter().find(|section| section.topic == Topic::Latency);
    if let Some(line) =
        text.and_then(|section| section.lines.into_iter().find(|line| line.starts_with("Percentiles")))
    {
        page.leaf("p", "hint", &line);
    }
    page
}

/// Samples, percentiles, those of a recording with their ranges, and the longest.
fn texts(flow: &Flow, one: &Latency) -> [String; 5] {
    let ranges = flow.latency_range_ns.as_deref().map(ranges);
    let [p50_range, p99_range] =
        ranges.map_or_else(Default::default, |of| of.map(|range| format!(" ({range})")));
    let p99_range = if one.count < P99_SAMPLES { String::new() } else { p99_range };
    let requests = Requests::of(flow, one);
    [
        units::count(one.count),
        requests.p50(one.p50) + &p50_range,
        requests.p99(one.p99) + &p99_range,
        requests.p999(one.p999.get()),
        units::duration(one.max),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::account::latency::bucket;

    #[test]
    fn samples_by_octave_have_no_hole_and_no_margin() {
        let mut counts = [0; BUCKETS];
        counts[bucket(2_100)] += 3;
        counts[bucket(3_900)] += 4;
        counts[bucket(10_000)] += 1;
        assert_eq!(octaves(&counts), [(2_048, 4_096, 7), (4_096, 8_192, 0), (8_192, 16_384, 1)]);
        let mut ends = [0; BUCKETS];
        (ends[0], ends[BUCKETS - 1]) = (2, 5);
        let all = octaves(&ends);
        assert_eq!((all[0].2, all[0].0, all.last().unwrap().1), (2, 0, u64::MAX));
        assert_eq!(all.iter().map(|(.., count)| count).sum::<u64>(), 7);
        assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].0), "{all:?}");
    }
}
